"""Abstractions on every kind of game, and the loss of perfect recall."""

from __future__ import annotations

import collections
import functools
import re
from collections.abc import Callable, Hashable

import numpy as np
import pytest

from jaxgadget.games.abstraction import Abstraction, Merge
from jaxgadget.games.game import Budget, Game
from jaxgadget.games.goofspiel import Goofspiel
from jaxgadget.games.kuhn import KuhnPoker
from jaxgadget.games.leduc.rules import LeducPoker
from jaxgadget.games.liars_dice import LiarsDice
from jaxgadget.tree.cut import cut
from jaxgadget.tree.history import HistoryTree, enumerate_game
from jaxgadget.util.arrays import IntArray
from tests.reference.random_games import SHAPES, random_game

GAMES: list[Game] = [
    KuhnPoker(),
    LeducPoker(),
    LeducPoker(suit_isomorphism=True, action_mapping=True),  # strings that several infosets share
    Goofspiel(num_cards=3),  # the same
    Goofspiel(num_cards=3, imp_info=True),
    LiarsDice(dice_sides=2),
    *(random_game(shape, 0) for shape in SHAPES),
]
all_games = pytest.mark.parametrize("game", GAMES, ids=lambda game: game.name)


def ranks(player: int, infostate: str) -> str:
    return re.sub(r"\[(Private|Public): (\d)\]", lambda card: f"[{card[1]}: {int(card[2]) // 2}]", infostate)


def same_partition(a: IntArray, b: IntArray) -> bool:
    pairs = len(np.unique(np.stack([a, b]), axis=1).T)
    return pairs == len(np.unique(a)) == len(np.unique(b))


def abstract(game: Game, merge: Merge) -> HistoryTree:
    return enumerate_game(Abstraction(game, merge))


@functools.cache
def identity_trees(number: int) -> tuple[HistoryTree, HistoryTree, list[tuple[int, str]]]:
    """A game's tree, that of its identity abstraction, and the arguments of `merge`."""
    asked: list[tuple[int, str]] = []

    def identity(player: int, infostate: str) -> str:
        asked.append((player, infostate))
        return infostate

    return enumerate_game(GAMES[number]), abstract(GAMES[number], identity), asked


numbers = pytest.mark.parametrize("number", range(len(GAMES)), ids=[game.name for game in GAMES])


@numbers
def test_identity_is_the_same_game(number: int):
    tree, same, _ = identity_trees(number)
    for field in ("level_offset", "parent", "actor", "action", "chance", "payoff", "num_moves"):
        np.testing.assert_array_equal(getattr(tree, field), getattr(same, field), err_msg=field)
    assert tree.constant == same.constant
    for player in (0, 1):
        assert same_partition(tree.infoset[player], same.infoset[player])
        assert len(tree.infosets[player]) == len(same.infosets[player])
        assert sorted(tree.infoset_names[player]) == sorted(same.infoset_names[player])
    assert same.game.num_actions == tree.game.num_actions
    assert [same.game.action_string(0, a) for a in range(2)] == [
        tree.game.action_string(0, a) for a in range(2)
    ]


@numbers
def test_merge_is_called_once_per_infoset_by_name(number: int):
    tree, _, asked = identity_trees(number)
    assert sorted(asked) == sorted((p, name) for p in (0, 1) for name in tree.infoset_names[p])


@numbers
def test_infostates_are_the_bucket_or_the_last_own_action(number: int):
    """Infostates where the player does not act, from the definition, for every history."""
    tree, same, _ = identity_trees(number)
    for player in (0, 1):
        known: list[Hashable] = []
        last: list[Hashable] = [None]
        for h in range(tree.num_histories):
            parent = int(tree.parent[h])
            if h:
                action = int(tree.action[player, h])
                last.append((int(tree.infoset[player, parent]), action) if action >= 0 else last[parent])
            infoset = int(tree.infoset[player, h])
            known.append(("acts", infoset) if infoset >= 0 else ("after", last[h]))
        code = {label: k for k, label in enumerate(dict.fromkeys(known))}
        assert same_partition(np.array([code[label] for label in known]), same.infostate[player])


def test_merging_suits_gives_leduc_without_suits():
    tree, small = abstract(LeducPoker(), ranks), enumerate_game(LeducPoker(suit_isomorphism=True))
    for player in (0, 1):
        assert len(tree.infosets[player]) == len(small.infosets[player]) == 144
        strings = [ranks(player, s) for s in enumerate_game(LeducPoker()).infoset_names[player]]
        assert set(tree.infoset_names[player]) == set(strings)


def test_a_lossy_merge_joins_what_it_should():
    def high_or_low(player: int, infostate: str) -> tuple[bool, str]:
        return infostate[0] == "2", infostate[1:]  # OpenSpiel's "0", "1pb" …: the card, then the bets

    tree = abstract(KuhnPoker(), high_or_low)
    assert [len(infosets) for infosets in tree.infosets] == [4, 4]
    deals = {}
    for h in np.nonzero(tree.infoset[0] >= 0)[0]:
        deals.setdefault(int(tree.infoset[0, h]), set()).add((tree.moves(h)[0], tree.moves(h)[2:]))
    assert sorted(map(sorted, deals.values())) == [
        [(0, ()), (1, ())],
        [(0, (0, 1)), (1, (0, 1))],
        [(2, ())],
        [(2, (0, 1))],
    ]
    assert set(tree.infoset_names[0]) == {repr((high, bets)) for high in (False, True) for bets in ("", "pb")}


def test_an_abstraction_of_an_abstraction():
    def kings(player: int, infostate: str) -> str:
        return re.sub("Private: [01]", "Private: low", infostate)

    once = Abstraction(LeducPoker(), ranks)
    tree = abstract(once, kings)
    both = abstract(LeducPoker(), lambda player, infostate: kings(player, ranks(player, infostate)))
    for player in (0, 1):
        np.testing.assert_array_equal(tree.infoset[player], both.infoset[player])
        assert tree.infoset_names[player] == both.infoset_names[player]
    assert tree.game.name == "abstraction(abstraction(leduc_poker,ranks),kings)"


def test_cuts_are_the_games_but_players_know_less_there():
    tree, game = abstract(LeducPoker(), ranks), enumerate_game(LeducPoker())
    assert tree.public is None
    for name, subgames, merged in (("before-flop", 5, 5), ("flop", 30, 5)):
        np.testing.assert_array_equal(cut(tree, name).roots, cut(game, name).roots)
        assert (cut(game, name).num_subgames, cut(tree, name).num_subgames) == (subgames, merged)


# Errors


def forget_own_card(player: int, infostate: str) -> str:
    """After the public card, a player forgets its private one."""
    return re.sub(r"\[Private: \d\]", "", infostate) if "[Round 2]" in infostate else infostate


def forget_betting(player: int, infostate: str) -> str:
    """After the first round, a player forgets its betting, including its own actions."""
    kept = re.sub(r"\[Round1: [^]]*\]|\[Pot: \d+\]|\[Money: [^]]*\]", "", infostate)
    return kept if "[Round 2]" in infostate else infostate


def forget_time(player: int, infostate: str) -> str:
    """A player does not know the number of its actions in the first round."""
    return re.sub(r"\[Round 1\].*", "", infostate)


@pytest.mark.parametrize("merge", [forget_own_card, forget_betting, forget_time])
def test_imperfect_recall_is_refused(merge: Merge):
    with pytest.raises(ValueError, match="perfect recall"):
        abstract(LeducPoker(), merge)


def test_unequal_legal_actions_are_refused():
    def forget_opening(player: int, infostate: str) -> str:
        """Player 1, who can fold only after a raise, does not know whether there was one."""
        opening = player == 1 and re.search(r"\[Round1: [12]\]\[Round2: \]", infostate)
        return infostate[:25] if opening else infostate

    expected = r"legal actions differ within an infoset of player 1: history \(.*\) has 2 of the 3 actions"
    with pytest.raises(ValueError, match=expected) as error:
        abstract(LeducPoker(), forget_opening)
    assert str(error.value).startswith("abstraction(leduc_poker,forget_opening): ")


def test_the_budget_holds():
    with pytest.raises(ValueError, match="ranks"):
        enumerate_game(Abstraction(LeducPoker(), ranks), max_histories=100)
    assert sum(len(level.parent) for level in Abstraction(KuhnPoker(), ranks).levels(Budget("kuhn"))) == 58


# Random merges


def random_merge(tree: HistoryTree, seed: int) -> dict[tuple[int, str], Hashable]:
    """Buckets that keep perfect recall: random unions of infosets with the same past and actions."""
    rng = np.random.default_rng(seed)
    buckets: dict[tuple[int, str], Hashable] = {}
    for player, infosets in enumerate(tree.infosets):
        bucket: list[Hashable] = []
        for j in range(len(infosets)):  # earlier decisions come first
            parent = int(infosets.parent[j])
            above = int(infosets.infoset[parent])
            past = None if above < 0 else (bucket[above], int(infosets.action[parent]))
            first = int(infosets.first_sequence[j])
            actions = tuple(infosets.action[first : first + int(infosets.num_actions[j])].tolist())
            bucket.append((past, actions, int(rng.integers(2))))
            buckets[player, tree.infoset_names[player][j]] = bucket[j]
    return buckets


def by_name(buckets: dict[tuple[int, str], Hashable]) -> Callable[[int, str], Hashable]:
    return lambda player, infostate: buckets[player, infostate]


@all_games
@pytest.mark.parametrize("seed", range(3))
def test_random_merges_that_keep_recall_are_taken(game: Game, seed: int):
    tree = enumerate_game(game)
    buckets = random_merge(tree, seed)
    merged = abstract(game, by_name(buckets))
    for player in (0, 1):
        expected = {bucket for (p, _), bucket in buckets.items() if p == player}
        assert len(merged.infosets[player]) == len(expected)
        for j, name in enumerate(tree.infoset_names[player]):
            h = int(tree.infosets[player].history[j])
            assert merged.game.infostate_string(player, merged.moves(h)) == repr(buckets[player, name])


@all_games
def test_random_merges_that_forget_are_refused(game: Game):
    tree, refused = enumerate_game(game), 0
    for seed in range(3):
        buckets = random_merge(tree, seed)
        groups: dict[Hashable, set[Hashable]] = collections.defaultdict(set)
        for (player, _), bucket in buckets.items():
            groups[player, bucket[1]].add(bucket)
        for (player, _), found in groups.items():
            pasts = {bucket[0]: bucket for bucket in found}
            if len(pasts) > 1 and refused < 10:
                one, other = list(pasts.values())[:2]
                changed = {k: one if k[0] == player and b == other else b for k, b in buckets.items()}
                with pytest.raises(ValueError, match=f"perfect recall for player {player}"):
                    abstract(game, by_name(changed))
                refused += 1
    assert refused > 0
