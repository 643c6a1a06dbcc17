"""Placement of arrays: on one device, or with lanes split over several.

Lanes are independent, so a solve on several devices is the same program on each with its share of the
lanes. Computation follows the data: arrays with lanes are split along their last axis over a mesh
with the single axis `lanes`; all others are copied to every device.

Batches of hold'em spots, whose payoffs also have lanes, are each solved on one device
(`driver.run_on_devices`).

On several hosts (`jax.distributed.initialize()` in each process) every process solves its own share
of the blueprints on its `jax.local_devices()`; there is no communication.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import functools
import inspect
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.typing import DTypeLike

from jaxgadget.util.accelerators import DEFAULT_FRACTION

AXIS = "lanes"

Tree = TypeVar("Tree")

Device: TypeAlias = Any
"""A `jax.Device`, which type checkers do not know as a type."""


@dataclasses.dataclass(frozen=True)
class AbstractDevice:
    """Description of a device that need not exist: layouts and memory are planned for it, the host computes.

    `jaxgadget.bench.inspect` uses one to record which programs a call runs and to compile them for the
    device.

    Attributes:
      device_kind: name of the device.
      memory_bytes: its memory in bytes.
      platform: platform in JAX's terms.
      process_index: index of the process that owns the device, as in `jax.Device`.
    """

    device_kind: str
    memory_bytes: int
    platform: str = "gpu"
    process_index: int = 0

    def memory_stats(self) -> dict[str, int]:
        """Memory statistics of a device of which XLA may use its default share, all of it free."""
        return {"bytes_limit": int(DEFAULT_FRACTION * self.memory_bytes)}


_assumed: contextvars.ContextVar[AbstractDevice | None] = contextvars.ContextVar("assumed", default=None)


@contextlib.contextmanager
def assume_device(device: AbstractDevice) -> Generator[None]:
    """Makes an abstract device the only local one inside the block, in this thread."""
    token = _assumed.set(device)
    try:
        yield
    finally:
        _assumed.reset(token)


def local_devices() -> Sequence[Device]:
    """The local devices of the default backend, or the abstract device inside `assume_device`."""
    assumed = _assumed.get()
    return jax.local_devices() if assumed is None else [assumed]


def first_devices(count: int) -> Sequence[Device]:
    """The first local devices; raises ValueError if there are fewer."""
    devices = local_devices()
    if count > 1 and isinstance(devices[0], AbstractDevice):
        raise ValueError(
            f"devices={count}: expected 1, as programs are compiled for one {devices[0].device_kind}; give "
            f"the lanes of one device, all divided by {count}"
        )
    if count > len(devices):
        raise ValueError(
            f"devices={count}: expected at most {len(devices)}, the number of {devices[0].platform} devices"
        )
    return devices[:count]


@dataclasses.dataclass(frozen=True)
class Placement:
    """The devices of a solve.

    Attributes:
      chosen: the devices; empty for the default device.
    """

    chosen: tuple[Device, ...] = ()

    @property
    def devices(self) -> tuple[Device, ...]:
        """The chosen devices, or the default device."""
        return self.chosen or (local_devices()[0],)

    @property
    def is_abstract(self) -> bool:
        """True if the devices are only described."""
        return isinstance(self.devices[0], AbstractDevice)

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
        return jax.device_put(tree, self.sharding(PartitionSpec()))

    def by_lane(self, tree: Tree) -> Tree:
        """Splits arrays `[…, lanes]` over the devices; lanes must be a multiple of the number of devices."""
        if len(self.chosen) <= 1:  # in one call, as each takes 50 µs
            return self.everywhere(tree)
        leaves, structure = jax.tree.flatten(tree)
        return structure.unflatten([jax.device_put(x, self.sharding(_by_lane(x))) for x in leaves])

    def call_by_lane(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of a function of arrays, which are on these devices, split as by `by_lane`.

        It is split where it is computed: results that depend on no argument, such as zeros, would otherwise
        lie whole on every device.
        """
        if len(self.chosen) <= 1:
            return function(*arguments)
        function = inspect.unwrap(function)  # which is compiled here
        leaves, structure = jax.tree.flatten(jax.eval_shape(function, *arguments))
        return _split_program(function, self, structure, tuple(map(_by_lane, leaves)))(*arguments)

    @contextlib.contextmanager
    def exclusive(self) -> Generator[None]:
        """Context in which no other thread solves on the same accelerators; threads share a CPU."""
        with contextlib.ExitStack() as stack:
            if not self.on_cpu and not self.is_abstract:
                for device in sorted(self.devices, key=lambda device: device.id):
                    stack.enter_context(_turns.setdefault(device, threading.RLock()))
            yield

    def sharding(self, spec: PartitionSpec) -> Device | NamedSharding | None:
        """The sharding for a specification; None for JAX's choice."""
        if self.is_abstract:
            return None
        if len(self.chosen) > 1:
            return NamedSharding(Mesh(np.array(self.chosen), (AXIS,)), spec)
        return self.chosen[0] if self.chosen else None


_turns: dict[Device, contextlib.AbstractContextManager[Any]] = {}
"""A lock for each accelerator."""


@functools.lru_cache(maxsize=128)
def _split_program(
    function: Callable[..., Any], placement: Placement, structure: Any, specs: tuple[PartitionSpec, ...]
) -> Callable[..., Any]:
    """A function compiled for several devices, given the structure and the split of its results."""
    return jax.jit(function, out_shardings=structure.unflatten(map(placement.sharding, specs)))


def _by_lane(x: Any) -> PartitionSpec:
    """Sharding of an array with lanes; scalars are not split."""
    return PartitionSpec(*[None] * (np.ndim(x) - 1), AXIS) if np.ndim(x) else PartitionSpec()


HOME = Placement()
"""The default device."""

HOST_SEQUENCES = 1 << 14
"""Maximum number of sequences, of both players, at which one lane of a whole game is solved on a CPU in
float64.

On a CPU an iteration of Leduc poker (2,186 sequences) takes about 15 µs in float64; an H100 takes 45 µs in
float32."""


def find_single(num_sequences: int, dtype: DTypeLike) -> Placement:
    """The placement for one lane of a whole game.

    Args:
      num_sequences: number of sequences of both players.
      dtype: precision of the solve.

    Returns:
      The host's CPU for a small game in float64, if JAX may use it; otherwise the default device.
    """
    if HOME.on_cpu or np.dtype(dtype) != np.float64 or num_sequences > HOST_SEQUENCES:
        return HOME
    try:
        return Placement((jax.local_devices(backend="cpu")[0],))
    except RuntimeError:  # JAX_PLATFORMS excludes it
        return HOME


def find_placement(devices: Sequence[Device] | None = None) -> Placement:
    """The placement on the given devices, checked.

    Args:
      devices: devices, possibly an `AbstractDevice`; by default all local devices of the default backend.

    Raises:
      ValueError: if there are no devices, a device occurs twice, or the devices are of several kinds or
        belong to another process.
    """
    if devices is None:
        devices = local_devices()
    is_iterable = isinstance(devices, Iterable)  # pyright: ignore[reportUnnecessaryIsInstance]
    chosen: tuple[Device, ...] = tuple(devices) if is_iterable else ()
    if not chosen or not all(isinstance(device, jax.Device | AbstractDevice) for device in chosen):
        raise ValueError(f"devices={devices!r}: expected some of jax.local_devices()")
    if len(set(chosen)) < len(chosen) or len({device.platform for device in chosen}) > 1:
        raise ValueError(f"devices={devices!r}: expected different devices of one kind")
    if any(device.process_index != jax.process_index() for device in chosen):
        raise ValueError(
            f"devices={devices!r}: expected some of jax.local_devices(); lanes share nothing, "
            "so every process solves its own blueprints"
        )
    return HOME if chosen == HOME.devices else Placement(chosen)
