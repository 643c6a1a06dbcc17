"""Sparse sums and the payoff operator: row form, block form and dense matrix agree."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgadget
from jaxgadget.core.host import Entries, Rounding, exact_size, merge_entries, rounded_size
from jaxgadget.core.payoff import (
    MIN_BLOCK_FILL,
    Blocks,
    Payoff,
    PayoffForm,
    block_fill,
    build_payoff,
)
from jaxgadget.core.rows import UNROLLED_WIDTH, RowSums, build_row_sums
from jaxgadget.policy.evaluate import terminal_payoff
from jaxgadget.tree.whole import sequence_form, whole_treeplexes
from jaxgadget.util.precision import precision
from tests.core import grove
from tests.reference.efg import Array

LANES = 3


@functools.cache
def matrix(name: str) -> Array:
    """A sparse matrix of a kind with its own code path."""
    rng = np.random.default_rng(len(name))
    dense = rng.normal(size=(9, 30))
    if name == "one bucket":
        return dense * (rng.random(dense.shape) < 0.4)
    if name == "wide":  # more than are unrolled, in rows of equal width
        return np.where(np.arange(30) < UNROLLED_WIDTH + 5, dense, 0)
    if name == "wide and narrow":
        dense[1:] *= rng.random((8, 30)) < 0.08
        dense[[3, 7]] = 0
    if name == "empty rows":
        dense *= rng.random(dense.shape) < 0.3
        dense[[0, 4, 8]] = 0
    if name == "nothing":
        dense *= 0
    if name == "one entry":
        dense *= np.arange(270).reshape(9, 30) == 47
    return dense


MATRICES = ("one bucket", "wide", "wide and narrow", "empty rows", "nothing", "one entry")


@jax.jit
def apply(sums: RowSums, x: jax.Array) -> jax.Array:
    return sums(x)


def row_sums(dense: Array, rounding: Rounding) -> RowSums:
    row, column = np.nonzero(dense)
    order = np.random.default_rng(0).permutation(len(row))  # entries in arbitrary order
    row, column = row[order], column[order]
    return build_row_sums(row, column, dense[row, column], len(dense), np.float64, rounding)


@pytest.mark.parametrize("rounding", [exact_size, rounded_size])
@pytest.mark.parametrize("name", MATRICES)
def test_row_sums_are_a_matrix_product(name: str, rounding: Rounding) -> None:
    dense = matrix(name)
    x = np.random.default_rng(0).normal(size=(dense.shape[1], LANES))
    with precision(np.float64):
        total = apply(row_sums(dense, rounding), jnp.asarray(x))
    np.testing.assert_allclose(total, dense @ x, rtol=0, atol=1e-13)
    assert (np.asarray(total)[~dense.any(axis=1)] == 0).all()


def test_both_kinds_of_buckets_are_tested() -> None:
    with precision(np.float64):
        widths = {name: [i.shape[0] for i in row_sums(matrix(name), exact_size).index] for name in MATRICES}
        single = {name: row_sums(matrix(name), exact_size).slot_of_row is None for name in MATRICES}
    assert single["one bucket"] and len(widths["one bucket"]) == 1
    assert len(widths["wide and narrow"]) > 2 and max(widths["wide and narrow"]) > UNROLLED_WIDTH
    assert widths["nothing"] == []


# Payoffs


def block_diagonal(seed: int) -> Entries:
    """Dense blocks of several shapes, two of them equal, with shuffled rows and columns; some are empty."""
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(20), rng.permutation(25)
    dense = np.zeros((20, 25))
    r = c = 0
    for height, width in [(2, 3), (5, 1), (2, 3), (4, 6), (1, 1)]:
        block = np.ix_(rows[r : r + height], columns[c : c + width])
        dense[block] = rng.normal(size=(height, width)) + 3
        r, c = r + height, c + width
    row, column = np.nonzero(dense)
    return merge_entries(row, column, dense[row, column], dense.shape)


def entries(name: str) -> Entries:
    if name == "blocks":
        return block_diagonal(0)
    if name == "grove":
        return grove.forest(0).form.payoff
    return sequence_form(jaxgadget.enumerate_game(jaxgadget.load(name))).payoff


@jax.jit
def gradients(payoff: Payoff, reach: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
    first, _ = payoff.gradient(0, reach, None)
    second, _ = payoff.gradient(1, reach, None)
    return first, second


@pytest.mark.parametrize("form", ["rows", "blocks"])
@pytest.mark.parametrize("name", ["blocks", "grove", "kuhn_poker", "leduc_poker"])
def test_payoff_forms_equal_the_dense_matrix(name: str, form: PayoffForm) -> None:
    """`A·x_1` for player 0 and `−Aᵀ·x_0` for player 1."""
    with precision(np.float64):
        check_gradients(build_payoff(entries(name), np.float64, form=form), entries(name))


@pytest.mark.parametrize("size", [7, 1 << 20], ids=["chunks, the last one not full", "one chunk"])
@pytest.mark.parametrize("name", ["kuhn_poker", "leduc_poker", "goofspiel(imp_info=True,num_cards=3)"])
def test_terminal_by_terminal_it_equals_the_dense_matrix(
    name: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jaxgadget.policy.evaluate.TERMINALS_AT_A_TIME", size)
    tree = jaxgadget.enumerate_game(jaxgadget.load(name))
    assert tree.num_terminals % 7 > 0
    with precision(np.float64):
        payoff = terminal_payoff(whole_treeplexes(tree), np.float64)
        assert payoff.value.shape == (-(-tree.num_terminals // size), min(size, tree.num_terminals))
        check_gradients(payoff, entries(name))
        unsigned = dataclasses.replace(tree, payoff=np.abs(tree.payoff), cache={})
        check_absolute(payoff, sequence_form(unsigned).payoff)


def check_gradients(payoff: Payoff, listed: Entries) -> None:
    """Compare with the matrix of the given entries, for random vectors."""
    dense = np.zeros(listed.shape)
    np.add.at(dense, (listed.row, listed.column), listed.value)
    rng = np.random.default_rng(0)
    x = [rng.random((size, LANES)) for size in listed.shape]
    first, second = gradients(payoff, (jnp.asarray(x[0]), jnp.asarray(x[1])))
    np.testing.assert_allclose(first, dense @ x[1], rtol=0, atol=1e-12)
    np.testing.assert_allclose(second, -dense.T @ x[0], rtol=0, atol=1e-12)
    assert np.abs(first).max() > 0


@pytest.mark.parametrize("form", ("rows", "blocks"))
def test_without_signs_both_players_earn_the_sizes_of_the_entries(form: PayoffForm) -> None:
    listed = entries("leduc_poker")
    with precision(np.float64):
        check_absolute(build_payoff(listed, np.float64, form=form), listed)


def check_absolute(payoff: Payoff, listed: Entries) -> None:
    """`|A|·x_1` for player 0 and `|A|ᵀ·x_0` for player 1."""
    unsigned = dataclasses.replace(listed, value=np.abs(listed.value))
    first, second = gradients(payoff.absolute(), ones(listed))
    dense = np.zeros(listed.shape)
    np.add.at(dense, (listed.row, listed.column), unsigned.value)
    np.testing.assert_allclose(first, np.tile(dense.sum(axis=1)[:, None], LANES), rtol=0, atol=1e-12)
    np.testing.assert_allclose(second, np.tile(dense.sum(axis=0)[:, None], LANES), rtol=0, atol=1e-12)


def ones(listed: Entries) -> tuple[jax.Array, jax.Array]:
    first, second = (jnp.ones((size, LANES)) for size in listed.shape)
    return first, second


@pytest.mark.parametrize("form", ["rows", "blocks"])
@pytest.mark.parametrize("name", ["blocks", "grove", "kuhn_poker", "leduc_poker"])
def test_entries_are_those_that_a_payoff_was_built_from(name: str, form: PayoffForm) -> None:
    listed = entries(name)
    with precision(np.float64):
        rebuilt = build_payoff(listed, np.float64, form=form, rounding=rounded_size).entries()
    check_equal(rebuilt, listed)


def check_equal(rebuilt: Entries, listed: Entries) -> None:
    assert rebuilt.shape == listed.shape
    for field in ("row", "column", "value"):
        np.testing.assert_array_equal(getattr(rebuilt, field), getattr(listed, field))


@pytest.mark.parametrize("form", ["rows", "blocks"])
def test_payoffs_by_lane_give_lanes_and_entries_back(form: PayoffForm) -> None:
    listed = block_diagonal(0)
    by_lane = dataclasses.replace(listed, value=listed.value[:, None] * np.array([1.0, -2.0, 0.5]))
    with precision(np.float64):
        payoff, shared = (build_payoff(given, np.float64, form=form) for given in (by_lane, listed))
        check_equal(payoff.entries(), by_lane)
        chosen = payoff.take_lanes(np.array([2, 0]))
        check_equal(chosen.entries(), dataclasses.replace(by_lane, value=by_lane.value[:, [2, 0]]))
        assert shared.take_lanes(np.array([0])) is shared
    (fixed, lane), (of_two, lane_of_two) = payoff.num_bytes(), chosen.num_bytes()
    everything = sum(x.nbytes for x in jax.tree.leaves(payoff))
    assert fixed + 3 * lane == everything and lane > 0 and (of_two, lane_of_two) == (fixed, lane)
    assert shared.num_bytes() == (sum(x.nbytes for x in jax.tree.leaves(shared)), 0)


def test_a_payoff_of_nothing_has_no_entries() -> None:
    nothing = np.zeros(0, np.int64)
    listed = merge_entries(nothing, nothing, np.zeros(0), (3, 4))
    check_equal(build_payoff(listed, np.float32, form="rows").entries(), listed)


def test_a_payoff_keeps_the_state_it_is_given() -> None:
    payoff = build_payoff(entries("kuhn_poker"), np.float32)
    reach = tuple(jnp.ones((size, 1)) for size in entries("kuhn_poker").shape)
    assert payoff.gradient(0, (reach[0], reach[1]), "state")[1] == "state"


def test_how_full_blocks_are() -> None:
    """Density of a component of 2 × 3 cells with 4 entries and of one with a single cell."""
    row, column = np.array([1, 1, 3, 3, 0]), np.array([0, 2, 2, 4, 1])
    assert block_fill(merge_entries(row, column, np.ones(5), (5, 6))) == pytest.approx(5 / 7)
    assert block_fill(block_diagonal(0)) == 1


def test_auto_takes_blocks_that_are_full_enough() -> None:
    assert all(isinstance(part, Blocks) for part in build_payoff(block_diagonal(0), np.float32).maps)
    ends = np.arange(20)
    chain = merge_entries(np.append(ends, ends[1:]), np.append(ends, ends[:-1]), np.ones(39), (20, 20))
    assert block_fill(chain) < MIN_BLOCK_FILL  # one component, almost empty
    assert all(isinstance(part, RowSums) for part in build_payoff(chain, np.float32).maps)
