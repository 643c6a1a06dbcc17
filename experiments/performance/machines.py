"""Random legal play of state machines, compiled, and of other libraries: steps and games a second."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from experiments.performance.machine import best_seconds
from experiments.study import Settings
from jaxgadget.games.game import ACTOR_BIT, CHANCE, TERMINAL
from jaxgadget.games.machine import StateMachine
from jaxgadget.games.registry import load
from jaxgadget.learn import rollouts
from jaxgadget.util.precision import numpy_promotion, precision

NAME = "machines"

GAMES = (
    "kuhn_poker",
    "leduc_poker",
    "goofspiel(imp_info=True,num_cards=7,points_order=descending)",
    "goofspiel",
    "liars_dice",
    "liars_dice(numdice=2)",
    "dark_hex",
    "phantom_ttt",
)
PGX = {"kuhn_poker": "kuhn_poker", "leduc_poker": "leduc_holdem"}
"""Pgx's names of these games. Cards are dealt before the first step, so its games have fewer steps."""

Rates: TypeAlias = tuple[float, float]
"""Steps and games a second."""


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, library and number of lanes; OpenSpiel plays one game at a time."""
    seconds = settings.pick(3.0, 0.02)
    rows: list[tuple[str, str, int, float, float]] = []
    for game in settings.pick(GAMES, GAMES[:1]):
        for library, lanes, measure in _measurements(game, settings.pick((256, 4096), (4,))):
            rows.append((game, library, lanes, *measure(seconds)))
    return pd.DataFrame(rows, columns=["game", "library", "lanes", "steps_per_second", "games_per_second"])


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Games a second as a multiple of OpenSpiel's loop in C++."""
    wide = frame.assign(kind=frame.library + " " + frame.lanes.astype(str))
    games = wide.pivot(index="game", columns="kind", values="games_per_second")
    return games.div(games["OpenSpiel C++ 1"], axis=0).reset_index()


def _measurements(game: str, lanes: tuple[int, ...]) -> Iterator[tuple[str, int, Callable[[float], Rates]]]:
    machine = load(game)
    assert isinstance(machine, StateMachine)
    for n in lanes:
        yield "jaxgadget", n, lambda seconds, n=n: _play(machine, n, seconds)
    yield "OpenSpiel C++", 1, lambda seconds: _play_openspiel(game, seconds)
    yield "OpenSpiel Python", 1, lambda seconds: _play_openspiel_in_python(game, seconds)
    if game in PGX and importlib.util.find_spec("pgx") is not None:
        for n in lanes:
            yield "Pgx", n, lambda seconds, n=n: _play_pgx(PGX[game], n, seconds)


def _rates(run: Callable[[int], tuple[jax.Array, jax.Array]], lanes: int, seconds: float) -> Rates:
    """Rates of a program that makes a number of steps in all lanes, and counts the games that end."""
    spent, steps = best_seconds(run, seconds)
    return lanes * steps / spent, float(run(steps)[0]) / spent


def _play(machine: StateMachine[Any], lanes: int, seconds: float) -> Rates:
    """Random play of `lanes` games at a time; where one ends, the next one begins."""

    @jax.jit
    def run(steps: jax.Array) -> tuple[jax.Array, jax.Array]:
        start = machine.start(lanes, jnp)

        def step(number: jax.Array, carry: Any) -> Any:
            state, ended, won = carry
            uniform = jax.random.uniform(jax.random.key(number), (3, lanes))
            actor = machine.actor(state)
            moves = [
                jnp.where((actor & bit) > 0, rollouts.draw(machine.legal(state, player), uniform[player]), -1)
                for player, bit in enumerate(ACTOR_BIT)
            ]
            outcome = jnp.full(lanes, -1)
            if machine.num_outcomes:
                outcome = jnp.where(actor == CHANCE, rollouts.draw(machine.chance(state), uniform[2]), -1)
            after, _ = machine.step(state, jnp.stack([*moves, outcome]))
            is_over = machine.actor(after) == TERMINAL
            won = won + jnp.where(is_over, machine.returns(after)[0], 0).sum()
            state = jax.tree.map(
                lambda first, new: jnp.where(is_over, first, new).astype(first.dtype), start, after
            )
            return state, ended + is_over.sum(), won

        return jax.lax.fori_loop(0, steps, step, (start, jnp.int32(0), jnp.float32(0)))[1:]

    with precision(np.float32), numpy_promotion():
        return _rates(lambda steps: run(jnp.int32(steps)), lanes, seconds)


def _play_pgx(name: str, lanes: int, seconds: float) -> Rates:
    """The same with Pgx: random legal actions, games that restart where they end."""
    import pgx  # type: ignore[import-not-found]  # optional; not a dependency
    from pgx.experimental.wrappers import auto_reset  # type: ignore[import-not-found]

    env = pgx.make(name)
    step_env = jax.vmap(auto_reset(env.step, env.init))

    @jax.jit
    def run(steps: jax.Array) -> tuple[jax.Array, jax.Array]:
        def step(number: jax.Array, carry: Any) -> Any:
            state, ended, won = carry
            keys = jax.random.split(jax.random.key(number), lanes + 1)
            action = rollouts.draw(state.legal_action_mask.T, jax.random.uniform(keys[0], (lanes,)))
            after = step_env(state, action, keys[1:])
            return after, ended + after.terminated.sum(), won + after.rewards[:, 0].sum()

        start = jax.vmap(env.init)(jax.random.split(jax.random.key(0), lanes))
        return jax.lax.fori_loop(0, steps, step, (start, jnp.int32(0), jnp.float32(0)))[1:]

    with precision(np.float32), numpy_promotion():
        return _rates(lambda steps: run(jnp.int32(steps)), lanes, seconds)


def _play_openspiel(game: str, seconds: float) -> Rates:
    """OpenSpiel's random bots, a call of C++ for each game; steps are games times their mean length."""
    import pyspiel

    root = pyspiel.load_game(game).new_initial_state()
    bots = [pyspiel.make_uniform_random_bot(player, player) for player in (0, 1)]

    def run(games: int) -> int:
        for seed in range(games):
            pyspiel.evaluate_bots(root.clone(), bots, seed)
        return 0

    spent, games = best_seconds(run, seconds)
    length = np.mean([_play_one(root) for _ in range(2_000)])
    return games * float(length) / spent, games / spent


def _play_openspiel_in_python(game: str, seconds: float) -> Rates:
    """The same with a loop in Python."""
    import pyspiel

    root = pyspiel.load_game(game).new_initial_state()
    steps = [0]

    def run(games: int) -> int:
        steps[0] = sum(_play_one(root) for _ in range(games))
        return 0

    spent, games = best_seconds(run, seconds)
    return steps[0] / spent, games / spent


def _play_one(root: Any) -> int:
    """Plays a game of OpenSpiel at random; returns its number of moves."""
    state, moves = root.clone(), 0
    while not state.is_terminal():
        if state.is_chance_node():
            outcomes, chances = zip(*state.chance_outcomes(), strict=True)
            state.apply_action(random.choices(outcomes, chances)[0])
        elif state.is_simultaneous_node():
            state.apply_actions([random.choice(state.legal_actions(player)) for player in (0, 1)])
        else:
            state.apply_action(random.choice(state.legal_actions()))
        moves += 1
    return moves
