"""The progress bar, the lines in its place where nobody watches, and how much time they say is left."""

import io
import re
import sys
import threading

import pytest

from jaxgadget.util import progress
from jaxgadget.util.progress import LogLines, progress_bar, time_left


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


# --- lines in a log -----------------------------------------------------------------------


class Clock:
    """Stands still until it is told to go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.now = 1000.0
        monkeypatch.setattr(progress.time, "perf_counter", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def _a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR")
    monkeypatch.setenv("TTY_COMPATIBLE", "0")


def test_a_line_a_minute_or_for_every_tenth(clock: Clock, capsys: pytest.CaptureFixture[str]):
    """Never two within ten seconds; a minute passes also while nothing is reported."""
    lines = LogLines("sweep", 1000, coarse=True)

    def after(seconds: float, done: int | None) -> str:
        clock.now = 1000.0 + seconds
        assert 0 <= (lines.look() if done is None else lines.report(done) or 0) <= 60
        return capsys.readouterr().err

    assert after(0, 0) == ""
    assert after(9, 150) == ""
    assert after(11, 151) == "sweep: 15%, 0:00:11 so far, 0:01:02 left\n"
    assert after(30, 199) == ""
    assert after(70, None) == ""
    assert after(71, None) == "sweep: 20%, 0:01:11 so far, 0:04:46 left\n"
    assert after(72, 200) == ""
    assert after(82, 200) == "sweep: 20%, 0:01:22 so far, 0:05:28 left\n"
    assert after(100, 1000) == "sweep: 100%, 0:01:40 so far\n"
    lines.end()
    assert capsys.readouterr().err == ""


def test_a_line_says_when_the_next_is_due(clock: Clock):
    lines = LogLines("sweep", 10)
    assert lines.look() == 60
    clock.now += 45
    assert lines.look() == 15
    clock.now += 15
    assert lines.look() == 60


def test_what_was_done_before_is_no_news_to_a_log(clock: Clock, capsys: pytest.CaptureFixture[str]):
    lines = LogLines("sweep", 1000)
    clock.now += 15
    lines.report(900)
    assert capsys.readouterr().err == ""
    clock.now += 60
    lines.report(950)
    assert capsys.readouterr().err == "sweep: 950/1000 (95%), 0:01:15 so far, 0:01:00 left\n"


def test_a_log_says_how_it_ended(clock: Clock, capsys: pytest.CaptureFixture[str]):
    quick, slow = LogLines("quick", 10), LogLines("slow", 10)
    for lines, seconds in ((quick, 3), (slow, 30)):
        lines.report(0)
        clock.now += seconds
        lines.report(9)
        clock.now += 1
        lines.report(10)
        lines.end()
    assert capsys.readouterr().err.splitlines() == [
        "slow: 9/10 (90%), 0:00:34 so far, 0:00:03 left",
        "slow: 10/10 (100%), 0:00:35 so far",
    ]


class Log(io.StringIO):
    """Tells when something is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def flush(self) -> None:
        self.written.set()


@pytest.mark.usefixtures("_a_log")
def test_a_log_is_written_while_nothing_is_reported(monkeypatch: pytest.MonkeyPatch):
    """By a thread, which ends with the work."""
    log, threads = Log(), threading.active_count()
    monkeypatch.setattr(sys, "stderr", log)
    monkeypatch.setattr(progress, "MINUTE", 0.01)
    with progress_bar("long step", 10, True) as report:
        report(3)
        assert log.written.wait(60)
        assert threading.active_count() == threads + 1
    assert threading.active_count() == threads
    assert log.getvalue().startswith("long step: ") and "/10 (" in log.getvalue()


@pytest.mark.usefixtures("_a_log")
def test_lines_are_written_only_where_they_are_asked_for(clock: Clock, capsys: pytest.CaptureFixture[str]):
    for show, seen in (
        (None, ""),
        (False, ""),
        (True, "solving: 5/10 (50%), 0:00:20 so far, 0:00:20 left\n"),
    ):
        with progress_bar("solving", 10, show) as report:
            report(0)
            clock.now += 20
            report(5)
        assert capsys.readouterr().err == seen


def test_a_terminal_that_cannot_draw_gets_lines(
    clock: Clock, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TERM", "dumb")
    with progress_bar("solving", 10, True) as report:
        report(0)
        clock.now += 20
        report(10)
    assert capsys.readouterr().err == "solving: 10/10 (100%), 0:00:20 so far\n"


def test_a_full_log_does_not_end_the_work(clock: Clock, monkeypatch: pytest.MonkeyPatch):
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    lines = LogLines("solving", 10)
    lines.report(0)
    clock.now += 20
    monkeypatch.setattr(sys, "stderr", Full())
    lines.report(5)
    lines.end()
