"""Training of policies on two devices: the gradient is that of the joint batch on one."""

import os
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parent.parent.parent

SCRIPT = """
import os, sys
import jax, numpy as np
from jaxgadget.games.goofspiel import Goofspiel
from jaxgadget.learn.options import PolicyTrainingConfig
from jaxgadget.learn.policy_lesson import PolicyTask
from jaxgadget.learn.policy_training import train_policy
from jaxgadget.learn.ppo import PPO
from jaxgadget.learn.rnad import RNaD
from jaxgadget.networks.perceptron import initial_weights
from jaxgadget.policy.network import POLICY, load_policy, policy_shape
from jaxgadget.util.precision import precision

file, folder = sys.argv[1:]
machine = Goofspiel(num_cards=3, imp_info=True)
config = PolicyTrainingConfig(steps=12, batch_size=32, width=16, every=6, average=0.5)
shape = policy_shape(machine, config.width, config.depth)
task = PolicyTask(machine=machine, shape=shape, config=config, decisions=None)
found = {}
for method in (PPO(minibatches=2, epochs=3), RNaD(swap=5)):
    with precision(np.float32):
        lesson = method.lesson(task)
        weights = {POLICY: initial_weights(shape, 0)}
        weights |= {name: initial_weights(other, 1) for name, other in method.networks(task).items()}
        noise = np.random.default_rng(0)
        weights = jax.tree.map(lambda x: x + 0.2 * noise.normal(size=x.shape).astype(np.float32), weights)
        carried = jax.jit(lesson.carry)(lesson.init(weights), weights, np.int32(0))
        compiled = jax.jit(jax.grad(lesson.loss)).lower(weights, carried, np.int32(0)).compile()
        gradient = compiled(weights, carried, np.int32(0))
    assert ("all-reduce" in compiled.as_text()) == (jax.device_count() > 1)
    found |= {f"{method.name} {k}": np.asarray(x) for k, x in enumerate(jax.tree.leaves(gradient))}
    place = f"{folder}/{method.name}"
    whole = train_policy(machine, method, config=config, progress=False)
    part = train_policy(machine, method, config=config, folder=place, progress=False)
    os.rename(f"{place}/checkpoints/12", f"{folder}/{method.name}.lost")  # as if it had been killed before
    resumed = train_policy(machine, method, config=config, folder=place, progress=False)
    for other in (part, resumed):
        assert jax.tree.all(jax.tree.map(np.array_equal, other.policy.weights, whole.policy.weights))
    load_policy(place, machine)
np.savez(file, **found)
"""


def gradients(devices: int, folder: pathlib.Path) -> dict[str, Any]:
    pytest.importorskip("orbax.checkpoint")
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder / "found.npz"), str(folder)],
        cwd=ROOT,
        env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)},
        check=True,
        timeout=900,
    )
    with np.load(folder / "found.npz") as archive:
        return dict(archive)


@pytest.mark.longest
def test_the_gradient_of_two_devices_is_that_of_one(tmp_path: pathlib.Path):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one, two = gradients(1, tmp_path / "one"), gradients(2, tmp_path / "two")
    assert set(one) == set(two) and any(name.startswith("rnad") for name in one)
    for name, expected in one.items():
        assert np.abs(expected).max() > 0
        np.testing.assert_allclose(two[name], expected, rtol=1e-4, atol=1e-6, err_msg=name)
