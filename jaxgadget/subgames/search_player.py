"""Player that searches at each decision of its matches, for games too large to search everywhere."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jaxgadget.core.regret import Rule
from jaxgadget.core.solver import Solver, choose_solver
from jaxgadget.gadgets.capabilities import check_capabilities
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.policy.player import PolicyPlayer
from jaxgadget.policy.policy import PolicyLike, as_policy
from jaxgadget.subgames.leaves import history_leaves
from jaxgadget.subgames.limits import check_depth
from jaxgadget.subgames.lookahead import SEARCH
from jaxgadget.subgames.nested import ITERATIONS
from jaxgadget.subgames.nested_run import Handover, NestedRun
from jaxgadget.subgames.refine import list_gadgets
from jaxgadget.subgames.schedule import decision_above, decisions_before, make_schedule
from jaxgadget.tree.history import HistoryTree, check_whole
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.values.histories import ValueFunction


class _Seat(NamedTuple):
    """Finished searches of one seat.

    Attributes:
      run: the searches.
      searched: for each level `[S]` mask of the subgames searched.
      handover: for each level the data that its searches pass to those below.
    """

    run: NestedRun
    searched: list[BoolArray]
    handover: list[Handover | None]


class SearchPlayer:
    """Nested search as a `Player`; the requests of all pending games of a step form one batch.

    Searches are those of `nested_search` and are cached, so that a subgame is searched once however many
    matches reach it; the searches above it are run first. A search is a function of the public history up to
    rounding errors, which depend on the other games of the batch and can grow with the iterations. The
    strategy of one object never changes. As in `nested_search`, compiled programs are occasionally dropped in
    large games.
    """

    def __init__(
        self,
        blueprint: PolicyLike,
        gadget: Gadget,
        *,
        values: ValueFunction,
        depth: int = 1,
        tree: HistoryTree | None = None,
        solver: Solver | None = None,
        iterations: int | None = None,
        algorithm: str | Rule | None = None,
    ):
        """Stores the settings; searches run when a match requests them.

        Args:
          blueprint: both players' policy, one lane, also played where search has no result. With a tree,
            anything that `as_policy` accepts.
          gadget: gadget of every search but the first, as in `nested_search`.
          values: values at the limit.
          depth: D, minimum number of moves of the players down to the limit.
          tree: the blueprint's tree; required unless the blueprint has one.
          solver: settings of every search; by default 3000 iterations of CFR+ in float32. Takes no
            `target_gap`, `check_every`, `checkpoint` or `time_limit`.
          iterations: short for `Solver(iterations=…)`.
          algorithm: short for `Solver(algorithm=…)`.

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
        check_capabilities(self.gadgets, SEARCH, "SearchPlayer", "Unsafe(), Resolving() or MaxMargin()")
        (self._leaf,) = history_leaves(values, blueprint)
        without = ("target_gap", "check_every", "checkpoint", "time_limit")
        default = Solver(iterations=ITERATIONS)
        self._solver = choose_solver(
            solver, default, iterations=iterations, algorithm=algorithm, without=without
        ).iterative()
        self._seats: dict[int, _Seat] = {}

    def __repr__(self) -> str:
        count = {player: self.searches(player) for player in sorted(self._seats)}
        return f"<SearchPlayer of {self.blueprint.tree.game.name}: subgames searched by seat {count}>"

    def searches(self, player: int) -> int:
        """Number of subgames searched in one seat."""
        seat = self._seats.get(player)
        return 0 if seat is None else sum(int(level.sum()) for level in seat.searched)

    def action_probabilities(self, tree: HistoryTree, player: int, histories: IntArray) -> FloatArray:
        """Action probabilities at some histories, after the searches that they require; see `Player`.

        Raises:
          ValueError: if the tree is of another game, truncated or not the one of the first call, or as
            `nested_search` does.
        """
        check_whole(tree)
        blueprint = self.blueprint.on(tree)
        if player not in self._seats:
            schedule = make_schedule(tree, player, self.depth)
            run = NestedRun(schedule, self._leaf, blueprint, self.gadgets, solver=self._solver)
            missing = [np.zeros(level.num_subgames, np.bool_) for level in schedule.levels]
            self._seats[player] = _Seat(run, missing, [None] * len(missing))
        seat = self._seats[player]
        if seat.run.tree is not tree:
            raise ValueError("tree: this SearchPlayer plays in another tree of the game; make one for each")
        number = decisions_before(tree, player, histories)
        for level in np.unique(number).tolist():
            _search(tree, seat, level, histories[number == level])
        return PolicyPlayer(seat.run.assembled).action_probabilities(tree, player, histories)


def _search(tree: HistoryTree, seat: _Seat, level: int, histories: IntArray) -> None:
    """Searches the subgames of one level's decisions that are not cached, after those above them."""
    run, where = seat.run, seat.run.schedule.levels[level]
    subgames = np.unique(where.subgame[np.searchsorted(where.roots, histories)])
    missing = subgames[~seat.searched[level][subgames]]
    if len(missing) == 0:
        return
    if level > 0:
        roots = where.roots[np.isin(where.subgame, missing)]
        _search(tree, seat, level - 1, np.unique(decision_above(tree, run.player, roots)))
    above = seat.handover[level - 1] if level > 0 else None
    for part in run.parts(where, missing, first=level == 0):
        seat.handover[level] = run.search(
            level, where.cut(run.tree, part), above, lambda done: None, seat.handover[level]
        )
        if run.failures:
            raise ValueError(run.failures[0])
    seat.searched[level][missing] = True
