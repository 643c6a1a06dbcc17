"""Flops solved to 0.5 % of the pot: time, memory and exploitability, in float32 and in 16 bits.

Each is solved in a process of its own. The largest is killed once, and resumes from its checkpoint.
"""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
import time
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from experiments.common import make_axes, peak_bytes
from experiments.holdem.common import NARROW, RANDOM
from experiments.study import Settings
from jaxgadget import BetMenu, Solver, Spot, solve_spots
from jaxgadget.holdem.runouts import find_merged, lay_out_streets

NAME = "flops"
TARGET, ITERATIONS = 0.005, 2000
"""Exploitability in pots; half of the gap."""

MENU = BetMenu(bets="50%", raises="100%", cap=2)
"""One size, and one raise."""

BOARDS = {"rainbow": "Ks8h3d", "two-tone": "Td9d6h", "monotone": "Jh7h4h"}
RANGES = {"full": RANDOM, "narrow": NARROW}

SMOKE_DEAD = "".join(rank + suit for rank in "2345QA" for suit in "cdhs") + "8c8dTcThTs9c9h6c6d7c7d7s"
"""Dead cards of a smoke test."""

WAIT_SECONDS = 1.0
"""Seconds between two looks for a checkpoint."""

CHILD = "import sys; from experiments.holdem import flops; flops.solve_here(*sys.argv[1:])"
"""Program of the process that solves a flop."""


def flop(board: str, ranges: str, *, smoke: bool) -> Spot:
    """The spot of a row: a pot of 100 and stacks of 600."""
    oop, ip = RANGES[ranges]
    return Spot(
        board=BOARDS[board], oop=oop, ip=ip, pot=100, stack=600, menus=MENU, dead=SMOKE_DEAD if smoke else ""
    )


def compute(settings: Settings) -> pd.DataFrame:
    """A row for each flop and storage; `killed` is True for the one that is killed once."""
    every = [
        {"board": "two-tone", "ranges": "full", "compressed": False, "killed": True},
        {"board": "two-tone", "ranges": "full", "compressed": True, "killed": False},
        {"board": "rainbow", "ranges": "narrow", "compressed": False, "killed": False},
        {"board": "two-tone", "ranges": "narrow", "compressed": False, "killed": False},
        {"board": "monotone", "ranges": "narrow", "compressed": False, "killed": False},
    ]
    rows = settings.pick(every, [{**every[1], "ranges": "narrow"}])
    return settings.gather(NAME, rows, lambda row: _solve(settings, **row))


def _solve(settings: Settings, board: str, ranges: str, *, compressed: bool, killed: bool) -> pd.DataFrame:
    """Solves a flop in another process."""
    folder = settings.work / f"{NAME}-{board}-{ranges}-{compressed}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    target = folder / "row.parquet"
    words = [board, ranges, str(int(compressed)), str(int(settings.smoke)), str(folder)]
    resumed, began = 0, time.perf_counter()
    if killed:
        with subprocess.Popen([sys.executable, "-c", CHILD, *words]) as child:
            while child.poll() is None and not any(folder.glob("checkpoint/*.states/*.npz")):
                time.sleep(WAIT_SECONDS)
            child.kill()
        resumed = 1
    subprocess.run([sys.executable, "-c", CHILD, *words], check=True)
    row = pd.read_parquet(target)
    shutil.rmtree(folder)
    return row.assign(killed=resumed, seconds=time.perf_counter() - began)


def solve_here(board: str, ranges: str, compressed: str, smoke: str, folder: str) -> None:
    """Solves a flop in this process, and writes its row to `row.parquet` in the folder."""
    began, before = time.perf_counter(), peak_bytes()
    spot = flop(board, ranges, smoke=smoke == "1")
    runouts = lay_out_streets(spot, find_merged(spot, suit_isomorphism=None))
    (solution,) = solve_spots(
        [spot],
        compressed=compressed == "1",
        solver=Solver(
            iterations=ITERATIONS,
            target_gap=f"{200 * TARGET:g}%",
            checkpoint=pathlib.Path(folder) / "checkpoint",
            progress=True,
        ),
    )
    row: dict[str, Any] = {
        "board": board,
        "ranges": ranges,
        "compressed": compressed == "1",
        "hands": len(runouts.hands),
        "turns": len(runouts.lanes[1]),
        "rivers": len(runouts.lanes[2]),
        "state_bytes": runouts.num_bytes("int16" if compressed == "1" else "float32"),
        "iterations": solution.iterations,
        "ev": solution.ev[0] / spot.pot,
        "exploitability": solution.exploitability / spot.pot,
        "check": solution.frequencies()["check"],
        "last_seconds": time.perf_counter() - began,
        "bytes_before": before,
        "peak_bytes": peak_bytes(),
    }
    pd.DataFrame([row]).to_parquet(pathlib.Path(folder) / "row.parquet")


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """EVs of the first player and exploitabilities, half of NashConv, in percent of the pot.

    `seconds` include compilation, checks of the gap, the certificate and, for the flop that was killed, both
    processes. `GB` are the peak of the process, `state` those of regrets and averages.
    """
    return pd.DataFrame(
        {
            "flop": frame["board"],
            "ranges": frame["ranges"],
            "bits": [16 if compressed else 32 for compressed in frame["compressed"]],
            "hands": frame["hands"],
            "turns": frame["turns"],
            "rivers": frame["rivers"],
            "state": frame["state_bytes"] / 1e9,
            "GB": frame["peak_bytes"] / 1e9,
            "iterations": frame["iterations"],
            "seconds": frame["seconds"],
            "killed": frame["killed"],
            "ev": 100 * frame["ev"],
            "check": frame["check"],
            "exploitability": 100 * frame["exploitability"],
        }
    )


def draw(frame: pd.DataFrame) -> Figure:
    """Seconds and memory of every flop."""
    figure, (left, right) = make_axes(2, 2, (4.2, 3.2))
    names = [
        f"{row.board}, {row.ranges}, {16 if row.compressed else 32} bits"
        for row in frame.itertuples(index=False)
    ]
    left.barh(names, frame["seconds"] / 60, color="#0072B2")
    left.set(xlabel="minutes")
    right.barh(names, frame["peak_bytes"] / 1e9, color="#009E73")
    right.set(xlabel="peak memory, GB", yticklabels=[])
    for axes in (left, right):
        axes.invert_yaxis()
    return figure
