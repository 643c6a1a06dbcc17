"""Errors of gadgets' promised values against the optimal continuation, by linear programs."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from jax.typing import DTypeLike

from jaxgadget.core.results import NO_FAILURES, LaneResult
from jaxgadget.core.solver import Solver
from jaxgadget.gadgets.alternative import ContinuationValues
from jaxgadget.gadgets.context import Continuation
from jaxgadget.gadgets.prior import NoPrior
from jaxgadget.gadgets.ranges import Ranges
from jaxgadget.gadgets.trunk_gadgets import OptimalContinuation
from jaxgadget.policy.evaluate import check_value, exploitability
from jaxgadget.policy.exact import find_value
from jaxgadget.policy.policy import Policy, PolicyLike, as_policy
from jaxgadget.subgames.engine import Subgames
from jaxgadget.subgames.prepare import prepare
from jaxgadget.subgames.resolve import ForestContext
from jaxgadget.tree.cut import CutSpec, cut
from jaxgadget.tree.forest import build_forest
from jaxgadget.tree.history import HistoryTree, check_whole
from jaxgadget.util.arguments import check_player
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.clock import Stopwatch
from jaxgadget.util.players import Bracket


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class PromiseError(LaneResult):
    """Errors of promised values against the optimal continuation's; L blueprints, in units of payoff.

    Attributes:
      labels: labels of the blueprints.
      delta: `[L]` Δ of Theorem 2 (Brown and Sandholm 2017, §6): the largest difference between a promise and
        V*, divided by N(s), over root infostates with N(s) > 0. V* belongs to one optimal continuation;
        others may have different values at roots that an optimal opponent can avoid, so that the minimal Δ
        may be smaller.
      optimal_exploitability: `[L]` exploitability of the optimal continuation.
      theorem2_bound: `[L]` `optimal_exploitability` + 2Δ, an upper bound for max-margin without mistakes.
      promised_exploitability: `[L]` exploitability if all roots had the promised values.
      bound: `[L]` `promised_exploitability` + Δ, another upper bound for max-margin without mistakes, at most
        `theorem2_bound`.
    """

    failures = NO_FAILURES

    labels: tuple[str, ...]
    delta: FloatArray
    optimal_exploitability: FloatArray
    promised_exploitability: FloatArray

    @property
    def lane_columns(self) -> dict[str, Any]:
        """Blueprint."""
        return {"blueprint": self.labels}

    @property
    def number_columns(self) -> dict[str, Any]:
        """Δ, the optimal continuation's exploitability, and both bounds."""
        return {
            "delta": self.delta,
            "optimal_exploitability": self.optimal_exploitability,
            "theorem2_bound": self.theorem2_bound,
            "bound": self.bound,
        }

    @property
    def message(self) -> str:
        """One-sentence summary of the largest error and the resulting bound."""
        return (
            f"largest error {self.delta.max():.3g}; max-margin is at most {self.bound.max():.3g} exploitable"
        )

    @property
    def theorem2_bound(self) -> FloatArray:
        """`[L]` exploitability of the optimal continuation plus 2Δ."""
        return self.optimal_exploitability + 2 * self.delta

    @property
    def bound(self) -> FloatArray:
        """`[L]` exploitability if all roots had the promised values, plus Δ."""
        return self.promised_exploitability + self.delta


def measure_promise(
    tree: HistoryTree,
    where: CutSpec,
    blueprint: PolicyLike,
    values: ContinuationValues,
    *,
    player: int = 0,
    value: tuple[float, float] | None = None,
    progress: bool | None = None,
) -> PromiseError:
    """Measures the largest error of promised values by solving all subgames exactly, if the game fits.

    Args:
      tree: the game's histories.
      where: the cut.
      blueprint: profiles, one per lane, as in `refine`.
      values: the promised values, such as `ContinuationValues(network)`; guards are ignored.
      player: the resolving player.
      value: bracket of player 0's value of the game; computed by default.
      progress: as in `refine`.

    Raises:
      ValueError: as `refine`; if `values` are not values of a continuation.
    """
    check_whole(tree)
    check_player(player)
    check_value(value, tree)
    profiles = as_policy(blueprint, tree, name="blueprint")
    given: Any = values
    if not isinstance(given, ContinuationValues):
        raise ValueError(f"values={given!r}: expected ContinuationValues, such as those of a network")
    exact = ContinuationValues()
    promises = find_promises(tree, where, profiles, (values, exact), player, "float64", progress)
    (promised, optimal), ranges = promises.continuations, promises.ranges
    bracket = find_value(tree, True, progress) if value is None else value
    mass = ranges.mass
    difference = np.abs(promised.values - optimal.values)
    relative = np.divide(difference, mass, out=np.zeros_like(difference), where=mass > 0)
    return PromiseError(
        labels=profiles.labels,
        delta=relative.max(axis=0, initial=0.0),
        optimal_exploitability=exploitability(optimal.strategy, player, value=bracket),
        promised_exploitability=Bracket(*bracket).for_player(player).middle + promises.best_responses[0],
    )


class Promises(NamedTuple):
    """Promises of gadgets after blueprints, for all subgames below a cut.

    Attributes:
      continuations: the requested continuations, in order.
      ranges: ranges of the blueprints.
      best_responses: `[promises, lanes]` the opponent's best-response value above the cut with each promise,
        in its own utility.
    """

    continuations: list[Continuation]
    ranges: Ranges
    best_responses: FloatArray


def find_promises(
    tree: HistoryTree,
    where: CutSpec,
    blueprint: Policy,
    values: tuple[ContinuationValues, ...],
    player: int,
    dtype: DTypeLike,
    progress: bool | None,
) -> Promises:
    """Computes the promised values, and the opponent's best-response values with them."""
    solver = Solver(algorithm="cfr+", iterations=1, dtype=dtype, progress=progress)
    forest = build_forest(tree, cut(tree, where))
    context = ForestContext(Subgames(forest, player, blueprint, ()), solver, Stopwatch())
    ranges = prepare(forest, player, blueprint, (OptimalContinuation(NoPrior()),)).ranges
    continuations = [context.continuation(promise) for promise in values]
    for continuation in continuations:
        if continuation.failures:
            raise ValueError(f"values: {next(iter(continuation.failures.values()))}")
    best = [ranges.above.best_values(np.asarray(each.values, np.float64))[2][0] for each in continuations]
    return Promises(continuations, ranges, np.stack(best))
