"""Responses to opponents as printed tables and JSON records."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.table import Table

from jaxgadget.opponents.opponent import show_probability
from jaxgadget.report.layout import UNDEFINED, Column, Row, number, number_text, rows_to_table, text
from jaxgadget.report.tables import NOISE, constant_field, drop_undefined

if TYPE_CHECKING:
    from jaxgadget.opponents.result import Responses

ARBITRARY = 1.0
"""The p at which a response is one of many best responses, so that its exploitability is arbitrary."""


def responses_frame(responses: Sequence[Responses]) -> pd.DataFrame:
    """The concatenated tables of several results of one game."""
    return pd.concat([result.table for result in responses], ignore_index=True)


def responses_record(responses: Sequence[Responses]) -> dict[str, Any]:
    """Record of `jaxgadget respond --json`; rows have a `failure` only if a solve failed."""
    first, frame = responses[0], drop_undefined(responses_frame(responses), ["failure"])
    tree = first.policy.tree
    return {
        "game": tree.game.name,
        "game_value": list(first.game_value),
        "rows": frame.to_dict("records"),
        **constant_field(tree.constant),
    }


def probability(name: str) -> Column:
    """A column of probabilities from the field `name`, with all digits."""
    return Column(name, lambda row: show_probability(row[name]), is_number=True)


def _short_probability(row: Row) -> str:
    """The row's p with four digits, or with all digits if it would be displayed as 0 or 1."""
    p = f"{row['p']:.4g}"
    return p if p not in ("0", "1") else show_probability(row["p"])


def share_of_best(gain: float, best: float, value: tuple[float, float]) -> str:
    """A gain as a share of the best response's; undefined if the latter is within the value's bracket."""
    if not math.isfinite(gain) or best <= value[1] - value[0] + NOISE:
        return UNDEFINED
    return f"{gain / best:.1%}"


def _exploitability(row: Row) -> str:
    """The row's exploitability; marked for p = 1."""
    return number_text(row["exploitability"]) + ("*" if row["p"] == ARBITRARY else "")


def responses_table(responses: Sequence[Responses]) -> Table:
    """One row for each response of a player, in one section per model; p = 1 is marked."""

    def of_best(row: Row) -> str:
        return share_of_best(row["gain"], row["best_response_gain"], responses[0].game_value)

    frame = responses_frame(responses)
    frame = frame.iloc[frame.groupby("model", sort=False, dropna=False).ngroup().argsort(kind="stable")]
    columns = [
        Column("model", lambda row: str(row["model"])),
        text("method"),
        Column("p", _short_probability, True),
        number("gain"),
        Column("of best", of_best, True),
        Column("exploitability", _exploitability, True),
        number("bound", "exploitability_bound"),
        number("objective"),
        number("gap", digits=2),
    ]
    return rows_to_table(
        frame,
        columns,
        title=f"Player {responses[0].player}'s responses",
        fold="model",
        sections=["model"],
    )


def responses_notes(responses: Sequence[Responses]) -> list[str]:
    """The responses, and the meaning of the numbers."""
    first = responses[0]
    low, high = first.game_value
    marked = any((result.opponents.p == ARBITRARY).any() for result in responses)
    return [
        f"{first.policy.tree.game.name}: "
        + "; ".join(f"{result.method}, {result.message}" for result in responses)
        + ".",
        "Gain: value against the model minus the game's; of best: gain as a share of a best response's; "
        "exploitability: the game's value minus the guaranteed value; bound: (p·gain + gap) / (1−p), if "
        "defined.",
        f"Game value of player 0: between {low:.9g} and {high:.9g}; all other numbers are in player "
        f"{first.player}'s payoff.",
        "* At p = 1 the exploitability is that of one of many best responses, not a property of the method."
        if marked
        else "",
    ]
