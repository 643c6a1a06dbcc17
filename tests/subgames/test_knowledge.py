"""Own infostates re-solved separately, compared with explicit trees; combinations of their strategies.

The trees of `tests/reference/frozen.py` compute their own masses, alternative values and priors, without
constants: frozen decisions are chance moves.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jaxgadget import (
    ArrayValues,
    BlueprintPrior,
    BlueprintValues,
    ContinuationValues,
    Full,
    MaxMargin,
    NoPrior,
    Opponent,
    Policy,
    RandomGeneration,
    Resolving,
    UniformPrior,
    Unsafe,
    evaluate_policy,
    exploitability,
    solve,
)
from jaxgadget.core.devices import HOME
from jaxgadget.core.memory import DoesNotFit
from jaxgadget.core.solver import Solver
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.games.examples import Turn
from jaxgadget.subgames.engine import assemble, solve_subgames
from jaxgadget.subgames.knowledge import (
    COMBINE,
    Combine,
    Knowledge,
    KnowledgeSolution,
    KnowledgeTask,
    check_knowledge,
    make_task,
    solve_knowledge,
)
from jaxgadget.subgames.prepare import plan_ranges, prepare_base
from jaxgadget.subgames.refine import refine, refine_both
from jaxgadget.tree.cut import Cut, cut
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.knowledge import shares
from jaxgadget.util import compilation
from jaxgadget.util.clock import Stopwatch
from tests.core import grove
from tests.reference import efg, frozen, gadgets, lp
from tests.reference.random_games import random_policy
from tests.solving import settings
from tests.subgames import deals
from tests.tree.test_cover import after_all_histories, like_hashes, pennies

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
    return Solver(**{**usual, **given})


EXACT = options(algorithm="lp")


def solve_as(task: KnowledgeTask, combine: Combine, **given: Any) -> KnowledgeSolution:
    """Strategies combined by the given method."""
    knowledge = dataclasses.replace(task.knowledge, combine=combine, **given)
    return solve_knowledge(dataclasses.replace(task, knowledge=knowledge), Stopwatch())


def solve_alone(task: KnowledgeTask) -> KnowledgeSolution:
    """Every own infostate separately, without combining the strategies. Rows are own infostates."""
    solution, subgame = solve_as(task, "together"), task.known.subgame
    rows = {name: getattr(solution, name)[subgame] for name in ("value", "gap", "has_decision")}
    return dataclasses.replace(solution, **rows)


def above_of(where: Cut, player: int, blueprint: efg.Strategy) -> gadgets.Above:
    """The explicit cut of a lane."""
    parts = tuple(tuple(where.roots[where.subgame == k].tolist()) for k in range(where.num_subgames))
    return gadgets.Above(efg.from_tree(where.tree), parts, player, blueprint)


def drawn_blueprints(tree: HistoryTree, seed: int) -> list[dict[Any, Any]]:
    """One with full support, and one without."""
    return [random_policy(tree, np.random.default_rng(seed), zeros) for zeros in (0.0, 0.4)]


# --- every infostate by itself ------------------------------------------------------------


def spots(seed: int) -> tuple[Cut, list[dict[Any, Any]]]:
    """The grove, or random deals."""
    if seed < 0:
        return grove.grove_cut(SEED), grove.blueprints(SEED)
    tree = deals.drawn(seed)
    return cut(tree, "depth:0" if seed % 2 else "depth:1"), drawn_blueprints(tree, seed)


SPOTS = [-1, 0, 1, 2, 5]


def optima(seed: int, player: int, order: int, unfrozen: bool) -> np.ndarray:
    """`[I, lanes]` optima of the linear programs of the explicit trees."""
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
    [(0, 1, False, 0), (0, 1, True, 1)],
)
def test_optima_equal_those_of_explicit_trees(seed: int, order: int, unfrozen: bool, player: int) -> None:
    check_optima(seed, order, unfrozen, player)  # further ones: tests/slow


def check_optima(seed: int, order: int, unfrozen: bool, player: int) -> None:
    where, blueprints = spots(seed)
    policy, known = grove.to_policy(where.tree, blueprints), {"order": order, "unfrozen": unfrozen}
    exact = solve_alone(make_task(where, player, policy, GADGETS, EXACT, Knowledge(**known)))
    assert not exact.failures and exact.has_decision.any()
    expected = optima(seed, player, order, unfrozen)
    allowed = 1e-7 * (1 + np.abs(expected))
    assert (np.abs(exact.value - expected) <= allowed)[exact.has_decision].all()
    assert (exact.value <= expected + allowed).all()
    assert (expected <= exact.value + exact.gap + allowed).all()
    cfr = solve_alone(make_task(where, player, policy, GADGETS, options(iterations=50), Knowledge(**known)))
    assert (cfr.value <= expected + allowed).all()
    assert (expected <= cfr.value + cfr.gap + allowed).all()
    assert cfr.gap.max() > 1e-6  # otherwise the bracket would be uninformative


@pytest.mark.parametrize("renumbered", [after_all_histories, like_hashes])
def test_ids_of_infostates_do_not_matter(renumbered: Callable[[HistoryTree], HistoryTree]) -> None:
    usual = grove.grove_cut(SEED)
    where = dataclasses.replace(usual, tree=renumbered(usual.histories))
    first, second = (
        solve_alone(make_task(each, 0, Policy.uniform(each.histories), GADGETS, EXACT, Knowledge()))
        for each in (usual, where)
    )
    assert np.ptp(first.value) > 0
    np.testing.assert_array_equal(first.value, second.value)
    np.testing.assert_array_equal(first.drawn.probabilities[0], second.drawn.probabilities[0])


def test_orders_of_knowledge_differ() -> None:
    """In a chain of infostates every order has another game; unfrozen, the worst root is in every game."""
    where = cut(pennies(10), "depth:0")
    blueprint = Policy.uniform(where.tree)
    above = above_of(where, 0, grove.from_policy(blueprint, 0))
    own = frozen.own_infostates(above)[2]
    values = []
    for order, unfrozen in ((1, False), (1, True), (3, False), (5, False)):
        task = make_task(where, 0, blueprint, NO_MISTAKES[1:], EXACT, Knowledge(order, unfrozen))
        gadget = frozen.build("max-margin", above, own, "none", 0.0, order, unfrozen)
        values.append(lp.solve(gadget.root, 0, gadget.floors).value)
        assert solve_alone(task).value[2, 0] == pytest.approx(values[-1], abs=1e-8)
    assert len(set(np.round(values, 6).tolist())) > 2


# --- combinations of strategies -----------------------------------------------------------


def rise(tree: HistoryTree, policy: Policy, blueprint: Policy, player: int) -> np.ndarray:
    """`[lanes]` the rise in exploitability."""
    before, after = (exploitability(p, player, value=(0, 0)) for p in (blueprint, policy))
    return after - np.tile(before, len(after) // len(before))


def test_damped_and_in_turn_never_raise_exploitability() -> None:
    check_safe(11, 0)  # other cases: tests/slow


def check_safe(seed: int, player: int) -> None:
    """By linear programs with ε = 0; also from an equilibrium, where `together` may lose."""
    tree = deals.drawn(seed)
    equilibrium = solve(tree, algorithm="lp").policy
    blueprint = Policy.stack([grove.to_policy(tree, drawn_blueprints(tree, seed)), equilibrium])
    scale = tree.payoff_range
    task = make_task(cut(tree, "depth:0"), player, blueprint, NO_MISTAKES, EXACT, Knowledge())
    together = solve_as(task, "together")
    check_worth(equilibrium, together.policy, player)
    for how in ("damped", "in-turn", "one-by-one"):
        result = solve_as(task, how)
        assert not result.failures
        assert (rise(tree, result.policy, blueprint, player) <= 1e-9 * scale).all(), how
        assert (result.rise_bound >= 0).all() and (result.rise_bound < 1e-6).all()


def check_worth(equilibrium: Policy, policy: Policy, player: int) -> None:
    """At an equilibrium, the new strategies of all infostates combined keep the game's value.

    Each of them alone makes an equilibrium, and together they are an affine combination of these.
    """
    value = float(evaluate_policy(equilibrium).value[0])
    for lane in range(policy.num_lanes // 3):
        rows = policy.probabilities[player][:, [3 * lane + 2]], equilibrium.probabilities[1 - player]
        profile = Policy(policy.tree, rows if player == 0 else rows[::-1], ("against it",))
        assert abs(evaluate_policy(profile).value[0] - value) <= 1e-9 * policy.tree.payoff_range


@players
@pytest.mark.slow
def test_shares_of_the_program_are_safe_too(player: int) -> None:
    """Where they differ from those by degree; with few iterations, exploitability is within the bound."""
    tree, changed = deals.drawn(11), 0.0
    blueprint = grove.to_policy(tree, drawn_blueprints(tree, 11))
    for how, asked in ((EXACT, NO_MISTAKES), (options(iterations=3), GADGETS[1:])):
        task = make_task(cut(tree, "depth:0"), player, blueprint, asked, how, Knowledge(shares="program"))
        usual, result = (solve_as(task, "damped", shares=by) for by in ("degree", "program"))
        changed += np.abs(usual.policy.probabilities[player] - result.policy.probabilities[player]).max()
        lost = rise(tree, result.policy, blueprint, player)
        assert (lost <= result.rise_bound + 1e-9 * tree.payoff_range).all()
        assert how is not EXACT or (lost <= 1e-9 * tree.payoff_range).all()
        assert not np.array_equal(usual.rise_bound, result.rise_bound)
    assert changed > 0.01


@pytest.mark.slow
def test_in_turn_gadgets_are_independent() -> None:
    """A batch gives the results of separate gadgets, each against its own changed blueprint."""
    tree = deals.drawn(3)
    blueprint = grove.to_policy(tree, drawn_blueprints(tree, 3))
    knowledge = Knowledge(combine="in-turn")
    task = make_task(cut(tree, "depth:0"), 0, blueprint, GADGETS, options(iterations=10), knowledge)
    assert len(task.steps()) > 1
    result = solve_knowledge(task, Stopwatch())
    for number, gadget in enumerate(GADGETS):
        alone = solve_knowledge(dataclasses.replace(task, gadgets=(gadget,)), Stopwatch())
        lanes = slice(number * blueprint.num_lanes, (number + 1) * blueprint.num_lanes)
        rows = alone.policy.probabilities[0], result.policy.probabilities[0][:, lanes]
        np.testing.assert_allclose(*rows, rtol=0, atol=1e-12)
        np.testing.assert_allclose(alone.value, result.value[:, lanes], rtol=0, atol=1e-12)
        np.testing.assert_allclose(alone.rise_bound, result.rise_bound[lanes], rtol=0, atol=1e-12)
    assert len(result.plans) == len(task.steps())  # all gadgets of a class are one batch


@pytest.mark.slow
def test_damping_mixes_realisation_plans() -> None:
    player = 1
    parted = set[float]()
    for seed in (1, 4, 9):
        tree = deals.drawn(seed)
        blueprint = grove.to_policy(tree, drawn_blueprints(tree, seed))
        task = make_task(
            cut(tree, "depth:0"), player, blueprint, GADGETS[2:4], options(iterations=20), Knowledge()
        )
        whole, part = (solve_as(task, how) for how in ("together", "damped"))
        share = np.append(shares(task.where, player), np.nan)[own_number(task)][:, None]
        before = np.tile(blueprint.reach(player)[1:], 2)
        wanted = before + share * (whole.policy.reach(player)[1:] - before)
        np.testing.assert_allclose(part.policy.reach(player)[1:], wanted, rtol=0, atol=1e-14)
        np.testing.assert_array_equal(part.value, whole.value)
        parted |= set(share.ravel().tolist())
    assert len(parted) > 1


def from_zero() -> HistoryTree:
    """One J; I₁ and I₂ with probability ½ each play s or d; y₁ pays 0, y₂ pays 1 for s and −2 for d."""

    def then() -> Turn:
        answers = {"a": {"a": 0.0, "b": 1.0}, "b": {"a": 0.0, "b": -2.0}}
        return Turn(0, {name: Turn(1, pay) for name, pay in answers.items()})

    return deals.play([(0.5, (hand, 0), then()) for hand in (0, 1)], "example from 0")


def test_all_at_once_may_overshoot() -> None:
    """The blueprint is an equilibrium, CFR's new strategies are optimal, and combined they lose ½."""
    tree = from_zero()
    rows = {(0, 0): np.array([1.0, 0.0]), (0, 1): np.array([1.0, 0.0]), (1, 0): np.array([0.5, 0.5])}
    blueprint = grove.to_policy(tree, [rows])
    task = make_task(cut(tree, "depth:0"), 0, blueprint, NO_MISTAKES, options(), Knowledge())
    assert exploitability(blueprint, 0, value=(0, 0)) == pytest.approx([0.0], abs=1e-12)
    for how, lost in {"together": 0.5, "damped": 0.0, "in-turn": 0.0}.items():
        result = solve_as(task, how)
        assert result.gap.max() < 2e-3
        assert exploitability(result.policy, 0, value=(0, 0)) == pytest.approx([lost] * 2, abs=1e-9)


def test_pennies() -> None:
    """20 states, uniform blueprint, max-margin: `together` is worse, `damped` lowers exploitability to .2375.

    The loss of the other methods depends on which of several optima is found; `in turn` improves further.
    """
    tree = pennies(20)
    blueprint, value = Policy.uniform(tree), (3.3125, 3.3125)
    task = make_task(cut(tree, "depth:0"), 0, blueprint, (MaxMargin(NoPrior()),), EXACT, Knowledge())
    lost = {how: exploitability(solve_as(task, how).policy, 0, value=value)[0] for how in COMBINE}
    assert exploitability(blueprint, 0, value=value) == pytest.approx([0.8125], abs=1e-6)
    assert lost["together"] > 1.2
    assert lost["damped"] == pytest.approx(0.2375, abs=1e-6)
    assert 0 <= lost["in-turn"] < 0.15
    assert 0 <= lost["one-by-one"] < 0.15


# --- unreachable infostates and errors ----------------------------------------------------


@players
@pytest.mark.slow
def test_alone_every_infostate_of_the_opponent_is_worth_as_much_as_before(player: int) -> None:
    """With ε = 0. If the blueprint has no reach, it is kept, and the result reports it."""
    for seed in range(3):
        tree = deals.drawn(seed)
        blueprint = grove.to_policy(tree, drawn_blueprints(tree, seed))
        task = make_task(cut(tree, "depth:1"), player, blueprint, NO_MISTAKES, EXACT, Knowledge())
        alone = task.subgames()
        solutions = solve_subgames(alone, task.solver, Stopwatch())
        ranges = alone.prepare(alone.forest).ranges
        promised = np.tile(ranges.cbv, 2)
        counted = np.tile(ranges.mass > 0, 2)
        assert (solutions.below >= promised - 1e-9)[counted].all()
        own = task.forest.roots[player]
        reach = np.tile(blueprint.reach(player)[own.sequence], 2)
        assert not solutions.has_decision[reach == 0].any()
        stayed = np.append(~solutions.has_decision, np.ones((1, 4), np.bool_), axis=0)[own_number(task)]
        rows, before = assemble(alone, solutions).probabilities[player], blueprint.probabilities[player]
        assert (np.abs(rows - np.tile(before, 2))[stayed] <= 1e-15).all()


def own_number(task: KnowledgeTask) -> np.ndarray:
    """`[Q]` index of the own infostate above each action of the tree, -1 above the cut."""
    tree, player = task.where.tree, task.player
    own, infosets = task.forest.roots[player].infostate.tolist(), tree.infosets[player]
    roots = task.where.root[infosets.history].tolist()
    above = [own.index(tree.infostate[player, root]) if root >= 0 else -1 for root in roots]
    return np.array(above)[infosets.infoset[1:]]


def test_in_turn_is_resumed_and_programs_of_classes_are_dropped(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every class compiles new programs, which are dropped; results do not change."""
    tree = deals.drawn(3)
    blueprint = grove.to_policy(tree, drawn_blueprints(tree, 3))
    usual = make_task(cut(tree, "depth:0"), 0, blueprint, GADGETS[1:5], options(iterations=4), Knowledge())
    expected = solve_as(usual, "in-turn")
    kept = dataclasses.replace(usual, solver=options(iterations=4, checkpoint=tmp_path / "kept"))
    steps = len(dataclasses.replace(kept, knowledge=Knowledge(combine="in-turn")).steps())
    dropped: list[int] = []
    monkeypatch.setattr(compilation, "drop_programs", lambda: dropped.append(len(dropped)))
    for most in (10, 10**9):
        dropped.clear()
        monkeypatch.setattr(compilation, "MAX_MAPPINGS", most)
        found = solve_as(kept, "in-turn")
        assert np.array_equal(found.policy.probabilities[0], expected.policy.probabilities[0])
        np.testing.assert_array_equal(found.value, expected.value)
        assert (len(dropped) >= steps > 1) if most == 10 else not dropped


@pytest.mark.parametrize("generate", [None, RandomGeneration(1, draws=2)])
def test_if_one_class_fails_the_whole_blueprint_is_kept(
    generate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The neighbouring lanes are not affected."""
    where, blueprints = spots(3)
    policy, count = grove.to_policy(where.tree, blueprints), len(blueprints)
    task = make_task(where, 0, policy, NO_MISTAKES, options(iterations=5), Knowledge(generate=generate))
    usual, classes = solve_as(task, "in-turn"), list[Any]()

    def failing(alone: Any, *given: Any) -> Any:
        solutions = solve_subgames(alone, *given)
        if len(classes) == 1:
            solutions.failures[0] = "too large"
        classes.append(alone)
        return solutions

    monkeypatch.setattr("jaxgadget.subgames.knowledge.solve_subgames", failing)
    found = solve_as(task, "in-turn")
    assert len(classes) == 2 and found.failures == {0: "too large"}
    before = np.tile(policy.probabilities[0], len(NO_MISTAKES))
    rows, others = found.policy.probabilities[0], np.arange(1, len(NO_MISTAKES) * count)
    np.testing.assert_array_equal(rows[:, 0], before[:, 0])
    np.testing.assert_array_equal(rows[:, others], usual.policy.probabilities[0][:, others])
    assert np.abs(usual.policy.probabilities[0] - before)[:, 0].max() > 0.1
    assert np.isnan(found.value[:, 0]).all() and not np.isnan(found.gap[:, others]).any()


@pytest.mark.parametrize(
    ("gadget", "named"),
    [
        (Full(), "full"),
        (Resolving(alternative=ContinuationValues(3)), "resolving"),
    ],
)
def test_gadgets_that_look_beyond_are_refused(gadget: Gadget, named: str) -> None:
    with pytest.raises(ValueError, match=f"gadgets: {named} requires"):
        check_knowledge(Knowledge(), (Unsafe(), gadget), None)


# --- generation ---------------------------------------------------------------------------


class Chosen:
    """A user-defined generation: one draw per function of the values and subgames."""

    name = "chosen"

    def __init__(self, *choices: Callable[[np.ndarray, np.ndarray], np.ndarray]):
        self.choices, self.draws = choices, len(choices)

    def consider(self, values: np.ndarray, subgame: np.ndarray) -> np.ndarray:
        return np.concatenate(
            [np.broadcast_to(choose(values, subgame), values.shape) for choose in self.choices], axis=1
        )


NONE = Chosen(lambda values, subgame: np.zeros_like(values, np.bool_))


def at_random(seed: int, values: np.ndarray, subgame: np.ndarray) -> np.ndarray:
    """Some of the infostates, and none in some subgames."""
    return np.random.default_rng(seed).random(values.shape) < 0.6


GENERATED = [
    (1, 1, False, 1),
    (0, 1, True, 0),
    pytest.param(0, 1, False, 0, marks=pytest.mark.slow),
    pytest.param(1, 3, False, 0, marks=pytest.mark.slow),
    pytest.param(0, math.inf, False, 0, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("seed", "order", "unfrozen", "player"), GENERATED)
def test_generated_optima_equal_those_of_explicit_trees(
    seed: int, order: float, unfrozen: bool, player: int
) -> None:
    """For the roots considered; infosets that only other roots lead to keep the blueprint."""
    check_generated(seed, order, unfrozen, player)  # further cases: tests/slow


def check_generated(seed: int, order: float, unfrozen: bool, player: int) -> None:
    where, blueprints = spots(seed)
    policy = grove.to_policy(where.tree, blueprints)
    knowledge = Knowledge(order, unfrozen, Chosen(*(functools.partial(at_random, k) for k in (0, 1))))
    task = make_task(where, player, policy, GADGETS, EXACT, knowledge)
    cfr = make_task(where, player, policy, GADGETS, options(iterations=50), knowledge)
    alone, known, count = task.subgames(), task.known, len(blueprints)
    considered = None if alone.overlap is None else alone.overlap.considered
    assert considered is not None and not considered.all()
    exact, averages = (solve_subgames(t.subgames(), t.solver, Stopwatch()) for t in (task, cfr))
    assert not exact.failures and exact.has_decision.any()
    rows = assemble(alone, exact).probabilities[player]
    roots, infosets, left = task.forest.roots[1 - player], where.tree.infosets[player], 0
    above = [above_of(where, player, blueprint) for blueprint in blueprints]
    for lane in range(len(LANES) * 2 * count):
        number, draw, b = lane // (2 * count), lane // count % 2, lane % count
        kind, prior = LANES[number]
        for row, own in enumerate(frozen.own_infostates(above[b])):
            subgame = int(known.subgame[row])
            mine = (roots.subgame == subgame) & considered[:, draw * count + b]
            states = set(roots.infostate[mine].tolist())
            gadget = frozen.build(kind, above[b], own, prior, EPSILON, order, unfrozen, states)
            expected = lp.solve(gadget.root, player, gadget.floors).value
            allowed = 1e-7 * (1 + abs(expected))
            for found in (exact, averages):
                assert found.value[subgame, lane] <= expected + allowed
                assert expected <= found.value[subgame, lane] + found.gap[subgame, lane] + allowed
            if exact.has_decision[subgame, lane]:
                assert abs(exact.value[subgame, lane] - expected) <= allowed
            seen = {label[1] for label, node in efg.infosets(gadget.root).items() if node.player == player}
            for label in frozen.free_infosets(above[b], own):
                if label[1] not in seen:
                    taken = infosets.infoset == label[1]
                    before = policy.probabilities[player][taken[1:], b]
                    np.testing.assert_allclose(rows[taken[1:], lane], before, rtol=0, atol=1e-15)
                    left += 1
    assert left > 0


@pytest.mark.slow
def test_to_consider_all_or_nothing() -> None:
    """With all roots every digit equals that without a generation; with none the blueprint is kept."""
    where, blueprints = spots(3)
    policy = grove.to_policy(where.tree, blueprints)
    task = make_task(where, 0, policy, GADGETS, options(iterations=5), Knowledge(1, True))
    for combine in COMBINE:
        usual = solve_as(task, combine)
        everything = solve_as(task, combine, generate=RandomGeneration(100))
        for name in ("value", "gap", "has_decision", "epsilon"):
            np.testing.assert_array_equal(getattr(everything, name), getattr(usual, name))
        np.testing.assert_array_equal(*(s.policy.probabilities[0] for s in (everything, usual)))
        assert np.isnan(everything.rise_bound).all()
        nothing = solve_as(task, combine, generate=NONE)
        before = np.tile(policy.probabilities[0], len(GADGETS))
        np.testing.assert_allclose(nothing.policy.probabilities[0], before, rtol=0, atol=1e-15)
        assert not nothing.has_decision.any() and not nothing.failures


@players
def test_a_generation_receives_the_opponents_values(player: int) -> None:
    """Values of whole infostates against the current blueprint, those of each subgame together."""
    where, blueprints = spots(1)
    policy, seen = grove.to_policy(where.tree, blueprints), list[tuple[np.ndarray, np.ndarray]]()

    def watch(values: np.ndarray, subgame: np.ndarray) -> np.ndarray:
        seen.append((values, subgame))
        return values > 0

    task = make_task(where, player, policy, NO_MISTAKES, EXACT, Knowledge(generate=Chosen(watch)))
    overlap = task.subgames().overlap
    assert overlap is not None and overlap.considered is not None
    assert np.array_equal(overlap.considered, seen[0][0] > 0)
    ((values, subgame),) = seen
    np.testing.assert_array_equal(subgame, task.forest.roots[1 - player].subgame)
    for b, blueprint in enumerate(blueprints):
        above = above_of(where, player, blueprint)
        for row, own in enumerate(frozen.own_infostates(above)):
            whole = frozen.subgame(above, own)
            best = whole.normalized_cbvs()
            states = task.forest.roots[1 - player].infostate[subgame == row].tolist()
            expected = [-best.get(state, 0.0) for state in states]
            np.testing.assert_allclose(values[subgame == row, b], expected, rtol=0, atol=1e-12)
    seen.clear()
    solve_as(task, "in-turn")
    steps = dataclasses.replace(task, knowledge=Knowledge(combine="in-turn")).steps()
    assert [np.unique(numbers).tolist() for _, numbers in seen] == [s.infostates.tolist() for s in steps]
    assert seen[-1][0].shape[1] == len(NO_MISTAKES) * len(blueprints)  # one blueprint per gadget


@pytest.mark.slow
def test_draws_go_their_own_ways_and_are_mixed_as_plans() -> None:
    """Each lane of a draw has the result of its choice alone, also for `in turn`."""
    where, blueprints = spots(3)
    policy = grove.to_policy(where.tree, blueprints)
    first, last = (
        lambda values, subgame: np.isin(np.arange(len(subgame)), np.unique(subgame, return_index=True)[1])[
            :, None
        ],
        lambda values, subgame: values > np.median(values, axis=0),
    )
    task = make_task(where, 0, policy, GADGETS, options(iterations=10), Knowledge())
    shape = (-1, len(GADGETS), 2, len(blueprints))
    for combine in COMBINE:
        both = solve_as(task, combine, generate=Chosen(first, last))
        plans = both.drawn.reach(0).reshape(shape)
        for draw, choose in enumerate((first, last)):
            alone = solve_as(task, combine, generate=Chosen(choose))
            expected = alone.policy.reach(0).reshape(len(plans), len(GADGETS), -1)
            np.testing.assert_allclose(plans[:, :, draw], expected, rtol=0, atol=1e-12)
        mixed = both.policy.reach(0).reshape(len(plans), len(GADGETS), -1)
        np.testing.assert_allclose(mixed, plans.mean(axis=2), rtol=0, atol=1e-14)
        assert np.abs(plans[:, :, 0] - plans[:, :, 1]).max() > 0.1
        assert both.policy.labels == solve_as(task, combine).policy.labels


@pytest.mark.slow
def test_refine_measures_mixtures_and_draws() -> None:
    where, blueprints = spots(3)
    policy = grove.to_policy(where.tree, blueprints)
    knowledge = Knowledge(generate=RandomGeneration(1, draws=5), combine="in-turn")
    task = make_task(where, 0, policy, GADGETS, options(iterations=20), knowledge)
    how = {"iterations": 20, "dtype": "float64", "value": (0, 0)}
    found = refine(where.tree, where, policy, GADGETS, knowledge=knowledge, **settings(**how))
    expected, lanes = solve_knowledge(task, Stopwatch()), len(GADGETS) * len(blueprints)
    np.testing.assert_array_equal(found.policy.probabilities[0], expected.policy.probabilities[0])
    assert found.drawn_exploitability.shape == (5, lanes)
    for draw in range(5):
        of_draw = np.arange(5 * lanes).reshape(len(GADGETS), 5, -1)[:, draw].ravel()
        measured = exploitability(expected.drawn.take_lanes(of_draw), 0, value=(0, 0))
        np.testing.assert_allclose(found.drawn_exploitability[draw], measured, rtol=0, atol=1e-12)
    measured = exploitability(found.policy, 0, value=(0, 0))
    np.testing.assert_array_equal(found.refined_exploitability, measured)
    mean = found.mean_exploitability
    np.testing.assert_allclose(mean, found.drawn_exploitability.mean(axis=0), rtol=0, atol=1e-15)
    assert (measured <= mean + 1e-12).all() and (measured < mean - 0.01).any()
    assert np.isnan(found.exploitability_bound).all()
    table = found.table
    np.testing.assert_array_equal(table["mean_exploitability"], mean)
    kept = table[["order", "unfrozen", "generation", "combine"]].drop_duplicates()
    assert kept.to_numpy().tolist() == [[1.0, False, "random:1:5", "in-turn"]]
    usual = refine(where.tree, where, policy, GADGETS[:1], knowledge=Knowledge(math.inf), **settings(**how))
    assert (usual.table["order"] == math.inf).all() and usual.table["generation"].isna().all()
    np.testing.assert_array_equal(usual.mean_exploitability, usual.refined_exploitability)


def two_risks() -> HistoryTree:
    """One I and two J with probability ½: safe pays 0; each risk pays 0.1 at one J, costs 1 at the other."""
    pay = [{"a": 0.0, "b": 0.1, "c": -1.0}, {"a": 0.0, "b": -1.0, "c": 0.1}]
    return deals.play([(0.5, (0, hand), Turn(0, dict(pay[hand]))) for hand in (0, 1)], "two risks")


def test_losses_of_unconsidered_infostates_add_up() -> None:
    """A bound by the largest loss over the opponent's infostates (Ge et al. 2023, Proposition 4.1) fails.

    Each J is left out half the time, which costs N(J)·1: 0.25 at one of them, 0.5 at both. The total is 0.45.
    """
    tree = two_risks()
    safe = {(0, 0): np.array([1.0, 0.0, 0.0])}
    each = Chosen(*(lambda values, subgame, j=j: (np.arange(len(values)) == j)[:, None] for j in (0, 1)))
    policy, value = grove.to_policy(tree, [safe]), (0.0, 0.0)
    how = {"knowledge": Knowledge(generate=each), "algorithm": "lp", "value": value}
    found = refine(tree, "depth:0", policy, MaxMargin(NoPrior()), **settings(**how))
    assert found.refined_exploitability == pytest.approx([0.45], abs=1e-9)
    assert found.drawn_exploitability == pytest.approx(np.full((2, 1), 0.45), abs=1e-9)
    lost = [0.5 * 0.5 * 1.0 for _ in (0, 1)]
    assert max(lost) < found.refined_exploitability[0] <= sum(lost)


@pytest.mark.slow
def test_generated_searches_are_resumed_and_split(tmp_path: pathlib.Path) -> None:
    """A part of the forest uses the masks of the whole."""
    where, blueprints = spots(-1)
    policy = grove.to_policy(where.tree, blueprints[:1])
    knowledge = Knowledge(generate=RandomGeneration(1, draws=2, seed=3))
    how = {"iterations": 3, "dtype": "float64", "value": (0, 0), "knowledge": knowledge}
    whole = refine(where.tree, where, policy, NO_MISTAKES[:1], **settings(**how))
    (plan,) = whole.plans
    limit = int(0.8 * (plan.shared + plan.size.total(1)))
    for _ in range(2):
        parts = refine(
            where.tree,
            where,
            policy,
            NO_MISTAKES[:1],
            **settings(memory_limit=limit, checkpoint=tmp_path, **how),
        )
        assert len(parts.plans) > 1
        for name in ("gadget_value", "gap", "drawn_exploitability", "refined_exploitability"):
            np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=0, atol=1e-9)


@pytest.mark.slow
def test_users_arrays_are_the_same_in_every_draw_and_turn() -> None:
    """An array has one column per blueprint, however many copies of these are solved."""
    where, blueprints = spots(3)
    policy = grove.to_policy(where.tree, blueprints)
    task = make_task(
        where, 0, policy, NO_MISTAKES, options(iterations=5), Knowledge(generate=RandomGeneration(1, draws=3))
    )
    values = task.subgames().prepare(task.forest).ranges.cbv[:, : len(blueprints)]
    arrays = tuple(dataclasses.replace(gadget, alternative=ArrayValues(values)) for gadget in NO_MISTAKES)
    by_hand = dataclasses.replace(task, gadgets=arrays)
    found, usual = (solve_as(t, "damped") for t in (by_hand, task))
    np.testing.assert_allclose(found.value, usual.value, rtol=0, atol=1e-12)
    assert solve_as(by_hand, "in-turn").value.shape == usual.value.shape


# --- refine -------------------------------------------------------------------------------


@pytest.mark.slow
def test_refine_evaluates_the_combined_strategy() -> None:
    order, unfrozen, player = 1, False, 0
    where, blueprints = spots(3)
    policy = grove.to_policy(where.tree, blueprints)
    how = {"player": player, "iterations": 20, "dtype": "float64", "value": (0, 0)}
    task = make_task(where, player, policy, GADGETS, options(iterations=20), Knowledge(order, unfrozen))
    for combine in COMBINE:
        knowledge = Knowledge(order, unfrozen, combine=combine)
        found = refine(where.tree, "depth:0", policy, GADGETS, knowledge=knowledge, **settings(**how))
        expected = solve_as(task, combine)
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
        np.testing.assert_array_equal(found.gadget_value, expected.value)
        assert len(found.table) == len(known) and "largest gap" in found.message


@players
def test_ranges_of_blueprints_are_computed_in_parts(player: int) -> None:
    """In as few parts as memory allows, with at least one subgame each."""
    base = grove.forest(SEED)
    policy = grove.to_policy(base.tree, grove.blueprints(SEED))
    gadgets, limit = (Resolving(alternative=BlueprintValues()),), 1 << 30
    with pytest.raises(DoesNotFit):
        while True:
            plan_ranges(base, HOME, limit := limit * 3 // 4)
    whole, parts = (prepare_base(base, player, policy, gadgets, memory_limit=n) for n in (None, limit))
    for name in ("subgame", "root", "resolver", "opponent", "mass", "cbv", "played"):
        found, expected = (getattr(here.ranges, name) for here in (parts, whole))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)
    with pytest.raises(DoesNotFit, match="1 subgame"):
        prepare_base(base, player, policy, gadgets, memory_limit=100)


def test_refine_at_infinite_order_is_refine() -> None:
    where, blueprints = spots(2)
    policy = grove.to_policy(where.tree, blueprints)
    how = {"algorithm": "lp", "value": (0, 0)}
    usual = refine(where.tree, "depth:0", policy, GADGETS, **settings(**how))
    found = refine(where.tree, "depth:0", policy, GADGETS, knowledge=Knowledge(math.inf), **settings(**how))
    numbers = [name for name in usual.table if usual.table[name].dtype == np.float64]
    columns = [name for name in numbers if name not in ("order", "mean_exploitability")]
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


def test_invalid_knowledge() -> None:
    tree = pennies(4)
    ask = functools.partial(refine, tree, "depth:0", Policy.uniform(tree), NO_MISTAKES)
    with pytest.raises(ValueError, match="order="):
        Knowledge(2)
    with pytest.raises(ValueError, match="unfrozen="):
        Knowledge(unfrozen=None)  # pyright: ignore[reportArgumentType]
    kept = Knowledge(np.int64(3), np.True_)  # pyright: ignore[reportArgumentType]
    assert (type(kept.order), kept.unfrozen) == (int, True) and isinstance(kept.unfrozen, bool)
    with pytest.raises(ValueError, match="combine="):
        Knowledge(combine="all")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="generation="):
        Knowledge(generate="random")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="shares="):
        Knowledge(shares="all")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="knowledge="):
        ask(knowledge=1)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="knowledge"):
        ask(knowledge=Knowledge(), opponent=Opponent(Policy.uniform(tree), 0.5))
    with pytest.raises(ValueError, match="gadgets: full requires"):
        refine(tree, "depth:0", Policy.uniform(tree), Full(), knowledge=Knowledge())
