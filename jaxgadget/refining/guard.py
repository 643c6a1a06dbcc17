"""A guard against bad estimates: what promises them is solved with V̄, too, and the better result is kept.

No error that a training measures tells after which blueprints estimates do harm. What came of them does: all
that is refined is evaluated in the whole game anyway.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from jaxgadget.gadgets.alternative import BestResponseValues
from jaxgadget.gadgets.gadget import Gadget, Perturbed
from jaxgadget.gadgets.two_level import Resolving
from jaxgadget.refining.continuation import alternative_of
from jaxgadget.util.arrays import FloatArray, IntArray


class Guarded(NamedTuple):
    """What is kept of results with estimates and with V̄.

    Attributes:
      lanes: `[lanes]` which of all results stand in the lanes of the gadgets that were asked for.
      share: `[lanes]` 1 where estimates are kept, 0 where V̄, NaN without a guard and where both failed.
      failures: lanes in which nothing is left, and why.
      left_out: lanes in which the other one of a guard's two results failed, and why.
    """

    lanes: IntArray
    share: FloatArray
    failures: dict[int, str]
    left_out: dict[int, str]


def without_estimates(gadgets: Sequence[Gadget]) -> dict[int, Gadget]:
    """The gadgets that have a guard, by their numbers, each with V̄ in place of its estimates.

    Their priors stay, even if these are of a continuation.
    """
    safe: dict[int, Gadget] = {}
    for number, gadget in enumerate(gadgets):
        alternative = alternative_of(gadget)
        if alternative is not None and alternative.is_estimate and alternative.guard:
            assert isinstance(gadget, Perturbed)
            exact = {"spread": None} if isinstance(gadget, Resolving) else {}
            safe[number] = dataclasses.replace(gadget, alternative=BestResponseValues(), **exact)
    return safe


def keep_better(objective: FloatArray, guarded: Sequence[int], failures: Mapping[int, str]) -> Guarded:
    """Keeps the better one of a guard's two results, lane by lane: V̄ where they are equal.

    Args:
      objective: `[gadgets, lanes of each]` the more the better: of the gadgets that were asked for, and
        behind them of those with V̄ for some of them.
      guarded: the numbers of these, in order.
      failures: which of all results came to nothing, and why.
    """
    lanes, count, numbers = np.arange(objective.size), len(objective) - len(guarded), list(guarded)
    lanes, failed = lanes.reshape(objective.shape), np.isin(lanes, list(failures)).reshape(objective.shape)
    takes_estimates = (objective[numbers] > objective[count:]) | failed[count:]
    kept, others = lanes[:count].copy(), lanes[:count].copy()
    kept[numbers] = np.where(takes_estimates, lanes[numbers], lanes[count:])
    others[numbers] = np.where(takes_estimates, lanes[count:], lanes[numbers])
    share = np.full(kept.shape, np.nan)
    share[numbers] = np.where(failed[numbers] & failed[count:], np.nan, takes_estimates)
    why, why_other = (
        {lane: failures[old] for lane, old in enumerate(part.ravel().tolist()) if old in failures}
        for part in (kept, others)
    )
    left_out = {lane: reason for lane, reason in why_other.items() if lane not in why}
    return Guarded(kept.ravel(), share.ravel(), why, left_out)
