"""Linear programs of a problem, as matrices.

The maximiser chooses its realisation plan x. The value of an opponent's infoset (to the
maximiser) is v(I) = (1−ε)·m(I) + Σ_a f_a·q(I, a) with m(I) ≤ q(I, a) for every legal a, floors
f and ε = Σ f: the sequence form of von Stengel (1996), perturbed as in Farina, Kroer and
Sandholm (2017). With w(I, a) = q(I, a) − m(I) ≥ 0 this is v(I) = m(I) + Σ_a f_a·w(I, a), and the
program needs one row per sequence of the opponent,

    m(I) + w(I, a) − Σ_J [m(J) + Σ_b f_b·w(J, b)] = payoff of (I, a) against x − constant,

where J are the infosets immediately below (I, a). If an infoset has no floors, w is the row's slack.
The row's dual is the opponent's realisation plan. A game's value is a separate column, so that
floors immediately below a game's root only change the coefficient of that column: Eq. 3a of
Kubíček, Lisý and Sandholm (2026) with its missing factor (1−ε).

All games of a problem are built as one matrix. They are independent, so that each is solved as a separate
program, unless the goal joins them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import block_array, csc_array, csr_array, eye_array, vstack

from jaxgadget.core.host import Entries
from jaxgadget.core.lp.decisions import ROUNDING, JoinedDecisions, join, sum_by
from jaxgadget.core.lp.highs import Model, ProgramSolution
from jaxgadget.core.payoff import ListedPayoff
from jaxgadget.core.problem import Problem
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray

MAX_WEIGHT = 1e4
"""Largest factor of a game's objective; the factor keeps reduced costs of small floors above rounding."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Goal:
    """Objective of a linear program: by default the maximin strategy of a player in every game.

    Maximises `guarantee_weight` × guaranteed value + payoff from the bonus, both summed over the games.
    Unless all three of these settings have their defaults, the games are one linear program.

    Attributes:
      maximiser: 0 or 1.
      guarantee_weight: weight of the guaranteed value in the objective, in [0, 1].
      at_least: least guaranteed value, summed over the games.
      bonus: `[S_body]` additional payoff of every sequence of the maximiser's body; like
        `Terms.body_constant`, but not part of the guaranteed value.
    """

    maximiser: int
    guarantee_weight: float = 1.0
    at_least: float | None = None
    bonus: FloatArray | None = None

    @property
    def joint(self) -> bool:
        """True if all games are one linear program."""
        return self.bonus is not None or self.at_least is not None or self.guarantee_weight != 1


class LaneGames(NamedTuple):
    """One lane of a problem in NumPy, with payoffs of the maximiser.

    Attributes:
      maximiser: the maximiser's decisions.
      opponent: the other player's decisions.
      payoff: the maximiser's payoff × chance's reach for pairs of sequences; rows are the maximiser's.
      bonus: `[S_body]` the goal's bonus for the maximiser's sequences, 0 without one.
    """

    maximiser: JoinedDecisions
    opponent: JoinedDecisions
    payoff: Entries
    bonus: FloatArray

    def maximiser_values(self, plan: FloatArray) -> FloatArray:
        """`[S]` payoffs of the maximiser's sequences against a plan of the opponent, including the bonus.

        Args:
          plan: `[S]` the opponent's plan × the weight of the guaranteed value.
        """
        earned = self.payoff.value * self.opponent.payoff_reach(plan)[self.payoff.column]
        gradient = sum_by(self.payoff.row, earned, self.payoff.shape[0]) + self.bonus
        return self.maximiser.values(gradient, plan[: self.opponent.num_games])

    def opponent_values(self, plan: FloatArray) -> FloatArray:
        """`[S]` payoffs of the opponent's sequences against a plan of the maximiser."""
        lost = self.payoff.value * self.maximiser.payoff_reach(plan)[self.payoff.row]
        gradient = sum_by(self.payoff.column, -lost, self.payoff.shape[1])
        return self.opponent.values(gradient, plan[: self.maximiser.num_games])

    def guaranteed(self, plan: FloatArray) -> FloatArray:
        """`[G]` payoff of the maximiser's plan in each game against a best response."""
        earned = self.maximiser.sum_games(self.maximiser.constants() * plan)
        return earned - self.opponent.best_response(self.opponent_values(plan))


def lane_games(problem: Problem, lane: int, goal: Goal, name: str) -> LaneGames:
    """One lane of a problem in NumPy.

    Args:
      problem: the games, in float64.
      lane: index of the lane.
      goal: the maximiser and the bonus.
      name: name of the program, for errors.

    Raises:
      ValueError: if the problem is not in float64, its payoff has no matrix, its floors are out of range, or
        the bonus has the wrong shape.
    """
    if problem.dtype != np.float64:
        raise ValueError(f"the problem of {name} is in {problem.dtype}: expected a problem built in float64")
    if goal.maximiser not in (0, 1):
        raise ValueError(f"maximiser={goal.maximiser} of {name}: expected 0 or 1")
    listed = problem.payoff.take_lanes(np.array([lane]))
    if not isinstance(listed, ListedPayoff):
        raise ValueError(
            f"the payoff of {name} is a {type(problem.payoff).__name__}, which has no entries(): linear "
            "programs require its matrix; use a MatrixPayoff, or CFR"
        )
    payoff = listed.entries()
    if payoff.value.ndim == 2:  # otherwise all lanes share the values
        payoff = dataclasses.replace(payoff, value=payoff.value[:, 0])
    if goal.maximiser == 1:
        payoff = payoff.swapped()
    maximiser, opponent = (
        join(problem.sides[p], problem.terms[p], lane, f"player {p} of {name}")
        for p in (goal.maximiser, 1 - goal.maximiser)
    )
    bonus = np.zeros(len(maximiser.position)) if goal.bonus is None else goal.bonus
    if bonus.shape != maximiser.position.shape:
        raise ValueError(f"bonus of {name} has shape {bonus.shape}: expected {maximiser.position.shape}")
    return LaneGames(maximiser, opponent, payoff, bonus)


class Axis(NamedTuple):
    """Columns (or rows) of a program: a subset of the full numbering, sorted by game.

    Attributes:
      size: size of the full numbering.
      order: the subset.
      starts: `[parts + 1]` position in `order` at which each part begins.
    """

    size: int
    order: IntArray
    starts: IntArray

    @staticmethod
    def of(games: Sequence[IntArray], num_games: int, joint: bool) -> Axis:
        """Axis with a part for each game, or a single part for a joint program.

        Args:
          games: the game of each column or row, -1 where there is none.
          num_games: number of games, G.
          joint: True if all games form one part.
        """
        game = np.concatenate(games)
        order = np.argsort(game, kind="stable")[np.count_nonzero(game < 0) :]
        starts = np.searchsorted(game[order], np.arange(num_games + 1))
        return Axis(len(game), order, np.array([0, len(order)]) if joint else starts)

    def part(self, part: int) -> slice:
        """Slice of a part in `order`."""
        return slice(*self.starts[part : part + 2].tolist())

    def scatter(self, values_by_part: dict[int, FloatArray]) -> FloatArray:
        """`[size]` the values of some parts, 0 elsewhere."""
        scattered = np.zeros(self.size)
        for part, values in values_by_part.items():
            scattered[self.order[self.part(part)]] = values
        return scattered


class Plans(NamedTuple):
    """Both players' realisation plans from solved linear programs.

    Attributes:
      maximiser: `[S]` primal solution.
      opponent: `[S]` dual solution: the plan × the weight of the guaranteed value.
      price: decrease of the objective per unit of `Goal.at_least`.
    """

    maximiser: FloatArray
    opponent: FloatArray
    price: float


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Program:
    """A linear program as matrices.

    The full numbering of columns has the maximiser's plan `[S]`, the games' values `[G]`, and the opponent's
    m `[I]` and w `[S]`; that of rows has the values of the opponent's sequences `[S]`, the flow at the
    maximiser's infosets `[I]`, its floors `[S]`, and the least guaranteed value `[0 or 1]`.

    Attributes:
      name: name of the program, for errors.
      goal: objective.
      games: the lane of the problem.
      stakes: stakes of the maximiser's and of the opponent's infosets, see `JoinedDecisions.stakes`.
      unit: `[G]` divisor of each game's payoffs, equal for all games if the goal is joint.
      weight: `[G]` factor of each game's objective.
      nonempty: `[G]` True for games with an infoset or a payoff.
      columns: columns of the model.
      rows: rows of the model.
      model: all parts; a part is a game, or all games if the goal is joint.
    """

    name: str
    goal: Goal
    games: LaneGames
    stakes: tuple[FloatArray, FloatArray]
    unit: FloatArray
    weight: FloatArray
    nonempty: BoolArray
    columns: Axis
    rows: Axis
    model: Model

    def parts(self) -> list[int]:
        """Indices of the programs: nonempty games, or 0 for all games jointly."""
        return [0] if self.goal.joint else np.flatnonzero(self.nonempty).tolist()

    def part_name(self, part: int) -> str:
        """Name of a part in errors."""
        name = f"linear program {self.name!r}"
        return name if self.goal.joint or len(self.nonempty) == 1 else f"{name}, game {part}"

    def part(self, part: int) -> Model:
        """Linear program of a part."""
        return self.model.take(self.columns.part(part), self.rows.part(part))

    def plans(self, solutions: dict[int, ProgramSolution], weight: FloatArray | None = None) -> Plans:
        """Plans of the solved parts, corrected for rounding errors.

        Args:
          solutions: solution of each part, by its index.
          weight: `[G]` factor of each game's objective; by default this program's factors.
        """
        maximiser, opponent = self.games.maximiser, self.games.opponent
        columns = self.columns.scatter({part: solution.x for part, solution in solutions.items()})
        duals = self.rows.scatter({part: -solution.dual for part, solution in solutions.items()})
        weight = (self.weight if weight is None else weight)[opponent.game]
        plan, opponent_plan = columns[: len(maximiser.game)], duals[: len(opponent.game)] / weight
        return Plans(
            np.where(plan > ROUNDING, plan, 0.0),
            np.where(opponent_plan > ROUNDING, opponent_plan, 0.0),
            0.0 if self.goal.at_least is None else -float(duals[-1]),
        )


def build_program(problem: Problem, lane: int, goal: Goal, name: str) -> Program:
    """Builds the matrices of a program.

    Problems that differ only in numbers have the same columns and rows (a floor of 0 counts as a floor).

    Args:
      problem: the games, in float64.
      lane: index of the lane.
      goal: objective.
      name: name of the program, for errors.

    Raises:
      ValueError: as `lane_games`, or if `guarantee_weight` is not in [0, 1].
    """
    if not 0 <= goal.guarantee_weight <= 1:
        raise ValueError(f"guarantee_weight={goal.guarantee_weight}: expected a number in [0, 1]")
    games = lane_games(problem, lane, goal, name)
    maximiser, opponent = games.maximiser, games.opponent
    payoff = games.payoff
    value = payoff.value * maximiser.scale[payoff.row] * opponent.scale[payoff.column]
    row, column, value = payoff.row[value != 0], payoff.column[value != 0], value[value != 0]
    # Largest payoff of each game.
    unit = np.zeros(maximiser.num_games)
    np.maximum.at(unit, maximiser.game[maximiser.position[row]], np.abs(value))
    for decisions in (maximiser, opponent):
        np.maximum.at(unit, decisions.game, np.abs(decisions.constants()))
    nonempty = unit > 0
    for decisions in (maximiser, opponent):
        nonempty[decisions.infoset_game[decisions.real]] = True
    unit = np.full(len(unit), unit.max()) if goal.joint else unit
    unit = np.where(unit > 0, unit, 1.0)
    weight = np.ones(len(unit)) if goal.joint else _weights(opponent)
    columns, rows = _axes(games, goal)
    model = _model(games, goal, (maximiser.position[row], opponent.position[column], value), unit, weight)
    return Program(
        name=name,
        goal=goal,
        games=games,
        stakes=(
            maximiser.stakes(maximiser.root[row], value, unit),
            opponent.stakes(opponent.root[column], value, unit),
        ),
        unit=unit,
        weight=weight,
        nonempty=nonempty,
        columns=columns,
        rows=rows,
        model=model.take(columns.order, rows.order),
    )


def _axes(games: LaneGames, goal: Goal) -> tuple[Axis, Axis]:
    """Columns and rows, see `Program`."""
    maximiser, opponent = games.maximiser, games.opponent
    num_games = maximiser.num_games
    plan, answers = (np.where(decisions.legal, decisions.game, -1) for decisions in (maximiser, opponent))
    columns = [
        plan,
        np.arange(num_games),
        opponent.infoset_game,
        np.where(opponent.floored, answers, -1),
    ]
    rows = [answers, maximiser.infoset_game, np.where(maximiser.floored, plan, -1)]
    if goal.at_least is not None:
        rows.append(np.array([num_games]))
    return Axis.of(columns, num_games, goal.joint), Axis.of(rows, num_games, goal.joint)


def _weights(opponent: JoinedDecisions) -> FloatArray:
    """`[G]` inverse of the smallest floor of a game's entry, at most `MAX_WEIGHT`."""
    floored = np.flatnonzero((opponent.floor > 0) & opponent.legal)
    floored = floored[floored < opponent.num_entry]
    least = np.ones(opponent.num_games)
    np.minimum.at(least, opponent.game[floored], opponent.floor[floored])
    return np.minimum(1 / least, MAX_WEIGHT)


def _model(
    games: LaneGames,
    goal: Goal,
    payoff: tuple[IntArray, IntArray, FloatArray],
    unit: FloatArray,
    weight: FloatArray,
) -> Model:
    """Builds the matrices of the full numbering.

    Args:
      games: the games.
      goal: objective.
      payoff: the maximiser's and the opponent's sequences, and the payoff with both players' scales.
      unit: `[G]` divisor of payoffs.
      weight: `[G]` factor of the objective.
    """
    maximiser, opponent = games.maximiser, games.opponent
    num_games, num_plan, num_answers = len(unit), len(maximiser.game), len(opponent.game)
    num_worths, num_flows = len(opponent.real), len(maximiser.real)
    own, other, value = payoff
    earned = csr_array((-value / unit[maximiser.game[own]], (other, own)), (num_answers, num_plan))
    blocks = [
        [earned, eye_array(num_answers, num_games), opponent.flow().T, opponent.above_floor().T],
        [maximiser.flow(), None, None, None],
        [maximiser.above_floor(), None, None, None],
    ]
    # Coefficients of the guaranteed value and of the objective.
    plan_unit, others = unit[maximiser.game], np.zeros(num_worths + num_answers)
    guarantee = np.concatenate([maximiser.constants() / plan_unit, np.ones(num_games), others])
    bonus = maximiser.sum_body(maximiser.scale * games.bonus) / plan_unit
    objective = goal.guarantee_weight * guarantee + np.pad(bonus, (0, len(guarantee) - num_plan))
    column_weight = np.concatenate([weight[maximiser.game], weight, others])
    lower = np.repeat([0.0, -np.inf, 0.0], [num_plan, num_games + num_worths, num_answers])
    upper = np.full(len(lower), np.inf)
    lower[:num_games] = upper[:num_games] = 1.0  # a plan starts at 1
    # Where floors leave the opponent no choice, m has weight 0: it is fixed at 0, and w is an action's value.
    bound = opponent.sum_actions(opponent.floor[opponent.num_games :]) > 1 - ROUNDING
    worths, answers = num_plan + num_games, num_plan + num_games + num_worths + opponent.num_games
    lower[worths:][:num_worths][bound] = upper[worths:][:num_worths][bound] = 0.0
    lower[answers:][bound[opponent.infoset]] = -np.inf
    worth = -opponent.constants() / unit[opponent.game]
    row_lower = [np.where(opponent.floored, worth, -np.inf), np.zeros(num_flows + num_plan)]
    row_upper = [worth, np.zeros(num_flows), np.full(num_plan, np.inf)]
    matrix = block_array(blocks, format="csr")
    if goal.at_least is not None:
        matrix = vstack([matrix, csr_array(guarantee[None])])
        row_lower.append(np.array([goal.at_least / unit[0]]))
        row_upper.append(np.array([np.inf]))
    return Model(
        cost=-objective * column_weight,
        lower=lower,
        upper=upper,
        row_lower=np.concatenate(row_lower),
        row_upper=np.concatenate(row_upper),
        matrix=csc_array(matrix),
    )
