"""Nested search from own infostates, compared with single searches by definition (`tests/reference`)."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgadget import (
    BlueprintPrior,
    ContinuationValues,
    DiverseGeneration,
    ExactValues,
    HistoryTree,
    Knowledge,
    MaxMargin,
    NoPrior,
    Opponent,
    OptimalContinuation,
    OptimalValues,
    Policy,
    Resolving,
    UniformPrior,
    Unsafe,
    exploitability,
    refine,
)
from jaxgadget.core.regret import RegretMatching
from jaxgadget.report.search import nested_notes
from jaxgadget.subgames.nested import Nested
from jaxgadget.subgames.nested_run import NestedRun
from jaxgadget.subgames.schedule import decisions
from tests.core import grove
from tests.reference import efg, nested
from tests.reference.random_games import random_policy
from tests.solving import nested_search, settings
from tests.subgames import deals
from tests.tree.test_cover import pennies

EPSILON = 0.05
LANES = {
    ("unsafe", "none"): Unsafe(),
    ("resolving", "blueprint"): Resolving(BlueprintPrior(), EPSILON),
    ("max-margin", "uniform"): MaxMargin(UniformPrior(), EPSILON),
}
GADGETS = tuple(LANES.values())
BELIEVED, ASSEMBLED = Knowledge(), Knowledge(follow="assembled")
ALL_KNOWN = 999
"""An order beyond the largest component, which gives common knowledge without the shortcut."""


@functools.cache
def blueprints(tree: HistoryTree) -> list[dict[Any, Any]]:
    """One with full support, and one without."""
    return [random_policy(tree, np.random.default_rng(1), zeros) for zeros in (0.0, 0.3)]


@functools.cache
def values(tree: HistoryTree) -> list[ExactValues]:
    """Values at limits for each blueprint, which is entry 0."""
    policy = grove.to_policy(tree, blueprints(tree))
    return [ExactValues(Policy.stack([policy.lane(b), Policy.dirichlet(tree, 11)])) for b in (0, 1)]


def searched(tree: HistoryTree, player: int, knowledge: Knowledge | None = None, **options: Any) -> Nested:
    how: dict[str, Any] = {"iterations": 5, "dtype": "float64", "value": (0, 0), "progress": False}
    if options.get("depth") is not None or options.get("limit") is not None:
        how["values"] = values(tree)
    policy = grove.to_policy(tree, blueprints(tree))
    return nested_search(
        tree, policy, GADGETS, knowledge=knowledge, player=player, **settings(**(how | options))
    )


def rows(found: Nested) -> np.ndarray:
    return found.policy.probabilities[found.player]


def check_definition(tree: HistoryTree, player: int, knowledge: Knowledge, depth: int | None) -> None:
    """Five iterations of every search, level after level."""
    found = searched(tree, player, knowledge, depth=depth)
    for lane in range(found.policy.num_lanes):
        number, b = divmod(lane, 2)
        kind, prior = list(LANES)[number]
        how = nested.How(
            kind,
            prior,
            0.0 if kind == "unsafe" else EPSILON,
            ALL_KNOWN if knowledge.order == math.inf else int(knowledge.order),
            knowledge.unfrozen,
            knowledge.follow,
            depth,
        )
        table = None if depth is None else values(tree)[b](tree, np.arange(tree.num_histories))
        expected, least = nested.nested_policy(tree, player, blueprints(tree)[b], how, table)
        np.testing.assert_allclose(
            rows(found)[:, lane],
            efg.to_sequences(tree, expected, player)[1:],
            rtol=0,
            atol=min(max(1e-12, 1e-15 / least), 1e-7),
            err_msg=f"{kind}, blueprint {b}",
        )


@pytest.mark.slow
def test_five_iterations_equal_those_of_one_search_at_a_time() -> None:
    depth, follow = (1, "believed")
    check_definition(deals.rounds(0), 0, Knowledge(follow=follow), depth)  # other cases: tests/slow


@pytest.mark.slow
def test_beliefs_matter() -> None:
    """They matter from the second level on; the first searches have equal beliefs."""
    tree = deals.rounds(0)
    depth = tree.infosets[0].depth[tree.infosets[0].infoset[1:]]
    first, second = (rows(searched(tree, 0, knowledge)) for knowledge in (BELIEVED, ASSEMBLED))
    np.testing.assert_array_equal(first[depth == 0], second[depth == 0])
    assert np.abs(first - second)[depth == 1].max() > 0.1
    assert np.abs(first - rows(searched(tree, 0)))[depth == 0].max() > 0.1


@pytest.mark.slow
def test_all_that_is_common_knowledge_is_the_search_from_public_states() -> None:
    """At infinite order by the same code, number for number; at a large one through own infostates."""
    check_common_knowledge("believed", {"depth": 1})  # other cases: tests/slow


def check_common_knowledge(follow: Any, *settings: dict[str, Any]) -> None:
    tree = deals.rounds(0)
    for options in settings:
        usual = searched(tree, 0, **options)
        same = searched(tree, 0, Knowledge(math.inf, follow=follow), **options)
        np.testing.assert_array_equal(rows(same), rows(usual))
        far = searched(tree, 0, Knowledge(ALL_KNOWN, follow=follow), **options)
        np.testing.assert_allclose(rows(far), rows(usual), rtol=0, atol=1e-10)
        for name in ("gap_max", "nested_exploitability", "searches"):
            np.testing.assert_array_equal(getattr(same, name), getattr(usual, name))
            np.testing.assert_allclose(getattr(far, name), getattr(usual, name), rtol=0, atol=1e-9)
        for visits, expected in zip(far.visits, usual.visits, strict=True):
            np.testing.assert_array_equal(visits.histories, expected.histories)
            np.testing.assert_allclose(visits.weights, expected.weights, rtol=0, atol=1e-10)


@pytest.mark.slow
def test_where_each_own_infostate_is_a_component_nothing_changes() -> None:
    check_components("believed", {})  # other cases: tests/slow


def check_components(follow: Any, *settings: dict[str, Any]) -> None:
    """The opponent observes the player's hand and moves, so its information is complete."""
    rng = np.random.default_rng(3)

    def then(turn: int) -> Any:
        if turn == 4:
            return float(rng.normal())
        return deals.Turn(turn % 2, {name: then(turn + 1) for name in deals.NAMES[:2]}, True)

    hands = [(0.3, (0, 0)), (0.2, (0, 1)), (0.5, (1, 2))]
    tree = deals.play([(p, hand, then(0)) for p, hand in hands], "one side's hand is known")
    assert all(
        level.num_subgames == len(np.unique(tree.infostate[0, level.roots])) for level in decisions(tree, 0)
    )
    for options in settings:
        usual, alone = (searched(tree, 0, known, **options) for known in (None, Knowledge(follow=follow)))
        np.testing.assert_allclose(rows(alone), rows(usual), rtol=0, atol=1e-11)
        np.testing.assert_array_equal(alone.searches, usual.searches)


@pytest.mark.parametrize("player", [0, 1])
@pytest.mark.slow
def test_a_game_of_one_level_is_re_solved_at_once(player: int) -> None:
    """As in `refine` with all infostates at once; by the unsafe gadget where the opponent has not acted."""
    tree = pennies(10)
    blueprint = Policy.dirichlet(tree, 3)
    gadgets = (Unsafe(), MaxMargin(NoPrior()))
    how: dict[str, Any] = {"player": player, "iterations": 5, "dtype": "float64", "value": (0, 0)}
    found = nested_search(tree, blueprint, gadgets, knowledge=BELIEVED, **settings(**how))
    together = Knowledge(combine="together")
    asked = gadgets[:1] * 2 if player == 0 else gadgets
    expected = refine(tree, f"depth:{player}", blueprint, asked, knowledge=together, **settings(**how))
    np.testing.assert_allclose(rows(found), expected.policy.probabilities[player], rtol=0, atol=1e-13)
    np.testing.assert_allclose(found.nested_exploitability, expected.refined_exploitability, atol=1e-12)


@pytest.mark.slow
def test_it_is_evaluated_exactly_and_nothing_is_promised() -> None:
    tree = deals.rounds(0)
    for knowledge in (BELIEVED, ASSEMBLED):
        found = searched(tree, 0, knowledge)
        measured = exploitability(found.policy, 0, value=(0, 0))
        np.testing.assert_allclose(found.nested_exploitability, measured, rtol=0, atol=1e-12)
        assert np.isnan(found.exploitability_bound).all() and np.isnan(found.objectives).all()
        np.testing.assert_array_equal(
            found.policy.probabilities[1], np.tile(found.blueprint.probabilities[1], 3)
        )
        assert found.knowledge == knowledge and found.depth is None
        told = found.table[["order", "unfrozen", "combine", "leaf"]].drop_duplicates().values.tolist()
        assert told == [[1, False, knowledge.follow, "none"]]
        said = nested_notes(found)[0]
        assert f"at every decision, from its own infostates (order 1, {knowledge.follow}), that its" in said
        assert said.endswith("5 iterations each, to the end of the game.")
    assert searched(tree, 0).table[["order", "unfrozen", "combine"]].isna().all(axis=None)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True, kw_only=True)
class Late(RegretMatching):
    """CFR+ whose average excludes the initial uniform strategy, so that it may be pure."""

    name: str = "late"
    plus: bool = True

    def weight(self, t: jax.Array) -> jax.Array:
        """See `Rule`."""
        return jnp.where(t > 1, 1.0, 0.0)


@pytest.mark.parametrize("depth", [None, 1])
def test_own_infostates_that_are_never_reached_keep_the_blueprint(depth: int | None) -> None:
    tree = deals.rounds(0)
    for knowledge in (BELIEVED, ASSEMBLED):
        found = searched(tree, 0, knowledge, depth=depth, algorithm=Late(), iterations=3)
        reach = found.policy.reach(0)[tree.infosets[0].parent]
        stayed = (reach == 0)[tree.infosets[0].infoset[1:]]
        before = np.tile(found.blueprint.probabilities[0], len(GADGETS))
        assert stayed.any(axis=0).all()
        np.testing.assert_array_equal(rows(found)[stayed], before[stayed])
        assert (np.abs(rows(found) - before) > 0.1)[~stayed].any()


@pytest.mark.slow
def test_parts_of_a_level_equal_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    check_parts(BELIEVED, monkeypatch)  # other cases: tests/slow


def check_parts(knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a level that does not fit in memory; roots in several subgames count once per subgame."""
    tree, count = deals.rounds(0), list[int]()
    counted = NestedRun.search

    def search(run: NestedRun, number: int, *given: Any) -> Any:
        count.append(number)
        return counted(run, number, *given)

    monkeypatch.setattr(NestedRun, "search", search)
    whole = searched(tree, 0, knowledge, depth=1)
    levels = len(count)
    monkeypatch.setattr("jaxgadget.subgames.nested_run.PART_CELLS", 50)
    parts = searched(tree, 0, knowledge, depth=1)
    assert len(count) - levels > levels
    np.testing.assert_allclose(rows(parts), rows(whole), rtol=0, atol=1e-9)
    np.testing.assert_array_equal(parts.searches, whole.searches)
    for visits, expected in zip(parts.visits, whole.visits, strict=True):
        order = np.argsort(visits.histories)
        np.testing.assert_array_equal(visits.histories[order], np.sort(expected.histories))
        np.testing.assert_allclose(visits.weights[order].sum(), expected.weights.sum(), rtol=0, atol=1e-9)
        assert visits.weights.sum() == pytest.approx(2, abs=1e-9), "play gets to both levels' limits"


@pytest.mark.slow
def test_room_is_planned_for_beliefs_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Payoffs of lookaheads and beliefs are counted before any of them is computed."""
    knowledge = Knowledge(1, True)
    planned, needed = list[int](), list[tuple[int, int]]()
    count, find = NestedRun._count_payoffs, NestedRun._find_spot

    def counted(run: NestedRun, where: Any, *given: Any) -> Any:
        sizes = count(run, where, *given)
        planned.append(int(sizes.sum()))
        return sizes

    def found(run: NestedRun, *given: Any) -> Any:
        spot = find(run, *given)
        forests, entries = (spot.lookahead, spot.belief.forest), run.leaf.num_entries
        first, second = (
            len(forest.terminals.value) + entries**2 * len(forest.leaves.leaf) for forest in forests
        )
        needed.append((first, second))
        return spot

    monkeypatch.setattr(NestedRun, "_count_payoffs", counted)
    monkeypatch.setattr(NestedRun, "_find_spot", found)
    searched(deals.rounds(0, turns=3, shown=2), 0, knowledge, iterations=1)
    assert planned == [max(sizes) for sizes in needed] and len(needed) >= 2
    if knowledge.follow == "believed":
        assert any(second > first for first, second in needed) != knowledge.unfrozen


def test_bad_input() -> None:
    tree = deals.rounds(0)
    uniform = Policy.uniform(tree)
    bad: list[tuple[dict[str, Any], str]] = [
        ({"opponent": Opponent(uniform, 0.5)}, "opponent: models cannot"),
        ({"values": OptimalValues()}, r"knowledge with values=OptimalValues\(.*expected values of histories"),
        (
            {"knowledge": Knowledge(generate=DiverseGeneration(2))},
            r"generate=DiverseGeneration\(num=2\): nested search considers all infostates; leave it out",
        ),
        ({"gadgets": OptimalContinuation()}, "gadgets: optimal-continuation requires"),
        (
            {"gadgets": Resolving(alternative=ContinuationValues())},
            "gadgets: resolving requires",
        ),
        ({"depth": 2}, "depth=2 without values: .* expected values at the limit, or no depth"),
    ]
    for options, message in bad:
        with pytest.raises(ValueError, match=message):
            nested_search(
                tree,
                uniform,
                **settings(**({"gadgets": Unsafe(), "knowledge": BELIEVED, "iterations": 2} | options)),
            )
    with pytest.raises(ValueError, match="follow="):
        Knowledge(follow="heard")  # pyright: ignore[reportArgumentType]
