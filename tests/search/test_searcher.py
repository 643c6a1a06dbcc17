"""A searching player plays what nested search assembles, and searches only where matches lead."""

from __future__ import annotations

import functools
from typing import Any, cast

import numpy as np
import pytest

from jaxgadget import (
    BlueprintPrior,
    HistoryTree,
    MaxMargin,
    Policy,
    Resolving,
    UniformPrior,
    enumerate_game,
    load,
)
from jaxgadget.search.line import decision_above, decisions
from jaxgadget.search.match import play_players
from jaxgadget.search.nested import nested_search
from jaxgadget.search.play import PolicyPlayer
from jaxgadget.search.searcher import SearchPlayer
from jaxgadget.search.value import ExactValues, OwnValues

GAMES = ("kuhn_poker", "goofspiel(num_cards=3,imp_info=True,points_order=descending)")
LIARS_DICE = "liars_dice(dice_sides=3,numdice=1)"
HOW: dict[str, Any] = {"iterations": 5, "dtype": "float64"}
"""Few iterations, so that what differs in the last bits stays there."""


@functools.cache
def game(name: str) -> HistoryTree:
    return enumerate_game(load(name))


def values(tree: HistoryTree) -> ExactValues:
    return ExactValues(Policy.stack([Policy.dirichlet(tree, seed) for seed in (0, 11, 12)]))


@pytest.mark.parametrize("name", GAMES)
def test_it_plays_what_nested_search_assembles(name: str) -> None:
    tree = game(name)
    blueprint, gadget = Policy.dirichlet(tree, 0), MaxMargin(BlueprintPrior(), 0.01)
    searching = SearchPlayer(blueprint, gadget, values=values(tree), **HOW)
    rows = [
        nested_search(tree, blueprint, gadget, values=values(tree), player=p, value=(-1, 1), **HOW).policy
        for p in (0, 1)
    ]
    both = Policy(tree, (rows[0].probabilities[0], rows[1].probabilities[1]), ("assembled",))
    players = {"searching": searching, "assembled": PolicyPlayer(both), "blueprint": PolicyPlayer(blueprint)}
    for player in (0, 1):
        acts = np.nonzero(tree.infoset[player] >= 0)[0]
        reach = both.reach(player)[tree.infosets[player].parent[tree.infoset[player, acts]], 0]
        acts = acts[reach > 0]
        found = searching.action_probabilities(tree, player, acts)
        expected = PolicyPlayer(both).action_probabilities(tree, player, acts)
        np.testing.assert_allclose(found, expected, atol=1e-9)
        assert np.abs(expected - PolicyPlayer(blueprint).action_probabilities(tree, player, acts)).max() > 0.1
    assert searching.searches(0) > 1 and searching.searches(1) > 1
    played = play_players(tree, players, matches=200, seed=1, pairs=[(0, 2), (1, 2)])
    np.testing.assert_array_equal(*played.ends)


def test_only_what_matches_reach_is_searched_and_only_once() -> None:
    tree = game(LIARS_DICE)
    asked: list[int] = []
    exact = values(tree)

    def noted(tree: HistoryTree, histories: Any) -> Any:
        asked.extend(histories.tolist())
        return exact(tree, histories)

    player = SearchPlayer(
        Policy.uniform(tree), Resolving(BlueprintPrior()), values=OwnValues(noted, 3), **HOW
    )
    levels = decisions(tree, 1)
    last = levels[1].roots[-1:]
    player.action_probabilities(tree, 1, last)
    above = decision_above(tree, 1, last)
    assert np.isin(above, levels[0].roots).all()
    assert player.searches(1) == 2, "its own subgame, and the one above it"
    before = list(asked)
    assert len(before) == len(set(before)) > 0
    player.action_probabilities(tree, 1, np.concatenate([above, last]))
    assert asked == before, "nothing is searched twice"
    assert player.searches(0) == 0
    assert "{1: 2}" in repr(player)


def test_searches_of_a_step_are_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    from jaxgadget.search import line

    tree, sizes, solve = game(GAMES[1]), list[int](), line.solve_lookahead

    def noted(here: Any, *rest: Any) -> Any:
        sizes.append(here.look.cut.num_subgames)
        return solve(here, *rest)

    monkeypatch.setattr(line, "solve_lookahead", noted)
    blueprint = Policy.uniform(tree)
    player = SearchPlayer(blueprint, Resolving(BlueprintPrior()), values=values(tree), **HOW)
    play_players(tree, {"a": player, "b": PolicyPlayer(blueprint)}, matches=300, seed=3)
    # Cards are bid at once, twice; the last one is forced. A batch a step and seat, both seatings together.
    assert len(sizes) == 4 and min(sizes) == 1 and max(sizes) > 1


def test_a_smaller_memory_limit_searches_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts are searched by themselves, what lies below a part before the next one: the same policy."""
    from jaxgadget.search import line

    tree, sizes, solve = game(GAMES[1]), list[int](), line.solve_lookahead

    def noted(here: Any, *rest: Any) -> Any:
        sizes.append(here.look.cut.num_subgames)
        return solve(here, *rest)

    monkeypatch.setattr(line, "solve_lookahead", noted)
    blueprint, gadgets = Policy.dirichlet(tree, 0), [Resolving(BlueprintPrior()), Resolving(UniformPrior())]
    how = HOW | {"values": values(tree), "player": 0, "value": (-1, 1)}
    whole = nested_search(tree, blueprint, gadgets, **how)
    at_once = list(sizes)
    sizes.clear()
    monkeypatch.setattr(line, "PART_CELLS", 30)
    parts = nested_search(tree, blueprint, gadgets, **how)
    assert len(sizes) > len(at_once) and sum(sizes) == sum(at_once)
    np.testing.assert_array_equal(parts.searches, whole.searches)
    np.testing.assert_allclose(parts.policy.probabilities[0], whole.policy.probabilities[0], atol=1e-9)
    np.testing.assert_allclose(parts.nested_exploitability, whole.nested_exploitability, atol=1e-9)
    weights: list[Any] = []
    for found in (whole, parts):
        (visits,) = found.visits
        order = np.argsort(visits.histories)
        assert (np.diff(visits.histories[order]) > 0).all()
        weights.append(visits.weights[order])
    np.testing.assert_allclose(*weights, atol=1e-9)


def test_bad_input() -> None:
    tree, other = game("kuhn_poker"), game(GAMES[1])
    uniform, make = Policy.uniform(tree), cast(Any, SearchPlayer)
    for blueprint, gadget, options, message in (
        (Policy.stack([uniform, uniform]), Resolving(), {}, "2 lanes; expected one"),
        (uniform, [Resolving(), MaxMargin()], {}, "2 gadgets; expected one"),
        (uniform, Resolving(), {"depth": 0}, "depth=0"),
        (uniform, Resolving(), {"values": 3}, "expected a value function"),
        (uniform, Resolving(), {"algorithm": "lp"}, "algorithm='lp'"),
    ):
        with pytest.raises(ValueError, match=message):
            make(blueprint, gadget, **({"values": values(tree)} | options))
    player = SearchPlayer(uniform, Resolving(), values=values(tree))
    with pytest.raises(ValueError, match="goofspiel"):
        player.action_probabilities(other, 0, np.array([0]))
