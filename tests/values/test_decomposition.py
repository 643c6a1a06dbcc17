"""The payoff with embedded subgame solves, compared with the same algorithm on explicit trees."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

import jax
import numpy as np
import pytest

import jaxgadget
from jaxgadget.core import cfr
from jaxgadget.core.batch import Batch
from jaxgadget.core.driver import Finished, solve
from jaxgadget.core.memory import one_chunk
from jaxgadget.core.problem import Problem, whole_game
from jaxgadget.core.regret import find_rule
from jaxgadget.core.solver import Solver
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.tree.trunk import Trunk, build_trunk
from jaxgadget.tree.whole import sequence_form
from jaxgadget.util.precision import precision
from jaxgadget.values.decomposition import solved_subgames
from jaxgadget.values.ranged_payoff import RootSums, TrunkSolution, conclude_trunk, no_values
from jaxgadget.values.ranges import Limit, ResolvedValues
from jaxgadget.values.trunk import trunk_problem
from tests.core import grove
from tests.reference import cfr as reference
from tests.reference import efg, lp
from tests.reference.efg import Array, Chance, Label, Node, Past, Strategy
from tests.reference.random_games import random_policy

SEED = 31
LANES = (1, 4)  # iterations per subgame solve
TRUNK_ITERATIONS = 3
ROUNDING = 1e-14  # positive regrets with a sum up to this are rounding errors
players = pytest.mark.parametrize("player", [0, 1])


# The explicit algorithm


def below(game: efg.Game, roots: list[int], trunk: Strategy) -> Node:
    """All subgames behind one chance node, with the trunk's reaches."""
    reach = efg.reaches(game.root, trunk)
    nodes = [game.nodes[root] for root in roots]
    return Chance(
        tuple(reach[node][2] for node in nodes),
        tuple(Past(0, reach[node][0], Past(1, reach[node][1], node)) for node in nodes),
    )


def root_values(game: efg.Game, roots: list[int], player: int, strategies: Strategy) -> Mapping[Label, float]:
    """Counterfactual values of a player's root infostates, from the definition."""
    reach = efg.reaches(game.root, strategies)
    found: dict[Label, float] = {}
    for root in roots:
        node, state = game.nodes[root], game.infostate[player][root]
        others = reach[node][1 - player] * reach[node][2]
        value = others * efg.sign(player) * efg.value(node, strategies)
        found[state] = found.get(state, 0.0) + value
    return found


@dataclasses.dataclass
class Explicit:
    """Result of CFR-D by recursion over all histories.

    Attributes:
      average: the trunk's average strategies.
      values: for both players, average counterfactual values of their root infostates.
    """

    average: dict[Label, Array]
    values: tuple[dict[Label, float], dict[Label, float]]


def explicit(game: efg.Game, roots: list[int], rule: str, inner: int, iterations: int) -> Explicit:
    """Solve the trunk; subgames by the reference's CFR, from scratch in every update."""
    inside = set(efg.infosets(below(game, roots, efg.uniform(game.root))))
    decisions = efg.infosets(game.root)
    above = [label for label in decisions if label not in inside]
    current = efg.uniform(game.root)
    regret_sum = {label: np.zeros(len(decisions[label].actions)) for label in above}
    strategy_sum = {label: np.zeros(len(decisions[label].actions)) for label in above}
    total: tuple[dict[Label, float], dict[Label, float]] = ({}, {})
    for t in range(1, iterations + 1):
        weight = reference.average_weight(rule, t)
        for player in (0, 1):
            subgames = below(game, roots, current)
            solved = reference.final(subgames, rule, inner, threshold=ROUNDING).average
            played = {**current, **solved}
            q = efg.counterfactual_values(game.root, player, played)
            own = efg.own_reaches(game.root, player, played)
            for state, value in root_values(game, roots, player, played).items():
                total[player][state] = total[player].get(state, 0.0) + weight * value
            for label in [label for label in above if decisions[label].player == player]:
                used = current[label]
                strategy_sum[label] += weight * own[label] * used
                regret = q[label] - used @ q[label]
                regret_sum[label] = reference.updated(rule, regret_sum[label], regret, t)
                current[label] = reference.matched(regret_sum[label], ROUNDING)
    weights = sum(reference.average_weight(rule, t) for t in range(1, iterations + 1))
    average = {label: row / row.sum() for label, row in strategy_sum.items()}
    first, second = ({state: value / weights for state, value in part.items()} for part in total)
    return Explicit(average, (first, second))


# The production side


@functools.cache
def limit() -> Limit:
    return Limit.of(grove.forest(SEED, False).cut, np.dtype(np.float64))


@functools.cache
def trunk() -> Trunk:
    return build_trunk(limit())


def problem(rule: str, iterations: tuple[int, ...]) -> Problem:
    with precision(np.float64):
        return trunk_problem(
            trunk(), limit(), ResolvedValues(iterations, rule), find_rule(rule), len(iterations)
        )


def concluded(ended: Finished) -> TrunkSolution:
    return conclude_trunk(ended.problem, ended.state)


def by_state(forest: Forest, player: int, values: Array) -> dict[Label, float]:
    """A lane of `[R]` values by infostate."""
    game = grove.grove(SEED)[1]
    states = forest.roots[player].infostate
    first = {int(forest.tree.infostate[player, root]): int(root) for root in forest.cut.roots}
    return {
        game.infostate[player][first[int(state)]]: float(value)
        for state, value in zip(states, values[: len(states)], strict=True)
    }


def by_label(player: int, rows: Array) -> dict[Label, Array]:
    """A lane of the trunk's `[Q]` strategies by infoset."""
    treeplex = trunk().form.treeplex[player]
    return {
        (player, infoset): rows[treeplex.rows(number)]
        for number, infoset in enumerate(treeplex.infoset.tolist())
    }


@pytest.mark.parametrize("rule", ["cfr+", pytest.param("cfr", marks=pytest.mark.slow)])
def test_equals_the_algorithm_written_out(rule: str) -> None:
    """Lanes use different numbers of subgame iterations."""
    made = problem(rule, LANES)
    with precision(np.float64):
        before = cfr.start(made, find_rule(rule), no_values(made))
        batch = Batch.of(made, "trunk", no_values(made))
    options = Solver(algorithm=rule, iterations=TRUNK_ITERATIONS, dtype="float64")
    solved = solve(batch, options, concluded, plan=one_chunk(len(LANES)), keep_state=True)
    found = solved.outcome
    assert [x.shape for x in jax.tree.leaves(solved.state)] == [x.shape for x in jax.tree.leaves(before)]
    forest, game = grove.forest(SEED, False), grove.grove(SEED)[1]
    for lane, inner in enumerate(LANES):
        expected = explicit(game, grove.roots(SEED), rule, inner, TRUNK_ITERATIONS)
        compared = 0
        for player in (0, 1):
            strategy = by_label(player, found.strategy[player][:, lane])
            for label, row in strategy.items():
                np.testing.assert_allclose(row, expected.average[label], atol=1e-12)
            compared += len(strategy)
            values = by_state(forest, player, found.values[player][:, lane])
            assert values.keys() == expected.values[player].keys()
            for infostate, value in values.items():
                assert value == pytest.approx(expected.values[player][infostate], abs=1e-12)
        assert compared == len(expected.average) > 20
    assert np.abs(found.values[0][:, 0] - found.values[0][:, 1]).max() > 1e-2  # lanes differ


@pytest.mark.slow
def test_values_are_those_of_equilibria_below() -> None:
    """For random trunks, the total value of the roots is the linear program's value of the subgames."""
    tree, game = grove.grove(SEED)
    policies = [random_policy(tree, np.random.default_rng(seed), zeros) for seed, zeros in ((1, 0), (2, 0.3))]
    profiles = grove.to_policy(tree, policies)
    forest = grove.forest(SEED, False)
    reach = [profiles.reach(p)[forest.roots[p].sequence] for p in (0, 1)]
    with precision(np.float64):
        subgames = solved_subgames(forest, (2000,), find_rule("cfr+"), np.float64)
        values = jax.jit(subgames)((jax.device_put(reach[0]), jax.device_put(reach[1])))
    for lane, policy in enumerate(policies):
        exact = lp.solve(below(game, grove.roots(SEED), policy), 0).value
        for player in (0, 1):
            total = efg.sign(player) * float(reach[player][:, lane] @ np.asarray(values[player])[:, lane])
            assert total == pytest.approx(exact, abs=1e-4)  # payoffs are of order 1; CFR+ after 2,000


def test_nothing_below_the_cut_is_kept_but_root_values() -> None:
    """Every axis of the state belongs to the trunk or to roots, and none to a body."""
    tree = jaxgadget.enumerate_game(jaxgadget.load("leduc_poker"))
    forest = build_forest(tree, "before-flop", padded=False)
    at_limit = Limit.of(forest.cut, np.dtype(np.float64))
    above, lanes, plus = build_trunk(at_limit), 2, find_rule("cfr+")
    with precision(np.float64):
        made = trunk_problem(above, at_limit, ResolvedValues(7), plus, lanes)
        begin = jax.eval_shape(cfr.start, made, plus, no_values(made))
        after = jax.eval_shape(lambda state: cfr.step(made, plus, state), begin)
        form = sequence_form(tree)
        whole = whole_game(form.treeplex, form.payoff, num_lanes=lanes, dtype=np.float64)
        full = jax.eval_shape(cfr.start, whole, plus)
    sizes = {0, 1}  # an entry without a choice and a single root
    for treeplex in above.form.treeplex:
        sizes |= {treeplex.num_sequences, treeplex.num_sequences - treeplex.num_roots}
    roots = [len(forest.roots[p]) for p in (0, 1)]
    bodies: set[int] = set()
    for treeplex in forest.form.treeplex:
        bodies |= {treeplex.num_infosets, treeplex.num_sequences}
        bodies |= {treeplex.num_sequences - treeplex.num_roots}
    assert not bodies & {*sizes, *roots, lanes}
    for state in (begin, after):
        shapes = [leaf.shape for leaf in jax.tree.leaves(state)]
        assert {shape for shape in shapes if len(shape) != 2} == {()}
        assert {shape[0] for shape in shapes if len(shape) == 2} <= {*sizes, *roots}
        assert isinstance(state.payoff, RootSums)
        assert [part.shape for part in state.payoff.total] == [(count, lanes) for count in roots]
    kept, everything = (sum(leaf.size for leaf in jax.tree.leaves(state)) for state in (after, full))
    assert kept < everything / 20  # 36 of the 936 infosets are in the trunk


def test_only_the_updating_players_values_are_averaged() -> None:
    """Weights and counts are separate for each player."""
    values = np.array([[2.0], [4.0]])
    with precision(np.float64):
        nothing = (jax.device_put(np.zeros((2, 1))), jax.device_put(np.zeros((3, 1))))
        zero, count = (jax.device_put(np.zeros((), kind)) for kind in (np.float64, np.int32))
        sums = RootSums(updates=(count, count), weight=(zero, zero), total=nothing)
        sums = sums.add(0, jax.device_put(values), find_rule("cfr+"))
        sums = sums.add(0, jax.device_put(np.zeros((2, 1))), find_rule("cfr+"))
        first, second = sums.averages()
        np.testing.assert_allclose(np.asarray(first), values / 3)
        np.testing.assert_array_equal(np.asarray(second), 0)
        assert [int(part) for part in sums.updates] == [2, 0]


def test_another_payoff_is_refused() -> None:
    with precision(np.float64):
        form = sequence_form(grove.grove(SEED)[0])
        whole = whole_game(form.treeplex, form.payoff, num_lanes=1, dtype=np.float64)
    with pytest.raises(TypeError, match="MatrixPayoff"):
        no_values(whole)
