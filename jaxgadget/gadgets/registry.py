"""What gadgets, priors and alternative values are called: tables of name → `module:object`.

Nothing is imported before `jaxgadget.util.registry.find` resolves a name, so the command line knows all
names without JAX. A new gadget is a module and a line here.
"""

from __future__ import annotations

GADGETS: dict[str, str] = {
    "unsafe": "jaxgadget.gadgets.two_level:Unsafe",
    "resolving": "jaxgadget.gadgets.two_level:Resolving",
    "max-margin": "jaxgadget.gadgets.two_level:MaxMargin",
    "reach-resolving": "jaxgadget.gadgets.two_level:ReachResolving",
    "reach-max-margin": "jaxgadget.gadgets.two_level:ReachMaxMargin",
    "full": "jaxgadget.gadgets.real_way:Full",
    "optimal-continuation": "jaxgadget.gadgets.real_way:OptimalContinuation",
}
"""Gadgets, each a dataclass that is called with a prior, ε and its own settings."""

RANGE = "range"
"""Which prior may be the range of a model."""

PRIORS: dict[str, str] = {
    "none": "jaxgadget.gadgets.prior:NoPrior",
    "uniform": "jaxgadget.gadgets.prior:UniformPrior",
    "blueprint": "jaxgadget.gadgets.prior:BlueprintPrior",
    RANGE: "jaxgadget.gadgets.prior:RangePrior",
}
"""Priors, each called without arguments."""

DEFAULT_PRIORS = ("none", "uniform", "blueprint")
"""Which priors are taken if nothing is asked for."""

BEST_RESPONSE = "best-response"
"""Which alternative values are promised if nothing is asked for."""

CONTINUATION = "continuation"
"""Which alternative values may be found with a number of iterations."""

ALTERNATIVES: dict[str, str] = {
    BEST_RESPONSE: "jaxgadget.gadgets.alternative:BestResponseValues",
    "blueprint": "jaxgadget.gadgets.alternative:BlueprintValues",
    CONTINUATION: "jaxgadget.gadgets.alternative:ContinuationValues",
}
"""Alternative values, each called without arguments."""

RANGE_VALUES: dict[str, str] = {"values": "jaxgadget.learn.range_network:FolderRanges"}
"""Range values that a continuation is estimated with, each called with a folder."""

DEFAULT_GADGETS = ("unsafe", "resolving", "max-margin")
"""What is solved if nothing is asked for."""

GENERATIONS: dict[str, str] = {
    "random": "jaxgadget.gadgets.generation:RandomGeneration",
    "diverse": "jaxgadget.gadgets.generation:DiverseGeneration",
}
"""Ways to choose which of the opponent's infostates are considered, each called with whole numbers."""
