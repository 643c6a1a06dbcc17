"""The cost of an iteration with own infostates re-solved separately, compared with the subgames of the cut.

Goofspiel 5 after three bids, order 1, frozen, in float32. The opponent's sequences are repeated for each of
the own infostates that its own meet, 3.9 on average: nearly three times as many in total.
"""

from __future__ import annotations

import time
from typing import Any

import jax
import numpy as np
import pandas as pd

from experiments.study import Settings
from jaxgadget import MaxMargin, NoPrior, Policy, Resolving, enumerate_game, load
from jaxgadget.core import cfr
from jaxgadget.core.driver import cast_arrays
from jaxgadget.core.problem import Problem, with_regret_tolerance
from jaxgadget.core.regret import find_rule
from jaxgadget.core.solver import Solver
from jaxgadget.gadgets.games import build_games
from jaxgadget.subgames.engine import Subgames
from jaxgadget.subgames.knowledge import Knowledge, make_task
from jaxgadget.tree.cut import cut
from jaxgadget.tree.forest import build_forest
from jaxgadget.util.precision import precision

NAME = "cost"
GAME, CUT = "goofspiel(imp_info=True,num_cards=5,points_order=descending)", "depth:3"
SMOKE_GAME, SMOKE_CUT = "goofspiel(imp_info=True,num_cards=3,points_order=descending)", "depth:1"
LANES, ITERATIONS = 16, 40
TURNS, SMOKE_TURNS = 9, 2


def problem_of(task: Subgames) -> Problem:
    """A task's games on the device, in float32."""
    here = task.prepare(task.forest)
    games = build_games(here, task.gadgets, lanes=task.lanes)
    with precision(np.float32):
        return with_regret_tolerance(jax.device_put(cast_arrays(games.batch.problem(), np.float32)))


def compute(settings: Settings) -> pd.DataFrame:
    """A row for each gadget and kind of subgames, measured alternately."""
    game, where = settings.pick((GAME, CUT), (SMOKE_GAME, SMOKE_CUT))
    turns = settings.pick(TURNS, SMOKE_TURNS)
    tree = enumerate_game(load(game))
    below, rule = cut(tree, where), find_rule("cfr+")
    blueprint = Policy.stack([Policy.dirichlet(tree, seed) for seed in range(LANES)])
    rows: list[dict[str, Any]] = []
    for gadget in (Resolving(NoPrior()), MaxMargin(NoPrior())):
        options = Solver(algorithm=rule, iterations=1, dtype="float32")
        tasks = {
            "cut": Subgames(build_forest(tree, below), 0, blueprint, (gadget,)),
            "known": make_task(below, 0, blueprint, (gadget,), options, Knowledge()).subgames(),
        }
        problems = {name: problem_of(task) for name, task in tasks.items()}
        seconds: dict[str, list[float]] = {name: [] for name in tasks}
        states: dict[str, Any] = {}
        for turn in range(turns + 1):
            for name, problem in problems.items():
                with precision(np.float32):
                    state = states[name] if turn else cfr.start(problem, rule)
                    until = jax.device_put(np.int32((turn + 1) * ITERATIONS))
                    begin = time.perf_counter()
                    states[name] = jax.block_until_ready(cfr.run(problem, state, until, rule=rule))
                    seconds[name].append((time.perf_counter() - begin) / ITERATIONS / LANES)
        for name, problem in problems.items():
            sequences = sum(side.entry.num_sequences + side.body.num_sequences for side in problem.sides)
            taken = 1e6 * np.array(seconds[name][1:])  # the first run compiled
            found = {"least": float(taken.min()), "median": float(np.median(taken))}
            rows.append({"gadget": gadget.name, "subgames": name, "sequences": sequences} | found)
    return pd.DataFrame(rows)


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Microseconds of an iteration and lane, minimum and median of several alternating runs.

    `sequences` are both players', including entries; `times`: the minimum over that of the cut's subgames.
    """
    of_cut = frame[frame["subgames"] == "cut"].set_index("gadget")["least"]
    return frame.assign(times=frame["least"] / frame["gadget"].map(of_cut))
