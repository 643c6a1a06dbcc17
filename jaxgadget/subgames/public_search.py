"""Nested search of one player in a game too large to enumerate, with a tree from each public state.

At each of its decisions the player enumerates the game from the public state down to the next limit
(`DecisionSearches`). With values of ranges at the limit it searches from the game's root, and again below the
limit (`limit_search.LimitSearches`).
"""

from __future__ import annotations

import abc
import collections
import dataclasses
import itertools
import sys
from collections.abc import Hashable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, cast

import numpy as np

from jaxgadget.core.solver import Solver
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.games.checks import check_machine
from jaxgadget.games.game import ACTOR_BIT, HISTORY_BYTES, Budget, Move, TooLargeError
from jaxgadget.games.machine import StateMachine, StateStrategy, actors_along, moves_of
from jaxgadget.games.public_state import PublicState, find_public_state, public_observations
from jaxgadget.policy.policy import Policy
from jaxgadget.policy.states import policy_of_states
from jaxgadget.subgames.leaves import Leaf
from jaxgadget.subgames.limits import CELL_BYTES
from jaxgadget.subgames.nested_run import Handover, NestedRun
from jaxgadget.subgames.profile import Profile
from jaxgadget.subgames.schedule import Schedule, SearchLevel
from jaxgadget.tree.cut import cut_at
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.matching import child_after, first_child
from jaxgadget.tree.states import (
    enumerate_from,
    game_from,
    is_from_public_state,
    paths_to,
    public_roots,
    rules_of,
    states_at,
)
from jaxgadget.util.arrays import FloatArray, IntArray

EXPECTED = "expected a game in which both players know when a player acts"
"""Remedy for games whose public states do not determine when a player acts."""

PUBLIC_STATE = "public state"
"""Name of cuts at public states."""


@dataclasses.dataclass(frozen=True, eq=False)
class PublicSearch:
    """A completed search from a public state.

    Attributes:
      tree: the game from there, at least down to the limit.
      policy: both players' strategies, one lane, with the searching player's from the search.
    """

    tree: HistoryTree
    policy: Policy

    @property
    def num_bytes(self) -> int:
        """Approximate memory of the search."""
        return HISTORY_BYTES * self.tree.num_histories


Search = TypeVar("Search", bound=PublicSearch)


class KeptSearches:
    """The last searches of both seats of a player, within a limit of their memory.

    Attributes:
      memory_limit: maximum memory in bytes of all trees, that of a running search included.
    """

    def __init__(self, memory_limit: int):
        self.memory_limit = memory_limit
        self._searches: collections.OrderedDict[Hashable, PublicSearch] = collections.OrderedDict()

    def get(self, key: Hashable) -> PublicSearch | None:
        """The search with a key; None if it is not kept."""
        if key in self._searches:
            self._searches.move_to_end(key)
        return self._searches.get(key)

    def add(self, key: Hashable, search: PublicSearch) -> None:
        """Keeps a search, and drops the oldest ones that do not fit beside it."""
        self.make_room(search.num_bytes)
        self._searches[key] = search

    def make_room(self, num_bytes: int) -> None:
        """Drops the oldest searches until a number of bytes fits beside the others."""
        while self._searches and self._num_bytes() + num_bytes > self.memory_limit:
            self._searches.popitem(last=False)

    def _num_bytes(self) -> int:
        return sum(search.num_bytes for search in self._searches.values())


class PublicSearches(abc.ABC, Generic[Search]):
    """Searches of one seat, by public state.

    Attributes:
      machine: the rules.
      player: the searching player.
      count: number of searches run.
      skipped: searches that were omitted, as they, or one above, do not fit into memory: the number of
        searches on their path, and the public observations.
    """

    def __init__(
        self,
        machine: StateMachine[Any],
        player: int,
        strategy: StateStrategy,
        gadgets: Sequence[Gadget],
        *,
        solver: Solver,
        kept: KeptSearches,
        skip_too_large: bool = False,
    ):
        """Stores the settings.

        Args:
          machine: the rules.
          player: the searching player.
          strategy: the blueprint, of both players.
          gadgets: the gadget, in a list.
          solver: settings of every search.
          kept: the searches that are kept, of both seats.
          skip_too_large: omit searches that do not fit, and those below them.
        """
        check_machine(machine)
        self.machine, self.player, self.count = machine, player, 0
        self._strategy, self._gadgets, self._solver = strategy, tuple(gadgets), solver
        self._kept = kept
        self._skip_too_large, self.skipped = skip_too_large, set[tuple[int, tuple[int, ...]]]()

    def action_probabilities(self, history: Sequence[Move]) -> FloatArray | None:
        """`[A]` probabilities of the player's actions after a history, 0 for illegal ones.

        They depend on the player's infostate only; None if the search is omitted.

        Raises:
          ValueError: if the player's decisions are not public, or a search overflows.
          TooLargeError: if the game from a public state to the limit does not fit into memory.
        """
        search = self._search_for(history)
        if search is None:
            return None
        infosets = search.tree.infosets[self.player]
        infoset = int(search.tree.infoset[self.player, find_history(search.tree, history)])
        sequences = np.flatnonzero(infosets.infoset == infoset)
        chosen = np.zeros(self.machine.num_actions)
        chosen[infosets.action[sequences]] = search.policy.probabilities[self.player][sequences - 1, 0]
        return chosen

    def blueprint_probabilities(self, state: Any) -> FloatArray:
        """`[A]` the blueprint's probabilities at one state."""
        return np.asarray(self._strategy(state, self.player), np.float64)[:, 0]

    @abc.abstractmethod
    def _search_for(self, history: Sequence[Move]) -> Search | None:
        """The search that determines the player's decision after a history; None if it is omitted."""

    @abc.abstractmethod
    def _run(self, above: Search | None, history: Sequence[Move], observed: tuple[int, ...]) -> Search:
        """Searches from a history's public state, given the search above, if any."""

    def _search(self, history: Sequence[Move], begins: Sequence[int]) -> Search | None:
        """The last search on a path, after those above it; None if one of them is omitted.

        Args:
          history: a history.
          begins: lengths of its prefixes at which the searches begin.
        """
        prefix = history[: begins[-1]]
        observed = public_observations(self.machine, prefix)
        key = len(begins), observed
        if (earlier := self._kept.get((self.player, key))) is not None:
            return cast("Search", earlier)
        if key in self.skipped:
            return None
        above = self._search(history, begins[:-1]) if len(begins) > 1 else None
        try:
            search = self._run(above, prefix, observed) if len(begins) == 1 or above is not None else None
        except TooLargeError:
            if not self._skip_too_large:
                raise
            search = None
        if search is None:
            self.skipped.add(key)
            return None
        self.count += 1
        self._kept.add((self.player, key), search)
        return search


@dataclasses.dataclass(frozen=True, eq=False)
class DecisionSearch(PublicSearch):
    """A search from a decision of the player to a later one.

    Attributes:
      handover: data for the searches below.
    """

    handover: Handover

    @property
    def num_bytes(self) -> int:
        """Approximate memory of the tree, and of the payoffs at its limit."""
        return super().num_bytes + self.handover.payoffs.nbytes


class DecisionSearches(PublicSearches[DecisionSearch]):
    """Searches from each of the player's decisions, with values of histories at their limits.

    The searches are those of `NestedRun`: ranges and alternative values are those of the previous search.
    """

    def __init__(self, *settings: Any, leaf: Leaf, depth: int | None, **more: Any):
        """Stores the settings.

        Args:
          *settings: as for `PublicSearches`.
          leaf: evaluation at the limit.
          depth: minimum number of moves of the players down to the limit; None for the end of the game.
          **more: as for `PublicSearches`.
        """
        super().__init__(*settings, **more)
        self._leaf, self._depth = leaf, depth

    def _search_for(self, history: Sequence[Move]) -> DecisionSearch | None:
        """The search at the history."""
        decisions = self._own_decisions(history)
        if len(decisions) > 1:
            before, last = (history[:length] for length in decisions[-2:])
            if public_observations(self.machine, before) == public_observations(self.machine, last):
                raise ValueError(
                    f"{self.machine.name}: player {self.player} acts after {tuple(before)} and again after "
                    f"{tuple(last)}, in one public state; {EXPECTED}"
                )
        return self._search(history, decisions)

    def _own_decisions(self, history: Sequence[Move]) -> list[int]:
        """Lengths of a history's prefixes after which the player acts, the history itself included."""
        acts = (actor[0] & ACTOR_BIT[self.player] for actor in actors_along(self.machine, history))
        return [length for length, acts_here in enumerate(acts) if acts_here]

    def _run(
        self, above: DecisionSearch | None, history: Sequence[Move], observed: tuple[int, ...]
    ) -> DecisionSearch:
        """Searches from a history's public state."""
        if above is None:
            budget = Budget(self.machine.name, sys.maxsize, memory=self._kept.memory_limit)
            public = find_public_state(self.machine, observed, self._strategy, budget=budget)
            return self._solve(public, None)
        nodes = nodes_below(above.tree, history)
        public, first = public_state_at(above.tree, above.policy, nodes, observed).merge()
        return self._solve(public, _Descent(above, nodes[first]))

    def _solve(self, public: PublicState, descent: _Descent | None) -> DecisionSearch:
        """Searches from a public state."""
        acts = np.asarray(self.machine.actor(public.state)) & ACTOR_BIT[self.player] > 0
        if not acts.all():
            raise ValueError(
                f"{self.machine.name}: player {self.player} does not act after "
                f"{public.history(int(np.argmin(acts)))}, in a public state in which it acts; {EXPECTED}"
            )
        history_bytes = HISTORY_BYTES + CELL_BYTES * self._leaf.num_entries**2
        tree = enumerate_from(
            public,
            depth=self._depth,
            player=self.player,
            max_histories=sys.maxsize,
            history_bytes=history_bytes,
            memory_limit=self._kept.memory_limit,
        )
        self._kept.make_room(history_bytes * tree.num_histories)
        where = cut_at(tree, PUBLIC_STATE, public_roots(tree))
        level = SearchLevel(where.roots, where.subgame)
        schedule = Schedule(tree, self.player, "own", self._depth, 1, (level,))
        blueprint = policy_of_states(tree, self._strategy, "blueprint")
        run = NestedRun(schedule, self._leaf, blueprint, self._gadgets, solver=self._solver)
        above = None if descent is None else descent.handover(run.assembled)
        handover = run.search(0, where, above, lambda done: None)
        if run.failures:
            raise ValueError(run.failures[0])
        return DecisionSearch(tree, run.assembled, handover)


def find_history(tree: HistoryTree, history: Sequence[Move]) -> int:
    """The node of a history, given from the game's root, in a tree of the game or from a public state."""
    machine = rules_of(tree)
    moves = np.full((len(history), 3), -1)
    for number, (move, actor) in enumerate(zip(history, actors_along(machine, history), strict=False)):
        moves[number] = moves_of(move, actor)[:, 0]
    node, begin = 0, 0
    if is_from_public_state(tree):
        public = game_from(tree).public
        lengths = [length for length in np.unique(public.length).tolist() if length <= len(history)]
        rows = [(int(public.finder.find(moves[:length, :, None])[0]), length) for length in lengths]
        ((drawn, begin),) = [each for each in rows if each[0] >= 0]
        node = int(public_roots(tree)[drawn])
    for move in moves[begin:]:
        node = int(child_after(tree, np.array([node]), move[:, None])[0])
    return node


def nodes_below(tree: HistoryTree, history: Sequence[Move]) -> IntArray:
    """The nodes of a history's public state."""
    assert tree.public is not None
    return np.flatnonzero(tree.public == tree.public[find_history(tree, history)])


def public_state_at(
    tree: HistoryTree, policy: Policy, nodes: IntArray, observations: tuple[int, ...]
) -> PublicState:
    """The public state that consists of some nodes of a tree, with both players' reach under a policy.

    Args:
      tree: a tree of the game, or from a public state.
      policy: a policy of this tree, with one lane.
      nodes: the nodes.
      observations: the public observations that lead to them.
    """
    moves, begin = paths_to(tree, nodes)
    merged = False
    if is_from_public_state(tree):
        above = game_from(tree).public
        number = np.searchsorted(public_roots(tree), begin)
        moves, merged = np.concatenate([above.moves[..., number], moves]), above.merged
    is_move = moves.max(axis=1) >= 0
    order = np.argsort(~is_move, axis=0, kind="stable")  # padding comes last
    sequence = tree.sequence[:, nodes]
    reach = [policy.reach(player)[sequence[player], 0] for player in (0, 1)]
    return PublicState(
        machine=rules_of(tree),
        observations=observations,
        state=states_at(tree, nodes)[1],
        moves=np.take_along_axis(moves, order[:, None], axis=0),
        length=np.count_nonzero(is_move, axis=0),
        chance=tree.chance[nodes],
        reach=np.stack(reach),
        infostate=tree.infostate[:, nodes],
        acted=(bool(sequence[0].any()), bool(sequence[1].any())),
        merged=merged,
    )


class _Descent(NamedTuple):
    """A search, and the nodes of its tree at which the next search begins."""

    above: DecisionSearch
    nodes: IntArray

    def handover(self, blueprint: Policy) -> Handover:
        """The handover of the search, converted to the tree of the next search, given its blueprint."""
        tree, small, given = self.above.tree, blueprint.histories, self.above.handover
        node = self._counterparts(small)
        rows: list[FloatArray] = []
        for player in (0, 1):
            infosets, others = small.infosets[player], tree.infosets[player]
            upper = node[infosets.history]
            same = np.where(upper >= 0, tree.infoset[player, upper], -1)
            sequence = np.arange(1, infosets.num_sequences)
            owner = infosets.infoset[1:]
            source = others.first_sequence[same[owner]] + sequence - infosets.first_sequence[owner]
            known = same[owner] >= 0
            plan = given.plan.policy.probabilities[player][np.where(known, source, 1) - 1]
            rows.append(np.where(known[:, None], plan, blueprint.probabilities[player]))
        leaves = np.flatnonzero(np.isin(node, given.leaves))
        states: list[IntArray] = []
        choices: list[FloatArray] = []
        for player in (0, 1):
            ids, first = np.unique(small.infostate[player, leaves], return_index=True)
            number = np.searchsorted(given.plan.states[player], tree.infostate[player, node[leaves[first]]])
            states.append(ids)
            choices.append(given.plan.choice[player][number])
        policy = Policy(small, (rows[0], rows[1]), blueprint.labels)
        return dataclasses.replace(
            given,
            policy=blueprint,
            plan=Profile(policy, (states[0], states[1]), (choices[0], choices[1])),
            leaves=leaves,
            payoffs=given.payoffs[np.searchsorted(given.leaves, node[leaves])],
        )

    def _counterparts(self, small: HistoryTree) -> IntArray:
        """`[n]` the node of the search's tree for each one of the next search's tree, -1 for none."""
        tree = self.above.tree
        node = np.full(small.num_histories, -1)
        node[public_roots(small)] = self.nodes
        is_inner = np.ones(tree.num_histories, np.bool_)
        is_inner[tree.leaves] = False
        for begin, end in itertools.pairwise(small.level_offset[2 + game_from(small).num_moves :].tolist()):
            parent = small.parent[begin:end]
            upper = node[parent]
            nth = np.arange(begin, end) - first_child(small, parent)
            known = (upper >= 0) & is_inner[upper]
            node[begin:end] = np.where(known, first_child(tree, np.maximum(upper, 0)) + nth, -1)
        return node
