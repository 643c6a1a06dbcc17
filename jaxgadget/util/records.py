"""Values of JSON records."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def jsonable(value: Any) -> Any:
    """Converts a value to JSON types: NumPy's numbers and arrays, NaN and infinity to null, -0 to 0."""
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if hasattr(value, "tolist"):  # a scalar or array of NumPy or JAX
        return jsonable(value.tolist())
    if isinstance(value, float):
        return value + 0.0 if math.isfinite(value) else None
    return value


def null_to_nan(value: Any) -> Any:
    """Replaces null by NaN in a value read from JSON."""
    if isinstance(value, dict):
        return {name: null_to_nan(item) for name, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [null_to_nan(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return math.nan if value is None else value
