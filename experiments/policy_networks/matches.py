"""Matches of a network with search against the same network without, in games that are not enumerated.

Every search is from a public state, with a critic of the network at the limit, in a process of its own whose
memory is measured and whose trees may take `MEMORY`.
"""

from __future__ import annotations

import functools
import time
from typing import Any

import pandas as pd

from experiments.common import peak_bytes, titled
from experiments.policy_networks.common import SMALL, SMALL_STEPS, critic_of, goofspiel, train
from experiments.study import Settings, apart
from jaxgadget import BlueprintPrior, MaxMargin, NoPrior, Resolving, Solver, Unsafe, enable_compilation_cache
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.policy.matches import play_players
from jaxgadget.policy.positions import StatePositions
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


def liars_dice(sides: int) -> str:
    """Liar's Dice with two dice a player."""
    return f"liars_dice(dice_sides={sides},numdice=2)"


HOW = {"steps": 40_000, "critic_steps": 10_000, "entries": 2, "iterations": 500, "matches": 20}

GAMES: dict[str, tuple[str, ...]] = {
    goofspiel(8): ("resolving",),
    liars_dice(6): ("resolving",),
    goofspiel(7): ("unsafe", "resolving", "max-margin"),
    liars_dice(4): ("unsafe", "resolving", "max-margin"),
}
"""Gadgets in each game; the last two games are those of Kubíček et al. (2026), B.3 and B.4."""

SMOKE = {"steps": SMALL_STEPS, "critic_steps": SMALL_STEPS, "entries": 2, "iterations": 10, "matches": 2}


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game and gadget."""
    keys = [
        {"game": game, "search": search, **settings.pick(HOW, SMOKE)}
        for game, searches in settings.pick(GAMES, {SMALL: ("resolving",)}).items()
        for search in searches
    ]
    return settings.gather(NAME, keys, functools.partial(measure, settings))


def measure(settings: Settings, key: dict[str, Any]) -> pd.DataFrame:
    """Matches of one gadget in one game."""
    apart(settings, prepare, settings, key)
    return apart(settings, play, settings, key)


def prepare(settings: Settings, key: dict[str, Any]) -> None:
    """Trains the network and its critic, unless that is done."""
    enable_compilation_cache()
    network = train(settings, key["game"], "PPO", key["steps"]).policy
    critic_of(settings, network, key["entries"], key["critic_steps"])


class Timed:
    """A `StatePlayer` that searches, and the seconds of its searches.

    Attributes:
      player: the player.
      seconds: of each step with searches, per search; the first one is from the root of the game.
    """

    def __init__(self, player: SearchPlayer):
        self.player, self.seconds = player, list[float]()

    @property
    def searches(self) -> int:
        """Number of public states searched, in both seats."""
        return sum(map(self.player.searches, (0, 1)))

    def state_probabilities(self, games: StatePositions, player: int) -> FloatArray:
        """Those of the player."""
        before, began = self.searches, time.perf_counter()
        probabilities = self.player.state_probabilities(games, player)
        if new := self.searches - before:
            self.seconds.append((time.perf_counter() - began) / new)
        return probabilities


def play(settings: Settings, key: dict[str, Any]) -> pd.DataFrame:
    """Matches, and the time and memory of the searches."""
    enable_compilation_cache()
    network = train(settings, key["game"], "PPO", key["steps"]).policy
    critic = critic_of(settings, network, key["entries"], key["critic_steps"])
    solver = Solver(iterations=key["iterations"], memory_limit=MEMORY, progress=False)
    player = Timed(SearchPlayer(network, SEARCHES[key["search"]], values=critic, solver=solver))
    began = time.process_time()
    played = play_players(
        network.machine,
        {"search": player, "network": network},
        matches=key["matches"],
        seed=SEED,
        pairs=[("search", "network")],
        baseline=critic.baseline,
    )
    seconds = time.process_time() - began
    row = played.table.iloc[0]
    names = ["win_rate", "ci95", "mean_return", "return_ci95", "adjusted_return", "adjusted_ci95"]
    measured = {
        "searches": player.searches,
        "processor_seconds": seconds,
        "seconds_largest": max(player.seconds),
        "GiB": peak_bytes() / 2**30,
    }
    return pd.DataFrame([key | {name: row[name] for name in names} | measured])


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Mean returns of search against the network, with 95 % intervals; processor seconds and memory.

    Returns without luck are those minus the luck that the critic sees (AIVAT): their expectation is the same.
    A search is of a public state that was not searched before in the matches; a game has one for each of the
    player's decisions, of which matches share some.
    """
    return pd.DataFrame(
        {
            "game": frame["game"].map(titled),
            "search": frame["search"],
            "matches": frame["matches"],
            "return": interval(frame, "mean_return", "return_ci95"),
            "without luck": interval(frame, "adjusted_return", "adjusted_ci95"),
            "iterations": frame["iterations"],
            "searches": frame["searches"],
            "processor s a search": frame["processor_seconds"] / frame["searches"],
            "longest s": frame["seconds_largest"],
            "peak GiB": frame["GiB"],
        }
    )


def interval(frame: pd.DataFrame, mean: str, half: str) -> list[str]:
    """Means with half widths."""
    return [f"{m:+.2g} ± {h:.2g}" for m, h in zip(frame[mean], frame[half], strict=True)]
