"""All games of a state machine with their probabilities, by recursion over states in NumPy."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgadget.games.game import ACTOR_BIT, CHANCE, TERMINAL
from jaxgadget.games.machine import StateMachine, namespace
from jaxgadget.learn.rollouts import Rollouts
from jaxgadget.util.precision import precision


@dataclasses.dataclass(frozen=True)
class Linear:
    """A policy whose logits are linear in the features, with weights `[2, A, F]`."""

    machine: StateMachine[Any]
    weights: Any

    @classmethod
    def random(cls, machine: StateMachine[Any], seed: int) -> "Linear":
        features = machine.features(machine.start(1, np), 0)
        shape = 2, machine.num_actions, len(features)
        return cls(machine, np.random.default_rng(seed).normal(size=shape))

    def __call__(self, state: Any, player: int) -> Any:
        features, legal = self.machine.features(state, player), self.machine.legal(state, player)
        xp = namespace(features)
        logits = xp.asarray(self.weights[player]) @ features.astype(float)
        odds = xp.where(legal, xp.exp(logits), 0.0)
        return odds / odds.sum(axis=0)


@dataclasses.dataclass(frozen=True)
class Games:
    """All games: as rollouts in float64, with probabilities, names, and infostates.

    Attributes:
      rollouts: the games, padded to `max_moves`.
      probability: `[n]` under the policy that was given.
      moves: of each game, pairs of the moves of player 0, player 1 and chance.
      infostate: `[T, 2, n]` id of the player's infostate.
    """

    rollouts: Rollouts
    probability: Any
    moves: list[tuple[tuple[int, ...], ...]]
    infostate: Any


def enumerate_games(machine: StateMachine[Any], policy: Linear) -> Games:
    found: list[tuple[list[dict[str, Any]], Any, float]] = []

    def visit(state: Any, steps: list[dict[str, Any]], probability: float) -> None:
        actor = int(machine.actor(state)[0])
        if actor == TERMINAL:
            found.append((steps, machine.returns(state)[:, 0], probability))
            return
        chance = machine.chance(state)[:, 0] if actor & CHANCE else np.ones(1)
        rows = [policy(state, player)[:, 0] for player in (0, 1)]
        acting = [bool(actor & bit) for bit in ACTOR_BIT]
        options = [np.flatnonzero(row) if acts else [-1] for row, acts in zip(rows, acting, strict=True)]
        for first in options[0]:
            for second in options[1]:
                for card in np.flatnonzero(chance) if actor & CHANCE else [-1]:
                    moves = np.array([first, second, card])
                    p = probability * chance[max(card, 0)]
                    for player in (0, 1):
                        p = p * rows[player][moves[player]] if acting[player] else p
                    step = {
                        "features": [machine.features(state, player)[:, 0] for player in (0, 1)],
                        "legal": [machine.legal(state, player)[:, 0] for player in (0, 1)],
                        "probability": rows,
                        "action": moves[:2],
                        "acting": acting,
                        "outcome": card,
                    }
                    visit(machine.step(state, moves[:, None])[0], [*steps, step], p)

    visit(machine.start(1, np), [], 1.0)
    padding = {name: np.zeros_like(value) for name, value in found[0][0][0].items()}
    padding |= {"action": np.full(2, -1), "outcome": np.array(-1), "legal": np.ones_like(padding["legal"])}
    length = machine.max_moves
    padded = [steps + [padding] * (length - len(steps)) for steps, _, _ in found]
    columns = {
        name: np.stack([[np.asarray(step[name]) for step in steps] for steps in padded], axis=1)
        for name in padding
    }
    fields = {name: np.moveaxis(x, 1, 2) if x.ndim > 2 else x for name, x in columns.items()}
    returns = np.stack([ends for _, ends, _ in found], axis=1).astype(float)
    keys = dict[Any, int]()
    infostate = np.array(
        [
            [
                [keys.setdefault((player, row.tobytes()), len(keys)) for row in step[player]]
                for player in (0, 1)
            ]
            for step in fields["features"]
        ]
    )
    moves = [
        tuple((*map(int, step["action"]), int(step["outcome"])) for step in steps) for steps, _, _ in found
    ]
    with precision(np.float64):
        rollouts = Rollouts(returns=jnp.asarray(returns), **jax.tree.map(jnp.asarray, fields))
    return Games(rollouts, np.array([p for _, _, p in found]), moves, infostate)
