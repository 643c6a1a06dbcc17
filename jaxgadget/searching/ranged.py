"""Search with values of ranges at a limit against opponents who follow models, as continual re-solving.

The trunk down to the limit is solved with values for what comes of both copies of the opponent, the one that
follows a model and the free one. Then the subgames below the limit are solved to the end, where a model is
followed all the way: with the opponent's values of the search above, or jointly.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jaxgadget.gadgets.alternative import ArrayValues
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.opponents.opponent import Opponents
from jaxgadget.policy.policy import Policy
from jaxgadget.refining.prepare import prepare
from jaxgadget.searching.continual import promising
from jaxgadget.searching.mixing import opponent_mixtures
from jaxgadget.searching.solving import Profile, Searched, name_lane, solve_lookahead
from jaxgadget.solving.options import SolveOptions
from jaxgadget.tree.cut import CutSpec
from jaxgadget.tree.forest import build_forest
from jaxgadget.values.ranges import RangeValues
from jaxgadget.values.trunk import LimitedTrunk, solve_trunk


def respond_continually(
    profiles: Policy,
    gadgets: Sequence[Gadget],
    opponents: Opponents,
    values: RangeValues,
    limit: CutSpec,
    player: int,
    options: SolveOptions,
    progress: bool | None,
) -> tuple[LimitedTrunk, Policy, Searched]:
    """Solves the trunk from the game's root to the limit, then all subgames below it, for every opponent.

    Args:
      profiles: blueprints, B lanes; what search does not reach stays theirs.
      gadgets: below the limit. Where they promise best responses to a blueprint, they promise the opponent's
        average values of the search above.
      opponents: M of them.
      values: at the limit.
      limit: a cut; its public states are where the player searches again.
      player: who searches.
      options: of all solves.
      progress: a bar; see `solve_trunk`.

    Returns:
      The trunk, M × B lanes; the policies, and what the searches below found: lanes run over gadgets, then
      opponents, then blueprints.
    """
    tree, other = profiles.tree, 1 - player
    rule = options.rule
    assert rule is not None
    trunk = solve_trunk(
        tree,
        limit,
        values,
        blueprint=profiles,
        against=(player, opponents),
        algorithm=rule,
        iterations=options.iterations,
        dtype=options.dtype,
        progress=progress,
    )
    count = len(gadgets)
    above = Policy.stack([trunk.policy] * count)
    kept = ArrayValues(np.tile(-trunk.values[other], (1, count)), "search")
    below = [promising(gadget, kept) for gadget in gadgets]
    asked = [gadget for gadget in below for _ in range(trunk.policy.num_lanes)]
    forest = build_forest(tree, trunk.limit.cut)
    prepared = prepare(forest, player, above, asked, platform=options.placement.platform)
    opponent = np.tile(np.repeat(np.arange(len(opponents)), profiles.num_lanes), count)
    profile = Profile.of_blueprint(forest, above)
    searched = solve_lookahead(
        prepared.structure,
        prepared.ranges,
        profile.bodies(forest),
        asked,
        options,
        lambda done: None,
        mixtures=opponent_mixtures(forest, player, opponents),
        opponent=opponent,
        names=[
            name_lane(gadget, profiles.labels[lane % profiles.num_lanes], opponents.describe(number))
            for lane, (gadget, number) in enumerate(zip(asked, opponent.tolist(), strict=True))
        ],
    )
    return trunk, profile.with_bodies(forest, searched.strategy).policy, searched
