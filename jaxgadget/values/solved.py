"""Subgames solved for given ranges of both players: thousands at a time, each with its certificate.

This is what a network of ranges learns from, as in DeepStack (Moravčík et al. 2017). Ranges are lanes: all
subgames below a cut, each with so many pairs of ranges, are one batch. A subgame is solved by itself, so what
it is worth depends on nothing but the ranges at its own roots.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import numpy.typing as npt
from jax.typing import DTypeLike

from jaxgadget.gadgets.ranges import divide, sum_rows
from jaxgadget.gadgets.structure import as_matrix
from jaxgadget.kernels.batch import Batch
from jaxgadget.kernels.certificate import certify_average
from jaxgadget.kernels.payoff import build_payoff
from jaxgadget.kernels.problem import Parts, Problem, Terms, build_bodies
from jaxgadget.kernels.regret import Rule
from jaxgadget.kernels.rows import on_host, pad_rows
from jaxgadget.solving.devices import Device
from jaxgadget.solving.driver import Finished, Report, solve
from jaxgadget.solving.options import SolveOptions, check_iterations, make_options
from jaxgadget.tree.forest import Forest
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.clock import Stopwatch
from jaxgadget.util.compilation import compile_quickly
from jaxgadget.util.digest import digest
from jaxgadget.util.interrupts import telling_what_is_kept
from jaxgadget.util.precision import precision
from jaxgadget.util.progress import progress_bar
from jaxgadget.values.draws import check_ranges
from jaxgadget.values.shards import SHARD, Shards

log = logging.getLogger(__name__)

LEAST_MASS = 1e-6
"""Where two ranges meet with less, of 1, nothing is scaled up any further: their deals hardly exist."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SolvedRanges:
    """Subgames below a cut, solved for both players' ranges; S subgames, R_p roots of player p, L lanes.

    Attributes:
      forest: the subgames.
      ranges: for both players `[R_p, L]`, own reach of its root infostates, as they were given.
      values: for both players `[R_p, L]` what its best response to the other's average earns below a root,
        in its own utility: chance's and the other player's reach included, its own not. With exact averages
        these are the equilibrium's values, and best responses where the range is 0.
      opposing: for both players `[R_p, L]` chance × the other player's range, summed over a root's histories:
        `payoffs` are values divided by it.
      gap: `[S, L]` NashConv of each subgame, `Σ r_0·v_0 + Σ r_1·v_1`, divided by its deals, so in units of
        the payoff; 0 where it has none. Where ranges that add up to 1 meet with less than `LEAST_MASS`, that
        stands for their deals.
      mass: `[S, L]` what the deals add up to: chance × both ranges.
      iterations: `[L]` done.
      seconds: `build` and `run`.
      num_read: of these pairs of a subgame and two ranges, how many were read from a folder.
    """

    forest: Forest
    ranges: tuple[FloatArray, FloatArray]
    values: tuple[FloatArray, FloatArray]
    opposing: tuple[FloatArray, FloatArray]
    gap: FloatArray
    mass: FloatArray
    iterations: npt.NDArray[np.int64]
    seconds: dict[str, float]
    num_read: int = 0

    def __repr__(self) -> str:
        return f"<SolvedRanges of {self.forest!r}: {self.message}>"

    def arrays(self) -> dict[str, Any]:
        """All numbers by field."""
        fields = ("ranges", "values", "opposing", "gap", "mass", "iterations")
        return {name: getattr(self, name) for name in fields}

    @property
    def payoffs(self) -> tuple[FloatArray, FloatArray]:
        """For both players `[R_p, L]` values divided by `opposing`, 0 where that is 0."""
        first, second = (divide(v, m) for v, m in zip(self.values, self.opposing, strict=True))
        return first, second

    @property
    def num_solved(self) -> int:
        """Pairs of a subgame and two ranges."""
        return self.gap.size

    @property
    def subgames_per_second(self) -> float:
        """Solved and certified, compiling and transfers included; NaN if all was read from a folder."""
        fresh = self.num_solved - self.num_read
        return fresh / self.seconds["run"] if fresh and self.seconds.get("run") else math.nan

    @property
    def message(self) -> str:
        """How far the solves got, in a sentence."""
        worst, most = float(self.gap.max(initial=0.0)), int(self.iterations.max(initial=0))
        return f"{self.num_solved} subgames, largest gap {worst:.3g} after at most {most} iterations"


def solve_ranges(
    forest: Forest,
    ranges: tuple[FloatArray, FloatArray],
    *,
    algorithm: str | Rule = "cfr+",
    iterations: int = 1000,
    target_gap: float | None = None,
    check_every: int = 25,
    dtype: DTypeLike = "float32",
    memory_limit: int | None = None,
    devices: Sequence[Device] | None = None,
    folder: str | os.PathLike[str] | None = None,
    shard: int | None = None,
    progress: bool | None = None,
) -> SolvedRanges:
    """Solves all subgames of a forest for pairs of ranges, a lane each.

    Args:
      forest: the subgames, from `build_forest(tree, cut)`.
      ranges: for both players `[R_p, L]`, own reach of its root infostates in the order of `forest.roots`.
        Only ratios within a subgame matter to how it is played; values are of the ranges as they are.
      algorithm: `cfr`, `cfr+`, `linear-cfr`, `dcfr`, `pcfr+`, `sapcfr+`, or a `Rule`.
      iterations: at most that many; one updates both players.
      target_gap: stop when no subgame of a chunk of lanes has a larger `SolvedRanges.gap`.
      check_every: iterations between two looks at the gap.
      dtype: of the solves; certificates are in float64.
      memory_limit: bytes that a solve may take on each device.
      devices: over which lanes are spread.
      folder: keeps what is solved, a Parquet file a shard; shards that lie there are not solved again. The
        numbers are the same to the last bit, however often a solve was cut off.
      shard: lanes that are solved, certified and written together, and lost in an interrupt; by default as
        many as in the folder's shards, else 256.
      progress: a bar, or a line a minute in a log; by default a bar, on a terminal or in a notebook.

    Raises:
      ValueError: for what is no forest; for ranges of another cut, that are negative, not finite, or 0
        everywhere in a lane; for subgames that overlap, keep decisions or end before the game does, for
        numbers out of range, and for a folder that holds anything else, shards of another request or damaged
        ones.
    """
    if shard is not None:
        shard = check_iterations(shard, "shard")
    options = make_options(
        algorithm=algorithm,
        iterations=iterations,
        target_gap=target_gap,
        check_every=check_every,
        dtype=dtype,
        memory_limit=memory_limit,
        devices=devices,
        exact=False,
    )
    ranges = check_ranges(forest, ranges)
    solver = RangeSolver(forest, options)
    store = None if folder is None else Shards(folder, forest, _request(forest, ranges, options, shard))
    size, lanes = (shard or SHARD) if store is None else store.shard, ranges[0].shape[1]
    pairs = [(ranges[0][:, k : k + size], ranges[1][:, k : k + size]) for k in range(0, lanes, size)]
    parts: dict[int, SolvedRanges] = {}
    for number, pair in enumerate(pairs):
        if store is not None and (kept := store.read(number, pair)) is not None:
            parts[number] = SolvedRanges(forest=forest, seconds={}, num_read=kept["gap"].size, **kept)
    if 0 < len(parts) < len(pairs):
        log.info("Going on in %r after %d of %d shards.", os.fspath(folder or ""), len(parts), len(pairs))
    bar = progress_bar("solving ranges", len(pairs) * options.iterations, progress)
    with telling_what_is_kept(lambda: _describe_kept(folder, parts, lanes)), bar as report:
        # The first solve tells what was read, too: from then on the bar reckons the time left.
        for number in [number for number in range(len(pairs)) if number not in parts]:
            before = len(parts) * options.iterations
            solved = solver.solve(pairs[number], lambda done, before=before: report(before + done))
            if store is not None:
                store.write(number, solved.arrays())
            parts[number] = solved
            report(len(parts) * options.iterations)
    return _joined([parts[number] for number in range(len(pairs))], solver.seconds)


def _describe_kept(
    folder: str | os.PathLike[str] | None, parts: Mapping[int, SolvedRanges], lanes: int
) -> str:
    """What an interrupted solve leaves behind."""
    if folder is None:
        return ""
    count = sum(part.gap.shape[1] for part in parts.values())
    return f"{os.fspath(folder)!r} keeps {count} of {lanes} pairs of ranges"


def _request(
    forest: Forest, ranges: tuple[FloatArray, FloatArray], options: SolveOptions, shard: int | None
) -> dict[str, Any]:
    """All that solved shards depend on, for their manifest."""
    return {
        "game": forest.tree.game.name,
        "cut": forest.cut.name,
        "roots": digest(forest.cut.roots),
        "ranges": digest(*ranges),
        "algorithm": repr(options.rule),
        "iterations": options.iterations,
        "target_gap": options.target_gap,
        "check_every": options.check_every,
        "dtype": str(options.dtype),
        "shard": shard,
    }


def _joined(parts: Sequence[SolvedRanges], build: Mapping[str, float]) -> SolvedRanges:
    """Lanes of one forest after each other; building it is counted once."""

    def joined(arrays: Sequence[Any]) -> Any:
        return np.concatenate(arrays, axis=-1)

    def pair(name: str) -> tuple[FloatArray, FloatArray]:
        pairs = [getattr(part, name) for part in parts]
        return joined([first for first, _ in pairs]), joined([second for _, second in pairs])

    run = sum(part.seconds.get("run", 0.0) for part in parts)
    return SolvedRanges(
        forest=parts[0].forest,
        ranges=pair("ranges"),
        values=pair("values"),
        opposing=pair("opposing"),
        gap=joined([part.gap for part in parts]),
        mass=joined([part.mass for part in parts]),
        iterations=joined([part.iterations for part in parts]),
        seconds={**build, "run": run},
        num_read=sum(part.num_read for part in parts),
    )


class RangeSolver:
    """A forest on the device, to be solved for many ranges.

    Attributes:
      forest: the subgames.
      options: how they are solved.
      seconds: `build`.
    """

    def __init__(self, forest: Forest, options: SolveOptions):
        """Puts the subgames on the device.

        Raises:
          ValueError: if subgames overlap, keep some decisions, or end before the game does.
        """
        forest.check_disjoint()
        if len(forest.leaves) or not all(solved.all() for solved in forest.cover.solved):
            raise ValueError(
                f"forest={forest!r} ends before the game does, or keeps some decisions; expected whole "
                "subgames, from build_forest(tree, cut)"
            )
        self.forest, self.options = forest, options
        with (watch := Stopwatch()).phase("build"), precision(np.float64):
            platform = options.placement.platform
            self._sides = build_bodies(forest, np.float64, platform)
            self._payoff = build_payoff(forest.form.payoff, np.float64, rounding=forest.rounding)
            self._chance = as_matrix(forest.chance, 0)
        self.seconds = watch.seconds

    def solve(self, ranges: tuple[FloatArray, FloatArray], report: Report | None = None) -> SolvedRanges:
        """See `solve_ranges`."""
        watch, forest = Stopwatch(), self.forest
        first, second = ranges
        count = forest.num_subgames
        roots = forest.roots[0].subgame, forest.roots[1].subgame
        # Each range adds up to 1 in a subgame, then both to the deals' 1: gaps are in units of the payoff.
        totals = [sum_rows(s, r, count) for s, r in zip(roots, (first, second), strict=True)]
        whole = [divide(r, t[s]) for s, r, t in zip(roots, (first, second), totals, strict=True)]
        rows = self._chance[: len(roots[0]), : len(roots[1])]
        shared = sum_rows(roots[0], whole[0] * (rows @ whole[1]), count)
        even = 1 / np.sqrt(np.maximum(shared, LEAST_MASS))
        scaled = [
            pad_rows(r * even[s], side.body.num_roots, 0)
            for r, s, side in zip(whole, roots, self._sides, strict=True)
        ]
        nothing = [np.zeros((side.entry.num_sequences, 1)) for side in self._sides]

        def terms(lanes: IntArray) -> tuple[Terms, Terms]:
            one, other = (
                Terms(scale=on_host(s[:, lanes]), constant=on_host(np.repeat(n, len(lanes), axis=1)))
                for s, n in zip(scaled, nothing, strict=True)
            )
            return one, other

        batch = Batch(
            name="ranges",
            order=(0, 1),
            sides=self._sides,
            payoff=self._payoff,
            num_lanes=first.shape[1],
            num_games=count,
            terms=terms,
        )

        def finish(ended: Finished) -> _SolvedChunk:
            return _conclude(ended.in_float64(), ended.release())

        with watch.phase("run"):
            solved = solve(batch, self.options, finish, report=report)
        outcome: _SolvedChunk = solved.outcome
        # What a player's roots earn has the other's scale, and is 0 where that never comes.
        earned = [outcome.values[p][: len(roots[p])] * (totals[1 - p] / even)[roots[p]] for p in (0, 1)]
        mass = shared * totals[0] * totals[1]
        return SolvedRanges(
            forest=forest,
            ranges=(first, second),
            values=(earned[0], earned[1]),
            opposing=(rows @ second, rows.T @ first),
            gap=np.where(shared > 0, np.maximum(outcome.gap[:count], 0), 0.0),
            mass=mass,
            iterations=solved.iterations,
            seconds=watch.seconds,
        )


class _SolvedChunk(NamedTuple):
    """Of a chunk of lanes: values of both players' roots `[R_p, lanes]`, and gaps `[S, lanes]`."""

    values: Any
    gap: Any


@compile_quickly
def _conclude(problem: Problem, strategy_sum: tuple[Parts, Parts]) -> _SolvedChunk:
    exact = jax.tree.map(lambda x: x.astype(problem.dtype), strategy_sum)
    certificate = certify_average(problem, exact, (None, None))
    return _SolvedChunk((-certificate.below[1], -certificate.below[0]), certificate.gap)
