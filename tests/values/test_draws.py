"""Random ranges: properties of every kind, and extreme parameters."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from jaxgadget import Forest, Policy, build_forest, draw_ranges
from jaxgadget.values import draws
from jaxgadget.values.draws import Draw, dirichlet, random_policies, reach_of, reached, recursive
from tests.trees import tree_of

GOOFSPIEL = "goofspiel(num_cards=3,imp_info=True,points_order=descending)"
GAMES = [("kuhn_poker", "depth:2"), (GOOFSPIEL, "depth:1"), ("leduc_poker(num_ranks=2)", "flop")]


@functools.cache
def forest(name: str, where: str) -> Forest:
    return build_forest(tree_of(name), where)


def generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def sums(below: Forest, player: int, rows: Any) -> Any:
    total = np.zeros((below.num_subgames, rows.shape[1]))
    np.add.at(total, below.roots[player].subgame, rows)
    return total


@pytest.mark.parametrize("count", [1, 2, 7])
@pytest.mark.parametrize(("name", "where"), GAMES)
def test_shapes_and_seeds(name: str, where: str, count: int) -> None:
    below = forest(name, where)
    first, again, other = (draw_ranges(below, count, seed=seed) for seed in (1, 1, 2))
    for player in (0, 1):
        assert first[player].shape == (len(below.roots[player]), count)
        assert first[player].dtype == np.float64
        np.testing.assert_array_equal(first[player], again[player])
        assert np.isfinite(first[player]).all() and (first[player] >= 0).all()
        assert (first[player] <= 1 + 1e-12).all() and (first[player] > 0).any(axis=0).all()
    assert any(np.abs(a - b).max() > 0.01 for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize("kind", [dirichlet, recursive], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(("name", "where"), GAMES)
def test_in_every_subgame_a_distribution(name: str, where: str, kind: Draw) -> None:
    below = forest(name, where)
    pair = kind(below, 40, generator(0))
    for player, rows in enumerate(pair):
        np.testing.assert_allclose(sums(below, player, rows), 1, rtol=0, atol=1e-12)
        alone = np.bincount(below.roots[player].subgame)[below.roots[player].subgame] == 1
        assert np.ptp(rows[~alone], axis=1).min() > 0.3, "lanes differ, at every root"
        assert (rows[alone] == 1).all()


def test_recursive_shares_have_the_moments_of_halving() -> None:
    """For three infostates the first half is one of them, with a uniform share; the mean is 1/3 each."""
    rows = np.concatenate(recursive(forest("kuhn_poker", "depth:2"), 4000, generator(1)), axis=1)
    np.testing.assert_allclose(rows.mean(axis=1), 1 / 3, atol=0.01)
    # E of a share squared: 1/3 for the single one, 1/3 · 1/3 for each of the two.
    np.testing.assert_allclose((rows**2).mean(axis=1), (1 / 3 + 1 / 9 + 1 / 9) / 3, atol=0.01)


def test_concentrations_reach_from_one_infostate_to_all_alike() -> None:
    rows = dirichlet(forest("kuhn_poker", "depth:2"), 2000, generator(2))[0]
    largest = rows.max(axis=0)
    assert (largest > 0.999).mean() > 0.05 and (largest < 0.5).mean() > 0.1
    np.testing.assert_allclose(rows.mean(axis=1), 1 / 3, atol=0.03)


def test_a_tiny_concentration_is_no_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gamma variables with a tiny shape underflow to 0, and 0 / 0 must be avoided."""
    assert (np.random.default_rng(0).gamma(1e-4, size=1000) == 0).mean() > 0.9
    monkeypatch.setattr(draws, "CONCENTRATIONS", (1e-5, 1e-4))
    below = forest(GOOFSPIEL, "depth:1")
    for player, rows in enumerate(dirichlet(below, 300, generator(0))):
        assert np.isfinite(rows).all()
        np.testing.assert_allclose(sums(below, player, rows), 1, rtol=0, atol=1e-12)
        best = rows[below.roots[player].subgame == below.roots[player].subgame[0]].argmax(axis=0)
        assert (
            len(set(best.tolist())) == (below.roots[player].subgame == below.roots[player].subgame[0]).sum()
        )
    policy = random_policies(below.tree, 50, generator(0))
    for player in (0, 1):
        assert np.isfinite(policy.probabilities[player]).all()


def test_reached_ranges_are_some_policys() -> None:
    """By definition: the product of the player's own probabilities on the path to a root."""
    below = forest("leduc_poker(num_ranks=2)", "flop")
    tree = below.tree
    policy = random_policies(tree, 3, generator(5))
    assert policy.num_lanes == 3 and len(set(policy.labels)) == 3
    Policy(tree, policy.probabilities, policy.labels)  # checks that rows sum to 1
    pair, same = reach_of(below, policy), reached(below, 3, generator(5))
    for player in (0, 1):
        np.testing.assert_array_equal(pair[player], same[player])
        for number, state in enumerate(below.roots[player].infostate.tolist()):
            history = int(below.cut.roots[tree.infostate[player, below.cut.roots] == state][0])
            own = np.ones(3)
            while history > 0:
                parent = int(tree.parent[history])
                sequence, before = tree.sequence[player, [history, parent]]
                if sequence != before:
                    own = own * policy.probabilities[player][sequence - 1]
                history = parent
            np.testing.assert_allclose(pair[player][number], own, rtol=1e-12)


def test_kinds_share_the_lanes_in_order() -> None:
    below, asked = forest(GOOFSPIEL, "depth:1"), list[tuple[str, int]]()

    def kind(name: str) -> Draw:
        def draw(given: Forest, count: int, random: np.random.Generator) -> Any:
            asked.append((name, count))
            value = float(len(asked))
            return tuple(np.full((len(roots), count), value) for roots in given.roots)

        return draw

    first, second = draw_ranges(below, 10, draws=[kind("a"), kind("b"), kind("c"), kind("d")])
    assert asked == [("a", 2), ("b", 3), ("c", 2), ("d", 3)]
    assert first[0].tolist() == second[-1].tolist() == [1, 1, 2, 2, 2, 3, 3, 4, 4, 4]
    asked.clear()
    draw_ranges(below, 1, draws=[kind("a"), kind("b")])
    assert asked == [("b", 1)], "no query for 0 lanes"


def zeros(below: Forest, count: int) -> Any:
    return tuple(np.zeros((len(roots), count)) for roots in below.roots)


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda below, count, random: None, "a NoneType"),
        (lambda below, count, random: zeros(below, count) * 2, r"draws\[1\]"),
        (lambda below, count, random: (None, None), "shape"),
        (lambda below, count, random: ([[1], [1, 2]], None), "shape"),
        (lambda below, count, random: dirichlet(below, count + 1, random), "shape"),
        (lambda below, count, random: tuple(rows.T for rows in dirichlet(below, count, random)), "shape"),
        (lambda below, count, random: tuple(rows + 0j for rows in dirichlet(below, count, random)), "shape"),
        (lambda below, count, random: tuple(-rows for rows in dirichlet(below, count, random)), "finite"),
        (lambda below, count, random: zeros(below, count), r"\[0\] is 0 everywhere in lane 0"),
    ],
    ids=["None", "four", "Nones", "ragged", "lanes", "turned", "complex", "negative", "nobody"],
)
def test_user_defined_draws_are_validated(draw: Draw, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw_ranges(forest("kuhn_poker", "depth:2"), 4, draws=[dirichlet, draw])
