"""Selection of root infostates: diverse ones compared with brute force, random ones by frequencies."""

import itertools
import math

import numpy as np
import pytest

from jaxgadget.gadgets.generation import DiverseGeneration, RandomGeneration, considered_roots, diverse
from jaxgadget.gadgets.specs import make_generation


def squared_gaps(values):
    return np.sum(np.diff(np.sort(values)) ** 2)


def best_by_brute_force(values, num):
    """Least squared gaps over all choices of `num` with both ends, among them (for one, the largest)."""
    choices = (np.array(choice) for choice in itertools.combinations(values, num))
    ends = (min(values), max(values))
    return min(squared_gaps(c) for c in choices if (c.min(), c.max()) == ends)


# DiverseGeneration


@pytest.mark.parametrize("kind", ["real", "whole", "of two sizes"])
def test_diverse_is_the_best_of_all_choices(kind):
    """3,000 random cases, with ties among integers and two distant clusters."""
    rng = np.random.default_rng(3)
    for _ in range(1000):
        size = int(rng.integers(1, 9))
        num = int(rng.integers(1, 10))
        values = rng.normal(size=size)
        if kind == "whole":
            values = rng.integers(-3, 4, size).astype(float)
        if kind == "of two sizes":
            values = values * 10.0 ** rng.choice([-3, 3], size)
        chosen = diverse(values, num)
        assert len(chosen) == min(num, size)
        assert (np.diff(chosen) > 0).all() and 0 <= chosen[0] and chosen[-1] < size
        if num >= size:
            continue
        picked = values[chosen]
        assert picked.max() == values.max()
        if num > 1:
            assert picked.min() == values.min()
            assert squared_gaps(picked) == pytest.approx(best_by_brute_force(values, num), rel=1e-12)


def test_diverse_by_hand():
    assert diverse([5.0, 0.0, 2.0, 9.0, 4.5, 10.0], 3).tolist() == [0, 1, 5]  # 0, 5, 10
    assert diverse([5.0, 0.0, 2.0, 9.0, 4.5, 10.0], 2).tolist() == [1, 5]
    assert diverse([5.0, 0.0, 2.0, 9.0, 4.5, 10.0], 1).tolist() == [5]
    assert diverse([3, 1, 2], 3).tolist() == diverse([3, 1, 2], 7).tolist() == [0, 1, 2]
    assert diverse([0.3], 1).tolist() == [0]


def test_ties_select_the_first():
    assert diverse([1.0, 1.0, 1.0, 1.0], 1).tolist() == [3]  # the last of equal ones is the largest
    assert diverse([1.0, 1.0, 1.0, 1.0], 2).tolist() == [0, 3]
    assert diverse([1.0, 1.0, 1.0, 1.0], 3).tolist() == [0, 1, 3]
    assert diverse([0.0, 1.0, 2.0, 3.0], 3).tolist() == [0, 1, 3]  # 1 + 4 and 4 + 1: the smaller middle
    assert diverse([3.0, 2.0, 1.0, 0.0], 3).tolist() == [0, 2, 3]
    assert diverse(np.tile([1.0, 0.0, 0.5], 100), 2).tolist() == [1, 297]  # the first 0 and the last 1


def test_the_largest_values_have_finite_costs():
    assert diverse([-1e30, 0.9e30, 0.1e30, 1e30], 3).tolist() == [0, 2, 3]


def uneven(seed=0, lanes=3):
    """Values of infostates in five subgames of 1 … 7 infostates, two of equal size, in mixed order."""
    rng = np.random.default_rng(seed)
    subgame = rng.permutation(np.repeat([4, 0, 11, 7, 2], [1, 3, 7, 3, 4]))
    return rng.normal(size=(len(subgame), lanes)), subgame


@pytest.mark.parametrize("num", [1, 2, 3, 4, 10])
def test_diverse_is_that_of_every_subgame_and_lane(num):
    values, subgame = uneven()
    chosen = considered_roots(DiverseGeneration(num), values, subgame)
    assert chosen.shape == values.shape and chosen.dtype == np.bool_
    for number, lane in itertools.product(np.unique(subgame), range(values.shape[1])):
        rows = np.nonzero(subgame == number)[0]
        assert np.nonzero(chosen[rows, lane])[0].tolist() == diverse(values[rows, lane], num).tolist()


# RandomGeneration


@pytest.mark.parametrize("num", [1, 2, 3, 10])
def test_random_considers_so_many_of_every_subgame(num):
    values, subgame = uneven()
    chosen = considered_roots(RandomGeneration(num, draws=5, seed=1), values, subgame)
    assert chosen.shape == (len(subgame), 5 * 3) and chosen.dtype == np.bool_
    for number in np.unique(subgame):
        of_subgame = chosen[subgame == number]
        assert (of_subgame.sum(axis=0) == min(num, len(of_subgame))).all()


def test_draws_come_one_after_another_each_with_all_lanes():
    values, subgame = uneven()
    chosen = considered_roots(RandomGeneration(2, draws=4), values, subgame).reshape(len(subgame), 4, 3)
    np.testing.assert_array_equal(chosen, np.repeat(chosen[:, :, :1], 3, axis=2))  # lanes are alike
    assert len({chosen[:, draw, 0].tobytes() for draw in range(4)}) == 4


def test_draws_depend_on_seed_and_subgame_alone():
    values, subgame = uneven()
    generation = RandomGeneration(2, draws=6, seed=5)
    together = generation.consider(values, subgame)
    np.testing.assert_array_equal(together, generation.consider(-values, subgame))
    np.testing.assert_array_equal(
        together[:, :9], RandomGeneration(2, draws=3, seed=5).consider(values, subgame)
    )
    np.testing.assert_array_equal(together[:, ::3], generation.consider(values[:, :1], subgame))
    for number in np.unique(subgame):
        rows = subgame == number
        np.testing.assert_array_equal(together[rows], generation.consider(values[rows], subgame[rows]))
    assert (together != RandomGeneration(2, draws=6, seed=6).consider(values, subgame)).any()
    relabelled = RandomGeneration(2, draws=6, seed=5).consider(values, subgame + 1)
    assert (together != relabelled).any()


def test_subgames_draw_apart():
    """Subgames of one size draw independently, and adjacent seeds give unrelated draws."""
    subgame = np.repeat(np.arange(20), 6)
    chosen = RandomGeneration(3, seed=4).consider(np.zeros((120, 1)), subgame)[:, 0].reshape(20, 6)
    assert len(np.unique(chosen, axis=0)) > 5
    after = RandomGeneration(3, seed=5).consider(np.zeros((120, 1)), subgame)[:, 0].reshape(20, 6)
    assert (chosen[1:] != after[:-1]).any(axis=1).sum() > 10


def test_every_choice_is_as_likely():
    """3 of 6 infostates: all 20 subsets, over draws and over subgames, by χ² (19 degrees, 0.1 %)."""
    count = 4000
    over_draws = RandomGeneration(3, draws=count, seed=0).consider(np.zeros((6, 1)), np.zeros(6, np.int64)).T
    subgame = np.repeat(np.arange(count), 6)
    over_subgames = RandomGeneration(3, seed=0).consider(np.zeros((6 * count, 1)), subgame).reshape(count, 6)
    for chosen in (over_draws, over_subgames):
        _, seen = np.unique(chosen, axis=0, return_counts=True)
        expected = count / math.comb(6, 3)
        assert len(seen) == 20
        assert np.sum((seen - expected) ** 2 / expected) < 43.8


# Properties of both, and user-defined generations


class Own:
    name = "own"

    def __init__(self, answer, draws=1):
        self.answer, self.draws = answer, draws

    def consider(self, values, subgame):
        return self.answer(values, subgame)


def test_a_user_defined_generation():
    """The largest infostate of every lane, and none at all: both are masks."""
    values, subgame = uneven()
    largest = considered_roots(Own(lambda values, _: values == values.max(axis=0)), values, subgame)
    assert largest.sum(axis=0).tolist() == [1, 1, 1]
    assert not considered_roots(Own(lambda values, _: np.zeros((18, 6), np.bool_), 2), values, subgame).any()


def considered(values, subgame, *generation):
    """A call that considers roots, by default of a random generation."""
    return lambda: considered_roots(*(generation or (RandomGeneration(1),)), values, subgame)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        *(
            (lambda make=make, num=num: make(num), "num=")
            for make in (RandomGeneration, DiverseGeneration, lambda given: diverse([1.0, 2.0], given))
            for num in (0, -1, True, 1.0, "2", None)
        ),
        *(
            (lambda values=values: diverse(values, 2), "values")
            for values in ([1.0, np.nan, 2.0], [-np.inf, 0.0], [0.0, 1e31], [True, False], ["a"])
        ),
        (considered([[1.0], [np.inf]], [0, 0]), "finite"),
        *((considered([[1.0], [2.0]], subgame), "subgame=") for subgame in ([0], [0, -1], [0.0, 1.0])),
        *(
            (considered(*uneven(), Own(lambda values, subgame, mask=mask: mask)), "generation 'own'")
            for mask in (np.zeros((18, 3)), np.zeros((18, 4), np.bool_), np.zeros(18, np.bool_))
        ),
    ],
)
def test_what_is_refused(call, argument):
    with pytest.raises(ValueError, match=argument):
        call()


@pytest.mark.parametrize(
    "generation", [RandomGeneration(3, 20), RandomGeneration(2, 1, 5), DiverseGeneration(4)]
)
def test_a_name_makes_the_same_again(generation):
    assert make_generation(generation.name) == generation
