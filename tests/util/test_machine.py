"""What is told about the machine and the versions at work."""

import pathlib

import pytest

from jaxgadget.util import machine


def test_the_digest_is_of_the_whole_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change in any room is another source."""
    before, read = machine.source_digest(), pathlib.Path.read_bytes
    for changed in ("kernels/cfr.py", "__init__.py", "util/machine.py"):

        def read_changed(path: pathlib.Path, end: str = changed) -> bytes:
            return read(path) + (b"#" if path.match(f"jaxgadget/{end}") else b"")

        with monkeypatch.context() as patch:
            patch.setattr(pathlib.Path, "read_bytes", read_changed)
            assert machine.source_digest() != before
    assert machine.source_digest() == before
