"""One subgame under one policy: who may be at its roots, how likely, and what both players do below."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from rich.console import Group
from rich.text import Text

from jaxgadget.policy.policy import Policy, PolicyLike, as_policy
from jaxgadget.report.heatmap import cells_size, draw_cells
from jaxgadget.report.layout import TITLE_WIDTH, UNDEFINED, make_table, table_title
from jaxgadget.report.names import break_lines, short_names
from jaxgadget.report.subgame import (
    MAX_INFOSTATES,
    decision_rows,
    infoset_reach,
    percent,
    root_reach,
    shares,
)
from jaxgadget.util.arguments import check_whole_number
from jaxgadget.util.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from jaxgadget.tree.forest import Forest

MAX_PANELS = 6
"""So many decision points of a player are drawn at most, those that play reaches most likely."""

SHARES = ("#FFFFFF", "#0072B2")
"""Colours of probabilities 0 and 1."""

_PANELS_A_LINE = 4


def roots_frame(forest: Forest, policy: PolicyLike, subgame: int) -> pd.DataFrame:
    """Both players' root infostates of a subgame, and their ranges.

    Args:
      forest: the subgames.
      policy: one lane, as `as_policy` takes it.
      subgame: its number.

    Returns:
      A row for every root infostate: `player`, `root` (its number in `forest.roots[player]`), `infostate`
      (`forest.root_names`), `reach` (how likely the player itself plays to it), `range` (the same divided by
      its sum over the subgame, NaN if the player never gets there) and `others_reach` (`N(s)`, how likely the
      other player and chance lead to it).

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
                    "range": shares(reach),
                    "others_reach": root_reach(forest, 1 - player, profile)[roots],
                }
            )
        )
    return pd.concat(frames, ignore_index=True)


def decisions_frame(forest: Forest, policy: PolicyLike, subgame: int) -> pd.DataFrame:
    """What both players do in a subgame.

    Args:
      forest: the subgames.
      policy: one lane, as `as_policy` takes it.
      subgame: its number.

    Returns:
      A row for every action of every infoset: `player`, `infoset` (the tree's number), `infostate`, `action`,
      `action_name`, `probability`, and `reach`: how likely play gets to the infoset.

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
    """What `jaxgadget show --json` writes."""
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
    """Two tables: the roots with ranges, and a line for every infostate with what is done there."""
    numbers = ("reach", "range", "N(s)")
    roots = make_table("player", "root infostate", *numbers, right=numbers, fold="root infostate")
    roots.title = table_title(f"{subgame_title(forest, policy, subgame)}\nRoots and ranges")
    for row in roots_frame(forest, policy, subgame).to_dict("records"):
        share = UNDEFINED if math.isnan(row["range"]) else f"{row['range']:.4f}"
        name = Text(_line(row["infostate"]), overflow="fold")
        roots.add_row(str(row["player"]), name, f"{row['reach']:.4f}", share, f"{row['others_reach']:.4f}")
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
    """Draws what both players do in a subgame, as maps of hands × actions.

    A map is a decision point: what everybody knows (the game's public state). Its rows are the hands that the
    player may hold there, with how likely play gets to each. Where a game has no hands or names no
    public states, a player has one map, whose rows are infostates. Maps have at most `MAX_INFOSTATES` rows
    and a player has at most `MAX_PANELS` of them, those that play reaches most likely.

    Args:
      forest: the subgames.
      policy: one lane, as `as_policy` takes it.
      subgame: its number.
      title: in place of game, cut, subgame and policy.

    Raises:
      ValueError: as `roots_frame`, or if nobody decides anything there.
    """
    from matplotlib.figure import Figure

    profile = _one_lane(forest, policy, subgame)
    frame = decisions_frame(forest, profile, subgame)
    if frame.empty:
        raise ValueError(f"subgame={subgame}: nobody has a decision there, nothing to draw")
    both = [_panels(forest, frame, player) for player in (0, 1)]
    if sum(map(len, both)) <= _PANELS_A_LINE:
        both = [[*both[0], *both[1]]]
    most = max(map(len, both))
    columns = -(-most // -(-most // _PANELS_A_LINE))
    lines = [panels[begin : begin + columns] for panels in both for begin in range(0, len(panels), columns)]
    sizes = [[cells_size(panel.rows, panel.actions) for panel in line] for line in lines]
    heights = [max(height for _, height in line) for line in sizes]
    width = max(4.0, columns * max(width for line in sizes for width, _ in line))
    figure = Figure(figsize=(width, sum(heights) + 0.4 * len(lines) + 0.4), layout="constrained")
    grid = figure.add_gridspec(len(lines), columns, height_ratios=heights)
    for number, line in enumerate(lines):
        for column, panel in enumerate(line):
            ax = figure.add_subplot(grid[number, column])
            draw_cells(
                ax,
                panel.values,
                panel.rows,
                panel.actions,
                span=(0.0, 1.0),
                written=lambda share: f"{share:.2f}",
                ends=SHARES,
            )
            ax.set_title("\n".join(break_lines(panel.heading, int(15 * width / columns))), fontsize=8)
    said = subgame_title(forest, profile, subgame) if title is None else title
    figure.suptitle("\n".join(break_lines(said, min(TITLE_WIDTH, int(12 * width)))), fontsize=9)
    return figure


class _Panel(NamedTuple):
    """A map: what stands above it, its rows, its columns, and `[rows, actions]` probabilities."""

    heading: str
    rows: Sequence[str]
    actions: Sequence[str]
    values: FloatArray


def _panels(forest: Forest, frame: pd.DataFrame, player: int) -> list[_Panel]:
    """A player's maps, in the order of the tree."""
    infosets = frame[frame["player"] == player].drop_duplicates("infoset")
    if infosets.empty:
        return []
    number, tree = infosets["infoset"].to_numpy(), forest.tree
    public = np.zeros(len(tree.infosets[player]), np.int64)
    if tree.public is not None:
        public = tree.public[tree.infosets[player].history]
    points = public[number]
    if len(np.unique(points)) == len(points):  # everybody knows everything: no hands
        points = np.zeros(len(points), np.int64)
    reach = infosets["reach"].to_numpy()
    known = np.unique(points)
    likely = np.array([reach[points == point].sum() for point in known])
    drawn = known[np.sort(np.argsort(-likely, kind="stable")[:MAX_PANELS])]
    left = f" ({len(drawn)} of {len(known)} decision points)" if len(drawn) < len(known) else ""
    panels: list[_Panel] = []
    for point in drawn.tolist():
        order = np.argsort(-np.where(points == point, reach, -1.0), kind="stable")
        chosen = number[np.sort(order[: min(MAX_INFOSTATES, int((points == point).sum()))])]
        panels.append(_panel(frame, player, chosen, left))
    return panels


def _panel(frame: pd.DataFrame, player: int, infosets: IntArray, left: str) -> _Panel:
    rows = frame[(frame["player"] == player) & frame["infoset"].isin(infosets)]
    heads = rows.drop_duplicates("infoset")
    names, shared = short_names(heads["infostate"].tolist())
    reach = [percent(share) for share in heads["reach"].tolist()]
    actions = rows.drop_duplicates("action").sort_values("action")
    table = rows.pivot(index="infoset", columns="action", values="probability")
    values = np.asarray(table.reindex(index=heads["infoset"], columns=actions["action"]), np.float64)
    heading = f"player {player}{left}" + (f": {shared}" if shared else "")
    labels = [f"{name}  ({share})" for name, share in zip(names, reach, strict=True)]
    return _Panel(heading, labels, actions["action_name"].tolist(), values)


def _line(name: str) -> str:
    """An infostate in a line of a table."""
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
