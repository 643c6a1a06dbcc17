"""A player's knowledge at a cut, from the definitions: walks over root histories, sets and loops.

Root histories are adjacent if they share an infostate of either player; Iᵏ is those at distance < k from I.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tests.reference.efg import Array, Label

States = Sequence[Sequence[Label]]
"""For both players the infostate of every history."""


class Known(NamedTuple):
    """The subgame of an own infostate.

    Attributes:
      kept: its root histories.
    """

    kept: frozenset[int]


def infostates(states: States, roots: Sequence[int], player: int) -> list[Label]:
    """A player's root infostates, ascending."""
    return sorted({states[player][h] for h in roots})


def neighbourhood(states: States, roots: Sequence[int], player: int, own: Label, order: float) -> set[int]:
    """Iᵏ of the own infostate I, for any k ≥ 1: the root histories at distance < k from it."""
    reached = {h for h in roots if states[player][h] == own}
    distance = 0
    while distance + 1 < order:
        further = {
            h for h in roots for near in reached if any(known[h] == known[near] for known in states)
        }  # at most one further
        if further == reached:
            break
        reached, distance = further, distance + 1
    return reached


def known(
    states: States, roots: Sequence[int], player: int, own: Label, order: float, unfrozen: bool
) -> Known:
    """The subgame of an own infostate: Iᵏ⁺¹ if all of it is solved, otherwise Iᵏ with the rest constant."""
    return Known(frozenset(neighbourhood(states, roots, player, own, order + unfrozen)))


def meeting(states: States, roots: Sequence[int], player: int) -> list[set[Label]]:
    """The opponent's infostates that share a root history with each own one, in order of `infostates`."""
    return [
        {states[1 - player][h] for h in roots if states[player][h] == own}
        for own in infostates(states, roots, player)
    ]


def colour_classes(met: Sequence[set[Label]]) -> list[int]:
    """A class for each own infostate, given the opponent's infostates that it meets: greedy colouring.

    Own infostates conflict if they meet a common infostate. Each gets the smallest class without a conflict,
    in descending order of the number of conflicts.
    """
    in_way = [[k for k, theirs in enumerate(met) if k != i and theirs & mine] for i, mine in enumerate(met)]
    found: dict[int, int] = {}
    for i in sorted(range(len(met)), key=lambda i: (-len(in_way[i]), i)):
        taken = {found[k] for k in in_way[i] if k in found}
        found[i] = min(set(range(len(met))) - taken)
    return [found[i] for i in range(len(met))]


def degree_shares(met: Sequence[set[Label]]) -> list[float]:
    """1 / the largest number of own infostates that meet an infostate met by I."""
    return [1 / max(sum(other in theirs for theirs in met) for other in mine) for mine in met]


def best_share_sum(met: Sequence[set[Label]]) -> float:
    """The largest sum of shares in [0, 1] whose sum is at most 1 at each of the opponent's infostates.

    The maximum over all vertices: every choice of as many tight constraints as there are shares.
    """
    opponents = sorted(set[Label]().union(*met))
    at_most_one = np.array([[float(other in mine) for mine in met] for other in opponents])
    one = np.eye(len(met))
    rows = np.concatenate([at_most_one, one, -one])  # rows · λ ≤ bounds
    bounds = np.concatenate([np.ones(len(opponents) + len(met)), np.zeros(len(met))])
    best = 0.0
    for chosen in itertools.combinations(range(len(rows)), len(met)):
        matrix: Array = rows[list(chosen)]
        if abs(np.linalg.det(matrix)) < 0.5:  # an integer
            continue
        share = np.linalg.solve(matrix, bounds[list(chosen)])
        if (rows @ share <= bounds + 1e-9).all():
            best = max(best, float(share.sum()))
    return best
