"""C++ code that XLA's programs call on CPUs, compiled at first use.

It uses JAX's foreign function interface. Without a compiler, or with `JAXGADGET_NATIVE=false` in the
environment, the programs do without.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import logging
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax
import platformdirs

log = logging.getLogger(__name__)

COMPILERS = ("c++", "g++", "clang++")
"""Commands that are tried unless the environment variable `CXX` names one."""

FLAGS = ("-std=c++17", "-O3", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared", "-w")
"""Flags of the compiler."""

TARGETS = ("-march=native", "-mcpu=native", "")
"""Flags for this machine's processor, tried in order, since no compiler accepts all of them."""


class Native:
    """Functions of a C++ file, which are compiled and registered for XLA's programs at first use."""

    def __init__(self, source: pathlib.Path, names: Sequence[str]):
        """Names the functions; `names` are handlers of XLA's foreign function interface."""
        self._source, self._names = source, tuple(names)
        self._lock = threading.Lock()
        self._is_loaded: bool | None = None

    @property
    def is_expected(self) -> bool:
        """False if `load` has failed, or will because there is no compiler."""
        return self._is_loaded if self._is_loaded is not None else find_compiler() is not None

    def load(self) -> bool:
        """True if the functions can be called: compiles them unless that has been tried."""
        with self._lock:
            if self._is_loaded is None:
                self._is_loaded = self._register()
            return self._is_loaded

    def load_ahead(self) -> None:
        """Begins `load` in another thread, which takes some seconds on a machine's first use."""
        if self._is_loaded is None:
            threading.Thread(target=self.load, name="jaxgadget-native", daemon=True).start()

    def on_cpu(self, function: Callable[..., Any], otherwise: Callable[..., Any], *arguments: Any) -> Any:
        """The result of `function`, which calls the functions, on a CPU; of `otherwise` on other devices.

        Without a compiler it is that of `otherwise` everywhere.
        """
        if not self.load():
            return otherwise(*arguments)
        return jax.lax.platform_dependent(*arguments, cpu=function, default=otherwise)

    def _register(self) -> bool:
        library = _compile(self._source)
        if library is None:
            return False
        functions = ctypes.CDLL(os.fspath(library))
        for name in self._names:
            capsule = jax.ffi.pycapsule(getattr(functions, name))
            jax.ffi.register_ffi_target(name, capsule, platform="cpu")
        return True


def _compile(source: pathlib.Path) -> pathlib.Path | None:
    """The compiled file, from the user's caches if it is there; None if it cannot be compiled."""
    compiler = find_compiler()
    if compiler is None:
        log.info("No C++ compiler: XLA's programs do without %s.", source.name)
        return None
    # A processor's instructions may be unknown to another one that shares the home folder.
    parts = source.read_text(), compiler, *FLAGS, jax.__version__, platform.machine(), platform.node()
    name = f"{source.stem}-{hashlib.sha256(repr(parts).encode()).hexdigest()[:16]}.so"
    library = find_folder() / name
    if library.exists():
        return library
    log.info("Compiling %s.", source.name)
    with tempfile.TemporaryDirectory(dir=library.parent) as scratch:
        made = pathlib.Path(scratch) / name
        arguments = [*FLAGS, f"-I{jax.ffi.include_dir()}", os.fspath(source), "-o", os.fspath(made)]
        said = ""
        for target in TARGETS:
            command = [compiler, *filter(None, [target]), *arguments]
            try:
                ended = subprocess.run(command, capture_output=True, text=True, check=False)
            except OSError as error:
                said = f"{compiler} cannot be run: {error.strerror}"
                break
            if ended.returncode == 0:
                made.replace(library)
                return library
            said = ended.stderr
    log.warning("%s does not compile; XLA's programs do without it:\n%s", source.name, said)
    return None


def find_compiler() -> str | None:
    """The compiler's command; None if there is none, or native code is disabled."""
    is_disabled = os.environ.get("JAXGADGET_NATIVE", "").lower() in ("0", "false", "no")
    if is_disabled or sys.platform == "win32":
        return None
    return os.environ.get("CXX") or next(filter(None, map(shutil.which, COMPILERS)), None)


@functools.cache
def find_folder() -> pathlib.Path:
    """Folder of compiled files: in the user's caches, or a temporary one if that cannot be written."""
    folder = platformdirs.user_cache_path("jaxgadget", appauthor=False) / "native"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return pathlib.Path(tempfile.mkdtemp(prefix="jaxgadget-"))
