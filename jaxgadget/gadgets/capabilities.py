"""Capabilities: requirements of gadgets, priors and alternative values, and provisions of front ends."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import ClassVar, Protocol


class Capability(enum.Enum):
    """Data or feature that not every front end, tree or solver provides; the value describes it in errors."""

    TRUNK = "the opponent's decisions above the subgames"
    WAY = "a copy of the opponent's decisions on its path to the subgames"
    PLAYED = "the values of both players' blueprints"
    RANGE = "the opponent's range at the roots"
    MODEL_RANGE = "the range of a model of the opponent"
    MODEL_SPEC = "models made from a SPEC"
    CONTINUATION = "the optimal continuation, solved first"
    RANGE_VALUES = "values of ranges at the cut"
    ABSTRACTION = "values of an abstraction of the game"
    ROOT_VALUES = "an array of values with a row for each of the opponent's root infostates"
    ROOT_PRIOR = "an array of probabilities with a row for each of the opponent's root infostates"
    AUTO_EPSILON = "epsilon='auto', the largest ε whose optimal basis is optimal at 0, from linear programs"
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
"""Capabilities for arrays of one resolving player, which cannot be used for both players."""


class Requiring(Protocol):
    """The part of a gadget that states its requirements."""

    name: ClassVar[str]

    @property
    def requires(self) -> frozenset[Capability]:
        """Capabilities that the gadget requires."""
        ...


def of_solver(*, exact: bool) -> frozenset[Capability]:
    """Capabilities of the solver: linear programs if `exact`, otherwise regret minimisation."""
    return frozenset({Capability.AUTO_EPSILON if exact else Capability.SPREAD})


def check_capabilities(
    gadgets: Iterable[Requiring], provided: frozenset[Capability], caller: str, expected: str
) -> None:
    """Raises ValueError for the first gadget with a requirement that a front end does not provide.

    Args:
      gadgets: the gadgets.
      provided: capabilities of the front end, its tree and its solver.
      caller: name of the front end in errors, such as `nested_search`.
      expected: the remedy, such as "Unsafe(), Resolving() or MaxMargin()".
    """
    for gadget in gadgets:
        if missing := gadget.requires - provided:
            listed = " and ".join(sorted(capability.value for capability in missing))
            raise ValueError(
                f"gadgets: {gadget.name} requires {listed}; {caller} does not provide it; expected {expected}"
            )
