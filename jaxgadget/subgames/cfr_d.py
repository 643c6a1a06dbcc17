"""CFR-D: solve the trunk of a game, forget the subgames, re-solve any of them on demand.

Burch, Johanson and Bowling (2014), "Generating a Trunk Strategy using CFR-D". From one trunk
iteration to the next nothing below the cut is kept but an average counterfactual value for each
root infostate of either player. While an iteration solves the subgames, all of them are in memory
at once, side by side; the paper takes them one after the other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jaxgadget.core.batch import Batch
from jaxgadget.core.devices import HOME
from jaxgadget.core.driver import Finished, solve
from jaxgadget.core.memory import one_chunk
from jaxgadget.core.regret import Rule, find_rule
from jaxgadget.core.results import NO_FAILURES, LaneResult, convergence
from jaxgadget.core.solver import Solver, check_iterations, choose_solver
from jaxgadget.gadgets.alternative import ArrayValues
from jaxgadget.gadgets.gadget import Gadget, Perturbed
from jaxgadget.gadgets.prior import NoPrior
from jaxgadget.gadgets.root_gadgets import Resolving
from jaxgadget.policy.evaluate import normalise_rows
from jaxgadget.policy.policy import Policy
from jaxgadget.subgames.refine import refine
from jaxgadget.tree.cut import CutSpec
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.trunk import Trunk, build_trunk
from jaxgadget.util.arguments import check_player
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.clock import Stopwatch
from jaxgadget.util.precision import precision
from jaxgadget.util.progress import progress_bar
from jaxgadget.values.decomposition import trunk_problem
from jaxgadget.values.ranged_payoff import TrunkSolution, conclude_trunk, no_values


@dataclasses.dataclass(frozen=True, eq=False)
class Decomposition(LaneResult):
    """A solved trunk with the values needed to re-solve any subgame below it.

    One lane for each number of subgame iterations.

    Attributes:
      trunk: both players' average policies above the cut; rows below it are uniform placeholders.
      values: for each player `[R, lanes]`, average counterfactual values of its roots in its own utility, in
        the order of `forest.roots`; they include the reach of chance and the other player.
      best_response_values: `[2, lanes]` best-response value of player 1 in the trunk against player 0's
        average, with these values at its roots; then of player 0 against player 1's. Minus the first and plus
        the second bracket player 0's value of the game, up to the error of the subgame solves and the shift
        of one iteration between strategies and values.
      forest: the subgames.
      iterations: trunk iterations.
      subgame_iterations: for each lane, the number of subgame iterations in every update of the trunk.
      algorithm: name of the trunk's algorithm.
      subgame_algorithm: name of the subgames' algorithm.
      num_values: numbers stored for each lane between trunk iterations: regrets, strategies and their sums in
        the trunk, and one value for each root.
      seconds: `build`, `compile` and `run`.
    """

    failures = NO_FAILURES

    trunk: Policy
    values: tuple[FloatArray, FloatArray]
    best_response_values: FloatArray
    forest: Forest
    iterations: int
    subgame_iterations: tuple[int, ...]
    algorithm: str
    subgame_algorithm: str
    num_values: int
    seconds: dict[str, float]

    @property
    def trunk_gap(self) -> FloatArray:
        """`[lanes]` NashConv of the trunk with fixed values below it."""
        return self.best_response_values.sum(axis=0)

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
        small = 1e-3 * self.forest.tree.payoff_range
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
        policy = self.trunk
        for resolver in (0, 1) if player is None else (player,):
            kept = ArrayValues(-self._opponent_values(resolver, infostate))
            refinement = refine(
                self.forest.histories,
                self.forest.cut if infostate is None else self.forest.cut.only(infostate),
                self.trunk,
                dataclasses.replace(kind, alternative=kept),
                player=resolver,
                solver=solver,
                value=self.forest.tree.payoff_bounds,  # exploitabilities are not requested
            )
            inside = refinement.forest.infosets(resolver)
            policy = policy.splice(
                resolver, inside, dataclasses.replace(refinement.policy, labels=policy.labels)
            )
        return policy

    def _opponent_values(self, player: int, infostate: str | None) -> FloatArray:
        """`[R, lanes]` the opponent's values, at the roots of one subgame if an infostate is given."""
        other = 1 - player
        if infostate is None:
            return self.values[other]
        part = build_forest(self.forest.tree, self.forest.cut.only(infostate))
        row = {state: i for i, state in enumerate(self.forest.roots[other].infostate.tolist())}
        return self.values[other][[row[state] for state in part.roots[other].infostate.tolist()]]


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
    """Solves the trunk above a cut by CFR, with every subgame solved anew in every update.

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
    default = Solver(dtype="float64", devices=HOME.devices)
    without = ("target_gap", "check_every", "time_limit", "memory_limit", "devices")
    solver = choose_solver(solver, default, iterations=iterations, algorithm=algorithm, without=without)
    iterations = check_iterations(solver.iterations)
    rule = solver.iterative_rule()
    counts = _counts(subgame_iterations)
    watch = Stopwatch()
    with watch.phase("build"), precision(solver.precision):
        forest = build_forest(tree, where, padded=False)
        trunk = build_trunk(forest)
        problem = trunk_problem(
            forest, trunk, iterations=counts, rule=below, weighting=rule, dtype=solver.precision
        )
        game = Batch.of(problem, "cfr-d", no_values(problem))
    with watch.phase("run"), progress_bar("CFR-D", iterations, solver.progress) as report:
        plan = one_chunk(len(counts))  # sums of root values are kept for all lanes together
        solved = solve(game, solver, _finish, plan=plan, keep_state=True, report=report)
    solution: TrunkSolution = jax.tree.map(lambda x: np.asarray(x, np.float64), solved.outcome)
    state = solved.state
    assert state is not None
    return Decomposition(
        trunk=_policy(tree, trunk, solution, tuple(f"cfr-d:{iterations}:{count}" for count in counts)),
        values=(np.asarray(solution.values[0]), np.asarray(solution.values[1])),
        best_response_values=np.stack([np.asarray(best) for best in solution.best[::-1]]),
        forest=forest,
        iterations=int(state.iteration),
        subgame_iterations=counts,
        algorithm=rule.name,
        subgame_algorithm=below.name,
        num_values=sum(leaf.size // (leaf.shape or (1,))[-1] for leaf in jax.tree.leaves(state)),
        seconds=watch.seconds,
    )


def _finish(ended: Finished) -> TrunkSolution:
    with precision(ended.problem.dtype):
        return conclude_trunk(ended.problem, ended.state)


def _counts(subgame_iterations: int | Sequence[int]) -> tuple[int, ...]:
    counts = subgame_iterations if isinstance(subgame_iterations, Sequence) else (subgame_iterations,)
    if len(counts) == 0 or isinstance(counts, str):
        raise ValueError(
            f"subgame_iterations={subgame_iterations!r}: expected a whole number >= 1, or several of them"
        )
    return tuple(check_iterations(count, "subgame_iterations") for count in counts)


def _policy(tree: HistoryTree, trunk: Trunk, solution: TrunkSolution, labels: tuple[str, ...]) -> Policy:
    """The trunk's average strategies, uniform below the cut."""
    pair: list[FloatArray] = []
    uniform = Policy.uniform(tree).take_lanes(np.zeros(len(labels), np.int64))
    for player, rows in enumerate(uniform.probabilities):
        rows[trunk.form.action_sequences(player) - 1] = solution.strategy[player]
        pair.append(normalise_rows(rows, tree.infosets[player].infoset[1:]))
    return Policy(tree, (pair[0], pair[1]), labels)
