"""What every game must keep, checked on its arrays: each breach is a `ValueError`.

The message names the rule, the player and two histories that show it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from jaxgadget.games.game import ACTOR_BIT, CHANCE, TERMINAL, FloatArray, IntArray, Move

PROBABILITY_TOLERANCE = 1e-9
"""How far the probabilities of a chance node may be from summing to 1."""

CONSTANT_SUM_TOLERANCE = 1e-9
"""How far both players' returns may be from a constant sum, relative to the largest return."""

Describe = Callable[[int], tuple[Move, ...]]


def check_chance(
    game: str, parent: IntArray, actor: IntArray, chance: FloatArray, describe: Describe
) -> None:
    """Chance probabilities are in [0, 1] and sum to 1 at every chance node; nothing else has any."""
    bad = ~((chance >= 0) & (chance <= 1 + PROBABILITY_TOLERANCE))
    if bad.any():
        h = int(np.argmax(bad))
        raise ValueError(
            f"{game}: chance probability {chance[h]} of history {describe(h)} is not in [0, 1]; "
            "correct the game's chance outcomes"
        )
    is_chance = (actor & CHANCE) > 0
    below_chance = is_chance[parent]
    below_chance[0] = False
    total = np.bincount(parent[below_chance], chance[below_chance], minlength=len(parent))
    bad = is_chance & (np.abs(total - 1) > PROBABILITY_TOLERANCE)
    if bad.any():
        h = int(np.argmax(bad))
        raise ValueError(
            f"{game}: chance probabilities after history {describe(h)} sum to {total[h]:.12g}, "
            "expected 1; correct the game's chance outcomes"
        )


def zero_sum(game: str, actor: IntArray, returns: FloatArray, describe: Describe) -> tuple[float, FloatArray]:
    """The constant sum and `[n]` player 0's returns less half of it (0 where not terminal)."""
    terminals = np.nonzero(actor == TERMINAL)[0]
    values = returns[:, terminals]
    if not np.isfinite(values).all():
        h = int(terminals[np.argmin(np.isfinite(values).all(axis=0))])
        raise ValueError(
            f"{game}: returns {tuple(returns[:, h].tolist())} at terminal history {describe(h)} are not "
            "finite; every payoff must be a finite number"
        )
    total = values.sum(axis=0)
    scale = max(1.0, float(np.abs(values).max(initial=0.0)))
    low, high = int(np.argmin(total)), int(np.argmax(total))
    if total[high] - total[low] > CONSTANT_SUM_TOLERANCE * scale:
        a, b = int(terminals[low]), int(terminals[high])
        raise ValueError(
            f"{game} is not zero-sum or constant-sum: the returns of both players sum to {total[low]:.12g} at "
            f"history {describe(a)} and to {total[high]:.12g} at history {describe(b)}; only two-player "
            "constant-sum games can be solved here"
        )
    constant = float(total[0])
    if abs(constant) <= CONSTANT_SUM_TOLERANCE * scale:
        constant = 0.0
    payoff = np.zeros(len(actor))
    payoff[terminals] = values[0] - constant / 2
    return constant, payoff


def check_same(
    game: str,
    rule: str,
    player: int,
    group: IntArray,
    label: IntArray,
    histories: IntArray,
    describe: Describe,
) -> IntArray:
    """Every group has one label; returns `[num_groups]` the first history of each.

    Args:
      game: the game's name, for the message.
      rule: what it means if a group has two labels.
      player: whose information it is, for the message.
      group: `[m]` group of each history, 0 … num_groups − 1.
      label: `[m]` label of each history.
      histories: `[m]` the histories.
      describe: turns a history into its moves.
    """
    first = np.empty(int(group.max(initial=-1)) + 1, np.int64)
    first[group[::-1]] = np.arange(len(group) - 1, -1, -1)
    differs = label != label[first[group]]
    if differs.any():
        row = int(np.argmax(differs))
        a, b = int(histories[first[group[row]]]), int(histories[row])
        raise ValueError(
            f"{game} breaks a rule for player {player}: {rule}. Histories {describe(a)} and {describe(b)} "
            "show it; correct what the player observes"
        )
    return histories[first]


def check_children(
    game: str,
    actor: npt.NDArray[np.uint8],
    parent: IntArray,
    infoset: IntArray,
    num_actions: tuple[IntArray, IntArray],
    describe: Describe,
) -> None:
    """Every history of an infoset has exactly the infoset's actions."""
    children = np.bincount(parent[1:], minlength=len(parent))
    expected = np.ones(len(parent), np.int64)
    for player in (0, 1):
        acts = np.nonzero(infoset[player] >= 0)[0]
        expected[acts] *= num_actions[player][infoset[player, acts]]
    decides = (actor & (ACTOR_BIT[0] | ACTOR_BIT[1])) > 0
    wrong = decides & (children != expected)
    if wrong.any():
        h = int(np.argmax(wrong))
        player = 0 if infoset[0, h] >= 0 else 1
        same = np.nonzero(infoset[player] == infoset[player, h])[0]
        other = int(same[np.argmax(children[same] != children[h])])
        raise ValueError(
            f"{game}: legal actions differ within an infoset of player {player}: history {describe(h)} has "
            f"{children[h]} of the {expected[h]} actions that its infoset has, unlike {describe(other)}; "
            "histories that a player cannot tell apart must offer it the same actions"
        )
    dead = (children == 0) & (actor != TERMINAL)
    if dead.any():
        raise ValueError(
            f"{game}: history {describe(int(np.argmax(dead)))} is not terminal but nothing follows; "
            "give it at least one action or chance outcome"
        )
