"""Accelerators, found without JAX: plugins, drivers, and the environment variables by which JAX sees them.

The command line imports JAX with `import_jax`, which reports a GPU that cannot be used, or an invalid
variable, in one sentence instead of a traceback.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import sys
import tempfile
from collections.abc import Generator, Sequence
from typing import NamedTuple

from jaxgadget.util.arguments import read_number
from jaxgadget.util.machine import describe_device, find_versions


class CudaRuntime(NamedTuple):
    """CUDA's runtime library, which a plugin needs besides the driver, from a package or the system.

    Attributes:
      package: name of the package.
      file: name of the library.
      extra: this package's extra that installs it.
    """

    package: str
    file: str
    extra: str


CUDA_PLUGINS = {
    "jax-cuda13-plugin": CudaRuntime("nvidia-cuda-runtime", "libcudart.so.13", "cuda13"),
    "jax-cuda12-plugin": CudaRuntime("nvidia-cuda-runtime-cu12", "libcudart.so.12", "cuda12"),
}
"""Packages that let JAX compute on NVIDIA's GPUs; JAX uses the first one that is installed."""

PLUGINS = (*CUDA_PLUGINS, "jax-rocm60-plugin", "jax-rocm7-plugin", "jax-metal", "libtpu")
"""Packages that let JAX compute on an accelerator."""

VISIBLE = "CUDA_VISIBLE_DEVICES"
"""Environment variable with the GPUs that are visible to a process."""

MEMORY_FRACTIONS = ("XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION")
"""Environment variables with the share of a GPU's memory that XLA may allocate."""

DEFAULT_FRACTION = 0.75
"""Share of a GPU's memory that XLA allocates if neither variable is set."""

PREALLOCATE = "XLA_PYTHON_CLIENT_PREALLOCATE"
"""Environment variable; if true, the default, XLA allocates its share when it starts."""

CHOICES = {
    PREALLOCATE: ("true", "false", "True", "False", "1", "0"),
    "XLA_PYTHON_CLIENT_ALLOCATOR": ("default", "platform", "bfc", "cuda_async", "vmm"),
}
"""Valid values of XLA's other environment variables for memory."""

PLATFORMS = "JAX_PLATFORMS"

NO_DEVICE = 100
"""The driver's error code if there is no GPU."""

NOISE = ("cudart_stub.cc", "before absl::InitializeLog()")
"""Texts that identify the lines that a CUDA plugin without a driver writes to standard error."""


def find_plugins() -> dict[str, str]:
    """Versions of the installed plugins, and of CUDA's runtime library if a package provides it."""
    return _installed([*PLUGINS, *(runtime.package for runtime in CUDA_PLUGINS.values())])


def count_gpus() -> int | None:
    """Number of NVIDIA GPUs that this process may use, according to the driver; None without a driver."""
    cuda, count = _driver(), ctypes.c_int(0)
    if cuda is None:
        return None
    return count.value if _driver_error(cuda) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0 else 0


def _driver_error(cuda: ctypes.CDLL) -> int:
    """Error code of the driver's start, 0 for none; `NO_DEVICE` if there is no GPU."""
    return int(cuda.cuInit(0))


def driver_version() -> str | None:
    """Version of the NVIDIA driver with the newest CUDA that it supports; None without a driver."""
    cuda, number = _driver(), ctypes.c_int(0)
    if cuda is None or cuda.cuDriverGetVersion(ctypes.byref(number)) != 0:
        return None
    newest = f"CUDA {number.value // 1000}.{number.value % 1000 // 10}"
    with contextlib.suppress(OSError):
        return f"{pathlib.Path('/sys/module/nvidia/version').read_text().strip()} ({newest})"
    return newest


def describe_installation() -> list[str]:
    """Lines with the versions of JAX, its devices, plugins, the C++ compiler and the driver; imports JAX."""
    from jaxgadget.util.native import find_compiler

    lines = [_listed(find_versions(("jax", "jaxlib"))), f"device {describe_device()}"]
    reason = None if (plugin := cuda_plugin()) is None else _why_no_gpu(plugin)
    lines.append(f"plugins: {_listed(find_plugins()) or 'none'}" + (f"; {reason}" if reason else ""))
    lines.append(f"C++ compiler: {' '.join(find_compiler() or ['none'])}")
    return lines if (driver := driver_version()) is None else [*lines, f"NVIDIA driver {driver}"]


def check_environment() -> None:
    """Raises ValueError if XLA rejects or misreads the value of an environment variable for memory."""
    given = [name for name in MEMORY_FRACTIONS if os.environ.get(name)]
    if len(given) > 1:
        raise ValueError(f"{given[0]} and {given[1]} are both set: expected one of them")
    for name in given:
        share, oversubscribes = read_number(os.environ[name]), "TF_FORCE_UNIFIED_MEMORY" in os.environ
        if share is None or not (0 < share and (share <= 1 or oversubscribes)):
            raise ValueError(
                f"{name}={os.environ[name]!r}: expected a share of the GPU's memory, above 0 and at most 1"
            )
    for name, choices in CHOICES.items():
        value = os.environ.get(name)
        if value and value not in choices:
            raise ValueError(f"{name}={value!r}: expected one of {', '.join(choices)}")


def import_jax(device: str | None = None) -> str:
    """Imports JAX on a platform, which is set for this process and those that it starts.

    If a CUDA plugin is installed but has no GPU, JAX computes on the CPU, unless `JAX_PLATFORMS` is set.

    Args:
      device: `cpu` or `gpu`; by default JAX's choice.

    Returns:
      A sentence that states why a GPU cannot be used. Empty if it can be used, and if there is neither CUDA
      nor a GPU, as a plugin alone may be installed to compile for GPUs of other machines.

    Raises:
      ValueError: if an environment variable is invalid, or there is no such device.
    """
    check_environment()
    reason = None if (plugin := cuda_plugin()) is None else _why_no_gpu(plugin)
    sentence, platforms = "", os.environ.get(PLATFORMS, "")
    if device == "cpu":
        os.environ[PLATFORMS] = device
    elif plugin is not None and reason is not None:
        if device is not None:
            raise ValueError(f"--device {device}: {plugin} is installed but {reason}")
        if not {"cuda", "gpu"}.isdisjoint(platforms.split(",")):
            raise ValueError(f"{PLATFORMS}={platforms!r}: {plugin} is installed but {reason}")
        if not platforms:
            os.environ[PLATFORMS] = "cpu"
            if _has_runtime(plugin) or count_gpus() is not None:
                sentence = f"{plugin} is installed but {reason}; computing on the CPU."
    with contextlib.nullcontext() if reason is None else _without_noise():
        import jax

        try:
            backend = jax.default_backend()
        except (RuntimeError, AssertionError) as error:  # AssertionError if a plugin finds no device
            text = str(error).partition("(")[0].strip(" .") or "there is no such device"
            remedy = "; see whether nvidia-smi works, or set it to cpu"
            if not {"cuda", "gpu", "cpu"}.issuperset(platforms.split(",")):
                remedy = "; expected cpu or cuda, or unset it"
            elif plugin is None:
                remedy = "; unset it, or install JAX's plugin: pip install 'jaxgadget[cuda13]', or [cuda12]"
            raise ValueError(f"{PLATFORMS}={platforms!r}: {text}{remedy}") from error
    if device is not None and backend != device:
        remedy = (
            f", the first of {PLATFORMS}={platforms!r}" if platforms else "; see whether nvidia-smi works"
        )
        if plugin is None:
            remedy = "; a GPU needs JAX's plugin for CUDA: pip install 'jaxgadget[cuda13]', or [cuda12]"
        raise ValueError(f"--device {device}: JAX computes on {backend}{remedy}")
    return sentence


def share_gpus(workers: int) -> list[dict[str, str]]:
    """Assigns the visible GPUs in turn to several processes that this process will start.

    This process plans the work of the others, so it is limited to a worker's share of a GPU's memory, and
    allocates memory on demand. Must be called before JAX is imported.

    Args:
      workers: number of processes.

    Returns:
      The environment variables of each process, empty dictionaries without GPUs.
    """
    plugin, platforms = cuda_plugin(), os.environ.get(PLATFORMS) or "cuda"
    if plugin is None or _why_no_gpu(plugin) is not None or platforms.split(",")[0] not in ("cuda", "gpu"):
        return [{} for _ in range(workers)]
    count, visible = count_gpus() or 0, os.environ.get(VISIBLE)
    gpus = [str(gpu) for gpu in range(count)] if visible is None else visible.split(",")[:count]
    variables = {PREALLOCATE: os.environ.get(PREALLOCATE) or "true"}
    if workers > len(gpus) and not any(map(os.environ.get, MEMORY_FRACTIONS)):
        variables[MEMORY_FRACTIONS[0]] = f"{DEFAULT_FRACTION / -(-workers // len(gpus)):.3f}"
    os.environ.update(variables | {PREALLOCATE: "false"})
    return [variables | {VISIBLE: gpus[worker % len(gpus)]} for worker in range(workers)]


def cuda_plugin() -> str | None:
    """Name of the CUDA plugin that JAX uses; None if none is installed."""
    return next(iter(_installed(list(CUDA_PLUGINS))), None)


def _why_no_gpu(plugin: str) -> str | None:
    """The reason why a CUDA plugin has no GPU, as a clause; None if it has one."""
    gpus, visible = count_gpus(), os.environ.get(VISIBLE)
    if gpus is None:
        return "no NVIDIA driver was found"
    cuda = _driver()
    if cuda is not None and (error := _driver_error(cuda)) not in (0, NO_DEVICE):
        return f"the NVIDIA driver does not start (cuInit: error {error}); see whether nvidia-smi works"
    if not gpus:
        return "the NVIDIA driver has no GPU" + ("" if visible is None else f" ({VISIBLE}={visible!r})")
    if _has_runtime(plugin):
        return None
    return (
        f"{CUDA_PLUGINS[plugin].file} was not found (pip install 'jaxgadget[{CUDA_PLUGINS[plugin].extra}]')"
    )


def _has_runtime(plugin: str) -> bool:
    runtime = CUDA_PLUGINS[plugin]
    return bool(_installed([runtime.package])) or _load(runtime.file) is not None


def _driver() -> ctypes.CDLL | None:
    """The NVIDIA driver's library."""
    return _load("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


def _load(library: str) -> ctypes.CDLL | None:
    with contextlib.suppress(OSError):
        return ctypes.CDLL(library)
    return None


def _installed(packages: Sequence[str]) -> dict[str, str]:
    versions = find_versions(packages)
    return {name: version for name in packages if (version := versions[name]) is not None}


def _listed(versions: dict[str, str] | dict[str, str | None]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


@contextlib.contextmanager
def _without_noise() -> Generator[None]:
    """Drops lines with `NOISE` from standard error, by file descriptor, since C++ libraries write them."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as written, contextlib.ExitStack() as stack:
        before = os.dup(2)
        stack.callback(os.close, before)
        os.dup2(written.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(before, 2)
            written.seek(0)
            lines = [line for line in written if not any(part.encode() in line for part in NOISE)]
            os.write(2, b"".join(lines))
