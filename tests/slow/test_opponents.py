"""Published figures of best Nash strategies, Leduc's responses by CFR against programs, certificates."""

from __future__ import annotations

import itertools

import pytest

import jaxgadget as jg
from tests.subgames.test_opponents import TINY, drawn_refinement

GOOFSPIEL = "goofspiel(num_cards={},imp_info=True,points_order=descending,returns_type=point_difference)"


@pytest.mark.parametrize(
    ("game", "printed"),
    [("leduc_poker", 32.6), (GOOFSPIEL.format(4), 77.1), (GOOFSPIEL.format(5), 50.4)],
)
def test_best_nash_shares_are_those_of_table_1(game: str, printed: float) -> None:
    """Milec, Kubíček and Lisý, Table 1: gain as a share of a best response's, uniform opponent."""
    tree = jg.enumerate_game(jg.load(game))
    found = jg.best_nash(tree, jg.Policy.uniform(tree))
    assert round(float(100 * found.gain[0] / found.best_response_gain[0]), 1) == printed
    assert found.exploitability[0] == pytest.approx(0, abs=1e-8 * tree.payoff_range)


def test_cfr_reaches_leduc_s_objectives_within_its_gap() -> None:
    player = 1
    tree = jg.enumerate_game(jg.load("leduc_poker"))
    to = jg.Opponent([jg.Policy.uniform(tree), jg.Policy.dirichlet(tree, 0)], (0, 0.5, 0.9, 1 - 1e-6, 1))
    exact = jg.respond(tree, to, player=player, algorithm="lp")
    for dtype in ("float32", "float64"):
        found = jg.respond(
            tree,
            to,
            player=player,
            solver=jg.Solver(iterations=1000, dtype=dtype, progress=False),
            value=exact.game_value,
        )
        missing = exact.objective - found.objective
        assert (missing >= -1e-7).all() and (missing <= found.gap + 1e-7).all()
        assert found.gap.max() < 1e-3 * tree.payoff_range


def test_bounds_hold_against_five_hundred_drawn_mixtures() -> None:
    """12 random games of five shapes each, 576 programs: exploitability never exceeds the certificate."""
    held = rose = 0
    for seed, player in itertools.product(range(6), (0, 1)):
        result = drawn_refinement(seed, player, iterations=15)
        assert not result.failures
        excess = result.refined_exploitability - result.exploitability_bound
        assert excess.max() <= TINY  # false for NaN
        held += len(excess)
        rose += int((result.refined_exploitability > result.blueprint_exploitability + 1e-3).sum())
    assert held >= 500
    assert rose > 100  # excludes bounds that hold because nothing changes
