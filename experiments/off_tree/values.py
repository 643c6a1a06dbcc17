"""Accuracy of an abstraction's value and of its strategy, from the data of the other experiments."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from experiments.common import make_axes
from experiments.off_tree import games, menus
from experiments.off_tree.common import COLORS, EQUILIBRIUM, MARKERS, TRANSLATIONS, short
from experiments.study import Settings

NAME = "values"
STRATEGIES = {
    "translated": (TRANSLATIONS[0], None),
    "inexpensive": ("inexpensive", "resolving"),
    "expensive": ("expensive", "resolving"),
}
"""Method and gadget without a prior, by column."""


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, menu and seat, all in antes, of an exact equilibrium of the abstraction.

    `value_error`: the difference between its value and that of the game; the others are exploitabilities.
    """
    frame = pd.concat([settings.data_of(source.NAME, NAME) for source in (games, menus)], ignore_index=True)
    frame = frame[frame["blueprint"] == EQUILIBRIUM]
    keys = ["game", "menu", "menu_size", "player"]
    table = frame.groupby(keys, sort=False).agg(
        game_value=("game_value", "first"),
        value_error=("on_menu", lambda column: abs(column.iloc[0])),
        menu_exploitability=("menu_exploitability", "first"),
    )
    for name, (method, gadget) in STRATEGIES.items():
        rows = frame[frame["method"] == method]
        if gadget is not None:
            rows = rows[(rows["gadget"] == gadget) & (rows["prior"] == "none")]
        table[name] = rows.set_index(keys)["exploitability"]
    return table.reset_index().drop_duplicates(keys)


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Antes; `times`: the exploitability of translation over the error of the value.

    `menu`: the least exploitability of a defender restricted to the menu.
    """
    table = frame.assign(game=frame["game"].map(short), times=frame["translated"] / frame["value_error"])
    return table.rename(columns={"menu_exploitability": "menu's best"}).drop(columns="menu_size")


def draw(frame: pd.DataFrame) -> Figure:
    """Exploitabilities by the error of the value; one point per game, menu and player."""
    figure, (ax,) = make_axes(1, 1, (5.2, 4.0))
    for name, (method, _) in STRATEGIES.items():
        style = {"color": COLORS[method], "marker": MARKERS[method]}
        ax.scatter(frame["value_error"], frame[name], s=24, alpha=0.8, label=name, **style)
    ends = [frame["value_error"].min() / 1.5, frame["value_error"].max() * 1.5]
    ax.plot(ends, ends, color="black", linewidth=0.8, linestyle=":", label="alike")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("Error of the abstraction's value [antes]", fontsize=8)
    ax.set_ylabel("Exploitability of its strategy [antes]", fontsize=8)
    ax.tick_params(labelsize=7)
    ax.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return figure
