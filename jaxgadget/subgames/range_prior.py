"""The range of a model of the opponent as a prior, looked up before gadgets are solved."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from jaxgadget.gadgets.capabilities import Capability
from jaxgadget.gadgets.gadget import Gadget, Perturbed
from jaxgadget.gadgets.prior import RangePrior
from jaxgadget.policy.blueprints import BlueprintSpec, make_blueprints
from jaxgadget.tree.public import Tree


@dataclasses.dataclass(frozen=True, eq=False)
class RangeOfSpec(RangePrior):
    """The range of models that a SPEC names, before there is a game; `make_ranges` makes them.

    Attributes:
      spec: the models.
    """

    spec: BlueprintSpec = dataclasses.field(kw_only=True)

    @property
    def name(self) -> str:
        """Name in tables and labels."""
        return f"range of {self.spec.text}"

    @property
    def requires(self) -> frozenset[Capability]:
        """Models that are made first."""
        return frozenset({Capability.MODEL_SPEC})


def make_ranges(tree: Tree, gadgets: Sequence[Gadget], *, what: str) -> list[Gadget]:
    """Gadgets with the ranges of models in place of their SPECs, a gadget for every model of a SPEC.

    Args:
      tree: the game, by histories or by hands.
      gadgets: those with another prior stay.
      what: name of a SPEC in errors.

    Raises:
      ValueError: for a model of another game.
    """
    ranges: dict[BlueprintSpec, list[RangePrior]] = {}
    finished: list[Gadget] = []
    for gadget in gadgets:
        if not isinstance(gadget, Perturbed) or not isinstance(gadget.prior, RangeOfSpec):
            finished.append(gadget)
            continue
        spec = gadget.prior.spec
        if spec not in ranges:
            models = make_blueprints(tree, [spec], argument=what)
            ranges[spec] = [RangePrior(models.lane(lane)) for lane in range(models.num_lanes)]
        finished += [dataclasses.replace(gadget, prior=prior) for prior in ranges[spec]]
    return finished
