"""Rollouts: complete games of a state machine under policies, many side by side on the device.

A game depends on the key and its index only: its random numbers are those of the key folded with the index,
independent of the number of games in the batch.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxgadget.games.game import ACTOR_BIT, CHANCE, TERMINAL
from jaxgadget.games.machine import StateMachine, StateStrategy
from jaxgadget.util.precision import numpy_promotion, precision

BATCH = "batch"
"""Axis of a mesh of devices, over which games and decisions are split."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Rollouts:
    """n complete games of up to T moves: both players' decisions, and the returns.

    Entries of a player that does not act are undefined, except where a value is given. Features and
    probabilities have the axes of a network's batch, with the last one contiguous.

    Attributes:
      features: `[T, 2, n, F]` features of the infostate.
      legal: `[T, 2, n, A]` mask of legal actions.
      probability: `[T, 2, n, A]` probabilities of all actions under the policy that played.
      action: `[T, 2, n]` chosen action, -1 where the player does not act.
      acting: `[T, 2, n]` mask of the decisions; False after the end of the game.
      outcome: `[T, n]` outcome of chance, -1 where chance does not act.
      returns: `[2, n]` both players' returns at the end; there are no earlier rewards and no discounts.
    """

    features: jax.Array
    legal: jax.Array
    probability: jax.Array
    action: jax.Array
    acting: jax.Array
    outcome: jax.Array
    returns: jax.Array

    @property
    def chosen(self) -> jax.Array:
        """`[T, 2, n]` probability of the chosen action, 1 where the player does not act."""
        return jnp.where(self.acting, take_chosen(self.probability, self.action), 1)


def take_chosen(values: jax.Array, action: jax.Array) -> jax.Array:
    """Selects the chosen actions, `[..., A]` → `[...]`; an arbitrary action where none is chosen."""
    is_chosen = jax.nn.one_hot(jnp.maximum(action, 0), values.shape[-1], dtype=bool)
    return jnp.sum(jnp.where(is_chosen, values, 0), axis=-1)  # a gather's gradient is added by atomics


def by_game(x: jax.Array) -> jax.Array:
    """Reorders `[T, 2, n, ...]` → `[n * T * 2, ...]`, so that the decisions of each game are adjacent."""
    return jnp.moveaxis(x, 2, 0).reshape(-1, *x.shape[3:])


def split(x: jax.Array, mesh: Mesh | None, axis: int) -> jax.Array:
    """Splits an array over a mesh's devices along an axis, for use inside `jit`; no effect without a mesh."""
    if mesh is None:
        return x
    spec = PartitionSpec(*(BATCH if k == axis % x.ndim else None for k in range(x.ndim)))
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, spec))


def play(
    machine: StateMachine[Any],
    policy: StateStrategy,
    key: jax.Array,
    first: jax.Array,
    n: int,
    mesh: Mesh | None = None,
    start: Any = None,
) -> Rollouts:
    """Plays the games `first` to `first + n - 1`, for use inside `jit`.

    Args:
      machine: the rules.
      policy: both players' policy.
      key: random key.
      first: index of the first game.
      n: number of games.
      mesh: devices over which the games are split, with the single axis `batch`; None for one device.
      start: the states of the games before their first move; by default the initial state.
    """
    index = first + jnp.arange(n, dtype=jnp.int32)
    keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, index)
    uniform = jax.vmap(lambda k: jax.random.uniform(k, (machine.max_moves, 3)))(keys)

    def move(state: Any, uniform: jax.Array) -> tuple[Any, dict[str, jax.Array]]:
        """A step of all games, given `[3, n]` uniform numbers."""
        with numpy_promotion():
            return _move(machine, policy, state, uniform)

    with numpy_promotion():
        start = machine.start(n, jnp) if start is None else start
        start = jax.tree.map(lambda x: split(jnp.asarray(x), mesh, -1), start)
    end, steps = jax.lax.scan(move, start, split(uniform.transpose(1, 2, 0), mesh, -1))
    with numpy_promotion():
        returns = machine.returns(end).astype(jnp.float32)
    return Rollouts(returns=returns, **steps)


def _move(
    machine: StateMachine[Any], policy: StateStrategy, state: Any, uniform: jax.Array
) -> tuple[Any, dict[str, jax.Array]]:
    """The next states, and the step's entries of `Rollouts`."""
    actor = machine.actor(state)
    features = [machine.features(state, player).T for player in (0, 1)]
    legal = [machine.legal(state, player).T for player in (0, 1)]
    probability = [jnp.where(legal[player], policy(state, player).T, 0) for player in (0, 1)]
    acting = [(actor & bit) > 0 for bit in ACTOR_BIT]
    moves = [jnp.where(acting[player], draw(probability[player].T, uniform[player]), -1) for player in (0, 1)]
    outcome = jnp.full(actor.shape, -1, jnp.int32)
    if machine.num_outcomes:
        outcome = jnp.where(actor == CHANCE, draw(machine.chance(state), uniform[2]), outcome)
    return _advance(machine, state, jnp.stack([*moves, outcome])), {
        "features": jnp.stack(features),
        "legal": jnp.stack(legal),
        "probability": jnp.stack(probability),
        "action": jnp.stack(moves).astype(jnp.int16),
        "acting": jnp.stack(acting),
        "outcome": outcome.astype(jnp.int16),
    }


def _advance(machine: StateMachine[Any], state: Any, moves: jax.Array) -> Any:
    """The states after moves `[3, n]`; games that are over keep theirs."""
    after, _ = machine.step(state, moves)
    is_over = machine.actor(state) == TERMINAL
    return jax.tree.map(lambda new, old: jnp.where(is_over, old, new).astype(old.dtype), after, state)


def states_at(machine: StateMachine[Any], games: Rollouts, step: jax.Array, game: jax.Array) -> Any:
    """The states before steps of games from the initial state, for use inside `jit`.

    Args:
      machine: the rules.
      games: the games.
      step: `[m]` index of the move that follows each state, from 0.
      game: `[m]` its game.

    Returns:
      The m states, last axis.
    """
    moves = jnp.concatenate([games.action, games.outcome[:, None]], axis=1).astype(jnp.int32)

    def move(
        carried: tuple[Any, Any, jax.Array], moves: jax.Array
    ) -> tuple[tuple[Any, Any, jax.Array], None]:
        state, kept, number = carried
        kept = jax.tree.map(lambda now, old: jnp.where(number == step, now[..., game], old), state, kept)
        with numpy_promotion():
            return (_advance(machine, state, moves), kept, number + 1), None

    with numpy_promotion():
        start = jax.tree.map(jnp.asarray, machine.start(moves.shape[-1], jnp))
        first = jax.tree.map(lambda x: x[..., game], start)
        return jax.lax.scan(move, (start, first, jnp.int32(0)), moves)[0][1]


def draw(probability: jax.Array, uniform: jax.Array) -> jax.Array:
    """Draws `[n]` outcomes of positive probability from `[A, n]`, given uniform numbers in [0, 1)."""
    sums = jnp.cumsum(probability, axis=0)
    passed = sums <= uniform[None] * sums[-1:]
    return jnp.minimum(jnp.sum(passed, axis=0, dtype=jnp.int32), len(probability) - 1)


def rollout_bytes(machine: StateMachine[Any], n: int) -> int:
    """Size of n games' `Rollouts` in bytes."""

    def shapes() -> Rollouts:
        def uniform(state: Any, player: int) -> jax.Array:
            return machine.legal(state, player).astype(jnp.float32)

        return play(machine, uniform, jax.random.key(0), jnp.int32(0), n)

    with precision(np.float32):
        return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(jax.eval_shape(shapes)))
