"""Nested search with optimal values at its limits: explicit programs, worked examples, definitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jaxgadget import (
    Full,
    HistoryTree,
    MaxMargin,
    NoPrior,
    Opponent,
    OptimalContinuation,
    OptimalValues,
    Policy,
    Resolving,
    Unsafe,
    exploitability,
    respond,
)
from jaxgadget.core import cfr
from jaxgadget.subgames.nested import Nested
from jaxgadget.subgames.schedule import make_schedule
from tests.reference import depth_limited, efg, lp
from tests.reference.depth_limited import Kind
from tests.reference.random_games import random_tree
from tests.solving import nested_exactly, nested_search, settings
from tests.trees import tree_of

KUHN_VALUE = (-1 / 18, -1 / 18)

JOINT = OptimalContinuation(NoPrior())
PS = (0.0, 0.3, 1.0)


def plays(tree: HistoryTree, choose: Callable[[str, list[str]], dict[str, float]]) -> Policy:
    """A policy from probabilities of actions by name; uniform by default."""

    def row(player: int, infoset: int, count: int) -> list[float]:
        infosets = tree.infosets[player]
        first = int(infosets.first_sequence[infoset])
        names = [tree.game.action_string(player, int(infosets.action[first + k])) for k in range(count)]
        said = choose(tree.infoset_names[player][infoset], names)
        return [said.get(name, 0.0) for name in names] if said else [1 / count] * count

    return Policy.from_function(tree, row, "model")


def step_values(found: Nested, kind: Kind, depth: int, step: int, lane: int, model: Policy) -> list[float]:
    """Each step's value by a linear program of the explicit game with two copies of the opponent."""
    tree, player, p = found.policy.tree, found.player, found.table["p"][lane]
    rows = efg.from_sequences(tree, _with_root(model, 0))
    settled = efg.from_sequences(tree, _with_root(found.policy, lane))
    values: list[float] = []
    for number in range(len(found.objectives)):
        roots = depth_limited.level_histories(tree, player, kind, number, step)
        limit = depth_limited.limit_histories(tree, player, kind, roots, depth)
        explicit = depth_limited.step_game(tree, player, rows, p, settled, roots, limit)
        values.append(lp.solve(explicit, player).value)
    return values


def _with_root(policy: Policy, lane: int) -> tuple[np.ndarray, np.ndarray]:
    first, second = (np.append(1.0, rows[:, lane]) for rows in policy.probabilities)
    return first, second


STEPS: list[tuple[str, Kind, int, int]] = [
    ("betting", "moves", 1, 1),
    ("bids", "moves", 2, 1),
    ("weather", "moves", 2, 2),
    ("delays", "own", 1, 1),
    ("uneven", "own", 2, 1),
]


@pytest.mark.slow
def test_step_objectives_are_those_of_explicit_games() -> None:
    check_step_objectives(*STEPS[0], 0)  # other player: tests/slow


def check_step_objectives(shape: str, kind: Kind, depth: int, step: int, player: int) -> None:
    """They never decrease, E is at most p·G / (1−p), and 0 for p = 0."""
    tree, _ = random_tree(shape, 3)
    model = Policy.dirichlet(tree, 5)
    how: dict[str, Any] = {"depth": depth, "limit": kind, "step": step, "player": player}
    found = nested_exactly(tree, opponent=Opponent(model, PS), **settings(**how))
    assert len(found.objectives) > 1
    for lane in range(len(PS)):
        expected = step_values(found, kind, depth, step, lane, model)
        np.testing.assert_allclose(found.objectives[:, lane], expected, atol=1e-9)
    assert (np.diff(found.objectives, axis=0) > -1e-9).all()
    gain, lost = found.gain, found.nested_exploitability
    for lane, p in enumerate(PS[:-1]):
        assert lost[lane] <= p * gain[lane] / (1 - p) + 1e-9
        assert found.exploitability_bound[lane] == pytest.approx(p * gain[lane] / (1 - p), abs=1e-6)
    assert np.isnan(found.exploitability_bound[-1])
    low, high = found.game_value
    value = (low + high) / 2 * (1 if player == 0 else -1)
    last = np.array(PS) * (value + gain) + (1 - np.array(PS)) * (value - lost)
    np.testing.assert_allclose(found.objectives[-1], last, atol=1e-6)


@pytest.mark.parametrize("player", (0, 1))
@pytest.mark.slow
def test_branch_by_branch_a_locked_opponent_makes_no_difference(player: int) -> None:
    """For p = 1 the subgames of a level are independent: both results are the best response."""
    tree, _ = random_tree("weather", 4)
    model = Policy.dirichlet(tree, 6)
    gadgets = [JOINT, Unsafe(), Resolving(NoPrior()), MaxMargin(NoPrior())]
    found = nested_exactly(
        tree, gadgets=gadgets, opponent=Opponent(model, 1.0), depth=2, step=1, player=player
    )
    for lane in range(len(gadgets)):
        expected = step_values(found, "moves", 2, 1, lane, model)
        np.testing.assert_allclose(found.objectives[:, lane], expected, atol=1e-9)
    assert np.isnan(found.exploitability_bound).all()


@pytest.mark.parametrize("player", [0, 1])
def test_one_step_to_the_end_is_a_restricted_nash_response(player: int) -> None:
    tree = tree_of("kuhn_poker")
    model = Policy.dirichlet(tree, 2)
    for options in (
        {"opponent": Opponent(model, PS), "depth": 9},
        {"opponent": Opponent(model, PS, "model")},
    ):
        found = nested_exactly(tree, player=player, **settings(**options))
        responses = respond(tree, Opponent(model, PS), player=player, algorithm="lp")
        for lane, p in enumerate(PS):
            expected = p * responses.value_against_model[lane] + (1 - p) * responses.guaranteed_value[lane]
            np.testing.assert_allclose(found.objectives[:, lane], expected, atol=1e-9)


@pytest.mark.parametrize(("shape", "player"), [("betting", 0), ("bids", 1), ("weather", 0)])
@pytest.mark.slow
def test_with_the_full_gadget_no_branch_is_worth_less_than_the_search_above_it(
    shape: str, player: int
) -> None:
    tree, _ = random_tree(shape, 7)
    opponent = Opponent(Policy.dirichlet(tree, 8), [0.2, 0.6])
    found = nested_exactly(tree, gadgets=Full(NoPrior()), opponent=opponent, depth=2, step=1, player=player)
    assert len(found.objectives) > 1 and (np.diff(found.objectives, axis=0) > -1e-9).all()
    joint = nested_exactly(tree, opponent=opponent, depth=2, step=1, player=player)
    np.testing.assert_allclose(found.objectives[0], joint.objectives[0], atol=1e-9)
    assert np.isnan(found.exploitability_bound).all()


def test_case_1_a_deeper_limit_may_be_worse() -> None:
    """Limits of 1, 2 and 3 moves gain 2, ⅔ and 10/3 against a model that pays ten for two Tails."""
    tree = tree_of("matching_pennies_twist")
    model = plays(tree, lambda name, names: {"x": 1.0} if "x" in names else {"Heads": 2 / 3, "Tails": 1 / 3})
    for depth, expected in ((1, 2.0), (2, 2 / 3), (3, 10 / 3)):
        found = nested_exactly(tree, opponent=Opponent(model, 1.0), depth=depth)
        assert found.gain[0] + 1 / 2 == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("g", [0.2, 0.9])
def test_case_2_play_below_the_limit_counts_as_rational(g: float) -> None:
    tree = tree_of("biased_matching_pennies")

    def choose(name: str, names: list[str]) -> dict[str, float]:
        return {"p": 1.0} if "p" in names else {"Heads": g, "Tails": 1 - g}

    opponent = Opponent(plays(tree, choose), 1.0)
    before = nested_exactly(tree, opponent=opponent, depth=2)
    assert before.gain[0] - 4 / 3 == pytest.approx(-2 / 3, abs=1e-9)
    np.testing.assert_allclose(before.policy.probabilities[0][:, 0], [1 / 3, 2 / 3], atol=1e-9)
    for how in ({"depth": 3}, {"depth": 1, "limit": "own"}, {"depth": 2, "limit": "own"}):
        after = nested_exactly(tree, opponent=opponent, **settings(**how))
        assert after.gain[0] - 4 / 3 == pytest.approx(max(-2 * g, -(1 - g)), abs=1e-9)


def test_case_4_branch_by_branch_is_not_safe() -> None:
    """Both subgames use the same slack: each assumes that the other one is not searched further."""
    tree = tree_of("coin_toss_siblings")

    def choose(name: str, names: list[str]) -> dict[str, float]:
        if "Play" in names:
            return {"Play": 1.0} if "Heads" in name else {"Sell": 1.0}
        return {"x": 1.0} if "x" in names else {}

    model = plays(tree, choose)
    blueprint = plays(tree, lambda name, names: {} if "Heads" not in names else {"Tails": 1.0})
    found = nested_exactly(
        tree,
        blueprint,
        [JOINT, Full(NoPrior())],
        opponent=Opponent(model, [0.001, 0.05, 0.2]),
        player=1,
        limit="own",
    )
    joint, apart = slice(0, 3), slice(3, 6)
    np.testing.assert_allclose(found.gain[joint], 1 / 8, atol=1e-6)
    np.testing.assert_allclose(found.nested_exploitability[joint], 0, atol=1e-6)
    heads = found.policy.probabilities[1][[0, 2]]
    np.testing.assert_allclose(heads[:, joint].sum(axis=0), 1 / 2, atol=1e-9)
    np.testing.assert_allclose(heads[:, apart], 1 / 2, atol=1e-9)
    np.testing.assert_allclose(found.gain[apart], 1 / 2, atol=1e-6)
    np.testing.assert_allclose(found.nested_exploitability[apart], 1 / 4, atol=1e-6)


def test_case_5_kuhn_poker_against_a_uniform_model() -> None:
    tree = tree_of("kuhn_poker")
    uniform = Policy.uniform(tree)
    for depth, expected in ((1, -1 / 18), (2, 1 / 2)):
        found = nested_exactly(tree, opponent=Opponent(uniform, 1.0), depth=depth)
        assert found.objectives[0, 0] == pytest.approx(expected, abs=1e-9)
    mixed = nested_exactly(tree, opponent=Opponent(uniform, [0.25, 0.75]), depth=3)
    np.testing.assert_allclose(mixed.gain, [4 / 9, 5 / 9], atol=1e-6)
    np.testing.assert_allclose(mixed.nested_exploitability, [1 / 18, 5 / 18], atol=1e-6)


@pytest.mark.parametrize("player", (0, 1))
@pytest.mark.slow
def test_regret_matching_is_within_its_gaps_of_the_programs(player: int) -> None:
    """First steps are the same games; later ones continue from the solution and lose at most their gaps."""
    tree = tree_of("kuhn_poker")
    opponent = Opponent([Policy.uniform(tree), Policy.dirichlet(tree, 4)], [0.0, 0.4, 1.0])
    how: dict[str, Any] = {"opponent": opponent, "player": player, "depth": 2, "limit": "moves", "step": 1}
    found = nested_search(
        tree,
        Policy.uniform(tree),
        values=OptimalValues(),
        **settings(iterations=3000, dtype="float64", **how),
    )
    exact = nested_exactly(tree, **settings(**how))
    assert found.gap_max.max() < 1e-3
    assert (np.abs(found.objectives[0] - exact.objectives[0]) <= found.gap_max + 1e-9).all()
    assert (np.diff(found.objectives, axis=0) >= -found.gap_max - 1e-9).all()
    bounded = found.opponents.p < 1
    bound, lost = found.exploitability_bound, found.nested_exploitability
    assert (lost[bounded] <= bound[bounded] + 1e-6).all() and np.isnan(bound[~bounded]).all()
    assert list(found.table["model"][:3]) == ["uniform"] * 3 and list(found.table["p"][:3]) == [0.0, 0.4, 1.0]
    np.testing.assert_allclose(lost, exploitability(found.policy, player, value=found.game_value))


@pytest.mark.slow
def test_lanes_are_those_solved_alone() -> None:
    tree = tree_of("kuhn_poker")
    profiles = Policy.stack([Policy.dirichlet(tree, 0), Policy.dirichlet(tree, 1)])
    models, ps = [Policy.uniform(tree), Policy.geometric(tree, 0.5)], [0.0, 0.7]
    gadgets = [Resolving(NoPrior()), JOINT, Full(NoPrior())]
    how: dict[str, Any] = {"values": OptimalValues(), "iterations": 30, "dtype": "float64", "player": 1}
    found = nested_search(tree, profiles, gadgets, opponent=Opponent(models, ps), **settings(**how))
    assert found.policy.num_lanes == 3 * 4 * 2
    for g, gadget in enumerate(gadgets):
        for m, p, b in ((0, 1, 1), (1, 0, 0)):
            alone = nested_search(
                tree, profiles.lane(b), gadget, opponent=Opponent(models[m], [ps[p], 0.9]), **settings(**how)
            )
            lane = (g * 4 + m * 2 + p) * 2 + b
            np.testing.assert_allclose(
                found.policy.probabilities[1][:, lane], alone.policy.probabilities[1][:, 0], atol=1e-12
            )
            np.testing.assert_allclose(found.objectives[:, lane], alone.objectives[:, 0], atol=1e-12)
            assert found.table["gadget"][lane] == gadget.name and found.table["p"][lane] == ps[p]
            assert found.table["model"][lane] == models[m].labels[0]


@pytest.mark.slow
def test_another_model_and_p_compile_nothing() -> None:
    tree = tree_of("kuhn_poker")
    how: dict[str, Any] = {"values": OptimalValues(), "iterations": 2, "depth": 1, "limit": "moves"}
    gadgets = [JOINT, Resolving(NoPrior())]

    def run(model: Policy, ps: list[float]) -> None:
        nested_search(tree, Policy.uniform(tree), gadgets, opponent=Opponent(model, ps), **settings(**how))

    run(Policy.uniform(tree), [0.1, 0.5])
    before = cfr.run.jitted._cache_size()
    run(Policy.dirichlet(tree, 1), [0.9, 1.0])
    assert cfr.run.jitted._cache_size() == before


@pytest.mark.slow
def test_a_limit_inside_a_simultaneous_move() -> None:
    """In a turn-based order, a search may end between the two players' bids."""
    pytest.importorskip("pyspiel")
    name = "turn_based_simultaneous_game(game=goofspiel(imp_info=True,num_cards=3,points_order=descending))"
    tree = tree_of(f"openspiel:{name}")
    model = Policy.dirichlet(tree, 3)
    found = nested_exactly(tree, opponent=Opponent(model, [0.5, 1.0]), depth=1)
    for lane in (0, 1):
        expected = step_values(found, "moves", 1, 1, lane, model)
        np.testing.assert_allclose(found.objectives[:, lane], expected, atol=1e-9)
    assert (np.diff(found.objectives, axis=0) > -1e-9).all() and len(found.objectives) > 2


@pytest.mark.parametrize("shape", ["betting", "weather", "uneven"])
@pytest.mark.slow
def test_a_branch_of_the_full_gadget_is_the_game_with_all_else_as_it_was(shape: str) -> None:
    """First searches: outside a branch the blueprint is played, against both copies of the opponent."""
    tree, _ = random_tree(shape, 3)
    model, blueprint, player = Policy.dirichlet(tree, 5), Policy.dirichlet(tree, 9), 1
    schedule = make_schedule(tree, player, 1)
    level, p = schedule.levels[0], 0.3
    found = nested_exactly(
        tree, blueprint, Full(NoPrior()), opponent=Opponent(model, p), player=player, limit="own"
    )
    rows, kept = (
        efg.from_sequences(tree, _with_root(model, 0)),
        efg.from_sequences(tree, _with_root(blueprint, 0)),
    )
    values: list[float] = []
    for subgame in range(level.num_subgames):
        roots = set(level.roots[level.subgame == subgame].tolist())
        limit = depth_limited.limit_histories(tree, player, "own", roots, 1)
        explicit = depth_limited.step_game(tree, player, rows, p, kept, roots, limit)
        values.append(lp.solve(explicit, player).value)
    assert len(values) > 1 and max(values) > min(values)
    assert found.objectives[0, 0] == pytest.approx(min(values), abs=1e-9)
