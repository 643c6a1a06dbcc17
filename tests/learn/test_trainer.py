"""The trainer is independent of the task: here another network learns given numbers."""

import dataclasses
import functools
import itertools
import json
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from jaxgadget.learn import errors, trainer
from jaxgadget.learn.errors import Errors
from jaxgadget.learn.network import KIND
from jaxgadget.learn.optimiser import LearningSchedule, learning_rate, make_optimiser
from jaxgadget.learn.options import TrainingConfig
from jaxgadget.learn.trainer import Carried, Stateless, Trainer
from jaxgadget.networks.checkpoints import (
    LOG,
    NetworkKind,
    TrainingFolder,
    last_step,
    parsing,
    read_description,
    restore_weights,
)
from jaxgadget.networks.perceptron import (
    Perceptron,
    Weights,
    abstract_weights,
    count_weights,
    evaluate,
    initial_weights,
)
from jaxgadget.util.precision import precision

POINTS = NetworkKind(name="point network", version=3, writer="train_points")
CONFIG = TrainingConfig(learning_rate=1e-2, steps=60, batch_size=8, every=20)
BATCH_SIZE = CONFIG.batch_size


@dataclasses.dataclass(frozen=True)
class Shape:
    """Two inputs; two kinds of outputs, three each."""

    width: int = 16
    depth: int = 1

    def build(self, rngs: nnx.Rngs) -> Perceptron:
        return Perceptron(2, 6, self.width, self.depth, rngs)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Points(Stateless):
    """A lesson: `[N, 2]` points and `[N, 6]` targets, with or without noise."""

    points: jax.Array
    targets: jax.Array
    scale: jax.Array
    num_train: jax.Array
    noise: float = dataclasses.field(metadata={"static": True}, default=0.0)
    shape: Shape = dataclasses.field(metadata={"static": True}, default=Shape())

    def _told(self, rows: jax.Array, key: jax.Array) -> jax.Array:
        return self.targets[rows] + self.noise * jax.random.normal(key, (len(rows), 6))

    def loss(self, weights: Weights, carried: Carried, step: jax.Array) -> jax.Array:
        first, second = jax.random.split(jax.random.fold_in(jax.random.key(0), step))
        rows = jax.random.randint(first, (BATCH_SIZE,), 0, self.num_train)
        return jnp.mean(
            jnp.square(evaluate(self.shape, weights, self.points[rows]) - self._told(rows, second))
        )

    def rounds(self, num_examples: int, draws: int) -> int:
        return -(-draws // num_examples) if self.noise else 1

    @property
    def evaluated(self) -> int:
        return 16

    def errors(self, weights: Weights, rows: jax.Array, batch: jax.Array) -> tuple[jax.Array, jax.Array]:
        targets = self._told(rows, jax.random.fold_in(jax.random.key(1), batch))
        squares = jnp.square(evaluate(self.shape, weights, self.points[rows]) - targets).mean(axis=1)
        return squares, jnp.full_like(squares, self.noise**2)


def make(count: int, num_train: int, seed: int = 0, noise: float = 0.0) -> Points:
    """The first points do not depend on the number of points."""
    points = np.random.default_rng(seed).uniform(-1, 1, (count, 2)).astype(np.float32)
    x, y = points.T
    targets = np.stack([x, y, x * y, x + y, x**2, 0 * x + 0.5], axis=1)
    arrays = map(jnp.asarray, (points, targets, np.float32(4), np.int32(num_train)))
    return Points(*arrays, noise=noise)


def begin(lesson: Points, counts: tuple[int, int], keeper: TrainingFolder | None = None) -> Trainer:
    weights = initial_weights(lesson.shape, 0)
    return Trainer(CONFIG, lesson, weights, Errors(lesson, *counts), keeper, 0.0)


def final_errors(taught: Trainer, lesson: Points, counts: tuple[int, int]) -> tuple[float, float]:
    return Errors(lesson, *counts).final(taught.progress.weights)


def open_folder(path: pathlib.Path, **described: Any) -> TrainingFolder:
    pytest.importorskip("orbax.checkpoint")
    return TrainingFolder(path, {"game": "points", "training": described}, POINTS)


def nothing(step: int) -> None:
    pass


def same(first: Any, second: Any) -> bool:
    return jax.tree.all(jax.tree.map(np.array_equal, first, second))


@pytest.fixture(autouse=True)
def in_float32():
    with precision(np.float32):
        yield


def test_it_learns_and_its_errors_are_in_payoff_units():
    lesson = make(200, 150)
    taught = begin(lesson, (150, 200))
    before = final_errors(taught, lesson, (150, 200))
    taught.train(nothing)
    off = 4 * (np.asarray(evaluate(lesson.shape, taught.progress.weights, lesson.points)) - lesson.targets)
    expected = [np.sqrt(np.mean(part**2)) for part in (off[:150], off[150:])]
    np.testing.assert_allclose(final_errors(taught, lesson, (150, 200)), expected, rtol=1e-5)
    assert max(expected) < min(before) / 2
    assert [row["step"] for row in taught.log] == [20, 40, 60]
    np.testing.assert_allclose(taught.log[-1]["heldout_rmse"], expected[1], rtol=1e-5)
    assert np.isnan(Errors(lesson, 150, 200).rmse(taught.progress.weights, 7, 7, 1))


def test_noisy_targets_are_looked_at_often_enough(monkeypatch: pytest.MonkeyPatch):
    exact, noisy = make(50, 50), make(50, 50, noise=0.5)
    plain, drawn = (Errors(lesson, 50, 50) for lesson in (exact, noisy))
    weights = initial_weights(Shape(), 0)
    rounds: list[int] = []
    original = errors.mean_square

    def spy(*args: Any) -> Any:
        rounds.append(int(args[-1]))
        return original(*args)

    monkeypatch.setattr(errors, "mean_square", spy)
    np.testing.assert_allclose(
        drawn.rmse(weights, 0, 50, 20_001), plain.rmse(weights, 0, 50, 20_001), rtol=0.02
    )
    assert rounds == [401, 1]


# --- in several calls -------------------------------------------------------------------


def test_stops_between_parts_change_nothing_but_the_rows(tmp_path: pathlib.Path):
    """A checkpoint is saved when a call ends, also between two multiples of `every`."""
    lesson, told = make(40, 30), list[int]()
    whole, parts = begin(lesson, (30, 40)), begin(lesson, (30, 40), open_folder(tmp_path))
    whole.train(nothing)
    parts.train(told.append, until=27)
    assert last_step(tmp_path) == 27 and int(parts.progress.step) == 27
    assert [row["step"] for row in json.loads((tmp_path / LOG).read_text())] == [20, 27]
    parts.train(told.append, until=10)
    assert int(parts.progress.step) == 27, "what is done stays"
    parts.train(told.append, until=1000)
    assert told == [0, 20, 27, 27, 27, 40, 60]
    assert same(parts.progress.weights, whole.progress.weights)
    assert [row["step"] for row in parts.log] == [20, 27, 40, 60]
    mean = (7 * parts.log[1]["loss"] + 13 * parts.log[2]["loss"]) / 20
    np.testing.assert_allclose(mean, whole.log[1]["loss"], rtol=1e-5)


def teach(keeper: TrainingFolder | None) -> Trainer:
    """More and more examples, with other held-out ones each time."""
    first, second = make(40, 30), make(80, 70)
    taught = begin(first, (30, 40), keeper)
    taught.train(nothing, until=30)
    taught.lesson, taught.measure = second, Errors(second, 70, 80)
    taught.train(nothing)
    return taught


@pytest.mark.slow
def test_a_lesson_may_be_replaced_by_a_larger_one(tmp_path: pathlib.Path):
    taught = teach(open_folder(tmp_path))
    alone = begin(make(40, 30), (30, 40))
    alone.train(nothing, until=30)
    assert alone.log[1]["heldout_rmse"] == taught.log[1]["heldout_rmse"]
    by_hand = trainer.advance(alone.progress, make(80, 70), jnp.int32(60), schedule=CONFIG.schedule)
    assert same(by_hand.weights, taught.progress.weights)
    alone = begin(make(40, 30), (30, 40))
    alone.train(nothing)
    assert not same(alone.progress.weights, taught.progress.weights), "the second lesson taught nothing"
    off = 4 * np.asarray(
        evaluate(Shape(), taught.progress.weights, make(80, 70).points) - make(80, 70).targets
    )
    expected = [np.sqrt(np.mean(part**2)) for part in (off[:70], off[70:])]
    np.testing.assert_allclose(final_errors(taught, make(80, 70), (70, 80)), expected, rtol=1e-5)
    np.testing.assert_allclose(taught.log[-1]["heldout_rmse"], expected[1], rtol=1e-5)


@pytest.mark.parametrize("count", [1, 2, 3])  # in the first lesson, at its end, in the second
@pytest.mark.slow
def test_a_training_interrupted_between_lessons_resumes_to_the_same_weights(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, count: int
):
    save, left = TrainingFolder.save, itertools.count(1)

    def interrupted(self: TrainingFolder, *args: Any) -> None:
        save(self, *args)
        if next(left) == count:
            raise KeyboardInterrupt

    undisturbed, keeper = teach(None), open_folder(tmp_path)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(TrainingFolder, "save", interrupted)
        teach(keeper)
    assert last_step(tmp_path) == (20, 30, 40)[count - 1]
    resumed = teach(open_folder(tmp_path))
    assert same(resumed.progress.weights, undisturbed.progress.weights)
    assert [row["step"] for row in resumed.log] == [20, 30, 40, 60]
    assert [row["loss"] for row in resumed.log] == [row["loss"] for row in undisturbed.log]


def test_equal_shapes_compile_nothing():
    taught = begin(make(40, 20), (20, 40))
    taught.train(nothing, until=20)
    before = trainer.advance.jitted._cache_size()
    taught.lesson = make(40, 30, seed=1)
    taught.train(nothing)
    assert trainer.advance.jitted._cache_size() == before


# --- a lesson with state ---------------------------------------------------------------


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Anchored(Points):
    """Points near a network that follows: its weights move towards the trained ones before each step."""

    def init(self, weights: Weights) -> Carried:
        return {"followed": weights, "steps": jnp.int32(0)}

    def carry(self, carried: Carried, weights: Weights, step: jax.Array) -> Carried:
        followed = jax.tree.map(lambda old, new: 0.75 * old + 0.25 * new, carried["followed"], weights)
        return {"followed": followed, "steps": carried["steps"] + 1}

    def loss(self, weights: Weights, carried: Carried, step: jax.Array) -> jax.Array:
        distance = sum(
            jnp.sum(jnp.square(new - old))
            for new, old in zip(jax.tree.leaves(weights), jax.tree.leaves(carried["followed"]), strict=True)
        )
        return super().loss(weights, None, step) + 0.1 * distance


def anchored() -> Anchored:
    plain = make(40, 30)
    return Anchored(plain.points, plain.targets, plain.scale, plain.num_train)


@pytest.mark.slow
def test_the_state_of_a_lesson_is_updated_before_every_loss():
    """The same steps by hand, one after the other, with the optimiser's update."""
    lesson = anchored()
    taught = begin(lesson, (30, 40))
    taught.train(nothing, until=5)
    weights: Any = initial_weights(lesson.shape, 0)
    optimiser = make_optimiser(CONFIG.schedule)
    state, carried = optimiser.init(weights), lesson.init(weights)
    for step in range(5):
        carried = lesson.carry(carried, weights, jnp.int32(step))
        gradient = jax.grad(lesson.loss)(weights, carried, jnp.int32(step))
        with jax.numpy_dtype_promotion("standard"):
            updates, state = optimiser.update(gradient, state, weights)
        weights = optax.apply_updates(weights, updates)
    close = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6)
    jax.tree.map(close, taught.progress.weights, weights)
    jax.tree.map(close, taught.progress.carried, carried)
    assert int(taught.progress.carried["steps"]) == 5


def test_the_state_of_a_lesson_is_in_the_checkpoint(tmp_path: pathlib.Path):
    whole, parts = begin(anchored(), (30, 40)), begin(anchored(), (30, 40), open_folder(tmp_path))
    whole.train(nothing)
    parts.train(nothing, until=27)
    resumed = begin(anchored(), (30, 40), open_folder(tmp_path))
    assert same(resumed.progress.carried, parts.progress.carried)
    resumed.train(nothing)
    assert same(resumed.progress.carried, whole.progress.carried)
    assert same(resumed.progress.weights, whole.progress.weights)


# --- schedule ---------------------------------------------------------------------------


@pytest.mark.parametrize(("average", "power"), [(1.0, 0), (0.5, 1)])
def test_weights_are_averaged(average: float, power: int, tmp_path: pathlib.Path):
    """By the step to the power of 1 / average - 1; a checkpoint holds the average."""
    schedule = dataclasses.replace(CONFIG.schedule, average=average)
    lesson, weights = make(40, 40), initial_weights(Shape(), 0)
    progress, last = trainer.begin(weights, schedule), []
    for step in range(1, 13):
        progress = trainer.advance(progress, lesson, jnp.int32(step), schedule=schedule)
        last.append(np.asarray(progress.weights["inward"]["kernel"]))
    plain = trainer.begin(initial_weights(Shape(), 0), CONFIG.schedule)
    plain = trainer.advance(plain, lesson, jnp.int32(12), schedule=CONFIG.schedule)
    assert same(plain.weights, progress.weights) and plain.network is plain.weights
    expected = np.average(last, axis=0, weights=np.arange(1.0, 13) ** power)
    np.testing.assert_allclose(progress.network["inward"]["kernel"], expected, rtol=1e-4, atol=1e-6)
    folder = open_folder(tmp_path)
    folder.save(progress, [])
    assert same(
        folder.load(trainer.begin(initial_weights(Shape(), 0), schedule))[0].average, progress.average
    )


@pytest.mark.parametrize("steps", [1, 40, 200])
def test_the_learning_rate_rises_then_falls_as_a_cosine(steps: int):
    rate = learning_rate(LearningSchedule(learning_rate=5.0, steps=steps))
    rates = [float(jnp.asarray(rate(step))) for step in range(steps)]
    warm_up = int(0.02 * steps)
    rising = [5 * (step + 1) / (warm_up + 1) for step in range(warm_up)]
    falling = [2.5 * (1 + np.cos(np.pi * step / (steps - warm_up))) for step in range(steps - warm_up)]
    np.testing.assert_allclose(rates, rising + falling, rtol=1e-5, atol=1e-5)


# --- networks and folders of another kind -----------------------------------------------


@pytest.mark.parametrize("depth", [0, 3])
def test_weights_are_counted(depth: int):
    leaves = jax.tree.leaves(abstract_weights(Shape(width=5, depth=depth)))
    assert count_weights(2, 6, 5, depth) == sum(leaf.size for leaf in leaves)


def test_a_folder_of_another_kind(tmp_path: pathlib.Path):
    with pytest.raises(ValueError, match="does not exist"):
        read_description(tmp_path / "none", POINTS)
    like, keeper = abstract_weights(Shape()), open_folder(tmp_path, seed=1)
    with pytest.raises(ValueError, match=r"point network '.*' has no checkpoint yet"):
        restore_weights(tmp_path, like, POINTS)
    taught = begin(make(40, 30), (30, 40), keeper)
    taught.train(nothing)
    description = read_description(tmp_path, POINTS)
    assert (description["game"], description["training"]) == ("points", {"seed": 1})
    assert same(restore_weights(tmp_path, like, POINTS), taught.progress.weights)
    with pytest.raises(ValueError, match="seed"):
        open_folder(tmp_path, seed=2)
    with pytest.raises(ValueError, match="version"):
        TrainingFolder(tmp_path, {"training": {}}, KIND)
    with pytest.raises(ValueError, match="damaged"):
        with parsing(tmp_path, POINTS):
            description["x"]
