"""The programs of the README and of the documentation run unchanged."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PROGRAMS = {
    f"{path.relative_to(ROOT).with_suffix('').as_posix()}-{number}": program
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    for number, program in enumerate(
        re.findall(r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    )
}


def test_there_are_programs() -> None:
    assert len(PROGRAMS) >= 6 and "README-0" in PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_runs(
    name: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(PROGRAMS[name], name, "exec"), {"__name__": "__main__"})
    if name.startswith("README"):
        assert re.search(r"\d\.\d", capsys.readouterr().out), "it prints numbers"
