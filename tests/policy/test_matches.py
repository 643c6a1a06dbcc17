"""Matches: sampling compared with exact tables, replays, shared chance, and players' queries."""

import itertools

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given

from jaxgadget.games.registry import load
from jaxgadget.policy import matches as match_module
from jaxgadget.policy import player as play
from jaxgadget.policy.evaluate import evaluate_policy
from jaxgadget.policy.matches import (
    NORMAL_QUANTILE,
    are_wins_equal,
    expected_matches,
    play_matches,
    play_players,
    replay,
    replay_players,
    worst_matchup,
)
from jaxgadget.policy.player import PolicyPlayer
from jaxgadget.policy.policy import Policy
from jaxgadget.tree.history import enumerate_game

GOOFSPIEL = "goofspiel(imp_info=True,num_cards=4,points_order=descending)"
NAMES = ["kuhn_poker", "leduc_poker", GOOFSPIEL, "liars_dice(dice_sides=3)"]
SEATED = ("win_rate", "win_rate_first", "win_rate_second", "mean_return", "mean_return_first")
EVERYBODY = tuple(itertools.product(range(4), repeat=2))


@pytest.fixture(scope="module")
def policies():
    """Four lanes, the first two nearly pure, so that win rates differ much."""
    return {name: lanes(enumerate_game(load(name))) for name in NAMES}


def lanes(tree):
    ratios = [Policy.geometric(tree, 0.1), Policy.geometric(tree, 10), Policy.uniform(tree)]
    return Policy.stack([*ratios, Policy.dirichlet(tree, 7)])


def cross(policy, first, second):
    """One lane as player 0, another as player 1."""
    rows = policy.probabilities[0][:, [first]], policy.probabilities[1][:, [second]]
    return Policy(policy.tree, rows, ("cross",))


def win_rate_as_player_0(policy, first, second):
    """From the definition: a walk from every terminal to the root."""
    tree, total = policy.tree, 0.0
    for end in tree.terminals.tolist():
        likely, h = tree.chance[end], end
        while h:
            for player, lane in ((0, first), (1, second)):
                if tree.action[player, h] >= 0:
                    likely *= policy.probabilities[player][tree.sequence[player, h] - 1, lane]
            h = int(tree.parent[h])
        total += likely * (1.0 if tree.payoff[end] > 0 else 0.5 if tree.payoff[end] == 0 else 0.0)
    return total


def lines(frame):
    """Lines by row and column."""
    return {(line["row"], line["column"]): line for line in frame.to_dict("records")}


# The exact table


@pytest.mark.parametrize("name", NAMES)
def test_expected_returns_are_those_of_the_evaluation(policies, name):
    policy = policies[name]
    frame = expected_matches(policy, EVERYBODY)
    for (a, b), line in zip(EVERYBODY, frame.to_dict("records"), strict=True):
        assert (line["row"], line["column"]) == (policy.labels[a], policy.labels[b])
        first = evaluate_policy(cross(policy, a, b)).value[0]
        second = -evaluate_policy(cross(policy, b, a)).value[0]
        assert line["mean_return_first"] == pytest.approx(first, abs=1e-12)
        assert line["mean_return_second"] == pytest.approx(second, abs=1e-12)
        assert line["mean_return"] == pytest.approx((first + second) / 2, abs=1e-12)


@pytest.mark.parametrize("name", ["kuhn_poker", GOOFSPIEL])
def test_expected_win_rates_are_those_of_a_walk_over_all_histories(policies, name):
    policy = policies[name]
    pairs = [(0, 1), (1, 0), (2, 3), (3, 3)]
    for (a, b), line in zip(pairs, expected_matches(policy, pairs).to_dict("records"), strict=True):
        first, second = win_rate_as_player_0(policy, a, b), 1 - win_rate_as_player_0(policy, b, a)
        assert line["win_rate_first"] == pytest.approx(first, abs=1e-12)
        assert line["win_rate_second"] == pytest.approx(second, abs=1e-12)
        assert line["win_rate"] == pytest.approx((first + second) / 2, abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_expectations_are_zero_sum_and_even_against_oneself(policies, name):
    found = lines(expected_matches(policies[name], EVERYBODY))
    values = [line["win_rate"] for line in found.values()]
    assert max(values) - min(values) > 0.1, "the players are too alike to show anything"
    for (row, column), line in found.items():
        other = found[column, row]
        assert line["win_rate"] + other["win_rate"] == pytest.approx(1, abs=1e-12)
        assert line["win_rate_first"] + other["win_rate_second"] == pytest.approx(1, abs=1e-12)
        assert line["mean_return"] + other["mean_return"] == pytest.approx(0, abs=1e-12)
        if row == column:
            assert line["win_rate"] == pytest.approx(0.5, abs=1e-12)


def test_chunks_of_terminals_change_nothing(policies, monkeypatch):
    policy = policies["liars_dice(dice_sides=3)"]
    whole = expected_matches(policy)
    monkeypatch.setattr(match_module, "TERMINAL_CELLS", 4 * 100 + 1)
    assert policy.tree.num_terminals > 500
    pd.testing.assert_frame_equal(expected_matches(policy), whole, rtol=1e-12, atol=1e-12)


# Sampled against exact


@pytest.mark.parametrize("name", NAMES)
def test_samples_agree_with_expectations(policies, name):
    """Within 4.5 standard errors; not within 20 of another player's expectations."""
    policy = policies[name]
    frame, exact = play_matches(policy, matches=4_000, seed=11).table, expected_matches(policy)
    assert list(frame["row"]) == list(exact["row"]) and list(frame["column"]) == list(exact["column"])
    assert len(frame) == 12 and set(frame["matches"]) == {4_000}
    for value, width in (("win_rate", "ci95"), ("mean_return", "return_ci95")):
        error = frame[width] / NORMAL_QUANTILE
        assert (error > 0).all()
        assert (np.abs(frame[value] - exact[value]) / error).max() < 4.5
        assert (np.abs(frame[value] - exact[value].to_numpy()[::-1]) / error).max() > 20
    largest = np.abs(policy.tree.payoff).max()
    for value, bound in (("win_rate", 0.5), ("mean_return", largest)):
        for seat in ("first", "second"):
            difference = np.abs(frame[f"{value}_{seat}"] - exact[f"{value}_{seat}"])
            assert difference.max() < 4.5 * bound / np.sqrt(4_000)


def test_intervals_have_their_nominal_coverage(policies):
    """200 tables of 6 lines: 95 % of the intervals, up to 2 % (lines share their draws)."""
    policy = policies["kuhn_poker"]
    pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    exact = expected_matches(policy, pairs)
    inside = {"ci95": [], "return_ci95": []}
    for seed in range(200):
        frame = play_matches(policy, matches=300, seed=seed, pairs=pairs).table
        for value, width in (("win_rate", "ci95"), ("mean_return", "return_ci95")):
            inside[width].append(np.abs(frame[value] - exact[value]) <= frame[width])
    for found in inside.values():
        assert np.mean(found) == pytest.approx(0.95, abs=0.02)


def test_the_interval_counts_matches_not_games(policies):
    policy = policies[GOOFSPIEL]
    played = play_matches(policy, matches=50, seed=1, pairs=[(0, 3)])
    payoff = policy.tree.payoff[played.ends[0]]
    score = ((np.sign(payoff[0]) + 1) / 2 + (1 - np.sign(payoff[1])) / 2) / 2
    (line,) = played.table.to_dict("records")
    assert line["win_rate"] == pytest.approx(score.mean())
    assert line["ci95"] == pytest.approx(1.96 * score.std(ddof=1) / np.sqrt(50), rel=1e-4)
    assert np.isnan(play_matches(policy, matches=1, seed=1).table["ci95"]).all()


# A match is determined by seed and number


def test_a_match_replays_from_its_seed(policies):
    for name, policy in policies.items():
        played = play_matches(policy, matches=40, seed=2**63 + 5)
        for row, column in ((0, 3), (2, 1)):
            for k in (0, 1, 3, 4, 39):
                again = replay(policy, policy.labels[row], column, k, 2**63 + 5)
                assert played.moves(row, column, k) == again, name
                first, second = (find(policy.tree, moves) for moves in again)
                assert policy.tree.actor[first] == policy.tree.actor[second] == 0
    assert len({played.moves(0, 3, k) for k in range(40)}) > 10


def find(tree, moves):
    (end,) = [h for h in tree.terminals.tolist() if tree.moves(h) == moves]
    return end


@pytest.mark.parametrize("batch", [1, 100, 1_000])
def test_a_match_does_not_depend_on_the_batch(policies, monkeypatch, batch):
    policy = policies["leduc_poker"]
    whole = play_matches(policy, matches=97, seed=4)
    np.testing.assert_array_equal(play_matches(policy, matches=30, seed=4).ends, whole.ends[:, :, :30])
    alone = play_matches(policy, matches=97, seed=4, pairs=[("uniform", 0)])
    np.testing.assert_array_equal(alone.ends[0], whole.ends[whole.pairs.index((2, 0))])
    monkeypatch.setattr(match_module, "GAMES_AT_ONCE", batch)
    np.testing.assert_array_equal(play_matches(policy, matches=97, seed=4).ends, whole.ends)
    assert (play_matches(policy, matches=97, seed=5).ends != whole.ends).any(axis=2).all()


def test_the_seatings_share_chance_even_where_betting_takes_longer(policies):
    """In Leduc: the same two private cards, and the same public card if both seatings reach it."""
    policy = policies["leduc_poker"]
    tree = policy.tree
    played = play_matches(policy, matches=300, seed=9, pairs=[(2, 3)])
    dealt = [[outcomes(tree, end) for end in ends] for ends in played.ends[0].tolist()]
    other_length = 0
    for first, second in zip(*dealt, strict=True):
        shared = min(len(first), len(second))
        assert shared >= 2 and [c for _, c in first[:shared]] == [c for _, c in second[:shared]]
        other_length += shared == 3 and first[2][0] != second[2][0]
    assert other_length > 10, "the third card always came at the same step"
    assert len({tuple(c for _, c in first) for first in dealt[0]}) > 30


def outcomes(tree, end):
    """Step and outcome of the chance moves of a match."""
    found, h = [], end
    while h:
        if tree.action[2, h] >= 0:
            level = int(np.searchsorted(tree.level_offset, h, side="right"))
            found.append((level, int(tree.action[2, h])))
        h = int(tree.parent[h])
    return found[::-1]


# Games with known results


def test_a_game_without_any_chance(policies):
    """Goofspiel 4, prizes 4 3 2 1: bids 4 3 2 1 win 4 and 3 against bids 1 2 3 4, and lose 2 and 1."""
    tree = policies[GOOFSPIEL].tree
    high = Policy.from_function(tree, lambda p, i, k: np.eye(k)[k - 1], "high")
    low = Policy.from_function(tree, lambda p, i, k: np.eye(k)[0], "low")
    played = play_matches([high, low], matches=10, seed=0)
    assert played.moves("high", "low", 3) == (
        ((3, 0), (2, 1), (1, 2)),  # the last card is forced
        ((0, 3), (1, 2), (2, 1)),
    )
    for frame in (played.table, expected_matches([high, low])):
        mine, theirs = frame.to_dict("records")
        assert [mine[name] for name in SEATED] == [1, 1, 1, 1, 1]
        assert [theirs[name] for name in SEATED] == [0, 0, 0, -1, -1]
    assert (played.table[["ci95", "return_ci95"]] == 0).all(axis=None)


CONSTANT_SUM = """EFG 2 R "Constant" { "One" "Two" }
p "" 1 1 "one" { "low" "even" "high" } 0
t "" 1 "" { 1 5 }
t "" 2 "" { 3 3 }
t "" 3 "" { 4 2 }
"""


def test_a_constant_sum_game_is_won_above_half_of_the_constant(tmp_path):
    path = tmp_path / "constant.efg"
    path.write_text(CONSTANT_SUM, encoding="utf-8")
    tree = enumerate_game(load(str(path)))
    assert tree.constant == 6
    pure = [
        Policy.from_function(tree, lambda p, i, k, place=place: np.eye(k)[place], name)
        for place, name in enumerate(("low", "even", "high"))
    ]
    for frame in (play_matches(pure, matches=3, seed=0).table, expected_matches(pure)):
        found = lines(frame)
        seats = {key: (line["win_rate_first"], line["win_rate_second"]) for key, line in found.items()}
        # The first seat alone decides.
        assert seats["low", "even"] == (0, 0.5) and seats["even", "low"] == (0.5, 1)
        assert seats["high", "even"] == (1, 0.5) and seats["high", "low"] == (1, 1)
        assert [found["high", "low"][f"mean_return_{seat}"] for seat in ("first", "second")] == [4, 5]
        assert found["low", "high"]["mean_return"] == 1.5


# Players


class Recorder:
    """Plays a policy and records the queries."""

    def __init__(self, policy, lane):
        self.player = PolicyPlayer(policy, lane)
        self.asked = []

    def action_probabilities(self, tree, player, histories):
        self.asked.append((player, histories))
        return self.player.action_probabilities(tree, player, histories)


def test_all_pending_games_of_a_player_are_one_call_a_step(policies):
    policy = policies["leduc_poker"]
    tree = policy.tree
    players = {label: Recorder(policy, lane) for lane, label in enumerate(policy.labels)}
    played = play_players(tree, players, matches=200, seed=3)
    np.testing.assert_array_equal(played.ends, play_matches(policy, matches=200, seed=3).ends)
    assert replay_players(tree, players, 1, "uniform", 5, 3) == played.moves(1, "uniform", 5)
    steps = len(tree.level_offset) - 1
    for recorder in players.values():
        assert len(recorder.asked) <= 2 * 2 * steps
        assert max(len(histories) for _, histories in recorder.asked) > 30
        for player, histories in recorder.asked:
            assert (np.diff(histories) > 0).all()
            assert (tree.infoset[player, histories] >= 0).all()


class Answers:
    """Modifies a policy's probabilities."""

    def __init__(self, policy, change):
        self.player, self.change = PolicyPlayer(policy), change

    def action_probabilities(self, tree, player, histories):
        return self.change(self.player.action_probabilities(tree, player, histories))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[:, :1], "shape"),
        (lambda rows: rows[:0], "shape"),
        (lambda rows: rows[0], "shape"),
        (lambda rows: rows * 0.9, "history"),
        (lambda rows: rows * np.nan, "history"),
        (lambda rows: rows - [[1, -1, 0, 0]], "numbers >= 0 that sum to 1"),
        (lambda rows: np.pad(0.75 * rows, ((0, 0), (0, 1)), constant_values=0.25), "and 0 elsewhere"),
    ],
)
def test_answers_that_are_no_distribution(policies, change, message):
    policy = policies[GOOFSPIEL]
    players = {"good": PolicyPlayer(policy), "bad": Answers(policy, change)}
    with pytest.raises(ValueError, match=message):
        play_players(policy.tree, players, matches=5, seed=0)


# Random numbers


def test_random_numbers_are_those_of_philox():
    """The recipe is fixed, so that seeds reproduce: key (seed, player · 2³² + move), four matches a step."""
    generator = np.random.Philox(key=[7, (2 << 32) + 1])
    expected = (generator.random_raw(25) >> np.uint64(11)) / 2**53
    for matches in (range(25), range(6, 25), range(8, 9)):
        rows = np.arange(len(matches))
        found = play._uniforms(7, 2, np.ones(len(rows), int), matches, rows)
        np.testing.assert_array_equal(found, expected[matches.start : matches.stop])


@given(
    st.lists(st.sampled_from([0.0, 1e-300, 0.25, 0.3, 1.0]), min_size=1, max_size=9).filter(any),
    st.one_of(st.floats(0, 1, exclude_max=True), st.sampled_from([0.0, 1 - 2.0**-53])),
)
@example([0.0, 1.0], 0.0)
@example([0.3, 0.3, 0.0], 1 - 2.0**-53)
@example([0.25, 0.25, 0.0, 0.5], 0.5)
def test_draws_follow_the_cumulative_sum_and_skip_zero_weights(weights, uniform):
    (place,) = play.draw_options(np.array([weights]), np.zeros(1, int), np.array([uniform]))
    assert weights[place] > 0
    total = np.cumsum(weights)
    assert total[place] > uniform * total[-1] or place == np.nonzero(weights)[0][-1]
    assert place == 0 or total[place - 1] <= uniform * total[-1]


# Worst matchups, and errors


def test_the_worst_matchup_of_every_row(policies):
    frame = pd.DataFrame(
        [
            ("a", "a", 0.1),
            ("a", "b", 0.6),
            ("a", "c", 0.4),
            ("c", "a", 0.6),
            ("b", "a", 0.4),
            ("b", "c", 0.4),
        ],
        columns=["row", "column", "win_rate"],
    )
    worst = worst_matchup(frame)
    assert worst.to_numpy().tolist() == [["a", "c", 0.4], ["c", "a", 0.6], ["b", "a", 0.4]]
    with pytest.raises(ValueError, match="no pair of different players"):
        worst_matchup(frame[:1])
    exact = worst_matchup(expected_matches(policies[GOOFSPIEL], EVERYBODY))
    assert len(exact) == 4 and (exact["row"] != exact["column"]).all() and set(SEATED) <= set(exact.columns)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"matches": 0}, "matches="),
        ({"seed": None}, "seed="),
        ({"pairs": [(0, 4)]}, r"pair \(0, 4\)"),
        ({"pairs": [(0, 1, 2)]}, r"pair \(0, 1, 2\)"),
    ],
)
def test_bad_arguments(policies, arguments, message):
    with pytest.raises(ValueError, match=message):
        play_matches(policies["kuhn_poker"], **{"matches": 1, "seed": 0, **arguments})


def test_win_rates_determine_returns_if_wins_pay_equally() -> None:
    games = {
        "kuhn_poker": False,
        "liars_dice(dice_sides=2)": True,
        "goofspiel(num_cards=3)": True,
    }
    assert {name: are_wins_equal(enumerate_game(load(name))) for name in games} == games
