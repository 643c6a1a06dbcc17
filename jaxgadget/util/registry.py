"""Tables of name → `module:object`, which make names available without imports."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from jaxgadget.util.members import find_member, parse_own, resolve


def find(table: Mapping[str, str], name: str, kind: str) -> Any:
    """Imports and returns the object with a name, or a user-defined class.

    Args:
      table: name → `module:object`.
      name: a name in the table, or `path.py:Class` or `module:Class`.
      kind: kind of the entries, for errors, such as `gadget`.

    Raises:
      ValueError: if the name is neither in the table nor a user-defined class.
    """
    if name in table:
        module, _, member = table[name].partition(":")
        return getattr(importlib.import_module(module), member)
    own = parse_own(name)
    if own is None or own.parameters:
        raise ValueError(
            f"{kind} {name!r} is unknown; expected one of {', '.join(table)}, or a class of your own, "
            "path.py:Class"
        )
    return find_member(f"{kind} {name!r}", resolve(own.where), own.member, f"{kind} class")
