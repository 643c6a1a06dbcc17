"""What a player knows at a cut: every own infostate re-solved by itself, and how the strategies go together.

Zhang and Sandholm, *Subgame solving without common knowledge* (2021), order 1: the subgame of an own
infostate I has the opponent's infostates that meet I, and the other own infostates there play as the
blueprint does. One I alone is safe. All of them at once are not: each mends the opponent's infostates as if
no other did. What is: a step towards all new strategies that is short enough (`damped`), or one class of
infostates after the other, of which no two meet a common infostate of the opponent (`in-turn`).

The paper plays one I at a time and never puts the strategies together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

import numpy as np

from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.opponents.mixtures import mix_rows
from jaxgadget.policy.policy import Policy
from jaxgadget.refining.continuation import alternative_of
from jaxgadget.refining.subgames import GadgetTask, solve_gadgets
from jaxgadget.solving.options import SolveOptions
from jaxgadget.tree.cut import Cut
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.tree.knowledge import colour_classes, knowledge_cover, shares
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.clock import Stopwatch

Combine = Literal["together", "damped", "in-turn"]
COMBINE: tuple[Combine, ...] = ("together", "damped", "in-turn")
"""How strategies of own infostates go together."""


@dataclasses.dataclass(frozen=True, eq=False)
class KnowledgeTask:
    """All own infostates of a cut to be re-solved, at order 1 with the others frozen.

    Lanes run over gadgets, then blueprints. User's arrays of gadgets have a row for each pair of an own
    infostate and one of the opponent's that it meets, in the order of `forest.roots`.

    Attributes:
      where: the cut.
      player: who re-solves.
      blueprint: profiles, a lane each.
      gadgets: each takes all of them; none that looks at the trunk or promises values of a continuation.
      options: how.
      base: the subgames of the cut.
      forest: those of the own infostates, in the order of their ids.
    """

    where: Cut
    player: int
    blueprint: Policy
    gadgets: tuple[Gadget, ...]
    options: SolveOptions
    base: Forest
    forest: Forest

    @property
    def num_lanes(self) -> int:
        """Gadgets × blueprints."""
        return len(self.gadgets) * self.blueprint.num_lanes

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
        options = self.options
        if options.checkpoint is not None and folder:
            options = dataclasses.replace(options, checkpoint=options.checkpoint / folder)
        forest = self.forest
        if infostates is not None and len(infostates) < forest.num_subgames:
            forest = build_forest(forest.tree, forest.cover.take(infostates), padded=forest.padded)
        return GadgetTask(
            forest,
            self.player,
            self.blueprint if blueprint is None else blueprint,
            self.gadgets if gadgets is None else gadgets,
            options,
            base=self.base,
        )


@dataclasses.dataclass(frozen=True, eq=False)
class KnowledgeSolution:
    """Blueprints with all own infostates of one player re-solved, I of them in the order of their ids.

    Attributes:
      policy: the strategies put together, a lane each.
      rise_bound: `[lanes]` by how much exploitability may rise, NaN where no bound is known.
      value: `[I, lanes]` what each strategy guarantees in its own gadget game, the constant of what is frozen
        counted; where infostates are solved in turn, that of the blueprint as it was then.
      gap: `[I, lanes]` NashConv of each gadget game; its optimum lies in [value, value + gap].
      has_decision: `[I, lanes]` False where an infostate had nothing to solve and the blueprint stayed.
      failures: lanes in which a solve came to nothing, and why. Their numbers are NaN, and what that solve
        was to change stayed as it was.
    """

    policy: Policy
    rise_bound: FloatArray
    value: FloatArray
    gap: FloatArray
    has_decision: BoolArray
    failures: dict[int, str]


def make_task(
    where: Cut,
    player: int,
    blueprint: Policy,
    gadgets: Sequence[Gadget],
    options: SolveOptions,
    *,
    padded: bool = True,
) -> KnowledgeTask:
    """Lays out the subgames of all own infostates; see `KnowledgeTask`.

    Raises:
      ValueError: if a gadget cannot be solved without common knowledge.
    """
    for gadget in gadgets:
        if "trunk" in gadget.needs or alternative_of(gadget) is not None:
            raise ValueError(
                f"gadgets: {gadget.name} looks at play above the cut or below all of it, which subgames of "
                "own infostates do not have; expected Unsafe(), Resolving() or MaxMargin(), with values of "
                "best responses, of the blueprint or of one's own"
            )
    cover = knowledge_cover(where, player, 1).cover
    base, forest = (build_forest(where.tree, what, padded=padded) for what in (where, cover))
    return KnowledgeTask(where, player, blueprint, tuple(gadgets), options, base, forest)


def solve_knowledge(
    task: KnowledgeTask, combine: Combine, watch: Stopwatch, progress: bool | None
) -> KnowledgeSolution:
    """Re-solves all own infostates and puts their strategies together.

    `together` plays them all at once: no guarantee. `damped` goes towards them all as far as shares by degree
    allow. `in-turn` solves one colour class at a time, each against the blueprint that those before it left.

    Args:
      task: what.
      combine: how.
      watch: is told where the time goes.
      progress: see `refine`.

    Raises:
      ValueError: if `combine` is another.
    """
    if combine not in COMBINE:
        raise ValueError(f"combine={combine!r}: expected one of {', '.join(COMBINE)}")
    solution = (
        _solve_in_turn(task, watch, progress)
        if combine == "in-turn"
        else _solve_at_once(task, watch, progress, damped=combine == "damped")
    )
    failed = list(solution.failures)
    for numbers in (solution.rise_bound, solution.value.T, solution.gap.T):
        numbers[failed] = np.nan
    return solution


def _solve_at_once(
    task: KnowledgeTask, watch: Stopwatch, progress: bool | None, *, damped: bool
) -> KnowledgeSolution:
    """Every own infostate against the same blueprints."""
    alone = task.gadget_task()
    solutions = solve_gadgets(alone, watch, progress)
    policy, rise_bound = solutions.policy(alone), np.full(task.num_lanes, np.nan)
    if damped:
        share = shares(task.where, task.player)
        policy, rise_bound = _towards(task, policy, share), solutions.bound_rise(share)
    return KnowledgeSolution(
        policy, rise_bound, solutions.value, solutions.gap, solutions.has_decision, solutions.failures
    )


def _towards(task: KnowledgeTask, policy: Policy, share: FloatArray) -> Policy:
    """The blueprints, a share of the way to a policy below each own infostate: realisation plans."""
    tree, player = task.where.tree, task.player
    infosets, own = tree.infosets[player], task.forest.roots[player].infostate
    root = task.where.root[infosets.history]
    number = np.searchsorted(own, tree.infostate[player, root])
    weight = np.where(root >= 0, np.append(share, 0)[number], 0)[infosets.infoset[1:]]
    before = Policy.stack([task.blueprint] * len(task.gadgets))
    rows = mix_rows(policy, before, weight[:, None], player)
    theirs = policy.probabilities[1 - player]
    return Policy(tree, (rows, theirs) if player == 0 else (theirs, rows), policy.labels)


def _solve_in_turn(task: KnowledgeTask, watch: Stopwatch, progress: bool | None) -> KnowledgeSolution:
    """Gadget by gadget, as each changes the blueprints in its own way; then colour class by class."""
    colour, count = colour_classes(task.where, task.player), task.blueprint.num_lanes
    classes = [np.flatnonzero(colour == number) for number in range(int(colour.max()) + 1)]
    shape = (len(colour), task.num_lanes)
    value, gap, has_decision = np.full(shape, np.nan), np.full(shape, np.nan), np.zeros(shape, np.bool_)
    rise_bound, policies = np.zeros(task.num_lanes), list[Policy]()
    failures: dict[int, str] = {}
    for number, gadget in enumerate(task.gadgets):
        policy, lanes = task.blueprint, number * count + np.arange(count)
        for step, infostates in enumerate(classes):
            before = dataclasses.replace(policy, labels=task.blueprint.labels)
            alone = task.gadget_task(infostates, (gadget,), before, f"gadget-{number}-class-{step}")
            solutions = solve_gadgets(alone, watch, progress)
            policy = solutions.policy(alone)
            rise_bound[lanes] += solutions.bound_rise()
            where = np.ix_(infostates, lanes)
            value[where], gap[where] = solutions.value, solutions.gap
            has_decision[where] = solutions.has_decision
            failures = {number * count + lane: why for lane, why in solutions.failures.items()} | failures
        policies.append(policy)
    return KnowledgeSolution(Policy.stack(policies), rise_bound, value, gap, has_decision, failures)
