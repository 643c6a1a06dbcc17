"""Training curves of a network: its loss, and its held-out error or NashConv."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jaxgadget.report.styles import PALETTE, column, dress, own_axes

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_COLUMNS = ("step", "loss", "heldout_rmse")


def draw_training(
    log: pd.DataFrame,
    ax: Axes | None = None,
    *,
    payoff_range: float | None = None,
    goal: float | None = None,
    title: str | None = None,
) -> Axes:
    """Draws the root of the loss and the held-out error over the steps, with a logarithmic y axis.

    Both are in per cent of `payoff_range`. Without it the error is in payoff units, and the loss, which is
    only known relative to the range, is omitted. The loss of sampled returns includes their noise.

    Args:
      log: columns `step`, `loss` and `heldout_rmse`, as `Training.log` has them; at least one row.
      ax: axes to draw on; by default the axes of a new pyplot figure.
      payoff_range: maximum minus minimum payoff.
      goal: target error, in the unit of the y axis, drawn as a horizontal line.
      title: title of the axes.

    Raises:
      ValueError: if the log has no rows or lacks a column, or `payoff_range` is not positive.
    """
    if log.empty or not set(_COLUMNS) <= set(log.columns):
        raise ValueError(
            f"log has {len(log)} rows with columns {', '.join(map(str, log.columns))}; expected at least one "
            f"row with {', '.join(_COLUMNS)}"
        )
    if payoff_range is not None and not payoff_range > 0:
        raise ValueError(f"payoff_range={payoff_range!r}: expected a positive number, or None")
    ax = own_axes(ax)
    steps, error = column(log, "step"), column(log, "heldout_rmse")
    if payoff_range is not None:
        error = 100 * error / payoff_range
        ax.plot(steps, 100 * np.sqrt(column(log, "loss")), color=PALETTE[0], lw=1.4, label="Root of the loss")
    if not np.isnan(error).all():
        ax.plot(steps, error, color=PALETTE[5], linewidth=1.4, label="Held-out RMSE")
    if goal is not None:
        ax.axhline(goal, color="#777777", linewidth=0.9, linestyle="--", label=f"Goal: {goal:g}")
    ax.set_yscale("log")
    if payoff_range is not None:
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:g} %")
    ax.set_xlabel("Training steps", fontsize=9)
    ax.set_ylabel("Error [payoff]" if payoff_range is None else "Error, of the payoff range", fontsize=9)
    ax.legend(fontsize=8, frameon=False)
    dress(ax, title)
    return ax


def draw_policy_training(log: pd.DataFrame, ax: Axes | None = None, *, title: str | None = None) -> Axes:
    """Draws NashConv, or the loss if NashConv is unknown, over the steps, with a logarithmic y axis.

    Args:
      log: columns `step`, `loss` and `nash_conv`, as `PolicyTraining.log` has them; at least one row.
      ax: axes to draw on; by default the axes of a new pyplot figure.
      title: title of the axes.

    Raises:
      ValueError: if the log has no rows or lacks a column.
    """
    columns = ("step", "loss", "nash_conv")
    if log.empty or not set(columns) <= set(log.columns):
        raise ValueError(
            f"log has {len(log)} rows with columns {', '.join(map(str, log.columns))}; expected at least one "
            f"row with {', '.join(columns)}"
        )
    ax = own_axes(ax)
    gap = column(log, "nash_conv")
    is_known = not np.isnan(gap).all()
    ax.plot(column(log, "step"), gap if is_known else column(log, "loss"), color=PALETTE[0], linewidth=1.4)
    if is_known:
        ax.set_yscale("log")
    ax.set_xlabel("Training steps", fontsize=9)
    ax.set_ylabel("NashConv [payoff]" if is_known else "Loss", fontsize=9)
    dress(ax, title)
    return ax
