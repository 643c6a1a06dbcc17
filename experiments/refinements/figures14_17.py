"""Figures 14 to 17: paired t-tests between all methods, from the data of Figure 2."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from experiments.common import make_axes, panels, titled
from experiments.study import Settings
from jaxgadget.report import paired_t_tests, pairwise_heatmap

NAME = "figures14_17"
NUMBERS = {
    ("goofspiel", "depth:1"): 14,
    ("goofspiel", "depth:2"): 15,
    ("leduc_poker", "flop"): 16,
    ("liars_dice", "depth:1"): 17,
}


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, cut and pair of methods: 1 − p that the row is less exploitable on average."""
    frame = settings.data_of("figure2", NAME)
    rows: list[pd.DataFrame] = []
    for (game, cut), part in panels(frame, ("game", "cut")):
        matrix = paired_t_tests(part)
        long = (
            matrix.rename_axis(index="row", columns="column").stack().dropna().rename("likely").reset_index()
        )
        pairs = len(part) // len(matrix)
        rows.append(long.assign(game=game, cut=cut, pairs=pairs))
    return pd.concat(rows, ignore_index=True)[["game", "cut", "row", "column", "likely", "pairs"]]


def draw(frame: pd.DataFrame) -> Figure:
    """A heat map for every game and cut."""
    groups = panels(frame, ("game", "cut"))
    figure, axes = make_axes(len(groups), 2, (6.4, 5.2))
    for ax, ((game, cut), part) in zip(axes, groups, strict=True):
        number = NUMBERS.get((game.partition("(")[0], cut))
        title = f"{titled(game, cut)}, {part['pairs'].iloc[0]} pairs"
        pairwise_heatmap(matrix_of(part), ax, title=f"Figure {number}: {title}" if number else title)
    return figure


def matrix_of(likely: pd.DataFrame) -> pd.DataFrame:
    """Restores the square table, in order of appearance."""
    names = list(dict.fromkeys([*likely["row"], *likely["column"]]))
    return likely.pivot(index="row", columns="column", values="likely").reindex(index=names, columns=names)


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Numbers of other methods that a method beats : is beaten by (1 − p above 0.95, of that many tests)."""
    where = [titled(game, cut) for game, cut in zip(frame["game"], frame["cut"], strict=True)]
    table = frame.assign(where=where, wins=frame["likely"] > 0.95, losses=frame["likely"] < 0.05)
    counts = table.groupby(["row", "where"], sort=False)[["wins", "losses"]].sum()
    text = counts["wins"].astype(str) + " : " + counts["losses"].astype(str)
    return text.unstack().reset_index()
