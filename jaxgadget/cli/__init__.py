"""The command line: `jaxgadget games`, `solve`, `refine`, `show`, `sweep` and further commands.

Commands import JAX, pandas and matplotlib when they run, so that help and errors of options appear at once.
"""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer

from jaxgadget.cli import (
    bench,
    critic,
    exploit,
    explore,
    export,
    holdem,
    inspect,
    looking,
    match,
    nested,
    off_tree,
    policy,
    refine,
    respond,
    solve,
    sweep,
    train,
)
from jaxgadget.cli.command import Command, JaxCommand, clear_errors, start_jax
from jaxgadget.cli.fields import expand
from jaxgadget.report.output import show
from jaxgadget.util.accelerators import PREALLOCATE, describe_installation

COLLECT_RARELY = (50_000, 20, 50)
"""Thresholds of Python's garbage collector. Imports and tracing create many long-lived objects: with the
default thresholds, collection takes an eighth of the time of `jaxgadget refine kuhn_poker`."""

ABOUT = """\
Re-solves subgames of two-player zero-sum games with hidden information, all in one batch.

A **blueprint** is a strategy for the whole game, a **cut** defines where subgames begin, and a **gadget** is
the opponent's way into one. `refine` re-solves everything below the cut and reports how exploitable the
strategy is before and after; `sweep` does so for many games, cuts and settings, and resumes after an
interruption. `show` shows one subgame under a policy, `infostates` lists infostates by name. `solve` finds an
equilibrium of a whole game, `respond` strategies against models of an opponent, `exploit` how exploitable a
policy is, and `off-tree` answers to actions that a blueprint does not have. `bench` measures the speed on
this machine, and `inspect` compiles programs for a GPU that need not be present.
"""

FIRST_STEPS = """\
Start with `jaxgadget games`, then try the demo, which takes under a minute:

`jaxgadget refine leduc_poker --plot leduc.png`

Every command has a help text with examples: `jaxgadget refine --help`.
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


def _command(
    name: str, epilog: str | None = None, kind: type[Command] = JaxCommand, **settings: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Registers a function of dataclasses as a command; `settings` are passed to Click's context."""
    register = app.command(name, epilog=epilog, cls=kind, context_settings=settings or None)
    return lambda function: register(clear_errors()(expand(function)))


@app.callback(invoke_without_command=True)
def _options(
    show_version: Annotated[
        bool, typer.Option("--version", help="Print versions, devices and plugins, and stop.")
    ] = False,
) -> None:
    if show_version:
        from importlib.metadata import version  # 25 ms, which every command would take

        typer.echo(f"jaxgadget {version('jaxgadget')}")
        os.environ.setdefault(PREALLOCATE, "false")  # another process may use the GPU
        with clear_errors():
            start_jax()
            for line in describe_installation():
                typer.echo(line)
        raise typer.Exit


@_command("games", kind=Command)
def games() -> None:
    """List the games that can be loaded by name, with their parameters."""
    from jaxgadget.games.registry import list_games
    from jaxgadget.report.tables import games_table

    show(
        games_table(list_games()),
        [
            "Parameters are in parentheses, as in OpenSpiel: leduc_poker(num_ranks=4).",
            "Also: openspiel:NAME(…) for any two-player zero- or constant-sum OpenSpiel game (if "
            "installed), team(game=openspiel:NAME(…),seats=0) for those with more players, paths of Gambit "
            "files that end in .efg, and your own classes as path.py:Class or module:Class.",
        ],
    )


for _name, _function, _examples in (
    ("solve", solve.solve, solve.SOLVE_EXAMPLES),
    ("refine", refine.refine, refine.REFINE_EXAMPLES),
    ("respond", respond.respond, respond.RESPOND_EXAMPLES),
    ("off-tree", off_tree.off_tree, off_tree.OFF_TREE_EXAMPLES),
    ("show", looking.show_subgame, looking.SHOW_EXAMPLES),
    ("train-value", train.train_value, train.VALUE_EXAMPLES),
    ("train-ranges", train.train_ranges, train.RANGES_EXAMPLES),
    ("train-deals", train.train_deals, train.DEALS_EXAMPLES),
    ("train-critic", critic.train_critic, critic.CRITIC_EXAMPLES),
    ("train-policy", policy.train_policy, policy.POLICY_EXAMPLES),
    ("nested", nested.nested, nested.NESTED_EXAMPLES),
    ("match", match.match, match.MATCH_EXAMPLES),
    ("exploit", exploit.exploit, exploit.EXPLOIT_EXAMPLES),
    ("explore", explore.explore, explore.EXPLORE_EXAMPLES),
    ("export", export.export, export.EXPORT_EXAMPLES),
    ("holdem", holdem.holdem, holdem.HOLDEM_EXAMPLES),
    ("bench", bench.bench, bench.BENCH_EXAMPLES),
):
    _command(_name, _examples)(_function)
_command("sweep", sweep.SWEEP_EXAMPLES, sweep.SweepCommand)(sweep.sweep)
_command("infostates", looking.INFOSTATES_EXAMPLES, Command)(looking.infostates)
_command("inspect", inspect.INSPECT_EXAMPLES, Command, allow_interspersed_args=False)(inspect.inspect)


def main() -> None:
    """Runs the command line; characters that the terminal's encoding lacks are replaced."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    warnings.formatwarning = lambda message, *_, **__: f"Warning: {message}\n"
    gc.set_threshold(*COLLECT_RARELY)
    # Python's final garbage collection takes half a second with all of JAX's objects.
    atexit.register(gc.freeze)
    app(prog_name="jaxgadget")
