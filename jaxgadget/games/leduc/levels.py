"""Leduc poker's levels as arrays.

The public tree is the same for every deal of private cards, so a level is the product of a level of that tree
and the deals, without the public cards that a deal has used up.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Generator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from jaxgadget.games.game import ACTOR_BIT, CHANCE, TERMINAL, Budget, HistoryLevel, dense_ids
from jaxgadget.games.hands import HandsGame, PublicLevel, PublicNodes, group_ends, name_cards, pair_names
from jaxgadget.games.leduc.betting import FOLD, BettingRules, BettingState
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray

_CARD = -1  # the public card, as a move of the betting


def leduc_levels(
    betting: BettingRules, rank: IntArray, copies: int, budget: Budget
) -> Generator[HistoryLevel, BoolArray | None, None]:
    """Yields the two private deals, then the rest of the game for all deals at once.

    A public node is omitted if no deal's history above it is to be expanded.

    Args:
      betting: the rules of the betting.
      rank: `[types]` rank of each card type.
      copies: number of copies of each type in the deck.
      budget: the budget that levels are claimed from.
    """
    types, deck = len(rank), len(rank) * copies
    cards = np.arange(types)
    budget.claim(1)
    yield _dealing(np.full(1, -1), 1.0, np.zeros((2, 1), np.int64))
    budget.claim(types)
    # Player 1 and the public only see that a card is dealt.
    yield _dealing(cards, copies * (1.0 / deck), np.stack([1 + cards, np.ones_like(cards)]))
    budget.claim(types * (types if copies > 1 else types - 1))
    deals = _Deals.of(rank, copies)
    public = _BoardLevel.first(types, _BettingLevel.first(betting))
    keep = deals.possible(public.card)
    level = deals.cross(public, keep, keep)
    action = level.action.copy()
    action[2] = deals.cards[1]
    expand = yield dataclasses.replace(level, parent=deals.cards[0], action=action, chance=deals.chance)
    while len((public := public.next(_goes_on(keep, expand))).card):
        with_card = int(np.count_nonzero(public.card >= 0))
        budget.claim(len(deals.chance) * len(public.card) - deals.num_excluding * with_card)
        above, keep = keep, deals.possible(public.card)
        expand = yield deals.cross(public, above, keep)


def leduc_by_hands(
    name: str, betting: BettingRules, rank: IntArray, copies: int, action_names: tuple[str, ...]
) -> HandsGame:
    """Leduc poker in hand form; a hand is a card type.

    Args:
      name: the game's name.
      betting: the rules of the betting, all actions being public.
      rank: `[types]` rank of each card type.
      copies: number of copies of each type in the deck.
      action_names: names of fold, call and raise.
    """
    types, deals = len(rank), _Deals.of(rank, copies)
    levels: list[PublicLevel] = []
    publics = [_BoardLevel.first(types, _BettingLevel.first(betting))]
    while len(publics[-1].card):
        public, lines = publics[-1], publics[-1].betting
        done = lines.action[:, public.line].max(axis=0)
        actor = lines.actor[public.line]
        levels.append(PublicLevel(public.parent, actor, np.where(public.dealt >= 0, public.dealt, done)))
        publics.append(public.next(np.ones(len(public.card), np.bool_)))
    tree = PublicNodes.of(levels)
    columns = [(p.card, p.betting.won[p.line], p.betting.shows[p.line]) for p in publics]
    card, won, shows = map(np.concatenate, zip(*columns, strict=True))
    deal = np.zeros((types, types))
    deal[tuple(deals.cards)] = copies * (1.0 / (types * copies)) * deals.chance
    # Tables: before the public card; then for each card, after a fold and at a showdown.
    left, ahead = np.zeros((types, types, types)), np.zeros((types, types, types))
    left[:, *deals.cards] = deals.left.T * (1.0 / (deals.deck - 2))
    ahead[:, *deals.cards] = deals.ahead.T
    shown = deal * left
    won = won[tree.ends].astype(np.float64)
    kind = np.where(card < 0, 0, 1 + card + types * shows)[tree.ends]
    possible = np.ones((len(tree), types), np.bool_)
    possible[card >= 0] = (shown.sum(axis=2) > 0)[card[card >= 0]]
    return HandsGame(
        name=name,
        hands=pair_names(name_cards(types)),
        nodes=tree,
        ends=group_ends(tree.ends, won, kind, np.concatenate([deal[None], shown, shown * ahead])),
        payoff_bounds=(-float(np.abs(won).max()), float(np.abs(won).max())),
        deals=np.concatenate([deal[None], shown]),
        board=1 + card,
        possible=(possible, possible),
        action_names=action_names,
    )


def _goes_on(keep: BoolArray, expand: BoolArray | None) -> BoolArray:
    """Mask `[t]` of the rows of the public level to expand.

    Args:
      keep: `[d, t]` pairs of a deal and a row in the level.
      expand: `[n]` mask of these histories, True to expand; None for all.
    """
    if expand is None:
        return np.ones(keep.shape[1], np.bool_)
    return np.bincount(np.nonzero(keep)[1][expand], minlength=keep.shape[1]) > 0


def _dealing(card: IntArray, chance: float, infostate: IntArray) -> HistoryLevel:
    """The root (card -1), or the level after the first private card."""
    n = len(card)
    action = np.full((3, n), -1, np.int16)
    action[2] = card
    return HistoryLevel(
        parent=np.zeros(n, np.int32),
        actor=np.full(n, CHANCE, np.uint8),
        action=action,
        chance=np.full(n, chance),
        returns=np.zeros((2, n)),
        infostate=infostate,
        public=infostate[1],
    )


class _BettingLine(NamedTuple):
    """A betting sequence.

    Attributes:
      state: the current state of the betting.
      is_second: True if the public card is dealt.
      folder: the player that folded, -1 for none.
      action: last actions of player 0 and player 1, -1 for none.
      seen: ids of the betting as observed by player 0, player 1 and the public.
    """

    state: BettingState
    is_second: bool = False
    folder: int = -1
    action: tuple[int, int] = (-1, -1)
    seen: tuple[int, int, int] = (0, 0, 0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _BettingLevel:
    """All betting sequences of one length; the public card counts as one move.

    Attributes:
      betting: the rules.
      lines: `b` betting sequences, sorted by parent.
      moves: moves after each: legal actions, or the public card.
      actor: `[b]` as in `HistoryLevel`.
      num_children: `[b]` number of moves.
      action: `[2, b]` actions of player 0 and player 1 at the parent.
      shows: `[b]` True at a showdown.
      won: `[b]` player 0's payoff (at a showdown: if it wins), 0 at non-terminal sequences.
      seen: `[3, b]` ids of the betting as observed by player 0, player 1 and the public.
      ids: for each of the three, ids by previous id, own action and public observation.
    """

    betting: BettingRules
    lines: Sequence[_BettingLine]
    moves: Sequence[tuple[int, ...]]
    actor: npt.NDArray[np.uint8]
    num_children: IntArray
    action: IntArray
    shows: BoolArray
    won: IntArray
    seen: IntArray
    ids: tuple[dict[tuple[int, int, int], int], ...]

    @staticmethod
    def first(betting: BettingRules) -> _BettingLevel:
        """The level before the first action."""
        return _BettingLevel._of(betting, [_BettingLine(betting.start())], ({}, {}, {}))

    @staticmethod
    def _of(
        betting: BettingRules, lines: Sequence[_BettingLine], ids: tuple[dict[tuple[int, int, int], int], ...]
    ) -> _BettingLevel:
        rows: list[tuple[int, ...]] = []
        moves: list[tuple[int, ...]] = []
        for state, is_second, folder, action, seen in lines:
            is_over = folder >= 0 or (state.round_is_over and is_second)
            if is_over:
                actor, choices = TERMINAL, ()
            elif state.round_is_over:
                actor, choices = CHANCE, (_CARD,)
            else:
                actor, choices = ACTOR_BIT[state.mover], betting.legal_actions(state)
            won = min(state.paid) * (-1 if folder == 0 else 1) if is_over else 0
            rows.append((actor, len(choices), is_over and folder < 0, won, *action, *seen))
            moves.append(choices)
        columns = np.array(rows, np.int64).reshape(-1, 9).T
        return _BettingLevel(
            betting=betting,
            lines=lines,
            moves=moves,
            actor=columns[0].astype(np.uint8),
            num_children=columns[1].astype(np.int32),
            shows=columns[2] > 0,
            won=columns[3],
            action=columns[4:6].astype(np.int16),
            seen=columns[6:].astype(np.int32),
            ids=ids,
        )

    def next(self, goes_on: BoolArray) -> _BettingLevel:
        """The level below the betting sequences selected by the mask `goes_on[b]`."""
        rows = np.nonzero(goes_on)[0].tolist()
        below = [self._after(self.lines[row], move) for row in rows for move in self.moves[row]]
        return _BettingLevel._of(self.betting, below, self.ids)

    def _after(self, line: _BettingLine, move: int) -> _BettingLine:
        state, is_second, _, _, seen = line
        if move == _CARD:
            after, played, action, folder = self.betting.second_round(state), _CARD, (-1, -1), -1
        else:
            played = self.betting.played(move, state)
            after = self.betting.after(move, state, is_second)
            action = (move, -1) if state.mover == 0 else (-1, move)
            folder = state.mover if played == FOLD else -1
        # The mover observes its action, the others its effect.
        keys = ((seen[0], action[0], played), (seen[1], action[1], played), (seen[2], -1, played))
        a, b, public = (
            ids_of_view.setdefault(key, len(ids_of_view) + 1)
            for ids_of_view, key in zip(self.ids, keys, strict=True)
        )
        return _BettingLine(after, is_second or move == _CARD, folder, action, (a, b, public))


@dataclasses.dataclass(frozen=True, kw_only=True)
class _BoardLevel:
    """A level of the public tree below each deal of private cards.

    Attributes:
      types: number of card types.
      betting: the betting sequences.
      parent: `[t]` row in the level above.
      line: `[t]` index of the betting sequence.
      card: `[t]` public card, -1 before it is dealt.
      dealt: `[t]` public card if it was the last move, otherwise -1.
      view: `[3, t]` ids of the observations of player 0, player 1 and the public except private cards;
        numbered through all levels.
      num_views: `[3, 1]` number of views so far.
    """

    types: int
    betting: _BettingLevel
    parent: IntArray
    line: IntArray
    card: IntArray
    dealt: IntArray
    view: IntArray
    num_views: IntArray

    @staticmethod
    def first(types: int, betting: _BettingLevel) -> _BoardLevel:
        """The start of the betting."""
        zero, none = np.zeros(1, np.int32), np.full(1, -1, np.int32)
        view, num_views = np.zeros((3, 1), np.int32), np.ones((3, 1), np.int32)
        return _BoardLevel(
            types=types,
            betting=betting,
            parent=zero,
            line=zero,
            card=none,
            dealt=none,
            view=view,
            num_views=num_views,
        )

    def next(self, goes_on: BoolArray) -> _BoardLevel:
        """The level below the rows selected by the mask `goes_on[t]`; empty after the last one."""
        above = self.betting
        deals = above.actor[self.line] == CHANCE
        line_goes_on = np.bincount(self.line[goes_on], minlength=len(above.lines)) > 0
        below = above.next(line_goes_on)
        num_below = above.num_children * line_goes_on
        first_child = np.cumsum(num_below, dtype=np.int32) - num_below
        count = np.where(deals, self.types, above.num_children[self.line]) * goes_on
        parent = np.repeat(np.arange(len(count), dtype=np.int32), count)
        nth = np.arange(len(parent), dtype=np.int32) - (np.cumsum(count) - count)[parent]
        deals = deals[parent]
        line = first_child[self.line][parent] + np.where(deals, 0, nth)
        card = np.where(deals, nth, self.card[parent])
        view = np.empty((3, len(parent)), np.int32)
        num_views = self.num_views.copy()
        for viewer, seen in enumerate(below.seen):
            view[viewer], num_new = dense_ids(seen[line] * (self.types + 1) + card)
            num_views[viewer] += num_new
        view += self.num_views
        return _BoardLevel(
            types=self.types,
            betting=below,
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
      copies: number of copies of each card.
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
    def of(rank: IntArray, copies: int) -> _Deals:
        """All deals of two cards from a deck with `copies` of each card."""
        deck = len(rank) * copies
        left = np.full((len(rank), len(rank)), copies) - np.eye(len(rank), dtype=np.int64)
        cards = np.stack(np.nonzero(left))
        chance = (left[cards[0], cards[1]] * (1.0 / (deck - 1))).astype(np.float64)
        return _Deals(rank=rank, copies=copies, deck=deck, cards=cards.astype(np.int32), chance=chance)

    @property
    def num_excluding(self) -> int:
        """Number of deals that leave no copy of a given card."""
        return {1: 2 * (len(self.rank) - 1), 2: 1}.get(self.copies, 0)

    # Both tables are as large as the level that deals the public card: computed after it is claimed.
    @functools.cached_property
    def left(self) -> IntArray:
        """`[d, types]` copies of each card left in the deck."""
        left = np.full((self.cards.shape[1], len(self.rank)), self.copies, np.int32)
        for card in self.cards:
            left[np.arange(len(left)), card] -= 1
        return left

    @functools.cached_property
    def ahead(self) -> IntArray:
        """`[d, types]` with this public card 1 if player 0 wins, -1 if player 1 wins, 0 for a split."""
        rank = self.rank[self.cards][:, :, None]
        strength = rank + len(self.rank) * (rank == self.rank)
        return np.sign(strength[0] - strength[1])

    def possible(self, card: IntArray) -> BoolArray:
        """`[d, t]` True if the deal leaves a copy of the public card in the deck (or it is -1, none)."""
        if (card < 0).all():
            return np.ones((len(self.chance), len(card)), np.bool_)
        return (self.left[:, card] > 0) | (card < 0)

    def cross(self, public: _BoardLevel, above: BoolArray, keep: BoolArray) -> HistoryLevel:
        """A level of the game: the product of deals and a level of the public tree.

        Args:
          public: the level of the public tree.
          above: `[d, t above]` mask of pairs in the level above.
          keep: `[d, t]` mask of pairs in this level.
        """
        lines, line, types = public.betting, public.line, len(self.rank)
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
        # Ids of the deals come first; public ids only have to differ from them.
        infostate = (1 + types + public.view[:2] * types)[:, node]
        infostate += self.cards[:, deal]
        return HistoryLevel(
            parent=row_above[deal, public.parent[node]],
            actor=lines.actor[line][node],
            action=action,
            chance=chance,
            returns=returns,
            infostate=infostate,
            public=(1 + types + public.view[2])[node],
        )
