"""Size and structure of the package: lines per folder, repeated class names, files that a command uses.

`python -m experiments.architecture [COMMAND …]`; the command is one of jaxgadget's, by default the demo's.
"""

from __future__ import annotations

import ast
import collections
import contextlib
import importlib
import io
import pathlib
import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

import jaxgadget

PACKAGE = pathlib.Path(jaxgadget.__file__).parent
DEMO = ("refine", "leduc_poker", "--iterations", "100")
PRONOUNS = ("found", "place", "mine", "here", "one", "both", "several", "some")
"""Vague names of variables."""


def sources() -> dict[str, str]:
    """The package's files by path below it."""
    return {
        path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def lines_by_room(files: dict[str, str]) -> dict[str, int]:
    """Lines of every folder of the package; `.` holds the top-level modules."""
    rooms: collections.Counter[str] = collections.Counter()
    for path, text in files.items():
        rooms[path.split("/")[0] if "/" in path else "."] += len(text.splitlines())
    return dict(sorted(rooms.items()))


def shared_class_names(files: dict[str, str]) -> dict[str, list[str]]:
    """Class names that occur more than once, ignoring leading underscores."""
    where: dict[str, list[str]] = collections.defaultdict(list)
    for path, text in files.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                where[node.name.lstrip("_")].append(path)
    return {name: paths for name, paths in sorted(where.items()) if len(paths) > 1}


def pronoun_lines(files: dict[str, str]) -> dict[str, int]:
    """Number of lines of code on which each of `PRONOUNS` is a variable."""
    lines: dict[str, set[tuple[str, int]]] = {name: set() for name in PRONOUNS}
    for path, text in files.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Name) and node.id in lines:
                lines[node.id].add((path, node.lineno))
    return {name: len(places) for name, places in lines.items()}


@contextlib.contextmanager
def executed_files(files: set[str]) -> Iterator[None]:
    """Collects the package's files in which a function runs, without imports, in a set."""

    def look(frame: FrameType, event: str, argument: Any) -> None:
        path = frame.f_code.co_filename
        if event == "call" and frame.f_code.co_name != "<module>" and path.startswith(str(PACKAGE)):
            files.add(pathlib.Path(path).relative_to(PACKAGE).as_posix())

    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(None)


def files_of_command(arguments: Sequence[str]) -> list[str]:
    """The files that a command of jaxgadget runs after all imports."""
    for path in sources():  # imports do not count
        if not path.endswith("__main__.py"):
            module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            importlib.import_module("jaxgadget" if module == "__init__" else f"jaxgadget.{module}")
    from jaxgadget.cli import main

    files: set[str] = set()
    before, sys.argv = sys.argv, ["jaxgadget", *arguments]
    try:
        with contextlib.redirect_stdout(io.StringIO()), executed_files(files):
            with contextlib.suppress(SystemExit):
                main()
    finally:
        sys.argv = before
    return sorted(files)


def report(command: Sequence[str]) -> None:
    """Prints all measurements."""
    files = sources()
    rooms = lines_by_room(files)
    print(f"{sum(rooms.values())} lines in {len(files)} files:")
    print("  " + ", ".join(f"{room} {count}" for room, count in rooms.items()))
    shared = shared_class_names(files)
    print(f"{len(shared)} names that several classes share: {', '.join(shared) or 'none'}")
    counts = pronoun_lines(files)
    print("lines with pronouns for names: " + ", ".join(f"{name} {n}" for name, n in counts.items()))
    passed = files_of_command(command)
    print(f"`jaxgadget {' '.join(command)}` runs through {len(passed)} files:")
    print("  " + ", ".join(passed))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures the package and the files of one of jaxgadget's commands, by default the demo's."""
    report((sys.argv[1:] if arguments is None else arguments) or DEMO)


if __name__ == "__main__":
    main()
