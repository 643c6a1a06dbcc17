"""The subgame engine: solves gadget games of subgames in batches, and assembles their strategies.

`Subgames` describes the games below a cut or cover of a tree, `solve_subgames` solves them, `assemble`
inserts their strategies into the blueprints. Gadgets that share an entry are solved at once, for every
opponent and blueprint. If not even one lane of all subgames fits in memory, they are solved in parts.
Subgames that do not form a forest of one tree, such as hold'em spots on several boards, implement
`GadgetSubgames` separately.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from jaxgadget.core.checkpoint import load_chunk, load_parts, save_chunk, save_parts
from jaxgadget.core.driver import Report, checked_plan
from jaxgadget.core.memory import (
    ADVICE,
    MANY_LANES,
    ONE_SUBGAME,
    DoesNotFit,
    Plan,
    plan_batch,
)
from jaxgadget.core.rows import pad_rows
from jaxgadget.core.solution import BatchSolution, find_earnings, solve_batch
from jaxgadget.core.solver import Solver
from jaxgadget.gadgets.alternative import PrecomputedValues
from jaxgadget.gadgets.capabilities import Capability
from jaxgadget.gadgets.entry import BoundRule
from jaxgadget.gadgets.gadget import AUTO, Gadget, describe
from jaxgadget.gadgets.games import GadgetGames, Prepared, build_games, by_gadget, group_gadgets
from jaxgadget.gadgets.models import Mixtures
from jaxgadget.opponents.opponent import Opponent, Opponents, list_opponents
from jaxgadget.policy.evaluate import normalise_rows
from jaxgadget.policy.policy import Policy
from jaxgadget.subgames.prepare import Base, body_rows, plan_ranges, prepare, prepare_known
from jaxgadget.tree.forest import Forest
from jaxgadget.tree.parts import root_numbers, take_part
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.clock import Stopwatch
from jaxgadget.util.files import make_folder
from jaxgadget.util.lanes import Lanes
from jaxgadget.util.progress import progress_bar


def name_lane(gadget: Gadget, blueprint: str, against: str = "") -> str:
    """Name of a lane in messages, by the blueprint's label and a description of the opponent, if any."""
    return " ".join(filter(None, (f"{describe(gadget)} after blueprint {blueprint!r}", against)))


class GadgetSubgames(abc.ABC):
    """Interface of the engine to subgames that a player re-solves with gadgets."""

    player: int
    """The resolving player."""

    gadgets: tuple[Gadget, ...]
    """The gadgets; each is combined with all opponents and blueprints."""

    @functools.cached_property
    @abc.abstractmethod
    def lanes(self) -> Lanes:
        """The combinations of gadgets, opponents and blueprints that are solved."""

    @property
    @abc.abstractmethod
    def num_subgames(self) -> int:
        """Number of subgames."""

    @property
    @abc.abstractmethod
    def num_actions(self) -> int:
        """Rows of `SubgameSolutions.strategy`."""

    @property
    @abc.abstractmethod
    def num_roots(self) -> int:
        """Number of rows of users' gadget arrays, one for each of the opponent's roots."""

    @abc.abstractmethod
    def check(self) -> None:
        """Raises ValueError if a gadget's array has the wrong shape, or if subgames overlap."""

    @abc.abstractmethod
    def place(self, numbers: IntArray, solver: Solver) -> Prepared:
        """Places selected subgames on the device and computes the blueprints' ranges at their roots."""

    def adopted_actions(self, numbers: IntArray, prepared: Prepared) -> tuple[IntArray, IntArray]:
        """Actions of the body whose strategy is adopted, and their rows in `SubgameSolutions.strategy`."""
        actions = np.arange(self.num_actions)
        return actions, actions

    @abc.abstractmethod
    def describe(self, gadget: Gadget, opponent: int, blueprint: int) -> str:
        """Description of a lane, for messages."""

    def reference_rows(self, prepared: Prepared, gadget: int) -> FloatArray | None:
        """`[Q, blueprints]` strategies whose values a gadget offers; None if no opponent follows a model."""
        return None

    @property
    def advice(self) -> tuple[str, ...]:
        """Remedy in error messages for a solve that does not fit in memory."""
        return ADVICE

    def groups(self, solver: Solver) -> list[list[int]]:
        """Groups of indices of gadgets that are solved at once; for linear programs, one gadget in each."""
        if solver.rule is None:
            return [[gadget] for gadget in range(len(self.gadgets))]
        return group_gadgets(self.gadgets)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Overlap:
    """Additional inputs of subgames of own infostates, which may overlap.

    Attributes:
      base: ranges of the blueprints at the cut.
      adopted: `[R]` mask of the player's roots below which the strategy is adopted.
      considered: `[R, lanes]` mask of the opponent's roots considered for each blueprint; by default all.
      within: the larger forest that contains these subgames, and their indices in it, if users' gadget arrays
        have one row for each of the opponent's roots in it; by default these subgames.
      copies: number of consecutive copies in the blueprints of the policies for which users' gadget arrays
        have columns.
    """

    base: Base
    adopted: BoolArray
    considered: BoolArray | None = None
    within: tuple[Forest, IntArray] | None = None
    copies: int = 1


@dataclasses.dataclass(frozen=True, eq=False)
class Subgames(GadgetSubgames):
    """Gadget games of subgames, for every gadget, opponent and blueprint.

    Attributes:
      forest: the subgames.
      player: the resolving player.
      blueprint: profiles, one per lane.
      gadgets: the gadgets.
      opponents: the opponents; by default one that only adapts.
      combinations: combinations of gadgets, opponents and blueprints, in order of gadgets; by default all.
      overlap: inputs of subgames of own infostates; None for those of a cut.
      held: the tree's infosets at which the player is locked to the blueprint; by default none.
    """

    forest: Forest
    player: int
    blueprint: Policy
    gadgets: tuple[Gadget, ...]
    opponents: Opponents | None = None
    combinations: Lanes | None = None
    overlap: Overlap | None = None
    held: IntArray | None = None

    @functools.cached_property
    def against(self) -> Opponents:
        """The opponents; one that only adapts if none were given."""
        return (
            list_opponents(Opponent(), self.forest.tree, name="opponent")
            if self.opponents is None
            else self.opponents
        )

    @property
    def advice(self) -> tuple[str, ...]:
        """Remedy in error messages for a solve that does not fit in memory."""
        return ADVICE if self.forest.num_subgames == 1 or self.overlap is not None else ONE_SUBGAME

    @functools.cached_property
    def lanes(self) -> Lanes:
        """The combinations of gadgets, opponents and blueprints that are solved."""
        if self.combinations is not None:
            return self.combinations
        return Lanes.product(
            gadgets=len(self.gadgets), opponents=len(self.against), blueprints=self.blueprint.num_lanes
        )

    @property
    def num_subgames(self) -> int:
        """Number of subgames."""
        return self.forest.num_subgames

    @property
    def num_actions(self) -> int:
        """Number of rows of `SubgameSolutions.strategy`: the player's actions in the whole tree."""
        return self.forest.tree.infosets[self.player].num_sequences - 1

    def with_gadgets(self, more: Mapping[int, Gadget]) -> Subgames:
        """Appends gadgets, each with the lanes of the gadget whose index is its key."""
        lanes = self.lanes.take(
            np.concatenate([np.arange(len(self.lanes)), self.lanes.of_gadgets(list(more))])
        )
        gadget, count = lanes.gadget.copy(), len(self.gadgets)
        gadget[len(self.lanes) :] = np.repeat(
            np.arange(count, count + len(more)), [len(self.lanes.where(gadget=gadget)) for gadget in more]
        )
        return dataclasses.replace(
            self,
            gadgets=(*self.gadgets, *more.values()),
            combinations=dataclasses.replace(lanes, gadget=gadget),
        )

    def check(self) -> None:
        """Raises ValueError for a gadget's array that does not fit, or for subgames that overlap."""
        copies = 1 if self.overlap is None else self.overlap.copies
        for gadget in self.gadgets:
            gadget.check(self.num_roots, self.blueprint.num_lanes // copies)
        if self.overlap is None:
            self.forest.check_disjoint()

    def place(self, numbers: IntArray, solver: Solver) -> Prepared:
        """Places selected subgames on the device and computes the blueprints' ranges at their roots."""
        if solver.rule is None:
            forest, prepared = self.forest, self.prepare(self.forest)
        else:
            forest = take_part(self.forest, numbers)
            room = plan_ranges(forest, solver.placement, solver.memory_limit, advice=self.advice)
            opponent = 1 - self.player
            row = root_numbers(forest, self.forest, numbers, opponent)
            prepared = self.prepare(
                forest,
                root=self.forest.roots[opponent].row[row],
                at_once=min(room, solver.chunk or MANY_LANES),
                platform=solver.placement.platform,
            )
        return dataclasses.replace(prepared, mixtures=self.mixtures(forest), floor=self.floor(prepared))

    def adopted_actions(self, numbers: IntArray, prepared: Prepared) -> tuple[IntArray, IntArray]:
        """Actions of the body whose strategy is adopted, and their rows in `SubgameSolutions.strategy`."""
        forest = prepared.forest
        treeplex, action = forest.form.treeplex[self.player], forest.form.action_sequences(self.player)
        taken = action >= 0
        if self.overlap is not None:
            number = root_numbers(forest, self.forest, numbers, self.player)
            adopted = pad_rows(self.overlap.adopted[number], treeplex.num_roots, 0)
            taken &= adopted[treeplex.root_of()[treeplex.num_roots :]]
        actions = np.flatnonzero(taken)
        return actions, action[actions] - 1

    def reference(self, gadget: int) -> Policy:
        """The strategies whose values a gadget offers: a continuation's, or the blueprints."""
        values = self.gadgets[gadget].alternative
        if isinstance(values, PrecomputedValues) and values.strategy is not None:
            return values.strategy
        return self.blueprint

    def reference_rows(self, prepared: Prepared, gadget: int) -> FloatArray | None:
        """`[Q, blueprints]` strategies whose values a gadget offers; None if no opponent follows a model."""
        if self.against.adapt:
            return None
        return body_rows(prepared.forest.form, self.reference(gadget), self.player)

    def floor(self, prepared: Prepared) -> FloatArray | None:
        """`[Q, blueprints]` minimum probabilities of the player's actions; None if no infoset is locked."""
        if self.held is None:
            return None
        treeplex = prepared.forest.form.treeplex[self.player]
        held = np.isin(treeplex.infoset[treeplex.sequence_infoset], self.held)
        return np.where(held[:, None], prepared.rows[self.player], 0.0)

    def mixtures(self, forest: Forest) -> Mixtures | None:
        """The opponents over the given subgames; None if all of them only adapt."""
        return None if self.against.adapt else self.against.over(forest, self.player)

    def prepare(
        self,
        forest: Forest,
        *,
        root: IntArray | None = None,
        at_once: int | None = None,
        platform: str | None = None,
    ) -> Prepared:
        """Places selected subgames on the device and computes the ranges at their roots; see `prepare`."""
        overlap = self.overlap
        if overlap is None:
            return prepare(
                forest,
                self.player,
                self.blueprint,
                self.gadgets,
                root=root,
                at_once=at_once,
                platform=platform,
            )
        considered = overlap.considered
        if considered is not None and root is not None:
            considered = considered[root]
        if overlap.within is not None:
            number = root_numbers(self.forest, *overlap.within, 1 - self.player)
            root = number if root is None else number[root]
        return prepare_known(overlap.base, forest, root=root, considered=considered)

    @property
    def num_roots(self) -> int:
        """Number of rows of users' arrays: the opponent's roots, including those outside these subgames."""
        within = None if self.overlap is None else self.overlap.within
        forest = self.forest if within is None else within[0]
        return forest.roots[1 - self.player].num_rows

    @property
    def infosets(self) -> IntArray:
        """The tree's infosets of the player at which the strategy is adopted."""
        if self.overlap is None:
            return self.forest.infosets(self.player)
        infoset = self.forest.form.treeplex[self.player].infoset
        taken = self.overlap.adopted[self.forest.root_of_infoset(self.player)]
        return np.unique(infoset[(infoset >= 0) & taken])

    def describe(self, gadget: Gadget, opponent: int, blueprint: int) -> str:
        """Description of a lane, for messages."""
        return name_lane(gadget, self.blueprint.labels[blueprint], self.against.describe(opponent))


@dataclasses.dataclass(eq=False, kw_only=True)
class Solutions:
    """Solutions of S subgames, per lane.

    Attributes:
      value: `[S, lanes]` value guaranteed by the resolving player's strategy; rows of missing games are NaN.
      gap: `[S, lanes]` NashConv of each gadget game; its optimum lies in [value, value + gap].
      has_decision: `[S, lanes]` False where a subgame had nothing to solve and the blueprint is unchanged.
      epsilon: `[lanes]` probability of mistakes.
      iterations: `[lanes]` completed iterations.
      plans: division of the lanes into chunks, for each solve.
      failures: lanes in which the solve of a subgame failed, with the reason.
    """

    value: FloatArray
    gap: FloatArray
    has_decision: npt.NDArray[np.bool_]
    epsilon: FloatArray
    iterations: npt.NDArray[np.int64]
    plans: list[Plan] = dataclasses.field(default_factory=list[Plan])
    failures: dict[int, str] = dataclasses.field(default_factory=dict[int, str])

    @classmethod
    def nothing(cls, subgames: int, num_lanes: int, **more: Any) -> Self:
        """Initial state, before any subgame is solved; `more` holds the fields of the subclass."""
        return cls(
            value=np.full((subgames, num_lanes), np.nan),
            gap=np.full((subgames, num_lanes), np.nan),
            has_decision=np.zeros((subgames, num_lanes), np.bool_),
            epsilon=np.zeros(num_lanes),
            iterations=np.zeros(num_lanes, np.int64),
            **more,
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class SubgameSolutions(Solutions):
    """Solutions of gadget games, possibly incomplete.

    Attributes:
      lanes: the combinations of gadgets, opponents and blueprints.
      strategy: `[actions, lanes]` strategy of the resolving player, in the order of its policies, 0 outside
        the subgames.
      below: `[R, lanes]` values of the opponent's roots against the strategies, in the resolving player's
        utility; rows are those of users' arrays.
      entered: `[R, lanes]` probability that the opponent's average strategy in the gadget's entry leads to
        each root; NaN if the gadget leaves it no choice.
      alternative: `[R, lanes]` values that the gadget offers at the opponent's roots, in the resolving
        player's utility; NaN if it offers none.
      losses: `[S, lanes]` upper bound on each game's contribution to exploitability, NaN if unknown.
      bound_rules: for every gadget, the rule by which `losses` bound the rise of exploitability; None if no
        bound is known.
    """

    lanes: Lanes
    strategy: FloatArray
    below: FloatArray
    entered: FloatArray
    alternative: FloatArray
    losses: FloatArray
    bound_rules: list[BoundRule | None]

    @staticmethod
    def empty(subgames: GadgetSubgames) -> SubgameSolutions:
        """Allocates the solutions, before any subgame is solved."""
        count, roots = len(subgames.lanes), subgames.num_roots
        return SubgameSolutions.nothing(
            subgames.num_subgames,
            count,
            lanes=subgames.lanes,
            strategy=np.zeros((subgames.num_actions, count)),
            below=np.full((roots, count), np.nan),
            entered=np.full((roots, count), np.nan),
            alternative=np.full((roots, count), np.nan),
            losses=np.full((subgames.num_subgames, count), np.nan),
            bound_rules=[None] * len(subgames.gadgets),
        )

    @property
    def loss_bound(self) -> FloatArray:
        """`[lanes]` upper bound on the rise of exploitability, NaN if unknown."""
        return self.bound_rise()

    def bound_rise(self, share: FloatArray | float = 1.0) -> FloatArray:
        """`[lanes]` upper bound on the rise of exploitability if each strategy is followed only in part.

        Args:
          share: `[S]` step size from the blueprint's realisation plan towards each strategy. If the largest
            loss is bounded, shares are those of `tree.knowledge.shares`, or 1 in subgames that do not
            overlap.
        """
        weight = np.broadcast_to(share, len(self.losses))[:, None]
        bounds = np.empty(len(self.lanes))
        for number, rule in enumerate(self.bound_rules):
            lanes = self.lanes.where(gadget=number)
            losses = self.losses[:, lanes]
            loss = np.where(np.isnan(losses), 0.0, losses)
            together = (weight * loss).sum(axis=0) if rule == "sum" else loss.max(axis=0, initial=0.0)
            unknown = rule is None or (len(losses) > 0 and np.isnan(losses).all(axis=0))
            bounds[lanes] = np.where(unknown, np.nan, together)
        return bounds

    def put(self, subgames: GadgetSubgames, group: GadgetGroup, solution: BatchSolution) -> None:
        """Checks the solution of a group of gadgets and stores it in the rows of its subgames and lanes."""
        games, player, numbers = group.games, subgames.player, group.subgames
        prepared, dtype = games.prepared, group.precision
        gap = np.maximum(solution.gap, 0)  # negative gaps are rounding errors
        rows, gained = solution.strategy[player], None
        reference = group.reference_rows(subgames)
        if reference is not None:
            earned, offered = find_earnings(games.batch, player, (rows, reference), solution.plan)
            gained = earned - offered
        lanes, names = self.lanes.of_gadgets(group.gadgets), group.names(subgames)
        self.failures |= {int(lanes[lane]): why for lane, why in solution.failures.items()}
        for kind, failed in {"over": solution.overflows, "under": games.underflows(dtype)}.items():
            for lane, subgame in failed.items():
                why = f"the solve of subgame {numbers[subgame]} {kind}flowed in {dtype}{_remedy(dtype)}"
                self.failures.setdefault(int(lanes[lane]), f"{names[lane]}: {why}")
        adopted, actions = subgames.adopted_actions(numbers, prepared)
        self.strategy[np.ix_(actions, lanes)] = rows[adopted]
        solved = np.ix_(numbers[: games.batch.num_games], lanes)
        self.value[solved] = solution.guaranteed[player]
        self.gap[solved] = gap
        num_roots = len(games.ranges.subgame)
        below, entered = solution.below[player][:num_roots], solution.entered[1 - player][:num_roots]
        named = np.flatnonzero(games.ranges.root >= 0)
        roots = np.ix_(games.ranges.root[named], lanes)
        self.below[roots], self.entered[roots] = below[named], games.entered(entered)[named]
        with np.errstate(over="ignore", invalid="ignore"):  # failed lanes
            self.alternative[roots] = games.alternative()[named]
            self.losses[solved] = games.losses(gap, below, gained)
        self.has_decision[np.ix_(numbers, lanes)] = games.has_decision(np.arange(games.num_lanes))
        for position, number in enumerate(group.gadgets):
            self.bound_rules[number] = games.entry.bound_rule(position)
        epsilon = solution.epsilon
        if epsilon is None:
            epsilon = np.array([gadget.epsilon for gadget in games.gadgets], np.float64)[games.lanes.gadget]
        self.epsilon[lanes] = epsilon
        self.iterations[lanes] = np.maximum(self.iterations[lanes], solution.iterations)
        if solution.plan is not None:
            self.plans.append(solution.plan)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class GadgetGroup:
    """Gadgets that share an entry in some of the subgames, which are solved at once.

    Attributes:
      subgames: indices of the subgames, ascending.
      gadgets: indices of the gadgets.
      games: the gadget games; with ε = 0 if linear programs determine it.
      solver: settings of the solve, with the folder of checkpoints of these subgames.
      plan: division of the lanes into chunks; None for linear programs.
      is_auto: True if linear programs determine ε.
    """

    subgames: IntArray
    gadgets: list[int]
    games: GadgetGames
    solver: Solver
    plan: Plan | None
    is_auto: bool

    @property
    def precision(self) -> np.dtype[Any]:
        """Precision of the solve."""
        return np.dtype(np.float64) if self.solver.rule is None else self.solver.precision

    def names(self, subgames: GadgetSubgames) -> list[str]:
        """Names of the lanes in messages."""
        lanes = self.games.lanes
        return [
            subgames.describe(subgames.gadgets[self.gadgets[gadget]], opponent, blueprint)
            for gadget, opponent, blueprint in zip(
                lanes.gadget.tolist(), lanes.opponent.tolist(), lanes.blueprint.tolist(), strict=True
            )
        ]

    def reference_rows(self, subgames: GadgetSubgames) -> FloatArray | None:
        """`[Q, lanes]` strategies whose values the gadgets offer; None if no opponent follows a model."""
        rows = [subgames.reference_rows(self.games.prepared, gadget) for gadget in self.gadgets]
        if any(each is None for each in rows):
            return None
        offered: list[Any] = rows
        return by_gadget(self.games.lanes, lambda gadget, blueprints: offered[gadget][:, blueprints])


def solve_subgames(
    subgames: GadgetSubgames, solver: Solver, watch: Stopwatch, report: Report | None = None
) -> SubgameSolutions:
    """Solves all gadget games, by regret matching or by linear programs.

    Args:
      subgames: the games.
      solver: settings of the solve.
      watch: measures the time.
      report: progress callback in place of a bar; receives the number of completed iterations, averaged over
        the groups of gadgets.

    Raises:
      ValueError: if a user's array has the wrong shape, the checkpoint belongs to another solve, or there is
        too little memory.
    """
    subgames.check()
    solutions = SubgameSolutions.empty(subgames)
    with watch.phase("build"):
        if solver.checkpoint_path is not None:
            make_folder(solver.checkpoint_path)
        parts, groups = _split(subgames, solver)
    total, done = len(parts) * len(subgames.groups(solver)), 0
    with contextlib.ExitStack() as stack:
        tell, solves = report, total
        if tell is None:
            bar = progress_bar("refining", solver.num_iterations * total, solver.progress)
            tell, solves = stack.enter_context(bar), 1
        for part in parts:
            if groups is None:
                with watch.phase("build"):
                    groups = _build_groups(subgames, solver, part, is_split=len(parts) > 1)
            for group in groups:

                def report_group(now: int, before: int = done * solver.num_iterations) -> None:
                    tell((before + now) // solves)

                with watch.phase("run"):
                    solution = _solve_group(subgames, group, report_group)
                solutions.put(subgames, group, solution)
                done += 1
            groups = None
    return solutions


def _split(subgames: GadgetSubgames, solver: Solver) -> tuple[list[IntArray], list[GadgetGroup] | None]:
    """Splits the subgames into as few parts as fit in memory; a resumed solve keeps its parts.

    Returns:
      The indices of each part's subgames; and the groups of the part if there is only one, otherwise None.
    """
    folder, everything = solver.checkpoint_path, np.arange(subgames.num_subgames)
    parts = None if folder is None else load_parts(folder, len(everything))
    if parts is not None:
        return parts, None
    try:
        return [everything], _build_groups(subgames, solver, everything, is_split=False)
    except DoesNotFit:
        parts = _halves(subgames, solver, everything)
    if folder is not None:
        save_parts(folder, parts)
    return parts, None


def _halves(subgames: GadgetSubgames, solver: Solver, part: IntArray) -> list[IntArray]:
    """Halves a part until it fits in memory; gadgets that read the trunk need all subgames at once."""
    if len(part) == 1 or any(Capability.TRUNK in gadget.requires for gadget in subgames.gadgets):
        _build_groups(subgames, solver, part, is_split=True)  # raises, unless memory was freed meanwhile
        return [part]
    middle = len(part) // 2
    parts: list[IntArray] = []
    for half in (part[:middle], part[middle:]):
        try:
            _build_groups(subgames, solver, half, is_split=True)
            parts.append(half)
        except DoesNotFit:
            parts += _halves(subgames, solver, half)
    return parts


def _build_groups(
    subgames: GadgetSubgames, solver: Solver, numbers: IntArray, *, is_split: bool
) -> list[GadgetGroup]:
    """Places selected subgames on the device and builds the games of every group of gadgets.

    With other parts, `is_split`, their checkpoints are in a separate folder.
    """
    prepared, folder = subgames.place(numbers, solver), solver.checkpoint_path
    if folder is not None and is_split:
        folder /= f"subgames-{numbers[0]}-to-{numbers[-1]}"
        solver = dataclasses.replace(solver, checkpoint=folder)
    groups: list[GadgetGroup] = []
    for group in subgames.groups(solver):
        gadgets: list[Any] = [subgames.gadgets[gadget] for gadget in group]
        is_auto, plan = gadgets[0].epsilon == AUTO, None
        if is_auto:
            gadgets = [dataclasses.replace(gadget, epsilon=0.0) for gadget in gadgets]
        games = build_games(prepared, gadgets, lanes=subgames.lanes.only_gadgets(group))
        if solver.rule is not None:
            batch = games.batch
            plan = plan_batch(
                batch,
                solver.precision,
                solver.placement,
                rule=solver.iterative_rule(),
                memory_limit=solver.memory_limit,
                chunk=solver.chunk if folder is None else load_chunk(folder, batch.name, batch.num_lanes),
                advice=subgames.advice,
            )
        groups.append(
            GadgetGroup(
                subgames=numbers, gadgets=group, games=games, solver=solver, plan=plan, is_auto=is_auto
            )
        )
    return groups


def _solve_group(subgames: GadgetSubgames, group: GadgetGroup, report: Report) -> BatchSolution:
    """Solves a group of gadgets; the resolving player keeps its blueprint where there is no strategy."""
    games, solver, plan, folder = group.games, group.solver, group.plan, group.solver.checkpoint_path
    if plan is not None:
        if folder is None or load_chunk(folder, games.batch.name, games.num_lanes) is None:
            plan = checked_plan(games.batch, solver, plan)  # otherwise it keeps its initial chunks
        if folder is not None:
            make_folder(folder)
            save_chunk(folder, games.batch.name, games.num_lanes, plan.chunk)
    return solve_games(
        games,
        solver,
        players=(games.player,),
        plan=plan,
        names=group.names(subgames),
        is_auto=group.is_auto,
        report=report,
    )


def solve_games(
    games: GadgetGames,
    solver: Solver,
    *,
    players: tuple[int, ...] = (0, 1),
    plan: Plan | None = None,
    names: Sequence[str] | None = None,
    is_auto: bool = False,
    report: Report,
) -> BatchSolution:
    """Solves gadget games; the blueprints stay where a solution has no strategy.

    Args:
      games: the games; with ε = 0 if linear programs determine it.
      solver: settings of the solve.
      players: players whose strategies are requested.
      plan: division of the lanes into chunks; by default as memory allows.
      names: names of the lanes, for errors of linear programs.
      is_auto: True if linear programs determine ε.
      report: see `solve_batch`.
    """
    return solve_batch(
        games.batch,
        solver,
        functools.partial(games.fallbacks, players=players),
        players=players,
        plan=plan,
        names=names,
        perturbed=(lambda epsilon: games.with_epsilon(epsilon).batch) if is_auto else None,
        report=report,
    )


def assemble(subgames: Subgames, solutions: SubgameSolutions) -> Policy:
    """Inserts the strategies into the blueprints; failed lanes keep the blueprint."""
    tree, player = subgames.forest.tree, subgames.player
    lanes = subgames.lanes
    before = subgames.blueprint.take_lanes(lanes.blueprint)
    infosets = tree.infosets[player]
    inside = np.isin(infosets.infoset[1:], subgames.infosets)
    solved = inside[:, None] & ~np.isin(np.arange(before.num_lanes), list(solutions.failures))
    rows = np.where(solved, solutions.strategy, before.probabilities[player])
    rows = np.where(solved, normalise_rows(rows, infosets.infoset[1:]), rows)
    labels = lanes.labels(
        subgames.blueprint.labels,
        [describe(gadget) for gadget in subgames.gadgets],
        subgames.against.descriptions,
    )
    return dataclasses.replace(before.with_player(player, rows), labels=labels)


def _remedy(dtype: np.dtype[Any]) -> str:
    """Explanation of, and remedy for, numbers that are too large or too small for a precision."""
    remedy = "use dtype='float64'" if dtype == np.float32 else "give actions more probability"
    return f", because the blueprint reaches it with a probability near 0; {remedy}"
