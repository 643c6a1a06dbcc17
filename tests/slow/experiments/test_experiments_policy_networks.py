"""The experiments on policy networks with tiny settings, and mirror descent over tables by its definition."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.common import tree_of
from experiments.policy_networks.__main__ import STUDY
from experiments.policy_networks.common import PACE, SMALL
from experiments.policy_networks.training import mirror_descent
from tests.reference import mmd
from tests.slow.experiments.frame import every_experiment_is_whole

pytestmark = pytest.mark.longest

test_every_experiment_is_whole = every_experiment_is_whole(STUDY)


def test_table_follows_the_definition() -> None:
    eta, alpha = PACE[SMALL]
    expected = mmd.mirror_descent(tree_of(SMALL), 5, lambda t: eta / t**0.5, lambda t: alpha / t**0.5)
    found = mirror_descent(SMALL, 5)
    for ours, theirs in zip(found.probabilities, expected.probabilities, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
