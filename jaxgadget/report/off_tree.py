"""Answers to actions off the menu as printed tables and JSON records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.table import Table

from jaxgadget.report.layout import UNDEFINED, Column, Row, count, decimal, number, rows_to_table, text
from jaxgadget.report.tables import constant_field, constant_note, drop_undefined

if TYPE_CHECKING:
    from jaxgadget.subgames.off_tree import OffTree

OPTIONAL = ("spread", "above_optimum", "off_tree", "failure")
"""Columns that are written only if they have values."""


def off_tree_frame(results: Sequence[Sequence[OffTree]]) -> pd.DataFrame:
    """The concatenated tables of all results, with NashConv if both players answer.

    Args:
      results: for each player that answers, its results, with the same methods.
    """
    tables = [[result.table for result in answered] for answered in results]
    if len(tables) == 2:
        for first, second in zip(*tables, strict=True):
            # The sum of both guarantees suffices; the value of the game is not needed.
            first["nash_conv"] = second["nash_conv"] = -(first["certificate"] + second["certificate"])
    return pd.concat([table for answered in tables for table in answered], ignore_index=True)


def off_tree_record(results: Sequence[Sequence[OffTree]]) -> dict[str, Any]:
    """Record of `jaxgadget off-tree --json`; values of games are brackets of player 0's.

    Args:
      results: for each player that answers, its results, with the same methods.
    """
    first, frame = results[0][0], drop_undefined(off_tree_frame(results), OPTIONAL)
    tree = first.blueprint.tree
    return {
        "game": _game_name(first),
        "abstraction": tree.game.name,
        "off_tree": None if first.off_tree is None else list(first.off_tree),
        "game_value": None if first.game_value is None else list(first.game_value),
        "menu_values": {
            str(answered[0].player): None if (value := answered[0].menu_value) is None else list(value)
            for answered in results
        },
        "rows": frame.to_dict("records"),
        **constant_field(tree.constant),
    }


def off_tree_table(results: Sequence[Sequence[OffTree]]) -> Table:
    """One row for each method, gadget, prior and blueprint, a section for each player and method."""
    frame = off_tree_frame(results)
    columns = [
        *([Column("player", lambda row: str(row["player"]))] if len(results) > 1 else []),
        text("method"),
        Column("gadget", _gadget_name),
        text("prior"),
        text("blueprint"),
        number("exploitability"),
        number("certificate"),
        *([number("NashConv", "nash_conv")] if "nash_conv" in frame else []),
        number("gap", "gap_max", digits=2),
        count("subgames"),
        decimal("seconds", digits=1),
    ]
    return rows_to_table(frame, columns, fold="blueprint", sections=["player", "method"])


def off_tree_notes(results: Sequence[Sequence[OffTree]]) -> list[str]:
    """The meaning of the numbers, and the two baselines."""
    first = results[0][0]
    game = _game_name(first)
    if first.off_tree is not None:
        game += f", whose only actions off the menu are {', '.join(first.off_tree) or 'none'},"
    notes = [
        "A certificate is the strategy's guaranteed value, in the answering player's payoff; exploitability "
        "is the game's value minus the certificate.",
        _baseline(f"Value of {game} for player 0", first.game_value),
    ]
    for answered in results:
        player = answered[0].player
        notes.append(
            _baseline(
                f"Value if player {player} keeps to its menu and player {1 - player} does not",
                answered[0].menu_value,
            )
        )
    return [*notes, constant_note(first.blueprint.tree)]


def _baseline(label: str, value: tuple[float, float] | None) -> str:
    if value is None:
        return f"{label}: unknown, the game has too many histories."
    return f"{label}: between {value[0]:.9g} and {value[1]:.9g}."


def _gadget_name(row: Row) -> str:
    spread = f", spread {row['spread']}" if isinstance(row["spread"], str) else ""
    return f"{row['gadget'] or UNDEFINED}{spread}"


def _game_name(result: OffTree) -> str:
    game: Any = result.blueprint.tree.game
    return game.game.name
