"""Gadgets: the opponent's entry into a subgame, as data.

A gadget is a function from ranges to tables: the values of the opponent's choices above its root
infostates, their legal actions and least probabilities, and a scale for every root. Values and
reaches are those of the game: `V(s)`, the value below the opponent's root infostate `s`, is weighted
by the resolving player's and chance's reach, not the opponent's; `V̄(s)` is the value if the resolving player
follows its blueprint and the opponent best-responds; `N(s)` is the weight.

A new gadget is one class with a name, a prior, an ε and `tables`; a line in `registry.py` adds it to the
command line. Implementations: `root_gadgets.py` and `trunk_gadgets.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Protocol, Self, TypeVar, cast, runtime_checkable

import numpy as np

from jaxgadget.gadgets.alternative import Alternative, ArrayValues, BestResponseValues, Values
from jaxgadget.gadgets.capabilities import TO_RESOLVE, Capability
from jaxgadget.gadgets.context import Context
from jaxgadget.gadgets.entry import Entry, TwoLevelEntry
from jaxgadget.gadgets.prior import ArrayPrior, BlueprintPrior, Mistakes, NoPrior, Prior
from jaxgadget.gadgets.ranges import Ranges
from jaxgadget.gadgets.structure import Bodies
from jaxgadget.util.arguments import is_finite_number
from jaxgadget.util.arrays import FloatArray, IntArray

DEFAULT_EPSILON = 1e-3
"""Default ε, from the paper's experiments (Kubíček et al. 2026, §8)."""

AUTO = "auto"
"""The largest ε whose optimal basis remains optimal at 0, from linear programs (Kubíček et al. 2026,
§7.1)."""

Epsilon = float | Literal["auto"]
Part = TypeVar("Part", bound="Prior | Alternative")


class Gadget(Protocol):
    """The opponent's entry into subgames; a frozen dataclass whose first two fields are a prior and an ε.

    Gadgets of the same `entry_name` are lanes of one entry, so that another prior or ε needs no compilation.
    """

    name: ClassVar[str]
    """Name on the command line."""

    entry_name: ClassVar[str]
    """Name of the entry; gadgets with the same name share one."""

    joint: ClassVar[bool]
    """True if all subgames are solved as one game, in which no alternative value is offered."""

    apart: ClassVar[bool]
    """True if a nested search with this gadget depends only on the searches on its path."""

    @property
    def prior(self) -> Prior:
        """Distribution of the opponent's mistakes."""
        ...

    @property
    def epsilon(self) -> Epsilon:
        """Probability of a mistake, in [0, 1), or `auto`."""
        ...

    @property
    def alternative(self) -> Alternative | None:
        """The alternative values; None if the gadget offers none."""
        ...

    @property
    def offer(self) -> Values | None:
        """Alternative values with gifts; None if there are none."""
        ...

    @property
    def requires(self) -> frozenset[Capability]:
        """Required capabilities of the front end, including those of the prior and alternative values."""
        ...

    @property
    def settings(self) -> dict[str, str]:
        """Result columns besides prior and ε."""
        ...

    def resolve(self, context: Context) -> Gadget:
        """The gadget with its prior and alternative values resolved, so that they depend only on ranges."""
        ...

    def check(self, num_roots: int, num_lanes: int) -> None:
        """Raises ValueError unless the gadget's arrays fit the opponent's roots and the blueprints."""
        ...

    def tables(self, ranges: Ranges) -> Any:
        """The gadget as arrays: `EntryTables` for `TwoLevelEntry`."""
        ...

    @staticmethod
    def build_entry(bodies: Bodies, ranges: Ranges, tables: Sequence[Any]) -> Entry:
        """The entry of several gadgets of one `entry_name`.

        Args:
          bodies: the subgames.
          ranges: ranges of the blueprints, with the trunk if a gadget requires it.
          tables: tables of each gadget.
        """
        ...


@runtime_checkable
class _LooksLikeGadget(Protocol):
    @property
    def requires(self) -> frozenset[Capability]: ...

    def resolve(self, context: Context) -> Gadget: ...

    def tables(self, ranges: Ranges) -> Any: ...


def is_gadget(value: object) -> bool:
    """True for a gadget, False for a class of gadgets."""
    return isinstance(value, _LooksLikeGadget) and not isinstance(value, type)


class TwoLevel:
    """Base of gadgets whose opponent picks a root infostate, then follows or terminates."""

    entry_name: ClassVar[str] = "two-level"
    joint: ClassVar[bool] = False
    apart: ClassVar[bool] = False

    @staticmethod
    def build_entry(bodies: Bodies, ranges: Ranges, tables: Sequence[Any]) -> Entry:
        """The entry of several gadgets of one `entry_name`."""
        return TwoLevelEntry(
            ranges.subgame,
            ranges.num_subgames,
            tables,
            num_padded=bodies.num_roots(1 - bodies.player),
            rounding=bodies.rounding,
        )


def check_epsilon(epsilon: object) -> None:
    """Raises ValueError unless ε is a number in [0, 1) or `auto`."""
    if isinstance(epsilon, str) and epsilon == AUTO:
        return
    if not is_finite_number(epsilon) or not 0 <= epsilon < 1:
        raise ValueError(
            f"epsilon={epsilon!r}: expected a number in [0, 1), for example {DEFAULT_EPSILON}, or 'auto'"
        )


@dataclasses.dataclass(frozen=True)
class Perturbed:
    """Base of gadgets with a prior.

    Attributes:
      prior: distribution of the opponent's mistakes.
      epsilon: probability of a mistake, in [0, 1); 0 without a prior; `auto` for linear programs.
      alternative: the opponent's values outside the subgame.
    """

    prior: Prior = dataclasses.field(default_factory=BlueprintPrior)
    epsilon: Epsilon = DEFAULT_EPSILON
    alternative: Alternative = dataclasses.field(default_factory=BestResponseValues)

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        prior, alternative = cast("tuple[object, object]", (self.prior, self.alternative))
        if isinstance(prior, type) or not isinstance(prior, Prior):
            raise ValueError(f"prior={self.prior!r}: expected a prior, such as NoPrior() or UniformPrior()")
        if isinstance(alternative, type) or not isinstance(alternative, Alternative):
            raise ValueError(
                f"alternative={self.alternative!r}: expected BestResponseValues(), BlueprintValues(), "
                "ContinuationValues() or ArrayValues(array)"
            )
        if isinstance(self.prior, NoPrior):
            object.__setattr__(self, "epsilon", 0.0)

    @property
    def number(self) -> float:
        """ε as a number; raises ValueError for `auto`, which linear programs replace first."""
        if isinstance(self.epsilon, str):
            raise ValueError(f"epsilon={self.epsilon!r}: expected a number; only linear programs determine ε")
        return self.epsilon

    @property
    def offer(self) -> Values:
        """The values used as `V̄(s)`; bounds hold if they are exact."""
        return self._resolved(self.alternative, Values)

    @property
    def mistakes(self) -> Mistakes:
        """The resolved prior."""
        return self._resolved(self.prior, Mistakes)

    def _resolved(self, source: Prior | Alternative, kind: type[Part]) -> Part:
        if source.requires & TO_RESOLVE or not isinstance(source, kind):
            raise ValueError(
                f"gadget {self!r}: {source!r} is not resolved; expected a gadget from "
                "gadget.resolve(context), which refine and sweep call, or another source"
            )
        return source

    @property
    def requires(self) -> frozenset[Capability]:
        """Required capabilities of the front end, including those of the prior and alternative values."""
        searched = {Capability.AUTO_EPSILON} if self.epsilon == AUTO else frozenset[Capability]()
        return self.prior.requires | self.alternative.requires | searched

    def resolve(self, context: Context) -> Self:
        """The gadget with its prior and alternative values resolved, so that they depend only on ranges."""
        return dataclasses.replace(
            self, prior=self.prior.resolve(context), alternative=self.alternative.resolve(context)
        )

    def error_bound(self, error: float, gap: FloatArray) -> FloatArray:
        """`[lanes]` bound on a solution's exploitability in excess of the best strategy for the subgames.

        Args:
          error: Δ, the largest error of the alternative values, per unit of `N(s)`.
          gap: `[S, lanes]` NashConv of its games.

        Returns:
          The bound, NaN where none is known.
        """
        return np.full(gap.shape[1], np.nan)

    @property
    def settings(self) -> dict[str, str]:
        """Result columns besides prior and ε."""
        return {"alternative": self.alternative.name}

    def check(self, num_roots: int, num_lanes: int) -> None:
        """Raises ValueError unless the gadget's arrays fit the opponent's roots and the blueprints."""
        self.check_prior(num_roots, num_lanes)
        if isinstance(self.alternative, ArrayValues):
            check_rows("ArrayValues", np.shape(self.alternative.array), num_roots, num_lanes)

    def check_prior(self, num_roots: int, num_lanes: int) -> None:
        """Raises ValueError unless an `ArrayPrior` has a row for each of the opponent's roots."""
        if isinstance(self.prior, ArrayPrior):
            check_rows("ArrayPrior values", np.shape(self.prior.values), num_roots, num_lanes)


def check_rows(name: str, shape: tuple[int, ...], num_roots: int, num_lanes: int) -> None:
    """Raises ValueError unless a user's array fits the opponent's roots and the blueprints."""
    if shape[0] != num_roots or (len(shape) == 2 and shape[1] not in (1, num_lanes)):
        raise ValueError(
            f"{name} of shape {shape}: expected [{num_roots}] or [{num_roots}, {num_lanes}], a row for "
            "each of the opponent's roots (`forest.root_names(opponent)`), a lane for each blueprint"
        )


def check_arrays(gadgets: Sequence[Gadget], players: Sequence[int]) -> None:
    """Raises ValueError if a user's array is for the other player.

    Args:
      gadgets: the gadgets to solve.
      players: the resolving players; an array has a row for each root of one player's opponent, so that each
        player needs a separate array.
    """
    for gadget in gadgets:
        made_for = gadget.prior.player if isinstance(gadget.prior, ArrayPrior) else None
        if made_for is not None and players and made_for not in players:
            raise ValueError(
                f"{gadget.name}: its ArrayPrior is for player {made_for} as the resolving player, but player "
                f"{players[0]} re-solves; expected an ArrayPrior for player {players[0]}"
            )


def describe(gadget: Gadget) -> str:
    """Short description of a gadget, as in the labels of refined policies."""
    words = [gadget.name]
    if not isinstance(gadget.prior, NoPrior):
        epsilon = gadget.epsilon if isinstance(gadget.epsilon, str) else f"{gadget.epsilon:g}"
        words.append(f"{prior_name(gadget)} prior, epsilon {epsilon}")
    defaults = {"alternative": "best-response", "gifts": "lower-bound"}
    words += [
        f"{column} {setting}"
        for column, setting in gadget.settings.items()
        if defaults.get(column) != setting
    ]
    return ", ".join(words)


def prior_name(gadget: Gadget) -> str:
    """Name of a gadget's prior in tables, with the prior's settings that differ from the defaults."""
    prior: Any = gadget.prior
    words = [prior.name]
    for field in dataclasses.fields(prior) if dataclasses.is_dataclass(prior) else ():
        value = getattr(prior, field.name)
        shown = field.metadata.get("shown", True)
        if shown and isinstance(value, int | float) and value != field.default:
            words.append(f"{field.name} {value:g}")
    return ", ".join(words)


def gadget_columns(gadgets: Sequence[Gadget | None], lanes: IntArray) -> dict[str, list[Any]]:
    """Columns of result tables: name, prior and ε of each lane's gadget; None and NaN for lanes without one.

    Args:
      gadgets: the gadgets.
      lanes: `[lanes]` index of each lane's gadget.
    """
    names = [None if gadget is None else gadget.name for gadget in gadgets]
    priors = [None if gadget is None else prior_name(gadget) for gadget in gadgets]
    epsilons = [np.nan if gadget is None else gadget.epsilon for gadget in gadgets]
    columns = {"gadget": names, "prior": priors, "epsilon": epsilons}
    return {name: [values[gadget] for gadget in lanes.tolist()] for name, values in columns.items()}
