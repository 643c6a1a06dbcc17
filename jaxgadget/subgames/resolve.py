"""Resolution of gadgets: computes the data of alternative values and priors that ranges do not provide.

Alternative values limit a safe gadget: they are the opponent's best-response values to a poor blueprint. With
its values against the optimal continuation, resolving and max-margin reach that continuation's exploitability
(Brown and Sandholm 2017, §6: a refined strategy is no more exploitable than the strategy whose values are
offered). A few iterations of the continuation also give a strategy, so that its values are as safe. With
range values no subgame is solved: only the opponent's trunk against the resolving player's fixed trunk.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from jaxgadget.core.regret import find_rule
from jaxgadget.core.solver import LP, Solver
from jaxgadget.gadgets.alternative import EXACT, AbstractValues, ContinuationValues, PrecomputedValues
from jaxgadget.gadgets.capabilities import Capability
from jaxgadget.gadgets.context import Continuation, ModelReach
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.gadgets.prior import ContinuationPrior, NoPrior, PrecomputedReach
from jaxgadget.gadgets.trunk_gadgets import OptimalContinuation
from jaxgadget.policy.policy import Policy, as_policy
from jaxgadget.subgames.abstract import look_up, policy_of, root_mass, scale_to_reach
from jaxgadget.subgames.engine import Subgames, assemble, solve_subgames
from jaxgadget.tree.forest import build_forest
from jaxgadget.tree.history import check_histories
from jaxgadget.tree.trunk import build_trunk
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.clock import Stopwatch
from jaxgadget.values.ranges import check_lanes, warn_of_doubts
from jaxgadget.values.trunk import solve_trunk


def resolve_gadgets(subgames: Subgames, solver: Solver, watch: Stopwatch) -> Subgames:
    """Computes the priors and alternative values of all gadgets.

    Args:
      subgames: the gadget games.
      solver: settings of the solve.
      watch: stopwatch.

    Raises:
      ValueError: for a model or an abstraction of another game or number of lanes, or as `solve_subgames`.

    Warns:
      UserWarning: for unreliable range values, such as those of unfinished networks.
    """
    priors = (gadget.prior for gadget in subgames.gadgets)
    sources = [prior.continuation for prior in priors if isinstance(prior, ContinuationPrior)]
    sources += [g.alternative for g in subgames.gadgets if isinstance(g.alternative, ContinuationValues)]
    warn_of_doubts([source.source for source in sources])
    context = ForestContext(subgames, solver, watch)
    gadgets = tuple(gadget.resolve(context) for gadget in subgames.gadgets)
    return dataclasses.replace(subgames, gadgets=gadgets)


def failures_of(gadget: Gadget) -> dict[int, str]:
    """Blueprints for which a resolved gadget has no alternative values or prior, with the reason."""
    failures: dict[int, str] = {}
    if isinstance(gadget.alternative, PrecomputedValues):
        failures |= gadget.alternative.failures
    if isinstance(gadget.prior, PrecomputedReach):
        failures |= gadget.prior.failures
    return failures


class ForestContext:
    """Implementation of `gadgets.context.Context` for the subgames of a forest."""

    def __init__(self, subgames: Subgames, solver: Solver, watch: Stopwatch):
        """Prepares the solve, without solving.

        Args:
          subgames: the gadget games. Offers apply to the share of a mixture in which the opponent adapts.
          solver: settings of the solve.
          watch: stopwatch.
        """
        self._subgames = dataclasses.replace(subgames, opponents=None, combinations=None)
        self._solver, self._watch = solver, watch
        self._continuations: dict[ContinuationValues, Continuation] = {}

    def continuation(self, values: ContinuationValues) -> Continuation:
        """Solves a continuation of every blueprint, or returns the cached one.

        Raises:
          ValueError: as `solve_subgames` and `solve_trunk`; for range values of another number of lanes.
        """
        if values not in self._continuations:
            self._continuations[values] = (
                self._estimate_continuation(values)
                if values.is_estimate
                else self._solve_continuation(values)
            )
        return self._continuations[values]

    def abstract_values(self, values: AbstractValues) -> FloatArray:
        """Looks up the values of the opponent's roots in an abstraction.

        Raises:
          ValueError: as `look_up`; if the policy is missing, or has another number of lanes.
        """
        if values.policy is None:
            raise ValueError(
                "AbstractValues() without a policy: only nested_off_tree knows one; expected "
                "AbstractValues(policy), of an abstraction of the game"
            )
        subgames = self._subgames
        abstraction = policy_of(values, subgames.blueprint.num_lanes)
        looked_up = look_up(abstraction, subgames.forest, subgames.player)
        return scale_to_reach(looked_up, root_mass(subgames.forest, subgames.player, subgames.blueprint))

    def model_reach(self, model: Any) -> ModelReach:
        """Computes the reach of the opponent's roots under a model.

        Raises:
          ValueError: if the model is of another game, or has several lanes.
        """
        forest, opponent = self._subgames.forest, 1 - self._subgames.player
        policy = as_policy(model, forest.tree, name="RangePrior model")
        if policy.num_lanes != 1:
            raise ValueError(
                f"RangePrior model has {policy.num_lanes} lanes; expected one per prior: pick it by "
                "policy.lane(k)"
            )
        above = None
        if any(Capability.TRUNK in gadget.requires for gadget in self._subgames.gadgets):
            sequences = build_trunk(forest).form.action_sequences(opponent)
            above = policy.probabilities[opponent][sequences - 1]
        roots = forest.roots[opponent]
        return ModelReach(roots.reach(policy.reach(opponent))[roots.row >= 0], above)

    def _estimate_continuation(self, values: ContinuationValues) -> Continuation:
        """Computes range values at the cut, without solving the subgames below it."""
        subgames, source = self._subgames, values.source
        assert callable(source)
        check_lanes(source, subgames.blueprint.num_lanes)
        with self._watch.phase("run"):
            trunk = solve_trunk(
                check_histories(subgames.forest.tree, "ContinuationValues of range values"),
                subgames.forest.cut.whole,
                source,
                blueprint=subgames.blueprint,
                fixed=subgames.player,
                solver=Solver(
                    algorithm="cfr+" if self._solver.rule is None else self._solver.rule,
                    iterations=values.iterations,
                    dtype=self._solver.precision,
                    progress=self._solver.progress,
                ),
            )
        opponent = 1 - subgames.player
        roots = trunk.limit.roots[opponent]
        row = np.searchsorted(roots.infostate, subgames.forest.roots[opponent].infostate)
        reach = trunk.policy.reach(opponent)[roots.sequence]
        return Continuation(subgames.blueprint, -trunk.values[opponent][row], reach[row], True, {})

    def _solve_continuation(self, values: ContinuationValues) -> Continuation:
        """Solves one continuation of every blueprint, in all subgames below the cut."""
        subgames, source = self._subgames, values.source
        player = subgames.player
        solver = dataclasses.replace(self._solver, target_gap=None, chunk=None)
        if isinstance(source, int | np.integer):
            path = solver.checkpoint_path
            folder = None if path is None else path / f"continuation-{source}"
            rule = find_rule("cfr+") if solver.rule is None else solver.rule
            solver = dataclasses.replace(solver, algorithm=rule, iterations=int(source), checkpoint=folder)
        else:
            assert source == EXACT
            solver = dataclasses.replace(solver, algorithm=LP, checkpoint=None)
        with self._watch.phase("build"):
            forest = subgames.forest
            is_whole = forest.cut.part_of is None
            whole = forest if is_whole else build_forest(forest.tree, forest.cut.whole, padded=forest.padded)
        gadgets = (OptimalContinuation(NoPrior()),)
        game = dataclasses.replace(subgames, forest=whole, gadgets=gadgets)
        solutions = solve_subgames(game, solver, self._watch)
        failures = solutions.failures | undefined_lanes(
            solutions.below, subgames.blueprint.labels, solutions.failures
        )
        numbers, reach = (np.where(np.isfinite(x), x, 0.0) for x in (solutions.below, solutions.entered))
        strategy: Policy = assemble(game, solutions)
        if not is_whole:  # outside these subgames gadgets keep the blueprint
            strategy = subgames.blueprint.splice(player, subgames.forest.infosets(player), strategy)
        ours, roots = subgames.forest.roots[1 - player], whole.roots[1 - player]
        row = roots.row[np.searchsorted(roots.infostate, ours.infostate[ours.row >= 0])]
        return Continuation(strategy, numbers[row], reach[row], False, failures)


def undefined_lanes(below: FloatArray, labels: tuple[str, ...], known: dict[int, str]) -> dict[int, str]:
    """Failures of continuations without a finite value at some root, except those already known."""
    return {
        lane: f"the continuation of blueprint {labels[lane]!r} has no finite value at some root"
        for lane in np.flatnonzero(~np.isfinite(below).all(axis=0)).tolist()
        if lane not in known
    }
