"""Test data for a sweep's workers: a user-defined prior and game, and a prior that kills its process."""

import dataclasses
import os
import pathlib
import signal
import time
from typing import Any, ClassVar

import jax
import pandas as pd
from pandas.testing import assert_frame_equal

from jaxgadget import UniformPrior
from jaxgadget.games.stepwise import Rules, Step
from jaxgadget.sweeping.store import TIMES


@dataclasses.dataclass(frozen=True)
class Tilted(UniformPrior):
    """A prior that weights infostates unequally."""

    share: float = 0.5
    name: ClassVar[str] = "tilted"

    def follow(self, ranges: Any) -> jax.Array:
        return super().follow(ranges) * (2 * self.share)


@dataclasses.dataclass(frozen=True)
class Deadly(UniformPrior):
    """Kills the first process that resolves it, unless a file exists; others wait while another one lives."""

    path: str = ""
    others_wait: str = ""
    name: ClassVar[str] = "deadly"

    def follow(self, ranges: Any) -> jax.Array:
        try:
            pathlib.Path(self.path).touch(exist_ok=False)
        except FileExistsError:
            while self.others_wait and pathlib.Path(self.others_wait).exists():
                time.sleep(0.01)
            return super().follow(ranges)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


@dataclasses.dataclass(frozen=True)
class Pennies(Rules[str]):
    """Each player shows a side of a coin; the winner of heads gets the prize."""

    prize: float = 2.0
    baggage: Any = None
    name: ClassVar[str] = "crew_pennies"
    actions: ClassVar[tuple[str, ...]] = ("heads", "tails")

    def initial_state(self) -> str:
        return ""

    def actors(self, state: str) -> tuple[int, ...]:
        return () if len(state) == 2 else (len(state),)

    def legal_actions(self, state: str, player: int) -> tuple[int, ...]:
        return (0, 1)

    def step(self, state: str, move: Any) -> Step[str]:
        after = state + "ht"[move]
        if len(after) < 2:
            return Step(after)
        return Step(after, reward=self.prize if after == "hh" else 1.0 if after == "tt" else -1.0)


def several(**changes: Any) -> dict[str, Any]:
    """Arguments of a sweep of eight pieces, with a user-defined prior and game."""
    asked: dict[str, Any] = {"games": {"kuhn_poker": "depth:1", Pennies(): "depth:1"}, "iterations": [4, 6]}
    asked |= {"blueprints": ["uniform", "cfr:3"], "blueprints_at_once": 1, "players": 0}
    return asked | {"gadgets": "resolving", "priors": [Tilted(0.1), UniformPrior()]} | changes


def assert_same_rows(rows: pd.DataFrame, expected: pd.DataFrame) -> None:
    """Compare to the last bit, except times."""
    times = list(TIMES)
    assert_frame_equal(rows.drop(columns=times), expected.drop(columns=times), check_exact=True)
