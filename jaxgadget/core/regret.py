"""Regret-matching rules, with optional floors on action probabilities.

A rule determines how regrets accumulate, which regrets the next strategy matches, and the weight of
each iteration in the average: CFR (Zinkevich et al. 2007), CFR+ (Tammelin 2014), Linear and
Discounted CFR (Brown and Sandholm 2019), PCFR+ (Farina, Kroer and Sandholm 2021), SAPCFR+
(Meng et al. 2025, arXiv 2503.12770). `experiments/convergence` compares them on gadget games.

Floors are the perturbation of Farina, Kroer and Sandholm (2017), Eq. 6: the strategy
played is π' = (1−ε)π + ε·p, regrets are mapped back by Bᵀ, B = (1−ε)I + ε·p·1ᵀ. A floor
is the array f = ε·p; its sum over an infoset is ε. ε and p may differ by infoset and lane.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, ClassVar, Protocol, TypeGuard, runtime_checkable

import chex
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jaxgadget.core.registry import RULES
from jaxgadget.core.treeplex import Level, Treeplex, expand_infosets, sum_actions
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.registry import find

ZERO_REGRET = 4.0
"""Positive regrets whose sum is at most `ZERO_REGRET` × machine epsilon × the payoff range of
the infoset are regarded as rounding errors: they count as 0, and the strategy is uniform."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class ChoiceRule:
    """Choice rule at a player's infosets: the allowed strategies, and their values.

    A subclass may override the choice of the regret-matching rule, and its values may be nonlinear in the
    strategy, as in `core.noise.NoisyChoice`.

    Attributes:
      legal: `[Q, lanes]` True for legal actions; the strategy is 0 at an infoset without any. None if all
        actions are legal.
      floor: `[Q, lanes]` least probability of every action, 0 for illegal ones; None for no floors.
    """

    legal: jax.Array | None = None
    floor: jax.Array | None = None

    linear: ClassVar[bool] = True
    """True if values are linear in the strategy, as linear programs require."""

    def respond(self, treeplex: Treeplex, values: jax.Array, strategy: jax.Array) -> jax.Array:
        """The next strategy, `[Q, lanes]`.

        Args:
          treeplex: the decisions.
          values: `[Q, lanes]` values of the actions.
          strategy: `[Q, lanes]` next strategy of the regret-matching rule.
        """
        return strategy

    def expected(self, level: Level, strategy: jax.Array, q: jax.Array) -> jax.Array:
        """`[infosets, lanes]` values of a level's infosets under a strategy, both `[actions, lanes]`."""
        return level.sums(strategy * q)

    def earned(self, treeplex: Treeplex, constant: jax.Array, plan: jax.Array) -> jax.Array:
        """`[S, lanes]` payoff of a plan from the constants of its sequences, both `[S, lanes]`."""
        return constant * plan

    def scaled(self, factor: FloatArray) -> ChoiceRule:
        """The same choice rule with all values multiplied by `[lanes]` factors."""
        return self

    def floored(self, treeplex: Treeplex, strategy: jax.Array) -> jax.Array:
        """Mixes the floors into a strategy: π → (1−ε)π + ε·p, `[Q, lanes]`."""
        if self.floor is None:
            return strategy
        parts = [self._mixed(level, level.actions_of(strategy)) for level in treeplex.levels()]
        return jnp.concatenate(parts) if parts else strategy

    def uniform(self, treeplex: Treeplex) -> jax.Array:
        """Equal probabilities of all legal actions, `[Q, lanes or 1]`."""
        if self.legal is None:
            return treeplex.share[:, None]
        legal = self.legal.astype(treeplex.share.dtype)
        return legal / jnp.maximum(expand_infosets(treeplex, sum_actions(treeplex, legal)), 1)

    def divisor(self, level: Level, positive: jax.Array, tolerance: jax.Array) -> jax.Array:
        """`[infosets, L]` sum of a level's positive regrets, by which `match` divides them.

        If the sum is at most `tolerance`, the result is minus the number of legal actions.
        """
        total = level.sums(positive)
        if self.legal is None:
            width = level.num_choices(total.dtype)
        else:
            width = jnp.maximum(level.sums(level.actions_of(self.legal).astype(total.dtype)), 1)
        return jnp.where(total > tolerance, total, -width)

    def mapped_back(self, treeplex: Treeplex, regret: jax.Array) -> jax.Array:
        """Bᵀ times the regrets of an iteration, `[Q, lanes]`."""
        if self.floor is None:
            return regret
        epsilon, shared = (sum_actions(treeplex, x) for x in (self.floor, self.floor * regret))
        return (1 - expand_infosets(treeplex, epsilon)) * regret + expand_infosets(treeplex, shared)

    def _mixed(self, level: Level, strategy: jax.Array) -> jax.Array:
        if self.floor is None:
            return strategy
        floor = level.actions_of(self.floor)
        free = jnp.maximum(1 - level.sums(floor), 0)  # sums of floors that leave no choice may round above 1
        return level.expand(free) * strategy + floor

    def best(self, level: Level, q: jax.Array) -> jax.Array:
        """Values of a level's infosets under a best response, `[actions, lanes]` → `[infosets, lanes]`."""
        allowed = q if self.legal is None else jnp.where(level.actions_of(self.legal), q, -jnp.inf)
        value = level.largest(allowed)
        if self.legal is not None:
            value = jnp.where(jnp.isneginf(value), 0, value)
        if self.floor is None:
            return value
        floor = level.actions_of(self.floor)
        return (1 - level.sums(floor)) * value + level.sums(floor * q)


def match(treeplex: Treeplex, basis: jax.Array, tolerance: jax.Array, choice: ChoiceRule) -> jax.Array:
    """Regret matching at every infoset, with the floors mixed in.

    Args:
      treeplex: the player's decisions.
      basis: `[Q, lanes]` regrets to match.
      tolerance: `[I, lanes]` sums of positive regrets up to this count as 0.
      choice: legal actions and floors.

    Returns:
      The strategy, `[Q, lanes]`; uniform where no regret is positive.
    """
    chex.assert_shape(basis, (treeplex.num_actions, None))
    chex.assert_shape(tolerance, (treeplex.num_infosets, None))
    if not treeplex.runs:
        return basis
    positive = jnp.maximum(basis, 0)
    if choice.legal is not None:
        positive = jnp.where(choice.legal, positive, 0)
    divisors = [
        level.slot_rows(choice.divisor(level, level.actions_of(positive), level.infosets_of(tolerance)))
        for level in treeplex.levels()
    ]
    divisor = jnp.concatenate([slot for level in divisors for slot in level])
    uniform = 1 if choice.legal is None else choice.legal.astype(basis.dtype)
    return choice.floored(treeplex, jnp.where(divisor > 0, positive, uniform) / jnp.abs(divisor))


@runtime_checkable
class Rule(Protocol):
    """Update rule of one player's strategy from its action values; a pytree, with a state of any structure.

    The rule's numbers are traced, so that rules that differ only in numbers share a compiled program. The
    simplest way to write a rule with its own state is a frozen dataclass registered by
    `jax.tree_util.register_static`.
    """

    @property
    def name(self) -> str:
        """Name in tables and errors; may be empty inside compiled code."""
        ...

    def weight(self, t: jax.Array) -> jax.Array:
        """Weight of iteration t = 1, 2, … in the average."""
        ...

    def init(self, treeplex: Treeplex, num_lanes: int, dtype: DTypeLike) -> Any:
        """The rule's state before the first iteration, for one player's entry or body."""
        ...

    def update(
        self,
        treeplex: Treeplex,
        choice: ChoiceRule,
        tolerance: jax.Array,
        state: Any,
        strategy: jax.Array,
        values: tuple[jax.Array, jax.Array],
        t: jax.Array,
    ) -> tuple[Any, jax.Array]:
        """Performs one iteration.

        Args:
          treeplex: the decisions.
          choice: legal actions and floors, which the strategy must respect.
          tolerance: `[I, lanes]` largest sum of positive regrets that counts as rounding.
          state: the rule's state.
          strategy: `[Q, lanes]` the last strategy.
          values: values of actions `[Q, lanes]` and of infosets `[I, lanes]` under that strategy.
          t: number of the iteration, from 1.

        Returns:
          The next state and strategy, `[Q, lanes]`.
        """
        ...


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["plus", "positive_discount", "negative_discount", "trust", "averaging"],
    meta_fields=["predictive"],
    drop_fields=["name"],
)
@dataclasses.dataclass(frozen=True, kw_only=True)
class RegretMatching:
    """Regret matching with discounted regrets, predictions and weighted averages.

    Its numbers are traced. In a problem that is solved without the driver, which splits lanes into chunks,
    they may be arrays `[1, lanes]` with a number for each lane.

    Attributes:
      name: name on the command line.
      plus: True if negative regret sums are set to 0.
      positive_discount: α; positive regrets are multiplied by t^α / (t^α + 1) after iteration t, for ∞ by 1.
      negative_discount: β; the same for negative ones.
      predictive: True if the next strategy matches the regret sums plus a prediction, which is the regrets of
        the last iteration. Static, so that rules without a prediction write their regrets only once.
      trust: factor of the prediction.
      averaging: γ; iteration t has weight t^γ in the average.
    """

    name: str = ""
    plus: bool = False
    positive_discount: float = math.inf
    negative_discount: float = math.inf
    predictive: bool = False
    trust: float = 1.0
    averaging: float = 0.0

    def general(self) -> RegretMatching:
        """The rule in predictive form, with trust 0 if it is not predictive: all rules share its program."""
        return self if self.predictive else dataclasses.replace(self, predictive=True, trust=0.0)

    def weight(self, t: jax.Array) -> jax.Array:
        """Weight of iteration t = 1, 2, … in the average."""
        return t**self.averaging

    def init(self, treeplex: Treeplex, num_lanes: int, dtype: DTypeLike) -> jax.Array:
        """The regrets, `[Q, lanes]`."""
        return jnp.zeros((treeplex.num_actions, num_lanes), dtype)

    def update(
        self,
        treeplex: Treeplex,
        choice: ChoiceRule,
        tolerance: jax.Array,
        state: jax.Array,
        strategy: jax.Array,
        values: tuple[jax.Array, jax.Array],
        t: jax.Array,
    ) -> tuple[jax.Array, jax.Array]:
        """Performs one iteration; see `Rule.update`."""
        regret_sum, basis = self.learn(treeplex, choice, state, values, t)
        # The old strategy is not used below: without the barrier XLA keeps a copy of it.
        regret_sum, basis = jax.lax.optimization_barrier((regret_sum, basis))
        return regret_sum, match(treeplex, basis, tolerance, choice)

    def learn(
        self,
        treeplex: Treeplex,
        choice: ChoiceRule,
        regret_sum: jax.Array,
        values: tuple[jax.Array, jax.Array],
        t: jax.Array,
    ) -> tuple[jax.Array, jax.Array]:
        """Regrets after an iteration, mapped back by Bᵀ.

        Args:
          treeplex: the player's decisions.
          choice: legal actions and floors.
          regret_sum: `[Q, lanes]` the current regrets.
          values: values of actions `[Q, lanes]` and of infosets `[I, lanes]` under the last strategy.
          t: number of the iteration, from 1.

        Returns:
          The new regrets, and those that the next strategy matches, `[Q, lanes]` each.
        """
        q, value = values
        chex.assert_shape((q, regret_sum), (treeplex.num_actions, None))
        chex.assert_shape(value, (treeplex.num_infosets, None))
        regret = choice.mapped_back(treeplex, q - expand_infosets(treeplex, value))
        total = self.accumulate(regret_sum, regret, self.kept(t))
        return total, self.basis(total, regret)

    def kept(self, t: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Discount factors of positive and of negative regrets after iteration t.

        They are t^α / (t^α + 1), and 1 for α = ∞. Both are one power of a vector: a GPU computes them in one
        kernel.
        """
        exponents = jnp.stack(jnp.broadcast_arrays(self.positive_discount, self.negative_discount))
        power = t ** exponents.astype(t.dtype)
        positive, negative = jnp.where(jnp.isinf(exponents), 1, power / (power + 1))
        return positive, jnp.where(self.plus, 0, negative)

    def accumulate(
        self, regret_sum: jax.Array, regret: jax.Array, kept: tuple[jax.Array, jax.Array]
    ) -> jax.Array:
        """Regret sums after an iteration, discounted by `kept`."""
        total = regret_sum + regret
        return total * jnp.where(total > 0, *kept)

    def basis(self, regret_sum: jax.Array, regret: jax.Array) -> jax.Array:
        """Regrets that the next strategy matches, given the regret sums and the last iteration's regrets."""
        return regret_sum + self.trust * regret if self.predictive else regret_sum


def follows_from_regrets(rule: Rule) -> TypeGuard[RegretMatching]:
    """True if strategies follow from regrets alone, so that they need not be stored."""
    return isinstance(rule, RegretMatching) and not rule.predictive


CFR = RegretMatching(name="cfr")
CFR_PLUS = RegretMatching(name="cfr+", plus=True, averaging=1.0)
LINEAR_CFR = RegretMatching(name="linear-cfr", positive_discount=1.0, negative_discount=1.0, averaging=1.0)
DCFR = RegretMatching(name="dcfr", positive_discount=1.5, negative_discount=0.0, averaging=2.0)
PCFR_PLUS = RegretMatching(name="pcfr+", plus=True, predictive=True, averaging=2.0)
SAPCFR_PLUS = RegretMatching(name="sapcfr+", plus=True, predictive=True, trust=1 / 3, averaging=2.0)


def find_rule(algorithm: str | Rule, name: str = "algorithm", besides: tuple[str, ...] = ()) -> Rule:
    """The rule with a name; raises ValueError for an unknown name.

    Args:
      algorithm: a name, or a rule, which is returned unchanged.
      name: name of the argument, for the error.
      besides: other names that the caller accepts, for the error.
    """
    if isinstance(algorithm, Rule):
        return algorithm
    if algorithm not in RULES:
        raise ValueError(f"{name}={algorithm!r} is unknown; expected one of {', '.join((*RULES, *besides))}")
    return find(RULES, algorithm, name)
