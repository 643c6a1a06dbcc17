"""HistoryTree + cut or cover → Forest: subgames side by side in one sequence form.

One pair of treeplexes holds all subgames; its roots are the infostates at the cut, a root for each subgame
that such an infostate is in. Only level sizes are rounded up, so that two forests of nearly the same shape
reuse one compiled program.

A forest may end at a limit, before its games do. There both players choose once among K strategies for the
rest of the game (Brown, Sandholm and Amos 2018, §4; Kovařík et al. 2023): below the leaf histories every leaf
infostate of a player gets one infoset of K actions, and every leaf history a K×K payoff. That is a sequence
form like any other. Nothing below the limit is looked at.

One player's decisions below a limit may be there twice, the second time under roots of their own: those of a
copy of the player that follows a model down to the limit and plays freely below it (`second`).
"""

from __future__ import annotations

import collections
import dataclasses
import functools

import numpy as np
from scipy.sparse import csr_array

from jaxgadget.games.game import dense_ids
from jaxgadget.tree.cover import Cover, Roots, cover_of, find_roots
from jaxgadget.tree.cut import Cut, CutSpec, cut, cut_at
from jaxgadget.tree.history import HistoryTree, check_tree, check_whole
from jaxgadget.tree.sequence import (
    Entries,
    ExtraRoots,
    Frontier,
    Layout,
    Rounding,
    SequenceForm,
    Treeplexes,
    below_extra,
    build_treeplexes,
    exact_size,
    merge_entries,
    rounded_size,
    with_terminals,
)
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Leaves:
    """Where a forest ends before its games do, H leaf histories; none if it goes on to the end.

    Attributes:
      histories: `[H]` ascending.
      states: for both players, ids of the leaf infostates, ascending. The choice at number j of them is
        infoset -2 - j in the player's treeplex.
      num_choices: K, strategies that each player chooses from.
      leaf: `[C]` which leaf; one that lies in several subgames is there for each of them.
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
    """Subgames side by side.

    Attributes:
      cover: which root histories each subgame has.
      form: sequence form; roots of `form.treeplex[p]` are player p's root infostates.
      roots: both players' root infostates.
      chance: chance's reach of every pair of root infostates (summed over root histories).
      terminals: the payoff of terminals; `form.payoff` has that of the leaves too, see `with_values`.
      leaves: where the forest ends before the game does.
      extra: where one player's decisions are there twice; their roots follow `roots` in its treeplex.
      padded: whether sizes were rounded up.
    """

    cover: Cover
    form: SequenceForm
    roots: tuple[Roots, Roots]
    chance: Entries
    terminals: Entries
    leaves: Leaves
    padded: bool
    extra: ExtraRoots | None = None

    def __repr__(self) -> str:
        where = self.cut if self.cover.is_cut else self.cover
        count, leaves = f"{len(self.roots[0])} + {len(self.roots[1])} root infostates", len(self.leaves)
        end = f", {leaves} leaves with {self.leaves.num_choices} choices" if leaves else ""
        return f"<Forest below {where!r}: {count}{end}>"

    @property
    def cut(self) -> Cut:
        """All root histories."""
        return self.cover.cut

    @property
    def tree(self) -> HistoryTree:
        """The game's histories."""
        return self.cover.tree

    @property
    def rounding(self) -> Rounding:
        """How sizes were rounded up."""
        return rounded_size if self.padded else exact_size

    @property
    def num_subgames(self) -> int:
        """S."""
        return self.cover.num_subgames

    @functools.cached_property
    def solved(self) -> tuple[BoolArray, BoolArray]:
        """For both players `[I]`, which infosets of its treeplex are solved for; padding is not."""
        first, second = (self._solved(player) for player in (0, 1))
        return first, second

    def _solved(self, player: int) -> BoolArray:
        infoset = self.form.treeplex[player].infoset
        if self.cover.solved[player].all():
            return infoset != -1
        _, number = find_roots(self.cover, player)
        by_root = np.empty(len(self.roots[player]), np.bool_)
        by_root[number] = self.cover.solved[player]
        return (infoset != -1) & by_root[self.root_of_infoset(player)]

    def root_of_infoset(self, player: int) -> IntArray:
        """`[I]` the root above each infoset of a player's treeplex; some root for padding."""
        treeplex = self.form.treeplex[player]
        root = treeplex.root_of()[treeplex.first_sequence]
        return np.where(treeplex.infoset == -1, 0, root)

    def find_root(self, player: int, infostate: IntArray, subgame: IntArray) -> IntArray:
        """`[m]` the number of a player's root at each infostate in each subgame, -1 where there is none."""
        roots = self.roots[player]
        known = roots.infostate.astype(np.int64) * self.num_subgames + roots.subgame  # ascending
        wanted = np.where(subgame >= 0, infostate.astype(np.int64) * self.num_subgames + subgame, -1)
        number = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        return np.where(known[number] == wanted, number, -1)

    def root_names(self, player: int) -> tuple[str, ...]:
        """`[R]` a name for each of a player's root infostates, in the order of `roots[player]`; all differ.

        Where the player acts at the root, the infoset's name (`tree.infoset_names`). Else its last infoset
        and what it did there (`0, then Bet`); or, if that leads to several roots, its first infoset below the
        root; or `root infostate 3` if it never acts. Where subgames share an infostate, ` | subgame 2`
        follows.
        """
        tree, roots = self.tree, self.roots[player]
        infosets, names = tree.infosets[player], tree.infoset_names[player]
        states, number = np.unique(tree.infostate[player, self.cut.roots], return_inverse=True)
        acting = np.full(len(states), -1)
        np.maximum.at(acting, number, tree.infoset[player, self.cut.roots])
        acts = acting[np.searchsorted(states, roots.infostate)]
        below = self.infosets(player)
        state_below = tree.infostate[player, self.cut.root[infosets.history[below]]]
        first_below = dict(zip(state_below[::-1].tolist(), below[::-1].tolist(), strict=True))
        leads_to = collections.Counter(
            sequence
            for _, sequence in set(zip(roots.infostate.tolist(), roots.sequence.tolist(), strict=True))
        )
        texts: list[str] = []
        for root, (state, sequence) in enumerate(
            zip(roots.infostate.tolist(), roots.sequence.tolist(), strict=True)
        ):
            if acts[root] >= 0:
                texts.append(names[acts[root]])
            elif sequence and leads_to[sequence] == 1:
                action = tree.game.action_string(player, int(infosets.action[sequence]))
                texts.append(f"{names[infosets.infoset[sequence]]}, then {action}")
            elif state in first_below:
                texts.append(names[first_below[state]])
            else:
                texts.append(f"root infostate {root}")
        shared = collections.Counter(texts)
        return tuple(
            text if shared[text] == 1 else f"{text} | subgame {subgame}"
            for text, subgame in zip(texts, roots.subgame.tolist(), strict=True)
        )

    def infosets(self, player: int) -> IntArray:
        """The tree's infosets of a player that lie in the forest, ascending."""
        infoset = self.form.treeplex[player].infoset
        return np.unique(infoset[infoset >= 0])

    def infoset_subgame(self, player: int) -> IntArray:
        """`[num_infosets]` of the tree: the subgame that each infoset lies in, -1 if it lies in none.

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
        """Whether strategies found in the subgames can be put side by side into one policy.

        Raises:
          ValueError: if an infostate of either player is in two subgames: then whoever combines their
            strategies must say how.
        """
        for player, roots in enumerate(self.roots):
            again = np.nonzero(np.diff(roots.infostate) == 0)[0]
            if len(again):
                first, second = roots.subgame[again[0] : again[0] + 2].tolist()
                member = self.tree.infostate[player, self.cut.roots] == roots.infostate[again[0]]
                moves = self.tree.moves(int(self.cut.roots[np.argmax(member)]))
                raise ValueError(
                    f"subgames {first} and {second} of {self.cover!r} overlap: both have the infostate of "
                    f"player {player} at {moves}, so their strategies do not make one policy; say how they "
                    "combine, or take subgames that share nothing (`Cover.take`)"
                )

    def with_values(self, values: FloatArray) -> Forest:
        """The same forest with values at its leaves in its payoff, instead of those that it had.

        Args:
          values: `[H, K, K]` player 0's expected payoff below each leaf, for each pair of choices.

        Raises:
          ValueError: if the shape is another one.
        """
        expected = (len(self.leaves), self.leaves.num_choices, self.leaves.num_choices)
        if values.shape != expected:
            raise ValueError(f"leaf values of shape {values.shape}: expected {expected}, [leaves, K, K]")
        form = SequenceForm(tree=self.tree, treeplex=self.form.treeplex, payoff=self._payoff(values))
        return dataclasses.replace(self, form=form)

    def _payoff(self, values: FloatArray) -> Entries:
        """Terminals and leaves; pairs of choices stay where their value is 0, so that shapes are equal."""
        if values.size == 0:
            return self.terminals
        leaf, shape = self.leaves.leaf, self.terminals.shape
        weighted = self.tree.chance[self.leaves.histories, None, None] * values
        weighted = weighted if len(leaf) == len(values) else weighted[leaf]
        rows = np.broadcast_to(self.leaves.sequence[0][:, :, None], weighted.shape).ravel()
        columns = np.broadcast_to(self.leaves.sequence[1][:, None, :], weighted.shape).ravel()
        key = np.concatenate([self.terminals.row, rows]) * shape[1]
        key += np.concatenate([self.terminals.column, columns])
        pair, count = dense_ids(key)
        keys = np.empty(count, np.int64)
        keys[pair] = key
        every_value = np.concatenate([self.terminals.value, weighted.ravel()])
        total = np.asarray(np.bincount(pair, every_value, minlength=count), np.float64)
        return Entries(row=keys // shape[1], column=keys % shape[1], value=total, shape=shape)


def build_forest(
    tree: HistoryTree,
    where: CutSpec | Cover,
    *,
    limit: IntArray | Cut | None = None,
    num_choices: int = 1,
    second: tuple[int, IntArray | Cut] | None = None,
    padded: bool = True,
) -> Forest:
    """Lays subgames side by side.

    Args:
      tree: the game's histories.
      where: the cut, see `jaxgadget.cut`, or a cover.
      limit: `[H]` leaf histories at or below the roots, ascending, none below another, or a cut at them:
        the forest ends there, without values until `with_values`. By default it goes on to the end.
      num_choices: K, strategies that each player chooses from at the limit; 0: nobody chooses.
      second: a player, and histories as for `limit`, at or above that: the player's decisions below them are
        there twice (`Forest.extra`), and with them everything that they earn.
      padded: round level sizes up, so that forests of nearly equal shape share a program.

    Raises:
      ValueError: if the tree is truncated and there is no limit, an infoset lies on both sides of the limit
        or a leaf infostate below two root infostates of its player, `second` comes with a cover that is no
        cut, or as `cut` does.
    """
    check_tree(tree)
    if limit is None:
        check_whole(tree)
    cover = where if isinstance(where, Cover) else cover_of(cut(tree, where))
    if cover.tree is not tree:
        raise ValueError("cover: this cover was made for another tree; expected one of a cut of this tree")
    rounding: Rounding = rounded_size if padded else exact_size
    layout = Layout.of(cover, _find_frontier(cover, limit, num_choices), _find_extra(cover, second))
    treeplexes = build_treeplexes(layout, rounding)
    form = with_terminals(treeplexes, layout)
    chance = merge_entries(
        layout.number[0],
        layout.number[1],
        tree.chance[cover.roots],
        (form.treeplex[0].num_roots, form.treeplex[1].num_roots),
    )
    return Forest(
        cover=cover,
        form=form,
        roots=layout.roots,
        chance=chance,
        terminals=form.payoff,
        leaves=_find_leaves(layout, treeplexes, num_choices),
        padded=padded,
        extra=layout.extra,
    )


def _find_extra(cover: Cover, second: tuple[int, IntArray | Cut] | None) -> ExtraRoots | None:
    """Where a player's decisions are there twice; None if nowhere."""
    if second is None:
        return None
    player, where = second
    if not cover.is_cut or not all(mask.all() for mask in cover.solved):
        raise ValueError(
            f"second={second!r} with {cover!r}: expected a cut, whose subgames share nothing and are solved "
            "for everywhere"
        )
    frontier = _find_frontier(cover, where, 0)
    if frontier is None:
        return None
    roots, number, leaves = frontier.roots[player], frontier.number[player], frontier.cut.roots
    subgame = np.empty(len(roots), np.int64)
    subgame[number] = cover.cut.subgame[np.searchsorted(cover.cut.roots, cover.cut.root[leaves])]
    return ExtraRoots(
        player=player, cut=frontier.cut, roots=dataclasses.replace(roots, subgame=subgame), number=number
    )


def check_forest(forest: object) -> None:
    """ValueError unless it is a forest."""
    if not isinstance(forest, Forest):
        raise ValueError(
            f"forest is a {type(forest).__name__}: expected a Forest, from build_forest(tree, cut)"
        )


def _find_frontier(cover: Cover, limit: IntArray | Cut | None, num_choices: int) -> Frontier | None:
    """Where a forest ends before its games do; None if it goes on to the end."""
    if num_choices != int(num_choices) or num_choices < 0:
        raise ValueError(f"num_choices={num_choices!r}: expected a whole number >= 0, K strategies")
    if limit is None or (not isinstance(limit, Cut) and len(limit) == 0):
        return None
    end = limit if isinstance(limit, Cut) else cut_at(cover.tree, "limit", limit, inside=cover.cut)
    outside = end.roots[cover.cut.root[end.roots] < 0]
    if len(outside):
        raise ValueError(
            f"limit: leaf history {cover.tree.moves(int(outside[0]))} lies above or beside the cut "
            f"{cover.cut.name!r} of {cover.tree.game.name}; expected leaves at or below its roots"
        )
    (first, row), (second, column) = (find_roots(cover_of(end), player) for player in (0, 1))
    frontier = Frontier(cut=end, roots=(first, second), number=(row, column), num_choices=num_choices)
    for player in (0, 1):
        _check_recall(cover.cut, frontier, player)
    return frontier


def _check_recall(where: Cut, frontier: Frontier, player: int) -> None:
    """Every leaf infostate lies below one root infostate of its player, or ValueError."""
    tree, leaves, number = where.tree, frontier.cut.roots, frontier.number[player]
    state = tree.infostate[player, where.root[leaves]]
    usual = np.empty(len(frontier.roots[player]), np.int64)
    usual[number[::-1]] = state[::-1]  # that of its first leaf
    differs = np.nonzero(state != usual[number])[0]
    if len(differs):
        raise ValueError(
            f"lookahead of {tree.game.name}: player {player} has an infostate at the limit, as after "
            f"history {tree.moves(int(leaves[differs[0]]))}, which lies below two root infostates; expected "
            "a cut at which the player knows as much as it remembers at the limit, or another depth"
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
    which, pair = layout.pairs_above(frontier.cut.roots)
    leaf = np.arange(len(frontier.cut.roots))[which]
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

    Those below extra roots follow once more.
    """
    count, again = frontier.num_choices, layout.below_extra(frontier.cut.roots[leaf])
    if count == 0:
        return np.zeros((len(leaf) + len(again), 0), np.int64)
    first = layout.cover.tree.infosets[player].num_sequences + frontier.number[player][leaf] * count
    choice = first[:, None] + np.arange(count)
    root = np.repeat(layout.number[player][pair], count)
    sequence = form.below_roots(player, layout.copy(player), root, choice.ravel()).reshape(choice.shape)
    copied = sequence[again]
    if layout.extra_of(player) is not None:
        at = np.repeat(frontier.cut.roots[leaf[again]], count)
        copied = below_extra(form, layout, player, at, choice[again].ravel()).reshape(copied.shape)
    return np.concatenate([sequence, copied])


def find_copies(forest: Forest, copies: Forest, player: int, subgame: IntArray | None = None) -> IntArray:
    """Which of a player's sequences of one forest those of another are copies of.

    Roots are copies of those of the same infostate, actions and choices at a limit of the same ones.

    Args:
      forest: without extra roots; this and the other.
      copies: of the same tree; choices at limits are as many, if both have any.
      player: whose sequences.
      subgame: `[R]` the subgame of `forest` in which to look for each root of `copies` and what is below it,
        -1: none; by default wherever it is, for a forest that has everything once, as a cut has.

    Returns:
      `[S]` for each sequence of `copies`, -1 where there is none.
    """
    own = forest.roots[player].subgame
    where = np.zeros(len(copies.roots[player]), np.int64) if subgame is None else subgame
    size = max(forest.leaves.num_choices, copies.leaves.num_choices)
    known = _sequence_keys(forest, player, np.zeros_like(own) if subgame is None else own, size)
    wanted, order = _sequence_keys(copies, player, where, size), np.argsort(known, kind="stable")
    position = np.minimum(np.searchsorted(known, wanted, sorter=order), len(known) - 1)
    return np.where((wanted >= 0) & (known[order[position]] == wanted), order[position], -1)


def _sequence_keys(forest: Forest, player: int, subgame: IntArray, size: int) -> IntArray:
    """`[S]` a number for each sequence, by its root's subgame and what it is in the tree; -1 for padding."""
    tree, treeplex, roots = forest.tree, forest.form.treeplex[player], forest.roots[player]
    action, count = forest.form.action_sequences(player), tree.infosets[player].num_sequences
    states = np.append(forest.leaves.states[player], 0).astype(np.int64)
    leaf, number = np.divmod(np.maximum(action - count, 0), max(forest.leaves.num_choices, 1))
    action = np.where(action < count, action, count + states[leaf] * size + number)
    name = np.full(treeplex.num_sequences, -1, np.int64)
    name[: len(roots)] = roots.infostate
    name[treeplex.num_roots :] = np.where(action >= 0, tree.num_histories + action, -1)
    above = np.full(treeplex.num_roots, -1, np.int64)
    above[: len(roots)] = subgame
    above, total = above[treeplex.root_of()], tree.num_histories * (1 + size) + count
    return np.where((name >= 0) & (above >= 0), above * total + name, -1)


def followed_payoff(forest: Forest, player: int) -> Entries:
    """What a player's sequences earn against an opponent who follows a model down to the extra roots.

    Terminals before the extra roots, or all if there are none; times a model's reach, `[sequences of the
    tree, models]`, they are a body constant. Choices at a limit are no part of it.

    Args:
      forest: the subgames.
      player: who earns, in whose utility.

    Returns:
      Rows are the sequences of the player's treeplex, columns the tree's sequences of the opponent.
    """
    tree, cover = forest.tree, forest.cover
    frontier = _find_frontier(cover, forest.leaves.histories, forest.leaves.num_choices)
    layout = Layout.of(cover, frontier, forest.extra)
    terminals = tree.terminals[layout.inside(tree.terminals)]
    if forest.extra is not None:
        terminals = terminals[forest.extra.cut.root[terminals] < 0]
    which, pair = layout.pairs_above(terminals)
    terminals = terminals[which]
    own = tree.sequence[player, terminals]
    return merge_entries(
        forest.form.below_roots(player, layout.copy(player), layout.number[player][pair], own),
        tree.sequence[1 - player, terminals],
        tree.chance[terminals] * tree.payoff[terminals] * (1 if player == 0 else -1),
        (forest.form.treeplex[player].num_sequences, tree.infosets[1 - player].num_sequences),
    )


def opponent_roots(forest: Forest, player: int) -> csr_array:
    """Which root infostates of the opponent's have histories at which a player acts.

    Args:
      forest: the subgames.
      player: who acts.

    Returns:
      `[Q, R]` truth values: of each action in the player's treeplex, the opponent's roots above its infoset.
    """
    tree, layout = forest.tree, Layout.of(forest.cover)
    histories = np.flatnonzero(tree.infoset[player] >= 0)
    histories = histories[layout.inside(histories)]
    which, pair = layout.pairs_above(histories)
    infoset = tree.infoset[player, histories[which]]
    first = tree.infosets[player].first_sequence[infoset]
    own, theirs = layout.number[player][pair], layout.number[1 - player][pair]
    sequence = forest.form.below_roots(player, layout.copy(player), own, first)
    treeplex = forest.form.treeplex[player]
    owner = treeplex.sequence_infoset
    shape = (treeplex.num_infosets, len(forest.roots[1 - player]))
    met = csr_array(
        (np.ones(len(sequence), np.bool_), (owner[sequence - treeplex.num_roots], theirs)), shape=shape
    )
    return met[owner]
