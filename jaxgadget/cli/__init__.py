"""The command line: `jaxgadget games`, `solve`, `refine`, `show`, `sweep` and the others.

What needs JAX, pandas or matplotlib is imported inside the commands: help and complaints come at once.
"""

from __future__ import annotations

import atexit
import gc
import io
import pathlib
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jaxgadget.bench.defaults import DEFAULT_GAMES, DEFAULT_LANES, DEFAULT_REPEATS, DEFAULT_SECONDS, OURS
from jaxgadget.cli import looking, options, search
from jaxgadget.cli.command import (
    Command,
    check_algorithm,
    check_gadgets,
    check_models,
    clear_errors,
    keeping_checkpoints,
    make_asked_gadgets,
    make_knowledge,
    make_models,
    make_range_priors,
    parse_models,
    read_spread,
    refuse_unused,
)
from jaxgadget.cli.export import EXPORT_EXAMPLES, export
from jaxgadget.cli.holdem import HOLDEM_EXAMPLES, holdem
from jaxgadget.cli.off_tree import OFF_TREE_EXAMPLES, off_tree
from jaxgadget.cli.prepare import (
    enumerate_named,
    exit_if_undefined,
    first_cut,
    keep_programs,
    lay_out_by_hands,
    save_defined,
)
from jaxgadget.cli.respond import RESPOND_EXAMPLES, respond
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
    from jaxgadget.hands.solve import HandsSolution
    from jaxgadget.opponents.opponent import Opponent
    from jaxgadget.policy.blueprints import BlueprintSpec
    from jaxgadget.policy.solve import Solution
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
`show` shows one subgame under a policy, `infostates` lists what may be asked for by name. `solve` finds an
equilibrium of a whole game, `respond` strategies against models of an opponent, and `off-tree` answers to
actions that a blueprint does not have. `bench` tells how fast that goes here.
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

`jaxgadget solve "liars_dice(numdice=2,dice_sides=4)" --form hands --algorithm dcfr --dtype float32`
"""

REFINE_EXAMPLES = """\
Examples:

`jaxgadget refine leduc_poker --plot leduc.png`

`jaxgadget refine leduc_poker --cut flop --player 1 --blueprint cfr:10 --blueprint uniform --gadget resolving`

`jaxgadget refine "goofspiel(num_cards=4,imp_info=True)" --cut depth:1 --blueprint cfr:100 --json -`

`jaxgadget refine leduc_poker --blueprint cfr:100 --gadget resolving --model uniform --p 0.1 --p 0.5 --p 1`

`jaxgadget refine "n_matching_pennies(num_deals=20)" --blueprint uniform --order 1 --combine in-turn`

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


def _command(name: str, epilog: str | None = None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a function a command."""
    return lambda function: app.command(name, epilog=epilog, cls=Command)(clear_errors()(function))


@app.callback(invoke_without_command=True)
def _options(
    show_version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if show_version:
        typer.echo(f"jaxgadget {version('jaxgadget')}")
        raise typer.Exit


@_command("games")
def games() -> None:
    """List the games that have a name, with their parameters."""
    from jaxgadget.games.registry import list_games
    from jaxgadget.report.tables import games_table

    show(
        games_table(list_games()),
        [
            "Parameters stand in parentheses, as OpenSpiel writes them: leduc_poker(num_ranks=4).",
            "Besides: openspiel:NAME(…) for any two-player zero- or constant-sum game of OpenSpiel's (if "
            "installed), team(game=openspiel:NAME(…),seats=0) for those with more players, paths of Gambit "
            "files that end in .efg, and classes of your own as path.py:Class or module:Class.",
        ],
    )


@_command("solve", SOLVE_EXAMPLES)
def solve(
    context: typer.Context,
    game: options.Game,
    form: options.Form = options.FormName.HISTORIES,
    algorithm: options.Algorithm = options.CFR_PLUS,
    iterations: options.Iterations = 1000,
    dtype: options.Dtype = options.DtypeName.FLOAT64,
    target_gap: options.TargetGap = None,
    floor: options.Floor = 0.0,
    time_limit: options.TimeLimit = None,
    memory_limit: options.MemoryLimit = None,
    checkpoint: options.CheckpointFile = None,
    save: options.Save = None,
    max_histories: options.MaxHistories = DEFAULT_MAX_HISTORIES,
    json: options.Json = None,
) -> None:
    """Solve a whole game: an equilibrium, its value and its NashConv."""
    check_algorithm(context, algorithm)
    check_outputs({"--json": json, "--save": save, "--checkpoint": checkpoint})
    solving: dict[str, Any] = {
        "algorithm": str(algorithm),
        "iterations": iterations,
        "target_gap": target_gap,
        "dtype": dtype.value,
        "time_limit": time_limit,
        "checkpoint": checkpoint,
        "floors": floor or None,
        "progress": True,
    }
    solution, build = (
        _solve_by_hands(context, game, max_histories, {**solving, "memory_limit": memory_limit})
        if form is options.FormName.HANDS
        else _solve_by_histories(context, game, max_histories, solving)
    )
    from jaxgadget.report import tables

    seconds = solution.seconds | {"build": build + solution.seconds["build"]}
    if save is not None:
        solution.policy.save(save)
    if json is not None:
        write_json(json, tables.solution_record(solution, seconds))
    constant = tables.constant_words(solution.name, solution.constant)
    if json == STANDARD_OUTPUT:
        warn(constant)
    else:
        notes = [constant, f"{solution.message}.", *written(results=json, strategies=save)]
        show(tables.solution_table(solution, seconds), notes)


def _solve_by_histories(
    context: typer.Context, game: str, max_histories: int, solving: dict[str, Any]
) -> tuple[Solution, float]:
    """A solved game, and the seconds that enumerating it took."""
    refuse_unused(context, "without --form hands", "memory_limit")
    tree, build = enumerate_named(game, max_histories)
    from jaxgadget.policy.solve import solve as solve_game

    with keeping_checkpoints(solving["checkpoint"]):
        return solve_game(tree, **solving), build


def _solve_by_hands(
    context: typer.Context, game: str, max_histories: int, solving: dict[str, Any]
) -> tuple[HandsSolution, float]:
    """The same without its histories."""
    form, build = lay_out_by_hands(context, game, max_histories)
    from jaxgadget.hands.solve import solve_hands

    with keeping_checkpoints(solving["checkpoint"]):
        return solve_hands(form, **solving), build


@_command("refine", REFINE_EXAMPLES)
def refine(
    context: typer.Context,
    game: options.Game,
    cut: options.Cut = None,
    player: options.Player = options.PlayerName.FIRST,
    blueprint: options.Blueprint = None,
    gadget: options.Gadget = None,
    prior: options.PriorOrRange = None,
    epsilon: options.Epsilon = None,
    alternative: options.Alternative = None,
    spread: options.Spread = None,
    gifts: options.Gifts = options.GiftsName.LOWER_BOUND,
    scale_gifts: options.ScaleGifts = False,
    model: options.Model = None,
    p: options.Follows = None,
    order: options.Order = None,
    unfrozen: options.Unfrozen = False,
    generate: options.Generate = None,
    combine: options.Combine = options.CombineName.DAMPED,
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
    """Re-solve all subgames below a cut, for every blueprint, gadget, prior, epsilon, model and p.

    Prints a line for each, or a summary if there are many. Exploitability is v* − value against a
    best response, so the game's value v* is bracketed too.
    """
    check_algorithm(context, algorithm)
    if json == STANDARD_OUTPUT:
        refuse_unused(context, "with --json -, which has all rows", "rows")
    check_outputs({"--json": json, "--save": save, "--plot": plot}, folder=checkpoint)
    from jaxgadget.policy.blueprints import DEMO_SPECS, make_blueprints, parse_blueprint

    check_models(model, p)
    models = parse_models(model or ())
    specs = [parse_blueprint(text) for text in blueprint or DEMO_SPECS]
    ways = {"gifts": gifts.value, "scaled": scale_gifts, "spread": read_spread(spread)}
    gadgets = make_asked_gadgets(gadget, prior, epsilon, alternative, ways)
    check_gadgets(context, gadgets)
    knowledge = make_knowledge(context, order, unfrozen=unfrozen, generate=generate, combine=combine.value)
    tree, build = enumerate_named(game, max_histories)
    subgames = _find_cut(tree, cut)
    from jaxgadget.refining.refine import refine as refine_subgames
    from jaxgadget.refining.refine import refine_both
    from jaxgadget.util.clock import Stopwatch

    with (watch := Stopwatch()).phase("build"):
        profiles = make_blueprints(tree, specs, progress=True)
        asked = (tree, subgames, profiles, make_range_priors(tree, gadgets))
    solving: dict[str, Any] = {
        "algorithm": str(algorithm),
        "iterations": iterations,
        "dtype": dtype.value,
        "target_gap": target_gap,
        "time_limit": time_limit,
        "memory_limit": memory_limit,
        "infostate": infostate,
        "opponent": _make_opponent(tree, models, p),
        "knowledge": knowledge,
        "progress": True,
    }
    spent = watch.seconds | {"build": watch.seconds["build"] + build}
    with keeping_checkpoints(checkpoint):
        if player is options.PlayerName.BOTH:
            both_refined = refine_both(*asked, checkpoint=checkpoint, **solving)
            results, policy = list(both_refined.players), both_refined.policy
        else:
            both_refined = None
            results = [refine_subgames(*asked, player=int(player), checkpoint=checkpoint, **solving)]
            policy = results[0].policy
    failures = {lane for result in results for lane in result.failures}
    if save is not None:
        save = save_defined(policy, failures, save)
    _finish_refine(results, both_refined, spent, json=json, plot=plot, save=save, rows=rows)
    reasons = [why for result in results for why in result.failures.values()]
    exit_if_undefined(reasons, sum(result.policy.num_lanes for result in results))


def _make_opponent(
    tree: HistoryTree, models: Sequence[BlueprintSpec], p: Sequence[float] | None
) -> Opponent | None:
    """Every model with every p; None if there is no model."""
    if not models:
        return None
    from jaxgadget.opponents.opponent import Opponent

    return Opponent(make_models(tree, models), list(p or ()))


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
    if json is not None:
        seconds = {name: spent[name] + sum(r.seconds[name] for r in results) for name in spent}
        write_json(json, tables.refinement_record(results[0], seconds, both_refined))
    if plot is not None:
        title = f"{tree.game.name}, {tables.count_subgames(results[0])} below {results[0].forest.cut.name}"
        table = results[0].table if both_refined is None else both_refined.table
        plots.draw_picture(table, plot, title=title, resolution=(high - low) / 2)
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


_command("respond", RESPOND_EXAMPLES)(respond)
_command("off-tree", OFF_TREE_EXAMPLES)(off_tree)
_command("show", looking.SHOW_EXAMPLES)(looking.show_subgame)
_command("infostates", looking.INFOSTATES_EXAMPLES)(looking.infostates)
_command("sweep", SWEEP_EXAMPLES)(sweep)
_command("train-value", search.TRAIN_EXAMPLES)(search.train_value)
_command("train-ranges", search.RANGES_EXAMPLES)(search.train_ranges)
_command("nested", search.NESTED_EXAMPLES)(search.nested)
_command("match", search.MATCH_EXAMPLES)(search.match)
_command("export", EXPORT_EXAMPLES)(export)
_command("holdem", HOLDEM_EXAMPLES)(holdem)


@_command("bench", BENCH_EXAMPLES)
def bench(
    context: typer.Context,
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
    if engine and OURS not in engine:
        refuse_unused(context, "without --engine jaxgadget", "lanes", "dtype")
    if iterations is not None:
        refuse_unused(context, "with --iterations", "seconds")
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
        progress=True,
    )
    if json is not None:
        write_json(json, bench_record(benchmark))
    if json == STANDARD_OUTPUT:
        for note in benchmark.skipped:
            warn(note)
    else:
        show(bench_tables(benchmark), [*bench_notes(benchmark), *written(results=json)])


def _find_cut(tree: HistoryTree, name: str | None) -> Cut:
    from jaxgadget.tree.cut import cut

    return cut(tree, first_cut(tree.game) if name is None else name)


def main() -> None:
    """Runs the command line; what the terminal's encoding lacks is replaced."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    warnings.formatwarning = lambda message, *_, **__: f"Warning: {message}\n"
    gc.set_threshold(*COLLECT_RARELY)
    # Python looks for garbage a last time when it ends: half a second for nothing, with all that JAX keeps.
    atexit.register(gc.freeze)
    app(prog_name="jaxgadget")
