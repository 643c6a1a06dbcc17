"""What an interrupt tells: what is kept, and how to go on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator


@contextlib.contextmanager
def telling_what_is_kept(describe: Callable[[], str], repeated: str = "call") -> Generator[None]:
    """An interrupt inside gets a note, in place of those that it has from further inside.

    Args:
      describe: what is kept, such as `'folder' keeps 3 of 4 pieces`; nothing is noted if it is empty or
        cannot be found out.
      repeated: what goes on if it is done again.
    """
    try:
        yield
    except KeyboardInterrupt as interrupt:
        with contextlib.suppress(OSError, ValueError):
            if kept := describe():
                interrupt.__notes__ = [f"{kept}; the same {repeated} goes on."]
        raise
