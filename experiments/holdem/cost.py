"""The cost of an iteration: the loop, compared with its operators alone and with explicit matrices.

Everything runs in one process, alternately, in float32, in the solver's chunks of lanes; with matrices, which
gain from more columns, in larger ones, and with many lanes the loop also runs in such chunks. Times are
processor times of all cores.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.common import make_axes
from experiments.holdem.common import MENUS, NARROW, RANDOM, RIVER, random_board, river
from experiments.study import Settings
from jaxgadget import Spot
from jaxgadget.core import cfr
from jaxgadget.core.driver import cast_arrays
from jaxgadget.core.memory import plan_batch
from jaxgadget.core.problem import Problem, with_regret_tolerance
from jaxgadget.core.regret import find_rule
from jaxgadget.core.response import payoff_reaches
from jaxgadget.core.rows import EXACT
from jaxgadget.holdem.operators import Staked
from jaxgadget.holdem.solve import build_batch, carried_hands
from jaxgadget.report.styles import PALETTE
from jaxgadget.tree.public import public_tree
from jaxgadget.tree.whole import sequence_form
from jaxgadget.util.precision import precision

NAME = "cost"
RULE = find_rule("dcfr")
ITERATIONS = 64
"""Consecutive iterations of a chunk, which is then in the cache, as in a solve."""

LARGE_CHUNK = 16
"""Lanes of a chunk with matrices, at most."""

IN_LARGE_CHUNKS = f"loop, {LARGE_CHUNK} at a time"

SECONDS, SMOKE_SECONDS = 10.0, 0.0
"""Duration of a case's measurement: short alternating runs, at least two."""

Run = Callable[[int], object]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class DenseByLane:
    """Tables of all pairs of hands for every lane; see `PairTables`.

    Attributes:
      pays: `[1 or lanes, B, H, H]`.
    """

    pays: jax.Array

    def __call__(self, player: int, reach: jax.Array) -> jax.Array:
        """See `PairTables`."""
        pair = "ij" if player == 0 else "ji"
        if self.pays.shape[0] == 1:
            return jnp.einsum(f"b{pair},btjl->btil", self.pays[0], reach, precision=EXACT)
        return jnp.einsum(f"lb{pair},btjl->btil", self.pays, reach, precision=EXACT)


def problems_of(spots: list[Spot], *, in_range: bool, chunk: int | None = None) -> list[Problem]:
    """Spots as lanes, in chunks, with the hands of their ranges or all; by default in the solver's chunks."""
    hands = carried_hands(spots) if in_range else None
    batch = build_batch(spots, sequence_form(public_tree(spots[0])), hands)
    chunk = chunk or plan_batch(batch, np.float32).chunk
    problems: list[Problem] = []
    for first in range(0, len(spots), chunk):
        lanes = np.arange(first, min(first + chunk, len(spots)))
        with precision(np.float32):
            problem = jax.device_put(cast_arrays(batch.problem(lanes), np.float32))
            problems.append(with_regret_tolerance(problem))
    return problems


def written_down(problem: Problem) -> Problem:
    """The same problem with matrices in place of operators."""

    def dense(staked: Staked) -> Staked:
        inner, lanes = staked.tables, jax.tree.leaves(staked.tables)
        count = max(len(x) for x in lanes)
        pays = [inner.take_lanes(np.array([lane])).dense() for lane in range(count)]
        return dataclasses.replace(staked, tables=DenseByLane(pays=jnp.asarray(np.stack(pays), np.float32)))

    hands = problem.payoff.hands
    tables = tuple(dense(staked) for staked in hands.tables)
    payoff = dataclasses.replace(problem.payoff, hands=dataclasses.replace(hands, tables=tables))
    return dataclasses.replace(problem, payoff=payoff)


def loop_of(problem: Problem) -> Run:
    """Iterations of the solver's loop."""
    state = cfr.start(problem, RULE)

    def run(count: int) -> object:
        nonlocal state
        until = jax.device_put(np.int32(int(state.iteration) + count))
        state = jax.block_until_ready(cfr.run(problem, state, until, rule=RULE))
        return None

    return run


def operators_of(problem: Problem) -> Run:
    """Only the operator calls of both players in an iteration."""

    def operate(problem: Problem, reach: tuple[jax.Array, jax.Array]) -> list[jax.Array]:
        return [problem.payoff.gradient(player, reach, None)[0] for player in (0, 1)]

    @jax.jit
    def repeat(problem: Problem, reach: Any, earned: Any, times: jax.Array) -> Any:
        def body(_: jax.Array, carry: Any) -> Any:
            kept = jax.lax.optimization_barrier(carry[0])
            return kept, operate(problem, kept)

        return jax.lax.fori_loop(0, times, body, (reach, earned))

    state = cfr.step(problem, RULE, cfr.start(problem, RULE))
    reach = payoff_reaches(problem, state.plan)
    earned = jax.jit(operate)(problem, reach)
    return lambda count: jax.block_until_ready(repeat(problem, reach, earned, jnp.asarray(count)))


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every tree, number of lanes and of boards, and kind of measurement."""
    sizes = [(1, 1), (8, 1), (8, 8), (64, 64)]
    cases = [(tree, *size, "all") for tree in MENUS for size in sizes]
    cases.append(("57 nodes", 1, 1, "167 × 246"))
    if settings.smoke:
        cases = [("12 nodes", 2, 2, "167 × 246")]
    keys = [dict(zip(("tree", "lanes", "boards", "hands"), case, strict=True)) for case in cases]
    seconds = settings.pick(SECONDS, SMOKE_SECONDS)
    return settings.gather(NAME, keys, lambda key: measure(limit=seconds, **key))


def measure(tree: str, lanes: int, boards: int, hands: str, limit: float) -> pd.DataFrame:
    """Milliseconds of an iteration, minimum and median of several alternating runs."""
    dealt = [RIVER["board"], *(random_board(seed) for seed in range(boards - 1))] * (lanes // boards)
    ranges = RANDOM if hands == "all" else NARROW
    spots = [river(ranges, board=board, menus=MENUS[tree]) for board in dealt]
    problems = problems_of(spots, in_range=True)
    with precision(np.float32):
        runs = {"loop": map(loop_of, problems), "operators": map(operators_of, problems)}
        if hands == "all":
            large = problems_of(spots, in_range=True, chunk=LARGE_CHUNK)
            if lanes > LARGE_CHUNK:
                runs[IN_LARGE_CHUNKS] = map(loop_of, large)
            runs["loop, matrices"] = (loop_of(written_down(problem)) for problem in large)
        else:
            runs["loop, all hands"] = map(loop_of, problems_of(spots, in_range=False))
        chunks = {name: list(every) for name, every in runs.items()}
        count = ITERATIONS if limit else 1
        seconds: dict[str, list[float]] = {name: [] for name in runs}
        turn, until = 0, np.inf
        while turn < 3 or time.perf_counter() < until:
            for name, every in chunks.items():
                taken = 0.0
                for run in every:
                    began = time.process_time()  # processor time excludes other processes
                    run(count)
                    taken += time.process_time() - began
                if turn:  # the first run compiled
                    seconds[name].append(taken / count)
            until = time.perf_counter() + limit if turn == 0 else until
            turn += 1
    case = {"tree": tree, "lanes": lanes, "boards": boards, "hands": hands}
    case |= {"carried": problems[0].sides[0].body.hands, "chunk": problems[0].num_lanes}
    rows = [
        case | {"what": name, "least": 1e3 * min(taken), "median": 1e3 * float(np.median(taken))}
        for name, taken in seconds.items()
    ]
    return pd.DataFrame(rows)


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Milliseconds of processor time of an iteration of all lanes, the minimum of several alternating runs.

    Of the loop, of its operators alone, of the loop with 1,081² matrices in place of operators or in larger
    chunks, and on narrow ranges of the loop with all hands; `over …` are ratios of the first to the others.
    """
    keys = ["tree", "lanes", "boards", "hands", "carried", "chunk"]
    table = frame.pivot_table(index=keys, columns="what", values="least", sort=False).reset_index()
    for name in ("operators", "loop, matrices", IN_LARGE_CHUNKS, "loop, all hands"):
        if name in table:
            table[f"over {name}"] = table["loop"] / table[name]
    return table.rename_axis(columns=None)


def draw(frame: pd.DataFrame) -> Figure:
    """The loop over its operator calls, and over the loop with matrices, by lanes."""
    table = summarise(frame[frame["hands"] == "all"] if (frame["hands"] == "all").any() else frame)
    bounds = {"operators": 2.0, "loop, matrices": 0.25}
    figure, axes = make_axes(2, 2, (3.8, 3.0))
    for ax, (name, bound) in zip(axes, bounds.items(), strict=True):
        if f"over {name}" in table:
            for color, (tree, rows) in zip(PALETTE, table.groupby("tree", sort=False), strict=False):
                sizes = [
                    f"{lanes} on {boards}"
                    for lanes, boards in zip(rows["lanes"], rows["boards"], strict=True)
                ]
                ax.plot(sizes, rows[f"over {name}"], marker="o", color=color, label=tree)
        ax.axhline(bound, color="#D55E00", linestyle="--", label="bound")
        ax.set(xlabel="lanes on boards", ylabel=f"loop over {name}", ylim=(0, None))
        ax.legend(frameon=False, fontsize=8)
    return figure
