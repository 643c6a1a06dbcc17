"""Truncated trees: the whole tree above a depth, without enumeration of the rest."""

import dataclasses
import re
from typing import NamedTuple

import numpy as np
import pytest

from jaxgadget.games.abstraction import Abstraction
from jaxgadget.games.game import ACTOR_BIT, CHANCE, SIMULTANEOUS, TERMINAL, Budget
from jaxgadget.games.goofspiel import Goofspiel
from jaxgadget.games.kuhn import KuhnPoker
from jaxgadget.games.leduc.no_limit import NoLimitLeduc
from jaxgadget.games.leduc.rules import LeducPoker
from jaxgadget.games.liars_dice import LiarsDice
from jaxgadget.games.registry import load
from jaxgadget.games.stepwise import Rules, Step, StepwiseGame
from jaxgadget.policy.policy import Policy
from jaxgadget.tree.cut import cut
from jaxgadget.tree.history import enumerate_game
from jaxgadget.tree.matching import places_in
from tests.reference.random_games import SHAPES, random_game

EFG = """EFG 2 R "late" { "Ann" "Bob" }
p "" 1 1 "" { "in" "out" "quit" } 0
c "" 1 "" { "red" 1/3 "green" 2/3 } 0
p "" 2 1 "" { "l" "r" } 0
  p "" 1 2 "" { "a" "b" } 0 t "" 1 "" { 3 2 } t "" 2 "" { 1 4 }
  t "" 2
p "" 2 1 0 t "" 1 t "" 3 "" { 0 5 }
p "" 2 2 "" { "x" "y" } 0 t "" 1 t "" 3
t "" 4 "" { 2 3 }
"""


class Rung(NamedTuple):
    steps: int = 0
    draws: bool = False
    bonus: int = 0
    over: bool = False


@dataclasses.dataclass(frozen=True)
class Ladder(Rules[Rung]):
    """Players take turns; player 0 may have a bonus drawn, unseen by player 1; stopping ends the game."""

    length: float

    name = "ladder"
    actions = ("stop", "go", "draw")

    def initial_state(self):
        return Rung()

    def actors(self, state):
        return () if state.over else (CHANCE,) if state.draws else (state.steps % 2,)

    def legal_actions(self, state, player):
        return (0, 1, 2) if player == 0 else (0, 1)

    def chance_outcomes(self, state):
        return [(0, 0.25), (1, 0.75)]

    def step(self, state, move):
        if state.draws:
            return Step(state._replace(draws=False, bonus=move), private=(("bonus", move), None))
        if move == 0 or state.steps + 1 >= self.length:
            return Step(state._replace(over=True), reward=state.steps - 2.0 * state.bonus, public="end")
        return Step(Rung(state.steps + 1, move == 2, state.bonus), public="on")


class Unseen(Rules[tuple]):
    """Player 1 does not observe whether player 0 moved once or twice."""

    name = "unseen"
    actions = ("a", "b")

    def initial_state(self):
        return ()

    def actors(self, state):
        return () if "end" in state else (0,) if state in ((), (1,)) else (1,)

    def legal_actions(self, state, player):
        return (0, 1)

    def step(self, state, move):
        if self.actors(state) == (0,):
            return Step((*state, move))
        return Step((*state, "end"), reward=float(move))


@dataclasses.dataclass(eq=False)
class Told:
    """A game that stores the depth that it received, and its own declared depth."""

    game: object
    budget: Budget = dataclasses.field(default_factory=lambda: Budget("none"))

    def __getattr__(self, name):
        return getattr(self.game, name)

    def levels(self, budget):
        self.budget = budget
        return self.game.levels(budget)


class Deaf(Told):
    """Its generator ignores sent values."""

    def levels(self, budget):
        for level in super().levels(budget):
            yield dataclasses.replace(level)


class Mute(Told):
    """Its levels are an iterator without `send`."""

    def levels(self, budget):
        return map(lambda level: level, super().levels(budget))


class Delegate(Mute):
    """Its generator delegates to such an iterator."""

    def levels(self, budget):
        yield from super().levels(budget)


def gambit(folder):
    (folder / "late.efg").write_text(EFG, encoding="utf-8")
    return load(folder / "late.efg")


def openspiel(spec):
    pytest.importorskip("pyspiel")
    return load("openspiel:" + spec)


TAKES = {  # They expand no more than requested.
    "kuhn": KuhnPoker,
    "leduc": LeducPoker,
    "leduc, ranks": lambda: LeducPoker(suit_isomorphism=True, action_mapping=True, starting_player=1),
    "no_limit_leduc": lambda: NoLimitLeduc(stack=5, bets="1/2-1-a", max_raises=2, suit_isomorphism=True),
    "menu": lambda: load("menu(game=leduc_poker(suit_isomorphism=True),actions_0=0|1)"),
    "menu that may be left": lambda: load(
        "menu(game=leduc_poker(suit_isomorphism=True),actions_0=0|1,off_tree=1,off_tree_player=0)"
    ),
    "goofspiel": lambda: Goofspiel(num_cards=4, imp_info=True, points_order="descending"),
    "goofspiel, random": lambda: Goofspiel(num_cards=3),
    "liars_dice": lambda: LiarsDice(dice_sides=3),
    "liars_dice, two dice": lambda: LiarsDice(numdice=2, dice_sides=2),
    "coin_toss_two_subgames": lambda: load("coin_toss_two_subgames"),
    "gambit": None,
    "ladder": lambda: StepwiseGame(Ladder(4)),
    "openspiel, leduc": lambda: openspiel("leduc_poker(suit_isomorphism=True)"),
    "openspiel, simultaneous": lambda: openspiel("oshi_zumo(coins=3,size=1,horizon=3)"),
    "openspiel, phantom": lambda: openspiel("dark_hex(board_size=2)"),
}
IGNORES = {  # They expand everything until the caller stops.
    "deaf": lambda: Deaf(LeducPoker(suit_isomorphism=True)),
    "mute": lambda: Mute(LeducPoker(suit_isomorphism=True)),
    "delegate": lambda: Delegate(LeducPoker(suit_isomorphism=True)),
    "mute ladder": lambda: Mute(StepwiseGame(Ladder(4))),
    **{f"random {shape}": lambda shape=shape: random_game(shape, 0) for shape in SHAPES},
}
KNOWS_ALL = {  # It needs the whole game first.
    "abstraction": lambda: Abstraction(
        LeducPoker(suit_isomorphism=True), lambda player, name: name, name="all"
    )
}
GAMES = TAKES | IGNORES | KNOWS_ALL


@pytest.fixture(scope="module", params=GAMES)
def game(request, tmp_path_factory):
    """A name, and a function that builds the game."""
    if request.param == "gambit":
        folder = tmp_path_factory.mktemp("efg")
        return request.param, lambda: gambit(folder)
    return request.param, GAMES[request.param]


def restrict(whole, depth):
    """Histories at or above the limit, and those at it, by a loop."""
    inside, leaves, moves = {0}, set(), [0] * whole.num_histories
    for h in range(whole.num_histories):
        if h:
            above = int(whole.parent[h])
            moves[h] = moves[above] + (max(whole.action[:2, h].tolist()) >= 0)
            if above not in inside or above in leaves:
                continue
            inside.add(h)
        if whole.actor[h] & SIMULTANEOUS and moves[h] == depth:
            leaves.add(h)
    return np.array(sorted(inside)), np.array(sorted(leaves), np.int64)


def same_partition(first, second):
    pairs = len(set(zip(first.tolist(), second.tolist(), strict=True)))
    return pairs == len(set(first.tolist())) == len(set(second.tolist()))


def check_histories(tree, whole, kept, leaves):
    place = np.full(whole.num_histories, -1)
    place[kept] = np.arange(len(kept))
    np.testing.assert_array_equal(tree.parent, place[whole.parent[kept]])
    for name in ("actor", "chance", "num_moves"):
        np.testing.assert_array_equal(getattr(tree, name), getattr(whole, name)[kept])
    np.testing.assert_array_equal(tree.action, whole.action[:, kept])
    np.testing.assert_array_equal(tree.leaves, place[leaves])
    np.testing.assert_array_equal(tree.terminals, np.nonzero(whole.actor[kept] == TERMINAL)[0])
    np.testing.assert_array_equal(tree.payoff, whole.payoff[kept])
    assert tree.constant == (whole.constant if tree.num_terminals else 0)
    sizes = np.diff(np.searchsorted(kept, whole.level_offset))
    np.testing.assert_array_equal(np.diff(tree.level_offset), sizes[sizes > 0])
    assert (tree.num_leaves, tree.is_truncated) == (len(leaves), len(leaves) > 0)
    for ids, others in zip(tree.infostate, whole.infostate[:, kept], strict=True):
        assert same_partition(ids, others)
    assert (tree.public is None) == (whole.public is None)
    assert tree.public is None or same_partition(tree.public, whole.public[kept])
    return place


def check_infosets(player, tree, whole, kept, leaves, place):
    mine, theirs = tree.infosets[player], whole.infosets[player]
    above = np.nonzero((place[theirs.history] >= 0) & ~np.isin(theirs.history, leaves))[0]
    number = np.full(len(theirs) + 1, -1)  # the last one is infoset -1
    number[above] = np.arange(len(above))
    infoset = number[whole.infoset[player, kept]]
    infoset[place[leaves]] = -1
    np.testing.assert_array_equal(tree.infoset[player], infoset)
    np.testing.assert_array_equal(mine.history, place[theirs.history[above]])
    np.testing.assert_array_equal(mine.depth, theirs.depth[above])
    np.testing.assert_array_equal(mine.num_actions, theirs.num_actions[above])
    assert tree.infoset_names[player] == tuple(whole.infoset_names[player][j] for j in above.tolist())
    taken = np.nonzero(number[theirs.infoset] >= 0)[0]  # sequences of these players that exist
    sequence = np.zeros(theirs.num_sequences, np.int64)
    sequence[taken] = 1 + np.arange(len(taken))
    np.testing.assert_array_equal(mine.action[1:], theirs.action[taken])
    np.testing.assert_array_equal(mine.infoset[1:], number[theirs.infoset[taken]])
    np.testing.assert_array_equal(mine.parent, sequence[theirs.parent[above]])
    np.testing.assert_array_equal(tree.sequence[player], sequence[whole.sequence[player, kept]])


def check_claims(name, budget, tree, whole):
    num_levels = len(tree.level_offset) - 1
    if name in KNOWS_ALL:
        assert budget.num_histories == whole.num_histories
        return
    assert budget.num_levels == num_levels
    expected = whole.level_offset[num_levels] if name in IGNORES else tree.num_histories
    assert budget.num_histories == expected


def check_exactly_equal(tree, whole):
    assert not tree.is_truncated
    for field in dataclasses.fields(whole):
        if field.name not in ("game", "cache", "infosets"):
            np.testing.assert_array_equal(getattr(tree, field.name), getattr(whole, field.name), strict=True)
    for mine, theirs in zip(tree.infosets, whole.infosets, strict=True):
        for field in dataclasses.fields(theirs):
            np.testing.assert_array_equal(getattr(mine, field.name), getattr(theirs, field.name), strict=True)


def test_a_truncated_tree_is_the_whole_tree_above_its_leaves(game):
    name, make = game
    whole = enumerate_game(make())
    longest = int(whole.num_moves.max())
    counts = []
    for depth in range(longest + 2):
        told = Told(make())
        tree = enumerate_game(told, depth=depth)
        kept, leaves = restrict(whole, depth)
        place = check_histories(tree, whole, kept, leaves)
        for player in (0, 1):
            check_infosets(player, tree, whole, kept, leaves, place)
        check_claims(name, told.budget, tree, whole)
        if depth < longest:
            for found, expected in ((tree, tree.leaves), (whole, leaves)):
                np.testing.assert_array_equal(cut(found, f"depth:{depth}").roots, expected)
        else:
            check_exactly_equal(tree, whole)
        counts.append(tree.num_histories)
    assert counts == sorted(counts) and len(set(counts)) == longest + 1


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("kuhn_poker", "depth:2"),
        ("leduc_poker(num_ranks=2)", "flop"),
        ("leduc_poker(num_ranks=2)", "before-flop"),
        ("leduc_poker(num_ranks=2)", "chance"),
    ],
)
def test_a_tree_may_end_at_a_cut(name: str, limit: str):
    game = load(name)
    whole, tree = enumerate_game(game), enumerate_game(game, limit=limit)
    roots = cut(whole, limit)
    place = places_in(whole, tree, "tree")  # compares everything above and at the limit
    np.testing.assert_array_equal(place[tree.leaves], roots.roots)
    np.testing.assert_array_equal(cut(tree, limit).roots, tree.leaves)
    inside = np.flatnonzero(roots.root < 0)
    np.testing.assert_array_equal(place, np.sort(np.concatenate([inside, roots.roots])))


def test_a_limit_is_known_and_alone():
    with pytest.raises(ValueError, match="cut='river' is unknown for kuhn_poker"):
        enumerate_game(KuhnPoker(), limit="river")
    with pytest.raises(ValueError, match="cannot be combined"):
        enumerate_game(KuhnPoker(), limit="depth:1", depth=1)


def test_only_the_first_levels_of_a_large_game_are_enumerated():
    game = load("goofspiel(num_cards=7,imp_info=True,points_order=descending)")  # of 32,503,514 histories
    tree = enumerate_game(game, depth=2, max_histories=2_000)
    assert (tree.num_histories, tree.num_leaves, tree.num_terminals) == (1 + 49 + 49 * 36, 49 * 36, 0)
    assert [len(infosets) for infosets in tree.infosets] == [20, 20]
    assert repr(tree) == (
        f"<HistoryTree of {game.name}: 1814 histories, 20 + 20 infosets, truncated at 1764 leaves>"
    )


def test_a_game_without_end_has_truncated_trees():
    game = StepwiseGame(Ladder(float("inf")))
    with pytest.raises(ValueError, match="max_histories="):
        enumerate_game(game, max_histories=1_000)
    tree = enumerate_game(game, depth=3, max_histories=1_000)
    assert set(tree.num_moves[tree.leaves].tolist()) == {3}
    assert len(tree.infosets[0]) == 1 + 1 + 2 and len(tree.infosets[1]) == 1


def test_no_player_acts_at_a_leaf():
    tree = enumerate_game(KuhnPoker(), depth=1)
    assert tree.num_leaves == 12 and (tree.infoset[:, tree.leaves] == -1).all()
    assert (tree.actor[tree.leaves] == ACTOR_BIT[1]).all()
    assert not np.isin(tree.leaves, tree.parent).any()
    assert [len(names) for names in tree.infoset_names] == [3, 0]
    uniform = Policy.uniform(tree)
    assert [rows.shape for rows in uniform.probabilities] == [(6, 1), (0, 1)]
    assert tree.payoff_range == np.finfo(np.float64).tiny  # there is no terminal


def test_an_infoset_on_both_sides_of_the_limit_is_refused():
    game = StepwiseGame(Unseen())
    with pytest.raises(ValueError, match="crosses an infoset"):
        enumerate_game(game, depth=2)
    with pytest.raises(ValueError, match="depth"):
        cut(enumerate_game(game), "depth:2")
    assert enumerate_game(game, depth=1).num_leaves == 2


def test_a_game_that_stops_too_early_is_found_out():
    class Short(Told):
        def levels(self, budget):
            yield from list(super().levels(budget))[:4]

    with pytest.raises(ValueError, match="history"):
        enumerate_game(Short(KuhnPoker()), depth=3)


def test_sent_values_select_the_histories_to_expand():
    """Any set of histories, not only those above a depth."""
    for game, level, rows in ((LeducPoker(), 3, [0, 2]), (StepwiseGame(Ladder(4)), 2, [1])):
        plain = list(game.levels(Budget("plain")))
        levels = game.levels(Budget("told"))
        for _ in range(level + 1):
            found = next(levels)
        expand = np.zeros(len(found.parent), np.bool_)
        expand[rows] = True
        below = levels.send(expand)
        assert set(rows) <= set(below.parent.tolist()) and len(below.parent) < len(plain[level + 1].parent)
        for _ in levels:  # a plain loop expands the rest
            pass
    levels = StepwiseGame(Ladder(4)).levels(Budget("told"))
    next(levels)
    with pytest.raises(StopIteration):
        levels.send(np.zeros(1, np.bool_))


# Histories of one tree in another


def changed(tree, **fields):
    """The tree with other arrays, without cached data."""
    return dataclasses.replace(tree, cache={}, **fields)


def test_a_tree_is_found_in_itself_and_in_deeper_ones(game):
    _, make = game
    trees = [enumerate_game(make(), depth=depth) for depth in (1, 2, None)]
    for i, short in enumerate(trees):
        for whole in trees[i:]:
            place = places_in(whole, short, "it")
            assert [whole.moves(h) for h in place.tolist()] == list(map(short.moves, range(len(place))))
            assert places_in(whole, short, "it") is place, "found once"
    if trees[1].is_truncated and trees[1].num_histories < trees[2].num_histories:
        with pytest.raises(ValueError, match="history"):
            places_in(trees[1], trees[2], "it")


def differing(whole):
    """Games of the same name with one difference, and the location of the first difference."""
    last, h = whole.num_histories - 1, int(whole.terminals[0])
    action, actor, chance, payoff = (
        getattr(whole, name).copy() for name in ("action", "actor", "chance", "payoff")
    )
    action[:2, h] = action[:2, h][::-1]
    actor[5] = ACTOR_BIT[1]
    chance[last] *= 0.5
    payoff[h] += 0.001
    joined, split = whole.infostate.copy(), whole.infostate.copy()
    first, second = whole.infosets[1].history[:2].tolist()
    joined[1, joined[1] == joined[1, second]] = joined[1, first]
    same = np.nonzero(split[0] == split[0, whole.infosets[0].history[0]])[0]
    split[0, same[-1]] = split.max() + 1
    return {
        "moves": (changed(whole, action=action), h),
        "actors": (changed(whole, actor=actor), 5),
        "chance probabilities": (changed(whole, chance=chance), last),
        "payoffs": (changed(whole, payoff=payoff), h),
        "infostates of player 1": (changed(whole, infostate=joined), second),
        "infostates of player 0": (changed(whole, infostate=split), int(same[-1])),
    }


@pytest.mark.parametrize("which", list(differing(enumerate_game(KuhnPoker()))))
def test_another_game_of_the_same_name_is_refused(which):
    whole = enumerate_game(KuhnPoker())
    other, history = differing(whole)[which]
    moves = re.escape(str(whole.moves(history)))
    message = f"it is for .*'kuhn_poker': {which} differ at history {moves}"
    for one, two in ((whole, other), (other, whole)):
        with pytest.raises(ValueError, match=message if one is whole or which != "moves" else "moves differ"):
            places_in(one, two, "it")


def test_a_game_with_fewer_moves_is_refused():
    """The histories of the shorter ladder all exist in the longer one, where they are not terminal."""
    short, long = (enumerate_game(StepwiseGame(Ladder(length))) for length in (2, 3))
    for one, two in ((short, long), (long, short)):
        with pytest.raises(ValueError, match="history"):
            places_in(one, two, "it")
    with pytest.raises(ValueError, match="it is for 'ladder', not for 'kuhn_poker'"):
        places_in(short, enumerate_game(KuhnPoker()), "it")
    with pytest.raises(ValueError, match="expected a HistoryTree"):
        places_in(short, "ladder", "it")


class Uneven(Rules[tuple]):
    """After `a` player 1 ends it; after `b` chance moves twice, then player 1 acts."""

    name = "uneven"
    actions = ("a", "b")

    def initial_state(self):
        return ()

    def actors(self, state):
        if len(state) < 2:
            return (0,) if not state else (1,) if state[0] == 0 else (CHANCE,)
        return () if state[0] == 0 or len(state) == 4 else (CHANCE,) if len(state) == 2 else (1,)

    def legal_actions(self, state, player):
        return [0, 1]

    def chance_outcomes(self, state):
        return [(0, 0.5), (1, 0.5)]

    def step(self, state, move):
        return Step((*state, move), reward=float(move), public=(len(state), move))


def test_dropped_histories_above_leave_the_parents_below_right():
    """A game that ignores requests also yields the children of a leaf; these may have none."""
    game = StepwiseGame(Uneven())
    tree, deaf = (enumerate_game(g, depth=1) for g in (game, Abstraction(game, lambda player, name: name)))
    np.testing.assert_array_equal(deaf.parent, tree.parent)
    assert deaf.parent.tolist() == [0, 0, 0, 2, 2, 3, 3, 4, 4]
