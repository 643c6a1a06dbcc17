"""A training, or a match with search, that is killed with `kill -9` and resumes, in separate processes.

They are forked by a server as sweeps are, `python -m tests.slow.test_training_killed`, which calls `train`
instead; `written` reports a new checkpoint.
"""

import importlib
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

import jaxgadget
from jaxgadget.learn import range_training
from jaxgadget.learn.critic import train_critic
from jaxgadget.learn.mirror_descent import MirrorDescent
from jaxgadget.learn.options import PolicyTrainingConfig, RangeTrainingConfig, TrainerConfig
from jaxgadget.learn.policy_training import train_policy
from jaxgadget.learn.range_training import train_ranges
from jaxgadget.learn.training import train_value
from jaxgadget.networks.checkpoints import TrainingFolder
from jaxgadget.networks.perceptron import initial_weights
from jaxgadget.policy.match_folder import MatchFolder
from jaxgadget.policy.network import NetworkPolicy, find_machine, policy_shape
from jaxgadget.policy.policy import Policy
from jaxgadget.policy.positions import StatePositions
from jaxgadget.tree.history import HistoryTree, enumerate_game
from jaxgadget.tree.states import states_at
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.digest import digest
from jaxgadget.util.precision import precision
from tests.slow import zygote
from tests.solving import configured

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")

STEPS, EVERY = 24, 4

KILLS: list[dict[str, Any]] = [
    {"before": "log.json", "count": 2},  # a checkpoint exists, the next row of the log is not renamed yet
    {"at": "saving", "count": 2, "wait": 0.03},  # while orbax writes
    {"at": "written", "count": 1, "wait": 0.001},  # between two checkpoints
]

PARTS = 8
"""Number of parts of the match, of one match of each pair."""

PART_KILLS: list[dict[str, Any]] = [
    {"before": "part-00001.npz", "count": 1},  # a part exists, the next one is not renamed yet
    {"at": "saving", "count": 2, "wait": 0.0},
    {"at": "written", "count": 1, "wait": 0.001},
]


def network(game: str) -> NetworkPolicy:
    """A policy network with its initial weights."""
    machine = find_machine(jaxgadget.load(game))
    shape = policy_shape(machine, 8, 0)
    with precision(np.float32):
        return NetworkPolicy(machine=machine, shape=shape, weights=initial_weights(shape, 0))


class Lead:
    """A value function and baseline: the lead in Goofspiel."""

    num_entries = 1
    fingerprint = "lead"

    def __call__(self, tree: HistoryTree, histories: IntArray) -> FloatArray:
        return np.sign(states_at(tree, histories)[1].lead)[:, None, None].astype(float)

    def baseline(self, games: StatePositions) -> FloatArray:
        return np.tanh(games.state.lead / 3.0)


def play(folder: pathlib.Path) -> pd.DataFrame:
    """The table of a match of a network and search, with a digest of all games in every row."""
    policy = network("goofspiel(imp_info=True,num_cards=4,points_order=descending)")
    search = jaxgadget.SearchPlayer(policy, jaxgadget.Resolving(), values=Lead(), iterations=20)
    played = jaxgadget.play_players(
        policy.machine,
        {"network": policy, "search": search},
        matches=PARTS,
        seed=0,
        baseline=Lead().baseline,
        checkpoint=folder,
        every=1,
    )
    assert played.luck is not None
    return played.table.assign(games=digest(*played.games.pack().values(), played.luck))


def train(folder: pathlib.Path, settings: dict[str, Any]) -> pd.DataFrame:
    """The log, with a digest of the final weights in every row; of matches the table."""
    if settings["kind"] == "matches":
        return play(folder)
    tree = enumerate_game(jaxgadget.load("kuhn_poker"))
    how: dict[str, Any] = {
        "folder": folder,
        "steps": STEPS,
        "every": EVERY,
        "batch_size": 8,
        "width": 8,
        "depth": 0,
    }
    kind = settings["kind"]
    sizes = {name: how[name] for name in how if name != "folder"}
    if kind == "critic":
        found = train_critic(network("kuhn_poker"), 2, config=TrainerConfig(**sizes), folder=folder)
        return found.log.assign(weights=digest(*map(np.asarray, jax.tree.leaves(found.critic.weights))))
    if kind == "policy":
        config = PolicyTrainingConfig(**sizes)
        found = train_policy(tree, MirrorDescent(inner=5), config=config, folder=folder)
        return found.log.assign(weights=digest(*map(np.asarray, jax.tree.leaves(found.policy.weights))))
    if kind == "ranges":
        found = train_ranges(
            tree, "depth:2", **configured(RangeTrainingConfig, samples=16, rounds=1, iterations=20, **how)
        )
    else:
        portfolio = Policy.stack([Policy.dirichlet(tree, seed) for seed in range(2)])
        found = train_value(tree, portfolio, **configured(**how))
    return found.log.assign(weights=digest(*map(np.asarray, jax.tree.leaves(found.values.weights))))


def instrument(pipe: int, kill: dict[str, Any]) -> None:
    """Report events, in the child process only."""
    save, write, replace = TrainingFolder.save, MatchFolder.write, os.replace
    left = [kill.get("count", 1)]

    def tell(*event: Any) -> None:
        os.write(pipe, json.dumps(event).encode() + b"\n")

    def told_save(self: TrainingFolder, progress: Any, log: Any) -> None:
        tell("saving")
        save(self, progress, log)
        tell("written", int(progress.step))

    def told_write(self: MatchFolder, number: int, matches: range, games: Any, luck: FloatArray) -> None:
        tell("saving")
        write(self, number, matches, games, luck)
        tell("written", number)

    def told_replace(source: Any, target: Any, **more: Any) -> None:
        if pathlib.Path(target).name == kill.get("before"):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), 9)
        replace(source, target, **more)

    TrainingFolder.save = told_save
    MatchFolder.write = told_write
    os.replace = told_replace


@pytest.fixture
def server(tmp_path: pathlib.Path) -> Iterator[subprocess.Popen[str]]:
    cache = os.environ.get("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "cache"))
    process = subprocess.Popen(
        [sys.executable, "-m", __name__],
        cwd=pathlib.Path(zygote.__file__).parents[2],
        env=os.environ
        | zygote.ALONE
        | {"JAX_COMPILATION_CACHE_DIR": cache, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
        | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "true"},  # most of the time is compiling
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        yield process


def order(
    server: subprocess.Popen[str], folder: pathlib.Path, kind: str, kill: dict[str, Any] | None = None
) -> dict[str, Any]:
    assert server.stdin is not None and server.stdout is not None
    asked = {"folder": str(folder), "settings": {"kind": kind}, "copies": 1, "kill": kill}
    print(json.dumps(asked), file=server.stdin, flush=True)
    (answer,) = json.loads(server.stdout.readline())
    return answer


def returned(folder: pathlib.Path) -> pd.DataFrame:
    log = pd.read_pickle(folder.with_name(f"{folder.name}-0.pickle"))
    return log.drop(columns=["seconds", "examples_per_second"], errors="ignore")


@pytest.mark.parametrize("kind", ["ranges", "critic", "matches"])
def test_killed_it_ends_with_the_result_of_an_undisturbed_one(
    server: subprocess.Popen[str], tmp_path: pathlib.Path, kind: str
):
    pytest.importorskip("orbax.checkpoint")
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    every, kills = list(range(EVERY, STEPS + 1, EVERY)), KILLS
    if kind == "matches":
        every, kills = list(range(PARTS)), PART_KILLS
    undisturbed = order(server, whole, kind)
    assert not undisturbed["failed"] and undisturbed["written"] == every
    written: list[int] = []
    for number, kill in enumerate(kills):
        found = order(server, folder, kind, kill)
        assert found["killed"], f"{number}: {kill} came too late"
        written += found["written"]
    assert len(kills) <= len(written) < len(every) - 1, "some progress, and something left"
    last = order(server, folder, kind)
    assert not last["failed"] and not last["killed"]
    written += last["written"]
    assert len(set(written)) == len(written), "what was finished was done again"
    assert set(written) <= set(every) and len(written) >= len(every) - len(kills)
    assert_frame_equal(returned(folder), returned(whole), check_exact=True)
    assert kind == "matches" or list(returned(folder)["step"]) == every


if __name__ == "__main__":
    importlib.import_module("orbax.checkpoint")
    range_training.SEARCHES, range_training.VISITED_BLUEPRINTS = ((6, 15.0),), 4
    zygote.run, zygote.instrument = train, instrument
    zygote.serve()
