"""Where precision runs out: roots that are hardly ever reached, and what overflows."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import jaxgadget
from jaxgadget import MaxMargin, NoPrior, Policy, Resolving
from jaxgadget.refining.prepare import prepare
from jaxgadget.tree.cut import cut
from jaxgadget.tree.forest import build_forest
from jaxgadget.tree.history import HistoryTree
from jaxgadget.util.arrays import FloatArray
from tests.kernels import grove
from tests.reference import gadgets
from tests.reference.efg import from_tree


@functools.cache
def game(name: str) -> HistoryTree:
    return jaxgadget.enumerate_game(jaxgadget.load(name))


def rarely_passing(off: float) -> Policy:
    """Player 0 of Kuhn poker passes a Jack with probability `off`, other cards with 1/2."""
    tree = game("kuhn_poker")
    first, second = (rows.copy() for rows in Policy.uniform(tree).probabilities)
    begin = tree.infosets[0].first_sequence[tree.infoset_names[0].index("0")] - 1
    first[begin : begin + 2, 0] = [off, 1 - off]
    return Policy(tree, (first, second), (f"{off:g}",))


def thresholds(off: float) -> FloatArray:
    """What counts as no regret at the resolving player's decisions, for max-margin."""
    forest = build_forest(game("kuhn_poker"), "depth:2")
    games = grove.games(prepare(forest, 0, rarely_passing(off)), [MaxMargin(NoPrior())])
    return np.asarray(grove.problem_of(games).regret_tolerance[0].body)


def test_a_rare_root_does_not_switch_regret_matching_off() -> None:
    """Its margin is divided by almost nothing; the regrets of others must not look like rounding then."""
    usual, rare, never = thresholds(0.5), thresholds(1e-12), thresholds(0.0)
    assert (usual > 0).any()
    assert (rare <= 3 * usual).all()
    np.testing.assert_allclose(rare, never, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("off", [1e-6, 1e-16])
def test_rare_roots_are_solved_in_either_precision(off: float, dtype: str) -> None:
    """What is guaranteed is what the explicit gadget game's definition says of the refined strategy."""
    blueprint = rarely_passing(off)
    tree, asked = blueprint.tree, [Resolving(NoPrior()), MaxMargin(NoPrior())]
    result = jaxgadget.refine(tree, "depth:2", blueprint, asked, iterations=300, dtype=dtype)
    assert (result.gap <= 0.01 * tree.payoff_range).all()
    assert (result.refined_exploitability <= result.exploitability_bound + 1e-9).all()
    explicit = from_tree(tree)
    roots = cut(tree, "depth:2").roots.tolist()
    (subgame,) = gadgets.subgames(explicit, [roots], 0, grove.from_policy(blueprint, 0))
    for lane, kind in enumerate(("resolving", "max-margin")):
        found = gadgets.objective(kind, subgame, grove.from_policy(result.policy, lane))
        assert result.gadget_value[0, lane] == pytest.approx(found, abs=1e-9)


def test_an_overflow_is_an_error_that_says_what_to_do() -> None:
    """Reaches of 1e-40 have no inverse in float32."""
    tree = game("goofspiel(num_cards=3,imp_info=True)")
    first, second = (rows.copy() for rows in Policy.uniform(tree).probabilities)
    infosets = tree.infosets[0]
    first[:] = 1e-40
    first[infosets.first_sequence - 1, 0] = 1 - 1e-40 * (infosets.num_actions - 1)
    policy = Policy(tree, (first, second), ("hardly ever",))

    def solved(dtype: str) -> jaxgadget.Refinement:
        how = {"iterations": 5, "value": (0.0, 0.0), "dtype": dtype}
        return jaxgadget.refine(tree, "depth:1", policy, MaxMargin(NoPrior()), **how)

    with pytest.raises(ValueError, match=r"'hardly ever': .* overflowed in float32.*use dtype='float64'"):
        solved("float32")
    assert np.isfinite(solved("float64").gap).all()
