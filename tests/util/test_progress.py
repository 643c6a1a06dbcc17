"""The progress bar, and how much time it says is left."""

import re

import pytest

from jaxgadget.util import progress
from jaxgadget.util.progress import progress_bar, time_left


def test_time_left():
    assert time_left(10, 5, 20) == "0:00:40"
    assert time_left(60, 1, 90) == "1:30:00"
    assert time_left(10, 5, 0) == "0:00:00"
    assert time_left(0, 0, 20) == time_left(5, 0, 20) == "-:--:--"


@pytest.fixture(autouse=True)
def _a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")


def test_what_was_done_before_does_not_count_as_speed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """Nine tenths are there; a twentieth then takes a minute, and so does the other one."""
    times = iter([100.0, 100.0, 160.0])
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(times))
    with progress_bar("sweep", 1000, True, coarse=True) as report:
        report(900)
        report(950)
    text = capsys.readouterr().err
    assert "sweep" in text and "95%" in text and "0:01:00" in text


def test_a_coarse_bar_is_there_at_once_and_others_wait(capsys: pytest.CaptureFixture[str]):
    with progress_bar("waits", 10, True) as report:
        report(1)
    assert "waits" not in capsys.readouterr().err
    with progress_bar("comes", 10, True, coarse=True) as report:
        report(10)
    assert "comes" not in capsys.readouterr().err, "there is nothing to do"
    with progress_bar("comes", 10, True, coarse=True) as report:
        report(0)
    assert re.search(r"comes.*0%.*-:--:--", capsys.readouterr().err)


def test_nobody_watches(capsys: pytest.CaptureFixture[str]):
    with progress_bar("hidden", 10, False, coarse=True) as report:
        report(3)
    assert capsys.readouterr().err == ""


def test_in_a_notebook_the_browser_draws_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """Shown, changed and taken away again, with the time left; rich is not asked."""
    import IPython.display

    said: list[str] = []

    class Handle:
        def display(self, shown: IPython.display.HTML) -> None:
            said.append(f"new {shown.data}")

        def update(self, shown: IPython.display.HTML) -> None:
            said.append(shown.data)

    times = iter([100.0, 101.0, 161.0, 161.1, 200.0])
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(times))
    monkeypatch.setattr(IPython.display, "DisplayHandle", Handle)

    class Notebook(progress.Console):
        is_jupyter = property(lambda self: True, lambda self, value: None)

    monkeypatch.setattr(progress, "Console", Notebook)
    with progress_bar("a < b", 100, True) as report:
        for done in (10, 55, 56, 100):
            report(done)
    assert said == [
        'new a &lt; b <progress value="55" max="100"></progress> 55% 0:01:00',
        'a &lt; b <progress value="100" max="100"></progress> 100% 0:00:00',
        "",
    ]
    assert capsys.readouterr().err == ""
