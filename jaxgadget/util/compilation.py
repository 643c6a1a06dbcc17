"""Compiled programs: JAX's cache of them on disk, which one process fills for the next, and dropping them.

The command line switches the cache on. The library does not by itself; see `enable_compilation_cache`.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import pathlib
import tempfile
from collections.abc import Callable, Generator
from importlib.metadata import version
from typing import Any

import jax
import platformdirs
from jax.experimental.compilation_cache import compilation_cache

from jaxgadget.util.files import make_folder
from jaxgadget.util.machine import num_mappings

MIN_COMPILE_SECONDS = 0.02
"""What took less is not kept: it would be read hardly faster than it is compiled. With 0.1, `jaxgadget refine
kuhn_poker` took 3.0 s the second time, with this 2.5 s."""

_CPU_OPTIONS = {"xla_cpu_use_fusion_emitters": False, "xla_cpu_parallel_codegen_split_count": 1}
QUICK_OPTIONS: dict[str, int | bool] = {
    "xla_backend_optimization_level": 0,
    **(_CPU_OPTIONS if version("jaxlib").startswith("0.10.") else {}),  # later ones do not know them
}
"""How XLA compiles what runs once."""

QUICK_BYTES = 32 << 20
"""Of a program's arguments: with more, compiling is no longer what takes long."""

MOST_MAPPINGS = 20_000
"""Memory mappings up to which programs are kept: each has several, and LLVM crashes when none are left."""

_MIN_SECONDS = "jax_persistent_cache_min_compile_time_secs"


def enable_compilation_cache(folder: str | os.PathLike[str] | None = None) -> pathlib.Path | None:
    """Keeps compiled programs on disk, for this process and those that come after it.

    JAX's own settings go first: with `JAX_ENABLE_COMPILATION_CACHE=false` in the environment nothing
    happens, and `JAX_COMPILATION_CACHE_DIR` and `JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS` are kept.
    Entries are never removed; delete the folder when it has grown too large. What lies in it is
    run as a program, so nobody whom you do not trust should be able to write there.

    Args:
      folder: where; by default the folder that JAX has been told, else `jaxgadget` among the user's
        caches (on Linux `$XDG_CACHE_HOME`, usually `~/.cache`). It is made if need be.

    Returns:
      The folder; None if the cache stays off, because JAX has it switched off or the default folder
      cannot be written: a cache only saves time.

    Raises:
      ValueError: if a folder is named and cannot be written.
    """
    if not jax.config.values["jax_enable_compilation_cache"]:
        return None
    told: str | None = jax.config.values["jax_compilation_cache_dir"]
    if folder is not None:
        cache_folder = pathlib.Path(folder)
        make_folder(cache_folder)
        try:
            with tempfile.TemporaryFile(dir=cache_folder):
                pass
        except OSError as error:
            raise ValueError(
                f"folder={os.fspath(folder)!r} cannot be written: {error.strerror}; choose another one"
            ) from error
    elif told:
        cache_folder = pathlib.Path(told)
    else:
        cache_folder = platformdirs.user_cache_path("jaxgadget", appauthor=False)
        if not _can_be_made(cache_folder):
            return None
    if folder is not None or not told:
        jax.config.update("jax_compilation_cache_dir", str(cache_folder))
        compilation_cache.reset_cache()  # JAX looks for the folder only once
    if _MIN_SECONDS.upper() not in os.environ:
        jax.config.update(_MIN_SECONDS, MIN_COMPILE_SECONDS)
    return cache_folder


@contextlib.contextmanager
def compiled_afresh() -> Generator[None]:
    """Nothing is read from the cache or written to it inside the block."""
    before: bool = jax.config.values["jax_enable_compilation_cache"]
    jax.config.update("jax_enable_compilation_cache", False)
    compilation_cache.reset_cache()
    try:
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", before)
        compilation_cache.reset_cache()


def _can_be_made(folder: pathlib.Path) -> bool:
    """Whether the folder, or the nearest above it that is there, can be written."""
    if not folder.is_absolute():  # there is no home
        return False
    nearest = next(ancestor for ancestor in (folder, *folder.parents) if ancestor.exists())
    return nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)


def compile_quickly(function: Callable[..., Any], **settings: Any) -> Callable[..., Any]:
    """`jax.jit` for what runs once: compiled in a third of the time or less, and up to ten times slower.

    Building the gadget games of Leduc's flop, seven gadgets and 20 blueprints, compiles in 0.65 s instead of
    3.9 s on two cores, and runs in 3.2 ms instead of 1.3 ms. Accelerators, and arguments of more than
    `QUICK_BYTES`, get the usual settings. Not for loops; and JAX does not let such a function be called
    within another compiled one.

    Args:
      function: to be compiled.
      settings: as `jax.jit` takes them, such as `static_argnames`.
    """
    quick = jax.jit(function, compiler_options=QUICK_OPTIONS, **settings)
    usual = jax.jit(function, **settings)

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        arrays = [x for x in jax.tree.leaves((arguments, named)) if hasattr(x, "nbytes")]
        small = sum(x.nbytes for x in arrays) <= QUICK_BYTES
        return (quick if small and jax.default_backend() == "cpu" else usual)(*arguments, **named)

    return call


def drop_many_programs(times: int = 1) -> None:
    """Drops all programs if this process has so many times `MOST_MAPPINGS`: for loops over many shapes."""
    if num_mappings() > times * MOST_MAPPINGS:
        drop_programs()


def drop_programs() -> None:
    """Frees all of JAX's compiled programs, and hands memory back that the C library (glibc) would keep."""
    jax.clear_caches()
    with contextlib.suppress(AttributeError, OSError, TypeError):  # other systems have no such function
        ctypes.CDLL(None).malloc_trim(0)
