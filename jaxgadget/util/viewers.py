"""`result.explore()` of all results with strategies.

Results do not know of pages, which are made above them: the top of the package sets the viewer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_viewers: list[Callable[..., Any]] = []


def set_viewer(viewer: Callable[..., Any]) -> None:
    """Sets the function that shows results."""
    _viewers[:] = [viewer]


class Explorable:
    """A result with strategies."""

    def explore(self, **options: Any) -> Any:
        """A page to look at the strategies, shown by notebooks; `.save("page.html")` writes it.

        Args:
          options: those of `jaxgadget.explore`: `title`, `depth`, `lanes`, `below`, `max_bytes` and
            `fit`.

        Raises:
          ValueError: as `jaxgadget.explore`.
        """
        return _viewers[0](self, **options)
