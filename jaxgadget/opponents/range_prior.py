"""Priors from the range of an opponent model, loaded before gadgets are solved."""

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
    """Range of the models of a SPEC, independent of a game; `make_ranges` loads the models.

    Attributes:
      spec: SPEC of the models.
    """

    spec: BlueprintSpec = dataclasses.field(kw_only=True)

    @property
    def name(self) -> str:
        """Name in tables and labels."""
        return f"range of {self.spec.text}"

    @property
    def requires(self) -> frozenset[Capability]:
        """Models of SPECs, which `make_ranges` loads."""
        return frozenset({Capability.MODEL_SPEC})


def make_ranges(tree: Tree, gadgets: Sequence[Gadget], *, argument: str) -> list[Gadget]:
    """Replaces SPECs by the ranges of their models, with one gadget for every model of a SPEC.

    Args:
      tree: the game, in history or hand form.
      gadgets: the gadgets; those with other priors are unchanged.
      argument: name of a SPEC in errors.

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
            models = make_blueprints(tree, [spec], argument=argument)
            ranges[spec] = [RangePrior(models.lane(lane)) for lane in range(models.num_lanes)]
        finished += [dataclasses.replace(gadget, prior=prior) for prior in ranges[spec]]
    return finished
