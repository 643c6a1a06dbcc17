"""How many iterations gadget games with priors need, by method.

Gadget games of four games, seven blueprints, two priors and two ε are solved by every method, all
lanes of a kind in one batch, and looked at ten times a decade. Counted is the first look at which
(a) the gap is within 1e-3 of the payoff range, (b) the value that the refined strategy guarantees is
within 1e-5 of the payoff range of the optimum, which linear programs give. A lane's games are added
up as its certificate adds them: their sum for resolving, the largest for max-margin.

    python -m experiments.convergence.study

Pieces (game, player, gadget, priors, method) that are in the data already are not run again.
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import pathlib
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from experiments.common import QUICK
from experiments.convergence.cases import (
    CASES,
    KINDS,
    Case,
    Games,
    build,
    solve_exactly,
)
from experiments.convergence.methods import METHODS, Method, as_numpy, begin, epsilon_at
from experiments.convergence.picture import draw
from experiments.convergence.summary import summarise
from jaxgadget.games.game import FloatArray
from jaxgadget.kernels.cfr import State, run, start
from jaxgadget.kernels.problem import Parts, Problem
from jaxgadget.solving.drive import precision
from jaxgadget.solving.forest import cast, conclude, in_precision
from jaxgadget.util.files import atomic_writer, make_folder
from jaxgadget.util.progress import progress_bar

HERE = pathlib.Path(__file__).parent
GAP, LOSS = 1e-3, 1e-5
"""The goals (a) and (b), as shares of the payoff range."""

LOOKS = tuple(round(m * 10**e) for e in range(1, 5) for m in (1, 1.25, 1.6, 2, 2.5, 3.15, 4, 5, 6.3, 8))
AT = (500, 5_000)
"""Iterations at which gaps and losses are kept."""

CHEAP = ("leduc", "goofspiel4")
SHORT = 5_000
"""Methods that are not for everywhere run in the cheap games, so long."""

QUICKLY = (("resolving", "CFR+ linear"), ("max-margin", "SAPCFR+ quadratic, annealed"))
"""What `--quick` runs."""

KEY = ("case", "player", "gadget", "family", "method")


DOUBLE = ("epsilon", "optimum")
"""Columns that are not rounded to single precision."""


class Piece(NamedTuple):
    """A batch: one kind of gadget game of a case, solved by one method."""

    case: Case
    player: int
    kind: str
    family: str
    method: Method
    horizon: int

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells pieces apart."""
        return self.case.name, self.player, self.kind, self.family, self.method.name


def pieces(quick: bool) -> Iterator[Piece]:
    """Everything to run: what matters most first, then game by game so that games are built once."""
    if quick:
        case = CASES["kuhn"]
        for kind, name in QUICKLY:
            yield Piece(case, 0, kind, "priors", METHODS[name], case.horizon)
        return
    main = [m for m in METHODS.values() if m.everywhere]
    rest = [m for m in METHODS.values() if not m.everywhere]
    for case in (c for c in CASES.values() if c.name != "kuhn"):
        for kind in KINDS:
            yield from (Piece(case, 0, kind, "priors", m, case.horizon) for m in main)
    for name in CHEAP:
        for kind in KINDS:
            yield from (Piece(CASES[name], 0, kind, "priors", m, SHORT) for m in rest)
            yield from (Piece(CASES[name], 1, kind, "priors", m, SHORT) for m in main[:3])
            yield from (Piece(CASES[name], 0, kind, "scales", m, SHORT) for m in main[:3:2])


class Found(NamedTuple):
    """What a look at a strategy shows, `[games, lanes]`, in units of payoff."""

    value: FloatArray
    gap: FloatArray
    strategy: FloatArray


def look(games: Games, sums: tuple[Parts, Parts]) -> Found:
    """The certificate of an average, in float64."""
    gadget = type(games.gadgets[0])
    with precision(np.float64):
        blueprint = games.prepared.strategy[games.player].body
        found = conclude(games.games, cast(sums, np.float64), blueprint, kind=gadget)
    value, gap = (np.asarray(x)[: games.count] for x in (found.value, found.gap))
    return Found(value, gap, np.asarray(found.strategy))


def better(one: Found, other: Found) -> Found:
    """Game by game and player by player the strategy that guarantees more; no strategy is kept."""
    theirs = [-found.gap - found.value for found in (one, other)]
    value = np.maximum(one.value, other.value)
    return Found(value, -value - np.maximum(*theirs), one.strategy)


def looks(games: Games, method: Method, horizon: int) -> Iterator[tuple[int, dict[str, Found]]]:
    """Solves, and yields what can be seen at every look: of the average, the last strategy, and more."""
    dtype = np.dtype(method.dtype)
    sums: dict[int, tuple[Parts, Parts]] = {}
    with precision(dtype):
        state = begin(games, method) if dtype == np.float64 else None
    now, before, problem = (0.0, 1.0), 0, _cast(games.games.problem, method.dtype)
    for t in (t for t in LOOKS if t <= horizon):
        raised = epsilon_at(method, before)
        if raised != now:
            problem, now = _cast(games.with_epsilon(*raised).problem, method.dtype), raised
            if method.restart and state is not None:
                zero = jax.tree.map(jnp.zeros_like, state.strategy_sum)
                state = dataclasses.replace(state, strategy_sum=zero)
        with precision(dtype):
            state = start(problem, method.rule) if state is None else state
            state = run(problem, state, jnp.int32(t), rule=method.rule)
            last = _last(problem, state, method)
        sums[t], before = as_numpy(state.strategy_sum), t
        found = {"average": look(games, sums[t]), "last": look(games, as_numpy(last))}
        found["better"] = better(found["average"], found["last"])
        if not method.restart:
            half = max((s for s in sums if s <= t / 2), default=None)
            recent = sums[t] if half is None else jax.tree.map(np.subtract, sums[t], sums[half])
            found["half"] = look(games, recent)
        yield t, found


def _cast(problem: Problem, dtype: str) -> Problem:
    if dtype == "float64":
        return problem
    with precision(np.float64):
        return in_precision(problem, np.dtype(dtype))


def _last(problem: Problem, state: State, method: Method) -> tuple[Parts, Parts]:
    """The current plans: an average over the next iteration alone."""
    copy = jax.tree.map(jnp.copy, state)
    copy = dataclasses.replace(copy, strategy_sum=jax.tree.map(jnp.zeros_like, state.strategy_sum))
    return run(problem, copy, state.iteration + 1, rule=method.rule).strategy_sum


def solve_piece(piece: Piece, games: Games, optimum: FloatArray) -> pd.DataFrame:
    """A row for every lane and every strategy that was looked at."""
    began, seen, exploited = time.process_time(), {}, {}
    for t, found in looks(games, piece.method, piece.horizon):
        for what, one in found.items():
            seen.setdefault(what, []).append((t, games.total(one.gap), games.total(optimum - one.value)))
        if t in AT or t == piece.horizon:
            exploited[t] = games.exploitability(found["average"].strategy)
    seconds = time.process_time() - began
    tables: list[pd.DataFrame] = []
    for what, rows in seen.items():
        at = np.array([t for t, _, _ in rows])
        gap, loss = (np.stack([row[k] for row in rows]) for k in (1, 2))
        table = pd.DataFrame(games.lanes, columns=["prior", "epsilon", "blueprint"])
        for column, entry in zip(KEY, piece.key, strict=True):
            table[column] = entry
        table["strategy"], table["horizon"], table["seconds"] = what, piece.horizon, seconds
        table["gap_iterations"], table["loss_iterations"] = _first(at, gap, GAP), _first(at, loss, LOSS)
        for t in AT:
            here = np.flatnonzero(at == t)
            for name, x in (("gap", gap), ("loss", loss)):
                table[f"{name}_{t}"] = x[here[0]] if len(here) else np.nan
        table["gap_end"], table["loss_end"] = gap[-1], loss[-1]
        last = max(t for t in exploited if t <= SHORT)
        table["exploitability"] = exploited[last] if what == "average" else np.nan
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def _first(at: FloatArray, x: FloatArray, goal: float) -> FloatArray:
    """`[lanes]` the first look at which `x[looks, lanes]` is at most the goal, NaN if at none."""
    reached = x <= goal
    return np.where(reached.any(axis=0), at[reached.argmax(axis=0)], np.nan)


class Store:
    """A table in a Parquet file, written whole after every piece."""

    def __init__(self, path: pathlib.Path):
        """Reads the file if it exists."""
        self.path = path
        self.frame = pd.read_parquet(path) if path.exists() else pd.DataFrame()
        key = [column for column in KEY if column in self.frame.columns]
        self.keys = set(self.frame[key].itertuples(index=False, name=None))

    def add(self, key: tuple[Any, ...], rows: pd.DataFrame) -> None:
        """Takes a piece in and writes the file, atomically."""
        single = {c: np.float32 for c in rows.select_dtypes(np.float64) if c not in DOUBLE}
        self.frame = pd.concat([self.frame, rows.astype(single)], ignore_index=True)
        self.keys.add(key)
        content = io.BytesIO()
        self.frame.to_parquet(content, index=False, compression="zstd")
        with atomic_writer(self.path) as file:
            file.write(content.getvalue())


def find_optimum(store: Store, games: Games, family: str) -> FloatArray:
    """`[games, lanes]` the optima, from the file or by linear programs."""
    key = games.case.name, games.player, games.kind, family
    if key not in store.keys:
        optimum, exploited = solve_exactly(games)
        count, lanes = optimum.shape
        rows = pd.DataFrame(games.lanes * count, columns=["prior", "epsilon", "blueprint"])
        rows["game"], rows["optimum"] = np.repeat(range(count), lanes), optimum.ravel()
        rows["exact_exploitability"] = np.tile(exploited, count)
        for column, entry in zip(KEY, key, strict=False):
            rows[column] = entry
        store.add(key, rows)
    mine = (store.frame[list(KEY[:-1])] == list(key)).all(axis=1)
    return store.frame.loc[mine, "optimum"].to_numpy(float).reshape(games.count, -1)


def solve_all(folder: pathlib.Path, quick: bool) -> pd.DataFrame:
    """Runs what is missing and returns the table of lanes, exact exploitabilities included."""
    make_folder(folder / "data")
    lanes, optima = Store(folder / "data" / "lanes.parquet"), Store(folder / "data" / "optima.parquet")
    left = [p for p in pieces(quick) if p.key not in lanes.keys or p.key[:-1] not in optima.keys]
    games, built = None, None
    with progress_bar("solving", len(left)) as report:
        for number, piece in enumerate(left):
            if games is None or built != piece.key[:-1]:
                games, built = build(piece.case, piece.player, piece.kind, piece.family), piece.key[:-1]
            optimum = find_optimum(optima, games, piece.family)
            if piece.key not in lanes.keys:
                lanes.add(piece.key, solve_piece(piece, games, optimum))
            report(number + 1)
    lane = [*KEY[:-1], "prior", "epsilon", "blueprint"]
    return lanes.frame.merge(
        optima.frame.groupby(lane)["exact_exploitability"].first().reset_index(), on=lane
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the study, draws the pictures, writes and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="Kuhn poker only, into build/experiments")
    parser.add_argument("--folder", type=pathlib.Path, help="where data/ and the picture go")
    asked = parser.parse_args(arguments)
    folder = asked.folder or (QUICK / "convergence" if asked.quick else HERE)
    make_folder(folder)
    frame = solve_all(folder, asked.quick)
    draw(frame, folder)
    text = summarise(frame)
    with atomic_writer(folder / "tables.md") as file:
        file.write(f"# Tables of the convergence study\n\n{text}\n".encode())
    print(text)


if __name__ == "__main__":
    main()
