"""Whole games against opponents, a lane each: the structure once, numbers for every model and p.

*Mixed*: the opponent is the model to the end with probability p, drawn once (Johanson, Zinkevich and
Bowling 2007). The model's share of play is what the player's sequences earn by themselves, p·A·x_model, and
the free opponent's share a scale of 1−p. *Biased*: it is the model with probability p at every infoset by
itself (Johanson and Bowling 2009), which is a floor.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
from scipy.sparse import csr_array

from jaxgadget.gadgets.models import Mixtures
from jaxgadget.kernels.batch import Batch
from jaxgadget.kernels.problem import Problem, Terms
from jaxgadget.kernels.regret import Bounds
from jaxgadget.kernels.rows import on_host
from jaxgadget.opponents.opponent import Opponents
from jaxgadget.policy.evaluate import normalise_rows
from jaxgadget.policy.policy import Policy
from jaxgadget.tree.sequence import SequenceForm
from jaxgadget.util.arrays import FloatArray, IntArray


def mixed_games(whole: Problem, form: SequenceForm, opponents: Opponents, player: int) -> Batch:
    """Games against opponents who are their model with probability p, drawn once at the root.

    Args:
      whole: the game in float64, one lane.
      form: the same game.
      opponents: a lane each.
      player: who responds, and updates last.
    """
    earned = earned_against(form, opponents.models, player)
    nobody = np.zeros((0, opponents.models.num_lanes))  # no model is left before the end
    everybody = np.ones((1, opponents.models.num_lanes))
    mixtures = Mixtures(p=opponents.p, model=opponents.model, earned=earned, entered=nobody, reach=everybody)

    def terms(lanes: IntArray, plain: Terms) -> tuple[Terms, Terms]:
        return mixtures.mix(lanes, plain, plain, 1)

    return _games("responses", whole, opponents, player, terms)


def biased_games(whole: Problem, form: SequenceForm, opponents: Opponents, player: int) -> Batch:
    """Games against opponents who are their model with probability p at every infoset; arguments as above."""
    other = 1 - player
    rows = normalise_rows(opponents.models.probabilities[other], form.tree.infosets[other].infoset[1:])
    model_rows = rows[form.action_sequences(other) - 1]

    def terms(lanes: IntArray, plain: Terms) -> tuple[Terms, Terms]:
        p, model = opponents.p[lanes], opponents.model[lanes]
        return plain, dataclasses.replace(plain, body=Bounds(floor=on_host(p * model_rows[:, model])))

    return _games("biased-responses", whole, opponents, player, terms)


def _games(
    name: str,
    whole: Problem,
    opponents: Opponents,
    player: int,
    terms: Callable[[IntArray, Terms], tuple[Terms, Terms]],
) -> Batch:
    """A lane for every opponent; `terms(lanes, plain)` makes the player's and the opponent's."""

    def of_players(lanes: IntArray) -> tuple[Terms, Terms]:
        ones, zeros = np.ones((1, len(lanes))), np.zeros((1, len(lanes)))
        own, free = terms(lanes, Terms(scale=on_host(ones), constant=on_host(zeros)))
        return (own, free) if player == 0 else (free, own)

    return Batch(
        name=name,
        order=(1 - player, player),
        sides=whole.sides,
        payoff=whole.payoff,
        num_lanes=len(opponents),
        num_games=1,
        terms=of_players,
    )


def earned_against(form: SequenceForm, policy: Policy, player: int) -> FloatArray:
    """`[S, lanes]` what every sequence of the player earns against the other half of a policy."""
    other, entries = 1 - player, form.payoff
    reach = np.ones((form.treeplex[other].num_sequences, policy.num_lanes))
    reach[form.treeplex[other].num_roots :] = policy.reach(other)[form.action_sequences(other)]
    payoff = csr_array((entries.value, (entries.row, entries.column)), entries.shape)
    return payoff @ reach if player == 0 else -(payoff.T @ reach)
