"""Solves programs: exact values, both players' strategies, gadget game sequential equilibria.

`matrices` says what a program is and builds it; here it is run, its realisation plans become
behaviours, completed to counterfactual best responses, and the result is checked.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from jaxgadget.games.game import FloatArray
from jaxgadget.solving.chain import ROUNDING, Chain, Decisions, Rows, behaviour, plan_of, respond
from jaxgadget.solving.highs import (
    TOLERANCE,
    Basis,
    Method,
    Model,
    Outcome,
    ProgramError,
    run,
    stays_optimal,
)
from jaxgadget.solving.matrices import Built, Program, build

__all__ = ["Decisions", "Optimum", "Program", "ProgramError", "Rows", "refined", "solve_program"]

GAP_TOLERANCE = 1e-7
"""What both players together may still gain, as a share of a game's largest payoff or constant."""

LEAST_EPSILON = 1e-8
"""Smaller floors than this disappear in HiGHS's tolerances."""

VALUE_TOLERANCE = 1e-10
"""A solution that misses a game's optimum by no more, as a share of its largest payoff, has it."""

Fallback = tuple[FloatArray | None, FloatArray | None]
"""Both players' `[Q_body]` rows for infosets that nobody reaches; None: all actions alike."""

NO_FALLBACK: Fallback = (None, None)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Optimum:
    """A solved program. G games, padding included.

    Attributes:
      value: `[G]` what the maximiser's strategy guarantees, in its utility; 0 where nothing is.
      gap: `[G]` what both players could still gain: the optimum lies between value and
        value + gap. `[1]` if the games are one linear program (`Program.joint`).
      strategy: player 0's and player 1's behaviour, the opponent's from the duals.
      basis: HiGHS's basis of every game (None where nothing is), or one of all.
      iterations: of the simplex method, all together.
      epsilon: `[G]` what sufficed, where `refined` looked for it (NaN where nothing is).
    """

    value: FloatArray
    gap: FloatArray
    strategy: tuple[Rows, Rows]
    basis: tuple[Basis | None, ...]
    iterations: int
    epsilon: FloatArray | None = None


class _Plans(NamedTuple):
    """What linear programs found, in the program's own units.

    Attributes:
      mine: `[S]` the maximiser's plan.
      theirs: `[S]` the opponent's, times what the guaranteed value weighs (duals).
      needed: what a unit of `at_least` costs the objective.
    """

    mine: FloatArray
    theirs: FloatArray
    needed: float = 0.0


class _Clock:
    """A time limit for many runs."""

    def __init__(self, limit: float | None):
        self._end = None if limit is None else time.perf_counter() + limit

    def left(self) -> float | None:
        """Seconds left, None for no limit."""
        return None if self._end is None else self._end - time.perf_counter()


def solve_program(
    program: Program,
    *,
    fallback: Fallback = NO_FALLBACK,
    time_limit: float | None = None,
    method: Method = "simplex",
) -> Optimum:
    """Solves a program with HiGHS.

    Where a player does not get by its own plan (`chain.REACH_TOLERANCE`), it plays a pure
    counterfactual best response to the other's strategy, as *Solving games using decomposition*
    asks; where that strategy does not get either, the fallback.

    Args:
      program: what to solve.
      fallback: rows for infosets that nobody reaches, for example a blueprint's; floors are mixed
        in where they lie below.
      time_limit: in seconds, for all games together; by default none.
      method: simplex, or interior points with a crossover, which took 1 to 3.4 times as long on
        every game tried (Leduc, Goofspiel 4 and 5, Liar's Dice with 5 and 6 sides).

    Raises:
      ProgramError: if HiGHS does not solve a game, or the solution is not optimal within
        `GAP_TOLERANCE`; names the program, the game and what HiGHS said.
      ValueError: if arrays do not fit one another.
    """
    built, clock = build(program), _Clock(time_limit)
    outcomes: list[Outcome | None] = []
    for game in _games(built):
        skip = game is not None and not built.live[game]
        left = clock.left()
        outcomes.append(
            None if skip else run(built.part(game), _what(built, game), method=method, time_limit=left)
        )
    plans = _plans(built, outcomes)
    return _conclude(built, outcomes, plans, (plans,), fallback)


def refined(
    program_of: Callable[[float], Program],
    *,
    start: float = 1e-3,
    shrink: float = 0.1,
    least: float = LEAST_EPSILON,
    fallback: Fallback = NO_FALLBACK,
    time_limit: float | None = None,
) -> Optimum:
    """A gadget game sequential equilibrium: an optimal basis for floors ε that is optimal for 0.

    Source: Kubíček, Lisý and Sandholm (2026), §7.1. Every game is solved with ε. If its optimal
    basis stays optimal at ε = 0 (HiGHS, started there, has nothing to do), or but for rounding (its
    value does, `VALUE_TOLERANCE`), it is accepted. Else ε shrinks, and we go on from that basis.

    The strategies are the basis's at ε = 0. Floors right below a game's root change its objective
    alone, and that affinely in ε; so a basis that is optimal at both ends is optimal for every ε' in
    between. The maximiser's plan is the same for all of them, the opponent's moves along a segment:
    the strategies at ε = 0 are the limits of equilibria of ever less perturbed games, which is what
    a sequential equilibrium is. (At ε itself the opponent still errs.) With floors further down,
    or on the maximiser, the result is an equilibrium and the basis's limit, and no more is claimed.

    The maximiser's completion asks the opponent at ε = 0, and where only mistakes lead, at ε.

    Args:
      program_of: the program for an ε; programs differ in floors only and are not joint.
      start: the first ε.
      shrink: by what it is multiplied.
      least: no smaller ε is tried.
      fallback: as in `solve_program`.
      time_limit: in seconds, for everything together.

    Raises:
      ProgramError: as `solve_program`, and if no ε down to `least` suffices for a game.
      ValueError: if a number is out of range or the programs are joint.
    """
    if not (0 < least <= start < 1 and 0 < shrink < 1):
        found = f"start={start}, shrink={shrink}, least={least}"
        raise ValueError(f"{found}: expected 0 < least <= start < 1 and 0 < shrink < 1")
    perturbed = build(program_of(start))
    exact = build(program_of(0.0), (perturbed.mine.floored, perturbed.theirs.floored))
    if perturbed.program.joint or exact.program.joint:
        raise ValueError(f"{exact.program.name} joins its games: expected no linear, at_least or weight")
    search = _Search(exact, _Clock(time_limit))
    games, epsilon = np.nonzero(exact.live)[0].tolist(), start
    while True:
        games = [game for game in games if not search.accepts(perturbed, game, epsilon)]
        if not games:
            break
        if epsilon * shrink < least:
            raise ProgramError(
                f"{_what(exact, games[0])}: no optimal basis stays optimal at ε = 0, down to ε = "
                f"{epsilon:.0e}; use a fixed ε, or a prior without tiny probabilities"
            )
        epsilon *= shrink
        perturbed = build(program_of(epsilon), (perturbed.mine.floored, perturbed.theirs.floored))
    plans = _plans(exact, search.accepted)
    errs = _plans(dataclasses.replace(perturbed, weight=search.weight), search.trembling)
    found = _conclude(exact, search.accepted, plans, (plans, errs), fallback)
    return dataclasses.replace(found, epsilon=search.epsilon)


class _Search:
    """For every game the last perturbed solution, and the exact one of its basis once it is optimal."""

    def __init__(self, exact: Built, clock: _Clock):
        games = len(exact.live)
        self._exact, self._clock = exact, clock
        self.trembling: list[Outcome | None] = [None] * games
        self.accepted: list[Outcome | None] = [None] * games
        self.epsilon, self.weight = np.full(games, np.nan), np.ones(games)

    def accepts(self, perturbed: Built, game: int, epsilon: float) -> bool:
        """Solves a game with ε, from its last basis, and says whether the basis suffices."""
        before = self.trembling[game]
        what = f"{_what(perturbed, game)} with ε = {epsilon:.0e}"
        found = run(
            perturbed.part(game),
            what,
            time_limit=self._clock.left(),
            basis=None if before is None else before.basis,
        )
        self.trembling[game], self.weight[game] = found, perturbed.weight[game]
        plain = self._exact.part(game)
        self.accepted[game] = stays_optimal(plain, what, found.basis) or _as_good(plain, what, found)
        if self.accepted[game] is None:
            return False
        self.epsilon[game] = epsilon
        return True


def _as_good(plain: Model, what: str, found: Outcome) -> Outcome | None:
    """A perturbed solution as one of the unperturbed program, if it is feasible and optimal there too."""
    rows = plain.matrix @ found.x
    off = np.maximum(plain.row_lower - rows, rows - plain.row_upper).max(initial=0.0)
    if off > 10 * TOLERANCE:
        return None
    best = run(plain, what, basis=found.basis)
    cost = float(plain.cost @ found.x)
    if cost > best.cost + VALUE_TOLERANCE * max(1.0, abs(best.cost)):
        return None
    return dataclasses.replace(best, x=found.x, cost=cost)


def _games(built: Built) -> list[int | None]:
    """What to solve on its own; None is all games."""
    return [None] if built.program.joint else list(range(len(built.live)))


def _what(built: Built, game: int | None) -> str:
    name = f"linear program {built.program.name!r}"
    return name if game is None or len(built.live) == 1 else f"{name}, game {game}"


def _plans(built: Built, outcomes: list[Outcome | None]) -> _Plans:
    """Realisation plans of both players, 1 at the roots of games without anything."""
    columns, duals = np.zeros(int(built.columns[-1])), np.zeros(int(built.rows[-1]))
    for game, found in zip(_games(built), outcomes, strict=True):
        begin = 0 if game is None else game
        if found is not None:
            columns[built.columns[begin] : built.columns[begin + 1]] = found.x
            duals[built.rows[begin] : built.rows[begin + 1]] = -found.dual
    mine, theirs = (
        np.where(number >= 0, values[np.maximum(number, 0)], 0.0)
        for number, values in ((built.numbering.plan, columns), (built.numbering.answer, duals))
    )
    needed = 0.0 if built.program.at_least is None else -float(duals[-1])
    theirs = theirs / built.weight[built.theirs.treeplex.root_of()]
    mine, theirs = (np.where(plan > ROUNDING, plan, 0.0) for plan in (mine, theirs))
    return _Plans(mine, theirs, needed)


def _conclude(
    built: Built,
    outcomes: list[Outcome | None],
    plans: _Plans,
    opponents: tuple[_Plans, ...],
    fallback: Fallback,
) -> Optimum:
    """Behaviours, completed and checked.

    Args:
      built: the program.
      outcomes: what HiGHS found.
      plans: what is played.
      opponents: whom the maximiser's completion asks, in order.
      fallback: rows where nobody gets.
    """
    mine, theirs, program = built.mine, built.theirs, built.program
    weight = plans.theirs[: mine.num_games]  # what the guaranteed value weighs: 1 but for joint terms
    normal = weight[theirs.treeplex.root_of()]
    answers = np.where(normal > 0, plans.theirs / np.where(normal > 0, normal, 1.0), 0.0)
    my_rows, my_reach = behaviour(mine, plans.mine)
    their_rows, their_reach = behaviour(theirs, answers)
    given = [
        _padded(chain, fallback[p])
        for chain, p in ((mine, program.maximiser), (theirs, 1 - program.maximiser))
    ]
    my_rows, _ = respond(
        mine,
        tuple(_gradient(built, of.theirs) for of in opponents),
        rows=my_rows,
        kept=my_reach,
        fallback=given[0],
    )
    their_rows, _ = respond(
        theirs,
        (_answer(built, plans.mine),),
        rows=their_rows,
        kept=their_reach,
        fallback=given[1],
    )
    value, gap = _check(built, my_rows, their_rows, plans)
    strategy = (mine.split(my_rows), theirs.split(their_rows))
    return Optimum(
        value=value,
        gap=gap,
        strategy=strategy if program.maximiser == 0 else (strategy[1], strategy[0]),
        basis=tuple(None if found is None else found.basis for found in outcomes),
        iterations=sum(found.iterations for found in outcomes if found is not None),
    )


def _padded(chain: Chain, rows: FloatArray | None) -> FloatArray | None:
    """A body's rows below an entry without any."""
    if rows is None:
        return None
    before = chain.entry[0] - chain.num_games
    expected = chain.treeplex.num_sequences - chain.entry[0]
    if rows.shape != (expected,):
        raise ValueError(f"fallback has shape {rows.shape}: expected ({expected},), one lane of a body")
    return np.concatenate([np.zeros(before), rows])


def _gradient(built: Built, theirs: FloatArray) -> FloatArray:
    """`[S]` what the maximiser's sequences earn against a plan that carries its weight."""
    payoff, program = built.program.payoff, built.program
    pairs = (payoff.row, payoff.column)
    own, other = pairs[program.maximiser], pairs[1 - program.maximiser]
    seen = built.theirs.seen(theirs)
    earned = np.bincount(own, program.sign * payoff.value * seen[other], len(built.mine.scale))
    weight = theirs[: built.mine.num_games][built.mine.treeplex.root_of()]
    return built.mine.collect(np.asarray(earned, np.float64)) + weight * built.mine.constant + built.linear


def _answer(built: Built, mine: FloatArray) -> FloatArray:
    """`[S]` what the opponent's sequences earn it against a plan of the maximiser."""
    payoff, program = built.program.payoff, built.program
    pairs = (payoff.row, payoff.column)
    own, other = pairs[program.maximiser], pairs[1 - program.maximiser]
    seen = built.mine.seen(mine)
    earned = np.bincount(other, -program.sign * payoff.value * seen[own], len(built.theirs.scale))
    return built.theirs.collect(np.asarray(earned, np.float64)) + built.theirs.constant


def _sum_by_game(chain: Chain, values: FloatArray) -> FloatArray:
    return np.asarray(np.bincount(chain.treeplex.root_of(), values, chain.num_games), np.float64)


def _check(
    built: Built, my_rows: FloatArray, their_rows: FloatArray, plans: _Plans
) -> tuple[FloatArray, FloatArray]:
    """What the maximiser guarantees in every game, and how far that may be from the optimum.

    Raises:
      ProgramError: if it is further than `GAP_TOLERANCE`.
    """
    mine, theirs, program = built.mine, built.theirs, built.program
    my_plan, their_plan = plan_of(mine, my_rows), plan_of(theirs, their_rows)
    conceded = respond(theirs, (_answer(built, my_plan),))[1]
    value = _sum_by_game(mine, mine.constant * my_plan) - conceded
    weight = plans.theirs[: mine.num_games]
    weighed = their_plan * weight[theirs.treeplex.root_of()]
    most = respond(mine, (_gradient(built, weighed),))[1] - _sum_by_game(theirs, theirs.constant * weighed)
    if program.joint:
        least = program.at_least or 0.0
        earned = program.guarantee_weight * value.sum() + float(built.linear @ my_plan)
        gap = np.array([most.sum() - plans.needed * least - earned])
        short = np.array([0.0 if program.at_least is None else least - float(value.sum())])
        unit = built.unit[:1]
    else:
        gap, short, unit = most - value, np.zeros_like(value), built.unit
    bad = ~((gap <= GAP_TOLERANCE * unit) & (short <= GAP_TOLERANCE * unit))
    if bad.any():
        game = None if program.joint else int(np.argmax(bad))
        at = 0 if game is None else game
        raise ProgramError(
            f"{_what(built, game)} is solved badly: its strategies leave a gap of {gap[at]:.2g} where "
            f"payoffs reach {unit[at]:.2g}; its numbers may differ by too many orders of magnitude"
        )
    return np.where(built.live, value, 0.0), np.maximum(gap, 0.0)
