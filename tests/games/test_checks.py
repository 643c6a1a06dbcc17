"""Built-in state machines pass the checks, planted cheats are found, features do not show what is hidden."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jaxgadget.games.checks import check_machine
from jaxgadget.games.goofspiel import Goofspiel
from jaxgadget.games.kuhn import KuhnPoker
from jaxgadget.games.leduc.rules import LeducPoker
from jaxgadget.games.liars_dice import LiarsDice
from jaxgadget.games.machine import StateMachine
from jaxgadget.games.phantom import DarkHex, PhantomTicTacToe
from tests.games.machines import MACHINES, draw_moves, keep_ends


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_built_in_machines_pass(machine: StateMachine[Any]):
    check_machine(machine, 4_000)


class ShowsTheOtherCard(KuhnPoker):
    def features(self, state, player):
        return np.concatenate([super().features(state, player), state.cards[None, 1 - player] > 1])


class ShowsItOfALargeDeck(LeducPoker):
    """Shows player 1 one card of player 0, after the public card."""

    def features(self, state, player):
        leak = (state.cards[None, 0] == 7) & (state.cards[None, 2] >= 0) & (player == 1)
        return np.concatenate([super().features(state, player), leak])


class ShowsHiddenBids(Goofspiel):
    def features(self, state, player):
        return np.concatenate([super().features(state, player), state.bids[1 - player] == 4])


class ShowsAllDice(LiarsDice):
    def features(self, state, player):
        return np.concatenate([super().features(state, player), state.hand[None, 1 - player] == 9])


class ShowsHiddenStones(DarkHex):
    def features(self, state, player):
        return np.concatenate([super().features(state, player), state.owner == 1 - player])


class ForbidsByTheOtherCard(KuhnPoker):
    def legal(self, state, player):
        may_bet = (player == 0) | (state.cards[0] != 2)
        return np.stack([np.ones_like(may_bet), may_bet])


class KnowsOccupiedCells(PhantomTicTacToe):
    def legal(self, state, player):
        return super().legal(state, player) & ((state.owner < 0) | (state.turn < 5))


class HidesActions(KuhnPoker):
    """A player does not observe what the other one did, but features show it."""

    def step(self, state, moves):
        after, seen = super().step(state, moves)
        others = np.array([moves[1], moves[0]]) >= 0
        return after, np.concatenate(
            [np.where(others, 9, seen[:2]), np.where(others.any(axis=0), 9, seen[2:])]
        )


class Generous(KuhnPoker):
    def returns(self, state):
        won = super().returns(state)
        return won + (won == 2) * 0.5


class Undefined(KuhnPoker):
    def returns(self, state):
        return np.where(state.line == 3, np.nan, super().returns(state))


class Huge(KuhnPoker):
    def returns(self, state):
        return super().returns(state) * 1e31


class LosesChance(LiarsDice):
    def chance(self, state):
        return super().chance(state) * np.where(state.rolled == 1, 0.9, 1.0)


class NegativeChance(KuhnPoker):
    def chance(self, state):
        return np.where(state.cards[0] < 0, np.array([[0.5], [-0.5], [1.0]]), super().chance(state))


class Stuck(DarkHex):
    def legal(self, state, player):
        return super().legal(state, player) & (state.turn < 3)


class WidensIntegers(Goofspiel):
    def step(self, state, moves):
        after, seen = super().step(state, moves)
        return after._replace(lead=after.lead.astype(np.int64)), seen


class GrowsHistory(Goofspiel):
    def step(self, state, moves):
        after, seen = super().step(state, moves)
        return after._replace(points=np.concatenate([after.points, after.points[:1]])), seen


class ForgetsWhatItIs(KuhnPoker):
    def step(self, state, moves):
        after, seen = super().step(state, moves)
        return tuple(after), seen


class MixesStates(KuhnPoker):
    def step(self, state, moves):
        after, seen = super().step(state, moves)
        return after._replace(cards=np.roll(after.cards, 1, axis=-1)), seen


class TooShort(LeducPoker):
    @property
    def max_moves(self):
        return super().max_moves - 1


class TellsThePublic(KuhnPoker):
    def step(self, state, moves):
        after, seen = super().step(state, moves)
        return after, np.stack([*seen[:2], np.where(moves[2] >= 0, 3 + moves[2], seen[2])])


class TellsThePublicOfTheLast(LiarsDice):
    """In a code that no player has, after four bids only."""

    def step(self, state, moves):
        after, seen = super().step(state, moves)
        return after, np.stack(
            [*seen[:2], np.where(state.turn == 4, seen[2] + 50 * (state.hand[0] > 3), seen[2])]
        )


class NegativeCodes(KuhnPoker):
    def step(self, state, moves):
        after, seen = super().step(state, moves)
        return after, seen - 2


class TwoRowsOfCodes(KuhnPoker):
    def step(self, state, moves):
        after, seen = super().step(state, moves)
        return after, seen[:2]


class NoSuchPlayer(KuhnPoker):
    def actor(self, state):
        return super().actor(state) * np.uint8(2)


class FlatFeatures(KuhnPoker):
    def features(self, state, player):
        return super().features(state, player).reshape(-1)


class UndefinedFeatures(KuhnPoker):
    def features(self, state, player):
        return np.where(state.line == 2, np.nan, super().features(state, player))


class Probabilities(KuhnPoker):
    def legal(self, state, player):
        return super().legal(state, player) * 0.5


class OneReturn(KuhnPoker):
    def returns(self, state):
        return super().returns(state)[:1]


SHOWN, PUBLIC = (
    "features differ within an infostate of player {}",
    "the public observes what player {} does not",
)
CHEATS = [
    (ShowsTheOtherCard(), SHOWN.format(1)),
    (ShowsItOfALargeDeck(num_ranks=13, num_suits=1), SHOWN.format(1)),
    (ShowsHiddenBids(imp_info=True), SHOWN.format(0)),
    (ShowsAllDice(numdice=2), SHOWN.format(1)),
    (ShowsHiddenStones(), SHOWN.format(1)),
    (HidesActions(), SHOWN.format(1)),
    (ForbidsByTheOtherCard(), "legal actions differ within an infostate of player 1"),
    (KnowsOccupiedCells(), "legal actions differ within an infostate of player 0"),
    (
        Generous(),
        r"not constant-sum: returns sum to 0 at history \(.*\) and to 0.5 at history \(0, 1, 1, 1\)",
    ),
    (Undefined(), r"returns \(nan, nan\) are not finite"),
    (Huge(), "not finite numbers of at most 1e"),
    (
        LosesChance(dice_sides=2),
        r"chance probabilities \[0.45, 0.45\] are not >= 0 with sum 1 at history \(0,\)",
    ),
    (NegativeChance(), r"chance probabilities \[0.5, -0.5, 1.0\]"),
    (Stuck(), r"player \d acts but has no legal action at history"),
    (WidensIntegers(num_cards=3), "lead of the state is int64.* after a move, expected int32"),
    (GrowsHistory(num_cards=3), r"points of the state is int8\[4, 3\] after a move, expected int8\[3, 3\]"),
    (ForgetsWhatItIs(), r"step\(\) returned a tuple"),
    (MixesStates(), "depend on the other states of the batch"),
    (TooShort(), "does not end after max_moves=10"),
    (TellsThePublic(), PUBLIC.format(1)),
    (TellsThePublicOfTheLast(), PUBLIC.format(1)),
    (NegativeCodes(), "least -2; return integers"),
    (TwoRowsOfCodes(), r"observations int64\[2, 3\]"),
    (NoSuchPlayer(), r"actor\(\) returned \[8\]"),
    (FlatFeatures(), r"features\(\) have shape"),
    (UndefinedFeatures(), r"features\(\) are not finite"),
    (Probabilities(), r"legal\(\) returned float64"),
    (OneReturn(), r"returns\(\) returned shape \[1, "),
]


@pytest.mark.parametrize(("machine", "message"), CHEATS, ids=[type(m).__name__ for m, _ in CHEATS])
def test_cheats_are_found(machine: StateMachine[Any], message: str):
    with pytest.raises(
        ValueError, match=f"{machine.short_name}.* breaks a rule of state machines: .*{message}"
    ):
        check_machine(machine)


def hide_cards(state: Any, player: int, random: np.random.Generator) -> Any:
    cards = state.cards.copy()
    cards[1 - player] = random.permutation(cards[1 - player])
    return state._replace(cards=cards)


def hide_dice(state: Any, player: int, random: np.random.Generator) -> Any:
    hand = state.hand.copy()
    hand[1 - player] = random.permutation(hand[1 - player])
    return state._replace(hand=hand)


def hide_bids(state: Any, player: int, random: np.random.Generator) -> Any:
    """Any other bids with the same results."""
    bids, hands = state.bids.copy(), state.hands.copy()
    own, other = bids[player], bids[1 - player]
    most = hands.shape[1] - 1
    higher, lower = (
        random.integers(np.minimum(own + 1, most), most + 1),
        random.integers(0, np.maximum(own, 1)),
    )
    bids[1 - player] = np.where(other > own, higher, np.where((other < own) & (other >= 0), lower, other))
    hands[1 - player] = random.random(hands[1 - player].shape) < 0.5
    return state._replace(bids=bids, hands=hands)


def hide_stones(state: Any, player: int, random: np.random.Generator) -> Any:
    owner, attempt = state.owner.copy(), state.attempt.copy()
    unknown = (attempt[player] == 0) & (owner != player)
    owner[unknown] = random.choice([-1, 1 - player], int(unknown.sum()))
    attempt[1 - player] = random.integers(0, 5, attempt[1 - player].shape)
    return state._replace(owner=owner, attempt=attempt, group=random.permutation(state.group))


HIDDEN = [
    (KuhnPoker(), hide_cards),
    (LeducPoker(), hide_cards),
    (LeducPoker(num_ranks=13, num_suits=4, action_mapping=True), hide_cards),
    (Goofspiel(imp_info=True), hide_bids),
    (Goofspiel(num_cards=6, imp_info=True, points_order="descending"), hide_bids),
    (LiarsDice(numdice=2), hide_dice),
    (DarkHex(), hide_stones),
    (DarkHex(board_size=4, gameversion="adh"), hide_stones),
    (PhantomTicTacToe(), hide_stones),
]


@pytest.mark.parametrize(("machine", "hide"), HIDDEN, ids=[machine.name for machine, _ in HIDDEN])
def test_features_do_not_change_with_what_is_hidden(machine: StateMachine[Any], hide: Any):
    random = np.random.default_rng(1)
    state, changed = machine.start(500, np), 0
    for _ in range(machine.max_moves):
        after, _ = machine.step(state, draw_moves(machine, state, random))
        state = keep_ends(machine, state, after)
        for player in (0, 1):
            other = hide(state, player, random)
            assert machine.features(other, player).tobytes() == machine.features(state, player).tobytes()
            assert (machine.legal(other, player) == machine.legal(state, player)).all()
            changed += (machine.features(other, 1 - player) != machine.features(state, 1 - player)).any()
    assert changed > 0
