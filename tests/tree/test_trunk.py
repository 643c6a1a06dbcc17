"""The game above a cut, compared with the histories."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import jaxgadget
from jaxgadget.games.game import TERMINAL
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.tree.trunk import build_trunk

CASES = [
    ("leduc_poker", "before-flop"),
    ("goofspiel(num_cards=4,imp_info=True)", "depth:2"),
    ("coin_toss_two_subgames", "play"),
    ("kuhn_poker", "depth:0"),
]


@functools.cache
def forest(name: str, where: str) -> Forest:
    return build_forest(jaxgadget.enumerate_game(jaxgadget.load(name)), where)


@pytest.mark.parametrize(("name", "where"), CASES)
@pytest.mark.parametrize("player", [0, 1])
def test_every_infoset_is_in_the_trunk_or_in_a_subgame(name: str, where: str, player: int) -> None:
    below, trunk = forest(name, where), build_trunk(forest(name, where))
    here = trunk.form.treeplex[player].infoset
    everything = np.concatenate([here, below.infosets(player)])
    np.testing.assert_array_equal(np.sort(everything), np.arange(len(below.tree.infosets[player])))


@pytest.mark.parametrize(("name", "where"), CASES)
@pytest.mark.parametrize("player", [0, 1])
def test_links_are_the_last_own_sequences_of_the_roots(name: str, where: str, player: int) -> None:
    below, trunk = forest(name, where), build_trunk(forest(name, where))
    sequence = np.append(0, trunk.form.action_sequences(player))
    np.testing.assert_array_equal(sequence[trunk.link[player]], below.roots[player].sequence)


@pytest.mark.parametrize(("name", "where"), CASES)
def test_payoffs_are_those_of_terminals_outside(name: str, where: str) -> None:
    below, trunk = forest(name, where), build_trunk(forest(name, where))
    tree, payoff = below.tree, trunk.form.payoff
    outside = tree.terminals[below.cut.root[tree.terminals] < 0]
    total = (tree.chance[outside] * tree.payoff[outside]).sum()
    assert payoff.value.sum() == pytest.approx(total, abs=1e-12)
    assert payoff.shape == tuple(treeplex.num_sequences for treeplex in trunk.form.treeplex)
    assert below.form.payoff.value.sum() + total == pytest.approx(
        (tree.chance * tree.payoff)[tree.terminals].sum(), abs=1e-12
    )


@pytest.mark.parametrize(("name", "where"), CASES)
@pytest.mark.parametrize("player", [0, 1])
def test_terminating_actions_end_every_history(name: str, where: str, player: int) -> None:
    below, trunk = forest(name, where), build_trunk(forest(name, where))
    tree = below.tree
    for sequence, ends in zip(
        trunk.form.action_sequences(player).tolist(), trunk.terminates[player].tolist(), strict=True
    ):
        after = (tree.sequence[player] == sequence) & (tree.action[player] >= 0)
        assert after.any()
        assert ends == (tree.actor[after] == TERMINAL).all()


def test_only_selling_ends_coin_toss() -> None:
    trunk = build_trunk(forest("coin_toss_two_subgames", "play"))
    tree = forest("coin_toss_two_subgames", "play").tree
    actions = tree.infosets[0].action[trunk.form.action_sequences(0)]
    named = [tree.game.action_string(0, action) for action in actions.tolist()]
    assert trunk.terminates[0].tolist() == [name == "Sell" for name in named] and len(named) == 4
    assert len(trunk.terminates[1]) == 0
