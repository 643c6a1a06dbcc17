"""Shared by the experiments: games and cuts, orders of knowledge, and results."""

from __future__ import annotations

import functools
import math
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from experiments.common import titled, tree_of, value_of
from jaxgadget import (
    HistoryTree,
    Knowledge,
    Policy,
    Solver,
    make_blueprints,
    refine,
    solve,
)
from jaxgadget.games.game import ACTOR_BIT
from jaxgadget.subgames.refine import default_gadgets
from jaxgadget.tree.cut import Cut, cut
from jaxgadget.util.arrays import BoolArray

HERE = pathlib.Path(__file__).parent

LEDUC = "leduc_poker"


def goofspiel(num_cards: int) -> str:
    """The Goofspiel of the other studies, with any number of cards."""
    return f"goofspiel(imp_info=True,num_cards={num_cards},points_order=descending)"


def liars_dice(sides: int) -> str:
    """Liar's Dice with one die per player."""
    return f"liars_dice(dice_sides={sides},numdice=1)"


def dark_hex(rows: int, columns: int, version: str) -> str:
    """OpenSpiel's Dark Hex, `classical` or `abrupt`, in which players know the number of moves."""
    rules = {"classical": "cdh", "abrupt": "adh"}[version]
    parameters = f"gameversion={rules},num_cols={columns},num_rows={rows},obstype=reveal-numturns"
    return f"openspiel:dark_hex({parameters})"


def pennies(num_deals: int) -> str:
    """N-matching pennies."""
    return f"n_matching_pennies(num_deals={num_deals})"


COMPONENTS = "order ∞"
KNOWN: dict[str, tuple[float, bool]] = {
    "order 1": (1, False),
    "order 3": (3, False),
    "order 1, unfrozen": (1, True),
    COMPONENTS: (math.inf, False),
}
"""Orders of knowledge; True if unfrozen."""

COMBINED = ("together", "damped", "in-turn")
WAYS = [(known, how) for known in KNOWN for how in COMBINED if known != COMPONENTS or how == COMBINED[0]]
"""Knowledge and combination; components have nothing to combine."""

SAFE = {("order 1", "damped"), ("order 1", "in-turn"), ("order 1", "one-by-one"), (COMPONENTS, "together")}
"""Methods that never raise exploitability, given safe gadgets."""

COLORS = {
    "blueprint": "#000000",
    "order 1, together": "#D55E00",
    "order 1, damped": "#56B4E9",
    "order 1, in-turn": "#0072B2",
    "order 1, one-by-one": "#882255",
    "order 3, together": "#CC79A7",
    "order 3, in-turn": "#E69F00",
    "order 1, unfrozen, together": "#999999",
    "order 1, unfrozen, in-turn": "#F0E442",
    COMPONENTS: "#009E73",
}

EQUILIBRIUM = "equilibrium"
"""A blueprint from a linear program of the whole game."""


@functools.cache
def blueprints_of(game: str, specs: tuple[str, ...]) -> Policy:
    """Blueprints by their SPECs, a lane each; one may be `EQUILIBRIUM`."""
    tree = tree_of(game)
    named = [spec for spec in specs if spec != EQUILIBRIUM]
    policies = [make_blueprints(tree, named, progress=False)] if named else []
    if EQUILIBRIUM in specs:
        optimal = solve(tree, algorithm="lp").policy
        policies.append(Policy(tree, optimal.probabilities, (EQUILIBRIUM,)))
    return Policy.stack(policies)


def own_decisions(tree: HistoryTree, player: int, count: int) -> BoolArray:
    """`[n]` histories at which the player makes its nth decision, `count` from 1."""
    depth = tree.infosets[player].depth[tree.infoset[player]]
    return (tree.actor == ACTOR_BIT[player]) & (depth == count - 1)


def cut_of(game: str, where: str, player: int) -> Cut:
    """A cut by name; `own:N` is the player's Nth decision."""
    kind, _, count = where.partition(":")
    if kind == "own":
        return cut(tree_of(game), lambda tree: own_decisions(tree, player, int(count)))
    return cut(tree_of(game), where)


def measure(
    game: str,
    where: str,
    specs: Sequence[str],
    *,
    player: int,
    known: str,
    combine: str,
    algorithm: str,
    iterations: int = 0,
    exact: bool = True,
) -> pd.DataFrame:
    """A row for every blueprint and gadget with prior, all own infostates re-solved.

    Args:
      game: name of the game.
      where: the cut; see `cut_of`.
      specs: SPECs of blueprints.
      player: the resolving player.
      known: one of `KNOWN`.
      combine: how the strategies are combined.
      algorithm: `lp` or a rule of CFR's.
      iterations: iterations of CFR.
      exact: whether the game's value comes from a linear program, or else from a bracket by CFR.
    """
    order, unfrozen = KNOWN[known]
    how: dict[str, Any] = {"iterations": iterations, "dtype": "float64"} if algorithm != "lp" else {}
    found = refine(
        tree_of(game),
        cut_of(game, where, player),
        blueprints_of(game, tuple(specs)),
        default_gadgets(),
        knowledge=Knowledge(order=order, unfrozen=unfrozen, combine=combine),
        player=player,
        value=value_of(game, exact),
        solver=Solver(algorithm=algorithm, progress=False, **how),
    )
    columns = ["blueprint", "gadget", "prior", "epsilon", "blueprint_exploitability"]
    columns += ["refined_exploitability", "exploitability_bound", "gap_max", "failure"]
    return found.table[columns].assign(seconds=sum(found.seconds.values()))


def way(known: str, combine: str) -> str:
    """Name of a knowledge and combination."""
    return known if known == COMPONENTS else f"{known}, {combine}"


def with_way(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with a column `way`, and those of `with_rise`."""
    ways = [way(known, combine) for known, combine in zip(frame["known"], frame["combine"], strict=True)]
    return with_rise(frame).assign(way=ways)


def with_rise(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with columns `solved`, the gadget with its prior if any, and `rise` of exploitability."""
    is_plain = (frame["prior"] == "none") | (frame["gadget"] == "unsafe")
    words = np.where(is_plain, frame["gadget"], frame["gadget"] + ", " + frame["prior"])
    rise = frame["refined_exploitability"] - frame["blueprint_exploitability"]
    return frame.assign(solved=words, rise=rise)


PAIR = ["blueprint_exploitability", "refined_exploitability"]

WORSE = 1e-3
"""Larger rises in exploitability count as rises [payoff]; CFR+'s gaps are smaller."""


def ratio(frame: pd.DataFrame) -> float:
    """The geometric mean of refined over blueprint exploitability, over exploitable blueprints.

    Blueprints whose exploitability is at most `WORSE` are excluded, and results count at least as much.
    """
    is_counted = frame["blueprint_exploitability"] > WORSE
    start, end = (frame.loc[is_counted, column].clip(lower=WORSE) for column in PAIR)
    return float(np.exp(np.log(end / start).mean()))


def share_worse(frame: pd.DataFrame) -> float:
    """Share of results that are worse than the blueprint."""
    return float((frame["rise"] > WORSE).mean())


def in_words(game: str, where: str = "") -> str:
    """A game and a cut as a short title."""
    name = titled(game.removeprefix("openspiel:"))
    if game.startswith("openspiel:dark_hex"):
        given = dict(part.split("=") for part in game.partition("(")[2].rstrip(")").split(","))
        version = {"cdh": "classical", "adh": "abrupt"}[given["gameversion"]]
        name = f"Dark Hex {given['num_rows']}×{given['num_cols']}, {version}"
    elif game.startswith("n_matching_pennies"):
        name = f"Pennies, N = {game.partition('=')[2].rstrip(')')}"
    elif "num_turns=3" in game:
        name += " in 3 rounds"
    return " ".join(part for part in (name, where.replace("own:", "decision ").replace(":", " ")) if part)
