"""CFR-D: solve the trunk of a game, forget the subgames, re-solve any of them on demand.

Burch, Johanson and Bowling (2014), "Generating a Trunk Strategy using CFR-D". From one trunk
iteration to the next nothing below the cut is kept but an average counterfactual value for each
root infostate of either player. While an iteration solves the subgames, all of them are in memory
at once, side by side; the paper takes them one after the other.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence

import jax
import numpy as np
from jax.typing import DTypeLike

from jaxgadget.gadgets.alternative import ArrayValues
from jaxgadget.gadgets.gadget import Gadget, Perturbed
from jaxgadget.gadgets.prior import NoPrior
from jaxgadget.gadgets.two_level import Resolving
from jaxgadget.kernels.batch import Batch
from jaxgadget.kernels.regret import Rule, find_rule
from jaxgadget.policy.evaluate import normalise_rows
from jaxgadget.policy.policy import Policy
from jaxgadget.refining.refine import refine
from jaxgadget.solving.decomposition import TrunkSolution, conclude_trunk, no_values, trunk_problem
from jaxgadget.solving.devices import HOME
from jaxgadget.solving.driver import Finished, solve
from jaxgadget.solving.memory import one_chunk
from jaxgadget.solving.options import check_iterations, make_options
from jaxgadget.tree.cut import CutSpec
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.trunk import Trunk, build_trunk
from jaxgadget.util.arguments import check_player
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.clock import Stopwatch
from jaxgadget.util.precision import precision
from jaxgadget.util.progress import progress_bar


@dataclasses.dataclass(frozen=True, eq=False)
class Decomposition:
    """A solved trunk, and what is needed to re-solve any subgame below it.

    A lane for every number of subgame iterations.

    Attributes:
      trunk: both players' average policies above the cut; below it the rows are uniform and mean
        nothing.
      values: for both players `[R, lanes]`, the average counterfactual values of its roots, in the
        order of `forest.roots` and in its own utility: chance's and the other player's reach
        included, its own not.
      best_response_values: `[2, lanes]` what player 1 gets at most in the trunk against player 0's
        average if its roots are worth these values, then player 0 against player 1's. Minus the
        first and plus the second bracket player 0's value of the game, up to the error of the
        subgames' solves and the shift of one iteration between strategies and values.
      forest: the subgames.
      iterations: of the trunk.
      subgame_iterations: for every lane, of the subgames in every update of the trunk.
      algorithm: name of the trunk's rule.
      subgame_algorithm: name of the subgames' rule.
      num_values: how many numbers a lane keeps from one trunk iteration to the next: regrets,
        strategies and their sums in the trunk, one value for every root.
      seconds: `build`, `compile` and `run`.
    """

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
        """`[lanes]` what both players could still gain in the trunk, values below it held fixed."""
        return self.best_response_values.sum(axis=0)

    @property
    def message(self) -> str:
        """How far the solve got, and what to do about it, in a sentence."""
        worst = float(self.trunk_gap.max())
        share = worst / self.forest.tree.payoff_range
        advice = "" if share <= 1e-3 else "; increase iterations to lower it"
        return f"gap of the trunk {worst:.3g} after {self.iterations} iterations of {self.algorithm}{advice}"

    def resolve(
        self,
        player: int | None = None,
        *,
        infostate: str | None = None,
        gadget: Gadget | None = None,
        algorithm: str | Rule = "cfr+",
        iterations: int = 2000,
        dtype: DTypeLike = "float64",
        progress: bool | None = None,
    ) -> Policy:
        """Re-solves subgames from the values kept.

        The opponent's alternative to a subgame is its average counterfactual value (Burch et al.
        2014, "Subgame re-solving"; V̄ of the gadget is minus that).

        Args:
          player: who gets a strategy below the cut; both by default.
          infostate: re-solve only the subgame in which this infostate lies; its other rows, and
            all of the other player's if it is not re-solved, stay uniform.
          gadget: a gadget with an `alternative`, which is replaced; resolving without prior by
            default.
          algorithm: `cfr`, `cfr+`, `linear-cfr`, `dcfr`, `pcfr+`, `sapcfr+`, or a `Rule`.
          iterations: of the gadget games.
          dtype: `float32` or `float64`, of the re-solve.
          progress: show a bar; by default if it takes two seconds and somebody watches.

        Returns:
          The trunk's policy with the re-solved rows in place, a lane for each of `trunk`.

        Raises:
          ValueError: if the infostate is in no subgame, the gadget takes no alternative values, or
            a number is out of range.
        """
        if player is not None:
            check_player(player)
        kind = Resolving(NoPrior()) if gadget is None else gadget
        if not isinstance(kind, Perturbed):
            raise ValueError(
                f"gadget={kind!r} takes no alternative values; expected one that does, such as Resolving()"
            )
        policy = self.trunk
        for resolver in (0, 1) if player is None else (player,):
            kept = ArrayValues(-self._opponent_values(resolver, infostate))
            refinement = refine(
                self.forest.tree,
                self.forest.cut,
                self.trunk,
                dataclasses.replace(kind, alternative=kept),
                player=resolver,
                infostate=infostate,
                algorithm=algorithm,
                iterations=iterations,
                dtype=dtype,
                value=self.forest.tree.payoff_bounds,  # exploitabilities are not asked for
                progress=progress,
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
    iterations: int,
    subgame_iterations: int | Sequence[int],
    algorithm: str | Rule = "cfr+",
    subgame_algorithm: str | Rule = "cfr+",
    dtype: DTypeLike = "float64",
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> Decomposition:
    """Solves the trunk above a cut by CFR, with every subgame solved anew in every update.

    Updates alternate, player 0 first, as in `solve`; each one solves all subgames from scratch for
    the newest reaches. Root values are averaged with the weights of the trunk's average strategy.

    Args:
      tree: the game's histories.
      where: the cut; see `jaxgadget.cut`.
      iterations: of the trunk; one updates both players.
      subgame_iterations: of CFR in the subgames, in every update; several numbers make a lane each,
        and all lanes iterate as often as the largest needs.
      algorithm: the trunk's: `cfr`, `cfr+`, `linear-cfr`, `dcfr`, `pcfr+`, `sapcfr+`, or a `Rule`.
      subgame_algorithm: the same in the subgames.
      dtype: `float32` or `float64`.
      checkpoint: a file to resume from and to save to.
      progress: show a bar; by default if it takes over two seconds and somebody watches.

    Raises:
      ValueError: for an unknown or crossing cut, a number out of range, another solve's checkpoint.
    """
    below = find_rule(subgame_algorithm, "subgame_algorithm")
    options = make_options(
        algorithm=algorithm,
        iterations=iterations,
        dtype=dtype,
        checkpoint=checkpoint,
        devices=HOME.devices,
        exact=False,
    )
    rule = options.rule
    assert rule is not None
    counts = _counts(subgame_iterations)
    watch = Stopwatch()
    with watch.phase("build"), precision(options.dtype):
        forest = build_forest(tree, where, padded=False)
        trunk = build_trunk(forest)
        problem = trunk_problem(
            forest, trunk, iterations=counts, rule=below, weighting=rule, dtype=options.dtype
        )
        game = Batch.of(problem, "cfr-d", no_values(problem))
    with watch.phase("run"), progress_bar("CFR-D", iterations, progress) as report:
        plan = one_chunk(len(counts))  # sums of root values are kept for all lanes together
        solved = solve(game, options, _finish, plan=plan, keep_state=True, report=report)
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
    for player, uniform in enumerate(Policy.uniform(tree).probabilities):
        rows = np.repeat(uniform, len(labels), axis=1)
        rows[trunk.form.action_sequences(player) - 1] = solution.strategy[player]
        pair.append(normalise_rows(rows, tree.infosets[player].infoset[1:]))
    return Policy(tree, (pair[0], pair[1]), labels)
