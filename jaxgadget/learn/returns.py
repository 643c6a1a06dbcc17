"""Sampled returns: simulation of games to the end, in batches on the device."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from jaxgadget.games.game import CHANCE, PLAYER_0, PLAYER_1, TERMINAL
from jaxgadget.policy.policy import Policy
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.matching import first_child
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.values.histories import conditional_chance


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Simulator:
    """A game and both players' portfolios on the device: `n` histories, K strategies, `Q` rows per player.

    Memory: 33 bytes per history, and 4 bytes per row and strategy.

    Attributes:
      actor: `[n]` acting player, 0 at the end.
      first_child: `[n]` the first child.
      row: `[2, n]` the player's first row in `rows` if it acts, otherwise 0.
      count: `[3, n]` number of options of player 0, player 1 and chance, 1 where they do not act.
      payoff: `[n]` player 0's payoff, 0 before the end.
      chance: `[n]` cumulative probabilities of chance's outcomes over siblings.
      rows: for both players `[Q, K]` cumulative probabilities over the infoset's actions.
      most: maximum of `count` for player 0, player 1 and chance.
    """

    actor: jax.Array
    first_child: jax.Array
    row: jax.Array
    count: jax.Array
    payoff: jax.Array
    chance: jax.Array
    rows: tuple[jax.Array, jax.Array]
    most: tuple[int, int, int] = dataclasses.field(metadata={"static": True})


def make_simulator(tree: HistoryTree, portfolio: Policy) -> Simulator:
    """Builds the simulator of a portfolio in a tree of the whole game, on the device."""
    histories = np.arange(tree.num_histories)
    children_start = first_child(tree, histories)
    row, count = np.zeros((2, len(histories)), np.int32), np.ones((3, len(histories)), np.int32)
    rows: list[jax.Array] = []
    for player, bit in enumerate((PLAYER_0, PLAYER_1)):
        infosets, acts = tree.infosets[player], (tree.actor & bit) != 0
        row[player, acts] = infosets.first_sequence[tree.infoset[player, acts]] - 1
        count[player, acts] = infosets.num_actions[tree.infoset[player, acts]]
        start = infosets.first_sequence - 1
        rows.append(jnp.asarray(_sums(portfolio.probabilities[player], start), jnp.float32))
    at_chance = tree.actor == CHANCE
    children = np.searchsorted(tree.parent, histories, side="right") - children_start
    count[2, at_chance] = children[at_chance]
    drawn = np.nonzero(tree.action[2] >= 0)[0]
    chance = np.zeros(tree.num_histories)
    start = np.nonzero(np.append(True, tree.parent[drawn][1:] != tree.parent[drawn][:-1]))[0]
    chance[drawn] = _sums(conditional_chance(tree, drawn)[:, None], start[: len(drawn)])[:, 0]
    most = count.max(axis=1).tolist()
    return Simulator(
        actor=jnp.asarray(tree.actor),
        first_child=jnp.asarray(children_start, jnp.int32),
        row=jnp.asarray(row),
        count=jnp.asarray(count),
        payoff=jnp.asarray(tree.payoff, jnp.float32),
        chance=jnp.asarray(chance, jnp.float32),
        rows=(rows[0], rows[1]),
        most=(most[0], most[1], most[2]),
    )


def _sums(values: FloatArray, start: IntArray) -> FloatArray:
    """`[Q, K]` cumulative sums within runs of rows that begin at `start`, in any order."""
    begins = np.zeros(len(values), np.int64)
    begins[start] = start
    begins = np.maximum.accumulate(begins)
    total = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)])
    return total[1:] - total[begins]


def sample_returns(
    simulator: Simulator, histories: jax.Array, entries: tuple[jax.Array, jax.Array], key: jax.Array
) -> jax.Array:
    """`[B]` player 0's payoff in one simulated game from each history.

    Args:
      simulator: the game and the portfolios.
      histories: `[B]` initial histories.
      entries: `[B]` index of each player's strategy in its portfolio.
      key: random key.
    """

    def goes_on(state: tuple[jax.Array, jax.Array]) -> jax.Array:
        return jnp.any(simulator.actor[state[1]] != TERMINAL)

    def move(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        step, at = state
        uniform = jax.random.uniform(jax.random.fold_in(key, step), (3, *at.shape))
        child = simulator.first_child[at]
        chosen = _pick(simulator.chance, child, simulator.count[2, at], simulator.most[2], uniform[2])
        for player in (0, 1):
            count = simulator.count[player, at]
            sums = simulator.rows[player].reshape(-1)
            size, row = simulator.rows[player].shape[1], simulator.row[player, at]
            picked = _pick(sums, row, count, simulator.most[player], uniform[player], size, entries[player])
            chosen = chosen * count + picked
        return step + 1, jnp.where(simulator.actor[at] == TERMINAL, at, child + chosen)

    _, end = jax.lax.while_loop(goes_on, move, (jnp.int32(0), histories))
    return simulator.payoff[end]


def _pick(
    sums: jax.Array,
    first: jax.Array,
    count: jax.Array,
    max_moves: int,
    uniform: jax.Array,
    size: int = 1,
    entry: jax.Array | None = None,
) -> jax.Array:
    """`[B]` index of the move that a uniform number selects, given cumulative sums from row `first` on."""
    picked = jnp.zeros_like(first)
    for nth in range(max_moves - 1):  # the last move needs no sum
        row = (first + nth) * size + (0 if entry is None else entry)
        passed = uniform >= sums.at[row].get(mode="clip")
        picked = picked + (passed & (nth < count - 1)).astype(picked.dtype)
    return picked
