"""The refinement paper's experiments, in one command: `python -m experiments.refinements`.

Kubíček, Lisý and Sandholm, *Equilibrium Refinements Improve Subgame Solving in Imperfect-Information Games*
(2026), §8 and appendix B. Every experiment writes its data (`data/`, Parquet) and a picture (`pictures/`, PNG
and SVG), prints a table and what it shows, and goes on where it was if it is interrupted.
"""

from __future__ import annotations

import argparse
import inspect
import pathlib
from collections.abc import Iterable, Sequence

import pandas as pd

from experiments.common import show
from experiments.refinements import (
    claims,
    closing,
    figure2,
    figure3,
    figure18,
    figure19,
    figures14_17,
    larger,
    reach,
    sensitivity,
)
from experiments.refinements.common import HERE, Settings, markdown
from jaxgadget import enable_compilation_cache
from jaxgadget.util.files import atomic_writer

EXPERIMENTS = (
    figure2,
    claims,
    figures14_17,
    figure18,
    figure3,
    sensitivity,
    reach,
    larger,
    closing,
    figure19,
)
"""In this order: some use the data of others."""

DERIVED = {
    "claims": ("figure2",),
    "figures14_17": ("figure2",),
    "figure18": ("figure2",),
    "closing": ("figure2", "larger", "reach"),
}
"""Which ones."""


def run(experiment: object, settings: Settings, *, redraw: bool = False) -> pd.DataFrame:
    """Computes, keeps and draws one experiment; returns its data.

    Args:
      experiment: a module of `EXPERIMENTS`.
      settings: how, and where to.
      redraw: draw the data that are there instead.
    """
    name: str = experiment.NAME
    frame = settings.data(name)
    if redraw and frame is None:
        raise SystemExit(f"{name}: there are no data to draw; run it without --redraw first")
    if frame is None or not redraw:
        frame = settings.keep(name, experiment.compute(settings))
    if hasattr(experiment, "draw"):
        settings.draw(name, experiment.draw(frame))
    return frame


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs what was asked for; everything by default."""
    names = {experiment.NAME: experiment for experiment in EXPERIMENTS}
    parser = argparse.ArgumentParser(
        prog="python -m experiments.refinements",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of: {', '.join(names)}")
    parser.add_argument("--smoke", action="store_true", help="tiny settings, into build/experiments")
    parser.add_argument("--redraw", action="store_true", help="only draw the data that are there")
    parser.add_argument("--folder", type=pathlib.Path, help="where data/ and pictures/ go")
    asked = parser.parse_args(arguments)
    unknown = set(asked.names) - set(names)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; expected some of {', '.join(names)}")
    enable_compilation_cache()
    settings = Settings.quick(asked.folder) if asked.smoke else Settings(folder=asked.folder or HERE)
    for name in in_order(asked.names or names, settings):
        frame = run(names[name], settings, redraw=asked.redraw)
        show(name, names[name].summarise(frame))
        print(explained(names[name]), end="\n\n")
    with atomic_writer(settings.folder / "tables.md") as file:
        file.write(tables(settings).encode())
    print(f"Written: {settings.folder}/data, {settings.folder}/pictures and {settings.folder}/tables.md")


def in_order(asked: Iterable[str], settings: Settings) -> list[str]:
    """What was asked for, and what follows from its data at once, if all that it needs is there."""
    wanted = set(asked)
    for name, sources in DERIVED.items():
        there = [source in wanted or settings.data(source) is not None for source in sources]
        if wanted & set(sources) and all(there):
            wanted.add(name)
    return [experiment.NAME for experiment in EXPERIMENTS if experiment.NAME in wanted]


def explained(experiment: object) -> str:
    """What an experiment's table shows, and its signs."""
    return inspect.getdoc(experiment.summarise) or ""


def tables(settings: Settings) -> str:
    """All tables of the data that are there, as Markdown."""
    parts = [
        "# Tables\n\nWritten by `python -m experiments.refinements`; what they show is in `README.md`.\n"
    ]
    for experiment in EXPERIMENTS:
        frame = settings.data(experiment.NAME)
        if frame is not None:
            table = markdown(experiment.summarise(frame))
            parts.append(f"\n## {experiment.NAME}\n\n{explained(experiment)}\n\n{table}")
    return "".join(parts)


if __name__ == "__main__":
    main()
