"""Spots re-solved safely: gadgets with priors for a player whose blueprint, or what it is worth, is given.

A spot is a subgame of a larger game: its ranges say how likely both players come there with each hand, the
weight of a range being the reach of a hand and all pairs of hands dealt alike. The opponent of the player who
re-solves may come with other hands than its blueprint's. So each hand that is left on the board is one of its
roots, with the mass `N(s)` of the other's hands that go with it, and an alternative value `V̄(s)`: what it
gets with that hand at best against the blueprint. Gadgets of two levels read nothing else; their tables,
entry and solver are those of `refine`.

Values are conditional on coming to the spot as both blueprints do: `Σ_s P(s)·N(s) = 1`, in pots inside and in
chips outside. Bounds of a game's exploitability are to be multiplied by how likely that is.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.typing import DTypeLike

from jaxgadget.gadgets.alternative import BestResponseValues, BlueprintValues
from jaxgadget.gadgets.entry import EntryTables
from jaxgadget.gadgets.gadget import AUTO, Gadget, Perturbed, TwoLevel, describe, prior_name
from jaxgadget.gadgets.games import build_games
from jaxgadget.gadgets.prior import ContinuationPrior, RangePrior
from jaxgadget.gadgets.ranges import Ranges
from jaxgadget.gadgets.structure import Bodies, opponent_values
from jaxgadget.gadgets.two_level import MaxMargin, Resolving, Unsafe
from jaxgadget.hands.form import HandsForm
from jaxgadget.hands.policy import HandsPolicy
from jaxgadget.kernels.batch import Batch
from jaxgadget.kernels.certificate import find_overflows
from jaxgadget.kernels.regret import Rule
from jaxgadget.poker.cards import HANDS
from jaxgadget.poker.solve import (
    SpotSolution,
    build_batch,
    evaluate_spot,
    is_policy_of,
    most_at_once,
    read_target,
)
from jaxgadget.poker.spots import Spot
from jaxgadget.poker.translate import translate_solution
from jaxgadget.refining.gadget_games import GamesSolution, Promised, solve_games
from jaxgadget.solving.devices import HOME
from jaxgadget.solving.options import SolveOptions, make_options
from jaxgadget.util.arguments import check_player
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.precision import precision
from jaxgadget.util.progress import progress_bar


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SpotRefinement:
    """A spot re-solved by one player with one gadget. All is in chips, certified in float64.

    Exploitabilities are of the player's strategy in the spot, where the opponent comes with its range: the
    spot's value, from the middle of its bracket, less what is left against a best response.

    Attributes:
      spot: what was re-solved.
      player: who did it.
      gadget: the opponent's way in.
      policy: of `spot.by_hands()`: the refined strategy, and the opponent's blueprint, uniform if none is
        known.
      alternative: `[H]` what the opponent is promised with each hand, in expected chips, and gets at best
        where the gadget promises nothing; NaN where it has none.
      best_response: `[H]` what it gets at best against the refined strategy, likewise.
      gadget_value: what the solution guarantees in the gadget game.
      gap: NashConv of the gadget game.
      margin: by how much the opponent gets less than promised, with the hand for which that is least.
      largest_rise: by how much exploitability can rise in any game whose subgame the spot is, if play comes
        to the spot as the blueprints do: `Σ_s [V̄(s) − V(s)]⁺`. It holds where V̄ is what the blueprint is
        worth.
      blueprint_exploitability: of the blueprint in the spot, by V̄.
      refined_exploitability: of the refined strategy in the spot.
      exploitability_bound: the blueprint's and what the gadget's certificate says that may be added; NaN
        where nothing is known.
      game_value: bracket of player 0's value of the spot, half of the pot taken off.
      algorithm: the rule.
      iterations: done.
    """

    spot: Spot
    player: int
    gadget: Gadget
    policy: HandsPolicy
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
        """What `jaxgadget holdem --json` says of it, in the words of `Refinement.table`; in chips."""
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
    blueprints: Sequence[SpotSolution | HandsPolicy | None] | None = None,
    alternatives: Sequence[FloatArray | None] | None = None,
    player: int = 0,
    hands_in_range: bool = False,
    algorithm: str | Rule = "cfr+",
    iterations: int = 1000,
    target_gap: float | str | None = None,
    check_every: int = 100,
    dtype: DTypeLike = "float32",
    memory_limit: int | None = None,
    progress: bool | None = None,
    on_refined: Callable[[Mapping[int, Sequence[SpotRefinement]]], None] | None = None,
) -> list[list[SpotRefinement]]:
    """Re-solves spots for a player, each with every gadget, those whose trees have one shape side by side.

    Args:
      spots: subgames; their ranges are what both players' blueprints bring there.
      gadgets: unsafe, resolving and max-margin with any prior; by default resolving and max-margin.
      blueprints: for every spot what both play there: the solution of a spot with the same board, pot and
        stack, whose menu may be another (see `translate_solution`), a policy of `spot.by_hands()`, or None.
      alternatives: for every spot what the opponent gets at best against the player's blueprint with each
        hand, in expected chips as `SpotSolution.hand_ev`: `[1326]` in the order of all hands, or `[H]` of
        those left on the board; NaN for hands out of its range that it cannot have. By default, and for
        None, what best responses to the blueprint get.
      player: who re-solves, 0 or 1.
      hands_in_range: whether the opponent has no other hands than its range's; by default it may come with
        any hand, which is what makes a strategy safe in the larger game.
      algorithm: of regret matching, see `solve`.
      iterations: at most that many.
      target_gap: stop when no gadget game's NashConv is larger: chips, or as `1%` of the pot of each spot.
      check_every: iterations between two looks at it.
      dtype: of the solve, `float32` or `float64`; certificates are in float64.
      memory_limit: bytes that may be taken; by default what there is.
      progress: a bar, or a line a minute in a log; by default a bar, on a terminal or in a notebook.
      on_refined: is given the refinements of every batch, by the numbers of their spots, as soon as it is
        done.

    Returns:
      For every spot, in their order, a refinement for each gadget.

    Raises:
      ValueError: if an argument is out of range, a spot has neither a blueprint nor alternative values, or a
        gadget looks at the way to the subgames.
    """
    check_player(player)
    asked = check_spot_gadgets((Resolving(), MaxMargin()) if gadgets is None else gadgets)
    given = _check_given(spots, blueprints, alternatives, player, hands_in_range)
    for gadget in asked:
        if "played" in gadget.needs and any(one.policy is None for one in given):
            raise ValueError(
                f"gadget {describe(gadget)}: it promises what both blueprints get; expected blueprints"
            )
    in_pots = read_target(target_gap)
    options = make_options(
        algorithm=algorithm,
        iterations=iterations,
        check_every=check_every,
        dtype=dtype,
        memory_limit=memory_limit,
        devices=HOME.devices,
        exact=False,
    )
    groups: dict[tuple[int, bytes], list[int]] = collections.defaultdict(list)
    for number, spot in enumerate(spots):
        groups[len(spot.cards), spot.betting.shape].append(number)
    parts: list[list[int]] = []
    for alike in groups.values():
        lanes = 1 if len(alike) == 1 else most_at_once(_with_any_hand(spots[alike[0]]), options)
        most = max(1, lanes // (len(asked) + 1))
        parts += [alike[begin : begin + most] for begin in range(0, len(alike), most)]
    refined: dict[int, list[SpotRefinement]] = {}
    with progress_bar("refining", len(parts) * iterations, progress) as report:
        for done, numbers in enumerate(parts):
            members = [given[number] for number in numbers]
            goal = None if in_pots is None else min(in_pots(one.spot) for one in members)
            solved = _refine_alike(
                members,
                asked,
                player,
                dataclasses.replace(options, target_gap=goal),
                lambda now, before=done: report(before * iterations + now),
            )
            batch = dict(zip(numbers, solved, strict=True))
            refined |= batch
            if on_refined is not None:
                on_refined(batch)
            report((done + 1) * iterations)
    return [refined[number] for number in range(len(spots))]


class _Given(NamedTuple):
    """A spot and what is known of the blueprints there.

    Attributes:
      spot: the spot.
      policy: of `spot.by_hands()`, one lane; None if it is not known.
      alternative: `[H]` expected chips that the opponent is promised; None for those of best responses.
      considered: `[H]` which hands the opponent may have.
    """

    spot: Spot
    policy: HandsPolicy | None
    alternative: FloatArray | None
    considered: BoolArray


def check_spot_gadgets(gadgets: Gadget | Sequence[Gadget]) -> tuple[Gadget, ...]:
    """Those that are asked for; ValueError for one that needs more than what a spot brings."""
    asked = tuple(gadgets) if isinstance(gadgets, Sequence) else (gadgets,)
    if not asked:
        raise ValueError("gadgets=(): expected at least one, such as Resolving()")
    for gadget in asked:
        if not isinstance(gadget, TwoLevel) or gadget.needs & {"trunk", "continuation"}:  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
            raise ValueError(
                f"gadget {getattr(gadget, 'name', repr(gadget))}: it looks at the way to the spot, of which "
                "nothing is known but ranges; expected unsafe, resolving or max-margin"
            )
        if isinstance(gadget, Perturbed) and not isinstance(
            gadget.alternative, BestResponseValues | BlueprintValues
        ):
            raise ValueError(
                f"gadget {describe(gadget)}: what it promises is of histories, not of a spot's hands; give "
                "alternatives=, in chips"
            )
        if getattr(gadget, "spread", None) is not None:
            raise ValueError(f"gadget {describe(gadget)}: spots take no spread; expected spread=None")
        prior = gadget.prior
        if isinstance(prior, ContinuationPrior) or (
            isinstance(prior, RangePrior) and prior.model is not None
        ):
            raise ValueError(
                f"gadget {describe(gadget)}: its prior is found in histories alone; expected another, "
                "such as BlueprintPrior() or RangePrior()"
            )
        if gadget.epsilon == AUTO:
            raise ValueError(
                f"epsilon='auto' of {gadget.name}: only linear programs find one; expected a number"
            )
    return asked


def _check_given(
    spots: Sequence[Spot],
    blueprints: Sequence[SpotSolution | HandsPolicy | None] | None,
    alternatives: Sequence[FloatArray | None] | None,
    player: int,
    hands_in_range: bool,
) -> list[_Given]:
    """What was said of each spot, checked and in one form."""
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
                "spot with another menu, a policy of spot.by_hands(), or the opponent's chips with each hand"
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


def _read_blueprint(blueprint: Any, spot: Spot, name: str) -> HandsPolicy:
    """A policy of the spot."""
    if isinstance(blueprint, SpotSolution):
        try:
            return translate_solution(blueprint, spot)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    if isinstance(blueprint, HandsPolicy) and is_policy_of(spot, blueprint):
        return blueprint
    raise ValueError(
        f"{name}={blueprint!r}: expected a SpotSolution, a single policy of spot.by_hands(), or None"
    )


def _with_any_hand(spot: Spot) -> Spot:
    """The spot whose structure has all hands: the opponent may hold what is in no range."""
    return dataclasses.replace(spot, oop="random", ip="random")


class _Resolved(NamedTuple):
    """What came of a gadget, a lane a spot; in pots, in the utility of the player who re-solves.

    Attributes:
      body: `[Q × H, spots]` its strategy.
      value: `[spots]` what it guarantees in the gadget game.
      gap: `[spots]` NashConv.
      below: `[H, spots]` `V(s)` of the opponent's hands.
      loss: `[spots]` the most that it may add to exploitability by the certificate, if a bound is known.
      iterations: `[spots]` done.
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
    options: SolveOptions,
    report: Callable[[int], None],
) -> list[list[SpotRefinement]]:
    """Re-solves spots whose trees have one shape: for each a refinement for every gadget."""
    spots = [_with_any_hand(one.spot) for one in given]
    form = HandsForm(spots[0].by_hands())
    batch = build_batch(spots, form)
    strategy = _strategies(given, form)
    ranges = _find_ranges(given, batch, strategy, player, any("played" in gadget.needs for gadget in asked))
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
            report((begun * options.iterations + now * part) // len(every))

        several = _solve_gadgets(
            batch,
            ranges,
            [every[number] for number in numbers],
            [tables[number] for number in numbers],
            player,
            strategy[player],
            options,
            report_part,
        )
        outcomes |= dict(zip(numbers, several, strict=True))
    itself = outcomes[every.index(Unsafe())]
    refinements: list[list[SpotRefinement]] = [[] for _ in given]
    for number, gadget in enumerate(asked):
        for lane, one in enumerate(given):
            outcome = outcomes[number]
            bodies = [rows[:, lane] for rows in strategy]
            bodies[player] = outcome.body[:, lane]
            policy = HandsPolicy.of_bodies(
                HandsForm(one.spot.by_hands()), (bodies[0], bodies[1]), (describe(gadget),)
            )
            refinements[lane].append(
                _conclude_spot(
                    one.spot, gadget, policy, options.algorithm, ranges, outcome, itself, player, lane
                )
            )
    return refinements


def _conclude_spot(
    spot: Spot,
    gadget: Gadget,
    policy: HandsPolicy,
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
    promised = gadget.promised.values(ranges)[:, lane] if isinstance(gadget, Perturbed) else best
    low = pot * float(itself.value[lane])
    bracket = (low, low + pot * max(float(itself.gap[lane]), 0))
    before, after = (sum(bracket) / 2 - pot * float(weight @ values) for values in (best, got))
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
        game_value=bracket if player == 0 else (-bracket[1], -bracket[0]),
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


def _strategies(given: Sequence[_Given], form: HandsForm) -> tuple[FloatArray, FloatArray]:
    """Both players' blueprints `[Q × H, spots]`, uniform where none is known."""
    uniform = HandsPolicy.uniform(form)
    every = [uniform if one.policy is None else one.policy for one in given]
    first, second = (
        np.stack([policy.probabilities[p][form.rows[p]].reshape(-1) for policy in every], axis=-1)
        for p in (0, 1)
    )
    return first, second


def _find_ranges(
    given: Sequence[_Given],
    batch: Batch,
    strategy: tuple[FloatArray, FloatArray],
    player: int,
    played: bool,
) -> Ranges:
    """What blueprints bring to the spots, a lane each; roots are the opponent's hands."""
    other = 1 - player
    considered = np.stack([one.considered for one in given], axis=-1)

    def by_hand(of: Callable[[Spot], FloatArray]) -> FloatArray:
        return np.stack([of(one.spot) for one in given], axis=-1)

    resolver = by_hand(lambda spot: spot.range_weights[player] / spot.weight_of_pairs)
    opponent = np.where(considered, by_hand(lambda spot: spot.range_weights[other]), 0)
    mass = np.where(considered, by_hand(lambda spot: spot.compatible[other] / spot.weight_of_pairs), 0)
    reach = (resolver, opponent) if player == 0 else (opponent, resolver)
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
    """Tables without hands that the opponent cannot have: nobody deviates to them, so bounds still hold."""
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
    options: SolveOptions,
    report: Callable[[int], None],
) -> list[_Resolved]:
    """Solves gadgets that have the same choices, (gadget, spot) a lane."""
    count = ranges.num_lanes
    spot = np.tile(np.arange(count), len(gadgets))
    bodies = Bodies(player=player, sides=batch.sides, payoff=batch.payoff.take_lanes(spot))
    games = build_games(bodies, ranges, gadgets, tables=tables)
    solved = solve_games(games, Promised(blueprint), options, report=report)
    solution: GamesSolution = solved.outcome
    lost = find_overflows(solution.value, solution.gap) | games.underflows(np.dtype(options.dtype))
    if lost:
        raise ValueError(
            f"gadget {describe(gadgets[min(lost) // count])}: numbers are too small or too large for "
            f"{np.dtype(options.dtype)}; expected dtype='float64', and weights of ranges nearer to 1"
        )
    loss = games.losses(solution.gap, solution.below)
    return [
        _Resolved(
            solution.strategy[:, own],
            solution.value[0, own],
            solution.gap[0, own],
            solution.below[:, own],
            loss[0, own],
            solved.iterations[own],
        )
        for own in (slice(begin, begin + count) for begin in range(0, games.num_lanes, count))
    ]
