"""`jaxgadget holdem`: rivers and turns of hold'em, one or a file of them."""

from __future__ import annotations

import hashlib
import json as json_format
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jaxgadget.cli import options
from jaxgadget.cli.command import refuse_unused
from jaxgadget.cli.prepare import keep_programs
from jaxgadget.report.output import STANDARD_OUTPUT, check_outputs, show, write_json, written
from jaxgadget.util.arguments import near_names, read_number
from jaxgadget.util.files import atomic_writer, check_regular, check_writable

if TYPE_CHECKING:
    from jaxgadget.poker.betting import BetMenu
    from jaxgadget.poker.solve import SpotSolution
    from jaxgadget.poker.spots import Spot

HOLDEM_EXAMPLES = """\
Examples:

`jaxgadget holdem --board Td9d6hQc2s --oop "66+,A8s+,KQo" --ip "QQ-22,ATo+" --pot 200 --stack 900
--bets 50%,100%,a --raises 100%,a --plot grid.png`

`jaxgadget holdem --board Td9d6hQc7s --pot 60 --stack 100 --oop-bets 50% --ip-bets "" --raises "" --tree`

`jaxgadget holdem --spots spots.jsonl --results rows.jsonl --target-gap 1% --json all.json`
"""

DCFR: Any = "dcfr"

ALONE = ("board", "oop", "ip", "pot", "stack")
"""Options that every row of a file says itself."""

MENU = (
    *("bets", "raises", "oop_bets", "oop_raises", "ip_bets", "ip_raises"),
    *("cap", "add_all_in", "force_all_in"),
)
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
TargetGap = Annotated[
    str | None,
    typer.Option(
        "--target-gap",
        metavar="GAP",
        help="Stop as soon as NashConv, twice the exploitability, is no larger in any spot of a batch: "
        "chips, or a share of the pot such as `1%`.",
    ),
]
Line = Annotated[
    str,
    typer.Option("--line", metavar="ACTIONS", help="What `--plot` draws: a line such as `check, bet 100`."),
]
ShowTree = Annotated[bool, typer.Option("--tree", help="Print the tree that the menus make, and stop.")]
GridPlot = Annotated[
    pathlib.Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw the grid of hands at `--line`: .png, .svg or .pdf."),
]


def holdem(
    context: typer.Context,
    board: Board = None,
    oop: Oop = "random",
    ip: Ip = "random",
    pot: Pot = None,
    stack: Stack = None,
    bets: Bets = "50%,100%,a",
    raises: Raises = "100%,a",
    oop_bets: OopBets = None,
    oop_raises: OopRaises = None,
    ip_bets: IpBets = None,
    ip_raises: IpRaises = None,
    cap: Cap = None,
    add_all_in: AddAllIn = 0.0,
    force_all_in: ForceAllIn = 0.0,
    spots: Spots = None,
    results: Results = None,
    tree: ShowTree = False,
    algorithm: options.Algorithm = DCFR,
    iterations: options.Iterations = 1000,
    target_gap: TargetGap = None,
    dtype: options.Dtype = options.DtypeName.FLOAT32,
    memory_limit: options.MemoryLimit = None,
    line: Line = "",
    plot: GridPlot = None,
    json: options.Json = None,
) -> None:
    """Solve rivers and turns of hold'em: EVs, exploitability, and how the first player begins.

    EVs are shares of the pot less what is put in, in chips; exploitability is half of NashConv, in chips.
    """
    if spots is not None:
        refuse_unused(context, "with --spots, whose rows say it", *ALONE)
        refuse_unused(context, "with --spots", "tree", "plot", "line")
    else:
        refuse_unused(context, "without --spots", "results")
    if plot is None:
        refuse_unused(context, "without --plot", "line")
    check_outputs({"--json": json, "--plot": plot, "--results": results})
    said: dict[str, Any] = {
        "board": board,
        "oop": oop,
        "ip": ip,
        "pot": pot,
        "stack": stack,
        "bets": bets,
        "raises": raises,
        "oop_bets": oop_bets,
        "oop_raises": oop_raises,
        "ip_bets": ip_bets,
        "ip_raises": ip_raises,
        "cap": cap,
        "add_all_in": add_all_in,
        "force_all_in": force_all_in,
    }
    solving: dict[str, Any] = {
        "algorithm": str(algorithm),
        "iterations": iterations,
        "target_gap": _target(target_gap),
        "dtype": dtype.value,
    }
    keep_programs()
    from jaxgadget.report.holdem import spots_table
    from jaxgadget.util.clock import Stopwatch

    watch = Stopwatch()
    with watch.phase("build"):
        chosen = [_make_spot(said)] if spots is None else _read_spots(spots, said)
        if tree:
            typer.echo(str(chosen[0].betting))
            return
        if plot is not None:
            chosen[0].betting.find(line)
    with watch.phase("run"):
        solving |= {"memory_limit": memory_limit}
        rows, solution = _solve(chosen, results, solving)
    if json is not None:
        write_json(json, {"rows": rows, "seconds": watch.seconds})
    if plot is not None and solution is not None:
        from jaxgadget.report.holdem import draw_grid

        draw_grid(solution, plot, line)
    if json != STANDARD_OUTPUT:
        notes = ["EVs and exploitability are in chips; exploitability is half of NashConv."]
        show(spots_table(rows), [*notes, *written(results=json, rows=results, picture=plot)])


def _target(text: str | None) -> float | str | None:
    """A number of chips, or what the library reads or refuses."""
    number = None if text is None else read_number(text)
    return text if number is None else number


def _make_spot(said: Mapping[str, Any]) -> Spot:
    """A spot of what options or a row say."""
    from jaxgadget.poker.spots import Spot

    for name in ("board", "pot", "stack"):
        if said[name] is None:
            raise ValueError(f"{name} is missing: expected one, as in board=Td9d6hQc2s, pot=200, stack=900")
    given = {name: said[name] for name in ALONE}
    return Spot(**given, menus=(_make_menu(said, "oop"), _make_menu(said, "ip")))


def _make_menu(said: Mapping[str, Any], player: str) -> BetMenu:
    from jaxgadget.poker.betting import BetMenu, parse_sizes

    sizes: dict[str, tuple[float, ...]] = {}
    for name in ("bets", "raises"):
        own = f"{player}_{name}"
        option = name if said[own] is None else own
        if not isinstance(said[option], str):
            raise ValueError(f"{option}={said[option]!r}: expected a text such as '50%,100%,a'")
        sizes[name] = parse_sizes(said[option], option)
    rest = {name: said[name] for name in ("cap", "add_all_in", "force_all_in")}
    return BetMenu(**sizes, **rest)


def _read_spots(path: pathlib.Path, said: Mapping[str, Any]) -> list[Spot]:
    """The spots of a file.

    Raises:
      ValueError: if it cannot be read, is empty, or a row is no spot; it names the line.
    """
    check_regular(path, "--spots")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"--spots {str(path)!r} cannot be read ({error}); expected a file of JSON lines"
        ) from error
    spots: list[Spot] = []
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        where = f"--spots {str(path)!r}, line {number}"
        try:
            row = json_format.loads(text)
        except ValueError as error:
            raise ValueError(f"{where}: {error}; expected a JSON object") from error
        if not isinstance(row, dict):
            raise ValueError(f"{where}: expected a JSON object with board, oop, ip, pot and stack")
        fields: dict[str, Any] = row  # pyright: ignore[reportUnknownVariableType]
        known = (*ALONE, *MENU)
        unknown = next((name for name in fields if name not in known), None)
        if unknown is not None:
            raise ValueError(
                f"{where}: {unknown!r} is no part of a spot; near to it: {near_names(unknown, known)}"
            )
        try:
            spots.append(_make_spot({**said, **fields}))
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error
    if not spots:
        raise ValueError(f"--spots {str(path)!r} has no rows: expected at least one")
    return spots


def _solve(
    spots: list[Spot], results: pathlib.Path | None, solving: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], SpotSolution | None]:
    """A row a spot, and the last solution; rows that a file of results has are taken from there."""
    from jaxgadget.poker.solve import solve_spots

    settings = json_format.dumps({name: value for name, value in solving.items() if name != "memory_limit"})
    keys = [hashlib.sha256(f"{spot.name} {settings}".encode()).hexdigest()[:32] for spot in spots]
    kept = {} if results is None else _read_results(results)
    missing = [number for number, key in enumerate(keys) if key not in kept]

    def keep(solved: Mapping[int, SpotSolution]) -> None:
        for place, solution in solved.items():
            key = keys[missing[place]]
            kept[key] = {"key": key, **solution.to_row()}
        if results is not None:
            with atomic_writer(results) as file:
                file.writelines((json_format.dumps(row) + "\n").encode() for row in kept.values())

    solutions = solve_spots([spots[number] for number in missing], progress=True, on_solved=keep, **solving)
    rows = [{name: value for name, value in kept[key].items() if name != "key"} for key in keys]
    return rows, solutions[-1] if solutions else None


def _read_results(path: pathlib.Path) -> dict[str, dict[str, Any]]:
    """Rows that were kept, by what was solved.

    Raises:
      ValueError: if the file has something else in it; it is left as it is.
    """
    check_regular(path, "--results")
    check_writable(path)
    if not path.exists():
        return {}
    kept: dict[str, dict[str, Any]] = {}
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row = json_format.loads(text)
            kept[row["key"]] = row
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"--results {str(path)!r}, line {number}, is no result of this command; choose another file"
            ) from error
    return kept
