"""Towards the paper's sizes: enumeration, certificates and nested search, with time and memory.

Goofspiel 6 and Liar's Dice 2×3, minutes on two cores; `paper_sizes` has the next larger sizes.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pandas as pd

from experiments.common import peak_bytes, titled
from experiments.nested.common import DEPTH, ENTRIES, SMALL, enumerated, gadgets
from experiments.study import Settings, apart
from jaxgadget import Policy, Solver, enable_compilation_cache, make_blueprints, solve
from jaxgadget.gadgets.gadget import describe
from jaxgadget.policy.portfolio import make_portfolio
from jaxgadget.subgames.nested import Nested, nested_search
from jaxgadget.subgames.schedule import Lookahead
from jaxgadget.util.arrays import FloatArray
from jaxgadget.values.histories import ExactValues

NAME = "large"
GAMES = (
    "goofspiel(imp_info=True,num_cards=6,points_order=descending)",
    "liars_dice(dice_sides=3,numdice=2)",
)
BLUEPRINT = "cfr+:20"
"""An early average of CFR+."""

SMOKE = {"entries": 3, "iterations": 10, "solve": 20}
HOW = {"entries": ENTRIES, "iterations": 500, "solve": 1000}
"""A sixth of the iterations of the other experiments: a level of Goofspiel 6 has 13 million payoffs."""

Result = TypeVar("Result")


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game and quantity."""
    return compute_games(settings, NAME, dict.fromkeys(GAMES, HOW))


def compute_games(settings: Settings, name: str, games: Mapping[str, Mapping[str, int]]) -> pd.DataFrame:
    """The same for given games, each with its numbers; `name` is the experiment's."""
    tables: list[pd.DataFrame] = []
    for game, effort in settings.pick(games, dict.fromkeys(SMALL, SMOKE)).items():
        whole: dict[str, Any] = {"game": game, **effort}
        solved = settings.gather(name, [whole], lambda key: apart(settings, solve_whole, key))
        values = solved.set_index("quantity")["value"]
        bracket = float(values["value at least"]), float(values["value at most"])
        searches = [whole | {"player": player, "blueprint": BLUEPRINT, "depth": DEPTH} for player in (0, 1)]
        search_one = functools.partial(apart, settings, search, settings, bracket)
        tables += [solved, settings.gather(name, searches, search_one)]
    return pd.concat(tables, ignore_index=True)


class Notes:
    """Measurements, one row each; printed as they are completed, which may take hours."""

    def __init__(self, game: str):
        self.game, self.rows = game, list[dict[str, Any]]()

    def note(self, step: str, quantity: str, value: float) -> None:
        """One number."""
        self.rows.append({"game": self.game, "step": step, "quantity": quantity, "value": float(value)})
        print(f"{titled(self.game)}: {step}, {quantity} {value:.6g}", file=sys.stderr, flush=True)

    def timed(self, step: str, do: Callable[[], Result]) -> Result:
        """Runs a function, and records its time and the current peak of memory."""
        begin = time.perf_counter()
        result = do()
        self.note(step, "seconds", time.perf_counter() - begin)
        self.note(step, "GiB", peak_bytes() / 2**30)
        return result


def solve_whole(key: dict[str, Any]) -> pd.DataFrame:
    """Enumerates a game and brackets its value."""
    enable_compilation_cache()
    notes = Notes(key["game"])
    tree = notes.timed("enumerate", lambda: enumerated(key["game"]))
    notes.note("enumerate", "histories", tree.num_histories)
    notes.note("enumerate", "terminals", len(tree.terminals))
    solved = notes.timed(
        "solve",
        lambda: solve(
            tree, solver=Solver(algorithm="pcfr+", iterations=key["solve"], dtype="float32", progress=False)
        ),
    )
    notes.note("solve", "iterations", key["solve"])
    notes.note("solve", "NashConv", solved.nash_conv)
    notes.note("solve", "value at least", -solved.best_response_values[0])
    notes.note("solve", "value at most", solved.best_response_values[1])
    return pd.DataFrame(notes.rows)


def list_entries(key: dict[str, Any]) -> tuple[tuple[FloatArray, FloatArray], float]:
    """The portfolio of an early average, and its memory."""
    enable_compilation_cache()
    profile = make_blueprints(enumerated(key["game"]), key["blueprint"], progress=False)
    portfolio = make_portfolio(profile, size=key["entries"], progress=False)
    return portfolio.probabilities, peak_bytes() / 2**30


def search(settings: Settings, bracket: tuple[float, float], key: dict[str, Any]) -> pd.DataFrame:
    """Nested search for one player."""
    enable_compilation_cache()
    notes, step = Notes(key["game"]), f"nested, player {key['player']}"
    begin = time.perf_counter()
    rows, memory = apart(settings, list_entries, key)
    notes.note(f"{step}, portfolio", "seconds", time.perf_counter() - begin)
    notes.note(f"{step}, portfolio", "GiB", memory)
    tree = enumerated(key["game"])
    entries = Policy(tree, rows, (key["blueprint"], *(f"entry {k}" for k in range(1, key["entries"]))))
    nested = notes.timed(
        step,
        lambda: nested_search(
            tree,
            entries.lane(0),
            gadgets(),
            Lookahead(ExactValues(entries), depth=key["depth"], visits=False),
            player=key["player"],
            solver=Solver(iterations=key["iterations"], memory_limit=key.get("memory_limit"), progress=False),
            value=bracket,
        ),
    )
    note_nested(notes, step, nested)
    return pd.DataFrame(notes.rows)


def note_nested(notes: Notes, step: str, nested: Nested) -> None:
    """Exploitabilities, up to the bracket of the game's value, gaps and searches."""
    notes.note(step, "searches", int(nested.searches.sum()))
    notes.note(step, "seconds of search", float(nested.seconds.sum()))
    notes.note(step, "seconds in values", nested.value_seconds)
    notes.note(step, "largest gap", float(nested.gap_max.max()))
    notes.note(step, "blueprint exploitability", float(nested.blueprint_exploitability[0]))
    for lane, gadget in enumerate(nested.gadgets):
        name = describe(gadget).partition(", epsilon")[0]
        notes.note(step, f"exploitability, {name}", float(nested.nested_exploitability[lane]))


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Times, memory (the current peak) and results."""
    named = frame.assign(game=frame["game"].map(titled), what=frame["step"] + ": " + frame["quantity"])
    return named.pivot_table(index="what", columns="game", values="value", sort=False).reset_index()
