"""`jaxgadget sweep FOLDER`."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from jaxgadget.cli import options
from jaxgadget.cli.command import (
    check_algorithm,
    check_gadgets,
    check_models,
    keeping,
    make_asked_gadgets,
    make_knowledge,
    parse_models,
    refuse_unused,
)
from jaxgadget.cli.prepare import exit_if_undefined, first_cut, keep_programs
from jaxgadget.games.game import DEFAULT_MAX_HISTORIES
from jaxgadget.report.output import STANDARD_OUTPUT, check_outputs, show, write_json, written

SWEEP_EXAMPLES = """\
Examples:

`jaxgadget sweep kuhn --game kuhn_poker --csv kuhn.csv`

`jaxgadget sweep flops --game leduc_poker --game "leduc_poker(num_ranks=4)" --cut flop --blueprint
cfr-spread:10 --blueprint draws:5 --seed 0 --seed 1 --gadget resolving --iterations 1000 --plot flops.png`

`jaxgadget sweep kuhn --game kuhn_poker --workers 4`

`jaxgadget sweep flops --game leduc_poker --workers 20 --slurm partition=cpu,time=2:00:00,cpus-per-task=4`
"""

Folder = Annotated[
    pathlib.Path,
    typer.Argument(
        metavar="FOLDER",
        show_default=False,
        parser=options.folder,
        help="Where finished pieces are kept. The same command goes on with what is missing there, or waits "
        "for others that are at it.",
    ),
]
Games = Annotated[
    list[str],
    options.repeatable(
        "--game",
        metavar="GAME",
        show_default=False,
        help="As for `refine`.",
    ),
]
Cuts = Annotated[
    list[str] | None,
    options.repeatable(
        "--cut",
        metavar="CUT",
        show_default="the first that a game names, else depth:1",
        help="Where subgames begin, in all games; as for `refine`.",
    ),
]
Blueprints = Annotated[
    list[str] | None,
    options.repeatable(
        "--blueprint",
        metavar="SPEC",
        show_default="cfr-spread:25 and draws:20",
        help="As for `refine`; besides `cfr-spread:COUNT[:N]`, averages of one run of CFR of N iterations "
        "that spread over exploitability, and `draws:COUNT[:ALPHA]`, Dirichlet draws that depend on "
        "`--seed`.",
    ),
]
Player = Annotated[
    options.PlayerName,
    typer.Option("--player", metavar="0|1|both", help="Who re-solves; the other is the opponent."),
]
Seeds = Annotated[
    list[int] | None,
    options.repeatable(
        "--seed",
        metavar="SEED",
        show_default="0",
        help="Of `draws:COUNT`: another seed, other blueprints.",
    ),
]
Iterations = Annotated[
    list[int] | None,
    options.repeatable(
        "--iterations",
        metavar="N",
        show_default="5000",
        help="How many; each number is solved by itself.",
    ),
]
Orders = Annotated[
    list[str] | None,
    options.repeatable(
        "--order",
        metavar="K",
        show_default="what is common knowledge",
        help="Re-solve each own infostate by what the player knows there, as for `refine`.",
    ),
]
AtOnce = Annotated[
    int,
    typer.Option(
        "--blueprints-at-once",
        metavar="N",
        min=1,
        help="In a piece of work, at most: what is solved together, and lost if it is interrupted.",
    ),
]
MemoryLimit = Annotated[
    int | None,
    typer.Option(
        "--memory-limit",
        metavar="BYTES",
        min=1,
        help="What a solve may take on each device; lanes are split until that suffices. [default: three "
        "quarters of an accelerator's memory, half of a computer's]",
    ),
]
Extend = Annotated[
    bool,
    typer.Option(
        "--extend",
        help="Go on in a folder of other settings or versions; pieces that both have in common are kept.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar="N",
        min=1,
        show_default="this process alone",
        help="Work in so many processes of this machine, or jobs of Slurm; who dies loses only its piece.",
    ),
]
Slurm = Annotated[
    list[str] | None,
    options.repeatable(
        "--slurm",
        metavar="OPTION=VALUE,…",
        show_default=False,
        help="Submit the workers to Slurm with these options of sbatch, such as "
        "`partition=cpu,time=2:00:00`; what is left out, such as `time`, is the cluster's default. "
        "Their logs are in `FOLDER/slurm`. A value with commas stands alone. Needs the "
        "extra `cluster`.",
    ),
]
NoLocks = Annotated[
    bool,
    typer.Option(
        "--no-locks",
        help="Claim pieces by creating files, where the file system's locks do not hold on all machines.",
    ),
]
Csv = Annotated[pathlib.Path | None, typer.Option("--csv", metavar="FILE", help="Write all rows as CSV.")]
Parquet = Annotated[
    pathlib.Path | None, typer.Option("--parquet", metavar="FILE", help="Write all rows as Parquet.")
]
Plot = Annotated[
    pathlib.Path | None,
    typer.Option(
        "--plot",
        metavar="FILE",
        help="Draw refined against blueprint exploitability, a panel for every game, cut and number of "
        "iterations: .png, .svg or .pdf.",
    ),
]


def sweep(
    context: typer.Context,
    folder: Folder,
    game: Games,
    cut: Cuts = None,
    blueprint: Blueprints = None,
    gadget: options.Gadget = None,
    prior: options.Prior = None,
    epsilon: options.Epsilon = None,
    alternative: options.Alternative = None,
    model: options.Model = None,
    p: options.Follows = None,
    order: Orders = None,
    unfrozen: options.Unfrozen = False,
    generate: options.Generate = None,
    combine: options.Combine = options.CombineName.DAMPED,
    player: Player = options.PlayerName.BOTH,
    seed: Seeds = None,
    algorithm: options.Algorithm = options.CFR_PLUS,
    iterations: Iterations = None,
    dtype: options.Dtype = options.DtypeName.FLOAT32,
    blueprints_at_once: AtOnce = 64,
    memory_limit: MemoryLimit = None,
    extend: Extend = False,
    workers: Workers = None,
    slurm: Slurm = None,
    no_locks: NoLocks = False,
    csv: Csv = None,
    parquet: Parquet = None,
    plot: Plot = None,
    max_histories: options.MaxHistories = DEFAULT_MAX_HISTORIES,
    json: options.Json = None,
) -> None:
    """Re-solve subgames for every game, cut, blueprint, gadget, prior, epsilon, model, p, player and seed.

    Every finished piece is kept in FOLDER, so the same command goes on after an interruption, and several may
    be at work in one folder. Prints a summary for every game, cut and player.
    """
    check_algorithm(context, algorithm)
    check_outputs({"--json": json, "--csv": csv, "--parquet": parquet, "--plot": plot})
    asked: dict[str, Any] = {"blueprints": blueprint, "gadgets": gadget, "priors": prior}
    asked |= {"epsilons": epsilon, "alternatives": alternative, "seeds": seed, "iterations": iterations}
    check_models(model, p)
    parse_models(model or ())
    known = [
        make_knowledge(context, one, unfrozen=unfrozen, generate=generate, combine=combine.value)
        for one in order or [None]
    ]
    options_of_jobs = _slurm_options(slurm, workers)
    keep_programs()
    from jaxgadget.games.registry import load
    from jaxgadget.opponents.opponent import Opponent
    from jaxgadget.policy.blueprints import DRAWS, parse_blueprint
    from jaxgadget.report import sweeps
    from jaxgadget.sweeping.sweep import DEFAULT_BLUEPRINTS, describe_finished
    from jaxgadget.sweeping.sweep import sweep as run_sweep
    from jaxgadget.sweeping.workers import Processes, slurm_executor

    gadgets = make_asked_gadgets(gadget, prior, epsilon, alternative)
    check_gadgets(context, gadgets)
    if not any(parse_blueprint(spec).kind == DRAWS for spec in blueprint or DEFAULT_BLUEPRINTS):
        refuse_unused(context, "without --blueprint draws:COUNT", "seed")
    executor = None
    if workers is not None:
        executor = slurm_executor(folder / "slurm", options_of_jobs) if options_of_jobs else Processes()
    with keeping(lambda: describe_finished(folder)):
        rows = run_sweep(
            folder,
            {name: cut or first_cut(load(name)) for name in game},
            opponent=Opponent(model, p or ()) if model else None,
            knowledge=known,
            players=(0, 1) if player is options.PlayerName.BOTH else int(player),
            algorithm=str(algorithm),
            dtype=dtype.value,
            blueprints_at_once=blueprints_at_once,
            memory_limit=memory_limit,
            max_histories=max_histories,
            extend=extend,
            executor=executor,
            workers=workers,
            locks=False if no_locks else None,
            progress=True,
            **{name: values for name, values in asked.items() if values},
        )
    for path, write in ((csv, sweeps.write_csv), (parquet, sweeps.write_parquet), (plot, sweeps.draw_sweep)):
        if path is not None:
            write(rows, path)
    if json is not None:
        write_json(json, sweeps.sweep_record(folder, rows))
    if json != STANDARD_OUTPUT:
        last = written(results=json, rows=csv) + written(rows=parquet, picture=plot)
        show(sweeps.sweep_tables(rows), [*sweeps.sweep_notes(folder, rows), *last])
    exit_if_undefined(rows["failure"].dropna().tolist(), len(rows))


def _slurm_options(texts: Sequence[str] | None, workers: int | None) -> dict[str, str]:
    """Options of sbatch, by name."""
    found: dict[str, str] = {}
    for text in texts or ():
        parts = text.split(",")
        for part in parts if all("=" in part for part in parts) else [text]:
            name, equals, value = part.partition("=")
            if not (name.strip("- ") and equals and value):
                raise ValueError(
                    f"--slurm {text!r}: expected options of sbatch, such as partition=cpu,time=2:00:00"
                )
            found[name.strip("- ")] = value
    if found and workers is None:
        raise ValueError(
            f"--slurm {','.join(texts or ())!r}: expected --workers with it, how many jobs to submit"
        )
    return found
