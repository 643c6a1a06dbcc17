"""A player that searches at every decision of its matches, for games too large to search everywhere."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jax.typing import DTypeLike

from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.kernels.regret import Rule
from jaxgadget.policy.player import PolicyPlayer
from jaxgadget.policy.policy import PolicyLike, as_policy
from jaxgadget.refining.refine import list_gadgets
from jaxgadget.searching.limited import check_depth, values_for
from jaxgadget.searching.line import AtLimit, Line
from jaxgadget.searching.nested import ITERATIONS
from jaxgadget.searching.schedule import decision_above, make_schedule, own_moves
from jaxgadget.solving.options import make_options
from jaxgadget.tree.history import HistoryTree, check_whole
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.values.histories import ValueFunction


class _Seat(NamedTuple):
    """What was searched in one seat so far.

    Attributes:
      line: the search.
      searched: for each level `[S]` which subgames were.
      at_limit: for each level what their searches found.
    """

    line: Line
    searched: list[BoolArray]
    at_limit: list[AtLimit | None]


class SearchPlayer:
    """Nested search as a `Player`: what all pending games of a step ask for is searched in one batch.

    Searches are those of `nested_search` and are kept, so that a subgame is searched once however many
    matches come there; what the search above a subgame has to bring is searched first. A search is a
    function of the public history, but for the last bits of numbers: these depend on what else is in the
    batch, and iterations can enlarge that. One object plays the same way for its whole life. As in
    `nested_search`, compiled programs are dropped now and then in large games.
    """

    def __init__(
        self,
        blueprint: PolicyLike,
        gadget: Gadget,
        *,
        values: ValueFunction,
        depth: int = 1,
        algorithm: str | Rule = "cfr+",
        iterations: int = ITERATIONS,
        dtype: DTypeLike = "float32",
        memory_limit: int | None = None,
        tree: HistoryTree | None = None,
    ):
        """Takes what every search needs; nothing is searched before a match asks for it.

        Args:
          blueprint: one lane: both players', and what is played where search says nothing. With a tree also
            what else `as_policy` takes.
          gadget: at every search but the first, as in `nested_search`.
          values: at the limit.
          depth: D, at least that many moves of the players down to the limit.
          algorithm: a regret-matching rule.
          iterations: of every search.
          dtype: of the solves.
          memory_limit: bytes that a solve may take.
          tree: the blueprint's, unless it says so itself.

        Raises:
          ValueError: for bad arguments.
        """
        blueprint = as_policy(blueprint, tree, name="blueprint")
        if blueprint.num_lanes != 1:
            raise ValueError(f"blueprint: {blueprint.num_lanes} lanes; expected one, such as policy.lane(0)")
        self.blueprint, self.depth = blueprint, check_depth(depth)
        self.gadgets = list_gadgets(gadget, False, (0, 1))
        if len(self.gadgets) != 1:
            raise ValueError(f"gadget: {len(self.gadgets)} gadgets; expected one")
        if "trunk" in self.gadgets[0].needs:
            raise ValueError(
                f"gadget {self.gadgets[0].name!r} looks at all subgames of a level, and a player searches "
                "those that matches reach; expected Unsafe(), Resolving() or MaxMargin()"
            )
        (self.values,) = values_for(values, blueprint)
        self._options = make_options(
            algorithm=algorithm, iterations=iterations, dtype=dtype, memory_limit=memory_limit, exact=False
        )
        self._seats: dict[int, _Seat] = {}

    def __repr__(self) -> str:
        count = {player: self.searches(player) for player in sorted(self._seats)}
        return f"<SearchPlayer of {self.blueprint.tree.game.name}: subgames searched by seat {count}>"

    def searches(self, player: int) -> int:
        """How many subgames were searched in one seat so far."""
        seat = self._seats.get(player)
        return 0 if seat is None else sum(int(level.sum()) for level in seat.searched)

    def action_probabilities(self, tree: HistoryTree, player: int, histories: IntArray) -> FloatArray:
        """As `Player` says.

        Raises:
          ValueError: if the tree is of another game, truncated or not the one of the first call, or as
            `nested_search` does.
        """
        check_whole(tree)
        blueprint = self.blueprint.on(tree)
        if player not in self._seats:
            schedule = make_schedule(tree, player, self.depth)
            line = Line(blueprint, self.gadgets, self.values, schedule, self._options, visits=False)
            missing = [np.zeros(level.num_subgames, np.bool_) for level in schedule.levels]
            self._seats[player] = _Seat(line, missing, [None] * len(missing))
        seat = self._seats[player]
        if seat.line.tree is not tree:
            raise ValueError("tree: this SearchPlayer plays in another tree of the game; make one for each")
        number = own_moves(tree, player, histories)
        for level in np.unique(number).tolist():
            _search(seat, level, histories[number == level])
        return PolicyPlayer(seat.line.assembled).action_probabilities(tree, player, histories)


def _search(seat: _Seat, level: int, histories: IntArray) -> None:
    """Searches the subgames of decisions of one level, unless they were, after those above them."""
    line, where = seat.line, seat.line.schedule.levels[level]
    subgames = np.unique(where.subgame[np.searchsorted(where.roots, histories)])
    missing = subgames[~seat.searched[level][subgames]]
    if len(missing) == 0:
        return
    if level > 0:
        roots = where.roots[np.isin(where.subgame, missing)]
        _search(seat, level - 1, np.unique(decision_above(line.tree, line.player, roots)))
    above = seat.at_limit[level - 1] if level > 0 else None
    for part in line.parts(where, missing, first=level == 0):
        seat.at_limit[level] = line.search(
            level, where.cut(line.tree, part), above, lambda done: None, seat.at_limit[level]
        )
        if line.failures:
            raise ValueError(line.failures[0])
    seat.searched[level][missing] = True
