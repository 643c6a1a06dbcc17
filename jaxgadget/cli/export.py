"""`jaxgadget export GAME FILE`."""

from __future__ import annotations

import dataclasses
import pathlib

import typer

from jaxgadget.cli.fields import option, request
from jaxgadget.cli.options import GameOptions
from jaxgadget.report.output import check_outputs

EXPORT_EXAMPLES = """\
Examples:

`jaxgadget export kuhn_poker kuhn.efg`

`jaxgadget export leduc_poker leduc.efg --blueprint cfr+:1000 --profile leduc.txt`
"""


@request
class ExportOptions:
    """Files to write.

    Attributes:
      file: output file; its name must end in `.efg`.
      blueprint: strategy to write to `--profile`, as for `refine`.
      profile: write the strategies in the format of Gambit's tools, one line per strategy: `NE` and all
        probabilities.
    """

    file: pathlib.Path = dataclasses.field(metadata={"argument": True})
    blueprint: tuple[str, ...] = option((), metavar="SPEC", default="")
    profile: pathlib.Path | None = None


def export(game: GameOptions, options: ExportOptions) -> None:
    """Write a game as a Gambit file, and strategies as Gambit's behaviour profiles."""
    file, profile, blueprint = options.file, options.profile, options.blueprint
    if file.suffix != ".efg":
        raise ValueError(f"FILE {str(file)!r}: expected a name that ends in .efg, Gambit's format")
    check_outputs({"FILE": file, "--profile": profile})
    if (profile is None) != (not blueprint):
        raise ValueError("--blueprint defines the strategies that --profile writes; give both or neither")
    tree, _ = game.enumerate()
    from jaxgadget.tree.gambit import write_efg

    if profile is not None:
        from jaxgadget.policy.blueprints import make_blueprints
        from jaxgadget.policy.gambit import write_profile

        write_profile(make_blueprints(tree, blueprint), profile)
    write_efg(tree, file)
    typer.echo(f"Wrote the game to {file}")
    if profile is not None:
        typer.echo(f"Wrote the strategies to {profile}")
