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


def test_where_names_cannot_break_further_columns_are_closer_together(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    numbers = ("ε", "before", "nested", "largest\ngap", "searches", "seconds")
    table = make_table("blueprint", "gadget", "prior", *numbers, right=numbers, fold="blueprint")
    row = ("cfr:10", "max-margin", "blueprint", "0.02", "0.06583", "0.00302", "0.00015", "10", "1.31")
    table.add_row(*row)
    show(table, [])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert tuple(lines[-2].split()) == row
