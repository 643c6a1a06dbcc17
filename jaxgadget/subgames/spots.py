"""Safe re-solving of spots: gadgets with priors, given a player's blueprint or its values.

A spot is a subgame of a larger game. Its ranges give the reach of each hand of both players, with all pairs
of hands dealt uniformly. The opponent may reach the spot with hands outside its blueprint's range. Each hand
compatible with the board is therefore one of its roots, with the mass `N(s)` of the resolving player's
compatible hands, and an alternative value `V̄(s)`, the opponent's best-response value with that hand against
the blueprint. Two-level gadgets need no other data; their tables, entry and solver are those of `refine`.

Values are conditional on reaching the spot under both blueprints, `Σ_s P(s)·N(s) = 1`; internally in pots, in
the public interface in chips. To bound the exploitability of a whole game, multiply by the probability of
reaching the spot.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxgadget.core.batch import Batch
from jaxgadget.core.devices import HOME
from jaxgadget.core.regret import Rule
from jaxgadget.core.solver import Solver, choose_solver
from jaxgadget.gadgets.capabilities import Capability, check_capabilities
from jaxgadget.gadgets.entry import EntryTables
from jaxgadget.gadgets.gadget import Gadget, describe, prior_name
from jaxgadget.gadgets.games import build_games
from jaxgadget.gadgets.ranges import Ranges
from jaxgadget.gadgets.root_gadgets import MaxMargin, Resolving, Unsafe
from jaxgadget.gadgets.structure import Bodies, opponent_values
from jaxgadget.holdem.cards import HANDS
from jaxgadget.holdem.solve import (
    SpotSolution,
    build_batch,
    evaluate_spot,
    is_policy_of,
    most_at_once,
    policy_to_bodies,
    target_in_pots,
)
from jaxgadget.holdem.spots import Spot
from jaxgadget.holdem.strategies import body_order, body_to_rows, rows_to_policy, uniform_rows
from jaxgadget.holdem.translate import translate_solution
from jaxgadget.policy.policy import Policy
from jaxgadget.subgames.engine import solve_games
from jaxgadget.subgames.refine import list_gadgets
from jaxgadget.tree.public import public_tree
from jaxgadget.tree.sequence import SequenceForm
from jaxgadget.tree.whole import sequence_form
from jaxgadget.util.arguments import check_player
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.lanes import Lanes
from jaxgadget.util.players import Bracket, pair_for
from jaxgadget.util.precision import precision
from jaxgadget.util.progress import progress_bar


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SpotRefinement:
    """A spot re-solved by one player with one gadget. Values are in chips, certified in float64.

    Exploitabilities are those of the player's strategy in the spot, with the opponent's range: the spot's
    value, at the middle of its bracket, minus the strategy's value against a best response.

    Attributes:
      spot: the spot.
      player: the resolving player.
      gadget: the gadget.
      policy: of `public_tree(spot)`: the refined strategy, and the opponent's blueprint, uniform if none is
        known.
      alternative: `[H]` value promised to the opponent with each hand, in expected chips, or its
        best-response value if the gadget makes no promise; NaN for hands that it cannot have.
      best_response: `[H]` its best-response value against the refined strategy, likewise.
      gadget_value: value guaranteed by the solution in the gadget game.
      gap: NashConv of the gadget game.
      margin: promised value minus the opponent's value, minimum over its hands.
      largest_rise: upper bound on the rise of exploitability in any game that contains the spot, if the
        blueprints are played above it: `Σ_s [V̄(s) − V(s)]⁺`. Requires that V̄ is the blueprint's value.
      blueprint_exploitability: of the blueprint in the spot, by V̄.
      refined_exploitability: of the refined strategy in the spot.
      exploitability_bound: the blueprint's exploitability plus the rise allowed by the gadget's certificate;
        NaN if unknown.
      game_value: bracket of player 0's value of the spot, minus half of the pot.
      algorithm: the algorithm's name.
      iterations: completed iterations.
    """

    spot: Spot
    player: int
    gadget: Gadget
    policy: Policy
    alternative: FloatArray
    best_response: FloatArray
    gadget_value: float
    gap: float
    margin: float
    largest_rise: float
    blueprint_exploitability: float
    refined_exploitability: float
    exploitability_bound: float
    game_value: tuple[float, float]
    algorithm: str
    iterations: int

    def __repr__(self) -> str:
        return (
            f"<SpotRefinement {self.spot.board}: {describe(self.gadget)}, exploitability "
            f"{self.blueprint_exploitability:.3g} → {self.refined_exploitability:.3g} chips, "
            f"gap {self.gap:.3g}>"
        )

    @functools.cached_property
    def solution(self) -> SpotSolution:
        """Both players' strategies evaluated in the spot: EVs, strategies and pictures, hand by hand."""
        return evaluate_spot(self.spot, self.policy)

    def to_row(self) -> dict[str, Any]:
        """Row of `jaxgadget holdem --json`, with the column names of `Refinement.table`; in chips."""
        return {
            "board": self.spot.board,
            "player": self.player,
            "gadget": self.gadget.name,
            "prior": prior_name(self.gadget),
            "epsilon": self.gadget.epsilon,
            "blueprint_exploitability": self.blueprint_exploitability,
            "refined_exploitability": self.refined_exploitability,
            "exploitability_bound": self.exploitability_bound,
            "largest_rise": self.largest_rise,
            "margin": self.margin,
            "gadget_value": self.gadget_value,
            "gap": self.gap,
            "iterations": self.iterations,
        }


def refine_spots(
    spots: Sequence[Spot],
    gadgets: Gadget | Sequence[Gadget] | None = None,
    *,
    blueprints: Sequence[SpotSolution | Policy | None] | None = None,
    alternatives: Sequence[FloatArray | None] | None = None,
    player: int = 0,
    hands_in_range: bool = False,
    on_refined: Callable[[Mapping[int, Sequence[SpotRefinement]]], None] | None = None,
    solver: Solver | None = None,
    iterations: int | None = None,
    algorithm: str | Rule | None = None,
) -> list[list[SpotRefinement]]:
    """Re-solves spots for a player, each with every gadget; spots with trees of equal shape are batched.

    Args:
      spots: subgames, with the ranges of both players' blueprints.
      gadgets: unsafe, resolving and max-margin with any prior; by default resolving and max-margin.
      blueprints: for every spot both players' strategies: the solution of a spot with the same board, pot and
        stack, whose menu may differ (see `translate_solution`), a policy of `public_tree(spot)`, or None.
      alternatives: for every spot the opponent's best-response value against the player's blueprint with each
        hand, in expected chips as `SpotSolution.hand_ev`: `[1326]` in the order of all hands, or `[H]` of
        those left on the board; NaN for hands out of its range that it cannot have. By default, and for None,
        best-response values against the blueprint.
      player: the resolving player, 0 or 1.
      hands_in_range: restrict the opponent to hands in its range; by default it may have any hand, making
        the strategy safe in the larger game.
      on_refined: callback; receives each completed batch's refinements, by the indices of their spots.
      solver: settings; by default 1000 iterations of CFR+ in float32. Its `target_gap` is NashConv in chips,
        or as `1%` of the pot of each spot. Takes no `checkpoint`, `time_limit` or `devices`.
      iterations: short for `Solver(iterations=…)`.
      algorithm: short for `Solver(algorithm=…)`.

    Returns:
      For every spot, in order, one refinement for each gadget.

    Raises:
      ValueError: if an argument is out of range, a spot has neither a blueprint nor alternative values, or a
        gadget needs the trunk.
    """
    check_player(player)
    asked = check_spot_gadgets((Resolving(), MaxMargin()) if gadgets is None else gadgets)
    given = _check_given(spots, blueprints, alternatives, player, hands_in_range)
    for gadget in asked:
        if Capability.PLAYED in gadget.requires and any(one.policy is None for one in given):
            raise ValueError(
                f"gadget {describe(gadget)}: it promises what both blueprints get; expected blueprints"
            )
    solver = choose_solver(
        solver,
        Solver(iterations=1000, devices=HOME.devices),
        iterations=iterations,
        algorithm=algorithm,
        without=("checkpoint", "time_limit", "devices"),
        pots=True,
    ).iterative()
    iterations, in_pots = solver.num_iterations, target_in_pots(solver)
    groups: dict[tuple[int, bytes], list[int]] = collections.defaultdict(list)
    for number, spot in enumerate(spots):
        groups[len(spot.cards), spot.betting.shape].append(number)
    parts: list[list[int]] = []
    for alike in groups.values():
        lanes = 1 if len(alike) == 1 else most_at_once(_with_any_hand(spots[alike[0]]), solver)
        most = max(1, lanes // (len(asked) + 1))
        parts += [alike[begin : begin + most] for begin in range(0, len(alike), most)]
    refined: dict[int, list[SpotRefinement]] = {}
    with progress_bar("refining", len(parts) * iterations, solver.progress) as report:
        for done, numbers in enumerate(parts):
            members = [given[number] for number in numbers]
            goal = None if in_pots is None else min(in_pots(one.spot) for one in members)
            solved = _refine_alike(
                members,
                asked,
                player,
                dataclasses.replace(solver, target_gap=goal),
                lambda now, before=done: report(before * iterations + now),
            )
            batch = dict(zip(numbers, solved, strict=True))
            refined |= batch
            if on_refined is not None:
                on_refined(batch)
            report((done + 1) * iterations)
    return [refined[number] for number in range(len(spots))]


class _Given(NamedTuple):
    """A spot with the blueprints' strategies or values there.

    Attributes:
      spot: the spot.
      policy: of `public_tree(spot)`, one lane; None if unknown.
      alternative: `[H]` values promised to the opponent, in expected chips; None for best-response values.
      considered: `[H]` mask of the hands that the opponent may have.
    """

    spot: Spot
    policy: Policy | None
    alternative: FloatArray | None
    considered: BoolArray


SPOT = frozenset({Capability.PLAYED, Capability.RANGE, Capability.ROOT_PRIOR})
"""Capabilities of spots, of which only the ranges are known."""


def check_spot_gadgets(gadgets: Gadget | Sequence[Gadget]) -> tuple[Gadget, ...]:
    """The requested gadgets; ValueError for a gadget that needs data that a spot lacks."""
    asked = list_gadgets(gadgets, exact=False)
    check_capabilities(
        asked,
        SPOT,
        "a spot",
        "unsafe, resolving or max-margin, with a number for epsilon; alternative values in chips are "
        "alternatives=",
    )
    return asked


def _check_given(
    spots: Sequence[Spot],
    blueprints: Sequence[SpotSolution | Policy | None] | None,
    alternatives: Sequence[FloatArray | None] | None,
    player: int,
    hands_in_range: bool,
) -> list[_Given]:
    """Validates and normalises the inputs of each spot."""
    for name, several in (("blueprints", blueprints), ("alternatives", alternatives)):
        if several is not None and len(several) != len(spots):
            raise ValueError(f"{name}: {len(several)} for {len(spots)} spots; expected one for each, or None")
    every: list[_Given] = []
    for number, spot in enumerate(spots):
        if not isinstance(spot, Spot):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"spots[{number}]={spot!r}: expected a Spot")
        blueprint = None if blueprints is None else blueprints[number]
        values = None if alternatives is None else alternatives[number]
        if blueprint is None and values is None:
            raise ValueError(
                f"spots[{number}] has neither a blueprint nor alternative values: expected the solution of a "
                "spot with another menu, a policy of public_tree(spot), or the opponent's chips by hand"
            )
        alternative = None if values is None else _read_alternative(values, spot, f"alternatives[{number}]")
        in_range, considered = spot.range_weights[1 - player] > 0, spot.meets(1 - player)
        if alternative is not None:
            nameless = np.flatnonzero(considered & in_range & np.isnan(alternative))
            if len(nameless):
                raise ValueError(
                    f"alternatives[{number}]: NaN with {spot.hand_names[nameless[0]]}, which is in the "
                    "opponent's range; expected chips for all of it"
                )
            considered &= ~np.isnan(alternative)
        if hands_in_range:
            considered &= in_range
        policy = None if blueprint is None else _read_blueprint(blueprint, spot, f"blueprints[{number}]")
        every.append(_Given(spot, policy, alternative, considered))
    return every


def _read_alternative(values: Any, spot: Spot, name: str) -> FloatArray:
    """`[H]` of either form."""
    array = np.asarray(values)
    if array.shape not in ((len(HANDS),), (len(spot.hands),)) or array.dtype.kind not in "fiu":
        raise ValueError(
            f"{name} of shape {array.shape} and type {array.dtype}: expected chips for all hands, "
            f"[{len(HANDS)}], or for those left on {spot.board!r}, [{len(spot.hands)}]; NaN for none"
        )
    chips = array.astype(np.float64)[spot.hands] if len(array) == len(HANDS) else array.astype(np.float64)
    wrong = np.flatnonzero((chips < -spot.stack) | (chips > spot.pot + spot.stack))
    if len(wrong):
        raise ValueError(
            f"{name}: {chips[wrong[0]]:g} chips with {spot.hand_names[wrong[0]]}; expected a share of "
            f"the pot less what is put in, {-spot.stack:g} to {spot.pot + spot.stack:g}, or NaN for none"
        )
    return chips


def _read_blueprint(blueprint: Any, spot: Spot, name: str) -> Policy:
    """A policy of the spot."""
    if isinstance(blueprint, SpotSolution):
        try:
            return translate_solution(blueprint, spot)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    if isinstance(blueprint, Policy) and is_policy_of(spot, blueprint):
        return blueprint
    raise ValueError(
        f"{name}={blueprint!r}: expected a SpotSolution, a single policy of public_tree(spot), or None"
    )


def _with_any_hand(spot: Spot) -> Spot:
    """The spot with all hands in its structure, as the opponent may hold hands outside its range."""
    return dataclasses.replace(spot, oop="random", ip="random")


class _Resolved(NamedTuple):
    """Solutions of a gadget, one lane per spot; in pots, in the resolving player's utility.

    Attributes:
      body: `[Q × H, spots]` its strategy.
      value: `[spots]` value that it guarantees in the gadget game.
      gap: `[spots]` NashConv.
      below: `[H, spots]` `V(s)` of the opponent's hands.
      loss: `[spots]` upper bound on the rise of exploitability by the certificate, if known.
      iterations: `[spots]` completed iterations.
    """

    body: FloatArray
    value: FloatArray
    gap: FloatArray
    below: FloatArray
    loss: FloatArray
    iterations: IntArray


def _refine_alike(
    given: Sequence[_Given],
    asked: tuple[Gadget, ...],
    player: int,
    solver: Solver,
    report: Callable[[int], None],
) -> list[list[SpotRefinement]]:
    """Re-solves spots whose trees have one shape: for each a refinement for every gadget."""
    spots = [_with_any_hand(one.spot) for one in given]
    form = sequence_form(public_tree(spots[0]))
    batch = build_batch(spots, form)
    strategy = _strategies(given, form)
    ranges = _find_ranges(
        given, batch, strategy, player, any(Capability.PLAYED in gadget.requires for gadget in asked)
    )
    for gadget in asked:
        gadget.check(len(ranges.subgame), len(given))
    # The unsafe gadget is the spot itself, and brackets its value.
    every = asked if Unsafe() in asked else (*asked, Unsafe())
    tables = [_only_considered(gadget.tables(ranges), ranges.mass > 0) for gadget in every]
    # Gadgets with the same choices are lanes: a pick that is forced among a thousand hands, by floors that
    # sum to 1, would be rounded in float32.
    alike: dict[tuple[bool, bool], list[int]] = collections.defaultdict(list)
    for number, table in enumerate(tables):
        alike[table.pick is None, table.leave is None].append(number)
    outcomes: dict[int, _Resolved] = {}
    for numbers in alike.values():
        begun = len(outcomes)

        def report_part(now: int, begun: int = begun, part: int = len(numbers)) -> None:
            report((begun * solver.num_iterations + now * part) // len(every))

        several = _solve_gadgets(
            batch,
            ranges,
            [every[number] for number in numbers],
            [tables[number] for number in numbers],
            player,
            strategy[player],
            solver,
            report_part,
        )
        outcomes |= dict(zip(numbers, several, strict=True))
    itself = outcomes[every.index(Unsafe())]
    refinements: list[list[SpotRefinement]] = [[] for _ in given]
    trees = [public_tree(one.spot) for one in given]
    for number, gadget in enumerate(asked):
        for lane, one in enumerate(given):
            outcome = outcomes[number]
            bodies = [rows[:, lane] for rows in strategy]
            bodies[player] = outcome.body[:, lane]
            rows = body_to_rows(form, 0, bodies[0]), body_to_rows(form, 1, bodies[1])
            policy = rows_to_policy(trees[lane], rows, describe(gadget))
            refinements[lane].append(
                _conclude_spot(one.spot, gadget, policy, solver.name, ranges, outcome, itself, player, lane)
            )
    return refinements


def _conclude_spot(
    spot: Spot,
    gadget: Gadget,
    policy: Policy,
    algorithm: str,
    ranges: Ranges,
    outcome: _Resolved,
    itself: _Resolved,
    player: int,
    lane: int,
) -> SpotRefinement:
    """A lane of an outcome, in chips."""
    pot, weight = spot.pot, ranges.opponent[:, lane]
    best, got = ranges.cbv[:, lane], outcome.below[:, lane]
    promised = best if gadget.offer is None else gadget.offer.values(ranges)[:, lane]
    low = pot * float(itself.value[lane])
    bracket = Bracket(low, low + pot * max(float(itself.gap[lane]), 0))
    before, after = (bracket.middle - pot * float(weight @ values) for values in (best, got))
    alternative, response = (_per_hand(values, ranges, lane, pot) for values in (promised, got))
    considered = ranges.mass[:, lane] > 0
    fewer, rises = alternative[considered] - response[considered], (best - got)[considered]
    return SpotRefinement(
        spot=spot,
        player=player,
        gadget=gadget,
        policy=policy,
        alternative=alternative,
        best_response=response,
        gadget_value=pot * float(outcome.value[lane]),
        gap=pot * max(float(outcome.gap[lane]), 0),  # less is rounding
        margin=float(fewer.min()),
        largest_rise=pot * float(np.maximum(rises, 0).sum()),
        blueprint_exploitability=before,
        refined_exploitability=after,
        exploitability_bound=before + pot * float(outcome.loss[lane]),
        game_value=bracket.for_player(player),
        algorithm=algorithm,
        iterations=int(outcome.iterations[lane]),
    )


def _per_hand(values: FloatArray, ranges: Ranges, lane: int, pot: float) -> FloatArray:
    """`[H]` the opponent's expected chips, of values in the other's utility; NaN for hands it cannot have."""
    mass = ranges.mass[:, lane]
    considered = mass > 0
    chips = np.full(len(mass), np.nan)
    chips[considered] = pot / 2 - pot * values[considered] / mass[considered]
    return chips


def _strategies(given: Sequence[_Given], form: SequenceForm) -> tuple[FloatArray, FloatArray]:
    """Both players' blueprints `[Q × H, spots]`, uniform where none is known."""
    uniform = [
        uniform_rows(given[0].spot.betting.tree, player)[body_order(form, player)] for player in (0, 1)
    ]
    unknown = tuple(np.repeat(rows, len(given[0].spot.hands))[:, None] for rows in uniform)
    bodies = [unknown if one.policy is None else policy_to_bodies(one.policy) for one in given]
    first, second = (np.concatenate([pair[player] for pair in bodies], axis=1) for player in (0, 1))
    return first, second


def _find_ranges(
    given: Sequence[_Given],
    batch: Batch,
    strategy: tuple[FloatArray, FloatArray],
    player: int,
    played: bool,
) -> Ranges:
    """Ranges of the blueprints at the spots, one lane per spot; roots are the opponent's hands."""
    other = 1 - player
    considered = np.stack([one.considered for one in given], axis=-1)

    def by_hand(of: Callable[[Spot], FloatArray]) -> FloatArray:
        return np.stack([of(one.spot) for one in given], axis=-1)

    resolver = by_hand(lambda spot: spot.range_weights[player] / spot.weight_of_pairs)
    opponent = np.where(considered, by_hand(lambda spot: spot.range_weights[other]), 0)
    mass = np.where(considered, by_hand(lambda spot: spot.compatible[other] / spot.weight_of_pairs), 0)
    reach = pair_for(player, resolver, opponent)
    with precision(np.float64):
        best, followed = opponent_values(
            batch.sides, batch.payoff, strategy, reach, player=player, played=played
        )
    cbv = -np.asarray(best)
    for lane, one in enumerate(given):
        if one.alternative is not None:
            promised = one.alternative / one.spot.pot - 0.5
            cbv[:, lane] = -promised * mass[:, lane]
    return Ranges(
        num_subgames=1,
        subgame=np.zeros(len(mass), np.int64),
        root=np.arange(len(mass)),
        resolver=resolver,
        opponent=opponent,
        mass=mass,
        cbv=np.where(considered, cbv, 0),
        played=np.where(considered, -np.asarray(followed), 0) if played else None,
    )


def _only_considered(table: EntryTables, considered: BoolArray) -> EntryTables:
    """Tables without hands that the opponent cannot have; bounds hold, as it cannot deviate to them."""
    bound = table.bound
    if bound is not None:
        bound = bound._replace(weight=np.where(considered, bound.weight, 0))
    return dataclasses.replace(table.considering(considered), bound=bound)


def _solve_gadgets(
    batch: Batch,
    ranges: Ranges,
    gadgets: Sequence[Gadget],
    tables: Sequence[EntryTables],
    player: int,
    blueprint: FloatArray,
    solver: Solver,
    report: Callable[[int], None],
) -> list[_Resolved]:
    """Solves gadgets that have the same choices, (gadget, spot) a lane."""
    lanes = Lanes.product(gadgets=len(gadgets), blueprints=ranges.num_lanes)
    bodies = Bodies(player=player, sides=batch.sides, payoff=batch.payoff.take_lanes(lanes.blueprint))
    games = build_games(bodies, ranges, gadgets, tables=tables, lanes=lanes)
    solution = solve_games(games, blueprint, solver, report=report)
    lost = solution.overflows | games.underflows(np.dtype(solver.precision))
    if lost:
        raise ValueError(
            f"gadget {describe(gadgets[lanes.gadget[min(lost)]])}: numbers are too small or too large for "
            f"{np.dtype(solver.precision)}; expected dtype='float64', and weights of ranges nearer to 1"
        )
    below = solution.below[player]
    loss = games.losses(solution.gap, below)
    return [
        _Resolved(
            solution.strategy[player][:, own],
            solution.guaranteed[player][0, own],
            solution.gap[0, own],
            below[:, own],
            loss[0, own],
            solution.iterations[own],
        )
        for own in (lanes.where(gadget=number) for number in range(len(gadgets)))
    ]
