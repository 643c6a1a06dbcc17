"""Forests: all subgames below a cut in one sequence form, compared with sums over their histories."""

import collections

import numpy as np
import pytest

from jaxgadget.core.host import rounded_size
from jaxgadget.games.registry import load
from jaxgadget.tree.cover import build_cover
from jaxgadget.tree.cut import cut
from jaxgadget.tree.forest import build_forest
from jaxgadget.tree.history import enumerate_game
from tests.reference import efg
from tests.reference.random_games import SHAPES, random_policy
from tests.tree.test_history import make
from tests.tree.test_sequence import check_layout

GOOFSPIEL = "goofspiel(imp_info=True,num_cards=4,points_order=descending)"
CUTS = [
    ("kuhn_poker", "depth:1"),
    ("kuhn_poker", "depth:0"),
    ("leduc_poker", "flop"),
    ("leduc_poker", "before-flop"),
    (GOOFSPIEL, "depth:1"),
    (GOOFSPIEL, "depth:2"),
    ("liars_dice(numdice=1,dice_sides=3)", "depth:1"),
    ("coin_toss_two_subgames", "play"),
    *((f"random {shape.name}", shape.cut) for shape in SHAPES.values()),
]


@pytest.fixture(scope="module", params=CUTS, ids=lambda pair: " ".join(pair))
def pair(request):
    """A forest without and one with padding."""
    name, spec = request.param
    tree = make(name)
    return build_forest(tree, spec, padded=False), build_forest(tree, spec)


def below(forest):
    """`(history, its root)` for everything at and below the cut."""
    roots, tree = set(forest.cut.roots.tolist()), forest.tree
    above = {}
    for h in range(tree.num_histories):
        root = h if h in roots else above.get(int(tree.parent[h]), -1) if h else -1
        if root >= 0:
            above[h] = root
    return above


def names_of(forest, player):
    """The tree's counterpart of every sequence of the form: a root infostate, or a sequence."""
    treeplex = forest.form.treeplex[player]
    states = [("root", s) for s in forest.roots[player].infostate.tolist()]
    padding = [None] * (treeplex.num_roots - len(states))
    rows = [("sequence", s) if s >= 0 else None for s in forest.form.action_sequences(player).tolist()]
    return [*states, *padding, *rows]


def test_payoff_is_the_sum_over_the_terminals_below(pair):
    for forest in pair:
        tree, expected = forest.tree, collections.defaultdict(float)
        roots = below(forest)
        infosets = [{*forest.infosets(player).tolist()} for player in (0, 1)]
        for h in tree.terminals.tolist():
            if h not in roots:
                continue
            key = []
            for player in (0, 1):
                last = int(tree.sequence[player, h])
                inside = int(tree.infosets[player].infoset[last]) in infosets[player]
                state = ("root", int(tree.infostate[player, roots[h]]))
                key.append(("sequence", last) if inside else state)
            expected[tuple(key)] += tree.chance[h] * tree.payoff[h]
        names = [names_of(forest, player) for player in (0, 1)]
        entries = forest.form.payoff
        found = {
            (names[0][row], names[1][column]): value
            for row, column, value in zip(
                entries.row.tolist(), entries.column.tolist(), entries.value.tolist(), strict=True
            )
        }
        assert len(found) == len(entries.value) and None not in {k for key in found for k in key}
        assert found == pytest.approx({key: v for key, v in expected.items() if v != 0}, abs=1e-15)


def test_infosets_are_those_below_the_cut(pair):
    for forest in pair:
        tree, roots = forest.tree, below(forest)
        number = dict(zip(forest.cut.roots.tolist(), forest.cut.subgame.tolist(), strict=True))
        for player in (0, 1):
            expected = np.full(len(tree.infosets[player]), -1)
            for h, root in roots.items():
                if tree.infoset[player, h] >= 0:
                    expected[tree.infoset[player, h]] = number[root]
            assert forest.infosets(player).tolist() == np.nonzero(expected >= 0)[0].tolist()
            assert forest.infoset_subgame(player).tolist() == expected.tolist()


def test_roots_are_the_infostates_at_the_cut(pair):
    for forest in pair:
        tree, whole = forest.tree, forest.cut
        for player, roots in enumerate(forest.roots):
            states = tree.infostate[player, whole.roots]
            assert sorted(roots.infostate.tolist()) == sorted(set(states.tolist())) and len(roots) > 0
            for state, subgame, sequence in zip(
                roots.infostate.tolist(), roots.subgame.tolist(), roots.sequence.tolist(), strict=True
            ):
                members = whole.roots[states == state]
                assert set(whole.subgame[states == state].tolist()) == {subgame}
                assert set(tree.sequence[player, members].tolist()) == {sequence}


def test_infosets_hang_below_their_root_or_the_sequence_above(pair):
    for forest in pair:
        tree, roots = forest.tree, below(forest)
        for player, treeplex in enumerate(forest.form.treeplex):
            check_layout(treeplex)
            names, inside = names_of(forest, player), {*forest.infosets(player).tolist()}
            top = treeplex.root_of()
            for j, parent, first in zip(
                treeplex.infoset.tolist(),
                treeplex.parent.tolist(),
                treeplex.first_sequence.tolist(),
                strict=True,
            ):
                if j < 0:
                    continue
                history = int(tree.infosets[player].history[j])
                above = int(tree.infosets[player].parent[j])
                state = ("root", int(tree.infostate[player, roots[history]]))
                is_inside = int(tree.infosets[player].infoset[above]) in inside
                assert names[parent] == (("sequence", above) if is_inside else state)
                assert names[top[first]] == state


def test_entries_of_n(pair):
    """For any blueprint, `N(s)` of design §3 is the chance entries times the resolver's reach of roots."""
    tree = pair[0].tree
    game = efg.from_tree(tree)
    policy = random_policy(tree, np.random.default_rng(1), zeros=0.2)
    reaches = efg.reaches(game.root, policy)
    for forest in pair:
        entries = forest.chance
        assert entries.shape == tuple(treeplex.num_roots for treeplex in forest.form.treeplex)
        for resolver in (0, 1):
            expected = collections.defaultdict(float)
            for h in forest.cut.roots.tolist():
                reach = reaches[game.nodes[h]]
                expected[int(tree.infostate[1 - resolver, h])] += reach[resolver] * reach[2]
            own = own_reach(tree, policy, resolver)[forest.roots[resolver].sequence]
            mine, theirs = (entries.row, entries.column)[:: 1 - 2 * resolver]
            found = np.bincount(theirs, entries.value * own[mine], minlength=len(forest.roots[1 - resolver]))
            states = forest.roots[1 - resolver].infostate.tolist()
            assert found.tolist() == pytest.approx([expected[s] for s in states], abs=1e-15)


def own_reach(tree, policy, player):
    """`[num_sequences]` the player's own reach of every sequence."""
    infosets = tree.infosets[player]
    reach = np.ones(infosets.num_sequences)
    for s in range(1, len(reach)):
        j = infosets.infoset[s]
        reach[s] = reach[infosets.parent[j]] * policy[player, int(j)][s - infosets.first_sequence[j]]
    return reach


def test_padding_rounds_sizes_and_nothing_else(pair):
    plain, padded = pair
    assert not plain.padded and padded.padded
    for player in (0, 1):
        a, b = plain.form.treeplex[player], padded.form.treeplex[player]
        assert (a.infoset >= 0).all() and a.num_roots == len(plain.roots[player])
        assert b.num_roots == rounded_size(a.num_roots)
        for runs, rounded in zip(a.levels, b.levels, strict=True):
            assert [(rounded_size(run.num_infosets), run.num_actions) for run in runs] == list(rounded)
        assert b.infoset[b.infoset >= 0].tolist() == a.infoset.tolist()
        for field in ("infostate", "subgame", "sequence"):
            assert (
                getattr(plain.roots[player], field).tolist() == getattr(padded.roots[player], field).tolist()
            )
    assert plain.form.payoff.value.tolist() == padded.form.payoff.value.tolist()
    assert plain.chance.value.tolist() == padded.chance.value.tolist()


def test_a_forest_of_one_subgame():
    tree = make("kuhn_poker")
    whole = cut(tree, "depth:1")
    one = build_forest(tree, whole.only("1b"), padded=False)
    assert one.num_subgames == 1 and one.infosets(1).tolist() == sorted(
        tree.find_infoset(name)[1] for name in ("0b", "1b", "2b")
    )
    assert one.infosets(0).tolist() == []
    two = build_forest(tree, whole, padded=False)
    assert len(one.form.payoff.value) < len(two.form.payoff.value)


def test_a_cut_at_the_root_is_the_whole_game():
    tree = make("kuhn_poker")
    forest = build_forest(tree, lambda _: [0], padded=False)
    assert [len(roots) for roots in forest.roots] == [1, 1]
    assert forest.chance.value.tolist() == [1]
    assert [forest.infosets(player).tolist() for player in (0, 1)] == [list(range(6))] * 2


def test_root_names_say_what_the_player_knows_at_its_roots():
    tree = enumerate_game(load("kuhn_poker"))
    forest = build_forest(tree, "depth:1")
    after_pass, after_bet = ([f"{card}, then {move}" for card in "012"] for move in ("Pass", "Bet"))
    assert sorted(forest.root_names(0)) == sorted([*after_pass, *after_bet]), "what it did last"
    assert sorted(forest.root_names(1)) == ["0b", "0p", "1b", "1p", "2b", "2p"], "where it acts"
    start = build_forest(tree, "depth:0")
    assert start.root_names(1) == ("0p", "1p", "2p"), "its first infoset below"
    for player, names in ((0, forest.root_names(0)), (1, forest.root_names(1))):
        for name, state in zip(names, forest.roots[player].infostate.tolist(), strict=True):
            at_root = forest.cut.roots[tree.infostate[player, forest.cut.roots] == state]
            assert {str(tree.moves(int(history))[player]) for history in at_root} == {name[0]}


@pytest.mark.parametrize("game", ["leduc_poker", "goofspiel(imp_info=True,num_cards=4)", "coin_toss"])
def test_root_names_differ(game):
    tree = enumerate_game(load(game))
    forest = build_forest(tree, next(iter(tree.game.cuts()), "depth:1"))
    for player in (0, 1):
        names = forest.root_names(player)
        assert len(set(names)) == len(names) == len(forest.roots[player])


def test_names_of_roots_that_subgames_share():
    tree = enumerate_game(load("kuhn_poker"))
    where = cut(tree, "depth:1")
    twice = np.tile(where.roots, 2)
    overlapping = build_cover(where, twice, np.repeat([0, 1], len(where.roots)))
    names = build_forest(tree, overlapping).root_names(1)
    assert len(set(names)) == len(names) == 12 and "0p | subgame 1" in names
