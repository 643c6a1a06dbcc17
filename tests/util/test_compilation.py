"""The compilation cache: used on request, silent if it is unavailable, never enabled by itself."""

import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache as jax_cache

import jaxgadget
from jaxgadget.util import compilation
from jaxgadget.util.compilation import (
    MAX_MAPPINGS,
    compiled,
    compiled_afresh,
    drop_many_programs,
    drop_programs,
)

pytestmark = pytest.mark.optimised

SETTINGS = (
    "jax_compilation_cache_dir",
    "jax_enable_compilation_cache",
    "jax_persistent_cache_min_compile_time_secs",
)
EXACT = ("-m", "jaxgadget", "solve", "kuhn_poker", "--json", "-", "--algorithm", "lp")
COMMAND = ("-m", "jaxgadget", "solve", "kuhn_poker", "--iterations", "2", "--json", "-")


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Start from JAX's defaults and restore them."""
    before = {name: jax.config.values[name] for name in SETTINGS}
    for name, value in zip(SETTINGS, (None, True, 1.0), strict=True):
        jax.config.update(name, value)
        monkeypatch.delenv(name.upper(), raising=False)
    jax_cache.reset_cache()
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    jax_cache.reset_cache()


def entries(folder: pathlib.Path) -> set[str]:
    return {path.name for path in folder.rglob("*-cache")}


def compile_something(number: int) -> None:
    jax.jit(lambda x: x * number + number)(jnp.arange(3)).block_until_ready()


def home(folder: pathlib.Path) -> dict[str, str]:
    """Point the user's cache folders into a temporary folder, with JAX's defaults."""
    environment = {name: value for name, value in os.environ.items() if name.lower() not in SETTINGS}
    return environment | {
        "HOME": str(folder),
        "LOCALAPPDATA": str(folder),
        "XDG_CACHE_HOME": str(folder / "caches"),
    }


def program(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False
    )


# --- the command line ---------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_line_compiles_once(tmp_path: pathlib.Path):
    environment = home(tmp_path) | {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    first = program(environment, *COMMAND)
    assert (first.returncode, first.stderr) == (0, "")
    kept = entries(tmp_path)
    assert any("run" in name for name in kept), "the loop was compiled"
    second = program(environment, *COMMAND)
    assert (second.returncode, second.stderr) == (0, "")
    assert entries(tmp_path) == kept, "all of it was found"
    assert second.stdout.partition('"seconds"')[0] == first.stdout.partition('"seconds"')[0]


@pytest.mark.slow
def test_the_command_line_does_without(tmp_path: pathlib.Path):
    (tmp_path / "caches").write_text("a file, no folder")
    environment = home(tmp_path) | {"HOME": os.devnull, "LOCALAPPDATA": os.devnull}
    done = program(environment, *EXACT)  # its certificate is compiled
    assert (done.returncode, done.stderr) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["caches"]


def test_the_library_touches_nothing_by_itself(tmp_path: pathlib.Path):
    script = f"import jax, jaxgadget; print([jax.config.values[name] for name in {SETTINGS}])"
    done = program(home(tmp_path), "-c", script)
    assert done.stdout == "[None, True, 1.0]\n"
    assert list(tmp_path.iterdir()) == []


# --- the library --------------------------------------------------------------------------


def test_a_folder_is_made_and_used(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    compile_something(2)  # JAX has looked for a folder and found none
    folder = tmp_path / "a" / "b"
    assert jaxgadget.enable_compilation_cache(folder) == folder
    compile_something(3)
    kept = entries(folder)
    assert kept
    with compiled_afresh():
        compile_something(4)
    assert entries(folder) == kept
    compile_something(5)
    assert entries(folder) > kept


def test_settings_of_jax_are_kept(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "7")
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 7.0)
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "told"))
    assert jaxgadget.enable_compilation_cache() == tmp_path / "told"
    assert jax.config.values["jax_compilation_cache_dir"] == str(tmp_path / "told")
    assert jax.config.values["jax_persistent_cache_min_compile_time_secs"] == 7.0


def test_a_named_folder_that_cannot_be_written(tmp_path: pathlib.Path):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="file"):
        jaxgadget.enable_compilation_cache(tmp_path / "file")


def test_compiled_afresh_leaves_things_as_they_were():
    for setting in (True, False):
        jax.config.update("jax_enable_compilation_cache", setting)
        with pytest.raises(RuntimeError, match="inside"), compiled_afresh():
            assert jax.config.values["jax_enable_compilation_cache"] is False
            raise RuntimeError("inside")
        assert jax.config.values["jax_enable_compilation_cache"] is setting


def test_dropped_programs_are_compiled_again(monkeypatch: pytest.MonkeyPatch):
    traced = []

    @jax.jit
    def double(x):
        traced.append(x)
        return 2 * x

    def num_traces() -> int:
        assert double(jnp.float32(2)) == 4
        return len(traced)

    assert [num_traces(), num_traces()] == [1, 1]
    drop_programs()
    assert num_traces() == 2
    monkeypatch.setattr(compilation, "num_mappings", lambda: MAX_MAPPINGS)
    drop_many_programs()
    assert num_traces() == 2
    monkeypatch.setattr(compilation, "num_mappings", lambda: MAX_MAPPINGS + 1)
    drop_many_programs()
    assert num_traces() == 3


def mixed(values: jax.Array, segments: jax.Array, *, num_segments: int) -> tuple[jax.Array, jax.Array]:
    """A mix of typical operations: segment sums, selections, a loop."""
    sums = jax.ops.segment_sum(jnp.maximum(values, 0), segments, num_segments=num_segments)
    shares = jnp.where(sums[segments] > 0, values / jnp.where(sums > 0, sums, 1)[segments], 0.5)
    return sums, jax.lax.fori_loop(0, 7, lambda _, x: jnp.cumsum(x) / jnp.abs(x).max(), shares)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_compiled_quickly_it_computes_the_same(dtype: type[np.floating]):
    num_traces = 0

    def counted(*args: jax.Array, num_segments: int) -> tuple[jax.Array, jax.Array]:
        nonlocal num_traces
        num_traces += 1
        return mixed(*args, num_segments=num_segments)

    quick = compiled(counted, quick=True, static_argnames=("num_segments",))
    draw = np.random.default_rng(0)
    with jax.enable_x64(dtype is np.float64):
        for size in (50, 50, 60):
            values, segments = draw.normal(size=size).astype(dtype), draw.integers(0, 9, size)
            expected = jax.jit(mixed, static_argnames=("num_segments",))(values, segments, num_segments=9)
            found = quick(values, segments, num_segments=9)
            for ours, theirs in zip(found, expected, strict=True):
                assert ours.dtype == theirs.dtype == dtype
                np.testing.assert_allclose(ours, theirs, rtol=100 * np.finfo(dtype).eps)
    assert num_traces == 2, "one for each shape"


def test_the_quick_options_reach_the_compiler(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compilation, "QUICK_OPTIONS", {"no_such_option": 0})
    with pytest.raises(jax.errors.JaxRuntimeError, match="no_such_option"):
        compiled(lambda x: x + 1, quick=True)(jnp.float32(1))


def test_calls_of_programs_are_watched():
    """Concrete calls are recorded; a program traced inside another one is part of it."""
    inner = compiled(lambda x: x + 1)
    outer = compiled(lambda x, *, times: inner(x) * times, static_argnames=("times",))
    inner(np.float32(1))
    with compilation.watch_programs() as calls:
        assert outer(jnp.ones(3), times=2).tolist() == [4, 4, 4]
        with jax.enable_x64(True):
            inner(np.ones(2))
    outer(jnp.ones(3), times=2)
    first, second = calls
    assert first.program is outer and second.program is inner
    assert first.named == {"times": 2} and not first.x64 and second.x64
    assert (first.arguments[0].shape, second.arguments[0].dtype) == ((3,), np.float64)
