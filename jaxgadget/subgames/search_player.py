"""A player that searches at each of its decisions in a match, for games too large to search everywhere."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple, cast

import numpy as np

from jaxgadget.core.regret import Rule
from jaxgadget.core.solver import Solver, choose_solver
from jaxgadget.gadgets.capabilities import check_capabilities
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.games.machine import StateMachine, StateStrategy
from jaxgadget.opponents.opponent import Opponent, list_opponents
from jaxgadget.policy.identity import identity, player_identity
from jaxgadget.policy.player import PolicyPlayer
from jaxgadget.policy.policy import Policy, PolicyLike, as_policy
from jaxgadget.policy.positions import StatePositions
from jaxgadget.policy.states import check_strategy, is_strategy
from jaxgadget.subgames.continual import search_to_limit, solve_below
from jaxgadget.subgames.leaves import GameEnd, HistoryLeaf, history_leaves
from jaxgadget.subgames.limit_search import LimitSearches
from jaxgadget.subgames.limits import check_depth
from jaxgadget.subgames.lookahead import SEARCH
from jaxgadget.subgames.nested import ITERATIONS
from jaxgadget.subgames.nested_run import Handover, NestedRun
from jaxgadget.subgames.public_search import DecisionSearches, KeptSearches, PublicSearches
from jaxgadget.subgames.refine import list_gadgets
from jaxgadget.subgames.schedule import Lookahead, decision_above, decisions_before, make_schedule
from jaxgadget.tree.cut import CutSpec
from jaxgadget.tree.history import HistoryTree, check_whole
from jaxgadget.tree.tree import Tree
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.memory import host_memory
from jaxgadget.values.histories import ValueFunction
from jaxgadget.values.ranges import RangeValues, check_lanes, warn_of_doubts


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


class _RangedSeat(NamedTuple):
    """Finished searches of one seat with values of ranges.

    Attributes:
      policy: the assembled policy.
      searches: number of searches.
    """

    policy: Policy
    searches: int


class SearchPlayer:
    """Nested search as a `Player` of a tree, or as a `StatePlayer` of a game that is not enumerated.

    In a tree, the searches for all pending games of a step form one batch; with values of ranges, all
    subgames below the limit do. In a `StateMachine`, the player enumerates the game from each public state of
    its decisions down to the limit (`DecisionSearches`), or, with values of ranges, the game above the limit
    and that below the public state reached there (`LimitSearches`), so that memory does not grow with the
    game; results are those in a tree.

    Searches are those of `nested_search`, after the searches above them. They are cached: each subgame is
    searched once, however many matches reach it. A search is a function of the public history up to rounding
    errors, which depend on the other games of the batch and can grow with the iterations. The strategy of one
    object never changes. As in `nested_search`, compiled programs are occasionally dropped in large games.
    """

    def __init__(
        self,
        blueprint: PolicyLike | StateStrategy,
        gadget: Gadget,
        *,
        values: ValueFunction | RangeValues | None = None,
        depth: int | None = None,
        limit: CutSpec | None = None,
        tree: HistoryTree | None = None,
        skip_too_large: bool = False,
        solver: Solver | None = None,
        iterations: int | None = None,
        algorithm: str | Rule | None = None,
    ):
        """Stores the settings; searches run when a match requests them.

        Args:
          blueprint: both players' policy, with one lane, which is also played where a search has no result.
            With a tree, anything that `as_policy` accepts; in games without one a strategy of states, such as
            a network, or a function of states and a player.
          gadget: gadget of every search but the first, as in `nested_search`.
          values: values at the limit, of histories or of ranges. In games without a tree, None for searches
            to the end of the game.
          depth: D, minimum number of moves of the players down to the limit, by default 1; only for values of
            histories.
          limit: for values of ranges, the cut at which they apply, by name in games without a tree; by
            default the network's.
          tree: the blueprint's tree; required unless the blueprint has one or is a strategy of states.
          skip_too_large: in games without a tree, play the blueprint where a search does not fit into the
            solver's `memory_limit`, which is then required, and at all later decisions of such a game. By
            default such a search raises an error.
          solver: settings of every search; by default 3000 iterations of CFR+ in float32. Takes no
            `target_gap`, `check_every`, `checkpoint` or `time_limit`.
          iterations: short for `Solver(iterations=…)`.
          algorithm: short for `Solver(algorithm=…)`.

        Raises:
          ValueError: for bad arguments.
        """
        lookahead = Lookahead(values, depth, limit)  # checks the combination
        self._ranged, self._limit = lookahead.range_values, lookahead.cut
        if self._ranged is not None:
            warn_of_doubts([self._ranged])
            check_lanes(self._ranged, 1)
        if limit is not None and self._ranged is None:
            raise ValueError(
                f"limit={limit!r} with values={values!r}: cuts are for values of ranges; use depth"
            )
        self.blueprint: Any = blueprint
        if not is_strategy(blueprint):
            self.blueprint = _check_lane(as_policy(cast(Any, blueprint), tree, name="blueprint"))
            if values is None:
                raise ValueError("values=None: expected values at the limit, such as ExactValues(portfolio)")
        self.values, self.depth = values, check_depth(1 if depth is None else depth)
        self.gadgets = list_gadgets(gadget, False, (0, 1))
        if len(self.gadgets) != 1:
            raise ValueError(f"gadget: {len(self.gadgets)} gadgets; expected one")
        check_capabilities(self.gadgets, SEARCH, "SearchPlayer", "Unsafe(), Resolving() or MaxMargin()")
        without = ("target_gap", "check_every", "checkpoint", "time_limit")
        default = Solver(iterations=ITERATIONS)
        self._solver = choose_solver(
            solver, default, iterations=iterations, algorithm=algorithm, without=without
        ).iterative()
        if skip_too_large and self._solver.memory_limit is None:
            raise ValueError(
                "skip_too_large=True without a limit: results would depend on the machine's memory; expected "
                "solver=Solver(memory_limit=…), in bytes"
            )
        self._skip_too_large = skip_too_large
        self._seats: dict[int, _Seat] = {}
        self._ranged_seats: dict[int, _RangedSeat] = {}
        self._public: dict[int, PublicSearches[Any]] = {}
        memory = self._solver.memory_limit
        self._kept = KeptSearches(host_memory() or sys.maxsize if memory is None else memory)

    def __repr__(self) -> str:
        seats = sorted(self._seats | self._ranged_seats | self._public)
        count = {player: self.searches(player) for player in seats}
        return f"<SearchPlayer with {self.gadgets[0].name}: subgames searched by seat {count}>"

    @property
    def fingerprint(self) -> dict[str, Any]:
        """JSON value that identifies the player by all its settings.

        Raises:
          ValueError: if the blueprint or the values have no identity, as a function.
        """
        solver = self._solver
        return {
            "blueprint": player_identity("blueprint", self.blueprint),
            "gadget": identity(self.gadgets[0]),
            "values": None if self.values is None else player_identity("values", self.values),
            **(
                {"depth": self.depth}
                if self._ranged is None
                else {"limit": player_identity("limit", self._limit)}
            ),
            "algorithm": repr(solver.rule),
            "iterations": solver.num_iterations,
            "dtype": str(solver.precision),
            "memory_limit": solver.memory_limit if self._skip_too_large else None,
        }

    def restart(self) -> None:
        """Discards the searches in a tree, whose last bits depend on the games of their batch."""
        self._seats.clear()
        self._ranged_seats.clear()

    def skipped(self, player: int) -> int:
        """Number of public states at which a seat played the blueprint because of the memory limit."""
        return len(self._public[player].skipped) if player in self._public else 0

    def searches(self, player: int) -> int:
        """Number of subgames searched in one seat; of public states in games without a tree."""
        seat, ranged = self._seats.get(player), self._ranged_seats.get(player)
        in_tree = 0 if seat is None else sum(int(level.sum()) for level in seat.searched)
        in_tree += 0 if ranged is None else ranged.searches
        return in_tree + (self._public[player].count if player in self._public else 0)

    def action_probabilities(self, tree: HistoryTree, player: int, histories: IntArray) -> FloatArray:
        """Action probabilities at some histories, after the searches that they require; see `Player`.

        Raises:
          ValueError: if the tree is of another game, truncated, or not the tree of the first call; or as
            `nested_search`.
        """
        check_whole(tree)
        if self._ranged is not None:
            policy = self._policy_in(tree, player, self._ranged)
            return PolicyPlayer(policy).action_probabilities(tree, player, histories)
        if player not in self._seats:
            blueprint = _check_lane(as_policy(self.blueprint, tree, name="blueprint"))
            if self.values is None:
                raise ValueError(
                    "values=None: expected values at the limit, which searches in a tree require"
                )
            values: Any = self.values
            (leaf,) = history_leaves(values, blueprint)
            schedule = make_schedule(tree, player, self.depth)
            run = NestedRun(schedule, leaf, blueprint, self.gadgets, solver=self._solver)
            missing = [np.zeros(level.num_subgames, np.bool_) for level in schedule.levels]
            self._seats[player] = _Seat(run, missing, [None] * len(missing))
        seat = self._seats[player]
        _check_same(tree, seat.run.tree)
        number = decisions_before(tree, player, histories)
        for level in np.unique(number).tolist():
            _search(tree, seat, level, histories[number == level])
        return PolicyPlayer(seat.run.assembled).action_probabilities(tree, player, histories)

    def state_probabilities(self, games: StatePositions, player: int) -> FloatArray:
        """Action probabilities in some games, after the searches that they require; see `StatePlayer`.

        Raises:
          ValueError: if the games are of another game, or as `PublicSearches`.
          TooLargeError: if the game from a public state to the limit does not fit into memory.
        """
        machine = games.machine
        if player not in self._public:
            self._public[player] = self._make_public(machine, player)
        searches = self._public[player]
        if searches.machine.name != machine.name:
            raise ValueError(
                f"this SearchPlayer plays {searches.machine.name}, not {machine.name}; create one for each"
            )
        rows = list[FloatArray]()
        for game in range(games.made.shape[-1]):
            probabilities = searches.action_probabilities(games.moves(game))
            if probabilities is None:
                probabilities = searches.blueprint_probabilities(games.take(np.array([game])).state)
            rows.append(probabilities)
        return np.stack(rows)

    def _policy_in(self, tree: HistoryTree, player: int, values: RangeValues) -> Policy:
        """Searches the whole tree for a seat, with values of ranges at the limit; cached."""
        if player not in self._ranged_seats:
            blueprint = _check_lane(as_policy(self.blueprint, tree, name="blueprint"))
            adaptive = list_opponents(Opponent(), tree, name="opponent")
            assert self._limit is not None
            _, subgames = search_to_limit(
                blueprint, self.gadgets, adaptive, values, self._limit, player, self._solver
            )
            policy, solved = solve_below(subgames, self._solver)
            self._ranged_seats[player] = _RangedSeat(policy, 1 + solved)
        policy = self._ranged_seats[player].policy
        _check_same(tree, policy.tree)
        return policy

    def _make_public(self, machine: StateMachine[Any], player: int) -> PublicSearches[Any]:
        """The searches of a seat in a game without a tree."""
        settings = machine, player, check_strategy(self.blueprint, machine), self.gadgets
        more: dict[str, Any] = {
            "solver": self._solver,
            "kept": self._kept,
            "skip_too_large": self._skip_too_large,
        }
        if self._ranged is not None:
            if not isinstance(self._limit, str):
                raise ValueError(
                    f"limit={self._limit!r}: expected the name of a cut, such as 'depth:2', in games without "
                    "a tree"
                )
            return LimitSearches(*settings, values=self._ranged, limit=self._limit, **more)
        values: Any = self.values
        leaf = GameEnd() if values is None else HistoryLeaf(values)
        return DecisionSearches(
            *settings, leaf=leaf, depth=self.depth if leaf.ends_lookahead else None, **more
        )


def _check_same(tree: HistoryTree, own: Tree) -> None:
    """Raises ValueError unless a tree is that of the previous searches."""
    if own is not tree:
        raise ValueError("tree: this SearchPlayer plays in another tree of the game; create one for each")


def _check_lane(blueprint: Policy) -> Policy:
    """The blueprint, if it has one lane."""
    if blueprint.num_lanes != 1:
        raise ValueError(f"blueprint: {blueprint.num_lanes} lanes; expected one, such as policy.lane(0)")
    return blueprint


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
