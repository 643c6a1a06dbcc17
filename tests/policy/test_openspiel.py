"""OpenSpiel's policies as blueprints: every policy interface, read at OpenSpiel's own states."""

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget import Policy
from tests.solving import sweeping
from tests.trees import tree_of

pyspiel = pytest.importorskip("pyspiel")

GOOFSPIEL = "goofspiel(imp_info=True,num_cards=3,points_order=descending)"


def solver(game, iterations: int):
    from open_spiel.python.algorithms import external_sampling_mccfr

    np.random.seed(3)
    made = external_sampling_mccfr.ExternalSamplingSolver(game)
    for _ in range(iterations):
        made.iteration()
    return made


def assert_says_the_same(policy: Policy, theirs, state) -> None:
    """At every state of the game with a single actor, by OpenSpiel's own traversal."""
    if state.is_terminal():
        return
    if not state.is_chance_node():
        player = state.current_player()
        own = policy[player, state.information_state_string(player)]
        assert own == pytest.approx(theirs.action_probabilities(state), abs=1e-12)
    for action in state.legal_actions():
        assert_says_the_same(policy, theirs, state.child(action))


@pytest.mark.parametrize("name", ["kuhn_poker", "openspiel:kuhn_poker", "liars_dice(dice_sides=2)"])
def test_average_policies_of_python_solvers(name):
    tree, game = tree_of(name), pyspiel.load_game(name.removeprefix("openspiel:"))
    theirs = solver(game, 20).average_policy()
    policy = Policy.from_openspiel(tree, theirs)
    assert policy.labels == ("openspiel",)
    assert_says_the_same(policy, theirs, game.new_initial_state())
    assert not np.allclose(policy.probabilities[0], Policy.uniform(tree).probabilities[0])


def test_policies_of_the_extension_module():
    tree, game = tree_of("leduc_poker"), pyspiel.load_game("leduc_poker")
    made = pyspiel.CFRSolver(game)
    for _ in range(3):
        made.evaluate_and_update_policy()
    policy = Policy.from_openspiel(tree, made.average_policy(), "cfr")
    from open_spiel.python.algorithms.exploitability import nash_conv

    table = policy.to_openspiel()
    assert nash_conv(game, table) == pytest.approx(jg.nash_conv(policy)[0], abs=1e-9)
    assert nash_conv(game, made.average_policy()) == pytest.approx(jg.nash_conv(policy)[0], abs=1e-9)


class Greedy:
    """A user-defined policy with OpenSpiel's interface, without a game attribute."""

    def action_probabilities(self, state, player_id=None):
        player = state.current_player() if player_id is None else player_id
        legal = state.legal_actions(player)
        return {legal[-1]: 1.0}


@pytest.mark.parametrize("name", ["kuhn_poker", GOOFSPIEL])
def test_anything_that_answers_at_a_state(name):
    tree = tree_of(name)
    policy = Policy.from_openspiel(tree, Greedy())
    for player in (0, 1):
        infosets = tree.infosets[player]
        last = infosets.first_sequence + infosets.num_actions - 2
        expected = np.zeros(infosets.num_sequences - 1)
        expected[last] = 1
        np.testing.assert_array_equal(policy.probabilities[player][:, 0], expected)


def test_a_turn_based_version_of_a_simultaneous_game():
    """Player 1's rows come from the states after player 0's unseen choice."""
    tree = tree_of(GOOFSPIEL)
    game = pyspiel.convert_to_turn_based(pyspiel.load_game(GOOFSPIEL))
    theirs = solver(game, 30).average_policy()
    policy = Policy.from_openspiel(tree, theirs)
    state = game.new_initial_state()
    assert policy[0, tree.infoset_names[0][0]] == pytest.approx(theirs.action_probabilities(state))
    state.apply_action(1)
    name = state.information_state_string(1).partition("\n")[2]
    assert policy[1, name] == pytest.approx(theirs.action_probabilities(state))
    # Both players' values, from OpenSpiel's traversal of the turn-based game.
    from open_spiel.python.algorithms.expected_game_score import policy_value

    first, _ = policy_value(game.new_initial_state(), [theirs, theirs])
    assert jg.evaluate_policy(policy).value[0] == pytest.approx(first, abs=1e-12)


def test_policies_of_another_game_are_refused():
    from open_spiel.python.policy import UniformRandomPolicy

    theirs = UniformRandomPolicy(pyspiel.load_game("leduc_poker"))
    with pytest.raises(ValueError, match="kuhn_poker"):
        Policy.from_openspiel(tree_of("kuhn_poker"), theirs)
    with pytest.raises(ValueError, match="coin_toss"):
        Policy.from_openspiel(tree_of("coin_toss"), Greedy())


def test_rows_that_are_not_distributions_are_refused():
    class Strange(Greedy):
        def action_probabilities(self, state, player_id=None):
            return {7: 1.0}

    with pytest.raises(ValueError, match="kuhn_poker"):
        Policy.from_openspiel(tree_of("kuhn_poker"), Strange())

    class Idle(Greedy):
        def action_probabilities(self, state, player_id=None):
            return {}

    with pytest.raises(ValueError, match="distribution"):
        Policy.from_openspiel(tree_of("kuhn_poker"), Idle())


# --- every function that takes a blueprint -------------------------------------------------


def test_a_sweep_resumes_with_policies(tmp_path):
    tree = tree_of("kuhn_poker")
    first, second = Policy.dirichlet(tree, 1), Policy.dirichlet(tree, 2)
    how = {"gadgets": "unsafe", "priors": "none", "players": 0, "iterations": 5}
    rows = jg.sweep(
        tmp_path, **sweeping(games={"kuhn_poker": "depth:1"}, blueprints=["uniform", first], **how)
    )
    assert rows["blueprint"].tolist() == ["uniform", "dirichlet:1"]
    again = jg.sweep(
        tmp_path, **sweeping(games={"kuhn_poker": "depth:1"}, blueprints=["uniform", first], **how)
    )
    assert again.equals(rows)
    with pytest.raises(ValueError, match="blueprints"):
        jg.sweep(tmp_path, **sweeping(games={"kuhn_poker": "depth:1"}, blueprints=["uniform", second], **how))
    for blueprints, games, message in (
        ([first, first], {"kuhn_poker": "depth:1"}, "duplicate labels 'dirichlet:1'"),
        ([first, "dirichlet:1"], {"kuhn_poker": "depth:1"}, "dirichlet:1"),
        ([first], {"kuhn_poker": "depth:1", "coin_toss": "depth:1"}, "policies are for one game"),
    ):
        with pytest.raises(ValueError, match=message):
            jg.sweep(tmp_path / "other", **sweeping(games=games, blueprints=blueprints, **how))


def test_a_table_of_the_turn_based_version():
    from open_spiel.python.policy import TabularPolicy

    tree = tree_of(GOOFSPIEL)
    table = TabularPolicy(pyspiel.convert_to_turn_based(pyspiel.load_game(GOOFSPIEL)))
    rng = np.random.default_rng(0)
    weight = rng.random(table.action_probability_array.shape) * table.legal_actions_mask
    table.action_probability_array[:] = weight / weight.sum(axis=1, keepdims=True)
    policy = Policy.from_openspiel(tree, table)
    for player in (0, 1):
        for name in tree.infoset_names[player]:
            row = table.action_probability_array[table.state_lookup[f"Current player: {player}\n{name}"]]
            assert policy[player, name] == pytest.approx({a: row[a] for a in policy[player, name]})
