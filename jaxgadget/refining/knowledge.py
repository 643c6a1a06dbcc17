"""What a player knows at a cut: every own infostate re-solved by itself, and how the strategies go together.

Zhang and Sandholm, *Subgame solving without common knowledge* (2021), order 1: the subgame of an own
infostate I has the opponent's infostates that meet I, and the other own infostates there play as the
blueprint does. One I alone is safe. All of them at once are not: each mends the opponent's infostates as if
no other did. What is: a step towards all new strategies that is short enough (`damped`), or one class of
infostates after the other, of which no two meet a common infostate of the opponent (`in-turn`). At order
k ≥ 3, and unfrozen, several own infostates are solved together, but only I's own strategy is adopted: that is
not safe even for one I.

The paper plays one I at a time and never puts the strategies together.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.opponents.mixtures import mix_rows
from jaxgadget.policy.policy import Policy
from jaxgadget.refining.continuation import alternative_of
from jaxgadget.refining.subgames import GadgetSolutions, GadgetTask, solve_gadgets
from jaxgadget.solving.memory import Plan
from jaxgadget.solving.options import SolveOptions
from jaxgadget.tree.cover import cover_of, find_roots
from jaxgadget.tree.cut import Cut
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.tree.knowledge import KnowledgeCover, check_order, colour_classes, knowledge_cover, shares
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.clock import Stopwatch

Combine = Literal["together", "damped", "in-turn"]
COMBINE: tuple[Combine, ...] = ("together", "damped", "in-turn")
"""How strategies of own infostates go together."""

Follow = Literal["believed", "assembled"]
FOLLOW: tuple[Follow, ...] = ("believed", "assembled")
"""What a later search of nested search takes for granted of the player's own play."""


@dataclasses.dataclass(frozen=True)
class Knowledge:
    """Re-solving by what the player knows, in place of what is common knowledge.

    Safe (with ε = 0 and no gap exploitability never rises) are `damped` and `in-turn` at order 1, frozen.

    Attributes:
      order: k, odd, or `math.inf` for the components of the cut: of an own infostate I, Iᵏ is solved for.
      unfrozen: solve for all that is kept, Iᵏ⁺¹, and adopt what is found at I.
      combine: how the strategies of all own infostates go together: `together`, all at once; `damped`, each
        as far as shares by degree allow, in realisation plans; `in-turn`, by classes of infostates that do
        not meet a common one of the opponent's, each class against what those before it left. For `refine`.
      follow: what later searches take for granted of the player's own play: `believed`, what the player's own
        search before found, and the blueprint elsewhere; `assembled`, what the searches from all own
        infostates found. For `nested_search`.
    """

    order: float = 1
    unfrozen: bool = False
    combine: Combine = "damped"
    follow: Follow = "believed"

    def __post_init__(self) -> None:
        check_order(self.order)
        if self.unfrozen not in (True, False):
            raise ValueError(f"unfrozen={self.unfrozen!r}: expected True or False")
        check_combine(self.combine)
        if self.follow not in FOLLOW:
            raise ValueError(f"follow={self.follow!r}: expected one of {', '.join(FOLLOW)}")


def check_knowledge(knowledge: object) -> None:
    """ValueError unless it is a `Knowledge`."""
    if not isinstance(knowledge, Knowledge):
        raise ValueError(
            f"knowledge={knowledge!r}: expected Knowledge(), such as Knowledge(combine='in-turn')"
        )


def check_gadgets(gadgets: Sequence[Gadget]) -> None:
    """ValueError if a gadget cannot be solved without common knowledge."""
    for gadget in gadgets:
        if "trunk" in gadget.needs or alternative_of(gadget) is not None:
            raise ValueError(
                f"gadgets: {gadget.name} looks at play above the cut or below all of it, which subgames of "
                "own infostates do not have; expected Unsafe(), Resolving() or MaxMargin(), with values of "
                "best responses, of the blueprint or of one's own"
            )


def check_combine(combine: str) -> None:
    """ValueError unless it is a way to put strategies together."""
    if combine not in COMBINE:
        raise ValueError(f"combine={combine!r}: expected one of {', '.join(COMBINE)}")


@dataclasses.dataclass(frozen=True, eq=False)
class KnowledgeTask:
    """All own infostates of a cut to be re-solved, each in the subgame that it knows of.

    Lanes run over gadgets, then blueprints. User's arrays of gadgets have a row for each of the opponent's
    root infostates in each subgame, in the order of `forest.roots`.

    Attributes:
      known: the subgames.
      blueprint: profiles, a lane each.
      gadgets: each takes all of them; none that looks at the trunk or promises values of a continuation.
      options: how.
      base: the subgames of the cut.
      forest: what is known, side by side.
    """

    known: KnowledgeCover
    blueprint: Policy
    gadgets: tuple[Gadget, ...]
    options: SolveOptions
    base: Forest
    forest: Forest

    @property
    def player(self) -> int:
        """Who re-solves."""
        return self.known.player

    @property
    def where(self) -> Cut:
        """The cut."""
        return self.known.cut

    @property
    def num_lanes(self) -> int:
        """Gadgets × blueprints."""
        return len(self.gadgets) * self.blueprint.num_lanes

    @property
    def is_safe(self) -> bool:
        """Whether the solution of one infostate, by itself, is known to be safe."""
        return self.known.order == 1 and not self.known.unfrozen

    @functools.cached_property
    def reached(self) -> BoolArray:
        """`[I, blueprints]` whether a blueprint gets to each own infostate; of components all count."""
        roots, _ = find_roots(cover_of(self.where), self.player)
        reach = self.blueprint.reach(self.player)[roots.sequence]
        return (reach > 0) | (self.known.order == math.inf)

    def gadget_task(
        self,
        infostates: IntArray | None = None,
        gadgets: tuple[Gadget, ...] | None = None,
        blueprint: Policy | None = None,
        folder: str = "",
    ) -> GadgetTask:
        """What the driver is given.

        Args:
          infostates: numbers of own infostates, ascending; by default all.
          gadgets: by default all.
          blueprint: by default those of the task.
          folder: of checkpoints, inside of that of the task.
        """
        known, options = self.known, self.options
        if options.checkpoint is not None and folder:
            options = dataclasses.replace(options, checkpoint=options.checkpoint / folder)
        asked = np.arange(len(known.infostate)) if infostates is None else infostates
        subgames, forest = np.unique(known.subgame[asked]), self.forest
        if len(subgames) < forest.num_subgames:
            forest = build_forest(forest.tree, known.cover.take(subgames), padded=forest.padded)
        roots = forest.roots[self.player]
        number = np.searchsorted(known.infostate, roots.infostate)
        adopted = np.isin(number, asked) & (subgames[roots.subgame] == known.subgame[number])
        return GadgetTask(
            forest,
            self.player,
            self.blueprint if blueprint is None else blueprint,
            self.gadgets if gadgets is None else gadgets,
            options,
            base=self.base,
            adopted=adopted,
        )

    def towards(self, policy: Policy, before: Policy, share: FloatArray) -> Policy:
        """A share of the way from policies to others below each own infostate: realisation plans.

        Args:
          policy: where to, a lane for each gadget and blueprint.
          before: where from, as many lanes.
          share: `[I]` of each own infostate. Where the blueprint never gets, nothing is changed.
        """
        tree, player = self.where.tree, self.player
        infosets = tree.infosets[player]
        root = self.where.root[infosets.history]
        number = np.searchsorted(self.known.infostate, tree.infostate[player, root])
        copies = policy.num_lanes // self.blueprint.num_lanes
        weight = np.tile(share[:, None] * self.reached, copies)
        by_infoset = np.where(root[:, None] >= 0, np.append(weight, weight[:1] * 0, axis=0)[number], 0)
        rows = mix_rows(policy, before, by_infoset[infosets.infoset[1:]], player)
        theirs = policy.probabilities[1 - player]
        return Policy(tree, (rows, theirs) if player == 0 else (theirs, rows), policy.labels)


@dataclasses.dataclass(frozen=True, eq=False)
class KnowledgeSolution:
    """Blueprints with all own infostates of one player re-solved, I of them in the order of their ids.

    Attributes:
      policy: the strategies put together, a lane each.
      rise_bound: `[lanes]` by how much exploitability may rise, NaN where no bound is known.
      value: `[I, lanes]` what the strategies guarantee in each infostate's gadget game, the constant of what
        is frozen counted; where infostates are solved in turn, that of the blueprint as it was then.
      gap: `[I, lanes]` NashConv of each gadget game; its optimum lies in [value, value + gap].
      has_decision: `[I, lanes]` False where an infostate had nothing to solve and the blueprint stayed.
      epsilon: `[lanes]` how likely mistakes were; for `auto`, the largest ε that was needed.
      iterations: `[lanes]` the most that a solve took.
      plans: how lanes were split, for every solve.
      failures: lanes in which a solve came to nothing, and why. Their numbers are NaN, and what that solve
        was to change stayed as it was.
    """

    policy: Policy
    rise_bound: FloatArray
    value: FloatArray
    gap: FloatArray
    has_decision: BoolArray
    epsilon: FloatArray
    iterations: npt.NDArray[np.int64]
    plans: list[Plan]
    failures: dict[int, str]

    @staticmethod
    def nothing(task: KnowledgeTask) -> KnowledgeSolution:
        """Before any infostate is solved."""
        lanes = task.num_lanes
        shape = (len(task.known.infostate), lanes)
        return KnowledgeSolution(
            policy=Policy.stack([task.blueprint] * len(task.gadgets)),
            rise_bound=np.zeros(lanes),
            value=np.full(shape, np.nan),
            gap=np.full(shape, np.nan),
            has_decision=np.zeros(shape, np.bool_),
            epsilon=np.zeros(lanes),
            iterations=np.zeros(lanes, np.int64),
            plans=[],
            failures={},
        )

    def keep(
        self, task: KnowledgeTask, infostates: IntArray, lanes: IntArray, solutions: GadgetSolutions
    ) -> None:
        """Writes down what came out of some infostates' subgames in some lanes."""
        subgame = np.unique(task.known.subgame[infostates], return_inverse=True)[1]
        where = np.ix_(infostates, lanes)
        self.value[where], self.gap[where] = solutions.value[subgame], solutions.gap[subgame]
        reached = task.reached[infostates][:, lanes % task.blueprint.num_lanes]
        self.has_decision[where] = solutions.has_decision[subgame] & reached
        self.epsilon[lanes] = np.maximum(self.epsilon[lanes], solutions.epsilon)
        self.iterations[lanes] = np.maximum(self.iterations[lanes], solutions.iterations)
        self.plans.extend(solutions.plans)
        for lane, why in solutions.failures.items():
            self.failures.setdefault(int(lanes[lane]), why)


def make_task(
    where: Cut,
    player: int,
    blueprint: Policy,
    gadgets: Sequence[Gadget],
    options: SolveOptions,
    *,
    order: float = 1,
    unfrozen: bool = False,
    padded: bool = True,
) -> KnowledgeTask:
    """Lays out the subgames of all own infostates; see `KnowledgeTask` and `tree.knowledge.knowledge_cover`.

    Raises:
      ValueError: if a gadget cannot be solved without common knowledge, or as `knowledge_cover` does.
    """
    check_gadgets(gadgets)
    known = knowledge_cover(where, player, order, unfrozen=unfrozen)
    base, forest = (build_forest(where.tree, what, padded=padded) for what in (where, known.cover))
    return KnowledgeTask(known, blueprint, tuple(gadgets), options, base, forest)


def solve_knowledge(
    task: KnowledgeTask, combine: Combine, watch: Stopwatch, progress: bool | None
) -> KnowledgeSolution:
    """Re-solves all own infostates and puts their strategies together.

    `together` plays them all at once: no guarantee. `damped` goes towards them all as far as shares by degree
    allow. `in-turn` solves one colour class at a time, each against the blueprint that those before it left.
    Damped and in turn are safe at order 1, frozen; elsewhere not even one infostate is. Components have
    nothing to combine: they are solved at once, as `refine` does.

    Args:
      task: what.
      combine: how.
      watch: is told where the time goes.
      progress: see `refine`.

    Raises:
      ValueError: if `combine` is another.
    """
    check_combine(combine)
    in_turn = combine == "in-turn" and task.known.order < math.inf
    solution = (
        _solve_in_turn(task, watch, progress)
        if in_turn
        else _solve_at_once(task, watch, progress, damped=combine == "damped" and task.known.order < math.inf)
    )
    failed = list(solution.failures)
    for numbers in (solution.rise_bound, solution.value.T, solution.gap.T):
        numbers[failed] = np.nan
    return solution


def _solve_at_once(
    task: KnowledgeTask, watch: Stopwatch, progress: bool | None, *, damped: bool
) -> KnowledgeSolution:
    """Every own infostate against the same blueprints."""
    solution, alone = KnowledgeSolution.nothing(task), task.gadget_task()
    infostates = np.arange(len(task.known.infostate))
    solutions = solve_gadgets(alone, watch, progress)
    solution.keep(task, infostates, np.arange(task.num_lanes), solutions)
    share = shares(task.where, task.player) if damped else np.ones(len(infostates))
    policy = task.towards(solutions.policy(alone), solution.policy, share)
    rise_bound = np.full(task.num_lanes, np.nan)
    if damped and task.is_safe:
        rise_bound = solutions.bound_rise(share)
    elif task.known.order == math.inf:
        rise_bound = solutions.bound_rise()
    return dataclasses.replace(solution, policy=policy, rise_bound=rise_bound)


def _solve_in_turn(task: KnowledgeTask, watch: Stopwatch, progress: bool | None) -> KnowledgeSolution:
    """Gadget by gadget, as each changes the blueprints in its own way; then colour class by class."""
    colour, count = colour_classes(task.where, task.player), task.blueprint.num_lanes
    classes = [np.flatnonzero(colour == number) for number in range(int(colour.max()) + 1)]
    solution, policies = KnowledgeSolution.nothing(task), list[Policy]()
    for number, gadget in enumerate(task.gadgets):
        policy, lanes = task.blueprint, number * count + np.arange(count)
        for step, infostates in enumerate(classes):
            before = dataclasses.replace(policy, labels=task.blueprint.labels)
            alone = task.gadget_task(infostates, (gadget,), before, f"gadget-{number}-class-{step}")
            solutions = solve_gadgets(alone, watch, progress)
            solution.keep(task, infostates, lanes, solutions)
            share = np.isin(np.arange(len(colour)), infostates).astype(np.float64)
            policy = task.towards(solutions.policy(alone), before, share)
            solution.rise_bound[lanes] += solutions.bound_rise() if task.is_safe else np.nan
        policies.append(policy)
    return dataclasses.replace(solution, policy=Policy.stack(policies))
