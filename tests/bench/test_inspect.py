"""Reading of compiled programs, described devices, and solves on them, without the CUDA plugin."""

import pathlib
import re
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import jaxgadget as jg
import jaxgadget.bench.inspect
from jaxgadget.bench import hlo
from jaxgadget.bench.bench import bench
from jaxgadget.bench.inspect import DEVICES, find_compile_target, inspect
from jaxgadget.cli import app
from jaxgadget.core import driver
from jaxgadget.core.cfr import loop_program, start, step
from jaxgadget.core.devices import HOME, AbstractDevice, assume_device, find_placement
from jaxgadget.core.loops import LOOP_FORMS, LoopForm
from jaxgadget.core.problem import whole_game
from jaxgadget.core.regret import CFR_PLUS
from jaxgadget.core.rows import RowSums, ScatteredSums
from jaxgadget.tree.whole import sequence_form
from jaxgadget.util.compilation import watch_programs
from jaxgadget.util.precision import precision

TRIPS = 'backend_config={"known_trip_count":{"n":"3"}}'

MODULE = """\
HloModule jit_run, is_scheduled=true

%fused (x: f32[100,8], index: s32[10]) -> f32[10,8] {
  %x = f32[100,8]{1,0} parameter(0)
  %index = s32[10]{0} parameter(1)
  ROOT %rows = f32[10,8]{1,0} gather(%x, %index), offset_dims={1}
}

%fused.1 (y: f32[10,8]) -> f32[2,8] {
  %y = f32[10,8]{1,0} parameter(0)
  %first = f32[2,8]{1,0} slice(%y), slice={[0:2], [0:8]}
  ROOT %twice = f32[2,8]{1,0} add(%first, %first)
}

%inner (arg: (s32[], f32[2,8])) -> (s32[], f32[2,8]) {
  %arg = (s32[], f32[2,8]{1,0}) parameter(0)
  %row = f32[2,8]{1,0} get-tuple-element(%arg), index=1
  %copy.1 = f32[2,8]{1,0} copy(%row)
  ROOT %out = (s32[], f32[2,8]{1,0}) tuple(%row, %copy.1)
}

%never (arg.1: (s32[], f32[2,8])) -> pred[] {
  %arg.1 = (s32[], f32[2,8]{1,0}) parameter(0)
  ROOT %no = pred[] constant(false)
}

%body (arg.2: (s32[], f32[100,8], /*index=2*/s32[10])) -> (s32[], f32[2,8]) {
  %arg.2 = (s32[], f32[100,8]{1,0}, /*index=2*/s32[10]{0}) parameter(0)
  %x.1 = f32[100,8]{1,0} get-tuple-element(%arg.2), index=1
  %index.1 = s32[10]{0} get-tuple-element(%arg.2), index=2
  %picked = f32[10,8]{1,0} fusion(%x.1, %index.1), kind=kLoop, calls=%fused
  %summed = f32[2,8]{1,0} fusion(%picked), kind=kLoop, calls=%fused.1
  %kept = f32[2,8]{1,0} copy(%summed)
  %start = (s32[], f32[2,8]{1,0}) tuple(%index.1, %kept)
  %scan = (s32[], f32[2,8]{1,0}) while(%start), condition=%never, body=%inner, TRIPS
  ROOT %end = (s32[], f32[2,8]{1,0}) tuple(%scan, %summed)
}

ENTRY %main (p: f32[100,8]) -> f32[100,8] {
  %p = f32[100,8]{1,0} parameter(0)
  %begin = (s32[], f32[100,8]{1,0}) tuple(%p, %p)
  %loop = (s32[], f32[100,8]{1,0}) while(%begin), condition=%never, body=%body
  ROOT %result = f32[100,8]{1,0} get-tuple-element(%loop), index=1
}
"""

THUNKS = """\
000: kCommandBuffer [source       | next=002 (1)]\x20
    001: kCopy [source       | sink        ] kCopy
002: kWhile        [prev=001 (5) | sink        ]\x20\x20
condition:
    003: kCustomKernel [source | sink] loop_compare_fusion grid: [1, 1, 1] threads: [1, 1, 1]
  body:
    004: kCustomKernel [source       | sink] loop_add_fusion grid: [9, 1, 1] threads: [128, 1, 1]
005: kCustomKernel [prev=002 (1) | sink        ] wrapped_add grid: [1, 1, 1] threads: [1, 1, 1]
"""

PTX = """\
.visible .entry one(
  .param .u64 .ptr .align 16 one_param_0
)
.reqntid 1, 1, 1
{
  add.rn.f32 %r1, %r2, %r3;
  fma.rn.f64 %rd1, %rd2, %rd3, %rd4;
  add.s32 %r5, %r6, 1;
  @%p1 bra $L__BB0_2;
  bra.uni $L__BB0_1;
$L__BB0_2:
  max.f32 %r1, %r2, %r3;
$L__BB0_1:
  ret;
}
.visible .entry back(
)
.reqntid 1, 1, 1
{
  @%p1 bra $L__BB1_3;
$L__BB1_1:
  add.rn.f32 %r1, %r2, %r3;
  ret;
$L__BB1_3:
  bra.uni $L__BB1_1;
}
.visible .entry again(
)
.reqntid 1, 1, 1
{
$L__BB2_1:
  add.rn.f32 %r1, %r2, %r3;
  @%p1 bra $L__BB2_1;
  ret;
}
.visible .entry many(
)
.reqntid 128, 2, 1
{
  atom.global.add.f32 %r1, [%rd1], %r2;
  red.global.add.f32 [%rd1], %r2;
  atom.relaxed.sys.global.add.u32 %r3, [%rd2], 1;
}
"""


def test_bytes_of_an_iteration_are_those_counted_by_hand():
    """Gathered rows and their indices, a sliced operand, a copy, and an inner loop that runs three times."""
    module = hlo.parse_module(MODULE.replace("TRIPS", TRIPS))
    assert hlo.find_iteration(module) == "body"
    work = hlo.measure(module, "body", launch_seconds=1.0, bandwidth=100.0)
    gathered, sliced, copied = 320 + 40 + 320, 64 + 64, 4 * (64 + 64)
    assert work.launches == 6
    assert work.moved_bytes == gathered + sliced + copied
    assert work.seconds == pytest.approx((gathered + sliced + copied) / 100)
    assert hlo.measure(module, "main", 1.0, 100.0) == hlo.Work()  # the number of trips of its loop is unknown
    assert {each.operation for each in hlo.reachable(module, "body")} >= {
        "gather",
        "slice",
        "copy",
        "constant",
    }


def test_of_a_block_of_iterations_one_is_counted():
    module = hlo.parse_module(MODULE.replace("TRIPS", TRIPS))
    inner = module.computations["body"]["scan"]
    module.computations["outer"] = {"scan": inner._replace(name="scan")}
    (loop,) = (each for each in module.computations["main"].values() if each.operation == "while")
    module.computations["main"]["loop"] = loop._replace(attributes="condition=%never, body=%outer")
    assert hlo.find_iteration(module) == "inner"


def test_a_compiled_program_is_read():
    """HLO text as XLA prints it: an iteration in a loop, and a scan inside it."""

    @jax.jit
    def run(x: jax.Array, until: jax.Array) -> jax.Array:
        def step(_: jax.Array, y: jax.Array) -> jax.Array:
            return jax.lax.scan(lambda z, _: (jnp.sort(z), None), y, length=4)[0] + 1

        return jax.lax.fori_loop(0, until, step, x)

    shape = jax.ShapeDtypeStruct((100,), np.float32)
    module = hlo.parse_module(run.lower(shape, jax.ShapeDtypeStruct((), np.int32)).compile().as_text())
    body = hlo.find_iteration(module)
    assert body is not None
    assert any(each.operation == "sort" for each in hlo.reachable(module, body))
    assert [each.trips for each in module.computations[body].values() if each.operation == "while"] == [4]
    assert hlo.measure(module, body, 0, 1).moved_bytes >= 4 * 400


def test_launches_and_kernels_are_read():
    thunks = hlo.parse_thunks(THUNKS)
    assert [thunk.kind for thunk in thunks[:3]] == ["kCommandBuffer", "kCopy", "kWhile"]
    inside = {thunk.kernel for thunk in thunks if "kWhile" in thunk.enclosing}
    assert inside == {"loop_compare_fusion", "loop_add_fusion"}
    assert thunks[1].enclosing == ("kCommandBuffer",) and thunks[-1].enclosing == ()
    kernels = hlo.parse_ptx(PTX)
    assert kernels["one"] == hlo.PtxKernel(1, 0, 3) and kernels["many"] == hlo.PtxKernel(256, 2, 0)
    assert kernels["back"].additions == 1, "a jump to an earlier line is no loop"
    assert kernels["again"].additions == float("inf")


def test_described_devices(tmp_path: pathlib.Path):
    targets = [find_compile_target(name) for name in DEVICES]
    assert [target.bandwidth for target in targets] == sorted(target.bandwidth for target in targets)
    assert all(63e9 < target.device.memory_stats()["bytes_limit"] < 0.76 * 152e9 for target in targets)
    own = tmp_path / "own.txtpb"
    own.write_text(targets[0].description.replace("2039040000000", "1000"))
    assert find_compile_target(own).bandwidth == 1000
    own.write_text("gpu_device_info { memory_bandwidth: 7 }")
    with pytest.raises(ValueError, match="device_description_str is missing"):
        find_compile_target(own)
    own.write_text(targets[0].description.replace("2039040000000", "0"))
    with pytest.raises(ValueError, match="memory_bandwidth is no positive number"):
        find_compile_target(own)
    with pytest.raises(ValueError, match="device='b7': expected one of"):
        find_compile_target("b7")


def test_a_solve_on_a_described_device_is_one_iteration_on_the_host():
    tree = jg.enumerate_game(jg.load("kuhn_poker"))
    device = AbstractDevice("described", 10**9)
    with watch_programs() as calls, assume_device(device):
        solution = jg.solve(tree, solver=jg.Solver(iterations=50, dtype="float32"))
        assert HOME.platform == "gpu" and find_placement().devices == (device,)
    assert HOME.platform == jax.default_backend()
    (sides,) = {call.arguments[0].sides for call in calls if call.program.name == "run"}
    sums = [below for side in sides for below in side.body.below]
    assert sums and all(isinstance(below, RowSums) for below in sums)
    on_host = jg.solve(tree, solver=jg.Solver(iterations=1, dtype="float32"))
    np.testing.assert_allclose(solution.nash_conv, on_host.nash_conv, rtol=1e-6)


def test_programs_of_many_lanes_are_noted_without_arrays():
    with watch_programs() as calls, assume_device(AbstractDevice("described", 10**12)):
        bench("leduc_poker", lanes=(1, 65_536), engines=("jaxgadget",))
    lanes = [call.arguments[0].num_lanes for call in calls if call.program.name == "run"]
    assert lanes == [1, 65_536]


def test_without_the_plugin_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jaxgadget.bench.inspect, "cuda_plugin", lambda: None)
    result = CliRunner().invoke(app, ["inspect", "kuhn_poker"])
    assert result.exit_code == 2
    assert re.search(r"requires JAX's plugin .* pip install 'jaxgadget\[gpu-check\]'", result.output), (
        result.output
    )


@pytest.mark.parametrize("platform", ["cuda", "rocm", "tpu"])
def test_the_main_programs_are_lowered_for_every_platform(platform: str):
    """Start, loop with and without a target gap, and certificate of a refinement, and of a river."""
    tree = jg.enumerate_game(jg.load("kuhn_poker"))
    uniform, value = jg.Policy.uniform(tree), (-1 / 18, -1 / 18)
    spot = jg.Spot(board="2s3h4d6c7c", oop="AsAh,QsQh", ip="KsKh", pot=20, stack=10)
    with watch_programs() as calls, assume_device(AbstractDevice("described", 10**9)):
        for target_gap in (None, 1e-3):
            solver = jg.Solver(iterations=2, target_gap=target_gap, progress=False)
            jg.refine(tree, "depth:1", uniform, [jg.Resolving(), jg.MaxMargin()], value=value, solver=solver)
            jg.solve_spots([spot], solver=solver)
    lowered: set[str] = set()
    for call in {str((each.program.name, each.arguments, each.named)): each for each in calls}.values():
        with precision(np.float64 if call.x64 else np.float32):
            program = jax.export.export(call.program.jitted, platforms=[platform])
            assert program(*call.arguments, **call.named).platforms == (platform,)
        lowered.add(call.program.name)
    assert lowered >= {"_begin", "run", "run_to_gap", "certify_average"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sweep", "folder"], "sweep: expected a game or a command among solve, refine"),
        (["--device", "b7", "kuhn_poker"], "device='b7': expected one of a100"),
        (["kuhn_poker", "--device", "h100"], "--device h100: options of inspect come first"),
        (["refine", "kuhn_poker", "--device=h100"], "jaxgadget inspect --device h100 refine"),
    ],
)
def test_invalid_requests_are_refused(words: list[str], message: str):
    result = CliRunner().invoke(app, ["inspect", *words])
    assert result.exit_code == 2 and message in result.output


@pytest.mark.parametrize("form", LOOP_FORMS)
def test_the_form_of_the_loop_changes_no_result(form: LoopForm):
    """100 iterations: three blocks and a remainder of four iterations."""
    form_of_kuhn = sequence_form(jg.enumerate_game(jg.load("kuhn_poker")))
    with precision(np.float64):
        game = whole_game(form_of_kuhn.treeplex, form_of_kuhn.payoff, num_lanes=2, dtype=np.float64)
        found = loop_program(form)(game, start(game, CFR_PLUS), np.int32(100), rule=CFR_PLUS)
        expected = start(game, CFR_PLUS)
        for _ in range(100):
            expected = ONE_STEP(game, expected)
    assert int(found.iteration) == 100
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


ONE_STEP = jax.jit(lambda game, state: step(game, CFR_PLUS, state))


def test_layouts_for_a_described_device_stay_apart():
    """Solves of one tree with and without a described device: each uses the sums for its platform."""
    tree, device = jg.enumerate_game(jg.load("kuhn_poker")), AbstractDevice("described", 10**9)
    solver = jg.Solver(iterations=2, dtype="float32", progress=False)
    jg.solve(tree, solver=solver)
    with watch_programs() as calls, assume_device(device):
        jg.solve(tree, solver=solver)
    with watch_programs() as calls_after:
        jg.solve(tree, solver=solver)
    for watched, kind in ((calls, RowSums), (calls_after, ScatteredSums)):
        (found,) = {call.arguments[0].sides[0].body.below for call in watched if call.program.name == "run"}
        assert found and all(isinstance(below, kind) for below in found)


def test_a_device_is_assumed_in_one_thread_alone():
    with watch_programs() as calls, assume_device(AbstractDevice("described", 10**9)):
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(lambda: HOME.platform).result() == jax.default_backend()
        assert HOME.platform == "gpu"
    assert not calls


def test_lanes_that_the_host_cannot_hold_are_refused():
    tree = jg.enumerate_game(jg.load("kuhn_poker"))
    lanes = jg.Policy.stack([jg.Policy.uniform(tree)] * 3)
    with assume_device(AbstractDevice("described", 10**15)), pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "host_memory", lambda: 1000)
        with pytest.raises(ValueError, match=r"is computed on this host, where .* expected fewer lanes"):
            jg.refine(tree, "depth:1", lanes, jg.Unsafe(), value=(-1 / 18, -1 / 18), iterations=2)


def test_the_platform_of_the_host_is_named(monkeypatch: pytest.MonkeyPatch):
    """Without the setting, JAX's plugin looks for a driver and cannot be used to compile."""
    before = jax.config.values["jax_platforms"]
    monkeypatch.setattr(jaxgadget.bench.inspect, "cuda_plugin", lambda: "jax-cuda12-plugin")
    jax.config.update("jax_platforms", None)
    try:
        with pytest.raises(ValueError, match="JAX_PLATFORMS=: expected cpu"):
            inspect(lambda: None)
    finally:
        jax.config.update("jax_platforms", before)
