"""Figure 5 of "Solving games using decomposition": an abstract strategy's subgames, re-solved.

Leduc is solved with a board abstraction: a player with a Jack cannot distinguish a Queen from a King on the
board, nor a player with a King a Jack from a Queen. The lifted strategy plays the first betting round; the
five subgames below it are re-solved without the abstraction, safely (the opponent may take its counterfactual
best-response value instead) and unsafely (it enters as the abstract strategy does).

Abstract equilibria are not unique, and the paper does not identify its own; therefore several from different
algorithms are re-solved. Exploitability is the paper's: the average of both players' losses to a best
response, `nash_conv / 2`, in chips per hand.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.common import tree_of
from experiments.decomposition.common import PAPER, SAFE, UNSAFE, ranks, resolve_both
from experiments.study import Settings
from jaxgadget import (
    HistoryTree,
    NoPrior,
    Policy,
    Resolving,
    Solver,
    Unsafe,
    enumerate_game,
    evaluate_policy,
    game_value,
    nash_conv,
    solve,
)
from jaxgadget.games.abstraction import Abstraction
from jaxgadget.policy.lift import lift
from jaxgadget.util.lanes import Lanes

NAME = "figure5"
JACK, KING = 0, 2

EQUILIBRIA = (("cfr", 200_000), ("cfr+", 20_000), ("dcfr", 20_000), ("linear-cfr", 50_000), ("pcfr+", 20_000))
"""Algorithms and iterations that solve the abstract game; the first one's curves are drawn."""

ITERATIONS = (50, 71, 100, 141, 200, 283, 400, 566, 800, 1131, 1600, 2000, 2828, 4000, 6250, 8000, 10_000)

METHODS = {"safe": Resolving(NoPrior()), "unsafe": Unsafe()}

COLUMNS = (
    "blueprint",
    "method",
    "iterations",
    "abstract_nash_conv",
    "blueprint_exploitability",
    "value_against_blueprint",
    "exploitability",
    "exploitability_bound",
    "largest_gap",
)


def board_texture(player: int, infostate: str) -> str:
    """The paper's abstraction: with a Jack or a King, the boards that do not pair it are merged."""
    text = ranks(player, infostate)
    held, board = re.search(r"Private: (\d)", text), re.search(r"Public: (\d)", text)
    if held and board and int(held[1]) in (JACK, KING) and held[1] != board[1]:
        text = text.replace(board[0], "Public: other")
    return text


def abstract_equilibria(
    tree: HistoryTree, equilibria: tuple[tuple[str, int], ...]
) -> tuple[Policy, dict[str, float]]:
    """Equilibria of the abstract game, lifted, a lane each; and NashConv of each in the abstract game."""
    abstract = enumerate_game(Abstraction(tree.game, board_texture))
    solutions = [
        solve(abstract, solver=Solver(algorithm=name, iterations=n, progress=False)) for name, n in equilibria
    ]
    lifted = Policy.stack([lift(solution.policy, tree) for solution in solutions])
    return lifted, {s.policy.labels[0]: s.nash_conv for s in solutions}


def resolve(tree: HistoryTree, blueprint: Policy, solved: dict[str, float], iterations: int) -> pd.DataFrame:
    """A row for every blueprint and method, after one number of iterations."""
    gadgets = tuple(METHODS.values())
    profile, refinements = resolve_both(
        tree, "before-flop", blueprint, (gadgets, gadgets), iterations=iterations, value=game_value(tree)
    )
    original = Policy.stack([blueprint] * len(gadgets))
    seats = [
        evaluate_policy(Policy(tree, pair, original.labels)).value
        for pair in (
            (profile.probabilities[0], original.probabilities[1]),
            (original.probabilities[0], profile.probabilities[1]),
        )
    ]
    value = (seats[0] - seats[1]) / 2
    exploitability = nash_conv(profile) / 2
    before = nash_conv(blueprint) / 2
    bound = sum(r.exploitability_bound for r in refinements) / 2
    gap = np.max([r.gap.max(axis=0) for r in refinements], axis=0)
    rows: list[dict[str, Any]] = []
    lanes = Lanes.product(gadgets=len(METHODS), blueprints=blueprint.num_lanes)
    for lane, (method, number) in enumerate(zip(lanes.gadget, lanes.blueprint, strict=True)):
        label = blueprint.labels[number]
        numbers = (
            label,
            list(METHODS)[method],
            iterations,
            solved[label],
            before[number],
            value[lane],
            exploitability[lane],
            bound[lane],
            gap[lane],
        )
        rows.append(dict(zip(COLUMNS, numbers, strict=True)))
    return pd.DataFrame(rows)


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every abstract equilibrium, method and number of iterations."""
    equilibria = settings.pick(EQUILIBRIA, (("cfr+", 60),))

    @functools.cache
    def solved() -> tuple[Policy, dict[str, float]]:
        return abstract_equilibria(tree_of("leduc_poker"), equilibria)

    def measure(key: dict[str, Any]) -> pd.DataFrame:
        return resolve(tree_of("leduc_poker"), *solved(), key["iterations"])

    keys = [{"iterations": count} for count in settings.pick(ITERATIONS, (5, 20))]
    rows = settings.gather(NAME, keys, measure)
    return rows.sort_values(["blueprint", "method", "iterations"], ignore_index=True)


def draw(frame: pd.DataFrame) -> Figure:
    """Value against the abstract strategy above, exploitability below; a band over all equilibria."""
    main = ":".join(map(str, EQUILIBRIA[0]))
    drawn = main if main in set(frame["blueprint"]) else frame["blueprint"].iloc[0]
    figure = Figure(figsize=(7.2, 5.8), layout="constrained")
    axes: Any = figure.subplots(2, 1, sharex=True)
    top, bottom = axes
    for method, color in (("safe", SAFE), ("unsafe", UNSAFE)):
        for ax, column in ((top, "value_against_blueprint"), (bottom, "exploitability")):
            _curve(ax, frame[frame["method"] == method], drawn, column, color, f"{method}, from {drawn}")
    top.axhline(0, color="#999999", linewidth=0.8)
    top.set_ylabel("Value against the abstract strategy\n[chips per hand]", fontsize=9)
    original = frame.loc[frame["blueprint"] == drawn, "blueprint_exploitability"].iloc[0]
    bottom.axhline(original, color="#000000", linewidth=0.9, linestyle="--", label="abstract strategy")
    bottom.set_ylabel("Exploitability, NashConv / 2\n[chips per hand]", fontsize=9)
    bottom.set_xlabel("CFR iterations in every re-solving game", fontsize=9)
    _paper(bottom)
    for ax in (top, bottom):
        ax.set_xscale("log")
        ax.grid(True, color="#DDDDDD", linewidth=0.5)
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=8)
        ax.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0)
    return figure


def _curve(ax: Axes, rows: pd.DataFrame, drawn: str, column: str, color: str, label: str) -> None:
    """One equilibrium's curve, and the range over all of them."""
    spread = rows.groupby("iterations")[column].agg(["min", "max"])
    shade = f"{label.partition(',')[0]}, all {rows['blueprint'].nunique()} abstract equilibria"
    ax.fill_between(
        spread.index, spread["min"], spread["max"], color=color, alpha=0.18, linewidth=0, label=shade
    )
    line = rows[rows["blueprint"] == drawn].sort_values("iterations")
    ax.plot(
        line["iterations"], line[column], color=color, marker="o", markersize=3, linewidth=1.2, label=label
    )


def _paper(ax: Axes) -> None:
    """The numbers in the paper's text; a range read off its safe curve after 2,000."""
    ax.axhline(0.382, color=PAPER, linewidth=0.9, linestyle=":", label="abstract strategy, paper")
    look: dict[str, Any] = {"marker": "s", "markerfacecolor": "none", "linestyle": "none"}
    ax.plot([200], [0.33], color=SAFE, **look, label="safe, paper: within 200")
    ax.plot(
        [2000, 2000], [0.23, 0.29], color=SAFE, marker="_", linewidth=1.5, label="safe, paper: after 2,000"
    )
    ax.plot([6250], [0.39], color=UNSAFE, **look, label="unsafe, paper: after 6,250")


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Re-solved abstract strategies in Leduc, after some numbers of iterations; in chips per hand."""
    shown = frame[frame["iterations"].isin((200, 2000, 6250, 10_000))]
    return (frame if shown.empty else shown)[[*COLUMNS[:3], *COLUMNS[4:7]]]
