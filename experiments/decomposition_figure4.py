"""Figure 4 of "Solving games using decomposition": CFR-D on Leduc, trunk and subgames solved by CFR.

The trunk is the first betting round; the five subgames after it are solved anew in every update of
the trunk and forgotten. In the end both players re-solve all subgames from the average
counterfactual values that were kept. Exploitability is the paper's: the average of both players'
losses to a best response, `nash_conv / 2`, in chips per hand.

Our updates alternate, so a trunk iteration solves the subgames twice, once for each player's
update; the paper does not say whether its updates alternate. All points of a line run side by side as
lanes and go on from the line before where that is the same solve cut short: they share `seconds`, the
time spent on the trunk for this line alone.

Of the paper's grid (500, 2,000, 8,000 and 32,000 trunk iterations, 100 to 12,800 subgame iterations,
200,000 for re-solving) ours has 500 with 100 to 400 and 2,000 with 100 and 200, re-solved by 20,000;
points below 100 and a line of 125 show where the curves come from. `--paper` computes the rest into the
same table; that takes days.

    python -m experiments.decomposition_figure4 [--paper]
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import tempfile
from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from experiments.common import Settings, Table, read_settings, show
from jaxgadget import HistoryTree, enumerate_game, load, nash_conv
from jaxgadget.refining.cfr_d import cfr_d
from jaxgadget.report.plots import save_picture
from jaxgadget.util.progress import progress_bar

NAME = "decomposition_figure4"
CUT = "before-flop"


Line = tuple[str, int, tuple[int, ...]]
"""Algorithm of trunk, subgames and re-solve alike, trunk iterations, subgame iterations of its points."""


@dataclasses.dataclass(frozen=True)
class Grid:
    """What is computed.

    Attributes:
      lines: those of the figure; one goes on from the one before it if only the trunk's iterations grow.
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
PAPERS = Grid(
    tuple(("cfr", 500 * 4**k, tuple(100 * 2**j for j in range(8))) for k in range(4)),
    200_000,
)
QUICK = Grid((("cfr", 1, (1, 2)), ("cfr", 2, (1, 2))), 5)

KEY = ("algorithm", "trunk_iterations", "subgame_iterations", "resolve_iterations")
COLUMNS = (*KEY, "exploitability", "trunk_gap", "values_kept", "seconds")

COLORS = ("#009E73", "#0072B2", "#D55E00", "#CC79A7", "#E69F00")
STYLES = {"cfr": ("-", "o"), "cfr+": ("--", "s")}


def compute(tree: HistoryTree, line: Line, resolve: int, checkpoint: pathlib.Path) -> list[dict[str, Any]]:
    """The rows of a line, going on from a checkpoint."""
    algorithm, trunk, counts = line
    found = cfr_d(
        tree,
        CUT,
        iterations=trunk,
        subgame_iterations=counts,
        algorithm=algorithm,
        subgame_algorithm=algorithm,
        checkpoint=checkpoint,
        progress=False,
    )
    policy = found.resolve(algorithm=algorithm, iterations=resolve, progress=False)
    exploitability = nash_conv(policy) / 2
    return [
        {
            "algorithm": algorithm,
            "trunk_iterations": trunk,
            "subgame_iterations": count,
            "resolve_iterations": resolve,
            "exploitability": exploitability[lane],
            "trunk_gap": found.trunk_gap[lane],
            "values_kept": found.num_values,
            "seconds": round(found.seconds["run"], 1),
        }
        for lane, count in enumerate(counts)
    ]


def run(settings: Settings, grid: Grid) -> pd.DataFrame:
    """Computes what is missing, draws the picture and returns the table."""
    table = Table(settings.data(NAME), COLUMNS, KEY)
    work = [trunk * max(counts) for _, trunk, counts in grid.lines]
    with progress_bar("CFR-D", sum(work)) as report, tempfile.TemporaryDirectory() as folder:
        tree = enumerate_game(load("leduc_poker"))
        for number, line in enumerate(grid.lines):
            algorithm, trunk, counts = line
            if not all(
                table.has(**dict(zip(KEY, (algorithm, trunk, c, grid.resolve), strict=True))) for c in counts
            ):
                name = "-".join([algorithm, *map(str, counts)])
                table.add(compute(tree, line, grid.resolve, pathlib.Path(folder) / f"{name}.npz"))
            report(sum(work[: number + 1]))
    frame = table.frame
    draw(frame, settings.picture(NAME))
    return frame


def draw(frame: pd.DataFrame, path: pathlib.Path) -> None:
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
    save_picture(figure, path)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the experiment."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--paper", action="store_true")
    found, others = parser.parse_known_args(arguments)
    settings = read_settings(__doc__ or "", others)
    grid = PAPERS if found.paper else QUICK if settings.quick else OURS
    frame = run(settings, grid)
    show("CFR-D on Leduc", frame[[*KEY, "exploitability", "trunk_gap"]])


if __name__ == "__main__":
    main()
