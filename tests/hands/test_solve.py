"""CFR by hands: iterates equal those in the histories; checkpoints, stopping, exact solutions, errors."""

import pytest

from jaxgadget.core import registry
from tests.hands import alike

KUHN_VALUE = -1 / 18


@pytest.mark.parametrize("algorithm", registry.RULES)
def test_iterates_are_those_of_the_histories(algorithm: str):
    alike.check_iterations("kuhn_poker", algorithm)


def test_iterates_where_every_end_has_a_table_of_its_own():
    alike.check_iterations("random", "cfr+")
