"""Values at public nodes of a spot: EVs in chips, counted from the node on, and equities."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from jaxgadget.holdem.cards import HANDS, cards_left, hands_left, strength_groups
from jaxgadget.holdem.operators import BoardTables, build_board_tables
from jaxgadget.holdem.spots import Spot
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.compilation import compiled
from jaxgadget.util.precision import precision

LEAST_MET = 1e-12
"""Share of a node's largest weight of compatible hands up to which a weight counts as a rounding error."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class NodeValues:
    """EVs and equities of both players at a public node of a spot, given their strategies; in chips.

    EVs count from the node on: the expected share of the final pot minus the chips that the player puts in
    from there on. A fold is worth 0, and the means of both players sum to the pot at the node, less the rake.

    Attributes:
      pot: chips in the pot at the node.
      ev: for both players `[H]` EV of each hand, against the other player's hands that reach the node; NaN
        for hands that the player cannot have there, and where the other player never gets there with a
        compatible hand.
      equity: for both players `[H]` fraction of the pot that each hand wins without further bets; NaN as in
        `ev`, but defined outside of the player's own range.
      action_ev: dictionary from each action of the acting player to `[H]` EV after it; empty where no player
        acts.
      mean_ev: both players' means over their hands, with the weights of `SpotSolution.weights`; NaN if one of
        the EVs is.
      mean_equity: the same of equities.
    """

    pot: float
    ev: tuple[FloatArray, FloatArray]
    equity: tuple[FloatArray, FloatArray]
    action_ev: dict[str, FloatArray]
    mean_ev: tuple[float, float]
    mean_equity: tuple[float, float]


def find_met(spot: Spot, player: int, nodes: IntArray, reach: FloatArray) -> FloatArray:
    """Probability of each hand of a player at public nodes, without the player's own actions.

    Args:
      spot: the spot.
      player: 0 or 1.
      nodes: `[m]` public nodes.
      reach: `[m, H, L]` the other player's reach, without its range.

    Returns:
      `[m, H, L]` probability that the player holds the hand and that chance and the other player play to the
      node; 0 for impossible hands, and where the other player never gets there with a compatible hand.
    """
    cards = spot.betting.card[nodes]
    possible = _possible(spot, cards)[..., None]
    met = _compatible(spot, np.where(possible, reach, 0) * spot.dealt[1 - player][:, None])
    num_rivers = spot.num_left - 4  # the players hold four cards
    chance = np.where(cards >= 0, 1 / num_rivers, 1.0)
    return np.where(possible, met, 0) * chance[:, None, None] * spot.dealt[player][:, None]


def chips_ahead(spot: Spot, player: int, nodes: IntArray) -> FloatArray:
    """`[m]` chips by which a player's EV at public nodes exceeds its payoff in the zero-sum game.

    An EV is the expected share of the final pot minus the chips that the player puts in from the node on. A
    payoff counts all chips since the start of the spot, and half of the pot at the start is subtracted from
    it.
    """
    return spot.pot / 2 + spot.betting.put_in[nodes, player]


def find_equities(spot: Spot, ranges: FloatArray, cards: IntArray) -> FloatArray:
    """Equities of all hands at public nodes: the fraction of the pot that each wins without further bets.

    Args:
      spot: the spot.
      ranges: `[M, H]` weights of the other player's hands at each node.
      cards: `[M]` the dealt card at each node, -1 before the deal.

    Returns:
      `[M, H]`; NaN for impossible hands and for hands without a compatible hand of the other player.
    """
    possible = _possible(spot, cards)
    ranges = np.where(possible, ranges, 0)
    met = np.where(possible, _compatible(spot, ranges[..., None])[..., 0], 0)
    if spot.is_flop:
        won = _win_on_flop(spot, ranges)
        return 0.5 + 0.5 * np.divide(won, met, out=np.full_like(won, np.nan), where=met > 0)
    won, num_tables = np.zeros(ranges.shape), spot.showdowns.group.shape[1]
    with precision(np.float64):
        before = np.flatnonzero(cards < 0)
        if len(before):
            weights = np.broadcast_to(ranges[before].T, (num_tables, 1, ranges.shape[1], len(before)))
            chance = 1 if num_tables == 1 else num_tables - 4
            won[before] = _win(spot, np.arange(num_tables), weights)[:, 0].sum(axis=0).T / chance
        shown, card_idx, count = np.unique(cards[cards >= 0], return_inverse=True, return_counts=True)
        tables, after = np.searchsorted(cards_left(spot.gone), shown), np.flatnonzero(cards >= 0)
        for size in np.unique(
            count
        ).tolist():  # nodes of equally many at every card are columns of one product
            alike = np.flatnonzero(count == size)
            at = after[np.isin(card_idx, alike)]
            at = at[np.argsort(cards[at], kind="stable")].reshape(len(alike), size)
            weights = ranges[at].transpose(0, 2, 1)[:, None]
            won[at] = _win(spot, tables[alike], weights)[:, 0].transpose(0, 2, 1)
    return 0.5 + 0.5 * np.divide(won, met, out=np.full_like(won, np.nan), where=met > 0)


def _possible(spot: Spot, cards: IntArray) -> BoolArray:
    """`[m, H]` mask of the hands without the dealt card, -1 for none."""
    return ~(HANDS[spot.hands][None] == cards[:, None, None]).any(axis=2)


def _compatible(spot: Spot, weights: FloatArray) -> FloatArray:
    """`[m, H, L]` total weight of compatible hands, from `[m, H, L]`; 0 where it is a rounding error."""
    count, hands, lanes = weights.shape
    met = spot.compatible_with(weights.transpose(1, 0, 2).reshape(hands, -1))
    met[met <= LEAST_MET * met.max(axis=0, initial=0)] = 0
    return met.reshape(hands, count, lanes).transpose(1, 0, 2)


def _win(spot: Spot, tables: IntArray, weights: FloatArray) -> FloatArray:
    """`[B, 1, H, n]` weight of the hands that each hand beats minus that of those that beat it."""
    showdowns = (
        spot.showdowns if len(tables) == spot.showdowns.group.shape[1] else spot.showdowns.take_tables(tables)
    )
    return np.asarray(_apply(jax.tree.map(jax.device_put, showdowns), jax.device_put(weights)))


def _win_on_flop(spot: Spot, ranges: FloatArray) -> FloatArray:
    """`[M, H]` mean weight of the hands that each hand beats, minus that of those that beat it, on a flop."""
    held, group = flop_groups(spot.cards, spot.dead_cards)
    tables = build_board_tables(spot.num_left, np.arange(len(spot.hands)), shows=True)
    with precision(np.float64):
        won = np.asarray(_sum_over_boards(jax.tree.map(jax.device_put, tables), held, group, ranges.T))
    return won.T / math.comb(spot.num_left - 4, 2)  # the players hold four cards


@functools.lru_cache(maxsize=4)
def flop_groups(cards: tuple[int, ...], dead: tuple[int, ...]) -> tuple[BoolArray, npt.NDArray[np.int16]]:
    """Possible hands `[R, H]` on all rivers of a flop, and their groups of equal strength, ascending."""
    left, hands = cards_left([*cards, *dead]), HANDS[hands_left([*cards, *dead])]
    runouts = list(itertools.combinations(left.tolist(), 2))
    held = np.stack([~np.isin(hands, runout).any(axis=1) for runout in runouts])
    group = np.zeros(held.shape, np.int16)
    for row, runout in enumerate(runouts):
        group[row, held[row]] = strength_groups([*cards, *runout], hands[held[row]])
    return held, group


@compiled
def _sum_over_boards(tables: BoardTables, held: jax.Array, group: jax.Array, weights: jax.Array) -> jax.Array:
    """Sum over boards of the showdowns' payoffs, `[H, n]`."""

    def add(total: jax.Array, board: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        held, group = board
        won = tables.on_boards(held[None], group[None])(0, weights[None, None])
        return total + won[0, 0], None

    return jax.lax.scan(add, jnp.zeros_like(weights), (held, group))[0]


@compiled
def _apply(showdowns: Any, weights: jax.Array) -> jax.Array:
    return showdowns(0, weights)
