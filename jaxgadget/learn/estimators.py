"""Estimators of values, advantages and policy gradients from complete games, with γ = 1.

A player's own decisions form its trajectory. Moves of chance and of the opponent between two of them belong
to the environment; if the opponent's policy differs from the one that played, the product of its probability
ratios is part of the segment's importance weight.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Targets(NamedTuple):
    """Estimates at all decisions, `[T, 2, n]`; 0 where the player does not act.

    Attributes:
      value: targets of the value of the infostate.
      outcome: estimates of the value after the chosen action.
    """

    value: jax.Array
    outcome: jax.Array


def v_trace(
    values: jax.Array,
    returns: jax.Array,
    acting: jax.Array,
    *,
    ratio: jax.Array | None = None,
    rewards: jax.Array | None = None,
    decay: float = 1.0,
    rho_bar: float = jnp.inf,
    c_bar: float = jnp.inf,
) -> Targets:
    """V-trace (Espeholt et al. 2018) over each player's own decisions.

    With `rho_bar = c_bar = inf` and `decay = 1` this is exact importance sampling: the expectation of the
    targets does not depend on `values`. Without ratios it is the λ-return, so that `value - values` are the
    advantages of GAE(λ) (Schulman et al. 2016).

    Args:
      values: `[T, 2, n]` values of each player's infostates, in its own payoff.
      returns: `[2, n]` both players' returns.
      acting: `[T, 2, n]` mask of the decisions.
      ratio: `[T, 2, n]` probability of the chosen action under the policy to evaluate, divided by that under
        the policy that played; 1 where the player does not act. None: 1 everywhere.
      rewards: `[T, 2, n]` rewards of the moves, in addition to the returns.
      decay: λ.
      rho_bar: clip of the weights of temporal differences, which determines the fixed point.
      c_bar: clip of the traces.
    """
    ratio = jnp.ones_like(values) if ratio is None else ratio
    rewards = jnp.zeros_like(values) if rewards is None else rewards

    def step(
        carry: tuple[jax.Array, ...], now: tuple[jax.Array, ...]
    ) -> tuple[tuple[jax.Array, ...], Targets]:
        """One step backwards; the carry describes the segment up to the player's next own decision."""
        reward, weight, next_value, next_target = carry
        value, own_ratio, own, gained = now
        reward, weight = reward + gained, weight * own_ratio[::-1]
        correction = own_ratio * weight
        rho, c = jnp.minimum(rho_bar, correction), jnp.minimum(c_bar, correction)
        target = value + rho * (reward + next_value - value) + decay * c * (next_target - next_value)
        outcome = weight * (reward + next_target)
        fresh = jnp.zeros_like(reward), jnp.ones_like(weight), value, target
        carry = tuple(
            jnp.where(own, new, old) for new, old in zip(fresh, (reward, weight, *carry[2:]), strict=True)
        )
        return carry, Targets(jnp.where(own, target, 0), jnp.where(own, outcome, 0))

    start = returns, jnp.ones_like(returns), jnp.zeros_like(returns), jnp.zeros_like(returns)
    return jax.lax.scan(step, start, (values, ratio, acting, rewards), reverse=True)[1]


def state_v_trace(
    values: jax.Array,
    returns: jax.Array,
    goes_on: jax.Array,
    *,
    ratio: jax.Array,
    decay: float = 1.0,
    rho_bar: float = jnp.inf,
    c_bar: float = jnp.inf,
) -> jax.Array:
    """`[T, ...]` V-trace targets of the values of states, whose every move is one decision; 0 after the end.

    Args:
      values: `[T, ...]` values of the states to player 0.
      returns: `[...]` player 0's at the end.
      goes_on: `[T, ...]` mask of the states before the end.
      ratio: `[T, ...]` probability of the move under the policies to evaluate, divided by that under those
        that played; 1 for moves of chance and after the end.
      decay: λ.
      rho_bar: as for `v_trace`.
      c_bar: as for `v_trace`.
    """

    def alone(x: jax.Array, axis: int) -> jax.Array:
        """With another player who never acts."""
        return jnp.stack([x, jnp.zeros_like(x)], axis=axis)

    targets = v_trace(
        alone(values, 1),
        alone(returns, 0),
        alone(goes_on, 1),
        ratio=jnp.stack([ratio, jnp.ones_like(ratio)], axis=1),
        decay=decay,
        rho_bar=rho_bar,
        c_bar=c_bar,
    )
    return targets.value[:, 0]


def action_values(
    values: jax.Array, outcome: jax.Array, action: jax.Array, probability: jax.Array
) -> jax.Array:
    """`[..., A]` unbiased estimates of the values of all actions from the outcome of one.

    The value of the infostate is the control variate (Schmid et al. 2019): only the chosen action's differs.

    Args:
      values: `[...]` values of the infostates.
      outcome: `[...]` estimate of the value after the chosen action.
      action: `[...]` chosen actions, < 0 for none.
      probability: `[..., A]` probabilities of the actions under the policy that played.
    """
    is_chosen = jax.nn.one_hot(action, probability.shape[-1], dtype=bool)
    surprise = (outcome - values)[..., None] / jnp.where(is_chosen, probability, 1)
    return values[..., None] + jnp.where(is_chosen, surprise, 0)


def neurd_loss(
    logits: jax.Array, legal: jax.Array, action_values: jax.Array, *, threshold: float, clip: float = jnp.inf
) -> jax.Array:
    """`[...]` NeuRD's loss (Hennes et al. 2020), which moves logits by the advantages minus their mean.

    Args:
      logits: `[..., A]` logits of the policy.
      legal: `[..., A]` mask of legal actions, at least one of them.
      action_values: `[..., A]` values of actions for the player.
      threshold: β; a logit is never moved out of [-β, β] around the mean logit of the legal actions.
      clip: largest absolute advantage.
    """
    count = jnp.sum(legal, axis=-1, keepdims=True, dtype=logits.dtype)
    policy = legal_softmax(logits, legal)
    advantage = action_values - jnp.sum(policy * action_values, axis=-1, keepdims=True)
    force = jax.lax.stop_gradient(jnp.clip(advantage, -clip, clip))
    mean = jnp.sum(jnp.where(legal, logits, 0), axis=-1, keepdims=True) / count
    centred = logits - mean
    may_move = jnp.where(force < 0, centred > -threshold, centred < threshold)
    force = jnp.where(legal & may_move, force, 0)
    return -jnp.sum(jnp.where(legal, centred, 0) * jax.lax.stop_gradient(force), axis=-1)


def legal_softmax(logits: jax.Array, legal: jax.Array) -> jax.Array:
    """`[..., A]` softmax over the legal actions, 0 elsewhere; at least one action must be legal."""
    return jax.nn.softmax(jnp.where(legal, logits, -jnp.inf), axis=-1)
