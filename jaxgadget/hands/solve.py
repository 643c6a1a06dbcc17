"""Solving games by hands, by CFR or exactly."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import numpy as np
from jax.typing import DTypeLike

from jaxgadget.games.game import Game
from jaxgadget.games.hands import HandsGame
from jaxgadget.hands.evaluate import evaluate_hands, to_parts
from jaxgadget.hands.floors import check_hands_floors, floor_bodies
from jaxgadget.hands.form import HandsForm
from jaxgadget.hands.policy import HandsPolicy, as_form
from jaxgadget.kernels.batch import Batch
from jaxgadget.kernels.problem import with_floors
from jaxgadget.kernels.regret import Rule
from jaxgadget.policy.evaluate import average_bodies, evaluate_parts
from jaxgadget.policy.floors import Floors
from jaxgadget.policy.solve import SolvedGame
from jaxgadget.solving.devices import HOME
from jaxgadget.solving.driver import solve
from jaxgadget.solving.lp import Goal, solve_program
from jaxgadget.solving.memory import (
    FINAL_ARRAYS,
    LOOP_ARRAYS,
    STATE_ARRAYS,
    DoesNotFit,
    find_memory,
    megabytes,
)
from jaxgadget.solving.options import make_options
from jaxgadget.tree.history import HistoryTree
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.clock import Stopwatch
from jaxgadget.util.precision import precision
from jaxgadget.util.progress import progress_bar

PUBLIC_BYTES = 250
"""What a public node takes: the tree, and how it lies in both treeplexes."""

STRUCTURE_ARRAYS = 1.5
"""What the structure takes, in arrays over all sequences in the precision of the solve."""

POLICY_ARRAYS = 6.0
"""What policies take while they are made and certified, in such arrays of float64. Planned so, Liar's Dice
2×5 takes 3.0 GB; the process, 0.4 GB large before, took 3.4 GB."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class HandsSolution(SolvedGame):
    """A solved game by hands, with its certificate in float64.

    Attributes:
      policy: both players' average policies, one lane; an equilibrium's if `algorithm` is `lp`.
    """

    policy: HandsPolicy

    @property
    def name(self) -> str:
        """The game's."""
        return self.policy.game.name

    @property
    def payoff_range(self) -> float:
        """The game's largest minus its smallest payoff."""
        return self.policy.game.payoff_range

    @property
    def constant(self) -> float:
        """The sum of both players' returns."""
        return self.policy.game.constant

    @property
    def sizes(self) -> dict[str, Any]:
        """How large the game is, by what `jaxgadget solve --json` calls it."""
        game = self.policy.game
        return {
            "form": "hands",
            "num_public_nodes": len(game.tree),
            "num_public_ends": len(game.tree.ends),
            "num_hands": list(game.num_hands),
            "num_infosets": [game.num_infosets(player) for player in (0, 1)],
        }


def check_fits(
    game: HandsGame,
    dtype: DTypeLike,
    memory_limit: int | None = None,
    *,
    lanes: int = 1,
    policies: float = POLICY_ARRAYS,
) -> None:
    """Looks whether a solve will fit, before anything is laid out.

    Args:
      game: to be solved.
      dtype: of the solve.
      memory_limit: bytes that the solve may take; by default what there is.
      lanes: how many there are.
      policies: what they take, in arrays over all sequences in float64.

    Raises:
      DoesNotFit: if it will not.
    """
    (first, second), tree = game.num_hands, game.tree
    sequences = sum(  # a root a hand, and every action with every hand
        (1 + int(tree.num_children[tree.decisions(player)].sum())) * hands
        for player, hands in enumerate(game.num_hands)
    )
    loop = (STATE_ARRAYS + LOOP_ARRAYS + STRUCTURE_ARRAYS) * np.dtype(dtype).itemsize
    final = (FINAL_ARRAYS + policies) * 8
    needed = PUBLIC_BYTES * len(tree) + round(max(loop, final) * sequences * lanes)
    available = find_memory(HOME) if memory_limit is None else memory_limit
    if available is not None and needed > available:
        raise DoesNotFit(
            f"{game.name} by hands: {len(tree):,} public nodes, {first} × {second} hands and {lanes} lane(s) "
            f"take {megabytes(needed)} of memory, {megabytes(available)} may be taken; expected a larger "
            "memory_limit, or a smaller game"
        )


def solve_hands(
    game: Game | HistoryTree | HandsGame | HandsForm,
    *,
    algorithm: str | Rule = "cfr+",
    iterations: int = 1000,
    target_gap: float | None = None,
    check_every: int = 100,
    dtype: DTypeLike = "float64",
    floors: Floors | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    progress: bool | None = None,
) -> HandsSolution:
    """Solves a game without listing its histories; where both forms fit, iterates are those of `solve`.

    Args:
      game: see `by_hands`, or its form.
      algorithm: see `solve`, and so for what follows; `lp` is for few hands and ends.
      iterations: at most that many; an iteration updates both players.
      target_gap: stop when NashConv is no larger; in units of payoff.
      check_every: iterations between two looks at NashConv.
      dtype: `float32` or `float64`; the certificate is in float64.
      floors: keep to these, see `solve`: a number ε, or arrays as `tremble_hands` makes them.
      checkpoint: a file to resume from and to save to.
      time_limit: for `lp`, in seconds; by default none.
      memory_limit: bytes that the solve may take; by default what there is.
      progress: a bar, or a line a minute in a log; by default a bar, on a terminal or in a notebook.

    Raises:
      ValueError: if an argument is out of range, the game is none by hands or does not fit the memory, or
        the checkpoint is of another solve.
    """
    watch = Stopwatch()
    options = make_options(
        algorithm=algorithm,
        iterations=iterations,
        target_gap=target_gap,
        check_every=check_every,
        dtype=dtype,
        checkpoint=checkpoint,
        time_limit=time_limit,
        memory_limit=memory_limit,
        devices=HOME.devices,
    )
    with watch.phase("build"):
        form = as_form(game)
        check_fits(form.game, options.dtype, options.memory_limit)
        problem = form.problem(1, np.float64 if options.rule is None else options.dtype)
        least = None if floors is None else floor_bodies(form, check_hands_floors(form, floors))
        if least is not None:
            problem = with_floors(problem, least)
    with watch.phase("run"):
        if options.rule is None:
            name = f"game by hands {form.game.name}"
            with precision(np.float64):
                optimum = solve_program(problem, 0, Goal(maximiser=0), name=name, time_limit=time_limit)
            bodies, done = (
                (optimum.strategy[0].body[:, None], optimum.strategy[1].body[:, None]),
                optimum.iterations,
            )
        else:
            with progress_bar("solving", iterations, progress) as report:
                solved = solve(Batch.of(problem), options, average_bodies, report=report)
            bodies, done = solved.outcome, int(solved.iterations[0])
        del problem
        policy = HandsPolicy.of_bodies(form, bodies, (f"{options.algorithm}:{done}",))
        values = evaluate_hands(policy)
        gap = None if least is None else _gap_within(policy, least)
    first, second = values.best_response_values[:, 0].tolist()
    return HandsSolution(
        policy=policy,
        value=float(values.value[0]),
        best_response_values=(first, second),
        nash_conv=first + second,
        gap=first + second if gap is None else gap,
        algorithm=options.algorithm,
        iterations=done,
        target_gap=target_gap,
        seconds=watch.seconds,
    )


def _gap_within(policy: HandsPolicy, floors: tuple[FloatArray, FloatArray]) -> float:
    """What both players could gain by best responses that keep to floors `[Q × H]`."""
    problem = with_floors(policy.form.problem(1, np.float64), floors)
    with precision(np.float64):
        return float(evaluate_parts(problem, to_parts(policy)).gap[0, 0])
