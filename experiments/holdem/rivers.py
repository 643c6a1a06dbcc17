"""A thousand random rivers with full ranges, solved to 0.5 % of the pot: time, memory, and every gap.

Solved in float32, certified in float64, batch by batch.
"""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.common import make_axes, peak_bytes
from experiments.holdem.common import MENUS, random_board, river
from experiments.study import Settings
from jaxgadget import Solver, solve_spots
from jaxgadget.core.devices import HOME
from jaxgadget.holdem.solve import most_spots

NAME = "rivers"
NUMBER, SMOKE_NUMBER = 1000, 2
TARGET, ITERATIONS, CHECK_EVERY = 0.005, 2000, 25
"""Exploitability in pots; half of the gap."""


def compute(settings: Settings) -> pd.DataFrame:
    """A row per river."""
    return solve_rivers(NAME, settings.pick(NUMBER, SMOKE_NUMBER), settings)


def solve_rivers(name: str, number: int, settings: Settings) -> pd.DataFrame:
    """A number of rivers, in batches: an interrupted run resumes with the next one."""
    size = most_spots(HOME)
    pieces = [{"first": first, "last": min(first + size, number)} for first in range(0, number, size)]
    return settings.gather(name, pieces, lambda key: _solve_piece(**key))


def _solve_piece(first: int, last: int) -> pd.DataFrame:
    """A batch: `seconds` include compilation in the first one; memory is the current peak."""
    began, before = time.perf_counter(), peak_bytes()
    seeds = list(range(first, last))
    spots = [river(board=random_board(seed), menus=MENUS["12 nodes"]) for seed in seeds]
    solutions = solve_spots(
        spots,
        solver=Solver(
            iterations=ITERATIONS, target_gap=f"{200 * TARGET:g}%", check_every=CHECK_EVERY, progress=False
        ),
    )
    return pd.DataFrame(
        {
            "first": first,
            "last": last,
            "seed": seeds,
            "board": [spot.board for spot in spots],
            "ev": [solution.ev[0] / solution.spot.pot for solution in solutions],
            "exploitability": [solution.exploitability / solution.spot.pot for solution in solutions],
            "iterations": [solution.iterations for solution in solutions],
            "seconds": time.perf_counter() - began,
            "bytes_before": before,
            "peak_bytes": peak_bytes(),
        }
    )


def summarise(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """EVs of the first player and exploitabilities, half of NashConv, as shares of the pot.

    `seconds` cover all batches, `a river` excludes the first, which compiles; memory is the process's peak.
    """
    quantiles = [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1]
    columns = ["ev", "exploitability", "iterations"]
    table = frame[columns].quantile(quantiles).rename_axis("quantile").reset_index()
    batches = frame.groupby("first").agg(
        rivers=("seed", "size"), seconds=("seconds", "first"), peak=("peak_bytes", "first")
    )
    later = batches.iloc[1:] if len(batches) > 1 else batches
    whole = {
        "rivers": len(frame),
        "solved": int((frame["exploitability"] <= TARGET).sum()),
        "seconds": float(batches["seconds"].sum()),
        "milliseconds a river": 1e3 * float(later["seconds"].sum() / later["rivers"].sum()),
        "gigabytes at first": float(frame["bytes_before"].min()) / 1e9,
        "gigabytes at most": float(batches["peak"].max()) / 1e9,
    }
    return {"rivers": table, "time and memory": pd.DataFrame([whole])}


def draw(frame: pd.DataFrame) -> Figure:
    """Exploitabilities and EVs of the rivers."""
    figure, (left, right) = make_axes(2, 2, (4.2, 3.2))
    shares = np.sort(100 * frame["exploitability"].to_numpy())
    left.plot(shares, np.arange(1, len(shares) + 1) / len(shares), color="#0072B2")
    left.axvline(100 * TARGET, color="#D55E00", linestyle="--", label="asked for")
    left.set(xlabel="exploitability, % of the pot", ylabel="share of the rivers", xlim=(0, None))
    left.legend(frameon=False, fontsize=8)
    right.hist(100 * frame["ev"], bins=30, color="#0072B2")
    right.set(xlabel="first player's EV, % of the pot", ylabel="rivers")
    return figure
