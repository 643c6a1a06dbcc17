"""Game → HistoryTree: all histories of a game, level by level, in flat arrays.

Built once, in NumPy. The contract of `Game` is checked here.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import numpy.typing as npt

from jaxgadget.core.host import Entries, HostTreeplex, Rounding, doubled_size, merge_entries, rounded_size
from jaxgadget.games.cuts import cut_rule
from jaxgadget.games.game import (
    ACTOR_BIT,
    DEFAULT_MAX_HISTORIES,
    HISTORY_BYTES,
    SIMULTANEOUS,
    TERMINAL,
    Budget,
    CutRule,
    Game,
    HistoryLevel,
    Move,
    distinct_names,
    moves_to,
    moves_to_each,
    next_level,
)
from jaxgadget.games.public_state import PublicStateGame
from jaxgadget.tree import contract
from jaxgadget.tree.infosets import Infosets, find_infosets
from jaxgadget.tree.tree import check_ends, find_named, lazy
from jaxgadget.util.arguments import check_player
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.players import sign_of
from jaxgadget.util.progress import progress_bar


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HistoryTree:
    """Every history of a game in breadth-first order; axis `n` is the history.

    A truncated tree ends at a depth limit. Its leaves have actors and infostates but no children: they are
    not decisions, so they are in no infoset and policies have no rows for them.

    Attributes:
      game: the game.
      level_offset: `[num_levels + 1]` first history of each level.
      parent: `[n]` the parent history; the root is its own.
      actor: `[n]` bits as in `games.game.HistoryLevel`.
      action: `[3, n]` actions of player 0, player 1 and chance at the parent, -1 for none.
      num_moves: `[n]` number of players' previous moves; simultaneous moves count once, chance moves do not.
      chance: `[n]` chance's contribution to the history's reach.
      payoff: `[n]` player 0's return at terminals minus `constant / 2`, 0 elsewhere.
      constant: the sum of both players' returns, 0 in a zero-sum game and in a truncated tree without
        terminals.
      infostate: `[2, n]` id of each player's previous observations and actions.
      infoset: `[2, n]` the infoset if the player acts, otherwise -1.
      sequence: `[2, n]` the player's last sequence.
      public: `[n]` public state, None if the game does not define it.
      infosets: both players' infosets.
      leaves: `[num_leaves]` the histories at the limit, ascending; none in a whole tree.
      cache: values computed from this tree, by name.
    """

    game: Game
    level_offset: IntArray
    parent: IntArray
    actor: npt.NDArray[np.uint8]
    action: IntArray
    num_moves: IntArray
    chance: FloatArray
    payoff: FloatArray
    constant: float
    infostate: IntArray
    infoset: IntArray
    sequence: IntArray
    public: IntArray | None
    infosets: tuple[Infosets, Infosets]
    leaves: IntArray
    cache: dict[object, Any] = dataclasses.field(default_factory=dict[object, Any], repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Pickles the tree without the cache, whose values cannot all be pickled."""
        return {**self.__dict__, "cache": {}}

    def __repr__(self) -> str:
        sizes = f"{self.num_histories} histories, {len(self.infosets[0])} + {len(self.infosets[1])} infosets"
        end = f", truncated at {self.num_leaves} leaves" if self.is_truncated else ""
        return f"<HistoryTree of {self.game.name}: {sizes}{end}>"

    @property
    def num_histories(self) -> int:
        """Number of histories, including the root and terminal ones."""
        return len(self.parent)

    @lazy
    def terminals(self) -> IntArray:
        """`[num_terminals]` the terminal histories, ascending."""
        return np.nonzero(self.actor == TERMINAL)[0]

    @property
    def num_terminals(self) -> int:
        """Number of terminal histories."""
        return len(self.terminals)

    @property
    def num_leaves(self) -> int:
        """Number of leaves of a truncated tree."""
        return len(self.leaves)

    @property
    def is_truncated(self) -> bool:
        """True if some non-terminal history has no children in the tree."""
        return self.num_leaves > 0

    @property
    def payoff_range(self) -> float:
        """Range of the payoffs of the tree's terminals, at least a tiny positive number."""
        low, high = self.payoff_bounds
        return max(high - low, np.finfo(np.float64).tiny)

    @lazy
    def payoff_bounds(self) -> tuple[float, float]:
        """Player 0's minimum and maximum payoff over the tree's terminals; 0 and 0 if there are none."""
        values = self.payoff[self.terminals]
        return (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)

    def moves(self, history: int) -> tuple[Move, ...]:
        """The moves that lead to `history`: actions, chance outcomes, or pairs of actions."""
        return moves_to(self.parent, self.action, history)

    @lazy
    def infostate_strings(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The game's own infostate strings, in the order of `infosets`; several infosets may share one."""
        first, second = (
            tuple(
                self.game.infostate_string(player, moves)
                for moves in moves_to_each(self.parent, self.action, infosets.history)
            )
            for player, infosets in enumerate(self.infosets)
        )
        return first, second

    @lazy
    def infoset_names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of both players' infosets, in the order of `infosets`; unique within a player.

        A name is the game's infostate string. If several infosets of a player share it (as in OpenSpiel's
        Leduc with `action_mapping` and Goofspiel without `imp_info`), the suffix ` | own actions 0 2 1` lists
        the player's earlier action ids; if it is still not unique, ` | history …` follows, with the infoset's
        first history.
        """
        first, second = (
            distinct_names(
                self.infostate_strings[player],
                infosets.own_actions,
                lambda infoset, infosets=infosets: self.moves(int(infosets.history[infoset])),
            )
            for player, infosets in enumerate(self.infosets)
        )
        return first, second

    @property
    def sizes(self) -> dict[str, Any]:
        """Size of the game, by the names that `jaxgadget solve --json` uses."""
        return {
            "num_histories": self.num_histories,
            "num_terminals": self.num_terminals,
            "num_infosets": [len(infosets) for infosets in self.infosets],
        }

    @property
    def layout(self) -> str:
        """Name of the layout: `histories`."""
        return "histories"

    @property
    def rounding(self) -> Rounding:
        """Rounding of level sizes of forests: coarse from a public state, of which there are many."""
        return doubled_size if isinstance(self.game, PublicStateGame) else rounded_size

    @property
    def decisions(self) -> tuple[Infosets, Infosets]:
        """Both players' infosets."""
        return self.infosets

    @property
    def num_hands(self) -> tuple[int, int]:
        """Numbers of hands of both players: 1 and 1."""
        return 1, 1

    def possible(self, player: int, infostates: IntArray) -> BoolArray:
        """`[m, 1]` True, as every infostate is possible."""
        return np.ones((len(infostates), 1), np.bool_)

    def infosets_by_hand(self, player: int, infosets: IntArray) -> IntArray:
        """`[m, 1]` the given infosets, unchanged."""
        return infosets[:, None]

    def sequences_by_hand(self, player: int, sequences: IntArray) -> IntArray:
        """`[m, 1]` the given sequences, unchanged."""
        return sequences[:, None]

    def treeplex_by_hand(self, player: int, treeplex: HostTreeplex) -> HostTreeplex:
        """The given treeplex, unchanged."""
        return treeplex

    def chance_entries(
        self, nodes: IntArray, rows: tuple[IntArray, IntArray], num_rows: tuple[int, int]
    ) -> Entries:
        """Chance's reach of histories as a matrix over rows of both players, see `Tree`."""
        return merge_entries(rows[0].ravel(), rows[1].ravel(), self.chance[nodes], num_rows)

    def payoff_entries(
        self, nodes: IntArray, rows: tuple[IntArray, IntArray], num_rows: tuple[int, int], player: int = 0
    ) -> Entries:
        """Chance's reach × payoff of terminal histories as a matrix over rows of both players, see `Tree`."""
        earned = self.chance[nodes] * self.payoff[nodes] * sign_of(player)
        return merge_entries(rows[0].ravel(), rows[1].ravel(), earned, num_rows)

    def name_rows(self, player: int) -> tuple[dict[str, npt.NDArray[Any]], IntArray]:
        """Infosets sorted by name, with their actions, and `[Q]` their rows in policies."""
        names, infosets = self.infoset_names[player], self.infosets[player]
        order = np.asarray(sorted(range(len(names)), key=names.__getitem__), np.int64)
        counts = infosets.num_actions[order]
        starts = np.repeat(infosets.first_sequence[order] - 1 - (np.cumsum(counts) - counts), counts)
        rows = starts + np.arange(int(counts.sum()))
        named = {
            "infostates": np.asarray(names)[order],
            "num_actions": counts,
            "actions": infosets.action[1:][rows],
        }
        return named, rows

    def row_columns(self, player: int) -> dict[str, npt.NDArray[Any]]:
        """Columns that identify the rows of a player's policy: the infostate of every action, `[Q]`."""
        names = np.asarray(self.infoset_names[player], object)
        return {"infostate": names[self.infosets[player].infoset[1:]]}

    def find_infoset(self, name: str, player: int | None = None) -> tuple[int, int]:
        """`(player, infoset)` of one of `infoset_names`.

        Args:
          name: the infoset's name.
          player: its player; required only if both players have an infoset of that name.

        Raises:
          ValueError: if there is no such infoset, or both players have one and `player` is not given.
        """
        return find_named(self.infoset_names, self.game.name, name, player)

    def name_roots(
        self, player: int, infostates: IntArray, roots: IntArray, root: IntArray, infosets: IntArray
    ) -> tuple[str, ...]:
        """`[R]` names of a player's infostates at the roots of subgames, see `Tree`.

        The infoset's name if the player acts at the root. Otherwise its last infoset and action (`0, then
        Bet`); if these lead to several roots, its first infoset below the root; or `root infostate 3` if it
        never acts.
        """
        names, table = self.infoset_names[player], self.infosets[player]
        states, first, row = np.unique(self.infostate[player, roots], return_index=True, return_inverse=True)
        acting = np.full(len(states), -1)
        np.maximum.at(acting, row, self.infoset[player, roots])
        sequences = self.sequence[player, roots[first]]
        state_idx = np.searchsorted(states, infostates)
        leads_to = collections.Counter(sequences[np.unique(state_idx)].tolist())
        state_below = self.infostate[player, root[table.history[infosets]]]
        first_below = dict(zip(state_below[::-1].tolist(), infosets[::-1].tolist(), strict=True))
        texts: list[str] = []
        for root_idx, state in enumerate(state_idx.tolist()):
            sequence = int(sequences[state])
            if acting[state] >= 0:
                texts.append(names[acting[state]])
            elif sequence and leads_to[sequence] == 1:
                action = self.game.action_string(player, int(table.action[sequence]))
                texts.append(f"{names[table.infoset[sequence]]}, then {action}")
            elif int(states[state]) in first_below:
                texts.append(names[first_below[int(states[state])]])
            else:
                texts.append(f"root infostate {root_idx}")
        return tuple(texts)


def check_histories(tree: object, purpose: str = "this") -> HistoryTree:
    """Returns the tree if it is in history form, which `purpose` needs; raises ValueError otherwise."""
    if not isinstance(tree, HistoryTree):
        shown = repr(tree) if isinstance(tree, str) else f"a {type(tree).__name__}"
        raise ValueError(
            f"tree={shown}: expected a HistoryTree, from enumerate_game(load(…)), or --form histories on the "
            f"command line; {purpose} needs the histories of the game"
        )
    return tree


def check_whole(tree: object) -> HistoryTree:
    """Returns the tree if it has all histories of the whole game; raises ValueError otherwise."""
    histories = check_histories(tree)
    check_ends(histories)
    return histories


def enumerate_game(
    game: Game,
    *,
    max_histories: int = DEFAULT_MAX_HISTORIES,
    depth: int | None = None,
    leaves_of: int | None = None,
    limit: str | None = None,
    memory_limit: int | None = None,
    progress: bool | None = None,
) -> HistoryTree:
    """Enumerates all histories of a game, or those down to a limit.

    With `depth` the leaves are the roots of the cut `depth:D`, with `limit` those of another cut. Histories
    below them are not enumerated, except by games whose generator `levels` ignores the masks sent to it, such
    as an `Abstraction`.

    Args:
      game: the game, from `jaxgadget.load` or user-defined.
      max_histories: maximum number of histories.
      depth: number of players' moves above the leaves, which are the next decisions, past any chance; a
        simultaneous move counts once. None for the whole game.
      leaves_of: leaves are the next decisions of this player; by default of either player.
      limit: a cut by name, as for `jaxgadget.cut`, whose roots are the leaves; in place of `depth`.
      memory_limit: maximum number of bytes of the histories; by default the host's available memory.
      progress: the number of histories after two seconds, or a line a minute in a log; by default only on a
        terminal or in a notebook.

    Raises:
      TooLargeError: if the game has more histories than `max_histories`, or than fit in memory.
      ValueError: if an infoset lies on both sides of the limit, or the game violates the contract: chance
        probabilities that do not sum to 1, returns that are not constant-sum or not finite, imperfect recall,
        unequal legal actions in an infoset, or a public state that is finer than common knowledge.
    """
    if isinstance(game, type) or not hasattr(game, "levels"):
        raise ValueError(f"game={game!r}: expected a game, from load(…)")
    each = getattr(game, "history_bytes", HISTORY_BYTES)
    with progress_bar(f"enumerating {game.name}", None, progress) as report:
        budget = Budget(game.name, max_histories, history_bytes=each, memory=memory_limit, report=report)
        levels, leaves = _generate(game, budget, _find_limit(game, depth, leaves_of, limit))
    sizes = [len(level.parent) for level in levels]
    offset = np.append(0, np.cumsum(sizes))
    parent = _join(levels, "parent") + np.repeat(np.append(0, offset[:-2]), sizes)
    actor, action, infostate = (_join(levels, name) for name in ("actor", "action", "infostate"))
    public = None if levels[0].public is None else _join(levels, "public")
    describe = functools.partial(moves_to, parent, action)
    contract.check_moves(game.name, offset, parent, actor, action, describe)
    own_chance = _join(levels, "chance")
    decides = _without(actor, leaves)
    contract.check_chance(game.name, parent, decides, action, own_chance, describe)
    constant, payoff = contract.zero_sum(game.name, actor, _join(levels, "returns"), describe)
    num_moves, chance = _accumulate(offset, parent, action, own_chance)
    infosets, infoset, sequence = _find_infosets(offset, parent, decides, action, infostate)
    for player in (0, 1):
        contract.check_infostates(game.name, player, infostate[player], sequence[player], public, describe)
        contract.check_leaves(game.name, player, actor, infostate[player], infoset[player], leaves, describe)
    num_actions = (infosets[0].num_actions, infosets[1].num_actions)
    contract.check_children(game.name, decides, parent, infoset, num_actions, describe)
    return HistoryTree(
        game=game,
        level_offset=offset,
        parent=parent,
        actor=actor,
        action=action,
        num_moves=num_moves,
        chance=chance,
        payoff=payoff,
        constant=constant,
        infostate=infostate,
        infoset=infoset,
        sequence=sequence,
        public=public,
        infosets=infosets,
        leaves=leaves,
    )


class _Cutoff(Protocol):
    """Finds the leaves of a truncated tree, level by level."""

    def __call__(self, level: HistoryLevel, num_moves: IntArray) -> BoolArray:
        """`[n]` mask of the leaves of the next level, given the number of the players' moves to each."""
        ...


def _generate(game: Game, budget: Budget, limit: _Cutoff | None) -> tuple[list[HistoryLevel], IntArray]:
    """The levels of a game down to a limit, and its leaves."""
    if limit is None:
        return list(game.levels(budget)), np.zeros(0, np.int64)
    levels: list[HistoryLevel] = []
    leaf: list[BoolArray] = []
    # Masks over the rows of the game's own previous level, at first of the root's parent.
    expand, new_row, moves = np.ones(1, np.bool_), np.zeros(1, np.int64), np.zeros(1, np.int64)
    generated = iter(game.levels(budget))
    level = next(generated, None)
    while level is not None and (inside := expand[level.parent]).any():
        taken = level.take(inside, new_row)
        moves = moves[taken.parent] + ((taken.action[0] >= 0) | (taken.action[1] >= 0))
        at_limit = limit(taken, moves)
        levels.append(taken)
        leaf.append(at_limit)
        expand, new_row = inside, np.cumsum(inside) - 1
        expand[inside] = ~at_limit & (taken.actor != TERMINAL)
        level = next_level(generated, expand) if expand.any() else None
    return levels, np.nonzero(np.concatenate(leaf))[0]


def _find_limit(game: Game, depth: int | None, leaves_of: int | None, limit: str | None) -> _Cutoff | None:
    """The limit of a tree; None for the whole game."""
    if limit is not None:
        if depth is not None:
            raise ValueError(f"limit={limit!r} cannot be combined with depth={depth!r}; expected one of them")
        return _AtCut(cut_rule(game, limit))
    if depth is None:
        return None
    _check_depth(depth)
    acting = SIMULTANEOUS if leaves_of is None else ACTOR_BIT[check_player(leaves_of)]
    return lambda level, num_moves: ((level.actor & acting) > 0) & (num_moves >= depth)


class _Histories(NamedTuple):
    """Histories down to a level, as a `CutView`."""

    parent: IntArray
    actor: IntArray
    action: IntArray
    num_moves: IntArray


class _AtCut:
    """A limit at the roots of a cut, whose rule sees all histories down to the level."""

    def __init__(self, rule: CutRule):
        """Begins above the root."""
        self._rule = rule
        self._seen: _Histories | None = None
        self._first = 0  # first history of the last level

    def __call__(self, level: HistoryLevel, num_moves: IntArray) -> BoolArray:
        """The roots of the cut in the next level."""
        seen = _Histories(level.parent + self._first, level.actor, level.action, num_moves)
        if self._seen is not None:
            pairs = zip(self._seen, seen, strict=True)
            seen = _Histories(*(np.concatenate(pair, axis=-1) for pair in pairs))
        self._seen, self._first = seen, len(seen.parent) - len(num_moves)
        return np.asarray(self._rule(seen))[self._first :]


def _check_depth(depth: object) -> None:
    try:
        is_depth = not isinstance(depth, bool) and operator.index(cast(Any, depth)) >= 0
    except TypeError:
        is_depth = False
    if not is_depth:
        raise ValueError(
            f"depth={depth!r}: expected an integer >= 0, the number of players' moves above the leaves, or "
            "None for the whole game"
        )


def _find_infosets(
    offset: IntArray,
    parent: IntArray,
    decides: npt.NDArray[np.uint8],
    action: IntArray,
    infostate: IntArray,
) -> tuple[tuple[Infosets, Infosets], IntArray, IntArray]:
    """Both players' infosets, and `[2, n]` the infoset and the last sequence of each."""
    first, second = (find_infosets(p, offset, parent, decides, action[p], infostate[p]) for p in (0, 1))
    return (first[0], second[0]), np.stack([first[1], second[1]]), np.stack([first[2], second[2]])


def _without(actor: npt.NDArray[np.uint8], leaves: IntArray) -> npt.NDArray[np.uint8]:
    """`[n]` acting players, with leaves counted as terminal."""
    if len(leaves) == 0:
        return actor
    decides = actor.copy()
    decides[leaves] = TERMINAL
    return decides


def _join(levels: Sequence[HistoryLevel], field: str) -> npt.NDArray[Any]:
    return np.concatenate([getattr(level, field) for level in levels], axis=-1)


def _accumulate(
    offset: IntArray, parent: IntArray, action: IntArray, chance: FloatArray
) -> tuple[IntArray, FloatArray]:
    """`[n]` number of players' moves and `[n]` product of chance probabilities of every history."""
    moves, reach = ((action[0] >= 0) | (action[1] >= 0)).astype(np.int32), chance.copy()
    for begin, end in itertools.pairwise(offset[1:].tolist()):
        reach[begin:end] *= reach[parent[begin:end]]
        moves[begin:end] += moves[parent[begin:end]]
    return moves, reach
