"""The optimal continuation, solved before the gadgets that promise its values in place of the blueprint's.

What holds a safe gadget back is what the opponent is promised: its best response to a poor blueprint. With
its values against the optimal continuation, resolving and max-margin reach that continuation's
exploitability (Brown and Sandholm 2017, §6: what is refined is no more exploitable than the strategy whose
values are promised). A few iterations of the continuation are a strategy too, so their values are as safe.
Range values need no subgame solved: the opponent's trunk against the resolver's, which is fixed, is enough.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, TypeVar

import numpy as np

from jaxgadget.gadgets.alternative import EXACT, ArrayValues, ContinuationValues, on_roots
from jaxgadget.gadgets.gadget import Gadget, Perturbed
from jaxgadget.gadgets.prior import BlueprintPrior, ContinuationPrior, NoPrior
from jaxgadget.gadgets.ranges import Ranges
from jaxgadget.gadgets.real_way import OptimalContinuation
from jaxgadget.kernels.regret import find_rule
from jaxgadget.refining.subgames import GadgetTask, solve_gadgets, spliced
from jaxgadget.tree.cover import Roots
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.clock import Stopwatch
from jaxgadget.values.ranges import check_lanes
from jaxgadget.values.trunk import solve_trunk

Promising = TypeVar("Promising", bound=Gadget)


@dataclasses.dataclass(frozen=True, eq=False)
class StrategyValues(ArrayValues):
    """Best responses to a continuation of the blueprint: how safe they are, `refine` knows of that."""

    exact: bool = dataclasses.field(default=True, init=False, repr=False)


@dataclasses.dataclass(frozen=True, eq=False)
class _ReachPrior(BlueprintPrior):
    """A reach that is given, `[R, lanes]`, in place of the blueprint's."""

    given: FloatArray = dataclasses.field(default_factory=lambda: np.zeros((0, 1)))

    def reach(self, ranges: Ranges) -> FloatArray:
        """See `BlueprintPrior`."""
        return on_roots(self.given, ranges)

    def choose(self, ranges: Ranges) -> FloatArray:
        """Refused: only the roots' reach is known."""
        raise ValueError(
            "ContinuationPrior for a gadget with the real way in: expected one whose prior is over "
            "roots, such as Resolving or MaxMargin"
        )


class Continuation(NamedTuple):
    """What every blueprint's continuation is worth to the opponent.

    Attributes:
      policy: the blueprints with that continuation in the subgames of the task, a lane each, in the form of
        the game; of range values the blueprints.
      values: `[R, lanes]` what its roots are worth, in the resolver's utility.
      reach: `[R, lanes]` how likely the opponent's own choices lead to its roots in it.
      failures: lanes that came to nothing, and why.
    """

    policy: Any
    values: ArrayValues
    reach: FloatArray
    failures: dict[int, str]


def solve_continuations(
    task: GadgetTask, watch: Stopwatch, progress: bool | None
) -> dict[ContinuationValues, Continuation]:
    """Solves the optimal continuations that a task's gadgets ask for, each once for all blueprints.

    Args:
      task: what is to be solved.
      watch: is told where the time goes.
      progress: see `refine`.

    Raises:
      ValueError: as `solve_gadgets` and `solve_trunk`; for range values of another number of lanes.
    """
    asked = dict.fromkeys(c for gadget in task.gadgets for c in asked_for(gadget))
    return {
        c: _estimate(task, c, watch, progress) if c.is_estimate else _solve(task, c, watch, progress)
        for c in asked
    }


def alternative_of(gadget: Gadget) -> ContinuationValues | None:
    """A gadget's alternative values, if they are of a continuation."""
    alternative = getattr(gadget, "alternative", None)
    return alternative if isinstance(alternative, ContinuationValues) else None


def asked_for(gadget: Gadget) -> list[ContinuationValues]:
    """The continuations of a gadget's alternative values and of its prior."""
    prior = gadget.prior.continuation if isinstance(gadget.prior, ContinuationPrior) else None
    return [asked for asked in (alternative_of(gadget), prior) if asked is not None]


def promise(gadget: Promising, continuations: dict[ContinuationValues, Continuation]) -> Promising:
    """The gadget with a continuation's numbers for its alternative values and prior, if it asks for them."""
    if not isinstance(gadget, Perturbed):
        return gadget
    alternative, prior = alternative_of(gadget), gadget.prior
    if alternative is not None:
        gadget = dataclasses.replace(gadget, alternative=continuations[alternative].values)
    if isinstance(prior, ContinuationPrior):
        reach = continuations[prior.continuation].reach
        gadget = dataclasses.replace(gadget, prior=_ReachPrior(clip=prior.clip, given=reach))
    return gadget


def _estimate(
    task: GadgetTask, asked: ContinuationValues, watch: Stopwatch, progress: bool | None
) -> Continuation:
    """What range values say: nothing below the cut is looked at."""
    player, other, tree = task.player, 1 - task.player, task.forest.tree
    assert callable(asked.source)
    check_lanes(asked.source, task.blueprint.num_lanes)
    with watch.phase("run"):
        found = solve_trunk(
            tree,
            task.whole,
            asked.source,
            blueprint=task.blueprint,
            fixed=player,
            algorithm="cfr+" if task.options.rule is None else task.options.rule,
            iterations=asked.iterations,
            dtype=task.options.dtype,
            progress=progress,
        )
    roots = found.limit.roots[other]
    row = _rows(task, roots)
    reach = found.policy.reach(other)[roots.sequence]
    return Continuation(task.blueprint, ArrayValues(-found.values[other][row], asked.name), reach[row], {})


def _rows(task: GadgetTask, roots: Roots) -> IntArray:
    """Which of the opponent's roots below the whole cut are those of the task."""
    return np.searchsorted(roots.infostate, task.forest.roots[1 - task.player].infostate)


def _whole_forest(task: GadgetTask) -> Forest:
    """All subgames below the cut, of which a task may have some."""
    return task.forest if task.whole is task.forest.cut else build_forest(task.forest.tree, task.whole)


def _solve(
    task: GadgetTask, asked: ContinuationValues, watch: Stopwatch, progress: bool | None
) -> Continuation:
    """One continuation of every blueprint, below the whole cut."""
    source, player = asked.source, task.player
    options = dataclasses.replace(task.options, target_gap=None, chunk=None)
    if isinstance(source, int | np.integer):
        folder = None if options.checkpoint is None else options.checkpoint / f"continuation-{source}"
        rule = find_rule("cfr+") if options.rule is None else options.rule
        options = dataclasses.replace(options, rule=rule, iterations=int(source), checkpoint=folder)
    else:
        assert source == EXACT
        options = dataclasses.replace(options, rule=None, checkpoint=None)
    with watch.phase("build"):
        whole = _whole_forest(task)
    gadgets = (OptimalContinuation(NoPrior()),)
    game = dataclasses.replace(task, forest=whole, gadgets=gadgets, options=options)
    solutions = solve_gadgets(game, watch, progress)
    for lane in np.flatnonzero(~np.isfinite(solutions.below).all(axis=0)).tolist():
        label = task.blueprint.labels[lane]
        reason = f"the continuation of blueprint {label!r} is worth no finite number at some root"
        solutions.failures.setdefault(lane, reason)
    # Lanes that are not finite fail.
    values, reach = (np.where(np.isfinite(x), x, 0.0) for x in (solutions.below, solutions.entered))
    policy, row = spliced(game, solutions), _rows(task, whole.roots[1 - player])
    if whole is not task.forest:  # elsewhere gadgets keep the blueprint
        policy = task.blueprint.splice(player, task.forest.infosets(player), policy)
    promised = StrategyValues(values[row], asked.name)
    return Continuation(policy, promised, reach[row], solutions.failures)
