"""Capabilities: what gadgets, priors and alternative values require, and what a front end provides."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import ClassVar, Protocol


class Capability(enum.Enum):
    """Something that not every front end, tree or solver has; the value describes it in errors."""

    TRUNK = "the opponent's decisions above the subgames"
    WAY = "the opponent's real way to the subgames"
    PLAYED = "the values of both players' blueprints"
    RANGE = "the opponent's range at the roots"
    MODEL_RANGE = "the range of a model of the opponent"
    MODEL_SPEC = "models made from a SPEC"
    CONTINUATION = "the optimal continuation, solved first"
    RANGE_VALUES = "values of ranges at the cut"
    ABSTRACTION = "values of an abstraction of the game"
    ROOT_VALUES = "an array of values with a row for each of the opponent's root infostates"
    ROOT_PRIOR = "an array of probabilities with a row for each of the opponent's root infostates"
    AUTO_EPSILON = "epsilon='auto', the largest with the optimal basis of ε = 0, which linear programs find"
    SPREAD = "spread=, uncertain alternative values, which regret matching solves"


TO_RESOLVE = frozenset(
    {
        Capability.MODEL_RANGE,
        Capability.MODEL_SPEC,
        Capability.CONTINUATION,
        Capability.RANGE_VALUES,
        Capability.ABSTRACTION,
    }
)
"""Capabilities that `resolve` uses; a resolved gadget requires none of them."""

SOLVERS = frozenset({Capability.AUTO_EPSILON, Capability.SPREAD})
"""Capabilities that depend on the solver."""

ARRAYS = frozenset({Capability.ROOT_VALUES, Capability.ROOT_PRIOR})
"""Arrays for one resolving player, which cannot serve both."""


class Requiring(Protocol):
    """A gadget, as far as its requirements go."""

    name: ClassVar[str]

    @property
    def requires(self) -> frozenset[Capability]:
        """Capabilities that it needs."""
        ...


def of_solver(*, exact: bool) -> frozenset[Capability]:
    """Capabilities of the solver: linear programs if `exact`, else regret minimisation."""
    return frozenset({Capability.AUTO_EPSILON if exact else Capability.SPREAD})


def check_capabilities(
    gadgets: Iterable[Requiring], provided: frozenset[Capability], caller: str, expected: str
) -> None:
    """Raises a ValueError for the first gadget that requires what a front end does not provide.

    Args:
      gadgets: the gadgets.
      provided: capabilities of the front end, its tree and its solver.
      caller: the front end as errors name it, such as `nested_search`.
      expected: the remedy, such as "Unsafe(), Resolving() or MaxMargin()".
    """
    for gadget in gadgets:
        if missing := gadget.requires - provided:
            listed = " and ".join(sorted(capability.value for capability in missing))
            raise ValueError(
                f"gadgets: {gadget.name} requires {listed}; {caller} does not provide it; expected {expected}"
            )
