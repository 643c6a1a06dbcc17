"""How studies run: resumed pieces, data with every digit, updates of derived data, tables."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import types
from typing import Any

import numpy as np
import pandas as pd
import pytest

from experiments.__main__ import STUDIES, main
from experiments.study import Settings, Study


def settings_in(folder: pathlib.Path, ending: str = "parquet") -> Settings:
    return Settings(folder=folder, work=folder / "work", progress=False, ending=ending)


def test_an_interrupted_experiment_resumes(tmp_path: pathlib.Path):
    settings, asked = settings_in(tmp_path), list[int]()

    def compute(key: dict[str, Any]) -> pd.DataFrame:
        asked.append(key["number"])
        if asked == [0, 1]:
            raise KeyboardInterrupt
        return pd.DataFrame({"square": [key["number"] ** 2]})

    keys = [{"number": number} for number in range(3)]
    with pytest.raises(KeyboardInterrupt):
        settings.gather("squares", keys, compute)
    assert settings.gather("squares", keys, compute)["square"].tolist() == [0, 1, 4]
    assert asked == [0, 1, 1, 2]
    settings.gather("squares", [*keys, {"number": 0, "unit": "m"}], compute)
    assert asked == [0, 1, 1, 2, 0], "another key is another piece"
    settings.gather("cubes", keys[:1], compute)
    assert asked == [0, 1, 1, 2, 0, 0], "and so is another experiment's"


def test_rows_of_the_data_are_not_computed_again(tmp_path: pathlib.Path):
    settings, asked = settings_in(tmp_path), list[dict[str, Any]]()
    data = pd.DataFrame({"rule": ["a", "a", "b"], "count": [1, 2, 1], "value": [0.1, 0.2, 0.3]})
    settings.keep("values", data)

    def compute(key: dict[str, Any]) -> pd.DataFrame:
        asked.append(key)
        return pd.DataFrame({"rule": key["rule"], "count": key["count"], "value": 7.0})

    keys = [{"rule": rule, "count": [1, 2]} for rule in "ab"]
    rows = settings.gather("values", keys, compute)
    assert asked == [keys[1]], "b lacks a row"
    assert rows["value"].tolist() == [0.1, 0.2, 7.0, 7.0]
    settings.gather("values", [{"rule": "a", "count": [1], "seed": 0}], compute)
    assert asked[1:] == [{"rule": "a", "count": [1], "seed": 0}], "the data do not tell seeds"


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_data_keep_every_digit(tmp_path: pathlib.Path, ending: str):
    settings = settings_in(tmp_path, ending)
    assert settings.data("numbers") is None
    numbers = np.random.default_rng(0).normal(size=200) * 10.0 ** np.arange(-100, 100)
    settings.keep("numbers", pd.DataFrame({"value": numbers, "name": "x"}))
    assert settings.data_of("numbers", "this test")["value"].tolist() == numbers.tolist()
    with pytest.raises(ValueError, match="needs the data of squares"):
        settings.data_of("squares", "sums")


def experiment(name: str, source: str | None = None) -> Any:
    """An experiment with one number, derived from another experiment if there is a `source`."""

    def compute(settings: Settings) -> pd.DataFrame:
        value = 1 + settings.data_of(source, name)["value"] if source else settings.pick([3.0], [1.0])
        return pd.DataFrame({"value": value})

    def summarise(frame: pd.DataFrame) -> pd.DataFrame:
        """A number."""
        return frame

    return types.SimpleNamespace(NAME=name, compute=compute, summarise=summarise)


def study_in(folder: pathlib.Path) -> Study:
    return Study(
        name="numbers",
        description="Numbers.",
        folder=folder,
        experiments=(experiment("first"), experiment("next", "first"), experiment("slow")),
        derived={"next": ("first",)},
        only_by_name=frozenset({"slow"}),
    )


def test_a_study_runs_the_selected_and_derived_experiments(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
):
    study = study_in(tmp_path)
    study.main([])
    assert (tmp_path / "tables.md").read_text(encoding="utf-8") == (
        "# Tables\n\nWritten by `python -m experiments.numbers`; what they show is in `README.md`.\n"
        "\n## first\n\nA number.\n\n| value |\n| --- |\n| 3 |\n"
        "\n## next\n\nA number.\n\n| value |\n| --- |\n| 4 |\n"
    )
    settings = study.settings()
    settings.keep("first", pd.DataFrame({"value": [10.0]}))
    study.main(["next", "--redraw"])
    assert settings.data_of("next", "this test")["value"].tolist() == [4.0], "drawn only"
    study.main(["next"])
    assert settings.data_of("next", "this test")["value"].tolist() == [11.0]
    study.main(["first"])
    assert settings.data_of("next", "this test")["value"].tolist() == [4.0], "it follows from first"
    study.main(["slow", "--smoke", "--folder", str(tmp_path / "smoke")])
    assert (tmp_path / "smoke" / "data" / "slow.parquet").exists() and settings.data("slow") is None
    with pytest.raises(SystemExit, match="slow: there are no data"):
        study.main(["slow", "--redraw"])
    capsys.readouterr()
    study.main(["first", "--redraw", "--report", str(tmp_path / "page.html")])
    assert "numbers: first" in (tmp_path / "page.html").read_text(encoding="utf-8")
    with pytest.raises(SystemExit):
        study.main(["--report", str(tmp_path / "page.html")])
    assert "--report with 0 names; expected one" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        study.main(["last"])
    assert "unknown: last; expected some of first, next, slow" in capsys.readouterr().err


def test_a_smoke_test_leaves_the_real_data_alone(tmp_path: pathlib.Path):
    settings = study_in(tmp_path).settings(smoke=True)
    assert settings.smoke and tmp_path not in settings.folder.parents
    assert settings.folder in settings.work.parents


def test_all_studies_are_behind_one_command():
    first = ("architecture", "continuation", "convergence", "decomposition", "holdem", "knowledge")
    assert (
        *first,
        "nested",
        "off_tree",
        "opponents",
        "performance",
        "policy_networks",
        "refinements",
    ) == STUDIES
    with pytest.raises(SystemExit, match=r"unknown: speed; expected one of architecture, continuation"):
        main(["speed"])
    with pytest.raises(SystemExit, match="no study is named"):
        main([])
    command = [sys.executable, "-m", "experiments", "refinements", "--help"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert re.search(r"--smoke .*\n *--redraw .*\n *--folder", printed)
