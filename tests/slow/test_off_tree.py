"""Answers to actions off the menu: larger games, both players, ranking of methods; spreads, interrupts."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from typing import Any

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget.core import driver
from jaxgadget.gadgets.ranges import Ranges
from jaxgadget.games.leduc.no_limit import NoLimitLeduc
from jaxgadget.games.menu import MenuAbstraction
from jaxgadget.policy.exact import solve_exactly
from tests.solving import nested_off_tree, settings
from tests.subgames.test_off_tree import (
    POT,
    assert_certified,
    assert_safe,
    guaranteed,
    one_way_off,
    small,
    whole,
)

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
def test_the_certificate_is_the_guaranteed_value_in_the_whole_game(
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
        (("Bet 1", "AllIn"), 0, 5),
        (("Bet 1/2", "Bet 1", "AllIn"), 1, 5),
    ],
)
def test_translation_is_many_times_worse_than_nested_solving(
    names: tuple[str, ...], player: int, least: float
) -> None:
    """Measured with CFR+ 300: pseudo-harmonic, linear, nearest; resolving, with a uniform prior, max-margin.

    Pot and all-in, player 1: .4717, .5074, .5343; .0127, .0110, .0138. Player 0: .2989, .3178, .3321; .0294,
    .0409, .0457. With 1/2, player 1: .0811, .1210, .1888; .0066, .0066, .0089.
    """
    tree, solution = coarse(names), exact(leduc())
    asked: dict[str, Any] = {"player": player, "algorithm": "lp", "value": (solution.value, solution.value)}
    blueprint = jg.make_blueprints(tree, ["cfr+:300"])
    gadgets = [jg.Resolving(jg.NoPrior()), jg.Resolving(jg.UniformPrior()), jg.MaxMargin(jg.NoPrior())]
    translated = [
        jg.translate_off_tree(tree, blueprint, rule, **settings(**asked)).exploitability[0]
        for rule in ("pseudo-harmonic", "linear", "nearest")
    ]
    found = nested_off_tree(tree, blueprint, gadgets, **settings(**asked))
    assert min(translated) > least * found.exploitability.max() > 0
    assert translated == sorted(translated)
    own = blueprint.probabilities[player]
    rows = jg.lift(found.policy, tree).probabilities[player]
    np.testing.assert_allclose(rows, np.tile(own, len(gadgets)), atol=1e-12)


def test_by_cfr_relation_1_holds_but_for_the_gap() -> None:
    tree, menu_tree, _ = one_way_off()
    solution = solve_exactly(tree)
    values = jg.AbstractValues(solution.policy)
    gadgets = [make(jg.NoPrior(), alternative=values) for make in (jg.Resolving, jg.MaxMargin)]
    blueprint = jg.lift(solution.policy, menu_tree)
    for iterations in (5, 50, 500):
        rough = nested_off_tree(
            menu_tree,
            blueprint,
            gadgets,
            player=1,
            levels=1,
            solver=jg.Solver(iterations=iterations, dtype="float64"),
        )
        gap = np.array([rough.levels[0].gap[:, 0].sum(), rough.levels[0].gap[:, 1].max()])
        assert (rough.certificate >= -solution.value - gap - 1e-9).all()


class Killed(BaseException):
    """Terminates a solve midway."""


def test_an_interrupted_solve_resumes_to_the_same_result(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after checkpoints of level 2, a solve reaches the same result and repeats no finished work."""
    method = "expensive"
    folder = tmp_path / "kept"
    tree = jg.enumerate_game(small("two ways off").game)
    deeper = MenuAbstraction(whole("two ways off").game, {0: POT, 1: POT}, off_tree=2, off_tree_player=0)
    size = jg.enumerate_game(deeper).num_histories  # the whole game is not evaluated
    policy, gadget = jg.Policy.dirichlet(tree, 3), jg.MaxMargin(jg.NoPrior())
    asked: dict[str, Any] = {"player": 1, "method": method, "iterations": 20, "max_histories": size}
    undisturbed = nested_off_tree(tree, policy, gadget, **settings(**asked))
    assert len(undisturbed.levels) == 2
    saved: list[pathlib.Path] = []
    kills: list[pathlib.Path] = []
    save = driver.save_checkpoint

    def killing(path: pathlib.Path, key: str, state: Any, **more: Any) -> None:
        save(path, key, state, **more)
        saved.append(path)
        if "level-2" in str(path) and len(kills) < 3:
            kills.append(path)
            raise Killed

    monkeypatch.setattr(driver, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(driver, "CHECKPOINT_SHARE", 0)
    monkeypatch.setattr(driver, "save_checkpoint", killing)
    for _ in range(3):
        with pytest.raises(Killed):
            nested_off_tree(tree, policy, gadget, **settings(checkpoint=folder, **asked))
    first = [path for path in saved if "level-1" in str(path)]
    resumed = nested_off_tree(tree, policy, gadget, **settings(checkpoint=folder, **asked))
    again = [path for path in saved if "level-1" in str(path)]
    assert len(again) == len(first) + len(undisturbed.levels[0].forests)  # once more each
    np.testing.assert_array_equal(resumed.certificate, undisturbed.certificate)
    for mine, its in zip(resumed.policy.probabilities, undisturbed.policy.probabilities, strict=True):
        np.testing.assert_array_equal(mine, its)
    with pytest.raises(ValueError, match="of another"):
        nested_off_tree(tree, jg.Policy.dirichlet(tree, 4), gadget, **settings(checkpoint=folder, **asked))


def test_a_spread_is_how_far_values_are_from_a_best_response_to_translation() -> None:
    """Per root, in the game in which the opponent has all actions; in a lane beside one without spread."""
    tree, larger = small("two ways off"), whole("two ways off")
    policy = jg.Policy.dirichlet(tree, 3)
    seen: list[tuple[Any, Any]] = []

    @dataclasses.dataclass(frozen=True)
    class Recording(jg.Resolving):
        def tables(self, ranges: Ranges) -> Any:
            tables = super().tables(ranges)
            seen.append((tables.leave.earns[:, 0], tables.leave.spread[:, 0]))
            return tables

    asked = [Recording(jg.NoPrior(), spread="best-response"), jg.Resolving(jg.NoPrior())]
    found = nested_off_tree(
        tree,
        policy,
        asked,
        player=1,
        levels=1,
        solver=jg.Solver(iterations=100, dtype="float64"),
        value=(0.0, 0.0),
    )
    np.testing.assert_allclose(found.certificate, guaranteed(found.policy, found.policy.tree, 1), atol=1e-9)
    assert found.table.spread[0] == "best-response" and found.table.spread.isna()[1]
    assert found.table.gap_max.max() < 0.1
    assert np.ptp(found.policy.probabilities[1], axis=1).max() > 0.1
    kept = jg.enumerate_game(MenuAbstraction(larger.game, {1: POT}))
    best = jg.best_response(jg.translate(policy, kept), 0).action_values[:, 0]
    (forest,) = found.levels[0].forests
    names, own = forest.tree.infoset_names[0], kept.infosets[0]
    ((earns, spread),) = seen
    for root, sequence in enumerate(forest.roots[0].sequence.tolist()):
        infosets = forest.tree.infosets[0]
        infoset = kept.infoset_names[0].index(names[infosets.infoset[sequence]])
        first = int(own.first_sequence[infoset])
        row = first - 1 + own.action[first:].tolist().index(infosets.action[sequence])
        assert spread[root] == pytest.approx(abs(earns[root] - best[row]), abs=1e-12)
    assert spread.max() > 0.01
