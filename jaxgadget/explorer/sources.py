"""Result → Source: the strategies of a result, with the kind, base and numbers of each lane."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jaxgadget.core.results import LaneResult
from jaxgadget.explorer.nodes import Nodes, before_deals, find_nodes, flop_tree
from jaxgadget.holdem.solution import SpotSolution, SpotSolutions
from jaxgadget.holdem.spots import Spot
from jaxgadget.holdem.strategies import action_nodes, rows_to_policy
from jaxgadget.opponents.result import Responses
from jaxgadget.policy.evaluate import BestResponse
from jaxgadget.policy.lift import lift
from jaxgadget.policy.network import NetworkPolicy
from jaxgadget.policy.policy import Policy
from jaxgadget.policy.solve import Solution
from jaxgadget.subgames.depth_limited import Search
from jaxgadget.subgames.nested import Nested
from jaxgadget.subgames.off_tree import OffTree
from jaxgadget.subgames.refine import BothRefined, Refinement
from jaxgadget.subgames.spots import SpotRefinement, SpotRefinements
from jaxgadget.tree.history import check_histories, enumerate_game
from jaxgadget.tree.public import PublicTree
from jaxgadget.util.arguments import check_whole_number
from jaxgadget.util.arrays import FloatArray

if TYPE_CHECKING:
    import pandas as pd


class RefinedLanes(NamedTuple):
    """A refinement among the lanes of a source; of a spot of hold'em several, with a result each.

    Attributes:
      refinement: the refinement, or those of a spot.
      lanes: for each result its lane in the source, -1 if it is left out.
    """

    refinement: Refinement | tuple[SpotRefinement, ...]
    lanes: tuple[int, ...]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Source:
    """The strategies of a result in one tree.

    Attributes:
      title: title, such as the game and the kind of result.
      policy: the strategies, one lane each.
      groups: kind of each lane, such as `blueprint` or `refined`.
      base: the lane with which each lane is compared, -1 for none.
      spot: the spot of hold'em, if it is one.
      message: one-sentence summary of the result, such as its convergence.
      table: rows of numbers about lanes, None if there are none.
      rows: the lane of each row of the table.
      refined: the refinements whose results are among the lanes.
      worth: for both players `[n, H, lanes]` counterfactual values at the tree's nodes; None for those of its
        payoffs.
    """

    title: str
    policy: Policy
    groups: tuple[str, ...]
    base: tuple[int, ...]
    spot: Spot | None = None
    message: str = ""
    table: pd.DataFrame | None = None
    rows: tuple[int, ...] = ()
    refined: tuple[RefinedLanes, ...] = ()
    worth: tuple[FloatArray, FloatArray] | None = None

    @functools.cached_property
    def nodes(self) -> Nodes:
        """The public nodes of the tree."""
        return find_nodes(self.policy.tree, self.spot)

    def take(self, lanes: Sequence[int | str] | None) -> Source:
        """Some of the lanes, by number or label, and those that they are compared with.

        Raises:
          ValueError: if there is no such lane.
        """
        if lanes is None:
            return self
        chosen: list[int] = []
        for lane in lanes:
            chosen += self._numbers_of(lane)
        needed = sorted({*chosen, *(self.base[lane] for lane in chosen if self.base[lane] >= 0)})
        new_number = {lane: number for number, lane in enumerate(needed)}
        kept = [row for row, lane in enumerate(self.rows) if lane in new_number]
        return dataclasses.replace(
            self,
            policy=self.policy.take_lanes(np.array(needed)),
            groups=tuple(self.groups[lane] for lane in needed),
            base=tuple(new_number.get(self.base[lane], -1) for lane in needed),
            table=None if self.table is None else self.table.iloc[kept],
            rows=tuple(new_number[self.rows[row]] for row in kept),
            refined=tuple(
                each._replace(lanes=tuple(new_number.get(lane, -1) for lane in each.lanes))
                for each in self.refined
                if not new_number.keys().isdisjoint(each.lanes)
            ),
            worth=None if self.worth is None else (self.worth[0][..., needed], self.worth[1][..., needed]),
        )

    def _numbers_of(self, lane: int | str) -> list[int]:
        """The lanes with a number or label; if there is none, those whose label contains the text."""
        count, labels = self.policy.num_lanes, self.policy.labels
        if isinstance(lane, str) and not lane.isdecimal():
            numbers = [number for number, label in enumerate(labels) if lane == label]
            numbers = numbers or [number for number, label in enumerate(labels) if lane in label]
            if not numbers:
                shown = ", ".join(map(repr, labels[:5]))
                raise ValueError(f"lanes: {lane!r} is part of no label; expected one of {shown}, or a number")
            return numbers
        return [check_whole_number("lanes", int(lane), 0, count - 1)]


def find_sources(result: Any, title: str = "") -> list[Source]:
    """The strategies of a result, in one tree or, for several spots of hold'em, in several.

    Args:
      result: a policy, or a result with strategies; or a list of them. Policies of one tree are lanes.
      title: title; by default the game and the kind of result.

    Raises:
      ValueError: if the result has no strategies of a tree.
    """
    return _find_sources(result, title)


@functools.singledispatch
def _find_sources(result: Any, title: str) -> list[Source]:
    """The sources of a result by its class; this function is for those that only have a policy."""
    policy: Any = getattr(result, "policy", None)
    if not isinstance(policy, Policy):
        raise ValueError(
            f"result={type(result).__name__}: expected a result with strategies, such as a Policy, the "
            "result of solve, refine, nested_search, respond, nested_off_tree or solve_spots"
        )
    kind = "best response" if isinstance(result, BestResponse) else type(result).__name__
    return [_plain(result, policy, title or f"{policy.tree.game.name}: {kind}")]


@_find_sources.register(list)
@_find_sources.register(tuple)
def _of_several(result: Sequence[Any], title: str) -> list[Source]:
    if not result:
        raise ValueError("result: expected at least one result with strategies")
    if all(isinstance(each, SpotRefinement) and each.spot is result[0].spot for each in result):
        return _of_spot_refinements(result, title)
    if all(isinstance(each, Policy) and each.tree is result[0].tree for each in result):
        return find_sources(Policy.stack(result), title)
    if all(isinstance(each, SpotSolution) for each in result):
        by_spot: dict[Spot, list[SpotSolution]] = {}
        for each in result:
            by_spot.setdefault(each.spot, []).append(each)
        return [_of_solutions(several, title) for several in by_spot.values()]
    return [source for each in result for source in find_sources(each, title)]


@_find_sources.register(SpotRefinements)
def _of_spots(result: SpotRefinements, title: str) -> list[Source]:
    return [source for each in result for source in _of_spot_refinements(each, title)]


@_find_sources.register(SpotRefinement)
def _of_spot_refinement(result: SpotRefinement, title: str) -> list[Source]:
    return _of_spot_refinements([result], title)


@_find_sources.register(SpotSolution)
def _of_solution(result: SpotSolution, title: str) -> list[Source]:
    return [_of_solutions([result], title)]


@_find_sources.register(Policy)
def _of_policy(result: Policy, title: str) -> list[Source]:
    tree = result.tree
    if isinstance(tree, PublicTree) and tree.hands_game.deals is None:
        raise ValueError(
            f"result={result!r}: the chances of its hands are not known; for a spot of hold'em expected "
            "its SpotSolution, from solve_spots or evaluate_spot(spot, policy)"
        )
    return [_plain(result, result, title or f"{tree.game.name}: policies")]


@_find_sources.register(NetworkPolicy)
def _of_network(result: NetworkPolicy, title: str) -> list[Source]:
    return find_sources(result.on(enumerate_game(result.machine)), title)


@_find_sources.register(Refinement)
def _of_refinement(result: Refinement, title: str) -> list[Source]:
    return [_of_refinements([result], result.policy, result, title)]


@_find_sources.register(BothRefined)
def _of_both(result: BothRefined, title: str) -> list[Source]:
    return [_of_refinements(result.players, result.policy, result, title)]


@_find_sources.register(Nested)
@_find_sources.register(Search)
def _of_search(result: Nested | Search, title: str) -> list[Source]:
    kind = "nested search" if isinstance(result, Nested) else "search"
    return [_beside(result, result.blueprint, result.lanes.blueprint, "search", title or kind)]


@_find_sources.register(OffTree)
def _of_off_tree(result: OffTree, title: str) -> list[Source]:
    blueprint = lift(result.blueprint, check_histories(result.policy.tree))
    base = np.arange(result.policy.num_lanes) % blueprint.num_lanes
    source = _beside(result, blueprint, base, "answer", "")
    default = f"player {result.player}'s answers ({result.method}): {blueprint.tree.game.name}"
    note = "After actions off its menu the blueprint has no strategy, and is shown as uniform"
    return [dataclasses.replace(source, title=title or default, message=f"{source.message}. {note}")]


@_find_sources.register(Responses)
def _of_responses(result: Responses, title: str) -> list[Source]:
    models, base = result.opponents.policy, np.arange(len(result.opponents))
    return [_beside(result, models, base, "response", title or f"responses ({result.method})")]


@_find_sources.register(Solution)
def _of_whole_game(result: Solution, title: str) -> list[Source]:
    return [_plain(result, result.policy, title or f"{result.name}: {result.algorithm}")]


def _plain(result: object, policy: Policy, title: str) -> Source:
    """A result whose table has a row for each lane of its policy."""
    table, message = None, ""
    if isinstance(result, LaneResult):
        table, message = result.table, result.message
    rows = tuple(range(policy.num_lanes)) if table is not None and len(table) == policy.num_lanes else ()
    return Source(
        title=title,
        policy=policy,
        groups=("policy",) * policy.num_lanes,
        base=(-1,) * policy.num_lanes,
        message=message,
        table=table if rows else None,
        rows=rows,
    )


def _beside(result: Any, blueprint: Policy, base: Any, group: str, title: str) -> Source:
    """A result's lanes after the policies with which they are compared."""
    policy: Policy = result.policy
    blueprint = blueprint.on(policy.tree)
    first = blueprint.num_lanes
    return Source(
        title=f"{policy.tree.game.name}: {title}",
        policy=Policy.stack([blueprint, policy]),
        groups=("model" if isinstance(result, Responses) else "blueprint",) * first
        + (group,) * policy.num_lanes,
        base=(-1,) * first + tuple(np.asarray(base).tolist()),
        message=result.message,
        table=result.table,
        rows=tuple(range(first, first + policy.num_lanes)),
    )


def _of_refinements(
    refinements: Sequence[Refinement], policy: Policy, result: LaneResult, title: str
) -> Source:
    first = refinements[0]
    source = _beside(
        result,
        first.blueprint,
        first.lanes.blueprint,
        "refined",
        title or f"{first.forest.cut.name} refined",
    )
    lanes = tuple(range(first.blueprint.num_lanes, source.policy.num_lanes))
    return dataclasses.replace(
        source,
        rows=lanes * len(refinements),
        refined=tuple(RefinedLanes(each, lanes) for each in refinements if has_subgames(each)),
    )


def has_subgames(refinement: Refinement) -> bool:
    """True for a refinement of the subgames of a cut, which can be described one by one."""
    return refinement.knowledge is None and refinement.forest.cover.is_cut


def _of_solutions(solutions: Sequence[SpotSolution], title: str) -> Source:
    """Solutions of one spot; the others are compared with the first."""
    first, count = solutions[0], len(solutions)
    message = "; ".join(
        f"After {each.iterations} iterations: {each.describe_quality()}" for each in solutions
    )
    worth = None
    if first.spot.is_flop:
        policies = _flop_policies(solutions)
        worth = _worth_on_flop(solutions, 0), _worth_on_flop(solutions, 1)
        message += ". Turns have pages of their own (--line with a card, or solution.after)"
    else:
        policies = [each.policy for each in solutions]
    rows = [np.concatenate([each.probabilities[player] for each in policies], axis=1) for player in (0, 1)]
    labels = [each.labels[0] for each in policies]
    if len(set(labels)) < count:
        labels = [f"{label} ({number})" for number, label in enumerate(labels, 1)]
    return Source(
        title=title or f"{first.spot.title}: {first.algorithm}",
        policy=Policy(policies[0].tree, (rows[0], rows[1]), tuple(labels)),
        groups=("policy",) * count,
        base=(-1,) + (0,) * (count - 1),
        spot=first.spot,
        message=message,
        table=SpotSolutions(solutions).table.drop(columns=["spot", "label", "board", "gap", "failure"]),
        rows=tuple(range(count)),
        worth=worth,
    )


def _flop_policies(solutions: Sequence[SpotSolution]) -> list[Policy]:
    """The strategies of a flop before the turn is dealt, as policies of one tree."""
    spot = solutions[0].spot
    tree, kept = flop_tree(spot), before_deals(spot)
    policies: list[Policy] = []
    for each in solutions:
        rows: list[FloatArray] = []
        for player in (0, 1):
            every = action_nodes(spot.betting.tree, player)
            rows.append(each.probabilities[player][np.isin(every, kept)])
        policies.append(rows_to_policy(tree, (rows[0], rows[1]), f"{each.algorithm}:{each.iterations}"))
    return policies


def _worth_on_flop(solutions: Sequence[SpotSolution], player: int) -> FloatArray:
    """`[n, H, lanes]` a player's counterfactual values before the turn is dealt."""
    nodes = before_deals(solutions[0].spot).tolist()
    return np.stack(
        [np.stack([each.flop_worth[node][player] for node in nodes]) for each in solutions], axis=-1
    )


def _of_spot_refinements(refinements: Sequence[SpotRefinement], title: str) -> list[Source]:
    import pandas as pd

    from jaxgadget.gadgets.gadget import describe

    first = refinements[0]
    count = len(refinements)
    labels = tuple(describe(each.gadget) for each in refinements)
    policies = [first.blueprint, *(each.policy for each in refinements)]
    rows = [np.concatenate([each.probabilities[player] for each in policies], axis=1) for player in (0, 1)]
    return [
        Source(
            title=title or f"{first.spot.title}: re-solved",
            policy=Policy(first.blueprint.tree, (rows[0], rows[1]), (*first.blueprint.labels, *labels)),
            groups=("blueprint",) + ("refined",) * count,
            base=(-1,) + (0,) * count,
            spot=first.spot,
            table=pd.DataFrame([each.to_row() for each in refinements]).drop(columns=["board"]),
            rows=tuple(range(1, count + 1)),
            refined=(RefinedLanes(tuple(refinements), tuple(range(1, count + 1))),),
        )
    ]
