"""Matches without a tree against matches in the tree, and players of both."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import pytest

from jaxgadget import (
    ExactValues,
    Policy,
    PolicyPlayer,
    enumerate_game,
    load,
    play_players,
    replay_players,
)
from jaxgadget.games.game import Move
from jaxgadget.games.kuhn import KuhnPoker
from jaxgadget.games.leduc.rules import LeducPoker
from jaxgadget.games.machine import StateMachine
from jaxgadget.policy import matches as match_module
from jaxgadget.policy.player import play_games
from jaxgadget.policy.positions import StatePositions, TreePositions
from jaxgadget.policy.states import policy_of_states
from tests.reference.states import probabilities_of

GAMES = ["kuhn_poker", "leduc_poker", "goofspiel(imp_info=True,num_cards=4)"]


@pytest.mark.parametrize("name", GAMES)
def test_matches_of_states_are_those_in_the_tree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    game = load(name)
    assert isinstance(game, StateMachine)
    tree = enumerate_game(game)
    players = {
        "one": Policy.dirichlet(tree, 0),
        "two": Policy.dirichlet(tree, 1),
        "three": Policy.uniform(tree),
    }
    strategies: dict[str, Any] = {**players, "two": probabilities_of(players["two"])}
    in_tree = play_players(tree, players, matches=40, seed=5)
    monkeypatch.setattr(match_module, "GAMES_AT_ONCE", 100)
    in_states = play_players(game, strategies, matches=40, seed=5)
    for row, column in (("one", "two"), ("three", "one")):
        for match in range(0, 40, 7):
            moves: tuple[tuple[Move, ...], ...] = in_tree.moves(row, column, match)
            assert moves == in_states.moves(row, column, match)
            assert moves == replay_players(game, strategies, row, column, match, 5)
    pd.testing.assert_frame_equal(in_tree.table, in_states.table)
    with pytest.raises(ValueError, match="not played in a tree"):
        _ = in_states.ends


@pytest.mark.parametrize("name", GAMES)
def test_a_strategy_of_states_is_a_policy_of_the_tree(name: str) -> None:
    tree = enumerate_game(load(name))
    policy = Policy.dirichlet(tree, 3)
    same = policy_of_states(tree, probabilities_of(policy), "states")
    for rows, expected in zip(same.probabilities, policy.probabilities, strict=True):
        np.testing.assert_array_equal(rows, expected)


def test_players_that_are_none_or_of_another_game_are_refused() -> None:
    game = KuhnPoker()
    tree = enumerate_game(game)
    leduc = Policy.uniform(enumerate_game(load("leduc_poker")))

    @dataclasses.dataclass
    class Network:
        machine: Any = dataclasses.field(default_factory=LeducPoker)

        def __call__(self, state: object, player: int) -> None:
            raise AssertionError

    wrong: list[tuple[Any, str]] = [
        (leduc, "of 'leduc_poker', not of 'kuhn_poker'"),
        (Network(), "for 'leduc_poker', not for 'kuhn_poker'"),
        (3, "expected a policy network"),
        (lambda state, player: np.full((2, state.line.shape[0]), 0.4), "sum to 1"),
        (lambda state, player: np.ones((1, state.line.shape[0])), "expected"),
    ]
    for player, message in wrong:
        with pytest.raises(ValueError, match=message):
            play_players(game, {"a": Policy.uniform(tree), "b": player}, matches=3, seed=0)


@pytest.mark.parametrize("name", GAMES)
def test_without_luck_by_exact_values_every_game_pays_the_value(name: str) -> None:
    tree = enumerate_game(load(name))
    first, second = Policy.dirichlet(tree, 0), Policy.dirichlet(tree, 1)
    profile = first.with_player(1, second.probabilities[1])
    values = ExactValues(profile)(tree, np.arange(tree.num_histories))[:, 0, 0]
    players = [("first", PolicyPlayer(first)), ("second", PolicyPlayer(second))]
    start = TreePositions(tree, np.zeros(1, np.int64))
    ends, luck = play_games(start, players, [(0, 1)], 0, range(200), lambda games: values[games.history])
    np.testing.assert_allclose(ends.payoff - luck, values[0], atol=1e-12)
    assert ends.payoff.std() > 0.1


@pytest.mark.parametrize("name", GAMES)
def test_luck_has_mean_zero_by_any_baseline_in_trees_and_states(name: str) -> None:
    game = load(name)
    assert isinstance(game, StateMachine)
    tree = enumerate_game(game)
    policy = Policy.dirichlet(tree, 0)
    players = [("one", PolicyPlayer(policy)), ("two", PolicyPlayer(Policy.uniform(tree)))]

    def baseline(games: Any) -> Any:
        """Numbers without sense, the same in trees and states."""
        return np.array([np.sin(hash(games.moves(k)) % 1000) for k in range(len(games.actor))])

    start = TreePositions(tree, np.zeros(1, np.int64))
    in_tree = play_games(start, players, [(0, 1), (1, 0)], 3, range(150), baseline)
    in_states = play_games(StatePositions.start(game, 1), players, [(0, 1), (1, 0)], 3, range(150), baseline)
    np.testing.assert_allclose(in_tree[1], in_states[1], atol=1e-12)
    np.testing.assert_allclose(in_tree[0].payoff, in_states[0].payoff)
    luck = in_tree[1]
    assert abs(luck.mean()) <= 4 * luck.std() / np.sqrt(len(luck)) and luck.std() > 0.1
    table = play_players(
        tree, dict(players), matches=60, seed=0, baseline=lambda games: np.zeros(len(games.actor))
    ).table
    assert {"adjusted_return", "adjusted_ci95"} <= set(table)
