"""Several hosts under `jax.distributed`, simulated by two processes with two devices each."""

import json
import os
import pathlib
import socket
import subprocess
import sys
from typing import Any

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from jaxgadget import read_sweep
from jaxgadget.sweeping.store import TIMES

ROOT = pathlib.Path(__file__).parents[2]
SCRIPT = """
import json, sys
import jax

folder, process, port = sys.argv[1], int(sys.argv[2]), sys.argv[3]
if port:
    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=process)
import jaxgadget
from jaxgadget.sweeping.sweep import Workshop

used, solved = set(), []
put, solve = jax.device_put, Workshop.solve


def told_put(x, *where, **more):
    found = put(x, *where, **more)
    for leaf in jax.tree.leaves(found):
        if isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer):
            used.update(leaf.devices())
    return found


def told_solve(self, piece):
    solved.append(piece.key)
    return solve(self, piece)


jax.device_put, Workshop.solve = told_put, told_solve
grid = jaxgadget.SweepGrid(
    games={"kuhn_poker": ["depth:1", "depth:2"]},
    blueprints=["uniform", "cfr:3", "draws:4"],
    gadgets="resolving",
    iterations=[4, 6],
)
jaxgadget.sweep(folder, grid, blueprints_at_once=1)
tree = jaxgadget.enumerate_game(jaxgadget.load("kuhn_poker"))
result = jaxgadget.refine(tree, "depth:1", jaxgadget.make_blueprints(tree, "draws:4"), iterations=5)
numbers = {
    "devices": [len(jax.devices()), len(jax.local_devices())],
    "used": sorted({device.process_index for device in used}),
    "local": used <= set(jax.local_devices()),
    "spread": [plan.devices for plan in result.plans],
    "refined": result.refined_exploitability.tolist(),
    "solved": solved,
}
if port:
    try:
        solver = jaxgadget.Solver(iterations=5, devices=jax.devices())
        jaxgadget.refine(tree, "depth:1", jaxgadget.Policy.uniform(tree), solver=solver)
    except ValueError as error:
        numbers["refused"] = str(error)
print(json.dumps(numbers))
"""


def start(folder: pathlib.Path, process: int, port: str) -> subprocess.Popen[str]:
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(folder), str(process), port],
        cwd=ROOT,
        env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate(timeout=500)
    assert process.returncode == 0, err
    return json.loads(out.splitlines()[-1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("hosts")


@pytest.fixture(scope="module")
def alone(folder: pathlib.Path) -> dict[str, Any]:
    """A process without `jax.distributed`."""
    return answer(start(folder / "alone", 0, ""))


@pytest.fixture(scope="module")
def hosts(folder: pathlib.Path) -> list[dict[str, Any]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    started = [start(folder / "hosts", process, port) for process in (0, 1)]
    return [answer(process) for process in started]


def test_each_works_on_its_own_devices(hosts: list[dict[str, Any]]):
    for process, host in enumerate(hosts):
        assert host["devices"] == [4, 2]
        assert host["used"] == [process] and host["local"]
        assert set(host["spread"]) == {2}
        assert "expected some of jax.local_devices()" in host["refused"]


def test_each_does_its_own_pieces(hosts: list[dict[str, Any]], alone: dict[str, Any]):
    first, second = (host["solved"] for host in hosts)
    assert first and second
    assert sorted(first + second) == sorted(alone["solved"]) and len(set(alone["solved"])) == 2 * 2 * 2 * 6


def test_rows_and_results_are_those_of_one_process(
    hosts: list[dict[str, Any]], alone: dict[str, Any], folder: pathlib.Path
):
    def rows(name: str) -> pd.DataFrame:
        return read_sweep(folder / name).drop(columns=list(TIMES))

    assert_frame_equal(rows("hosts"), rows("alone"), check_exact=True)
    assert hosts[0]["refined"] == hosts[1]["refined"] == alone["refined"]
