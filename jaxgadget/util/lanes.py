"""Lanes: combinations of gadgets, opponents, draws and blueprints that are solved side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from jaxgadget.util.arrays import IntArray


@dataclasses.dataclass(frozen=True, eq=False)
class Lanes:
    """Indices of the combination in each of L lanes.

    Attributes:
      gadget: `[L]`
      opponent: `[L]`
      blueprint: `[L]`
      draw: `[L]` draw of a generation, a sample of the opponent's root infostates that a search considers.
    """

    gadget: IntArray
    opponent: IntArray
    blueprint: IntArray
    draw: IntArray

    @staticmethod
    def product(*, gadgets: int = 1, opponents: int = 1, draws: int = 1, blueprints: int = 1) -> Lanes:
        """All combinations; gadgets vary slowest, then opponents, draws and blueprints."""
        shape = (gadgets, opponents, draws, blueprints)
        gadget, opponent, draw, blueprint = np.indices(shape).reshape(4, -1)
        return Lanes(gadget, opponent, blueprint, draw)

    def __len__(self) -> int:
        return len(self.gadget)

    def take(self, lanes: IntArray) -> Lanes:
        """A selection of lanes, by indices or by a mask `[L]`."""
        return Lanes(self.gadget[lanes], self.opponent[lanes], self.blueprint[lanes], self.draw[lanes])

    def where(
        self,
        *,
        gadget: int | None = None,
        opponent: int | None = None,
        draw: int | None = None,
        blueprint: int | None = None,
    ) -> IntArray:
        """Ascending indices of the lanes with the given gadget, opponent, draw and blueprint."""
        matches = np.ones(len(self), np.bool_)
        for index, wanted in (
            (self.gadget, gadget),
            (self.opponent, opponent),
            (self.draw, draw),
            (self.blueprint, blueprint),
        ):
            if wanted is not None:
                matches &= index == wanted
        return np.flatnonzero(matches)

    def of_gadgets(self, gadgets: Sequence[int]) -> IntArray:
        """Indices of the lanes of several gadgets, gadget by gadget."""
        return np.concatenate([self.where(gadget=gadget) for gadget in gadgets])

    def only_gadgets(self, gadgets: Sequence[int]) -> Lanes:
        """The lanes of several gadgets, gadget by gadget, with gadgets renumbered from 0 in this order."""
        lanes = self.take(self.of_gadgets(gadgets))
        position = np.zeros(max(gadgets) + 1, np.int64)
        position[list(gadgets)] = np.arange(len(gadgets))
        return dataclasses.replace(lanes, gadget=position[lanes.gadget])

    def labels(
        self, blueprints: Sequence[str], gadgets: Sequence[str], opponents: Sequence[str] = ("",)
    ) -> tuple[str, ...]:
        """A label for every lane: `blueprint | gadget | opponent`, without empty parts.

        Args:
          blueprints: the blueprints' labels.
          gadgets: the gadgets' descriptions.
          opponents: the opponents' descriptions, empty for one that follows no model.
        """
        parts = (
            [names[number] for number in numbers.tolist()]
            for names, numbers in (
                (blueprints, self.blueprint),
                (gadgets, self.gadget),
                (opponents, self.opponent),
            )
        )
        return tuple(" | ".join(filter(None, names)) for names in zip(*parts, strict=True))
