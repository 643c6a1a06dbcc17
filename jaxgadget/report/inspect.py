"""Inspected programs as a printed table and a JSON record."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from jaxgadget.report.layout import UNDEFINED, make_table, short_number

if TYPE_CHECKING:
    from rich.table import Table

    from jaxgadget.bench.inspect import Inspection

ITERATION = "*"
"""Mark of a program whose counts are for one iteration."""


def inspection_record(inspection: Inspection) -> dict[str, Any]:
    """Record of `jaxgadget inspect --json`: `device` and `programs`."""
    return dataclasses.asdict(inspection)


def inspection_table(inspection: Inspection) -> Table:
    """One row for each program."""
    heads = [
        "lanes",
        "calls",
        "temp.\nMB",
        "laun-\nches",
        "MB\nmoved",
        "ato-\nmics",
        "f64",
        "com-\npile",
    ]
    heads += ["floor\nµs", "bound"]
    table = make_table("program", *heads, right=heads, fold="program")
    table.title = inspection.device
    for each in inspection.programs:
        table.add_row(
            each.program + (ITERATION if each.iterates else ""),
            UNDEFINED if each.lanes is None else str(each.lanes),
            f"{each.calls:,}",
            _megabytes(each.temporary_bytes),
            f"{each.launches:,.0f}",
            _megabytes(each.moved_bytes),
            f"{each.atomics:,}",
            f"{each.float64:,}",
            f"{each.compile_seconds:.1f}",
            short_number(each.floor_seconds * 1e6),
            "memory" if each.bound == "memory" else "launch",
        )
    return table


def _megabytes(num_bytes: float) -> str:
    """Megabytes with three significant digits, or all of the integer part; below 0.1 with two decimals."""
    return short_number(num_bytes / 1e6) if num_bytes >= 1e5 else f"{num_bytes / 1e6:.2f}"


def inspection_notes(inspection: Inspection) -> list[str]:
    """The meaning of the numbers."""
    from jaxgadget.bench.inspect import LAUNCH_SECONDS

    notes = [
        f"{ITERATION} Counts are for one iteration of the solving loop. Those of other programs, run once, "
        "are for the whole program. lanes: games side by side. temp.: working memory. launches: kernels, "
        "copies and library calls. atomics: on floating-point numbers. f64: operations in float64, which "
        "certificates use. "
        "compile: seconds of compilation on this machine.",
        "Nothing was timed on a GPU. floor: time in a model in which each launch takes "
        f"{LAUNCH_SECONDS * 1e6:g} µs or the time that the GPU's memory needs to move its bytes, if longer. "
        "bound: the larger of the two sums.",
    ]
    waiting = [each.program for each in inspection.programs if each.iterates and not each.is_graph]
    if waiting:
        notes.append(
            f"Loops outside a CUDA graph, which wait for the host in every iteration: {', '.join(waiting)}."
        )
    called = sorted({name for each in inspection.programs for name in each.calls_out})
    if called:
        notes.append(f"Functions outside the programs: {', '.join(called)}.")
    return notes
