"""Arguments of the wrong kind are named, with what was expected, wherever a tree or a policy is taken."""

from __future__ import annotations

import functools
import math
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget.games.stepwise import CHANCE, Rules, Step
from jaxgadget.tree.history import HistoryTree


@functools.cache
def kuhn() -> HistoryTree:
    return jg.enumerate_game(jg.load("kuhn_poker"))


def uniform() -> jg.Policy:
    return jg.Policy.uniform(kuhn())


TREE_TAKERS: dict[str, Callable[[Any], Any]] = {
    "solve": jg.solve,
    "solve exactly": lambda tree: jg.solve(tree, algorithm="lp"),
    "game_value": jg.game_value,
    "cut": lambda tree: jg.cut(tree, "depth:1"),
    "build_forest": lambda tree: jg.build_forest(tree, "depth:1"),
    "refine": lambda tree: jg.refine(tree, "depth:1", uniform()),
    "refine_both": lambda tree: jg.refine_both(tree, "depth:1", uniform()),
    "cfr_d": lambda tree: jg.cfr_d(tree, "depth:1", iterations=1, subgame_iterations=1),
    "cfr_checkpoints": lambda tree: jg.cfr_checkpoints(tree, (1, 2)),
    "tremble": lambda tree: jg.tremble(tree, 0.1),
    "Policy.uniform": jg.Policy.uniform,
    "Policy.geometric": lambda tree: jg.Policy.geometric(tree, 0.5),
    "Policy.dirichlet": lambda tree: jg.Policy.dirichlet(tree, 0),
    "Policy.on": lambda tree: uniform().on(tree),
}


@pytest.mark.parametrize("name", TREE_TAKERS)
@pytest.mark.parametrize("wrong", ["kuhn_poker", jg.load("kuhn_poker"), None], ids=["name", "game", "None"])
def test_a_tree_is_expected(name: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match="tree="):
        TREE_TAKERS[name](wrong)


POLICY_TAKERS: dict[str, Callable[[Any], Any]] = {
    "nash_conv": jg.nash_conv,
    "evaluate_policy": jg.evaluate_policy,
    "exploitability": lambda policy: jg.exploitability(policy, 0),
    "best_response": lambda policy: jg.best_response(policy, 0),
    "stack": lambda policy: jg.Policy.stack([policy]),
    "refine": lambda policy: jg.refine(kuhn(), "depth:1", policy),
    "refine several": lambda policy: jg.refine(kuhn(), "depth:1", [policy]),
}


@pytest.mark.parametrize("name", POLICY_TAKERS)
@pytest.mark.parametrize("wrong", ["uniform", None, 3], ids=["name", "None", "number"])
def test_a_policy_is_expected(name: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match="expected a Policy"):
        POLICY_TAKERS[name](wrong)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: jg.enumerate_game("kuhn_poker"), "game="),
        (lambda: jg.Policy.dirichlet(kuhn(), "a"), "seed="),
        (lambda: jg.Policy.dirichlet(kuhn(), 1.5), "seed="),
        (lambda: jg.Policy.dirichlet(kuhn(), 0, "a"), "dirichlet"),
        (lambda: jg.Policy.geometric(kuhn(), "2"), "geometric"),
        (lambda: uniform().lane(3), "lane="),
        (lambda: jg.Policy.stack([uniform(), uniform()]).lane("uniform"), r"stands for lanes \[0, 1\]"),
        (lambda: jg.Resolving(epsilon="0.1"), "epsilon="),
        (lambda: jg.Resolving(alternative=jg.BlueprintValues), "alternative="),
        (lambda: jg.ArrayValues(np.array(["a"])), "ArrayValues"),
        (lambda: jg.ReachResolving(gifts="all"), "gifts="),
        (lambda: jg.cfr_checkpoints(kuhn(), 10), "counts="),
        (lambda: jg.refine(kuhn(), "depth:1", uniform(), value=(5.0, 6.0)), "value="),
    ],
)
def test_other_arguments(call: Callable[[], Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        call()


def halves() -> tuple[np.ndarray, np.ndarray]:
    return uniform().probabilities


NOT_WHOLE = [0.0, True, np.True_, "0", math.nan]


@pytest.mark.parametrize("wrong", NOT_WHOLE, ids=repr)
@pytest.mark.parametrize("name", ["refine", "exploitability", "best_response", "find_infoset", "search"])
def test_a_player_is_0_or_1_and_no_float_or_truth_value(name: str, wrong: Any) -> None:
    calls: dict[str, Callable[[], Any]] = {
        "refine": lambda: jg.refine(kuhn(), "depth:1", uniform(), player=wrong),
        "exploitability": lambda: jg.exploitability(uniform(), wrong),
        "best_response": lambda: jg.best_response(uniform(), wrong),
        "find_infoset": lambda: kuhn().find_infoset("0", wrong),
        "search": lambda: jg.search(
            kuhn(), "depth:1", uniform(), jg.Resolving(), values=jg.ExactValues(uniform()), player=wrong
        ),
    }
    with pytest.raises(ValueError, match="player="):
        calls[name]()


@pytest.mark.parametrize("wrong", [True, np.True_, math.inf, math.nan, -1, "0.1"], ids=repr)
@pytest.mark.parametrize("name", ["solve", "refine", "search"])
def test_a_target_gap_is_a_finite_number(name: str, wrong: Any) -> None:
    calls: dict[str, Callable[[], Any]] = {
        "solve": lambda: jg.solve(kuhn(), solver=jg.Solver(target_gap=wrong)),
        "refine": lambda: jg.refine(kuhn(), "depth:1", uniform(), solver=jg.Solver(target_gap=wrong)),
        "search": lambda: jg.search(
            kuhn(),
            "depth:1",
            uniform(),
            jg.Resolving(),
            values=jg.ExactValues(uniform()),
            solver=jg.Solver(target_gap=wrong),
        ),
    }
    with pytest.raises(ValueError, match="target_gap="):
        calls[name]()


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (
            lambda: jg.Policy(kuhn(), halves()[:1], ("a",)),
            "probabilities=",
        ),  # pyright: ignore
        (lambda: jg.Policy(kuhn(), list(halves()), ("a",)), "probabilities="),  # pyright: ignore
        (
            lambda: jg.Policy(kuhn(), ([0.5], [0.5]), ("a",)),
            "probabilities=",
        ),  # pyright: ignore
        (
            lambda: jg.Policy(kuhn(), (halves()[0] > 0, halves()[1]), ("a",)),
            "expected a pair of NumPy arrays",
        ),
        (lambda: jg.Policy(kuhn(), halves(), "a"), "labels="),  # pyright: ignore
        (lambda: jg.Policy(kuhn(), halves(), (3,)), "labels="),  # pyright: ignore
        (lambda: jg.Policy.dirichlet(kuhn(), math.inf), "seed="),  # pyright: ignore
        (lambda: jg.Policy.dirichlet(kuhn(), True), "seed="),
        (lambda: jg.Policy.dirichlet(kuhn(), 0, math.inf), "dirichlet"),
        (lambda: jg.Policy.geometric(kuhn(), math.nan), "geometric"),
        (lambda: uniform().lane(0.0), "lane="),  # pyright: ignore
        (lambda: uniform().lane(False), "lane="),
        (lambda: uniform().action_probabilities("0", 4), "lane="),
        (
            lambda: jg.enumerate_game(jg.load("kuhn_poker"), max_histories=math.inf),
            "max_histories=",
        ),  # pyright: ignore
        (
            lambda: jg.enumerate_game(jg.load("kuhn_poker"), max_histories=1e6),
            "max_histories=",
        ),  # pyright: ignore
        (lambda: jg.enumerate_game(jg.load("kuhn_poker"), max_histories=True), "max_histories="),
        (lambda: jg.enumerate_game(jg.load("kuhn_poker"), depth=True), "depth="),
        (lambda: jg.game_value(kuhn(), tolerance=math.nan), "tolerance="),
        (lambda: jg.game_value(kuhn(), tolerance=True), "tolerance="),
        (lambda: jg.solve(kuhn(), solver=jg.Solver(algorithm="lp", time_limit=math.inf)), "time_limit="),
        (lambda: jg.solve(kuhn(), iterations=1e3), "iterations="),  # pyright: ignore
        (lambda: jg.solve(kuhn(), solver=jg.Solver(check_every=True)), "check_every="),
        (
            lambda: jg.refine(kuhn(), "depth:1", uniform(), solver=jg.Solver(memory_limit=math.inf)),
            "memory_limit=",
        ),  # pyright: ignore
        (lambda: jg.refine(kuhn(), "depth:1", uniform(), value=(False, True)), "value="),
        (lambda: jg.refine(kuhn(), "depth:1", uniform(), value=("0", "1")), "value="),  # pyright: ignore
        (lambda: jg.refine(kuhn(), "depth:1", uniform(), value=3.0), "value="),  # pyright: ignore
        (lambda: jg.tremble(kuhn(), np.False_), "epsilon="),  # pyright: ignore
        (lambda: jg.Resolving(epsilon=math.nan), "epsilon="),
        (lambda: jg.Opponent(uniform(), True), "p="),
        (lambda: jg.Opponent(uniform(), "x"), "p="),  # pyright: ignore
        (lambda: jg.spread_checkpoints(kuhn(), 2.5), "count="),  # pyright: ignore
        (lambda: jg.make_portfolio(uniform(), size=True), "size="),
        (lambda: jg.make_portfolio(uniform(), entries=["blueprint", "biased:\u0663"]), "has '٣'"),
        (lambda: jg.make_blueprints(kuhn(), "geometric:\u0662"), "R is '٢'"),
        (lambda: jg.make_blueprints(kuhn(), "cfr:\u0662"), "N is '٢'"),
        (lambda: jg.cut(kuhn(), "depth:\u0662"), "cut="),
        (lambda: jg.cut(kuhn(), "depth:" + "9" * 5000), "cut="),
        (
            lambda: jg.sweep(
                "nowhere", jg.SweepGrid(games="kuhn_poker", cuts="depth:1", max_histories=math.inf)
            ),
            "max_histories=",
        ),  # pyright: ignore
        (
            lambda: jg.sweep("nowhere", jg.SweepGrid(games="kuhn_poker", cuts="depth:1", players=0.0)),
            "player=",
        ),  # pyright: ignore
        (lambda: jg.train_value(kuhn(), uniform(), config=jg.TrainingConfig(width=10_000_000)), "width="),
        (lambda: jg.train_value(kuhn(), uniform(), config=jg.TrainingConfig(depth=2**30)), "depth="),
        (
            lambda: jg.train_value(kuhn(), uniform(), config=jg.TrainingConfig(batch_size=2**31 - 1)),
            "batch_size=",
        ),
    ],
)
def test_truth_values_infinities_floats_and_foreign_digits(
    call: Callable[[], Any], match: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=match):
        call()
    assert not list(tmp_path.iterdir())


def test_payoffs_too_large_to_compute_with_are_named() -> None:
    class Rich(Endless):
        name = "rich"

        def actors(self, state: int) -> tuple[int, ...]:
            return (0,) if state == 0 else ()

        def step(self, state: int, move: Any) -> Step[int]:
            return Step(1, reward=1.7e308)

    with pytest.raises(ValueError, match="history"):
        jg.enumerate_game(jg.load(Rich()))


class Endless(Rules[int]):
    """Player 0 has one action, again and again."""

    name = "endless"
    actions = ("go",)

    def initial_state(self) -> int:
        return 0

    def actors(self, state: int) -> tuple[int, ...]:
        return (0,)

    def legal_actions(self, state: int, player: int) -> tuple[int, ...]:
        return (0,)

    def chance_outcomes(self, state: int) -> list[tuple[int, float]]:
        raise AssertionError(CHANCE)

    def step(self, state: int, move: Any) -> Step[int]:
        return Step(state + 1)


def test_a_game_that_never_ends_is_stopped() -> None:
    with pytest.raises(ValueError, match="histories"):
        jg.enumerate_game(jg.load(Endless()))
