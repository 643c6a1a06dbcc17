"""Document → one self-contained HTML page."""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import html
import os
import pathlib
import re
import webbrowser
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

from jaxgadget.explorer.document import MAX_BYTES, Document, RowLink, make_document, make_report
from jaxgadget.explorer.sources import Source, find_sources
from jaxgadget.util.files import atomic_writer
from jaxgadget.util.memory import megabytes

if TYPE_CHECKING:
    import pandas as pd

MODULES = (
    *(
        "data",
        "dom",
        "colors",
        "model",
        "grid",
        "line",
        "numbers",
        "changes",
        "scatter",
        "results",
        "subgames",
        "export",
    ),
    *("search", "report", "main"),
)
"""Modules of the page's program, in the order in which they follow each other."""

HEIGHT = 760
"""Height in pixels of a page in a notebook."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Page:
    """A page to look at strategies; a notebook shows it as the output of a cell.

    Attributes:
      document: its data.
    """

    document: Document

    @property
    def num_omitted(self) -> int:
        """Number of public nodes of the games that are not in the page."""
        return sum(view["num_omitted"] for view in self.document.header["views"])

    def __repr__(self) -> str:
        return f"<Page {self.document.header['title']!r}: {megabytes(self.document.num_bytes)}>"

    @functools.cached_property
    def html(self) -> str:
        """The page: one file that needs no server and no network."""
        parts = [f'<script type="text/plain" id="header">{self.document.packed_header}</script>']
        parts += [
            f'<script type="text/plain" id="chunk-{number}">{chunk}</script>'
            for number, chunk in enumerate(self.document.chunks)
        ]
        script, style = _program(), _file("style.css")
        values = {
            "title": html.escape(str(self.document.header["title"])),
            "script": script,
            "script_hash": _hash(script),
            "style": style,
            "style_hash": _hash(style),
            "data": "\n".join(parts),
        }
        return re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], _file("page.html"))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page, atomically."""
        with atomic_writer(path) as file:
            file.write(self.html.encode())

    def show(self, path: str | os.PathLike[str]) -> None:
        """Opens the saved page in the browser."""
        webbrowser.open(pathlib.Path(path).absolute().as_uri())

    def _repr_html_(self) -> str:
        style = f"width: 100%; height: {HEIGHT}px; border: 1px solid #8888; border-radius: 6px"
        return f'<iframe srcdoc="{html.escape(self.html)}" style="{style}"></iframe>'


def explore(
    result: Any,
    *,
    title: str = "",
    depth: int | None = None,
    lanes: Sequence[int | str] | None = None,
    below: str = "",
    max_bytes: int = MAX_BYTES,
    fit: bool = False,
) -> Page:
    """Makes a page to look at strategies: a public tree, hands × actions, EVs, ranges and differences.

    Args:
      result: a policy, or a result with strategies: of `solve`, `refine`, `nested_search`, `respond`,
        `nested_off_tree`, `solve_spots`, `refine_spots` and others; or a list of them. Policies of one tree
        can be compared.
      title: title of the page; by default the game and the kind of result.
      depth: number of moves below the line `below` to include, counting those of chance; by default all.
      lanes: strategies to include, by number, label or a part of it, with those that they are compared with.
      below: line such as `check, bet 50`, below which the game is included.
      max_bytes: maximum size of the page.
      fit: include fewer moves, instead of raising an error, if the page would be larger.

    Returns:
      The page, which a notebook shows; `page.save("page.html")` writes it.

    Raises:
      ValueError: if the result has no strategies, there is no such line or lane, or the page is too large.
    """
    sources = find_sources(result, title)
    settings: dict[str, Any] = {"title": title, "depth": depth, "lanes": lanes, "below": below}
    return make_page(sources, **settings, max_bytes=max_bytes, fit=fit)


def make_page(sources: Sequence[Source], **settings: Any) -> Page:
    """Makes a page of strategies; for the settings see `make_document`."""
    return Page(make_document(sources, reserved=_size_without_data(), **settings))


def report(rows: pd.DataFrame, *, title: str = "Sweep", links: Sequence[RowLink | None] = ()) -> Page:
    """Makes a page of the rows of a sweep: a table to sort and filter, and a scatter of exploitabilities.

    Args:
      rows: the rows, from `sweep` or `read_sweep`, or the `table` of any result.
      title: title of the page.
      links: for each row the page beside this one that shows its strategies, as `explore_sweep` writes them;
        None for none.
    """
    return Page(make_report(rows, title, links))


@functools.cache
def _size_without_data() -> int:
    """Size of a page without strategies, in bytes."""
    return len(Page(make_document([], title="page")).html.encode())


@functools.cache
def _file(name: str) -> str:
    return (resources.files("jaxgadget.explorer") / "page_files" / name).read_text("utf-8")


@functools.cache
def _program() -> str:
    """All modules one after the other, without imports and exports, as a single module."""
    parts = [re.sub(r"^import .*;\n", "", _file(f"{name}.js"), flags=re.MULTILINE) for name in MODULES]
    return re.sub(r"^export ", "", "\n".join(parts), flags=re.MULTILINE)


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
