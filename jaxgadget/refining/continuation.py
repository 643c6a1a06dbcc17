"""Alternative values from the optimal continuation, which a gadget can promise in place of the blueprint's.

What holds a safe gadget back is what the opponent is promised: its best response to a poor blueprint. With
its values against the optimal continuation, resolving and max-margin reach that continuation's
exploitability (Brown and Sandholm 2017, §6: what is refined is no more exploitable than the strategy whose
values are promised). A few iterations of the continuation are a strategy too, so their values are as safe.
"""

from __future__ import annotations

import dataclasses
from typing import Literal, NamedTuple, TypeVar

import numpy as np

from jaxgadget.gadgets.alternative import EXACT, ArrayValues, ContinuationValues
from jaxgadget.gadgets.gadget import Gadget, Perturbed
from jaxgadget.gadgets.prior import NoPrior
from jaxgadget.gadgets.real_way import OptimalContinuation
from jaxgadget.kernels.regret import find_rule
from jaxgadget.policy.policy import Policy
from jaxgadget.refining.subgames import GadgetTask, solve_gadgets
from jaxgadget.util.clock import Stopwatch

Source = Literal["exact"] | int
"""`exact`, or a number of iterations."""

Promising = TypeVar("Promising", bound=Gadget)


@dataclasses.dataclass(frozen=True, eq=False)
class _StrategyValues(ArrayValues):
    """Best responses to a continuation of the blueprint: how safe they are, `refine` knows of that."""

    exact: bool = dataclasses.field(default=True, init=False, repr=False)


class Continuation(NamedTuple):
    """Every blueprint with a continuation.

    Attributes:
      policy: the strategies, a lane each.
      values: `[R, lanes]` the opponent's best responses to them at its roots, in the resolver's utility.
      failures: lanes that came to nothing, and why.
    """

    policy: Policy
    values: ArrayValues
    failures: dict[int, str]


def solve_continuations(
    task: GadgetTask, watch: Stopwatch, progress: bool | None
) -> dict[Source, Continuation]:
    """Solves the optimal continuations that a task's gadgets ask for, each once for all blueprints.

    Args:
      task: what is to be solved.
      watch: is told where the time goes.
      progress: see `refine`.

    Raises:
      ValueError: as `solve_gadgets`.
    """
    sources: dict[Source, None] = {s: None for g in task.gadgets if (s := source_of(g)) is not None}
    return {source: _solve(task, source, watch, progress) for source in sources}


def source_of(gadget: Gadget) -> Source | None:
    """Where a gadget's alternative values come from, if it is a continuation."""
    alternative = getattr(gadget, "alternative", None)
    return alternative.source if isinstance(alternative, ContinuationValues) else None


def promise(gadget: Promising, continuations: dict[Source, Continuation]) -> Promising:
    """The gadget with a continuation's numbers for its alternative values, if it asks for one."""
    source = source_of(gadget)
    if source is None or not isinstance(gadget, Perturbed):
        return gadget
    return dataclasses.replace(gadget, alternative=continuations[source].values)


def _solve(task: GadgetTask, source: Source, watch: Stopwatch, progress: bool | None) -> Continuation:
    """One continuation of every blueprint."""
    options = dataclasses.replace(task.options, target_gap=None, chunk=None)
    if source == EXACT:
        options = dataclasses.replace(options, rule=None, checkpoint=None)
    else:
        folder = None if options.checkpoint is None else options.checkpoint / f"continuation-{source}"
        rule = find_rule("cfr+") if options.rule is None else options.rule
        options = dataclasses.replace(options, rule=rule, iterations=source, checkpoint=folder)
    asked = dataclasses.replace(task, gadgets=(OptimalContinuation(NoPrior()),), options=options)
    solutions = solve_gadgets(asked, watch, progress)
    for lane in np.flatnonzero(~np.isfinite(solutions.below).all(axis=0)).tolist():
        label = task.blueprint.labels[lane]
        reason = f"the continuation of blueprint {label!r} is worth no finite number at some root"
        solutions.failures.setdefault(lane, reason)
    known = np.where(np.isfinite(solutions.below), solutions.below, 0.0)  # those lanes fail
    values = _StrategyValues(known, ContinuationValues(source).name)
    return Continuation(solutions.policy(asked), values, solutions.failures)
