"""Games between players, in batches: one step of all pending games at once.

Chance and both seats use counter-based random numbers, so that a game does not depend on other games.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from jaxgadget.games.game import ACTOR_BIT, CHANCE, TERMINAL
from jaxgadget.policy.policy import ROW_TOLERANCE, Policy, as_policy
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.infosets import Infosets
from jaxgadget.tree.matching import first_child
from jaxgadget.util.arrays import FloatArray, IntArray


class Player(Protocol):
    """A player of matches, in either seat: a policy, or a search at every decision."""

    def action_probabilities(self, tree: HistoryTree, player: int, histories: IntArray) -> FloatArray:
        """Action probabilities of the player in all pending games.

        Called once a step and seat for all pending games together, unless they fill several batches
        (`matches.GAMES_AT_ONCE`). The result must depend on the infoset only.

        Args:
          tree: the game's histories.
          player: the seat, 0 or 1.
          histories: `[H]` distinct histories at which the seat acts, ascending; several may share an infoset.

        Returns:
          `[H, A]` probabilities of the infosets' legal actions, ascending by id, for any sufficient A; 0
          beyond an infoset's number of actions. Rows must sum to 1 within `policy.ROW_TOLERANCE`; they are
          normalised.
        """
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class PolicyPlayer:
    """A lane of a policy as a `Player`."""

    policy: Policy
    lane: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "policy", as_policy(self.policy))
        self.policy.lane(self.lane)

    def action_probabilities(self, tree: HistoryTree, player: int, histories: IntArray) -> FloatArray:
        """Rows of the policy; raises ValueError if the tree is of another game."""
        rows = self.policy.on(tree).probabilities[player][:, self.lane]
        return action_rows(tree.infosets[player], tree.infoset[player, histories], rows)


def action_rows(infosets: Infosets, infoset: IntArray, probabilities: FloatArray) -> FloatArray:
    """`[H, A]` probabilities of the actions of infosets `[H]`, padded with 0, of a player's `[Q]`."""
    count = infosets.num_actions[infoset][:, None]
    slot = np.arange(count.max(initial=1))
    row = infosets.first_sequence[infoset][:, None] - 1 + np.minimum(slot, count - 1)
    return np.where(slot < count, probabilities[row], 0.0)


def play_games(
    tree: HistoryTree,
    players: Sequence[tuple[str, Player]],
    seatings: Sequence[tuple[int, int]],
    seed: int,
    matches: range,
) -> IntArray:
    """Plays games level by level and returns their terminal histories, `[seatings, matches]`.

    In match m player 0, player 1 and chance use separate random numbers, one per move: uniform in [0, 1),
    determined by (seed, m, actor, number of its moves so far), the same in all seatings.

    Args:
      tree: the game's histories, to the end.
      players: names and players.
      seatings: indices into `players` of player 0 and player 1.
      seed: the seed, in [0, 2^64).
      matches: indices of the matches, consecutive.

    Raises:
      ValueError: if a player does not return distributions.
    """
    chance = np.full(len(seatings), len(players))  # index of chance, after the players
    seat = np.repeat([*np.asarray(seatings).T, chance], len(matches), axis=1)
    match = np.tile(np.arange(len(matches)), len(seatings))
    history = np.zeros(len(match), np.int64)
    drawn = np.zeros((3, len(match)), np.int32)
    while (pending := np.nonzero(tree.actor[history] != TERMINAL)[0]).size:
        actor = tree.actor[history]
        move = np.zeros(len(match), np.int64)  # index of the child, by player 0's, player 1's, chance's move
        for mover, bit in enumerate((*ACTOR_BIT, CHANCE)):
            games = np.nonzero(actor & bit)[0]
            uniform = _uniforms(seed, mover, drawn[mover, games], matches, match[games])
            drawn[mover, games] += 1
            for k in np.unique(seat[mover, games]).tolist():
                rows = seat[mover, games] == k
                histories, index = np.unique(history[games[rows]], return_inverse=True)
                if mover == 2:
                    weights, count = _chance(tree, histories)
                else:
                    weights, count = _ask(tree, players[k], mover, histories)
                chosen = _draw(weights, index, uniform[rows])
                move[games[rows]] = move[games[rows]] * count[index] + chosen
        history[pending] = first_child(tree, history[pending]) + move[pending]
    return history.reshape(len(seatings), len(matches))


def _uniforms(seed: int, actor: int, draw: IntArray, matches: range, match: IntArray) -> FloatArray:
    """`[games]` numbers in [0, 1): the `draw`-th of an actor (2 is chance) in `matches[match]`.

    Philox with the seed, actor and draw as key and the match as counter, four matches per step.
    """
    uniform = np.empty(len(draw))
    skipped = matches.start % 4
    for k in np.unique(draw).tolist():
        generator = np.random.Philox(key=np.array([seed, (actor << 32) + k], np.uint64))
        generator.advance(matches.start // 4)
        raw = np.asarray(generator.random_raw(skipped + len(matches)), np.uint64)
        rows = draw == k
        uniform[rows] = (raw[skipped + match[rows]] >> np.uint64(11)) * 2.0**-53
    return uniform


def _ask(
    tree: HistoryTree, named_player: tuple[str, Player], player: int, histories: IntArray
) -> tuple[FloatArray, IntArray]:
    """`[H, A]` a player's validated probabilities, and `[H]` numbers of actions."""
    rows = np.asarray(named_player[1].action_probabilities(tree, player, histories), np.float64)
    count = tree.infosets[player].num_actions[tree.infoset[player, histories]]
    description = f"player {named_player[0]!r} in seat {player}"
    if rows.ndim != 2 or len(rows) != len(histories) or rows.shape[1] < count.max():
        raise ValueError(
            f"{description} returned probabilities of shape {rows.shape}; expected ({len(histories)}, "
            f"{count.max()}), histories and at least the maximum number of actions"
        )
    beyond = np.where(np.arange(rows.shape[1]) < count[:, None], 0.0, rows)
    wrong = ~((rows >= 0).all(axis=1) & (np.abs(rows.sum(axis=1) - 1) <= ROW_TOLERANCE))
    wrong |= (beyond != 0).any(axis=1)
    if wrong.any():
        k = int(np.argmax(wrong))
        raise ValueError(
            f"{description} returned {rows[k].tolist()} after history {tree.moves(int(histories[k]))}; "
            f"expected {count[k]} numbers >= 0 that sum to 1 within {ROW_TOLERANCE}, and 0 beyond"
        )
    return rows, count


def _chance(tree: HistoryTree, histories: IntArray) -> tuple[FloatArray, IntArray]:
    """`[H, A]` weights of chance's outcomes, padded with 0, and `[H]` numbers of outcomes."""
    first = first_child(tree, histories)
    count = first_child(tree, histories + 1) - first
    slot = np.arange(count.max(initial=1))
    child = np.minimum(first[:, None] + slot, tree.num_histories - 1)
    return np.where(slot < count[:, None], tree.chance[child], 0.0), count


def _draw(weights: FloatArray, row: IntArray, uniform: FloatArray) -> IntArray:
    """`[games]` first index at which the cumulative sum of `weights[row]` exceeds the fraction `uniform`."""
    total = np.cumsum(weights, axis=1)
    share = uniform * total[row, -1]  # below the total, as no number is above 1 - 2⁻⁵³
    low = np.zeros(len(row), np.int64)
    high = np.full(len(row), weights.shape[1] - 1)
    for _ in range((weights.shape[1] - 1).bit_length()):
        middle = (low + high) // 2
        passed = total[row, middle] <= share
        low, high = np.where(passed, middle + 1, low), np.where(passed, high, middle)
    return low
