"""User-defined priors: built from names of root infostates, and bound to their player."""

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget.gadgets.gadget import prior_name

WEIGHTS = {"0": 0.9, "1": 0.5, "2": 0.1}


def by_card(name: str) -> float:
    return WEIGHTS[name[0]]


@pytest.mark.parametrize("player", [0, 1])
def test_an_array_from_names(kuhn, player):
    """Each root gets the weight of its player's card, read from the moves to a root history."""
    forest = jg.build_forest(kuhn, "depth:1")
    prior = jg.ArrayPrior.from_function(forest, player, by_card, name="cards")
    opponent = 1 - player
    roots, where = forest.roots[opponent], forest.cut
    for root, state in enumerate(roots.infostate.tolist()):
        history = where.roots[kuhn.infostate[opponent, where.roots] == state][0]
        assert prior.values[root] == WEIGHTS[str(kuhn.moves(int(history))[opponent])]
    gadget = jg.Resolving(prior, 0.1)
    assert (prior.name, prior.player, prior_name(gadget)) == ("cards", player, "cards")
    uniform = jg.Policy.uniform(kuhn)
    by_function = jg.refine(kuhn, "depth:1", uniform, gadget, player=player, iterations=20)
    by_hand = jg.Resolving(jg.ArrayPrior(prior.values), 0.1)
    expected = jg.refine(kuhn, "depth:1", uniform, by_hand, player=player, iterations=20)
    np.testing.assert_array_equal(
        by_function.policy.probabilities[player], expected.policy.probabilities[player]
    )


def test_a_prior_is_for_one_player(kuhn):
    """In Kuhn poker both players' arrays have the same shape, so no shape check would find the error."""
    forest, uniform = jg.build_forest(kuhn, "depth:1"), jg.Policy.uniform(kuhn)
    first, second = (jg.Resolving(jg.ArrayPrior.from_function(forest, p, by_card), 0.1) for p in (0, 1))
    assert len(forest.roots[0]) == len(forest.roots[1])
    with pytest.raises(ValueError, match="player"):
        jg.refine(kuhn, "depth:1", uniform, second, player=0, iterations=5)
    values = jg.ArrayValues(np.zeros(len(forest.roots[0])))
    for gadget, kind in ((first, "probabilities"), (jg.Resolving(alternative=values), "values")):
        with pytest.raises(ValueError, match=f"gadgets: .* array of {kind}"):
            jg.refine_both(kuhn, "depth:1", uniform, [jg.Unsafe(), gadget], iterations=5)
    plain = jg.Resolving(jg.ArrayPrior(np.ones(6)))
    with pytest.raises(ValueError, match="refine_both"):
        jg.sweep(
            "unused", jg.SweepGrid(games={"kuhn_poker": "depth:1"}, gadgets=[plain], blueprints="uniform")
        )
    both = jg.refine_both(kuhn, "depth:1", uniform, {0: first, 1: [second]}, iterations=5)
    for player, gadget in ((0, first), (1, second)):
        alone = jg.refine(kuhn, "depth:1", uniform, gadget, player=player, iterations=5)
        np.testing.assert_array_equal(
            both.players[player].policy.probabilities[player], alone.policy.probabilities[player]
        )
    with pytest.raises(ValueError, match=r"gadgets: players \[0\]"):
        jg.refine_both(kuhn, "depth:1", uniform, {0: first}, iterations=5)
    with pytest.raises(ValueError, match="expected the same kinds"):
        jg.refine_both(kuhn, "depth:1", uniform, {0: first, 1: jg.Unsafe()}, iterations=5)


@pytest.mark.parametrize("model", ["uniform", 3, jg.Policy])
def test_a_range_is_that_of_a_policy(model):
    with pytest.raises(ValueError, match="model="):
        jg.RangePrior(model)
