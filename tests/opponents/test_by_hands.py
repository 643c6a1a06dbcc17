"""Opponents' models in games by hands: the same values as in the histories, where these are unique."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget import MaxMargin, NoPrior, Opponent, Policy, Resolving, UniformPrior, Unsafe
from jaxgadget.opponents.gains import best_gain_against, gain_against
from jaxgadget.opponents.mixtures import How
from jaxgadget.opponents.opponent import list_opponents
from jaxgadget.tree.public import Tree
from tests.reference.efg import Array

P = (0.0, 0.4, 1.0)
GAMES = ("kuhn_poker", pytest.param("liars_dice(dice_sides=3)", marks=pytest.mark.slow))


@functools.cache
def trees(name: str) -> tuple[Tree, Tree]:
    """A game by histories and by hands."""
    tree = jg.enumerate_game(jg.load(name))
    return tree, jg.public_tree(tree)


@functools.cache
def models(name: str) -> Policy:
    tree, _ = trees(name)
    return Policy.stack([Policy.dirichlet(tree, seed) for seed in (3, 4)])


def check_same(name: str, values: Callable[[Tree], list[Array]]) -> None:
    """Compares the numbers that a function computes in both trees of a game."""
    by_histories, by_hands = (values(tree) for tree in trees(name))
    for expected, actual in zip(by_histories, by_hands, strict=True):
        assert np.isfinite(expected).any()
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize("response", [jg.respond, jg.data_biased_response])
def test_responses(response: Callable[..., jg.Responses], name: str) -> None:
    def values(tree: Tree) -> list[Array]:
        found = response(tree, Opponent(models(name), P), player=1, algorithm="lp")
        return [found.objective, found.best_response_gain, np.asarray(found.value)]

    check_same(name, values)


@pytest.mark.parametrize("name", GAMES)
def test_best_equilibria(name: str) -> None:
    def values(tree: Tree) -> list[Array]:
        found = jg.best_nash(tree, models(name))
        return [found.value_against_model, found.guaranteed_value]

    check_same(name, values)


def test_regret_matching_takes_the_same_steps() -> None:
    def values(tree: Tree) -> list[Array]:
        to = Opponent(models("kuhn_poker").on(tree), P)
        found = jg.respond(tree, to, value=(-1 / 18, -1 / 18), iterations=20)
        return [found.gap, found.gain, found.exploitability]

    check_same("kuhn_poker", values)


@pytest.mark.parametrize("how", ["plans", "decisions"])
def test_mixtures(how: How) -> None:
    name = "kuhn_poker"

    def values(tree: Tree) -> list[Array]:
        mixed = jg.mix(models(name).on(tree), Policy.uniform(tree), P, how=how)
        return [jg.evaluate_policy(mixed).value, jg.nash_conv(mixed)]

    check_same(name, values)


def test_gains() -> None:
    name, bracket = "kuhn_poker", (-1 / 18, -1 / 18)

    def values(tree: Tree) -> list[Array]:
        listed = list_opponents(Opponent(models(name), P), tree)
        policy = Policy.geometric(tree, 0.5).take_lanes(np.zeros(len(listed), np.int64))
        gain = gain_against(policy, listed, np.arange(len(listed)), 0, bracket)
        return [gain, best_gain_against(listed, 0, bracket)]

    check_same(name, values)


@pytest.mark.parametrize("name", GAMES)
def test_refined_subgames(name: str) -> None:
    gadgets = [Unsafe(), Resolving(NoPrior()), MaxMargin(UniformPrior())]

    def values(tree: Tree) -> list[Array]:
        blueprint = Policy.geometric(tree, 0.5)
        to = Opponent(models(name).lane(0), P)
        bounds = tree.payoff_bounds  # exploitabilities are not compared
        found = jg.refine(tree, "depth:1", blueprint, gadgets, opponent=to, value=bounds, algorithm="lp")
        return [found.gadget_value]

    check_same(name, values)
