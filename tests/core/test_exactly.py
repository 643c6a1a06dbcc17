"""Gadgets by linear programs: published optima, and the distance of CFR+ from them, within its gap."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import jaxgadget
from jaxgadget import (
    ArrayPrior,
    BlueprintPrior,
    Full,
    MaxMargin,
    NoPrior,
    OptimalContinuation,
    Policy,
    ReachMaxMargin,
    ReachResolving,
    Resolving,
    UniformPrior,
)
from jaxgadget.subgames.refine import default_gadgets
from jaxgadget.util.arrays import FloatArray
from tests.core import grove
from tests.reference import efg, gadgets, lp
from tests.solving import settings
from tests.subgames.test_refine import CUTS, GADGETS, QUICK, RATIO, REFERENCE
from tests.trees import tree_of

GROUPS: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
VALUES: dict[str, float] = {}
for _game in REFERENCE:
    VALUES[_game["game"]] = _game["value_player0"]
    for _case in _game["cases"]:
        GROUPS.setdefault((_game["game"], _game["cut"], _case["resolving_player"]), []).append(_case)
EXACT = 1e-6
GOOFSPIEL = "goofspiel(imp_info=True,num_cards=4,points_order=descending)"


def summaries(values: FloatArray) -> list[float]:
    return [float(summary(values)) for summary in (np.sum, np.min, np.max)]


@pytest.mark.parametrize(("game", "where", "player"), QUICK)
@pytest.mark.slow
def test_published_optima(game: str, where: str, player: int) -> None:
    check_published_optima(game, where, player)  # other games: tests/slow


def check_published_optima(game: str, where: str, player: int) -> None:
    """Every unique number of `subgames.json`, to within 1e-6."""
    cases, tree, value = GROUPS[game, where, player], tree_of(game), VALUES[game]
    blueprints = Policy.stack([Policy.geometric(tree, RATIO[case["blueprint"]]) for case in cases])
    asked = (*default_gadgets(), OptimalContinuation(NoPrior()))
    result = jaxgadget.refine(
        tree, CUTS[where], blueprints, asked, player=player, algorithm="lp", value=(value, value)
    )
    assert np.nanmax(np.abs(result.gap)) < 1e-7
    for number, case in enumerate(cases):
        for kind, name in enumerate(GADGETS):
            lane = kind * len(cases) + number
            published = [case[name][f"gadget_value_{what}"] for what in ("sum_over_subgames", "min", "max")]
            assert summaries(result.gadget_value[:, lane]) == pytest.approx(published, abs=EXACT), name
            bound = result.exploitability_bound[lane]
            assert name == "unsafe" or result.refined_exploitability[lane] <= bound + EXACT
        lane = len(GADGETS) * len(cases) + number
        floor = case["optimal_continuation_exploitability"]
        assert result.refined_exploitability[lane] == pytest.approx(floor, abs=EXACT)
        assert value * (1, -1)[player] - result.gadget_value[0, lane] == pytest.approx(floor, abs=EXACT)


def test_auto_finds_an_epsilon_that_changes_no_optimum() -> None:
    """The value is the unperturbed optimum, and no exploitability rises."""
    tree = tree_of("kuhn_poker")
    kinds = (Resolving, MaxMargin, ReachResolving, Full, OptimalContinuation)
    blueprints = Policy.stack([Policy.geometric(tree, ratio) for ratio in (1, 0.5, 0.05)])
    asked = [kind(BlueprintPrior(), "auto") for kind in kinds] + [kind(NoPrior()) for kind in kinds]
    result = jaxgadget.refine(tree, "depth:1", blueprints, asked, algorithm="lp", value=(-1 / 18, -1 / 18))
    half = len(kinds) * 3
    np.testing.assert_allclose(result.gadget_value[:, :half], result.gadget_value[:, half:], atol=1e-9)
    assert ((result.epsilon[:half] > 0) & (result.epsilon[:half] <= 1e-3)).all()
    assert (result.epsilon[half:] == 0).all()
    assert result.table["epsilon"].tolist() == result.epsilon.tolist()
    known = ~np.isnan(result.exploitability_bound)
    rise = result.refined_exploitability - result.blueprint_exploitability
    assert (rise[known] <= 1e-9).all()


def test_settings_without_a_linear_program() -> None:
    tree = tree_of("kuhn_poker")
    blueprint = Policy.uniform(tree)
    cases: list[dict[str, Any]] = [{"target_gap": 0.1}, {"checkpoint": "somewhere"}]
    for wrong in cases:
        with pytest.raises(ValueError, match="algorithm="):
            jaxgadget.refine(tree, "depth:1", blueprint, **settings(algorithm="lp", **wrong))
    with pytest.raises(ValueError, match="epsilon="):
        jaxgadget.refine(tree, "depth:1", blueprint, Resolving(epsilon="auto"))


# Rare roots and small floors


def rarely(off: float) -> Policy:
    """Player 0 of Kuhn poker passes with a Jack, and almost never with another card."""
    tree = tree_of("kuhn_poker")
    first, second = (rows.copy() for rows in Policy.dirichlet(tree, seed=3).probabilities)
    infosets = tree.infosets[0]
    for name, passes in (("0", 1.0), ("1", off), ("2", off)):
        row = int(infosets.first_sequence[tree.infoset_names[0].index(name)]) - 1
        first[row : row + 2, 0] = [passes, 1 - passes]
    return Policy(tree, (first, second), (f"{off:g}",))


def test_a_rare_root_counts_in_full_where_margins_are_divided_by_its_reach() -> None:
    """Its row of the program's solution is used: the strategy has the optimum of the definition."""
    asked = [MaxMargin(NoPrior()), MaxMargin(UniformPrior(), "auto"), ReachMaxMargin(NoPrior())]
    blueprint = Policy.stack([rarely(off) for off in (1e-8, 1e-10, 1e-13)])
    result = jaxgadget.refine(
        blueprint.tree, "depth:1", blueprint, asked, algorithm="lp", value=(-1 / 18, -1 / 18)
    )
    assert np.abs(result.gap).max() < 1e-9
    game, where = efg.from_tree(blueprint.tree), result.forest.cut
    roots = [where.roots[where.subgame == k].tolist() for k in (0, 1)]
    for lane, label in enumerate(blueprint.labels):
        parts = gadgets.subgames(game, roots, 0, grove.from_policy(blueprint, lane))
        for number, subgame in enumerate(parts):
            optimum = lp.solve(gadgets.build("max-margin", subgame).root, 0).value
            assert result.gadget_value[number, lane] == pytest.approx(optimum, abs=1e-7), label


@pytest.mark.parametrize("epsilon", ["auto", 1e-3])
def test_a_tiny_floor_of_termination_is_solved(epsilon: Any) -> None:
    """With a range close to one hand, follow has prior 1 − 2e-11, and terminate a floor of 2e-14."""
    blueprint = rarely(1e-11)
    tree, gadget = blueprint.tree, Resolving(BlueprintPrior(), epsilon)
    result = jaxgadget.refine(
        tree, "depth:1", blueprint, gadget, player=1, algorithm="lp", value=(-1 / 18, -1 / 18)
    )
    assert result.failures == {}
    game, where = efg.from_tree(tree), result.forest.cut
    roots = [where.roots[where.subgame == k].tolist() for k in (0, 1)]
    played = 0.0 if epsilon == "auto" else epsilon
    for number, subgame in enumerate(gadgets.subgames(game, roots, 1, grove.from_policy(blueprint, 0))):
        built = gadgets.build("resolving", subgame, "blueprint", played)
        optimum = lp.solve(built.root, 1, built.floors).value
        assert result.gadget_value[number, 0] == pytest.approx(optimum, abs=1e-8)


@pytest.mark.slow
def test_an_ordinary_approximate_equilibrium_is_refined_exactly() -> None:
    """After 20,000 iterations of CFR+ many reaches lie between 1e-14 and 1e-8."""
    tree = tree_of(GOOFSPIEL)
    blueprint = jaxgadget.solve(tree, iterations=20_000).policy
    asked = [MaxMargin(), MaxMargin(UniformPrior()), ReachMaxMargin(), MaxMargin(epsilon="auto")]
    for player in (0, 1):
        reach = blueprint.reach(player)
        assert ((1e-14 < reach) & (reach < 1e-8)).sum() >= 20
        result = jaxgadget.refine(
            tree, "depth:2", blueprint, asked, player=player, algorithm="lp", value=(0.0, 0.0)
        )
        assert np.abs(result.gap).max() < 1e-8
        assert (result.refined_exploitability <= result.exploitability_bound + 1e-8).all()


@pytest.mark.parametrize("share", [1e-2, 1e-6])
@pytest.mark.parametrize("epsilon", ["auto", 1e-3, 1e-5])
def test_small_floors_still_choose_the_equilibrium(share: float, epsilon: Any) -> None:
    """Figure 1 of the refinement paper: in every perturbed equilibrium player 0 never forfeits."""
    tree = tree_of("matching_pennies_forfeit")
    uniform = Policy.uniform(tree)
    rows = np.array([[0.5], [0.5], [0.0]])
    blueprint = Policy(tree, (rows, uniform.probabilities[1]), ("half",))
    gadget = Resolving(ArrayPrior(np.array([share, share])), epsilon)
    how: dict[str, Any] = {"algorithm": "lp", "value": (0.5, 0.5)}
    result = jaxgadget.refine(tree, "subgame", blueprint, gadget, **settings(**how))
    assert result.policy.probabilities[0][0, 0] == pytest.approx(0, abs=1e-12)


def test_floors_too_small_for_the_solver_are_refused() -> None:
    tree = tree_of("kuhn_poker")
    gadget = Resolving(ArrayPrior(np.full(6, 1e-9)), 1e-5)
    refined = jaxgadget.refine(tree, "depth:1", Policy.uniform(tree), gadget, algorithm="lp")
    assert re.search(r"floors of player 1 .* are as small as 1\.0e-14: HiGHS drops", refined.failures[0])
    assert np.isnan(refined.refined_exploitability).all()


def test_a_time_limit_that_runs_out_names_the_program() -> None:
    tree = tree_of("kuhn_poker")
    how: dict[str, Any] = {"algorithm": "lp", "time_limit": 1e-9}
    refined = jaxgadget.refine(tree, "depth:1", Policy.uniform(tree), Resolving(), **settings(**how))
    assert re.search(r"resolving, .* after blueprint 'uniform'.*'Time limit reached'", refined.failures[0])
    assert np.isnan(refined.refined_exploitability).all()
    assert refined.game_value[0] <= -1 / 18 <= refined.game_value[1]
    with pytest.raises(ValueError, match="Time limit"):
        jaxgadget.solve(tree, solver=jaxgadget.Solver(algorithm="lp", time_limit=1e-9))
    with pytest.raises(ValueError, match="time_limit="):
        jaxgadget.solve(tree, solver=jaxgadget.Solver(algorithm="lp", time_limit=-1))
