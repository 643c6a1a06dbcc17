"""Responses to opponents, as tables for people and records for scripts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.table import Table

from jaxgadget.opponents.opponent import show_probability
from jaxgadget.report.tables import NOISE, make_table

if TYPE_CHECKING:
    from jaxgadget.opponents.result import Responses

NO_PROPERTY = 1.0
"""The p at which exploitability is that of one of many best responses."""


def responses_frame(responses: Sequence[Responses]) -> pd.DataFrame:
    """The tables of several results of one game below each other."""
    return pd.concat([result.table for result in responses], ignore_index=True)


def responses_record(responses: Sequence[Responses]) -> dict[str, Any]:
    """What `jaxgadget respond --json` writes; `failure` only if something failed."""
    first, frame = responses[0], responses_frame(responses)
    if frame["failure"].isna().all():
        frame = frame.drop(columns="failure")
    tree = first.policy.tree
    return {
        "game": tree.game.name,
        "game_value": list(first.game_value),
        "rows": frame.to_dict("records"),
        **({"constant": tree.constant} if tree.constant else {}),
    }


def _short(p: float) -> str:
    """A probability in four digits, or in all of them where it would look certain."""
    text = f"{p:.4g}"
    return text if text not in ("0", "1") else show_probability(p)


def share_of_best(gain: float, best: float, value: tuple[float, float]) -> str:
    """A gain as a share of the best response's; unknown if that is lost in the value's bracket."""
    if not math.isfinite(gain) or best <= value[1] - value[0] + NOISE:
        return "–"
    return f"{gain / best:.1%}"


def responses_table(responses: Sequence[Responses]) -> Table:
    """A line for every response of one player, a section for every model; p = 1 is marked."""
    frame = responses_frame(responses)
    numbers = ("p", "gain", "of best", "exploitability", "bound", "objective", "gap")
    shown = make_table("model", "method", *numbers, right=numbers, fold="model")
    shown.title = f"Player {responses[0].player}'s responses"
    for number, (model, rows) in enumerate(frame.groupby("model", sort=False, dropna=False)):
        if number:
            shown.add_section()
        for row in rows.to_dict("records"):
            mark = "*" if row["p"] == NO_PROPERTY else ""
            shown.add_row(
                str(model),
                row["method"],
                _short(row["p"]),
                _number(row["gain"]),
                share_of_best(row["gain"], row["best_response_gain"], responses[0].game_value),
                _number(row["exploitability"]) + mark,
                _number(row["exploitability_bound"]),
                _number(row["objective"]),
                f"{row['gap']:.2g}" if math.isfinite(row["gap"]) else "–",
            )
    return shown


def responses_notes(responses: Sequence[Responses]) -> list[str]:
    """What was done, and what the numbers mean."""
    first = responses[0]
    low, high = first.game_value
    marked = any((result.opponents.p == NO_PROPERTY).any() for result in responses)
    return [
        f"{first.policy.tree.game.name}: "
        + "; ".join(f"{result.method}, {result.message}" for result in responses)
        + ".",
        "Gain is the value against the model less the game's, of best its share of a best response's; "
        "exploitability the game's value less what is guaranteed; its bound (p·gain + gap) / (1−p), where "
        "there is one.",
        f"Game value of player 0: between {low:.9g} and {high:.9g}; all else in player {first.player}'s "
        "payoff.",
        "* At p = 1 the exploitability is that of one of many best responses, and no property of the method."
        if marked
        else "",
    ]


def _number(value: float) -> str:
    return f"{round(value, 5) + 0.0:.5f}" if math.isfinite(value) else "–"
