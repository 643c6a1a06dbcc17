"""Lifting between menus by names of moves: to larger and smaller menus, and between games with other ids."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest

from jaxgadget.games.abstraction import Abstraction
from jaxgadget.games.leduc.no_limit import NoLimitLeduc
from jaxgadget.games.menu import MenuAbstraction
from jaxgadget.policy.lift import lift
from jaxgadget.policy.policy import Policy
from jaxgadget.tree.history import HistoryTree, enumerate_game
from tests.reference import efg

POT = ["Fold", "Call", "Bet 1", "AllIn"]


@functools.cache
def large() -> HistoryTree:
    return enumerate_game(NoLimitLeduc(bets="1/2-1-2-a", max_raises=2, stack=9, suit_isomorphism=True))


@functools.cache
def small(times: int = 0) -> HistoryTree:
    menus = {0: POT, 1: POT}
    return enumerate_game(MenuAbstraction(large().game, menus, off_tree=times, off_tree_player=0))


def by_name(policy: Policy, player: int, name: str, lane: int = 0) -> dict[str, float]:
    """Names of actions → probability, without actions of probability 0."""
    row = policy.action_probabilities(name, lane, player=player)
    return {policy.tree.game.action_string(player, a): share for a, share in row.items() if share}


def rows(policy: Policy):
    pair = [np.append(1.0, part[:, 0]) for part in policy.probabilities]
    return efg.from_sequences(policy.tree, (pair[0], pair[1]))


def test_upwards_the_rows_stay_and_the_rest_is_uniform():
    policy = Policy.stack([Policy.dirichlet(small(), seed) for seed in range(2)])
    lifted = lift(policy, large())
    assert lifted.labels == policy.labels and lifted.tree is large()
    for player in (0, 1):
        known = set(small().infoset_names[player])
        for infoset, name in enumerate(large().infoset_names[player]):
            for lane in range(2):
                row = by_name(lifted, player, name, lane)
                if name in known:
                    assert row == by_name(policy, player, name, lane)
                else:
                    count = int(large().infosets[player].num_actions[infoset])
                    assert list(row.values()) == pytest.approx([1 / count] * count)
    assert efg.value(efg.from_tree(large()).root, rows(lifted)) == pytest.approx(
        efg.value(efg.from_tree(small()).root, rows(policy)), abs=1e-12
    )


def test_elsewhere_another_policy_is_played():
    policy, other = Policy.dirichlet(small(), 0), Policy.geometric(large(), 2.0)
    lifted = lift(policy, large(), elsewhere=other)
    for player in (0, 1):
        known = set(small().infoset_names[player])
        for name in large().infoset_names[player]:
            assert by_name(lifted, player, name) == by_name(policy if name in known else other, player, name)
    lanes = Policy.stack([policy] * 3)
    assert lift(lanes, large(), elsewhere=other).num_lanes == 3
    with pytest.raises(ValueError, match="elsewhere"):
        lift(lanes, large(), elsewhere=Policy.stack([other] * 2))


def test_downwards_the_remaining_actions_are_normalised():
    policy = Policy.dirichlet(large(), 1)
    lowered = lift(policy, small())
    for player in (0, 1):
        for infoset, name in enumerate(small().infoset_names[player]):
            row = by_name(policy, player, name)
            infosets = small().infosets[player]
            first, count = int(infosets.first_sequence[infoset]), int(infosets.num_actions[infoset])
            names = [
                small().game.action_string(player, a) for a in infosets.action[first : first + count].tolist()
            ]
            total = sum(row[action] for action in names)
            expected = {action: row[action] / total for action in names}
            assert by_name(lowered, player, name) == pytest.approx(expected)


def test_up_and_down_again_is_the_policy():
    policy = Policy.dirichlet(small(), 2)
    for tree in (small(1), small(2), large()):
        for mine, its in zip(
            lift(lift(policy, tree), small()).probabilities, policy.probabilities, strict=True
        ):
            np.testing.assert_array_equal(mine, its)


def test_games_that_number_their_actions_otherwise():
    same = enumerate_game(NoLimitLeduc(bets="1-a", max_raises=2, stack=9, suit_isomorphism=True))
    policy = Policy.dirichlet(small(), 5)
    moved = lift(policy, same)
    for mine, its in zip(moved.probabilities, policy.probabilities, strict=True):
        np.testing.assert_array_equal(mine, its)
    back = lift(moved, large())
    for mine, its in zip(back.probabilities, lift(policy, large()).probabilities, strict=True):
        np.testing.assert_array_equal(mine, its)


def test_menus_and_buckets_together():
    """An abstraction that forgets suits, on a menu: lifting in one step equals lifting in two."""
    game = NoLimitLeduc(bets="1/2-1-a", max_raises=1, stack=5, num_ranks=2)
    tree, menu = enumerate_game(game), MenuAbstraction(game, {0: ["Fold", "Call", "Bet 1"]})

    def ranks(player: int, infostate: str) -> str:
        return re.sub(r"(Private|Public): (\d)", lambda card: f"{card[1]}: {int(card[2]) // 2}", infostate)

    coarse = enumerate_game(Abstraction(menu, ranks))
    policy = Policy.dirichlet(coarse, 0)
    twice = lift(lift(policy, enumerate_game(menu)), tree)
    for mine, its in zip(lift(policy, tree).probabilities, twice.probabilities, strict=True):
        np.testing.assert_array_equal(mine, its)


def test_unlike_games_are_refused():
    policy = Policy.uniform(small())
    other = enumerate_game(NoLimitLeduc(bets="1-a", max_raises=2, stack=10, suit_isomorphism=True))
    with pytest.raises(ValueError, match="payoffs"):
        lift(policy, other)
    with pytest.raises(ValueError, match="history"):
        lift(policy, enumerate_game(NoLimitLeduc(bets="1-a", max_raises=2, stack=9)))
