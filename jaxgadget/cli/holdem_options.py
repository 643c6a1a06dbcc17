"""What may be said to `jaxgadget holdem`: its options, their defaults and their help."""

from __future__ import annotations

import enum
import pathlib
from typing import Annotated, Any

import typer

from jaxgadget.cli import options
from jaxgadget.kernels.registry import RULES

DCFR: Any = "dcfr"

ALONE = ("board", "oop", "ip", "pot", "stack")
"""Options that every row of a file says itself."""

SIZES = ("bets", "raises", "oop_bets", "oop_raises", "ip_bets", "ip_raises")
RIVER_SIZES = (
    *("river_bets", "river_raises", "oop_river_bets", "oop_river_raises", "ip_river_bets", "ip_river_raises"),
)
MENU = (*SIZES, *RIVER_SIZES, "cap", "add_all_in", "force_all_in")
"""Options that a row of a file may say as well."""

Board = Annotated[
    str | None, typer.Option("--board", metavar="CARDS", help="Four or five cards, such as `Td9d6hQc2s`.")
]
Oop = Annotated[
    str,
    typer.Option(
        "--oop",
        metavar="RANGE",
        help="What the first player may hold: `QQ+,A5s-A2s:0.5,AsKd`, or `random` for any hand.",
    ),
]
Ip = Annotated[str, typer.Option("--ip", metavar="RANGE", help="What the second player may hold, likewise.")]
Pot = Annotated[float | None, typer.Option("--pot", metavar="CHIPS", help="Chips in the middle.")]
Stack = Annotated[
    float | None, typer.Option("--stack", metavar="CHIPS", help="Chips that each player has left.")
]
Bets = Annotated[
    str,
    typer.Option(
        "--bets", metavar="SIZES", help="Bets, as shares of the pot, `a` for all-in; an empty text for none."
    ),
]
Raises = Annotated[
    str,
    typer.Option(
        "--raises", metavar="SIZES", help="Raises, as shares of the pot after calling, on top of the call."
    ),
]


def _own(option: str, what: str) -> Any:
    return typer.Option(option, metavar="SIZES", show_default=False, help=f"{what} in place of that.")


OopBets = Annotated[str | None, _own("--oop-bets", "The first player's bets,")]
OopRaises = Annotated[str | None, _own("--oop-raises", "The first player's raises,")]
IpBets = Annotated[str | None, _own("--ip-bets", "The second player's bets,")]
IpRaises = Annotated[str | None, _own("--ip-raises", "The second player's raises,")]
RiverBets = Annotated[
    str | None,
    typer.Option("--river-bets", metavar="SIZES", help="Of a turn, bets on the river; by default the same."),
]
RiverRaises = Annotated[
    str | None,
    typer.Option("--river-raises", metavar="SIZES", help="Of a turn, raises on the river; likewise."),
]
OopRiverBets = Annotated[str | None, _own("--oop-river-bets", "The first player's bets on the river,")]
OopRiverRaises = Annotated[str | None, _own("--oop-river-raises", "The first player's raises there,")]
IpRiverBets = Annotated[str | None, _own("--ip-river-bets", "The second player's bets on the river,")]
IpRiverRaises = Annotated[str | None, _own("--ip-river-raises", "The second player's raises there,")]
Cap = Annotated[
    int | None,
    typer.Option("--cap", metavar="N", min=0, help="Bets and raises of both on a street, at most."),
]
AddAllIn = Annotated[
    float,
    typer.Option(
        "--add-all-in",
        metavar="POTS",
        min=0,
        help="All-in may be chosen too where at most so many pots are left.",
    ),
]
ForceAllIn = Annotated[
    float,
    typer.Option(
        "--force-all-in",
        metavar="POTS",
        min=0,
        help="A bet is all-in where at most so many pots would be left once it is called.",
    ),
]
Spots = Annotated[
    pathlib.Path | None,
    typer.Option(
        "--spots",
        metavar="FILE",
        help="Solve a file of spots instead, a JSON object a line: board, oop, ip, pot, stack, and what of "
        "the menu differs from the options here (bets, raises, oop_bets, …, cap).",
    ),
]
Results = Annotated[
    pathlib.Path | None,
    typer.Option(
        "--results",
        metavar="FILE",
        help="With `--spots`: keep what is solved in this file, a JSON object a line; what is there already "
        "is not solved again.",
    ),
]
Algorithm = Annotated[
    options.AlgorithmName,
    typer.Option("--algorithm", metavar="NAME", help=f"Which CFR: {options.either(RULES)}."),
]
Iterations = Annotated[
    int,
    typer.Option(
        "--iterations",
        metavar="N",
        min=1,
        max=options.MOST_ITERATIONS,
        help="How many at most; one updates both players.",
    ),
]
Epsilon = Annotated[
    list[str] | None,
    options.repeatable(
        "--epsilon",
        metavar="E",
        show_default="0.001",
        help="How likely such mistakes are, from 0 to less than 1.",
    ),
]
TargetGap = Annotated[
    str | None,
    typer.Option(
        "--target-gap",
        metavar="GAP",
        help="Stop as soon as NashConv, twice the exploitability, is no larger in any spot of a batch: "
        "chips, or a share of the pot such as `1%`.",
    ),
]
SuitIsomorphism = Annotated[
    bool,
    typer.Option(
        "--suit-isomorphism",
        help="Solve hands that an exchange of suits maps into each other as one, where the board and both "
        "ranges allow it: less memory, the same solution.",
    ),
]
Line = Annotated[
    str,
    typer.Option(
        "--line",
        metavar="ACTIONS",
        help="What `--plot`, `--hands` and `--frequencies` show: a line such as `check, bet 100`.",
    ),
]
ShowTree = Annotated[bool, typer.Option("--tree", help="Print the tree that the menus make, and stop.")]
GridPlot = Annotated[
    pathlib.Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw the grid of hands at `--line`: .png, .svg or .pdf."),
]


class ShownName(enum.StrEnum):
    """What a grid shows."""

    STRATEGY = "strategy"
    EV = "ev"
    EQUITY = "equity"


Shown = Annotated[
    ShownName,
    typer.Option(
        "--show",
        metavar="WHAT",
        help="What `--plot` draws: `strategy`, or means of `ev` (chips) or `equity`, both at the start of "
        "the spot, as a heat map.",
    ),
]
Hands = Annotated[
    int | None,
    typer.Option(
        "--hands",
        metavar="N",
        min=1,
        help="Print so many hands of whoever acts at `--line`, the likeliest first, with their EVs and "
        "equities at the start of the spot.",
    ),
]
Frequencies = Annotated[
    bool,
    typer.Option("--frequencies", help="Print the tree below `--line` with how often each action is taken."),
]
Gadget = Annotated[
    list[options.GadgetName] | None,
    options.repeatable(
        "--gadget",
        metavar="NAME",
        show_default=False,
        help="Re-solve the spots with this gadget: `unsafe`, `resolving` or `max-margin`. The blueprint is "
        "the same spots solved with `--blueprint-bets` and `--blueprint-raises`.",
    ),
]
Player = Annotated[
    int,
    typer.Option(
        "--player", metavar="0|1", min=0, max=1, help="Who re-solves, 0 for oop; the other is the opponent."
    ),
]
BlueprintBets = Annotated[
    str | None,
    typer.Option("--blueprint-bets", metavar="SIZES", help="The blueprint's bets; by default the same."),
]
BlueprintRaises = Annotated[
    str | None,
    typer.Option("--blueprint-raises", metavar="SIZES", help="The blueprint's raises; by default the same."),
]
BlueprintIterations = Annotated[
    int | None,
    typer.Option(
        "--blueprint-iterations",
        metavar="N",
        min=1,
        max=options.MOST_ITERATIONS,
        help="The blueprint's iterations; by default as many.",
    ),
]
HandsInRange = Annotated[
    bool,
    typer.Option(
        "--hands-in-range",
        help="The opponent has no hands but those of its range; by default it may come with any, and what is "
        "promised holds for all.",
    ),
]
