"""What the planner says against what XLA says, and how it splits lanes."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
import pytest

import jaxgadget
from jaxgadget import Forest, MaxMargin, OptimalContinuation, Policy, Resolving, Unsafe
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.gadgets.joint import MAX_MARGIN, RESOLVING, Joint
from jaxgadget.kernels.cfr import run, start
from jaxgadget.kernels.problem import Problem
from jaxgadget.kernels.regret import RULES
from jaxgadget.policy.evaluate import whole_problem
from jaxgadget.refining.prepare import Prepared, prepare
from jaxgadget.solving import memory as planning
from jaxgadget.solving.devices import HOME
from jaxgadget.solving.forest import KindLanes, build_kind, games_shape, in_precision, lane_games
from jaxgadget.solving.memory import DoesNotFit, Size, choose_chunk, find_memory, loop_size, num_bytes, plan_solve
from jaxgadget.tree.forest import build_forest
from jaxgadget.util.precision import precision

WITHIN = 1.3


def measured(problem: Problem, rule: str = "cfr+") -> int:
    """What XLA's analysis of the compiled loop says."""
    with precision(problem.dtype):
        state, last = start.eval_shape(problem), jax.ShapeDtypeStruct((), np.int32)
        found = run.lower(problem, state, last, rule=RULES[rule]).compile().memory_analysis()
    sizes = found.argument_size_in_bytes + found.output_size_in_bytes + found.temp_size_in_bytes
    return sizes - found.alias_size_in_bytes


@functools.cache
def forest(game: str, where: str) -> Forest:
    return build_forest(jaxgadget.enumerate_game(jaxgadget.load(game)), where)


def kind_lanes(game: str, where: str, gadget: Gadget, player: int = 0) -> KindLanes:
    blueprint = Policy.uniform(forest(game, where).tree)
    here: Prepared = prepare(forest(game, where), player, blueprint, [gadget])
    with precision(np.float64):
        return build_kind(here.forest, here.structure, here.ranges, [gadget], np.float64, here.trunk)


LEDUC = ("leduc_poker", "flop")
DICE = ("liars_dice(numdice=1,dice_sides=4)", "depth:1")
GOOFSPIEL = ("goofspiel(num_cards=4,imp_info=True,points_order=descending)", "depth:1")


@pytest.mark.parametrize(
    ("where", "gadget", "player", "lanes", "dtype"),
    [
        (LEDUC, Resolving(), 0, 64, "float32"),
        (LEDUC, Unsafe(), 1, 16, "float64"),
        (DICE, MaxMargin(), 0, 16, "float32"),
        (DICE, OptimalContinuation(), 1, 64, "float64"),
        (GOOFSPIEL, MaxMargin(), 0, 64, "float64"),
        (GOOFSPIEL, Unsafe(), 1, 64, "float32"),
        (LEDUC, Joint(Resolving(), RESOLVING), 0, 64, "float32"),
        (DICE, Joint(MaxMargin(), MAX_MARGIN), 1, 64, "float32"),
    ],
)
def test_the_planned_bytes_are_those_of_the_compiled_loop(
    where: tuple[str, str], gadget: Gadget, player: int, lanes: int, dtype: str
) -> None:
    with precision(np.float64):
        games = games_shape(kind_lanes(*where, gadget, player), lanes)
        problem = in_precision.eval_shape(games.problem, np.dtype(dtype))
    ratio = loop_size(problem).total(lanes) / measured(problem)
    assert 1 / WITHIN <= ratio <= WITHIN, ratio


@pytest.mark.parametrize(("game", "lanes"), [("leduc_poker", 1), (DICE[0], 64)])
def test_the_planned_bytes_of_whole_games(game: str, lanes: int) -> None:
    tree = jaxgadget.enumerate_game(jaxgadget.load(game))
    problem = whole_problem(tree, lanes, np.float32)
    ratio = loop_size(problem).total(lanes) / measured(problem, "pcfr+")
    assert 1 / WITHIN <= ratio <= WITHIN, ratio


def test_shapes_are_those_of_the_games() -> None:
    lanes = kind_lanes("kuhn_poker", "depth:1", OptimalContinuation())
    with precision(np.float64):
        expected, found = lane_games(lanes, np.zeros(5, np.int64)), games_shape(lanes, 5)
    assert jax.tree.structure(expected) == jax.tree.structure(found)
    sizes = [[(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(tree)] for tree in (expected, found)]
    assert sizes[0] == sizes[1]


def test_bytes_of_arrays() -> None:
    once = np.zeros((2, 3), np.float32)
    assert num_bytes({"a": once, "b": [once, np.zeros(5, np.int8)]}) == 24 + 5
    assert num_bytes(jax.ShapeDtypeStruct((4, 2), np.float64)) == 64
    assert Size(100, 7).total(3) == 121


# Splitting


@pytest.mark.parametrize(
    ("lanes", "most", "devices", "workers", "overhead", "expected"),
    [
        (10, 64, 1, 2, 8, 10),  # a chunk is at least 16, or all
        (64, 64, 1, 1, 8, 64),
        (64, 64, 1, 2, 8, 32),
        (65, 64, 1, 1, 8, 48),  # 2 × 48 wastes less than 2 × 64
        (315, 64, 1, 2, 8, 32),
        (100, 7, 1, 2, 8, 7),
        (100, 3, 4, 1, 8, 0),
        (20, 64, 8, 1, 8, 24),
        (1000, 300, 8, 1, 1024, 256),
        (100_000, 10**6, 1, 1, 1024, 100_000),
    ],
)
def test_chunk_sizes(lanes: int, most: int, devices: int, workers: int, overhead: int, expected: int) -> None:
    assert choose_chunk(lanes, most, devices, workers, overhead) == expected


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
@pytest.mark.parametrize("devices", [1, 8])
def test_every_chunk_fits(workers: int, devices: int) -> None:
    for lanes in range(1, 400, 7):
        for most in (devices, 5 * devices, 16 * devices, 100 * devices):
            chunk = choose_chunk(lanes, most, devices, workers, 8)
            assert 0 < chunk <= most and chunk % devices == 0
            assert chunk % (16 * devices) == 0 or chunk >= lanes or most < 16 * devices


@pytest.fixture(scope="module")
def kuhn() -> KindLanes:
    """300 lanes: 100 gadgets for three blueprints."""
    where = forest("kuhn_poker", "depth:1")
    blueprint = Policy.stack([Policy.uniform(where.tree)] * 3)
    asked: list[Gadget] = [MaxMargin(epsilon=0.001 * k) for k in range(100)]
    here = prepare(where, 0, blueprint, asked)
    with precision(np.float64):
        return build_kind(where, here.structure, here.ranges, asked, np.float64)


def test_a_plan_keeps_to_the_memory(kuhn: KindLanes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "find_workers", lambda place: 4)
    free = plan_solve(kuhn, np.float32)
    assert (free.lanes, free.workers, free.devices, free.available) == (300, 4, 1, find_memory(HOME))
    last = None
    for count in (1, 2, 15, 16, 64, 128, 400):
        limit = free.shared + free.size.total(count)
        plan = plan_solve(kuhn, np.float32, memory_limit=limit)
        assert plan.bytes <= limit and plan.workers * plan.chunk <= count
        assert plan.chunk * (plan.num_chunks - 1) < plan.lanes <= plan.chunk * plan.num_chunks
        assert last is None or plan.workers * plan.chunk >= last.workers * last.chunk
        last = plan
    assert f"{free.num_chunks} chunk(s) of {free.chunk}, 4 at a time" in repr(free)


def test_a_plan_keeps_to_the_cache(kuhn: KindLanes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "find_workers", lambda place: 1)
    loop, _ = planning.solve_size(kuhn, np.dtype(np.float32))
    for lanes, expected in ((300, 300), (100, 80), (20, 16), (2, 16)):
        monkeypatch.setattr(planning, "CACHE_BYTES", lanes * loop.lane + 1)
        assert plan_solve(kuhn, np.float32).chunk <= expected
    assert plan_solve(kuhn, np.float32).chunk == 16
    assert plan_solve(kuhn, np.float32, chunk=100).chunk == 100  # as an earlier part of the solve


def test_what_does_not_fit_is_refused_with_the_figures(kuhn: KindLanes) -> None:
    free = plan_solve(kuhn, np.float64)
    one = free.shared + free.size.total(1)
    with pytest.raises(DoesNotFit, match=r"max-margin: 1 lane\(s\) of \d+ game\(s\) take .* kB of memory, "):
        plan_solve(kuhn, np.float64, memory_limit=one - 1)
    assert plan_solve(kuhn, np.float64, memory_limit=one).chunk == 1


def test_what_the_machine_has(monkeypatch: pytest.MonkeyPatch) -> None:
    class Accelerator:
        platform = "gpu"

        def __init__(self, free: int):
            self.free = free

        def memory_stats(self) -> dict[str, int]:
            return {"bytes_limit": 1000 + self.free, "bytes_in_use": 1000}

    class Two:
        devices: tuple[Any, ...] = (Accelerator(400), Accelerator(800))
        on_cpu = False

    two: Any = Two()
    assert find_memory(two) == 300 and find_memory(two, ours=400) == 600
    assert planning.find_workers(two) == 1
    assert planning.find_workers(HOME) >= 1
    monkeypatch.delattr(planning.os, "sysconf")
    assert find_memory(HOME) is None
