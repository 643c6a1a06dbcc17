"""Batches of spots and their checkpoints: one archive per batch, in which results are looked up by key."""

from __future__ import annotations

import abc
import dataclasses
import functools
import hashlib
import math
import pathlib
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from jaxgadget.core.devices import Device
from jaxgadget.core.driver import Stopped, run_on_devices
from jaxgadget.core.solver import Solver
from jaxgadget.holdem.spots import Spot
from jaxgadget.util.files import make_folder
from jaxgadget.util.locks import hold
from jaxgadget.util.progress import progress_bar
from jaxgadget.util.store import Format, read_archive, read_header, write_archive

SPOTS = Format(
    name="jaxgadget spots",
    version=1,
    noun="checkpoint",
    remedy="delete this file to solve its spots again",
)

REFINED_SPOTS = dataclasses.replace(SPOTS, name="jaxgadget refined spots")

PREFIXES = {SPOTS.name: "spots", REFINED_SPOTS.name: "refined"}
"""Prefixes of the archives' names, by format."""

RESULTS = Format(
    name="jaxgadget hold'em result",
    version=1,
    noun="file of results",
    remedy="remove that line to solve its spot again",
    releases={0: "jaxgadget 0.4 or an earlier release, whose rows have no checksum"},
)
"""Format of each row of `jaxgadget holdem --results`."""

Result = TypeVar("Result")


class BatchReport:
    """Progress of a batch: called with completed iterations, and with gaps by `check`.

    Attributes:
      expected: number of iterations after which the batch will have stopped, extrapolated from its gaps.
      note: description of the last gap; empty before the first.
    """

    def __init__(self, tell: Callable[[int], None], iterations: int, target: float | None) -> None:
        """Stores the settings.

        Args:
          tell: called with the number of completed iterations.
          iterations: largest number of iterations.
          target: the target gap in pots; None for none.
        """
        self._tell, self._iterations, self._target = tell, iterations, target
        self._gaps: list[tuple[int, float]] = []
        self._gap = math.nan
        self.expected, self.note = iterations, ""

    def __call__(self, now: int) -> None:
        """Reports the number of completed iterations."""
        if not math.isnan(self._gap) and now > 0:
            self._gaps.append((now, self._gap))
            self.note = f"exploitability {self._gap / 2:.2%} of the pot"
            self.expected = self._extrapolate()
        self._tell(now)

    def check(self, gap: float) -> None:
        """Records the gap at the iteration that is reported next, in pots."""
        self._gap = gap

    def _extrapolate(self) -> int:
        """Iterations until the target gap, if gaps fall as a power of the iterations, as in the last half."""
        last, gap = self._gaps[-1]
        if not self._target:
            return self._iterations
        if gap <= self._target:
            return last
        half, before = next((each for each in reversed(self._gaps) if each[0] <= last / 2), self._gaps[0])
        if half >= last or before <= gap:
            return self._iterations
        power = math.log(before / gap) / math.log(last / half)
        left = min(math.log(gap / self._target) / power, math.log(self._iterations / last))
        return min(round(last * math.exp(left)), self._iterations)


class SpotBatches(abc.ABC, Generic[Result]):
    """Spots to be solved in batches, with one solve for each batch.

    Args:
      spots: the spots.
      solver: settings of the solve; `checkpoint` is a folder, `target_gap` is in chips or a share of the
        pot.
    """

    label: str
    """Title of the progress bar."""

    format: Format
    """Format of the archives."""

    def __init__(self, spots: Sequence[Spot], solver: Solver) -> None:
        if not isinstance(spots, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"spots={spots!r}: expected a list of spots, such as [spot]")
        for spot_idx, spot in enumerate(spots):
            if not isinstance(spot, Spot):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ValueError(f"spots[{spot_idx}]={spot!r}: expected a Spot")
        self.spots, self.solver = spots, solver

    @abc.abstractmethod
    def describe(self, spot_idx: int) -> str:
        """Description of all inputs of a spot's result, except its name and the solver's settings."""

    @abc.abstractmethod
    def split(self, numbers: Sequence[int]) -> list[list[int]]:
        """Splits spots, given by index, into batches with equal `target_in_pots` that fit in memory."""

    @abc.abstractmethod
    def solve(self, numbers: Sequence[int], solver: Solver, report: BatchReport) -> list[Result]:
        """Solves a batch; the solver's target gap is in pots."""

    @abc.abstractmethod
    def pack(self, result: Result) -> dict[str, Any]:
        """The arrays of a result that an archive stores."""

    @abc.abstractmethod
    def unpack(self, spot_idx: int, arrays: Mapping[str, Any]) -> Result:
        """Restores the result of a spot from its arrays."""

    def run(self) -> Iterator[dict[int, Result]]:
        """Yields results by the indices of their spots: first the checkpoint's, then batch by batch.

        Each device solves a batch at a time, while the host prepares an accelerator's next one. No batch is
        retained once it is yielded and the next one is requested, as a turn's solution may take 100 MB.
        """
        solver, folder = self.solver, self.solver.checkpoint_path
        left, keys = list(range(len(self.spots))), [""] * len(self.spots)
        if folder is not None:
            make_folder(folder)
            keys = [self._key(spot_idx) for spot_idx in left]
            for stored in self._stored(folder, keys):
                left = [spot_idx for spot_idx in left if spot_idx not in stored]
                yield stored
                del stored
        batches, iterations = self.split(left), solver.num_iterations
        done, stop = [0] * len(batches), threading.Event()
        expected, notes = [iterations] * len(batches), [""] * len(batches)

        def solve(batch_idx: int, device: Device) -> tuple[int, dict[int, Result]]:
            def tell(now: int) -> None:
                if stop.is_set():
                    raise Stopped
                done[batch_idx], expected[batch_idx] = now, batch_report.expected
                notes[batch_idx] = batch_report.note if len(batches) == 1 else ""
                report(sum(done), sum(expected), notes[batch_idx])

            numbers = batches[batch_idx]
            target = self.target_in_pots(numbers[0])
            batch_report = BatchReport(tell, iterations, target)
            settings = dataclasses.replace(solver, target_gap=target, devices=[device])
            if folder is not None:
                wanted = {spot_idx: keys[spot_idx] for spot_idx in numbers}
                return batch_idx, self._solve_in(folder, wanted, settings, batch_report)
            return batch_idx, dict(zip(numbers, self.solve(numbers, settings, batch_report), strict=True))

        tasks = [functools.partial(solve, batch_idx) for batch_idx in range(len(batches))]
        with progress_bar(self.label, sum(expected), solver.progress) as report:
            for batch_idx, batch in run_on_devices(tasks, self._turns(len(tasks)), stop):
                expected[batch_idx] = done[batch_idx]  # a batch may reach its target gap early
                report(sum(done), sum(expected), notes[batch_idx])
                yield batch
                del batch

    def _turns(self, num_batches: int) -> Sequence[Device]:
        """The devices; accelerators twice, so that a batch is prepared while another one is solved."""
        placement = self.solver.placement
        if placement.on_cpu or placement.is_abstract or num_batches <= len(placement.devices):
            return placement.devices
        return 2 * placement.devices

    def _solve_in(
        self, folder: pathlib.Path, keys: Mapping[int, str], settings: Solver, report: BatchReport
    ) -> dict[int, Result]:
        """Solves a batch of spots, given with their keys, and writes its archive."""
        archive = folder / f"{self._name(keys.values())}.npz"
        states = archive.with_suffix(".states")
        with hold(archive.with_suffix(""), "checkpoint"):
            batch = self._read(archive, keys)
            if not batch:  # otherwise another process has solved it in the meantime
                make_folder(states)
                settings = dataclasses.replace(settings, checkpoint=states)
                batch = dict(zip(keys, self.solve(list(keys), settings, report), strict=True))
                self._write(archive, {keys[spot_idx]: result for spot_idx, result in batch.items()})
                shutil.rmtree(states, ignore_errors=True)  # another process may do the same
        return batch

    def target_in_pots(self, spot_idx: int) -> float | None:
        """The target gap of a spot as a share of its pot; None without a target."""
        if (share := self.solver.pot_share) is not None:
            return share
        chips = self.solver.max_gap
        return None if chips is None else chips / self.spots[spot_idx].pot

    def _key(self, spot_idx: int) -> str:
        solver = self.solver
        settings = f"{solver.rule!r} {solver.num_iterations} {solver.target_gap}"
        settings += f" {solver.check_interval} {solver.precision}{self.describe(spot_idx)}"
        return hashlib.sha256(f"{self.spots[spot_idx].name} {settings}".encode()).hexdigest()

    def _name(self, keys: Iterable[str]) -> str:
        """Name of the files of a batch."""
        digest = hashlib.sha256(" ".join(keys).encode()).hexdigest()[:16]
        return f"{PREFIXES[self.format.name]}-{digest}"

    def _write(self, path: pathlib.Path, results: Mapping[str, Result]) -> None:
        """Writes the results of a batch, whose trees have the same shape, by the keys of their spots."""
        packed = [self.pack(result) for result in results.values()]
        arrays = {name: _stacked([np.asarray(each[name]) for each in packed]) for name in packed[0]}
        write_archive(path, self.format, {"keys": list(results)}, arrays)

    def _stored(self, folder: pathlib.Path, keys: Sequence[str]) -> Iterator[dict[int, Result]]:
        """Yields the results of a checkpoint, one archive at a time."""
        wanted = set(keys)
        for path, archived in find_spots(folder, self.format).items():
            # States of a process that was killed after it wrote the archive and before it removed them.
            shutil.rmtree(path.with_suffix(".states"), ignore_errors=True)
            if not wanted.isdisjoint(archived):
                yield self._read(path, {spot_idx: key for spot_idx, key in enumerate(keys) if key in wanted})
                wanted.difference_update(archived)

    def _read(self, path: pathlib.Path, keys: Mapping[int, str]) -> dict[int, Result]:
        """Results of an archive, by spot, for the given keys that it contains."""
        archive = read_archive(path, self.format)
        if archive is None:
            return {}
        lanes = {key: lane for lane, key in enumerate(archive.header["keys"])}
        return {
            spot_idx: self.unpack(spot_idx, {name: rows[lanes[key]] for name, rows in archive.arrays.items()})
            for spot_idx, key in keys.items()
            if key in lanes
        }


def _stacked(arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Stacks arrays whose last axes, over hands, may differ; shorter ones are padded with -1."""
    most = max((array.shape[-1] for array in arrays if array.ndim), default=0)
    padded = [
        np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, most - array.shape[-1])], constant_values=-1)
        if array.ndim
        else array
        for array in arrays
    ]
    return np.stack(padded)


def find_spots(folder: pathlib.Path, format: Format) -> dict[pathlib.Path, list[str]]:
    """Lists the archives of a folder, with the keys of the spots in each; their arrays are not read.

    Raises:
      ValueError: if an archive is damaged or has another format.
    """
    archives: dict[pathlib.Path, list[str]] = {}
    for path in sorted(folder.glob(f"{PREFIXES[format.name]}-*.npz")):
        keys: Any = (read_header(path, format) or {}).get("keys")
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            raise format.damaged(path, ValueError(f"keys={keys!r}: expected a list of strings"))
        archives[path] = keys
    return archives
