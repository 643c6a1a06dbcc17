"""Compiles the programs that a call of the package runs for a GPU that need not be present.

The call is made with an abstract device in place of the local ones: layouts and memory are planned for that
device, and the host computes one iteration of every solve. XLA then compiles the recorded programs for the
device, and their work is counted. No number is a measurement, except compilation times; other times are those
of a model.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import pathlib
import re
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.experimental import topologies
from jax.sharding import NamedSharding, PartitionSpec

from jaxgadget.bench import hlo
from jaxgadget.core.devices import AbstractDevice, assume_device
from jaxgadget.core.problem import Problem
from jaxgadget.util.accelerators import cuda_plugin
from jaxgadget.util.compilation import ProgramCall, compiled_afresh, watch_programs
from jaxgadget.util.precision import precision
from jaxgadget.util.progress import progress_bar

if TYPE_CHECKING:
    import pandas as pd

DEVICES = ("a100", "h100", "h200")
"""Names of the devices of which the package has descriptions."""

LAUNCH_SECONDS = 2.5e-6
"""Minimum time of a launch in the model, in seconds: of a kernel in a CUDA graph that waits for the previous
one.

On an H100 loops of one lane take 2.5 to 4.1 µs a launch (`experiments/performance/h100`)."""

NAMING = hlo.NOT_LAUNCHED | {"while", "conditional", "call"}
"""Operations that perform no computation."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CompileTarget:
    """A device for which programs are compiled.

    Attributes:
      name: name of the device.
      description: text of a `stream_executor.GpuTargetConfigProto`.
      bandwidth: bandwidth of its memory, in bytes per second.
      memory_bytes: size of its memory in bytes.
    """

    name: str
    description: str
    bandwidth: float
    memory_bytes: int

    @property
    def device(self) -> AbstractDevice:
        """The device in the form that solvers accept."""
        return AbstractDevice(self.name, self.memory_bytes)

    def sharding(self) -> NamedSharding:
        """Sharding that places a program's arguments on the device, so that XLA compiles for it."""
        topology = topologies.get_topology_desc(
            platform="cuda", target_config=self.description, topology="1x1x1"
        )
        return NamedSharding(topologies.make_mesh(topology, (1,), ("device",)), PartitionSpec())


@dataclasses.dataclass(frozen=True, kw_only=True)
class CompiledProgram:
    """A program compiled for a device, with counts of its work.

    Counts are of one iteration of the innermost loop whose number of trips is not known beforehand, or of the
    whole program if there is none.

    Attributes:
      program: name of the function.
      lanes: number of games, if the program's first argument is a `Problem`.
      calls: number of calls with these shapes and this precision, with one iteration of every solve; a loop
        has one call that compiles it, and one for each part of a solve.
      dtype: `float64` if JAX computes in float64, otherwise `float32`.
      iterates: True if an iteration of a loop is counted.
      launches: number of kernels, copies and library calls.
      moved_bytes: bytes that these read and write, by the model of `hlo.fusion_traffic`.
      temporary_bytes: working memory of the program.
      argument_bytes: bytes of the arguments.
      result_bytes: bytes of the results.
      reused_bytes: bytes of the results that are written in place of donated arguments.
      atomics: number of atomic instructions on floating-point numbers, whose sums may differ between runs;
        those on integers do not.
      float64: number of operations with results in float64.
      sorts: number of sorts.
      scatters: number of scatters.
      calls_out: names of called library functions and host callbacks.
      most_additions: the largest number of additions, maxima and minima in a kernel of a single thread,
        infinite if it loops.
      is_graph: True if all of the program is one CUDA graph, so that no iteration waits for the host.
      compile_seconds: time of compilation.
      floor_seconds: time in the model: each launch takes `LAUNCH_SECONDS`, or the time in which the device's
        memory moves its bytes, whichever is longer; bytes that stay in a cache count, too.
      bound: `launches` or `memory`, the larger of both sums over all launches.
    """

    program: str
    lanes: int | None
    calls: int
    dtype: str
    iterates: bool
    launches: float
    moved_bytes: float
    temporary_bytes: int
    argument_bytes: int
    result_bytes: int
    reused_bytes: int
    atomics: int
    float64: int
    sorts: int
    scatters: int
    calls_out: tuple[str, ...]
    most_additions: float
    is_graph: bool
    compile_seconds: float
    floor_seconds: float
    bound: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inspection:
    """The programs of a call, compiled for a device.

    Attributes:
      device: name of the device.
      programs: the programs in the order of their first calls.
    """

    device: str
    programs: tuple[CompiledProgram, ...]

    def to_frame(self) -> pd.DataFrame:
        """One row for each program, with the fields of `CompiledProgram` as columns."""
        import pandas as pd

        rows = [dataclasses.asdict(each) for each in self.programs]
        return pd.DataFrame(rows, columns=[field.name for field in dataclasses.fields(CompiledProgram)])


def inspect(
    call: Callable[[], Any],
    *,
    device: str | os.PathLike[str] = "h200",
    only: Collection[str] = (),
    progress: bool | None = None,
) -> Inspection:
    """Compiles the programs of a call for a device.

    Args:
      call: the call, such as `lambda: jaxgadget.refine(tree, "flop", blueprint)`. It is made on the host,
        with one iteration of every solve, so its result is meaningless. Leave out `devices`: programs on
        chosen devices, as those that run on the host's CPU, are not compiled.
      device: an element of `DEVICES`, or a file with the description of another: a
        `stream_executor.GpuTargetConfigProto` of XLA as text.
      only: names of the programs to compile; by default all of them.
      progress: a bar, or a line a minute in a log; by default a bar, on a terminal or in a notebook.

    Raises:
      ImportError: if JAX's plugin for CUDA is not installed (extra `gpu-check`).
      ValueError: if the device is unknown, or its file does not describe one; if JAX does not compute on the
        host, which lacks the memory of the device's plan, or if the call runs no program.
    """
    target = find_compile_target(device)
    _check_plugin()
    platforms: str | None = jax.config.values["jax_platforms"]
    if platforms != "cpu":
        raise ValueError(
            f"JAX_PLATFORMS={platforms or ''}: expected cpu, set in the environment before Python starts, as "
            "inspected calls are made on the host and JAX would look for a driver"
        )
    sharding = _place_on(target)
    with watch_programs() as calls, assume_device(target.device):
        call()
    counted: collections.Counter[str] = collections.Counter()
    first: dict[str, ProgramCall] = {}
    for each in calls:
        if only and each.program.name not in only:
            continue
        key = f"{id(each.program)} {each.x64} {each.arguments} {each.named}"
        counted[key] += 1
        first.setdefault(key, each)
    if not first:
        if only and calls:
            names = ", ".join(sorted({each.program.name for each in calls}))
            raise ValueError(f"only={tuple(only)!r}: the call ran {names}")
        raise ValueError(
            "the call runs no program on a GPU: linear programs, matches without search and, in float64, "
            "whole games of a few thousand sequences are computed by the host; inspect the game itself, as "
            "`jaxgadget inspect GAME` does, or in float32, and choose no devices"
        )
    programs: list[CompiledProgram] = []
    with (
        compiled_afresh(),
        progress_bar(f"compiling for {target.name}", len(first), progress) as report,
    ):
        for key, each in first.items():
            report(len(programs))
            programs.append(_compile(each, counted[key], target, sharding))
    return Inspection(device=target.name, programs=tuple(programs))


def find_compile_target(device: str | os.PathLike[str]) -> CompileTarget:
    """The device with a name, or from a file; arguments and errors as in `inspect`."""
    path = pathlib.Path(device)
    if os.fspath(device) in DEVICES:
        path = pathlib.Path(__file__).parent / "devices" / f"{os.fspath(device)}.txtpb"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise ValueError(
            f"device={os.fspath(device)!r}: expected one of {', '.join(DEVICES)}, or a file that describes a "
            f"device ({getattr(error, 'strerror', None) or 'not a text file'})"
        ) from error

    def field(name: str, pattern: str) -> str:
        match = re.search(rf"\b{name}:\s*{pattern}", text)
        if match is None or not match[1].strip("0"):
            problem = "is no positive number" if re.search(rf"\b{name}:", text) else "is missing"
            raise ValueError(
                f"device={os.fspath(device)!r}: {name} {problem}; expected a GpuTargetConfigProto of XLA as "
                "text, as in its folder xla/backends/gpu/target_config/specs"
            )
        return match[1]

    return CompileTarget(
        name=field("device_description_str", '"([^"]*)"'),
        description=text,
        bandwidth=float(field("memory_bandwidth", r"(\d+)")),
        memory_bytes=int(field("device_memory_size", r"(\d+)")),
    )


def _check_plugin() -> None:
    if cuda_plugin() is None:
        raise ImportError(
            "compiling for a GPU requires JAX's plugin for CUDA, which is not installed: "
            "pip install 'jaxgadget[gpu-check]'"
        )


def _place_on(target: CompileTarget) -> NamedSharding:
    try:
        return target.sharding()
    except Exception as error:  # XLA raises errors of several kinds
        raise ValueError(
            f"device={target.name!r}: XLA rejects its description, perhaps for a name in it ({error})"
        ) from error


def _compile(
    call: ProgramCall, calls: int, target: CompileTarget, sharding: NamedSharding
) -> CompiledProgram:
    """Compiles a recorded call and counts its work."""

    def on_device(x: Any) -> Any:
        if not isinstance(x, jax.ShapeDtypeStruct):
            return x
        return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding, weak_type=x.weak_type)

    arguments, named = jax.tree.map(on_device, (call.arguments, call.named))
    dtype = np.float64 if call.x64 else np.float32
    with tempfile.TemporaryDirectory() as folder, precision(dtype):
        lowered = call.program.for_gpu.lower(*arguments, **named)
        began = time.perf_counter()
        try:
            compiled = lowered.compile(compiler_options={"xla_dump_to": folder})
        except jax.errors.JaxRuntimeError as error:
            raise ValueError(f"device={target.name!r}: XLA cannot compile for it ({error})") from error
        seconds = time.perf_counter() - began
        dumped = _Dump.read(pathlib.Path(folder))
    module = hlo.parse_module(compiled.as_text())
    body = hlo.find_iteration(module)
    counted = module.entry if body is None else body
    work = hlo.measure(module, counted, LAUNCH_SECONDS, target.bandwidth)
    instructions = list(hlo.reachable(module, counted))
    operations = collections.Counter(each.operation for each in instructions)
    kernels = dumped.kernels(in_loop=body is not None)
    memory = compiled.memory_analysis()
    return CompiledProgram(
        program=call.program.name,
        lanes=next((x.num_lanes for x in call.arguments[:1] if isinstance(x, Problem)), None),
        calls=calls,
        dtype=np.dtype(dtype).name,
        iterates=body is not None,
        launches=work.launches,
        moved_bytes=work.moved_bytes,
        temporary_bytes=memory.temp_size_in_bytes,
        argument_bytes=memory.argument_size_in_bytes,
        result_bytes=memory.output_size_in_bytes,
        reused_bytes=memory.alias_size_in_bytes,
        atomics=sum(kernel.atomics for kernel in kernels),
        float64=sum("f64[" in each.shape for each in instructions if each.operation not in NAMING),
        sorts=operations["sort"],
        scatters=operations["scatter"],
        calls_out=tuple(sorted({name for each in instructions for name in _called_out(each)})),
        most_additions=max((kernel.additions for kernel in kernels if kernel.threads == 1), default=0),
        is_graph=dumped.is_graph,
        compile_seconds=seconds,
        floor_seconds=work.seconds,
        bound="launches"
        if work.launches * LAUNCH_SECONDS >= work.moved_bytes / target.bandwidth
        else "memory",
    )


def _called_out(each: hlo.Instruction) -> list[str]:
    """Functions outside the program that an instruction calls."""
    if each.operation in ("infeed", "outfeed", "send", "recv"):
        return [each.operation]
    return re.findall(r'custom_call_target="([^"]+)"', each.attributes)


@dataclasses.dataclass(frozen=True)
class _Dump:
    """XLA's dump of a program.

    Attributes:
      thunks: the launches.
      ptx: the kernels, by name.
      is_graph: True if all launches are in one CUDA graph.
    """

    thunks: Sequence[hlo.Thunk]
    ptx: dict[str, hlo.PtxKernel]
    is_graph: bool

    @classmethod
    def read(cls, folder: pathlib.Path) -> _Dump:
        """Reads the folder of `xla_dump_to`, which has one program with kernels."""
        ptx: dict[str, hlo.PtxKernel] = {}
        for path in folder.glob("*.ptx"):
            ptx |= hlo.parse_ptx(path.read_text())
        thunks = _longest(folder, "*.thunk_sequence.txt")
        final = _longest(folder, "*.thunk_sequence_after_thunk_passes.txt")
        graphs = [thunk for thunk in final if not thunk.enclosing]
        return cls(thunks, ptx, len(graphs) == 1 and graphs[0].kind == "kCommandBuffer")

    def kernels(self, *, in_loop: bool) -> list[hlo.PtxKernel]:
        """The kernels of all loops, or all kernels."""
        names = {thunk.kernel for thunk in self.thunks if not in_loop or "kWhile" in thunk.enclosing}
        return [kernel for name, kernel in self.ptx.items() if name in names]


def _longest(folder: pathlib.Path, pattern: str) -> list[hlo.Thunk]:
    """The thunks of the longest dumped sequence; shorter ones compute constants."""
    texts = [path.read_text() for path in folder.glob(pattern)]
    return hlo.parse_thunks(max(texts, key=len, default=""))
