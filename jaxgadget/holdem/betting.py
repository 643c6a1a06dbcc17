"""Bet menus and the public tree of a river or turn. NumPy only.

Player 0 is out of position (oop) and acts first on every street, player 1 is in position (ip). Both have
the same stack behind. Players' chips are counted from the start of the spot.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxgadget.games.game import ACTOR_BIT, CHANCE, TERMINAL
from jaxgadget.games.hands import PublicLevel, PublicNodes
from jaxgadget.holdem.cards import card_name
from jaxgadget.util.arguments import check_whole_number, is_finite_number, read_number
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray

ALL_IN = math.inf
"""The size of an all-in bet."""

MAX_SIZE = 20.0
"""Maximum size of a bet or raise, as a fraction of the pot; larger numbers are probably percentages."""

MAX_NODES = 1 << 22
"""Maximum number of public nodes of a tree; smaller trees are limited by memory only (`solve_spots`)."""

MAX_MOVES = 64
"""Maximum depth of a tree: compilation time grows with it."""

PLAYERS = ("oop", "ip")
"""Names of the players."""

_PASSIVE = ("fold", "check", "call")
_CLOSE = 1e-9
"""Relative tolerance, as a fraction of the stack, below which sizes are equal."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BetMenu:
    """Bet and raise sizes of a player.

    Attributes:
      bets: sizes of bets as fractions of the pot; `ALL_IN` for all-in.
      raises: sizes of raises as fractions of the pot after calling, in addition to the call. A raise is
        increased to the last bet or raise of the street, the minimum that the rules allow.
      cap: maximum number of bets and raises of both players on a street; None for any number.
      add_all_in: add an all-in bet or raise if the remaining stack is at most this number of pots.
      force_all_in: make a bet or raise all-in if the remaining stack after a call is at most this number of
        pots.
    """

    bets: tuple[float, ...] = (0.5, 1.0, ALL_IN)
    raises: tuple[float, ...] = (1.0, ALL_IN)
    cap: int | None = None
    add_all_in: float = 0.0
    force_all_in: float = 0.0

    def __post_init__(self) -> None:
        for name in ("bets", "raises"):
            sizes: Any = getattr(self, name)
            if isinstance(sizes, str) or not isinstance(sizes, Iterable):
                raise ValueError(f"{name}={sizes!r}: expected fractions of the pot, such as (0.5, 1.0)")
            for size in sizes:
                if not (is_finite_number(size) or size == ALL_IN) or size <= 0:
                    raise ValueError(
                        f"{name}={sizes!r}: {size!r} is not a size: expected fractions of the pot > 0"
                    )
                if MAX_SIZE < size < ALL_IN:
                    raise ValueError(
                        f"{name}={sizes!r}: {size!r} is {size:.0%} of the pot; expected fractions of the pot "
                        f"up to {MAX_SIZE:g}, such as 0.5 for 50%, or ALL_IN"
                    )
            object.__setattr__(self, name, tuple(sizes))
        if self.cap is not None:
            check_whole_number("cap", self.cap, 0)
        for name in ("add_all_in", "force_all_in"):
            pots = getattr(self, name)
            if not is_finite_number(pots) or pots < 0:
                raise ValueError(f"{name}={pots!r}: expected a number of pots >= 0")


def parse_sizes(text: str, name: str = "bets") -> tuple[float, ...]:
    """Parses sizes such as `50%,100%,a`; an empty text yields no sizes.

    Args:
      text: percentages of the pot, `a` for all-in.
      name: name of the argument, for errors.

    Raises:
      ValueError: if an item is not a size.
    """
    sizes: list[float] = []
    for part in text.split(",") if text.strip() else ():
        size = part.strip()
        share = read_number(size[:-1]) if size.endswith("%") else None
        if size not in ("a", "allin", "all-in") and (share is None or share <= 0):
            raise ValueError(
                f"{name}={text!r}: {size!r} is not a size: expected a percentage such as 50%, or a for all-in"
            )
        sizes.append(ALL_IN if share is None else share / 100)
    return tuple(sizes)


class SpotBetting(NamedTuple):
    """Parameters of the betting.

    Attributes:
      pot: chips in the pot at the start.
      stack: remaining chips of each player.
      menus: menus of both players, for every street.
    """

    pot: float
    stack: float
    menus: tuple[tuple[BetMenu, BetMenu], ...]


class _Standing(NamedTuple):
    """State of the betting.

    Attributes:
      actor: acting player, or `_OVER` or `_DEALS`.
      street: index of the street, from 0.
      card: the dealt card, -1 before the deal.
      put_in: chips of both players in the pot since the start of the spot.
      start: chips of each player at the start of the street.
      last: size of the last bet or raise of the street.
      num_bets: number of bets and raises of the street.
      folded: the player that folded, -1 for none.
    """

    actor: int
    street: int
    card: int = -1
    put_in: tuple[float, float] = (0.0, 0.0)
    start: float = 0.0
    last: float = 0.0
    num_bets: int = 0
    folded: int = -1


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class BettingTree:
    """The public tree of a spot; `print` displays it.

    Attributes:
      tree: the nodes; actions are indices of names, chance outcomes are cards.
      names: names of the players' actions.
      put_in: `[n, 2]` chips of both players in the pot since the start.
      folded: `[n]` the player that folded, -1 for none.
      card: `[n]` the dealt card, -1 before the deal.
      pot: chips in the pot at the start.
    """

    tree: PublicNodes
    names: tuple[str, ...]
    put_in: FloatArray
    folded: IntArray
    card: IntArray
    pot: float

    @property
    def shows(self) -> BoolArray:
        """Mask `[n]` of showdowns."""
        return (self.tree.actor == TERMINAL) & (self.folded < 0)

    @functools.cached_property
    def shape(self) -> bytes:
        """Key that is equal for trees that only differ in chips, names and cards."""
        parts = (self.tree.parent, self.tree.actor, self.folded, self.card >= 0)
        return b"".join(part.astype(np.int32).tobytes() for part in parts)

    def action_name(self, node: int) -> str:
        """Name of the action, or card, that leads to a node."""
        if self.tree.actor[self.tree.parent[node]] == CHANCE:
            return card_name(int(self.card[node]))
        return self.names[self.tree.action[node]]

    def children(self, node: int) -> list[int]:
        """Children of a node."""
        first = int(self.tree.first_child[node])
        return list(range(first, first + int(self.tree.num_children[node])))

    def line(self, node: int) -> str:
        """Actions on the path to a node, such as `check, bet 100, call`."""
        words: list[str] = []
        while node:
            words.append(self.action_name(node))
            node = int(self.tree.parent[node])
        return ", ".join(reversed(words))

    def find(self, line: str) -> int:
        """The node after a line such as `check, bet 100`; the root for an empty line.

        Raises:
          ValueError: if an action of the line is not legal; the message lists the legal actions.
        """
        node = 0
        for word in (part.strip() for part in line.split(",") if line.strip()):
            names = {self.action_name(child): child for child in self.children(node)}
            if word not in names:
                position = f"after {self.line(node)!r}" if node else "at the start"
                raise ValueError(
                    f"line={line!r}: {word!r} is not legal {position}: "
                    f"expected one of {', '.join(names) or 'nothing, the hand is over'}"
                )
            node = names[word]
        return node

    def actor(self, line: str = "") -> int:
        """Acting player after a line, 0 or 1.

        Raises:
          ValueError: if no player acts there; if a card is dealt next, the message suggests a line with a
            card.
        """
        node = self.find(line)
        actor = int(self.tree.actor[node])
        if actor not in ACTOR_BIT:
            expected = "expected a line followed by a decision"
            if actor == CHANCE:
                dealt = self.children(node)[0]
                if self.tree.actor[dealt] in ACTOR_BIT:
                    expected = f"a card is dealt next; append a card: {self.line(dealt)!r}"
            raise ValueError(f"line={line!r}: no player acts there; {expected}")
        return ACTOR_BIT.index(actor)

    def __repr__(self) -> str:
        return f"<BettingTree: {self.tree!r}>"

    def __str__(self) -> str:
        return "\n".join(self._lines(0, 0))

    def _lines(self, node: int, depth: int) -> Iterator[str]:
        """Yields one row per descendant; only the first of several cards is shown."""
        children, actor = self.children(node), int(self.tree.actor[node])
        for child in children[:1] if actor == CHANCE else children:
            if actor == CHANCE:
                text = f"{self.action_name(child)}, or another of {len(children)} cards"
            else:
                text = f"{PLAYERS[ACTOR_BIT.index(actor)]} {self.action_name(child)}"
            yield "  " * depth + ": ".join(filter(None, (text, self.describe_end(child))))
            yield from self._lines(child, depth + 1)

    def describe_end(self, node: int) -> str:
        """Description of a terminal node, such as `showdown, 50 more each`; empty for other nodes."""
        if self.tree.actor[node] != TERMINAL:
            return ""
        folded = int(self.folded[node])
        result = "showdown" if folded < 0 else f"{PLAYERS[1 - folded]} wins"
        return f"{result}, {self.put_in[node].min():.6g} more each"


def build_betting(betting: SpotBetting, cards: Sequence[int] = ()) -> BettingTree:
    """Builds the public tree.

    Args:
      betting: pot, stack and menus, with one street for a river and two for a turn.
      cards: cards that may be dealt between the streets, ascending.

    Raises:
      ValueError: if there is no decision, or the tree is too large or too deep.
    """
    count_nodes(betting, cards)
    states, parents, labels = [_Standing(actor=0, street=0)], [0], [""]
    levels: list[tuple[list[_Standing], list[int], list[str]]] = []
    while states:
        levels.append((states, parents, labels))
        below = [(row, *move) for row, state in enumerate(states) for move in _moves(betting, cards, state)]
        parents = [row for row, _, _ in below]
        labels, states = [label for _, label, _ in below], [state for _, _, state in below]
    every = [state for states, _, _ in levels for state in states]
    named = sorted({(_amount(label), label) for _, _, labels in levels for label in labels if _is_bet(label)})
    names = (*_PASSIVE, *(label for _, label in named))
    action_of = {name: k for k, name in enumerate(names)}
    tree = PublicNodes.of(
        PublicLevel(
            np.array(parents),
            np.array([_ACTOR_BITS[state.actor] for state in states], np.uint8),
            np.array([action_of.get(label, state.card) for label, state in zip(labels, states, strict=True)]),
        )
        for states, parents, labels in levels
    )
    if not ((tree.num_children > 1) & (tree.actor != CHANCE)).any():
        raise ValueError(
            "menus have no bet sizes, so the tree has no decision; expected a size for at least one player"
        )
    return BettingTree(
        tree=tree,
        names=names,
        put_in=np.array([state.put_in for state in every]),
        folded=np.array([state.folded for state in every]),
        card=np.array([state.card for state in every]),
        pot=betting.pot,
    )


def count_nodes(betting: SpotBetting, cards: Sequence[int] = ()) -> int:
    """Counts the public nodes without building them: the nodes below one card, times the number of cards.

    Args:
      betting: as in `build_betting`.
      cards: as in `build_betting`.

    Raises:
      ValueError: if the tree is too large or too deep.
    """
    states = [(_Standing(actor=0, street=0), 1)]
    total = depth = 0
    while states:
        total, depth = total + sum(count for _, count in states), depth + 1
        if depth > MAX_MOVES + 1:
            raise ValueError(
                f"menus: more than {MAX_MOVES} consecutive moves: expected larger raises, or a cap on raises"
            )
        if total > MAX_NODES:
            raise ValueError(
                f"menus: more than {MAX_NODES:,} public nodes: expected fewer sizes, or a cap on raises"
            )
        states = [
            (below, count * (len(cards) if state.actor == _DEALS else 1))
            for state, count in states
            for _, below in _moves(betting, cards[:1], state)
        ]
    return total


def _is_bet(label: str) -> bool:
    return label.startswith(("bet ", "raise to ", "all-in "))


def _amount(label: str) -> float:
    return float(label.rsplit(" ", 1)[1])


_OVER, _DEALS = 2, 3  # values of `actor` if no player acts
_ACTOR_BITS = (*ACTOR_BIT, TERMINAL, CHANCE)


def _moves(betting: SpotBetting, cards: Sequence[int], state: _Standing) -> Iterator[tuple[str, _Standing]]:
    """Legal moves with their names."""
    actor = state.actor
    if actor == _OVER:
        return
    if actor == _DEALS:
        over = _is_all_in(betting, min(state.put_in))
        for card in cards:
            actor, start = _OVER if over else 0, state.put_in[0]
            yield card_name(card), _Standing(actor, state.street + 1, card, state.put_in, start)
        return
    own, other = state.put_in[actor], state.put_in[1 - actor]
    if other > own:
        yield "fold", state._replace(actor=_OVER, folded=actor)
        yield "call", _close(betting, state._replace(put_in=(other, other)))
    elif actor == 0:
        yield "check", state._replace(actor=1)
    else:
        yield "check", _close(betting, state)
    for target in _targets(betting, state):
        put_in = (target, other) if actor == 0 else (other, target)
        word = "all-in" if _is_all_in(betting, target) else "raise to" if other > own else "bet"
        label = f"{word} {target - state.start:.12g}"  # chips of this street
        yield (
            label,
            state._replace(actor=1 - actor, put_in=put_in, last=target - other, num_bets=state.num_bets + 1),
        )


def _close(betting: SpotBetting, state: _Standing) -> _Standing:
    """State after the end of a street's betting."""
    return state._replace(actor=_OVER if state.street == len(betting.menus) - 1 else _DEALS)


def _is_all_in(betting: SpotBetting, put_in: float) -> bool:
    return put_in >= betting.stack * (1 - _CLOSE)


def _targets(betting: SpotBetting, state: _Standing) -> list[float]:
    """Chips of the acting player after each legal bet or raise, ascending."""
    menu = betting.menus[state.street][state.actor]
    own, other = state.put_in[state.actor], state.put_in[1 - state.actor]
    if _is_all_in(betting, other) or (menu.cap is not None and state.num_bets >= menu.cap):
        return []
    called = betting.pot + 2 * other
    sizes = set(menu.raises if other > own else menu.bets)
    if betting.stack - other <= menu.add_all_in * called:
        sizes.add(ALL_IN)
    targets: list[float] = []
    for size in sizes:
        target = other + max(size * called, state.last)
        left = betting.stack - target
        targets.append(
            betting.stack if left <= menu.force_all_in * (called + 2 * (target - other)) else target
        )
    targets = sorted(betting.stack if _is_all_in(betting, target) else target for target in targets)
    return [
        target
        for before, target in itertools.pairwise([-math.inf, *targets])
        if target - before > _CLOSE * betting.stack
    ]
