"""Lanes in chunks: the same numbers sequentially, in several threads, and after resuming."""

from __future__ import annotations

import dataclasses
import functools
import gc
import importlib
import json
import pathlib
import threading
import types
import weakref
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgadget import (
    ArrayPrior,
    ArrayValues,
    BlueprintPrior,
    BlueprintValues,
    MaxMargin,
    NoPrior,
    ReachResolving,
    Refinement,
    Resolving,
    UniformPrior,
    enumerate_game,
    load,
)
from jaxgadget.core import cfr, devices
from jaxgadget.core import memory as planning
from jaxgadget.core.batch import Batch
from jaxgadget.core.checkpoint import SPLITS
from jaxgadget.core.driver import Finished, run_all, run_on_devices, solve
from jaxgadget.core.solver import Solver
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.policy.evaluate import whole_problem
from jaxgadget.subgames.prepare import prepare
from jaxgadget.util import compilation
from jaxgadget.util.precision import precision
from jaxgadget.util.store import write_record
from tests.subgames.test_refine import check_equal, counted, forget, solved


@dataclasses.dataclass(frozen=True)
class Apart(MaxMargin):
    """A gadget that shares its entry with no other kind."""

    name: ClassVar[str] = "apart"
    entry_name: ClassVar[str] = "apart"


ASKED: tuple[Gadget, ...] = (
    Resolving(NoPrior()),
    Apart(NoPrior()),
    MaxMargin(BlueprintPrior(), 0.02),
    Apart(BlueprintPrior(), 0.02),
)
"""Two kinds that share an entry and two separate ones: with three blueprints, 6 lanes each."""

MARGINS = ASKED[1::2]
CHUNKS = (4, 5)  # so that the second chunk needs padding; a lane of its own kind needs less


@functools.cache
def whole(asked: Sequence[Gadget] = ASKED, **options: Any) -> Refinement:
    """All lanes in one chunk."""
    return solved(asked=asked, **options)


def split(
    monkeypatch: pytest.MonkeyPatch, workers: int, asked: Sequence[Gadget] = ASKED, **options: Any
) -> Refinement:
    """The same lanes in chunks, with memory for `workers` chunks only."""
    monkeypatch.setattr(planning, "find_workers", lambda place: workers)
    limit = memory(workers, options.get("dtype", "float64"))
    return solved(asked=asked, memory_limit=limit, **options)


@functools.cache
def memory(workers: int, dtype: str = "float64") -> int:
    """The memory of chunks of four lanes of the shared entry, in float32, with margins."""
    asked = ASKED if dtype == "float64" else MARGINS
    plans = whole(asked, iterations=1, dtype=dtype).plans
    return max(plan.shared + workers * plan.size.total(CHUNKS[0]) for plan in plans)


def test_a_small_solve_is_one_chunk() -> None:
    for plan in whole(iterations=1).plans:
        assert (plan.lanes, plan.chunk, plan.num_chunks, plan.workers, plan.devices) == (6, 6, 1, 1, 1)
        assert plan.available is not None and plan.bytes < plan.available


@pytest.mark.parametrize(("workers", "padded"), [(2, True), (1, True)])
def test_chunks_change_nothing(workers: int, padded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for iterations in range(1, 6):
        found = split(monkeypatch, workers, iterations=iterations, padded=padded)
        for plan, chunk in zip(found.plans, CHUNKS, strict=True):
            assert (plan.chunk, plan.num_chunks, plan.workers) == (chunk, 2, workers)
            assert plan.bytes <= memory(workers)
        check_equal(found, whole(iterations=iterations))


@pytest.mark.parametrize(("dtype", "asked"), [("float32", MARGINS), ("float64", ASKED)])
@pytest.mark.slow
def test_at_full_length_chunks_agree_within_their_certificates(
    dtype: str, asked: tuple[Gadget, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """JAX's precision is a thread-local setting, which worker threads have to be given."""
    found = split(monkeypatch, 2, asked, iterations=500, dtype=dtype)
    assert {plan.num_chunks for plan in found.plans} == {2}
    expected = whole(asked, iterations=500, dtype=dtype)
    assert found.gap.max() < 0.05
    assert (found.gadget_value <= expected.gadget_value + expected.gap + 1e-12).all()
    assert (expected.gadget_value <= found.gadget_value + found.gap + 1e-12).all()
    assert (found.refined_exploitability <= found.exploitability_bound + 1e-12).all()


def test_more_chunks_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """New payoffs, blueprints and priors compile nothing either."""
    more = (*ASKED, Resolving(UniformPrior(), 0.1), Apart(UniformPrior(), 0.1))
    forget(0, 1)
    first = split(monkeypatch, 1, seed=0)
    with counted() as compiled:
        second = split(monkeypatch, 1, asked=more, seed=1)
    assert [event for event in compiled if "backend_compile" in event] == []
    assert [plan.num_chunks for plan in first.plans] == [2, 2]
    assert [plan.num_chunks for plan in second.plans] == [3, 2]


def test_lanes_stop_by_themselves_at_a_target_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Together, in chunks or one by one: iterations and results are the same."""
    target, asked = 0.01, (MaxMargin(NoPrior()), Resolving(UniformPrior(), 0.5))
    options: dict[str, Any] = {"iterations": 3000, "target_gap": target, "check_every": 2}
    alone = solved(asked=asked, chunk=1, **options)
    assert alone.gap.max() <= target + 1e-12
    assert (alone.iterations % 2 == 0).all() and len(set(alone.iterations.tolist())) > 3
    for found in (whole(asked, **options), split(monkeypatch, 2, asked, **options)):
        assert found.iterations.tolist() == alone.iterations.tolist()
        check_equal(found, alone, atol=1e-9)


def test_lanes_that_have_stopped_stay_so_when_a_solve_is_resumed(tmp_path: pathlib.Path) -> None:
    """At another target gap they would have to go on, without the iterations since."""
    target, asked = 0.01, (MaxMargin(NoPrior()), Resolving(UniformPrior(), 0.5))
    options: dict[str, Any] = {"asked": asked, "target_gap": target, "check_every": 2}
    undisturbed = solved(iterations=3000, **options)
    first, *_, last = sorted(undisturbed.iterations.tolist())
    assert first < last - 3
    for iterations in (first + 1, last - 3, 3000):
        resumed = solved(iterations=iterations, checkpoint=tmp_path, **options)
        assert resumed.iterations.tolist() == np.minimum(undisturbed.iterations, iterations).tolist()
    check_equal(resumed, undisturbed, atol=0)
    for changed in (None, target / 2):
        with pytest.raises(ValueError, match=r"stopped at the target gap 0\.01, now it is"):
            solved(iterations=3000, checkpoint=tmp_path, **options | {"target_gap": changed})


def test_a_resumed_solve_keeps_its_chunks(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is bit-identical although the available memory and cores differ."""
    undisturbed = split(monkeypatch, 1, iterations=300)
    split(monkeypatch, 1, iterations=13, checkpoint=tmp_path)
    split(monkeypatch, 2, iterations=37, checkpoint=tmp_path)
    resumed = solved(asked=ASKED, iterations=300, checkpoint=tmp_path)
    assert [plan.chunk for plan in resumed.plans] == list(CHUNKS)
    check_equal(resumed, undisturbed, atol=0)
    names = sorted(file.name for file in tmp_path.iterdir())
    numbered = [f"{kind}-{k}-of-2.npz" for kind in ("apart", "two-level") for k in (1, 2)]
    assert names == sorted(["splits.json", *numbered])


def test_chunks_of_another_solve_are_refused(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    split(monkeypatch, 1, checkpoint=tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    more = (*ASKED, Resolving(UniformPrior(), 0.1))
    for asked, lanes in ((ASKED[1:2], "apart instead of 3;"), (more, "two-level instead of 9;")):
        with pytest.raises(ValueError, match=rf"splits\.json' is of another solve, of 6 lanes of {lanes}"):
            solved(asked=asked, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="of another"):
        split(monkeypatch, 1, checkpoint=tmp_path, seed=1)
    with pytest.raises(ValueError, match="memory"):
        solved(asked=ASKED, checkpoint=tmp_path, memory_limit=memory(1) // 2)
    assert before == {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    (tmp_path / "splits.json").write_text("{}")
    with pytest.raises(ValueError, match="splits"):
        solved(asked=ASKED, checkpoint=tmp_path)
    (tmp_path / "splits.json").write_text(json.dumps({"format": "another", "solves": {}}))
    with pytest.raises(ValueError, match="another"):
        solved(asked=ASKED, checkpoint=tmp_path)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"memory_limit": 1000}, "memory_limit"),
        ({"devices": "cpu"}, "devices="),
        ({"devices": jax.devices()[:1] * 2}, "devices"),
    ],
)
def test_bad_arguments(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        solved(asked=ASKED, **options)


# Parts of the forest: memory for less than one lane of all subgames


def cramped(**options: Any) -> dict[str, Any]:
    """Memory for one lane of some subgames, but not of all."""
    plans = whole(iterations=1).plans
    return {"memory_limit": int(0.8 * max(plan.shared + plan.size.total(1) for plan in plans)), **options}


@pytest.mark.slow
def test_parts_of_a_forest_change_nothing() -> None:
    """Arrays of the user have a row for every root of the whole forest."""
    roots = len(whole(iterations=1).forest.roots[1])
    values = np.random.default_rng(0).uniform(0.1, 1.0, (roots, 3))
    asked = (*ASKED[:2], Resolving(ArrayPrior(values), 0.1, ArrayValues(values - 0.5)), ASKED[3])
    for iterations in (1, 5):
        found = solved(asked=asked, iterations=iterations, **cramped())
        assert len(found.plans) > 2 and max(plan.bytes for plan in found.plans) <= cramped()["memory_limit"]
        check_equal(found, solved(asked=asked, iterations=iterations))


@pytest.mark.slow
def test_a_resumed_solve_keeps_its_parts(tmp_path: pathlib.Path) -> None:
    options: dict[str, Any] = {"asked": ASKED, "checkpoint": tmp_path}
    solved(iterations=3, **options, **cramped())
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names[0] == "splits.json" and names[1].startswith("subgames-0-to-") and len(names) >= 3
    resumed = solved(iterations=5, **options)
    assert len(resumed.plans) == 2 * (len(names) - 1)
    check_equal(resumed, whole(iterations=5))
    write_record(tmp_path / "splits.json", SPLITS, {"begins": [0, 99]})
    with pytest.raises(ValueError, match="of another"):
        solved(iterations=5, **options)
    (tmp_path / "splits.json").write_text("[]")
    with pytest.raises(ValueError, match="damaged"):
        solved(iterations=5, **options)


def test_gadgets_that_see_the_trunk_are_not_split() -> None:
    with pytest.raises(ValueError, match="memory"):
        solved(asked=[ReachResolving()], **cramped())


def test_ranges_of_blueprints_in_turn() -> None:
    refinement, asked = whole(iterations=1), [ReachResolving(alternative=BlueprintValues())]
    all_at_once, in_turn = (
        prepare(refinement.forest, 0, refinement.blueprint, asked, at_once=count).ranges
        for count in (None, 2)
    )
    for holder, names in (
        (lambda ranges: ranges, ("resolver", "opponent", "mass", "cbv", "played")),
        (lambda ranges: ranges.above, ("strategy", "outside", "mass")),
    ):
        for name in names:
            expected, found = (getattr(holder(ranges), name) for ranges in (all_at_once, in_turn))
            assert found.shape[1] == refinement.blueprint.num_lanes
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-15)


# The driver itself, on four lanes of Kuhn poker


@functools.cache
def kuhn() -> Batch:
    return Batch.of(whole_problem(enumerate_game(load("kuhn_poker")), 4, np.float64))


def average_bodies(ended: Finished) -> tuple[jax.Array, jax.Array]:
    first, second = cfr.average(ended.problem, ended.state)
    return first.body, second.body


def options_of(chunk: int | None = None, **options: Any) -> Solver:
    made = Solver(**{"algorithm": "cfr+", "iterations": 5, "dtype": "float64", **options})
    return dataclasses.replace(made, chunk=chunk)


def test_a_solve_continues_from_the_state_of_one_chunk() -> None:
    undisturbed = solve(kuhn(), options_of(), average_bodies)
    begun = solve(kuhn(), options_of(iterations=3), average_bodies, keep_state=True)
    resumed = solve(kuhn(), options_of(), average_bodies, state=begun.state)
    for expected, ended in zip(undisturbed.outcome, resumed.outcome, strict=True):
        np.testing.assert_array_equal(ended, expected)
    assert resumed.iterations.tolist() == [5] * 4 and np.abs(np.diff(begun.outcome[0])).max() < 1e-15
    assert np.abs(begun.outcome[0] - resumed.outcome[0]).max() > 1e-3


def test_programs_are_dropped_before_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """After several thousand programs in a process, LLVM runs out of memory mappings and crashes."""
    expected = solve(kuhn(), options_of(), average_bodies).outcome
    dropped: list[None] = []
    monkeypatch.setattr(compilation, "drop_programs", lambda: dropped.append(jax.clear_caches()))
    for most, count in ((10, 1), (10**9, 1)):
        monkeypatch.setattr(compilation, "MAX_MAPPINGS", most)
        ended = solve(kuhn(), options_of(), average_bodies)
        assert len(dropped) == count
        np.testing.assert_array_equal(ended.outcome, expected)


def test_several_chunks_give_no_state_and_take_none() -> None:
    begun = solve(kuhn(), options_of(), average_bodies, keep_state=True)
    assert begun.state is not None
    assert solve(kuhn(), options_of(chunk=2), average_bodies).state is None
    for asked in ({"state": begun.state}, {"keep_state": True}):
        with pytest.raises(ValueError, match="chunk"):
            solve(kuhn(), options_of(chunk=2), average_bodies, **asked)


@pytest.mark.parametrize("caller", ["float32", "float64"])
@pytest.mark.parametrize("options", [{"dtype": "float32"}, {"target_gap": 0.0, "check_every": 2}])
def test_callbacks_have_the_callers_precision(
    options: dict[str, Any], caller: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller's precision holds between the parts of a solve; each chunk is built in float64."""
    workers = 2
    told, finished = list[str](), list[str]()

    def in_use() -> str:
        return str(jnp.asarray(np.ones(1)).dtype)

    def finish(ended: Finished) -> tuple[()]:
        finished.append(in_use())
        return ()

    monkeypatch.setattr(planning, "find_workers", lambda place: workers)
    with precision(caller):
        solve(kuhn(), options_of(chunk=2, **options), finish, report=lambda done: told.append(in_use()))
        assert in_use() == caller
    assert told and set(told) == {caller}
    assert finished == ["float64"] * 2


# Threads


def test_results_are_in_order_and_threads_have_precisions_of_their_own() -> None:
    together = threading.Barrier(2)

    def task(number: int) -> tuple[int, str]:
        with precision((np.float32, np.float64)[number % 2]):
            together.wait(10)
            return number, str(jnp.asarray(np.ones(1)).dtype)

    tasks = [functools.partial(task, number) for number in range(4)]
    found = run_all(tasks, 2, threading.Event(), lambda: None)
    assert found == [(number, ("float32", "float64")[number % 2]) for number in range(4)]


class _Trouble(Exception):
    pass


@pytest.mark.parametrize("error", [_Trouble, KeyboardInterrupt])
def test_an_error_in_a_task_or_an_interrupt_stops_all(error: type[BaseException]) -> None:
    """An exception in a task and Ctrl-C in the main thread, which waits, both stop all threads."""
    stop, begun, ended = threading.Event(), threading.Event(), []

    def works() -> None:
        begun.set()
        assert stop.wait(10)
        ended.append("stopped")

    def fails() -> None:
        assert begun.wait(10)
        raise _Trouble

    def look() -> None:
        if error is KeyboardInterrupt:
            raise KeyboardInterrupt

    tasks = [works, works if error is KeyboardInterrupt else fails, lambda: ended.append("too late")]
    with pytest.raises(error):
        run_all(tasks, 2, stop, look)
    assert "stopped" in ended and "too late" not in ended


HERE = jax.devices()[0]


def test_devices_work_side_by_side_each_on_a_task_at_a_time() -> None:
    """Results are yielded in order of completion: the first task waits for the others."""
    others, busy, most = threading.Barrier(3), list[int](), list[int]()

    def task(number: int, device: Any) -> tuple[int, Any]:
        busy.append(number)
        most.append(len(busy))
        if number in (0, 3):
            others.wait(10)
        busy.remove(number)
        return number, jax.config.jax_default_device

    tasks = [functools.partial(task, number) for number in range(4)]
    found = run_on_devices(tasks, [HERE, HERE], threading.Event())
    early = [next(found), next(found)]
    others.wait(10)
    assert sorted(number for number, _ in (*early, *found)) == [0, 1, 2, 3]
    assert {number for number, _ in early} == {1, 2} and max(most) == 2
    alone = run_on_devices(
        [lambda device: (device, jax.config.jax_default_device)], [HERE], threading.Event()
    )
    assert list(alone) == [(HERE, None)]


def test_a_device_that_is_not_the_default_one_is_made_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with a single device: arrays of a task would otherwise be created on the first device."""
    monkeypatch.setattr(devices, "local_devices", lambda: ["another"])
    task = [lambda device: (device, jax.config.jax_default_device)]
    for among in ([HERE], [HERE, HERE]):
        assert list(run_on_devices(task, among, threading.Event())) == [(HERE, HERE)]
    monkeypatch.undo()
    for among in ([HERE], [HERE, HERE]):  # the context would be part of the keys of compiled programs
        assert list(run_on_devices(task, among, threading.Event())) == [(HERE, None)]
    assert jax.config.jax_default_device is None


def test_threads_take_turns_on_an_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads share a CPU, and one of them may enter the context again."""
    inside, order = threading.Event(), list[str]()

    def enter() -> None:
        with devices.Placement((HERE,)).exclusive():
            order.append("second")
            inside.set()

    for on_cpu, expected in ((True, ["second", "first"]), (False, ["first", "second"])):
        monkeypatch.setattr(devices.Placement, "on_cpu", on_cpu)
        inside.clear(), order.clear()
        with devices.Placement((HERE,)).exclusive(), devices.Placement((HERE,)).exclusive():
            threading.Thread(target=enter).start()
            assert inside.wait(5 if on_cpu else 0.05) == on_cpu
            order.append("first")
        assert inside.wait(5) and order == expected


def test_a_result_is_not_kept_until_the_next_one() -> None:
    """The second task starts only after the caller has released the first result."""
    done, gone = threading.Event(), threading.Event()

    class Large:
        pass

    def waits(device: Any) -> Large:
        assert done.wait(60)
        return Large()

    found = run_on_devices([lambda device: Large(), waits], [HERE, HERE], threading.Event())
    weakref.finalize(next(found), gone.set)
    assert gone.wait(5)
    done.set()
    assert len(list(found)) == 1


@pytest.mark.parametrize("is_closed", [False, True])
def test_an_error_on_a_device_or_a_closed_generator_stops_all(is_closed: bool) -> None:
    stop, ended = threading.Event(), list[str]()

    def works(device: Any) -> None:
        assert stop.wait(10)
        ended.append("stopped")

    def ends(device: Any) -> None:
        if not is_closed:
            raise _Trouble

    found = run_on_devices([works, ends, works, works], [HERE, HERE], stop)
    if is_closed:
        next(found)
        found.close()
    else:
        with pytest.raises(_Trouble):
            next(found)
    assert set(ended) == {"stopped"} and len(ended) <= 2


@pytest.mark.slow
def test_finished_chunks_leave_nothing_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise many chunks that fit one by one would exceed the memory together."""
    sizes: list[int] = []
    release = Finished.release

    def measured(self: Finished) -> Any:
        sums = release(self)
        assert not hasattr(self, "state") and not hasattr(self, "problem")
        gc.collect()
        sizes.append(sum(array.nbytes for array in jax.live_arrays()))
        return sums

    monkeypatch.setattr(Finished, "release", measured)
    gadgets = tuple(MaxMargin(UniformPrior(), 0.001 * k) for k in range(1, 9))
    split(monkeypatch, 1, asked=gadgets, iterations=3)
    assert len(sizes) > 3 and np.diff(sizes).max() < 0.25 * sizes[0]


def test_saving_takes_a_share_of_the_time(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a fake clock, an iteration takes 15 s and saving 40 s: the next save is 400 s later."""
    driver: Any = importlib.import_module("jaxgadget.core.driver")
    now, saved = [0.0], []

    def tick() -> float:
        now[0] += 5
        return now[0]

    def save(path: pathlib.Path, key: str, state: cfr.State, **more: Any) -> None:
        saved.append(int(state.iteration))
        now[0] += 40

    monkeypatch.setattr(driver, "time", types.SimpleNamespace(perf_counter=tick))
    monkeypatch.setattr(driver, "save_checkpoint", save)
    game = Batch.of(whole_problem(enumerate_game(load("kuhn_poker")), 1, np.float64))
    options = Solver(algorithm="cfr+", iterations=70, checkpoint=tmp_path / "kuhn.npz", dtype="float64")
    solve(game, options, lambda ended: ended.state.iteration[None])
    assert saved[-1] == 70  # the last one is always saved
    assert len(saved) == 4
    assert min(np.diff(saved[:-1])) * 15 >= 400
