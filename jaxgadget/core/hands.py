"""The payoff of games in hand form: one bilinear form between two vectors of hand reaches at each public end.

Ends with the same table are columns of one product, which covers them in all lanes. A table is an array over
all pairs of hands, or an operator with the protocol `PairTables`, which needs no such array.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jaxgadget.core.host import Entries, HandEntries, merge_entries
from jaxgadget.core.rows import EXACT, Sums, array_bytes, build_sums, take_rows
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.compilation import compiled
from jaxgadget.util.players import pair_for, sign_of
from jaxgadget.util.precision import precision

MAX_ENTRIES = 1 << 24
"""Maximum number of pairs of sequences in a linear program."""


class PairTables(Protocol):
    """B tables over pairs of hands: chance × player 0's payoff, for ends of scale 1.

    A pytree. `PublicEnds.pays` is either such an operator or an array `[B, H_0, H_1]`, which becomes
    `DenseTables`. The other implementations are hold'em's: showdowns have a table for each board, in groups
    of hands of one rank with small dense blocks for hands that share a card; folds use inclusion and
    exclusion over cards. Factors of a table, such as the pot, are in `PublicEnds.scale` or stored with the
    table by lane, so all showdowns on a board are columns of one table.
    """

    def __call__(self, player: int, reach: jax.Array) -> jax.Array:
        """Sums over the other player's hands.

        Args:
          player: the player whose hands index the result; payoffs are in player 0's utility for either
            player. In a game that is not zero-sum, those of player 1 are minus its own payoff.
          reach: `[B, T, H_other, lanes]` the other player's reach of the T ends of each table.

        Returns:
          `[B, T, H_player, lanes]` payoff of each of the player's hands.
        """
        ...

    def absolute(self) -> PairTables:
        """Tables of the absolute values, or of upper bounds on them."""
        ...

    def dense(self) -> FloatArray:
        """`[B, H_0, H_1]` on the host, for linear programs with few hands."""
        ...


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class DenseTables:
    """`PairTables` stored as an array.

    Attributes:
      pays: `[B, H_0, H_1]` chance × player 0's payoff.
    """

    pays: jax.Array

    def __call__(self, player: int, reach: jax.Array) -> jax.Array:
        """Sums over the other player's hands."""
        form = "bij,btjl->btil" if player == 0 else "bji,btjl->btil"
        return jnp.einsum(form, self.pays, reach, precision=EXACT)

    def absolute(self) -> DenseTables:
        """Tables of the absolute values, or of upper bounds on them."""
        return DenseTables(pays=jnp.abs(self.pays))

    def dense(self) -> FloatArray:
        """`[B, H_0, H_1]` on the host, for linear programs with few hands."""
        return np.asarray(self.pays, np.float64)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class HandsPayoff:
    """`Payoff` between two treeplexes in hand form; it keeps no state.

    A block consists of the sequences of a treeplex that differ only in the hand.

    Attributes:
      hands: numbers of hands, H_0 and H_1.
      tables: tables of each group of ends.
      scale: for each player and group `[B, T]`, factor of the table at each end, in the player's utility.
      block: for each player and group `[B, T]`, the block of sequences that leads to each end.
      sums: for each player the sum over the ends of all groups into the player's blocks.
    """

    hands: tuple[int, int] = dataclasses.field(metadata={"static": True})
    tables: tuple[PairTables, ...]
    scale: tuple[tuple[jax.Array, ...], tuple[jax.Array, ...]]
    block: tuple[tuple[jax.Array, ...], tuple[jax.Array, ...]]
    sums: tuple[Sums, Sums]

    def gradient(self, player: int, reach: tuple[jax.Array, jax.Array], state: Any) -> tuple[jax.Array, Any]:
        """`[num_sequences, lanes]` gradient of `player`, given both players' reach, and the next state."""
        other, lanes = 1 - player, reach[0].shape[-1]
        blocks = reach[other].reshape(-1, self.hands[other] * lanes)
        earned = [jnp.zeros((0, self.hands[player] * lanes), blocks.dtype)]
        for tables, scale, block in zip(self.tables, self.scale[player], self.block[other], strict=True):
            arriving = take_rows(blocks, block).reshape(*block.shape, self.hands[other], lanes)
            paid = tables(player, arriving) * scale[..., None, None]
            earned.append(paid.reshape(-1, self.hands[player] * lanes))
        return self.sums[player].of_parts(earned).reshape(-1, lanes), state

    def absolute(self) -> HandsPayoff:
        """The payoff of absolute values, without a state."""
        tables = tuple(table.absolute() for table in self.tables)
        return dataclasses.replace(self, tables=tables, scale=jax.tree.map(jnp.abs, self.scale))

    def num_bytes(self) -> tuple[int, int]:
        """Bytes on a device: independent of the lanes, and per lane (reach and payoffs at the ends)."""
        itemsize = max((np.dtype(x.dtype).itemsize for x in self.scale[0]), default=0)
        ends = sum(x.size for x in self.scale[0])
        return array_bytes(self), ends * sum(self.hands) * itemsize

    def take_lanes(self, lanes: IntArray) -> HandsPayoff:
        """The payoff of some lanes; itself if all lanes share it."""
        return self

    def entries(self) -> Entries:
        """The matrix over all pairs of sequences, for linear programs.

        Raises:
          ValueError: if it has more than `MAX_ENTRIES` cells.
        """
        first, second = self.hands
        ends = sum(x.size for x in self.scale[0])
        if ends * first * second > MAX_ENTRIES:
            raise ValueError(
                f"payoff: {ends:,} ends and {first} × {second} hands: expected at most {MAX_ENTRIES:,} "
                "pairs of sequences for linear programs; use CFR"
            )
        pays = [
            np.asarray(scale, np.float64).reshape(-1, 1, 1)
            * np.repeat(tables.dense(), scale.shape[1], axis=0)
            for tables, scale in zip(self.tables, self.scale[0], strict=True)
        ]
        value = np.concatenate([np.zeros((0, first, second)), *pays])
        row, column = (
            np.concatenate(
                [np.zeros(0, np.int64), *(np.asarray(block, np.int64).ravel() for block in blocks)]
            )
            for blocks in self.block
        )
        rows = first * row[:, None, None] + np.arange(first)[:, None]
        columns = second * column[:, None, None] + np.arange(second)
        shape = (first * self.sums[0].num_rows, second * self.sums[1].num_rows)
        row, column = (np.broadcast_to(x, value.shape).ravel() for x in (rows, columns))
        return merge_entries(row, column, value.ravel(), shape)


def build_hands_payoff(entries: HandEntries, dtype: DTypeLike) -> HandsPayoff:
    """Places a payoff in hand form on the device.

    Args:
      entries: the payoff; each player's blocks are its sequences.
      dtype: floating-point type of the payoff.
    """
    first, second = (
        tuple(jax.device_put(np.maximum(blocks[group.node], 0).astype(np.int32)) for group in entries.ends)
        for blocks in entries.block
    )
    first_scale, second_scale = (
        tuple(jax.device_put((sign * group.scale).astype(dtype)) for group in entries.ends)
        for sign in (1, -1)
    )
    node = np.concatenate([np.zeros(0, np.int64), *(group.node.ravel() for group in entries.ends)])
    paid = np.concatenate([np.zeros(0, np.bool_), *(group.scale.ravel() != 0 for group in entries.ends)])
    first_sums, second_sums = (
        build_sums(blocks[node], paid, count, dtype)
        for blocks, count in zip(entries.block, entries.num_blocks, strict=True)
    )
    return HandsPayoff(
        hands=entries.hands,
        tables=tuple(_on_device(group.pays, dtype) for group in entries.ends),
        scale=(first_scale, second_scale),
        block=(first, second),
        sums=(first_sums, second_sums),
    )


@compiled(quick=True, static_argnames=("player",))
def _gradient(payoff: HandsPayoff, reach: tuple[jax.Array, jax.Array], *, player: int) -> jax.Array:
    return payoff.gradient(player, reach, None)[0]


def multiply_hands(entries: HandEntries, player: int, x: FloatArray) -> FloatArray:
    """Product of a payoff in hand form, in float64: `[other's sequences, L]` → `[player's sequences, L]`.

    Args:
      entries: the matrix; player 0's sequences are its rows.
      player: the player whose sequences are the rows of the result.
      x: values of the other player's sequences.
    """
    other, lanes = 1 - player, x.shape[1]
    rows, columns = entries.rows[player], entries.rows[other]
    if columns is not None:
        x = np.where(columns[:, None] >= 0, x[columns], 0)
    zero = jnp.zeros((entries.hands[player] * entries.num_blocks[player], lanes))
    with precision(np.float64):
        reach = pair_for(player, zero, jnp.asarray(x))
        earned = _gradient(build_hands_payoff(entries, np.float64), reach, player=player)
    product = np.asarray(earned) * sign_of(player)
    if rows is None:
        return product
    inside = rows >= 0
    total = np.zeros((entries.num_rows[player], lanes))
    np.add.at(total, rows[inside], product[inside])
    return total


def hands_payoff_bytes(entries: HandEntries, dtype: DTypeLike) -> int:
    """Estimated bytes of a payoff in hand form on a device."""
    tables = sum(array_bytes(group.pays) for group in entries.ends)
    ends = sum(group.node.size for group in entries.ends)
    return tables + ends * (8 + 2 * np.dtype(dtype).itemsize)


def _on_device(pays: Any, dtype: DTypeLike) -> PairTables:
    """Places tables or an operator on the device, in a precision."""
    if isinstance(pays, np.ndarray):
        return DenseTables(pays=jax.device_put(pays.astype(dtype)))

    def put(x: Any) -> jax.Array:
        return jax.device_put(x.astype(dtype) if np.issubdtype(x.dtype, np.floating) else x)

    return jax.tree.map(put, pays)
