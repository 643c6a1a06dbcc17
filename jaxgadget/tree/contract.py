"""Validation of a game's arrays against the contract of `Game`; violations raise `ValueError`.

The message names the condition, the player and example histories.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from jaxgadget.games.game import (
    ACTOR_BIT,
    CHANCE,
    LARGEST_RETURN,
    PROBABILITY_TOLERANCE,
    TERMINAL,
    Move,
    dense_ids,
    first_positions,
)
from jaxgadget.util.arrays import FloatArray, IntArray

CONSTANT_SUM_TOLERANCE = 1e-9
"""Tolerance on the constant sum of both players' returns, relative to the largest return."""

Describe = Callable[[int], tuple[Move, ...]]


def check_moves(
    game: str, offset: IntArray, parent: IntArray, actor: IntArray, action: IntArray, describe: Describe
) -> None:
    """Checks that exactly the acting players move, and that levels are sorted and without duplicates."""
    above = actor[parent]
    for mover, bit, mover_name in (
        (0, ACTOR_BIT[0], "player 0"),
        (1, ACTOR_BIT[1], "player 1"),
        (2, CHANCE, "chance"),
    ):
        wrong = (action[mover] >= 0) != ((above & bit) > 0)
        wrong[0] = False
        if wrong.any():
            h = int(np.argmax(wrong))
            acts, moved = ("acts", "does nothing") if above[h] & bit else ("does not act", "moves")
            raise ValueError(
                f"{game}: {mover_name} {acts} after history {describe(int(parent[h]))} but {moved} on the "
                f"way to {describe(h)}; correct the level's actor or action"
            )
    ascends = action[2, 1:] > action[2, :-1]
    for column in (action[1], action[0], parent):
        ascends = (column[1:] > column[:-1]) | ((column[1:] == column[:-1]) & ascends)
    ascends[offset[1:-1] - 1] = True  # the first history of a level has no predecessor
    if not ascends.all():
        h = 1 + int(np.argmin(ascends))
        raise ValueError(
            f"{game}: history {describe(h)} follows {describe(h - 1)}, below {describe(int(parent[h]))} and "
            f"{describe(int(parent[h - 1]))}; sort the histories of a level by parent, "
            "then by moves, without duplicates"
        )


def check_chance(
    game: str, parent: IntArray, actor: IntArray, action: IntArray, chance: FloatArray, describe: Describe
) -> None:
    """Checks that chance probabilities are in [0, 1], sum to 1 at chance nodes, and are 1 elsewhere."""
    wrong = chance != 1
    rows = np.nonzero(action[2] >= 0)[0]
    wrong[rows] = ~((chance[rows] >= 0) & (chance[rows] <= 1 + PROBABILITY_TOLERANCE))
    if wrong.any():
        h = int(np.argmax(wrong))
        expected = "in [0, 1]" if action[2, h] >= 0 else "1, the value after moves of players"
        raise ValueError(
            f"{game}: chance probability {chance[h]} of history {describe(h)} is not {expected}; "
            "correct the game's chance outcomes"
        )
    nodes = np.nonzero(actor & CHANCE)[0]
    total = np.bincount(parent[rows], chance[rows], minlength=int(nodes.max(initial=-1)) + 1)[nodes]
    wrong = np.abs(total - 1) > PROBABILITY_TOLERANCE
    if wrong.any():
        node = int(np.argmax(wrong))
        raise ValueError(
            f"{game}: chance probabilities after history {describe(int(nodes[node]))} sum to "
            f"{total[node]:.12g}, expected 1; correct the game's chance outcomes"
        )


def zero_sum(game: str, actor: IntArray, returns: FloatArray, describe: Describe) -> tuple[float, FloatArray]:
    """The constant sum, and `[n]` player 0's returns minus half of it (0 at non-terminal histories)."""
    terminals, payoff = np.nonzero(actor == TERMINAL)[0], np.zeros(len(actor))
    if len(terminals) == 0:  # a truncated tree may have none
        return 0.0, payoff
    values = returns[:, terminals]
    fits = (np.abs(values) <= LARGEST_RETURN).all(axis=0)
    if not fits.all():
        h = int(terminals[np.argmin(fits)])
        problem = f"larger than {LARGEST_RETURN:g}" if np.isfinite(returns[:, h]).all() else "not finite"
        raise ValueError(
            f"{game}: returns {tuple(returns[:, h].tolist())} at terminal history {describe(h)} are "
            f"{problem}; expected finite numbers of at most {LARGEST_RETURN:g} in size; choose a larger unit"
        )
    total = values.sum(axis=0)
    scale = max(1.0, float(np.abs(values).max(initial=0.0)))
    low, high = int(np.argmin(total)), int(np.argmax(total))
    if total[high] - total[low] > CONSTANT_SUM_TOLERANCE * scale:
        a, b = int(terminals[low]), int(terminals[high])
        raise ValueError(
            f"{game} is not zero-sum or constant-sum: the returns of both players sum to {total[low]:.12g} "
            f"at history {describe(a)} and to {total[high]:.12g} at history {describe(b)}; only two-player "
            "constant-sum games can be solved"
        )
    constant = float(total[0])
    if abs(constant) <= CONSTANT_SUM_TOLERANCE * scale:
        constant = 0.0
    payoff[terminals] = values[0] - constant / 2
    return constant, payoff


def check_infostates(
    game: str,
    player: int,
    infostate: IntArray,
    sequence: IntArray,
    public: IntArray | None,
    describe: Describe,
) -> None:
    """Checks that every infostate has one last own sequence (perfect recall) and lies in one public state.

    Args:
      game: the game's name, for the message.
      player: the observing player, for the message.
      infostate: `[n]` the player's infostate at every history, including those at which it does not act.
      sequence: `[n]` the player's last sequence.
      public: `[n]` public state, None if the game does not define it.
      describe: turns a history into its moves.
    """
    group, count = dense_ids(infostate)
    first = first_positions(group, count)[group]
    recall = (
        "perfect recall, an infoset joins histories with different earlier actions or infosets of the player"
    )
    finer = "a public state is finer than common knowledge, an infostate lies in two public states"
    for condition, observer, label in ((recall, "player", sequence), (finer, "public", public)):
        differs = np.zeros(0, np.bool_) if label is None else label != label[first]
        if differs.any():
            h = int(np.argmax(differs))
            raise ValueError(
                f"{game} breaks the contract for player {player}: {condition}. Histories "
                f"{describe(int(first[h]))} and {describe(h)} show it; correct the observations of the "
                f"{observer}"
            )


def check_leaves(
    game: str,
    player: int,
    actor: IntArray,
    infostate: IntArray,
    infoset: IntArray,
    leaves: IntArray,
    describe: Describe,
) -> None:
    """Checks that no infoset lies on both sides of the limit of a truncated tree."""
    acts = leaves[(actor[leaves] & ACTOR_BIT[player]) > 0]
    if len(acts) == 0:
        return
    above = np.nonzero(infoset >= 0)[0]
    crosses = np.isin(infostate[acts], infostate[above])
    if crosses.any():
        h = int(acts[np.argmax(crosses)])
        other = int(above[np.argmax(infostate[above] == infostate[h])])
        raise ValueError(
            f"{game}: the limit crosses an infoset of player {player}: history {describe(h)} is at the "
            f"limit and {describe(other)}, in the same infoset, above; choose another depth or cut"
        )


def check_children(
    game: str,
    actor: npt.NDArray[np.uint8],
    parent: IntArray,
    infoset: IntArray,
    num_actions: tuple[IntArray, IntArray],
    describe: Describe,
) -> None:
    """Checks that every history of an infoset has exactly the infoset's actions."""
    children = np.bincount(parent[1:], minlength=len(parent))
    expected = np.ones(len(parent), np.int64)
    for player in (0, 1):
        acts = np.nonzero(infoset[player] >= 0)[0]
        expected[acts] *= num_actions[player][infoset[player, acts]]
    decides = (actor & (ACTOR_BIT[0] | ACTOR_BIT[1])) > 0
    wrong = decides & (children != expected)
    if wrong.any():
        h = int(np.argmax(wrong))
        same = {p: np.nonzero(infoset[p] == infoset[p, h])[0] for p in (0, 1) if infoset[p, h] >= 0}
        # If both act, the player with a history in its infoset that has a different number of actions.
        player = next((p for p, rows in same.items() if (children[rows] != children[h]).any()), min(same))
        other = int(same[player][np.argmax(children[same[player]] != children[h])])
        raise ValueError(
            f"{game}: legal actions differ within an infoset of player {player}: history {describe(h)} has "
            f"{children[h]} of the {expected[h]} actions that its infoset has, unlike {describe(other)}; "
            "all histories of an infoset must have the same legal actions"
        )
    dead = (children == 0) & (actor != TERMINAL)
    if dead.any():
        raise ValueError(
            f"{game}: history {describe(int(np.argmax(dead)))} is not terminal but has no successor; "
            "give it at least one action or chance outcome"
        )
