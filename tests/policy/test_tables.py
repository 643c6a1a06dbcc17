"""Policies from dictionaries and data frames, and their rows at an infostate."""

import numpy as np
import pandas as pd
import pytest

import jaxgadget as jg
from jaxgadget import Policy

GAMES = ["kuhn_poker", "goofspiel(imp_info=True,num_cards=3)", "leduc_poker(action_mapping=True)"]


def rows(policy: Policy) -> dict[tuple[int, str], dict[int, float]]:
    names = [(player, name) for player in (0, 1) for name in policy.tree.infoset_names[player]]
    return {key: policy[key] for key in names}


def assert_same(a: Policy, b: Policy) -> None:
    assert a.labels == b.labels
    for first, second in zip(a.probabilities, b.probabilities, strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("name", GAMES)
def test_dictionaries_there_and_back(name):
    tree = jg.enumerate_game(jg.load(name))
    policy = Policy.dirichlet(tree, 3)
    by_action = rows(policy)
    assert_same(Policy.from_dict(tree, by_action, "dirichlet:3"), policy)
    in_order = {key: list(row.values()) for key, row in by_action.items()}
    assert_same(Policy.from_dict(tree, in_order, "dirichlet:3"), policy)


def test_actions_that_are_left_out_have_no_probability(kuhn):
    given = {name: {1: 1.0} for player in (0, 1) for name in kuhn.infoset_names[player]}
    policy = Policy.from_dict(kuhn, given)
    assert policy["0pb"] == {0: 0.0, 1: 1.0} and policy.labels == ("dict",)


def test_a_string_of_several_infosets_stands_for_all_of_them():
    tree = jg.enumerate_game(jg.load("leduc_poker(action_mapping=True)"))
    strings = {string for player in (0, 1) for string in tree.infostate_strings[player]}
    assert len(strings) < sum(map(len, tree.infosets))
    policy = Policy.from_dict(tree, {string: {1: 1.0} for string in strings})
    for player in (0, 1):
        np.testing.assert_array_equal(
            policy.probabilities[player][:, 0], tree.infosets[player].action[1:] == 1
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"0pb": None}, "player 0"),
        ({"0pbx": [0.5, 0.5]}, "1 infostates that are not in kuhn_poker, such as '0pbx'"),
        ({"0pb": {2: 1.0}}, r"at '0pb' of kuhn_poker has probabilities for \[2\]"),
        ({"0pb": [1.0]}, r"at '0pb' of kuhn_poker is \[1\.0\]"),
        ({"0pb": "bet"}, "at '0pb' of kuhn_poker is 'bet'"),
        ({"0pb": [0.5, 0.6]}, "distribution"),
    ],
)
def test_dictionaries_that_are_no_policy(kuhn, change, message):
    given = {name: [0.5, 0.5] for player in (0, 1) for name in kuhn.infoset_names[player]}
    given = {name: row for name, row in {**given, **change}.items() if row is not None}
    with pytest.raises(ValueError, match=message):
        jg.nash_conv(given, tree=kuhn)


def test_duplicate_infosets_agree_or_are_refused(kuhn):
    given = {name: [0.5, 0.5] for player in (0, 1) for name in kuhn.infoset_names[player]}
    same = Policy.from_dict(kuhn, given | {(0, "0pb"): {0: 0.5, 1: 0.5}})
    assert_same(same, Policy.from_dict(kuhn, given))
    with pytest.raises(ValueError, match=r"duplicate, with the keys \(0, '0pb'\) and '0pb'"):
        Policy.from_dict(kuhn, given | {(0, "0pb"): [0.25, 0.75]})


@pytest.mark.parametrize("name", GAMES)
def test_frames_there_and_back(name, tmp_path):
    tree = jg.enumerate_game(jg.load(name))
    policy = Policy.stack([Policy.dirichlet(tree, 3), Policy.geometric(tree, 1e-9), Policy.uniform(tree)])
    frame = policy.to_frame()
    assert_same(Policy.from_frame(tree, frame), policy)
    frame.to_parquet(tmp_path / "policy.parquet")
    assert_same(Policy.from_frame(tree, pd.read_parquet(tmp_path / "policy.parquet")), policy)
    mixed = frame.sort_values(["probability", "action"], kind="stable")
    again = Policy.from_frame(tree, mixed)
    for label in policy.labels:
        assert_same(again.lane(label), policy.lane(label))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop(columns="action"), "columns"),
        (lambda f: f[:0], "frame has no rows"),
        (lambda f: f[1:], "player 0"),
        (lambda f: pd.concat([f, f[:1]]), "infostate '0', action 0 is duplicate"),
        (lambda f: f.assign(infostate=f["infostate"] + "x"), "infostate"),
        (lambda f: f.assign(action=f["action"] + 1), "action"),
        (lambda f: f.assign(player=3), "player"),
        (lambda f: f.assign(probability=0.4), "distribution"),
    ],
)
def test_frames_that_are_no_policy(kuhn, change, message):
    with pytest.raises(ValueError, match=message):
        Policy.from_frame(kuhn, change(Policy.uniform(kuhn).to_frame()))


def test_one_infostate(kuhn):
    policy = Policy.geometric(kuhn, 3)
    assert policy["2pb"] == policy[0, "2pb"] == {0: pytest.approx(0.25), 1: pytest.approx(0.75)}
    with pytest.raises(ValueError, match="infostate '2bp' is not an infoset of kuhn_poker"):
        policy["2bp"]
    with pytest.raises(ValueError, match="policy"):
        policy[0]
    several = Policy.stack([policy, Policy.uniform(kuhn)])
    with pytest.raises(ValueError, match=r"the policy has 2 lanes .*policy\.lane\(0\)\['2pb'\]"):
        several["2pb"]
    assert several.lane(1)["2pb"] == several.action_probabilities("2pb", 1) == {0: 0.5, 1: 0.5}


def test_an_infostate_of_both_players():
    tree = jg.enumerate_game(jg.load("goofspiel(num_cards=3)"))
    name = next(name for name in tree.infoset_names[0] if name in tree.infoset_names[1])
    policy = Policy.dirichlet(tree, 0)
    with pytest.raises(ValueError, match="is an infoset of both players"):
        policy[name]
    assert policy[0, name] != policy[1, name]
    assert policy[1, name] == policy.action_probabilities(name, player=1)
