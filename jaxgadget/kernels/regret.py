"""Regret-matching rules, all of them with floors on the actions if wanted.

A rule says how regrets accumulate, what the next strategy matches, and how an iteration
weighs in the average: CFR (Zinkevich et al. 2007), CFR+ (Tammelin 2014), Linear and
Discounted CFR (Brown and Sandholm 2019), PCFR+ (Farina, Kroer and Sandholm 2021), SAPCFR+
(Meng et al. 2025, arXiv 2503.12770). `experiments/convergence` compares them on gadget games.

Floors are the perturbation of Farina, Kroer and Sandholm (2017), Eq. 6: the strategy
played is π' = (1−ε)π + ε·p, regrets are mapped back by Bᵀ, B = (1−ε)I + ε·p·1ᵀ. A floor
is the array f = ε·p; its sum over an infoset is ε. ε and p may differ by infoset and lane.
"""

from __future__ import annotations

import dataclasses

import chex
import jax
import jax.numpy as jnp

from jaxgadget.kernels.treeplex import Level, Treeplex, expand_infosets, sum_actions

ZERO_REGRET = 4.0
"""Positive regrets whose sum is below `ZERO_REGRET` × machine epsilon × the payoff range of
the infoset count as zero: they are rounding, and the strategy there is uniform."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rule:
    """How regrets accumulate and iterations are averaged. Hashable, a static argument.

    Attributes:
      name: as the command line spells it.
      plus: regrets below zero are set to zero.
      positive_discount: α; positive regrets are multiplied by t^α / (t^α + 1) after iteration t.
      negative_discount: β; the same for negative ones.
      predictive: the next strategy matches the regrets as if the last ones came again.
      trust: how much of the last ones a predictive rule expects again.
      averaging: γ; iteration t weighs t^γ in the average.
    """

    name: str
    plus: bool = False
    positive_discount: float | None = None
    negative_discount: float | None = None
    predictive: bool = False
    trust: float = 1.0
    averaging: float = 0.0

    def weight(self, t: jax.Array) -> jax.Array:
        """What iteration t = 1, 2, … weighs in the average."""
        return t**self.averaging

    def accumulate(self, regret_sum: jax.Array, regret: jax.Array, t: jax.Array) -> jax.Array:
        """Regret sums after iteration t."""
        total = regret_sum + regret
        if self.plus:
            total = jnp.maximum(total, 0)
        if self.positive_discount is None and self.negative_discount is None:
            return total
        kept = _kept(self.positive_discount, t), _kept(self.negative_discount, t)
        return total * jnp.where(total > 0, *kept)

    def basis(self, regret_sum: jax.Array, regret: jax.Array) -> jax.Array:
        """What the next strategy matches, given the last iteration's regrets."""
        return regret_sum + self.trust * regret if self.predictive else regret_sum


def _kept(exponent: float | None, t: jax.Array) -> jax.Array:
    """Which share of a regret outlives iteration t."""
    return jnp.ones_like(t) if exponent is None else t**exponent / (t**exponent + 1)


RULES = {
    rule.name: rule
    for rule in (
        Rule(name="cfr"),
        Rule(name="cfr+", plus=True, averaging=1.0),
        Rule(name="linear-cfr", positive_discount=1.0, negative_discount=1.0, averaging=1.0),
        Rule(name="dcfr", positive_discount=1.5, negative_discount=0.0, averaging=2.0),
        Rule(name="pcfr+", plus=True, predictive=True, averaging=2.0),
        Rule(name="sapcfr+", plus=True, predictive=True, trust=1 / 3, averaging=2.0),
    )
}
"""The rules by name."""


def find_rule(algorithm: str | Rule, name: str = "algorithm", besides: tuple[str, ...] = ()) -> Rule:
    """The rule of that name; ValueError, naming the argument and what else it takes, if there is none."""
    if isinstance(algorithm, Rule):
        return algorithm
    if algorithm not in RULES:
        raise ValueError(f"{name}={algorithm!r} is unknown; expected one of {', '.join((*RULES, *besides))}")
    return RULES[algorithm]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Bounds:
    """What a strategy may be. Absent parts bind nothing.

    Attributes:
      legal: `[Q, lanes]` actions that may be played; an infoset without any has strategy 0.
      floor: `[Q, lanes]` least probability of every action, 0 where not legal.
    """

    legal: jax.Array | None = None
    floor: jax.Array | None = None

    def floored(self, treeplex: Treeplex, strategy: jax.Array) -> jax.Array:
        """π → (1−ε)π + ε·p, `[Q, lanes]`."""
        if self.floor is None:
            return strategy
        parts = [self._mixed(level, strategy[level.actions]) for level in treeplex.levels()]
        return jnp.concatenate(parts) if parts else strategy

    def uniform(self, treeplex: Treeplex) -> jax.Array:
        """All legal actions alike, `[Q, lanes or 1]`."""
        if self.legal is None:
            return treeplex.share[:, None]
        legal = self.legal.astype(treeplex.share.dtype)
        return legal / jnp.maximum(expand_infosets(treeplex, sum_actions(treeplex, legal)), 1)

    def divisor(self, level: Level, positive: jax.Array, tolerance: jax.Array) -> jax.Array:
        """`[infosets, L]` what a level's positive regrets are divided by; see `match`.

        Where there are none, it is below zero: minus the number of legal actions.
        """
        total = level.sums(positive)
        if self.legal is None:
            width = jnp.asarray(level.widths, total.dtype)[:, None]
        else:
            width = jnp.maximum(level.sums(self.legal[level.actions].astype(total.dtype)), 1)
        return jnp.where(total > tolerance, total, -width)

    def mapped_back(self, level: Level, regret: jax.Array) -> jax.Array:
        """Bᵀ times what every action of a level would have gained."""
        if self.floor is None:
            return regret
        floor = self.floor[level.actions]
        epsilon, shared = level.sums(floor), level.sums(floor * regret)
        return (1 - level.expand(epsilon)) * regret + level.expand(shared)

    def _mixed(self, level: Level, strategy: jax.Array) -> jax.Array:
        if self.floor is None:
            return strategy
        floor = self.floor[level.actions]
        return (1 - level.expand(level.sums(floor))) * strategy + floor

    def best(self, level: Level, q: jax.Array) -> jax.Array:
        """The most that the infosets of a level can be worth, `[actions, lanes]` → `[infosets, lanes]`."""
        allowed = q if self.legal is None else jnp.where(self.legal[level.actions], q, -jnp.inf)
        value = level.largest(allowed)
        if self.legal is not None:
            value = jnp.where(jnp.isneginf(value), 0, value)
        if self.floor is None:
            return value
        floor = self.floor[level.actions]
        return (1 - level.sums(floor)) * value + level.sums(floor * q)


def match(treeplex: Treeplex, basis: jax.Array, tolerance: jax.Array, bounds: Bounds) -> jax.Array:
    """Regret matching at every infoset, then the floor.

    Args:
      treeplex: the player's decisions.
      basis: `[Q, lanes]` regrets to match.
      tolerance: `[I, lanes]` a sum of positive regrets up to this counts as none.
      bounds: legal actions and floors.

    Returns:
      The strategy, `[Q, lanes]`; uniform where no regret is positive.
    """
    chex.assert_shape(basis, (treeplex.num_actions, None))
    chex.assert_shape(tolerance, (treeplex.num_infosets, None))
    if not treeplex.runs:
        return basis
    positive = jnp.maximum(basis, 0)
    if bounds.legal is not None:
        positive = jnp.where(bounds.legal, positive, 0)
    divisors = [
        level.spread(bounds.divisor(level, positive[level.actions], tolerance[level.infosets]))
        for level in treeplex.levels()
    ]
    divisor = jnp.concatenate([slot for level in divisors for slot in level])
    uniform = 1 if bounds.legal is None else bounds.legal.astype(basis.dtype)
    return bounds.floored(treeplex, jnp.where(divisor > 0, positive, uniform) / jnp.abs(divisor))


def learn(
    treeplex: Treeplex,
    rule: Rule,
    bounds: Bounds,
    regret_sum: jax.Array,
    values: tuple[jax.Array, jax.Array],
    t: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """One iteration's regrets: what every action would have gained, mapped back by Bᵀ, added up.

    Args:
      treeplex: the player's decisions.
      rule: how regrets accumulate.
      bounds: legal actions and floors.
      regret_sum: `[Q, lanes]` the regrets so far.
      values: of actions `[Q, lanes]`, and of infosets `[I, lanes]` under the strategy played.
      t: number of the iteration, from 1.

    Returns:
      The regrets now, and what the next strategy matches, `[Q, lanes]` each.
    """
    q, value = values
    chex.assert_shape((q, regret_sum), (treeplex.num_actions, None))
    chex.assert_shape(value, (treeplex.num_infosets, None))
    totals: list[jax.Array] = []
    basis: list[jax.Array] = []
    for level in treeplex.levels():
        regret = bounds.mapped_back(level, q[level.actions] - level.expand(value[level.infosets]))
        totals.append(rule.accumulate(regret_sum[level.actions], regret, t))
        basis.append(rule.basis(totals[-1], regret))
    if not totals:
        return regret_sum, regret_sum
    return jnp.concatenate(totals), jnp.concatenate(basis)
