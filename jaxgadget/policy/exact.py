"""Whole games solved exactly, by linear programs."""

from __future__ import annotations

import dataclasses

import numpy as np

from jaxgadget.games.game import FloatArray
from jaxgadget.kernels.problem import fixed_entry
from jaxgadget.policy.evaluate import to_policy
from jaxgadget.policy.floors import Floors, check_floors
from jaxgadget.policy.policy import Policy
from jaxgadget.solving.options import check_time
from jaxgadget.solving.program import Decisions, Program, solve_program
from jaxgadget.tree.history import HistoryTree, check_tree
from jaxgadget.tree.sequence import SequenceForm, sequence_form


@dataclasses.dataclass(frozen=True, eq=False)
class ExactSolution:
    """An equilibrium of a whole game.

    Attributes:
      policy: both players' strategies, one lane, `lp`: mutual counterfactual best responses
        (within the floors).
      value: what player 0's strategy guarantees against the best response that the floors allow.
      gap: by how much that and what player 1's strategy concedes differ: rounding.
      iterations: of the simplex method.
    """

    policy: Policy
    value: float
    gap: float
    iterations: int


def solve_exactly(
    tree: HistoryTree, *, floors: Floors | None = None, time_limit: float | None = None
) -> ExactSolution:
    """An equilibrium of a whole game, from one linear program (Koller et al. 1996; von Stengel 1996).

    Player 0's strategy is the program's solution, player 1's its dual one. Where a player does not
    get by its own strategy it plays a pure counterfactual best response, and where nobody gets,
    all actions alike.

    Args:
      tree: the game's histories.
      floors: least probability of every action, to which both then keep: a number ε for ε-uniform
        floors, or arrays as `tremble` makes them.
      time_limit: in seconds; by default none.

    Raises:
      ProgramError: if HiGHS does not solve it.
      ValueError: if floors have the wrong shape, are negative or sum to more than 1.
    """
    check_tree(tree)
    least = None if floors is None else check_floors(tree, floors)
    form = sequence_form(tree)
    program = Program(
        name=f"whole game {tree.game.name}",
        maximiser=0,
        players=whole_players(form, least),
        payoff=form.payoff,
    )
    found = solve_program(program, time_limit=check_time(time_limit))
    policy = to_policy(
        tree, form, (found.strategy[0].body[:, None], found.strategy[1].body[:, None]), ("lp",)
    )
    return ExactSolution(policy, float(found.value[0]), float(found.gap[0]), found.iterations)


def whole_players(
    form: SequenceForm, floors: tuple[FloatArray, FloatArray] | None
) -> tuple[Decisions, Decisions]:
    """Both players' decisions in the whole game."""
    first, second = (
        Decisions(
            entry=fixed_entry(1),
            body=body,
            link=np.zeros(body.num_roots, np.int64),
            scale=np.ones(body.num_roots),
            constant=np.zeros(1),
            body_floor=None if floors is None else floors[player][form.action_sequences(player) - 1],
        )
        for player, body in enumerate(form.treeplex)
    )
    return first, second
