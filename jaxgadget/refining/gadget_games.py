"""Solves gadget games, whatever form their subgames have: what comes out of a group that shares an entry."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from jaxgadget.gadgets.entry import BoundRule
from jaxgadget.gadgets.gadget import AUTO, Gadget
from jaxgadget.gadgets.games import GadgetGames, select_lanes
from jaxgadget.kernels.certificate import Certificate, Kept, certify, certify_average, find_overflows
from jaxgadget.kernels.cfr import averages
from jaxgadget.kernels.problem import Parts, Problem, earned_alone, follow
from jaxgadget.kernels.rows import take_rows
from jaxgadget.kernels.treeplex import reach
from jaxgadget.solving.driver import Finished, Report, Solved, solve
from jaxgadget.solving.lp import solve_lanes
from jaxgadget.solving.memory import Plan
from jaxgadget.solving.options import SolveOptions
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.clock import Stopwatch
from jaxgadget.util.compilation import compile_quickly
from jaxgadget.util.precision import precision


class GamesSolution(NamedTuple):
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


class Promised(NamedTuple):
    """What stands where a gadget's solution says nothing, and what it promises; actions are of the body.

    Attributes:
      rows: `[Q, blueprints]` the resolving player's blueprints.
      base: `[Q, blueprints]` for every gadget of the games, the strategies whose values it promises; None if
        nobody follows a model.
    """

    rows: FloatArray
    base: Sequence[FloatArray] | None = None

    def base_of(self, games: GadgetGames, lanes: IntArray) -> FloatArray | None:
        """`[Q, lanes]` of some lanes."""
        if self.base is None:
            return None
        base = self.base
        return select_lanes(
            games.gadget[lanes],
            games.blueprint[lanes],
            lambda number, blueprints: base[number][:, blueprints],
        )


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
    has_decision: npt.NDArray[np.bool_]
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
      strategy: `[actions, lanes]` of the resolving player, in the order of its policies, 0 outside the
        subgames.
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
    def of_size(gadgets: int, lanes: int, *, subgames: int, actions: int, roots: int) -> GadgetSolutions:
        """Before any subgame is solved; of so many lanes in all, as many for every gadget."""
        return GadgetSolutions.nothing(
            subgames,
            lanes,
            strategy=np.zeros((actions, lanes)),
            below=np.full((roots, lanes), np.nan),
            entered=np.full((roots, lanes), np.nan),
            losses=np.full((subgames, lanes), np.nan),
            bound_rules=[None] * gadgets,
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

    def put(
        self,
        games: GadgetGames,
        solution: GamesSolution,
        *,
        subgames: IntArray,
        numbers: Sequence[int],
        names: Sequence[str],
        dtype: np.dtype[Any],
        actions: tuple[IntArray, IntArray],
        iterations: npt.NDArray[np.int64],
        epsilon: FloatArray,
    ) -> None:
        """Checks what came out of some games and writes it where it belongs.

        Args:
          games: the games.
          solution: what came out.
          subgames: their numbers among all subgames.
          numbers: those of their gadgets among all gadgets.
          names: of their lanes, for messages.
          dtype: of the solve.
          actions: which of these solutions' actions are taken, by their numbers in the body and here.
          iterations: `[lanes]` done.
          epsilon: `[lanes]`.
        """
        count, num_games = games.num_lanes // len(numbers), games.batch.num_games
        value, gap = solution.value[:num_games], solution.gap[:num_games]
        gained = None if solution.gained is None else solution.gained[:num_games]
        lanes = np.concatenate([number * count + np.arange(count) for number in numbers])
        for what, failed in {"over": find_overflows(value, gap), "under": games.underflows(dtype)}.items():
            for lane, subgame in failed.items():
                why = f"the solve of subgame {subgames[subgame]} {what}flowed in {dtype}{_remedy(dtype)}"
                self.failures.setdefault(int(lanes[lane]), f"{names[lane]}: {why}")
        source, target = actions
        self.strategy[np.ix_(target, lanes)] = solution.strategy[source]
        solved = np.ix_(subgames[:num_games], lanes)
        self.value[solved] = value
        self.gap[solved] = np.maximum(gap, 0)  # less is rounding
        below = solution.below[: len(games.ranges.subgame)]
        named = np.flatnonzero(games.ranges.root >= 0)
        roots = np.ix_(games.ranges.root[named], lanes)
        self.below[roots], self.entered[roots] = below[named], solution.entered[named]
        with np.errstate(invalid="ignore"):  # lanes that failed
            self.losses[solved] = games.losses(gap, below, gained)
        self.has_decision[np.ix_(subgames, lanes)] = games.has_decision(np.arange(games.num_lanes))
        for position, number in enumerate(numbers):
            self.bound_rules[number] = games.entry.bound_rule(position)
        self.epsilon[lanes] = epsilon
        self.iterations[lanes] = np.maximum(self.iterations[lanes], iterations)


def solve_games(
    games: GadgetGames,
    promised: Promised,
    options: SolveOptions,
    *,
    plan: Plan | None = None,
    report: Report,
) -> Solved:
    """Solves games by CFR; the outcome is a `GamesSolution`.

    Args:
      games: the games.
      promised: what stands where nothing is said.
      options: how.
      plan: how lanes are split; by default as memory allows.
      report: is told the number of iterations done.
    """

    def finish(ended: Finished) -> GamesSolution:
        sums = ended.release()
        kept = ended.placement.by_lane(games.kept(promised.rows, ended.lanes))
        base = ended.placement.by_lane(promised.base_of(games, ended.lanes))
        return _conclude(ended.in_float64(), sums, kept, base, player=games.player)

    return solve(games.batch, options, finish, plan=plan, report=report)


class GadgetOptima(NamedTuple):
    """What linear programs brought.

    Attributes:
      games: the games with ε as asked for, or without mistakes where it was to be found.
      solution: what is kept.
      iterations: `[lanes]` of the simplex method.
      epsilon: `[lanes]` how likely mistakes were; NaN in lanes that failed.
      failures: lanes whose programs were not solved, and why.
    """

    games: GadgetGames
    solution: GamesSolution
    iterations: npt.NDArray[np.int64]
    epsilon: FloatArray
    failures: dict[int, str]


def solve_games_exactly(
    build: Callable[[Any], GadgetGames],
    gadget: Gadget,
    promised: Promised,
    names: Callable[[GadgetGames], Sequence[str]],
    *,
    time_limit: float | None,
    watch: Stopwatch,
    report: Callable[[], None],
) -> GadgetOptima:
    """Solves the games of one gadget by linear programs, with the same certificates as CFR's.

    Args:
      build: the games of this gadget, or of it with another ε.
      gadget: the gadget.
      promised: what stands where nothing is said.
      names: of the lanes, for messages.
      time_limit: in seconds for each lane; None: none.
      watch: is told where the time goes.
      report: is called whenever a lane is solved.
    """

    @functools.cache
    def games_of(epsilon: float | None) -> GadgetGames:
        asked: Any = gadget
        with watch.phase("build"):
            return build(asked if epsilon is None else dataclasses.replace(asked, epsilon=epsilon))

    auto = gadget.epsilon == AUTO
    games = games_of(0.0 if auto else None)
    lanes = np.arange(games.num_lanes)
    with watch.phase("run"), precision(np.float64):
        programs = solve_lanes(
            lambda epsilon: games_of(epsilon).batch.problem(),
            lanes.tolist(),
            names(games),
            promised.rows[:, games.blueprint],
            auto=auto,
            time_limit=time_limit,
            report=report,
        )
        kept, base = games.kept(promised.rows, lanes), promised.base_of(games, lanes)
        solution = _certify(games.batch.problem(), programs.played, kept, base, player=games.player)
    epsilon = programs.epsilon
    if epsilon is None:
        epsilon = np.full(games.num_lanes, gadget.epsilon, np.float64)
    else:
        epsilon[list(programs.failures)] = np.nan
    return GadgetOptima(
        games=games,
        solution=jax.tree.map(np.asarray, solution),
        iterations=np.asarray(programs.iterations, np.int64),
        epsilon=epsilon,
        failures=dict(programs.failures),
    )


@functools.partial(compile_quickly, static_argnames=("player",))
def _conclude(
    problem: Problem, strategy_sum: tuple[Parts, Parts], kept: Kept, base: Any, *, player: int
) -> GamesSolution:
    """The resolving player's averages, completed by the blueprint, and their certificate."""
    exact = jax.tree.map(lambda x: x.astype(problem.dtype), strategy_sum)
    opponent = averages(problem, exact)[1 - player]
    certificate = certify_average(problem, exact, _pair(kept, player))
    return _of_player(problem, certificate, opponent, base, player)


@functools.partial(compile_quickly, static_argnames=("player",))
def _certify(
    problem: Problem, played: tuple[Parts, Parts], kept: Kept, base: Any, *, player: int
) -> GamesSolution:
    """The certificate of strategies that come from linear programs."""
    return _of_player(
        problem, certify(problem, played, _pair(kept, player)), played[1 - player], base, player
    )


def _pair(kept: Kept, player: int) -> tuple[Kept | None, Kept | None]:
    return (kept, None) if player == 0 else (None, kept)


def _of_player(
    problem: Problem, certificate: Certificate, opponent: Parts, base: Any, player: int
) -> GamesSolution:
    side, strategy, gained = problem.sides[1 - player], certificate.strategy[player], None
    top = jnp.ones((side.entry.num_roots, problem.num_lanes), problem.dtype)
    if base is not None:
        gained = _earned(problem, player, strategy) - _earned(problem, player, base)
    return GamesSolution(
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


def _remedy(dtype: np.dtype[Any]) -> str:
    """Why numbers are too large or too small for a precision, and what to do."""
    remedy = "use dtype='float64'" if dtype == np.float32 else "give actions more probability"
    return f", because the blueprint reaches it with a probability near 0; {remedy}"
