"""Information on the machine and the installed versions."""

import mmap
import pathlib
import sys

import pytest

from jaxgadget.util import machine


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells")
def test_mappings_are_counted() -> None:
    before = machine.num_mappings()
    # Alternating protections, so that the kernel does not merge adjacent mappings.
    held = [mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE * (k % 2)) for k in range(100)]
    assert before > 10 and 50 <= machine.num_mappings() - before <= 150
    for mapping in held:
        mapping.close()


def test_the_digest_is_of_the_whole_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change in any module changes the digest."""
    before, read = machine.source_digest(), pathlib.Path.read_bytes
    for changed in ("core/cfr.py", "__init__.py", "util/machine.py"):

        def read_changed(path: pathlib.Path, end: str = changed) -> bytes:
            return read(path) + (b"#" if path.match(f"jaxgadget/{end}") else b"")

        with monkeypatch.context() as patch:
            patch.setattr(pathlib.Path, "read_bytes", read_changed)
            assert machine.source_digest() != before
    assert machine.source_digest() == before
