"""Showdown and fold operators compared with matrices over all pairs of hands."""

import dataclasses
import functools
from collections.abc import Generator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgadget.core.hands import PairTables
from jaxgadget.holdem import operators
from jaxgadget.holdem.cards import HANDS, cards_left, hands_left, parse_board, strength
from jaxgadget.holdem.operators import Dealt, Showdowns, Staked, build_folds, build_showdowns
from jaxgadget.util.precision import precision

BOARDS = ("Td9d6hQc2s", "AsKsQsJsTs", "7c7d7h2s2c")  # the board plays: a tie


def brute_force(board: str) -> tuple[np.ndarray, np.ndarray]:
    """`[H, H]` compatible pairs of hands, and their winners."""
    cards = parse_board(board)
    hands = HANDS[hands_left(cards)]
    apart = ~(hands[:, None, :, None] == hands[None, :, None, :]).any(axis=(2, 3))
    strengths = strength(np.array([[*hand, *cards] for hand in hands.tolist()]))
    return apart * 1.0, np.sign(strengths[:, None] - strengths) * apart


@functools.partial(jax.jit, static_argnums=1)
def apply(tables: PairTables, player: int, reach: jax.Array) -> jax.Array:
    return tables(player, reach)


@functools.cache
def random_board(seed: int) -> str:
    cards = np.random.default_rng(seed).permutation(52)[:5].tolist()
    return "".join("23456789TJQKA"[card // 4] + "cdhs"[card % 4] for card in cards)


def draw_reach(shape: tuple[int, ...], seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.random(shape) * (rng.random(shape) < 0.4)


@pytest.fixture(params=["a CPU", "an accelerator"])
def computed_for(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Showdowns as computed on a CPU, and on an accelerator."""
    if request.param == "an accelerator":
        monkeypatch.setattr(operators, "_above_by_sums", operators._above_by_signs)
    jax.clear_caches()
    yield
    jax.clear_caches()


@pytest.mark.parametrize("board", [BOARDS[1], random_board(1)])
@pytest.mark.usefixtures("computed_for")
def test_operators_are_the_tables_written_down(board: str):
    apart, wins = brute_force(board)
    reach = draw_reach((1, 3, 1081, 2), 3)
    with precision(np.float64):
        folds, showdowns = build_folds(47), build_showdowns([parse_board(board)])
        for player, table in ((0, wins), (1, -wins)):
            expected = np.einsum("ij,tjl->til", table, reach[0])
            np.testing.assert_allclose(
                apply(showdowns, player, jnp.asarray(reach))[0], expected, rtol=0, atol=1e-10
            )
            expected = np.einsum("ij,tjl->til", apart, reach[0])
            np.testing.assert_allclose(
                apply(folds, player, jnp.asarray(reach))[0], expected, rtol=0, atol=1e-10
            )
    assert np.array_equal(showdowns.dense()[0], wins)
    assert np.array_equal(folds.dense()[0], apart)


def test_boards_of_lanes_are_as_each_by_itself():
    reach = draw_reach((1, 2, 1081, 3), 4)
    with precision(np.float64):
        together = build_showdowns([parse_board(board) for board in BOARDS])
        won = np.asarray(apply(together, 0, jnp.asarray(reach)))
        for lane, board in enumerate(BOARDS):
            alone = apply(build_showdowns([parse_board(board)]), 0, jnp.asarray(reach[..., lane : lane + 1]))
            np.testing.assert_allclose(won[..., lane : lane + 1], alone, rtol=0, atol=1e-10)
        some = apply(together.take_lanes(np.array([2, 0])), 0, jnp.asarray(reach[..., [2, 0]]))
        np.testing.assert_allclose(some, won[..., [2, 0]], rtol=0, atol=1e-10)


def check_some_hands(boards: tuple[str, ...]) -> None:
    """Every lane has its own hands; the second has fewer, and padding."""
    cards = [parse_board(board) for board in boards]
    num_cards, num_hands = 52 - len(cards[0]), len(hands_left(cards[0]))
    tables = num_cards if len(cards[0]) == 4 else 1
    rng = np.random.default_rng(12)
    chosen = [np.sort(rng.permutation(num_hands)[:count]) for count in (70, 41)]
    hands = np.full((2, 72), -1)
    for lane, some in enumerate(chosen):
        hands[lane, : len(some)] = some
    reach = rng.random((tables, 2, 72, 2))
    every = np.zeros((tables, 2, num_hands, 2))
    for lane, some in enumerate(chosen):
        every[:, :, some, lane] = reach[:, :, : len(some), lane]
    shown = range(num_cards) if tables > 1 else None
    with precision(np.float64):
        pairs = (
            (build_folds(num_cards, shown, hands), build_folds(num_cards, shown)),
            (build_showdowns(cards, hands), build_showdowns(cards)),
        )
        for few, all_hands in pairs:
            won = np.asarray(apply(few, 1, jnp.asarray(reach)))
            expected = np.asarray(apply(all_hands, 1, jnp.asarray(every)))
            for lane, some in enumerate(chosen):
                np.testing.assert_allclose(
                    won[:, :, : len(some), lane], expected[:, :, some, lane], rtol=0, atol=1e-10
                )
                assert not won[:, :, len(some) :, lane].any()
            second = apply(few.take_lanes(np.array([1])), 1, jnp.asarray(reach[..., 1:]))
            np.testing.assert_allclose(second, won[..., 1:], rtol=0, atol=1e-10)


@pytest.mark.usefixtures("computed_for")
def test_results_of_some_hands_equal_those_among_all():
    check_some_hands(BOARDS[:2])


def test_a_turn_has_a_table_a_river_without_the_hands_that_hold_its_card():
    turn = "Td9d6hQc"
    cards = parse_board(turn)
    left, hands = cards_left(cards), HANDS[hands_left(cards)]
    showdowns, folds = build_showdowns([cards]), build_folds(48, range(48))
    chosen = [0, 31]
    for tables, number in ((showdowns, 1), (folds, 0)):
        few = jax.tree.map(lambda x: x, tables)
        inner = few.folds if isinstance(few, Showdowns) else few
        picked = dataclasses.replace(inner, held=inner.held[:, np.array(chosen)])
        if isinstance(few, Showdowns):
            few = Showdowns(
                folds=picked,
                group=few.group[:, chosen],
                signs=few.signs[:, chosen],
                hand_of_card=few.hand_of_card,
                slot_of_hand=few.slot_of_hand,
                num_groups=few.num_groups,
            )
        else:
            few = picked
        reach = draw_reach((2, 1, 1128, 1), 5)
        with precision(np.float64):
            won = np.asarray(apply(few, 0, jnp.asarray(reach)))
        for table, place in enumerate(chosen):
            river = turn + "23456789TJQKA"[left[place] // 4] + "cdhs"[left[place] % 4]
            held = ~(hands == left[place]).any(axis=1)
            expected = np.zeros(1128)
            expected[held] = brute_force(river)[number] @ reach[table, 0, held, 0]
            np.testing.assert_allclose(won[table, 0, :, 0], expected, rtol=0, atol=1e-10)


def test_showdowns_are_zero_sum_and_ties_pay_nothing():
    first, second = draw_reach((1, 1, 1081, 1), 6), draw_reach((1, 1, 1081, 1), 7)
    with precision(np.float64):
        showdowns = build_showdowns([parse_board(random_board(3))])
        won = float((first * np.asarray(apply(showdowns, 0, jnp.asarray(second)))).sum())
        lost = float((second * np.asarray(apply(showdowns, 1, jnp.asarray(first)))).sum())
        assert won == pytest.approx(lost, abs=1e-8)  # both in the first player's utility
        plays = build_showdowns([parse_board(BOARDS[1])])
        assert not np.asarray(apply(plays, 0, jnp.asarray(second))).any()


def test_suits_may_be_renamed():
    board = parse_board(random_board(4))
    renamed = [4 * (card // 4) + (card + 1) % 4 for card in board]
    hands, others = HANDS[hands_left(board)], HANDS[hands_left(renamed)]
    moved = np.sort(4 * (hands // 4) + (hands + 1) % 4, axis=1)
    place = {tuple(hand): number for number, hand in enumerate(others.tolist())}
    to = np.array([place[tuple(hand)] for hand in moved.tolist()])
    reach = draw_reach((1, 1, 1081, 1), 8)
    other = np.empty_like(reach)
    other[:, :, to] = reach
    with precision(np.float64):
        won = np.asarray(apply(build_showdowns([board]), 0, jnp.asarray(reach)))
        again = np.asarray(apply(build_showdowns([renamed]), 0, jnp.asarray(other)))
    np.testing.assert_allclose(again[:, :, to], won, rtol=0, atol=1e-10)


def test_chips_and_weights_multiply():
    _, wins = brute_force(BOARDS[0])
    reach, chips = draw_reach((1, 2, 1081, 3), 9), np.random.default_rng(0).normal(size=(1, 2, 3))
    weights = draw_reach((2, 1081), 10)
    with precision(np.float64):
        tables = build_showdowns([parse_board(BOARDS[0])])
        staked = Staked(tables=tables, chips=jnp.asarray(chips))
        expected = np.einsum("ij,btjl,btl->btil", wins, reach, chips)
        np.testing.assert_allclose(apply(staked, 0, jnp.asarray(reach)), expected, rtol=0, atol=1e-10)
        fewer = apply(staked.take_lanes(np.array([1])), 0, jnp.asarray(reach[..., 1:2]))
        np.testing.assert_allclose(fewer, expected[..., 1:2], rtol=0, atol=1e-10)
        dealt = Dealt(tables=tables, weights=(jnp.asarray(weights[0]), jnp.asarray(weights[1])))
        expected = np.einsum("i,ij,j,btjl->btil", weights[1], -wins, weights[0], reach)
        np.testing.assert_allclose(apply(dealt, 1, jnp.asarray(reach)), expected, rtol=0, atol=1e-10)
        np.testing.assert_allclose(
            dealt.dense()[0], weights[0][:, None] * wins * weights[1], rtol=0, atol=1e-12
        )


def test_the_largest_gain_bounds_the_gain():
    reach = draw_reach((1, 1, 1081, 1), 11)
    with precision(np.float64):
        staked = Staked(tables=build_showdowns([parse_board(BOARDS[0])]), chips=-jnp.ones((1, 1, 1)))
        most = np.asarray(apply(staked.absolute(), 1, jnp.asarray(reach)))
        gain = np.abs(np.asarray(apply(staked, 1, jnp.asarray(reach))))
        assert (most >= (1 - 1e-12) * gain).all()  # some hands win against all others


@pytest.mark.usefixtures("computed_for")
def test_float32_is_close():
    apart, wins = brute_force(random_board(5))
    reach = draw_reach((1, 4, 1081, 1), 12)
    tables = jax.tree.map(
        lambda x: x.astype(np.float32) if x.dtype == np.float64 else x,
        build_showdowns([parse_board(random_board(5))]),
    )
    won = np.asarray(apply(tables, 0, jnp.asarray(reach, jnp.float32)))
    expected = np.einsum("ij,tjl->til", wins, reach[0])[None]
    assert np.abs(won - expected).max() < 2e-6 * (apart @ reach[0, :, :, 0].T).max()
