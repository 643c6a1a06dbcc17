"""A player's knowledge at a cut, compared with walks over root histories; colour classes and shares."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import types
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

from jaxgadget.games.examples import Chance, Outcome, TreeRules, Turn
from jaxgadget.games.registry import load
from jaxgadget.games.stepwise import StepwiseGame
from jaxgadget.tree.cover import find_roots
from jaxgadget.tree.cut import Cut, cut, kept_subgames
from jaxgadget.tree.forest import build_forest
from jaxgadget.tree.history import HistoryTree, enumerate_game
from jaxgadget.tree.knowledge import (
    KnowledgeCover,
    colour_classes,
    infostate_graph,
    knowledge_cover,
    shares,
)
from tests.reference import knowledge
from tests.reference.random_games import SHAPES, RandomGame, random_shape
from tests.tree.test_cover import like_hashes, pennies
from tests.tree.test_golden import GOOFSPIEL, digest, of_forest
from tests.tree.test_history import make

ORDERS = (1, 3, 5, math.inf)
GOOFSPIEL_5 = "goofspiel(imp_info=True,num_cards=5,points_order=descending)"
GOOFSPIEL_10 = "goofspiel(imp_info=True,num_cards=10,points_order=descending)"
LIARS_DICE = "liars_dice(numdice=1,dice_sides=6)"


def dealt(name: str, hands: list[tuple[int, int]]) -> HistoryTree:
    """Chance deals one of several pairs of hands uniformly; both players then guess, unseen."""
    guess = Turn(0, {move: Turn(1, {"heads": 1.0, "tails": 0.0}) for move in ("heads", "tails")})
    deal = Chance([Outcome(1 / len(hands), guess, private=pair) for pair in hands])
    return enumerate_game(StepwiseGame(TreeRules(name, ("heads", "tails"), deal)))


def drawn_hands(seed: int) -> HistoryTree:
    """Some pairs of hands, some of them twice: each hand meets few hands of the other player."""
    rng = np.random.default_rng(seed)
    most = rng.integers(1, 7, size=2)
    hands = rng.integers(most, size=(int(rng.integers(1, 15)), 2)).tolist()
    return dealt(f"hands {seed}", [(first, second) for first, second in hands])


@functools.cache
def spot(name: str) -> Cut:
    """A cut by `game @ cut`, or a random one."""
    kind, _, number = name.partition(" ")
    if kind == "hashed":
        return dataclasses.replace(usual := spot(number), tree=like_hashes(usual.histories))
    if kind == "hands":
        return cut(drawn_hands(int(number)), "depth:0")
    if kind == "drawn":
        shape = random_shape(int(number))
        return cut(enumerate_game(RandomGame(shape, int(number))), shape.cut)
    game, _, where = name.partition(" @ ")
    return cut(pennies(int(number.partition(" ")[0])) if kind == "pennies" else make(game), where)


DRAWN = (1, 5, 7, 9, 10, 14, 15, 16, 17, 23, 28)
"""Seeds of shapes whose cut crosses no infoset; all but one have components with several root histories."""

SPOTS = [
    f"{GOOFSPIEL} @ depth:1",
    f"{GOOFSPIEL} @ depth:2",
    "leduc_poker(num_ranks=2,max_raises=1) @ flop",
    "liars_dice(numdice=1,dice_sides=3) @ depth:0",
    "pennies 10 @ depth:0",
    *(f"random {shape.name} @ {shape.cut}" for shape in SHAPES.values()),
    *(f"drawn {seed}" for seed in DRAWN),
    *(f"hands {seed}" for seed in range(20)),
    "hashed drawn 5",
    "hashed pennies 10 @ depth:0",
]
EVERYTHING = list(itertools.product((0, 1), ORDERS, (False, True)))


@pytest.fixture(scope="module", params=SPOTS)
def where(request: pytest.FixtureRequest) -> Cut:
    return spot(request.param)


@functools.cache
def expected(where: Cut, player: int, order: float, unfrozen: bool) -> list[knowledge.Known]:
    states, roots = where.tree.infostate.tolist(), where.roots.tolist()
    return [
        knowledge.known(states, roots, player, own, order, unfrozen)
        for own in knowledge.infostates(states, roots, player)
    ]


def in_words(found: KnowledgeCover) -> list[knowledge.Known]:
    """The contents of a cover, for each own infostate."""
    cover = found.cover
    return [
        knowledge.Known(frozenset(cover.roots[inside].tolist()))
        for inside in (cover.subgame == subgame for subgame in found.subgame.tolist())
    ]


def test_subgames_are_those_of_the_definition(where: Cut) -> None:
    """Equal subgames are stored once."""
    for player, order, unfrozen in EVERYTHING:
        found = knowledge_cover(where, player, order, unfrozen=unfrozen)
        assert (found.cut, found.player, found.order, found.unfrozen) == (where, player, order, unfrozen)
        known = expected(where, player, order, unfrozen)
        assert in_words(found) == known
        assert found.cover.num_subgames == len(set(found.subgame.tolist())) == len(set(known))
        if len(set(known)) == len(known) and order < math.inf:
            assert found.subgame.tolist() == list(range(len(known)))
        states = knowledge.infostates(where.tree.infostate.tolist(), where.roots.tolist(), player)
        assert found.infostate.tolist() == states


def test_the_target_is_the_own_infostate_in_its_own_subgame(where: Cut) -> None:
    """Also in the forest, which every cover builds."""
    for player, order, unfrozen in EVERYTHING:
        found = knowledge_cover(where, player, order, unfrozen=unfrozen)
        forest = build_forest(where.tree, found.cover)
        for roots in (find_roots(found.cover, player)[0], forest.roots[player]):
            assert roots.infostate[found.target].tolist() == found.infostate.tolist()
            assert roots.subgame[found.target].tolist() == found.subgame.tolist()
        if order == 1 and not unfrozen:
            assert sorted(found.cover.roots.tolist()) == where.roots.tolist()


def test_knowledge_grows_with_the_order(where: Cut) -> None:
    for player, unfrozen in itertools.product((0, 1), (False, True)):
        chain = [in_words(knowledge_cover(where, player, order, unfrozen=unfrozen)) for order in ORDERS]
        for less, more in itertools.pairwise(chain):
            assert all(a.kept <= b.kept for a, b in zip(less, more, strict=True))
        far = in_words(knowledge_cover(where, player, 2 * len(where.roots) + 1, unfrozen=unfrozen))
        assert far == chain[-1], "no two roots of a component are further apart"


def test_infinite_knowledge_is_the_cut(where: Cut) -> None:
    for player, unfrozen in itertools.product((0, 1), (False, True)):
        found = knowledge_cover(where, player, math.inf, unfrozen=unfrozen)
        assert found.cover.is_cut
        assert found.cover.subgame.tolist() == where.subgame.tolist()


def test_one_own_infostate_a_component_knows_all() -> None:
    """Each hand of player 0 meets separate hands of player 1."""
    where = cut(dealt("apart", [(0, 0), (0, 1), (1, 2), (2, 3), (2, 4), (2, 3)]), "depth:0")
    whole = digest(of_forest(build_forest(where.tree, where)))
    for order, unfrozen in itertools.product(ORDERS, (False, True)):
        found = knowledge_cover(where, 0, order, unfrozen=unfrozen)
        assert digest(of_forest(build_forest(where.tree, found.cover))) == whole


def test_after_the_deal_of_liars_dice_all_dice_are_possible() -> None:
    """Unfrozen, every own die's subgame is the game below the deal: one subgame for all six."""
    where = spot(f"{LIARS_DICE} @ depth:0")
    for player in (0, 1):
        found = knowledge_cover(where, player, 1, unfrozen=True)
        assert found.subgame.tolist() == [0] * 6 and len(set(found.target.tolist())) == 6
        assert digest(of_forest(build_forest(where.tree, found.cover))) == digest(
            of_forest(build_forest(where.tree, where))
        )
        assert knowledge_cover(where, player, 1).subgame.tolist() == list(range(6))


def test_infostates_that_are_to_be_apart_share_no_subgame() -> None:
    where = spot(f"{LIARS_DICE} @ depth:0")
    apart = np.array([3, 3, 1, 1, 1, 0])
    found = knowledge_cover(where, 0, 1, unfrozen=True, apart=apart)
    assert found.subgame.tolist() == [0, 0, 1, 1, 1, 2]
    sizes = np.bincount(found.cover.subgame)
    assert sizes.tolist() == [36] * 3
    roots, _ = find_roots(found.cover, 0)
    np.testing.assert_array_equal(roots.subgame[found.target], found.subgame)
    np.testing.assert_array_equal(roots.infostate[found.target], found.infostate)
    assert knowledge_cover(where, 0, math.inf, apart=apart).cover.is_cut


def test_goofspiel_keeps_the_opponents_whole_treeplex() -> None:
    """Five cards after two bids: 400 pairs (I, J), 348 of which lack infosets of J in I's histories."""
    where = spot(f"{GOOFSPIEL_5} @ depth:2")
    tree = where.tree
    for player in (0, 1):
        found = knowledge_cover(where, player, 1)
        forest, opponent = build_forest(tree, found.cover), 1 - player
        assert len(forest.roots[player]) == len(found.infostate) == found.cover.num_subgames == 130
        assert len(forest.roots[opponent]) == infostate_graph(where, player).meets.nnz == 400
        treeplex = forest.form.treeplex[opponent]
        top = treeplex.root_of()[treeplex.first_sequence]
        kept = [set(treeplex.infoset[(top == r) & (treeplex.infoset >= 0)].tolist()) for r in range(400)]
        below = np.nonzero((where.root >= 0) & (tree.infoset[opponent] >= 0))[0]
        above = where.root[below]
        pair = {
            key: number
            for number, key in enumerate(
                zip(
                    found.infostate[forest.roots[opponent].subgame].tolist(),
                    forest.roots[opponent].infostate.tolist(),
                    strict=True,
                )
            )
        }
        led_to: list[set[int]] = [set() for _ in range(400)]
        for own, theirs, infoset in zip(
            tree.infostate[player, above].tolist(),
            tree.infostate[opponent, above].tolist(),
            tree.infoset[opponent, below].tolist(),
            strict=True,
        ):
            led_to[pair[own, theirs]].add(infoset)
        assert sum(a < b for a, b in zip(led_to, kept, strict=True)) == 348
        depth = tree.infosets[opponent].depth
        counts = [sum(int(depth[j] == 3) for found in sets for j in found) for sets in (led_to, kept)]
        assert counts == [2400, 3012]


# --- published table of knowledge and common knowledge ----------------------------------------


def one_betting_line() -> Cut:
    """Leduc's flop after the first of five betting lines."""
    tree = make("leduc_poker")
    flop, line = cut(tree, "flop"), cut(tree, "before-flop")
    number = line.subgame[np.searchsorted(line.roots, line.root[flop.roots])]
    return kept_subgames(tree, "one betting line", flop.roots[number == 0])


def before_bid_3() -> Cut:
    """Ten cards of Goofspiel after two bids; nothing below is enumerated."""
    tree = enumerate_game(load(GOOFSPIEL_10), depth=2)
    return cut(tree, "depth:2")


TABLE: dict[str, Any] = {
    "Liar's Dice": (
        lambda: spot(f"{LIARS_DICE} @ depth:0"),
        (36, 6, 1),
        ("6", "36", "36"),
        (6, 36, 36),
        "100",
    ),
    "Leduc": (one_betting_line, (120, 30, 6), ("4", "16", "20"), (4, 16, 20), "0"),
    "Goofspiel 4": (
        lambda: spot(f"{GOOFSPIEL} @ depth:2"),
        (144, 70, 32),
        ("2.1", "6.3", "9.5"),
        (7, 28, 28),
        "43",
    ),
    "Goofspiel 5": (
        lambda: spot(f"{GOOFSPIEL_5} @ depth:3"),
        (3600, 918, 248),
        ("3.9", "33.7", "71.6"),
        (23, 259, 290),
        "23",
    ),
    "Goofspiel 10": (before_bid_3, (8100, 700, 134), ("11.6", "348", "697"), (73, 1785, 1785), "19"),
    "pennies 100": (
        lambda: spot("pennies 100 @ depth:0"),
        (100, 51, 1),
        ("2.0", "3.9", "100"),
        (2, 4, 100),
        "0",
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_sizes_of_knowledge(name: str) -> None:
    """Histories, own infostates, components; mean and largest number of histories in I, I² and the component
    of I; and the percentage of own infostates whose I² is the component.
    """
    make_cut, counts, means, most, closed = TABLE[name]
    where = make_cut()
    covers = [
        knowledge_cover(where, 0, 1),
        knowledge_cover(where, 0, 1, unfrozen=True),
        knowledge_cover(where, 0, math.inf),
    ]
    sizes = [np.bincount(found.cover.subgame)[found.subgame] for found in covers]
    assert (len(where.roots), len(covers[0].infostate), where.num_subgames) == counts
    for size, mean in zip(sizes, means, strict=True):
        assert f"{size.mean():.{len(mean.partition('.')[2])}f}" == mean
    assert tuple(int(size.max()) for size in sizes) == most
    assert f"{100 * (sizes[1] == sizes[2]).mean():.0f}" == closed


# --- colour classes and shares --------------------------------------------------------------


def test_colour_classes_are_the_greedy_ones_and_share_nothing(where: Cut) -> None:
    states, roots = where.tree.infostate.tolist(), where.roots.tolist()
    for player in (0, 1):
        met = knowledge.meeting(states, roots, player)
        colour = colour_classes(where, player).tolist()
        assert colour == knowledge.colour_classes(met)
        assert sorted(set(colour)) == list(range(max(colour) + 1))
        for one, other in itertools.combinations(range(len(met)), 2):
            assert colour[one] != colour[other] or not met[one] & met[other]
        in_way = [sum(bool(theirs & mine) for theirs in met) - 1 for mine in met]
        assert max(colour) <= max(in_way)


def test_shares_leave_room_for_all_at_each_of_the_opponents_infostates(where: Cut) -> None:
    states, roots = where.tree.infostate.tolist(), where.roots.tolist()
    for player in (0, 1):
        met = knowledge.meeting(states, roots, player)
        degree, best = shares(where, player), shares(where, player, "program")
        assert degree.tolist() == pytest.approx(knowledge.degree_shares(met), abs=1e-15)
        for share in (degree, best):
            assert share.shape == (len(met),) and share.min() >= 0 and share.max() <= 1
            for other in set[Any]().union(*met):
                assert share[[other in theirs for theirs in met]].sum() <= 1 + 1e-12
        assert best.sum() >= degree.sum() - 1e-9
        assert best.sum() == pytest.approx(cheapest_cover(met), abs=1e-8)


def cheapest_cover(met: list[set[Any]]) -> float:
    """The dual program: prices of the opponent's infostates with a sum of at least 1 at each own one."""
    opponents = sorted(set[Any]().union(*met))
    holds = np.array([[float(other in mine) for other in opponents] for mine in met])
    solution = linprog(np.ones(len(opponents)), A_ub=-holds, b_ub=-np.ones(len(met)))
    return float(solution.fun)


def test_no_vertex_has_larger_shares() -> None:
    sums = set[float]()
    for seed in range(40):
        where = cut(drawn_hands(seed), "depth:0")
        met = knowledge.meeting(where.tree.infostate.tolist(), where.roots.tolist(), 0)
        if len(met) > 4 or len(set[Any]().union(*met)) > 5:
            continue
        best = knowledge.best_share_sum(met)
        assert shares(where, 0, "program").sum() == pytest.approx(best, abs=1e-8)
        sums.add(round(best, 6))
    assert len(sums) > 2


def test_shares_that_are_known() -> None:
    """Three own hands, every two of which meet an opponent's hand; and one that shares all it meets."""
    triangle = cut(dealt("triangle", [(0, 0), (1, 0), (1, 1), (2, 1), (2, 2), (0, 2)]), "depth:0")
    for how in ("degree", "program"):
        assert shares(triangle, 0, how).tolist() == pytest.approx([0.5] * 3, abs=1e-9)
    assert sorted(colour_classes(triangle, 0).tolist()) == [0, 1, 2]
    star = cut(dealt("star", [(0, 0), (0, 1), (0, 2), (1, 0), (2, 1), (3, 2)]), "depth:0")
    assert shares(star, 0).tolist() == [0.5] * 4
    assert shares(star, 0, "program").tolist() == pytest.approx([0, 1, 1, 1], abs=1e-9)
    assert colour_classes(star, 0).tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("factor", [1 + 1e-7, 1.5])
def test_rounding_of_a_program_is_corrected(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    where = spot(f"{GOOFSPIEL} @ depth:2")
    share, meets = shares(where, 0, "program"), infostate_graph(where, 0).meets
    overstepped = types.SimpleNamespace(success=True, x=share * factor)
    monkeypatch.setattr("scipy.optimize.linprog", lambda *_, **__: overstepped)
    found = shares(where, 0, "program")
    assert (meets.T @ overstepped.x).max() > 1 + 1e-8
    assert (meets.T @ found).max() <= 1 + 1e-15
    assert found.tolist() == pytest.approx(share.tolist(), abs=1e-15)


def test_an_unsolved_program_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = types.SimpleNamespace(success=False, message="no time", x=None)
    monkeypatch.setattr("scipy.optimize.linprog", lambda *_, **__: failed)
    with pytest.raises(RuntimeError, match="shares"):
        shares(spot("pennies 10 @ depth:0"), 0, "program")


def test_a_forest_where_the_opponent_has_no_decision_left() -> None:
    """Only its roots exist, once per own infostate that meets them."""
    last = Turn(1, {"heads": 1.0, "tails": 0.0})
    hands = ((0, 0), (0, 1), (0, 2))
    deal = Chance([Outcome(1 / 3, last, private=pair) for pair in hands])
    where = cut(enumerate_game(StepwiseGame(TreeRules("one decides", ("heads", "tails"), deal))), "depth:0")
    forest = build_forest(where.tree, knowledge_cover(where, 1, 1).cover)
    assert len(forest.infosets(0)) == 0
    assert forest.roots[0].infostate.tolist() == sorted(where.tree.infostate[0, where.roots].tolist())
    names = forest.root_names(0)
    assert len(set(names)) == 3
    by_root = np.zeros(3)
    np.add.at(by_root, forest.form.payoff.row, np.abs(forest.form.payoff.value))
    assert (by_root > 0).all()


# --- errors -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "order",
    [
        2,
        True,
        1.5,
    ],
)
def test_other_orders_are_refused(order: Any) -> None:
    with pytest.raises(ValueError, match="order="):
        knowledge_cover(spot("pennies 10 @ depth:0"), 0, order)
