"""Answers to actions off the menu: relations of Brown and Sandholm (2017), §6 and §7; certificates."""

from __future__ import annotations

import collections
import dataclasses
import functools
import re
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget.gadgets.ranges import Ranges
from jaxgadget.games.examples import off_tree_coin_toss
from jaxgadget.games.leduc.no_limit import NoLimitLeduc
from jaxgadget.games.menu import MenuAbstraction
from jaxgadget.policy.exact import solve_exactly
from jaxgadget.subgames.abstract import look_up, root_mass
from jaxgadget.subgames.off_tree import METHODS
from jaxgadget.tree.cut import cut_at
from jaxgadget.tree.forest import build_forest
from tests.solving import nested_off_tree, settings

POT = ["Fold", "Call", "Bet 1", "AllIn"]
SAFE = (jg.Resolving(jg.NoPrior()), jg.MaxMargin(jg.NoPrior()))
ALL = (*SAFE, jg.ReachMaxMargin(jg.NoPrior()), jg.Resolving(jg.UniformPrior(), 0.01))
SHAPES = {
    "two ways off": {"bets": "1/2-1-a", "stack": 9, "max_raises": 2, "num_ranks": 2},
    "deep": {"bets": "1/2-1-a", "stack": 13, "max_raises": 2, "num_ranks": 2},
    "two bets off": {"bets": "1/2-1-2-a", "stack": 7, "max_raises": 1, "num_ranks": 3},
}


@functools.cache
def whole(shape: str) -> jg.HistoryTree:
    return jg.enumerate_game(NoLimitLeduc(**SHAPES[shape], suit_isomorphism=True))


@functools.cache
def small(shape: str) -> jg.HistoryTree:
    return jg.enumerate_game(MenuAbstraction(whole(shape).game, {0: POT, 1: POT}))


@functools.cache
def exact(shape: str, of: str) -> Any:
    return solve_exactly({"whole": whole, "small": small}[of](shape))


def blueprints(shape: str) -> jg.Policy:
    tree = small(shape)
    return jg.Policy.stack([exact(shape, "small").policy, jg.Policy.dirichlet(tree, 3)])


def guaranteed(policy: jg.Policy, tree: jg.HistoryTree, player: int) -> Any:
    """Values in another tree, by best responses there."""
    return -jg.evaluate_policy(jg.lift(policy, tree)).best_response_values[player]


@functools.cache
def solved(shape: str, player: int, method: str) -> jg.OffTree:
    gadgets = (*ALL, jg.Unsafe()) if method == "expensive" else ALL
    return nested_off_tree(
        small(shape), blueprints(shape), gadgets, player=player, method=method, algorithm="lp"
    )


def assert_certified(shape: str, player: int, method: str) -> None:
    """The certificate equals best responses in the whole game, and the menu's value bounds it."""
    found, value = solved(shape, player, method), exact(shape, "whole").value
    assert len(found.levels) >= 2 and all(level.forests for level in found.levels)
    expected = guaranteed(found.policy, whole(shape), player)
    np.testing.assert_allclose(found.certificate, expected, rtol=0, atol=1e-9)
    sign = 1 if player == 0 else -1
    np.testing.assert_allclose(found.exploitability, sign * value - expected, rtol=0, atol=1e-9)
    assert (found.exploitability > -1e-9).all() and np.ptp(found.certificate) > 1e-3
    assert found.game_value == pytest.approx((value, value), abs=1e-9)
    assert found.menu_value is not None and sign * (found.menu_value[0] - value) < 1e-9
    assert (found.certificate <= sign * found.menu_value[1] + 1e-9).all()
    table = found.table
    assert list(table.blueprint[:2]) == ["lp", "dirichlet:3"] and (table.gap_max < 1e-9).all()
    assert set(table.subgames) == {found.num_subgames} and set(table.method) == {method}


def assert_safe(shape: str, player: int) -> None:
    """Level by level the safe method guarantees at least as much as translation."""
    found = solved(shape, player, "safe")
    translated = jg.translate_off_tree(small(shape), blueprints(shape), player=player, algorithm="lp")
    levels = [level.certificate for level in found.levels]
    count = 2 * len(SAFE)
    floor = np.tile(translated.certificate, len(SAFE))
    for certificate in levels:
        assert (certificate[:count] >= floor - 1e-9).all()
        floor = certificate[:count]
    assert (floor > np.tile(translated.certificate, len(SAFE)) + 1e-3).any()
    expected = -jg.evaluate_policy(jg.translate(blueprints(shape), whole(shape))).best_response_values[player]
    np.testing.assert_allclose(translated.certificate, expected, rtol=0, atol=1e-9)
    assert set(translated.table.method) == {"translation:pseudo-harmonic"}
    assert translated.table.gadget.isna().all() and (translated.table.subgames == 0).all()


@pytest.mark.parametrize("method", ["inexpensive", "safe"])
def test_the_certificate_is_the_guaranteed_value_in_the_whole_game(method: str) -> None:
    shape, player = ("two ways off", 1)
    assert_certified(shape, player, method)


@pytest.mark.parametrize("method", ["inexpensive", "safe"])
def test_on_the_menu_the_blueprint_is_played(method: str) -> None:
    found, tree = solved("two ways off", 1, method), small("two ways off")
    rows = jg.lift(found.policy, tree).probabilities
    for player in (0, 1):
        expected = blueprints("two ways off").probabilities[player]
        np.testing.assert_allclose(rows[player], np.tile(expected, len(found.gadgets)), atol=1e-12)


def test_safe_answers_never_guarantee_less_than_translation() -> None:
    assert_safe("two ways off", 1)


@pytest.mark.parametrize("method", METHODS)
def test_without_off_tree_actions_nothing_changes(method: str) -> None:
    tree, policy = small("two ways off"), blueprints("two ways off")
    found = nested_off_tree(tree, policy, SAFE, player=1, method=method, off_tree_actions=[], algorithm="lp")
    assert found.levels == () and found.num_subgames == 0
    rows = jg.lift(found.policy, tree).probabilities[1]
    np.testing.assert_array_equal(rows, np.tile(policy.probabilities[1], 2))
    kept = jg.enumerate_game(MenuAbstraction(whole("two ways off").game, {0: POT}))
    np.testing.assert_allclose(found.certificate, np.tile(guaranteed(policy, kept, 1), 2), atol=1e-9)


@pytest.mark.parametrize(
    ("prices", "heads"), [((0.5, -0.5), 0.25), ((-0.5, 0.5), 0.75)], ids=["as printed", "swapped"]
)
@pytest.mark.parametrize("make", [jg.Resolving, jg.MaxMargin])
@pytest.mark.parametrize("method", ["inexpensive", "expensive"])
def test_coin_toss(prices: tuple[float, float], heads: float, make: Any, method: str) -> None:
    """Only Sell is in the abstraction: its value is the alternative."""
    tree = jg.enumerate_game(off_tree_coin_toss(*prices))
    found = nested_off_tree(
        tree, jg.Policy.uniform(tree), make(jg.NoPrior()), player=1, method=method, algorithm="lp"
    )
    assert found.certificate == pytest.approx([0], abs=1e-9)
    assert found.exploitability == pytest.approx([0], abs=1e-9)
    rows = found.policy.probabilities[1][:, 0]
    assert rows[:2] == pytest.approx([heads, 1 - heads], abs=1e-9)


def one_way_off() -> tuple[jg.HistoryTree, jg.HistoryTree, list[str]]:
    """The whole game, and the game in which player 0 has a menu and player 1 all actions."""
    game = jg.load("no_limit_leduc(bets=1/2-1-2-a,max_raises=1,num_ranks=2,stack=5,suit_isomorphism=True)")
    menu = ["Fold", "Call", "Bet 1", "AllIn"]
    return jg.enumerate_game(game), jg.enumerate_game(MenuAbstraction(game, {0: menu})), menu


def test_with_values_of_an_exact_solution_exploitability_is_at_most_the_gap() -> None:
    """Relation 1: the whole game's solution on the menu, and its values off the menu."""
    tree, menu_tree, _ = one_way_off()
    solution = solve_exactly(tree)
    values = jg.AbstractValues(solution.policy)
    gadgets = [make(jg.NoPrior(), alternative=values) for make in (jg.Resolving, jg.MaxMargin)]
    blueprint = jg.lift(solution.policy, menu_tree)
    found = nested_off_tree(menu_tree, blueprint, gadgets, player=1, levels=1, algorithm="lp")
    np.testing.assert_allclose(found.certificate, -solution.value, rtol=0, atol=1e-9)


def level_one() -> tuple[jg.HistoryTree, jg.HistoryTree, jg.Policy, Any]:
    """The abstraction, the game with a single action off it, a blueprint there, and its optimal answers."""
    tree = small("two ways off")
    larger = jg.enumerate_game(
        MenuAbstraction(whole("two ways off").game, {0: POT, 1: POT}, off_tree=1, off_tree_player=0)
    )
    roots = np.flatnonzero(np.isin(larger.action[0], larger.game.off_tree_actions) & (larger.actor > 0))
    blueprint = jg.lift(exact("two ways off", "small").policy, larger)
    optimal = jg.refine(
        larger, cut_at(larger, "off tree", roots), blueprint, jg.OptimalContinuation(jg.NoPrior()),
        player=1, algorithm="lp",
    )  # fmt: skip
    return tree, larger, blueprint, optimal


@pytest.mark.slow
def test_values_of_the_optimal_answers_are_as_good_as_they_are() -> None:
    """Relation 1, for the optimum that keeps the blueprint on the menu; also through `refine`."""
    tree, larger, blueprint, optimal = level_one()
    best = guaranteed(optimal.policy, larger, 1)[0]
    gadgets = [
        make(jg.NoPrior(), alternative=jg.AbstractValues(optimal.policy))
        for make in (jg.Resolving, jg.MaxMargin, jg.ReachMaxMargin)
    ]
    policy = exact("two ways off", "small").policy
    found = nested_off_tree(tree, policy, gadgets, player=1, levels=1, algorithm="lp")
    np.testing.assert_allclose(found.certificate, best, rtol=0, atol=1e-9)
    again = jg.refine(larger, optimal.forest.cut, blueprint, gadgets, player=1, algorithm="lp")
    np.testing.assert_allclose(guaranteed(again.policy, larger, 1), best, rtol=0, atol=1e-9)
    assert np.isnan(again.exploitability_bound).all()
    assert set(again.table.alternative) == {"abstract"}


@pytest.mark.parametrize("shift", [0.4, 1.0])
def test_max_margin_loses_at_most_twice_the_error_of_the_values(shift: float) -> None:
    """Theorem 2, with the error of the alternative values."""
    tree, larger, _, optimal = level_one()
    best = guaranteed(optimal.policy, larger, 1)[0]
    poor = jg.Policy.dirichlet(tree, 5)
    policy = exact("two ways off", "small").policy
    mixed = tuple(
        (1 - shift) * a + shift * b for a, b in zip(policy.probabilities, poor.probabilities, strict=True)
    )
    promised = jg.Policy(tree, mixed, ("mixed",))  # type: ignore[arg-type]
    forest = build_forest(larger, optimal.forest.cut)
    known, true = look_up(promised, forest, 1), look_up(optimal.policy, forest, 1)
    mass = root_mass(forest, 1, optimal.policy)
    reached = mass > 0
    error = np.abs(known.value[reached] / known.mass[reached] - true.value[reached] / mass[reached]).max()
    assert error > 1e-3
    gadget = jg.MaxMargin(jg.NoPrior(), alternative=jg.AbstractValues(promised, error=error))
    found = nested_off_tree(tree, policy, [gadget, SAFE[0]], player=1, levels=1, algorithm="lp")
    assert found.above_optimum[0] == pytest.approx(2 * error, abs=1e-9) and np.isnan(found.above_optimum[1])
    assert best - found.certificate[0] <= found.above_optimum[0] + 1e-9
    again = jg.refine(larger, forest.cut, jg.lift(policy, larger), gadget, player=1, algorithm="lp")
    assert again.exploitability_bound[0] == pytest.approx(again.blueprint_exploitability[0] + 2 * error)
    assert again.refined_exploitability[0] <= again.exploitability_bound[0] + 1e-9


def test_alternative_values_are_values_before_the_action_without_it() -> None:
    """By definition, in the abstraction: the best of the actions on the menu, at every infoset before it."""
    tree, larger, _, optimal = level_one()
    policy = jg.Policy.dirichlet(tree, 2)
    best = jg.best_response(policy, 0).action_values[:, 0]
    forest = optimal.forest
    known = look_up(policy, forest, 1)
    assert len(forest.roots[0]) > 10
    for root, sequence in enumerate(forest.roots[0].sequence.tolist()):
        name = larger.infoset_names[0][larger.infosets[0].infoset[sequence]]
        infoset = tree.infoset_names[0].index(name)
        own = tree.infosets[0]
        actions = slice(
            own.first_sequence[infoset] - 1, own.first_sequence[infoset] - 1 + own.num_actions[infoset]
        )
        assert known.value[root, 0] == pytest.approx(-best[actions].max(), abs=1e-12)


def test_a_level_knows_nothing_of_the_next() -> None:
    """Alternative values and answers at level 1 do not depend on the number of levels."""
    tree, policy = small("two ways off"), blueprints("two ways off")
    once = nested_off_tree(tree, policy, SAFE, player=1, levels=1, algorithm="lp")
    np.testing.assert_array_equal(
        once.certificate, solved("two ways off", 1, "inexpensive").levels[0].certificate[:4]
    )
    rows = jg.lift(solved("two ways off", 1, "inexpensive").policy, once.policy.tree).probabilities[1]
    np.testing.assert_allclose(once.policy.probabilities[1], rows[:, :4], atol=1e-12)
    translated = jg.translate(once.policy, whole("two ways off"))
    expected = -exact("two ways off", "whole").value - guaranteed(translated, whole("two ways off"), 1)
    np.testing.assert_allclose(once.exploitability, expected, rtol=0, atol=1e-9)
    assert once.exploitability.max() > 0.1 and np.isnan(once.above_optimum).all()


def test_actions_beyond_all_levels_are_translated() -> None:
    tree, policy = small("two ways off"), blueprints("two ways off")
    translated = jg.translate_off_tree(tree, policy, player=1, algorithm="lp")
    none = nested_off_tree(tree, policy, SAFE, player=1, levels=0, algorithm="lp")
    assert none.levels == () and none.num_subgames == 0
    np.testing.assert_allclose(none.exploitability, np.tile(translated.exploitability, 2), atol=1e-9)
    np.testing.assert_allclose(none.certificate, np.tile(guaranteed(policy, tree, 1), 2), atol=1e-9)


def test_strategies_on_the_whole_tree_are_those_that_were_measured() -> None:
    """Also with another translation rule at levels without answers."""
    tree, policy = small("two bets off"), blueprints("two bets off")
    asked = {"player": 1, "levels": 0, "algorithm": "lp"}
    usual, linear = (
        nested_off_tree(tree, policy, SAFE, **settings(**asked, **r)) for r in ({}, {"rule": "linear"})
    )
    for found in (usual, linear):
        played = found.on(whole("two bets off"))
        expected = -exact("two bets off", "whole").value - guaranteed(played, whole("two bets off"), 1)
        np.testing.assert_allclose(found.exploitability, expected, rtol=0, atol=1e-9)
    assert np.abs(usual.exploitability - linear.exploitability).max() > 1e-3


def test_the_safe_method_bounds_values_level_by_level() -> None:
    tree, policy = small("two ways off"), blueprints("two ways off")
    once = nested_off_tree(tree, policy, SAFE, player=1, method="safe", levels=1, algorithm="lp")
    larger = once.policy.tree
    left = np.zeros(larger.num_histories, int)
    off_tree = [a for a in range(larger.game.num_actions) if larger.game.action_string(0, a) not in POT]
    for history in range(1, larger.num_histories):
        left[history] = left[larger.parent[history]] + (larger.action[0, history] in off_tree)
    translated = np.tile(jg.translate(policy, larger).probabilities[1], len(SAFE))
    changed = np.abs(once.policy.probabilities[1] - translated).max(axis=1) > 1e-9
    times = left[larger.infosets[1].history[larger.infosets[1].infoset[1:]]]
    assert times.max() == 2 and set(times[changed].tolist()) == {1}


def test_by_cfr_the_certificate_holds_and_another_blueprint_compiles_nothing() -> None:
    tree, asked = small("two ways off"), [jg.MaxMargin(jg.NoPrior()), jg.MaxMargin()]
    options: dict[str, Any] = {"player": 1, "levels": 1, "iterations": 200, "value": (0.0, 0.0)}
    found = nested_off_tree(tree, jg.Policy.dirichlet(tree, 3), asked, **settings(**options))
    assert [len(level.forests) for level in found.levels] == [1] and 0 < found.table.gap_max.max() < 0.05
    larger = found.policy.tree
    np.testing.assert_allclose(found.certificate, guaranteed(found.policy, larger, 1), rtol=0, atol=1e-9)
    assert list(found.table.prior) == ["none", "blueprint"]
    again = nested_off_tree(tree, jg.Policy.dirichlet(tree, 4), asked, **settings(**options))
    assert again.seconds["compile"] == 0


def lowered(solve: Callable[[], object]) -> collections.Counter[str]:
    """How often JAX lowers each function within the context, in its disk cache or not."""
    names: list[str] = []

    def listen(event: str, duration: float, **about: Any) -> None:
        if event == "/jax/core/compile/jaxpr_to_mlir_module_duration":
            names.append(about["fun_name"])

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        solve()
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    return collections.Counter(names)


def test_all_off_tree_actions_of_a_level_are_one_program() -> None:
    """Two actions after many public histories, several gadgets: one loop. New blueprints compile nothing."""
    tree = jg.enumerate_game(small("two bets off").game)
    larger = MenuAbstraction(whole("two bets off").game, {0: POT, 1: POT}, off_tree=1, off_tree_player=0)
    size = jg.enumerate_game(larger).num_histories  # the whole game is not evaluated
    policy = jg.Policy.stack([jg.Policy.dirichlet(tree, seed) for seed in range(7)])
    gadgets = [jg.Resolving(jg.NoPrior()), jg.Resolving(), jg.MaxMargin()]
    asked: dict[str, Any] = {"player": 1, "levels": 1, "iterations": 5, "max_histories": size}
    found: list[jg.OffTree] = []

    def answer(policy: jg.Policy, **more: Any) -> collections.Counter[str]:
        return lowered(
            lambda: found.append(nested_off_tree(tree, policy, gadgets, **settings(**asked, **more)))
        )

    together = answer(policy)
    assert found[-1].num_subgames == 14 and len(found[-1].levels[0].forests) == 1
    together.pop("jit(broadcast_in_dim)", None)  # of other shapes, unless an earlier test compiled them
    assert together["jit(run)"] == together["jit(certify_average)"] == 1 and max(together.values()) <= 2
    assert not answer(jg.Policy.stack([jg.Policy.dirichlet(tree, seed) for seed in range(7, 14)]))


def test_the_blueprint_prior_is_the_reach_before_the_action() -> None:
    """At level 2 it is the reach before the first action, because later play of the opponent is unknown."""
    tree = small("deep")
    policy = jg.Policy.dirichlet(tree, 4)
    seen: list[tuple[Any, Any]] = []

    @dataclasses.dataclass(frozen=True)
    class Recording(jg.MaxMargin):
        def tables(self, ranges: Ranges) -> Any:
            seen.append((ranges.subgame, self.prior.weight(ranges)))
            return super().tables(ranges)

    found = nested_off_tree(tree, policy, Recording(jg.BlueprintPrior(1e-9), 0.5), player=1, algorithm="lp")
    assert len(found.levels) == len(seen) == 2
    own = dict(zip(tree.infoset_names[0], tree.infosets[0].first_sequence.tolist(), strict=True))
    for level, (subgame, weight) in zip(found.levels, seen, strict=True):
        (forest,) = level.forests
        game, infosets = forest.tree.game, forest.tree.infosets[0]
        reach = np.ones(len(subgame))
        for root, sequence in enumerate(forest.roots[0].sequence.tolist()):
            while sequence:
                infoset, action = int(infosets.infoset[sequence]), int(infosets.action[sequence])
                first = own.get(forest.tree.infoset_names[0][infoset])
                if first is not None and action not in game.off_tree_actions:
                    legal = tree.infosets[0].action[first:].tolist()
                    reach[root] *= policy.probabilities[0][first - 1 + legal.index(action), 0]
                sequence = int(infosets.parent[infoset])
        share = reach / np.bincount(subgame, reach)[subgame]
        np.testing.assert_allclose(weight[:, 0], share, rtol=0, atol=1e-12)
        assert np.ptp(share) > 0.1


def test_exploitability_without_memory_is_unknown() -> None:
    """The certificate exists all the same, and with the game's value so does exploitability."""
    tree, policy = small("two ways off"), exact("two ways off", "small").policy
    found = solved("two ways off", 1, "inexpensive")
    size = found.policy.tree.num_histories
    assert size < whole("two ways off").num_histories
    fresh = jg.enumerate_game(tree.game)
    policy = jg.Policy(fresh, policy.probabilities, policy.labels)
    asked: dict[str, Any] = {"player": 1, "algorithm": "lp", "max_histories": size}
    limited = nested_off_tree(fresh, policy, SAFE[0], **settings(**asked))
    np.testing.assert_allclose(limited.certificate, found.certificate[:1], atol=1e-9)
    assert np.isnan(limited.exploitability).all() and limited.game_value is None
    assert limited.table.game_value.isna().all()
    value = exact("two ways off", "whole").value
    known = nested_off_tree(fresh, policy, SAFE[0], value=(value, value), **settings(**asked))
    np.testing.assert_allclose(known.exploitability, found.exploitability[:1], atol=1e-9)


def refused(text: str, tree: jg.HistoryTree | None = None, gadget: Any = SAFE[0], **options: Any) -> None:
    tree = small("two ways off") if tree is None else tree
    with pytest.raises(ValueError, match=re.escape(text)):
        nested_off_tree(
            tree, jg.Policy.uniform(tree), gadget, **settings(**{"player": 1, "algorithm": "lp", **options})
        )


def test_bad_input_is_refused() -> None:
    refused("expected one of a MenuAbstraction", whole("two ways off"))
    refused("expected one of inexpensive, expensive, safe", method="cheap")
    refused("is on the menu", off_tree_actions=["Bet 1"])
    refused("unsafe requires the opponent's range", gadget=jg.Unsafe())
    refused("requires the optimal continuation", gadget=jg.Resolving(alternative=jg.ContinuationValues()))
    refused(
        "requires values of an abstr", gadget=jg.Resolving(alternative=jg.AbstractValues()), method="safe"
    )
    refused(
        "max_histories",
        jg.enumerate_game(small("two ways off").game),
        max_histories=small("two ways off").num_histories,
    )
    only = jg.enumerate_game(MenuAbstraction(whole("two ways off").game, {1: POT}))
    refused("expected a player with a menu", only)
    two = jg.Policy.stack([jg.Policy.uniform(small("two ways off"))] * 2)
    refused("the policy has 2 lanes", gadget=jg.Resolving(alternative=jg.AbstractValues(two)))
    with pytest.raises(ValueError, match="expected a Policy"):
        jg.AbstractValues("uniform")
    with pytest.raises(ValueError, match="error="):
        jg.AbstractValues(two, error=-1)
    with pytest.raises(ValueError, match="only nested_off_tree knows one"):
        asked = jg.Resolving(alternative=jg.AbstractValues())
        jg.refine(
            whole("two ways off"), "depth:1", jg.Policy.uniform(whole("two ways off")), asked, algorithm="lp"
        )


def test_both_may_not_act_at_once() -> None:
    game = jg.load("goofspiel(num_cards=3,imp_info=True,points_order=descending)")
    tree = jg.enumerate_game(MenuAbstraction(game, {0: [0, 1]}))
    refused("menu", tree)


def test_play_off_the_menu_continues_after_the_first_bet() -> None:
    """After a bet of 2, mapped to 1, translation bets 1/2 where the shadow bets 1, which is too much."""
    game = NoLimitLeduc(bets="1/2-1-2", stack=13, max_raises=1, num_ranks=2, suit_isomorphism=True)
    menu = ["Fold", "Call", "Bet 1"]
    tree = jg.enumerate_game(MenuAbstraction(game, {0: menu, 1: menu}))
    bets = np.array([tree.game.action_string(0, a) == "Bet 1" for a in tree.infosets[0].action[1:].tolist()])
    infoset = tree.infosets[0].infoset[1:]
    uniform = jg.Policy.uniform(tree)
    may = np.bincount(infoset, bets)[infoset] > 0
    rows = np.where(may, bets, uniform.probabilities[0][:, 0])[:, None]
    policy = jg.Policy(tree, (rows, uniform.probabilities[1]), ("bets",))
    found = nested_off_tree(tree, policy, SAFE[0], player=1, method="safe", levels=1, algorithm="lp")
    translated = jg.translate_off_tree(tree, policy, player=1, algorithm="lp")
    assert found.certificate[0] >= translated.certificate[0] - 1e-9
