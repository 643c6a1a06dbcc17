"""Node locking: strategies that are fixed at nodes of a spot, while everything else is solved."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jaxgadget.games.game import ACTOR_BIT, CHANCE
from jaxgadget.holdem.betting import BettingTree
from jaxgadget.holdem.cards import RANKS, SUITS
from jaxgadget.holdem.ranges import HandRange
from jaxgadget.holdem.spots import Spot
from jaxgadget.holdem.strategies import action_nodes
from jaxgadget.policy.policy import ROW_TOLERANCE
from jaxgadget.util.arrays import BoolArray, FloatArray
from jaxgadget.util.digest import digest
from jaxgadget.util.files import check_regular


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Lock:
    """A fixed strategy of the player that acts at a node, with all hands or some.

    Attributes:
      line: actions that lead to the node, such as `check, bet 100`; the start for an empty one. Where a card
        is dealt on a turn, the line may name it; if it does not, and on a flop, the strategy is locked after
        every card.
      strategy: dictionary from each action to its probability: a number, or `[H]` with each hand that is left
        on the board. Omitted actions have probability 0.
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


class Locked(NamedTuple):
    """The locks of a spot.

    Attributes:
      fixed: for both players the fixed probabilities `[H]` of actions, by the public node after each; NaN
        with hands that are free.
    """

    fixed: tuple[dict[int, FloatArray], dict[int, FloatArray]]

    def floors(self, spot: Spot, player: int) -> FloatArray:
        """`[C, H]` floors of a player's actions in the order of `action_nodes`: fixed probabilities, or 0."""
        nodes = action_nodes(spot.betting.tree, player)
        floors = np.zeros((len(nodes), len(spot.hands)))
        for child, row in self.fixed[player].items():
            floors[np.searchsorted(nodes, child)] = np.nan_to_num(row)
        return floors

    def floors_of_both(self, spot: Spot) -> tuple[FloatArray | None, FloatArray | None]:
        """`floors` of both players; None for a player without locks."""
        first, second = (self.floors(spot, player) if self.fixed[player] else None for player in (0, 1))
        return first, second

    @property
    def digest(self) -> str:
        """Digest of the nodes and strategies, the same for equal locks."""
        arrays: list[npt.NDArray[Any]] = []
        for fixed in self.fixed:
            nodes = sorted(fixed)
            arrays += [np.array(nodes, np.int64), *(fixed[node] for node in nodes)]
        return digest(*arrays)


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
    betting, held = spot.betting, _held(spot, lock)
    if spot.is_flop and (card := next(filter(_is_card, lock.line.split(",")), None)):
        raise ValueError(
            f"line={lock.line!r}: {card.strip()!r} is a card; on a flop locks hold for every card, and lines "
            "name none"
        )
    for node in _nodes_after(betting, lock.line):
        actor = int(betting.tree.actor[node])
        if actor not in ACTOR_BIT:
            betting.actor(betting.line(node))  # raises, as no player acts there
        children = {betting.action_name(child): child for child in betting.children(node)}
        unknown = next((action for action in lock.strategy if action not in children), None)
        if unknown is not None:
            raise ValueError(
                f"strategy: {unknown!r} is not legal after line={betting.line(node)!r}; expected some of "
                f"{', '.join(children)}"
            )
        rows = _distribution(lock, list(children), len(spot.hands), held)
        fixed = locked.fixed[ACTOR_BIT.index(actor)]
        for child, row in zip(children.values(), rows, strict=True):
            before = fixed.setdefault(child, np.full(len(spot.hands), np.nan))
            twice = np.flatnonzero(held & ~np.isnan(before))
            if len(twice):
                raise ValueError(
                    f"{spot.hand_names[twice[0]]} is locked twice after line={betting.line(node)!r}; "
                    "expected one lock for every hand"
                )
            before[held] = row[held]


def _is_card(word: str) -> bool:
    """True if a word of a line is a card."""
    return word.strip()[:1] in RANKS and word.strip()[1:] in SUITS and len(word.strip()) == 2


def _held(spot: Spot, lock: Lock) -> BoolArray:
    """`[H]` mask of the locked hands."""
    if lock.hands is None:
        return np.ones(len(spot.hands), np.bool_)
    hands = lock.hands if isinstance(lock.hands, HandRange) else HandRange.parse(lock.hands, "hands")
    held = hands.weights[spot.hands] > 0
    if not held.any():
        raise ValueError(
            f"hands={str(lock.hands)!r}: none is left on {spot.board!r}; expected one without its cards"
        )
    return held


def _distribution(lock: Lock, actions: Sequence[str], num_hands: int, held: BoolArray) -> FloatArray:
    """`[actions, H]` probabilities of a lock, which sum to 1 with locked hands."""
    rows = np.zeros((len(actions), num_hands))
    for row, action in zip(rows, actions, strict=True):
        value: Any = np.asarray(lock.strategy.get(action, 0.0))
        if value.dtype.kind not in "fiu" or value.shape not in ((), (num_hands,)):
            raise ValueError(
                f"strategy: {action!r} has {lock.strategy[action]!r}; expected a probability, or one for "
                f"each of the {num_hands} hands"
            )
        row[:] = value
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
    for word in (part.strip() for part in line.split(",") if line.strip()):
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
