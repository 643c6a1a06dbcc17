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
from jaxgadget.gadgets.trunk_gadgets import OptimalContinuation
from jaxgadget.opponents.opponent import Opponents
from jaxgadget.policy.policy import Policy
from jaxgadget.subgames.leaves import GameEnd, opponent_mixtures
from jaxgadget.subgames.lookahead import SolvedLookahead, name_lane, solve_lookahead
from jaxgadget.subgames.prepare import prepare
from jaxgadget.subgames.profile import Profile
from jaxgadget.subgames.refine import Refinement, refine
from jaxgadget.tree.cut import CutSpec
from jaxgadget.tree.forest import build_forest
from jaxgadget.util.lanes import Lanes
from jaxgadget.values.ranges import RangeValues
from jaxgadget.values.trunk import LimitedTrunk, solve_trunk


def resolve_continually(
    profiles: Policy,
    gadgets: Sequence[Gadget],
    values: RangeValues,
    limit: CutSpec,
    player: int,
    solver: Solver,
    value: tuple[float, float] | None,
) -> tuple[LimitedTrunk, Refinement]:
    """Solves the trunk from the game's root to the limit, then all subgames below it.

    Args:
      profiles: blueprints, one per lane; infosets not reached by search are unchanged.
      gadgets: gadgets below the limit. Those that promise best-response values to a blueprint
        promise the opponent's average values of the search above.
      values: values at the limit.
      limit: a cut; its public states are where the player searches again.
      player: the searching player.
      solver: settings of both solves; the trunk uses only those that `solve_trunk` takes.
      value: bracket of player 0's value of the game, as in `refine`.

    Returns:
      The trunk, and its refinement, which has the player's policies.
    """
    above = solver.only("algorithm", "iterations", "dtype", "progress")
    trunk = solve_trunk(profiles.histories, limit, values, blueprint=profiles, solver=above)
    kept = ArrayValues(-trunk.values[1 - player], "search")
    asked = [promising(gadget, kept) for gadget in gadgets]
    return trunk, refine(
        profiles.histories, trunk.limit.cut, trunk.policy, asked, player=player, value=value, solver=solver
    )


def promising(gadget: Gadget, kept: ArrayValues) -> Gadget:
    """The gadget with the values of the search above, unless it promises other values or none."""
    if not isinstance(gadget, Perturbed) or not isinstance(gadget.alternative, BestResponseValues):
        return gadget
    if isinstance(gadget, OptimalContinuation):
        return gadget
    return dataclasses.replace(gadget, alternative=kept)


def respond_continually(
    profiles: Policy,
    gadgets: Sequence[Gadget],
    opponents: Opponents,
    values: RangeValues,
    limit: CutSpec,
    player: int,
    solver: Solver,
) -> tuple[LimitedTrunk, Policy, SolvedLookahead]:
    """Solves the trunk down to the limit, then all subgames below it, for every opponent.

    Args:
      profiles: blueprints, B lanes; infosets not reached by search are unchanged.
      gadgets: gadgets below the limit. Those that promise best-response values to a blueprint
        promise the opponent's average values of the search above.
      opponents: M opponents.
      values: values at the limit.
      limit: a cut; its public states are where the player searches again.
      player: the searching player.
      solver: settings of all solves.

    Returns:
      The trunk, M × B lanes; the policies; and the results of the searches below, with lanes over gadgets,
      then opponents, then blueprints.
    """
    tree, other = profiles.histories, 1 - player
    trunk = solve_trunk(
        tree,
        limit,
        values,
        blueprint=profiles,
        against=(player, opponents),
        solver=solver.only("algorithm", "iterations", "dtype", "progress"),
    )
    lanes = Lanes.product(gadgets=len(gadgets), opponents=len(opponents), blueprints=profiles.num_lanes)
    of_trunk = Lanes.product(gadgets=len(gadgets), blueprints=trunk.policy.num_lanes).blueprint
    above = trunk.policy.take_lanes(of_trunk)
    kept = ArrayValues(-trunk.values[other][:, of_trunk], "search")
    below = [promising(gadget, kept) for gadget in gadgets]
    asked = [below[number] for number in lanes.gadget.tolist()]
    forest = build_forest(tree, trunk.limit.cut)
    prepared = prepare(forest, player, above, asked, platform=solver.placement.platform)
    profile = Profile.of_blueprint(forest, above)
    searched = solve_lookahead(
        prepared.structure,
        prepared.ranges,
        profile.bodies(forest),
        below,
        lanes,
        solver,
        lambda done: None,
        mixtures=opponent_mixtures(forest, player, opponents, GameEnd()),
        names=[
            name_lane(gadget, profiles.labels[blueprint], opponents.describe(opponent))
            for gadget, blueprint, opponent in zip(
                asked, lanes.blueprint.tolist(), lanes.opponent.tolist(), strict=True
            )
        ],
    )
    return trunk, profile.with_bodies(forest, searched.strategy).policy, searched
