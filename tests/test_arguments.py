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
    with pytest.raises(ValueError, match=r"tree=.*: expected a HistoryTree, from enumerate_game\(load"):
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
    with pytest.raises(ValueError, match=r"expected a Policy, such as Policy\.uniform\(tree\)"):
        POLICY_TAKERS[name](wrong)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: jg.enumerate_game("kuhn_poker"), r"game='kuhn_poker': expected a game, from load"),
        (lambda: jg.Policy.dirichlet(kuhn(), "a"), r"seed='a': expected a whole number"),
        (lambda: jg.Policy.dirichlet(kuhn(), 1.5), r"seed=1\.5: expected a whole number"),
        (lambda: jg.Policy.dirichlet(kuhn(), 0, "a"), r"dirichlet alpha 'a'"),
        (lambda: jg.Policy.geometric(kuhn(), "2"), r"geometric ratio '2'"),
        (lambda: uniform().lane(3), r"lane=3 is unknown; expected a number below 1"),
        (lambda: jg.Policy.stack([uniform(), uniform()]).lane("uniform"), r"stands for lanes \[0, 1\]"),
        (lambda: jg.Resolving(epsilon="0.1"), r"epsilon='0\.1': expected a number"),
        (
            lambda: jg.Resolving(alternative=jg.BlueprintValues),
            r"alternative=.*expected BestResponseValues\(\)",
        ),
        (lambda: jg.ArrayValues(np.array(["a"])), r"ArrayValues of shape \(1,\) and type"),
        (lambda: jg.ReachResolving(gifts="all"), r"gifts='all': expected 'lower-bound' or 'estimate'"),
        (lambda: jg.cfr_checkpoints(kuhn(), 10), r"counts=10: expected numbers of iterations"),
        (
            lambda: jg.refine(kuhn(), "depth:1", uniform(), value=(5.0, 6.0)),
            r"value=\(5\.0, 6\.0\): player 0's payoffs in kuhn_poker lie between -2 and 2",
        ),
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
    with pytest.raises(ValueError, match=r"player=.*: expected 0 or 1"):
        calls[name]()


@pytest.mark.parametrize("wrong", [True, np.True_, math.inf, math.nan, -1, "0.1"], ids=repr)
@pytest.mark.parametrize("name", ["solve", "refine", "search"])
def test_a_target_gap_is_a_finite_number(name: str, wrong: Any) -> None:
    calls: dict[str, Callable[[], Any]] = {
        "solve": lambda: jg.solve(kuhn(), target_gap=wrong),
        "refine": lambda: jg.refine(kuhn(), "depth:1", uniform(), target_gap=wrong),
        "search": lambda: jg.search(
            kuhn(), "depth:1", uniform(), jg.Resolving(), values=jg.ExactValues(uniform()), target_gap=wrong
        ),
    }
    with pytest.raises(ValueError, match=r"target_gap=.*: expected a number >= 0"):
        calls[name]()


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (
            lambda: jg.Policy(kuhn(), halves()[:1], ("a",)),
            r"probabilities=\(array .*\): expected a pair of NumPy",
        ),  # pyright: ignore
        (lambda: jg.Policy(kuhn(), list(halves()), ("a",)), r"probabilities=\(array of shape .*NumPy"),  # pyright: ignore
        (
            lambda: jg.Policy(kuhn(), ([0.5], [0.5]), ("a",)),
            r"probabilities=\(\(0\.5\), \(0\.5\)\): expected a",
        ),  # pyright: ignore
        (
            lambda: jg.Policy(kuhn(), (halves()[0] > 0, halves()[1]), ("a",)),
            "expected a pair of NumPy arrays",
        ),
        (lambda: jg.Policy(kuhn(), halves(), "a"), r"labels='a': expected a tuple of names"),  # pyright: ignore
        (lambda: jg.Policy(kuhn(), halves(), (3,)), r"labels=\(3\): expected a tuple of names"),  # pyright: ignore
        (lambda: jg.Policy.dirichlet(kuhn(), math.inf), r"seed=inf: expected a whole number"),  # pyright: ignore
        (lambda: jg.Policy.dirichlet(kuhn(), True), r"seed=True: expected a whole number"),
        (lambda: jg.Policy.dirichlet(kuhn(), 0, math.inf), r"dirichlet alpha inf"),
        (lambda: jg.Policy.geometric(kuhn(), math.nan), r"geometric ratio nan"),
        (lambda: uniform().lane(0.0), r"lane=0\.0: expected a whole number"),  # pyright: ignore
        (lambda: uniform().lane(False), r"lane=False: expected a whole number"),
        (lambda: uniform().action_probabilities("0", 4), r"lane=4 is unknown; expected a number below 1"),
        (
            lambda: jg.enumerate_game(jg.load("kuhn_poker"), max_histories=math.inf),
            r"max_histories=inf: expected a",
        ),  # pyright: ignore
        (
            lambda: jg.enumerate_game(jg.load("kuhn_poker"), max_histories=1e6),
            r"max_histories=1000000\.0: expected",
        ),  # pyright: ignore
        (
            lambda: jg.enumerate_game(jg.load("kuhn_poker"), max_histories=True),
            r"max_histories=True: expected a",
        ),
        (
            lambda: jg.enumerate_game(jg.load("kuhn_poker"), depth=True),
            r"depth=True: expected how many moves",
        ),
        (lambda: jg.game_value(kuhn(), tolerance=math.nan), r"tolerance=nan: expected a number >= 0"),
        (lambda: jg.game_value(kuhn(), tolerance=True), r"tolerance=True: expected a number >= 0"),
        (
            lambda: jg.solve(kuhn(), algorithm="lp", time_limit=math.inf),
            r"time_limit=inf: expected a positive",
        ),
        (lambda: jg.solve(kuhn(), iterations=1e3), r"iterations=1000\.0: expected a whole number"),  # pyright: ignore
        (lambda: jg.solve(kuhn(), check_every=True), r"check_every=True: expected a whole number"),
        (
            lambda: jg.refine(kuhn(), "depth:1", uniform(), memory_limit=math.inf),
            r"memory_limit=inf: expected",
        ),  # pyright: ignore
        (
            lambda: jg.refine(kuhn(), "depth:1", uniform(), value=(False, True)),
            r"value=\(False, True\): expected",
        ),
        (lambda: jg.refine(kuhn(), "depth:1", uniform(), value=("0", "1")), r"value=\('0', '1'\): expected"),  # pyright: ignore
        (lambda: jg.refine(kuhn(), "depth:1", uniform(), value=3.0), r"value=3\.0: expected \(low, high\)"),  # pyright: ignore
        (lambda: jg.tremble(kuhn(), np.False_), r"epsilon=np\.False_: expected a number in"),  # pyright: ignore
        (lambda: jg.Resolving(epsilon=math.nan), r"epsilon=nan: expected a number"),
        (lambda: jg.restricted_nash_response(uniform(), 0, True), r"p=True: expected a number in \[0, 1\]"),
        (lambda: jg.restricted_nash_response(uniform(), 0, "x"), r"p='x': expected a number in \[0, 1\]"),  # pyright: ignore
        (lambda: jg.spread_checkpoints(kuhn(), 2.5), r"count=2\.5: expected a whole number"),  # pyright: ignore
        (lambda: jg.make_portfolio(uniform(), size=True), r"size=True: expected a whole number"),
        (
            lambda: jg.make_portfolio(uniform(), entries=["blueprint", "biased:\u0663"]),
            "has '\u0663', expected a pos",
        ),
        (lambda: jg.make_blueprints(kuhn(), "geometric:\u0662"), "R is '\u0662', expected a positive number"),
        (lambda: jg.make_blueprints(kuhn(), "cfr:\u0662"), "N is '\u0662', expected a whole number"),
        (
            lambda: jg.cut(kuhn(), "depth:\u0662"),
            "cut='depth:\u0662' is unknown for kuhn_poker; expected 'depth:D'",
        ),
        (lambda: jg.cut(kuhn(), "depth:" + "9" * 5000), "cut='depth:999.*' is unknown for kuhn_poker"),
        (lambda: jg.sweep("nowhere", "kuhn_poker", "depth:1", max_histories=math.inf), r"max_histories=inf"),  # pyright: ignore
        (lambda: jg.sweep("nowhere", "kuhn_poker", "depth:1", players=0.0), r"player=0\.0: expected 0 or 1"),  # pyright: ignore
        (
            lambda: jg.train_value(kuhn(), uniform(), width=10_000_000),
            r"width=10000000, depth=1, .*: training takes",
        ),
        (
            lambda: jg.train_value(kuhn(), uniform(), depth=2**30),
            r"depth=1073741824, batch_size=256: training",
        ),
        (
            lambda: jg.train_value(kuhn(), uniform(), batch_size=2**31 - 1),
            r"batch_size=2147483647: training takes",
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

    with pytest.raises(
        ValueError, match=r"rich: returns \(1\.7e\+308, -1\.7e\+308\) at terminal history \(0,\) are lar"
    ):
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
    with pytest.raises(ValueError, match=r"endless has histories of more than 2,000 steps: it may never end"):
        jg.enumerate_game(jg.load(Endless()))


def test_what_a_notebook_shows_is_a_line() -> None:
    tree = kuhn()
    solution = jg.solve(tree, iterations=5, target_gap=1e-9)
    result = jg.refine(tree, "depth:1", uniform(), jg.Unsafe(), iterations=5, target_gap=1e-9)
    shown = [
        tree,
        uniform(),
        solution,
        result,
        result.forest,
        result.forest.cut,
        jg.best_response(uniform(), 0),
    ]
    for thing in shown:
        assert len(repr(thing)) < 400 and "\n" not in repr(thing), type(thing)
    for said in (solution.message, result.message):
        assert "the target of 1e-09 was not reached" in said
