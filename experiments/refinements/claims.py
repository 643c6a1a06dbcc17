"""Tests of the claims of §8 of the paper on Figure 2."""

from __future__ import annotations

import numpy as np
import pandas as pd

from experiments.common import titled
from experiments.refinements.common import floor_of
from experiments.study import Settings

NAME = "claims"
KEYS = ["game", "cut", "player", "blueprint"]
BLUEPRINT = "blueprint itself"
COMPARISONS = (
    ("resolving/uniform", "resolving/none"),
    ("resolving/blueprint", "resolving/none"),
    ("max-margin/uniform", "max-margin/none"),
    ("max-margin/blueprint", "max-margin/none"),
    ("max-margin/none", "resolving/none"),
    ("max-margin/uniform", "resolving/uniform"),
    ("max-margin/blueprint", "resolving/blueprint"),
    ("unsafe/none", "resolving/blueprint"),
    ("unsafe/none", BLUEPRINT),
    ("resolving/none", BLUEPRINT),
    ("resolving/blueprint", BLUEPRINT),
)
"""Pairs of methods, a gadget and a prior each: the first is compared with the second."""

SAME = 1e-3
"""Smaller differences, as shares of the blueprint's exploitability, count as none."""


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, cut, player and pair of methods, over blueprints.

    `better` and `worse`: the number of blueprints after which the first is less or more exploitable; `ratio`:
    geometric mean of the first's exploitability over the second's, both at least `floor_of`; `largest_loss`:
    the largest excess, as a share of the blueprint's exploitability (negative if there is none).
    """
    frame = settings.data_of("figure2", NAME)
    least = floor_of(frame).groupby(frame["game"]).max()
    method = frame["gadget"] + "/" + frame["prior"]
    wide = frame.assign(method=method).set_index([*KEYS, "method"])["refined_exploitability"].unstack()
    before = frame.drop_duplicates(KEYS).set_index(KEYS)["blueprint_exploitability"]
    wide[BLUEPRINT] = before.reindex(wide.index)
    rows: list[dict[str, object]] = []
    for (game, cut, player), refined in wide.groupby(level=KEYS[:3], sort=False):
        for first, second in COMPARISONS:
            change = (refined[first] - refined[second]) / refined[BLUEPRINT]
            ratio = np.log(refined[first].clip(lower=least[game]) / refined[second].clip(lower=least[game]))
            row: dict[str, object] = {"game": game, "cut": cut, "player": player}
            row |= {"first": first, "second": second, "cases": len(refined)}
            row |= {"better": int((change < -SAME).sum()), "worse": int((change > SAME).sum())}
            rows.append(row | {"ratio": float(np.exp(ratio.mean())), "largest_loss": float(change.max())})
    return pd.DataFrame(rows)


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Better : worse (ratio of exploitabilities) of the first method against the second."""
    where = zip(frame["game"], frame["cut"], frame["player"], strict=True)
    counts = zip(frame["better"], frame["worse"], frame["ratio"], strict=True)
    table = frame.assign(
        where=[f"{titled(game, cut)}, {player}" for game, cut, player in where],
        text=[f"{better} : {worse} ({ratio:.2f})" for better, worse, ratio in counts],
    )
    return table.set_index(["first", "second", "where"])["text"].unstack(sort=False).reset_index()
