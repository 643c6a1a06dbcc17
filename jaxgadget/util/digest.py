"""Digests of arrays."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt


def digest(*arrays: npt.NDArray[Any]) -> str:
    """Digest of arrays, equal for equal numbers."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(f"{array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return total.hexdigest()
