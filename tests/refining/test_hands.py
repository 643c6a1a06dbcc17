"""Public subgames re-solved by hands: as with histories, or refused."""

import dataclasses
import pathlib
import re

import numpy as np
import pytest

from jaxgadget import (
    AbstractValues,
    ArrayPrior,
    ArrayValues,
    ContinuationValues,
    HandsPolicy,
    MaxMargin,
    NoPrior,
    RangePrior,
    ReachResolving,
    Resolving,
    UniformPrior,
    Unsafe,
    public_cut,
    refine_hands,
    solve_hands,
)
from jaxgadget.games.hands import HandsGame
from jaxgadget.hands.form import HandsForm, keep_nodes
from jaxgadget.hands.ranges import build_bodies, find_hands_ranges
from tests.hands import alike
from tests.hands.test_payoff import kuhn_by_operators

KUHN_VALUE = (-1 / 18, -1 / 18)


def blueprint(spec: str = "kuhn_poker") -> HandsPolicy:
    return alike.random_policies(spec)[1]


@pytest.mark.slow
def test_gadget_games_are_those_of_the_histories():
    """All gadgets, priors and alternative values; `tests/slow` has the other player and larger games."""
    alike.check_refinement("kuhn_poker", "depth:1", "depth:1", 1)


def test_linear_programs_are_those_of_the_histories():
    """Values are unique, strategies are not; the ε that suffices is found, too."""
    alike.check_programs("kuhn_poker", "depth:1", "depth:1", 0)


@pytest.mark.slow
def test_arrays_have_no_rows_for_impossible_hands():
    """In Leduc below a public card a user's values are those of five hands; the sixth is promised nothing."""
    by_hand = HandsPolicy.uniform(alike.form("leduc_poker"))
    nodes = public_cut(by_hand.game, "chance")[:1]
    bodies = build_bodies(by_hand.game, nodes, 0)
    best_response_values = find_hands_ranges(bodies, by_hand).cbv[bodies.named_roots >= 0]
    assert best_response_values.shape == (5, 1)
    gadgets = [
        Resolving(NoPrior()),
        Resolving(NoPrior(), alternative=ArrayValues(best_response_values)),
    ]
    result = refine_hands(by_hand, nodes, gadgets, iterations=2, dtype="float64", value=(-0.1, 0.1))
    assert result.gap[0, 0] == result.gap[0, 1] > 0.01
    assert result.gadget_value[0, 0] == result.gadget_value[0, 1]


def test_hands_that_a_card_makes_impossible_are_no_roots():
    """In Leduc below a public card five hands are left, and priors are shares of these."""
    by_hand = HandsPolicy.uniform(alike.form("leduc_poker"))
    nodes = public_cut(by_hand.game, "chance")[:1]
    result = refine_hands(by_hand, nodes, Resolving(UniformPrior()), iterations=1, value=(-0.1, 0.1))
    assert result.gap.shape == (1, 1)
    with pytest.raises(ValueError, match=re.escape("expected [5] or [5, 1], a row for each")):
        refine_hands(by_hand, nodes, Resolving(ArrayPrior(np.ones(6))))


@pytest.mark.slow
def test_it_is_as_good_as_its_certificate():
    gadgets = [Resolving(NoPrior()), MaxMargin(NoPrior()), Unsafe()]
    result = refine_hands(
        blueprint(), "depth:1", gadgets, player=1, iterations=2000, dtype="float64", value=KUHN_VALUE
    )
    safe = slice(0, 6)
    assert (result.refined_exploitability <= result.exploitability_bound + 1e-12)[safe].all()
    assert (result.refined_exploitability <= result.blueprint_exploitability + 0.01)[safe].all()
    assert np.isnan(result.exploitability_bound[6:]).all()
    assert result.gap.max() < 0.01
    assert (result.iterations == 2000).all()
    assert "exploitability fell in" in result.message
    assert repr(result).startswith("<HandsRefinement of kuhn_poker: 2 subgames, exploitability fell")
    assert result.policy.labels[0] == "dirichlet:0 | resolving"


@pytest.mark.slow
def test_operators_have_subgames():
    """Where tables are never written down, too; of ends elsewhere an operator is told nothing."""
    table, operator = (
        HandsPolicy(HandsForm(game), blueprint().probabilities, blueprint().labels)
        for game in (blueprint().game, kuhn_by_operators())
    )
    nodes = public_cut(table.game, "depth:1")[1:]
    assert not all(
        (form.root_of[group.node] >= 0).all()
        for form in [HandsForm(operator.game, nodes)]
        for group in operator.game.ends
    )
    asked = {"iterations": 10, "dtype": "float64", "value": KUHN_VALUE}
    one, other = (refine_hands(policy, nodes, Resolving(), **asked) for policy in (table, operator))
    np.testing.assert_allclose(one.gap, other.gap, rtol=0, atol=1e-13)
    for first, second in zip(one.policy.probabilities, other.policy.probabilities, strict=True):
        np.testing.assert_allclose(first, second, rtol=0, atol=1e-12)


def test_only_what_is_below_is_kept():
    game = alike.form("leduc_poker").game
    form = HandsForm(game, public_cut(game, "chance")[:3])
    kept = keep_nodes(game.ends, form.root_of >= 0)
    inside = np.sort(np.concatenate([group.node.ravel() for group in kept]))
    np.testing.assert_array_equal(inside, game.tree.ends[form.root_of[game.tree.ends] >= 0])
    assert repr(form).endswith("below 3 nodes>")


def test_a_solve_goes_on_from_its_checkpoint(tmp_path: pathlib.Path):
    asked = {"gadgets": Resolving(), "dtype": "float64", "value": KUHN_VALUE}
    straight = refine_hands(blueprint(), "depth:1", iterations=12, **asked)
    folder = tmp_path / "kept"
    folder.mkdir()
    refine_hands(blueprint(), "depth:1", iterations=5, checkpoint=folder, **asked)
    resumed = refine_hands(blueprint(), "depth:1", iterations=12, checkpoint=folder, **asked)
    np.testing.assert_array_equal(resumed.gap, straight.gap)


def test_what_overflows_keeps_the_blueprint():
    """The other player's hands weigh so little that their inverse is no number."""
    rows = [x.copy() for x in blueprint().lane(0).probabilities]
    rows[0][:2] = np.array([1.0, 1e-41])[:, None, None]
    rare = HandsPolicy(blueprint().form, (rows[0], rows[1]), ("rare",))
    result = refine_hands(rare, "depth:1", MaxMargin(), iterations=5, dtype="float32", value=KUHN_VALUE)
    assert list(result.failures) == [0]
    assert "overflowed in float32" in result.failures[0]
    assert np.isnan(result.refined_exploitability[0])
    for one, other in zip(result.policy.probabilities, rare.probabilities, strict=True):
        np.testing.assert_array_equal(one, other)
    assert "1 undefined" in result.message


def test_cuts():
    game = alike.form("leduc_poker").game
    assert public_cut(game, "depth:0").tolist() == [0]
    assert len(public_cut(game, "chance")) == 30
    second = public_cut(game, "depth:2")
    assert {len(game.tree.moves(node)) for node in second.tolist()} == {
        2,
        3,
    }  # past the card, if there is one
    assert public_cut(game, [5, 3, 5]).tolist() == [3, 5]


def without_deals(game: HandsGame) -> HandsPolicy:
    return HandsPolicy(
        HandsForm(dataclasses.replace(game, deals=None)), blueprint().probabilities, blueprint().labels
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"player": 2}, "player=2"),
        ({"where": "flop"}, "where='flop': expected 'depth:D', 'chance', or numbers"),
        ({"where": "depth:9"}, "expected at least one of them"),
        ({"where": [9]}, "has 9 public nodes"),
        ({"where": [1, 4]}, "public node 4 lies below node 1"),
        ({"gadgets": ()}, "gadgets=()"),
        ({"gadgets": Resolving(epsilon="auto")}, "epsilon='auto' for resolving: CFR takes a number"),
        ({"gadgets": Resolving}, "is no gadget; expected Unsafe()"),
        (
            {"gadgets": Resolving(alternative=ContinuationValues(lambda *_: None))},
            "values of ranges are those of histories",
        ),
        ({"gadgets": Resolving(alternative=AbstractValues())}, "values are looked up in histories alone"),
        ({"gadgets": MaxMargin(RangePrior({}))}, "expected a policy by hands of kuhn_poker, of one lane"),
        ({"gadgets": MaxMargin(RangePrior(blueprint()))}, "expected a policy by hands of kuhn_poker, of one"),
        ({"gadgets": ReachResolving(scaled=True)}, "scaled=True with 2 subgames"),
        ({"value": (1.0, 0.0)}, "value=(1.0, 0.0)"),
        ({"gadgets": Resolving(ArrayPrior(np.ones(4)))}, "ArrayPrior values of shape (4,): expected [6]"),
        ({"algorithm": "lp", "target_gap": 0.1}, "target_gap"),
        ({"iterations": 0}, "iterations=0"),
    ],
)
def test_bad_input(change: dict[str, object], expected: str):
    asked = {"where": "depth:1", "gadgets": Resolving(), "value": KUHN_VALUE} | change
    with pytest.raises(ValueError, match=re.escape(expected)):
        refine_hands(blueprint(), **asked)


def test_games_that_do_not_say_how_likely_deals_are():
    game = alike.form("kuhn_poker").game
    assert solve_hands(dataclasses.replace(game, deals=None), iterations=2).iterations == 2
    with pytest.raises(ValueError, match="deals of kuhn_poker are not written down"):
        refine_hands(without_deals(game), "depth:1", Resolving())
