"""Placement of arrays: on one device, or with lanes split over several.

Lanes share nothing, so a solve on several devices is the same program on each with its share of the
lanes. Computation follows the data: arrays with lanes are split along their last axis over a mesh
with the one axis `lanes`, all others are copied to every device.

On several hosts (`jax.distributed.initialize()` in each process) every process solves its own share
of the blueprints on its `jax.local_devices()`; nothing crosses the network.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AXIS = "lanes"

Tree = TypeVar("Tree")

Device: TypeAlias = Any
"""A `jax.Device`, which type checkers do not know as a type."""


@dataclasses.dataclass(frozen=True)
class Placement:
    """The devices of a solve.

    Attributes:
      chosen: the devices; empty for the default one.
    """

    chosen: tuple[Device, ...] = ()

    @property
    def devices(self) -> tuple[Device, ...]:
        """At least one."""
        return self.chosen or (jax.local_devices()[0],)

    @property
    def on_cpu(self) -> bool:
        """True if the devices are the host's CPUs."""
        return self.platform == "cpu"

    @property
    def platform(self) -> str:
        """Platform of the devices in JAX's terms: `cpu`, `gpu`, `tpu`, …."""
        return self.devices[0].platform

    def everywhere(self, tree: Tree) -> Tree:
        """Copies arrays to every device."""
        return jax.device_put(tree, self._sharding(PartitionSpec()))

    def by_lane(self, tree: Tree) -> Tree:
        """Splits arrays `[…, lanes]` over the devices, whose number must divide the lanes."""
        leaves, structure = jax.tree.flatten(tree)
        return structure.unflatten([jax.device_put(x, self._sharding(_by_lane(x))) for x in leaves])

    def _sharding(self, spec: PartitionSpec) -> Device | NamedSharding | None:
        if len(self.chosen) > 1:
            return NamedSharding(Mesh(np.array(self.chosen), (AXIS,)), spec)
        return self.chosen[0] if self.chosen else None


def _by_lane(x: Any) -> PartitionSpec:
    """Sharding of an array with lanes; scalars are not split."""
    return PartitionSpec(*[None] * (np.ndim(x) - 1), AXIS) if np.ndim(x) else PartitionSpec()


HOME = Placement()
"""The default device."""


def find_placement(devices: Sequence[Device] | None = None) -> Placement:
    """The placement on the devices of the argument.

    Args:
      devices: by default all local devices of the default backend.

    Raises:
      ValueError: if there are none, one occurs twice, or they are of several kinds or another process's.
    """
    if devices is None:
        devices = jax.local_devices()
    is_iterable = isinstance(devices, Iterable)  # pyright: ignore[reportUnnecessaryIsInstance]
    chosen: tuple[Device, ...] = tuple(devices) if is_iterable else ()
    if not chosen or not all(isinstance(device, jax.Device) for device in chosen):
        raise ValueError(f"devices={devices!r}: expected some of jax.local_devices()")
    if len(set(chosen)) < len(chosen) or len({device.platform for device in chosen}) > 1:
        raise ValueError(f"devices={devices!r}: expected different devices of one kind")
    if any(device.process_index != jax.process_index() for device in chosen):
        raise ValueError(
            f"devices={devices!r}: expected some of jax.local_devices(); lanes share nothing, "
            "so every process solves its own blueprints"
        )
    return HOME if chosen == HOME.devices else Placement(chosen)
