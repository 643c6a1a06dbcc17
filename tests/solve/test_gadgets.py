"""What every gadget keeps, over `GADGETS`: the table of design §3, floors, corner cases.

Numbers are compared with those that `tests/reference/gadgets.py` reads off explicit trees.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgadget import ArrayPrior, BlueprintPrior, MaxMargin, NoPrior, Resolving, UniformPrior, Unsafe
from jaxgadget.solve import response
from jaxgadget.solve.drive import precision
from jaxgadget.solve.gadget import GADGETS, Gadget
from jaxgadget.solve.prior import Prior
from jaxgadget.solve.problem import Parts, Side, Terms, follow, payoff_reach
from tests.reference import efg, gadgets
from tests.reference.efg import Array, Label
from tests.solve import grove

SEED = 20
NUM_BLUEPRINTS = 3
EPSILON = 0.05
TOLERANCE = 1e-12
NAMED: dict[str, list[tuple[str, Gadget]]] = {
    "unsafe": [("none", Unsafe())],
    "resolving": [(name, Resolving(prior, EPSILON)) for name, prior in grove.PRIORS.items()],
    "max-margin": [(name, MaxMargin(prior, EPSILON)) for name, prior in grove.PRIORS.items()],
}
players = pytest.mark.parametrize("player", [0, 1])
kinds = pytest.mark.parametrize("kind", GADGETS)


def prepared(player: int) -> grove.Prepared:
    return grove.prepared(SEED, player)


def subgames(player: int, blueprint: int) -> list[gadgets.Subgame]:
    return grove.explicit(SEED, player, blueprint)


@functools.cache
def built(kind: str, player: int) -> Any:
    """The gadget games of all priors and blueprints; lanes run over priors, then blueprints."""
    return prepared(player).games([gadget for _, gadget in NAMED[kind]])


def opponent(kind: str, player: int) -> tuple[Side, Terms]:
    problem = built(kind, player).problem
    return problem.sides[1 - player], problem.terms[1 - player]


def lanes(kind: str, player: int) -> list[tuple[int, str, list[gadgets.Subgame]]]:
    """Lane, prior's name and explicit subgames."""
    return [
        (number * NUM_BLUEPRINTS + b, prior, subgames(player, b))
        for number, (prior, _) in enumerate(NAMED[kind])
        for b in range(NUM_BLUEPRINTS)
    ]


def root_of(player: int) -> dict[Label, int]:
    """The row of each of the opponent's root infostates."""
    states = grove.forest(SEED).roots[1 - player].infostate.tolist()
    return {state: row for row, state in enumerate(states)}


def actions(side: Side, num_roots: int) -> Array:
    """`[R]` which of the entry's actions leads to each root."""
    return np.asarray(side.link)[:num_roots] - side.entry.num_roots


def test_every_gadget_and_prior_is_tested_here() -> None:
    assert set(NAMED) == set(GADGETS)
    for name, kind in GADGETS.items():
        gadget = kind()
        assert gadget.name == name
        assert 0 <= gadget.epsilon < 1
        assert gadget.bound in (None, "sum", "max")


@players
def test_the_forest_has_the_explicit_subgames(player: int) -> None:
    forest = grove.forest(SEED)
    assert forest.num_subgames == grove.NUM_SUBGAMES
    for number, subgame in enumerate(subgames(player, 0)):
        np.testing.assert_array_equal(forest.cut.roots[forest.cut.subgame == number], subgame.roots)
        rows = forest.roots[1 - player].subgame == number
        assert set(forest.roots[1 - player].infostate[rows].tolist()) == set(subgame.states)


@players
def test_ranges_equal_the_explicit_trees(player: int) -> None:
    """`P_-i(s)`, `N(s)` and `V̄(s)`."""
    ranges, row = prepared(player).ranges, root_of(player)
    compared = 0
    for b in range(NUM_BLUEPRINTS):
        for subgame in subgames(player, b):
            for s in subgame.states:
                ours = [float(np.asarray(x)[row[s], b]) for x in (ranges.opponent, ranges.mass, ranges.cbv)]
                theirs = [subgame.opponent_reach(s), subgame.normalizer(s), subgame.alternative(s)]
                np.testing.assert_allclose(ours, theirs, rtol=0, atol=TOLERANCE)
                compared += 1
    assert compared == len(row) * NUM_BLUEPRINTS
    padding = slice(len(row), None)
    assert len(ranges.cbv[padding]) > 0
    for x in (ranges.opponent, ranges.mass, ranges.cbv):
        assert not np.asarray(x)[padding].any()


# The table of design §3


@functools.partial(jax.jit, static_argnames=("player",))
def entered(problem: Any, strategy: Parts, *, player: int) -> tuple[jax.Array, Parts]:
    """What the payoff sees of a player's entry: the reach of every sequence, and its plan."""
    side, terms = problem.sides[player], problem.terms[player]
    plan = follow(side, terms, strategy)
    return payoff_reach(side, terms, plan), plan


@players
@kinds
def test_entry_reach_of_every_root(kind: str, player: int) -> None:
    """`P_-i(s)`; `π(s, follow)`; `π(s) / N(s)`, and 0 where `N(s) = 0`."""
    problem = built(kind, player).problem
    side, _ = opponent(kind, player)
    rng, row = np.random.default_rng(0), root_of(player)
    entry = rng.random((side.entry.num_actions, problem.num_lanes))
    body = rng.random((side.body.num_actions, problem.num_lanes))
    with precision(np.float64):
        reach, _ = entered(problem, Parts(jnp.asarray(entry), jnp.asarray(body)), player=1 - player)
    found = np.asarray(reach)[: side.body.num_roots]
    action = actions(side, len(row))
    for lane, _, parts in lanes(kind, player):
        for subgame in parts:
            for s in subgame.states:
                mass = subgame.normalizer(s)
                if kind == "unsafe":
                    expected = subgame.opponent_reach(s)
                elif kind == "resolving":
                    expected = entry[action[row[s]], lane]
                else:
                    expected = entry[action[row[s]], lane] / mass if mass > 0 else 0.0
                assert found[row[s], lane] == pytest.approx(expected, rel=TOLERANCE, abs=TOLERANCE)


@players
@kinds
def test_the_resolver_carries_its_own_reach(kind: str, player: int) -> None:
    """In what the payoff sees, but not in its plan: the average has root reach 1."""
    problem = built(kind, player).problem
    side = problem.sides[player]
    nothing = np.zeros((side.entry.num_actions, problem.num_lanes))
    body = np.ones((side.body.num_actions, problem.num_lanes))
    with precision(np.float64):
        reach, plan = entered(problem, Parts(jnp.asarray(nothing), jnp.asarray(body)), player=player)
    assert (np.asarray(plan.body) == 1).all()
    states = grove.forest(SEED).roots[player].infostate.tolist()
    own = {state: row for row, state in enumerate(states)}
    game = grove.grove(SEED)[1]
    zeros = 0
    for lane, _, parts in lanes(kind, player):
        for subgame in parts:
            for h in subgame.roots:
                expected = subgame.resolver_reach(h)
                found = float(np.asarray(reach)[own[game.infostate[player][h]], lane])
                assert found == pytest.approx(expected, abs=TOLERANCE)
                zeros += expected == 0
    assert zeros > 0


@players
@kinds
def test_constants(kind: str, player: int) -> None:
    """The opponent's utility: terminating earns `−V̄(s)`, picking `s` earns `+V̄(s)/N(s)`, all else 0."""
    side, terms = opponent(kind, player)
    found, row = np.asarray(terms.constant), root_of(player)
    expected = np.zeros_like(found)
    for lane, _, parts in lanes(kind, player):
        for subgame in parts:
            for s in subgame.states:
                sequence = int(side.link[row[s]])
                if kind == "resolving":
                    expected[sequence + 1, lane] = -subgame.alternative(s)
                elif kind == "max-margin" and subgame.normalizer(s) > 0:
                    expected[sequence, lane] = subgame.alternative(s) / subgame.normalizer(s)
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)
    assert (found != 0).any() == (kind != "unsafe")


@players
@kinds
def test_floors_are_epsilon_times_the_prior(kind: str, player: int) -> None:
    """They sum to ε at every decision (0 without a prior) and leave nothing to actions that are not legal."""
    side, terms = opponent(kind, player)
    assert terms.body.floor is None and terms.body.legal is None
    if kind == "unsafe":
        assert side.fixed and terms.entry.floor is None
        return
    assert not side.fixed and terms.entry.floor is not None
    row, floor = root_of(player), np.asarray(terms.entry.floor)
    action = actions(side, len(row))
    expected = np.zeros_like(floor)
    for lane, prior, parts in lanes(kind, player):
        eps = 0.0 if prior == "none" else EPSILON
        for subgame in parts:
            if kind == "resolving":
                for s in subgame.states:
                    pair = action[row[s]], action[row[s]] + 1
                    expected[pair, lane] = eps * gadgets.resolving_prior(subgame, s, prior)
                    assert floor[pair, lane].sum() == pytest.approx(eps, abs=TOLERANCE)
            elif gadgets.max_margin_states(subgame):
                picked = [action[row[s]] for s in gadgets.max_margin_states(subgame)]
                expected[picked, lane] = eps * gadgets.max_margin_prior(subgame, prior)
                assert floor[picked, lane].sum() == pytest.approx(eps, abs=TOLERANCE)
    padding = np.ones(len(floor), np.bool_)
    padding[[*action, *(action + 1)] if kind == "resolving" else action] = False
    np.testing.assert_allclose(floor[~padding], expected[~padding], rtol=0, atol=TOLERANCE)


@players
def test_only_roots_with_mass_can_be_picked(player: int) -> None:
    side, terms = opponent("max-margin", player)
    row = root_of(player)
    action = actions(side, len(row))
    assert terms.entry.legal is not None
    legal = np.asarray(terms.entry.legal)
    for lane, _, parts in lanes("max-margin", player):
        for subgame in parts:
            for s in subgame.states:
                assert legal[action[row[s]], lane] == (subgame.normalizer(s) > 0)
    padding = np.ones(len(legal), np.bool_)
    padding[action] = False
    assert not legal[padding].any()


@players
@kinds
def test_live_says_whether_there_is_anything_to_solve(kind: str, player: int) -> None:
    live = np.asarray(built(kind, player).live)
    for lane, prior, parts in lanes(kind, player):
        for number, subgame in enumerate(parts):
            gadget = gadgets.build(kind, subgame, prior, EPSILON)
            reached = any(subgame.normalizer(s) > 0 for s in subgame.states)
            assert live[number, lane] == (reached and not isinstance(gadget.root, efg.Terminal))
    assert not live.all()


evaluate = jax.jit(response.evaluate)


def entry_rows(
    kind: str, player: int, lane: int, subgame: gadgets.Subgame, gadget: gadgets.Gadget
) -> tuple[dict[Label, Array], Array]:
    """A strategy of the entry within its floors: explicit rows, and `[Q]` for production (one subgame's)."""
    side, _ = opponent(kind, player)
    row, found = root_of(player), np.zeros(side.entry.num_actions)
    action = actions(side, len(row))
    rows: dict[Label, Array] = {}
    for label, node in efg.infosets(gadget.root).items():
        if label not in blueprint_of(lane):
            rng = np.random.default_rng(len(rows) + lane)
            rows[label] = efg.with_floor(rng.dirichlet(np.ones(len(node.actions))), gadget.floors.get(label))
            if kind == "resolving":
                s = next(s for s in subgame.states if gadgets.entry_label(s) == label)
                found[[action[row[s]], action[row[s]] + 1]] = rows[label]
            else:
                found[[action[row[s]] for s in gadgets.max_margin_states(subgame)]] = rows[label]
    return rows, found


def blueprint_of(lane: int) -> dict[Label, Array]:
    return grove.blueprints(SEED)[lane % NUM_BLUEPRINTS]


@players
@kinds
def test_values_and_gaps_of_strategies(kind: str, player: int) -> None:
    """The blueprint below the roots and a random entry: value, NashConv, and what the resolver guarantees.

    That is the linear program's objective where `V = V̄`: `Σ P_-i·V̄`, `Σ V̄`, 0.
    """
    here, other = prepared(player), 1 - player
    problem = built(kind, player).problem
    copies = problem.num_lanes // NUM_BLUEPRINTS
    entry = np.zeros((problem.sides[other].entry.num_actions, problem.num_lanes))
    explicit: dict[tuple[int, int], tuple[gadgets.Gadget, dict[Label, Array]]] = {}
    for lane, prior, parts in lanes(kind, player):
        for number, subgame in enumerate(parts):
            gadget = gadgets.build(kind, subgame, prior, EPSILON)
            rows, ours = entry_rows(kind, player, lane, subgame, gadget)
            entry[:, lane] += ours
            explicit[number, lane] = gadget, {**blueprint_of(lane), **rows}
    with precision(np.float64):
        pair = []
        for p in (0, 1):
            above = jnp.asarray(entry if p == other else np.zeros((0, problem.num_lanes)))
            pair.append(Parts(above, jnp.tile(here.strategy[p].body, (1, copies))))
        found = jax.tree.map(np.asarray, evaluate(problem, (pair[0], pair[1])))
    for lane, prior, parts in lanes(kind, player):
        for number, subgame in enumerate(parts):
            gadget, strategies = explicit[number, lane]
            ours = found.value[number, lane], found.gap[number, lane]
            value = efg.value(gadget.root, strategies)
            gap = efg.nash_conv(gadget.root, strategies, gadget.floors)
            assert ours == pytest.approx((value, gap), abs=TOLERANCE)
            guaranteed = gadgets.objective(kind, subgame, blueprint_of(lane), prior, EPSILON)
            assert found.guaranteed[player][number, lane] == pytest.approx(guaranteed, abs=TOLERANCE)
            if kind == "max-margin":
                assert guaranteed == pytest.approx(0, abs=TOLERANCE)
    below = -found.below[player]
    np.testing.assert_allclose(below, np.tile(here.ranges.cbv, (1, copies)), rtol=0, atol=TOLERANCE)
    # Padding is worth nothing.
    padding = slice(grove.NUM_SUBGAMES, None)
    assert len(found.gap) > grove.NUM_SUBGAMES
    assert not found.guaranteed[player][padding].any() and not found.gap[padding].any()


# Corner cases


def test_the_blueprints_have_every_corner_case() -> None:
    for player in (0, 1):
        found = set()
        for b in range(NUM_BLUEPRINTS):
            for subgame in subgames(player, b):
                mass = [subgame.normalizer(s) > 0 for s in subgame.states]
                reach = [subgame.opponent_reach(s) for s in subgame.states]
                mine = [subgame.resolver_reach(h) for h in subgame.roots]
                own = {grove.grove(SEED)[1].infostate[player][h] for h in subgame.roots}
                found |= {"no mass"} if not any(mass) else {"some mass"} if not all(mass) else {"all mass"}
                found |= {"unreached"} if sum(reach) == 0 else set()
                found |= {"never there"} if min(mine) == 0 < max(mine) else set()
                found |= {"clipped"} if 0 < min(reach) < gadgets.CLIP * sum(reach) else set()
                found |= {"single"} if len(subgame.roots) == len(own) == len(subgame.states) == 1 else set()
        assert found == {
            "no mass", "some mass", "all mass", "unreached", "never there", "clipped", "single"
        }  # fmt: skip


@players
def test_priors_where_the_opponent_never_gets_are_uniform(player: int) -> None:
    ranges, row = prepared(player).ranges, root_of(player)
    with precision(np.float64):
        follows = np.asarray(BlueprintPrior().follow(ranges))
        weights = np.asarray(BlueprintPrior().weight(ranges))
    seen = 0
    for b in range(NUM_BLUEPRINTS):
        for subgame in subgames(player, b):
            rows = [row[s] for s in subgame.states]
            if all(subgame.opponent_reach(s) == 0 for s in subgame.states):
                assert (follows[rows, b] == 0.5).all()
                assert len(set(weights[rows, b].tolist())) == 1
                seen += 1
            else:
                assert (weights[rows, b] == follows[rows, b]).all()
                assert follows[rows, b].min() >= 1e-3
    assert seen > 0


# Priors


def floors(player: int, gadget: Gadget) -> Array:
    problem = prepared(player).games([gadget]).problem
    return np.asarray(problem.terms[1 - player].entry.floor)


@players
@pytest.mark.parametrize("kind", [Resolving, MaxMargin])
@pytest.mark.parametrize("prior", [UniformPrior(), BlueprintPrior()])
def test_an_array_prior_equals_the_named_one(
    kind: type[Resolving] | type[MaxMargin], prior: Prior, player: int
) -> None:
    here, roots = prepared(player), len(root_of(player))
    with precision(np.float64):
        named = kind(prior, EPSILON)
        values = np.asarray(named.mistakes(here.ranges))[:roots]
        np.testing.assert_array_equal(
            floors(player, kind(ArrayPrior(values), EPSILON)), floors(player, named)
        )
        one = ArrayPrior(values[:, 0])  # the same for every blueprint
        np.testing.assert_array_equal(
            np.asarray(kind(one, EPSILON).mistakes(here.ranges))[:roots],
            np.broadcast_to(values[:, :1], values.shape),
        )
        if kind is MaxMargin:  # only ratios count
            np.testing.assert_allclose(
                floors(player, kind(ArrayPrior(7 * values), EPSILON)), floors(player, named), rtol=1e-12
            )


def test_no_prior_means_no_mistakes() -> None:
    for kind in (Resolving, MaxMargin):
        assert kind(NoPrior(), 0.5).epsilon == 0
        assert kind(UniformPrior(), 0.5).epsilon == 0.5
    assert Unsafe(epsilon=0.5).epsilon == 0


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ([0.5, -0.1], "finite numbers >= 0"),
        ([0.5, np.nan], "finite numbers >= 0"),
        ([0.5, np.inf], "finite numbers >= 0"),
        (0.5, r"expected \[roots\] or \[roots, lanes\]"),
        (np.zeros((2, 2, 2)), r"shape \(2, 2, 2\)"),
    ],
)
def test_array_priors_that_are_no_numbers(values: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        ArrayPrior(np.asarray(values))


def test_array_priors_that_do_not_fit() -> None:
    here, roots = prepared(0), len(root_of(0))
    with precision(np.float64):
        for shape in [(roots + 1,), (roots - 1,), (roots, 2)]:
            with pytest.raises(ValueError, match=rf"expected \[{roots}\] or \[{roots}, 3\]"):
                here.games([MaxMargin(ArrayPrior(np.ones(shape)))])
        with pytest.raises(ValueError, match=r"up to 1\.5: as probabilities of following"):
            here.games([Resolving(ArrayPrior(np.full(roots, 1.5)))])


@pytest.mark.parametrize("epsilon", [-0.1, 1.0, 2.0, np.nan])
@pytest.mark.parametrize("kind", [Resolving, MaxMargin])
def test_epsilon_must_lie_below_1(kind: type[Resolving] | type[MaxMargin], epsilon: float) -> None:
    with pytest.raises(ValueError, match=r"expected a number in \[0, 1\)"):
        kind(UniformPrior(), epsilon)


def test_unsafe_checks_epsilon_too() -> None:
    with pytest.raises(ValueError, match=r"epsilon=5: expected a number in \[0, 1\)"):
        Unsafe(epsilon=5)


@pytest.mark.parametrize("clip", [0.0, -1.0, 2.0, np.nan])
def test_clip_is_a_probability(clip: float) -> None:
    with pytest.raises(ValueError, match=r"clip=.*expected a number in \(0, 1\]"):
        BlueprintPrior(clip=clip)


@pytest.mark.parametrize("kind", [Resolving, MaxMargin])
def test_a_prior_is_an_instance(kind: Any) -> None:
    with pytest.raises(ValueError, match=r"is no prior; expected NoPrior\(\)"):
        kind(UniformPrior)


@pytest.mark.parametrize("prior", [UniformPrior(), BlueprintPrior(), ArrayPrior(np.ones(3))])
def test_unsafe_takes_no_prior(prior: Prior) -> None:
    with pytest.raises(ValueError, match="expected 'none'"):
        Unsafe(prior)
