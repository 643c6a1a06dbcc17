"""Whole games against opponents, one lane each: shared structure, numbers for every model and p.

*Mixed*: with probability p, drawn once, the opponent follows the model to the end (Johanson, Zinkevich and
Bowling 2007). The model's share of play is a constant of the player's sequences, p·A·x_model, and the free
opponent's share has the scale 1−p. *Biased*: the opponent follows the model with probability p at each
infoset independently (Johanson and Bowling 2009), which is a floor.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from jaxgadget.core.batch import Batch
from jaxgadget.core.problem import Problem, Terms
from jaxgadget.core.regret import ChoiceRule
from jaxgadget.core.rows import on_host
from jaxgadget.opponents.opponent import Opponents
from jaxgadget.policy.evaluate import normalise_rows
from jaxgadget.tree.sequence import SequenceForm
from jaxgadget.util.arrays import IntArray
from jaxgadget.util.players import pair_for


def mixed_games(whole: Problem, form: SequenceForm, opponents: Opponents, player: int) -> Batch:
    """Games against opponents that follow their model with probability p, drawn once at the root.

    Args:
      whole: the game in float64, with one lane.
      form: sequence form of the game.
      opponents: the opponents, one lane each.
      player: the responding player, which updates last.
    """
    mixtures, roots = opponents.in_form(form, player), form.treeplex[1 - player].num_roots

    def terms(lanes: IntArray, free: Terms) -> tuple[Terms, Terms]:
        opponent = dataclasses.replace(free, scale=on_host(np.ones((roots, len(lanes)))))
        return mixtures.mix(lanes, free, opponent, roots)

    return _games("responses", whole, opponents, player, terms)


def biased_games(whole: Problem, form: SequenceForm, opponents: Opponents, player: int) -> Batch:
    """As `mixed_games`, for opponents that follow their model with probability p at every infoset."""
    other = 1 - player
    rows = normalise_rows(opponents.models.probabilities[other], form.tree.infosets[other].infoset[1:])
    sequence = form.action_sequences(other)
    model_rows = np.where(sequence[:, None] >= 0, rows[sequence - 1], 0)

    def terms(lanes: IntArray, free: Terms) -> tuple[Terms, Terms]:
        p, model = opponents.p[lanes], opponents.model[lanes]
        return free, dataclasses.replace(free, body=ChoiceRule(floor=on_host(p * model_rows[:, model])))

    return _games("biased-responses", whole, opponents, player, terms)


def _games(
    name: str,
    whole: Problem,
    opponents: Opponents,
    player: int,
    terms: Callable[[IntArray, Terms], tuple[Terms, Terms]],
) -> Batch:
    """Games with one lane per opponent; `terms(lanes, free)` returns the terms of both players."""

    def of_players(lanes: IntArray) -> tuple[Terms, Terms]:
        free = Terms(constant=on_host(np.zeros((1, len(lanes)))))
        return pair_for(player, *terms(lanes, free))

    return Batch(
        name=name,
        order=(1 - player, player),
        sides=whole.sides,
        payoff=whole.payoff,
        num_lanes=len(opponents),
        num_games=1,
        terms=of_players,
    )
