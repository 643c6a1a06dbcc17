"""Guard against bad estimates: gadgets with estimates are also solved with V̄, and the better result is kept.

Training errors do not predict for which blueprints estimates are harmful. The results do: every refined
strategy is evaluated in the whole game anyway.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from jaxgadget.gadgets.alternative import BestResponseValues, ContinuationValues
from jaxgadget.gadgets.gadget import Gadget, Perturbed
from jaxgadget.util.arrays import FloatArray, IntArray


class Guarded(NamedTuple):
    """Selection between results with estimates and with V̄.

    Attributes:
      lanes: `[lanes]` index of the result selected for each lane of the requested gadgets.
      share: `[lanes]` 1 where the result with estimates is selected, 0 where that with V̄ is; NaN without a
        guard and where both failed.
      failures: lanes without any result, with the reason.
      left_out: lanes in which one of a guard's two results failed, with the reason.
    """

    lanes: IntArray
    share: FloatArray
    failures: dict[int, str]
    left_out: dict[int, str]


def without_estimates(gadgets: Sequence[Gadget]) -> dict[int, Gadget]:
    """The gadgets that have a guard, by index, each with V̄ in place of its estimates.

    Priors are unchanged, even those derived from a continuation.
    """
    safe: dict[int, Gadget] = {}
    for gadget_idx, gadget in enumerate(gadgets):
        alternative = gadget.alternative
        if isinstance(alternative, ContinuationValues) and alternative.is_estimate and alternative.guard:
            assert isinstance(gadget, Perturbed)
            exact = {} if getattr(gadget, "spread", None) is None else {"spread": None}
            safe[gadget_idx] = dataclasses.replace(gadget, alternative=BestResponseValues(), **exact)
    return safe


def keep_better(objective: FloatArray, guarded: Sequence[int], failures: Mapping[int, str]) -> Guarded:
    """Selects the better of a guard's two results in each lane; ties select V̄.

    Args:
      objective: `[gadgets, lanes of each]` objective to maximise: the rows of the requested gadgets, followed
        by those of their versions with V̄.
      guarded: indices of the gadgets that have such a version, in order.
      failures: results that failed, with the reason.
    """
    lanes, count, numbers = np.arange(objective.size), len(objective) - len(guarded), list(guarded)
    lanes, failed = lanes.reshape(objective.shape), np.isin(lanes, list(failures)).reshape(objective.shape)
    takes_estimates = (objective[numbers] > objective[count:]) | failed[count:]
    better, worse = lanes[:count].copy(), lanes[:count].copy()
    better[numbers] = np.where(takes_estimates, lanes[numbers], lanes[count:])
    worse[numbers] = np.where(takes_estimates, lanes[count:], lanes[numbers])
    share = np.full(better.shape, np.nan)
    share[numbers] = np.where(failed[numbers] & failed[count:], np.nan, takes_estimates)
    why, why_other = (
        {lane: failures[old] for lane, old in enumerate(part.ravel().tolist()) if old in failures}
        for part in (better, worse)
    )
    left_out = {lane: reason for lane, reason in why_other.items() if lane not in why}
    return Guarded(better.ravel(), share.ravel(), why, left_out)
