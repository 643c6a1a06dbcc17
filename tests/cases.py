"""Cases of parametrised tests: the first run in `make test`, the others in `make test-slow`."""

from collections.abc import Iterable
from typing import Any

import pytest


def slow_after(count: int, cases: Iterable[Any]) -> list[Any]:
    """The same cases; those after the first `count` are marked slow."""
    return [
        case
        if number < count
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for number, case in enumerate(cases)
    ]
