"""What a gadget is: the opponent's way into a subgame, as data.

A gadget is a function from ranges to tables: what the opponent's choices above its root infostates are
worth, which actions exist, how likely they are at least, and a scale for every root. Values and
reaches are those of the game: `V(s)` below the opponent's root infostate `s` is weighted
by the resolving player's and chance's reach, not the opponent's; `V̄(s)` is the same
against the blueprint's best response; `N(s)` is that weight itself.

A new gadget is one class with a name, a prior, an ε and `tables`; a line in `registry.py` puts it on the
command line. Those that exist are in `two_level.py` and `real_way.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from jaxgadget.gadgets.alternative import Alternative, ArrayValues, BestResponseValues
from jaxgadget.gadgets.entry import Entry, TwoLevelEntry
from jaxgadget.gadgets.prior import ArrayPrior, BlueprintPrior, NoPrior, Prior
from jaxgadget.gadgets.ranges import Ranges
from jaxgadget.gadgets.structure import Bodies

DEFAULT_EPSILON = 1e-3
"""What the paper's experiments use (Kubíček et al. 2026, §8)."""

AUTO = "auto"
"""ε as small as it must be; for linear programs only (Kubíček et al. 2026, §7.1)."""

Epsilon = float | Literal["auto"]


class Gadget(Protocol):
    """The opponent's way in; a frozen dataclass whose first two fields are a prior and an ε.

    Gadgets of the same `entry_name` are lanes of one entry, so another prior or ε compiles nothing.
    """

    name: ClassVar[str]
    """The command line's spelling."""

    entry_name: ClassVar[str]
    """Which gadgets share an entry."""

    @property
    def prior(self) -> Prior:
        """Where the opponent's mistakes lead."""
        ...

    @property
    def epsilon(self) -> Epsilon:
        """How likely they are, in [0, 1), or `auto`."""
        ...

    @property
    def needs(self) -> frozenset[str]:
        """Which optional parts of `Ranges` it reads: `trunk`, `played`."""
        ...

    @property
    def settings(self) -> dict[str, str]:
        """What tables of results say of it besides prior and ε."""
        ...

    def check(self, num_roots: int, num_lanes: int) -> None:
        """ValueError unless the user's arrays in it fit the opponent's roots and the blueprints."""
        ...

    def tables(self, ranges: Ranges) -> Any:
        """The gadget in numbers, `EntryTables` for the entry of two levels."""
        ...

    @staticmethod
    def build_entry(bodies: Bodies, ranges: Ranges, tables: Sequence[Any]) -> Entry:
        """The entry of several gadgets of one `entry_name`.

        Args:
          bodies: the subgames.
          ranges: what blueprints bring to them, the trunk included if a gadget needs it.
          tables: of each gadget.
        """
        ...


class TwoLevel:
    """What gadgets share whose entry is a pick of a root infostate, then follow or terminate."""

    entry_name: ClassVar[str] = "two-level"

    @staticmethod
    def build_entry(bodies: Bodies, ranges: Ranges, tables: Sequence[Any]) -> Entry:
        """See `Gadget`."""
        return TwoLevelEntry(
            ranges.subgame,
            ranges.num_subgames,
            tables,
            num_padded=bodies.num_roots(1 - bodies.player),
            rounding=bodies.rounding,
        )


def check_epsilon(epsilon: object) -> None:
    """ValueError unless a number in [0, 1) or `auto`."""
    if isinstance(epsilon, str) and epsilon == AUTO:
        return
    number = float(epsilon) if isinstance(epsilon, float | int | np.floating | np.integer) else np.nan
    if isinstance(epsilon, bool) or not 0 <= number < 1:
        raise ValueError(
            f"epsilon={epsilon!r}: expected a number in [0, 1), for example {DEFAULT_EPSILON}, or 'auto'"
        )


@dataclasses.dataclass(frozen=True)
class Perturbed:
    """What gadgets with a prior share.

    Attributes:
      prior: where the opponent's mistakes lead.
      epsilon: how likely they are, in [0, 1); 0 without a prior; `auto` for linear programs.
      alternative: what the opponent is promised outside the subgame.
    """

    prior: Prior = dataclasses.field(default_factory=BlueprintPrior)
    epsilon: Epsilon = DEFAULT_EPSILON
    alternative: Alternative = dataclasses.field(default_factory=BestResponseValues)

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if isinstance(self.prior, type) or not hasattr(self.prior, "follow"):
            raise ValueError(f"prior={self.prior!r} is no prior; expected NoPrior(), UniformPrior(), …")
        if isinstance(self.alternative, type) or not hasattr(self.alternative, "exact"):
            raise ValueError(
                f"alternative={self.alternative!r}: expected BestResponseValues(), BlueprintValues(), "
                "ContinuationValues() or ArrayValues(array)"
            )
        if isinstance(self.prior, NoPrior):
            object.__setattr__(self, "epsilon", 0.0)

    @property
    def number(self) -> float:
        """ε as a number; linear programs replace `auto` before they ask."""
        if isinstance(self.epsilon, str):
            raise ValueError(
                f"epsilon={self.epsilon!r}: expected a number here; only linear programs find one"
            )
        return self.epsilon

    @property
    def promised(self) -> Alternative:
        """What stands for `V̄(s)`; bounds hold where it is exact."""
        return self.alternative

    @property
    def needs(self) -> frozenset[str]:
        """See `Gadget`."""
        return self.promised.needs

    @property
    def settings(self) -> dict[str, str]:
        """See `Gadget`."""
        return {"alternative": self.alternative.name}

    def check(self, num_roots: int, num_lanes: int) -> None:
        """See `Gadget`."""
        self.check_prior(num_roots, num_lanes)
        if isinstance(self.alternative, ArrayValues):
            check_rows("ArrayValues", np.shape(self.alternative.array), num_roots, num_lanes)

    def check_prior(self, num_roots: int, num_lanes: int) -> None:
        """The same for the prior alone, if it has a row for each of the opponent's roots."""
        if isinstance(self.prior, ArrayPrior):
            check_rows("ArrayPrior values", np.shape(self.prior.values), num_roots, num_lanes)


def check_rows(what: str, shape: tuple[int, ...], num_roots: int, num_lanes: int) -> None:
    """ValueError unless a user's array fits the opponent's roots and the blueprints."""
    if shape[0] != num_roots or (len(shape) == 2 and shape[1] not in (1, num_lanes)):
        raise ValueError(
            f"{what} of shape {shape}: expected [{num_roots}] or [{num_roots}, {num_lanes}], a row for "
            "each of the opponent's roots (`forest.root_names(opponent)`), a lane for each blueprint"
        )


def check_arrays(gadgets: Sequence[Gadget], players: Sequence[int]) -> None:
    """ValueError if a user's array would be taken for a player for whom it was not made.

    Args:
      gadgets: what is solved.
      players: who re-solves; an array has a row for each root of one player's opponent, so both need one
        each.
    """
    for gadget in gadgets:
        prior, alternative = gadget.prior, getattr(gadget, "alternative", None)
        made_for = prior.player if isinstance(prior, ArrayPrior) else None
        if made_for is not None and made_for not in players:
            raise ValueError(
                f"{gadget.name}: its ArrayPrior was made for player {made_for} to re-solve with, and player "
                f"{players[0]} does; make one for player {players[0]}"
            )
        arrays = [
            kind
            for kind, part in (
                ("ArrayPrior", prior),
                ("ArrayValues", alternative),
                ("spread", getattr(gadget, "spread", None)),
            )
            if isinstance(part, ArrayPrior | ArrayValues)
        ]
        if len(players) > 1 and arrays:
            raise ValueError(
                f"{gadget.name}: its {arrays[0]} has a row for each root of one player's opponent, and both "
                "players re-solve; give each its own: refine_both(…, gadgets={0: …, 1: …}), or sweep and "
                "search for one player at a time"
            )


def describe(gadget: Gadget) -> str:
    """A gadget in a few words, as in the labels of refined policies."""
    parts = [gadget.name]
    if not isinstance(gadget.prior, NoPrior):
        epsilon = gadget.epsilon if isinstance(gadget.epsilon, str) else f"{gadget.epsilon:g}"
        parts.append(f"{prior_name(gadget)} prior, epsilon {epsilon}")
    usual = {"alternative": "best-response", "gifts": "lower-bound"}
    parts += [f"{what} {how}" for what, how in gadget.settings.items() if usual.get(what) != how]
    return ", ".join(parts)


def prior_name(gadget: Gadget) -> str:
    """What tables call a gadget's prior: its name, and its numbers where they are not the usual ones."""
    prior: Any = gadget.prior
    parts = [getattr(prior, "name", type(prior).__name__)]
    for field in dataclasses.fields(prior) if dataclasses.is_dataclass(prior) else ():
        value = getattr(prior, field.name)
        shown = field.metadata.get("shown", True)
        if shown and isinstance(value, int | float) and value != field.default:
            parts.append(f"{field.name} {value:g}")
    return ", ".join(parts)
