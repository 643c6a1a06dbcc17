"""Subgames of equal shape as lanes: found, stacked, and solved as if each were by itself."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

import jaxgadget.refining.batch
from jaxgadget import MaxMargin, Policy, Resolving, enumerate_game, load, refine
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.gadgets.prior import BlueprintPrior, UniformPrior
from jaxgadget.refining.batch import Batch
from jaxgadget.solving.alike import MOST_PARTS, align, find_alike, take
from jaxgadget.tree.forest import build_forest
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.sequence import Entries
from tests.reference.random_games import random_tree

GADGETS: tuple[Gadget, ...] = (
    Resolving(UniformPrior(), 1e-2),
    Resolving(BlueprintPrior()),
    MaxMargin(BlueprintPrior()),
)


@pytest.fixture(scope="module")
def leduc() -> HistoryTree:
    return enumerate_game(load("leduc_poker"))


def test_all_flops_are_alike(leduc: HistoryTree) -> None:
    """Thirty: six cards after five lines of betting, which leave the same decisions."""
    for padded in (False, True):
        parts = find_alike(build_forest(leduc, "flop", padded=padded))
        assert len(parts) == 6 <= MOST_PARTS and {len(part) for part in parts} == {5}
        assert sorted(np.concatenate(parts).tolist()) == list(range(30))


def test_subgames_that_differ_stay_together() -> None:
    """After different bids in Liar's Dice there are different numbers of bids left."""
    tree = enumerate_game(load("liars_dice(numdice=1,dice_sides=3)"))
    (part,) = find_alike(build_forest(tree, "depth:1"))
    assert sorted(part.tolist()) == list(range(build_forest(tree, "depth:1").num_subgames))


def test_patterns_are_united() -> None:
    first = Entries(row=np.array([0, 1]), column=np.array([1, 0]), value=np.array([2.0, 3.0]), shape=(2, 3))
    second = Entries(row=np.array([0, 1]), column=np.array([1, 2]), value=np.array([5.0, 7.0]), shape=(2, 3))
    found = align([first, second])
    assert list(zip(found.row.tolist(), found.column.tolist(), strict=True)) == [(0, 1), (1, 0), (1, 2)]
    assert found.value.tolist() == [[2, 5], [3, 0], [0, 7]]


def test_lanes_are_taken_apart() -> None:
    """Lanes run over two gadgets, then three forests, then two blueprints."""
    lanes = np.arange(12)[None, :]
    assert take(lanes, 1, 3, 2).tolist() == [[2, 3, 8, 9]]


@pytest.mark.parametrize(("player", "asked"), [(0, GADGETS), (1, GADGETS[2:])])
def test_stacked_subgames_are_solved_as_if_by_themselves(
    leduc: HistoryTree, player: int, asked: tuple[Gadget, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five iterations in float64 from the same numbers, and the certificates."""
    never = Policy.from_function(leduc, lambda _, infoset, k: [0.3, 0.7, 0.0][:k], "never raises")
    blueprint = Policy.stack([Policy.dirichlet(leduc, 1), never])
    plain, stacked = (_refine(leduc, blueprint, player, asked, least, monkeypatch) for least in (10**9, 1))
    assert not plain.live.all()
    for one, other in zip(plain.policy.probabilities, stacked.policy.probabilities, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)
    for name in ("gadget_value", "gap", "exploitability_bound", "epsilon"):
        np.testing.assert_allclose(getattr(plain, name), getattr(stacked, name), rtol=0, atol=1e-11)
    assert (plain.live == stacked.live).all() and (plain.iterations == stacked.iterations).all()


def _refine(
    tree: HistoryTree,
    blueprint: Policy,
    player: int,
    asked: tuple[Gadget, ...],
    least: int,
    patch: pytest.MonkeyPatch,
):
    planned: list[int] = []
    plan = Batch._plan

    def spy(self: Batch, *arguments):
        found = plan(self, *arguments)
        planned.extend(len(one.here) for one in found)
        return found

    patch.setattr(jaxgadget.batch, "MANY_ITERATIONS", least)
    patch.setattr(Batch, "_plan", spy)
    value = (-1.0, 1.0)
    found = refine(
        tree,
        "flop",
        blueprint,
        asked,
        player=player,
        iterations=5,
        dtype="float64",
        value=value,
        progress=False,
    )
    assert set(planned) == {1 if least > 5 else 6}
    patch.undo()
    return found


def test_forests_that_only_seem_alike_are_solved_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the shapes differ after all, nothing is stacked."""
    tree, _ = random_tree("betting", 1)
    count = build_forest(tree, "depth:2").num_subgames
    assert count > 1
    monkeypatch.setattr(jaxgadget.batch, "find_alike", lambda forest: [np.array([k]) for k in range(count)])
    found = []
    for least in (10**9, 1):
        monkeypatch.setattr(jaxgadget.batch, "MANY_ITERATIONS", least)
        found.append(
            refine(
                tree,
                "depth:2",
                Policy.uniform(tree),
                Resolving(),
                iterations=3,
                dtype="float64",
                value=(0.0, 0.0),
                progress=False,
            )
        )
    np.testing.assert_array_equal(found[0].gadget_value, found[1].gadget_value)
    np.testing.assert_array_equal(found[0].gap, found[1].gap)
    for one, other in zip(found[0].policy.probabilities, found[1].policy.probabilities, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_solve_that_may_go_on_is_never_stacked(
    leduc: HistoryTree, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More iterations than those from which subgames become lanes continue the same solve."""
    monkeypatch.setattr(jaxgadget.batch, "MANY_ITERATIONS", 10)
    how = {"checkpoint": tmp_path / "solve", "value": (-1.0, 1.0), "progress": False}
    refine(leduc, "flop", Policy.uniform(leduc), Resolving(), iterations=5, **how)
    assert refine(leduc, "flop", Policy.uniform(leduc), Resolving(), iterations=12, **how).iterations == [12]


def test_a_player_without_decisions_below_the_cut_keeps_its_blueprint() -> None:
    """After a bet in Kuhn poker only one of the players moves."""
    tree = enumerate_game(load("kuhn_poker"))
    found = refine(
        tree,
        "depth:2",
        Policy.uniform(tree),
        [Resolving(), MaxMargin()],
        player=1,
        iterations=5,
        value=(-1 / 18, -1 / 18),
        progress=False,
    )
    assert "player 1 has no decision below the cut" in found.message
    np.testing.assert_array_equal(
        found.policy.probabilities[1][:, 0], Policy.uniform(tree).probabilities[1][:, 0]
    )
