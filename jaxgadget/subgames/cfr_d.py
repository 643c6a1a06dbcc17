"""CFR-D: solves the trunk of a game without storing its subgames, and re-solves any of them on demand.

Burch, Johanson and Bowling (2014), "Generating a Trunk Strategy using CFR-D". From one trunk
iteration to the next the only stored data below the cut is an average counterfactual value for each
root infostate of either player. While an iteration solves the subgames, all of them are in memory
at once; the paper solves them one after the other.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxgadget.core.devices import HOME
from jaxgadget.core.regret import Rule, find_rule
from jaxgadget.core.results import convergence
from jaxgadget.core.solver import Solver, check_iterations, choose_solver
from jaxgadget.gadgets.alternative import ArrayValues
from jaxgadget.gadgets.gadget import Gadget, Perturbed
from jaxgadget.gadgets.prior import NoPrior
from jaxgadget.gadgets.root_gadgets import Resolving
from jaxgadget.policy.policy import Policy
from jaxgadget.subgames.refine import refine
from jaxgadget.tree.cover import cover_of, find_roots
from jaxgadget.tree.cut import CutSpec
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.tree.history import HistoryTree
from jaxgadget.util.arguments import check_player
from jaxgadget.values.ranges import ResolvedValues
from jaxgadget.values.trunk import LimitedTrunk, solve_trunk


@dataclasses.dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Decomposition(LimitedTrunk):
    """A solved trunk with the values needed to re-solve any subgame below it.

    One lane for each number of subgame iterations. Below the cut, rows of `policy` are uniform placeholders.
    Minus the first and plus the second row of `best_response_values` bracket player 0's value of the game, up
    to the error of the subgame solves and the shift of one iteration between strategies and values.

    Attributes:
      subgame_iterations: for each lane, the number of subgame iterations in every update of the trunk.
      subgame_algorithm: name of the subgames' algorithm.
    """

    subgame_iterations: tuple[int, ...]
    subgame_algorithm: str

    @property
    def trunk(self) -> Policy:
        """Both players' average policies above the cut; rows below it are uniform placeholders."""
        return self.policy

    @functools.cached_property
    def forest(self) -> Forest:
        """The subgames; `values` are in the order of its roots."""
        return build_forest(self.limit.tree, self.limit.cut, padded=False)

    @property
    def lane_columns(self) -> dict[str, Any]:
        """Both algorithms and their iterations."""
        return {
            "algorithm": self.algorithm,
            "iterations": self.iterations,
            "subgame_algorithm": self.subgame_algorithm,
            "subgame_iterations": self.subgame_iterations,
        }

    @property
    def number_columns(self) -> dict[str, Any]:
        """Gap of the trunk and the bracket of player 0's value that best responses in it give."""
        opponent, own = self.best_response_values
        return {"trunk_gap": self.trunk_gap, "game_value_low": -opponent, "game_value_high": own}

    @property
    def message(self) -> str:
        """One-sentence summary of the trunk's convergence, with a remedy if it is insufficient."""
        small = 1e-3 * self.limit.tree.payoff_range
        return convergence(
            self.trunk_gap, self.iterations, self.algorithm, small=small, name="gap of the trunk"
        )

    def resolve(
        self,
        player: int | None = None,
        *,
        infostate: str | None = None,
        gadget: Gadget | None = None,
        solver: Solver | None = None,
        iterations: int | None = None,
        algorithm: str | Rule | None = None,
    ) -> Policy:
        """Re-solves subgames from the stored values.

        The opponent's alternative to a subgame is its average counterfactual value (Burch et al.
        2014, "Subgame re-solving"; V̄ of the gadget is minus that).

        Args:
          player: the player or players to re-solve for; both by default.
          infostate: re-solve only the subgame that contains this infostate. The player's other rows stay
            uniform, as do all rows of a player that is not re-solved.
          gadget: a gadget with an `alternative`, which is replaced; by default resolving without prior.
          solver: settings of the gadget games, as in `refine`; by default 2000 iterations of CFR+ in float64.
          iterations: short for `Solver(iterations=…)`.
          algorithm: short for `Solver(algorithm=…)`.

        Returns:
          The trunk's policy with the re-solved rows inserted, one lane for each lane of `trunk`.

        Raises:
          ValueError: if the infostate is in no subgame, the gadget takes no alternative values, or an
            argument is out of range.
        """
        if player is not None:
            check_player(player)
        kind = Resolving(NoPrior()) if gadget is None else gadget
        if not isinstance(kind, Perturbed):
            raise ValueError(
                f"gadget={kind!r} takes no alternative values; expected one that does, such as Resolving()"
            )
        default = Solver(iterations=2000, dtype="float64")
        solver = choose_solver(solver, default, iterations=iterations, algorithm=algorithm)
        tree, whole, policy = self.limit.tree, self.limit.cut, self.policy
        where = whole if infostate is None else whole.only(infostate)
        for resolver in (0, 1) if player is None else (player,):
            roots = self.limit.roots[1 - resolver].infostate
            inside = np.isin(roots, find_roots(cover_of(where), 1 - resolver)[0].infostate)
            refinement = refine(
                tree,
                where,
                self.policy,
                dataclasses.replace(kind, alternative=ArrayValues(-self.values[1 - resolver][inside])),
                player=resolver,
                solver=solver,
                value=tree.payoff_bounds,  # exploitabilities are not requested
            )
            solved = dataclasses.replace(refinement.policy, labels=policy.labels)
            policy = policy.splice(resolver, refinement.forest.infosets(resolver), solved)
        return policy


def cfr_d(
    tree: HistoryTree,
    where: CutSpec,
    *,
    subgame_iterations: int | Sequence[int],
    subgame_algorithm: str | Rule = "cfr+",
    solver: Solver | None = None,
    iterations: int | None = None,
    algorithm: str | Rule | None = None,
) -> Decomposition:
    """Solves the trunk above a cut by CFR, and in every update all subgames from scratch.

    Updates alternate, player 0 first, as in `solve`; each update solves all subgames from scratch for
    the latest reach. Root values are averaged with the weights of the trunk's average strategy.

    Args:
      tree: the game's histories.
      where: the cut; see `jaxgadget.cut`.
      subgame_iterations: iterations of CFR in the subgames, in every update. Each of several numbers makes a
        lane; all lanes run the largest number of iterations.
      subgame_algorithm: the algorithm in the subgames.
      solver: settings of the trunk; by default CFR+ in float64. Its iterations, here or by the keyword, are
        required. Takes no `target_gap`, `check_every`, `time_limit`, `memory_limit` or `devices`.
      iterations: short for `Solver(iterations=…)`.
      algorithm: short for `Solver(algorithm=…)`.

    Raises:
      ValueError: if the cut is unknown or crosses an infoset, a number is out of range, or the checkpoint
        belongs to another solve.
    """
    below = find_rule(subgame_algorithm, "subgame_algorithm")
    counts = _counts(subgame_iterations)
    default = Solver(dtype="float64", devices=HOME.devices)
    without = ("target_gap", "check_every", "time_limit", "memory_limit", "devices")
    solver = choose_solver(solver, default, iterations=iterations, algorithm=algorithm, without=without)
    iterations = check_iterations(solver.iterations)
    solver = dataclasses.replace(solver, devices=None)
    solved = solve_trunk(tree, where, ResolvedValues(counts, below), solver=solver)
    labels = tuple(f"cfr-d:{iterations}:{count}" for count in counts)
    fields: dict[str, Any] = {**vars(solved), "policy": dataclasses.replace(solved.policy, labels=labels)}
    return Decomposition(**fields, subgame_iterations=counts, subgame_algorithm=below.name)


def _counts(subgame_iterations: int | Sequence[int]) -> tuple[int, ...]:
    counts = subgame_iterations if isinstance(subgame_iterations, Sequence) else (subgame_iterations,)
    if len(counts) == 0 or isinstance(counts, str):
        raise ValueError(
            f"subgame_iterations={subgame_iterations!r}: expected a whole number >= 1, or several of them"
        )
    return tuple(check_iterations(count, "subgame_iterations") for count in counts)
