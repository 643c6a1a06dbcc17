"""Continual re-solving: a trunk solved with values of ranges at its limit, then subgames that play reaches.

As in DeepStack (Moravčík et al. 2017): below the limit a subgame is solved again when play gets there, with
the player's own range, and with what the search above found the opponent's infostates to be worth as
alternative values. No blueprint is needed. All subgames are solved here, side by side, so that the policy
that such a player follows is known, and how exploitable it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from jaxgadget.gadgets.alternative import ArrayValues, BestResponseValues
from jaxgadget.gadgets.gadget import Gadget, Perturbed
from jaxgadget.gadgets.real_way import OptimalContinuation
from jaxgadget.policy.policy import Policy
from jaxgadget.refining.refine import Refinement, refine
from jaxgadget.tree.cut import CutSpec
from jaxgadget.values.ranges import RangeValues
from jaxgadget.values.trunk import LimitedTrunk, solve_trunk


def resolve_continually(
    profiles: Policy,
    gadgets: Sequence[Gadget],
    values: RangeValues,
    limit: CutSpec,
    player: int,
    **options: Any,
) -> tuple[LimitedTrunk, Refinement]:
    """Solves the trunk from the game's root to the limit, then all subgames below it.

    Args:
      profiles: blueprints, a lane each; what search does not reach stays theirs.
      gadgets: below the limit. Where they promise best responses to a blueprint, they promise the opponent's
        average values of the search above.
      values: at the limit.
      limit: a cut; its public states are where the player searches again.
      player: who searches.
      **options: of `solve_trunk` and `refine` alike: `algorithm`, `iterations`, `dtype`, `progress`; and of
        `refine` alone: `value`, `memory_limit`, `devices`.

    Returns:
      The trunk, and the refinement of it, whose policies are the player's.
    """
    shared = {name: options[name] for name in ("algorithm", "iterations", "dtype", "progress")}
    trunk = solve_trunk(profiles.tree, limit, values, blueprint=profiles, **shared)
    kept = ArrayValues(-trunk.values[1 - player], "search")
    asked = [promising(gadget, kept) for gadget in gadgets]
    return trunk, refine(profiles.tree, trunk.limit.cut, trunk.policy, asked, player=player, **options)


def promising(gadget: Gadget, kept: ArrayValues) -> Gadget:
    """The gadget with the values of the search above, unless it promises others or nothing."""
    if not isinstance(gadget, Perturbed) or not isinstance(gadget.alternative, BestResponseValues):
        return gadget
    if isinstance(gadget, OptimalContinuation):
        return gadget
    return dataclasses.replace(gadget, alternative=kept)
