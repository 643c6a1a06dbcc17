"""Training of a policy network by any method: `train_policy`."""

from __future__ import annotations

import dataclasses
import math
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from jaxgadget.games.checks import check_machine
from jaxgadget.games.game import TooLargeError
from jaxgadget.games.machine import StateMachine
from jaxgadget.learn.decisions import Decisions
from jaxgadget.learn.options import PolicyTrainingConfig
from jaxgadget.learn.policy_lesson import PolicyMethod, PolicyTask
from jaxgadget.learn.trainer import Lesson, Trainer, TrainingResult
from jaxgadget.networks.checkpoints import NetworkKind, open_training
from jaxgadget.networks.perceptron import PerceptronShape, Weights, initial_weights
from jaxgadget.policy.evaluate import nash_conv
from jaxgadget.policy.network import KIND, POLICY, NetworkPolicy, find_machine, policy_shape
from jaxgadget.tree.history import HistoryTree, check_whole, enumerate_game
from jaxgadget.tree.tree import TreeGame
from jaxgadget.util.precision import precision
from jaxgadget.util.progress import progress_bar

MAX_EVALUATED = 2_000_000
"""Default maximum number of histories of a game that is enumerated."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PolicyTraining(TrainingResult):
    """Result of `train_policy`.

    The log's measure is `nash_conv`, exact and in payoff units; NaN if the game is too large to evaluate.

    Attributes:
      policy: the trained network.
      nash_conv: NashConv of the policy; NaN if the game is too large to evaluate.
    """

    policy: NetworkPolicy
    nash_conv: float

    def __repr__(self) -> str:
        return f"<PolicyTraining of {self.policy.machine.name}: NashConv {self.nash_conv:.3g}>"


def train_policy(
    game: TreeGame | HistoryTree,
    method: PolicyMethod,
    *,
    config: PolicyTrainingConfig | None = None,
    folder: str | os.PathLike[str] | None = None,
    max_histories: int = MAX_EVALUATED,
    progress: bool | None = None,
) -> PolicyTraining:
    """Trains a network to play a game.

    One network for both players maps the features of the acting player's infostate and its seat to
    probabilities of actions. AdamW, with linear warm-up over 2 % of the steps, then cosine decay. Results are
    reproducible, also for a resumed training: bit for bit with the same JAX version, CPU and number of cores.

    Args:
      game: the game, a `StateMachine`, or its tree.
      method: `Distil(target)`, `MirrorDescent()`, or `PPO()` or `RNaD()`, which sample games.
      config: settings of the training; by default those of the method, `method.config`.
      folder: folder for checkpoints and the log; a training stored there is resumed.
      max_histories: maximum number of histories up to which the game's tree is enumerated, for NashConv and
        for methods that need it.
      progress: a bar, or a line a minute in a log; by default a bar, on a terminal or in a notebook.

    Raises:
      ValueError: if an argument is out of range or of another game, the method needs a tree and the game is
        too large, the folder holds another training, or a number is not finite (names the step; the last
        checkpoint remains).
      ImportError: if `folder` is not None and orbax is not installed.
    """
    began = time.perf_counter()
    config = method.config if config is None else PolicyTrainingConfig.of(config)
    tree = check_whole(game) if isinstance(game, HistoryTree) else None
    machine = find_machine(game.game if isinstance(game, HistoryTree) else game)
    check_machine(machine)
    tree = _enumerate(machine, max_histories, progress) if tree is None else tree
    shape = policy_shape(machine, config.width, config.depth)
    config.check_room(shape.inputs, shape.outputs)
    decisions = None if tree is None else Decisions.of(tree)
    task = PolicyTask(machine=machine, shape=shape, config=config, decisions=decisions)

    def measure(policy: NetworkPolicy, lesson: Lesson) -> dict[str, float]:
        return {"nash_conv": _nash_conv(policy, decisions)}

    policy, trainer = train_task(task, method, measure, folder, KIND, progress, began)
    final = trainer.log[-1]["nash_conv"]
    return PolicyTraining(
        policy=policy, log=pd.DataFrame(trainer.log), nash_conv=final, seconds=trainer.seconds()
    )


def train_task(
    task: PolicyTask,
    method: PolicyMethod,
    measure: Callable[[NetworkPolicy, Lesson], dict[str, float]],
    folder: str | os.PathLike[str] | None,
    kind: NetworkKind,
    progress: bool | None,
    began: float,
) -> tuple[NetworkPolicy, Trainer]:
    """Trains the network of a task.

    Args:
      task: the network, and the settings of the training.
      method: the method.
      measure: function of the current network and the lesson that returns columns of the log.
      folder: folder for checkpoints and the log, or None.
      kind: kind of the folder.
      progress: as for `train_policy`.
      began: start of this run, from `time.perf_counter`.

    Returns:
      The network, and the trainer with its log.
    """
    config, shape = task.config, task.shape
    with precision(np.float32):
        lesson, others = method.lesson(task), method.networks(task)
        weights = _initial(shape, others, config.seed)
        policy = NetworkPolicy(machine=task.machine, shape=shape, weights=weights[POLICY])
        if folder is not None:
            policy.name = os.fspath(folder)
        training = config.describe() | {"method": method.name, **method.describe(lesson)}
        described = policy.describe(training, others)

        def columns(weights: Weights) -> dict[str, float]:
            return measure(dataclasses.replace(policy, weights=weights[POLICY]), lesson)

        with open_training(folder, described, kind) as keeper:
            trainer = Trainer(config, lesson, weights, columns, keeper, began)
            with progress_bar("training", config.steps, progress) as report:
                trainer.train(report)
        policy.weights = trainer.progress.network[POLICY]
    return policy, trainer


def _enumerate(machine: StateMachine[Any], limit: int, progress: bool | None) -> HistoryTree | None:
    """The game's tree; None if it is too large."""
    try:
        return enumerate_game(machine, max_histories=limit, progress=progress)
    except TooLargeError:
        return None


def _initial(shape: PerceptronShape, others: dict[str, PerceptronShape], seed: int) -> Weights:
    """Random weights of all networks, each from a separate seed."""
    weights = {POLICY: initial_weights(shape, seed)}
    for index, (name, other) in enumerate(others.items()):
        weights[name] = initial_weights(other, seed + index + 1)
    return weights


def _nash_conv(policy: NetworkPolicy, decisions: Decisions | None) -> float:
    """NashConv; NaN without decisions, infinite if a probability is not finite."""
    if decisions is None:
        return math.nan
    table = policy.rows(decisions.inputs, decisions.legal)
    if not np.isfinite(table).all():
        return math.inf
    return float(nash_conv(decisions.policy(table, policy.name))[0])
