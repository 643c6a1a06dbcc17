"""Results of a batch, one row per lane: failures, a one-sentence summary, a table and a file."""

from __future__ import annotations

import abc
import os
import pathlib
import types
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from jaxgadget.core.solver import LP
from jaxgadget.util.files import atomic_writer

NO_FAILURES: Mapping[int, str] = types.MappingProxyType({})


class LaneResult(abc.ABC):
    """Results with one row per lane.

    A subclass defines the columns that identify its lanes (`lane_columns`) and its numbers (`number_columns`,
    `[lanes]` each). Numbers of a lane that failed are NaN.
    """

    failures: Mapping[int, str]
    """Lanes without a result, and the reason; `NO_FAILURES` where no lane can fail."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, {len(self.table)} row(s): {self.message}>"

    @property
    @abc.abstractmethod
    def lane_columns(self) -> Mapping[str, Any]:
        """Columns that identify lanes, `[lanes]` each or one value for all."""

    @property
    @abc.abstractmethod
    def number_columns(self) -> Mapping[str, Any]:
        """Columns of results, `[lanes]` each or one value for all."""

    @property
    @abc.abstractmethod
    def message(self) -> str:
        """One-sentence summary of the solve's convergence, with a remedy if it is insufficient."""

    @property
    def table(self) -> pd.DataFrame:
        """One row per lane; numbers of failed lanes are NaN, and the column `failure` gives the reason."""
        columns = {**self.lane_columns, **self.number_columns}
        num_lanes = max(len(values) for values in columns.values() if _has_lanes(values))
        columns["failure"] = [self.failures.get(lane) for lane in range(num_lanes)]
        return pd.DataFrame({name: _as_column(values) for name, values in columns.items()})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes `table` atomically as CSV or Parquet, depending on the file's suffix.

        Raises:
          ValueError: if the suffix is neither `.csv` nor `.parquet`.
        """
        suffix = pathlib.Path(path).suffix
        if suffix not in (".csv", ".parquet"):
            raise ValueError(f"path={os.fspath(path)!r}: expected a file that ends in .csv or .parquet")
        with atomic_writer(path) as file:
            if suffix == ".csv":
                file.write(self.table.to_csv(index=False, lineterminator="\n").encode())
            else:
                self.table.to_parquet(file, index=False)


def _has_lanes(values: Any) -> bool:
    return isinstance(values, Sequence | np.ndarray | pd.Series) and not isinstance(values, str)


def _as_column(values: Any) -> Any:
    """The values as a column; with None among them, a column of objects."""
    if isinstance(values, Sequence) and not isinstance(values, str):
        return pd.Series(list(values), dtype=object if None in values else None)
    return values


def convergence(
    gap: npt.NDArray[np.floating[Any]],
    iterations: int,
    algorithm: str,
    *,
    small: float,
    target_gap: float | None = None,
    name: str = "largest gap",
) -> str:
    """One-sentence summary of a solve's convergence, with a remedy if it is insufficient.

    Args:
      gap: gaps of all games, in units of the payoff; NaN where a solve failed.
      iterations: largest number of completed iterations.
      algorithm: the rule's name, or `lp`.
      small: largest gap that needs no remedy, in units of the payoff.
      target_gap: the requested gap, if any.
      name: name of the gap.
    """
    largest = float(np.nanmax(gap, initial=0.0))
    advice = "" if largest <= small or algorithm == LP else "; increase iterations to lower it"
    if target_gap is not None and largest > target_gap:
        advice = f"; the target of {target_gap:g} was not reached, increase iterations or use float64"
    steps = "simplex iterations" if algorithm == LP else f"iterations of {algorithm}"
    return f"{name} {largest:.3g} after {iterations} {steps}{advice}"
