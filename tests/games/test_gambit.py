"""Gambit files: a game exported by OpenSpiel, corner cases of the format, malformed files."""

import numpy as np
import pytest

from jaxgadget.games.gambit import GambitGame
from jaxgadget.games.kuhn import KuhnPoker
from jaxgadget.games.registry import load
from jaxgadget.tree.history import enumerate_game

# Labels, fractions, a comment, escaped quotes, a payoff on the way, commas or none, an outcome used
# twice, actions omitted at the second node of an infoset, unusual line breaks.
CORNERS = r"""EFG 2 R "A \"small\" game"
{ "Ann" "Bob" }
"a comment"

c "" 1 "" { "red" 1/3 "green" 2/3 } 0
p "" 1 1 "Ann red" { "up" "down" } 1 "fee" { -1, 1 }
  p "" 2 7 "" { "l" "r" } 0
    t "" 2 "won" { 3 -3 }
    t "" 3 "" { 1/2, -0.5 }
  p "" 2 7 "Bob" 0 t "" 2
    t ""
    4 "" {0,0}
p "" 1 2 "" { "up" "down" } 0 "nothing"
  t "" 2 t "" 0
"""
COIN = 'EFG 2 R "coin" { "A" "B" }\n'
LEAVES = 't "" 1 "" { 1 -1 }\nt "" 2 "" { -1 1 }\n'


@pytest.fixture
def write(tmp_path):
    def to_file(text):
        path = tmp_path / "game.efg"
        path.write_text(text, encoding="utf-8")
        return path

    return to_file


def test_corners_of_the_format(write):
    path = write(CORNERS)
    tree = enumerate_game(load(path))
    game = tree.game
    assert isinstance(game, GambitGame)
    assert (game.name, game.title) == (str(path), 'A "small" game')
    assert tree.num_histories == 11
    np.testing.assert_allclose(tree.chance[1:3], [1 / 3, 2 / 3])
    payoffs = {tree.moves(h): tree.payoff[h] for h in tree.terminals.tolist()}
    up, down, left, right = range(4)
    assert payoffs == {
        (0, up, left): 2,
        (0, up, right): -0.5,
        (0, down, left): 2,
        (0, down, right): -1,
        (1, up): 3,
        (1, down): 0,
    }
    assert [game.action_string(0, a) for a in range(game.num_actions)] == ["up", "down", "l", "r"]
    assert sorted(tree.infoset_names[0]) == ["0:2", "Ann red"]
    assert tree.infoset_names[1] == ("Bob",)  # named at its second node


def test_infostate_of_a_player_who_does_not_act_is_its_last_action(write):
    tree = enumerate_game(load(write(CORNERS)))
    at = {tree.moves(h): tree.infostate[:, h].tolist() for h in range(tree.num_histories)}
    assert at[()][0] != at[(0,)][0]  # Ann's infoset is more specific than an empty past
    assert at[(0, 0)][0] != at[(0, 1)][0]
    assert at[(0, 0)][0] == at[(0, 0, 2)][0] == at[(0, 0, 3)][0]
    assert at[()][1] == at[(0,)][1] == at[(1, 0)][1] != at[(0, 0)][1]
    assert at[(0, 0)][1] == at[(0, 1)][1]


def test_kuhn_exported_by_openspiel(write):
    pyspiel = pytest.importorskip("pyspiel")
    gambit = pytest.importorskip("open_spiel.python.algorithms.gambit")
    mine = enumerate_game(load(write(gambit.export_gambit(pyspiel.load_game("kuhn_poker")))))
    theirs = enumerate_game(KuhnPoker())
    assert [mine.game.action_string(0, a) for a in (0, 1)] == ["Pass", "Bet"]
    for field in ("level_offset", "parent", "actor", "payoff"):
        np.testing.assert_array_equal(getattr(mine, field), getattr(theirs, field), err_msg=field)
    np.testing.assert_allclose(mine.chance, theirs.chance)
    for player in (0, 1):
        pairs = set(zip(mine.infoset[player].tolist(), theirs.infoset[player].tolist(), strict=True))
        assert len(pairs) == 7  # six infosets, and none


def test_actions_are_in_ascending_id_whatever_their_order_in_the_file(write):
    text = COIN + 'p "" 1 1 "" { "H" "T" } 0\n'
    text += 'p "" 2 1 "" { "T" "H" } 0\n' + LEAVES + 't "" 3 "" { 5 -5 }'
    tree = enumerate_game(load(write(text)))
    assert tree.action[1, 3:].tolist() == [0, 1]
    assert tree.payoff[3:].tolist() == [-1, 1]


def test_labels_that_do_not_name_one_infoset_are_replaced(write):
    text = COIN + 'p "" 1 1 "same" { "a" "b" } 0\np "" 2 1 "same" { "a" "" "" } 0\n' + LEAVES
    text += 't "" 1\np "" 2 3 "1:1" { "a" "b" } 0\n' + LEAVES
    tree = enumerate_game(load(write(text)))
    assert tree.infoset_names == (("0:1",), ("1:3", "1:1"))  # not the label that equals another player's name
    assert [tree.game.action_string(1, a) for a in range(4)] == ["a", "b", "#1", "#2"]


def test_general_sum_and_imperfect_recall_are_left_to_the_tree(write):
    with pytest.raises(ValueError, match="zero-sum"):
        enumerate_game(load(write(COIN + 'p "" 1 1 "" { "a" "b" } 0 t "" 1 "" { 1 1 } t "" 2 "" { 1 -1 }')))
    node = 'p "" 1 {} "" {{ "a" "b" }} 0\n'
    forgets = COIN + node.format(1) + node.format(2) + LEAVES + node.format(2) + LEAVES
    with pytest.raises(ValueError, match="perfect recall"):
        enumerate_game(load(write(forgets)))


P = 'p "" 1 1 "" { "a" "b" } 0\n'
MALFORMED = [
    ("", 1, "the file ends where .* starts with EFG 2 R was expected"),
    ("NFG 1 R", 1, "expected 'EFG' .*, got 'NFG'"),
    ('EFG 2 R "coin"\n{ "A" "B" "C" }', 2, "the game has 3 players; expected 2"),
    (COIN, 1, "the file ends where a node: c, p or t was expected"),
    (COIN + "q", 2, r"expected a node \(c, p or t\), got 'q'"),
    (COIN + 'p "" 3 1 "" { "a" } 0', 2, "player number 3: expected 1 or 2"),
    (COIN + 'p "" 1 1 "" { } 0', 2, "a node that is not terminal has no actions; expected at least one"),
    (COIN + P + 'p "" 1 1 "" { "a" "c" } 0', 3, r"infoset 1 has .* expected \['a', 'b'\]"),
    (COIN + 'c "" 1 "" { "a" 0.5 "b" 0.6 } 0', 2, "chance probabilities sum to 1.1; expected"),
    (COIN + 'c "" 1 "" { "a" 2 "b" -1 } 0', 2, "chance probabilities sum to 1; expected numbers >= 0"),
    (COIN + P + 't "" 1', 3, "outcome 1 is not defined"),
    (COIN + P + 't "" 1 "" { 1 }', 3, "outcome 1 has 1 payoffs; expected 2"),
    (COIN + P + 't "" 1 "" { 1/0 0 }', 3, "expected a payoff, such as 2, -0.5 or 1/3, got '1/0'"),
    (COIN + P + 't "" 1 "" { nan 0 }', 3, "expected a payoff, .* got 'nan'"),
    (COIN + P + 't "" 1 "" { 1 -1 }\nt "" 1 "" { 2 -2 }', 4, "outcome 1 has different payoffs"),
    (COIN + P + 't "" 1 "" { 1 -1', 3, "the file ends where a payoff was expected"),
    (COIN + P + LEAVES + 't "" 1', 5, "expected the end of the file, as the tree is complete, got 't'"),
]


@pytest.mark.parametrize(("text", "line", "message"), MALFORMED)
def test_errors_of_malformed_files_name_the_line(write, text, line, message):
    with pytest.raises(ValueError, match=rf"game\.efg, line {line}: .*{message}.*; correct the file$"):
        load(write(text))


def test_a_file_that_is_no_text(tmp_path):
    path = tmp_path / "game.efg"
    path.write_bytes(b"EFG 2 R \xff")
    with pytest.raises(ValueError, match=r"game\.efg"):
        load(path)


def test_a_byte_order_mark_is_no_part_of_the_file(tmp_path):
    path = tmp_path / "game.EFG"
    path.write_text(COIN + P + LEAVES, encoding="utf-8-sig")
    assert enumerate_game(load(path)).num_histories == 3


# --- hostile files ------------------------------------------------------------------------

NINES = "9" * 5000
FAR = '"' + '\\"' * 1_000_000
HOSTILE = [
    (
        COIN + P + 't "" 1 "" { 1e99999999 -1 }',
        3,
        r"expected a payoff, such as .*, got '1e99999999' \(at most",
    ),
    (COIN + P + 't "" 1 "" { 1e-99999999 -1 }', 3, "expected a payoff, such as .*, got '1e-99999999'"),
    (COIN + P + f't "" 1 "" {{ {NINES} -1 }}', 3, "expected a payoff, such as .*, got '999.*999'"),
    (
        COIN + P + 't "" 1 "" { 1.7e308 -1.7e308 }',
        3,
        "expected a payoff, .* got '1.7e308' .at most 1e.30 in size",
    ),
    (COIN + f'p "" {NINES} 1 "" {{ "a" }} 0', 2, "expected the player's number, an integer .* got '999"),
    (COIN + P + 't "" \u0661 "" { 1 -1 }', 3, "expected the outcome's number, an integer .* got '\u0661'"),
    (COIN + FAR, 2, "quotes around a comment"),
    (COIN + 'p "" 1 1 "" { "a" "b" } 0\n' * 100_000, 2002, "more than 2,000 steps"),
]


@pytest.mark.parametrize(("text", "line", "message"), HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_files_are_refused_like_others(write, text, line, message):
    with pytest.raises(
        ValueError, match=rf"game\.efg, line {line}: .*{message}.*; correct the file$"
    ) as caught:
        load(write(text))
    assert len(str(caught.value)) < 700


def test_payoffs_that_add_up_to_endless_fractions_are_refused(write):
    primes = [p for p in range(3, 9000) if all(p % k for k in range(2, int(p**0.5) + 1))]
    nodes = [f'c "" {k} "" {{ "a" 1 }} {k} "" {{ 1/{p}, -1/{p} }}\n' for k, p in enumerate(primes, 1)]
    with pytest.raises(ValueError, match="payoffs"):
        load(write(COIN + "".join(nodes[:1500]) + 't "" 0'))


def test_the_longest_history_that_is_read_is_the_longest_that_is_enumerated(write):
    node = 'c "" 1 "" { "a" 1 } 0\n'
    assert enumerate_game(load(write(COIN + node * 1999 + 't "" 0'))).num_histories == 2000
    with pytest.raises(ValueError, match="history"):
        load(write(COIN + node * 2000 + 't "" 0'))


def test_actions_are_numbered_depth_first_in_the_order_of_their_numbers(write):
    """The second action of the second node is known by then, so its subtree comes first."""
    text = COIN + 'p "" 1 1 "" { "x" "y" } 0\np "" 1 2 "" { "T" "x" } 0\n'
    text += 'p "" 2 1 "" { "p" } 0\n' + 't "" 1 "" { 1 -1 }\np "" 2 2 "" { "q" } 0\nt "" 1\nt "" 1'
    game = load(write(text))
    assert [game.action_string(0, a) for a in range(game.num_actions)] == ["x", "y", "T", "q", "p"]
