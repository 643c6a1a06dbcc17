"""Answers to actions off the menu in larger games: certificates, both seats, and the shape of a table."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget.games.leduc.no_limit import NoLimitLeduc
from jaxgadget.games.menu import MenuAbstraction
from jaxgadget.policy.exact import solve_exactly
from tests.refining.test_off_tree import assert_certified, assert_safe, guaranteed, one_way_off, small, whole

exact = functools.cache(solve_exactly)


@functools.cache
def leduc() -> jg.HistoryTree:
    return jg.enumerate_game(NoLimitLeduc(bets="1/2-1-2-a", max_raises=2, suit_isomorphism=True))


@functools.cache
def coarse(names: tuple[str, ...]) -> jg.HistoryTree:
    menu = ("Fold", "Call", *names)
    return jg.enumerate_game(MenuAbstraction(leduc().game, {0: menu, 1: menu}))


@pytest.mark.parametrize(
    ("shape", "player", "method"),
    [
        ("two ways off", 1, "expensive"),
        ("two ways off", 0, "inexpensive"),
        ("two ways off", 0, "safe"),
        ("two bets off", 1, "inexpensive"),
        ("two bets off", 0, "expensive"),
        ("two bets off", 1, "safe"),
    ],
)
def test_the_certificate_is_what_the_strategy_guarantees_in_the_whole_game(
    shape: str, player: int, method: str
) -> None:
    assert_certified(shape, player, method)


@pytest.mark.parametrize(("shape", "player"), [("two ways off", 0), ("two bets off", 0), ("two bets off", 1)])
def test_safe_answers_never_guarantee_less_than_translation(shape: str, player: int) -> None:
    assert_safe(shape, player)


@pytest.mark.parametrize(
    ("names", "player", "least"),
    [
        (("Bet 1", "AllIn"), 1, 20),
        (("Bet 1", "AllIn"), 0, 4),
        (("Bet 1/2", "Bet 1", "AllIn"), 1, 4),
    ],
)
def test_translation_is_many_times_worse_than_nested_solving(
    names: tuple[str, ...], player: int, least: float
) -> None:
    """The table of the guide; equilibria are not unique, so another solver may find other digits."""
    tree, solution = coarse(names), exact(leduc())
    asked: dict[str, Any] = {"player": player, "algorithm": "lp", "value": (solution.value, solution.value)}
    blueprint = exact(tree).policy
    gadgets = [jg.Resolving(jg.NoPrior()), jg.Resolving(jg.UniformPrior()), jg.MaxMargin(jg.NoPrior())]
    translated = [
        jg.translate_off_tree(tree, blueprint, rule, **asked).exploitability[0]
        for rule in ("pseudo-harmonic", "linear", "nearest")
    ]
    found = jg.nested_off_tree(tree, blueprint, gadgets, **asked)
    assert min(translated[:2]) > least * found.exploitability.max() > 0
    expected = -jg.evaluate_policy(jg.lift(found.policy, leduc())).best_response_values[player]
    np.testing.assert_allclose(found.certificate, expected, rtol=0, atol=1e-9)
    assert found.menu_value is not None
    worse = solution.value - found.menu_value[0] if player == 0 else found.menu_value[0] - solution.value
    assert -1e-9 < worse <= found.exploitability.min() + 1e-9


def test_by_cfr_relation_1_holds_but_for_the_gap() -> None:
    tree, menu_tree, _ = one_way_off()
    solution = solve_exactly(tree)
    values = jg.AbstractValues(solution.policy)
    gadgets = [make(jg.NoPrior(), alternative=values) for make in (jg.Resolving, jg.MaxMargin)]
    blueprint = jg.lift(solution.policy, menu_tree)
    for iterations in (5, 50, 500):
        rough = jg.nested_off_tree(
            menu_tree, blueprint, gadgets, player=1, levels=1, iterations=iterations, dtype="float64"
        )
        gap = np.array([rough.levels[0].gap[:, 0].sum(), rough.levels[0].gap[:, 1].max()])
        assert (rough.certificate >= -solution.value - gap - 1e-9).all()


def test_unsafe_is_everywhere_alike_where_the_blueprint_never_comes() -> None:
    tree = small("two ways off")
    uniform = jg.Policy.uniform(tree)
    names = [tree.game.action_string(0, action) for action in tree.infosets[0].action[1:]]
    infoset = tree.infosets[0].infoset[1:]
    passive = np.array([[float(name == "Call")] for name in names])
    total = np.bincount(infoset, passive[:, 0])[infoset]
    passive = np.where(total[:, None] > 0, passive, uniform.probabilities[0])
    never_bets = jg.Policy(tree, (passive, uniform.probabilities[1]), ("never bets",))
    found = jg.nested_off_tree(tree, never_bets, jg.Unsafe(), player=1, method="expensive", algorithm="lp")
    assert found.levels[0].has_decision.all()
    assert (
        found.certificate
        > guaranteed(jg.translate(never_bets, whole("two ways off")), whole("two ways off"), 1)
    ).all()
