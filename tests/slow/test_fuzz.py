"""A part of `python -m tests.fuzz`, and planted errors that it must find."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jaxgadget.gadgets.registry import GADGETS
from tests import fuzz, fuzz_fronts, fuzz_planted
from tests.reference.gadgets import BOUNDED
from tests.reference.random_games import random_hands_shape
from tests.slow.test_faults import ignore_the_dead

STRUCTURES, PROGRAMS, ITERATIONS = 24, 8, 200
BY_HANDS = 6


@functools.cache
def bundle() -> fuzz.Bundle:
    shapes, _ = fuzz.accepted_structures(1000, STRUCTURES, fuzz.Findings())
    return fuzz.make_bundle(shapes, 1000)


@functools.cache
def outcomes() -> tuple[fuzz.Outcome, ...]:
    """Player 0 by regret matching and by linear programs, both also against a model; then player 1."""
    return tuple(fuzz.outcomes(bundle(), ITERATIONS))


def examined(*outcomes: fuzz.Outcome, programs: int = PROGRAMS) -> fuzz.Findings:
    findings = fuzz.Findings()
    for outcome in outcomes:
        fuzz.examine(outcome, findings, programs)
    return findings


@pytest.mark.parametrize("player", [1])
def test_promises_of_random_structures_hold(player: int) -> None:
    findings = fuzz.Findings()
    fuzz.examine_promises(bundle(), player, findings)
    assert not findings.violations, "\n".join(findings.violations)
    assert sum(findings.held.values()) > 30


def test_random_structures_hold() -> None:
    findings = examined(*outcomes())
    fuzz.examine_tree(bundle(), findings)
    fuzz.examine_value(bundle(), findings)
    assert not findings.violations, findings.summary()
    blueprints = bundle().blueprints.num_lanes
    assert len(findings.lanes) == STRUCTURES * 2 * 2 * blueprints * len(fuzz.ALL_GADGETS)
    assert len(findings.programs) > STRUCTURES * 2 * PROGRAMS
    assert {lane.split(" | ")[1].split(",")[0] for _, _, lane in findings.programs} == set(GADGETS)
    for kind in BOUNDED:
        assert findings.held[f"{kind}: exploitability rises no more than the losses allow"] > 0
        assert findings.held[f"{kind}: with ε = 0 exploitability rises no more than the gap"] > 0
    assert {outcome.how.split(" against")[0] for outcome in outcomes()} == {"cfr in float32", "lp"}
    assert [outcome.p > 0 for outcome in outcomes()] == [False, False, True, True] * 2


def another_lane(outcome: fuzz.Outcome) -> dict[str, Any]:
    """The strategy of another lane."""
    first, second = outcome.policy.probabilities
    rolled = np.roll(first, 1, axis=1), np.roll(second, 1, axis=1)
    return {"policy": dataclasses.replace(outcome.policy, probabilities=rolled)}


def another_p(outcome: fuzz.Outcome) -> dict[str, Any]:
    """The model is followed half as often."""
    assert outcome.opponent is not None
    return {"opponent": dataclasses.replace(outcome.opponent, p=outcome.p / 2)}


WRONG: dict[str, tuple[int, Callable[[fuzz.Outcome], dict[str, Any]], str]] = {
    "value": (0, lambda o: {"value": 1.0001 * o.value}, "the value is what the strategy guarantees"),
    "too much": (0, lambda o: {"value": o.value + 2 * o.gap + 1e-3}, "the optimum is at least the value"),
    "gap": (0, lambda o: {"gap": 0 * o.gap}, "the optimum is at most value + gap"),
    "half the losses": (0, lambda o: {"losses": o.losses / 2}, "losses are those of the definition"),
    "no losses": (0, lambda o: {"losses": 0 * o.losses}, "rises no more than the losses allow"),
    "no gaps": (0, lambda o: {"gap": 0 * o.gap}, "with ε = 0 exploitability rises no more than the gap"),
    "before": (0, lambda o: {"before": 1.001 * o.before}, "reported is that of a best response: before"),
    "after": (0, lambda o: {"after": 1.001 * o.after}, "reported is that of a best response: after"),
    "bound": (0, lambda o: {"bound": 0.999 * o.after}, "the bound that is reported holds"),
    "less of the bound": (
        1,
        lambda o: {"bound": o.before + 0.9 * (o.bound - o.before)},
        "the bound is its definition",
    ),
    "no decision": (0, lambda o: {"has_decision": o.has_decision & False}, "nothing changes where nothing"),
    "another lane": (0, another_lane, "the value is what the strategy guarantees"),
    "program": (
        1,
        lambda o: {"value": o.value - 1e-4, "gap": o.gap + 1e-3},
        "the value that linear programs",
    ),
    "losses against a model": (
        2,
        lambda o: {"losses": 0.999 * o.losses},
        "losses are those of the definition",
    ),
    "a bound of reach gadgets": (2, lambda o: {"bound": np.nan_to_num(o.bound)}, "no bound is reported"),
    "another p": (3, another_p, "the value is what the strategy guarantees"),
}
"""Index of the outcome, the replaced fields, and the statements that must fail."""


@pytest.mark.parametrize("what", WRONG)
def test_planted_errors_are_found(what: str) -> None:
    number, change, statement = WRONG[what]
    outcome = outcomes()[number]
    findings = examined(dataclasses.replace(outcome, **change(outcome)), programs=5)
    assert any(statement in violation for violation in findings.violations)


@pytest.mark.parametrize("player", [0])
def test_responses_and_private_subgames_of_random_structures_hold(player: int) -> None:
    findings = fuzz.Findings()
    fuzz_fronts.examine_responses(fuzz_planted.bundle(), player, findings)
    fuzz_fronts.examine_private(fuzz_planted.bundle(), player, findings)
    assert not findings.violations, "\n".join(findings.violations)


@pytest.mark.parametrize("seed", [0])
def test_random_games_by_hands_hold(seed: int) -> None:
    findings = fuzz.Findings()
    fuzz_fronts.examine_by_hands(fuzz_fronts.make_hands_bundle(seed, BY_HANDS), PROGRAMS, findings)
    assert not findings.violations, "\n".join(findings.violations)
    assert len(findings.programs) >= BY_HANDS * 2 * len(GADGETS)
    assert findings.held["responses by hands: the bound is its definition"] > 0


@pytest.mark.parametrize("player", [1])
def test_answers_off_random_menus_hold(player: int) -> None:
    findings = fuzz.Findings()
    public, _ = fuzz_fronts.make_menu_bundle(10, 3, player, random_hands_shape)
    fuzz_fronts.examine_off_tree(public, player, findings, ["safe"])
    assert findings.held["off the menu: safe answers keep every promise"] > 0
    fuzz_fronts.examine_off_tree(fuzz_fronts.make_menu_bundle(10, 4, player)[0], player, findings)
    assert not findings.violations, "\n".join(findings.violations)


def test_random_rivers_hold() -> None:
    findings = fuzz.Findings()
    fuzz_fronts.examine_spots(1, 3, findings)
    assert not findings.violations, "\n".join(findings.violations)


def test_random_flops_hold() -> None:
    findings = fuzz.Findings()
    for seed in range(3):
        fuzz_fronts.examine_flop(seed, findings)
    assert not findings.violations, "\n".join(findings.violations)


def test_a_random_turn_holds() -> None:
    findings = fuzz.Findings()
    fuzz_fronts.examine_turn(0, findings)
    assert not findings.violations, "\n".join(findings.violations)


@ignore_the_dead
@pytest.mark.parametrize("bug", fuzz_planted.PLANTED)
def test_a_planted_bug_is_found(bug: str) -> None:
    planted = fuzz_planted.PLANTED[bug]
    with pytest.MonkeyPatch.context() as patch:
        planted.plant(patch)
        violations = planted.attack()
    for statement in planted.found:
        assert any(statement in violation for violation in violations), violations[:10]
