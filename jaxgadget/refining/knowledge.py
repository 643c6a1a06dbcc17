"""What a player knows at a cut: every own infostate re-solved by itself, and how the strategies go together.

Zhang and Sandholm, *Subgame solving without common knowledge* (2021), order 1: the subgame of an own
infostate I has the opponent's infostates that meet I, and the other own infostates there play as the
blueprint does. One I alone is safe. All of them at once are not: each mends the opponent's infostates as if
no other did. What is: a step towards all new strategies that is short enough (`damped`), or one class of
infostates after the other, of which no two meet a common infostate of the opponent (`in-turn`). At order
k ≥ 3, and unfrozen, several own infostates are solved together, but only I's own strategy is adopted: that is
not safe even for one I.

A generation (Ge et al. 2023) leaves some of the opponent's infostates out of a search. Each of its draws is a
search of its own, and what is played is their mixture, drawn once before the game: nothing of it is safe.

The papers play one I at a time and never put the strategies together.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from jaxgadget.gadgets.frozen import split_ranges
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.gadgets.generation import Generation, check_generation, considered_roots
from jaxgadget.gadgets.ranges import Ranges, divide
from jaxgadget.opponents.mixtures import mix_rows
from jaxgadget.policy.policy import Policy
from jaxgadget.refining.continuation import asked_for
from jaxgadget.refining.gadget_games import GadgetSolutions, Solutions
from jaxgadget.refining.prepare import prepare_base
from jaxgadget.refining.subgames import GadgetTask, solve_gadgets, spliced
from jaxgadget.solving.options import SolveOptions
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

Combine = Literal["together", "damped", "in-turn"]
COMBINE: tuple[Combine, ...] = ("together", "damped", "in-turn")
"""How strategies of own infostates go together."""

Follow = Literal["believed", "assembled"]
FOLLOW: tuple[Follow, ...] = ("believed", "assembled")
"""What a later search of nested search takes for granted of the player's own play."""


@dataclasses.dataclass(frozen=True)
class Knowledge:
    """Re-solving by what the player knows, in place of what is common knowledge.

    Safe (with ε = 0 and no gap exploitability never rises) are `damped` and `in-turn` at order 1, frozen and
    without a generation.

    Attributes:
      order: k, odd, or `math.inf` for the components of the cut: of an own infostate I, Iᵏ is solved for.
      unfrozen: solve for all that is kept, Iᵏ⁺¹, and adopt what is found at I.
      generate: which of the opponent's infostates in a subgame its search considers, `RandomGeneration`,
        `DiverseGeneration` or one's own; by default all. Every draw is a search of its own, from the
        blueprint on, and what is played is the mixture of their realisation plans. Where a search considers
        no history that leads to one of its infosets, the blueprint stays. For `refine`.
      combine: how the strategies of all own infostates go together: `together`, all at once; `damped`, each
        as far as shares allow, in realisation plans; `in-turn`, by classes of infostates that do not meet a
        common one of the opponent's, each class against what those before it left. For `refine`.
      shares: how `damped` finds how far each infostate may go: by `degree`, or the largest sum, by a linear
        `program`; see `jaxgadget.tree.knowledge.shares`.
      follow: what later searches take for granted of the player's own play: `believed`, what the player's own
        search before found, and the blueprint elsewhere; `assembled`, what the searches from all own
        infostates found. For `nested_search`.

    Raises:
      ValueError: if one of them is something else.
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
        """How many searches each infostate has."""
        return 1 if self.generate is None else self.generate.draws


def check_knowledge(knowledge: object, gadgets: Sequence[Gadget], opponent: object) -> None:
    """ValueError unless it is a `Knowledge`, and gadgets and opponent are such that it can be used.

    Args:
      knowledge: what a player is to know.
      gadgets: which must look neither at the trunk nor at the optimal continuation.
      opponent: None unless there are some who follow a model.
    """
    if not isinstance(knowledge, Knowledge):
        raise ValueError(
            f"knowledge={knowledge!r}: expected Knowledge(), such as Knowledge(combine='in-turn')"
        )
    if opponent is not None:
        raise ValueError(
            "knowledge and opponent: what models earn against what is frozen is not looked at; expected one "
            "of the two"
        )
    for gadget in gadgets:
        if "trunk" in gadget.needs:
            looks = gadget.name
        elif asked := asked_for(gadget):
            looks = f"{gadget.name} with {asked[0]!r}"
        else:
            continue
        raise ValueError(
            f"gadgets: {looks} looks at play above the cut or below all of it, which subgames of own "
            "infostates do not have; expected Unsafe(), Resolving() or MaxMargin(), with values of best "
            "responses, of the blueprint or of one's own, and no prior of a continuation"
        )


def knowledge_columns(knowledge: Knowledge | None) -> dict[str, Any]:
    """What tables of results say of it; None and NaN without."""
    if knowledge is None:
        return {"order": math.nan, "unfrozen": None, "generation": None, "combine": None}
    return {
        "order": float(knowledge.order),
        "unfrozen": knowledge.unfrozen,
        "generation": None if knowledge.generate is None else knowledge.generate.name,
        "combine": knowledge.combine,
    }


class _SolvedAtOnce(NamedTuple):
    """Own infostates that are re-solved at once.

    Attributes:
      infostates: their numbers, ascending.
      share: `[I]` how far each own infostate goes towards what is found; 0 for others.
      folder: of checkpoints, inside of that of the task.
    """

    infostates: IntArray
    share: FloatArray
    folder: str


@dataclasses.dataclass(frozen=True, eq=False)
class KnowledgeTask:
    """All own infostates of a cut to be re-solved, each in the subgame that it knows of.

    Lanes run over gadgets, then draws of the generation, then blueprints. User's arrays of gadgets have a row
    for each of the opponent's root infostates in each subgame, in the order of `forest.roots`.

    Attributes:
      knowledge: what the player is to know.
      known: the subgames.
      blueprint: profiles, a lane each.
      gadgets: each takes all of them; none that looks at the trunk or promises values of a continuation.
      options: how.
      base: the subgames of the cut.
      forest: what is known, side by side.
    """

    knowledge: Knowledge
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
        """Gadgets × draws × blueprints."""
        return len(self.gadgets) * self.knowledge.draws * self.blueprint.num_lanes

    @property
    def has_bound(self) -> bool:
        """Whether it is known by how much exploitability may rise."""
        knowledge = self.knowledge
        is_safe = knowledge.order == 1 and not knowledge.unfrozen and knowledge.combine != "together"
        return (is_safe or knowledge.order == math.inf) and knowledge.generate is None

    @functools.cached_property
    def reached(self) -> BoolArray:
        """`[I, blueprints]` whether a blueprint gets to each own infostate; of components all count."""
        roots, _ = find_roots(cover_of(self.where), self.player)
        reach = self.blueprint.reach(self.player)[roots.sequence]
        return (reach > 0) | (self.known.order == math.inf)

    def steps(self) -> list[_SolvedAtOnce]:
        """What is solved one after the other; components have nothing to combine."""
        count, combine = len(self.known.infostate), self.knowledge.combine
        if combine == "in-turn" and self.known.order < math.inf:
            colour = colour_classes(self.where, self.player)
            return [
                _SolvedAtOnce(
                    np.flatnonzero(colour == number), (colour == number).astype(np.float64), f"class-{number}"
                )
                for number in range(int(colour.max()) + 1)
            ]
        is_damped = combine == "damped" and self.known.order < math.inf
        share = shares(self.where, self.player, self.knowledge.shares) if is_damped else np.ones(count)
        return [_SolvedAtOnce(np.arange(count), share, "")]

    def gadget_task(self, step: _SolvedAtOnce | None = None, blueprint: Policy | None = None) -> GadgetTask:
        """What the driver is given.

        Args:
          step: own infostates; by default all at once.
          blueprint: `num_lanes` profiles, of which each gadget takes its own; by default those of the task
            for every draw, of which each gadget takes all.
        """
        known, options, player = self.known, self.options, self.player
        step = self.steps()[0] if step is None else step
        if options.checkpoint is not None and step.folder:
            options = dataclasses.replace(options, checkpoint=options.checkpoint / step.folder)
        subgames, forest = np.unique(known.subgame[step.infostates]), self.forest
        if len(subgames) < forest.num_subgames:
            forest = build_forest(forest.tree, known.cover.take(subgames), padded=forest.padded)
        roots = forest.roots[player]
        number = np.searchsorted(known.infostate, roots.infostate)
        adopted = np.isin(number, step.infostates) & (subgames[roots.subgame] == known.subgame[number])
        blueprints_of = None
        if blueprint is None:
            blueprint = Policy.stack([self.blueprint] * self.knowledge.draws)
        else:
            blueprints_of = np.arange(self.num_lanes).reshape(len(self.gadgets), -1)
        copies = blueprint.num_lanes // self.blueprint.num_lanes
        blueprint = dataclasses.replace(blueprint, labels=self.blueprint.labels * copies)
        base = prepare_base(
            self.base,
            player,
            blueprint,
            self.gadgets,
            placement=options.placement,
            memory_limit=options.memory_limit,
        )
        considered = None
        if self.knowledge.generate is not None:
            ranges = split_ranges(base.ranges, self.base, forest, player)
            considered = self._considered(self.knowledge.generate, ranges, subgames)
        return GadgetTask(
            forest,
            player,
            blueprint,
            self.gadgets,
            options,
            base=base,
            considered=considered,
            within=(self.forest, subgames),
            copies=copies,
            blueprints_of=blueprints_of,
            adopted=adopted,
        )

    def _considered(self, generation: Generation, ranges: Ranges, subgames: IntArray) -> BoolArray:
        """`[R, lanes]` which of the opponent's roots each lane's draw considers.

        Args:
          generation: chooses.
          ranges: what the lanes' blueprints bring.
          subgames: numbers of these subgames among all.
        """
        values = -divide(ranges.cbv, ranges.mass)
        chosen = considered_roots(generation, values, subgames[ranges.subgame])
        lane = np.arange(ranges.num_lanes)
        draw = lane // self.blueprint.num_lanes % generation.draws
        return chosen[:, draw * ranges.num_lanes + lane]

    def towards(self, policy: Policy, before: Policy, share: FloatArray) -> Policy:
        """A share of the way from policies to others below each own infostate: realisation plans.

        Args:
          policy: where to, a lane for each of the task's.
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
        by_action = by_infoset[infosets.infoset[1:]]
        rows = mix_rows((policy, before), (by_action, 1 - by_action), player)
        return _with_rows(policy, rows, player)

    def over_draws(self, numbers: Any, summary: Callable[..., Any]) -> Any:
        """`[…, lanes]` numbers without the draws, `[…, gadgets x blueprints]`.

        Args:
          numbers: `[…, lanes]`.
          summary: such as `np.mean`, along an axis.
        """
        parts = numbers.reshape(*numbers.shape[:-1], len(self.gadgets), self.knowledge.draws, -1)
        return summary(parts, axis=-2).reshape(*numbers.shape[:-1], -1)


def _with_rows(policy: Policy, rows: FloatArray, player: int) -> Policy:
    """A policy with other rows of one player."""
    theirs = policy.probabilities[1 - player]
    return Policy(policy.tree, (rows, theirs) if player == 0 else (theirs, rows), policy.labels)


@dataclasses.dataclass(eq=False, kw_only=True)
class KnowledgeSolution(Solutions):
    """Blueprints with all own infostates of one player re-solved.

    Lanes run over gadgets, then blueprints. Of several draws `value` is the mean, `gap`, ε and iterations are
    the largest, and there is a decision where one of them has one. Where infostates are solved in turn, a
    subgame's numbers are those of the last of its infostates, against the blueprint as it was then.

    Attributes:
      drawn: the strategies put together, a lane for each gadget, draw and blueprint.
      policy: the mixtures of all draws.
      rise_bound: `[lanes]` by how much exploitability may rise, NaN where no bound is known.
    """

    drawn: Policy
    policy: Policy
    rise_bound: FloatArray

    def keep(self, task: KnowledgeTask, infostates: IntArray, solutions: GadgetSolutions) -> None:
        """Writes down what came out of some infostates' subgames."""
        subgames, position = np.unique(task.known.subgame[infostates], return_inverse=True)
        self.value[subgames], self.gap[subgames] = solutions.value, solutions.gap
        reached = np.zeros((len(subgames), task.blueprint.num_lanes), np.bool_)
        np.logical_or.at(reached, position, task.reached[infostates])
        copies = task.num_lanes // task.blueprint.num_lanes
        self.has_decision[subgames] = solutions.has_decision & np.tile(reached, copies)
        self.epsilon = np.maximum(self.epsilon, solutions.epsilon)
        self.iterations = np.maximum(self.iterations, solutions.iterations)
        self.plans.extend(solutions.plans)
        self.failures = solutions.failures | self.failures  # what failed first


def make_task(
    where: Cut,
    player: int,
    blueprint: Policy,
    gadgets: Sequence[Gadget],
    options: SolveOptions,
    knowledge: Knowledge,
    *,
    padded: bool = True,
) -> KnowledgeTask:
    """Lays out the subgames of all own infostates; see `KnowledgeTask` and `tree.knowledge.knowledge_cover`.

    Args:
      where: the cut.
      player: who re-solves.
      blueprint: profiles, a lane each.
      gadgets: checked, as by `check_knowledge`.
      options: how.
      knowledge: what the player is to know.
      padded: see `build_forest`.
    """
    known = knowledge_cover(where, player, knowledge.order, unfrozen=knowledge.unfrozen)
    base, forest = (build_forest(where.tree, what, padded=padded) for what in (where, known.cover))
    return KnowledgeTask(knowledge, known, blueprint, tuple(gadgets), options, base, forest)


def solve_knowledge(task: KnowledgeTask, watch: Stopwatch, progress: bool | None) -> KnowledgeSolution:
    """Re-solves all own infostates and puts their strategies together.

    `together` plays them all at once: no guarantee. `damped` goes towards them all as far as shares allow.
    `in-turn` solves one colour class at a time, each against the blueprint that those before it left, which
    every gadget and draw changes in its own way.
    Damped and in turn are safe at order 1, frozen; elsewhere not even one infostate is. Components have
    nothing to combine: they are solved at once, as `refine` does.

    Args:
      task: what.
      watch: is told where the time goes.
      progress: see `refine`.
    """
    copies = len(task.gadgets) * task.knowledge.draws
    policy = Policy.stack([task.blueprint] * copies)
    solution = KnowledgeSolution.nothing(
        task.forest.num_subgames,
        task.num_lanes,
        drawn=policy,
        policy=policy,
        rise_bound=np.zeros(task.num_lanes),
    )
    for number, step in enumerate(task.steps()):
        drop_many_programs()  # every step compiles its own
        with watch.phase("build"):
            alone = task.gadget_task(step, policy if number else None)
        solutions = solve_gadgets(alone, watch, progress)
        solution.keep(task, step.infostates, solutions)
        # At order 1, frozen, a step's subgames are its infostates; elsewhere nothing damped has a bound.
        share = step.share[step.infostates] if task.known.order == 1 and not task.known.unfrozen else 1.0
        solution.rise_bound += solutions.bound_rise(share) if task.has_bound else np.nan
        policy = task.towards(spliced(alone, solutions), policy, step.share)
    return _mix_draws(task, dataclasses.replace(solution, drawn=policy))


def _mix_draws(task: KnowledgeTask, solution: KnowledgeSolution) -> KnowledgeSolution:
    """What the draws come to together."""
    policy, draws, count = solution.drawn, task.knowledge.draws, task.blueprint.num_lanes
    if draws > 1:
        lanes = np.arange(task.num_lanes).reshape(len(task.gadgets), draws, count)
        each = [policy.take_lanes(lanes[:, draw].ravel()) for draw in range(draws)]
        rows = mix_rows(each, [1 / draws] * draws, task.player)
        policy = _with_rows(each[0], rows, task.player)
    failures: dict[int, str] = {}
    for lane in sorted(solution.failures):
        gadget, blueprint = lane // (draws * count), lane % count
        failures.setdefault(gadget * count + blueprint, solution.failures[lane])
    if failures:  # what other classes and draws found does not stay either
        lanes = list(failures)
        rows = policy.probabilities[task.player].copy()
        rows[:, lanes] = task.blueprint.probabilities[task.player][:, np.remainder(lanes, count)]
        policy = _with_rows(policy, rows, task.player)
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
