"""Arguments of the wrong type: every public function names the argument and the expected type."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget.games.stepwise import CHANCE, Rules, Step
from tests.trees import kuhn


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
def test_a_tree_is_expected(name: str) -> None:
    with pytest.raises(ValueError, match="tree="):
        TREE_TAKERS[name]("kuhn_poker")


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
def test_a_policy_is_expected(name: str) -> None:
    with pytest.raises(ValueError, match="expected a Policy"):
        POLICY_TAKERS[name](None)


def test_a_spec_is_a_policy_of_a_tree() -> None:
    made = jg.as_policy(["uniform", "dirichlet:3"], kuhn())
    assert made.labels == ("uniform", "dirichlet:3")
    np.testing.assert_array_equal(
        made.lane(1).probabilities[0], jg.Policy.dirichlet(kuhn(), 3).probabilities[0]
    )
    assert jg.exploitability("uniform", 0, tree=kuhn()) == pytest.approx(jg.exploitability(uniform(), 0))
    with pytest.raises(ValueError, match="has no tree"):
        jg.exploitability("uniform", 0)
    with pytest.raises(ValueError, match="'uniforn' is unknown"):
        jg.refine(kuhn(), "depth:1", "uniforn")


def test_the_name_of_an_argument_and_a_label() -> None:
    rows = {name: [1.0, 0.0] for names in kuhn().infoset_names for name in names}
    assert jg.as_policy(rows, kuhn(), label="mine").labels == ("mine",)
    with pytest.raises(ValueError, match="blueprint: "):
        jg.as_policy({}, kuhn(), name="blueprint")


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: jg.enumerate_game("kuhn_poker"), "game="),
        (lambda: jg.Policy.dirichlet(kuhn(), "a"), "seed="),
        (lambda: jg.Policy.dirichlet(kuhn(), 1.5), "seed="),
        (lambda: jg.Policy.dirichlet(kuhn(), 0, "a"), "dirichlet"),
        (lambda: jg.Policy.geometric(kuhn(), "2"), "geometric"),
        (lambda: uniform().lane(3), "lane="),
        (lambda: jg.Policy.stack([uniform(), uniform()]).lane("uniform"), r"is the label of lanes \[0, 1\]"),
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


@pytest.mark.parametrize("wrong", [0.0, True, "0", math.nan], ids=repr)
def test_a_player_is_0_or_1_and_no_float_or_truth_value(wrong: Any) -> None:
    for call in (
        lambda: jg.refine(kuhn(), "depth:1", uniform(), player=wrong),
        lambda: jg.best_response(uniform(), wrong),
        lambda: kuhn().find_infoset("0", wrong),
    ):
        with pytest.raises(ValueError, match="player="):
            call()


@pytest.mark.parametrize("wrong", [True, math.inf, math.nan, -1, "0.1"], ids=repr)
def test_a_target_gap_is_a_finite_number(wrong: Any) -> None:
    with pytest.raises(ValueError, match="target_gap="):
        jg.solve(kuhn(), solver=jg.Solver(target_gap=wrong))


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (
            lambda: jg.Policy(kuhn(), halves()[:1], ("a",)),
            "probabilities=",
        ),
        (
            lambda: jg.Policy(kuhn(), ([0.5], [0.5]), ("a",)),
            "probabilities=",
        ),
        (
            lambda: jg.Policy(kuhn(), (halves()[0] > 0, halves()[1]), ("a",)),
            "expected a pair of NumPy arrays",
        ),
        (lambda: jg.Policy(kuhn(), halves(), "a"), "labels="),
        (lambda: jg.Policy.dirichlet(kuhn(), True), "seed="),
        (lambda: uniform().lane(0.0), "lane="),
        (
            lambda: jg.enumerate_game(jg.load("kuhn_poker"), max_histories=math.inf),
            "max_histories=",
        ),
        (lambda: jg.game_value(kuhn(), tolerance=math.nan), "tolerance="),
        (lambda: jg.solve(kuhn(), solver=jg.Solver(algorithm="lp", time_limit=math.inf)), "time_limit="),
        (
            lambda: jg.refine(kuhn(), "depth:1", uniform(), solver=jg.Solver(memory_limit=math.inf)),
            "memory_limit=",
        ),
        (lambda: jg.refine(kuhn(), "depth:1", uniform(), value=(False, True)), "value="),
        (lambda: jg.Opponent(uniform(), True), "p="),
        (lambda: jg.make_portfolio(uniform(), entries=["blueprint", "biased:\u0663"]), "has '٣'"),
        (lambda: jg.cut(kuhn(), "depth:\u0662"), "cut="),
        (lambda: jg.cut(kuhn(), "depth:" + "9" * 5000), "cut="),
        (
            lambda: jg.sweep(
                "nowhere", jg.SweepGrid(games="kuhn_poker", cuts="depth:1", max_histories=math.inf)
            ),
            "max_histories=",
        ),
        (lambda: jg.train_value(kuhn(), uniform(), config=jg.TrainingConfig(width=10_000_000)), "width="),
        (lambda: jg.train_value(kuhn(), uniform(), config=jg.TrainingConfig(depth=2**30)), "depth="),
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
    """Player 0 has one action, repeated without end."""

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
