"""Interface to HiGHS; the only module that imports highspy.

Every failure raises a `ProgramError` with HiGHS's status.
"""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

import numpy as np
from scipy.sparse import csc_array

from jaxgadget.util.arrays import FloatArray, IntArray

TOLERANCE = 1e-9
"""Largest violation of a constraint or a reduced cost."""

SMALLEST = 1e-12
"""Smallest coefficient that HiGHS does not drop; its default of 1e-9 would drop floors."""

NO_TIME = "Time limit reached"
"""HiGHS's status if the time limit is reached."""


class ProgramError(ValueError):
    """A linear program was not solved; the message names the program, the game and HiGHS's status."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Model:
    """Linear program: minimise `cost · x` with bounds on columns and rows.

    Attributes:
      cost: `[n]` cost of each column.
      lower: `[n]` lower bounds of columns.
      upper: `[n]` upper bounds of columns.
      row_lower: `[m]` lower bounds of rows.
      row_upper: `[m]` upper bounds of rows.
      matrix: `[m, n]` coefficients.
    """

    cost: FloatArray
    lower: FloatArray
    upper: FloatArray
    row_lower: FloatArray
    row_upper: FloatArray
    matrix: csc_array

    def take(self, columns: IntArray | slice, rows: IntArray | slice) -> Model:
        """The model restricted to some columns and rows."""
        return Model(
            cost=self.cost[columns],
            lower=self.lower[columns],
            upper=self.upper[columns],
            row_lower=self.row_lower[rows],
            row_upper=self.row_upper[rows],
            matrix=self.matrix[:, columns][rows],
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Basis:
    """Status of each column and row, basic or at a bound, in HiGHS's numbering.

    Attributes:
      columns: `[n]` status of each column.
      rows: `[m]` status of each row.
    """

    columns: IntArray
    rows: IntArray


@dataclasses.dataclass(frozen=True, eq=False)
class ProgramSolution:
    """An optimal solution.

    Attributes:
      x: `[n]` values of the columns.
      dual: `[m]` increase of the cost per unit of a row's bound.
      cost: the optimum.
      basis: the optimal basis, from which another solve can start.
      iterations: number of iterations of the simplex method.
    """

    x: FloatArray
    dual: FloatArray
    cost: float
    basis: Basis
    iterations: int


def run(
    model: Model,
    name: str,
    *,
    time_limit: float | None = None,
    basis: Basis | None = None,
) -> ProgramSolution:
    """Solves a model by the simplex method.

    Args:
      model: the program.
      name: name of the program and its game, for errors.
      time_limit: time limit in seconds; by default none.
      basis: basis to start from, without presolve; by default none.

    Raises:
      ProgramError: if there is no optimal solution, or the time limit is reached.
    """
    solver = _load(model, name, time_limit)
    if basis is not None:
        _set_basis(solver, basis, name)
    solver.run()
    status = solver.modelStatusToString(solver.getModelStatus())
    if status in ("Unknown", "Solve error"):  # again, without presolve
        solver.clearSolver()
        solver.setOptionValue("presolve", "off")
        solver.run()
        status = solver.modelStatusToString(solver.getModelStatus())
    if status != "Optimal":
        raise _unsolved(name, status)
    return _solution(solver)


def stays_optimal(
    model: Model, name: str, basis: Basis, *, time_limit: float | None = None
) -> ProgramSolution | None:
    """The basic solution of a model for a basis if the basis is optimal, otherwise None.

    The basis is optimal if the simplex method, started there, ends after 0 iterations: the basis is feasible
    and no reduced cost has the wrong sign, within `TOLERANCE`.
    """
    solver = _load(model, name, time_limit)
    _set_basis(solver, basis, name)
    solver.setOptionValue("simplex_iteration_limit", 0)
    solver.setOptionValue("dual_simplex_cost_perturbation_multiplier", 0.0)
    solver.run()
    status = solver.modelStatusToString(solver.getModelStatus())
    if status == "Optimal":
        return _solution(solver)
    if status in ("Iteration limit reached", "Infeasible", "Unbounded", "Unknown"):
        return None
    raise _unsolved(name, status)


def _load(model: Model, name: str, time_limit: float | None) -> Any:
    """Creates a HiGHS instance with the model and the options of this module."""
    _check_finite(model, name)
    highspy = importlib.import_module("highspy")
    solver = _make_silent(highspy)
    options: dict[str, object] = {
        "primal_feasibility_tolerance": TOLERANCE,
        "dual_feasibility_tolerance": TOLERANCE,
        "small_matrix_value": SMALLEST,
        "solver": "simplex",
    }
    if time_limit is not None:
        if not time_limit > 0:
            raise _unsolved(name, NO_TIME)
        options["time_limit"] = float(time_limit)
    for option, value in options.items():
        solver.setOptionValue(option, value)
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = len(model.cost), len(model.row_lower)
    program.col_cost_, program.col_lower_, program.col_upper_ = model.cost, model.lower, model.upper
    program.row_lower_, program.row_upper_ = model.row_lower, model.row_upper
    program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    program.a_matrix_.start_ = model.matrix.indptr
    program.a_matrix_.index_ = model.matrix.indices
    program.a_matrix_.value_ = model.matrix.data
    if solver.passModel(program) == highspy.HighsStatus.kError:
        raise ProgramError(f"{name} is not a valid linear program: HiGHS reports 'Model error'")
    return solver


def _make_silent(highspy: Any) -> Any:
    """Creates a silent HiGHS instance; version 1.16 prints its version when callbacks are enabled."""

    class Silent(highspy.Highs):
        def enableCallbacks(self) -> None:
            self.silent()
            super().enableCallbacks()

    return Silent()


def _check_finite(model: Model, name: str) -> None:
    """Raises ProgramError if a number is not finite: HiGHS silently drops NaN from a matrix."""
    bounds = (model.lower, model.upper, model.row_lower, model.row_upper)
    if not (np.isfinite(model.matrix.data).all() and np.isfinite(model.cost).all()) or any(
        np.isnan(bound).any() for bound in bounds
    ):
        raise ProgramError(f"{name} has coefficients that are not finite: expected finite payoffs and scales")


def _set_basis(solver: Any, basis: Basis, name: str) -> None:
    highspy = importlib.import_module("highspy")
    theirs = highspy.HighsBasis()
    statuses = [highspy.HighsBasisStatus(k) for k in range(5)]
    theirs.col_status = [statuses[k] for k in basis.columns.tolist()]
    theirs.row_status = [statuses[k] for k in basis.rows.tolist()]
    theirs.valid = True
    solver.setOptionValue("presolve", "off")
    if solver.setBasis(theirs) == highspy.HighsStatus.kError:
        raise ProgramError(f"{name} rejects the basis, which is of a program of another shape")


def _solution(solver: Any) -> ProgramSolution:
    solution, info, basis = solver.getSolution(), solver.getInfo(), solver.getBasis()
    columns, rows = (
        np.fromiter((int(status) for status in part), np.int64)
        for part in (basis.col_status, basis.row_status)
    )
    return ProgramSolution(
        x=np.asarray(solution.col_value, np.float64),
        dual=np.asarray(solution.row_dual, np.float64),
        cost=float(info.objective_function_value),
        basis=Basis(columns, rows),
        iterations=int(info.simplex_iteration_count),
    )


def _unsolved(name: str, status: str) -> ProgramError:
    """The error for a model status of HiGHS, and what to do about it."""
    if status == NO_TIME:
        return ProgramError(f"{name} was not solved in time: HiGHS reports {status!r}; increase time_limit")
    if status in ("Infeasible", "Unbounded", "Primal infeasible or unbounded"):
        said, advice = "has no solution", "check floors, legal actions and the least guaranteed value"
    else:
        said, advice = "was not solved", "its numbers may differ by too many orders of magnitude"
    return ProgramError(f"{name} {said}: HiGHS reports {status!r}; {advice}")
