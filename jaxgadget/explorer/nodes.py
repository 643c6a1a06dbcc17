"""Tree → Nodes: public nodes, and the private states of both players at each of them.

In hand form the public nodes are those of the tree, and a private state is a hand. In history form a node is
what both players commonly know: a connected component, under shared infostates of either player, of the
histories after equally many moves, as the subgames of a cut. Chance moves get nodes of their own where both
players observe them; private deals do not.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from jaxgadget.core.components import connected_components
from jaxgadget.games.game import ACTOR_BIT, CHANCE, SIMULTANEOUS, TERMINAL, dense_ids
from jaxgadget.games.hands import DealsHands, HandsGame, PublicNodes
from jaxgadget.holdem.spots import Spot
from jaxgadget.report.names import short_names
from jaxgadget.tree.cut import find_components
from jaxgadget.tree.hands import hands_of
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.public import PublicTree, Tree, public_tree
from jaxgadget.tree.tree import TreeGame
from jaxgadget.util.arrays import BoolArray, IntArray

ONLY = "the only one"
"""Name of a private state that is alone at its node, where all information is public."""

MAX_LISTED = 3
"""Maximum number of moves that the label of a node lists one by one."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """A player's private states at public nodes, C in all, sorted by node; and actions with each of them.

    A slot is an action of the player at a cell; there is one for each action that is legal at the node.

    Attributes:
      of: `[n, H]` cell of each node of the tree with each hand, -1 for none.
      node: `[C]` public node of each cell.
      member: `[C]` a node of the tree in each cell.
      hand: `[C]` the hand of each cell; 0 in history form.
      infoset: `[C]` the infoset in `tree.infosets`, -1 where the player does not act.
      actions: for each public node the ids of the player's actions, ascending; empty where it does not act.
      first_slot: `[C + 1]` first slot of each cell.
    """

    of: IntArray
    node: IntArray
    member: IntArray
    hand: IntArray
    infoset: IntArray
    actions: tuple[tuple[int, ...], ...]
    first_slot: IntArray

    @functools.cached_property
    def _begin(self) -> list[int]:
        """First cell of each public node, and the number of cells."""
        return np.searchsorted(self.node, np.arange(len(self.actions) + 1)).tolist()

    def at(self, node: int) -> slice:
        """The cells of a public node."""
        return slice(self._begin[node], self._begin[node + 1])


class States(NamedTuple):
    """A player's private states by name.

    Attributes:
      names: the distinct names.
      idx: `[C]` index of each cell's name.
    """

    names: list[str]
    idx: IntArray


def _find_states(names: Sequence[str]) -> States:
    distinct = list(dict.fromkeys(names))
    number_of = {name: number for number, name in enumerate(distinct)}
    return States(distinct, np.array([number_of[name] for name in names], np.int64))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Nodes:
    """N public nodes; parents precede children.

    Attributes:
      tree: the tree.
      spot: the spot of hold'em whose tree it is; None for other games.
      parent: `[N]` the node above; -1 for the root.
      actor: `[N]` bits of acting players, as in `games.game.HistoryLevel`.
      label: `[N]` the move that leads to each node, unique among siblings; empty for the root.
      action: `[N]` the action that leads to each node if one player acts above and all of its histories
        share the action, otherwise -1.
      of: `[n]` public node of each node of the tree, -1 for private deals.
      cells: both players' private states.
      in_betting: `[N]` for a spot of hold'em its node in `spot.betting`; empty for other games.
    """

    tree: Tree
    spot: Spot | None
    parent: IntArray
    actor: npt.NDArray[np.uint8]
    label: tuple[str, ...]
    action: IntArray
    of: IntArray
    cells: tuple[Cells, Cells]
    in_betting: IntArray = dataclasses.field(default_factory=lambda: np.zeros(0, np.int64))

    def __len__(self) -> int:
        return len(self.parent)

    @functools.cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Children of every node."""
        lists: list[list[int]] = [[] for _ in range(len(self))]
        for node, parent in enumerate(self.parent.tolist()):
            if parent >= 0:
                lists[parent].append(node)
        return tuple(map(tuple, lists))

    @functools.cached_property
    def action_names(self) -> tuple[dict[int, str], dict[int, str]]:
        """Names of both players' actions by their ids."""
        first, second = (
            {
                action: action_name(self.tree.game, player, action)
                for action in sorted({action for ids in self.cells[player].actions for action in ids})
            }
            for player in (0, 1)
        )
        return first, second

    @functools.cached_property
    def depth(self) -> IntArray:
        """`[N]` number of nodes above each node."""
        depth = np.zeros(len(self), np.int64)
        for node in range(1, len(self)):
            depth[node] = depth[self.parent[node]] + 1
        return depth

    def line(self, node: int) -> str:
        """Labels on the path to a node, such as `check, bet 100`."""
        words: list[str] = []
        while self.parent[node] >= 0:
            words.append(self.label[node])
            node = int(self.parent[node])
        return ", ".join(reversed(words))

    def find(self, line: str, name: str = "below") -> int:
        """The node after a line such as `check, bet 100`; the root for an empty line.

        Raises:
          ValueError: if there is no such node; the message lists the possible moves.
        """
        node, left = 0, _spaced(line)
        while left:
            matching = [
                c for c in self.children[node] if f"{left}, ".startswith(f"{_spaced(self.label[c])}, ")
            ]
            if not matching:
                position = f"after {self.line(node)!r}" if self.parent[node] >= 0 else "at the start"
                moves = ", ".join(repr(self.label[child]) for child in self.children[node][:12])
                raise ValueError(
                    f"{name}={line!r}: {left!r} is not possible {position}: expected one of "
                    f"{moves or 'no move'}"
                )
            node = max(matching, key=lambda child: len(self.label[child]))
            left = left[len(_spaced(self.label[node])) :].removeprefix(",").strip()
        return node

    @functools.cached_property
    def states(self) -> tuple[States, States]:
        """Both players' private states by name."""
        return _find_states(self.names(0)), _find_states(self.names(1))

    def names(self, player: int) -> list[str]:
        """`[C]` short names of a player's private states, unique at a node."""
        cells = self.cells[player]
        if isinstance(self.tree, PublicTree):
            hands = self.tree.hands_game.hands[player]
            return [hands[hand] for hand in cells.hand.tolist()]
        hands = _hand_names(self.tree, player, cells.member)
        if hands is not None:
            return hands
        whole, short = self._whole_names(player), list[str]()
        for node in np.unique(cells.node).tolist():
            names = whole[cells.at(node)]
            short += _without_label(short_names(names)[0]) if len(names) > 1 else [ONLY]
        return short

    def _whole_names(self, player: int) -> list[str]:
        """`[C]` names of infostates in history form, unique at a node."""
        tree, cells = self.tree, self.cells[player]
        names = [""] * len(cells.node)
        moves = tree.num_moves[cells.member]
        for count in np.unique(moves).tolist():
            at = np.flatnonzero(moves == count)
            roots = np.flatnonzero((cells.of[:, 0] >= 0) & (tree.num_moves == count))
            root = np.full(len(tree.parent), -1, np.int64)
            root[roots] = roots
            for begin, end in itertools.pairwise(tree.level_offset[1:].tolist()):
                root[begin:end] = np.maximum(root[begin:end], root[tree.parent[begin:end]])
            infosets = np.flatnonzero(root[tree.infosets[player].history] >= 0)
            infostates = tree.infostate[player, cells.member[at]]
            for cell, name in zip(
                at.tolist(), tree.name_roots(player, infostates, roots, root, infosets), strict=True
            ):
                names[cell] = name
        return names


def _spaced(line: str) -> str:
    """A line with one space after each comma."""
    return re.sub(r",\s*", ", ", line).strip()


def _without_label(names: list[str]) -> list[str]:
    """Omits a label such as `Private: ` with which all names begin."""
    label, colon, _ = names[0].partition(": ")
    prefix = label + colon
    values = [name.removeprefix(prefix) for name in names]
    has_label = bool(colon) and "," not in label and all(name.startswith(prefix) for name in names)
    return values if has_label and all(values) and len(set(values)) == len(values) else names


def find_nodes(tree: Tree, spot: Spot | None = None) -> Nodes:
    """The public nodes of a tree.

    Args:
      tree: the game, in history or hand form.
      spot: the spot of hold'em whose tree it is, of a flop that of `flop_tree`; private states are then the
        hands in the ranges.
    """
    if isinstance(tree, HistoryTree):
        return _history_nodes(tree)
    assert isinstance(tree, PublicTree)
    return _hand_nodes(tree, spot)


def _hand_nodes(tree: PublicTree, spot: Spot | None) -> Nodes:
    count = len(tree.nodes)
    parent = np.where(np.arange(count) > 0, tree.parent, -1)
    acts = ((tree.actor & SIMULTANEOUS) > 0)[:, None]
    cells: list[Cells] = []
    for player in (0, 1):
        possible = tree.possible(player, np.arange(count)) & acts
        if spot is not None:
            possible &= spot.dealt[player] > 0
        of = np.where(possible, np.cumsum(possible).reshape(possible.shape) - 1, -1)
        node, hand = np.nonzero(possible)
        decision = tree.infoset[player, node]
        infoset = np.full(len(node), -1, np.int64)
        own = np.flatnonzero(decision >= 0)
        if len(own):
            by_hand = tree.infosets_by_hand(player, np.arange(len(tree.decisions[player])))
            infoset[own] = by_hand[decision[own], hand[own]]
        actions = _actions_by_node(tree.parent[1:], tree.action[player, 1:], count)
        cells.append(_make_cells(of, node, node, hand, infoset, actions))
    if spot is None:
        moves, kind = np.unique(tree.action, axis=1, return_inverse=True)
        by_kind = [_move_name(tree, moves[:, [each]]) for each in range(moves.shape[1])]
        names = ["", *(by_kind[each] for each in kind.ravel()[1:].tolist())]
        in_betting, actor = np.zeros(0, np.int64), tree.actor
    else:
        in_betting = before_deals(spot) if spot.is_flop else np.arange(count)
        names = [spot.betting.action_name(node) if node else "" for node in in_betting.tolist()]
        actor = spot.betting.tree.actor[in_betting]
    return Nodes(
        tree=tree,
        spot=spot,
        parent=parent,
        actor=actor,
        label=tuple(names),
        action=np.maximum(tree.action[0], tree.action[1]),
        of=np.arange(count),
        cells=(cells[0], cells[1]),
        in_betting=in_betting,
    )


def before_deals(spot: Spot) -> IntArray:
    """Nodes of a spot's betting before a card is dealt, those where it is dealt included."""
    nodes = spot.betting.tree
    dealt = np.zeros(len(nodes), np.bool_)
    for level in nodes.levels_below():
        above = nodes.parent[level]
        dealt[level] = dealt[above] | (nodes.actor[above] == CHANCE)
    return np.flatnonzero(~dealt)


def flop_tree(spot: Spot) -> PublicTree:
    """The public tree of a flop in which play ends where the turn is dealt, without payoffs."""
    nodes, kept = spot.betting.tree, before_deals(spot)
    place = np.zeros(len(nodes), np.int64)
    place[kept] = np.arange(len(kept))
    sizes = [int(np.isin(kept, np.arange(*ends)).sum()) for ends in itertools.pairwise(nodes.level_offset)]
    names, most = tuple(spot.hand_names), spot.pot / 2 + spot.effective_stack
    game = HandsGame(
        name=spot.name,
        hands=(names, names),
        nodes=PublicNodes(
            level_offset=np.append(0, np.cumsum([size for size in sizes if size])),
            parent=place[nodes.parent[kept]],
            actor=np.where(nodes.actor[kept] == CHANCE, np.uint8(TERMINAL), nodes.actor[kept]),
            action=nodes.action[kept],
        ),
        ends=(),
        payoff_bounds=(-most, most),
        constant=spot.pot,
        action_names=spot.betting.names,
        zero_sum=not spot.rake,
    )
    return public_tree(game)


def _make_cells(
    of: IntArray,
    node: IntArray,
    member: IntArray,
    hand: IntArray,
    infoset: IntArray,
    actions: tuple[tuple[int, ...], ...],
) -> Cells:
    width = np.array([len(ids) for ids in actions], np.int64)[node]
    return Cells(
        of=of,
        node=node,
        member=member,
        hand=hand,
        infoset=infoset,
        actions=actions,
        first_slot=np.append(0, np.cumsum(width)),
    )


def _actions_by_node(node: IntArray, action: IntArray, count: int) -> tuple[tuple[int, ...], ...]:
    """For each of `count` public nodes the distinct ids ≥ 0 of actions `[m]` taken at nodes `[m]`."""
    taken = (action >= 0) & (node >= 0)
    width = int(action.max(initial=0)) + 1
    at, chosen = np.divmod(np.unique(node[taken] * width + action[taken]), width)
    ends = np.searchsorted(at, np.arange(count + 1))
    return tuple(_between(chosen, ends))


class _Steps(NamedTuple):
    """For every history the players' last move above it.

    Attributes:
      before: `[n]` the nearest history above at which chance does not act, -1 for none.
      step: `[n]` the history right after that one, at or above this history; the root if there is none.
    """

    before: IntArray
    step: IntArray


def _find_steps(tree: HistoryTree) -> _Steps:
    before, step = np.full(tree.num_histories, -1, np.int64), np.zeros(tree.num_histories, np.int64)
    for begin, end in itertools.pairwise(tree.level_offset[1:].tolist()):
        above = tree.parent[begin:end].astype(np.int64)
        by_chance = tree.actor[above] == CHANCE
        before[begin:end] = np.where(by_chance, before[above], above)
        step[begin:end] = np.where(by_chance, step[above], np.arange(begin, end))
    return _Steps(before, step)


def _history_nodes(tree: HistoryTree) -> Nodes:
    """Public nodes of histories; see the module's docstring."""
    steps = _find_steps(tree)
    group, deals = _find_groups(tree, steps)
    members = np.flatnonzero(group >= 0)
    ids, first, row = np.unique(group[members], return_index=True, return_inverse=True)
    sample = members[first]  # the first history of each group
    deal = deals[steps.step[sample]]
    # Outcomes of chance have a node above them, if there are several.
    by_history = np.argsort(sample)
    dealt = by_history[deal[by_history] >= 0]
    deal_ids, deal_of, num_outcomes = np.unique(deal[dealt], return_inverse=True, return_counts=True)
    several = num_outcomes > 1
    deal_row = np.where(several, np.cumsum(several) - 1, -1)
    is_below = several[deal_of]
    below, above = dealt[is_below], deal_row[deal_of[is_below]]
    _, lowest = np.unique(above, return_index=True)
    before = steps.before[sample]
    parent = np.where(before >= 0, np.searchsorted(ids, group[before]), -1)
    parent = np.append(parent, parent[below[lowest]])
    parent[below] = len(ids) + above
    history = np.append(sample, steps.step[sample[below[lowest]]])
    is_dealt = np.append(deal >= 0, np.zeros(len(lowest), np.bool_))
    outcome = np.where(is_dealt, tree.action[2, history], 0)
    order = np.lexsort((history, outcome, is_dealt, tree.num_moves[history]))
    number = np.empty(len(order) + 1, np.int64)
    number[order], number[-1] = np.arange(len(order)), -1
    of = np.full(tree.num_histories, -1, np.int64)
    of[members] = number[row]
    has_node = np.flatnonzero(np.isin(deals, deal_ids[several]))
    of[has_node] = number[len(ids) + deal_row[np.searchsorted(deal_ids, deals[has_node])]]
    return _label_histories(tree, steps, of, number[parent][order])


def _find_groups(tree: HistoryTree, steps: _Steps) -> tuple[IntArray, IntArray]:
    """Components of histories that both players cannot distinguish, in the sense of common knowledge.

    Returns:
      `[n]` component of each history at which chance does not act, and `[n]` component of each first of
      successive chance moves; -1 for other histories.
    """
    group = np.full(tree.num_histories, -1, np.int64)
    deals = np.full(tree.num_histories, -1, np.int64)
    shown, total = tree.actor != CHANCE, 0
    begins = ~shown & (steps.step == np.arange(tree.num_histories))
    for count in range(int(tree.num_moves.max()), -1, -1):
        after = tree.num_moves == count
        for component, chosen in ((group, shown), (deals, begins)):
            members = np.flatnonzero(chosen & after)
            if len(members):
                component[members] = total + find_components(tree, members)
                total = int(component[members].max()) + 1
        # A component has one component above it: infostates may span histories of different length.
        below = np.flatnonzero(shown & (tree.num_moves == count + 1))
        _merge_parents(group, group[below], steps.before[below])
    return group, deals


def _merge_parents(group: IntArray, children: IntArray, before: IntArray) -> None:
    """Merges components, in place, whose histories have children in one component."""
    if not len(children):
        return
    inside = before >= 0
    children, before = children[inside], before[inside]
    ids, parents = np.unique(group[before], return_inverse=True)
    child, num_children = dense_ids(children)
    first = np.empty(num_children, np.int64)
    first[child[::-1]] = parents[::-1]
    label = connected_components(first[child], parents, len(ids))
    changed = np.flatnonzero(np.isin(group, ids))
    group[changed] = ids[label[np.searchsorted(ids, group[changed])]]


def _label_histories(tree: HistoryTree, steps: _Steps, of: IntArray, parent: IntArray) -> Nodes:
    """Nodes with their labels and private states, given the node of each history, and each node's parent."""
    actor, inside = np.zeros(len(parent), np.uint8), np.flatnonzero(of >= 0)
    np.bitwise_or.at(actor, of[inside], tree.actor[inside])
    is_dealt = actor[parent[of[inside]]] == CHANCE
    moves = tree.action[:, np.where(is_dealt, inside, steps.step[inside])].astype(np.int64)
    moves[:2, is_dealt] = -1
    label, action = _name_moves(tree, moves, of[inside], parent)
    alone = np.isin(actor[parent], list(ACTOR_BIT)) & (parent >= 0)
    acts = (of >= 0) & ((actor[of] & SIMULTANEOUS) > 0) & (tree.actor != CHANCE) & (tree.actor != TERMINAL)
    return Nodes(
        tree=tree,
        spot=None,
        parent=parent,
        actor=actor,
        label=tuple(_distinct(label, parent.tolist())),
        action=np.where(alone, action, -1),
        of=of,
        cells=(
            _history_cells(tree, of, acts, 0, len(parent)),
            _history_cells(tree, of, acts, 1, len(parent)),
        ),
    )


def _name_moves(
    tree: HistoryTree, moves: IntArray, node: IntArray, parent: IntArray
) -> tuple[list[str], IntArray]:
    """Names of the moves `[3, m]` that lead to nodes `[m]`, and the action that they share, or -1."""
    label, action = list[str](), np.full(len(parent), -1, np.int64)
    named: dict[tuple[int, ...], tuple[str, int]] = {}  # many nodes have the same moves
    kinds, kinds_of = _kinds_by_node(moves, node, len(parent))
    for each, chosen in enumerate(kinds_of):
        if parent[each] < 0:
            label.append("")
            continue
        if chosen not in named:
            own = np.unique(kinds[:2, chosen].max(axis=0))
            named[chosen] = _move_name(tree, kinds[:, chosen]), int(own[0]) if len(own) == 1 else -1
        name, action[each] = named[chosen]
        label.append(name)
    return label, action


def _history_cells(tree: HistoryTree, of: IntArray, acts: BoolArray, player: int, count: int) -> Cells:
    """A player's infostates at `count` nodes, at the histories where play goes on."""
    histories = np.flatnonzero(acts)
    states, num_states = dense_ids(tree.infostate[player, histories])
    key = of[histories] * max(num_states, 1) + states
    _, first, cell = np.unique(key, return_index=True, return_inverse=True)
    member = histories[first]
    cell_of = np.full((tree.num_histories, 1), -1, np.int64)
    cell_of[histories, 0] = cell
    infoset = np.full(len(member), -1, np.int64)
    np.maximum.at(infoset, cell, tree.infoset[player, histories])
    above = tree.parent[1:]
    node, action = np.where(acts[above], of[above], -1), tree.action[player, 1:].astype(np.int64)
    actions = _actions_by_node(node, action, count)
    return _make_cells(cell_of, of[member], member, np.zeros_like(member), infoset, actions)


def _kinds_by_node(moves: IntArray, node: IntArray, count: int) -> tuple[IntArray, list[tuple[int, ...]]]:
    """The distinct of moves `[3, m]`, `[3, K]`, and for each of `count` nodes those at it, ascending."""
    base = int(moves.max(initial=-1)) + 2
    codes, kind = np.unique((moves + 1).T @ np.array([base * base, base, 1]), return_inverse=True)
    kinds = np.stack([codes // base**2, codes // base % base, codes % base]) - 1
    at, chosen = np.divmod(np.unique(node * len(codes) + kind), len(codes))
    return kinds, _between(chosen, np.searchsorted(at, np.arange(count + 1)))


def _between(values: IntArray, ends: IntArray) -> list[tuple[int, ...]]:
    """The values between successive ends."""
    listed = values.tolist()
    return [tuple(listed[begin:end]) for begin, end in itertools.pairwise(ends.tolist())]


def _move_name(tree: Tree, moves: IntArray) -> str:
    """Name of moves `[3, m]` that lead to a node; the moves are not distinguished publicly."""
    parts: list[str] = []
    for player in (0, 1):
        ids = np.unique(moves[player][moves[player] >= 0]).tolist()
        if ids:
            parts.append(_listed([action_name(tree.game, player, action) for action in ids]))
    dealt = np.unique(moves[2][moves[2] >= 0]).tolist()
    if dealt and not parts:
        parts.append(f"deal {_listed([str(outcome) for outcome in dealt])}")
    return " · ".join(parts)


def action_name(game: TreeGame, player: int, action: int) -> str:
    """Name of an action in one line, without the player's."""
    return " ".join(game.action_string(player, action).split()).removeprefix(f"[P{player}]")


def _listed(names: Sequence[str]) -> str:
    """Names such as `Bid: 1/2/3`."""
    label, colon, _ = names[0].partition(": ")
    shared = label + colon if colon and all(name.startswith(label + colon) for name in names) else ""
    values = [name.removeprefix(shared) for name in names]
    if len(values) > MAX_LISTED:
        values = [f"{values[0]}…{values[-1]} ({len(values)})"]
    return shared + "/".join(values)


def _distinct(labels: Sequence[str], parents: Iterable[int]) -> list[str]:
    """Labels with a number behind those that siblings share."""
    keys = list(zip(parents, labels, strict=True))
    if len(set(keys)) == len(keys):
        return list(labels)
    shared, seen = collections.Counter(keys), collections.Counter[tuple[int, str]]()
    distinct: list[str] = []
    for key in keys:
        seen[key] += 1
        distinct.append(key[1] if shared[key] == 1 else f"{key[1]} [{seen[key]}]")
    return distinct


def _hand_names(tree: Tree, player: int, members: IntArray) -> list[str] | None:
    """Names of a player's hands at histories `[C]`; None unless the game names them."""
    if not isinstance(tree, HistoryTree) or not isinstance(tree.game, DealsHands) or tree.is_truncated:
        return None
    try:
        named, listed = tree.game.by_hands().hands[player], hands_of(tree)
    except ValueError:
        return None
    if len(named) != listed.game.num_hands[player]:
        return None
    return [named[hand] for hand in listed.hand[player, members].tolist()]
