"""Solved spots of hold'em: a table, and the grid of 13 × 13 hands of a public node."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from jaxgadget.games.game import ACTOR_BIT, CHANCE
from jaxgadget.holdem.betting import PLAYERS
from jaxgadget.report.heatmap import draw_cells
from jaxgadget.report.layout import make_table
from jaxgadget.report.plots import save_picture
from jaxgadget.report.styles import own_axes, write_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.table import Table

    from jaxgadget.holdem.betting import BettingTree
    from jaxgadget.holdem.solution import SpotSolution

SIZE = (6.4, 6.4)
"""Size of a grid in inches."""

FOLD, PASSIVE = "#56B4E9", "#009E73"
"""Colours of a fold, and of a check or call."""

BETS = ("#F0E442", "#E69F00", "#D55E00", "#CC79A7")
"""Colours of bets and raises, by their size on a logarithmic scale from `BET_SIZES[0]` to `BET_SIZES[1]`."""

BET_SIZES = (0.25, 2.0)
"""Sizes as fractions of the pot, of raises beyond the call."""

ALL_IN_COLOR = "#000000"
"""Colour of an all-in bet of any size."""

OUT_OF_RANGE = "#EEEEEE"
"""Colour of hands that are not in the range."""

Shown = Literal["strategy", "ev", "equity"]


def spots_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Table with one row per spot, from rows of `SpotSolution.to_row`."""
    table = make_table(
        "board",
        "EV oop",
        "EV ip",
        "exploitability",
        "iterations",
        "hands",
        "root",
        right=("EV oop", "EV ip", "exploitability", "iterations", "hands"),
        fold="root",
    )
    for row in rows:
        first, second = row["ev"]
        root = ", ".join(f"{action} {share:.3f}" for action, share in row["root"].items())
        hands = " × ".join(map(str, row["hands"]))
        table.add_row(
            row["board"],
            f"{first:.5g}",
            f"{second:.5g}",
            f"{row['exploitability']:.3g}",
            f"{row['iterations']:,}",
            hands,
            root,
        )
    return table


def refinements_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Table with one row per refinement, from rows of `SpotRefinement.to_row`."""
    numbers = ("blueprint", "refined", "bound", "margin", "gap", "iterations")
    table = make_table("board", "player", "gadget", "prior", "ε", *numbers, right=("ε", *numbers))
    for row in rows:
        chips = (
            "blueprint_exploitability",
            "refined_exploitability",
            "exploitability_bound",
            "margin",
            "gap",
        )
        table.add_row(
            row["board"],
            PLAYERS[row["player"]],
            row["gadget"],
            row["prior"],
            f"{row['epsilon']:g}",
            *(f"{row[name]:.3g}" for name in chips),
            f"{row['iterations']:,}",
        )
    return table


def hands_table(solution: SpotSolution, line: str = "", most: int | None = None) -> Table:
    """Table of the acting player's hands after a line, the most likely first: weight, actions, EV and equity.

    EVs and equities are those at the start of the spot.

    Args:
      solution: a solved spot.
      line: actions such as `check, bet 100`; by default the start.
      most: maximum number of hands; by default all.

    Raises:
      ValueError: if no player acts there.
    """
    frame = solution.to_frame(line)
    frame = frame.sort_values("weight", ascending=False, kind="stable").head(
        len(frame) if most is None else most
    )
    actions = [name for name in frame.columns if name not in ("hand", "weight", "ev", "equity")]
    numbers = ["weight", *actions, "EV at start", "equity at start"]
    table = make_table("hand", *numbers, right=numbers)
    for row in frame.to_dict("records"):
        shares = [f"{row[action]:.3f}" for action in actions]
        table.add_row(
            str(row["hand"]), f"{row['weight']:.2%}", *shares, f"{row['ev']:.5g}", f"{row['equity']:.3f}"
        )
    return table


def frequencies_table(solution: SpotSolution, line: str = "") -> Table:
    """Table of the tree below a line: the frequency of each action, and the share of play that reaches it.

    The share is relative to all play that reaches the line. If no play reaches an action, its frequency is
    computed against the other player's whole range (`SpotSolution.weights`). The tree ends where a card is
    dealt; to continue, pass a line that names the card.

    Raises:
      ValueError: if no player acts after the line.
    """
    betting = solution.spot.betting
    start = solution.pairs(line)
    table = make_table("action", "taken", "reached", "then", right=("taken", "reached"))
    solution.actor(line)  # raises if no player acts there

    def add(line: str, depth: int) -> None:
        player = PLAYERS[solution.actor(line)]
        for action, share in solution.frequencies(line).items():
            after = f"{line}, {action}" if line else action
            reached = solution.pairs(after) / start if start > 0 else 0.0
            node = solution.node(after)
            actor, then = int(betting.tree.actor[node]), betting.describe_end(node)
            if actor == CHANCE:
                then = f"{len(betting.children(node))} cards may follow"
            taken = "–" if np.isnan(share) else f"{share:.3f}"
            table.add_row(f"{'  ' * depth}{player} {action}", taken, f"{reached:.3f}", then)
            if actor in ACTOR_BIT:
                add(after, depth + 1)

    add(line, 0)
    return table


def grid_picture(
    solution: SpotSolution,
    line: str = "",
    ax: Axes | None = None,
    *,
    show: Shown = "strategy",
    title: str | None = None,
) -> Axes:
    """Draws the grid of the acting player's hands after a line, suited hands above the diagonal.

    A strategy is drawn as stripes, one for each action, with a height proportional to the weight of the
    cell's hands. An action has the same colour in every grid: fold, check or call, the size of a bet or raise
    relative to the pot, all-in. EVs (in chips) and equities, both at the start of the spot, are a heat map of
    means.

    Args:
      solution: a solved spot.
      line: actions such as `check, bet 100`; by default the start.
      ax: axes to draw on; by default the axes of a new pyplot figure.
      show: `strategy`, `ev` or `equity`.
      title: title of the picture; by default `grid_title`.

    Raises:
      ValueError: if no player acts there, or `show` has another value.
    """
    from jaxgadget.holdem.cards import RANKS
    from jaxgadget.holdem.ranges import grid_means

    if show not in ("strategy", "ev", "equity"):
        raise ValueError(f"show={show!r}: expected 'strategy', 'ev' or 'equity'")
    player = solution.actor(line)
    title = grid_title(solution, line, show=show) if title is None else title
    hands, held = solution.spot.hands, solution.played(line)[player]
    if not held.any():
        held = solution.weights(line)[player]  # as with its whole range
    ax = own_axes(ax, SIZE)
    if show == "strategy":
        rows = solution.strategy(line)
        heights = np.nan_to_num(grid_means(hands, held))
        shares = {action: np.nan_to_num(grid_means(hands, row, held)) for action, row in rows.items()}
        heights = heights / max(heights.max(), np.finfo(np.float64).tiny)
        _draw_strategy(ax, heights, shares, action_colors(solution.spot.betting, solution.node(line)))
    else:
        values = (solution.hand_ev if show == "ev" else solution.equity)[player]
        means = grid_means(hands, values, held)
        span = (0.0, 1.0) if show == "equity" else (float(np.nanmin(means)), float(np.nanmax(means)) + 1e-9)
        names = list(reversed(RANKS))
        draw_cells(
            ax,
            means,
            names,
            names,
            span=span,
            written=lambda row, column: f"{hand_class(row, column)}\n{means[row, column]:.3g}",
        )
    write_title(ax, title, pad=28 if show == "strategy" else None)
    return ax


def grid_title(solution: SpotSolution, line: str = "", *, show: Shown = "strategy") -> str:
    """Title of a grid: the board, the acting player, the line and the values shown."""
    player = PLAYERS[solution.actor(line)]
    when = f"after {line}" if line else "at the start"
    values = {"strategy": "strategy", "ev": "EVs at the start, chips", "equity": "equities at the start"}[
        show
    ]
    return f"{solution.spot.board}, {player} {when}: {values}"


def draw_grid(
    solution: SpotSolution,
    path: str | os.PathLike[str],
    line: str = "",
    *,
    show: Shown = "strategy",
    title: str | None = None,
) -> None:
    """Writes `grid_picture` to a file; needs no display."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE, layout="constrained")
    grid_picture(solution, line, figure.add_subplot(), show=show, title=title)
    save_picture(figure, path)


def hand_class(row: int, column: int) -> str:
    """The hands of a cell, such as `AKs`: suited ones above the diagonal, offsuit ones (`AKo`) below."""
    from jaxgadget.holdem.cards import RANKS

    high, low = (RANKS[len(RANKS) - 1 - rank] for rank in (min(row, column), max(row, column)))
    return f"{high}{low}{'' if row == column else 's' if column > row else 'o'}"


def _draw_strategy(
    ax: Axes,
    heights: np.ndarray[Any, Any],
    shares: Mapping[str, np.ndarray[Any, Any]],
    colors: Mapping[str, str],
) -> None:
    """Fills every cell from the bottom up to its height, with one stripe per action."""
    from matplotlib.patches import Rectangle

    count = len(heights)
    for (row, column), height in np.ndenumerate(heights):
        ax.add_patch(Rectangle((column, row), 1, 1, color=OUT_OF_RANGE, linewidth=0))
        left = float(column)
        for action, share in shares.items():
            width = float(share[row, column])
            if height > 0 and width > 0:
                corner = (left, row + 1 - height)
                ax.add_patch(Rectangle(corner, width, height, color=colors[action], linewidth=0))
            left += width
        ax.text(column + 0.05, row + 0.08, hand_class(row, column), fontsize=6, va="top")
    ax.set_xlim(0, count)
    ax.set_ylim(count, 0)
    ax.set_aspect("equal")
    ax.set_xticks([])
    ax.set_yticks([])
    ax.set_xticks(range(1, count), minor=True)
    ax.set_yticks(range(1, count), minor=True)
    ax.grid(True, which="minor", color="#FFFFFF", linewidth=1)
    ax.tick_params(which="both", length=0, labelbottom=False, labelleft=False)
    ax.spines[:].set_visible(False)
    names = [Rectangle((0, 0), 1, 1, color=colors[action]) for action in shares]
    ax.legend(
        names,
        list(shares),
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=min(len(names), 6),
        fontsize=7,
        frameon=False,
    )


def action_colors(betting: BettingTree, node: int) -> dict[str, str]:
    """Colours of a node's actions, by name; an action has one colour at all nodes."""
    from matplotlib.colors import LinearSegmentedColormap, to_hex

    sizes = LinearSegmentedColormap.from_list("bets", BETS)
    low, high = np.log(BET_SIZES)
    own = ACTOR_BIT.index(int(betting.tree.actor[node]))
    other = float(betting.put_in[node, 1 - own])
    colors: dict[str, str] = {}
    for child in betting.children(node):
        name = betting.action_name(child)
        if name in ("fold", "check", "call"):
            colors[name] = FOLD if name == "fold" else PASSIVE
        elif name.startswith("all-in"):
            colors[name] = ALL_IN_COLOR
        else:
            size = (float(betting.put_in[child, own]) - other) / (betting.pot + 2 * other)
            colors[name] = to_hex(sizes((np.log(size) - low) / (high - low)))
    return colors
