"""Batches of lanes with games of one structure, whose numbers are computed chunk by chunk."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxgadget.core.payoff import Payoff
from jaxgadget.core.problem import Problem, Side, Terms, no_regret_tolerance
from jaxgadget.util.arrays import IntArray


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """Games that share their structure; the numbers of a chunk of lanes are computed when it is solved.

    Attributes:
      name: name in messages and in the file names of checkpoints.
      order: order of the players' updates.
      sides: both players' structure.
      payoff: payoff operator between both players' bodies.
      num_lanes: number of lanes.
      num_games: number of independent games of each lane, without padding.
      terms: function that computes both players' numbers for an array of lane indices.
      payoff_state: initial state of the payoff operator.
    """

    name: str
    order: tuple[int, ...]
    sides: tuple[Side, Side]
    payoff: Payoff
    num_lanes: int
    num_games: int
    terms: Callable[[IntArray], tuple[Terms, Terms]]
    payoff_state: Any = None

    @staticmethod
    def of(problem: Problem, name: str = "game", payoff_state: Any = None) -> Batch:
        """All lanes of a problem."""

        def terms(lanes: IntArray) -> tuple[Terms, Terms]:
            if np.array_equal(lanes, np.arange(problem.num_lanes)):
                return problem.terms
            return jax.tree.map(lambda x: np.asarray(x)[:, lanes], problem.terms)

        return Batch(
            name=name,
            order=problem.order,
            sides=problem.sides,
            payoff=problem.payoff,
            num_lanes=problem.num_lanes,
            num_games=problem.sides[0].entry.num_roots,
            terms=terms,
            payoff_state=payoff_state,
        )

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the terms."""
        return np.asarray(self.terms(np.zeros(1, np.int64))[0].constant).dtype

    def problem(self, lanes: IntArray | None = None) -> Problem:
        """The given lanes, by default all, as one problem with regret tolerance 0."""
        everything = np.arange(self.num_lanes)
        chosen = everything if lanes is None else lanes
        terms = self.terms(chosen)
        dtype = np.asarray(terms[0].constant).dtype
        return Problem(
            order=self.order,
            sides=self.sides,
            terms=terms,
            payoff=self.payoff if np.array_equal(chosen, everything) else self.payoff.take_lanes(chosen),
            regret_tolerance=no_regret_tolerance(self.sides, len(chosen), dtype),
        )
