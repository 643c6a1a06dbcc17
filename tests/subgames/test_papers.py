"""The papers' worked examples: every number, and all optimal strategies instead of a single one.

Optimal strategies of a gadget form a polytope; `Face` computes the minimum and maximum of a sum of
probabilities on it by linear programs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import pytest

import jaxgadget
from jaxgadget import (
    ArrayValues,
    BlueprintPrior,
    Full,
    MaxMargin,
    NoPrior,
    Policy,
    ReachMaxMargin,
    ReachResolving,
    Resolving,
    UniformPrior,
    Unsafe,
)
from jaxgadget.core.lp.solve import Goal, solve_program
from jaxgadget.core.problem import Parts, Problem
from jaxgadget.core.response import evaluate
from jaxgadget.gadgets.alternative import find_gifts
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.gadgets.games import Prepared, build_games
from jaxgadget.policy.exact import solve_exactly
from jaxgadget.subgames.prepare import prepare
from jaxgadget.tree.cut import CutSpec, cut
from jaxgadget.tree.forest import build_forest
from jaxgadget.tree.history import HistoryTree
from jaxgadget.util.precision import precision
from tests.trees import tree_of

Rows = Mapping[str, Mapping[str, float]]
"""Infostate → action → probability."""

SURE = 1e-6


def actions(tree: HistoryTree, player: int) -> dict[tuple[str, str], int]:
    """Row of every (infostate, action) in `Policy.probabilities`."""
    infosets, names = tree.infosets[player], tree.infoset_names[player]
    return {
        (names[j], tree.game.action_string(player, int(a))): row
        for row, (j, a) in enumerate(zip(infosets.infoset[1:].tolist(), infosets.action[1:], strict=True))
    }


def state(tree: HistoryTree, player: int, what: str) -> str:
    """The only infoset of a player whose name contains a text."""
    (name,) = [name for name in tree.infoset_names[player] if what in name]
    return name


def policy(tree: HistoryTree, player: int, rows: Rows) -> Policy:
    """Uniform, except for some infosets of a player, given by a part of their name in `rows`."""
    pair = [part.copy() for part in Policy.uniform(tree).probabilities]
    for what, row in rows.items():
        name = state(tree, player, what)
        for (infoset, action), place in actions(tree, player).items():
            if infoset == name:
                pair[player][place, 0] = row.get(action, 0.0)
    return Policy(tree, (pair[0], pair[1]), ("example",))


class Face:
    """All optimal strategies of the resolving player in one gadget game, or in the whole game."""

    def __init__(self, tree: HistoryTree, player: int, problem: Problem, sequences: Any):
        self.tree, self.player, self.problem = tree, player, problem
        self.place = {int(s) - 1: k for k, s in enumerate(sequences.tolist())}
        optimum = solve_program(problem, 0, Goal(maximiser=player), name="optimum")
        self.optimum = float(optimum.value.sum())

    @staticmethod
    def of(blueprint: Policy, where: CutSpec, gadget: Gadget, player: int) -> Face:
        prepared, problem = built(blueprint, where, gadget, player)
        return Face(blueprint.tree, player, problem, prepared.forest.form.action_sequences(player))

    def range(self, what: str, action: str) -> tuple[float, float]:
        """Minimum and maximum probability of an action that is played directly below the root."""
        body = self.problem.sides[self.player].body
        row = actions(self.tree, self.player)[state(self.tree, self.player, what), action]
        extremes: list[float] = []
        for sign in (-1.0, 1.0):
            bonus = np.zeros(body.num_sequences)
            bonus[body.num_roots + self.place[row]] = sign
            goal = Goal(
                maximiser=self.player, guarantee_weight=0.0, at_least=self.optimum - 1e-9, bonus=bonus
            )
            rows = solve_program(self.problem, 0, goal, name="face").strategy[self.player].body
            extremes.append(float(rows[self.place[row]]))
        return extremes[0], extremes[1]


def built(blueprint: Policy, where: CutSpec, gadget: Gadget, player: int) -> tuple[Prepared, Problem]:
    """A blueprint on a forest, and its gadget games."""
    forest = build_forest(blueprint.tree, where, padded=False)
    prepared = prepare(forest, player, blueprint, [gadget])
    games = build_games(prepared, [gadget])
    with precision(np.float64):
        return prepared, jax.device_put(games.batch.problem())


def normalised(blueprint: Policy, where: str, player: int) -> list[float]:
    """`V̄(s) / N(s)` of the opponent's root infostates."""
    prepared, _ = built(blueprint, where, Resolving(NoPrior()), player)
    return (prepared.ranges.cbv / prepared.ranges.mass)[:, 0].tolist()


def value_in(given: Policy, blueprint: Policy, where: CutSpec, gadget: Gadget, player: int) -> float:
    """The value of a strategy in the gadget of a blueprint, summed over subgames."""
    prepared, problem = built(blueprint, where, gadget, player)
    with precision(np.float64):
        sequence = prepared.forest.form.action_sequences(player)
        rows = given.probabilities[player][sequence - 1]
        entry = problem.sides[1 - player].entry
        theirs = Parts(entry.share[:, None], jax.device_put(prepared.rows[1 - player]))
        ours = Parts(jax.device_put(np.zeros((0, 1))), jax.device_put(rows))
        guaranteed = evaluate(problem, (ours, theirs) if player == 0 else (theirs, ours)).guaranteed
    return float(np.asarray(guaranteed[player]).sum())


def exploited(given: Policy, player: int) -> float:
    value = solve_exactly(given.tree).value
    return float(jaxgadget.exploitability(given, player, value=(value, value))[0])


def only(face: Face, what: str, expected: Mapping[str, float]) -> None:
    """Every optimal strategy plays these probabilities."""
    for action, probability in expected.items():
        assert face.range(what, action) == pytest.approx((probability, probability), abs=SURE), action


# Kubíček, Lisý and Sandholm (2026), Figure 1


PENNIES = {"": {"Forfeit": 0.5, "Heads": 0.5}}


def pennies() -> Policy:
    return policy(tree_of("matching_pennies_forfeit"), 0, PENNIES)


def test_figure_1_values() -> None:
    assert sorted(normalised(pennies(), "subgame", 0)) == pytest.approx([-0.5, 0.0], abs=1e-12)


def test_figure_1_max_margin_has_one_equilibrium() -> None:
    face = Face.of(pennies(), "subgame", MaxMargin(NoPrior()), 0)
    only(face, "", {"Forfeit": 0.0, "Heads": 0.75, "Tails": 0.25})
    result = jaxgadget.refine(
        pennies().tree,
        "subgame",
        pennies(),
        MaxMargin(NoPrior()),
        solver=jaxgadget.Solver(iterations=2000, dtype="float64"),
    )
    assert result.policy.probabilities[0][:, 0] == pytest.approx([0.0, 0.75, 0.25], abs=0.01)


def test_figure_1_resolving_may_forfeit_and_its_sequential_equilibria_never_do() -> None:
    face = Face.of(pennies(), "subgame", Resolving(NoPrior()), 0)
    assert face.range("", "Forfeit")[1] >= 0.5 - SURE  # the blueprint is a solution
    for prior in (UniformPrior(), BlueprintPrior()):
        perturbed = Face.of(pennies(), "subgame", Resolving(prior, 1e-3), 0)
        assert perturbed.range("", "Forfeit") == pytest.approx((0.0, 0.0), abs=SURE)
        asked = [Resolving(prior, "auto"), Resolving(prior, 1e-3)]
        result = jaxgadget.refine(pennies().tree, "subgame", pennies(), asked, algorithm="lp")
        assert result.policy.probabilities[0][0] == pytest.approx([0.0, 0.0], abs=1e-12)


# Figures 5, 8 and 11: Observations 1, 2 and 3


def whole(tree: HistoryTree, player: int) -> Face:
    """All equilibrium strategies of a whole game."""
    return Face.of(Policy.uniform(tree), "depth:0", Unsafe(), player)


def in_states(name: str, first: float, second: float) -> Policy:
    """Player 0 plays Heads with the given probabilities in state 1 and in 2|3."""
    rows = [{"Heads": p, "Tails": 1 - p} for p in (first, second)]
    one, two = tree_of(name).infoset_names[0]
    return policy(tree_of(name), 0, {one: rows[0], two: rows[1]})


@pytest.mark.slow
def test_figure_5() -> None:
    """Observation 1: solutions of one gadget differ in exploitability."""
    name = "three_state_figure5"
    tree, blueprint = tree_of(name), in_states(name, 0.0, 0.5)
    one, two = tree.infoset_names[0]
    assert solve_exactly(tree).value == pytest.approx(7 / 9, abs=1e-9)
    only(whole(tree, 0), one, {"Heads": 2 / 3})
    only(whole(tree, 0), two, {"Heads": 1 / 2})
    assert sorted(normalised(blueprint, "subgame", 0)) == pytest.approx([0.25, 0.5], abs=1e-12)
    assert exploited(blueprint, 0) == pytest.approx(4 / 9, abs=1e-8)
    assert exploited(in_states(name, 2 / 3, 0.5), 0) == pytest.approx(0, abs=1e-8)
    for gadget in (Resolving(NoPrior()), MaxMargin(NoPrior())):
        face = Face.of(blueprint, "subgame", gadget, 0)
        only(face, two, {"Heads": 0.5})
        low, high = face.range(one, "Heads")
        assert low <= SURE and high >= 2 / 3 - SURE
        for given in (blueprint, in_states(name, 2 / 3, 0.5)):
            found = value_in(given, blueprint, "subgame", gadget, 0)
            assert found == pytest.approx(face.optimum, abs=1e-8)


def test_figure_8() -> None:
    """Observation 2: neither gadget can find the equilibrium."""
    tree = tree_of("sequential_rps")
    rock = policy(tree, 0, {"": {"Rock": 1.0}})
    for gadget in (Resolving(NoPrior()), MaxMargin(NoPrior())):
        only(Face.of(rock, "subgame", gadget, 0), "", {"Rock": 1.0, "Paper": 0.0, "Scissors": 0.0})
    assert exploited(rock, 0) == pytest.approx(1, abs=1e-8)
    floor = jaxgadget.refine(tree, "subgame", rock, Full(NoPrior()), algorithm="lp", value=(0.0, 0.0))
    assert floor.refined_exploitability == pytest.approx([0.0], abs=1e-8)


@pytest.mark.slow
def test_figure_11() -> None:
    """Observation 3: resolving can be better than every max-margin solution."""
    name = "three_state_figure11"
    tree, blueprint, best = tree_of(name), in_states(name, 0.0, 0.25), in_states(name, 1.0, 0.25)
    one, two = tree.infoset_names[0]
    assert solve_exactly(tree).value == pytest.approx(5 / 6, abs=1e-9)
    only(whole(tree, 0), one, {"Heads": 1.0})
    only(whole(tree, 0), two, {"Heads": 0.25})
    assert sorted(normalised(blueprint, "subgame", 0)) == pytest.approx([1 / 8, 1 / 4], abs=1e-12)
    margin = Face.of(blueprint, "subgame", MaxMargin(NoPrior()), 0)
    only(margin, two, {"Heads": 0.5})
    # All max-margin solutions play 1/2 in 2|3, and anything in state 1:
    least = min(exploited(in_states(name, p, 0.5), 0) for p in np.linspace(0, 1, 31))
    assert least == pytest.approx(1 / 18, abs=1e-8)
    resolving = Face.of(blueprint, "subgame", Resolving(NoPrior()), 0)
    found = value_in(best, blueprint, "subgame", Resolving(NoPrior()), 0)
    assert found == pytest.approx(resolving.optimum, abs=1e-8)
    assert exploited(best, 0) == pytest.approx(0, abs=1e-8)


# Brown and Sandholm (2017): Coin Toss


def coin_toss(name: str = "coin_toss") -> Policy:
    """The blueprint of Figure 2 for player 0; the guess of player 1 is a half, a quarter, a quarter."""
    tree = tree_of(name)
    plays = {"Heads": {"Play": 0.75, "Sell": 0.25}, "Tails": {"Play": 0.5, "Sell": 0.5}}
    first = policy(tree, 0, plays).probabilities[0]
    second = Policy.uniform(tree).probabilities[1].copy()
    row = {"Heads": 0.5, "Tails": 0.25, "Forfeit": 0.25}
    if name != "coin_toss":
        row = {"Heads": 0.5, "Tails": 0.5, "Forfeit": 0.0}
    for (_, action), place in actions(tree, 1).items():
        second[place, 0] = row[action]
    return Policy(tree, (first, second), ("Figure 2",))


def test_coin_toss_alternatives() -> None:
    """Player 0's Play has value 0 after Heads and 1/2 after Tails (player 1's utility: negated)."""
    assert sorted(normalised(coin_toss(), "play", 1)) == pytest.approx([-0.5, 0.0], abs=1e-12)


def test_coin_toss_unsafe_always_guesses_heads() -> None:
    only(Face.of(coin_toss(), "play", Unsafe(), 1), "", {"Heads": 1.0})


def test_coin_toss_resolving_may_return_the_blueprint() -> None:
    gadget = Resolving(NoPrior())
    face = Face.of(coin_toss(), "play", gadget, 1)
    found = value_in(coin_toss(), coin_toss(), "play", gadget, 1)
    assert found == pytest.approx(face.optimum, abs=1e-9)
    assert face.range("", "Forfeit")[1] >= 0.25 - SURE


@pytest.mark.parametrize(
    ("gadget", "heads", "gets"),
    [(MaxMargin(NoPrior()), 5 / 8, 3 / 8), (ReachMaxMargin(NoPrior()), 1 / 2, 1 / 4)],
)
def test_coin_toss_margins(gadget: Gadget, heads: float, gets: float) -> None:
    only(Face.of(coin_toss(), "play", gadget, 1), "", {"Heads": heads, "Tails": 1 - heads})
    for algorithm in ("lp", "cfr+"):
        result = jaxgadget.refine(
            tree_of("coin_toss"),
            "play",
            coin_toss(),
            gadget,
            player=1,
            solver=jaxgadget.Solver(algorithm=algorithm, iterations=3000, dtype="float64"),
            value=(0.0, 0.0),
        )
        best = jaxgadget.best_response(result.policy, 0)
        assert best.value[0] == pytest.approx(gets, abs=1e-8 if algorithm == "lp" else 5e-3)
        assert result.refined_exploitability[0] <= result.exploitability_bound[0] + 1e-9


def gifts_of(gadget: ReachResolving, where: Any) -> dict[str, float]:
    """Sum of gifts of each of player 0's root infostates, by the coin."""
    blueprint = coin_toss("coin_toss_two_subgames")
    forest = build_forest(blueprint.tree, where, padded=False)
    ranges = prepare(forest, 1, blueprint, [gadget]).ranges
    found = find_gifts(ranges, ranges.cbv, gadget.gifts, scaled=gadget.scaled)[:, 0]
    tree = blueprint.tree
    found_by_coin: dict[str, float] = {}
    for row, infostate in enumerate(forest.roots[0].infostate.tolist()):
        history = int(np.nonzero(tree.infostate[0] == infostate)[0][0])
        coin, *_, subgame = tree.moves(history)
        assert isinstance(coin, int)
        found_by_coin[f"{('Heads', 'Tails')[coin]} {subgame}"] = float(found[row])
    return found_by_coin


def test_two_subgames_share_a_gift_and_one_alone_keeps_it() -> None:
    """Figure 4: the alternative after Heads is 1/2 in both, or 1 in one."""
    tree = tree_of("coin_toss_two_subgames")
    whole_cut = cut(tree, "play")
    both = gifts_of(ReachResolving(NoPrior()), whole_cut)
    assert both == pytest.approx({"Heads 0": 0.5, "Heads 1": 0.5, "Tails 0": 0.0, "Tails 1": 0.0})
    one = whole_cut.only(tree.infoset_names[1][0], 1)
    alone = gifts_of(ReachResolving(NoPrior(), scaled=True), one)
    assert sorted(alone.values()) == pytest.approx([0.0, 1.0])
    unscaled = gifts_of(ReachResolving(NoPrior()), one)
    assert sorted(unscaled.values()) == pytest.approx([0.0, 0.5])
    with pytest.raises(ValueError, match="scaled="):
        gifts_of(ReachResolving(NoPrior(), scaled=True), whole_cut)


def test_the_whole_gift_in_one_subgame_is_still_safe() -> None:
    """Always guessing Tails in one subgame solves it, and gains player 0 nothing."""
    tree, blueprint = tree_of("coin_toss_two_subgames"), coin_toss("coin_toss_two_subgames")
    infostate = tree.infoset_names[1][0]
    one = cut(tree, "play").only(infostate, 1)
    tails = [part.copy() for part in blueprint.probabilities]
    for (name, action), place in actions(tree, 1).items():
        if name == infostate:
            tails[1][place, 0] = float(action == "Tails")
    always = Policy(tree, (tails[0], tails[1]), ("tails",))
    for scaled, solves in ((True, True), (False, False)):
        gadget = ReachResolving(NoPrior(), scaled=scaled)
        face = Face.of(blueprint, one, gadget, 1)
        found = value_in(always, blueprint, one, gadget, 1)
        assert (found >= face.optimum - 1e-9) == solves
    assert exploited(always, 1) <= exploited(blueprint, 1) + 1e-9
    asked = [ReachResolving(NoPrior(), scaled=True), ReachMaxMargin(NoPrior(), scaled=True)]
    result = jaxgadget.refine(tree, one, blueprint, asked, player=1, algorithm="lp", value=(0.0, 0.0))
    assert (result.refined_exploitability <= result.blueprint_exploitability + 1e-9).all()
    assert np.isnan(result.exploitability_bound).all()


# Estimates instead of best-response values (Brown and Sandholm 2017, §6)


def test_the_best_continuations_values_give_its_exploitability() -> None:
    """Resolving with the values of the least exploitable strategy attains its exploitability."""
    name = "three_state_figure11"
    blueprint, best = in_states(name, 0.0, 0.25), in_states(name, 1.0, 0.25)
    prepared, _ = built(best, "subgame", Resolving(NoPrior()), 0)
    values = ArrayValues(prepared.ranges.cbv)
    asked = [Resolving(NoPrior(), alternative=values)]
    result = jaxgadget.refine(
        tree_of(name), "subgame", blueprint, asked, algorithm="lp", value=(5 / 6, 5 / 6)
    )
    assert result.refined_exploitability == pytest.approx([0.0], abs=1e-8)
    assert np.isnan(result.exploitability_bound).all()
