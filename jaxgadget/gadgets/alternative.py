"""Alternative values: the opponent's values outside a subgame, optionally with gifts.

A safe gadget offers the opponent at most its counterfactual best-response value against
the blueprint. *Safe and nested subgame solving* (Brown and Sandholm 2017) relaxes this by estimates
of these values (§6), and by gifts, which are values that the opponent gave up on its path to the subgame
(§5).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from jaxgadget.gadgets.capabilities import Capability
from jaxgadget.gadgets.context import Context, Immediate
from jaxgadget.gadgets.ranges import Ranges, inverse
from jaxgadget.util.arguments import check_whole_number, is_finite_number
from jaxgadget.util.arrays import FloatArray

TRUNK_ITERATIONS = 500
"""Default number of iterations for the opponent's trunk with range values."""

EXACT = "exact"
"""Name of the continuation that linear programs solve."""

ABSTRACT = "abstract"
"""Name of an abstraction's values in tables."""

GiftRule = Literal["lower-bound", "estimate"]
GIFT_RULES: tuple[GiftRule, ...] = ("lower-bound", "estimate")


@runtime_checkable
class Probabilities(Protocol):
    """A policy of this package, in history or hand form."""

    labels: tuple[str, ...]
    probabilities: Any


class AlternativeRefusedError(ValueError):
    """Alternative values were passed to a gadget that does not use any."""


@runtime_checkable
class Alternative(Protocol):
    """Source of the values `V̄(s)` of the opponent's root infostates, in the resolving player's utility."""

    @property
    def name(self) -> str:
        """Name in tables."""
        ...

    @property
    def requires(self) -> frozenset[Capability]:
        """Capabilities of the front end that these values require."""
        ...

    def resolve(self, context: Context) -> Values:
        """Computes what the values need beyond ranges, before the gadget is solved."""
        ...


@runtime_checkable
class Values(Alternative, Protocol):
    """Alternative values that can be computed from the ranges alone."""

    @property
    def exact(self) -> bool:
        """True for best-response values against the blueprint, which bounds require."""
        ...

    def values(self, ranges: Ranges) -> FloatArray:
        """`[R, L]` `V̄(s)` in the resolving player's utility, weighted by its and chance's reach."""
        ...


@dataclasses.dataclass(frozen=True)
class BestResponseValues(Immediate):
    """Values of the opponent's counterfactual best response to the blueprint, which are safe."""

    name: str = dataclasses.field(default="best-response", init=False, repr=False)
    exact: bool = dataclasses.field(default=True, init=False, repr=False)

    def values(self, ranges: Ranges) -> FloatArray:
        """`[R, L]` `V̄(s)` in the resolving player's utility."""
        return ranges.cbv


@dataclasses.dataclass(frozen=True)
class BlueprintValues(Immediate):
    """Values when both players follow their blueprints: an estimate (Brown and Sandholm 2017, §6).

    If CFR solved an abstraction for the blueprint, the opponent's half is close to a best response within
    that abstraction, and these are the paper's estimates.
    """

    name: str = dataclasses.field(default="blueprint", init=False, repr=False)
    exact: bool = dataclasses.field(default=False, init=False, repr=False)

    @property
    def requires(self) -> frozenset[Capability]:
        """The values of both players' blueprints."""
        return frozenset({Capability.PLAYED})

    def values(self, ranges: Ranges) -> FloatArray:
        """`[R, L]` values in the resolving player's utility."""
        return ranges.played_values


@dataclasses.dataclass(frozen=True, eq=False)
class ArrayValues(Immediate):
    """A user's own values, such as a network's estimates.

    CFR-D's averages (`Decomposition.values`) are in the opponent's utility and must be negated.

    Attributes:
      array: `[R]` or `[R, L]`, one number for each of the opponent's root infostates in the order
        of `Forest.roots`: its value in the resolving player's utility, weighted by the resolving
        player's and chance's reach of the root (not divided by it).
      name: name in tables.
    """

    array: npt.NDArray[np.floating]
    name: str = "array"
    exact: bool = dataclasses.field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        array = np.asarray(self.array)
        if array.ndim not in (1, 2) or array.dtype.kind not in "fiu" or not np.isfinite(array).all():
            raise ValueError(
                f"ArrayValues of shape {array.shape} and type {array.dtype}: expected [roots] or "
                "[roots, lanes] of finite numbers"
            )

    @property
    def requires(self) -> frozenset[Capability]:
        """A row for each root infostate."""
        return frozenset({Capability.ROOT_VALUES})

    def values(self, ranges: Ranges) -> FloatArray:
        """`[R, L]` the array's rows at the roots of the ranges."""
        return on_roots(np.asarray(self.array), ranges)


@dataclasses.dataclass(frozen=True, eq=False)
class PrecomputedValues(Immediate):
    """Values computed before the gadget is solved; B blueprints.

    Attributes:
      array: `[R, B]` values in the resolving player's utility, weighted as in `ArrayValues`.
      name: name of the values that were resolved.
      exact: True if these are best-response values against `strategy`.
      strategy: the strategies against which these are best-response values, one lane per blueprint; None for
        the blueprints.
      failures: blueprints without values, with the reason.
    """

    array: FloatArray
    name: str
    exact: bool = False
    strategy: Any = None
    failures: Mapping[int, str] = dataclasses.field(default_factory=dict[int, str])

    def values(self, ranges: Ranges) -> FloatArray:
        """`[R, L]` the array's rows at the roots of the ranges."""
        return on_roots(self.array, ranges)


@dataclasses.dataclass(frozen=True)
class ContinuationValues:
    """The opponent's values in the optimal continuation, which `refine` and `sweep` solve first.

    With a continuation from linear programs or regret matching, the alternative values are the opponent's
    best-response values against the continuation: no gadget's solution is then more exploitable than the
    continuation, up to gaps and mistakes (Brown and Sandholm 2017, §6). The continuation covers all subgames
    below the cut, even if only one is re-solved (`Cut.only`); a forest that fits in memory only in parts
    raises an error. With range values, such as a network's, the opponent's trunk is solved against the
    resolver's fixed trunk; these are estimates, so that no bound is known.

    Attributes:
      source: `exact`, by linear programs; a number of iterations of regret matching; or range values
        (`RangeValues`), such as `FolderRanges(folder)` for a network.
      guard: also solve a gadget with range values for best-response values, and return the better result for
        each blueprint: the less exploitable one in the whole game, or the one with the higher value against
        the mixture with an opponent's model. No effect without range values.
      iterations: iterations for the opponent's trunk, with range values.
    """

    source: Literal["exact"] | int | Callable[..., Any] = EXACT
    guard: bool = True
    iterations: int = TRUNK_ITERATIONS

    def __post_init__(self) -> None:
        source: Any = self.source
        whole = isinstance(source, int | np.integer) and not isinstance(source, bool)
        is_valid = source == EXACT or (whole and source >= 1) or self.is_estimate
        if not is_valid or hasattr(self.source, "num_entries"):
            raise ValueError(
                f"ContinuationValues(source={self.source!r}): expected 'exact', a number of iterations >= 1, "
                "or range values, such as FolderRanges(folder)"
            )
        check_whole_number("iterations", self.iterations, 1)
        guard: Any = self.guard
        if not isinstance(guard, bool):
            raise ValueError(
                f"guard={guard!r}: expected True, to solve also with V̄ and keep the better result, or False"
            )
        if not self.is_estimate and self.iterations != TRUNK_ITERATIONS:
            raise ValueError(
                f"iterations={self.iterations!r} has no effect with {source!r}: it is for the opponent's "
                "trunk with range values; leave it out"
            )

    @property
    def is_estimate(self) -> bool:
        """True if range values replace the subgames."""
        return callable(self.source) and not isinstance(self.source, type)

    @property
    def requires(self) -> frozenset[Capability]:
        """The optimal continuation, or range values at the cut."""
        return frozenset({Capability.RANGE_VALUES if self.is_estimate else Capability.CONTINUATION})

    @property
    def name(self) -> str:
        """Name in tables."""
        if self.is_estimate:
            words = [f"values:{getattr(self.source, 'name', type(self.source).__name__)}"]
            if not self.guard:
                words.append("no guard")
            if self.iterations != TRUNK_ITERATIONS:
                words.append(f"{self.iterations} iterations")
            return ", ".join(words)
        return "continuation" if self.source == EXACT else f"continuation:{self.source}"

    def resolve(self, context: Context) -> PrecomputedValues:
        """Solves the continuation; returns the opponent's values against it."""
        continuation = context.continuation(self)
        return PrecomputedValues(
            continuation.values,
            self.name,
            not continuation.is_estimate,
            continuation.strategy,
            continuation.failures,
        )


@dataclasses.dataclass(frozen=True, eq=False)
class AbstractValues:
    """Best-response values of the opponent in an abstraction: an estimate (Brown and Sandholm 2017, §6, §7).

    A root infostate of the abstraction has its counterfactual best-response value there. A root infostate
    after an action of the opponent that the abstraction lacks has the opponent's value before that action,
    with only the abstraction's actions. Both values are per unit of `N(s)`.

    Attributes:
      policy: policy of an abstraction of the game, with one lane or a lane for each blueprint; None in
        `nested_off_tree`, for the strategy of the previous level.
      error: Δ, the largest distance of a value, per unit of `N(s)` and in payoff units, from the root's value
        against the best strategy that differs from the blueprint only in the subgames; None if unknown.
        Max-margin without mistakes is then at most 2Δ more exploitable than that strategy (Theorem 2).

    Raises:
      ValueError: if `policy` is not a policy, or `error` is not a finite number >= 0.
    """

    policy: Any = None
    error: float | None = None
    name: str = dataclasses.field(default=ABSTRACT, init=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.policy, type) or (
            self.policy is not None and not isinstance(self.policy, Probabilities)
        ):
            raise ValueError(
                f"AbstractValues(policy={self.policy!r}): expected a Policy of an abstraction of the game"
            )
        if self.error is not None and not (is_finite_number(self.error) and self.error >= 0):
            raise ValueError(
                f"AbstractValues(error={self.error!r}): expected a finite number >= 0 in payoff units, or "
                "None if it is unknown"
            )

    @property
    def requires(self) -> frozenset[Capability]:
        """Values of an abstraction."""
        return frozenset({Capability.ABSTRACTION})

    def resolve(self, context: Context) -> PrecomputedValues:
        """Looks the values up in the abstraction."""
        return PrecomputedValues(context.abstract_values(self), self.name)


@dataclasses.dataclass(frozen=True)
class WithGifts:
    """`V̄ − N·Σg`: alternative values less the opponent's gifts above the cut (Brown and Sandholm 2017, §5).

    Attributes:
      alternative: `V̄`, resolved.
      rule: `lower-bound` or `estimate`, see `find_gifts`.
      scaled: give the whole gift to a single subgame, scaled up by the inverse of its probability by chance.
    """

    alternative: Values
    rule: GiftRule = "lower-bound"
    scaled: bool = False

    def __post_init__(self) -> None:
        alternative: Any = self.alternative
        if not isinstance(alternative, Values):
            raise ValueError(
                f"WithGifts(alternative={alternative!r}): expected resolved values; reach gadgets add gifts "
                "to any alternative values"
            )

    @property
    def name(self) -> str:
        """Name in tables, which is that of the values without gifts."""
        return self.alternative.name

    @property
    def exact(self) -> bool:
        """True if the values are exact and the gifts are safe: unscaled lower bounds."""
        return self.alternative.exact and self.rule == "lower-bound" and not self.scaled

    @property
    def requires(self) -> frozenset[Capability]:
        """The opponent's trunk, and the requirements of the values without gifts."""
        return self.alternative.requires | {Capability.TRUNK}

    def resolve(self, context: Context) -> WithGifts:
        """Resolves the values to which gifts are added."""
        return dataclasses.replace(self, alternative=self.alternative.resolve(context))

    def values(self, ranges: Ranges) -> FloatArray:
        """`[R, L]` values with gifts, in the resolving player's utility."""
        values = self.alternative.values(ranges)
        return values - ranges.mass * find_gifts(ranges, values, self.rule, scaled=self.scaled)


Spread = float | Literal["best-response"] | ArrayValues | PrecomputedValues
"""Standard deviation of alternative values; see `Resolving`."""

TO_BEST_RESPONSE = "best-response"
"""Spread equal to the distance of the estimate from the best-response value."""


def check_spread(spread: object) -> None:
    """Raises ValueError unless `spread` is a `Spread` or None."""
    if spread is None or spread == TO_BEST_RESPONSE:
        return
    if isinstance(spread, ArrayValues | PrecomputedValues):
        least = float(np.min(spread.array, initial=0.0))
        if least < 0:
            raise ValueError(f"spread: ArrayValues with {least:g}: expected numbers >= 0")
    elif not (is_finite_number(spread) and spread >= 0):
        raise ValueError(
            f"spread={spread!r}: expected a finite number >= 0 in units of payoff, {TO_BEST_RESPONSE!r}, "
            "ArrayValues with a number for each root, or None for values that are certain"
        )


def spread_name(spread: Spread) -> str:
    """Name of a spread in tables."""
    if isinstance(spread, ArrayValues | PrecomputedValues):
        return spread.name
    return spread if isinstance(spread, str) else f"{spread:g}"


def find_spread(spread: Spread, alternative: Values, ranges: Ranges) -> FloatArray:
    """`[R, L]` standard deviation of alternative values, weighted as the values are.

    Args:
      spread: source of the standard deviation.
      alternative: the values, without gifts.
      ranges: ranges of the blueprints.
    """
    if isinstance(spread, ArrayValues | PrecomputedValues):
        return spread.values(ranges)
    if isinstance(spread, str):
        return np.abs(alternative.values(ranges) - ranges.cbv)
    return spread * ranges.mass


def on_roots(array: npt.NDArray[np.floating], ranges: Ranges) -> FloatArray:
    """`[R, L]` rows of a user's array `[roots]` or `[roots, lanes]` at the roots of the ranges.

    The lanes are repeated for each draw of the blueprints; roots without a row have the value 0.
    """
    rows = (array[:, None] if array.ndim == 1 else array)[ranges.root].astype(np.float64)
    rows = np.where(ranges.root[:, None] >= 0, rows, 0.0)
    return np.tile(rows, ranges.num_lanes // rows.shape[1])


def find_gifts(ranges: Ranges, values: FloatArray, rule: GiftRule, *, scaled: bool) -> FloatArray:
    """`[R, L]` sum of the gifts on the path to each root, normalised (Brown and Sandholm 2017, §5).

    At an infoset I' of the opponent above the root, where it chose a', its gift is
    `max_a CBV(I', a) − CBV(I', a')`, in values divided by `N(I')`. For the lower bound, a is a' or an action
    that immediately ends the game, whose value does not depend on other subgames' solutions; for the
    estimate, a is any action. Unscaled gifts are safe in every subgame at once, because chance splits a gift
    between subgames in the same proportion as the probability mass. If a single subgame is solved, a gift may
    be scaled up by the inverse of that subgame's share of the probability mass after a'.

    Args:
      ranges: ranges of the blueprints.
      values: `[R, L]` alternative values of the roots.
      rule: `lower-bound` or `estimate`.
      scaled: scale gifts up.

    Raises:
      ValueError: if scaled gifts are requested for several subgames.
    """
    if scaled and ranges.num_subgames > 1:
        raise ValueError(
            f"scaled=True with {ranges.num_subgames} subgames: scaled gifts are safe only if a single "
            "subgame is solved; expected scaled=False, or a single subgame, cut(tree, …).only(infostate)"
        )
    trunk = ranges.above
    action_values, infoset_values, _ = trunk.best_values(values)
    if rule == "estimate":
        best = trunk.per_action(infoset_values)
    else:
        ends = np.where(trunk.terminates[:, None], action_values, -np.inf)
        best = np.maximum(trunk.per_action(trunk.largest_action(ends)), action_values)
    per_mass = trunk.per_action(inverse(trunk.mass))
    gift = (best - action_values) * per_mass
    if scaled:
        reached, _, _ = trunk.largest_above(trunk.at_sequences(ranges.mass))
        gift = gift * inverse(reached * per_mass)
    return np.asarray(trunk.ancestors @ gift)
