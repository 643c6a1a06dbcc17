"""Sweeps compared with recursion over the same decisions."""

from __future__ import annotations

import dataclasses
import functools
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgadget.core.host import HandTreeplex, Rounding, Run, build_treeplex, exact_size, rounded_size
from jaxgadget.core.rows import RowSums, ScatteredSums
from jaxgadget.core.treeplex import (
    Level,
    Treeplex,
    expand_infosets,
    reach,
    sum_actions,
    sweep_up,
    to_device,
    to_host,
)
from jaxgadget.tree import sequence
from jaxgadget.util.precision import precision
from tests.reference.efg import Array

LANES = 2
NUM_ROOTS = 5
TOLERANCE = 1e-13


@dataclasses.dataclass(frozen=True, eq=False)
class Decisions:
    """Infosets in any order, each with its parent and its number of actions.

    Attributes:
      depth: `[m]` decisions above it.
      num_actions: `[m]`.
      above: `[m]` the infoset above, -1 below a root.
      slot: `[m]` the action of that infoset, or the root.
    """

    depth: Array
    num_actions: Array
    above: Array
    slot: Array

    @functools.cached_property
    def treeplex(self) -> dict[Rounding, tuple[sequence.HostTreeplex, Array]]:
        return {
            rounding: build_treeplex(
                num_roots=NUM_ROOTS,
                depth=self.depth,
                num_actions=self.num_actions,
                parent_infoset=self.above,
                parent_slot=self.slot,
                infoset=np.arange(len(self.depth)),
                rounding=rounding,
            )
            for rounding in (exact_size, rounded_size)
        }


@functools.cache
def drawn() -> Decisions:
    """Three levels, 1 to 5 actions, sequences with no, one and several child infosets, and a bare root."""
    rng = np.random.default_rng(0)
    sizes = (45, 55, 50)
    depth = np.repeat(np.arange(3), sizes)
    num_actions = rng.integers(1, 6, len(depth))
    above, slot = np.full(len(depth), -1), rng.integers(1, NUM_ROOTS, len(depth))
    for j in np.nonzero(depth > 0)[0]:
        above[j] = rng.choice(np.nonzero(depth == depth[j] - 1)[0])
        slot[j] = rng.integers(num_actions[above[j]])
    order = rng.permutation(len(depth))  # the order of the input is arbitrary
    place = np.argsort(order)
    return Decisions(
        depth[order], num_actions[order], np.where(above[order] < 0, -1, place[above[order]]), slot[order]
    )


@functools.cache
def alike() -> Decisions:
    """Seven levels of one shape between two of other shapes, each with different parents."""
    rng = np.random.default_rng(5)
    widths = [[4, 3, 3, 1], *([[3, 2, 2]] * 7), [2, 1]]
    depth = np.repeat(np.arange(len(widths)), [len(level) for level in widths])
    num_actions = np.concatenate(widths)
    above, slot = np.full(len(depth), -1), rng.integers(1, NUM_ROOTS, len(depth))
    for level in range(1, len(widths)):
        parents = np.nonzero(depth == level - 1)[0]
        actions = [(parent, action) for parent in parents for action in range(num_actions[parent])]
        rows = np.nonzero(depth == level)[0]
        # At most one infoset below each sequence, so that gathered sums have one shape too.
        for row, number in zip(rows, rng.choice(len(actions), len(rows), replace=False), strict=True):
            above[row], slot[row] = actions[number]
    return Decisions(depth, num_actions, above, slot)


@functools.cache
def wide() -> Decisions:
    """From an infoset of 1,081 actions down to one action, several of most widths, on two levels."""
    widths = [[1081, 300, 300, 300, 70, 70, 6, 6, 3, 1], [200, 200, 5, 5, 5, 2]]
    num_actions = np.concatenate(widths)
    depth = np.repeat(np.arange(2), [len(level) for level in widths])
    above, slot = np.full(len(depth), -1), np.arange(len(depth)) % NUM_ROOTS
    above[depth == 1] = [0, 0, 1, 4, 8, 9]
    slot[depth == 1] = [1080, 0, 299, 69, 2, 0]
    return Decisions(depth, num_actions, above, slot)


NOTHING = Decisions(*(np.zeros(0, np.int64) for _ in range(4)))


@jax.jit
def sweeps(treeplex: Treeplex, strategy: jax.Array, root: jax.Array, gradient: jax.Array):
    played = sweep_up(treeplex, gradient, lambda level, q: level.sums(level.actions_of(strategy) * q))
    best = sweep_up(treeplex, gradient, lambda level, q: level.largest(q))
    return reach(treeplex, strategy, root), played, best


def below(plan: Decisions, infoset: int, action: int) -> list[int]:
    return [k for k in range(len(plan.depth)) if plan.above[k] == infoset and plan.slot[k] == action]


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
@pytest.mark.parametrize("rounding", [exact_size, rounded_size])
@pytest.mark.parametrize("plan", [drawn(), alike(), NOTHING], ids=["drawn", "alike", "no decision"])
def test_sweeps_equal_recursion(
    plan: Decisions, rounding: Rounding, platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["jaxgadget.core.treeplex"], "LIKE_LEVELS", 3)
    host, position = plan.treeplex[rounding]
    rng = np.random.default_rng(1)
    size, count = host.num_sequences, len(plan.depth)
    strategy = rng.random((size - host.num_roots, LANES))
    root, gradient = rng.random((host.num_roots, LANES)), rng.normal(size=(size, LANES))
    with precision(np.float64):
        device = to_device(host, np.float64, rounding, platform)
        arguments = [jnp.asarray(x) for x in (strategy, root, gradient)]
        down, played, best = jax.tree.map(np.asarray, sweeps(device, *arguments))
    assert all(isinstance(sums, ScatteredSums if platform == "cpu" else RowSums) for sums in device.below)
    assert max(device.repeats, default=0) == {len(alike().depth): 6, len(drawn().depth): 1, 0: 0}[count]
    assert (device.num_sequences, device.num_infosets) == (size, host.num_infosets)

    def own(infoset: int) -> Array:
        """The reach of an infoset, by walking to the root."""
        if plan.above[infoset] < 0:
            return root[plan.slot[infoset]]
        above, slot = int(plan.above[infoset]), int(plan.slot[infoset])
        return own(above) * strategy[host.rows(position[above])[slot]]

    def action_value(infoset: int, action: int, maximum: bool) -> Array:
        here = gradient[host.rows(position[infoset])[action] + host.num_roots]
        return sum((value(k, maximum) for k in below(plan, infoset, action)), here)

    @functools.cache
    def value(infoset: int, maximum: bool) -> Array:
        q = np.stack([action_value(infoset, a, maximum) for a in range(plan.num_actions[infoset])])
        rows = host.rows(position[infoset])
        return q.max(axis=0) if maximum else (strategy[rows] * q).sum(axis=0)

    assert sorted(position.tolist()) == np.nonzero(host.infoset >= 0)[0].tolist()
    assert host.infoset[position].tolist() == list(range(count))
    for infoset in range(count):
        for a in range(plan.num_actions[infoset]):
            s = host.rows(position[infoset])[a] + host.num_roots
            expected = own(infoset) * strategy[s - host.num_roots]
            np.testing.assert_allclose(down[s], expected, rtol=0, atol=TOLERANCE)
            for found, maximum in ((played, False), (best, True)):
                expected = action_value(infoset, a, maximum)
                np.testing.assert_allclose(found[0][s - host.num_roots], expected, rtol=0, atol=TOLERANCE)
        for found, maximum in ((played, False), (best, True)):
            row = found[1][position[infoset]]
            np.testing.assert_allclose(row, value(infoset, maximum), rtol=0, atol=TOLERANCE)
    np.testing.assert_array_equal(down[: host.num_roots], root)
    for r in range(NUM_ROOTS):
        for found, maximum in ((played, False), (best, True)):
            expected = sum((value(k, maximum) for k in below(plan, -1, r)), gradient[r])
            np.testing.assert_allclose(found[2][r], expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("rounding", [exact_size, rounded_size])
def test_padding_adds_nothing_above_it(rounding: Rounding) -> None:
    """Values in padded rows never enter a real row."""
    host, position = drawn().treeplex[rounding]
    real = np.zeros(host.num_sequences, np.bool_)
    real[:NUM_ROOTS] = True
    for row in position.tolist():
        real[host.rows(row) + host.num_roots] = True
    assert real.all() == (rounding is exact_size)
    results = []
    for wild in (0.0, 1e6):
        rng = np.random.default_rng(2)
        strategy = rng.random((host.num_sequences - host.num_roots, LANES))
        root, gradient = rng.random((host.num_roots, LANES)), rng.normal(size=(host.num_sequences, LANES))
        strategy[~real[host.num_roots :]] += wild
        gradient[~real] += wild
        with precision(np.float64):
            device = to_device(host, np.float64, rounding)
            down, played, best = sweeps(device, *(jnp.asarray(x) for x in (strategy, root, gradient)))
        roots = [np.asarray(found[2])[:NUM_ROOTS] for found in (played, best)]
        rows = [np.asarray(found[0])[real[host.num_roots :]] for found in (played, best)]
        results.append([np.asarray(down)[real], *roots, *rows])
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("plan", [drawn(), alike()], ids=["drawn", "alike"])
@pytest.mark.parametrize("rounding", [exact_size, rounded_size])
def test_decisions_come_back_from_the_device(
    plan: Decisions, rounding: Rounding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["jaxgadget.core.treeplex"], "LIKE_LEVELS", 3)
    treeplex, _ = plan.treeplex[rounding]
    back, padding = to_host(to_device(treeplex, np.float64, rounding)), treeplex.infoset == -1
    assert (back.num_roots, back.levels) == (treeplex.num_roots, treeplex.levels)
    for name in ("parent", "num_actions", "first_sequence"):
        np.testing.assert_array_equal(getattr(back, name), getattr(treeplex, name))
    np.testing.assert_array_equal(back.infoset == -1, padding)
    assert padding.any() == (rounding is rounded_size and plan is drawn())


@pytest.mark.parametrize("rounding", [exact_size, rounded_size])
@pytest.mark.parametrize("plan", [drawn(), alike(), wide()], ids=["drawn", "alike", "wide"])
@pytest.mark.parametrize("many", [10**9, 0], ids=["run by run", "padded"])
@pytest.mark.parametrize("least", [2, 64])
def test_folds_are_loops_over_infosets(
    plan: Decisions, rounding: Rounding, many: int, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With integers, whose sums are exact: slots one by one and in reductions, per level and per stack."""
    module = sys.modules["jaxgadget.core.treeplex"]
    for name, value in (("LIKE_LEVELS", 3), ("MANY_SLICES", many), ("WIDE", least)):
        monkeypatch.setattr(module, name, value)
    host, position = plan.treeplex[rounding]
    x = np.random.default_rng(6).integers(-9, 10, (host.num_sequences - host.num_roots, LANES)) - 5.0

    @jax.jit
    def folds(treeplex: Treeplex, x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        total = sum_actions(treeplex, x)
        most = [level.largest(level.actions_of(x)) for level in treeplex.levels()]
        return total, jnp.concatenate(most), expand_infosets(treeplex, total)

    with precision(np.float64):
        device = to_device(host, np.float64, rounding)
        total, most, spread = jax.tree.map(np.asarray, folds(device, jnp.asarray(x)))
    for row in position.tolist():
        rows = host.rows(row)
        np.testing.assert_array_equal(total[row], x[rows].sum(axis=0))
        np.testing.assert_array_equal(most[row], x[rows].max(axis=0))
        np.testing.assert_array_equal(spread[rows], np.broadcast_to(total[row], (len(rows), LANES)))


def test_wide_sums_are_accurate() -> None:
    """Within the bound for sums of n numbers in any order: n − 1 roundings of the sum of magnitudes."""
    host, position = wide().treeplex[exact_size]
    x = np.random.default_rng(7).normal(size=(host.num_sequences - host.num_roots, LANES)).astype(np.float32)
    total = np.asarray(jax.jit(sum_actions)(to_device(host, np.float32), jnp.asarray(x)))
    for row in position.tolist():
        numbers = x[host.rows(row)].astype(np.float64)
        bound = (len(numbers) - 1) * 2.0**-24 * np.abs(numbers).sum(axis=0)
        assert (np.abs(total[row] - numbers.sum(axis=0)) <= bound).all()


def test_an_infoset_of_many_actions_is_one_reduction() -> None:
    """The size of the program does not grow with the number of actions."""

    def lines(width: int) -> int:
        level = Level(0, 0, (Run(1, width),))
        x = jax.ShapeDtypeStruct((width, LANES), np.float32)
        text = jax.jit(lambda x: (level.sums(x), level.largest(x), level.expand(x[:1]))).lower(x).as_text()
        return len(text.splitlines())

    assert lines(1081) == lines(108)


@pytest.mark.parametrize("plan", [drawn(), alike()], ids=["drawn", "alike"])
def test_hands_side_by_side_are_the_same_decisions_for_each(
    plan: Decisions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With links between public infosets only, sweeps equal those of the treeplex with each hand's links."""
    monkeypatch.setattr(sys.modules["jaxgadget.core.treeplex"], "LIKE_LEVELS", 3)
    hands = 3
    host, _ = plan.treeplex[exact_size]
    rng = np.random.default_rng(5)
    size = hands * host.num_sequences
    root, gradient = rng.random((hands * host.num_roots, LANES)), rng.normal(size=(size, LANES))
    strategy = rng.random((size - len(root), LANES))
    with precision(np.float64):
        by_blocks = to_device(HandTreeplex(host, hands), np.float64)
        every_hand = to_device(to_host(by_blocks), np.float64)
        assert max(map(np.size, by_blocks.parent)) * hands == max(map(np.size, every_hand.parent))
        arguments = [jnp.asarray(x) for x in (strategy, root, gradient)]
        found = [jax.tree.map(np.asarray, sweeps(plex, *arguments)) for plex in (by_blocks, every_hand)]
    for one, other in zip(*map(jax.tree.leaves, found), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=TOLERANCE)
    # Each hand gives the sweep of a single one.
    with precision(np.float64):
        single = to_device(host, np.float64)
        for hand in range(hands):
            own = [jnp.asarray(x[hand::hands]) for x in (strategy, root, gradient)]
            alone = jax.tree.map(np.asarray, sweeps(single, *own))
            for one, other in zip(*map(jax.tree.leaves, (found[0], alone)), strict=True):
                np.testing.assert_allclose(one[hand::hands], other, rtol=0, atol=TOLERANCE)
