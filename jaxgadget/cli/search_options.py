"""What may be said to `train-value`, `nested` and `match` besides what all commands know."""

from __future__ import annotations

import enum
import pathlib
from typing import TYPE_CHECKING, Annotated

import typer

from jaxgadget.cli import options
from jaxgadget.cli.options import MOST_ITERATIONS
from jaxgadget.gadgets.registry import DEFAULT_GADGETS

NESTED_GADGETS = (*DEFAULT_GADGETS, "full", "optimal-continuation")
"""What nested search knows; matches search with the first ones."""

BLUEPRINT = "cfr:10"
"""What is searched with if nothing else is asked for."""


if TYPE_CHECKING:  # a member is a string, and checkers cannot know which
    SearchGadgetName = NestedGadgetName = str
else:
    SearchGadgetName = enum.StrEnum("SearchGadgetName", {name: name for name in DEFAULT_GADGETS})
    NestedGadgetName = enum.StrEnum("NestedGadgetName", {name: name for name in NESTED_GADGETS})


class TargetsName(enum.StrEnum):
    """What a network learns from."""

    EXACT = "exact"
    SAMPLED = "sampled"


class LimitName(enum.StrEnum):
    """Where searches end."""

    OWN = "own"
    MOVES = "moves"


class BeyondName(enum.StrEnum):
    """What an opponent who follows a model does below the limit."""

    RATIONAL = "rational"
    MODEL = "model"


class NetworkName(enum.StrEnum):
    """What a network of ranges looks at."""

    PADDED = "padded"
    INFOSTATES = "infostates"


Blueprint = Annotated[
    list[str] | None,
    typer.Option(
        "--blueprint",
        metavar="SPEC",
        show_default=BLUEPRINT,
        help="One blueprint, as for `refine`; its portfolio is the entries.",
    ),
]
Blueprints = Annotated[
    list[str] | None,
    options.repeatable(
        "--blueprint",
        metavar="SPEC",
        show_default=BLUEPRINT,
        help="A blueprint, as for `refine`; its portfolio is the entries.",
    ),
]
Gadget = Annotated[
    list[SearchGadgetName] | None,
    options.repeatable(
        "--gadget",
        metavar="NAME",
        show_default="all three",
        help="The opponent's way into a subgame: `unsafe`, `resolving` or `max-margin`.",
    ),
]
NestedGadget = Annotated[
    list[NestedGadgetName] | None,
    options.repeatable(
        "--gadget",
        metavar="NAME",
        show_default="unsafe, resolving and max-margin; with --model or optimal values optimal-continuation",
        help="The opponent's way into a subgame: `unsafe`, `resolving`, `max-margin` or `full`, a subgame at "
        "a time; `optimal-continuation` searches all subgames of a level jointly, which is safe.",
    ),
]
Beyond = Annotated[
    BeyondName,
    typer.Option(
        "--beyond",
        metavar="rational|model",
        help="What an opponent who follows the model does below the limit of a search.",
    ),
]
LimitOption = Annotated[
    LimitName,
    typer.Option(
        "--limit",
        metavar="own|moves",
        help="Where searches end: where the searching player decides again, at least D moves down; or after "
        "exactly D moves, whoever decides then, the first search at the game's root.",
    ),
]
Order = Annotated[
    str | None,
    typer.Option(
        "--order",
        metavar="K",
        show_default="what is common knowledge",
        help="Search from own infostates, by what the player knows there: 1, 3, 5, … steps of who thinks "
        "what possible, or `inf`; not safe.",
    ),
]
Follow = Annotated[
    options.FollowName,
    typer.Option(
        "--follow",
        metavar="believed|assembled",
        help="With `--order`, what a later search takes for granted of the player's own play: what the "
        "search before it found, or what those from all own infostates found.",
    ),
]
Step = Annotated[
    int | None,
    typer.Option(
        "--step",
        metavar="N",
        min=1,
        show_default="1, or D with --limit moves",
        help="How many own decisions, or with `--limit moves` moves, are played before the next search.",
    ),
]
Depth = Annotated[
    int,
    typer.Option(
        "--depth",
        metavar="D",
        min=1,
        help="Number of moves down to the limit; the least one where that is at own decisions.",
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
        metavar="exact|DIR|end|optimal|ranges:DIR",
        help="Values at the limit: exact, or a network that `train-value` made for this blueprint; or, for "
        "`nested`, `end`, there is no limit, `optimal`, all that lies below is solved with the search, or a "
        "network of ranges that `train-ranges` made, whose cut is the limit.",
    ),
]
Epsilon = Annotated[
    list[float] | None,
    options.repeatable(
        "--epsilon",
        metavar="E",
        show_default="0.02",
        help="How likely the opponent errs towards the prior, at least 0 and below 1.",
    ),
]
OneEpsilon = Annotated[
    float,
    typer.Option(
        "--epsilon",
        metavar="E",
        min=0,
        max=1,
        help="How likely the opponent errs towards the prior, at least 0 and below 1.",
    ),
]
Out = Annotated[
    pathlib.Path,
    typer.Option(
        "--out",
        metavar="DIR",
        show_default=False,
        parser=options.folder,
        help="Where checkpoints and the log are kept; the same command goes on with what is there.",
    ),
]
Steps = Annotated[int, typer.Option("--steps", metavar="N", min=1, help="Training steps.")]
Width = Annotated[int, typer.Option("--width", metavar="N", min=1, help="Units of a layer of the network.")]
Blocks = Annotated[
    int,
    typer.Option(
        "--blocks",
        metavar="N",
        min=0,
        max=MOST_ITERATIONS,
        help="Residual blocks of the network, of two layers each: its `depth` in Python.",
    ),
]
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
        min=0,
        max=1,
        help="Of the histories, at least 0 and below 1, for their error alone; search asks about them too "
        "and does best with 0.",
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
RangesCut = Annotated[
    str | None,
    typer.Option(
        "--cut",
        metavar="CUT",
        show_default="the game's first",
        help="Below which subgames are learnt: `depth:D`, or a name of the game's, such as `flop`.",
    ),
]
Samples = Annotated[
    int,
    typer.Option("--samples", metavar="N", min=16, help="Pairs of ranges that are drawn first."),
]
Rounds = Annotated[
    int,
    typer.Option(
        "--rounds",
        metavar="N",
        min=0,
        max=100,
        help="Of collecting half as many more where searches with the network ask.",
    ),
]
RangeNetworkOption = Annotated[
    NetworkName,
    typer.Option(
        "--network",
        metavar="padded|infostates",
        help="`padded`: the most accurate for its cut; `infostates`: one that serves other cuts, too.",
    ),
]
RangeSteps = Annotated[int, typer.Option("--steps", metavar="N", min=1, help="Training steps.")]
RangeBatch = Annotated[
    int,
    typer.Option("--batch-size", metavar="N", min=1, help="Pairs of ranges a training step."),
]
LabelIterations = Annotated[
    int,
    typer.Option(
        "--iterations", metavar="N", min=1, max=MOST_ITERATIONS, help="Of CFR+ in every subgame learnt from."
    ),
]
RangeHeldOut = Annotated[
    float,
    typer.Option(
        "--heldout",
        metavar="SHARE",
        min=0,
        max=1,
        help="Of the ranges and of the blueprints that are searched, at least 0 and below 1, for their error "
        "alone.",
    ),
]
Targets = Annotated[
    TargetsName,
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
    typer.Option(
        "--plot", metavar="FILE", help="Draw mean returns and win rates as heat maps: .png, .svg or .pdf."
    ),
]
NestedPlot = Annotated[
    pathlib.Path | None,
    typer.Option(
        "--plot", metavar="FILE", help="Draw nested against blueprint exploitability: .png, .svg or .pdf."
    ),
]
