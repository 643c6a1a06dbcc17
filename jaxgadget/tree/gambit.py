"""Export of a tree to Gambit's `.efg` format, version 2, which `jaxgadget.load` and Gambit can read.

Player 0 is Gambit's player 1. Gambit's games are sequential: in a simultaneous move player 1 acts after
player 0 without observing its action. The format cannot represent observations of a player that does not act.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction

import numpy as np

from jaxgadget.games.gambit import GambitGame
from jaxgadget.games.game import CHANCE, PLAYER_0, SIMULTANEOUS, TERMINAL, Budget
from jaxgadget.tree.history import HistoryTree, check_whole
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.files import atomic_writer

_SIMPLE = 1000  # largest denominator to try before writing all digits of a float


def write_efg(tree: HistoryTree, path: str | os.PathLike[str]) -> None:
    """Writes a game as a Gambit file, atomically.

    Infosets have the tree's names and are numbered in depth-first order, as in Gambit. White space in names
    is reduced to single spaces, and equal names are numbered, as Gambit requires. Gambit requires chance
    probabilities that sum to exactly 1, so they are written as fractions, such as 1/3, or with all decimals
    needed. Payoffs are the returns. OpenSpiel reads the file, too (`pyspiel.load_efg_game`).

    Args:
      tree: the whole game's histories.
      path: path of the file, which should end in `.efg`.

    Raises:
      ValueError: if the tree is truncated, or the file cannot be written.
    """
    check_whole(tree)
    own_chance, returns = _ask_game(tree)
    with atomic_writer(path) as file:
        for line in _lines(tree, own_chance, returns):
            file.write(line.encode() + b"\n")


def infoset_order(tree: HistoryTree) -> tuple[list[int], list[int]]:
    """Both players' infosets in Gambit's depth-first order."""
    order: tuple[dict[int, None], dict[int, None]] = ({}, {})
    for history, player in _walk(tree):
        if player in (0, 1):
            order[player][int(tree.infoset[player, history])] = None
    return list(order[0]), list(order[1])


def decimal(x: float) -> str:
    """The shortest decimal without an exponent that reads back as the same float."""
    return format(Decimal(repr(float(x))), "f").removesuffix(".0")


_NOBODY = -1
"""Pseudo-players of terminal histories and of chance nodes in a walk."""


def _walk(tree: HistoryTree) -> Iterator[tuple[int, int]]:
    """Yields the nodes of the file, depth first: `(history, player)`, two for a simultaneous move."""
    (begin, end), actors = _children(tree), tree.actor.tolist()
    player_1_actions = tree.infosets[1].num_actions.tolist()
    # A history, the player to act next, and the children consistent with earlier actions.
    waiting: list[tuple[int, int, int, bool]] = [(0, begin[0], end[0], False)]
    while waiting:
        history, first, last, player_0_acted = waiting.pop()
        actor = actors[history]
        if actor == SIMULTANEOUS and not player_0_acted:
            yield history, 0
            count = player_1_actions[tree.infoset[1, history]]
            waiting += [(history, k, k + count, True) for k in reversed(range(first, last, count))]
            continue
        yield history, _NOBODY if actor in (TERMINAL, CHANCE) else int(actor != PLAYER_0)
        waiting += [(k, begin[k], end[k], False) for k in reversed(range(first, last))]


def _lines(tree: HistoryTree, own_chance: FloatArray, returns: FloatArray) -> Iterator[str]:
    game = tree.game
    title = game.title if isinstance(game, GambitGame) else game.name
    yield f'EFG 2 R {_quoted(_tidy(title))} {{ "Player 0" "Player 1" }}'
    yield '""'
    headers: dict[tuple[int, int], str] = {}
    numbers, chance_nodes = (itertools.count(1), itertools.count(1)), itertools.count(1)
    outcomes: dict[tuple[str, str], int] = {}
    action_names = _action_names(tree)
    infoset_names = [_labels(dict(enumerate(names))) for names in tree.infoset_names]
    begin, end = _children(tree)
    for history, player in _walk(tree):
        if player in (0, 1):
            infoset = int(tree.infoset[player, history])
            if (player, infoset) not in headers:
                label = infoset_names[player][infoset]
                actions = " ".join(_quoted(name) for name in action_names[player][infoset])
                headers[player, infoset] = (
                    f'p "" {player + 1} {next(numbers[player])} {_quoted(label)} {{ {actions} }} 0'
                )
            yield headers[player, infoset]
        elif tree.actor[history] == CHANCE:
            children = slice(begin[history], end[history])
            probabilities = _exact_probabilities(own_chance[children].tolist())
            names = tree.action[2, children].tolist()
            actions = " ".join(f'"{name}" {share}' for name, share in zip(names, probabilities, strict=True))
            yield f'c "" {next(chance_nodes)} "" {{ {actions} }} 0'
        else:
            first, second = (decimal(number + 0.0) for number in returns[:, history].tolist())
            # OpenSpiel reads no terminal without payoffs, so that zeros are an outcome, too.
            outcome = outcomes.setdefault((first, second), len(outcomes) + 1)
            yield f't "" {outcome} "" {{ {first}, {second} }}'


def _children(tree: HistoryTree) -> tuple[list[int], list[int]]:
    """For every history its first child, and its last child + 1."""
    end = np.searchsorted(tree.parent[1:], np.arange(tree.num_histories), side="right") + 1
    return [1, *end[:-1].tolist()], end.tolist()


def _ask_game(tree: HistoryTree) -> tuple[FloatArray, FloatArray]:
    """Re-enumerates the game for data missing in the tree: `[n]` chance probabilities, `[2, n]` returns."""
    levels = list(tree.game.levels(Budget(tree.game.name, tree.num_histories)))
    chance = np.concatenate([level.chance for level in levels])
    returns = np.concatenate([level.returns for level in levels], axis=1)
    if len(chance) != tree.num_histories:
        raise ValueError(f"tree={tree!r}: the game's histories have changed; enumerate it again")
    return chance, returns


def _action_names(tree: HistoryTree) -> tuple[list[list[str]], list[list[str]]]:
    """For both players, the names of every infoset's actions."""
    names_of_player: list[list[list[str]]] = []
    for player, infosets in enumerate(tree.infosets):
        actions = infosets.action[1:].tolist()
        name = _labels({action: tree.game.action_string(player, action) for action in dict.fromkeys(actions)})
        rows = itertools.pairwise([*(infosets.first_sequence - 1).tolist(), len(actions)])
        names_of_player.append([[name[action] for action in actions[first:last]] for first, last in rows])
    return names_of_player[0], names_of_player[1]


def _exact_probabilities(probabilities: Sequence[float]) -> list[str]:
    """Numbers that sum to exactly 1 and read back as the same floats.

    Fractions of small numbers where these sum to 1; otherwise decimals, as OpenSpiel reads no long fractions.
    """
    simple = [_simple(p) for p in probabilities]
    if sum(simple) == 1:
        return [str(x) if x.denominator <= _SIMPLE else decimal(float(x)) for x in simple]
    exact = [Fraction(p) for p in probabilities]
    room = [Fraction(math.ulp(p)) if p > 0 else Fraction(0) for p in probabilities]
    missing = (1 - sum(exact)) / sum(room)  # in units of the last place of each
    digits = 4 - math.floor(math.log10(min(filter(None, map(float, room)))))
    scaled = [round((x + missing * ulp) * 10**digits) for x, ulp in zip(exact, room, strict=True)]
    scaled[scaled.index(max(scaled))] += 10**digits - sum(scaled)
    return [f"0.{x:0{digits}d}".rstrip("0").rstrip(".") if x < 10**digits else "1" for x in scaled]


@functools.lru_cache(maxsize=1024)
def _simple(probability: float) -> Fraction:
    """The simplest fraction equal to this float, if its denominator is small."""
    share = Fraction(probability).limit_denominator(_SIMPLE)
    return share if float(share) == probability else Fraction(repr(probability))


def _labels(texts: Mapping[int, str]) -> dict[int, str]:
    """Unique names that Gambit accepts."""
    labels = {infoset: _tidy(text) for infoset, text in texts.items()}
    uses = Counter(labels.values())
    taken = {label for label in labels.values() if label and uses[label] == 1}
    for infoset, label in labels.items():
        if label not in taken or uses[label] > 1:
            label = f"{label} #{infoset}".strip()
            while label in taken:
                label += "#"
            taken.add(label)
            labels[infoset] = label
    return labels


def _tidy(text: str) -> str:
    """Removes control characters and reduces white space to single spaces."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
