"""What may be said to `train-value`, `nested` and `match` besides what all commands know."""

from __future__ import annotations

import pathlib
from typing import Annotated

import typer

from jaxgadget.gadgets.registry import GADGETS
from jaxgadget.gadgets.specs import DEFAULT_GADGETS
from jaxgadget.solving.options import MOST_ITERATIONS

BLUEPRINT = "cfr:10"
"""What is searched with if nothing else is asked for."""


def _one_blueprint(specs: list[str] | None) -> list[str] | None:
    """Refuses several."""
    if specs and len(specs) > 1:
        raise typer.BadParameter(f"{', '.join(specs)} are several; expected one.")
    return specs


def _searched(names: list[str] | None) -> list[str] | None:
    """Refuses gadgets that look above the subgame."""
    for name in names or []:
        if name not in DEFAULT_GADGETS:
            wrong = "needs the game above the subgame" if name in GADGETS else "is unknown"
            raise typer.BadParameter(f"search takes unsafe, resolving or max-margin; {name!r} {wrong}.")
    return names


def _share(epsilon: float) -> float:
    """Refuses what is not in [0, 1)."""
    if not 0 <= epsilon < 1:
        raise typer.BadParameter(f"{epsilon} is out of range, expected 0 to less than 1.")
    return epsilon


def _shares(epsilons: list[float] | None) -> list[float] | None:
    """Refuses those that are not in [0, 1)."""
    return epsilons and [_share(epsilon) for epsilon in epsilons]


Blueprint = Annotated[
    list[str] | None,
    typer.Option(
        "--blueprint",
        metavar="SPEC",
        callback=_one_blueprint,
        show_default=BLUEPRINT,
        help="One blueprint, as for `refine`; its portfolio is the entries.",
    ),
]
Blueprints = Annotated[
    list[str] | None,
    typer.Option(
        "--blueprint",
        metavar="SPEC",
        show_default=BLUEPRINT,
        help="A blueprint, as for `refine`; its portfolio is the entries. *May be repeated.*",
    ),
]
Gadget = Annotated[
    list[str] | None,
    typer.Option(
        "--gadget",
        metavar="NAME",
        callback=_searched,
        show_default="all three",
        help="The opponent's way into a subgame: `unsafe`, `resolving` or `max-margin`. *May be repeated.*",
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
LeafEntries = Annotated[
    int | None,
    typer.Option(
        "--k",
        metavar="K",
        min=1,
        show_default="10, or the network's",
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
        callback=_shares,
        show_default="0.02",
        help="How likely the opponent errs towards the prior, at least 0 and below 1. *May be repeated.*",
    ),
]
OneEpsilon = Annotated[
    float,
    typer.Option(
        "--epsilon",
        metavar="E",
        callback=_share,
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
HeldOut = Annotated[
    float,
    typer.Option(
        "--heldout",
        metavar="SHARE",
        callback=_share,
        help="Of the histories, for their error alone; search asks about them too and does best with 0.",
    ),
]
SearchIterations = Annotated[
    int,
    typer.Option("--iterations", metavar="N", min=1, max=MOST_ITERATIONS, help="Of CFR+ in every search."),
]
ErrorIterations = Annotated[
    int,
    typer.Option(
        "--iterations",
        metavar="N",
        min=1,
        max=MOST_ITERATIONS,
        help="Of the searches whose leaves errors are told for; training is --steps.",
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
