"""Actions with noisy values, which the player observes before it chooses.

Of two actions, one has value v, and the other earns X ~ N(m, s²). A player that observes X takes the first if
X ≤ v, with probability Φ(z) where z = (v − m)/s, and its expected payoff is

    E max(X, v) = v Φ(z) + E[X; X > v] = v Φ(z) + m Φ(−z) + s φ(z),

which exceeds max(v, m) by s·(φ(z) − |z| Φ(−|z|)). A player that takes the first action with probability q
gets at most q v + (1 − q) m + s φ(Φ⁻¹(q)), by taking the second action for the largest X. The last term, the
value of the information, is concave in q. A game with such actions is therefore concave in the plan of the
player that observes X, and linear in the other player's: it has a value, best responses to both plans are
exact, and NashConv is 0 exactly at equilibria. For s = 0 the choice is deterministic: the first action if v ≥
m.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr, ndtri
from jax.scipy.stats import norm

from jaxgadget.core.regret import ChoiceRule
from jaxgadget.core.rows import on_host
from jaxgadget.core.treeplex import Level, Treeplex, expand_infosets
from jaxgadget.util.arrays import FloatArray


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class NoisyChoice(ChoiceRule):
    """Choice rule of an entry with noisy actions: one of the two actions of an infoset is noisy.

    Attributes:
      deviation: `[Q, lanes]` standard deviation s of each action's value, whose mean is the sequence's
        constant payoff; NaN for actions that are not noisy.
    """

    deviation: jax.Array

    linear: ClassVar[bool] = False

    def respond(self, treeplex: Treeplex, values: jax.Array, strategy: jax.Array) -> jax.Array:
        """The next strategy, `[Q, lanes]`: the best choice where actions are noisy, floors mixed in."""
        chosen: list[jax.Array] = []
        count: list[jax.Array] = []
        for level in treeplex.levels():
            deviation = level.actions_of(self.deviation)
            is_noisy = ~jnp.isnan(deviation)
            z, _ = _margins(level, deviation, level.actions_of(values))
            sign = jnp.where(is_noisy, -1, 1).astype(z.dtype)
            chosen.append(ndtr(sign * level.expand(z)))
            count.append(level.sums(is_noisy.astype(z.dtype)))
        best = self.floored(treeplex, jnp.concatenate(chosen))
        return jnp.where(expand_infosets(treeplex, jnp.concatenate(count)) > 0, best, strategy)

    def best(self, level: Level, q: jax.Array) -> jax.Array:
        """`[infosets, lanes]` best values of a level, including the value of the information."""
        z, deviation = _margins(level, level.actions_of(self.deviation), q)
        far = jnp.abs(jnp.where(deviation > 0, z, 0))
        information = self._free_share(level) * deviation * (norm.pdf(far) - far * ndtr(-far))
        return super().best(level, q) + information

    def expected(self, level: Level, strategy: jax.Array, q: jax.Array) -> jax.Array:
        """`[infosets, lanes]` values of a level under a strategy, including the value of the information."""
        return super().expected(level, strategy, q) + self._information(level, strategy)

    def earned(self, treeplex: Treeplex, constant: jax.Array, plan: jax.Array) -> jax.Array:
        """`[S, lanes]` payoff of a plan from constants, including the value of the information."""
        roots, parts = treeplex.num_roots, list[jax.Array]()
        for level in treeplex.levels():
            reach = level.actions_of(plan[roots:])
            total = level.sums(reach)
            strategy = reach / level.expand(jnp.where(total > 0, total, 1))
            worth = level.expand(total * self._information(level, strategy))
            parts.append(jnp.where(jnp.isnan(level.actions_of(self.deviation)), 0, worth))
        return super().earned(treeplex, constant, plan) + jnp.pad(
            jnp.concatenate(parts), ((roots, 0), (0, 0))
        )

    def scaled(self, factor: FloatArray) -> NoisyChoice:
        """The same choice rule with all values multiplied by `[lanes]` factors."""
        return dataclasses.replace(self, deviation=on_host(factor * np.asarray(self.deviation)))

    def _information(self, level: Level, strategy: jax.Array) -> jax.Array:
        """`[infosets, lanes]` value of the information to a player with a strategy `[actions, lanes]`."""
        deviation = level.actions_of(self.deviation)
        is_noisy, share = ~jnp.isnan(deviation), self._free_share(level)
        floor = jnp.zeros_like(strategy) if self.floor is None else level.actions_of(self.floor)
        first = level.sums(jnp.where(is_noisy, 0, strategy - floor))
        chosen = jnp.clip(first / jnp.where(share > 0, share, 1), 0, 1)
        return share * level.sums(jnp.where(is_noisy, deviation, 0)) * norm.pdf(ndtri(chosen))

    def _free_share(self, level: Level) -> jax.Array | float:
        """`[infosets, lanes]` 1 minus the sum of the floors."""
        return 1.0 if self.floor is None else 1 - level.sums(level.actions_of(self.floor))


def _margins(level: Level, deviation: jax.Array, values: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`[infosets, lanes]` z and s of infosets with a noisy action.

    Args:
      level: the decisions.
      deviation: `[actions, lanes]` s, or NaN.
      values: `[actions, lanes]`.
    """
    is_noisy = ~jnp.isnan(deviation)
    margin = level.sums(jnp.where(is_noisy, -values, values))
    s = level.sums(jnp.where(is_noisy, deviation, 0))
    step = jnp.where(margin >= 0, jnp.inf, -jnp.inf).astype(s.dtype)
    return jnp.where(s > 0, margin / jnp.where(s > 0, s, 1), step), s
