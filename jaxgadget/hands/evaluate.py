"""How good policies of games by hands are: values, best responses, exploitability, NashConv. In float64."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import jax
import numpy as np

from jaxgadget.core.problem import Parts, Problem
from jaxgadget.core.solver import check_iterations
from jaxgadget.games.game import Game
from jaxgadget.games.hands import HandsGame
from jaxgadget.hands.form import HandsForm
from jaxgadget.hands.policy import HandsPolicy, as_form, check_hands_policy
from jaxgadget.policy.evaluate import (
    EVALUATION_SIZE,
    VALUE_TOLERANCE,
    ProfileValues,
    best_values,
    bracket_value,
    check_bracket,
    evaluate_parts,
)
from jaxgadget.tree.history import HistoryTree
from jaxgadget.util.arguments import check_player, is_finite_number
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.players import Bracket, replaced
from jaxgadget.util.precision import precision
from jaxgadget.util.progress import progress_bar

BRACKET_ITERATIONS = 2000
"""Of the bracket of a game's value, by default."""


def evaluate_hands(policy: HandsPolicy) -> ProfileValues:
    """Expected values and best-response values of every lane, as `evaluate_policy` of histories.

    Raises:
      ValueError: if it is no policy by hands.
    """
    check_hands_policy(policy)
    size = sum(
        treeplex.num_sequences * h
        for treeplex, h in zip(policy.form.treeplex, policy.game.num_hands, strict=True)
    )
    count = int(np.clip(EVALUATION_SIZE // size, 1, policy.num_lanes))
    problem = policy.form.problem(count, np.float64)
    values: list[FloatArray] = []
    with precision(np.float64):
        for lanes in _chunks(policy, count):
            evaluation = evaluate_parts(problem, to_parts(lanes))
            values.append(np.concatenate([np.asarray(x) for x in (evaluation.value, *evaluation.guaranteed)]))
    value, first, second = np.concatenate(values, axis=1)[:, : policy.num_lanes]
    return ProfileValues(value, -np.stack([first, second]))


def to_parts(policy: HandsPolicy) -> tuple[Parts, Parts]:
    """A policy as strategies of its form's treeplexes, with no entry; called in float64."""
    nothing = jax.device_put(np.zeros((0, policy.num_lanes)))
    first, second = (Parts(nothing, jax.device_put(body)) for body in policy.bodies())
    return first, second


def _chunks(policy: HandsPolicy, count: int) -> Iterator[HandsPolicy]:
    """The lanes, so many at a time; the last ones are filled up with copies of the last."""
    if count == policy.num_lanes:
        yield policy
        return
    for begin in range(0, policy.num_lanes, count):
        yield policy.lanes([min(begin + i, policy.num_lanes - 1) for i in range(count)])


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class HandsResponse:
    """A player's best response to the other's policy.

    Attributes:
      policy: the given policy with the player's rows replaced by a pure best response.
      value: `[lanes]` what the player gets.
      action_values: `[C, H, lanes]` counterfactual best-response value of every action, in the order of the
        policy's rows.
    """

    policy: HandsPolicy
    value: FloatArray
    action_values: FloatArray

    def __repr__(self) -> str:
        return f"<HandsResponse: value {self.value}, {self.policy!r}>"


def best_hands_response(policy: HandsPolicy, player: int) -> HandsResponse:
    """A pure best response of `player` to the other player's part of a policy, lane by lane.

    Of equally good actions the first is taken.

    Raises:
      ValueError: if `player` is not 0 or 1, or `policy` no policy by hands.
    """
    check_hands_policy(policy)
    check_player(player)
    form, tree = policy.form, policy.game.nodes
    with precision(np.float64):
        problem = form.problem(policy.num_lanes, np.float64)
        value, q, _ = (np.asarray(x) for x in best_values(problem, to_parts(policy), player))
    action_values = np.empty_like(policy.probabilities[player])
    action_values[form.rows[player]] = q.reshape(action_values.shape)
    nodes = tree.decisions(player)
    count = tree.num_children[nodes]
    first = np.cumsum(count) - count
    best = np.full((len(nodes), *action_values.shape[1:]), -np.inf)
    choice = np.zeros(best.shape, np.int64)
    for slot in range(int(count.max(initial=0))):
        has = np.flatnonzero(count > slot)
        candidates = action_values[first[has] + slot]
        better = candidates > best[has]
        choice[has] = np.where(better, slot, choice[has])
        best[has] = np.where(better, candidates, best[has])
    slots = np.arange(len(action_values)) - np.repeat(first, count)
    rows = (np.repeat(choice, count, axis=0) == slots[:, None, None]).astype(np.float64)
    pair = replaced(policy.probabilities, player, rows)
    return HandsResponse(HandsPolicy(form, pair, policy.labels), value[0], action_values)


def hands_value(
    game: Game | HistoryTree | HandsGame | HandsForm,
    *,
    tolerance: float = VALUE_TOLERANCE,
    iterations: int = BRACKET_ITERATIONS,
    progress: bool | None = None,
) -> Bracket:
    """Brackets player 0's value of a game by hands, as `game_value` does with histories.

    Args:
      game: see `by_hands`, or its form.
      tolerance: stop when the bracket is narrower than this share of the payoff range.
      iterations: stop after that many in any case.
      progress: a bar, or a line a minute in a log; by default a bar, on a terminal or in a notebook.
    """
    if not is_finite_number(tolerance) or tolerance < 0:
        raise ValueError(f"tolerance={tolerance!r}: expected a number >= 0, a share of the payoff range")
    form, limit = as_form(game), check_iterations(iterations)

    def best_responses(bodies: tuple[jax.Array, jax.Array]) -> FloatArray:
        return evaluate_hands(HandsPolicy.of_bodies(form, bodies, ("value",))).best_response_values[:, 0]

    problem: Problem = form.problem(1, np.float64)
    with progress_bar("value of the game", limit, progress) as report:
        return bracket_value(problem, best_responses, tolerance * form.game.payoff_range, limit, report)


def hands_exploitability(
    policy: HandsPolicy, player: int, *, value: tuple[float, float] | None = None
) -> FloatArray:
    """`[lanes]` how much worse than the game's value a player's policy does in the worst case.

    Args:
      policy: what is evaluated; only `player`'s part counts.
      player: 0 or 1.
      value: bracket of player 0's value, else `hands_value`; its middle is used.

    Raises:
      ValueError: if one of them is something else.
    """
    check_hands_policy(policy)
    check_player(player)
    bracket = hands_value(policy.form) if value is None else check_bracket(value)
    return bracket.for_player(player).middle + evaluate_hands(policy).best_response_values[player]
