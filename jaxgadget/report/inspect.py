"""Inspected programs as a printed table and a JSON record."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from jaxgadget.report.layout import UNDEFINED, make_table, number_text

if TYPE_CHECKING:
    from rich.table import Table

    from jaxgadget.bench.inspect import Inspection

ITERATION = "*"
"""Mark of a program of which one iteration is counted."""


def inspection_record(inspection: Inspection) -> dict[str, Any]:
    """Record of `jaxgadget inspect --json`: `device` and `programs`."""
    return dataclasses.asdict(inspection)


def inspection_table(inspection: Inspection) -> Table:
    """One row for each program."""
    heads = [
        "lanes",
        "calls",
        "args\nMB",
        "temp.\nMB",
        "laun-\nches",
        "MB\nmoved",
        "atom-\nics",
        "f64",
        "comp.\ns",
    ]
    heads += ["floor\nµs", "bound"]
    table = make_table("program", "dtype", *heads, right=heads, fold="program")
    table.title = inspection.device
    for each in inspection.programs:
        table.add_row(
            each.program + (ITERATION if each.iterates else ""),
            each.dtype,
            UNDEFINED if each.lanes is None else f"{each.lanes:,}",
            f"{each.calls:,}",
            number_text(each.argument_bytes / 1e6, 3),
            number_text(each.temporary_bytes / 1e6, 3),
            f"{each.launches:,.0f}",
            number_text(each.moved_bytes / 1e6, 3),
            f"{each.atomics:,}",
            f"{each.float64:,}",
            f"{each.compile_seconds:.1f}",
            number_text(each.floor_seconds * 1e6, 3),
            each.bound,
        )
    return table


def inspection_notes(inspection: Inspection) -> list[str]:
    """The meaning of the numbers."""
    from jaxgadget.bench.inspect import LAUNCH_SECONDS

    notes = [
        f"{ITERATION} One iteration of the program's loop is counted; of other programs, all of it. "
        "Launches: kernels, copies, and calls of libraries. f64: operations on float64.",
        f"No number is measured. The floor is the sum over launches of {LAUNCH_SECONDS * 1e6:g} µs, or of "
        "the time in which the memory moves their bytes if that is longer; launches or memory bound it.",
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
