"""What may be said on the command line: the options, their defaults' names and their help.

Names of algorithms, gadgets and priors are written out here, so that help needs no JAX; a test
compares them with the registries.
"""

from __future__ import annotations

import enum
import pathlib
import sys
from collections.abc import Callable
from typing import Annotated

import typer


class AlgorithmName(enum.StrEnum):
    """CFR's variants."""

    CFR = "cfr"
    CFR_PLUS = "cfr+"
    LINEAR_CFR = "linear-cfr"
    DCFR = "dcfr"
    PCFR_PLUS = "pcfr+"


class DtypeName(enum.StrEnum):
    """Precision of a solve."""

    FLOAT32 = "float32"
    FLOAT64 = "float64"


class GadgetName(enum.StrEnum):
    """The opponent's ways into a subgame."""

    UNSAFE = "unsafe"
    RESOLVING = "resolving"
    MAX_MARGIN = "max-margin"


class PriorName(enum.StrEnum):
    """Where the opponent's mistakes at a gadget lead."""

    NONE = "none"
    UNIFORM = "uniform"
    BLUEPRINT = "blueprint"


def _either(names: type[enum.StrEnum]) -> str:
    """`a`, `b` or `c`."""
    *most, last = (f"`{name}`" for name in names)
    return f"{', '.join(most)} or {last}"


def _within(low: int, high: int | None = None) -> Callable[[float | None], float | None]:
    """Refuses what is out of range; without an upper end, what is not finite too."""

    def check(value: float | None) -> float | None:
        if value is None or low <= value <= (sys.float_info.max if high is None else high):
            return value
        upper = " or more" if high is None else f" to {high}"
        raise typer.BadParameter(f"{value} is out of range, expected {low}{upper}.")

    return check


Game = Annotated[
    str,
    typer.Argument(
        metavar="GAME",
        show_default=False,
        help="A name from `jaxgadget games`, with parameters in parentheses; `openspiel:NAME(…)`; a Gambit "
        "file that ends in `.efg`.",
    ),
]
Algorithm = Annotated[
    AlgorithmName,
    typer.Option("--algorithm", metavar="NAME", help=f"Which CFR: {_either(AlgorithmName)}."),
]
Iterations = Annotated[
    int,
    typer.Option(
        "--iterations",
        metavar="N",
        callback=_within(1),
        help="How many at most; one updates both players.",
    ),
]
Dtype = Annotated[
    DtypeName,
    typer.Option(
        "--dtype",
        metavar="NAME",
        help=f"Precision of the solve: {_either(DtypeName)}. What is reported is always computed in float64.",
    ),
]
TargetGap = Annotated[
    float | None,
    typer.Option(
        "--target-gap",
        metavar="GAP",
        callback=_within(0),
        help="Stop as soon as the gap, NashConv of what is solved, is no larger; in units of payoff.",
    ),
]
MaxHistories = Annotated[
    int,
    typer.Option(
        "--max-histories",
        metavar="N",
        callback=_within(1),
        help="Give up on a game of more histories than that.",
    ),
]
Json = Annotated[
    str | None,
    typer.Option("--json", metavar="FILE", help="Write the results as JSON; `-` is standard output, alone."),
]
Save = Annotated[
    pathlib.Path | None,
    typer.Option(
        "--save", metavar="FILE", help="Write the strategies; `--blueprint file:FILE` reads them again."
    ),
]
CheckpointFile = Annotated[
    pathlib.Path | None,
    typer.Option(
        "--checkpoint", metavar="FILE", help="Save work to this file now and then, and resume from it."
    ),
]
CheckpointFolder = Annotated[
    pathlib.Path | None,
    typer.Option(
        "--checkpoint", metavar="FOLDER", help="Save work to this folder now and then, and resume from it."
    ),
]
Cut = Annotated[
    str | None,
    typer.Option(
        "--cut",
        metavar="CUT",
        show_default="the first that the game names, else depth:1",
        help="Where subgames begin: `depth:D`, after D moves of the players, or a name of the game's, such "
        "as Leduc's `flop`.",
    ),
]
Player = Annotated[
    int,
    typer.Option(
        "--player", metavar="0|1", callback=_within(0, 1), help="Who re-solves; the other is the opponent."
    ),
]
Blueprint = Annotated[
    list[str] | None,
    typer.Option(
        "--blueprint",
        metavar="SPEC",
        show_default="12 checkpoints of CFR and 8 Dirichlet draws",
        help="A strategy of both players: `uniform`; `geometric:R`, the k-th legal action ∝ R^k; "
        "`dirichlet:SEED[:ALPHA]`, drawn at random; `cfr:N` or `cfr+:N`, the average after N iterations; "
        "`file:PATH`, all that `--save` wrote. *May be repeated.*",
    ),
]
Gadget = Annotated[
    list[GadgetName] | None,
    typer.Option(
        "--gadget",
        metavar="NAME",
        show_default="all",
        help=f"The opponent's way into a subgame: {_either(GadgetName)}. *May be repeated.*",
    ),
]
Prior = Annotated[
    list[PriorName] | None,
    typer.Option(
        "--prior",
        metavar="NAME",
        show_default="all",
        help=f"Where the opponent's mistakes at the gadget lead: {_either(PriorName)}; the unsafe gadget "
        "knows only `none`. *May be repeated.*",
    ),
]
Epsilon = Annotated[
    list[float] | None,
    typer.Option(
        "--epsilon",
        metavar="E",
        show_default="0.001",
        help="How likely such mistakes are, from 0 to less than 1. *May be repeated.*",
    ),
]
Infostate = Annotated[
    str | None,
    typer.Option("--infostate", metavar="STRING", help="Only the subgame in which this infostate lies."),
]
Plot = Annotated[
    pathlib.Path | None,
    typer.Option(
        "--plot", metavar="FILE", help="Draw refined against blueprint exploitability: .png, .svg or .pdf."
    ),
]
Rows = Annotated[bool, typer.Option("--rows", help="Print every row, not a summary of many.")]
