"""Limits of precision: roots of tiny reach, and overflow."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

import jaxgadget
from jaxgadget import MaxMargin, NoPrior, Policy, Resolving
from jaxgadget.subgames.prepare import prepare
from jaxgadget.tree.cut import cut
from jaxgadget.tree.forest import build_forest
from jaxgadget.tree.history import HistoryTree
from jaxgadget.util.arrays import FloatArray
from tests.core import grove
from tests.reference import gadgets
from tests.reference.efg import from_tree
from tests.solving import settings
from tests.trees import tree_of


def rarely_passing(off: float) -> Policy:
    """Player 0 of Kuhn poker passes a Jack with probability `off`, other cards with 1/2."""
    tree = tree_of("kuhn_poker")
    first, second = (rows.copy() for rows in Policy.uniform(tree).probabilities)
    begin = tree.infosets[0].first_sequence[tree.infoset_names[0].index("0")] - 1
    first[begin : begin + 2, 0] = [off, 1 - off]
    return Policy(tree, (first, second), (f"{off:g}",))


def thresholds(off: float) -> FloatArray:
    """The regret thresholds at the resolving player's decisions, for max-margin."""
    forest = build_forest(tree_of("kuhn_poker"), "depth:2")
    games = grove.games(prepare(forest, 0, rarely_passing(off)), [MaxMargin(NoPrior())])
    return np.asarray(grove.problem_of(games).regret_tolerance[0].body)


def test_a_rare_root_does_not_switch_regret_matching_off() -> None:
    """Its margin is divided by a tiny reach; the regrets of other roots must not count as rounding then."""
    usual, rare, never = thresholds(0.5), thresholds(1e-12), thresholds(0.0)
    assert (usual > 0).any()
    assert (rare <= 3 * usual).all()
    np.testing.assert_allclose(rare, never, rtol=1e-6)


@pytest.mark.parametrize(
    ("off", "dtype"),
    [(1e-6, "float32"), (1e-16, "float64")],
)
def test_rare_roots_are_solved_in_either_precision(off: float, dtype: str) -> None:
    """Gadget values equal those of the explicit gadget game at the refined strategy."""
    blueprint = rarely_passing(off)
    tree, asked = blueprint.tree, [Resolving(NoPrior()), MaxMargin(NoPrior())]
    result = jaxgadget.refine(
        tree, "depth:2", blueprint, asked, solver=jaxgadget.Solver(iterations=300, dtype=dtype)
    )
    assert (result.gap <= 0.01 * tree.payoff_range).all()
    assert (result.refined_exploitability <= result.exploitability_bound + 1e-9).all()
    explicit = from_tree(tree)
    roots = cut(tree, "depth:2").roots.tolist()
    (subgame,) = gadgets.subgames(explicit, [roots], 0, grove.from_policy(blueprint, 0))
    for lane, kind in enumerate(("resolving", "max-margin")):
        found = gadgets.objective(kind, subgame, grove.from_policy(result.policy, lane))
        assert result.gadget_value[0, lane] == pytest.approx(found, abs=1e-9)


def hardly_ever(tree: HistoryTree, rarely: float = 1e-40) -> Policy:
    """Player 0 plays all actions but the first with a probability whose inverse overflows float32."""
    first, second = (rows.copy() for rows in Policy.uniform(tree).probabilities)
    infosets = tree.infosets[0]
    first[:] = rarely
    first[infosets.first_sequence - 1, 0] = 1 - rarely * (infosets.num_actions - 1)
    return Policy(tree, (first, second), ("hardly ever",))


def test_an_overflow_does_not_affect_other_lanes_and_names_the_remedy() -> None:
    target_gap = 1e-3
    tree = tree_of("goofspiel(num_cards=3,imp_info=True)")
    drawn = Policy.dirichlet(tree, 0)

    def solved(policies: list[Policy], dtype: str = "float32") -> jaxgadget.Refinement:
        how = {"iterations": 50, "value": (0.0, 0.0), "dtype": dtype, "target_gap": target_gap}
        return jaxgadget.refine(tree, "depth:1", policies, MaxMargin(NoPrior()), **settings(**how))

    both, alone = solved([hardly_ever(tree), drawn]), solved([drawn])
    assert list(both.failures) == [0]
    message = r"'hardly ever': the solve of subgame \d+ overflowed in float32.*use dtype='float64'"
    assert re.search(message, both.failures[0])
    assert "1 of 2 results are undefined" in both.message
    for numbers in (both.refined_exploitability, both.exploitability_bound, both.gap.T, both.gadget_value.T):
        assert np.isnan(numbers[0]).all()
    failed, fine = both.table.to_dict("records")
    assert failed["failure"] == both.failures[0]
    assert np.isfinite(failed["blueprint_exploitability"])
    assert np.isnan([failed[name] for name in ("gap_sum", "gap_max", "gadget_value_sum")]).all()
    np.testing.assert_array_equal(
        both.policy.probabilities[0][:, 0], hardly_ever(tree).probabilities[0][:, 0]
    )
    assert pd.isna(fine.pop("failure"))
    expected = alone.table.to_dict("records")[0]
    del expected["failure"]
    assert both.iterations[1] == alone.iterations[0]
    for name, value in expected.items():
        close = pytest.approx(value, rel=1e-5, nan_ok=True) if isinstance(value, float) else value
        assert fine[name] == close, name
    assert not solved([hardly_ever(tree)], "float64").failures


def test_a_linear_program_that_cannot_be_written_leaves_the_other_lanes_alone() -> None:
    """The reach of player 1 has no inverse in float64 either."""
    tree = tree_of("goofspiel(num_cards=3,imp_info=True)")
    policies = [hardly_ever(tree, 1e-310), Policy.dirichlet(tree, 0)]
    gadgets = [MaxMargin(NoPrior()), Resolving(NoPrior())]

    def solved(policies: list[Policy]) -> jaxgadget.Refinement:
        return jaxgadget.refine(tree, "depth:1", policies, gadgets, value=(0.0, 0.0), algorithm="lp")

    both, alone = solved(policies), solved(policies[1:])
    assert list(both.failures) == [0]
    assert re.search(r"max-margin.*'hardly ever'.* has coefficients that are not finite", both.failures[0])
    assert np.isnan(both.refined_exploitability[0])
    np.testing.assert_array_equal(both.policy.probabilities[0][:, 0], policies[0].probabilities[0][:, 0])
    for name in ("refined_exploitability", "exploitability_bound"):
        np.testing.assert_array_equal(getattr(both, name)[[1, 3]], getattr(alone, name))
    assert np.isfinite(both.refined_exploitability[2])


def test_an_underflow_is_a_failure() -> None:
    """If the reach of player 1 underflows in float32, the lane fails."""
    tree = tree_of("leduc_poker")
    halves: list[FloatArray] = []
    for rows, infosets in zip(Policy.uniform(tree).probabilities, tree.infosets, strict=True):
        half = np.full_like(rows, 1e-40)
        last = infosets.first_sequence + infosets.num_actions - 2
        half[last, 0] = 1 - 1e-40 * (infosets.num_actions - 1)
        halves.append(half)
    policies = [Policy(tree, (halves[0], halves[1]), ("rare",)), Policy.uniform(tree)]

    def solved(dtype: str) -> jaxgadget.Refinement:
        how = {"iterations": 50, "value": (0.0, 0.0), "dtype": dtype}
        return jaxgadget.refine(
            tree, "flop", policies, [jaxgadget.Unsafe(), Resolving(NoPrior())], **settings(**how)
        )

    found, exact = solved("float32"), solved("float64")
    assert list(found.failures) == [0] and not exact.failures
    assert re.search(r"^unsafe after blueprint 'rare': .* underflowed in float32.*float64", found.failures[0])
    assert np.isnan(found.refined_exploitability[0])
    assert np.isfinite(found.refined_exploitability[1:]).all()
    assert exact.refined_exploitability[0] < exact.blueprint_exploitability[0] / 2, "there was much to learn"
