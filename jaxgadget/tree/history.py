"""Game → HistoryTree: every history of a game, level by level, in flat arrays.

Built once, in NumPy. The contract that every game keeps is checked here.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxgadget.games.game import (
    DEFAULT_MAX_HISTORIES,
    TERMINAL,
    Budget,
    FloatArray,
    Game,
    IntArray,
    Level,
    Move,
)
from jaxgadget.tree import contract
from jaxgadget.tree.infosets import Infosets, distinct_names, find_infosets


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
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

    def __repr__(self) -> str:
        sizes = f"{self.num_histories} histories, {len(self.infosets[0])} + {len(self.infosets[1])} infosets"
        return f"<HistoryTree of {self.game.name}: {sizes}>"

    @property
    def num_histories(self) -> int:
        """Histories, the root and the terminal ones included."""
        return len(self.parent)

    @functools.cached_property
    def terminals(self) -> IntArray:
        """`[num_terminals]` the terminal histories, ascending."""
        return np.nonzero(self.actor == TERMINAL)[0]

    @property
    def num_terminals(self) -> int:
        """Terminal histories."""
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
    def infostate_strings(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The game's own infostate strings, in the order of `infosets`; several infosets may share one."""
        first, second = (
            tuple(self.game.infostate_string(player, self.moves(h)) for h in infosets.history.tolist())
            for player, infosets in enumerate(self.infosets)
        )
        return first, second

    @functools.cached_property
    def infoset_names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Both players' infosets by name, in the order of `infosets`; unique within a player.

        A name is the game's own infostate string. Only where several infosets of a player share
        one, because the string forgets what the player did (OpenSpiel's do in Leduc with
        `action_mapping` and in Goofspiel without `imp_info`), ` | own actions 0 2 1` follows, the
        player's own action ids on the way; and if that does not tell them apart, as the string
        forgets what the player saw, ` | history …`, the first history of the infoset.
        """
        first, second = (
            distinct_names(strings, infosets, self.moves)
            for strings, infosets in zip(self.infostate_strings, self.infosets, strict=True)
        )
        return first, second

    @functools.cached_property
    def _infoset_by_name(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        first, second = ({name: j for j, name in enumerate(names)} for names in self.infoset_names)
        return first, second

    def find_infoset(self, name: str, player: int | None = None) -> tuple[int, int]:
        """`(player, infoset)` of one of `infoset_names`.

        Args:
          name: the infoset's name.
          player: whose infoset; needed only where both players have one of that name.

        Raises:
          ValueError: if there is no such infoset, or both players have one and `player` is not given.
        """
        if player not in (None, 0, 1):
            raise ValueError(f"player={player!r}: expected 0, 1 or None for whoever has the infoset")
        players = (0, 1) if player is None else (player,)
        found = [(p, self._infoset_by_name[p][name]) for p in players if name in self._infoset_by_name[p]]
        if len(found) == 1:
            return found[0]
        if found:
            raise ValueError(
                f"infostate {name!r} is an infoset of both players of {self.game.name}; give the player "
                "too, 0 or 1"
            )
        names = [n for p in players for n in self.infoset_names[p]]
        some = [n for n in names if n.startswith(f"{name} | ")] or names
        of = "" if player is None else f" of player {player}"
        raise ValueError(
            f"infostate {name!r} is no infoset{of} of {self.game.name}; expected one string of "
            f"tree.infoset_names, such as {', '.join(map(repr, some[:3]))}"
        )


def check_tree(tree: object) -> None:
    """ValueError unless it is a tree."""
    if not isinstance(tree, HistoryTree):
        what = repr(tree) if isinstance(tree, str) else f"a {type(tree).__name__}"
        raise ValueError(f"tree={what}: expected a HistoryTree, from enumerate_game(load(…))")


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
    if isinstance(game, type) or not hasattr(game, "levels"):
        raise ValueError(f"game={game!r}: expected a game, from load(…)")
    levels = list(game.levels(Budget(game.name, max_histories)))
    sizes = [len(level.parent) for level in levels]
    offset = np.append(0, np.cumsum(sizes))
    parent = _join(levels, "parent") + np.repeat(np.append(0, offset[:-2]), sizes)
    actor, action, infostate = (_join(levels, name) for name in ("actor", "action", "infostate"))
    public = None if levels[0].public is None else _join(levels, "public")
    describe = functools.partial(_moves, parent, action)
    contract.check_moves(game.name, offset, parent, actor, action, describe)
    own_chance = _join(levels, "chance")
    contract.check_chance(game.name, parent, actor, action, own_chance, describe)
    constant, payoff = contract.zero_sum(game.name, actor, _join(levels, "returns"), describe)
    num_moves, chance = _accumulate(offset, parent, action, own_chance)
    found = [
        find_infosets(player, offset, parent, actor, action[player], infostate[player]) for player in (0, 1)
    ]
    infosets, infoset = (found[0][0], found[1][0]), np.stack([found[0][1], found[1][1]])
    sequence = np.stack([found[0][2], found[1][2]])
    for player in (0, 1):
        contract.check_infostates(game.name, player, infostate[player], sequence[player], public, describe)
    num_actions = (infosets[0].num_actions, infosets[1].num_actions)
    contract.check_children(game.name, actor, parent, infoset, num_actions, describe)
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


def _accumulate(
    offset: IntArray, parent: IntArray, action: IntArray, chance: FloatArray
) -> tuple[IntArray, FloatArray]:
    """`[n]` moves of the players, and `[n]` the product of chance's probabilities, along every history."""
    moves, reach = ((action[0] >= 0) | (action[1] >= 0)).astype(np.int32), chance.copy()
    for begin, end in itertools.pairwise(offset[1:].tolist()):
        reach[begin:end] *= reach[parent[begin:end]]
        moves[begin:end] += moves[parent[begin:end]]
    return moves, reach
