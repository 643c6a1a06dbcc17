"""One subgame of a refinement: the resolving player's strategy, and the opponent's range.

`strategy_frame` and `range_frame` are the data, `strategy_picture` and `range_picture` draw them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxgadget.core.payoff import multiply
from jaxgadget.core.rows import pad_rows
from jaxgadget.policy.evaluate import best_response
from jaxgadget.policy.policy import Policy
from jaxgadget.report.names import NAME_WIDTH, short_names
from jaxgadget.report.styles import PALETTE, own_axes, write_title
from jaxgadget.util.arguments import check_whole_number
from jaxgadget.util.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from jaxgadget.subgames.refine import Refinement
    from jaxgadget.tree.forest import Forest

MAX_INFOSTATES = 16
"""Default maximum number of infostates in a picture."""

_WIDTH = 6.4
_LETTER = 0.056
"""Width of a character in inches."""
_BEFORE, _AFTER = "#999999", "#D55E00"
_HATCHES = ("", "////", "....", "xxxx")


def strategy_frame(refinement: Refinement, subgame: int, lane: int = 0) -> pd.DataFrame:
    """The resolving player's strategy in one subgame, before and after refinement.

    Args:
      refinement: refined blueprints.
      subgame: its index.
      lane: lane of `refinement.policy`, with its blueprint.

    Returns:
      A row for each action of each infoset, in the order of the tree's infosets: `infoset` (index in the
      tree), `infostate`, `action`, `action_name`, `blueprint` and `refined` (its probability), and
      `reach_blueprint` and `reach_refined`: the probability of reaching the infoset if the resolving player
      plays the respective strategy and the opponent its blueprint. No rows if the player has no decision.

    Raises:
      ValueError: if there is no such subgame or lane.
    """
    before, after = _policies(refinement, subgame, lane)
    forest, player = refinement.forest, refinement.player
    rows, sequences = decision_rows(forest, player, subgame)
    infoset = rows["infoset"].to_numpy()
    rows["blueprint"] = before.probabilities[player][sequences - 1, 0]
    rows["refined"] = after.probabilities[player][sequences - 1, 0]
    for name, policy in (("blueprint", before), ("refined", after)):
        rows[f"reach_{name}"] = infoset_reach(policy, player)[infoset]
    return rows


def decision_rows(forest: Forest, player: int, subgame: int) -> tuple[pd.DataFrame, IntArray]:
    """A player's actions in a subgame, as in `strategy_frame`, and their sequences."""
    import pandas as pd

    tree, infosets = forest.tree, forest.tree.infosets[player]
    inside = np.nonzero(forest.infoset_subgame(player) == subgame)[0]
    sequences = 1 + np.nonzero(np.isin(infosets.infoset[1:], inside))[0]
    infoset, action = infosets.infoset[sequences], infosets.action[sequences]
    columns = {
        "infoset": infoset,
        "infostate": [tree.infoset_names[player][i] for i in infoset.tolist()],
        "action": action,
        "action_name": [tree.game.action_string(player, a) for a in action.tolist()],
    }
    return pd.DataFrame(columns), sequences


def range_frame(refinement: Refinement, subgame: int, lane: int = 0) -> pd.DataFrame:
    """The opponent's range in one subgame: by its blueprint, and as a best response to the refined policy.

    The best response is computed against the refined policy in the full game, including other subgames; it is
    pure and plays the first of equally good actions.

    Args:
      refinement: refined blueprints.
      subgame: its index.
      lane: lane of `refinement.policy`, with its blueprint.

    Returns:
      A row for each root infostate of the opponent: `root` (index in `forest.roots`), `infostate` (its
      name, see `Forest.root_names`), `blueprint_reach` and `response_reach` (the opponent's own reach,
      `P_-i(s)`), `blueprint` and `response` (the same divided by their sums over the subgame,
      NaN if the opponent never reaches it), and `resolver_reach` (`N(s)`, the reach of the resolving player
      and chance).

    Raises:
      ValueError: if there is no such subgame or lane.
    """
    import pandas as pd

    before, after = _policies(refinement, subgame, lane)
    forest, opponent = refinement.forest, 1 - refinement.player
    names = forest.root_names(opponent)
    roots = np.nonzero(forest.roots[opponent].subgame == subgame)[0]
    sequence = forest.roots[opponent].sequence[roots]
    response = best_response(after, opponent).policy
    reach, response_reach = (policy.reach(opponent)[sequence, 0] for policy in (before, response))
    return pd.DataFrame(
        {
            "root": roots,
            "infostate": [names[root] for root in roots.tolist()],
            "blueprint_reach": reach,
            "response_reach": response_reach,
            "blueprint": normalised(reach),
            "response": normalised(response_reach),
            "resolver_reach": root_reach(forest, refinement.player, after)[roots],
        }
    )


def strategy_picture(
    refinement: Refinement,
    subgame: int,
    lane: int = 0,
    ax: Axes | None = None,
    *,
    title: str | None = None,
    most: int = MAX_INFOSTATES,
) -> Axes:
    """Draws the strategy at each infostate of the resolving player in one subgame, before and after.

    An infostate has two bars, a pale one for the blueprint and a saturated one for the refined strategy. The
    number beside them is the probability of reaching the infostate under the refined strategy and the
    opponent's blueprint. Parts that all names share are in the title.

    Args:
      refinement: refined blueprints.
      subgame: its index.
      lane: the lane of `refinement.policy`.
      ax: axes to draw on; by default the axes of a new pyplot figure, as high as needed.
      title: title of the axes; by default game, cut, subgame and lane.
      most: maximum number of infostates; those with the largest reach before or after are drawn.

    Raises:
      ValueError: if there is no such subgame or lane, the player has no decision there, or `most` is
        less than 1.
    """
    _check_most(most)
    frame = strategy_frame(refinement, subgame, lane)
    if frame.empty:
        raise ValueError(
            f"subgame={subgame}: player {refinement.player} has no decision there, nothing to draw"
        )
    infosets = frame.drop_duplicates("infoset")
    chosen = infosets.iloc[_largest(infosets[["reach_blueprint", "reach_refined"]], most)]
    names, shared = short_names(chosen["infostate"].tolist())
    ax = own_axes(ax, _size(names))
    for height, infoset in enumerate(chosen["infoset"].tolist()):
        rows = frame[frame["infoset"] == infoset]
        _draw_bars(ax, rows, "blueprint", height - 0.22, 0.2, pale=True)
        _draw_bars(ax, rows, "refined", height + 0.12, 0.42)
        reach = percent(float(rows["reach_refined"].iloc[0]))
        ax.text(1.015, height, reach, fontsize=7, color="#555555", va="center")
    ax.text(1.015, -0.75, "reached", fontsize=7, color="#555555", va="center")
    _set_rows(ax, names)
    left = f", {len(chosen)} of {len(infosets)} infostates" if len(chosen) < len(infosets) else ""
    ax.set_xlabel(f"Probability{left}\n(thin and pale: blueprint; below: refined)", fontsize=9)
    pad = _legend(ax, _action_patches(frame), names)
    write_title(ax, _title(refinement, subgame, lane, shared) if title is None else title, pad)
    return ax


def range_picture(
    refinement: Refinement,
    subgame: int,
    lane: int = 0,
    ax: Axes | None = None,
    *,
    title: str | None = None,
    most: int = MAX_INFOSTATES,
) -> Axes:
    """Draws the opponent's range over its root infostates of one subgame, before and after.

    Bars are shares within the subgame of the opponent's reach, under its blueprint (grey) and under its best
    response to the refined policy (orange); a line shows the shares of `N(s)`, the reach of the resolving
    player and chance.

    Args:
      refinement: refined blueprints.
      subgame: its index.
      lane: the lane of `refinement.policy`.
      ax: axes to draw on; by default the axes of a new pyplot figure, as high as needed.
      title: title of the axes; by default game, cut, subgame and lane.
      most: maximum number of infostates; those with the largest shares are drawn.

    Raises:
      ValueError: if there is no such subgame or lane, or `most` is less than 1.
    """
    _check_most(most)
    frame = range_frame(refinement, subgame, lane)
    frame["resolver"] = normalised(frame["resolver_reach"].to_numpy())
    chosen = frame.iloc[_largest(frame[["blueprint", "response"]].fillna(0.0), most)]
    names, shared = short_names(chosen["infostate"].tolist())
    ax = own_axes(ax, _size(names))
    heights = np.arange(len(chosen))
    before, response, reached = (chosen[name].fillna(0.0) for name in ("blueprint", "response", "resolver"))
    handles: list[Any] = [
        ax.barh(heights - 0.19, before, 0.34, color=_BEFORE, label="blueprint"),
        ax.barh(heights + 0.19, response, 0.34, color=_AFTER, label="best response"),
        ax.vlines(reached, heights - 0.42, heights + 0.42, color="#000000", linewidth=1.6, label="N(s)"),
    ]
    _set_rows(ax, names)
    left = f", {len(chosen)} of {len(frame)} infostates" if len(chosen) < len(frame) else ""
    quantity = f"Share of player {1 - refinement.player}'s reach within the subgame{left}"
    legend = f"best response: to the refined policy; N(s): player {refinement.player} and chance"
    ax.set_xlabel(f"{quantity}\n({legend})", fontsize=9)
    pad = _legend(ax, handles, names)
    never = [
        f"{who} never reaches this subgame"
        for name, who in (("blueprint", "The blueprint"), ("response", "The best response"))
        if frame[name].isna().all()
    ]
    if never:
        style: dict[str, Any] = {"ha": "right", "va": "bottom", "color": "#555555", "fontsize": 8}
        ax.text(0.99, 0.02, "\n".join(never), transform=ax.transAxes, **style)
    write_title(ax, _title(refinement, subgame, lane, shared) if title is None else title, pad)
    return ax


def _policies(refinement: Refinement, subgame: int, lane: int) -> tuple[Policy, Policy]:
    """The blueprint and the refined policy of a lane."""
    for name, value, count in (
        ("subgame", subgame, refinement.num_subgames),
        ("lane", lane, refinement.policy.num_lanes),
    ):
        check_whole_number(name, value, 0, count - 1)
    blueprint = refinement.blueprint
    return blueprint.lane(lane % blueprint.num_lanes), refinement.policy.lane(lane)


def infoset_reach(policy: Policy, player: int) -> FloatArray:
    """`[I]` probability of reaching each infoset of a player under a profile of one lane."""
    tree = policy.histories
    acts = np.nonzero(tree.infoset[player] >= 0)[0]
    reach = tree.chance[acts]
    for who in (0, 1):
        reach = reach * policy.reach(who)[tree.sequence[who, acts], 0]
    total = np.bincount(tree.infoset[player, acts], reach, minlength=len(tree.infosets[player]))
    return np.asarray(total, np.float64)


def root_reach(forest: Forest, player: int, policy: Policy) -> FloatArray:
    """`[R]` `N(s)` of the other player's roots, for a policy of one lane."""
    reach = forest.roots[player].reach(policy.reach(player))
    reach = pad_rows(reach, forest.form.treeplex[player].num_roots, 0)
    return multiply(forest.chance, 1 - player, reach)[: len(forest.roots[1 - player]), 0]


def normalised(reach: FloatArray) -> FloatArray:
    """Reaches divided by their sum, NaN if that is 0."""
    total = reach.sum()
    return reach / total if total > 0 else np.full(len(reach), np.nan)


def _largest(numbers: pd.DataFrame, most: int) -> IntArray:
    """Ascending indices of the `most` rows with the largest numbers; of equal rows, the first."""
    order = np.argsort(-numbers.to_numpy().max(axis=1), kind="stable")
    return np.sort(order[:most])


def _check_most(most: int) -> None:
    check_whole_number("most", most, 1)


def _draw_bars(
    ax: Axes, rows: pd.DataFrame, name: str, middle: float, height: float, *, pale: bool = False
) -> None:
    """Draws one stacked bar: the probabilities of an infoset's actions."""
    left = 0.0
    for action, share in zip(rows["action"].tolist(), rows[name].tolist(), strict=True):
        ax.barh(middle, share, height, left=left, **_action_look(action, pale))
        left += share


def _action_look(action: int, pale: bool = False) -> dict[str, Any]:
    """Colour and hatching by the action's id, which are the same in all subgames."""
    from matplotlib.colors import to_rgb

    strength = 0.45 if pale else 1.0
    color = tuple(1 - strength * (1 - part) for part in to_rgb(PALETTE[action % len(PALETTE)]))
    hatch = _HATCHES[action // len(PALETTE) % len(_HATCHES)]
    return {"facecolor": color, "hatch": hatch, "edgecolor": "#FFFFFF", "linewidth": 0}


def _action_patches(frame: pd.DataFrame) -> list[Any]:
    from matplotlib.patches import Patch

    actions = frame.drop_duplicates("action").sort_values("action")
    named = zip(actions["action"].tolist(), actions["action_name"].tolist(), strict=True)
    return [Patch(**_action_look(action), label=name) for action, name in named]


def _size(names: Sequence[str]) -> tuple[float, float]:
    """Size in inches of a picture with one row per name; wider for long names."""
    longest = max(map(len, names))
    return _WIDTH + _LETTER * max(longest - NAME_WIDTH, 0), 0.34 * len(names) + 1.8


def _legend(ax: Axes, handles: list[Any], names: Sequence[str]) -> float:
    """Draws a legend between axes and title, as wide as the axes with the row names.

    Returns:
      Padding of the title in points.
    """
    figure = ax.get_figure(root=True)
    width = (figure.get_figwidth() if figure is not None else _WIDTH) * ax.get_position().width / 0.775
    room = max(width - _LETTER * max(map(len, names)) - 0.65, 1.0)
    needed = 0.36 + _LETTER * max(len(str(handle.get_label())) for handle in handles)
    columns = min(len(handles), max(int(room / needed), 1))
    ax.legend(
        handles=handles,
        ncols=columns,
        fontsize=8,
        frameon=False,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        borderaxespad=0.2,
        handlelength=1.2,
        columnspacing=1.2,
    )
    return 8.0 + 13.0 * -(-len(handles) // columns)


def percent(share: float) -> str:
    """A share as a percentage, such as `12 %`."""
    if share >= 0.0995:
        return f"{100 * share:.0f} %"
    return f"{100 * share:.2g} %" if share == 0 or share >= 1e-4 else "<0.01 %"


def _set_rows(ax: Axes, names: list[str]) -> None:
    """Sets one row per name on the y axis, the first on top, and shares on the x axis."""
    ax.set_yticks(range(len(names)), names, fontsize=8)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlim(0, 1)
    ax.grid(True, axis="x", color="#DDDDDD", linewidth=0.5)
    ax.set_axisbelow(True)
    ax.tick_params(labelsize=8)
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right"]].set_visible(False)


def _title(refinement: Refinement, subgame: int, lane: int, shared: str) -> str:
    forest = refinement.forest
    lines = [f"{forest.tree.game.name} {forest.cut.name}, subgame {subgame}"]
    lines.append(refinement.policy.labels[lane])
    if not refinement.has_decision[subgame, lane]:
        lines.append("nothing to solve: the blueprint is kept")
    return "\n".join([*lines, shared] if shared else lines)
