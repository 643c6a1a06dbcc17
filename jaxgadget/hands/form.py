"""A game by hands as two treeplexes and a payoff: the public tree of each player × its hands, node by node.

All hands of a public node lie side by side, so the reaches and values of a node are slices, and whatever goes
from node to node moves blocks. What remains private is inside the payoff (`hands.payoff`): the deal, public
chance, and which hands exclude each other. An infoset whose hand public chance has made impossible is there
like padding: its reach never counts, so it earns nothing.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
from jax.typing import DTypeLike

from jaxgadget.core.hands import HandsPayoff, build_hands_payoff
from jaxgadget.core.host import HandTreeplex, HostTreeplex, build_treeplex
from jaxgadget.core.problem import Problem, Side, build_side, fixed_entry, free_game
from jaxgadget.games.game import ACTOR_BIT, Game
from jaxgadget.games.hands import DealsHands, HandsGame
from jaxgadget.tree.hands import find_hands
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.public_form import hand_entries, keep_nodes
from jaxgadget.util.arrays import BoolArray, IntArray
from jaxgadget.util.precision import precision


def by_hands(game: Game | HistoryTree | HandsGame) -> HandsGame:
    """A game without its histories: public nodes, and what each end pays every pair of hands.

    Args:
      game: one that deals hands and then goes on in public: Kuhn and Leduc poker and Liar's Dice, which say
        so themselves, or the tree of any other; a game by hands is returned.

    Raises:
      ValueError: if the game does not know its hands, or not all that follows the deal is public; it says
        what is not.
    """
    if isinstance(game, HandsGame):
        return game
    if isinstance(game, HistoryTree):
        return find_hands(game).game
    if isinstance(game, DealsHands):
        return game.by_hands()
    name = getattr(game, "name", None)
    what = f"{name!r} does not say which hands it deals" if isinstance(name, str) else f"{game!r} is no game"
    raise ValueError(
        f"game: {what}: expected kuhn_poker, leduc_poker, liars_dice, or the tree of a game whose private "
        "information is dealt first, from enumerate_game(load(…))"
    )


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class HandsForm:
    """The public treeplexes of a game by hands, or of its public subgames below some nodes.

    Attributes:
      game: whose.
      roots: `[S]` the public nodes below which it is laid out, ascending, none below another; by default all.
    """

    game: HandsGame
    roots: IntArray = dataclasses.field(default_factory=lambda: np.zeros(1, np.int64))

    def __repr__(self) -> str:
        below = "" if self.is_whole else f" below {len(self.roots)} nodes"
        return f"<HandsForm of {self.game!r}{below}>"

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole game's."""
        return self.roots.tolist() == [0]

    @functools.cached_property
    def root_of(self) -> IntArray:
        """`[n]` which of the roots lies above each public node, or is that node; -1 where none."""
        tree = self.game.nodes
        root = np.full(len(tree), -1, np.int64)
        root[self.roots] = np.arange(len(self.roots))
        for level in tree.levels_below():
            above = root[tree.parent[level]]
            twice = np.flatnonzero((above >= 0) & (root[level] >= 0))
            if len(twice):
                node = level.start + int(twice[0])
                raise ValueError(
                    f"roots of {self.game.name}: public node {node} lies below node "
                    f"{int(self.roots[above[twice[0]]])}; expected nodes none of which is below another"
                )
            root[level] = np.maximum(root[level], above)
        return root

    @functools.cached_property
    def _laid_out(self) -> tuple[tuple[HostTreeplex, IntArray], tuple[HostTreeplex, IntArray]]:
        return _lay_out(self, 0), _lay_out(self, 1)

    @property
    def treeplex(self) -> tuple[HostTreeplex, HostTreeplex]:
        """Both players' decisions with a single hand; `infoset` names public nodes."""
        (first, _), (second, _) = self._laid_out
        return first, second

    @property
    def sequence(self) -> tuple[IntArray, IntArray]:
        """For both players `[n]` the sequence of its treeplex that leads to each public node, -1 outside."""
        (_, first), (_, second) = self._laid_out
        return first, second

    @functools.cached_property
    def children(self) -> tuple[IntArray, IntArray]:
        """For both players `[C]` the public nodes that its actions lead to, ascending: rows of policies."""
        first, second = (np.flatnonzero(self._acts_above(player)) for player in (0, 1))
        return first, second

    @functools.cached_property
    def rows(self) -> tuple[IntArray, IntArray]:
        """For both players `[C]` the row of a policy that is each action of its treeplex."""
        rows: list[IntArray] = []
        tree = self.game.nodes
        for player, treeplex in enumerate(self.treeplex):
            row = np.cumsum(self._acts_above(player)) - 1
            node = tree.first_child[treeplex.infoset[treeplex.sequence_infoset]] + treeplex.sequence_slot
            rows.append(row[node])
        return rows[0], rows[1]

    def _acts_above(self, player: int) -> BoolArray:
        """`[n]` whether a player's action leads to a public node."""
        tree = self.game.nodes
        acts = tree.actor[tree.parent] == ACTOR_BIT[player]
        acts[0] = False
        return acts

    def payoff(self, dtype: DTypeLike) -> HandsPayoff:
        """Between the bodies."""
        ends = self.game.ends if self.is_whole else keep_nodes(self.game.ends, self.root_of >= 0)
        num_blocks = (self.treeplex[0].num_sequences, self.treeplex[1].num_sequences)
        with precision(dtype):
            return build_hands_payoff(
                hand_entries(self.game.num_hands, ends, self.sequence, num_blocks), dtype
            )

    def sides(self, dtype: DTypeLike) -> tuple[Side, Side]:
        """Both players' structure on the device, entries fixed: a root a public root, and below it a hand."""
        with precision(dtype):
            first, second = (
                build_side(
                    HandTreeplex(treeplex, hands),
                    fixed_entry(len(self.roots)),
                    np.repeat(np.arange(len(self.roots)), hands),
                    dtype,
                )
                for treeplex, hands in zip(self.treeplex, self.game.num_hands, strict=True)
            )
        return first, second

    def problem(self, num_lanes: int, dtype: DTypeLike) -> Problem:
        """The game; no positive regret counts as none, the driver fills that in."""
        with precision(dtype):
            return free_game(self.sides(dtype), self.payoff(dtype), num_lanes, dtype)


def _lay_out(form: HandsForm, player: int) -> tuple[HostTreeplex, IntArray]:
    """A player's decisions with a single hand, and `[n]` its sequence at every public node, -1 outside."""
    tree, root = form.game.nodes, form.root_of
    nodes = tree.decisions(player)
    nodes = nodes[root[nodes] >= 0]
    infoset = np.full(len(tree), -1, np.int64)  # the player's last one, the node's own left aside
    slot, depth = np.zeros(len(tree), np.int64), np.zeros(len(tree), np.int64)
    number = np.full(len(tree), -1, np.int64)
    number[nodes] = np.arange(len(nodes))
    acts = number >= 0
    for level in tree.levels_below():
        above = tree.parent[level]
        infoset[level] = np.where(acts[above], number[above], infoset[above])
        slot[level] = np.where(acts[above], tree.slot[level], slot[above])
        depth[level] = depth[above] + acts[above]
    treeplex, position = build_treeplex(
        num_roots=len(form.roots),
        depth=depth[nodes],
        num_actions=tree.num_children[nodes],
        parent_infoset=infoset[nodes],
        parent_slot=np.where(infoset[nodes] < 0, root[nodes], slot[nodes]),
        infoset=nodes,
    )
    sequence = root.copy()
    below = np.flatnonzero(infoset >= 0)
    sequence[below] = treeplex.sequence(position[infoset[below]], slot[below])
    return treeplex, sequence
