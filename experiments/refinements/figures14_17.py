"""Figures 14 to 17: paired t-tests between all methods, from the data of Figure 2."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from experiments.refinements.common import Settings, make_axes, panels, titled
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
    frame = settings.data("figure2")
    if frame is None:
        raise ValueError("figures14_17 needs the data of figure2; run that experiment first")
    rows: list[pd.DataFrame] = []
    for (game, cut), mine in panels(frame, ("game", "cut")):
        matrix = paired_t_tests(mine)
        long = (
            matrix.rename_axis(index="row", columns="column").stack().dropna().rename("likely").reset_index()
        )
        pairs = len(mine) // len(matrix)
        rows.append(long.assign(game=game, cut=cut, pairs=pairs))
    return pd.concat(rows, ignore_index=True)[["game", "cut", "row", "column", "likely", "pairs"]]


def draw(frame: pd.DataFrame) -> Figure:
    """A heat map for every game and cut."""
    found = panels(frame, ("game", "cut"))
    figure, axes = make_axes(len(found), 2, (6.4, 5.2))
    for ax, ((game, cut), mine) in zip(axes, found, strict=True):
        number = NUMBERS.get((game.partition("(")[0], cut))
        title = f"{titled(game, cut)}, {mine['pairs'].iloc[0]} pairs"
        pairwise_heatmap(matrix_of(mine), ax, title=f"Figure {number}: {title}" if number else title)
    return figure


def matrix_of(mine: pd.DataFrame) -> pd.DataFrame:
    """The square table again, in order of appearance."""
    names = list(dict.fromkeys([*mine["row"], *mine["column"]]))
    return mine.pivot(index="row", columns="column", values="likely").reindex(index=names, columns=names)


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """How many of the others each method beats : is beaten by (1 − p above 0.95, of that many tests)."""
    where = [titled(game, cut) for game, cut in zip(frame["game"], frame["cut"], strict=True)]
    table = frame.assign(where=where, wins=frame["likely"] > 0.95, losses=frame["likely"] < 0.05)
    counts = table.groupby(["row", "where"], sort=False)[["wins", "losses"]].sum()
    text = counts["wins"].astype(str) + " : " + counts["losses"].astype(str)
    return text.unstack().reset_index()
