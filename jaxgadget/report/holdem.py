"""Solved spots of hold'em: a table, and the grid of 13 × 13 hands of a public node."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from jaxgadget.games.game import ACTOR_BIT, CHANCE
from jaxgadget.holdem.betting import PLAYERS
from jaxgadget.report.heatmap import draw_cells
from jaxgadget.report.layout import UNDEFINED, make_table
from jaxgadget.report.plots import save_picture
from jaxgadget.report.styles import own_axes, write_title
from jaxgadget.util.arguments import check_player

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

GRID_TITLES: Mapping[Shown, str] = {"strategy": "strategy", "ev": "EVs in chips", "equity": "equities"}
"""Names of the values of a grid."""


def spots_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Table with one row per spot, from rows of `SpotSolution.to_row`; with labels if there are any.

    With rake, both players' gains from a best response replace the exploitability.
    """
    qualities = {
        "rake": lambda row: row.get("rake"),
        "gain oop": lambda row: row["gains"][0] if "gains" in row else None,
        "gain ip": lambda row: row["gains"][1] if "gains" in row else None,
        "exploitability": lambda row: row.get("exploitability"),
        "unlocked": lambda row: row["unlocked_gap"] / 2 if row.get("locks") and "rake" not in row else None,
    }
    shown = {name: of for name, of in qualities.items() if any(of(row) is not None for row in rows)}
    numbers = ("EV oop", "EV ip", *shown, "iterations", "hands")
    has_labels = any(row.get("label") for row in rows)
    names = ["spot"] if has_labels else []
    table = make_table(*names, "board", *numbers, "root", right=numbers, fold="root")
    for row in rows:
        first, second = row["ev"]
        root = ", ".join(f"{action} {share:.3f}" for action, share in row["root"].items())
        hands = " × ".join(map(str, row["hands"]))
        table.add_row(
            *([row.get("label", "")] if has_labels else []),
            row["board"],
            f"{first:.5g}",
            f"{second:.5g}",
            *("–" if of(row) is None else f"{of(row):.3g}" for of in shown.values()),
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


def hands_table(
    solution: SpotSolution, line: str = "", most: int | None = None, player: int | None = None
) -> Table:
    """Table of a player's hands after a line, the most likely first: weight, EV, equity, actions.

    EVs are in chips, from the line on; see `NodeValues`. If the player acts, there are two columns for each
    action: its probability and its EV.

    Args:
      solution: a solved spot.
      line: actions such as `check, bet 100`; by default the start.
      most: maximum number of hands; by default all.
      player: 0 or 1; by default the acting player.

    Raises:
      ValueError: if `player` is omitted and no player acts there.
    """
    frame = solution.to_frame(line, player)
    frame = frame.sort_values("weight", ascending=False, kind="stable").head(
        len(frame) if most is None else most
    )
    actions = [name for name in frame.columns if f"ev {name}" in frame.columns]
    numbers = ["weight", "EV", "equity", *(each for name in actions for each in (name, f"EV {name}"))]
    table = make_table("hand", *numbers, right=numbers)
    for row in frame.to_dict("records"):
        cells = [text for name in actions for text in (f"{row[name]:.3f}", _chips(row[f"ev {name}"]))]
        table.add_row(
            str(row["hand"]), f"{row['weight']:.2%}", _chips(row["ev"]), _share(row["equity"]), *cells
        )
    return table


def _chips(chips: float) -> str:
    """Chips with five digits, without rounding errors near 0."""
    return f"{round(chips, 6) + 0.0:.5g}" if np.isfinite(chips) else UNDEFINED


def _share(share: float) -> str:
    """A probability or an equity, without rounding errors below 0."""
    return f"{round(share, 6) + 0.0:.3f}" if np.isfinite(share) else UNDEFINED


def frequencies_table(solution: SpotSolution, line: str = "") -> Table:
    """Table of the tree below a line: the frequency of each action, how often it is reached, EVs, equity.

    The share of play that reaches an action is relative to all play that reaches the line. If no play reaches
    it, its frequency is computed against the other player's whole range (`SpotSolution.weights`). EVs of both
    players, in chips, and the equity of the first player are those after the action (`NodeValues`). The tree
    ends where a card is dealt; to continue, pass a line that names the card.

    Raises:
      ValueError: if no player acts after the line.
    """
    solution, line = solution.find_street(line)
    betting = solution.spot.betting
    line = betting.line(solution.node(line))
    start = solution.pairs(line)
    numbers = ("taken", "reached", "EV oop", "EV ip", "equity oop")
    table = make_table("action", *numbers, "then", right=numbers)
    solution.actor(line)  # raises if no player acts there
    values_of = solution.values_below(line)

    def add(line: str, depth: int) -> None:
        player = PLAYERS[solution.actor(line)]
        for action, share in solution.frequencies(line).items():
            after = f"{line}, {action}" if line else action
            reached = solution.pairs(after) / start if start > 0 else 0.0
            node = solution.node(after)
            actor, then = int(betting.tree.actor[node]), betting.describe_end(node)
            if actor == CHANCE:
                then = f"{betting.count_cards(node)} cards may follow"
            values = values_of[after]
            evs = [_chips(ev) for ev in values.mean_ev]
            cells = (_share(share), _share(reached), *evs, _share(values.mean_equity[0]))
            table.add_row(f"{'  ' * depth}{player} {action}", *cells, then)
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
    player: int | None = None,
) -> Axes:
    """Draws the grid of a player's hands after a line, suited hands above the diagonal.

    A strategy is drawn as stripes, one for each action, with a height proportional to the weight of the
    cell's hands. An action has the same colour in every grid: fold, check or call, the size of a bet or raise
    relative to the pot, all-in. EVs (in chips) and equities, both from the line on (`NodeValues`), are a heat
    map of means.

    Args:
      solution: a solved spot.
      line: actions such as `check, bet 100`; by default the start.
      ax: axes to draw on; by default the axes of a new pyplot figure.
      show: `strategy`, `ev` or `equity`.
      title: title of the picture; by default `grid_title`.
      player: 0 or 1; by default the acting player.

    Raises:
      ValueError: if `show` has another value, `player` is omitted and no player acts there, or `player` does
        not act there and has no strategy.
    """
    from jaxgadget.holdem.cards import RANKS
    from jaxgadget.holdem.ranges import grid_means

    if show not in ("strategy", "ev", "equity"):
        raise ValueError(f"show={show!r}: expected 'strategy', 'ev' or 'equity'")
    player = solution.actor(line) if player is None else check_player(player)
    if show == "strategy" and solution.actor(line) != player:
        raise ValueError(
            f"player={player} does not act after line={line!r}; expected show='ev' or 'equity', or player="
            f"{1 - player}"
        )
    title = grid_title(solution, line, show=show, player=player) if title is None else title
    solution, line = solution.find_street(line)
    hands, held, met = solution.spot.hands, solution.played(line)[player], solution.weights(line)[player]
    if not held.any():
        held = met  # as with its whole range
    ax = own_axes(ax, SIZE)
    if show == "strategy":
        rows = solution.strategy(line)
        heights = np.nan_to_num(grid_means(hands, held))
        shares = {action: np.nan_to_num(grid_means(hands, row, met)) for action, row in rows.items()}
        heights = heights / max(heights.max(), np.finfo(np.float64).tiny)
        _draw_strategy(ax, heights, shares, action_colors(solution.spot.betting, solution.node(line)))
    else:
        values = (solution.evs(line) if show == "ev" else solution.equities(line))[player]
        means = grid_means(hands, values, met)
        known = means[np.isfinite(means)]  # none if the other player never gets there
        span = (float(known.min()), float(known.max()) + 1e-9) if show == "ev" and len(known) else (0.0, 1.0)
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


def grid_title(
    solution: SpotSolution, line: str = "", *, show: Shown = "strategy", player: int | None = None
) -> str:
    """Title of a grid: the board, the player (by default the acting one), the line and the values shown."""
    name = PLAYERS[solution.actor(line) if player is None else player]
    when = f"after {line}" if line else "at the start"
    return f"{solution.spot.title}, {name} {when}: {GRID_TITLES[show]}"


def draw_grid(
    solution: SpotSolution,
    path: str | os.PathLike[str],
    line: str = "",
    *,
    show: Shown = "strategy",
    title: str | None = None,
    player: int | None = None,
) -> None:
    """Writes `grid_picture` to a file; needs no display."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE, layout="constrained")
    grid_picture(solution, line, figure.add_subplot(), show=show, title=title, player=player)
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
    from matplotlib.patheffects import withStroke

    count, outline = len(heights), [withStroke(linewidth=1.2, foreground="white")]  # all-in cells are dark
    for (row, column), height in np.ndenumerate(heights):
        ax.add_patch(Rectangle((column, row), 1, 1, color=OUT_OF_RANGE, linewidth=0))
        left = float(column)
        for action, share in shares.items():
            width = float(share[row, column])
            if height > 0 and width > 0:
                corner = (left, row + 1 - height)
                ax.add_patch(Rectangle(corner, width, height, color=colors[action], linewidth=0))
            left += width
        style: dict[str, Any] = {"fontsize": 6, "va": "top", "path_effects": outline, "snap": False}
        ax.text(column + 0.05, row + 0.08, hand_class(row, column), **style)
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
    return {
        betting.action_name(child): action_color(betting.action_name(child), betting.bet_size(child))
        for child in betting.children(node)
    }


def action_color(name: str, size: float | None) -> str:
    """Colour of an action; `size` is that of a bet or raise, as a share of the pot."""
    from matplotlib.colors import LinearSegmentedColormap, to_hex

    if size is None:
        return FOLD if name == "fold" else PASSIVE
    if name.startswith("all-in"):
        return ALL_IN_COLOR
    low, high = np.log(BET_SIZES)
    sizes = LinearSegmentedColormap.from_list("bets", BETS)
    return to_hex(sizes((np.log(size) - low) / (high - low)))
