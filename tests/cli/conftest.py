"""Suppresses messages about elapsed time, which depend on the machine, except in tests of these messages."""

from collections.abc import Iterator

import pytest

from jaxgadget.util import progress


@pytest.fixture(autouse=True, scope="module")
def _no_lines() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "MINUTE", 1e6)
        patch.setattr(progress, "PAUSE", 1e6)
        yield
