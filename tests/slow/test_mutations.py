"""Corrupted files: they are refused by name, or the result equals the original data.

Two thousand mutations of each kind of file: bytes flipped, truncated, inserted or overwritten; in JSON also
values exchanged, dropped or converted to another type.
"""

import copy
import dataclasses
import faulthandler
import json
import pathlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest

from jaxgadget import HistoryTree, Policy, read_sweep, sweep
from jaxgadget.core.cfr import start
from jaxgadget.core.checkpoint import (
    load_checkpoint,
    load_chunk,
    load_parts,
    save_checkpoint,
    save_chunk,
    save_parts,
)
from jaxgadget.core.regret import find_rule
from jaxgadget.learn.encoding import find_encoding
from jaxgadget.learn.network import KIND, Architecture, NetworkValues, load_values
from jaxgadget.learn.optimiser import LearningSchedule
from jaxgadget.learn.trainer import begin
from jaxgadget.networks import checkpoints
from jaxgadget.networks.perceptron import initial_weights
from jaxgadget.policy.evaluate import whole_problem
from jaxgadget.sweeping.request import make_request
from jaxgadget.sweeping.store import Store
from jaxgadget.sweeping.sweep import Workshop
from jaxgadget.util.precision import precision
from tests.solving import sweeping

MUTATIONS = 2000
STUCK = 600
"""Seconds after which the process terminates itself with a traceback."""

Read = Callable[[], Any]
"""Reads the files, into a pytree of plain values and arrays."""


@pytest.fixture(autouse=True)
def nothing_hangs() -> Iterator[None]:
    faulthandler.dump_traceback_later(STUCK, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


# --- mutations ----------------------------------------------------------------------------


def mutate_bytes(content: bytes, rng: np.random.Generator) -> bytes:
    place = int(rng.integers(len(content)))
    kind = rng.choice(
        ["flip a bit", "change a byte", "cut off", "insert", "overwrite", "leave out", "repeat"]
    )
    some = rng.bytes(int(rng.integers(1, 9)))
    if kind == "flip a bit":
        return content[:place] + bytes([content[place] ^ 1 << int(rng.integers(8))]) + content[place + 1 :]
    if kind == "change a byte":
        return content[:place] + some[:1] + content[place + 1 :]
    if kind == "cut off":
        return content[:place]
    if kind == "insert":
        return content[:place] + some + content[place:]
    block = int(rng.integers(1, 513))
    if kind == "overwrite":
        return content[:place] + bytes(len(content[place : place + block])) + content[place + block :]
    if kind == "leave out":
        return content[:place] + content[place + block :]
    return content[:place] + content[place : place + block] * 2 + content[place + block :]


def places(thing: Any) -> list[tuple[Any, Any]]:
    """All positions in a JSON value: the container, with the key or index."""
    inside = thing.items() if isinstance(thing, dict) else enumerate(thing) if isinstance(thing, list) else ()
    return [pair for key, value in inside for pair in [(thing, key), *places(value)]]


OTHERS: list[Any] = [None, True, -1, 0, 1, 2, 1.5, 10**30, 1e300, "", "x", "../x", [], [0], {}, {"x": 0}]


def mutate_values(content: bytes, rng: np.random.Generator) -> bytes:
    record = json.loads(content)
    holders = places(record)
    holder, key = holders[int(rng.integers(len(holders)))]
    kind = rng.choice(["other", "near", "drop", "exchange", "rename"])
    value = holder[key]
    if kind == "near" and isinstance(value, int | float):
        holder[key] = value + int(rng.choice([-1, 1])) * (1 if isinstance(value, int) else 1e-9)
    elif kind == "near" and isinstance(value, str) and value:
        holder[key] = value[1:] + value[:1]
    elif kind == "drop":
        del holder[key]
    elif kind == "exchange":
        other, name = holders[int(rng.integers(len(holders)))]
        holder[key] = copy.deepcopy(other[name]) if name in other or isinstance(other, list) else None
    elif kind == "rename" and isinstance(holder, dict):
        holder[key + "s"] = holder.pop(key)
    else:
        holder[key] = copy.deepcopy(OTHERS[int(rng.integers(len(OTHERS)))])
    return json.dumps(record, indent=1).encode()


def same(one: Any, other: Any) -> bool:
    """Bitwise equality."""
    first, second = jax.tree.flatten(one), jax.tree.flatten(other)
    return first[1] == second[1] and all(
        np.asarray(x).dtype == np.asarray(y).dtype and np.array_equal(x, y)
        for x, y in zip(first[0], second[0], strict=True)
    )


def try_all(
    kind: str, files: list[pathlib.Path], read: Read, *, count: int = MUTATIONS, seed: int = 0
) -> Counter[str]:
    """Change a file, read it, restore it; prints and returns the number of each outcome."""
    rng, expected, found = np.random.default_rng(seed), read(), Counter[str]()
    whole = {file: file.read_bytes() for file in files}
    weights = np.array([len(content) for content in whole.values()], float) ** 0.5
    for _ in range(count):
        file = files[int(rng.choice(len(files), p=weights / weights.sum()))]
        values = file.suffix == ".json" and rng.random() < 0.5
        changed = (mutate_values if values else mutate_bytes)(whole[file], rng)
        file.write_bytes(changed)
        try:
            result = read()
        except ValueError as error:
            said = str(error)
            assert file.name in said or str(file.parent) in said, f"it does not name {file.name!r}: {said}"
            assert "; " in said, f"it does not say what to do: {said}"
            found["refused"] += 1
        else:
            assert same(result, expected), f"{file.name}: other results without a word"
            found["untouched" if changed == whole[file] else "the same"] += 1
        file.write_bytes(whole[file])
    print(f"{kind}: {dict(found)}")
    assert same(read(), expected) and found.total() == count and found["refused"] > count / 2
    return found


# --- kinds of files -----------------------------------------------------------------------


def test_policies(kuhn: HistoryTree, tmp_path: pathlib.Path):
    path = tmp_path / "policy.npz"
    Policy.stack([Policy.uniform(kuhn), Policy.dirichlet(kuhn, 0), Policy.geometric(kuhn, 2)]).save(path)

    def read() -> Any:
        policy = Policy.load(path, kuhn)
        return policy.probabilities, policy.labels

    try_all("policies", [path], read)


SWEPT: dict[str, Any] = {
    "games": "kuhn_poker",
    "cuts": "depth:1",
    "blueprints": ["uniform", "draws:2"],
    "gadgets": ["unsafe", "resolving"],
    "priors": ["uniform"],
    "epsilons": 0.01,
    "players": (0, 1),
    "seeds": (0,),
    "iterations": 3,
    "blueprints_at_once": 4,
}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("swept") / "sweep"
    sweep(folder, **sweeping(**SWEPT))
    return folder


def in_words(frame: pd.DataFrame) -> str:
    """Every number with all its digits."""
    return str(frame.to_dict("split"))


def rows(folder: pathlib.Path) -> str:
    return in_words(read_sweep(folder))


def test_manifests_of_sweeps(swept: pathlib.Path):
    try_all("manifests", [swept / "manifest.json"], lambda: rows(swept))


def test_a_sweep_does_not_resume_from_a_changed_manifest(swept: pathlib.Path):
    """The same through `sweep`, which does much before it reads the manifest."""

    def read() -> str:
        return in_words(sweep(swept, **sweeping(**SWEPT)))

    try_all("manifests of sweeps that go on", [swept / "manifest.json"], read, count=100, seed=1)


def test_pieces_of_sweeps(swept: pathlib.Path):
    try_all("pieces", sorted((swept / "pieces").iterdir()), lambda: rows(swept))


def test_mutated_games_in_sweeps(swept: pathlib.Path):
    bundled = sweeping(algorithm="cfr+", dtype="float32", max_histories=100, **SWEPT)
    requested = make_request(bundled["grid"], bundled["solver"], bundled["blueprints_at_once"])
    workshop = Workshop(Store(swept), requested, False)

    def read() -> Any:
        workshop._setups.clear()
        setup = workshop.setup("kuhn_poker")
        return setup.blueprints.probabilities, setup.blueprints.labels, str(setup.seeds), setup.value

    try_all("games", sorted(path for path in (swept / "games").iterdir() if path.is_file()), read, count=500)


def test_checkpoints_of_value_networks(kuhn: HistoryTree, tmp_path: pathlib.Path):
    pytest.importorskip("orbax.checkpoint")
    encoding = find_encoding(kuhn)
    shape = Architecture(inputs=encoding.width, num_entries=2, width=8, depth=1)
    values = NetworkValues(
        game=kuhn.game.name,
        shape=shape,
        encoding=encoding,
        scale=kuhn.payoff_range,
        weights=initial_weights(shape, 1),
    )
    fresh = begin(values.weights, LearningSchedule(learning_rate=0.1, steps=10))
    described = values.describe({"seed": 0})
    for step in (1, 2):
        kept = checkpoints.TrainingFolder(tmp_path, described, KIND)
        log = [{"step": k, "loss": 0.5 / k, "heldout_rmse": float("nan")} for k in range(1, step + 1)]
        kept.save(dataclasses.replace(fresh, step=np.int32(step)), log)

    def read() -> Any:
        loaded = load_values(tmp_path, kuhn)
        progress, rows = checkpoints.TrainingFolder(tmp_path, described, KIND).load(fresh)
        return loaded.weights, progress.weights, progress.optimiser, int(progress.step), str(rows)

    place = tmp_path / checkpoints.CHECKPOINTS / "2"  # older versions are not read
    files = sorted(path for path in place.rglob("*") if path.is_file() and path.stat().st_size)
    top = [tmp_path / name for name in (checkpoints.DESCRIPTION, checkpoints.LOG)]
    try_all("value checkpoints", [*files, *top], read)


def test_checkpoints_of_solves(kuhn: HistoryTree, tmp_path: pathlib.Path):
    with precision(np.float64):
        state = start(whole_problem(kuhn, 1, np.dtype(np.float64)), find_rule("cfr+"))
        state = jax.tree.map(lambda leaf: leaf + 1, state)
        path = tmp_path / "state.npz"
        save_checkpoint(path, "key", state)
        save_chunk(tmp_path, "two-level", 7, 3)
        save_chunk(tmp_path, "apart", 5, 2)
        save_parts(tmp_path, [np.arange(3), np.arange(3, 5), np.arange(5, 9)])

        def read() -> Any:
            chunks = [load_chunk(tmp_path, name, lanes) for name, lanes in (("two-level", 7), ("apart", 5))]
            return load_checkpoint(path, "key", state), chunks, load_parts(tmp_path, 9)

        try_all("solve checkpoints", sorted(tmp_path.iterdir()), read)
