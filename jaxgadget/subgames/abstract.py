"""Alternative values from best responses in an abstraction, looked up for each root.

Source: Brown and Sandholm (2017), §6 and §7. Where the paper takes the last iteration of CFR for a best
response within the abstraction, best responses are computed here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jaxgadget.gadgets.alternative import AbstractValues
from jaxgadget.gadgets.gadget import Gadget, Perturbed
from jaxgadget.gadgets.ranges import divide, sum_rows
from jaxgadget.policy.evaluate import best_response
from jaxgadget.policy.policy import Policy, as_policy
from jaxgadget.subgames.prepare import prepare
from jaxgadget.tree.cover import find_roots
from jaxgadget.tree.cut import cut_at
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.matching import match_histories
from jaxgadget.util.arrays import FloatArray, IntArray


class RootValues(NamedTuple):
    """Values of the opponent's root infostates in an abstraction; R roots.

    Attributes:
      value: `[R, lanes]` in the resolving player's utility, weighted by its reach and chance's.
      mass: `[R, lanes]` the joint reach of the resolving player and chance.
    """

    value: FloatArray
    mass: FloatArray


def look_up(policy: Policy, forest: Forest, player: int) -> RootValues:
    """Looks up the values of a forest's root infostates in an abstraction; see `AbstractValues`.

    Args:
      policy: a policy of the abstraction, or of any game with other menus.
      forest: the subgames.
      player: the resolving player.

    Raises:
      ValueError: if a root follows a move that is neither in the abstraction nor an action of the opponent
        alone after a history of the abstraction; also as `match_histories`.
    """
    tree, opponent = forest.histories, 1 - player
    match = match_histories(tree, policy.histories)
    _, number = find_roots(forest.cover, opponent)
    history = np.empty(len(forest.roots[opponent]), np.int64)
    history[number[::-1]] = forest.cover.roots[::-1]  # the first root of each infostate
    value, mass = (np.zeros((len(history), policy.num_lanes)) for _ in range(2))
    there = match[history] >= 0
    if there.any():
        roots = np.unique(match[forest.cover.roots[there[number]]])
        other = build_forest(policy.histories, cut_at(policy.histories, "roots of the abstraction", roots))
        ranges = prepare(other, player, policy).ranges
        state = policy.histories.infostate[opponent, match[history[there]]]
        row = np.searchsorted(other.roots[opponent].infostate, state)
        value[there], mass[there] = ranges.cbv[row], ranges.mass[row]
    if not there.all():
        before = _decisions_before(tree, policy.histories, history[~there], match, opponent)
        value[~there] = -best_response(policy, opponent).infoset_values[before]
        mass[~there] = _infoset_mass(policy, player)[before]
    return RootValues(value, mass)


def _decisions_before(
    tree: HistoryTree, other: HistoryTree, histories: IntArray, match: IntArray, opponent: int
) -> IntArray:
    """`[R]` infosets of the opponent in the other tree at which it took an action missing there."""
    above = match[tree.parent[histories]]
    infoset = np.where(above >= 0, other.infoset[opponent, above], -1)
    strange = (infoset < 0) | (tree.action[1 - opponent, histories] >= 0)
    if strange.any():
        moves = tree.moves(int(histories[np.argmax(strange)]))
        raise ValueError(
            f"AbstractValues: root history {moves} of {tree.game.name!r} is not in {other.game.name!r}, nor "
            f"does it follow an action that player {opponent} alone takes after a history that is; expected "
            "an abstraction that contains all moves before the root"
        )
    return infoset


def _infoset_mass(policy: Policy, player: int) -> FloatArray:
    """`[I, lanes]` joint reach by a player and chance of the other player's infosets."""
    tree = policy.histories
    acts = np.flatnonzero(tree.infoset[1 - player] >= 0)
    reach = policy.reach(player)[tree.sequence[player, acts]] * tree.chance[acts, None]
    return sum_rows(tree.infoset[1 - player, acts], reach, len(tree.infosets[1 - player]))


def scale_to_reach(
    looked_up: RootValues, mass: FloatArray, otherwise: FloatArray | None = None
) -> FloatArray:
    """`[R, lanes]` values at the blueprints' reach: `N(s)` × value per unit of reach.

    Args:
      looked_up: values in the abstraction.
      mass: `[R, lanes]` `N(s)` of the blueprints.
      otherwise: `[R, lanes]` values of roots that the abstraction's strategy never reaches; by default 0.
    """
    value, known = looked_up
    if otherwise is None:
        return divide(value, known) * mass
    return np.where(known > 0, divide(value, known) * mass, otherwise)


def root_mass(forest: Forest, player: int, policy: Policy) -> FloatArray:
    """`[R, lanes]` `N(s)`, joint reach by the player and chance of the opponent's root infostates."""
    tree, roots = forest.histories, forest.cover.roots
    _, number = find_roots(forest.cover, 1 - player)
    reach = policy.reach(player)[tree.sequence[player, roots]] * tree.chance[roots, None]
    return sum_rows(number, reach, len(forest.roots[1 - player]))


def policy_of(values: AbstractValues, num_lanes: int) -> Policy:
    """The abstraction's policy; raises ValueError unless it has one lane, or one for each blueprint."""
    policy = as_policy(values.policy, name="AbstractValues policy")
    if policy.num_lanes not in (1, num_lanes):
        raise ValueError(
            f"AbstractValues: the policy has {policy.num_lanes} lanes; expected one, or {num_lanes}, one "
            "for each blueprint"
        )
    return policy


def above_optimum(gadget: Gadget, gap: FloatArray) -> FloatArray:
    """`[lanes]` bound on a solution's exploitability in excess of the best strategy for the subgames.

    NaN unless the gadget has values of known error, and a bound for them; see `Perturbed.error_bound`.

    Args:
      gadget: the solved gadget.
      gap: `[S, lanes]` NashConv of its games.
    """
    values = gadget.alternative
    error = values.error if isinstance(values, AbstractValues) else None
    if error is None or not isinstance(gadget, Perturbed):
        return np.full(gap.shape[1], np.nan)
    return gadget.error_bound(error, gap)
