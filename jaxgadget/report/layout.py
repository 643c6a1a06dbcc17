"""Tables in the terminal: their style, and the conversion of records to rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from rich import box
from rich.table import Table
from rich.text import Text

from jaxgadget.report.names import break_lines

if TYPE_CHECKING:
    import pandas as pd

TITLE_WIDTH = 60
"""Maximum number of characters per line of a title."""

UNDEFINED = "–"
"""Text of a number that is not defined."""

Row: TypeAlias = Mapping[Any, Any]


class Column(NamedTuple):
    """A column of a table.

    Attributes:
      heading: heading of the column.
      cell: function from a row to the text of its cell.
      is_number: True to align the cells right.
    """

    heading: str
    cell: Callable[[Row], str | Text]
    is_number: bool = False


def text(heading: str, name: str | None = None) -> Column:
    """A column of text from the field `name`, by default the heading; None is shown as undefined."""
    field = heading if name is None else name
    return Column(heading, lambda row: UNDEFINED if row[field] is None else str(row[field]))


def number(heading: str, name: str | None = None, *, digits: int = 5) -> Column:
    """A column of numbers from the field `name`, by default the heading, formatted by `number_text`."""
    field = heading if name is None else name
    return Column(heading, lambda row: number_text(row[field], digits), is_number=True)


def decimal(heading: str, name: str | None = None, *, digits: int) -> Column:
    """A column of numbers with `digits` decimals; a dash for numbers that are not finite."""
    field = heading if name is None else name

    def cell(row: Row) -> str:
        return f"{row[field]:.{digits}f}" if math.isfinite(row[field]) else UNDEFINED

    return Column(heading, cell, is_number=True)


def count(heading: str, name: str | None = None) -> Column:
    """A column of integers from the field `name`, by default the heading."""
    return text(heading, name)._replace(is_number=True)


EPSILON = Column(
    "ε", lambda row: UNDEFINED if math.isnan(row["epsilon"]) else f"{row['epsilon']:g}", is_number=True
)
"""The column of a gadget's ε."""


def number_text(value: float, digits: int = 5) -> str:
    """A number with 5 decimals, or with fewer significant `digits`; a dash if it is not finite."""
    if not math.isfinite(value):
        return UNDEFINED
    if digits < 5:
        return f"{value:.{digits}g}"
    return f"{round(value, digits) + 0.0:.{digits}f}" if abs(value) < 1e5 else f"{value:.9g}"


def short_number(value: float) -> str:
    """Three significant digits, or all digits of the integer part."""
    return f"{value:,.0f}" if value >= 999.5 else f"{value:.3g}"


def rows_to_table(
    rows: pd.DataFrame | Sequence[Row],
    columns: Sequence[Column],
    *,
    title: str | None = None,
    fold: str | None = None,
    sections: Sequence[str] = (),
    baseline: Sequence[str] | None = None,
) -> Table:
    """A table with one row per record.

    Args:
      rows: a data frame or its records.
      columns: columns of the table.
      title: title of the table.
      fold: heading of the only column whose cells may be broken into lines; by default all may.
      sections: fields; a new section begins where the value of one of them changes.
      baseline: cells of a row in a section of its own above all other rows.
    """
    numbers = [column.heading for column in columns if column.is_number]
    table = make_table(*(column.heading for column in columns), right=numbers, fold=fold)
    table.title = title
    if baseline is not None:
        table.add_row(*baseline)
        table.add_section()
    records: Sequence[Row] = rows if isinstance(rows, Sequence) else rows.to_dict("records")
    previous: Row | None = None
    for row in records:
        if previous is not None and any(previous[name] != row[name] for name in sections):
            table.add_section()
        table.add_row(*(column.cell(row) for column in columns))
        previous = row
    return table


def table_title(title: str) -> Text:
    """A title in lines of at most `TITLE_WIDTH`, as from `break_lines`, which are not wrapped further."""
    lines = break_lines(title, TITLE_WIDTH)
    return Text("\n".join(lines), style="bold", no_wrap=True, overflow="ignore")


def make_table(*columns: str, right: Iterable[str] = (), fold: str | None = None) -> Table:
    """An empty table in the style of all tables.

    Args:
      columns: headings.
      right: headings of the columns with numbers.
      fold: heading of the only column whose cells may be broken into lines; by default all may.
    """
    table = Table(
        box=box.SIMPLE_HEAD, header_style="bold", title_style="bold", pad_edge=False, collapse_padding=True
    )
    numbers = set(right)
    for heading in columns:
        side = "right" if heading in numbers else "left"
        table.add_column(Text(heading), justify=side, no_wrap=fold is not None and heading != fold)
    return table
