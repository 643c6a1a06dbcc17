"""The loops as XLA compiles them for a GPU: `python -m experiments.performance.model`.

Needs no GPU, but the extra `gpu-check`, and JAX on a CPU (`JAX_PLATFORMS=cpu`). Writes
`experiments/performance/DEVICE/model.csv`: for every program of `PROGRAMS` what an iteration launches and
moves, and the least time of a model, see `jaxgadget.bench.inspect`. The column `measured_us` has the times
that `programs` measured on that device.
"""

from __future__ import annotations

import argparse
import functools
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pandas as pd

import jaxgadget as jg
from experiments.holdem import flops
from experiments.study import show
from jaxgadget.bench.bench import bench
from jaxgadget.bench.defaults import DEFAULT_GAMES
from jaxgadget.bench.inspect import DEVICES, CompiledProgram, inspect
from jaxgadget.core.solver import Solver
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.util.files import atomic_writer

LEDUC, LIARS_DICE, GOOFSPIEL = DEFAULT_GAMES
LANES = {LEDUC: (1, 64, 1024, 65_536), LIARS_DICE: (1, 1024, 65_536), GOOFSPIEL: (1, 1024, 16_384, 65_536)}
BOARD = "Td9d6hQc2s"
NUM_BOARDS = 64
MENU = jg.BetMenu(bets=(0.5, 1.0), raises=(1.0,), cap=3)
OOP = "66+,A8s+,A5s-A4s,AJo+,K9s+,KQo,QTs+,JTs"
IP = "QQ-22,AQs-A2s,ATo+,K5s+,KJo+,Q8s+,J8s+:0.5"
SOLVER = Solver(iterations=1, dtype="float32", progress=False)
LOOP = "run"


def whole_game(game: str, lanes: int) -> None:
    """CFR+ on a whole game."""
    bench(game, engines=("jaxgadget",), lanes=(lanes,), progress=False)


def refined() -> Callable[[Solver], Any]:
    """Leduc's flop: 45 blueprints and three gadgets in one batch."""
    tree = jg.enumerate_game(jg.load(LEDUC))
    blueprints = [jg.Policy.uniform(tree)] * 45
    gadgets = (jg.Unsafe(), jg.Resolving(), jg.MaxMargin())
    return lambda solver: jg.refine(
        tree, "flop", blueprints, gadgets, value=(-0.0856, -0.0856), solver=solver
    )


def make_spots(count: int) -> list[jg.Spot]:
    """Rivers on different boards."""
    deck = [rank + suit for rank in "23456789TJQKA" for suit in "cdhs"]
    draw = np.random.default_rng(0)
    boards = [BOARD, *("".join(draw.permutation(deck)[:5]) for _ in range(count - 1))]
    return [jg.Spot(board=board, oop=OOP, ip=IP, pot=200, stack=900, menus=MENU) for board in boards]


def rivers(count: int) -> Callable[[Solver], Any]:
    """Rivers on different boards."""
    spots = make_spots(count)
    return lambda solver: jg.solve_spots(spots, solver=solver)


def resolved(gadget: Gadget) -> Callable[[Solver], Any]:
    """A river re-solved with a gadget."""
    spots = make_spots(1)
    blueprints = jg.solve_spots(spots, solver=SOLVER)
    return lambda solver: jg.refine_spots(spots, [gadget], blueprints=blueprints, solver=solver)


def flop() -> Callable[[Solver], Any]:
    """A flop with all its turns and rivers."""
    spot = flops.flop("two-tone", "narrow", smoke=False)
    return lambda solver: jg.solve_spots([spot], solver=solver)


CALLS: dict[str, Callable[[], Callable[[Solver], Any]]] = {
    "refine leduc_poker, flop": refined,
    "a river": functools.partial(rivers, 1),
    f"{NUM_BOARDS} rivers": functools.partial(rivers, NUM_BOARDS),
    "a river re-solved, resolving": functools.partial(resolved, jg.Resolving()),
    "a river re-solved, max-margin": functools.partial(resolved, jg.MaxMargin()),
    "a flop, narrow ranges": flop,
}
"""Functions that prepare a call, which is then a function of the solver, by name."""


def name_of(game: str, lanes: int) -> str:
    """Name of the program of a whole game."""
    return f"{game}, {lanes} lanes"


PROGRAMS: dict[str, Callable[[], Any]] = {
    **{
        name_of(game, lanes): functools.partial(whole_game, game, lanes)
        for game, counts in LANES.items()
        for lanes in counts
    },
    **{name: lambda prepare=prepare: prepare()(SOLVER) for name, prepare in CALLS.items()},
}
"""Calls by name. Of a call's loops in float32, the one that moves most bytes is used."""


def loop_of(name: str, device: str) -> CompiledProgram:
    """The loop of one of `PROGRAMS`, compiled for a device."""
    loops = inspect(PROGRAMS[name], device=device, only=(LOOP,), progress=False).programs
    return max((each for each in loops if each.dtype == "float32"), key=lambda each: each.moved_bytes)


def to_row(name: str, loop: CompiledProgram) -> dict[str, Any]:
    """A row of the table."""
    return {
        "program": name,
        "lanes": loop.lanes,
        "launches": int(loop.launches),
        "megabytes": round(loop.moved_bytes / 1e6, 3),
        "floor_us": round(loop.floor_seconds * 1e6, 1),
        "bound": loop.bound,
        "temporary_mb": round(loop.temporary_bytes / 1e6, 3),
        "jax": jax.__version__,
    }


def stored(device: str) -> pathlib.Path:
    """The file of a device's table."""
    return pathlib.Path(__file__).parent / device / "model.csv"


def with_measured(frame: pd.DataFrame, device: str) -> pd.DataFrame:
    """The table with a column of measured microseconds, empty where there are none."""
    path = stored(device).parent / "data" / "programs.csv"
    if not path.exists():
        return frame.assign(measured_us=np.nan)
    measured = pd.read_csv(path).set_index("program")["us"]
    return frame.assign(measured_us=frame["program"].map(measured).round(1))


def main() -> None:
    """Writes and prints the table of a device."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=DEVICES, default="h200", help="default: %(default)s")
    device = parser.parse_args().device
    path = stored(device)
    frame = with_measured(pd.DataFrame([to_row(name, loop_of(name, device)) for name in PROGRAMS]), device)
    path.parent.mkdir(exist_ok=True)
    with atomic_writer(path) as file:
        file.write(frame.to_csv(index=False).encode())
    show(f"model of {device}", frame)


if __name__ == "__main__":
    main()
