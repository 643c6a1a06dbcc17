"""Short names of infostates, games and players for pictures and tables."""

from __future__ import annotations

import re
from collections.abc import Sequence

NAME_WIDTH = 40
"""Maximum length of a name, unless more characters are needed to distinguish it from others."""

INFINITE = "inf"
"""Name of the order of common knowledge in records."""


def short_names(names: Sequence[str], width: int = NAME_WIDTH) -> tuple[list[str], str]:
    """Omits the parts of names that are not needed to distinguish infostates.

    Names are split at brackets, commas, bars and line breaks. If all have the same number of parts, parts
    that are equal in all names are omitted, and then, from the left, each part that is not needed for
    uniqueness. The middle of a name that is still too long is omitted if the result is unique.

    Args:
      names: infostate strings, all different.
      width: maximum length.

    Returns:
      The short names, all different; and the parts that all names share, without labels that have no value,
      which is empty for a single name.
    """
    parts = [_split(name) for name in names]
    if len(names) < 2 or len({len(row) for row in parts}) > 1:
        return _cut([", ".join(row) for row in parts], names, width), ""
    columns = list(zip(*parts, strict=True))
    shared = [column[0] for column in columns if len(set(column)) == 1 and column[0][-1] != ":"]
    needed = [column for column in columns if len(set(column)) > 1]
    for column in list(needed):
        rest = [other for other in needed if other is not column]
        if rest and len(set(zip(*rest, strict=True))) == len(set(names)):
            needed = rest
    short = [", ".join(row) for row in zip(*needed, strict=True)]
    return _cut(short, names, width), ", ".join(shared)


def without_shared(names: Sequence[str]) -> tuple[list[str], str]:
    """Omits ε from the names if all names with an ε have the same one.

    Returns:
      The names, and the omitted part, such as `epsilon 0.02`; empty if nothing was omitted.
    """
    parts = [name.split(", ") for name in names]
    shared = {part for row in parts for part in row if part.startswith("epsilon ")}
    if len(shared) != 1:
        return list(names), ""
    (epsilon,) = shared
    return [", ".join(part for part in row if part != epsilon) for row in parts], epsilon


def break_lines(text: str, width: int) -> list[str]:
    """Lines of at most `width` characters, broken at spaces or, within names of games, after commas.

    Text without either is not broken.
    """
    lines: list[str] = []
    for line in text.split("\n"):
        shown = ""
        for word in line.split():
            pieces = [word] if len(word) <= width else re.findall(r"[^,]+,*|,+", word)
            for piece_idx, piece in enumerate(pieces):
                joined = f"{shown}{' ' if shown and piece_idx == 0 else ''}{piece}"
                if shown and len(joined) > width:
                    lines.append(shown)
                    joined = piece
                shown = joined
        lines.append(shown)
    return lines


def _split(name: str) -> list[str]:
    return [part for text in re.findall(r"[^\[\],|\n]+", name) if (part := text.strip())]


def _cut(short: list[str], names: Sequence[str], width: int) -> list[str]:
    """Omits the middle of long names, except for names that would no longer be unique."""
    if len(set(short)) < len(set(names)):
        short = [" ".join(name.split()) for name in names]
    head = (width - 1) // 2
    cut = [name if len(name) <= width else f"{name[:head]}…{name[head + 1 - width :]}" for name in short]
    return [shown if cut.count(shown) == 1 else whole for shown, whole in zip(cut, short, strict=True)]
