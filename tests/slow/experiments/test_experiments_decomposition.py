"""The experiments of "Solving games using decomposition", with a few iterations: tables, resuming, bounds."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pandas as pd
import pytest

from experiments import common, decomposition_figure3, decomposition_figure5
from jaxgadget import Policy, enumerate_game, load
from jaxgadget.tree.forest import build_forest
from tests.reference import efg

EXPERIMENTS = {module.NAME: module for module in (decomposition_figure3, decomposition_figure5)}


@pytest.fixture(scope="module", params=list(EXPERIMENTS))
def done(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Any, common.Settings]:
    """An experiment, and where its quick form has written."""
    module = EXPERIMENTS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    settings = common.read_settings("", ["--quick", "--folder", str(folder)])
    assert settings == common.Settings(True, folder)
    module.run(settings)
    return module, settings


def test_table_and_picture(done: tuple[Any, common.Settings]):
    module, settings = done
    frame = pd.read_csv(settings.data(module.NAME))
    assert tuple(frame.columns) == module.COLUMNS
    assert len(frame) == 4, "two methods, two numbers of iterations"
    assert set(frame["method"]) == {"safe", "unsafe"}
    assert settings.picture(module.NAME).read_bytes().startswith(b"\x89PNG")
    assert (frame["exploitability"] > 0).all()
    assert frame.drop(columns="exploitability_bound").notna().to_numpy().all()


def test_safe_resolving_keeps_its_bound(done: tuple[Any, common.Settings]):
    module, settings = done
    frame = pd.read_csv(settings.data(module.NAME))
    safe = frame[frame["method"] == "safe"].sort_values("iterations")
    assert (safe["exploitability"] <= safe["exploitability_bound"] + 1e-9).all()
    assert safe["exploitability_bound"].is_monotonic_decreasing
    assert frame.loc[frame["method"] == "unsafe", "exploitability_bound"].isna().all()


def test_what_is_there_is_not_computed_again(
    done: tuple[Any, common.Settings], monkeypatch: pytest.MonkeyPatch
):
    module, settings = done
    path = settings.data(module.NAME)
    before = path.read_bytes()
    frame = pd.read_csv(path)
    last = int(frame["iterations"].max())
    asked: list[int] = []
    resolve = module.resolve

    def record(*arguments: Any) -> list[dict[str, Any]]:
        asked.append(arguments[-1])
        return resolve(*arguments)

    monkeypatch.setattr(module, "resolve", record)
    module.run(settings)
    assert asked == [] and path.read_bytes() == before
    frame[(frame["iterations"] != last) | (frame["method"] != "safe")].to_csv(path, index=False)
    again = module.run(settings)
    assert asked == [last]
    pd.testing.assert_frame_equal(again, frame, rtol=1e-9)


def test_another_experiments_table_is_refused(tmp_path: pathlib.Path):
    (tmp_path / "table.csv").write_text("method,number\nsafe,1\n", encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"has the columns \['method', 'number'\], expected \['method', 'value'\]"
    ):
        common.Table(tmp_path / "table.csv", ("method", "value"), ("method",))


def test_a_table_keeps_every_digit(tmp_path: pathlib.Path):
    path, key = tmp_path / "table.csv", ("name", "number")
    table = common.Table(path, ("name", "number", "value"), key)
    numbers = np.random.default_rng(0).normal(size=20) * 10.0 ** np.arange(-10, 10)
    table.add([{"name": "x", "number": n, "value": value} for n, value in enumerate(numbers)])
    table.add([{"name": "x", "number": 3, "value": 0.1}])
    again = common.Table(path, ("name", "number", "value"), key)
    assert (
        again.has(name="x", number=19)
        and not again.has(name="x", number=20)
        and not again.has(name="y", number=1)
    )
    numbers[3] = 0.1
    assert again.frame["value"].tolist() == numbers.tolist()


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
    found = decomposition_figure3.root_values(tree, policy, resolver)
    np.testing.assert_allclose(found[:, 0], list(expected.values()), atol=1e-12)


def test_nothing_of_the_subgames_is_kept():
    tree = enumerate_game(load("leduc_poker"))
    policy = Policy.dirichlet(tree, 4)
    kept = decomposition_figure3.discard_subgames(tree, policy)
    below = np.zeros(tree.num_histories, np.bool_)
    for h in range(tree.num_histories):
        below[h] = below[tree.parent[h]] or (h > 0 and tree.action[2, h] >= 0 and tree.num_moves[h] > 0)
    for player, infosets in enumerate(tree.infosets):
        discarded = below[infosets.history][infosets.infoset[1:]]
        uniform = 1 / infosets.num_actions[infosets.infoset[1:]]
        expected = np.where(discarded, uniform, policy.probabilities[player][:, 0])
        np.testing.assert_array_equal(kept.probabilities[player][:, 0], expected)
        assert discarded.any() and not discarded.all()
