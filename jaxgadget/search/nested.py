"""Nested depth-limited search: at each own decision a player searches again in the current subgame.

Kubíček, Lisý and Sandholm (2026), §8.1. A search is a function of the public history alone: it runs a
fixed number of iterations from nothing. So it can be run wherever the player's own play leads, for all
that the opponent may do, decision by decision, each of them a batch; and what comes out is a policy of the
whole game whose exploitability is known.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from jax.typing import DTypeLike

from jaxgadget.batch import Settings, prior_name
from jaxgadget.evaluate import check_player, check_value, exploitability, game_value
from jaxgadget.games.game import BoolArray, FloatArray, IntArray
from jaxgadget.policy import Policy
from jaxgadget.progress import progress_bar
from jaxgadget.refine import list_gadgets, make_settings, stack_blueprints
from jaxgadget.search.limited import check_depth, one_each, spread
from jaxgadget.search.lookahead import Lookahead, build_lookahead, limit_at_decisions
from jaxgadget.search.solving import Prepared, Profile, find_ranges, prepare, root_reach, solve_lookahead
from jaxgadget.search.value import ValueFunction, leaf_values
from jaxgadget.solve.devices import Device
from jaxgadget.solve.drive import Report
from jaxgadget.solve.entries import Unsafe
from jaxgadget.solve.gadget import Gadget
from jaxgadget.solve.parts import take_subgames
from jaxgadget.solve.ranges import Ranges
from jaxgadget.solve.regret import Rule
from jaxgadget.tree.cut import Cut, cut
from jaxgadget.tree.history import HistoryTree, check_tree

ITERATIONS = 3000
"""As the paper's nested solving (Kubíček et al. 2026, Table 1)."""

EPSILON = 2e-2
"""Likewise."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Nested:
    """Blueprints with one player's decisions replaced by nested search.

    Lanes run over gadgets, then blueprints. Values are in the searching player's utility.

    Attributes:
      player: who searches.
      blueprint: the blueprints.
      gadgets: at every search but the first, and there too where the opponent has acted before.
      depth: moves of the players down to the limit.
      num_entries: K, strategies of each player to choose from at the limit.
      leaf: what the values at the limit come from.
      policy: the assembled policies, a lane each.
      blueprint_exploitability: `[lanes]` the game's value less what the blueprint guarantees.
      nested_exploitability: `[lanes]` the same for the assembled policy.
      gap_max: `[lanes]` the largest NashConv of a search's game.
      searches: `[lanes]` subgames that were searched.
      game_value: bracket of player 0's value of the game.
      iterations: of each search.
      seconds: `[lanes]` a lane's share of the time.
      value_seconds: of them, spent in the value function, all lanes together.
      visits: for each blueprint, where its searches ended.
    """

    player: int
    blueprint: Policy
    gadgets: tuple[Gadget, ...]
    depth: int
    num_entries: int
    leaf: str
    policy: Policy
    blueprint_exploitability: FloatArray
    nested_exploitability: FloatArray
    gap_max: FloatArray
    searches: npt.NDArray[np.int64]
    game_value: tuple[float, float]
    iterations: int
    seconds: FloatArray
    value_seconds: float
    visits: tuple[Visits, ...]

    def __repr__(self) -> str:
        return f"<Nested of {self.policy.tree.game.name}: {self.policy.num_lanes} lane(s)>"

    @property
    def table(self) -> pd.DataFrame:
        """A row for every gadget and blueprint."""
        count, rows = self.blueprint.num_lanes, list[dict[str, Any]]()
        for lane in range(self.policy.num_lanes):
            gadget = self.gadgets[lane // count]
            rows.append(
                {
                    "player": self.player,
                    "blueprint": self.blueprint.labels[lane % count],
                    "gadget": gadget.name,
                    "prior": prior_name(gadget),
                    "epsilon": gadget.epsilon,
                    "depth": self.depth,
                    "k": self.num_entries,
                    "leaf": self.leaf,
                    "blueprint_exploitability": self.blueprint_exploitability[lane],
                    "nested_exploitability": self.nested_exploitability[lane],
                    "gap_max": self.gap_max[lane],
                    "searches": int(self.searches[lane]),
                    "seconds": self.seconds[lane],
                }
            )
        return pd.DataFrame(rows)


def nested_search(
    tree: HistoryTree,
    blueprint: Policy | Sequence[Policy],
    gadgets: Gadget | Sequence[Gadget] | None = None,
    *,
    values: ValueFunction | Sequence[ValueFunction],
    player: int = 0,
    depth: int = 1,
    algorithm: str | Rule = "cfr+",
    iterations: int = ITERATIONS,
    dtype: DTypeLike = "float32",
    value: tuple[float, float] | None = None,
    memory_limit: int | None = None,
    devices: Sequence[Device] | None = None,
    progress: bool | None = None,
) -> Nested:
    """Searches at every decision that a player's own play reaches, and evaluates what comes out.

    The first search of a line of play is unsafe where the opponent has not acted (exact: its reach is 1);
    else it has the blueprint's range, and alternative values from best responses, down to the limit, to the
    blueprint continued by entry 0. Later ones take reach, range and values from the search before. A
    lookahead ends at the first decisions of the player at least `depth` moves down.

    Args:
      tree: the game's histories.
      blueprint: profiles; what search does not reach stays theirs.
      gadgets: by default those of `refine` (with ε of 1e-3; the paper's nested solving has 2e-2).
      values: at the limit; one value function, or one for each blueprint.
      player: who searches, 0 or 1.
      depth: D, at least that many moves of the players down to the limit.
      algorithm: a regret-matching rule, as in `refine`.
      iterations: of every search.
      dtype: of the solves.
      value: bracket of player 0's value of the game, if known; else `game_value(tree)`.
      memory_limit: bytes that a solve may take on each device.
      devices: over which lanes are spread.
      progress: show a bar; by default if it takes two seconds and somebody watches.

    Raises:
      ValueError: for bad arguments, a value function that returns no numbers, gadgets that look at the
        trunk, or a game in which an infoset of the opponent lies on both sides of a decision.
    """
    check_tree(tree)
    check_player(player)
    check_value(value, tree)
    profiles = stack_blueprints(blueprint).on(tree)
    settings = make_settings(algorithm, (iterations, None, 100), dtype, None, None, memory_limit, devices)
    asked = list_gadgets(gadgets, exact=False)
    leaf, depth = one_each(values, profiles.num_lanes), check_depth(depth)
    levels = decisions(tree, player)
    found: list[Line] = []
    with progress_bar("nested search", profiles.num_lanes * len(levels) * iterations, progress) as report:
        for number, one in enumerate(leaf):
            before = number * len(levels) * iterations
            line = Line(tree, profiles.lane(number), asked, one, player, depth, settings)
            line.run(levels, lambda done, before=before: report(before + done))
            found.append(line)
    return _collect(found, profiles, game_value(tree, progress=progress) if value is None else value)


def decisions(tree: HistoryTree, player: int) -> list[Cut]:
    """Cuts at a player's first, second, … decisions on every line of play.

    Raises:
      ValueError: if an infoset of the opponent lies on both sides of one.
    """
    infosets = tree.infosets[player]
    acts = np.nonzero(tree.infoset[player] >= 0)[0]
    number = infosets.depth[tree.infoset[player, acts]]
    found: list[Cut] = []
    for level in range(int(number.max(initial=-1)) + 1):
        roots = acts[number == level]

        def own_decision(_: HistoryTree, roots: IntArray = roots) -> IntArray:
            return roots

        found.append(cut(tree, own_decision))
    return found


class Visits(NamedTuple):
    """Where searches end.

    Attributes:
      histories: `[H]` leaves of lookaheads.
      weights: `[H, K, K]` the probability that play under the average strategies gets to each of them and
        chooses each pair of entries there.
    """

    histories: IntArray
    weights: FloatArray


def inside(look: Lookahead, player: int) -> BoolArray:
    """`[Q]` which of a player's actions in the game lie between the roots and the limit."""
    infosets, found = look.tree.infosets[player], look.treeplex[player].infoset
    here = np.zeros(len(infosets), np.bool_)
    here[found[found >= 0]] = True
    return here[infosets.infoset[1:]]


class Line:
    """Nested search after one blueprint, all gadgets side by side: L lanes."""

    def __init__(
        self,
        tree: HistoryTree,
        blueprint: Policy,
        gadgets: tuple[Gadget, ...],
        values: ValueFunction,
        player: int,
        depth: int,
        settings: Settings,
    ):
        self.tree, self.player, self.depth, self.settings = tree, player, depth, settings
        self.gadgets, self.values = gadgets, values
        self.blueprint = spread(blueprint, gadgets)
        self.assembled = self.blueprint
        self.gap_max = np.zeros(len(gadgets))
        self.searches = np.zeros(len(gadgets), np.int64)
        self.seconds = self.value_seconds = 0.0
        self.visits: list[Visits] = []
        self.plan: Profile | None = None
        self.limit: tuple[IntArray, FloatArray] = (np.zeros(0, np.int64), np.zeros((0, 1, 1)))

    def run(self, levels: Sequence[Cut], report: Report) -> None:
        """Searches at all decisions, the first ones first.

        Args:
          levels: cuts at the player's decisions.
          report: is told the number of iterations done, all levels together.
        """
        begin = time.perf_counter()
        for number, where in enumerate(levels):
            before = number * self.settings.iterations
            self._search(where, lambda done, before=before: report(before + done))
        self.seconds = time.perf_counter() - begin

    def _search(self, where: Cut, report: Report) -> None:
        """Searches at the decisions of one level."""
        leaves = limit_at_decisions(self.tree, where, self.depth, self.player)
        values = self._values(leaves)
        whole = build_lookahead(where, leaves, self.values.num_entries)
        plan = Profile.of_blueprint(whole, self.blueprint)
        for subgames, gadgets in self._parts(where):
            part = where if len(subgames) == where.num_subgames else take_subgames(where, subgames)
            mine = part.root[leaves] >= 0
            look = whole if part is where else build_lookahead(part, leaves[mine], whole.num_entries)
            here = prepare(look, values[mine], self.player)
            ranges = self.find_ranges(here, plan)
            found = solve_lookahead(here, ranges, plan, gadgets, self.settings, report)
            plan = plan.with_bodies(look, found.strategy)
            self._count_visits(look, plan)
            self.gap_max = np.maximum(self.gap_max, np.where(found.live, found.gap, 0).max(axis=0, initial=0))
            self.searches += found.live.sum(axis=0)
            self._assemble(look, plan.policy, found.live)
        self.plan, self.limit = plan, (leaves, values)

    def _values(self, leaves: IntArray) -> FloatArray:
        begin = time.perf_counter()
        values = leaf_values(self.values, self.tree, leaves)
        self.value_seconds += time.perf_counter() - begin
        return values

    def _parts(self, where: Cut) -> list[tuple[IntArray, Sequence[Gadget]]]:
        """Subgames with the gadgets that are used there: unsafe first, where the opponent has not acted."""
        everything = np.arange(where.num_subgames)
        if self.plan is not None:
            return [(everything, self.gadgets)]
        acted = np.zeros(where.num_subgames, np.bool_)
        np.logical_or.at(acted, where.subgame, self.tree.sequence[1 - self.player, where.roots] > 0)
        parts = [(everything[~acted], [Unsafe()] * len(self.gadgets)), (everything[acted], self.gadgets)]
        return [part for part in parts if len(part[0])]

    def find_ranges(self, here: Prepared, fallback: Profile) -> Ranges:
        """What the search before brings to the roots, or the blueprint if there was none."""
        reach = root_reach(here.look, self.assembled)
        if self.plan is None:
            return find_ranges(here, fallback, reach)
        leaves, values = self.limit
        inside = here.look.cut.root[leaves] >= 0
        inner = build_lookahead(here.look.cut, leaves[inside], here.look.num_entries)
        before = prepare(inner, values[inside], self.player)
        return find_ranges(before, self.plan, reach)

    def _count_visits(self, look: Lookahead, plan: Profile) -> None:
        """How likely play under the averages gets to each leaf and pair of entries, the mean over lanes."""
        rows = [
            np.where(inside(look, p)[:, None], plan.policy.probabilities[p], self.assembled.probabilities[p])
            for p in (0, 1)
        ]
        policy = Policy(self.tree, (rows[0], rows[1]), self.assembled.labels)
        chosen: list[FloatArray] = []
        for player in (0, 1):
            reach = policy.reach(player)[self.tree.sequence[player, look.leaves]]
            state = np.searchsorted(plan.states[player], self.tree.infostate[player, look.leaves])
            chosen.append(reach[:, None] * plan.choice[player][state])
        lanes = np.einsum("hkx,hlx->hkl", *chosen, optimize=True) / len(self.gadgets)
        self.visits.append(Visits(look.leaves, self.tree.chance[look.leaves, None, None] * lanes))

    def _assemble(self, look: Lookahead, plan: Policy, live: BoolArray) -> None:
        """Takes over the decisions at the roots, and what the opponent was found to do below them."""
        player, other = self.player, 1 - self.player
        rows = [rows.copy() for rows in self.assembled.probabilities]
        infosets = self.tree.infosets[player]
        roots = look.roots[player]
        infoset = np.unique(self.tree.infoset[player, look.cut.roots])
        first = np.searchsorted(roots.infostate, self.tree.infostate[player, infosets.history[infoset]])
        own = self.assembled.reach(player)[infosets.parent[infoset]] > 0
        taken = own & live[roots.subgame[first]]
        mask = np.zeros((len(infosets), taken.shape[1]), np.bool_)
        mask[infoset] = taken
        rows[player] = np.where(mask[infosets.infoset[1:]], plan.probabilities[player], rows[player])
        rows[other] = np.where(inside(look, other)[:, None], plan.probabilities[other], rows[other])
        self.assembled = Policy(self.tree, (rows[0], rows[1]), self.assembled.labels)


def _collect(lines: Sequence[Line], profiles: Policy, value: tuple[float, float]) -> Nested:
    """All blueprints' lanes in order, evaluated in the full game."""
    first, blueprints, gadgets = lines[0], profiles.num_lanes, len(lines[0].gadgets)
    player, other = first.player, 1 - first.player

    def by_gadget(arrays: Sequence[Any]) -> Any:
        """Arrays `[…, gadgets]`, one a blueprint → `[…, gadgets × blueprints]`."""
        stacked = np.stack(arrays, axis=-1)
        return stacked.reshape(*stacked.shape[:-2], gadgets * blueprints)

    searched = by_gadget([line.assembled.probabilities[player] for line in lines])
    kept = np.tile(profiles.probabilities[other], (1, gadgets))
    labels = tuple(lines[b].assembled.labels[g] for g in range(gadgets) for b in range(blueprints))
    policy = Policy(profiles.tree, (searched, kept) if player == 0 else (kept, searched), labels)
    return Nested(
        player=player,
        blueprint=profiles,
        gadgets=first.gadgets,
        depth=first.depth,
        num_entries=first.values.num_entries,
        leaf=getattr(first.values, "name", type(first.values).__name__),
        policy=policy,
        blueprint_exploitability=np.tile(exploitability(profiles, player, value=value), gadgets),
        nested_exploitability=exploitability(policy, player, value=value),
        gap_max=by_gadget([line.gap_max for line in lines]),
        searches=by_gadget([line.searches for line in lines]),
        game_value=value,
        iterations=first.settings.iterations,
        seconds=by_gadget([np.full(gadgets, line.seconds / gadgets) for line in lines]),
        value_seconds=sum(line.value_seconds for line in lines),
        visits=tuple(Visits(*map(np.concatenate, zip(*line.visits, strict=True))) for line in lines),
    )
