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
from jaxgadget.util.native import Native

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
    assert jax.jit(lambda x: code.on_cpu(jnp.sin, jnp.cos, x))(0.0) == 1


@NEEDS_COMPILER
def test_code_that_does_not_compile_is_reported(
    source: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    source.write_text("this is not C++")
    with caplog.at_level(logging.WARNING):
        assert not Native(source, ()).load()
    assert "empty.cpp does not compile; XLA's programs do without it" in caplog.text
    assert "error" in caplog.text
    monkeypatch.setenv("CXX", "/no/such/compiler")
    with caplog.at_level(logging.WARNING):
        assert not Native(source, ()).load()
    assert "/no/such/compiler cannot be run" in caplog.text
    assert not list(source.parent.glob("*.so"))


def test_a_folder_that_cannot_be_written_is_replaced(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setattr(native.platformdirs, "user_cache_path", lambda *_, **__: blocked)
    native.find_folder.cache_clear()
    folder = native.find_folder()
    native.find_folder.cache_clear()
    assert folder.is_dir() and blocked not in folder.parents
