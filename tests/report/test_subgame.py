"""Strategies and ranges in one subgame, compared with recursion over histories and all pure strategies."""

import dataclasses
import functools
import itertools
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.axes import Axes

import jaxgadget as jg
from jaxgadget.games.stepwise import Rules, Step
from jaxgadget.report import range_frame, range_picture, strategy_frame, strategy_picture
from jaxgadget.report.names import short_names
from tests.report.test_plots import new_axes
from tests.trees import kuhn

LANE = 3  # the second blueprint's second gadget


@functools.cache
def refined(player: int) -> jg.Refinement:
    blueprints = [jg.Policy.dirichlet(kuhn(), seed) for seed in (3, 4)]
    gadgets = [jg.Unsafe(), jg.MaxMargin(jg.UniformPrior(), 0.1)]
    return jg.refine(kuhn(), "depth:1", blueprints, gadgets, player=player, iterations=40)


def own_reach(policy: jg.Policy, player: int, history: int) -> float:
    """A player's own reach of a history, by walking to the root."""
    tree, reach = policy.tree, 1.0
    while history:
        above = int(tree.parent[history])
        infoset = int(tree.infoset[player, above])
        if infoset >= 0:
            name = tree.infoset_names[player][infoset]
            reach *= policy.action_probabilities(name)[int(tree.action[player, history])]
        history = above
    return reach


def blueprint_of(refinement: jg.Refinement, lane: int) -> jg.Policy:
    return refinement.blueprint.lane(lane % 2)


@pytest.mark.parametrize("player", [0, 1])
@pytest.mark.parametrize("subgame", [0, 1])
def test_strategy_frame(player: int, subgame: int):
    refinement, tree = refined(player), kuhn()
    frame = strategy_frame(refinement, subgame, LANE)
    policies = {"blueprint": blueprint_of(refinement, LANE), "refined": refinement.policy.lane(LANE)}
    for row in frame.to_dict("records"):
        assert row["infostate"] == tree.infoset_names[player][row["infoset"]]
        assert row["action_name"] == ("Pass", "Bet")[row["action"]]
        histories = np.nonzero(tree.infoset[player] == row["infoset"])[0].tolist()
        assert len(histories) == 2
        for name, policy in policies.items():
            assert row[name] == policy.action_probabilities(row["infostate"])[row["action"]]
            reach = sum(tree.chance[h] * own_reach(policy, 0, h) * own_reach(policy, 1, h) for h in histories)
            assert row[f"reach_{name}"] == pytest.approx(reach, abs=1e-12)
    expected = {
        (0, 0): ["0pb", "1pb", "2pb"],
        (0, 1): [],
        (1, 0): ["0p", "1p", "2p"],
        (1, 1): ["0b", "1b", "2b"],
    }
    assert frame["infostate"].tolist() == [name for name in expected[player, subgame] for _ in range(2)]
    assert frame["action"].tolist() == [0, 1] * len(expected[player, subgame])


def best_pure_reaches(policy: jg.Policy, player: int, histories: list[int]) -> list[list[float]]:
    """Reaches of histories under every pure best response of a player to a policy."""
    tree = policy.tree
    other = 1 - player
    sign = 1 if player == 0 else -1
    terminals = tree.terminals.tolist()
    weight = [sign * tree.payoff[z] * tree.chance[z] * own_reach(policy, other, z) for z in terminals]
    count = len(tree.infosets[player])
    pure_reaches: list[tuple[float, list[float]]] = []
    for choice in itertools.product((0, 1), repeat=count):
        pure = jg.Policy.from_function(
            tree, lambda p, i, k, c=choice: np.eye(2)[c[i]] if p == player else [0.5, 0.5], "pure"
        )
        value = sum(w * own_reach(pure, player, z) for w, z in zip(weight, terminals, strict=True))
        pure_reaches.append((value, [own_reach(pure, player, h) for h in histories]))
    best = max(value for value, _ in pure_reaches)
    return [reaches for value, reaches in pure_reaches if value > best - 1e-9]


@pytest.mark.parametrize("player", [0, 1])
@pytest.mark.parametrize("subgame", [0, 1])
def test_range_frame(player: int, subgame: int):
    refinement, tree, opponent = refined(player), kuhn(), 1 - player
    frame = range_frame(refinement, subgame, LANE)
    where = refinement.forest.cut
    roots = where.roots[where.subgame == subgame]
    states = [int(refinement.forest.roots[opponent].infostate[root]) for root in frame["root"]]
    groups = [[int(h) for h in roots if tree.infostate[opponent, h] == state] for state in states]
    assert [len(group) for group in groups] == [2, 2, 2]
    before, after = blueprint_of(refinement, LANE), refinement.policy.lane(LANE)
    reach = np.array([own_reach(before, opponent, group[0]) for group in groups])
    np.testing.assert_allclose(frame["blueprint_reach"], reach, atol=1e-12)
    np.testing.assert_allclose(frame["blueprint"], reach / reach.sum(), atol=1e-12)
    mass = [sum(tree.chance[h] * own_reach(after, player, h) for h in group) for group in groups]
    np.testing.assert_allclose(frame["resolver_reach"], mass, atol=1e-12)
    response = frame["response_reach"].tolist()
    assert response in best_pure_reaches(after, opponent, [group[0] for group in groups])
    np.testing.assert_allclose(frame["response"], np.array(response) / sum(response))


def never_bet() -> jg.Refinement:
    """Player 1 bets after every pass and calls every bet, but only half of the time with the lowest card.

    Passing is therefore player 0's only best action, with every card.
    """
    calls = {"0b": 0.5, "1b": 1.0, "2b": 1.0, "0p": 1.0, "1p": 1.0, "2p": 1.0}
    names = kuhn().infoset_names[1]
    policy = jg.Policy.from_function(
        kuhn(), lambda p, i, k: [1 - calls[names[i]], calls[names[i]]] if p else [0.5, 0.5], "calls"
    )
    return dataclasses.replace(refined(1), blueprint=policy, policy=policy)


def test_a_best_response_without_reach_is_reported():
    refinement = never_bet()
    frame = range_frame(refinement, 1)
    assert frame["response_reach"].tolist() == [0, 0, 0]
    assert frame["response"].isna().all()
    np.testing.assert_allclose(frame["blueprint"], 1 / 3)
    texts = [text.get_text() for text in range_picture(refinement, 1, ax=new_axes()).texts]
    assert texts == ["The best response never reaches this subgame"]
    assert range_frame(refinement, 0)["response"].tolist() == pytest.approx([1 / 3] * 3)
    assert not range_picture(refinement, 0, ax=new_axes()).texts


class HiddenCoin(Rules[tuple[int, ...]]):
    """Player 0 sees a coin and never acts, player 1 guesses it."""

    name = "hidden_coin"
    actions = ("heads", "tails")

    def initial_state(self) -> tuple[int, ...]:
        return ()

    def actors(self, state: tuple[int, ...]) -> tuple[int, ...]:
        return ((4,), (1,), ())[len(state)]

    def legal_actions(self, state: tuple[int, ...], player: int) -> list[int]:
        return [0, 1]

    def chance_outcomes(self, state: tuple[int, ...]) -> list[tuple[int, float]]:
        return [(0, 0.5), (1, 0.5)]

    def step(self, state: tuple[int, ...], move: int) -> Step[tuple[int, ...]]:
        reward = 1.0 if state and state[0] != move else 0.0
        return Step((*state, move), reward, private=(None if state else move, None))


def test_an_opponent_without_decisions():
    tree = jg.enumerate_game(jg.load(HiddenCoin()))
    policy = jg.Policy.geometric(tree, 0.25)
    refinement = jg.refine(tree, "depth:0", policy, jg.Unsafe(), player=1, iterations=20)
    frame = range_frame(refinement, 0)
    assert frame["infostate"].tolist() == ["root infostate 0", "root infostate 1"]
    assert frame["response"].tolist() == frame["resolver_reach"].tolist() == [0.5, 0.5]
    assert len(range_picture(refinement, 0, ax=new_axes()).get_yticklabels()) == 2
    assert strategy_picture(refinement, 0, ax=new_axes()).get_yticklabels()[0].get_text() == "1:"


def rows_of(ax: Axes) -> list[str]:
    low, high = ax.get_ylim()
    assert low > high, "the first row is on top"
    return [label.get_text() for label in ax.get_yticklabels()]


def test_short_names_omit_common_parts():
    names = [
        f"[Observer: 0][Private: {card}][Pot: {pot}][Money: {100 - pot // 2}][Public: 4][Round2: {bets}]"
        for card in (0, 3)
        for pot, bets in ((2, ""), (8, "1 2"))
    ]
    short, shared = short_names(names)
    assert short == [
        "Private: 0, Round2:",
        "Private: 0, Round2: 1 2",
        "Private: 3, Round2:",
        "Private: 3, Round2: 1 2",
    ]
    assert shared == "Observer: 0, Public: 4"
    assert short_names(["0pb", "1pb"]) == (["0pb", "1pb"], "")
    assert short_names(["0, then Bet", "1, then Bet"]) == (["0", "1"], "then Bet")
    assert short_names(["[Private: 1][Public: 2]"]) == (["Private: 1, Public: 2"], "")
    assert short_names(["a, b", "a|b"]) == (["a, b", "a|b"], "a, b"), "unlike only in between"


def test_matplotlib_is_not_imported_with_the_module():
    names = ("matplotlib", "scipy.stats")
    code = f"import sys, jaxgadget.report; print(*(name in sys.modules for name in {names}))"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert finished.stdout.split() == ["False", "False"]
