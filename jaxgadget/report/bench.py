"""Benchmarks as printed tables and JSON records."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.table import Table

from jaxgadget.report.layout import UNDEFINED, make_table, short_number, table_title

if TYPE_CHECKING:
    from jaxgadget.bench.bench import Benchmark, Row


def bench_record(benchmark: Benchmark) -> dict[str, Any]:
    """Record of `jaxgadget bench --json`: `device`, `devices`, `driver`, `loop`, `versions` and `rows`."""
    return {
        "device": benchmark.device,
        "devices": benchmark.devices,
        "driver": benchmark.driver,
        "loop": benchmark.loop,
        "versions": benchmark.versions,
        "rows": [dataclasses.asdict(row) for row in benchmark.rows],
    }


def bench_tables(benchmark: Benchmark) -> Group:
    """One table per game, with the speed of each row relative to each peer."""
    games = dict.fromkeys(row.game for row in benchmark.rows)
    return Group(*(_game_table(row for row in benchmark.rows if row.game == game) for game in games))


def _game_table(rows: Iterable[Row]) -> Table:
    rows = list(rows)
    peers = {row.engine: row for row in rows if row.threads is not None}
    heads = ["lanes", "µs /\nlane /\niter.", "hist.\n/ s", "build\ns", "comp.\ns", "run\ns", "peak\nMB"]
    heads += ["×\n" + name.replace("openspiel", "open-\nspiel") for name in peers]
    table = make_table("engine", *heads, right=heads, fold="engine")
    table.title = table_title(f"{rows[0].game}, {rows[0].algorithm}")
    for row in rows:
        ratios = (peer.us_per_lane_iteration / row.us_per_lane_iteration for peer in peers.values())
        table.add_row(
            row.engine if (row.threads or 1) == 1 else f"{row.engine}, {row.threads} threads",
            f"{row.lanes:,}",
            short_number(row.us_per_lane_iteration),
            f"{row.histories_per_second:.3g}",
            f"{row.build_seconds:.2f}",
            UNDEFINED if row.compile_seconds is None else f"{row.compile_seconds:.2f}",
            f"{row.run_seconds:.2f}",
            UNDEFINED if row.peak_bytes is None else short_number(row.peak_bytes / 1e6),
            *map(short_number, ratios),
        )
    return table


def bench_notes(benchmark: Benchmark) -> list[str]:
    """The meaning of the numbers, and the device."""
    dtypes = {row.engine: row.dtype for row in benchmark.rows}
    notes = [
        "µs of an iteration, which updates both players, divided by lanes. Histories per second = "
        "histories × iterations × lanes ÷ run seconds of the fastest repetition. Computed in "
        f"{', '.join(f'{dtype} ({engine})' for engine, dtype in dtypes.items())}."
    ]
    if any(row.threads is not None for row in benchmark.rows):
        notes.append(
            "× is the speed of a row relative to a peer, per lane. Peers have one lane; LiteEFG uses the "
            "number of threads with which it is fastest, and is timed without averaging."
        )
    if benchmark.devices > 1:
        notes.append(
            f"Lanes of jaxgadget were split over {benchmark.devices} devices, filled up with copies; peak MB "
            "is the largest of a device."
        )
    versions = ", ".join(f"{name} {version}" for name, version in benchmark.versions.items() if version)
    device = (
        benchmark.device if benchmark.driver is None else f"{benchmark.device}; driver {benchmark.driver}"
    )
    return [*notes, *benchmark.skipped, f"{device}.", f"{versions}."]
