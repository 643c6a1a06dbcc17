"""Matches of networks with search against the same networks without, in games that are not enumerated.

Every search is from a public state, with a critic of the network at the limit, in a process of its own whose
memory is measured and whose trees may take `MEMORY`. Where search is not possible, as the public observations
do not tell who acts, the network plays against an earlier one.
"""

from __future__ import annotations

import functools
import math
import time
from typing import Any

import pandas as pd

from experiments.common import peak_bytes, titled
from experiments.policy_networks.common import SMALL, SMALL_STEPS, critic_of, goofspiel, liars_dice, train
from experiments.study import Settings, apart
from jaxgadget import BlueprintPrior, MaxMargin, NoPrior, Resolving, Solver, Unsafe, enable_compilation_cache
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.policy.matches import play_players
from jaxgadget.policy.positions import StatePositions
from jaxgadget.policy.states import StrategyPlayer
from jaxgadget.subgames.search_player import SearchPlayer
from jaxgadget.util.arrays import FloatArray

NAME = "matches"

MEMORY = 4 << 30
"""Bytes of the trees of a player's searches."""

SEED = 0

SEARCHES: dict[str, Gadget] = {
    "unsafe": Unsafe(),
    "resolving": Resolving(BlueprintPrior(), 0.02),
    "max-margin": MaxMargin(NoPrior()),
}

WITHOUT = "none"
"""No search: the network against one with `EARLIER` of its training steps."""

EARLIER = 1 / 10


DARK_HEX = "dark_hex(board_size=3)"

HOW = {"steps": 6_000, "critic_steps": 2_000, "entries": 2, "iterations": 300}

RUNS: tuple[tuple[str, str, int], ...] = (
    (goofspiel(7), "unsafe", 60),
    (goofspiel(7), "resolving", 60),
    (liars_dice(4), "unsafe", 100),
    (liars_dice(4), "resolving", 100),
    (liars_dice(6), "resolving", 5),
    (goofspiel(8), "resolving", 3),
    (goofspiel(9), "resolving", 2),
    (DARK_HEX, WITHOUT, 10_000),
    (liars_dice(4), "max-margin", 100),
    (goofspiel(7), "max-margin", 60),
)
"""Game, gadget and number of matches; B.3 and B.4 of Kubíček et al. (2026) have the first two games."""

SMOKE = {"steps": SMALL_STEPS, "critic_steps": SMALL_STEPS, "entries": 2, "iterations": 10}


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game and gadget."""
    keys = [
        {"game": game, "search": search, **settings.pick(HOW, SMOKE), "matches": matches}
        for game, search, matches in settings.pick(RUNS, ((SMALL, "resolving", 2), (SMALL, WITHOUT, 2)))
    ]
    return settings.gather(NAME, keys, functools.partial(measure, settings))


def measure(settings: Settings, key: dict[str, Any]) -> pd.DataFrame:
    """Matches of one gadget in one game."""
    apart(settings, prepare, settings, key)
    return apart(settings, play, settings, key)


def prepare(settings: Settings, key: dict[str, Any]) -> None:
    """Trains the networks and the critic, unless that is done."""
    enable_compilation_cache()
    network = train(settings, key["game"], "PPO", key["steps"]).policy
    if key["search"] == WITHOUT:
        train(settings, key["game"], "PPO", earlier(key))
    else:
        critic_of(settings, network, key["entries"], key["critic_steps"])


def earlier(key: dict[str, Any]) -> int:
    """Training steps of the earlier network."""
    return math.ceil(EARLIER * key["steps"])


class Timed:
    """A `StatePlayer`, and the processor seconds of its moves.

    Attributes:
      player: the player.
      moves: number of its moves at different positions.
      total: seconds of all moves.
      longest: seconds of the longest step, divided by its number of searches, or of moves without search.
    """

    def __init__(self, player: SearchPlayer | StrategyPlayer):
        self.player, self.moves, self.total, self.longest = player, 0, 0.0, 0.0

    @property
    def searches(self) -> int:
        """Number of public states searched, in both seats."""
        return sum(map(self.player.searches, (0, 1))) if isinstance(self.player, SearchPlayer) else 0

    @property
    def skipped(self) -> int:
        """Number of public states at which the blueprint was played, as a search did not fit."""
        return sum(map(self.player.skipped, (0, 1))) if isinstance(self.player, SearchPlayer) else 0

    def state_probabilities(self, games: StatePositions, player: int) -> FloatArray:
        """Those of the player."""
        before, began = self.searches, time.process_time()
        probabilities = self.player.state_probabilities(games, player)
        seconds, new = time.process_time() - began, self.searches - before
        self.moves += len(probabilities)
        self.total += seconds
        self.longest = max(self.longest, seconds / (new or len(probabilities)))
        return probabilities


def play(settings: Settings, key: dict[str, Any]) -> pd.DataFrame:
    """Matches, and the time and memory of the searches."""
    enable_compilation_cache()
    network = train(settings, key["game"], "PPO", key["steps"]).policy
    if key["search"] == WITHOUT:
        player, baseline = Timed(StrategyPlayer(network)), None
        other = train(settings, key["game"], "PPO", earlier(key)).policy
    else:
        critic = critic_of(settings, network, key["entries"], key["critic_steps"])
        solver = Solver(iterations=key["iterations"], memory_limit=MEMORY, progress=False)
        search = SearchPlayer(
            network, SEARCHES[key["search"]], values=critic, skip_too_large=True, solver=solver
        )
        player, baseline, other = Timed(search), critic.baseline, network
    played = play_players(
        network.machine,
        {"first": player, "other": other},
        matches=key["matches"],
        seed=SEED,
        pairs=[("first", "other")],
        baseline=baseline,
    )
    row = played.table.iloc[0]
    names = ["win_rate", "ci95", "mean_return", "return_ci95", "adjusted_return", "adjusted_ci95"]
    measured = {
        "moves": player.moves,
        "searches": player.searches,
        "skipped": player.skipped,
        "processor_seconds": player.total,
        "seconds_largest": player.longest,
        "GiB": peak_bytes() / 2**30,
    }
    return pd.DataFrame([key | {name: row.get(name, math.nan) for name in names} | measured])


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Mean returns with 95 % intervals, of search against the network without; time and memory.

    Without search ("none") the network plays against itself after a tenth of its training. Returns without
    luck are those minus the luck that the critic sees (AIVAT): their expectation is the same. Processor
    seconds are those of a search, the mean and the longest; without search, of a move. A search is of a
    public state that was not searched before in the matches, of which matches share some. Where a search did
    not fit into the memory, and below, the network was played.
    """
    searched = frame["searches"] > 0
    seconds = frame["processor_seconds"] / frame["searches"].where(searched, frame["moves"])
    return pd.DataFrame(
        {
            "game": frame["game"].map(titled),
            "search": frame["search"],
            "matches": frame["matches"],
            "return": interval(frame, "mean_return", "return_ci95"),
            "without luck": interval(frame, "adjusted_return", "adjusted_ci95"),
            "moves": frame["moves"],
            "searches": frame["searches"],
            "did not fit": frame["skipped"],
            "processor s": seconds,
            "longest": frame["seconds_largest"],
            "peak GiB": frame["GiB"],
        }
    )


def interval(frame: pd.DataFrame, mean: str, half: str) -> list[str]:
    """Means with half widths, empty where there are none."""
    pairs = zip(frame[mean], frame[half], strict=True)
    return ["" if math.isnan(m) else f"{m:+.2g} ± {h:.2g}" for m, h in pairs]
