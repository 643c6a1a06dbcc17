"""History trees: reference sizes, numbering, and independent counts in plain Python."""

import itertools
import json
import pathlib

import numpy as np
import pytest

from jaxgadget.games.game import CHANCE, SIMULTANEOUS, TERMINAL, Budget, moves_to_each
from jaxgadget.games.registry import load
from jaxgadget.tree.history import enumerate_game
from tests.reference.random_games import SHAPES, random_tree

GAMES = json.loads((pathlib.Path(__file__).parents[1] / "data" / "games.json").read_text(encoding="utf-8"))
TREES = [
    "kuhn_poker",
    "leduc_poker",
    "liars_dice(numdice=1,dice_sides=3)",
    "goofspiel(imp_info=True,num_cards=4,points_order=descending)",
    "goofspiel(num_cards=3)",
    "three_state_figure5",
    *(f"random {shape}" for shape in SHAPES),
]


def make(name):
    kind, _, shape = name.partition(" ")
    return random_tree(shape, 0)[0] if kind == "random" else enumerate_game(load(name))


@pytest.fixture(scope="module", params=TREES)
def tree(request):
    return make(request.param)


def test_the_reference_has_nine_games():
    assert len(GAMES) == 9 == len({entry["game"] for entry in GAMES})


@pytest.mark.parametrize("entry", GAMES, ids=[entry["game"] for entry in GAMES])
def test_sizes_are_the_references(entry):
    found = enumerate_game(load(entry["game"]))
    assert found.num_histories == entry["histories"]
    assert found.num_terminals == len(found.terminals) == entry["terminals"]
    assert [len(infosets) for infosets in found.infosets] == entry["infosets"]


def test_histories_are_in_breadth_first_order(tree):
    parent, offset = tree.parent.tolist(), tree.level_offset.tolist()
    assert parent[0] == 0 and offset[0] == 0 and offset[-1] == len(parent) == tree.num_histories
    assert parent[1:] == sorted(parent[1:])
    length = [0] * len(parent)
    for h in range(1, len(parent)):
        assert parent[h] < h
        length[h] = length[parent[h]] + 1
    assert length == [k for k, (a, b) in enumerate(itertools.pairwise(offset)) for _ in range(b - a)]
    has_children = set(parent[1:])
    assert [h for h in range(len(parent)) if h not in has_children] == tree.terminals.tolist()
    assert tree.terminals.tolist() == [h for h, actor in enumerate(tree.actor.tolist()) if actor == TERMINAL]


def test_cumulative_fields_of_histories(tree):
    """Moves, chance, and both players' last sequences, for every history."""
    chance = [1.0] * tree.num_histories
    moves, count = [()] * tree.num_histories, [0] * tree.num_histories
    last = [[0] * tree.num_histories for _ in (0, 1)]
    levels = list(tree.game.levels(Budget(tree.game.name)))
    own_chance = np.concatenate([level.chance for level in levels])
    for h in range(1, tree.num_histories):
        above = int(tree.parent[h])
        a, b, outcome = tree.action[:, h].tolist()
        by_chance = tree.actor[above] == CHANCE
        assert by_chance == (outcome >= 0) == (a < 0 and b < 0)
        moves[h] = (*moves[above], outcome if by_chance else (a, b) if a >= 0 and b >= 0 else max(a, b))
        count[h] = count[above] + (not by_chance)
        chance[h] = chance[above] * own_chance[h]
        for player, action in enumerate((a, b)):
            last[player][h] = last[player][above]
            if action >= 0:
                infosets, j = tree.infosets[player], tree.infoset[player, above]
                first = int(infosets.first_sequence[j])
                actions = infosets.action[first : first + infosets.num_actions[j]].tolist()
                last[player][h] = first + actions.index(action)
    assert count == tree.num_moves.tolist()
    np.testing.assert_allclose(tree.chance, chance, rtol=1e-14)
    assert last == tree.sequence.tolist()
    picked = np.random.default_rng(0).integers(tree.num_histories, size=50).tolist()
    assert [tree.moves(h) for h in (0, *picked)] == [(), *(moves[h] for h in picked)]
    several = moves_to_each(tree.parent, tree.action, np.array([0, *picked]))
    assert list(several) == [(), *(moves[h] for h in picked)]


def test_payoffs_are_player_0s_returns(tree):
    returns = np.concatenate([level.returns for level in tree.game.levels(Budget(tree.game.name))], axis=1)
    assert tree.constant == 0
    np.testing.assert_array_equal(tree.payoff, returns[0])
    values = returns[0, tree.terminals]
    assert tree.payoff_range == values.max() - values.min()


@pytest.mark.parametrize("player", [0, 1])
def test_infosets_are_numbered_by_depth_and_number_of_actions(tree, player):
    infosets, infoset = tree.infosets[player], tree.infoset[player]
    keys = list(zip(infosets.depth.tolist(), infosets.num_actions.tolist(), strict=True))
    assert keys == sorted(keys) and len(keys) == len(infosets)
    assert ((infoset >= 0) == ((tree.actor & (1, 2)[player]) > 0)).all()
    assert sorted(set(infoset[infoset >= 0].tolist())) == list(range(len(infosets)))
    assert (infoset[infosets.history] == np.arange(len(infosets))).all()
    assert (infosets.parent == tree.sequence[player, infosets.history]).all()


@pytest.mark.parametrize("player", [0, 1])
def test_infosets_join_the_histories_of_an_infostate(tree, player):
    acts = tree.infoset[player] >= 0
    pairs = set(zip(tree.infoset[player, acts].tolist(), tree.infostate[player, acts].tolist(), strict=True))
    assert len(pairs) == len(tree.infosets[player]) == len({state for _, state in pairs})


@pytest.mark.parametrize("player", [0, 1])
def test_sequences_follow_one_another(tree, player):
    infosets = tree.infosets[player]
    counts = infosets.num_actions.tolist()
    assert infosets.first_sequence.tolist() == [1 + sum(counts[:j]) for j in range(len(counts))]
    assert infosets.num_sequences == 1 + sum(counts)
    assert infosets.infoset.tolist() == [-1, *(j for j, k in enumerate(counts) for _ in range(k))]
    assert infosets.action[0] == -1
    for j, (first, count) in enumerate(zip(infosets.first_sequence.tolist(), counts, strict=True)):
        actions = infosets.action[first : first + count].tolist()
        below = np.isin(tree.parent, np.nonzero(tree.infoset[player] == j)[0])
        below[0] = False
        assert actions == sorted(set(tree.action[player, below].tolist()))
        above = int(infosets.infoset[infosets.parent[j]])
        assert infosets.depth[j] == (0 if above < 0 else infosets.depth[above] + 1)


def test_infosets_are_found_by_name():
    tree = make("kuhn_poker")
    assert tree.infoset_names == tree.infostate_strings
    for player, names in enumerate(tree.infoset_names):
        for given in (None, player):
            assert [tree.find_infoset(name, given) for name in names] == [(player, j) for j in range(6)]
        with pytest.raises(ValueError, match=rf"is not an infoset of player {1 - player} of kuhn_poker"):
            tree.find_infoset(names[0], 1 - player)
    with pytest.raises(ValueError, match="infostate '2pp' is not an infoset of kuhn_poker"):
        tree.find_infoset("2pp")
    with pytest.raises(ValueError, match="infostate 'x' is not an infoset of kuhn_poker"):
        tree.find_infoset("x")
    with pytest.raises(ValueError, match="player="):
        tree.find_infoset("0", 2)


@pytest.mark.parametrize(
    ("name", "some"),
    [
        ("leduc_poker(action_mapping=True)", " | own actions 1 2 2"),
        ("goofspiel(num_cards=4,points_order=descending)", " | own actions 3 2"),
    ],
)
def test_names_tell_infosets_apart_that_share_a_string(name, some):
    """OpenSpiel's strings omit some of a player's actions there; our infosets do not."""
    tree = make(name)
    seen = set()
    for player, (names, strings) in enumerate(zip(tree.infoset_names, tree.infostate_strings, strict=True)):
        assert len(set(names)) == len(names) > len(set(strings))
        for j, (full, string) in enumerate(zip(names, strings, strict=True)):
            suffix = full.removeprefix(string)
            assert bool(suffix) == (strings.count(string) > 1)
            assert tree.find_infoset(full, player) == (player, j)
            seen.add(suffix)
        shared = next(string for string in strings if strings.count(string) > 1)
        with pytest.raises(ValueError, match=r"is not an infoset .* such as .* \| own actions"):
            tree.find_infoset(shared, player)
    assert some in seen


def test_half_of_a_constant_sum_is_taken_from_each_player(tmp_path):
    path = tmp_path / "constant.efg"
    path.write_text(
        'EFG 2 R "constant" { "A" "B" }\np "" 1 1 "" { "x" "y" } 0\nt "" 1 "" { 4 1 }\nt "" 2 "" { -1 6 }\n',
        encoding="utf-8",
    )
    tree = enumerate_game(load(path))
    assert (tree.constant, tree.payoff.tolist(), tree.payoff_range) == (5, [0, 1.5, -3.5], 5)


def test_simultaneous_moves_are_one_step():
    tree = make("goofspiel(imp_info=True,num_cards=4,points_order=descending)")
    assert tree.actor[0] == SIMULTANEOUS and tree.level_offset.tolist()[:3] == [0, 1, 17]
    assert tree.moves(1) == ((0, 0),) and tree.num_moves[1] == 1
