"""Opponents who follow models, in searches that end before the game does."""

from __future__ import annotations

import dataclasses

import numpy as np

from jaxgadget.gadgets.models import Mixtures, find_mixtures
from jaxgadget.opponents.opponent import Opponents
from jaxgadget.policy.policy import Policy
from jaxgadget.tree.cut import Cut
from jaxgadget.tree.forest import Forest
from jaxgadget.util.arrays import FloatArray
from jaxgadget.values.histories import ValueFunction


def opponent_mixtures(
    forest: Forest, player: int, opponents: Opponents, values: ValueFunction | None = None
) -> Mixtures:
    """What opponents bring to a forest.

    Args:
      forest: its extra roots are where models are followed no longer, unless an opponent's is beyond.
      player: who searches.
      opponents: M of them.
      values: at the forest's leaves; None if it goes on to the end of the game.
    """
    reach = opponents.models.reach(1 - player)
    rational = find_mixtures(forest, player, opponents.p, opponents.model, reach)
    beyond = np.array([beyond == "model" for beyond in opponents.beyond])
    if forest.extra is None or not beyond.any():
        return rational
    locked = dataclasses.replace(forest, extra=None)
    to_the_end = find_mixtures(locked, player, opponents.p, opponents.model, reach)
    count = reach.shape[1]
    return Mixtures(
        p=opponents.p,
        model=opponents.model + count * beyond,
        earned=np.concatenate([rational.earned, to_the_end.earned], axis=1),
        entered=np.concatenate([rational.entered, np.zeros_like(rational.entered)], axis=1),
        reach=np.concatenate([rational.reach, to_the_end.reach], axis=1),
    )


def earned_outside(where: Cut, player: int, policy: Policy, reach: FloatArray) -> FloatArray:
    """`[L]` what a player earns against models where play does not come through a cut.

    Args:
      where: the cut.
      player: who earns, in whose utility.
      policy: its own, L lanes.
      reach: `[sequences, L]` the models' reach of the opponent's sequences.
    """
    tree = where.tree
    ends = tree.terminals[where.root[tree.terminals] < 0]
    weight = tree.chance[ends] * tree.payoff[ends] * (1 if player == 0 else -1)
    own, theirs = policy.reach(player)[tree.sequence[player, ends]], reach[tree.sequence[1 - player, ends]]
    return np.einsum("h,hl,hl->l", weight, own, theirs)
