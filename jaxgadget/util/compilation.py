"""Compiled programs: JAX's persistent compilation cache, and dropping programs from memory.

The command line enables the cache; the library only does so in `enable_compilation_cache`.
"""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import functools
import os
import pathlib
import tempfile
from collections.abc import Callable, Generator
from importlib.metadata import version
from typing import Any, NamedTuple

import jax
import numpy as np
import platformdirs
from jax.core import Tracer
from jax.experimental.compilation_cache import compilation_cache

from jaxgadget.util.files import make_folder
from jaxgadget.util.machine import num_mappings

MIN_COMPILE_SECONDS = 0.02
"""Minimum compilation time of cached programs in seconds; reading others would hardly be faster.

With 0.1, `jaxgadget refine kuhn_poker` took 3.0 s the second time, with this value 2.5 s.
"""

_CPU_OPTIONS = {"xla_cpu_use_fusion_emitters": False, "xla_cpu_parallel_codegen_split_count": 1}
QUICK_OPTIONS: dict[str, int | bool] = {
    "xla_backend_optimization_level": 0,
    **(_CPU_OPTIONS if version("jaxlib").startswith("0.10.") else {}),  # unknown to later versions
}
"""XLA options for programs that run once."""

QUICK_BYTES = 32 << 20
"""Maximum size of a program's arguments for quick compilation; for larger ones run time dominates."""

MAX_MAPPINGS = 20_000
"""Number of memory mappings at which programs are dropped: each has several, and LLVM crashes without any."""

_MIN_SECONDS = "jax_persistent_cache_min_compile_time_secs"


def enable_compilation_cache(folder: str | os.PathLike[str] | None = None) -> pathlib.Path | None:
    """Enables JAX's persistent compilation cache for this and later processes.

    JAX's own settings take precedence: with `JAX_ENABLE_COMPILATION_CACHE=false` in the environment this
    has no effect, and `JAX_COMPILATION_CACHE_DIR` and `JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS` are kept.
    Entries are never removed; delete the folder if it has grown too large. Its files are executed as
    programs, so only trusted users should have write access.

    Args:
      folder: the folder, created if missing; by default JAX's configured folder, otherwise `jaxgadget` in the
        user's caches (on Linux `$XDG_CACHE_HOME`, usually `~/.cache`).

    Returns:
      The folder; None if the cache stays disabled, because JAX's settings disable it or the default folder
      cannot be written.

    Raises:
      ValueError: if `folder` is not None and cannot be written.
    """
    if not jax.config.values["jax_enable_compilation_cache"]:
        return None
    configured: str | None = jax.config.values["jax_compilation_cache_dir"]
    if folder is not None:
        cache_folder = pathlib.Path(folder)
        make_folder(cache_folder)
        try:
            with tempfile.TemporaryFile(dir=cache_folder):
                pass
        except OSError as error:
            raise ValueError(
                f"folder={os.fspath(folder)!r} cannot be written: {error.strerror}; choose another folder"
            ) from error
    elif configured:
        cache_folder = pathlib.Path(configured)
    else:
        cache_folder = platformdirs.user_cache_path("jaxgadget", appauthor=False)
        if not _can_be_made(cache_folder):
            return None
    if folder is not None or not configured:
        jax.config.update("jax_compilation_cache_dir", str(cache_folder))
        compilation_cache.reset_cache()  # JAX reads the folder setting only once
    if _MIN_SECONDS.upper() not in os.environ:
        jax.config.update(_MIN_SECONDS, MIN_COMPILE_SECONDS)
    return cache_folder


@contextlib.contextmanager
def compiled_afresh() -> Generator[None]:
    """Disables the persistent cache inside the block."""
    before: bool = jax.config.values["jax_enable_compilation_cache"]
    jax.config.update("jax_enable_compilation_cache", False)
    compilation_cache.reset_cache()
    try:
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", before)
        compilation_cache.reset_cache()


def _can_be_made(folder: pathlib.Path) -> bool:
    """True if the folder, or its nearest existing parent, can be written."""
    if not folder.is_absolute():  # without a home folder
        return False
    nearest = next(ancestor for ancestor in (folder, *folder.parents) if ancestor.exists())
    return nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)


class CompiledFunction:
    """A function that JAX compiles; all compiled functions of this package are instances.

    Calls can be recorded (`watch_programs`), so that `jaxgadget.bench.inspect` can compile the programs of a
    call for another device. Calls with arrays on an explicitly chosen device are not recorded. Outside of
    such a block recording costs nothing.

    Attributes:
      name: name of the function.
      jitted: the function compiled with default settings.
      for_gpu: the function compiled with the options for GPUs.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        quick: bool = False,
        gpu_options: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        """Wraps a function; arguments as in `compiled`."""

        def jit(options: dict[str, Any] | None) -> Any:
            return jax.jit(function, compiler_options=options, **settings)

        named = function.func if isinstance(function, functools.partial) else function
        self.name: str = getattr(named, "__name__", type(named).__name__)
        self.jitted = jit(None)
        self.for_gpu = self.jitted if gpu_options is None else jit(gpu_options)
        self._quick = jit(QUICK_OPTIONS) if quick else None
        functools.update_wrapper(self, function)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Calls the function, compiled for the shapes of the arguments."""
        given = (arguments, named)
        if _watching.get() and not _is_traced(given) and not _chosen_platforms(given):
            self.note(*arguments, **named)
        if self._quick is None and self.for_gpu is self.jitted:
            return self.jitted(*arguments, **named)
        arrays = [x for x in jax.tree.leaves(given) if hasattr(x, "nbytes")]
        platforms = _chosen_platforms(arrays) or {jax.default_backend()}
        if platforms == {"gpu"}:
            return self.for_gpu(*arguments, **named)
        is_small = sum(x.nbytes for x in arrays) <= QUICK_BYTES
        if self._quick is not None and platforms == {"cpu"} and is_small:
            return self._quick(*arguments, **named)
        return self.jitted(*arguments, **named)

    def note(self, *arguments: Any, **named: Any) -> None:
        """Records a call in every `watch_programs` without executing it; arrays may be shapes."""
        positional, by_name = jax.tree.map(_shape, (arguments, named))
        call = ProgramCall(self, positional, by_name, bool(jax.config.values["jax_enable_x64"]))
        for calls in _watching.get():
            calls.append(call)

    def lower(self, *arguments: Any, **named: Any) -> Any:
        """Lowers the function for the default device, given arguments or their shapes."""
        jitted = self.for_gpu if jax.default_backend() == "gpu" else self.jitted
        return jitted.lower(*arguments, **named)

    def eval_shape(self, *arguments: Any, **named: Any) -> Any:
        """Shapes of the results, as `jax.eval_shape`."""
        return self.jitted.eval_shape(*arguments, **named)


class ProgramCall(NamedTuple):
    """A call of a program.

    Attributes:
      program: the program.
      arguments: positional arguments, arrays as `jax.ShapeDtypeStruct`.
      named: arguments by name, in the same form.
      x64: True if JAX computed in float64.
    """

    program: CompiledFunction
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    x64: bool


_watching: contextvars.ContextVar[tuple[list[ProgramCall], ...]] = contextvars.ContextVar(
    "watching", default=()
)


@contextlib.contextmanager
def watch_programs() -> Generator[list[ProgramCall]]:
    """Yields a list to which every call of a program inside the block is appended, in this thread."""
    calls: list[ProgramCall] = []
    token = _watching.set((*_watching.get(), calls))
    try:
        yield calls
    finally:
        _watching.reset(token)


def _is_traced(tree: Any) -> bool:
    return any(isinstance(x, Tracer) for x in jax.tree.leaves(tree))


def _chosen_platforms(tree: Any) -> set[str]:
    """Platforms of the arrays that were put on a device other than the default one."""
    chosen = [x for x in jax.tree.leaves(tree) if getattr(x, "committed", False)]
    return {device.platform for x in chosen for device in x.devices()}


def _shape(x: Any) -> Any:
    if not isinstance(x, jax.Array | np.ndarray | np.generic):
        return x  # a number, a static argument, or a shape
    return jax.ShapeDtypeStruct(x.shape, x.dtype, weak_type=getattr(x, "weak_type", False))


def compiled(
    function: Callable[..., Any] | None = None,
    *,
    quick: bool = False,
    gpu_options: dict[str, Any] | None = None,
    **settings: Any,
) -> Any:
    """Decorator that compiles a function with JAX; see `CompiledFunction`.

    Args:
      function: the function; without it the decorator itself is returned.
      quick: for functions that run once. On a CPU, compilation takes a third of the time and execution up to
        ten times as long, unless the arguments have more than `QUICK_BYTES`. The function that builds the
        gadget games of Leduc's flop, with seven gadgets and 20 blueprints, compiles in 0.65 s instead of 3.9
        s on two cores, and runs in 3.2 ms instead of 1.3 ms. Unsuitable for loops; JAX does not support calls
        of such a function inside another compiled one.
      gpu_options: XLA's options for this function on a GPU. They are not passed on other platforms, as XLA
        rejects options that it does not know.
      settings: keyword arguments of `jax.jit`, such as `static_argnames`.
    """
    settings |= {"quick": quick, "gpu_options": gpu_options}
    return (
        functools.partial(CompiledFunction, **settings)
        if function is None
        else CompiledFunction(function, **settings)
    )


def drop_many_programs(times: int = 1) -> None:
    """Drops all programs if this process has more than `times * MAX_MAPPINGS` memory mappings."""
    if num_mappings() > times * MAX_MAPPINGS:
        drop_programs()


def drop_programs() -> None:
    """Frees all of JAX's compiled programs, and returns free memory of glibc to the system."""
    jax.clear_caches()
    with contextlib.suppress(AttributeError, OSError, TypeError):  # unavailable on other systems
        ctypes.CDLL(None).malloc_trim(0)
