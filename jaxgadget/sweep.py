"""Sweeps: games × cuts × blueprints × gadgets × priors × ε × players × seeds, one row a result.

A sweep lives in a folder. Its manifest lists all pieces of work before the first one starts; every finished
piece is a Parquet file that appears as a whole. Whoever finds a piece missing, and nobody at it, does it, so
a killed sweep goes on where it was, and several processes may share one folder.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from jaxgadget.batch import Batch
from jaxgadget.blueprints import DRAWS, make_blueprints, parse_blueprint
from jaxgadget.files import atomic_writer
from jaxgadget.games.game import DEFAULT_MAX_HISTORIES
from jaxgadget.machine import describe_device, find_versions
from jaxgadget.manifest import (
    FORMAT,
    Cuts,
    GameSpec,
    Piece,
    Request,
    cut_pieces,
    differences,
    fingerprint,
    make_request,
)
from jaxgadget.policy import Policy
from jaxgadget.progress import progress_bar
from jaxgadget.refine import Refinement, find_value, solve_batch
from jaxgadget.solve.clock import Stopwatch
from jaxgadget.solve.gadget import DEFAULT_EPSILON, Epsilon, Gadget
from jaxgadget.solve.prior import PRIORS, Prior
from jaxgadget.specs import DEFAULT_GADGETS
from jaxgadget.store import SCHEMA, TIMES, Store
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.tree.history import HistoryTree, enumerate_game

DEFAULT_BLUEPRINTS = ("cfr-spread:25", "draws:20")
"""As in Kubíček et al. (2026), §8."""

BLUEPRINTS_AT_ONCE = 64
"""In a piece, at most."""

PATIENCE = 0.2
"""Seconds between two looks at what others are doing."""


def sweep(
    folder: str | os.PathLike[str],
    games: GameSpec | Sequence[GameSpec] | Mapping[str, Cuts],
    cuts: Cuts | None = None,
    *,
    blueprints: str | Sequence[str] = DEFAULT_BLUEPRINTS,
    gadgets: str | Gadget | Sequence[str | Gadget] = DEFAULT_GADGETS,
    priors: str | Prior | Sequence[str | Prior] = tuple(PRIORS),
    epsilons: Epsilon | Sequence[Epsilon] = DEFAULT_EPSILON,
    players: int | Sequence[int] = (0, 1),
    seeds: int | Sequence[int] = 0,
    algorithm: str = "cfr+",
    iterations: int | Sequence[int] = 5000,
    dtype: str = "float32",
    blueprints_at_once: int = BLUEPRINTS_AT_ONCE,
    memory_limit: int | None = None,
    max_histories: int = DEFAULT_MAX_HISTORIES,
    extend: bool = False,
    progress: bool | None = None,
) -> pd.DataFrame:
    """Refines subgames for every combination, piece by piece, and goes on where it was if interrupted.

    A piece is one kind of gadget with all its priors and ε, for one game, cut, player, number of iterations
    and some blueprints. On one machine, rows (times apart) are bit by bit the same however often the sweep
    was interrupted. Several processes may share a folder: each piece is done by one of them.

    Args:
      folder: of the sweep; made if it is not there.
      games: as `load` takes them; or a dict from game to its cut or cuts.
      cuts: names of cuts for all games, unless `games` is a dict.
      blueprints: SPECs, see `make_blueprints`.
      gadgets: names, each taken with all `priors` and `epsilons` that it knows, or gadgets as they are.
      priors: names or priors.
      epsilons: numbers in [0, 1); for linear programs also `auto`.
      players: who re-solves.
      seeds: of `draws:COUNT`; other blueprints are there once, with an empty seed.
      algorithm: as in `refine`; `lp`, linear programs, ignores `iterations` and `dtype`.
      iterations: one number or several, each solved by itself.
      dtype: as in `refine`.
      blueprints_at_once: in a piece, at most.
      memory_limit: as in `refine`.
      max_histories: as in `enumerate_game`.
      extend: go on in a folder of other settings or versions; pieces that both have in common are kept.
      progress: show a bar; by default if it takes two seconds and somebody watches.

    Returns:
      A row for every result asked for: exploitabilities and certificate in the resolving player's utility (as
      in `Refinement.table`), the piece's seconds (`TIMES`), versions and device.

    Raises:
      ValueError: for bad arguments; if the folder holds another sweep and `extend` is not set; if a game's
        rules changed since then; or if a solve fails, naming the piece. Finished pieces stay.
    """
    how, limits = (algorithm, iterations, dtype, memory_limit), (blueprints_at_once, max_histories)
    asked = (gadgets, priors, epsilons)
    request = make_request((games, cuts), (blueprints, seeds), asked, players, how, limits)
    store = Store(pathlib.Path(folder))
    workshop = Workshop(store, request, progress)
    pieces = _settle(store, workshop, extend)
    _work(store, workshop, pieces, progress)
    return store.collect(pieces)


def read_sweep(folder: str | os.PathLike[str]) -> pd.DataFrame:
    """The rows of a sweep that are finished so far, also while it is running.

    Raises:
      ValueError: if the folder holds no sweep.
    """
    store = Store(pathlib.Path(folder), create=False)
    manifest = store.manifest()
    if manifest is None:
        raise ValueError(f"{os.fspath(folder)!r} holds no sweep: there is no manifest.json in it")
    pieces = [Piece.read(record) for record in manifest["pieces"]]
    return store.collect([piece for piece in pieces if store.has(piece)])


class Setup(NamedTuple):
    """A game about to be swept: its tree, blueprints, the seed of each (None for no seed), and value."""

    tree: HistoryTree
    blueprints: Policy
    seeds: list[int | None]
    value: tuple[float, float]


class Workshop:
    """Makes what pieces need, a game at a time, and solves them."""

    def __init__(self, store: Store, request: Request, progress: bool | None):
        self.store, self.request, self.progress = store, request, progress
        versions = find_versions()
        names = ("jaxgadget", "jax", "python")
        self.versions = {name: versions[name] for name in names} | {"device": describe_device()}
        self._setups: dict[str, Setup] = {}
        self._trees: dict[str, HistoryTree] = {}
        self._forest: dict[tuple[str, str], Forest] = {}

    def tree(self, name: str) -> HistoryTree:
        """Enumerates a game once."""
        if name not in self._trees:
            self._trees[name] = enumerate_game(
                self.request.games[name][0], max_histories=self.request.max_histories
            )
        return self._trees[name]

    def setup(self, name: str) -> Setup:
        """A game's blueprints and value, from the folder if they are there; else they are put there."""
        if name not in self._setups:
            key = self.request.game_key(name)
            record, rows = (self.store.folder / "games" / f"{key}{end}" for end in (".json", ".npz"))
            with self.store.lock(key, wait=True):
                if not record.exists():
                    self._make(name, record, rows)
            tree = self.tree(name)
            found = json.loads(record.read_text(encoding="utf-8"))
            if found["fingerprint"] != fingerprint(tree):
                raise ValueError(
                    f"game {name!r}: its rules are not those with which the sweep in "
                    f"{str(self.store.folder)!r} began; choose another folder"
                )
            low, high = found["value"]
            self._setups[name] = Setup(tree, Policy.load(rows, tree), found["seeds"], (low, high))
        return self._setups[name]

    def _make(self, name: str, record: pathlib.Path, rows: pathlib.Path) -> None:
        tree, request = self.tree(name), self.request
        found: dict[str, tuple[Policy, int | None]] = {}
        drawn = [spec for spec in request.blueprints if parse_blueprint(spec).kind == DRAWS]
        fixed = [spec for spec in request.blueprints if spec not in drawn]
        for specs, seed in [(fixed, None), *((drawn, seed) for seed in request.seeds)]:
            if specs:
                policy = make_blueprints(tree, specs, seed=seed or 0, progress=self.progress)
                for lane, label in enumerate(policy.labels):
                    found.setdefault(label, (policy.lane(lane), seed))
        value = find_value(tree, request.exact, self.progress)
        Policy.stack([policy for policy, _ in found.values()]).save(rows)
        seeds = [seed for _, seed in found.values()]
        made = {"game": name, "fingerprint": fingerprint(tree), "value": list(value), "seeds": seeds}
        with atomic_writer(record) as file:
            file.write(json.dumps(made).encode())

    def forest(self, name: str, cut: str) -> Forest:
        """The last one that was asked for is kept."""
        if (name, cut) not in self._forest:
            self._forest = {(name, cut): build_forest(self.tree(name), cut)}
        return self._forest[name, cut]

    def pieces(self) -> list[Piece]:
        """Everything that there is to do."""
        found: list[Piece] = []
        for name, (_, cuts) in self.request.games.items():
            labels = self.setup(name).blueprints.labels
            for cut in cuts:
                found += cut_pieces(self.request, name, self.forest(name, cut), cut, labels)
        return found

    def solve(self, piece: Piece) -> pd.DataFrame:
        """A piece's rows."""
        setup, settings = self.setup(piece.game), self.request.settings[piece.iterations]
        watch, lanes = Stopwatch(), range(*piece.blueprints)
        policy = Policy.stack([setup.blueprints.lane(lane) for lane in lanes])
        gadgets = tuple(self.request.gadgets[number] for number in piece.gadgets)
        try:
            with watch.phase("build"):
                forest = self.forest(piece.game, piece.cut)
            settings = dataclasses.replace(settings, chunk=piece.chunk)
            batch = Batch(forest, piece.player, policy, gadgets, settings, watch)
            result = solve_batch(batch, setup.value, False)
        except ValueError as error:
            what = f"{piece.game}, {piece.cut}, player {piece.player}, {gadgets[0].name}"
            raise ValueError(f"sweep, piece {piece.key} ({what}): {error}") from error
        return self._rows(piece, result, [setup.seeds[lane] for lane in lanes])

    def _rows(self, piece: Piece, result: Refinement, seeds: Sequence[int | None]) -> pd.DataFrame:
        kept = (~result.live).sum(axis=0)
        low, high = result.game_value
        more = {
            "game": piece.game,
            "cut": piece.cut,
            "seed": pd.array(list(seeds) * len(piece.gadgets), dtype="Int64"),
            "algorithm": result.algorithm,
            "iterations": result.iterations,
            "dtype": "float64" if self.request.exact else self.request.record["dtype"],
            "subgames": result.num_subgames,
            "subgames_kept": kept.astype(np.int64),
            "game_value_low": low,
            "game_value_high": high,
            "piece": piece.key,
            "piece_rows": result.policy.num_lanes,
        }
        seconds = {name: result.seconds[name.removesuffix("_seconds")] for name in TIMES}
        return result.table.assign(**more, **seconds, **self.versions)[SCHEMA.names]


def _settle(store: Store, workshop: Workshop, extend: bool) -> list[Piece]:
    """The pieces that the manifest lists; it is written if there is none, or another one to extend."""
    request = workshop.request
    for name in request.own:
        workshop.setup(name)  # only so do we know whether it is the game that it was
    with store.lock("manifest", wait=True):
        old = store.manifest()
        if old is not None and old["request"] == request.record:
            pieces = [Piece.read(record) for record in old["pieces"]]
            changed = differences(old["versions"], workshop.versions)
            if not changed or extend or all(map(store.has, pieces)):
                return pieces
            raise _other(store, changed, "was made by other versions")
        if old is not None and not extend:
            raise _other(store, differences(old["request"], request.record), "has other settings")
        pieces = workshop.pieces()
        listed = [dataclasses.asdict(piece) for piece in pieces]
        settled = {"request": request.record, "versions": workshop.versions, "pieces": listed}
        store.settle({"format": FORMAT, **settled})
        return pieces


def _other(store: Store, changed: Sequence[str], what: str) -> ValueError:
    return ValueError(
        f"the sweep in {str(store.folder)!r} {what} ({'; '.join(changed)}): choose another folder, or "
        "extend=True to keep what both have in common and add the rest"
    )


def _work(store: Store, workshop: Workshop, pieces: Sequence[Piece], progress: bool | None) -> None:
    """Does what is missing; what others are doing is waited for, and taken over if they die."""
    total = sum(piece.work for piece in pieces)
    with progress_bar("sweep", total, progress) as report:

        def tell() -> None:
            report(sum(piece.work for piece in pieces if store.has(piece)))

        tell()
        while missing := [piece for piece in pieces if not store.has(piece)]:
            if not sum(_try(store, workshop, piece, tell) for piece in missing):
                time.sleep(PATIENCE)


def _try(store: Store, workshop: Workshop, piece: Piece, tell: Callable[[], None]) -> bool:
    """Does a piece unless somebody else is at it, or has done it; whether we did."""
    with store.lock(piece.key, wait=False) as ours:
        if not ours or store.has(piece):
            return False
        store.write(piece, workshop.solve(piece))
    tell()
    return True
