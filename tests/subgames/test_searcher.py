"""A searching player plays the policy of nested search, and searches only subgames that matches reach."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest

from jaxgadget import (
    BlueprintPrior,
    Full,
    HistoryTree,
    MaxMargin,
    NoPrior,
    Policy,
    Resolving,
    UniformPrior,
    enumerate_game,
    load,
)
from jaxgadget.policy.matches import play_players
from jaxgadget.policy.player import PolicyPlayer
from jaxgadget.subgames.schedule import decision_above, decisions
from jaxgadget.subgames.search_player import SearchPlayer
from jaxgadget.values.histories import ExactValues, OwnValues
from tests.solving import nested_search, settings
from tests.trees import tree_of

GAMES = ("kuhn_poker", "goofspiel(num_cards=3,imp_info=True,points_order=descending)")
LIARS_DICE = "liars_dice(dice_sides=3,numdice=1)"
HOW: dict[str, Any] = {"iterations": 5, "dtype": "float64"}
"""Few iterations, so that differences in the last bits are not amplified."""


def values(tree: HistoryTree) -> ExactValues:
    return ExactValues(Policy.stack([Policy.dirichlet(tree, seed) for seed in (0, 11, 12)]))


@pytest.mark.parametrize("name", GAMES[:1])
def test_it_plays_the_policy_of_nested_search(name: str) -> None:
    tree = tree_of(name)
    blueprint, gadget = Policy.dirichlet(tree, 0), MaxMargin(BlueprintPrior(), 0.01)
    searching = SearchPlayer(blueprint, gadget, values=values(tree), **settings(**HOW))
    rows = [
        nested_search(
            tree, blueprint, gadget, values=values(tree), player=p, value=(-1, 1), **settings(**HOW)
        ).policy
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
    searching.restart()
    assert searching.searches(0) == searching.searches(1) == 0


MIXED = """EFG 2 R "mixed" { "A" "B" }
c "" 1 "" { "a" 1/2 "b" 1/2 } 0
p "" 1 1 "" { "x" "y" } 0
p "" 2 1 "" { "l" "r" } 0
p "" 1 2 "" { "x" "y" } 0
t "" 1 "" { 1 -1 }
t "" 2 "" { -1 1 }
p "" 1 2 "" { "x" "y" } 0
t "" 3 "" { -1 1 }
t "" 4 "" { 2 -2 }
t "" 5 "" { 0.3 -0.3 }
p "" 2 2 "" { "l" "r" } 0
p "" 1 3 "" { "x" "y" } 0
p "" 2 3 "" { "l" "r" } 0
p "" 1 4 "" { "x" "y" } 0
t "" 6 "" { 1 -1 }
t "" 7 "" { -3 3 }
p "" 1 4 "" { "x" "y" } 0
t "" 8 "" { -1 1 }
t "" 9 "" { 1 -1 }
t "" 10 "" { 0.5 -0.5 }
p "" 1 5 "" { "x" "y" } 0
t "" 11 "" { 1 -1 }
t "" 12 "" { -0.5 0.5 }
"""
"""Before player 0 acts first, player 1 has acted after b and not after a."""


@pytest.mark.parametrize("depth", (1, 2))
@pytest.mark.slow
def test_searches_of_one_level_may_come_one_by_one(depth: int, tmp_path: pathlib.Path) -> None:
    """In any order; also for overlapping lookaheads and unreachable subgames."""
    path = tmp_path / "mixed.efg"
    path.write_text(MIXED, encoding="utf-8")
    tree, gadget = enumerate_game(load(str(path))), MaxMargin(BlueprintPrior(), 0.01)
    acted = [(tree.sequence[1, level.roots] > 0).tolist() for level in decisions(tree, 0)]
    assert True in acted[0] and False in acted[0]

    def pure(player: int, infoset: int, count: int) -> Any:
        return np.eye(count)[0] if (player, infoset) in ((0, 2), (1, 1)) else np.full(count, 1 / count)

    blueprint = Policy.from_function(tree, pure, "partly pure")
    how = HOW | {"values": ExactValues(Policy.stack([blueprint, Policy.dirichlet(tree, 11)])), "depth": depth}
    expected = nested_search(tree, blueprint, gadget, player=0, value=(-1, 1), **settings(**how)).policy
    player = SearchPlayer(blueprint, gadget, **settings(**how))
    acts = np.nonzero(tree.infoset[0] >= 0)[0]
    found = [player.action_probabilities(tree, 0, acts[k : k + 1]) for k in range(len(acts))[::-1]]
    together = PolicyPlayer(expected).action_probabilities(tree, 0, acts)
    np.testing.assert_allclose(np.concatenate(found[::-1]), together, atol=1e-12)
    assert np.abs(together - PolicyPlayer(blueprint).action_probabilities(tree, 0, acts)).max() > 0.1


def test_only_subgames_that_matches_reach_are_searched_and_only_once() -> None:
    tree = tree_of(LIARS_DICE)
    asked: list[int] = []
    exact = values(tree)

    def noted(tree: HistoryTree, histories: Any) -> Any:
        asked.extend(histories.tolist())
        return exact(tree, histories)

    player = SearchPlayer(
        Policy.uniform(tree), Resolving(BlueprintPrior()), values=OwnValues(noted, 3), **settings(**HOW)
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


def test_gadgets_that_need_a_whole_level_are_refused() -> None:
    blueprint = Policy.uniform(tree_of("kuhn_poker"))
    with pytest.raises(ValueError, match="gadgets: full requires"):
        SearchPlayer(blueprint, Full(NoPrior()), values=values(blueprint.tree))


def test_searches_of_a_step_are_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    from jaxgadget.subgames import nested_run

    tree, sizes, solve = tree_of(GAMES[1]), list[int](), nested_run.solve_lookahead

    def noted(here: Any, *rest: Any, **more: Any) -> Any:
        sizes.append(here.forest.num_subgames)
        return solve(here, *rest, **more)

    monkeypatch.setattr(nested_run, "solve_lookahead", noted)
    blueprint = Policy.uniform(tree)
    player = SearchPlayer(blueprint, Resolving(BlueprintPrior()), values=values(tree), **settings(**HOW))
    play_players(tree, {"a": player, "b": PolicyPlayer(blueprint)}, matches=300, seed=3)
    # Cards are bid at once, twice; the last one is forced. A batch a step and seat, both seatings together.
    assert len(sizes) == 4 and min(sizes) == 1 and max(sizes) > 1


@pytest.mark.slow
def test_a_level_that_does_not_fit_is_searched_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts are searched separately, the subgames below a part before the next part: the same policy."""
    from jaxgadget.subgames import nested_run

    tree, sizes, solve = tree_of(GAMES[1]), list[int](), nested_run.solve_lookahead

    def noted(here: Any, *rest: Any, **more: Any) -> Any:
        sizes.append(here.forest.num_subgames)
        return solve(here, *rest, **more)

    monkeypatch.setattr(nested_run, "solve_lookahead", noted)
    blueprint, gadgets = Policy.dirichlet(tree, 0), [Resolving(BlueprintPrior()), Resolving(UniformPrior())]
    how = HOW | {"values": values(tree), "player": 0, "value": (-1, 1)}
    whole = nested_search(tree, blueprint, gadgets, **settings(**how))
    at_once = list(sizes)
    sizes.clear()
    monkeypatch.setattr(nested_run, "PART_CELLS", 30)
    dropped = list[int]()
    monkeypatch.setattr(nested_run, "PROGRAM_CELLS", 40)
    monkeypatch.setattr(nested_run, "drop_programs", lambda: dropped.append(len(sizes)))
    parts = nested_search(tree, blueprint, gadgets, **settings(**how))
    assert len(sizes) > len(at_once) and sum(sizes) == sum(at_once)
    assert 0 < len(dropped) < len(sizes), "programs are kept for a while"
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
