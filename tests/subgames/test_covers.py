"""Refinement over user-defined covers: subgames that are not those of a cut."""

from typing import Any

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget.core.memory import DoesNotFit
from jaxgadget.subgames import engine
from jaxgadget.tree.cover import build_cover, cover_of
from jaxgadget.tree.knowledge import knowledge_cover

GADGETS = [jg.Unsafe(), jg.Resolving(jg.UniformPrior(), 0.01), jg.MaxMargin(jg.NoPrior())]
HOW: dict[str, Any] = {
    "solver": jg.Solver(iterations=40, dtype="float64", progress=False),
    "value": (-1.0, 1.0),
}


def kuhn() -> tuple[jg.HistoryTree, jg.Policy]:
    tree = jg.enumerate_game(jg.load("kuhn_poker"))
    return tree, jg.Policy.stack([jg.Policy.dirichlet(tree, seed) for seed in range(2)])


def alike(found: jg.Refinement, expected: jg.Refinement) -> None:
    for ours, theirs in zip(found.policy.probabilities, expected.policy.probabilities, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10)
    np.testing.assert_allclose(
        found.refined_exploitability, expected.refined_exploitability, rtol=0, atol=1e-10
    )


@pytest.mark.parametrize("player", [0, 1])
def test_the_cover_of_a_cut_is_the_cut(player: int) -> None:
    tree, blueprint = kuhn()
    where = jg.cut(tree, "depth:1")
    found = jg.refine(tree, cover_of(where), blueprint, GADGETS, player=player, **HOW)
    expected = jg.refine(tree, where, blueprint, GADGETS, player=player, **HOW)
    alike(found, expected)
    np.testing.assert_allclose(found.exploitability_bound, expected.exploitability_bound)


def test_a_subgame_of_a_cover_is_that_of_an_infostate() -> None:
    tree, blueprint = kuhn()
    where, continued = jg.cut(tree, "depth:1"), jg.Resolving(alternative=jg.ContinuationValues(5))
    (number,) = np.unique(where.subgame[tree.infostate[1, where.roots] == tree.infostate[1, where.roots[0]]])
    acts = tree.infoset[1, where.roots[0]]
    found = jg.refine(tree, cover_of(where).take(np.array([number])), blueprint, continued, player=1, **HOW)
    name = tree.infoset_names[1][acts]
    alike(found, jg.refine(tree, where.only(name), blueprint, continued, player=1, **HOW))


@pytest.mark.parametrize("player", [0, 1])
def test_overlapping_subgames_of_own_infostates_are_those_of_knowledge(player: int) -> None:
    tree, blueprint = kuhn()
    where = jg.cut(tree, "depth:1")
    cover = knowledge_cover(where, player, 1).cover
    assert cover.as_cut() is None
    found = jg.refine(tree, cover, blueprint, GADGETS, player=player, **HOW)
    together = jg.Knowledge(combine="together")
    alike(found, jg.refine(tree, where, blueprint, GADGETS, player=player, knowledge=together, **HOW))
    assert np.isnan(found.exploitability_bound).all(), "they change one another"
    assert (
        np.abs(found.policy.probabilities[player] - blueprint.probabilities[player][:, found.lanes.blueprint])
    ).max() > 0.1


def test_subgames_of_a_cover_may_be_merged() -> None:
    """Resolving chooses at every root separately, so that merging components changes nothing."""
    tree, blueprint = kuhn()
    where = jg.cut(tree, "depth:1")
    assert where.num_subgames > 1
    merged = build_cover(where, where.roots, np.zeros_like(where.roots))
    found = jg.refine(tree, merged, blueprint, GADGETS[1], **HOW)
    assert found.num_subgames == 1
    alike(found, jg.refine(tree, where, blueprint, GADGETS[1], **HOW))
    np.testing.assert_allclose(
        found.gadget_value[0], jg.refine(tree, where, blueprint, GADGETS[1], **HOW).gadget_value.sum(axis=0)
    )


def test_covers_that_cannot_be_refined() -> None:
    tree, blueprint = kuhn()
    where = jg.cut(tree, "depth:1")
    unfrozen = knowledge_cover(where, 0, 1, unfrozen=True).cover
    own = knowledge_cover(where, 0, 1).cover
    with pytest.raises(ValueError, match="is in several subgames"):
        jg.refine(tree, unfrozen, blueprint, GADGETS, **HOW)
    with pytest.raises(ValueError, match="optimal-continuation requires"):
        jg.refine(tree, own, blueprint, jg.OptimalContinuation(), **HOW)
    with pytest.raises(ValueError, match="knowledge="):
        jg.refine(tree, own, blueprint, GADGETS, knowledge=jg.Knowledge(), **HOW)
    with pytest.raises(ValueError, match="another tree"):
        jg.refine(kuhn()[0], own, jg.Policy.uniform(kuhn()[0]), GADGETS, **HOW)


def test_memory_that_is_freed_between_two_tries_splits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tree, blueprint = kuhn()
    build, tries = engine._build_groups, list[bool]()

    def build_second(*given: Any, is_split: bool) -> Any:
        tries.append(is_split)
        if len(tries) == 1:
            raise DoesNotFit("no memory")
        return build(*given, is_split=is_split)

    expected = jg.refine(tree, "depth:1", blueprint, jg.OptimalContinuation(), **HOW)
    monkeypatch.setattr(engine, "_build_groups", build_second)
    alike(jg.refine(tree, "depth:1", blueprint, jg.OptimalContinuation(), **HOW), expected)
    assert tries[:2] == [False, True] and len(tries) <= 3


class Tempered(jg.Resolving):
    """A gadget with an additional setting."""

    @property
    def settings(self) -> dict[str, str]:
        return super().settings | {"temperature": "2"}


def test_settings_of_a_user_defined_gadget_are_columns() -> None:
    tree, blueprint = kuhn()
    table = jg.refine(tree, "depth:1", blueprint, [jg.Unsafe(), Tempered()], **HOW).table
    assert table["temperature"].tolist() == [None, None, "2", "2"]
