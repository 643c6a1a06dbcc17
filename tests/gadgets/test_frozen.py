"""Frozen decisions as constants, compared with the same algorithm on trees in which chance makes them."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import numpy as np
import pytest

from jaxgadget import BlueprintPrior, NoPrior, UniformPrior
from jaxgadget.core import cfr
from jaxgadget.core.problem import Parts
from jaxgadget.core.regret import find_rule
from jaxgadget.gadgets.entry import TwoLevelEntry
from jaxgadget.gadgets.frozen import find_frozen
from jaxgadget.gadgets.games import GadgetGames, Prepared, build_games
from jaxgadget.gadgets.registry import GADGETS
from jaxgadget.policy.evaluate import evaluate_parts as evaluate
from jaxgadget.subgames.prepare import prepare, prepare_base, prepare_known
from jaxgadget.tree.forest import build_forest
from jaxgadget.tree.knowledge import knowledge_cover
from jaxgadget.util.precision import precision
from jaxgadget.util.registry import find
from tests.core import grove
from tests.gadgets.test_against_reference import ITERATIONS, ROUNDING, TOLERANCE, WORST, smallest_regrets
from tests.reference import cfr as reference
from tests.reference import frozen, gadgets
from tests.reference.efg import Label

players = pytest.mark.parametrize("player", [0, 1])

SEED = 20
EPSILON = 0.05
KINDS = {"unsafe": ("none",), "resolving": ("none", "blueprint"), "max-margin": ("uniform", "blueprint")}
PRIORS = {"none": NoPrior(), "uniform": UniformPrior(), "blueprint": BlueprintPrior()}


@functools.cache
def known(player: int) -> Prepared:
    """The grove's own infostates, with its blueprints."""
    where = grove.grove_cut(SEED)
    base = prepare_base(grove.forest(SEED), player, grove.to_policy(where.tree, grove.blueprints(SEED)))
    return prepare_known(base, build_forest(where.tree, knowledge_cover(where, player, 1).cover))


@players
def test_ranges_are_those_of_whole_infostates(player: int) -> None:
    here = known(player)
    roots = here.forest.roots[1 - player]
    for b in range(grove.NUM_BLUEPRINTS):
        above = grove.above(SEED, player, b)
        split = 0
        for number, own in enumerate(frozen.own_infostates(above)):
            whole = frozen.subgame(above, own)
            rows = np.flatnonzero(roots.subgame == number)
            assert sorted(roots.infostate[rows].tolist()) == sorted(whole.states)
            mine = set(frozen.own_roots(above, own))
            for row, state in zip(rows.tolist(), roots.infostate[rows].tolist(), strict=True):
                ranges = here.ranges
                assert ranges.mass[row, b] == pytest.approx(whole.normalizer(state), abs=1e-14)
                assert ranges.cbv[row, b] == pytest.approx(whole.alternative(state), abs=1e-13)
                assert ranges.opponent[row, b] == pytest.approx(whole.opponent_reach(state), abs=1e-15)
                split += not set(whole.members(state)) <= mine
            assert here.frozen is not None
            own_mass = sum(whole.resolver_reach(h) * whole.chance_reach(h) for h in mine)
            assert here.frozen.reached[number, b] == (own_mass > 0)
        assert split > 0


@pytest.mark.slow
def test_constants_equal_the_payoff_of_the_frozen_part() -> None:
    """Best responses to the blueprint have the same value in each subgame as in the whole game."""
    player = 1
    here = known(player)
    policy = grove.to_policy(here.forest.tree, grove.blueprints(SEED))
    base = prepare(grove.forest(SEED, padded=False), player, policy)
    plan = base.forest.form.treeplex[player].realise(base.ranges.resolver, base.rows[player])
    numbers = find_frozen(base.forest, here.forest, player, plan)
    assert np.abs(numbers.earned).max() > 0.01
    padding = here.forest.form.action_sequences(1 - player) < 0
    assert padding.any() and not numbers.earned[len(numbers.earned) - len(padding) :][padding].any()
    assert not numbers.earned[len(here.ranges.cbv) : len(numbers.earned) - len(padding)].any()
    games = build_games(dataclasses.replace(here, frozen=numbers), [find(GADGETS, "unsafe", "gadget")()])
    problem = grove.problem_of(games)
    with precision(np.float64):
        parts = [
            Parts(np.zeros((side.entry.num_actions, grove.NUM_BLUEPRINTS)), here.rows[p])
            for p, side in enumerate(problem.sides)
        ]
        below = np.asarray(evaluate(problem, (parts[0], parts[1])).below[player])
    np.testing.assert_allclose(-below[: len(here.ranges.cbv)], here.ranges.cbv, rtol=0, atol=1e-13)


@pytest.mark.parametrize(("kind", "player"), [(kind, number % 2) for number, kind in enumerate(KINDS)])
def test_five_iterations_equal_those_on_the_explicit_tree(kind: str, player: int) -> None:
    """All own infostates, entry and body, both players' strategies; all roots or some are considered."""
    share = 0.6
    here, make = known(player), find(GADGETS, kind, "gadget")
    priors, roots = KINDS[kind], here.forest.roots[1 - player]
    asked = [make() if kind == "unsafe" else make(PRIORS[prior], EPSILON) for prior in priors]
    ranges, considered = here.ranges, np.random.default_rng(3).random(here.ranges.cbv.shape) <= share
    if share < 1:
        ranges = ranges.considering(considered)
    games = build_games(dataclasses.replace(here, ranges=ranges), asked)
    problem, rule = grove.problem_of(games), find_rule("cfr+")
    with precision(np.float64):
        state = cfr.start(problem, rule)
        found: list[tuple[Any, Any]] = []
        for t in range(ITERATIONS):
            state = cfr.run(problem, state, jax.device_put(np.int32(t + 1)), rule=rule)
            found.append(jax.tree.map(np.asarray, (state.strategy, cfr.average(problem, state))))
    compared = 0
    for lane in range(games.num_lanes):
        blueprint = int(games.lanes.blueprint[lane])
        above = grove.above(SEED, player, blueprint)
        prior = priors[int(games.lanes.gadget[lane])]
        for number, own in enumerate(frozen.own_infostates(above)):
            mine = roots.infostate[(roots.subgame == number) & considered[:, blueprint]]
            states = frozenset(mine.tolist())
            if not states:
                continue
            gadget = frozen.build(kind, above, own, prior, EPSILON, considered=states)
            iterates = reference.run(
                gadget.root,
                "cfr+",
                ITERATIONS,
                order=gadget.order,
                floors=gadget.floors,
                threshold=ROUNDING,
            )
            whole = frozen.subgame(above, own, considered=states)
            entry, below = entry_rows(games, number, whole), body_rows(here, number)
            least = 1.0
            for theirs, both in zip(iterates, found, strict=True):
                least = min(least, smallest_regrets(theirs))
                allowed = min(max(TOLERANCE, 1e-15 / least), WORST)
                for parts, expected in zip(both, (theirs.current, theirs.average), strict=True):
                    for label, row in expected.items():
                        if label in entry:
                            ours = parts[1 - player].entry[entry[label], lane]
                        else:
                            who, rows = below[label]
                            ours = parts[who].body[rows, lane]
                        np.testing.assert_allclose(
                            ours, row, rtol=0, atol=allowed, err_msg=f"{lane} {number} {label}"
                        )
                        compared += len(row)
    assert compared > 1000 * share**2 * games.num_lanes


def entry_rows(games: GadgetGames, number: int, whole: gadgets.Subgame) -> dict[Label, list[int]]:
    """Maps the opponent's entry decisions in a subgame's explicit tree to positions of their actions."""
    entry, roots = games.entry, games.prepared.forest.roots[1 - games.player]
    assert isinstance(entry, TwoLevelEntry)
    rows = np.flatnonzero(roots.subgame == number).tolist()
    row_of = {int(roots.infostate[row]): row for row in rows}
    first = entry.treeplex.num_roots
    if entry.left is not None:
        return {
            gadgets.entry_label(s): [int(entry.link[row]) - first, int(entry.left[row]) - first]
            for s, row in row_of.items()
        }
    if entry.picked is not None:
        states = [int(str(s)) for s in gadgets.max_margin_states(whole)]
        return {gadgets.entry_label(): [int(entry.picked[row_of[s]]) - first for s in states]}
    return {}


def body_rows(here: Prepared, number: int) -> dict[Label, tuple[int, Any]]:
    """Maps both players' infosets in a subgame to the player and the positions of their actions."""
    rows: dict[Label, tuple[int, Any]] = {}
    for player, treeplex in enumerate(here.forest.form.treeplex):
        root_of = treeplex.root_of()[treeplex.first_sequence]
        for k, infoset in enumerate(treeplex.infoset.tolist()):
            if infoset >= 0 and here.forest.roots[player].subgame[root_of[k]] == number:
                rows[player, infoset] = player, treeplex.rows(k)
    return rows
