"""Nested depth-limited search, in one command: `python -m experiments.nested`.

Every experiment writes its data (`data/`, Parquet) and a picture (`pictures/`, PNG and SVG), prints a table,
and goes on where it was if it is interrupted.
"""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Sequence

from experiments.common import show
from experiments.nested import (
    effort,
    exploitability,
    large,
    matches,
    network,
    noise,
    paper_sizes,
    theorem,
    throughput,
)
from experiments.nested.common import settings_for
from experiments.refinements.common import markdown
from jaxgadget import enable_compilation_cache
from jaxgadget.util.files import atomic_writer

EXPERIMENTS = {
    one.NAME: one
    for one in (theorem, exploitability, matches, network, noise, throughput, effort, large, paper_sizes)
}
ONLY_BY_NAME = {paper_sizes.NAME}
"""Take hours."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs what was asked for; by default everything that does not take hours."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.nested",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of: {', '.join(EXPERIMENTS)}")
    parser.add_argument("--smoke", action="store_true", help="tiny settings, into build/experiments")
    parser.add_argument("--redraw", action="store_true", help="only draw the data that are there")
    parser.add_argument("--folder", type=pathlib.Path, help="where data/ and pictures/ go")
    asked = parser.parse_args(arguments)
    unknown = set(asked.names) - set(EXPERIMENTS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; expected some of {', '.join(EXPERIMENTS)}")
    enable_compilation_cache()
    settings = settings_for(asked.folder, asked.smoke)
    usual = [name for name in EXPERIMENTS if asked.smoke or name not in ONLY_BY_NAME]
    for name in asked.names or usual:
        experiment = EXPERIMENTS[name]
        frame = settings.data(name) if asked.redraw else settings.keep(name, experiment.compute(settings))
        if frame is None:
            raise SystemExit(f"{name}: there are no data to draw; run it without --redraw first")
        if hasattr(experiment, "draw"):
            settings.draw(name, experiment.draw(frame))
        show(name, experiment.summarise(frame))
    parts = ["# Tables\n\nWritten by `python -m experiments.nested`; what they show is in `README.md`.\n"]
    for name, experiment in EXPERIMENTS.items():
        frame = settings.data(name)
        if frame is not None:
            what = (experiment.summarise.__doc__ or "").strip()
            parts.append(f"\n## {name}\n\n{what}\n\n{markdown(experiment.summarise(frame))}")
    with atomic_writer(settings.folder / "tables.md") as file:
        file.write("".join(parts).encode())


if __name__ == "__main__":
    main()
