"""A share of the attack with random games, `python -m tests.fuzz`, and that it would notice."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest

from jaxgadget.gadgets.registry import GADGETS
from tests import fuzz
from tests.reference.gadgets import BOUNDED

STRUCTURES, PROGRAMS, ITERATIONS = 40, 12, 200


@functools.cache
def bundle() -> fuzz.Bundle:
    shapes, _ = fuzz.accepted_structures(1000, STRUCTURES, fuzz.Findings())
    return fuzz.make_bundle(shapes, 1000)


@functools.cache
def outcomes() -> tuple[fuzz.Outcome, ...]:
    """Player 0 by regret matching, by linear programs, then player 1."""
    return tuple(fuzz.outcomes(bundle(), ITERATIONS))


def examined(*outcomes: fuzz.Outcome, programs: int = PROGRAMS) -> fuzz.Findings:
    findings = fuzz.Findings()
    for outcome in outcomes:
        fuzz.examine(outcome, findings, programs)
    return findings


def test_random_structures_hold() -> None:
    findings = examined(*outcomes())
    assert not findings.violations, findings.summary()
    blueprints = bundle().blueprints.num_lanes
    assert len(findings.lanes) == STRUCTURES * 2 * blueprints * len(fuzz.ALL_GADGETS)
    assert len(findings.programs) > STRUCTURES * 2 * PROGRAMS
    assert {lane.split(" | ")[1].split(",")[0] for _, _, lane in findings.programs} == set(GADGETS)
    for kind in BOUNDED:
        if kind != "optimal-continuation":  # one game for all structures
            assert findings.held[f"{kind}: exploitability rises no more than the bound says"] > 0
        assert findings.held[f"{kind}: with ε = 0 exploitability rises no more than the gap"] > 0
    assert {outcome.how for outcome in outcomes()} == {"cfr in float32", "lp"}


def another_lane(outcome: fuzz.Outcome) -> dict[str, Any]:
    """The strategy of another lane."""
    first, second = outcome.policy.probabilities
    rolled = np.roll(first, 1, axis=1), np.roll(second, 1, axis=1)
    return {"policy": dataclasses.replace(outcome.policy, probabilities=rolled)}


@pytest.mark.parametrize(
    ("number", "change", "statement"),
    [
        (
            0,
            lambda o: {"value": o.value + 1e-4 * np.abs(o.value)},
            "the value is what the strategy guarantees",
        ),
        (0, lambda o: {"value": o.value + o.gap + 1e-3}, "the optimum is at least the value"),
        (0, lambda o: {"gap": np.zeros_like(o.gap)}, "the optimum is at most value + gap"),
        (0, lambda o: {"losses": o.losses * 0.5}, "losses are those of the definition"),
        (0, lambda o: {"losses": o.losses * 0}, "exploitability rises no more than the bound says"),
        (0, lambda o: {"gap": o.gap * 0}, "with ε = 0 exploitability rises no more than the gap"),
        (0, lambda o: {"before": o.before * 1.001}, "the exploitability that is reported"),
        (0, lambda o: {"after": o.after * 1.001}, "the exploitability that is reported"),
        (0, lambda o: {"bound": o.after * 0.999}, "the bound that is reported holds"),
        (0, lambda o: {"has_decision": np.zeros_like(o.has_decision)}, "nothing changes where nothing"),
        (0, another_lane, "the value is what the strategy guarantees"),
        (1, lambda o: {"value": o.value - 1e-4, "gap": o.gap + 1e-3}, "the value that linear programs find"),
    ],
)
def test_what_is_wrong_is_noticed(number: int, change: Any, statement: str) -> None:
    outcome = outcomes()[number]
    findings = examined(dataclasses.replace(outcome, **change(outcome)))
    assert any(statement in violation for violation in findings.violations)
