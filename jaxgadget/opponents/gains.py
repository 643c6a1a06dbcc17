"""What policies gain against models over the value of the game, and what that bounds."""

from __future__ import annotations

import numpy as np

from jaxgadget.opponents.opponent import Opponents
from jaxgadget.policy.evaluate import best_response, evaluate_policy
from jaxgadget.policy.policy import Policy
from jaxgadget.util.arrays import FloatArray, IntArray


def gain_against(
    policy: Policy, opponents: Opponents, of_lane: IntArray, player: int, value: tuple[float, float]
) -> FloatArray:
    """`[L]` what a player's policies get against models over the value of the game, in its utility.

    Args:
      policy: L lanes; the other player's half does not matter.
      opponents: whose models.
      of_lane: `[L]` which opponent each lane is held against.
      player: 0 or 1.
      value: bracket of player 0's value of the game, of which the middle counts.

    Returns:
      NaN where there is no model.
    """
    known = opponents.have_models[of_lane]
    if not known.any():
        return np.full(policy.num_lanes, np.nan)
    ours = policy.probabilities[player]
    models = opponents.models.probabilities[1 - player][:, opponents.model[of_lane]]
    pair = (ours, models) if player == 0 else (models, ours)
    earned = evaluate_policy(Policy(policy.tree, pair, policy.labels)).value - sum(value) / 2
    return np.where(known, earned if player == 0 else -earned, np.nan)


def best_gain_against(opponents: Opponents, player: int, value: tuple[float, float]) -> FloatArray:
    """`[M]` the gains of best responses to every opponent's model; NaN where there is none.

    Args:
      opponents: M of them.
      player: who responds.
      value: bracket of player 0's value of the game, of which the middle counts.
    """
    if not opponents.have_models.any():
        return np.full(len(opponents), np.nan)
    best = best_response(opponents.models, player).value[opponents.model]
    of_game = sum(value) / 2 * (1 if player == 0 else -1)
    return np.where(opponents.have_models, best - of_game, np.nan)


def mixture_bound(gain: FloatArray, p: FloatArray, gap: FloatArray, value: tuple[float, float]) -> FloatArray:
    """`[L]` what exploitability is at most after solving against mixtures: (p·gain + gap) / (1−p).

    An equilibrium strategy gets at least v in the mixture's game: p·(v + G) + (1−p)·(v − E) ≥ v − gap. Gain
    and exploitability are measured from the middle of the value's bracket, so half of its width is added to
    the gap (Milec, Kubíček and Lisý 2024, Theorem 5.3, with the errors that its proof leaves out).

    Args:
      gain: `[L]` against the models, over the middle of the bracket; NaN without a model.
      p: `[L]`.
      gap: `[L]` of all games that were solved, together.
      value: the bracket of the game's value.

    Returns:
      NaN for p = 1.
    """
    earned = np.where(p > 0, p * gain, 0.0) + gap + (value[1] - value[0]) / 2
    return np.where(p < 1, earned / np.where(p < 1, 1 - p, 1.0), np.nan)
