"""Other solvers as benchmarks: OpenSpiel's C++ solvers and LiteEFG.

Both have one lane, compute in float64, and are imported on first use. An iteration updates both players.
OpenSpiel and this package update the average strategy in every iteration; the timed part of LiteEFG does not
(`update_strategy` does, at extra cost), which is in its favour.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import importlib
import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from typing import Any

from jaxgadget.games.openspiel import PREFIX
from jaxgadget.games.parameters import parse_spec
from jaxgadget.util.machine import num_cores

ALGORITHMS = ("cfr", "cfr+")
"""Algorithms of the peers."""


OPENSPIEL_GAMES = ("kuhn_poker", "leduc_poker", "goofspiel", "liars_dice")
"""Built-in games that equal OpenSpiel's game of the same name."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Runner:
    """A game built and compiled by an engine, ready to iterate.

    Attributes:
      engine: the engine's name.
      dtype: its precision.
      lanes: number of copies of the game that an iteration updates.
      advance: runs a number of iterations and waits for them.
      build_seconds: time from the game's rules, or its sequence form, to the first iteration.
      compile_seconds: None if the engine does not compile.
      peak_bytes: peak memory on the device; None if unknown.
      threads: number of threads, None if unknown.
    """

    engine: str
    dtype: str
    lanes: int
    advance: Callable[[int], None]
    build_seconds: float
    compile_seconds: float | None = None
    peak_bytes: int | None = None
    threads: int | None = None


def is_installed(engine: str) -> bool:
    """True if a peer can be imported."""
    return all(importlib.util.find_spec(module) for module in _PEERS[engine].modules)


def check_peer(engine: str, algorithm: str) -> None:
    """Checks that a peer is installed and has the algorithm.

    Raises:
      ImportError: if it is not installed; names the package to install.
      ValueError: if it has no such algorithm.
    """
    if algorithm not in ALGORITHMS:
        raise ValueError(
            f"algorithm={algorithm!r}: {engine} is timed with {' or '.join(ALGORITHMS)}; choose one of them, "
            "or leave the engine out"
        )
    if not is_installed(engine):
        raise ImportError(f"engine {engine} is not installed: {_PEERS[engine].install}")


def build_peer(engine: str, game: str, algorithm: str) -> list[Runner]:
    """Builds a game in a peer.

    Args:
      engine: one of `PEERS`.
      game: its name in this package, with parameters.
      algorithm: one of `ALGORITHMS`.

    Returns:
      A runner for every candidate number of threads.

    Raises:
      ImportError: if the peer is not installed.
      ValueError: if it lacks the algorithm or the game.
    """
    check_peer(engine, algorithm)
    return _PEERS[engine].build(_load(engine, game), algorithm)


def _load(engine: str, game: str) -> Any:
    """OpenSpiel's game, with simultaneous moves converted to sequential ones."""
    pyspiel = importlib.import_module("pyspiel")
    name, parameters = parse_spec(game.removeprefix(PREFIX))
    game_types = {kind.short_name: kind for kind in pyspiel.registered_games()}
    if name not in game_types or not (game.startswith(PREFIX) or name in OPENSPIEL_GAMES):
        raise ValueError(
            f"game {game!r} is not in OpenSpiel, the source of engine {engine}'s games; choose one of "
            f"{', '.join(OPENSPIEL_GAMES)} or '{PREFIX}NAME(…)', or leave the engine out"
        )
    for parameter in parameters:
        if parameter not in game_types[name].parameter_specification:
            raise ValueError(
                f"game {game!r}: OpenSpiel's {name}, used by engine {engine}, has no parameter "
                f"{parameter!r}; leave one of them out"
            )
    try:
        loaded = pyspiel.load_game(game.removeprefix(PREFIX))
    except pyspiel.SpielError as error:
        raise ValueError(f"game {game!r}: OpenSpiel, for engine {engine}, cannot load it: {error}") from error
    if loaded.get_type().dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS:
        return pyspiel.convert_to_turn_based(loaded)
    return loaded


def _openspiel(game: Any, algorithm: str) -> list[Runner]:
    pyspiel = importlib.import_module("pyspiel")
    solvers = {"cfr": pyspiel.CFRSolver, "cfr+": pyspiel.CFRPlusSolver}
    began = time.perf_counter()
    solver = solvers[algorithm](game)
    seconds = time.perf_counter() - began

    def advance(iterations: int) -> None:
        for _ in range(iterations):
            solver.evaluate_and_update_policy()

    return [
        Runner(
            engine="openspiel", dtype="float64", lanes=1, advance=advance, build_seconds=seconds, threads=1
        )
    ]


def _liteefg(game: Any, algorithm: str) -> list[Runner]:
    modules = {"cfr": "CFR", "cfr+": "CFRplus"}
    with quiet_stdout():
        liteefg = importlib.import_module("LiteEFG")
        baseline = importlib.import_module(f"LiteEFG.baselines.{modules[algorithm]}")
        began = time.perf_counter()
        with _home_elsewhere():
            environment = liteefg.OpenSpielEnv(game, traverse_type="Enumerate", regenerate=True)
        graph = baseline.graph()
        environment.set_graph(graph)
        seconds = time.perf_counter() - began

    def advance(iterations: int, threads: int) -> None:
        with quiet_stdout():
            liteefg.set_threads(threads)  # one setting for the whole process
            for _ in range(iterations):
                graph.update_graph(environment)

    return [
        Runner(
            engine="liteefg",
            dtype="float64",
            lanes=1,
            advance=functools.partial(advance, threads=threads),
            build_seconds=seconds,
            threads=threads,
        )
        for threads in thread_counts(num_cores())
    ]


@dataclasses.dataclass(frozen=True)
class _Peer:
    modules: tuple[str, ...]
    install: str
    build: Callable[[Any, str], list[Runner]]


_PEERS = {
    "openspiel": _Peer(("pyspiel",), "pip install open-spiel", _openspiel),
    "liteefg": _Peer(
        ("pyspiel", "LiteEFG"), "pip install open-spiel && pip install --no-deps LiteEFG==1.0.0", _liteefg
    ),
}
"""The engines of `PEERS`, by name."""


def thread_counts(cores: int) -> list[int]:
    """Candidate numbers of threads: 1, 2, 4, … and all cores."""
    return sorted({1 << power for power in range(cores.bit_length()) if 1 << power <= cores} | {cores})


@contextlib.contextmanager
def quiet_stdout() -> Generator[None]:
    """Suppresses standard output of Python and C inside the block."""
    sys.stdout.flush()
    _flush_c()
    saved_stdout = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        with open(os.devnull, "w", encoding="utf-8") as null, contextlib.redirect_stdout(null):
            yield
    finally:
        _flush_c()
        os.dup2(saved_stdout, 1)
        os.close(saved_stdout)
        os.close(nowhere)


def _flush_c() -> None:
    """Flushes C's buffers, if `fflush` is available, so that their content is suppressed, too."""
    with contextlib.suppress(OSError, TypeError, AttributeError):
        ctypes.CDLL(None).fflush(None)


@contextlib.contextmanager
def _home_elsewhere() -> Generator[None]:
    """Redirects the home folder, in which LiteEFG writes a file for every game."""
    with tempfile.TemporaryDirectory() as folder:
        names = ("HOME", "USERPROFILE")
        before = {name: os.environ.get(name) for name in names}
        os.environ.update(dict.fromkeys(names, folder))
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
