"""Models from observed hands."""

import numpy as np
import pytest

import jaxgadget as jg

TREE = jg.enumerate_game(jg.load("kuhn_poker"))


def test_nothing_observed_leaves_the_prior() -> None:
    prior = jg.Policy.geometric(TREE, 0.5)
    model = jg.estimate_policy(TREE, np.zeros(0, np.int64), 1, prior=prior)
    np.testing.assert_allclose(model.probabilities[1], prior.probabilities[1])
    assert model.labels == ("0 hands",)


@pytest.mark.parametrize("player", [0, 1])
def test_counts_are_those_of_the_hands_move_by_move(player: int) -> None:
    policy = jg.Policy.dirichlet(TREE, 4)
    played = jg.play_matches(jg.Policy.stack([policy, jg.Policy.uniform(TREE)]), matches=500, seed=2)
    ends = played.ends[0]
    model = jg.estimate_policy(TREE, ends, player, strength=2.0)
    rows = np.full((TREE.infosets[player].num_sequences - 1), 1.0)  # 2 observations, half of each action
    for end in ends.ravel().tolist():
        history = end
        while history > 0:
            above = int(TREE.parent[history])
            if TREE.action[player, history] >= 0:
                rows[int(TREE.sequence[player, history]) - 1] += 1
            history = above
    infoset = TREE.infosets[player].infoset[1:]
    expected = rows / np.bincount(infoset, rows)[infoset]
    np.testing.assert_allclose(model.probabilities[player][:, 0], expected)


def test_many_hands_recover_the_policy_where_it_has_reach() -> None:
    policy = jg.Policy.dirichlet(TREE, 7)
    played = jg.play_matches(jg.Policy.stack([policy, jg.Policy.uniform(TREE)]), matches=40_000, seed=0)
    model = jg.estimate_policy(TREE, played.ends[0, 0], 0)
    assert np.abs(model.probabilities[0] - policy.probabilities[0]).max() < 0.03


def test_bad_hands_are_refused() -> None:
    for arguments, told in (
        ({"ends": np.array([0])}, "has 0, which is no terminal history"),
        ({"ends": np.array([0.5])}, "expected terminal histories"),
        ({"strength": 0}, "expected a positive number"),
        ({"prior": jg.Policy.stack([jg.Policy.uniform(TREE)] * 2)}, "has 2 lanes"),
        ({"player": 2}, "player=2"),
    ):
        asked = {"ends": TREE.terminals[:3], "player": 0} | arguments
        with pytest.raises(ValueError, match=told):
            jg.estimate_policy(TREE, **asked)  # type: ignore[arg-type]
