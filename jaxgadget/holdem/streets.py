"""A spot street by street: betting trees without cards, and the classes of boards on every street.

The betting is the same on all boards of a street, so that a street has one betting tree, and its boards are
lanes. Runouts that a permutation of suits maps to each other have the same solution up to that permutation,
if it preserves both ranges: only the first of each class is a lane.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxgadget.core.host import HostTreeplex, build_treeplex
from jaxgadget.games.game import ACTOR_BIT, CHANCE, TERMINAL
from jaxgadget.games.hands import PublicNodes
from jaxgadget.holdem.betting import BettingTree
from jaxgadget.holdem.cards import HANDS, cards_left
from jaxgadget.holdem.isomorphism import exchanged_hands
from jaxgadget.util.arrays import IntArray

Suits = tuple[int, ...]
"""A permutation of suits."""


class Street(NamedTuple):
    """The betting of a street, in a tree with a single card for each deal.

    Attributes:
      treeplex: both players' decisions with one hand; roots are the nodes `roots`, infosets are nodes.
      block: for both players `[n]` the sequence that leads to each node; -1 on other streets.
      roots: `[K]` nodes where the street begins.
      deals: nodes where the next card is dealt; the next street's roots are in the same order.
      folds: nodes where a player has folded.
      showdowns: nodes of showdowns.
    """

    treeplex: tuple[HostTreeplex, HostTreeplex]
    block: tuple[IntArray, IntArray]
    roots: IntArray
    deals: IntArray
    folds: IntArray
    showdowns: IntArray

    def children(self, nodes: PublicNodes, player: int) -> IntArray:
        """`[C]` node after each action of a player's treeplex, in its order."""
        treeplex = self.treeplex[player]
        node = treeplex.infoset[treeplex.sequence_infoset]
        return nodes.first_child[node] + treeplex.sequence_slot


def split_streets(betting: BettingTree) -> list[Street]:
    """Splits a tree with a single card for each deal into streets."""
    nodes = betting.tree
    street = np.zeros(len(nodes), np.int64)
    for level in nodes.levels_below():
        above = nodes.parent[level]
        street[level] = street[above] + (nodes.actor[above] == CHANCE)
    streets: list[Street] = []
    for number in range(int(street.max()) + 1):
        inside = street == number
        roots = np.flatnonzero(
            inside & ((nodes.actor[nodes.parent] == CHANCE) | (np.arange(len(nodes)) == 0))
        )
        first, second = (_decisions(nodes, inside, roots, player) for player in (0, 1))
        ends = inside & (nodes.actor == TERMINAL)
        streets.append(
            Street(
                treeplex=(first[0], second[0]),
                block=(first[1], second[1]),
                roots=roots,
                deals=np.flatnonzero(inside & (nodes.actor == CHANCE)),
                folds=np.flatnonzero(ends & (betting.folded >= 0)),
                showdowns=np.flatnonzero(ends & (betting.folded < 0)),
            )
        )
    return streets


def _decisions(
    nodes: PublicNodes, inside: np.ndarray, roots: IntArray, player: int
) -> tuple[HostTreeplex, IntArray]:
    """A player's decisions on a street, and `[n]` the sequence that leads to each of its nodes."""
    acts = np.flatnonzero(inside & (nodes.actor == ACTOR_BIT[player]))
    row, depth = np.full(len(nodes), -1), np.zeros(len(nodes), np.int64)
    row[acts] = np.arange(len(acts))
    above, slot = np.full(len(nodes), -1), np.zeros(len(nodes), np.int64)  # last own decision, and its action
    slot[roots] = np.arange(len(roots))
    is_root = np.isin(np.arange(len(nodes)), roots)
    for node in np.flatnonzero(inside & ~is_root).tolist():
        parent = nodes.parent[node]
        if row[parent] >= 0:
            above[node], slot[node], depth[node] = row[parent], nodes.slot[node], depth[parent] + 1
        else:
            above[node], slot[node], depth[node] = above[parent], slot[parent], depth[parent]
    treeplex, position = build_treeplex(
        num_roots=len(roots),
        depth=depth[acts],
        num_actions=nodes.num_children[acts],
        parent_infoset=above[acts],
        parent_slot=slot[acts],
        infoset=acts,
    )
    block = np.full(len(nodes), -1)
    at_root = inside & (above < 0)
    block[at_root] = slot[at_root]
    below = np.flatnonzero(inside & (above >= 0))
    block[below] = treeplex.sequence(position[above[below]], slot[below])
    return treeplex, block


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lane:
    """A class of isomorphic boards.

    Attributes:
      cards: cards that were dealt to the first board of the class.
      above: lane of the street before.
      outcomes: for every outcome of the last deal in the class its card, and the permutation of suits that
        maps it to the lane's card and preserves the cards before.
      symmetries: permutations of suits that preserve the first board card by card as dealt, and both ranges.
    """

    cards: tuple[int, ...]
    above: int
    outcomes: tuple[tuple[int, Suits], ...]
    symmetries: tuple[Suits, ...]


def find_lanes(gone: Sequence[int], exchanges: Sequence[Suits], num_deals: int) -> list[list[Lane]]:
    """The lanes of every street, from the one without a dealt card on.

    Args:
      gone: cards of the board at the start, and dead cards.
      exchanges: permutations of suits that preserve these cards and both ranges, the identity first.
      num_deals: number of deals.
    """
    streets = [[Lane(cards=(), above=-1, outcomes=(), symmetries=tuple(exchanges))]]
    for _ in range(num_deals):
        lanes: list[Lane] = []
        for above, lane in enumerate(streets[-1]):
            classes: dict[int, list[tuple[int, Suits]]] = {}
            for card in cards_left([*gone, *lane.cards]).tolist():
                images = [exchange_card(card, suits) for suits in lane.symmetries]
                first = min(images)
                classes.setdefault(first, []).append((card, lane.symmetries[images.index(first)]))
            for card, outcomes in classes.items():
                kept = tuple(suits for suits in lane.symmetries if exchange_card(card, suits) == card)
                lanes.append(
                    Lane(cards=(*lane.cards, card), above=above, outcomes=tuple(outcomes), symmetries=kept)
                )
        streets.append(lanes)
    return streets


def exchange_card(card: int, suits: Suits) -> int:
    """Applies a permutation of suits to a card."""
    return card // 4 * 4 + suits[card % 4]


def exchange_hands(hands: IntArray, suits: Suits) -> IntArray:
    """`[H]` position of each hand's image among the hands, which the permutation preserves as a set.

    Args:
      hands: `[H]` indices into `HANDS`, ascending; -1 for padding at the end, which is its own image.
      suits: the permutation of suits.
    """
    position = np.zeros(len(HANDS), np.int64)
    real = np.flatnonzero(hands >= 0)
    position[hands[real]] = real
    image = np.arange(len(hands))
    image[real] = position[exchanged_hands(suits)[hands[real]]]
    return image


class Slices(NamedTuple):
    """Lanes of a street in slices, each of which lies below adjacent lanes of a slice above.

    Attributes:
      lane: `[slices, L]` lane in each place, ordered by the lane above; -1 for padding.
      first: `[slices above + 1]` first slice below each slice above.
      above: `[slices]` place, within its slice, of the first lane above.
      num_above: number of lanes that a slice lies below; its places are divided equally among them.
    """

    lane: IntArray
    first: IntArray
    above: IntArray
    num_above: int


def slice_lanes(lanes: Sequence[Lane], above: IntArray, size: int) -> Slices:
    """Arranges the lanes of a street below those of the street above.

    Args:
      lanes: the lanes.
      above: `[slices above, L above]` lanes of the street above, -1 for padding.
      size: largest number of lanes of a slice. A slice lies below several lanes of the street above only if
        everything below them fits into it.
    """
    below: dict[int, list[int]] = {}
    for lane_idx, lane in enumerate(lanes):
        below.setdefault(lane.above, []).append(lane_idx)
    rows: list[list[int]] = []
    first, places = [0], list[int]()
    largest, lanes_above = max(map(len, below.values())), above.shape[1]
    num_above = max(
        count
        for count in range(1, lanes_above + 1)
        if lanes_above % count == 0 and (count == 1 or count * largest <= size)
    )
    width = -(-largest // -(-largest // size)) if num_above == 1 else largest
    for slice_above in above.tolist():
        for place in range(0, lanes_above, num_above):
            inside = [below.get(lane, []) for lane in slice_above[place : place + num_above]]
            for begin in range(0, max(map(len, inside)), width):
                parts = [lanes_below[begin : begin + width] for lanes_below in inside]
                rows.append([lane for part in parts for lane in [*part, *[-1] * (width - len(part))]])
                places.append(place)
        first.append(len(rows))
    return Slices(np.array(rows), np.array(first), np.array(places), num_above)
