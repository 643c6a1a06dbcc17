"""`jaxgadget explore RESULT …`."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import typer

from jaxgadget.cli.fields import option, request
from jaxgadget.cli.options import SizeOptions
from jaxgadget.report.output import check_outputs, working

EXPLORE_EXAMPLES = """\
Examples:

`jaxgadget solve leduc_poker --save equilibrium.npz` and `jaxgadget explore equilibrium.npz --open`

`jaxgadget explore equilibrium.npz --compare cfr:10 --compare uniform --out compared.html`

`jaxgadget explore big.npz --depth 4 --lanes cfr+:1000 --below "Call, Raise"`

Results that only exist in memory write the same page: `jaxgadget refine leduc_poker --explore leduc.html`,
`jaxgadget holdem --board Td9d6hQc2s … --explore river.html`.
"""


@request
class ExploreOptions(SizeOptions):
    """Strategies to look at, and the part of the game to include.

    Attributes:
      result: files of strategies, written by `--save`, or folders of `train-policy`; those of one game, or of
        one spot of hold'em, can be compared. The folder of a sweep gives the page of `sweep --report`.
      compare: a further strategy to compare with, as for `--blueprint` of other commands.
      out: the page to write.
      open: open the page in the browser.
      title: title of the page.
      depth: number of moves to include, counting those of chance.
      lanes: a strategy to include, by number, label or a part of its label.
      below: include only the game after this line, such as `check, bet 50`.
    """

    result: tuple[str, ...] = dataclasses.field(metadata={"argument": True, "metavar": "RESULT"})
    compare: tuple[str, ...] = option((), metavar="SPEC", default="")
    out: pathlib.Path = pathlib.Path("explore.html")
    open: bool = False
    title: str = option("", metavar="TEXT")
    depth: int | None = option(None, min=0, default="all")
    lanes: tuple[str, ...] = option((), metavar="LABEL", default="all")
    below: str = option("", metavar="LINE")


def explore(options: ExploreOptions) -> None:
    """Write a page to look at strategies: a public tree, hands × actions, EVs, ranges and differences.

    The page is one HTML file that needs no server and no network. Probabilities are stored with three digits.
    """
    check_outputs({"--out": options.out})
    from jaxgadget.explorer.files import is_sweep, read_strategies
    from jaxgadget.explorer.page import explore as make_page
    from jaxgadget.explorer.sweeps import report_of_sweep

    if len(options.result) == 1 and is_sweep(options.result[0]):
        page = report_of_sweep(options.result[0])
    else:
        with working("reading strategies"):
            policies = read_strategies(options.result, options.compare, max_histories=options.max_histories)
        settings: dict[str, Any] = {name: vars(options)[name] for name in ("title", "depth", "below")}
        page = make_page(policies, lanes=options.lanes or None, **settings)
    page.save(options.out)
    typer.echo(f"Wrote the page to {options.out}")
    if options.open:
        page.show(options.out)
