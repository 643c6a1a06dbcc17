"""The command line: `jaxgadget games`, `solve`, `refine`, `sweep` and the others.

What needs JAX, pandas or matplotlib is imported inside the commands: help and complaints come at once.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import io
import os
import pathlib
import sys
from collections.abc import Generator, Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jaxgadget.bench.defaults import DEFAULT_GAMES, DEFAULT_LANES, DEFAULT_REPEATS, DEFAULT_SECONDS
from jaxgadget.cli import options, search
from jaxgadget.cli.export import EXPORT_EXAMPLES, export
from jaxgadget.cli.prepare import enumerate_named, first_cut, keep_programs
from jaxgadget.cli.sweep import SWEEP_EXAMPLES, sweep
from jaxgadget.games.game import DEFAULT_MAX_HISTORIES
from jaxgadget.report.output import (
    STANDARD_OUTPUT,
    check_outputs,
    show,
    warn,
    write_json,
    written,
)

if TYPE_CHECKING:
    from jaxgadget.refining.refine import BothRefined, Refinement
    from jaxgadget.tree.cut import Cut
    from jaxgadget.tree.history import HistoryTree

COLLECT_RARELY = (50_000, 20, 50)
"""How often Python looks for cyclic garbage. Imports and tracing make many objects that stay: with its usual
numbers, looking at them again and again is an eighth of `jaxgadget refine kuhn_poker`."""

ABOUT = """\
Re-solves subgames of two-player zero-sum games with hidden information, all in one batch.

A **blueprint** is a strategy for the whole game, a **cut** says where subgames begin, and a **gadget** is the
opponent's way into one. `refine` re-solves everything below the cut, and tells how exploitable the strategy
was before and is after; `sweep` does so for many games, cuts and settings, and goes on where it stopped.
`solve` finds an equilibrium of a whole game. `bench` tells how fast that goes here.
"""

FIRST_STEPS = """\
Start with `jaxgadget games`, then try the demo, which takes under a minute:

`jaxgadget refine leduc_poker --plot leduc.png`

Every command explains itself, with examples: `jaxgadget refine --help`.
"""

SOLVE_EXAMPLES = """\
Examples:

`jaxgadget solve leduc_poker`

`jaxgadget solve "goofspiel(num_cards=4,imp_info=True)" --algorithm pcfr+ --iterations 500`

`jaxgadget solve kuhn_poker --target-gap 1e-6 --save equilibrium.npz --json result.json`
"""

REFINE_EXAMPLES = """\
Examples:

`jaxgadget refine leduc_poker --plot leduc.png`

`jaxgadget refine leduc_poker --cut flop --player 1 --blueprint cfr:10 --blueprint uniform --gadget resolving`

`jaxgadget refine "goofspiel(num_cards=4,imp_info=True)" --cut depth:1 --blueprint cfr:100 --json -`

`jaxgadget refine leduc_poker --player both --blueprint cfr:100 --gadget resolving --gadget
optimal-continuation --algorithm lp --epsilon auto`
"""

BENCH_EXAMPLES = """\
Examples:

`jaxgadget bench`

`jaxgadget bench leduc_poker --lanes 1 --lanes 64 --lanes 1024 --engine jaxgadget --engine openspiel --json -`
"""

app = typer.Typer(
    name="jaxgadget",
    help=ABOUT,
    epilog=FIRST_STEPS,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@contextlib.contextmanager
def _clear_errors() -> Generator[None]:
    """What can be foreseen becomes a line on standard error and status 2; Ctrl-C is status 130."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("Interrupted.", err=True)
        raise typer.Exit(130) from None
    except (ValueError, ImportError, OSError, MemoryError) as error:
        if isinstance(error, OSError) and error.errno == errno.EPIPE:  # nobody reads any more
            raise
        typer.echo(f"Error: {_sentence(error)}", err=True)
        raise typer.Exit(2) from None


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{os.fspath(error.filename)!r}: {error.strerror}"
    return " ".join(line.strip() for line in str(error).splitlines()) or type(error).__name__


@app.callback(invoke_without_command=True)
def _options(
    show_version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if show_version:
        typer.echo(f"jaxgadget {version('jaxgadget')}")
        raise typer.Exit


@app.command("games")
@_clear_errors()
def games() -> None:
    """List the games that have a name, with their parameters."""
    from jaxgadget.games.registry import list_games
    from jaxgadget.report.tables import games_table

    show(
        games_table(list_games()),
        [
            "Parameters stand in parentheses, as OpenSpiel writes them: leduc_poker(num_ranks=4).",
            "Besides: openspiel:NAME(…) for any two-player zero- or constant-sum game of OpenSpiel's (if "
            "installed), paths of Gambit files that end in .efg, and classes of your own as path.py:Class or "
            "module:Class.",
        ],
    )


@app.command("solve", epilog=SOLVE_EXAMPLES)
@_clear_errors()
def solve(
    game: options.Game,
    algorithm: options.Algorithm = options.CFR_PLUS,
    iterations: options.Iterations = 1000,
    dtype: options.Dtype = options.DtypeName.FLOAT64,
    target_gap: options.TargetGap = None,
    floor: options.Floor = 0.0,
    time_limit: options.TimeLimit = None,
    checkpoint: options.CheckpointFile = None,
    save: options.Save = None,
    max_histories: options.MaxHistories = DEFAULT_MAX_HISTORIES,
    json: options.Json = None,
) -> None:
    """Solve a whole game: an equilibrium, its value and its NashConv."""
    check_outputs({"--json": json, "--save": save, "--checkpoint": checkpoint})
    tree, build = enumerate_named(game, max_histories)
    from jaxgadget.policy.solve import solve as solve_game
    from jaxgadget.report import tables

    solution = solve_game(
        tree,
        algorithm=str(algorithm),
        iterations=iterations,
        target_gap=target_gap,
        dtype=dtype.value,
        floors=floor or None,
        time_limit=time_limit,
        checkpoint=checkpoint,
    )
    seconds = solution.seconds | {"build": build + solution.seconds["build"]}
    if save is not None:
        solution.policy.save(save)
    if json is not None:
        write_json(json, tables.solution_record(solution, seconds))
    constant = tables.constant_note(tree)
    if json == STANDARD_OUTPUT:
        warn(constant)
    else:
        notes = [constant, f"{solution.message}.", *written(results=json, strategies=save)]
        show(tables.solution_table(solution, seconds), notes)


@app.command("refine", epilog=REFINE_EXAMPLES)
@_clear_errors()
def refine(
    game: options.Game,
    cut: options.Cut = None,
    player: options.Player = options.PlayerName.FIRST,
    blueprint: options.Blueprint = None,
    gadget: options.Gadget = None,
    prior: options.Prior = None,
    epsilon: options.Epsilon = None,
    alternative: options.Alternative = "best-response",
    gifts: options.Gifts = options.GiftsName.LOWER_BOUND,
    scale_gifts: options.ScaleGifts = False,
    algorithm: options.Algorithm = options.CFR_PLUS,
    iterations: options.Iterations = 2000,
    dtype: options.Dtype = options.DtypeName.FLOAT32,
    infostate: options.Infostate = None,
    target_gap: options.TargetGap = None,
    checkpoint: options.CheckpointFolder = None,
    time_limit: options.TimeLimit = None,
    memory_limit: options.MemoryLimit = None,
    plot: options.Plot = None,
    save: options.Save = None,
    rows: options.Rows = False,
    max_histories: options.MaxHistories = DEFAULT_MAX_HISTORIES,
    json: options.Json = None,
) -> None:
    """Re-solve all subgames below a cut, for every blueprint, gadget, prior and epsilon.

    Prints a line for each, or a summary if there are many. Exploitability is v* − value against a
    best response, so the game's value v* is bracketed too.
    """
    check_outputs({"--json": json, "--save": save, "--plot": plot}, folder=checkpoint)
    from jaxgadget.gadgets.registry import ALTERNATIVES, DEFAULT_GADGETS, PRIORS
    from jaxgadget.gadgets.specs import make_gadgets
    from jaxgadget.policy.blueprints import DEMO_SPECS, make_blueprints, parse_blueprint
    from jaxgadget.util.registry import find

    specs = [parse_blueprint(text) for text in blueprint or DEMO_SPECS]
    ways = {
        "alternative": find(ALTERNATIVES, alternative, "alternative")(),
        "gifts": gifts.value,
        "scaled": scale_gifts,
    }
    gadgets = make_gadgets(gadget or DEFAULT_GADGETS, prior or list(PRIORS), epsilon, ways)
    tree, build = enumerate_named(game, max_histories)
    subgames = _find_cut(tree, cut, infostate)
    from jaxgadget.refining.refine import refine as refine_subgames
    from jaxgadget.refining.refine import refine_both
    from jaxgadget.util.clock import Stopwatch

    with (watch := Stopwatch()).phase("build"):
        asked = (tree, subgames, make_blueprints(tree, specs), gadgets)
    how: dict[str, Any] = {"algorithm": str(algorithm), "iterations": iterations, "dtype": dtype.value}
    how |= {"target_gap": target_gap, "time_limit": time_limit, "memory_limit": memory_limit}
    spent = watch.seconds | {"build": watch.seconds["build"] + build}
    if player is options.PlayerName.BOTH:
        both_refined = refine_both(*asked, checkpoint=checkpoint, **how)
        results, policy = list(both_refined.players), both_refined.policy
    else:
        both_refined = None
        results = [refine_subgames(*asked, player=int(player), checkpoint=checkpoint, **how)]
        policy = results[0].policy
    if save is not None:
        policy.save(save)
    _finish_refine(results, both_refined, spent, json=json, plot=plot, save=save, rows=rows)


def _finish_refine(
    results: Sequence[Refinement],
    both_refined: BothRefined | None,
    spent: Mapping[str, float],
    *,
    json: str | None,
    plot: pathlib.Path | None,
    save: pathlib.Path | None,
    rows: bool,
) -> None:
    """Writes what was asked for and shows the rest."""
    from jaxgadget.report import plots, tables

    tree, (low, high) = results[0].forest.tree, results[0].game_value
    if plot is not None:
        title = f"{tree.game.name}, {tables.count_subgames(results[0])} below {results[0].forest.cut.name}"
        table = results[0].table if both_refined is None else both_refined.table
        plots.draw_picture(table, plot, title=title, resolution=(high - low) / 2)
    if json is not None:
        seconds = {name: spent[name] + sum(r.seconds[name] for r in results) for name in spent}
        write_json(json, tables.refinement_record(results[0], seconds, both_refined))
    if json == STANDARD_OUTPUT:
        warn(tables.constant_note(tree))
        return
    last = written(results=json, picture=plot, strategies=save)
    for number, result in enumerate(results):
        seconds = {
            name: value + (spent[name] if number == 0 else 0) for name, value in result.seconds.items()
        }
        notes = tables.refinement_notes(result, seconds)
        show(tables.refinement_table(result, every_row=rows), notes if both_refined else [*notes, *last])
    if both_refined is not None:
        show(tables.both_table(both_refined), last)


app.command("sweep", epilog=SWEEP_EXAMPLES)(_clear_errors()(sweep))
app.command("train-value", epilog=search.TRAIN_EXAMPLES)(_clear_errors()(search.train_value))
app.command("nested", epilog=search.NESTED_EXAMPLES)(_clear_errors()(search.nested))
app.command("match", epilog=search.MATCH_EXAMPLES)(_clear_errors()(search.match))
app.command("export", epilog=EXPORT_EXAMPLES)(_clear_errors()(export))


@app.command("bench", epilog=BENCH_EXAMPLES)
@_clear_errors()
def bench(
    game: options.BenchGames = None,
    lanes: options.Lanes = None,
    engine: options.Engines = None,
    algorithm: options.BenchAlgorithm = options.CFR_PLUS,
    dtype: options.BenchDtype = options.DtypeName.FLOAT32,
    iterations: options.BenchIterations = None,
    seconds: options.Seconds = DEFAULT_SECONDS,
    repeats: options.Repeats = DEFAULT_REPEATS,
    max_histories: options.MaxHistories = DEFAULT_MAX_HISTORIES,
    json: options.Json = None,
) -> None:
    """Time iterations of CFR on whole games, on many lanes and beside other solvers.

    OpenSpiel's C++ solver and LiteEFG run by turns with jaxgadget if they are installed (extra `peers`).
    Building, compiling and running are told apart; nothing is compiled by way of the compilation cache.
    """
    check_outputs({"--json": json})
    keep_programs()
    from jaxgadget.bench.bench import bench as run_bench
    from jaxgadget.report.bench import bench_notes, bench_record, bench_tables

    benchmark = run_bench(
        game or DEFAULT_GAMES,
        engines=engine,
        lanes=lanes or DEFAULT_LANES,
        algorithm=str(algorithm),
        dtype=dtype.value,
        iterations=iterations,
        seconds=seconds,
        repeats=repeats,
        max_histories=max_histories,
    )
    if json is not None:
        write_json(json, bench_record(benchmark))
    if json == STANDARD_OUTPUT:
        for note in benchmark.skipped:
            warn(note)
    else:
        show(bench_tables(benchmark), [*bench_notes(benchmark), *written(results=json)])


def _find_cut(tree: HistoryTree, name: str | None, infostate: str | None) -> Cut:
    from jaxgadget.tree.cut import cut

    subgames = cut(tree, first_cut(tree.game) if name is None else name)
    return subgames if infostate is None else subgames.only(infostate)


def main() -> None:
    """Runs the command line; what the terminal's encoding lacks is replaced."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    gc.set_threshold(*COLLECT_RARELY)
    app(prog_name="jaxgadget")
