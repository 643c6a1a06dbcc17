"""Local best response: the published formula, hand by hand, computed from rules and infostates."""

from __future__ import annotations

import re

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget import Opponent, Policy, Solver, call_down, local_best_response
from tests.solving import nested_search
from tests.trees import tree_of

FOLD, CALL, RAISE = 0, 1, 2
GAMES = ["leduc_poker", "leduc_poker(num_ranks=4,num_suits=2,raise_sizes=1-3,starting_player=1)"]


def showdown(own: int, other: int, public: int, suits: int) -> float:
    """1 for a win, ½ for a tie: a pair with the public card, otherwise the higher rank."""
    ranks = own // suits, other // suits
    paired = tuple(rank == public // suits for rank in ranks)
    if paired[0] != paired[1]:
        return float(paired[0])
    return 0.5 if ranks[0] == ranks[1] else float(ranks[0] > ranks[1])


def expected_action(tree: jg.HistoryTree, model: Policy, player: int, infoset: int) -> int:
    """Over all hands of the opponent: its range by Bayes' rule, and the three estimates."""
    suits, deck = tree.game.num_suits, tree.game.num_ranks * tree.game.num_suits
    example = tree.moves(int(tree.infosets[player].history[infoset]))
    name = tree.infoset_names[player][infoset]
    public = re.search(r"\[Public: (\d+)\]", name)
    money = [100 - int(text) for text in re.search(r"\[Money: (\d+) (\d+)\]", name).groups()]  # type: ignore[union-attr]
    pot, asked = sum(money), money[1 - player] - money[player]
    by = tree.game.betting.raise_sizes[1 if public else 0]
    hands: list[tuple[float, float, float]] = []  # weight, win, fold after a raise
    for card in range(deck):
        line = list(example)
        line[1 - player] = card
        if card == line[player] or (public and card == int(public[1])):
            continue
        cards = [int(public[1])] if public else [c for c in range(deck) if c not in line[:2]]
        win = float(np.mean([showdown(line[player], card, c, suits) for c in cards]))
        history, reach = 0, 1.0
        for move in line:
            if tree.infoset[1 - player, history] >= 0:
                reach *= probability(tree, model, 1 - player, history, move)
            history = child(tree, history, move)
        after = child(tree, history, RAISE)
        folds = probability(tree, model, 1 - player, after, FOLD) if after >= 0 else 0.0
        hands.append((reach, win, folds))
    weight, win, folds = np.array(hands).T
    weight = weight if weight.sum() > 0 else np.ones_like(weight)
    wp = weight @ win / weight.sum()
    values = {CALL: wp * pot - (1 - wp) * asked}
    if asked > 0:
        values = {FOLD: 0.0} | values
    if child(tree, history, RAISE) >= 0:
        fp, stay = weight @ folds / weight.sum(), weight * (1 - folds)
        wp = stay @ win / stay.sum() if stay.sum() > 0 else 0.5
        values[RAISE] = fp * pot + (1 - fp) * (wp * (pot + by) - (1 - wp) * (asked + by))
    ranked = sorted(values.values())
    if len(ranked) > 1 and ranked[-1] - ranked[-2] < 1e-9:
        return -1  # a tie: both actions are optimal
    return max(values, key=values.__getitem__)


def child(tree: jg.HistoryTree, history: int, move: int) -> int:
    below = np.nonzero((tree.parent == history) & (tree.action.max(axis=0) == move))[0]
    below = below[below != history]
    return int(below[0]) if len(below) else -1


def probability(tree: jg.HistoryTree, policy: Policy, player: int, history: int, action: int) -> float:
    infoset = int(tree.infoset[player, history])
    if infoset < 0:
        return 0.0
    infosets = tree.infosets[player]
    first, count = int(infosets.first_sequence[infoset]), int(infosets.num_actions[infoset])
    actions = infosets.action[first : first + count].tolist()
    if action not in actions:
        return 0.0
    return float(policy.probabilities[player][first - 1 + actions.index(action), 0])


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize("player", (0, 1))
def test_every_action_is_the_best_estimate(name: str, player: int) -> None:
    tree = tree_of(name)
    model = Policy.dirichlet(tree, 4)
    rows = local_best_response(Policy.stack([Policy.uniform(tree), model]), player).probabilities[player][
        :, 1
    ]
    infosets = tree.infosets[player]
    drawn = np.random.default_rng(0).choice(len(infosets), 60, replace=False)
    told: set[int] = set()
    for infoset in drawn.tolist():
        expected = expected_action(tree, model, player, infoset)
        first, count = int(infosets.first_sequence[infoset]), int(infosets.num_actions[infoset])
        chosen = infosets.action[first : first + count][rows[first - 1 : first - 1 + count] == 1]
        assert len(chosen) == 1
        if expected >= 0:
            assert int(chosen[0]) == expected
            told.add(expected)
    assert told == {FOLD, CALL, RAISE}


@pytest.mark.parametrize("player", (0, 1))
@pytest.mark.slow
def test_it_gains_much_of_a_best_responses_gain(player: int) -> None:
    tree = tree_of("leduc_poker")
    models = jg.make_blueprints(tree, ["uniform", "cfr:10"])
    value = np.mean(jg.game_value(tree))
    gain = jg.evaluate_policy(local_best_response(models, player)).value - value
    most = jg.best_response(models, player).value - (value if player == 0 else -value)
    share = (gain if player == 0 else -gain) / most
    assert (share > 0.4).all() and (share < 1).all()


@pytest.mark.slow
def test_calling_down_at_the_limit_is_another_strategy() -> None:
    """With K = 1 both players call down below the limit; before it a raise may be re-raised."""
    tree = tree_of("leduc_poker")
    model = jg.make_blueprints(tree, "uniform")
    values = jg.ExactValues(call_down(tree))
    found = nested_search(
        tree,
        Policy.uniform(tree),
        values=values,
        opponent=Opponent(model, 1.0),
        solver=Solver(iterations=200, dtype="float64"),
        value=jg.game_value(tree),
    )
    local = local_best_response(model, 0)
    low, high = found.game_value
    gain = jg.evaluate_policy(local).value[0] - (low + high) / 2
    assert found.gain[0] > 1 and abs(found.gain[0] - gain) > 1e-3
