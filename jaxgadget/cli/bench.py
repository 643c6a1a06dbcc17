"""`jaxgadget bench [GAME]...`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from jaxgadget.bench.defaults import (
    DEFAULT_GAMES,
    DEFAULT_LANES,
    DEFAULT_REPEATS,
    DEFAULT_SECONDS,
    ENGINES,
    OURS,
)
from jaxgadget.cli.command import refuse_unused
from jaxgadget.cli.fields import Fields, option, request
from jaxgadget.cli.options import IterativeSolver, Output, SizeOptions
from jaxgadget.core.loops import LOOP_FORM, LoopForm

BENCH_EXAMPLES = """\
Examples:

`jaxgadget bench`

`jaxgadget bench leduc_poker --lanes 1,64,1024 --engine jaxgadget --engine openspiel --json -`

`jaxgadget bench --lanes 1,256,4096,65536 --device gpu --json gpu.json`
"""


@request
class BenchOptions(SizeOptions):
    """Games and engines to time.

    Attributes:
      game: games to solve; peers can only solve games that OpenSpiel has, too.
      lanes: number of copies of the game in a batch; peers solve a single one.
      engine: solvers to time; by default jaxgadget and the installed peers.
      device: platform of jaxgadget; by default JAX's choice, a GPU if there is one.
      devices: number of devices of that platform, over which the lanes are split, filled up with copies.
      loop: execution of the loop on a GPU: as one CUDA graph, or with a return to the host after every 32
        iterations or after each one.
      seconds: total time of all repetitions of a row, in seconds.
      repeats: number of repetitions, alternating between engines; the fastest one is reported.
    """

    game: tuple[str, ...] = option(DEFAULT_GAMES, argument=True, metavar="GAME")
    lanes: tuple[int, ...] = DEFAULT_LANES
    engine: tuple[str, ...] = option((), choices=ENGINES)
    device: Literal["cpu", "gpu"] | None = option(None, default="JAX's choice")
    devices: int = option(1, min=1)
    loop: LoopForm = option(LOOP_FORM)
    seconds: float = option(DEFAULT_SECONDS, metavar="SECONDS", min=0)
    repeats: int = option(DEFAULT_REPEATS, min=1)


def bench(
    context: typer.Context,
    options: BenchOptions,
    solver: Annotated[
        IterativeSolver, Fields("algorithm", "iterations", "dtype", algorithm="cfr+", dtype="float32")
    ],
    output: Output,
) -> None:
    """Time iterations of CFR on whole games, in many lanes and in comparison with other solvers.

    OpenSpiel's C++ solver and LiteEFG alternate with jaxgadget if they are installed (extra `peers`).
    Building, compiling and running are reported separately; the compilation cache is not used.
    Peers support the algorithms `cfr` and `cfr+` and compute in float64. By default the number of iterations
    is chosen to fill the time.
    """
    if options.engine and OURS not in options.engine:
        refuse_unused(context, "without --engine jaxgadget", "lanes", "dtype", "device", "devices", "loop")
    if solver.iterations is not None:
        refuse_unused(context, "with --iterations", "seconds")
    output.check()
    from jaxgadget.bench.bench import bench as run_bench
    from jaxgadget.core.devices import first_devices
    from jaxgadget.report.bench import bench_notes, bench_record, bench_tables

    benchmark = run_bench(
        options.game,
        engines=options.engine or None,
        lanes=options.lanes,
        algorithm=solver.name,
        dtype=solver.precision.name,
        loop=options.loop,
        devices=first_devices(options.devices),
        iterations=solver.iterations,
        seconds=options.seconds,
        repeats=options.repeats,
        max_histories=options.max_histories,
        progress=True,
    )
    output.write_json(bench_record(benchmark))
    output.print((bench_tables(benchmark), bench_notes(benchmark)), warnings=benchmark.skipped)
