"""Values that depend on the ranges: the operator, its two oracles, a network, and errors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.tree_util import Partial

from jaxgadget import HistoryTree, NoPrior, Policy, Resolving, enumerate_game, load, nash_conv, refine
from jaxgadget.core import cfr
from jaxgadget.core.batch import Batch
from jaxgadget.core.driver import Finished, solve
from jaxgadget.core.problem import Parts, Problem
from jaxgadget.core.regret import ChoiceRule
from jaxgadget.core.response import evaluate
from jaxgadget.core.solver import Solver
from jaxgadget.gadgets.alternative import ArrayValues
from jaxgadget.policy.evaluate import to_policy, whole_problem
from jaxgadget.tree.cut import Cut, cut
from jaxgadget.tree.whole import sequence_form
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.precision import precision
from jaxgadget.values.histories import ExactValues, OwnValues
from jaxgadget.values.ranged_payoff import Pair, RangeFunction
from jaxgadget.values.ranges import FixedValues, Limit, ResolvedValues
from jaxgadget.values.trunk import LimitedTrunk, solve_trunk
from tests.solving import settings
from tests.trees import tree_of

KUHN_VALUE = -1 / 18
GOOFSPIEL = "goofspiel(num_cards=3,imp_info=True,points_order=descending)"
ROUNDING = 1e-12


def draws(tree: HistoryTree, *seeds: int) -> Policy:
    return Policy.stack([Policy.dirichlet(tree, seed) for seed in seeds])


def fixed(blueprint: Policy) -> FixedValues:
    lanes = [ExactValues(blueprint.lane(lane)) for lane in range(blueprint.num_lanes)]
    return FixedValues(lanes if len(lanes) > 1 else lanes[0])


def rows_above(tree: HistoryTree, where: Cut, player: int) -> FloatArray:
    """`[Q]` mask of a policy's rows above a cut."""
    return (where.root[tree.infosets[player].history] < 0)[tree.infosets[player].infoset[1:]]


# --- values that do not depend on the ranges ----------------------------------------------


def frozen(tree: HistoryTree, where: Cut, blueprint: Policy) -> Problem:
    """The whole game with the blueprint's rows fixed below a cut."""
    problem, form, terms = whole_problem(tree, blueprint.num_lanes, np.float64), sequence_form(tree), []
    for player in (0, 1):
        free = rows_above(tree, where, player)[:, None]
        floor = np.where(free, 0, blueprint.probabilities[player])[form.action_sequences(player) - 1]
        terms.append(dataclasses.replace(problem.terms[player], body=ChoiceRule(floor=jax.device_put(floor))))
    return jax.device_put(dataclasses.replace(problem, terms=(terms[0], terms[1])))


def average_strategies(ended: Finished) -> tuple[Parts, Parts]:
    return cfr.average(ended.problem, ended.state)


@pytest.mark.parametrize(
    ("name", "spec", "rule"),
    [
        ("kuhn_poker", "depth:2", "cfr+"),
        (GOOFSPIEL, "one subgame", "pcfr+"),
    ],
)
@pytest.mark.slow
def test_fixed_values_are_the_game_with_frozen_rows(name: str, spec: str, rule: str) -> None:
    """Iterate by iterate, in every lane; histories that miss the limit continue to the end."""
    tree, blueprint = tree_of(name), draws(tree_of(name), 0, 1)
    where = cut(tree, "depth:1" if spec == "one subgame" else spec)
    if spec == "one subgame":
        where = where.only(tree.infoset_names[0][-1], 0)
        assert 0 < (where.root[tree.terminals] < 0).sum() < tree.num_terminals
    state, differ = None, 0.0
    for iterations in (1, 2, 4):
        with precision(np.float64):
            problem = frozen(tree, where, blueprint)
        options = Solver(algorithm=rule, iterations=iterations, dtype="float64")
        solved = solve(Batch.of(problem), options, average_strategies, state=state, keep_state=True)
        state, strategy = solved.state, solved.outcome
        with precision(np.float64):
            bodies = strategy[0].body, strategy[1].body
            expected = to_policy(tree, sequence_form(tree), bodies, ("a", "b"))
            gap = evaluate(problem, strategy).gap[0]
        found = solve_trunk(
            tree, where, fixed(blueprint), blueprint=blueprint, algorithm=rule, iterations=iterations
        )
        np.testing.assert_allclose(found.gap, gap, rtol=0, atol=ROUNDING)
        for player in (0, 1):
            mine = found.policy.probabilities[player]
            np.testing.assert_allclose(mine, expected.probabilities[player], rtol=0, atol=ROUNDING)
            differ = max(differ, float(np.ptp(mine[rows_above(tree, where, player)], axis=1).max()))
    assert found.gap.min() > 1e-3 and differ > 1e-3, "the solve has far to go, and lanes differ"


def test_ranges_and_values_by_their_definition() -> None:
    """In the first iteration player 0 faces uniform play; counterfactual values by a sum over histories."""
    tree = tree_of("leduc_poker")
    blueprint = draws(tree, 3)
    uniform = Policy.uniform(tree)
    found = solve_trunk(tree, "flop", fixed(blueprint), iterations=1)
    here = found.limit
    below = ExactValues(blueprint)(tree, here.cut.roots)[:, 0, 0]
    expected = np.zeros(len(here.roots[0]))
    for number, history in enumerate(here.cut.roots.tolist()):
        other = uniform.reach(1)[tree.sequence[1, history], 0]
        row = here.row[0][number]
        assert here.roots[0].infostate[row] == tree.infostate[0, history]
        expected[row] += tree.chance[history] * other * below[number]
        assert here.infostate(0, int(row)) == tree.game.infostate_string(0, tree.moves(history))
    np.testing.assert_allclose(found.values[0][:, 0], expected, rtol=0, atol=ROUNDING)
    echo = solve_trunk(tree, "flop", lambda limit: lambda ranges: ranges, iterations=1)
    reach = uniform.reach(0)[here.roots[0].sequence]
    np.testing.assert_allclose(echo.values[0], reach, rtol=0, atol=ROUNDING)
    assert 0 < reach.min() < reach.max()
    assert np.isnan(echo.gap).all(), "nothing is certified"


def test_nothing_below_the_limit_is_looked_at() -> None:
    """A tree that ends at the limit gives the same result; rows below are the blueprint's, or uniform."""
    tree, short = tree_of(GOOFSPIEL), enumerate_game(load(GOOFSPIEL), depth=1)
    blueprint = draws(tree, 3)
    where = cut(tree, "depth:1")
    whole = solve_trunk(tree, where, fixed(blueprint), blueprint=blueprint, iterations=20)
    found = solve_trunk(short, "depth:1", fixed(blueprint), iterations=20)
    lazy = solve_trunk(tree, where, fixed(blueprint), solver=Solver(iterations=20, dtype="float32"))
    for player in (0, 1):
        above = rows_above(tree, where, player)
        rows = whole.policy.probabilities[player]
        assert len(found.policy.probabilities[player]) == above.sum()
        np.testing.assert_allclose(found.policy.probabilities[player], rows[above], rtol=0, atol=ROUNDING)
        np.testing.assert_allclose(found.values[player], whole.values[player], rtol=0, atol=ROUNDING)
        np.testing.assert_array_equal(rows[~above], blueprint.probabilities[player][~above])
        np.testing.assert_array_equal(
            lazy.policy.probabilities[player][~above], Policy.uniform(tree).probabilities[player][~above]
        )
        np.testing.assert_allclose(lazy.policy.probabilities[player][above], rows[above], rtol=0, atol=1e-4)
    assert "gap" in whole.message and "20 iterations of cfr+" in repr(whole)


# --- equilibria below the limit -----------------------------------------------------------


def resolved(found: LimitedTrunk, iterations: int) -> Policy:
    """Both players' strategies below the limit, from the values that the solve used there."""
    policy = found.policy
    for player in (0, 1):
        gadget = Resolving(NoPrior(), alternative=ArrayValues(-found.values[1 - player]))
        again = refine(
            found.limit.tree,
            found.limit.cut,
            found.policy,
            gadget,
            player=player,
            solver=Solver(iterations=iterations, dtype="float64", progress=False),
            value=(0.0, 0.0),
        )
        part = dataclasses.replace(again.policy, labels=policy.labels)
        policy = policy.splice(player, again.forest.infosets(player), part)
    return policy


@pytest.mark.parametrize(
    ("name", "value", "iterations", "below", "most"),
    [("kuhn_poker", KUHN_VALUE, 300, 200, 0.0025), (GOOFSPIEL, 0.0, 60, 60, 0.01)],
)
@pytest.mark.slow
def test_with_equilibria_below_the_trunk_is_part_of_one(
    name: str, value: float, iterations: int, below: int, most: float
) -> None:
    """The remaining error, as a share of the payoff range, is within the tolerance of `cfr_d`'s own tests."""
    tree = tree_of(name)
    found = solve_trunk(tree, "depth:1", ResolvedValues(below), iterations=iterations)
    left = float(nash_conv(resolved(found, 300))[0])
    assert left < most * tree.payoff_range
    assert left < float(nash_conv(Policy.uniform(tree))[0]) / 5
    assert -found.best_response_values[0, 0] - 1e-3 <= value <= found.best_response_values[1, 0] + 1e-3


# --- user-defined values ------------------------------------------------------------------


class Critic(nnx.Module):
    """Both players' ranges → both players' values, in float32."""

    def __init__(self, size: int, rngs: nnx.Rngs):
        self.first, self.second = nnx.Linear(size, 8, rngs=rngs), nnx.Linear(8, size, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.second(nnx.tanh(self.first(x)))


def ask(definition: Any, weights: Any, ranges: Pair) -> Pair:
    """The lanes form the network's batch."""
    x = jnp.concatenate(ranges).astype(jnp.float32).T
    both = nnx.merge(definition, weights)(x).T
    return both[: len(ranges[0])], both[len(ranges[0]) :]


@dataclasses.dataclass(frozen=True)
class Network:
    """Random weights; all lanes are equal."""

    seed: int
    num_lanes: int = 2

    def __call__(self, limit: Limit) -> RangeFunction:
        size = len(limit.roots[0]) + len(limit.roots[1])
        definition, weights = nnx.split(Critic(size, nnx.Rngs(self.seed)))
        return Partial(ask, definition, weights)


def test_a_network_is_evaluated_inside_the_loop() -> None:
    """CFR receives its output; its weights are arguments of one compiled program."""
    tree = tree_of("kuhn_poker")
    found = solve_trunk(tree, "depth:2", Network(0), iterations=1)
    before = cfr.run.jitted._cache_size()
    other = solve_trunk(tree, "depth:2", Network(1), iterations=1)
    assert cfr.run.jitted._cache_size() == before
    for seed, mine in ((0, found), (1, other)):
        with precision(np.float64):
            function = Network(seed)(mine.limit)
            first, second = (np.repeat(Policy.uniform(tree).reach(p), 2, axis=1) for p in (0, 1))
            ranges = [x[r.sequence] for x, r in zip((first, second), mine.limit.roots, strict=True)]
            answer = function((jax.device_put(ranges[0]), jax.device_put(ranges[1])))
        assert mine.values[0].shape == (len(mine.limit.roots[0]), 2)
        np.testing.assert_allclose(mine.values[0], answer[0], rtol=0, atol=1e-6)  # the network's float32
    assert np.abs(found.values[0] - other.values[0]).max() > 0.1
    again = solve_trunk(tree, "depth:2", Network(0), iterations=30)
    assert again.policy.labels == ("cfr+:30 to depth:2 #0", "cfr+:30 to depth:2 #1")
    np.testing.assert_allclose(*again.policy.probabilities[0].T, rtol=0, atol=1e-6)
    assert np.abs(again.policy.probabilities[0] - found.policy.probabilities[0]).max() > 0.1
    assert np.isnan(again.gap).all()


def test_a_functions_weights_keep_their_precision() -> None:
    """They are independent of the game's arrays, which have another precision."""
    dtypes: list[np.dtype[Any]] = []

    def ask_weights(weights: jax.Array, ranges: Pair) -> Pair:
        dtypes.append(weights.dtype)
        return ranges

    weights = jnp.ones(3, jnp.float32)
    solve_trunk(tree_of("kuhn_poker"), "depth:2", lambda limit: Partial(ask_weights, weights), iterations=1)
    assert set(dtypes) == {np.dtype("float32")}


# --- errors -------------------------------------------------------------------------------


def at_range(bad: float) -> Callable[[Limit], RangeFunction]:
    """Zeros, except for `bad` in row 2 of player 1 once player 0 stops playing uniformly."""

    def values(limit: Limit) -> RangeFunction:
        def function(ranges: Pair) -> Pair:
            moved = jnp.abs(ranges[0] - 0.5).max() > 1e-6
            here = jnp.where(moved, bad, 0.0).astype(limit.dtype)
            return ranges[0], jnp.zeros_like(ranges[1]).at[2].set(here)

        return function

    return values


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_are_named(bad: float) -> None:
    tree = tree_of("kuhn_poker")
    name = Limit.of(cut(tree, "depth:2"), np.dtype(np.float64)).infostate(1, 2)
    with pytest.raises(ValueError, match=rf"{bad} .*lane 0.*'{name}' of player 1"):
        solve_trunk(tree, "depth:2", at_range(bad), iterations=5)


@dataclasses.dataclass(frozen=True)
class NoLanes:
    num_lanes: int = 0

    def __call__(self, limit: Limit) -> RangeFunction:
        return lambda ranges: ranges


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": ResolvedValues}, "values"),
        ({"values": OwnValues(lambda t, h: np.zeros((len(h), 1, 1)), 1)}, "values"),
        ({"values": lambda tree, histories: 3}, "histories"),
        ({"values": lambda limit: lambda r, s: (r, s)}, r"\(r, s\)"),
        ({"values": NoLanes()}, "num_lanes="),
        ({"values": lambda limit: lambda ranges: ranges[0]}, "shape"),
        ({"values": lambda limit: lambda ranges: (ranges[0], None)}, "that returns None"),
        ({"values": lambda limit: lambda ranges: (ranges[0].astype(complex), ranges[1])}, "complex"),
        ({"values": lambda limit: lambda ranges: (ranges[0], ranges[1][1:])}, "shape"),
        ({"values": FixedValues(ExactValues)}, "expected a value function"),
        ({"values": FixedValues(OwnValues(lambda t, h: np.zeros((len(h), 2, 2)), 2))}, "entries"),
        ({"values": FixedValues(OwnValues(lambda t, h: np.full((len(h), 1, 1), np.nan), 1))}, "history"),
        ({"limit": "depth:9"}, "no roots"),
        ({"blueprint": 7}, "blueprint="),
    ],
)
def test_bad_arguments_are_refused(change: dict[str, Any], message: str) -> None:
    tree = tree_of("kuhn_poker")
    how: dict[str, Any] = {"limit": "depth:1", "values": ResolvedValues(1), "iterations": 1} | change
    with pytest.raises(ValueError, match=message):
        solve_trunk(tree, how.pop("limit"), how.pop("values"), **settings(**how))
