"""How good policies are in the full game: values, best responses, exploitability, NashConv.

Always in float64, compiled once a tree, all lanes at once.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import numpy as np
from jax.typing import DTypeLike

from jaxgadget.kernels import response
from jaxgadget.kernels.batch import Batch
from jaxgadget.kernels.cfr import averages
from jaxgadget.kernels.payoff import build_payoff, terminal_payoff
from jaxgadget.kernels.problem import (
    Parts,
    Problem,
    best_values_up,
    evaluation_game,
    follow,
    payoff_reach,
)
from jaxgadget.kernels.regret import PCFR_PLUS
from jaxgadget.policy.policy import Policy, PolicyLike, as_policy
from jaxgadget.solving.driver import Finished, solve
from jaxgadget.solving.options import SolveOptions, check_iterations
from jaxgadget.tree.history import HistoryTree, check_tree
from jaxgadget.tree.sequence import Treeplexes, sequence_form, whole_treeplexes
from jaxgadget.util.arguments import check_player, is_finite_number
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.compilation import compile_quickly
from jaxgadget.util.precision import precision
from jaxgadget.util.progress import progress_bar

VALUE_TOLERANCE = 1e-6
"""Width of the game value's bracket that is asked for, as a share of the payoff range."""

EVALUATION_SIZE = 1e6
"""Sequences and terminals × lanes that are evaluated at a time."""

MOST_LAID_OUT = 1 << 22
"""Games with more terminals are evaluated terminal by terminal. With the 25.4 million of Goofspiel 7 the
first evaluation, of seven lanes on two cores, takes 6 s and 0.7 GiB and another lane 0.4 s; with the payoff
as rows, which solvers have, 44 s, 2.7 GiB and 0.9 s."""

VALUE_WORK = 3e8
"""Terminals and sequences × iterations that the bracket may cost by default: seconds."""

evaluate_parts = compile_quickly(response.evaluate)
_averages = compile_quickly(averages)


def whole_problem(tree: HistoryTree, num_lanes: int, dtype: DTypeLike) -> Problem:
    """The whole game on the device, built once a tree, precision and number of lanes.

    What counts as no regret is 0; the driver fills it in.
    """
    key = ("whole game", np.dtype(dtype), num_lanes)
    if key not in tree.cache:
        with precision(dtype):
            form = sequence_form(tree)
            tree.cache[key] = evaluation_game(form, build_payoff(form.payoff, dtype), num_lanes, dtype)
    return tree.cache[key]


def to_parts(form: Treeplexes, policy: Policy, dtype: DTypeLike) -> tuple[Parts, Parts]:
    """A policy as strategies of treeplexes (with no entry)."""
    empty = jax.device_put(np.zeros((0, policy.num_lanes), dtype))
    parts: list[Parts] = []
    for player in (0, 1):
        sequence = form.action_sequences(player)
        rows = np.where(sequence[:, None] >= 0, policy.probabilities[player][sequence - 1], 0)
        parts.append(Parts(empty, jax.device_put(np.asarray(rows, dtype))))
    return parts[0], parts[1]


def to_policy(tree: HistoryTree, form: Treeplexes, body: tuple[Any, Any], labels: tuple[str, ...]) -> Policy:
    """Strategies of the whole game's treeplexes as a policy; rows are normalised in float64."""
    pair: list[FloatArray] = []
    for player in (0, 1):
        rows = np.zeros((tree.infosets[player].num_sequences - 1, len(labels)))
        sequence = form.action_sequences(player)
        rows[sequence[sequence >= 0] - 1] = np.asarray(body[player], np.float64)[sequence >= 0]
        pair.append(normalise_rows(rows, tree.infosets[player].infoset[1:]))
    return Policy(tree, (pair[0], pair[1]), labels)


def normalise_rows(rows: FloatArray, infoset: IntArray) -> FloatArray:
    """Divides the rows of every infoset by their sum."""
    if len(rows) == 0:
        return rows
    starts = np.nonzero(np.diff(infoset, prepend=-1))[0]
    return rows / np.add.reduceat(rows, starts, axis=0)[infoset]


@dataclasses.dataclass(frozen=True)
class ProfileValues:
    """Values of profiles, one a lane.

    Attributes:
      value: `[lanes]` what player 0 gets under the profile.
      best_response_values: `[2, lanes]` what player 1 gets at best against player 0's policy,
        then player 0 against player 1's.
    """

    value: FloatArray
    best_response_values: FloatArray

    @property
    def nash_conv(self) -> FloatArray:
        """`[lanes]` sum of both players' gains by best responses; twice OpenSpiel's `exploitability`."""
        return self.best_response_values.sum(axis=0)


def evaluate_policy(policy: PolicyLike, *, tree: HistoryTree | None = None) -> ProfileValues:
    """Expected values and best-response values of every lane, so many at a time.

    Args:
      policy: a `Policy`, or with a tree what else `as_policy` takes.
      tree: for which tree; by default the policy's.
    """
    policy = as_policy(policy, tree)
    tree, form = policy.tree, whole_treeplexes(policy.tree)
    problem = _evaluation_problem(tree)
    values: list[FloatArray] = []
    with precision(np.float64):
        for lanes in _chunks(policy, problem.num_lanes):
            evaluation = evaluate_parts(problem, to_parts(form, lanes, np.float64))
            values.append(np.concatenate([np.asarray(x) for x in (evaluation.value, *evaluation.guaranteed)]))
    value, first, second = np.concatenate(values, axis=1)[:, : policy.num_lanes]
    return ProfileValues(value, -np.stack([first, second]))


def _evaluation_problem(tree: HistoryTree) -> Problem:
    """The whole game with a fixed number of lanes, so that every evaluation runs one program."""
    if "evaluation" not in tree.cache:
        form = whole_treeplexes(tree)
        size = tree.num_terminals + sum(treeplex.num_sequences for treeplex in form.treeplex)
        lanes = int(np.clip(EVALUATION_SIZE / size, 1, 16))
        with precision(np.float64):
            if tree.num_terminals > MOST_LAID_OUT:
                payoff = terminal_payoff(form, np.float64)
            else:
                payoff = build_payoff(sequence_form(tree).payoff, np.float64)
            tree.cache["evaluation"] = evaluation_game(form, payoff, lanes, np.float64)
    return tree.cache["evaluation"]


def _chunks(policy: Policy, size: int) -> Iterator[Policy]:
    """The lanes of a policy, `size` at a time; the last one is filled up with copies."""
    for begin in range(0, policy.num_lanes, size):
        lanes = [min(begin + i, policy.num_lanes - 1) for i in range(size)]
        first, second = (rows[:, lanes] for rows in policy.probabilities)
        yield Policy(policy.tree, (first, second), tuple(policy.labels[lane] for lane in lanes))


def nash_conv(policy: PolicyLike, *, tree: HistoryTree | None = None) -> FloatArray:
    """`[lanes]` NashConv: the sum of what both players gain by best responses, minus a game's constant.

    Args:
      policy: a `Policy`, or with a tree what else `as_policy` takes.
      tree: for which tree; by default the policy's.
    """
    return evaluate_policy(policy, tree=tree).nash_conv


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class BestResponse:
    """A player's best response to the other's policy.

    Attributes:
      policy: the given policy with the player's rows replaced by a pure best response.
      value: `[lanes]` what the player gets.
      action_values: `[Q, lanes]` counterfactual best-response value of every action.
      infoset_values: `[I, lanes]` counterfactual best-response value of every infoset: the best
        action's value, weighted by the reach of chance and the other player.
    """

    policy: Policy
    value: FloatArray
    action_values: FloatArray
    infoset_values: FloatArray

    def __repr__(self) -> str:
        return f"<BestResponse: value {self.value}, {self.policy!r}>"


@functools.partial(compile_quickly, static_argnames=("player",))
def best_values(problem: Problem, strategy: tuple[Parts, Parts], player: int) -> tuple[Any, Any, Any]:
    """Of a best response of `player`: its value, and counterfactual values of actions and infosets."""
    plans = [follow(problem.sides[p], problem.terms[p], strategy[p]) for p in (0, 1)]
    first, second = (payoff_reach(problem.sides[p], problem.terms[p], plans[p]) for p in (0, 1))
    gradient, _ = problem.payoff.gradient(player, (first, second), None)
    best = best_values_up(problem.sides[player], problem.terms[player], gradient)
    return best.subgames, best.actions.body, best.infosets.body


def best_response(policy: PolicyLike, player: int, *, tree: HistoryTree | None = None) -> BestResponse:
    """A pure best response of `player` to the other player's part of a policy, lane by lane.

    Of equally good actions the first is taken.

    Args:
      policy: a `Policy`, or with a tree what else `as_policy` takes.
      player: 0 or 1, who responds.
      tree: for which tree; by default the policy's.

    Raises:
      ValueError: if `player` is not 0 or 1.
    """
    check_player(player)
    policy = as_policy(policy, tree)
    tree, form = policy.tree, whole_treeplexes(policy.tree)
    problem = _evaluation_problem(tree)
    chunks: list[list[FloatArray]] = []
    with precision(np.float64):
        for lanes in _chunks(policy, problem.num_lanes):
            best = best_values(problem, to_parts(form, lanes, np.float64), player)
            chunks.append([np.asarray(part) for part in best])
    value, q, v = (
        np.concatenate(parts, axis=1)[:, : policy.num_lanes] for parts in zip(*chunks, strict=True)
    )
    infosets = tree.infosets[player]
    action_values = np.zeros((infosets.num_sequences - 1, policy.num_lanes))
    action_values[form.action_sequences(player) - 1] = q
    infoset_values = np.zeros((len(infosets), policy.num_lanes))
    infoset_values[form.treeplex[player].infoset] = v
    rows = np.zeros_like(action_values)
    for infoset, (first, count) in enumerate(
        zip((infosets.first_sequence - 1).tolist(), infosets.num_actions.tolist(), strict=True)
    ):
        best = infoset_values[infoset] - action_values[first : first + count]
        rows[first + np.argmin(best, axis=0), np.arange(policy.num_lanes)] = 1
    pair = (rows, policy.probabilities[1]) if player == 0 else (policy.probabilities[0], rows)
    return BestResponse(Policy(tree, pair, policy.labels), value[0], action_values, infoset_values)


def game_value(
    tree: HistoryTree,
    *,
    tolerance: float = VALUE_TOLERANCE,
    iterations: int | None = None,
    progress: bool | None = None,
) -> tuple[float, float]:
    """Brackets the value of the game for player 0, by predictive CFR+ with its own certificate.

    Args:
      tree: the game's histories.
      tolerance: stop when the bracket is narrower than this share of the payoff range.
      iterations: stop after that many in any case; by default what seconds can do.
      progress: a bar, or a line a minute in a log; by default a bar, on a terminal or in a notebook.

    Returns:
      `(low, high)`: what player 0's average policy guarantees, and what player 1's concedes.
    """
    check_tree(tree)
    if not is_finite_number(tolerance) or tolerance < 0:
        raise ValueError(f"tolerance={tolerance!r}: expected a number >= 0, a share of the payoff range")
    form = whole_treeplexes(tree)
    size = tree.num_terminals + sum(treeplex.num_sequences for treeplex in form.treeplex)
    limit = max(200, int(VALUE_WORK / size)) if iterations is None else check_iterations(iterations)
    key = ("game value", tolerance, limit)
    if key not in tree.cache:
        with progress_bar("value of the game", limit, progress) as report:
            tree.cache[key] = _bracket(tree, tolerance * tree.payoff_range, limit, report)
    return tree.cache[key]


def _bracket(
    tree: HistoryTree, width: float, limit: int, report: Callable[[int], None]
) -> tuple[float, float]:
    def best_responses(bodies: tuple[jax.Array, jax.Array]) -> FloatArray:
        policy = to_policy(tree, whole_treeplexes(tree), bodies, ("value",))
        return evaluate_policy(policy).best_response_values[:, 0]

    return bracket_value(whole_problem(tree, 1, np.float64), best_responses, width, limit, report)


def bracket_value(
    problem: Problem,
    best_responses: Callable[[tuple[jax.Array, jax.Array]], FloatArray],
    width: float,
    limit: int,
    report: Callable[[int], None],
) -> tuple[float, float]:
    """Brackets the value of a game for player 0.

    Args:
      problem: the game, one lane.
      best_responses: for both players' strategies `[Q, 1]`, what player 1 gets at best against player 0's,
        then player 0 against player 1's.
      width: stop when the bracket is no wider.
      limit: stop after so many iterations in any case.
      report: is told the number of iterations done.
    """
    game = Batch.of(problem, "game value")
    options = SolveOptions(rule=PCFR_PLUS.general(), dtype=np.dtype(problem.dtype))
    state, done, low, high = None, 0, -np.inf, np.inf
    while done < limit and not high - low <= width:
        done = min(max(done + done // 4, 100), limit)
        options = dataclasses.replace(options, iterations=done)
        solved = solve(game, options, average_bodies, state=state, keep_state=True)
        state = solved.state
        second_gets, first_gets = best_responses(solved.outcome).tolist()
        low, high = max(low, -second_gets), min(high, first_gets)
        report(done)
    return low, high


def average_bodies(ended: Finished) -> tuple[jax.Array, jax.Array]:
    """Both players' average strategies `[Q, lanes]` of a finished solve, in its precision."""
    with precision(ended.problem.dtype):
        first, second = (parts.body for parts in _averages(ended.problem, ended.state.strategy_sum))
    return first, second


def exploitability(
    policy: PolicyLike,
    player: int,
    *,
    value: tuple[float, float] | None = None,
    tree: HistoryTree | None = None,
) -> FloatArray:
    """`[lanes]` how much worse than the game's value a player's policy does in the worst case.

    This is `v* − value against a best response`, in that player's utility (the papers' E).
    OpenSpiel's `exploitability` is another number: half of `nash_conv`.

    Args:
      policy: what is evaluated, a `Policy` or with a tree what else `as_policy` takes; only `player`'s part
        counts.
      player: 0 or 1.
      value: bracket of player 0's game value, else `game_value(policy.tree)`; its middle is used.
      tree: for which tree; by default the policy's.
    """
    check_player(player)
    policy = as_policy(policy, tree)
    check_value(value, policy.tree)
    low, high = game_value(policy.tree) if value is None else value
    middle = (low + high) / 2 * (1 if player == 0 else -1)
    return middle + evaluate_policy(policy).best_response_values[player]


def check_bracket(value: object) -> tuple[float, float]:
    """The two ends of a bracket; ValueError unless they are finite numbers, the lower one first."""
    given: Any = value
    bounds: list[Any] = list(given) if isinstance(given, Iterable) else []
    low, high = bounds if len(bounds) == 2 and all(map(is_finite_number, bounds)) else (np.nan, np.nan)
    if not low <= high:
        raise ValueError(f"value={value!r}: expected (low, high), a bracket of player 0's value of the game")
    return low, high


def check_value(value: tuple[float, float] | None, tree: HistoryTree) -> None:
    """ValueError unless None or a bracket: two finite numbers, the lower one first, that the game can pay."""
    if value is None:
        return
    low, high = check_bracket(value)
    least, most = tree.payoff_bounds
    if high < least - VALUE_TOLERANCE or low > most + VALUE_TOLERANCE:
        raise ValueError(
            f"value={value!r}: player 0's payoffs in {tree.game.name} lie between {least:g} and "
            f"{most:g}; expected a bracket of its value of the game"
        )
