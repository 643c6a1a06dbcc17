"""Tables of name → `module:object`, which make names available without imports."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any


def find(table: Mapping[str, str], name: str, kind: str) -> Any:
    """Imports and returns the object of a name.

    Args:
      table: name → `module:object`.
      name: a name in the table.
      kind: kind of the entries, for errors, such as `gadget`.

    Raises:
      ValueError: if the name is not in the table.
    """
    if name not in table:
        raise ValueError(f"{kind} {name!r} is unknown; expected one of {', '.join(table)}")
    module, _, member = table[name].partition(":")
    return getattr(importlib.import_module(module), member)
