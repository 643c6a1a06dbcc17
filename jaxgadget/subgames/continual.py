"""Continual re-solving: solves a trunk with range values at its limit, then the subgames that play reaches.

As in DeepStack (Moravčík et al. 2017): below the limit a subgame is solved again when play reaches it, with
the player's own range, and the opponent's infostate values from the search above as alternative values. No
blueprint is needed. Here all subgames are solved in one batch, which gives the player's complete policy and
its exploitability.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from jaxgadget.core.solver import Solver
from jaxgadget.gadgets.alternative import ArrayValues, BestResponseValues
from jaxgadget.gadgets.gadget import Gadget, Perturbed
from jaxgadget.opponents.opponent import Opponents
from jaxgadget.policy.policy import Policy
from jaxgadget.subgames.engine import Subgames, assemble, solve_subgames
from jaxgadget.subgames.refine import Refinement, refine_subgames
from jaxgadget.subgames.resolve import resolve_gadgets
from jaxgadget.tree.cut import CutSpec
from jaxgadget.tree.forest import build_forest
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.clock import Stopwatch
from jaxgadget.util.lanes import Lanes
from jaxgadget.values.ranges import RangeValues
from jaxgadget.values.trunk import LimitedTrunk, solve_trunk


def search_continually(
    profiles: Policy,
    gadgets: Sequence[Gadget],
    opponents: Opponents,
    values: RangeValues,
    limit: CutSpec,
    player: int,
    solver: Solver,
    value: tuple[float, float] | None = None,
) -> tuple[LimitedTrunk, Refinement]:
    """Solves the trunk from the game's root to the limit for every opponent, then all subgames below it.

    Args:
      profiles: blueprints, B lanes; infosets not reached by search are unchanged.
      gadgets: gadgets below the limit. Those that promise best-response values to a blueprint promise the
        opponent's average values of the search above.
      opponents: M opponents.
      values: values at the limit.
      limit: a cut; its public states are where the player searches again.
      player: the searching player.
      solver: settings of both solves; the trunk uses only those that `solve_trunk` takes.
      value: bracket of player 0's value of the game, as in `refine`.

    Returns:
      The trunk, M × B lanes, and its refinement, with lanes over gadgets, then opponents, then blueprints.
    """
    trunk, subgames = search_to_limit(profiles, gadgets, opponents, values, limit, player, solver)
    return trunk, refine_subgames(subgames, solver, value, Stopwatch())


def search_to_limit(
    profiles: Policy,
    gadgets: Sequence[Gadget],
    opponents: Opponents,
    values: RangeValues,
    limit: CutSpec,
    player: int,
    solver: Solver,
) -> tuple[LimitedTrunk, Subgames]:
    """The first search of `search_continually`, and the subgames at its limit; arguments are the same."""
    tree = profiles.histories
    trunk = solve_trunk(
        tree,
        limit,
        values,
        blueprint=profiles,
        against=None if len(opponents) == 1 and opponents.adapt else (player, opponents),
        solver=solver.only("algorithm", "iterations", "dtype", "progress"),
    )
    lanes = Lanes.product(gadgets=len(gadgets), opponents=len(opponents), blueprints=profiles.num_lanes)
    of_trunk = lanes.opponent * profiles.num_lanes + lanes.blueprint
    subgames = Subgames(
        build_forest(tree, trunk.limit.cut),
        player,
        trunk.policy,
        promise(gadgets, -trunk.values[1 - player]),
        opponents,
        combinations=dataclasses.replace(lanes, blueprint=of_trunk),
    )
    return trunk, subgames


def promise(gadgets: Sequence[Gadget], values: FloatArray) -> tuple[Gadget, ...]:
    """The gadgets with the values of the search above, unless they promise other values or none.

    Args:
      gadgets: the gadgets.
      values: `[R, L]` the opponent's values of the search above, in the resolving player's utility.
    """
    promised = ArrayValues(values, "search")
    return tuple(
        dataclasses.replace(gadget, alternative=promised)
        if isinstance(gadget, Perturbed)
        and not gadget.joint
        and isinstance(gadget.alternative, BestResponseValues)
        else gadget
        for gadget in gadgets
    )


def solve_below(subgames: Subgames, solver: Solver) -> tuple[Policy, int]:
    """Solves subgames without measuring the result.

    Returns:
      The blueprints with the strategies, and the number of subgames with a decision in some lane.

    Raises:
      ValueError: as `solve_subgames`, or if a subgame overflows.
    """
    watch = Stopwatch()
    resolved = resolve_gadgets(subgames, solver, watch)
    solutions = solve_subgames(resolved, solver, watch, report=lambda done: None)
    for why in solutions.failures.values():
        raise ValueError(why)
    return assemble(resolved, solutions), int(solutions.has_decision.any(axis=1).sum())
