"""Searches with values of ranges at their limit: without a tree as in the tree, in bounded memory."""

from __future__ import annotations

import zlib
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

from jaxgadget import (
    Lookahead,
    MaxMargin,
    Policy,
    PolicyPlayer,
    ResolvedValues,
    Resolving,
    SearchPlayer,
    Solver,
    UniformPrior,
    Unsafe,
    load,
    nested_search,
    play_players,
)
from jaxgadget.games.game import HISTORY_BYTES, TooLargeError
from jaxgadget.policy.positions import StatePositions
from jaxgadget.subgames.limits import CELL_BYTES
from jaxgadget.tree.history import enumerate_game
from jaxgadget.tree.states import states_at
from jaxgadget.values.ranges import Limit
from tests.reference.states import probabilities_of
from tests.subgames.test_public_state import GenericGoofspiel, moves_along


class Pairs:
    """Zero-sum values that are not linear in the ranges, from payoffs of pairs of infostates by their names.

    Attributes:
      cut: the cut.
      fingerprint: identity in checkpoints.
    """

    def __init__(self, where: str):
        self.cut, self.fingerprint = where, f"pairs below {where}"

    def __call__(self, limit: Limit) -> Any:
        chance = limit.matrix()
        payoffs = np.zeros(chance.shape)
        for row, column, value in zip(chance.row, chance.column, chance.value, strict=True):
            name = limit.infostate(0, int(row)) + limit.infostate(1, int(column))
            payoffs[row, column] = value * (zlib.crc32(name.encode()) % 1000 / 500 - 1)
        return Partial(_values, jnp.asarray(payoffs))


def _values(matrix: Any, ranges: Any) -> Any:
    first, second = matrix @ ranges[1], -matrix.T @ ranges[0]
    factor = 1 + jnp.tanh(jnp.sum(ranges[0] * first, axis=0, keepdims=True))
    return factor * first, factor * second


@pytest.mark.parametrize(
    ("game", "values", "gadget"),
    [
        (load("kuhn_poker"), Pairs("depth:1"), Resolving(UniformPrior(), 0.01)),
        pytest.param(load("kuhn_poker"), ResolvedValues(5), MaxMargin(), marks=pytest.mark.slow),
        pytest.param(
            load("leduc_poker(num_ranks=2)"), Pairs("flop"), MaxMargin(), marks=pytest.mark.slow, id="leduc"
        ),
        pytest.param(
            load("leduc_poker(num_ranks=2,max_raises=1)"),
            Pairs("before-flop"),
            Resolving(UniformPrior(), 0.01),
            marks=pytest.mark.slow,
            id="leduc-chance",
        ),
        pytest.param(
            GenericGoofspiel(num_cards=3, imp_info=True),
            Pairs("depth:1"),
            Unsafe(),
            marks=pytest.mark.slow,
            id="goofspiel",
        ),
        pytest.param(
            GenericGoofspiel(num_cards=4, imp_info=True),
            Pairs("depth:2"),
            MaxMargin(UniformPrior(), 0.01),
            marks=pytest.mark.slow,
            id="goofspiel4",
        ),
    ],
)
def test_searching_without_a_tree_is_searching_in_the_tree(game: Any, values: Any, gadget: Any) -> None:
    tree, limit = enumerate_game(game), getattr(values, "cut", "depth:1")
    blueprint = Policy.dirichlet(tree, 1)
    solver = Solver(iterations=20, dtype="float64", progress=False)
    in_states = SearchPlayer(probabilities_of(blueprint), gadget, values=values, limit=limit, solver=solver)
    in_tree = SearchPlayer(blueprint, gadget, values=values, limit=limit, solver=solver)
    for player in (0, 1):
        lookahead = Lookahead(values, limit=limit)
        nested = nested_search(
            tree, blueprint, gadget, lookahead, player=player, value=(-1, 1), solver=solver
        )
        infosets = tree.infosets[player]
        histories = np.sort(infosets.history)[:: max(1, len(infosets) // 100)]
        expected = PolicyPlayer(nested.policy).action_probabilities(tree, player, histories)
        np.testing.assert_array_equal(in_tree.action_probabilities(tree, player, histories), expected)
        searched = in_states.state_probabilities(games_at(tree, histories), player)
        for row, probabilities, history in zip(searched, expected, histories.tolist(), strict=True):
            actions = infosets.action[infosets.infoset == tree.infoset[player, history]]
            np.testing.assert_allclose(row[actions], probabilities[: len(actions)], rtol=0, atol=1e-9)
            assert row.sum() == pytest.approx(1)
        before = PolicyPlayer(blueprint).action_probabilities(tree, player, histories)
        assert np.abs(expected - before).max() > 0.1
        assert 2 <= in_states.searches(player) <= nested.searches[0] == in_tree.searches(player)


def games_at(tree: Any, histories: Any) -> StatePositions:
    """Games at histories of a tree."""
    made = [moves_along(tree, history) for history in histories.tolist()]
    longest = max(map(len, made))
    moves = [np.pad(m, ((0, longest - len(m)), (0, 0)), constant_values=-1) for m in made]
    return StatePositions(tree.game, states_at(tree, histories)[1], np.stack(moves, axis=-1))


@pytest.mark.slow
def test_only_one_subgame_is_in_memory() -> None:
    game: Any = load("goofspiel(imp_info=True,num_cards=5,points_order=descending)")

    def uniform(state: Any, player: int) -> Any:
        return state.hands[player] / state.hands[player].sum(axis=0)

    def player(memory_limit: int, **more: Any) -> SearchPlayer:
        solver = Solver(iterations=5, memory_limit=memory_limit, progress=False)
        return SearchPlayer(uniform, MaxMargin(), values=Pairs("depth:2"), solver=solver, **more)

    limit = 4_000_000
    assert (HISTORY_BYTES + CELL_BYTES) * enumerate_game(game).num_histories > 3 * limit
    fits = player(limit)
    play_players(game, {"search": fits, "uniform": uniform}, matches=2, seed=0)
    assert fits.searches(0) > 1
    with pytest.raises(TooLargeError, match="kB"):
        play_players(game, {"search": player(20_000), "uniform": uniform}, matches=1, seed=0)
    skipping = player(200_000, skip_too_large=True)  # both seats' trunks fit, the subgames do not
    play_players(game, {"search": skipping, "uniform": uniform}, matches=2, seed=0)
    assert skipping.searches(0) == 1 and skipping.skipped(0) >= 1


class History:
    """Values of histories."""

    num_entries = 1

    def __call__(self, tree: Any, histories: Any) -> Any:
        return np.zeros((len(histories), 1, 1))


def test_what_does_not_fit_is_refused() -> None:
    class Uniform:
        fingerprint = "uniform"

        def __call__(self, state: Any, player: int) -> Any:
            return np.ones((2, state.line.shape[-1])) / 2

    uniform = Uniform()
    with pytest.raises(ValueError, match="expected the cut"):
        SearchPlayer(uniform, MaxMargin(), values=ResolvedValues(5))
    with pytest.raises(ValueError, match="depth=2"):
        SearchPlayer(uniform, MaxMargin(), values=Pairs("depth:1"), depth=2)
    with pytest.raises(ValueError, match="num_lanes"):
        SearchPlayer(uniform, MaxMargin(), values=ResolvedValues((5, 6)), limit="depth:1")
    with pytest.raises(ValueError, match="cuts are for values of ranges"):
        SearchPlayer(uniform, MaxMargin(), values=History(), limit="depth:1")
    game: Any = load("kuhn_poker")
    for where, message in (("river", "is unknown"), (lambda tree: tree.num_moves == 1, "name of a cut")):
        search = SearchPlayer(uniform, MaxMargin(), values=ResolvedValues(5), limit=where, iterations=2)
        with pytest.raises(ValueError, match=message):
            play_players(game, {"search": search, "uniform": uniform}, matches=1, seed=0)
    search = SearchPlayer(uniform, MaxMargin(), values=Pairs("depth:1"), iterations=2)
    assert search.fingerprint["limit"] == "depth:1"
