"""The runner of all studies: experiments by name, resumption, smoke tests, data, pictures, tables."""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import inspect
import json
import multiprocessing
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Protocol, TypeVar

import pandas as pd
from matplotlib.figure import Figure
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from jaxgadget import enable_compilation_cache
from jaxgadget.explorer.page import report
from jaxgadget.report.plots import save_picture
from jaxgadget.util.compilation import drop_many_programs
from jaxgadget.util.files import atomic_writer, make_folder
from jaxgadget.util.progress import progress_bar

BUILD = pathlib.Path(__file__).parents[1] / "build"
"""Folder of temporary files: finished pieces, and all output of smoke tests (in `experiments/`)."""

WIDTH = 160
"""Maximum line length of tables in files."""

Choice = TypeVar("Choice")
Result = TypeVar("Result")
Tables = pd.DataFrame | Mapping[str, pd.DataFrame]
"""A table, or several by title."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Options of the command line, and output folders.

    Attributes:
      folder: folder of `data/`, `pictures/` and `tables.md`.
      work: folder of finished pieces.
      smoke: tiny games and numbers of iterations, as a test.
      progress: show bars; by default in a terminal or notebook.
      ending: format of data files, `parquet` or `csv`.
    """

    folder: pathlib.Path
    work: pathlib.Path
    smoke: bool = False
    progress: bool | None = None
    ending: str = "parquet"

    def pick(self, full: Choice, smoke: Choice) -> Choice:
        """The first value; the second in a smoke test."""
        return smoke if self.smoke else full

    def data(self, name: str) -> pd.DataFrame | None:
        """An experiment's data, None if missing."""
        path = self.folder / "data" / f"{name}.{self.ending}"
        if not path.exists():
            return None
        if self.ending == "parquet":
            return pd.read_parquet(path)
        return pd.read_csv(path, engine="python")  # parses every digit

    def data_of(self, source: str, name: str) -> pd.DataFrame:
        """The data of `source`, from which `name` is derived.

        Raises:
          ValueError: if there are none.
        """
        frame = self.data(source)
        if frame is None:
            raise ValueError(f"{name} needs the data of {source}; run that experiment first")
        return frame

    def keep(self, name: str, frame: pd.DataFrame) -> None:
        """Writes an experiment's data, atomically."""
        path = self.folder / "data" / f"{name}.{self.ending}"
        make_folder(path.parent)
        with atomic_writer(path) as file:
            if self.ending == "parquet":
                frame.to_parquet(file, index=False, compression="zstd")
            else:
                file.write(frame.to_csv(index=False, lineterminator="\n").encode())

    def draw(self, name: str, figure: Figure) -> None:
        """Writes a picture, as PNG and SVG."""
        make_folder(self.folder / "pictures")
        for ending in ("png", "svg"):
            save_picture(figure, self.folder / "pictures" / f"{name}.{ending}")

    def gather(
        self,
        name: str,
        keys: Iterable[Mapping[str, Any]],
        compute: Callable[[dict[str, Any]], pd.DataFrame],
    ) -> pd.DataFrame:
        """The rows of all pieces of an experiment, concatenated.

        A piece is not recomputed if the experiment's data contain its rows, which is decidable if every part
        of its key is a column (a list represents a row for each value), or if it was finished before an
        interruption and is stored in `work`.

        Args:
          name: the experiment's.
          keys: the identity of each piece, as JSON values.
          compute: function from a piece's key to its rows.
        """
        data, pieces = self.data(name), [dict(key) for key in keys]
        tables: list[pd.DataFrame] = []
        with progress_bar(name, len(pieces), self.progress) as tell:
            for number, key in enumerate(pieces):
                rows = _rows_of(data, key)
                tables.append(self._piece(name, key, compute) if rows is None else rows)
                tell(number + 1)
        return pd.concat(tables, ignore_index=True)

    def _piece(
        self, name: str, key: dict[str, Any], compute: Callable[[dict[str, Any]], pd.DataFrame]
    ) -> pd.DataFrame:
        make_folder(self.work)
        digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
        path = self.work / f"{name}-{digest}.parquet"
        if not path.exists():
            frame = compute(key)
            with atomic_writer(path) as file:
                frame.to_parquet(file, index=False)
            drop_many_programs()
        return pd.read_parquet(path)


def apart(settings: Settings, do: Callable[..., Result], *arguments: Any) -> Result:
    """The result of a function in a separate process, whose memory is measured and released."""
    if settings.smoke:
        return do(*arguments)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(do, *arguments).result()


def _rows_of(data: pd.DataFrame | None, key: Mapping[str, Any]) -> pd.DataFrame | None:
    """A piece's rows in the data; None if they are missing or not identifiable."""
    if data is None or not set(key) <= set(data.columns):
        return None
    rows = data
    for column, value in key.items():
        values = value if isinstance(value, list | tuple) else [value]
        rows = rows[rows[column].isin(values)]
        if not set(values) <= set(rows[column]):
            return None
    return rows


class Experiment(Protocol):
    """A module of a study; it may have `draw`, a function from data to one figure or several by name."""

    NAME: str

    def compute(self, settings: Settings) -> pd.DataFrame:
        """The experiment's data."""
        ...

    def summarise(self, frame: pd.DataFrame) -> Tables:
        """The experiment's table, or several; the docstring is their caption."""
        ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class Study:
    """The experiments of one folder.

    Attributes:
      name: `python -m experiments NAME` runs it.
      description: text for `--help`.
      folder: folder of its data and pictures.
      experiments: in the order in which they run.
      derived: experiments that evaluate data of others, by name; they are repeated after these.
      only_by_name: experiments that run only if they are named.
      ending: format of data files, `parquet` or `csv`.
    """

    name: str
    description: str
    folder: pathlib.Path
    experiments: tuple[Experiment, ...]
    derived: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    only_by_name: frozenset[str] = frozenset()
    ending: str = "parquet"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the experiments."""
        return tuple(experiment.NAME for experiment in self.experiments)

    def settings(self, *, smoke: bool = False, folder: pathlib.Path | None = None) -> Settings:
        """Default output folders, or those below a given folder."""
        if smoke:
            folder = folder or BUILD / "experiments" / self.name
            return Settings(
                folder=folder, work=folder / "work", smoke=True, progress=False, ending=self.ending
            )
        return Settings(folder=folder or self.folder, work=BUILD / self.name, ending=self.ending)

    def main(self, arguments: Sequence[str] | None = None) -> None:
        """Runs, stores, draws and prints the selected experiments; by default all that do not take hours."""
        parser = argparse.ArgumentParser(
            prog=f"python -m experiments.{self.name}",
            description=self.description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of: {', '.join(self.names)}")
        parser.add_argument("--smoke", action="store_true", help="tiny settings, into build/experiments")
        parser.add_argument("--redraw", action="store_true", help="only draw the data that are there")
        parser.add_argument("--folder", type=pathlib.Path, help="where data/ and pictures/ go")
        parser.add_argument(
            "--report",
            type=pathlib.Path,
            metavar="FILE",
            help="write a page of the rows of one NAME, to sort, filter and plot, an HTML file",
        )
        asked = parser.parse_args(arguments)
        unknown = set(asked.names) - set(self.names)
        if unknown:
            parser.error(f"unknown: {', '.join(sorted(unknown))}; expected some of {', '.join(self.names)}")
        if asked.report is not None and len(asked.names) != 1:
            parser.error(f"--report with {len(asked.names)} names; expected one, whose rows are on the page")
        enable_compilation_cache()
        settings = self.settings(smoke=asked.smoke, folder=asked.folder)
        usual = [name for name in self.names if asked.smoke or name not in self.only_by_name]
        for experiment in self.in_order(asked.names or usual, settings):
            self.run(experiment, settings, redraw=asked.redraw)
        with atomic_writer(settings.folder / "tables.md") as file:
            file.write(self.tables(settings).encode())
        print(f"Written: {settings.folder}/data, {settings.folder}/pictures and {settings.folder}/tables.md")
        if asked.report is not None:
            (name,) = asked.names
            report(settings.data_of(name, "--report"), title=f"{self.name}: {name}").save(asked.report)
            print(f"Wrote the page to {asked.report}")

    def run(self, experiment: Experiment, settings: Settings, *, redraw: bool = False) -> None:
        """Computes, stores, draws and prints one experiment; `redraw`: from the stored data."""
        name = experiment.NAME
        if not redraw:
            settings.keep(name, experiment.compute(settings))
        frame = settings.data(name)
        if frame is None:
            raise SystemExit(f"{name}: there are no data to draw; run it without --redraw first")
        if hasattr(experiment, "draw"):
            for picture, figure in _by_name(experiment.draw(frame), name).items():
                settings.draw(picture, figure)
        for title, table in _by_name(experiment.summarise(frame), name).items():
            show(title, table)
        print(explained(experiment), end="\n\n")

    def in_order(self, asked: Iterable[str], settings: Settings) -> list[Experiment]:
        """The selected experiments, and those that only evaluate their data if all of it is available."""
        wanted = set(asked)
        for name, sources in self.derived.items():
            complete = all(source in wanted or settings.data(source) is not None for source in sources)
            if wanted & set(sources) and complete:
                wanted.add(name)
        return [experiment for experiment in self.experiments if experiment.NAME in wanted]

    def tables(self, settings: Settings) -> str:
        """Tables of all stored data, as Markdown."""
        text = (
            f"# Tables\n\nWritten by `python -m experiments.{self.name}`; what they show is in `README.md`.\n"
        )
        for experiment in self.experiments:
            frame = settings.data(experiment.NAME)
            if frame is None:
                continue
            text += f"\n## {experiment.NAME}\n\n{explained(experiment)}\n"
            for title, table in _by_name(experiment.summarise(frame), "").items():
                text += (f"\n### {title}\n" if title else "") + "\n" + markdown(table)
        return text


def _by_name(results: Choice | Mapping[str, Choice], name: str) -> Mapping[str, Choice]:
    """Results by name; a single result gets the given name."""
    return results if isinstance(results, Mapping) else {name: results}


def explained(experiment: Experiment) -> str:
    """Caption of an experiment's table."""
    return inspect.getdoc(experiment.summarise) or ""


def show(title: str, frame: pd.DataFrame) -> None:
    """Prints a table of results."""
    printed = Table(title=title)
    for name in frame.columns:
        printed.add_column(escape(str(name)))
    for row in frame.itertuples(index=False):
        printed.add_row(*(escape(_cell(value)) for value in row))
    console = Console()
    Console(width=None if console.is_terminal else WIDTH).print(printed)


def markdown(frame: pd.DataFrame) -> str:
    """A table as Markdown, numbers with four digits."""
    rows = [frame.columns, ["---"] * len(frame.columns), *frame.itertuples(index=False)]
    return "".join(f"| {' | '.join(map(_cell, row))} |\n" for row in rows)


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
