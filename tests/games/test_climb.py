"""Climb compared with explicit trees of its rules, and its rules one by one."""

import collections
import math

import numpy as np
import pytest

import jaxgadget
from jaxgadget.games.climb import Climb, ClimbState, TrickTurn, climb, lowest, partner
from jaxgadget.games.game import CHANCE, PLAYER_0, PLAYER_1, TERMINAL
from jaxgadget.games.registry import load
from jaxgadget.games.team import Seen
from jaxgadget.tree.cut import cut
from jaxgadget.tree.history import enumerate_game
from tests.reference import climb as reference
from tests.reference import efg, lp

SMALL = [(seat, teammate) for seat in range(4) for teammate in ("lowest", "uniform")]


def ends(node, reach=1.0):
    """`(payoff, reach of chance)` of all terminal nodes."""
    if isinstance(node, efg.Terminal):
        yield node.payoff, round(reach, 12)
        return
    weights = node.weights if isinstance(node, efg.Chance) else (1.0,) * len(node.children)
    for weight, child in zip(weights, node.children, strict=True):
        yield from ends(child, reach * weight)


def check_counts(tree, root):
    """The number of histories below the deal and of infosets, and the payoffs with their chance reach."""
    assert tree.num_histories - tree.level_offset[4] == sum(1 for _ in efg.walk(root)) - 1
    for player in (0, 1):
        assert len(tree.infosets[player]) == len(efg.infosets_of(root, player))
    over = tree.actor == TERMINAL
    found = collections.Counter(
        zip(tree.payoff[over].tolist(), np.round(tree.chance[over], 12).tolist(), strict=True)
    )
    assert found == collections.Counter(ends(root))


@pytest.mark.parametrize(("seat", "teammate"), SMALL)
def test_hands_of_one_card_are_the_game_played_out(seat, teammate):
    check_counts(enumerate_game(climb(3, 1, seat, teammate)), reference.game(3, 1, seat, teammate))


@pytest.mark.parametrize(("seat", "teammate"), [(0, "lowest"), (1, "uniform")])
def test_the_value_is_that_of_the_explicit_tree(seat, teammate):
    """For both players; and the value lies in CFR's bracket."""
    tree = enumerate_game(climb(3, 1, seat, teammate))
    root = reference.game(3, 1, seat, teammate)
    value = lp.solve(root, 0).value
    assert -lp.solve(root, 1).value == pytest.approx(value, abs=1e-9)
    assert jaxgadget.solve(tree, algorithm="lp").value == pytest.approx(value, abs=1e-9)
    solution = jaxgadget.solve(tree, solver=jaxgadget.Solver(iterations=200, dtype="float64"))
    against_first, against_second = solution.best_response_values
    assert -against_first - 1e-9 <= value <= against_second + 1e-9
    assert against_first + against_second < 0.02


def walk(game, node):
    """All nodes of a game at and below one, parents first, without copying them."""
    yield node
    if node.actor != TERMINAL:
        for branch in game.branches(node):
            yield from walk(game, game.child(node, branch))


def deal_moves(rules, hands):
    """The chance moves that deal some hands, and their probability."""
    state, moves, chance = rules.initial_state(), [], 1.0
    for hand in hands:
        outcomes = dict(rules.chance_outcomes(state))
        assert math.fsum(outcomes.values()) == pytest.approx(1, abs=1e-12)
        after = {k: rules.step(state, k).state for k in outcomes}
        (move,) = (k for k in outcomes if after[k].hands[-1] == hand)
        state, moves, chance = after[move], [*moves, move], chance * outcomes[move]
    return moves, chance


HANDS = [
    ((1, 1), (2, 2), (3, 3), (4, 4)),
    ((2, 2), (3, 4), (1, 1), (3, 4)),
    ((1, 3), (1, 2), (2, 4), (3, 4)),
    ((4, 4), (2, 3), (2, 3), (1, 1)),
]


@pytest.mark.parametrize("hands", HANDS)
def test_deals_of_two_cards_are_the_game_played_out(hands):
    """The probability of a deal and everything below it, for every seat and both blueprints."""
    ways = reference.deals(4, 2)
    moves, chance = deal_moves(Climb(4, 2), hands)
    assert chance == pytest.approx(ways[hands] / sum(ways.values()))
    for seat, teammate in SMALL:
        game = climb(4, 2, seat, teammate)
        root = reference.play_out(hands, seat, teammate)
        nodes, explicit = list(walk(game, game.replay(moves))), list(efg.walk(root))
        assert len(nodes) == len(explicit)
        for player, bit in enumerate((PLAYER_0, PLAYER_1)):
            labels = {node.infoset for node in explicit if getattr(node, "player", None) == player}
            assert len({n.infostate[player] for n in nodes if n.actor == bit}) == len(labels)
        payoffs = collections.Counter(node.returns[0] for node in nodes if node.actor == TERMINAL)
        assert payoffs == collections.Counter(n.payoff for n in explicit if isinstance(n, efg.Terminal))


# The rules


def turn(cards, seat, owner, trick=1):
    return TrickTurn(cards, seat, owner, trick)


@pytest.mark.parametrize(
    ("before", "played", "seat", "owner", "trick"),
    [
        (turn((2, 2, 2, 2), 3, 3), 1, 0, 3, 1),
        (turn((2, 2, 2, 2), 1, 3), 0, 2, 3, 1),
        (turn((2, 2, 2, 2), 2, 3), 0, 3, 3, 2),  # all others passed: the owner leads
        (turn((2, 2, 2, 2), 1, 3), 2, 2, 1, 1),  # out with a pair; the others may still beat it
        (turn((2, 0, 2, 2), 0, 1), 0, 3, 1, 2),  # the owner is out: its teammate leads
        (turn((2, 0, 2, 2), 0, 3), 0, 2, 3, 1),  # who is out is passed over
        (turn((0, 1, 1, 1), 1, 3), 0, 2, 3, 1),
    ],
)
def test_turns(before, played, seat, owner, trick):
    after = before.after(played)
    if trick > before.trick:
        owner = seat
    assert (after.seat, after.owner, after.trick) == (seat, owner, trick)
    assert sum(before.cards) - sum(after.cards) == played and not after.is_over


def test_a_turn_that_ends_the_game():
    assert turn((1, 0, 0, 1), 0, 2).after(1).is_over  # seats 0 and 2 are out
    assert not turn((1, 0, 2, 1), 0, 2).after(1).is_over


def test_legal_plays():
    rules = Climb(4, 2)
    hands = ((1, 1), (2, 4), (3, 4), (2, 3))
    at = [
        ClimbState(hands, turn((2,) * 4, seat, 0), standing)
        for seat, standing in ((0, 0), (1, 1), (1, 2), (1, 5))
    ]
    named = [[rules.actions[a] for a in rules.legal_actions(state, state.turn.seat)] for state in at]
    assert named == [["single-1", "pair-1"], ["pass", "single-2", "single-4"], ["pass", "single-4"], ["pass"]]
    over = rules.legal_actions(ClimbState(((4, 4), *hands[1:]), turn((2,) * 4, 0, 3), 4 + 3), 0)
    assert [rules.actions[a] for a in over] == ["pass", "pair-4"]


@pytest.mark.parametrize(
    ("hands", "turn_before", "out", "play", "rewards"),
    [
        (((1,), (2,), (), (3,)), turn((1, 1, 0, 1), 0, 0), (2,), 1, [1.5, -1.5, 1.5, -1.5]),
        (((1,), (), (), (3,)), turn((1, 0, 0, 1), 0, 0), (2, 1), 1, [1, -1, 1, -1]),
        (((1,), (), (), (3,)), turn((1, 0, 0, 1), 0, 0), (1, 2), 1, [-0.5, 0.5, -0.5, 0.5]),
        (((1,), (3,), (2,), ()), turn((1, 1, 1, 0), 1, 1), (3,), 3, [-1.5, 1.5, -1.5, 1.5]),
    ],
)
def test_points(hands, turn_before, out, play, rewards):
    step = Climb(4, 2).step(ClimbState(hands, turn_before, 0, out), play)
    assert list(step.rewards) == rewards and step.state.turn.is_over
    assert Climb(4, 2).actors(step.state) == ()


def test_the_lowest_play():
    policy, names = lowest(2, 4), Climb(4, 2).actions

    def chosen(legal, *plays):
        memory = (Seen(-1, None, (1, 1)), *(Seen(-1, play, None) for play in plays))
        row = policy(memory, [names.index(name) for name in legal])
        assert sorted(row) == [0.0] * (len(legal) - 1) + [1.0]
        return legal[row.index(1.0)]

    assert chosen(["single-1", "single-3"]) == "single-1"
    assert chosen(["single-1", "single-3", "pair-3"]) == "single-1"
    assert chosen(["single-1", "single-3", "pair-1"]) == "pair-1"
    opponent, mate, other = (3, "single-1"), (0, "single-2"), (1, "pass")
    assert chosen(["pass", "single-2", "single-4"], opponent) == "single-2"
    assert chosen(["pass", "single-3"], opponent, mate, other) == "pass"
    assert chosen(["pass", "single-3"], opponent, mate, (1, "single-3")) == "single-3"
    assert chosen(["pass"], opponent) == "pass"


# Cuts and names


def test_cuts_have_their_roots():
    tree = enumerate_game(climb(3, 1, teammate="uniform"))
    turns = [tree.game.replay(tree.moves(h)).state.state.state.turn for h in range(tree.num_histories)]
    trick = {h for h, t in enumerate(turns) if t.trick == 2 and turns[tree.parent[h]].trick == 1}
    assert set(cut(tree, "trick_2").roots.tolist()) == trick and len(trick) > 20
    own = {h for h in range(tree.num_histories) if tree.actor[h] == PLAYER_0 and tree.num_moves[h] == 1}
    assert set(cut(tree, "decision_1").roots.tolist()) == own  # seat 3 led
    deal = cut(tree, "deal")
    assert (deal.roots == np.arange(tree.level_offset[4], tree.level_offset[5])).all()


def test_the_cut_after_the_deal_waits_for_a_player():
    tree = enumerate_game(climb(seat=1))  # whose teammate leads
    assert set(tree.actor[tree.level_offset[4] : tree.level_offset[5]].tolist()) == {CHANCE}
    assert (tree.actor[cut(tree, "deal").roots] != CHANCE).all()


def test_own_infostates_can_be_re_solved():
    """Damped with exact programs: no player's exploitability rises, and it falls here."""
    tree = enumerate_game(climb())
    blueprint = jaxgadget.Policy.uniform(tree)
    gadget = jaxgadget.MaxMargin(jaxgadget.NoPrior())
    known = jaxgadget.Knowledge(order=1)
    for player in (0, 1):
        result = jaxgadget.refine(
            tree,
            "decision_1",
            blueprint,
            gadget,
            player=player,
            solver=jaxgadget.Solver(algorithm="lp", progress=False),
            knowledge=known,
        )
        (before,), (after,) = (
            result.table[f"{name}_exploitability"].to_numpy() for name in ("blueprint", "refined")
        )
        assert after < before - 1e-3


def test_names_and_parameters():
    assert load("climb").name == climb().name == "climb"
    name = "climb(hand_size=2,num_ranks=4,seat=2,teammate=uniform)"
    assert load("climb(num_ranks=4,hand_size=2,seat=2,teammate=uniform)").name == name == load(name).name
    assert list(load("climb(num_ranks=4,hand_size=2)").cuts()) == [
        "deal", "trick_2", "trick_3", "decision_1", "decision_2",
    ]  # fmt: skip
    assert [partner(seat) for seat in range(4)] == [2, 3, 0, 1]
