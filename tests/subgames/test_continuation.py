"""Alternative values from the optimal continuation: every safe gadget reaches its exploitability."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget import ContinuationPrior, ContinuationValues, ResolvedValues
from jaxgadget.core.solver import Solver
from jaxgadget.gadgets.alternative import WithGifts
from jaxgadget.gadgets.context import Continuation
from jaxgadget.subgames import resolve
from jaxgadget.subgames.engine import Subgames
from jaxgadget.subgames.resolve import ForestContext
from jaxgadget.tree.cut import CutSpec
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.clock import Stopwatch
from tests.core.grove import to_policy
from tests.reference import cfr, efg
from tests.reference.gadgets import Above, optimal_continuation
from tests.reference.random_games import SHAPES, random_policy, random_tree
from tests.solving import settings
from tests.trees import tree_of

GOOFSPIEL = "goofspiel(num_cards=3,imp_info=True,points_order=descending)"
SAFE = (jg.Resolving, jg.MaxMargin, jg.ReachResolving, jg.ReachMaxMargin)


def blueprints(tree: jg.HistoryTree) -> jg.Policy:
    return jg.Policy.stack([jg.Policy.dirichlet(tree, 0), jg.cfr_checkpoints(tree, [10], progress=False)])


def refined(name: str, cut: CutSpec, player: int, gadgets: list[Any], **options: Any) -> jg.Refinement:
    tree = tree_of(name)
    return jg.refine(
        tree, cut, blueprints(tree), gadgets, player=player, value=(0.0, 0.0), **settings(**options)
    )


@pytest.mark.parametrize("player", [0, 1])
@pytest.mark.slow
def test_with_exact_values_safe_gadgets_are_the_optimal_continuation(player: int) -> None:
    name, cut = "kuhn_poker", "depth:2"  # larger games: tests/slow
    settings: list[Any] = [(jg.NoPrior(), 0.0), (jg.UniformPrior(), "auto"), (jg.BlueprintPrior(), "auto")]
    asked = [make(*setting, alternative=ContinuationValues()) for make in SAFE for setting in settings]
    optimal, without = jg.OptimalContinuation(jg.NoPrior()), jg.Resolving(jg.NoPrior())
    found = refined(name, cut, player, [optimal, without, *asked], algorithm="lp")
    numbers = found.refined_exploitability.reshape(-1, 2)
    np.testing.assert_allclose(numbers[2:], np.broadcast_to(numbers[0], numbers[2:].shape), rtol=0, atol=1e-7)
    assert (found.refined_exploitability <= found.exploitability_bound + 1e-9).all()
    bounds = found.exploitability_bound.reshape(-1, 2)[2:]
    assert (bounds <= numbers[0] + 1e-6).all(), "the bound is that of the continuation, not of the blueprint"
    assert [g.name for g in found.gadgets] == ["optimal-continuation", "resolving", *(g.name for g in asked)]
    if player == 0:
        assert (numbers[1] > numbers[0] + 1e-3).any(), "best responses to the blueprint promise too much"


@pytest.mark.parametrize("algorithm", ["cfr+", "lp"])
def test_a_few_iterations_are_as_safe_as_the_continuation_that_they_make(algorithm: str) -> None:
    """The bound's base is the exploitability of that strategy, which is solved separately here."""
    asked = [make(jg.NoPrior(), alternative=ContinuationValues(20)) for make in SAFE]
    how: dict[str, Any] = {"algorithm": algorithm} if algorithm == "lp" else {"iterations": 500}
    found = refined("kuhn_poker", "depth:2", 0, asked, **how)
    base = refined("kuhn_poker", "depth:2", 0, [jg.OptimalContinuation(jg.NoPrior())], iterations=20)
    continued = base.refined_exploitability
    excess = found.refined_exploitability.reshape(-1, 2) - continued
    assert (excess <= found.gap.sum(axis=0).reshape(-1, 2) + 1e-9).all()
    loss = found.exploitability_bound.reshape(-1, 2) - continued
    assert (loss <= found.gap.sum(axis=0).reshape(-1, 2) + 1e-9).all()
    assert (excess <= loss + 1e-9).all()
    assert set(found.table["alternative"]) == {"continuation:20"}


@pytest.mark.parametrize(
    "source",
    [
        0,
        "network",
    ],
)
def test_a_source_is_exact_a_number_of_iterations_or_range_values(source: Any) -> None:
    with pytest.raises(ValueError, match=re.escape(f"source={source!r}): expected 'exact', a number of")):
        ContinuationValues(source)


@pytest.mark.parametrize(("algorithm", "player"), [("cfr+", 0), ("lp", 1)])
@pytest.mark.slow
def test_the_bound_holds_with_mistakes(algorithm: str, player: int) -> None:
    settings: list[Any] = [(jg.NoPrior(), 0.0), (jg.UniformPrior(), 0.05), (jg.BlueprintPrior(), 0.3)]
    sources = [ContinuationValues(), ContinuationValues(3)]
    asked = [make(*setting, alternative=v) for v in sources for make in SAFE for setting in settings]
    found = refined("kuhn_poker", "depth:1", player, asked, algorithm=algorithm)
    assert (found.refined_exploitability <= found.exploitability_bound + 1e-9).all()


def test_nothing_else_may_claim_to_be_a_continuation() -> None:
    with pytest.raises(ValueError, match="alternative"):
        wrapped = WithGifts(ContinuationValues())
        refined("kuhn_poker", "depth:2", 0, [jg.Resolving(jg.NoPrior(), alternative=wrapped)], iterations=2)
    array = jg.ArrayValues(np.full(3, -2.0))
    found = refined("kuhn_poker", "depth:2", 0, [jg.Resolving(jg.NoPrior(), alternative=array)], iterations=2)
    assert np.isnan(found.exploitability_bound).all()


# --- range values -------------------------------------------------------------------------

RESOLVED = ResolvedValues(100)


def continuation_of(
    name: str, cut: str, player: int, values: ContinuationValues, infostate: str | None = None
) -> Continuation:
    """The continuation values that gadgets receive."""
    tree = tree_of(name)
    where = jg.cut(tree, cut)
    forest = jg.build_forest(tree, where if infostate is None else where.only(infostate))
    gadgets = (jg.Resolving(jg.NoPrior(), alternative=values),)
    options = Solver(algorithm="cfr+", iterations=10, dtype="float64", progress=False)
    task = Subgames(forest, player, blueprints(tree), gadgets)
    return ForestContext(task, options, Stopwatch()).continuation(values)


def promised(
    name: str, cut: str, player: int, values: ContinuationValues, infostate: str | None = None
) -> FloatArray:
    """`[R, lanes]` the values as an array."""
    found = continuation_of(name, cut, player, values, infostate)
    assert found.is_estimate == values.is_estimate
    return np.asarray(found.values, np.float64)


def explicitly(name: str, cut: str, player: int, lane: int) -> tuple[Above, list[int]]:
    """The game above a cut as an explicit tree, and the opponent's root infostates in order."""
    tree = tree_of(name)
    return explicit(tree, jg.cut(tree, cut), blueprints(tree), player, lane)


def explicit(
    tree: jg.HistoryTree, where: jg.Cut, blueprint: jg.Policy, player: int, lane: int
) -> tuple[Above, list[int]]:
    """The same for any blueprint."""
    parts = tuple(
        tuple(where.roots[where.subgame == number].tolist()) for number in range(where.num_subgames)
    )
    rows = [np.concatenate([[1.0], part[:, lane]]) for part in blueprint.probabilities]
    strategy = efg.from_sequences(tree, (rows[0], rows[1]))
    above = Above(efg.from_tree(tree), parts, player, strategy)
    return above, jg.build_forest(tree, where).roots[1 - player].infostate.tolist()


def masses(above: Above, states: list[int]) -> FloatArray:
    """N(s)."""
    by_state = {s: part.normalizer(s) for part in above.subgames for s in part.states}
    return np.array([by_state[state] for state in states])


def bound(above: Above, states: list[int], values: FloatArray) -> float:
    """The opponent's best value above the cut, given values of its roots."""
    told = Above(
        above.game,
        above.components,
        above.resolver,
        above.blueprint,
        dict(zip(states, values.tolist(), strict=True)),
    )
    return efg.best_response_value(told.cut_off(lambda node: None), told.opponent, {})


CUTS = [("kuhn_poker", "depth:2"), (GOOFSPIEL, "depth:1")]


DRAWN = [(shape, seed) for shape in SHAPES for seed in (0, 1)]


def drawn(shape: str, seed: int) -> tuple[jg.HistoryTree, jg.Cut, jg.Policy]:
    """A random game, its cut, and two random blueprints."""
    tree, _ = random_tree(shape, seed)
    rng = np.random.default_rng(seed)
    return (
        tree,
        jg.cut(tree, SHAPES[shape].cut),
        to_policy(tree, [random_policy(tree, rng) for _ in range(2)]),
    )


def test_names_tell_guards_and_iterations_apart() -> None:
    """Rows of tables therefore stay distinguishable."""
    names = {
        ContinuationValues(RESOLVED).name: "values:ResolvedValues",
        ContinuationValues(RESOLVED, guard=False).name: "values:ResolvedValues, no guard",
        ContinuationValues(RESOLVED, iterations=60).name: "values:ResolvedValues, 60 iterations",
        ContinuationValues(30).name: "continuation:30",
        ContinuationValues().name: "continuation",
    }
    assert list(names) == list(names.values())
    assert not ContinuationValues().is_estimate


def test_range_values_of_another_number_of_lanes_are_refused() -> None:
    tree, count = tree_of("kuhn_poker"), 3
    fixed = jg.FixedValues([jg.ExactValues(jg.Policy.uniform(tree))] * count)
    asked = jg.Resolving(jg.NoPrior(), alternative=ContinuationValues(fixed))
    with pytest.raises(ValueError, match=rf"have num_lanes={count} for 2 blueprint\(s\)"):
        refined("kuhn_poker", "depth:2", 0, [asked], iterations=2)


def test_wrong_guards_are_refused() -> None:
    with pytest.raises(ValueError, match="guard="):
        ContinuationValues(RESOLVED, guard=0.05)
    with pytest.raises(ValueError, match="iterations="):
        ContinuationValues(RESOLVED, iterations=0)
    with pytest.raises(ValueError, match="expected 'exact'"):
        ContinuationValues(jg.ExactValues(jg.Policy.uniform(tree_of("kuhn_poker"))))
    with pytest.raises(ValueError, match="or range values"):
        ContinuationValues(ResolvedValues)


@pytest.mark.parametrize("player", [0, 1])
@pytest.mark.slow
def test_with_good_range_values_safe_gadgets_are_nearly_the_optimal_continuation(player: int) -> None:
    """With or without a guard; V̄ has a certificate if the guard selects it, estimates have none."""
    tree = tree_of("kuhn_poker")
    error = tree.payoff_range / 1000
    values = [ContinuationValues(ResolvedValues(200), guard=g, iterations=200) for g in (False, True)]
    asked = [make(jg.NoPrior(), alternative=v) for v in values for make in SAFE]
    optimal, plain = jg.OptimalContinuation(jg.NoPrior()), jg.Resolving(jg.NoPrior())
    found = refined("kuhn_poker", "depth:2", player, [optimal, plain, *asked], algorithm="lp")
    best, without, *numbers = found.refined_exploitability.reshape(-1, 2)
    assert (np.array(numbers) <= best + 2 * error + 1e-9).all()
    assert (np.array(numbers) >= best - 1e-9).all()
    bounds = found.exploitability_bound.reshape(-1, 2)
    shares = found.guard_share.reshape(-1, 2)
    np.testing.assert_array_equal(np.isfinite(bounds[2:]), shares[2:] == 0)
    assert np.isfinite(bounds[:2]).all() and (shares == 1).any() == (player == 0)
    names = [f"values:ResolvedValues, {rest}200 iterations" for rest in ("no guard, ", "")]
    assert set(found.table["alternative"].dropna()) == {"best-response", *names}
    if player == 0:
        assert (without - best).max() > 2 * error


SOURCES = [ContinuationValues(RESOLVED, guard=False), ContinuationValues(), ContinuationValues(7)]


@pytest.mark.parametrize("values", SOURCES, ids=str)
@pytest.mark.slow
def test_one_subgame_gets_the_numbers_of_the_whole(values: ContinuationValues) -> None:
    tree = tree_of(GOOFSPIEL)
    where, infostate = jg.cut(tree, "depth:1"), tree.infoset_names[0][-1]
    part = jg.build_forest(tree, where.only(infostate))
    whole = jg.build_forest(tree, where)
    rows = np.isin(whole.roots[1].infostate, part.roots[1].infostate)
    assert 0 < rows.sum() < len(rows)
    everywhere = promised(GOOFSPIEL, "depth:1", 0, values)
    np.testing.assert_array_equal(promised(GOOFSPIEL, "depth:1", 0, values, infostate), everywhere[rows])
    prior = ContinuationPrior(values)
    gadget = jg.Resolving(prior, 0.1, values)
    how: dict[str, Any] = {"iterations": 50, "dtype": "float64"}
    only = jg.cut(tree, "depth:1").only(infostate)
    alone, all_of_it = (refined(GOOFSPIEL, where, 0, [gadget], **how) for where in (only, "depth:1"))
    number = int(whole.roots[1].subgame[np.argmax(rows)])
    np.testing.assert_allclose(alone.gadget_value[0], all_of_it.gadget_value[number], rtol=0, atol=1e-9)
    for found in (alone, all_of_it):
        assert np.isnan(found.exploitability_bound).all() == values.is_estimate
        assert values.is_estimate or (found.refined_exploitability <= found.exploitability_bound + 1e-9).all()


def test_the_bound_of_one_subgame_starts_from_the_continuation_there() -> None:
    """This subgame uses its part of the continuation of all subgames, the others the blueprint."""
    tree, exact = tree_of(GOOFSPIEL), ContinuationValues()
    infostate = tree.infoset_names[0][-1]
    optimal = refined(GOOFSPIEL, "depth:1", 0, [jg.OptimalContinuation(jg.NoPrior())], algorithm="lp")
    inside = jg.build_forest(tree, jg.cut(tree, "depth:1").only(infostate)).infosets(0)
    expected = blueprints(tree).splice(0, inside, optimal.policy)
    found = continuation_of(GOOFSPIEL, "depth:1", 0, exact, infostate).strategy
    np.testing.assert_allclose(found.probabilities[0], expected.probabilities[0], rtol=0, atol=1e-9)
    base = jg.exploitability(expected, 0, value=(0.0, 0.0))
    gadget = jg.Resolving(jg.NoPrior(), alternative=exact)
    alone = refined(GOOFSPIEL, jg.cut(tree, "depth:1").only(infostate), 0, [gadget], algorithm="lp")
    np.testing.assert_allclose(alone.exploitability_bound, base, rtol=0, atol=1e-7)


@pytest.mark.parametrize(("name", "cut", "player"), [(*CUTS[0], 0), (*CUTS[1], 1)])
@pytest.mark.slow
def test_the_reach_in_a_continuation_is_its_average(name: str, cut: str, player: int) -> None:
    """Compared with an explicit tree's CFR+, which has the same iterations."""
    tree = tree_of(name)
    where = jg.cut(tree, cut)
    found = continuation_of(name, cut, player, ContinuationValues(4)).reach
    for lane in range(2):
        above, states = explicitly(name, cut, player, lane)
        whole = optimal_continuation(above.game, where.roots.tolist(), player, above.blueprint)
        *_, last = cfr.run(whole.root, "cfr+", 4, order=whole.order, floors=whole.floors, threshold=1e-14)
        reaches = efg.reaches(whole.root, last.average)
        labels = above.game.infostate[1 - player]
        by_state = {labels[h]: reaches[node][1 - player] for h, node in whole.places.items()}
        expected = [by_state[state] for state in states]
        np.testing.assert_allclose(found[:, lane], expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("player", [0, 1])
def test_an_exact_continuation_brings_an_optimal_opponents_reach(player: int) -> None:
    """Positive reach only on optimal paths: roots off these paths have larger values for it."""
    solved = continuation_of("kuhn_poker", "depth:2", player, ContinuationValues())
    values, reach = np.asarray(solved.values), solved.reach
    for lane in range(2):
        above, states = explicitly("kuhn_poker", "depth:2", player, lane)
        best = bound(above, states, values[:, lane])
        for row, mass in enumerate(masses(above, states)):
            less = values[:, lane].copy()
            less[row] -= 1e-3 * mass
            assert bound(above, states, less) >= best + 1e-3 * mass * reach[row, lane] - 1e-9
    assert (reach > 1e-3).any()


@pytest.mark.parametrize(
    ("make", "source"),
    [(jg.Resolving, ContinuationValues()), (jg.ReachMaxMargin, ContinuationValues(20))],
    ids=str,
)
@pytest.mark.slow
def test_priors_of_continuations_are_arrays_of_the_same_numbers(
    make: Any, source: ContinuationValues
) -> None:
    solved = continuation_of("kuhn_poker", "depth:2", 0, source)
    share = solved.reach / solved.reach.sum(axis=0)
    array = jg.ArrayPrior(np.maximum(share, 0.02))
    how: dict[str, Any] = {"iterations": 60, "dtype": "float64"}
    gadgets = [make(prior, 0.3) for prior in (ContinuationPrior(source, clip=0.02), array)]
    for gadget in gadgets:
        assert gadget.alternative == jg.BestResponseValues()
    found, expected = (refined("kuhn_poker", "depth:2", 0, [gadget], **how) for gadget in gadgets)
    np.testing.assert_allclose(
        found.policy.probabilities[0], expected.policy.probabilities[0], rtol=0, atol=1e-9
    )
    assert (found.refined_exploitability <= found.exploitability_bound + 1e-9).all()


@pytest.mark.slow
def test_the_prior_is_the_opponents_reach_in_the_continuation(monkeypatch: pytest.MonkeyPatch) -> None:
    """An array of the same numbers gives the same prior; a gadget that uses it twice solves it once."""
    tree = tree_of("kuhn_poker")
    values = ContinuationValues(RESOLVED, guard=False, iterations=30)
    how: dict[str, Any] = {"iterations": 60, "dtype": "float64"}
    trunk = jg.solve_trunk(
        tree,
        "depth:2",
        RESOLVED,
        blueprint=blueprints(tree),
        fixed=0,
        solver=jg.Solver(iterations=30, progress=False),
    )
    reach = trunk.policy.reach(1)[trunk.limit.roots[1].sequence]
    share = np.maximum(reach / reach.sum(axis=0), 0.02)
    array = jg.ArrayValues(-trunk.values[1])
    calls: list[None] = []

    def counted(*arguments: Any, **options: Any) -> Any:
        calls.append(None)
        return jg.solve_trunk(*arguments, **settings(**options))

    monkeypatch.setattr(resolve, "solve_trunk", counted)
    for make in (jg.Resolving, jg.MaxMargin):
        asked = make(ContinuationPrior(values, clip=0.02), 0.3, values)
        expected = make(jg.ArrayPrior(share), 0.3, array)
        found, by_hand = (refined("kuhn_poker", "depth:2", 0, [g], **how) for g in (asked, expected))
        np.testing.assert_allclose(
            found.policy.probabilities[0], by_hand.policy.probabilities[0], rtol=0, atol=1e-9
        )
        assert found.table["prior"].iloc[0].startswith("continuation")
    assert len(calls) == 2
    uniform = refined("kuhn_poker", "depth:2", 0, [jg.Resolving(jg.UniformPrior(), 0.3, array)], **how)
    resolving = refined(
        "kuhn_poker", "depth:2", 0, [jg.Resolving(ContinuationPrior(values), 0.3, array)], **how
    )
    assert np.abs(uniform.policy.probabilities[0] - resolving.policy.probabilities[0]).max() > 1e-3
