"""Without a terminal, every long-running command writes lines to standard error."""

import json
import re

import pytest
from typer.testing import CliRunner

from jaxgadget.cli import app
from jaxgadget.util import progress


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "labels"),
    [
        (("refine", "--blueprint", "cfr:200", "--blueprint", "cfr:400"), ["blueprints", "refining"]),
        (("nested", "--blueprint", "cfr:3", "--k", 2, "--iterations", 20), ["nested search"]),
    ],
)
def test_a_log_gets_lines(
    arguments: tuple[object, ...], labels: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    command, *options = map(str, arguments)
    result = CliRunner().invoke(app, [command, "kuhn_poker", *options, "--json", "-"], prog_name="jaxgadget")
    assert result.exit_code == 0, result.stderr
    json.loads(result.stdout)
    lines = result.stderr.splitlines()
    for label in labels:
        pattern = rf"{label}: (\d+/\d+ \(\d+%\)|\d+%), \d:\d\d:\d\d so far(, \d:\d\d:\d\d left)?"
        assert any(re.fullmatch(pattern, line) for line in lines), f"{label}: {lines}"
