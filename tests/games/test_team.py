"""Games of several players as two-player games: seats, information, and teammates' policies."""

import dataclasses
import itertools
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest

import jaxgadget
from jaxgadget.games.game import CHANCE, PLAYER_0, PLAYER_1
from jaxgadget.games.multiplayer import CHANCE_SEAT, MultiplayerRules, MultiplayerStep
from jaxgadget.games.registry import load
from jaxgadget.games.team import Seen, own_decision, team, uniform
from jaxgadget.tree.cut import cut
from jaxgadget.tree.history import enumerate_game
from tests.games.test_contract import check_contract


class Cards(NamedTuple):
    hands: tuple[int, ...] = ()
    line: str = ""


class Kuhn(MultiplayerRules[Cards]):
    """Two-player Kuhn poker with one chance move per card."""

    name = "kuhn"
    actions = ("pass", "bet")
    num_players = 2

    def initial_state(self):
        return Cards()

    def actors(self, state):
        if len(state.hands) < 2:
            return (CHANCE_SEAT,)
        return () if state.line in ("pp", "bp", "bb", "pbp", "pbb") else (len(state.line) % 2,)

    def chance_outcomes(self, state):
        left = [card for card in range(3) if card not in state.hands]
        return [(card, 1 / len(left)) for card in left]

    def legal_actions(self, state, seat):
        return (1, 0)

    def step(self, state, move):
        if len(state.hands) < 2:
            private = [move if seat == len(state.hands) else None for seat in (0, 1)]
            return MultiplayerStep(Cards((*state.hands, move)), private=private)
        line = state.line + "pb"[move]
        won = 1 if state.hands[0] > state.hands[1] else -1
        first = {"pp": won, "bp": 1, "pbp": -1, "bb": 2 * won, "pbb": 2 * won}.get(line, 0)
        return MultiplayerStep(Cards(state.hands, line), (first, -first), public=self.actions[move])


def line_table(line: tuple[Any, ...]) -> tuple[int, ...]:
    """Seats 1 and 2 of four act, then 0 and 3 at once."""
    return {0: (CHANCE_SEAT,), 1: (1,), 2: (2,), 3: (3, 0)}.get(len(line), ())


@dataclasses.dataclass
class Signals(MultiplayerRules[tuple[Any, ...]]):
    """A coin that seats 1 and 2 see and then call; finally seats 0 and 3 guess it at once, unseen.

    A state lists the moves. A correct guess of seat 0 or 3 gains 1 for its team, {0, 2} or {1, 3}. Arguments
    given here replace methods of the game.
    """

    name: str = "signals"
    actions: Any = ("heads", "tails", "mumble")
    num_players: Any = 4
    actors_of: Mapping[int, Any] = dataclasses.field(default_factory=dict)
    steps: Mapping[int, Any] = dataclasses.field(default_factory=dict)
    private: tuple[int, ...] = (1, 2)

    def initial_state(self):
        return ()

    def actors(self, state):
        return self.actors_of.get(len(state), line_table(state))

    def chance_outcomes(self, state):
        return [(0, 0.5), (1, 0.5)]

    def legal_actions(self, state, seat):
        return [0, 1] if len(state) == 3 else [0, 1, 2]

    def step(self, state, move):
        if len(state) in self.steps:
            return self.steps[len(state)]
        after = (*state, move)
        if not state:
            return MultiplayerStep(after, private=[move if s in self.private else None for s in range(4)])
        if len(state) < 3:
            return MultiplayerStep(after, public=(len(state), self.actions[move]))
        first, last = (float(guess == state[0]) for guess in move)
        return MultiplayerStep(after, (first - last, last - first, 0, 0))


def value(game):
    return jaxgadget.solve(enumerate_game(game), algorithm="lp").value


def heads_or_tails(memory, legal):
    """Calls the coin that it saw."""
    return [float(action == memory[0].private) for action in legal]


# Seats of the players


def test_two_players_are_the_game_itself():
    for seats, sign in (((0,), 1), ((1,), -1)):
        assert value(team(Kuhn(), seats)) == pytest.approx(sign * -1 / 18, abs=1e-9)
    tree, built_in = enumerate_game(team(Kuhn())), enumerate_game(load("kuhn_poker"))
    assert tree.num_histories == built_in.num_histories
    assert [len(s) for s in tree.infosets] == [len(s) for s in built_in.infosets] == [6, 6]


@pytest.mark.parametrize("seats", [(0,), (1,), (2, 3), (0, 2), (3, 1)])
@pytest.mark.parametrize("mates", [(), (2,), {2: heads_or_tails}])
def test_every_division_keeps_the_contract(seats, mates):
    if set(seats) & set(mates):
        with pytest.raises(ValueError, match="seats="):
            team(Signals(), seats, mates)
        return
    check_contract(team(Signals(), seats, mates))


@pytest.mark.parametrize("seats", [(0,), (0, 2), (0, 1), (0, 1, 3)])
def test_the_other_side_gets_the_negative(seats):
    others = tuple(seat for seat in range(4) if seat not in seats)
    assert value(team(Signals(), seats)) == pytest.approx(-value(team(Signals(), others)), abs=1e-9)


def test_teams_share_the_observations_of_their_members():
    """Seat 3 learns the coin through seat 1; seat 0 through seat 2, as a teammate or from its call."""
    assert value(team(Signals(), (0, 2))) == pytest.approx(0, abs=1e-9)
    assert value(team(Signals(), (0,), {2: heads_or_tails})) == pytest.approx(0, abs=1e-9)
    assert value(team(Signals(), (0,), (2,))) == pytest.approx(-0.5, abs=1e-9)
    assert value(team(Signals(private=(2,)), (0,), {2: heads_or_tails})) == pytest.approx(0, abs=1e-9)
    assert value(team(Signals(private=()), (0,), (2,))) == pytest.approx(0, abs=1e-9)


def test_payoffs_are_sums_over_teams():
    """Rewards of teammates count for player 0."""
    paying = Signals(steps={2: MultiplayerStep((0, 0, 0), (1, 10, 100, -111))}, actors_of={3: ()})
    for seats, mates, expected in (((0,), (2,), 101), ((0,), (), 1), ((3,), (1,), -101), ((0, 1), (), 11)):
        tree = enumerate_game(team(paying, seats, mates))
        assert set(tree.payoff[tree.actor == 0].tolist()) == {expected}


# Information of the players


def test_a_player_of_several_seats_knows_which_of_them_acts():
    """After a hidden coin seat 1 or seat 3 acts; neither sees the coin, but each learns that it acts."""
    rules = Signals(private=())
    rules.actors = lambda state: () if len(state) == 2 else ((1, 3)[state[0]],) if state else (CHANCE_SEAT,)
    rules.step = lambda state, move: MultiplayerStep((*state, move), (0, 0, 0, 0))
    tree = enumerate_game(team(rules))
    assert tree.infoset_names[1] == ("1: [((acts, 1))]", "1: [((acts, 3))]")
    assert len(enumerate_game(team(rules, (0, 1))).infoset_names[1]) == 1


def test_seats_that_move_at_once_do_not_see_each_other():
    tree = enumerate_game(team(Signals(), (0,), (2,)))
    last = tree.level_offset[4]
    assert set(tree.actor[tree.level_offset[3] : last].tolist()) == {PLAYER_0}
    assert set(tree.actor[last : tree.level_offset[5]].tolist()) == {PLAYER_1}
    chosen = tree.infostate[1, last : tree.level_offset[5]].reshape(-1, 2)  # seat 0 guessed one or the other
    np.testing.assert_array_equal(chosen[:, 0], chosen[:, 1])
    assert len(tree.infosets[0]) == 9 and len(tree.infosets[1]) == 2 + 18


def test_teammates_know_their_observations_and_follow_their_policy():
    asked = []

    def policy(memory, legal):
        asked.append((memory, tuple(legal)))
        return np.array([0.25, 0.0, 0.75])

    tree = enumerate_game(team(Signals(), (0,), {2: policy}))
    expected = {
        ((Seen(-1, None, coin), Seen(-1, (1, call), None)), (0, 1, 2))
        for coin, call in itertools.product((0, 1), Signals().actions)
    }
    assert set(asked) == expected
    at = tree.parent[tree.level_offset[3] : tree.level_offset[4]]
    assert set(tree.actor[at].tolist()) == {CHANCE}
    done = tree.action[2, tree.level_offset[3] : tree.level_offset[4]].reshape(-1, 2)
    assert (done == [0, 2]).all()  # moves of probability 0 give no histories
    share = tree.chance[tree.level_offset[3] : tree.level_offset[4]].reshape(-1, 2) / 0.5
    np.testing.assert_allclose(share, [[0.25, 0.75]] * len(share))


def test_teammates_remember_their_own_actions():
    rules = Signals(actors_of={2: (1,), 1: (2,), 3: (2, 0)})
    seen = []

    def policy(memory, legal):
        seen.append(memory)
        return uniform(memory, legal)

    enumerate_game(team(rules, (0,), {2: policy}))
    assert max(map(len, seen)) == 3
    assert {memory[1].action for memory in seen if len(memory) > 1} == {0, 1, 2}


def test_a_table_of_the_teammates_game_is_its_policy():
    """A policy of the game in which the teammate is player 0, row by row."""
    own = enumerate_game(team(Signals(), (2,), (0,)))
    frame = jaxgadget.Policy.dirichlet(own, 0).to_frame()
    table = {}
    for row in frame[frame["player"] == 0].itertuples():
        table.setdefault(row.infostate, {})[row.action_name] = row.probability

    tree = enumerate_game(team(Signals(), (0,), {2: table}))
    assert tree.game.name == "team(game=signals,teammates=2:table)"
    for h in range(tree.level_offset[3], tree.level_offset[4]):
        coin, call, answer = tree.moves(h)
        row = table[f"0: [{coin}], (1, {Signals().actions[call]})"]
        assert tree.chance[h] / 0.5 == pytest.approx(row[Signals().actions[answer]])

    table["0: [1], (1, heads)"] = {"tails": 1.0}  # omitted actions have probability 0
    assert enumerate_game(team(Signals(), (0,), {2: table})).num_histories < tree.num_histories
    del table["0: [1], (1, heads)"]
    with pytest.raises(ValueError, match="table"):
        enumerate_game(team(Signals(), (0,), {2: table}))


def test_own_decisions_are_a_cut():
    tree = enumerate_game(team(Kuhn()))
    for number, moves in ((1, 0), (2, 2)):
        found = cut(tree, own_decision(number))
        assert (tree.actor[found.roots] == PLAYER_0).all() and (tree.num_moves[found.roots] == moves).all()
        assert len(found.roots) == (tree.num_moves[tree.actor == PLAYER_0] == moves).sum()


# OpenSpiel's games


def test_openspiels_kuhn_poker_for_three():
    """Uniform play has OpenSpiel's value, and the two sides are mirror images."""
    pyspiel = pytest.importorskip("pyspiel")
    from open_spiel.python import policy as policies
    from open_spiel.python.algorithms import expected_game_score

    spec = "openspiel:kuhn_poker(players=3)"
    theirs = pyspiel.load_game("kuhn_poker(players=3)")
    scores = expected_game_score.policy_value(
        theirs.new_initial_state(), [policies.UniformRandomPolicy(theirs)] * 3
    )
    for seats, mates in (((0,), ()), ((1,), (2,)), ((0, 2), ()), ((2,), (0,))):
        tree = enumerate_game(team(spec, seats, mates))
        played = jaxgadget.evaluate_policy(jaxgadget.Policy.uniform(tree)).value[0]
        assert played == pytest.approx(sum(scores[seat] for seat in (*seats, *mates)), abs=1e-12)
    assert value(team(spec, (0,))) == pytest.approx(-value(team(theirs, (1, 2))), abs=1e-9)
    histories = check_contract(team(spec))
    assert len(histories) == 1 + 4 + 12 + 24 * 25  # three deals, then 25 nodes of betting


def test_openspiels_simultaneous_games():
    pyspiel = pytest.importorskip("pyspiel")
    from open_spiel.python import policy as policies
    from open_spiel.python.algorithms import expected_game_score

    spec = "goofspiel(players=3,num_cards=2,imp_info=True,points_order=random,returns_type=win_loss)"
    theirs = pyspiel.load_game(f"turn_based_simultaneous_game(game={spec})")
    scores = expected_game_score.policy_value(
        theirs.new_initial_state(), [policies.UniformRandomPolicy(theirs)] * 3
    )
    game = team(f"openspiel:{spec}", (1,))
    check_contract(game)
    tree = enumerate_game(game)
    played = jaxgadget.evaluate_policy(jaxgadget.Policy.uniform(tree)).value[0]
    assert played == pytest.approx(scores[1], abs=1e-12)


def test_names_load_again():
    pytest.importorskip("pyspiel")
    for given, name in (
        ({}, "team(game=openspiel:kuhn_poker(players=3))"),
        ({"seats": (2, 1)}, "team(game=openspiel:kuhn_poker(players=3),seats=1+2)"),
        ({"seats": (2,), "teammates": [0]}, "team(game=openspiel:kuhn_poker(players=3),seats=2,teammates=0)"),
    ):
        game = team("openspiel:kuhn_poker(players=3)", **given)
        again = load(game.name)
        assert game.name == again.name == name
        trees = [enumerate_game(made) for made in (game, again)]
        np.testing.assert_array_equal(trees[0].infostate, trees[1].infostate)
        assert trees[0].infoset_names == trees[1].infoset_names


# Errors


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"actors_of": {1: (4,)}},
            r"actors\(\) returned \(4,\) at \(0,\); expected distinct seats from 0 to 3",
        ),
        ({"actors_of": {1: (1, CHANCE_SEAT)}}, r"actors\(\) returned \(1, -1\)"),
        ({"steps": {1: (0,)}}, r"step\(\) returned \(0,\) at \(0,\); return MultiplayerStep\(state"),
        ({"steps": {1: MultiplayerStep((0,), (1, 2, 3, np.nan))}}, r"with 4 finite rewards"),
        ({"steps": {1: MultiplayerStep((0,), (), None, (1,))}}, r"4 private observations"),
    ],
)
def test_rules_that_are_refused(changes, message):
    with pytest.raises(ValueError, match=r"^team\(game=signals,teammates=2\): .*" + message):
        enumerate_game(team(Signals(**changes), (0,), (2,)))


def test_teams_whose_payoffs_have_no_constant_sum_are_refused():
    """Player 0 gets the coin and the other player pays nothing."""
    rules = Signals()
    rules.step = lambda state, move: MultiplayerStep(
        (*state, move), (state[0], 0, 0, 0) if len(state) == 3 else ()
    )
    with pytest.raises(ValueError, match=r"constant"):
        enumerate_game(team(rules))


@pytest.mark.parametrize(
    "given",
    [
        [1.0],
        [1.5, -0.5, 0],
        [np.nan, 0, 1],
        None,
    ],
)
def test_policies_that_are_refused(given):
    message = (
        r"^team\(game=signals,teammates=2:own\): the policy of teammate 2 returned "
        rf"{re.escape(repr(given))} for its "
        r"legal actions \[0, 1, 2\] and memory \(Seen\("
    )
    with pytest.raises(ValueError, match=message):
        enumerate_game(team(Signals(), (0,), {2: lambda memory, legal: given}))
