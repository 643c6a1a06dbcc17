"""Depth-limited solving: every subgame below a cut, down to a limit, with a value function below it.

`search` is to a lookahead what `jaxgadget.refine` is to whole subgames. Its gaps hold for the depth-limited
games; what its policies do below the limit is the blueprint's, so no bound of exploitability is known.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from jax.typing import DTypeLike

from jaxgadget.gadgets.gadget import Gadget, describe, prior_name
from jaxgadget.kernels.regret import Rule
from jaxgadget.policy.policy import Policy, PolicyLike, as_policy
from jaxgadget.refining.refine import list_gadgets
from jaxgadget.searching.lookahead import check_room, limit_by_depth
from jaxgadget.searching.solving import (
    Profile,
    Searched,
    find_ranges,
    name_lane,
    prepare_lookahead,
    root_reach,
    solve_lookahead,
)
from jaxgadget.solving.devices import Device
from jaxgadget.solving.driver import Report
from jaxgadget.solving.options import SolveOptions, make_options
from jaxgadget.tree.cut import CutSpec, cut
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.tree.history import HistoryTree, check_tree
from jaxgadget.util.arguments import check_player
from jaxgadget.util.arrays import BoolArray, FloatArray
from jaxgadget.util.progress import progress_bar
from jaxgadget.values.histories import ValueFunction, blueprint_digest, leaf_values, one_each


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Search:
    """Depth-limited subgames of one player, solved.

    Lanes run over gadgets, then blueprints: `lane = gadget * num_blueprints + blueprint`. S subgames;
    everything is in the searching player's utility, in units of the game's payoff.

    Attributes:
      lookahead: the subgames down to the limit.
      values: for each blueprint `[H, K, K]` what the leaves are worth to player 0.
      player: who searched.
      blueprint: the blueprints.
      gadgets: what was solved.
      profiles: for each blueprint both players' average strategies, a lane a gadget.
      gadget_value: `[S, lanes]` what the strategy guarantees in each depth-limited gadget game.
      gap: `[S, lanes]` NashConv of each of them; its optimum lies in [value, value + gap].
      has_decision: `[S, lanes]` False where a subgame had nothing to solve and the blueprint stayed.
      iterations: `[lanes]` done.
      failures: lanes that overflowed, and where; their numbers are NaN, and their policy is the blueprint's.
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
        """What the numbers mean, in a sentence."""
        worst, done = float(np.nanmax(self.gap, initial=0.0)), int(self.iterations.max())
        return (
            f"Largest gap of a depth-limited game {worst:.3g} after {done} iterations: its "
            "NashConv for the values at the limit. What is lost in the whole game has no bound here"
        )

    @property
    def policy(self) -> Policy:
        """The blueprints with the player's strategies between roots and limit, a lane each."""
        count, player = self.blueprint.num_lanes, self.player
        policies = [self.profiles[b].policy.lane(g) for g in range(len(self.gadgets)) for b in range(count)]
        searched = Policy.stack(policies)
        kept = Policy.stack([self.blueprint] * len(self.gadgets)).probabilities
        rows = [searched.probabilities[p] if p == player else kept[p] for p in (0, 1)]
        return Policy(self.blueprint.tree, (rows[0], rows[1]), searched.labels)

    @property
    def table(self) -> pd.DataFrame:
        """A row for every gadget and blueprint; nothing bounds exploitability."""
        count, rows = self.blueprint.num_lanes, list[dict[str, Any]]()
        for lane in range(self.gap.shape[1]):
            gadget, value, gap = self.gadgets[lane // count], self.gadget_value[:, lane], self.gap[:, lane]
            rows.append(
                {
                    "player": self.player,
                    "blueprint": self.blueprint.labels[lane % count],
                    "gadget": gadget.name,
                    "prior": prior_name(gadget),
                    "epsilon": gadget.epsilon,
                    "exploitability_bound": np.nan,
                    "gadget_value_sum": value.sum(),
                    "gadget_value_min": value.min(),
                    "gadget_value_max": value.max(),
                    "gap_sum": gap.sum(),
                    "gap_max": gap.max(),
                    "failure": self.failures.get(lane),
                }
            )
        return pd.DataFrame(rows)


def search(
    tree: HistoryTree,
    where: CutSpec,
    blueprint: PolicyLike | Sequence[PolicyLike],
    gadgets: Gadget | Sequence[Gadget] | None = None,
    *,
    values: ValueFunction | Sequence[ValueFunction],
    depth: int = 1,
    player: int = 0,
    infostate: str | None = None,
    algorithm: str | Rule = "cfr+",
    iterations: int = 2000,
    target_gap: float | None = None,
    dtype: DTypeLike = "float32",
    memory_limit: int | None = None,
    devices: Sequence[Device] | None = None,
    progress: bool | None = None,
) -> Search:
    """Re-solves every subgame below a cut down to a limit (Brown, Sandholm and Amos 2018).

    The limit is `depth` moves of the players below each root, as in cuts: the first decisions there are
    leaves. Alternative values are the opponent's best responses, down to the limit, to the blueprint
    continued by entry 0. A depth beyond the end solves the subgames as `jaxgadget.refine` does.

    The tree holds all from the game's root down to the limit: to search a public state deep in the game, even
    one alone (`infostate`), its whole trunk is enumerated. `enumerate_game(game, depth=…)` can stop at the
    limit; a blueprint and values for the whole game serve there too.

    Args:
      tree: the game's histories, at least to the limit.
      where: the cut; see `jaxgadget.cut`.
      blueprint: profiles, as in `refine`.
      gadgets: by default those of `refine`.
      values: at the leaves; one value function, or one for each blueprint. Alternative values take for
        granted that entry 0 is that blueprint; only a network knows, and a warning tells if it is not.
      depth: D >= 1.
      player: who searches, 0 or 1.
      infostate: search only the subgame in which this infostate lies.
      algorithm: a regret-matching rule, as in `refine`.
      iterations: at most that many.
      target_gap: stop when no gadget game in a chunk of lanes has a larger gap.
      dtype: of the solves; certificates are in float64.
      memory_limit: bytes that a solve may take on each device.
      devices: over which lanes are spread.
      progress: a bar, or a line a minute in a log; by default a bar, on a terminal or in a notebook.

    Raises:
      ValueError: for bad arguments, an infoset on both sides of the limit, a value function that
        returns no numbers or too large ones for `dtype`, or gadgets that look at the trunk.
    """
    check_tree(tree)
    check_player(player)
    profiles = as_policy(blueprint, tree, name="blueprint")
    options = make_options(
        algorithm=algorithm,
        iterations=iterations,
        target_gap=target_gap,
        dtype=dtype,
        memory_limit=memory_limit,
        devices=devices,
        exact=False,
    )
    asked, leaf = list_gadgets(gadgets, False, (player,)), values_for(values, profiles)
    spot = cut(tree, where)
    spot = spot if infostate is None else spot.only(infostate)
    leaves, num_entries = limit_by_depth(tree, spot, check_depth(depth)), leaf[0].num_entries
    check_room(leaves, num_entries, tree.game.name, options.placement)
    look = build_forest(tree, spot, limit=leaves, num_choices=num_entries)
    with progress_bar("search", len(leaf) * iterations, progress) as report:
        return _solve(look, profiles, asked, leaf, player, options, report)


def _solve(
    look: Forest,
    profiles: Policy,
    gadgets: tuple[Gadget, ...],
    values: Sequence[ValueFunction],
    player: int,
    options: SolveOptions,
    report: Report,
) -> Search:
    """One blueprint after the other, all gadgets side by side; `report` hears of all iterations."""
    distinct = {id(function): function for function in values}
    known = {
        key: leaf_values(function, look.tree, look.leaves.histories, options.dtype)
        for key, function in distinct.items()
    }
    plans, results = list[Profile](), list[Searched]()
    for number, function in enumerate(values):
        blueprint = spread(profiles.lane(number), gadgets)
        structure = prepare_lookahead(look, known[id(function)], player, options.placement.platform)
        before = Profile.of_blueprint(look, blueprint)
        ranges = find_ranges(structure, before, root_reach(look, blueprint))

        def told(done: int, number: int = number) -> None:
            report(number * options.iterations + done)

        names = [name_lane(gadget, profiles.labels[number]) for gadget in gadgets]
        results.append(
            solve_lookahead(structure, ranges, before.bodies(look), gadgets, options, told, names=names)
        )
        plans.append(before.with_bodies(look, results[-1].strategy))

    def by_gadget(arrays: Sequence[Any]) -> Any:
        return np.stack(arrays, axis=-1).reshape(len(arrays[0]), -1)

    return Search(
        lookahead=look,
        values=tuple(known[id(function)] for function in values),
        player=player,
        blueprint=profiles,
        gadgets=gadgets,
        profiles=tuple(plans),
        gadget_value=by_gadget([result.value for result in results]),
        gap=by_gadget([result.gap for result in results]),
        has_decision=by_gadget([result.has_decision for result in results]),
        iterations=np.stack([result.iterations for result in results], axis=-1).reshape(-1),
        failures={
            gadget * profiles.num_lanes + number: why
            for number, result in enumerate(results)
            for gadget, why in result.failures.items()
        },
    )


def spread(blueprint: Policy, gadgets: Sequence[Gadget]) -> Policy:
    """One blueprint as lanes, one for each gadget."""
    first, second = (np.repeat(rows, len(gadgets), axis=1) for rows in blueprint.probabilities)
    labels = tuple(f"{blueprint.labels[0]} | {describe(gadget)}" for gadget in gadgets)
    return Policy(blueprint.tree, (first, second), labels)


def values_for(values: ValueFunction | Sequence[ValueFunction], profiles: Policy) -> list[ValueFunction]:
    """A value function for each blueprint.

    Raises:
      ValueError: as `one_each`.

    Warns:
      UserWarning: if a network (`NetworkValues.blueprint`) was trained for another blueprint.
    """
    functions = one_each(values, profiles.num_lanes)
    for lane, function in enumerate(functions):
        known = getattr(function, "blueprint", None)
        if isinstance(known, str) and known != blueprint_digest(profiles.lane(lane)):
            warnings.warn(
                f"{function!r} was trained for another blueprint than {profiles.labels[lane]!r}: entry 0 is "
                "not the blueprint, which alternative values take for granted",
                stacklevel=3,
            )
    return functions


def check_depth(depth: object) -> int:
    """A whole number of moves, at least 1; ValueError otherwise."""
    if isinstance(depth, bool) or not isinstance(depth, int | np.integer) or depth < 1:
        raise ValueError(f"depth={depth!r}: expected a whole number of moves >= 1")
    return int(depth)
