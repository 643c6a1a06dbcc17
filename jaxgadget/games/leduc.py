"""Leduc poker for two: one private card each, one public card, two betting rounds.

OpenSpiel's game and parameters, and beyond them any number of ranks, suits and raises.

What the public sees is the same tree below every deal of private cards, so a level is the
product of that tree's level and the deals, less the public cards that a deal has used up.

`action_mapping` makes all three actions legal and plays a pointless fold or raise as a
call. OpenSpiel's infostate string then forgets which of them the player chose; here the
player remembers (perfect recall), so several infostates share such a string.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from jaxgadget.games.game import (
    ACTOR_BIT,
    CHANCE,
    TERMINAL,
    BoolArray,
    Budget,
    CutRule,
    CutView,
    FloatArray,
    IntArray,
    Level,
    Move,
    dense_ids,
)
from jaxgadget.games.kuhn import canonical_name, check_flag, check_integer, check_two_players

_FOLD, _CALL, _RAISE = 0, 1, 2
_CARD = 3  # the public card, as a step of the betting
_ANTE = 1
_MONEY = 100  # what a player starts with; only the infostate strings tell


class _State(NamedTuple):
    """The betting of a hand.

    Attributes:
      mover: whose turn it is.
      paid: chips of both players in the pot.
      raises: raises in this round.
      calls: calls and checks since the last raise, or in this round.
    """

    mover: int
    paid: tuple[int, int] = (_ANTE, _ANTE)
    raises: int = 0
    calls: int = 0

    @property
    def is_pressed(self) -> bool:
        """Whether there is a raise to answer."""
        return self.paid[self.mover] < self.paid[1 - self.mover]

    @property
    def round_is_over(self) -> bool:
        """Whether everyone answered, nobody having folded."""
        return self.calls == (1 if self.raises else 2)

    def after(self, played: int, raise_size: int) -> _State:
        """The state after an action; a fold leaves the chips as they are."""
        mover, paid, raises, calls = self
        stakes = max(paid)
        puts = (paid[mover], stakes, stakes + raise_size)[played]
        paid = (puts, paid[1]) if mover == 0 else (paid[0], puts)
        if played == _RAISE:
            return _State(1 - mover, paid, raises + 1, 0)
        return _State(1 - mover, paid, raises, calls + 1)

    def second_round(self, starting_player: int) -> _State:
        """The state after the public card."""
        return _State(starting_player, self.paid)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LeducPoker:
    """Leduc poker; actions are 0 fold, 1 call (or check), 2 raise.

    A card is `rank · num_suits + suit`. The card that pairs the public card wins, else the
    higher rank; equal ranks split the pot.

    Attributes:
      players: 2.
      suit_isomorphism: cards are only ranks, and chance deals ranks.
      action_mapping: see the top of the file.
      starting_player: who begins both betting rounds.
      num_ranks: ranks in the deck (OpenSpiel has this parameter and the next three fixed).
      num_suits: cards of each rank.
      raise_sizes: chips of a raise in the first and in the second round, as "2-4".
      max_raises: raises in a round, of both players together.
    """

    short_name: ClassVar[str] = "leduc_poker"
    refused: ClassVar[Mapping[str, str]] = {}

    players: int = 2
    suit_isomorphism: bool = False
    action_mapping: bool = False
    starting_player: int = 0
    num_ranks: int = 3
    num_suits: int = 2
    raise_sizes: str = "2-4"
    max_raises: int = 2

    def __post_init__(self) -> None:
        check_two_players(self.short_name, self.players)
        check_flag(self.short_name, "suit_isomorphism", self.suit_isomorphism)
        check_flag(self.short_name, "action_mapping", self.action_mapping)
        check_integer(self.short_name, "starting_player", self.starting_player, 0, 1)
        check_integer(self.short_name, "num_ranks", self.num_ranks, 1)
        check_integer(self.short_name, "num_suits", self.num_suits, 1)
        check_integer(self.short_name, "max_raises", self.max_raises, 1)
        if self.num_ranks * self.num_suits < 3:
            raise ValueError(
                f"{self.short_name}: num_ranks={self.num_ranks} and num_suits={self.num_suits} make "
                f"{self.num_ranks * self.num_suits} cards: expected at least 3, two private ones and a "
                "public one; raise one of the two"
            )
        _parse_raises(self.raise_sizes)

    @property
    def name(self) -> str:
        """The canonical game string."""
        return canonical_name(self.short_name, self)

    @property
    def num_actions(self) -> int:
        """Fold, call, raise."""
        return 3

    def levels(self, budget: Budget) -> Iterator[Level]:
        """Yields the two private deals, then the rest of the game for all deals at once."""
        copies = self.num_suits if self.suit_isomorphism else 1
        deck = self.num_ranks * self.num_suits
        types = deck // copies
        cards = np.arange(types)
        budget.claim(1)
        yield _dealing(np.full(1, -1), 1.0, np.zeros((2, 1), np.int64))
        budget.claim(types)
        # Player 1 and the public only see that a card is dealt.
        yield _dealing(cards, copies * (1.0 / deck), np.stack([1 + cards, np.ones_like(cards)]))
        budget.claim(types * (types if copies > 1 else types - 1))
        deals = _Deals.of(cards // (self.num_suits // copies), copies, deck)
        public = _PublicLevel.first(types, _betting_lines(self))
        keep = deals.possible(public.card)
        level = deals.cross(public, keep, keep)
        action = level.action.copy()
        action[2] = deals.cards[1]
        yield dataclasses.replace(level, parent=deals.cards[0], action=action, chance=deals.chance)
        while len((public := public.next()).card):
            with_card = int(np.count_nonzero(public.card >= 0))
            budget.claim(len(deals.chance) * len(public.card) - deals.num_excluding * with_card)
            above, keep = keep, deals.possible(public.card)
            yield deals.cross(public, above, keep)

    def infostate_string(self, player: int, history: Sequence[Move]) -> str:
        """OpenSpiel's string; larger decks and more raises read the same way."""
        moves = cast(Sequence[int], history)  # nothing is simultaneous here
        sizes = _parse_raises(self.raise_sizes)
        state, public = _State(mover=self.starting_player), ""
        shown: tuple[list[str], list[str]] = ([], [])
        for move in moves[2:]:
            if state.round_is_over and not public:
                state, public = state.second_round(self.starting_player), f"[Public: {move}]"
                continue
            betting_round = 1 if public else 0
            played = self.played(move, state)
            shown[betting_round].append(str(played))
            state = state.after(played, sizes[betting_round])
        paid = state.paid
        return (
            f"[Observer: {player}][Private: {moves[player]}][Round {2 if public else 1}]"
            f"[Player: {state.mover}][Pot: {sum(paid)}][Money: {_MONEY - paid[0]} {_MONEY - paid[1]}]{public}"
            f"[Round1: {' '.join(shown[0])}][Round2: {' '.join(shown[1])}]"
        )

    def played(self, action: int, state: _State) -> int:
        """What an action counts as: with `action_mapping` a pointless one is a call."""
        return _CALL if self.action_mapping and action not in self.sensible(state) else action

    def legal_actions(self, state: _State) -> tuple[int, ...]:
        """What the game offers."""
        return (_FOLD, _CALL, _RAISE) if self.action_mapping else self.sensible(state)

    def sensible(self, state: _State) -> tuple[int, ...]:
        """What may be done: no fold without a raise to answer, and at most `max_raises` raises."""
        can_fold = (_FOLD,) if state.is_pressed else ()
        can_raise = (_RAISE,) if state.raises < self.max_raises else ()
        return (*can_fold, _CALL, *can_raise)

    def action_string(self, player: int, action: int) -> str:
        """OpenSpiel's wording."""
        return ("Fold", "Call", "Raise")[action]

    def cuts(self) -> Mapping[str, CutRule]:
        """`flop`: right after the public card; `before-flop`: right before it, at chance nodes."""
        return {"flop": _after_public_card, "before-flop": _before_public_card}


def _after_public_card(tree: CutView) -> BoolArray:
    return (tree.action[2] >= 0) & (tree.num_moves > 0)


def _before_public_card(tree: CutView) -> BoolArray:
    return (tree.actor == CHANCE) & (tree.num_moves > 0)


def _parse_raises(raise_sizes: object) -> tuple[int, int]:
    if not isinstance(raise_sizes, str) or not re.fullmatch(r"[1-9][0-9]*-[1-9][0-9]*", raise_sizes):
        raise ValueError(
            f"leduc_poker: raise_sizes={raise_sizes!r}: expected two positive integers with a dash between "
            'them, the chips of a raise in the first and in the second round; write "2-4", for example'
        )
    first, second = raise_sizes.split("-")
    return int(first), int(second)


def _dealing(card: IntArray, chance: float, infostate: IntArray) -> Level:
    """The root (card -1), or the level after the first private card."""
    n = len(card)
    action = np.full((3, n), -1, np.int16)
    action[2] = card
    return Level(
        parent=np.zeros(n, np.int32),
        actor=np.full(n, CHANCE, np.uint8),
        action=action,
        chance=np.full(n, chance),
        returns=np.zeros((2, n)),
        infostate=infostate,
        public=infostate[1],
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Lines:
    """All the betting of a hand in breadth-first order, the public card being a single step.

    Attributes:
      actor: `[b]` as in `Level`.
      num_children: `[b]` number of legal actions, 1 where the public card is dealt.
      first_child: `[b]` children lie side by side.
      action: `[2, b]` what player 0 and player 1 did at the parent.
      shows: `[b]` whether the cards decide.
      won: `[b]` what player 0 gets (at a showdown: if it wins), 0 where play goes on.
      seen: `[3, b]` id of what player 0, player 1 and the public know of the betting.
    """

    actor: npt.NDArray[np.uint8]
    num_children: IntArray
    first_child: IntArray
    action: IntArray
    shows: BoolArray
    won: IntArray
    seen: IntArray


def _betting_lines(game: LeducPoker) -> _Lines:
    sizes = _parse_raises(game.raise_sizes)
    rows: list[tuple[int, ...]] = []
    ids: tuple[dict[tuple[int, int, int], int], ...] = ({}, {}, {})
    # Waiting: (state, whether in the second round, who folded, actions, seen by three).
    queue = [(_State(game.starting_player), False, -1, (-1, -1), (0, 0, 0))]
    for state, is_second, folder, actions, seen in queue:
        over = folder >= 0 or state.round_is_over
        actor = ACTOR_BIT[state.mover] if not over else CHANCE if folder < 0 and not is_second else TERMINAL
        choices = (_CARD,) if actor == CHANCE else game.legal_actions(state) if not over else ()
        shows = actor == TERMINAL and folder < 0
        won = min(state.paid) * (-1 if folder == 0 else 1) if actor == TERMINAL else 0
        rows.append((actor, len(choices), len(queue), *actions, shows, won, *seen))
        for choice in choices:
            if choice == _CARD:
                after, played, did = state.second_round(game.starting_player), _CARD, (-1, -1)
            else:
                played = game.played(choice, state)
                after = state.after(played, sizes[is_second])
                did = (choice, -1) if state.mover == 0 else (-1, choice)
            # The mover knows its choice, the others what it counts as.
            keys = ((seen[0], did[0], played), (seen[1], did[1], played), (seen[2], -1, played))
            a, b, public = (
                known.setdefault(key, len(known) + 1) for known, key in zip(ids, keys, strict=True)
            )
            folded = state.mover if played == _FOLD else -1
            queue.append((after, is_second or played == _CARD, folded, did, (a, b, public)))
    columns = np.array(rows, np.int64).T
    return _Lines(
        actor=columns[0].astype(np.uint8),
        num_children=columns[1].astype(np.int32),
        first_child=columns[2].astype(np.int32),
        action=columns[3:5].astype(np.int16),
        shows=columns[5] > 0,
        won=columns[6],
        seen=columns[7:].astype(np.int32),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _PublicLevel:
    """A level of the tree that lies below every deal of private cards.

    Attributes:
      types: number of cards that can be told apart.
      lines: the betting.
      parent: `[t]` row in the level above.
      line: `[t]` betting so far.
      card: `[t]` public card, -1 before it is dealt.
      dealt: `[t]` public card if it was dealt just now, else -1.
      view: `[3, t]` what player 0, player 1 and the public know, their private cards aside;
        numbered through all levels.
      num_views: `[3, 1]` number of views so far.
    """

    types: int
    lines: _Lines
    parent: IntArray
    line: IntArray
    card: IntArray
    dealt: IntArray
    view: IntArray
    num_views: IntArray

    @staticmethod
    def first(types: int, lines: _Lines) -> _PublicLevel:
        """The start of the betting."""
        zero, none = np.zeros(1, np.int32), np.full(1, -1, np.int32)
        view, num_views = np.zeros((3, 1), np.int32), np.ones((3, 1), np.int32)
        return _PublicLevel(
            types=types,
            lines=lines,
            parent=zero,
            line=zero,
            card=none,
            dealt=none,
            view=view,
            num_views=num_views,
        )

    def next(self) -> _PublicLevel:
        """The level below; empty after the last one."""
        lines = self.lines
        deals = lines.actor[self.line] == CHANCE
        count = np.where(deals, self.types, lines.num_children[self.line])
        parent = np.repeat(np.arange(len(count), dtype=np.int32), count)
        nth = np.arange(len(parent), dtype=np.int32) - (np.cumsum(count) - count)[parent]
        deals = deals[parent]
        line = lines.first_child[self.line][parent] + np.where(deals, 0, nth)
        card = np.where(deals, nth, self.card[parent])
        view = np.empty((3, len(parent)), np.int32)
        num_views = self.num_views.copy()
        for viewer, seen in enumerate(lines.seen):
            view[viewer], num_new = dense_ids(seen[line] * (self.types + 1) + card)
            num_views[viewer] += num_new
        view += self.num_views
        return _PublicLevel(
            types=self.types,
            lines=lines,
            parent=parent,
            line=line,
            card=card,
            dealt=np.where(deals, nth, -1),
            view=view,
            num_views=num_views,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Deals:
    """All deals of the private cards, `[d]`, in the order of the histories.

    Attributes:
      rank: `[types]` rank of each card.
      copies: how many there are of each card.
      deck: number of cards at the start.
      cards: `[2, d]` the two private cards.
      chance: `[d]` probability of the second card after the first.
    """

    rank: IntArray
    copies: int
    deck: int
    cards: IntArray
    chance: FloatArray

    @staticmethod
    def of(rank: IntArray, copies: int, deck: int) -> _Deals:
        """All deals from a deck of `deck` cards."""
        left = np.full((len(rank), len(rank)), copies) - np.eye(len(rank), dtype=np.int64)
        cards = np.stack(np.nonzero(left))
        chance = (left[cards[0], cards[1]] * (1.0 / (deck - 1))).astype(np.float64)
        return _Deals(rank=rank, copies=copies, deck=deck, cards=cards.astype(np.int32), chance=chance)

    @property
    def num_excluding(self) -> int:
        """Number of deals that leave no copy of a given card."""
        return {1: 2 * (len(self.rank) - 1), 2: 1}.get(self.copies, 0)

    # The two tables are as large as the level on which the card is dealt: only made once that is claimed.
    @functools.cached_property
    def left(self) -> IntArray:
        """`[d, types]` copies of each card left in the deck."""
        left = np.full((self.cards.shape[1], len(self.rank)), self.copies, np.int32)
        for card in self.cards:
            left[np.arange(len(left)), card] -= 1
        return left

    @functools.cached_property
    def ahead(self) -> IntArray:
        """`[d, types]` 1 if player 0 wins with that public card, -1 if player 1 does, 0 if they split."""
        rank = self.rank[self.cards][:, :, None]
        strength = rank + len(self.rank) * (rank == self.rank)
        return np.sign(strength[0] - strength[1])

    def possible(self, card: IntArray) -> BoolArray:
        """`[d, t]` whether a deal leaves the public card in the deck; -1 is no card."""
        if (card < 0).all():
            return np.ones((len(self.chance), len(card)), np.bool_)
        return (self.left[:, card] > 0) | (card < 0)

    def cross(self, public: _PublicLevel, above: BoolArray, keep: BoolArray) -> Level:
        """A level of the game: every deal with everything that may follow in public.

        Args:
          public: the level of the public tree.
          above: `[d, t above]` which pairs the level above has.
          keep: `[d, t]` which pairs this level has.
        """
        lines, line, types = public.lines, public.line, len(self.rank)
        deal, node = np.nonzero(keep)
        n = len(node)
        row_above = np.cumsum(above, dtype=np.int32).reshape(above.shape) - 1
        action = np.empty((3, n), np.int16)
        np.take(lines.action[:, line], node, axis=1, out=action[:2])
        np.take(public.dealt.astype(np.int16), node, out=action[2])
        chance = np.ones(n)
        rows = np.nonzero(action[2] >= 0)[0]
        if len(rows):
            chance[rows] = self.left[deal[rows], action[2, rows]] * (1.0 / (self.deck - 2))
        returns = np.empty((2, n))
        np.take(lines.won[line].astype(np.float64), node, out=returns[0])
        rows = np.nonzero(lines.shows[line][node])[0]
        if len(rows):
            returns[0, rows] *= self.ahead[deal[rows], public.card[node[rows]]]
        np.subtract(0.0, returns[0], out=returns[1])
        # Ids of the dealing come first; the public ones only need to differ from them.
        infostate = (1 + types + public.view[:2] * types)[:, node]
        infostate += self.cards[:, deal]
        return Level(
            parent=row_above[deal, public.parent[node]],
            actor=lines.actor[line][node],
            action=action,
            chance=chance,
            returns=returns,
            infostate=infostate,
            public=(1 + types + public.view[2])[node],
        )
