"""The experiments of "Solving games using decomposition", with a few iterations: tables and bounds."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.decomposition import figure3, figure4, figure5
from experiments.decomposition.__main__ import STUDY
from experiments.study import Settings
from jaxgadget import Policy, enumerate_game, load
from jaxgadget.tree.forest import build_forest
from tests.reference import efg
from tests.slow.experiments.frame import every_experiment_is_whole

test_every_experiment_is_whole = every_experiment_is_whole(STUDY)


@pytest.mark.parametrize("name", [figure3.NAME, figure5.NAME])
def test_safe_resolving_keeps_its_bound(name: str, settings: Settings):
    frame = settings.data_of(name, "this test")
    safe = frame[frame["method"] == "safe"].sort_values("iterations")
    assert (safe["exploitability"] <= safe["exploitability_bound"] + 1e-9).all()
    assert safe["exploitability_bound"].is_monotonic_decreasing
    assert frame.loc[frame["method"] == "unsafe", "exploitability_bound"].isna().all()


@pytest.mark.parametrize("resolver", [0, 1])
def test_stored_values_are_best_response_values_of_the_roots(resolver: int):
    """From the definition, on the explicit tree: `V̄(s)` sums `P_i P_c` times value over s."""
    tree = enumerate_game(load("leduc_poker"))
    policy = Policy.dirichlet(tree, 4)
    game, opponent = efg.from_tree(tree), 1 - resolver
    strategies = efg.from_sequences(tree, tuple(np.append(1.0, rows[:, 0]) for rows in policy.probabilities))
    best = {**strategies, **efg.best_response(game.root, opponent, strategies)}
    reaches = efg.reaches(game.root, strategies)
    forest = build_forest(tree, "before-flop")
    expected = dict.fromkeys(forest.roots[opponent].infostate.tolist(), 0.0)
    for h in forest.cut.roots.tolist():
        reach, node = reaches[game.nodes[h]], game.nodes[h]
        weight = efg.sign(resolver) * reach[resolver] * reach[2]
        expected[int(tree.infostate[opponent, h])] += weight * efg.value(node, best)
    values = figure3.root_values(tree, policy, resolver)
    np.testing.assert_allclose(values[:, 0], list(expected.values()), atol=1e-12)


def test_nothing_of_the_subgames_is_kept():
    tree = enumerate_game(load("leduc_poker"))
    policy = Policy.dirichlet(tree, 4)
    kept = figure3.discard_subgames(tree, policy)
    below = np.zeros(tree.num_histories, np.bool_)
    for h in range(tree.num_histories):
        below[h] = below[tree.parent[h]] or (h > 0 and tree.action[2, h] >= 0 and tree.num_moves[h] > 0)
    for player, infosets in enumerate(tree.infosets):
        discarded = below[infosets.history][infosets.infoset[1:]]
        uniform = 1 / infosets.num_actions[infosets.infoset[1:]]
        expected = np.where(discarded, uniform, policy.probabilities[player][:, 0])
        np.testing.assert_array_equal(kept.probabilities[player][:, 0], expected)
        assert discarded.any() and not discarded.all()


def test_stored_data_have_every_point() -> None:
    """Every point of the grid exists; more trunk iterations give lower lines (the paper's Figure 4)."""
    frame = STUDY.settings().data_of(figure4.NAME, "this test")
    assert list(frame.columns) == list(figure4.COLUMNS)
    at = frame.set_index(list(figure4.KEY))["exploitability"]
    assert (at > 0).all()
    best: dict[str, list[float]] = {}
    for algorithm, trunk, counts in figure4.OURS.lines:
        line = [at[algorithm, trunk, count, figure4.OURS.resolve] for count in counts]
        best.setdefault(algorithm, []).append(min(line))
    for lowest in best.values():
        assert lowest == sorted(lowest, reverse=True)
