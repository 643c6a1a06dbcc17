"""Sweeps: games × cuts × blueprints × gadgets × priors × ε × players × seeds, one row per result.

A sweep is stored in a folder. Its manifest lists all pieces of work before the first one starts, and each
finished piece is a Parquet file that is written atomically. A process claims a missing piece and computes it.
A killed sweep therefore resumes where it stopped, and several processes can share one folder: processes of
the same call, or workers that an executor starts, on this machine or others.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import pathlib
import time
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from jaxgadget.core.memory import whole_memory
from jaxgadget.core.solver import Solver, choose_solver
from jaxgadget.gadgets.alternative import EXACT, ContinuationValues
from jaxgadget.opponents.opponent import Opponents
from jaxgadget.policy.blueprints import DRAWS, make_blueprints, parse_blueprint
from jaxgadget.policy.exact import find_value
from jaxgadget.policy.policy import Policy
from jaxgadget.subgames.engine import Subgames
from jaxgadget.subgames.knowledge import make_task
from jaxgadget.subgames.refine import Refinement, refine_known, refine_subgames
from jaxgadget.sweeping.grid import SweepGrid
from jaxgadget.sweeping.manifest import (
    Piece,
    Request,
    Setup,
    cut_pieces,
    differences,
    fingerprint,
    make_request,
    piece_key,
    record_digest,
    settle_opponents,
)
from jaxgadget.sweeping.store import GAME_FORMAT, SCHEMA, TIMES, Manifest, Store
from jaxgadget.sweeping.workers import (
    GRACE,
    Executor,
    Workers,
    check_executor,
    find_request,
    leave_request,
)
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.tree.history import HistoryTree, enumerate_game
from jaxgadget.util.arguments import check_whole_number, is_finite_number
from jaxgadget.util.clock import Stopwatch
from jaxgadget.util.compilation import drop_many_programs
from jaxgadget.util.machine import describe_device, find_versions, source_digest
from jaxgadget.util.progress import progress_bar
from jaxgadget.util.store import read_record, write_record

"""As in Kubíček et al. (2026), §8."""

BLUEPRINTS_AT_ONCE = 64
"""In a piece, at most."""

PATIENCE, MAX_PATIENCE = 0.2, 5.0
"""Seconds between two polls of other processes' progress: initially, and after many polls."""

LOOK_EVERY = 1.0
"""Seconds between two polls of the workers' results."""

KEPT_HISTORIES = 1_000_000
"""Of several games in memory together, at most; those that came first go first."""

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
    """Refines subgames for every combination, in pieces, and resumes an interrupted sweep.

    A piece is all gadgets that can share lanes (unsafe, resolving, max-margin and reach gadgets, with all
    priors and ε) against all opponents, for one game, cut, player, number of iterations and some blueprints.
    On one machine, rows (except times) are bitwise the same however often the sweep is interrupted. Several
    processes may share a folder, on one machine or many; each piece is computed by one of them.

    Args:
      folder: folder of the sweep; created if missing.
      grid: games, cuts, blueprints, gadgets and the other axes.
      solver: settings; by default CFR+ in float32, with the iterations of the grid. Takes `algorithm`,
        `dtype`, `memory_limit` and `progress`. The memory limit splits lanes until they fit; by default it is
        three quarters of an accelerator's memory or half of a computer's, free or not.
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
        of the existing sweep, or True.

    Returns:
      A row for every requested result: exploitabilities and certificate in the resolving player's utility (as
        in `Refinement.table`), the piece's seconds (`TIMES`), versions and device.

    Raises:
      ValueError: for bad arguments; if the folder holds another sweep and `extend` is not set, or damaged
        files; if a game's rules changed; or if a solve fails, naming the piece. Finished pieces are kept.
      ChildProcessError: if workers died before completing all pieces. Finished pieces are kept.
    """
    num_workers = check_executor(executor, workers)
    without = ("iterations", "target_gap", "check_every", "time_limit", "devices", "checkpoint")
    solver = choose_solver(solver, Solver(algorithm="cfr+", dtype="float32"), without=without)
    request, progress = make_request(grid, solver, blueprints_at_once), solver.progress
    store = Store(pathlib.Path(folder), locks=locks)
    workshop = Workshop(store, request, progress)
    pieces = _settle(store, workshop, extend)
    if executor is None:
        _work(store, workshop, pieces, progress)
    else:
        _have_done(store, request, pieces, executor, num_workers, progress)
    return store.collect(pieces)


def work_on(folder: str, worker: int = 0) -> str:
    """Computes pieces of a sweep until none is missing: the task that `sweep` submits to an executor.

    Args:
      folder: of a sweep that began with an executor.
      worker: its index, which keeps calls distinct: Dask merges equal calls.

    Returns:
      An empty string, or the message of the ValueError that stopped the worker.
    """
    try:
        store = Store(pathlib.Path(folder), create=False)
        manifest = store.manifest()
        if manifest is None:
            raise ValueError(f"{folder!r} holds no sweep: there is no manifest.json in it")
        workshop = Workshop(store, find_request(store, manifest.request), False)
        ours = workshop.versions | {"device": manifest.versions.get("device")}  # a worker's may be another
        if changed := differences(manifest.versions, ours):
            raise ValueError(
                f"a worker has other versions than those with which the sweep in {folder!r} began "
                f"({'; '.join(changed)}); give all machines the same"
            )
        _work(store, workshop, manifest.pieces, False)
    except ValueError as error:
        return str(error)
    return ""


def read_sweep(folder: str | os.PathLike[str]) -> pd.DataFrame:
    """The rows of a sweep that are finished so far, also while it is running.

    Raises:
      ValueError: if the folder holds no sweep, or a damaged one.
    """
    store = Store(pathlib.Path(folder), create=False)
    manifest = store.manifest()
    if manifest is None:
        raise ValueError(f"{os.fspath(folder)!r} holds no sweep: there is no manifest.json in it")
    finished = store.finished()
    return store.collect([piece for piece in manifest.pieces if piece.key in finished])


def describe_finished(folder: str | os.PathLike[str]) -> str:
    """Number of finished pieces in a sweep's folder, in words; empty if there is no sweep."""
    store = Store(pathlib.Path(folder), create=False)
    manifest = store.manifest()
    if manifest is None:
        return ""
    done = len(store.finished().intersection(piece.key for piece in manifest.pieces))
    return f"{os.fspath(folder)!r} keeps {done} of {len(manifest.pieces)} pieces"


class Workshop:
    """Builds the inputs of pieces, a game at a time, and solves them."""

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
        self._trees: dict[str, HistoryTree] = {}
        self._forest: dict[tuple[str, str], Forest] = {}

    def tree(self, name: str) -> HistoryTree:
        """Enumerates a game; the last games are cached."""
        if name not in self._trees:
            policies, limit = self.request.policies, self.request.max_histories
            tree = (
                enumerate_game(self.request.games[name][0], max_histories=limit)
                if policies is None
                else policies.histories
            )
            self._trees[name] = tree
            while (
                len(self._trees) > 1 and sum(t.num_histories for t in self._trees.values()) > KEPT_HISTORIES
            ):
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
            record, rows, models = (
                self.store.games / f"{key}{end}" for end in (".json", ".npz", ".models.npz")
            )
            with self.store.lock(key, wait=True):
                self.store.clean(self.store.games, key)
                brought = read_record(record, GAME_FORMAT) or self._make(name, record, rows, models)
            try:
                seeds = [
                    None if seed is None else check_whole_number("seeds", seed, 0)
                    for seed in brought["seeds"]
                ]
                low, high = brought["value"]
                if not (is_finite_number(low) and is_finite_number(high) and low <= high):
                    raise ValueError(f"value={brought['value']!r}: expected a bracket of two numbers")
                rules, opponents = brought["fingerprint"], brought.get("opponents")
            except (KeyError, TypeError, ValueError) as error:
                raise GAME_FORMAT.damaged(record, error) from error
            if rules != fingerprint(tree):
                raise ValueError(
                    f"game {name!r}: its rules are not those with which the sweep in "
                    f"{str(self.store.folder)!r} began; choose another folder"
                )
            try:
                policy = Policy.load(rows, tree)
                if policy.num_lanes != len(seeds):
                    raise ValueError(f"{str(rows)!r} has {policy.num_lanes} lanes, expected {len(seeds)}")
                against = None if opponents is None else _read_opponents(opponents, Policy.load(models, tree))
            except ValueError as error:
                raise ValueError(
                    f"{error}; delete the folder {str(record.parent)!r} and sweep again, which makes it anew"
                ) from error
            self._setups[name] = Setup(tree, policy, seeds, (low, high), against)
        return self._setups[name]

    def _make(
        self, name: str, record: pathlib.Path, rows: pathlib.Path, models: pathlib.Path
    ) -> dict[str, Any]:
        """Writes blueprints and models, and the record last: if it exists, all files are complete."""
        tree, request = self.tree(name), self.request
        lanes: dict[tuple[str, int | None], Policy] = {}
        drawn = [spec for spec in request.blueprints if parse_blueprint(spec).kind == DRAWS]
        fixed = [spec for spec in request.blueprints if spec not in drawn]
        for specs, seed in [(fixed, None), *((drawn, seed) for seed in request.seeds)]:
            if specs:
                policy = make_blueprints(tree, specs, seed=seed or 0, progress=self.progress)
                lanes |= {(label, seed): policy.lane(lane) for lane, label in enumerate(policy.labels)}
        policies = request.policies
        for lane, label in enumerate(() if policies is None else policies.labels):
            if policies is None or (label, None) in lanes:
                raise ValueError(f"blueprints: {label!r} is there twice; give the policy another label")
            lanes[label, None] = policies.lane(lane)
        value = find_value(tree, request.exact, self.progress)
        Policy.stack(list(lanes.values())).save(rows)
        seeds = [seed for _, seed in lanes]
        made: dict[str, Any] = {
            "game": name,
            "fingerprint": fingerprint(tree),
            "value": list(value),
            "seeds": seeds,
        }
        if (against := settle_opponents(request, tree)) is not None:
            against.models.save(models)
            made["opponents"] = {
                "model": against.model.tolist(),
                "p": against.p.tolist(),
                "labels": list(against.labels),
                "beyond": list(against.beyond),
            }
        write_record(record, GAME_FORMAT, made)
        return made

    def forest(self, name: str, cut: str) -> Forest:
        """Subgames of a game and cut; the last ones are cached."""
        if (name, cut) not in self._forest:
            self._forest = {(name, cut): build_forest(self.tree(name), cut)}
        return self._forest[name, cut]

    def pieces(self) -> list[Piece]:
        """All pieces of the request."""
        pieces: list[Piece] = []
        for name, (_, cuts) in self.request.games.items():
            for cut in cuts:
                pieces += cut_pieces(self.request, self.setup(name), self.forest(name, cut), name, cut)
        gadgets = self.request.record["gadgets"]
        if len({record_digest({"gadget": gadget}) for gadget in gadgets}) < len(gadgets):
            raise ValueError(
                "gadgets: two kinds have the same module, name and numbers, so a sweep cannot "
                "distinguish them; expected another name or number for one of them"
            )
        return pieces

    def check(self, piece: Piece) -> None:
        """ValueError unless game, cut and blueprints are those with which the sweep began."""
        if piece.cut not in self.request.games.get(piece.game, ((), ()))[1]:
            raise ValueError(f"{piece!r} is no piece of this sweep")
        setup = self.setup(piece.game)
        if piece_key(self.request, setup, self.forest(piece.game, piece.cut), piece) != piece.key:
            raise ValueError(
                f"game {piece.game!r}: its cut {piece.cut!r} or its blueprints are not those with which the "
                f"sweep in {str(self.store.folder)!r} began; choose another folder"
            )

    def solve(self, piece: Piece) -> pd.DataFrame:
        """A piece's rows."""
        watch, lanes = Stopwatch(), range(*piece.blueprints)
        with watch.phase("build"):
            self.check(piece)
            setup, forest = self.setup(piece.game), self.forest(piece.game, piece.cut)
        solver = self.request.solvers[piece.iterations]
        # Not free memory: results must not depend on it.
        memory = solver.memory_limit or whole_memory(solver.placement)
        solver = dataclasses.replace(solver, chunk=piece.chunk, memory_limit=memory, progress=False)
        policy = Policy.stack([setup.blueprints.lane(lane) for lane in lanes])
        gadgets = tuple(self.request.gadgets[gadget_idx] for gadget_idx in piece.gadgets)
        try:
            if (knowledge := self.request.knowledge[piece.knowledge]) is None:
                subgames = Subgames(forest, piece.player, policy, gadgets, opponents=setup.opponents)
                result = refine_subgames(subgames, solver, setup.value, watch)
            else:
                known_task = make_task(forest.cut, piece.player, policy, gadgets, solver, knowledge)
                result = refine_known(known_task, setup.value, watch)
        except ValueError as error:
            names = ", ".join(dict.fromkeys(gadget.name for gadget in gadgets))
            description = f"{piece.game}, {piece.cut}, player {piece.player}, {names}"
            raise ValueError(f"sweep, piece {piece.key} ({description}): {error}") from error
        return self._rows(piece, result, [setup.seeds[lane] for lane in lanes])

    def _rows(self, piece: Piece, result: Refinement, seeds: Sequence[int | None]) -> pd.DataFrame:
        num_kept = (~result.has_decision).sum(axis=0)
        low, high = result.game_value
        more = {
            "game": piece.game,
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


def _read_opponents(record: Mapping[str, Any], models: Policy) -> Opponents:
    """Opponents of a game's record; ValueError if it is damaged."""
    try:
        model, p = np.asarray(record["model"], np.int64), np.asarray(record["p"], np.float64)
        labels, beyond = tuple(record["labels"]), tuple(record["beyond"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"opponents={record!r}: expected their models, p, labels and beyond") from error
    fits = len(model) == len(p) == len(labels) == len(beyond) and models.num_lanes == model.max() + 1
    if not fits or not ((p >= 0) & (p <= 1)).all():
        raise ValueError(f"opponents={record!r} do not belong to {models!r}")
    return Opponents(models=models, model=model, p=p, labels=labels, beyond=beyond)


def _settle(store: Store, workshop: Workshop, extend: bool) -> list[Piece]:
    """Pieces of the manifest, which is written first if it is missing or extended."""
    request = workshop.request
    with store.lock("manifest", wait=True):
        store.clean(store.folder, "manifest")
        old = store.manifest()
        if old is None or old.request != request.record:
            if old is not None and not extend:
                raise _other(store, differences(old.request, request.record), "has other settings")
            pieces = workshop.pieces()
        else:
            pieces = old.pieces
            for piece in pieces:
                if piece.game in request.own:  # its rules may have changed
                    workshop.check(piece)
            changed = differences(old.versions, workshop.versions)
            complete = store.finished().issuperset(piece.key for piece in pieces)
            if changed and complete and not extend:
                warnings.warn(
                    f"the finished sweep in {str(store.folder)!r} was made by other versions "
                    f"({'; '.join(changed)}); its rows are returned as they are",
                    stacklevel=3,
                )
            if not changed or complete:
                return pieces
            if not extend:
                raise _other(store, changed, "was made by other versions")
        store.settle(Manifest(request.record, workshop.versions, pieces))
        return pieces


def _other(store: Store, changed: Sequence[str], reason: str) -> ValueError:
    """The error, with a note for every difference."""
    error = ValueError(
        f"the sweep in {str(store.folder)!r} {reason}: choose another folder, or "
        "extend=True (--extend on the command line) to keep what both have in common and add the rest; "
        "only what is asked for then is returned, so ask for all that you want"
    )
    for difference in changed:
        error.add_note(difference)
    return error


def _work(store: Store, workshop: Workshop, pieces: Sequence[Piece], progress: bool | None) -> None:
    """Does missing pieces; waits for those of other processes, and takes them over if these die."""
    num_pieces, patience = len({piece.key for piece in pieces}), PATIENCE
    with _watching(store, pieces, progress) as look:
        done = look()
        while len(done) < num_pieces:
            ours, before = 0, len(done)
            for piece in pieces:
                if piece.key not in done and _try(store, workshop, piece):
                    ours += 1
                    done |= look()
            done |= look()
            if not ours and len(done) < num_pieces:
                patience = PATIENCE if len(done) > before else min(2 * patience, MAX_PATIENCE)
                time.sleep(patience)


def _have_done(
    store: Store,
    request: Request,
    pieces: Sequence[Piece],
    executor: Executor,
    max_workers: int,
    progress: bool | None,
) -> None:
    """Submits missing pieces to workers; ValueError or ChildProcessError if some stay missing."""
    with _watching(store, pieces, progress) as look:

        def num_missing() -> int:
            return len({piece.key for piece in pieces} - look())

        if not (missing := num_missing()):
            return
        leave_request(store, request)
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
            warnings.warn(f"{reasons}; the others did its work", stacklevel=3)


@contextlib.contextmanager
def _watching(
    store: Store, pieces: Sequence[Piece], progress: bool | None
) -> Generator[Callable[[], set[str]]]:
    """Yields a function that returns the keys of finished pieces and updates the progress bar."""
    work = {piece.key: piece.work for piece in pieces}
    with progress_bar("sweep", sum(work.values()), progress, coarse=True) as report:

        def look() -> set[str]:
            finished = store.finished() & work.keys()
            report(sum(work[key] for key in finished))
            return finished

        if 0 < len(done := look()) < len(work):
            log.info("Going on in %r with piece %d of %d.", str(store.folder), len(done) + 1, len(work))
        yield look


def _try(store: Store, workshop: Workshop, piece: Piece) -> bool:
    """Does a piece unless it is finished or another process holds it; True if it was done here."""
    with store.lock(piece.key, wait=False) as ours:
        if not ours or store.has(piece):
            return False
        written = store.write(piece, workshop.solve(piece))
    drop_many_programs()
    return written
