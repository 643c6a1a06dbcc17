"""`jaxgadget export GAME FILE`."""

from __future__ import annotations

import pathlib
from typing import Annotated

import typer

from jaxgadget.cli import options
from jaxgadget.cli.prepare import enumerate_named
from jaxgadget.games.game import DEFAULT_MAX_HISTORIES
from jaxgadget.report.output import check_outputs, written

EXPORT_EXAMPLES = """\
Examples:

`jaxgadget export kuhn_poker kuhn.efg`

`jaxgadget export leduc_poker leduc.efg --blueprint cfr+:1000 --profile leduc.txt`
"""

File = Annotated[
    pathlib.Path,
    typer.Argument(metavar="FILE", show_default=False, help="Where to; it should end in `.efg`."),
]
Blueprints = Annotated[
    list[str] | None,
    options.repeatable(
        "--blueprint",
        metavar="SPEC",
        show_default=False,
        help="A strategy to write into `--profile`; as for `refine`.",
    ),
]
Profile = Annotated[
    pathlib.Path | None,
    typer.Option(
        "--profile",
        metavar="FILE",
        help="Write the strategies as Gambit's tools print theirs: `NE` and all probabilities, a line each.",
    ),
]


def export(
    game: options.Game,
    file: File,
    blueprint: Blueprints = None,
    profile: Profile = None,
    max_histories: options.MaxHistories = DEFAULT_MAX_HISTORIES,
) -> None:
    """Write a game as a Gambit file, and strategies as Gambit's behaviour profiles."""
    check_outputs({"FILE": file, "--profile": profile})
    if (profile is None) != (not blueprint):
        raise ValueError("--blueprint says which strategies --profile holds; give both of them, or neither")
    tree, _ = enumerate_named(game, max_histories)
    from jaxgadget.tree.gambit import write_efg

    if profile is not None:
        from jaxgadget.policy.blueprints import make_blueprints
        from jaxgadget.policy.gambit import write_profile

        write_profile(make_blueprints(tree, blueprint or ()), profile)
    write_efg(tree, file)
    for line in written(game=file, strategies=profile):
        typer.echo(line)
