"""All kinds of gadget: importing this module registers them."""

from jaxgadget.gadgets.entries import MaxMargin, ReachMaxMargin, ReachResolving, Resolving, Unsafe
from jaxgadget.gadgets.gadget import GADGETS
from jaxgadget.gadgets.real_way import Full, OptimalContinuation

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
