"""Searches with values of ranges at their limit, in games too large to enumerate.

As in `continual`, the player searches from the game's root down to a cut, and again from every public state
there to the end of the game, with the opponent's values from the first search. Only the game above the cut
and the game below one public state are enumerated.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxgadget.games.cuts import cut_rule
from jaxgadget.games.game import HISTORY_BYTES, Move
from jaxgadget.games.machine import actors_along, moves_of
from jaxgadget.policy.states import policy_of_states
from jaxgadget.subgames.continual import promise, solve_below
from jaxgadget.subgames.engine import Subgames
from jaxgadget.subgames.limits import CELL_BYTES
from jaxgadget.subgames.public_search import (
    PUBLIC_STATE,
    PublicSearch,
    PublicSearches,
    find_history,
    public_state_at,
)
from jaxgadget.tree.cut import cut_at
from jaxgadget.tree.forest import build_forest
from jaxgadget.tree.history import enumerate_game
from jaxgadget.tree.matching import child_after
from jaxgadget.tree.states import enumerate_from, public_roots, rules_of
from jaxgadget.values.ranges import RangeValues
from jaxgadget.values.trunk import LimitedTrunk, solve_trunk


@dataclasses.dataclass(frozen=True, eq=False)
class LimitSearch(PublicSearch):
    """A search from the game's root to the limit, or from a public state there to the end.

    Attributes:
      trunk: the search to the limit; None below it.
    """

    trunk: LimitedTrunk | None = None


class LimitSearches(PublicSearches[LimitSearch]):
    """A search to a cut with values of ranges there, and searches below it."""

    def __init__(self, *settings: Any, values: RangeValues, limit: str, **more: Any):
        """Stores the settings.

        Args:
          *settings: as for `PublicSearches`.
          values: values of ranges at the limit.
          limit: the cut, by name.
          **more: as for `PublicSearches`.

        Raises:
          ValueError: if the cut is unknown.
        """
        super().__init__(*settings, **more)
        cut_rule(self.machine, limit)
        self._values, self._limit = values, limit

    def _search_for(self, history: Sequence[Move]) -> LimitSearch | None:
        """The search to the limit, or the one below it."""
        above = self._search(history, [0])
        if above is None or (length := _length_at_limit(above, history)) is None:
            return above
        return self._search(history, [0, length])

    def _run(
        self, above: LimitSearch | None, history: Sequence[Move], observed: tuple[int, ...]
    ) -> LimitSearch:
        """Searches to the limit, or below it."""
        if above is None:
            return self._solve_above()
        return self._solve_below(above, find_history(above.tree, history), observed)

    def _solve_above(self) -> LimitSearch:
        """Searches from the game's root to the limit."""
        reads_below = bool(getattr(self._values, "reads_below", False))
        tree = enumerate_game(
            self.machine,
            limit=None if reads_below else self._limit,
            max_histories=sys.maxsize,
            memory_limit=self._kept.memory_limit,
            progress=False,
        )
        self._kept.make_room(HISTORY_BYTES * tree.num_histories)
        trunk = solve_trunk(
            tree,
            self._limit,
            self._values,
            blueprint=policy_of_states(tree, self._strategy, "blueprint"),
            solver=dataclasses.replace(self._solver.only("algorithm", "iterations", "dtype"), progress=False),
        )
        return LimitSearch(tree, trunk.policy, trunk)

    def _solve_below(self, above: LimitSearch, root: int, observed: tuple[int, ...]) -> LimitSearch:
        """Searches from the public state of a root of the limit to the end of the game."""
        states, other = above.tree.public, 1 - self.player
        assert above.trunk is not None and states is not None
        limit = above.trunk.limit
        number = np.flatnonzero(states[limit.cut.roots] == states[root])
        public = public_state_at(above.tree, above.policy, limit.cut.roots[number], observed)
        public, first = public.merge()
        number = number[first]
        history_bytes = HISTORY_BYTES + CELL_BYTES
        tree = enumerate_from(
            public,
            max_histories=sys.maxsize,
            history_bytes=history_bytes,
            memory_limit=self._kept.memory_limit,
        )
        self._kept.make_room(history_bytes * tree.num_histories)
        forest = build_forest(tree, cut_at(tree, PUBLIC_STATE, public_roots(tree)))
        roots = forest.roots[other]
        row = np.searchsorted(roots.infostate, tree.infostate[other, forest.cut.roots])
        values = np.zeros((len(roots), 1))
        # In this tree chance reaches the public state with probability 1.
        values[row] = above.trunk.values[other][limit.row[other][number]] / public.chance.sum()
        blueprint = policy_of_states(tree, self._strategy, "blueprint")
        subgames = Subgames(forest, self.player, blueprint, promise(self._gadgets, -values))
        return LimitSearch(tree, solve_below(subgames, self._solver)[0])


def _length_at_limit(search: LimitSearch, history: Sequence[Move]) -> int | None:
    """Length of the prefix of a history that ends at a search's limit; None for a history above it."""
    assert search.trunk is not None
    tree, where, node = search.tree, search.trunk.limit.cut, 0
    for number, actor in enumerate(actors_along(rules_of(tree), history)):
        if where.root[node] >= 0:
            return number
        if number < len(history):
            node = int(child_after(tree, np.array([node]), moves_of(history[number], actor))[0])
    return None
