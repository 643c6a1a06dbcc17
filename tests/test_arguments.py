"""Arguments of the wrong kind are named, with what was expected, wherever a tree or a policy is taken."""

from __future__ import annotations

import functools
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
