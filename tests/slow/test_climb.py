"""Climb with hands of two cards: all 60,376 histories compared with explicit trees."""

import functools

import pytest

import jaxgadget
from jaxgadget.games.climb import climb
from tests.games.test_climb import check_counts
from tests.reference import climb as reference

pytestmark = pytest.mark.optimised


@functools.cache
def tree():
    return jaxgadget.enumerate_game(climb(4, 2))


def test_all_histories_are_those_of_the_game_played_out():
    check_counts(tree(), reference.game(4, 2))
    assert tree().num_histories == 60_376  # the value in the documentation


def test_the_program_s_value_lies_in_the_bracket_of_cfr():
    exact = jaxgadget.solve(tree(), algorithm="lp")
    against_first, against_second = jaxgadget.solve(
        tree(), solver=jaxgadget.Solver(iterations=500, dtype="float64")
    ).best_response_values
    assert -against_first - 1e-9 <= exact.value <= against_second + 1e-9
    assert against_first + against_second < 1e-3
    assert exact.value == pytest.approx(-0.9507936507936506, abs=1e-6)


def test_own_infostates_are_re_solved():
    where = "decision_2"
    uniform = jaxgadget.Policy.uniform(tree())
    gadgets = [jaxgadget.Resolving(jaxgadget.NoPrior()), jaxgadget.MaxMargin(jaxgadget.NoPrior())]
    known = jaxgadget.Knowledge(order=1)
    result = jaxgadget.refine(
        tree(),
        where,
        uniform,
        gadgets,
        solver=jaxgadget.Solver(iterations=300, progress=False),
        knowledge=known,
    )
    table = result.table
    assert (table["refined_exploitability"] < table["blueprint_exploitability"] - 0.01).all()
    assert (table["refined_exploitability"] <= table["exploitability_bound"] + 1e-6).all()
