"""Public trees: policies, solutions, files and refinements equal those in the histories."""

import pathlib

import numpy as np
import pytest

from jaxgadget import (
    Full,
    HistoryTree,
    MaxMargin,
    Opponent,
    Policy,
    Resolving,
    Unsafe,
    best_response,
    data_biased_response,
    enumerate_game,
    evaluate_policy,
    load,
    refine,
    respond,
)
from jaxgadget.core.solver import Solver
from jaxgadget.gadgets.alternative import AbstractValues
from jaxgadget.policy.policy import OLD_HANDS_FILE
from jaxgadget.tree.public import PublicTree, public_tree
from jaxgadget.util.store import write_archive

TOLERANCE = 1e-12


@pytest.fixture(scope="module")
def both(request: pytest.FixtureRequest) -> tuple[HistoryTree, PublicTree]:
    name = getattr(request, "param", "kuhn_poker")
    return enumerate_game(load(name)), public_tree(load(name))


def two_policies(tree: HistoryTree) -> Policy:
    return Policy.stack([Policy.dirichlet(tree, 0), Policy.dirichlet(tree, 1, 0.5)])


def assert_same(by_hands: Policy, policy: Policy, tolerance: float = TOLERANCE) -> None:
    for one, other in zip(by_hands.on(policy.histories).probabilities, policy.probabilities, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)


def test_values_and_best_responses(both):
    tree, public = both
    policy = two_policies(tree)
    by_hands = policy.on(public)
    assert_same(by_hands, policy, 0.0)
    ours, theirs = evaluate_policy(by_hands), evaluate_policy(policy)
    np.testing.assert_allclose(ours.value, theirs.value, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(ours.best_response_values, theirs.best_response_values, rtol=0, atol=TOLERANCE)
    for player in (0, 1):
        answer, expected = best_response(by_hands, player), best_response(policy, player)
        np.testing.assert_allclose(answer.value, expected.value, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("both", ["kuhn_poker", "leduc_poker"], indirect=True)
def test_files(both, tmp_path: pathlib.Path):
    tree, public = both
    policy = two_policies(tree)
    policy.on(public).save(tmp_path / "hands.npz")
    assert_same(Policy.load(tmp_path / "hands.npz", public), policy, 0.0)
    assert_same(Policy.load(tmp_path / "hands.npz", tree), policy, 0.0)
    policy.save(tmp_path / "histories.npz")
    assert_same(Policy.load(tmp_path / "histories.npz", public_tree(tree)), policy, 0.0)
    with pytest.raises(ValueError, match="histories"):
        Policy.load(tmp_path / "histories.npz", public)
    save_as_before(policy.on(public), tmp_path / "old.npz")
    assert_same(Policy.load(tmp_path / "old.npz", public), policy, 0.0)


def save_as_before(policy: Policy, path: pathlib.Path) -> None:
    """A file of version 0.4: `[actions at public nodes, hands, lanes]`, 1 for impossible hands."""
    tree = public_tree(policy.tree)
    arrays = {}
    for player, rows in enumerate(policy.probabilities):
        sequence = tree.sequence_to(player, np.flatnonzero(tree.action[player] >= 0))
        arrays[f"probabilities_{player}"] = np.where((sequence >= 0)[..., None], rows[sequence - 1], 1.0)
    header = {"game": tree.game.name, "labels": list(policy.labels)}
    write_archive(path, OLD_HANDS_FILE, header, arrays, compress=True)


def test_refine_against_models_with_checkpoints(both, tmp_path: pathlib.Path):
    tree, public = both
    policy, cut = two_policies(tree), "depth:1"
    gadgets = [Unsafe(), Resolving(epsilon=0.02), MaxMargin(), Full()]
    model = Opponent(Policy.dirichlet(tree, 3), 0.3)
    asked = {"opponent": model, "player": 1, "value": (-0.01, 0.01)}
    expected = refine(tree, cut, policy, gadgets, solver=Solver(iterations=5, dtype="float64"), **asked)
    solver = Solver(iterations=5, dtype="float64", checkpoint=tmp_path / "solve")
    for _ in range(2):  # the second time from checkpoints
        result = refine(public, cut, policy.on(public), gadgets, solver=solver, **asked)
        assert_same(result.policy, expected.policy)
        for name in ("refined_exploitability", "gain"):
            np.testing.assert_allclose(getattr(result, name), getattr(expected, name), rtol=0, atol=TOLERANCE)
    assert list((tmp_path / "solve").iterdir())


def test_histories_alone(both):
    tree, public = both
    gadget = Resolving(alternative=AbstractValues(Policy.uniform(tree)))
    with pytest.raises(ValueError, match="histories"):
        refine(public, "depth:1", Policy.uniform(public), gadget, iterations=1)


@pytest.mark.parametrize("method", [respond, data_biased_response])
def test_responses(both, method):
    tree, public = both
    model = Policy.dirichlet(tree, 3)
    asked = {"player": 1, "value": (-0.1, 0.0)}
    ours, theirs = (method(x, Opponent(model.on(x), 0.4), iterations=20, **asked) for x in (public, tree))
    for name in ("value_against_model", "guaranteed_value", "objective", "gap"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=0, atol=TOLERANCE)
    assert_same(ours.policy, theirs.policy)
