"""Solver settings: one dataclass, checked on construction. Imports no JAX."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxgadget.core.registry import RULES
from jaxgadget.util.arguments import is_finite_number, read_number

if TYPE_CHECKING:
    from jax.typing import DTypeLike

    from jaxgadget.core.devices import Device, Placement
    from jaxgadget.core.regret import Rule

LP = "lp"
"""Name of the algorithm that solves exact linear programs instead of running CFR."""

MAX_ITERATIONS = 2**31 - 1
"""Maximum number of iterations, the largest value of the device's counter."""

DEFAULT_ALGORITHM = "cfr+"
"""Default algorithm."""

DEFAULT_ITERATIONS = 1000
"""Default number of iterations of CFR."""

DEFAULT_CHECK_EVERY = 100
"""Default number of iterations between two checks of the gap."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Solver:
    """Settings of a solve, by counterfactual regret minimisation or by linear programs.

    An omitted setting has the default of the called function, which its documentation states. The fields'
    metadata are used by the command line, `jaxgadget.cli.fields`.

    Attributes:
      algorithm: regret-matching rule `cfr`, `cfr+`, `linear-cfr`, `dcfr`, `pcfr+` or `sapcfr+`, or a `Rule`;
        `lp` for exact linear programs, which ignore `iterations` and cannot be combined with `target_gap` or
        `checkpoint`. By default usually `cfr+`.
      iterations: largest number of iterations, each of which updates both players; by default usually 1000.
      target_gap: gap at which a lane stops, in units of the payoff: at the first check at which no subgame of
        the lane has a larger gap. For hold'em spots also as a share of the pot, such as `1%`.
      check_every: number of iterations between two checks of the gap; by default usually 100.
      dtype: precision of the solve, `float32` or `float64`; certificates are always in float64. By default
        float32 for batches of subgames and float64 for whole games.
      time_limit: seconds for each linear program; by default none.
      memory_limit: maximum number of bytes of a solve on each device; by default most of a GPU's free memory
        and half of a CPU's.
      devices: devices over which lanes are split; by default all of `jax.local_devices()`.
      checkpoint: file or folder from which to resume, and in which to save about every 20 seconds.
      progress: show a progress bar, or a line a minute in a log; by default a bar on a terminal or in a
        notebook.
      chunk: number of lanes solved together; by default planned by memory and cores. Internal.
      padded: round the sizes of subgames up, so that forests of similar shape share a program. Internal.

    Raises:
      ValueError: if a setting is out of range or cannot be combined with linear programs.
    """

    algorithm: str | Rule | None = dataclasses.field(
        default=None,
        metadata={
            "type": str,
            "choices": (*RULES, LP),
            "help": "Regret-matching rule, or `lp` for exact linear programs.",
        },
    )
    iterations: int | None = dataclasses.field(
        default=None,
        metadata={"help": "Largest number of iterations, each of which updates both players."},
    )
    target_gap: float | str | None = dataclasses.field(
        default=None,
        metadata={
            "type": float,
            "metavar": "GAP",
            "help": "Stop when no subgame has a larger gap, in units of the payoff.",
        },
    )
    check_every: int | None = dataclasses.field(default=None, metadata={"option": False})
    dtype: DTypeLike | None = dataclasses.field(
        default=None, metadata={"type": str, "choices": ("float32", "float64")}
    )
    time_limit: float | None = dataclasses.field(default=None, metadata={"metavar": "SECONDS"})
    memory_limit: int | None = dataclasses.field(default=None, metadata={"metavar": "BYTES"})
    devices: Sequence[Device] | None = dataclasses.field(default=None, metadata={"option": False})
    checkpoint: str | os.PathLike[str] | None = dataclasses.field(
        default=None, metadata={"type": pathlib.Path, "metavar": "PATH"}
    )
    progress: bool | None = dataclasses.field(default=None, metadata={"option": False})
    chunk: int | None = dataclasses.field(
        default=None, repr=False, metadata={"internal": True, "option": False}
    )
    padded: bool = dataclasses.field(default=True, repr=False, metadata={"internal": True, "option": False})

    def __post_init__(self) -> None:
        if self.iterations is not None:
            check_iterations(self.iterations)
        if self.check_every is not None:
            check_iterations(self.check_every, "check_every")
        if not isinstance(self.target_gap, str):
            _check_gap(self.target_gap)
        elif self.pot_share is None:
            raise ValueError(f"target_gap={self.target_gap!r}: expected a number, or a share such as '1%'")
        file = self.checkpoint
        is_path = isinstance(file, str | os.PathLike)  # pyright: ignore[reportUnnecessaryIsInstance]
        if file is not None and not (is_path and os.fspath(file)):
            raise ValueError(f"checkpoint={file!r}: expected the path of a file or folder")
        if self.rule is None:
            checkpoint = None if self.checkpoint is None else os.fspath(self.checkpoint)
            for name, value in (("target_gap", self.target_gap), ("checkpoint", checkpoint)):
                if value is not None:
                    raise ValueError(f"{name}={value!r} cannot be combined with algorithm='lp'; leave it out")
        object.__setattr__(self, "dtype", None if self.dtype is None else check_dtype(self.dtype).name)
        object.__setattr__(self, "time_limit", check_time(self.time_limit))
        object.__setattr__(self, "memory_limit", check_memory(self.memory_limit))
        if self.devices is not None:
            object.__setattr__(self, "devices", self.placement.devices)

    @property
    def rule(self) -> Rule | None:
        """The regret-matching rule; None for linear programs."""
        from jaxgadget.core.regret import find_rule

        if self.algorithm == LP:
            return None
        return find_rule(DEFAULT_ALGORITHM if self.algorithm is None else self.algorithm, besides=(LP,))

    @property
    def name(self) -> str:
        """The rule's name, or `lp`."""
        return LP if self.rule is None else self.rule.name

    @property
    def num_iterations(self) -> int:
        """Largest number of iterations; the default if it is omitted."""
        return DEFAULT_ITERATIONS if self.iterations is None else int(self.iterations)

    @property
    def check_interval(self) -> int:
        """Number of iterations between two checks of the gap; the default if it is omitted."""
        return DEFAULT_CHECK_EVERY if self.check_every is None else int(self.check_every)

    @property
    def max_gap(self) -> float | None:
        """Gap at which to stop, in units of the payoff; raises ValueError for a share of the pot."""
        return _check_gap(self.target_gap)

    @property
    def pot_share(self) -> float | None:
        """The target gap as a fraction of a spot's pot; None unless it is given as a percentage."""
        text = self.target_gap
        percent = read_number(text[:-1]) if isinstance(text, str) and text.endswith("%") else None
        return None if percent is None or percent < 0 else percent / 100

    @property
    def precision(self) -> np.dtype[Any]:
        """Floating-point type of the solve; float32 if it is omitted."""
        return np.dtype("float32" if self.dtype is None else self.dtype)

    @property
    def checkpoint_path(self) -> pathlib.Path | None:
        """Path of the checkpoint's file or folder; None without a checkpoint."""
        return None if self.checkpoint is None else pathlib.Path(self.checkpoint)

    @property
    def placement(self) -> Placement:
        """The placement on the devices; on all local ones if they are omitted."""
        from jaxgadget.core.devices import find_placement

        return find_placement(self.devices)

    def iterative_rule(self) -> Rule:
        """The regret-matching rule; raises ValueError for linear programs."""
        from jaxgadget.core.regret import find_rule

        return find_rule(LP) if (rule := self.rule) is None else rule

    def iterative(self) -> Solver:
        """These settings, for a function without linear programs; raises ValueError for `lp`."""
        self.iterative_rule()
        return self

    def only(self, *names: str) -> Solver:
        """A solver with only the named settings; the others are omitted."""
        return Solver(**{name: getattr(self, name) for name in names})

    def with_defaults(self, default: Solver) -> Solver:
        """These settings, with omitted ones taken from `default`."""
        missing = [name for name in SETTINGS if getattr(self, name) is None]
        return dataclasses.replace(self, **{name: getattr(default, name) for name in missing})


SETTINGS = tuple(field.name for field in dataclasses.fields(Solver) if not field.metadata.get("internal"))
"""Names of the public settings."""


def choose_solver(
    solver: Solver | None,
    default: Solver,
    *,
    iterations: int | None = None,
    algorithm: str | Rule | None = None,
    without: Sequence[str] = (),
    pots: bool = False,
) -> Solver:
    """The settings of a call: the user's solver and keywords, otherwise the function's defaults.

    Args:
      solver: the user's solver; None if it is omitted.
      default: the function's defaults.
      iterations: the function's keyword for `solver.iterations`.
      algorithm: the function's keyword for `solver.algorithm`.
      without: names of settings that the function cannot use.
      pots: True if the target gap may be a share of a pot.

    Raises:
      ValueError: if a setting is given both in `solver` and as a keyword, or the function cannot use a
        setting.
    """
    chosen = Solver() if solver is None else solver
    if not isinstance(chosen, Solver):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"solver={solver!r}: expected a Solver, such as Solver(iterations=5000)")
    given = {"iterations": iterations, "algorithm": algorithm}
    for name, value in given.items():
        if value is not None and (other := getattr(chosen, name)) is not None:
            raise ValueError(
                f"{name}={value!r} cannot be combined with {name}={other!r} of the solver; expected one of "
                "them"
            )
    for name in without:
        if (value := getattr(chosen, name)) is not None:
            raise ValueError(f"{name}={value!r} of the solver has no effect here; leave it out")
    new = {name: value for name, value in given.items() if value is not None}
    chosen = dataclasses.replace(chosen, **new).with_defaults(default)
    if not pots:
        _check_gap(chosen.target_gap)
    return chosen


def _check_gap(gap: object) -> float | None:
    """Returns None or a number >= 0; raises ValueError for other values."""
    if gap is not None and not (is_finite_number(gap) and gap >= 0):
        raise ValueError(f"target_gap={gap!r}: expected a number >= 0, in units of the payoff")
    return None if gap is None else float(gap)


def check_dtype(dtype: object) -> np.dtype[Any]:
    """Returns float32 or float64; raises ValueError for other types."""
    for name in ("float32", "float64"):
        if dtype == name or dtype is getattr(np, name) or dtype == np.dtype(name):
            return np.dtype(name)
    raise ValueError(f"dtype={dtype!r}: expected 'float32' or 'float64'")


def check_iterations(iterations: object, name: str = "iterations") -> int:
    """Returns a whole number from 1 to `MAX_ITERATIONS`; raises ValueError for other values."""
    count = int(iterations) if isinstance(iterations, int | np.integer) else 0
    if isinstance(iterations, bool):
        count = 0
    if not 1 <= count <= MAX_ITERATIONS:
        raise ValueError(f"{name}={iterations!r}: expected a whole number >= 1, at most {MAX_ITERATIONS}")
    return count


def check_time(time_limit: object) -> float | None:
    """Returns None or a positive number of seconds; raises ValueError for other values."""
    if time_limit is None:
        return None
    if not is_finite_number(time_limit) or not time_limit > 0:
        raise ValueError(f"time_limit={time_limit!r}: expected a positive number of seconds, or None")
    return float(time_limit)


def check_memory(memory_limit: object) -> int | None:
    """Returns None or a positive whole number of bytes; raises ValueError for other values."""
    if memory_limit is None:
        return None
    count = int(memory_limit) if isinstance(memory_limit, int | np.integer) else 0
    if isinstance(memory_limit, bool) or count <= 0:
        raise ValueError(f"memory_limit={memory_limit!r}: expected a positive whole number of bytes")
    return count
