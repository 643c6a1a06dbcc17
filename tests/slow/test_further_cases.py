"""Further players, games and draws for the comparisons of the quick tests."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxgadget as jg
from jaxgadget.gadgets.registry import GADGETS
from tests.core import test_exactly
from tests.gadgets import test_against_reference
from tests.opponents import test_respond
from tests.policy import test_deep_games, test_evaluate
from tests.reference.depth_limited import Kind
from tests.reference.random_games import SHAPES, RandomGame, random_shape, random_tree
from tests.subgames import (
    test_continual,
    test_mixing,
    test_optimal,
    test_ranged,
    test_refine,
)
from tests.values import test_trunk

players = pytest.mark.parametrize("player", [0, 1])


# Core and solving


@given(
    seed=st.integers(0, 10**6),
    length=st.integers(8, 12),
    num_actions=st.integers(2, 4),
    floor=st.sampled_from([None, 0.1]),
)
@settings(max_examples=4)
def test_levels_together_are_as_one_by_one(
    seed: int, length: int, num_actions: int, floor: float | None
) -> None:
    test_deep_games.check_levels(seed, length, num_actions, floor)


@pytest.mark.parametrize(
    ("game", "where", "player"), [group for group in test_exactly.GROUPS if group not in test_refine.QUICK]
)
def test_published_optima(game: str, where: str, player: int) -> None:
    test_exactly.check_published_optima(game, where, player)


@pytest.mark.parametrize("game", test_evaluate.LARGEST)
def test_game_values_lie_in_their_certified_bracket(game: str) -> None:
    (entry,) = (entry for entry in test_evaluate.GAMES if entry["game"] == game)
    test_evaluate.check_bracket(jg.enumerate_game(jg.load(game)), entry)


# Gadgets and refinements


@pytest.mark.parametrize("kind", list(GADGETS))
def test_five_iterations_equal_those_on_the_explicit_tree(kind: str) -> None:
    test_against_reference.check_five_iterations(kind, 1 - test_against_reference.player_of(kind))


# Opponents


@players
def test_objective_is_convex_and_gain_and_exploitability_rise_with_p(player: int) -> None:
    for shape in list(SHAPES)[1 - player :: 2]:
        test_respond.check_curve(random_tree(shape, 0)[0], player)
    seed = 2 - player
    test_respond.check_curve(jg.enumerate_game(RandomGame(random_shape(seed), seed)), player)


# Values and searches


@pytest.mark.parametrize(
    ("name", "where", "player"),
    [(*game, player) for game, player in zip(test_trunk.GAMES, (0, 1, 0), strict=True)],
)
def test_the_opponents_value_is_that_of_the_optimal_continuation(name: str, where: str, player: int) -> None:
    test_trunk.check_what_the_opponent_gets(name, where, player)


@pytest.mark.parametrize(
    ("shape", "kind", "depth", "step", "player"),
    [(*step, k % 2) for k, step in enumerate(test_optimal.STEPS)][1:],
)
def test_step_objectives_are_those_of_explicit_games(
    shape: str, kind: Kind, depth: int, step: int, player: int
) -> None:
    test_optimal.check_step_objectives(shape, kind, depth, step, player)


@pytest.mark.parametrize(
    ("shape", "kind", "depth", "player", "beyond"),
    [("betting", "moves", 2, 0, "model"), ("weather", "own", 1, 1, "rational")],
)
def test_step_objectives_are_those_of_explicit_games_within_gaps(
    shape: str, kind: Kind, depth: int, player: int, beyond: Any
) -> None:
    test_mixing.check_step_objectives(shape, kind, depth, player, beyond)


@pytest.mark.parametrize(("moves", "player"), [(1, 0), (2, 1)])
def test_a_trunk_with_fixed_values_is_the_explicit_game_with_two_copies(moves: int, player: int) -> None:
    test_ranged.check_fixed_values(moves, player)


@pytest.mark.parametrize("player", [0, 1])
def test_with_equilibria_below_nested_search_is_nearly_one(player: int) -> None:
    test_continual.check_equilibria_below(test_continual.GOOFSPIEL, 0.01, player)
