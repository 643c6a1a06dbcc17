"""Larger games: results by hands equal those in the histories."""

import numpy as np
import pytest

from jaxgadget import (
    Full,
    MaxMargin,
    Policy,
    RangePrior,
    Resolving,
    UniformPrior,
    Unsafe,
    refine,
)
from tests.hands import alike
from tests.hands.test_form import test_gradients_are_those_of_the_histories as check_gradients
from tests.reference.exact_hands import first_regrets
from tests.solving import settings
from tests.tree.test_hands import test_hands_in_histories_are_those_of_the_rules as check_hands

pytestmark = pytest.mark.optimised


@pytest.mark.parametrize("spec", alike.LONG)
def test_hands(spec: str):
    check_hands(spec)


@pytest.mark.parametrize("spec", alike.LONG)
def test_values_and_best_responses(spec: str):
    alike.check_evaluation(spec)


@pytest.mark.parametrize("spec", alike.LONG)
def test_gradients(spec: str):
    check_gradients(spec)


@pytest.mark.parametrize("spec", alike.LONG)
def test_iterates(spec: str):
    alike.check_iterations(spec, "cfr+")  # other rules: tests/hands, in Kuhn poker


CUTS = [
    ("kuhn_poker", "depth:1", "depth:1"),
    ("leduc_poker", "flop", "chance"),
    ("leduc_poker(num_ranks=5)", "flop", "chance"),
    ("leduc_poker(num_ranks=13,num_suits=4,suit_isomorphism=True)", "flop", "chance"),
    ("liars_dice(dice_sides=4)", "depth:2", "depth:2"),
    ("liars_dice", "depth:2", "depth:2"),
]
MERGED = ("liars_dice(numdice=2,dice_sides=3)", "depth:3", "depth:3")


@pytest.mark.parametrize(
    ("spec", "cut", "player"),
    [(*CUTS[0][:2], 0), (*CUTS[1][:2], 1), (*CUTS[4][:2], 0)],
)
def test_gadget_games(spec: str, cut: str, player: int):
    alike.check_refinement(spec, cut, player, 1e-10)


def test_gadget_games_of_merged_rolls():
    """220 subgames; rolls that differ only in order form one hand, with their total probability."""
    alike.check_refinement(*MERGED[:2], 1, 1e-10, gadgets=alike.several_gadgets()[:4])


def test_iterates_differ_in_ties_alone():
    """If a blueprint's range is tiny, iterates of the two forms diverge, because regrets are rounding errors.

    In exact numbers actions nearly tie in these subgames: regrets are the last digits of floating-point
    values, and regret matching turns them into probabilities.
    """
    (spec, cut, _), player = MERGED, 1
    policy, by_hand = alike.random_policies(spec)
    one, same = policy.lane(2), by_hand.lane(2)
    asked = {"player": player, "iterations": 2, "dtype": "float64", "value": (-0.01, 0.01)}
    expected = refine(one.tree, cut, one, Unsafe(), **settings(**asked)).policy.probabilities[player]
    public = alike.public(spec)
    result = refine(public, cut, one.on(public), Unsafe(), **settings(**asked))
    ours = Policy(one.tree, (one.probabilities[0], expected), one.labels).on(public)
    difference = np.abs(ours.probabilities[player] - result.policy.probabilities[player])[:, 0]
    infosets = public.infosets[player]
    nodes = infosets.history[infosets.infoset[1:][difference > 1e-9]]
    parted = np.unique(result.forest.cut.root[nodes])
    assert 0 < len(parted) < 10
    for root in parted.tolist():
        regrets = first_regrets(same, root, player)
        shares = [
            float(abs(regret) / earned)
            for rows in regrets
            for row, earned in rows.values()
            for regret in row
            if regret
        ]
        assert min(shares) < 2.0**-48


@pytest.mark.parametrize("player", [0, 1])
@pytest.mark.parametrize(("spec", "cut", "where"), [*CUTS, MERGED])
def test_ranges(spec: str, cut: str, where: str, player: int):
    alike.check_ranges(spec, cut, where, player)


@pytest.mark.parametrize(("spec", "cut", "player"), [(*CUTS[0][:2], 1), (*CUTS[1][:2], 0), (*CUTS[4][:2], 1)])
def test_linear_programs(spec: str, cut: str, player: int):
    alike.check_programs(spec, cut, player)


def test_the_range_of_a_model_is_a_prior():
    """As in the histories, also above the cut."""
    policy, _ = alike.random_policies("kuhn_poker")
    public = alike.public("kuhn_poker")
    by_hand = policy.on(public)
    asked = {"player": 1, "iterations": 3, "dtype": "float64", "value": (-1 / 18, -1 / 18)}
    ours, theirs = (
        [MaxMargin(RangePrior(model), 0.2), Full(RangePrior(model), 0.2)]
        for model in (by_hand.lane(1), policy.lane(1))
    )
    expected = refine(policy.tree, "depth:1", policy.lane(0), theirs, **settings(**asked))
    result = refine(public, "depth:1", by_hand.lane(0), ours, **settings(**asked))
    for rows, other in zip(
        result.policy.on(policy.tree).probabilities, expected.policy.probabilities, strict=True
    ):
        np.testing.assert_allclose(rows, other, rtol=0, atol=1e-12)
    np.testing.assert_allclose(result.gap, expected.gap, rtol=0, atol=1e-12)


def test_nested_search():
    spec, player = "leduc_poker", 0
    gadgets = [Unsafe(), Resolving(epsilon=0.02), MaxMargin(UniformPrior(), 0.05)]
    alike.check_nested(spec, player, gadgets, 1e-10)
