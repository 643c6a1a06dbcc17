"""`train_policy` by games: what is learned, stored, resumed and refused."""

import dataclasses
import pathlib
from typing import Any

import jax
import numpy as np
import pytest

from jaxgadget.games.kuhn import KuhnPoker
from jaxgadget.learn.options import PolicyTrainingConfig
from jaxgadget.learn.policy_lesson import PolicyMethod, PolicyTask
from jaxgadget.learn.policy_training import PolicyTraining, train_policy
from jaxgadget.learn.ppo import PPO
from jaxgadget.learn.rnad import RNaD
from jaxgadget.networks.checkpoints import CHECKPOINTS
from jaxgadget.policy.network import load_policy, policy_shape
from jaxgadget.util.precision import precision

METHODS = [PPO(minibatches=3, epochs=2, clip=0.1), RNaD(swap=20)]
CONFIG = PolicyTrainingConfig(steps=90, batch_size=32, width=8, every=45, average=0.5, learning_rate=1e-2)


def train(method: PolicyMethod, folder: pathlib.Path | None = None, **settings: Any) -> PolicyTraining:
    config = dataclasses.replace(CONFIG, **settings)
    return train_policy(KuhnPoker(), method, config=config, folder=folder, progress=False)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS[:2], ids=lambda method: method.name)
def test_a_killed_training_resumes_bit_for_bit(method: PolicyMethod, tmp_path: pathlib.Path):
    """Between two minibatches of an epoch, and between two changes of the regularisation policy."""
    pytest.importorskip("orbax.checkpoint")
    whole = train(method, tmp_path / "network")
    assert len(list((tmp_path / "network" / CHECKPOINTS).iterdir())) == 2
    (tmp_path / "network" / CHECKPOINTS / "90").rename(tmp_path / "lost")  # as if it had been killed before
    resumed = train(method, tmp_path / "network")
    assert jax.tree.all(jax.tree.map(np.array_equal, resumed.policy.weights, whole.policy.weights))
    assert resumed.nash_conv == whole.nash_conv
    loaded = load_policy(tmp_path / "network", KuhnPoker())
    assert jax.tree.all(jax.tree.map(np.array_equal, loaded.weights, whole.policy.weights))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"minibatches": 0}, "minibatches=0"),
        ({"entropy": -1}, "entropy=-1"),
        ({"trace_decay": 1.5}, "trace_decay=1.5"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        PPO(**settings)
    with pytest.raises(ValueError, match="swap=0"):
        RNaD(swap=0)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_a_batch_of_games_that_does_not_fit_is_refused(method: PolicyMethod):
    machine, config = KuhnPoker(), dataclasses.replace(CONFIG, batch_size=500_000_000)
    task = PolicyTask(machine=machine, shape=policy_shape(machine, 8, 1), config=config, decisions=None)
    with precision(np.float32), pytest.raises(ValueError, match=r"games of kuhn_poker needs at least 1.. GB"):
        method.lesson(task)
