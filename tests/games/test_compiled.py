"""State machines say the same compiled by JAX as in NumPy, of every state of random games."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgadget import PPO, PolicyTrainingConfig, train_policy
from jaxgadget.games.checks import check_machine
from jaxgadget.games.game import TERMINAL
from jaxgadget.games.kuhn import KuhnPoker
from jaxgadget.games.machine import MOVER_BITS, StateMachine
from jaxgadget.learn.compiled_rules import check_compiled
from jaxgadget.util.precision import numpy_promotion, precision
from tests.games.machines import MACHINES, keep_ends

GAMES = 64


def describe(machine: StateMachine[Any], state: Any) -> dict[str, Any]:
    """Results of a machine's methods for states."""
    shown: dict[str, Any] = {"actor": machine.actor(state), "returns": machine.returns(state)}
    for player in (0, 1):
        shown |= {
            f"legal {player}": machine.legal(state, player),
            f"features {player}": machine.features(state, player),
        }
    if machine.num_outcomes:
        shown["chance"] = machine.chance(state)
    return shown


def play(machine: StateMachine[Any], key: jax.Array) -> Any:
    """Random games of legal moves; states, moves, observations and descriptions, step by step."""

    def pick(key: jax.Array, possible: jax.Array) -> jax.Array:
        return jnp.argmax(jnp.where(possible, jax.random.uniform(key, possible.shape), -1.0), axis=0)

    def move(state: Any, key: jax.Array) -> Any:
        shown = describe(machine, state)
        keys = jax.random.split(key, 3)
        possible = [shown["legal 0"], shown["legal 1"]]
        if machine.num_outcomes:
            possible.append(shown["chance"] > 0)
        moves = [
            jnp.where((shown["actor"] & bit) > 0, pick(k, mask), -1)
            for k, mask, bit in zip(keys, possible, MOVER_BITS, strict=False)
        ]
        moves = jnp.stack([*moves, *[jnp.full(GAMES, -1)] * (3 - len(moves))])
        after, seen = machine.step(state, moves)
        is_over = shown["actor"] == TERMINAL
        for old, new in zip(state, after, strict=True):
            assert old.dtype == new.dtype and old.shape == new.shape, "a compiled loop carries the state"
        after = jax.tree.map(lambda new, old: jnp.where(is_over, old, new), after, state)
        return after, (state, moves, seen, shown)

    start = machine.start(GAMES, jnp)
    end, steps = jax.lax.scan(move, start, jax.random.split(key, machine.max_moves))
    return describe(machine, end), steps


def same(found: Any, expected: Any, what: str) -> None:
    """Equal to the last bit, except for real numbers, which JAX has in float32."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape, what
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6, err_msg=what)
    else:
        np.testing.assert_array_equal(found, expected, err_msg=what)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_compiled_games_are_numpys(machine: StateMachine[Any]):
    with precision(np.float32), numpy_promotion():
        shown_at_end, steps = jax.tree.map(
            np.asarray, jax.jit(lambda key: play(machine, key))(jax.random.key(3))
        )
    state = machine.start(GAMES, np)
    for step in range(machine.max_moves):
        compiled, moves, seen, shown = jax.tree.map(lambda array, step=step: array[step], steps)
        expected, goes_on = describe(machine, state), np.asarray(machine.actor(state)) != TERMINAL
        for name, old, new in zip(state._fields, state, compiled, strict=True):
            same(new, old, f"{name} after {step} moves")
        for name in expected:
            # Elsewhere what a machine says is ignored.
            rows = ~goes_on if name == "returns" else shown["actor"] & 4 > 0 if name == "chance" else goes_on
            same(shown[name][..., rows], expected[name][..., rows], f"{name} after {step} moves")
        after, codes = machine.step(state, moves)
        same(seen[:, goes_on], codes[:, goes_on], f"observations after {step} moves")
        state = keep_ends(machine, state, after)
    assert (np.asarray(machine.actor(state)) == TERMINAL).all()
    same(shown_at_end["returns"], machine.returns(state), "returns")
    assert len({row.tobytes() for row in np.asarray(steps[1]).transpose(2, 0, 1)}) > GAMES / 4, (
        "different games"
    )


class CallsNumPy(KuhnPoker):
    def features(self, state, player):
        return np.where(super().features(state, player), 1, 0)


class Assigns(KuhnPoker):
    def legal(self, state, player):
        legal = super().legal(state, player)
        legal[1] &= state.cards[player] != 7
        return legal


class Branches(KuhnPoker):
    def step(self, state, moves):
        return super().step(state, moves if (moves < 5).all() else -moves)


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        (CallsNumPy(), r"features\(\) cannot .*, at test_compiled.py:\d+ `return np.where.*xp"),
        (Assigns(), r"legal\(\) cannot .*`legal\[1\] &= "),
        (Branches(), r"step\(\) cannot .* `return super\(\).*no `if`"),
    ],
    ids=lambda given: type(given).__name__,
)
def test_rules_that_cannot_be_compiled_are_refused(machine: KuhnPoker, message: str):
    check_machine(machine)  # in NumPy they follow the rules
    with pytest.raises(ValueError, match=message):
        check_compiled(machine)


def test_trainings_refuse_rules_that_cannot_be_compiled():
    config = PolicyTrainingConfig(steps=1, batch_size=8, width=4)
    with pytest.raises(ValueError, match="breaks a rule of state machines"):
        train_policy(CallsNumPy(), PPO(), config=config, progress=False)
