"""`--explore` of commands whose results exist only in memory."""

from __future__ import annotations

import base64
import gzip
import json
import pathlib
import re

import pytest

from tests.cli.commands import run

RIVER = ("--board", "Td9d6hQc2s", "--oop", "AA,KQs", "--ip", "KK,QJs", "--pot", 100, "--stack", 100)


@pytest.mark.parametrize(
    ("arguments", "lanes"),
    [
        (("solve", "kuhn_poker"), 1),
        (("nested", "kuhn_poker", "--blueprint", "uniform", "--gadget", "resolving", "--iterations", 5), 4),
        (("respond", "kuhn_poker", "--model", "uniform", "--p", 0.5, "--iterations", 5), 2),
        (("holdem", *RIVER, "--iterations", 5), 1),
        (("holdem", *RIVER, "--iterations", 5, "--gadget", "resolving"), 4),
    ],
)
def test_commands_write_pages(arguments: tuple[object, ...], lanes: int, tmp_path: pathlib.Path) -> None:
    page = tmp_path / "page.html"
    result = run(*arguments, "--explore", page)
    assert result.exit_code == 0 and f"Wrote the page to {page}" in result.stdout, result.stderr
    found = re.search(r'id="header">(.*?)</script>', page.read_text("utf-8"))
    assert found is not None
    (view,) = json.loads(gzip.decompress(base64.b64decode(found[1])))["views"]
    assert len(view["lanes"]) == lanes
