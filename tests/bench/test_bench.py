"""`jaxgadget bench`: arithmetic with engines of known speed, output with real engines."""

import itertools
import json
import os
import pathlib
import subprocess
import sys
import types

import numpy as np
import pytest

import jaxgadget.bench.bench
import jaxgadget.bench.peers
import jaxgadget.util.machine
from jaxgadget.bench.bench import Benchmark, bench, iterations_within
from jaxgadget.bench.defaults import ENGINES, OURS, PEERS
from jaxgadget.bench.peers import Runner, build_peer, is_installed
from jaxgadget.report.bench import bench_notes, bench_record

KUHN_HISTORIES = 58
INSTALLED = [engine for engine in PEERS if is_installed(engine)]
ROW_KEYS = [  # the specified columns, then the others
    *("game", "engine", "algorithm", "dtype", "lanes", "us_per_lane_iteration", "histories_per_second"),
    *("compile_seconds", "peak_bytes", "build_seconds", "run_seconds", "iterations", "threads"),
]
PYSPIEL = """
from types import SimpleNamespace as Kind
GameType = Kind(Dynamics=Kind(SIMULTANEOUS=1))
def registered_games(): return [Kind(short_name="kuhn_poker", parameter_specification={})]
def load_game(name): return Kind(get_type=lambda: Kind(dynamics=0))
"""
LITEEFG = """
import ctypes, os
def set_threads(count): print("threads", count)
class OpenSpielEnv:
    def __init__(self, game, traverse_type, regenerate):
        assert (traverse_type, regenerate) == ("Enumerate", True)
        print("generating")
        with open(os.path.join(os.path.expanduser("~"), "litter"), "w") as file: file.write(str(game))
    def set_graph(self, graph): os.write(1, b"from the system")
class graph:
    def __init__(self): print("ready")
    def update_graph(self, environment): ctypes.CDLL(None).puts(b"from C, in a buffer")
"""


@pytest.fixture(scope="module")
def ours() -> Benchmark:
    """A small benchmark with the real engine."""
    return bench("kuhn_poker", engines=[OURS], lanes=[1, 3], iterations=4, repeats=2)


class Machine:
    """A clock that only fake engines advance, with a record of their calls."""

    def __init__(self) -> None:
        self.now = 0.0
        self.done: list[tuple[str, int | None, int]] = []

    def runner(self, engine: str, seconds: float, *, lanes: int = 1, threads: int | None = None) -> Runner:
        """An engine with a known time per iteration, doubled in every other call."""

        slowness = itertools.cycle((1, 2))

        def advance(iterations: int) -> None:
            self.done.append((engine, threads, iterations))
            self.now += iterations * seconds * next(slowness)

        return Runner(
            engine=engine, dtype="float64", lanes=lanes, advance=advance, build_seconds=0.5, threads=threads
        )


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Peers that take 3 ms, and 2 or 5 ms with 1 or 2 threads; ours takes 1 ms for 10 lanes or more."""
    machine = Machine()
    peers = {
        "openspiel": [machine.runner("openspiel", 3e-3, threads=1)],
        "liteefg": [machine.runner("liteefg", 5e-3 / count**2 + 1e-3, threads=count) for count in (1, 2)],
    }
    clock = types.SimpleNamespace(perf_counter=lambda: machine.now)
    monkeypatch.setattr(jaxgadget.bench.bench, "time", clock)
    monkeypatch.setattr(jaxgadget.bench.bench, "is_installed", lambda engine: True)
    monkeypatch.setattr(jaxgadget.bench.peers, "is_installed", lambda engine: True)
    monkeypatch.setattr(jaxgadget.bench.bench, "build_peer", lambda engine, game, algorithm: peers[engine])
    monkeypatch.setattr(
        jaxgadget.bench.bench,
        "whole_game_runner",
        lambda form, *, lanes, dtype, rule, loop_form, placement: machine.runner(OURS, 1e-3, lanes=lanes),
    )
    return machine


# --- arithmetic ---------------------------------------------------------------------------


def test_rows_of_engines_whose_time_is_known(machine: Machine):
    benchmark = bench("kuhn_poker", lanes=[10], iterations=7, repeats=4)
    rows = {row.engine: row for row in benchmark.rows}
    assert list(rows) == list(ENGINES)
    assert rows[OURS].us_per_lane_iteration == pytest.approx(100)
    assert rows[OURS].histories_per_second == pytest.approx(KUHN_HISTORIES * 10 / 1e-3)
    assert rows[OURS].run_seconds == pytest.approx(7e-3)
    assert rows["openspiel"].us_per_lane_iteration == pytest.approx(3000)
    assert (rows["liteefg"].us_per_lane_iteration, rows["liteefg"].threads) == (pytest.approx(2250), 2)
    turns = [(OURS, None, 7), ("openspiel", 1, 7), ("liteefg", 1, 7), ("liteefg", 2, 7)]
    assert machine.done == turns * 4, "by turns"


def test_as_many_iterations_as_fill_the_time(machine: Machine):
    (row,) = bench("kuhn_poker", engines=["openspiel"], seconds=2.5, repeats=5).rows
    assert 0.2 <= row.iterations * 3e-3 <= 1, "half a second, as well as the clock could tell"
    assert [count for _, _, count in machine.done][-5:] == [row.iterations] * 5
    slow = machine.runner("slow", 60.0)
    assert iterations_within(slow.advance, 0.1) == 1


# --- real engines -------------------------------------------------------------------------


def test_record(ours: Benchmark):
    record = bench_record(ours)
    assert list(record) == ["device", "devices", "driver", "loop", "versions", "rows"]
    assert record["device"].startswith("cpu: ") and "core" in record["device"]
    assert list(record["versions"]) == [
        *("python", "jax", "jaxlib", "numpy", "jaxgadget", "open_spiel", "LiteEFG")
    ]
    assert record["versions"]["numpy"] == np.__version__
    assert record["versions"]["jaxgadget"] == jaxgadget.__version__
    assert [list(row) for row in record["rows"]] == [ROW_KEYS] * 2
    assert [row["lanes"] for row in record["rows"]] == [1, 3]


# --- errors, and engines that are left out ------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engines": ["gpucfr"]}, "gpucfr"),
        ({"lanes": [0]}, "lanes="),
        ({"algorithm": "lp"}, "algorithm="),
        ({"algorithm": "dcfr", "engines": ["openspiel"]}, "openspiel"),
    ],
)
def test_what_is_refused(machine: Machine, options: dict[str, object], message: str):
    with pytest.raises(ValueError, match=message.replace("+", r"\+").replace("(", r"\(").replace(")", r"\)")):
        bench(**({"games": ["kuhn_poker"]} | options))
    assert machine.done == []


def test_a_named_engine_that_is_not_installed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jaxgadget.bench.peers.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="openspiel"):
        bench("kuhn_poker", engines=["openspiel"])
    with pytest.raises(ImportError, match="pip install"):
        bench("kuhn_poker", engines=[OURS, "liteefg"])


def test_by_default_peers_that_lack_the_algorithm_or_the_game_are_left_out(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(jaxgadget.bench.bench, "build_peer", build_peer)
    benchmark = bench("kuhn_poker", algorithm="dcfr", lanes=[1], iterations=1)
    assert [(row.engine, row.algorithm) for row in benchmark.rows] == [(OURS, "dcfr")]
    assert [note.partition(":")[0] for note in benchmark.skipped] == [
        *(f"{engine} is skipped for kuhn_poker" for engine in PEERS)
    ]
    assert set(benchmark.skipped) < set(bench_notes(benchmark))


def test_by_default_peers_that_cannot_be_imported_are_left_out(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object) -> None:
        raise ImportError("No module named 'ml_collections'")

    monkeypatch.setattr(jaxgadget.bench.bench, "build_peer", fail)
    benchmark = bench("kuhn_poker", lanes=[1], iterations=1)
    assert [row.engine for row in benchmark.rows] == [OURS]
    assert benchmark.skipped[0] == "openspiel is skipped for kuhn_poker: No module named 'ml_collections'"
    with pytest.raises(ImportError, match="ml_collections"):
        bench("kuhn_poker", engines=["openspiel"], iterations=1)


# --- peers --------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["cfr", "cfr+"])
@pytest.mark.parametrize("engine", INSTALLED)
@pytest.mark.parametrize("game", ["kuhn_poker", "goofspiel(num_cards=3,imp_info=True)"])
def test_peers_iterate(
    engine: str, algorithm: str, game: str, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
):
    monkeypatch.setenv("HOME", str(tmp_path))
    runners = build_peer(engine, game, algorithm)
    assert {runner.engine for runner in runners} == {engine}
    for runner in runners:
        runner.advance(3)
        assert (runner.dtype, runner.lanes, runner.compile_seconds, runner.peak_bytes) == (
            "float64",
            1,
            None,
            None,
        )
        assert runner.build_seconds > 0
    assert (os.environ["HOME"], list(tmp_path.iterdir())) == (str(tmp_path), []), "no litter"


def run_bench(tmp_path: pathlib.Path, *options: str, **environment: str) -> list[dict[str, object]]:
    command = [
        sys.executable,
        "-m",
        "jaxgadget",
        "bench",
        "kuhn_poker",
        "--iterations",
        "2",
        "--repeats",
        "1",
    ]
    done = subprocess.run(
        [*command, *options, "--json", "-"],
        env=os.environ | {"HOME": str(tmp_path)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.glob("litter")) == list(tmp_path.glob("game_instances")) == []
    return json.loads(done.stdout)["rows"]


def test_standard_output_is_json_alone_whatever_liteefg_prints(tmp_path: pathlib.Path):
    (tmp_path / "LiteEFG" / "baselines").mkdir(parents=True)
    for name in ("__init__", "baselines/__init__", "baselines/CFRplus"):
        (tmp_path / "LiteEFG" / f"{name}.py").write_text(LITEEFG)
    (tmp_path / "pyspiel.py").write_text(PYSPIEL)
    (row,) = run_bench(tmp_path, "--engine", "liteefg", PYTHONPATH=str(tmp_path))
    assert (row["engine"], row["lanes"], row["iterations"]) == ("liteefg", 1, 2)
    assert row["compile_seconds"] is row["peak_bytes"] is None


@pytest.mark.slow
def test_everything_that_is_installed(tmp_path: pathlib.Path):
    rows = run_bench(tmp_path, "--lanes", "2")
    assert [row["engine"] for row in rows] == [OURS, *INSTALLED]
    assert all(list(row) == ROW_KEYS for row in rows)
