"""Depth-limited subgames: their payoffs, their values, and what must hold of every portfolio."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from jaxgadget import (
    BlueprintPrior,
    Full,
    HistoryTree,
    MaxMargin,
    NoPrior,
    Policy,
    Resolving,
    Unsafe,
    cut,
    enumerate_game,
    evaluate_policy,
    game_value,
    load,
    nash_conv,
    refine,
    solve,
)
from jaxgadget.search.limited import Search, search
from jaxgadget.search.lookahead import build_lookahead, limit_at_decisions, limit_by_depth
from jaxgadget.search.solving import Profile, find_ranges, prepare, root_reach
from jaxgadget.search.value import ExactValues, OwnValues

GOOFSPIEL = "goofspiel(num_cards=4,imp_info=True,points_order=descending)"
ROUNDING = 1e-12


@functools.cache
def game(name: str) -> HistoryTree:
    return enumerate_game(load(name))


def draws(tree: HistoryTree, *seeds: int) -> Policy:
    return Policy.stack([Policy.dirichlet(tree, seed) for seed in seeds])


def halves(first: Policy, second: Policy) -> Policy:
    """Player 0's entries of one portfolio, player 1's of the other."""
    return Policy(first.tree, (first.probabilities[0], second.probabilities[1]), first.labels)


@functools.cache
def equilibrium(name: str) -> Policy:
    return solve(game(name), algorithm="pcfr+", iterations=1500).policy


def limited_value(tree: HistoryTree, leaves: Any, values: Any, policy: Policy, choice: Any) -> float:
    """Player 0's value of a profile, by recursion from the root down to the leaves."""
    row = {int(h): i for i, h in enumerate(leaves)}
    children: dict[int, list[int]] = {}
    for h in range(1, tree.num_histories):
        children.setdefault(int(tree.parent[h]), []).append(h)

    def value(h: int) -> float:
        if h in row:
            mix = [choice[p][int(tree.infostate[p, h])] for p in (0, 1)]
            return float(mix[0] @ values[row[h]] @ mix[1])
        if h not in children:
            return float(tree.payoff[h])
        total = 0.0
        for child in children[h]:
            weight = tree.chance[child] / tree.chance[h]
            for p in (0, 1):
                if tree.action[p, child] >= 0:
                    weight *= policy.probabilities[p][tree.sequence[p, child] - 1, 0]
            total += weight * value(child)
        return total

    return value(0)


@pytest.mark.parametrize(("name", "depth"), [("kuhn_poker", 1), ("kuhn_poker", 2), (GOOFSPIEL, 2)])
def test_the_payoff_is_that_of_an_explicit_recursion(name: str, depth: int) -> None:
    tree, rng = game(name), np.random.default_rng(0)
    where = cut(tree, "depth:0")
    leaves = limit_by_depth(tree, where, depth)
    portfolio = draws(tree, 1, 2, 3)
    values = ExactValues(portfolio)(tree, leaves)
    look = build_lookahead(where, leaves, 3)
    payoff = look.forest(values).form.payoff
    for seed in (7, 8):
        policy = Policy.dirichlet(tree, seed)
        choice = [{int(s): rng.dirichlet(np.ones(3)) for s in states} for states in look.states]
        plans = []
        for p in (0, 1):
            limit = np.array([choice[p][int(s)] for s in look.states[p]]).reshape(-1)
            rows = np.append(policy.probabilities[p][:, 0], limit)
            treeplex, places = look.treeplex[p], look.places(p)
            plan = np.ones(treeplex.num_sequences)
            for q, infoset in enumerate(treeplex.sequence_infoset.tolist()):  # levels from above
                above = plan[treeplex.parent[infoset]]
                plan[treeplex.num_roots + q] = above * (rows[places[q]] if places[q] >= 0 else 0)
            plans.append(plan)
        found = float(plans[0][payoff.row] @ (payoff.value * plans[1][payoff.column]))
        assert found == pytest.approx(limited_value(tree, leaves, values, policy, choice), abs=ROUNDING)


@pytest.mark.parametrize(
    ("name", "depth"),
    [("kuhn_poker", 1), ("kuhn_poker", 2), (GOOFSPIEL, 1), (GOOFSPIEL, 2)],
)
def test_with_an_equilibrium_in_both_portfolios_the_value_is_the_games(name: str, depth: int) -> None:
    """And without it in one of them it is not; the two players' portfolios differ."""
    tree, solved = game(name), equilibrium(name)
    low, high = game_value(tree)
    poor, other = draws(tree, 0, 1, 2), draws(tree, 5, 6, 7)
    second = halves(other, Policy.stack([solved, draws(tree, 6, 7)]))
    with_it = halves(Policy.stack([draws(tree, 0, 1), solved]), second)
    found = limited(tree, with_it, depth)
    slack = float(found.gap.sum()) + float(nash_conv(solved)[0]) + (high - low)
    assert found.gap.sum() < 5e-3 * tree.payoff_range, "the gap says something"
    assert abs(float(found.gadget_value.sum()) - (low + high) / 2) <= slack
    without = limited(tree, halves(poor, second), depth)
    assert abs(float(without.gadget_value.sum()) - (low + high) / 2) > slack + without.gap.sum()


def limited(tree: HistoryTree, portfolio: Policy, depth: int) -> Search:
    how: dict[str, Any] = {"depth": depth, "iterations": 1000, "dtype": "float64"}
    return search(tree, "depth:0", Policy.uniform(tree), Unsafe(), values=ExactValues(portfolio), **how)


def test_one_entry_is_the_blueprint() -> None:
    """With K = 1 every leaf is worth what the blueprint makes of it, and so is the blueprint's trunk."""
    tree = game("kuhn_poker")
    blueprint = Policy.dirichlet(tree, 3)
    found = search(tree, "depth:0", blueprint, values=ExactValues(blueprint), depth=1, iterations=1)
    (values,) = found.values
    choice = [{int(s): np.ones(1) for s in states} for states in found.lookahead.states]
    value = limited_value(tree, found.lookahead.leaves, values, blueprint, choice)
    assert value == pytest.approx(float(evaluate_policy(blueprint).value[0]), abs=ROUNDING)


@pytest.mark.parametrize("player", (0, 1))
def test_beyond_the_end_it_is_the_ordinary_subgame(player: int) -> None:
    tree = game(GOOFSPIEL)
    blueprint = Policy.dirichlet(tree, 0)
    gadgets = [Unsafe(), Resolving(NoPrior()), MaxMargin(BlueprintPrior(), 0.01)]
    how: dict[str, Any] = {"player": player, "iterations": 5, "dtype": "float64"}
    found = search(tree, "depth:1", blueprint, gadgets, values=ExactValues(blueprint), depth=99, **how)
    assert len(found.lookahead.leaves) == 0
    whole = refine(tree, "depth:1", blueprint, gadgets, value=(0.0, 0.0), **how)
    np.testing.assert_allclose(found.gadget_value, whole.gadget_value, rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(found.gap, whole.gap, rtol=0, atol=ROUNDING)
    np.testing.assert_array_equal(found.live, whole.live)
    rows = found.policy.probabilities[player], whole.policy.probabilities[player]
    np.testing.assert_allclose(*rows, rtol=0, atol=ROUNDING)
    assert found.table["exploitability_bound"].isna().all(), "a depth limit has no bound"


def test_alternative_values_are_best_responses_down_to_the_limit() -> None:
    """`V̄(s)` is the least over what the opponent may do, entry included; ranges are the blueprint's."""
    tree = game("kuhn_poker")
    blueprint = Policy.dirichlet(tree, 0)
    values = ExactValues(Policy.stack([blueprint, draws(tree, 1, 2)]))
    where = cut(tree, "depth:1")
    leaves = limit_by_depth(tree, where, 1)
    look = build_lookahead(where, leaves, 3)
    table = values(tree, leaves)
    profile = Profile.of_blueprint(look, blueprint)
    ranges = find_ranges(prepare(look, table, 0), profile, root_reach(look, blueprint))
    row = {int(h): i for i, h in enumerate(leaves)}
    children = {h: np.nonzero(tree.parent == h)[0][int(h == 0) :].tolist() for h in where.roots.tolist()}
    reach = blueprint.reach(0)
    seen = 0
    for number, state in enumerate(look.roots[1].infostate.tolist()):
        histories = [h for h in where.roots.tolist() if tree.infostate[1, h] == state]
        weights = [tree.chance[h] * reach[tree.sequence[0, h], 0] for h in histories]
        options: list[float] = []
        for action in (0, 1):  # then the action ends the game, or leads to a leaf where 1 chooses an entry
            after = [children[h][action] for h in histories]
            if after[0] in row:
                by_entry = sum(w * table[row[h], 0] for w, h in zip(weights, after, strict=True))
                options.append(float(by_entry.min()))
            else:
                options.append(float(sum(w * tree.payoff[h] for w, h in zip(weights, after, strict=True))))
            seen += after[0] in row
        assert float(ranges.cbv[number, 0]) == pytest.approx(min(options), abs=ROUNDING)
        assert float(ranges.mass[number, 0]) == pytest.approx(sum(weights), abs=ROUNDING)
    assert 0 < seen < 2 * len(look.roots[1])


def test_limits() -> None:
    tree = game("leduc_poker")
    where = cut(tree, "depth:0")
    for depth in (1, 3):
        assert limit_by_depth(tree, where, depth).tolist() == cut(tree, f"depth:{depth}").roots.tolist()
    leaves = limit_at_decisions(tree, where, 1, 0)
    assert (tree.infoset[0, leaves] >= 0).all() and (tree.num_moves[leaves] >= 2).all()
    assert len(limit_by_depth(tree, where, 99)) == 0


def test_bad_input() -> None:
    tree = game("kuhn_poker")
    blueprint = Policy.uniform(tree)
    exact = ExactValues(blueprint)
    bad: list[tuple[dict[str, Any], str]] = [
        ({"depth": 0}, "depth=0: expected a whole number of moves >= 1"),
        ({"depth": 1.5}, "depth=1.5"),
        ({"values": [exact, exact]}, "2 value functions for 1 blueprints"),
        ({"values": ExactValues}, "expected a value function"),
        ({"values": OwnValues(lambda t, h: np.full((len(h), 2, 2), np.nan), 2)}, "history"),
        ({"values": OwnValues(lambda t, h: np.zeros((len(h), 3, 2)), 2)}, "shape"),
        ({"values": ExactValues(Policy.uniform(game(GOOFSPIEL)))}, "goofspiel"),
        ({"gadgets": Full()}, "gadget 'full' needs trunk"),
        ({"algorithm": "lp"}, "lp"),
        ({"player": 2}, "player=2"),
    ]
    for options, message in bad:
        how: dict[str, Any] = {"values": exact, "gadgets": Unsafe(), "iterations": 2} | options
        with pytest.raises(ValueError, match=message):
            search(tree, "depth:0", blueprint, how.pop("gadgets"), **how)
