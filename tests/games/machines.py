"""State machines that tests run: every built-in one, small and too large to enumerate."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxgadget.games.game import TERMINAL
from jaxgadget.games.goofspiel import Goofspiel
from jaxgadget.games.kuhn import KuhnPoker
from jaxgadget.games.leduc.no_limit import NoLimitLeduc
from jaxgadget.games.leduc.rules import LeducPoker
from jaxgadget.games.liars_dice import LiarsDice
from jaxgadget.games.machine import MOVER_BITS, StateMachine
from jaxgadget.games.phantom import DarkHex, PhantomTicTacToe
from jaxgadget.util.arrays import IntArray

SMALL: list[StateMachine[Any]] = [
    KuhnPoker(),
    LeducPoker(),
    LeducPoker(action_mapping=True, starting_player=1),
    LeducPoker(num_ranks=4, num_suits=3, suit_isomorphism=True, raise_sizes="1-10", max_raises=1),
    NoLimitLeduc(stack=7, bets="1/2-1-a", starting_player=1),
    Goofspiel(num_cards=4),
    Goofspiel(num_cards=4, imp_info=True, points_order="descending", returns_type="point_difference"),
    Goofspiel(num_cards=5, num_turns=3, imp_info=True, points_order="ascending"),
    LiarsDice(dice_sides=3),
    LiarsDice(numdice=2, dice_sides=2, bidding_rule="reset-quantity"),
    DarkHex(board_size=2),
    DarkHex(board_size=2, gameversion="adh", obstype="reveal-numturns"),
]
LARGE: list[StateMachine[Any]] = [
    LeducPoker(num_ranks=13, num_suits=4),
    NoLimitLeduc(stack=200, bets="1/2-1-2-a"),
    Goofspiel(imp_info=True),
    Goofspiel(num_cards=9),
    LiarsDice(numdice=2),
    LiarsDice(numdice=5, bidding_rule="reset-quantity"),
    DarkHex(),
    DarkHex(num_rows=4, gameversion="adh"),
    PhantomTicTacToe(),
    PhantomTicTacToe(gameversion="abrupt", obstype="reveal-numturns"),
]
MACHINES = SMALL + LARGE


def draw_moves(machine: StateMachine[Any], state: Any, random: np.random.Generator) -> IntArray:
    """`[3, n]` random legal moves; -1 at terminal states, too."""
    actor = np.asarray(machine.actor(state))
    moves = np.full((3, len(actor)), -1)
    for mover, bit in enumerate(MOVER_BITS):
        acts = (actor & bit) > 0
        if acts.any():
            possible = machine.legal(state, mover) if mover < 2 else machine.chance(state) > 0
            priority = np.where(possible, random.random(possible.shape), -1.0)
            moves[mover, acts] = np.argmax(priority, axis=0)[acts]
    return moves


def keep_ends(machine: StateMachine[Any], before: Any, after: Any) -> Any:
    """The next states; games that have ended keep their state."""
    is_over = np.asarray(machine.actor(before)) == TERMINAL
    return type(before)(*(np.where(is_over, old, new) for old, new in zip(before, after, strict=True)))
