"""Check that JAX can compile the rules of a state machine, before a training does."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgadget.games.machine import StateMachine
from jaxgadget.util.precision import numpy_promotion, precision

LIBRARIES = tuple(os.path.dirname(str(module.__file__)) + os.sep for module in (jax, np))
"""Folders whose code is not a user's."""


def check_compiled(machine: StateMachine[Any]) -> None:
    """Checks that JAX can trace all methods of a state machine, which `check_machine` runs in NumPy.

    Raises:
      ValueError: if it cannot, for example because a method calls functions of NumPy, assigns to entries of
        an array, or branches on values of a state; names the method and the line.
    """

    def trace(method: str, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            with precision(np.float32), numpy_promotion():
                return jax.eval_shape(function, *arguments)
        except Exception as error:
            reason = str(error).strip().split("\n", 1)[0] or type(error).__name__
            raise ValueError(
                f"{machine.name} breaks a rule of state machines: {method} cannot be compiled by JAX"
                f"{_line_of(error)}: {reason}; use the functions of the arrays' own namespace, xp = "
                "state.field.__array_namespace__(), not NumPy's, xp.where instead of assigning to entries, "
                "and no `if` on values of a state"
            ) from error

    state = trace("start()", lambda: machine.start(2, jnp))
    trace("actor()", machine.actor, state)
    for player in (0, 1):
        trace("legal()", lambda state, player=player: machine.legal(state, player), state)
        trace("features()", lambda state, player=player: machine.features(state, player), state)
    if machine.num_outcomes:
        trace("chance()", machine.chance, state)
    trace("step()", machine.step, state, jax.ShapeDtypeStruct((3, 2), np.int32))
    trace("returns()", machine.returns, state)


def _line_of(error: Exception) -> str:
    """The last line of an error's traceback outside of JAX and NumPy."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(LIBRARIES)]
    return f", at {os.path.basename(own[-1].filename)}:{own[-1].lineno} `{own[-1].line}`"
