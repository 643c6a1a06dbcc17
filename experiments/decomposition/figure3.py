"""Figure 3 of "Solving games using decomposition": an equilibrium's subgames, discarded and re-solved.

Leduc is solved until the equilibrium's exploitability is below 2.5e-11 chips per hand, as in the paper; by
predictive CFR+ on the game without suits, which is equivalent. Then only the strategy of the first betting
round is stored, and for each infostate of either player at the start of the five subgames its counterfactual
best-response value. All subgames are re-solved from these for both players, safely (with the values) and
unsafely (without). Exploitability is `nash_conv / 2`, in chips per hand.

The level at which the unsafe method stalls depends on the equilibrium, of which there are many, and the paper
does not identify its own; therefore others, found by other algorithms and less exact, are re-solved, too.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
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
    best_response,
    enumerate_game,
    evaluate_policy,
    solve,
)
from jaxgadget.gadgets.alternative import ArrayValues
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.games.abstraction import Abstraction
from jaxgadget.policy.lift import lift
from jaxgadget.tree.forest import build_forest
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.lanes import Lanes

NAME = "figure3"
CUT = "before-flop"
MAIN = "pcfr+"
EQUILIBRIA: dict[str, tuple[str, int, float | None]] = {
    MAIN: ("pcfr+", 5_000_000, 5e-11),
    "cfr": ("cfr", 100_000, None),
    "cfr+": ("cfr+", 50_000, None),
    "dcfr": ("dcfr", 20_000, None),
    "linear-cfr": ("linear-cfr", 50_000, None),
}
"""Algorithm, iterations, and the target NashConv: twice the exploitability of the paper's equilibrium."""

SMOKE_EQUILIBRIA: dict[str, tuple[str, int, float | None]] = {MAIN: ("pcfr+", 10_000, 1e-2)}

ITERATIONS = tuple(100 * 2**k for k in range(12))
SEVERAL = 12_800
"""Up to this number of iterations all equilibria are re-solved, beyond it only the main one."""

METHODS = ("safe", "unsafe")
COLUMNS = (
    "equilibrium",
    "method",
    "iterations",
    "equilibrium_exploitability",
    "exploitability",
    "exploitability_bound",
    "largest_gap",
)


def find_equilibria(tree: HistoryTree, wanted: Mapping[str, tuple[str, int, float | None]]) -> Policy:
    """Equilibria of Leduc, a lane each, found in the game without suits."""
    abstract = enumerate_game(Abstraction(tree.game, ranks))
    lifted: list[Policy] = []
    for algorithm, iterations, target in wanted.values():
        solution = solve(
            abstract,
            solver=Solver(
                algorithm=algorithm,
                iterations=iterations,
                target_gap=target,
                check_every=10_000,
                progress=False,
            ),
        )
        lifted.append(lift(solution.policy, tree))
    return Policy(tree, Policy.stack(lifted).probabilities, tuple(wanted))


def root_values(tree: HistoryTree, policy: Policy, resolver: int) -> FloatArray:
    """`[R, lanes]` the resolving player's worst-case value at the opponent's root infostates.

    In Leduc the opponent acts below every root before the game ends, so the value of a root is the sum over
    its first infosets, each weighted by chance's and the resolver's reach.
    """
    opponent = 1 - resolver
    forest = build_forest(tree, CUT)
    below = forest.infosets(opponent)
    infosets = tree.infosets[opponent]
    total = np.zeros((infosets.num_sequences, policy.num_lanes))
    np.add.at(total, infosets.parent[below], best_response(policy, opponent).infoset_values[below])
    return -total[forest.roots[opponent].sequence]


def discard_subgames(tree: HistoryTree, policy: Policy) -> Policy:
    """The policies with uniform rows below the cut."""
    forest, uniform = build_forest(tree, CUT), Policy.stack([Policy.uniform(tree)] * policy.num_lanes)
    kept = policy.splice(0, forest.infosets(0), uniform).splice(1, forest.infosets(1), uniform)
    return Policy(tree, kept.probabilities, policy.labels)


def make_gadgets(values: FloatArray) -> tuple[Gadget, ...]:
    """The safe gadget, with the stored values of the equilibrium, and the unsafe one."""
    return Resolving(NoPrior(), alternative=ArrayValues(values)), Unsafe()


def resolve(tree: HistoryTree, equilibria: Policy, iterations: int) -> pd.DataFrame:
    """A row for every equilibrium and method, after one number of iterations."""
    first, second = (make_gadgets(root_values(tree, equilibria, player)) for player in (0, 1))
    before = evaluate_policy(equilibria).nash_conv
    profile, refinements = resolve_both(
        tree,
        CUT,
        discard_subgames(tree, equilibria),
        (first, second),
        iterations=iterations,
        value=(0.0, 0.0),  # has no effect on NashConv
    )
    exploitability = evaluate_policy(profile).nash_conv / 2
    gap = np.stack([refinement.gap for refinement in refinements])
    rows: list[dict[str, Any]] = []
    lanes = Lanes.product(gadgets=len(METHODS), blueprints=equilibria.num_lanes)
    for lane, (method, number) in enumerate(zip(lanes.gadget, lanes.blueprint, strict=True)):
        bound = (before[number] + gap[:, :, lane].sum()) / 2 if METHODS[method] == "safe" else np.nan
        numbers = (
            equilibria.labels[number],
            METHODS[method],
            iterations,
            before[number] / 2,
            exploitability[lane],
            bound,
            gap[:, :, lane].max(),
        )
        rows.append(dict(zip(COLUMNS, numbers, strict=True)))
    return pd.DataFrame(rows)


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every equilibrium, method and number of iterations."""
    equilibria = settings.pick(EQUILIBRIA, SMOKE_EQUILIBRIA)

    @functools.cache
    def solved() -> Policy:
        return find_equilibria(tree_of("leduc_poker"), equilibria)

    def measure(key: dict[str, Any]) -> pd.DataFrame:
        wanted = equilibria if key["iterations"] <= SEVERAL else [MAIN]
        return resolve(
            tree_of("leduc_poker"), Policy.stack([solved().lane(name) for name in wanted]), key["iterations"]
        )

    keys = [{"iterations": count} for count in settings.pick(ITERATIONS, (5, 80))]
    rows = settings.gather(NAME, keys, measure)
    return rows.sort_values(["equilibrium", "method", "iterations"], ignore_index=True)


def draw(frame: pd.DataFrame) -> Figure:
    """Exploitability against iterations, both axes logarithmic."""
    figure = Figure(figsize=(5.6, 3.9), layout="constrained")
    ax = figure.subplots()
    main, count = frame[frame["equilibrium"] == MAIN], frame["equilibrium"].nunique()
    for method, color in (("safe", SAFE), ("unsafe", UNSAFE)):
        shaded = frame[(frame["method"] == method) & (frame["iterations"] <= SEVERAL)]
        spread = shaded.groupby("iterations")["exploitability"].agg(["min", "max"])
        shade = f"{method}, {count} equilibria"
        ax.fill_between(spread.index, spread["min"], spread["max"], color=color, alpha=0.2, lw=0, label=shade)
        rows = main[main["method"] == method].sort_values("iterations")
        ax.plot(
            rows["iterations"], rows["exploitability"], color=color, marker="o", markersize=3, label=method
        )
    safe = main[main["method"] == "safe"].sort_values("iterations")
    ax.plot(
        safe["iterations"],
        safe["exploitability_bound"],
        color=SAFE,
        linestyle="--",
        linewidth=0.9,
        label="safe, bound",
    )
    ends = np.array([safe["iterations"].iloc[0], safe["iterations"].iloc[-1]])
    falls = safe["exploitability"].iloc[0] * np.sqrt(ends[0] / ends)
    ax.plot(ends, falls, color="#999999", linewidth=0.8, label=r"$\propto 1/\sqrt{T}$")
    ax.axhline(0.080, color=PAPER, linewidth=0.9, linestyle=":", label="unsafe, paper's limit")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("CFR iterations in every re-solving game", fontsize=9)
    ax.set_ylabel("Exploitability, NashConv / 2 [chips per hand]", fontsize=9)
    ax.grid(True, color="#DDDDDD", linewidth=0.5)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=8)
    ax.legend(fontsize=8, frameon=False)
    return figure


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Exploitability, NashConv / 2, of re-solved equilibria of Leduc after some numbers of iterations."""
    shown = frame[frame["iterations"].isin((100, SEVERAL, ITERATIONS[-1]))]
    return (frame if shown.empty else shown)[list(COLUMNS[:5])]
