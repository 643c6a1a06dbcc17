"""Many solved spots by classes of their boards: frequencies of actions, EVs and equities."""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from jaxgadget.games.game import CHANCE
from jaxgadget.holdem.betting import PLAYERS, BettingTree
from jaxgadget.holdem.cards import RANKS, card_name, cards_left
from jaxgadget.holdem.solution import SpotSolution
from jaxgadget.holdem.spots import Spot
from jaxgadget.util.arguments import near_names
from jaxgadget.util.progress import progress_bar

STRAIGHT = 5
"""Number of consecutive ranks of a straight."""

ALL, BOARD = "all", "board"
"""Groups of a report: all boards together, and every board by itself."""

NUMBERS = ("ev_oop", "ev_ip", "equity_oop")
"""Columns of values."""

Classify = Callable[[Spot], str]


def _pairs(spot: Spot) -> str:
    counts = sorted(collections.Counter(card // 4 for card in spot.cards).values(), reverse=True)
    names = {(2, 1): "paired", (2, 2): "two pairs", (3, 1): "trips", (3, 2): "full house"}
    return "unpaired" if counts[0] == 1 else "quads" if counts[0] == 4 else names[counts[0], counts[1]]


def _suits(spot: Spot) -> str:
    largest = max(collections.Counter(card % 4 for card in spot.cards).values())
    if largest == len(spot.cards):
        return "monotone"
    return {1: "rainbow", 2: "two-tone", 3: "three of a suit", 4: "four of a suit"}[largest]


def _high(spot: Spot) -> str:
    return f"{RANKS[max(spot.cards) // 4]} high"


def _straights(spot: Spot) -> str:
    ranks = {card // 4 for card in spot.cards}
    ranks |= {-1} if len(RANKS) - 1 in ranks else set()  # an ace below the deuce
    most = max(len(ranks & {*range(low, low + STRAIGHT)}) for low in range(-1, len(RANKS) - STRAIGHT + 1))
    return "straight possible" if most >= 3 else "no straight"  # players add two cards


CLASSES: Mapping[str, Classify] = {"pairs": _pairs, "suits": _suits, "straights": _straights, "high": _high}
"""Kinds of classes by name, each a function from a spot to its class."""

_ORDER = (
    *("unpaired", "paired", "two pairs", "trips", "full house", "quads"),
    *("rainbow", "two-tone", "three of a suit", "four of a suit", "monotone"),
    *("no straight", "straight possible"),
    *(f"{rank} high" for rank in reversed(RANKS)),
)
"""Order of classes in reports."""


def aggregate_spots(
    solutions: Sequence[SpotSolution],
    line: str = "",
    by: Sequence[str] | Mapping[str, Classify] = tuple(CLASSES),
) -> pd.DataFrame:
    """Frequencies, EVs and equities after a line, by classes of boards.

    Args:
      solutions: solved spots, for example of one line on many boards.
      line: actions such as `check, bet 100`; by default the start.
      by: kinds of classes, of `pairs`, `suits`, `straights` and `high`; or your own as a dictionary from a
        name to a function of a spot that returns its class.

    Returns:
      One row for all boards (group `all`), for every class of each kind (group is its name) and for every
      board (group `board`). `boards` is the number of boards; other columns are their means: `ev_oop` and
      `ev_ip` as shares of the pot at the line and from there on, `equity_oop`, and the frequency of each
      action of the player that acts, named by its share of the pot, such as `bet 50%`. Boards without a value
      are left out of its mean.

    Raises:
      ValueError: if there are no solutions, a kind is unknown, or no player acts after the line.
    """
    if not solutions:
        raise ValueError("solutions: none; expected at least one solved spot")
    kinds = find_kinds(by)
    return aggregate_rows([board_row(solution, line, kinds) for solution in solutions], tuple(kinds))


def aggregate_cards(solution: SpotSolution, line: str = "", *, progress: bool | None = None) -> pd.DataFrame:
    """Frequencies, EVs and equities on the next street, by the card that is dealt after a line.

    Args:
      solution: a solved flop or turn.
      line: actions after which a card is dealt, such as `check, check`.
      progress: a bar, or a line a minute in a log; by default a bar, on a terminal or in a notebook.

    Returns:
      One row for each card that leaves both players hands, and one for all of them (`all`), whose numbers are
      means weighted by `chance`, the probability of the card given both ranges after the line. The other
      columns are those of `aggregate_spots`, at the start of the next street.

    Raises:
      ValueError: if no card is dealt after the line, or players cannot bet after it.
    """
    node = solution.node(line)
    betting, spot = solution.spot.betting, solution.spot
    if int(betting.tree.actor[node]) != CHANCE:
        raise ValueError(f"line={line!r}: expected a line after which a card is dealt")
    cards = [card for card in cards_left(spot.gone).tolist() if spot.leaves_hands(card)]
    rows: list[dict[str, Any]] = []
    with progress_bar("cards", len(cards), progress) as report:
        for done, card in enumerate(cards):
            street = solution.after(", ".join(filter(None, (line, card_name(card)))))
            row = board_row(street, "", {})
            rows.append(row | {BOARD: card_name(card), "chance": street.spot.weight_of_pairs})
            report(done + 1)
    chance = np.array([row["chance"] for row in rows]) / sum(row["chance"] for row in rows)
    actions = sorted({action for row in rows for action in row["actions"]}, key=_action_order)
    frame = pd.DataFrame([{"card": row[BOARD], **{name: row[name] for name in NUMBERS}} for row in rows])
    frame.insert(1, "chance", chance)
    for action in actions:
        frame[action] = [row["actions"].get(action, 0.0) for row in rows]
    means = {name: float(np.average(frame[name], weights=chance)) for name in (*NUMBERS, *actions)}
    report = pd.concat([pd.DataFrame([{"card": ALL, "chance": 1.0, **means}]), frame], ignore_index=True)
    report.attrs["actor"] = rows[0]["actor"]
    return report


def find_kinds(by: Sequence[str] | Mapping[str, Classify]) -> Mapping[str, Classify]:
    """Kinds of classes by name; raises ValueError for an unknown name."""
    if isinstance(by, Mapping):
        return by
    unknown = next((name for name in by if name not in CLASSES), None)
    if unknown is not None:
        raise ValueError(
            f"by={unknown!r} is no kind of classes: expected some of {', '.join(CLASSES)}; similar names: "
            f"{near_names(unknown, CLASSES)}"
        )
    return {name: CLASSES[name] for name in by}


def board_row(solution: SpotSolution, line: str, kinds: Mapping[str, Classify]) -> dict[str, Any]:
    """The row of a board: title, class of every kind, values, and `actions` with their frequencies."""
    spot = solution.spot
    solution, line = solution.find_street(line)
    values, node = solution.values(line), solution.node(line)
    betting, frequencies = solution.spot.betting, solution.frequencies(line)
    actions: dict[str, float] = collections.defaultdict(float)
    for child, frequency in zip(betting.children(node), frequencies.values(), strict=True):
        actions[_name_by_size(betting, child)] += frequency
    first, second = (ev / values.pot for ev in values.mean_ev)
    return {
        BOARD: spot.title,
        **{name: classify(spot) for name, classify in kinds.items()},
        **dict(zip(NUMBERS, (first, second, values.mean_equity[0]), strict=True)),
        "actor": PLAYERS[solution.actor(line)],
        "actions": dict(actions),
    }


def _name_by_size(betting: BettingTree, child: int) -> str:
    """Name of an action without chips: a bet or raise has its share of the pot after calling."""
    name, size = betting.action_name(child), betting.bet_size(child)
    if size is None:
        return name
    word = name.split(" ")[0]
    return word if word == "all-in" else f"{word} {size:.0%}"


def aggregate_rows(rows: Sequence[Mapping[str, Any]], kinds: Sequence[str]) -> pd.DataFrame:
    """The report of `aggregate_spots` from rows of `board_row`."""
    actions = sorted({action for row in rows for action in row["actions"]}, key=_action_order)
    fields = (BOARD, *kinds, *NUMBERS)
    frame = pd.DataFrame([{name: row[name] for name in fields} for row in rows])
    for action in actions:
        frame[action] = [row["actions"].get(action, 0.0) for row in rows]
    columns = [*NUMBERS, *actions]
    parts = [_group(frame, ALL, ALL, columns)]
    for kind in kinds:
        for name in sorted(frame[kind].unique(), key=_class_order):
            parts.append(_group(frame[frame[kind] == name], kind, name, columns))
    parts += [_group(frame.iloc[[number]], BOARD, row[BOARD], columns) for number, row in enumerate(rows)]
    report = pd.DataFrame(parts)
    report.attrs["actor"] = rows[0]["actor"]
    return report


def _group(frame: pd.DataFrame, group: str, name: str, columns: Sequence[str]) -> dict[str, Any]:
    """A row of a report: means over boards, NaN without a value."""
    means = {column: float(frame[column].mean()) for column in columns}  # leaves NaN out
    return {"group": group, "class": name, "boards": len(frame), **means}


def _class_order(name: str) -> tuple[int, str]:
    return (_ORDER.index(name) if name in _ORDER else len(_ORDER)), name


def _action_order(name: str) -> tuple[int, float, str]:
    """Passive actions first, then bets and raises by size, then all-in."""
    word, _, size = name.partition(" ")
    place = {"fold": 0, "check": 1, "call": 1, "bet": 2, "raise": 3, "all-in": 4}.get(word, 5)
    return place, float(size.rstrip("%") or 0) if size else 0.0, name
