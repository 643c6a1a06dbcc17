"""How long a command takes is the machine's business: no lines about it, unless a test is about them."""

from collections.abc import Iterator

import pytest

from jaxgadget.util import progress


@pytest.fixture(autouse=True, scope="module")
def _no_lines() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "MINUTE", 1e6)
        patch.setattr(progress, "PAUSE", 1e6)
        yield
