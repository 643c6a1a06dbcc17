"""Iterations until gadget games with priors converge, by method.

Gadget games of four games, seven blueprints, two priors and two ε are solved by every method, all lanes of a
kind in one batch, and evaluated ten times per decade. The result is the first evaluation at which (a) the gap
is within 1e-3 of the payoff range, (b) the value that the refined strategy guarantees is within 1e-5 of the
payoff range of the optimum from linear programs. A lane's games are combined as in its certificate: their sum
for resolving, the largest for max-margin.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from experiments.convergence.cases import CASES, KINDS, Case, Games, build, problem_of, solve_exactly
from experiments.convergence.methods import METHODS, Method, as_numpy, begin, epsilon_at
from experiments.convergence.picture import draw
from experiments.convergence.summary import summarise
from experiments.study import Settings
from jaxgadget.core.certificate import Certificate, Fallback, certify_average
from jaxgadget.core.cfr import State, run, start
from jaxgadget.core.problem import Parts, Problem
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.players import pair_for
from jaxgadget.util.precision import precision

__all__ = ["NAME", "compute", "draw", "summarise"]

NAME = "lanes"
GAP, LOSS = 1e-3, 1e-5
"""The goals (a) and (b), as shares of the payoff range."""

LOOKS = tuple(round(m * 10**e) for e in range(1, 5) for m in (1, 1.25, 1.6, 2, 2.5, 3.15, 4, 5, 6.3, 8))
AT = (500, 5_000)
"""Iterations at which gaps and losses are stored."""

CHEAP = ("leduc", "goofspiel4")
SHORT = 5_000
"""Number of iterations of methods that run only in the cheap games."""

SMOKE = (("resolving", "CFR+ linear"), ("max-margin", "SAPCFR+ quadratic, annealed"))
"""Settings of a smoke test."""

KEY = ("case", "player", "gadget", "family", "method")
OPTIMA = "optima"
"""The name of the data that linear programs give."""

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
    def key(self) -> dict[str, Any]:
        """Columns that identify a piece."""
        return self.batch | {"method": self.method.name, "horizon": self.horizon}

    @property
    def batch(self) -> dict[str, Any]:
        """Columns that identify its games."""
        return dict(zip(KEY, (self.case.name, self.player, self.kind, self.family), strict=False))


def pieces(smoke: bool) -> Iterator[Piece]:
    """All pieces to run, the most important first, then ordered by game so that each game is built once."""
    if smoke:
        case = CASES["kuhn"]
        for kind, name in SMOKE:
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


class Look(NamedTuple):
    """Measurements of a strategy, `[games, lanes]`, in payoff units."""

    value: FloatArray
    gap: FloatArray
    strategy: FloatArray


def look(games: Games, sums: tuple[Parts, Parts]) -> Look:
    """The certificate of an average, in float64."""
    player, count = games.player, games.count
    with precision(np.float64):
        certificate = _certify(games.problem, sums, games.fallback, player=player)
    value, gap = np.asarray(certificate.guaranteed[player]), np.asarray(certificate.gap)
    return Look(value[:count], gap[:count], np.asarray(certificate.strategy[player]))


@functools.partial(jax.jit, static_argnames=("player",))
def _certify(problem: Problem, sums: tuple[Parts, Parts], fallback: Fallback, *, player: int) -> Certificate:
    return certify_average(problem, sums, pair_for(player, fallback, None))


def better(first: Look, second: Look) -> Look:
    """For each game and player the better of two strategies by its guarantee; strategies are not stored."""
    opponents = [-seen.gap - seen.value for seen in (first, second)]
    value = np.maximum(first.value, second.value)
    return Look(value, -value - np.maximum(*opponents), first.strategy)


def looks(games: Games, method: Method, horizon: int) -> Iterator[tuple[int, dict[str, Look]]]:
    """Solves, and yields the measurements of every evaluation: of averages, last strategies, and others."""
    dtype = np.dtype(method.dtype)
    sums: dict[int, tuple[Parts, Parts]] = {}
    with precision(dtype):
        state = begin(games, method) if dtype == np.float64 else None
    now, before, problem = (0.0, 1.0), 0, problem_of(games.games, method.dtype)
    for t in (t for t in LOOKS if t <= horizon):
        raised = epsilon_at(method, before)
        if raised != now:
            problem, now = problem_of(games.with_epsilon(*raised), method.dtype), raised
            if method.restart and state is not None:
                zero = jax.tree.map(jnp.zeros_like, state.strategy_sum)
                state = dataclasses.replace(state, strategy_sum=zero)
        with precision(dtype):
            state = start(problem, method.rule) if state is None else state
            state = run(problem, state, jnp.int32(t), rule=method.rule)
            last = _last(problem, state, method)
        sums[t], before = as_numpy(state.strategy_sum), t
        seen = {"average": look(games, sums[t]), "last": look(games, as_numpy(last))}
        seen["better"] = better(seen["average"], seen["last"])
        if not method.restart:
            half = max((s for s in sums if s <= t / 2), default=None)
            recent = sums[t] if half is None else jax.tree.map(np.subtract, sums[t], sums[half])
            seen["half"] = look(games, recent)
        yield t, seen


def _last(problem: Problem, state: State, method: Method) -> tuple[Parts, Parts]:
    """The current plans, as an average over the next iteration only."""
    copy = jax.tree.map(jnp.copy, state)
    copy = dataclasses.replace(copy, strategy_sum=jax.tree.map(jnp.zeros_like, state.strategy_sum))
    return run(problem, copy, state.iteration + 1, rule=method.rule).strategy_sum


def solve_piece(piece: Piece, games: Games, optima: pd.DataFrame) -> pd.DataFrame:
    """A row for every lane and every evaluated strategy; `optima` are the rows of its games."""
    optimum = optima["optimum"].to_numpy(float).reshape(games.count, -1)
    began, exploited = time.process_time(), dict[int, FloatArray]()
    iterations: list[int] = []
    numbers: dict[str, list[tuple[FloatArray, FloatArray]]] = {}
    for t, seen in looks(games, piece.method, piece.horizon):
        iterations.append(t)
        for what, strategy in seen.items():
            gap, loss = games.total(strategy.gap), games.total(optimum - strategy.value)
            numbers.setdefault(what, []).append((gap, loss))
        if t in AT or t == piece.horizon:
            exploited[t] = games.exploitability(seen["average"].strategy)
    seconds = time.process_time() - began
    tables: list[pd.DataFrame] = []
    for what, rows in numbers.items():
        at = np.array(iterations[-len(rows) :])
        gap, loss = (np.stack(column) for column in zip(*rows, strict=True))
        table = pd.DataFrame(games.lanes, columns=["prior", "epsilon", "blueprint"])
        table = table.assign(**piece.key, strategy=what, seconds=seconds)
        table["gap_iterations"], table["loss_iterations"] = _first(at, gap, GAP), _first(at, loss, LOSS)
        for t in AT:
            looked = np.flatnonzero(at == t)
            for name, x in (("gap", gap), ("loss", loss)):
                table[f"{name}_{t}"] = x[looked[0]] if len(looked) else np.nan
        table["gap_end"], table["loss_end"] = gap[-1], loss[-1]
        last = max(t for t in exploited if t <= SHORT)
        table["exploitability"] = exploited[last] if what == "average" else np.nan
        table["exact_exploitability"] = optima["exact_exploitability"].to_numpy()[: len(table)]
        tables.append(table)
    return in_single(pd.concat(tables, ignore_index=True))


def _first(at: FloatArray, x: FloatArray, goal: float) -> FloatArray:
    """`[lanes]` the first evaluation at which `x[looks, lanes]` is at most the goal, NaN if there is none."""
    reached = x <= goal
    return np.where(reached.any(axis=0), at[reached.argmax(axis=0)], np.nan)


def in_single(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with all numbers except those of `DOUBLE` in single precision."""
    return rows.astype({c: np.float32 for c in rows.select_dtypes(np.float64) if c not in DOUBLE})


def find_optima(piece: Piece) -> pd.DataFrame:
    """A row for every game and lane of a piece's games, solved by linear programs."""
    games = build(piece.case, piece.player, piece.kind, piece.family)
    optimum, exploited = solve_exactly(games)
    count, lanes = optimum.shape
    rows = pd.DataFrame(games.lanes * count, columns=["prior", "epsilon", "blueprint"])
    rows["game"], rows["optimum"] = np.repeat(range(count), lanes), optimum.ravel()
    rows["exact_exploitability"] = np.tile(exploited, count)
    return in_single(rows.assign(**piece.batch))


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every lane of every piece, and strategy; includes exact exploitabilities."""
    work = list(pieces(settings.smoke))
    batches = {tuple(piece.batch.values()): piece for piece in work}
    optima = settings.gather(
        OPTIMA,
        (piece.batch for piece in batches.values()),
        lambda key: find_optima(batches[tuple(key.values())]),
    )
    settings.keep(OPTIMA, optima)
    exact = dict(list(optima.groupby(list(KEY[:-1]), sort=False)))
    by_key = {tuple(piece.key.values()): piece for piece in work}

    def solve(key: dict[str, Any]) -> pd.DataFrame:
        piece = by_key[tuple(key.values())]
        games = build(piece.case, piece.player, piece.kind, piece.family)
        return solve_piece(piece, games, exact[tuple(piece.batch.values())])

    return settings.gather(NAME, (piece.key for piece in work), solve)
