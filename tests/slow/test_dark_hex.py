"""Dark Hex on 2×3: natively and through OpenSpiel, cuts, and refused variants with imperfect recall."""

import numpy as np
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


@pytest.mark.parametrize("settings", ["obstype=reveal-numturns", "gameversion=adh"])
def test_every_history_of_the_own_game_is_openspiels(settings):
    ours, theirs = (
        enumerate_game(load(f"{prefix}dark_hex({BOARD},{settings})")) for prefix in ("", "openspiel:")
    )
    for field in ("level_offset", "parent", "actor", "action", "payoff"):
        np.testing.assert_array_equal(getattr(ours, field), getattr(theirs, field), err_msg=field)
    for player in (0, 1):
        acts = ours.infoset[player] >= 0
        pairs = np.unique(np.stack([ours.infoset[player, acts], theirs.infoset[player, acts]]), axis=1)
        assert pairs.shape[1] == len(ours.infosets[player]) == len(theirs.infosets[player])
        assert set(ours.infostate_strings[player]) == set(theirs.infostate_strings[player])


def test_what_the_strings_show_does_not_matter_to_the_own_game():
    shown, hidden = (
        enumerate_game(load(f"dark_hex({BOARD},obstype=reveal-{what})")) for what in ("numturns", "nothing")
    )
    np.testing.assert_array_equal(shown.infoset, hidden.infoset)
    assert (
        len(set(hidden.infostate_strings[1]))
        < len(hidden.infosets[1])
        == len(set(shown.infostate_strings[1]))
    )
