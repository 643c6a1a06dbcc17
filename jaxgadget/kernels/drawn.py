"""Actions whose payoff is drawn, which the player learns before it chooses.

Of two actions one is worth v, and the other earns X ~ N(m, s²). Who learns X takes the first as often as
X ≤ v, with probability Φ(z) where z = (v − m)/s, and gets

    E max(X, v) = v Φ(z) + E[X; X > v] = v Φ(z) + m Φ(−z) + s φ(z):

the larger of v and m, and s·(φ(z) − |z| Φ(−|z|)) more. Who takes the first with probability q gets at most
q v + (1 − q) m + s φ(Φ⁻¹(q)), by leaving it for the largest draws. The last term, what knowing the draw is
worth, is concave in q. So a game with such actions is concave in the plan of the player who learns draws, and
linear in the other's: it has a value, best responses to both plans are exact, and NashConv is 0 at an
equilibrium and nowhere else. For s = 0 the choice is a step, the first action where v ≥ m.

Drawn actions stand in infosets of two, of the entry alone; `spread` is s for them and NaN for all others.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr, ndtri
from jax.scipy.stats import norm

from jaxgadget.kernels.regret import Bounds
from jaxgadget.kernels.treeplex import Level, Treeplex, expand_infosets


def choose(
    treeplex: Treeplex, bounds: Bounds, spread: jax.Array, values: jax.Array, strategy: jax.Array
) -> jax.Array:
    """A strategy, `[Q, lanes]`, with what is best given the draws where there are some.

    Args:
      treeplex: the decisions.
      bounds: floors, which mistakes reach whatever was drawn.
      spread: `[Q, lanes]`.
      values: `[Q, lanes]` of the actions; of drawn ones the mean.
      strategy: `[Q, lanes]` what is played where nothing is drawn.
    """
    parts: list[jax.Array] = []
    drawn: list[jax.Array] = []
    for level in treeplex.levels():
        deviation, is_drawn = level.actions_of(spread), ~jnp.isnan(level.actions_of(spread))
        z, _ = _margins(level, deviation, level.actions_of(values))
        sign = jnp.where(is_drawn, -1, 1).astype(z.dtype)
        parts.append(ndtr(sign * level.expand(z)))
        drawn.append(_count(level, is_drawn, z.dtype))
    chosen = bounds.floored(treeplex, jnp.concatenate(parts))
    return jnp.where(expand_infosets(treeplex, jnp.concatenate(drawn)) > 0, chosen, strategy)


def gained_at_best(level: Level, bounds: Bounds, spread: jax.Array, values: jax.Array) -> jax.Array:
    """`[infosets, lanes]` what knowing the draws is worth to a best response.

    Args:
      level: the decisions.
      bounds: of all levels.
      spread: `[Q, lanes]` of all levels.
      values: `[actions, lanes]` of this one.
    """
    z, deviation = _margins(level, level.actions_of(spread), values)
    far = jnp.abs(jnp.where(deviation > 0, z, 0))
    return _chosen_share(level, bounds) * deviation * (norm.pdf(far) - far * ndtr(-far))


def gained(level: Level, bounds: Bounds, spread: jax.Array, strategy: jax.Array) -> jax.Array:
    """`[infosets, lanes]` the same to a player who follows a strategy, `[actions, lanes]`, as is best."""
    deviation, is_drawn = level.actions_of(spread), ~jnp.isnan(level.actions_of(spread))
    share = _chosen_share(level, bounds)
    floor = jnp.zeros_like(strategy) if bounds.floor is None else level.actions_of(bounds.floor)
    first = level.sums(jnp.where(is_drawn, 0, strategy - floor))
    chosen = jnp.clip(first / jnp.where(share > 0, share, 1), 0, 1)
    return share * level.sums(jnp.where(is_drawn, deviation, 0)) * norm.pdf(ndtri(chosen))


def gained_by_plan(treeplex: Treeplex, bounds: Bounds, spread: jax.Array, plan: jax.Array) -> jax.Array:
    """`[Q, lanes]` the same at each drawn action, of a plan for the actions, `[Q, lanes]`."""
    parts: list[jax.Array] = []
    for level in treeplex.levels():
        reach = level.actions_of(plan)
        total = level.sums(reach)
        strategy = reach / level.expand(jnp.where(total > 0, total, 1))
        worth = total * gained(level, bounds, spread, strategy)
        parts.append(jnp.where(jnp.isnan(level.actions_of(spread)), 0, level.expand(worth)))
    return jnp.concatenate(parts)


def _margins(level: Level, deviation: jax.Array, values: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`[infosets, lanes]` z and s, where something is drawn; see above.

    Args:
      level: the decisions.
      deviation: `[actions, lanes]` s, or NaN.
      values: `[actions, lanes]`.
    """
    is_drawn = ~jnp.isnan(deviation)
    margin = level.sums(jnp.where(is_drawn, -values, values))
    s = level.sums(jnp.where(is_drawn, deviation, 0))
    step = jnp.where(margin >= 0, jnp.inf, -jnp.inf).astype(s.dtype)
    return jnp.where(s > 0, margin / jnp.where(s > 0, s, 1), step), s


def _count(level: Level, is_drawn: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """`[infosets, lanes]` how many actions are drawn."""
    return level.sums(is_drawn.astype(dtype))


def _chosen_share(level: Level, bounds: Bounds) -> jax.Array | float:
    """`[infosets, lanes]` how likely it is no mistake what is done."""
    return 1.0 if bounds.floor is None else 1 - level.sums(level.actions_of(bounds.floor))
