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
from jaxgadget.subgames.engine import Subgames
from jaxgadget.subgames.refine import Refinement, refine_subgames
from jaxgadget.tree.cut import CutSpec
from jaxgadget.tree.forest import build_forest
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
    tree = profiles.histories
    trunk = solve_trunk(
        tree,
        limit,
        values,
        blueprint=profiles,
        against=None if len(opponents) == 1 and opponents.adapt else (player, opponents),
        solver=solver.only("algorithm", "iterations", "dtype", "progress"),
    )
    promised = ArrayValues(-trunk.values[1 - player], "search")
    lanes = Lanes.product(gadgets=len(gadgets), opponents=len(opponents), blueprints=profiles.num_lanes)
    of_trunk = lanes.opponent * profiles.num_lanes + lanes.blueprint
    subgames = Subgames(
        build_forest(tree, trunk.limit.cut),
        player,
        trunk.policy,
        tuple(_promising(gadget, promised) for gadget in gadgets),
        opponents,
        combinations=dataclasses.replace(lanes, blueprint=of_trunk),
    )
    return trunk, refine_subgames(subgames, solver, value, Stopwatch())


def _promising(gadget: Gadget, values: ArrayValues) -> Gadget:
    """The gadget with the values of the search above, unless it promises other values or none."""
    if gadget.joint or not isinstance(gadget, Perturbed):
        return gadget
    if not isinstance(gadget.alternative, BestResponseValues):
        return gadget
    return dataclasses.replace(gadget, alternative=values)
