"""Lanes over several devices: eight simulated ones, in a separate process."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.slow

SCRIPT = """
import json, re, sys
import jax, numpy as np
import jaxgadget
from jaxgadget import BlueprintPrior, MaxMargin, NoPrior
from jaxgadget.gadgets.games import build_games
from jaxgadget.core import cfr
from jaxgadget.core.regret import find_rule
from jaxgadget.core.devices import find_placement
from jaxgadget.core.driver import solve
from jaxgadget.core.memory import loop_size
from jaxgadget.core.solver import Solver
from jaxgadget.util.precision import precision
from tests.subgames.test_refine import NUMBERS, SHAPE, CUT, blueprints, counted, small, solved
from jaxgadget.subgames.prepare import prepare
from jaxgadget.tree.forest import build_forest
from jaxgadget.util.lanes import Lanes

asked = (MaxMargin(NoPrior()), MaxMargin(BlueprintPrior(), 0.02), MaxMargin(NoPrior()))
eight = jax.devices()


def both(**options):
    one = solved(asked=asked, devices=eight[:1], **options)
    with counted() as compiled:
        several = solved(asked=asked, **options)
    return one, several, [event for event in compiled if "backend_compile" in event]


def largest(one, several):
    names = [*zip(one.policy.probabilities, several.policy.probabilities)]
    names += [(getattr(one, name), getattr(several, name)) for name in NUMBERS]
    return max(float(np.nanmax(np.abs(np.subtract(a, b, dtype=float)))) for a, b in names)


def collectives(compiled):
    names = ("all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter")
    return {name: len(re.findall(name + r"(-start)?[(]", compiled.as_text())) for name in names}


found = {"devices": len(eight), "differences": [], "within": [], "programs": {}}
for iterations in range(1, 6):
    one, several, compiled = both(iterations=iterations)
    found["differences"].append(largest(one, several))
    found["compiled"] = len(compiled)
found["plan"] = [several.plans[0].lanes, several.plans[0].chunk, several.plans[0].devices]
third = find_placement(eight[3:4]).by_lane(np.ones((2, 3)))
found["third"] = third.committed and third.devices() == {eight[3]}
one, several, _ = both(iterations=500)
for several in (several, solved(asked=asked, iterations=500, dtype="float32")):
    slack = 1e-12
    found["within"].append(
        bool((one.gadget_value <= several.gadget_value + several.gap + slack).all())
        and bool((several.gadget_value <= one.gadget_value + one.gap + slack).all())
        and float(several.gap.max()) < 0.05
    )
prepared = prepare(build_forest(small()[0], CUT), 0, blueprints(), asked)
none = np.zeros(16, np.int64)
lanes = Lanes(gadget=none, opponent=none, blueprint=np.arange(16) % 3, draw=none)
chunks = []
games = build_games(prepared, asked[:1], lanes=lanes)
solve(games.batch, Solver(algorithm="cfr+", iterations=1), lambda ended: chunks.append(ended))
problem, state = chunks[0].problem, chunks[0].state
with precision(np.float32):
    last = jax.device_put(np.int32(9))
    loop = cfr.run.lower(problem, state, last, rule=find_rule("cfr+")).compile()
    goal = jax.device_put(np.float32(0))
    going_on = find_placement(jax.devices()).by_lane(np.zeros(16, np.int32))
    looks = cfr.run_to_gap.lower(
        problem, state, going_on, last, goal, rule=find_rule("cfr+"), check_every=5
    ).compile()
    found["programs"] = {"loop": collectives(loop), "looks": collectives(looks)}
    used = loop.memory_analysis()  # of each device
    used = used.argument_size_in_bytes + used.output_size_in_bytes + used.temp_size_in_bytes
    found["bytes"] = [used - loop.memory_analysis().alias_size_in_bytes, loop_size(problem).total(2)]
    found["split"] = str(state.plan[0].body.sharding.shard_shape(state.plan[0].body.shape)[1])
jaxgadget.solve(small()[0], solver=Solver(iterations=2, checkpoint=sys.argv[1]))
with np.load(sys.argv[1]) as archive:
    found["whole"] = sorted({archive[name].shape[-1] for name in archive.files if archive[name].ndim == 2})
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = pathlib.Path(__file__).parents[2]
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path_factory.mktemp("whole") / "game.npz")],
        cwd=root,
        env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["devices"] == 8
    return result


def test_the_first_iterations_are_those_of_one_device(found: dict[str, Any]) -> None:
    assert found["plan"] == [9, 16, 8]  # padded to two lanes per device
    assert len(found["differences"]) == 5 and max(found["differences"]) <= 1e-12
    assert found["third"]


def test_at_full_length_they_agree_within_their_certificates(found: dict[str, Any]) -> None:
    assert found["within"] == [True, True]


def test_a_second_solve_compiles_nothing(found: dict[str, Any]) -> None:
    assert found["compiled"] == 0


def test_devices_exchange_nothing_but_whether_lanes_go_on(found: dict[str, Any]) -> None:
    assert found["split"] == "2"
    assert set(found["programs"]["loop"].values()) == {0}
    looks = found["programs"]["looks"]
    assert looks.pop("all-reduce") == 1 and set(looks.values()) == {0}


def test_each_device_takes_the_bytes_that_are_planned_for_its_lanes(found: dict[str, Any]) -> None:
    used, planned = found["bytes"]
    assert 1 / 1.3 <= planned / used <= 1.3


def test_a_whole_game_is_one_lane_on_one_device(found: dict[str, Any]) -> None:
    """Its checkpoint is therefore the same on every machine."""
    assert found["whole"] == [1]
