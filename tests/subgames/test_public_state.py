"""Trees from a public state on against the enumerated game."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from jaxgadget import MaxMargin, Policy, Resolving, Solver, UniformPrior, Unsafe, load, refine
from jaxgadget.games.game import SIMULTANEOUS, Budget, TooLargeError
from jaxgadget.games.machine import StateMachine
from jaxgadget.games.public_state import find_public_state, public_observations
from jaxgadget.policy.states import policy_of_states
from jaxgadget.tree.cut import cut, cut_at
from jaxgadget.tree.history import HistoryTree, enumerate_game
from jaxgadget.tree.states import enumerate_from, game_from, public_roots, states_at
from jaxgadget.util.arrays import IntArray
from tests.reference.states import probabilities_of

GAMES = [
    "kuhn_poker",
    "goofspiel(imp_info=True,num_cards=4,points_order=descending)",
    "goofspiel(imp_info=True,num_cards=3)",
    "goofspiel(imp_info=True,num_cards=4,num_turns=2,points_order=ascending)",
]


def public_states(tree: HistoryTree) -> list[IntArray]:
    """The histories of each public state with decisions, where it begins."""
    acts = np.flatnonzero(tree.actor & SIMULTANEOUS)
    assert tree.public is not None
    return [acts[tree.public[acts] == state] for state in np.unique(tree.public[acts])]


def machine(name: str) -> StateMachine[Any]:
    game = load(name)
    assert isinstance(game, StateMachine)
    return game


@pytest.mark.parametrize("name", GAMES)
def test_public_states_are_those_of_the_tree(name: str) -> None:
    game = machine(name)
    tree = enumerate_game(game)
    policy = Policy.dirichlet(tree, 0)
    strategy = probabilities_of(policy)
    for histories in public_states(tree):
        observed = public_observations(game, tree.moves(int(histories[-1])))
        found = find_public_state(game, observed, strategy)
        assert [found.history(k) for k in range(len(found))] == list(map(tree.moves, histories.tolist()))
        np.testing.assert_allclose(found.chance, tree.chance[histories], rtol=1e-12)
        for player in (0, 1):
            reach = policy.reach(player)[tree.sequence[player, histories], 0]
            np.testing.assert_allclose(found.reach[player], reach, rtol=1e-12)
            assert found.acted[player] == bool(tree.sequence[player, histories].any())
            ids, others = found.infostate[player], tree.infostate[player, histories]
            assert len(set(ids)) == len(set(others)) == len(set(zip(ids, others, strict=True)))


@pytest.mark.parametrize("name", GAMES[:3])
def test_refining_from_a_public_state_is_refining_in_the_game(name: str) -> None:
    game = machine(name)
    tree = enumerate_game(game)
    policy = Policy.dirichlet(tree, 1)
    strategy = probabilities_of(policy)
    gadgets = [Unsafe(), Resolving(UniformPrior()), MaxMargin()]
    solver = Solver(iterations=30, dtype="float64")
    states = public_states(tree)
    histories = states[len(states) // 2]
    public = find_public_state(game, public_observations(game, tree.moves(int(histories[0]))), strategy)
    small = enumerate_from(public)
    blueprint, roots = policy_of_states(small, strategy, "dirichlet"), public_roots(small)
    whole = cut_at(tree, "state", histories)
    matched, compared = match(tree, small, histories, roots), 0
    for player in (0, 1):
        below = refine(small, cut(small, roots), blueprint, gadgets=gadgets, player=player, solver=solver)
        inside = refine(tree, whole, policy, gadgets=gadgets, player=player, solver=solver)
        infosets, others = small.infosets[player], tree.infosets[player]
        rows = np.flatnonzero(matched[infosets.history[infosets.infoset[1:]]] >= 0)
        compared += len(rows)
        owner = infosets.infoset[1:][rows]
        other = tree.infoset[player, matched[infosets.history[owner]]]
        slot = 1 + rows - infosets.first_sequence[owner]
        np.testing.assert_allclose(
            below.policy.probabilities[player][rows],
            inside.policy.probabilities[player][others.first_sequence[other] - 1 + slot],
            atol=1e-9,
        )
    assert compared


def match(tree: HistoryTree, small: HistoryTree, histories: IntArray, roots: IntArray) -> IntArray:
    """`[n]` the history of the whole tree for each one at or below the public state, else -1."""
    matched = np.full(small.num_histories, -1)
    matched[roots] = histories
    for history in range(int(roots[0]), small.num_histories):
        above = matched[small.parent[history]]
        if matched[history] < 0 <= above:
            (children,) = np.nonzero(tree.parent == above)
            same = (tree.action[:, children] == small.action[:, history, None]).all(axis=0)
            matched[history] = children[same][0]
    return matched


@pytest.mark.parametrize("name", GAMES)
def test_a_limit_ends_the_tree_at_one_players_decisions(name: str) -> None:
    game = machine(name)
    whole = enumerate_game(game)
    for player in (0, 1):
        public = find_public_state(
            game, public_observations(game, whole.moves(int(public_states(whole)[0][0])))
        )
        small = enumerate_from(public, depth=1, player=player)
        roots, leaves = public_roots(small), small.leaves
        assert (small.actor[leaves] & (1 << player)).all()
        assert (small.num_moves[leaves] > small.num_moves[roots[0]]).all()
        _, state = states_at(small, leaves)
        for number in range(0, len(leaves), max(1, len(leaves) // 5)):
            drawn, *below = small.moves(int(leaves[number]))
            history = (*public.history(cast(int, drawn)), *below[game_from(small).num_moves :])
            (same,) = [h for h in range(whole.num_histories) if whole.moves(h) == history]
            _, expected = states_at(whole, np.array([same]))
            for field, other in zip(state, expected, strict=True):
                np.testing.assert_array_equal(field[..., number], other[..., 0])


def test_observations_without_a_history_and_too_many_histories_are_refused() -> None:
    game = machine(GAMES[1])
    with pytest.raises(ValueError, match="no history has the public observations"):
        find_public_state(game, (99,))
    with pytest.raises(ValueError, match="not a legal move"):
        public_observations(game, [(0, 0), (0, 1)])
    with pytest.raises(TooLargeError, match="max_histories=10"):
        find_public_state(game, (4, 4), budget=Budget(game.name, 10))
