"""Matches between players, in batches, and exact expected results for known policies.

Head-to-head tables as in Kubíček, Lisý and Sandholm (2026), §8.1 and B.3. Here every match is played in both
seatings, which share chance. Plain NumPy.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import pandas as pd

from jaxgadget.core.results import NO_FAILURES, LaneResult
from jaxgadget.games.checks import check_machine
from jaxgadget.games.game import Move
from jaxgadget.games.machine import StateMachine, StateStrategy
from jaxgadget.policy.bots import Bot, OpenSpielBot, is_bot
from jaxgadget.policy.identity import fingerprint, player_identity
from jaxgadget.policy.match_folder import open_matches
from jaxgadget.policy.openspiel import is_state_policy
from jaxgadget.policy.player import Baseline, Player, PolicyPlayer, StatePlayer, play_games
from jaxgadget.policy.policy import Policy, PolicyLike, as_policy
from jaxgadget.policy.positions import Positions, StatePositions, TreePositions
from jaxgadget.policy.states import StrategyPlayer, check_strategy
from jaxgadget.tree.contract import CONSTANT_SUM_TOLERANCE
from jaxgadget.tree.history import HistoryTree, check_whole
from jaxgadget.util.arguments import check_whole_number
from jaxgadget.util.arrays import FloatArray, IntArray

GAMES_AT_ONCE = 2**19
"""Maximum number of games per batch; results do not depend on it."""

TERMINAL_CELLS = 2**22
"""Number of terminals × lanes per block of expectations."""

NORMAL_QUANTILE = 1.959963984540054
"""Half width of a 95 % confidence interval, in standard errors."""

_SIGN = np.array([[1], [-1]])
"""Sign of player 0's payoff for the row, as player 0 and as player 1."""

EVERY = 100
"""Default number of matches of each pair in a part of a checkpoint."""

MatchPlayer: TypeAlias = "Player | StatePlayer | StateStrategy | PolicyLike | Bot | tuple[Bot, Bot]"
"""Accepted forms of players."""

Pairs = Sequence[Sequence[int | str]]
"""Pairs of row and column, by index or name."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Matches(LaneResult):
    """Results of matches; `table` has one row per pair, from the row player's perspective.

    `win_rate` is wins + ½ draws, `mean_return` the row's mean return per game, in the game's own units (in a
    constant-sum game a win is more than half of the constant); both are means over the two seatings, and
    `…_first` and `…_second` are those as player 0 and as player 1. `ci95` and `return_ci95` are half widths
    of 95 % confidence intervals of `win_rate` and `mean_return`. **The unit of independence is a match, both
    seatings together**: intervals use the normal approximation with the standard deviation of the matches'
    scores; they are NaN for a single match and 0 if all scores are equal. Pairs share chance and draws, so
    two rows are not independent, and (a, b) and (b, a) are the same matches.

    Attributes:
      games: all finished games.
      names: names of the players.
      pairs: row and column of every pair, indices into `names`.
      seed: seed of chance and of the players' actions.
      numbers: `[pairs, 2, matches]` index in `games`: with the row as player 0, then with the column.
      luck: `[games]` player 0's luck in each game by a baseline, with mean 0; None without a baseline.
    """

    failures = NO_FAILURES

    games: Positions
    names: tuple[str, ...]
    pairs: tuple[tuple[int, int], ...]
    seed: int
    numbers: IntArray
    luck: FloatArray | None = None

    @property
    def ends(self) -> IntArray:
        """`[pairs, 2, matches]` terminal histories, of games in a tree."""
        if not isinstance(self.games, TreePositions):
            raise ValueError(
                f"ends: {self.games.game} was not played in a tree; expected moves(row, column, …)"
            )
        return self.games.history[self.numbers]

    @property
    def message(self) -> str:
        """One-sentence summary of the matches, and the widest confidence interval."""
        width = float(_half_width(self._returns.mean(axis=1)).max())
        wider = (
            f"mean returns within ± {width:.3g}"
            if math.isfinite(width)
            else "play several matches for a confidence interval"
        )
        return (
            f"{self.numbers.shape[2]} match(es) of each pair in {self.games.game}, seed {self.seed}; {wider}"
        )

    def moves(self, row: int | str, column: int | str, match: int) -> tuple[tuple[Move, ...], ...]:
        """The moves of both seatings of a match: row first, then column first.

        Raises:
          ValueError: if the pair or the match was not played.
        """
        ((a, b),) = _check_pairs(self.names, [(row, column)])
        if (a, b) not in self.pairs:
            raise ValueError(f"row={row!r}, column={column!r}: not played; expected one of the pairs given")
        check_whole_number("match", match, 0, self.numbers.shape[2] - 1)
        numbers = self.numbers[self.pairs.index((a, b)), :, match]
        return tuple(map(self.games.moves, numbers.tolist()))

    @property
    def wins_are_equal(self) -> bool:
        """True if every win in these matches pays the same."""
        payoff = self.games.payoff
        return _are_equal(payoff, self.games.largest_payoff + abs(self.games.constant) / 2)

    @property
    def lane_columns(self) -> dict[str, Any]:
        """Row and column."""
        names, (row, column) = np.asarray(self.names, object), np.asarray(self.pairs).T
        return {"row": names[row], "column": names[column]}

    @property
    def number_columns(self) -> dict[str, Any]:
        """Number of matches, win rates, mean returns and half widths of their confidence intervals."""
        outcome = _outcomes(self.games.payoff, self.games.largest_payoff + abs(self.games.constant) / 2)
        score = (1 + _SIGN * outcome[self.numbers]) / 2
        returns = self._returns
        return {
            "matches": self.numbers.shape[2],
            **_columns(score.mean(axis=2), returns.mean(axis=2)),
            "ci95": _half_width(score.mean(axis=1)),
            "return_ci95": _half_width(returns.mean(axis=1)),
            **self._adjusted,
        }

    @property
    def _adjusted(self) -> dict[str, Any]:
        """Mean returns without luck, and half widths of their confidence intervals; with a baseline."""
        if self.luck is None:
            return {}
        scores = (self._returns - _SIGN * self.luck[self.numbers]).mean(axis=1)
        return {"adjusted_return": scores.mean(axis=1), "adjusted_ci95": _half_width(scores)}

    @property
    def _returns(self) -> FloatArray:
        """`[pairs, 2, matches]` the row's returns."""
        return _SIGN * self.games.payoff[self.numbers] + self.games.constant / 2


def are_wins_equal(tree: HistoryTree) -> bool:
    """True if every win pays the same, so that win rates and mean returns are equivalent; false for poker."""
    ends = TreePositions(tree, tree.terminals)
    return _are_equal(ends.payoff, ends.largest_payoff + abs(ends.constant) / 2)


def _are_equal(payoff: FloatArray, largest_return: float) -> bool:
    sizes = np.abs(payoff[_outcomes(payoff, largest_return) != 0])
    return bool(np.ptp(sizes) <= CONSTANT_SUM_TOLERANCE * sizes.max()) if len(sizes) else True


def play_matches(
    policy: PolicyLike | Sequence[PolicyLike],
    *,
    matches: int,
    seed: int,
    pairs: Pairs | None = None,
    tree: HistoryTree | None = None,
) -> Matches:
    """Plays a round robin among the lanes of a policy, each in both seats.

    Every match is played in both seatings with the same chance, as described in `play_players`.

    Args:
      policy: the players, one lane each: a `Policy`, anything that `as_policy` accepts, or several of these
        for one tree, which are stacked.
      matches: number of matches of each pair, of two games each.
      seed: seed of the matches, in [0, 2^64).
      pairs: rows and columns, by lane or label; by default every lane against every other one.
      tree: tree of the policies; by default that of the first one.

    Raises:
      ValueError: if `matches` is not positive, the seed is not a whole number in range, a lane is
        unknown, labels repeat, or policies belong to different games.
    """
    policy = _stacked(policy, tree)
    players = {label: PolicyPlayer(policy, lane) for lane, label in enumerate(policy.labels)}
    return play_players(policy.histories, players, matches=matches, seed=seed, pairs=pairs)


def play_players(
    tree: HistoryTree | StateMachine[Any],
    players: Mapping[str, MatchPlayer],
    *,
    matches: int,
    seed: int,
    pairs: Pairs | None = None,
    baseline: Baseline | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    every: int = EVERY,
) -> Matches:
    """Plays a round robin among any players, level by level, with all games of a batch in each step.

    In match m chance and each seat use separate random numbers, one per move: uniform in [0, 1), determined
    by (seed, m, chance or seat, number of its moves so far). Both seatings and all pairs share them, so
    chance only differs as a consequence of players' actions, and equal players have equal results. A match
    depends only on the seed, its index and its two players: `replay` repeats a single match, and the first
    100 of 1,000 matches are those of a run of 100. A pair and its mirror image are played once.

    Args:
      tree: the game's histories, to the end; or a `StateMachine`, whose histories are not enumerated.
      players: players by name: `Player`s in a tree, `StatePlayer`s of a `StateMachine`. Both accept policies
        with one lane, as for `as_policy`, networks, and OpenSpiel bots or pairs of them (see `OpenSpielBot`).
      matches: number of matches of each pair, of two games each.
      seed: seed of the matches, in [0, 2^64).
      pairs: rows and columns, by index or name; by default all pairs of different players.
      baseline: a function that estimates player 0's payoffs `[n]` in n games, `TreePositions` or
        `StatePositions`, such as the `baseline` of a critic. The table then also has the means of returns
        minus luck (`adjusted_return`) and the half widths of their intervals, which are narrower for better
        estimates (AIVAT, see `play_games`).
      checkpoint: folder for the finished games of each part of the matches; a later call with the same
        arguments, or with more matches, resumes from it. After any interruption results are the same to the
        last bit, on machines of one kind. Players and `baseline` must have an identity (see `Player`).
      every: with a checkpoint, number of matches of each pair in a part; an interruption loses at most one
        part. Choose 1 for players that search for seconds.

    Raises:
      ValueError: as `play_matches`; or if a player is invalid or does not return distributions, a
        `StateMachine` does not follow its rules (`check_machine`), or the checkpoint is of other players,
        another game, seed or part size, in use, or damaged.
    """
    start, checked = _start(tree), _check_players(tree, players)
    check_whole_number("matches", matches, 1)
    check_whole_number("seed", seed, 0, 2**64 - 1)
    names = tuple(checked)
    chosen = _check_pairs(names, pairs)
    seatings = sorted({seating for row, column in chosen for seating in ((row, column), (column, row))})
    seating_idx = {seating: k for k, seating in enumerate(seatings)}
    size = max(1, GAMES_AT_ONCE // len(seatings))
    request: dict[str, Any] = {}
    if checkpoint is not None:
        size = min(size, check_whole_number("every", every, 1))
        request = _request(tree, players, baseline) | {"seatings": seatings, "seed": seed, "every": size}
    parts = [range(matches)[begin : begin + size] for begin in range(0, matches, size)]
    batches = list[tuple[Positions, FloatArray]]()
    with open_matches(checkpoint, request, matches) as store:
        for number, part in enumerate(parts):
            played = None if store is None else store.read(number, part, start)
            if played is None:
                if store is not None:
                    _restart(checked.values())
                played = play_games(start, tuple(checked.items()), seatings, seed, part, baseline)
                if store is not None:
                    store.write(number, part, *played)
            batches.append(played)
    games = batches[0][0].join([games for games, _ in batches[1:]])
    offsets = np.cumsum([0, *(len(part) * len(seatings) for part in parts[:-1])])
    numbers = np.concatenate(
        [
            offset + np.arange(len(part) * len(seatings)).reshape(len(seatings), len(part))
            for offset, part in zip(offsets.tolist(), parts, strict=True)
        ],
        axis=1,
    )
    seating_pairs = [[seating_idx[row, column], seating_idx[column, row]] for row, column in chosen]
    return Matches(
        games=games,
        names=names,
        pairs=chosen,
        seed=seed,
        numbers=numbers[seating_pairs],
        luck=None if baseline is None else np.concatenate([luck for _, luck in batches]),
    )


def replay(
    policy: PolicyLike | Sequence[PolicyLike],
    row: int | str,
    column: int | str,
    match: int,
    seed: int,
    *,
    tree: HistoryTree | None = None,
) -> tuple[tuple[Move, ...], ...]:
    """Replays one match of `play_matches`: the moves of both seatings, row first, then column first.

    Raises:
      ValueError: as `play_matches`, or if `match` is not an integer >= 0.
    """
    policy = _stacked(policy, tree)
    players = {label: PolicyPlayer(policy, lane) for lane, label in enumerate(policy.labels)}
    return replay_players(policy.histories, players, row, column, match, seed)


def replay_players(
    tree: HistoryTree | StateMachine[Any],
    players: Mapping[str, MatchPlayer],
    row: int | str,
    column: int | str,
    match: int,
    seed: int,
) -> tuple[tuple[Move, ...], ...]:
    """Replays one match of `play_players`: the moves of both seatings."""
    start, players = _start(tree), _check_players(tree, players)
    check_whole_number("match", match, 0, 2**64 - 1)
    check_whole_number("seed", seed, 0, 2**64 - 1)
    ((a, b),) = _check_pairs(tuple(players), [(row, column)])
    games, _ = play_games(start, tuple(players.items()), [(a, b), (b, a)], seed, range(match, match + 1))
    return games.moves(0), games.moves(1)


def expected_matches(
    policy: PolicyLike | Sequence[PolicyLike],
    pairs: Pairs | None = None,
    *,
    tree: HistoryTree | None = None,
) -> pd.DataFrame:
    """Exact expectation of the table of `play_matches`, by summation over all terminals.

    The columns are those of `Matches.table` without `matches`, `ci95` and `return_ci95`.

    Args:
      policy: the players, one lane each, as for `play_matches`.
      pairs: rows and columns, by lane or label; by default every lane against every other one.
      tree: tree of the policies; by default that of the first one.

    Raises:
      ValueError: if a lane is unknown, labels repeat, or policies belong to different games.
    """
    policy = _stacked(policy, tree)
    tree, lanes = policy.histories, policy.num_lanes
    check_whole(tree)
    row, column = np.asarray(_check_pairs(policy.labels, pairs)).T
    reach = [policy.reach(player) for player in (0, 1)]
    outcome, payoff = np.zeros((lanes, lanes)), np.zeros((lanes, lanes))
    size = max(1, TERMINAL_CELLS // lanes)
    outcomes = _terminal_outcomes(tree)
    for begin in range(0, tree.num_terminals, size):
        ends = tree.terminals[begin : begin + size]
        first = reach[0][tree.sequence[0, ends]] * tree.chance[ends, None]
        second = reach[1][tree.sequence[1, ends]]
        outcome += (first * outcomes[begin : begin + size, None]).T @ second
        payoff += (first * tree.payoff[ends, None]).T @ second
    score = (1 + np.stack([outcome[row, column], -outcome[column, row]], axis=1)) / 2
    returns = np.stack([payoff[row, column], -payoff[column, row]], axis=1) + tree.constant / 2
    names = np.asarray(policy.labels, object)
    return pd.DataFrame({"row": names[row], "column": names[column], **_columns(score, returns)})


def worst_matchup(frame: pd.DataFrame) -> pd.DataFrame:
    """The row of each player against the opponent with the lowest `win_rate`, excluding itself.

    As in the paper's Figure 4. A minimum over estimates from matches is biased downwards.

    Args:
      frame: from `Matches.table` or `expected_matches`.

    Raises:
      ValueError: if there is no pair of different players.
    """
    others = frame[frame["row"] != frame["column"]].reset_index(drop=True)
    if others.empty:
        raise ValueError("frame has no pair of different players; expected at least one")
    worst = others.groupby("row", sort=False)["win_rate"].idxmin()
    return others.loc[worst].reset_index(drop=True)


def _start(tree: HistoryTree | StateMachine[Any]) -> Positions:
    """A game before its first move."""
    if isinstance(tree, StateMachine):
        check_machine(tree)
        return StatePositions.start(tree, 1)
    return TreePositions(check_whole(tree), np.zeros(1, np.int64))


def _check_players(tree: HistoryTree | StateMachine[Any], players: object) -> dict[str, Player | StatePlayer]:
    """Returns players by name, wrapping policies; raises ValueError for other objects."""
    if not isinstance(players, Mapping):
        raise ValueError(f"players={players!r}: expected a dictionary of names and players")
    checked: dict[str, Player | StatePlayer] = {}
    for name, player in cast("Mapping[str, Any]", players).items():
        if isinstance(player, Policy):
            checked[name] = _policy_player(player, name)
        elif is_bot(player):
            checked[name] = OpenSpielBot(player)
        elif isinstance(tree, StateMachine):
            if not isinstance(player, type) and hasattr(player, "state_probabilities"):
                checked[name] = player
            else:
                checked[name] = StrategyPlayer(check_strategy(player, tree, name=f"player {name!r}"))
        elif isinstance(player, type) or not (
            isinstance(player, Mapping) or hasattr(player, "action_probabilities")
        ):
            raise ValueError(f"player {name!r} is {player!r}; expected a `Player` or a policy")
        elif isinstance(player, Mapping) or is_state_policy(player):
            checked[name] = _policy_player(as_policy(cast(Any, player), tree, name=f"player {name!r}"), name)
        else:
            checked[name] = player
    return checked


def _request(
    tree: HistoryTree | StateMachine[Any], players: Mapping[str, Any], baseline: Baseline | None
) -> dict[str, Any]:
    """Identities of the game, the players by name and the baseline, for resumed matches."""
    return {
        "game": tree.name if isinstance(tree, StateMachine) else [tree.game.name, fingerprint(tree)],
        "players": {name: player_identity(f"player {name!r}", player) for name, player in players.items()},
        "baseline": None if baseline is None else player_identity("baseline", baseline),
    }


def _restart(players: Iterable[Player | StatePlayer]) -> None:
    """Calls `restart` of all players that have it."""
    for player in players:
        if hasattr(player, "restart"):
            cast(Any, player).restart()


def _policy_player(policy: Policy, name: str) -> PolicyPlayer:
    """A policy with one lane as a player."""
    if policy.num_lanes != 1:
        raise ValueError(
            f"player {name!r} is {policy!r}; expected PolicyPlayer(policy, lane) for a policy with "
            "several lanes"
        )
    return PolicyPlayer(policy)


def _stacked(policy: PolicyLike | Sequence[PolicyLike], tree: HistoryTree | None) -> Policy:
    """Stacks policies; labels must be unique."""
    policy = as_policy(policy, tree)
    twice = [label for label, count in collections.Counter(policy.labels).items() if count > 1]
    if twice:
        raise ValueError(f"duplicate labels {', '.join(map(repr, twice))}; expected a unique label per lane")
    return policy


def _check_pairs(names: tuple[str, ...], pairs: Pairs | None) -> tuple[tuple[int, int], ...]:
    """Indices of the rows and columns in `names`."""
    if pairs is None:
        pairs = list(itertools.permutations(range(len(names)), 2))
        if not pairs:
            raise ValueError(f"players {list(names)}: expected at least two, or pairs")
    identifiers = [*names, *range(len(names))]
    numbers: list[tuple[int, int]] = []
    for pair in pairs:
        if (
            not isinstance(pair, tuple | list)
            or len(pair) != 2
            or not all(who in identifiers for who in pair)
        ):
            raise ValueError(
                f"pair {pair!r}: expected (row, column), each one of {list(names)} or a number below "
                f"{len(names)}"
            )
        row, column = (identifiers.index(who) % len(names) for who in pair)
        numbers.append((row, column))
    if not numbers:
        raise ValueError("pairs is empty; expected at least one pair (row, column)")
    return tuple(numbers)


def _outcomes(payoff: FloatArray, largest_return: float) -> FloatArray:
    """1 where player 0 wins, -1 where player 1 wins, 0 for a draw, in the shape of `payoff`."""
    is_draw = np.abs(payoff) <= CONSTANT_SUM_TOLERANCE * largest_return
    return np.where(is_draw, 0.0, np.sign(payoff))


def _terminal_outcomes(tree: HistoryTree) -> FloatArray:
    """`[num_terminals]` outcomes of a tree's terminals."""
    ends = TreePositions(tree, tree.terminals)
    return _outcomes(ends.payoff, ends.largest_payoff + abs(ends.constant) / 2)


def _columns(score: FloatArray, returns: FloatArray) -> dict[str, FloatArray]:
    """Columns of the row player's win rates and mean returns, given results `[pairs, 2]` in both seats."""
    columns: dict[str, FloatArray] = {}
    for name, values in (("win_rate", score), ("mean_return", returns)):
        columns |= {name: values.mean(axis=1), f"{name}_first": values[:, 0], f"{name}_second": values[:, 1]}
    return columns


def _half_width(scores: FloatArray) -> FloatArray:
    """`[pairs]` half width of the 95 % confidence interval of the mean of `[pairs, matches]`."""
    count = scores.shape[1]
    if count < 2:
        return np.full(len(scores), np.nan)
    return NORMAL_QUANTILE * scores.std(axis=1, ddof=1) / np.sqrt(count)
