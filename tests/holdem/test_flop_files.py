"""Flops in files: saving, loading, going on, checkpoints and 16 bits."""

from __future__ import annotations

import dataclasses
import pathlib

import numpy as np
import pytest

from jaxgadget.core.solver import Solver
from jaxgadget.holdem.locks import Lock
from jaxgadget.holdem.saved import SOLUTIONS
from jaxgadget.holdem.solution import SpotSolution
from jaxgadget.holdem.solve import resume_spots, solve_spots
from jaxgadget.util.store import read_archive, write_archive
from tests.holdem.test_flops import flop

SPOT = flop()
LINE = "check, check, Ks"
LOCKS = [Lock(line="check, check, check", strategy={"check": 1}, hands="8d7s")]


def solve(iterations: int, **settings: object) -> SpotSolution:
    (solution,) = solve_spots([SPOT], iterations=iterations, **settings)  # pyright: ignore[reportArgumentType]
    return solution


@pytest.mark.parametrize("compressed", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize("locks", [pytest.param([], marks=pytest.mark.slow), LOCKS], ids=["free", "locked"])
def test_a_saved_flop_goes_on(compressed: bool, locks: list[Lock], tmp_path: pathlib.Path) -> None:
    """Its turns are those of the solution, and going on gives what one solve gives."""
    path = tmp_path / "flop.npz"
    first = solve(20, compressed=compressed, locks=locks, keep_state=True)
    first.save(path)
    loaded = SpotSolution.load(path)
    assert (loaded.ev, loaded.gains, loaded.locks != ()) == (first.ev, first.gains, locks != [])
    for player in (0, 1):
        rows = loaded.after(LINE).probabilities[player], first.after(LINE).probabilities[player]
        np.testing.assert_array_equal(*rows)
    (later,) = resume_spots(loaded, iterations=40)
    whole = solve(40, compressed=compressed, locks=locks)
    assert (later.iterations, later.gains) == (40, whole.gains)


def test_sixteen_bits_are_half_of_the_memory() -> None:
    states = [solve(1, compressed=compressed, keep_state=True).state for compressed in (False, True)]
    sizes = [sum(array.nbytes for array in state.arrays) for state in states if state is not None]
    assert sizes[1] < 0.6 * sizes[0]


@pytest.mark.parametrize("compressed", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_flop_comes_from_its_checkpoint(compressed: bool, tmp_path: pathlib.Path) -> None:
    solver = Solver(iterations=20, checkpoint=tmp_path)
    pair = [solve_spots([SPOT], solver=solver, compressed=compressed)[0] for _ in range(2)]
    assert pair[0].gains == pair[1].gains
    assert pair[0].frequencies(LINE) == pair[1].frequencies(LINE)
    (other,) = solve_spots([SPOT], solver=solver, compressed=not compressed)
    assert other.gains != pair[0].gains


def test_a_file_of_another_layout_is_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "flop.npz"
    solve(2).save(path)
    archive = read_archive(path, SOLUTIONS)
    assert archive is not None
    for name in ("street_2_1_of_0", "deals_0_of_0"):
        changed = {**archive.arrays, name: archive.arrays[name][:, 1:]}
        write_archive(path, SOLUTIONS, archive.header, changed)
        with pytest.raises(ValueError, match="expected"):
            SpotSolution.load(path)


def test_a_state_of_other_storage_is_refused() -> None:
    solution = solve(2, keep_state=True)
    assert solution.state is not None
    other = dataclasses.replace(solution.state, compressed=True)
    with pytest.raises(ValueError, match=r"another algorithm, .* or by a release"):
        resume_spots(dataclasses.replace(solution, state=other), iterations=3)


def test_a_turn_without_symmetries_goes_on_with_suit_isomorphism() -> None:
    turn = dataclasses.replace(SPOT, board="Td9d6h2c", oop="AsKs,KsKh,QcJc", dead="")
    solver = Solver(iterations=5)
    (first,) = solve_spots([turn], solver=solver, suit_isomorphism=True, keep_state=True)
    (later,) = resume_spots(first, iterations=10)
    assert later.iterations == 10


def test_16_bits_need_a_flop() -> None:
    turn = dataclasses.replace(SPOT, board="Td9d6h7s", dead="")
    with pytest.raises(ValueError, match="compressed=True: no spot is a flop"):
        solve_spots([turn], compressed=True, iterations=1)
