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
from jaxgadget.values.histories import ExactValues, ValueFunction


def opponent_mixtures(
    forest: Forest, player: int, opponents: Opponents, values: ValueFunction | None = None
) -> Mixtures:
    """What opponents bring to a forest.

    Args:
      forest: its extra roots are where models are followed no longer, unless an opponent's is beyond.
      player: who searches.
      opponents: M of them.
      values: at the forest's leaves; None if it goes on to the end of the game.

    Raises:
      ValueError: if a model is followed beyond the limit, and values there do not say how it fares.
    """
    reach = opponents.models.reach(1 - player)
    rational = find_mixtures(forest, player, opponents.p, opponents.model, reach)
    beyond = np.array([beyond == "model" for beyond in opponents.beyond])
    if forest.extra is None or not beyond.any():
        return rational
    locked = dataclasses.replace(forest, extra=None)
    to_the_end = find_mixtures(locked, player, opponents.p, opponents.model, reach)
    if len(forest.leaves):
        at_limit = _followed_beyond(forest, player, opponents, values)
        to_the_end = dataclasses.replace(to_the_end, earned=to_the_end.earned + at_limit)
    count = reach.shape[1]
    return Mixtures(
        p=opponents.p,
        model=opponents.model + count * beyond,
        earned=np.concatenate([rational.earned, to_the_end.earned], axis=1),
        entered=np.concatenate([rational.entered, np.zeros_like(rational.entered)], axis=1),
        reach=np.concatenate([rational.reach, to_the_end.reach], axis=1),
    )


def _followed_beyond(
    forest: Forest, player: int, opponents: Opponents, values: ValueFunction | None
) -> FloatArray:
    """`[S, N]` what each choice of a player's at the limit earns against models, as `Mixtures.earned`."""
    if not isinstance(values, ExactValues):
        raise ValueError(
            f"beyond='model' with values={values!r}: how a model fares below the limit is known to "
            "ExactValues(portfolio) and OptimalValues(); expected one of these, or beyond='rational'"
        )
    tree, leaves, models, other = forest.tree, forest.leaves.histories, opponents.models, 1 - player
    entries = values.portfolio.on(tree).probabilities[player]
    reach = models.reach(other)[tree.sequence[other, leaves]]
    first_copies = forest.leaves.sequence[player][: len(leaves)]  # those below extra roots follow
    earned = np.zeros((forest.form.treeplex[player].num_sequences, models.num_lanes))
    for number in range(models.num_lanes):
        model = np.repeat(models.probabilities[other][:, number : number + 1], entries.shape[1], axis=1)
        pair = (entries, model) if player == 0 else (model, entries)
        table = ExactValues(Policy(tree, pair, values.portfolio.labels))(tree, leaves)
        by_entry = table[:, :, 0] if player == 0 else -table[:, 0]
        weight = tree.chance[leaves] * reach[:, number]
        np.add.at(earned[:, number], first_copies, weight[:, None] * by_entry)
    return earned


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
