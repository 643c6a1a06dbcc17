"""Shared by the experiments: games, menus and blueprints; values of answers to actions off the menu."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
import pandas as pd

from jaxgadget import (
    BlueprintPrior,
    HistoryTree,
    MaxMargin,
    MenuAbstraction,
    NoPrior,
    Policy,
    ReachMaxMargin,
    ReachResolving,
    Resolving,
    Solver,
    UniformPrior,
    Unsafe,
    enumerate_game,
    evaluate_policy,
    load,
    make_blueprints,
    nested_off_tree,
    translate_off_tree,
)
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.games.menu import read_menu
from jaxgadget.policy.exact import find_value, solve_exactly
from jaxgadget.subgames.off_tree import TRANSLATION, Answering, Method
from jaxgadget.util.players import Bracket

HERE = pathlib.Path(__file__).parent

FOUR_BETS, EIGHT_BETS = "1/2-1-2-a", "1/4-1/2-3/4-1-3/2-2-3-a"
"""Fractions of the pot, and all-in."""

RULES = ("pseudo-harmonic", "linear", "nearest")
TRANSLATIONS = tuple(f"{TRANSLATION}:{rule}" for rule in RULES)
SOLVING: tuple[str, ...] = get_args(Method)
METHODS = (*TRANSLATIONS, *SOLVING)

EQUILIBRIUM = "equilibrium"
"""A blueprint from a linear program of the abstraction."""

BLUEPRINTS = ("uniform", "cfr:10", "cfr:100", "cfr+:1000", EQUILIBRIUM)
SMOKE_BLUEPRINTS = ("cfr:10", EQUILIBRIUM)

ITERATIONS, SMOKE_ITERATIONS = 2000, 20

COLORS = {
    "translation:pseudo-harmonic": "#D55E00",
    "translation:linear": "#E69F00",
    "translation:nearest": "#CC79A7",
    "safe": "#56B4E9",
    "inexpensive": "#0072B2",
    "expensive": "#009E73",
    "menu": "#000000",
}
MARKERS = dict(zip(COLORS, "v^<sod.", strict=True))


def leduc(*, stack: int = 13, bets: str = FOUR_BETS, raises: int = 2, ranks: int = 3, suits: int = 2) -> str:
    """No-limit Leduc with suits merged."""
    sizes = f"bets={bets},max_raises={raises},num_ranks={ranks},num_suits={suits},stack={stack}"
    return f"no_limit_leduc({sizes},suit_isomorphism=True)"


def short(game: str) -> str:
    """A game of this study as a short title."""
    given = dict(part.split("=") for part in game.partition("(")[2].rstrip(")").split(","))
    cards, raises = f"{given['num_ranks']}×{given['num_suits']}", int(given["max_raises"])
    bets = len(given["bets"].split("-"))
    return f"{cards}, {bets} bets, stack {given['stack']}, {raises} raise{'s' * (raises > 1)}"


@functools.cache
def tree_of(game: str, menu: str | None = None) -> HistoryTree:
    """A game's histories; with a menu, those of the abstraction in which both players use only the menu."""
    if menu is None:
        return enumerate_game(load(game))
    rules = tree_of(game).game
    return enumerate_game(
        MenuAbstraction(rules, {player: read_menu(rules, player, menu, "menu") for player in (0, 1)})
    )


@functools.cache
def value_of(game: str) -> tuple[float, float]:
    """The bracket of player 0's value of the whole game."""
    return find_value(tree_of(game), True, False)


@functools.cache
def blueprints_of(game: str, menu: str, specs: tuple[str, ...]) -> Policy:
    """Strategies for the abstraction by their SPECs, a lane each; one may be `EQUILIBRIUM`."""
    tree = tree_of(game, menu)
    named = [spec for spec in specs if spec != EQUILIBRIUM]
    policies = [make_blueprints(tree, named, progress=False)] if named else []
    if EQUILIBRIUM in specs:
        policies.append(Policy(tree, solve_exactly(tree).policy.probabilities, (EQUILIBRIUM,)))
    return Policy.stack(policies)


def all_gadgets(method: str) -> list[Gadget]:
    """All gadgets and priors that a method accepts."""
    kinds = (Resolving, MaxMargin, ReachResolving, ReachMaxMargin)
    solved: list[Gadget] = [
        kind(prior) for kind in kinds for prior in (NoPrior(), UniformPrior(), BlueprintPrior())
    ]
    return [*solved, Unsafe()] if method == "expensive" else solved


def on_menu(policy: Policy, player: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """`[lanes]` the guaranteed value of a player's strategy against an opponent restricted to the menu."""
    return -evaluate_policy(policy).best_response_values[player]


def answer(
    game: str,
    menu: str,
    specs: Sequence[str],
    *,
    player: int,
    method: str,
    gadgets: Sequence[Gadget] | None = None,
    algorithm: str = "cfr+",
    iterations: int = ITERATIONS,
) -> pd.DataFrame:
    """A row for each blueprint and gadget with prior; `on_menu`: exploitability if no player leaves the menu.

    Args:
      game: name of the game.
      menu: the bets of both blueprints.
      specs: SPECs of blueprints.
      player: the answering player.
      method: a translation or one of `SOLVING`.
      gadgets: gadgets of a method that solves, by default all.
      algorithm: `lp` or a rule of CFR's.
      iterations: iterations of CFR.
    """
    tree, blueprint = tree_of(game, menu), blueprints_of(game, menu, tuple(specs))
    asked: dict[str, Any] = {"player": player, "value": value_of(game)}
    if method in TRANSLATIONS:
        found = translate_off_tree(
            tree, blueprint, method.partition(":")[2], solver=Solver(algorithm="lp", progress=False), **asked
        )
    else:
        solver = Solver(algorithm=algorithm, iterations=iterations, progress=False)
        given = all_gadgets(method) if gadgets is None else list(gadgets)
        known: Any = method
        found = nested_off_tree(tree, blueprint, given, Answering(known), solver=solver, **asked)
    middle = Bracket(*value_of(game)).for_player(player).middle
    kept = dict(zip(blueprint.labels, middle - on_menu(blueprint, player), strict=True))
    table = found.table
    return table.assign(
        on_menu=table["blueprint"].map(kept),
        menu_exploitability=middle - menu_value(game, menu, player),
        menu_size=len(menu.split("-")),
        histories=tree_of(game).num_histories,
        algorithm=algorithm if method in SOLVING else "none",
    ).drop(columns=["menu_value", "above_optimum"])


@functools.cache
def menu_value(game: str, menu: str, player: int) -> float:
    """The best value of a player that is restricted to the menu while the opponent has all actions."""
    rules = tree_of(game).game
    kept = enumerate_game(MenuAbstraction(rules, {player: read_menu(rules, player, menu, "menu")}))
    return find_value(kept, True, False).for_player(player).middle


def with_words(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with a column `solved`, the gadget with its prior if any, or the translation's name."""
    gadget, prior = frame["gadget"].fillna(frame["method"]), frame["prior"].fillna("none")
    return frame.assign(
        solved=np.where((prior == "none") | (gadget == "unsafe"), gadget, gadget + ", " + prior)
    )


LEAST = 1e-4
"""Lower bound of exploitability in geometric means [antes], of the order of gaps."""


def mean(numbers: pd.Series) -> float:
    """The geometric mean."""
    return float(np.exp(np.log(numbers.clip(lower=LEAST)).mean()))


def ratio(frame: pd.DataFrame, column: str, other: str) -> float:
    """The geometric mean of one column over another."""
    return mean(frame[column]) / mean(frame[other])


def plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Translations, and for methods that solve the results of resolving without a prior."""
    return frame[frame["gadget"].isna() | ((frame["gadget"] == "resolving") & (frame["prior"] == "none"))]


def by_method(frame: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Exploitabilities, one column per method, after those on the menu and the menu's best."""
    rows = plain(frame)
    ends = rows.groupby(list(keys), sort=False)[["on_menu", "menu_exploitability"]].first()
    wide = rows.pivot(index=list(keys), columns="method", values="exploitability")
    names = [name for name in METHODS if name in wide.columns]
    table = ends.rename(columns={"menu_exploitability": "menu's best"}).join(wide[names])
    return table.rename(columns=lambda name: str(name).removeprefix(f"{TRANSLATION}:")).reset_index()


def times_worse(frame: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Exploitability of every translation over that of nested solving: geometric mean, minimum and maximum.

    By blueprint; resolving without a prior.
    """
    rows = plain(frame)
    wide = rows.pivot(index=[*keys, "blueprint"], columns="method", values="exploitability")
    wide = wide.clip(lower=LEAST)
    found: list[dict[str, Any]] = []
    for blueprint, part in wide.groupby(level="blueprint", sort=False):
        for method in ("inexpensive", "expensive"):
            row: dict[str, Any] = {"blueprint": blueprint, "over": method}
            for name in (*TRANSLATIONS, "safe"):
                times = part[name] / part[method]
                word = name.removeprefix(f"{TRANSLATION}:")
                row |= {word: mean(times), f"{word}, least": times.min(), f"{word}, most": times.max()}
            found.append(row)
    return pd.DataFrame(found)


CHANGED = 0.05
"""Results count as better or worse if exploitability differs by more than this share."""


def by_gadget(frame: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Every method's gadgets and priors: means, and ratios to its resolving without a prior."""
    rows = with_words(frame[frame["method"].isin(SOLVING)])
    index = [*keys, "method", "blueprint"]
    first = rows[rows["solved"] == "resolving"].set_index(index)["exploitability"]
    base = first.reindex(pd.MultiIndex.from_frame(rows[index])).to_numpy()
    rows = rows.assign(base=base)
    found: list[dict[str, Any]] = []
    for (method, solved), part in rows.groupby(["method", "solved"], sort=False):
        times = part["exploitability"].clip(lower=LEAST) / part["base"].clip(lower=LEAST)
        found.append(
            {
                "method": method,
                "solved": solved,
                "exploitability": mean(part["exploitability"]),
                "times": mean(times),
                "least": times.min(),
                "most": times.max(),
                "better": int((times < 1 - CHANGED).sum()),
                "worse": int((times > 1 + CHANGED).sum()),
                "of": len(part),
                "gap": part["gap_max"].max(),
            }
        )
    return pd.DataFrame(found)
