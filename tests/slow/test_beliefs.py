"""Nested search from own infostates in more games, orders and lookaheads, compared with the definition."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from jaxgadget import HistoryTree, Knowledge, enumerate_game, load
from jaxgadget.subgames.schedule import decisions
from jaxgadget.tree.knowledge import knowledge_cover
from tests.subgames import deals
from tests.subgames.test_beliefs import (
    ASSEMBLED,
    BELIEVED,
    check_common_knowledge,
    check_components,
    check_definition,
    check_parts,
    rows,
    searched,
)
from tests.tree.test_cover import pennies

FOLLOW = ("believed", "assembled")
GOOFSPIEL = "goofspiel(num_cards={},imp_info=True,points_order=descending)"
GAMES = [
    ("kuhn_poker", 0, None),
    ("kuhn_poker", 0, 1),
    ("kuhn_poker", 1, None),
    ("leduc_poker(num_ranks=2,max_raises=1)", 0, None),
    ("leduc_poker(num_ranks=2,max_raises=1)", 0, 1),
    ("pennies 10", 0, None),
    ("pennies 10", 1, None),
    (GOOFSPIEL.format(3), 1, None),
    (GOOFSPIEL.format(4), 0, None),
]
"""Goofspiel only without a limit: in its lookaheads, from public states too, actions have exactly equal
values, and rounding decides."""


@functools.cache
def game(name: str) -> HistoryTree:
    return pennies(int(name.split()[1])) if name.startswith("pennies") else enumerate_game(load(name))


@pytest.mark.parametrize(
    ("seed", "player", "depth", "order", "unfrozen", "follow"),
    [
        (0, 0, None, 1, False, "assembled"),
        (0, 0, 1, 3, True, "believed"),
        (1, 0, 3, 1, True, "believed"),
        (1, 0, 3, 3, False, "assembled"),
        (2, 1, 1, 1, False, "believed"),
        (2, 1, 1, 3, True, "assembled"),
        (3, 1, None, 1, True, "assembled"),
        (3, 1, None, 3, False, "believed"),
    ],
)
def test_drawn_games(
    seed: int, player: int, depth: int | None, order: int, unfrozen: bool, follow: Any
) -> None:
    tree = deals.rounds(seed, begins=seed % 2)
    check_definition(tree, player, Knowledge(order, unfrozen, follow=follow), depth)


@pytest.mark.parametrize(
    ("order", "unfrozen", "follow"), [(1, True, "believed"), (3, False, "assembled"), (3, True, "believed")]
)
def test_equal_subgames_after_different_searches(order: int, unfrozen: bool, follow: Any) -> None:
    """Once the opponent's hand is revealed, what a player knew of it before makes no difference."""
    tree = deals.rounds(0, turns=3, shown=2)
    first, second = (level.cut(tree) for level in decisions(tree, 0))
    before = knowledge_cover(first, 0, order, unfrozen=unfrozen)
    own = np.unique(tree.infostate[0, second.roots], return_index=True)[1]
    above = tree.infostate[0, first.root[second.roots[own]]]
    apart = before.subgame[np.searchsorted(before.infostate, above)]
    sizes = [
        knowledge_cover(second, 0, order, unfrozen=unfrozen, apart=which).cover.num_subgames
        for which in (None, apart)
    ]
    assert sizes[0] < sizes[1]
    check_definition(tree, 0, Knowledge(order, unfrozen, follow=follow), None)


@pytest.mark.parametrize(("name", "player", "depth"), GAMES)
def test_known_games(name: str, player: int, depth: int | None) -> None:
    follow = FOLLOW[player if depth is None else 1 - player]
    check_definition(game(name), player, Knowledge(follow=follow), depth)


def test_search_from_public_states_is_as_defined() -> None:
    """The definition at an order beyond all components."""
    for depth in (None, 1, 3):
        check_definition(deals.rounds(0), 0, Knowledge(float("inf")), depth)


def test_beliefs_are_alike_below_the_same_search() -> None:
    """If all second searches follow the same first one, its strategy is the assembled one."""
    tree = deals.rounds(0, turns=4, known=True)
    depth = tree.infosets[0].depth[tree.infosets[0].infoset[1:]]
    first, second = (rows(searched(tree, 0, knowledge)) for knowledge in (BELIEVED, ASSEMBLED))
    assert depth.max() == 2
    np.testing.assert_allclose(first[depth < 2], second[depth < 2], rtol=0, atol=1e-11)
    assert np.abs(first - second)[depth == 2].max() > 0.1


def test_all_that_is_common_knowledge() -> None:
    check_common_knowledge(
        "assembled", {}, {"depth": 1}, {"step": 2}, {"limit": "moves", "depth": 3, "step": 2}
    )


def test_components() -> None:
    check_components("assembled", {}, {"depth": 1})


def test_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    check_parts(Knowledge(unfrozen=True), monkeypatch)
