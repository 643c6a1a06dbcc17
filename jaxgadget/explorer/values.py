"""Reaches, values and equities of policies at the cells of public nodes, in float64.

Values are those of `policy.node_values`; reaches of chance are applied by the tree's own matrix over rows of
both players (`Tree.chance_entries`), with a row for every node and hand. In hold'em EVs count from the node
on, as in `holdem.values`.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from jaxgadget.core.payoff import multiply
from jaxgadget.explorer.nodes import Nodes
from jaxgadget.games.game import CHANCE
from jaxgadget.holdem.values import chips_ahead, find_equities, find_met
from jaxgadget.policy.node_values import counterfactual_values
from jaxgadget.policy.policy import Policy
from jaxgadget.tree.public import PublicTree
from jaxgadget.util.arrays import FloatArray, IntArray


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SeatNumbers:
    """A player's numbers at its C cells, L lanes. Values are in the player's utility, in units of payoff.

    Attributes:
      reach: `[C, L]` the player's own probability of playing to the cell; in hold'em, times its weight in the
        range.
      weight: `[C, L]` share of the cell in the public node, given that play reaches the node; if it does not,
        as if the opponent, or both players, played there.
      ev: `[C, L]` expected payoff at the cell if both follow the policy, in hold'em from the node on; NaN
        where the opponent never plays to the node.
      equity: `[C, L]` share of the pot that the hand wins without further bets; NaN except in hold'em.
      probability: `[slots, L]` probability of each action; NaN if it is not legal with the private state.
      action_ev: `[slots, L]` expected payoff after each action.
      mean_ev: `[N, L]` expected payoff at each public node, NaN where it is not reached.
    """

    reach: FloatArray
    weight: FloatArray
    ev: FloatArray
    equity: FloatArray
    probability: FloatArray
    action_ev: FloatArray
    mean_ev: FloatArray


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Numbers:
    """Numbers of a policy at all public nodes.

    Attributes:
      labels: labels of the lanes.
      reach: `[N, L]` probability of reaching each public node; in hold'em given the ranges.
      seats: both players' numbers.
    """

    labels: tuple[str, ...]
    reach: FloatArray
    seats: tuple[SeatNumbers, SeatNumbers]


def find_numbers(nodes: Nodes, policy: Policy, worth: tuple[FloatArray, FloatArray] | None = None) -> Numbers:
    """Evaluates a policy at all public nodes, all lanes at once.

    Args:
      nodes: the public nodes.
      policy: the strategies.
      worth: for both players `[n, H, L]` counterfactual values at the tree's nodes, by default those of its
        payoffs.
    """
    tree, spot = nodes.tree, nodes.spot
    plays = [_play(nodes, policy, player) for player in (0, 1)]
    others = [_other_reach(nodes, player, plays[1 - player][0]) for player in (0, 1)]
    whole = [_other_reach(nodes, player, np.ones_like(plays[1 - player][0][..., :1])) for player in (0, 1)]
    joint = (plays[0][0] * others[0]).sum(axis=1)
    total = _sum(nodes.of, joint, len(nodes))
    if spot is None:  # nodes of chance begin at the first of several chance moves
        deals = tree.actor == CHANCE
        total = np.maximum(total, _sum(np.where(deals, nodes.of, -1), joint, len(nodes)))
    seats: list[SeatNumbers] = []
    for player in (0, 1):
        cells, (own, chosen) = nodes.cells[player], plays[player]
        every = np.arange(len(tree.parent))
        if worth is None:
            earned = counterfactual_values(tree, player, every, plays[1 - player][0], chosen)
        else:
            earned = worth[player]
        count = len(cells.node)
        mass, possible = (_sum(cells.of, x, count) for x in (others[player], whole[player]))
        reach = own[cells.member, cells.hand]
        start = np.ones(count) if spot is None else spot.range_weights[player][cells.hand]
        value = _sum(cells.of, earned, count)
        slot = _slots(nodes, player)
        probability = np.full((int(cells.first_slot[-1]), policy.num_lanes), np.nan)
        probability[slot[slot >= 0]] = chosen[slot >= 0]
        by_action = _sum(slot, earned, len(probability))
        by_action[np.isnan(probability)] = np.nan
        owner = np.repeat(np.arange(count), np.diff(cells.first_slot))
        ahead = np.full((len(nodes), 1), tree.constant / 2)
        if spot is not None:
            ahead = chips_ahead(spot, player, nodes.in_betting)[:, None]
        with np.errstate(invalid="ignore", divide="ignore"):
            ev = np.where(mass > 0, value / mass, np.nan) + ahead[cells.node]
            action_ev = np.where(mass[owner] > 0, by_action / mass[owner], np.nan) + ahead[cells.node[owner]]
            # Some play may have ended at a node, where that is not public.
            acting = _sum(cells.node, reach * mass, len(nodes))
            mean = np.where(acting > 0, _sum(cells.node, reach * value, len(nodes)) / acting, np.nan) + ahead
        seats.append(
            SeatNumbers(
                reach=reach * start[:, None],
                weight=_shares(cells.node, reach, mass, possible, len(nodes)),
                ev=_known(ev, tree.is_truncated),
                equity=_equities(nodes, player, plays[1 - player][0]),
                probability=probability,
                action_ev=_known(action_ev, tree.is_truncated),
                mean_ev=_known(mean, tree.is_truncated),
            )
        )
    return Numbers(labels=policy.labels, reach=total / total[0], seats=(seats[0], seats[1]))


def _known(values: FloatArray, truncated: bool) -> FloatArray:
    """The values; NaN in a truncated tree, whose payoffs are not known."""
    return np.full_like(values, np.nan) if truncated else values


def _sum(row: IntArray, x: FloatArray, count: int) -> FloatArray:
    """Sums `[..., L]` into rows `[...]`, -1 for none: `[count, L]`."""
    inside = row >= 0
    target, values = row[inside], x[inside]
    sums = [np.bincount(target, column, minlength=count) for column in values.T]
    return np.asarray(np.stack(sums, axis=1), np.float64)


def _play(nodes: Nodes, policy: Policy, player: int) -> tuple[FloatArray, FloatArray]:
    """`[n, H, L]` a player's reach, 0 for impossible hands, and probability of its action at the parent."""
    tree = nodes.tree
    sequence = tree.sequences_by_hand(player, tree.sequence[player])
    possible = sequence >= 0
    if isinstance(tree, PublicTree):
        possible = possible & tree.possible(player, np.arange(len(tree.parent)))
    if nodes.spot is not None:
        possible = possible & (nodes.spot.dealt[player] > 0)
    reach = np.where(possible[..., None], policy.reach(player)[np.maximum(sequence, 0)], 0)
    took = (tree.action[player] >= 0)[:, None] & (sequence > 0)
    probabilities = np.append(np.ones((1, policy.num_lanes)), policy.probabilities[player], axis=0)
    rows = probabilities[np.maximum(sequence, 0)]  # that of the empty sequence is not used
    return reach, np.where(took[..., None], rows, 1.0)


def _other_reach(nodes: Nodes, player: int, reach: FloatArray) -> FloatArray:
    """`[n, H, L]` reach of the other player `[n, H_other, L]` and chance at each node and hand."""
    tree, spot = nodes.tree, nodes.spot
    count, lanes = reach.shape[0], reach.shape[-1]
    if spot is None:
        rows = np.arange(count)
        num_rows = count * tree.num_hands[0], count * tree.num_hands[1]
        entries = tree.chance_entries(rows, (rows, rows), num_rows)
        return multiply(entries, player, reach.reshape(-1, lanes)).reshape(count, -1, lanes)
    return find_met(spot, player, nodes.in_betting, reach)


def _slots(nodes: Nodes, player: int) -> IntArray:
    """`[n, H]` slot of the player's action that leads to each node from the cell above; -1 for none."""
    tree, cells = nodes.tree, nodes.cells[player]
    slot = np.full(cells.of.shape, -1, np.int64)
    taken = np.flatnonzero(tree.action[player] >= 0)
    taken = taken[taken > 0]
    cell, action = cells.of[tree.parent[taken]], tree.action[player, taken].astype(np.int64)
    counts = np.array([len(actions) for actions in cells.actions])
    actions = np.array([action for actions in cells.actions for action in actions], np.int64)
    # Pairs of a node and an action in one number, ascending.
    size = int(max(actions.max(initial=0), action.max(initial=0))) + 1
    pairs = np.repeat(np.arange(len(counts)), counts) * size + actions
    node = nodes.of[tree.parent[taken]].astype(np.int64)
    place = np.searchsorted(pairs, node * size + action)
    is_known = np.append(pairs, -1)[place] == node * size + action
    column = place - np.append(0, np.cumsum(counts))[node]
    inside = (cell >= 0) & (is_known & (node >= 0))[:, None]
    slot[taken] = np.where(inside, cells.first_slot[cell] + column[:, None], -1)
    return slot


def _shares(
    node: IntArray, reach: FloatArray, mass: FloatArray, possible: FloatArray, count: int
) -> FloatArray:
    """`[C, L]` shares of cells in their nodes; the first of three weights that is not 0 everywhere."""
    shares = np.zeros_like(reach)
    for weight in (np.broadcast_to(possible, reach.shape), reach * possible, reach * mass):
        total = _sum(node, weight, count)[node]
        shares = np.where(total > 0, weight / np.where(total > 0, total, 1), shares)
    return shares


def _equities(nodes: Nodes, player: int, other: FloatArray) -> FloatArray:
    """`[C, L]` equities against the other player's range at the node; NaN for games other than hold'em."""
    cells, spot = nodes.cells[player], nodes.spot
    equity = np.full((len(cells.node), other.shape[-1]), np.nan)
    if spot is None:
        return equity
    acting = np.unique(cells.node)
    cards = spot.betting.card[nodes.in_betting[acting]]
    for lane in range(other.shape[-1]):
        ranges = other[acting, :, lane] * spot.range_weights[1 - player]
        equity_by_node = np.full((len(other), ranges.shape[1]), np.nan)
        equity_by_node[acting] = find_equities(spot, ranges, cards)
        equity[:, lane] = equity_by_node[cells.node, cells.hand]
    return equity
