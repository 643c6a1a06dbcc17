"""Game → HistoryTree: every history of a game, level by level, in flat arrays.

Built once, in NumPy. The contract that every game keeps is checked here.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxgadget.games.game import (
    ACTOR_BIT,
    DEFAULT_MAX_HISTORIES,
    TERMINAL,
    Budget,
    FloatArray,
    Game,
    IntArray,
    Level,
    Move,
    dense_ids,
)
from jaxgadget.tree import contract


@dataclasses.dataclass(frozen=True, kw_only=True)
class Infosets:
    """One player's infosets (where it acts), sorted by (depth, number of legal actions).

    A sequence is an (infoset, action) pair; sequence 0 is the empty one. The sequences of
    infoset `j` are `first_sequence[j] + k` for its k-th legal action, and those of
    infosets 0, 1, … follow one another.

    Attributes:
      depth: `[I]` number of the player's own earlier decisions.
      num_actions: `[I]` number of legal actions.
      first_sequence: `[I]` its first sequence.
      parent: `[I]` the sequence that leads to it.
      history: `[I]` one of its histories.
      action: `[num_sequences]` action id of each sequence, ascending in an infoset; -1 for the empty one.
      infoset: `[num_sequences]` the infoset of each sequence; -1 for the empty one.
    """

    depth: IntArray
    num_actions: IntArray
    first_sequence: IntArray
    parent: IntArray
    history: IntArray
    action: IntArray
    infoset: IntArray

    def __len__(self) -> int:
        return len(self.depth)

    @property
    def num_sequences(self) -> int:
        return len(self.action)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class HistoryTree:
    """Every history of a game in breadth-first order; axis `n` is the history.

    Attributes:
      game: the rules it came from.
      level_offset: `[num_levels + 1]` first history of each level.
      parent: `[n]` the parent history; the root is its own.
      actor: `[n]` bits as in `games.game.Level`.
      action: `[3, n]` what player 0, player 1 and chance did at the parent, -1 for nothing.
      num_moves: `[n]` moves of the players so far; a simultaneous move is one, chance none.
      chance: `[n]` chance's part of the history's reach.
      payoff: `[n]` player 0's return at terminals less `constant / 2`, 0 elsewhere.
      constant: the sum of both players' returns, 0 in a zero-sum game.
      infostate: `[2, n]` id of what each player has observed and done.
      infoset: `[2, n]` the infoset where the player acts, else -1.
      sequence: `[2, n]` the player's last sequence.
      public: `[n]` public state, if the game names it.
      infosets: both players' infosets.
      cache: what was computed once from this tree, by name.
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
    cache: dict[object, Any] = dataclasses.field(default_factory=dict[object, Any], repr=False)

    @property
    def num_histories(self) -> int:
        return len(self.parent)

    @functools.cached_property
    def terminals(self) -> IntArray:
        return np.nonzero(self.actor == TERMINAL)[0]

    @property
    def num_terminals(self) -> int:
        return len(self.terminals)

    @property
    def payoff_range(self) -> float:
        """Largest minus smallest payoff, at least a tiny positive number."""
        values = self.payoff[self.terminals]
        return max(float(values.max() - values.min()), np.finfo(np.float64).tiny)

    def moves(self, history: int) -> tuple[Move, ...]:
        """What was done on the way to `history`: actions, chance outcomes, or pairs of actions."""
        return _moves(self.parent, self.action, history)

    @functools.cached_property
    def infoset_names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Both players' infostate strings, in the order of `infosets`."""
        return self._names(0), self._names(1)

    def _names(self, player: int) -> tuple[str, ...]:
        histories = self.infosets[player].history.tolist()
        return tuple(self.game.infostate_string(player, self.moves(h)) for h in histories)

    def find_infoset(self, name: str) -> tuple[int, int]:
        """`(player, infoset)` of an infostate string; ValueError if the game has none or both."""
        found = [(p, names.index(name)) for p, names in enumerate(self.infoset_names) if name in names]
        if len(found) != 1:
            some = ", ".join(repr(n) for n in (self.infoset_names[0] + self.infoset_names[1])[:3])
            which = "no infoset" if not found else "an infoset of both players"
            raise ValueError(
                f"infostate {name!r} is {which} of {self.game.name}; expected one string of "
                f"tree.infoset_names, such as {some}"
            )
        return found[0]


def enumerate_game(game: Game, *, max_histories: int = DEFAULT_MAX_HISTORIES) -> HistoryTree:
    """Lists every history of a game.

    Args:
      game: the rules, from `jaxgadget.load` or your own.
      max_histories: stop with an error beyond that many.

    Raises:
      ValueError: if the game is larger than `max_histories`, or breaks the contract: chance
        probabilities that do not sum to 1, returns that are not constant-sum or not finite,
        imperfect recall, unequal legal actions in an infoset, a public state that is finer
        than common knowledge.
    """
    levels = list(game.levels(Budget(game.name, max_histories)))
    sizes = [len(level.parent) for level in levels]
    offset = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    above = np.concatenate([[0], offset[:-2]]) if len(sizes) > 1 else np.zeros(1, np.int64)
    parent = _join(levels, "parent") + np.repeat(above, sizes)
    actor, action, infostate = (_join(levels, name) for name in ("actor", "action", "infostate"))

    def describe(history: int) -> tuple[Move, ...]:
        return _moves(parent, action, history)

    chance = _join(levels, "chance")
    contract.check_chance(game.name, parent, actor, chance, describe)
    constant, payoff = contract.zero_sum(game.name, actor, _join(levels, "returns"), describe)
    num_moves = ((action[0] >= 0) | (action[1] >= 0)).astype(np.int32)
    for begin, end in _below_root(offset):
        chance[begin:end] *= chance[parent[begin:end]]
        num_moves[begin:end] += num_moves[parent[begin:end]]
    found = [
        _find_infosets(game, player, offset, parent, actor, action, infostate[player], describe)
        for player in (0, 1)
    ]
    infosets = (found[0][0], found[1][0])
    infoset = np.stack([found[0][1], found[1][1]])
    num_actions = (infosets[0].num_actions, infosets[1].num_actions)
    contract.check_children(game.name, actor, parent, infoset, num_actions, describe)
    public = None
    if levels[0].public is not None:
        public = _join(levels, "public")
        for player in (0, 1):
            group, _ = dense_ids(infostate[player])
            rule = "a public state is finer than common knowledge, one infostate lies in two of them"
            every = np.arange(len(parent))
            contract.check_same(game.name, rule, player, group, public, every, describe)
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
        sequence=np.stack([found[0][2], found[1][2]]),
        public=public,
        infosets=infosets,
    )


def _moves(parent: IntArray, action: IntArray, history: int) -> tuple[Move, ...]:
    done: list[Move] = []
    while history:
        a, b, outcome = action[:, history].tolist()
        done.append((a, b) if a >= 0 and b >= 0 else max(a, b, outcome))
        history = int(parent[history])
    return tuple(reversed(done))


def _join(levels: Sequence[Level], field: str) -> npt.NDArray[Any]:
    return np.concatenate([getattr(level, field) for level in levels], axis=-1)


def _below_root(offset: IntArray) -> list[tuple[int, int]]:
    """First and last-plus-one history of every level but the first."""
    return list(zip(offset[1:-1].tolist(), offset[2:].tolist(), strict=True))


def _find_infosets(
    game: Game,
    player: int,
    offset: IntArray,
    parent: IntArray,
    actor: IntArray,
    action: IntArray,
    infostate: IntArray,
    describe: contract.Describe,
) -> tuple[Infosets, IntArray, IntArray]:
    """One player's infosets, and `[n]` the infoset (-1 elsewhere) and last sequence of every history."""
    acts = np.nonzero(actor & ACTOR_BIT[player])[0]
    group, count = dense_ids(infostate[acts])
    infoset = np.full(len(parent), -1, np.int32)
    infoset[acts] = group
    # A provisional sequence code is infoset · width + action + 1; 0 is the empty sequence.
    own = action[player]
    width = int(own.max(initial=0)) + 1
    moved = np.nonzero(own >= 0)[0]
    code = np.zeros(len(parent), np.int64)
    code[moved] = infoset[parent[moved]].astype(np.int64) * width + own[moved] + 1
    taken, num_sequences = dense_ids(code)  # sequences by (provisional infoset, action), 0 stays 0
    last = np.zeros(len(parent), np.int64)
    depth = np.zeros(len(parent), np.int32)
    for begin, end in _below_root(offset):
        above = parent[begin:end]
        last[begin:end] = np.where(own[begin:end] >= 0, taken[begin:end], last[above])
        depth[begin:end] = depth[above] + (own[begin:end] >= 0)
    rule = "perfect recall, an infoset joins histories in which the player did different things before"
    history = contract.check_same(game.name, rule, player, group, last[acts], acts, describe)
    values = np.zeros(num_sequences, np.int64)
    values[taken] = code
    of_infoset = (values[1:] - 1) // width
    num_actions = np.bincount(of_infoset, minlength=count)
    # Renumber by (depth, number of actions): runs of equal infosets lie side by side.
    order = np.lexsort((num_actions, depth[history]))
    rank = np.empty(count, np.int64)
    rank[order] = np.arange(count)
    first_sequence = 1 + np.concatenate([[0], np.cumsum(num_actions[order])[:-1]]) if count else order
    provisional_first = np.concatenate([[0], np.cumsum(num_actions)])[:-1]
    renumber = np.zeros(num_sequences, np.int64)
    renumber[1:] = (
        first_sequence[rank[of_infoset]] + np.arange(num_sequences - 1) - provisional_first[of_infoset]
    )
    actions = np.full(num_sequences, -1, np.int32)
    actions[renumber[1:]] = (values[1:] - 1) % width
    owner = np.full(num_sequences, -1, np.int32)
    owner[renumber[1:]] = rank[of_infoset]
    infoset[acts] = rank[group]
    infosets = Infosets(
        depth=depth[history][order],
        num_actions=num_actions[order],
        first_sequence=first_sequence,
        parent=renumber[last[history]][order],
        history=history[order],
        action=actions,
        infoset=owner,
    )
    return infosets, infoset, renumber[last].astype(np.int32)
