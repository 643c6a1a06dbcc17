"""Bet menus, and the public tree of a river or turn that they make. NumPy only.

Player 0 is out of position (oop) and acts first on every street, player 1 is in position (ip). Both have
the same stack behind. Chips that a player puts in are counted from the start of the spot.
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
from jaxgadget.games.hands import PublicLevel, PublicTree
from jaxgadget.poker.cards import card_name
from jaxgadget.util.arguments import check_whole_number, is_finite_number, read_number
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray

ALL_IN = math.inf
"""The size that is all a player has left."""

MOST_NODES = 1 << 18
"""Public nodes of a tree, at most."""

MOST_MOVES = 64
"""Moves in a row, at most: every one of them is compiled for."""

PLAYERS = ("oop", "ip")
"""What the players are called."""

_PASSIVE = ("fold", "check", "call")
_CLOSE = 1e-9
"""Sizes that differ by less, as a share of the stack, are one."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BetMenu:
    """What a player may bet and raise.

    Attributes:
      bets: sizes of bets as shares of the pot, 1 for all of it; `ALL_IN` for all-in.
      raises: sizes of raises as shares of the pot after calling, on top of the call. A raise smaller than the
        last bet or raise is as large as that one, the least that the rules allow.
      cap: bets and raises of both players on a street, at most; None for any number.
      add_all_in: all-in may be chosen as well where what is left is at most so many pots.
      force_all_in: a bet or raise is all-in where, once it is called, what is left is at most so many pots.
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
                raise ValueError(f"{name}={sizes!r}: expected shares of the pot, such as (0.5, 1.0)")
            for size in sizes:
                if not (is_finite_number(size) or size == ALL_IN) or size <= 0:
                    raise ValueError(f"{name}={sizes!r}: {size!r} is no size: expected shares of the pot > 0")
            object.__setattr__(self, name, tuple(sizes))
        if self.cap is not None:
            check_whole_number("cap", self.cap, 0)
        for name in ("add_all_in", "force_all_in"):
            pots = getattr(self, name)
            if not is_finite_number(pots) or pots < 0:
                raise ValueError(f"{name}={pots!r}: expected a number of pots >= 0")


def parse_sizes(text: str, name: str = "bets") -> tuple[float, ...]:
    """Sizes of a text such as `50%,100%,a`; an empty one is no size at all.

    Args:
      text: shares of the pot, `a` for all-in.
      name: of the argument, for messages.

    Raises:
      ValueError: naming what is no size.
    """
    sizes: list[float] = []
    for part in text.split(",") if text.strip() else ():
        size = part.strip()
        share = read_number(size[:-1]) if size.endswith("%") else None
        if size not in ("a", "allin", "all-in") and (share is None or share <= 0):
            raise ValueError(f"{name}={text!r}: {size!r} is no size: expected such as 50%, or a for all-in")
        sizes.append(ALL_IN if share is None else share / 100)
    return tuple(sizes)


class SpotBetting(NamedTuple):
    """What the betting depends on.

    Attributes:
      pot: chips in the middle at the start.
      stack: what each player has left.
      menus: of both players, for every street that is played.
    """

    pot: float
    stack: float
    menus: tuple[tuple[BetMenu, BetMenu], ...]


class _Standing(NamedTuple):
    """Where the betting stands.

    Attributes:
      actor: who acts, or `_OVER` or `_DEALS`.
      street: from 0.
      card: what chance has shown, -1 before.
      put_in: both players' chips.
      start: what both had put in when the street began.
      last: size of the last bet or raise of the street.
      num_bets: how many there were.
      folded: who folded, or -1.
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
    """The public tree of a spot; printed, it is what the menus made.

    Attributes:
      tree: the nodes; an action is the number of its name, a card that chance shows is the card.
      names: what the players' actions are called.
      put_in: `[n, 2]` what both players have put in.
      folded: `[n]` who folded, -1 if nobody did.
      card: `[n]` the card that chance has shown, -1 before.
    """

    tree: PublicTree
    names: tuple[str, ...]
    put_in: FloatArray
    folded: IntArray
    card: IntArray

    @property
    def shows(self) -> BoolArray:
        """`[n]` where hands are shown."""
        return (self.tree.actor == TERMINAL) & (self.folded < 0)

    @functools.cached_property
    def shape(self) -> bytes:
        """Equal for trees that differ in nothing but chips, names and cards."""
        parts = (self.tree.parent, self.tree.actor, self.folded, self.card >= 0)
        return b"".join(part.astype(np.int32).tobytes() for part in parts)

    def action_name(self, node: int) -> str:
        """What was done, or shown, to come to a node."""
        if self.tree.actor[self.tree.parent[node]] == CHANCE:
            return card_name(int(self.card[node]))
        return self.names[self.tree.action[node]]

    def children(self, node: int) -> list[int]:
        """The nodes right below."""
        first = int(self.tree.first_child[node])
        return list(range(first, first + int(self.tree.num_children[node])))

    def line(self, node: int) -> str:
        """What was done on the way to a node, such as `check, bet 100, call`."""
        words: list[str] = []
        while node:
            words.append(self.action_name(node))
            node = int(self.tree.parent[node])
        return ", ".join(reversed(words))

    def find(self, line: str) -> int:
        """The node that a line such as `check, bet 100` leads to; an empty one is the first.

        Raises:
          ValueError: naming the word that nobody can do there, and what can be done.
        """
        node = 0
        for word in (part.strip() for part in line.split(",") if line.strip()):
            names = {self.action_name(child): child for child in self.children(node)}
            if word not in names:
                where = f"after {self.line(node)!r}" if node else "at the start"
                raise ValueError(
                    f"line={line!r}: {word!r} is not to be done {where}: "
                    f"expected one of {', '.join(names) or 'nothing, it is over'}"
                )
            node = names[word]
        return node

    def actor(self, line: str = "") -> int:
        """Who acts after a line, 0 or 1.

        Raises:
          ValueError: if nobody does; where a card is dealt next and somebody acts after it, with such a line.
        """
        node = self.find(line)
        actor = int(self.tree.actor[node])
        if actor not in ACTOR_BIT:
            expected = "expected a line after which a player does"
            if actor == CHANCE:
                dealt = self.children(node)[0]
                if self.tree.actor[dealt] in ACTOR_BIT:
                    expected = f"a card is dealt next; append a card: {self.line(dealt)!r}"
            raise ValueError(f"line={line!r}: nobody acts there; {expected}")
        return ACTOR_BIT.index(actor)

    def __repr__(self) -> str:
        return f"<BettingTree: {self.tree!r}>"

    def __str__(self) -> str:
        return "\n".join(self._lines(0, 0))

    def _lines(self, node: int, depth: int) -> Iterator[str]:
        """A row a node below; of the cards that chance may show the first stands for all."""
        children, actor = self.children(node), int(self.tree.actor[node])
        for child in children[:1] if actor == CHANCE else children:
            if actor == CHANCE:
                text = f"{self.action_name(child)}, or another of {len(children)} cards"
            else:
                text = f"{PLAYERS[ACTOR_BIT.index(actor)]} {self.action_name(child)}"
            yield "  " * depth + ": ".join(filter(None, (text, self.describe_end(child))))
            yield from self._lines(child, depth + 1)

    def describe_end(self, node: int) -> str:
        """What is said of a node where the game is over, such as `showdown, 50 more each`; else nothing."""
        if self.tree.actor[node] != TERMINAL:
            return ""
        folded = int(self.folded[node])
        what = "showdown" if folded < 0 else f"{PLAYERS[1 - folded]} wins"
        return f"{what}, {self.put_in[node].min():.6g} more each"


def build_betting(betting: SpotBetting, cards: Sequence[int] = ()) -> BettingTree:
    """All that may happen in public.

    Args:
      betting: pot, stack and menus, of one street for a river and of two for a turn.
      cards: those that chance may show between the streets, ascending.

    Raises:
      ValueError: if nobody has a choice, or the tree is too large or too deep.
    """
    states, parents, labels = [_Standing(actor=0, street=0)], [0], [""]
    levels: list[tuple[list[_Standing], list[int], list[str]]] = []
    total = 0
    while states:
        levels.append((states, parents, labels))
        total += len(states)
        if len(levels) > MOST_MOVES + 1:
            raise ValueError(
                f"menus: more than {MOST_MOVES} moves in a row: expected larger raises, or a cap on raises"
            )
        if total > MOST_NODES:
            raise ValueError(
                f"menus: more than {MOST_NODES:,} public nodes: expected fewer sizes, or a cap on raises"
            )
        below = [(row, *move) for row, state in enumerate(states) for move in _moves(betting, cards, state)]
        parents = [row for row, _, _ in below]
        labels, states = [label for _, label, _ in below], [state for _, _, state in below]
    every = [state for states, _, _ in levels for state in states]
    named = sorted({(_amount(label), label) for _, _, labels in levels for label in labels if _is_bet(label)})
    names = (*_PASSIVE, *(label for _, label in named))
    number = {name: place for place, name in enumerate(names)}
    tree = PublicTree.of(
        PublicLevel(
            np.array(parents),
            np.array([_ACTOR_BITS[state.actor] for state in states], np.uint8),
            np.array([number.get(label, state.card) for label, state in zip(labels, states, strict=True)]),
        )
        for states, parents, labels in levels
    )
    if not ((tree.num_children > 1) & (tree.actor != CHANCE)).any():
        raise ValueError(
            "menus leave no action: nobody may bet, so hands are shown at once; expected a size for someone"
        )
    return BettingTree(
        tree=tree,
        names=names,
        put_in=np.array([state.put_in for state in every]),
        folded=np.array([state.folded for state in every]),
        card=np.array([state.card for state in every]),
    )


def _is_bet(label: str) -> bool:
    return label.startswith(("bet ", "raise to ", "all-in "))


def _amount(label: str) -> float:
    return float(label.rsplit(" ", 1)[1])


_OVER, _DEALS = 2, 3  # instead of who acts
_ACTOR_BITS = (*ACTOR_BIT, TERMINAL, CHANCE)


def _moves(betting: SpotBetting, cards: Sequence[int], state: _Standing) -> Iterator[tuple[str, _Standing]]:
    """What may follow, and what it is called."""
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
        label = f"{word} {target - state.start:.12g}"  # what is put in on this street
        yield (
            label,
            state._replace(actor=1 - actor, put_in=put_in, last=target - other, num_bets=state.num_bets + 1),
        )


def _close(betting: SpotBetting, state: _Standing) -> _Standing:
    """The betting of a street is over."""
    return state._replace(actor=_OVER if state.street == len(betting.menus) - 1 else _DEALS)


def _is_all_in(betting: SpotBetting, put_in: float) -> bool:
    return put_in >= betting.stack * (1 - _CLOSE)


def _targets(betting: SpotBetting, state: _Standing) -> list[float]:
    """What the player who acts may have put in after a bet or raise, ascending."""
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
