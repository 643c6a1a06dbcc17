"""Gadgets whose opponent decides at the roots of a subgame: unsafe, resolving, max-margin, reach.

Sources: resolving, Burch, Johanson and Bowling (2014), §4; max-margin, Moravčík et al.
(2016); reach, Brown and Sandholm (2017), §5; priors and gadget game sequential equilibria,
Kubíček, Lisý and Sandholm (2026), §4–§7. Formulas: the tables of `docs/concepts.md`.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from jaxgadget.gadgets.alternative import (
    GIFT_RULES,
    ArrayValues,
    GiftRule,
    Spread,
    Values,
    WithGifts,
    check_spread,
    find_spread,
    spread_name,
)
from jaxgadget.gadgets.capabilities import Capability
from jaxgadget.gadgets.context import Context
from jaxgadget.gadgets.entry import Bound, EntryTables, Leave, Pick
from jaxgadget.gadgets.gadget import Epsilon, Perturbed, TwoLevel, check_epsilon, check_rows
from jaxgadget.gadgets.prior import ArrayPrior, NoPrior, Prior, PriorRefusedError
from jaxgadget.gadgets.ranges import Ranges, inverse
from jaxgadget.util.arrays import FloatArray


@dataclasses.dataclass(frozen=True)
class Unsafe(TwoLevel):
    """The opponent enters with its blueprint's range; without a guarantee."""

    prior: Prior = dataclasses.field(default_factory=NoPrior)
    epsilon: Epsilon = 0.0
    name: ClassVar[str] = "unsafe"

    def __post_init__(self) -> None:
        if not isinstance(self.prior, NoPrior):
            raise PriorRefusedError(
                f"prior={self.prior!r} has no effect with the unsafe gadget, which has no decision to "
                "perturb; expected 'none'"
            )
        check_epsilon(self.epsilon)
        object.__setattr__(self, "epsilon", 0.0)

    @property
    def alternative(self) -> None:
        """Alternative values: none."""
        return None

    @property
    def offer(self) -> None:
        """Offered values: none."""
        return None

    @property
    def requires(self) -> frozenset[Capability]:
        """The opponent's range at the roots."""
        return frozenset({Capability.RANGE})

    @property
    def settings(self) -> dict[str, str]:
        """Result columns besides prior and ε."""
        return {}

    def resolve(self, context: Context) -> Unsafe:
        """Returns the gadget itself, which needs no resolution."""
        return self

    def check(self, num_roots: int, num_lanes: int) -> None:
        """Does nothing: there are no arrays."""

    def tables(self, ranges: Ranges) -> EntryTables:
        """The gadget as arrays; subgames that the opponent's blueprint does not reach have no decision."""
        entered = ranges.per_subgame(ranges.opponent) > 0
        return EntryTables(
            scale=ranges.opponent, has_decision=entered & (ranges.per_subgame(ranges.mass) > 0)
        )


@dataclasses.dataclass(frozen=True)
class Resolving(TwoLevel, Perturbed):
    """At every root infostate the opponent follows, or terminates for its alternative value.

    With a spread, alternative values are distributions (Brown and Sandholm 2017, §6): in the opponent's
    utility, terminating at s earns X ~ N(μ, σ²) with μ = −V̄(s), and the opponent observes X before it
    chooses. If following has value v, the opponent follows if X ≤ v, with probability Φ((v − μ)/σ), and its
    expected payoff is E max(X, v). The resolver's strategy then loses Σ_s E max(X_s, v_s). Each v_s is convex
    in this strategy, as the value of a best response, and E max(X, v) is convex and increasing in v: the
    resolver's problem is convex, and at uncertain roots the resolver gains by reducing v further below the
    estimate. The opponent's problem is concave: following s with probability q earns q·v + (1 − q)·μ +
    σ·φ(Φ⁻¹(q)). The gap is exactly NashConv of the average strategies in this game; the optimum lies in
    [value, value + gap]. No bound on exploitability in the full game is known. The opponent's choice is
    computed from the values of an iteration instead of regrets; the resolver uses regret matching as usual.
    Linear programs cannot represent a spread.

    Attributes:
      spread: σ: a number >= 0 in units of payoff, per unit of `N(s)`; `best-response`, the distance between
        `V̄(s)` and the best-response value against the blueprint; `ArrayValues` with a number for each root;
        or None for values that are certain. With 0 the opponent follows where v ≥ μ.
    """

    spread: Spread | None = dataclasses.field(default=None, kw_only=True, metadata={"later": True})
    name: ClassVar[str] = "resolving"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_spread(self.spread)

    @property
    def requires(self) -> frozenset[Capability]:
        """Required capabilities of the front end, including those of the prior and alternative values."""
        if self.spread is None:
            return super().requires
        array = {Capability.ROOT_VALUES} if isinstance(self.spread, ArrayValues) else set[Capability]()
        return super().requires | array | {Capability.SPREAD}

    @property
    def settings(self) -> dict[str, str]:
        """Result columns besides prior and ε."""
        settings = super().settings
        if self.spread is None:
            return settings
        return settings | {"alternative": f"{settings['alternative']}, spread {spread_name(self.spread)}"}

    def check(self, num_roots: int, num_lanes: int) -> None:
        """Raises ValueError unless the gadget's arrays fit the opponent's roots and the blueprints."""
        super().check(num_roots, num_lanes)
        if isinstance(self.spread, ArrayValues):
            check_rows("spread", np.shape(self.spread.array), num_roots, num_lanes)

    def tables(self, ranges: Ranges) -> EntryTables:
        """The gadget as arrays: `EntryTables` for `TwoLevelEntry`."""
        follow, epsilon, alternative = self.mistakes.follow(ranges), self.number, self.offer.values(ranges)
        spread = None if self.spread is None else find_spread(self.spread, super().offer, ranges)
        is_exact = self.offer.exact and spread is None
        return EntryTables(
            scale=np.ones_like(alternative),
            has_decision=ranges.per_subgame(ranges.mass) > 0,
            leave=Leave(
                follow_floor=epsilon * follow,
                terminate_floor=epsilon * (1 - follow),
                earns=-alternative,
                spread=spread,
            ),
            bound=Bound("sum", epsilon * follow, alternative, epsilon) if is_exact else None,
        )


@dataclasses.dataclass(frozen=True)
class MaxMargin(TwoLevel, Perturbed):
    """The opponent picks the root infostate of a subgame where the improvement is smallest.

    Margins are `(V(s) − V̄(s)) / N(s)`; roots with `N(s) = 0` cannot be picked.
    """

    name: ClassVar[str] = "max-margin"

    def tables(self, ranges: Ranges) -> EntryTables:
        """The gadget as arrays; raises ValueError if an `ArrayPrior` is 0 at all roots of a subgame."""
        per_mass, epsilon, alternative = inverse(ranges.mass), self.number, self.offer.values(ranges)
        can_pick = ranges.mass > 0
        weight = np.where(can_pick, self.mistakes.weight(ranges), 0)
        has_decision = ranges.per_subgame(ranges.mass) > 0
        if epsilon != 0 and isinstance(self.prior, ArrayPrior):
            empty = has_decision & ~(ranges.per_subgame(weight) > 0)
            if empty.any():
                raise ValueError(
                    f"ArrayPrior: all roots of subgame {int(np.argwhere(empty)[0][0])} that can be picked "
                    "have weight 0; expected a positive weight for one root with N(s) > 0 in each subgame"
                )
        floor = epsilon * ranges.share(weight)
        return EntryTables(
            scale=per_mass,
            has_decision=has_decision,
            pick=Pick(legal=can_pick, floor=floor, earns=per_mass * alternative),
            bound=Bound("max", floor * per_mass, alternative, epsilon) if self.offer.exact else None,
        )

    def error_bound(self, error: float, gap: FloatArray) -> FloatArray:
        """`[lanes]` 2Δ + the largest gap (Brown and Sandholm 2017, Theorem 2); NaN with mistakes."""
        if self.epsilon != 0:
            return super().error_bound(error, gap)
        return 2 * error + gap.max(axis=0, initial=0.0)


@dataclasses.dataclass(frozen=True)
class _Reach(Perturbed):
    """Base of reach gadgets: gifts on top of the alternative values.

    Attributes:
      gifts: `lower-bound`, which is safe, or `estimate`.
      scaled: give the whole gift to a single subgame, scaled up by the inverse of its probability by chance.
    """

    gifts: GiftRule = "lower-bound"
    scaled: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scaled not in (True, False):
            raise ValueError(f"scaled={self.scaled!r}: expected True or False")
        if self.gifts not in GIFT_RULES:
            raise ValueError(f"gifts={self.gifts!r}: expected {' or '.join(map(repr, GIFT_RULES))}")

    @property
    def settings(self) -> dict[str, str]:
        """Result columns besides prior and ε."""
        return super().settings | {"gifts": f"{self.gifts}, scaled" if self.scaled else self.gifts}

    @property
    def requires(self) -> frozenset[Capability]:
        """Required capabilities of the front end, including those of the prior and alternative values."""
        return super().requires | {Capability.TRUNK}

    @property
    def offer(self) -> Values:
        """Alternative values with gifts, `V̄ − N·Σg`."""
        return WithGifts(super().offer, self.gifts, self.scaled)

    def error_bound(self, error: float, gap: FloatArray) -> FloatArray:
        """`[lanes]` NaN, as no bound is known with gifts."""
        return Perturbed.error_bound(self, error, gap)


@dataclasses.dataclass(frozen=True)
class ReachResolving(_Reach, Resolving):
    """Resolving, in which terminating also pays the opponent's gifts above the cut."""

    name: ClassVar[str] = "reach-resolving"


@dataclasses.dataclass(frozen=True)
class ReachMaxMargin(_Reach, MaxMargin):
    """Max-margin, in which margins include the opponent's gifts above the cut."""

    name: ClassVar[str] = "reach-max-margin"
