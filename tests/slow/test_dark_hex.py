"""Dark Hex on 2×3, through OpenSpiel: enumerated, cut, and refused where it forgets."""

import pytest

from jaxgadget.games.registry import load
from jaxgadget.tree.cut import cut
from jaxgadget.tree.forest import build_forest
from jaxgadget.tree.history import enumerate_game
from tests.games.test_openspiel import own_decisions, turn_starts

BOARD = "num_cols=3,num_rows=2"


@pytest.mark.parametrize(
    ("settings", "histories", "infosets", "cuts"),
    [
        (
            "obstype=reveal-numturns",
            104_229,
            [3_373, 8_349],
            {
                "depth:4": (590, 13),
                "depth:6": (5_136, 99),
                own_decisions(0, 2): (1_740, 74),
                own_decisions(1, 2): (1_488, 78),
                turn_starts(4): (3_360, 200),
            },
        ),
        (
            "gameversion=adh",
            149_953,
            [4_033, 2_725],
            {"depth:6": (5_528, 1), own_decisions(0, 3): (5_528, 1), own_decisions(1, 4): (18_480, 145)},
        ),
    ],
)
def test_dark_hex_is_enumerated_and_cut(settings, histories, infosets, cuts):
    """The classical game has the published 104,229 histories; the other numbers are what was first found."""
    tree = enumerate_game(load(f"openspiel:dark_hex({BOARD},{settings})"))
    assert tree.num_histories == histories
    assert [len(sets) for sets in tree.infosets] == infosets
    for where, (roots, subgames) in cuts.items():
        found = cut(tree, where)
        assert (len(found.roots), build_forest(tree, found).num_subgames) == (roots, subgames)


def test_the_classical_game_forgets_when_tries_failed():
    message = r"for player 0: perfect recall, an infoset joins histories in which the player did or knew"
    with pytest.raises(ValueError, match=message):
        enumerate_game(load(f"openspiel:dark_hex({BOARD})"))
