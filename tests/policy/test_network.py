"""Policy networks as policies of states and of trees; folders that are refused."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import jaxgadget
from jaxgadget.games.examples import matching_pennies_forfeit
from jaxgadget.learn.optimiser import LearningSchedule
from jaxgadget.learn.trainer import begin
from jaxgadget.networks import checkpoints
from jaxgadget.networks.checkpoints import TrainingFolder
from jaxgadget.networks.perceptron import PerceptronShape, Weights, abstract_weights
from jaxgadget.policy import network
from jaxgadget.policy.blueprints import make_blueprints
from jaxgadget.policy.network import KIND, NetworkPolicy, load_policy, policy_shape, state_policy
from jaxgadget.policy.policy import Policy, as_policy
from jaxgadget.tree.history import HistoryTree, enumerate_game
from jaxgadget.tree.public import public_tree
from jaxgadget.util.compilation import compiled
from jaxgadget.util.precision import precision

GOOFSPIEL = "goofspiel(num_cards=3,imp_info=True)"
GAMES = ["kuhn_poker", GOOFSPIEL, "goofspiel(num_cards=3,points_order=descending)"]


def random_weights(shape: PerceptronShape, seed: int = 0) -> Weights:
    """Weights none of which is 0, so that every input matters."""
    generator = np.random.default_rng(seed)
    return jax.tree.map(
        lambda leaf: jnp.asarray(generator.normal(size=leaf.shape), jnp.float32), abstract_weights(shape)
    )


def make(name: str, **settings: int) -> NetworkPolicy:
    machine: Any = jaxgadget.load(name)
    shape = policy_shape(machine, **{"width": 8, "depth": 1, **settings})
    return NetworkPolicy(machine=machine, shape=shape, weights=random_weights(shape))


def by_definition(policy: NetworkPolicy, tree: HistoryTree, player: int, history: int) -> dict[int, float]:
    """Action → probability at a history: its state by replaying its moves, then the network in flax."""
    machine: Any = policy.machine
    path = [history]
    while path[-1]:
        path.append(int(tree.parent[path[-1]]))
    state = machine.start(1, np)
    for node in path[-2::-1]:
        state, _ = machine.step(state, tree.action[:, [node]])
    inputs = np.zeros(policy.shape.inputs, np.float32)
    inputs[:-2] = machine.features(state, player)[:, 0]
    inputs[-2 + player] = 1
    with precision(np.float32):
        module = policy.shape.build(nnx.Rngs(0))
        parameters = nnx.state(module)
        nnx.replace_by_pure_dict(parameters, policy.weights)
        nnx.update(module, parameters)
        logits = np.asarray(module(inputs[None])[0], np.float64)
    actions = np.flatnonzero(machine.legal(state, player)[:, 0])
    chosen = np.exp(logits[actions] - logits[actions].max())
    return dict(zip(actions.tolist(), (chosen / chosen.sum()).tolist(), strict=True))


@pytest.mark.parametrize("name", GAMES)
def test_rows_of_a_tree_are_the_networks_outputs_at_each_history(name: str):
    """At the last history of every infoset, too: features depend on the infostate alone."""
    policy, tree = make(name), enumerate_game(jaxgadget.load(name))
    table = policy.on(tree)
    assert table.labels == ("network",)
    for player in (0, 1):
        for history in np.flatnonzero(tree.infoset[player] >= 0)[
            :: max(1, tree.num_histories // 100)
        ].tolist():
            infoset = tree.infoset_names[player][tree.infoset[player, history]]
            found = table.action_probabilities(infoset, player=player)
            assert found == pytest.approx(by_definition(policy, tree, player, history), abs=1e-6)
    assert np.ptp(table.probabilities[0]) > 0.1


def test_inside_a_compiled_function_it_is_the_same():
    policy = make(GOOFSPIEL)
    state = policy.machine.start(3, np)
    state, _ = policy.machine.step(state, np.array([[-1, -1, -1], [-1, -1, -1], [0, 1, 2]]))
    bids = np.array([[0, 1, 2], [2, 1, 0], [-1, -1, -1]])
    state, _ = policy.machine.step(state, bids)
    state, _ = policy.machine.step(state, np.array([[-1, -1, -1], [-1, -1, -1], [1, 2, 0]]))

    def both(weights: Weights, state: Any) -> list[jax.Array]:
        probabilities = state_policy(policy.machine, policy.shape, weights)
        return [probabilities(state, player) for player in (0, 1)]

    with precision(np.float32):
        found = compiled(both)(policy.weights, jax.tree.map(jnp.asarray, state))
    for player in (0, 1):
        expected = policy(state, player)
        np.testing.assert_allclose(found[player], expected, atol=1e-6)
        assert (np.asarray(found[player])[~policy.machine.legal(state, player)] == 0).all()


def test_trees_that_are_truncated_or_by_hands():
    policy = make("kuhn_poker")
    whole = policy.on(enumerate_game(policy.machine))
    truncated = enumerate_game(policy.machine, depth=2)
    for tree in (truncated, public_tree(policy.machine)):
        for rows, expected in zip(policy.on(tree).probabilities, whole.on(tree).probabilities, strict=True):
            np.testing.assert_allclose(rows, expected, atol=1e-7)


def test_nearby_numbers_of_states_compile_once():
    policy = make("kuhn_poker")
    state = policy.machine.start(200, np)
    policy(policy.machine.start(65, np), 0)
    before = network._log_policy.jitted._cache_size()
    for n in (66, 100, 128):
        policy(policy.machine.start(n, np), 1)
    assert network._log_policy.jitted._cache_size() == before
    assert policy(state, 0).shape == (2, 200)


# --- folders ----------------------------------------------------------------------------


def write(
    folder: pathlib.Path, policy: NetworkPolicy, steps: int = 5, step: int = 5, **others: PerceptronShape
) -> NetworkPolicy:
    """A folder with a checkpoint; with weights of other networks beside the policy's."""
    pytest.importorskip("orbax.checkpoint")
    weights = {"policy": policy.weights} | {name: random_weights(shape) for name, shape in others.items()}
    keeper = TrainingFolder(folder, policy.describe({"steps": steps}, others), KIND)
    schedule = LearningSchedule(learning_rate=0.1, steps=steps)
    keeper.save(dataclasses.replace(begin(weights, schedule), step=jnp.int32(step)), [])
    return policy


@pytest.mark.parametrize("critic", [False, True])
def test_a_folder_is_a_blueprint(tmp_path: pathlib.Path, critic: bool):
    others = {"critic": PerceptronShape(inputs=7, outputs=1, width=4, depth=0)} if critic else {}
    policy = write(tmp_path / "trained", make("kuhn_poker"), **others)
    tree = enumerate_game(policy.machine)
    expected = policy.on(tree)
    loaded = load_policy(tmp_path / "trained", policy.machine)
    name = str(tmp_path / "trained")
    for found, label in (
        (as_policy(loaded, tree), name),
        (make_blueprints(tree, f"file:{name}"), f"file:{name}"),
        (Policy.stack([loaded, "uniform"], tree=tree).lane(0), name),
    ):
        assert found.labels == (label,)
        for rows, others_rows in zip(found.probabilities, expected.probabilities, strict=True):
            np.testing.assert_array_equal(rows, others_rows)
    with pytest.raises(ValueError, match="which has no tree"):
        as_policy(loaded)
    solution = jaxgadget.refine(tree, "depth:2", loaded, jaxgadget.Resolving(), iterations=10)
    assert solution.policy.num_lanes == 1


def test_networks_of_other_games_are_refused(tmp_path: pathlib.Path):
    policy = write(tmp_path, make("goofspiel(num_cards=3)"))
    for name in ("kuhn_poker", "goofspiel(num_cards=4)", "goofspiel(num_cards=3,imp_info=True)"):
        game: Any = jaxgadget.load(name)
        with pytest.raises(ValueError, match=r"goofspiel\(num_cards=3\)' is for|is for 'goofspiel"):
            load_policy(tmp_path, game)
        tree = enumerate_game(game)
        with pytest.raises(ValueError, match=r"policy:.* is for 'goofspiel"):
            as_policy(policy, tree)
        with pytest.raises(ValueError, match=r"blueprint 'file:.*is for 'goofspiel"):
            make_blueprints(tree, f"file:{tmp_path}")
    with pytest.raises(ValueError, match="expected a StateMachine"):
        load_policy(tmp_path, matching_pennies_forfeit())


def test_networks_whose_training_did_not_end_well_are_refused(tmp_path: pathlib.Path):
    policy = make("kuhn_poker")
    TrainingFolder(tmp_path / "empty", policy.describe({"steps": 5}), KIND)
    with pytest.raises(ValueError, match="no checkpoint yet"):
        load_policy(tmp_path / "empty", policy.machine)
    write(tmp_path / "early", policy, steps=7)
    with pytest.raises(ValueError, match="not finished: its checkpoint is of step 5 of 7"):
        load_policy(tmp_path / "early", policy.machine)
    bad = jax.tree.map(lambda leaf: jnp.full_like(leaf, jnp.nan), policy.weights)
    write(tmp_path / "diverged", dataclasses.replace(policy, weights=bad))
    with pytest.raises(ValueError, match="not finite"):
        load_policy(tmp_path / "diverged", policy.machine)


def test_folders_with_something_else_are_refused(tmp_path: pathlib.Path):
    policy = make("kuhn_poker")
    with pytest.raises(ValueError, match="does not exist"):
        load_policy(tmp_path / "none", policy.machine)
    with pytest.raises(ValueError, match=r"has no network\.json"):
        make_blueprints(enumerate_game(policy.machine), f"file:{tmp_path}")
    write(
        tmp_path / "wider",
        dataclasses.replace(
            policy,
            shape=dataclasses.replace(policy.shape, inputs=9),
            weights=random_weights(dataclasses.replace(policy.shape, inputs=9)),
        ),
    )
    with pytest.raises(ValueError, match="has 9 inputs"):
        load_policy(tmp_path / "wider", policy.machine)
    write(tmp_path / "good", policy)
    record = tmp_path / "good" / checkpoints.DESCRIPTION
    described = json.loads(record.read_text())
    for change in ({"architecture": {}}, {"training": {}}, {"game": 3}):
        record.write_text(json.dumps(described | change))
        with pytest.raises(ValueError, match=r"damaged|is for '3'"):
            load_policy(tmp_path / "good", policy.machine)
