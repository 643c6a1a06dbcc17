"""Critics: multi-valued states of games that are not enumerated, learned from play, and `train_critic`.

A critic sees both players' features, as a rule the whole state, and has a value for each pair of
continuations, as at a depth limit each player chooses how the game goes on (Brown, Sandholm and Amos 2018;
Kubíček, Burch and Lisý 2024). Continuations are the policy network and the network biased to classes of
actions, as in a portfolio.
"""

from __future__ import annotations

import dataclasses
import os
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxgadget.games.checks import check_machine
from jaxgadget.games.machine import StateMachine, sum_of_returns
from jaxgadget.learn.actor_critic import measure_game
from jaxgadget.learn.options import TrainerConfig
from jaxgadget.learn.rollouts import play_by
from jaxgadget.learn.trainer import Stateless, Trainer, TrainingResult
from jaxgadget.networks.checkpoints import (
    NetworkKind,
    last_step,
    open_training,
    parsing,
    read_description,
    restore_weights,
)
from jaxgadget.networks.perceptron import (
    PerceptronShape,
    Weights,
    abstract_weights,
    batches,
    evaluate,
    initial_weights,
)
from jaxgadget.policy.network import (
    NetworkPolicy,
    check_game,
    check_shape,
    check_trained,
    state_policy,
)
from jaxgadget.policy.portfolio import FACTOR, SIZE
from jaxgadget.policy.positions import StatePositions
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.states import states_at
from jaxgadget.tree.tree import TreeGame
from jaxgadget.util.arguments import check_whole_number, is_finite_number
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.compilation import compiled
from jaxgadget.util.digest import digest
from jaxgadget.util.precision import precision
from jaxgadget.util.progress import progress_bar

KIND = NetworkKind(name="critic", version=1, writer="train_critic")
"""Kind of network of the training folder."""

ROWS = 1 << 16
"""Maximum number of histories whose states are found at a time."""


def action_weights(num_actions: int, num_entries: int, factor: float) -> FloatArray:
    """`[K, A]` factors of actions in each continuation: all 1, then `factor` for one class of actions each.

    Classes are neighbouring actions, as evenly as possible.
    """
    weights = np.ones((num_entries, num_actions))
    if num_entries == 1:
        return weights
    for entry, actions in enumerate(np.array_split(np.arange(num_actions), num_entries - 1), 1):
        weights[entry, actions] = factor
    return weights


def _inputs(machine: StateMachine[Any], state: Any) -> FloatArray:
    """`[n, 2F]` both players' features."""
    return np.concatenate([np.asarray(machine.features(state, player)) for player in (0, 1)]).T


@dataclasses.dataclass(eq=False, kw_only=True, repr=False)
class NetworkCritic:
    """A trained critic: a value function of histories in trees of its game, whole or from a public state.

    Attributes:
      machine: rules of the game.
      shape: its architecture.
      scale: unit of its outputs.
      num_entries: number of continuations, K.
      weights: its parameters.
      policy: `policy_digest` of the network whose continuations it values.
      name: name for tables: its folder, otherwise `critic`.
    """

    machine: StateMachine[Any]
    shape: PerceptronShape
    scale: float
    num_entries: int
    weights: Weights
    policy: str = ""
    name: str = "critic"

    def __repr__(self) -> str:
        return f"<NetworkCritic of {self.machine.name}: K = {self.num_entries}>"

    @property
    def fingerprint(self) -> str:
        """Digest of its weights and scale."""
        return digest(np.asarray(self.scale), *map(np.asarray, jax.tree.leaves(self.weights)))

    def values(self, state: Any) -> FloatArray:
        """`[n, K, K]` player 0's expected payoffs at n states in NumPy, for each pair of continuations."""
        inputs = _inputs(self.machine, state)
        values = np.empty((len(inputs), self.shape.outputs))
        for rows, size in batches(len(inputs)):
            padded = np.zeros((size, self.shape.inputs), np.float32)
            padded[: rows.stop - rows.start] = inputs[rows]
            with precision(np.float32):
                outputs = np.asarray(_evaluate(self.shape, self.weights, padded))
            values[rows] = outputs[: rows.stop - rows.start]
        return self.scale * values.reshape(-1, self.num_entries, self.num_entries)

    def baseline(self, games: StatePositions) -> FloatArray:
        """`[n]` player 0's payoff if both players follow the policy, for `play_players(baseline=…)`."""
        return self.values(games.state)[:, 0, 0]

    def __call__(self, tree: HistoryTree, histories: IntArray) -> FloatArray:
        """Values of histories for player 0, `[H, K, K]`.

        Raises:
          ValueError: if the tree is of another game.
        """
        check_game(self.machine.name, tree.game, repr(self))
        parts = [
            self.values(states_at(tree, histories[begin : begin + ROWS])[1])
            for begin in range(0, len(histories), ROWS)
        ]
        return np.concatenate([np.zeros((0, self.num_entries, self.num_entries)), *parts])


_evaluate = compiled(evaluate, static_argnums=0)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class CriticLesson(Stateless):
    """The `Lesson` of a critic by branching: an unbiased target for one pair of continuations a game.

    A game follows a mixture of the policy and uniform play, with a random share for each player, up to a
    random step, and then a random pair of continuations to its end. The value of this pair at the state of
    the step is the expected return.

    Attributes:
      policy: weights of the policy network.
      action_weights: `[K, A]` of the continuations.
      scale: unit of the critic's outputs.
      half: half of the sum of both players' returns.
      key: random key.
      machine: the rules.
      policy_shape: architecture of the policy network.
      shape: architecture of the critic.
      batch_size: games per step.
    """

    policy: Weights
    action_weights: jax.Array
    scale: jax.Array
    half: jax.Array
    key: jax.Array
    machine: StateMachine[Any] = dataclasses.field(metadata={"static": True})
    policy_shape: PerceptronShape = dataclasses.field(metadata={"static": True})
    shape: PerceptronShape = dataclasses.field(metadata={"static": True})
    batch_size: int = dataclasses.field(metadata={"static": True})

    def loss(self, weights: Weights, carried: None, step: jax.Array) -> jax.Array:
        """Mean squared error over the games of a step, in units of `scale`²."""
        inputs, entries, returns, goes_on = self.branch(step)
        table = evaluate(self.shape, weights, inputs)
        size = len(self.action_weights)
        values = jnp.take_along_axis(table, (entries[0] * size + entries[1])[:, None], axis=1)[:, 0]
        squares = jnp.where(goes_on, jnp.square(values - returns), 0)
        return jnp.sum(squares) / jnp.maximum(jnp.sum(goes_on), 1).astype(jnp.float32)

    def branch(self, step: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        """One state of each game of a step, with a target.

        Returns:
          `[n, 2F]` inputs, `[2, n]` both players' continuations, `[n]` returns in units of `scale`, and `[n]`
          a mask of the games that are not over at this step.
        """
        n, key = self.batch_size, jax.random.fold_in(self.key, step)
        keys = [jax.random.fold_in(key, number) for number in range(4)]
        branched = jax.random.randint(keys[0], (n,), 0, self.machine.max_moves)
        entries = jax.random.randint(keys[1], (2, n), 0, len(self.action_weights))
        share = jax.random.uniform(keys[2], (2, n))
        network = state_policy(self.machine, self.policy_shape, self.policy)

        def policy_at(move: jax.Array) -> Any:
            def probabilities(state: Any, player: int) -> jax.Array:
                own, legal = network(state, player), self.machine.legal(state, player).astype(jnp.float32)
                uniform = legal / jnp.maximum(legal.sum(axis=0), 1)
                mixture = (1 - share[player]) * own + share[player] * uniform
                continued = own * self.action_weights[entries[player]].T
                return jnp.where(move < branched, mixture, continued / continued.sum(axis=0))

            return probabilities

        games = play_by(self.machine, policy_at, keys[3], jnp.int32(0), n)
        row = jnp.arange(n)
        inputs = games.features[branched, :, row].reshape(n, -1).astype(jnp.float32)
        returns = (games.returns[0] - self.half) / self.scale
        goes_on = games.acting[branched, :, row].any(axis=1) | (games.outcome[branched, row] >= 0)
        return inputs, entries, returns, goes_on


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CriticTraining(TrainingResult):
    """Result of `train_critic`; the log's loss is in squares of `critic.scale`, the returns' noise included.

    Attributes:
      critic: the trained critic.
    """

    critic: NetworkCritic

    def __repr__(self) -> str:
        return f"<CriticTraining of {self.critic!r}: loss {self.log['loss'].iloc[-1]:.3g}>"


def train_critic(
    policy: NetworkPolicy,
    num_entries: int = SIZE,
    *,
    factor: float = FACTOR,
    config: TrainerConfig | None = None,
    folder: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> CriticTraining:
    """Trains a critic of a policy network: the values at the limit of a search without a tree.

    Results are reproducible, also for a resumed training, as those of `train_value`.

    Args:
      policy: the blueprint.
      num_entries: K, continuations of each player, at most one more than the game has actions: the policy,
        and the policy with the probabilities of one class of actions each multiplied by `factor`.
      factor: positive factor of a class.
      config: settings of the training; `batch_size` is the number of games per step.
      folder: folder for checkpoints and the log; a training stored there is resumed.
      progress: a bar, or a line a minute in a log; by default a bar, on a terminal or in a notebook.

    Raises:
      ValueError: if an argument is out of range, the folder holds another training, or a number is not finite
        (names the step; the last checkpoint remains).
      ImportError: if `folder` is not None and orbax is not installed.
    """
    began, config = time.perf_counter(), TrainerConfig.of(config)
    machine = policy.machine
    check_machine(machine)
    size = check_whole_number("num_entries", num_entries, 1, machine.num_actions + 1)
    if not is_finite_number(factor) or factor <= 0:
        raise ValueError(f"factor={factor!r}: expected a positive number, such as {FACTOR:g}")
    shape = critic_shape(machine, size, config.width, config.depth)
    config.check_room(shape.inputs, shape.outputs)
    half = sum_of_returns(machine) / 2
    with precision(np.float32):
        scale = measure_game(machine, config.seed).scale
        lesson = CriticLesson(
            policy=policy.weights,
            action_weights=jnp.asarray(action_weights(machine.num_actions, size, factor), jnp.float32),
            scale=jnp.float32(scale),
            half=jnp.float32(half),
            key=jax.random.key(config.seed),
            machine=machine,
            policy_shape=policy.shape,
            shape=shape,
            batch_size=config.batch_size,
        )
        critic = NetworkCritic(
            machine=machine,
            shape=shape,
            scale=scale,
            num_entries=size,
            weights=initial_weights(shape, config.seed),
            policy=policy_digest(policy),
        )
        if folder is not None:
            critic.name = os.fspath(folder)
        described = {
            "game": machine.name,
            "architecture": dataclasses.asdict(shape),
            "num_entries": size,
            "scale": scale,
            "policy": critic.policy,
            "training": config.describe() | {"factor": float(factor)},
        }
        with open_training(folder, described, KIND) as keeper:
            trainer = Trainer(config, lesson, critic.weights, lambda weights: {}, keeper, began)
            with progress_bar("training", config.steps, progress) as report:
                trainer.train(report)
        critic.weights = trainer.progress.weights
    return CriticTraining(critic=critic, log=pd.DataFrame(trainer.log), seconds=trainer.seconds())


def critic_shape(machine: StateMachine[Any], num_entries: int, width: int, depth: int) -> PerceptronShape:
    """Architecture of a game's critic."""
    inputs = _inputs(machine, machine.start(1, np)).shape[1]
    return PerceptronShape(inputs=inputs, outputs=num_entries**2, width=width, depth=depth)


def policy_digest(policy: NetworkPolicy) -> str:
    """Digest of a policy network's weights, equal for equal networks."""
    return policy.fingerprint


def load_critic(folder: str | os.PathLike[str], game: TreeGame) -> NetworkCritic:
    """Loads a critic from a folder of `train_critic`.

    Args:
      folder: the folder.
      game: the game, from `jaxgadget.load`, or `tree.game`.

    Raises:
      ValueError: if it is missing, cannot be read, is for another game, or was not trained to the end.
      ImportError: if orbax is not installed.
    """
    description, label = read_description(folder, KIND), KIND.label(folder)
    with parsing(folder, KIND):
        counts: Any = description["architecture"]
        shape = PerceptronShape(**{name: int(count) for name, count in counts.items()})
        size, scale = int(description["num_entries"]), float(description["scale"])
        steps = int(description["training"]["steps"])
        policy = str(description["policy"])
        if size < 1 or not 0 < scale < np.inf:
            raise ValueError(f"num_entries {size}, scale {scale}")
    machine = check_game(str(description["game"]), game, label)
    expected = critic_shape(machine, size, shape.width, shape.depth)
    check_shape(shape, expected, machine.name, label)
    weights = restore_weights(folder, abstract_weights(shape), KIND)
    check_trained(weights, last_step(folder), steps, label)
    return NetworkCritic(
        machine=machine,
        shape=shape,
        scale=scale,
        num_entries=size,
        weights=weights,
        policy=policy,
        name=os.fspath(folder),
    )
