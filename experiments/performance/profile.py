"""The parts of an iteration: counted operations and bytes, and measured times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from experiments.performance.machine import best_seconds
from experiments.study import Settings
from jaxgadget import enumerate_game, load
from jaxgadget.bench.bench import DEFAULT_GAMES
from jaxgadget.core.cfr import State, start, step
from jaxgadget.core.problem import Problem, follow, values_up, whole_game
from jaxgadget.core.regret import find_rule, match
from jaxgadget.core.response import payoff_reaches
from jaxgadget.tree.whole import sequence_form

NAME = "profile"
RULE = find_rule("cfr+")

Part = Callable[[Problem, State], Any]


def gradients(problem: Problem, state: State) -> Any:
    """Gradients of both players' sequences."""
    reach = payoff_reaches(problem, state.plan)
    return [problem.payoff.gradient(player, reach, None)[0] for player in (0, 1)]


def values(problem: Problem, state: State) -> Any:
    """Action and infoset values from the bottom up; regrets serve as the gradient."""
    return [
        values_up(side, terms, plan.body, strategy)[:2]
        for side, terms, plan, strategy in zip(
            problem.sides, problem.terms, state.plan, state.strategy, strict=True
        )
    ]


def regrets(problem: Problem, state: State) -> Any:
    """Sums of regrets; strategies serve as action values."""
    return [
        RULE.learn(
            side.body,
            terms.body,
            total.body,
            (strategy.body, strategy.body[: side.body.num_infosets]),
            jnp.ones((), problem.dtype),
        )
        for side, terms, total, strategy in zip(
            problem.sides, problem.terms, state.rule, state.strategy, strict=True
        )
    ]


def matching(problem: Problem, state: State) -> Any:
    """Strategies from regrets."""
    return [
        match(side.body, total.body, tolerance.body, terms.body)
        for side, terms, total, tolerance in zip(
            problem.sides, problem.terms, state.rule, problem.regret_tolerance, strict=True
        )
    ]


def reaches(problem: Problem, state: State) -> Any:
    """Plans from strategies, from the top down."""
    return [
        follow(side, terms, strategy).body
        for side, terms, strategy in zip(problem.sides, problem.terms, state.strategy, strict=True)
    ]


def averaging(problem: Problem, state: State) -> Any:
    """Sums of plans."""
    weight = jnp.full((), 2.0, problem.dtype)
    return [s.body + weight * p.body for s, p in zip(state.strategy_sum, state.plan, strict=True)]


PARTS: dict[str, Part] = {
    "gradients": gradients,
    "values": values,
    "regrets": regrets,
    "matching": matching,
    "reaches": reaches,
    "averaging": averaging,
}


def compute(settings: Settings) -> pd.DataFrame:
    """The parts of an iteration of the three games."""
    if settings.smoke:
        return profile("kuhn_poker", (4,), 0.01)
    lanes = (1, 64) if jax.default_backend() == "cpu" else (1, 1024, 65536)
    return pd.concat([profile(game, lanes, 1.0) for game in DEFAULT_GAMES], ignore_index=True)


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Microseconds, operations and bytes, all per lane and iteration; see `profile`."""
    return frame


def profile(game: str, lanes: Sequence[int], seconds: float) -> pd.DataFrame:
    """A row for every part of an iteration and for the whole iteration.

    Args:
      game: its name.
      lanes: number of copies.
      seconds: duration of each measurement.

    Returns:
      Microseconds, floating-point operations, and bytes, all per lane and iteration: `bytes` is what XLA
      says that all operations read and write, `bytes_once` what they would if every argument were read
      and every result written once.
    """
    form = sequence_form(enumerate_game(load(game)))
    rows: list[dict[str, Any]] = []
    for count in lanes:
        problem = whole_game(form.treeplex, form.payoff, num_lanes=count, dtype=np.float32)
        state = start(problem, RULE)
        for name, part in PARTS.items():
            rows.append({"game": game, "lanes": count, "part": name} | _row(part, problem, state, seconds))
        whole = _row(lambda p, s: step(p, RULE, s), problem, state, seconds)
        rows.append({"game": game, "lanes": count, "part": "iteration"} | whole)
    return pd.DataFrame(rows)


def _row(part: Part, problem: Problem, state: State, seconds: float) -> dict[str, float]:
    lanes = problem.num_lanes
    results = jax.eval_shape(part, problem, state)
    once = used_bytes(part, problem, state) + sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(results))
    us, flops, total, rate = measure(part, problem, state, seconds)
    return {
        "us": us / lanes,
        "flops": flops / lanes,
        "bytes": total / lanes,
        "bytes_once": once / lanes,
        "gigabytes_per_second": rate,
    }


def measure(part: Part, problem: Problem, state: State, seconds: float) -> tuple[float, float, float, float]:
    """Microseconds, operations, bytes and gigabytes per second of a part, compiled, after an iteration."""
    state = jax.jit(step)(problem, RULE, state)
    compiled = jax.jit(part).lower(problem, state).compile()
    cost = compiled.cost_analysis() or {}

    @jax.jit
    def repeat(problem: Problem, state: State, results: Any, times: jax.Array) -> Any:
        def body(_: jax.Array, carry: Any) -> Any:
            kept = jax.lax.optimization_barrier(carry[0])
            return kept, part(problem, kept)

        return jax.lax.fori_loop(0, times, body, (state, results))

    first = compiled(problem, state)
    spent, times = best_seconds(lambda n: repeat(problem, state, first, jnp.asarray(n)), seconds)
    flops, total = float(cost.get("flops", np.nan)), float(cost.get("bytes accessed", np.nan))
    return spent / times * 1e6, flops, total, total * times / spent / 1e9


def used_bytes(part: Part, problem: Problem, state: State) -> int:
    """Bytes of the arguments that a part uses."""
    jaxpr = jax.make_jaxpr(part)(problem, state).jaxpr
    seen = {id(x) for equation in jaxpr.eqns for x in equation.invars}
    return sum(int(np.prod(x.aval.shape)) * x.aval.dtype.itemsize for x in jaxpr.invars if id(x) in seen)
