"""Floors at every infoset of a whole game, compared with linear programs of the explicit tree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jaxgadget
from jaxgadget import Policy, tremble
from jaxgadget.policy.floors import check_floors
from tests.reference import efg, lp
from tests.trees import kuhn


def explicit(floors: Any) -> tuple[efg.Game, dict[Any, Any]]:
    one, two = (np.concatenate([[1.0], rows]) for rows in floors)
    return efg.from_tree(kuhn()), efg.from_sequences(kuhn(), (one, two))


def some() -> list[Any]:
    """Uniform floors, and floors that vary by action and player."""
    tree = kuhn()
    prior = Policy.dirichlet(tree, seed=3)
    return [tremble(tree, 0.1), tremble(tree, 0.3, prior), (tremble(tree, 0.0)[0], tremble(tree, 0.2)[1])]


@pytest.mark.parametrize("number", range(3))
def test_the_constrained_value_is_the_explicit_programs(number: int) -> None:
    floors = some()[number]
    game, rows = explicit(floors)
    exact = lp.solve(game.root, 0, rows).value
    assert lp.solve(game.root, 1, rows).value == pytest.approx(-exact, abs=1e-9)
    free = lp.solve(game.root, 0).value
    found = jaxgadget.solve(kuhn(), algorithm="lp", floors=floors)
    assert found.gap == pytest.approx(0, abs=1e-8) and found.value == pytest.approx(exact, abs=1e-8)
    assert abs(exact - free) > 1e-4 and found.nash_conv > 1e-3  # the floors bind
    for player in (0, 1):
        assert (found.policy.probabilities[player][:, 0] >= floors[player] - 1e-12).all()


@pytest.mark.parametrize("algorithm", ["cfr", "cfr+", "dcfr", "pcfr+"])
def test_cfr_with_floors_is_within_its_gap(algorithm: str) -> None:
    floors = some()[1]
    game, rows = explicit(floors)
    exact = lp.solve(game.root, 0, rows).value
    found = jaxgadget.solve(kuhn(), algorithm=algorithm, iterations=500, floors=floors)
    assert 0 < found.gap < 0.05 < found.nash_conv
    assert abs(found.value - exact) <= found.gap + 1e-9
    for player in (0, 1):
        assert (found.policy.probabilities[player][:, 0] >= floors[player] - 1e-12).all()
    assert f"gap within the floors {found.gap:.3g} after" in found.message


def test_a_target_gap_is_within_the_floors() -> None:
    found = jaxgadget.solve(kuhn(), solver=jaxgadget.Solver(iterations=5000, target_gap=0.01), floors=0.1)
    assert found.gap <= 0.01 < found.nash_conv and found.iterations < 5000


@pytest.mark.parametrize(
    ("floors", "match"),
    [
        (1.0, "epsilon="),
        ((np.zeros(12), np.zeros(3)), "shape"),
        ((np.full(12, 0.5), np.zeros(12)), "player 0"),
        ((np.full(12, np.nan), np.zeros(12)), "player 0"),
    ],
)
def test_bad_floors(floors: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        check_floors(kuhn(), floors)


def test_a_prior_is_one_lane() -> None:
    two = Policy.stack([Policy.uniform(kuhn())] * 2)
    with pytest.raises(ValueError, match="prior has 2 lanes"):
        tremble(kuhn(), 0.1, two)
