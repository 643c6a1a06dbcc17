"""Evaluation of policies in the full game: values, best responses, exploitability, NashConv.

Evaluations are in float64, compiled once per tree, for all lanes together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import numpy as np
from jax.typing import DTypeLike

from jaxgadget.core import response
from jaxgadget.core.batch import Batch
from jaxgadget.core.cfr import averages
from jaxgadget.core.devices import HOME, Placement, find_single
from jaxgadget.core.driver import Finished, solve
from jaxgadget.core.payoff import TerminalPayoff, build_payoff
from jaxgadget.core.problem import (
    Parts,
    Problem,
    best_values_up,
    evaluation_game,
    follow,
    payoff_reach,
)
from jaxgadget.core.regret import PCFR_PLUS
from jaxgadget.core.rows import on_host
from jaxgadget.core.solver import Solver, check_iterations
from jaxgadget.policy.policy import Policy, PolicyLike, as_policy
from jaxgadget.tree.history import HistoryTree, check_histories
from jaxgadget.tree.infosets import Infosets
from jaxgadget.tree.public import Tree, check_tree
from jaxgadget.tree.sequence import Treeplexes
from jaxgadget.tree.whole import sequence_form, whole_treeplexes
from jaxgadget.util.arguments import check_player, is_finite_number
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.compilation import compiled
from jaxgadget.util.players import Bracket
from jaxgadget.util.precision import precision
from jaxgadget.util.progress import progress_bar
from jaxgadget.util.viewers import Explorable

VALUE_TOLERANCE = 1e-6
"""Default width of the game value's bracket, as a fraction of the payoff range."""

EVALUATION_SIZE = 1e6
"""Sequences and terminals × lanes that are evaluated at a time."""

TERMINALS_AT_A_TIME = 1 << 20
"""Number of terminals per step of a `TerminalPayoff`."""

MAX_LAID_OUT = 1 << 22
"""Games with more terminals are evaluated terminal by terminal. With the 25.4 million of Goofspiel 7 the
first evaluation, of seven lanes on two cores, takes 6 s and 0.7 GiB, and another lane 0.4 s; with the payoff
as rows, as in solvers, 44 s, 2.7 GiB and 0.9 s."""

VALUE_WORK = 3e8
"""Default budget of the bracket, in (terminals + sequences) × iterations: seconds."""

evaluate_parts = compiled(response.evaluate, quick=True)
_averages = compiled(averages, quick=True)


def find_whole_placement(tree: Tree, dtype: DTypeLike = np.float64) -> Placement:
    """The placement of a solve or evaluation of a whole game with one lane."""
    return find_single(whole_treeplexes(tree).num_sequences, dtype)


def whole_problem(tree: Tree, num_lanes: int, dtype: DTypeLike, placement: Placement = HOME) -> Problem:
    """The whole game on its devices, cached by arguments unless it is large.

    The regret tolerance is 0; the driver fills it in.
    """
    key = ("whole game", np.dtype(dtype), num_lanes, placement.devices)
    if key in tree.cache:
        return tree.cache[key]
    form = sequence_form(tree)
    with precision(dtype):
        payoff = build_payoff(form.payoff, dtype)
        problem = evaluation_game(form.treeplex, payoff, num_lanes, dtype, placement.platform)
        problem = _placed(problem, placement)
    if form.num_sequences <= EVALUATION_SIZE:  # limits the memory of the payoff during evaluation
        tree.cache[key] = problem
    return problem


def _placed(problem: Problem, placement: Placement) -> Problem:
    """The problem, moved to the placement's device if this is a single one other than the default."""
    return problem if placement == HOME else placement.everywhere(problem)


def to_parts(form: Treeplexes, policy: Policy, dtype: DTypeLike) -> tuple[Parts, Parts]:
    """A policy as strategies of treeplexes (with no entry)."""
    empty = on_host(np.zeros((0, policy.num_lanes), dtype))
    parts: list[Parts] = []
    for player in (0, 1):
        sequence = form.action_sequences(player)
        rows = policy.probabilities[player][sequence - 1]
        rows[sequence < 0] = 0
        parts.append(Parts(empty, on_host(np.asarray(rows, dtype))))
    return parts[0], parts[1]


def to_policy(tree: Tree, form: Treeplexes, body: tuple[Any, Any], labels: tuple[str, ...]) -> Policy:
    """Strategies of the whole game's treeplexes as a policy; rows are normalised in float64."""
    pair: list[FloatArray] = []
    for player in (0, 1):
        infosets, sequence = tree.infosets[player], form.action_sequences(player)
        rows = np.zeros((infosets.num_sequences - 1, len(labels)))
        rows[sequence[sequence >= 0] - 1] = np.asarray(body[player], np.float64)[sequence >= 0]
        pair.append(normalise_rows(rows, infosets.infoset[1:]))
    return Policy(tree, (pair[0], pair[1]), labels)


def normalise_rows(rows: FloatArray, infoset: IntArray) -> FloatArray:
    """Divides the rows of every infoset by their sum."""
    if len(rows) == 0:
        return rows
    starts = np.nonzero(np.diff(infoset, prepend=-1))[0]
    return rows / np.add.reduceat(rows, starts, axis=0)[infoset]


@dataclasses.dataclass(frozen=True)
class ProfileValues:
    """Values of profiles, one per lane.

    Attributes:
      value: `[lanes]` expected payoff of player 0 under the profile.
      best_response_values: `[2, lanes]` value of player 1's best response to player 0's policy, then of
        player 0's to player 1's.
    """

    value: FloatArray
    best_response_values: FloatArray

    @property
    def nash_conv(self) -> FloatArray:
        """`[lanes]` sum of both players' gains by best responses; twice OpenSpiel's `exploitability`."""
        return self.best_response_values.sum(axis=0)


def evaluate_policy(policy: PolicyLike, *, tree: Tree | None = None) -> ProfileValues:
    """Expected values and best-response values of every lane, in chunks of lanes.

    Args:
      policy: a `Policy`, or with a tree anything that `as_policy` accepts.
      tree: tree of the policy; by default its own.
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


def _evaluation_problem(tree: Tree) -> Problem:
    """The whole game with a fixed number of lanes, so that every evaluation runs one program."""
    placement = find_whole_placement(tree)
    key = ("evaluation", placement.devices)
    if key not in tree.cache:
        form = whole_treeplexes(tree)
        size = tree.num_terminals + form.num_sequences
        lanes = int(np.clip(EVALUATION_SIZE / size, 1, 16))
        with precision(np.float64):
            if isinstance(tree, HistoryTree) and tree.num_terminals > MAX_LAID_OUT:
                payoff = terminal_payoff(form, np.float64)
            else:
                payoff = build_payoff(sequence_form(tree).payoff, np.float64)
            problem = evaluation_game(form.treeplex, payoff, lanes, np.float64, placement.platform)
            tree.cache[key] = _placed(problem, placement)
    return tree.cache[key]


def terminal_payoff(form: Treeplexes, dtype: DTypeLike) -> TerminalPayoff:
    """Puts the payoff of a whole game's terminals on the device.

    Args:
      form: the decisions of the whole game.
      dtype: precision of the values.
    """
    tree = check_histories(form.tree)
    size = min(TERMINALS_AT_A_TIME, tree.num_terminals)
    shape = (-(-tree.num_terminals // size), size)
    sequences = [np.maximum(form.from_tree(player), 0).astype(np.int32) for player in (0, 1)]
    sequence = np.zeros((2, *shape), np.int32)
    value = np.zeros(shape, dtype)
    for chunk in range(shape[0]):
        terminals = tree.terminals[chunk * size : (chunk + 1) * size]
        for player in (0, 1):
            sequence[player, chunk, : len(terminals)] = sequences[player][tree.sequence[player, terminals]]
        value[chunk, : len(terminals)] = tree.chance[terminals] * tree.payoff[terminals]
    return TerminalPayoff(
        sequence=(jax.device_put(sequence[0]), jax.device_put(sequence[1])), value=jax.device_put(value)
    )


def _chunks(policy: Policy, size: int) -> Iterator[Policy]:
    """The lanes of a policy, `size` at a time; the last one is filled up with copies."""
    if size == policy.num_lanes:
        yield policy
        return
    for begin in range(0, policy.num_lanes, size):
        yield policy.take_lanes(np.minimum(np.arange(begin, begin + size), policy.num_lanes - 1))


def nash_conv(policy: PolicyLike, *, tree: Tree | None = None) -> FloatArray:
    """`[lanes]` NashConv: the sum of both players' gains by best responses, minus a game's constant.

    Args:
      policy: a `Policy`, or with a tree anything that `as_policy` accepts.
      tree: tree of the policy; by default its own.
    """
    return evaluate_policy(policy, tree=tree).nash_conv


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class BestResponse(Explorable):
    """A player's best response to the other's policy.

    Attributes:
      policy: the given policy with the player's rows replaced by a pure best response.
      value: `[lanes]` the player's expected payoff.
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


@compiled(quick=True, static_argnames=("player",))
def best_values(problem: Problem, strategy: tuple[Parts, Parts], player: int) -> tuple[Any, Any, Any]:
    """Value of a best response of `player`, and its counterfactual values of actions and infosets."""
    plans = [follow(problem.sides[p], problem.terms[p], strategy[p]) for p in (0, 1)]
    first, second = (payoff_reach(problem.sides[p], problem.terms[p], plans[p]) for p in (0, 1))
    gradient, _ = problem.payoff.gradient(player, (first, second), None)
    best = best_values_up(problem.sides[player], problem.terms[player], gradient)
    return best.subgames, best.actions.body, best.infosets.body


def best_response(policy: PolicyLike, player: int, *, tree: Tree | None = None) -> BestResponse:
    """A pure best response of `player` to the other player's part of a policy, lane by lane.

    Ties are broken by the order of actions.

    Args:
      policy: a `Policy`, or with a tree anything that `as_policy` accepts.
      player: the responding player, 0 or 1.
      tree: tree of the policy; by default its own.

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
    sequence, infoset = form.action_sequences(player), form.treeplex[player].infoset
    action_values = np.zeros((infosets.num_sequences - 1, policy.num_lanes))
    action_values[sequence[sequence >= 0] - 1] = q[sequence >= 0]
    infoset_values = np.zeros((len(infosets), policy.num_lanes))
    infoset_values[infoset[infoset >= 0]] = v[infoset >= 0]
    rows = _first_best(infoset_values[infosets.infoset[1:]] - action_values, infosets)
    return BestResponse(policy.with_player(player, rows), value[0], action_values, infoset_values)


def _first_best(regret: FloatArray, infosets: Infosets) -> FloatArray:
    """`[Q, lanes]` 1 for the first action with the smallest regret at each infoset, given regrets."""
    if len(regret) == 0:
        return np.zeros_like(regret)
    owner, starts = infosets.infoset[1:], infosets.first_sequence - 1
    slot = (np.arange(len(regret)) - starts[owner])[:, None]
    is_best = regret == np.minimum.reduceat(regret, starts, axis=0)[owner]
    first = np.minimum.reduceat(np.where(is_best, slot, len(regret)), starts, axis=0)
    return (slot == first[owner]).astype(np.float64)


def game_value(
    tree: Tree,
    *,
    tolerance: float = VALUE_TOLERANCE,
    iterations: int | None = None,
    progress: bool | None = None,
) -> Bracket:
    """Brackets the value of the game for player 0, by predictive CFR+ with its own certificate.

    Args:
      tree: the game, by histories or by hands.
      tolerance: stop when the bracket is narrower than this fraction of the payoff range.
      iterations: maximum number of iterations; by default as many as take a few seconds.
      progress: a bar, or a line a minute in a log; by default a bar, on a terminal or in a notebook.

    Returns:
      `(low, high)`: the value that player 0's average policy guarantees, and that player 1's concedes.
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


def _bracket(tree: Tree, width: float, limit: int, report: Callable[[int], None]) -> Bracket:
    def best_responses(bodies: tuple[jax.Array, jax.Array]) -> FloatArray:
        policy = to_policy(tree, whole_treeplexes(tree), bodies, ("value",))
        return evaluate_policy(policy).best_response_values[:, 0]

    placement = find_whole_placement(tree)
    problem = whole_problem(tree, 1, np.float64, placement)
    return bracket_value(problem, best_responses, width, limit, report, placement)


def bracket_value(
    problem: Problem,
    best_responses: Callable[[tuple[jax.Array, jax.Array]], FloatArray],
    width: float,
    limit: int,
    report: Callable[[int], None],
    placement: Placement = HOME,
) -> Bracket:
    """Brackets the value of a game for player 0.

    Args:
      problem: the game, one lane.
      best_responses: maps both players' strategies `[Q, 1]` to the best-response values of player 1 against
        player 0's, and of player 0 against player 1's.
      width: stop at a bracket of at most this width.
      limit: maximum number of iterations.
      report: progress callback; receives the number of completed iterations.
      placement: the device of the solve.
    """
    game = Batch.of(problem, "game value")
    solver = Solver(algorithm=PCFR_PLUS.general(), dtype=problem.dtype, devices=placement.devices)
    state, done, low, high = None, 0, -np.inf, np.inf
    while done < limit and not high - low <= width:
        done = min(max(done + done // 4, 100), limit)
        solver = dataclasses.replace(solver, iterations=done)
        solved = solve(game, solver, average_bodies, state=state, keep_state=True)
        state = solved.state
        second_gets, first_gets = best_responses(solved.outcome).tolist()
        low, high = max(low, -second_gets), min(high, first_gets)
        report(done)
    return Bracket(low, high)


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
    tree: Tree | None = None,
) -> FloatArray:
    """`[lanes]` loss of a player's policy in the worst case, relative to the game's value.

    This is `v* − value against a best response`, in that player's utility (the papers' E).
    OpenSpiel's `exploitability` is another number: half of `nash_conv`.

    Args:
      policy: a `Policy`, or with a tree anything that `as_policy` accepts; only `player`'s part
        matters.
      player: 0 or 1.
      value: bracket of the game's value for player 0, by default `game_value(policy.tree)`; its midpoint is
        used.
      tree: tree of the policy; by default its own.
    """
    check_player(player)
    policy = as_policy(policy, tree)
    check_value(value, policy.tree)
    bracket = game_value(policy.tree) if value is None else Bracket(*value)
    return bracket.for_player(player).middle + evaluate_policy(policy).best_response_values[player]


def check_bracket(value: object) -> Bracket:
    """The value as a bracket; raises ValueError unless it is two finite numbers in ascending order."""
    values: Any = value
    bounds: list[Any] = list(values) if isinstance(values, Iterable) else []
    low, high = bounds if len(bounds) == 2 and all(map(is_finite_number, bounds)) else (np.nan, np.nan)
    if not low <= high:
        raise ValueError(f"value={value!r}: expected (low, high), a bracket of player 0's value of the game")
    return Bracket(low, high)


def check_value(value: tuple[float, float] | None, tree: Tree) -> None:
    """Raises ValueError unless the value is None or a bracket within the range of the game's payoffs."""
    if value is None:
        return
    low, high = check_bracket(value)
    least, most = tree.payoff_bounds
    if high < least - VALUE_TOLERANCE or low > most + VALUE_TOLERANCE:
        raise ValueError(
            f"value={value!r}: player 0's payoffs in {tree.game.name} lie between {least:g} and "
            f"{most:g}; expected a bracket of its value of the game"
        )
