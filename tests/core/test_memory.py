"""The planner's bytes compared with XLA's memory analysis, and the split of lanes into chunks."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax.typing import DTypeLike

import jaxgadget
from jaxgadget import Forest, MaxMargin, OptimalContinuation, Policy, Resolving
from jaxgadget.core import driver
from jaxgadget.core import memory as planning
from jaxgadget.core.batch import Batch
from jaxgadget.core.cfr import run, start
from jaxgadget.core.devices import HOME, AbstractDevice, Placement, assume_device
from jaxgadget.core.driver import Finished, checked_plan, solve
from jaxgadget.core.memory import (
    DoesNotFit,
    Plan,
    find_memory,
    fits_compiled,
    loop_size,
    plan_batch,
    problem_shape,
)
from jaxgadget.core.problem import Problem
from jaxgadget.core.regret import CFR_PLUS, ChoiceRule, Rule, find_rule
from jaxgadget.core.solver import Solver
from jaxgadget.core.treeplex import Treeplex
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.gadgets.games import build_games
from jaxgadget.policy.evaluate import whole_problem
from jaxgadget.subgames.prepare import prepare
from jaxgadget.tree.forest import build_forest
from jaxgadget.util.precision import precision
from tests.core import test_by_hand

pytestmark = pytest.mark.optimised

WITHIN = 1.3


def measured(problem: Problem, algorithm: str | Rule = "cfr+") -> int:
    """Bytes of the compiled loop, from XLA's memory analysis."""
    with precision(problem.dtype):
        rule = find_rule(algorithm)
        state, last = start.eval_shape(problem, rule), jax.ShapeDtypeStruct((), np.int32)
        found = run.lower(problem, state, last, rule=rule).compile().memory_analysis()
    sizes = found.argument_size_in_bytes + found.output_size_in_bytes + found.temp_size_in_bytes
    return sizes - found.alias_size_in_bytes


@functools.cache
def forest(game: str, where: str) -> Forest:
    return build_forest(jaxgadget.enumerate_game(jaxgadget.load(game)), where)


def batch_of(game: str, where: str, *gadgets: Gadget, player: int = 0, blueprints: int = 1) -> Batch:
    """Gadgets that share an entry, each after the given number of uniform blueprints."""
    blueprint = Policy.stack([Policy.uniform(forest(game, where).tree)] * blueprints)
    prepared = prepare(forest(game, where), player, blueprint, gadgets)
    return build_games(prepared, gadgets).batch


LEDUC = ("leduc_poker", "flop")
DICE = ("liars_dice(numdice=1,dice_sides=4)", "depth:1")
GOOFSPIEL = ("goofspiel(num_cards=4,imp_info=True,points_order=descending)", "depth:1")


@pytest.mark.slow
def test_the_planned_bytes_are_those_of_the_compiled_loop() -> None:
    check_planned_bytes(LEDUC, [Resolving()], 0, 64, "float32")  # other games: tests/slow


def check_planned_bytes(
    where: tuple[str, str], gadgets: list[Gadget], player: int, lanes: int, dtype: str
) -> None:
    problem = problem_shape(batch_of(*where, *gadgets, player=player), lanes, dtype)
    ratio = loop_size(problem).total(lanes) / measured(problem)
    assert 1 / WITHIN <= ratio <= WITHIN, ratio


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Remembering:
    """CFR+ that also stores the regrets of the last two iterations, without using them."""

    name: str = "remembering"

    def weight(self, t: jax.Array) -> jax.Array:
        return CFR_PLUS.weight(t)

    def init(self, treeplex: Treeplex, num_lanes: int, dtype: DTypeLike) -> list[jax.Array]:
        return [CFR_PLUS.init(treeplex, num_lanes, dtype) for _ in range(3)]

    def update(
        self,
        treeplex: Treeplex,
        choice: ChoiceRule,
        tolerance: jax.Array,
        state: list[jax.Array],
        strategy: jax.Array,
        values: tuple[jax.Array, jax.Array],
        t: jax.Array,
    ) -> tuple[list[jax.Array], jax.Array]:
        regret, matched = CFR_PLUS.update(treeplex, choice, tolerance, state[0], strategy, values, t)
        return [regret, *state[:2]], matched


def test_a_rule_with_more_arrays_is_planned_larger() -> None:
    batch, rule = batch_of(*LEDUC, Resolving()), Remembering()
    problem = problem_shape(batch, 64, "float32")
    plain, larger = loop_size(problem), loop_size(problem, rule)
    actions = sum(part.num_actions for side in problem.sides for part in (side.entry, side.body))
    assert larger.lane - plain.lane == pytest.approx(2 * 4 * actions, abs=1) and larger.fixed == plain.fixed
    ratio = larger.total(64) / measured(problem, rule)
    assert 1 / WITHIN <= ratio <= WITHIN, ratio
    limit = plan_batch(batch, "float32").bytes
    assert plan_batch(batch, "float32", memory_limit=limit).bytes <= limit
    with pytest.raises(DoesNotFit):
        plan_batch(batch, "float32", rule=rule, memory_limit=limit)


def test_the_planned_bytes_of_a_whole_game() -> None:
    tree, lanes = jaxgadget.enumerate_game(jaxgadget.load("leduc_poker")), 1
    problem = whole_problem(tree, lanes, np.float32)
    ratio = loop_size(problem).total(lanes) / measured(problem, "pcfr+")
    assert 1 / WITHIN <= ratio <= WITHIN, ratio


@pytest.mark.parametrize(("platform", "most"), [("cpu", WITHIN), ("gpu", 1.5)])
@pytest.mark.slow
def test_the_planned_bytes_of_a_game_by_hands(platform: str, most: float) -> None:
    """Ends of a dozen kinds; an accelerator sums all of them at once, with fewer temporaries."""
    tree = jaxgadget.public_tree(jaxgadget.load("liars_dice(numdice=2,dice_sides=3)"))
    assert len(tree.hands_game.ends) == 12
    with assume_device(AbstractDevice("described", 10**9, platform=platform)):
        problem = whole_problem(tree, 8, np.float32)
    ratio = loop_size(problem).total(8) / measured(problem)
    assert 1 / WITHIN <= ratio <= most, ratio


def with_stakes() -> Batch:
    """A payoff with one stake per lane."""
    with precision(np.float64):
        return Batch.of(test_by_hand.kuhn(test_by_hand.STAKES))


@pytest.mark.parametrize(
    "make", [lambda: batch_of("kuhn_poker", "depth:1", OptimalContinuation()), with_stakes]
)
def test_shapes_are_those_of_the_games(make: Callable[[], Batch]) -> None:
    batch = make()
    expected, found = batch.problem(np.zeros(5, np.int64)), problem_shape(batch, 5, np.float64)
    assert jax.tree.structure(expected) == jax.tree.structure(found)
    sizes = [[(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(tree)] for tree in (expected, found)]
    assert sizes[0] == sizes[1]


# Splitting


@pytest.fixture(scope="module")
def kuhn() -> Batch:
    """300 lanes: 100 gadgets for three blueprints."""
    asked = [MaxMargin(epsilon=0.001 * k) for k in range(100)]
    return batch_of("kuhn_poker", "depth:1", *asked, blueprints=3)


def test_a_plan_keeps_to_the_memory(kuhn: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "find_workers", lambda place: 4)
    free = plan_batch(kuhn, np.float32)
    assert (free.lanes, free.workers, free.devices, free.available) == (300, 4, 1, find_memory(HOME))
    last = None
    for count in (1, 2, 15, 16, 64, 128, 400):
        limit = free.shared + free.size.total(count)
        plan = plan_batch(kuhn, np.float32, memory_limit=limit)
        assert plan.bytes <= limit and plan.workers * plan.chunk <= count
        assert plan.chunk * (plan.num_chunks - 1) < plan.lanes <= plan.chunk * plan.num_chunks
        assert last is None or plan.workers * plan.chunk >= last.workers * last.chunk
        last = plan
    assert f"{free.num_chunks} chunk(s) of {free.chunk}, 4 at a time" in repr(free)


def nothing(ended: Finished) -> tuple[()]:
    return ()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_model_that_is_wrong_gets_a_smaller_chunk_once(
    workers: int, kuhn: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chunk is as small as the compiled loop requires."""
    for name in ("STATE_ARRAYS", "LOOP_ARRAYS", "FINAL_ARRAYS"):
        monkeypatch.setattr(planning, name, 0.1)
    monkeypatch.setattr(planning, "find_workers", lambda place: workers)
    free = plan_batch(kuhn, np.float32)
    limit = free.shared + workers * free.size.total(100)
    options = Solver(algorithm="cfr+", iterations=1, memory_limit=limit)
    plan = plan_batch(kuhn, np.float32, memory_limit=limit)
    assert plan.workers == workers and plan.bytes <= limit
    assert plan.shared + workers * measured(problem_shape(kuhn, plan.chunk, np.float32)) > limit
    checked = checked_plan(kuhn, options, plan)
    assert 1 <= checked.chunk < plan.chunk and checked.workers == workers
    assert checked.shared + workers * measured(problem_shape(kuhn, checked.chunk, np.float32)) <= limit
    asked: list[Plan] = []

    def noted(plan: Plan, loop: Any) -> Plan:
        asked.append(plan)
        return fits_compiled(plan, loop)

    monkeypatch.setattr(driver, "fits_compiled", noted)
    assert solve(kuhn, options, nothing).plan == checked
    assert asked == [plan]


def test_a_chunk_never_grows(kuhn: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the compiled loop takes little memory; small plans skip that compilation."""
    monkeypatch.setattr(planning, "find_workers", lambda place: 1)
    right = plan_batch(kuhn, np.float32)
    limit = right.shared + right.size.total(64)
    options = Solver(algorithm="cfr+", iterations=1, memory_limit=limit)
    for name in ("STATE_ARRAYS", "LOOP_ARRAYS", "FINAL_ARRAYS"):
        monkeypatch.setattr(planning, name, 100.0)
    plan = plan_batch(kuhn, np.float32, memory_limit=limit)
    assert plan.chunk < 64
    assert checked_plan(kuhn, options, plan) is plan
    monkeypatch.setattr(driver, "fits_compiled", lambda *_: pytest.fail("the loop is not compiled"))
    roomy = dataclasses.replace(plan, available=5 * plan.bytes)
    assert checked_plan(kuhn, options, roomy) is roomy


def test_batches_that_do_not_fit_are_refused_with_the_figures(kuhn: Batch) -> None:
    free = plan_batch(kuhn, np.float64)
    one = free.shared + free.size.total(1)
    with pytest.raises(DoesNotFit, match="memory"):
        plan_batch(kuhn, np.float64, memory_limit=one - 1)
    assert plan_batch(kuhn, np.float64, memory_limit=one).chunk == 1


# The limit of an accelerator


@dataclasses.dataclass(frozen=True)
class Device:
    """A GPU with the statistics of XLA's allocator; without them for the allocator `platform`."""

    stats: dict[str, int] | None
    platform: str = "gpu"

    def memory_stats(self) -> dict[str, int] | None:
        return self.stats


def test_memory_is_that_of_the_device_with_the_least() -> None:
    """With preallocated memory, and with 80 GB of 0.75 × 141 GB free."""
    whole = {"bytes_limit": 105_000_000_000, "bytes_in_use": 25_000_000_000}
    roomy = whole | {"bytes_in_use": 0, "pool_bytes": 105_000_000_000}
    placement = Placement((Device(whole), Device(roomy)))
    assert find_memory(placement) == 60_000_000_000
    assert find_memory(placement, allocated=20_000_000_000) == 75_000_000_000
    assert planning.whole_memory(placement) == 78_750_000_000


@pytest.mark.parametrize("stats", [None, {"bytes_in_use": 1}])
def test_without_statistics_the_memory_of_a_gpu_is_unknown(
    stats: dict[str, int] | None, caplog: pytest.LogCaptureFixture
) -> None:
    """It is not the memory of the host."""
    placement = Placement((Device(stats, platform=f"gpu with {stats}"),))
    assert find_memory(placement) is None and planning.whole_memory(placement) is None
    assert find_memory(placement) is None
    (record,) = caplog.records
    assert "set memory_limit" in record.getMessage()
    assert find_memory(HOME) is not None
