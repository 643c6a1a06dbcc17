"""Solves the gadget games of a forest: those that share an entry at once, for every opponent and blueprint.

Where not even one lane of the whole forest fits, its subgames are solved in parts.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from jaxgadget.gadgets.entry import BoundRule
from jaxgadget.gadgets.gadget import AUTO, Gadget, describe
from jaxgadget.gadgets.games import GadgetGames, build_games, group_gadgets, select_lanes
from jaxgadget.gadgets.models import Mixtures, find_mixtures
from jaxgadget.kernels.certificate import Certificate, Kept, certify, certify_average, find_overflows
from jaxgadget.kernels.cfr import averages
from jaxgadget.kernels.problem import Parts, Problem, earned_alone, follow
from jaxgadget.kernels.rows import pad_rows, take_rows
from jaxgadget.kernels.treeplex import reach
from jaxgadget.opponents.opponent import Opponent, Opponents, list_opponents
from jaxgadget.policy.evaluate import normalise_rows
from jaxgadget.policy.policy import Policy
from jaxgadget.refining.prepare import Base, Prepared, body_rows, prepare, prepare_known
from jaxgadget.solving.checkpoint import load_chunk, save_chunk
from jaxgadget.solving.driver import Finished, Report, checked_plan, solve
from jaxgadget.solving.lp import solve_lanes
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
from jaxgadget.util.compilation import compile_quickly
from jaxgadget.util.files import make_folder
from jaxgadget.util.precision import precision
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


@dataclasses.dataclass(eq=False, kw_only=True)
class Solutions:
    """What came out of subgames, S of them, lane by lane.

    Attributes:
      value: `[S, lanes]` what the resolving player's strategy guarantees; rows of missing games are NaN.
      gap: `[S, lanes]` NashConv of each gadget game; its optimum lies in [value, value + gap].
      has_decision: `[S, lanes]` False where there was nothing to solve and the blueprint stayed.
      epsilon: `[lanes]` how likely mistakes were.
      iterations: `[lanes]`.
      plans: how lanes were split, for every solve.
      failures: lanes in which the solve of a subgame came to nothing, and why.
    """

    value: FloatArray
    gap: FloatArray
    has_decision: BoolArray
    epsilon: FloatArray
    iterations: npt.NDArray[np.int64]
    plans: list[Plan] = dataclasses.field(default_factory=list[Plan])
    failures: dict[int, str] = dataclasses.field(default_factory=dict[int, str])

    @classmethod
    def nothing(cls, subgames: int, lanes: int, **more: Any) -> Self:
        """Before any subgame is solved; `more` is what else the class has."""
        return cls(
            value=np.full((subgames, lanes), np.nan),
            gap=np.full((subgames, lanes), np.nan),
            has_decision=np.zeros((subgames, lanes), np.bool_),
            epsilon=np.zeros(lanes),
            iterations=np.zeros(lanes, np.int64),
            **more,
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class GadgetSolutions(Solutions):
    """All gadgets of a task, as far as they are solved.

    Lanes run over gadgets, then opponents, then blueprints.

    Attributes:
      strategy: `[actions of the tree, lanes]` of the resolving player, 0 outside the subgames.
      below: `[R, lanes]` what the opponent's roots are worth against the strategies, in the resolving
        player's utility; rows are those of users' arrays.
      entered: `[R, lanes]` how likely the opponent's own choices in its average strategy lead to its roots.
      losses: `[S, lanes]` the most that each game may add to exploitability, NaN where nothing is known.
      bound_rules: for every gadget, how these bound the rise of exploitability; None if no bound is known.
    """

    strategy: FloatArray
    below: FloatArray
    entered: FloatArray
    losses: FloatArray
    bound_rules: list[BoundRule | None]

    @staticmethod
    def before(task: GadgetTask) -> GadgetSolutions:
        """Before any subgame is solved."""
        lanes, subgames = len(task.gadgets) * task.lanes_of_gadget, task.forest.num_subgames
        actions = task.forest.tree.infosets[task.player].num_sequences - 1
        roots = task.num_roots
        return GadgetSolutions.nothing(
            subgames,
            lanes,
            strategy=np.zeros((actions, lanes)),
            below=np.full((roots, lanes), np.nan),
            entered=np.full((roots, lanes), np.nan),
            losses=np.full((subgames, lanes), np.nan),
            bound_rules=[None] * len(task.gadgets),
        )

    @property
    def loss_bound(self) -> FloatArray:
        """`[lanes]` by how much exploitability may rise, NaN where no bound is known."""
        return self.bound_rise()

    def bound_rise(self, share: FloatArray | float = 1.0) -> FloatArray:
        """The same where each strategy is followed only in part.

        Args:
          share: `[S]` how far each goes from the blueprint's realisation plan. Where the largest loss counts,
            shares are those of `tree.knowledge.shares`, or 1 in subgames that share nothing.
        """
        weight = np.broadcast_to(share, len(self.losses))[:, None]
        bounds: list[FloatArray] = []
        for rule, losses in zip(
            self.bound_rules, np.split(self.losses, len(self.bound_rules), axis=1), strict=True
        ):
            known = np.where(np.isnan(losses), 0.0, losses)
            together = (weight * known).sum(axis=0) if rule == "sum" else known.max(axis=0, initial=0.0)
            unknown = rule is None or (len(losses) > 0 and np.isnan(losses).all(axis=0))
            bounds.append(np.where(unknown, np.nan, together))
        return np.concatenate(bounds)

    def policy(self, task: GadgetTask) -> Policy:
        """The blueprints with the strategies spliced in; lanes that failed keep theirs."""
        tree, player = task.forest.tree, task.player
        gadget, opponent, blueprint = task.lanes()
        before = task.blueprint.take_lanes(blueprint)
        infosets = tree.infosets[player]
        inside = np.isin(infosets.infoset[1:], task.infosets)
        solved = inside[:, None] & ~np.isin(np.arange(before.num_lanes), list(self.failures))
        rows = np.where(solved, self.strategy, before.probabilities[player])
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
    """Gadgets that share an entry, over some subgames, about to be solved.

    Attributes:
      prepared: the subgames.
      subgames: their numbers in the whole forest.
      numbers: which of all gadgets these are.
      games: their games.
      plan: how their lanes are split.
      folder: of checkpoints.
    """

    prepared: Prepared
    subgames: IntArray
    numbers: list[int]
    games: GadgetGames
    plan: Plan
    folder: pathlib.Path | None


class _GadgetSolution(NamedTuple):
    """What is kept of a solve, lanes last; see `Certificate` and `GadgetSolutions.entered`.

    Everything else is the resolving player's. `gained` is p × what the strategy earns more than the promised
    one against the model, `[games, lanes]`; None if nobody follows a model.
    """

    strategy: Any
    value: Any
    gap: Any
    below: Any
    entered: Any
    gained: Any


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
    solutions = GadgetSolutions.before(task)
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


def _split(task: GadgetTask) -> tuple[list[IntArray], list[_Part] | None]:
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


def _build_part(task: GadgetTask, subgames: IntArray, *, is_split: bool) -> list[_Part]:
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
    parts: list[_Part] = []
    mixtures = task.mixtures(forest)
    for numbers in group_gadgets(task.gadgets):
        gadgets = [task.gadgets[number] for number in numbers]
        games = build_games(
            prepared.structure,
            prepared.ranges,
            gadgets,
            prepared.trunk,
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
        parts.append(_Part(prepared, subgames, numbers, games, plan, folder))
    return parts


def _solve_part(
    task: GadgetTask, part: _Part, solutions: GadgetSolutions, watch: Stopwatch, report: Report
) -> None:
    """Solves a group of gadgets in some subgames."""
    games, options = part.games, dataclasses.replace(task.options, checkpoint=part.folder)
    rows = part.prepared.rows(task.player)
    promised = _promised_rows(task, part.prepared, part.numbers)
    with watch.phase("run"):
        plan, folder = part.plan, part.folder
        if folder is None or load_chunk(folder, games.batch.name, games.num_lanes) is None:
            plan = checked_plan(games.batch, options, plan)  # else it keeps the chunks that it began with
        if part.folder is not None:
            make_folder(part.folder)
            save_chunk(part.folder, games.batch.name, games.num_lanes, plan.chunk)

        def finish(ended: Finished) -> _GadgetSolution:
            sums = ended.release()
            kept = ended.placement.by_lane(games.kept(rows, ended.lanes))
            base = ended.placement.by_lane(_base(games, promised, ended.lanes))
            return _conclude(ended.in_float64(), sums, kept, base, player=task.player)

        solved = solve(games.batch, options, finish, plan=plan, report=report)
    solutions.plans.append(solved.plan)
    epsilon = [gadget.epsilon for gadget in games.gadgets]
    by_lane = np.repeat(np.array(epsilon, np.float64), task.lanes_of_gadget)
    where = (part.games, part.subgames, part.numbers)
    _keep(task, where, solutions, solved.outcome, solved.iterations, by_lane)


@functools.partial(compile_quickly, static_argnames=("player",))
def _conclude(
    problem: Problem, strategy_sum: tuple[Parts, Parts], kept: Kept, base: Any, *, player: int
) -> _GadgetSolution:
    """The resolving player's averages, completed by the blueprint, and their certificate."""
    exact = jax.tree.map(lambda x: x.astype(problem.dtype), strategy_sum)
    opponent = averages(problem, exact)[1 - player]
    certificate = certify_average(problem, exact, _pair(kept, player))
    return _of_player(problem, certificate, opponent, base, player)


@functools.partial(compile_quickly, static_argnames=("player",))
def _certify(
    problem: Problem, played: tuple[Parts, Parts], kept: Kept, base: Any, *, player: int
) -> _GadgetSolution:
    """The certificate of strategies that come from linear programs."""
    return _of_player(
        problem, certify(problem, played, _pair(kept, player)), played[1 - player], base, player
    )


def _pair(kept: Kept, player: int) -> tuple[Kept | None, Kept | None]:
    return (kept, None) if player == 0 else (None, kept)


def _of_player(
    problem: Problem, certificate: Certificate, opponent: Parts, base: Any, player: int
) -> _GadgetSolution:
    side, strategy, gained = problem.sides[1 - player], certificate.strategy[player], None
    top = jnp.ones((side.entry.num_roots, problem.num_lanes), problem.dtype)
    if base is not None:
        gained = _earned(problem, player, strategy) - _earned(problem, player, base)
    return _GadgetSolution(
        strategy,
        certificate.guaranteed[player],
        certificate.gap,
        certificate.below[player],
        take_rows(reach(side.entry, opponent.entry, top), side.link),
        gained,
    )


def _earned(problem: Problem, player: int, rows: jax.Array) -> jax.Array:
    """`[games, lanes]` p × what the resolving player's rows earn against the model: its body's constants."""
    side, terms = problem.sides[player], problem.terms[player]
    entry = jnp.zeros((side.entry.num_actions, rows.shape[-1]), rows.dtype)
    return earned_alone(side, terms, follow(side, terms, Parts(entry, rows)))


def _promised_rows(task: GadgetTask, prepared: Prepared, numbers: Sequence[int]) -> list[FloatArray] | None:
    """`[Q, blueprints]` of every gadget, the strategies whose values it promises; None if none are needed."""
    if task.against.adapt:
        return None
    policies = [task.blueprint if task.promised is None else task.promised[number] for number in numbers]
    return [body_rows(prepared.forest.form, policy, task.player) for policy in policies]


def _base(games: GadgetGames, promised: list[FloatArray] | None, lanes: IntArray) -> FloatArray | None:
    """`[Q, lanes]` what `_promised_rows` are lane by lane."""
    if promised is None:
        return None
    return select_lanes(
        games.gadget[lanes],
        games.blueprint[lanes],
        lambda number, blueprints: promised[number][:, blueprints],
    )


def _solve_exactly(
    task: GadgetTask, solutions: GadgetSolutions, watch: Stopwatch, progress: bool | None
) -> None:
    """Solves all gadgets by linear programs, one after the other, with the same certificates as CFR's."""
    player, count = task.player, task.lanes_of_gadget
    with watch.phase("build"):
        prepared, mixtures = (
            task.prepare(task.forest),
            task.mixtures(task.forest),
        )
    rows, subgames = prepared.rows(player), np.arange(task.forest.num_subgames)
    done = itertools.count(1)
    with progress_bar("refining", len(task.gadgets) * count, progress) as report:
        for number, gadget in enumerate(task.gadgets):
            games_of = functools.cache(
                functools.partial(_exact_games, task, prepared, mixtures, number, watch)
            )
            own = games_of(0.0 if gadget.epsilon == AUTO else None)
            with watch.phase("run"), precision(np.float64):
                programs = solve_lanes(
                    lambda epsilon, games_of=games_of: games_of(epsilon).batch.problem(),
                    range(own.num_lanes),
                    [
                        task.describe(gadget, opponent, blueprint)
                        for opponent, blueprint in zip(
                            own.opponent.tolist(), own.blueprint.tolist(), strict=True
                        )
                    ],
                    rows[:, own.blueprint],
                    auto=gadget.epsilon == AUTO,
                    time_limit=task.options.time_limit,
                    report=lambda: report(next(done)),
                )
                solutions.failures |= {number * count + lane: why for lane, why in programs.failures.items()}
                lanes = np.arange(own.num_lanes)
                base = _base(own, _promised_rows(task, prepared, [number]), lanes)
                kept = own.kept(rows, lanes)
                solution = _certify(own.batch.problem(), programs.played, kept, base, player=player)
            epsilon = programs.epsilon
            if epsilon is None:
                epsilon = np.full(own.num_lanes, gadget.epsilon, np.float64)
            else:
                epsilon[list(programs.failures)] = np.nan
            iterations = np.asarray(programs.iterations, np.int64)
            outcome = jax.tree.map(np.asarray, solution)
            _keep(task, (own, subgames, [number]), solutions, outcome, iterations, epsilon)


def _exact_games(
    task: GadgetTask,
    prepared: Prepared,
    mixtures: Mixtures | None,
    number: int,
    watch: Stopwatch,
    epsilon: float | None,
) -> GadgetGames:
    """The games of one gadget, with another ε if one is given."""
    gadget: Any = task.gadgets[number]
    asked = gadget if epsilon is None else dataclasses.replace(gadget, epsilon=epsilon)
    with watch.phase("build"):
        return build_games(
            prepared.structure,
            prepared.ranges,
            [asked],
            prepared.trunk,
            mixtures=mixtures,
            frozen=prepared.frozen,
            floor=task.floor(prepared),
            lanes=task.lanes([number]),
        )


def _keep(
    task: GadgetTask,
    where: tuple[GadgetGames, IntArray, list[int]],
    solutions: GadgetSolutions,
    solution: _GadgetSolution,
    iterations: npt.NDArray[np.int64],
    epsilon: FloatArray,
) -> None:
    """Checks what came out and writes it where it belongs.

    Args:
      task: all of it.
      where: games, numbers of their subgames in the whole forest, and numbers of their gadgets.
      solutions: of the task.
      solution: what came out.
      iterations: `[lanes]` done.
      epsilon: `[lanes]`.
    """
    games, subgames, numbers = where
    count, entry, num_games = task.lanes_of_gadget, games.entry, games.batch.num_games
    value, gap = solution.value[:num_games], solution.gap[:num_games]
    gained = None if solution.gained is None else solution.gained[:num_games]
    lanes = np.concatenate([number * count + np.arange(count) for number in numbers])
    dtype = np.dtype(np.float64) if task.options.rule is None else task.options.dtype
    for what, failed in {"over": find_overflows(value, gap), "under": games.underflows(dtype)}.items():
        for lane, subgame in failed.items():
            gadget = games.gadgets[int(games.gadget[lane])]
            name = task.describe(gadget, int(games.opponent[lane]), int(games.blueprint[lane]))
            why = f"the solve of subgame {subgames[subgame]} {what}flowed in {dtype}{_remedy(dtype)}"
            solutions.failures.setdefault(int(lanes[lane]), f"{name}: {why}")
    forest = games.structure.forest
    sequence, taken = forest.form.action_sequences(task.player), task.actions(forest, subgames)
    solutions.strategy[np.ix_(sequence[taken] - 1, lanes)] = solution.strategy[taken]
    solved = np.ix_(subgames[:num_games], lanes)
    solutions.value[solved] = value
    solutions.gap[solved] = np.maximum(gap, 0)  # less is rounding
    below = solution.below[: len(games.ranges.subgame)]
    roots = np.ix_(games.ranges.root, lanes)
    solutions.below[roots], solutions.entered[roots] = below, solution.entered[: len(below)]
    with np.errstate(invalid="ignore"):  # lanes that failed
        solutions.losses[solved] = games.losses(gap, below, gained)
    has_decision = games.has_decision(np.arange(games.num_lanes))
    solutions.has_decision[np.ix_(subgames, lanes)] = has_decision
    for position, number in enumerate(numbers):
        solutions.bound_rules[number] = entry.bound_rule(position)
    solutions.epsilon[lanes] = epsilon
    solutions.iterations[lanes] = np.maximum(solutions.iterations[lanes], iterations)


def _remedy(dtype: np.dtype[Any]) -> str:
    """Why numbers are too large or too small for a precision, and what to do."""
    remedy = "use dtype='float64'" if dtype == np.float32 else "give actions more probability"
    return f", because the blueprint reaches it with a probability near 0; {remedy}"
