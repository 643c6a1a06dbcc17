"""Critics: multi-valued states of games that are not enumerated, learned from play, and `train_critic`.

A critic sees both players' features, as a rule the whole state, and has a value for each pair of
continuations, as at a depth limit each player chooses how the game goes on (Brown, Sandholm and Amos 2018;
Kubíček, Burch and Lisý 2024). Continuations are the policy network and the network biased to classes of
actions, as in a portfolio, or transformations of it that are learned along with the critic.
"""

from __future__ import annotations

import dataclasses
import operator
import os
import time
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxgadget.games.checks import check_machine
from jaxgadget.games.machine import StateMachine, sum_of_returns
from jaxgadget.learn.actor_critic import measure_game
from jaxgadget.learn.continuations import Biased, Continuations, Learned, action_weights
from jaxgadget.learn.critic_lesson import CRITIC, DIRECTIONS, BranchLesson, VTrace, VTraceLesson
from jaxgadget.learn.options import TrainerConfig
from jaxgadget.learn.trainer import Trainer, TrainingResult
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
    policy_shape,
    with_seat,
)
from jaxgadget.policy.policy import Policy
from jaxgadget.policy.portfolio import FACTOR, SIZE
from jaxgadget.policy.positions import StatePositions
from jaxgadget.policy.states import policy_of_states
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

BIASED, LEARNED = "biased", "learned"
"""Kinds of continuations."""

BRANCH, V_TRACE = "branch", "vtrace"
"""Kinds of targets."""


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
      continuations: the strategies whose values it has.
      weights: its parameters, and those of learned continuations.
      policy: `policy_digest` of the network whose continuations it values.
      name: name for tables: its folder, otherwise `critic`.
    """

    machine: StateMachine[Any]
    shape: PerceptronShape
    scale: float
    continuations: Continuations
    weights: Weights
    policy: str = ""
    name: str = "critic"

    def __repr__(self) -> str:
        return f"<NetworkCritic of {self.machine.name}: K = {self.num_entries}>"

    @property
    def fingerprint(self) -> str:
        """Digest of its weights and scale."""
        return digest(np.asarray(self.scale), *map(np.asarray, jax.tree.leaves(self.weights)))

    @property
    def num_entries(self) -> int:
        """Number of continuations of each player, K."""
        return self.continuations.size

    def values(self, state: Any) -> FloatArray:
        """`[n, K, K]` player 0's expected payoffs at n states in NumPy, for each pair of continuations."""
        inputs = _inputs(self.machine, state)
        values = np.empty((len(inputs), self.shape.outputs))
        for rows, size in batches(len(inputs)):
            padded = np.zeros((size, self.shape.inputs), np.float32)
            padded[: rows.stop - rows.start] = inputs[rows]
            with precision(np.float32):
                outputs = np.asarray(_evaluate(self.shape, self.weights[CRITIC], padded))
            values[rows] = outputs[: rows.stop - rows.start]
        return self.scale * values.reshape(-1, self.num_entries, self.num_entries)

    def portfolio(self, policy: NetworkPolicy, tree: HistoryTree) -> Policy:
        """The K continuations of each player, one per lane, in a tree of the game.

        `ExactValues` of it are the values that the critic has learned.

        Args:
          policy: the network that the critic was trained for.
          tree: the tree, whole or from a public state.

        Raises:
          ValueError: if the network is another one, or the tree is of another game.
        """
        check_game(self.machine.name, tree.game, repr(self))
        if policy_digest(policy) != self.policy:
            raise ValueError(f"policy={policy!r}: expected the network that {self!r} was trained for")

        def continued(state: Any, player: int) -> FloatArray:
            """`[K, A, n]` probabilities of all continuations."""
            inputs = with_seat(np.asarray(self.machine.features(state, player)).T, player)
            legal = np.asarray(self.machine.legal(state, player)).T
            own, weights = policy.rows(inputs, legal), self.weights.get(DIRECTIONS, {})
            with precision(np.float32):
                made = _continue(self.continuations, weights, own.astype(np.float32), inputs, legal)
            rows = np.asarray(made, np.float64)
            return np.moveaxis(rows / np.maximum(rows.sum(axis=-1, keepdims=True), 1e-30), 0, -1)

        def entry(number: int) -> Policy:
            return policy_of_states(tree, lambda state, player: continued(state, player)[number], f"{number}")

        return Policy.stack([entry(number) for number in range(self.num_entries)])

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


@compiled
def _continue(
    continuations: Continuations, weights: Weights, own: jax.Array, inputs: jax.Array, legal: jax.Array
) -> jax.Array:
    """`[n, K, A]` continuations."""
    return continuations(weights, own, inputs, legal)


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
    continuations: Literal["biased", "learned"] = BIASED,
    factor: float | None = None,
    targets: Literal["branch", "vtrace"] | VTrace = BRANCH,
    config: TrainerConfig | None = None,
    folder: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> CriticTraining:
    """Trains a critic of a policy network: the values at the limit of a search without a tree.

    Results are reproducible, also for a resumed training, as those of `train_value`.

    Args:
      policy: the blueprint.
      num_entries: K, continuations of each player, the policy first; with `biased` at most one more than the
        game has actions, with `learned` at least two.
      continuations: `biased`: the policy with the probabilities of one class of actions each multiplied by
        `factor`. `learned`: the policy moved in directions that are learned along with the critic, those of
        its own improvement on random batches of games; see `jaxgadget.learn.critic_lesson`.
      factor: positive factor of a class of `biased`, by default 10.
      targets: `branch`: every game gives an unbiased target of one value of one state. `vtrace`, or a
        `VTrace` with other settings: a game gives targets of all values of all its states, which depend on
        the critic's own values and on ratios of probabilities, as in SePoT (Kubíček, Burch and Lisý 2024).
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
    trace = _find_targets(targets)
    with precision(np.float32):
        given = _make_continuations(policy, num_entries, continuations, factor, config)
        shape = critic_shape(machine, given.size, config.width, config.depth)
        config.check_room(shape.inputs, shape.outputs)
        scale = measure_game(machine, config.seed).scale
        weights = {CRITIC: initial_weights(shape, config.seed)}
        if isinstance(given, Learned):
            weights[DIRECTIONS] = given.initial_weights(config.seed + 1)
        task: dict[str, Any] = {
            "policy": policy.weights,
            "continuations": given,
            "scale": jnp.float32(scale),
            "half": jnp.float32(sum_of_returns(machine) / 2),
            "key": jax.random.key(config.seed),
            "machine": machine,
            "policy_shape": policy.shape,
            "shape": shape,
            "batch_size": config.batch_size,
        }
        lesson = BranchLesson(**task) if trace is None else VTraceLesson(**task, method=trace)
        critic = NetworkCritic(
            machine=machine,
            shape=shape,
            scale=scale,
            continuations=given,
            weights=weights,
            policy=policy_digest(policy),
        )
        if folder is not None:
            critic.name = os.fspath(folder)
        target_record = {"targets": BRANCH} if trace is None else {"targets": V_TRACE, **trace.describe()}
        described: dict[str, Any] = {
            "game": machine.name,
            "architecture": {CRITIC: dataclasses.asdict(shape)},
            "num_entries": given.size,
            "continuations": continuations,
            "scale": scale,
            "policy": critic.policy,
            "training": config.describe() | target_record,
        }
        if isinstance(given, Learned):
            described["architecture"][DIRECTIONS] = dataclasses.asdict(given.shape)
        else:
            described["factor"] = float(FACTOR if factor is None else factor)
        with open_training(folder, described, KIND) as keeper:
            trainer = Trainer(config, lesson, critic.weights, lambda weights: {}, keeper, began)
            with progress_bar("training", config.steps, progress) as report:
                trainer.train(report)
        critic.weights = trainer.progress.weights
    return CriticTraining(critic=critic, log=pd.DataFrame(trainer.log), seconds=trainer.seconds())


def _find_targets(targets: object) -> VTrace | None:
    """Settings of V-trace; None for branch targets."""
    if isinstance(targets, VTrace):
        return targets
    if targets not in (BRANCH, V_TRACE):
        raise ValueError(f"targets={targets!r}: expected {BRANCH!r}, {V_TRACE!r} or a VTrace")
    return VTrace() if targets == V_TRACE else None


def _make_continuations(
    policy: NetworkPolicy, num_entries: object, kind: object, factor: object, config: TrainerConfig
) -> Biased | Learned:
    """The continuations; ValueError if an argument is out of range."""
    if kind == LEARNED:
        if factor is not None:
            raise ValueError(f"factor={factor!r} has no effect with continuations={LEARNED!r}; leave it out")
        size = check_whole_number("num_entries", num_entries, 2)
        learned = Learned.of(policy.shape, size, config.width, config.depth)
        config.check_room(learned.shape.inputs, learned.shape.outputs)
        return learned
    if kind != BIASED:
        raise ValueError(f"continuations={kind!r}: expected {BIASED!r} or {LEARNED!r}")
    num_actions = policy.machine.num_actions
    size = check_whole_number("num_entries", num_entries, 1, num_actions + 1)
    return _biased(num_actions, size, FACTOR if factor is None else factor)


def _biased(num_actions: int, num_entries: int, factor: object) -> Biased:
    if not is_finite_number(factor) or factor <= 0:
        raise ValueError(f"factor={factor!r}: expected a positive number, such as {FACTOR:g}")
    with precision(np.float32):
        return Biased(
            action_weights=jnp.asarray(action_weights(num_actions, num_entries, factor), jnp.float32)
        )


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
        shapes = {
            name: PerceptronShape(**{key: operator.index(count) for key, count in counts.items()})
            for name, counts in description["architecture"].items()
        }
        shape, size, scale = shapes[CRITIC], int(description["num_entries"]), float(description["scale"])
        kind = description["continuations"]
        if (
            size < 1
            or not 0 < scale < np.inf
            or shapes.keys() != {CRITIC, *[DIRECTIONS] * (kind == LEARNED)}
            or kind not in (BIASED, LEARNED)
        ):
            raise ValueError(f"num_entries {size}, scale {scale}, continuations {kind!r} of {[*shapes]}")
        steps = int(description["training"]["steps"])
        policy = str(description["policy"])
        factor = float(description["factor"]) if kind == BIASED else None
    machine = check_game(str(description["game"]), game, label)
    expected = critic_shape(machine, size, shape.width, shape.depth)
    check_shape(shape, expected, machine.name, label)
    given: Biased | Learned
    if kind == LEARNED:
        given = Learned.of(policy_shape(machine, 1, 0), size, shape.width, shape.depth)
        check_shape(shapes[DIRECTIONS], given.shape, machine.name, label)
    else:
        given = _biased(machine.num_actions, size, factor)
    like = {name: abstract_weights(shape) for name, shape in shapes.items()}
    weights = restore_weights(folder, like, KIND)
    check_trained(weights, last_step(folder), steps, label)
    return NetworkCritic(
        machine=machine,
        shape=shape,
        scale=scale,
        continuations=given,
        weights=weights,
        policy=policy,
        name=os.fspath(folder),
    )
