"""Encodings of histories: they distinguish both players' infostates in every game."""

import dataclasses

import numpy as np
import pytest

import jaxgadget
from jaxgadget.games.game import CHANCE
from jaxgadget.games.registry import list_games
from jaxgadget.games.stepwise import Rules, Step
from jaxgadget.learn.encoding import (
    Encoding,
    check_encoding,
    decision_histories,
    determines_infostates,
    encode,
    encoding_width,
    find_encoding,
)
from jaxgadget.tree.history import HistoryTree, enumerate_game

SMALL = {
    "goofspiel": [
        "num_cards=3",
        "num_cards=4,points_order=descending,imp_info=True",
        "num_cards=4,num_turns=2",
    ],
    "dark_hex": ["board_size=2"],
    "phantom_ttt": [],  # too large at any parameters
    "liars_dice": ["dice_sides=4", "numdice=2,dice_sides=2", "dice_sides=3,bidding_rule=reset-quantity"],
    "leduc_poker": [
        "",
        "suit_isomorphism=True,starting_player=1",
        "action_mapping=True,num_ranks=2",
        "num_ranks=2,max_raises=1,raise_sizes=3-5",
    ],
}
GAMES = [
    f"{entry.name}({parameters})" if parameters else entry.name
    for entry in list_games()
    for parameters in SMALL.get(entry.name, [""])
]
OPENSPIEL = [
    "openspiel:kuhn_poker",
    "openspiel:goofspiel(num_cards=3,imp_info=True,points_order=descending)",
    "openspiel:liars_dice(dice_sides=3)",
    "openspiel:turn_based_simultaneous_game(game=matrix_mp())",
]


def enumerate_spec(spec: str) -> HistoryTree:
    return enumerate_game(jaxgadget.load(spec))


def distinct(tree: HistoryTree, values: np.ndarray) -> bool:
    """Whether equal rows have equal infostates of both players, by sorting."""
    pair = tree.infostate[:, decision_histories(tree)]
    both = np.unique(np.concatenate([values, pair.T.astype(np.float64)], axis=1), axis=0)
    return len(both) == len(np.unique(values, axis=0))


@pytest.mark.parametrize("spec", [*GAMES, *OPENSPIEL])
def test_equal_encodings_have_equal_infostates(spec):
    if spec.startswith("openspiel:"):
        pytest.importorskip("pyspiel")
    tree = enumerate_spec(spec)
    histories = decision_histories(tree)
    values = encode(tree, histories)
    assert values.shape == (len(histories), encoding_width(tree))
    assert values.dtype == np.float32
    assert set(np.unique(values)) <= {0, 1}
    assert distinct(tree, values)
    assert determines_infostates(tree, find_encoding(tree))


@pytest.mark.parametrize(
    "spec", ["leduc_poker", "goofspiel(num_cards=3)", "coin_toss", "liars_dice(dice_sides=3)"]
)
def test_a_batch_is_its_histories_one_by_one_in_any_order(spec):
    tree = enumerate_spec(spec)
    histories = np.random.default_rng(0).permutation(tree.num_histories)[:40]
    single = [encode(tree, histories[i : i + 1])[0] for i in range(len(histories))]
    np.testing.assert_array_equal(encode(tree, histories), np.stack(single))
    assert encode(tree, histories[:0]).shape == (0, encoding_width(tree))


def test_sources_of_encodings():
    kinds = {
        spec: find_encoding(enumerate_spec(spec)).kind for spec in ("kuhn_poker", "leduc_poker", "coin_toss")
    }
    assert kinds == {"kuhn_poker": "moves", "leduc_poker": "built-in", "coin_toss": "moves"}


def test_moves_are_one_hot_step_by_step():
    tree = enumerate_spec("kuhn_poker")
    (history,) = (h for h in range(tree.num_histories) if tree.moves(h) == (2, 0, 0, 1))
    # Two deals of three cards, then pass, then bet; the third move was not made.
    expected = [0, 0, 1, 1, 0, 0, 1, 0, 0, 1, 0, 0]
    assert encode(tree, np.array([history])).tolist() == [expected]


def test_determines_infostates_finds_missing_information():
    tree = enumerate_spec("kuhn_poker")
    encoding = find_encoding(tree)
    assert determines_infostates(tree, encoding)
    for column in range(6):  # without one card's column the rest of the deal determines that card …
        assert determines_infostates(tree, lambda t, rows, c=column: np.delete(encoding(t, rows), c, axis=1))
    # … but player 0's cards and the moves are needed
    assert not determines_infostates(tree, lambda t, rows: encoding(t, rows)[:, 3:])
    assert not determines_infostates(tree, lambda t, rows: encoding(t, rows)[:, :6])


def test_tensors_of_openspiel_are_both_players():
    pyspiel = pytest.importorskip("pyspiel")
    tree = enumerate_spec("openspiel:kuhn_poker")
    assert find_encoding(tree).kind == "tensors"
    state = pyspiel.load_game("kuhn_poker").new_initial_state()
    for move in (1, 2, 0):
        state.apply_action(move)
    (history,) = (h for h in range(tree.num_histories) if tree.moves(h) == (1, 2, 0))
    expected = [*state.information_state_tensor(0), *state.information_state_tensor(1)]
    assert encode(tree, np.array([history])).tolist() == [expected]


def test_tensors_that_tell_too_little_are_not_used():
    pytest.importorskip("pyspiel")
    # Its tensors omit the first player's action.
    tree = enumerate_spec("openspiel:turn_based_simultaneous_game(game=matrix_mp())")
    assert find_encoding(tree).kind == "moves"


class Guess(Rules[tuple[int, ...]]):
    """Chance draws a number, player 0 sees it and announces one, player 1 guesses."""

    name = "guess"
    actions = ("a", "b")

    def initial_state(self):
        return ()

    def actors(self, state):
        return ((CHANCE,), (0,), (1,), ())[len(state)]

    def legal_actions(self, state, player):
        return (0, 1)

    def chance_outcomes(self, state):
        return ((0, 0.5), (1, 0.5))

    def step(self, state, move):
        after = (*state, move)
        if len(after) == 1:
            return Step(after, private=(move, None))
        return Step(after, float(len(after) == 3 and move == state[0]), public=move)


class OwnGuess(Guess):
    """With a user-defined encoding: the length, then signs."""

    def encode(self, tree, histories):
        rows = [
            [len(moves), *[2 * m - 1 for m in moves], *[0] * (3 - len(moves))]
            for moves in map(tree.moves, histories)
        ]
        return np.array(rows)


class BadGuess(Guess):
    def encode(self, tree, histories):
        return np.full((len(histories), 2), np.nan)


class DullGuess(Guess):
    """Encodes the first step only, with two encodings of 0."""

    def encode(self, tree, histories):
        moves = [tree.moves(h) for h in histories]
        return np.array([[len(m), m[0] if m else -1, -0.0 if sum(m) > 1 else 0.0] for m in moves])


class NarrowingGuess(Guess):
    def encode(self, tree, histories):
        return np.zeros((len(histories), 2 + len(histories)))


def test_users_rules_have_moves_or_their_own_encoding():
    tree = enumerate_game(jaxgadget.load(Guess()))
    assert find_encoding(tree).kind == "moves"
    assert distinct(tree, encode(tree, decision_histories(tree)))
    tree = enumerate_game(jaxgadget.load(OwnGuess()))
    assert find_encoding(tree) == Encoding("own", 4)
    (history,) = (h for h in range(tree.num_histories) if tree.moves(h) == (1, 0))
    assert encode(tree, np.array([history])).tolist() == [[2, 1, -1, 0]]
    check_encoding(tree, find_encoding(tree))


def test_own_encodings_that_tell_too_little_teach_nothing():
    tree = enumerate_game(jaxgadget.load(DullGuess()))
    for first in (0, 1):  # the announcement is missing; 1 differs in the sign of a zero
        rows = [h for h in range(tree.num_histories) if len(m := tree.moves(h)) == 2 and m[0] == first]
        assert len(np.unique(encode(tree, np.array(rows)), axis=0)) == 1
    with pytest.raises(ValueError, match="histories"):
        check_encoding(tree, find_encoding(tree))
    assert find_encoding(tree).kind == "own", "it may be asked all the same"


def test_own_encodings_are_checked():
    tree = enumerate_game(jaxgadget.load(BadGuess()))
    with pytest.raises(ValueError, match="encode"):
        encode(tree, np.array([0]))
    tree = enumerate_game(jaxgadget.load(NarrowingGuess()))
    with pytest.raises(ValueError, match="shape"):
        encode(tree, np.array([0, 1]))


def test_an_encoding_of_a_smaller_tree_is_an_error():
    small, large = enumerate_spec("coin_toss"), enumerate_spec("kuhn_poker")
    with pytest.raises(ValueError, match="steps"):
        find_encoding(small)(large, decision_histories(large))
    narrow = dataclasses.replace(find_encoding(large), sizes=((2, 2, 2),) * 5, width=30)
    with pytest.raises(ValueError, match="the encoding's 2"):
        narrow(large, decision_histories(large))


@pytest.mark.parametrize(
    "spec", ["kuhn_poker", "leduc_poker", "goofspiel(num_cards=4)", "liars_dice(dice_sides=3)"]
)
def test_a_tree_to_a_depth_limit_has_the_whole_tree_s_encodings(spec):
    tree = enumerate_spec(spec)
    shallow = enumerate_game(tree.game, depth=2)
    place = {tree.moves(history): history for history in range(tree.num_histories)}
    histories = np.arange(shallow.num_histories)
    same = np.array([place[shallow.moves(history)] for history in histories])
    np.testing.assert_array_equal(find_encoding(tree)(shallow, histories), encode(tree, same))
