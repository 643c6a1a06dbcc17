"""Cuts: roots, their grouping into subgames, and errors, compared with the definitions."""

import re

import numpy as np
import pytest

from jaxgadget.games.game import CHANCE, PLAYER_0, PLAYER_1, SIMULTANEOUS, TERMINAL
from jaxgadget.tree.cut import Cut, cut, cut_at, kept_subgames
from jaxgadget.tree.history import enumerate_game
from tests.games.test_contract import LOSS, START, WIN, ZERO, Arrays, by
from tests.reference import cuts, efg
from tests.reference.random_games import SHAPES, RandomGame, random_shape
from tests.tree.test_history import make

GOOFSPIEL = "goofspiel(imp_info=True,num_cards=4,points_order=descending)"
LIARS_DICE = "liars_dice(numdice=1,dice_sides=4)"


def at(tree, *moves):
    """The history after some moves."""
    return next(h for h in range(tree.num_histories) if tree.moves(h) == moves)


def groups(found):
    """Root histories of every subgame, by first root."""
    return [found.roots[found.subgame == k].tolist() for k in range(found.num_subgames)]


# Roots of cuts


@pytest.mark.parametrize(
    ("name", "depth"),
    [
        ("kuhn_poker", 0),
        ("kuhn_poker", 1),
        ("kuhn_poker", 2),
        ("three_state_figure5", 1),
        ("coin_toss_two_subgames", 1),
        (GOOFSPIEL, 1),
        (GOOFSPIEL, 2),
        ("goofspiel(imp_info=True,num_cards=3)", 1),
        ("liars_dice(numdice=1,dice_sides=3)", 1),
        *((f"random {shape}", int(SHAPES[shape].cut[-1])) for shape in SHAPES),
    ],
)
def test_depth_cuts_are_the_definitions(name, depth):
    tree = make(name)
    game = efg.from_tree(tree)
    roots = cuts.depth_roots(game, depth)
    expected = cuts.components(game, roots)
    found = cut(tree, f"depth:{depth}")
    assert len(roots) > 0 and found.roots.tolist() == roots
    assert groups(found) == expected
    assert found.num_subgames == len(expected)
    assert (found.name, found.tree) == (f"depth:{depth}", tree)
    if name.startswith("random "):
        assert len(expected) == SHAPES[name.removeprefix("random ")].subgames


def test_cuts_are_refused_where_they_cross_an_infoset_and_nowhere_else():
    refused = 0
    for seed in range(60):
        shape = random_shape(seed)
        tree = enumerate_game(RandomGame(shape, seed))
        game = efg.from_tree(tree)
        components = cuts.components(game, cuts.depth_roots(game, int(shape.cut.removeprefix("depth:"))))
        if cuts.crosses(game, components):
            refused += 1
            with pytest.raises(ValueError, match="crosses an infoset"):
                cut(tree, shape.cut)
        else:
            assert groups(cut(tree, shape.cut)) == components
    assert 0 < refused < 30


@pytest.mark.parametrize(
    ("name", "spec", "subgames"),
    [
        ("leduc_poker", "flop", 30),
        ("leduc_poker", "before-flop", 5),
        (GOOFSPIEL, "depth:1", 6),
        (GOOFSPIEL, "depth:2", 32),
        (LIARS_DICE, "depth:1", 8),
        ("coin_toss_two_subgames", "play", 2),
    ],
)
def test_numbers_of_subgames_that_the_papers_have(name, spec, subgames):
    assert cut(make(name), spec).num_subgames == subgames


def test_every_history_knows_its_root():
    tree = make("leduc_poker")
    found = cut(tree, "flop")
    roots = set(found.roots.tolist())
    expected = []
    for h in range(tree.num_histories):
        above = expected[tree.parent[h]] if h else -1
        assert not (h in roots and above >= 0)
        expected.append(h if h in roots else above)
    assert found.root.tolist() == expected


def test_a_simultaneous_move_is_one_and_chance_is_none():
    goofspiel = make("goofspiel(imp_info=True,num_cards=3)")  # a card is revealed before every bid
    assert goofspiel.actor[0] == CHANCE
    found = cut(goofspiel, "depth:1")
    assert (goofspiel.actor[found.roots] == SIMULTANEOUS).all()
    assert {len(goofspiel.moves(h)) for h in found.roots.tolist()} == {3}  # card, bids, card
    kuhn = make("kuhn_poker")
    assert cut(kuhn, "depth:0").roots.tolist() == list(range(4, 10))  # past both deals
    assert cut(kuhn, "depth:0").num_subgames == 1


def test_depth_cuts_skip_late_chance_moves():
    """In `delays` a chance move follows only one of the actions; roots have different lengths."""
    tree = make("random delays")
    found = cut(tree, "depth:1")
    assert {len(tree.moves(h)) for h in found.roots.tolist()} == {2, 3}
    assert not (tree.actor[found.roots] & CHANCE).any()
    assert (tree.actor[tree.parent[found.roots]] & CHANCE).any()


def test_depth_cuts_have_no_terminal_roots():
    tree = make("kuhn_poker")
    found = cut(tree, "depth:2")
    assert TERMINAL not in tree.actor[found.roots]
    assert {tree.moves(h)[2:] for h in found.roots.tolist()} == {(0, 1)}


def test_named_cuts_may_root_at_chance_nodes():
    tree = make("leduc_poker")
    before, flop = cut(tree, "before-flop"), cut(tree, "flop")
    assert (tree.actor[before.roots] == CHANCE).all()
    assert sorted(set(tree.parent[flop.roots].tolist())) == before.roots.tolist()
    assert {len(group) for group in groups(before)} == {30}  # all deals of two cards out of six
    assert {len(group) for group in groups(flop)} == {20}  # the public card is known
    game = efg.from_tree(tree)
    assert groups(before) == cuts.components(game, before.roots.tolist())
    assert groups(flop) == cuts.components(game, flop.roots.tolist())


def test_predicates_mark_or_list_histories():
    tree = make("kuhn_poker")
    expected = cut(tree, "depth:1")

    def after_one_move(given):
        assert given is tree
        return (given.num_moves == 1) & (given.actor > 0)

    for predicate in (
        after_one_move,
        lambda given: np.nonzero(after_one_move(given))[0],
        lambda given: np.nonzero(after_one_move(given))[0][::-1],
        lambda given: [*np.nonzero(after_one_move(given))[0].tolist()] * 2,
    ):
        found = cut(tree, predicate)
        assert found.roots.tolist() == expected.roots.tolist()
        assert found.subgame.tolist() == expected.subgame.tolist()
        assert found.name == ("after_one_move" if predicate is after_one_move else "own cut")
    assert cut(tree, expected) is expected


def test_common_knowledge_is_finer_than_public_observations():
    """A tie reveals both bids to both players, but the public sequence of wins does not."""
    tree = make(GOOFSPIEL)
    found = cut(tree, "depth:1")
    assert len(set(tree.public[found.roots].tolist())) == 3
    sizes = sorted(map(len, groups(found)))
    assert sizes == [1, 1, 1, 1, 6, 6]


# Cuts below a cut


def first_marked(tree, where, marked):
    """The first marked histories at or below the roots of a cut, on every path."""
    found, passed = [], set()
    for h in range(tree.num_histories):
        if int(tree.parent[h]) in passed:
            passed.add(h)
        elif marked[h] and where.root[h] >= 0:
            passed.add(h)
            found.append(h)
    return np.array(found)


@pytest.mark.parametrize("name", ["kuhn_poker", GOOFSPIEL, *(f"random {shape}" for shape in SHAPES)])
def test_inside_of_a_cut_only_its_own_histories_matter(name):
    """Random limits below random subgames: refused, or cut, as if all histories were considered."""
    tree, rng = make(name), np.random.default_rng(0)
    whole = cut(tree, "depth:1")
    crossed = []
    for share in np.tile([0.02, 0.2, 0.9], 20):
        some = np.unique(rng.integers(whole.num_subgames, size=1 + whole.num_subgames // 2))
        kept = kept_subgames(tree, "kept", whole.roots[np.isin(whole.subgame, some)])
        assert kept.root.tolist() == np.where(np.isin(whole.root, kept.roots), whole.root, -1).tolist()
        assert kept.num_subgames == len(some)
        marked = np.zeros(tree.num_histories, bool)
        for player in (0, 1):
            chosen = rng.random(len(tree.infosets[player])) < share
            acts = np.nonzero(tree.infoset[player] >= 0)[0]
            marked[acts] |= chosen[tree.infoset[player, acts]]
        limit = first_marked(tree, kept, marked)
        if len(limit) == 0:
            continue
        try:
            expected = cut_at(tree, "limit", limit)
        except ValueError as error:
            crossed.append(True)
            assert "crosses an infoset" in str(error)
            with pytest.raises(ValueError, match="limit"):
                cut_at(tree, "limit", limit, inside=kept)
            continue
        crossed.append(False)
        found = cut_at(tree, "limit", limit, inside=kept)
        np.testing.assert_array_equal(found.root, expected.root)
        np.testing.assert_array_equal(found.subgame, expected.subgame)
    assert set(crossed) == {True, False} or (name == "kuhn_poker" and False in crossed)


# A single subgame


@pytest.mark.parametrize(("name", "spec"), [("kuhn_poker", "depth:1"), ("coin_toss_two_subgames", "play")])
def test_only_keeps_the_subgame_of_an_infostate(name, spec):
    tree = make(name)
    whole = cut(tree, spec)
    inside = 0
    for player, names in enumerate(tree.infoset_names):
        for j, infostate in enumerate(names):
            histories = np.nonzero(tree.infoset[player] == j)[0]
            number = {whole.subgame[whole.roots == r].tolist()[0] for r in whole.root[histories] if r >= 0}
            if not number:
                message = rf"{re.escape(infostate)}' of player {player} lies above the cut '{spec}'"
                with pytest.raises(ValueError, match=message):
                    whole.only(infostate)
                continue
            inside += 1
            one = whole.only(infostate)
            assert isinstance(one, Cut) and one.num_subgames == 1
            assert one.roots.tolist() == groups(whole)[number.pop()]
            expected = np.where(np.isin(whole.root, one.roots), whole.root, -1)
            assert one.root.tolist() == expected.tolist()
    assert inside > 1


def test_only_takes_a_name_of_both_players():
    tree = make("goofspiel(num_cards=3,points_order=descending)")
    whole = cut(tree, "depth:1")
    (name,) = {tree.infoset_names[0][1]} & set(tree.infoset_names[1])
    with pytest.raises(ValueError, match=r"is an infoset of both players"):
        tree.find_infoset(name)
    assert whole.only(name).num_subgames == 1  # both lie in the same subgame
    for player in (0, 1):
        assert whole.only(name, player).roots.tolist() == whole.only(name).roots.tolist()


# Errors


@pytest.mark.parametrize(
    "spec",
    [
        "flop",
        "depth:-1",
    ],
)
def test_an_unknown_cut_is_refused(spec):
    message = rf"cut={spec!r} is unknown for kuhn_poker; expected 'depth:D' .* a predicate"
    with pytest.raises(ValueError, match=message):
        cut(make("kuhn_poker"), spec)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (7, "cut="),
        (lambda tree: tree.actor[:5] > 0, "shape"),
        (lambda tree: [4, 58], "histories"),
        (lambda tree: [0, 4], r"root \(0, 1\) lies below root \(\)"),
        (lambda tree: tree.terminals[:1], "history"),
    ],
)
def test_bad_predicates_are_refused(spec, message):
    with pytest.raises(ValueError, match=message):
        cut(make("kuhn_poker"), spec)


def test_a_cut_through_an_infoset_is_refused():
    tree = make("kuhn_poker")
    half = [at(tree, 0, 1)]  # player 0 cannot tell it from (0, 2)
    message = r"crosses an infoset: '0' of player 0 lies on both sides of the cut \(histories .* and .*\)"
    with pytest.raises(ValueError, match=message):
        cut(tree, lambda _: half)


def test_a_cut_through_an_infoset_further_down_is_refused():
    """The roots are valid, but player 0's next infoset extends beyond the subgame."""
    tree = make("kuhn_poker")
    passed = [h for h in range(tree.num_histories) if tree.moves(h)[2:] == (0,)]
    assert cut(tree, lambda _: passed).num_subgames == 1
    known = [h for h in passed if tree.moves(h)[1] == 0]  # player 1 holds the jack
    with pytest.raises(
        ValueError, match=r"'0pb' of player 0 lies .*|'[12]pb' of player 0 lies on both sides"
    ):
        cut(tree, lambda _: known)


def merging(first, second):
    """Two roots of player 1 with the given infostates; player 0, who acts next, cannot distinguish them."""
    return enumerate_game(
        Arrays(
            [(0, CHANCE, START, 1, ZERO, (0, 0))],
            [(0, PLAYER_1, (-1, -1, k), 0.5, ZERO, (first[k], second[k])) for k in (0, 1)],
            [(k, PLAYER_0, by(1, 0), 1, ZERO, (5, 10 + second[k])) for k in (0, 1)],
            [
                (k, TERMINAL, by(0, a), 1, WIN if a else LOSS, (20 + a, 10 + second[k]))
                for k in (0, 1)
                for a in (0, 1)
            ],
        )
    )


def test_an_infoset_in_two_subgames_is_refused():
    message = r"crosses an infoset: .* of player 0 lies in two subgames \(histories \(0, 0\) and \(1, 0\)\)"
    with pytest.raises(ValueError, match=message):
        cut(merging((1, 2), (1, 2)), "depth:0")


def test_an_infoset_below_two_root_infostates_of_its_player_is_refused():
    message = (
        r"of player 0 lies below two root infostates of its own player \(histories \(0, 0\) and \(1, 0\)\)"
    )
    with pytest.raises(ValueError, match=message):
        cut(merging((1, 2), (1, 1)), "depth:0")
    assert cut(merging((1, 1), (1, 2)), "depth:0").num_subgames == 1
