"""Own infostates re-solved by themselves, against explicit trees; how their strategies go together.

The trees of `tests/reference/frozen.py` compute their own masses, alternative values and priors, and know no
constants: chance plays what is frozen.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import pathlib
from typing import Any

import numpy as np
import pytest

from jaxgadget import (
    BlueprintPrior,
    ContinuationValues,
    Full,
    MaxMargin,
    NoPrior,
    Opponent,
    OptimalContinuation,
    Policy,
    ReachResolving,
    Resolving,
    UniformPrior,
    Unsafe,
    exploitability,
)
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.games.examples import Turn
from jaxgadget.refining.knowledge import (
    COMBINE,
    Knowledge,
    KnowledgeSolution,
    KnowledgeTask,
    make_task,
    solve_knowledge,
)
from jaxgadget.refining.refine import refine, refine_both
from jaxgadget.refining.subgames import solve_gadgets
from jaxgadget.solving.options import make_options
from jaxgadget.tree.cut import Cut, cut
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.knowledge import shares
from jaxgadget.util.clock import Stopwatch
from tests.kernels import grove
from tests.reference import efg, frozen, gadgets, lp
from tests.reference.random_games import random_policy
from tests.refining import deals
from tests.tree.test_cover import pennies

players = pytest.mark.parametrize("player", [0, 1])

EPSILON = 0.05
PRIORS = {"none": NoPrior(), "uniform": UniformPrior(), "blueprint": BlueprintPrior()}
LANES = [("unsafe", "none"), *((kind, prior) for kind in ("resolving", "max-margin") for prior in PRIORS)]
GADGETS: tuple[Gadget, ...] = (
    Unsafe(),
    *(make(prior, EPSILON) for make in (Resolving, MaxMargin) for prior in PRIORS.values()),
)
NO_MISTAKES = (Resolving(NoPrior()), MaxMargin(NoPrior()))
SEED = 20


def options(**given: Any) -> Any:
    usual: dict[str, Any] = {
        "algorithm": "cfr+",
        "iterations": 50,
        "target_gap": None,
        "check_every": 100,
        "dtype": "float64",
        "checkpoint": None,
        "time_limit": None,
        "memory_limit": None,
        "devices": None,
    }
    return make_options(**{**usual, **given})


EXACT = options(algorithm="lp")


def solve_alone(task: KnowledgeTask) -> KnowledgeSolution:
    """Every own infostate by itself; the strategies are not to be used at once."""
    return solve_knowledge(task, "together", Stopwatch(), False)


def above_of(where: Cut, player: int, blueprint: efg.Strategy) -> gadgets.Above:
    """The explicit cut."""
    parts = tuple(tuple(where.roots[where.subgame == k].tolist()) for k in range(where.num_subgames))
    return gadgets.Above(efg.from_tree(where.tree), parts, player, blueprint)


def drawn_blueprints(tree: HistoryTree, seed: int) -> list[dict[Any, Any]]:
    """One that reaches everything, and one that does not."""
    return [random_policy(tree, np.random.default_rng(seed), zeros) for zeros in (0.0, 0.4)]


# --- every infostate by itself ------------------------------------------------------------


def spots(seed: int) -> tuple[Cut, list[dict[Any, Any]]]:
    """The grove, or drawn deals."""
    if seed < 0:
        return grove.grove_cut(SEED), grove.blueprints(SEED)
    tree = deals.drawn(seed)
    return cut(tree, "depth:0" if seed % 2 else "depth:1"), drawn_blueprints(tree, seed)


SPOTS = [-1, 0, 1, 2, 5]


def optima(seed: int, player: int, order: int, unfrozen: bool) -> np.ndarray:
    """`[I, lanes]` of the linear programs of the explicit trees."""
    where, blueprints = spots(seed)
    above = [above_of(where, player, blueprint) for blueprint in blueprints]
    own = frozen.own_infostates(above[0])
    values = np.zeros((len(own), len(LANES) * len(above)))
    for number, (kind, prior) in enumerate(LANES):
        for b, before in enumerate(above):
            for row, state in enumerate(own):
                gadget = frozen.build(kind, before, state, prior, EPSILON, order, unfrozen)
                values[row, number * len(above) + b] = lp.solve(gadget.root, player, gadget.floors).value
    return values


@pytest.mark.parametrize(
    ("seed", "order", "unfrozen", "player"),
    [(0, 1, False, 0), (1, 1, False, 1), (0, 1, True, 1), (3, 3, True, 0)],
)
def test_optima_equal_those_of_explicit_trees(seed: int, order: int, unfrozen: bool, player: int) -> None:
    check_optima(seed, order, unfrozen, player)  # further ones: tests/slow


def check_optima(seed: int, order: int, unfrozen: bool, player: int) -> None:
    where, blueprints = spots(seed)
    policy, known = grove.to_policy(where.tree, blueprints), {"order": order, "unfrozen": unfrozen}
    exact = solve_alone(make_task(where, player, policy, GADGETS, EXACT, **known))
    assert not exact.failures and exact.has_decision.any()
    expected = optima(seed, player, order, unfrozen)
    allowed = 1e-7 * (1 + np.abs(expected))
    assert (np.abs(exact.value - expected) <= allowed)[exact.has_decision].all()
    assert (exact.value <= expected + allowed).all()
    assert (expected <= exact.value + exact.gap + allowed).all()
    cfr = solve_alone(make_task(where, player, policy, GADGETS, options(iterations=50), **known))
    assert (cfr.value <= expected + allowed).all()
    assert (expected <= cfr.value + cfr.gap + allowed).all()
    assert cfr.gap.max() > 1e-6  # or the bracket would say nothing


def test_what_is_known_matters() -> None:
    """In a chain of infostates every order has another game; unfrozen, the worst root is near at hand."""
    where = cut(pennies(10), "depth:0")
    blueprint = Policy.uniform(where.tree)
    above = above_of(where, 0, grove.from_policy(blueprint, 0))
    own = frozen.own_infostates(above)[2]
    values = []
    for order, unfrozen in ((1, False), (1, True), (3, False), (5, False)):
        task = make_task(where, 0, blueprint, NO_MISTAKES[1:], EXACT, order=order, unfrozen=unfrozen)
        gadget = frozen.build("max-margin", above, own, "none", 0.0, order, unfrozen)
        values.append(lp.solve(gadget.root, 0, gadget.floors).value)
        assert solve_alone(task).value[2, 0] == pytest.approx(values[-1], abs=1e-8)
    assert len(set(np.round(values, 6).tolist())) > 2


@players
def test_at_infinite_order_all_is_as_in_the_cut(player: int) -> None:
    """However strategies are to go together: there is nothing to combine."""
    where, blueprints = spots(3)
    policy = grove.to_policy(where.tree, blueprints)
    task = make_task(where, player, policy, GADGETS, options(iterations=5), order=math.inf)
    usual = refine(
        where.tree, "depth:0", policy, GADGETS, player=player, value=(0, 0), dtype="float64", iterations=5
    )
    for how in COMBINE:
        found = solve_knowledge(task, how, Stopwatch(), False)
        for rows, expected in zip(found.policy.probabilities, usual.policy.probabilities, strict=True):
            np.testing.assert_allclose(rows, expected, rtol=0, atol=1e-12)
        component = task.known.subgame
        np.testing.assert_allclose(found.value, usual.gadget_value[component], rtol=0, atol=1e-13)
        np.testing.assert_allclose(found.gap, usual.gap[component], rtol=0, atol=1e-13)
        np.testing.assert_array_equal(found.has_decision, usual.has_decision[component])
        bound = usual.exploitability_bound - usual.blueprint_exploitability
        np.testing.assert_allclose(found.rise_bound, bound, rtol=0, atol=1e-12)


@players
def test_where_no_infostate_is_shared_all_is_as_in_the_cut(player: int) -> None:
    """Each own infostate is a component: the same programs, the same iterations."""
    deal = [(0.5, (0, 0)), (0.2, (0, 1)), (0.3, (1, 2))]
    if player == 1:
        deal = [(p, (hand[1], hand[0])) for p, hand in deal]
    rng = np.random.default_rng(7)

    def then() -> Turn:
        return Turn(0, {a: Turn(1, {b: float(rng.normal()) for b in deals.NAMES}) for a in deals.NAMES})

    tree = deals.play([(p, hand, then()) for p, hand in deal], "no infostate shared")
    policy = grove.to_policy(tree, drawn_blueprints(tree, 3))
    where = cut(tree, "depth:0")
    assert where.num_subgames == 2
    for how in ({"algorithm": "lp"}, {"iterations": 5}):
        task = make_task(where, player, policy, GADGETS, options(**how))
        alone = solve_knowledge(task, "together", Stopwatch(), False)
        usual = refine(tree, where, policy, GADGETS, player=player, value=(0, 0), dtype="float64", **how)
        np.testing.assert_allclose(alone.value, usual.gadget_value, rtol=0, atol=1e-12)
        np.testing.assert_allclose(alone.gap, usual.gap, rtol=0, atol=1e-12)
        assert np.array_equal(alone.has_decision, usual.has_decision)
        if "iterations" in how:
            for rows, expected in zip(alone.policy.probabilities, usual.policy.probabilities, strict=True):
                np.testing.assert_allclose(rows, expected, rtol=0, atol=1e-12)
        assert alone.policy.labels == usual.policy.labels


# --- how strategies go together -----------------------------------------------------------


def rise(tree: HistoryTree, policy: Policy, blueprint: Policy, player: int) -> np.ndarray:
    """`[lanes]` by how much exploitability rises."""
    before, after = (exploitability(p, player, value=(0, 0)) for p in (blueprint, policy))
    return after - np.tile(before, len(after) // len(before))


OVERSHOOTS = [(11, 0), (12, 0), (32, 1), (39, 1)]
"""Drawn games and players of which some blueprint is worse off with all new strategies at once."""


@pytest.mark.parametrize(("seed", "player"), [*OVERSHOOTS, (1, 0), (4, 1)])
def test_damped_and_in_turn_never_raise_exploitability(seed: int, player: int) -> None:
    check_safe(seed, player)  # the others: tests/slow


def check_safe(seed: int, player: int) -> None:
    """By linear programs and without mistakes."""
    tree = deals.drawn(seed)
    blueprint = grove.to_policy(tree, drawn_blueprints(tree, seed))
    task = make_task(cut(tree, "depth:0"), player, blueprint, NO_MISTAKES, EXACT)
    together = solve_knowledge(task, "together", Stopwatch(), False)
    if (seed, player) in OVERSHOOTS:
        assert rise(tree, together.policy, blueprint, player).max() > 0.02
    for how in ("damped", "in-turn"):
        result = solve_knowledge(task, how, Stopwatch(), False)
        assert not result.failures
        assert (rise(tree, result.policy, blueprint, player) <= 1e-8).all(), how
        assert (result.rise_bound >= 0).all() and (result.rise_bound < 1e-6).all()


@pytest.mark.parametrize("player", [1])
def test_damping_goes_part_of_the_way_in_realisation_plans(player: int) -> None:
    parted = set[float]()
    for seed in (1, 4, 9):
        tree = deals.drawn(seed)
        blueprint = grove.to_policy(tree, drawn_blueprints(tree, seed))
        task = make_task(cut(tree, "depth:0"), player, blueprint, GADGETS[2:4], options(iterations=20))
        whole, part = (solve_knowledge(task, how, Stopwatch(), False) for how in ("together", "damped"))
        share = np.append(shares(task.where, player), np.nan)[own_number(task)][:, None]
        before = np.tile(blueprint.reach(player)[1:], 2)
        wanted = before + share * (whole.policy.reach(player)[1:] - before)
        np.testing.assert_allclose(part.policy.reach(player)[1:], wanted, rtol=0, atol=1e-14)
        np.testing.assert_array_equal(part.value, whole.value)
        parted |= set(share.ravel().tolist())
    assert len(parted) > 1


def from_zero() -> HistoryTree:
    """One J; I₁ and I₂ at ½ each play s or d; y₁ pays 0, y₂ pays 1 for s and −2 for d."""

    def then() -> Turn:
        answers = {"a": {"a": 0.0, "b": 1.0}, "b": {"a": 0.0, "b": -2.0}}
        return Turn(0, {name: Turn(1, pay) for name, pay in answers.items()})

    return deals.play([(0.5, (hand, 0), then()) for hand in (0, 1)], "example from 0")


def test_all_at_once_may_overshoot() -> None:
    """The blueprint is an equilibrium, CFR's new strategies are optimal, and together they lose ½."""
    tree = from_zero()
    rows = {(0, 0): np.array([1.0, 0.0]), (0, 1): np.array([1.0, 0.0]), (1, 0): np.array([0.5, 0.5])}
    blueprint = grove.to_policy(tree, [rows])
    task = make_task(cut(tree, "depth:0"), 0, blueprint, NO_MISTAKES, options())
    assert exploitability(blueprint, 0, value=(0, 0)) == pytest.approx([0.0], abs=1e-12)
    for how, lost in {"together": 0.5, "damped": 0.0, "in-turn": 0.0}.items():
        result = solve_knowledge(task, how, Stopwatch(), False)
        assert result.gap.max() < 2e-3
        assert exploitability(result.policy, 0, value=(0, 0)) == pytest.approx([lost] * 2, abs=1e-9)


def test_pennies() -> None:
    """20 states, the uniform blueprint, max-margin: all at once doubles what half the way takes to .2375.

    How much the others lose hangs on which of several optima is found; two classes in turn get further.
    """
    tree = pennies(20)
    blueprint, value = Policy.uniform(tree), (3.3125, 3.3125)
    task = make_task(cut(tree, "depth:0"), 0, blueprint, (MaxMargin(NoPrior()),), EXACT)
    lost = {
        how: exploitability(solve_knowledge(task, how, Stopwatch(), False).policy, 0, value=value)[0]
        for how in COMBINE
    }
    assert exploitability(blueprint, 0, value=value) == pytest.approx([0.8125], abs=1e-6)
    assert lost["together"] > 1.2
    assert lost["damped"] == pytest.approx(0.2375, abs=1e-6)
    assert 0 <= lost["in-turn"] < 0.15


# --- what is kept and what is refused -----------------------------------------------------


@players
def test_alone_every_infostate_of_the_opponent_is_worth_as_much_as_before(player: int) -> None:
    """Without mistakes; and where the blueprint never gets, it stays, and that is told."""
    for seed in range(3):
        tree = deals.drawn(seed)
        blueprint = grove.to_policy(tree, drawn_blueprints(tree, seed))
        task = make_task(cut(tree, "depth:1"), player, blueprint, NO_MISTAKES, EXACT)
        alone = task.gadget_task()
        solutions = solve_gadgets(alone, Stopwatch(), False)
        ranges = alone.prepare(alone.forest).ranges
        promised = np.tile(ranges.cbv, 2)
        counted = np.tile(ranges.mass > 0, 2)
        assert (solutions.below >= promised - 1e-9)[counted].all()
        own = task.forest.roots[player]
        reach = np.tile(blueprint.reach(player)[own.sequence], 2)
        assert not solutions.has_decision[reach == 0].any()
        stayed = np.append(~solutions.has_decision, np.ones((1, 4), np.bool_), axis=0)[own_number(task)]
        rows, before = solutions.policy(alone).probabilities[player], blueprint.probabilities[player]
        assert (np.abs(rows - np.tile(before, 2))[stayed] <= 1e-15).all()


def own_number(task: KnowledgeTask) -> np.ndarray:
    """`[Q]` the number of the own infostate above each action of the tree, -1 above the cut."""
    tree, player = task.where.tree, task.player
    own, infosets = task.forest.roots[player].infostate.tolist(), tree.infosets[player]
    roots = task.where.root[infosets.history].tolist()
    above = [own.index(tree.infostate[player, root]) if root >= 0 else -1 for root in roots]
    return np.array(above)[infosets.infoset[1:]]


def test_in_turn_is_resumed(tmp_path: pathlib.Path) -> None:
    tree = deals.drawn(3)
    blueprint = grove.to_policy(tree, drawn_blueprints(tree, 3))
    usual = make_task(cut(tree, "depth:0"), 0, blueprint, GADGETS[1:5], options(iterations=4))
    expected = solve_knowledge(usual, "in-turn", Stopwatch(), False)
    kept = dataclasses.replace(usual, options=options(iterations=4, checkpoint=tmp_path / "kept"))
    for _ in range(2):
        found = solve_knowledge(kept, "in-turn", Stopwatch(), False)
        assert np.array_equal(found.policy.probabilities[0], expected.policy.probabilities[0])
        np.testing.assert_array_equal(found.value, expected.value)


@pytest.mark.parametrize(
    "gadget", [OptimalContinuation(), Full(), ReachResolving(), Resolving(alternative=ContinuationValues())]
)
def test_gadgets_that_look_beyond_are_refused(gadget: Gadget) -> None:
    tree = deals.drawn(0)
    with pytest.raises(ValueError, match=f"gadgets: {gadget.name} looks at play above the cut or below"):
        make_task(cut(tree, "depth:0"), 0, Policy.uniform(tree), (Unsafe(), gadget), options())


def test_other_ways_to_combine_are_refused() -> None:
    tree = deals.drawn(0)
    task = make_task(cut(tree, "depth:0"), 0, Policy.uniform(tree), NO_MISTAKES, options())
    with pytest.raises(ValueError, match="combine='apart': expected one of together, damped, in-turn"):
        solve_knowledge(task, "apart", Stopwatch(), False)  # pyright: ignore[reportArgumentType]


# --- refine -------------------------------------------------------------------------------


@pytest.mark.parametrize(("order", "unfrozen", "player"), [(1, False, 0), (3, True, 1)])
def test_refine_measures_what_is_put_together(order: int, unfrozen: bool, player: int) -> None:
    where, blueprints = spots(3)
    policy = grove.to_policy(where.tree, blueprints)
    how = {"player": player, "iterations": 20, "dtype": "float64", "value": (0, 0)}
    task = make_task(where, player, policy, GADGETS, options(iterations=20), order=order, unfrozen=unfrozen)
    for combine in COMBINE:
        knowledge = Knowledge(order, unfrozen, combine)
        found = refine(where.tree, "depth:0", policy, GADGETS, knowledge=knowledge, **how)
        expected = solve_knowledge(task, combine, Stopwatch(), False)
        for rows, wanted in zip(found.policy.probabilities, expected.policy.probabilities, strict=True):
            np.testing.assert_array_equal(rows, wanted)
        measured = exploitability(found.policy, player, value=(0, 0))
        np.testing.assert_array_equal(found.refined_exploitability, measured)
        before = np.tile(exploitability(policy, player, value=(0, 0)), len(GADGETS))
        np.testing.assert_array_equal(found.blueprint_exploitability, before)
        is_safe = combine != "together" and order == 1 and not unfrozen
        known = ~np.isnan(found.exploitability_bound)
        assert known.tolist() == [is_safe and lane >= 2 for lane in range(len(known))]
        assert (measured <= found.exploitability_bound + 1e-9)[known].all()
        assert found.knowledge == knowledge
        assert found.gadget_value.shape == found.gap.shape == (found.num_subgames, len(known))
        np.testing.assert_array_equal(found.gadget_value[task.known.subgame], expected.value)
        assert len(found.table) == len(known) and "largest gap" in found.message


@pytest.mark.parametrize("unfrozen", [True])
def test_parts_of_what_is_known_are_as_the_whole(unfrozen: bool) -> None:
    """Where not all subgames fit in memory."""
    where, blueprints = spots(-1)
    policy = grove.to_policy(where.tree, blueprints[:1])
    how = {"iterations": 3, "dtype": "float64", "value": (0, 0), "knowledge": Knowledge(1, unfrozen)}
    whole = refine(where.tree, where, policy, NO_MISTAKES[:1], **how)
    (plan,) = whole.plans
    limit = int(0.8 * (plan.shared + plan.size.total(1)))
    parts = refine(where.tree, where, policy, NO_MISTAKES[:1], memory_limit=limit, **how)
    assert len(parts.plans) > 1
    for name in ("gadget_value", "gap", "refined_exploitability", "exploitability_bound"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=0, atol=1e-9)
    rows = (result.policy.probabilities[0] for result in (parts, whole))
    np.testing.assert_allclose(*rows, rtol=0, atol=1e-9)


def test_refine_at_infinite_order_is_refine() -> None:
    where, blueprints = spots(2)
    policy = grove.to_policy(where.tree, blueprints)
    how = {"algorithm": "lp", "value": (0, 0)}
    usual = refine(where.tree, "depth:0", policy, GADGETS, **how)
    found = refine(where.tree, "depth:0", policy, GADGETS, knowledge=Knowledge(math.inf), **how)
    columns = [name for name in usual.table if usual.table[name].dtype == np.float64]
    expected = usual.table[columns].to_numpy()
    np.testing.assert_allclose(found.table[columns].to_numpy(), expected, rtol=0, atol=1e-9)
    assert found.table["blueprint"].tolist() == usual.table["blueprint"].tolist()


def test_both_players_may_know_only_so_much() -> None:
    tree = pennies(4)
    both = refine_both(
        tree, "depth:0", Policy.uniform(tree), NO_MISTAKES, knowledge=Knowledge(), algorithm="lp"
    )
    assert (both.nash_conv <= both.blueprint_nash_conv + 1e-9).all()
    assert (both.nash_conv < both.blueprint_nash_conv - 0.01).any()


def test_what_knowledge_refuses() -> None:
    tree = pennies(4)
    ask = functools.partial(refine, tree, "depth:0", Policy.uniform(tree), NO_MISTAKES)
    with pytest.raises(ValueError, match="order=2: expected an odd whole number"):
        Knowledge(2)
    with pytest.raises(ValueError, match="unfrozen=None: expected True or False"):
        Knowledge(unfrozen=None)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="combine='all': expected one of together"):
        Knowledge(combine="all")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"knowledge=1: expected Knowledge\(\)"):
        ask(knowledge=1)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"knowledge and opponent: .* expected one of the two"):
        ask(knowledge=Knowledge(), opponent=Opponent(Policy.uniform(tree), 0.5))
    with pytest.raises(ValueError, match="gadgets: full looks at play above the cut"):
        refine(tree, "depth:0", Policy.uniform(tree), Full(), knowledge=Knowledge())
