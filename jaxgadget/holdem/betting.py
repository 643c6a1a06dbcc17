"""Bet menus and the public tree of a flop, turn or river. NumPy only.

Player 0 is out of position (oop) and acts first on every street, player 1 is in position (ip). Both have
the same stack behind. Players' chips are counted from the start of the spot.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from jaxgadget.games.game import ACTOR_BIT, CHANCE, TERMINAL
from jaxgadget.games.hands import PublicLevel, PublicNodes
from jaxgadget.games.sizes import ALL_IN, Chips, Geometric, Multiple, Size, check_sizes
from jaxgadget.holdem.cards import card_name
from jaxgadget.util.arguments import check_whole_number, is_finite_number
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray

MAX_NODES = 1 << 22
"""Maximum number of public nodes of a tree; smaller trees are limited by memory only (`solve_spots`)."""

MAX_STREET_NODES = 1 << 18
"""The same for a flop, whose tree has a single card for each deal."""

MAX_MOVES = 64
"""Maximum depth of a tree: compilation time grows with it."""

PLAYERS = ("oop", "ip")
"""Names of the players."""

_PASSIVE = ("fold", "check", "call")
_CLOSE = 1e-9
"""Relative tolerance, as a fraction of the stack, below which sizes are equal."""

_DIGITS = 4
"""Number of significant digits of geometric sizes, so that their names are short."""


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class BetMenu:
    """Bet and raise sizes of a player, on one street or on all.

    Sizes are given as a text, `"50%,2e,a"` (`jaxgadget.games.sizes` lists the notation), or as a tuple of
    numbers and objects of that module. A bet or raise is increased to the minimum that the rules allow: the
    spot's `min_bet`, and the last bet or raise of the street.

    Attributes:
      bets: sizes of bets: fractions of the pot, `ALL_IN`, `Chips` or `Geometric`.
      raises: sizes of raises: fractions of the pot after calling, in addition to the call, or the same kinds;
        `Multiple` of the opponent's bet.
      cap: maximum number of bets and raises of both players on a street; None for any number.
      add_all_in: add an all-in bet or raise if the remaining stack is at most this number of pots.
      force_all_in: make a bet or raise all-in if the remaining stack after a call is at most this number of
        pots.
      donks: sizes of the bets of the player out of position on a street after it called the other player's
        bet or raise to end the street before; `()` for none; None for `bets`.
      merge_close: merge close sizes: from the largest bet or raise on, of X pots, those of Y pots are removed
        if (1 + X) / (1 + Y) ≤ 1 + `merge_close`, as in postflop-solver and PioSOLVER; 0 for equal sizes only.
    """

    bets: tuple[Size, ...] | str = (0.5, 1.0, ALL_IN)
    raises: tuple[Size, ...] | str = (1.0, ALL_IN)
    cap: int | None = None
    add_all_in: float = 0.0
    force_all_in: float = 0.0
    donks: tuple[Size, ...] | str | None = None
    merge_close: float = 0.0

    def __post_init__(self) -> None:
        for name in ("bets", "raises", "donks"):
            sizes = getattr(self, name)
            if sizes is not None or name != "donks":
                object.__setattr__(self, name, check_sizes(sizes, name, raises=name == "raises"))
        if self.cap is not None:
            check_whole_number("cap", self.cap, 0)
        for name in ("add_all_in", "force_all_in", "merge_close"):
            pots = getattr(self, name)
            if not is_finite_number(pots) or pots < 0:
                raise ValueError(f"{name}={pots!r}: expected a number of pots >= 0")

    def __repr__(self) -> str:
        names = [field.name for field in dataclasses.fields(self)]
        for name, default in (("donks", None), ("merge_close", 0)):
            if getattr(self, name) == default:  # as in names of spots before it existed
                names.remove(name)
        return f"BetMenu({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"


class SpotBetting(NamedTuple):
    """Parameters of the betting.

    Attributes:
      pot: chips in the pot at the start.
      stack: remaining chips of each player.
      menus: menus of both players, for every street.
      min_bet: minimum size of a bet or raise in chips; an all-in may be smaller.
      removed: lines that are removed from the tree with everything below, as words without cards.
    """

    pot: float
    stack: float
    menus: tuple[tuple[BetMenu, BetMenu], ...]
    min_bet: float = 0.0
    removed: tuple[tuple[str, ...], ...] = ()


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
      is_donk: True if a bet of the acting player is a donk bet.
      removed: rest of the removed lines that begin with the actions so far.
    """

    actor: int
    street: int
    card: int = -1
    put_in: tuple[float, float] = (0.0, 0.0)
    start: float = 0.0
    last: float = 0.0
    num_bets: int = 0
    folded: int = -1
    is_donk: bool = False
    removed: tuple[tuple[str, ...], ...] = ()


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
      num_deals: number of cards that may be dealt first; more than a node has children where a single card
        stands for all.
    """

    tree: PublicNodes
    names: tuple[str, ...]
    put_in: FloatArray
    folded: IntArray
    card: IntArray
    pot: float
    num_deals: int

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

    def bet_size(self, child: int) -> float | None:
        """Size of the bet or raise that leads to a node: a share of the pot after calling, beyond the call.

        None after a fold, check, call or card.
        """
        parent = int(self.tree.parent[child])
        actor = int(self.tree.actor[parent])
        if actor not in ACTOR_BIT or self.action_name(child) in _PASSIVE:
            return None
        player = ACTOR_BIT.index(actor)
        other = float(self.put_in[parent, 1 - player])
        return (float(self.put_in[child, player]) - other) / (self.pot + 2 * other)

    def children(self, node: int) -> list[int]:
        """Children of a node."""
        first = int(self.tree.first_child[node])
        return list(range(first, first + int(self.tree.num_children[node])))

    def count_cards(self, node: int) -> int:
        """Number of cards that may be dealt at a node of chance."""
        dealt = 0
        while node:
            node = int(self.tree.parent[node])
            dealt += int(self.tree.actor[node]) == CHANCE
        return self.num_deals - dealt

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
        """Yields one row per descendant; a single row stands for all cards that may be dealt."""
        children, actor = self.children(node), int(self.tree.actor[node])
        for child in children[:1] if actor == CHANCE else children:
            if actor == CHANCE:
                count = self.count_cards(node)
                listed = f"{self.action_name(child)}, or another of {count} cards"
                text = listed if len(children) == count else f"any of {count} cards"
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


def build_betting(
    betting: SpotBetting, cards: Sequence[int] = (), num_deals: int | None = None
) -> BettingTree:
    """Builds the public tree.

    Args:
      betting: pot, stack and menus, with one street for a river, two for a turn and three for a flop.
      cards: cards that may be dealt between the streets, ascending; a single one stands for all where the
        betting is the same after each.
      num_deals: number of cards that may be dealt first; by default that of `cards`.

    Raises:
      ValueError: if there is no decision, a removed line is not in the tree, or the tree is too large or too
        deep.
    """
    _check_removed(betting, cards)
    count_nodes(betting, [len(cards)] * (len(betting.menus) - 1))
    states, parents, labels = [_start(betting)], [0], [""]
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
        num_deals=len(cards) if num_deals is None else num_deals,
    )


def count_nodes(betting: SpotBetting, num_cards: Sequence[int] = ()) -> list[int]:
    """Counts the public nodes of every street without building them.

    Args:
      betting: as in `build_betting`.
      num_cards: number of cards of each deal.

    Raises:
      ValueError: if the tree is too large or too deep.
    """
    states, depth = [_start(betting)], 0
    most = MAX_STREET_NODES if len(betting.menus) == 3 else MAX_NODES
    counts = [0] * len(betting.menus)
    weights = [math.prod(num_cards[:street]) for street in range(len(counts))]
    while states:
        depth += 1
        for state in states:
            counts[state.street] += weights[state.street]
        if depth > MAX_MOVES + 1:
            raise ValueError(
                f"menus: more than {MAX_MOVES} consecutive moves: expected larger raises, or a cap on raises"
            )
        if sum(counts) > most:
            raise ValueError(
                f"menus: more than {most:,} public nodes: expected fewer sizes, or a cap on raises"
            )
        states = [below for state in states for _, below in _moves(betting, [0], state)]
    return counts


def _is_bet(label: str) -> bool:
    return label.startswith(("bet ", "raise to ", "all-in "))


def _amount(label: str) -> float:
    return float(label.rsplit(" ", 1)[1])


_OVER, _DEALS = 2, 3  # values of `actor` if no player acts
_ACTOR_BITS = (*ACTOR_BIT, TERMINAL, CHANCE)


def _start(betting: SpotBetting) -> _Standing:
    return _Standing(actor=0, street=0, removed=betting.removed)


def _moves(betting: SpotBetting, cards: Sequence[int], state: _Standing) -> Iterator[tuple[str, _Standing]]:
    """Legal moves with their names, without removed ones."""
    moves = _all_moves(betting, cards, state)
    return moves if not state.removed or state.actor == _DEALS else _without_removed(state, moves)


def _without_removed(
    state: _Standing, moves: Iterator[tuple[str, _Standing]]
) -> Iterator[tuple[str, _Standing]]:
    for label, below in moves:
        rest = tuple(line[1:] for line in state.removed if line[0] == label)
        if () not in rest:
            yield label, below._replace(removed=rest)


def _all_moves(
    betting: SpotBetting, cards: Sequence[int], state: _Standing
) -> Iterator[tuple[str, _Standing]]:
    """Moves that the menus allow, with their names."""
    actor = state.actor
    if actor == _OVER:
        return
    if actor == _DEALS:
        street, actor = state.street + 1, 0
        if _is_all_in(betting, min(state.put_in)):
            actor = _OVER if street == len(betting.menus) - 1 else _DEALS
        for card in cards:
            below = _Standing(
                actor=actor,
                street=street,
                card=card,
                put_in=state.put_in,
                start=state.put_in[0],
                is_donk=state.is_donk,
                removed=state.removed,
            )
            yield card_name(card), below
        return
    own, other = state.put_in[actor], state.put_in[1 - actor]
    if other > own:
        yield "fold", state._replace(actor=_OVER, folded=actor)
        yield "call", _close(betting, state._replace(put_in=(other, other), is_donk=actor == 0))
    elif actor == 0:
        yield "check", state._replace(actor=1, is_donk=False)
    else:
        yield "check", _close(betting, state)
    for target in _targets(betting, state):
        put_in = (target, other) if actor == 0 else (other, target)
        word = "all-in" if _is_all_in(betting, target) else "raise to" if other > own else "bet"
        label = f"{word} {target - state.start:.12g}"  # chips of this street
        yield (
            label,
            state._replace(
                actor=1 - actor,
                put_in=put_in,
                last=target - other,
                num_bets=state.num_bets + 1,
                is_donk=False,
            ),
        )


def _close(betting: SpotBetting, state: _Standing) -> _Standing:
    """State after the end of a street's betting."""
    return state._replace(actor=_OVER if state.street == len(betting.menus) - 1 else _DEALS)


def _check_removed(betting: SpotBetting, cards: Sequence[int]) -> None:
    """Raises ValueError if a removed line is not in the tree without the others, or no action is left."""
    for line in betting.removed:
        others = tuple(other for other in betting.removed if other != line)
        state = _start(betting)._replace(removed=others)
        for number, word in enumerate(line, 1):
            while state.actor == _DEALS:
                ((_, state),) = _moves(betting, cards[:1], state)
            below = dict(_moves(betting, cards, state))
            problem = ""
            if word not in below:
                expected = ", ".join(below) if below else "nothing, the hand is over"
                problem = f"{word!r} is not in the tree: expected one of {expected}; lines have no cards"
            elif number == len(line) and len(below) == 1:
                problem = f"{word!r} is the only action; remove the action before it instead"
            if problem:
                where = f"after {', '.join(line[: number - 1])!r}" if number > 1 else "at the start"
                raise ValueError(f"remove={', '.join(line)!r}: {where} {problem}")
            state = below[word]


def _is_all_in(betting: SpotBetting, put_in: float) -> bool:
    return put_in >= betting.stack * (1 - _CLOSE)


def _targets(betting: SpotBetting, state: _Standing) -> list[float]:
    """Chips of the acting player after each legal bet or raise, ascending."""
    menu = betting.menus[state.street][state.actor]
    own, other = state.put_in[state.actor], state.put_in[1 - state.actor]
    if _is_all_in(betting, other) or (menu.cap is not None and state.num_bets >= menu.cap):
        return []
    called = betting.pot + 2 * other
    bets = menu.donks if state.is_donk and menu.donks is not None else menu.bets
    sizes: set[Size] = set(menu.raises if other > own else bets)  # pyright: ignore[reportAssignmentType]
    if betting.stack - other <= menu.add_all_in * called:
        sizes.add(ALL_IN)
    targets: list[float] = []
    for size in sizes:
        target = other + max(_beyond_call(betting, state, size), state.last, betting.min_bet)
        left = betting.stack - target
        targets.append(
            betting.stack if left <= menu.force_all_in * (called + 2 * (target - other)) else target
        )
    kept: list[float] = []
    for target in sorted(betting.stack if _is_all_in(betting, target) else target for target in targets)[
        ::-1
    ]:
        larger = kept[-1] if kept else math.inf
        share, larger_share = ((chips - other) / called for chips in (target, larger))
        is_close = 1 + larger_share <= (1 + menu.merge_close) * (1 + share) * (1 + _CLOSE)
        if larger - target > _CLOSE * betting.stack and not is_close:
            kept.append(target)
    return kept[::-1]


def _beyond_call(betting: SpotBetting, state: _Standing, size: Size) -> float:
    """Chips of a bet, or of a raise beyond the call."""
    other = state.put_in[1 - state.actor]
    called = betting.pot + 2 * other
    match size:
        case Multiple(factor):
            return (factor - 1) * (other - state.start)
        case Chips(chips):
            return chips
        case Geometric(streets, most):
            left = len(betting.menus) - state.street if streets is None else streets
            left = max(left - max(state.num_bets - 1, 0), 1)
            # After a called bet of this share of the pot on every street, the pot is `called + 2 × stack`.
            share = ((1 + 2 * (betting.stack - other) / called) ** (1 / left) - 1) / 2
            if share > most:
                return most * called
            return math.inf if left == 1 else float(f"{share * called:.{_DIGITS}g}")
        case _:
            return size * called
