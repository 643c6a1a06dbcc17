"""Answers to actions off the menu, as tables for people and records for scripts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.table import Table

from jaxgadget.report.tables import constant_note, make_table

if TYPE_CHECKING:
    from jaxgadget.subgames.off_tree import OffTree

RARE = ("spread", "above_optimum", "off_tree", "failure")
"""Columns that are written only where they say something."""


def off_tree_frame(results: Sequence[Sequence[OffTree]]) -> pd.DataFrame:
    """The tables of all players' results below each other; with both players' their NashConv, too.

    Args:
      results: for every player that answers, its results, methods alike.
    """
    tables = [[result.table for result in answered] for answered in results]
    if len(tables) == 2:
        for first, second in zip(*tables, strict=True):
            # Of the players' guarantees, so it is known without the game's value.
            first["nash_conv"] = second["nash_conv"] = -(first["certificate"] + second["certificate"])
    return pd.concat([table for answered in tables for table in answered], ignore_index=True)


def off_tree_record(results: Sequence[Sequence[OffTree]]) -> dict[str, Any]:
    """What `jaxgadget off-tree --json` writes; values of games are brackets of player 0's.

    Args:
      results: for every player that answers, its results, methods alike.
    """
    first, frame = results[0][0], off_tree_frame(results)
    for name in RARE:
        if frame[name].isna().all():
            frame = frame.drop(columns=name)
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
        **({"constant": tree.constant} if tree.constant else {}),
    }


def off_tree_table(results: Sequence[Sequence[OffTree]]) -> Table:
    """A line for every method, gadget, prior and blueprint, a section for every player and method."""
    frame = off_tree_frame(results)
    both = ["NashConv"] if "nash_conv" in frame else []
    numbers = ("exploitability", "certificate", *both, "gap", "subgames", "seconds")
    players = ["player"] if len(results) > 1 else []
    shown = make_table(
        *players, "method", "gadget", "prior", "blueprint", *numbers, right=numbers, fold="blueprint"
    )
    for number, (_, rows) in enumerate(frame.groupby(["player", "method"], sort=False)):
        if number:
            shown.add_section()
        for row in rows.to_dict("records"):
            shown.add_row(
                *[str(row["player"])] * len(players),
                row["method"],
                _gadget_name(row),
                row["prior"] or "–",
                str(row["blueprint"]),
                _number(row["exploitability"]),
                _number(row["certificate"]),
                *(_number(row["nash_conv"]) for _ in both),
                f"{row['gap_max']:.2g}" if math.isfinite(row["gap_max"]) else "–",
                str(row["subgames"]),
                f"{row['seconds']:.1f}",
            )
    return shown


def off_tree_notes(results: Sequence[Sequence[OffTree]]) -> list[str]:
    """What the numbers mean, and the two baselines."""
    first = results[0][0]
    game = _game_name(first)
    if first.off_tree is not None:
        game += f", with nothing off the menu but {', '.join(first.off_tree) or 'nothing'},"
    notes = [
        "A certificate is what the strategy guarantees, in the answering player's payoff; exploitability is "
        "the game's value less that.",
        _baseline(f"Value of {game} for player 0", first.game_value),
    ]
    for answered in results:
        player = answered[0].player
        notes.append(
            _baseline(
                f"The same where player {player} keeps its menu and player {1 - player} does not",
                answered[0].menu_value,
            )
        )
    return [*notes, constant_note(first.blueprint.tree)]


def _baseline(what: str, value: tuple[float, float] | None) -> str:
    if value is None:
        return f"{what}: not known, the game has too many histories."
    return f"{what}: between {value[0]:.9g} and {value[1]:.9g}."


def _gadget_name(row: Mapping[Any, Any]) -> str:
    spread = f", spread {row['spread']}" if isinstance(row["spread"], str) else ""
    return f"{row['gadget'] or '–'}{spread}"


def _game_name(result: OffTree) -> str:
    game: Any = result.blueprint.tree.game
    return game.game.name


def _number(value: float) -> str:
    return f"{round(value, 5) + 0.0:.5f}" if math.isfinite(value) else "–"
