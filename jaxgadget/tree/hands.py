"""HistoryTree → HandsGame: the hands and the public tree of a game whose private information is dealt first.

A hand is a player's information after the deal, when the first player is to act. The game has a hand form if
all later moves are public: a public node is then a line of play after the deal, and an infoset is a public
node with a hand. Otherwise, the error shows two histories that violate this condition.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from jaxgadget.games.game import ACTOR_BIT, CHANCE, SIMULTANEOUS, dense_ids, first_positions
from jaxgadget.games.hands import HandsGame, PublicEnds, PublicLevel, PublicNodes, group_ends
from jaxgadget.tree.history import HistoryTree, check_whole
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray

MAX_PAYS = 1 << 26
"""Maximum number of tabulated payoffs, terminal nodes × hands × hands: half a gigabyte."""

SAME_TABLE_DIGITS = 12
"""Number of digits to which the tables of two terminal nodes must agree, up to a factor, to be merged."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FoundHands:
    """A game in hand form, with the mapping from its histories.

    Attributes:
      tree: the histories.
      game: the same game in hand form.
      node: `[histories]` the public node of each history, -1 before the end of the deal.
      hand: `[2, histories]` both players' hands, -1 before the end of the deal.
    """

    tree: HistoryTree
    game: HandsGame
    node: IntArray
    hand: IntArray

    def infosets(self, player: int) -> tuple[IntArray, IntArray]:
        """`[I]` the public node and `[I]` the hand of each of the tree's infosets of a player."""
        history = self.tree.infosets[player].history
        return self.node[history], self.hand[player, history]


def hands_of(tree: HistoryTree) -> FoundHands:
    """The hands of an enumerated game, from `find_hands`; cached."""
    if "hands" not in tree.cache:
        tree.cache["hands"] = find_hands(tree)
    return tree.cache["hands"]


def find_hands(tree: HistoryTree) -> FoundHands:
    """Finds the hands and the public tree of an enumerated game.

    Raises:
      ValueError: if the tree is truncated, or a move after the deal is not public; the message names it.
    """
    check_whole(tree)
    step = _steps_after_deal(tree)
    hand, num_hands = _find_hands(tree, step)
    node, levels = _find_nodes(tree, step)
    public = PublicNodes.of(levels)
    possible = _check_public(tree, node, hand, public, num_hands)
    low, high = tree.payoff_bounds
    deals, board = _find_boards(tree, node, hand, public, num_hands)
    game = HandsGame(
        name=tree.game.name,
        hands=(tuple(map(str, range(num_hands[0]))), tuple(map(str, range(num_hands[1])))),
        nodes=public,
        ends=_find_ends(tree, node, hand, public, num_hands),
        payoff_bounds=(low, high),
        deals=deals,
        board=board,
        possible=possible,
        constant=tree.constant,
        action_names=_name_actions(tree),
    )
    return FoundHands(tree=tree, game=game, node=node, hand=hand)


def _name_actions(tree: HistoryTree) -> tuple[str, ...]:
    """Names of actions by id; the id itself where neither player has the action."""
    names: dict[int, str] = {}
    for player in (1, 0):
        actions = np.unique(tree.infosets[player].action[1:]).tolist()
        names |= {action: tree.game.action_string(player, action) for action in actions}
    return tuple(names.get(action, str(action)) for action in range(max(names, default=-1) + 1))


def _refuse(tree: HistoryTree, why: str, first: int, second: int | None = None) -> ValueError:
    others = "" if second is None else f" and {tree.moves(second)}"
    return ValueError(
        f"{tree.game.name} has no hand form: {why} (history {tree.moves(first)}{others}); expected "
        "private information to be dealt first and all later moves to be public; use the history form"
    )


def _steps_after_deal(tree: HistoryTree) -> IntArray:
    """`[histories]` number of moves since the end of the deal, -1 before it."""
    simultaneous = np.flatnonzero(tree.actor == SIMULTANEOUS)
    if len(simultaneous):
        raise _refuse(tree, "both players act at once", int(simultaneous[0]))
    step = np.empty(tree.num_histories, np.int64)
    step[0] = -1 if tree.actor[0] == CHANCE else 0
    for begin, end in zip(tree.level_offset[1:-1].tolist(), tree.level_offset[2:].tolist(), strict=True):
        above = step[tree.parent[begin:end]]
        deals = (above < 0) & (tree.actor[begin:end] == CHANCE)
        step[begin:end] = np.where(deals, -1, above + 1)
    return step


def _find_hands(tree: HistoryTree, step: IntArray) -> tuple[IntArray, tuple[int, int]]:
    """`[2, histories]` both players' hands, and the number of hands of each player."""
    dealt = np.flatnonzero(step == 0)
    hand = np.full((2, tree.num_histories), -1, np.int64)
    count = [0, 0]
    for player in (0, 1):
        hand[player, dealt], count[player] = dense_ids(tree.infostate[player, dealt])
    for begin, end in zip(tree.level_offset[1:-1].tolist(), tree.level_offset[2:].tolist(), strict=True):
        later = begin + np.flatnonzero(step[begin:end] > 0)
        hand[:, later] = hand[:, tree.parent[later]]
    return hand, (count[0], count[1])


def _find_nodes(tree: HistoryTree, step: IntArray) -> tuple[IntArray, list[PublicLevel]]:
    """`[histories]` index of the line of play since the deal, -1 before it; and the lines by length."""
    node = np.full(tree.num_histories, -1, np.int64)
    rows = np.flatnonzero(step == 0)
    node[rows] = 0
    _check_actor(tree, rows, node)
    levels = [PublicLevel(np.zeros(1, np.int64), tree.actor[rows[:1]], np.zeros(1, np.int64))]
    begin = 0
    while len(rows := np.flatnonzero(step == len(levels))):
        action = tree.action[:, rows].max(axis=0).astype(np.int64)  # exactly one of the three acted
        width = int(action.max()) + 1
        line, count = dense_ids(node[tree.parent[rows]] * width + action)
        begin += len(levels[-1].parent)
        node[rows] = begin + line
        _check_actor(tree, rows, node)
        first = first_positions(line, count)
        above = node[tree.parent[rows[first]]] - (begin - len(levels[-1].parent))
        levels.append(PublicLevel(above, tree.actor[rows[first]], action[first]))
    return node, levels


def _check_actor(tree: HistoryTree, rows: IntArray, node: IntArray) -> None:
    """Checks that the acting player, or the end of the game, is public."""
    first = np.zeros(int(node[rows].max()) + 1, np.int64)
    first[node[rows[::-1]]] = rows[::-1]
    usual = first[node[rows]]
    differs = np.flatnonzero(tree.actor[usual] != tree.actor[rows])
    if len(differs):
        k = differs[0]
        raise _refuse(tree, "the acting player depends on private information", int(usual[k]), int(rows[k]))


def _check_public(
    tree: HistoryTree, node: IntArray, hand: IntArray, public: PublicNodes, num_hands: tuple[int, int]
) -> tuple[BoolArray | None, BoolArray | None]:
    """Possible hands of each player by public node; checks that infosets are nodes with hands."""
    possible: list[BoolArray | None] = []
    for player in (0, 1):
        acts = np.flatnonzero(tree.actor == ACTOR_BIT[player])
        infoset = tree.infoset[player, acts].astype(np.int64)
        pair = node[acts] * num_hands[player] + hand[player, acts]
        for label, by, why in (
            (infoset, pair, f"player {player} has a private observation after the deal"),
            (pair, infoset, f"player {player} does not see all moves after the deal"),
        ):
            group, count = dense_ids(by)
            first = first_positions(group, count)
            differs = np.flatnonzero(label != label[first[group]])
            if len(differs):
                k = differs[0]
                raise _refuse(tree, why, int(acts[first[group[k]]]), int(acts[k]))
        width = tree.infosets[player].num_actions[infoset]
        fewer = np.flatnonzero(width != public.num_children[node[acts]])
        if len(fewer):
            raise _refuse(tree, f"actions of player {player} depend on its hand", int(acts[fewer[0]]))
        held = np.zeros((len(public), num_hands[player]), np.bool_)
        inside = np.flatnonzero(node >= 0)
        held[node[inside], hand[player, inside]] = True
        possible.append(None if held.all() else held)
    return possible[0], possible[1]


def _find_ends(
    tree: HistoryTree, node: IntArray, hand: IntArray, public: PublicNodes, num_hands: tuple[int, int]
) -> tuple[PublicEnds, ...]:
    """Payoffs of all terminal nodes; tables that differ by a factor are merged."""
    end = np.searchsorted(public.ends, node[tree.terminals])
    earned = tree.chance[tree.terminals] * tree.payoff[tree.terminals]
    pays = _sum_pairs(tree, end, hand[:, tree.terminals], earned, (len(public.ends), *num_hands))
    largest = np.abs(pays).max(axis=1)
    paid = np.flatnonzero(largest > 0)
    sign = np.sign(pays[paid, (pays[paid] != 0).argmax(axis=1)])
    scale = sign * largest[paid]
    tables = pays[paid] / scale[:, None]
    _, first, kind = np.unique(
        tables.round(SAME_TABLE_DIGITS) + 0.0, axis=0, return_index=True, return_inverse=True
    )
    return group_ends(public.ends[paid], scale, kind, tables[first].reshape(-1, *num_hands))


def _find_boards(
    tree: HistoryTree, node: IntArray, hand: IntArray, public: PublicNodes, num_hands: tuple[int, int]
) -> tuple[FloatArray, IntArray]:
    """Chance's probability of pairs of hands for every board, and `[n]` the board at every public node."""
    after = np.flatnonzero(node >= 0)
    shape = (len(public), *num_hands)
    chance = _sum_pairs(tree, node[after], hand[:, after], tree.chance[after], shape)
    _, first, board = np.unique(
        chance.round(SAME_TABLE_DIGITS), axis=0, return_index=True, return_inverse=True
    )
    return chance[first].reshape(-1, *num_hands), board


def _sum_pairs(
    tree: HistoryTree, node: IntArray, hand: IntArray, value: FloatArray, shape: tuple[int, int, int]
) -> FloatArray:
    """`[nodes, H_0 × H_1]` sums by pairs of hands; raises ValueError if the table is too large."""
    size, (count, first, second) = int(np.prod(shape)), shape
    if size > MAX_PAYS:
        raise ValueError(
            f"{tree.game.name} has {count} public nodes and {first} × {second} hands: expected at most "
            f"{MAX_PAYS:,} payoffs; use the history form"
        )
    total = np.bincount((node * first + hand[0]) * second + hand[1], value, minlength=size)
    return np.asarray(total, np.float64).reshape(count, first * second)
