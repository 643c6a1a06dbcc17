"""Games by hands: public trees and tables, and invalid input."""

import re

import numpy as np
import pytest

from jaxgadget.games.game import CHANCE
from jaxgadget.games.hands import PublicLevel, PublicNodes
from jaxgadget.games.liars_dice import LiarsDice
from jaxgadget.games.registry import load
from jaxgadget.tree.public import public_tree


def test_public_tree_of_kuhn():
    tree = load("kuhn_poker").by_hands().nodes
    assert [tree.moves(node) for node in range(len(tree))] == [
        (),
        (0,),
        (1,),
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
        (0, 1, 0),
        (0, 1, 1),
    ]
    assert tree.ends.tolist() == [3, 5, 6, 7, 8]
    assert [tree.decisions(player).tolist() for player in (0, 1)] == [[0, 4], [1, 2]]
    assert tree.num_children.tolist() == [2, 2, 2, 0, 2, 0, 0, 0, 0]
    assert tree.slot.tolist() == [0, 0, 1, 0, 1, 0, 1, 0, 1]
    assert tree.first_child[[0, 1, 2, 4]].tolist() == [1, 3, 5, 7]


def test_kuhn_pays_the_higher_card():
    """A called bet pays two chips, a bet and a fold one; each deal has probability 1/6."""
    game = load("kuhn_poker").by_hands()
    paid = {
        game.describe(node): (scale * group.pays[table]).round(12)
        for group in game.ends
        for table, (nodes, scales) in enumerate(zip(group.node, group.scale, strict=True))
        for node, scale in zip(nodes.tolist(), scales.tolist(), strict=True)
    }
    ahead = np.array([[0, -1, -1], [1, 0, -1], [1, 1, 0]]) / 6
    dealt = np.abs(ahead)
    expected = {
        "Pass Pass": ahead,
        "Pass Bet Pass": -dealt,
        "Pass Bet Bet": 2 * ahead,
        "Bet Pass": dealt,
        "Bet Bet": 2 * ahead,
    }
    assert paid.keys() == expected.keys()
    for words, table in expected.items():
        np.testing.assert_allclose(paid[words], table, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("spec", "hands", "nodes", "infosets"),
    [
        ("kuhn_poker", 3, 9, 6),
        ("leduc_poker", 6, 465, 468),
        ("leduc_poker(num_ranks=13,num_suits=4,suit_isomorphism=True)", 13, 990, 2574),
        ("liars_dice", 6, 8191, 12288),
        ("liars_dice(numdice=2,dice_sides=3)", 6, 8191, 12288),
        ("liars_dice(numdice=2,dice_sides=4)", 10, 131071, 327680),
    ],
)
def test_sizes(spec: str, hands: int, nodes: int, infosets: int):
    game = load(spec).by_hands()
    assert game.num_hands == (hands, hands)
    assert len(game.nodes) == nodes
    assert game.num_infosets(0) == infosets
    assert game.deals[game.board[0]].sum() == pytest.approx(1, abs=1e-14)
    assert game.payoff_range == game.payoff_bounds[1] - game.payoff_bounds[0] > 0


def test_merged_rolls_have_their_total_weight():
    game = load("liars_dice(numdice=2,dice_sides=3)").by_hands()
    assert game.hands[0] == ("11", "12", "13", "22", "23", "33")
    np.testing.assert_allclose(game.deals[0].sum(axis=1) * 9, [1, 2, 2, 1, 2, 1], rtol=0, atol=1e-14)


def test_no_hand_holds_the_public_card():
    game = load("leduc_poker").by_hands()
    tree = game.nodes
    shown = np.flatnonzero(tree.actor[tree.parent] == CHANCE)
    for possible in game.possible:
        assert possible[0].all()
        for node in shown.tolist():
            assert np.flatnonzero(~possible[node]).tolist() == [tree.action[node]]


def test_action_mapping_has_no_form_by_hands():
    with pytest.raises(ValueError, match="action_mapping") as error:
        load("leduc_poker(action_mapping=True)").by_hands()
    assert "leave action_mapping out" in str(error.value)


@pytest.mark.parametrize("spec", ["liars_dice(dice_sides=3)", "liars_dice(numdice=2,dice_sides=2)"])
def test_the_size_of_a_hand_form_is_known_before_it_is_laid_out(spec):
    game = load(spec)
    tree = public_tree(game)
    num_sequences = sum(infosets.num_sequences - 1 for infosets in tree.infosets) + sum(tree.num_hands)
    assert game.public_size == (len(tree.nodes), num_sequences)


def test_a_hand_form_that_does_not_fit_is_refused_before_it_is_laid_out(monkeypatch):
    monkeypatch.setattr(LiarsDice, "by_hands", lambda game: pytest.fail("laid out"))
    with pytest.raises(ValueError, match=re.escape("33,554,431 public nodes")) as error:
        public_tree(load("liars_dice(numdice=2,dice_sides=6)"), memory_limit=4 << 30)
    assert "64.8 GB of memory, but 4.29 GB is available" in str(error.value)


def chain() -> PublicNodes:
    one = np.zeros(1, np.int64)
    return PublicNodes.of([PublicLevel(one, np.array([1], np.uint8), one), PublicLevel(one, one, one)])


def test_a_tree_without_choices():
    tree = chain()
    assert tree.ends.tolist() == [1]
    assert repr(tree) == "<PublicNodes: 2 nodes, 1 of them ends>"
