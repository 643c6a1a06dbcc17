"""Arrays in pieces: functions and loops have the results that they have for whole arrays."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget.core import cfr, payoff
from jaxgadget.core.pieces import Pieces, cut, evaluate_pieces, joined
from jaxgadget.core.problem import Problem, whole_game, with_floors
from jaxgadget.core.registry import RULES
from jaxgadget.core.regret import CFR_PLUS, find_rule
from jaxgadget.core.rows import take_rows
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.tree.whole import sequence_form
from jaxgadget.util.precision import precision
from tests.core import grove

ROWS = 12
"""Rows of the arrays: a multiple of 2 and 3."""

FUNCTIONS: dict[str, Callable[[jax.Array, jax.Array], Any]] = {
    "elementwise": lambda x, y: jnp.where(x > y, x * 2.0 + y, jnp.abs(y) / 3),
    "slices": lambda x, y: (x[3:9] + y[:6], x[1::2], x[:, :1], x[5:5]),
    "concatenation": lambda x, y: jnp.concatenate([y[2:4], x, jnp.ones((1, 2))]) - 1,
    "gather": lambda x, y: take_rows(x + y, jnp.array([11, 0, 0, 7])) * y[:4],
    "broadcast": lambda x, y: x[:, None, :] * y[:, :, None] + x[:, 0][:, None, None],
    "one row for all": lambda x, y: jax.lax.mul(x, y[:1] + y[1:2]) - jax.lax.add(x[:1], y),
    "repeat": lambda x, y: jnp.broadcast_to(x, (3, *x.shape)) + y[None],
    "blocks": lambda x, y: (x.reshape(-1, 6) * 2).reshape(-1, 2) + y,
    "transpose": lambda x, y: (x + y).T,
    "sums": lambda x, y: (x.sum(axis=0), (x * y).sum(), jnp.cumsum(x, axis=0), x.max(axis=1)),
    "scan": lambda x, y: jax.lax.scan(lambda carry, row: (carry + row, carry * row), y[0], x),
    "scatter": lambda x, y: x.at[jnp.array([3, 3])].add(y[:2]),
    "inner function": lambda x, y: jax.jit(lambda z: jnp.maximum(z, y))(x),
    "derivative of its own": lambda x, y: jax.nn.relu(x - y),
    "barrier": lambda x, y: jax.lax.optimization_barrier((x * y, y)),
    "integers": lambda x, y: jnp.concatenate([jnp.arange(6), jnp.arange(6)])[:, None] + x.astype(jnp.int32),
    "nothing": lambda x, y: (x[:0] + y[:0], jnp.concatenate([x[:0], y[:0]]) * 2, 1.0),
}

SIZES = [([12], [5, 7]), ([3, 3, 6], [6, 6]), ([1, 4, 7], [2, 4, 2, 4])]
"""Rows of the pieces of both arguments."""


@pytest.mark.parametrize(("first", "second"), SIZES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_in_pieces(name: str, first: list[int], second: list[int]) -> None:
    x, y = (jnp.asarray(rows) for rows in np.random.default_rng(0).normal(size=(2, ROWS, 2)))
    function = FUNCTIONS[name]
    traced = jax.make_jaxpr(function)(x, y)
    found = jax.jit(lambda *pair: [joined(each) for each in evaluate_pieces(traced, pair)])(
        cut(x, first), cut(y, second)
    )
    for ours, theirs in zip(found, jax.tree.leaves(jax.jit(function)(x, y)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.parametrize("name", ["elementwise", "slices", "concatenation", "blocks", "broadcast"])
def test_results_come_in_pieces(name: str) -> None:
    """Otherwise kernels would be those of whole arrays."""
    x = jnp.ones((ROWS, 2))
    arguments = [cut(x, rows) for rows in SIZES[1]]
    found = evaluate_pieces(jax.make_jaxpr(FUNCTIONS[name])(x, x), arguments)[0]
    assert isinstance(found, Pieces) and len(found.pieces) > 1


def test_cutting() -> None:
    x = jnp.arange(ROWS)
    pieces = cut(cut(x, [5, 7]), [2, 6, 4])
    assert pieces.sizes == (2, 6, 4)
    np.testing.assert_array_equal(joined(pieces), x)
    assert cut(pieces, [2, 6, 4]) is pieces


def whole(name: str = "kuhn_poker", by_hands: bool = False) -> Problem:
    game = jg.load(name)
    form = sequence_form(jg.public_tree(game) if by_hands else jg.enumerate_game(game))
    return whole_game(form.treeplex, form.payoff, num_lanes=3, dtype=np.float64)


def floored() -> Problem:
    problem = whole("leduc_poker")
    first, second = (np.asarray(side.body.share) / 10 for side in problem.sides)
    return with_floors(problem, (first, second))


def one_updates() -> Problem:
    return dataclasses.replace(whole("leduc_poker"), order=(1,))


def gadget_games(*gadgets: Gadget) -> Problem:
    return grove.problem_of(grove.games(grove.prepared(0, 0), gadgets))


NOISY = jg.Resolving(jg.UniformPrior(), spread=0.3)
LOOPS: dict[str, tuple[Callable[[], Problem], str]] = {
    **{f"Kuhn, {name}": (whole, name) for name in RULES},
    "Leduc": (functools.partial(whole, "leduc_poker"), "cfr+"),
    "by hands": (functools.partial(whole, "leduc_poker", by_hands=True), "cfr+"),
    "floors": (floored, "cfr+"),
    "one player updates": (one_updates, "cfr+"),
    "gadgets": (functools.partial(gadget_games, jg.MaxMargin(), jg.Resolving()), "dcfr"),
    "noisy choices": (functools.partial(gadget_games, NOISY), "pcfr+"),
}


@pytest.fixture
def _in_pieces(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for module in (cfr, payoff):
        monkeypatch.setattr(module, "MANY_LANES", 1)
    monkeypatch.setattr(cfr, "PIECE_BYTES", 0)
    cfr.loop_program.cache_clear()
    yield
    cfr.loop_program.cache_clear()


@pytest.mark.usefixtures("_in_pieces")
@pytest.mark.parametrize("name", LOOPS)
def test_loops_in_pieces_have_the_same_results(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As single iterations of whole arrays; and no iteration changes nothing."""
    make, algorithm = LOOPS[name]
    rule, evaluations = find_rule(algorithm), list[int]()
    usual = cfr.evaluate_pieces
    monkeypatch.setattr(
        cfr, "evaluate_pieces", lambda *given: (evaluations.append(len(given[1])), usual(*given))[1]
    )
    with precision(np.float64):
        problem = make()
        once = jax.jit(functools.partial(cfr.step, problem, rule))
        expected = once(cfr.start(problem, rule))
        loop = cfr.loop_program("graph")
        found = loop(problem, jax.tree.map(jnp.copy, expected), np.int32(1), rule=rule)
        jax.tree.map(np.testing.assert_array_equal, found, expected)
        found = loop(problem, found, np.int32(4), rule=rule)
        for _ in range(3):
            expected = once(expected)
    assert evaluations
    assert int(found.iteration) == 4
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-10, atol=1e-13), found, expected)


def test_stopped_lanes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The average of a lane that has stopped stays as it is, across a check of the gap."""
    results: list[Any] = []
    with precision(np.float64):
        problem = whole()
        state = jax.jit(functools.partial(cfr.step, problem, CFR_PLUS))(cfr.start(problem, CFR_PLUS))
        for in_pieces in (False, True):
            monkeypatch.setattr(cfr, "is_wide", lambda _, given=in_pieces: given)
            loop = functools.partial(cfr.run_to_gap.__wrapped__, rule=CFR_PLUS, check_every=4)
            stopped = jnp.array([0, 1, 0], jnp.int32)
            results.append(jax.jit(loop)(problem, state, stopped, jnp.int32(6), jnp.float64(0)))
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-10, atol=1e-13), *results)
    before, after = state.strategy_sum[0].body, results[1][0].strategy_sum[0].body
    assert (after[:, 1] == before[:, 1]).all() and not (after[:, 0] == before[:, 0]).all()


def test_few_lanes_and_many_slots_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    with precision(np.float64):
        problem = whole()
    pieces = sum(len(side.body.slots) for side in problem.sides)
    size = 8 * problem.num_lanes * sum(side.body.num_actions for side in problem.sides)
    for many, least, slots, expected in (
        (3, size // pieces, 100, True),
        (4, size // pieces, 100, False),
        (3, size // pieces + 1, 100, False),
        (3, size // pieces, 3, False),
    ):
        monkeypatch.setattr(cfr, "MANY_LANES", many)
        monkeypatch.setattr(cfr, "PIECE_BYTES", least)
        monkeypatch.setattr(cfr, "MANY_SLICES", slots)
        assert cfr.is_wide(problem) == expected
