"""Solves the gadget games of a forest: those that share an entry at once, for every opponent and blueprint.

Where not even one lane of the whole forest fits, its subgames are solved in parts.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from jaxgadget.gadgets.gadget import Gadget, describe
from jaxgadget.gadgets.games import GadgetGames, build_games, group_gadgets
from jaxgadget.gadgets.models import Mixtures, find_mixtures
from jaxgadget.kernels.rows import pad_rows
from jaxgadget.opponents.opponent import Opponent, Opponents, list_opponents
from jaxgadget.policy.evaluate import normalise_rows
from jaxgadget.policy.policy import Policy
from jaxgadget.refining.gadget_games import (
    GadgetSolutions,
    GamesSolution,
    Promised,
    solve_games,
    solve_games_exactly,
)
from jaxgadget.refining.prepare import Base, Prepared, body_rows, prepare, prepare_known
from jaxgadget.solving.checkpoint import load_chunk, save_chunk
from jaxgadget.solving.driver import Report, checked_plan
from jaxgadget.solving.memory import (
    ADVICE,
    MANY_LANES,
    ONE_SUBGAME,
    DoesNotFit,
    Plan,
    plan_batch,
    plan_ranges,
)
from jaxgadget.solving.options import SolveOptions
from jaxgadget.solving.parts import load_parts, root_numbers, save_parts, take_part
from jaxgadget.tree.cut import Cut
from jaxgadget.tree.forest import Forest
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.clock import Stopwatch
from jaxgadget.util.files import make_folder
from jaxgadget.util.progress import progress_bar


@dataclasses.dataclass(frozen=True, eq=False)
class GadgetTask:
    """What is to be solved, and how.

    Attributes:
      forest: the subgames.
      player: who re-solves.
      blueprint: profiles, a lane each.
      gadgets: each takes all of them.
      options: how.
      around: the cut of which these may be some subgames; by default they are all.
      opponents: each gadget takes all of them, too; by default one who only adapts.
      promised: for every gadget the strategies whose values it promises, a lane a blueprint; by default the
        blueprints.
      base: what the blueprints bring to the cut, where `forest` has subgames of own infostates, a knowledge
        cover; else None.
      considered: `[R, lanes]` which of the opponent's roots in `forest` are considered after each blueprint,
        where there is a base; by default all.
      within: of which forest these are some subgames, and their numbers there, where users' arrays of gadgets
        have a row for each of the opponent's roots there; by default `forest`.
      copies: the blueprints are so many copies, one after the other, of those for which users' arrays of
        gadgets have columns.
      blueprints_of: `[gadgets, B]` which lanes of `blueprint` each gadget takes; by default all.
      adopted: `[R]` below which of the player's roots in `forest` the strategy is taken, where an infostate
        is in several subgames; by default below all.
      held: the tree's infosets of the player at which it keeps to the blueprint all the same; by default
        none.
    """

    forest: Forest
    player: int
    blueprint: Policy
    gadgets: tuple[Gadget, ...]
    options: SolveOptions
    around: Cut | None = None
    opponents: Opponents | None = None
    promised: tuple[Policy, ...] | None = None
    base: Base | None = None
    considered: BoolArray | None = None
    within: tuple[Forest, IntArray] | None = None
    copies: int = 1
    blueprints_of: IntArray | None = None
    adopted: BoolArray | None = None
    held: IntArray | None = None

    @property
    def whole(self) -> Cut:
        """The cut with all its subgames, also those that are not solved."""
        return self.forest.cut if self.around is None else self.around

    @functools.cached_property
    def against(self) -> Opponents:
        """The opponents, be it the one who only adapts."""
        return (
            list_opponents(Opponent(), self.forest.tree, name="opponent")
            if self.opponents is None
            else self.opponents
        )

    @property
    def advice(self) -> str:
        """What can be done where it does not fit in memory: whoever refines can choose a subgame."""
        return ADVICE if self.around is None or self.forest.num_subgames == 1 else ONE_SUBGAME

    @property
    def lanes_of_gadget(self) -> int:
        """Opponents × blueprints that a gadget takes."""
        return len(self.against) * self._taken.shape[1]

    @functools.cached_property
    def _taken(self) -> IntArray:
        """`[gadgets, B]` which lanes of the blueprint each gadget takes."""
        if self.blueprints_of is not None:
            return self.blueprints_of
        return np.tile(np.arange(self.blueprint.num_lanes), (len(self.gadgets), 1))

    def lanes(self, numbers: Sequence[int] | None = None) -> tuple[IntArray, IntArray, IntArray]:
        """`[L]` each the gadget, opponent and blueprint of every lane.

        Args:
          numbers: of the gadgets, by default all; in the lanes they are counted from 0.
        """
        taken = self._taken if numbers is None else self._taken[list(numbers)]
        shape = (len(taken), len(self.against), taken.shape[1])
        gadget, opponent, column = np.indices(shape).reshape(3, -1)
        return gadget, opponent, taken[gadget, column]

    def floor(self, prepared: Prepared) -> FloatArray | None:
        """`[Q, blueprints]` least probabilities of the player's actions; None if nothing is held."""
        if self.held is None:
            return None
        treeplex = prepared.forest.form.treeplex[self.player]
        held = np.isin(treeplex.infoset[treeplex.sequence_infoset], self.held)
        return np.where(held[:, None], prepared.rows(self.player), 0.0)

    def mixtures(self, forest: Forest) -> Mixtures | None:
        """The opponents over some of the subgames; None if all of them only adapt."""
        if self.against.adapt:
            return None
        reach = self.against.models.reach(1 - self.player)
        return find_mixtures(forest, self.player, self.against.p, self.against.model, reach)

    def prepare(
        self,
        forest: Forest,
        *,
        root: IntArray | None = None,
        at_once: int | None = None,
        platform: str | None = None,
    ) -> Prepared:
        """Some of the subgames on the device, and what the blueprints bring to them; see `prepare`."""
        if self.base is None:
            return prepare(
                forest,
                self.player,
                self.blueprint,
                self.gadgets,
                root=root,
                at_once=at_once,
                platform=platform,
            )
        considered = self.considered
        if considered is not None and root is not None:
            considered = considered[root]
        if self.within is not None:
            number = root_numbers(self.forest, *self.within, 1 - self.player)
            root = number if root is None else number[root]
        return prepare_known(self.base, forest, root=root, considered=considered)

    @property
    def num_roots(self) -> int:
        """Of the opponent, those outside of these subgames counted: rows of users' arrays."""
        forest = self.forest if self.within is None else self.within[0]
        return len(forest.roots[1 - self.player])

    @property
    def infosets(self) -> IntArray:
        """The tree's infosets of the player for which a strategy is taken."""
        if self.adopted is None:
            return self.forest.infosets(self.player)
        infoset = self.forest.form.treeplex[self.player].infoset
        taken = self.adopted[self.forest.root_of_infoset(self.player)]
        return np.unique(infoset[(infoset >= 0) & taken])

    def actions(self, forest: Forest, subgames: IntArray) -> BoolArray:
        """`[Q]` whose strategy is taken, of the player's actions in some of the subgames.

        Args:
          forest: of these subgames.
          subgames: their numbers, ascending.
        """
        treeplex, real = forest.form.treeplex[self.player], forest.form.action_sequences(self.player) >= 0
        if self.adopted is None:
            return real
        number = root_numbers(forest, self.forest, subgames, self.player)
        adopted = pad_rows(self.adopted[number], treeplex.num_roots, 0)
        return real & adopted[treeplex.root_of()[treeplex.num_roots :]]

    def describe(self, gadget: Gadget, opponent: int, blueprint: int) -> str:
        """A lane in words, for messages."""
        lane = f"{describe(gadget)} after blueprint {self.blueprint.labels[blueprint]!r}"
        against = self.against.describe(opponent)
        return f"{lane}{f' {against}' if against else ''}"


def spliced(task: GadgetTask, solutions: GadgetSolutions) -> Policy:
    """The blueprints with the strategies spliced in; lanes that failed keep theirs."""
    tree, player = task.forest.tree, task.player
    gadget, opponent, blueprint = task.lanes()
    before = task.blueprint.take_lanes(blueprint)
    infosets = tree.infosets[player]
    inside = np.isin(infosets.infoset[1:], task.infosets)
    solved = inside[:, None] & ~np.isin(np.arange(before.num_lanes), list(solutions.failures))
    rows = np.where(solved, solutions.strategy, before.probabilities[player])
    rows = np.where(solved, normalise_rows(rows, infosets.infoset[1:]), rows)
    theirs = before.probabilities[1 - player]
    said = (
        [describe(g) for g in task.gadgets],
        [task.against.describe(k) for k in range(len(task.against))],
    )
    labels = tuple(
        " | ".join(filter(None, (task.blueprint.labels[b], said[0][g], said[1][o])))
        for g, o, b in zip(gadget.tolist(), opponent.tolist(), blueprint.tolist(), strict=True)
    )
    return Policy(tree, (rows, theirs) if player == 0 else (theirs, rows), labels)


class _Part(NamedTuple):
    """Gadgets that share an entry, over some subgames.

    Attributes:
      prepared: the subgames.
      subgames: their numbers in the whole forest.
      numbers: which of all gadgets these are.
      games: their games.
    """

    prepared: Prepared
    subgames: IntArray
    numbers: list[int]
    games: GadgetGames


class _Planned(NamedTuple):
    """A part about to be solved by CFR.

    Attributes:
      part: what is solved.
      plan: how its lanes are split.
      folder: of checkpoints.
    """

    part: _Part
    plan: Plan
    folder: pathlib.Path | None


def solve_gadgets(task: GadgetTask, watch: Stopwatch, progress: bool | None) -> GadgetSolutions:
    """Solves everything, by CFR or by linear programs.

    Args:
      task: what.
      watch: is told where the time goes.
      progress: see `refine`.

    Raises:
      ValueError: for a user's array that does not fit, another solve's checkpoint, or too little memory.
    """
    for gadget in task.gadgets:
        gadget.check(task.num_roots, task.blueprint.num_lanes // task.copies)
    if task.adopted is None:
        task.forest.check_disjoint()
    if not all(solved.all() for solved in task.forest.cover.solved):
        raise ValueError(
            "forest: its cover keeps some decisions as the blueprint has them, which refine cannot do; "
            "expected a cover in which all are solved for"
        )
    solutions = GadgetSolutions.of_size(
        len(task.gadgets),
        len(task.gadgets) * task.lanes_of_gadget,
        subgames=task.forest.num_subgames,
        actions=task.forest.tree.infosets[task.player].num_sequences - 1,
        roots=task.num_roots,
    )
    if task.options.rule is None:
        _solve_exactly(task, solutions, watch, progress)
    else:
        _solve_by_cfr(task, solutions, watch, progress)
    return solutions


def _solve_by_cfr(
    task: GadgetTask, solutions: GadgetSolutions, watch: Stopwatch, progress: bool | None
) -> None:
    """Part by part of the forest, group by group of the gadgets."""
    options = task.options
    with watch.phase("build"):
        if options.checkpoint is not None:
            make_folder(options.checkpoint)
        parts, whole = _split(task)
    total = len(parts) * len(group_gadgets(task.gadgets))
    solved = 0
    with progress_bar("refining", options.iterations * total, progress) as report:
        for subgames in parts:
            with watch.phase("build"):
                planned = whole if whole is not None else _build_part(task, subgames, is_split=len(parts) > 1)
            for part in planned:
                before = solved * options.iterations
                _solve_part(task, part, solutions, watch, lambda done, before=before: report(before + done))
                solved += 1


def _split(task: GadgetTask) -> tuple[list[IntArray], list[_Planned] | None]:
    """The subgames in as few parts as fit, or as they were if some of this is done already.

    Returns:
      The parts' numbers of subgames; and what is planned for the only one, if there is one.
    """
    folder, subgames = task.options.checkpoint, np.arange(task.forest.num_subgames)
    kept = None if folder is None else load_parts(folder, len(subgames))
    if kept is not None:
        return kept, None
    try:
        return [subgames], _build_part(task, subgames, is_split=False)
    except DoesNotFit:
        parts = _halves(task, subgames)
    if folder is not None:
        save_parts(folder, parts)
    return parts, None


def _halves(task: GadgetTask, subgames: IntArray) -> list[IntArray]:
    """Subgames that do not fit, in parts that do; gadgets that look at the trunk look at all subgames."""
    if len(subgames) == 1 or any("trunk" in gadget.needs for gadget in task.gadgets):
        _build_part(task, subgames, is_split=True)  # raises, and says what is missing
    middle = len(subgames) // 2
    parts: list[IntArray] = []
    for half in (subgames[:middle], subgames[middle:]):
        try:
            _build_part(task, half, is_split=True)
            parts.append(half)
        except DoesNotFit:
            parts += _halves(task, half)
    return parts


def _build_part(task: GadgetTask, subgames: IntArray, *, is_split: bool) -> list[_Planned]:
    """Puts some subgames on the device and splits the lanes of every group of gadgets.

    Args:
      task: all of it.
      subgames: which of them.
      is_split: whether there are other parts, whose checkpoints lie beside these.
    """
    options, player = task.options, task.player
    folder = options.checkpoint
    if folder is not None and is_split:
        folder /= f"subgames-{subgames[0]}-to-{subgames[-1]}"
    forest = take_part(task.forest, subgames)
    at_once = min(
        plan_ranges(forest, options.placement, options.memory_limit, advice=task.advice),
        options.chunk or MANY_LANES,
    )
    prepared = task.prepare(
        forest,
        root=root_numbers(forest, task.forest, subgames, 1 - player),
        at_once=at_once,
        platform=options.placement.platform,
    )
    parts: list[_Planned] = []
    mixtures = task.mixtures(forest)
    for numbers in group_gadgets(task.gadgets):
        gadgets = [task.gadgets[number] for number in numbers]
        games = build_games(
            prepared.structure,
            prepared.ranges,
            gadgets,
            mixtures=mixtures,
            frozen=prepared.frozen,
            floor=task.floor(prepared),
            lanes=task.lanes(numbers),
        )
        batch = games.batch
        settled = options.chunk if folder is None else load_chunk(folder, batch.name, batch.num_lanes)
        plan = plan_batch(
            batch,
            options.dtype,
            options.placement,
            memory_limit=options.memory_limit,
            chunk=settled,
            advice=task.advice,
        )
        parts.append(_Planned(_Part(prepared, subgames, numbers, games), plan, folder))
    return parts


def _solve_part(
    task: GadgetTask, planned: _Planned, solutions: GadgetSolutions, watch: Stopwatch, report: Report
) -> None:
    """Solves a group of gadgets in some subgames."""
    part, plan, folder = planned
    games, options = part.games, dataclasses.replace(task.options, checkpoint=folder)
    promised = _promised(task, part.prepared, part.numbers)
    with watch.phase("run"):
        if folder is None or load_chunk(folder, games.batch.name, games.num_lanes) is None:
            plan = checked_plan(games.batch, options, plan)  # else it keeps the chunks that it began with
        if folder is not None:
            make_folder(folder)
            save_chunk(folder, games.batch.name, games.num_lanes, plan.chunk)
        solved = solve_games(games, promised, options, plan=plan, report=report)
    solutions.plans.append(solved.plan)
    epsilon = [gadget.epsilon for gadget in games.gadgets]
    by_lane = np.repeat(np.array(epsilon, np.float64), task.lanes_of_gadget)
    _keep(task, part, solutions, solved.outcome, solved.iterations, by_lane)


def _promised(task: GadgetTask, prepared: Prepared, numbers: Sequence[int]) -> Promised:
    """What stands where gadgets say nothing, and the strategies whose values they promise, if needed."""
    rows = prepared.rows(task.player)
    if task.against.adapt:
        return Promised(rows)
    policies = [task.blueprint if task.promised is None else task.promised[number] for number in numbers]
    return Promised(rows, [body_rows(prepared.forest.form, policy, task.player) for policy in policies])


def _solve_exactly(
    task: GadgetTask, solutions: GadgetSolutions, watch: Stopwatch, progress: bool | None
) -> None:
    """Solves all gadgets by linear programs, one after the other."""
    count = task.lanes_of_gadget
    with watch.phase("build"):
        prepared, mixtures = task.prepare(task.forest), task.mixtures(task.forest)
    done = itertools.count(1)
    with progress_bar("refining", len(task.gadgets) * count, progress) as report:
        for number, gadget in enumerate(task.gadgets):
            exact = solve_games_exactly(
                functools.partial(_build_one, task, prepared, mixtures, task.lanes([number])),
                gadget,
                _promised(task, prepared, [number]),
                functools.partial(_names, task, gadget=gadget),
                time_limit=task.options.time_limit,
                watch=watch,
                report=lambda: report(next(done)),
            )
            solutions.failures |= {number * count + lane: why for lane, why in exact.failures.items()}
            whole = np.arange(task.forest.num_subgames)
            part = _Part(prepared, whole, [number], exact.games)
            _keep(task, part, solutions, exact.solution, exact.iterations, exact.epsilon)


def _build_one(
    task: GadgetTask,
    prepared: Prepared,
    mixtures: Mixtures | None,
    lanes: tuple[IntArray, IntArray, IntArray],
    gadget: Gadget,
) -> GadgetGames:
    """The games of one gadget."""
    return build_games(
        prepared.structure,
        prepared.ranges,
        [gadget],
        mixtures=mixtures,
        frozen=prepared.frozen,
        floor=task.floor(prepared),
        lanes=lanes,
    )


def _names(task: GadgetTask, games: GadgetGames, gadget: Gadget | None = None) -> list[str]:
    """What the lanes of games are called; of one gadget as it was asked for, whatever ε was tried."""
    lanes = zip(games.gadget.tolist(), games.opponent.tolist(), games.blueprint.tolist(), strict=True)
    return [
        task.describe(games.gadgets[number] if gadget is None else gadget, opponent, blueprint)
        for number, opponent, blueprint in lanes
    ]


def _keep(
    task: GadgetTask,
    part: _Part,
    solutions: GadgetSolutions,
    solution: GamesSolution,
    iterations: npt.NDArray[np.int64],
    epsilon: FloatArray,
) -> None:
    """Writes what came out of a part where it belongs."""
    forest = part.prepared.forest
    taken = np.flatnonzero(task.actions(forest, part.subgames))
    solutions.put(
        part.games,
        solution,
        subgames=part.subgames,
        numbers=part.numbers,
        names=_names(task, part.games),
        dtype=np.dtype(np.float64) if task.options.rule is None else task.options.dtype,
        actions=(taken, forest.form.action_sequences(task.player)[taken] - 1),
        iterations=iterations,
        epsilon=epsilon,
    )
