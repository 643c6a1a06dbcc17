"""Alternative values that come from an abstraction: best responses there, looked up root by root.

Source: Brown and Sandholm (2017), §6 and §7. Where the paper takes the last iteration of CFR for a best
response within the abstraction, best responses are computed here.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, TypeVar

import numpy as np

from jaxgadget.gadgets.alternative import AbstractValues, ArrayValues
from jaxgadget.gadgets.gadget import Gadget, Perturbed
from jaxgadget.gadgets.ranges import divide, sum_rows
from jaxgadget.gadgets.two_level import MaxMargin, ReachMaxMargin
from jaxgadget.policy.evaluate import best_response
from jaxgadget.policy.policy import Policy, as_policy
from jaxgadget.refining.prepare import prepare
from jaxgadget.tree.cover import find_roots
from jaxgadget.tree.cut import cut_at
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.matching import match_histories
from jaxgadget.util.arrays import FloatArray, IntArray

Asking = TypeVar("Asking", bound=Gadget)


class RootValues(NamedTuple):
    """What the opponent's root infostates are worth in an abstraction; R roots.

    Attributes:
      value: `[R, lanes]` in the resolving player's utility, weighted by its and chance's reach there.
      mass: `[R, lanes]` that reach.
    """

    value: FloatArray
    mass: FloatArray


def look_up(policy: Policy, forest: Forest, player: int) -> RootValues:
    """Values of a forest's root infostates in an abstraction; see `AbstractValues`.

    Args:
      policy: of the abstraction, or of any game with other menus.
      forest: the subgames.
      player: who re-solves.

    Raises:
      ValueError: if a root follows something that is neither in the abstraction nor an action of the opponent
        alone after a history that is; or as `match_histories`.
    """
    tree, opponent = forest.tree, 1 - player
    match = match_histories(tree, policy.tree)
    _, number = find_roots(forest.cover, opponent)
    history = np.empty(len(forest.roots[opponent]), np.int64)
    history[number[::-1]] = forest.cover.roots[::-1]  # the first of each
    value, mass = (np.zeros((len(history), policy.num_lanes)) for _ in range(2))
    there = match[history] >= 0
    if there.any():
        roots = np.unique(match[forest.cover.roots[there[number]]])
        other = build_forest(policy.tree, cut_at(policy.tree, "roots of the abstraction", roots))
        ranges = prepare(other, player, policy).ranges
        state = policy.tree.infostate[opponent, match[history[there]]]
        row = np.searchsorted(other.roots[opponent].infostate, state)
        value[there], mass[there] = ranges.cbv[row], ranges.mass[row]
    if not there.all():
        before = _decisions_before(tree, policy.tree, history[~there], match, opponent)
        value[~there] = -best_response(policy, opponent).infoset_values[before]
        mass[~there] = _infoset_mass(policy, player)[before]
    return RootValues(value, mass)


def _decisions_before(
    tree: HistoryTree, other: HistoryTree, histories: IntArray, match: IntArray, opponent: int
) -> IntArray:
    """`[R]` the other tree's infosets of the opponent after which it did what is unknown there."""
    above = match[tree.parent[histories]]
    infoset = np.where(above >= 0, other.infoset[opponent, above], -1)
    strange = (infoset < 0) | (tree.action[1 - opponent, histories] >= 0)
    if strange.any():
        moves = tree.moves(int(histories[np.argmax(strange)]))
        raise ValueError(
            f"AbstractValues: root history {moves} of {tree.game.name!r} is not in {other.game.name!r}, nor "
            f"does it follow an action that player {opponent} alone takes after a history that is; expected "
            "an abstraction that has all that comes before"
        )
    return infoset


def _infoset_mass(policy: Policy, player: int) -> FloatArray:
    """`[I, lanes]` a player's and chance's reach of the other player's infosets."""
    tree = policy.tree
    acts = np.flatnonzero(tree.infoset[1 - player] >= 0)
    reach = policy.reach(player)[tree.sequence[player, acts]] * tree.chance[acts, None]
    return sum_rows(tree.infoset[1 - player, acts], reach, len(tree.infosets[1 - player]))


def promised_values(
    looked_up: RootValues, mass: FloatArray, otherwise: FloatArray | None = None
) -> FloatArray:
    """`[R, lanes]` values for the reach that the blueprints have: `N(s)` × value per unit of reach.

    Args:
      looked_up: in the abstraction.
      mass: `[R, lanes]` `N(s)` of the blueprints.
      otherwise: `[R, lanes]` what is taken where the abstraction's strategy never gets; by default 0.
    """
    value, known = looked_up
    if otherwise is None:
        return divide(value, known) * mass
    return np.where(known > 0, divide(value, known) * mass, otherwise)


def root_mass(forest: Forest, player: int, policy: Policy) -> FloatArray:
    """`[R, lanes]` `N(s)`, the player's and chance's reach of the opponent's root infostates."""
    tree, roots = forest.tree, forest.cover.roots
    _, number = find_roots(forest.cover, 1 - player)
    reach = policy.reach(player)[tree.sequence[player, roots]] * tree.chance[roots, None]
    return sum_rows(number, reach, len(forest.roots[1 - player]))


def asks_abstraction(gadget: Gadget) -> AbstractValues | None:
    """A gadget's alternative values, if they are of an abstraction."""
    alternative = getattr(gadget, "alternative", None)
    return alternative if isinstance(alternative, AbstractValues) else None


def with_values(gadget: Asking, values: FloatArray) -> Asking:
    """The gadget with numbers in place of the abstraction."""
    assert isinstance(gadget, Perturbed)
    return dataclasses.replace(gadget, alternative=ArrayValues(values, "abstract"))


def look_up_gadget(gadget: Asking, forest: Forest, player: int, blueprint: Policy) -> Asking:
    """The gadget with numbers for its alternative values, if they are of an abstraction.

    Args:
      gadget: what is solved.
      forest: all its subgames.
      player: who re-solves.
      blueprint: the blueprints, a lane each.

    Raises:
      ValueError: as `look_up`; if there is no policy, or one of another number of lanes.
    """
    asked = asks_abstraction(gadget)
    if asked is None:
        return gadget
    if asked.policy is None:
        raise ValueError(
            "AbstractValues() without a policy: only nested_off_tree knows one; expected "
            "AbstractValues(policy), of an abstraction of the game"
        )
    known = look_up(policy_of(asked, blueprint.num_lanes), forest, player)
    return with_values(gadget, promised_values(known, root_mass(forest, player, blueprint)))


def policy_of(asked: AbstractValues, num_lanes: int) -> Policy:
    """The abstraction's policy, of one lane or as many as there are blueprints; ValueError otherwise."""
    policy = as_policy(asked.policy, name="AbstractValues policy")
    if policy.num_lanes not in (1, num_lanes):
        raise ValueError(
            f"AbstractValues: the policy has {policy.num_lanes} lanes; expected one, or {num_lanes} as there "
            "are blueprints"
        )
    return policy


def above_optimum(gadget: Gadget, gap: FloatArray) -> FloatArray:
    """`[lanes]` by how much a solution is more exploitable at most than the best strategy for the subgames.

    2Δ + the largest gap, for max-margin without mistakes and values whose error Δ is known; NaN elsewhere.
    Source: Brown and Sandholm (2017), Theorem 2; gaps are those of margins.

    Args:
      gadget: what was solved.
      gap: `[S, lanes]` of its games.
    """
    asked = asks_abstraction(gadget)
    applies = isinstance(gadget, MaxMargin) and not isinstance(gadget, ReachMaxMargin) and gadget.epsilon == 0
    if asked is None or asked.error is None or not applies:
        return np.full(gap.shape[1], np.nan)
    return 2 * asked.error + gap.max(axis=0, initial=0.0)
