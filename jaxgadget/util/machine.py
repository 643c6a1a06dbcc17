"""Description of the machine: device, cores and package versions."""

from __future__ import annotations

import hashlib
import os
import pathlib
import platform
import sys
from collections.abc import Sequence
from typing import Any

PACKAGES = ("jax", "jaxlib", "numpy", "jaxgadget", "open_spiel", "LiteEFG")
"""Packages whose versions are recorded."""


def num_cores() -> int:
    """Number of cores that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def num_mappings() -> int:
    """Number of memory mappings of this process (Linux allows 65,530); 0 if unknown."""
    mappings = pathlib.Path("/proc/self/maps")
    return mappings.read_bytes().count(b"\n") if mappings.exists() else 0


def describe_device(devices: Sequence[Any] | None = None) -> str:
    """Platform and kind of devices, by default all of JAX's, and the processor with its usable cores."""
    import jax

    devices = jax.local_devices() if devices is None else devices
    cores = num_cores()
    host = f"{_processor()}, {cores} core{'s' if cores > 1 else ''}"
    if devices[0].platform == "cpu":
        return f"cpu: {host}"
    many = f"{len(devices)} × " if len(devices) > 1 else ""
    return f"{devices[0].platform}: {many}{devices[0].device_kind}; cpu: {host}"


def _processor() -> str:
    """The processor's name, as reported by the system."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(names), "") or platform.processor() or platform.machine() or os.name


def find_versions(packages: Sequence[str] | None = None) -> dict[str, str | None]:
    """Versions of Python and of packages; None if one is not installed.

    Args:
      packages: names of packages; by default those of benchmarks.
    """
    import importlib.metadata as metadata  # 25 ms, which every command would take

    versions: dict[str, str | None] = {"python": platform.python_version()}
    for package in PACKAGES if packages is None else packages:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = None
    return versions


def source_digest() -> str:
    """Digest of this package's source, 16 hexadecimal digits."""
    total, package = hashlib.sha256(), pathlib.Path(__file__).parents[1]
    for path in sorted(package.rglob("*.py")):
        total.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return total.hexdigest()[:16]
