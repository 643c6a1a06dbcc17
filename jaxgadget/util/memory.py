"""The host's memory, and sizes with units."""

from __future__ import annotations

import os

HOST_SHARE = 0.5
"""Maximum share of the physical memory that a computation on a CPU may use."""


def megabytes(count: int) -> str:
    """Formats a number of bytes with a unit, such as `1.5 GB`."""
    unit, name = next(
        pair for pair in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if count >= pair[0] or pair[1] == "kB"
    )
    return f"{count / unit:.3g} {name}"


def host_memory() -> int | None:
    """Bytes of host memory that a computation may use; None if unknown."""
    try:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not available on every system
        return None
    return int(HOST_SHARE * physical)
