"""Tables are printed whole."""

from __future__ import annotations

import pytest

from jaxgadget.report.output import show
from jaxgadget.report.tables import make_table


def test_a_table_too_wide_breaks_names_and_no_numbers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    numbers = [f"{k}.234567890" for k in range(4)]
    table = make_table("name", *map(str, range(4)), right=map(str, range(4)), fold="name")
    table.add_row("a name of many letters", *numbers)
    show(table, [])
    lines = capsys.readouterr().out.splitlines()
    assert "…" not in "".join(lines)
    assert all(any(number in line for line in lines) for number in numbers)
    assert "anameofmanyletters" in "".join(line[:12] for line in lines[2:]).replace(" ", "")
