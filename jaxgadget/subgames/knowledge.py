"""Knowledge-limited subgames: re-solves each own infostate at a cut separately and combines the results.

Zhang and Sandholm, *Subgame solving without common knowledge* (2021), order 1: the subgame of an own
infostate I contains the opponent's infostates that meet I, and other own infostates there follow the
blueprint. Re-solving a single I is safe. Re-solving all of them at once is not, as each search improves
against the opponent's infostates independently of the others. Two combinations are safe: a sufficiently short
step towards all new strategies (`damped`), and solving infostates in sequence: classes in which no two
infostates meet a common infostate of the opponent (`in-turn`), or each by itself (`one-by-one`). At order
k ≥ 3, and unfrozen, several own infostates are solved together, but only the strategy at I is adopted, which
is unsafe even for a single I.

A generation (Ge et al. 2023) omits some of the opponent's infostates from a search. Each draw is a separate
search, and the resulting strategy is their mixture, sampled once before the game. It has no safety guarantee.

The papers play one I at a time and do not combine the strategies.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from jaxgadget.core.solver import Solver
from jaxgadget.gadgets.capabilities import ARRAYS, SOLVERS, Capability, check_capabilities
from jaxgadget.gadgets.frozen import split_ranges
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.gadgets.generation import Generation, check_generation, considered_roots
from jaxgadget.gadgets.ranges import Ranges, divide
from jaxgadget.opponents.mixtures import mix_rows
from jaxgadget.policy.policy import Policy
from jaxgadget.subgames.engine import Overlap, Solutions, Subgames, SubgameSolutions, assemble, solve_subgames
from jaxgadget.subgames.prepare import prepare_base
from jaxgadget.tree.cover import cover_of, find_roots
from jaxgadget.tree.cut import Cut
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.tree.knowledge import (
    SHARES,
    KnowledgeCover,
    check_order,
    check_unfrozen,
    colour_classes,
    knowledge_cover,
    shares,
)
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.clock import Stopwatch
from jaxgadget.util.compilation import drop_many_programs
from jaxgadget.util.lanes import Lanes

Combine = Literal["together", "damped", "in-turn", "one-by-one"]
COMBINE: tuple[Combine, ...] = ("together", "damped", "in-turn", "one-by-one")
"""Methods of combining the strategies of own infostates."""

Follow = Literal["believed", "assembled"]
FOLLOW: tuple[Follow, ...] = ("believed", "assembled")
"""Beliefs of later nested searches about the player's own play."""


PRIVATE = SOLVERS | ARRAYS | {Capability.PLAYED, Capability.RANGE}
"""Capabilities of subgames of own infostates."""


@dataclasses.dataclass(frozen=True)
class Knowledge:
    """Re-solving based on the player's knowledge in place of common knowledge.

    All but `together` are safe at order 1, frozen and without a generation: with ε = 0 and no gap,
    exploitability never rises.

    Attributes:
      order: k, odd, or `math.inf` for the components of the cut; the search from an own infostate I solves
        for Iᵏ.
      unfrozen: solve for all retained infostates, Iᵏ⁺¹, and adopt the strategy at I.
      generate: selects the opponent's infostates that each search considers: `RandomGeneration`,
        `DiverseGeneration` or a custom class; by default all. Each draw is a separate search from the
        blueprint, and the resulting strategy is the mixture of their realisation plans. Infosets to which no
        considered history leads keep the blueprint. For `refine`.
      combine: method of combining the strategies of all own infostates: `together`, all at once; `damped`,
        each by its share, in realisation plans; `in-turn`, by classes of infostates that do not meet a common
        infostate of the opponent, each class against the result of the previous ones; `one-by-one`, the same
        with a class for each infostate, and so as many solves as infostates. For `refine`.
      shares: method by which `damped` sets each infostate's step size: by `degree`, or by a linear `program`
        that maximises the sum; see `jaxgadget.tree.knowledge.shares`.
      follow: belief of later searches about the player's own play: `believed`, the result of its previous
        search, and the blueprint elsewhere; `assembled`, the results of the searches from all own infostates.
        For `nested_search`.

    Raises:
      ValueError: if a value is not one of these.
    """

    order: float = 1
    unfrozen: bool = False
    generate: Generation | None = None
    combine: Combine = "damped"
    shares: Literal["degree", "program"] = "degree"
    follow: Follow = "believed"

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", check_order(self.order))
        object.__setattr__(self, "unfrozen", check_unfrozen(self.unfrozen))
        if self.generate is not None:
            check_generation(self.generate)
        if self.combine not in COMBINE:
            raise ValueError(f"combine={self.combine!r}: expected one of {', '.join(COMBINE)}")
        if self.shares not in SHARES:
            raise ValueError(f"shares={self.shares!r}: expected one of {', '.join(SHARES)}")
        if self.follow not in FOLLOW:
            raise ValueError(f"follow={self.follow!r}: expected one of {', '.join(FOLLOW)}")

    @property
    def draws(self) -> int:
        """Number of searches for each infostate."""
        return 1 if self.generate is None else self.generate.draws


def check_knowledge(knowledge: object, gadgets: Sequence[Gadget], opponent: object) -> None:
    """Raises ValueError unless `knowledge` can be combined with the gadgets and the opponent.

    Args:
      knowledge: the player's knowledge.
      gadgets: gadgets that need neither the trunk nor the optimal continuation.
      opponent: opponents that follow a model; None if there are none.
    """
    if not isinstance(knowledge, Knowledge):
        raise ValueError(
            f"knowledge={knowledge!r}: expected Knowledge(), such as Knowledge(combine='in-turn')"
        )
    check_private(gadgets, opponent)


def check_private(gadgets: Sequence[Gadget], opponent: object) -> None:
    """Raises ValueError unless gadgets and opponents can be used with overlapping subgames.

    Args:
      gadgets: the gadgets.
      opponent: opponents that follow a model; None if there are none.
    """
    if opponent is not None:
        raise ValueError(
            "opponent: models cannot be combined with overlapping subgames (knowledge, or a cover); expected "
            "an opponent who adapts"
        )
    check_capabilities(
        gadgets,
        PRIVATE,
        "an overlapping subgame",
        "Unsafe(), Resolving() or MaxMargin(), with values of best responses, of the blueprint or an array",
    )


def knowledge_columns(knowledge: Knowledge | None) -> dict[str, Any]:
    """Columns of result tables that describe the knowledge; None and NaN without knowledge."""
    if knowledge is None:
        return {"order": math.nan, "unfrozen": None, "generation": None, "combine": None}
    return {
        "order": float(knowledge.order),
        "unfrozen": knowledge.unfrozen,
        "generation": None if knowledge.generate is None else knowledge.generate.name,
        "combine": knowledge.combine,
    }


class _SolvedAtOnce(NamedTuple):
    """Own infostates that are re-solved together.

    Attributes:
      infostates: their indices, ascending.
      share: `[I]` step size of each own infostate towards the new strategy; 0 for others.
      folder: folder of checkpoints, within that of the task.
    """

    infostates: IntArray
    share: FloatArray
    folder: str


@dataclasses.dataclass(frozen=True, eq=False)
class KnowledgeTask:
    """Re-solving of all own infostates of a cut, each in its known subgame.

    Lanes run over gadgets, then draws of the generation, then blueprints. Users' gadget arrays have one row
    for each of the opponent's root infostates in each subgame, in the order of `forest.roots`.

    Attributes:
      knowledge: the player's knowledge.
      known: the subgames.
      blueprint: profiles, one per lane.
      gadgets: each is combined with all blueprints; none may need the trunk or a continuation's values.
      solver: settings of the solve.
      base: the subgames of the cut.
      forest: the known subgames in one forest.
    """

    knowledge: Knowledge
    known: KnowledgeCover
    blueprint: Policy
    gadgets: tuple[Gadget, ...]
    solver: Solver
    base: Forest
    forest: Forest

    @property
    def player(self) -> int:
        """The resolving player."""
        return self.known.player

    @property
    def where(self) -> Cut:
        """The cut."""
        return self.known.cut

    @functools.cached_property
    def lanes(self) -> Lanes:
        """The gadget, draw and blueprint of every lane."""
        return Lanes.product(
            gadgets=len(self.gadgets), draws=self.knowledge.draws, blueprints=self.blueprint.num_lanes
        )

    @property
    def has_bound(self) -> bool:
        """True if there is a bound on the rise of exploitability."""
        knowledge = self.knowledge
        is_safe = knowledge.order == 1 and not knowledge.unfrozen and knowledge.combine != "together"
        return (is_safe or knowledge.order == math.inf) and knowledge.generate is None

    @functools.cached_property
    def reached(self) -> BoolArray:
        """`[I, blueprints]` mask of own infostates that each blueprint reaches; all True for components."""
        roots, _ = find_roots(cover_of(self.where), self.player)
        reach = self.blueprint.reach(self.player)[roots.sequence]
        return (reach > 0) | (self.known.order == math.inf)

    def steps(self) -> list[_SolvedAtOnce]:
        """Groups of infostates solved in sequence; components need no combination."""
        count, combine = len(self.known.infostate), self.knowledge.combine
        if combine in ("in-turn", "one-by-one") and self.known.order < math.inf:
            by_colour = combine == "in-turn"
            turn = colour_classes(self.where, self.player) if by_colour else np.arange(count)
            name = "class" if by_colour else "infostate"
            return [
                _SolvedAtOnce(
                    np.flatnonzero(turn == number), (turn == number).astype(np.float64), f"{name}-{number}"
                )
                for number in range(int(turn.max()) + 1)
            ]
        is_damped = combine == "damped" and self.known.order < math.inf
        share = shares(self.where, self.player, self.knowledge.shares) if is_damped else np.ones(count)
        return [_SolvedAtOnce(np.arange(count), share, "")]

    def subgames(self, step: _SolvedAtOnce | None = None, blueprint: Policy | None = None) -> Subgames:
        """The gadget games of a step.

        Args:
          step: own infostates; by default all at once.
          blueprint: one profile for each lane, so that each gadget is combined with its own lanes only; by
            default the task's blueprints repeated for every draw, all combined with each gadget.
        """
        known, solver, player = self.known, self.solver, self.player
        step = self.steps()[0] if step is None else step
        subgames, forest = np.unique(known.subgame[step.infostates]), self.forest
        if len(subgames) < forest.num_subgames:
            forest = build_forest(forest.tree, known.cover.take(subgames), padded=forest.padded)
        roots = forest.roots[player]
        number = np.searchsorted(known.infostate, roots.infostate)
        adopted = np.isin(number, step.infostates) & (subgames[roots.subgame] == known.subgame[number])
        if blueprint is None:
            profiles = Lanes.product(draws=self.knowledge.draws, blueprints=self.blueprint.num_lanes)
            combinations = None
            blueprint = self.blueprint.take_lanes(profiles.blueprint)
        else:
            profiles = self.lanes
            combinations = dataclasses.replace(profiles, blueprint=np.arange(len(profiles)))
            labels = tuple(self.blueprint.labels[blueprint] for blueprint in profiles.blueprint.tolist())
            blueprint = dataclasses.replace(blueprint, labels=labels)
        base = prepare_base(
            self.base,
            player,
            blueprint,
            self.gadgets,
            placement=solver.placement,
            memory_limit=solver.memory_limit,
        )
        considered = None
        if self.knowledge.generate is not None:
            ranges = split_ranges(base.ranges, self.base, forest, player)
            considered = self._considered(self.knowledge.generate, ranges, subgames, profiles.draw)
        overlap = Overlap(
            base=base,
            adopted=adopted,
            considered=considered,
            within=(self.forest, subgames),
            copies=blueprint.num_lanes // self.blueprint.num_lanes,
        )
        return Subgames(forest, player, blueprint, self.gadgets, combinations=combinations, overlap=overlap)

    def solver_of(self, step: _SolvedAtOnce) -> Solver:
        """Settings of a step's solve, with its own folder of checkpoints."""
        path = self.solver.checkpoint_path
        if path is None or not step.folder:
            return self.solver
        return dataclasses.replace(self.solver, checkpoint=path / step.folder)

    def _considered(
        self, generation: Generation, ranges: Ranges, subgames: IntArray, draw: IntArray
    ) -> BoolArray:
        """`[R, lanes]` mask of the opponent's roots that each lane's draw considers.

        Args:
          generation: the generation that selects the roots.
          ranges: ranges of the lanes' blueprints.
          subgames: indices of these subgames among all.
          draw: `[lanes]` index of each lane's draw.
        """
        values = -divide(ranges.cbv, ranges.mass)
        chosen = considered_roots(generation, values, subgames[ranges.subgame])
        by_draw = chosen.reshape(len(values), generation.draws, ranges.num_lanes)
        return by_draw[:, draw, np.arange(ranges.num_lanes)]

    def towards(self, policy: Policy, before: Policy, share: FloatArray) -> Policy:
        """Interpolates between two policies below each own infostate, in realisation plans.

        Args:
          policy: the policy at share 1, one lane for each of the task's.
          before: the policy at share 0, with as many lanes.
          share: `[I]` step size of each own infostate; infostates that the blueprint never reaches are
            unchanged.
        """
        tree, player = self.where.histories, self.player
        infosets = tree.infosets[player]
        root = self.where.root[infosets.history]
        number = np.searchsorted(self.known.infostate, tree.infostate[player, root])
        weight = (share[:, None] * self.reached)[:, self.lanes.blueprint]
        by_infoset = np.where(root[:, None] >= 0, np.append(weight, weight[:1] * 0, axis=0)[number], 0)
        by_action = by_infoset[infosets.infoset[1:]]
        rows = mix_rows((policy, before), (by_action, 1 - by_action), player)
        return policy.with_player(player, rows)

    def over_draws(self, numbers: Any, summary: Callable[..., Any]) -> Any:
        """Reduces numbers over the draws, to `[…, gadgets x blueprints]`.

        Args:
          numbers: `[…, lanes]`.
          summary: reduction along an axis, such as `np.mean`.
        """
        by_draw = [numbers[..., self.lanes.where(draw=draw)] for draw in range(self.knowledge.draws)]
        return summary(np.stack(by_draw), axis=0)


@dataclasses.dataclass(eq=False, kw_only=True)
class KnowledgeSolution(Solutions):
    """Blueprints with all own infostates of one player re-solved.

    Lanes run over gadgets, then blueprints. Over several draws, `value` is the mean, `gap`, ε and iterations
    are the maximum, and a subgame has a decision if it has one in any draw. If infostates are solved in turn,
    the numbers of a subgame are those of its infostate solved last, against the blueprint at that time.

    Attributes:
      drawn: the combined strategies, one lane for each gadget, draw and blueprint.
      policy: the mixtures of all draws.
      rise_bound: `[lanes]` upper bound on the rise of exploitability, NaN if unknown.
    """

    drawn: Policy
    policy: Policy
    rise_bound: FloatArray

    def keep(self, task: KnowledgeTask, infostates: IntArray, solutions: SubgameSolutions) -> None:
        """Records the results of some infostates' subgames."""
        subgames, position = np.unique(task.known.subgame[infostates], return_inverse=True)
        self.value[subgames], self.gap[subgames] = solutions.value, solutions.gap
        reached = np.zeros((len(subgames), task.blueprint.num_lanes), np.bool_)
        np.logical_or.at(reached, position, task.reached[infostates])
        self.has_decision[subgames] = solutions.has_decision & reached[:, task.lanes.blueprint]
        self.epsilon = np.maximum(self.epsilon, solutions.epsilon)
        self.iterations = np.maximum(self.iterations, solutions.iterations)
        self.plans.extend(solutions.plans)
        self.failures = solutions.failures | self.failures  # the earliest failure of a lane takes precedence


def make_task(
    where: Cut,
    player: int,
    blueprint: Policy,
    gadgets: Sequence[Gadget],
    solver: Solver,
    knowledge: Knowledge,
) -> KnowledgeTask:
    """Builds the subgames of all own infostates; see `KnowledgeTask` and `tree.knowledge.knowledge_cover`.

    Args:
      where: the cut.
      player: the resolving player.
      blueprint: profiles, one per lane.
      gadgets: gadgets that `check_knowledge` accepts.
      solver: settings of the solve.
      knowledge: the player's knowledge.
    """
    known = knowledge_cover(where, player, knowledge.order, unfrozen=knowledge.unfrozen)
    base, forest = (build_forest(where.tree, spec, padded=solver.padded) for spec in (where, known.cover))
    return KnowledgeTask(knowledge, known, blueprint, tuple(gadgets), solver, base, forest)


def solve_knowledge(task: KnowledgeTask, watch: Stopwatch) -> KnowledgeSolution:
    """Re-solves all own infostates and combines their strategies.

    `together` adopts all strategies at once, without a guarantee. `damped` moves each infostate towards its
    strategy by its share. `in-turn` solves one colour class at a time and `one-by-one` one infostate, each
    against the previous result, which differs between gadgets and draws. These three are safe at order 1,
    frozen; in all other cases not even a single infostate is. Components need no combination: they are
    solved at once, as in `refine`.

    Args:
      task: the task.
      watch: measures the time.
    """
    policy = task.blueprint.take_lanes(task.lanes.blueprint)
    solution = KnowledgeSolution.nothing(
        task.forest.num_subgames,
        len(task.lanes),
        drawn=policy,
        policy=policy,
        rise_bound=np.zeros(len(task.lanes)),
    )
    for number, step in enumerate(task.steps()):
        drop_many_programs()  # each step compiles its own programs
        with watch.phase("build"):
            alone = task.subgames(step, policy if number else None)
        solutions = solve_subgames(alone, task.solver_of(step), watch)
        solution.keep(task, step.infostates, solutions)
        # At order 1, frozen, a step's subgames are its infostates; otherwise `damped` has no bound.
        share = step.share[step.infostates] if task.known.order == 1 and not task.known.unfrozen else 1.0
        solution.rise_bound += solutions.bound_rise(share) if task.has_bound else np.nan
        policy = task.towards(assemble(alone, solutions), policy, step.share)
    return _mix_draws(task, dataclasses.replace(solution, drawn=policy))


def _mix_draws(task: KnowledgeTask, solution: KnowledgeSolution) -> KnowledgeSolution:
    """Combines the results of all draws."""
    policy, draws, lanes = solution.drawn, task.knowledge.draws, task.lanes
    mixed_lanes = lanes.take(lanes.where(draw=0))
    if draws > 1:
        each = [policy.take_lanes(lanes.where(draw=draw)) for draw in range(draws)]
        rows = mix_rows(each, [1 / draws] * draws, task.player)
        policy = each[0].with_player(task.player, rows)
    failures: dict[int, str] = {}
    for lane in sorted(solution.failures):
        gadget, blueprint = int(lanes.gadget[lane]), int(lanes.blueprint[lane])
        (failed,) = mixed_lanes.where(gadget=gadget, blueprint=blueprint).tolist()
        failures.setdefault(failed, solution.failures[lane])
    if failures:  # results of other classes and draws are discarded, too
        failed = list(failures)
        rows = policy.probabilities[task.player].copy()
        rows[:, failed] = task.blueprint.probabilities[task.player][:, mixed_lanes.blueprint[failed]]
        policy = policy.with_player(task.player, rows)
    mean, most = (functools.partial(task.over_draws, summary=how) for how in (np.mean, np.max))
    mixed = dataclasses.replace(
        solution,
        policy=policy,
        rise_bound=mean(solution.rise_bound),
        value=mean(solution.value),
        gap=most(solution.gap),
        has_decision=most(solution.has_decision),
        epsilon=most(solution.epsilon),
        iterations=most(solution.iterations),
        failures=failures,
    )
    for numbers in (mixed.rise_bound, mixed.value.T, mixed.gap.T):
        numbers[list(failures)] = np.nan
    return mixed
