"""The stopwatch, on a fake clock: every second counts once."""

import time

import pytest

from jaxgadget.util import clock
from jaxgadget.util.clock import Stopwatch


class Clock:
    """Advances only by `spend`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.compiled = 100.0, 7.0
        self._patch = monkeypatch
        self.spend(0)

    def spend(self, seconds: float, compiling: float = 0.0) -> None:
        """Let time pass, part of it for compiling."""
        self.now, self.compiled = self.now + seconds, self.compiled + compiling
        self._patch.setattr(time, "perf_counter", lambda: self.now)
        self._patch.setattr(clock._Compiled, "seconds", self.compiled)


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_phases_add_up_and_time_between_them_does_not_count(hands: Clock) -> None:
    watch = Stopwatch()
    for _ in range(2):
        hands.spend(1000)
        with watch.phase("build"):
            hands.spend(3, compiling=1)
        hands.spend(1000)
        with watch.phase("run"):
            hands.spend(10)
    assert watch.seconds == {"build": 4, "compile": 2, "run": 20}


def test_inner_time_counts_once_for_the_inner_phase(hands: Clock) -> None:
    watch = Stopwatch()
    with watch.phase("run"):
        hands.spend(1)
        with watch.phase("build"):
            hands.spend(4, compiling=2)
            with watch.phase("run"):
                hands.spend(8)
            hands.spend(16)
        hands.spend(32, compiling=30)
    assert watch.seconds == {"build": 2 + 16, "compile": 2 + 30, "run": 1 + 8 + 2}


def test_a_failing_phase_is_over(hands: Clock) -> None:
    watch = Stopwatch()
    with pytest.raises(RuntimeError), watch.phase("build"):
        hands.spend(1)
        raise RuntimeError
    hands.spend(1000)
    with watch.phase("run"):
        hands.spend(2)
    assert watch.seconds == {"build": 1, "compile": 0, "run": 2}
