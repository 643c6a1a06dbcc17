"""CFR by hands: the iterates of the histories, checkpoints, stopping, exact solutions, bad input."""

import pathlib
import re

import numpy as np
import pytest

from jaxgadget import Solver, enumerate_game, load, public_tree, solve
from jaxgadget.core import registry
from tests.hands import alike
from tests.solving import settings

KUHN_VALUE = -1 / 18


@pytest.mark.parametrize("algorithm", registry.RULES)
def test_iterates_are_those_of_the_histories(algorithm: str):
    alike.check_iterations("kuhn_poker", algorithm)


def test_iterates_where_every_end_has_a_table_of_its_own():
    alike.check_iterations("random", "cfr+")


@pytest.mark.parametrize("spec", ["kuhn_poker", "liars_dice(dice_sides=2)"])
def test_exact_solutions(spec: str):
    """From the same linear program as with histories."""
    ours = solve(public_tree(load(spec)), algorithm="lp")
    theirs = solve(enumerate_game(load(spec)), algorithm="lp")
    assert abs(ours.value - theirs.value) < 1e-12
    assert ours.nash_conv < 1e-12
    assert "simplex iterations" in ours.message


def test_a_solve_goes_on_from_its_checkpoint(tmp_path: pathlib.Path):
    tree, file = alike.public("kuhn_poker"), tmp_path / "kuhn.npz"
    straight = solve(tree, iterations=30)
    solve(tree, solver=Solver(iterations=10, checkpoint=file))
    resumed = solve(tree, solver=Solver(iterations=30, checkpoint=file))
    for one, other in zip(resumed.policy.probabilities, straight.policy.probabilities, strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match="is of another solve"):
        solve(public_tree(load("liars_dice(dice_sides=2)")), solver=Solver(checkpoint=file))


def test_it_stops_at_the_gap_and_says_how_far_it_got():
    solution = solve(
        alike.public("kuhn_poker"), solver=Solver(target_gap=0.02, check_every=10, dtype="float32")
    )
    assert solution.nash_conv <= 0.02
    assert solution.iterations < 1000
    low, high = solution.bracket
    assert low <= KUHN_VALUE <= high
    assert repr(solution).startswith("<Solution of kuhn_poker: value -0.05")
    short = solve(alike.public("kuhn_poker"), solver=Solver(iterations=10, target_gap=1e-6))
    assert "the target of 1e-06 was not reached" in short.message


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"algorithm": "cfr++"}, "algorithm='cfr++'"),
        ({"iterations": 0}, "iterations=0"),
        ({"dtype": "float16"}, "dtype='float16'"),
        ({"target_gap": -1}, "target_gap=-1"),
        (
            {"memory_limit": 1000},
            "9 public nodes, 3 × 3 hands and 1 lane(s) take 4.65 kB of memory, 1 kB may be taken",
        ),
    ],
)
def test_bad_input(arguments: dict[str, object], expected: str):
    with pytest.raises(ValueError, match=re.escape(expected)):
        solve(alike.public("kuhn_poker"), **settings(**arguments))
