"""Precision of JAX."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any

import jax
import numpy as np
from jax.typing import DTypeLike


def precision(dtype: DTypeLike) -> contextlib.AbstractContextManager[Any]:
    """Makes `dtype` JAX's default precision inside the block, independent of its global flag."""
    return jax.enable_x64(np.dtype(dtype) == np.float64)


@contextlib.contextmanager
def numpy_promotion() -> Generator[None]:
    """Enables NumPy's promotion of ranks and dtypes in JAX inside the block, for rules that run in both."""
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield
