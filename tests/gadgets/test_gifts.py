"""Gifts, alternative values and the trunk, compared with explicit trees.

*Safe and nested subgame solving* (Brown and Sandholm 2017), §5 and §6.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest

import jaxgadget
from jaxgadget import (
    ArrayValues,
    BestResponseValues,
    BlueprintValues,
    MaxMargin,
    NoPrior,
    ReachMaxMargin,
    ReachResolving,
    Resolving,
    UniformPrior,
)
from jaxgadget.gadgets.alternative import GIFT_RULES, Alternative, GiftRule, find_gifts
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.gadgets.games import Prepared
from jaxgadget.subgames.prepare import prepare
from jaxgadget.tree.cut import cut
from jaxgadget.tree.forest import build_forest
from jaxgadget.tree.trunk import build_trunk
from tests.core import grove
from tests.reference import efg, gadgets
from tests.reference.efg import Array, Label

SEED = 20
TOLERANCE = 1e-12
SCALED = [(0, 10), (1, 14)]
"""Resolving player and index of a subgame whose gifts chance shares with others."""
players = pytest.mark.parametrize("player", [0, 1])
rules = pytest.mark.parametrize("rule", GIFT_RULES)


@functools.cache
def prepared(player: int) -> Prepared:
    """The grove with the data that any gadget may need."""
    policy = grove.to_policy(grove.grove(SEED)[0], grove.blueprints(SEED))
    asked = [*grove.EVERYTHING, Resolving(NoPrior(), alternative=BlueprintValues())]
    return prepare(grove.forest(SEED), player, policy, asked)


def by_state(here: Prepared, values: Any, lane: int) -> dict[Label, float]:
    """A lane of numbers of the opponent's roots."""
    states = here.forest.roots[1 - here.player].infostate.tolist()
    return dict(zip(states, np.asarray(values)[:, lane].tolist(), strict=True))


def compare(ours: dict[Label, float], theirs: dict[Label, float]) -> None:
    assert set(ours) == set(theirs)
    np.testing.assert_allclose(
        [ours[s] for s in theirs], list(theirs.values()), rtol=TOLERANCE, atol=TOLERANCE
    )


# Above the cut


@players
def test_the_trunk_has_the_counterfactual_values_of_the_whole_game(player: int) -> None:
    """`CBV(I', a)`, `N(I')`, A_z and the opponent's blueprint, at each of its decisions above the cut."""
    here, other, game = prepared(player), 1 - player, grove.grove(SEED)[1]
    assert here.ranges.trunk is not None
    trunk = build_trunk(here.forest)
    above, treeplex = here.ranges.trunk, trunk.form.treeplex[other]
    q, v, root = above.best_values(here.ranges.cbv)
    empty = 0
    for b, blueprint in enumerate(grove.blueprints(SEED)):
        explicit = grove.above(SEED, player, b)
        best = efg.best_response(game.root, other, blueprint)
        whole = efg.counterfactual_values(game.root, other, {**blueprint, **best})
        assert set(explicit.cbv) == {(other, j) for j in treeplex.infoset.tolist()}
        for number, infoset in enumerate(treeplex.infoset.tolist()):
            actions, label = treeplex.rows(number), (other, infoset)
            np.testing.assert_allclose(q[actions, b], whole[label], rtol=0, atol=TOLERANCE)
            np.testing.assert_allclose(explicit.cbv[label], whole[label], rtol=0, atol=TOLERANCE)
            assert v[number, b] == pytest.approx(whole[label].max(), abs=TOLERANCE)
            assert above.mass[number, b] == pytest.approx(explicit.mass[label], abs=TOLERANCE)
            np.testing.assert_array_equal(trunk.terminates[other][actions], explicit.ends[label])
            np.testing.assert_array_equal(np.asarray(above.strategy)[actions, b], blueprint[label])
            empty += explicit.mass[label] == 0
        assert root[0, b] == pytest.approx(
            efg.best_response_value(game.root, other, blueprint), abs=TOLERANCE
        )
    # The opponent's decisions come after the resolving player's only where player 0 re-solves.
    assert (empty > 0) == (player == 0)


# Gifts


@players
@rules
def test_gifts_equal_those_of_the_explicit_tree(rule: GiftRule, player: int) -> None:
    here = prepared(player)
    found = find_gifts(here.ranges, here.ranges.cbv, rule, scaled=False)
    for b in range(grove.NUM_BLUEPRINTS):
        explicit = grove.above(SEED, player, b).gifts(rule)
        compare(by_state(here, found, b), explicit)
        assert sum(g > 1e-3 for g in explicit.values()) >= 3
        assert min(explicit.values()) == 0


@players
def test_estimates_of_gifts_are_no_smaller_than_lower_bounds(player: int) -> None:
    for b in range(grove.NUM_BLUEPRINTS):
        low, high = (grove.above(SEED, player, b).gifts(rule) for rule in GIFT_RULES)
        assert all(low[s] <= high[s] + TOLERANCE for s in low)
        assert any(low[s] < high[s] - 1e-3 for s in low)


@players
@rules
@pytest.mark.parametrize("kind", [ReachResolving, ReachMaxMargin])
def test_reach_gadgets_promise_less_by_the_gifts(kind: Any, rule: GiftRule, player: int) -> None:
    """`V̄ − N·Σg` from best-response values, from both blueprints' values and from a user's array."""
    here, count = prepared(player), grove.NUM_BLUEPRINTS
    array = np.random.default_rng(0).normal(size=(len(here.forest.roots[1 - player]), count))
    array = np.where(here.ranges.mass > 0, array, 0.0)
    for alternative in (BestResponseValues(), BlueprintValues(), ArrayValues(array)):
        found = kind(NoPrior(), alternative=alternative, gifts=rule).offer.values(here.ranges)
        for b, blueprint in enumerate(grove.blueprints(SEED)):
            explicit = dataclasses.replace(
                grove.above(SEED, player, b), alternatives=values_of(alternative, here, blueprint, b)
            )
            given = explicit.gifts(rule)
            expected = {s: part.alternative(s, given) for part in explicit.subgames for s in part.states}
            compare(by_state(here, found, b), expected)


def values_of(
    alternative: Alternative, here: Prepared, blueprint: efg.Strategy, lane: int
) -> dict[Label, float] | None:
    """The corresponding argument of an explicit cut."""
    if isinstance(alternative, ArrayValues):
        return by_state(here, alternative.array, lane)
    if isinstance(alternative, BlueprintValues):
        parts = grove.above(SEED, here.player, lane).subgames
        return {s: part.value(s, blueprint) for part in parts for s in part.states}
    return None


@players
def test_alternatives_of_safe_gadgets(player: int) -> None:
    """Best-response values are the lowest for the resolving player; without gifts they are used unchanged."""
    here = prepared(player)
    for kind in (Resolving, MaxMargin):
        best, both = (
            kind(NoPrior(), alternative=a).offer.values(here.ranges)
            for a in (BestResponseValues(), BlueprintValues())
        )
        np.testing.assert_array_equal(best, here.ranges.cbv)
        assert (best <= both + TOLERANCE).all() and (best < both - 1e-3).any()
        for b, blueprint in enumerate(grove.blueprints(SEED)):
            expected = values_of(BlueprintValues(), here, blueprint, b)
            assert expected is not None
            compare(by_state(here, both, b), expected)


@pytest.mark.parametrize(("player", "number"), SCALED)
def test_scaled_gifts_of_a_single_subgame(player: int, number: int) -> None:
    """The other subgames count as part of the trunk."""
    (tree, game), subgame = grove.grove(SEED), grove.explicit(SEED, player, 0)[number]
    policy = grove.to_policy(tree, grove.blueprints(SEED))
    alone = build_forest(tree, cut(tree, functools.partial(rooted_at, subgame.roots)))
    here = prepare(alone, player, policy, [ReachResolving(scaled=True)])
    assert here.ranges.num_subgames == 1
    more = 0
    for rule in GIFT_RULES:
        scaled, plain = (
            find_gifts(here.ranges, here.ranges.cbv, rule, scaled=whether) for whether in (True, False)
        )
        for b, blueprint in enumerate(grove.blueprints(SEED)):
            above = gadgets.Above(game, (subgame.roots,), player, blueprint)
            compare(by_state(here, scaled, b), above.gifts(rule, scaled=True))
            compare(by_state(here, plain, b), above.gifts(rule))
        assert (scaled >= plain - TOLERANCE).all()
        more += int((scaled > plain + 1e-3).sum())
    assert more > 0


def rooted_at(roots: tuple[int, ...], tree: jaxgadget.HistoryTree) -> Array:
    return np.array(roots)


# Arguments, and kinds without a bound


@pytest.mark.parametrize("values", [[np.nan], 1.0, np.zeros((2, 2, 2)), [True], ["a"]])
def test_array_values_are_finite_numbers(values: Any) -> None:
    with pytest.raises(ValueError, match="finite"):
        ArrayValues(np.asarray(values))


@pytest.mark.parametrize("kind", [Resolving, ReachMaxMargin])
def test_array_values_must_fit(kind: Any) -> None:
    here, roots = prepared(0), len(grove.forest(SEED).roots[1])
    for shape in [(roots + 1,), (roots, 2)]:
        gadget = kind(NoPrior(), alternative=ArrayValues(np.zeros(shape)))
        with pytest.raises(
            ValueError, match=rf"ArrayValues of shape .*expected \[{roots}\] or \[{roots}, 3\]"
        ):
            gadget.check(roots, here.ranges.cbv.shape[1])


UNPROVEN: list[Gadget] = [
    Resolving(UniformPrior(), 0.1, BlueprintValues()),
    MaxMargin(UniformPrior(), 0.1, ArrayValues(np.zeros(len(grove.forest(SEED).roots[1])))),
    *(
        kind(UniformPrior(), 0.1, **how)
        for kind in (ReachResolving, ReachMaxMargin)
        for how in ({"gifts": "estimate"}, {"scaled": True}, {"alternative": BlueprintValues()})
    ),
]


def has_bound(gadget: Gadget) -> bool:
    return gadget.tables(prepared(0).ranges).bound is not None


@pytest.mark.parametrize("gadget", UNPROVEN, ids=lambda gadget: f"{gadget.name}, {gadget.settings}")
def test_unproven_combinations_have_no_bound(gadget: Gadget) -> None:
    if getattr(gadget, "scaled", False):
        assert not gadget.offer.exact
    else:
        assert not has_bound(gadget)
    assert has_bound(type(gadget)(UniformPrior(), 0.1))


def test_other_values_than_best_responses_have_no_bound() -> None:
    """This includes a user-defined gadget that inherits from one with a bound."""

    class Generous(Resolving):
        name = "generous"

        @property
        def offer(self) -> Alternative:
            return ArrayValues(prepared(0).ranges.cbv - 0.3)

    class Same(Resolving):
        name = "same"

    assert has_bound(Resolving()) and has_bound(Same()) and not has_bound(Generous())
    assert has_bound(ReachResolving()) and has_bound(ReachMaxMargin())
    assert not has_bound(ReachResolving(gifts="estimate"))
