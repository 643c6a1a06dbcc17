"""Trees from a public state on against the enumerated game."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
import pytest
from pandas.testing import assert_frame_equal

from jaxgadget import (
    ExactValues,
    MaxMargin,
    Policy,
    ReachMaxMargin,
    Resolving,
    SearchPlayer,
    Solver,
    UniformPrior,
    Unsafe,
    load,
    nested_search,
    play_players,
    refine,
)
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.games.game import SIMULTANEOUS, Budget, TooLargeError
from jaxgadget.games.goofspiel import Goofspiel
from jaxgadget.games.machine import StateMachine
from jaxgadget.games.public_state import find_public_state, public_observations
from jaxgadget.policy.positions import StatePositions
from jaxgadget.policy.states import policy_of_states
from jaxgadget.subgames.public_search import KeptSearches
from jaxgadget.tree.cut import cut, cut_at
from jaxgadget.tree.history import HistoryTree, enumerate_game
from jaxgadget.tree.matching import child_after
from jaxgadget.tree.states import enumerate_from, game_from, public_roots, states_at
from jaxgadget.util.arrays import FloatArray, IntArray
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


@pytest.mark.parametrize("name", [GAMES[0], pytest.param(GAMES[1], marks=pytest.mark.slow), GAMES[2]])
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


class GenericGoofspiel(Goofspiel):
    """Goofspiel with distinct payoffs, without ties that rounding would break."""

    def returns(self, state: Any) -> Any:
        first, second = state.bids.astype(float)
        turn = np.arange(self.turns)[:, None]
        won = state.lead / 2 + 0.1 * np.sin(1 + 2 * first + 3 * first * second + turn * second).sum(axis=0)
        return np.stack([won, -won])


class InTree:
    """Exact values of a whole tree, for trees from a public state on."""

    def __init__(self, exact: ExactValues):
        self.exact, self.num_entries = exact, exact.num_entries

    def __call__(self, tree: HistoryTree, histories: IntArray) -> FloatArray:
        whole, game = self.exact.portfolio.histories, game_from(tree)
        same = np.zeros(len(histories), np.int64)
        paths = [tree.moves(history) for history in histories.tolist()]
        made = [(*game.public.history(cast(int, d)), *below[game.num_moves :]) for d, *below in paths]
        for number, moves in enumerate(made):
            for move in moves:
                acts = [bool(whole.actor[same[number]] & bit) for bit in (1, 2, 4)]
                both = [*move, -1] if isinstance(move, tuple) else [move if act else -1 for act in acts]
                same[number] = child_after(whole, same[number : number + 1], np.array([both]).T)[0]
        return self.exact(whole, same)


@pytest.mark.parametrize(
    ("game", "gadget"),
    [
        (load("kuhn_poker"), Resolving(UniformPrior(), 0.01)),
        pytest.param(
            load("leduc_poker(num_ranks=2,max_raises=1)"), MaxMargin(), marks=pytest.mark.slow, id="leduc"
        ),
        pytest.param(
            GenericGoofspiel(num_cards=3, imp_info=True),
            Resolving(UniformPrior(), 0.01),
            marks=pytest.mark.slow,
            id="goofspiel",
        ),
    ],
)
def test_searching_from_public_states_is_searching_in_the_tree(game: Any, gadget: Gadget) -> None:
    tree = enumerate_game(game)
    blueprint = Policy.dirichlet(tree, 1)
    exact = ExactValues(Policy.stack([blueprint, Policy.dirichlet(tree, 2), Policy.uniform(tree)]))
    solver = Solver(iterations=20, dtype="float64")
    in_tree = SearchPlayer(blueprint, gadget, values=exact, solver=solver)
    in_states = SearchPlayer(
        probabilities_of(blueprint), gadget, values=InTree(exact), depth=1, solver=solver
    )
    for player in (0, 1):
        infosets = tree.infosets[player]
        histories = np.sort(infosets.history)
        expected = in_tree.action_probabilities(tree, player, histories)
        made = [moves_along(tree, history) for history in histories.tolist()]
        longest = max(map(len, made))
        games = StatePositions(
            game,
            states_at(tree, histories)[1],
            np.stack([np.pad(m, ((0, longest - len(m)), (0, 0)), constant_values=-1) for m in made], axis=-1),
        )
        searched = in_states.state_probabilities(games, player)
        for row, probabilities, history in zip(searched, expected, histories.tolist(), strict=True):
            actions = infosets.action[infosets.infoset == tree.infoset[player, history]]
            np.testing.assert_allclose(row[actions], probabilities[: len(actions)], atol=1e-9)
            assert row.sum() == pytest.approx(1)
        assert in_states.searches(player) > 1


def moves_along(tree: HistoryTree, history: int) -> IntArray:
    """`[L, 3]` the moves to a history."""
    moves: list[IntArray] = []
    while history:
        moves.append(tree.action[:, history])
        history = int(tree.parent[history])
    return np.array(moves[::-1], np.int16).reshape(-1, 3)


@pytest.mark.slow
def test_memory_of_searches_is_bounded() -> None:
    game, values = machine("goofspiel(imp_info=True,num_cards=5,points_order=descending)"), Zeros()

    def uniform(state: Any, player: int) -> Any:
        return state.hands[player] / state.hands[player].sum(axis=0)

    def low(state: Any, player: int) -> Any:
        return state.hands[player] & (state.hands[player].cumsum(axis=0) == 1)

    small = SearchPlayer(
        uniform, MaxMargin(), values=values, depth=1, solver=Solver(iterations=5, memory_limit=2_000)
    )
    with pytest.raises(TooLargeError, match="kB"):
        play_players(game, {"search": small, "uniform": uniform}, matches=1, seed=0)
    skipping = SearchPlayer(
        uniform, MaxMargin(), values=values, skip_too_large=True, solver=Solver(memory_limit=2_000)
    )
    played = play_players(game, {"search": skipping, "low": low}, matches=20, seed=0)
    expected = play_players(game, {"search": uniform, "low": low}, matches=20, seed=0)
    assert_frame_equal(played.table, expected.table)
    assert skipping.skipped(0) > skipping.searches(0) == 0
    limit = 20_000_000
    player = SearchPlayer(
        uniform, MaxMargin(), values=values, depth=1, solver=Solver(iterations=5, memory_limit=limit)
    )
    played = play_players(game, {"search": player, "uniform": uniform}, matches=1, seed=0)
    assert played.table["mean_return"].abs().max() <= 1
    assert player.searches(0) >= 3


def test_both_seats_share_the_memory() -> None:
    """A search drops the oldest ones of either seat, before it runs."""
    search = FakeSearch(num_bytes=40)
    kept: Any = KeptSearches(100)
    for key in ("first", "second"):
        kept.add((0, key), search)
    assert kept.get((0, "first")) is search  # now the last one that was used
    kept.make_room(50)
    assert kept.get((0, "second")) is None and kept.get((0, "first")) is search
    kept.add((1, "first"), search)
    assert kept.get((0, "first")) is search and kept.get((1, "first")) is search
    kept.make_room(90)
    assert kept.get((0, "first")) is None and kept.get((1, "first")) is None


class FakeSearch(NamedTuple):
    """A search of some size."""

    num_bytes: int


@pytest.mark.parametrize("name", ["dark_hex(board_size=2)", "phantom_ttt"])
def test_games_whose_public_states_do_not_tell_who_acts_are_refused(name: str) -> None:
    game = machine(name)

    def uniform(state: Any, player: int) -> Any:
        legal = game.legal(state, player)
        return legal / np.maximum(legal.sum(axis=0), 1)

    player = SearchPlayer(uniform, MaxMargin(), values=Zeros(), depth=1, iterations=2)
    with pytest.raises(ValueError, match="both players know when a player acts"):
        play_players(game, {"search": player, "uniform": uniform}, matches=20, seed=0)


def test_trees_from_a_public_state_refuse_what_they_lack() -> None:
    game = machine("kuhn_poker")
    tree = enumerate_from(find_public_state(game, public_observations(game, [0, 1, 1])))
    policy = Policy.uniform(tree)
    with pytest.raises(ValueError, match="a tree from a public state does not provide it"):
        refine(tree, public_roots(tree), policy, gadgets=[ReachMaxMargin()], player=0)
    with pytest.raises(ValueError, match="expected a tree of the whole game"):
        nested_search(tree, policy, MaxMargin(), player=1, iterations=2)


class Zeros:
    """A value function that is always 0."""

    num_entries = 2

    def __call__(self, tree: HistoryTree, histories: IntArray) -> FloatArray:
        return np.zeros((len(histories), 2, 2))
