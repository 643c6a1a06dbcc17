"""Everything that is measured about speed, in one command: `python -m experiments.performance`.

Writes tables to `experiments/performance/data/`, a folder a device: the machine and its copy bandwidth, lanes
against time, an iteration taken apart, and the grid behind Figure 2.
"""

from __future__ import annotations

import argparse
import datetime
import json
import pathlib
import re
from collections.abc import Sequence

import jax
import pandas as pd

from experiments.common import QUICK, show
from experiments.performance.grid import time_grid
from experiments.performance.machine import LARGE, SMALL, copy_bandwidth
from experiments.performance.profile import profile
from experiments.performance.sharing import time_sharing
from jaxgadget.bench.bench import DEFAULT_GAMES, bench
from jaxgadget.util.files import atomic_writer, make_folder
from jaxgadget.util.machine import describe_device, find_versions

HERE = pathlib.Path(__file__).parent

PIECES = ("machine", "peers", "lanes", "profile", "grid", "sharing")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures what was asked for; everything by default."""
    parser = argparse.ArgumentParser(prog="python -m experiments.performance", description=__doc__)
    parser.add_argument("pieces", nargs="*", metavar="PIECE", help=f"some of: {', '.join(PIECES)}")
    parser.add_argument("--quick", action="store_true", help="a trial run, into build/experiments")
    parser.add_argument("--folder", type=pathlib.Path, help="where the tables go")
    asked = parser.parse_args(arguments)
    unknown = set(asked.pieces) - set(PIECES)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; expected some of {', '.join(PIECES)}")
    folder = asked.folder or (QUICK / "performance" if asked.quick else HERE / "data")
    folder = folder / re.sub(r"[^a-z0-9]+", "-", jax.local_devices()[0].device_kind.lower()).strip("-")
    make_folder(folder)
    for piece in asked.pieces or PIECES:
        table = MEASURE[piece](asked.quick)
        with atomic_writer(folder / f"{piece}.csv") as file:
            file.write(table.to_csv(index=False, lineterminator="\n", float_format="%.6g").encode())
        show(piece, table)
    record = {
        "date": f"{datetime.date.today():%Y-%m-%d}",
        "device": describe_device(),
        "versions": find_versions(),
    }
    with atomic_writer(folder / "machine.json") as file:
        file.write((json.dumps(record, indent=2, ensure_ascii=False) + "\n").encode())


def measure_machine(quick: bool) -> pd.DataFrame:
    """Copy bandwidth, outside the caches and inside."""
    sizes = (SMALL,) if quick else (SMALL, LARGE)
    rates = [copy_bandwidth(size, 0.05 if quick else 2.0) / 1e9 for size in sizes]
    return pd.DataFrame({"bytes": sizes, "gigabytes_per_second": rates})


def measure_peers(quick: bool) -> pd.DataFrame:
    """`jaxgadget bench` with all engines that are installed."""
    if quick:
        return pd.DataFrame(bench("kuhn_poker", lanes=(1, 16), iterations=2, repeats=1, progress=False).rows)
    return pd.DataFrame(bench(DEFAULT_GAMES, seconds=10.0).rows)


def measure_lanes(quick: bool) -> pd.DataFrame:
    """Leduc on 1 to 65,536 lanes of an accelerator, to 4,096 of a CPU; the others on 64 and more."""
    engines = ("jaxgadget",)
    if quick:
        found = bench("kuhn_poker", engines=engines, lanes=(1, 64), iterations=2, repeats=1, progress=False)
        return pd.DataFrame(found.rows)
    most = 12 if jax.default_backend() == "cpu" else 16
    tables: list[pd.DataFrame] = []
    for game in DEFAULT_GAMES:
        steps = range(0 if game == DEFAULT_GAMES[0] else 6, most + 1, 1 if most == 16 else 2)
        few, many = [1 << k for k in steps if k < 6], [1 << k for k in steps if k >= 6]
        if few:
            tables.append(pd.DataFrame(bench(game, engines=engines, lanes=few, seconds=4.0).rows))
        # As many iterations for all, so that a chunk's first ones, from memory, weigh alike.
        rows = bench(game, engines=engines, lanes=many, iterations=100, repeats=5).rows
        tables.append(pd.DataFrame(rows))
    return pd.concat(tables, ignore_index=True)


def measure_profile(quick: bool) -> pd.DataFrame:
    """An iteration of the three games, taken apart."""
    if quick:
        return profile("kuhn_poker", (4,), 0.01)
    lanes = (1, 64) if jax.default_backend() == "cpu" else (1, 1024, 65536)
    return pd.concat([profile(game, lanes, 1.0) for game in DEFAULT_GAMES], ignore_index=True)


def measure_grid(quick: bool) -> pd.DataFrame:
    """The grid behind Figure 2."""
    return time_grid(iterations=3, checkpoints=2, draws=1) if quick else time_grid()


def measure_sharing(quick: bool) -> pd.DataFrame:
    """Kinds of gadgets apart, or as lanes of one entry."""
    return time_sharing(3, 2, 1, 1) if quick else time_sharing()


MEASURE = {
    "machine": measure_machine,
    "peers": measure_peers,
    "lanes": measure_lanes,
    "profile": measure_profile,
    "grid": measure_grid,
    "sharing": measure_sharing,
}

if __name__ == "__main__":
    main()
