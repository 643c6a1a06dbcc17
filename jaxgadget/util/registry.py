"""Tables of name → `module:object`, so that names are known before anything is imported."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any


def find(table: Mapping[str, str], name: str, what: str) -> Any:
    """What a name of a table stands for, imported when it is asked for.

    Args:
      table: name → `module:object`.
      name: one of the table's.
      what: the table's entries are, for the error: `gadget`.

    Raises:
      ValueError: if the name is not in the table.
    """
    if name not in table:
        raise ValueError(f"{what} {name!r} is unknown; expected one of {', '.join(table)}")
    module, _, member = table[name].partition(":")
    return getattr(importlib.import_module(module), member)
