"""Value functions: exact values equal a recursion from the definition; user-defined ones are validated."""

import functools
import warnings

import numpy as np
import pytest

import jaxgadget
from jaxgadget import Policy, enumerate_game, evaluate_policy
from jaxgadget.games.game import CHANCE, TERMINAL
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.matching import places_in
from jaxgadget.values import histories as value_module
from jaxgadget.values.histories import ExactValues, OwnValues, leaf_values
from tests.reference import efg
from tests.reference.continuations import continuation_values, mixed
from tests.reference.random_games import SHAPES, random_policy, random_tree

GAMES = (
    "kuhn_poker",
    "goofspiel(num_cards=3,imp_info=True,points_order=descending)",
    "goofspiel(num_cards=4,imp_info=True,points_order=descending)",
    "goofspiel(num_cards=3,points_order=random)",
    "liars_dice(dice_sides=3)",
    "leduc_poker",
    *(f"random {shape}" for shape in SHAPES),
)
NUM_ENTRIES = 3


@functools.cache
def game(name: str) -> tuple[HistoryTree, efg.Game]:
    if name.startswith("random "):
        return random_tree(name.removeprefix("random "), 5)
    tree = enumerate_game(jaxgadget.load(name))
    return tree, efg.from_tree(tree)


@functools.cache
def portfolio(name: str) -> tuple[Policy, tuple[list[efg.Strategy], list[efg.Strategy]]]:
    """Different portfolios for the two players, some rows with zeros."""
    tree, _ = game(name)
    rng = np.random.default_rng(0)
    entries: tuple[list[efg.Strategy], list[efg.Strategy]] = ([], [])
    for number in range(NUM_ENTRIES):
        for player in (0, 1):
            rows = random_policy(tree, rng, zeros=0.2 * number)
            entries[player].append({label: row for label, row in rows.items() if label[0] == player})
    first, second = (
        np.stack([efg.to_sequences(tree, entry, player)[1:] for entry in entries[player]], axis=1)
        for player in (0, 1)
    )
    return Policy(tree, (first, second), tuple("abc")), entries


def every(tree: HistoryTree) -> np.ndarray:
    return np.arange(tree.num_histories)


@pytest.fixture(scope="module")
def kuhn() -> HistoryTree:
    return game("kuhn_poker")[0]


# --- exact values -------------------------------------------------------------------------


@pytest.mark.parametrize("name", GAMES)
def test_values_of_histories_equal_a_recursion(name: str):
    tree, explicit = game(name)
    entries, strategies = portfolio(name)
    found = leaf_values(ExactValues(entries), tree, every(tree))
    expected = continuation_values(explicit, strategies)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * max(1, np.abs(tree.payoff).max()))
    spread = np.ptp(expected[tree.actor != TERMINAL], axis=(1, 2))
    assert spread.max() > 0.01 * tree.payoff_range, "all pairs are alike, so axes could be mixed up"


@pytest.mark.parametrize("name", GAMES)
def test_values_depend_on_nothing_but_the_history(name: str):
    """Requests of other histories, with descendants or duplicates, in any order, have no effect."""
    tree, _ = game(name)
    values = ExactValues(portfolio(name)[0])
    full = values(tree, every(tree))
    rng = np.random.default_rng(1)
    for count in (1, 2, 7, 40):
        asked = rng.integers(tree.num_histories, size=count)
        np.testing.assert_array_equal(values(tree, asked), full[asked])
    assert values(tree, np.zeros(0, int)).shape == (0, NUM_ENTRIES, NUM_ENTRIES)


@pytest.mark.parametrize("name", ["kuhn_poker", GAMES[2], "random delays"])
def test_blocks_of_pairs_and_chunks_of_histories_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch):
    tree, _ = game(name)
    values = ExactValues(portfolio(name)[0])
    full = values(tree, every(tree))
    decisions = np.nonzero((tree.actor != TERMINAL) & (tree.actor != CHANCE) & (tree.num_moves == 1))[0]
    inner = np.add.reduceat(tree.actor != TERMINAL, tree.level_offset[:-1])
    sizes = np.where(inner > 0, np.diff(tree.level_offset), 0)
    one_pair = 8 * int((sizes[:-1] + sizes[1:]).max())
    tried: list[tuple[int, int]] = []
    sweep = value_module._sweep

    def noted(whole, levels, tables, count):
        tried.append((tables[0].shape[1], tables[1].shape[1]))
        return sweep(whole, levels, tables, count)

    monkeypatch.setattr(value_module, "_sweep", noted)
    for pairs, cells, blocks in (
        (0.5, 50, [(1, 1)] * 9),
        (2, 1, [(1, 2), (1, 1)] * 3),
        (3, 10**6, [(1, 3)] * 3),
        (8, 7, [(2, 3), (1, 3)]),
        (9, 333, [(3, 3)]),
    ):
        monkeypatch.setattr(value_module, "SWEEP_BYTES", int(one_pair * pairs))
        monkeypatch.setattr(value_module, "CHUNK_CELLS", cells)
        tried.clear()
        np.testing.assert_array_equal(values(tree, every(tree)), full)
        assert tried == blocks
        np.testing.assert_array_equal(values(tree, decisions), full[decisions])


@pytest.mark.parametrize("name", GAMES[:6])
def test_with_one_entry_the_root_is_worth_the_value_of_the_blueprint(name: str):
    tree, _ = game(name)
    for lane in range(NUM_ENTRIES):
        blueprint = portfolio(name)[0].lane(lane)
        found = leaf_values(ExactValues(blueprint), tree, np.zeros(1, int))
        assert found.shape == (1, 1, 1)
        assert found[0, 0, 0] == pytest.approx(evaluate_policy(blueprint).value[0], abs=1e-12)


@pytest.mark.parametrize("name", ["kuhn_poker", GAMES[1], "random uneven"])
@pytest.mark.parametrize("player", [0, 1])
def test_mixing_entries_at_the_root_mixes_values(name: str, player: int):
    """An entry that draws one of the others before play has their mean value, like a choice at a limit."""
    tree, explicit = game(name)
    entries, strategies = portfolio(name)
    weights = [0.5, 0.3, 0.2]
    drawn = efg.to_sequences(tree, mixed(explicit.root, player, strategies[player], weights), player)[1:]
    pair = list(entries.probabilities)
    pair[player] = np.repeat(drawn[:, None], NUM_ENTRIES, axis=1)
    root = np.zeros(1, int)
    found = ExactValues(Policy(tree, (pair[0], pair[1]), entries.labels))(tree, root)
    expected = np.average(ExactValues(entries)(tree, root), axis=1 + player, weights=weights)
    np.testing.assert_allclose(
        found, np.repeat(np.expand_dims(expected, 1 + player), 3, 1 + player), atol=1e-12
    )


@pytest.mark.parametrize("name", ["kuhn_poker", "leduc_poker", GAMES[2], "liars_dice(dice_sides=3)"])
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_truncated_tree_uses_values_of_the_whole_one(name: str, depth: int):
    tree, _ = game(name)
    values = ExactValues(portfolio(name)[0])
    short = enumerate_game(jaxgadget.load(name), depth=depth)
    assert short.is_truncated
    place = places_in(tree, short, "portfolio")
    assert [short.moves(h) for h in range(short.num_histories)] == [tree.moves(h) for h in place.tolist()]
    np.testing.assert_array_equal(values(short, short.leaves), values(tree, place[short.leaves]))


# --- user-defined values ------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*payoffs lie between")
def test_own_values_are_taken_as_they_are(kuhn: HistoryTree):
    asked = np.array([4, 9, 9])

    def own(tree: HistoryTree, histories: np.ndarray) -> list[list[list[float]]]:
        assert tree is kuhn and histories is asked
        return [[[float(h), 1.0], [2.0, -float(h)]] for h in histories]

    found = leaf_values(OwnValues(own, 2), kuhn, asked)
    assert found.dtype == np.float64 and found[1].tolist() == [[9.0, 1.0], [2.0, -9.0]]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_names_the_history(kuhn: HistoryTree, bad: float):
    def own(tree: HistoryTree, histories: np.ndarray) -> np.ndarray:
        values = np.zeros((len(histories), 3, 3))
        values[1, 2, 0] = bad
        return values

    history = int(np.nonzero(kuhn.actor == 2)[0][3])
    moves = kuhn.moves(history)
    infostate = kuhn.game.infostate_string(1, moves)
    with pytest.raises(ValueError) as error:
        leaf_values(OwnValues(own, 3), kuhn, np.array([5, history, 6]))
    for part in (
        f"returned {bad}",
        f"history {history}",
        str(moves),
        repr(infostate),
        "strategies 2 of player 0 and 0",
    ):
        assert part in str(error.value)


@pytest.mark.parametrize(
    "shape",
    [
        (3,),
        (2, 2, 2),
    ],
)
def test_values_of_another_shape(kuhn: HistoryTree, shape: tuple[int, ...]):
    with pytest.raises(ValueError, match="player 0"):
        leaf_values(OwnValues(lambda tree, histories: np.zeros(shape), 2), kuhn, np.arange(3))


def test_values_that_overflow_the_precision(kuhn: HistoryTree):
    values = OwnValues(lambda tree, histories: np.full((len(histories), 1, 1), -1e39), 1)
    with pytest.warns(UserWarning, match="returned -1e.39 at .*: payoffs lie between"):
        assert leaf_values(values, kuhn, np.arange(2)).max() == -1e39
    with pytest.raises(ValueError, match="values"):
        leaf_values(values, kuhn, np.arange(2), np.float32)


@pytest.mark.parametrize(("number", "told"), [(5.9, False), (6.1, True), (-5.9, False), (-6.1, True)])
def test_values_far_from_all_payoffs_are_refused(kuhn: HistoryTree, number: float, told: bool):
    """Kuhn pays -2 to 2; values up to 4 beyond that are accepted, since a network may err a little."""
    own = OwnValues(lambda t, h: np.full((len(h), 2, 2), number), 2)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        leaf_values(own, kuhn, np.array([4, 5]))
    texts = [str(one.message) for one in heard]
    assert len(texts) == told
    if told:
        assert f"returned {number:g} at history 4" in texts[0] and "payoffs lie between -2 and 2" in texts[0]


def test_without_histories_there_is_no_query(kuhn: HistoryTree):
    def never(tree: HistoryTree, histories: np.ndarray) -> None:
        raise AssertionError("asked")

    assert leaf_values(OwnValues(never, 3), kuhn, np.zeros(0, int)).shape == (0, 3, 3)


@pytest.mark.parametrize("count", [0, -1, 1.0, True, "3", None])
def test_numbers_of_entries_are_whole_and_positive(count: object):
    with pytest.raises(ValueError, match="num_entries="):
        OwnValues(lambda tree, histories: 0, count)


@pytest.mark.parametrize("value", [None, 3, lambda tree, histories: 0, "exact"])
def test_invalid_value_functions(kuhn: HistoryTree, value: object):
    with pytest.raises(ValueError, match="value"):
        leaf_values(value, kuhn, np.arange(1))
    with pytest.raises(ValueError, match="function="):
        OwnValues(3, 1)


@pytest.mark.parametrize("histories", [[58], [-1], [0.5], [[1]], 3, "root", [True], None])
def test_histories_must_be_of_the_tree(kuhn: HistoryTree, histories: object):
    for values in (OwnValues(lambda tree, h: np.zeros((len(h), 1, 1)), 1), ExactValues(Policy.uniform(kuhn))):
        with pytest.raises(ValueError, match="histories"):
            leaf_values(values, kuhn, histories)
