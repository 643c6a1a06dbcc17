"""All kinds of gadget: importing this module registers them."""

from jaxgadget.solve.continuation import Full, OptimalContinuation
from jaxgadget.solve.entries import MaxMargin, ReachMaxMargin, ReachResolving, Resolving, Unsafe
from jaxgadget.solve.gadget import GADGETS

__all__ = [
    "GADGETS",
    "Full",
    "MaxMargin",
    "OptimalContinuation",
    "ReachMaxMargin",
    "ReachResolving",
    "Resolving",
    "Unsafe",
]
