"""Update rules, floors and the threshold of regrets; every rule solves Kuhn poker as its reference does."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgadget
from jaxgadget.core import cfr, registry
from jaxgadget.core.host import build_treeplex, rounded_size
from jaxgadget.core.problem import with_regret_tolerance
from jaxgadget.core.regret import ZERO_REGRET, ChoiceRule, RegretMatching, find_rule, match
from jaxgadget.core.treeplex import Level, Treeplex, expand_infosets, sum_actions, to_device
from jaxgadget.policy.evaluate import to_policy, whole_problem
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.whole import sequence_form
from jaxgadget.util.precision import precision
from tests.reference import cfr as reference
from tests.reference import efg
from tests.reference.efg import Array

pytestmark = pytest.mark.optimised

RULES = {name: find_rule(name) for name in registry.RULES}

REFERENCE_RULES = dict(zip(RULES, reference.RULES, strict=True))
SIZES = np.array([2, 3, 1, 4, 2, 3, 3, 2, 2, 2, 2, 2, 2, 2])
LANES = 4


# Rules


def test_rules_by_hand() -> None:
    before, regret = jnp.array([1.0, -2.0, 0.0]), jnp.array([-3.0, 1.0, 4.0])  # sums to [-2, -1, 4]
    t = jnp.array(4.0)
    expected = {
        "cfr": [-2, -1, 4],
        "cfr+": [0, 0, 4],
        "pcfr+": [0, 0, 4],
        "sapcfr+": [0, 0, 4],
        "linear-cfr": [-1.6, -0.8, 3.2],  # 4/5
        "dcfr": [-1, -0.5, 32 / 9],  # 1/2; 8/9
    }
    assert set(expected) == set(RULES)
    for name, rule in RULES.items():
        np.testing.assert_allclose(rule.accumulate(before, regret, rule.kept(t)), expected[name], rtol=1e-6)
        expected_basis = before + {"pcfr+": 1, "sapcfr+": 1 / 3}.get(name, 0) * regret
        np.testing.assert_allclose(rule.basis(before, regret), expected_basis, rtol=1e-6)
    weights = {name: float(rule.weight(jnp.array(3.0))) for name, rule in RULES.items()}
    assert weights == {"cfr": 1, "cfr+": 3, "linear-cfr": 3, "dcfr": 9, "pcfr+": 9, "sapcfr+": 9}
    assert [name for name, rule in RULES.items() if rule.predictive] == ["pcfr+", "sapcfr+"]


def test_rules_are_found_by_name() -> None:
    half = RegretMatching(name="half", plus=True, averaging=0.5)
    assert find_rule("dcfr") is find_rule("dcfr") and find_rule(half) is half
    with pytest.raises(ValueError, match="algorithm="):
        find_rule("cfr-")


@functools.cache
def kuhn() -> tuple[HistoryTree, efg.Game]:
    tree = jaxgadget.enumerate_game(jaxgadget.load("kuhn_poker"))
    return tree, efg.from_tree(tree)


@pytest.mark.parametrize(
    ("name", "at_most"),
    [
        ("cfr", 0.05),
        ("cfr+", 0.01),
        ("linear-cfr", 0.02),
        ("dcfr", 0.01),
        ("pcfr+", 0.002),
        ("sapcfr+", 0.002),
    ],
)
def test_every_rule_solves_kuhn_and_equals_its_reference(name: str, at_most: float) -> None:
    """The compiled loop, stopped after each of the first five iterations, after 10 and after 150."""
    tree, game = kuhn()
    problem = whole_problem(tree, 1, np.float64)
    iterates = reference.run(game.root, REFERENCE_RULES[name], 10, threshold=1e-14)
    with precision(np.float64):
        state = cfr.start(problem, find_rule(name))
        for theirs in iterates:
            state = cfr.run(problem, state, jnp.asarray(theirs.iteration, jnp.int32), rule=find_rule(name))
            if theirs.iteration not in (1, 2, 3, 4, 5, 10):
                continue
            for parts, expected in (
                (cfr.average(problem, state), theirs.average),
                (state.strategy, theirs.current),
            ):
                policy = to_policy(tree, sequence_form(tree), (parts[0].body, parts[1].body), ("",))
                for player in (0, 1):
                    rows = efg.to_sequences(tree, expected, player)[1:]
                    np.testing.assert_allclose(policy.probabilities[player][:, 0], rows, rtol=0, atol=1e-12)
        state = cfr.run(problem, state, jnp.asarray(150, jnp.int32), rule=find_rule(name))
        parts = cfr.average(problem, state)
    policy = to_policy(tree, sequence_form(tree), (parts[0].body, parts[1].body), ("",))
    strategy = {
        (p, j): row
        for (p, j), row in efg.from_sequences(
            tree, tuple(np.concatenate([[1.0], rows[:, 0]]) for rows in policy.probabilities)
        ).items()
    }
    assert efg.nash_conv(game.root, strategy) < at_most


# Rules with their own state


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Hedge:
    """Weights e^(η·sum of action values), with the sum of action values as the state."""

    step: float
    name: str = "hedge"

    def weight(self, t: jax.Array) -> jax.Array:
        return t

    def init(self, treeplex: Treeplex, num_lanes: int, dtype: Any) -> jax.Array:
        return jnp.zeros((treeplex.num_actions, num_lanes), dtype)

    def update(
        self,
        treeplex: Treeplex,
        choice: ChoiceRule,
        tolerance: jax.Array,
        state: jax.Array,
        strategy: jax.Array,
        values: tuple[jax.Array, jax.Array],
        t: jax.Array,
    ) -> tuple[jax.Array, jax.Array]:
        total = state + values[0]
        powers = jnp.exp(self.step * total / jnp.sqrt(t))
        return total, powers / expand_infosets(treeplex, sum_actions(treeplex, powers))


def test_a_rule_with_a_state_of_its_own_needs_no_other_loop() -> None:
    """Its first strategy is that of its definition, and it solves Kuhn poker."""
    tree, game = kuhn()
    problem, hedge = whole_problem(tree, 1, np.float64), Hedge(4.0)
    with precision(np.float64):
        state = cfr.run(problem, cfr.start(problem, hedge), jnp.asarray(1, jnp.int32), rule=hedge)
        strategy = state.strategy[0].body, state.strategy[1].body
        policy = to_policy(tree, sequence_form(tree), strategy, ("",))
        state = cfr.run(problem, state, jnp.asarray(2000, jnp.int32), rule=hedge)
        gap = float(cfr.largest_gaps(problem, state)[0])
    earned = efg.counterfactual_values(game.root, 0, efg.uniform(game.root))
    for label, first in efg.from_sequences(
        tree, tuple(np.concatenate([[1.0], rows[:, 0]]) for rows in policy.probabilities)
    ).items():
        if label[0] == 0:
            weights = np.exp(hedge.step * earned[label])
            np.testing.assert_allclose(first, weights / weights.sum(), rtol=0, atol=1e-14)
    assert gap < 0.01


# Floors


@functools.cache
def decisions() -> tuple[Treeplex, list[Array], list[int]]:
    """Infosets of several sizes, some padding, and the rows of each real infoset's actions."""
    count = len(SIZES)
    host, position = build_treeplex(
        num_roots=1,
        depth=np.zeros(count, np.int64),
        num_actions=SIZES,
        parent_infoset=np.full(count, -1),
        parent_slot=np.zeros(count, np.int64),
        infoset=np.arange(count),
        rounding=rounded_size,
    )
    with precision(np.float64):
        treeplex = to_device(host, np.float64, rounded_size)
    return treeplex, [host.rows(row) for row in position.tolist()], position.tolist()


def drawn_floors(rng: np.random.Generator) -> tuple[Array, list[Array], list[Array]]:
    """`[Q, lanes]` floors ε·p, with ε `[lanes]` and p `[actions, lanes]` of every infoset; ε = 0 at some."""
    treeplex, rows, _ = decisions()
    floor = np.zeros((treeplex.num_actions, LANES))
    epsilons, priors = [], []
    for row, size in zip(rows, SIZES.tolist(), strict=True):
        epsilon = rng.random(LANES) * 0.5 * (rng.random(LANES) < 0.8)
        prior = rng.dirichlet(np.ones(size), LANES).T
        floor[row] = epsilon * prior
        epsilons.append(epsilon)
        priors.append(prior)
    return floor, epsilons, priors


@jax.jit
def matched(treeplex: Treeplex, basis: jax.Array, tolerance: jax.Array, choice: ChoiceRule) -> jax.Array:
    return match(treeplex, basis, tolerance, choice)


def test_strategies_are_regret_matching_on_the_shrunken_simplex() -> None:
    """`π' = Bπ`, `B = (1−ε)I + ε·p·1ᵀ`: at least the floor, and sums to 1."""
    treeplex, rows, _ = decisions()
    rng = np.random.default_rng(0)
    floor, epsilons, priors = drawn_floors(rng)
    basis = rng.normal(size=floor.shape)
    basis[rows[1]] = -1.0  # no positive regret: uniform, then the floor
    with precision(np.float64):
        zero = jnp.zeros((treeplex.num_infosets, LANES))
        found = np.asarray(matched(treeplex, jnp.asarray(basis), zero, ChoiceRule(floor=jnp.asarray(floor))))
    for row, size, epsilon, prior in zip(rows, SIZES.tolist(), epsilons, priors, strict=True):
        assert (found[row] >= floor[row]).all()
        np.testing.assert_allclose(found[row].sum(axis=0), 1, rtol=0, atol=1e-14)
        for lane in range(LANES):
            shrink = (1 - epsilon[lane]) * np.eye(size) + epsilon[lane] * np.outer(
                prior[:, lane], np.ones(size)
            )
            pure = reference.matched(basis[row][:, lane], 0.0)
            np.testing.assert_allclose(found[row][:, lane], shrink @ pure, rtol=0, atol=1e-14)


def test_floors_that_leave_no_choice_are_played_as_they_are() -> None:
    """Their rounded sum may exceed 1 in float32; the remainder is then 0, not negative."""
    treeplex, rows, _ = decisions()
    rng = np.random.default_rng(1)
    lanes = 1000
    floor = np.zeros((treeplex.num_actions, lanes), np.float32)
    for row, size in zip(rows, SIZES.tolist(), strict=True):
        held = rng.dirichlet(np.ones(size), lanes).T
        held[0] *= size == 1  # elsewhere an action has probability 0
        floor[row] = held / held.sum(axis=0)
    most = max(floor[row].sum(axis=0, dtype=np.float32).max() for row in rows)
    assert most > 1
    with precision(np.float32):
        treeplex = jax.tree.map(
            lambda leaf: leaf.astype(np.float32) if leaf.dtype == np.float64 else leaf, treeplex
        )
        basis = jnp.asarray(rng.normal(size=floor.shape), np.float32)
        zero = jnp.zeros((treeplex.num_infosets, lanes), np.float32)
        found = np.asarray(matched(treeplex, basis, zero, ChoiceRule(floor=jnp.asarray(floor))))
    assert (found >= floor).all()
    for row in rows:
        np.testing.assert_allclose(found[row], floor[row], rtol=0, atol=1e-6)


@jax.jit
def normalised(treeplex: Treeplex, weight: jax.Array, choice: ChoiceRule) -> jax.Array:
    return cfr.normalise(treeplex, weight, choice)


def test_averages_keep_to_floors() -> None:
    """Rounding to float32 may put plans below their floors; overflows remain visible."""
    treeplex, rows, _ = decisions()
    floor, epsilons, _ = drawn_floors(np.random.default_rng(4))
    floor[rows[0]] = np.array([[0.25], [0.75]])  # fully determined
    epsilons[0] = np.ones(LANES)
    average = floor.copy()
    for row, epsilon in zip(rows, epsilons, strict=True):
        average[row[0]] += 1 - epsilon
    weight = 77 * average.astype(np.float32).astype(np.float64)
    weight[rows[1]] = 0
    average[rows[1]] = (1 - epsilons[1]) / len(rows[1]) + floor[rows[1]]  # uniform, then the floor
    overflowing, *others = rows[3], *rows[:3], *rows[4:]
    weight[overflowing] = np.inf
    with precision(np.float64):
        plain, found = (
            np.asarray(normalised(treeplex, jnp.asarray(weight), choice))
            for choice in (ChoiceRule(), ChoiceRule(floor=jnp.asarray(floor)))
        )
    assert np.isnan(found[overflowing]).all()
    assert any((plain[row] < floor[row]).any() for row in rows[4:])
    for row in others:
        assert (found[row] >= floor[row]).all()
        np.testing.assert_allclose(found[row], average[row], rtol=0, atol=1e-6)
        np.testing.assert_allclose(found[row].sum(axis=0), 1, rtol=0, atol=1e-14)


@jax.jit
def first_regrets(treeplex: Treeplex, q: jax.Array, value: jax.Array, choice: ChoiceRule) -> jax.Array:
    """The regrets that CFR's first iteration adds to 0."""
    return find_rule("cfr").learn(treeplex, choice, jnp.zeros_like(q), (q, value), jnp.ones(()))[0]


def test_regrets_are_those_of_the_corners() -> None:
    """`r' = Bᵀ(q − v)`: the gain of each corner of the shrunken simplex over `v = π'·q`."""
    treeplex, rows, positions = decisions()
    rng = np.random.default_rng(1)
    floor, epsilons, priors = drawn_floors(rng)
    q = rng.normal(size=floor.shape)
    value = rng.normal(size=(treeplex.num_infosets, LANES))
    with precision(np.float64):
        arguments = [jnp.asarray(x) for x in (q, value)]
        plain = first_regrets(treeplex, *arguments, ChoiceRule())
        found = np.asarray(first_regrets(treeplex, *arguments, ChoiceRule(floor=jnp.asarray(floor))))
    for row, place, size, epsilon, prior in zip(
        rows, positions, SIZES.tolist(), epsilons, priors, strict=True
    ):
        for lane in range(LANES):
            shrink = (1 - epsilon[lane]) * np.eye(size) + epsilon[lane] * np.outer(
                prior[:, lane], np.ones(size)
            )
            gained = q[row][:, lane] - value[place, lane]
            np.testing.assert_allclose(np.asarray(plain)[row][:, lane], gained, rtol=0, atol=1e-14)
            np.testing.assert_allclose(found[row][:, lane], shrink.T @ gained, rtol=0, atol=1e-14)
            corners = shrink.T @ q[row][:, lane] - value[place, lane]
            np.testing.assert_allclose(found[row][:, lane], corners, rtol=0, atol=1e-14)


@jax.jit
def best_values(treeplex: Treeplex, q: jax.Array, choice: ChoiceRule) -> jax.Array:
    level: Level
    (level,) = treeplex.levels()
    return choice.best(level, q)


def test_best_responses_keep_to_bounds() -> None:
    """The best corner of the shrunken simplex over the legal actions; 0 if none is legal."""
    treeplex, rows, positions = decisions()
    rng = np.random.default_rng(2)
    floor, epsilons, priors = drawn_floors(rng)
    q = rng.normal(size=floor.shape)
    legal = rng.random(floor.shape) < 0.7
    for row, epsilon, prior in zip(rows, epsilons, priors, strict=True):
        prior *= legal[row]
        prior /= np.maximum(prior.sum(axis=0), 1e-300)
        floor[row] = epsilon * prior
    with precision(np.float64):
        choice = ChoiceRule(legal=jnp.asarray(legal), floor=jnp.asarray(floor))
        found = np.asarray(best_values(treeplex, jnp.asarray(q), choice))
        free = np.asarray(best_values(treeplex, jnp.asarray(q), ChoiceRule()))
    none = 0
    for row, place, epsilon, prior in zip(rows, positions, epsilons, priors, strict=True):
        np.testing.assert_array_equal(free[place], q[row].max(axis=0))
        for lane in range(LANES):
            allowed = np.nonzero(legal[row][:, lane])[0]
            expected = 0.0
            if len(allowed):
                corners = (1 - epsilon[lane]) * np.eye(len(prior)) + epsilon[lane] * prior[:, [lane]]
                expected = (corners.T @ q[row][:, lane])[allowed].max()
            none += not len(allowed)
            assert found[place, lane] == pytest.approx(expected, abs=1e-14)
    assert none > 0


def test_actions_that_are_not_legal_are_never_played() -> None:
    treeplex, rows, _ = decisions()
    rng = np.random.default_rng(3)
    basis = rng.normal(size=(treeplex.num_actions, LANES))
    legal = rng.random(basis.shape) < 0.6
    with precision(np.float64):
        zero = jnp.zeros((treeplex.num_infosets, LANES))
        found = np.asarray(matched(treeplex, jnp.asarray(basis), zero, ChoiceRule(legal=jnp.asarray(legal))))
    none = 0
    for row in rows:
        for lane in range(LANES):
            allowed = np.nonzero(legal[row][:, lane])[0]
            expected = np.zeros(len(row))
            if len(allowed):
                expected[allowed] = reference.matched(basis[row][allowed, lane], 0.0)
            none += not len(allowed)
            np.testing.assert_allclose(found[row][:, lane], expected, rtol=0, atol=1e-14)
    assert none > 0


# The threshold below which regrets count as 0


def test_regrets_up_to_the_threshold_play_uniformly() -> None:
    treeplex, rows, _ = decisions()
    basis = np.zeros((treeplex.num_actions, LANES))
    for row in rows:
        basis[row[0]] = [0.0, 0.5, 1.0, 1.5]
        basis[row[1:]] = -3.0
    with precision(np.float64):
        zero = jnp.ones((treeplex.num_infosets, LANES))
        found = np.asarray(matched(treeplex, jnp.asarray(basis), zero, ChoiceRule()))
    for row, size in zip(rows, SIZES.tolist(), strict=True):
        np.testing.assert_allclose(found[row][:, :3], 1 / size, rtol=1e-15)
        np.testing.assert_array_equal(found[row][:, 3], np.eye(size)[0])


@pytest.mark.parametrize("total", [1e-37, 9e37, 3e38])
def test_regrets_at_the_ends_of_float32_are_matched(total: float) -> None:
    """The inverse of their sum would overflow."""
    treeplex, rows, _ = decisions()
    treeplex = jax.tree.map(lambda x: x.astype(np.float32) if x.dtype == np.float64 else x, treeplex)
    basis = np.full((treeplex.num_actions, LANES), -1.0, np.float32)
    for row in rows:
        basis[row[0]] = total
    zero = jnp.zeros((treeplex.num_infosets, LANES), jnp.float32)
    found = np.asarray(matched(treeplex, jnp.asarray(basis), zero, ChoiceRule()))
    for row in rows:
        np.testing.assert_array_equal(found[row][0], 1)
        np.testing.assert_array_equal(found[row][1:], 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_threshold_is_a_multiple_of_machine_epsilon_and_the_payoff_range(dtype: type) -> None:
    """Player 1 facing a bet in Kuhn: each of two deals has probability 1/6 and at most 2 at stake."""
    tree, _ = kuhn()
    with precision(dtype):
        problem = with_regret_tolerance(whole_problem(tree, 1, dtype))
    zero = np.asarray(problem.regret_tolerance[1].body)[:, 0]
    form = sequence_form(tree)
    names = [tree.infoset_names[1][j] for j in form.treeplex[1].infoset.tolist()]
    for name, found in zip(names, zero.tolist(), strict=True):
        if name.endswith("b"):
            assert found == pytest.approx(ZERO_REGRET * np.finfo(dtype).eps * 4 / 6, rel=1e-5)
    assert sum(name.endswith("b") for name in names) == 3
    assert zero.dtype == dtype and (zero > 0).all()


def test_numbers_of_actions_are_no_table_in_the_program() -> None:
    """A table with one entry per infoset would make the compiled programs of large games too large."""
    count = 50_000
    host, _ = build_treeplex(
        num_roots=1,
        depth=np.zeros(count, np.int64),
        num_actions=np.repeat([3, 2], count // 2),
        parent_infoset=np.full(count, -1),
        parent_slot=np.zeros(count, np.int64),
        infoset=np.arange(count),
    )
    treeplex = to_device(host, np.float32)
    basis = jnp.zeros((treeplex.num_actions, 1), jnp.float32)
    tolerance = jnp.zeros((treeplex.num_infosets, 1), jnp.float32)
    program = jax.jit(match).lower(treeplex, basis, tolerance, ChoiceRule()).as_text()
    assert len(program) < count
    found = np.asarray(jax.jit(match)(treeplex, basis, tolerance, ChoiceRule()))[:, 0]
    np.testing.assert_array_equal(found, np.asarray(treeplex.share))
