"""Nested depth-limited search: at each own decision a player searches again in the current subgame.

Kubíček, Lisý and Sandholm (2026), §8.1. A search is a function of the public history alone: it runs a
fixed number of iterations from nothing. So it can be run wherever the player's own play leads, for all
that the opponent may do, decision by decision, each of them a batch; and what comes out is a policy of the
whole game whose exploitability is known.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pandas as pd
from jax.typing import DTypeLike

from jaxgadget.gadgets.gadget import Gadget, describe, prior_name
from jaxgadget.kernels.regret import Rule
from jaxgadget.policy.evaluate import check_value, exploitability, game_value
from jaxgadget.policy.policy import Policy, PolicyLike, as_policy
from jaxgadget.refining.refine import list_gadgets
from jaxgadget.searching.continual import count_searches, resolve_continually
from jaxgadget.searching.limited import check_depth, values_for
from jaxgadget.searching.line import Line, Visits, decisions
from jaxgadget.solving.devices import Device
from jaxgadget.solving.options import make_options
from jaxgadget.tree.cut import CutSpec
from jaxgadget.tree.history import HistoryTree, check_whole
from jaxgadget.util.arguments import check_player
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.clock import Stopwatch
from jaxgadget.util.progress import progress_bar
from jaxgadget.values.histories import ValueFunction
from jaxgadget.values.ranges import RangeValues, check_lanes, warn_of_doubts

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
      depth: moves of the players down to the limit; None if it is a cut.
      num_entries: K, strategies of each player to choose from at the limit.
      leaf: what the values at the limit come from.
      policy: the assembled policies, a lane each.
      blueprint_exploitability: `[lanes]` the game's value less what the blueprint guarantees.
      nested_exploitability: `[lanes]` the same for the assembled policy.
      gap_max: `[lanes]` the largest NashConv of a search's game; with range values, below the limit alone.
      searches: `[lanes]` subgames that were searched.
      game_value: bracket of player 0's value of the game.
      iterations: of each search.
      seconds: `[lanes]` a lane's share of the time.
      value_seconds: of them, spent in the value function, all lanes together; NaN for values of ranges.
      visits: for each blueprint, where its searches ended; nothing if that was not asked for.
      failures: lanes in which a search overflowed, and where; their exploitability and gap are NaN.
    """

    player: int
    blueprint: Policy
    gadgets: tuple[Gadget, ...]
    depth: int | None
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
    failures: Mapping[int, str]

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
                    "failure": self.failures.get(lane),
                }
            )
        return pd.DataFrame(rows)


def nested_search(
    tree: HistoryTree,
    blueprint: PolicyLike | Sequence[PolicyLike],
    gadgets: Gadget | Sequence[Gadget] | None = None,
    *,
    values: ValueFunction | Sequence[ValueFunction] | RangeValues,
    player: int = 0,
    depth: int | None = None,
    limit: CutSpec | None = None,
    algorithm: str | Rule = "cfr+",
    iterations: int = ITERATIONS,
    dtype: DTypeLike = "float32",
    value: tuple[float, float] | None = None,
    memory_limit: int | None = None,
    devices: Sequence[Device] | None = None,
    visits: bool | None = None,
    progress: bool | None = None,
) -> Nested:
    """Searches at every decision that a player's own play reaches, and evaluates what comes out.

    The first search of a line of play is unsafe where the opponent has not acted (exact: its reach is 1);
    else it has the blueprint's range, and alternative values from best responses, down to the limit, to the
    blueprint continued by entry 0. Later ones take reach, range and values from the search before. Lookaheads
    end at the first decisions of the player at least `depth` moves down. Large games call `jax.clear_caches`.

    With values of ranges search is DeepStack's: from the game's root down to `limit`, then again in the
    public states there, to the end, with the opponent's values of the search above.

    Args:
      tree: the game's histories.
      blueprint: profiles, as in `refine`; what search does not reach stays theirs.
      gadgets: by default those of `refine` (with ε of 1e-3; the paper's nested solving has 2e-2).
      values: at the limit; one value function, or one for each blueprint; or range values.
      player: who searches, 0 or 1.
      depth: D, at least that many moves of the players down to the limit, by default 1; for values of
        histories.
      limit: for range values, the cut where lookaheads end; by default the one that a network is for.
      algorithm: a regret-matching rule, as in `refine`.
      iterations: of every search.
      dtype: of the solves.
      value: bracket of player 0's value of the game, if known; else `game_value(tree)`.
      memory_limit: bytes a solve may take on each device: subgames go part by part.
      devices: over which lanes are spread.
      visits: count how often play gets to each leaf and pair of entries: K² numbers a leaf; by default for
        values of histories, for which alone it can be.
      progress: a bar, or a line a minute in a log; by default a bar, on a terminal or in a notebook.

    Raises:
      ValueError: for bad arguments, a value function that returns no numbers, gadgets that look at the
        trunk, or a game in which an infoset of the opponent lies on both sides of a decision.

    Warns:
      UserWarning: of range values that are not to be relied on, such as a network that is not finished.
    """
    check_whole(tree)
    check_player(player)
    check_value(value, tree)
    profiles = as_policy(blueprint, tree, name="blueprint")
    options = make_options(
        algorithm=algorithm,
        iterations=iterations,
        dtype=dtype,
        memory_limit=memory_limit,
        devices=devices,
        exact=False,
    )
    asked = list_gadgets(gadgets, False, (player,))
    if (ranged := _as_ranged(values)) is not None:
        at_limit = getattr(ranged, "cut", None) if limit is None else limit
        if at_limit is None:
            raise ValueError(f"limit=None for values={ranged!r}: expected the cut where lookaheads end")
        if depth is not None:
            raise ValueError(
                f"depth={depth!r} for values={ranged!r}: lookaheads end at a cut; expected limit=…"
            )
        how = {"algorithm": algorithm, "iterations": iterations, "dtype": dtype, "progress": progress}
        how |= {"value": value, "memory_limit": memory_limit, "devices": devices}
        if visits:
            raise ValueError(
                f"visits=True for values={ranged!r}: visits are counted for values of histories alone; leave "
                "it out"
            )
        check_lanes(ranged, profiles.num_lanes)
        warn_of_doubts([ranged])
        return _search_continually(profiles, asked, ranged, at_limit, player, how)
    if limit is not None:
        raise ValueError(f"limit={limit!r}: values of histories end at own decisions; expected depth=…")
    leaf, depth = values_for(values, profiles), check_depth(1 if depth is None else depth)  # pyright: ignore[reportArgumentType]
    levels = decisions(tree, player)
    lines: list[Line] = []
    work = sum(level.num_subgames for level in levels) * iterations
    with progress_bar("nested search", profiles.num_lanes * work, progress) as report:
        for number, value_function in enumerate(leaf):
            line = Line(
                tree,
                profiles.lane(number),
                asked,
                value_function,
                player,
                depth,
                options,
                visits=visits is not False,
            )
            line.run(levels, lambda done, before=number * work: report(before + done))
            lines.append(line)
    return _collect(lines, profiles, game_value(tree, progress=progress) if value is None else value)


def _as_ranged(values: Any) -> RangeValues | None:
    """Range values, unless they are values of histories; ValueError for several of them."""
    if isinstance(values, list | tuple) and any(_as_ranged(function) is not None for function in values):
        raise ValueError(
            f"values={values!r}: expected a single object for range values, which serves all blueprints; "
            "several are for values of histories"
        )
    if callable(values) and not hasattr(values, "num_entries"):
        return cast(RangeValues, values)
    return None


def _search_continually(
    profiles: Policy,
    gadgets: tuple[Gadget, ...],
    values: RangeValues,
    limit: CutSpec,
    player: int,
    how: dict[str, Any],
) -> Nested:
    """Continual re-solving with values of ranges."""
    with (watch := Stopwatch()).phase("run"):
        trunk, refined = resolve_continually(profiles, gadgets, values, limit, player, **how)
    other, count = 1 - player, len(gadgets)
    kept = np.tile(profiles.probabilities[other], (1, count))
    searched = refined.policy.probabilities[player]
    labels = tuple(f"{label} | {describe(g)}" for g in gadgets for label in profiles.labels)
    rows = (searched, kept) if player == 0 else (kept, searched)
    lanes = count * profiles.num_lanes
    undefined = np.isin(np.arange(lanes), list(refined.failures))
    return Nested(
        player=player,
        blueprint=profiles,
        gadgets=gadgets,
        depth=None,
        num_entries=1,
        leaf=f"{getattr(values, 'name', type(values).__name__)} at {trunk.limit.cut.name}",
        policy=Policy(profiles.tree, rows, labels),
        blueprint_exploitability=np.tile(exploitability(profiles, player, value=refined.game_value), count),
        nested_exploitability=refined.refined_exploitability,
        gap_max=np.where(undefined, np.nan, np.nanmax(refined.gap, axis=0, initial=0.0)),
        searches=count_searches(refined),
        game_value=refined.game_value,
        iterations=int(how["iterations"]),
        seconds=np.full(lanes, watch.seconds["run"] / lanes),
        value_seconds=float("nan"),
        visits=(),
        failures=refined.failures,
    )


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
    failures = {
        gadget * blueprints + number: f"after blueprint {profiles.labels[number]!r}, {why}"
        for number, line in enumerate(lines)
        for gadget, why in line.failures.items()
    }
    after, gap_max = exploitability(policy, player, value=value), by_gadget([line.gap_max for line in lines])
    for measured in (after, gap_max):
        measured[list(failures)] = np.nan
    return Nested(
        player=player,
        blueprint=profiles,
        gadgets=first.gadgets,
        depth=first.depth,
        num_entries=first.values.num_entries,
        leaf=getattr(first.values, "name", type(first.values).__name__),
        policy=policy,
        blueprint_exploitability=np.tile(exploitability(profiles, player, value=value), gadgets),
        nested_exploitability=after,
        gap_max=gap_max,
        searches=by_gadget([line.searches for line in lines]),
        game_value=value,
        iterations=first.options.iterations,
        seconds=by_gadget([np.full(gadgets, line.seconds / gadgets) for line in lines]),
        value_seconds=sum(line.value_seconds for line in lines),
        visits=tuple(_join_visits(line) for line in lines),
        failures=failures,
    )


def _join_visits(line: Line) -> Visits:
    """Of all searches of a line; none of a player who never acts."""
    size = line.values.num_entries
    none = Visits(np.zeros(0, np.int64), np.zeros((0, size, size)))
    return Visits(*map(np.concatenate, zip(none, *(line.visits or ()), strict=True)))
