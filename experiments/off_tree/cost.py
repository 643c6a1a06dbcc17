"""Time per off-tree action: all subgames of a level in one batch, and each separately, alternately.

Only the solves of the first level are timed: preparing, compiling (in the first turn) and running. JAX's disk
cache is disabled.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import jax
import jax.monitoring
import numpy as np
import pandas as pd

from experiments.off_tree.common import blueprints_of, leduc, short, tree_of
from experiments.study import Settings
from jaxgadget import MaxMargin, MenuAbstraction, NoPrior, Resolving, enumerate_game, lift
from jaxgadget.core.solver import Solver
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.games.game import TERMINAL
from jaxgadget.subgames.engine import Subgames, solve_subgames
from jaxgadget.tree.cut import Cut, cut_at, kept_subgames
from jaxgadget.tree.forest import build_forest
from jaxgadget.util.clock import Stopwatch

NAME = "cost"
GAMES = (leduc(),)
SMOKE_GAMES = (leduc(stack=7, raises=1),)
MENU, SPEC, PLAYER = "1-a", "cfr+:1000", 1
ITERATIONS, SMOKE_ITERATIONS = 1000, 10
TURNS, SMOKE_TURNS = 3, 2
BATCH, ALONE = "batch", "one by one"
COMPILED = "/jax/core/compile/backend_compile_duration"
"""JAX's event for the compilation of a program."""


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, gadget, turn and method."""
    iterations = settings.pick(ITERATIONS, SMOKE_ITERATIONS)
    turns = settings.pick(TURNS, SMOKE_TURNS)

    def measure(key: dict[str, Any]) -> pd.DataFrame:
        gadget = {"resolving": Resolving, "max-margin": MaxMargin}[key["gadget"]](NoPrior())
        with _nothing_kept():
            return pd.DataFrame(_measure(key["game"], gadget, iterations, turns)).assign(**key)

    keys = [
        {"game": game, "gadget": gadget}
        for game in settings.pick(GAMES, SMOKE_GAMES)
        for gadget in ("resolving", "max-margin")
    ]
    return settings.gather(NAME, keys, measure)


@contextlib.contextmanager
def _nothing_kept() -> Iterator[None]:
    """Disables JAX's disk cache."""
    before = jax.config.values["jax_enable_compilation_cache"]
    jax.config.update("jax_enable_compilation_cache", False)
    jax.clear_caches()
    try:
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", before)


def first_level(game: str) -> Cut:
    """The subgames after the first action off the menu."""
    coarse = tree_of(game, MENU).game
    assert isinstance(coarse, MenuAbstraction)
    menus = {player: menu for player, menu in enumerate(coarse.menus) if menu is not None}
    level = MenuAbstraction(coarse.game, menus, off_tree=1, off_tree_player=1 - PLAYER)
    tree = enumerate_game(level)
    leaves = np.isin(tree.action[1 - PLAYER], level.off_tree_actions) & (tree.actor != TERMINAL)
    return cut_at(tree, "off-tree action", np.flatnonzero(leaves))


def _measure(game: str, gadget: Gadget, iterations: int, turns: int) -> list[dict[str, Any]]:
    everything = first_level(game)
    tree, count = everything.tree, everything.num_subgames
    blueprint = lift(blueprints_of(game, MENU, (SPEC,)), tree)
    options = Solver(algorithm="cfr+", iterations=iterations)
    alone = [
        kept_subgames(tree, f"subgame {number}", everything.roots[everything.subgame == number])
        for number in range(count)
    ]
    ways = {BATCH: [everything], ALONE: alone}
    programs = 0

    def add(event: str, duration: float, **_: Any) -> None:
        nonlocal programs
        programs += event == COMPILED

    jax.monitoring.register_event_duration_secs_listener(add)
    rows: list[dict[str, Any]] = []
    for turn in range(turns + 1):
        for way, cuts in ways.items():
            programs, begin, watch = 0, time.perf_counter(), Stopwatch()
            for where in cuts:
                with watch.phase("build"):
                    forest = build_forest(tree, where)
                solve_subgames(Subgames(forest, PLAYER, blueprint, (gadget,)), options, watch)
            seconds = {"seconds": time.perf_counter() - begin} | watch.seconds
            rows.append({"turn": turn, "way": way, "subgames": count, "programs": programs} | seconds)
    return rows


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Milliseconds per off-tree action (a subgame): with compilation, and the minimum of the later turns.

    `programs` are compiled in the first turn, including JAX's small ones; `times`: separate over batched.
    `run` and `build` are shares of the later turns.
    """
    rows: list[dict[str, Any]] = []
    for (game, gadget, way), part in frame.groupby(["game", "gadget", "way"], sort=False):
        first, later = part[part["turn"] == 0].iloc[0], part[part["turn"] > 0]
        scale = 1e3 / int(first["subgames"])
        rows.append(
            {
                "game": short(game),
                "gadget": gadget,
                "way": way,
                "subgames": int(first["subgames"]),
                "programs": int(first["programs"]),
                "programs later": int(later["programs"].sum()),
                "first": first["seconds"] * scale,
                "later": later["seconds"].min() * scale,
                "run": later["run"].min() * scale,
                "build": later["build"].min() * scale,
            }
        )
    table = pd.DataFrame(rows)
    batch = table[table["way"] == BATCH].set_index(["game", "gadget"])
    index = pd.MultiIndex.from_frame(table[["game", "gadget"]])
    for column in ("first", "later"):
        table[f"times, {column}"] = table[column] / batch[column].reindex(index).to_numpy()
    return table
