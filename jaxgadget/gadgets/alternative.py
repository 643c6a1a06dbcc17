"""What the opponent gets if it stays out of a subgame: alternative values, and gifts on top.

A safe gadget promises the opponent no more than its counterfactual best-response value against
the blueprint. *Safe and nested subgame solving* (Brown and Sandholm 2017) relaxes that: estimates
of these values (§6), and gifts, what the opponent gave away on its way to the subgame (§5).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from jaxgadget.gadgets.ranges import Ranges, inverse
from jaxgadget.util.arguments import check_whole_number, is_finite_number
from jaxgadget.util.arrays import FloatArray

TRUNK_ITERATIONS = 500
"""Of the opponent's trunk with range values."""

EXACT = "exact"
"""By linear programs."""

GiftRule = Literal["lower-bound", "estimate"]
GIFT_RULES: tuple[GiftRule, ...] = ("lower-bound", "estimate")


class AlternativeRefusedError(ValueError):
    """A gadget that play never leaves was told what to promise."""


class Alternative(Protocol):
    """Values `V̄(s)` of the opponent's root infostates, in the resolving player's utility."""

    @property
    def name(self) -> str:
        """What tables call it."""
        ...

    @property
    def exact(self) -> bool:
        """Whether these are best-response values against the blueprint, on which bounds rest."""
        ...

    @property
    def needs(self) -> frozenset[str]:
        """Which optional parts of `Ranges` it reads."""
        ...

    def values(self, ranges: Ranges) -> FloatArray:
        """`[R, L]`, weighted by the resolving player's and chance's reach."""
        ...


@dataclasses.dataclass(frozen=True)
class BestResponseValues:
    """The opponent's counterfactual best response to the blueprint: safe."""

    name: str = dataclasses.field(default="best-response", init=False, repr=False)
    exact: bool = dataclasses.field(default=True, init=False, repr=False)
    needs: frozenset[str] = dataclasses.field(default=frozenset(), init=False, repr=False)

    def values(self, ranges: Ranges) -> FloatArray:
        """See `Alternative`."""
        return ranges.cbv


@dataclasses.dataclass(frozen=True)
class BlueprintValues:
    """Both players follow their blueprints: an estimate (Brown and Sandholm 2017, §6).

    If the blueprint comes from CFR, its opponent's half is close to a best response within
    whatever abstraction it was solved in, and these are the paper's estimates.
    """

    name: str = dataclasses.field(default="blueprint", init=False, repr=False)
    exact: bool = dataclasses.field(default=False, init=False, repr=False)
    needs: frozenset[str] = dataclasses.field(default=frozenset({"played"}), init=False, repr=False)

    def values(self, ranges: Ranges) -> FloatArray:
        """See `Alternative`."""
        if ranges.played is None:
            raise ValueError("ranges have no 'played' values: list 'played' in the gadget's `needs`")
        return ranges.played


@dataclasses.dataclass(frozen=True, eq=False)
class ArrayValues:
    """A user's own values, such as a network's estimates.

    CFR-D's averages (`Decomposition.values`) are in the opponent's own utility: give minus those.

    Attributes:
      array: `[R]` or `[R, L]`, one number for each of the opponent's root infostates in the order
        of `Forest.roots`: its value in the resolving player's utility, weighted by the resolving
        player's and chance's reach of the root (not divided by it).
      name: what tables call it.
    """

    array: npt.NDArray[np.floating]
    name: str = "array"
    exact: bool = dataclasses.field(default=False, init=False, repr=False)
    needs: frozenset[str] = dataclasses.field(default=frozenset(), init=False, repr=False)

    def __post_init__(self) -> None:
        array = np.asarray(self.array)
        if array.ndim not in (1, 2) or array.dtype.kind not in "fiu" or not np.isfinite(array).all():
            raise ValueError(
                f"ArrayValues of shape {array.shape} and type {array.dtype}: expected [roots] or "
                "[roots, lanes] of finite numbers"
            )

    def values(self, ranges: Ranges) -> FloatArray:
        """See `Alternative`."""
        return on_roots(np.asarray(self.array), ranges)


@dataclasses.dataclass(frozen=True)
class ContinuationValues:
    """What the opponent gets in the optimal continuation, which `refine` and `sweep` solve first.

    Of a continuation that is solved, by linear programs or some iterations, the opponent's best responses are
    promised: no gadget's solution is then more exploitable than it, but for gaps and mistakes (Brown and
    Sandholm 2017, §6). It is of all subgames below the cut at once, also if only one of them is re-solved
    (`infostate`): play may get to any. Where a forest fits memory only in parts, that is refused.
    Range values, such as a network's, only solve the opponent's trunk, with the resolver's fixed: what they
    say at its end is an estimate, so no bound is known.

    Attributes:
      source: `exact`, by linear programs; a number of iterations of regret matching; or range values
        (`RangeValues`), such as `FolderRanges(folder)` for a network.
      guard: whether a gadget with range values is solved with V̄, too, and the better result is kept,
        blueprint by blueprint: what is less exploitable in the whole game, or what gets more from the mixture
        with an opponent's model. So none is worse than with V̄. What is no estimate needs no guard.
      iterations: of the opponent's trunk, for range values.
    """

    source: Literal["exact"] | int | Callable[..., Any] = EXACT
    guard: bool = True
    iterations: int = TRUNK_ITERATIONS
    exact: bool = dataclasses.field(default=False, init=False, repr=False)
    needs: frozenset[str] = dataclasses.field(default=frozenset({"continuation"}), init=False, repr=False)

    def __post_init__(self) -> None:
        source: Any = self.source
        whole = isinstance(source, int | np.integer) and not isinstance(source, bool)
        known = source == EXACT or (whole and source >= 1) or self.is_estimate
        if not known or hasattr(self.source, "num_entries"):
            raise ValueError(
                f"ContinuationValues(source={self.source!r}): expected 'exact', a number of iterations >= 1, "
                "or range values, such as FolderRanges(folder)"
            )
        check_whole_number("iterations", self.iterations, 1)
        guard: Any = self.guard
        if not isinstance(guard, bool):
            raise ValueError(
                f"guard={guard!r}: expected True, to solve with V̄, too, and keep the better result, or False"
            )
        if not self.is_estimate and self.iterations != TRUNK_ITERATIONS:
            raise ValueError(
                f"iterations={self.iterations!r} for {source!r}: they are those of the opponent's trunk with "
                "range values; leave them out"
            )

    @property
    def is_estimate(self) -> bool:
        """Whether range values stand for the subgames."""
        return callable(self.source) and not isinstance(self.source, type)

    @property
    def name(self) -> str:
        """See `Alternative`."""
        if self.is_estimate:
            parts = [f"values:{getattr(self.source, 'name', type(self.source).__name__)}"]
            if not self.guard:
                parts.append("no guard")
            if self.iterations != TRUNK_ITERATIONS:
                parts.append(f"{self.iterations} iterations")
            return ", ".join(parts)
        return "continuation" if self.source == EXACT else f"continuation:{self.source}"

    def values(self, ranges: Ranges) -> FloatArray:
        """See `Alternative`."""
        raise ValueError(
            f"{self!r} has no numbers: refine and sweep solve the continuation first, for gadgets whose "
            "alternative is this and nothing around it"
        )


@dataclasses.dataclass(frozen=True, eq=False)
class AbstractValues:
    """What the opponent gets at best in an abstraction: an estimate (Brown and Sandholm 2017, §6, §7).

    A root infostate that the abstraction has is worth its counterfactual best response there. One that
    follows an action of the opponent which the abstraction lacks is worth what the opponent gets before that
    action, with the abstraction's actions alone. Both are taken per unit of `N(s)`.

    Attributes:
      policy: of an abstraction of the game, of one lane or a lane for each blueprint; None in
        `nested_off_tree`, for the strategy of the level before.
      error: Δ, how far off a value is at most, divided by `N(s)`, in payoff units, from what the root is
        worth against the best strategy that differs from the blueprint in the subgames alone; None if that
        is unknown. Max-margin without mistakes is then at most 2Δ more exploitable than that strategy
        (Theorem 2).

    Raises:
      ValueError: if the policy is none, or the error no finite number >= 0.
    """

    policy: Any = None
    error: float | None = None
    name: str = dataclasses.field(default="abstract", init=False, repr=False)
    exact: bool = dataclasses.field(default=False, init=False, repr=False)
    needs: frozenset[str] = dataclasses.field(default=frozenset(), init=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.policy, type) or (
            self.policy is not None and not hasattr(self.policy, "probabilities")
        ):
            raise ValueError(
                f"AbstractValues(policy={self.policy!r}): expected a Policy of an abstraction of the game"
            )
        if self.error is not None and not (is_finite_number(self.error) and self.error >= 0):
            raise ValueError(
                f"AbstractValues(error={self.error!r}): expected a finite number >= 0 in payoff units, or "
                "None if it is not known"
            )

    def values(self, ranges: Ranges) -> FloatArray:
        """See `Alternative`."""
        raise ValueError(
            f"{self!r} has no numbers: refine looks them up first, given the policy of an abstraction, and "
            "nested_off_tree, for gadgets whose alternative is this and nothing around it"
        )


@dataclasses.dataclass(frozen=True)
class WithGifts:
    """`V̄ − N·Σg`: the opponent may keep what it gave away on its way (Brown and Sandholm 2017, §5).

    Attributes:
      alternative: `V̄`.
      rule: how gifts are found; see `find_gifts`.
      scaled: give the whole gift to a single subgame, scaled up by what chance takes away.
    """

    alternative: Alternative
    rule: GiftRule = "lower-bound"
    scaled: bool = False

    @property
    def name(self) -> str:
        """See `Alternative`."""
        return self.alternative.name

    @property
    def exact(self) -> bool:
        """See `Alternative`: safe as a lower bound, given in full in every subgame."""
        return self.alternative.exact and self.rule == "lower-bound" and not self.scaled

    @property
    def needs(self) -> frozenset[str]:
        """See `Alternative`."""
        return self.alternative.needs | {"trunk"}

    def values(self, ranges: Ranges) -> FloatArray:
        """See `Alternative`."""
        values = self.alternative.values(ranges)
        return values - ranges.mass * find_gifts(ranges, values, self.rule, scaled=self.scaled)


Spread = float | Literal["best-response"] | ArrayValues
"""How uncertain alternative values are; see `Resolving`."""

TO_BEST_RESPONSE = "best-response"
"""A spread as large as what a best response to the blueprint is off the estimate."""


def check_spread(spread: object) -> None:
    """ValueError unless it is a `Spread` or None."""
    if spread is None or spread == TO_BEST_RESPONSE:
        return
    if isinstance(spread, ArrayValues):
        least = float(np.min(spread.array, initial=0.0))
        if least < 0:
            raise ValueError(f"spread: ArrayValues with {least:g}: expected numbers >= 0")
    elif not (is_finite_number(spread) and spread >= 0):
        raise ValueError(
            f"spread={spread!r}: expected a finite number >= 0 in units of payoff, {TO_BEST_RESPONSE!r}, "
            "ArrayValues of them for each root, or None for values without one"
        )


def spread_name(spread: Spread) -> str:
    """What tables call it."""
    if isinstance(spread, ArrayValues):
        return spread.name
    return spread if isinstance(spread, str) else f"{spread:g}"


def find_spread(spread: Spread, alternative: Alternative, ranges: Ranges) -> FloatArray:
    """`[R, L]` the standard deviation of alternative values, weighted like these.

    Args:
      spread: what is said of it.
      alternative: the values, without gifts.
      ranges: what the blueprint brings.
    """
    if isinstance(spread, ArrayValues):
        return spread.values(ranges)
    if isinstance(spread, str):
        return np.abs(alternative.values(ranges) - ranges.cbv)
    return spread * ranges.mass


def on_roots(array: npt.NDArray[np.floating], ranges: Ranges) -> FloatArray:
    """The rows of a user's `[roots]` or `[roots, lanes]` numbers that belong to the ranges: `[R, L]`.

    Where copies of the blueprints stand side by side, each has the same numbers; roots without a row have 0.
    """
    rows = (array[:, None] if array.ndim == 1 else array)[ranges.root].astype(np.float64)
    rows = np.where(ranges.root[:, None] >= 0, rows, 0.0)
    return np.tile(rows, ranges.num_lanes // rows.shape[1])


def find_gifts(ranges: Ranges, values: FloatArray, rule: GiftRule, *, scaled: bool) -> FloatArray:
    """`[R, L]` sum of the gifts on the way to each root, normalised (Brown and Sandholm 2017, §5).

    At an infoset I' of the opponent above the root, where it took a', it gave away
    `max_a CBV(I', a) − CBV(I', a')`, values divided by `N(I')`. The lower bound takes a only from
    the actions that end the game at once, whose values no other subgame's solution can change, and
    a' itself; the estimate takes all. Given in full in every subgame, gifts are safe: what chance
    splits, they split with it. If a single subgame is solved, a gift may be scaled up by the
    inverse of that subgame's share of what follows a'.

    Args:
      ranges: what the blueprint brings.
      values: `[R, L]` alternative values of the roots.
      rule: `lower-bound` or `estimate`.
      scaled: whether to scale up.

    Raises:
      ValueError: if scaled gifts are asked for several subgames.
    """
    if scaled and ranges.num_subgames > 1:
        raise ValueError(
            f"scaled=True with {ranges.num_subgames} subgames: scaled gifts are safe only if a single "
            "subgame is solved; give an infostate of it, or scaled=False"
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
