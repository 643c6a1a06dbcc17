"""The tables of the README, in Markdown, from the data of the convergence study."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from experiments.convergence.methods import METHODS

LANE = ["case", "player", "gadget", "family", "prior", "epsilon", "blueprint"]
BASE = "CFR+ linear"
KINDS = ("resolving", "max-margin")
SLACK, FLOOR = 2.0, 1e-6
"""A lane is worse if it is worse than CFR+'s by this factor, and further off than this share of the range."""


def summarise(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Goals (a) and (b): a gap within 1e-3, a value within 1e-5 of the optimum, in payoff ranges."""
    average = frame[frame["strategy"] == "average"]
    own = average[(average["family"] == "priors") & (average["player"] == 0)]
    names = [m for m in METHODS if m in set(own["method"])]
    wide = [m for m in names if own.loc[own["method"] == m, "case"].nunique() == own["case"].nunique()]
    few = own[own["case"].isin(own.loc[~own["method"].isin(wide), "case"].unique())]
    parts = [("All games, player 0", _main(own, wide)), ("Cheap games, player 0", _short(few, names))]
    other = average[(average["family"] == "priors") & (average["player"] == 1)]
    if len(other):
        parts.append(("Player 1", _short(other, list(dict.fromkeys(other["method"])))))
    parts += [
        ("More exploitable than the exact solution", _excess(own, wide)),
        ("The same, cheap games", _excess(few, names, by_method=True)),
        ("Hardest blueprint", _lanes(own[own["blueprint"] == "geometric:2.0"], wide)),
        ("What is returned", _strategies(frame, wide)),
        ("Prior scales", _scales(average[average["family"] == "scales"])),
        ("Worse than CFR+", _worse(own, wide)),
    ]
    return dict(parts)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> pd.DataFrame:
    return pd.DataFrame([list(row) for row in rows], columns=list(header))


def _each(frame: pd.DataFrame, methods: Sequence[str], row: Callable[[pd.DataFrame], list[str]]) -> list:
    rows: list[list[str]] = []
    for kind in KINDS:
        for method in methods:
            lanes = frame[(frame["gadget"] == kind) & (frame["method"] == method)]
            if len(lanes):
                rows.append([kind, method, *row(lanes)])
    return rows


def _goal(frame: pd.DataFrame, goal: str) -> list[str]:
    """Shares reached within 500, within 5,000 and at the end, the median and the worst."""
    t = frame[goal].to_numpy(float)
    shares = [(t <= 500).mean(), (t <= 5_000).mean(), np.isfinite(t).mean()]
    filled = np.where(np.isfinite(t), t, np.inf)
    middle, worst = np.quantile(filled, 0.5, method="lower"), filled.max()
    return [*(f"{100 * s:.0f} %" for s in shares), *(_count(x) for x in (middle, worst))]


def _count(x: float) -> str:
    return f"{x:,.0f}" if np.isfinite(x) else "not reached"


def _mean(x: pd.Series) -> str:
    return f"{np.exp(np.log(np.clip(x.to_numpy(float), 1e-12, None)).mean()):.1e}"


def _compare(frame: pd.DataFrame, base: pd.DataFrame, column: str) -> pd.Series:
    """A method's numbers over those of CFR+, for each lane; 1 if both are below `FLOOR`."""
    own, others = (f.set_index(LANE)[column].astype(float).clip(lower=FLOOR) for f in (frame, base))
    return own / others.reindex(own.index)


def _main(frame: pd.DataFrame, methods: Sequence[str]) -> pd.DataFrame:
    header = ["gadget", "method"]
    for goal in ("(a)", "(b)"):
        header += [f"{goal} ≤ 500", "≤ 5,000", "to the end", "median", "worst"]
    header += ["mean loss at 5,000"]

    def row(lanes: pd.DataFrame) -> list[str]:
        return [*_goal(lanes, "gap_iterations"), *_goal(lanes, "loss_iterations"), _mean(lanes["loss_5000"])]

    return _table(header, _each(frame, methods, row))


def _short(frame: pd.DataFrame, methods: Sequence[str]) -> pd.DataFrame:
    header = ["gadget", "method", "(a) ≤ 500", "(a) median", "(b) ≤ 500", "(b) ≤ 5,000", "(b) median"]
    header += ["mean loss at 500", "at 5,000", "largest", "largest gap at 5,000"]

    def row(lanes: pd.DataFrame) -> list[str]:
        gap, loss = (_goal(lanes[["gap_iterations", "loss_iterations"]], g) for g in _GOALS)
        means = [_mean(lanes["loss_500"]), _mean(lanes["loss_5000"])]
        most = [f"{lanes[c].max():.1e}" for c in ("loss_5000", "gap_5000")]
        return [gap[0], gap[3], loss[0], loss[1], loss[3], *means, *most]

    return _table(header, _each(frame, methods, row))


_GOALS = ("gap_iterations", "loss_iterations")


def _lanes(frame: pd.DataFrame, methods: Sequence[str]) -> pd.DataFrame:
    rows = frame.pivot_table(
        index=["case", "gadget", "prior", "epsilon"],
        columns="method",
        values="loss_iterations",
        aggfunc=lambda x: x.fillna(np.inf).iloc[0],
        dropna=False,
    ).dropna(how="all")
    shown = [m for m in methods if m in rows.columns]
    body = [
        [*(str(k) for k in key[:3]), f"{key[3]:g}", *map(_count, row)]
        for key, row in zip(rows.index, rows[shown].to_numpy(float), strict=True)
    ]
    return _table(["game", "gadget", "prior", "ε", *shown], body)


def _excess(frame: pd.DataFrame, methods: Sequence[str], by_method: bool = False) -> pd.DataFrame:
    """Mean exploitability after 5,000 iterations minus that of the exact solution, in units of payoff."""
    frame = frame.assign(excess=frame["exploitability"] - frame["exact_exploitability"])
    rows = frame.pivot_table(index=["case", "gadget", "epsilon"], columns="method", values="excess")
    rows = rows[[m for m in methods if m in rows.columns]]
    if by_method:
        body = [[name, *(f"{x:.4f}" for x in row)] for name, row in rows.T.iterrows()]
        return _table(["method", *(f"{c}, {g}, {e:g}" for c, g, e in rows.index)], body)
    body = [[*map(str, key), *(f"{x:.4f}" for x in row)] for key, row in rows.iterrows()]
    return _table(["game", "gadget", "ε", *rows.columns], body)


def _strategies(frame: pd.DataFrame, methods: Sequence[str]) -> pd.DataFrame:
    header = ["gadget", "method", *(f"{w}: (b) ≤ 5,000, mean, largest loss" for w in _KINDS_OF_AVERAGE)]
    own = frame[(frame["family"] == "priors") & (frame["player"] == 0)]

    def row(lanes: pd.DataFrame) -> list[str]:
        cells: list[str] = []
        for what in _KINDS_OF_AVERAGE:
            shown = lanes[lanes["strategy"] == what]
            share = (shown["loss_iterations"] <= 5_000).mean()
            cells.append(f"{100 * share:.0f} %, {_mean(shown['loss_5000'])}, {shown['loss_5000'].max():.1e}")
        return cells

    return _table(header, _each(own, methods, row))


_KINDS_OF_AVERAGE = ("average", "half", "better", "last")


def _scales(frame: pd.DataFrame) -> pd.DataFrame:
    header = ["game", "gadget", "prior", "ε", "method", "(a) median", "(b) ≤ 5,000", "(b) median"]
    header += ["mean loss at 5,000", "mean exploitability at 5,000"]
    rows: list[list[str]] = []
    keys = ["case", "gadget", "prior", "epsilon", "method"]
    for (case, kind, prior, epsilon, method), lanes in frame.groupby(keys, sort=False):
        gap, loss = (_goal(lanes, goal) for goal in _GOALS)
        means = [_mean(lanes["loss_5000"]), f"{lanes['exploitability'].mean():.4f}"]
        rows.append([case, kind, prior, f"{epsilon:g}", method, gap[3], loss[1], loss[3], *means])
    return _table(header, rows)


def _worse(frame: pd.DataFrame, methods: Sequence[str]) -> pd.DataFrame:
    header = ["method", "lanes", "loss at 5,000: worse", "worst factor", "better", "gap at 5,000: worse"]
    header += ["worst factor", "better", "exploitability: worst difference", "best", "worst lane by loss"]
    base, rows = frame[frame["method"] == BASE], []
    for method in (m for m in methods if m != BASE):
        lanes = frame[frame["method"] == method]
        cells = [method, str(len(lanes))]
        ratios = [_compare(lanes, base, column) for column in ("loss_5000", "gap_5000")]
        for ratio in ratios:
            cells += [f"{(ratio > SLACK).sum()}", f"{ratio.max():.1f}", f"{(ratio < 1 / SLACK).sum()}"]
        more = lanes.set_index(LANE)["exploitability"] - base.set_index(LANE)["exploitability"]
        cells += [f"{more.max():+.4f}", f"{more.min():+.4f}"]
        worst = ratios[0].astype(float)
        lane = worst.idxmax() if worst.notna().any() else ("none",) * len(LANE)
        cells.append(
            ", ".join(str(lane[LANE.index(k)]) for k in ("case", "gadget", "prior", "epsilon", "blueprint"))
        )
        rows.append(cells)
    return _table(header, rows)
