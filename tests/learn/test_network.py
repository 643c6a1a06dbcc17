"""Value networks: shapes, batches, errors, and folders."""

import dataclasses
import json
import os

import jax
import numpy as np
import pytest

from jaxgadget.learn import network
from jaxgadget.learn.encoding import decision_histories, find_encoding
from jaxgadget.learn.network import KIND, Architecture, NetworkValues, load_values
from jaxgadget.learn.optimiser import LearningSchedule
from jaxgadget.learn.trainer import Progress, begin
from jaxgadget.networks import checkpoints, perceptron
from jaxgadget.networks.checkpoints import CHECKPOINTS, CHECKSUMS, DESCRIPTION, TrainingFolder
from jaxgadget.networks.perceptron import Weights, abstract_weights, evaluate, initial_weights
from jaxgadget.tree.history import HistoryTree
from jaxgadget.util.locks import hold
from jaxgadget.util.store import checksum, read_record
from jaxgadget.values.histories import leaf_values


def make(tree: HistoryTree, *, seed: int = 0, num_entries: int = 3) -> NetworkValues:
    encoding = find_encoding(tree)
    shape = Architecture(inputs=encoding.width, num_entries=num_entries, width=16, depth=1)
    # Random weights everywhere, because new networks return 0.
    leaves, structure = jax.tree.flatten(initial_weights(shape, seed))
    rng = np.random.default_rng(seed)
    weights = structure.unflatten([rng.normal(0, 0.3, leaf.shape).astype(np.float32) for leaf in leaves])
    return NetworkValues(
        game=tree.game.name, shape=shape, encoding=encoding, scale=tree.payoff_range, weights=weights
    )


def by_hand(weights, x):
    """The network from its definition, in float64."""

    def linear(part, x):
        return x @ np.float64(part["kernel"]) + part["bias"]

    def norm(part, x):
        x = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-6)
        return x * part["scale"] + part["bias"]

    x = linear(weights["inward"], x)
    for block in weights["blocks"].values():
        x = x + linear(block["second"], np.maximum(linear(block["first"], norm(block["norm"], x)), 0))
    return linear(weights["outward"], np.maximum(norm(weights["norm"], x), 0))


def test_values_are_the_network_s_in_payoff_units(kuhn):
    values, histories = make(kuhn), decision_histories(kuhn)
    expected = kuhn.payoff_range * by_hand(
        values.weights, values.encoding(kuhn, histories).astype(np.float64)
    )
    found = leaf_values(values, kuhn, histories)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected.reshape(-1, 3, 3), rtol=1e-4, atol=1e-5)


def test_a_new_network_returns_0_and_is_reproducible(kuhn):
    shape = make(kuhn).shape
    weights = initial_weights(shape, 1)
    x = np.ones((2, shape.inputs), np.float32)
    assert not np.asarray(evaluate(shape, weights, x)).any()
    same, other = initial_weights(shape, 1), initial_weights(shape, 2)
    assert jax.tree.all(jax.tree.map(lambda a, b: np.array_equal(a, b), weights, same))
    assert not np.array_equal(weights["inward"]["kernel"], other["inward"]["kernel"])
    assert jax.tree.map(np.shape, weights) == jax.tree.map(lambda leaf: leaf.shape, abstract_weights(shape))


def test_batches_are_padded_and_cut(kuhn, monkeypatch):
    values = make(kuhn)
    histories = np.tile(decision_histories(kuhn), 4)[:83]
    whole = values(kuhn, histories)
    monkeypatch.setattr(perceptron, "LARGEST_BATCH", 64)
    np.testing.assert_allclose(values(kuhn, histories), whole, rtol=1e-5, atol=1e-6)
    single = np.concatenate([values(kuhn, histories[i : i + 1]) for i in range(3)])
    np.testing.assert_allclose(single, whole[:3], rtol=1e-5, atol=1e-6)
    assert values(kuhn, histories[:0]).shape == (0, 3, 3)


def test_nearby_batch_sizes_compile_once(kuhn):
    values, histories = make(kuhn), np.tile(decision_histories(kuhn), 8)
    values(kuhn, histories[:65])
    before = network._evaluate.jitted._cache_size()
    for size in (66, 100, 128):
        values(kuhn, histories[:size])
    assert network._evaluate.jitted._cache_size() == before


# --- folders ----------------------------------------------------------------------------


def first_progress(weights: Weights) -> Progress:
    return begin(weights, LearningSchedule(learning_rate=0.1, steps=10))


def open_folder(folder, values, seed=0) -> TrainingFolder:
    return TrainingFolder(folder, values.describe({"seed": seed}), KIND)


def save(folder, values, step=7):
    pytest.importorskip("orbax.checkpoint")
    kept = open_folder(folder, values)
    progress = dataclasses.replace(first_progress(values.weights), step=np.int32(step))
    kept.save(progress, [{"step": step, "loss": 0.5}])
    return kept, progress


def test_a_saved_network_is_loaded(kuhn, tmp_path):
    values, histories = make(kuhn), decision_histories(kuhn)
    kept, progress = save(tmp_path / "run", values)
    assert kept.last_step() == 7
    loaded = load_values(tmp_path / "run", kuhn)
    np.testing.assert_array_equal(loaded(kuhn, histories), values(kuhn, histories))
    assert (loaded.shape, loaded.encoding, loaded.scale) == (values.shape, values.encoding, values.scale)
    fresh = first_progress(initial_weights(values.shape, 5))
    found, log = open_folder(tmp_path / "run", values).load(fresh)
    assert jax.tree.all(jax.tree.map(np.array_equal, found, progress))
    assert log == [{"step": 7, "loss": 0.5}]


def test_only_the_newest_checkpoints_are_kept(kuhn, tmp_path):
    for step in (1, 2, 3):
        kept, _ = save(tmp_path, make(kuhn), step)
    assert kept.last_step() == 3
    assert sorted(path.name for path in (tmp_path / CHECKPOINTS).iterdir()) == ["2", "3"]


def test_folders_of_releases_0_3_and_0_4_are_read(kuhn, tmp_path):
    """Their checkpoints share one file of checksums, without a format version."""
    values = make(kuhn)
    _, progress = save(tmp_path, values)
    sums = tmp_path / CHECKPOINTS / "7" / CHECKSUMS
    record = read_record(sums, checkpoints.SUMS)
    sums.unlink()
    older = {"7": {"files": record["files"], "log": record["log"]}}
    (tmp_path / CHECKSUMS).write_text(json.dumps({**older, "checksum": checksum(older)}))
    load_values(tmp_path, kuhn)
    fresh = first_progress(initial_weights(values.shape, 5))
    found, log = open_folder(tmp_path, values).load(fresh)
    assert jax.tree.all(jax.tree.map(np.array_equal, found, progress)) and len(log) == 1
    (tmp_path / CHECKSUMS).unlink()
    with pytest.raises(ValueError, match="7' is damaged: its checksums are missing"):
        load_values(tmp_path, kuhn)


def test_a_damaged_older_checkpoint_does_no_harm(kuhn, tmp_path):
    """Such a checkpoint remains if a process is killed while it deletes files one by one."""
    values = make(kuhn)
    for step in (1, 2):
        kept, progress = save(tmp_path, values, step)
    older = sorted(path for path in (tmp_path / CHECKPOINTS / "1").rglob("*") if path.is_file())
    for path in older:
        path.unlink()
        load_values(tmp_path, kuhn)
        found, _ = open_folder(tmp_path, values).load(first_progress(initial_weights(values.shape, 5)))
        assert int(found.step) == 2
    kept.save(dataclasses.replace(progress, step=np.int32(3)), [{"step": 3, "loss": 0.5}])
    assert sorted(path.name for path in (tmp_path / CHECKPOINTS).iterdir()) == ["2", "3"]


def test_a_network_is_read_while_another_process_trains_it(kuhn, tmp_path, monkeypatch):
    """The other process also deletes the checkpoint that was the newest."""
    values = make(kuhn)
    kept, progress = save(tmp_path, values, 1)
    check = checkpoints._check_step

    def check_late(folder, step):
        for later in (2, 3) if step == 1 else ():
            kept.save(dataclasses.replace(progress, step=np.int32(later)), [])
        return check(folder, step)

    monkeypatch.setattr(checkpoints, "_check_step", check_late)
    found = load_values(tmp_path, kuhn)
    assert jax.tree.all(jax.tree.map(np.array_equal, found.weights, progress.weights))
    assert not (tmp_path / CHECKPOINTS / "1").exists()


def test_a_damaged_newest_checkpoint_names_the_one_before(kuhn, tmp_path):
    for step in (1, 2):
        save(tmp_path, make(kuhn), step)
    next(path for path in (tmp_path / CHECKPOINTS / "2" / "weights").rglob("*") if path.is_file()).unlink()
    with pytest.raises(ValueError, match="it is missing") as caught:
        load_values(tmp_path, kuhn)
    assert "step 1 is intact" in caught.value.__notes__[0]
    (tmp_path / CHECKPOINTS / "2").rename(tmp_path / "away")
    load_values(tmp_path, kuhn)


@pytest.mark.parametrize("number", range(6))
def test_ended_at_any_rename_or_removal_a_checkpoint_is_left(kuhn, tmp_path, monkeypatch, number):
    """The n-th call fails, as in a crash; the remaining checkpoint is read, and saving works again."""
    values, left = make(kuhn), [number]
    for step in (1, 2):
        kept, progress = save(tmp_path, values, step)

    def ending(call):
        def end(*args, **more):
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
            return call(*args, **more)

        return end

    for module, name in ((os, "replace"), (os, "unlink"), (os, "rmdir")):
        monkeypatch.setattr(module, name, ending(getattr(module, name)))
    with pytest.raises(KeyboardInterrupt):
        kept.save(dataclasses.replace(progress, step=np.int32(3)), [{"step": k, "loss": 0.5} for k in (2, 3)])
    monkeypatch.undo()
    found, _ = open_folder(tmp_path, values).load(first_progress(initial_weights(values.shape, 5)))
    assert int(found.step) in (2, 3)
    load_values(tmp_path, kuhn)
    kept.save(dataclasses.replace(progress, step=np.int32(4)), [{"step": 4, "loss": 0.5}])
    steps = sorted(path.name for path in (tmp_path / CHECKPOINTS).iterdir())
    assert steps[-1] == "4" and len(steps) == 2
    assert not {checkpoints.UNFINISHED, checkpoints.RETIRED} & {path.name for path in tmp_path.iterdir()}


def test_a_lost_description_is_written_anew_by_the_same_training(kuhn, tmp_path):
    values = make(kuhn)
    save(tmp_path, values)
    (tmp_path / DESCRIPTION).unlink()
    with pytest.raises(ValueError, match="of another training"):
        open_folder(tmp_path, values, seed=1)
    open_folder(tmp_path, values)
    load_values(tmp_path, kuhn)


def test_a_folder_in_use_names_the_process(kuhn, tmp_path):
    with (
        hold(tmp_path, "folder"),
        pytest.raises(ValueError, match=f"in use by process {os.getpid()} on"),
        checkpoints.open_training(tmp_path, {}, KIND),
    ):
        pass


def test_folders_without_a_network_are_refused(kuhn, tmp_path):
    with pytest.raises(ValueError, match="does not exist"):
        load_values(tmp_path / "none", kuhn)
    (tmp_path / DESCRIPTION).write_text("{}")
    with pytest.raises(ValueError, match="format"):
        load_values(tmp_path, kuhn)
    (tmp_path / DESCRIPTION).write_text('{"format": "other", "version": 1}')
    with pytest.raises(ValueError, match="version"):
        load_values(tmp_path, kuhn)


def test_a_folder_before_its_first_checkpoint(kuhn, tmp_path):
    pytest.importorskip("orbax.checkpoint")
    values = make(kuhn)
    fresh = first_progress(values.weights)
    found, log = open_folder(tmp_path, values).load(fresh)
    assert found is fresh
    assert log == []
    with pytest.raises(ValueError, match="has no checkpoint yet"):
        load_values(tmp_path, kuhn)


def test_a_missing_orbax_is_named(kuhn, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "orbax.checkpoint", None)
    with pytest.raises(ImportError, match="pip install"):
        open_folder(tmp_path / "run", make(kuhn))
    assert not (tmp_path / "run").exists()
