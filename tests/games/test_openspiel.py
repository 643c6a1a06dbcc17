"""OpenSpiel's games through this package compared with OpenSpiel's own states."""

import itertools
from typing import NamedTuple

import numpy as np
import pytest

import jaxgadget
from jaxgadget.games.game import ACTOR_BIT, CHANCE, PLAYER_0, TERMINAL
from jaxgadget.games.registry import load
from jaxgadget.tree.cut import cut
from jaxgadget.tree.history import enumerate_game

pyspiel = pytest.importorskip("pyspiel")

# Histories and infosets of both players: those of reference/games.json, and OpenSpiel's other kinds.
GAMES = [
    ("kuhn_poker", 58, 6, 6),
    ("liars_dice(numdice=1,dice_sides=3)", 1147, 96, 96),
    ("goofspiel(imp_info=True,num_cards=4,points_order=descending)", 737, 81, 81),
    ("goofspiel(imp_info=True,num_cards=3,points_order=random)", 301, 45, 45),
    ("matrix_rps", 10, 1, 1),
    ("blotto(coins=3,fields=2)", 17, 1, 1),
    ("oshi_zumo(coins=3,size=1,horizon=3)", 456, 90, 90),
    ("nim(pile_sizes=1;2)", 12, 4, 3),
    ("mnk(m=2,n=2,k=2)", 41, 13, 4),
    ("coordinated_mp", 15, 1, 2),
    ("dark_hex(board_size=2)", 441, 33, 101),
    ("dark_hex(board_size=2,gameversion=adh)", 471, 59, 35),
    ("start_at(history=0;4;1;2;6;3;5,game=phantom_ttt())", 16965, 114, 65),
    ("misere(game=kuhn_poker())", 58, 6, 6),
    ("start_at(history=0;1,game=kuhn_poker())", 9, 2, 2),
    ("restricted_nash_response(game=kuhn_poker())", 117, 6, 6),
    ("misere(game=turn_based_simultaneous_game(game=goofspiel(imp_info=True,num_cards=3)))", 418, 45, 45),
]


def replay(game, moves):
    state = game.new_initial_state()
    for move in moves:
        if isinstance(move, tuple):
            state.apply_actions(list(move))
        else:
            state.apply_action(move)
    return state


@pytest.mark.parametrize(("spec", "histories", "first", "second"), GAMES, ids=[g[0] for g in GAMES])
def test_every_history_is_openspiels(spec, histories, first, second):
    theirs = pyspiel.load_game(spec)
    tree = enumerate_game(load("openspiel:" + spec))
    assert (tree.num_histories, len(tree.infosets[0]), len(tree.infosets[1])) == (histories, first, second)
    names = tree.infoset_names
    for player in (0, 1):
        assert len(set(names[player])) == len(names[player])
    for h in range(tree.num_histories):
        state = replay(theirs, tree.moves(h))
        children = np.arange(*np.searchsorted(tree.parent[1:], [h, h + 1])) + 1  # parents ascend
        if state.is_terminal():
            assert tree.actor[h] == TERMINAL and len(children) == 0
            assert tree.payoff[h] == pytest.approx(state.returns()[0])
        elif state.is_chance_node():
            assert tree.actor[h] == CHANCE
            given = dict(state.chance_outcomes())
            assert tree.action[2, children].tolist() == sorted(given)
            chance = tree.chance[children] / tree.chance[h]
            assert chance.tolist() == pytest.approx([given[k] for k in sorted(given)])
        else:
            acting = (0, 1) if state.is_simultaneous_node() else (state.current_player(),)
            assert tree.actor[h] == sum(1 << player for player in acting)
            for player in acting:
                assert sorted(set(tree.action[player, children].tolist())) == state.legal_actions(player)
                name = names[player][tree.infoset[player, h]]
                assert name == state.information_state_string(player)


def test_leduc_has_the_reference_size():
    tree = enumerate_game(load("openspiel:leduc_poker"))
    assert (tree.num_histories, tree.num_terminals) == (9457, 5520)
    assert [len(infosets) for infosets in tree.infosets] == [468, 468]


@pytest.mark.parametrize(
    ("spec", "depth", "subgames"),
    [
        ("goofspiel(imp_info=True,num_cards=4,points_order=descending)", 1, 6),  # a tie reveals both bids
        ("kuhn_poker", 1, 2),
        ("liars_dice(numdice=1,dice_sides=3)", 1, 6),
    ],
)
def test_common_knowledge_subgames(spec, depth, subgames):
    assert cut(enumerate_game(load("openspiel:" + spec)), f"depth:{depth}").num_subgames == subgames


def test_infostates_may_span_levels():
    """In Phantom Tic-Tac-Toe a player does not notice the other's failed attempt."""
    tree = enumerate_game(load("openspiel:start_at(history=0;4;1;2;6;3;5,game=phantom_ttt())"))
    at = {tree.moves(h): tree.infostate[:, h].tolist() for h in range(tree.num_histories)}
    assert at[()][0] == at[(0,)][0] == at[(0, 7)][0] == at[(7,)][0]  # where player 0 acts
    assert len({at[moves][1] for moves in ((), (0,), (0, 7), (7,))}) == 4
    same = [tree_find(tree, moves) for moves in ((0, 7), (7,))]
    assert tree.actor[same].tolist() == [PLAYER_0, PLAYER_0]
    assert len(set(tree.infoset[0, same].tolist())) == 1


def tree_find(tree, moves):
    return next(h for h in range(tree.num_histories) if tree.moves(h) == moves)


def own_decisions(player, count):
    """Mark where a player decides after the given number of its own decisions."""

    def mark(tree):
        before = np.zeros(tree.num_histories, np.int64)
        for begin, end in itertools.pairwise(tree.level_offset[1:].tolist()):
            before[begin:end] = before[tree.parent[begin:end]] + (tree.action[player, begin:end] >= 0)
        return (tree.actor == ACTOR_BIT[player]) & (before == count)

    return mark


def turn_starts(count):
    """Mark where a turn begins after the given number of turns; for games without chance."""

    def mark(tree):
        starts = tree.actor != tree.actor[tree.parent]
        before = np.zeros(tree.num_histories, np.int64)
        for begin, end in itertools.pairwise(tree.level_offset[1:].tolist()):
            before[begin:end] = before[tree.parent[begin:end]] + starts[begin:end]
        starts[0] = True
        return starts & (before == count) & (tree.actor != TERMINAL)

    return mark


class Decision(NamedTuple):
    """A decision of a player: moves to it, the actor of each, and the actor's information."""

    moves: tuple[int, ...]
    actors: tuple[int, ...]
    infostate: str

    @property
    def turns(self):
        """The number of turns including the present one."""
        return len(list(itertools.groupby(self.actors)))


def decisions_below(state):
    """Decisions at and below one of OpenSpiel's states, for games without chance and simultaneous moves."""
    if not state.is_terminal():
        player = state.current_player()
        actors = (*(step.player for step in state.full_history()), player)
        yield Decision(tuple(state.history()), actors, state.information_state_string(player))
        for action in state.legal_actions():
            yield from decisions_below(state.child(action))


def cuts_checked(spec, depths, counts, turns):
    """A game's tree; the roots of its cuts by depth, own decisions and turns agree with OpenSpiel's."""
    tree = enumerate_game(load("openspiel:" + spec))
    decisions = list(decisions_below(pyspiel.load_game(spec).new_initial_state()))
    for player in (0, 1):
        known = {decision.infostate for decision in decisions if decision.actors[-1] == player}
        assert set(tree.infoset_names[player]) == known

    def check(where, is_root):
        expected = sorted(decision.moves for decision in decisions if is_root(decision))
        assert sorted(tree.moves(int(h)) for h in cut(tree, where).roots) == expected != []

    for depth in range(depths):
        check(f"depth:{depth}", lambda decision, depth=depth: len(decision.moves) == depth)
    for player, count in itertools.product((0, 1), range(counts)):

        def decides(decision, player=player, count=count):
            return decision.actors[-1] == player and decision.actors.count(player) == 1 + count

        check(own_decisions(player, count), decides)
    for turn in range(turns):

        def begins(decision, turn=turn):
            return decision.turns == 1 + turn and decision.actors[-2:-1] != decision.actors[-1:]

        check(turn_starts(turn), begins)
    return tree


@pytest.mark.parametrize(("version", "histories"), [("cdh", 441), ("adh", 471)])
def test_dark_hex_takes_cuts_by_depth_and_by_decisions(version, histories):
    """Every cut has the roots given by OpenSpiel's states, and crosses no infoset."""
    tree = cuts_checked(f"dark_hex(board_size=2,gameversion={version})", depths=7, counts=3, turns=4)
    assert tree.num_histories == histories


@pytest.mark.parametrize("version", ["cdh", "adh"])
def test_players_of_dark_hex_know_how_many_moves_were_made(version):
    """The string counts the other player's failed attempts, so no infoset spans levels."""
    tree = enumerate_game(load(f"openspiel:dark_hex(board_size=2,gameversion={version})"))
    for player in (0, 1):
        acts = np.nonzero(tree.infoset[player] >= 0)[0]
        first = tree.infosets[player].history[tree.infoset[player, acts]]
        np.testing.assert_array_equal(tree.num_moves[acts], tree.num_moves[first])


def test_dark_hex_is_refined_below_own_decisions():
    """For player 0; on 2×2 player 1 always loses."""
    tree = enumerate_game(load("openspiel:dark_hex(board_size=2)"))
    resolving = jaxgadget.Resolving(jaxgadget.NoPrior())
    blueprints = [jaxgadget.Policy.uniform(tree), jaxgadget.Policy.geometric(tree, 0.5)]
    result = jaxgadget.refine(
        tree,
        own_decisions(0, 1),
        blueprints,
        resolving,
        solver=jaxgadget.Solver(algorithm="lp", progress=False),
    )
    before, after = (result.table[f"{who}_exploitability"].to_numpy() for who in ("blueprint", "refined"))
    assert (after <= before + 1e-9).all()
    assert (after < before - 1e-3).any()


def test_where_tries_are_not_noticed_turns_can_be_cut_at():
    """In Phantom Tic-Tac-Toe `depth:2` crosses an infoset, and the message names a valid cut."""
    tree = enumerate_game(load("openspiel:start_at(history=0;4;1;2;6;3;5,game=phantom_ttt())"))
    assert len(cut(tree, turn_starts(1)).roots) == len(cut(tree, own_decisions(0, 0)).roots) == 130
    crossed = (
        r"crosses an infoset: 'xx.*' of player 0 lies on both sides of the cut \(histories \(7,\) and "
        r"\(0, 7\)\); move the cut"
    )
    for where in ("depth:2", own_decisions(1, 1)):
        with pytest.raises(ValueError, match=crossed):
            cut(tree, where)


class Shy:
    """A state of Kuhn poker with information state strings only for the acting player."""

    mute = False

    def __init__(self, state):
        self._state = state

    def __getattr__(self, name):
        return getattr(self._state, name)

    def clone(self):
        return type(self)(self._state.clone())

    def information_state_string(self, player):
        if player != self._state.current_player():
            raise pyspiel.SpielError("not your turn")
        if self.mute:
            raise pyspiel.SpielError("not at all")
        return self._state.information_state_string(player)


class Mute(Shy):
    mute = True


KUHN = pyspiel.load_game("kuhn_poker")


def test_names_are_canonical_and_load_again():
    short = load("openspiel:liars_dice(numdice=1,dice_sides=3)").name
    assert short == "openspiel:liars_dice(dice_sides=3,numdice=1)" == load(short).name
    unreadable = (
        "openspiel:restricted_nash_response(game=kuhn_poker())"  # its own string is rnr_kuhn_poker(…)
    )
    assert load(unreadable).name == unreadable


def test_action_names_come_from_the_game_or_its_states():
    blotto = load("openspiel:blotto(coins=3,fields=2)")
    assert blotto.action_string(0, 1) == "[1,2]"
    kuhn = load("openspiel:kuhn_poker")
    assert kuhn.action_string(0, 1) == "1"  # nothing is known before the states are enumerated
    enumerate_game(kuhn)
    assert [kuhn.action_string(1, a) for a in range(kuhn.num_actions)] == ["Pass", "Bet"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("leduk_poker", "leduk_poker"),
        ("leduc_poker(foo=1)", "foo="),
        ("kuhn_poker(players=3)", "players="),
        ("mfg_crowd_modelling", "dynamics are MEAN_FIELD"),
        ("backgammon", r"it has no information_state_string, .*openspiel:backgammon\?observations"),
        ("liars_dice(dice_sides=2)?observations", "it has no observation_string"),
    ],
)
def test_games_that_cannot_be_solved_are_refused(spec, message):
    with pytest.raises(ValueError, match=message):
        load("openspiel:" + spec)


@pytest.mark.parametrize(
    "spec",
    [
        "kuhn_poker",
        "leduc_poker",
        "goofspiel(imp_info=True,num_cards=4,points_order=descending)",
        "dark_hex(board_size=2)",
    ],
)
def test_infostates_by_observations_are_those_of_perfect_recall(spec):
    """Two decisions share an infoset exactly if the player's actions and observations were the same."""
    tree = enumerate_game(load(f"openspiel:{spec}?observations"))
    game = pyspiel.load_game(spec)
    for player in (0, 1):
        acting = np.nonzero(tree.actor & ACTOR_BIT[player])[0]
        memories = [remembered(game, tree.moves(h), player) for h in acting.tolist()]
        _, ours = np.unique(tree.infoset[player, acting], return_inverse=True)
        _, theirs = np.unique([repr(memory) for memory in memories], return_inverse=True)
        pairs = set(zip(ours.tolist(), theirs.tolist(), strict=True))
        assert len(pairs) == ours.max() + 1 == theirs.max() + 1
    if spec != "dark_hex(board_size=2)":  # its own strings contain more than its observations
        assert [len(i) for i in tree.infosets] == [len(i) for i in enumerate_game(load(spec)).infosets]


def remembered(game, moves, player):
    """A player's actions, observations and turns along a history, without repeated observations."""
    state, memory = game.new_initial_state(), []
    for move in (None, *moves):
        own = -1
        if move is not None:
            if isinstance(move, tuple):
                own = move[player]
                state.apply_actions(list(move))
            else:
                own = move if state.current_player() == player else -1
                state.apply_action(move)
        acts = state.is_simultaneous_node() or state.current_player() == player
        try:
            seen = state.observation_string(player)
        except pyspiel.SpielError:
            seen = None
        if own >= 0 or not memory or memory[-1][1:] != (acts, seen):
            memory.append((own, acts, seen))
    return memory


def test_a_game_without_information_states_is_solved_by_observations():
    game = load("openspiel:breakthrough(rows=3,columns=2)?observations")
    solution = jaxgadget.solve(enumerate_game(game), algorithm="lp")
    assert solution.value == pytest.approx(perfect_information_value(game.replay(()).state.state))
    assert load(game.name).name == game.name
    assert "?observations" in solution.policy.tree.game.name


def perfect_information_value(state):
    """Player 0's value of a game of perfect information without chance, by minimax."""
    if state.is_terminal():
        return state.returns()[0]
    best = max if state.current_player() == 0 else min
    return best(perfect_information_value(state.child(action)) for action in state.legal_actions())


@pytest.mark.parametrize("spec", ["liars_dice_ir(numdice=1,dice_sides=3)", "dark_hex_ir(board_size=2)"])
def test_imperfect_recall_is_refused(spec):
    with pytest.raises(ValueError, match="perfect recall"):
        enumerate_game(load("openspiel:" + spec))


def test_large_games_stop_at_the_budget():
    with pytest.raises(ValueError, match="max_histories="):
        enumerate_game(load("openspiel:phantom_ttt"), max_histories=1000)


@pytest.mark.parametrize(
    "spec",
    ["kuhn_poker", "goofspiel(imp_info=True,num_cards=3)", "turn_based_simultaneous_game(game=matrix_rps())"],
)
def test_a_game_that_pyspiel_loaded_is_the_game_of_its_string(spec):
    theirs = pyspiel.load_game(spec)
    game, named = load(theirs), load("openspiel:" + spec)
    assert game.name == named.name and load(game.name).name == game.name
    tree, other = enumerate_game(game), enumerate_game(named)
    for field in ("parent", "actor", "action", "chance", "payoff", "infostate"):
        np.testing.assert_array_equal(getattr(tree, field), getattr(other, field), err_msg=field)
