"""Unusable GPUs and wrong environment variables give one-line errors; no GPU is required here."""

import os
import pathlib
import subprocess
import sys
import types

import pytest

from jaxgadget.util import accelerators
from jaxgadget.util.accelerators import (
    MEMORY_FRACTIONS,
    PLATFORMS,
    PREALLOCATE,
    VISIBLE,
    check_environment,
    import_jax,
    share_gpus,
)

ROOT = pathlib.Path(__file__).parents[2]
PLUGIN, RUNTIME = "jax-cuda12-plugin", "nvidia-cuda-runtime-cu12"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No variables, and no other CUDA installation."""
    for name in (PLATFORMS, VISIBLE, PREALLOCATE, *MEMORY_FRACTIONS):
        monkeypatch.setenv(name, "")  # so that they are restored
        monkeypatch.delenv(name)
    monkeypatch.setattr(accelerators, "_load", lambda library: None)
    return monkeypatch


def installs(machine: pytest.MonkeyPatch, *packages: str, gpus: int | None = None) -> None:
    versions = {name: "1.0" for name in packages}
    machine.setattr(accelerators, "find_versions", lambda names: {name: versions.get(name) for name in names})
    machine.setattr(accelerators, "count_gpus", lambda: gpus)


@pytest.mark.parametrize(
    ("packages", "gpus", "reason"),
    [
        ((PLUGIN, RUNTIME), None, "no NVIDIA driver was found"),
        ((PLUGIN, RUNTIME), 0, "the NVIDIA driver has no GPU"),
        ((PLUGIN,), 2, "libcudart.so.12 was not found (pip install 'jaxgadget[cuda12]')"),
        (
            (PLUGIN, "nvidia-cuda-runtime"),
            2,
            "libcudart.so.12 was not found (pip install 'jaxgadget[cuda12]')",
        ),
    ],
)
def test_a_gpu_that_cannot_be_used_is_a_sentence_once(
    machine: pytest.MonkeyPatch, packages: tuple[str, ...], gpus: int | None, reason: str
):
    installs(machine, *packages, gpus=gpus)
    assert import_jax() == f"{PLUGIN} is installed but {reason}; computing on the CPU."
    assert os.environ[PLATFORMS] == "cpu"
    assert import_jax() == ""


@pytest.mark.parametrize(
    ("error", "reason"), [(803, "does not start (cuInit: error 803)"), (100, "has no GPU")]
)
def test_errors_of_the_driver_are_told_from_no_gpu(machine: pytest.MonkeyPatch, error: int, reason: str):
    installs(machine, PLUGIN, RUNTIME, gpus=0)
    machine.setattr(accelerators, "_driver", lambda: types.SimpleNamespace(cuInit=lambda _: error))
    assert f"the NVIDIA driver {reason}" in import_jax()


def test_hidden_gpus_are_named(machine: pytest.MonkeyPatch):
    installs(machine, PLUGIN, RUNTIME, gpus=0)
    machine.setenv(VISIBLE, "9")
    assert "has no GPU (CUDA_VISIBLE_DEVICES='9')" in import_jax()


def test_a_plugin_alone_computes_quietly_on_the_cpu(machine: pytest.MonkeyPatch):
    installs(machine, PLUGIN)
    assert import_jax() == "" and os.environ[PLATFORMS] == "cpu"


@pytest.mark.parametrize(("packages", "gpus"), [((), 1), ((PLUGIN, RUNTIME), 1), (("libtpu",), None)])
def test_jax_chooses_where_nothing_is_missing(
    machine: pytest.MonkeyPatch, packages: tuple[str, ...], gpus: int | None
):
    installs(machine, *packages, gpus=gpus)
    assert import_jax() == "" and PLATFORMS not in os.environ


def test_a_requested_device_exists_or_is_an_error(machine: pytest.MonkeyPatch):
    installs(machine, PLUGIN, RUNTIME)
    with pytest.raises(ValueError, match=f"^--device gpu: {PLUGIN} is installed but no NVIDIA driver"):
        import_jax("gpu")
    machine.setenv(PLATFORMS, "cuda")
    with pytest.raises(ValueError, match=f"^JAX_PLATFORMS='cuda': {PLUGIN} is installed but no NVIDIA"):
        import_jax()
    assert import_jax("cpu") == ""
    installs(machine)
    with pytest.raises(ValueError, match="JAX computes on cpu"):
        import_jax("gpu")


@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [
        ("XLA_PYTHON_CLIENT_MEM_FRACTION", "1.5", "0.9"),
        ("XLA_CLIENT_MEM_FRACTION", "abc", "1"),
        ("XLA_PYTHON_CLIENT_MEM_FRACTION", "0", ".5"),
        ("XLA_PYTHON_CLIENT_PREALLOCATE", "no", "false"),
        ("XLA_PYTHON_CLIENT_ALLOCATOR", "gpu", "platform"),
    ],
)
def test_wrong_variables_are_named(machine: pytest.MonkeyPatch, name: str, wrong: str, right: str):
    machine.setenv(name, right)
    check_environment()
    machine.setenv(name, wrong)
    with pytest.raises(ValueError, match=f"^{name}='{wrong}': expected"):
        check_environment()


def test_variables_of_memory(machine: pytest.MonkeyPatch):
    machine.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "1.5")
    machine.setenv("TF_FORCE_UNIFIED_MEMORY", "1")  # then XLA may take more than there is
    check_environment()
    machine.setenv("XLA_CLIENT_MEM_FRACTION", "0.5")
    with pytest.raises(ValueError, match="both set"):
        check_environment()


# --- workers ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpus", "visible", "share"),
    [(8, ["0", "1", "2"], None), (2, ["0", "1", "0"], "0.375"), (1, ["0", "0", "0"], "0.250")],
)
def test_each_worker_has_a_gpu(machine: pytest.MonkeyPatch, gpus: int, visible: list[str], share: str | None):
    """A GPU, or a share of one's memory; the planning process does not preallocate memory."""
    installs(machine, PLUGIN, RUNTIME, gpus=gpus)
    variables = share_gpus(3)
    assert [each[VISIBLE] for each in variables] == visible
    assert {each.get(MEMORY_FRACTIONS[0]) for each in variables} == {share}
    assert {each[PREALLOCATE] for each in variables} == {"true"}
    assert (os.environ[PREALLOCATE], os.environ.get(MEMORY_FRACTIONS[0])) == ("false", share)


def test_workers_use_the_devices_that_the_user_chose(machine: pytest.MonkeyPatch):
    installs(machine, PLUGIN, RUNTIME, gpus=2)
    machine.setenv(PREALLOCATE, "false")
    machine.setenv(MEMORY_FRACTIONS[1], "0.1")
    machine.setenv(VISIBLE, "5,GPU-3")
    assert share_gpus(3) == [{PREALLOCATE: "false", VISIBLE: gpu} for gpu in ("5", "GPU-3", "5")]
    machine.setenv(PLATFORMS, "cpu")
    assert share_gpus(2) == [{}, {}]


@pytest.mark.parametrize("packages", [(), (PLUGIN, RUNTIME)])
def test_without_gpus_workers_are_as_before(machine: pytest.MonkeyPatch, packages: tuple[str, ...]):
    installs(machine, *packages)
    assert share_gpus(2) == [{}, {}] and PREALLOCATE not in os.environ


# --- a process that has a plugin ----------------------------------------------------------

INITIALISE = """
import os
os.write(2, b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\\n")
os.write(2, b"I0000 00:00:1.1 1 cudart_stub.cc:31] Could not find cuda drivers on your machine.\\n")
os.write(2, b"worth reading\\n")
def initialize():
    if os.environ.get("JAX_PLATFORMS", "") in ("", "cuda"):
        raise RuntimeError("Unable to load CUDA. Is it installed?")
"""


def command(folder: pathlib.Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command line on a machine with the given packages and without a GPU."""
    environment = {name: value for name, value in os.environ.items() if name != PLATFORMS}
    environment |= {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", VISIBLE: ""} | variables
    program = [sys.executable, "-m", "jaxgadget", *arguments]
    return subprocess.run(program, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def packages(tmp_path: pathlib.Path) -> pathlib.Path:
    module = tmp_path / "jax_plugins" / "xla_cuda12"
    module.mkdir(parents=True)
    (module / "__init__.py").write_text(INITIALISE)
    for name in (PLUGIN, RUNTIME):
        metadata = tmp_path / f"{name.replace('-', '_')}-1.0.dist-info" / "METADATA"
        metadata.parent.mkdir()
        metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    return tmp_path


def test_without_a_gpu_a_command_warns_and_computes(packages: pathlib.Path):
    done = command(packages, "solve", "kuhn_poker", "--iterations", "3")
    why = (
        "no NVIDIA driver was found" if accelerators.count_gpus() is None else "the NVIDIA driver has no GPU"
    )
    told, rest = done.stderr.splitlines()
    assert (done.returncode, rest) == (0, f"{PLUGIN} is installed but {why}; computing on the CPU.") or (
        done.returncode,
        rest,
    ) == (0, f"{PLUGIN} is installed but {why} (CUDA_VISIBLE_DEVICES=''); computing on the CPU.")
    assert told == "worth reading"
    assert "kuhn_poker" in done.stdout


@pytest.mark.parametrize("platform", ["gpux", "cuda"])
def test_a_platform_that_is_not_there(packages: pathlib.Path, platform: str):
    done = command(packages, "solve", "kuhn_poker", JAX_PLATFORMS=platform)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"Error: JAX_PLATFORMS='{platform}': ")
    assert "Traceback" not in done.stderr
