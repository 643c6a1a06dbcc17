"""Programs on one device, on eight virtual ones, and on two hosts of `jax.distributed` with three each.

Work is distributed over the devices; numbers equal those of one device, bit for bit where a lane is computed
by the same program.
"""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[2]
SCRIPT = """
import json, sys
import jax, numpy as np

file, process, port = sys.argv[1:]
if port:
    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=int(process))
import jaxgadget as jg
from jaxgadget.bench.bench import bench, place_whole_game
from jaxgadget.core.cfr import run
from jaxgadget.core.devices import Placement
from jaxgadget.core.regret import CFR_PLUS
from jaxgadget.holdem.solve import _SolvedBatches
from jaxgadget.subgames.spots import _RefinedBatches
from jaxgadget.tree.whole import sequence_form
from jaxgadget.util.precision import precision

chosen = {"solved": [], "refined": []}


def noting(kind, name):
    solve = kind.solve

    def solve_noted(self, numbers, solver, report):
        chosen[name].append(([device.id for device in solver.devices], len(numbers)))
        return solve(self, numbers, solver, report)

    kind.solve = solve_noted


noting(_SolvedBatches, "solved")
noting(_RefinedBatches, "refined")
few = jg.Solver(iterations=4, dtype="float64", progress=False)
found = {}


def flat(*arrays):
    return np.concatenate([np.ravel(x) for x in arrays])


tree = jg.enumerate_game(jg.load("kuhn_poker"))
blueprints = jg.make_blueprints(tree, "draws:5")
whole = jg.solve(tree, iterations=50)
found["whole"] = flat(*whole.policy.probabilities)
many = sequence_form(tree)
with precision(np.float64):
    game = many, 11, np.dtype(np.float64), CFR_PLUS, Placement(tuple(jax.local_devices()))
    plan, problem, states = place_whole_game(*game)
    held = states[0].strategy_sum[0].body.addressable_shards[0].data.nbytes
    assert held * plan.devices == states[0].strategy_sum[0].body.nbytes, "no device has all of it"
    sums = [run(problem, state, np.int32(9), rule=CFR_PLUS).strategy_sum for state in states]
    lanes = [np.concatenate([part[player].body for part in sums], axis=-1)[:, :11] for player in (0, 1)]
assert plan.devices == len(sums[0][0].body.devices()) == len(jax.local_devices())
found["whole games"] = flat(*lanes)
timed = bench("kuhn_poker", engines=["jaxgadget"], lanes=[1, 11], devices=jax.local_devices(), iterations=3)
assert timed.devices == len(jax.local_devices()) and [row.lanes for row in timed.rows] == [1, 11]
by_hands = jg.solve(jg.public_tree(jg.load("kuhn_poker")), iterations=50)
found["by hands"] = flat(*by_hands.policy.probabilities)
refined = jg.refine(tree, "depth:1", blueprints, [jg.Resolving(), jg.MaxMargin(jg.NoPrior())], solver=few)
kept = {"dtype": "float64", "progress": False, "checkpoint": f"{file}.kept"}
for iterations in (2, 4):  # 10 lanes, which eight devices fill up with copies
    solver = jg.Solver(iterations=iterations, **kept)
    gadgets = [jg.Resolving(), jg.MaxMargin(jg.NoPrior())]
    resumed = jg.refine(tree, "depth:1", blueprints, gadgets, solver=solver)
solver = jg.Solver(iterations=4, devices=jax.local_devices()[:4], **kept)
fewer = jg.refine(tree, "depth:1", blueprints, gadgets, solver=solver)
found["resumed on fewer"] = flat(fewer.refined_exploitability, *fewer.policy.probabilities)
found["resumed"] = flat(resumed.refined_exploitability, *resumed.policy.probabilities)
found["refine"] = flat(refined.refined_exploitability, *refined.policy.probabilities)
share = range(jax.process_index(), blueprints.num_lanes, jax.process_count())
shared = jg.Policy.stack([blueprints.lane(k) for k in share])
shared = jg.refine(tree, "depth:1", shared, jg.Resolving(), solver=few)
shared = [shared.refined_exploitability, *shared.policy.probabilities]
forest = jg.build_forest(tree, "depth:1")
solved = jg.solve_ranges(forest, jg.draw_ranges(forest, 11), solver=few)
found["ranges"] = flat(*solved.values, solved.gap)
menu = jg.BetMenu(bets=(0.5,), raises=(1.0,), cap=2)
boards = ("Td9d6hQc2s", "2s3h4d6c7c", "AsKsQd8h8c", "Jh7h5h3c2d", "9c9d4s4hKd")
spots = [
    jg.Spot(board=board, oop="AA,JTs,76s:0.5", ip="KQ,55,T8s", pot=60, stack=200, menus=menu)
    for board in boards
]
rivers = jg.solve_spots(spots, solver=few)


def numbers_of(solution):
    return flat(*solution.probabilities, solution.ev, solution.gap)


found["rivers"] = flat(*map(numbers_of, rivers))
by_spot = jg.refine_spots(spots, jg.Resolving(), blueprints=rivers, solver=few)
found["spots"] = flat(*[x for (each,) in by_spot for x in (each.policy.probabilities[0], each.gap)])
first = jg.Solver(iterations=4, dtype="float64", progress=False, devices=jax.local_devices()[:1])
alone = [jg.solve_spots([spot], solver=first)[0] for spot in spots]
found["rivers by themselves"] = flat(*map(numbers_of, alone))
settings = {"steps": 20, "batch_size": 8, "width": 8, "heldout": 0.1}
trained = jg.train_value(tree, blueprints, config=jg.TrainingConfig(**settings), progress=False)
found["training"] = flat(*jax.tree.leaves(trained.values.weights))
config = jg.RangeTrainingConfig(**settings | {"samples": 19, "rounds": 0, "iterations": 2})
of_ranges = jg.train_ranges(tree, "depth:1", config=config, progress=False)
found["training of ranges"] = flat(*jax.tree.leaves(of_ranges.values.weights))
grid = {"blueprints": "draws:9", "gadgets": "resolving", "iterations": 4}
grid = jg.SweepGrid(games="kuhn_poker", cuts="depth:1", **grid)
rows = jg.sweep(f"{file}.sweep", grid, solver=jg.Solver(dtype="float64", progress=False))
found["sweep"] = rows["refined_exploitability"].to_numpy()

limit = 40_000
small = jg.Solver(iterations=2, memory_limit=limit, progress=False)
many = jg.refine(tree, "depth:1", jg.make_blueprints(tree, "draws:300"), jg.Resolving(), solver=small)
plans = [[plan.devices, plan.lanes, plan.chunk, plan.bytes] for plan in many.plans]
np.savez(file, **found)
shared = [each.tolist() for each in shared]
print(json.dumps({"chosen": chosen, "plans": plans, "limit": limit, "file": file, "shared": shared}))
"""


def start(file: pathlib.Path, devices: int, process: int = 0, port: str = "") -> subprocess.Popen[str]:
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(file), str(process), port],
        cwd=ROOT,
        env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


Found = tuple[dict[str, Any], dict[str, Any]]


def answer(process: subprocess.Popen[str], file: pathlib.Path) -> Found:
    """The arrays, and further records of the program."""
    out, err = process.communicate(timeout=900)
    assert process.returncode == 0, err
    with np.load(file) as archive:
        return dict(archive), json.loads(out.splitlines()[-1])


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Found:
    file = tmp_path_factory.mktemp("one") / "found.npz"
    return answer(start(file, 1), file)


@pytest.fixture(scope="module")
def eight(one: Found, tmp_path_factory: pytest.TempPathFactory) -> Found:
    """Its sweep began on one device and lacks all of its pieces."""
    file = tmp_path_factory.mktemp("eight") / "found.npz"
    shutil.copytree(f"{one[1]['file']}.sweep", f"{file}.sweep")
    for piece in pathlib.Path(f"{file}.sweep", "pieces").iterdir():
        piece.unlink()
    return answer(start(file, 8), file)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> list[Found]:
    folder = tmp_path_factory.mktemp("hosts")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    files = [folder / f"{process}.npz" for process in (0, 1)]
    started = [start(file, 3, process, port) for process, file in enumerate(files)]
    return [answer(process, file) for process, file in zip(started, files, strict=True)]


SAME = ("whole", "by hands", "training", "rivers by themselves")
"""Results computed on one device, whatever the number of devices."""

CLOSE = {
    "whole games": 1e-12,
    "resumed": 1e-12,
    "resumed on fewer": 1e-12,
    "refine": 1e-12,
    "ranges": 1e-12,
    "rivers": 1e-12,
    "spots": 1e-12,
    "sweep": 1e-12,
}
CLOSE["training of ranges"] = 1e-5
"""Results computed on several devices: other numbers of lanes round differently; ranges use float32."""


def check(found: dict[str, Any], one: dict[str, Any]) -> None:
    assert set(found) == set(one) == {*SAME, *CLOSE}
    for name in SAME:
        np.testing.assert_array_equal(found[name], one[name], err_msg=name)
    for name, within in CLOSE.items():
        np.testing.assert_allclose(found[name], one[name], rtol=0, atol=within, err_msg=name)


def test_eight_devices_compute_the_results_of_one(eight: Found, one: Found):
    check(eight[0], one[0])


def test_each_of_two_hosts_computes_the_results_of_one_device(hosts: list[Found], one: Found):
    for found, _ in hosts:
        check(found, one[0])
    for name in hosts[0][0]:
        np.testing.assert_array_equal(hosts[0][0][name], hosts[1][0][name], err_msg=name)


def test_two_hosts_share_five_blueprints(hosts: list[Found], one: Found):
    """As in the guide: three for the first host, two for the second one."""
    for whole, *shares in zip(*(noted["shared"] for _, noted in (one, *hosts)), strict=True):
        joined = np.empty_like(whole)
        assert [np.shape(share)[-1] for share in shares] == [3, 2]
        for process, share in enumerate(shares):
            joined[..., process::2] = share
        np.testing.assert_allclose(joined, whole, rtol=0, atol=1e-12)


def test_a_river_for_each_device_is_bit_for_bit_that_of_one(eight: Found):
    np.testing.assert_array_equal(eight[0]["rivers"], eight[0]["rivers by themselves"])


def test_rivers_are_spread(eight: Found, hosts: list[Found], one: Found):
    """Five spots: one per device, two per device, all on one; then each spot on the first device."""
    for name in ("solved", "refined"):
        batches = eight[1]["chosen"][name][:5]
        assert [count for _, count in batches] == [1] * 5
        assert len({device for devices, _ in batches for device in devices}) > 1
        assert one[1]["chosen"][name][0] == [[0], 5]
        for process, (_, noted) in enumerate(hosts):
            batches = noted["chosen"][name][:3]
            assert sorted(count for _, count in batches) == [1, 2, 2]
            assert {len(devices) for devices, _ in batches} == {1}
            # Devices of the second process are numbered differently from those of the first.
            assert all((device >= 3) == (process == 1) for devices, _ in batches for device in devices)


def test_each_device_keeps_to_its_memory(eight: Found, hosts: list[Found], one: Found):
    """A chunk has as many lanes per device as fit there; the last chunk is padded."""
    for devices, (_, noted) in ((1, one), (8, eight), *((3, host) for host in hosts)):
        ((found, lanes, chunk, num_bytes),) = noted["plans"]
        assert (found, lanes) == (devices, 300) and chunk % devices == 0 and lanes % chunk
        assert num_bytes <= noted["limit"] and chunk < lanes
