"""What may be said on the command line: the options, their defaults' names and their help.

The names come from tables that need no JAX; a test compares those that are written here with the library's.
"""

from __future__ import annotations

import enum
import pathlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jaxgadget.bench.defaults import DEFAULT_GAMES, DEFAULT_LANES, ENGINES
from jaxgadget.gadgets.registry import BEST_RESPONSE, DEFAULT_PRIORS, GADGETS, PRIORS
from jaxgadget.kernels.registry import RULES
from jaxgadget.util.arguments import read_number

LP = "lp"
"""Linear programs instead of regret matching."""

CFR_PLUS: Any = "cfr+"
"""What is solved with if nothing is said."""

MOST_ITERATIONS = 2**31 - 1
"""As many as the loop's counter holds."""


class DtypeName(enum.StrEnum):
    """Precision of a solve."""

    FLOAT32 = "float32"
    FLOAT64 = "float64"


class FormName(enum.StrEnum):
    """What a game is laid out by."""

    HISTORIES = "histories"
    HANDS = "hands"


class GiftsName(enum.StrEnum):
    """Which gifts a reach gadget counts."""

    LOWER_BOUND = "lower-bound"
    ESTIMATE = "estimate"


class PlayerName(enum.StrEnum):
    """Who re-solves."""

    FIRST = "0"
    SECOND = "1"
    BOTH = "both"


class FollowName(enum.StrEnum):
    """What later searches take for granted of the player's own play."""

    BELIEVED = "believed"
    ASSEMBLED = "assembled"


class CombineName(enum.StrEnum):
    """How strategies of own infostates go together."""

    DAMPED = "damped"
    IN_TURN = "in-turn"
    TOGETHER = "together"


def folder(text: str) -> pathlib.Path:
    """A folder that is named: an empty name would mean the working folder."""
    if not text:
        raise typer.BadParameter("'' names no folder; expected one, such as results")
    return pathlib.Path(text)


def positive_number(text: str) -> float:
    """A finite number above 0."""
    number = read_number(text)
    if number is None or number <= 0:
        raise typer.BadParameter(f"{text!r}: expected a number above 0, such as 0.5")
    return number


def repeatable(*names: str, help: str, **rest: Any) -> Any:
    """`typer.Option` of one that may be said several times, and says so."""
    return typer.Option(*names, help=f"{help} *May be repeated.*", **rest)


def either(names: Iterable[str]) -> str:
    """`a`, `b` or `c`."""
    *most, last = (f"`{name}`" for name in names)
    return f"{', '.join(most)} or {last}"


if TYPE_CHECKING:  # a member of these is a string, and checkers cannot know which
    AlgorithmName = GadgetName = PriorName = EngineName = str
else:
    AlgorithmName = enum.StrEnum("AlgorithmName", {name: name for name in (*RULES, LP)})
    GadgetName = enum.StrEnum("GadgetName", {name: name for name in GADGETS})
    PriorName = enum.StrEnum("PriorName", {name: name for name in PRIORS})
    EngineName = enum.StrEnum("EngineName", {name: name for name in ENGINES})


Game = Annotated[
    str,
    typer.Argument(
        metavar="GAME",
        show_default=False,
        help="A name from `jaxgadget games`, with parameters in parentheses; `openspiel:NAME(…)`; a Gambit "
        "file that ends in `.efg`; a class of your own, `path.py:Class(…)` or `module:Class(…)`.",
    ),
]
Algorithm = Annotated[
    AlgorithmName,
    typer.Option(
        "--algorithm",
        metavar="NAME",
        help=f"Which CFR, or exact linear programs: {either((*RULES, LP))}.",
    ),
]
Iterations = Annotated[
    int,
    typer.Option(
        "--iterations",
        metavar="N",
        min=1,
        max=MOST_ITERATIONS,
        help="How many at most; one updates both players. Linear programs have none.",
    ),
]
Dtype = Annotated[
    DtypeName,
    typer.Option(
        "--dtype",
        metavar="NAME",
        help=f"Precision of the solve: {either(DtypeName)}. What is reported is always computed in float64.",
    ),
]
Form = Annotated[
    FormName,
    typer.Option(
        "--form",
        metavar="NAME",
        help=f"What the game is laid out by: {either(FormName)}. Where private hands are dealt first and "
        "all that follows is public, no history need be listed: kuhn_poker, leduc_poker, liars_dice. In "
        "other games hands are looked for in the histories. What `--save` writes by hands "
        "`HandsPolicy.load` reads, not `--blueprint`.",
    ),
]
TargetGap = Annotated[
    float | None,
    typer.Option(
        "--target-gap",
        metavar="GAP",
        min=0,
        help="Stop as soon as the gap, NashConv of what is solved, is no larger; in units of payoff.",
    ),
]
MaxHistories = Annotated[
    int,
    typer.Option(
        "--max-histories",
        metavar="N",
        min=1,
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
        "--checkpoint",
        metavar="FILE",
        help="Save work to this file about every 20 seconds, and resume from it.",
    ),
]
CheckpointFolder = Annotated[
    pathlib.Path | None,
    typer.Option(
        "--checkpoint",
        metavar="FOLDER",
        parser=folder,
        help="Save work to this folder about every 20 seconds, and resume from it.",
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
TimeLimit = Annotated[
    float | None,
    typer.Option(
        "--time-limit",
        metavar="SECONDS",
        parser=positive_number,
        help="Above 0, for `lp`: an error if a linear program takes longer (`refine`: all of a gadget and "
        "blueprint).",
    ),
]
MemoryLimit = Annotated[
    int | None,
    typer.Option(
        "--memory-limit",
        metavar="BYTES",
        min=1,
        help="What a solve may take on each device; lanes and subgames are split until that suffices. "
        "[default: most of what is free]",
    ),
]
Floor = Annotated[
    float,
    typer.Option(
        "--floor",
        metavar="E",
        min=0,
        max=1,
        help="With this probability a player's hand trembles and plays uniformly, at every infoset.",
    ),
]
Player = Annotated[
    PlayerName,
    typer.Option(
        "--player",
        metavar="0|1|both",
        help="Who re-solves; the other is the opponent. With `both`, one after the other, and then NashConv "
        "of the two together.",
    ),
]
Blueprint = Annotated[
    list[str] | None,
    repeatable(
        "--blueprint",
        metavar="SPEC",
        show_default="12 checkpoints of CFR and 8 Dirichlet draws",
        help="A strategy of both players: `uniform`; `geometric:R`, the k-th legal action ∝ R^k; "
        "`dirichlet:SEED[:ALPHA]`, drawn at random; `cfr:N` or `cfr+:N`, the average after N iterations; "
        "`mccfr:N[:SEED]` or `pcs:N[:SEED]`, the same by sampling; `file:PATH`, all that `--save` wrote.",
    ),
]
Model = Annotated[
    list[str] | None,
    repeatable(
        "--model",
        metavar="SPEC",
        show_default="none: the opponent adapts",
        help="What the opponent is believed to play in the whole game, as for `--blueprint`.",
    ),
]
Follows = Annotated[
    list[float] | None,
    repeatable(
        "--p",
        metavar="P",
        show_default=False,
        help="How likely it follows the model, from 0 to 1; else it adapts. Each `--model` is taken with "
        "each.",
    ),
]
Gadget = Annotated[
    list[GadgetName] | None,
    repeatable(
        "--gadget",
        metavar="NAME",
        show_default="unsafe, resolving and max-margin",
        help=f"The opponent's way into a subgame: {either(GADGETS)}.",
    ),
]
MISTAKES = (
    f"Where the opponent's mistakes at the gadget lead: {either(PRIORS)}, of which `range` is that of the "
    "blueprint's opponent; the unsafe gadget knows only `none`"
)
Prior = Annotated[
    list[PriorName] | None,
    repeatable(
        "--prior",
        metavar="NAME",
        show_default=f"{', '.join(DEFAULT_PRIORS[:-1])} and {DEFAULT_PRIORS[-1]}",
        help=f"{MISTAKES}.",
    ),
]
PriorOrRange = Annotated[
    list[str] | None,
    repeatable(
        "--prior",
        metavar="NAME",
        show_default=f"{', '.join(DEFAULT_PRIORS[:-1])} and {DEFAULT_PRIORS[-1]}",
        help=f"{MISTAKES}. `range:SPEC` is the range of a model, as for `--blueprint`.",
    ),
]
Epsilon = Annotated[
    list[str] | None,
    repeatable(
        "--epsilon",
        metavar="E",
        show_default="0.001",
        help="How likely such mistakes are, from 0 to less than 1; `auto`, with `--algorithm lp`, finds "
        "one that is small enough to change nothing else.",
    ),
]
Alternative = Annotated[
    list[str] | None,
    repeatable(
        "--alternative",
        metavar="NAME",
        show_default=BEST_RESPONSE,
        help="What the opponent is promised outside a subgame: its value as a `best-response` to the "
        "blueprint, which is safe; under the `blueprint` of both, an estimate; or against the optimal "
        "`continuation`, solved first, by linear programs or `continuation:N` with N iterations: as safe as "
        "that is; or `values:DIR`, what a network that `train-ranges` made says of it, an estimate.",
    ),
]
Spread = Annotated[
    str | None,
    typer.Option(
        "--spread",
        metavar="S",
        show_default=False,
        help="For resolving gadgets, how uncertain promised values are: the standard deviation in units of "
        "payoff, or `best-response`, how far they are from a best response to the blueprint. The opponent "
        "learns the draw before it enters. Not with `--algorithm lp`.",
    ),
]
Gifts = Annotated[
    GiftsName,
    typer.Option(
        "--gifts",
        metavar="NAME",
        help="For reach gadgets, what the opponent gave away on its way: a `lower-bound`, which is safe, or "
        "an `estimate`.",
    ),
]
ScaleGifts = Annotated[
    bool,
    typer.Option("--scale-gifts", help="Scale gifts up; safe only for a single subgame (`--infostate`)."),
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
Order = Annotated[
    str | None,
    typer.Option(
        "--order",
        metavar="K",
        show_default="what is common knowledge",
        help="Re-solve each own infostate by what the player knows there: 1, 3, 5, … steps of who thinks "
        "what possible, or `inf`.",
    ),
]
Unfrozen = Annotated[
    bool,
    typer.Option(
        "--unfrozen",
        help="With `--order`, solve for all that is kept, where the rest would play as the blueprint; not "
        "safe.",
    ),
]
Generate = Annotated[
    str | None,
    typer.Option(
        "--generate",
        metavar="SPEC",
        show_default="all",
        help="With `--order`, which of the opponent's infostates are considered: `diverse:N`, N whose values "
        "are spread best, or `random:N[:DRAWS[:SEED]]`; not safe.",
    ),
]
Combine = Annotated[
    CombineName,
    typer.Option(
        "--combine",
        metavar="damped|in-turn|together",
        help="With `--order`, how the strategies of own infostates go together: at order 1 `damped` and "
        "`in-turn` are safe, `together` is not; at higher orders nothing is.",
    ),
]
Rows = Annotated[bool, typer.Option("--rows", help="Print every row, not a summary of many.")]
BenchGames = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="GAME",
        show_default=f"{', '.join(DEFAULT_GAMES[:-1])} and {DEFAULT_GAMES[-1]}",
        help="What to solve; peers need a game that OpenSpiel has too.",
    ),
]
Engines = Annotated[
    list[EngineName] | None,
    repeatable(
        "--engine",
        metavar="NAME",
        show_default="jaxgadget and the peers that are installed",
        help=f"Who solves it: {either(ENGINES)}.",
    ),
]
Lanes = Annotated[
    list[int] | None,
    repeatable(
        "--lanes",
        metavar="N",
        show_default=" and ".join(map(str, DEFAULT_LANES)),
        help="Copies of the game side by side; peers have 1.",
    ),
]
BenchAlgorithm = Annotated[
    AlgorithmName,
    typer.Option(
        "--algorithm",
        metavar="NAME",
        help=f"Which CFR: {either(RULES)}; peers have `cfr` and `cfr+`.",
    ),
]
BenchDtype = Annotated[
    DtypeName,
    typer.Option(
        "--dtype",
        metavar="NAME",
        help=f"Precision of jaxgadget: {either(DtypeName)}. Peers compute in float64.",
    ),
]
BenchIterations = Annotated[
    int | None,
    typer.Option(
        "--iterations",
        metavar="N",
        min=1,
        max=MOST_ITERATIONS,
        show_default="as many as fill the time",
        help="How many in a repetition.",
    ),
]
Seconds = Annotated[
    float,
    typer.Option(
        "--seconds",
        metavar="SECONDS",
        min=0,
        help="How long to time a row, all repetitions together.",
    ),
]
Repeats = Annotated[
    int,
    typer.Option(
        "--repeats",
        metavar="N",
        min=1,
        max=MOST_ITERATIONS,
        help="Repetitions, the engines by turns; the fastest counts.",
    ),
]
