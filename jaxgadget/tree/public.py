# pyright: reportIncompatibleVariableOverride=false
# Arrays of `PublicInfosets` are made on demand: those of Liar's Dice with two dice have 16 million rows.
"""Game → PublicTree: a game by hands laid out as public nodes, each with a block of hands.

Histories are the product of public nodes and pairs of hands and are never listed. An infoset is a public node
with a hand that the player may hold there; those of a node are consecutive, and so are their actions.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from jaxgadget.games.game import ACTOR_BIT, CHANCE, DEFAULT_MAX_HISTORIES, Game, Move
from jaxgadget.games.hands import DealsHands, HandsGame, PublicNodes
from jaxgadget.tree.hands import FoundHands, hands_of
from jaxgadget.tree.history import HistoryTree, enumerate_game
from jaxgadget.tree.infosets import Infosets
from jaxgadget.tree.tree import Form, TreeGame, find_named
from jaxgadget.util.arrays import BoolArray, IntArray


class _Decisions(NamedTuple):
    """One player's decisions at public nodes, D of them, and where its infosets and sequences are.

    Attributes:
      nodes: `[D]` where the player acts, ascending.
      num_actions: `[D]` actions there.
      num_hands: `[D]` hands that are possible there.
      first_infoset: `[D]` infoset of the first of these hands; those of the others follow.
      first_sequence: `[D]` first sequence of that infoset.
      rank: `[D, H]` or `[1, H]` number of each hand among the possible ones, -1 if it is not.
      last: `[n]` the player's last decision above each node, -1 if there is none.
      slot: `[n]` the action taken there.
      depth: `[n]` number of the player's decisions above each node.
    """

    nodes: IntArray
    num_actions: IntArray
    num_hands: IntArray
    first_infoset: IntArray
    first_sequence: IntArray
    rank: IntArray
    last: IntArray
    slot: IntArray
    depth: IntArray


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PublicTree:
    """A game by hands: n public nodes in breadth-first order, each with all hands. See `Tree`.

    Attributes:
      hands_game: the public nodes, and the payoff at each end for every pair of hands.
      game: the rules, for names.
      found: the histories that it stands for, if it was made from these.
      cache: results computed once from this tree, by name.
    """

    hands_game: HandsGame
    game: TreeGame
    found: FoundHands | None = None
    cache: dict[object, Any] = dataclasses.field(default_factory=dict[object, Any], repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Pickled without the cache, which holds what cannot be pickled, and is computed anew."""
        return {**self.__dict__, "cache": {}}

    def __repr__(self) -> str:
        first, second = self.num_hands
        return f"<PublicTree of {self.game.name}: {len(self.nodes)} nodes, {first} × {second} hands>"

    @property
    def nodes(self) -> PublicNodes:
        """The public nodes."""
        return self.hands_game.nodes

    @property
    def num_hands(self) -> tuple[int, int]:
        """H_0 and H_1."""
        return self.hands_game.num_hands

    @property
    def level_offset(self) -> IntArray:
        """See `Tree`."""
        return self.nodes.level_offset

    @property
    def parent(self) -> IntArray:
        """See `Tree`."""
        return self.nodes.parent

    @property
    def actor(self) -> npt.NDArray[np.uint8]:
        """See `Tree`."""
        return self.nodes.actor

    @property
    def action(self) -> IntArray:
        """`[3, n]` action of player 0, player 1 and chance at the parent, -1 for none."""
        return self._action

    @functools.cached_property
    def _action(self) -> IntArray:
        above = self.actor[self.parent]
        action = np.full((3, len(self.nodes)), -1, np.int32)
        for row, actor in enumerate((*ACTOR_BIT, CHANCE)):
            taken = np.flatnonzero(above == actor)
            action[row, taken] = self.nodes.action[taken]
        action[:, 0] = -1
        return action

    @property
    def public(self) -> IntArray:
        """`[n]` public state: the node itself."""
        return np.arange(len(self.nodes))

    @property
    def num_moves(self) -> IntArray:
        """`[n]` moves of the players so far."""
        return self._decisions[0].depth + self._decisions[1].depth

    @property
    def payoff_bounds(self) -> tuple[float, float]:
        """See `Tree`."""
        return self.hands_game.payoff_bounds

    @property
    def payoff_range(self) -> float:
        """See `Tree`."""
        return self.hands_game.payoff_range

    @property
    def constant(self) -> float:
        """See `Tree`."""
        return self.hands_game.constant

    @property
    def num_terminals(self) -> int:
        """Public ends."""
        return len(self.nodes.ends)

    @property
    def terminals(self) -> IntArray:
        """`[num_terminals]` the public ends."""
        return self.nodes.ends

    @property
    def terminal_payoffs(self) -> int:
        """Number of payoffs at a public end: one for every hand of either player."""
        return sum(self.num_hands)

    @property
    def leaves(self) -> IntArray:
        """No nodes: the tree is never truncated."""
        return np.zeros(0, np.int64)

    @property
    def is_truncated(self) -> bool:
        """Always False."""
        return False

    @property
    def sizes(self) -> dict[str, Any]:
        """Size of the game, by the names that `jaxgadget solve --json` uses."""
        return {
            "form": "hands",
            "num_public_nodes": len(self.nodes),
            "num_public_ends": self.num_terminals,
            "num_hands": list(self.num_hands),
            "num_infosets": [len(infosets) for infosets in self.infosets],
        }

    def moves(self, node: int, /) -> tuple[Move, ...]:
        """Actions and chance outcomes on the way to a public node."""
        return self.nodes.moves(node)

    @functools.cached_property
    def _decisions(self) -> tuple[_Decisions, _Decisions]:
        return _find_decisions(self.hands_game, 0), _find_decisions(self.hands_game, 1)

    @functools.cached_property
    def infosets(self) -> tuple[Infosets, Infosets]:
        """Both players' infosets; `history` is the public node of each."""
        return PublicInfosets(self, 0), PublicInfosets(self, 1)

    def possible(self, player: int, nodes: IntArray) -> BoolArray:
        """`[m, H]` which hands a player may hold at public nodes."""
        possible = self.hands_game.possible[player]
        if possible is None:
            return np.ones((len(nodes), self.num_hands[player]), np.bool_)
        return possible[nodes]

    def infoset_at(self, player: int, nodes: IntArray) -> IntArray:
        """`[m, H]` a player's infoset with each hand at public nodes where it acts; -1 if impossible."""
        decisions = self._decisions[player]
        rows = np.searchsorted(decisions.nodes, nodes)
        rank = self._rank(player, rows)
        return np.where(rank >= 0, decisions.first_infoset[rows, None] + rank, -1)

    def sequence_at(self, player: int, nodes: IntArray, slots: IntArray) -> IntArray:
        """`[m, H]` a player's sequence with each hand for actions at public nodes; -1 if impossible.

        Args:
          player: 0 or 1.
          nodes: `[m]` public nodes where the player acts.
          slots: `[m]` number of an action there, from 0.
        """
        return self._sequences(player, np.searchsorted(self._decisions[player].nodes, nodes), slots)

    def sequence_to(self, player: int, nodes: IntArray) -> IntArray:
        """`[m, H]` a player's sequence with each hand that leads to public nodes; -1 if impossible."""
        return self.sequence_at(player, self.parent[nodes], self.nodes.slot[nodes])

    def decisions_before(self, player: int, nodes: IntArray) -> IntArray:
        """`[m]` number of a player's decisions before each public node."""
        return self._decisions[player].depth[nodes].astype(np.int64)

    def last_sequence(self, player: int, nodes: IntArray) -> IntArray:
        """`[m, H]` a player's last sequence at public nodes with each hand; 0 if impossible."""
        decisions = self._decisions[player]
        last = decisions.last[nodes]
        sequence = self._sequences(player, np.maximum(last, 0), decisions.slot[nodes])
        return np.where(last[:, None] >= 0, np.maximum(sequence, 0), 0)

    def _rank(self, player: int, rows: IntArray) -> IntArray:
        rank = self._decisions[player].rank
        return rank if len(rank) == 1 else rank[rows]

    def _sequences(self, player: int, rows: IntArray, slots: IntArray) -> IntArray:
        decisions = self._decisions[player]
        if len(decisions.nodes) == 0:
            return np.full((len(rows), self.num_hands[player]), -1, np.int64)
        rank = self._rank(player, rows)
        first = decisions.first_sequence[rows, None] + rank * decisions.num_actions[rows, None]
        return np.where(rank >= 0, first + slots[:, None].astype(first.dtype), first.dtype.type(-1))

    @functools.cached_property
    def infostate_strings(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Both players' infosets by name, see `infoset_names`."""
        return self.infoset_names

    @functools.cached_property
    def infoset_names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of both players' infosets: those of the histories, or a hand and the public actions."""
        return self._name_infosets(0), self._name_infosets(1)

    def _name_infosets(self, player: int) -> tuple[str, ...]:
        nodes = self._decisions[player].nodes
        infoset = self.infoset_at(player, nodes)
        names = np.empty(len(self.infosets[player]), object)
        if self.found is not None:
            node, hand = self.found.infosets(player)
            names[infoset[np.searchsorted(nodes, node), hand]] = self.found.tree.infoset_names[player]
            return tuple(names)
        for row, node in enumerate(nodes.tolist()):
            line = self.hands_game.describe(node)
            for hand in np.flatnonzero(infoset[row] >= 0).tolist():
                names[infoset[row, hand]] = f"{self.hands_game.hands[player][hand]} {line}".rstrip()
        return tuple(names)

    @property
    def layout(self) -> str:
        """See `Tree`."""
        return "hands"

    def name_rows(self, player: int) -> tuple[dict[str, npt.NDArray[Any]], IntArray]:
        """The player's hands, the public nodes where it acts and its actions there; rows are in order."""
        children = np.flatnonzero(self.action[player] >= 0)
        named = {
            "hands": np.asarray(self.hands_game.hands[player], np.str_),
            "nodes": self._decisions[player].nodes,
            "actions": self.nodes.action[children],
        }
        return named, np.arange(self.infosets[player].num_sequences - 1)

    def row_columns(self, player: int) -> dict[str, npt.NDArray[Any]]:
        """See `Tree`; the actions of the players and chance in public, and the hand."""
        infosets, hands = self.infosets[player], np.asarray(self.hands_game.hands[player], object)
        nodes, inverse = np.unique(infosets.history, return_inverse=True)
        lines = np.array([self.hands_game.describe(node) for node in nodes.tolist()], object)
        of_infoset = {
            "infostate": np.asarray(self.infoset_names[player], object),
            "public": lines[inverse],
            "hand": hands[self.hand_of(player)],
        }
        return {name: column[infosets.infoset[1:]] for name, column in of_infoset.items()}

    def find_infoset(self, name: str, player: int | None = None) -> tuple[int, int]:
        """`(player, infoset)` of one of `infoset_names`; see `find_named`."""
        return find_named(self.infoset_names, self.game.name, name, player)

    def hand_of(self, player: int) -> IntArray:
        """`[I]` the hand of each of a player's infosets."""
        infoset = self.infoset_at(player, self._decisions[player].nodes)
        return np.nonzero(infoset >= 0)[1]


class PublicInfosets(Infosets):
    """One player's infosets of a public tree; arrays are made when first used, in 32 bits if they fit.

    Parents come before children; infosets of a public node are consecutive, hand by hand.
    """

    def __init__(self, tree: PublicTree, player: int):
        """Takes the tree and the player; see `PublicTree.infosets`."""
        self._tree: PublicTree
        self._player: int
        self._decisions: _Decisions
        decisions = tree._decisions[player]  # pyright: ignore[reportPrivateUsage]  # two halves of one layout
        self.__dict__.update(_tree=tree, _player=player, _decisions=decisions)

    def __len__(self) -> int:
        return int(self._decisions.num_hands.sum())

    @property
    def num_sequences(self) -> int:
        """Actions of all infosets, and the empty sequence."""
        return 1 + int((self._decisions.num_hands * self._decisions.num_actions).sum())

    def _per_infoset(self, x: IntArray) -> IntArray:
        return np.repeat(self._narrow(x), self._decisions.num_hands)

    def _narrow(self, x: IntArray) -> IntArray:
        return x.astype(np.int32, copy=False) if self.num_sequences < np.iinfo(np.int32).max else x

    @functools.cached_property
    def depth(self) -> IntArray:
        """See `Infosets`."""
        return self._per_infoset(self._decisions.depth[self._decisions.nodes])

    @functools.cached_property
    def num_actions(self) -> IntArray:
        """See `Infosets`."""
        return self._per_infoset(self._decisions.num_actions)

    @functools.cached_property
    def first_sequence(self) -> IntArray:
        """See `Infosets`."""
        return self._narrow(1 + np.cumsum(self.num_actions) - self.num_actions)

    @functools.cached_property
    def parent(self) -> IntArray:
        """See `Infosets`."""
        nodes = self._decisions.nodes
        held = self._tree.infoset_at(self._player, nodes) >= 0
        return self._narrow(self._tree.last_sequence(self._player, nodes)[held])

    @functools.cached_property
    def history(self) -> IntArray:
        """`[I]` the public node of each."""
        return self._per_infoset(self._decisions.nodes)

    @functools.cached_property
    def infoset(self) -> IntArray:
        """See `Infosets`."""
        return np.append(
            self._narrow(np.array([-1])), np.repeat(self._narrow(np.arange(len(self))), self.num_actions)
        )

    @functools.cached_property
    def action(self) -> IntArray:
        """See `Infosets`."""
        nodes, owner = self._tree.nodes, self.infoset[1:]
        slot = np.arange(1, self.num_sequences) - self.first_sequence[owner]
        action = nodes.action[nodes.first_child[self.history[owner]] + slot]
        return np.append(self._narrow(np.array([-1])), self._narrow(action))


def _find_decisions(game: HandsGame, player: int) -> _Decisions:
    """Where a player decides, and how its infosets and sequences are numbered."""
    tree, possible = game.nodes, game.possible[player]
    nodes = tree.decisions(player)
    if possible is None:
        rank = np.arange(game.num_hands[player])[None]
        num_hands = np.full(len(nodes), game.num_hands[player])
    else:
        held = possible[nodes]
        rank = np.where(held, np.cumsum(held, axis=1) - 1, -1)
        num_hands = held.sum(axis=1)
    last, slot, depth = (np.zeros(len(tree), np.int32) for _ in range(3))
    last[0] = -1
    number = np.full(len(tree), -1, np.int32)
    number[nodes] = np.arange(len(nodes))
    for level in tree.levels_below():
        above = tree.parent[level]
        acts = number[above] >= 0
        last[level] = np.where(acts, number[above], last[above])
        slot[level] = np.where(acts, tree.slot[level], slot[above])
        depth[level] = depth[above] + acts
    num_actions = tree.num_children[nodes]
    sequences = num_hands * num_actions
    dtype = np.int32 if sequences.sum() < np.iinfo(np.int32).max else np.int64
    return _Decisions(
        nodes=nodes,
        num_actions=num_actions.astype(dtype),
        num_hands=num_hands,
        first_infoset=np.cumsum(num_hands) - num_hands,
        first_sequence=(1 + np.cumsum(sequences) - sequences).astype(dtype),
        rank=rank.astype(dtype),
        last=last,
        slot=slot,
        depth=depth,
    )


def public_tree(game: Game | HistoryTree | HandsGame | DealsHands | PublicTree) -> PublicTree:
    """Lays a game out by hands, without its histories.

    Args:
      game: a game that deals hands and then goes on in public: Kuhn and Leduc poker and Liar's Dice, which
        know their hands, a spot of hold'em, or the tree of any other game; a public tree is returned.

    Raises:
      ValueError: if the game does not know its hands, or something after the deal is private; the message
        says which.
    """
    if isinstance(game, PublicTree):
        return game
    if isinstance(game, HistoryTree):
        found = hands_of(game)
        return PublicTree(hands_game=found.game, game=game.game, found=found)
    if isinstance(game, HandsGame):
        return PublicTree(hands_game=game, game=game)
    if isinstance(game, DealsHands):
        hands_game = game.by_hands()
        return PublicTree(hands_game=hands_game, game=game if isinstance(game, TreeGame) else hands_game)
    name = getattr(game, "name", None)
    what = f"{name!r} does not say which hands it deals" if isinstance(name, str) else f"{game!r} is no game"
    raise ValueError(
        f"game: {what}: expected kuhn_poker, leduc_poker, liars_dice, or the tree of a game whose private "
        "information is dealt first, from enumerate_game(load(…))"
    )


Tree: TypeAlias = HistoryTree | PublicTree
"""A game laid out as arrays over nodes, axis `n`, in breadth-first order: histories, or public nodes.

Both have `game`, `parent`, `actor`, `action`, `num_moves` and `level_offset`, `infosets` and `infoset_names`,
`payoff_bounds`, `payoff_range` and `constant`, `num_terminals`, `is_truncated`, `sizes` and `cache`, `moves`
and `find_infoset`, `layout`, `name_rows` and `row_columns` for files and tables. Policies have a row for each
sequence of `infosets`, so they look alike on both; `tree.whole` and `tree.forest` lay either out for solvers.
"""


def lay_out(game: Game, form: Form = "histories", *, max_histories: int = DEFAULT_MAX_HISTORIES) -> Tree:
    """Lays a game out in the requested form.

    Args:
      game: the game.
      form: `histories`, or `hands` for a game that deals hands, or whose histories show that all that follows
        a private deal is public.
      max_histories: as in `enumerate_game`; has no effect on a game that deals hands and is laid out by them.

    Raises:
      ValueError: if the game has too many histories, or is no game by hands.
    """
    if form == "hands" and isinstance(game, DealsHands):
        return public_tree(game)
    tree = enumerate_game(game, max_histories=max_histories)
    return public_tree(tree) if form == "hands" else tree


def check_tree(tree: object) -> Tree:
    """The tree; ValueError unless it is one."""
    if not isinstance(tree, HistoryTree | PublicTree):
        what = repr(tree) if isinstance(tree, str) else f"a {type(tree).__name__}"
        raise ValueError(
            f"tree={what}: expected a HistoryTree, from enumerate_game(load(…)), or a PublicTree, from "
            "public_tree(load(…))"
        )
    return tree


def match_sequences(tree: Tree, other: Tree, name: str) -> tuple[IntArray, IntArray]:
    """For both players `[num_sequences]` the sequence of another tree for each sequence of this tree.

    One of the two trees is public, the other one public or a whole game's histories. Hands of `tree` that are
    impossible in the other one have -1.

    Args:
      tree: whose sequences.
      other: the same game laid out otherwise.
      name: the argument, for messages.

    Raises:
      ValueError: if the trees are of different games.
    """
    pair: list[IntArray] = []
    ours, theirs = public_tree(tree), public_tree(other)
    _check_same(ours, theirs, name)
    for player in (0, 1):
        match = _sequences_of(tree, player, ours), _sequences_of(other, player, theirs)
        back = np.full(max(int(x.max(initial=0)) for x in match) + 1, -1, np.int64)
        back[match[1]] = np.arange(len(match[1]))
        pair.append(back[match[0]])
    return pair[0], pair[1]


def _sequences_of(tree: Tree, player: int, public: PublicTree) -> IntArray:
    """`[num_sequences]` a number for every sequence of a player that is the same in all trees of the game."""
    num_hands = public.num_hands[player]
    infosets = tree.infosets[player]
    if isinstance(tree, HistoryTree):
        node, hand = hands_of(tree).infosets(player)
    else:
        node, hand = infosets.history.astype(np.int64), public.hand_of(player)
    owner = infosets.infoset[1:]
    slot = np.arange(1, infosets.num_sequences) - infosets.first_sequence[owner]
    child = public.nodes.first_child[node[owner]] + slot
    return np.append(0, 1 + child * num_hands + hand[owner])


def _check_same(ours: PublicTree, theirs: PublicTree, name: str) -> None:
    """ValueError unless both have the same public nodes and as many hands."""
    same = ours.num_hands == theirs.num_hands and all(
        np.array_equal(getattr(ours.nodes, field), getattr(theirs.nodes, field))
        for field in ("parent", "actor", "action")
    )
    if not same:
        raise ValueError(
            f"{name} is for {theirs!r}, which has other hands or public nodes than {ours!r}; expected a "
            "tree of the same game"
        )
