"""Subgames solved for given ranges of both players, in large batches, each with a certificate.

Training data of range networks, as in DeepStack (Moravčík et al. 2017). Pairs of ranges are lanes: all
subgames below a cut are one batch. Subgames are solved independently, so their values depend only on the
ranges at their own roots.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxgadget.core.batch import Batch
from jaxgadget.core.driver import Report
from jaxgadget.core.payoff import build_payoff, multiply
from jaxgadget.core.problem import Terms
from jaxgadget.core.regret import Rule
from jaxgadget.core.results import NO_FAILURES, LaneResult
from jaxgadget.core.rows import on_host, pad_rows
from jaxgadget.core.solution import solve_batch
from jaxgadget.core.solver import Solver, check_iterations, choose_solver
from jaxgadget.gadgets.ranges import divide, sum_rows
from jaxgadget.gadgets.structure import build_bodies
from jaxgadget.tree.forest import Forest
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.clock import Stopwatch
from jaxgadget.util.digest import digest
from jaxgadget.util.files import make_folder
from jaxgadget.util.interrupts import telling_what_is_kept
from jaxgadget.util.locks import hold
from jaxgadget.util.precision import precision
from jaxgadget.util.progress import progress_bar
from jaxgadget.values.draws import RangePair, check_ranges
from jaxgadget.values.shards import SHARD, Shards

log = logging.getLogger(__name__)

MIN_MASS = 1e-6
"""Minimum mass of deals by which ranges are normalised; deals with less mass are practically impossible."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SolvedRanges(LaneResult):
    """Subgames below a cut, solved for both players' ranges; S subgames, R_p roots of player p, L lanes.

    Attributes:
      forest: the subgames.
      ranges: for each player `[R_p, L]`, its reach of its root infostates, as passed.
      values: for each player `[R_p, L]`, counterfactual value of its best response to the other player's
        average below each of its roots, in its own utility: weighted by chance's and the other player's
        reach, not by its own. With exact averages these are equilibrium values, and best-response values
        where the range is 0.
      opposing: for each player `[R_p, L]`, chance's reach × the other player's range, summed over a root's
        histories: `payoffs` are values divided by `opposing`.
      gap: `[S, L]` NashConv of each subgame, `Σ r_0·v_0 + Σ r_1·v_1`, divided by `mass` and therefore in
        units of the payoff; 0 where the mass is 0. For ranges that sum to 1 the divisor is at least
        `MIN_MASS`.
      mass: `[S, L]` total reach of the deals: chance × both ranges.
      iterations: `[L]` number of iterations.
      seconds: `build` and `run`.
      num_read: number of subgames × lanes read from a folder.
    """

    failures = NO_FAILURES

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
        """All arrays by field name."""
        return {
            "ranges": self.ranges,
            "values": self.values,
            "opposing": self.opposing,
            "gap": self.gap,
            "mass": self.mass,
            "iterations": self.iterations,
        }

    @property
    def payoffs(self) -> tuple[FloatArray, FloatArray]:
        """For each player `[R_p, L]` values divided by `opposing`, 0 where `opposing` is 0."""
        first, second = (divide(v, m) for v, m in zip(self.values, self.opposing, strict=True))
        return first, second

    @property
    def num_solved(self) -> int:
        """Number of solved subgames: subgames × lanes."""
        return self.gap.size

    @property
    def subgames_per_second(self) -> float:
        """Throughput with compilation, transfers and certificates; NaN if all were read from a folder."""
        fresh = self.num_solved - self.num_read
        return fresh / self.seconds["run"] if fresh and self.seconds.get("run") else math.nan

    @property
    def lane_columns(self) -> dict[str, Any]:
        """Index of the pair of ranges."""
        return {"ranges": np.arange(self.gap.shape[1])}

    @property
    def number_columns(self) -> dict[str, Any]:
        """Mass of the deals and the largest gap over the subgames, and iterations, of each lane."""
        return {
            "mass": self.mass.sum(axis=0),
            "gap_max": self.gap.max(axis=0, initial=0.0),
            "iterations": self.iterations,
        }

    @property
    def message(self) -> str:
        """One-sentence summary of the solves' convergence."""
        worst, most = float(self.gap.max(initial=0.0)), int(self.iterations.max(initial=0))
        return f"{self.num_solved} subgames, largest gap {worst:.3g} after at most {most} iterations"


def solve_ranges(
    forest: Forest,
    ranges: tuple[FloatArray, FloatArray],
    *,
    shard: int | None = None,
    solver: Solver | None = None,
    iterations: int | None = None,
    algorithm: str | Rule | None = None,
) -> SolvedRanges:
    """Solves all subgames of a forest for pairs of ranges, one per lane.

    Args:
      forest: the subgames, from `build_forest(tree, cut)`.
      ranges: for each player `[R_p, L]`, its reach of its root infostates in the order of `forest.roots`.
        Strategies depend only on ratios within a subgame; values refer to the ranges as given.
      shard: number of lanes that are solved, certified and written together, and lost by an interrupt; by
        default that of the folder's shards, or 256 in a new folder.
      solver: settings; by default 1000 iterations of CFR+ in float32, with a check of the gap every 25. Takes
        no `time_limit`. Its `checkpoint` is a folder that receives an archive (`.npz`) for each shard;
        existing shards are not solved again, and results are bitwise the same after any interruption.
      iterations: short for `Solver(iterations=…)`.
      algorithm: short for `Solver(algorithm=…)`.

    Raises:
      ValueError: if `forest` is not a forest; for ranges of another cut, that are negative, not finite, or 0
        everywhere in a lane; for subgames that overlap, retain decisions or end before the game does, for
        arguments out of range, and for a folder with other files, damaged shards, or shards of another
        request.
    """
    if shard is not None:
        shard = check_iterations(shard, "shard")
    default = Solver(iterations=1000, check_every=25)
    solver = choose_solver(
        solver,
        default,
        iterations=iterations,
        algorithm=algorithm,
        without=("time_limit",),
    ).iterative()
    folder, solver = solver.checkpoint_path, dataclasses.replace(solver, checkpoint=None)
    ranges = check_ranges(forest, ranges)
    range_solver = RangeSolver(forest, solver)
    with contextlib.ExitStack() as stack:
        store = None
        if folder is not None:
            make_folder(folder)
            stack.enter_context(hold(folder, "folder"))
            store = Shards(folder, _request(forest, ranges, solver, shard))
        parts = _solve_shards(range_solver, ranges, store, (shard or SHARD) if store is None else store.shard)
    return _joined(parts, range_solver.seconds)


def _solve_shards(
    range_solver: RangeSolver, ranges: tuple[FloatArray, FloatArray], store: Shards | None, size: int
) -> list[SolvedRanges]:
    """Reads or solves the shards of the given sizes, in order; the lock of their folder is held."""
    solver, lanes = range_solver.solver, ranges[0].shape[1]
    pairs = [(ranges[0][:, k : k + size], ranges[1][:, k : k + size]) for k in range(0, lanes, size)]
    parts: dict[int, SolvedRanges] = {}
    for shard_idx, pair in enumerate(pairs):
        if store is not None and (stored := store.read(shard_idx, pair)) is not None:
            num_read = stored["gap"].size
            parts[shard_idx] = SolvedRanges(
                forest=range_solver.forest, seconds={}, num_read=num_read, **stored
            )
    if store is not None and 0 < len(parts) < len(pairs):
        log.info("Resuming %r after %d of %d shards.", str(store.folder), len(parts), len(pairs))
    bar = progress_bar("solving ranges", len(pairs) * solver.num_iterations, solver.progress)
    with telling_what_is_kept(lambda: _describe_kept(store, parts, lanes)), bar as report:
        # The first report counts the shards that were read; the remaining time is estimated from there.
        for shard_idx in [idx for idx in range(len(pairs)) if idx not in parts]:
            before = len(parts) * solver.num_iterations
            solved = range_solver.solve(pairs[shard_idx], lambda done, before=before: report(before + done))
            if store is not None:
                store.write(shard_idx, solved.arrays())
            parts[shard_idx] = solved
            report(len(parts) * solver.num_iterations)
    return [parts[shard_idx] for shard_idx in range(len(pairs))]


def _describe_kept(store: Shards | None, parts: Mapping[int, SolvedRanges], lanes: int) -> str:
    """Describes the results that an interrupted solve has stored."""
    if store is None:
        return ""
    count = sum(part.gap.shape[1] for part in parts.values())
    return f"{str(store.folder)!r} keeps {count} of {lanes} pairs of ranges"


def _request(
    forest: Forest, ranges: tuple[FloatArray, FloatArray], solver: Solver, shard: int | None
) -> dict[str, Any]:
    """Everything that determines solved shards, for their manifest."""
    return {
        "game": forest.tree.game.name,
        "cut": forest.cut.name,
        "roots": digest(forest.cut.roots),
        "ranges": digest(*ranges),
        "algorithm": repr(solver.rule),
        "iterations": solver.num_iterations,
        "target_gap": solver.target_gap,
        "check_every": solver.check_interval,
        "dtype": str(solver.precision),
        "shard": shard,
    }


def _joined(parts: Sequence[SolvedRanges], build: Mapping[str, float]) -> SolvedRanges:
    """Concatenates lanes of one forest; its build time is counted once."""

    def join(pairs: Sequence[RangePair]) -> RangePair:
        first, second = (np.concatenate(rows, axis=1) for rows in zip(*pairs, strict=True))
        return first, second

    run = sum(part.seconds.get("run", 0.0) for part in parts)
    return SolvedRanges(
        forest=parts[0].forest,
        ranges=join([part.ranges for part in parts]),
        values=join([part.values for part in parts]),
        opposing=join([part.opposing for part in parts]),
        gap=np.concatenate([part.gap for part in parts], axis=1),
        mass=np.concatenate([part.mass for part in parts], axis=1),
        iterations=np.concatenate([part.iterations for part in parts]),
        seconds={**build, "run": run},
        num_read=sum(part.num_read for part in parts),
    )


class RangeSolver:
    """A forest on the device, solved for many ranges.

    Attributes:
      forest: the subgames.
      solver: settings of the solves.
      seconds: time of placing the forest on the device, `build`.
    """

    def __init__(self, forest: Forest, solver: Solver):
        """Transfers the subgames to the device.

        Raises:
          ValueError: if subgames overlap, keep some decisions, or end before the game does.
        """
        forest.check_disjoint()
        if len(forest.leaves):
            raise ValueError(
                f"forest={forest!r} ends before the game does; expected whole subgames, from "
                "build_forest(tree, cut)"
            )
        self.forest, self.solver = forest, solver
        with (watch := Stopwatch()).phase("build"), precision(np.float64):
            platform = solver.placement.platform
            self._sides = build_bodies(forest, np.float64, platform)
            self._payoff = build_payoff(forest.form.payoff, np.float64, rounding=forest.rounding)
        self.seconds = watch.seconds

    def _opposing(self, player: int, ranges: FloatArray) -> FloatArray:
        """`[R, L]` chance's reach × the other player's range, summed over each root's histories."""
        other = pad_rows(ranges, self._sides[1 - player].body.num_roots, 0)
        return multiply(self.forest.chance, player, other)[: len(self.forest.roots[player])]

    def solve(self, ranges: tuple[FloatArray, FloatArray], report: Report | None = None) -> SolvedRanges:
        """Solves all subgames for pairs of ranges, as `solve_ranges` does."""
        watch, forest = Stopwatch(), self.forest
        first, second = ranges
        count = forest.num_subgames
        roots = forest.roots[0].subgame, forest.roots[1].subgame
        # Normalise each range in its subgame, then both by the mass of deals: gaps are in units of the
        # payoff.
        totals = [sum_rows(s, r, count) for s, r in zip(roots, (first, second), strict=True)]
        normalised = [divide(r, t[s]) for s, r, t in zip(roots, (first, second), totals, strict=True)]
        deal_mass = sum_rows(roots[0], normalised[0] * self._opposing(0, normalised[1]), count)
        factor = 1 / np.sqrt(np.maximum(deal_mass, MIN_MASS))  # of each player's range
        scales = [
            pad_rows(r * factor[s], side.body.num_roots, 0)
            for r, s, side in zip(normalised, roots, self._sides, strict=True)
        ]

        def terms(lanes: IntArray) -> tuple[Terms, Terms]:
            first, second = (
                Terms(
                    scale=on_host(scale[:, lanes]),
                    constant=on_host(np.zeros((side.entry.num_sequences, len(lanes)))),
                )
                for scale, side in zip(scales, self._sides, strict=True)
            )
            return first, second

        batch = Batch(
            name="ranges",
            order=(0, 1),
            sides=self._sides,
            payoff=self._payoff,
            num_lanes=first.shape[1],
            num_games=count,
            terms=terms,
        )

        with watch.phase("run"):
            solved = solve_batch(batch, self.solver, players=(), report=report)
        # Values of a player's roots have the other player's scale, and are 0 if its range is.
        earned = [-solved.below[1 - p][: len(roots[p])] * (totals[1 - p] / factor)[roots[p]] for p in (0, 1)]
        mass = deal_mass * totals[0] * totals[1]
        return SolvedRanges(
            forest=forest,
            ranges=(first, second),
            values=(earned[0], earned[1]),
            opposing=(self._opposing(0, second), self._opposing(1, first)),
            gap=np.where(deal_mass > 0, np.maximum(solved.gap, 0), 0.0),
            mass=mass,
            iterations=solved.iterations,
            seconds=watch.seconds,
        )
