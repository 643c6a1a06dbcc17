"""Problems built by hand: values, constants of the body, games side by side, precision."""

from __future__ import annotations

import functools

import jax.numpy as jnp
import numpy as np
import pytest

import jaxgadget
from jaxgadget.kernels.problem import values_up, whole_game
from jaxgadget.solving.drive import precision
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.sequence import sequence_form


@functools.cache
def game(name: str) -> HistoryTree:
    return jaxgadget.enumerate_game(jaxgadget.load(name))


def test_values_need_a_strategy() -> None:
    """Without one they were a best response, silently."""
    with precision(np.float64):
        problem = whole_game(sequence_form(game("kuhn_poker")), num_lanes=1, dtype=np.float64)
        side, terms = problem.sides[0], problem.terms[0]
        gradient = jnp.ones((side.body.num_sequences, 1))
        with pytest.raises(TypeError, match="strategy"):
            values_up(side, terms, gradient)  # pyright: ignore[reportCallIssue]
