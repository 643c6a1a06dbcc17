"""Forests of overlapping subgames, compared with recursions over the histories of each subgame."""

from __future__ import annotations

import collections
import dataclasses
import functools
from typing import Any

import numpy as np
import pytest

from jaxgadget.games.examples import Chance, Outcome, TreeRules, Turn
from jaxgadget.games.stepwise import StepwiseGame
from jaxgadget.subgames.limits import limit_by_depth
from jaxgadget.tree.cover import Cover, build_cover, cover_of
from jaxgadget.tree.cut import Cut, cut, kept_subgames
from jaxgadget.tree.forest import Forest, build_forest, find_copies
from jaxgadget.tree.history import HistoryTree, enumerate_game
from jaxgadget.util.arrays import IntArray
from tests.reference import efg, knowledge
from tests.reference.continuations import limited_values
from tests.reference.random_games import SHAPES, random_policy
from tests.tree.test_golden import GOOFSPIEL, digest, of_forest
from tests.tree.test_history import make

PLAYER = 0  # whose own infostates define the subgames


def pennies(states: int) -> HistoryTree:
    """N-matching pennies: n is uniform in 1..N; the players see ⌊n/2⌋ and ⌊(n+1)/2⌋."""

    def guess(n: int) -> Turn:
        return Turn(
            0,
            {
                "heads": Turn(1, {"heads": float(n), "tails": 0.0}),
                "tails": Turn(1, {"heads": 0.0, "tails": float(states - n)}),
            },
        )

    outcomes = [Outcome(1 / states, guess(n), private=(n // 2, (n + 1) // 2)) for n in range(1, states + 1)]
    return enumerate_game(StepwiseGame(TreeRules(f"pennies {states}", ("heads", "tails"), Chance(outcomes))))


@functools.cache
def game(name: str) -> HistoryTree:
    return pennies(int(name.split()[1])) if name.startswith("pennies") else make(name)


@functools.cache
def neighbourhoods(where: Cut, order: int) -> list[set[int]]:
    """Iᵏ of every own infostate I, ordered by id."""
    states, roots = where.tree.infostate.tolist(), where.roots.tolist()
    return [
        knowledge.neighbourhood(states, roots, PLAYER, own, order)
        for own in knowledge.infostates(states, roots, PLAYER)
    ]


def cover_by(where: Cut, order: int) -> Cover:
    """A subgame for every own infostate: Iᵏ."""
    pairs = [(h, number) for number, roots in enumerate(neighbourhoods(where, order)) for h in roots]
    roots, subgame = np.random.default_rng(0).permutation(np.array(pairs)).T
    return build_cover(where, roots, subgame)


CASES = [
    (GOOFSPIEL, "depth:1", 1),
    (GOOFSPIEL, "depth:2", 1),
    (GOOFSPIEL, "depth:2", 2),
    (GOOFSPIEL, "depth:2", 4),
    ("leduc_poker(num_ranks=2,max_raises=1)", "flop", 2),
    ("liars_dice(numdice=1,dice_sides=3)", "depth:0", 1),
    ("pennies 10", "depth:0", 2),
    ("pennies 10", "depth:0", 3),
    *((f"random {shape.name}", shape.cut, order) for shape in SHAPES.values() for order in (1, 2)),
]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: " ".join(map(str, case)))
def forest(request: pytest.FixtureRequest) -> Forest:
    name, where, order = request.param
    return build_forest(game(name), cover_by(cut(game(name), where), order))


def plan(forest: Forest, player: int, rows: Any) -> Any:
    """`[Q]` the product of a player's rows on the path from a root to each sequence, 0 for padding.

    Args:
      forest: the subgames.
      player: the player.
      rows: subgame and name of an infoset → its row.
    """
    treeplex, roots = forest.form.treeplex[player], forest.roots[player]
    reach, top = np.ones(treeplex.num_sequences), np.arange(treeplex.num_sequences)
    for q, infoset in enumerate(treeplex.sequence_infoset.tolist()):  # levels from above
        sequence, parent = treeplex.num_roots + q, treeplex.parent[infoset]
        name, top[sequence] = int(treeplex.infoset[infoset]), top[parent]
        if name == -1:
            reach[sequence] = 0
        else:
            row = rows(int(roots.subgame[top[parent]]), name)
            assert len(row) == treeplex.num_actions[infoset]
            reach[sequence] = reach[parent] * row[treeplex.sequence_slot[q]]
    return reach, top


def test_plans_are_products_of_rows(forest: Forest) -> None:
    """The product starts with the reach of the roots."""
    rng = np.random.default_rng(2)
    policies = [random_policy(forest.tree, rng) for _ in range(forest.num_subgames)]
    for player, treeplex in enumerate(forest.form.treeplex):
        expected, top = plan(forest, player, lambda subgame, name, p=player: policies[subgame][p, name])
        rows = np.zeros((treeplex.num_sequences - treeplex.num_roots, 1))
        subgame = np.append(forest.roots[player].subgame, 0)[np.minimum(top, len(forest.roots[player]))]
        for infoset, name in enumerate(treeplex.infoset.tolist()):
            if name >= 0:
                where = treeplex.rows(infoset)
                rows[where, 0] = policies[subgame[treeplex.num_roots + where[0]]][player, name]
        reach = rng.random((len(forest.roots[player]), 1))
        padded = np.append(reach, 0 * reach[:1], axis=0)[np.minimum(top, len(reach))]
        np.testing.assert_allclose(treeplex.realise(reach, rows), padded * expected[:, None], atol=1e-15)


def names_of_sequences(forest: Forest, player: int) -> list[Any]:
    """The identity and the subgame of each sequence; None for padding."""
    treeplex, roots, leaves = forest.form.treeplex[player], forest.roots[player], forest.leaves
    names: list[Any] = [(int(s), "root", int(i)) for s, i in zip(roots.subgame, roots.infostate, strict=True)]
    names += [None] * (treeplex.num_roots - len(names))
    top = treeplex.root_of()[treeplex.num_roots :]
    for root, infoset, slot in zip(top, treeplex.sequence_infoset, treeplex.sequence_slot, strict=True):
        name = int(treeplex.infoset[infoset])
        what = (
            ("action", name)
            if name >= 0
            else ("choice", int(leaves.states[player][-2 - name]) if name < -1 else 0)
        )
        names.append(None if name == -1 else (int(roots.subgame[root]), *what, int(slot)))
    return names


@pytest.mark.parametrize("depth", [None, 1])
def test_copies_of_sequences_are_found(forest: Forest, depth: int | None) -> None:
    """In the cut, where every sequence is unique, and in its subgames in another order with one left out."""
    tree, where, limit = forest.tree, forest.cut, None
    if depth is not None:
        limit = limit_by_depth(tree, where, depth)
        forest = build_forest(tree, forest.cover, limit=limit, num_choices=2)
    base = build_forest(tree, where, limit=limit, num_choices=2)
    order = np.arange(forest.num_subgames)[::-1]
    taken = build_forest(tree, forest.cover.take(order), limit=limit, num_choices=2, padded=False)
    for player in (0, 1):
        known, wanted = names_of_sequences(base, player), names_of_sequences(forest, player)
        place = {name[1:]: number for number, name in enumerate(known) if name is not None}
        expected = [-1 if name is None else place[name[1:]] for name in wanted]
        assert find_copies(base, forest, player).tolist() == expected
        asked = order[taken.roots[player].subgame]
        asked[taken.roots[player].subgame == 0] = -1
        place = {name: number for number, name in enumerate(wanted) if name is not None}
        expected = [
            -1 if name is None or name[0] == 0 else place[int(order[name[0]]), *name[1:]]
            for name in names_of_sequences(taken, player)
        ]
        assert find_copies(forest, taken, player, asked).tolist() == expected


def after_all_histories(tree: HistoryTree) -> HistoryTree:
    """Ids from the number of histories on."""
    return with_ids(tree, tree.infostate + tree.num_histories)


def like_hashes(tree: HistoryTree) -> HistoryTree:
    """Ids up to about the largest integer."""
    ids = tree.infostate.astype(np.int64)
    return with_ids(tree, ids * (np.iinfo(np.int64).max // (int(ids.max()) + 1)))


def with_ids(tree: HistoryTree, infostate: IntArray) -> HistoryTree:
    """The same tree with other ids, in the same order."""
    return dataclasses.replace(tree, infostate=infostate, cache={})


@pytest.mark.parametrize("renumbered", [after_all_histories, like_hashes])
@pytest.mark.parametrize("depth", [None, 1])
def test_ids_of_infostates_may_be_any_integers(forest: Forest, renumbered: Any, depth: int | None) -> None:
    """Sequences, roots and whole infostates are the same as with small ids; see `games.game.HistoryLevel`."""
    cover = forest.cover
    where = dataclasses.replace(cover.cut, tree=renumbered(forest.tree))
    found: list[list[Any]] = []
    for each in (cover, dataclasses.replace(cover, cut=where)):
        tree, limit = each.tree, None if depth is None else limit_by_depth(each.tree, each.cut, depth)
        base, below = (build_forest(tree, what, limit=limit, num_choices=2) for what in (each.cut, each))
        found.append([])
        for player, roots in enumerate(below.roots):
            again = below.find_root(player, roots.infostate, roots.subgame)
            elsewhere = below.find_root(player, roots.infostate, np.full(len(roots), -1))
            in_same = find_copies(below, below, player, roots.subgame)
            arrays = again, elsewhere, in_same, find_copies(base, below, player), each.is_complete(player)
            found[-1] += [array.tolist() for array in arrays]
    assert found[0] == found[1]


def test_roots_are_found_by_infostate_and_subgame(forest: Forest) -> None:
    for player, roots in enumerate(forest.roots):
        pairs = zip(roots.infostate.tolist(), roots.subgame.tolist(), strict=True)
        number = {pair: root for root, pair in enumerate(pairs)}
        state, subgame = np.indices((int(roots.infostate.max()) + 2, forest.num_subgames + 1)).reshape(2, -1)
        subgame -= 1  # -1 is not an infostate
        found = forest.find_root(player, state, subgame).tolist()
        inside = subgame < forest.num_subgames
        expected = [number.get(pair, -1) for pair in zip(state.tolist(), subgame.tolist(), strict=True)]
        assert inside.all() and found == expected


def by_roots(forest: Forest, rows: Any) -> dict[tuple[int, int, int], float]:
    """(subgame, infostate 0, infostate 1) → payoff below, from the forest."""
    (first, top), (second, other) = (plan(forest, p, functools.partial(rows, p)) for p in (0, 1))
    payoff, found = forest.form.payoff, collections.defaultdict[tuple[int, int, int], float](float)
    for row, column, value in zip(
        payoff.row.tolist(), payoff.column.tolist(), payoff.value.tolist(), strict=True
    ):
        one, two = int(top[row]), int(other[column])
        subgame = int(forest.roots[0].subgame[one])
        assert subgame == forest.roots[1].subgame[two], "nothing is paid between subgames"
        states = int(forest.roots[0].infostate[one]), int(forest.roots[1].infostate[two])
        found[subgame, *states] += value * first[row] * second[column]
    return found


def expected_by_roots(forest: Forest, below: Any) -> dict[tuple[int, int, int], float]:
    """The same, given the payoff of each subgame below each of its roots."""
    tree, found = forest.tree, collections.defaultdict[tuple[int, int, int], float](float)
    for h, subgame in zip(forest.cover.roots.tolist(), forest.cover.subgame.tolist(), strict=True):
        states = int(tree.infostate[0, h]), int(tree.infostate[1, h])
        found[subgame, *states] += float(tree.chance[h]) * below(subgame, h)
    return found


def test_payoffs_of_every_subgame_equal_a_recursion_over_its_roots(forest: Forest) -> None:
    """Strategies differ between subgames, so that each copy of an infoset is tested separately."""
    tree, rng = forest.tree, np.random.default_rng(1)
    explicit = efg.from_tree(tree)
    policies = [random_policy(tree, rng) for _ in range(forest.num_subgames)]
    found = by_roots(forest, lambda player, subgame, name: policies[subgame][player, name])
    expected = expected_by_roots(forest, lambda subgame, h: efg.value(explicit.nodes[h], policies[subgame]))
    assert {key for key, value in expected.items() if value} <= found.keys() <= expected.keys()
    for key, value in expected.items():
        assert found.get(key, 0) == pytest.approx(value, abs=1e-12)


def test_histories_in_several_subgames_pay_in_each() -> None:
    tree = game(GOOFSPIEL)
    where = cut(tree, "depth:2")
    whole, overlapping = build_forest(tree, where), build_forest(tree, cover_by(where, 2))
    often = np.bincount(overlapping.cover.roots, minlength=tree.num_histories)
    assert often[where.roots].min() >= 1 and often.max() > 1
    below = tree.terminals[where.root[tree.terminals] >= 0]
    weight = often[where.root[below]] * tree.chance[below] * np.abs(tree.payoff[below])
    assert np.abs(overlapping.form.payoff.value).sum() == pytest.approx(weight.sum())
    assert np.abs(whole.form.payoff.value).sum() < weight.sum()


def test_a_root_infostate_keeps_all_its_decisions(forest: Forest) -> None:
    """Including those below roots that are not in its subgame."""
    tree, where = forest.tree, forest.cut
    above = {int(h): int(h) for h in where.roots}
    for h in range(1, tree.num_histories):
        if h not in above and int(tree.parent[h]) in above:
            above[h] = above[int(tree.parent[h])]
    for player, roots in enumerate(forest.roots):
        below = collections.defaultdict[int, set[int]](set)
        for h, root in above.items():
            if tree.infoset[player, h] >= 0:
                below[int(tree.infostate[player, root])].add(int(tree.infoset[player, h]))
        treeplex = forest.form.treeplex[player]
        found = collections.defaultdict[int, list[int]](list)
        top = treeplex.root_of()[treeplex.first_sequence]
        for infoset, root in zip(treeplex.infoset.tolist(), top.tolist(), strict=True):
            if infoset >= 0:
                found[root].append(infoset)
        for root, state in enumerate(roots.infostate.tolist()):
            assert sorted(found[root]) == sorted(below[state])
        inside = {int(infoset) for infoset in treeplex.infoset if infoset >= 0}
        assert forest.infosets(player).tolist() == sorted(inside)
        pairs = {
            (int(tree.infostate[player, h]), g)
            for h, g in zip(forest.cover.roots.tolist(), forest.cover.subgame.tolist(), strict=True)
        }
        numbers = zip(roots.infostate.tolist(), roots.subgame.tolist(), strict=True)
        assert list(numbers) == sorted(pairs), "a root a pair of an infostate and a subgame"


def test_chance_is_that_of_each_subgames_roots(forest: Forest) -> None:
    found: Any = collections.defaultdict(float)
    entries = forest.chance
    for row, column, value in zip(
        entries.row.tolist(), entries.column.tolist(), entries.value.tolist(), strict=True
    ):
        first, second = forest.roots
        assert first.subgame[row] == second.subgame[column]
        found[int(first.subgame[row]), int(first.infostate[row]), int(second.infostate[column])] += value
    expected = expected_by_roots(forest, lambda subgame, h: 1.0)
    assert found == pytest.approx({key: value for key, value in expected.items() if value})


@pytest.mark.parametrize("order", [1, 2])
def test_lookaheads_of_subgames_that_overlap(order: int) -> None:
    """Every copy of a leaf infostate chooses separately; a leaf has the same value in all its subgames."""
    tree, rng = game(GOOFSPIEL), np.random.default_rng(2)
    where = cut(tree, "depth:1")
    cover, leaves = cover_by(where, order), limit_by_depth(tree, where, 1)
    values = rng.normal(size=(len(leaves), 3, 3))
    forest = build_forest(tree, cover, limit=leaves, num_choices=3).with_values(values)
    assert len(forest.leaves.leaf) > len(leaves) or order == 1
    explicit = efg.from_tree(tree)
    policies = [random_policy(tree, rng) for _ in range(forest.num_subgames)]
    states = forest.leaves.states
    chosen = [rng.integers(3, size=(forest.num_subgames, len(states[p]))) for p in (0, 1)]

    def rows(player: int, subgame: int, name: int) -> Any:
        if name >= 0:
            return policies[subgame][player, name]
        return np.eye(3)[chosen[player][subgame, -2 - name]]

    def below(subgame: int, root: int) -> float:
        at = [
            [chosen[p][subgame, states[p].tolist().index(int(tree.infostate[p, h]))] for h in leaves]
            for p in (0, 1)
        ]
        worth = {int(h): values[i, at[0][i], at[1][i]] for i, h in enumerate(leaves)}
        return float(limited_values(explicit, [root], worth, policies[subgame])[0])

    found, expected = by_roots(forest, rows), expected_by_roots(forest, below)
    assert found.keys() == expected.keys()
    assert found == pytest.approx(expected, abs=1e-12)


def test_own_infostates_split_only_the_opponents_roots() -> None:
    """Together they have the cut's histories and the player's treeplex; J becomes pairs (I, J)."""
    tree = game(GOOFSPIEL)
    where = cut(tree, "depth:2")
    whole, split = build_forest(tree, where), build_forest(tree, cover_by(where, 1))
    assert split.cover.roots.tolist() == where.roots.tolist()
    assert digest(split.form.treeplex[PLAYER]) == digest(whole.form.treeplex[PLAYER])
    assert split.num_subgames == len(whole.roots[PLAYER]) == 70
    pairs = {tuple(pair) for pair in tree.infostate[:, where.roots].T.tolist()}
    assert len(split.roots[1 - PLAYER]) == len(pairs) > len(whole.roots[1 - PLAYER])
    assert len(split.roots[PLAYER]) == 70


# --- cuts are covers ----------------------------------------------------------------------


@pytest.mark.parametrize(("name", "where"), [(GOOFSPIEL, "depth:2"), ("leduc_poker", "flop")])
def test_a_cover_without_repeats_is_a_cut(name: str, where: str) -> None:
    """Given as pairs it has the same arrays, and so have some of its subgames, in any order."""
    spot = cut(game(name), where)
    pairs = build_cover(spot, spot.roots, spot.subgame)
    assert digest(of_forest(build_forest(spot.tree, pairs))) == digest(
        of_forest(build_forest(spot.tree, spot))
    )
    few = np.sort(np.random.default_rng(0).choice(spot.num_subgames, 3, replace=False))
    alone = kept_subgames(spot.tree, where, spot.roots[np.isin(spot.subgame, few)])
    part = build_forest(spot.tree, cover_of(spot).take(few))
    assert digest(of_forest(part)) == digest(of_forest(build_forest(spot.tree, alone)))
    turned = build_forest(spot.tree, cover_of(spot).take(few[::-1]))
    for player in (0, 1):
        assert turned.roots[player].subgame.tolist() == (2 - part.roots[player].subgame).tolist()
        assert turned.infoset_subgame(player)[turned.infosets(player)].tolist() == [
            2 - number for number in part.infoset_subgame(player)[part.infosets(player)].tolist()
        ]
        assert turned.infoset_subgame(player).max() == 2


# --- errors -------------------------------------------------------------------------------


def test_subgames_that_overlap_make_no_policy() -> None:
    tree = game("pennies 10")
    cover = cover_by(cut(tree, "depth:0"), 1)
    forest = build_forest(tree, cover)
    message = r"subgames 0 and 1 of <Cover .*> overlap: both have the infostate of player 1 at \(0,\)"
    first = build_forest(tree, cover.take(np.array([0, 1])))
    with pytest.raises(ValueError, match=message):
        first.check_disjoint()
    with pytest.raises(ValueError, match=r"overlap"):
        forest.infoset_subgame(0)
    apart = build_forest(tree, cover.take(np.array([0, 2, 4])))  # n in {1}, {4, 5}, {8, 9}
    apart.check_disjoint()
    assert apart.infoset_subgame(0).max() == 2
    build_forest(tree, cover.cut).check_disjoint()


@pytest.mark.parametrize(
    ("roots", "subgame", "message"),
    [
        ([1, 2], [0], r"cover: roots \(2,\), subgame \(1,\)"),
        ([1, 2], [0, 2], r"cover: subgames \[0, 2\]"),
        ([1, 2, 1], [0, 1, 0], "cover: root 1 is duplicate in subgame 0"),
    ],
)
def test_covers_that_are_none(roots: Any, subgame: Any, message: str) -> None:
    where = cut(game("pennies 4"), "depth:0")
    with pytest.raises(ValueError, match=message):
        build_cover(where, np.array(roots, int), np.array(subgame, int))


def test_values_replace_those_that_were_there() -> None:
    tree = game("kuhn_poker")
    where = cut(tree, "depth:0")
    bare = build_forest(tree, where, limit=limit_by_depth(tree, where, 1), num_choices=2)
    values = np.random.default_rng(0).normal(size=(2, len(bare.leaves), 2, 2))
    again = bare.with_values(values[0]).with_values(values[1])
    assert digest(again.form.payoff) == digest(bare.with_values(values[1]).form.payoff)
    assert digest(again.form.payoff) != digest(bare.with_values(values[0]).form.payoff)
    with pytest.raises(ValueError, match="shape"):
        bare.with_values(np.zeros(1))
