"""The range of a model of the opponent as a prior, looked up before gadgets are solved."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from jaxgadget.gadgets.alternative import on_roots
from jaxgadget.gadgets.gadget import Gadget, Perturbed
from jaxgadget.gadgets.prior import RangePrior
from jaxgadget.gadgets.ranges import Ranges
from jaxgadget.policy.blueprints import BlueprintSpec, make_blueprints
from jaxgadget.policy.policy import as_policy
from jaxgadget.tree.forest import Forest
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.trunk import build_trunk
from jaxgadget.util.arrays import FloatArray

Asking = TypeVar("Asking", bound=Gadget)


@dataclasses.dataclass(frozen=True, eq=False)
class ModelRange(RangePrior):
    """The range of a model that is known.

    Attributes:
      at_roots: `[R, 1]` the model's reach of the opponent's roots.
      above: `[Q, 1]` what it plays above the cut; None where no gadget looks there.
    """

    at_roots: FloatArray = dataclasses.field(default_factory=lambda: np.zeros((0, 1)))
    above: FloatArray | None = None

    def reach(self, ranges: Ranges) -> FloatArray:
        """See `RangePrior`."""
        return on_roots(self.at_roots, ranges)

    def choose(self, ranges: Ranges) -> FloatArray:
        """See `RangePrior`."""
        assert self.above is not None
        return np.broadcast_to(self.above, ranges.above.strategy.shape)


@dataclasses.dataclass(frozen=True, eq=False)
class RangeOfSpec(RangePrior):
    """The range of models that a SPEC names, before there is a game; `make_ranges` makes them.

    Attributes:
      spec: the models.
    """

    spec: BlueprintSpec = dataclasses.field(kw_only=True)

    @property
    def name(self) -> str:
        """What tables and labels call it."""
        return f"range of {self.spec.text}"

    def _check(self) -> None:
        raise ValueError(f"{self!r} has no numbers: its models are made by make_ranges first")


def make_ranges(tree: HistoryTree, gadgets: Sequence[Gadget], *, what: str) -> list[Gadget]:
    """Gadgets with the ranges of models in place of their SPECs, a gadget for every model of a SPEC.

    Args:
      tree: the game's histories.
      gadgets: those with another prior stay.
      what: errors call a SPEC.

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
            models = make_blueprints(tree, [spec], what=what)
            ranges[spec] = [RangePrior(models.lane(lane)) for lane in range(models.num_lanes)]
        finished += [dataclasses.replace(gadget, prior=prior) for prior in ranges[spec]]
    return finished


def follow_models(gadget: Asking, forest: Forest, opponent: int) -> Asking:
    """The gadget with a model's range in place of the model, if its prior has one.

    Args:
      gadget: what is solved.
      forest: all its subgames.
      opponent: of the player who re-solves.

    Raises:
      ValueError: if the model is of another game, or has several lanes.
    """
    prior = gadget.prior
    if not isinstance(prior, RangePrior) or prior.model is None or not isinstance(gadget, Perturbed):
        return gadget
    model = as_policy(prior.model, forest.tree, name="RangePrior model")
    if model.num_lanes != 1:
        raise ValueError(
            f"RangePrior model has {model.num_lanes} lanes: expected one, a prior each; pick it by "
            "policy.lane(k)"
        )
    above = None
    if "trunk" in gadget.needs:
        sequences = build_trunk(forest).form.action_sequences(opponent)
        above = model.probabilities[opponent][sequences - 1]
    reach = model.reach(opponent)[forest.roots[opponent].sequence]
    return dataclasses.replace(gadget, prior=ModelRange(prior.model, at_roots=reach, above=above))
