"""When a player searches, and where its searches end: from the definition, on random games."""

from __future__ import annotations

import numpy as np
import pytest

from jaxgadget import enumerate_game, load
from jaxgadget.subgames.schedule import make_schedule
from tests.reference.depth_limited import Kind, level_histories, limit_histories
from tests.reference.random_games import SHAPES, random_tree


@pytest.mark.parametrize("player", (0, 1))
@pytest.mark.parametrize(("kind", "depth", "step"), [("own", 1, 1), ("own", 2, 1), ("moves", 2, 1)])
def test_levels_and_limits_are_those_of_a_walk_from_the_root(
    kind: Kind, depth: int, step: int, player: int
) -> None:
    for shape in SHAPES:
        tree, _ = random_tree(shape, 1)
        schedule = make_schedule(tree, player, depth, kind, step)
        for number, level in enumerate(schedule.levels):
            roots = level_histories(tree, player, kind, number, step)
            assert level.roots.tolist() == sorted(roots)
            expected = limit_histories(tree, player, kind, roots, depth)
            assert schedule.leaves(level.cut(tree)).tolist() == sorted(expected)
        below = level_histories(tree, player, kind, len(schedule.levels), step)
        assert not below or not expected, "the last level goes on to the end"


@pytest.mark.parametrize("player", (0, 1))
def test_every_decision_is_kept_from_one_level(player: int) -> None:
    tree = enumerate_game(load("leduc_poker"))
    for kind, depth, step in (
        ("own", 1, 1),
        ("own", 4, 2),
        ("moves", 2, 2),
        ("moves", 3, 1),
        ("moves", 99, 99),
    ):
        schedule = make_schedule(tree, player, depth, kind, step)
        times = sum(schedule.kept(number).astype(int) for number in range(len(schedule.levels)))
        np.testing.assert_array_equal(times, np.ones(len(tree.infosets[player])))


def test_a_plan_is_kept_to_its_end_after_moves_and_to_the_next_own_decision() -> None:
    tree = enumerate_game(load("leduc_poker"))
    moves, own = make_schedule(tree, 0, 3, "moves"), make_schedule(tree, 0, 3)
    assert moves.step == 3 and own.step == 1
    assert [level.name for level in moves.levels] == ["root", "after 3 moves", "after 6 moves"]
    assert len(make_schedule(tree, 0, 8, "moves").levels) == 1, "the first search goes on to the end"


def test_without_a_depth_searches_go_on_to_the_end() -> None:
    tree = enumerate_game(load("leduc_poker"))
    for step in (1, 3):
        schedule, deep = make_schedule(tree, 0, None, "own", step), make_schedule(tree, 0, 99, "own", step)
        assert [level.roots.tolist() for level in schedule.levels] == [
            level.roots.tolist() for level in deep.levels
        ]
        assert all(len(schedule.leaves(level.cut(tree))) == 0 for level in schedule.levels)
        for number in range(len(schedule.levels)):
            np.testing.assert_array_equal(schedule.kept(number), deep.kept(number))


def test_too_large_a_step_names_the_moves_and_the_largest_that_fits() -> None:
    """Kuhn poker's third move is player 0's again: one move further its plan has ended."""
    tree = enumerate_game(load("kuhn_poker"))
    message = (
        r"step=2: the decision at chance 0, chance 1, Pass, Bet comes before the next search .*"
        r"depth=1 moves down; expected a step of at most 1, or a larger depth"
    )
    with pytest.raises(ValueError, match=message):
        make_schedule(tree, 0, 1, "own", 2)
