"""The experiments of "Solving games using decomposition", with a few iterations: tables, resuming, bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from experiments.decomposition import figure3, figure5
from experiments.decomposition.__main__ import STUDY
from experiments.study import Settings
from jaxgadget import Policy, enumerate_game, load
from jaxgadget.tree.forest import build_forest
from tests.reference import efg

EXPERIMENTS = {module.NAME: module for module in (figure3, figure5)}


@pytest.fixture(scope="module", params=list(EXPERIMENTS))
def smoked(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Any, Settings, pd.DataFrame]:
    """An experiment, where its smoke test has written, and its data."""
    module = EXPERIMENTS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    STUDY.main([module.NAME, "--smoke", "--folder", str(folder)])
    settings = STUDY.settings(smoke=True, folder=folder)
    return module, settings, settings.data_of(module.NAME, "this test")


def test_table_and_picture(smoked: tuple[Any, Settings, pd.DataFrame]):
    module, settings, frame = smoked
    assert tuple(frame.columns) == module.COLUMNS
    assert len(frame) == 4, "two methods, two numbers of iterations"
    assert set(frame["method"]) == {"safe", "unsafe"}
    assert (settings.folder / "pictures" / f"{module.NAME}.png").read_bytes().startswith(b"\x89PNG")
    assert (frame["exploitability"] > 0).all()
    assert frame.drop(columns="exploitability_bound").notna().to_numpy().all()


def test_safe_resolving_keeps_its_bound(smoked: tuple[Any, Settings, pd.DataFrame]):
    _, _, frame = smoked
    safe = frame[frame["method"] == "safe"].sort_values("iterations")
    assert (safe["exploitability"] <= safe["exploitability_bound"] + 1e-9).all()
    assert safe["exploitability_bound"].is_monotonic_decreasing
    assert frame.loc[frame["method"] == "unsafe", "exploitability_bound"].isna().all()


def test_what_is_there_is_not_computed_again(
    smoked: tuple[Any, Settings, pd.DataFrame], monkeypatch: pytest.MonkeyPatch
):
    module, settings, frame = smoked
    last = int(frame["iterations"].max())
    asked: list[int] = []
    resolve = module.resolve

    def record(*arguments: Any) -> pd.DataFrame:
        asked.append(arguments[-1])
        return resolve(*arguments)

    monkeypatch.setattr(module, "resolve", record)
    pd.testing.assert_frame_equal(module.compute(settings), frame)
    assert asked == []
    for piece in settings.work.glob("*.parquet"):
        piece.unlink()
    settings.keep(module.NAME, frame[frame["iterations"] != last])
    pd.testing.assert_frame_equal(module.compute(settings), frame, rtol=1e-9)
    assert asked == [last]
    settings.keep(module.NAME, frame)


@pytest.mark.parametrize("resolver", [0, 1])
def test_stored_values_are_best_response_values_of_the_roots(resolver: int):
    """By the definition, on the explicit tree: `V̄(s)` sums `P_i P_c` times value over the histories of s."""
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
