"""Comparison with another checkout, alternating: `python -m experiments.performance.commits FOLDER`.

Every turn runs both, each in separate processes, and every second turn in the other order, so that a busy
moment of the machine affects both equally. Prints medians over the turns, and their ratio. About an hour on
two cores. On a GPU: `FOLDER bench grid rivers --lanes 1 1024 65536 --turns 1`.

The measurements are `jaxgadget bench` and separate gadgets (microseconds per iteration, divided by the
lanes), one and ten rivers and the grid of Figure 2 (seconds of iterations, and wall time with compilation),
the demo with an empty cache of compiled programs, `jaxgadget refine kuhn_poker` with an empty cache and with
a warm one, and `jaxgadget --help`. Each checkout is measured with its own `gadgets.py` and `grid.py`, since
these call the interface of their time.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pandas as pd

from experiments.study import show
from jaxgadget.util.files import atomic_writer

SCRIPTS = pathlib.PurePath("experiments", "performance")
ROOT = pathlib.Path(__file__).parents[2]
DEMO = ("refine", "leduc_poker")
KUHN = ("refine", "kuhn_poker")
BOARDS = tuple(f"Td9d6h{turn}{river}" for turn in ("Qc", "2s") for river in ("3c", "4h", "5d", "7s", "Ah"))
"""Boards of ten rivers."""

FEW, MANY = 1, 3000
"""Iterations of the two solves of rivers whose times are subtracted."""

GRID_CODE = """
import json, sys
from experiments.performance import grid
rows = grid.time_grid(grid.{name}, iterations={iterations})
json.dump(rows.to_dict("records"), sys.stdout)
"""

Numbers = dict[str, float]
"""Measurements by name."""


class Effort(NamedTuple):
    """Size of the measurements.

    Attributes:
      lanes: numbers of lanes of `bench`.
      seconds: time of each row of a benchmark, in seconds.
      smoke: Kuhn poker only, and few iterations.
    """

    lanes: tuple[int, ...]
    seconds: float
    smoke: bool


def execute(checkout: pathlib.Path, arguments: Sequence[str], cache: str | None = None) -> str:
    """Runs Python with a checkout's jaxgadget; returns its output.

    Args:
      checkout: folder of the package.
      arguments: arguments of Python.
      cache: the folder of compiled programs; by default none.
    """
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # a user's modules are compiled once
    if cache is None:
        environment |= {"JAX_ENABLE_COMPILATION_CACHE": "false"}
    else:
        environment |= {"JAX_COMPILATION_CACHE_DIR": cache}
    # -P, for a script's own folder holds a `profile.py`, which is a module of Python's too.
    command = [sys.executable, "-P", *arguments]
    finished = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True)
    if finished.returncode:
        raise SystemExit(f"{' '.join(command)} failed in {checkout}:\n{finished.stderr}")
    return finished.stdout


def measure_bench(checkout: pathlib.Path, effort: Effort) -> Numbers:
    """`jaxgadget bench`: microseconds by game and number of lanes."""
    lanes = [argument for count in effort.lanes for argument in ("--lanes", str(count))]
    games = ["kuhn_poker"] if effort.smoke else []
    options = ["--engine", "jaxgadget", "--seconds", str(effort.seconds), "--json", "-"]
    record = json.loads(execute(checkout, ["-m", "jaxgadget", "bench", *games, *lanes, *options]))
    return {
        f"bench, {row['game']}, {row['lanes']} lanes [µs]": row["us_per_lane_iteration"]
        for row in record["rows"]
    }


def measure_gadgets(checkout: pathlib.Path, effort: Effort) -> Numbers:
    """`gadgets`: microseconds by game, gadget and number of lanes."""
    options = ["--seconds", str(effort.seconds), *(["--smoke"] if effort.smoke else [])]
    rows = json.loads(execute(checkout, [str(checkout / SCRIPTS / "gadgets.py"), *options]))
    return {
        f"{row['gadget']}, {row['game']} {row['cut']}, {row['lanes']} lanes [µs]": row[
            "us_per_lane_iteration"
        ]
        for row in rows
    }


def measure_demo(checkout: pathlib.Path, effort: Effort) -> Numbers:
    """The demo with an empty cache: compiled programs and wall time."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--iterations", "2"] if effort.smoke else []
        command = [
            *(KUHN if effort.smoke else DEMO),
            *options,
            "--plot",
            str(pathlib.Path(folder) / "demo.png"),
        ]
        began = time.perf_counter()
        printed = execute(checkout, [str(checkout / SCRIPTS / "compiling.py"), *command], cache=folder)
        wall = time.perf_counter() - began
    sums = json.loads(printed)
    return {
        "demo, cold: programs": sums["programs"],
        "demo, cold: tracing and lowering [s]": sums["trace_seconds"] + sums["lower_seconds"],
        "demo, cold: compiling [s]": sums["compile_seconds"],
        "demo, cold: wall time [s]": wall,
    }


def measure_kuhn(checkout: pathlib.Path, effort: Effort) -> Numbers:
    """`jaxgadget refine kuhn_poker`: wall times with an empty cache and with a warm one."""
    numbers: Numbers = {}
    with tempfile.TemporaryDirectory() as folder:
        for state in ("cold", "warm"):
            began = time.perf_counter()
            execute(checkout, ["-m", "jaxgadget", *KUHN], cache=folder)
            numbers[f"refine kuhn_poker, {state}: wall time [s]"] = time.perf_counter() - began
    return numbers


def measure_rivers(checkout: pathlib.Path, effort: Effort) -> Numbers:
    """`jaxgadget holdem`: wall time of one and of ten rivers with an empty cache, and time of iterations."""
    numbers: Numbers = {}
    many = 2 if effort.smoke else MANY
    for count in (1,) if effort.smoke else (1, len(BOARDS)):
        with tempfile.TemporaryDirectory() as folder:
            spots = pathlib.Path(folder) / "spots.jsonl"
            lines = [json.dumps({"board": board, "pot": 100, "stack": 300}) for board in BOARDS[:count]]
            spots.write_text("\n".join(lines) + "\n")
            command = ["-m", "jaxgadget", "holdem", "--spots", str(spots), "--iterations"]
            walls: dict[str, float] = {}
            for state, iterations in (("cold", FEW), ("few", FEW), ("many", FEW + many)):
                began = time.perf_counter()
                execute(checkout, [*command, str(iterations)], cache=folder)
                walls[state] = time.perf_counter() - began
        rivers = "one river" if count == 1 else f"{count} rivers"
        numbers[f"{rivers}, cold: wall time [s]"] = walls["cold"]
        numbers[f"{rivers}, {many} iterations [s]"] = walls["many"] - walls["few"]
    return numbers


def measure_grid(checkout: pathlib.Path, effort: Effort) -> Numbers:
    """`grid`: seconds of iterations and wall time by game and cut."""
    code = GRID_CODE.format(
        name="SMOKE_GRID" if effort.smoke else "GRID", iterations=3 if effort.smoke else 200
    )
    numbers: Numbers = {}
    for row in json.loads(execute(checkout, ["-c", code])):
        name = f"grid, {row['game']} {row['cut']}"
        numbers |= {f"{name}: iterations [s]": row["run"], f"{name}: wall time [s]": row["wall"]}
    return numbers


def measure_help(checkout: pathlib.Path, effort: Effort) -> Numbers:
    """`jaxgadget --help`: the fastest of three."""
    walls: list[float] = []
    for _ in range(3):
        began = time.perf_counter()
        execute(checkout, ["-m", "jaxgadget", "--help"])
        walls.append(time.perf_counter() - began)
    return {"--help: wall time [s]": min(walls)}


MEASUREMENTS: dict[str, Callable[[pathlib.Path, Effort], Numbers]] = {
    "bench": measure_bench,
    "gadgets": measure_gadgets,
    "rivers": measure_rivers,
    "grid": measure_grid,
    "demo": measure_demo,
    "kuhn": measure_kuhn,
    "help": measure_help,
}


def compare(
    measure: Callable[[pathlib.Path], Numbers], checkouts: dict[str, pathlib.Path], turns: int
) -> pd.DataFrame:
    """A row for every turn, checkout and measurement.

    Args:
      measure: function from a checkout to numbers.
      checkouts: checkouts by name.
      turns: number of measurements of each.
    """
    rows: list[dict[str, Any]] = []
    for turn in range(turns):
        names = list(checkouts) if turn % 2 == 0 else list(checkouts)[::-1]
        for name in names:
            for what, value in measure(checkouts[name]).items():
                rows.append({"turn": turn, "checkout": name, "measured": what, "value": value})
    return pd.DataFrame(rows)


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Medians over the turns, minimum and maximum in brackets, and the ratio of medians, other ÷ this.

    Smaller is better in every row, so a ratio above 1 means that this checkout is better. `ratios`: the
    minimum and maximum over turns.
    """
    rows: list[dict[str, Any]] = []
    for what, part in frame.groupby("measured", sort=False):
        values = part.pivot(index="turn", columns="checkout", values="value")
        ratios, medians = values["other"] / values["this"], values.median()
        row: dict[str, Any] = {"measured": what}
        for name in ("other", "this"):
            spread = f"[{values[name].min():.4g}, {values[name].max():.4g}]"
            row[name] = f"{medians[name]:.4g} {spread}"
        row["other ÷ this"] = medians["other"] / medians["this"]
        rows.append(row | {"ratios": f"{ratios.min():.3g} to {ratios.max():.3g}"})
    return pd.DataFrame(rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, and prints a table after each measurement."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.performance.commits",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("other", type=pathlib.Path, metavar="FOLDER", help="the other checkout")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of: {', '.join(MEASUREMENTS)}")
    parser.add_argument("--turns", type=int, default=5, help="how often each is measured (5)")
    parser.add_argument(
        "--lanes", type=int, nargs="+", default=[1, 64], help="numbers of lanes of `bench` (1 64)"
    )
    parser.add_argument("--seconds", type=float, default=3.0, help="for each row of a benchmark (3)")
    parser.add_argument("--smoke", action="store_true", help="Kuhn poker only, few iterations, one turn")
    parser.add_argument("--csv", type=pathlib.Path, help="where all turns go")
    asked = parser.parse_args(arguments)
    if not (asked.other / "jaxgadget" / "__init__.py").exists():
        parser.error(f"{asked.other} holds no jaxgadget/__init__.py; expected a checkout of this project")
    unknown = set(asked.names) - set(MEASUREMENTS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; expected some of {', '.join(MEASUREMENTS)}")
    checkouts = {"other": asked.other.resolve(), "this": ROOT}
    turns, seconds = (1, 0.05) if asked.smoke else (asked.turns, asked.seconds)
    effort = Effort(lanes=tuple(asked.lanes), seconds=seconds, smoke=asked.smoke)
    tables: list[pd.DataFrame] = []
    for name in asked.names or MEASUREMENTS:
        measure = functools.partial(MEASUREMENTS[name], effort=effort)
        tables.append(compare(measure, checkouts, turns))
        show(name, summarise(tables[-1]))
    if asked.csv:
        with atomic_writer(asked.csv) as file:
            frame = pd.concat(tables, ignore_index=True)
            file.write(frame.to_csv(index=False, lineterminator="\n").encode())


if __name__ == "__main__":
    main()
