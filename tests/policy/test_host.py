"""With an accelerator, one lane of a small game in float64 is still solved on the host's CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget.core import devices, driver
from jaxgadget.core.devices import HOME, AbstractDevice, assume_device
from jaxgadget.core.problem import Problem
from jaxgadget.core.rows import ScatteredSums
from jaxgadget.policy.evaluate import find_whole_placement
from jaxgadget.util.compilation import watch_programs

GPU = AbstractDevice("described", 10**9)


def sums_of(problem: Problem) -> list[bool]:
    """Whether sums of its bodies have the form for CPUs."""
    return [isinstance(sums, ScatteredSums) for side in problem.sides for sums in side.body.below]


CALLS: dict[str, Callable[[Any], Any]] = {
    "bracket": lambda tree: jg.game_value(tree, iterations=400, progress=False),
    "blueprints": lambda tree: jg.cfr_checkpoints(tree, [10, 20], progress=False).probabilities,
    "solve": lambda tree: jg.solve(tree, iterations=20).policy.probabilities,
    "floors": lambda tree: jg.solve(tree, floors=0.01, iterations=20).gap,
    "evaluation": lambda tree: jg.nash_conv(jg.Policy.uniform(tree)),
    "response": lambda tree: jg.best_response(jg.Policy.uniform(tree), 0).value,
}


@pytest.mark.parametrize("name", CALLS)
def test_one_lane_in_float64_is_on_the_host(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every program runs on the host, layouts are those for CPUs, and the numbers equal a CPU's."""
    loops: list[Problem] = []

    def run(problem: Problem, *arguments: Any, **named: Any) -> Any:
        loops.append(problem)
        return original(problem, *arguments, **named)

    original = driver.run
    monkeypatch.setattr(driver, "run", run)
    expected = CALLS[name](jg.enumerate_game(jg.load("kuhn_poker")))
    usual = len(loops)
    with watch_programs() as calls, assume_device(GPU):
        found = CALLS[name](jg.enumerate_game(jg.load("kuhn_poker")))
    assert not calls
    assert len(loops) == 2 * usual  # a described device would have run one iteration
    for problem in loops[usual:]:
        assert all(sums_of(problem))
        placed = jax.tree.leaves((problem.sides, problem.payoff, problem.terms))
        assert {device.platform for x in placed for device in x.devices()} == {"cpu"}
        assert all(x.committed for x in placed)
    jax.tree.map(np.testing.assert_array_equal, found, expected)


def test_other_solves_are_on_the_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = jg.enumerate_game(jg.load("kuhn_poker"))
    assert find_whole_placement(tree) == HOME  # without an accelerator
    with assume_device(GPU):
        assert find_whole_placement(tree).on_cpu
        assert find_whole_placement(tree, np.float32) == HOME
        with monkeypatch.context() as patch:
            patch.setattr(devices, "HOST_SEQUENCES", 10)
            assert find_whole_placement(tree) == HOME

        def excluded(backend: str | None = None) -> Any:
            raise RuntimeError(f"Unknown backend {backend}")

        monkeypatch.setattr(jax, "local_devices", excluded)
        assert find_whole_placement(tree) == HOME
        assert HOME.devices == (GPU,)
