"""Memory and time of search from public states: `python -m experiments.performance.searches [GAME …]`.

A player that searches plays one match against its blueprint, a network. Each of its moves is a row: sizes of
the search, processor time and seconds, and the largest memory of the process so far. The networks are not
trained, as training changes neither sizes nor times. Each game is played in a process of its own.
"""

from __future__ import annotations

import argparse
import dataclasses
import multiprocessing
import resource
import time
from typing import Any

import numpy as np
import pandas as pd

import jaxgadget as jg
from jaxgadget.learn.critic import train_critic
from jaxgadget.learn.options import TrainerConfig
from jaxgadget.networks.perceptron import initial_weights
from jaxgadget.policy.network import NetworkPolicy, find_machine, policy_shape
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.precision import precision

GAMES = (
    "goofspiel(num_cards=9,imp_info=True,points_order=descending)",
    "liars_dice(numdice=2,dice_sides=6)",
)
WIDTH = 256
"""Units of a layer of the network and the critic, of three layers each."""


@dataclasses.dataclass
class Timed:
    """A `StatePlayer` that records the sizes, times and memory of each search of another one."""

    search: jg.SearchPlayer
    rows: list[dict[str, Any]] = dataclasses.field(default_factory=list[dict[str, Any]])

    def state_probabilities(self, games: jg.StatePositions, player: int) -> FloatArray:
        """The other player's answers, game by game."""
        answers: list[FloatArray] = []
        for game in range(games.made.shape[-1]):
            one, searched = games.take(np.array([game])), self.search.searches(player)
            began, seconds = time.process_time(), time.perf_counter()
            answers.append(self.search.state_probabilities(one, player))
            times = {"cpu_seconds": time.process_time() - began, "seconds": time.perf_counter() - seconds}
            is_searched = self.search.searches(player) > searched
            self.rows.append(
                {"game": games.game, "seat": player, "moves": len(games.moves(game)), "searched": is_searched}
                | (_sizes(one, player) if is_searched else {})
                | times
                | {"peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}
            )
        return np.concatenate(answers)


def _sizes(games: jg.StatePositions, player: int) -> dict[str, int]:
    """Histories of a game's public state, and those of the tree from there to the limit."""
    public = jg.find_public_state(games.machine, jg.public_observations(games.machine, games.moves(0)))
    tree = jg.enumerate_from(public, depth=1, player=player)
    return {"consistent": len(public), "histories": tree.num_histories, "leaves": len(tree.leaves)}


def measure(game: str, entries: int, gib: float, iterations: int) -> pd.DataFrame:
    """Plays a match; a row for each move of the searching player."""
    machine = find_machine(jg.load(game))
    shape = policy_shape(machine, WIDTH, 1)
    with precision(np.float32):
        policy = NetworkPolicy(machine=machine, shape=shape, weights=initial_weights(shape, 0))
    config = TrainerConfig(steps=1, batch_size=64, width=WIDTH)
    critic = train_critic(policy, entries, config=config, progress=False).critic
    search = jg.SearchPlayer(
        policy,
        jg.Resolving(epsilon=0.02),
        values=critic,
        skip_too_large=True,
        solver=jg.Solver(iterations=iterations, memory_limit=int(gib * 2**30)),
    )
    timed = Timed(search)
    jg.play_players(machine, {"search": timed, "network": policy}, matches=1, seed=0)
    return pd.DataFrame(timed.rows).convert_dtypes()


def main() -> None:
    """Measures each game and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("games", nargs="*", default=list(GAMES))
    parser.add_argument("--k", type=int, default=4, help="continuations of each player at the limit")
    parser.add_argument("--gib", type=float, default=4.0, help="memory limit of the searches")
    parser.add_argument("--iterations", type=int, default=1000)
    asked = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    for game in asked.games:
        with context.Pool(1) as pool:
            frame = pool.apply(measure, (game, asked.k, asked.gib, asked.iterations))
        print(frame.drop(columns="game").to_string(index=False, float_format="{:.2f}".format))
        print(f"{game}, K = {asked.k}, {asked.iterations} iterations, limit {asked.gib:g} GiB\n")


if __name__ == "__main__":
    main()
