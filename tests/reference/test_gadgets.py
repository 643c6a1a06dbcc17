"""The oracles' gadget games compared with published numbers, their formulas and certificates.

Golden numbers: OpenSpiel 2.0.2's rules and HiGHS, copied from the project's reference folder.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import Any

import numpy as np
import pyspiel
import pytest

from tests.reference import cfr, cuts, efg, gadgets, lp
from tests.reference.openspiel import from_openspiel
from tests.reference.random_games import SHAPES, random_policy, random_subgames, random_tree

RATIO = {"uniform": 1.0, "geometric": 0.5, "steep": 0.05}

GADGETS = {
    "unsafe": ("unsafe", "none"),
    "resolve": ("resolving", "none"),
    "resolve_uniform": ("resolving", "uniform"),
    "resolve_blueprint": ("resolving", "blueprint"),
    "maxmargin": ("max-margin", "none"),
    "maxmargin_uniform": ("max-margin", "uniform"),
    "maxmargin_blueprint": ("max-margin", "blueprint"),
}


@functools.cache
def goofspiel_4() -> efg.Game:
    return from_openspiel(pyspiel.load_game("goofspiel(imp_info=True,num_cards=4,points_order=descending)"))


def components(game: efg.Game, depth: int) -> list[list[int]]:
    return cuts.components(game, cuts.depth_roots(game, depth))


# Published numbers

# depth, blueprint, number of subgames; exploitabilities of blueprint and optimal continuation, normalized
# CBVs and gadget values as (sum, least, largest). Resolving player 0, ε = 1e-3.
GOOFSPIEL_4_CASES: dict[tuple[int, str], dict[str, Any]] = {
    (1, "uniform"): {
        "subgames": 6,
        "exploitability": (0.7083333333, 0.25),
        "cbv": (-3.861111111, -1.0, 0.6666666667),
        "unsafe": (0.0, -0.25, 0.25),
        "resolve": (-1.25, -1.291666667, 0.7083333333),
        "resolve_uniform": (-1.249391667, -1.291520833, 0.7084625),
        "resolve_blueprint": (-1.24915, -1.291569444, 0.7084194444),
        "maxmargin": (2.81372549, 0.0, 0.6666666667),
        "maxmargin_uniform": (2.81385512, 0.0001296296296, 0.6666666667),
        "maxmargin_blueprint": (2.81385512, 0.0001296296296, 0.6666666667),
    },
    (1, "geometric"): {
        "subgames": 6,
        "exploitability": (0.873015873, 0.7333333333),
        "cbv": (-4.752834467, -1.0, 0.4285714286),
        "unsafe": (0.0, -0.2622222222, 0.2622222222),
        "resolve": (-2.612698413, -2.13968254, 0.2888888889),
        "resolve_uniform": (-2.61185873, -2.139379365, 0.2890444444),
        "resolve_blueprint": (-2.611704535, -2.139595918, 0.2890342404),
        "maxmargin": (3.445578231, 0.0, 0.7619047619),
        "maxmargin_uniform": (3.445794785, 0.000216553288, 0.7619047619),
        "maxmargin_blueprint": (3.44567104, 9.280855199e-05, 0.7619047619),
    },
    (2, "steep"): {
        "subgames": 32,
        "exploitability": (0.9998586704, 0.9997512158),
        "cbv": (-14.20524361, -1.0, 1.0),
        "unsafe": (0.0, -0.04289069773, 0.04289069773),
        "resolve": (-10.58732394, -3.888141878, 0.04998758832),
        "resolve_uniform": (-10.58565618, -3.888141878, 0.05003615779),
        "resolve_blueprint": (-10.58626609, -3.888141878, 0.05003047618),
        "maxmargin": (11.42857143, 0.0, 0.9523809524),
        "maxmargin_uniform": (11.43067925, 0.0, 0.9523809524),
        "maxmargin_blueprint": (11.42968549, 0.0, 0.9523809524),
    },
}
EPSILON = 1e-3


def test_goofspiel_4_falls_apart_as_in_the_reference() -> None:
    game = goofspiel_4()

    def shapes(depth: int) -> list[tuple[int, int, int]]:
        found = components(game, depth)
        states = [[len({game.infostate[p][h] for h in roots}) for p in (0, 1)] for roots in found]
        return sorted((len(roots), a, b) for roots, (a, b) in zip(found, states, strict=True))

    assert shapes(1) == [(1, 1, 1)] * 4 + [(6, 3, 3)] * 2
    assert shapes(2) == [(1, 1, 1)] * 12 + [(3, 2, 2)] * 16 + [(14, 6, 6)] * 2 + [(28, 7, 7)] * 2


@pytest.mark.parametrize(("depth", "name"), GOOFSPIEL_4_CASES)
def test_gadget_values_of_goofspiel_4(depth: int, name: str) -> None:
    """Both players' programs, and the formula of the optimum, give the published value."""
    game, expected = goofspiel_4(), GOOFSPIEL_4_CASES[depth, name]
    blueprint = efg.geometric(game.root, RATIO[name])
    roots = cuts.depth_roots(game, depth)
    cut = gadgets.subgames(game, components(game, depth), 0, blueprint)
    assert len(cut) == expected["subgames"]
    whole = gadgets.optimal_continuation(game, roots, 0, blueprint)
    exploitability = efg.best_response_value(game.root, 1, blueprint), -lp.solve(whole.root, 0).value
    assert exploitability == pytest.approx(expected["exploitability"], abs=1e-9)
    check_summary([v for subgame in cut for v in subgame.normalized_cbvs().values()], expected["cbv"])
    for key, (kind, prior) in GADGETS.items():
        values = []
        for subgame in cut:
            gadget = gadgets.build(kind, subgame, prior, EPSILON)
            solution = lp.solve(gadget.root, 0, gadget.floors)
            formula = gadgets.objective(kind, subgame, {**blueprint, **solution.strategy}, prior, EPSILON)
            assert formula == pytest.approx(solution.value, abs=1e-8)
            assert lp.solve(gadget.root, 1, gadget.floors).value == pytest.approx(-solution.value, abs=1e-8)
            values.append(solution.value)
        check_summary(values, expected[key])


def check_summary(values: list[float], expected: tuple[float, ...]) -> None:
    assert (sum(values), min(values), max(values)) == pytest.approx(expected, abs=1e-8)


# Random games


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("zeros", [0.0, 0.2])
def test_cfr_of_gadgets_agrees_with_their_programs_and_certificates(shape: str, zeros: float) -> None:
    """Guaranteed ≤ optimum ≤ guaranteed + gap in every gadget; exploitability within its bound."""
    _, game = random_tree(shape, 0)
    for resolver, (kind, prior) in itertools.product((0, 1), GADGETS.values()):
        cut = random_subgames(shape, 0, resolver, zeros)
        blueprint = dict(cut[0].blueprint)
        refined, rises = dict(blueprint), []
        for subgame in cut:
            gadget = gadgets.build(kind, subgame, prior, 0.01)
            if isinstance(gadget.root, efg.Terminal):
                continue
            last = cfr.final(
                gadget.root, "cfr+", 15, order=gadget.order, floors=gadget.floors, unreached=blueprint
            )
            gap = efg.nash_conv(gadget.root, last.average, gadget.floors)
            guaranteed = -efg.best_response_value(gadget.root, 1 - resolver, last.average, gadget.floors)
            optimum = lp.solve(gadget.root, resolver, gadget.floors).value
            assert guaranteed - 1e-8 <= optimum <= guaranteed + gap + 1e-8
            spliced = {**blueprint, **last.average}
            formula = gadgets.objective(kind, subgame, spliced, prior, 0.01)
            assert formula == pytest.approx(guaranteed, abs=1e-9)
            refined |= {
                label: row
                for label, row in last.average.items()
                if label in efg.infosets_of(game.root, resolver)
            }
            if kind != "unsafe":
                rises.append(gadgets.rise_bound(kind, subgame, spliced, gap, prior, 0.01))
        if kind != "unsafe":
            rise = sum(rises) if kind == "resolving" else max(rises, default=0.0)
            before, after = (
                efg.best_response_value(game.root, 1 - resolver, x) for x in (blueprint, refined)
            )
            assert after <= before + rise + 1e-9


def test_gadget_cfr_converges_to_the_program() -> None:
    for kind, prior in GADGETS.values():
        subgame = random_subgames("delays", 1, 0, 0.0)[1]
        gadget = gadgets.build(kind, subgame, prior, 0.01)
        last = cfr.final(gadget.root, "pcfr+", 150, order=gadget.order, floors=gadget.floors)
        assert efg.nash_conv(gadget.root, last.average, gadget.floors) < 1e-3


def test_entries_play_at_least_their_floor() -> None:
    subgame = random_subgames("bids", 0, 0, 0.2)[0]
    gadget = gadgets.resolving(subgame, "blueprint", 0.05)
    assert set(gadget.floors) == {gadgets.entry_label(s) for s in subgame.states}
    for it in cfr.run(gadget.root, "cfr+", 5, order=gadget.order, floors=gadget.floors):
        assert all((it.current[k] >= gadget.floors[k]).all() for k in gadget.floors)
        assert all((it.average[k] >= gadget.floors[k] - 1e-15).all() for k in gadget.floors)


@pytest.mark.parametrize("rule", cfr.RULES)
@pytest.mark.parametrize("resolver", [0, 1])
def test_the_resolvers_reach_is_a_chance_weight(rule: str, resolver: int) -> None:
    """If `P_i(h) > 0`, a `Past` move and a chance weight give the same strategies."""

    def as_chance(node: efg.Node) -> efg.Node:
        if isinstance(node, efg.Past):
            return efg.Chance((node.reach,), (as_chance(node.child),))
        if isinstance(node, efg.Terminal):
            return node
        return dataclasses.replace(node, children=tuple(as_chance(child) for child in node.children))

    subgame = random_subgames("bids", 0, resolver)[0]
    gadget = gadgets.resolving(subgame, "blueprint", 0.01)
    options: dict[str, Any] = {"order": gadget.order, "floors": gadget.floors}
    past = cfr.run(gadget.root, rule, 6, **options)
    chance = cfr.run(as_chance(gadget.root), rule, 6, **options)
    for ours, theirs in zip(past, chance, strict=True):
        for label, row in ours.average.items():
            np.testing.assert_allclose(row, theirs.average[label], rtol=0, atol=1e-12)
            np.testing.assert_allclose(ours.current[label], theirs.current[label], rtol=0, atol=1e-12)


# Corner cases


def cornered(resolver: int) -> list[gadgets.Subgame]:
    """Betting in which player 0 never plays action 1: the third subgame is unreachable."""
    tree, game = random_tree("betting", 0)
    blueprint = random_policy(tree, np.random.default_rng(0))
    for infoset in (0, 1):
        blueprint[0, infoset] = np.array([1.0, 0.0])
    return gadgets.subgames(game, components(game, 2), resolver, blueprint)


def test_a_resolver_that_never_gets_there_has_an_empty_max_margin() -> None:
    subgame = cornered(0)[2]
    assert all(subgame.normalizer(s) == 0 for s in subgame.states)
    assert subgame.normalized_cbvs() == {}
    gadget = gadgets.max_margin(subgame, "uniform", 0.01)
    assert lp.solve(gadget.root, 0, gadget.floors).value == 0
    assert efg.nash_conv(gadget.root, {}, gadget.floors) == 0
    gadget = gadgets.resolving(subgame)
    assert lp.solve(gadget.root, 0).value == pytest.approx(0, abs=1e-12)  # V = V̄ = 0
    last = cfr.final(gadget.root, "cfr+", 3, order=gadget.order)
    best = efg.best_response(gadget.root, 0, last.average)
    q = efg.counterfactual_values(gadget.root, 0, {**last.average, **best})
    for label in efg.infosets_of(gadget.root, 0):  # regrets and best responses stay counterfactual
        assert np.abs(last.regret_sum[label]).max() > 0
        assert best[label] @ q[label] == q[label].max()


def test_an_opponent_that_never_gets_there_has_a_uniform_prior() -> None:
    subgame = cornered(1)[2]
    assert all(subgame.opponent_reach(s) == 0 and subgame.normalizer(s) > 0 for s in subgame.states)
    for state in subgame.states:
        np.testing.assert_array_equal(gadgets.resolving_prior(subgame, state, "blueprint"), [0.5, 0.5])
    np.testing.assert_array_equal(gadgets.max_margin_prior(subgame, "blueprint"), [0.5, 0.5])
    assert lp.solve(gadgets.unsafe(subgame).root, 1).value == 0


def test_blueprint_priors_are_clipped() -> None:
    tree, game = random_tree("betting", 0)
    blueprint = random_policy(tree, np.random.default_rng(0))
    blueprint[0, 0], blueprint[0, 1] = np.array([1.0, 0.0]), np.array([0.5, 0.5])
    subgame = gadgets.subgames(game, components(game, 2), 1, blueprint)[2]
    follow = [gadgets.resolving_prior(subgame, s, "blueprint") for s in subgame.states]
    np.testing.assert_allclose(sorted(p[gadgets.FOLLOW] for p in follow), [1e-3, 1])
    np.testing.assert_allclose([p.sum() for p in follow], 1)
    margin = gadgets.max_margin_prior(subgame, "blueprint")
    np.testing.assert_allclose(sorted(margin), [1e-3 / 1.001, 1 / 1.001])


def test_gifts_lower_the_alternative() -> None:
    subgame = random_subgames("weather", 0, 0, 0.0)[1]
    gifts = dict.fromkeys(subgame.states, 0.25)
    plain, reach = gadgets.max_margin(subgame), gadgets.max_margin(subgame, gifts=gifts)
    gained = lp.solve(reach.root, 0).value - lp.solve(plain.root, 0).value
    assert gained == pytest.approx(0.25, abs=1e-9)  # margins are normalised, and so are gifts


# Gifts, and the optimal continuation

RULES = ("lower-bound", "estimate")
REACH = ("reach-resolving", "reach-max-margin")


def spliced(
    kind: str, above: gadgets.Above, gifts: dict[efg.Label, float], epsilon: float
) -> tuple[efg.Strategy, float]:
    """The blueprint with optimal strategies of a reach gadget in every subgame, and their bound."""
    refined, rises = dict(above.blueprint), []
    for subgame in above.subgames:
        gadget = gadgets.build(kind, subgame, "uniform", epsilon, gifts)
        solution = lp.solve(gadget.root, above.resolver, gadget.floors)
        refined |= solution.strategy
        rises.append(gadgets.rise_bound(kind, subgame, refined, 0.0, "uniform", epsilon, gifts))
    return refined, sum(rises) if kind == "reach-resolving" else max(rises)


def rise(above: gadgets.Above, refined: efg.Strategy) -> float:
    """The opponent's gain in the whole game."""
    after, before = (
        efg.best_response_value(above.game.root, above.opponent, rows) for rows in (refined, above.blueprint)
    )
    return after - before


@pytest.mark.parametrize("shape", ["betting", "uneven"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", REACH)
def test_gifts_in_every_subgame_are_safe(kind: str, rule: str, shape: str) -> None:
    """For gifts from either set of actions, as long as values are those of a best response.

    By induction from the cut upwards: if every root gains at most N·Σg, a' gains at most N(I')·Σg up to I'
    itself, because the roots below a' have together at most the mass of I'; there its value is at most `max_a
    CBV(I', a)`, which uses up its own gift.
    """
    used = 0
    for seed, resolver in itertools.product((1, 2), (0, 1)):
        above = random_subgames(shape, seed, resolver, 0.2)[0].above
        gifts = above.gifts(rule)
        for epsilon in (0.0, 0.1):
            refined, bound = spliced(kind, above, gifts, epsilon)
            assert rise(above, refined) <= bound + 1e-8
            assert epsilon > 0 or bound <= 1e-8
        used += any(g > 1e-3 for g in gifts.values())
    assert used > 0


@pytest.mark.parametrize(
    ("rule", "shape"),
    [("lower-bound", "uneven"), *(("estimate", name) for name in ("bids", "uneven", "weather"))],
)
@pytest.mark.parametrize("kind", REACH)
def test_scaled_gifts_are_safe_in_a_single_subgame(kind: str, rule: str, shape: str) -> None:
    more = 0
    for resolver in (0, 1):
        for subgame in random_subgames(shape, 2, resolver, 0.2):
            alone = dataclasses.replace(subgame.above, components=(subgame.roots,))
            gifts, plain = alone.gifts(rule, scaled=True), alone.gifts(rule)
            refined, bound = spliced(kind, alone, gifts, 0.0)
            assert rise(alone, refined) <= bound + 1e-8 <= 2e-8
            more += any(gifts[s] > plain[s] + 1e-3 for s in plain)
    assert more > 0


def test_scaled_gifts_in_two_subgames_are_not_safe() -> None:
    """Fig. 4 of *Safe and nested*, Tails sold for 0: always Tails solves both, and Heads then gains 1."""

    def guess(coin: str, name: str) -> efg.Node:
        paid = (efg.Terminal(-1.0 if call == coin else 1.0) for call in ("Heads", "Tails"))
        return efg.Decision(1, (1, name), ("Heads", "Tails"), tuple(paid))

    def coin_of(coin: str, price: float) -> efg.Node:
        play = efg.Chance((0.5, 0.5), tuple(guess(coin, name) for name in ("S1", "S2")))
        return efg.Decision(0, (0, coin), ("Sell", "Play"), (efg.Terminal(price), play))

    root = efg.Chance((0.5, 0.5), (coin_of("Heads", 0.5), coin_of("Tails", 0.0)))
    nodes = tuple(efg.walk(root))
    roots = [h for h, node in enumerate(nodes) if isinstance(node, efg.Decision) and node.player == 1]
    name_of = [node.infoset[1] if isinstance(node, efg.Decision) else None for node in nodes]
    infostate = [
        tuple((h // 11, name_of[h]) if h in roots else ("", h) for h in range(len(nodes))),
        tuple((1, name_of[h]) if h in roots else ("", h) for h in range(len(nodes))),
    ]
    game = efg.Game(nodes, (0,) * len(nodes), (infostate[0], infostate[1]))
    parts = tuple(tuple(h for h in roots if name_of[h] == name) for name in ("S1", "S2"))
    blueprint = {label: np.array([0.5, 0.5]) for label in ((0, "Heads"), (0, "Tails"), (1, "S1"), (1, "S2"))}
    above = gadgets.Above(game, parts, 1, blueprint)
    plain = above.gifts()
    heads, tails = above.subgames[0].states
    assert (plain[heads], plain[tails]) == (0.5, 0.0)
    alone = [gadgets.Above(game, (part,), 1, blueprint).gifts(scaled=True) for part in parts]
    scaled = {**alone[0], **alone[1]}
    assert (scaled[heads], scaled[tails]) == (1.0, 0.0)
    always_tails = {**blueprint, (1, "S1"): np.array([0.0, 1.0]), (1, "S2"): np.array([0.0, 1.0])}
    for subgame in above.subgames:
        gadget = gadgets.build("reach-resolving", subgame, gifts=scaled)
        optimum = lp.solve(gadget.root, 1).value
        found = gadgets.objective("reach-resolving", subgame, always_tails, gifts=scaled)
        assert found == pytest.approx(optimum, abs=1e-9)
    assert rise(above, always_tails) == pytest.approx(1 / 4)
    refined, bound = spliced("reach-resolving", above, plain, 0.0)
    assert rise(above, refined) <= bound + 1e-9 <= 2e-9


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("resolver", [0, 1])
def test_values_off_the_way_are_best_responses(shape: str, resolver: int) -> None:
    """An optimal continuation is the same if the opponent is paid its best value off the path."""
    above = random_subgames(shape, 0, resolver, 0.2)[0].above
    roots = [h for part in above.components for h in part]
    folded = gadgets.build("optimal-continuation", above.subgames[0])
    whole = gadgets.optimal_continuation(above.game, roots, resolver, above.blueprint)
    values = [lp.solve(gadget.root, resolver).value for gadget in (folded, whole)]
    assert values[0] == pytest.approx(values[1], abs=1e-9)
    before = -efg.best_response_value(above.game.root, 1 - resolver, above.blueprint)
    for subgame in above.subgames:
        full = lp.solve(gadgets.build("full", subgame).root, resolver).value
        assert before - 1e-9 <= full <= values[0] + 1e-9
        assert gadgets.objective("full", subgame, above.blueprint) == pytest.approx(before, abs=1e-9)
