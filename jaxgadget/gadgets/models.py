"""Opponents that follow a model with probability p, as numbers of a gadget game.

The resolving player's payoff against the model is a constant of the player's sequences, and the probability
1 − p of the free opponent scales the entry; no history is added.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from jaxgadget.core.payoff import multiply
from jaxgadget.core.problem import Terms
from jaxgadget.core.rows import on_host, pad_rows
from jaxgadget.gadgets.ranges import Ranges, largest_rows
from jaxgadget.tree.forest import Forest, followed_payoff
from jaxgadget.tree.sequence import SequenceForm
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.players import sign_of


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Mixtures:
    """M opponents over a forest, which follow N models.

    Payoffs and reaches are weighted by the model's own reach from the game's root, without normalisation.

    Attributes:
      p: `[M]` probability that each opponent follows its model.
      model: `[M]` index of each opponent's model.
      earned: `[S, N]` payoff of each sequence of the resolving player's body while the opponent follows a
        model, in the resolving player's utility, weighted by the reach of chance and the model.
      entered: `[E, N]` each model's reach of the extra roots, below which it is not followed; E may be 0.
      reach: `[R, N]` each model's reach of the opponent's roots.
    """

    p: FloatArray
    model: IntArray
    earned: FloatArray
    entered: FloatArray
    reach: FloatArray

    def __len__(self) -> int:
        return len(self.p)

    def mix(self, lanes: IntArray, resolver: Terms, opponent: Terms, num_roots: int) -> tuple[Terms, Terms]:
        """Adds the models to a gadget's numbers; returns the resolving player's, then the opponent's.

        Args:
          lanes: `[L]` index of each lane's mixture.
          resolver: the resolving player's terms without a mixture; they must have no constants of the body.
          opponent: the opponent's terms without a mixture, with padded roots.
          num_roots: number of the free opponent's roots, without padding and extra roots.
        """
        p, model = self.p[lanes], self.model[lanes]
        scale = np.asarray(opponent.scale)
        mixed = np.concatenate([(1 - p) * scale[:num_roots], p * self.entered[:, model]])
        free = dataclasses.replace(
            opponent,
            scale=on_host(pad_rows(mixed, len(scale), 0)),
            constant=on_host((1 - p) * np.asarray(opponent.constant)),
            entry=opponent.entry.scaled(1 - p),
        )
        return dataclasses.replace(resolver, body_constant=on_host(p * self.earned[:, model])), free

    def has_decision(
        self, lanes: IntArray, alone: BoolArray, ranges: Ranges, blueprint: IntArray
    ) -> BoolArray:
        """`[S, L]` True where there is a decision: against the free opponent, or against the model.

        Args:
          lanes: `[L]` index of each lane's mixture.
          alone: `[S, L]` True where there is a decision against the free opponent.
          ranges: ranges of the blueprints.
          blueprint: `[L]` index of each lane's blueprint.
        """
        p, model = self.p[lanes], self.model[lanes]
        is_reached = ranges.per_subgame(self.reach[:, model] * (ranges.mass[:, blueprint] > 0)) > 0
        return (alone & (p < 1)) | (is_reached & (p > 0))

    def largest_share(self, lanes: IntArray, free: FloatArray, ranges: Ranges) -> FloatArray:
        """`[S, L]` largest weight of a root of each subgame, over the free opponent and the model.

        Args:
          lanes: `[L]` index of each lane's mixture.
          free: `[S, L]` largest weight of a root for the free opponent alone.
          ranges: ranges of the blueprints.
        """
        p, model = self.p[lanes], self.model[lanes]
        followed = largest_rows(ranges.subgame, self.reach[:, model], ranges.num_subgames)
        return np.maximum((1 - p) * free, p * followed)

    def replaced(self, other: Mixtures, taken: BoolArray) -> Mixtures:
        """Replaces some opponents by those of `other`, whose models also apply below extra roots.

        Args:
          other: the same opponents, over the forest without its extra roots.
          taken: `[M]` True for opponents to take from `other`.
        """
        return Mixtures(
            p=self.p,
            model=self.model + self.earned.shape[1] * taken,
            earned=np.concatenate([self.earned, other.earned], axis=1),
            entered=np.concatenate([self.entered, np.zeros_like(self.entered)], axis=1),
            reach=np.concatenate([self.reach, other.reach], axis=1),
        )


def free_loss(p: FloatArray, lost: FloatArray) -> FloatArray:
    """Bound on the loss in the free opponent's game, given the loss in the mixture's game; NaN for p = 1.

    Args:
      p: probability that the opponent follows the model.
      lost: gap of the mixture's game, plus p × the gain against the model; broadcasts with `p`.
    """
    return np.where(p < 1, lost / np.where(p < 1, 1 - p, 1.0), np.nan)


def find_mixtures(forest: Forest, player: int, p: FloatArray, model: IntArray, reach: FloatArray) -> Mixtures:
    """Computes reaches and payoffs of models in a forest.

    Args:
      forest: the subgames; extra roots, if any, are the opponent's.
      player: the resolving player.
      p: `[M]` probability that each opponent follows its model.
      model: `[M]` index of each opponent's model.
      reach: `[sequences of the tree, N]` each model's reach of the opponent's sequences.
    """
    extra = forest.extra
    entered = np.zeros((0, reach.shape[1])) if extra is None else reach[extra.roots.sequence]
    return Mixtures(
        p=p,
        model=model,
        earned=multiply(followed_payoff(forest, player), player, reach),
        entered=entered,
        reach=forest.roots[1 - player].reach(reach),
    )


def form_mixtures(
    form: SequenceForm, player: int, p: FloatArray, model: IntArray, reach: FloatArray
) -> Mixtures:
    """Computes payoffs of models in a whole game or a trunk.

    Args:
      form: the game.
      player: the responding player.
      p: `[M]` probability that each opponent follows its model.
      model: `[M]` index of each opponent's model.
      reach: `[sequences of the tree, N]` each model's reach of the opponent's sequences.
    """
    treeplex = form.treeplex[1 - player]
    followed = np.ones((treeplex.num_sequences, reach.shape[1]))
    followed[treeplex.num_roots :] = reach[form.action_sequences(1 - player)]
    return Mixtures(
        p=p,
        model=model,
        earned=sign_of(player) * multiply(form.payoff, player, followed),
        entered=np.zeros((0, reach.shape[1])),  # models are followed to the end and enter no root
        reach=np.ones((treeplex.num_roots, reach.shape[1])),
    )
