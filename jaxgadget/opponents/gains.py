"""Gains of policies against models over the value of the game, and bounds on exploitability from gains."""

from __future__ import annotations

import numpy as np

from jaxgadget.gadgets.models import free_loss
from jaxgadget.opponents.opponent import Opponents
from jaxgadget.policy.evaluate import best_response, evaluate_policy
from jaxgadget.policy.policy import Policy
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.players import Bracket, sign_of


def gain_against(
    policy: Policy, opponents: Opponents, of_lane: IntArray, player: int, value: tuple[float, float]
) -> FloatArray:
    """`[L]` gains of a player's policies against models over the value of the game, in its utility.

    Args:
      policy: policies with L lanes; the other player's half has no effect.
      opponents: the opponents with their models.
      of_lane: `[L]` the opponent of each lane.
      player: 0 or 1.
      value: bracket of player 0's value of the game, of which the midpoint is used.

    Returns:
      The gains, NaN for opponents without a model.
    """
    has_model = opponents.have_models[of_lane]
    if not has_model.any():
        return np.full(policy.num_lanes, np.nan)
    models = opponents.models.probabilities[1 - player][:, opponents.model[of_lane]]
    earned = evaluate_policy(policy.with_player(1 - player, models)).value - Bracket(*value).middle
    return np.where(has_model, sign_of(player) * earned, np.nan)


def best_gain_against(opponents: Opponents, player: int, value: tuple[float, float]) -> FloatArray:
    """`[M]` gains of best responses to the opponents' models; NaN for opponents without a model.

    Args:
      opponents: M opponents.
      player: the responding player.
      value: bracket of player 0's value of the game, of which the midpoint is used.
    """
    if not opponents.have_models.any():
        return np.full(len(opponents), np.nan)
    best = best_response(opponents.models, player).value[opponents.model]
    return np.where(opponents.have_models, best - Bracket(*value).for_player(player).middle, np.nan)


def mixture_value(
    policy: Policy, opponents: Opponents, of_lane: IntArray, player: int, followed: BoolArray
) -> FloatArray:
    """`[L]` p × the value against the model + (1−p) × the guaranteed value, in a player's utility.

    Args:
      policy: the player's policies, L lanes.
      opponents: the opponents.
      of_lane: `[L]` the opponent of each lane.
      player: 0 or 1.
      followed: `[I]` mask of the opponent's infosets at which a model is followed; elsewhere the model's
        share of play is a best response, unless the model is followed `beyond` the limit.
    """
    other, p = 1 - player, opponents.p[of_lane]
    answer = best_response(policy, other)
    models = opponents.models.probabilities[other][:, opponents.model[of_lane]]
    beyond = np.array([beyond == "model" for beyond in opponents.beyond])[of_lane]
    at_actions = followed[policy.tree.infosets[other].infoset[1:]]
    rows = np.where(at_actions[:, None] | beyond, models, answer.policy.probabilities[other])
    earned = sign_of(player) * evaluate_policy(policy.with_player(other, rows)).value
    return p * earned - (1 - p) * answer.value


def mixture_bound(gain: FloatArray, p: FloatArray, gap: FloatArray, value: tuple[float, float]) -> FloatArray:
    """`[L]` bound on exploitability after solving against mixtures: (p·gain + gap) / (1−p).

    An equilibrium strategy of the mixture's game has a value of at least v there, so
    p·(v + G) + (1−p)·(v − E) ≥ v − gap. Gain and exploitability are measured from the midpoint of the value's
    bracket; half of its width is added to the gap, so that the bound holds for every value in the bracket
    (Milec, Kubíček and Lisý 2024, Theorem 5.3, with the errors that its proof omits).

    Args:
      gain: `[L]` gains against the models, over the midpoint of the bracket; NaN without a model.
      p: `[L]` probabilities of the models.
      gap: `[L]` sum of the gaps of all solved games.
      value: bracket of the game's value.

    Returns:
      The bounds, NaN for p = 1.
    """
    return free_loss(p, np.where(p > 0, p * gain, 0.0) + gap + Bracket(*value).half_width)
