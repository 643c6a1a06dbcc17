"""How something is solved: what is asked of the driver, checked once."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.typing import DTypeLike

from jaxgadget.kernels.regret import Rule, find_rule
from jaxgadget.solving.devices import HOME, Device, Placement, find_placement
from jaxgadget.util.arguments import is_finite_number

LP = "lp"
"""The algorithm that is none of CFR's: exact linear programs."""

MOST_ITERATIONS = 2**31 - 1
"""What the device's counter holds."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SolveOptions:
    """How a batch of games is solved; `make_options` makes them of what a user says.

    Attributes:
      rule: the regret-matching rule; None for linear programs.
      iterations: at most that many; an iteration updates both players.
      target_gap: stop when no game of a chunk has a larger gap.
      check_every: iterations between two looks at the gap.
      dtype: of the solve, float32 or float64; certificates are always in float64.
      checkpoint: a file, or a folder where lanes may be split, to resume from and to save to.
      time_limit: of a linear program, in seconds.
      memory_limit: bytes that may be taken on each device; by default what there is.
      placement: the devices.
      chunk: lanes to solve at once, whatever the memory and cores; by default what suits them.
    """

    rule: Rule | None
    iterations: int = 1000
    target_gap: float | None = None
    check_every: int = 100
    dtype: np.dtype[Any]
    checkpoint: pathlib.Path | None = None
    time_limit: float | None = None
    memory_limit: int | None = None
    placement: Placement = HOME
    chunk: int | None = None

    @property
    def algorithm(self) -> str:
        """The rule's name, or `lp`."""
        return LP if self.rule is None else self.rule.name


def make_options(
    *,
    algorithm: str | Rule,
    iterations: int,
    target_gap: float | None = None,
    check_every: int = 100,
    dtype: DTypeLike = "float32",
    checkpoint: str | os.PathLike[str] | None = None,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    devices: Sequence[Device] | None = None,
    exact: bool = True,
) -> SolveOptions:
    """Checks what does not depend on the game.

    Args:
      algorithm: a name, or a rule.
      iterations: see `SolveOptions`; this and what follows.
      target_gap: none with linear programs.
      check_every: iterations between two looks at the gap.
      dtype: `float32` or `float64`.
      checkpoint: none with linear programs.
      time_limit: in seconds.
      memory_limit: in bytes.
      devices: by default all local ones.
      exact: whether `lp` is possible.

    Raises:
      ValueError: if one is out of range, naming it.
    """
    check_iterations(iterations)
    check_iterations(check_every, "check_every")
    if target_gap is not None and not (is_finite_number(target_gap) and target_gap >= 0):
        raise ValueError(f"target_gap={target_gap!r}: expected a number >= 0, in units of the payoff")
    rule = None
    if algorithm != LP or not exact:
        rule = find_rule(algorithm, besides=(LP,) if exact else ())
    else:
        for name, value in (("target_gap", target_gap), ("checkpoint", checkpoint)):
            if value is not None:
                raise ValueError(
                    f"{name}={value!r} with algorithm='lp': linear programs have none; leave it out"
                )
    return SolveOptions(
        rule=rule,
        iterations=iterations,
        target_gap=target_gap,
        check_every=check_every,
        dtype=check_dtype(dtype),
        checkpoint=None if checkpoint is None else pathlib.Path(checkpoint),
        time_limit=check_time(time_limit),
        memory_limit=check_memory(memory_limit),
        placement=find_placement(devices),
    )


def check_dtype(dtype: object) -> np.dtype[Any]:
    """float32 or float64; ValueError otherwise."""
    for name in ("float32", "float64"):
        if dtype == name or dtype is getattr(np, name) or dtype == np.dtype(name):
            return np.dtype(name)
    raise ValueError(f"dtype={dtype!r}: expected 'float32' or 'float64'")


def check_iterations(iterations: object, name: str = "iterations") -> int:
    """A whole number from 1 to what the device counts to; ValueError otherwise."""
    count = int(iterations) if isinstance(iterations, int | np.integer) else 0
    if isinstance(iterations, bool):
        count = 0
    if not 1 <= count <= MOST_ITERATIONS:
        raise ValueError(f"{name}={iterations!r}: expected a whole number >= 1, at most {MOST_ITERATIONS}")
    return count


def check_time(time_limit: object) -> float | None:
    """None or a positive number of seconds; ValueError otherwise."""
    if time_limit is None:
        return None
    if not is_finite_number(time_limit) or not time_limit > 0:
        raise ValueError(f"time_limit={time_limit!r}: expected a positive number of seconds, or None")
    return float(time_limit)


def check_memory(memory_limit: object) -> int | None:
    """None or a positive whole number of bytes; ValueError otherwise."""
    if memory_limit is None:
        return None
    count = int(memory_limit) if isinstance(memory_limit, int | np.integer) else 0
    if isinstance(memory_limit, bool) or count <= 0:
        raise ValueError(f"memory_limit={memory_limit!r}: expected a positive whole number of bytes")
    return count
