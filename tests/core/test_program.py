"""Linear programs hold what their games need and nothing else: no padding, no second copy of a root."""

from __future__ import annotations

import highspy
import numpy as np
import pytest

import jaxgadget
from jaxgadget import Full, MaxMargin, NoPrior, Policy, Resolving, UniformPrior, Unsafe

Size = tuple[int, int, int]
"""Columns, rows, and numbers other than 0 in the matrix."""


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[Size]:
    """Those of every program that HiGHS is given."""
    given: list[Size] = []
    load = highspy.Highs.passModel

    def spy(solver, program):
        values = np.asarray(program.a_matrix_.value_)
        given.append((program.num_col_, program.num_row_, int(np.count_nonzero(values))))
        return load(solver, program)

    monkeypatch.setattr(highspy.Highs, "passModel", spy)
    return given


@pytest.mark.parametrize(
    ("game", "expected"),
    [
        ("kuhn_poker", (20, 19, 67)),
        ("goofspiel(num_cards=3)", (176, 175, 505)),
    ],
)
def test_whole_games(game: str, expected: Size, sizes: list[Size]):
    jaxgadget.solve(jaxgadget.enumerate_game(jaxgadget.load(game)), algorithm="lp")
    assert sizes == [expected]


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]):
    """Not even as HiGHS is made: what the command line prints is JSON."""
    jaxgadget.solve(jaxgadget.enumerate_game(jaxgadget.load("kuhn_poker")), algorithm="lp")
    assert capfd.readouterr() == ("", "")


GADGETS = {
    "unsafe": Unsafe(),
    "resolving": Resolving(NoPrior()),
    "resolving, floors": Resolving(UniformPrior(), 0.01),
    "max-margin": MaxMargin(NoPrior()),
    "max-margin, floors": MaxMargin(UniformPrior(), 0.01),
    "full": Full(NoPrior()),
}


def test_gadgets(sizes: list[Size]):
    """A program for each of the two subgames, their sizes summed; the forests are padded."""
    tree, sums = jaxgadget.enumerate_game(jaxgadget.load("kuhn_poker")), {}
    for name, gadget in GADGETS.items():
        sizes.clear()
        jaxgadget.refine(
            tree, "depth:1", Policy.uniform(tree), gadget, player=1, algorithm="lp", value=(0.0, 0.0)
        )
        assert len(sizes) == 2
        sums[name] = tuple(np.sum(sizes, axis=0).tolist())
    assert sums == {
        "unsafe": (19, 14, 48),
        "resolving": (37, 26, 89),
        "resolving, floors": (37, 26, 101),
        "max-margin": (27, 20, 73),
        "max-margin, floors": (27, 20, 79),
        "full": (37, 26, 89),
    }
