"""Larger games: by hands everything is as with histories."""

import pytest

from tests.hands import alike
from tests.tree.test_hands import test_hands_in_histories_are_those_of_the_rules as check_hands


@pytest.mark.parametrize("spec", alike.LONG)
def test_hands(spec: str):
    check_hands(spec)


@pytest.mark.parametrize("spec", alike.LONG)
def test_values_and_best_responses(spec: str):
    alike.check_evaluation(spec)


@pytest.mark.parametrize("algorithm", ["cfr", "cfr+", "dcfr"])
@pytest.mark.parametrize("spec", alike.LONG)
def test_iterates(spec: str, algorithm: str):
    alike.check_iterations(spec, algorithm)
