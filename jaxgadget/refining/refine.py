"""The main job: every subgame below a cut, re-solved for many blueprints and gadgets at once.

Cut → forest → gadget games → CFR → strategies spliced back, with exact exploitabilities
before and after and a certificate for every one. All certificates are in float64.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from jax.typing import DTypeLike

from jaxgadget.gadgets.gadget import AUTO, DEFAULT_EPSILON, Gadget, check_arrays, prior_name
from jaxgadget.gadgets.prior import BlueprintPrior, NoPrior, UniformPrior
from jaxgadget.gadgets.two_level import MaxMargin, Resolving, Unsafe
from jaxgadget.kernels.regret import Rule
from jaxgadget.opponents.gains import gain_against
from jaxgadget.opponents.opponent import Opponent, Opponents, list_opponents
from jaxgadget.policy.evaluate import check_value, exploitability, nash_conv
from jaxgadget.policy.exact import find_value
from jaxgadget.policy.policy import Policy, PolicyLike, as_policy
from jaxgadget.refining.abstract import above_optimum, look_up_gadget
from jaxgadget.refining.continuation import alternative_of, asked_for, promise, solve_continuations
from jaxgadget.refining.gadget_games import GadgetSolutions, Solutions
from jaxgadget.refining.guard import keep_better, without_estimates
from jaxgadget.refining.knowledge import (
    Knowledge,
    KnowledgeTask,
    check_knowledge,
    knowledge_columns,
    make_task,
    solve_knowledge,
)
from jaxgadget.refining.range_prior import follow_models
from jaxgadget.refining.subgames import GadgetTask, solve_gadgets, spliced
from jaxgadget.solving.devices import Device
from jaxgadget.solving.memory import Plan
from jaxgadget.solving.options import LP, make_options
from jaxgadget.tree.cut import CutSpec, cut
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.tree.history import HistoryTree
from jaxgadget.util.arguments import check_player
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.clock import Stopwatch

if TYPE_CHECKING:
    from jaxgadget.refining.hands import HandsRefinement
from jaxgadget.values.ranges import warn_of_doubts


def default_gadgets(epsilon: float = DEFAULT_EPSILON) -> tuple[Gadget, ...]:
    """Unsafe, and resolving and max-margin without, with a uniform and with a blueprint prior."""
    priors = (NoPrior(), UniformPrior(), BlueprintPrior())
    gadget_classes = (Resolving, MaxMargin)
    return (Unsafe(), *(gadget_class(prior, epsilon) for gadget_class in gadget_classes for prior in priors))


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Refinement:
    """Blueprints with all subgames of one player re-solved.

    Lanes run over gadgets, then opponents, then blueprints:
    `lane = (gadget * num_opponents + opponent) * num_blueprints + blueprint`.
    S subgames; everything is in the resolving player's utility, in units of the game's payoff.

    Attributes:
      forest: the subgames.
      player: who re-solved.
      blueprint: the blueprints.
      gadgets: what was solved.
      opponents: against whom; one who only adapts, if nothing was said.
      policy: the refined policies, a lane each; the opponent's half is the blueprint's.
      blueprint_exploitability: `[lanes]` the game's value less what the blueprint guarantees.
      refined_exploitability: `[lanes]` the same after refinement.
      drawn_exploitability: `[draws, lanes]` the same of what each draw of a generation comes to by itself;
        without a generation there is one. NaN without `knowledge`.
      exploitability_bound: `[lanes]` what the certificate guarantees, NaN where nothing is, as against an
        opponent who is locked to a model (p = 1).
      gain: `[lanes]` what the refined strategy gets against the model, less the game's value; NaN without.
      gadget_value: `[S, lanes]` what the refined strategy guarantees in each gadget game; against a model p ×
        what it gets there from it, plus (1 − p) × what it guarantees. An optimal continuation is one game
        for all subgames: row 0, the others are NaN.
      gap: `[S, lanes]` NashConv of each gadget game; its optimum lies in [value, value + gap].
      has_decision: `[S, lanes]` False where a subgame had nothing to solve and the blueprint stayed.
      epsilon: `[lanes]` how likely mistakes were; for `auto`, the ε that sufficed.
      guard_share: `[lanes]` 1 where a guard kept what came of estimates, 0 where of V̄; NaN without one, and
        where both failed.
      game_value: bracket of player 0's value of the game.
      algorithm: the rule's name.
      iterations: for every lane, iterations done; of the simplex method if `algorithm` is `lp`.
      target_gap: what was aimed at, if anything.
      seconds: `build`, `compile` and `run`.
      plans: how lanes were split, for each group of gadgets that share them; none for linear programs.
      failures: lanes in which the solve of a subgame came to nothing, because it overflowed or its linear
        program was not solved, and why. Their numbers are NaN, but for the blueprint's own, and their policy
        is the blueprint's.
      guard_failures: lanes in which one of the two solves of a guard came to nothing, so that the other was
        kept, and why.
      knowledge: what the player was to know, if not what is common knowledge. Subgames are then those of own
        infostates (at order 1 one for each, in the order of `forest.roots[player]`), and may overlap. The
        policies are mixtures of what all draws of a generation come to; of several draws `gadget_value` is
        the mean, `gap`, `epsilon` and `iterations` are the largest.
    """

    forest: Forest
    player: int
    blueprint: Policy
    gadgets: tuple[Gadget, ...]
    opponents: Opponents
    policy: Policy
    blueprint_exploitability: FloatArray
    refined_exploitability: FloatArray
    drawn_exploitability: FloatArray
    exploitability_bound: FloatArray
    gain: FloatArray
    gadget_value: FloatArray
    gap: FloatArray
    has_decision: BoolArray
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
        """Subgames below the cut."""
        return self.forest.num_subgames

    @property
    def mean_exploitability(self) -> FloatArray:
        """`[lanes]` the mean over draws, at least what their mixture's is; NaN without `knowledge`."""
        return self.drawn_exploitability.mean(axis=0)

    @property
    def model(self) -> tuple[str | None, ...]:
        """`[lanes]` what each opponent's model is called; None for one who only adapts."""
        return tuple(self.opponents.labels[number] for number in self._opponent.tolist())

    @property
    def p(self) -> FloatArray:
        """`[lanes]` how likely each opponent follows its model."""
        return self.opponents.p[self._opponent]

    @property
    def _opponent(self) -> IntArray:
        """`[lanes]` the number of each lane's opponent."""
        return np.arange(self.policy.num_lanes) // self.blueprint.num_lanes % len(self.opponents)

    @property
    def message(self) -> str:
        """How far the solve got, and what to do about it, in a sentence."""
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
    def table(self) -> pd.DataFrame:
        """A row for every gadget, opponent and blueprint; NaN where a number is undefined: see `failure`."""
        count, p, model = self.blueprint.num_lanes, self.p, self.model
        mean = self.mean_exploitability
        rows: list[dict[str, Any]] = []
        for lane in range(self.policy.num_lanes):
            gadget = self.gadgets[lane // (count * len(self.opponents))]
            said = {"model": model[lane], "p": p[lane], "gain": self.gain[lane]}
            said |= {"guard_share": self.guard_share[lane], "mean_exploitability": mean[lane]}
            row = lane_row(self, lane, gadget, self.blueprint.labels[lane % count])
            rows.append(row | knowledge_columns(self.knowledge) | said)
        return pd.DataFrame(rows)


def lane_row(
    refined: Refinement | HandsRefinement, lane: int, gadget: Gadget, blueprint: str
) -> dict[str, Any]:
    """A lane as a row of a table; columns of models, guards and knowledge say that there are none.

    Args:
      refined: what came out.
      lane: which.
      gadget: its gadget.
      blueprint: what its blueprint is called.
    """
    value, gap = refined.gadget_value[:, lane], refined.gap[:, lane]
    if lane not in refined.failures:  # else there is nothing to add up
        value, gap = value[~np.isnan(value)], gap[~np.isnan(gap)]
    return {
        "player": refined.player,
        "blueprint": blueprint,
        "gadget": gadget.name,
        "prior": prior_name(gadget),
        "epsilon": refined.epsilon[lane],
        "model": None,
        "p": 0.0,
        "blueprint_exploitability": refined.blueprint_exploitability[lane],
        "refined_exploitability": refined.refined_exploitability[lane],
        "exploitability_bound": refined.exploitability_bound[lane],
        "gain": np.nan,
        "gadget_value_sum": value.sum(),
        "gadget_value_min": value.min(),
        "gadget_value_max": value.max(),
        "gap_sum": gap.sum(),
        "gap_max": gap.max(),
        "alternative": gadget.settings.get("alternative"),
        "gifts": gadget.settings.get("gifts"),
        "guard_share": np.nan,
        "auto": gadget.epsilon == AUTO,
        **knowledge_columns(None),
        "mean_exploitability": np.nan,
        "failure": refined.failures.get(lane),
    }


def refine(
    tree: HistoryTree,
    where: CutSpec,
    blueprint: PolicyLike | Sequence[PolicyLike],
    gadgets: Gadget | Sequence[Gadget] | None = None,
    *,
    opponent: Opponent | Sequence[Opponent] | None = None,
    knowledge: Knowledge | None = None,
    player: int = 0,
    infostate: str | None = None,
    algorithm: str | Rule = "cfr+",
    iterations: int = 2000,
    target_gap: float | None = None,
    check_every: int = 100,
    dtype: DTypeLike = "float32",
    value: tuple[float, float] | None = None,
    padded: bool = True,
    checkpoint: str | os.PathLike[str] | None = None,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    devices: Sequence[Device] | None = None,
    progress: bool | None = None,
) -> Refinement:
    """Re-solves every subgame below a cut, for every gadget, opponent and blueprint.

    Source: Kubíček et al. (2026), §7; with opponents, Milec, Kubíček and Lisý (2024), §5; with what a player
    knows, Zhang and Sandholm (2021).

    Args:
      tree: the game's histories.
      where: the cut; see `jaxgadget.cut`.
      blueprint: profiles, a lane each; the opponent's half gives its prior and unsafe range. A `Policy`, or
        what else `as_policy` takes: policies of OpenSpiel's, dictionaries, or several.
      gadgets: by default unsafe, and resolving and max-margin with every prior.
      opponent: one `Opponent` or several, who follow a model of the whole game with probability p, to its
        end, and else come in by the gadget; by default one who only does that.
      knowledge: re-solve each own infostate by what the player knows there, in place of what is common
        knowledge, and put the strategies together; for gadgets that look neither at the trunk nor at the
        optimal continuation, and without `opponent`.
      player: who re-solves, 0 or 1.
      infostate: re-solve only the subgame in which this infostate lies. A gadget's `ContinuationValues` are
        of all subgames below the cut even then.
      algorithm: `cfr`, `cfr+`, `linear-cfr`, `dcfr`, `pcfr+`, `sapcfr+`, a `Rule`, or `lp`: exact linear
        programs, which need no iterations or `dtype` and take no `target_gap` or `checkpoint`.
      iterations: at most that many; an iteration updates both players.
      target_gap: stop when no gadget game in a chunk of lanes has a larger gap.
      check_every: iterations between two looks at the gap.
      dtype: of the solve, `float32` or `float64`; certificates are always in float64.
      value: bracket of player 0's value of the game, if known; else `game_value(tree)`.
      padded: round sizes up, so that similar forests share programs.
      checkpoint: a folder to resume from and to save to, a file a chunk of lanes.
      time_limit: for `lp`, in seconds for every gadget and blueprint; by default none.
      memory_limit: bytes that a solve may take on each device, by default most of what is free there, or
        half of a CPU's: lanes, and then the forest, are split until that suffices.
      devices: over which lanes are spread; by default all of `jax.local_devices()`.
      progress: a bar, or a line a minute in a log; by default a bar, on a terminal or in a notebook.

    Raises:
      ValueError: for another game's blueprint or model, a cut or infostate that is unknown or crosses
        an infoset, a number out of range, or too little memory for one lane of a subgame.

    Warns:
      UserWarning: of range values that are not to be relied on, such as unfinished networks.
    """
    profiles = as_policy(blueprint, tree, name="blueprint")
    opponents = None if opponent is None else list_opponents(opponent, tree, name="opponent")
    check_player(player)
    check_value(value, tree)
    options = make_options(
        algorithm=algorithm,
        iterations=iterations,
        target_gap=target_gap,
        check_every=check_every,
        dtype=dtype,
        checkpoint=checkpoint,
        time_limit=time_limit,
        memory_limit=memory_limit,
        devices=devices,
    )
    asked, watch = list_gadgets(gadgets, options.rule is None, (player,)), Stopwatch()
    if knowledge is not None:
        check_knowledge(knowledge, asked, opponents)
    with watch.phase("build"):
        below = cut(tree, where)
        inside = below if infostate is None else below.only(infostate)
    if knowledge is not None:
        with watch.phase("build"):
            known = make_task(inside, player, profiles, asked, options, knowledge, padded=padded)
        return refine_known(known, value, watch, progress)
    with watch.phase("build"):
        forest = build_forest(tree, inside, padded=padded)
    task = GadgetTask(forest, player, profiles, asked, options, below, opponents)
    return refine_forest(task, value, watch, progress)


def refine_known(
    task: KnowledgeTask, value: tuple[float, float] | None, watch: Stopwatch, progress: bool | None
) -> Refinement:
    """Solves a task of own infostates and measures what came out in the full game; see `refine_forest`."""
    solution = solve_knowledge(task, watch, progress)
    with watch.phase("run"):
        bracket = _bracket(task, value, progress)
        drawn = exploitability(solution.drawn, task.player, value=bracket)
        drawn = drawn.reshape(len(task.gadgets), task.knowledge.draws, -1)
        drawn = drawn.transpose(1, 0, 2).reshape(task.knowledge.draws, -1)
        refined = drawn[0]
        if task.knowledge.draws > 1:
            refined = exploitability(solution.policy, task.player, value=bracket)
        before = exploitability(task.blueprint, task.player, value=bracket)
        before = np.tile(before, len(task.gadgets))
    return _report(
        task,
        solution,
        watch,
        opponents=list_opponents(Opponent(), task.where.tree, name="opponent"),
        policy=solution.policy,
        blueprint_exploitability=before,
        refined_exploitability=refined,
        drawn_exploitability=drawn,
        exploitability_bound=before + solution.rise_bound,
        game_value=bracket,
        knowledge=task.knowledge,
    )


def _bracket(
    task: GadgetTask | KnowledgeTask, value: tuple[float, float] | None, progress: bool | None
) -> tuple[float, float]:
    """The bracket of the game's value, found if it is not given."""
    if value is not None:
        return value
    options = task.options
    return find_value(task.forest.tree, options.rule is None, progress, time_limit=options.time_limit)


def _report(
    task: GadgetTask | KnowledgeTask, solutions: Solutions, watch: Stopwatch, **measured: Any
) -> Refinement:
    """A refinement, with NaN where a solve failed.

    Args:
      task: what was asked.
      solutions: what came out.
      watch: knows where the time went.
      **measured: what else there is in a `Refinement`; for what is left out there is nothing to say.
    """
    failed, nothing = list(solutions.failures), np.full(solutions.gap.shape[1], np.nan)
    measured = {"gain": nothing, "guard_share": nothing, "drawn_exploitability": nothing[None], **measured}
    for name in ("refined_exploitability", "drawn_exploitability", "exploitability_bound", "gain"):
        measured[name] = measured[name].copy()
        measured[name][..., failed] = np.nan
    for numbers in (solutions.value, solutions.gap):
        numbers[:, failed] = np.nan
    return Refinement(
        forest=task.forest,
        player=task.player,
        blueprint=task.blueprint,
        gadgets=task.gadgets,
        gadget_value=solutions.value,
        gap=solutions.gap,
        has_decision=solutions.has_decision,
        epsilon=solutions.epsilon,
        algorithm=task.options.algorithm,
        iterations=solutions.iterations,
        target_gap=task.options.target_gap,
        seconds=watch.seconds,
        plans=tuple(solutions.plans),
        failures=solutions.failures,
        **measured,
    )


def refine_forest(
    task: GadgetTask, value: tuple[float, float] | None, watch: Stopwatch, progress: bool | None
) -> Refinement:
    """Solves a task and measures what came out in the full game.

    A gadget with a guard is solved with V̄, too, as one more gadget of the same batch.

    Args:
      task: forest, blueprints, gadgets and options, checked.
      value: bracket of player 0's value of the game, found if it is not given.
      watch: is told where the time goes.
      progress: see `refine`.
    """
    asked = [continuation for gadget in task.gadgets for continuation in asked_for(gadget)]
    warn_of_doubts([continuation.source for continuation in asked])
    safe = without_estimates(task.gadgets)
    both = dataclasses.replace(task, gadgets=(*task.gadgets, *safe.values()))
    refinement = _refine_all(both, value, watch, progress)
    return _keep_better(refinement, list(safe)) if safe else refinement


def _keep_better(both: Refinement, guarded: list[int]) -> Refinement:
    """The refinement of the gadgets that were asked for.

    Args:
      both: of these, and behind them of those with V̄ for some of them.
      guarded: the numbers of these, in order.
    """
    gained = np.where(both.p > 0, both.p * both.gain, 0.0)
    objective = gained - (1 - both.p) * both.refined_exploitability
    kept = keep_better(objective.reshape(len(both.gadgets), -1), guarded, both.failures)
    policy = both.policy.take_lanes(kept.lanes)
    of_lanes = (
        *("blueprint_exploitability", "refined_exploitability", "drawn_exploitability"),
        *("exploitability_bound", "gain", "gadget_value", "gap", "has_decision", "epsilon", "iterations"),
    )
    return dataclasses.replace(
        both,
        gadgets=both.gadgets[: -len(guarded)],
        policy=dataclasses.replace(policy, labels=both.policy.labels[: policy.num_lanes]),
        guard_share=kept.share,
        failures=kept.failures,
        guard_failures=kept.left_out,
        **{name: getattr(both, name)[..., kept.lanes] for name in of_lanes},
    )


def _refine_all(
    task: GadgetTask, value: tuple[float, float] | None, watch: Stopwatch, progress: bool | None
) -> Refinement:
    """The same without guards."""
    # What is promised to an opponent is promised to one who adapts: its share of the mixture.
    continuations = solve_continuations(dataclasses.replace(task, opponents=None), watch, progress)
    base = [task.blueprint] * len(task.gadgets)
    number_of, _, blueprint_of = task.lanes()
    for number, gadget in enumerate(task.gadgets):
        if (alternative := alternative_of(gadget)) is not None:
            base[number] = continuations[alternative].policy
    followed = (follow_models(gadget, task.forest, 1 - task.player) for gadget in task.gadgets)
    looked_up = (look_up_gadget(gadget, task.forest, task.player, task.blueprint) for gadget in followed)
    promising = tuple(promise(gadget, continuations) for gadget in looked_up)
    solutions = solve_gadgets(
        dataclasses.replace(task, gadgets=promising, promised=tuple(base)), watch, progress
    )
    for number, gadget in enumerate(task.gadgets):
        for continuation in asked_for(gadget):
            for blueprint, why in continuations[continuation].failures.items():
                failed = np.flatnonzero((number_of == number) & (blueprint_of == blueprint))
                solutions.failures.update(dict.fromkeys(failed.tolist(), why))
    with watch.phase("run"):
        player, against, bracket = task.player, task.against, _bracket(task, value, progress)
        policy = spliced(task, solutions)
        measured = {id(p): exploitability(p, player, value=bracket) for p in (task.blueprint, *base)}
        promised_exploitability = np.concatenate([np.tile(measured[id(p)], len(against)) for p in base])
        return _report(
            task,
            solutions,
            watch,
            opponents=against,
            policy=policy,
            blueprint_exploitability=np.tile(measured[id(task.blueprint)], len(task.gadgets) * len(against)),
            refined_exploitability=exploitability(policy, player, value=bracket),
            exploitability_bound=promised_exploitability + _loss_bound(task, solutions),
            gain=gain_against(policy, against, task.lanes()[1], player, bracket),
            game_value=bracket,
        )


def _loss_bound(task: GadgetTask, solutions: GadgetSolutions) -> FloatArray:
    """`[lanes]` by how much exploitability may rise; with estimates too whose error is known (Theorem 2)."""
    bound = solutions.loss_bound
    if not task.against.adapt:
        return bound
    gaps = np.split(solutions.gap, len(task.gadgets), axis=1)
    estimated = [above_optimum(gadget, gap) for gadget, gap in zip(task.gadgets, gaps, strict=True)]
    return np.where(np.isnan(bound), np.concatenate(estimated), bound)


def list_gadgets(
    gadgets: Gadget | Sequence[Gadget] | None, exact: bool, players: Sequence[int]
) -> tuple[Gadget, ...]:
    """Gadgets as `refine` takes them, checked; `exact`: linear programs solve them; `players` re-solve."""
    if gadgets is None:
        return default_gadgets()
    if isinstance(gadgets, Sequence) and not isinstance(gadgets, str):
        asked = tuple(gadgets)
    else:
        asked: tuple[Any, ...] = (gadgets,)
    for gadget in asked:
        if isinstance(gadget, type) or not hasattr(gadget, "tables"):
            raise ValueError(
                f"gadgets: {gadget!r} is no gadget; expected Unsafe(), Resolving(), MaxMargin(), …"
            )
        if gadget.epsilon == AUTO and not exact:
            raise ValueError(f"epsilon='auto' for {gadget.name}: CFR takes a number; expected algorithm='lp'")
        if exact and (spread := getattr(gadget, "spread", None)) is not None:
            raise ValueError(
                f"spread={spread!r} for {gadget.name} with algorithm='lp': an opponent who learns how much "
                "it gets before it chooses plays no linear function of values; expected 'cfr+', for example"
            )
    if not asked:
        raise ValueError("gadgets=() is empty: expected at least one, such as Resolving()")
    check_arrays(asked, players)
    return asked


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class BothRefined:
    """Blueprints with all subgames of both players re-solved, each against the blueprint.

    Attributes:
      players: player 0's refinement and player 1's, lanes alike.
      policy: both players' refined halves together, a lane each.
      blueprint_nash_conv: `[lanes]` NashConv of the blueprints.
      nash_conv: `[lanes]` NashConv of `policy`: the sum of both refined exploitabilities; NaN where a
        player's solve failed.
    """

    players: tuple[Refinement, Refinement]
    policy: Policy
    blueprint_nash_conv: FloatArray
    nash_conv: FloatArray

    def __repr__(self) -> str:
        return f"<BothRefined: {self.players[0]!r}, {self.players[1]!r}>"

    @property
    def message(self) -> str:
        """How far both solves got, in a sentence each."""
        return "; ".join(f"player {refinement.player}: {refinement.message}" for refinement in self.players)

    @property
    def table(self) -> pd.DataFrame:
        """Player 0's rows, then player 1's; those of a lane say the same NashConv."""
        tables = [refinement.table for refinement in self.players]
        for table in tables:
            table["blueprint_nash_conv"] = self.blueprint_nash_conv
            table["nash_conv"] = self.nash_conv
        return pd.concat(tables, ignore_index=True)


def refine_both(
    tree: HistoryTree,
    where: CutSpec,
    blueprint: PolicyLike | Sequence[PolicyLike],
    gadgets: Gadget | Sequence[Gadget] | Mapping[int, Gadget | Sequence[Gadget]] | None = None,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    **options: Any,
) -> BothRefined:
    """Re-solves every subgame below a cut for both players, one after the other.

    A model of the opponent (`opponent`, as in `refine`) is a profile: each player meets the other's half.

    Args:
      tree: the game's histories.
      where: the cut.
      blueprint: profiles, a lane each, as in `refine`.
      gadgets: as in `refine`; or `{0: …, 1: …}`, each player's own, of the same kinds in the same order, for
        gadgets with arrays: an `ArrayPrior` or `ArrayValues` is for one player.
      checkpoint: a folder with a folder for each player.
      **options: of `refine`, all but `player`.

    Raises:
      ValueError: as `refine` does.
    """
    if "player" in options:
        raise ValueError("player: both players re-solve; use refine for one of them")
    if isinstance(opponent := options.get("opponent"), Mapping):
        raise ValueError(
            f"opponent={opponent!r}: expected one Opponent for both players, or a list; a model is a "
            "profile, of which each player meets the other's half"
        )
    asked = _gadgets_of_both(gadgets, options.get("algorithm") == LP)
    blueprint = as_policy(blueprint, tree, name="blueprint")
    refinements: list[Refinement] = []
    for player in (0, 1):
        folder = None if checkpoint is None else pathlib.Path(checkpoint) / f"player{player}"
        refinement = refine(
            tree, where, blueprint, asked[player], player=player, checkpoint=folder, **options
        )
        options["value"] = refinement.game_value
        refinements.append(refinement)
    first, second = refinements
    halves = first.policy.probabilities[0], second.policy.probabilities[1]
    policy = Policy(tree, halves, first.policy.labels)
    copies = policy.num_lanes // first.blueprint.num_lanes
    before, after = np.tile(nash_conv(first.blueprint), copies), nash_conv(policy)
    after[[*first.failures, *second.failures]] = np.nan
    return BothRefined((first, second), policy, before, after)


def _gadgets_of_both(
    gadgets: Gadget | Sequence[Gadget] | Mapping[int, Gadget | Sequence[Gadget]] | None, exact: bool
) -> tuple[tuple[Gadget, ...], tuple[Gadget, ...]]:
    """Each player's gadgets, lanes alike."""
    if not isinstance(gadgets, Mapping):
        asked = list_gadgets(gadgets, exact, (0, 1))
        return asked, asked
    if set(gadgets) != {0, 1}:
        raise ValueError(f"gadgets: players {sorted(gadgets)}; expected {{0: …, 1: …}}, gadgets of both")
    first, second = (list_gadgets(gadgets[player], exact, (player,)) for player in (0, 1))
    kinds = [[gadget.name for gadget in asked] for asked in (first, second)]
    if kinds[0] != kinds[1]:
        raise ValueError(
            f"gadgets: player 0 has {kinds[0]}, player 1 {kinds[1]}; expected the same kinds in the same "
            "order"
        )
    return first, second
