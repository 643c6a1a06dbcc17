"""CFR-D in whole games: its solution, its stored values, and re-solving from them."""

from __future__ import annotations

import functools
import json
import pathlib
from typing import Any

import numpy as np
import pytest

import jaxgadget
from jaxgadget import MaxMargin, NoPrior, Policy, Solver, exploitability, nash_conv
from jaxgadget.subgames.cfr_d import Decomposition, cfr_d
from tests.core import grove
from tests.reference import efg, lp
from tests.solving import settings
from tests.trees import tree_of

KUHN_VALUE = -1 / 18
GAMES = json.loads((pathlib.Path(__file__).parents[1] / "data" / "games.json").read_text(encoding="utf-8"))
(LEDUC_VALUE,) = (game["value_player0"] for game in GAMES if game["game"] == "leduc_poker")


@functools.cache
def kuhn(iterations: int) -> Decomposition:
    """One lane with too few subgame iterations, and one with enough."""
    return cfr_d(
        tree_of("kuhn_poker"),
        "depth:1",
        solver=Solver(iterations=iterations, progress=False),
        subgame_iterations=(2, 200),
    )


# Solutions


@pytest.mark.slow
def test_kuhn_falls_with_trunk_iterations() -> None:
    """CFR-D's error is that of the trunk, the subgames and the re-solve (Burch et al. 2014, Theorem 2)."""
    few, many = (nash_conv(kuhn(n).resolve(solver=Solver(progress=False))) for n in (10, 300))
    assert many[1] < few[1] / 4  # regrets fall like 1/sqrt(T), which makes 5.5
    assert many[1] < 0.01  # of a payoff range of 4
    assert many[0] > 2 * many[1]  # two iterations do not solve a subgame


def test_trunk_values_bracket_the_value_of_the_game() -> None:
    """Both players' best responses in the trunk to the other's average, with the average values below."""
    found = kuhn(300)
    assert lp.solve(efg.from_tree(tree_of("kuhn_poker")).root, 0).value == pytest.approx(KUHN_VALUE, abs=1e-9)
    low, high = -found.best_response_values[0, 1], found.best_response_values[1, 1]
    assert low - 1e-3 <= KUHN_VALUE <= high + 1e-3  # subgames are solved to about 1e-3
    np.testing.assert_allclose(found.trunk_gap[1], high - low)
    assert found.trunk_gap[1] < 0.02
    assert "after 300 iterations" in found.message


def test_trunk_values_by_hand() -> None:
    """In Kuhn after one move, player 1 does not act in the trunk; player 0 chooses once per card."""
    found = kuhn(300)
    roots, tree = found.forest.roots, found.forest.tree
    np.testing.assert_allclose(found.best_response_values[0], found.values[1].sum(axis=0), atol=1e-12)
    by_card: dict[int, list[Any]] = {}
    for sequence, value in zip(roots[0].sequence.tolist(), found.values[0], strict=True):
        by_card.setdefault(int(tree.infosets[0].infoset[sequence]), []).append(value)
    assert sorted(len(values) for values in by_card.values()) == [2, 2, 2]
    best = sum(np.max(values, axis=0) for values in by_card.values())
    np.testing.assert_allclose(found.best_response_values[1], best, atol=1e-12)


def test_stored_values_are_those_of_the_profile() -> None:
    """Re-solved play gives no root of the opponent more than its stored value, up to errors of the solves."""
    found = kuhn(300)
    policy, tree = found.resolve(solver=Solver(progress=False)), found.forest.tree
    game = efg.from_tree(tree)
    strategy = grove.from_policy(policy, 1)
    for player in (0, 1):
        best = {**strategy, **efg.best_response(game.root, player, strategy)}
        reach = efg.reaches(game.root, best)
        earned = np.zeros(len(found.forest.roots[player]))
        states = found.forest.roots[player].infostate.tolist()
        for root in found.forest.cut.roots.tolist():
            node = game.nodes[root]
            others = reach[node][1 - player] * reach[node][2]
            value = others * efg.sign(player) * efg.value(node, best)
            earned[states.index(int(tree.infostate[player, root]))] += value
        assert (earned <= found.values[player][:, 1] + 1e-3).all()
        assert earned.sum() > found.values[player][:, 1].sum() - 0.01  # and values are of the right size


# Stored values


def test_it_is_printed_in_a_line() -> None:
    found = repr(kuhn(10))
    assert found.startswith("<Decomposition ") and found.endswith(f": {kuhn(10).message}>")
    assert len(found) < 250 and "array" not in found


def test_rows_below_the_cut_are_uniform() -> None:
    found, tree = kuhn(10), tree_of("kuhn_poker")
    uniform = Policy.uniform(tree).probabilities
    for player in (0, 1):
        inside = np.isin(tree.infosets[player].infoset[1:], found.forest.infosets(player))
        np.testing.assert_array_equal(
            found.trunk.probabilities[player][inside], np.repeat(uniform[player][inside], 2, axis=1)
        )
    assert found.trunk.labels == ("cfr-d:10:2", "cfr-d:10:200")


# Re-solving


def test_one_subgame_of_one_player_is_resolved_on_demand() -> None:
    """The strategy equals that of re-solving all subgames; all other rows are unchanged."""
    found, tree = kuhn(300), tree_of("kuhn_poker")
    everything = found.resolve(solver=Solver(progress=False))
    infoset = int(found.forest.infosets(1)[0])
    part = found.resolve(1, infostate=tree.infoset_names[1][infoset], solver=Solver(progress=False))
    np.testing.assert_array_equal(part.probabilities[0], found.trunk.probabilities[0])
    mine = found.forest.infoset_subgame(1) == found.forest.infoset_subgame(1)[infoset]
    rows = mine[tree.infosets[1].infoset[1:]]
    assert 0 < rows.sum() < len(rows)
    np.testing.assert_allclose(part.probabilities[1][rows], everything.probabilities[1][rows], atol=1e-9)
    np.testing.assert_array_equal(part.probabilities[1][~rows], found.trunk.probabilities[1][~rows])


def test_other_gadgets_resolve_as_well() -> None:
    policy = kuhn(300).resolve(0, gadget=MaxMargin(NoPrior()), solver=Solver(progress=False))
    assert float(exploitability(policy, 0, value=(KUHN_VALUE, KUHN_VALUE))[1]) < 0.01


def test_lanes_are_solves_of_their_own() -> None:
    alone = cfr_d(
        tree_of("kuhn_poker"), "depth:1", solver=Solver(iterations=10, progress=False), subgame_iterations=200
    )
    for player in (0, 1):
        np.testing.assert_allclose(alone.values[player][:, 0], kuhn(10).values[player][:, 1], atol=1e-9)
        np.testing.assert_allclose(
            alone.trunk.probabilities[player][:, 0], kuhn(10).trunk.probabilities[player][:, 1], atol=1e-9
        )


def test_resuming_changes_nothing(tmp_path: pathlib.Path) -> None:
    tree, file = tree_of("kuhn_poker"), tmp_path / "trunk.npz"
    usual: dict[str, Any] = {"subgame_iterations": (2, 200), "progress": False}
    cfr_d(tree, "depth:1", **settings(iterations=4, checkpoint=file, **usual))
    resumed = cfr_d(tree, "depth:1", **settings(iterations=10, checkpoint=file, **usual))
    assert resumed.iterations == 10
    for player in (0, 1):
        np.testing.assert_array_equal(resumed.values[player], kuhn(10).values[player])
        np.testing.assert_array_equal(
            resumed.trunk.probabilities[player], kuhn(10).trunk.probabilities[player]
        )
    np.testing.assert_array_equal(resumed.best_response_values, kuhn(10).best_response_values)
    with pytest.raises(ValueError, match="iterations="):
        cfr_d(tree, "depth:1", **settings(iterations=5, checkpoint=file, **usual))
    with pytest.raises(ValueError, match="of another"):
        cfr_d(
            tree,
            "depth:1",
            **settings(iterations=10, checkpoint=file, **{**usual, "subgame_iterations": (2, 201)}),
        )
    with pytest.raises(ValueError, match="of another"):
        cfr_d(tree, "depth:1", subgame_algorithm="cfr", **settings(iterations=10, checkpoint=file, **usual))
    file.write_bytes(b"no archive")
    with pytest.raises(ValueError, match="checkpoint"):
        cfr_d(tree, "depth:1", **settings(iterations=10, checkpoint=file, **usual))


PENNIES = """EFG 2 R "pennies" { "A" "B" }
p "" 1 1 "A" { "heads" "tails" } 0
  p "" 2 1 "B" { "heads" "tails" } 0
    t "" 1 "both heads" { 11 -11 }
    t "" 2 "apart" { 10 -10 }
  p "" 2 1 "B" { "heads" "tails" } 0
    t "" 2
    t "" 3 "both tails" { 10.5 -10.5 }
"""


@pytest.mark.slow
def test_payoffs_far_from_zero(tmp_path: pathlib.Path) -> None:
    """Matching pennies worth 1 or a half plus a constant 10: both match a third of the time, for 10 1/3."""
    file = tmp_path / "pennies.efg"
    file.write_text(PENNIES, encoding="utf-8")
    tree = jaxgadget.enumerate_game(jaxgadget.load(file))
    policy = cfr_d(
        tree, "depth:1", solver=Solver(iterations=300, progress=False), subgame_iterations=100
    ).resolve()
    first, second = (rows[:, 0] for rows in policy.probabilities)
    np.testing.assert_allclose(first, [1 / 3, 2 / 3], atol=0.02)
    np.testing.assert_allclose(second, [1 / 3, 2 / 3], atol=0.02)


# Errors


@pytest.mark.slow
def test_many_numbers_of_subgame_iterations_are_lanes_of_one_chunk() -> None:
    """Sums of root values are stored for all lanes together, whatever the number of cores."""
    tree = jaxgadget.enumerate_game(jaxgadget.load("kuhn_poker"))
    counts = tuple(range(1, 33))
    together = jaxgadget.cfr_d(tree, "depth:1", iterations=2, subgame_iterations=counts)
    alone = jaxgadget.cfr_d(tree, "depth:1", iterations=2, subgame_iterations=7)
    rows = together.trunk.probabilities[0][:, 6]
    np.testing.assert_allclose(rows, alone.trunk.probabilities[0][:, 0], rtol=0, atol=1e-12)
