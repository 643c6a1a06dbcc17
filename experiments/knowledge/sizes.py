"""Sizes of knowledge: root histories in I, I² and I^∞, the component, for every own infostate I."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from experiments.knowledge.common import (
    LEDUC,
    cut_of,
    dark_hex,
    goofspiel,
    in_words,
    liars_dice,
    pennies,
)
from experiments.study import Settings
from jaxgadget import enumerate_game, load
from jaxgadget.tree.cut import Cut, cut, kept_subgames
from jaxgadget.tree.knowledge import colour_classes, knowledge_cover

NAME = "sizes"
ONE_LINE = "flop, one betting line"
SPOTS = (
    (liars_dice(4), "depth:0"),
    (liars_dice(6), "depth:0"),
    (LEDUC, ONE_LINE),
    (goofspiel(4), "depth:2"),
    (goofspiel(5), "depth:2"),
    (goofspiel(5), "depth:3"),
    (goofspiel(10), "depth:2"),
    (dark_hex(2, 2, "classical"), "own:2"),
    (dark_hex(2, 2, "abrupt"), "own:2"),
    (dark_hex(2, 3, "classical"), "own:3"),
    (dark_hex(2, 3, "abrupt"), "own:3"),
    (pennies(100), "depth:0"),
)
SMOKE_SPOTS = ((LEDUC, ONE_LINE), (goofspiel(4), "depth:2"), (pennies(4), "depth:0"))


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, cut and player."""

    def count(key: dict[str, Any]) -> pd.DataFrame:
        return pd.DataFrame(
            [
                key | {"player": player} | _count(_cut(key["game"], key["cut"], player), player)
                for player in (0, 1)
            ]
        )

    spots = settings.pick(SPOTS, SMOKE_SPOTS)
    return settings.gather(NAME, [{"game": game, "cut": where} for game, where in spots], count)


def _cut(game: str, where: str, player: int) -> Cut:
    """A cut; with ten cards only the histories above it are enumerated."""
    if where == ONE_LINE:
        flop, line = cut_of(game, "flop", player), cut_of(game, "before-flop", player)
        number = line.subgame[np.searchsorted(line.roots, line.root[flop.roots])]
        return kept_subgames(flop.tree, where, flop.roots[number == 0])
    if game == goofspiel(10):
        return cut(enumerate_game(load(game), depth=int(where.removeprefix("depth:"))), where)
    return cut_of(game, where, player)


def _count(where: Cut, player: int) -> dict[str, Any]:
    """The columns of a row."""
    row: dict[str, Any] = {"roots": len(where.roots), "components": where.num_subgames}
    sizes: dict[str, Any] = {}
    for name, order, unfrozen in (("I", 1, False), ("I²", 1, True), ("I^∞", math.inf, False)):
        found = knowledge_cover(where, player, order, unfrozen=unfrozen)
        sizes[name] = np.bincount(found.cover.subgame)[found.subgame]
    row["infostates"] = len(sizes["I"])
    row["classes"] = int(colour_classes(where, player).max()) + 1
    for name, size in sizes.items():
        row |= {f"mean {name}": float(size.mean()), f"most {name}": int(size.max())}
    return row | {"closed": float((sizes["I²"] == sizes["I^∞"]).mean())}


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Root histories of an own infostate I, the mean and the maximum; `closed`: share with I² = I^∞.

    `infostates` are the player's, `components` the subgames of common knowledge, and `classes` the steps that
    in-turn solving takes.
    """
    shown = frame.assign(game=[in_words(*spot) for spot in zip(frame["game"], frame["cut"], strict=True)])
    for name in ("I", "I²", "I^∞"):
        shown[name] = [
            f"{m:.2f} ({n})" for m, n in zip(frame[f"mean {name}"], frame[f"most {name}"], strict=True)
        ]
    columns = ["game", "player", "roots", "infostates", "components", "I", "I²", "I^∞", "closed", "classes"]
    return shown[columns]
