"""Shared by the experiments: settings, blueprints, and a network of ranges for each game and cut."""

from __future__ import annotations

import functools
import pathlib
import re

import pandas as pd

from experiments.common import tree_of
from experiments.refinements.common import BLUEPRINTS, GRID, SMALL, SMOKE_BLUEPRINTS
from experiments.refinements.larger import GAMES as LARGER
from experiments.study import Settings
from jaxgadget import FolderRanges, Policy, RangeTraining, train_ranges
from jaxgadget.learn.options import RangeTrainingConfig
from jaxgadget.policy.blueprints import make_blueprints

HERE = pathlib.Path(__file__).parent

FEW_BLUEPRINTS = ("cfr:3", "cfr:10", "cfr:30", "cfr:100", "cfr:300", "draws:5")
"""Blueprints of larger games."""

LARGER_TRAINING = {"samples": 2048, "steps": 5000, "width": 64}
"""Settings for larger games, with which a network still takes minutes."""

SMOKE_TRAINING = {"samples": 16, "rounds": 1, "steps": 20, "iterations": 20, "width": 8}


def cases(settings: Settings) -> list[tuple[str, str]]:
    """Games and cuts: those of Figure 2."""
    grid = settings.pick(GRID, SMALL)
    return [(game, cut) for game, cuts in grid.items() for cut in cuts]


def larger_cases(settings: Settings) -> list[tuple[str, str]]:
    """Games beyond Figure 2: larger Leducs and Liar's Dice; none in a smoke test."""
    return settings.pick([(game, cut) for game, cuts in LARGER.items() for cut in cuts], [])


@functools.lru_cache(maxsize=1)
def blueprints(settings: Settings, game: str) -> Policy:
    """Figure 2's 45 blueprints: checkpoints of CFR, spread over exploitability, and draws; else ten."""
    specifications = FEW_BLUEPRINTS if game in LARGER else BLUEPRINTS
    return make_blueprints(tree_of(game), settings.pick(specifications, SMOKE_BLUEPRINTS))


def network_folder(settings: Settings, game: str, cut: str) -> pathlib.Path:
    """Folder of the network of a game and cut."""
    return settings.work / "networks" / re.sub(r"\W+", "-", f"{game} {cut}").strip("-")


def train(settings: Settings, game: str, cut: str) -> RangeTraining:
    """The network of a game and cut; its training is resumed.

    With the defaults of `train_ranges` for the games of Figure 2.
    """
    folder = network_folder(settings, game, cut)
    folder.parent.mkdir(parents=True, exist_ok=True)
    options = settings.pick(LARGER_TRAINING if game in LARGER else {}, SMOKE_TRAINING)
    config = RangeTrainingConfig(**options)
    return train_ranges(tree_of(game), cut, config=config, folder=folder, progress=settings.progress)


def network(settings: Settings, game: str, cut: str) -> FolderRanges:
    """The trained network of a game and cut, as range values; trained if it is missing."""
    values = FolderRanges(str(network_folder(settings, game, cut)))
    if not pathlib.Path(values.folder).exists() or values.error is None:
        train(settings, game, cut)
    return values


def by_label(frame: pd.DataFrame) -> pd.Series:
    """Kind of a blueprint: a checkpoint of CFR or a draw."""
    return frame["blueprint"].str.startswith("draw").map({True: "draws", False: "checkpoints"})
