"""Context in which alternative values and priors are resolved before a gadget is solved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from jaxgadget.gadgets.capabilities import Capability
from jaxgadget.util.arrays import FloatArray

if TYPE_CHECKING:
    from jaxgadget.gadgets.alternative import AbstractValues, ContinuationValues


class Continuation(NamedTuple):
    """A continuation of every blueprint below a cut, for B blueprints.

    Attributes:
      strategy: the blueprints with the continuation in the subgames; with range values, the blueprints.
      values: `[R, B]` values of the opponent's roots, in the resolving player's utility.
      reach: `[R, B]` the opponent's own reach of its roots.
      is_estimate: True if the values are range values, so that no bound is known.
      failures: blueprints without a continuation, with the reason.
    """

    strategy: Any
    values: FloatArray
    reach: FloatArray
    is_estimate: bool
    failures: Mapping[int, str]


class ModelReach(NamedTuple):
    """Reach of a model of the opponent.

    Attributes:
      roots: `[R, 1]` the model's own reach of the opponent's roots.
      above: `[Q, 1]` the model's strategy above the cut; None if no gadget uses it.
    """

    roots: FloatArray
    above: FloatArray | None


class Immediate:
    """Base of priors and alternative values that depend only on the ranges."""

    @property
    def requires(self) -> frozenset[Capability]:
        """Required capabilities of the front end: none."""
        return frozenset()

    def resolve(self, context: Context) -> Self:
        """Returns the object itself, which needs no resolution."""
        return self


class Context(Protocol):
    """The subgames, blueprints and solver of a front end, as used by alternative values and priors."""

    def continuation(self, values: ContinuationValues) -> Continuation:
        """Solves a continuation of every blueprint; the result is cached."""
        ...

    def abstract_values(self, values: AbstractValues) -> FloatArray:
        """`[R, B]` values of the opponent's roots in an abstraction, in the resolving player's utility."""
        ...

    def model_reach(self, model: Any) -> ModelReach:
        """Reach of the opponent's roots under a model, which is a policy with one lane."""
        ...
