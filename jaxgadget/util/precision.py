"""In which precision JAX computes."""

from __future__ import annotations

import contextlib
from typing import Any

import jax
import numpy as np
from jax.typing import DTypeLike


def precision(dtype: DTypeLike) -> contextlib.AbstractContextManager[Any]:
    """Lets JAX compute in `dtype` inside the block, whatever its global flag says."""
    return jax.enable_x64(np.dtype(dtype) == np.float64)
