"""Tree + cut or cover → Forest: all subgames in one sequence form.

One pair of treeplexes holds all subgames; its roots are the infostates at the cut, one root per infostate and
subgame. Only level sizes are padded, so that forests of nearly the same shape reuse one compiled program.

A forest may end at a depth limit. There both players choose once among K strategies for the rest of the game
(Brown, Sandholm and Amos 2018, §4; Kovařík et al. 2023): every leaf infostate of a player has an infoset with
K actions, and every leaf history a K×K payoff. The tree below the limit is not used.

One player's decisions below given histories may be duplicated, with separate roots: those of a copy of the
player that follows a model down to these histories and plays freely below them (`second`).
"""

from __future__ import annotations

import collections
import dataclasses

import numpy as np
from scipy.sparse import csr_array

from jaxgadget.core.host import (
    Entries,
    HandEntries,
    Rounding,
    exact_size,
)
from jaxgadget.games.game import dense_ids, first_positions
from jaxgadget.tree.cover import Cover, Roots, cover_of, roots_by_hand
from jaxgadget.tree.cut import Cut, CutSpec, cut, cut_at
from jaxgadget.tree.history import HistoryTree, check_histories
from jaxgadget.tree.public import check_tree
from jaxgadget.tree.sequence import (
    ExtraRoots,
    Frontier,
    Layout,
    SequenceForm,
    Treeplexes,
    below_extra,
    build_treeplexes,
    with_terminals,
)
from jaxgadget.tree.tree import Tree, check_ends
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.players import pair_for


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Leaves:
    """Depth limit of a forest: H leaf histories, none without a limit.

    Attributes:
      histories: `[H]` ascending.
      states: for both players, ids of the leaf infostates, ascending. The choice at the j-th of them is
        infoset -2 - j in the player's treeplex.
      num_choices: K, number of continuation strategies of each player.
      leaf: `[C]` index of the leaf; a leaf in several subgames occurs once for each.
      sequence: for both players `[C, K]` the sequence of each choice.
    """

    histories: IntArray
    states: tuple[IntArray, IntArray]
    num_choices: int
    leaf: IntArray
    sequence: tuple[IntArray, IntArray]

    def __len__(self) -> int:
        return len(self.histories)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Forest:
    """Subgames in one sequence form.

    Attributes:
      cover: the root histories of each subgame.
      form: sequence form; roots of `form.treeplex[p]` are player p's root infostates.
      roots: both players' root infostates.
      chance: chance's reach of every pair of root infostates, summed over root histories.
      terminals: payoff of terminal histories; `form.payoff` also contains the values set by `with_values`.
      leaves: the depth limit.
      extra: duplicated decisions of one player; their roots follow `roots` in its treeplex.
      padded: True if sizes were rounded up.
    """

    cover: Cover
    form: SequenceForm
    roots: tuple[Roots, Roots]
    chance: Entries | HandEntries
    terminals: Entries | HandEntries
    leaves: Leaves
    padded: bool
    extra: ExtraRoots | None = None

    def __repr__(self) -> str:
        extent = self.cut if self.cover.is_cut else self.cover
        count, leaves = f"{len(self.roots[0])} + {len(self.roots[1])} root infostates", len(self.leaves)
        end = f", {leaves} leaves with {self.leaves.num_choices} choices" if leaves else ""
        return f"<Forest below {extent!r}: {count}{end}>"

    @property
    def cut(self) -> Cut:
        """The cut of all root histories."""
        return self.cover.cut

    @property
    def histories(self) -> HistoryTree:
        """The tree; raises ValueError if it is in hand form."""
        return self.cut.histories

    @property
    def tree(self) -> Tree:
        """The game, in history or hand form."""
        return self.cover.tree

    @property
    def rounding(self) -> Rounding:
        """Rounding of sizes."""
        return self.tree.rounding if self.padded else exact_size

    @property
    def num_subgames(self) -> int:
        """Number of subgames, S."""
        return self.cover.num_subgames

    def root_of_infoset(self, player: int) -> IntArray:
        """`[I]` the root above each infoset of a player's treeplex; arbitrary for padding."""
        treeplex = self.form.treeplex[player]
        root = treeplex.root_of()[treeplex.first_sequence]
        return np.where(treeplex.infoset == -1, 0, root)

    def find_root(self, player: int, infostate: IntArray, subgame: IntArray) -> IntArray:
        """`[m]` index of a player's root at each infostate and subgame, -1 for none."""
        roots = self.roots[player]
        states, state = np.unique(roots.infostate, return_inverse=True)
        state_idx = np.minimum(np.searchsorted(states, infostate), len(states) - 1)
        root_keys = state * self.num_subgames + roots.subgame  # ascending
        is_known = (states[state_idx] == infostate) & (subgame >= 0)
        keys = np.where(is_known, state_idx * self.num_subgames + subgame, -1)
        root_idx = np.minimum(np.searchsorted(root_keys, keys), len(root_keys) - 1)
        return np.where(root_keys[root_idx] == keys, root_idx, -1)

    def root_names(self, player: int) -> tuple[str, ...]:
        """`[R]` unique names of a player's root infostates, in the order of `roots[player]`.

        The infoset's name (`tree.infoset_names`) if the player acts at the root. Otherwise its last infoset
        and action (`0, then Bet`); if these lead to several roots, its first infoset below the root; or `root
        infostate 3` if it never acts. In hand form, names consist of the hand and the public actions.
        Infostates in several subgames have the suffix ` | subgame 2`.
        """
        roots, cut = self.roots[player], self.cut
        names = self.tree.name_roots(player, roots.infostate, cut.roots, cut.root, self.infosets(player))
        shared = collections.Counter(names)
        return tuple(
            name if shared[name] == 1 else f"{name} | subgame {subgame}"
            for name, subgame in zip(names, roots.subgame.tolist(), strict=True)
        )

    def infosets(self, player: int) -> IntArray:
        """Ids in the tree of a player's infosets in the forest, ascending."""
        infoset = self.form.treeplex[player].infoset
        return np.unique(infoset[infoset >= 0])

    def infoset_subgame(self, player: int) -> IntArray:
        """`[num_infosets]` subgame of each infoset of the tree, -1 for none.

        Raises:
          ValueError: if subgames overlap.
        """
        self.check_disjoint()
        infoset = self.form.treeplex[player].infoset
        subgame = np.full(len(self.tree.infosets[player]), -1, np.int64)
        inside = infoset >= 0
        subgame[infoset[inside]] = self.root_subgames(player)[self.root_of_infoset(player)[inside]]
        return subgame

    def root_subgames(self, player: int) -> IntArray:
        """`[R]` the subgame of each root of a player's treeplex, extra roots last; padding not included."""
        usual, extra = self.roots[player].subgame, self.extra
        if extra is None or extra.player != player:
            return usual
        return np.concatenate([usual, extra.roots.subgame])

    def check_disjoint(self) -> None:
        """Checks that the strategies of all subgames can be combined into one policy.

        Raises:
          ValueError: if an infostate of either player is in two subgames.
        """
        for player, roots in enumerate(self.roots):
            again = np.nonzero(np.diff(roots.infostate) == 0)[0]
            if len(again):
                first, second = roots.subgame[again[0] : again[0] + 2].tolist()
                member = self.histories.infostate[player, self.cut.roots] == roots.infostate[again[0]]
                moves = self.tree.moves(int(self.cut.roots[np.argmax(member)]))
                raise ValueError(
                    f"subgames {first} and {second} of {self.cover!r} overlap: both have the infostate of "
                    f"player {player} at {moves}, so their strategies do not define one policy; combine them "
                    "explicitly, or take disjoint subgames (`Cover.take`)"
                )

    def with_values(self, values: FloatArray) -> Forest:
        """The forest with the given leaf values in its payoff, replacing previous ones.

        Args:
          values: `[H, K, K]` player 0's expected payoff below each leaf, for each pair of choices.

        Raises:
          ValueError: if the shape differs.
        """
        expected = (len(self.leaves), self.leaves.num_choices, self.leaves.num_choices)
        if values.shape != expected:
            raise ValueError(f"leaf values of shape {values.shape}: expected {expected}, [leaves, K, K]")
        form = SequenceForm(tree=self.tree, treeplex=self.form.treeplex, payoff=self._payoff(values))
        return dataclasses.replace(self, form=form)

    def _payoff(self, values: FloatArray) -> Entries | HandEntries:
        """Payoff of terminals and leaves; zero entries of leaves are kept, so that shapes are equal."""
        terminals = self.terminals
        if values.size == 0:
            return terminals
        assert isinstance(terminals, Entries)  # hand form has no leaves
        leaf, shape = self.leaves.leaf, terminals.shape
        weighted = self.histories.chance[self.leaves.histories, None, None] * values
        weighted = weighted if len(leaf) == len(values) else weighted[leaf]
        rows = np.broadcast_to(self.leaves.sequence[0][:, :, None], weighted.shape).ravel()
        columns = np.broadcast_to(self.leaves.sequence[1][:, None, :], weighted.shape).ravel()
        key = np.concatenate([terminals.row, rows]) * shape[1]
        key += np.concatenate([terminals.column, columns])
        pair, count = dense_ids(key)
        keys = np.empty(count, np.int64)
        keys[pair] = key
        every_value = np.concatenate([terminals.value, weighted.ravel()])
        total = np.asarray(np.bincount(pair, every_value, minlength=count), np.float64)
        return Entries(row=keys // shape[1], column=keys % shape[1], value=total, shape=shape)


def build_forest(
    tree: Tree,
    where: CutSpec | Cover,
    *,
    limit: IntArray | Cut | None = None,
    num_choices: int = 1,
    second: tuple[int, IntArray | Cut] | None = None,
    padded: bool = True,
) -> Forest:
    """Builds the sequence form of all subgames.

    Args:
      tree: the game, in history or hand form.
      where: a cut specification as for `jaxgadget.cut`, or a cover.
      limit: depth limit, `[H]` leaf histories at or below the roots, ascending, none below another, or a cut
        at them; set their values with `with_values`. By default the forest extends to the end of the game.
      num_choices: K, number of continuation strategies of each player at the limit; 0 for no choices.
      second: a player and histories, given as for `limit`, at or above the limit: the player's decisions
        below them, and their payoffs, are duplicated (`Forest.extra`).
      padded: round level sizes up, so that forests of nearly equal shape share a program.

    Raises:
      ValueError: as `cut`, or if the tree is truncated and `limit` is None, an infoset lies on both sides of
        the limit, a leaf infostate lies below two root infostates of its player, or `second` is given with a
        cover that is not a cut; in hand form, if subgames overlap, or `limit` or `second` is given.
    """
    cover = where if isinstance(where, Cover) else cover_of(cut(check_tree(tree), where))
    if cover.tree is not tree:
        raise ValueError("cover: the cover is of another tree; expected a cover of a cut of this tree")
    if limit is None:
        check_ends(tree)
    rounding: Rounding = tree.rounding if padded else exact_size
    layout = Layout.of(cover, _find_frontier(cover, limit, num_choices), _find_extra(cover, second))
    treeplexes = build_treeplexes(layout, rounding)
    form = with_terminals(treeplexes, layout)
    num_roots = form.treeplex[0].num_roots, form.treeplex[1].num_roots
    return Forest(
        cover=cover,
        form=form,
        roots=(roots_by_hand(tree, 0, layout.roots[0]), roots_by_hand(tree, 1, layout.roots[1])),
        chance=tree.chance_entries(cover.roots, layout.root_idx, num_roots),
        terminals=form.payoff,
        leaves=_find_leaves(layout, treeplexes, num_choices),
        padded=padded,
        extra=layout.extra,
    )


def _find_extra(cover: Cover, second: tuple[int, IntArray | Cut] | None) -> ExtraRoots | None:
    """Roots of the duplicated decisions of a player; None if there are none."""
    if second is None:
        return None
    player, histories = second
    if not cover.is_cut:
        raise ValueError(
            f"second={second!r} cannot be combined with {cover!r}: expected a cut, with disjoint subgames"
        )
    frontier = _find_frontier(cover, histories, 0)
    if frontier is None:
        return None
    roots, leaf_idx, leaves = frontier.roots[player], frontier.root_idx[player], frontier.cut.roots
    subgame = np.empty(len(roots), np.int64)
    subgame[leaf_idx] = cover.cut.subgame[np.searchsorted(cover.cut.roots, cover.cut.root[leaves])]
    return ExtraRoots(
        player=player, cut=frontier.cut, roots=dataclasses.replace(roots, subgame=subgame), root_idx=leaf_idx
    )


def check_forest(forest: object) -> None:
    """Raises ValueError unless `forest` is a Forest."""
    if not isinstance(forest, Forest):
        raise ValueError(
            f"forest is a {type(forest).__name__}: expected a Forest, from build_forest(tree, cut)"
        )


def _find_frontier(cover: Cover, limit: IntArray | Cut | None, num_choices: int) -> Frontier | None:
    """The frontier of a forest with a depth limit; None without a limit."""
    if num_choices != int(num_choices) or num_choices < 0:
        raise ValueError(
            f"num_choices={num_choices!r}: expected an integer >= 0, the number of strategies at the limit"
        )
    if limit is None or (not isinstance(limit, Cut) and len(limit) == 0):
        return None
    check_histories(cover.tree, "a depth limit")
    end = limit if isinstance(limit, Cut) else cut_at(cover.tree, "limit", limit, inside=cover.cut)
    outside = end.roots[cover.cut.root[end.roots] < 0]
    if len(outside):
        raise ValueError(
            f"limit: leaf history {cover.tree.moves(int(outside[0]))} lies above or beside the cut "
            f"{cover.cut.name!r} of {cover.tree.game.name}; expected leaves at or below its roots"
        )
    frontier = Frontier.at(end, num_choices)
    for player in (0, 1):
        _check_recall(cover.cut, frontier, player)
    return frontier


def _check_recall(where: Cut, frontier: Frontier, player: int) -> None:
    """Raises ValueError if a leaf infostate lies below two root infostates of its player."""
    tree, leaves, leaf_state = where.histories, frontier.cut.roots, frontier.root_idx[player]
    state = tree.infostate[player, where.root[leaves]]
    first_leaf = first_positions(leaf_state, len(frontier.roots[player]))
    differs = np.nonzero(state != state[first_leaf][leaf_state])[0]
    if len(differs):
        raise ValueError(
            f"lookahead of {tree.game.name}: player {player} has an infostate at the limit, as after "
            f"history {tree.moves(int(leaves[differs[0]]))}, which lies below two root infostates; choose "
            "another cut or another depth"
        )


def _find_leaves(layout: Layout, form: Treeplexes, num_choices: int) -> Leaves:
    frontier = layout.frontier
    if frontier is None:
        none, nothing = np.zeros(0, np.int64), np.zeros((0, num_choices), np.int64)
        return Leaves(
            histories=none,
            states=(none, none),
            num_choices=num_choices,
            leaf=none,
            sequence=(nothing, nothing),
        )
    history_idx, pair = layout.pairs_above(frontier.cut.roots)
    leaf = np.arange(len(frontier.cut.roots))[history_idx]
    first, second = (_choices(layout, frontier, form, player, leaf, pair) for player in (0, 1))
    again = layout.below_extra(frontier.cut.roots[leaf])
    return Leaves(
        histories=frontier.cut.roots,
        states=(frontier.roots[0].infostate, frontier.roots[1].infostate),
        num_choices=num_choices,
        leaf=np.concatenate([leaf, leaf[again]]),
        sequence=(first, second),
    )


def _choices(
    layout: Layout, frontier: Frontier, form: Treeplexes, player: int, leaf: IntArray, pair: IntArray
) -> IntArray:
    """`[C, K]` the sequence of each of a player's choices at leaves below pairs of the cover.

    Sequences below extra roots follow.
    """
    count, again = frontier.num_choices, layout.below_extra(frontier.cut.roots[leaf])
    if count == 0:
        return np.zeros((len(leaf) + len(again), 0), np.int64)
    first = layout.cover.tree.infosets[player].num_sequences + frontier.root_idx[player][leaf] * count
    choice = first[:, None] + np.arange(count)
    root = np.repeat(layout.root_idx[player][pair], count)
    sequence = form.below_roots(player, layout.copy(player), root, choice.ravel()).reshape(choice.shape)
    copied = sequence[again]
    if layout.extra_of(player) is not None:
        at = np.repeat(frontier.cut.roots[leaf[again]], count)
        copied = below_extra(form, layout, player, at, choice[again].ravel()).reshape(copied.shape)
    return np.concatenate([sequence, copied])


def find_copies(forest: Forest, copies: Forest, player: int, subgame: IntArray | None = None) -> IntArray:
    """Maps a player's sequences of one forest to those of another forest of the same tree.

    Roots correspond if their infostates are equal; actions and choices at the limit if they are equal.

    Args:
      forest: the target, without extra roots.
      copies: the source, without extra roots; if both have a limit, `num_choices` must be equal.
      player: the player.
      subgame: `[R]` the subgame of `forest` to search for each root of `copies` and its descendants, -1 for
        none; by default any, for a forest of a cut.

    Returns:
      `[S]` the sequence of `forest` for each sequence of `copies`, -1 for none.
    """
    forests = forest, copies
    size = max(each.leaves.num_choices for each in forests)
    states = np.unique(
        np.concatenate([ids for f in forests for ids in (f.roots[player].infostate, f.leaves.states[player])])
    )
    anywhere = [np.zeros(len(each.roots[player]), np.int64) for each in forests]
    above = anywhere if subgame is None else [forest.roots[player].subgame, subgame]
    forest_keys, copy_keys = (
        _sequence_keys(each, player, root_subgame, states, size)
        for each, root_subgame in zip(forests, above, strict=True)
    )
    order = np.argsort(forest_keys, kind="stable")
    position = np.minimum(np.searchsorted(forest_keys, copy_keys, sorter=order), len(forest_keys) - 1)
    return np.where((copy_keys >= 0) & (forest_keys[order[position]] == copy_keys), order[position], -1)


def _sequence_keys(forest: Forest, player: int, subgame: IntArray, states: IntArray, size: int) -> IntArray:
    """`[S]` a key of each sequence from its root's subgame and its sequence in the tree; -1 for padding.

    A name is a sequence of the tree, then a root infostate, then a leaf infostate's choice. Infostates are
    numbered by their position in `states`, ascending, as their ids may be any integers.
    """
    treeplex, roots, leaves = forest.form.treeplex[player], forest.roots[player], forest.leaves
    action, count = forest.form.action_sequences(player), forest.histories.infosets[player].num_sequences
    leaf, choice = np.divmod(np.maximum(action - count, 0), max(leaves.num_choices, 1))
    leaf_state = np.append(np.searchsorted(states, leaves.states[player]), 0)[leaf]
    name = np.full(treeplex.num_sequences, -1, np.int64)
    name[: len(roots)] = count + np.searchsorted(states, roots.infostate)
    name[treeplex.num_roots :] = np.where(
        action < count, action, count + len(states) + leaf_state * size + choice
    )
    above = np.full(treeplex.num_roots, -1, np.int64)
    above[: len(roots)] = subgame
    above, total = above[treeplex.root_of()], count + len(states) * (1 + size)
    return np.where((name >= 0) & (above >= 0), above * total + name, -1)


def followed_payoff(forest: Forest, player: int) -> Entries | HandEntries:
    """Payoff of a player's sequences against an opponent that follows a model down to the extra roots.

    Covers terminals before the extra roots, or all terminals without extra roots. Its product with a model's
    reach, `[sequences of the tree, models]`, is a body constant. Choices at the limit are not included.

    Args:
      forest: the subgames.
      player: the player; payoffs are in its utility.

    Returns:
      The payoff matrix, with sequences of the player's treeplex, and of the tree for the opponent.
    """
    tree, cover, other = forest.tree, forest.cover, 1 - player
    frontier = _find_frontier(cover, forest.leaves.histories, forest.leaves.num_choices)
    layout = Layout.of(cover, frontier, forest.extra)
    terminals = tree.terminals[layout.inside(tree.terminals)]
    if forest.extra is not None:
        terminals = terminals[forest.extra.cut.root[terminals] < 0]
    history_idx, pair = layout.pairs_above(terminals)
    terminals = terminals[history_idx]
    root, sequence = layout.root_idx[player][pair], tree.sequence[player, terminals]
    own = forest.form.below_roots(player, layout.copy(player), root, sequence)
    hands = tree.num_hands[player]
    own_rows = own[:, None] * hands + np.arange(hands)
    model_rows = tree.sequences_by_hand(other, tree.sequence[other, terminals])
    num_rows = forest.form.treeplex[player].num_sequences, tree.infosets[other].num_sequences
    return tree.payoff_entries(
        terminals, pair_for(player, own_rows, model_rows), pair_for(player, *num_rows), player
    )


def opponent_roots(forest: Forest, player: int) -> csr_array:
    """Incidence of a player's actions and the opponent's root infostates above them.

    Args:
      forest: the subgames.
      player: the acting player.

    Returns:
      Sparse boolean `[Q, R]`: for each action in the player's treeplex, the opponent's roots above its
      infoset.
    """
    tree, layout = forest.histories, Layout.of(forest.cover)
    histories = np.flatnonzero(tree.infoset[player] >= 0)
    histories = histories[layout.inside(histories)]
    history_idx, pair = layout.pairs_above(histories)
    infoset = tree.infoset[player, histories[history_idx]]
    first = tree.infosets[player].first_sequence[infoset]
    own, theirs = layout.root_idx[player][pair], layout.root_idx[1 - player][pair]
    sequence = forest.form.below_roots(player, layout.copy(player), own, first)
    treeplex = forest.form.treeplex[player]
    owner = treeplex.sequence_infoset
    shape = (treeplex.num_infosets, len(forest.roots[1 - player]))
    met = csr_array(
        (np.ones(len(sequence), np.bool_), (owner[sequence - treeplex.num_roots], theirs)), shape=shape
    )
    return met[owner]
