"""Values, best responses, exploitability and NashConv against references, OpenSpiel and definitions."""

import itertools
import json
import pathlib

import numpy as np
import pytest

import jaxgadget
from jaxgadget import (
    Policy,
    best_response,
    evaluate_policy,
    exploitability,
    game_value,
    load,
    nash_conv,
)
from jaxgadget.policy import evaluate
from jaxgadget.tree.history import enumerate_game
from tests.core.grove import grove
from tests.reference import efg
from tests.reference.random_games import random_policy

GAMES = json.loads((pathlib.Path(__file__).parents[1] / "data" / "games.json").read_text(encoding="utf-8"))
GOOFSPIEL = "goofspiel(imp_info=True,num_cards=4,points_order=descending)"
LARGEST = ("liars_dice(numdice=1,dice_sides=5)", GOOFSPIEL.replace("4", "5"))
QUICK = [entry for entry in GAMES if entry["game"] not in LARGEST]
CHEAP = ["kuhn_poker", "leduc_poker", GOOFSPIEL.replace("4", "3"), GOOFSPIEL]


@pytest.fixture(scope="module")
def trees():
    """One tree per game, so that compiled programs are shared."""
    made = {}

    def make(name):
        if name not in made:
            made[name] = enumerate_game(load(name))
        return made[name]

    return make


def three(tree):
    return Policy.stack([Policy.uniform(tree), Policy.geometric(tree, 0.5), Policy.geometric(tree, 2)])


# The reference


@pytest.mark.parametrize("entry", GAMES, ids=[entry["game"] for entry in GAMES])
def test_best_response_values_are_the_references(trees, entry):
    found = evaluate_policy(three(trees(entry["game"])))
    names = ("uniform", "geometric", "reverse_geometric")
    expected = np.transpose([entry["best_response_values"][name] for name in names])
    np.testing.assert_allclose(found.best_response_values, expected, rtol=0, atol=1e-6)
    np.testing.assert_allclose(found.nash_conv, expected.sum(axis=0), rtol=0, atol=2e-6)


@pytest.mark.parametrize("name", CHEAP)
def test_large_games_are_evaluated_terminal_by_terminal(trees, name, monkeypatch):
    """The numbers are the same, and the payoff is not materialised."""
    expected, tree = three(trees(name)), enumerate_game(load(name))
    monkeypatch.setattr(evaluate, "MAX_LAID_OUT", 1)
    policy = expected.on(tree)
    found, laid_out = evaluate_policy(policy), evaluate_policy(expected)
    np.testing.assert_allclose(found.value, laid_out.value, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.best_response_values, laid_out.best_response_values, rtol=0, atol=1e-12)
    for player in (0, 1):
        one, other = best_response(policy, player), best_response(expected, player)
        np.testing.assert_allclose(one.action_values, other.action_values, rtol=0, atol=1e-12)
    assert "sequence form" not in tree.cache


@pytest.mark.parametrize("entry", QUICK, ids=[entry["game"] for entry in QUICK])
def test_game_values_lie_in_their_certified_bracket(trees, entry):
    check_bracket(trees(entry["game"]), entry)  # the largest games: tests/slow


def check_bracket(tree, entry):
    """OpenSpiel's rules and HiGHS gave the numbers; CFR+ gives the bracket with its own gap."""
    expected = entry["value_player0"]
    tolerance = 1e-5 if entry["game"] in CHEAP else 1e-3
    low, high = game_value(tree, tolerance=tolerance)
    assert 0 <= high - low <= tolerance * tree.payoff_range
    assert low - 1e-9 <= expected <= high + 1e-9


def test_brackets_are_tight_by_default(trees):
    tree = trees("kuhn_poker")
    low, high = game_value(tree)
    assert high - low <= 1e-6 * tree.payoff_range and low - 1e-9 <= -1 / 18 <= high + 1e-9
    assert game_value(tree) is game_value(tree)  # found once
    wide = game_value(tree, tolerance=0.05)
    assert wide[1] - wide[0] <= 0.05 * tree.payoff_range
    few = game_value(tree, tolerance=0, iterations=7)
    assert few[0] <= -1 / 18 <= few[1]


# The definitions


def profiles_of(tree):
    """Random profiles, the second one with zero rows and reaches; explicit, and as a policy."""
    explicit = [random_policy(tree, np.random.default_rng(seed), zeros) for seed, zeros in ((0, 0), (1, 0.3))]
    rows = [np.stack([efg.to_sequences(tree, lane, p)[1:] for lane in explicit], axis=1) for p in (0, 1)]
    return explicit, Policy(tree, (rows[0], rows[1]), ("plain", "cornered"))


def test_values_are_the_definitions():
    """On all random shapes at once."""
    tree, game = grove(3)
    explicit, policy = profiles_of(tree)
    found = evaluate_policy(policy)
    best = [best_response(policy, player) for player in (0, 1)]
    for lane, profile in enumerate(explicit):
        assert found.value[lane] == pytest.approx(efg.value(game.root, profile), abs=1e-12)
        for player in (0, 1):
            answer = efg.best_response(game.root, player, profile)
            value = efg.sign(player) * efg.value(game.root, {**profile, **answer})
            assert found.best_response_values[1 - player, lane] == pytest.approx(value, abs=1e-12)
            assert best[player].value[lane] == pytest.approx(value, abs=1e-12)
            assert value >= efg.sign(player) * found.value[lane] - 1e-12


@pytest.mark.parametrize("name", ["kuhn_poker", "leduc_poker", "all shapes"])
def test_best_responses_attain_their_values(trees, name):
    tree = grove(3)[0] if name == "all shapes" else trees(name)
    policy = Policy.stack([three(tree), Policy.dirichlet(tree, 4)])
    found = evaluate_policy(policy)
    for player in (0, 1):
        best = best_response(policy, player)
        np.testing.assert_allclose(best.value, found.best_response_values[1 - player], atol=1e-12)
        attained = evaluate_policy(best.policy).value * (1 if player == 0 else -1)
        np.testing.assert_allclose(attained, best.value, atol=1e-12)
        theirs = (best.policy.probabilities[1 - player], policy.probabilities[1 - player])
        np.testing.assert_array_equal(*theirs)
        rows = best.policy.probabilities[player]
        assert set(np.unique(rows)) == {0, 1} and best.policy.labels == policy.labels


def test_counterfactual_best_response_values():
    """Of actions, with best play below them, weighted by the reach of chance and the other player."""
    tree, game = grove(3)
    explicit, policy = profiles_of(tree)
    for player in (0, 1):
        found = best_response(policy, player)
        for lane, profile in enumerate(explicit):
            answer = efg.best_response(game.root, player, profile)
            expected = efg.counterfactual_values(game.root, player, {**profile, **answer})
            infosets = tree.infosets[player]
            for j, (first, count) in enumerate(
                zip((infosets.first_sequence - 1).tolist(), infosets.num_actions.tolist(), strict=True)
            ):
                values = found.action_values[first : first + count, lane]
                np.testing.assert_allclose(values, expected[player, j], atol=1e-12)
                assert found.infoset_values[j, lane] == pytest.approx(values.max(), abs=1e-12)


@pytest.mark.parametrize("player", [0, 1])
def test_exploitability_is_the_loss_against_the_games_value(trees, player):
    tree = trees("kuhn_poker")
    policy = three(tree)
    own = (-1 / 18, 1 / 18)[player]  # the player's value of the game
    expected = own + evaluate_policy(policy).best_response_values[player]
    np.testing.assert_allclose(exploitability(policy, player), expected, atol=1e-5)
    np.testing.assert_allclose(exploitability(policy, player, value=(-1 / 18, -1 / 18)), expected, atol=1e-12)
    shifted = exploitability(policy, player, value=(0, 0.5))
    np.testing.assert_allclose(shifted - expected, (0.25 if player == 0 else -0.25) - own, atol=1e-12)


def test_a_players_constant_is_taken_off(tmp_path):
    """Half of a constant sum is subtracted for each player; NashConv ignores it."""
    path = tmp_path / "constant.efg"
    leaves = [('"hh"', 5, 1), ('"ht"', 1, 5), ('"th"', 1, 5), ('"tt"', 5, 1)]
    text = 'EFG 2 R "pennies" { "A" "B" }\np "" 1 1 "" { "h" "t" } 0\n'
    for number, (name, a, b) in enumerate(leaves, 1):
        text += 'p "" 2 1 "" { "h" "t" } 0\n' if number % 2 else ""
        text += f't "" {number} {name} {{ {a} {b} }}\n'
    path.write_text(text, encoding="utf-8")
    tree = enumerate_game(load(path))
    assert (tree.constant, tree.payoff_range) == (6, 4)
    policy = Policy.stack([Policy.uniform(tree), Policy.geometric(tree, 1 / 3)])
    found = evaluate_policy(policy)
    np.testing.assert_allclose(found.value, [0, 2 * (0.75 - 0.25) ** 2], atol=1e-12)
    np.testing.assert_allclose(found.best_response_values, [[0, 1], [0, 1]], atol=1e-12)
    np.testing.assert_allclose(nash_conv(policy), [0, 2], atol=1e-12)
    low, high = game_value(tree)
    assert low <= 1e-9 and high >= -1e-9


# OpenSpiel


def opened(policy, lane, turn_based):
    """OpenSpiel's C++ policy of one lane; a turn-based conversion prefixes strings with the player."""
    pyspiel = pytest.importorskip("pyspiel")
    table = {}
    for player, name in ((p, name) for p in (0, 1) for name in policy.tree.infoset_names[p]):
        key = f"Current player: {player}\n{name}" if turn_based else name
        assert key not in table
        table[key] = list(policy.action_probabilities(name, lane).items())
    return pyspiel.TabularPolicy(table)


@pytest.mark.parametrize(
    "name",
    [
        "kuhn_poker",
        "leduc_poker",
        "liars_dice(numdice=1,dice_sides=4)",
        GOOFSPIEL,
    ],
)
def test_half_of_nash_conv_is_openspiels_exploitability(trees, name):
    pyspiel = pytest.importorskip("pyspiel")
    tree = trees(name)
    solved = jaxgadget.solve(tree, algorithm="pcfr+", iterations=30).policy  # as in `game_value`
    policy = Policy.stack([Policy.uniform(tree), solved, Policy.dirichlet(tree, 0)])
    game, turn_based = pyspiel.load_game(name), "goofspiel" in name
    if turn_based:
        game = pyspiel.convert_to_turn_based(game)
    ours = nash_conv(policy) / 2
    theirs = [pyspiel.exploitability(game, opened(policy, lane, turn_based)) for lane in range(3)]
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)
    assert ours[1] < ours[0] / 2


def test_lanes_are_evaluated_one_like_the_other(trees):
    """The number of lanes and a lane's position have no effect."""
    tree = trees("kuhn_poker")
    many = Policy.stack([Policy.dirichlet(tree, seed) for seed in range(37)])
    together = evaluate_policy(many)
    assert together.value.shape == (37,) and together.best_response_values.shape == (2, 37)
    best = best_response(many, 1)
    for lane in (0, 15, 16, 36):
        alone = evaluate_policy(many.lane(lane))
        assert alone.value[0] == pytest.approx(together.value[lane], abs=1e-14)
        np.testing.assert_allclose(
            alone.best_response_values[:, 0], together.best_response_values[:, lane], atol=1e-14
        )
        assert best.value[lane] == pytest.approx(together.best_response_values[0, lane], abs=1e-14)


def test_games_without_choices_of_a_player(tmp_path):
    """A player without actions has no rows, and the other's best response is a plain maximum."""
    path = tmp_path / "alone.efg"
    path.write_text(
        'EFG 2 R "alone" { "A" "B" }\nc "" 1 "" { "x" 1/4 "y" 3/4 } 0\n'
        'p "" 1 1 "" { "l" "r" } 0 t "" 1 "" { 1 -1 } t "" 2 "" { 2 -2 }\nt "" 3 "" { -4 4 }\n',
        encoding="utf-8",
    )
    tree = enumerate_game(load(path))
    policy = Policy.uniform(tree)
    assert [len(rows) for rows in policy.probabilities] == [2, 0]
    found = evaluate_policy(policy)
    assert (found.value[0], *found.best_response_values[:, 0]) == (-2.625, 2.625, -2.5)
    assert list(itertools.chain(best_response(policy, 0).policy.probabilities[0][:, 0])) == [0, 1]
