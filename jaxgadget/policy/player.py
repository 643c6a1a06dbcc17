"""Games between players, in batches: one step of all pending games at once.

Chance and both seats use counter-based random numbers, so that a game does not depend on other games.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

from jaxgadget.games.game import ACTOR_BIT, CHANCE, TERMINAL
from jaxgadget.policy.bots import OpenSpielBot
from jaxgadget.policy.policy import Policy, as_policy
from jaxgadget.policy.positions import Positions, StatePositions
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.infosets import Infosets
from jaxgadget.tree.matching import child_after
from jaxgadget.util.arrays import FloatArray, IntArray

AnyPositions = TypeVar("AnyPositions", bound=Positions)

LUCK_GAMES = 1 << 10
"""Maximum number of games whose luck is computed at a time, which evaluates all their moves."""

Baseline: TypeAlias = Callable[[Any], Any]
"""Estimate of player 0's payoff, `[n]`, of n `Positions` that are not at their end."""


class Player(Protocol):
    """A player of matches, in either seat: a policy, or a search at every decision.

    Two optional members serve checkpoints of matches (`play_players`): an attribute `fingerprint`, a string
    or JSON value that is equal for players with equal play, and a method `restart()`, called before each
    part, which discards all state that affects later results, even if only in their last bits.
    """

    def action_probabilities(self, tree: HistoryTree, player: int, histories: IntArray) -> FloatArray:
        """Action probabilities of the player in all pending games.

        Called once per step and seat for all pending games together, unless they fill several batches
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


class StatePlayer(Protocol):
    """A player of matches in games that are not enumerated, in either seat.

    It may have the optional members of `Player`.
    """

    def state_probabilities(self, games: StatePositions, player: int) -> FloatArray:
        """`[n, A]` probabilities of all actions, 0 for illegal ones.

        Called once per step and seat for all pending games together. The result must depend on the infoset
        only; rows must sum to 1 within `policy.ROW_TOLERANCE`, and are normalised.

        Args:
          games: n distinct games, in which the seat acts.
          player: the seat, 0 or 1.
        """
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class PolicyPlayer:
    """A lane of a policy as a `Player` and a `StatePlayer`."""

    policy: Policy
    lane: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "policy", as_policy(self.policy))
        self.policy.lane(self.lane)

    def action_probabilities(self, tree: HistoryTree, player: int, histories: IntArray) -> FloatArray:
        """Rows of the policy; raises ValueError if the tree is of another game."""
        rows = self.policy.on(tree).probabilities[player][:, self.lane]
        return action_rows(tree.infosets[player], tree.infoset[player, histories], rows)

    def state_probabilities(self, games: StatePositions, player: int) -> FloatArray:
        """Rows of the policy, by action; raises ValueError if its tree is of another game."""
        tree = self.policy.histories
        if tree.game.name != games.game:
            raise ValueError(
                f"policy is of {tree.game.name!r}, not of {games.game!r}; expected one of this game"
            )
        history = np.zeros(games.made.shape[-1], np.int64)
        for moves in games.made:
            history = child_after(tree, history, moves)
        infosets, infoset = tree.infosets[player], tree.infoset[player, history]
        rows = action_rows(infosets, infoset, self.policy.probabilities[player][:, self.lane])
        slot = np.arange(rows.shape[1])
        acted = slot < infosets.num_actions[infoset][:, None]
        action = infosets.action[np.where(acted, infosets.first_sequence[infoset][:, None] + slot, 0)]
        chosen = np.zeros((len(history), games.machine.num_actions))
        chosen[np.nonzero(acted)[0], action[acted]] = rows[acted]
        return chosen


def action_rows(infosets: Infosets, infoset: IntArray, probabilities: FloatArray) -> FloatArray:
    """`[H, A]` probabilities of actions at infosets `[H]`, padded with 0, given a player's rows `[Q]`."""
    count = infosets.num_actions[infoset][:, None]
    slot = np.arange(count.max(initial=1))
    row = infosets.first_sequence[infoset][:, None] - 1 + np.minimum(slot, count - 1)
    return np.where(slot < count, probabilities[row], 0.0)


def play_games(
    start: AnyPositions,
    players: Sequence[tuple[str, Player | StatePlayer]],
    seatings: Sequence[tuple[int, int]],
    seed: int,
    matches: range,
    baseline: Baseline | None = None,
) -> tuple[AnyPositions, FloatArray]:
    """Plays games move by move and returns their ends, `[seatings × matches]`, and their luck.

    The luck of a game is the sum over its moves of the baseline after the drawn move minus its expectation
    over all moves, under the probabilities with which they are drawn; it has mean 0. Payoffs minus luck have
    the same mean as payoffs and, for a good baseline, a smaller variance (AIVAT; Burch, Schmid, Moravčík,
    Morrill and Bowling 2018). Without a baseline luck is 0.

    In match m player 0, player 1 and chance use separate random numbers, one per move: uniform in [0, 1),
    determined by (seed, m, actor, number of its moves so far), the same in all seatings. Options are drawn in
    ascending order, so that a game is the same in a tree and in states.

    Args:
      start: one game before its first move.
      players: names and players.
      seatings: indices into `players` of player 0 and player 1.
      seed: the seed, in [0, 2^64).
      matches: indices of the matches, consecutive.
      baseline: function that estimates player 0's payoff in games that are not at their end.

    Raises:
      ValueError: if a player does not return distributions.
    """
    chance = np.full(len(seatings), len(players))  # index of chance, after the players
    seat = np.repeat([*np.asarray(seatings).T, chance], len(matches), axis=1)
    match = np.tile(np.arange(len(matches)), len(seatings))
    games = start.take(np.zeros(len(match), np.int64))
    drawn, luck = np.zeros((3, len(match)), np.int32), np.zeros(len(match))
    while ((actor := games.actor) != TERMINAL).any():
        options, shares = np.full((3, len(match)), -1), dict[int, list[tuple[IntArray, FloatArray]]]()
        for mover, bit in enumerate((*ACTOR_BIT, CHANCE)):
            acting = np.flatnonzero(actor & bit)
            uniform = _uniforms(seed, mover, drawn[mover, acting], matches, match[acting])
            drawn[mover, acting] += 1
            for k in np.unique(seat[mover, acting]).tolist():
                rows = seat[mover, acting] == k
                positions = games.take(acting[rows])
                index = np.arange(len(acting[rows]))
                if not (mover < 2 and _draws(players[k][1], games.game, mover)):
                    positions, index = positions.distinct()
                if mover == 2:
                    weights = positions.chance()
                else:
                    name, player = players[k]
                    weights = positions.ask(name, player, mover)
                options[mover, acting[rows]] = draw_options(weights, index, uniform[rows])
                if baseline is not None:
                    total = weights.sum(axis=1, keepdims=True)
                    shares.setdefault(mover, []).append((acting[rows], (weights / total)[index]))
        if baseline is not None:
            for begin in range(0, len(match), LUCK_GAMES):
                rows = np.arange(begin, min(begin + LUCK_GAMES, len(match)))
                luck[rows] += _luck(games.take(rows), options[:, rows], _of_games(shares, rows), baseline)
        games = games.after(options)
    return games, luck


def _draws(player: Player | StatePlayer, game: str, seat: int) -> bool:
    """True if a player draws an action in each game separately, even in games with the same history."""
    return isinstance(player, OpenSpielBot) and player.draws(game, seat)


def _of_games(
    shares: Mapping[int, Sequence[tuple[IntArray, FloatArray]]], rows: IntArray
) -> dict[int, list[tuple[IntArray, FloatArray]]]:
    """Probabilities of options in consecutive games, which are renumbered from 0."""
    parts_of = dict[int, list[tuple[IntArray, FloatArray]]]()
    for mover, parts in shares.items():
        for acting, table in parts:
            inside = np.flatnonzero((acting >= rows[0]) & (acting <= rows[-1]))
            if len(inside):
                parts_of.setdefault(mover, []).append((acting[inside] - rows[0], table[inside]))
    return parts_of


def _luck(
    games: Positions,
    options: IntArray,
    shares: Mapping[int, Sequence[tuple[IntArray, FloatArray]]],
    baseline: Baseline,
) -> FloatArray:
    """`[n]` the baseline after drawn options minus its expectation, 0 at ends.

    Args:
      games: n games.
      options: `[3, n]` the drawn options.
      shares: for each mover that acts, games and `[games, A]` probabilities of its options.
      baseline: estimates payoffs.
    """
    going = np.flatnonzero(options.max(axis=0) >= 0)
    children, parent, moves = games.take(going).children()
    parent = going[parent]
    weight = np.ones(len(parent))
    for mover, parts in shares.items():
        table = np.zeros((options.shape[1], max(rows.shape[1] for _, rows in parts)))
        for acting, rows in parts:
            table[acting, : rows.shape[1]] = rows
        weight *= np.where(moves[mover] >= 0, table[parent, moves[mover]], 1.0)
    is_over = children.actor == TERMINAL
    value = np.where(is_over, children.payoff, 0.0)
    if not is_over.all():
        value[~is_over] = np.asarray(baseline(children.take(np.flatnonzero(~is_over))), np.float64)
    is_drawn = (moves == options[:, parent]).all(axis=0)
    return np.bincount(parent, value * (is_drawn - weight), options.shape[1]).astype(np.float64)


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


def draw_options(weights: FloatArray, row: IntArray, uniform: FloatArray) -> IntArray:
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
