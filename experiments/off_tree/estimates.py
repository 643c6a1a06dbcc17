"""Alternative values from an abstraction, in subgames of a finer game (§6), and Theorem 2.

Before the flop both players use a menu, after it all bets; the abstraction has the menu throughout. The
blueprint is its strategy, translated, and all subgames after the flop are re-solved.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.common import make_axes, one_legend
from experiments.off_tree import common
from experiments.off_tree.common import EQUILIBRIUM, ITERATIONS, SMOKE_ITERATIONS, leduc, mean, tree_of
from experiments.study import Settings
from jaxgadget import (
    AbstractValues,
    BestResponseValues,
    BlueprintPrior,
    HistoryTree,
    MaxMargin,
    MenuAbstraction,
    NoPrior,
    OptimalContinuation,
    Policy,
    ReachMaxMargin,
    ReachResolving,
    Resolving,
    Solver,
    UniformPrior,
    Unsafe,
    enumerate_game,
    make_blueprints,
    refine,
    translate,
)
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.games.menu import read_menu
from jaxgadget.games.pruned import PrunedGame
from jaxgadget.policy.exact import find_value, solve_exactly
from jaxgadget.report.styles import at_edge_note
from jaxgadget.subgames.abstract import look_up
from jaxgadget.tree.cut import cut
from jaxgadget.tree.forest import build_forest

NAME = "estimates"
GAMES = (leduc(), leduc(raises=1), leduc(stack=7), leduc(stack=20))
SMOKE_GAMES = (leduc(stack=7, raises=1),)
MENU = "1-a"
BLUEPRINTS = ("uniform", "cfr:10", "cfr:100", "cfr+:1000", EQUILIBRIUM)
KINDS: tuple[tuple[Any, dict[str, Any]], ...] = (
    (Resolving, {}),
    (MaxMargin, {}),
    *(
        (kind, {"gifts": gifts})
        for gifts in ("lower-bound", "estimate")
        for kind in (ReachResolving, ReachMaxMargin)
    ),
)
"""Gadgets, and how the reach ones find gifts."""

BEST_RESPONSE, ESTIMATE, OPTIMUM = "best response", "estimate", "optimum"
"""Alternative values: against the blueprint in the game itself, from the abstraction, against the optimum."""


@functools.cache
def finer(game: str) -> HistoryTree:
    """The game in which both players use the menu before the flop."""
    tree = tree_of(game)
    after = cut(tree, "flop").root >= 0
    kept = np.ones(tree.num_histories, np.bool_)
    for player in (0, 1):
        menu = MenuAbstraction(tree.game, {player: read_menu(tree.game, player, MENU, "menu")}).menus[player]
        kept &= after | (tree.action[player] < 0) | np.isin(tree.action[player], menu)
    return enumerate_game(PrunedGame(tree.game, kept, f"with {MENU} before the flop"))


@functools.cache
def coarse_blueprints(game: str, specs: tuple[str, ...]) -> Policy:
    """Strategies for the abstraction with the menu throughout, a lane each."""
    rules = finer(game).game
    menus = {player: read_menu(rules, player, MENU, "menu") for player in (0, 1)}
    tree = enumerate_game(MenuAbstraction(rules, menus))
    named = [spec for spec in specs if spec != EQUILIBRIUM]
    policies = [make_blueprints(tree, named, progress=False)] if named else []
    if EQUILIBRIUM in specs:
        policies.append(Policy(tree, solve_exactly(tree).policy.probabilities, (EQUILIBRIUM,)))
    return Policy.stack(policies)


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, seat, blueprint, gadget, prior and kind of alternative values."""
    specs = settings.pick(BLUEPRINTS, common.SMOKE_BLUEPRINTS)
    iterations = settings.pick(ITERATIONS, SMOKE_ITERATIONS)

    def solve(key: dict[str, Any]) -> pd.DataFrame:
        return _measure(specs=specs, iterations=iterations, **key).assign(**key)

    keys = [
        {"game": game, "player": player} for game in settings.pick(GAMES, SMOKE_GAMES) for player in (1, 0)
    ]
    return settings.gather(NAME, keys, solve)


def _measure(game: str, player: int, specs: tuple[str, ...], iterations: int) -> pd.DataFrame:
    tree, coarse = finer(game), coarse_blueprints(game, specs)
    value = find_value(tree, True, False)
    asked: dict[str, Any] = {"player": player, "value": value}
    blueprint = translate(coarse, tree)
    solver = Solver(iterations=iterations, progress=False)
    optimum = refine(
        tree,
        "flop",
        blueprint,
        OptimalContinuation(NoPrior()),
        solver=Solver(algorithm="lp", progress=False),
        **asked,
    )
    best = Policy(tree, optimum.policy.probabilities, blueprint.labels)
    forest = build_forest(tree, cut(tree, "flop"))
    true, estimated, usual = (look_up(policy, forest, player) for policy in (best, coarse, blueprint))
    errors = {
        name: np.max(np.abs(found.value - true.value) / np.where(true.mass > 0, true.mass, np.inf), axis=0)
        for name, found in ((ESTIMATE, estimated), (BEST_RESPONSE, usual), (OPTIMUM, true))
    }
    alternatives = {
        BEST_RESPONSE: BestResponseValues(),
        ESTIMATE: AbstractValues(coarse),
        OPTIMUM: AbstractValues(best),
    }
    tables: list[pd.DataFrame] = []
    for name, alternative in alternatives.items():
        gadgets: list[Gadget] = [
            kind(prior, alternative=alternative, **gifts)
            for kind, gifts in KINDS
            for prior in (NoPrior(), UniformPrior(), BlueprintPrior())
        ]
        found = refine(tree, "flop", blueprint, gadgets, solver=solver, **asked).table
        rules = [gifts.get("gifts", "none") for _, gifts in KINDS for _ in range(3 * blueprint.num_lanes)]
        error = dict(zip(blueprint.labels, errors[name], strict=True))
        tables.append(found.assign(alternative=name, error=found["blueprint"].map(error), gifts=rules))
    plain = refine(tree, "flop", blueprint, Unsafe(), solver=solver, **asked).table
    tables.append(plain.assign(alternative="none", error=np.nan, gifts="none"))
    tables.append(optimum.table.assign(alternative="none", error=np.nan, gifts="none"))
    frame = pd.concat(tables, ignore_index=True)
    most = dict(zip(blueprint.labels, optimum.refined_exploitability, strict=True))
    columns = [
        "blueprint",
        "gadget",
        "prior",
        "epsilon",
        "alternative",
        "gifts",
        "error",
        "blueprint_exploitability",
    ]
    columns += ["refined_exploitability", "gap_max", "failure"]
    return frame[columns].assign(optimum=frame["blueprint"].map(most), histories=tree.num_histories)


def key_numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """With `solved`, the gadget with its gifts; `over`, exploitability above the optimum for the subgames."""
    gadget = frame["gadget"].where(
        frame["gifts"].isin(["none", "lower-bound"]), frame["gadget"] + ", estimated gifts"
    )
    over = (frame["refined_exploitability"] - frame["optimum"]).clip(lower=0)
    return frame.assign(solved=gadget, over=over)


def summarise(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Exploitability of the game that is finer after the flop; all subgames there re-solved.

    `over` is exploitability above `optimum`, that of the best strategy that differs from the blueprint only
    in the subgames. Means are geometric, over games and players.
    """
    frame = key_numbers(frame)
    solved = frame[frame["alternative"] != "none"]
    tables: dict[str, pd.DataFrame] = {}
    for column, title in (("refined_exploitability", "Exploitability"), ("over", "Over the optimum")):
        for prior in ("none", "uniform", "blueprint"):
            part = solved[solved["prior"] == prior]
            means = part.groupby(["blueprint", "alternative", "solved"], sort=False)[column].apply(mean)
            tables[f"{title}, prior {prior}"] = means.unstack("solved").reset_index()
    rest = frame[frame["alternative"] == "none"].groupby(["blueprint", "gadget"], sort=False)
    starts = frame.groupby("blueprint", sort=False)["blueprint_exploitability"].apply(mean)
    others = rest["refined_exploitability"].apply(mean).unstack("gadget")
    others.insert(0, "translated blueprint", starts)
    tables["Exploitability of what is not solved so"] = others.reset_index()
    tables["Theorem 2: max-margin without a prior"] = theorem(frame)
    tables["Which of two is better, all priors"] = pairs(frame)
    tables["With a prior and without"] = priors(frame)
    return tables


def theorem(frame: pd.DataFrame) -> pd.DataFrame:
    """Maxima by blueprint and kind of values: Δ, its bound above the optimum, and the actual loss."""
    part = frame[(frame["solved"] == "max-margin") & (frame["prior"] == "none")]
    allowed = 2 * part["error"] + part["gap_max"]
    part = part.assign(allowed=allowed, broken=part["over"] > allowed + 1e-6)
    rows = part.groupby(["blueprint", "alternative"], sort=False)
    return rows.agg(
        error=("error", "max"), allowed=("allowed", "max"), over=("over", "max"), broken=("broken", "sum")
    ).reset_index()


PAIRS = (
    ("resolving", "max-margin"),
    ("reach-resolving", "resolving"),
    ("reach-resolving, estimated gifts", "resolving"),
    ("reach-max-margin, estimated gifts", "max-margin"),
)
CLOSE = 1e-3
"""Exploitabilities count as equal up to this difference [antes]."""


def pairs(frame: pd.DataFrame) -> pd.DataFrame:
    """Cases in which the first gadget is less exploitable than the second by more than a thousandth."""
    keys = ["game", "player", "blueprint", "prior", "alternative"]
    asked = frame[frame["alternative"].isin([BEST_RESPONSE, ESTIMATE])]
    wide = asked.pivot(index=keys, columns="solved", values="refined_exploitability")
    rows: list[dict[str, Any]] = []
    for first, second in PAIRS:
        for (alternative, blueprint), part in wide.groupby(level=["alternative", "blueprint"], sort=False):
            names = {"first": first, "second": second, "alternative": alternative, "blueprint": blueprint}
            rows.append(names | _compared(part[first], part[second]))
    return pd.DataFrame(rows)


def priors(frame: pd.DataFrame) -> pd.DataFrame:
    """The same for a gadget with a prior and without."""
    keys = ["game", "player", "blueprint", "alternative", "solved"]
    asked = frame[frame["alternative"] != "none"]
    wide = asked.pivot(index=keys, columns="prior", values="refined_exploitability")
    rows: list[dict[str, Any]] = []
    for (solved, alternative), part in wide.groupby(level=["solved", "alternative"], sort=False):
        for prior in ("uniform", "blueprint"):
            names = {"solved": solved, "alternative": alternative, "prior": prior}
            rows.append(names | _compared(part[prior], part["none"]))
    return pd.DataFrame(rows)


def _compared(first: pd.Series, second: pd.Series) -> dict[str, Any]:
    difference = first - second
    return {
        "better": int((difference < -CLOSE).sum()),
        "worse": int((difference > CLOSE).sum()),
        "of": len(difference),
        "times": mean(first) / mean(second),
    }


SHOWN = {
    "resolving": ("#0072B2", "o"),
    "reach-resolving, estimated gifts": ("#56B4E9", "s"),
    "max-margin": ("#D55E00", "^"),
    "reach-max-margin, estimated gifts": ("#E69F00", "v"),
}


def draw(frame: pd.DataFrame) -> Figure:
    """Every game and player, and geometric means, by kind of alternative values; one panel per blueprint."""
    frame = key_numbers(frame)
    frame = frame[(frame["prior"] == "none") & (frame["alternative"] != "none")]
    kinds = (BEST_RESPONSE, ESTIMATE, OPTIMUM)
    names = [name for name in ("cfr:10", "cfr:100", EQUILIBRIUM) if name in set(frame["blueprint"])]
    figure, axes = make_axes(len(names), 3, (3.2, 3.6))
    for ax, name in zip(axes, names, strict=True):
        part = frame[frame["blueprint"] == name]
        is_drawn = part["solved"].isin(list(SHOWN)) & part["alternative"].isin(kinds)
        at_edge_note(ax, int((is_drawn & (part["over"] < common.LEAST)).sum()), common.LEAST, below=True)
        for number, (solved, (color, marker)) in enumerate(SHOWN.items()):
            for place, kind in enumerate(kinds):
                found = part[(part["solved"] == solved) & (part["alternative"] == kind)]["over"]
                at = place + 0.18 * (number - 1.5)
                style: dict[str, Any] = {"color": color, "marker": marker, "linestyle": "none"}
                values = found.clip(lower=common.LEAST)
                ax.plot([at] * len(values), values, markersize=3, alpha=0.45, **style)
                label = solved if place == 0 else None
                ax.plot([at], [mean(found)], markersize=8, markeredgecolor="white", label=label, **style)
        ax.set_yscale("log")
        ax.set_xticks(range(len(kinds)), kinds)
        ax.set_title(f"blueprint {name}", fontsize=9)
        ax.set_ylabel("Exploitability over the optimum [antes]", fontsize=8)
        ax.tick_params(labelsize=7)
        ax.legend(fontsize=7)
    one_legend(figure, axes, 2)
    return figure
