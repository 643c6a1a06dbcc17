"""Compilation of C++ code at first use, and what happens without."""

from __future__ import annotations

import logging
import pathlib
import subprocess
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from jaxgadget.util import native
from jaxgadget.util.native import Kernel, Native, call_kernel

NEEDS_COMPILER = pytest.mark.skipif(not Native(pathlib.Path(), ()).is_expected, reason="needs a C++ compiler")


@pytest.fixture
def source(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A file that compiles to an empty library, and an empty folder for it."""
    file = tmp_path / "empty.cpp"
    file.write_text('extern "C" int nothing() { return 0; }\n')
    monkeypatch.setattr(native, "find_folder", lambda: tmp_path)
    return file


@NEEDS_COMPILER
def test_a_file_is_compiled_once(source: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    assert Native(source, ()).load()

    def fail(*arguments: Any, **given: Any) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(subprocess, "run", fail)
    ahead = Native(source, ())
    ahead.load_ahead()
    assert ahead.load()
    source.write_text('extern "C" int nothing() { return 1; }\n')
    with pytest.raises(AssertionError, match="compiled again"):
        Native(source, ()).load()


@pytest.mark.parametrize("environment", [{"JAXGADGET_NATIVE": "false"}, {"PATH": "", "CXX": ""}])
def test_nothing_is_compiled_without_a_compiler(
    environment: dict[str, str], source: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    code = Native(source, ())
    assert not code.is_expected
    assert not code.load()
    assert not list(source.parent.glob("*.so"))
    assert jax.jit(lambda x: call_kernel(Kernel(code, jnp.sin), jnp.cos, x))(0.0) == 1


@NEEDS_COMPILER
@pytest.mark.parametrize("damage", [b"", b"not a library", None], ids=["empty", "text", "another library"])
def test_a_damaged_file_is_compiled_again(
    damage: bytes | None, source: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(jax.ffi, "register_ffi_target", lambda *_, **__: None)
    assert Native(source, ("nothing",)).load()
    (library,) = source.parent.glob("*.so")
    if damage is None:  # a complete library without the function
        other = source.with_name("other.cpp")
        other.write_text('extern "C" int something() { return 0; }\n')
        compiler = native.find_compiler()
        assert compiler is not None
        native.compile_library(other, compiler, library)
    else:
        library.unlink()
        library.write_bytes(damage)
    assert Native(source, ("nothing",)).load()


@NEEDS_COMPILER
def test_compilers_may_have_arguments(source: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    compiler = native.find_compiler()
    assert compiler is not None
    monkeypatch.setenv("CXX", " ".join([*compiler, "-Wall"]))
    assert Native(source, ()).load()


@NEEDS_COMPILER
@pytest.mark.parametrize(
    ("code", "compiler", "message"),
    [
        ("this is not C++", None, "failed with status 1"),
        ("", "/no/such/compiler", "No such file or directory: '/no/such/compiler'"),
        ("", "true", "No such file or directory"),  # succeeds without a result
        ("", "false", "false failed with status 1"),
    ],
)
def test_failures_are_reported(
    code: str,
    compiler: str | None,
    message: str,
    source: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    source.write_text(code)
    if compiler is not None:
        monkeypatch.setenv("CXX", compiler)
    with caplog.at_level(logging.WARNING):
        assert not Native(source, ()).load()
    assert "XLA's programs are used without empty.cpp" in caplog.text
    assert message in caplog.text
    assert not list(source.parent.glob("*.so"))


@pytest.mark.parametrize("problem", ["a file", "others can write"])
def test_an_unsafe_folder_is_replaced(problem: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    caches = tmp_path / "caches"
    if problem == "a file":
        caches.write_text("")
    else:
        (caches / "native").mkdir(parents=True)
        (caches / "native").chmod(0o777)
    monkeypatch.setattr(native.platformdirs, "user_cache_path", lambda *_, **__: caches)
    native.find_folder.cache_clear()
    folder = native.find_folder()
    native.find_folder.cache_clear()
    assert folder.is_dir()
    assert caches not in folder.parents
