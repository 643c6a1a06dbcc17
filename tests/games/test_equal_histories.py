"""Equal histories are merged: none that differ in a state or an infostate; searches have the same results."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any, NamedTuple

import numpy as np
import pytest

from jaxgadget import (
    MaxMargin,
    Resolving,
    SearchPlayer,
    Solver,
    UniformPrior,
    exploit,
    load,
    public_observations,
)
from jaxgadget.games import public_state
from jaxgadget.games.game import CHANCE, PLAYER_0, TERMINAL
from jaxgadget.games.liars_dice import LiarsDice
from jaxgadget.games.machine import StateMachine
from jaxgadget.games.public_state import find_public_state
from jaxgadget.policy.positions import StatePositions
from jaxgadget.tree.states import enumerate_from, states_at
from jaxgadget.util.arrays import FloatArray, IntArray
from tests.subgames.test_limit_search import Pairs


class CoinState(NamedTuple):
    """States of `Coin`."""

    moves: Any
    side: Any


@dataclasses.dataclass(frozen=True)
class Coin(StateMachine[CoinState]):
    """A coin is flipped, then player 0 acts once.

    Attributes:
      recorded: the state holds the coin.
      seen: player 1 sees it.
    """

    recorded: bool = False
    seen: bool = False
    name: str = "coin"
    num_actions: int = 2
    num_outcomes: int = 2
    max_moves: int = 2

    def start(self, n: int, xp: Any) -> CoinState:
        return CoinState(xp.zeros(n, int), xp.zeros(n, int))

    def actor(self, state: CoinState) -> Any:
        return np.where(state.moves == 0, CHANCE, np.where(state.moves == 1, PLAYER_0, TERMINAL))

    def legal(self, state: CoinState, player: int) -> Any:
        return np.ones((2, len(state.moves)), np.bool_)

    def chance(self, state: CoinState) -> Any:
        return np.tile([[0.25], [0.75]], len(state.moves))

    def step(self, state: CoinState, moves: Any) -> tuple[CoinState, Any]:
        flips = np.asarray(moves[2]) >= 0
        side = np.where(flips & self.recorded, moves[2], state.side)
        public = np.where(flips, 0, 1 + np.asarray(moves[0]))
        seen = np.stack([public, public + 3 * (moves[2] * flips * self.seen), public])
        return CoinState(state.moves + 1, side), seen

    def returns(self, state: CoinState) -> Any:
        return np.zeros((2, len(state.moves)))

    def features(self, state: CoinState, player: int) -> Any:
        return np.zeros((1, len(state.moves)))


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("seen", [False, True])
def test_histories_are_merged_if_nobody_can_ever_tell_them_apart(recorded: bool, seen: bool) -> None:
    public = find_public_state(Coin(recorded, seen), (0,))
    assert public.merged is not (recorded or seen)
    np.testing.assert_allclose(public.chance, [1.0] if public.merged else [0.25, 0.75])
    both = np.full((1, 3, 2), -1)
    both[0, 2] = 0, 1
    np.testing.assert_array_equal(public.finder.find(both), [0, 0] if public.merged else [0, 1])
    np.testing.assert_array_equal(public.finder.find(np.zeros((2, 3, 1), int)), [-1])


def apart(state: Any, ids: IntArray) -> tuple[IntArray, IntArray]:
    """In place of `group_equal`: merges nothing."""
    return np.arange(ids.shape[1]), np.arange(ids.shape[1])


class GenericDice(LiarsDice):
    """Liar's Dice with distinct payoffs, without ties that rounding would break."""

    def returns(self, state: Any) -> Any:
        first, second = state.hand.astype(float)
        bids = np.arange(self.num_bids)[:, None] * (state.bids + 1)
        won = super().returns(state)[0] + 0.1 * np.sin(1 + first + 3 * first * second + bids.sum(axis=0))
        return np.stack([won, -won])


class OfStates:
    """Values for two continuations of each player, by the state."""

    num_entries = 2

    def __call__(self, tree: Any, histories: IntArray) -> FloatArray:
        _, state = states_at(tree, histories)
        first, second = state.hand.astype(float)
        angle = 1 + 2 * first + 5 * first * second + state.bid + np.arange(4)[:, None]
        return np.sin(angle).T.reshape(-1, 2, 2)


def uneven(game: LiarsDice) -> Any:
    """A strategy that depends on the hand and the last bid."""

    def play(state: Any, player: int) -> Any:
        weight = np.arange(1.0, game.num_actions + 1)[:, None]
        weight = 2 + np.sin(weight * (1 + state.hand[player]) + state.bid)
        weight = np.where(np.asarray(game.legal(state, player)), weight, 0)
        return weight / np.maximum(weight.sum(axis=0), 1e-9)

    return play


def games_after(game: LiarsDice, bids: tuple[int, ...]) -> StatePositions:
    """Games with all rolls, and the same bids."""
    rolls = list(itertools.product(range(game.dice_sides), repeat=2 * game.numdice))
    moves = np.full((2 * game.numdice + len(bids), 3, len(rolls)), -1, np.int16)
    moves[: 2 * game.numdice, 2] = np.array(rolls).T
    for number, bid in enumerate(bids):
        moves[2 * game.numdice + number, number % 2] = bid
    state = game.start(len(rolls), np)
    for made in moves:
        state, _ = game.step(state, made)
    return StatePositions(game, state, moves)


def test_the_order_of_dice_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    game: Any = LiarsDice(numdice=2, dice_sides=3)
    games = games_after(game, (0, 4))
    observed = public_observations(game, games.moves(0))
    public = find_public_state(game, observed, uneven(game))
    found = public.finder.find(games.made)
    monkeypatch.setattr(public_state, "group_equal", apart)
    every = find_public_state(game, observed, uneven(game))
    assert (len(public), len(every)) == (36, 81)
    number = found[every.finder.find(games.made).argsort()]
    np.testing.assert_allclose(public.chance, np.bincount(number, every.chance), rtol=1e-12)
    np.testing.assert_allclose(public.reach[:, number], every.reach, rtol=1e-12)
    for row, same in enumerate(number.tolist()):
        for player in (0, 1):
            name = game.infostate_string(player, every.history(row))
            assert game.infostate_string(player, public.history(same)) == name


@pytest.mark.parametrize(
    ("sides", "how", "gadget"),
    [
        (2, {"values": OfStates()}, Resolving(UniformPrior(), 0.02)),
        pytest.param(2, {"values": Pairs("depth:2")}, MaxMargin(), marks=pytest.mark.slow, id="ranges"),
        pytest.param(3, {"values": OfStates()}, MaxMargin(), marks=pytest.mark.slow, id="three sides"),
    ],
)
def test_searches_find_the_same_with_and_without_merging(
    sides: int, how: dict[str, Any], gadget: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    game = GenericDice(numdice=2, dice_sides=sides)
    lines = [games_after(game, bids) for bids in ((), (1,), (0, 2), (0, 1, 4), (0, 1, 4, 5))]

    def answers() -> list[FloatArray]:
        solver = Solver(iterations=30, dtype="float64", progress=False)
        search = SearchPlayer(uneven(game), gadget, solver=solver, **how)
        return [search.state_probabilities(games, number % 2) for number, games in enumerate(lines)]

    merged = answers()
    monkeypatch.setattr(public_state, "group_equal", apart)
    for games, found, expected in zip(lines, merged, answers(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
        player = len(games.made) % 2
        before = uneven(game)(games.state, player).T
        assert np.abs(found - before).max() > 0.1


@pytest.mark.slow
def test_responses_are_the_same_with_and_without_merging(monkeypatch: pytest.MonkeyPatch) -> None:
    game = GenericDice(numdice=2, dice_sides=2)
    how: dict[str, Any] = {"method": "cdbr:2", "matches": 50, "max_histories": 1000}
    merged = exploit(game, "uniform", player=0, **how)
    monkeypatch.setattr(public_state, "group_equal", apart)
    assert merged.gain == pytest.approx(exploit(game, "uniform", player=0, **how).gain, abs=1e-12)


def test_liars_dice_with_two_dice_of_six_sides_has_441_deals() -> None:
    game: Any = load("liars_dice(numdice=2,dice_sides=6)")
    public = find_public_state(game, public_observations(game, [0, 0, 0, 0]))
    assert len(public) == 21**2  # of 1,296
    tree = enumerate_from(public, depth=2)
    assert len(tree.leaves) == 441 * 276  # two bids, of 357,696
