"""Counterfactual regret minimisation on an explicit tree, by the pseudo-code of design §2.

Updates alternate; the average takes the strategy as used, before its update, weighted by w(t)
and by the player's own reach (`Past` moves not counted). At infosets with a floor `ε·p` the
strategy is `π' = (1-ε)π + εp` and regrets are `r' = (1-ε)r + ε(p·r)1` (Farina, Kroer and
Sandholm 2017). Rules:

- `cfr`: Zinkevich et al. 2007, w(t) = 1.
- `cfr+`: Tammelin 2014, R = max(R + r, 0), w(t) = t.
- `linear`: Brown and Sandholm 2019, iterate t counts t in regrets and average; written as DCFR
  with alpha = beta = gamma = 1, so R is the sum of t·r divided by T + 1.
- `dcfr`: the same paper, alpha = 1.5, beta = 0, gamma = 2: after the regrets of iteration t are added,
  positive R are multiplied by t^alpha/(t^alpha+1), negative ones by t^beta/(t^beta+1); w(t) = t^gamma.
- `pcfr+`: Farina, Kroer and Sandholm 2021, R = max(R + r, 0), the next strategy is proportional
  to [R + r]^+ with the last r as the prediction; w(t) = t².
- `sapcfr+`: Meng et al. 2025, the same with r/3 as the prediction.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from tests.reference import efg
from tests.reference.efg import Array, Floors, Label, Node, Strategy

RULES = ("cfr", "cfr+", "linear", "dcfr", "pcfr+", "sapcfr+")
PREDICTED = {"pcfr+": 1.0, "sapcfr+": 1 / 3}
"""The share of the last regrets that serves as the prediction."""
DCFR = (1.5, 0.0, 2.0)
"""alpha, beta, gamma."""


@dataclasses.dataclass(frozen=True, eq=False)
class Iterate:
    """Both players after an iteration; every dict is infoset label → array over actions.

    Attributes:
      iteration: t, from 1.
      current: the strategies that the next iteration starts from.
      average: the average strategies so far.
      regret_sum: R as the rule stores it.
      strategy_sum: numerators of the average.
      basis: R, plus the prediction of a predictive rule; strategies are proportional to it.
    """

    iteration: int
    current: dict[Label, Array]
    average: dict[Label, Array]
    regret_sum: dict[Label, Array]
    strategy_sum: dict[Label, Array]
    basis: dict[Label, Array]


def average_weight(rule: str, t: int) -> float:
    """Weight w(t) of iteration t in the average."""
    power = {"cfr": 0, "cfr+": 1, "linear": 1, "dcfr": DCFR[2], "pcfr+": 2, "sapcfr+": 2}[rule]
    return float(t**power)


def updated(rule: str, regret_sum: Array, regret: Array, t: int) -> Array:
    """R after adding the (perturbed) regrets of iteration t."""
    total = regret_sum + regret
    if rule in ("cfr+", "pcfr+", "sapcfr+"):
        return np.maximum(total, 0.0)
    if rule in ("linear", "dcfr"):
        alpha, beta = (1.0, 1.0) if rule == "linear" else DCFR[:2]
        positive, negative = t**alpha / (t**alpha + 1), t**beta / (t**beta + 1)
        return total * np.where(total > 0, positive, negative)
    if rule == "cfr":
        return total
    raise ValueError(f"rule={rule!r}: expected one of {RULES}")


def matched(weights: Array, threshold: float) -> Array:
    """Regret matching; uniform where the positive parts sum to at most `threshold`."""
    positive = np.maximum(weights, 0.0)
    total = positive.sum()
    return positive / total if total > threshold else np.full(len(weights), 1.0 / len(weights))


def perturbed(regret: Array, floor: Array | None) -> Array:
    """`r' = Bᵀr = (1-ε)·r + ε·(p·r)·1`, with `floor = ε·p`."""
    return regret if floor is None else (1.0 - floor.sum()) * regret + floor @ regret


def run(
    root: Node,
    rule: str,
    iterations: int,
    *,
    order: tuple[int, int] = (0, 1),
    floors: Floors | None = None,
    threshold: float = 0.0,
    unreached: Strategy | None = None,
) -> Iterator[Iterate]:
    """Yields an `Iterate` after every iteration.

    Args:
      root: the tree.
      rule: a name in `RULES`.
      iterations: number of iterations.
      order: the players in the order of their updates; `(opponent, resolver)` in a gadget game.
      floors: least probabilities ε·p of some infosets' actions.
      threshold: sums of positive regrets up to this count as 0, which gives uniform play.
      unreached: rows of the average where it has no mass (the blueprint); uniform if None.
    """
    floors = floors or {}
    players = {label: node.player for label, node in efg.infosets(root).items()}
    regret_sum = {label: np.zeros(len(node.actions)) for label, node in efg.infosets(root).items()}
    strategy_sum = {label: np.zeros_like(row) for label, row in regret_sum.items()}
    current = {
        label: efg.with_floor(matched(row, threshold), floors.get(label)) for label, row in regret_sum.items()
    }
    basis = dict(regret_sum)
    for t in range(1, iterations + 1):
        for player in order:
            q = efg.counterfactual_values(root, player, current)
            reach = efg.own_reaches(root, player, current)
            for label in [label for label, p in players.items() if p == player]:
                used = current[label]
                strategy_sum[label] = strategy_sum[label] + average_weight(rule, t) * reach[label] * used
                regret = perturbed(q[label] - used @ q[label], floors.get(label))
                regret_sum[label] = updated(rule, regret_sum[label], regret, t)
                prediction = PREDICTED.get(rule, 0.0) * regret
                basis[label] = regret_sum[label] + prediction
                row = matched(basis[label], threshold)
                current[label] = efg.with_floor(row, floors.get(label))
        average = {label: _average(label, row, unreached) for label, row in strategy_sum.items()}
        yield Iterate(t, dict(current), average, dict(regret_sum), dict(strategy_sum), dict(basis))


def final(
    root: Node,
    rule: str,
    iterations: int,
    *,
    order: tuple[int, int] = (0, 1),
    floors: Floors | None = None,
    threshold: float = 0.0,
    unreached: Strategy | None = None,
) -> Iterate:
    """The last iterate of `run`, which takes the same arguments."""
    *_, last = run(
        root, rule, iterations, order=order, floors=floors, threshold=threshold, unreached=unreached
    )
    return last


def _average(label: Label, row: Array, unreached: Strategy | None) -> Array:
    if row.sum() > 0:
        return row / row.sum()
    if unreached is not None and label in unreached:
        return np.asarray(unreached[label])
    return np.full(len(row), 1.0 / len(row))
