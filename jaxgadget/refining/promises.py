"""How good the values are that gadgets promise: held against the optimal continuation, by linear programs."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from jax.typing import DTypeLike

from jaxgadget.gadgets.alternative import ContinuationValues
from jaxgadget.gadgets.prior import NoPrior
from jaxgadget.gadgets.ranges import Ranges
from jaxgadget.gadgets.real_way import OptimalContinuation
from jaxgadget.gadgets.two_level import Resolving
from jaxgadget.policy.evaluate import check_value, exploitability
from jaxgadget.policy.exact import find_value
from jaxgadget.policy.policy import Policy, PolicyLike, as_policy
from jaxgadget.refining.continuation import Continuation, solve_continuations
from jaxgadget.refining.prepare import prepare
from jaxgadget.refining.subgames import GadgetTask
from jaxgadget.solving.options import make_options
from jaxgadget.tree.cut import CutSpec, cut
from jaxgadget.tree.forest import build_forest
from jaxgadget.tree.history import HistoryTree, check_whole
from jaxgadget.util.arguments import check_player
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.clock import Stopwatch


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class PromiseError:
    """How far promised values are from the optimal continuation's; L blueprints, in units of payoff.

    Attributes:
      delta: `[L]` Δ of Theorem 2 (Brown and Sandholm 2017, §6): the most by which a promise differs from V*,
        divided by N(s), over root infostates with N(s) > 0. V* is of one optimal continuation, and where the
        opponent need not go others are worth something else: the least Δ of all may be smaller.
      optimal_exploitability: `[L]` of the optimal continuation.
      theorem2_bound: `[L]` that plus 2Δ, which max-margin without mistakes does not exceed.
      promised_exploitability: `[L]` what it would be if all roots were worth what is promised.
      bound: `[L]` that plus Δ: no more than Theorem 2's, and a bound for the same.
    """

    delta: FloatArray
    optimal_exploitability: FloatArray
    promised_exploitability: FloatArray

    @property
    def theorem2_bound(self) -> FloatArray:
        """See above."""
        return self.optimal_exploitability + 2 * self.delta

    @property
    def bound(self) -> FloatArray:
        """See above."""
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
    """Measures the largest error of promised values, where the game fits: all subgames are solved exactly.

    Args:
      tree: the game's histories.
      where: the cut.
      blueprint: profiles, a lane each, as in `refine`.
      values: what is promised, such as `ContinuationValues(network)`; guards play no part in it.
      player: who re-solves.
      value: bracket of player 0's value of the game, if known; else it is found.
      progress: as in `refine`.

    Raises:
      ValueError: as `refine`; if `values` are none of a continuation.
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
    difference = np.abs(promised.values.array - optimal.values.array)
    relative = np.divide(difference, mass, out=np.zeros_like(difference), where=mass > 0)
    sign = 1 if player == 0 else -1
    return PromiseError(
        delta=relative.max(axis=0, initial=0.0),
        optimal_exploitability=exploitability(optimal.policy, player, value=bracket),
        promised_exploitability=sign * (bracket[0] + bracket[1]) / 2 + promises.best_responses[0],
    )


class Promises(NamedTuple):
    """What gadgets promise after blueprints, all subgames below a cut.

    Attributes:
      continuations: of what was asked for, in order.
      ranges: what blueprints bring.
      best_responses: `[promises, lanes]` what the opponent gets at most above the cut with each, in its own
        utility.
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
    """What is promised, and what it leaves the opponent."""
    options = make_options(algorithm="cfr+", iterations=1, dtype=dtype)
    forest = build_forest(tree, cut(tree, where))
    gadgets = tuple(Resolving(NoPrior(), alternative=promise) for promise in values)
    solved = solve_continuations(
        GadgetTask(forest, player, blueprint, gadgets, options), Stopwatch(), progress
    )
    ranges = prepare(forest, player, blueprint, (OptimalContinuation(NoPrior()),)).ranges
    continuations = [solved[promise] for promise in values]
    for continuation in continuations:
        if continuation.failures:
            raise ValueError(f"values: {next(iter(continuation.failures.values()))}")
    best = [
        ranges.above.best_values(np.asarray(found.values.array, np.float64))[2][0] for found in continuations
    ]
    return Promises(continuations, ranges, np.stack(best))
