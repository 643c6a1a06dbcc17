"""`jaxgadget holdem`: solves flops, turns and rivers of hold'em, a single spot or a file of spots."""

from __future__ import annotations

import dataclasses
import hashlib
import json as json_format
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from jaxgadget.cli.command import exit_if_undefined, is_given, keeping, refuse_unused
from jaxgadget.cli.fields import Fields, make, names_of, option, request
from jaxgadget.cli.options import GadgetOptions, IterativeSolver, Output, write_page
from jaxgadget.core.solver import MAX_ITERATIONS, Solver
from jaxgadget.games.game import CHANCE
from jaxgadget.games.sizes import Size, parse_sizes
from jaxgadget.holdem.betting import PLAYERS, BetMenu
from jaxgadget.util.arguments import near_names, read_number
from jaxgadget.util.files import atomic_writer, check_regular, check_writable
from jaxgadget.util.records import jsonable

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

    from jaxgadget.gadgets.gadget import Gadget
    from jaxgadget.holdem.betting import BettingTree
    from jaxgadget.holdem.locks import Lock
    from jaxgadget.holdem.ranges import HandRange
    from jaxgadget.holdem.solution import SpotSolution, SpotSolutions
    from jaxgadget.holdem.spots import Spot
    from jaxgadget.subgames.spots import SpotRefinement
    from jaxgadget.util.store import Rows
    from jaxgadget.values.deals import DealValues

HOLDEM_EXAMPLES = """\
Examples:

`jaxgadget holdem --board Td9d6hQc2s --oop "66+,A8s+,KQo" --ip "QQ-22,ATo+" --pot 200 --stack 900
--bets 50%,100%,a --raises 100%,a --plot grid.png`

`jaxgadget holdem --board Td9d6hQc7s --pot 60 --stack 100 --oop-bets 50% --ip-bets "" --raises "" --tree`

`jaxgadget holdem --board Td9d6hQc --pot 60 --stack 200 --bets 50% --raises "" --river-bets 100% --tree`

`jaxgadget holdem --board Td9d6h --oop "66+,A8s+,KQo" --ip "QQ-22,ATo+" --pot 60 --stack 200 --bets 50%
--raises "" --turn-bets 75% --target-gap 1% --line "check, bet 30, call, Ah" --hands 10 --explore turn.html`

`jaxgadget holdem --board Td9d6hQc2s --pot 200 --stack 900 --gadget resolving --prior blueprint
--blueprint-bets 100% --blueprint-raises "" --hands 10`

`jaxgadget holdem --board Td9d6hQc2s --pot 200 --stack 900 --iterations 100 --save river.npz` and
`jaxgadget holdem --open river.npz --target-gap 0.1% --line check --hands 10`

`jaxgadget holdem --board Td9d6hQc2s --pot 200 --stack 900 --lock locks.json --line "bet 100" --hands 10`

`jaxgadget holdem --board Td9d6hQc --oop "66+,A8s+,KQo" --ip "QQ-22,ATo+" --pot 60 --stack 200 --bets 50%
--raises "" --leaf resolved:10`

`jaxgadget holdem --spots spots.jsonl --report --line check --by suits --plot report.png --csv report.csv`

`jaxgadget holdem --spots spots.jsonl --results rows.jsonl --target-gap 1% --json all.json`
"""


@request
class Sizes:
    """Sizes of bets and raises.

    Attributes:
      bets: sizes of bets: `50%` of the pot, `30c` (chips), `e`, `2e` or `e150%` (geometric), `a` (all-in),
        separated by commas; an empty text for none.
      raises: sizes of raises, of the pot after calling and in addition to the call, in the same notation; or
        `2.5x`, the opponent's bet times 2.5.
    """

    bets: str | None = option(None, metavar="SIZES")
    raises: str | None = option(None, metavar="SIZES")

    def parse(self, prefix: str = "") -> dict[str, tuple[Size, ...]]:
        """Parses the sizes that are not None; errors name them with a prefix."""
        return {
            name: parse_sizes(text, f"{prefix}{name}")
            for name, text in vars(self).items()
            if text is not None
        }


def _read_stack(text: str) -> float | tuple[float, ...] | str:
    """Parses the chips of each player, or of both with a comma; other texts are refused by the spot."""
    numbers = [read_number(part.strip()) for part in text.split(",")]
    chips = tuple(number for number in numbers if number is not None)
    if len(chips) < len(numbers):
        return text
    return chips[0] if len(chips) == 1 else chips


def _read_rake(text: str) -> float | str:
    """Parses a share of the pot, `5%` or `0.05`; other texts are refused by the spot."""
    share = read_number(text.removesuffix("%").strip())
    if share is None:
        return text
    return share / 100 if text.endswith("%") else share


def _read_range(text: str, name: str) -> str | HandRange:
    """Reads a range `file:PATH`; other texts are parsed by the spot."""
    from jaxgadget.holdem.ranges import HandRange

    is_file = isinstance(text, str) and text.startswith("file:")  # pyright: ignore[reportUnnecessaryIsInstance]
    return HandRange.load(text.removeprefix("file:"), name) if is_file else text


@request
class SpotOptions:
    """A spot; the options are defaults for fields that a row of a file lacks.

    Attributes:
      board: three to five cards, such as `Td9d6hQc2s`.
      oop: range of the first player, such as `QQ+,A5s-A2s:0.5,AsKd`, or `random` for any hand; `file:PATH`
        reads a text file with a range in this notation or with 1,326 weights, or an array (`.npy`).
      ip: range of the second player, in the same form.
      pot: chips in the pot at the start.
      stack: remaining chips of each player; or those of both, `900,400`, of which the smaller number counts.
      oop_sizes: Only for the first player.
      ip_sizes: Only for the second player.
      turn_sizes: On the turn, if the board is a flop; by default the same as on the flop.
      oop_turn_sizes: Only for the first player on the turn.
      ip_turn_sizes: Only for the second player on the turn.
      river_sizes: On the river, if the board is a flop or turn; by default the same as on the turn.
      oop_river_sizes: Only for the first player on the river.
      ip_river_sizes: Only for the second player on the river.
      donks: sizes of the first player's bets on a street after it called the second player's bet or raise on
        the street before; an empty text for none; by default its other bets.
      dead: cards that neither player holds and that are not dealt, such as `AsKd`.
      rake: share of the final pot that the house takes from the winner, such as `5%`; the game is then not
        zero-sum.
      rake_cap: largest rake in chips.
      min_bet: smallest bet or raise in chips, to which smaller ones are increased.
      remove: line such as `check, bet 100, raise to 500` whose last action is removed from the tree; without
        cards on later streets, for which it is removed after every card.
      label: a name of your own for the spot in tables and pictures.
    """

    board: str | None = option(None, metavar="CARDS")
    oop: str = option("random", metavar="RANGE")
    ip: str = option("random", metavar="RANGE")
    pot: float | None = option(None, metavar="CHIPS")
    stack: float | tuple[float, float] | None = option(None, metavar="CHIPS", type=str, parser=_read_stack)
    sizes: Annotated[Sizes, Fields(bets="50%,100%,a", raises="100%,a")]
    oop_sizes: Sizes = dataclasses.field(metadata={"prefix": "oop_"})
    ip_sizes: Sizes = dataclasses.field(metadata={"prefix": "ip_"})
    turn_sizes: Sizes = dataclasses.field(metadata={"prefix": "turn_"})
    oop_turn_sizes: Sizes = dataclasses.field(metadata={"prefix": "oop_turn_"})
    ip_turn_sizes: Sizes = dataclasses.field(metadata={"prefix": "ip_turn_"})
    river_sizes: Sizes = dataclasses.field(metadata={"prefix": "river_"})
    oop_river_sizes: Sizes = dataclasses.field(metadata={"prefix": "oop_river_"})
    ip_river_sizes: Sizes = dataclasses.field(metadata={"prefix": "ip_river_"})
    donks: str | None = option(None, metavar="SIZES")
    dead: str = option("", metavar="CARDS")
    rake: float | str | None = option(None, metavar="SHARE", type=str)
    rake_cap: float | None = option(None, metavar="CHIPS")
    min_bet: float = option(0.0, metavar="CHIPS")
    remove: tuple[str, ...] = option((), metavar="LINE", default="")
    menu: Annotated[BetMenu, Fields("cap", "add_all_in", "force_all_in", "merge_close")]
    label: str = option("", metavar="TEXT")

    def make(self, source: str = "--board, --pot and --stack, or rows of --spots with them") -> Spot:
        """Creates the spot; raises ValueError for a missing board, pot or stack, or an invalid value.

        Args:
          source: options that give these values, for the error.
        """
        from jaxgadget.holdem.spots import Spot

        for name, value in (("board", self.board), ("pot", self.pot), ("stack", self.stack)):
            if value is None:
                raise ValueError(f"{name} is missing: expected {source}")
        common = self.sizes.parse()
        donks: dict[str, tuple[Size, ...]] = {}
        if self.donks is not None:
            donks["donks"] = parse_sizes(self.donks, "donks")
        oop, ip = (common | own.parse(f"{p}_") for p, own in (("oop", self.oop_sizes), ("ip", self.ip_sizes)))
        later: dict[str, tuple[BetMenu, BetMenu] | None] = {"turn": None, "river": None}
        menus = self._menu(oop | donks), self._menu(ip)
        for street in later:
            of_both = getattr(self, f"{street}_sizes").parse(f"{street}_")
            own = [getattr(self, f"{p}_{street}_sizes").parse(f"{p}_{street}_") for p in PLAYERS]
            if of_both or any(own):
                oop, ip = oop | of_both | own[0], ip | of_both | own[1]
                later[street] = self._menu(oop | donks), self._menu(ip)
        same = ("board", "pot", "stack", "dead", "min_bet", "remove", "label")
        values: dict[str, Any] = {name: getattr(self, name) for name in same}
        if self.rake is not None:
            values["rake"] = _read_rake(self.rake) if isinstance(self.rake, str) else self.rake
        if self.rake_cap is not None:
            values["rake_cap"] = self.rake_cap
        values |= {name: _read_range(getattr(self, name), name) for name in PLAYERS}
        spot = Spot(**values, menus=menus, turn_menus=later["turn"], river_menus=later["river"])
        if donks and len(spot.cards) == 5:
            raise ValueError(
                f"donks on the river {self.board!r}: expected an earlier street; the first bets of a "
                "spot are --oop-bets"
            )
        return spot

    def _menu(self, sizes: Mapping[str, tuple[Size, ...]]) -> BetMenu:
        return dataclasses.replace(self.menu, **sizes)


LEAF_ITERATIONS = 300
"""Default number of iterations on the first street with `--leaf`."""


@request
class SpotsOptions:
    """Spots, and the method of solving them.

    Attributes:
      open: show the solutions of a file that `--save` wrote, without solving, of several those with `--board`
        or `--label`; with `--iterations`, which counts those of the file, too, or `--target-gap` go on from
        the state.
      spots: solve a file of spots, with one JSON object per line: board, oop, ip, pot, stack, and the
        fields of the menu that differ from the options of the command (bets, raises, oop_bets, …, cap); and
        `locks`, a list as in a file of `--lock`; such a file then holds only for rows without this field.
      tree: print the tree that results from the menus, and exit.
      lock: fix strategies at nodes and solve the rest, of all spots: a JSON file with a list of objects such
        as `{"line": "check, bet 100", "strategy": {"fold": 0.5, "call": 0.5}, "hands": "QQ-99"}`. Without
        `hands` all hands are locked; a line that does not name a dealt card, as `check, check, Ah, bet 100`
        does, holds for every card.
      leaf: solve the first street of a flop or turn with values of ranges when a card is dealt, and the later
        streets for the ranges that result. `equities`: as if both check there; `resolved:N`: the later
        streets re-solved with N iterations in every update; or the folder of a network, from `train-deals`.
      leaf_iterations: number of iterations of CFR+ on the first street with `--leaf`.
      suit_isomorphism: on turns and rivers merge hands that a permutation of suits maps to each other, if the
        board and both ranges allow it, which gives the same solution with less memory; on flops turns and
        rivers are merged in this way without the option, too.
      compressed: keep regrets and averages of a flop's turns and rivers in 16 bits, with half of the memory.
    """

    open: pathlib.Path | None = None
    spots: pathlib.Path | None = None
    tree: bool = False
    lock: pathlib.Path | None = None
    leaf: str | None = option(None, metavar="VALUES")
    leaf_iterations: int = option(LEAF_ITERATIONS, min=1, max=MAX_ITERATIONS)
    suit_isomorphism: bool = False
    compressed: bool = False


@request
class SpotGadgetOptions(GadgetOptions):
    """Gadgets of spots.

    Attributes:
      gadget: re-solve turns and rivers with this gadget: `unsafe`, `resolving` or `max-margin`. The blueprint
        is the same spots solved with `--blueprint-bets` and `--blueprint-raises`.
    """

    gadget: tuple[str, ...] = option((), metavar="NAME", default="")


@request
class RefiningOptions:
    """Settings of re-solving.

    Attributes:
      player: the resolving player, 0 for oop; the other is the opponent.
      blueprint: For the blueprint; by default the same.
      blueprint_iterations: number of iterations for the blueprint; by default the same.
      hands_in_range: restrict the opponent to hands in its range; by default it may have any hand, and
        guarantees hold for all of them.
    """

    player: int = option(0, metavar="0|1", min=0, max=1)
    blueprint: Sizes = dataclasses.field(metadata={"prefix": "blueprint_"})
    blueprint_iterations: int | None = option(None, min=1, max=MAX_ITERATIONS)
    hands_in_range: bool = False


def _read_gap(text: str) -> float | str:
    """Parses a number of chips; other texts are parsed by the solver."""
    number = read_number(text)
    return text if number is None else number


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpotSolver(IterativeSolver):
    """A solver of spots.

    Attributes:
      target_gap: stop each spot as soon as its NashConv, twice the exploitability, is at most this large; in
        chips, or as a share of the pot such as `1%`.
    """

    target_gap: float | str | None = dataclasses.field(
        default=None, metadata={"type": str, "parser": _read_gap, "metavar": "GAP"}
    )


@request
class SpotOutput(Output):
    """Files to write and tables to print.

    Attributes:
      aggregate: print frequencies at `--line`, EVs and equities by classes of boards, of all spots; `--plot`
        draws it.
      by: the kind of classes of `--report`, by default all.
      csv: write the report, with a row for every board, too, as CSV.
      save: write the spots with their solutions and the state of the solver to a file, which `--open` and
        `jaxgadget explore` read; spots are solved one by one.
      results: with `--spots`, append solutions to this file, with one JSON object per line, and reuse those
        that it contains.
      line: line of actions for `--plot`, `--hands` and `--frequencies`, such as `check, bet 100`, with cards
        where they are dealt: `check, check, Ah`; with it, `--json` has this node, too: EVs, equities and
        strategies hand by hand.
      whose: player whose hands `--plot` and `--hands` show; by default the one that acts at `--line`.
      hands: print this number of hands at `--line`, the most likely first, with their EVs and equities from
        there on and the EVs of all actions.
      frequencies: print the tree below `--line` with the frequency of each action and the EVs after it.
      cards: print frequencies, EVs and equities for each card that is dealt after `--line`, such as
        `check, check`.
      plot: draw the grid of hands at `--line`, as .png, .svg or .pdf.
      show: values to draw with `--plot`: `strategy`, or a heat map of mean `ev` (in chips) or `equity`, both
        from `--line` on.
      explore: write a page to look at the strategies, an HTML file; see `jaxgadget explore`. It has all spots
        that this command solves, not those that are read from `--results`; of a flop the flop,
        or with a card in `--line` the turn.
    """

    aggregate: bool = option(False, flag="--report")
    by: tuple[Literal["pairs", "suits", "straights", "high"], ...] = option((), default="all")
    csv: pathlib.Path | None = None
    save: pathlib.Path | None = None
    results: pathlib.Path | None = None
    line: str = option("", metavar="ACTIONS")
    whose: Literal["oop", "ip"] | None = option(None, default="the acting player")
    hands: int | None = option(None, min=1)
    frequencies: bool = False
    cards: bool = False
    plot: pathlib.Path | None = None
    show: Literal["strategy", "ev", "equity"] = "strategy"
    explore: pathlib.Path | None = None

    @property
    def player(self) -> int | None:
        """The player of `whose`, 0 or 1."""
        return None if self.whose is None else PLAYERS.index(self.whose)

    @property
    def _kinds(self) -> Mapping[str, Callable[[Spot], str]]:
        """Kinds of classes of the report."""
        from jaxgadget.holdem.boards import CLASSES, find_kinds

        return find_kinds(self.by or tuple(CLASSES))

    def board_row(self, solution: SpotSolution) -> dict[str, Any]:
        """A board's row of the report."""
        from jaxgadget.holdem.boards import board_row

        return board_row(solution, self.line, self._kinds)

    def make_report(self, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame | None:
        """The report of these rows; None without `--report`."""
        if not self.aggregate:
            return None
        from jaxgadget.holdem.boards import aggregate_rows

        return aggregate_rows(rows, tuple(self._kinds))

    def report_title(self, report: pd.DataFrame) -> str:
        """Title of a report: the player that acts, and when."""
        when = f"after {self.line}" if self.line else "at the start"
        return f"{report.attrs['actor']} {when}, by board"

    @property
    def shows_line(self) -> bool:
        """True if something is printed or drawn at the line."""
        shown = self.plot is not None or self.hands is not None
        return shown or self.frequencies or self.cards or self.aggregate

    def check_spot(self, spot: Spot) -> None:
        """Raises ValueError if the line is not legal, or nothing can be shown there."""
        street, rest = spot.find_street(self.line)
        try:
            self._check_line(street.betting, rest)
        except ValueError as error:
            if street is spot:
                raise
            raise ValueError(f"on {street.board}, in line={self.line!r}: {error}") from error

    def _check_line(self, betting: BettingTree, line: str) -> None:
        """Raises ValueError if a line is not legal on its street, or nothing can be shown there."""
        node = betting.find(line)
        if self.cards and int(betting.tree.actor[node]) != CHANCE:
            raise ValueError(f"--cards with line={line!r}: expected a line after which a card is dealt")
        if self.aggregate:
            betting.actor(line)
            return
        if self.frequencies or (self.whose is None and (self.plot is not None or self.hands is not None)):
            betting.actor(line)
        if self.plot is not None and self.whose is not None and self.show == "strategy":
            if self.whose != (name := PLAYERS[betting.actor(line)]):
                raise ValueError(
                    f"--whose {self.whose}: {name} acts after line={self.line!r}; expected --whose {name}, "
                    "or --show ev or equity"
                )


_SpotGadgets = Annotated[SpotGadgetOptions, Fields("gadget", "prior", "epsilon")]
_SpotSolver = Annotated[
    SpotSolver,
    Fields(without=("time_limit",), iterations=1000, dtype="float32", progress=True),
]

_ALONE = ("board", "oop", "ip", "pot", "stack")
"""Options of a single spot, which every row of a file defines."""

_SPOT = names_of(SpotOptions)
"""Names of the options of a spot, which are also the fields of a row of a file."""

_REFINING = ("prior", "epsilon", *names_of(RefiningOptions))
"""Options of `--gadget`."""

_SHOWING = ("plot", "line", "whose", "hands", "frequencies", "cards")
"""Options that show a single spot."""

_UNOPENED = ("spots", "lock", "leaf", "suit_isomorphism", "compressed", "results", "gadget")
"""Options that have no effect on the solutions of a file."""

_GOING_ON = ("algorithm", "dtype", "checkpoint", "memory_limit")
"""Options of going on from the solutions of a file, beside `--iterations` and `--target-gap`."""

_SOLVING = (
    *("gadget", "algorithm", "iterations", "target_gap", "dtype", "lock", "leaf"),
    *("suit_isomorphism", "checkpoint"),
    *("compressed", "memory_limit", "hands", "frequencies", "cards", "plot", "json", "save", "explore"),
)
"""Options of solving."""


def holdem(
    context: typer.Context,
    spot: SpotOptions,
    files: SpotsOptions,
    gadgets: _SpotGadgets,
    refining: RefiningOptions,
    solver: _SpotSolver,
    output: SpotOutput,
) -> None:
    """Solve flops, turns and rivers of hold'em: EVs, exploitability, strategies; or re-solve with gadgets.

    EVs are expected shares of the pot minus contributions, in chips; exploitability is half of NashConv, in
    chips; with rake, both players' gains from best responses are reported instead. With `--gadget` these
    numbers are the blueprint's, and each refinement has a separate row.
    """
    _check(context, files, gadgets, output)
    output.check(folder=solver.checkpoint_path)
    from jaxgadget.util.clock import Stopwatch

    watch = Stopwatch()
    with watch.phase("build"):
        opened, given = None if files.open is None else _open(files.open, context, spot), list[_LockedSpot]()
        if opened is not None:
            chosen = [solution.spot for solution in opened]
        else:
            given = [(spot.make(), None)] if files.spots is None else _read_spots(files.spots, context.params)
            chosen = [each for each, _ in given]
            if gadgets.gadget and any(own for _, own in given):
                raise ValueError("--gadget with locks in rows of --spots: expected one of the two")
        if files.tree:
            typer.echo(str(chosen[0].betting))
            return
        if not (output.shows_line or output.json or any(each.is_flop for each in chosen)):
            refuse_unused(context, "without --plot, --hands, --frequencies, --cards or --json", "line")
        for each in chosen:
            output.check_spot(each)  # raises before anything is solved
        refining_spots = _make_refining(context, chosen, gadgets, refining, solver)
    with watch.phase("run"), keeping(lambda: _describe_kept(output.results, solver.checkpoint_path)):
        if opened is None:
            done = _solve(chosen, [own for _, own in given], solver, files, refining_spots, output)
        else:
            done = _reopen(_go_on(opened, context, solver), output)
    whose = "" if refining_spots is None else refining_spots.whose()
    _write_files(done, output, whose)
    record: dict[str, Any] = {"rows": done.rows, "seconds": watch.seconds}
    if done.report is not None:
        record["report"] = [jsonable(row) for row in done.report.to_dict("records")]
    if output.json is not None and done.solution is not None and is_given(context, "line"):
        record["node"] = done.solution.to_record(output.line)
    output.write_json(record)
    not_merged = _not_merged([each for each in chosen if not each.is_flop]) if files.suit_isomorphism else []
    output.print(*_tables(done, output, whose, not_merged, files.leaf), warnings=not_merged)
    refinements = [refinement for row in done.rows for refinement in row.get("refinements", ())]
    failures = [refinement.get("failure") for refinement in refinements]  # null becomes NaN in rows of a file
    exit_if_undefined([failure for failure in failures if isinstance(failure, str)], len(refinements))


def _leaf_note(leaf: str) -> str:
    """Note below a table of spots with `--leaf`."""
    return (
        f"The first street was solved with --leaf {leaf} and then locked: *unlocked* is the exploitability "
        "of the whole strategy, the other number, which --target-gap bounds, that of the later streets. "
        "After lines that the first street rarely takes these converge slowly, and *unlocked* with them."
    )


def _notes(rows: Sequence[Mapping[str, Any]], whose: str, leaf: str | None = None) -> list[str]:
    """Notes below the table of spots."""
    if whose:
        return ["These are blueprints: both players' play before one re-solves."]
    notes = ["EVs and exploitability are in chips; exploitability is half of NashConv."]
    if all("rake" in row for row in rows):
        notes = ["EVs, rake and gains are in chips."]
    if leaf is not None:
        notes.append(_leaf_note(leaf))
    elif any(row.get("locks") for row in rows):
        notes.append(
            "With locks it is that of the locked game; *unlocked* is the same number if both players may "
            "leave their locks."
        )
    if any("rake" in row for row in rows):
        notes.append(
            "With rake the game is not zero-sum: the EVs sum to the pot less the rake, and the gains are "
            "what each player would win more by a best response."
        )
    return notes


class Done(NamedTuple):
    """Spots that were solved, re-solved or opened.

    Attributes:
      rows: a row of results for each spot.
      solution: the solution of a single spot, or its first refinement's; None for several spots, and if a row
        was read from a file.
      shown: results with strategies, for `--save` and `--explore`.
      report: report by classes of boards, if requested.
    """

    rows: list[dict[str, Any]]
    solution: SpotSolution | None
    shown: list[Any]
    report: pd.DataFrame | None = None


def _make_refining(
    context: typer.Context,
    spots: Sequence[Spot],
    gadgets: GadgetOptions,
    options: RefiningOptions,
    solver: Solver,
) -> Refining | None:
    """Re-solving with the gadgets of the command line; None if there are none."""
    if not gadgets.gadget:
        return None
    from jaxgadget.subgames.spots import check_refinable, check_spot_gadgets

    iterations = options.blueprint_iterations or solver.num_iterations
    refining = Refining(gadgets.make(context), options, iterations)
    check_spot_gadgets(refining.gadgets)  # raises before blueprints are solved
    check_refinable(spots)
    return refining


_LockedSpot = tuple["Spot", tuple["Lock", ...] | None]
"""A spot with the locks of its row; None if the row has no such field."""


def _solve(
    spots: list[Spot],
    own_locks: Sequence[tuple[Lock, ...] | None],
    solver: Solver,
    files: SpotsOptions,
    refining: Refining | None,
    output: SpotOutput,
) -> Done:
    """Solves or re-solves spots; of their solutions only those that are written are kept."""
    from jaxgadget.holdem.locks import read_locks

    boards: dict[int, dict[str, Any]] = {}
    solutions: dict[int, SpotSolution] = {}
    refined: list[Any] = []

    def see(index: int, solution: SpotSolution) -> None:
        if output.aggregate:
            boards[index] = output.board_row(solution)
        if output.explore is not None or output.save is not None:
            solutions[index] = solution

    of_all = () if files.lock is None else read_locks(files.lock)
    locks = [of_all if own is None else own for own in own_locks]
    leaf = None if files.leaf is None else _make_deal_leaf(files, spots, locks)
    solving = Solving(
        solver=solver,
        suit_isomorphism=files.suit_isomorphism or None,
        compressed=files.compressed,
        keep_state=output.save is not None,
        locks=locks,
        leaf=leaf,
    )
    keep = None if output.explore is None else refined
    rows, solution = _read_or_solve(spots, output.results, solving, refining, see, keep)
    shown = refined + [solutions[index] for index in sorted(solutions)]
    if output.explore is not None and not shown:
        raise ValueError(
            f"--explore {str(output.explore)!r}: all strategies were solved before, and --results only "
            "keeps their numbers; expected another file of results, or none"
        )
    return Done(rows, solution, shown, output.make_report([boards[index] for index in sorted(boards)]))


class DealLeaf(NamedTuple):
    """Values at the first deal of spots.

    Attributes:
      text: the text of `--leaf`.
      values: the values of each spot.
      iterations: number of iterations on the first street.
    """

    text: str
    values: list[DealValues]
    iterations: int

    def settings(self, number: int) -> dict[str, Any]:
        """Settings that distinguish results of a spot in a file of results."""
        return {
            "leaf": self.text,
            "leaf_iterations": self.iterations,
            "network": getattr(self.values[number], "fingerprint", None),
        }

    def solve(self, number: int, spot: Spot) -> tuple[Lock, ...]:
        """The first street of a spot, solved with these values, as locks."""
        from jaxgadget.values.deals import solve_to_deal

        solver = Solver(iterations=self.iterations, progress=True)
        return tuple(solve_to_deal(spot, self.values[number], solver=solver).locks())


def _make_deal_leaf(
    files: SpotsOptions, spots: Sequence[Spot], locks: Sequence[tuple[Lock, ...]]
) -> DealLeaf:
    """The values of `--leaf`; raises ValueError before anything is solved if they do not fit a spot."""
    from jaxgadget.values.deals import DealLimit

    if any(locks):
        raise ValueError("--leaf with locks in rows of --spots: --leaf locks the first street itself")
    assert files.leaf is not None
    values: list[DealValues] = []
    for spot in spots:
        try:
            values.append(make_deal_values(files.leaf, spot))
            limit = DealLimit.of(spot)
            if spot.rake and not files.leaf.startswith("resolved:"):
                values[-1](limit)  # raises
        except ValueError as error:
            where = f"{spot.title}, " if len(spots) > 1 else ""
            raise ValueError(f"{where}--leaf {files.leaf!r}: {error}") from error
    return DealLeaf(files.leaf, values, files.leaf_iterations)


def make_deal_values(text: str, spot: Spot) -> DealValues:
    """Values at the deal of a spot from the text of `--leaf`; raises ValueError for an unknown one."""
    from jaxgadget.values.deals import CheckedDown, ResolvedDeals

    name, _, number = text.partition(":")
    if text == "equities":
        return CheckedDown()
    if name == "resolved":
        if not number.isdecimal() or not 1 <= int(number) <= MAX_ITERATIONS:
            raise ValueError("expected a number of iterations, such as resolved:20")
        return ResolvedDeals(int(number))
    if not text or not pathlib.Path(text).is_dir():
        raise ValueError("expected equities, resolved:N, or the folder of a network from train-deals")
    from jaxgadget.learn.deal_network import load_deals

    return load_deals(text, spot)


def _reopen(solutions: SpotSolutions, output: SpotOutput) -> Done:
    """The solutions of a file."""
    single = solutions[0] if len(solutions) == 1 else None
    boards = [output.board_row(solution) for solution in solutions] if output.aggregate else []
    rows = [solution.to_row() for solution in solutions]
    return Done(rows, single, list(solutions), output.make_report(boards))


def _write_files(done: Done, output: SpotOutput, whose: str) -> None:
    """Writes strategies, page, picture and report; `whose` describes refined strategies."""
    if output.save is not None:
        from jaxgadget.holdem.solution import SpotSolutions

        SpotSolutions(done.shown).save(output.save)
    write_page([_on_street(result, output.line) for result in done.shown], output.explore)
    if done.report is not None:
        if output.csv is not None:
            with atomic_writer(output.csv) as file:
                file.write(done.report.to_csv(index=False, lineterminator="\n").encode())
        if output.plot is not None:
            from jaxgadget.report.boards import draw_boards

            draw_boards(done.report, output.plot, title=output.report_title(done.report))
    elif output.plot is not None and done.solution is not None:
        from jaxgadget.report.holdem import draw_grid, grid_title

        title = grid_title(done.solution, output.line, show=output.show, player=output.player)
        title = f"{title} ({whose})" if whose else title
        draw_grid(
            done.solution, output.plot, output.line, show=output.show, title=title, player=output.player
        )


def _on_street(result: Any, line: str) -> Any:
    """The solution of the turn on which a flop's line ends; other results are returned unchanged."""
    from jaxgadget.holdem.solution import SpotSolution

    return result.find_street(line)[0] if isinstance(result, SpotSolution) else result


def _tables(
    done: Done, output: SpotOutput, whose: str, not_merged: Sequence[str], leaf: str | None
) -> list[tuple[RenderableType, list[str]]]:
    """Tables to print, with the notes below them."""
    from jaxgadget.report.boards import boards_table
    from jaxgadget.report.holdem import frequencies_table, hands_table, refinements_table, spots_table

    rows, tables = done.rows, list[tuple["RenderableType", list[str]]]()
    if done.report is None:
        tables.append((spots_table(rows), [*_notes(rows, whose, leaf), *not_merged]))
    else:
        note = (
            f"{output.report_title(done.report)}: means over boards. EVs are shares of the pot at the line, "
            f"from there on. The largest NashConv is {max(row['gap'] for row in rows):.3g} chips."
        )
        if any(row.get("locks") for row in rows):
            largest = max(row["unlocked_gap"] for row in rows)
            note = f"{note[:-1]} with locks and {largest:.3g} without."
        leaf_notes = [] if leaf is None else [_leaf_note(leaf)]
        tables.append((boards_table(done.report), [note, *leaf_notes, *not_merged]))
    if whose:
        refinements = [
            refinement | {"board": row.get("label") or row["board"]}
            for row in rows
            for refinement in row["refinements"]
        ]
        notes = ["Exploitabilities are the player's own, in chips."]
        if output.frequencies or output.hands is not None:
            notes.append(f"Strategies below are those of {whose}.")
        tables.append((refinements_table(refinements), notes))
    if done.solution is not None and output.frequencies:
        tables.append((frequencies_table(done.solution, output.line), []))
    if done.solution is not None and output.cards:
        from jaxgadget.holdem.boards import aggregate_cards
        from jaxgadget.report.boards import cards_table

        report = aggregate_cards(*done.solution.find_street(output.line), progress=True)
        note = f"{report.attrs['actor']} acts after the card. EVs are shares of the pot there, from there on."
        tables.append((cards_table(report), [note]))
    if done.solution is not None and output.hands is not None:
        tables.append((hands_table(done.solution, output.line, output.hands, output.player), []))
    return tables


def _check(context: typer.Context, files: SpotsOptions, gadgets: GadgetOptions, output: SpotOutput) -> None:
    """Raises ValueError for options that have no effect with others."""
    if files.tree:
        refuse_unused(context, "with --tree, which solves nothing", *_SOLVING)
    if files.open is not None:
        fields = [name for name in _SPOT if name not in ("board", "label")]  # which select spots
        refuse_unused(context, "with --open, whose spots are solved", *fields, *_UNOPENED)
        if not (is_given(context, "iterations") or is_given(context, "target_gap")):
            refuse_unused(context, "with --open, without --iterations or --target-gap", *_GOING_ON)
    if files.lock is not None:
        refuse_unused(context, "with --lock", "suit_isomorphism", "leaf")
    if files.leaf is not None:
        refuse_unused(context, "with --leaf", "suit_isomorphism")
    else:
        refuse_unused(context, "without --leaf", "leaf_iterations")
    if output.save is not None:
        refuse_unused(context, "with --save, as it keeps only numbers", "results")
        if output.save.suffix != ".npz":
            raise ValueError(f"--save {str(output.save)!r}: expected a file that ends in .npz")
    if output.aggregate:
        single = ("whose", "hands", "frequencies", "cards", "show")
        refuse_unused(context, "with --report", *single, "results", "gadget")
    else:
        refuse_unused(context, "without --report", "by", "csv")
    if files.spots is not None:
        refuse_unused(context, "with --spots, whose rows define it", *_ALONE)
        refuse_unused(context, "with --spots", "tree")
        if not output.aggregate:
            refuse_unused(context, "with --spots, without --report", *_SHOWING)
    else:
        refuse_unused(context, "without --spots", "results")
    if output.plot is None:
        refuse_unused(context, "without --plot", "show")
    if not output.shows_line and output.json is None and output.explore is None:
        refuse_unused(context, "without --plot, --hands, --frequencies, --cards or --json", "line")
    if output.plot is None and output.hands is None:
        refuse_unused(context, "without --plot or --hands", "whose")
    if output.to_standard_output:
        refuse_unused(context, "with --json -", "hands", "frequencies", "cards")
    if not gadgets.gadget:
        refuse_unused(context, "without --gadget", *_REFINING)
    else:
        refuse_unused(context, "with --gadget", "suit_isomorphism", "compressed", "lock", "leaf", "save")


def _not_merged(spots: Sequence[Spot]) -> list[str]:
    """Note on spots in which no hands were merged; empty if there are none."""
    from jaxgadget.holdem.isomorphism import find_exchanges

    reasons = [reason for _, reason in map(find_exchanges, spots) if reason]
    if not reasons:
        return []
    return [f"No hands were merged in {len(reasons)} of {len(spots)} spots; in the first {reasons[0]}."]


MANY_TITLES = 5
"""Largest number of spots that an error lists."""

SLICE_SPOTS = 64
"""Maximum number of spots re-solved together, which bounds the work lost by an interruption.

It equals the size of a batch on a CPU.
"""

SLICE_BYTES = 1 << 30
"""Maximum size in float64 of the strategies of spots re-solved together; those of a turn take 100 MB.

Strategies are held for the blueprint as solved, for the blueprint translated to the spot's menu, and for
every gadget.
"""


class Refining(NamedTuple):
    """Re-solving of spots.

    Attributes:
      gadgets: the gadgets.
      options: the other settings.
      iterations: number of iterations for the blueprint.
    """

    gadgets: list[Gadget]
    options: RefiningOptions
    iterations: int

    def settings(self) -> dict[str, Any]:
        """Settings that distinguish results in a file of results."""
        from jaxgadget.gadgets.gadget import describe

        return {
            "gadgets": [describe(gadget) for gadget in self.gadgets],
            "player": self.options.player,
            **vars(self.options.blueprint),
            "iterations": self.iterations,
            "hands_in_range": self.options.hands_in_range,
        }

    def whose(self) -> str:
        """Description of the strategies shown: the first gadget's, against the blueprint."""
        from jaxgadget.gadgets.gadget import describe

        own, other = PLAYERS[self.options.player], PLAYERS[1 - self.options.player]
        return f"{describe(self.gadgets[0])} for {own}, the blueprint for {other}"


def _read_spots(path: pathlib.Path, values: Mapping[str, Any]) -> list[_LockedSpot]:
    """Reads the spots of a file and their locks, with the options as defaults for fields that rows lack.

    Raises:
      ValueError: if the file cannot be read, is empty, or a row is not a spot (with its line).
    """
    from jaxgadget.holdem.locks import parse_locks

    spots: list[_LockedSpot] = []
    for number, text in enumerate(_read_lines(path, "--spots"), 1):
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
        locks = None
        if "locks" in fields:
            records = fields.pop("locks")
            locks = () if records == [] else parse_locks(records, where)
        unknown = next((name for name in fields if name not in _SPOT), None)
        if unknown is not None:
            raise ValueError(
                f"{where}: {unknown!r} is not a field of a spot; similar names: {near_names(unknown, _SPOT)}"
            )
        try:
            spots.append((make(SpotOptions, {**values, **fields}).make(), locks))
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error
    if not spots:
        raise ValueError(f"--spots {str(path)!r} has no rows: expected at least one")
    return spots


class Solving(NamedTuple):
    """Solving of spots.

    Attributes:
      solver: settings of the solver.
      suit_isomorphism: True to merge hands; None to merge only the runouts of flops.
      compressed: True to keep the state of flops in 16 bits.
      keep_state: True to keep the solver's state in solutions.
      locks: fixed strategies of each spot.
      leaf: values with which first streets are solved; None for whole spots.
    """

    solver: Solver
    suit_isomorphism: bool | None
    compressed: bool
    keep_state: bool
    locks: list[tuple[Lock, ...]]
    leaf: DealLeaf | None


def _open(path: pathlib.Path, context: typer.Context, spot: SpotOptions) -> SpotSolutions:
    """Reads the solutions of a file with the given board and label, by default all.

    Raises:
      ValueError: if there are none, or several and options that show a single one.
    """
    from jaxgadget.holdem.cards import parse_cards
    from jaxgadget.holdem.solution import SpotSolutions

    every = SpotSolutions.load(path)
    board = None if spot.board is None else parse_cards(spot.board)
    solutions = SpotSolutions(
        each
        for each in every
        if (board is None or sorted(each.spot.cards) == sorted(board))
        and (not spot.label or each.spot.label == spot.label)
    )
    if not solutions:
        titles = ", ".join(each.spot.title for each in every[:MANY_TITLES])
        raise ValueError(
            f"--open {str(path)!r} has no spot with this --board and --label: expected one of its "
            f"{len(every)}, such as {titles}"
        )
    if len(solutions) > 1 and not is_given(context, "aggregate"):
        refuse_unused(context, f"with --open and {len(solutions)} spots, without --report", *_SHOWING)
    return solutions


def _go_on(solutions: SpotSolutions, context: typer.Context, solver: Solver) -> SpotSolutions:
    """The solutions, solved further if the command line has iterations or a target gap."""
    from jaxgadget.holdem.solve import resume_spots

    names = [name for name in ("iterations", "target_gap", *_GOING_ON) if is_given(context, name)]
    if not {"iterations", "target_gap"} & {*names}:
        return solutions
    return resume_spots(solutions, solver=dataclasses.replace(solver.only(*names), progress=True))


def _read_or_solve(
    spots: list[Spot],
    results: pathlib.Path | None,
    solving: Solving,
    refining: Refining | None,
    see: _See,
    shown: list[Any] | None = None,
) -> tuple[list[dict[str, Any]], SpotSolution | None]:
    """Solves spots that are not in the file of results; returns all rows, and a single spot's solution.

    Passes solutions to `see`, and appends refinements to `shown`, if given.
    """
    solver = solving.solver
    settings: dict[str, Any] = {"algorithm": solver.algorithm, "iterations": solver.iterations}
    settings |= {"target_gap": solver.target_gap, "dtype": solver.dtype}  # their order is part of the keys
    if refining is not None:
        settings |= {"refining": refining.settings()}
    if solving.compressed:
        settings |= {"compressed": True}
    keys: list[str] = []
    for number, (spot, locks) in enumerate(zip(spots, solving.locks, strict=True)):
        own = {"locks": [jsonable(vars(lock)) for lock in locks]} if locks else {}
        if solving.leaf is not None:
            own |= solving.leaf.settings(number)
        text = f"{spot.name} {json_format.dumps(settings | own)}"
        keys.append(hashlib.sha256(text.encode()).hexdigest()[:32])
    stored = {} if results is None else _results(results).read()
    missing = [number for number, key in enumerate(keys) if key not in stored]

    def keep(solved: Mapping[int, dict[str, Any]]) -> None:
        rows = {keys[missing[index]]: row for index, row in solved.items()}
        stored.update(rows)
        if results is not None:
            _results(results).add(rows)

    left = [spots[number] for number in missing]
    if refining is None:
        of_missing = solving._replace(locks=[solving.locks[number] for number in missing])
        if (leaf := solving.leaf) is not None:
            of_missing = of_missing._replace(locks=[leaf.solve(number, spots[number]) for number in missing])
        solution = _solve_missing(left, keep, of_missing, see)
    else:
        solution = _refine_missing(left, keep, solver, refining, shown)
    return [stored[key] for key in keys], solution


_See = Callable[[int, "SpotSolution"], None]
"""Callback; receives each solution with the number of its spot."""

_Keep = Callable[[Mapping[int, dict[str, Any]]], None]


def _solve_missing(spots: list[Spot], keep: _Keep, solving: Solving, see: _See) -> SpotSolution | None:
    """Solves spots and passes each solution to `see`; returns the solution if there is a single one."""
    from jaxgadget.holdem.solve import solve_batches

    single = None
    settings = solving._asdict()
    del settings["leaf"]  # solved, and among the locks
    for solved in solve_batches(spots, **settings):
        keep({index: solution.to_row() for index, solution in solved.items()})
        single = solved[0] if len(spots) == 1 else None
        for index in solved:
            see(index, solved[index])
        del solved  # frees the batch, as only rows are needed
    return single


def _refine_missing(
    spots: list[Spot], keep: _Keep, solver: Solver, refining: Refining, shown: list[Any] | None
) -> SpotSolution | None:
    """Solves blueprints and re-solves spots, slice by slice; returns a single spot's first refinement."""
    coarse = [
        _coarsen(spot, refining) for spot in spots
    ]  # rejects menus without a tree before anything is solved
    single = None
    for indices in _slices(spots):
        # Copies, as spots cache their tables, which take 40 MB for a turn.
        members = [dataclasses.replace(spots[index]) for index in indices]

        def keep_slice(rows: Mapping[int, dict[str, Any]], indices: Sequence[int] = indices) -> None:
            keep({indices[number]: row for number, row in rows.items()})

        refined = _refine_slice(members, [coarse[index] for index in indices], keep_slice, solver, refining)
        single = refined[0][0].solution if len(spots) == 1 else None
        if shown is not None:
            shown.append(refined)
        del refined
    return single


def _slices(spots: Sequence[Spot]) -> list[list[int]]:
    """Groups of indices of spots that are re-solved together; spots with trees of one shape are adjacent."""
    slices: list[list[int]] = []
    num_bytes = 0
    for index in sorted(range(len(spots)), key=lambda index: spots[index].betting.shape):
        actions, hands = len(spots[index].betting.tree.parent), len(spots[index].hands)
        own_bytes = 8 * actions * hands
        if not slices or len(slices[-1]) == SLICE_SPOTS or num_bytes + own_bytes > SLICE_BYTES:
            slices.append([])
            num_bytes = 0
        slices[-1].append(index)
        num_bytes += own_bytes
    return slices


def _refine_slice(
    spots: list[Spot], coarse: list[Spot], keep: _Keep, solver: Solver, refining: Refining
) -> list[list[SpotRefinement]]:
    """Solves spots with the blueprint's sizes and re-solves them."""
    from jaxgadget.holdem.solve import evaluate_spot, solve_spots
    from jaxgadget.holdem.translate import translate_solution
    from jaxgadget.subgames.spots import refine_spots

    solved = solve_spots(coarse, solver=dataclasses.replace(solver, iterations=refining.iterations))
    blueprints = [translate_solution(*pair) for pair in zip(solved, spots, strict=True)]

    def on_refined(refined: Mapping[int, Sequence[SpotRefinement]]) -> None:
        rows: dict[int, dict[str, Any]] = {}
        for number, several in refined.items():
            row = evaluate_spot(spots[number], blueprints[number]).to_row()
            refinements = [refinement.to_row() for refinement in several]
            for refinement in refinements:
                del refinement["board"]  # the spot's
            rows[number] = row | {"iterations": solved[number].iterations, "refinements": refinements}
        keep(rows)

    return refine_spots(
        spots,
        refining.gadgets,
        blueprints=blueprints,
        player=refining.options.player,
        hands_in_range=refining.options.hands_in_range,
        solver=solver,
        on_refined=on_refined,
    )


def _coarsen(spot: Spot, refining: Refining) -> Spot:
    """The spot with the blueprint's sizes, on all streets; if there are any, without removed lines."""
    changed = refining.options.blueprint.parse("blueprint_")
    if not changed:
        return spot

    def coarser(menus: Any) -> Any:
        pair = menus if isinstance(menus, tuple) else (menus, menus)
        return tuple(dataclasses.replace(menu, **changed) for menu in pair)

    streets = ("menus", "turn_menus", "river_menus")
    menus = {name: own and coarser(own) for name in streets for own in (getattr(spot, name),)}
    return dataclasses.replace(spot, **menus, remove=())


def _results(path: pathlib.Path) -> Rows:
    """Opens the file of results; raises ValueError if it cannot be written."""
    from jaxgadget.holdem.checkpoint import RESULTS
    from jaxgadget.util.store import Rows

    check_writable(path)
    return Rows(path, RESULTS)


def _describe_kept(results: pathlib.Path | None, checkpoint: pathlib.Path | None) -> str:
    """Description of the contents of a file of results and a checkpoint; empty if there are none."""
    from jaxgadget.core.checkpoint import describe_kept
    from jaxgadget.holdem.checkpoint import REFINED_SPOTS, SPOTS, find_spots

    notes: list[str] = []
    if results is not None and (rows := len(_results(results).read())):
        notes.append(f"{str(results)!r} keeps {_count(rows, 'row')}")
    if checkpoint is not None:
        for format, noun in ((SPOTS, "solved spot"), (REFINED_SPOTS, "re-solved spot")):
            if solved := len(set().union(*find_spots(checkpoint, format).values())):
                notes.append(f"{str(checkpoint)!r} keeps {_count(solved, noun)}")
        notes.append(describe_kept(checkpoint))
    return ", ".join(filter(None, notes))


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' if count > 1 else ''}"


def _read_lines(path: pathlib.Path, option: str) -> list[str]:
    """Reads the lines of a file of JSON lines.

    Raises:
      ValueError: if the file cannot be read; the message names the option.
    """
    check_regular(path, option)
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{option} {str(path)!r} cannot be read ({error}); expected a file of JSON lines"
        ) from error
