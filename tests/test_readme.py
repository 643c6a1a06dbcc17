"""The README's programs run as they stand."""

import pathlib
import re

import pytest

README = pathlib.Path(__file__).parents[1] / "README.md"
PROGRAMS = re.findall(r"^```python\n(.*?)^```", README.read_text(), flags=re.MULTILINE | re.DOTALL)


def test_there_are_programs():
    assert len(PROGRAMS) >= 1


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_program_runs(program, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "README.md", "exec"), {"__name__": "readme"})
    assert re.search(r"\d\.\d", capsys.readouterr().out), "it prints numbers"
