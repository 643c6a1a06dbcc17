"""`jaxgadget holdem`: rivers and turns of hold'em, one or a file of them."""

from __future__ import annotations

import dataclasses
import hashlib
import json as json_format
import math
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from jaxgadget.cli import holdem_options as asked
from jaxgadget.cli import options
from jaxgadget.cli.command import (
    check_gadgets,
    keeping,
    make_asked_gadgets,
    refuse_unused,
)
from jaxgadget.cli.prepare import keep_programs
from jaxgadget.report.output import STANDARD_OUTPUT, check_outputs, warn, write_json, written
from jaxgadget.report.output import show as show_table
from jaxgadget.report.tables import to_json_line
from jaxgadget.util.arguments import near_names, read_number
from jaxgadget.util.files import atomic_writer, check_regular, check_writable

if TYPE_CHECKING:
    from jaxgadget.gadgets.gadget import Gadget
    from jaxgadget.poker.betting import BetMenu
    from jaxgadget.poker.solve import SpotSolution
    from jaxgadget.poker.spots import Spot
    from jaxgadget.refining.spots import SpotRefinement

HOLDEM_EXAMPLES = """\
Examples:

`jaxgadget holdem --board Td9d6hQc2s --oop "66+,A8s+,KQo" --ip "QQ-22,ATo+" --pot 200 --stack 900
--bets 50%,100%,a --raises 100%,a --plot grid.png`

`jaxgadget holdem --board Td9d6hQc7s --pot 60 --stack 100 --oop-bets 50% --ip-bets "" --raises "" --tree`

`jaxgadget holdem --board Td9d6hQc --pot 60 --stack 200 --bets 50% --raises "" --river-bets 100% --tree`

`jaxgadget holdem --board Td9d6hQc2s --pot 200 --stack 900 --gadget resolving --prior blueprint
--blueprint-bets 100% --blueprint-raises "" --hands 10`

`jaxgadget holdem --spots spots.jsonl --results rows.jsonl --target-gap 1% --json all.json`
"""


def holdem(
    context: typer.Context,
    board: asked.Board = None,
    oop: asked.Oop = "random",
    ip: asked.Ip = "random",
    pot: asked.Pot = None,
    stack: asked.Stack = None,
    bets: asked.Bets = "50%,100%,a",
    raises: asked.Raises = "100%,a",
    oop_bets: asked.OopBets = None,
    oop_raises: asked.OopRaises = None,
    ip_bets: asked.IpBets = None,
    ip_raises: asked.IpRaises = None,
    river_bets: asked.RiverBets = None,
    river_raises: asked.RiverRaises = None,
    oop_river_bets: asked.OopRiverBets = None,
    oop_river_raises: asked.OopRiverRaises = None,
    ip_river_bets: asked.IpRiverBets = None,
    ip_river_raises: asked.IpRiverRaises = None,
    cap: asked.Cap = None,
    add_all_in: asked.AddAllIn = 0.0,
    force_all_in: asked.ForceAllIn = 0.0,
    spots: asked.Spots = None,
    results: asked.Results = None,
    tree: asked.ShowTree = False,
    gadget: asked.Gadget = None,
    prior: options.Prior = None,
    epsilon: asked.Epsilon = None,
    player: asked.Player = 0,
    blueprint_bets: asked.BlueprintBets = None,
    blueprint_raises: asked.BlueprintRaises = None,
    blueprint_iterations: asked.BlueprintIterations = None,
    hands_in_range: asked.HandsInRange = False,
    algorithm: asked.Algorithm = asked.DCFR,
    iterations: asked.Iterations = 1000,
    target_gap: asked.TargetGap = None,
    dtype: options.Dtype = options.DtypeName.FLOAT32,
    suit_isomorphism: asked.SuitIsomorphism = False,
    checkpoint: options.CheckpointFolder = None,
    memory_limit: options.MemoryLimit = None,
    line: asked.Line = "",
    hands: asked.Hands = None,
    frequencies: asked.Frequencies = False,
    plot: asked.GridPlot = None,
    show: asked.Shown = asked.ShownName.STRATEGY,
    json: options.Json = None,
) -> None:
    """Solve rivers and turns of hold'em, or re-solve them with gadgets: EVs, exploitability, strategies.

    EVs are shares of the pot less what is put in, in chips; exploitability is half of NashConv, in chips.
    With `--gadget` they are those of the blueprint, and each refinement has a row of its own.
    """
    if tree:
        refuse_unused(context, "with --tree, for which nothing is solved", *_OF_SOLVING)
    if spots is not None:
        refuse_unused(context, "with --spots, whose rows say it", *asked.ALONE)
        refuse_unused(context, "with --spots", "tree", "plot", "line", "hands", "frequencies")
    else:
        refuse_unused(context, "without --spots", "results")
    if plot is None:
        refuse_unused(context, "without --plot", "show")
    if plot is None and hands is None and not frequencies:
        refuse_unused(context, "without --plot, --hands or --frequencies", "line")
    if json == STANDARD_OUTPUT:
        refuse_unused(context, "with --json -", "hands", "frequencies")
    if not gadget:
        refuse_unused(context, "without --gadget", *_OF_GADGETS)
    else:
        refuse_unused(context, "with --gadget", "checkpoint", "suit_isomorphism")
    outputs = {"--json": json, "--plot": plot, "--results": results}
    check_outputs(outputs, folder=checkpoint)
    said = {name: context.params[name] for name in (*asked.ALONE, *asked.MENU)}
    solving: dict[str, Any] = {
        "algorithm": str(algorithm),
        "iterations": iterations,
        "target_gap": _target(target_gap),
        "dtype": dtype.value,
    }
    keep_programs()
    from jaxgadget.report.holdem import frequencies_table, hands_table, refinements_table, spots_table
    from jaxgadget.util.clock import Stopwatch

    watch = Stopwatch()
    with watch.phase("build"):
        chosen = [_make_spot(said)] if spots is None else _read_spots(spots, said)
        if tree:
            typer.echo(str(chosen[0].betting))
            return
        if plot is not None or hands is not None or frequencies:
            chosen[0].betting.actor(line)  # before anything is solved
        refining = None
        if gadget:
            from jaxgadget.refining.spots import check_spot_gadgets

            refining = Refining(
                gadgets=make_asked_gadgets(gadget, prior, epsilon, None),
                player=player,
                bets=blueprint_bets,
                raises=blueprint_raises,
                iterations=blueprint_iterations or iterations,
                hands_in_range=hands_in_range,
            )
            check_gadgets(context, refining.gadgets)
            check_spot_gadgets(refining.gadgets)  # before blueprints are solved
    with watch.phase("run"), keeping(lambda: _describe_kept(results, checkpoint)):
        limits = {
            "memory_limit": memory_limit,
            "checkpoint": checkpoint,
            "suit_isomorphism": suit_isomorphism,
        }
        rows, solution = _solve(chosen, results, solving, limits, refining)
    if json is not None:
        write_json(json, {"rows": rows, "seconds": watch.seconds})
    whose = "" if refining is None else refining.whose()
    if plot is not None and solution is not None:
        from jaxgadget.report.holdem import draw_grid, grid_title

        title = grid_title(solution, line, show=show.value)
        draw_grid(solution, plot, line, show=show.value, title=f"{title} ({whose})" if whose else title)
    not_merged = _not_merged(chosen) if suit_isomorphism else []
    if json == STANDARD_OUTPUT:
        for note in not_merged:
            warn(note)
        return
    notes = ["EVs and exploitability are in chips; exploitability is half of NashConv."]
    if refining is not None:
        show_table(
            spots_table(rows), ["These are blueprints: what both players do before anybody re-solves."]
        )
        refinements = [row | {"board": one["board"]} for one in rows for row in one["refinements"]]
        below = f"Strategies below are those of {whose}." if frequencies or hands is not None else ""
        show_table(
            refinements_table(refinements), ["Exploitabilities are the player's own, in chips.", below]
        )
    else:
        show_table(spots_table(rows), [*notes, *not_merged])
    if solution is not None and frequencies:
        show_table(frequencies_table(solution, line), [])
    if solution is not None and hands is not None:
        show_table(hands_table(solution, line, hands), [])
    for note in written(results=json, rows=results, picture=plot):
        typer.echo(note)


def _not_merged(spots: Sequence[Spot]) -> list[str]:
    """Why there were spots in which no hands were merged."""
    from jaxgadget.poker.isomorphism import find_exchanges

    reasons = [reason for _, reason in map(find_exchanges, spots) if reason]
    if not reasons:
        return []
    return [f"No hands were merged in {len(reasons)} of {len(spots)} spots; in the first {reasons[0]}."]


_OF_GADGETS = (
    *("prior", "epsilon", "player", "blueprint_bets", "blueprint_raises", "blueprint_iterations"),
    "hands_in_range",
)

_OF_SOLVING = (
    *("gadget", "algorithm", "iterations", "target_gap", "dtype", "suit_isomorphism", "checkpoint"),
    *("memory_limit", "hands", "frequencies", "plot", "json"),
)

SLICE_SPOTS = 64
"""So many spots are re-solved before the next are begun, at most: what is cut off loses no more than that.

As many make a batch on a CPU.
"""

SLICE_BYTES = 1 << 30
"""Nor more than whose strategies take so much in float64, a turn's 100 MB.

The blueprint's are there as it was solved and as it is brought to the spot's menu, and those of every gadget.
"""


class Refining(NamedTuple):
    """How spots are re-solved.

    Attributes:
      gadgets: with what.
      player: by whom.
      bets: the blueprint's, as on the command line; None for the same.
      raises: likewise.
      iterations: the blueprint's.
      hands_in_range: whether the opponent has no other hands than its range's.
    """

    gadgets: list[Gadget]
    player: int
    bets: str | None
    raises: str | None
    iterations: int
    hands_in_range: bool

    def settings(self) -> dict[str, Any]:
        """What tells one from another in a file of results."""
        from jaxgadget.gadgets.gadget import describe

        return self._asdict() | {"gadgets": [describe(gadget) for gadget in self.gadgets]}

    def whose(self) -> str:
        """Whose the strategies are that are shown: the first gadget's, against the blueprint."""
        from jaxgadget.gadgets.gadget import describe
        from jaxgadget.poker.betting import PLAYERS

        own, other = PLAYERS[self.player], PLAYERS[1 - self.player]
        return f"{describe(self.gadgets[0])} for {own}, the blueprint for {other}"


def _target(text: str | None) -> float | str | None:
    """A number of chips, or what the library reads or refuses."""
    number = None if text is None else read_number(text)
    return text if number is None else number


def _make_spot(said: Mapping[str, Any]) -> Spot:
    """A spot of what options or a row say."""
    from jaxgadget.poker.spots import Spot

    for name in ("board", "pot", "stack"):
        if said[name] is None:
            raise ValueError(
                f"{name} is missing: expected --board, --pot and --stack, or --spots with rows that say them"
            )
    given = {name: said[name] for name in asked.ALONE}
    menus = (_make_menu(said, "oop"), _make_menu(said, "ip"))
    river = None
    if any(said[name] is not None for name in asked.RIVER_SIZES):
        river = (_make_menu(said, "oop", river=True), _make_menu(said, "ip", river=True))
    return Spot(**given, menus=menus, river_menus=river)


def _make_menu(said: Mapping[str, Any], player: str, *, river: bool = False) -> BetMenu:
    """A player's menu: its own sizes, else those of both; on the river its sizes there come first."""
    from jaxgadget.poker.betting import BetMenu, parse_sizes

    sizes: dict[str, tuple[float, ...]] = {}
    for name in ("bets", "raises"):
        names = [f"{player}_{name}", name]
        if river:
            names = [f"{player}_river_{name}", f"river_{name}", *names]
        option = next(option for option in names if said[option] is not None or option == name)
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
    spots: list[Spot] = []
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
        known = (*asked.ALONE, *asked.MENU)
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
    spots: list[Spot],
    results: pathlib.Path | None,
    solving: Mapping[str, Any],
    limits: Mapping[str, Any],
    refining: Refining | None,
) -> tuple[list[dict[str, Any]], SpotSolution | None]:
    """A row a spot, and a single one's solution; rows that a file of results has are taken from there."""
    settings = dict(solving)
    if refining is not None:
        settings |= {"refining": refining.settings()}
    text = json_format.dumps(settings)
    keys = [hashlib.sha256(f"{spot.name} {text}".encode()).hexdigest()[:32] for spot in spots]
    kept = {} if results is None else _read_results(results)
    missing = [number for number, key in enumerate(keys) if key not in kept]

    def keep(solved: Mapping[int, dict[str, Any]]) -> None:
        for place, row in solved.items():
            key = keys[missing[place]]
            kept[key] = {"key": key, **row}
        if results is not None:
            with atomic_writer(results) as file:
                file.writelines(to_json_line(row).encode() for row in kept.values())

    left = [spots[number] for number in missing]
    if refining is None:
        solution = _solve_missing(left, keep, {**solving, **limits})
    else:
        how = {**solving, "memory_limit": limits["memory_limit"]}
        solution = _refine_missing(left, keep, how, refining)
    rows = [{name: value for name, value in kept[key].items() if name != "key"} for key in keys]
    return rows, solution


_Keep = Callable[[Mapping[int, dict[str, Any]]], None]


def _solve_missing(spots: list[Spot], keep: _Keep, solving: Mapping[str, Any]) -> SpotSolution | None:
    """Solves spots; the solution of a single one."""
    from jaxgadget.poker.solve import solve_batches

    single = None
    for solved in solve_batches(spots, progress=True, **solving):
        keep({place: solution.to_row() for place, solution in solved.items()})
        single = solved[0] if len(spots) == 1 else None
        del solved  # before the next batch: rows are all that is needed
    return single


def _refine_missing(
    spots: list[Spot], keep: _Keep, solving: Mapping[str, Any], refining: Refining
) -> SpotSolution | None:
    """Solves blueprints and re-solves spots, slice by slice; a single one's first refinement."""
    coarse = [_coarsen(spot, refining) for spot in spots]  # what makes no tree is refused at once
    single = None
    for places in _slices(spots):
        # Copies, as spots keep their tables, which take 40 MB for a turn.
        members = [dataclasses.replace(spots[place]) for place in places]

        def keep_slice(rows: Mapping[int, dict[str, Any]], places: Sequence[int] = places) -> None:
            keep({places[number]: row for number, row in rows.items()})

        refined = _refine_slice(members, [coarse[place] for place in places], keep_slice, solving, refining)
        single = refined[0][0].solution if len(spots) == 1 else None
        del refined
    return single


def _slices(spots: Sequence[Spot]) -> list[list[int]]:
    """The places of spots that are re-solved together; those whose trees have one shape lie side by side."""
    slices: list[list[int]] = []
    num_bytes = 0
    for place in sorted(range(len(spots)), key=lambda place: spots[place].betting.shape):
        actions, hands = len(spots[place].betting.tree.parent), len(spots[place].hands)
        own_bytes = 8 * actions * hands
        if not slices or len(slices[-1]) == SLICE_SPOTS or num_bytes + own_bytes > SLICE_BYTES:
            slices.append([])
            num_bytes = 0
        slices[-1].append(place)
        num_bytes += own_bytes
    return slices


def _refine_slice(
    spots: list[Spot], coarse: list[Spot], keep: _Keep, solving: Mapping[str, Any], refining: Refining
) -> list[list[SpotRefinement]]:
    """Solves spots with the blueprint's sizes and re-solves them."""
    from jaxgadget.poker.solve import evaluate_spot, solve_spots
    from jaxgadget.poker.translate import translate_solution
    from jaxgadget.refining.spots import refine_spots

    of_blueprint: dict[str, Any] = {**solving, "iterations": refining.iterations}
    solved = solve_spots(coarse, progress=True, **of_blueprint)
    blueprints = [translate_solution(*pair) for pair in zip(solved, spots, strict=True)]

    def on_refined(refined: Mapping[int, Sequence[SpotRefinement]]) -> None:
        rows: dict[int, dict[str, Any]] = {}
        for number, several in refined.items():
            row = evaluate_spot(spots[number], blueprints[number]).to_row()
            refinements = [one.to_row() for one in several]
            for one in refinements:
                del one["board"]  # the spot's
            rows[number] = row | {"iterations": solved[number].iterations, "refinements": refinements}
        keep(rows)

    return refine_spots(
        spots,
        refining.gadgets,
        blueprints=blueprints,
        player=refining.player,
        hands_in_range=refining.hands_in_range,
        progress=True,
        on_refined=on_refined,
        **solving,
    )


def _coarsen(spot: Spot, refining: Refining) -> Spot:
    """The spot with the blueprint's sizes, on both streets."""
    from jaxgadget.poker.betting import parse_sizes

    sizes = {"bets": refining.bets, "raises": refining.raises}
    changed = {
        name: parse_sizes(text, f"blueprint_{name}") for name, text in sizes.items() if text is not None
    }
    if not changed:
        return spot

    def coarser(menus: Any) -> Any:
        both = menus if isinstance(menus, tuple) else (menus, menus)
        return tuple(dataclasses.replace(menu, **changed) for menu in both)

    river = None if spot.river_menus is None else coarser(spot.river_menus)
    return dataclasses.replace(spot, menus=coarser(spot.menus), river_menus=river)


def _read_results(path: pathlib.Path) -> dict[str, dict[str, Any]]:
    """Rows that were kept, by what was solved.

    Raises:
      ValueError: if the file has something else in it; it is left as it is.
    """
    check_writable(path)
    if not path.exists():
        return {}
    kept: dict[str, dict[str, Any]] = {}
    for number, text in enumerate(_read_lines(path, "--results"), 1):
        if not text.strip():
            continue
        try:
            row = json_format.loads(text, object_hook=_with_nan)
            kept[row["key"]] = row
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"--results {str(path)!r}, line {number}, is no result of this command; choose another file"
            ) from error
    return kept


def _with_nan(record: dict[str, Any]) -> dict[str, Any]:
    """NaN where a row has null, which stands for it; older files have NaN itself, which is read as well."""
    return {name: math.nan if value is None else value for name, value in record.items()}


def _describe_kept(results: pathlib.Path | None, checkpoint: pathlib.Path | None) -> str:
    """What a file of results and a checkpoint hold, in words; nothing if they hold none."""
    from jaxgadget.poker.checkpoint import find_spots
    from jaxgadget.solving.checkpoint import describe_kept

    kept: list[str] = []
    if results is not None and (rows := len(_read_results(results))):
        kept.append(f"{str(results)!r} keeps {_count(rows, 'row')}")
    if checkpoint is not None:
        if solved := len(set().union(*find_spots(checkpoint).values())):
            kept.append(f"{str(checkpoint)!r} keeps {_count(solved, 'solved spot')}")
        kept.append(describe_kept(checkpoint))
    return ", ".join(filter(None, kept))


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' if number > 1 else ''}"


def _read_lines(path: pathlib.Path, option: str) -> list[str]:
    """The lines of a file of JSON lines.

    Raises:
      ValueError: if it cannot be read; it names the option.
    """
    check_regular(path, option)
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{option} {str(path)!r} cannot be read ({error}); expected a file of JSON lines"
        ) from error
