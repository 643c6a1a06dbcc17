"""Re-solving the public subgames of a game by hands: `refine` without a history.

Ranges, gadget games and their solutions are those of histories (`hands.ranges`, `gadgets.games`,
`refining.gadget_games`); only what a policy is, and how it is evaluated, is of the form by hands.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from jax.typing import DTypeLike

from jaxgadget.gadgets.alternative import AbstractValues, ContinuationValues
from jaxgadget.gadgets.gadget import Gadget, Perturbed, describe
from jaxgadget.gadgets.games import GadgetGames, build_games, group_gadgets
from jaxgadget.gadgets.prior import NoPrior, RangePrior
from jaxgadget.gadgets.ranges import Ranges
from jaxgadget.gadgets.real_way import OptimalContinuation
from jaxgadget.hands.evaluate import evaluate_hands, hands_value
from jaxgadget.hands.form import HandsForm
from jaxgadget.hands.policy import HandsPolicy, check_hands_policy
from jaxgadget.hands.ranges import HandsBodies, build_bodies, find_hands_ranges, public_cut
from jaxgadget.kernels.regret import Rule, find_rule
from jaxgadget.policy.evaluate import check_bracket
from jaxgadget.refining.continuation import (
    Continuation,
    StrategyValues,
    alternative_of,
    asked_for,
    promise,
)
from jaxgadget.refining.gadget_games import GadgetSolutions, Promised, solve_games, solve_games_exactly
from jaxgadget.refining.range_prior import ModelRange
from jaxgadget.refining.refine import lane_row, list_gadgets
from jaxgadget.solving.options import SolveOptions, make_options
from jaxgadget.util.arguments import check_player
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.clock import Stopwatch
from jaxgadget.util.files import make_folder
from jaxgadget.util.precision import precision
from jaxgadget.util.progress import progress_bar


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HandsRefinement:
    """Blueprints with their public subgames re-solved by one player. S subgames, L lanes.

    Attributes:
      blueprint: what was refined, B lanes.
      policy: refined, lane = gadget × B + blueprint; the other player's part is the blueprint's.
      form: the subgames; `form.roots` are their public nodes.
      player: who re-solved.
      gadgets: what was asked for.
      gadget_value: `[S, L]` what each solution guarantees in its gadget game. An optimal continuation is one
        game for all subgames: row 0, the others are NaN.
      gap: `[S, L]` NashConv of each gadget game.
      has_decision: `[S, L]` False where there was nothing to solve and the blueprint stayed.
      epsilon: `[L]` how likely mistakes were; for `auto`, the ε that sufficed.
      blueprint_exploitability: `[L]` of the player's blueprint, in the whole game.
      refined_exploitability: `[L]` of its refined policy.
      exploitability_bound: `[L]` what the certificates guarantee, NaN where nothing is known.
      game_value: bracket of player 0's value; exploitabilities are measured from its middle.
      algorithm: the rule's name, or `lp`.
      iterations: `[L]` done; of the simplex method if `algorithm` is `lp`.
      seconds: `build`, `compile` and `run`.
      failures: why lanes have no numbers; they keep the blueprint.
    """

    blueprint: HandsPolicy
    policy: HandsPolicy
    form: HandsForm
    player: int
    gadgets: tuple[Gadget, ...]
    gadget_value: FloatArray
    gap: FloatArray
    has_decision: BoolArray
    epsilon: FloatArray
    blueprint_exploitability: FloatArray
    refined_exploitability: FloatArray
    exploitability_bound: FloatArray
    game_value: tuple[float, float]
    algorithm: str
    iterations: npt.NDArray[np.int64]
    seconds: dict[str, float]
    failures: dict[int, str]

    def __repr__(self) -> str:
        return f"<HandsRefinement of {self.form.game.name}: {len(self.form.roots)} subgames, {self.message}>"

    @property
    def message(self) -> str:
        """How far the solve got, in a sentence."""
        lower = int((self.refined_exploitability < self.blueprint_exploitability).sum())
        failed = f", {len(self.failures)} undefined" if self.failures else ""
        return (
            f"exploitability fell in {lower} of {self.policy.num_lanes} lane(s){failed}; the largest gap is "
            f"{np.nanmax(self.gap, initial=0.0):.3g}"
        )

    @property
    def table(self) -> pd.DataFrame:
        """A row for every gadget and blueprint, in the columns of `Refinement.table`."""
        count = self.blueprint.num_lanes
        return pd.DataFrame(
            [
                lane_row(self, lane, self.gadgets[lane // count], self.blueprint.labels[lane % count])
                for lane in range(self.policy.num_lanes)
            ]
        )


@dataclasses.dataclass(frozen=True, eq=False)
class _HandsTask:
    """What is to be solved, and how.

    Attributes:
      bodies: the subgames.
      blueprint: profiles of the whole game, a lane each.
      gadgets: each takes all of them.
      options: how.
    """

    bodies: HandsBodies
    blueprint: HandsPolicy
    gadgets: tuple[Gadget, ...]
    options: SolveOptions

    @functools.cached_property
    def ranges(self) -> Ranges:
        """What the blueprints bring."""
        needs = frozenset[str]().union(*(gadget.needs for gadget in self.gadgets))
        return find_hands_ranges(self.bodies, self.blueprint, needs=needs)

    @property
    def num_roots(self) -> int:
        """Rows of users' arrays."""
        return int(self.bodies.named_roots.max(initial=-1)) + 1

    def build(self, *gadgets: Gadget) -> GadgetGames:
        """The games of gadgets that share an entry."""
        with precision(np.float64):
            return build_games(self.bodies, self.ranges, gadgets)

    def names(self, games: GadgetGames, gadget: Gadget | None = None) -> list[str]:
        """What the lanes of games are called; of one gadget as it was asked for, whatever ε was tried."""
        return [
            self.describe(games.gadgets[number] if gadget is None else gadget, blueprint)
            for number, blueprint in zip(games.gadget.tolist(), games.blueprint.tolist(), strict=True)
        ]

    def describe(self, gadget: Gadget, blueprint: int) -> str:
        """A lane in words."""
        return f"{describe(gadget)} after blueprint {self.blueprint.labels[blueprint]!r}"


def refine_hands(
    blueprint: HandsPolicy,
    where: str | Sequence[int] | IntArray,
    gadgets: Gadget | Sequence[Gadget] | None = None,
    *,
    player: int = 0,
    algorithm: str | Rule = "cfr+",
    iterations: int = 1000,
    target_gap: float | None = None,
    dtype: DTypeLike = "float32",
    checkpoint: str | os.PathLike[str] | None = None,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    value: tuple[float, float] | None = None,
    progress: bool | None = None,
) -> HandsRefinement:
    """Re-solves all public subgames below a cut, for every gadget and blueprint at once.

    Where both forms fit, this is `refine` without histories: the same strategies, gaps and bounds. Opponents
    who follow a model are met in `refine` alone.

    Args:
      blueprint: profiles of a whole game by hands, a lane each.
      where: at which public nodes subgames begin, see `public_cut`.
      gadgets: see `refine`; models of a `RangePrior` are policies by hands. Not those whose alternative
        values are estimates of ranges or of an abstraction.
      player: who re-solves, 0 or 1.
      algorithm: see `refine`; `lp` is for few hands and ends.
      iterations: at most that many.
      target_gap: stop when no gadget game has a larger gap.
      dtype: of the solve, `float32` or `float64`; certificates are in float64.
      checkpoint: a folder to resume from and to save to.
      time_limit: for `lp`, in seconds for every gadget and blueprint; by default none.
      memory_limit: bytes that the solve may take.
      value: bracket of player 0's value, if known; else `hands_value`.
      progress: a bar, or a line a minute in a log; by default a bar, on a terminal or in a notebook.

    Raises:
      ValueError: if an argument is out of range, a node of the cut is below another, a gadget asks for what
        only histories have, or the game does not say how likely its deals are.
    """
    check_hands_policy(blueprint)
    check_player(player)
    options = make_options(
        algorithm=algorithm,
        iterations=iterations,
        target_gap=target_gap,
        dtype=dtype,
        checkpoint=checkpoint,
        time_limit=time_limit,
        memory_limit=memory_limit,
    )
    asked, watch = list_gadgets(gadgets, options.rule is None, (player,)), Stopwatch()
    _check_known(asked)
    if not blueprint.form.is_whole:
        raise ValueError(f"blueprint of {blueprint.form!r}: expected policies of the whole game")
    bracket = None if value is None else check_bracket(value)
    with watch.phase("build"):
        bodies = build_bodies(blueprint.game, public_cut(blueprint.game, where), player)
        task = _HandsTask(bodies, blueprint, asked, options)
    continuations = {c: _continue(task, c, watch, progress) for g in asked for c in asked_for(g)}
    promising = tuple(promise(follow_model(g, task.bodies, blueprint), continuations) for g in asked)
    solutions = _solve(dataclasses.replace(task, gadgets=promising), watch, progress)
    count = blueprint.num_lanes
    for number, gadget in enumerate(asked):
        for continuation in asked_for(gadget):
            for lane, why in continuations[continuation].failures.items():
                solutions.failures.setdefault(number * count + lane, why)
    base = [
        blueprint if (alternative := alternative_of(gadget)) is None else continuations[alternative].policy
        for gadget in asked
    ]
    with watch.phase("run"):
        policy = _spliced(dataclasses.replace(task, gadgets=promising), solutions, asked)
        if bracket is None:
            bracket = hands_value(blueprint.form, progress=progress)
        middle = sum(bracket) / 2 * (1 if player == 0 else -1)
        measured = {
            id(p): middle + evaluate_hands(p).best_response_values[player] for p in (blueprint, *base)
        }
        after = middle + evaluate_hands(policy).best_response_values[player]
        bound = np.concatenate([measured[id(p)] for p in base]) + solutions.loss_bound
    failed = list(solutions.failures)
    for numbers in (after, bound, solutions.value, solutions.gap):
        numbers[..., failed] = np.nan
    return HandsRefinement(
        blueprint=blueprint,
        policy=policy,
        form=bodies.form,
        player=player,
        gadgets=asked,
        gadget_value=solutions.value,
        gap=solutions.gap,
        has_decision=solutions.has_decision,
        epsilon=solutions.epsilon,
        blueprint_exploitability=np.tile(measured[id(blueprint)], len(asked)),
        refined_exploitability=after,
        exploitability_bound=bound,
        game_value=bracket,
        algorithm=options.algorithm,
        iterations=solutions.iterations,
        seconds=watch.seconds,
        failures=solutions.failures,
    )


def _check_known(gadgets: Sequence[Gadget]) -> None:
    """ValueError if a gadget asks for what only histories have."""
    for gadget in gadgets:
        if isinstance(getattr(gadget, "alternative", None), AbstractValues):
            raise ValueError(
                f"gadget {describe(gadget)}: an abstraction's values are looked up in histories alone; "
                "expected BestResponseValues(), BlueprintValues(), ContinuationValues() or ArrayValues(array)"
            )
        if any(continuation.is_estimate for continuation in asked_for(gadget)):
            raise ValueError(
                f"gadget {describe(gadget)}: values of ranges are those of histories; expected "
                "ContinuationValues(), exact, or ContinuationValues(iterations)"
            )


def follow_model(gadget: Any, bodies: HandsBodies, blueprint: HandsPolicy) -> Any:
    """The gadget with a model's range in place of the model, if its prior has one; see `follow_models`.

    Args:
      gadget: what is solved.
      bodies: the subgames.
      blueprint: profiles of the game.

    Raises:
      ValueError: if the model is no policy by hands of this game, or has several lanes.
    """
    prior = gadget.prior
    if not isinstance(prior, RangePrior) or prior.model is None or not isinstance(gadget, Perturbed):
        return gadget
    model, other = prior.model, 1 - bodies.player
    if not isinstance(model, HandsPolicy) or model.game.name != blueprint.game.name or model.num_lanes != 1:
        raise ValueError(
            f"RangePrior(model={model!r}): expected a policy by hands of {blueprint.game.name}, of one lane"
        )
    brought = find_hands_ranges(bodies, model, needs=gadget.needs & {"trunk"})
    named = bodies.named_roots >= 0
    above = None if brought.trunk is None else brought.trunk.strategy
    reach = model.reach(other, bodies.form.roots).reshape(-1, 1)[named]
    return dataclasses.replace(gadget, prior=ModelRange(model, at_roots=reach, above=above))


def _continue(
    task: _HandsTask, asked: ContinuationValues, watch: Stopwatch, progress: bool | None
) -> Continuation:
    """One optimal continuation of every blueprint, exact or of some iterations."""
    options = dataclasses.replace(task.options, target_gap=None, chunk=None, checkpoint=None)
    if isinstance(asked.source, int | np.integer):
        rule = find_rule("cfr+") if options.rule is None else options.rule
        options = dataclasses.replace(options, rule=rule, iterations=int(asked.source))
    else:
        options = dataclasses.replace(options, rule=None)
    gadgets = (OptimalContinuation(NoPrior()),)
    game = dataclasses.replace(task, gadgets=gadgets, options=options)
    solutions = _solve(game, watch, progress)
    for lane in np.flatnonzero(~np.isfinite(solutions.below).all(axis=0)).tolist():
        label = task.blueprint.labels[lane]
        solutions.failures.setdefault(
            lane, f"the continuation of blueprint {label!r} is worth no finite number at some root"
        )
    values, reach = (np.where(np.isfinite(x), x, 0.0) for x in (solutions.below, solutions.entered))
    policy = _spliced(game, solutions, gadgets)
    return Continuation(policy, StrategyValues(values, asked.name), reach, solutions.failures)


def _solve(task: _HandsTask, watch: Stopwatch, progress: bool | None) -> GadgetSolutions:
    """Solves all gadgets of a task, those that share an entry at once."""
    count, options = task.blueprint.num_lanes, task.options
    for gadget in task.gadgets:
        gadget.check(task.num_roots, count)
    bodies = task.bodies
    solutions = GadgetSolutions.of_size(
        len(task.gadgets),
        len(task.gadgets) * count,
        subgames=bodies.num_subgames,
        actions=bodies.sides[bodies.player].body.num_actions,
        roots=task.num_roots,
    )
    promised = Promised(bodies.rows(task.blueprint, bodies.player))
    everything = np.arange(bodies.sides[bodies.player].body.num_actions)
    put = functools.partial(
        solutions.put, subgames=np.arange(bodies.num_subgames), actions=(everything, everything)
    )
    if options.rule is None:
        done = itertools.count(1)
        with progress_bar("refining", len(task.gadgets) * count, progress) as report:
            for number, gadget in enumerate(task.gadgets):
                exact = solve_games_exactly(
                    task.build,
                    gadget,
                    promised,
                    functools.partial(task.names, gadget=gadget),
                    time_limit=options.time_limit,
                    watch=watch,
                    report=lambda: report(next(done)),
                )
                solutions.failures |= {number * count + lane: why for lane, why in exact.failures.items()}
                put(
                    exact.games,
                    exact.solution,
                    numbers=[number],
                    names=task.names(exact.games),
                    dtype=np.dtype(np.float64),
                    iterations=exact.iterations,
                    epsilon=exact.epsilon,
                )
        return solutions
    if options.checkpoint is not None:
        make_folder(options.checkpoint)
    groups = group_gadgets(task.gadgets)
    with progress_bar("refining", options.iterations * len(groups), progress) as report:
        for position, numbers in enumerate(groups):
            before = position * options.iterations
            with watch.phase("build"):
                games = task.build(*(task.gadgets[number] for number in numbers))
            with watch.phase("run"):
                solved = solve_games(
                    games, promised, options, report=lambda done, before=before: report(before + done)
                )
            solutions.plans.append(solved.plan)
            put(
                games,
                solved.outcome,
                numbers=numbers,
                names=task.names(games),
                dtype=options.dtype,
                iterations=solved.iterations,
                epsilon=np.repeat(np.array([g.epsilon for g in games.gadgets], np.float64), count),
            )
    return solutions


def _spliced(task: _HandsTask, solutions: GadgetSolutions, asked: Sequence[Gadget]) -> HandsPolicy:
    """The blueprints with the strategies spliced in; lanes that failed keep theirs."""
    form, player, blueprint = task.bodies.form, task.bodies.player, task.blueprint
    before = blueprint.lanes(list(range(blueprint.num_lanes)) * len(asked))
    labels = tuple(f"{label} | {describe(gadget)}" for gadget in asked for label in blueprint.labels)
    rows = before.probabilities[player].copy()
    ended = np.setdiff1d(np.arange(before.num_lanes), list(solutions.failures))
    order, hands = form.rows[player], np.arange(rows.shape[1])
    below = solutions.strategy.reshape(len(order), len(hands), before.num_lanes)
    rows[order[:, None, None], hands[:, None], ended] = below[:, :, ended]
    pair = (rows, before.probabilities[1]) if player == 0 else (before.probabilities[0], rows)
    return HandsPolicy(before.form, pair, labels)
