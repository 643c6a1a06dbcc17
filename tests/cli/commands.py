"""Commands run in this process, and their output."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from jaxgadget.cli import app


def run(*arguments: object) -> Result:
    """Run a command on a terminal of 140 columns."""
    return CliRunner(env={"COLUMNS": "140"}).invoke(app, [*map(str, arguments)], prog_name="jaxgadget")


def strict(text: str) -> dict[str, Any]:
    """Parse JSON, rejecting NaN and Infinity."""
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def record(result: Result) -> dict[str, Any]:
    """The JSON record that is the whole output of a command."""
    assert (result.exit_code, result.stderr) == (0, "")
    return strict(result.stdout)


def run_to_json(*arguments: object) -> dict[str, Any]:
    """Run a command with `--json -`; returns the record, whatever standard error holds."""
    result = run(*arguments, "--json", "-")
    assert result.exit_code == 0, result.stderr
    return strict(result.stdout)


def words(text: str) -> str:
    """Text without line breaks and frames."""
    return re.sub(r"[│╭╮╰╯─\s]+", " ", text)


def changed(arguments: tuple[object, ...], option: str, value: object) -> tuple[object, ...]:
    """The arguments with one option's value replaced."""
    place = arguments.index(option) + 1
    return (*arguments[:place], value, *arguments[place + 1 :])
