"""Sweeps: games × cuts × blueprints × gadgets × priors × ε × players × seeds, one row per result.

A sweep is stored in a folder. Its manifest lists all pieces of work before the first one starts, and each
finished piece is a Parquet file that is written atomically. A process claims a missing piece and computes it.
A killed sweep therefore resumes where it stopped, and several processes can share one folder: processes of
the same call, or workers that an executor starts, on this machine or others.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import pathlib
import re
import time
import warnings
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from jaxgadget.core.memory import whole_memory
from jaxgadget.core.solver import Solver, choose_solver
from jaxgadget.gadgets.alternative import EXACT, ContinuationValues
from jaxgadget.policy.identity import differences, record_digest
from jaxgadget.policy.policy import Policy
from jaxgadget.subgames.engine import Subgames
from jaxgadget.subgames.knowledge import make_task
from jaxgadget.subgames.refine import Refinement, refine_known, refine_subgames
from jaxgadget.sweeping.grid import SweepGrid
from jaxgadget.sweeping.pieces import Piece, cut_pieces, piece_key
from jaxgadget.sweeping.request import Request, make_request
from jaxgadget.sweeping.setups import Setup, SetupFiles, make_setup
from jaxgadget.sweeping.store import SCHEMA, TIMES, Manifest, Store
from jaxgadget.sweeping.workers import (
    GRACE,
    Executor,
    Workers,
    check_executor,
    find_request,
    leave_request,
)
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.tree.public import Tree
from jaxgadget.util.clock import Stopwatch
from jaxgadget.util.compilation import drop_many_programs
from jaxgadget.util.machine import describe_device, find_versions, source_digest
from jaxgadget.util.progress import progress_bar

BLUEPRINTS_AT_ONCE = 64
"""Default maximum number of blueprints in a piece."""

PATIENCE, MAX_PATIENCE = 0.2, 5.0
"""Seconds between two polls of other processes' progress: initially, and after many polls."""

LOOK_EVERY = 1.0
"""Seconds between two polls of the workers' results."""

MAX_CACHED_NODES = 1_000_000
"""Maximum total size of cached games (see `_size`); the oldest ones are dropped first."""

log = logging.getLogger(__name__)


def sweep(
    folder: str | os.PathLike[str],
    grid: SweepGrid,
    *,
    solver: Solver | None = None,
    blueprints_at_once: int = BLUEPRINTS_AT_ONCE,
    extend: bool = False,
    executor: Executor | None = None,
    workers: int | None = None,
    locks: bool | None = None,
) -> pd.DataFrame:
    """Refines subgames for every combination of the grid, in pieces, and resumes an interrupted sweep.

    A piece consists of all gadgets that can share lanes (unsafe, resolving, max-margin and reach gadgets,
    with all priors and ε) against all opponents, for one game, cut, player, number of iterations and some
    blueprints. On one machine, rows (except times) are bitwise reproducible, regardless of interruptions.
    Several processes may share a folder, on one machine or many; each piece is computed by one of them.

    Args:
      folder: folder of the sweep; created if missing.
      grid: games, cuts, blueprints, gadgets and the other axes.
      solver: settings; by default CFR+ in float32, with the iterations of the grid. Takes `algorithm`,
        `dtype`, `memory_limit` and `progress`. The memory limit splits lanes until they fit; by default it is
        three quarters of an accelerator's total memory or half of the host's.
      blueprints_at_once: maximum number of blueprints in a piece.
      extend: reuse matching results of a folder with other settings or versions; only requested rows are
        returned.
      executor: executor of the pieces: any object with `submit(function, *arguments)` that returns an object
        with `result()`, such as `concurrent.futures.ProcessPoolExecutor` (started by `spawn`),
        `submitit.AutoExecutor` or `dask.distributed.Client`. Workers receive only the folder's path, compute
        pieces until none is missing, and take over the pieces of dead workers. They need the same Python, the
        same packages and the folder; the device in a row is its worker's.
      workers: number of tasks to submit to the executor, at most one for each missing piece; by default the
        number of cores of this machine.
      locks: True if the file system's locks work across all machines. If False, pieces are claimed by
        creating files, and a claim expires five minutes after its machine has failed. By default the setting
        of the existing sweep, or True for a new one.

    Returns:
      A row for every requested result: exploitabilities and certificate in the resolving player's utility (as
        in `Refinement.table`), the piece's seconds (`TIMES`), versions and device.

    Raises:
      ValueError: for invalid arguments; if the folder contains another sweep and `extend` is False, or
        contains damaged files; if a game's rules have changed; or if a solve fails, in which case the message
        names the piece. Finished pieces are kept.
      ChildProcessError: if workers died before all pieces were completed. Finished pieces are kept.
    """
    num_workers = check_executor(executor, workers)
    without = ("iterations", "target_gap", "check_every", "time_limit", "devices", "checkpoint")
    solver = choose_solver(solver, Solver(algorithm="cfr+", dtype="float32"), without=without)
    request = make_request(grid, solver, blueprints_at_once)
    store = Store(pathlib.Path(folder), locks=locks)
    workshop = Workshop(store, request, solver.progress)
    pieces = _settle(workshop, extend)
    if executor is None:
        _work(workshop, pieces)
    else:
        _delegate(workshop, pieces, executor, num_workers)
    return store.collect(pieces)


def work_on(folder: str, worker: int = 0) -> str:
    """Computes pieces of a sweep until none is missing: the task that `sweep` submits to an executor.

    Args:
      folder: folder of a sweep that began with an executor.
      worker: index of the worker; it makes calls distinct, as Dask merges equal calls.

    Returns:
      An empty string, or the message of the ValueError that stopped the worker.
    """
    try:
        store, manifest = open_sweep(folder)
        workshop = Workshop(store, find_request(store, manifest.request), False)
        ours = workshop.versions | {"device": manifest.versions.get("device")}  # a worker's device may differ
        if changed := differences(manifest.versions, ours):
            raise ValueError(
                f"a worker has other versions than those with which the sweep in {folder!r} began "
                f"({'; '.join(changed)}); give all machines the same"
            )
        _work(workshop, manifest.pieces)
    except ValueError as error:
        return str(error)
    return ""


def read_sweep(folder: str | os.PathLike[str]) -> pd.DataFrame:
    """Reads the finished rows of a sweep, even while it is running.

    Raises:
      ValueError: if the folder holds no sweep, or a damaged one.
    """
    store, manifest = open_sweep(folder)
    finished = store.finished()
    return store.collect([piece for piece in manifest.pieces if piece.key in finished])


def open_sweep(folder: str | os.PathLike[str]) -> tuple[Store, Manifest]:
    """The store and manifest of a sweep; raises ValueError if the folder holds none, or a damaged one."""
    store = Store(pathlib.Path(folder), create=False)
    if (manifest := store.manifest()) is None:
        raise ValueError(f"{os.fspath(folder)!r} holds no sweep: there is no manifest.json in it")
    return store, manifest


def describe_finished(folder: str | os.PathLike[str]) -> str:
    """Description of the finished pieces in a sweep's folder; empty if there is no sweep."""
    store = Store(pathlib.Path(folder), create=False)
    manifest = store.manifest()
    if manifest is None:
        return ""
    done = len(store.finished().intersection(piece.key for piece in manifest.pieces))
    return f"{os.fspath(folder)!r} keeps {done} of {len(manifest.pieces)} pieces"


class Workshop:
    """Builds the inputs of pieces, one game at a time, and solves the pieces."""

    def __init__(self, store: Store, request: Request, progress: bool | None):
        self.store, self.request, self.progress = store, request, progress
        packages = ("jaxgadget", "jax", "jaxlib", "numpy", "scipy")
        solves_programs = request.exact or any(
            isinstance(gadget.alternative, ContinuationValues) and gadget.alternative.source == EXACT
            for gadget in request.gadgets
        )
        self.versions: dict[str, Any] = {**find_versions(packages + ("highspy",) * solves_programs)}
        self.versions |= {"device": describe_device(), "source": source_digest()}
        self._setups: dict[str, Setup] = {}
        self._trees: dict[str, Tree] = {}
        self._forest: dict[tuple[str, str], Forest] = {}

    def tree(self, name: str) -> Tree:
        """The tree of a game; recently used trees are cached."""
        if name not in self._trees:
            self._trees[name] = self.request.lay_out(name)
            while len(self._trees) > 1 and sum(map(_size, self._trees.values())) > MAX_CACHED_NODES:
                gone = next(iter(self._trees))
                del self._trees[gone]
                self._setups.pop(gone, None)
                self._forest = {key: forest for key, forest in self._forest.items() if key[0] != gone}
        return self._trees[name]

    def setup(self, name: str) -> Setup:
        """A game's blueprints and value, read from the folder, or computed and written there."""
        tree = self.tree(name)
        if name not in self._setups:
            key = self.request.game_key(name)
            files = SetupFiles(self.store.games, key)
            with self.store.lock(key, wait=True):
                self.store.clean(self.store.games, key)
                if not files.exist():
                    files.write(name, make_setup(self.request, tree, self.progress))
            self._setups[name] = files.read(name, tree)
        return self._setups[name]

    def forest(self, name: str, cut: str) -> Forest:
        """Subgames of a game and cut; recently used forests are cached."""
        if (name, cut) not in self._forest:
            self._forest = {(name, cut): build_forest(self.tree(name), cut)}
        return self._forest[name, cut]

    def pieces(self) -> list[Piece]:
        """All pieces of the request."""
        pieces: list[Piece] = []
        for name, game in self.request.games.items():
            for cut in game.cuts:
                pieces += cut_pieces(self.request, self.setup(name), self.forest(name, cut), name, cut)
        gadgets = self.request.record["gadgets"]
        if len({record_digest({"gadget": gadget}) for gadget in gadgets}) < len(gadgets):
            raise ValueError(
                "gadgets: two kinds have the same module, name and numbers, so a sweep cannot "
                "distinguish them; expected another name or number for one of them"
            )
        return pieces

    def check(self, piece: Piece) -> None:
        """Raises ValueError if the game, cut or blueprints have changed since the sweep began."""
        game = self.request.games.get(piece.game)
        if game is None or piece.cut not in game.cuts:
            raise ValueError(f"{piece!r} is not a piece of this sweep")
        setup = self.setup(piece.game)
        if piece_key(self.request, setup, self.forest(piece.game, piece.cut), piece) != piece.key:
            raise ValueError(
                f"game {piece.game!r}: its cut {piece.cut!r} or its blueprints are not those with which the "
                f"sweep in {str(self.store.folder)!r} began; choose another folder"
            )

    def solve(self, piece: Piece) -> pd.DataFrame:
        """Solves a piece; returns its rows."""
        return self.refine(piece)[1]

    def refine(self, piece: Piece) -> tuple[Refinement, pd.DataFrame]:
        """Solves a piece; returns its strategies and rows."""
        watch, lanes = Stopwatch(), range(*piece.blueprints)
        with watch.phase("build"):
            self.check(piece)
            setup, forest = self.setup(piece.game), self.forest(piece.game, piece.cut)
        solver = self.request.solvers[piece.iterations]
        # The limit refers to total memory, as results must not depend on free memory.
        memory = solver.memory_limit or whole_memory(solver.placement)
        knowledge, devices = self.request.knowledge[piece.knowledge], len(solver.placement.devices)
        searches = piece.num_rows * (1 if knowledge is None else knowledge.draws)
        chunk = devices * min(piece.chunk, -(-searches // devices))
        solver = dataclasses.replace(solver, chunk=chunk, memory_limit=memory, progress=False)
        policy = Policy.stack([setup.blueprints.lane(lane) for lane in lanes])
        gadgets = tuple(self.request.gadgets[gadget_idx] for gadget_idx in piece.gadgets)
        try:
            if knowledge is None:
                subgames = Subgames(forest, piece.player, policy, gadgets, opponents=setup.opponents)
                result = refine_subgames(subgames, solver, setup.value, watch)
            else:
                known_task = make_task(forest.cut, piece.player, policy, gadgets, solver, knowledge)
                result = refine_known(known_task, setup.value, watch)
        except ValueError as error:
            names = ", ".join(dict.fromkeys(gadget.name for gadget in gadgets))
            description = f"{piece.game}, {piece.cut}, player {piece.player}, {names}"
            raise ValueError(f"sweep, piece {piece.key} ({description}): {error}") from error
        return result, self._rows(piece, result, [setup.seeds[lane] for lane in lanes])

    def _rows(self, piece: Piece, result: Refinement, seeds: Sequence[int | None]) -> pd.DataFrame:
        num_kept = (~result.has_decision).sum(axis=0)
        low, high = result.game_value
        more = {
            "game": piece.game,
            "form": self.request.form,
            "cut": piece.cut,
            "seed": pd.array(list(seeds) * (len(piece.gadgets) * piece.opponents), dtype="Int64"),
            "algorithm": result.algorithm,
            "iterations": result.iterations,
            "dtype": "float64" if self.request.exact else self.request.record["dtype"],
            "subgames": result.num_subgames,
            "subgames_kept": num_kept.astype(np.int64),
            "game_value_low": low,
            "game_value_high": high,
            "piece": piece.key,
            "piece_rows": result.policy.num_lanes,
        }
        seconds = {name: result.seconds[name.removesuffix("_seconds")] for name in TIMES}
        return result.table.assign(**more, **seconds, **self.versions)[SCHEMA.names]


def _size(tree: Tree) -> int:
    """Number of histories, or of pairs of a public node and a hand, of a tree."""
    return len(tree.parent) * max(tree.num_hands)


FORMER_MODULES = frozenset({"jaxgadget.gadgets.two_level", "jaxgadget.gadgets.real_way"})
"""Modules of gadgets in the manifests of version 0.4 and earlier."""


def _settle(workshop: Workshop, extend: bool) -> list[Piece]:
    """Returns the pieces of the manifest; writes the manifest if it is missing or to be extended."""
    store, request = workshop.store, workshop.request
    with store.lock("manifest", wait=True):
        store.clean(store.folder, "manifest")
        old = store.manifest()
        if old is not None and FORMER_MODULES.intersection(
            re.findall(r"[\w.]+(?=\.)", json.dumps(old.request))
        ):
            raise ValueError(
                f"the sweep in {str(store.folder)!r} was written by version 0.4, whose records differ; "
                "read_sweep returns its rows; expected another folder for more"
            )
        if old is None or old.request != request.record:
            if old is not None and not extend:
                raise _other(store, differences(old.request, request.record), "has other settings")
            pieces = workshop.pieces()
        else:
            pieces = old.pieces
            own = {name for name, game in request.games.items() if game.is_own}
            for piece in pieces:
                if piece.game in own:
                    workshop.check(piece)
            changed = differences(old.versions, workshop.versions)
            complete = store.finished().issuperset(piece.key for piece in pieces)
            if changed and complete and not extend:
                warnings.warn(
                    f"the finished sweep in {str(store.folder)!r} was computed by other versions "
                    f"({'; '.join(changed)}); its rows are returned as they are",
                    stacklevel=3,
                )
            if not changed or complete:
                return pieces
            if not extend:
                raise _other(store, changed, "was begun by other versions")
        store.settle(Manifest(request.record, workshop.versions, pieces))
        return pieces


def _other(store: Store, changed: Sequence[str], reason: str) -> ValueError:
    """Creates the error for a folder with another sweep, with a note for every difference."""
    error = ValueError(
        f"the sweep in {str(store.folder)!r} {reason}: choose another folder, or "
        "extend=True (--extend on the command line) to keep what both have in common and add the rest; "
        "only requested rows are then returned, so request all that you need"
    )
    for difference in changed:
        error.add_note(difference)
    return error


def _work(workshop: Workshop, pieces: Sequence[Piece]) -> None:
    """Computes missing pieces; waits for other processes' pieces, and takes them over if a process dies."""
    num_pieces, patience = len({piece.key for piece in pieces}), PATIENCE
    with _watching(workshop, pieces) as look:
        done = look()
        while len(done) < num_pieces:
            ours, before = 0, len(done)
            for piece in pieces:
                if piece.key not in done and _try(workshop, piece):
                    ours += 1
                    done |= look()
            done |= look()
            if not ours and len(done) < num_pieces:
                patience = PATIENCE if len(done) > before else min(2 * patience, MAX_PATIENCE)
                time.sleep(patience)


def _delegate(workshop: Workshop, pieces: Sequence[Piece], executor: Executor, max_workers: int) -> None:
    """Delegates missing pieces to workers; raises ValueError or ChildProcessError if some remain missing."""
    store = workshop.store
    with _watching(workshop, pieces) as look:

        def num_missing() -> int:
            return len({piece.key for piece in pieces} - look())

        if not (missing := num_missing()):
            return
        leave_request(store, workshop.request)
        workers = Workers(executor, work_on, store.folder, min(max_workers, missing))
        try:
            while not workers.have_ended(LOOK_EVERY) and num_missing():
                pass
            workers.have_ended(GRACE)
        finally:
            workers.cancel()
        if missing := num_missing():
            workers.complain(missing)
        if reasons := workers.explain():
            warnings.warn(f"{reasons}; other workers computed the missing pieces", stacklevel=3)


@contextlib.contextmanager
def _watching(workshop: Workshop, pieces: Sequence[Piece]) -> Generator[Callable[[], set[str]]]:
    """Yields a function that returns the keys of finished pieces and updates the progress bar."""
    store = workshop.store
    work = {piece.key: piece.work for piece in pieces}
    with progress_bar("sweep", sum(work.values()), workshop.progress, coarse=True) as report:

        def look() -> set[str]:
            finished = store.finished() & work.keys()
            report(sum(work[key] for key in finished))
            return finished

        if 0 < len(done := look()) < len(work):
            log.info("Resuming %r with piece %d of %d.", str(store.folder), len(done) + 1, len(work))
        yield look


def _try(workshop: Workshop, piece: Piece) -> bool:
    """Computes a piece unless it is finished or claimed by another process; True if it was computed."""
    store = workshop.store
    with store.lock(piece.key, wait=False) as ours:
        if not ours or store.has(piece):
            return False
        written = store.write(piece, workshop.solve(piece))
    drop_many_programs()
    return written
