"""Nested search: safety, one step from the previous one, dependence on public history only."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from jaxgadget import (
    BlueprintPrior,
    HistoryTree,
    MaxMargin,
    NoPrior,
    Policy,
    Resolving,
    SearchPlayer,
    Unsafe,
    cut,
    exploitability,
    solve,
)
from jaxgadget.core.solver import Solver
from jaxgadget.gadgets.structure import build_structure
from jaxgadget.subgames.depth_limited import search
from jaxgadget.subgames.leaves import HistoryLeaf
from jaxgadget.subgames.limits import limit_at_decisions
from jaxgadget.subgames.nested import Nested
from jaxgadget.subgames.nested_run import NestedRun
from jaxgadget.subgames.schedule import decisions, make_schedule
from jaxgadget.tree.forest import build_forest
from jaxgadget.values.histories import ExactValues, OwnValues
from tests.solving import nested_search, settings
from tests.trees import tree_of

KUHN_VALUE = (-1 / 18, -1 / 18)
GOOFSPIEL = "goofspiel(num_cards=3,imp_info=True,points_order=descending)"


def portfolio(tree: HistoryTree, blueprint: Policy) -> Policy:
    return Policy.stack([blueprint, *(Policy.dirichlet(tree, seed) for seed in (11, 12))])


def nested(tree: HistoryTree, blueprint: Policy, gadgets: Any, **options: Any) -> Nested:
    values = ExactValues(portfolio(tree, blueprint.lane(0)))
    how: dict[str, Any] = {"values": values, "iterations": 600, "dtype": "float64"} | options
    return nested_search(tree, blueprint, gadgets, **settings(**how))


@pytest.mark.parametrize(("name", "depth"), [("kuhn_poker", 9), (GOOFSPIEL, 9)])
def test_without_a_limit_safe_gadgets_keep_the_first_search_optimal(name: str, depth: int) -> None:
    """Player 0's first search is then the whole game; resolving later subgames loses at most the gaps."""
    tree = tree_of(name)
    found = nested(tree, Policy.dirichlet(tree, 0), [Resolving(NoPrior()), MaxMargin(NoPrior())], depth=depth)
    assert found.blueprint_exploitability.min() > 0.3, "there is something to win"
    assert (found.nested_exploitability <= found.searches * found.gap_max).all()
    assert found.nested_exploitability.max() < 0.05


@pytest.mark.parametrize("player", (0, 1))
@pytest.mark.slow
def test_an_equilibrium_among_the_entries_makes_search_good(player: int) -> None:
    tree = tree_of("kuhn_poker")
    blueprint = Policy.dirichlet(tree, 0)
    solved = solve(tree, algorithm="pcfr+", iterations=1000).policy
    entries = Policy.stack([blueprint, solved])
    gadget = Resolving(BlueprintPrior(), 1e-3)
    good = nested(tree, blueprint, gadget, values=ExactValues(entries), player=player, value=KUHN_VALUE)
    assert good.nested_exploitability[0] < 0.5 * good.blueprint_exploitability[0]
    (row,) = good.table.to_dict("records")
    assert row["k"] == 2 and row["depth"] == 1 and row["leaf"] == "exact" and row["player"] == player
    assert row["searches"] > 0 and row["gap_max"] < 0.05
    expected = exploitability(good.policy, player, value=KUHN_VALUE)
    np.testing.assert_allclose(good.nested_exploitability, expected, atol=1e-12)


def test_only_own_decisions_that_are_reached_change() -> None:
    tree = tree_of("kuhn_poker")
    rows = Policy.dirichlet(tree, 0)

    def never_bets(player: int, infoset: int, count: int) -> Any:
        return np.eye(count)[0] if player == 0 else rows.probabilities[1][2 * infoset : 2 * infoset + 2, 0]

    blueprint = Policy.from_function(tree, never_bets, "never bets")
    for player in (0, 1):
        found = nested(tree, blueprint, Resolving(NoPrior()), player=player, value=KUHN_VALUE)
        other = found.policy.probabilities[1 - player]
        np.testing.assert_array_equal(other, blueprint.probabilities[1 - player])
        reach = found.policy.reach(player)[tree.infosets[player].parent][:, 0]
        kept = (reach == 0)[tree.infosets[player].infoset[1:]]
        mine, before = found.policy.probabilities[player], blueprint.probabilities[player]
        np.testing.assert_array_equal(mine[kept], before[kept])
        assert np.abs(mine - before)[~kept].max() > 0.1


def test_first_search_is_that_of_the_public_history_alone() -> None:
    """The first decisions equal those of `search`, independently of other lanes and later levels."""
    tree = tree_of("kuhn_poker")
    blueprint = Policy.dirichlet(tree, 0)
    gadgets = [Resolving(NoPrior()), MaxMargin(BlueprintPrior(), 0.01)]
    values = ExactValues(portfolio(tree, blueprint))
    how: dict[str, Any] = {"values": values, "iterations": 5, "dtype": "float64", "player": 1}
    first = decisions(tree, 1)[0].cut(tree)
    found = nested_search(tree, blueprint, gadgets, value=KUHN_VALUE, **settings(**how))
    # Player 1 decides once: its lookahead reaches the end.
    alone = [search(tree, first, blueprint, gadget, depth=9, **settings(**how)) for gadget in gadgets]
    infosets = np.nonzero(tree.infosets[1].depth == 0)[0]
    rows = np.isin(tree.infosets[1].infoset[1:], infosets)
    for lane, one in enumerate(alone):
        np.testing.assert_allclose(
            found.policy.probabilities[1][rows, lane], one.policy.probabilities[1][rows, 0], atol=1e-12
        )


def test_the_next_search_starts_from_the_one_before() -> None:
    """At a limit `V̄(s)` is the minimum over the opponent's entries against the average mixture."""
    tree = tree_of("kuhn_poker")
    blueprint = Policy.dirichlet(tree, 0)
    values = ExactValues(portfolio(tree, blueprint))
    options = Solver(algorithm="cfr+", iterations=50, dtype="float64")
    gadgets = (Unsafe(), Resolving(NoPrior()))
    schedule = make_schedule(tree, 0, 1)
    run = NestedRun(schedule, HistoryLeaf(values), blueprint, gadgets, solver=options, visits=True)
    first, second = (level.cut(tree) for level in decisions(tree, 0))
    above = run.search(0, first, None, lambda done: None)
    leaves, table = above.leaves, above.payoffs
    assert leaves.tolist() == second.roots.tolist(), "the next roots are the leaves"
    lookahead = build_forest(tree, second, limit=limit_at_decisions(tree, second, 1, 0), num_choices=3)
    structure = build_structure(lookahead.with_values(np.zeros((0, 3, 3))), 0)
    ranges = run.find_ranges(structure, above, above.plan)
    own, theirs = run.assembled.reach(0), run.assembled.reach(1)
    assert np.abs(own - blueprint.reach(0)).max() > 0.1 and np.abs(theirs - blueprint.reach(1)).max() > 0.1
    for number, state in enumerate(lookahead.roots[1].infostate.tolist()):
        for lane in (0, 1):
            by_entry, mass = np.zeros(3), 0.0
            for row, h in enumerate(leaves.tolist()):
                if tree.infostate[1, h] != state:
                    continue
                mine = np.searchsorted(above.plan.states[0], tree.infostate[0, h])
                weight = float(tree.chance[h] * own[tree.sequence[0, h], lane])
                by_entry += weight * above.plan.choice[0][mine, :, lane] @ table[row]
                mass += weight
            assert float(ranges.cbv[number, lane]) == pytest.approx(by_entry.min(), abs=1e-12)
            assert float(ranges.mass[number, lane]) == pytest.approx(mass, abs=1e-12)
            sequence = lookahead.roots[1].sequence[number]
            assert float(ranges.opponent[number, lane]) == pytest.approx(theirs[sequence, lane], abs=1e-12)


@pytest.mark.slow
def test_unsafe_first_where_the_opponent_has_not_acted() -> None:
    """The first decisions are then equal under every gadget, namely those of the unsafe search."""
    tree = tree_of("kuhn_poker")
    blueprint = Policy.dirichlet(tree, 0)
    gadgets = [Unsafe(), Resolving(NoPrior()), MaxMargin(NoPrior())]
    found = nested(tree, blueprint, gadgets, value=KUHN_VALUE)
    first = tree.infosets[0].depth[tree.infosets[0].infoset[1:]] == 0
    rows = found.policy.probabilities[0][first]
    np.testing.assert_array_equal(rows, np.repeat(rows[:, :1], 3, axis=1))
    second = nested(tree, blueprint, gadgets, value=KUHN_VALUE, player=1).policy.probabilities[1]
    assert np.abs(second - second[:, :1]).max() > 0.01, "elsewhere gadgets differ"


def test_lanes_run_over_gadgets_then_blueprints() -> None:
    tree = tree_of("kuhn_poker")
    profiles = Policy.stack([Policy.dirichlet(tree, 0), Policy.dirichlet(tree, 1)])
    values = [ExactValues(portfolio(tree, profiles.lane(lane))) for lane in (0, 1)]
    gadgets = [Unsafe(), Resolving(NoPrior())]
    how: dict[str, Any] = {"iterations": 5, "dtype": "float64", "value": KUHN_VALUE}
    both = nested_search(tree, profiles, gadgets, values=values, player=1, **settings(**how))
    for lane in (0, 1):
        one = nested_search(
            tree, profiles.lane(lane), gadgets, values=values[lane], player=1, **settings(**how)
        )
        for what in ("nested_exploitability", "blueprint_exploitability", "gap_max", "searches"):
            np.testing.assert_allclose(getattr(both, what)[lane::2], getattr(one, what), atol=1e-12)
        mine = both.policy.probabilities[1][:, lane::2]
        np.testing.assert_allclose(mine, one.policy.probabilities[1], atol=1e-12)
    assert both.table["blueprint"].tolist() == ["dirichlet:0", "dirichlet:1"] * 2


def test_decisions_are_cuts() -> None:
    for name in ("kuhn_poker", "leduc_poker", GOOFSPIEL):
        tree = tree_of(name)
        for player in (0, 1):
            for number, where in enumerate(decisions(tree, player)):
                infosets = tree.infoset[player, where.roots]
                assert (tree.infosets[player].depth[infosets] == number).all()
    kuhn = tree_of("kuhn_poker")
    assert decisions(kuhn, 1)[0].roots.tolist() == cut(kuhn, "depth:1").roots.tolist()


ONE_SIDED = """EFG 2 R "one" { "A" "B" }
p "" 1 1 "" { "x" "y" } 0
t "" 1 "" { 1 -1 }
p "" 1 2 "" { "l" "r" } 0
t "" 2 "" { 2 -2 }
t "" 3 "" { 0 0 }
"""


def test_a_player_who_never_acts(tmp_path: Any) -> None:
    """Player 0 finds an optimal strategy; player 1 has no search."""
    path = tmp_path / "one.efg"
    path.write_text(ONE_SIDED)
    tree = tree_of(str(path))
    blueprint = Policy.uniform(tree)
    how: dict[str, Any] = {"iterations": 50, "value": (2.0, 2.0)}
    first, second = (nested(tree, blueprint, Resolving(), player=player, **how) for player in (0, 1))
    np.testing.assert_allclose(first.nested_exploitability, 0, atol=0.01)
    assert first.blueprint_exploitability > 0.9 and first.searches > 0
    assert sum(visits.weights.sum() for visits in first.visits) > 0
    assert second.searches == second.gap_max == 0 and second.policy.probabilities[1].shape == (0, 1)
    (visits,) = second.visits
    assert visits.histories.shape == (0,) and visits.weights.shape == (0, 3, 3)
    np.testing.assert_allclose(second.nested_exploitability, second.blueprint_exploitability)


@pytest.mark.filterwarnings("ignore:value=OwnValues")
@pytest.mark.slow
def test_a_search_that_overflows_leaves_the_other_blueprints_alone() -> None:
    tree = tree_of(GOOFSPIEL)
    first, second = Policy.dirichlet(tree, 0), Policy.dirichlet(tree, 1)
    exact = ExactValues(portfolio(tree, second))
    draw = np.random.default_rng(0)
    huge = OwnValues(lambda tree, histories: 1.7e308 * draw.choice([-1, 1], (len(histories), 3, 3)), 3)

    def searched(blueprint: Any, values: Any) -> Nested:
        how: dict[str, Any] = {"iterations": 20, "value": (0.0, 0.0), "dtype": "float64"}
        return nested_search(
            tree, blueprint, [Unsafe(), Resolving(NoPrior())], values=values, **settings(**how)
        )

    both, alone = searched([first, second], [huge, exact]), searched(second, exact)
    assert sorted(both.failures) == [0, 2]
    message = r"resolving after blueprint 'dirichlet:0': the search of subgame 0 overflowed in float64; use"
    assert re.match(message, both.failures[2])
    assert np.isnan(both.nested_exploitability[[0, 2]]).all()
    assert np.isnan(both.gap_max[[0, 2]]).all()
    np.testing.assert_array_equal(both.nested_exploitability[[1, 3]], alone.nested_exploitability)
    player = SearchPlayer(
        first, Resolving(NoPrior()), values=huge, solver=Solver(iterations=20, dtype="float64")
    )
    with pytest.raises(ValueError, match="overflowed"):
        player.action_probabilities(tree, 0, tree.infosets[0].history[:1])
