"""Re-solves every subgame below a cut for many blueprints and gadgets at once.

Cut → forest → gadget games → CFR → strategies inserted into the blueprint, with exact exploitabilities
before and after and a certificate for every result. All certificates are in float64.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from jaxgadget.core.memory import Plan
from jaxgadget.core.regret import Rule
from jaxgadget.core.results import LaneResult
from jaxgadget.core.solver import LP, Solver, choose_solver
from jaxgadget.gadgets.capabilities import ARRAYS, SOLVERS, Capability, check_capabilities, of_solver
from jaxgadget.gadgets.gadget import AUTO, DEFAULT_EPSILON, Gadget, check_arrays, gadget_columns, is_gadget
from jaxgadget.gadgets.prior import BlueprintPrior, NoPrior, UniformPrior
from jaxgadget.gadgets.root_gadgets import MaxMargin, Resolving, Unsafe
from jaxgadget.opponents.gains import gain_against
from jaxgadget.opponents.opponent import Opponent, OpponentLike, Opponents, list_opponents
from jaxgadget.policy.evaluate import check_value, exploitability, nash_conv
from jaxgadget.policy.exact import find_value
from jaxgadget.policy.policy import Policy, PolicyLike, as_policy
from jaxgadget.subgames.abstract import above_optimum
from jaxgadget.subgames.engine import Overlap, Solutions, Subgames, SubgameSolutions, assemble, solve_subgames
from jaxgadget.subgames.guard import keep_better, without_estimates
from jaxgadget.subgames.knowledge import (
    Knowledge,
    KnowledgeTask,
    check_knowledge,
    check_private,
    knowledge_columns,
    make_task,
    solve_knowledge,
)
from jaxgadget.subgames.prepare import prepare_base
from jaxgadget.subgames.resolve import failures_of, resolve_gadgets
from jaxgadget.tree.cover import Cover
from jaxgadget.tree.cut import CutSpec, cut
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.tree.public import Tree
from jaxgadget.tree.states import is_from_public_state
from jaxgadget.util.arguments import check_player, moved
from jaxgadget.util.arrays import BoolArray, FloatArray
from jaxgadget.util.clock import Stopwatch
from jaxgadget.util.lanes import Lanes
from jaxgadget.util.players import Bracket
from jaxgadget.util.viewers import Explorable


def default_gadgets(epsilon: float = DEFAULT_EPSILON) -> tuple[Gadget, ...]:
    """Unsafe resolving, and resolving and max-margin with no prior, a uniform prior and a blueprint prior."""
    priors = (NoPrior(), UniformPrior(), BlueprintPrior())
    gadget_classes = (Resolving, MaxMargin)
    return (Unsafe(), *(gadget_class(prior, epsilon) for gadget_class in gadget_classes for prior in priors))


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Refinement(LaneResult, Explorable):
    """Blueprints with all subgames of one player re-solved.

    S subgames; everything is in the resolving player's utility, in units of the game's payoff.

    Attributes:
      forest: the subgames.
      player: the resolving player.
      blueprint: the blueprints.
      gadgets: the solved gadgets.
      opponents: the opponents; by default one that only adapts.
      lanes: the gadget, opponent and blueprint of every lane; from `refine` all combinations.
      policy: the refined policies, one per lane; the opponent's half is the blueprint's.
      blueprint_exploitability: `[lanes]` the game's value minus the value that the blueprint guarantees.
      refined_exploitability: `[lanes]` the same after refinement.
      drawn_exploitability: `[draws, lanes]` exploitability of the result of each single draw of a generation;
        one draw without a generation. NaN without `knowledge`.
      exploitability_bound: `[lanes]` upper bound given by the certificate, for every value in the bracket
        `game_value`; NaN if there is none, for example against an opponent that is locked to a model (p = 1).
      gain: `[lanes]` value of the refined strategy against the model, minus the game's value; NaN without a
        model.
      gadget_value: `[S, lanes]` value guaranteed by the refined strategy in each gadget game; with a model, p
        × its value there against the model, plus (1 − p) × the guaranteed value. An optimal continuation is
        one game for all subgames: its value is in row 0, and the other rows are NaN.
      gap: `[S, lanes]` NashConv of each gadget game; its optimum lies in [value, value + gap].
      has_decision: `[S, lanes]` False where a subgame had nothing to solve and the blueprint is unchanged.
      entered: `[R, lanes]` the opponent's entry as it was solved, by its average strategy in the gadget game,
        for each of its roots `forest.roots[1 - player]`: probability of following (resolving), of being the
        root picked in its subgame (max-margin), or of playing to the root (gadgets that copy the trunk). With
        a model, that of the opponent that adapts. NaN without a choice (unsafe) or a decision, and with
        `knowledge`.
      alternative: `[R, lanes]` values `V̄(s)` that the gadget offered there, with gifts, weighted by the
        resolving player's and chance's reach; NaN for gadgets without an offer, and with `knowledge`.
      epsilon: `[lanes]` probability of mistakes; for `auto`, the largest ε whose optimal basis is optimal at
        ε = 0.
      guard_share: `[lanes]` 1 where a guard selected the result with estimates, 0 where that with V̄; NaN
        without a guard, and where both failed.
      game_value: bracket of player 0's value of the game.
      algorithm: the algorithm's name.
      iterations: completed iterations of each lane; of the simplex method if `algorithm` is `lp`.
      target_gap: the requested gap, if any.
      seconds: `build`, `compile` and `run`.
      plans: division of the lanes into chunks, for each group of gadgets that share them; empty for linear
        programs.
      failures: lanes in which the solve of a subgame failed, because it overflowed or its linear program was
        not solved, with the reason. Their values are NaN, except the blueprint's, and their policy is the
        blueprint's.
      guard_failures: lanes in which one of the two solves of a guard failed, so that the other was
        selected, with the reason.
      knowledge: the player's knowledge; None if subgames are common knowledge. Otherwise subgames are those
        of own infostates (at order 1 one for each, in the order of `forest.roots[player]`), and may overlap.
        The policies are mixtures of the results of all draws of a generation; over several draws
        `gadget_value` is the mean, and `gap`, `epsilon` and `iterations` are the maximum.
    """

    forest: Forest
    player: int
    blueprint: Policy
    gadgets: tuple[Gadget, ...]
    opponents: Opponents
    lanes: Lanes
    policy: Policy
    blueprint_exploitability: FloatArray
    refined_exploitability: FloatArray
    drawn_exploitability: FloatArray
    exploitability_bound: FloatArray
    gain: FloatArray
    gadget_value: FloatArray
    gap: FloatArray
    has_decision: BoolArray
    entered: FloatArray
    alternative: FloatArray
    epsilon: FloatArray
    guard_share: FloatArray
    game_value: tuple[float, float]
    algorithm: str
    iterations: npt.NDArray[np.int64]
    target_gap: float | None
    seconds: dict[str, float]
    plans: tuple[Plan, ...] = ()
    failures: Mapping[int, str] = dataclasses.field(default_factory=dict[int, str])
    guard_failures: Mapping[int, str] = dataclasses.field(default_factory=dict[int, str])
    knowledge: Knowledge | None = None

    def __repr__(self) -> str:
        lanes = f"{self.policy.num_lanes} lane(s), player {self.player}"
        return f"<Refinement of {self.forest.tree.game.name}, {lanes}: {self.message}>"

    @property
    def num_subgames(self) -> int:
        """Number of subgames below the cut."""
        return self.forest.num_subgames

    @property
    def mean_exploitability(self) -> FloatArray:
        """`[lanes]` mean over draws, an upper bound for their mixture; NaN without `knowledge`."""
        return self.drawn_exploitability.mean(axis=0)

    @property
    def model(self) -> tuple[str | None, ...]:
        """`[lanes]` name of each opponent's model; None for one that only adapts."""
        return tuple(self.opponents.labels[opponent] for opponent in self.lanes.opponent.tolist())

    @property
    def p(self) -> FloatArray:
        """`[lanes]` probability that each opponent follows its model."""
        return self.opponents.p[self.lanes.opponent]

    @property
    def message(self) -> str:
        """One-sentence summary of the solve's convergence, with a remedy if it is insufficient."""
        if len(self.failures) == self.policy.num_lanes:
            return f"no result is defined: {self.failures[0]}"
        worst = float(np.nanmax(self.gap, initial=0.0))
        share = worst / self.forest.tree.payoff_range
        left = int((~self.has_decision).sum())
        skipped = f"; {left} subgame solves had nothing to solve and kept the blueprint" if left else ""
        is_done = share <= 1e-2 or self.algorithm == LP
        advice = "" if is_done else "; increase iterations, or use float64, to close it"
        if self.failures:
            first = self.failures[min(self.failures)]
            skipped += f"; {len(self.failures)} of {self.policy.num_lanes} results are undefined: {first}"
        if self.guard_failures:
            first = self.guard_failures[min(self.guard_failures)]
            count = f"{len(self.guard_failures)} of {self.policy.num_lanes} results"
            skipped += f"; for {count} only one of a guard's two solves was left: {first}"
        if self.target_gap is not None and worst > self.target_gap:
            advice = (
                f"; the target of {self.target_gap:g} was not reached, increase iterations or use float64"
            )
        if len(self.forest.infosets(self.player)) == 0:
            advice = f"; player {self.player} has no decision below the cut, so nothing could change"
        steps = "simplex iterations" if self.algorithm == LP else "iterations"
        return f"largest gap {worst:.3g} after {int(self.iterations.max())} {steps}{advice}{skipped}"

    @property
    def lane_columns(self) -> dict[str, Any]:
        """Player, blueprint, gadget with its prior and ε, and opponent of each lane."""
        return {
            "player": self.player,
            "blueprint": [self.blueprint.labels[blueprint] for blueprint in self.lanes.blueprint.tolist()],
            **gadget_columns(self.gadgets, self.lanes.gadget),
            "epsilon": self.epsilon,
            "model": self.model,
            "p": self.p,
        }

    @property
    def number_columns(self) -> dict[str, Any]:
        """Exploitabilities and their bound, gain, and values and gaps over all subgames."""
        gadgets = [self.gadgets[gadget] for gadget in self.lanes.gadget.tolist()]
        own = [name for gadget in self.gadgets for name in gadget.settings]
        settings = dict.fromkeys(("alternative", "gifts", *own))
        missing = np.isnan(self.gadget_value)
        missing[:, list(self.failures)] = False  # failed lanes keep NaN
        value, gap = (np.ma.masked_array(rows, missing) for rows in (self.gadget_value, self.gap))
        return {
            "blueprint_exploitability": self.blueprint_exploitability,
            "refined_exploitability": self.refined_exploitability,
            "exploitability_bound": self.exploitability_bound,
            "gain": self.gain,
            "gadget_value_sum": value.sum(axis=0).data,
            "gadget_value_min": value.min(axis=0).data,
            "gadget_value_max": value.max(axis=0).data,
            "gap_sum": gap.sum(axis=0).data,
            "gap_max": gap.max(axis=0).data,
            **{name: [gadget.settings.get(name) for gadget in gadgets] for name in settings},
            "guard_share": self.guard_share,
            "auto": [gadget.epsilon == AUTO for gadget in gadgets],
            **knowledge_columns(self.knowledge),
            "mean_exploitability": self.mean_exploitability,
        }


@moved(infostate="where=cut(tree, …).only(infostate)", padded="solver=Solver(padded=…)")
def refine(
    tree: Tree,
    where: CutSpec | Cover,
    blueprint: PolicyLike | Sequence[PolicyLike],
    gadgets: Gadget | Sequence[Gadget] | None = None,
    *,
    opponent: OpponentLike | Sequence[OpponentLike] | None = None,
    knowledge: Knowledge | None = None,
    player: int = 0,
    value: tuple[float, float] | None = None,
    solver: Solver | None = None,
    iterations: int | None = None,
    algorithm: str | Rule | None = None,
) -> Refinement:
    """Re-solves every subgame below a cut, for every gadget, opponent and blueprint.

    Source: Kubíček et al. (2026), §7; with opponents, Milec, Kubíček and Lisý (2024), §5; with `knowledge`,
    Zhang and Sandholm (2021).

    Args:
      tree: the game, in history or hand form.
      where: the cut, as for `jaxgadget.cut`. `cut(tree, …).only(infostate)` re-solves a single subgame; a
        gadget's `ContinuationValues` still cover all subgames of the cut. Or a `Cover` of your own, in which
        each of the resolving player's infostates is in one subgame, with all of its root histories. Where
        subgames overlap or lack root histories of the opponent's infostates, all are solved at once, against
        the blueprint outside of each; no bound is then known, and gadgets may read neither the trunk nor the
        optimal continuation.
      blueprint: profiles, one per lane; the opponent's half gives its prior and unsafe range. A `Policy`, or
        anything that `as_policy` accepts: OpenSpiel policies, dictionaries, or several of these.
      gadgets: by default unsafe, and resolving and max-margin with every prior.
      opponent: one or several, such as `Opponent(model, p)`, which follow a model of the whole game to its
        end with probability p; otherwise they enter through the gadget, which is also the default.
      knowledge: re-solve each own infostate based on the player's knowledge there, in place of common
        knowledge, and combine the strategies. Cannot be combined with `opponent`, or with gadgets that need
        the trunk or the optimal continuation.
      player: the resolving player, 0 or 1.
      value: bracket of player 0's value of the game; by default `game_value(tree)`.
      solver: settings; by default 2000 iterations of CFR+ in float32. Its `checkpoint` is a folder, with a
        file for each chunk of lanes; with `lp`, a linear program for every gadget and blueprint.
      iterations: short for `Solver(iterations=…)`.
      algorithm: short for `Solver(algorithm=…)`.

    Raises:
      ValueError: for another game's blueprint or model, a cut that is unknown or crosses an infoset, an
        argument out of range, or too little memory for one lane of a subgame.

    Warns:
      UserWarning: for unreliable range values, such as those of unfinished networks.
    """
    profiles = as_policy(blueprint, tree, name="blueprint")
    opponents = None if opponent is None else list_opponents(opponent, tree, name="opponent")
    check_player(player)
    check_value(value, tree)
    solver = choose_solver(
        solver,
        Solver(iterations=2000),
        iterations=iterations,
        algorithm=algorithm,
    )
    requested, watch = list_gadgets(gadgets, solver.rule is None, (player,)), Stopwatch()
    if is_from_public_state(tree):
        above = {Capability.TRUNK, Capability.WAY, Capability.CONTINUATION}
        check_capabilities(
            requested,
            frozenset(Capability) - above,
            "a tree from a public state",
            "Unsafe(), Resolving() or MaxMargin()",
        )
    if knowledge is not None:
        check_knowledge(knowledge, requested, opponents)
    if isinstance(where, Cover):
        if knowledge is not None:
            raise ValueError(
                f"knowledge={knowledge!r} cannot be combined with where={where!r}; expected a cut"
            )
        with watch.phase("build"):
            subgames = _of_cover(tree, where, player, profiles, requested, solver, opponents)
        return refine_subgames(subgames, solver, value, watch)
    if knowledge is not None:
        with watch.phase("build"):
            task = make_task(cut(tree, where), player, profiles, requested, solver, knowledge)
        return refine_known(task, value, watch)
    with watch.phase("build"):
        forest = build_forest(tree, where, padded=solver.padded)
    subgames = Subgames(forest, player, profiles, requested, opponents)
    return refine_subgames(subgames, solver, value, watch)


def _of_cover(
    tree: Tree,
    cover: Cover,
    player: int,
    blueprint: Policy,
    gadgets: tuple[Gadget, ...],
    solver: Solver,
    opponents: Opponents | None,
) -> Subgames:
    """Creates the subgames of a cover; those that overlap or lack root histories are solved at once."""
    if cover.tree is not tree:
        raise ValueError("where: the cover is of another tree; expected a cover of a cut of this tree")
    closed = cover.as_cut()
    if closed is not None:
        forest = build_forest(tree, closed, padded=solver.padded)
        return Subgames(forest, player, blueprint, gadgets, opponents)
    check_private(gadgets, opponents)
    complete = cover.is_complete(player)
    if not complete.all():
        root = int(cover.roots[int(np.argmin(complete))])
        raise ValueError(
            f"where={cover!r}: the infostate of player {player} at {tree.moves(root)} is in several "
            "subgames, or not all of its root histories are in its own; expected each of the resolving "
            "player's infostates in one subgame, with all of its root histories"
        )
    base = prepare_base(
        build_forest(tree, cover.cut, padded=solver.padded),
        player,
        blueprint,
        gadgets,
        placement=solver.placement,
        memory_limit=solver.memory_limit,
    )
    forest = build_forest(tree, cover, padded=solver.padded)
    overlap = Overlap(base=base, adopted=np.ones(len(forest.roots[player]), np.bool_))
    return Subgames(forest, player, blueprint, gadgets, overlap=overlap)


def refine_known(task: KnowledgeTask, value: tuple[float, float] | None, watch: Stopwatch) -> Refinement:
    """Solves subgames of own infostates and measures the policies in the full game; see `refine_subgames`."""
    solution = solve_knowledge(task, watch)
    with watch.phase("run"):
        bracket = _bracket(task.forest, task.solver, value)
        drawn = exploitability(solution.drawn, task.player, value=bracket)
        drawn = np.stack([drawn[task.lanes.where(draw=draw)] for draw in range(task.knowledge.draws)])
        refined = drawn[0]
        if task.knowledge.draws > 1:
            refined = exploitability(solution.policy, task.player, value=bracket)
        lanes = task.lanes.take(task.lanes.where(draw=0))
        before = exploitability(task.blueprint, task.player, value=bracket)[lanes.blueprint]
    measured = _MeasuredPolicies(
        policy=solution.policy,
        opponents=list_opponents(Opponent(), task.where.tree, name="opponent"),
        lanes=lanes,
        game_value=bracket,
        blueprint=before,
        refined=refined,
        bound=before + solution.rise_bound + bracket.half_width,
        drawn=drawn,
    )
    return _report(task, task.solver, solution, measured, watch)


def _bracket(forest: Forest, solver: Solver, value: tuple[float, float] | None) -> Bracket:
    """The bracket of the game's value, computed if it is not given."""
    if value is not None:
        return Bracket(*value)
    return find_value(forest.tree, solver.rule is None, solver.progress, time_limit=solver.time_limit)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class _MeasuredPolicies:
    """Refined policies, measured in the full game; see the fields of `Refinement`."""

    policy: Policy
    opponents: Opponents
    lanes: Lanes
    game_value: Bracket
    blueprint: FloatArray
    refined: FloatArray
    bound: FloatArray
    gain: FloatArray | None = None
    drawn: FloatArray | None = None
    entered: FloatArray | None = None
    alternative: FloatArray | None = None


def _report(
    task: Subgames | KnowledgeTask,
    solver: Solver,
    solutions: Solutions,
    measured: _MeasuredPolicies,
    watch: Stopwatch,
) -> Refinement:
    """Creates a refinement, with NaN where a solve failed or a field has no value."""
    roots, unknown = task.forest.roots[1 - task.player], np.full(measured.policy.num_lanes, np.nan)

    def defined(numbers: FloatArray | None) -> FloatArray:
        numbers = unknown.copy() if numbers is None else numbers.copy()
        numbers[..., list(solutions.failures)] = np.nan
        return numbers

    def at_roots(numbers: FloatArray | None) -> FloatArray:
        if numbers is None:
            return np.full((len(roots), len(unknown)), np.nan)
        return defined(np.where(roots.row[:, None] >= 0, numbers[roots.row], np.nan))

    entered = at_roots(measured.entered)
    entered[~solutions.has_decision[roots.subgame]] = np.nan
    return Refinement(
        forest=task.forest,
        player=task.player,
        blueprint=task.blueprint,
        gadgets=task.gadgets,
        opponents=measured.opponents,
        lanes=measured.lanes,
        policy=measured.policy,
        blueprint_exploitability=measured.blueprint,
        refined_exploitability=defined(measured.refined),
        drawn_exploitability=defined(unknown[None] if measured.drawn is None else measured.drawn),
        exploitability_bound=defined(measured.bound),
        gain=defined(measured.gain),
        gadget_value=defined(solutions.value),
        gap=defined(solutions.gap),
        has_decision=solutions.has_decision,
        entered=entered,
        alternative=at_roots(measured.alternative),
        epsilon=solutions.epsilon,
        guard_share=unknown,
        game_value=measured.game_value,
        algorithm=solver.name,
        iterations=solutions.iterations,
        target_gap=solver.max_gap,
        seconds=watch.seconds,
        plans=tuple(solutions.plans),
        failures=solutions.failures,
        knowledge=task.knowledge if isinstance(task, KnowledgeTask) else None,
    )


def refine_subgames(
    subgames: Subgames, solver: Solver, value: tuple[float, float] | None, watch: Stopwatch
) -> Refinement:
    """Solves subgames and measures the refined policies in the full game.

    A gadget with a guard is also solved with V̄, as an additional gadget of the same batch.

    Args:
      subgames: validated forest, blueprints and gadgets.
      solver: settings of the solve.
      value: bracket of player 0's value of the game, computed if it is not given.
      watch: measures the time.
    """
    safe = without_estimates(subgames.gadgets)
    if not safe:
        return _refine_all(subgames, solver, value, watch)
    refinement = _refine_all(subgames.with_gadgets(safe), solver, value, watch)
    return _keep_better(refinement, list(safe))


def _keep_better(refinement: Refinement, guarded: list[int]) -> Refinement:
    """The refinement of the requested gadgets, with the better result of each guard.

    Args:
      refinement: refinement of the requested gadgets, followed by the versions with V̄ of those with a guard.
      guarded: indices of the gadgets with a guard, in order.
    """
    gained = np.where(refinement.p > 0, refinement.p * refinement.gain, 0.0)
    objective = gained - (1 - refinement.p) * refinement.refined_exploitability
    kept = keep_better(objective.reshape(len(refinement.gadgets), -1), guarded, refinement.failures)
    policy = refinement.policy.take_lanes(kept.lanes)
    of_lanes = (
        *("blueprint_exploitability", "refined_exploitability", "drawn_exploitability"),
        *("exploitability_bound", "gain", "gadget_value", "gap", "has_decision", "entered", "alternative"),
        *("epsilon", "iterations"),
    )
    return dataclasses.replace(
        refinement,
        gadgets=refinement.gadgets[: -len(guarded)],
        lanes=refinement.lanes.take(np.arange(policy.num_lanes)),
        policy=dataclasses.replace(policy, labels=refinement.policy.labels[: policy.num_lanes]),
        guard_share=kept.share,
        failures=kept.failures,
        guard_failures=kept.left_out,
        **{name: getattr(refinement, name)[..., kept.lanes] for name in of_lanes},
    )


def _refine_all(
    task: Subgames, solver: Solver, value: tuple[float, float] | None, watch: Stopwatch
) -> Refinement:
    """Counterpart of `refine_subgames` without guards."""
    resolved = resolve_gadgets(task, solver, watch)
    solutions = solve_subgames(resolved, solver, watch)
    for gadget_idx, gadget in enumerate(resolved.gadgets):
        for blueprint, why in failures_of(gadget).items():
            failed = task.lanes.where(gadget=gadget_idx, blueprint=blueprint)
            solutions.failures.update(dict.fromkeys(failed.tolist(), why))
    with watch.phase("run"):
        player, against, bracket = task.player, task.against, _bracket(task.forest, solver, value)
        policy = assemble(task, solutions)
        before = exploitability(task.blueprint, player, value=bracket)
        reference = _reference_exploitability(resolved, before, bracket)
        # Overlapping subgames affect each other, so that none of their bounds holds.
        rise = _loss_bound(task, solutions) if task.overlap is None else np.nan
        measured = _MeasuredPolicies(
            policy=policy,
            opponents=against,
            lanes=task.lanes,
            game_value=bracket,
            blueprint=before[task.lanes.blueprint],
            refined=exploitability(policy, player, value=bracket),
            bound=reference + rise + bracket.half_width,
            gain=gain_against(policy, against, task.lanes.opponent, player, bracket),
            entered=solutions.entered,
            alternative=solutions.alternative,
        )
    return _report(task, solver, solutions, measured, watch)


def _reference_exploitability(task: Subgames, before: FloatArray, value: tuple[float, float]) -> FloatArray:
    """`[lanes]` exploitability of the strategies whose values are offered; `before` is the blueprints'."""
    reference = [task.reference(gadget_idx) for gadget_idx in range(len(task.gadgets))]
    measured = {task.blueprint: before}
    for policy in reference:
        if policy not in measured:
            measured[policy] = exploitability(policy, task.player, value=value)
    by_gadget = np.stack([measured[policy] for policy in reference])
    return by_gadget[task.lanes.gadget, task.lanes.blueprint]


def _loss_bound(task: Subgames, solutions: SubgameSolutions) -> FloatArray:
    """`[lanes]` bound on the rise of exploitability, including estimates of known error (Theorem 2)."""
    bound = solutions.loss_bound
    if not task.against.adapt:
        return bound
    estimated = np.empty_like(bound)
    for gadget_idx, gadget in enumerate(task.gadgets):
        lanes = task.lanes.where(gadget=gadget_idx)
        estimated[lanes] = above_optimum(gadget, solutions.gap[:, lanes])
    return np.where(np.isnan(bound), estimated, bound)


def list_gadgets(
    gadgets: Gadget | Sequence[Gadget] | None, exact: bool, players: Sequence[int] = ()
) -> tuple[Gadget, ...]:
    """Validates gadgets given to `refine` and returns them as a tuple.

    Args:
      gadgets: one or several; None for `default_gadgets()`.
      exact: True if linear programs solve them.
      players: the resolving players, if known.

    Raises:
      ValueError: if there are none, an element is not a gadget, or one requires another algorithm or player.
    """
    if gadgets is None:
        return default_gadgets()
    if isinstance(gadgets, Sequence) and not isinstance(gadgets, str):
        listed = tuple(gadgets)
    else:
        listed: tuple[Any, ...] = (gadgets,)
    for gadget in listed:
        if not is_gadget(gadget):
            raise ValueError(
                f"gadgets: {gadget!r} is not a gadget; expected Unsafe(), Resolving(), MaxMargin(), …"
            )
    solver = "algorithm='lp'" if exact else "regret minimisation"
    remedy = "another algorithm, such as 'cfr+'" if exact else "algorithm='lp', or a number"
    check_capabilities(listed, frozenset(Capability) - SOLVERS | of_solver(exact=exact), solver, remedy)
    if len(players) > 1:
        check_capabilities(
            listed,
            frozenset(Capability) - ARRAYS,
            "one array for both players",
            "arrays of each: refine_both(…, gadgets={0: …, 1: …}), or one player at a time",
        )
    if not listed:
        raise ValueError("gadgets=() is empty: expected at least one, such as Resolving()")
    check_arrays(listed, players)
    return listed


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class BothRefined(LaneResult, Explorable):
    """Blueprints with all subgames of both players re-solved, each against the blueprint.

    Rows of `table` are player 0's lanes, then player 1's; both rows of a lane have the same NashConv.

    Attributes:
      players: player 0's and player 1's refinements, with the same lanes.
      policy: both players' refined halves together, one per lane.
      blueprint_nash_conv: `[lanes]` NashConv of the blueprints.
      nash_conv: `[lanes]` NashConv of `policy`: the sum of both refined exploitabilities; NaN where a
        player's solve failed.
      failures: rows without a result, and the reason.
    """

    players: tuple[Refinement, Refinement]
    policy: Policy
    blueprint_nash_conv: FloatArray
    nash_conv: FloatArray
    failures: Mapping[int, str]

    @property
    def message(self) -> str:
        """One-sentence summary of each solve's convergence."""
        return "; ".join(f"player {refinement.player}: {refinement.message}" for refinement in self.players)

    @property
    def lane_columns(self) -> dict[str, Any]:
        """Columns that identify the lanes of both refinements."""
        return self._columns(self.players[0].lane_columns)

    @property
    def number_columns(self) -> dict[str, Any]:
        """Results of both refinements, and NashConv of the blueprint and of both halves together."""
        of_profile = {"blueprint_nash_conv": self.blueprint_nash_conv, "nash_conv": self.nash_conv}
        columns = self._columns(self.players[0].number_columns)
        return columns | {name: np.tile(values, 2) for name, values in of_profile.items()}

    def _columns(self, names: Iterable[str]) -> dict[str, Any]:
        rows = pd.concat([refinement.table for refinement in self.players], ignore_index=True)
        return {name: rows[name] for name in names}


@moved(infostate="where=cut(tree, …).only(infostate)", padded="solver=Solver(padded=…)")
def refine_both(
    tree: Tree,
    where: CutSpec,
    blueprint: PolicyLike | Sequence[PolicyLike],
    gadgets: Gadget | Sequence[Gadget] | Mapping[int, Gadget | Sequence[Gadget]] | None = None,
    *,
    opponent: OpponentLike | Sequence[OpponentLike] | None = None,
    knowledge: Knowledge | None = None,
    value: tuple[float, float] | None = None,
    solver: Solver | None = None,
    iterations: int | None = None,
    algorithm: str | Rule | None = None,
) -> BothRefined:
    """Re-solves every subgame below a cut for each of the two players in turn.

    Args:
      tree: the game, in history or hand form.
      where: the cut.
      blueprint: profiles, one per lane, as in `refine`.
      gadgets: as in `refine`; or `{0: …, 1: …}`, separate gadgets for each player, of the same kinds in the
        same order. Required for gadgets with arrays, as an `ArrayPrior` or `ArrayValues` is for one player.
      opponent: as in `refine`; its model is a profile, and each player plays against the other's half.
      knowledge: as in `refine`.
      value: as in `refine`.
      solver: as in `refine`; a checkpoint is a folder with a folder for each player.
      iterations: short for `Solver(iterations=…)`.
      algorithm: short for `Solver(algorithm=…)`.

    Raises:
      ValueError: as `refine`.
    """
    if isinstance(opponent, Mapping):
        raise ValueError(
            f"opponent={opponent!r}: expected one Opponent for both players, or a list; a model is a "
            "profile, of which each player meets the other's half"
        )
    solver = choose_solver(solver, Solver(iterations=2000), iterations=iterations, algorithm=algorithm)
    requested = _gadgets_of_both(gadgets, solver.rule is None)
    blueprint = as_policy(blueprint, tree, name="blueprint")
    refinements: list[Refinement] = []
    for player in (0, 1):
        folder = None if solver.checkpoint_path is None else solver.checkpoint_path / f"player{player}"
        refinement = refine(
            tree,
            where,
            blueprint,
            requested[player],
            opponent=opponent,
            knowledge=knowledge,
            player=player,
            value=value,
            solver=dataclasses.replace(solver, checkpoint=folder),
        )
        value = refinement.game_value
        refinements.append(refinement)
    first, second = refinements
    halves = first.policy.probabilities[0], second.policy.probabilities[1]
    policy = Policy(tree, halves, first.policy.labels)
    before, after = nash_conv(first.blueprint)[first.lanes.blueprint], nash_conv(policy)
    after[[*first.failures, *second.failures]] = np.nan
    later = {policy.num_lanes + lane: reason for lane, reason in second.failures.items()}
    return BothRefined((first, second), policy, before, after, {**first.failures, **later})


def _gadgets_of_both(
    gadgets: Gadget | Sequence[Gadget] | Mapping[int, Gadget | Sequence[Gadget]] | None, exact: bool
) -> tuple[tuple[Gadget, ...], tuple[Gadget, ...]]:
    """Each player's gadgets, with the same lanes."""
    if not isinstance(gadgets, Mapping):
        shared = list_gadgets(gadgets, exact, (0, 1))
        return shared, shared
    if set(gadgets) != {0, 1}:
        raise ValueError(f"gadgets: players {sorted(gadgets)}; expected {{0: …, 1: …}}, gadgets of both")
    first, second = (list_gadgets(gadgets[player], exact, (player,)) for player in (0, 1))
    kinds = [[gadget.name for gadget in of_player] for of_player in (first, second)]
    if kinds[0] != kinds[1]:
        raise ValueError(
            f"gadgets: player 0 has {kinds[0]}, player 1 {kinds[1]}; expected the same kinds in the same "
            "order"
        )
    return first, second
