"""`jaxgadget sweep FOLDER`."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jaxgadget.cli.command import JaxCommand, exit_if_undefined, is_given, keeping, refuse_unused
from jaxgadget.cli.fields import Fields, option, request
from jaxgadget.cli.options import (
    FormOptions,
    GadgetOptions,
    KnowledgeSettings,
    ModelOptions,
    PlayerOptions,
    PlotOutput,
    check_solver,
    first_cut,
)
from jaxgadget.core.solver import Solver
from jaxgadget.util.accelerators import share_gpus
from jaxgadget.util.files import make_folder

if TYPE_CHECKING:
    import pandas as pd

    from jaxgadget.sweeping.grid import SweepGrid

SWEEP_EXAMPLES = """\
Examples:

`jaxgadget sweep kuhn --game kuhn_poker --csv kuhn.csv`

`jaxgadget sweep flops --game leduc_poker --game "leduc_poker(num_ranks=4)" --cut flop --blueprint
cfr-spread:10 --blueprint draws:5 --seed 0 --seed 1 --gadget resolving --iterations 1000 --plot flops.png`

`jaxgadget sweep kuhn --game kuhn_poker --workers 4`

`jaxgadget sweep kuhn --report kuhn.html`

`jaxgadget sweep kuhn --pages kuhn_pages`

`jaxgadget sweep flops --game leduc_poker --workers 20 --slurm partition=cpu,time=2:00:00,cpus-per-task=4`
"""


@request
class SweepOptions(FormOptions, PlayerOptions):
    """The grid of a sweep.

    Attributes:
      folder: folder of finished pieces. The same command computes missing pieces, or waits for other
        processes that compute them.
      game: a game, as for `refine`. Without one, only the rows in the folder are read.
      cut: start of the subgames, as for `refine`, in all games without their own cut; `GAME:CUT` is the cut
        of one game, such as `leduc_poker:flop`.
      blueprint: a blueprint, as for `refine`; also `cfr-spread:COUNT[:N]`, averages of one run of CFR of N
        iterations that cover a range of exploitabilities, and `draws:COUNT[:ALPHA]`, Dirichlet draws that
        depend on `--seed`.
      order: re-solve each own infostate based on the player's knowledge, as for `refine`.
      seed: seed of `draws:COUNT`; different seeds give different blueprints.
      iterations: maximum number of iterations; each value is solved separately.
    """

    folder: pathlib.Path = dataclasses.field(metadata={"argument": True, "metavar": "FOLDER"})
    game: tuple[str, ...] = option((), metavar="GAME", default="read the folder")
    cut: tuple[str, ...] = option((), metavar="CUT", default="each game's first named cut, otherwise depth:1")
    blueprint: tuple[str, ...] = option(("cfr-spread:25", "draws:20"), metavar="SPEC")
    order: tuple[str, ...] = option((), metavar="K", default="common knowledge")
    seed: tuple[int, ...] = option((0,), metavar="SEED")
    iterations: tuple[int, ...] = (5000,)


@request
class WorkOptions:
    """Pieces of work and the processes that compute them.

    Attributes:
      blueprints_at_once: maximum number of blueprints in a piece of work, which are solved together and lost
        if it is interrupted.
      extend: continue in a folder with other settings or versions; pieces in common are reused.
      workers: number of processes on this machine, each with one GPU, or of Slurm jobs; if one of them
        dies, only its current piece is lost.
      slurm: submit the workers to Slurm with these options of sbatch, such as `partition=cpu,time=2:00:00`;
        omitted options, such as `time`, have the cluster's default. Logs are in `FOLDER/slurm`. Options whose
        value has commas must be given separately. Requires the extra `cluster`.
      no_locks: claim pieces by creating files, for file systems whose locks do not work across machines.
    """

    blueprints_at_once: int = option(64, min=1)
    extend: bool = False
    workers: int | None = option(None, min=1, default="this process alone")
    slurm: tuple[str, ...] = option((), metavar="OPTION=VALUE,…", default="")
    no_locks: bool = False


@request
class SweepOutput(PlotOutput):
    """Files to write.

    Attributes:
      csv: write all rows as CSV.
      parquet: write all rows as Parquet.
      plot: draw refined against blueprint exploitability, with a panel for every game, cut and number of
        iterations, as .png, .svg or .pdf.
      report: write a page with all rows, to sort, filter and plot, an HTML file.
      pages: write a folder of pages to look at the strategies: `index.html` has all rows, each with a link
        to its subgames. They are solved again, as a sweep stores no strategies.
    """

    csv: pathlib.Path | None = None
    parquet: pathlib.Path | None = None
    report: pathlib.Path | None = None
    pages: pathlib.Path | None = option(None, metavar="DIR")

    def check(self, folder: pathlib.Path | None = None, **files: pathlib.Path | None) -> None:
        """Also creates the folder of pages, before the work begins."""
        super().check(folder, **files)
        if self.pages is not None:
            make_folder(self.pages)


class SweepCommand(JaxCommand):
    """A command whose workers on this machine have a GPU each."""

    def invoke(self, ctx: Any) -> Any:
        """Shares the GPUs before JAX is imported, and runs the command."""
        workers = ctx.params["workers"]
        if workers is not None and not ctx.params["slurm"]:
            ctx.obj = share_gpus(workers)
        return super().invoke(ctx)


def sweep(
    context: typer.Context,
    grid: Annotated[SweepOptions, Fields(player="both")],
    gadgets: Annotated[GadgetOptions, Fields("gadget", "prior", "epsilon", "alternative")],
    models: ModelOptions,
    knowing: Annotated[KnowledgeSettings, Fields(without=("follow",))],
    solver: Annotated[
        Solver, Fields("algorithm", "dtype", "memory_limit", algorithm="cfr+", dtype="float32", progress=True)
    ],
    work: WorkOptions,
    output: SweepOutput,
) -> None:
    """Re-solve subgames for every game, cut, blueprint, gadget, prior, epsilon, model, p, player and seed.

    Finished pieces are stored in FOLDER, so that the same command resumes after an interruption, and several
    processes may share a folder. Prints a summary for every game, cut and player.
    """
    output.check()
    if not grid.game:
        _refuse_settings(context, {"max_histories"} if output.pages else set())
        from jaxgadget.sweeping.sweep import read_sweep

        _explore(grid, None, output)
        _report(grid.folder, read_sweep(grid.folder), output)
        return
    check_solver(context, solver)
    models.parse()
    knowledge = [knowing.make(context, order) for order in grid.order or [None]]
    slurm = _slurm_options(work.slurm, work.workers)
    from jaxgadget.games.registry import load
    from jaxgadget.opponents.opponent import Opponent
    from jaxgadget.policy.blueprints import DRAWS, parse_blueprint
    from jaxgadget.sweeping.grid import SweepGrid
    from jaxgadget.sweeping.sweep import describe_finished
    from jaxgadget.sweeping.sweep import sweep as run_sweep
    from jaxgadget.sweeping.workers import Processes, slurm_executor

    gadgets.make(context)
    cuts = _cuts_by_game(grid.game, grid.cut)
    if not any(parse_blueprint(spec).kind == DRAWS for spec in grid.blueprint):
        refuse_unused(context, "without --blueprint draws:COUNT", "seed")
    executor = None
    if work.workers is not None:
        executor = slurm_executor(grid.folder / "slurm", slurm) if slurm else Processes(context.obj)
    axes: dict[str, Any] = {"blueprint": grid.blueprint, "seed": grid.seed}
    axes |= {"gadget": gadgets.gadget, "prior": gadgets.prior, "epsilon": gadgets.epsilon}
    axes |= {"alternative": gadgets.alternative}
    games = {name: load(name) for name in grid.game}
    grid.check_form(context, games.values())
    with keeping(lambda: describe_finished(grid.folder)):
        axes = {f"{name}s": list(values) for name, values in axes.items() if is_given(context, name)}
        swept = SweepGrid(
            games={name: cuts[name] or first_cut(game) for name, game in games.items()},
            opponent=Opponent(list(models.model), list(models.p)) if models.model else None,
            knowledge=knowledge,
            players=grid.players,
            iterations=grid.iterations,
            max_histories=grid.max_histories,
            form=grid.form,
            **axes,
        )
        rows = run_sweep(
            grid.folder,
            swept,
            solver=solver,
            blueprints_at_once=work.blueprints_at_once,
            extend=work.extend,
            executor=executor,
            workers=work.workers,
            locks=False if work.no_locks else None,
        )
        _explore(grid, swept, output)
    _report(grid.folder, rows, output)


def _refuse_settings(context: typer.Context, used: set[str]) -> None:
    """Raises ValueError for settings of a sweep without a game, except those used."""
    used = used | {"folder", "game", *(field.name for field in dataclasses.fields(SweepOutput))}
    refuse_unused(context, "without --game, which reads the folder", *(set(context.params) - used))


def _explore(options: SweepOptions, grid: SweepGrid | None, output: SweepOutput) -> None:
    """Writes the folder of pages."""
    if output.pages is not None:
        from jaxgadget.explorer.sweeps import explore_sweep

        explore_sweep(options.folder, output.pages, grid, max_histories=options.max_histories, progress=True)


def _report(folder: pathlib.Path, rows: pd.DataFrame, output: SweepOutput) -> None:
    """Writes the files and prints the tables."""
    from jaxgadget.report import sweeps

    files = (
        (output.csv, sweeps.write_csv),
        (output.parquet, sweeps.write_parquet),
        (output.plot, sweeps.draw_sweep),
    )
    for path, write in files:
        if path is not None:
            write(rows, path)
    if output.report is not None:
        from jaxgadget.explorer.sweeps import report_of_sweep

        report_of_sweep(folder, rows).save(output.report)
    output.write_json(sweeps.sweep_record(folder, rows))
    notes = sweeps.sweep_notes(folder, rows)
    notes += [] if output.pages is None else [f"Wrote the pages to {output.pages}; index.html leads to all"]
    output.print((sweeps.sweep_tables(rows), notes))
    exit_if_undefined(rows["failure"].dropna().tolist(), len(rows))


def _cuts_by_game(games: Sequence[str], cuts: Sequence[str]) -> dict[str, list[str]]:
    """Cuts of `--cut` by game: its own, written `GAME:CUT`, otherwise those without a game."""
    own: dict[str, list[str]] = {game: [] for game in games}
    shared: list[str] = []
    for cut in cuts:
        owners = [game for game in own if cut.startswith(f"{game}:")]
        for game in owners:
            own[game].append(cut.removeprefix(f"{game}:"))
        if not owners:
            shared.append(cut)
    if shared and all(own.values()):
        raise ValueError(
            f"--cut {shared[0]}: every game has its own cut; expected GAME:CUT for one of "
            f"{', '.join(own)}, or leave it out"
        )
    return {game: named or shared for game, named in own.items()}


def _slurm_options(texts: Sequence[str] | None, workers: int | None) -> dict[str, str]:
    """Parses options of sbatch; returns them by name."""
    options: dict[str, str] = {}
    for text in texts or ():
        parts = text.split(",")
        for part in parts if all("=" in part for part in parts) else [text]:
            name, equals, value = part.partition("=")
            if not (name.strip("- ") and equals and value):
                raise ValueError(
                    f"--slurm {text!r}: expected options of sbatch, such as partition=cpu,time=2:00:00"
                )
            options[name.strip("- ")] = value
    if options and workers is None:
        raise ValueError(
            f"--slurm {','.join(texts or ())!r}: expected --workers with it, the number of jobs to submit"
        )
    return options
