"""One subgame under one policy: ranges at its roots, and both players' strategies below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from rich.console import Group
from rich.text import Text

from jaxgadget.policy.policy import Policy, PolicyLike, as_policy
from jaxgadget.report.heatmap import cells_size, draw_cells
from jaxgadget.report.layout import TITLE_WIDTH, Column, decimal, make_table, rows_to_table, table_title
from jaxgadget.report.names import break_lines, short_names
from jaxgadget.report.subgame import (
    MAX_INFOSTATES,
    decision_rows,
    infoset_reach,
    normalised,
    percent,
    root_reach,
)
from jaxgadget.util.arguments import check_whole_number
from jaxgadget.util.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from jaxgadget.tree.forest import Forest

MAX_PANELS = 6
"""Maximum number of decision points per player in a picture; those with the largest reach are drawn."""

SHARES = ("#FFFFFF", "#0072B2")
"""Colours of probabilities 0 and 1."""

_PANELS_PER_LINE = 4


def roots_frame(forest: Forest, policy: PolicyLike, subgame: int) -> pd.DataFrame:
    """Both players' root infostates of a subgame, and their ranges.

    Args:
      forest: the subgames.
      policy: one lane, as `as_policy` accepts it.
      subgame: its index.

    Returns:
      A row for each root infostate: `player`, `root` (index in `forest.roots[player]`), `infostate`
      (`forest.root_names`), `reach` (the player's own reach), `range` (the same divided by
      its sum over the subgame, NaN if the player never reaches it) and `others_reach` (`N(s)`, the reach of
      the other player and chance).

    Raises:
      ValueError: if there is no such subgame, or the policy has several lanes or is of another game.
    """
    import pandas as pd

    profile = _one_lane(forest, policy, subgame)
    frames: list[pd.DataFrame] = []
    for player in (0, 1):
        roots = np.nonzero(forest.roots[player].subgame == subgame)[0]
        names = forest.root_names(player)
        reach = profile.reach(player)[forest.roots[player].sequence[roots], 0]
        frames.append(
            pd.DataFrame(
                {
                    "player": player,
                    "root": roots,
                    "infostate": [names[root] for root in roots.tolist()],
                    "reach": reach,
                    "range": normalised(reach),
                    "others_reach": root_reach(forest, 1 - player, profile)[roots],
                }
            )
        )
    return pd.concat(frames, ignore_index=True)


def decisions_frame(forest: Forest, policy: PolicyLike, subgame: int) -> pd.DataFrame:
    """Both players' strategies in a subgame.

    Args:
      forest: the subgames.
      policy: one lane, as `as_policy` accepts it.
      subgame: its index.

    Returns:
      A row for each action of each infoset: `player`, `infoset` (index in the tree), `infostate`, `action`,
      `action_name`, `probability`, and `reach`: the probability of reaching the infoset.

    Raises:
      ValueError: as `roots_frame`.
    """
    import pandas as pd

    profile = _one_lane(forest, policy, subgame)
    frames: list[pd.DataFrame] = []
    for player in (0, 1):
        rows, sequences = decision_rows(forest, player, subgame)
        rows.insert(0, "player", player)
        rows["probability"] = profile.probabilities[player][sequences - 1, 0]
        rows["reach"] = infoset_reach(profile, player)[rows["infoset"].to_numpy()]
        frames.append(rows)
    return pd.concat(frames, ignore_index=True)


def subgame_record(forest: Forest, policy: Policy, subgame: int) -> dict[str, Any]:
    """Record of `jaxgadget show --json`."""
    return {
        "game": forest.tree.game.name,
        "cut": forest.cut.name,
        "subgame": subgame,
        "num_subgames": forest.num_subgames,
        "policy": policy.labels[0],
        "roots": roots_frame(forest, policy, subgame).to_dict("records"),
        "decisions": decisions_frame(forest, policy, subgame).to_dict("records"),
    }


def subgame_tables(forest: Forest, policy: Policy, subgame: int) -> Group:
    """Two tables: the roots with their ranges, and one row per infostate with its strategy."""
    columns = [
        Column("player", lambda row: str(row["player"])),
        Column("root infostate", lambda row: Text(_line(row["infostate"]), overflow="fold")),
        decimal("reach", digits=4),
        decimal("range", digits=4),
        decimal("N(s)", "others_reach", digits=4),
    ]
    roots = rows_to_table(roots_frame(forest, policy, subgame), columns, fold="root infostate")
    roots.title = table_title(f"{subgame_title(forest, policy, subgame)}\nRoots and ranges")
    plays = make_table("player", "infostate", "reached", "plays", right=("reached",), fold="infostate")
    plays.title = "Strategies"
    for (player, _), rows in decisions_frame(forest, policy, subgame).groupby(["player", "infoset"]):
        done = zip(rows["action_name"], rows["probability"], strict=True)
        plays.add_row(
            str(player),
            Text(_line(rows["infostate"].iloc[0]), overflow="fold"),
            percent(float(rows["reach"].iloc[0])),
            Text("\n".join(f"{probability:.4f} {name}" for name, probability in done)),
        )
    return Group(roots, plays)


def subgame_title(forest: Forest, policy: Policy, subgame: int) -> str:
    """Game, cut, subgame and policy."""
    return f"{forest.tree.game.name}, {forest.cut.name}, subgame {subgame}: {policy.labels[0]}"


def subgame_picture(forest: Forest, policy: PolicyLike, subgame: int, *, title: str | None = None) -> Figure:
    """Draws both players' strategies in a subgame, as heat maps of hands × actions.

    Each map is a decision point, a public state of the game. Its rows are the hands that the player may hold
    there, with the probability of reaching each. If a game has no hands or defines no public states, a player
    has a single map, whose rows are infostates. A map has at most `MAX_INFOSTATES` rows and a player at most
    `MAX_PANELS` maps; those with the largest reach are drawn.

    Args:
      forest: the subgames.
      policy: one lane, as `as_policy` accepts it.
      subgame: its index.
      title: title of the picture; by default game, cut, subgame and policy.

    Raises:
      ValueError: as `roots_frame`, or if the subgame has no decisions.
    """
    from matplotlib.figure import Figure

    profile = _one_lane(forest, policy, subgame)
    frame = decisions_frame(forest, profile, subgame)
    if frame.empty:
        raise ValueError(f"subgame={subgame} has no decisions to draw; expected another subgame")
    by_player = [_panels(forest, frame, player) for player in (0, 1)]
    if sum(map(len, by_player)) <= _PANELS_PER_LINE:
        by_player = [[*by_player[0], *by_player[1]]]
    most_panels = max(map(len, by_player))
    columns = -(-most_panels // -(-most_panels // _PANELS_PER_LINE))
    lines = [
        panels[begin : begin + columns] for panels in by_player for begin in range(0, len(panels), columns)
    ]
    sizes = [[cells_size(panel.rows, panel.actions) for panel in line] for line in lines]
    heights = [max(height for _, height in line) for line in sizes]
    width = max(4.0, columns * max(width for line in sizes for width, _ in line))
    figure = Figure(figsize=(width, sum(heights) + 0.4 * len(lines) + 0.4), layout="constrained")
    grid = figure.add_gridspec(len(lines), columns, height_ratios=heights)
    for line_idx, line in enumerate(lines):
        for column, panel in enumerate(line):
            ax = figure.add_subplot(grid[line_idx, column])
            draw_cells(
                ax,
                panel.values,
                panel.rows,
                panel.actions,
                span=(0.0, 1.0),
                written=lambda row, column, panel=panel: f"{panel.values[row, column]:.2f}",
                ends=SHARES,
            )
            ax.set_title("\n".join(break_lines(panel.heading, int(15 * width / columns))), fontsize=8)
    title = subgame_title(forest, profile, subgame) if title is None else title
    figure.suptitle("\n".join(break_lines(title, min(TITLE_WIDTH, int(12 * width)))), fontsize=9)
    return figure


class _Panel(NamedTuple):
    """A map: heading, names of rows and columns, and `[rows, actions]` probabilities."""

    heading: str
    rows: Sequence[str]
    actions: Sequence[str]
    values: FloatArray


def _panels(forest: Forest, frame: pd.DataFrame, player: int) -> list[_Panel]:
    """A player's maps, in the order of the tree."""
    infosets = frame[frame["player"] == player].drop_duplicates("infoset")
    if infosets.empty:
        return []
    infoset, tree = infosets["infoset"].to_numpy(), forest.tree
    public = np.zeros(len(tree.infosets[player]), np.int64)
    if tree.public is not None:
        public = tree.public[tree.infosets[player].history]
    points = public[infoset]
    if len(np.unique(points)) == len(points):  # perfect information: no hands
        points = np.zeros(len(points), np.int64)
    reach = infosets["reach"].to_numpy()
    unique = np.unique(points)
    point_reach = np.array([reach[points == point].sum() for point in unique])
    drawn = unique[np.sort(np.argsort(-point_reach, kind="stable")[:MAX_PANELS])]
    note = f" ({len(drawn)} of {len(unique)} decision points)" if len(drawn) < len(unique) else ""
    panels: list[_Panel] = []
    for point in drawn.tolist():
        order = np.argsort(-np.where(points == point, reach, -1.0), kind="stable")
        chosen = infoset[np.sort(order[: min(MAX_INFOSTATES, int((points == point).sum()))])]
        panels.append(_panel(frame, player, chosen, note))
    return panels


def _panel(frame: pd.DataFrame, player: int, infosets: IntArray, note: str) -> _Panel:
    rows = frame[(frame["player"] == player) & frame["infoset"].isin(infosets)]
    heads = rows.drop_duplicates("infoset")
    names, shared = short_names(heads["infostate"].tolist())
    reach = [percent(share) for share in heads["reach"].tolist()]
    actions = rows.drop_duplicates("action").sort_values("action")
    table = rows.pivot(index="infoset", columns="action", values="probability")
    values = np.asarray(table.reindex(index=heads["infoset"], columns=actions["action"]), np.float64)
    heading = f"player {player}{note}" + (f": {shared}" if shared else "")
    labels = [f"{name}  ({share})" for name, share in zip(names, reach, strict=True)]
    return _Panel(heading, labels, actions["action_name"].tolist(), values)


def _line(name: str) -> str:
    """An infostate's name with single spaces and no line breaks."""
    return " ".join(name.split())


def _one_lane(forest: Forest, policy: PolicyLike, subgame: int) -> Policy:
    check_whole_number("subgame", subgame, 0, forest.num_subgames - 1)
    profile = as_policy(policy, forest.tree)
    if profile.num_lanes != 1:
        raise ValueError(
            f"policy has {profile.num_lanes} lanes {list(profile.labels[:3])}; expected one, such as "
            "policy.lane(0)"
        )
    return profile
