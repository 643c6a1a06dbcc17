"""Names of infostates, games and players, short enough to stand in a picture or a table."""

from __future__ import annotations

import re
from collections.abc import Sequence

NAME_WIDTH = 40
"""Letters of a name at most, unless more are needed to tell it from others."""


def short_names(names: Sequence[str], width: int = NAME_WIDTH) -> tuple[list[str], str]:
    """Leaves out what does not tell infostates apart.

    A string falls apart at brackets, commas, bars and line breaks. If all have as many parts,
    those that are equal everywhere go, and from the left every other one that the rest can do
    without. What is still too long loses its middle, if that leaves it unlike all others.

    Args:
      names: infostate strings, all different.
      width: letters at most.

    Returns:
      The short names, all different, and the parts that all share, empty for a single name or where
      nothing stands behind a colon.
    """
    parts = [_split(name) for name in names]
    if len(names) < 2 or len({len(row) for row in parts}) > 1:
        return _cut([", ".join(row) for row in parts], names, width), ""
    columns = list(zip(*parts, strict=True))
    shared = [column[0] for column in columns if len(set(column)) == 1 and column[0][-1] != ":"]
    kept = [column for column in columns if len(set(column)) > 1]
    for column in list(kept):
        rest = [other for other in kept if other is not column]
        if rest and len(set(zip(*rest, strict=True))) == len(set(names)):
            kept = rest
    short = [", ".join(row) for row in zip(*kept, strict=True)]
    return _cut(short, names, width), ", ".join(shared)


def without_shared(names: Sequence[str]) -> tuple[list[str], str]:
    """Leaves out an ε that all names have that have one.

    Returns:
      The names, and what they shared: `epsilon 0.02`; empty if there are several.
    """
    parts = [name.split(", ") for name in names]
    shared = {part for row in parts for part in row if part.startswith("epsilon ")}
    if len(shared) != 1:
        return list(names), ""
    (epsilon,) = shared
    return [", ".join(part for part in row if part != epsilon) for row in parts], epsilon


def break_lines(text: str, width: int) -> list[str]:
    """Lines of at most `width` letters, broken at spaces or, within names of games, after commas.

    What has neither stays whole, however long.
    """
    lines: list[str] = []
    for line in text.split("\n"):
        shown = ""
        for word in line.split():
            pieces = [word] if len(word) <= width else re.findall(r"[^,]+,*|,+", word)
            for number, piece in enumerate(pieces):
                joined = f"{shown}{' ' if shown and number == 0 else ''}{piece}"
                if shown and len(joined) > width:
                    lines.append(shown)
                    joined = piece
                shown = joined
        lines.append(shown)
    return lines


def _split(name: str) -> list[str]:
    return [part for text in re.findall(r"[^\[\],|\n]+", name) if (part := text.strip())]


def _cut(short: list[str], names: Sequence[str], width: int) -> list[str]:
    """Cuts the middle out of long names; where they were alike then, they stay whole."""
    if len(set(short)) < len(set(names)):
        short = [" ".join(name.split()) for name in names]
    head = (width - 1) // 2
    cut = [name if len(name) <= width else f"{name[:head]}…{name[head + 1 - width :]}" for name in short]
    return [shown if cut.count(shown) == 1 else whole for shown, whole in zip(cut, short, strict=True)]
