"""One contract for every game, checked in plain Python on its levels; and games that violate it.

Valid games are checked without `tree/contract.py`.
"""

import collections
import dataclasses
import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest

from jaxgadget.games.game import CHANCE, PLAYER_0, PLAYER_1, SIMULTANEOUS, TERMINAL, Budget, HistoryLevel
from jaxgadget.games.goofspiel import Goofspiel
from jaxgadget.games.kuhn import KuhnPoker
from jaxgadget.games.leduc.no_limit import NoLimitLeduc
from jaxgadget.games.leduc.rules import LeducPoker
from jaxgadget.games.liars_dice import LiarsDice
from jaxgadget.games.phantom import DarkHex
from jaxgadget.games.registry import list_games, load
from jaxgadget.games.stepwise import Rules, Step
from jaxgadget.tree.history import enumerate_game
from tests.reference.random_games import SHAPES, random_game

BUILT_IN = [
    KuhnPoker(),
    LeducPoker(),
    LeducPoker(suit_isomorphism=True, starting_player=1),
    LeducPoker(action_mapping=True),
    LeducPoker(num_ranks=4, num_suits=1, max_raises=3),
    LeducPoker(num_ranks=1, num_suits=3),
    NoLimitLeduc(stack=5, suit_isomorphism=True),
    NoLimitLeduc(stack=9, bets="1/2-1-a", max_raises=2, starting_player=1, num_ranks=2),
    *(
        Goofspiel(num_cards=3, points_order=order, imp_info=hidden, egocentric=ego, returns_type=returns)
        for order, hidden, (ego, returns) in itertools.product(
            ("random", "descending", "ascending"),
            (False, True),
            ((False, "win_loss"), (True, "point_difference")),
        )
    ),
    Goofspiel(num_cards=1),
    Goofspiel(num_cards=4, imp_info=True, points_order="descending"),
    Goofspiel(num_cards=4, num_turns=2, imp_info=True),
    LiarsDice(dice_sides=1),
    LiarsDice(dice_sides=4),
    LiarsDice(dice_sides=3, bidding_rule="reset-quantity"),
    LiarsDice(numdice=2, dice_sides=2),
    DarkHex(board_size=2),
    DarkHex(board_size=2, gameversion="adh", obstype="reveal-numturns"),
]
TOO_LARGE = {"phantom_ttt"}
"""At any parameters; `test_builtin.py` samples its histories beside OpenSpiel's."""
EXAMPLES = [
    entry.name
    for entry in list_games()
    if entry.name not in TOO_LARGE and not isinstance(load(entry.name), tuple(map(type, BUILT_IN)))
]
OPENSPIEL = [
    "kuhn_poker",
    "liars_dice(numdice=1,dice_sides=3)",
    "goofspiel(imp_info=True,num_cards=3,points_order=random)",
    "matrix_rps",
    "oshi_zumo(coins=3,size=1,horizon=3)",
    "coordinated_mp",
    "dark_hex(board_size=2)",
    "breakthrough(rows=3,columns=2)?observations",
    "start_at(history=0;4;1;2;6;3;5;7,game=phantom_ttt())",
    "restricted_nash_response(game=kuhn_poker())",
]
EFG = """EFG 2 R "hidden" { "Ann" "Bob" }
c "" 1 "" { "red" 1/3 "green" 2/3 } 0
p "" 1 1 "" { "up" "down" } 1 "" { -1, 1 }
  p "" 2 1 "" { "l" "r" } 0 t "" 2 "" { 3 -2 } t "" 3 "" { 1 0 }
  p "" 1 2 "" { "a" "b" } 0 t "" 2 t "" 4 "" { 0 1 }
p "" 2 1 0 t "" 2 t "" 3
"""


class Scout(NamedTuple):
    secret: int = -1
    waited: bool = False
    over: bool = False


class Ambush(Rules[Scout]):
    """A user-defined game: player 0 may wait unseen, once; then both choose a side at the same time."""

    name = "ambush"
    actions = ("left", "right", "wait")

    def initial_state(self):
        return Scout()

    def actors(self, state):
        return () if state.over else (CHANCE,) if state.secret < 0 else (0,) if not state.waited else (0, 1)

    def legal_actions(self, state, player):
        return [0, 2] if not state.waited else [0, 1]

    def chance_outcomes(self, state):
        return [(0, 0.25), (1, 0.75)]

    def step(self, state, move):
        if state.secret < 0:
            return Step(Scout(move), private=(("secret", move), None))
        if not state.waited:
            return Step(Scout(state.secret, waited=True, over=move == 0), reward=-0.5)
        return Step(Scout(state.secret, True, over=True), reward=1.0 if move[0] == move[1] else -state.secret)


@pytest.fixture(scope="module")
def efg_files(tmp_path_factory):
    """Names of Gambit files: one of this project, and Kuhn poker as OpenSpiel exports it."""
    pyspiel = pytest.importorskip("pyspiel")
    gambit = pytest.importorskip("open_spiel.python.algorithms.gambit")
    folder = tmp_path_factory.mktemp("efg")
    texts = {"hidden": EFG, "kuhn": gambit.export_gambit(pyspiel.load_game("kuhn_poker"))}
    for name, text in texts.items():
        (folder / f"{name}.efg").write_text(text, encoding="utf-8")
    return {name: str(folder / f"{name}.efg") for name in texts}


# Valid games


@dataclasses.dataclass(frozen=True)
class History:
    """A history in plain Python; `own` lists both players' actions, each with the infostate at the time."""

    moves: tuple
    actor: int
    chance: float
    returns: tuple
    infostate: tuple
    public: object
    own: tuple
    children: list = dataclasses.field(default_factory=list)


def read_levels(game):
    """Every history of a game, from its levels alone; also checks the format of the arrays."""
    budget = Budget(game.name)
    above, found = [], []
    for number, level in enumerate(game.levels(budget)):
        n = len(level.parent)
        assert level.actor.shape == level.chance.shape == level.parent.shape == (n,)
        assert level.action.shape == (3, n) and level.returns.shape == level.infostate.shape == (2, n)
        public = [None] * n if level.public is None else level.public.tolist()
        assert len(public) == n
        rows = zip(
            level.parent.tolist(),
            level.actor.tolist(),
            level.action.T.tolist(),
            level.chance.tolist(),
            level.returns.T.tolist(),
            level.infostate.T.tolist(),
            public,
            strict=True,
        )
        here = []
        for parent, actor, action, chance, returns, infostate, shown in rows:
            moves, own = (), ((), ())
            if number > 0:
                before = above[parent]
                moves = (*before.moves, tuple(action))
                own = tuple(
                    (*before.own[p], (before.infostate[p], action[p])) if action[p] >= 0 else before.own[p]
                    for p in (0, 1)
                )
            here.append(History(moves, actor, chance, tuple(returns), tuple(infostate), shown, own))
            if number > 0:
                above[parent].children.append(here[-1])
            else:
                assert n == 1 and parent == 0
        found += here
        above = here
        assert budget.num_histories >= len(found)
    assert all(h.actor == TERMINAL for h in above)
    assert budget.num_histories == len(found)
    return found


def check_moves(history):
    """Only the acting player has moves; they are distinct and ascending, and form a product."""
    assert history.actor in (TERMINAL, PLAYER_0, PLAYER_1, SIMULTANEOUS, CHANCE)
    assert bool(history.children) == (history.actor != TERMINAL)
    last = [child.moves[-1] for child in history.children]
    assert last == sorted(set(last))
    for who, bit in enumerate((PLAYER_0, PLAYER_1, CHANCE)):
        assert all((move[who] >= 0) == bool(history.actor & bit) for move in last)
    choices = [sorted({move[who] for move in last}) for who in range(3)]
    assert last == list(itertools.product(*choices)) or history.actor == TERMINAL


def check_numbers(histories):
    """Chance sums to 1 where it acts and is 1 elsewhere; the returns have a constant sum."""
    for h in histories:
        if h.actor == CHANCE:
            assert all(0 <= child.chance <= 1 for child in h.children)
            assert math.fsum(child.chance for child in h.children) == pytest.approx(1, abs=1e-9)
        else:
            assert all(child.chance == 1 for child in h.children)
    assert histories[0].chance == 1
    ends = [h.returns for h in histories if h.actor == TERMINAL]
    assert np.isfinite(ends).all()
    assert np.ptp(np.sum(ends, axis=1)) <= 1e-9 * max(1, np.abs(ends).max())
    assert all(h.returns == (0, 0) for h in histories if h.actor != TERMINAL)


def check_information(histories, player):
    """An infostate determines the player's past infostates and actions, and its legal actions."""
    own, legal = {}, {}
    for h in histories:
        state = h.infostate[player]
        assert state >= 0
        assert own.setdefault(state, h.own[player]) == h.own[player]  # perfect recall, wherever it is
        if h.actor & (PLAYER_0, PLAYER_1)[player]:
            actions = sorted({child.moves[-1][player] for child in h.children})
            assert legal.setdefault(state, actions) == actions
    return legal


def closure(histories):
    """For every history, the first history of its common-knowledge class."""
    leader = list(range(len(histories)))

    def find(k):
        while leader[k] != k:
            leader[k] = leader[leader[k]]
            k = leader[k]
        return k

    for player in (0, 1):
        first = {}
        for k, h in enumerate(histories):
            a, b = sorted((find(k), find(first.setdefault(h.infostate[player], k))))
            leader[b] = a
    return [find(k) for k in range(len(histories))]


def check_public(histories):
    """A common-knowledge class has one public state; or the game defines none."""
    named = {h.public is None for h in histories}
    assert len(named) == 1
    if named == {False}:
        for k, first in enumerate(closure(histories)):
            assert histories[k].public == histories[first].public


def to_move(step):
    return (step[0], step[1]) if step[0] >= 0 and step[1] >= 0 else max(step)


def check_strings(game, histories, player):
    """One string per infoset; for infosets with many histories only a few are checked."""
    asked = collections.defaultdict(list)
    for h in histories:
        if h.actor & (PLAYER_0, PLAYER_1)[player]:
            asked[h.infostate[player]].append(h)
    for same in itertools.islice(asked.values(), 300):
        moves = [tuple(map(to_move, h.moves)) for h in (same[0], same[len(same) // 2], same[-1])]
        assert len({game.infostate_string(player, m) for m in moves}) == 1


def check_contract(game):
    histories = read_levels(game)
    for h in histories:
        check_moves(h)
    check_numbers(histories)
    legal = [check_information(histories, player) for player in (0, 1)]
    check_public(histories)
    for player in (0, 1):
        check_strings(game, histories, player)
        assert all(0 <= a < game.num_actions for actions in legal[player].values() for a in actions)
        assert all(game.action_string(player, a) for a in {a for row in legal[player].values() for a in row})
    tree = enumerate_game(game)  # and production agrees
    assert (tree.num_histories, *map(len, tree.infosets)) == (len(histories), *map(len, legal))
    return histories


@pytest.mark.parametrize("game", BUILT_IN, ids=lambda game: game.name)
def test_built_in_games_keep_the_contract(game):
    check_contract(game)
    assert load(game.name) == game


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_keep_the_contract(name):
    check_contract(load(name))


def test_every_named_game_is_tried():
    tried = {game.name.partition("(")[0] for game in BUILT_IN} | set(EXAMPLES)
    assert tried | TOO_LARGE == {entry.name for entry in list_games()} and len(EXAMPLES) >= 9


@pytest.mark.parametrize("spec", OPENSPIEL)
def test_openspiels_games_keep_the_contract(spec):
    pytest.importorskip("pyspiel")
    check_contract(load("openspiel:" + spec))


@pytest.mark.parametrize("name", ["hidden", "kuhn"])
def test_gambit_files_keep_the_contract(efg_files, name):
    check_contract(load(efg_files[name]))


def test_a_users_game_keeps_the_contract():
    histories = check_contract(load(Ambush()))
    # Player 1 does not observe the first moves: one infostate at histories of different lengths.
    assert len({len(h.moves) for h in histories if h.infostate[1] == histories[0].infostate[1]}) > 1


@pytest.mark.parametrize("shape", SHAPES)
def test_random_games_keep_the_contract(shape):
    for seed in (0, 1):
        check_contract(random_game(shape, seed))


# Violations


class Arrays:
    """A game given by its levels; its infostates have no names."""

    name = "broken"
    num_actions = 4

    def __init__(self, *rows):
        """Levels of `(parent, actor, actions of 0, 1 and chance, probability, returns, infostates)`."""
        self._rows = rows

    def levels(self, budget):
        for rows in self._rows:
            budget.claim(len(rows))
            parent, actor, action, chance, returns, infostate, *public = zip(*rows, strict=True)
            yield HistoryLevel(
                parent=np.array(parent),
                actor=np.array(actor, np.uint8),
                action=np.array(action).T,
                chance=np.array(chance, float),
                returns=np.array(returns, float).T,
                infostate=np.array(infostate).T,
                public=np.array(public[0]) if public else None,
            )

    def infostate_string(self, player, history):
        return str(player)

    def action_string(self, player, action):
        return str(action)

    def cuts(self):
        return {}


START = (-1, -1, -1)
ZERO = (0, 0)
WIN, LOSS = (1, -1), (-1, 1)


def by(player, action):
    """The actions of a step of one player."""
    return (action, -1, -1) if player == 0 else (-1, action, -1)


def deal(probabilities, returns=(WIN, LOSS), publics=None):
    """Chance deals and the game ends; player 0 sees the card, player 1 does not."""
    rows = [
        (0, TERMINAL, (-1, -1, k), p, r, (1 + k, 1))
        for k, (p, r) in enumerate(zip(probabilities, returns, strict=True))
    ]
    root = (0, CHANCE, START, 1, ZERO, (0, 0))
    if publics is None:
        return Arrays([root], rows)
    return Arrays([(*root, 0)], [(*row, public) for row, public in zip(rows, publics, strict=True)])


def recall(player, second=(0, 1), actions=((0, 1), (0, 1)), own=True):
    """Two moves of a player, the second at the given infosets with the given actions.

    If not `own`, the first move is the other player's, which may be forgotten.
    """
    first = player if own else 1 - player
    others = [0, 0] if own else [1, 2]
    states = [(1 + s, other)[:: 1 - 2 * player] for s, other in zip(second, others, strict=True)]
    bit = (PLAYER_0, PLAYER_1)
    ends = [
        (k, TERMINAL, by(player, a), 1, WIN, (9 + 4 * k + a, 9 + 4 * k + a))
        for k, legal in enumerate(actions)
        for a in legal
    ]
    return Arrays(
        [(0, bit[first], START, 1, ZERO, (0, 0))],
        [(0, bit[player], by(first, k), 1, ZERO, state) for k, state in enumerate(states)],
        ends,
    )


def test_the_small_games_below_are_sound_until_something_is_broken():
    for game in (deal([0.5, 0.5]), deal([1.0, 0.0], publics=(1, 1)), recall(0), recall(1)):
        check_contract(game)
    check_contract(recall(0, second=(0, 0), own=False))
    check_contract(recall(1, second=(0, 0), own=False))


@pytest.mark.parametrize(
    ("probabilities", "message"),
    [
        ([0.5, 0.4], r"chance probabilities after history \(\) sum to 0\.9, expected 1"),
        ([-0.5, 1.5], r"chance probability -0\.5 of history \(0,\) is not in \[0, 1\]"),
        ([0.5, math.nan], r"chance probability nan of history \(1,\) is not in \[0, 1\]"),
    ],
)
def test_chance_that_is_none_is_refused(probabilities, message):
    with pytest.raises(ValueError, match=r"^broken: .*" + message):
        enumerate_game(deal(probabilities))


@pytest.mark.parametrize("bad", [(1, math.nan), (math.inf, -math.inf)])
def test_payoffs_that_are_no_numbers_are_refused(bad):
    with pytest.raises(ValueError, match="finite"):
        enumerate_game(deal([0.5, 0.5], (WIN, bad)))


def test_a_sum_that_is_not_constant_is_refused():
    message = r"not zero-sum or constant-sum: .* sum to 0 at history \(0,\) and to 0\.001 at history \(1,\)"
    with pytest.raises(ValueError, match=message):
        enumerate_game(deal([0.5, 0.5], (WIN, (1.001, -1))))
    assert enumerate_game(deal([0.5, 0.5], ((3, -1), (0, 2)))).constant == 2


@pytest.mark.parametrize("player", [0, 1])
def test_imperfect_recall_is_refused(player):
    message = rf"the contract for player {player}: perfect recall, .* Histories \(0,\) and \(1,\) show it"
    with pytest.raises(ValueError, match=message):
        enumerate_game(recall(player, second=(0, 0)))


@pytest.mark.parametrize("player", [0, 1])
@pytest.mark.parametrize("actions", [((0, 1), (0, 2)), ((0,), (0, 1, 2))])
def test_unequal_legal_actions_are_refused(player, actions):
    histories = r"history \((0|1),\) .*, unlike \((0|1),\)"
    if len(actions[0]) == len(actions[1]):
        histories = r"history \(0,\)"  # equally many, but different ones
    message = rf"broken: legal actions differ within an infoset of player {player}: {histories}"
    with pytest.raises(ValueError, match=message):
        enumerate_game(recall(player, second=(0, 0), actions=actions, own=False))


def joint(pairs):
    """Both move at once after an unseen chance move; `pairs` are the joint actions of both histories."""
    ends = [
        (k, TERMINAL, (a, b, -1), 1, WIN, (9 + 16 * k + 4 * a + b,) * 2)
        for k, moves in enumerate(pairs)
        for a, b in moves
    ]
    return Arrays(
        [(0, CHANCE, START, 1, ZERO, (0, 0))],
        [(0, SIMULTANEOUS, (-1, -1, k), 0.5, ZERO, (1, 1)) for k in (0, 1)],
        ends,
    )


def test_joint_actions_that_are_missing_are_refused():
    every = list(itertools.product((0, 1), (0, 1)))
    check_contract(joint((every, every)))
    with pytest.raises(ValueError, match="player 0"):
        enumerate_game(joint((every, every[:3])))


@pytest.mark.parametrize("player", [0, 1])
def test_public_states_finer_than_common_knowledge_are_refused(player):
    blind = [[(0, TERMINAL, (-1, -1, k), 0.5, WIN, (1, 1 + k), k) for k in (0, 1)]]
    if player == 1:
        blind = [[(*row[:5], row[5][::-1], row[6]) for row in blind[0]]]
    message = rf"the contract for player {player}: .*public state.* Histories \(0,\) and \(1,\) show it"
    with pytest.raises(ValueError, match=message):
        enumerate_game(Arrays([(0, CHANCE, START, 1, ZERO, (0, 0), 7)], *blind))


def test_a_game_that_stops_in_the_middle_is_refused():
    game = Arrays(
        [(0, CHANCE, START, 1, ZERO, (0, 0))],
        [
            (0, CHANCE, (-1, -1, 0), 0.5, ZERO, (1, 1)),
            (0, TERMINAL, (-1, -1, 1), 0.5, WIN, (2, 2)),
        ],
    )
    with pytest.raises(ValueError, match=r"after history \(0,\) sum to 0|\(0,\) is not terminal but nothing"):
        enumerate_game(game)
    stuck = Arrays(
        [(0, CHANCE, START, 1, ZERO, (0, 0))],
        [
            (0, PLAYER_1, (-1, -1, 0), 0.5, ZERO, (1, 1)),
            (0, TERMINAL, (-1, -1, 1), 0.5, WIN, (2, 2)),
        ],
    )
    with pytest.raises(ValueError, match=r"\(0,\) is not terminal"):
        enumerate_game(stuck)


def test_an_infostate_that_forgets_between_own_moves_is_refused():
    """Player 0 does not act at the second histories, but knows its action there, which a cut requires."""
    game = Arrays(
        [(0, PLAYER_0, START, 1, ZERO, (0, 0))],
        [(0, PLAYER_1, by(0, k), 1, ZERO, (1, 1)) for k in (0, 1)],
        [(k, TERMINAL, by(1, a), 1, WIN, (9 + 2 * k + a, 9 + 2 * k + a)) for k in (0, 1) for a in (0, 1)],
    )
    with pytest.raises(ValueError, match="player 0"):
        enumerate_game(game)


def test_a_probability_on_a_players_move_is_refused():
    game = Arrays(
        [(0, PLAYER_0, START, 1, ZERO, (0, 0))],
        [(0, TERMINAL, by(0, k), 0.5, WIN, (1 + k, 1 + k)) for k in (0, 1)],
    )
    with pytest.raises(ValueError, match=r"broken: .*chance.*\(0,\)"):
        enumerate_game(game)


def test_the_same_action_twice_is_refused():
    game = recall(0, second=(0, 0), actions=((0, 1), (0, 0)), own=False)
    with pytest.raises(ValueError, match=r"broken: .*\(1,\)"):
        enumerate_game(game)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ((1, 0), "histories"),
        ((0, 0), "history"),
    ],
)
def test_moves_out_of_order_are_refused(order, message):
    rows = [(0, TERMINAL, by(1, a), 1, WIN, (0, 1 + a)) for a in order]
    with pytest.raises(ValueError, match=message):
        enumerate_game(Arrays([(0, PLAYER_1, START, 1, ZERO, (0, 0))], rows))


def test_histories_out_of_their_parents_order_are_refused():
    ends = [(k, TERMINAL, by(0, 0), 1, WIN, (0, 0)) for k in (1, 0)]
    game = Arrays(
        [(0, CHANCE, START, 1, ZERO, (0, 0))],
        [(0, PLAYER_0, (-1, -1, k), 0.5, ZERO, (0, 0)) for k in (0, 1)],
        ends,
    )
    with pytest.raises(ValueError, match="history"):
        enumerate_game(game)


@pytest.mark.parametrize(
    ("actor", "action", "message"),
    [
        (PLAYER_0, (-1, 0, -1), r"player 0 acts after history \(\) but does nothing on the way to \(0,\)"),
        (CHANCE, (0, -1, 0), r"player 0 does not act after history \(\) but moves on the way to \(0,\)"),
        (SIMULTANEOUS, (0, -1, -1), r"player 1 acts after history \(\) but does nothing"),
    ],
)
def test_moves_of_another_player_are_refused(actor, action, message):
    game = Arrays([(0, actor, START, 1, ZERO, (0, 0))], [(0, TERMINAL, action, 1, WIN, (1, 1))])
    with pytest.raises(ValueError, match=rf"^broken: {message}"):
        enumerate_game(game)


# Sizes


def small_games(efg_files):
    return [
        KuhnPoker(),
        Goofspiel(num_cards=3, imp_info=True),
        load("coin_toss"),
        load(Ambush()),
        load("openspiel:kuhn_poker"),
        load(efg_files["hidden"]),
        random_game("uneven", 0),
    ]


def test_max_histories_is_the_largest_number_allowed(efg_files):
    for game in small_games(efg_files):
        size = enumerate_game(game).num_histories
        assert enumerate_game(game, max_histories=size).num_histories == size
        message = (
            rf"has at least {size:,} histories \(reached at level \d+\), "
            rf"more than max_histories={size - 1:,}: "
            r"raise max_histories \(--max-histories on the command line\)"
        )
        with pytest.raises(ValueError, match=message) as caught:
            enumerate_game(game, max_histories=size - 1)
        assert str(caught.value).startswith(game.name)


def test_max_histories_must_be_positive():
    with pytest.raises(ValueError, match="max_histories="):
        enumerate_game(KuhnPoker(), max_histories=0)


def test_the_default_stops_a_huge_game_early():
    with pytest.raises(ValueError, match="max_histories="):
        enumerate_game(load("goofspiel(num_cards=24)"))
