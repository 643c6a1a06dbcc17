"""Names of gadgets, priors and alternative values: tables of name → `module:object`.

Modules are imported only when `jaxgadget.util.registry.find` resolves a name, so that the command line knows
all names without JAX. To add a gadget, write a module and add a line here.
"""

from __future__ import annotations

GADGETS: dict[str, str] = {
    "unsafe": "jaxgadget.gadgets.root_gadgets:Unsafe",
    "resolving": "jaxgadget.gadgets.root_gadgets:Resolving",
    "max-margin": "jaxgadget.gadgets.root_gadgets:MaxMargin",
    "reach-resolving": "jaxgadget.gadgets.root_gadgets:ReachResolving",
    "reach-max-margin": "jaxgadget.gadgets.root_gadgets:ReachMaxMargin",
    "full": "jaxgadget.gadgets.trunk_gadgets:Full",
    "optimal-continuation": "jaxgadget.gadgets.trunk_gadgets:OptimalContinuation",
}
"""Gadgets: dataclasses with a prior, ε and further settings."""

RANGE = "range"
"""Name of the prior that accepts a model."""

PRIORS: dict[str, str] = {
    "none": "jaxgadget.gadgets.prior:NoPrior",
    "uniform": "jaxgadget.gadgets.prior:UniformPrior",
    "blueprint": "jaxgadget.gadgets.prior:BlueprintPrior",
    RANGE: "jaxgadget.gadgets.prior:RangePrior",
}
"""Priors, each called without arguments."""

DEFAULT_PRIORS = ("none", "uniform", "blueprint")
"""Default priors."""

BEST_RESPONSE = "best-response"
"""Default alternative values."""

CONTINUATION = "continuation"
"""Name of the alternative values that accept a number of iterations."""

ALTERNATIVES: dict[str, str] = {
    BEST_RESPONSE: "jaxgadget.gadgets.alternative:BestResponseValues",
    "blueprint": "jaxgadget.gadgets.alternative:BlueprintValues",
    CONTINUATION: "jaxgadget.gadgets.alternative:ContinuationValues",
}
"""Alternative values, each called without arguments."""

VALUES = "values"
"""Prefix of `values:DIR`, a network of `train-ranges` as alternative values or at a depth limit."""

RANGE_VALUES: dict[str, str] = dict.fromkeys((VALUES, "ranges"), "jaxgadget.learn.range_network:FolderRanges")
"""Range values that estimate a continuation, each called with a folder; `ranges` is an older name for
`values`."""

DEFAULT_GADGETS = ("unsafe", "resolving", "max-margin")
"""Default gadgets."""

GENERATIONS: dict[str, str] = {
    "random": "jaxgadget.gadgets.generation:RandomGeneration",
    "diverse": "jaxgadget.gadgets.generation:DiverseGeneration",
}
"""Generations of the opponent's infostates to consider, each called with integers."""
