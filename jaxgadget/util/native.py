"""C++ code that XLA's programs call on CPUs, compiled at first use.

It uses JAX's foreign function interface. Without a compiler, or with `JAXGADGET_NATIVE=false` in the
environment, XLA's programs are used alone.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import hashlib
import logging
import os
import pathlib
import platform
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

import jax
import platformdirs

log = logging.getLogger(__name__)

COMPILERS = ("c++", "g++", "clang++")
"""Commands that are tried unless the environment variable `CXX` has one, with arguments if need be."""

FLAGS = ("-std=c++17", "-O3", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared", "-w")
"""Flags of the compiler."""

TARGETS = ("-march=native", "-mcpu=native", "")
"""Flags for this machine's processor, tried in order, since no compiler accepts all of them."""

COMPILE_SECONDS = 120
"""Maximum time of a compilation."""


class Native:
    """Functions of a C++ file, which are compiled and registered for XLA's programs at first use."""

    def __init__(self, source: pathlib.Path, names: Sequence[str]):
        """Names the functions.

        Args:
          source: the file.
          names: names of handlers of XLA's foreign function interface in it.
        """
        self._source, self._names = source, tuple(names)
        self._lock = threading.Lock()
        self._is_loaded: bool | None = None

    @property
    def is_expected(self) -> bool:
        """False if `load` has failed, or will because there is no compiler."""
        return self._is_loaded if self._is_loaded is not None else find_compiler() is not None

    def load(self) -> bool:
        """True if the functions can be called; compiles them at first use."""
        with self._lock:
            if self._is_loaded is None:
                self._is_loaded = self._register()
            return self._is_loaded

    def load_ahead(self) -> None:
        """Begins `load` in another thread: the first on a machine takes some seconds."""
        if self._is_loaded is None:
            threading.Thread(target=self.load, name="jaxgadget-native", daemon=True).start()

    def _register(self) -> bool:
        compiler = find_compiler()
        if compiler is None:
            log.info("No C++ compiler: XLA's programs are used without %s.", self._source.name)
            return False
        try:
            functions = self._open(compiler)
            for name in self._names:
                capsule = jax.ffi.pycapsule(getattr(functions, name))
                jax.ffi.register_ffi_target(name, capsule, platform="cpu")
        except (OSError, AttributeError, subprocess.SubprocessError) as error:
            log.warning("XLA's programs are used without %s: %s", self._source.name, error)
            return False
        return True

    def _open(self, compiler: Sequence[str]) -> ctypes.CDLL:
        """The compiled file, from the user's caches if it is there and complete."""
        name = f"{self._source.stem}-{_digest(self._source, compiler)}.so"
        library = find_folder() / name
        if library.exists():
            try:
                functions = ctypes.CDLL(os.fspath(library))
                if all(hasattr(functions, each) for each in self._names):
                    return functions
            except OSError:
                pass
            log.info("%s is damaged, and compiled again.", library)
        compile_library(self._source, compiler, library)
        return ctypes.CDLL(os.fspath(library))


class Kernel(NamedTuple):
    """A function of arrays that calls native functions, for which XLA's programs compute the same.

    Attributes:
      native: the native functions.
      function: the function.
    """

    native: Native
    function: Callable[..., Any]


def call_kernel(kernel: Kernel | None, otherwise: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a kernel on a CPU, and that of `otherwise` on other devices.

    It is that of `otherwise` everywhere if there is no kernel, or its native functions cannot be compiled.
    """
    if kernel is None or not kernel.native.load():
        return otherwise(*arguments)
    return jax.lax.platform_dependent(*arguments, cpu=kernel.function, default=otherwise)


def compile_library(source: pathlib.Path, compiler: Sequence[str], library: pathlib.Path) -> None:
    """Compiles a C++ file for this processor, with JAX's headers.

    Args:
      source: the file.
      compiler: the compiler's command.
      library: the result, which is replaced atomically.

    Raises:
      OSError: if the compiler cannot be run, or writes nothing.
      subprocess.SubprocessError: if it fails or takes more than `COMPILE_SECONDS`.
    """
    log.info("Compiling %s.", source.name)
    with tempfile.TemporaryDirectory(dir=library.parent) as scratch:
        output = pathlib.Path(scratch) / library.name
        arguments = [*FLAGS, f"-I{jax.ffi.include_dir()}", os.fspath(source), "-o", os.fspath(output)]
        message = ""
        for target in TARGETS:
            command = [*compiler, *filter(None, [target]), *arguments]
            result = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=COMPILE_SECONDS
            )
            if result.returncode == 0:
                output.replace(library)
                return
            message = f"{shlex.join(compiler)} failed with status {result.returncode}\n{result.stderr}"
            if not target or target.split("=")[0] not in result.stderr:
                break
    raise subprocess.SubprocessError(message)


def find_compiler() -> list[str] | None:
    """The compiler's command; None if there is none, or native code is disabled."""
    is_disabled = os.environ.get("JAXGADGET_NATIVE", "").lower() in ("0", "false", "no")
    if is_disabled or sys.platform == "win32":
        return None
    if command := shlex.split(os.environ.get("CXX", "")):
        return command
    found = next(filter(None, map(shutil.which, COMPILERS)), None)
    return None if found is None else [found]


def _digest(source: pathlib.Path, compiler: Sequence[str]) -> str:
    """Digest of all on which a compiled file depends, the processor's instructions included."""
    parts = source.read_text(), list(compiler), FLAGS, version("jaxlib"), _processor()
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _processor() -> str:
    """Description of the processor's instructions, as several machines may share a home folder."""
    description = pathlib.Path("/proc/cpuinfo")
    if description.exists():
        lines = description.read_text().splitlines()
        known = sorted(
            {line for line in lines if line.startswith(("flags", "Features", "model name", "isa"))}
        )
        return "\n".join([platform.machine(), *known])
    return f"{platform.machine()} {platform.processor()} {platform.node()}"


@functools.cache
def find_folder() -> pathlib.Path:
    """Folder of compiled files, which only the user can write: in the caches, or a temporary one."""
    folder = platformdirs.user_cache_path("jaxgadget", appauthor=False) / "native"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
        is_own = status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if is_own:
            with tempfile.TemporaryFile(dir=folder):
                return folder
    except OSError:
        pass
    temporary = pathlib.Path(tempfile.mkdtemp(prefix="jaxgadget-"))
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    return temporary
