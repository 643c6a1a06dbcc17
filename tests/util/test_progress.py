"""The progress bar, the log lines that replace it without a terminal, and estimates of the remaining time."""

import io
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


def test_earlier_progress_does_not_count_as_speed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """Nine tenths exist already; a twentieth then takes a minute, and so does the rest."""
    times = iter([100.0, 100.0, 160.0])
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(times))
    with progress_bar("sweep", 1000, True, coarse=True) as report:
        report(900)
        report(950)
    text = capsys.readouterr().err
    assert "sweep" in text and "95%" in text and "0:01:00" in text


@pytest.mark.usefixtures("capsys")
def test_threads_share_one_bar(monkeypatch: pytest.MonkeyPatch):
    """A worker thread reports while the main thread opens the bar."""
    opened = list[threading.Thread]()

    class Slow(progress.Progress):
        def start(self) -> None:
            opened.append(threading.current_thread())
            if len(opened) == 1:
                other.start()
                other.join(0.1)  # ends at once if it does not wait
            super().start()

    monkeypatch.setattr(progress, "Progress", Slow)
    with progress_bar("solving", 10, True, coarse=True) as report:
        other = threading.Thread(target=report, args=(2,))
        report(1)
        other.join(60)
    assert opened == [threading.main_thread()]


# --- lines in a log -----------------------------------------------------------------------


class Clock:
    """A clock that advances on request."""

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
    """At least ten seconds apart; a minute also passes without any report."""
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


class Log(io.StringIO):
    """Signals when a line is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def flush(self) -> None:
        self.written.set()


@pytest.mark.usefixtures("_a_log")
def test_a_log_is_written_while_nothing_is_reported(monkeypatch: pytest.MonkeyPatch):
    """By a thread that ends with the work."""
    log, others = Log(), set(threading.enumerate())  # of earlier tests, which may end at any time
    monkeypatch.setattr(sys, "stderr", log)
    monkeypatch.setattr(progress, "MINUTE", 0.01)
    with progress_bar("long step", 10, True) as report:
        report(3)
        assert log.written.wait(60)
        (writer,) = set(threading.enumerate()) - others
    assert not writer.is_alive()
    assert log.getvalue().startswith("long step: ") and "/10 (" in log.getvalue()


@pytest.mark.usefixtures("_a_log")
def test_lines_are_written_only_on_request(clock: Clock, capsys: pytest.CaptureFixture[str]):
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
