"""The packages that `pip install` would install, from a dry run."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib

import pytest

ROOT = pathlib.Path(__file__).parents[2]
OFFLINE = re.compile(r"Name or service not known|Temporary failure in name resolution|NewConnectionError")


def resolved(*extras: str) -> dict[str, str]:
    """Versions of the packages that pip selects; skips if no package index is reachable."""
    options = ["--dry-run", "--ignore-installed", "--only-binary", ":all:", "--quiet", "--report", "-"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, f"{ROOT}[{','.join(extras)}]"],
        env=os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode and OFFLINE.search(done.stderr):
        pytest.skip("no package index can be reached")
    assert done.returncode == 0, done.stderr
    packages = [each["metadata"] for each in json.loads(done.stdout)["install"]]
    return {each["name"]: each["version"] for each in packages}


@pytest.mark.skipif(sys.platform != "linux", reason="CUDA's packages are for Linux")
def test_cuda_can_be_installed_with_all_extras():
    """Except those of development and of notebooks, which take another minute, and the other CUDA version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = set(project["optional-dependencies"]) - {"cuda13", "dev", "docs", "notebook"}
    assert {"cuda12", "openspiel", "train"} <= extras
    found = resolved(*extras)
    assert found["jaxgadget"] == project["version"]
    assert found["jax"] == found["jaxlib"] == found["jax-cuda12-plugin"] == found["jax-cuda12-pjrt"]
    assert found["nvidia-cuda-runtime-cu12"].startswith("12.")
