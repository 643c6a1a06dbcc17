"""Kernels compared with XLA's programs, in float64 and for few iterations, in which both compute the same."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import numpy as np
import pytest

from jaxgadget.core import branches, cfr
from jaxgadget.core.regret import DCFR, PCFR_PLUS, ChoiceRule, RegretMatching
from jaxgadget.core.solver import Solver
from jaxgadget.gadgets.root_gadgets import MaxMargin, Unsafe
from jaxgadget.holdem import kernels, operators
from jaxgadget.holdem.betting import BetMenu
from jaxgadget.holdem.isomorphism import find_exchanges
from jaxgadget.holdem.kernels import KERNELS
from jaxgadget.holdem.locks import Lock
from jaxgadget.holdem.solution import SpotSolution
from jaxgadget.holdem.solve import solve_spots
from jaxgadget.holdem.spots import Spot
from jaxgadget.holdem.strategies import policy_to_rows
from jaxgadget.subgames.spots import SpotRefinement, refine_spots
from jaxgadget.util.native import Native
from tests.holdem.test_flops import flop

pytestmark = pytest.mark.skipif(not KERNELS.is_expected, reason="needs a C++ compiler")

NARROW = ("AA,QQ,76s,54s,KcQd:0.3", "KK-99,AKs,A5o:0.5,65s")
RIVER = Spot(board="Td9d6hQc2s", oop="random", ip="random", pot=200, stack=900)
RAKED = Spot(
    board="2s3h4d6c7c",
    oop=NARROW[0],
    ip=NARROW[1],
    pot=20,
    stack=90,
    menus=(BetMenu(bets="50%,a", raises="a"), BetMenu(bets="100%", raises="2.5x,a")),
    rake=0.05,
    rake_cap=3,
    dead="AcKh",
)
RAKELESS = dataclasses.replace(RAKED, rake=0.0, rake_cap=math.inf)
TURN = Spot(board="Td9d6hQc", oop=NARROW[0], ip=NARROW[1], pot=60, stack=90)
FLOP = flop()
MONOTONE = flop("Ts6s2s", "AhAdAcKhKdKc8h8d8c", oop="A8,AK,88,KK:0.7,AA", ip="random")
LOCKS = [
    Lock(line="", strategy={"check": 0.5, "bet 10": 0.5}, hands="AA"),
    Lock(line="bet 10", strategy={"fold": 1}, hands="KK"),
]
FLOP_LOCK = Lock(line="check", strategy={"check": 0.25, "bet 10": 0.75}, hands="Kh8d")
CARD_LOCKS = [
    Lock(line="check, check, Ah, check, check", strategy={"bet 10": 1}),
    Lock(line="check, check, Ks, check, check, Qc, check", strategy={"check": 1}, hands="8d7s"),
    Lock(line="bet 10, call, check, check, 7s", strategy={"bet 20": 0.5, "check": 0.5}, hands="KsKh,AhKh"),
]


def solve(
    spot: Spot, algorithm: str, locks: list[Lock], dtype: str = "float64", **given: Any
) -> SpotSolution:
    solver = Solver(algorithm=algorithm, iterations=4, dtype=dtype, target_gap=1e-12, check_every=2)
    (solution,) = solve_spots([spot], locks=locks, solver=solver, **given)
    return solution


def solve_without(monkeypatch: pytest.MonkeyPatch, *arguments: Any, **given: Any) -> SpotSolution:
    """`solve` by XLA's programs alone."""
    jax.clear_caches()
    with monkeypatch.context() as patch:
        patch.setattr(Native, "load", lambda self: False)
        solution = solve(*arguments, **given)
    jax.clear_caches()
    return solution


CASES: dict[str, tuple[Spot, str, list[Lock], dict[str, Any]]] = {
    "full ranges": (RIVER, "dcfr", [], {}),
    "raked": (RAKED, "cfr+", [], {}),
    "locked": (RAKED, "linear-cfr", LOCKS, {}),
    "turn": (TURN, "cfr", [], {}),
    "locked flop": (FLOP, "dcfr", [FLOP_LOCK], {}),
    "flop locked after cards": (FLOP, "dcfr", CARD_LOCKS, {}),
    "merged flop locked after a card": (MONOTONE, "dcfr", CARD_LOCKS[:1], {"compressed": True}),
    "16 bits": (FLOP, "dcfr", [], {"compressed": True}),
    "merged runouts": (MONOTONE, "cfr+", [], {"suit_isomorphism": True}),
}
QUICK = ("locked", "locked flop")  # the others take more than six seconds


@pytest.mark.parametrize(
    ("spot", "algorithm", "locks", "given"),
    [
        pytest.param(*case, id=name, marks=[] if name in QUICK else pytest.mark.slow)
        for name, case in CASES.items()
    ],
)
def test_kernels_compute_what_xla_computes(
    spot: Spot, algorithm: str, locks: list[Lock], given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    found = solve(spot, algorithm, locks, **given)
    expected = solve_without(monkeypatch, spot, algorithm, locks, **given)
    assert found.iterations == expected.iterations == 4
    assert found.ev == pytest.approx(expected.ev, abs=1e-9 * spot.pot)
    assert found.gap == pytest.approx(expected.gap, abs=1e-9 * spot.pot)
    for player in (0, 1):
        np.testing.assert_allclose(
            found.probabilities[player], expected.probabilities[player], rtol=0, atol=1e-9
        )
        np.testing.assert_allclose(
            found.hand_ev[player], expected.hand_ev[player], rtol=0, atol=1e-9 * spot.pot
        )


def test_the_monotone_flop_merges_runouts():
    assert len(find_exchanges(MONOTONE)[0]) == 6


def test_the_kernels_compile():
    """With the headers of the installed JAX; otherwise they would be missed without a word."""
    assert KERNELS.load()


class Late(RegretMatching):
    """A rule of a user's, which the kernels do not know."""

    def weight(self, t: jax.Array) -> jax.Array:
        return (t > 2).astype(t.dtype)


@pytest.mark.parametrize(("rule", "known"), [(DCFR, True), (PCFR_PLUS, False), (Late(plus=True), False)])
def test_kernels_apply_to_the_rules_that_they_know(rule: RegretMatching, known: bool):
    assert kernels.applies(rule, (ChoiceRule(), ChoiceRule())) == known
    assert not kernels.applies(rule, (ChoiceRule(legal=np.ones((1, 1), np.bool_)),))


def refine(algorithm: str) -> list[SpotRefinement]:
    spots = [RAKELESS, dataclasses.replace(RAKELESS, board="AhKhQh2c2d", dead="")]
    blueprints = solve_spots(spots, solver=Solver(algorithm="dcfr", iterations=3, dtype="float64"))
    solver = Solver(algorithm=algorithm, iterations=4, dtype="float64")
    refined = refine_spots(spots, (Unsafe(), MaxMargin()), blueprints=blueprints, player=1, solver=solver)
    return [each for of_spot in refined for each in of_spot]


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["cfr+", "pcfr+"])
def test_payoffs_of_several_rivers_are_those_of_xla(algorithm: str, monkeypatch: pytest.MonkeyPatch):
    found = refine(algorithm)
    jax.clear_caches()
    monkeypatch.setattr(Native, "load", lambda self: False)
    expected = refine(algorithm)
    jax.clear_caches()
    for one, other in zip(found, expected, strict=True):
        assert one.gap == pytest.approx(other.gap, abs=1e-8)
        np.testing.assert_allclose(
            policy_to_rows(one.policy)[1], policy_to_rows(other.policy)[1], rtol=0, atol=1e-8
        )


def test_merged_hands_are_left_to_xla(monkeypatch: pytest.MonkeyPatch):
    def fail(kernel: Any, otherwise: Any, *arguments: Any) -> Any:
        if kernel is None:
            return otherwise(*arguments)
        raise AssertionError("a kernel was asked for")

    jax.clear_caches()
    for module in (branches, cfr, operators):
        monkeypatch.setattr(module, "call_kernel", fail)
    symmetric = Spot(board="Th9h6hQh", oop="AA,KK", ip="QQ,JJ", pot=60, stack=30)
    assert solve(symmetric, "dcfr", [], suit_isomorphism=True).gap > 0
    with pytest.raises(AssertionError):
        solve(TURN, "dcfr", [])
    jax.clear_caches()
