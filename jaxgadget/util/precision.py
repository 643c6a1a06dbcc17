"""Precision of JAX."""

from __future__ import annotations

import contextlib
from typing import Any

import jax
import numpy as np
from jax.typing import DTypeLike


def precision(dtype: DTypeLike) -> contextlib.AbstractContextManager[Any]:
    """Makes `dtype` JAX's default precision inside the block, independent of its global flag."""
    return jax.enable_x64(np.dtype(dtype) == np.float64)
