# pyright: reportIncompatibleVariableOverride=false
# Arrays of `PublicInfosets` are created on demand: those of Liar's Dice with two dice have 16 million rows.
"""Game → PublicTree: a game in hand form, laid out as public nodes, each with a block of hands.

Histories are the product of public nodes and pairs of hands and are never enumerated. An infoset is a public
node with a hand that the player may hold there; infosets of a node are consecutive, and so are their actions.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jaxgadget.core.host import HandEntries, HandTreeplex, HostTreeplex, Rounding, exact_size
from jaxgadget.games.game import ACTOR_BIT, CHANCE, DEFAULT_MAX_HISTORIES, Game, Move, TooLargeError
from jaxgadget.games.hands import (
    NODE_BYTES,
    SEQUENCE_BYTES,
    DealsHands,
    HandsGame,
    KnowsPublicSize,
    PublicEnds,
    PublicNodes,
    group_ends,
)
from jaxgadget.tree.hands import FoundHands, hands_of
from jaxgadget.tree.history import HistoryTree, enumerate_game
from jaxgadget.tree.infosets import Infosets
from jaxgadget.tree.public_form import hand_entries, keep_nodes
from jaxgadget.tree.tree import Form, Tree, TreeGame, find_named, lazy
from jaxgadget.util.arrays import BoolArray, IntArray
from jaxgadget.util.memory import host_memory, megabytes


class _HandBlocks(NamedTuple):
    """One player's D decisions with one hand, and the ids of infosets and sequences for each hand.

    Attributes:
      decisions: the public nodes where the player acts, ascending.
      rank: `[D, H]` or `[1, H]` index of each hand among the possible ones, -1 if it is impossible.
      num_hands: `[D]` number of possible hands.
      first_infoset: `[D]` infoset of the first possible hand; those of the other hands follow.
      first_sequence: `[D]` first sequence of that infoset.
    """

    decisions: Infosets
    rank: IntArray
    num_hands: IntArray
    first_infoset: IntArray
    first_sequence: IntArray

    def rank_at(self, decisions: IntArray) -> IntArray:
        """`[m, H]` or `[1, H]` rank of each hand at decisions."""
        return self.rank if len(self.rank) == 1 else self.rank[decisions]


class _PublicLayout(NamedTuple):
    """Both players' decisions in a public tree.

    Attributes:
      blocks: both players' decisions.
      infoset: `[2, n]` index of the decision at each node, -1 for none.
      sequence: `[2, n]` last sequence of `decisions`.
      num_moves: `[n]` decisions of both players above each node.
    """

    blocks: tuple[_HandBlocks, _HandBlocks]
    infoset: IntArray
    sequence: IntArray
    num_moves: IntArray


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PublicTree:
    """A game in hand form: n public nodes in breadth-first order, each with all hands.

    Attributes:
      hands_game: the public nodes, and the payoff at each terminal node for every pair of hands.
      game: the rules, for names.
      origin: the mapping from histories, if the tree was derived from these.
      cache: values computed from this tree, by name.
    """

    hands_game: HandsGame
    game: TreeGame
    origin: FoundHands | None = None
    cache: dict[object, Any] = dataclasses.field(default_factory=dict[object, Any], repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Pickles the tree without the cache, whose values cannot all be pickled."""
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
        """Numbers of hands of both players, H_0 and H_1."""
        return self.hands_game.num_hands

    @property
    def level_offset(self) -> IntArray:
        """`[num_levels + 1]` first node of each level."""
        return self.nodes.level_offset

    @property
    def parent(self) -> IntArray:
        """`[n]` the node above; the root is its own."""
        return self.nodes.parent

    @property
    def actor(self) -> npt.NDArray[np.uint8]:
        """`[n]` acting players, as bits as in `PublicLevel`."""
        return self.nodes.actor

    @lazy
    def action(self) -> IntArray:
        """`[3, n]` action of player 0, player 1 and chance at the parent, -1 for none."""
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
        """`[n]` number of players' previous moves."""
        return self._layout.num_moves

    @property
    def infostate(self) -> IntArray:
        """`[2, n]` the node itself."""
        return np.broadcast_to(np.arange(len(self.nodes)), (2, len(self.nodes)))

    @property
    def infoset(self) -> IntArray:
        """`[2, n]` index in `decisions` if the player acts, otherwise -1."""
        return self._layout.infoset

    @property
    def sequence(self) -> IntArray:
        """`[2, n]` the player's last sequence in `decisions`."""
        return self._layout.sequence

    @property
    def decisions(self) -> tuple[Infosets, Infosets]:
        """Both players' decisions with one hand, one for each public node; `history` is the node."""
        first, second = self._layout.blocks
        return first.decisions, second.decisions

    @property
    def payoff_bounds(self) -> tuple[float, float]:
        """Player 0's minimum and maximum payoff."""
        return self.hands_game.payoff_bounds

    @property
    def payoff_range(self) -> float:
        """Range of player 0's payoff, at least a tiny positive number."""
        return self.hands_game.payoff_range

    @property
    def constant(self) -> float:
        """The sum of both players' returns."""
        return self.hands_game.constant

    @property
    def terminals(self) -> IntArray:
        """Terminal public nodes, ascending."""
        return self.nodes.ends

    @property
    def num_terminals(self) -> int:
        """Number of terminal public nodes."""
        return len(self.nodes.ends)

    @property
    def leaves(self) -> IntArray:
        """Empty, as the tree is never truncated."""
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
        """Actions and chance outcomes on the path to a public node."""
        return self.nodes.moves(node)

    @functools.cached_property
    def _layout(self) -> _PublicLayout:
        return _lay_out(self.hands_game)

    @lazy
    def infosets(self) -> tuple[Infosets, Infosets]:
        """Both players' infosets; `history` is the public node of each."""
        return PublicInfosets(self, 0), PublicInfosets(self, 1)

    def possible(self, player: int, infostates: IntArray) -> BoolArray:
        """`[m, H]` the hands that a player may hold at public nodes."""
        possible = self.hands_game.possible[player]
        if possible is None:
            return np.ones((len(infostates), self.num_hands[player]), np.bool_)
        return possible[infostates]

    def infosets_by_hand(self, player: int, infosets: IntArray) -> IntArray:
        """`[m, H]` infoset with each hand of decisions; -1 if impossible."""
        blocks = self._layout.blocks[player]
        rank = blocks.rank_at(infosets)
        return np.where(rank >= 0, blocks.first_infoset[infosets, None] + rank, -1)

    def sequences_by_hand(self, player: int, sequences: IntArray) -> IntArray:
        """`[m, H]` sequence with each hand for sequences of `decisions`; -1 if impossible."""
        blocks = self._layout.blocks[player]
        decisions = blocks.decisions
        by_hand = np.zeros((len(sequences), self.num_hands[player]), blocks.first_sequence.dtype)
        acted = np.flatnonzero(sequences > 0)
        infoset = decisions.infoset[sequences[acted]]
        rank, slot = blocks.rank_at(infoset), sequences[acted] - decisions.first_sequence[infoset]
        first = blocks.first_sequence[infoset, None] + rank * decisions.num_actions[infoset, None]
        by_hand[acted] = np.where(rank >= 0, first + slot[:, None], -1)
        return by_hand

    def sequence_to(self, player: int, nodes: IntArray) -> IntArray:
        """`[m, H]` a player's sequence with each hand that leads to public nodes; -1 if impossible."""
        return self.sequences_by_hand(player, self.sequence[player, nodes])

    def treeplex_by_hand(self, player: int, treeplex: HostTreeplex) -> HandTreeplex:
        """A treeplex of `decisions` with a block of hands for every root, infoset and sequence."""
        at = functools.partial(self.infosets_by_hand, player)
        return HandTreeplex(treeplex, self.num_hands[player], at)

    def chance_entries(
        self, nodes: IntArray, rows: tuple[IntArray, IntArray], num_rows: tuple[int, int]
    ) -> HandEntries:
        """Chance's reach of public nodes as a matrix over rows of both players, see `Tree`.

        Raises:
          ValueError: if the game has no table of deals, or a node is duplicate.
        """
        game = self.hands_game
        if game.deals is None or game.board is None:
            raise ValueError(
                f"deals of {game.name} are not tabulated; expected a hand form with `deals` and `board`"
            )
        ends = group_ends(nodes, np.ones(len(nodes)), game.board[nodes].astype(np.int64), game.deals)
        return self._entries(ends, nodes, rows, num_rows)

    def payoff_entries(
        self, nodes: IntArray, rows: tuple[IntArray, IntArray], num_rows: tuple[int, int], player: int = 0
    ) -> HandEntries:
        """Chance's reach × payoff of terminal nodes as a matrix over rows of both players, see `Tree`.

        Raises:
          ValueError: if a node is duplicate.
        """
        inside = np.zeros(len(self.nodes), np.bool_)
        inside[nodes] = True
        ends = keep_nodes(self.hands_game.ends, inside)
        if player == 1:
            ends = tuple(group._replace(scale=-group.scale) for group in ends)
        return self._entries(ends, nodes, rows, num_rows, zero_sum=self.hands_game.zero_sum)

    def _entries(
        self,
        ends: tuple[PublicEnds, ...],
        nodes: IntArray,
        rows: tuple[IntArray, IntArray],
        num_rows: tuple[int, int],
        *,
        zero_sum: bool = True,
    ) -> HandEntries:
        """A matrix over pairs of hands; only the nodes of `ends` that are in `nodes` are included."""
        if len(np.unique(nodes)) < len(nodes):
            raise ValueError(f"subgames of {self!r} overlap; expected every public node in one subgame")
        blocks = rows if rows[0].ndim == 1 else (np.arange(len(nodes)), np.arange(len(nodes)))
        first, second = (np.full(len(self.nodes), -1, np.int64) for _ in range(2))
        first[nodes], second[nodes] = blocks
        if rows[0].ndim == 1:
            num_blocks = num_rows[0] // self.num_hands[0], num_rows[1] // self.num_hands[1]
            return hand_entries(self.num_hands, ends, (first, second), num_blocks, zero_sum=zero_sum)
        return HandEntries(
            ends=ends,
            block=(first, second),
            num_blocks=(len(nodes), len(nodes)),
            hands=self.num_hands,
            rows=(rows[0].ravel(), rows[1].ravel()),
            num_rows=num_rows,
            zero_sum=zero_sum,
        )

    @lazy
    def infostate_strings(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of both players' infosets, as in `infoset_names`."""
        return self.infoset_names

    @lazy
    def infoset_names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of both players' infosets: those in history form, or a hand and the public actions."""
        return self._name_infosets(0), self._name_infosets(1)

    def _name_infosets(self, player: int) -> tuple[str, ...]:
        decisions = self.decisions[player]
        infoset = self.infosets_by_hand(player, np.arange(len(decisions)))
        names = np.empty(len(self.infosets[player]), object)
        if self.origin is not None:
            node, hand = self.origin.infosets(player)
            names[infoset[self.infoset[player, node], hand]] = self.origin.tree.infoset_names[player]
            return tuple(names)
        for row, node in enumerate(decisions.history.tolist()):
            line = self.hands_game.describe(node)
            for hand in np.flatnonzero(infoset[row] >= 0).tolist():
                names[infoset[row, hand]] = f"{self.hands_game.hands[player][hand]} {line}".rstrip()
        return tuple(names)

    def name_roots(
        self, player: int, infostates: IntArray, roots: IntArray, root: IntArray, infosets: IntArray
    ) -> tuple[str, ...]:
        """`[R]` names of a player's infostates: its hand and the public actions."""
        hands = self.hands_game.hands[player]
        lines = {node: self.hands_game.describe(node) for node in roots.tolist()}
        nodes, hand = np.divmod(infostates, len(hands))
        return tuple(
            f"{hands[k]} {lines[node]}".rstrip()
            for node, k in zip(nodes.tolist(), hand.tolist(), strict=True)
        )

    @property
    def layout(self) -> str:
        """`hands`."""
        return "hands"

    @property
    def rounding(self) -> Rounding:
        """Forests are not padded."""
        return exact_size

    def name_rows(self, player: int) -> tuple[dict[str, npt.NDArray[Any]], IntArray]:
        """The player's hands, the public nodes where it acts and its actions there; rows are in order."""
        children = np.flatnonzero(self.action[player] >= 0)
        named = {
            "hands": np.asarray(self.hands_game.hands[player], np.str_),
            "nodes": self.decisions[player].history,
            "actions": self.nodes.action[children],
        }
        return named, np.arange(self.infosets[player].num_sequences - 1)

    def row_columns(self, player: int) -> dict[str, npt.NDArray[Any]]:
        """Columns of a player's rows, `[Q]`: its infostate, the public actions, and its hand."""
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
        infoset = self.infosets_by_hand(player, np.arange(len(self.decisions[player])))
        return np.nonzero(infoset >= 0)[1]


class PublicInfosets(Infosets):
    """One player's infosets of a public tree; arrays are created on first use, in 32 bits if they fit.

    Parents come before children; infosets of a public node are consecutive, hand by hand.
    """

    def __init__(self, tree: PublicTree, player: int):
        """Stores the tree and the player; use `PublicTree.infosets` instead."""
        self._tree: PublicTree
        self._player: int
        self._blocks: _HandBlocks
        blocks = tree._layout.blocks[player]  # pyright: ignore[reportPrivateUsage]  # two halves of one layout
        self.__dict__.update(_tree=tree, _player=player, _blocks=blocks)

    def __len__(self) -> int:
        return int(self._blocks.num_hands.sum())

    @property
    def num_sequences(self) -> int:
        """Number of sequences: the actions of all infosets, and the empty sequence."""
        return 1 + int((self._blocks.num_hands * self._blocks.decisions.num_actions).sum())

    def _per_infoset(self, x: IntArray) -> IntArray:
        return np.repeat(self._narrow(x), self._blocks.num_hands)

    def _narrow(self, x: IntArray) -> IntArray:
        return x.astype(np.int32, copy=False) if self.num_sequences < np.iinfo(np.int32).max else x

    @functools.cached_property
    def depth(self) -> IntArray:
        """`[I]` number of the player's own earlier decisions."""
        return self._per_infoset(self._blocks.decisions.depth)

    @functools.cached_property
    def num_actions(self) -> IntArray:
        """`[I]` number of legal actions."""
        return self._per_infoset(self._blocks.decisions.num_actions)

    @functools.cached_property
    def first_sequence(self) -> IntArray:
        """`[I]` the first sequence of each infoset."""
        return self._narrow(1 + np.cumsum(self.num_actions) - self.num_actions)

    @functools.cached_property
    def parent(self) -> IntArray:
        """`[I]` the sequence that leads to each infoset."""
        decisions = self._blocks.decisions
        possible = self._tree.infosets_by_hand(self._player, np.arange(len(decisions))) >= 0
        parent = self._tree.sequences_by_hand(self._player, decisions.parent)
        return self._narrow(np.maximum(parent, 0)[possible])

    @functools.cached_property
    def history(self) -> IntArray:
        """`[I]` the public node of each infoset."""
        return self._per_infoset(self._blocks.decisions.history)

    @functools.cached_property
    def infoset(self) -> IntArray:
        """`[num_sequences]` the infoset of each sequence; -1 for the empty one."""
        return np.append(
            self._narrow(np.array([-1])), np.repeat(self._narrow(np.arange(len(self))), self.num_actions)
        )

    @functools.cached_property
    def action(self) -> IntArray:
        """`[num_sequences]` action id of each sequence; -1 for the empty one."""
        nodes, owner = self._tree.nodes, self.infoset[1:]
        slot = np.arange(1, self.num_sequences) - self.first_sequence[owner]
        action = nodes.action[nodes.first_child[self.history[owner]] + slot]
        return np.append(self._narrow(np.array([-1])), self._narrow(action))


def _lay_out(game: HandsGame) -> _PublicLayout:
    """Both players' decisions in a public tree."""
    tree = game.nodes
    infoset, sequence = np.full((2, len(tree)), -1, np.int32), np.zeros((2, len(tree)), np.int32)
    depth = np.zeros((2, len(tree)), np.int32)
    blocks: list[_HandBlocks] = []
    for player in (0, 1):
        nodes = tree.decisions(player)
        num_actions = tree.num_children[nodes].astype(np.int32)
        first_sequence = (1 + np.cumsum(num_actions) - num_actions).astype(np.int32)
        infoset[player, nodes] = np.arange(len(nodes))
        first = np.append(first_sequence, 0)
        for level in tree.levels_below():
            above = tree.parent[level]
            owner = infoset[player, above]
            own, before = first[owner] + tree.slot[level], sequence[player, above]
            sequence[player, level] = np.where(owner >= 0, own, before)
            depth[player, level] = depth[player, above] + (owner >= 0)
        children = 1 + np.flatnonzero(infoset[player, tree.parent[1:]] >= 0)
        decisions = Infosets(
            depth=depth[player, nodes],
            num_actions=num_actions,
            first_sequence=first_sequence,
            parent=sequence[player, nodes],
            history=nodes,
            action=np.append(-1, tree.action[children]).astype(np.int32),
            infoset=np.append(-1, infoset[player, tree.parent[children]]).astype(np.int32),
        )
        blocks.append(_number_hands(decisions, game.possible[player], game.num_hands[player]))
    return _PublicLayout((blocks[0], blocks[1]), infoset, sequence, depth.sum(axis=0, dtype=np.int32))


def _number_hands(decisions: Infosets, possible: BoolArray | None, hands: int) -> _HandBlocks:
    """Numbers a player's infosets and sequences, decision by decision and hand by hand."""
    if possible is None:
        rank = np.arange(hands)[None]
        num_hands = np.full(len(decisions), hands)
    else:
        held = possible[decisions.history]
        rank = np.where(held, np.cumsum(held, axis=1) - 1, -1)
        num_hands = held.sum(axis=1)
    num_sequences = num_hands * decisions.num_actions
    dtype = np.int32 if num_sequences.sum() < np.iinfo(np.int32).max else np.int64
    return _HandBlocks(
        decisions=decisions,
        rank=rank.astype(dtype),
        num_hands=num_hands,
        first_infoset=np.cumsum(num_hands) - num_hands,
        first_sequence=(1 + np.cumsum(num_sequences) - num_sequences).astype(dtype),
    )


def public_tree(game: Game | HandsGame | DealsHands | Tree, *, memory_limit: int | None = None) -> PublicTree:
    """Lays a game out in hand form, without its histories.

    Args:
      game: a game in which hands are dealt first and all later moves are public: Kuhn and Leduc poker and
        Liar's Dice, which define a hand form, a hold'em spot, or the tree of any other game. A public tree is
        returned unchanged.
      memory_limit: bytes that the tree and a solve of it may take; by default half of the physical memory.

    Raises:
      ValueError: if the game defines no hand form, is known to be too large, or a move after the deal is
        private (named in the message).
    """
    if isinstance(game, PublicTree):
        return game
    if isinstance(game, HistoryTree):
        origin = hands_of(game)
        return PublicTree(hands_game=origin.game, game=game.game, origin=origin)
    if isinstance(game, HandsGame):
        return PublicTree(hands_game=game, game=game)
    if isinstance(game, DealsHands):
        if isinstance(game, KnowsPublicSize):
            _check_size(game, memory_limit)
        hands_game = game.by_hands()
        return PublicTree(hands_game=hands_game, game=game if isinstance(game, TreeGame) else hands_game)
    name = getattr(game, "name", None)
    problem = f"{name!r} defines no hand form" if isinstance(name, str) else f"{game!r} is not a game"
    raise ValueError(
        f"game: {problem}: expected kuhn_poker, leduc_poker, liars_dice, or the tree of a game whose private "
        "information is dealt first, from enumerate_game(load(…))"
    )


def _check_size(game: KnowsPublicSize, memory_limit: int | None) -> None:
    """Raises TooLargeError if the hand form of a game and a solve of it need more memory than there is."""
    num_nodes, num_sequences = game.public_size
    needed = NODE_BYTES * num_nodes + SEQUENCE_BYTES * num_sequences
    available = host_memory() if memory_limit is None else memory_limit
    if available is not None and needed > available:
        raise TooLargeError(
            f"{getattr(game, 'name', game)} in hand form: {num_nodes:,} public nodes and {num_sequences:,} "
            f"sequences take at least {megabytes(needed)} of memory, but {megabytes(available)} is "
            "available; expected a larger memory_limit, or a smaller game"
        )


def lay_out(
    game: Game,
    form: Form = "histories",
    *,
    max_histories: int = DEFAULT_MAX_HISTORIES,
    memory_limit: int | None = None,
    progress: bool | None = None,
) -> Tree:
    """Lays a game out in the requested form.

    Args:
      game: the game.
      form: `histories`, or `hands` for a game that defines a hand form, or whose histories show that all
        moves after a private deal are public.
      max_histories: as in `enumerate_game`; has no effect on the hand form of a game that defines one.
      memory_limit: as in `public_tree`; has no effect on histories.
      progress: as in `enumerate_game`.

    Raises:
      ValueError: if the game has too many histories, or no hand form.
    """
    if form == "hands" and isinstance(game, DealsHands):
        return public_tree(game, memory_limit=memory_limit)
    tree = enumerate_game(game, max_histories=max_histories, progress=progress)
    return public_tree(tree) if form == "hands" else tree


def check_tree(tree: object) -> Tree:
    """Returns the tree; raises ValueError for other objects."""
    if not isinstance(tree, HistoryTree | PublicTree):
        shown = repr(tree) if isinstance(tree, str) else f"a {type(tree).__name__}"
        raise ValueError(
            f"tree={shown}: expected a HistoryTree, from enumerate_game(load(…)), or a PublicTree, from "
            "public_tree(load(…))"
        )
    return tree


def other_layout(tree: Tree) -> Tree | None:
    """The hand form of a tree in history form; or the histories from which a tree was derived, if any."""
    if isinstance(tree, PublicTree):
        return None if tree.origin is None else tree.origin.tree
    return public_tree(tree)


def match_sequences(tree: Tree, other: Tree, name: str) -> tuple[IntArray, IntArray]:
    """For both players `[num_sequences]` the sequence of another tree for each sequence of this tree.

    One of the two trees is in hand form; the other one is in either form, for the whole game. The result is
    -1 for hands of `tree` that are impossible in the other one.

    Args:
      tree: the tree of the sequences.
      other: the same game in another layout.
      name: name of the argument, for messages.

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
    """`[num_sequences]` an id for every sequence of a player, which is the same in all trees of the game."""
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
    """Raises ValueError unless both trees have the same public nodes and numbers of hands."""
    same = ours.num_hands == theirs.num_hands and all(
        np.array_equal(getattr(ours.nodes, field), getattr(theirs.nodes, field))
        for field in ("parent", "actor", "action")
    )
    if not same:
        raise ValueError(
            f"{name} is for {theirs!r}, which has other hands or public nodes than {ours!r}; expected a "
            "tree of the same game"
        )
