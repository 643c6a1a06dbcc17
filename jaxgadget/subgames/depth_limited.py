"""Depth-limited solving: re-solves every subgame below a cut down to a limit, with a value function below it.

`search` is the depth-limited counterpart of `jaxgadget.refine`, and one level of nested search. Its gaps hold
for the depth-limited games; its policies follow the blueprint below the limit, so that no bound on
exploitability is known.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxgadget.core.regret import Rule
from jaxgadget.core.results import LaneResult
from jaxgadget.core.solver import Solver, choose_solver
from jaxgadget.gadgets.capabilities import check_capabilities
from jaxgadget.gadgets.gadget import Gadget, gadget_columns
from jaxgadget.policy.policy import Policy, PolicyLike, as_policy
from jaxgadget.subgames.leaves import history_leaves
from jaxgadget.subgames.limits import check_depth
from jaxgadget.subgames.lookahead import SEARCH, SolvedLookahead
from jaxgadget.subgames.nested_run import Handover, NestedRun
from jaxgadget.subgames.profile import Profile
from jaxgadget.subgames.refine import list_gadgets
from jaxgadget.subgames.schedule import Schedule, SearchLevel
from jaxgadget.tree.cut import CutSpec, cut
from jaxgadget.tree.forest import Forest
from jaxgadget.tree.history import HistoryTree, check_histories
from jaxgadget.util.arguments import check_player, moved
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.lanes import Lanes
from jaxgadget.util.progress import progress_bar
from jaxgadget.util.viewers import Explorable
from jaxgadget.values.histories import ValueFunction


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Search(LaneResult, Explorable):
    """Solved depth-limited subgames of one player.

    Lanes run over gadgets, then blueprints: `lane = gadget * num_blueprints + blueprint`. S subgames;
    everything is in the searching player's utility, in units of the game's payoff.

    Attributes:
      lookahead: the subgames down to the limit.
      values: for each blueprint `[H, K, K]` player 0's values of the leaves.
      player: the searching player.
      blueprint: the blueprints.
      gadgets: the solved gadgets.
      profiles: for each blueprint both players' average strategies, one lane for each gadget.
      gadget_value: `[S, lanes]` value guaranteed by the strategy in each depth-limited gadget game.
      gap: `[S, lanes]` NashConv of each of them; its optimum lies in [value, value + gap].
      has_decision: `[S, lanes]` False where a subgame had nothing to solve and the blueprint is unchanged.
      iterations: `[lanes]` completed iterations.
      failures: lanes that overflowed, with the subgame; their values are NaN, and their policy is the
        blueprint's.
    """

    lookahead: Forest
    values: tuple[FloatArray, ...]
    player: int
    blueprint: Policy
    gadgets: tuple[Gadget, ...]
    profiles: tuple[Profile, ...]
    gadget_value: FloatArray
    gap: FloatArray
    has_decision: BoolArray
    iterations: npt.NDArray[np.int64]
    failures: Mapping[int, str]

    def __repr__(self) -> str:
        worst = float(np.nanmax(self.gap, initial=0.0))
        return f"<Search {self.lookahead!r}, player {self.player}: largest gap {worst:.3g}>"

    @property
    def message(self) -> str:
        """One-sentence summary of the results."""
        worst, done = float(np.nanmax(self.gap, initial=0.0)), int(self.iterations.max())
        return (
            f"Largest gap of a depth-limited game {worst:.3g} after {done} iterations: its "
            "NashConv for the values at the limit. The loss in the whole game has no known bound"
        )

    @property
    def policy(self) -> Policy:
        """The blueprints with the player's strategies between roots and limit, one per lane."""
        lanes, player = self.lanes, self.player
        searched = Policy.stack(
            [
                self.profiles[blueprint].policy.lane(gadget)
                for gadget, blueprint in zip(lanes.gadget.tolist(), lanes.blueprint.tolist(), strict=True)
            ]
        )
        rows = self.blueprint.probabilities[1 - player][:, lanes.blueprint]
        return searched.with_player(1 - player, rows)

    @property
    def lanes(self) -> Lanes:
        """The gadget and blueprint of every lane."""
        return Lanes.product(gadgets=len(self.gadgets), blueprints=self.blueprint.num_lanes)

    @property
    def lane_columns(self) -> dict[str, Any]:
        """Player, blueprint, and gadget with its prior and ε of each lane."""
        return {
            "player": self.player,
            "blueprint": [self.blueprint.labels[blueprint] for blueprint in self.lanes.blueprint.tolist()],
            **gadget_columns(self.gadgets, self.lanes.gadget),
        }

    @property
    def number_columns(self) -> dict[str, Any]:
        """Values and gaps over all subgames; there is no bound on exploitability."""
        return {
            "exploitability_bound": np.full(len(self.lanes), np.nan),
            "gadget_value_sum": self.gadget_value.sum(axis=0),
            "gadget_value_min": self.gadget_value.min(axis=0),
            "gadget_value_max": self.gadget_value.max(axis=0),
            "gap_sum": self.gap.sum(axis=0),
            "gap_max": self.gap.max(axis=0),
        }


@moved(infostate="where=cut(tree, …).only(infostate)")
def search(
    tree: HistoryTree,
    where: CutSpec,
    blueprint: PolicyLike | Sequence[PolicyLike],
    gadgets: Gadget | Sequence[Gadget] | None = None,
    *,
    values: ValueFunction | Sequence[ValueFunction],
    depth: int = 1,
    player: int = 0,
    solver: Solver | None = None,
    iterations: int | None = None,
    algorithm: str | Rule | None = None,
) -> Search:
    """Re-solves every subgame below a cut down to a limit (Brown, Sandholm and Amos 2018).

    The limit is `depth` moves of the players below each root, as in cuts: the first decisions there are
    leaves. Alternative values are the opponent's best responses, down to the limit, to the blueprint
    continued by entry 0. A depth beyond the end solves the subgames as `jaxgadget.refine` does.

    The tree must contain all histories from the game's root to the limit, even when a single public state
    (`cut(tree, …).only(infostate)`) is searched. `enumerate_game(game, depth=…)` can stop at the limit; a
    blueprint and values for the whole game can be used with such a tree.

    Args:
      tree: the game's histories, at least down to the limit.
      where: the cut; see `jaxgadget.cut`.
      blueprint: profiles, as in `refine`.
      gadgets: by default those of `refine`.
      values: leaf values; one value function, or one for each blueprint. Alternative values assume that entry
        0 is that blueprint. Only a network records this, and a warning is issued if the two differ.
      depth: D >= 1.
      player: the searching player, 0 or 1.
      solver: settings; by default 2000 iterations of CFR+ in float32. Takes no `checkpoint` or `time_limit`.
      iterations: short for `Solver(iterations=…)`.
      algorithm: short for `Solver(algorithm=…)`.

    Raises:
      ValueError: for bad arguments, an infoset on both sides of the limit, a value function that returns no
        numbers or too large ones for `dtype`, or gadgets that need the trunk.
    """
    check_histories(tree)
    check_player(player)
    profiles = as_policy(blueprint, tree, name="blueprint")
    solver = choose_solver(
        solver,
        Solver(iterations=2000),
        iterations=iterations,
        algorithm=algorithm,
        without=("checkpoint", "time_limit"),
    ).iterative()
    requested = list_gadgets(gadgets, False, (player,))
    check_capabilities(requested, SEARCH, "a search", "Unsafe(), Resolving() or MaxMargin()")
    leaves, where = history_leaves(values, profiles), cut(tree, where)
    level, depth = SearchLevel(where.roots, where.subgame, where.name), check_depth(depth)
    schedule = Schedule(tree, player, "moves", depth, depth, (level,))
    lanes = Lanes.product(gadgets=len(requested), blueprints=profiles.num_lanes)
    shared: dict[int, list[int]] = {}  # blueprints with the same values are searched together
    for blueprint_idx, leaf in enumerate(leaves):
        shared.setdefault(id(leaf.values), []).append(blueprint_idx)
    searches = list[tuple[IntArray, Handover]]()
    with progress_bar("search", len(shared) * solver.num_iterations, solver.progress) as report:
        for done, blueprints in enumerate(shared.values()):
            in_search = np.flatnonzero(np.isin(lanes.blueprint, blueprints))
            run = NestedRun(
                schedule,
                leaves[blueprints[0]],
                profiles,
                requested,
                solver=solver,
                lanes=lanes.take(in_search),
            )

            def told(now: int, before: int = done * solver.num_iterations) -> None:
                report(before + now)

            searches.append((in_search, run.search(0, where, None, told, unsafe_first=False)))
    return _joined(searches, lanes, profiles, requested, player)


def _joined(
    searches: Sequence[tuple[IntArray, Handover]],
    lanes: Lanes,
    profiles: Policy,
    gadgets: tuple[Gadget, ...],
    player: int,
) -> Search:
    """The searches of all lanes, given those of some lanes each."""
    order = np.argsort(np.concatenate([in_search for in_search, _ in searches]))

    def join(of_solved: Callable[[SolvedLookahead], Any]) -> Any:
        return np.concatenate([of_solved(handover.solved) for _, handover in searches], axis=-1)[..., order]

    plans, values = dict[int, Profile](), dict[int, FloatArray]()
    for in_search, handover in searches:
        for blueprint in np.unique(lanes.blueprint[in_search]).tolist():
            plans[blueprint] = handover.plan.take_lanes(
                np.flatnonzero(lanes.blueprint[in_search] == blueprint)
            )
            values[blueprint] = handover.payoffs
    failures = [handover.solved.failures for _, handover in searches]
    return Search(
        lookahead=searches[0][1].lookahead,
        values=tuple(values[blueprint] for blueprint in range(profiles.num_lanes)),
        player=player,
        blueprint=profiles,
        gadgets=gadgets,
        profiles=tuple(plans[blueprint] for blueprint in range(profiles.num_lanes)),
        gadget_value=join(lambda solved: solved.value),
        gap=join(lambda solved: solved.gap),
        has_decision=join(lambda solved: solved.has_decision),
        iterations=join(lambda solved: solved.iterations),
        failures={
            int(in_search[lane]): why
            for (in_search, _), failed in zip(searches, failures, strict=True)
            for lane, why in failed.items()
        },
    )
