"""Figure 4 of "Solving games using decomposition": CFR-D on Leduc, trunk and subgames solved by CFR.

The trunk is the first betting round; the five subgames below it are solved from scratch in every update of
the trunk and discarded. Finally both players re-solve all subgames from the stored average counterfactual
values. Exploitability is the paper's: the average of both players' losses to a best response, `nash_conv /
2`, in chips per hand.

Updates alternate here, so a trunk iteration solves the subgames twice, once for each player's update; the
paper does not say whether its updates alternate. All points of a line are solved together as lanes, and
continue the previous line if that is the same solve with fewer iterations; they share `seconds`, the time
spent on the trunk for this line alone.

Of the paper's grid (500, 2,000, 8,000 and 32,000 trunk iterations, 100 to 12,800 subgame iterations,
200,000 for re-solving) ours has 500 with 100 to 400 and 2,000 with 100 and 200, re-solved by 20,000;
points below 100 and a line of 125 show where the curves come from. `figure4_paper` is the paper's whole grid.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import shutil
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from experiments.common import tree_of
from experiments.study import Settings
from jaxgadget import Solver, nash_conv
from jaxgadget.subgames.cfr_d import cfr_d
from jaxgadget.util.files import make_folder

NAME = "figure4"
CUT = "before-flop"


Line = tuple[str, int, tuple[int, ...]]
"""Algorithm of trunk, subgames and re-solve alike, trunk iterations, subgame iterations of its points."""


@dataclasses.dataclass(frozen=True)
class Grid:
    """The computation.

    Attributes:
      lines: those of the figure; a line continues the previous one if only the trunk's iterations grow.
      resolve: iterations of the final re-solve.
    """

    lines: tuple[Line, ...]
    resolve: int


SHORT = (25, 50, 100, 200)
LONG = (*SHORT, 400)
OURS = Grid(
    (
        ("cfr", 125, LONG),
        ("cfr", 500, LONG),
        ("cfr", 2000, SHORT),
        ("cfr+", 125, SHORT),
        ("cfr+", 500, SHORT),
    ),
    20_000,
)
SMOKE = Grid((("cfr", 1, (1, 2)), ("cfr", 2, (1, 2))), 5)

KEY = ("algorithm", "trunk_iterations", "subgame_iterations", "resolve_iterations")
COLUMNS = (*KEY, "exploitability", "trunk_gap", "values_kept", "seconds")

COLORS = ("#009E73", "#0072B2", "#D55E00", "#CC79A7", "#E69F00")
STYLES = {"cfr": ("-", "o"), "cfr+": ("--", "s")}


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every point."""
    return compute_grid(settings, NAME, settings.pick(OURS, SMOKE))


def compute_grid(settings: Settings, name: str, grid: Grid) -> pd.DataFrame:
    """The same for a given grid; `name` is the experiment's."""
    keys = [
        {
            "algorithm": algorithm,
            "trunk_iterations": trunk,
            "subgame_iterations": counts,
            "resolve_iterations": grid.resolve,
        }
        for algorithm, trunk, counts in grid.lines
    ]
    rows = settings.gather(name, keys, functools.partial(solve_line, settings))
    return rows.sort_values(list(KEY), ignore_index=True)


def find_checkpoint(folder: pathlib.Path, key: dict[str, Any]) -> pathlib.Path:
    """A line's checkpoint; initially that of the longest line that it continues."""
    make_folder(folder)
    name = "-".join(map(str, (key["algorithm"], *key["subgame_iterations"])))
    trunk = key["trunk_iterations"]
    own = folder / f"{name}-trunk-{trunk}.npz"
    lengths = [int(path.stem.rpartition("-")[2]) for path in folder.glob(f"{name}-trunk-*.npz")]
    shorter = [length for length in lengths if length < trunk]
    if not own.exists() and shorter:
        shutil.copy(folder / f"{name}-trunk-{max(shorter)}.npz", own)
    return own


def solve_line(settings: Settings, key: dict[str, Any]) -> pd.DataFrame:
    """The rows of a line, which resumes from a checkpoint of an interrupted run or of a shorter line."""
    algorithm, counts = key["algorithm"], key["subgame_iterations"]
    solved = cfr_d(
        tree_of("leduc_poker"),
        CUT,
        solver=Solver(
            algorithm=algorithm,
            iterations=key["trunk_iterations"],
            checkpoint=find_checkpoint(settings.work, key),
            progress=False,
        ),
        subgame_iterations=counts,
        subgame_algorithm=algorithm,
    )
    policy = solved.resolve(
        solver=Solver(algorithm=algorithm, iterations=key["resolve_iterations"], progress=False)
    )
    exploitability = nash_conv(policy) / 2
    return pd.DataFrame(
        {
            **key,
            "subgame_iterations": counts,
            "exploitability": exploitability,
            "trunk_gap": solved.trunk_gap,
            "values_kept": solved.num_values,
            "seconds": round(solved.seconds["run"], 1),
        }
    )


def draw(frame: pd.DataFrame) -> Figure:
    """A line for every algorithm and number of trunk iterations; of a point's re-solves the longest."""
    frame = frame.sort_values("resolve_iterations").drop_duplicates(list(KEY[:3]), keep="last")
    figure = Figure(figsize=(7.2, 4.0), layout="constrained")
    ax = figure.add_subplot()
    trunks = sorted(frame["trunk_iterations"].unique())
    for (algorithm, trunk), rows in frame.groupby(["algorithm", "trunk_iterations"]):
        style, marker = STYLES[str(algorithm)]
        rows = rows.sort_values("subgame_iterations")
        ax.plot(
            rows["subgame_iterations"],
            rows["exploitability"],
            color=COLORS[trunks.index(trunk) % len(COLORS)],
            linestyle=style,
            marker=marker,
            markersize=4,
            linewidth=1.3,
            label=f"{str(algorithm).upper()}, {trunk:,} trunk iterations",
        )
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xticks(sorted(frame["subgame_iterations"].unique()))
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.set_minor_locator(NullLocator())
    ax.set_xlabel("Subgame iterations in every update of the trunk", fontsize=9)
    ax.set_ylabel("Exploitability, NashConv / 2\n[chips per hand]", fontsize=9)
    ax.grid(True, color="#DDDDDD", linewidth=0.5)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=8)
    ax.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0)
    return figure


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Exploitability, NashConv / 2, of CFR-D's strategies for Leduc, and the gap of the trunk."""
    return frame[[*KEY, "exploitability", "trunk_gap"]]
