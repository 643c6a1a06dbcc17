"""Policy networks learn a table, or by mirror descent with exact values; compared with tables."""

from __future__ import annotations

import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgadget
from jaxgadget.games.examples import matching_pennies_forfeit
from jaxgadget.learn import policy_training
from jaxgadget.learn.decisions import Decisions
from jaxgadget.learn.distillation import Distil
from jaxgadget.learn.mirror_descent import ActionValues, MirrorDescent
from jaxgadget.learn.options import PolicyTrainingConfig
from jaxgadget.learn.policy_lesson import PolicyTask
from jaxgadget.learn.policy_training import PolicyTraining, train_policy
from jaxgadget.networks.checkpoints import last_step
from jaxgadget.networks.perceptron import Weights, abstract_weights, evaluate
from jaxgadget.policy.blueprints import make_blueprints
from jaxgadget.policy.evaluate import nash_conv
from jaxgadget.policy.network import load_policy, policy_shape
from jaxgadget.policy.policy import Policy
from jaxgadget.tree.history import HistoryTree, enumerate_game
from jaxgadget.util.precision import precision
from tests.reference import mmd

GOOFSPIEL = "goofspiel(num_cards=3,imp_info=True)"
SMALL = PolicyTrainingConfig(steps=60, width=8, learning_rate=1e-2, every=20)


def tree_of(name: str) -> HistoryTree:
    return enumerate_game(jaxgadget.load(name))


def task_of(tree: HistoryTree, config: PolicyTrainingConfig = SMALL) -> PolicyTask:
    machine: Any = tree.game
    shape = policy_shape(machine, config.width, config.depth)
    return PolicyTask(machine=machine, shape=shape, config=config, decisions=Decisions.of(tree))


def random_weights(task: PolicyTask, seed: int) -> Weights:
    generator = np.random.default_rng(seed)
    like = abstract_weights(task.shape)
    return {
        "policy": jax.tree.map(
            lambda leaf: jnp.asarray(generator.normal(scale=0.5, size=leaf.shape), jnp.float32), like
        )
    }


def same(first: PolicyTraining, second: PolicyTraining) -> bool:
    return jax.tree.all(jax.tree.map(np.array_equal, first.policy.weights, second.policy.weights))


# --- mirror descent ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["kuhn_poker", GOOFSPIEL, "leduc_poker(num_ranks=2)"])
def test_values_of_actions_are_those_of_the_definition(name: str):
    tree = tree_of(name)
    decisions, policy = Decisions.of(tree), Policy.dirichlet(tree, 3)
    expected = mmd.action_values(policy)
    with precision(np.float32):
        table = jnp.asarray(decisions.table(policy), jnp.float32)
        found = np.asarray(jax.jit(ActionValues.of(decisions).__call__)(table))
    assert found[~decisions.legal].max(initial=0) == 0
    for cells, rows in zip(decisions.cells, expected, strict=True):
        np.testing.assert_allclose(found.reshape(-1)[cells], rows, atol=2e-5)


def test_values_are_0_where_the_opponent_never_plays_to():
    tree = tree_of("kuhn_poker")
    decisions = Decisions.of(tree)
    passes = Policy.from_function(tree, lambda player, infoset, width: [1, 0], "passes")
    with precision(np.float32):
        values = ActionValues.of(decisions)(jnp.asarray(decisions.table(passes), jnp.float32))
    after_bet = np.array([name.endswith("b") for names in tree.infoset_names for name in names])
    assert (np.asarray(values)[after_bet] == 0).all() and (np.asarray(values)[~after_bet] != 0).any()


def test_the_gradient_is_that_of_the_objective():
    """dL / d logit is π - π*, π* being the table's next policy; then the chain rule."""
    tree = tree_of("kuhn_poker")
    task = task_of(tree)
    weights, old, step = random_weights(task, 0), random_weights(task, 1), jnp.int32(7)
    with precision(np.float32):
        lesson: Any = MirrorDescent(eta=0.5, alpha=3, inner=2).lesson(task)
        carried = lesson.carry(lesson.init(old), old, jnp.int32(6))
        gradient = jax.grad(lesson.loss)(weights, carried, step)["policy"]
        inputs, decisions = lesson.batches.inputs, task.all_decisions("mmd")
        logits, pull = jax.vjp(lambda w: evaluate(task.shape, w, inputs), weights["policy"])

    def softmax(x: Any) -> Any:
        return np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)

    pi = softmax(np.asarray(logits, np.float64))
    before = softmax(np.asarray(evaluate(task.shape, old["policy"], inputs), np.float64))
    policy, root = decisions.policy(before, "old"), 4**0.5  # steps 6 and 7 are of the fourth iteration
    best = decisions.table(mmd.improve(policy, eta=0.5 / root, alpha=3 / root))
    slope = (pi - best) / len(pi)
    with precision(np.float32):
        (expected,) = pull(jnp.asarray(slope, jnp.float32))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-6), gradient, expected)


def test_an_iteration_of_many_steps_is_that_of_the_table():
    tree = tree_of("kuhn_poker")
    config = PolicyTrainingConfig(steps=600, width=32, learning_rate=1e-2)
    found = train_policy(tree, MirrorDescent(eta=2, alpha=0.5, inner=600), config=config)
    expected = mmd.improve(Policy.uniform(tree), eta=2, alpha=0.5)
    for rows, others in zip(found.policy.on(tree).probabilities, expected.probabilities, strict=True):
        np.testing.assert_allclose(rows, others, atol=2e-3)


def test_tables_approach_an_equilibrium():
    """The oracle itself: Kuhn poker with the paper's schedule, η = α = 1 / √t."""
    tree = tree_of("kuhn_poker")
    found = [
        float(nash_conv(mmd.mirror_descent(tree, n, lambda t: t**-0.5, lambda t: t**-0.5))[0])
        for n in (0, 100, 400)
    ]
    assert found[1] < found[0] / 5 and found[2] < found[1] / 1.8


def test_networks_approach_an_equilibrium():
    tree = tree_of("kuhn_poker")
    config = PolicyTrainingConfig(steps=4000, width=32, learning_rate=3e-3)
    found = train_policy(tree, MirrorDescent(inner=10), config=config)
    np.testing.assert_allclose(nash_conv(found.policy, tree=tree)[0], found.nash_conv, rtol=1e-5)
    assert found.nash_conv < 0.08 and found.log["nash_conv"].iloc[-1] == found.nash_conv


# --- distillation -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["kuhn_poker", GOOFSPIEL])
def test_a_table_is_learnt(name: str):
    tree = tree_of(name)
    table = make_blueprints(tree, "cfr:300")
    config = PolicyTrainingConfig(steps=1500, width=64, learning_rate=3e-3)
    found = train_policy(tree, Distil(table), config=config)
    decisions = Decisions.of(tree)
    rows, learnt = decisions.table(table), decisions.table(found.policy.on(tree))
    kl = np.where(rows > 0, rows * np.log(np.where(rows > 0, rows, 1) / np.where(rows > 0, learnt, 1)), 0)
    np.testing.assert_allclose(kl.sum(axis=1).mean(), found.log["loss"].iloc[-1], rtol=0.2, atol=1e-6)
    assert kl.sum(axis=1).mean() < 2e-3
    assert found.nash_conv < nash_conv(table)[0] + 0.02


def test_small_batches_go_through_all_decisions():
    tree = tree_of(GOOFSPIEL)
    lesson: Any = Distil("uniform").lesson(task_of(tree, PolicyTrainingConfig(batch_size=7)))
    count = len(lesson.batches.order)
    with precision(np.float32):
        rows = [lesson.batches.rows(jnp.int32(step)) for step in range(count)]
    assert (np.bincount(np.concatenate(rows)) == 7).all()


# --- folders, and what is refused -------------------------------------------------------


@pytest.mark.parametrize("method", [Distil("cfr:20"), MirrorDescent(inner=7)], ids=["distil", "mmd"])
def test_interrupted_it_ends_with_the_same_weights(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, method: Any
):
    """Also where an iteration of mirror descent is under way at the checkpoint."""
    pytest.importorskip("orbax.checkpoint")
    tree = tree_of("kuhn_poker")
    whole = train_policy(tree, method, config=SMALL)
    save = policy_training.Trainer.train

    def stopped(self: Any, report: Any) -> None:
        save(self, report, 20)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(policy_training.Trainer, "train", stopped)
        train_policy(tree, method, config=SMALL, folder=tmp_path / "run")
    assert last_step(tmp_path / "run") == 20
    with pytest.raises(ValueError, match="not finished"):
        load_policy(tmp_path / "run", tree.game)
    resumed = train_policy(tree, method, config=SMALL, folder=tmp_path / "run")
    assert same(resumed, whole)
    assert list(resumed.log["nash_conv"]) == list(whole.log["nash_conv"])
    loaded = load_policy(tmp_path / "run", tree.game)
    for rows, others in zip(loaded.on(tree).probabilities, whole.policy.on(tree).probabilities, strict=True):
        np.testing.assert_array_equal(rows, others)
    for other, config in (
        (Distil("cfr:21"), SMALL),
        (MirrorDescent(inner=8), SMALL),
        (method, PolicyTrainingConfig(steps=60, width=8, learning_rate=2e-2)),
    ):
        with pytest.raises(ValueError, match="holds another training"):
            train_policy(tree, other, config=config, folder=tmp_path / "run")


def test_bad_arguments():
    tree = tree_of("kuhn_poker")
    bad: Any = {"eta": 0, "alpha": -1, "inner": 0}
    for name, value in bad.items():
        with pytest.raises(ValueError, match=f"{name}="):
            MirrorDescent(**{name: value})
    with pytest.raises(ValueError, match="2 lanes"):
        train_policy(tree, Distil(["uniform", "cfr:1"]), config=SMALL)
    with pytest.raises(ValueError, match="not for 'kuhn_poker'"):
        train_policy(tree, Distil(Policy.uniform(tree_of(GOOFSPIEL))), config=SMALL)
    with pytest.raises(ValueError, match=r"game='kuhn_poker': expected a game, from load"):
        train_policy("kuhn_poker", MirrorDescent(), config=SMALL)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="expected a StateMachine"):
        train_policy(matching_pennies_forfeit(), MirrorDescent(), config=SMALL)
    with pytest.raises(ValueError, match="learning_rate"):
        config = PolicyTrainingConfig(steps=300, width=8, learning_rate=1e30)
        train_policy(tree, MirrorDescent(), config=config)
    with pytest.raises(ValueError, match="config="):
        train_policy(tree, MirrorDescent(), config=jaxgadget.TrainingConfig())


def test_games_that_cannot_be_enumerated_are_refused():
    with pytest.raises(ValueError, match="method='mmd' needs all decisions"):
        train_policy(jaxgadget.load("kuhn_poker"), MirrorDescent(), config=SMALL, max_histories=10)
