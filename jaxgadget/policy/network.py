"""Policy networks: perceptrons that map a player's infostate to its actions, for states and trees."""

from __future__ import annotations

import dataclasses
import operator
import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgadget.games.machine import Array, StateMachine, StateStrategy, namespace
from jaxgadget.games.public_state import PublicStateGame
from jaxgadget.networks.checkpoints import (
    NetworkKind,
    last_step,
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
    weights_digest,
)
from jaxgadget.policy.policy import Policy
from jaxgadget.policy.states import policy_of_states
from jaxgadget.tree.history import HistoryTree, enumerate_game
from jaxgadget.tree.public import Tree, check_tree
from jaxgadget.tree.tree import TreeGame
from jaxgadget.util.arrays import BoolArray, FloatArray
from jaxgadget.util.compilation import compiled
from jaxgadget.util.precision import numpy_promotion, precision

KIND = NetworkKind(name="policy network", version=1, writer="train_policy")
"""Kind of network of the training folder."""

NUM_SEATS = 2

ILLEGAL = -1e9
"""Logit of illegal actions, whose probability is then exactly 0."""

POLICY = "policy"
"""Name of the policy's weights and architecture among all networks of a training."""


def find_machine(game: TreeGame) -> StateMachine[Any]:
    """The game as a `StateMachine`; raises ValueError if it is none."""
    if not isinstance(game, TreeGame):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"game={game!r}: expected a game, from load(…)")
    machine = game.public.machine if isinstance(game, PublicStateGame) else game
    if not isinstance(machine, StateMachine):
        raise ValueError(
            f"game={game.name!r}: expected a StateMachine, such as Goofspiel, as policy networks need "
            "features of states"
        )
    return machine


def policy_shape(machine: StateMachine[Any], width: int, depth: int) -> PerceptronShape:
    """Architecture of a game's policy network.

    Args:
      machine: the rules.
      width: units of a layer.
      depth: residual blocks, of two layers each.
    """
    features = machine.features(machine.start(1, np), 0)
    return PerceptronShape(
        inputs=len(features) + NUM_SEATS, outputs=machine.num_actions, width=width, depth=depth
    )


def with_seat(features: Array, player: int) -> Array:
    """Inputs of the network, `[..., F + 2]` float32, from features `[..., F]`: the seat is one-hot."""
    xp = namespace(features)
    seat = xp.broadcast_to(xp.eye(NUM_SEATS, dtype=np.float32)[player], (*features.shape[:-1], NUM_SEATS))
    return xp.concatenate([features.astype(np.float32), seat], axis=-1)


def log_policy(shape: PerceptronShape, weights: Weights, inputs: jax.Array, legal: jax.Array) -> jax.Array:
    """Logarithms of the actions' probabilities, for use inside `jit`.

    Args:
      shape: architecture.
      weights: weights of the network.
      inputs: `[..., F + 2]` from `with_seat`.
      legal: `[..., A]` mask of legal actions.

    Returns:
      `[..., A]`; large negative numbers for illegal actions, whose exponentials are 0.
    """
    logits = evaluate(shape, weights, inputs)
    return jax.nn.log_softmax(jnp.where(legal, logits, jnp.float32(ILLEGAL)), axis=-1)


def state_policy(machine: StateMachine[Any], shape: PerceptronShape, weights: Weights) -> StateStrategy:
    """The network as a strategy of states on the device, for use inside `jit`."""

    def probabilities(state: Any, player: int) -> jax.Array:
        with numpy_promotion():
            inputs = with_seat(jnp.asarray(machine.features(state, player)).T, player)
            legal = jnp.asarray(machine.legal(state, player)).T
        return jnp.exp(log_policy(shape, weights, inputs, legal)).T

    return probabilities


_log_policy = compiled(log_policy, static_argnums=0)


@dataclasses.dataclass(eq=False, kw_only=True, repr=False)
class NetworkPolicy:
    """A trained network as a policy of both players: a `StateStrategy`, and a policy of trees.

    Attributes:
      machine: rules of the game.
      shape: its architecture.
      weights: its parameters.
      name: label of its lane: its folder, otherwise `network`.
    """

    machine: StateMachine[Any]
    shape: PerceptronShape
    weights: Weights
    name: str = "network"

    def __repr__(self) -> str:
        size = f"width {self.shape.width}, depth {self.shape.depth}"
        return f"<NetworkPolicy of {self.machine.name}: {size}>"

    @property
    def fingerprint(self) -> str:
        """Digest of its weights."""
        return weights_digest(self.weights)

    def describe(
        self, training: dict[str, Any], others: dict[str, PerceptronShape] | None = None
    ) -> dict[str, Any]:
        """Description for a `TrainingFolder`.

        Args:
          training: the settings that determine the weights.
          others: architectures of networks that are trained beside the policy, such as a critic, by the
            names of their weights.
        """
        shapes = {POLICY: self.shape, **(others or {})}
        return {
            "game": self.machine.name,
            "architecture": {name: dataclasses.asdict(shape) for name, shape in shapes.items()},
            "training": training,
        }

    def __call__(self, state: Any, player: int, /) -> FloatArray:
        """`[A, n]` probabilities of a player's actions at n states in NumPy; arbitrary if it does not act."""
        features = np.asarray(self.machine.features(state, player)).T
        return self.rows(with_seat(features, player), np.asarray(self.machine.legal(state, player)).T).T

    def rows(self, inputs: FloatArray, legal: BoolArray) -> FloatArray:
        """`[n, A]` probabilities in float64, from inputs `[n, F + 2]` and legal actions `[n, A]`."""
        values = np.empty(legal.shape)
        for rows, size in batches(len(inputs)):
            padding = ((0, size - len(inputs[rows])), (0, 0))
            padded = np.pad(inputs[rows], padding), np.pad(legal[rows], padding)
            with precision(np.float32):
                logarithms = np.asarray(_log_policy(self.shape, self.weights, *padded))
            chosen = np.exp(logarithms[: len(inputs[rows])].astype(np.float64))
            values[rows] = chosen / chosen.sum(axis=1, keepdims=True)  # sums of float32 are 1 within 1e-7
        return values

    def on(self, tree: Tree) -> Policy:
        """The policy of a tree of the game, whole or truncated, from a public state or by hands.

        Raises:
          ValueError: if the tree is of another game.
          TooLargeError: if the tree is by hands and its histories do not fit into memory.
        """
        check_tree(tree)
        machine = check_game(self.machine.name, tree.game, repr(self))
        if not isinstance(tree, HistoryTree):
            return self.on(enumerate_game(machine)).on(tree)
        return policy_of_states(tree, self, self.name)


def check_game(name: str, game: TreeGame, network: str) -> StateMachine[Any]:
    """The rules of a game, if it is the network's; ValueError otherwise.

    Args:
      name: name of the network's game.
      game: the game.
      network: the network, for the error.
    """
    machine = find_machine(game)
    if machine.name != name:
        raise ValueError(f"{network} is for {name!r}, not for {machine.name!r}; train one for this game")
    return machine


def load_policy(folder: str | os.PathLike[str], game: TreeGame) -> NetworkPolicy:
    """Loads a network from a folder of `train_policy`.

    Args:
      folder: the folder.
      game: the game, from `jaxgadget.load`, or `tree.game`.

    Raises:
      ValueError: if it is missing, cannot be read, is for another game, was not trained to the end, or has
        weights that are not finite.
      ImportError: if orbax is not installed.
    """
    description, label = read_description(folder, KIND), KIND.label(folder)
    with parsing(folder, KIND):
        name, shapes, steps = _parse(description)
    machine = check_game(name, game, label)
    shape = shapes[POLICY]
    expected = policy_shape(machine, shape.width, shape.depth)
    check_shape(shape, expected, machine.name, label)
    like = {part: abstract_weights(shape) for part, shape in shapes.items()}
    item = "average" if description["training"].get("average") else "weights"
    weights = restore_weights(folder, like, KIND, item)[POLICY]
    check_trained(weights, last_step(folder), steps, label)
    return NetworkPolicy(machine=machine, shape=shape, weights=weights, name=os.fspath(folder))


def find_game(folder: str | os.PathLike[str]) -> str:
    """Name of the game of a network in a folder of `train_policy`; raises ValueError as `load_policy`."""
    description = read_description(folder, KIND)
    with parsing(folder, KIND):
        return _parse(description)[0]


def check_shape(shape: PerceptronShape, expected: PerceptronShape, game: str, label: str) -> None:
    """Raises ValueError if a stored network has other inputs or outputs than its game has now."""
    if shape != expected:
        raise ValueError(
            f"{label} has {shape.inputs} inputs and {shape.outputs} outputs; {game} has "
            f"{expected.inputs} and {expected.outputs} now; its rules have changed, so train again"
        )


def check_trained(weights: Weights, step: int | None, steps: int, label: str) -> None:
    """Raises ValueError if a network was not trained to the end, or has weights that are not finite."""
    if step != steps:
        raise ValueError(
            f"{label} is not finished: its checkpoint is of step {step} of {steps}; resume training with the "
            "same command"
        )
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(weights)):
        raise ValueError(f"{label} has weights that are not finite; train again with a smaller learning rate")


def _parse(description: dict[str, Any]) -> tuple[str, dict[str, PerceptronShape], int]:
    """The game, architectures and steps of a description; raises any exception if it is invalid."""
    shapes: dict[str, PerceptronShape] = {}
    for name, counts in description["architecture"].items():
        shape = PerceptronShape(**{key: operator.index(count) for key, count in counts.items()})
        if min(shape.inputs, shape.outputs, shape.width, shape.depth + 1) < 1:
            raise ValueError(f"architecture {counts}")
        shapes[str(name)] = shape
    if POLICY not in shapes:
        raise ValueError(f"architecture of {sorted(shapes)}")
    return str(description["game"]), shapes, operator.index(description["training"]["steps"])
