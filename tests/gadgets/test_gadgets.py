"""The contract of every gadget: `GADGETS` compared with explicit trees, over priors and blueprints.

Entry reach, floors, constants, gap, value, bound, and the linear program of the same game as a tree
(`tests/reference/gadgets.py`). These tests include every registered gadget; `tests/core/twins.py` lists the
data that a new one needs. Reaches of the blueprints are unequal, zero and clipped.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgadget
from jaxgadget import (
    ArrayPrior,
    BlueprintPrior,
    Full,
    MaxMargin,
    NoPrior,
    OptimalContinuation,
    ReachMaxMargin,
    ReachResolving,
    Resolving,
    UniformPrior,
    Unsafe,
)
from jaxgadget.core import response
from jaxgadget.core.certificate import Certificate, certify_average
from jaxgadget.core.cfr import run, start
from jaxgadget.core.problem import Parts, Side, Terms, follow, payoff_reach
from jaxgadget.core.regret import find_rule
from jaxgadget.gadgets.capabilities import Capability
from jaxgadget.gadgets.entry import EntryTables, Leave, TwoLevelEntry
from jaxgadget.gadgets.gadget import AUTO, Gadget, Perturbed, TwoLevel
from jaxgadget.gadgets.prior import Prior
from jaxgadget.gadgets.ranges import Ranges
from jaxgadget.gadgets.registry import GADGETS
from jaxgadget.util.precision import precision
from jaxgadget.util.registry import find
from tests.core import grove, twins
from tests.reference import cuts, efg, gadgets, lp
from tests.reference.efg import Array, Label
from tests.solving import settings

SEED = 20
EPSILON = twins.EPSILON
ITERATIONS = (7, 300)
TOLERANCE = 1e-12
ROUNDING = 1e-9
players = pytest.mark.parametrize("player", [0, 1])
kinds = pytest.mark.parametrize("kind", list(GADGETS))
once = pytest.mark.parametrize(  # the other player: `make test-slow`
    ("kind", "player"),
    [(kind, k % 2) for k, kind in enumerate(GADGETS)],
)
CLASSES = {name: find(GADGETS, name, "gadget") for name in GADGETS}


def built(kind: str, player: int) -> twins.Built:
    return twins.built(SEED, kind, player, EPSILON)


def lanes(kind: str, player: int) -> list[twins.Lane]:
    return twins.lanes(SEED, kind, player, EPSILON)


def trees(kind: str, player: int, lane: int) -> list[gadgets.Gadget]:
    return twins.explicit(SEED, kind, player, EPSILON, lane)


def opponent(kind: str, player: int) -> tuple[Side, Terms]:
    problem = built(kind, player).problem
    return problem.sides[1 - player], problem.terms[1 - player]


def subgames(player: int, blueprint: int) -> list[gadgets.Subgame]:
    return grove.explicit(SEED, player, blueprint)


def blueprint_of(one: twins.Lane) -> efg.Strategy:
    return one.above.blueprint


def test_every_gadget_has_a_twin() -> None:
    for name, make in CLASSES.items():
        twins.find_twin(name)
        gadget = make()
        assert gadget.name == name
        assert gadget.epsilon == AUTO or 0 <= gadget.epsilon < 1
        assert gadget.requires <= frozenset(Capability)
        assert built(name, 0).entry.bound_rule(0) == gadgets.KINDS[name].bound


def test_a_gadget_without_a_twin_has_a_helpful_error() -> None:
    with pytest.raises(AssertionError, match=r"'new' has no explicit twin: build its tree in tests/ref"):
        twins.find_twin("new")


@players
def test_the_forest_has_the_explicit_subgames(player: int) -> None:
    forest = grove.forest(SEED)
    assert forest.num_subgames == grove.NUM_SUBGAMES
    for number, subgame in enumerate(subgames(player, 0)):
        np.testing.assert_array_equal(forest.cut.roots[forest.cut.subgame == number], subgame.roots)
        rows = forest.roots[1 - player].subgame == number
        assert set(forest.roots[1 - player].infostate[rows].tolist()) == set(subgame.states)


def root_of(player: int) -> dict[Label, int]:
    """The row of each of the opponent's root infostates."""
    states = grove.forest(SEED).roots[1 - player].infostate.tolist()
    return {state: row for row, state in enumerate(states)}


@players
def test_ranges_equal_the_explicit_trees(player: int) -> None:
    """`P_-i(s)`, `N(s)` and `V̄(s)`."""
    ranges, row = grove.prepared(SEED, player).ranges, root_of(player)
    compared = 0
    for b in range(grove.NUM_BLUEPRINTS):
        for subgame in subgames(player, b):
            for s in subgame.states:
                ours = [float(np.asarray(x)[row[s], b]) for x in (ranges.opponent, ranges.mass, ranges.cbv)]
                theirs = [subgame.opponent_reach(s), subgame.normalizer(s), subgame.alternative(s)]
                np.testing.assert_allclose(ours, theirs, rtol=0, atol=TOLERANCE)
                compared += 1
    assert compared == len(row) * grove.NUM_BLUEPRINTS


# The contract


@players
@kinds
def test_entries_have_the_decisions_of_the_explicit_tree(kind: str, player: int) -> None:
    """The same infosets and numbers of actions; the rest is padding."""
    here = built(kind, player)
    treeplex, used = here.entry.treeplex, set[int]()
    for one in lanes(kind, player):
        explicit = trees(kind, player, one.lane)
        assert len(explicit) == here.num_games
        for number, gadget in enumerate(explicit):
            rows = here.rows(number, one.above)
            assert set(rows) == set(gadget.entry)
            for label, actions in rows.items():
                assert len(actions) == len(gadget.entry[label].actions)
                used.update(actions)
    real = np.nonzero(treeplex.infoset >= 0)[0]
    expected = {row for i in real.tolist() for row in treeplex.rows(i).tolist()}
    assert used <= expected and (used == expected or kind.endswith("max-margin"))


@players
@kinds
def test_floors_are_epsilon_times_the_prior(kind: str, player: int) -> None:
    """At every decision of the entry they sum to ε, or to 0 without a prior or without weights."""
    side, terms = opponent(kind, player)
    assert terms.body.floor is None and terms.body.legal is None
    if side.fixed:
        assert terms.entry.floor is None
        return
    assert terms.entry.floor is not None
    floor = np.asarray(terms.entry.floor)
    expected, sums = np.zeros_like(floor), set[float]()
    for one in lanes(kind, player):
        for number, gadget in enumerate(trees(kind, player, one.lane)):
            for label, actions in built(kind, player).rows(number, one.above).items():
                expected[actions, one.lane] = gadget.floors.get(label, 0.0)
                total = float(floor[actions, one.lane].sum())
                sums.add(round(total, 9))
                assert one.name != "none" or total == 0
                assert one.name not in ("uniform", "blueprint") or total == pytest.approx(EPSILON)
    np.testing.assert_allclose(floor, expected, rtol=0, atol=TOLERANCE)  # padding has no floors
    assert sums == {0.0, EPSILON}


@dataclasses.dataclass(frozen=True)
class Played:
    """Random entries within their floors, with the blueprint below.

    Attributes:
      entry: `[Q, lanes]`.
      strategies: both players' rows in the explicit tree, by lane and game.
    """

    entry: Array
    strategies: dict[tuple[int, int], dict[Label, Array]]


@functools.cache
def played(kind: str, player: int) -> Played:
    here, (side, _) = built(kind, player), opponent(kind, player)
    entry = np.zeros((side.entry.num_actions, here.problem.num_lanes))
    strategies: dict[tuple[int, int], dict[Label, Array]] = {}
    for one in lanes(kind, player):
        rng = np.random.default_rng(one.lane)
        for number, gadget in enumerate(trees(kind, player, one.lane)):
            rows: dict[Label, Array] = {}
            for label, actions in here.rows(number, one.above).items():
                drawn = rng.dirichlet(np.ones(len(actions)))
                rows[label] = efg.with_floor(drawn, gadget.floors.get(label))
                entry[actions, one.lane] = rows[label]
            strategies[one.lane, number] = {**blueprint_of(one), **rows}
    return Played(entry, strategies)


@jax.jit
def entered(side: Side, terms: Terms, strategy: Parts) -> tuple[jax.Array, Parts]:
    """A player's entry as the payoff sees it: the reach of every sequence, and its plan."""
    plan = follow(side, terms, strategy)
    return payoff_reach(side, terms, plan), plan


@players
@kinds
def test_entry_reach_of_every_root(kind: str, player: int) -> None:
    """Reach of every root history of the explicit tree, by the entry, the opponent and chance."""
    here, other = built(kind, player), 1 - player
    side, terms = opponent(kind, player)
    body = np.zeros((side.body.num_actions, here.problem.num_lanes))
    with precision(np.float64):
        strategy = Parts(jnp.asarray(played(kind, player).entry), jnp.asarray(body))
        reach, _ = entered(side, terms, strategy)
    found = np.asarray(reach)[: side.body.num_roots]
    game, compared = grove.grove(SEED)[1], 0
    for one in lanes(kind, player):
        for number, gadget in enumerate(trees(kind, player, one.lane)):
            reaches = efg.reaches(gadget.root, played(kind, player).strategies[one.lane, number])
            inside = one.above.subgames if here.num_games == 1 else [one.above.subgames[number]]
            for subgame in inside:
                for h in subgame.roots:
                    ours = found[here.root_of[game.infostate[other][h]], one.lane] * subgame.chance_reach(h)
                    parts = reaches[gadget.places[h]] if h in gadget.places else (0.0, 0.0, 0.0)
                    expected = parts[other] * parts[2]
                    assert ours == pytest.approx(expected, rel=TOLERANCE, abs=TOLERANCE)
                    compared += expected > 0
    assert compared > 100


@players
@kinds
def test_the_resolver_carries_its_own_reach(kind: str, player: int) -> None:
    """Its reach is part of the payoff but not of its plan, whose average has root reach 1."""
    problem = built(kind, player).problem
    side = problem.sides[player]
    nothing = np.zeros((side.entry.num_actions, problem.num_lanes))
    body = np.ones((side.body.num_actions, problem.num_lanes))
    with precision(np.float64):
        strategy = Parts(jnp.asarray(nothing), jnp.asarray(body))
        reach, plan = entered(side, problem.terms[player], strategy)
    assert (np.asarray(plan.body) == 1).all()
    states = grove.forest(SEED).roots[player].infostate.tolist()
    own = {state: row for row, state in enumerate(states)}
    game = grove.grove(SEED)[1]
    zeros = 0
    for one in lanes(kind, player):
        for subgame in one.above.subgames:
            for h in subgame.roots:
                expected = subgame.resolver_reach(h)
                found = float(np.asarray(reach)[own[game.infostate[player][h]], one.lane])
                assert found == pytest.approx(expected, abs=TOLERANCE)
                zeros += expected == 0
    assert zeros > 0


@players
@kinds
def test_has_decision_marks_subgames_with_a_decision(kind: str, player: int) -> None:
    games = built(kind, player).games
    live = games.has_decision(np.arange(games.num_lanes))
    for one in lanes(kind, player):
        for number, subgame in enumerate(one.above.subgames):
            reached = any(subgame.normalizer(s) > 0 for s in subgame.states)
            entered = kind != "unsafe" or any(subgame.opponent_reach(s) > 0 for s in subgame.states)
            assert live[number, one.lane] == (reached and entered)
    assert not live.all()


evaluate = jax.jit(response.evaluate)


@once
def test_values_and_gaps_of_strategies(kind: str, player: int) -> None:
    """For the blueprint below the roots and a random entry: value, NashConv, and the resolver's guarantee.

    The value at a random entry includes all its constants: for terminating, picking, leaving the way.
    """
    prepared, other, here = grove.prepared(SEED, player), 1 - player, built(kind, player)
    problem = here.problem
    copies = problem.num_lanes // grove.NUM_BLUEPRINTS
    with precision(np.float64):
        pair = []
        for p in (0, 1):
            size = (problem.sides[p].entry.num_actions, problem.num_lanes)
            above = jnp.asarray(played(kind, player).entry if p == other else np.zeros(size))
            pair.append(Parts(above, jnp.tile(prepared.rows[p], (1, copies))))
        found = jax.tree.map(np.asarray, evaluate(problem, (pair[0], pair[1])))
    for one in lanes(kind, player):
        for number, gadget in enumerate(trees(kind, player, one.lane)):
            strategies = played(kind, player).strategies[one.lane, number]
            ours = found.value[number, one.lane], found.gap[number, one.lane]
            value = efg.value(gadget.root, strategies)
            gap = efg.nash_conv(gadget.root, strategies, gadget.floors)
            assert ours == pytest.approx((value, gap), abs=TOLERANCE)
            subgame = one.above.subgames[number]
            expected = gadgets.objective(kind, subgame, blueprint_of(one), one.prior, EPSILON)
            assert found.guaranteed[player][number, one.lane] == pytest.approx(expected, abs=TOLERANCE)
            if kind == "max-margin":
                assert expected == pytest.approx(0, abs=TOLERANCE)
    below = -found.below[player]
    roots = len(prepared.ranges.cbv)
    expected = np.tile(prepared.ranges.cbv, (1, copies))
    np.testing.assert_allclose(below[:roots], expected, rtol=0, atol=TOLERANCE)
    assert not below[roots:].any()
    # Padding has value 0.
    padding = slice(here.num_games, None)
    assert len(found.gap) > here.num_games or here.num_games == 1
    assert not found.guaranteed[player][padding].any() and not found.gap[padding].any()


@dataclasses.dataclass(frozen=True)
class Solution:
    """All lanes after some iterations: the resolving player's strategy, value, gap, `V(s)` of the roots."""

    strategy: Array
    value: Array
    gap: Array
    below: Array


certify = jax.jit(certify_average)


@functools.cache
def solved(kind: str, player: int) -> tuple[Solution, ...]:
    """CFR+ on all lanes, after each number of `ITERATIONS`."""
    games, problem = built(kind, player).games, built(kind, player).problem
    pair = games.fallbacks(np.arange(games.num_lanes), (player,))
    solutions: list[Solution] = []
    with precision(np.float64):
        state = start(problem, find_rule("cfr+"))
        for iterations in ITERATIONS:
            state = run(problem, state, np.int32(iterations), rule=find_rule("cfr+"))
            ended: Certificate = jax.tree.map(np.asarray, certify(problem, state.strategy_sum, pair))
            numbers = ended.strategy[player], ended.guaranteed[player], ended.gap, ended.below[player]
            solutions.append(Solution(*numbers))
    return tuple(solutions)


def refined(player: int, one: twins.Lane, found: Solution) -> dict[Label, Array]:
    rows = grove.body_rows(grove.forest(SEED), player, found.strategy, one.lane)
    return {**blueprint_of(one), **rows}


@once
def test_solutions_bracket_the_linear_program_of_the_explicit_tree(kind: str, player: int) -> None:
    """`value ≤ optimum ≤ value + gap`, with the value by the objective of design §3 at the strategy found.

    Each lane takes a third of the games, so that every game occurs with every blueprint.
    """
    compared = 0
    for one in lanes(kind, player):
        strategies = [refined(player, one, found) for found in solved(kind, player)]
        for number, gadget in enumerate(trees(kind, player, one.lane)):
            if built(kind, player).num_games > 1 and (number + one.lane + one.lane // 3) % 3 > 0:
                continue
            subgame = one.above.subgames[number]
            optimum = lp.solve(gadget.root, player, gadget.floors).value
            for rows, found in zip(strategies, solved(kind, player), strict=True):
                low, gap = found.value[number, one.lane], found.gap[number, one.lane]
                expected = gadgets.objective(kind, subgame, rows, one.prior, EPSILON)
                assert low == pytest.approx(expected, abs=ROUNDING)
                assert low - ROUNDING <= optimum <= low + gap + ROUNDING
                compared += 1
    assert compared >= 2 * len(lanes(kind, player))
    early, late = (found.gap.max() for found in solved(kind, player))
    assert late < min(0.05, early)


@players
@kinds
def test_bounds_are_those_of_the_explicit_trees(kind: str, player: int) -> None:
    """Design §3, "Safety and certificates": a sum for resolving, otherwise the maximum; some have none."""
    *_, found = solved(kind, player)
    here = built(kind, player)
    losses = here.games.losses(found.gap[: here.num_games], found.below[: len(here.root_of)])
    bound = losses.sum(axis=0) if here.entry.bound_rule(0) == "sum" else losses.max(axis=0)
    if kind not in gadgets.BOUNDED:
        assert np.isnan(bound).all()
        return
    for one in lanes(kind, player):
        strategies = refined(player, one, found)
        rises = [
            gadgets.rise_bound(
                kind,
                one.above.subgames[number],
                strategies,
                found.gap[number, one.lane],
                one.prior,
                EPSILON,
            )
            for number in range(built(kind, player).num_games)
        ]
        expected = sum(rises) if kind.endswith("resolving") else max(rises)
        assert bound[one.lane] == pytest.approx(expected, abs=ROUNDING)
    assert (bound > 0).any()


# Properties of single kinds (the table of design §3)


@players
@pytest.mark.parametrize("kind", ["resolving", "max-margin", "reach-resolving", "reach-max-margin"])
def test_constants(kind: str, player: int) -> None:
    """In the opponent's utility, terminating earns `−V̄(s)`, picking `s` earns `+V̄(s)/N(s)`, all else 0.

    Reach gadgets use `V̄(s) − N(s)·Σg` in place of `V̄(s)`.
    """
    here, (side, terms) = built(kind, player), opponent(kind, player)
    entry = here.entry
    assert isinstance(entry, TwoLevelEntry)
    left = [] if entry.left is None else entry.left.tolist()
    found = np.asarray(terms.constant)
    expected = np.zeros_like(found)
    for one in lanes(kind, player):
        gifts = one.above.gifts() if kind.startswith("reach-") else None
        for subgame in one.above.subgames:
            for s in subgame.states:
                sequence = int(side.link[here.root_of[s]])
                if kind.endswith("resolving"):
                    expected[left[here.root_of[s]], one.lane] = -subgame.alternative(s, gifts)
                elif subgame.normalizer(s) > 0:
                    expected[sequence, one.lane] = subgame.alternative(s, gifts) / subgame.normalizer(s)
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)
    assert (found != 0).any()


@players
@pytest.mark.parametrize("kind", ["max-margin", "reach-max-margin"])
def test_only_roots_with_mass_can_be_picked(kind: str, player: int) -> None:
    here, (_, terms) = built(kind, player), opponent(kind, player)
    assert terms.entry.legal is not None
    legal = np.asarray(terms.entry.legal)
    expected = np.zeros_like(legal)
    for one in lanes(kind, player):
        for subgame in one.above.subgames:
            for s in subgame.states:
                expected[here.action(s), one.lane] = subgame.normalizer(s) > 0
    np.testing.assert_array_equal(legal, expected)
    assert not legal[[here.action(s) for s in here.root_of]].all()


@players
def test_the_full_gadget_of_a_single_subgame_is_its_optimal_continuation(player: int) -> None:
    """Both programs have the same optimum, for any play of the opponent elsewhere."""
    game = grove.grove(SEED)[1]
    for b in range(grove.NUM_BLUEPRINTS):
        for subgame in subgames(player, b)[::4]:
            full = gadgets.build("full", subgame)
            alone = gadgets.optimal_continuation(game, subgame.roots, player, subgame.blueprint)
            values = [lp.solve(gadget.root, player).value for gadget in (full, alone)]
            assert values[0] == pytest.approx(values[1], abs=ROUNDING)


# User-defined gadgets


def test_a_user_defined_gadget_is_one_class() -> None:
    """The opponent enters with its blueprint's range, or leaves for the value of that range."""

    @dataclasses.dataclass(frozen=True)
    class TakeItOrLeaveIt(TwoLevel, Perturbed):
        name: ClassVar[str] = "take-it-or-leave-it"

        def tables(self, ranges: Ranges) -> EntryTables:
            floor = np.full_like(ranges.cbv, self.number)
            return EntryTables(
                scale=ranges.opponent,
                has_decision=ranges.per_subgame(ranges.mass * ranges.opponent) > 0,
                leave=Leave(floor / 4, floor * 3 / 4, earns=-ranges.opponent * ranges.cbv),
            )

    tree = jaxgadget.enumerate_game(jaxgadget.load("kuhn_poker"))
    blueprint, epsilon = jaxgadget.Policy.uniform(tree), 0.1
    asked = [TakeItOrLeaveIt(UniformPrior(), epsilon), TakeItOrLeaveIt(NoPrior()), MaxMargin()]
    how = {"iterations": 400, "dtype": "float64", "value": (-1 / 18, -1 / 18)}
    result = jaxgadget.refine(tree, "depth:1", blueprint, asked, **settings(**how))
    assert result.table["gadget"].tolist() == ["take-it-or-leave-it"] * 2 + ["max-margin"]
    assert len(result.plans) == 1, "it stands beside others as lanes of one entry"
    assert np.isnan(result.exploitability_bound).tolist() == [True, True, False]
    assert result.has_decision.all() and (result.gap >= -ROUNDING).all() and result.gap.max() < 0.02
    explicit, roots = efg.from_tree(tree), result.forest.cut.roots.tolist()
    rows = grove.from_policy(blueprint, 0)
    parts = gadgets.subgames(explicit, cuts.components(explicit, roots), 0, rows)
    gains = 0
    for lane, eps in enumerate((epsilon, 0.0)):
        found = grove.from_policy(result.policy, lane)
        for number, part in enumerate(parts):
            expected = 0.0
            for s in part.states:
                reach = part.opponent_reach(s)
                enter, leave = reach * part.worst_value(s, found), reach * part.alternative(s)
                expected += (1 - eps) * min(enter, leave) + eps * (0.25 * enter + 0.75 * leave)
                gains += enter > leave + 1e-3
            assert result.gadget_value[number, lane] == pytest.approx(expected, abs=ROUNDING)
    assert gains > 0


# Corner cases


def test_the_blueprints_have_every_corner_case() -> None:
    for player in (0, 1):
        found = set()
        for b in range(grove.NUM_BLUEPRINTS):
            for subgame in subgames(player, b):
                mass = [subgame.normalizer(s) > 0 for s in subgame.states]
                reach = [subgame.opponent_reach(s) for s in subgame.states]
                mine = [subgame.resolver_reach(h) for h in subgame.roots]
                own = {grove.grove(SEED)[1].infostate[player][h] for h in subgame.roots}
                found |= {"no mass"} if not any(mass) else {"some mass"} if not all(mass) else {"all mass"}
                found |= {"unreached"} if sum(reach) == 0 else set()
                found |= {"never there"} if min(mine) == 0 < max(mine) else set()
                found |= {"clipped"} if 0 < min(reach) < gadgets.CLIP * sum(reach) else set()
                found |= {"single"} if len(subgame.roots) == len(own) == len(subgame.states) == 1 else set()
        assert found == {
            "no mass", "some mass", "all mass", "unreached", "never there", "clipped", "single"
        }  # fmt: skip


@players
def test_priors_where_the_opponent_never_gets_are_uniform(player: int) -> None:
    ranges, row = grove.prepared(SEED, player).ranges, root_of(player)
    follows, weights = BlueprintPrior().follow(ranges), BlueprintPrior().weight(ranges)
    seen = 0
    for b in range(grove.NUM_BLUEPRINTS):
        for subgame in subgames(player, b):
            rows = [row[s] for s in subgame.states]
            if all(subgame.opponent_reach(s) == 0 for s in subgame.states):
                assert (follows[rows, b] == 0.5).all()
                assert len(set(weights[rows, b].tolist())) == 1
                seen += 1
            else:
                assert (weights[rows, b] == follows[rows, b]).all()
                assert follows[rows, b].min() >= 1e-3
    assert seen > 0


# Priors


def floors(player: int, gadget: Gadget) -> Array:
    here = grove.prepared(SEED, player)
    gadget.check(len(root_of(player)), here.ranges.num_lanes)
    games = grove.games(here, [gadget])
    return np.asarray(games.batch.problem().terms[1 - player].entry.floor)


@pytest.mark.parametrize("kind", [Resolving, MaxMargin, OptimalContinuation])
@pytest.mark.parametrize("prior", [UniformPrior(), BlueprintPrior()])
def test_an_array_prior_equals_the_named_one(kind: Any, prior: Prior) -> None:
    player = 0
    ranges = grove.prepared(SEED, player).ranges
    asks = {Resolving: prior.follow, MaxMargin: prior.weight, OptimalContinuation: prior.choose}
    named, values = kind(prior, EPSILON), asks[kind](ranges)
    np.testing.assert_array_equal(floors(player, kind(ArrayPrior(values), EPSILON)), floors(player, named))
    alone = ArrayPrior(values[:, 0])  # the same for every blueprint
    repeated = ArrayPrior(np.broadcast_to(values[:, :1], values.shape))
    np.testing.assert_array_equal(
        floors(player, kind(alone, EPSILON)), floors(player, kind(repeated, EPSILON))
    )
    if kind is not Resolving:  # only ratios matter
        np.testing.assert_allclose(
            floors(player, kind(ArrayPrior(7 * values), EPSILON)), floors(player, named), rtol=1e-12
        )


def test_no_prior_means_no_mistakes() -> None:
    for kind in (Resolving, MaxMargin, ReachResolving, ReachMaxMargin, Full, OptimalContinuation):
        assert kind(NoPrior(), 0.5).epsilon == 0
        assert kind(UniformPrior(), 0.5).epsilon == 0.5
    assert Unsafe(epsilon=0.5).epsilon == 0


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        *(
            (lambda values=values: ArrayPrior(np.asarray(values)), "ArrayPrior")
            for values in ([0.5, -0.1], [0.5, np.nan], [0.5, np.inf], 0.5, np.zeros((2, 2, 2)))
        ),
        (
            lambda: floors(0, Resolving(ArrayPrior(np.full(len(root_of(0)), 1.5)), EPSILON)),
            "probabilities of following",
        ),
        *(
            (lambda kind=kind, epsilon=epsilon: kind(UniformPrior(), epsilon), "epsilon=")
            for kind in (kind for name, kind in CLASSES.items() if name != "unsafe")
            for epsilon in (-0.1, 1.0, 2.0, np.nan, True, "small", 10**400)
        ),
        (lambda: Unsafe(epsilon=5), "epsilon="),
        *((lambda clip=clip: BlueprintPrior(clip=clip), "clip=") for clip in (0.0, -1.0, 2.0, np.nan)),
        *(
            (lambda prior=prior: Unsafe(prior), "prior")
            for prior in (UniformPrior(), BlueprintPrior(), ArrayPrior(np.ones(3)))
        ),
    ],
)
def test_bad_settings(call: Any, argument: str) -> None:
    with pytest.raises(ValueError, match=argument):
        call()
