"""Climb: a shedding game of two teams, small enough to be solved (modelled on GuanDan; not from a paper).

Seats 0 and 2 are one team, 1 and 3 the other; the deck has two copies of each rank. The first seat to run out
of cards wins for its team: 3, 2 or 1 points if its teammate finishes second, third or last. The leader of a
trick plays a single card or a pair; the others pass or play a higher rank of the same type.

Further rules of this implementation:

- *Leftover cards*: of `2 · num_ranks` cards every seat gets `hand_size`; the others remain unseen.
- *First lead*: seat 3, so that seat 0 is the first to follow; `seat` selects another resolving seat.
- *Order*: ascending seats, skipping those without cards. A seat that passed may play later in the same trick;
  the trick ends when all other seats with cards have passed since the last play.
- *Next lead*: the seat that made the last play, or its teammate if that seat has no cards left.
- *End*: as soon as both members of a team have no cards, since that decides the order.
- *Payoff*: each winner gets half of the points and each loser loses half, so a team's payoff is the points.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np

from jaxgadget.games.game import SIMULTANEOUS, CutRule, CutView, level_slices
from jaxgadget.games.multiplayer import CHANCE_SEAT, MultiplayerRules, MultiplayerStep
from jaxgadget.games.parameters import check_choice, check_integer, name_with
from jaxgadget.games.stepwise import StepwiseGame
from jaxgadget.games.team import Memory, TeammatePolicy, own_decision, team, uniform
from jaxgadget.util.arrays import BoolArray, IntArray

PASS = 0
NUM_SEATS = 4
FIRST_LEAD = 3
MAX_RANKS = 13
TEAMMATES = ("lowest", "uniform")
"""Names of the teammate's blueprints."""

Hand = tuple[int, ...]
"""Ranks of a hand, ascending; the lowest is 1."""


def climb(num_ranks: int = 3, hand_size: int = 1, seat: int = 0, teammate: str = "lowest") -> StepwiseGame:
    """Climb, a shedding game for two teams of two; player 0 is one seat, its teammate is chance.

    Player 1 is both opponents, with joint information (`team`). The module's docstring gives the rules.
    `teammate` names the blueprint of the teammate's seat: `lowest` (the default) leads its lowest rank, a
    pair if it has two, follows with its lowest legal play, and passes if its teammate made the highest play;
    `uniform` plays all legal actions with equal probability.

    Number of histories: with one-card hands, 517 for 3 ranks and 272,247 for 13; with two-card hands, 60,376
    for 4 ranks (146,253 with the uniform teammate), 1,560,503 (3,981,966) for 5 and twelve million for 6.
    """
    check_integer("climb", "seat", seat, 0, NUM_SEATS - 1)
    check_choice("climb", "teammate", teammate, TEAMMATES)
    rules, mate = Climb(num_ranks, hand_size), partner(seat)
    parameters = {"num_ranks": num_ranks, "hand_size": hand_size, "seat": seat, "teammate": teammate}
    name = name_with("climb", parameters, {"num_ranks": 3, "hand_size": 1, "seat": 0, "teammate": "lowest"})
    policy = lowest(mate, num_ranks) if teammate == "lowest" else uniform
    return team(rules, (seat,), {mate: policy}, name=name)


class TrickTurn(NamedTuple):
    """Public state of the play.

    Attributes:
      cards: number of cards of each seat.
      seat: the seat to move.
      owner: the seat that made the play to beat; at a lead, the seat to move.
      trick: index of the trick, from 1.
    """

    cards: tuple[int, int, int, int]
    seat: int
    owner: int
    trick: int

    @property
    def is_over(self) -> bool:
        """True if both members of a team have no cards."""
        return any(self.cards[s] == self.cards[partner(s)] == 0 for s in (0, 1))

    @functools.cache  # noqa: B019 - a turn is a value, and there are few of them
    def after(self, num_cards: int) -> TrickTurn:
        """The turn after the seat played `num_cards` cards, 0 for a pass."""
        cards = list(self.cards)
        cards[self.seat] -= num_cards
        owner = self.seat if num_cards else self.owner
        played = self._replace(cards=(cards[0], cards[1], cards[2], cards[3]), owner=owner)
        if played.is_over:
            return played
        seat = (self.seat + 1) % NUM_SEATS
        while cards[seat] == 0 and seat != owner:
            seat = (seat + 1) % NUM_SEATS
        if seat != owner:
            return played._replace(seat=seat)
        leader = owner if cards[owner] else partner(owner)
        return played._replace(seat=leader, owner=leader, trick=self.trick + 1)


class ClimbState(NamedTuple):
    """A state of the game.

    Attributes:
      hands: hands that are dealt, by seat.
      turn: public state of the play.
      standing: the play to beat, `PASS` at the start of a trick.
      out: seats without cards, in the order in which they finished.
    """

    hands: tuple[Hand, ...]
    turn: TrickTurn
    standing: int = PASS
    out: tuple[int, ...] = ()


class Climb(MultiplayerRules[ClimbState]):
    """The rules for all four seats; each hand is dealt by a chance move that only its seat observes.

    Action 0 is the pass, `r` a single card of rank `r`, and `num_ranks + r` two of them. A leader may not
    pass. Plays are public; hands are private.
    """

    num_players = NUM_SEATS

    def __init__(self, num_ranks: int = 3, hand_size: int = 1):
        check_integer("climb", "num_ranks", num_ranks, 2, MAX_RANKS)
        check_integer("climb", "hand_size", hand_size, 1, num_ranks // 2)
        self.num_ranks = num_ranks
        self.hand_size = hand_size
        self.name = f"climb({hand_size=},{num_ranks=})"
        ranks = range(1, num_ranks + 1)
        self.actions = ["pass", *(f"single-{r}" for r in ranks), *(f"pair-{r}" for r in ranks)]
        self._hands: list[Hand] = sorted(set(itertools.combinations(sorted([*ranks, *ranks]), hand_size)))

    def initial_state(self) -> ClimbState:
        """The state before the deal."""
        size = self.hand_size
        return ClimbState((), TrickTurn((size, size, size, size), FIRST_LEAD, FIRST_LEAD, 1))

    def actors(self, state: ClimbState) -> tuple[int, ...]:
        """Chance until all hands are dealt, then one seat at a time."""
        if len(state.hands) < NUM_SEATS:
            return (CHANCE_SEAT,)
        return () if state.turn.is_over else (state.turn.seat,)

    def chance_outcomes(self, state: ClimbState) -> list[tuple[int, float]]:
        """Index of the next hand among all hands, weighted by the number of ways to draw its cards."""
        dealt = Counter(itertools.chain(*state.hands))
        total = math.comb(2 * self.num_ranks - len(state.hands) * self.hand_size, self.hand_size)
        ways = [
            math.prod(math.comb(2 - dealt[rank], copies) for rank, copies in Counter(hand).items())
            for hand in self._hands
        ]
        return [(k, count / total) for k, count in enumerate(ways) if count]

    def legal_actions(self, state: ClimbState, seat: int) -> list[int]:
        """At a lead, all singles and pairs in hand; otherwise a pass and higher plays of the same type."""
        copies = Counter(state.hands[seat])
        singles = sorted(copies)
        pairs = [self.num_ranks + rank for rank in singles if copies[rank] == 2]
        if state.standing == PASS:
            return singles + pairs
        same = singles if state.standing <= self.num_ranks else pairs
        return [PASS, *(play for play in same if play > state.standing)]

    def step(self, state: ClimbState, move: int) -> MultiplayerStep[ClimbState]:
        """Deals a hand or makes a play; the last play pays the points."""
        if len(state.hands) < NUM_SEATS:
            hand = self._hands[move]
            private = [hand if seat == len(state.hands) else None for seat in range(NUM_SEATS)]
            return MultiplayerStep(state._replace(hands=(*state.hands, hand)), private=private)
        seat, hands, out = state.turn.seat, list(state.hands), state.out
        rank, num_cards = self._play(move)
        for _ in range(num_cards):
            at = hands[seat].index(rank)
            hands[seat] = hands[seat][:at] + hands[seat][at + 1 :]
        if not hands[seat]:
            out = (*out, seat)
        turn = state.turn.after(num_cards)
        standing = PASS if turn.trick > state.turn.trick else move or state.standing
        after = ClimbState(tuple(hands), turn, standing, out)
        rewards = _rewards(out) if turn.is_over else ()
        return MultiplayerStep(after, rewards, public=(seat, self.actions[move]))

    def cuts(self) -> Mapping[str, CutRule]:
        """`deal`; `trick_N`, the start of the N-th trick; `decision_N`, player 0's N-th own decision."""
        cuts: dict[str, CutRule] = {"deal": _after_deal}
        for n in range(2, self.hand_size + 2):
            cuts[f"trick_{n}"] = self._trick(n)
        for n in range(1, self.hand_size + 1):
            cuts[f"decision_{n}"] = own_decision(n)
        return cuts

    def _play(self, action: int) -> tuple[int, int]:
        """Rank and number of cards of an action."""
        return (action, int(action > 0)) if action <= self.num_ranks else (action - self.num_ranks, 2)

    def _trick(self, trick: int) -> CutRule:
        def is_root(view: CutView) -> BoolArray:
            turns, turn = self._turns(view)
            within = np.array([t.trick == trick and not t.is_over for t in turns])[turn]
            return within & ~within[view.parent]

        return is_root

    def _turns(self, view: CutView) -> tuple[list[TrickTurn], IntArray]:
        """All distinct turns, and `[n]` the index of each history's turn, reconstructed from the moves."""
        turns = [self.initial_state().turn]
        numbers = {turns[0]: 0}
        turn = np.zeros(len(view.parent), np.int64)
        for level, (begin, end) in enumerate(level_slices(view.parent), 1):
            if level <= NUM_SEATS:
                continue  # the deal
            num_cards = np.array([self._play(a)[1] for a in range(len(self.actions))])
            played = num_cards[view.action[:, begin:end].max(axis=0)]
            keys, key = np.unique(3 * turn[view.parent[begin:end]] + played, return_inverse=True)
            following = [turns[k // 3].after(k % 3) for k in keys.tolist()]
            for each in following:
                if numbers.setdefault(each, len(turns)) == len(turns):
                    turns.append(each)
            turn[begin:end] = np.array([numbers[each] for each in following])[key]
        return turns, turn


def partner(seat: int) -> int:
    """The other seat of a team."""
    return (seat + 2) % NUM_SEATS


def lowest(seat: int, num_ranks: int) -> TeammatePolicy:
    """Blueprint that plays as low as possible and never beats its teammate's play.

    It leads its lowest rank, a pair if it has two, and follows with the lowest play that is higher.
    """

    def policy(memory: Memory, legal: Sequence[int]) -> list[float]:
        plays = [cast("tuple[int, str]", seen.public) for seen in memory if seen.public is not None]
        owner = next((seat_played for seat_played, play in reversed(plays) if play != "pass"), seat)
        if legal[0] != PASS:
            pair = num_ranks + legal[0]
            choice = pair if pair in legal else legal[0]
        else:
            choice = PASS if owner == partner(seat) or len(legal) == 1 else legal[1]
        return [float(action == choice) for action in legal]

    return policy


def _rewards(out: tuple[int, ...]) -> list[float]:
    """Each seat's reward, given the seats that finished, in order."""
    mate = partner(out[0])
    points = {1: 3, 2: 2}[out.index(mate)] if mate in out else 1
    return [points / 2 if seat in (out[0], mate) else -points / 2 for seat in range(NUM_SEATS)]


def _after_deal(view: CutView) -> BoolArray:
    """The first decision of a player; teammates may have moved before it."""
    return ((view.actor & SIMULTANEOUS) > 0) & (view.num_moves == 0)
