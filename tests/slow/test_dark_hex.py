"""Dark Hex on 2×3, through OpenSpiel: enumeration, cuts, and refused variants with imperfect recall."""

import pytest

from jaxgadget.games.registry import load
from jaxgadget.tree.cut import cut
from jaxgadget.tree.forest import build_forest
from jaxgadget.tree.history import enumerate_game
from tests.games.test_openspiel import cuts_checked, own_decisions

pytestmark = pytest.mark.optimised

BOARD = "num_cols=3,num_rows=2"


@pytest.mark.parametrize(
    ("settings", "histories", "splits"),
    [("obstype=reveal-numturns", 104_229, True), ("gameversion=adh", 149_953, False)],
)
def test_dark_hex_is_enumerated_and_cut(settings, histories, splits):
    """Below the fifth decisions of player 0 the classical game splits; the abrupt one stays one subgame."""
    tree = cuts_checked(f"dark_hex({BOARD},{settings})", depths=9, counts=4, turns=6)
    assert tree.num_histories == histories
    forest = build_forest(tree, cut(tree, own_decisions(0, 4)))
    assert (forest.num_subgames > 1) == splits


def test_the_classical_game_forgets_when_tries_failed():
    message = r"for player 0: perfect recall, an infoset joins histories"
    with pytest.raises(ValueError, match=message):
        enumerate_game(load(f"openspiel:dark_hex({BOARD})"))
