"""Paired tests over blueprints: comparisons of techniques."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from jaxgadget.report.styles import Setting, check_table, column, find_settings
from jaxgadget.util.arrays import FloatArray

if TYPE_CHECKING:
    import pandas as pd

PAIR_KEYS = ("game", "cut", "player", "blueprint")
"""Columns in which the rows of a pair agree."""


def paired_t_tests(
    table: pd.DataFrame,
    *,
    value: str = "refined_exploitability",
    keys: Sequence[str] = PAIR_KEYS,
) -> pd.DataFrame:
    """One-sided paired t-tests for all pairs of settings (gadget, prior and ε).

    An entry is `1 − p` of the test whose alternative hypothesis is that the row's mean is less than the
    column's: near 1 the row is better, near 0 the column, and ½ if both are equal everywhere. The two entries
    of a pair sum to 1. Figures 14 to 17 of Kubíček, Lisý and Sandholm (2026) show such entries, though the
    paper does not state whether its t-tests are paired and one-sided.

    Args:
      table: columns `gadget`, `prior`, `epsilon`, `value`, and at least one of `keys`; for example several
        `Refinement.table`, concatenated.
      value: the compared column; smaller is better.
      keys: columns that define pairs: two rows are a pair if they agree in all of these columns that the
        table has.

    Returns:
      Rows and columns are the settings by name, in the order of their first rows; the diagonal is NaN.

    Raises:
      ValueError: if a column is missing, a number is not finite, or a setting has fewer than two rows,
        several rows for one pair, or no row for a pair of another setting.
    """
    import pandas as pd
    from scipy.stats import ttest_rel

    present = [name for name in keys if name in table.columns]
    numbers = ("epsilon", value)
    expected = f"gadget, prior, epsilon, {value} and at least one of {', '.join(keys)}"
    table = check_table(table, ("gadget", "prior", *numbers), numbers, expected)
    if not present:
        raise ValueError(
            f"table has none of the columns {', '.join(keys)}; expected a column by which rows are paired"
        )
    settings = find_settings(table)
    values = _paired(table, settings, value, present)
    first, second = np.broadcast_arrays(values[:, None], values[None])
    with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # settings that are equal, or differ by a constant
        probability = 1 - np.asarray(ttest_rel(first, second, axis=2, alternative="less").pvalue)
    probability[np.isnan(probability)] = 0.5
    np.fill_diagonal(probability, np.nan)
    names = [setting.name for setting in settings]
    return pd.DataFrame(probability, index=names, columns=names)


def _paired(table: pd.DataFrame, settings: list[Setting], value: str, keys: list[str]) -> FloatArray:
    """`[settings, pairs]` values of each setting, pairs in the order of the first setting's rows."""
    columns: list[dict[tuple[object, ...], float]] = []
    for setting in settings:
        rows = table[setting.rows]
        pairs = list(zip(*(rows[name].tolist() for name in keys), strict=True))
        by_pair = dict(zip(pairs, column(rows, value).tolist(), strict=True))
        if len(by_pair) < len(pairs):
            twice = next(pair for k, pair in enumerate(pairs) if pair in pairs[:k])
            raise ValueError(
                f"{setting.name} has several rows for {_describe_pair(keys, twice)}; expected one: "
                "add to keys a column that distinguishes them"
            )
        columns.append(by_pair)
    all_pairs = list(dict.fromkeys(pair for by_pair in columns for pair in by_pair))
    for setting, by_pair in zip(settings, columns, strict=True):
        missing = [pair for pair in all_pairs if pair not in by_pair]
        if missing:
            raise ValueError(
                f"{setting.name} has no row for {_describe_pair(keys, missing[0])}, which others have"
            )
    if len(all_pairs) < 2:
        raise ValueError(
            f"table has one pair, {_describe_pair(keys, all_pairs[0])}; a paired t-test needs at least two"
        )
    return np.array([[by_pair[pair] for pair in all_pairs] for by_pair in columns])


def _describe_pair(keys: list[str], pair: tuple[object, ...]) -> str:
    return ", ".join(f"{name} {value!r}" for name, value in zip(keys, pair, strict=True))
