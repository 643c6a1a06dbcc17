"""Training of a network of ranges: it learns, resumes bit for bit, and reports correct errors."""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
import re
import shutil
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget import (
    Forest,
    Policy,
    RangeTraining,
    RangeTrainingConfig,
    ResolvedValues,
    train_ranges,
)
from jaxgadget.learn import range_training
from jaxgadget.learn.range_network import ERRORS
from jaxgadget.learn.range_training import (
    ROUND,
    RangeLesson,
    find_blueprints,
    normalised,
    searched_ranges,
    value_rmse,
)
from jaxgadget.networks.checkpoints import last_step
from jaxgadget.util.precision import precision
from jaxgadget.util.store import read_archive
from jaxgadget.values.draws import RangePair, reach_of
from jaxgadget.values.solved import RangeSolver
from tests.solving import configured
from tests.trees import kuhn, tree_of

GOOFSPIEL = "goofspiel(num_cards=3,imp_info=True,points_order=descending)"
CUT = "depth:2"
SMALL: dict[str, Any] = {
    "samples": 16,
    "rounds": 1,
    "steps": 12,
    "every": 4,
    "batch_size": 4,
    "width": 8,
    "iterations": 20,
    "heldout": 0.25,
    "progress": False,
}
MEASURED = ("train_rmse", "heldout_rmse", "blueprint_rmse", "visited_rmse", "value_rmse")


@functools.cache
def forest(where: str = CUT) -> Forest:
    return jg.build_forest(kuhn(), where)


@pytest.fixture(autouse=True, scope="module")
def few_searches() -> Iterator[None]:
    """Four blueprints per round, each searched once by either player."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(range_training, "SEARCHES", ((6, 15.0),))
        patch.setattr(range_training, "BLUEPRINT_ITERATIONS", (3,))
        patch.setattr(range_training, "VISITED_BLUEPRINTS", 4)
        yield


def train(folder: pathlib.Path | None = None, **changes: Any) -> RangeTraining:
    return train_ranges(kuhn(), CUT, folder=folder, **configured(RangeTrainingConfig, **(SMALL | changes)))


@pytest.fixture(scope="module")
def undisturbed() -> RangeTraining:
    return train()


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    pytest.importorskip("orbax.checkpoint")
    folder = tmp_path_factory.mktemp("ranges") / "network"
    train(folder)
    return folder


def same_weights(first: Any, second: Any) -> bool:
    return jax.tree.all(jax.tree.map(np.array_equal, first.weights, second.weights))


def assert_same(found: RangeTraining, expected: RangeTraining) -> None:
    assert same_weights(found.values, expected.values)
    for name in (*MEASURED, "samples", "gap_max"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    timed = ["seconds", "examples_per_second"]
    assert found.log.drop(columns=timed).equals(expected.log.drop(columns=timed))


# --- learning -----------------------------------------------------------------------------


# --- errors -------------------------------------------------------------------------------


@pytest.mark.slow
def test_samples_and_gaps_are_those_of_the_solves(kept: pathlib.Path) -> None:
    found = train(kept)
    # 16 pairs were drawn; a round has 4 blueprints, each searched by either player.
    assert found.samples == (16 + 8) * forest().num_subgames
    assert 0 < found.gap_max < found.payoff_range and np.isnan(found.subgames_per_second)
    drawn = normalised(forest(), jg.draw_ranges(forest(), 16))
    again = jg.solve_ranges(
        forest(), drawn, solver=jg.Solver(iterations=20, checkpoint=kept / "solved" / "drawn", progress=False)
    )
    assert again.num_read == again.num_solved, "the folder has just these"


def test_held_out_errors_are_over_held_out_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """The training's own error, in float32 and slots, equals `range_rmse` on the same ranges."""
    found = train(rounds=0)
    order = np.random.Generator(np.random.PCG64(0)).permutation(16)
    ranges = jg.draw_ranges(forest(), 16)
    for is_heldout, reported in ((True, found.heldout_rmse), (False, found.train_rmse)):
        lanes = (order < 4) == is_heldout
        part = normalised(forest(), (ranges[0][:, lanes], ranges[1][:, lanes]))
        solved = jg.solve_ranges(forest(), part, solver=jg.Solver(iterations=20, progress=False))
        assert jg.range_rmse(found.values, solved) == pytest.approx(reported, rel=1e-3)
    assert np.isnan(found.blueprint_rmse), "there was no round"


def test_nothing_may_be_held_out() -> None:
    found = train(heldout=0.0)
    assert np.isnan(found.heldout_rmse) and np.isnan(found.blueprint_rmse)
    assert found.train_rmse > 0 and found.log["heldout_rmse"].isna().all()


def test_blueprints_held_out_are_never_trained_on(
    kept: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No range of a held-out blueprint is among the training examples, whichever search produced it."""
    lessons: list[tuple[RangeLesson, Any]] = []
    original = range_training._Data.lesson

    def told(self: Any, limit: Any) -> RangeLesson:
        lessons.append((original(self, limit), self))
        return lessons[-1][0]

    monkeypatch.setattr(range_training._Data, "lesson", told)
    train(kept)
    lesson, data = lessons[-1]
    arrays = read_archive(kept / "round-1.npz", ROUND).arrays
    collected = normalised(forest(), (arrays["first"], arrays["second"]))
    count, total = int(lesson.num_train), 16 + 8
    assert [len(part) for part in lesson.ranges] == [total, total]
    assert count == total - 4 - 2, "4 of 16 samples, and 1 of 4 blueprints as either player's"
    rows = [np.asarray(part, np.float64)[:, 0] for part in lesson.ranges]
    for player in (0, 1):
        blueprint = collected[player][:, 4 * player]  # lanes: player 0's four searches, then player 1's
        distance = np.abs(rows[player] - blueprint).max(axis=1)
        assert distance[:count].min() > 1e-3
        assert (distance[count:] < 1e-6).sum() == 1
    first, last = data.of_blueprints
    assert (first, last) == (total - 2, total)
    searched = np.concatenate([rows[0][first:], rows[1][first:]], axis=1)
    expected = np.concatenate([collected[0][:, [0, 4]].T, collected[1][:, [0, 4]].T], axis=1)
    np.testing.assert_allclose(searched, expected, rtol=0, atol=1e-6)


def test_range_rmse_by_its_definition(undisturbed: RangeTraining) -> None:
    """Ranges need not be normalised; errors are weighted payoffs."""
    values, ranges = undisturbed.values, normalised(forest(), jg.draw_ranges(forest(), 5, seed=3))
    solved = jg.solve_ranges(forest(), ranges, solver=jg.Solver(iterations=30, progress=False))
    limit = jg.Limit.of(forest().cut, np.dtype(np.float32))
    with precision(np.float32):
        first, second = (jnp.asarray(rows, jnp.float32) for rows in ranges)
        predicted = [np.asarray(part, np.float64) for part in values(limit)((first, second))]
    squares: list[float] = []
    for lane in range(5):
        for player in (0, 1):
            mass = solved.opposing[player][:, lane]
            error = (predicted[player][:, lane] - solved.values[player][:, lane]) / mass
            squares.append(float((mass * error**2).sum() / mass.sum()))
    assert jg.range_rmse(values, solved) == pytest.approx(np.sqrt(np.mean(squares)), rel=1e-4)
    tiny = jg.solve_ranges(
        forest(), (1e-310 * ranges[0], 3.0 * ranges[1]), solver=jg.Solver(iterations=30, progress=False)
    )
    assert jg.range_rmse(values, tiny) == pytest.approx(np.sqrt(np.mean(squares)), rel=1e-4)


@pytest.mark.slow
def test_values_of_resolved_subgames_have_no_error() -> None:
    """Values are compared with linear programs elsewhere; wrong values have a large error."""
    blueprint = Policy.stack([Policy.dirichlet(kuhn(), seed) for seed in (0, 1)])
    right = value_rmse(forest(), ResolvedValues(100), blueprint, 200)
    wrong = value_rmse(forest(), lambda limit: lambda ranges: (0 * ranges[0], 0 * ranges[1]), blueprint, 200)
    assert right < 0.002 * kuhn().payoff_range < 0.02 * kuhn().payoff_range < wrong


@pytest.mark.slow
def test_searches_ask_at_the_blueprints_and_at_answers_to_them() -> None:
    generator = np.random.Generator(np.random.PCG64(0))
    blueprint = find_blueprints(forest(), ResolvedValues(20), 5, generator)
    assert blueprint.num_lanes == 5
    assert all(np.ptp(rows, axis=1).max() > 0.1 for rows in blueprint.probabilities)
    first, second = searched_ranges(forest(), ResolvedValues(20), blueprint)
    own = reach_of(forest(), blueprint)
    assert first.shape[1] == second.shape[1] == 10
    np.testing.assert_array_equal(first[:, :5], own[0])
    np.testing.assert_array_equal(second[:, 5:], own[1])
    rule = dataclasses.replace(range_training.CFR_PLUS, averaging=15.0)
    found = jg.solve_trunk(
        kuhn(),
        CUT,
        ResolvedValues(20),
        blueprint=blueprint,
        fixed=0,
        solver=jg.Solver(algorithm=rule, iterations=6, dtype="float32", progress=False),
    )
    np.testing.assert_allclose(second[:, :5], reach_of(forest(), found.policy)[1], rtol=0, atol=1e-6)


def test_normalised_ranges_add_up_to_1() -> None:
    below = jg.build_forest(tree_of(GOOFSPIEL), "depth:1")
    ranges: RangePair = tuple(0.1 * rows for rows in jg.draw_ranges(below, 3))
    ranges[0][below.roots[0].subgame == 2, 1] = 0.0
    for player, rows in enumerate(normalised(below, ranges)):
        total = np.zeros((below.num_subgames, 3))
        np.add.at(total, below.roots[player].subgame, rows)
        np.testing.assert_allclose(total, 1, rtol=0, atol=1e-12)
    tiny = normalised(below, (ranges[0] * 1e-310, ranges[1] * 1e-310))
    for rows, usual in zip(tiny, normalised(below, ranges), strict=True):
        np.testing.assert_allclose(rows, usual, rtol=0, atol=1e-9)
    inside = below.roots[0].subgame == 2
    np.testing.assert_allclose(normalised(below, ranges)[0][inside, 1], 1 / inside.sum())


# --- folders ------------------------------------------------------------------------------


class Killed(BaseException):
    """Raised like a signal: the package does not catch it."""


CutOff = tuple[Any, str, int, bool]
"""Owner of a function, its name, the call that is interrupted, and whether the interrupt follows the call."""


@pytest.mark.parametrize(
    "cut_off",
    [
        (range_training, "write_archive", 1, True),
        (RangeSolver, "solve", 1, True),
        (range_training, "searched_ranges", 1, True),
        (range_training, "value_rmse", 1, False),
    ],
    ids=["collected", "drawing", "collecting", "measuring"],
)
@pytest.mark.slow
def test_an_interrupted_training_resumes_to_the_same_weights(
    undisturbed: RangeTraining, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, cut_off: CutOff
) -> None:
    pytest.importorskip("orbax.checkpoint")
    owner, name, call, is_after = cut_off
    original, calls = getattr(owner, name), list[None]()

    def kill(*args: Any, **keywords: Any) -> Any:
        calls.append(None)
        if len(calls) == call and not is_after:
            raise Killed
        result = original(*args, **keywords)
        if len(calls) == call:
            raise Killed
        return result

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, kill)
        with pytest.raises(Killed):
            train(tmp_path)
    assert not (tmp_path / ERRORS).exists()
    if last_step(tmp_path) is not None:
        assert jg.load_ranges(tmp_path, kuhn()).error is None, "it is not finished"
        assert jg.FolderRanges(str(tmp_path)).error is None
    resumed = train(tmp_path)
    assert_same(resumed, undisturbed)
    assert jg.load_ranges(tmp_path, kuhn()).error == undisturbed.value_rmse


def test_a_finished_training_is_read(kept: pathlib.Path, undisturbed: RangeTraining) -> None:
    again = train(kept)
    assert_same(again, undisturbed)
    loaded, lazy = jg.load_ranges(kept, kuhn(), CUT), jg.FolderRanges(str(kept))
    assert same_weights(loaded, undisturbed.values)
    assert loaded.error == lazy.error == undisturbed.value_rmse
    assert (loaded.name, loaded.cut, lazy.name, lazy.cut) == (str(kept), CUT, str(kept), CUT)
    measured = json.loads((kept / ERRORS).read_text())
    assert {name: measured[name] for name in MEASURED} == {n: getattr(undisturbed, n) for n in MEASURED}
    trunks = [
        jg.solve_trunk(kuhn(), CUT, values, solver=jg.Solver(iterations=5, progress=False))
        for values in (undisturbed.values, loaded, lazy)
    ]
    for trunk in trunks[1:]:
        for player in (0, 1):
            np.testing.assert_array_equal(trunk.values[player], trunks[0].values[player])


def test_networks_of_others_are_refused(kept: pathlib.Path, tmp_path: pathlib.Path) -> None:
    other = tree_of(GOOFSPIEL)
    with pytest.raises(ValueError, match="for 'kuhn_poker', not for 'goofspiel"):
        jg.load_ranges(kept, other)
    with pytest.raises(ValueError, match="depth"):
        jg.load_ranges(kept, kuhn(), "depth:1")
    with pytest.raises(ValueError, match="for 'kuhn_poker', not for 'goofspiel"):
        jg.solve_trunk(
            other, "depth:1", jg.FolderRanges(str(kept)), solver=jg.Solver(iterations=1, progress=False)
        )
    with pytest.raises(ValueError, match="depth"):
        jg.solve_trunk(
            kuhn(), "depth:1", jg.FolderRanges(str(kept)), solver=jg.Solver(iterations=1, progress=False)
        )
    with pytest.raises(ValueError, match="does not exist"):
        jg.load_ranges(tmp_path / "nothing", kuhn())
    with pytest.raises(ValueError, match=r"network\.json"):
        jg.load_ranges(tmp_path, kuhn())


def test_checkpoints_without_a_description_are_refused(kept: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """They may belong to any training."""
    folder = tmp_path / "copy"
    shutil.copytree(kept, folder)
    (folder / "network.json").unlink()
    with pytest.raises(ValueError, match=r"network\.json"):
        train(folder, seed=1)
    assert not (folder / "network.json").exists()


# --- errors of arguments ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"samples": 15}, "samples="),
        ({"rounds": -1}, "rounds="),
        ({"network": "transformer"}, "network="),
    ],
    ids=str,
)
def test_numbers_out_of_range_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        train(**change)
