"""What may be said to `train-value`, `nested` and `match` besides what all commands know."""

from __future__ import annotations

import pathlib
from typing import Annotated

import typer

Blueprint = Annotated[
    str,
    typer.Option(
        "--blueprint", metavar="SPEC", help="One blueprint, as for `refine`; its portfolio is the entries."
    ),
]
Depth = Annotated[
    int,
    typer.Option(
        "--depth",
        metavar="D",
        min=1,
        help="Least number of moves down to the limit; it lies where the searching player decides again.",
    ),
]
Entries = Annotated[
    int,
    typer.Option(
        "--k",
        metavar="K",
        min=1,
        help="Strategies that each player has to choose from at the limit; the first is the blueprint.",
    ),
]
Leaf = Annotated[
    str,
    typer.Option(
        "--leaf",
        metavar="exact|DIR",
        help="Values at the limit: exact, or a network that `train-value` made for this blueprint.",
    ),
]
Epsilon = Annotated[
    list[float] | None,
    typer.Option(
        "--epsilon",
        metavar="E",
        show_default="0.02",
        help="How likely the opponent errs towards the prior, at least 0 and below 1. *May be repeated.*",
    ),
]
OneEpsilon = Annotated[
    float,
    typer.Option(
        "--epsilon",
        metavar="E",
        help="How likely the opponent errs towards the prior, at least 0 and below 1.",
    ),
]
Out = Annotated[
    pathlib.Path,
    typer.Option(
        "--out",
        metavar="DIR",
        show_default=False,
        help="Where checkpoints and the log are kept; the same command goes on with what is there.",
    ),
]
Steps = Annotated[int, typer.Option("--steps", metavar="N", min=1, help="Training steps.")]
Width = Annotated[int, typer.Option("--width", metavar="N", min=1, help="Units of a layer of the network.")]
BatchSize = Annotated[
    int, typer.Option("--batch-size", metavar="N", min=1, help="Histories a training step.")
]
LearningRate = Annotated[
    float,
    typer.Option(
        "--learning-rate", metavar="R", help="The largest; it rises over 2 % of the steps, then falls."
    ),
]
Seed = Annotated[int, typer.Option("--seed", metavar="SEED", min=0, help="Of everything that is drawn.")]
Matches = Annotated[
    int,
    typer.Option("--matches", metavar="N", min=1, help="Of each pair; a match is a game in either seating."),
]
Targets = Annotated[
    str,
    typer.Option(
        "--targets",
        metavar="exact|sampled",
        help="What the network learns from: exact expectations, or sampled returns where these do not fit "
        "(the game must).",
    ),
]
Plot = Annotated[
    pathlib.Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw the curves of the training: .png, .svg or .pdf."),
]
MatchPlot = Annotated[
    pathlib.Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw the win rates as a heat map: .png, .svg or .pdf."),
]
