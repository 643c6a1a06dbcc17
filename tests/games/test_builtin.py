"""The built-in games compared with OpenSpiel history by history, and their contract."""

import dataclasses
import itertools

import numpy as np
import pytest

from jaxgadget.games.game import CHANCE, PLAYER_0, PLAYER_1, SIMULTANEOUS, TERMINAL, Budget, next_level
from jaxgadget.games.goofspiel import Goofspiel
from jaxgadget.games.kuhn import KuhnPoker
from jaxgadget.games.leduc.rules import LeducPoker
from jaxgadget.games.liars_dice import LiarsDice
from jaxgadget.games.phantom import DarkHex, PhantomTicTacToe
from jaxgadget.tree.history import enumerate_game

CLASSES = (KuhnPoker, LeducPoker, Goofspiel, LiarsDice, DarkHex, PhantomTicTacToe)

GOOFSPIELS = [
    Goofspiel(
        num_cards=cards,
        num_turns=turns,
        points_order=order,
        imp_info=imp_info,
        egocentric=egocentric,
        returns_type=returns,
    )
    for (cards, turns), order, imp_info, (egocentric, returns) in itertools.product(
        [(3, -1), (3, 1)],
        ["random", "descending", "ascending"],
        [False, True],
        [(False, "win_loss"), (True, "point_difference")],
    )
]
# Every game here is enumerated completely.
SMALL = [
    KuhnPoker(),
    LeducPoker(),
    LeducPoker(suit_isomorphism=True),
    LeducPoker(suit_isomorphism=True, starting_player=1),
    LeducPoker(starting_player=1),
    LeducPoker(suit_isomorphism=True, action_mapping=True),
    *GOOFSPIELS,
    Goofspiel(num_cards=1),
    Goofspiel(num_cards=1, points_order="ascending", imp_info=True),
    Goofspiel(num_cards=2),
    Goofspiel(num_cards=2, imp_info=True, points_order="descending"),
    Goofspiel(num_cards=4, imp_info=True, points_order="descending"),
    Goofspiel(
        num_cards=4, num_turns=4, imp_info=True, points_order="ascending", returns_type="point_difference"
    ),
    Goofspiel(num_cards=4, num_turns=2, imp_info=True),
    Goofspiel(num_cards=4, points_order="descending"),
    Goofspiel(num_cards=4, num_turns=2, points_order="ascending"),
    LiarsDice(dice_sides=1),
    LiarsDice(dice_sides=2),
    LiarsDice(dice_sides=3),
    LiarsDice(dice_sides=3, bidding_rule="reset-quantity"),
    LiarsDice(numdice=2, dice_sides=2),
    LiarsDice(numdice=2, dice_sides=2, bidding_rule="reset-quantity"),
    *(
        DarkHex(board_size=2, gameversion=version, obstype=shown)
        for version in ("cdh", "adh")
        for shown in ("reveal-nothing", "reveal-numturns")
    ),
]
# Of these only some histories of each level are visited.
LARGE = [
    LeducPoker(action_mapping=True),
    LeducPoker(action_mapping=True, starting_player=1),
    Goofspiel(num_cards=4, imp_info=True),
    Goofspiel(num_cards=4),
    Goofspiel(num_cards=5, imp_info=True, points_order="descending"),
    Goofspiel(num_cards=5, num_turns=3, points_order="descending", returns_type="point_difference"),
    LiarsDice(dice_sides=4),
    LiarsDice(dice_sides=5, bidding_rule="reset-quantity"),
    LiarsDice(),
    LiarsDice(numdice=2, dice_sides=3),
    DarkHex(num_rows=2),
    DarkHex(num_cols=2, gameversion="adh"),
    DarkHex(board_size=2, num_cols=4, obstype="reveal-numturns"),
    DarkHex(),
    DarkHex(gameversion="adh", obstype="reveal-numturns"),
    *(
        PhantomTicTacToe(gameversion=version, obstype=shown)
        for version in ("classical", "abrupt")
        for shown in ("reveal-nothing", "reveal-numturns")
    ),
]
BEYOND = [
    LeducPoker(num_ranks=5, num_suits=3, max_raises=3),
    LeducPoker(num_ranks=4, num_suits=3, suit_isomorphism=True, raise_sizes="1-10"),
    LeducPoker(num_ranks=3, num_suits=1, suit_isomorphism=True),
    LeducPoker(num_ranks=4, num_suits=1, max_raises=1),
    LeducPoker(num_ranks=1, num_suits=3),
]
# The sizes in OpenSpiel's rules: histories, terminals, infosets of either player.
SIZES = {
    KuhnPoker(): (58, 30, 6),
    LeducPoker(): (9457, 5520, 468),
    LiarsDice(dice_sides=4): (8181, 4080, 512),
    LiarsDice(dice_sides=5): (51181, 25575, 2560),
    Goofspiel(imp_info=True, num_cards=3, points_order="descending"): (46, 36, 8),
    Goofspiel(imp_info=True, num_cards=4, points_order="descending"): (737, 576, 81),
    Goofspiel(imp_info=True, num_cards=5, points_order="descending"): (18426, 14400, 1062),
}
# OpenSpiel's strings omit some observations or actions here, so that its infosets lack perfect recall.
FORGETFUL = [g for g in SMALL + LARGE if getattr(g, "action_mapping", False)]
FORGETFUL += [
    g
    for g in SMALL + LARGE
    if isinstance(g, Goofspiel) and not g.imp_info and g.turns > 2 and g.num_cards > 3
]
FORGETFUL += [g for g in LARGE if isinstance(g, DarkHex) and g.obstype == "reveal-nothing"]


def name_of(game):
    return game.name


def listed(game):
    return list(game.levels(Budget(game.name)))


def legal_steps(state):
    """`(moves of both players and chance, probability)` of every possible step, in order."""
    if state.is_chance_node():
        return [((-1, -1, outcome), p) for outcome, p in state.chance_outcomes()]
    if state.is_simultaneous_node():
        return [((a, b, -1), 1.0) for a in state.legal_actions(0) for b in state.legal_actions(1)]
    player = state.current_player()
    return [((a, -1, -1) if player == 0 else (-1, a, -1), 1.0) for a in state.legal_actions()]


def after(state, step):
    a, b, outcome = step
    child = state.clone()
    if a >= 0 and b >= 0:
        child.apply_actions([a, b])
        return child, (a, b)
    child.apply_action(max(a, b, outcome))
    return child, max(a, b, outcome)


def acts(level, row, player):
    return bool(level.actor[row] & (PLAYER_0, PLAYER_1)[player])


def expected_actor(state):
    if state.is_terminal():
        return TERMINAL
    if state.is_chance_node():
        return CHANCE
    return SIMULTANEOUS if state.is_simultaneous_node() else (PLAYER_0, PLAYER_1)[state.current_player()]


def shows_all(game, state):
    """Whether OpenSpiel's strings show what players see (terminals show cards, the dice lie unsorted)."""
    return not (state.is_terminal() or (isinstance(game, LiarsDice) and state.is_chance_node()))


def memory(game, before, step, above, state, player):
    """The player's memory: every observation in OpenSpiel so far, and its own actions."""
    if isinstance(game, PhantomTicTacToe) and not game.knows_turn and step[player] < 0 and above is not None:
        assert state.information_state_string(player) == above.information_state_string(player)
        return before
    shown = state.information_state_string(player) if shows_all(game, state) else None
    return hash((before, step[player], shown))


def check_history(game, level, row, state, moves):
    assert level.actor[row] == expected_actor(state)
    assert level.returns[:, row].tolist() == (state.returns() if state.is_terminal() else [0.0, 0.0])
    for player in (0, 1):
        if acts(level, row, player):
            assert game.infostate_string(player, moves) == state.information_state_string(player)


def check_children(level, rows, states):
    """Compare the children of every listed row with OpenSpiel's; returns `[(parent, row, step)]`."""
    by_parent = {}
    for row in np.nonzero(np.isin(level.parent, list(rows)))[0].tolist():
        by_parent.setdefault(int(level.parent[row]), []).append(row)
    result = []
    for parent, state in zip(rows, states, strict=True):
        children = by_parent.get(parent, [])
        found = [(tuple(level.action[:, row].tolist()), float(level.chance[row])) for row in children]
        assert found == ([] if state.is_terminal() else legal_steps(state))
        result += [(parent, row, step) for row, (step, _) in zip(children, found, strict=True)]
    return result


def same_partition(first, second):
    assert len(set(first)) == len(set(second)) == len(set(zip(first, second, strict=True)))


def walk(game, most=None):
    """Traverse OpenSpiel's tree by levels, at most `most` histories of each; yields the visited rows."""
    pyspiel = pytest.importorskip("pyspiel")
    rng = np.random.default_rng(0)
    root = pyspiel.load_game(game.name).new_initial_state()
    levels = game.levels(Budget(game.name))
    level = next(levels)
    check_history(game, level, 0, root, ())
    known = {0: (root, (), tuple(memory(game, p, (-1, -1), None, root, p) for p in (0, 1)))}
    yield level, known
    while True:
        if most is not None and len(known) > most:
            known = {row: known[row] for row in sorted(rng.choice(list(known), most, replace=False).tolist())}
        level = next_level(levels, np.isin(np.arange(len(level.parent)), list(known)))
        if level is None:
            break
        children = check_children(level, list(known), [state for state, _, _ in known.values()])
        reached = {}
        for parent, row, step in children:
            above, moves, memories = known[parent]
            state, move = after(above, step)
            after_step = tuple(memory(game, memories[p], step, above, state, p) for p in (0, 1))
            reached[row] = state, (*moves, move), after_step
            check_history(game, level, row, state, reached[row][1])
        assert most is not None or len(reached) == len(level.parent)
        known = reached
        yield level, known
    assert all(state.is_terminal() for state, _, _ in known.values())


@pytest.mark.parametrize("game", SMALL, ids=name_of)
def test_every_history_is_openspiels(game):
    ids = ([], [])
    memories = ([], [])
    strings = ([], [])
    for level, known in walk(game):
        for row, (state, _, remembered) in known.items():
            if not shows_all(game, state):
                continue
            for player in (0, 1):
                ids[player].append(int(level.infostate[player, row]))
                memories[player].append(remembered[player])
                if acts(level, row, player):
                    string = state.information_state_string(player)
                    strings[player].append((int(level.infostate[player, row]), string))
    for player in (0, 1):
        same_partition(ids[player], memories[player])
        infosets, names = zip(*strings[player], strict=True) if strings[player] else ((), ())
        if game in FORGETFUL:
            assert len(set(infosets)) == len(set(strings[player])) > len(set(names))
        else:
            same_partition(infosets, names)


@pytest.mark.parametrize("game", LARGE, ids=name_of)
def test_sampled_histories_are_openspiels(game):
    seen = ({}, {})
    names = ({}, {})
    for level, known in walk(game, most=300):
        for row, (state, _, remembered) in known.items():
            if not shows_all(game, state):
                continue
            for player in (0, 1):
                infostate = int(level.infostate[player, row])
                assert seen[player].setdefault(infostate, remembered[player]) == remembered[player]
                assert names[player].setdefault(remembered[player], infostate) == infostate


@pytest.mark.parametrize(("game", "sizes"), SIZES.items(), ids=[g.name for g in SIZES])
def test_sizes(game, sizes):
    levels = listed(game)
    actor = np.concatenate([level.actor for level in levels])
    infostate = np.concatenate([level.infostate for level in levels], axis=1)
    infosets = [len(np.unique(infostate[p, (actor & bit) > 0])) for p, bit in ((0, PLAYER_0), (1, PLAYER_1))]
    assert (len(actor), int((actor == TERMINAL).sum()), *infosets) == (*sizes, sizes[-1])


@pytest.mark.parametrize("game", [LeducPoker(), Goofspiel(), LiarsDice(numdice=3)], ids=name_of)
def test_budget_stops_before_a_level_is_allocated(game):
    budget = Budget(game.name, max_histories=1000)
    seen = 0
    with pytest.raises(ValueError, match="max_histories="):
        for level in game.levels(budget):
            seen += len(level.parent)
    assert 0 < seen == budget.num_histories <= 1000


@pytest.mark.parametrize("kind", CLASSES, ids=[c.short_name for c in CLASSES])
def test_parameters_and_defaults_are_openspiels(kind):
    pyspiel = pytest.importorskip("pyspiel")
    ours = {field.name: field.default for field in dataclasses.fields(kind)}
    theirs = pyspiel.load_game(kind.short_name).get_parameters()
    if kind is DarkHex:  # 0 rows or columns are as many as the size of the board
        ours |= {key: ours[key] or ours["board_size"] for key in ("num_rows", "num_cols")}
    assert {name: ours[name] for name in theirs} == theirs
    extra = set(ours) - set(theirs)
    assert extra == ({"num_ranks", "num_suits", "raise_sizes", "max_raises"} if kind is LeducPoker else set())
    assert kind().name == kind.short_name


@pytest.mark.parametrize("game", SMALL + LARGE, ids=name_of)
def test_actions_read_as_in_openspiel(game):
    pyspiel = pytest.importorskip("pyspiel")
    theirs = pyspiel.load_game(game.name)
    root = theirs.new_initial_state()
    assert game.num_actions == theirs.num_distinct_actions()
    for player, action in itertools.product((0, 1), range(game.num_actions)):
        assert game.action_string(player, action) == root.action_to_string(player, action)


@pytest.mark.parametrize(
    ("kind", "parameters", "message"),
    [
        (KuhnPoker, {"players": True}, "players="),
        (LeducPoker, {"starting_player": 2}, "starting_player="),
        (LeducPoker, {"num_suits": 1.0}, "num_suits="),
        (LeducPoker, {"num_ranks": 1}, r"expected at least 3"),
        (LeducPoker, {"raise_sizes": "0-4"}, "raise_sizes="),
        (Goofspiel, {"num_cards": 4, "num_turns": 3}, "num_turns="),
        (Goofspiel, {"returns_type": "total_points"}, "returns_type="),
        (LiarsDice, {"bidding_rule": "reset"}, "bidding_rule="),
        (DarkHex, {"num_rows": 1}, "num_rows="),
        (DarkHex, {"board_size": 27}, "board_size="),
        (DarkHex, {"gameversion": "abrupt"}, "gameversion="),
        (PhantomTicTacToe, {"obstype": "reveal-all"}, "obstype="),
    ],
)
def test_bad_parameters_are_refused(kind, parameters, message):
    with pytest.raises(ValueError, match=message):
        kind(**parameters)


def test_names_are_canonical():
    game = Goofspiel(points_order="descending", num_cards=5, imp_info=True, num_turns=-1)
    assert game.name == "goofspiel(imp_info=True,num_cards=5,points_order=descending)"
    assert LeducPoker(raise_sizes="1-2", num_ranks=4).name == "leduc_poker(num_ranks=4,raise_sizes=1-2)"


DISTINCT = [g for g in SMALL + BEYOND if g not in FORGETFUL and getattr(g, "imp_info", True)]


@pytest.mark.parametrize("game", DISTINCT, ids=name_of)
def test_infosets_have_distinct_strings(game):
    names = enumerate_game(game).infoset_names
    assert len({*names[0], *names[1]}) == len(names[0]) + len(names[1])


@pytest.mark.parametrize("cards", [127, 128, 200])
def test_goofspiel_with_many_cards(cards):
    game = Goofspiel(num_cards=cards, num_turns=1, points_order="ascending")
    tree = enumerate_game(game)
    assert tree.num_histories == 1 + cards**2
    assert tree.payoff[tree.terminals].sum() == 0 and np.abs(tree.payoff).sum() == cards * (cards - 1)
    assert len(tree.infosets[0]) == 1 and tree.infosets[0].num_actions[0] == cards
