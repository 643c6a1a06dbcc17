"""Public subgames re-solved by hands: equal to those in the histories, or refused."""

import dataclasses
import re
from collections.abc import Sequence

import numpy as np
import pytest

from jaxgadget import (
    ArrayPrior,
    ArrayValues,
    NoPrior,
    Policy,
    Resolving,
    Solver,
    UniformPrior,
    public_tree,
    refine,
    solve,
)
from jaxgadget.games.hands import PublicEnds
from jaxgadget.subgames.prepare import prepare
from jaxgadget.tree.cut import cut
from jaxgadget.tree.forest import build_forest
from jaxgadget.tree.public_form import keep_nodes
from jaxgadget.util.arrays import FloatArray
from tests.hands import alike
from tests.hands.test_payoff import kuhn_by_operators

KUHN_VALUE = (-1 / 18, -1 / 18)


def blueprint() -> Policy:
    return alike.random_policies("kuhn_poker")[0].on(alike.public("kuhn_poker"))


def test_linear_programs_are_those_of_the_histories():
    """Values are unique, strategies are not; the chosen ε agrees, too."""
    alike.check_programs("kuhn_poker", "depth:1", 0)


@pytest.mark.slow
def test_arrays_have_rows_for_possible_hands_alone():
    """In Leduc below a public card a user's array has five hands; the sixth is impossible and gets 0."""
    tree = alike.public("leduc_poker")
    nodes = cut(tree, "chance").roots[:1]
    forest = build_forest(tree, nodes)
    best_response_values = prepare(forest, 0, Policy.uniform(tree)).ranges.cbv[forest.roots[1].row >= 0]
    assert best_response_values.shape == (5, 1)
    gadgets = [
        Resolving(NoPrior()),
        Resolving(NoPrior(), alternative=ArrayValues(best_response_values)),
        Resolving(UniformPrior()),
    ]
    solver = Solver(iterations=2, dtype="float64")
    result = refine(tree, nodes, Policy.uniform(tree), gadgets, solver=solver, value=(-0.1, 0.1))
    assert result.gap[0, 0] == result.gap[0, 1] > 0.01
    assert result.gadget_value[0, 0] == result.gadget_value[0, 1]
    with pytest.raises(ValueError, match=re.escape("expected [5] or [5, 1]")):
        refine(tree, nodes, Policy.uniform(tree), Resolving(ArrayPrior(np.ones(6))))


@pytest.mark.slow
def test_operators_have_subgames():
    """Also for matrix-free operators, and for operators with ends outside the subgames."""
    trees = alike.public("kuhn_poker"), public_tree(kuhn_by_operators())
    nodes = cut(trees[0], "depth:1").roots[1:]
    inside = cut(trees[1], nodes).root >= 0
    assert not all(inside[group.node].all() for group in trees[1].hands_game.ends)
    solver = Solver(iterations=10, dtype="float64")
    one, other = (
        refine(tree, nodes, blueprint().on(tree), Resolving(), solver=solver, value=KUHN_VALUE)
        for tree in trees
    )
    np.testing.assert_allclose(one.gap, other.gap, rtol=0, atol=1e-13)
    for first, second in zip(one.policy.probabilities, other.policy.probabilities, strict=True):
        np.testing.assert_allclose(first, second, rtol=0, atol=1e-12)


def test_only_nodes_below_are_kept():
    """With their tables; those that keep equally many nodes share a group."""
    tree = alike.public("leduc_poker")
    below = cut(tree, cut(tree, "chance").roots[:3]).root >= 0
    groups = keep_nodes(tree.hands_game.ends, below)
    before, after = _payoffs(tree.hands_game.ends), _payoffs(groups)
    assert sorted(after) == tree.nodes.ends[below[tree.nodes.ends]].tolist()
    for node, payoff in after.items():
        np.testing.assert_array_equal(payoff, before[node])
    assert len(groups) < sum(len(group.pays) for group in groups)


def _payoffs(groups: Sequence[PublicEnds]) -> dict[int, FloatArray]:
    """The payoff of all pairs of hands by node."""
    return {
        node: scale * table
        for group in groups
        for nodes, scales, table in zip(*group, strict=True)
        for node, scale in zip(nodes.tolist(), scales.tolist(), strict=True)
    }


def test_cuts():
    tree = alike.public("leduc_poker")
    assert cut(tree, "depth:0").roots.tolist() == [0]
    assert cut(tree, "chance").num_subgames == 30
    moves = {len(tree.moves(node)) for node in cut(tree, "depth:2").roots.tolist()}
    assert moves == {2, 3}  # past the card, if there is one


def test_games_without_a_table_of_deals():
    tree = public_tree(dataclasses.replace(alike.public("kuhn_poker").hands_game, deals=None))
    assert solve(tree, iterations=2).iterations == 2
    with pytest.raises(ValueError, match="deals of kuhn_poker are not tabulated"):
        refine(tree, "depth:1", blueprint().on(tree), Resolving())
