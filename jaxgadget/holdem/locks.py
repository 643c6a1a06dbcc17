"""Node locking: strategies that are fixed at nodes of a spot, while everything else is solved."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jaxgadget.games.game import ACTOR_BIT, CHANCE
from jaxgadget.holdem.betting import BettingTree
from jaxgadget.holdem.cards import HANDS, RANKS, SUITS, card_name, parse_cards
from jaxgadget.holdem.ranges import HandRange
from jaxgadget.holdem.spots import Spot
from jaxgadget.holdem.strategies import action_nodes
from jaxgadget.policy.policy import ROW_TOLERANCE
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.digest import digest
from jaxgadget.util.files import check_regular


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Lock:
    """A fixed strategy of the player that acts at a node, with all hands or some.

    Attributes:
      line: actions that lead to the node, such as `check, bet 100`; the start for an empty one. Where a card
        is dealt, the line may name it, as in `check, check, Ah, bet 100`; if it does not, the strategy is
        locked after every card.
      strategy: dictionary from each action to its probability: a number, or `[H]` with each hand that is left
        on the board, or on the turn that a line of a flop names. Omitted actions have probability 0.
      hands: the hands with which the strategy is locked, in the notation of ranges or as a `HandRange`; the
        other hands are free, unless another lock has them. None for all hands.
    """

    line: str
    strategy: Mapping[str, float | FloatArray]
    hands: str | HandRange | None = None

    def __post_init__(self) -> None:
        for name in ("line", "strategy", "hands"):
            expected = {"line": (str,), "strategy": (Mapping,), "hands": (str, HandRange, type(None))}[name]
            if not isinstance(getattr(self, name), expected):
                raise ValueError(f"{name}={getattr(self, name)!r}: expected {_EXPECTED[name]}")

    def __repr__(self) -> str:
        shown = {
            action: value if isinstance(value, int | float) else "by hand"
            for action, value in self.strategy.items()
        }
        hands = "" if self.hands is None else f", hands={str(self.hands)!r}"
        return f"Lock(line={self.line!r}, strategy={shown}{hands})"


_EXPECTED = {
    "line": "actions such as 'check, bet 100'",
    "strategy": "a dictionary such as {'fold': 0.5, 'call': 0.5}",
    "hands": "a range such as 'QQ+,AKs', or none for all hands",
}


Cards = tuple[int, ...]
"""Cards that were dealt before a node of a flop's `street_betting`, -1 for any; empty on other spots."""

Fixed = dict[Cards, dict[int, FloatArray]]
"""A player's fixed probabilities `[H]` of actions, by cards and by the public node after each action."""


class Locked(NamedTuple):
    """The locks of a spot.

    Attributes:
      fixed: both players' fixed probabilities; NaN with hands that are free. After the same cards no hand is
        locked twice.
    """

    fixed: tuple[Fixed, Fixed]

    def matching(self, player: int, cards: Cards) -> tuple[Cards, ...]:
        """The keys of a player's fixed probabilities that hold after some cards."""
        keys = itertools.product(*((card, -1) for card in cards))
        return tuple(key for key in keys if key in self.fixed[player])

    def floors(
        self, spot: Spot, player: int, keys: Sequence[Cards] = ((),), nodes: IntArray | None = None
    ) -> FloatArray:
        """`[C, H]` floors of a player's actions: fixed probabilities, or 0.

        Args:
          spot: the spot.
          player: the player.
          keys: keys of the fixed probabilities, all of which hold.
          nodes: `[C]` nodes after the actions; by default `action_nodes`.
        """
        nodes = action_nodes(spot.betting.tree, player) if nodes is None else nodes
        floors = np.zeros((len(nodes), len(spot.hands)))
        for key in keys:
            for child, row in self.fixed[player].get(key, {}).items():
                floors[nodes == child] += np.nan_to_num(row)
        return floors

    def is_preserved(self, image: IntArray, card_image: Callable[[int], int]) -> bool:
        """True if a permutation of suits maps the locks to themselves.

        Args:
          image: `[H]` position of each hand's image.
          card_image: function from a card to its image.
        """
        for fixed in self.fixed:
            for cards, rows in fixed.items():
                mapped = fixed.get(tuple(card if card < 0 else card_image(card) for card in cards), {})
                if rows.keys() != mapped.keys() or not all(
                    np.array_equal(mapped[child][image], row, equal_nan=True) for child, row in rows.items()
                ):
                    return False
        return True

    @property
    def digest(self) -> str:
        """Digest of the nodes and strategies, the same for equal locks."""
        arrays: list[npt.NDArray[Any]] = []
        for fixed in self.fixed:
            for cards in sorted(fixed):
                nodes = sorted(fixed[cards])
                arrays += [np.array(cards, np.int64), np.array(nodes, np.int64)]
                arrays += [fixed[cards][node] for node in nodes]
        return digest(*arrays)


def _overlap(first: Cards, second: Cards) -> bool:
    """True if there are cards for which two keys both hold."""
    if len(first) != len(second) or any(a != b for a, b in zip(first, second, strict=True) if min(a, b) >= 0):
        return False
    named = [card for card in map(max, first, second) if card >= 0]
    return len(set(named)) == len(named)


def find_locked(spot: Spot, locks: Sequence[Lock], name: str = "locks") -> Locked | None:
    """The fixed strategies of a spot; None without locks.

    Args:
      spot: the spot.
      locks: the locks.
      name: name of the argument, for errors.

    Raises:
      ValueError: if a line is not one of the spot's, no player acts after it, an action is not legal there,
        probabilities are no distribution, or a hand is locked twice at a node.
    """
    if not isinstance(locks, Sequence) or isinstance(locks, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"{name}={locks!r}: expected a list of Lock(line=…, strategy=…)")
    locked = Locked(({}, {}))
    for number, lock in enumerate(locks):
        where = f"{name}[{number}]"
        if not isinstance(lock, Lock):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"{where}={lock!r}: expected a Lock")
        try:
            _add(locked, spot, lock)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error
    return locked if any(locked.fixed) else None


def _add(locked: Locked, spot: Spot, lock: Lock) -> None:
    """Adds a lock's fixed probabilities."""
    betting, nodes = spot.betting, _find_nodes(spot, lock.line)
    held = _held(spot, lock)
    for node, cards in nodes:
        line, actor = _line(betting, node, cards), int(betting.tree.actor[node])
        if actor not in ACTOR_BIT:
            raise ValueError(f"line={line!r}: no player acts there; expected a line followed by a decision")
        children = {betting.action_name(child): child for child in betting.children(node)}
        unknown = next((action for action in lock.strategy if action not in children), None)
        if unknown is not None:
            raise ValueError(
                f"strategy: {unknown!r} is not legal after line={line!r}; expected some of "
                f"{', '.join(children)}"
            )
        rows = _distribution(lock, list(children), spot, cards, held)
        fixed = locked.fixed[ACTOR_BIT.index(actor)]
        first = next(iter(children.values()))
        for key, others in fixed.items():
            if first not in others or not _overlap(key, cards):
                continue
            twice = np.flatnonzero(held & ~np.isnan(others[first]))
            if len(twice):
                raise ValueError(
                    f"{spot.hand_names[twice[0]]} is locked twice after line={line!r}; expected one lock for "
                    "every hand"
                )
        own = fixed.setdefault(cards, {})
        for child, row in zip(children.values(), rows, strict=True):
            own.setdefault(child, np.full(len(spot.hands), np.nan))[held] = row[held]


def _find_nodes(spot: Spot, line: str) -> list[tuple[int, Cards]]:
    """The nodes after a line, and on a flop the cards before them; cards may be omitted.

    Raises:
      ValueError: if an action of the line is not legal, or a card cannot be dealt.
    """
    betting = spot.betting
    if not spot.is_flop:
        return [(node, ()) for node in _nodes_after(betting, line)]
    node, cards, words = 0, list[int](), _words(line)
    for number, word in enumerate(words):
        is_dealt = int(betting.tree.actor[node]) == CHANCE
        if is_dealt:
            (node,) = betting.children(node)
            cards.append(_parse_card(spot, line, word, cards) if _is_card(word) else -1)
            if cards[-1] >= 0:
                continue
        below = {betting.action_name(child): child for child in betting.children(node)}
        if word not in below:
            before = f"after {', '.join(words[:number])!r}" if number else "at the start"
            expected = ", ".join(below) or "nothing, the hand is over"
            raise ValueError(
                f"line={line!r}: {word!r} is not legal {before}: expected "
                f"{'a card, or ' if is_dealt else ''}one of {expected}"
            )
        node = below[word]
    while int(betting.tree.actor[node]) == CHANCE:
        (node,) = betting.children(node)
        cards.append(-1)
    return [(node, tuple(cards))]


def _parse_card(spot: Spot, line: str, word: str, dealt: Sequence[int]) -> int:
    """A card in a line of a flop.

    Raises:
      ValueError: if it cannot be dealt.
    """
    (card,) = parse_cards(word)
    for cards, where in ((spot.cards, "on the board"), (spot.dead_cards, "dead"), (dealt, "dealt before")):
        if card in cards:
            raise ValueError(f"line={line!r}: {word} is {where}; expected another card")
    return card


def _line(betting: BettingTree, node: int, cards: Cards) -> str:
    """The line to a node; on a flop it has the cards that are named."""
    words, named = list[str](), list(cards)
    while node:
        parent = int(betting.tree.parent[node])
        if named and int(betting.tree.actor[parent]) == CHANCE:
            words += [card_name(card) for card in (named.pop(),) if card >= 0]
        else:
            words.append(betting.action_name(node))
        node = parent
    return ", ".join(reversed(words))


def _words(line: str) -> list[str]:
    """The actions and cards of a line."""
    return [word.strip() for word in line.split(",") if line.strip()]


def _is_card(word: str) -> bool:
    """True if a word of a line is a card."""
    return len(word) == 2 and word[0] in RANKS and word[1] in SUITS


def _held(spot: Spot, lock: Lock) -> BoolArray:
    """`[H]` mask of the locked hands, without those that a card of the line excludes."""
    cards = [parse_cards(word)[0] for word in _words(lock.line) if _is_card(word)]
    possible = np.logical_not(np.isin(HANDS[spot.hands], cards).any(axis=1))
    if lock.hands is None:
        return possible
    hands = lock.hands if isinstance(lock.hands, HandRange) else HandRange.parse(lock.hands, "hands")
    held = possible & (hands.weights[spot.hands] > 0)
    if not held.any():
        board = "".join(map(card_name, (*spot.cards, *cards)))
        raise ValueError(
            f"hands={str(lock.hands)!r}: none is left on {board!r}; expected one without its cards"
        )
    return held


def _distribution(
    lock: Lock, actions: Sequence[str], spot: Spot, cards: Cards, held: BoolArray
) -> FloatArray:
    """`[actions, H]` probabilities of a lock, which sum to 1 with locked hands."""
    rows = np.zeros((len(actions), len(spot.hands)))
    left = {len(spot.hands): np.ones(len(spot.hands), np.bool_)}  # by the size of an array of the strategy
    if cards and cards[0] >= 0:
        on_turn = ~(HANDS[spot.hands] == cards[0]).any(axis=1)
        left[int(on_turn.sum())] = on_turn
    for row, action in zip(rows, actions, strict=True):
        value: Any = np.asarray(lock.strategy.get(action, 0.0))
        if value.dtype.kind not in "fiu" or value.shape not in ((), *((size,) for size in left)):
            raise ValueError(
                f"strategy: {action!r} has {lock.strategy[action]!r}; expected a probability, or one for "
                f"each of the {' or '.join(map(str, left))} hands"
            )
        row[left[value.size] if value.shape else slice(None)] = value
    total = rows.sum(axis=0)
    wrong = np.flatnonzero(held & ~((rows >= 0).all(axis=0) & (np.abs(total - 1) <= ROW_TOLERANCE)))
    if len(wrong):
        shown = {action: float(row[wrong[0]]) for action, row in zip(actions, rows, strict=True)}
        raise ValueError(f"strategy: {shown} is no distribution; expected probabilities >= 0 that sum to 1")
    return rows / np.where(held, total, 1)


def _nodes_after(betting: BettingTree, line: str) -> list[int]:
    """The nodes after a line, in which cards may be omitted.

    Raises:
      ValueError: if an action of the line is not legal.
    """
    nodes = [0]
    for word in _words(line):
        names = [{betting.action_name(child): child for child in betting.children(node)} for node in nodes]
        if int(betting.tree.actor[nodes[0]]) == CHANCE and word not in names[0]:
            nodes = [child for by_name in names for child in by_name.values()]
            names = [
                {betting.action_name(child): child for child in betting.children(node)} for node in nodes
            ]
        if any(word not in by_name for by_name in names):
            betting.find(", ".join(filter(None, (betting.line(nodes[0]), word))))  # raises
        nodes = [by_name[word] for by_name in names]
    if int(betting.tree.actor[nodes[0]]) == CHANCE:
        nodes = [child for node in nodes for child in betting.children(node)]
    return nodes


def read_locks(path: str | os.PathLike[str]) -> tuple[Lock, ...]:
    """Reads locks from a JSON file: a list of objects with `line`, `strategy` and optionally `hands`.

    Raises:
      ValueError: if the file cannot be read or is no such list; the message names the file and the lock.
    """
    label = f"file of locks {os.fspath(path)!r}"
    check_regular(path, "file of locks")
    try:
        records: Any = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{label} cannot be read ({error}); expected a list of locks in JSON") from error
    return parse_locks(records, label)


def parse_locks(records: object, label: str) -> tuple[Lock, ...]:
    """Locks of a JSON list of objects, as in a file of `read_locks`.

    Raises:
      ValueError: if it is no such list; the message begins with the label and names the lock.
    """
    if not isinstance(records, list) or not records:
        raise ValueError(f'{label} holds no list of locks; expected [{{"line": …, "strategy": {{…}}}}]')
    locks: list[Lock] = []
    for number, record in enumerate(records):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        fields: dict[str, Any] = record if isinstance(record, dict) else {}  # pyright: ignore[reportUnknownVariableType]
        names = {field.name for field in dataclasses.fields(Lock)}
        if not {"line", "strategy"} <= fields.keys() <= names:
            raise ValueError(
                f"{label}, lock {number}: {json.dumps(record)[:80]} is not a lock; expected an object with "
                "line, strategy and, for some hands only, hands"
            )
        try:
            locks.append(Lock(**fields))
        except ValueError as error:
            raise ValueError(f"{label}, lock {number}: {error}") from error
    return tuple(locks)
