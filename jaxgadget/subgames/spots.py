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
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jaxgadget.core.driver import Report
from jaxgadget.core.payoff import Payoff
from jaxgadget.core.regret import Rule
from jaxgadget.core.results import LaneResult
from jaxgadget.core.solver import Solver, choose_solver
from jaxgadget.gadgets.capabilities import Capability, check_capabilities
from jaxgadget.gadgets.gadget import Gadget, describe, prior_name
from jaxgadget.gadgets.games import Prepared
from jaxgadget.gadgets.ranges import Ranges
from jaxgadget.gadgets.root_gadgets import MaxMargin, Resolving, Unsafe
from jaxgadget.gadgets.structure import Bodies, values_at_roots
from jaxgadget.holdem.cards import HANDS
from jaxgadget.holdem.carried import pad_hands, same_board
from jaxgadget.holdem.checkpoint import REFINED_SPOTS, SpotBatches
from jaxgadget.holdem.solution import SpotSolution, convergence_of_spots
from jaxgadget.holdem.solve import (
    CHECK_EVERY,
    build_batch,
    check_policy_of,
    check_room,
    evaluate_spot,
    in_pieces,
    most_at_once,
    policy_to_bodies,
)
from jaxgadget.holdem.spots import Spot
from jaxgadget.holdem.strategies import body_to_rows, policy_to_rows, rows_to_probabilities
from jaxgadget.holdem.translate import translate_solution
from jaxgadget.policy.policy import Policy
from jaxgadget.subgames.engine import GadgetSubgames, SubgameSolutions, solve_subgames
from jaxgadget.subgames.refine import list_gadgets
from jaxgadget.tree.public import PublicTree, public_tree
from jaxgadget.tree.sequence import SequenceForm
from jaxgadget.tree.whole import sequence_form
from jaxgadget.util.arguments import check_player
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.clock import Stopwatch
from jaxgadget.util.digest import digest
from jaxgadget.util.lanes import Lanes
from jaxgadget.util.players import Bracket, pair_for, replaced
from jaxgadget.util.viewers import Explorable


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SpotRefinement(Explorable):
    """A spot re-solved by one player with one gadget. Values are in chips, certified in float64.

    Exploitabilities are those of the player's strategy in the spot, with the opponent's range: the spot's
    value, at the middle of its bracket, minus the strategy's value against a best response.

    Attributes:
      spot: the spot.
      player: the resolving player.
      gadget: the gadget.
      blueprint: policy of `public_tree(spot)`: both players' blueprints, or uniform strategies if unknown.
      policy: the same with the refined strategy of the player.
      alternative: `[H]` value promised to the opponent with each hand, in expected chips, or its
        best-response value if the gadget makes no promise; NaN for hands that it cannot have.
      best_response: `[H]` the opponent's best-response value against the refined strategy, in the same form.
      entered: `[H]` the opponent's entry with each hand as it was solved: probability of following
        (resolving) or of being the hand picked (max-margin); NaN without a choice (unsafe), for hands that it
        cannot have, and in checkpoints written before this field.
      gadget_value: value guaranteed by the solution in the gadget game.
      gap: NashConv of the gadget game.
      margin: promised value minus the opponent's value, minimum over its hands.
      largest_rise: upper bound on the rise of exploitability in any game that contains the spot, if the
        blueprints are played above it: `Σ_s [V̄(s) − V(s)]⁺`. Requires that V̄ is the blueprint's value.
      blueprint_exploitability: exploitability of the blueprint in the spot, according to V̄.
      refined_exploitability: exploitability of the refined strategy in the spot.
      exploitability_bound: the blueprint's exploitability plus the rise allowed by the gadget's certificate;
        NaN if unknown.
      game_value: bracket of player 0's value of the spot, minus half of the pot.
      algorithm: the algorithm's name.
      iterations: completed iterations.
      failure: the reason why the solve failed, because numbers were too small or too large for its precision;
        None otherwise. The other numbers are then NaN, except the blueprint's if the spot's value is known,
        and the policy is the blueprint.
    """

    spot: Spot
    player: int
    gadget: Gadget
    blueprint: Policy
    policy: Policy
    alternative: FloatArray
    best_response: FloatArray
    entered: FloatArray
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
    failure: str | None = None

    def __repr__(self) -> str:
        return (
            f"<SpotRefinement {self.spot.board}: {describe(self.gadget)}, exploitability "
            f"{self.blueprint_exploitability:.3g} → {self.refined_exploitability:.3g} chips, "
            f"gap {self.gap:.3g}>"
        )

    @functools.cached_property
    def solution(self) -> SpotSolution:
        """Both players' strategies evaluated in the spot, with EVs and strategies for each hand."""
        return evaluate_spot(self.spot, self.policy)

    def to_row(self) -> dict[str, Any]:
        """Row of `jaxgadget holdem --json`, with the column names of `Refinement.table`; in chips."""
        return {
            "board": self.spot.board,
            "player": self.player,
            "gadget": self.gadget.name,
            "prior": prior_name(self.gadget),
            "epsilon": self.gadget.epsilon,
            **{name: vars(self)[name] for name in NUMBERS},
            "iterations": self.iterations,
            "failure": self.failure,
        }


class SpotRefinements(list[list[SpotRefinement]], LaneResult, Explorable):
    """Re-solved spots, in order, each with one refinement for every gadget; a refinement is a row of `table`.

    Values are in chips.
    """

    @property
    def refinements(self) -> list[SpotRefinement]:
        """The refinements of all spots, spot by spot."""
        return [refinement for refinements in self for refinement in refinements]

    @property
    def failures(self) -> dict[int, str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Rows whose solve failed, with the reason."""
        return {
            row: refinement.failure
            for row, refinement in enumerate(self.refinements)
            if refinement.failure is not None
        }

    @property
    def lane_columns(self) -> dict[str, Any]:
        """Columns that identify a refinement."""
        rows = [refinement.to_row() for refinement in self.refinements]
        names = ("board", "player", "gadget", "prior", "epsilon")
        spots = [refinement.spot.name for refinement in self.refinements]
        return {"spot": spots, **{name: [row[name] for row in rows] for name in names}}

    @property
    def number_columns(self) -> dict[str, Any]:
        """Columns of results."""
        rows = [refinement.to_row() for refinement in self.refinements]
        names = (*NUMBERS, "iterations")
        return {name: np.array([row[name] for row in rows]) for name in names}

    @property
    def message(self) -> str:
        """One-sentence summary of the solve's convergence, with a remedy if it is insufficient."""
        message = convergence_of_spots(
            [(each.spot, each.gap, each.iterations, each.algorithm) for each in self.refinements]
        )
        if not self.failures:
            return message
        first = self.failures[min(self.failures)]
        return f"{message}; {len(self.failures)} of {len(self.refinements)} results are undefined: {first}"


NUMBERS = (
    *("blueprint_exploitability", "refined_exploitability", "exploitability_bound", "largest_rise"),
    *("margin", "gadget_value", "gap"),
)
"""Fields of a refinement in chips."""


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
) -> SpotRefinements:
    """Re-solves spots for a player, each with every gadget; spots with trees of equal shape are batched.

    Args:
      spots: subgames, with the ranges of both players' blueprints; turns and rivers.
      gadgets: unsafe, resolving and max-margin with any prior; by default resolving and max-margin.
      blueprints: for every spot both players' strategies: the solution of a spot with the same board, pot and
        stack, whose menu may differ (see `translate_solution`), a policy of `public_tree(spot)`, or None.
      alternatives: for every spot the opponent's best-response value against the player's blueprint with each
        hand, in expected chips as `SpotSolution.hand_ev`: `[1326]` in the order of all hands, or `[H]` of
        those left on the board; NaN for hands out of its range that it cannot have. By default, and for None,
        best-response values against the blueprint.
      player: the resolving player, 0 or 1.
      hands_in_range: restrict the opponent to hands in its range; by default it may have any hand, making
        the strategy safe in the larger game. With it, hands that neither player has may be left out of the
        solve, and keep the blueprint.
      on_refined: callback; receives the refinements of each completed batch, by the indices of their spots.
        It is first called for each archive of the checkpoint.
      solver: settings; by default 1000 iterations of CFR+ in float32. Its `target_gap` is NashConv in chips,
        or as `1%` of the pot of each spot. Its `checkpoint` is a folder as for `solve_spots`, which may be
        the same one; a stored refinement is reused for the same gadgets, blueprint and values. Takes no
        `time_limit` or `devices`.
      iterations: short for `Solver(iterations=…)`.
      algorithm: short for `Solver(algorithm=…)`.

    Returns:
      For every spot, in order, one refinement for each gadget.

    Raises:
      ValueError: if an argument is out of range, a spot is a flop or has rake, a spot has neither a blueprint
        nor alternative values, a gadget needs the trunk, a spot does not fit in memory, or the checkpoint is
        damaged, in use or cannot be written.
    """
    check_player(player)
    gadgets = check_spot_gadgets((Resolving(), MaxMargin()) if gadgets is None else gadgets)
    check_refinable(spots)
    members = _check_members(spots, blueprints, alternatives, player, hands_in_range)
    for gadget in gadgets:
        if Capability.PLAYED in gadget.requires and any(member.policy is None for member in members):
            raise ValueError(
                f"gadget {describe(gadget)}: its values require both players' blueprints; expected blueprints"
            )
    solver = choose_solver(
        solver,
        Solver(iterations=1000, check_every=CHECK_EVERY),
        iterations=iterations,
        algorithm=algorithm,
        without=("time_limit",),
        pots=True,
    ).iterative()
    batches = _RefinedBatches(spots, solver, members, gadgets, player)
    check_room(batches.spots, solver)
    refined: dict[int, list[SpotRefinement]] = {}
    for batch in batches.run():
        refined |= batch
        if on_refined is not None:
            on_refined(batch)
    return SpotRefinements(refined[spot_idx] for spot_idx in range(len(spots)))


class _Member(NamedTuple):
    """A spot with the blueprints' strategies or values there.

    Attributes:
      spot: the spot.
      policy: policy of the spot's tree, one lane; None if unknown.
      alternative: `[H]` values promised to the opponent, in expected chips; None for best-response values.
      considered: `[H]` mask of the hands that the opponent may have.
    """

    spot: Spot
    policy: Policy | None
    alternative: FloatArray | None
    considered: BoolArray

    def blueprint(self) -> Policy:
        """The blueprint, of `public_tree(spot)`; uniform if unknown."""
        tree = public_tree(self.spot)
        if self.policy is None:
            return Policy.uniform(tree)
        return dataclasses.replace(self.policy, tree=tree)


SPOT = frozenset({Capability.PLAYED, Capability.RANGE, Capability.ROOT_PRIOR})
"""Capabilities of spots, which provide only ranges."""


def check_spot_gadgets(gadgets: Gadget | Sequence[Gadget]) -> tuple[Gadget, ...]:
    """The requested gadgets; raises ValueError for a gadget that needs data that a spot lacks."""
    listed = list_gadgets(gadgets, exact=False)
    check_capabilities(
        listed,
        SPOT,
        "a spot",
        "unsafe, resolving or max-margin, with a number for epsilon; alternative values in chips are "
        "alternatives=",
    )
    return listed


def check_refinable(spots: Sequence[Spot]) -> None:
    """Raises ValueError if a spot is a flop, or has rake: guarantees of gadgets require a zero-sum game."""
    for spot_idx, spot in enumerate(spots):
        if not isinstance(spot, Spot):  # pyright: ignore[reportUnnecessaryIsInstance]
            continue
        if spot.is_flop:
            raise ValueError(
                f"spots[{spot_idx}]: {spot.board} is a flop, which gadgets cannot re-solve; expected a turn "
                "or river"
            )
        if spot.rake:
            raise ValueError(
                f"spots[{spot_idx}]: rake={spot.rake:g}: gadgets require a zero-sum game; expected no rake"
            )


def _check_members(
    spots: Sequence[Spot],
    blueprints: Sequence[SpotSolution | Policy | None] | None,
    alternatives: Sequence[FloatArray | None] | None,
    player: int,
    hands_in_range: bool,
) -> list[_Member]:
    """Validates and normalises the inputs of each spot."""
    for name, several in (("blueprints", blueprints), ("alternatives", alternatives)):
        if several is not None and len(several) != len(spots):
            raise ValueError(f"{name}: {len(several)} for {len(spots)} spots; expected one for each, or None")
    members: list[_Member] = []
    for spot_idx, spot in enumerate(spots):
        if not isinstance(spot, Spot):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"spots[{spot_idx}]={spot!r}: expected a Spot")
        blueprint = None if blueprints is None else blueprints[spot_idx]
        values = None if alternatives is None else alternatives[spot_idx]
        if blueprint is None and values is None:
            raise ValueError(
                f"spots[{spot_idx}] has neither a blueprint nor alternative values: expected the solution of "
                "a spot with another menu, a policy of public_tree(spot), or the opponent's chips by hand"
            )
        alternative = None if values is None else _read_alternative(values, spot, f"alternatives[{spot_idx}]")
        in_range, considered = spot.range_weights[1 - player] > 0, spot.meets(1 - player)
        if alternative is not None:
            nameless = np.flatnonzero(considered & in_range & np.isnan(alternative))
            if len(nameless):
                raise ValueError(
                    f"alternatives[{spot_idx}]: NaN with {spot.hand_names[nameless[0]]}, which is in the "
                    "opponent's range; expected chips for all of it"
                )
            considered &= ~np.isnan(alternative)
        if hands_in_range:
            considered &= in_range
        policy = None if blueprint is None else _read_blueprint(blueprint, spot, f"blueprints[{spot_idx}]")
        members.append(_Member(spot, policy, alternative, considered))
    return members


def _read_alternative(values: Any, spot: Spot, name: str) -> FloatArray:
    """Reads alternative values in either form, as `[H]`."""
    array = np.asarray(values)
    if array.shape not in ((len(HANDS),), (len(spot.hands),)) or array.dtype.kind not in "fiu":
        raise ValueError(
            f"{name} of shape {array.shape} and type {array.dtype}: expected chips for all hands, "
            f"[{len(HANDS)}], or for those left on {spot.board!r}, [{len(spot.hands)}]; NaN for none"
        )
    chips = array.astype(np.float64)[spot.hands] if len(array) == len(HANDS) else array.astype(np.float64)
    stack = spot.effective_stack
    wrong = np.flatnonzero((chips < -stack) | (chips > spot.pot + stack))
    if len(wrong):
        raise ValueError(
            f"{name}: {chips[wrong[0]]:g} chips with {spot.hand_names[wrong[0]]}; expected a share of "
            f"the pot less what is put in, {-stack:g} to {spot.pot + stack:g}, or NaN for none"
        )
    return chips


def _read_blueprint(blueprint: Any, spot: Spot, name: str) -> Policy:
    """Reads a blueprint as a policy of the spot."""
    if isinstance(blueprint, SpotSolution):
        try:
            return translate_solution(blueprint, spot)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    if isinstance(blueprint, Policy):
        return check_policy_of(spot, blueprint, name)
    raise ValueError(
        f"{name}={blueprint!r}: expected a SpotSolution, a single policy of public_tree(spot), or None"
    )


def _with_any_hand(spot: Spot) -> Spot:
    """The spot with all hands in its structure, as the opponent may hold hands outside its range."""
    return dataclasses.replace(spot, oop="random", ip="random")


class _RefinedBatches(SpotBatches[list[SpotRefinement]]):
    """Batches of `refine_spots`."""

    label, format = "refining", REFINED_SPOTS

    def __init__(
        self,
        spots: Sequence[Spot],
        solver: Solver,
        members: Sequence[_Member],
        gadgets: tuple[Gadget, ...],
        player: int,
    ) -> None:
        super().__init__(spots, solver)
        self._members, self._gadgets, self._player = members, gadgets, player

    def describe(self, spot_idx: int) -> str:
        """Description of all inputs of a spot's result, except its name and the solver's settings."""
        member = self._members[spot_idx]
        arrays: list[npt.NDArray[Any]] = [member.considered]
        if member.policy is not None:
            arrays += [*member.policy.probabilities]
        if member.alternative is not None:
            arrays.append(member.alternative)
        with np.printoptions(threshold=sys.maxsize, floatmode="unique"):  # a prior may have an array
            gadgets = repr(self._gadgets)
        return f" {gadgets} {self._player} {digest(*arrays)}"

    def split(self, numbers: Sequence[int]) -> list[list[int]]:
        """Splits spots into batches with trees of one shape; each spot has a lane per gadget and its own.

        Only spots on one board carry fewer hands. On a CPU they are then batched by board: eight rivers with
        270 of 1,081 hands take 1.2 s one by one and 2.2 s together with all hands. So are turns everywhere,
        whose tables are large.
        """
        on_cpu = self.solver.placement.on_cpu
        groups: dict[tuple[Any, ...], list[int]] = collections.defaultdict(list)
        for spot_idx in numbers:
            spot, board = self.spots[spot_idx], None
            is_limited = limit_hands([self._members[spot_idx]], self._player) is not None
            if is_limited and (on_cpu or len(spot.cards) == 4):
                board = frozenset(spot.cards), frozenset(spot.gone)
            groups[
                len(spot.cards), board, spot.num_left, spot.betting.shape, self.target_in_pots(spot_idx)
            ].append(spot_idx)
        batches: list[list[int]] = []
        for alike in groups.values():
            lanes = 1
            if len(alike) > 1:
                spot = self.spots[alike[0]]
                if limit_hands([self._members[spot_idx] for spot_idx in alike], self._player) is None:
                    spot = _with_any_hand(spot)
                lanes = most_at_once(spot, self.solver)
            size = max(1, lanes // (len(self._gadgets) + 1))
            batches += in_pieces(alike, size, len(self.solver.placement.devices))
        return batches

    def solve(self, numbers: Sequence[int], solver: Solver, report: Report) -> list[list[SpotRefinement]]:
        """Solves a batch; the solver's target gap is in pots.

        On a CPU, lanes of turns are solved one by one: seven gadgets on a turn with 2,271 public nodes and 64
        hands take 1.7 s for 100 iterations in float64 instead of 2.7 s on one core.
        """
        if self.solver.placement.on_cpu and len(self.spots[numbers[0]].cards) == 4 and solver.chunk is None:
            solver = dataclasses.replace(solver, chunk=1)
        members = [self._members[spot_idx] for spot_idx in numbers]
        # The unsafe gadget is the spot itself, and brackets its value.
        gadgets = self._gadgets if Unsafe() in self._gadgets else (*self._gadgets, Unsafe())
        blueprints = [member.blueprint() for member in members]
        subgames = SpotSubgames.of(members, blueprints, gadgets, self._player)
        solutions = solve_subgames(subgames, solver, Stopwatch(), report)
        return [
            [
                _conclude(subgames, solutions, blueprint, gadget_idx, lane, solver.name)
                for gadget_idx in range(len(self._gadgets))
            ]
            for lane, blueprint in enumerate(blueprints)
        ]

    def pack(self, result: list[SpotRefinement]) -> dict[str, Any]:
        """The arrays of a spot's refinements that an archive stores."""
        arrays = {name: np.stack([vars(each)[name] for each in result]) for name in _ARCHIVED}
        arrays["strategy"] = np.stack([each.policy.probabilities[self._player] for each in result])
        arrays["failure"] = np.array([each.failure or "" for each in result], "U512")
        return arrays

    def unpack(self, spot_idx: int, arrays: Mapping[str, Any]) -> list[SpotRefinement]:
        """Restores the refinements of a spot from its arrays."""
        spot, blueprint = self.spots[spot_idx], self._members[spot_idx].blueprint()
        refinements: list[SpotRefinement] = []
        for lane, gadget in enumerate(self._gadgets):
            fields: dict[str, Any] = {name: float(arrays[name][lane]) for name in NUMBERS}
            low, high = arrays["game_value"][lane].tolist()
            refinements.append(
                SpotRefinement(
                    spot=spot,
                    player=self._player,
                    gadget=gadget,
                    blueprint=blueprint,
                    policy=_assemble(blueprint, self._player, arrays["strategy"][lane], gadget),
                    alternative=arrays["alternative"][lane],
                    best_response=arrays["best_response"][lane],
                    entered=_entered(arrays)[lane],
                    game_value=Bracket(low, high),
                    algorithm=self.solver.name,
                    iterations=int(arrays["iterations"][lane]),
                    failure=str(arrays["failure"][lane]) or None,
                    **fields,
                )
            )
        return refinements


_ARCHIVED = (*NUMBERS, "game_value", "alternative", "best_response", "entered", "iterations")
"""Fields of a refinement that are stored unchanged."""


def _entered(arrays: Mapping[str, Any]) -> FloatArray:
    """The opponent's entry in an archive; NaN in those written before it was stored."""
    return arrays.get("entered", np.full_like(arrays["best_response"], np.nan))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _SpotBodies(Bodies):
    """Bodies of spots whose trees have one shape, one lane per spot; every root is a hand."""

    def payoff_of(self, blueprints: IntArray) -> Payoff:
        """The payoff of lanes with the given blueprints."""
        return self.payoff.take_lanes(blueprints)


@dataclasses.dataclass(frozen=True, eq=False)
class SpotSubgames(GadgetSubgames):
    """Spots whose trees have one shape, represented as one subgame with a lane for each spot.

    Attributes:
      player: the resolving player.
      gadgets: each is combined with all spots.
      spots: the spots.
      form: sequence form of the public tree of one of them.
      hands: `[h]` indices of the carried hands among the H that are left on the board, -1 for padding.
      prepared: the spots on the device with the carried hands for both players, with the blueprints; in pots.
    """

    player: int
    gadgets: tuple[Gadget, ...]
    spots: Sequence[Spot]
    form: SequenceForm
    hands: IntArray
    prepared: Prepared

    @staticmethod
    def of(
        members: Sequence[_Member], blueprints: Sequence[Policy], gadgets: tuple[Gadget, ...], player: int
    ) -> SpotSubgames:
        """Places spots on the device, with the blueprints' ranges."""
        any_hand = [_with_any_hand(member.spot) for member in members]
        form = sequence_form(public_tree(any_hand[0]))
        limited = limit_hands(members, player)
        batch = build_batch(any_hand, form, None if limited is None else limited[None])
        hands = np.arange(len(members[0].considered)) if limited is None else limited
        bodies = _SpotBodies(player=player, sides=batch.sides, payoff=batch.payoff)
        pairs = [policy_to_bodies(blueprint, hands) for blueprint in blueprints]
        first, second = (np.concatenate(rows, axis=1) for rows in zip(*pairs, strict=True))
        played = any(Capability.PLAYED in gadget.requires for gadget in gadgets)
        ranges = _find_ranges(members, hands, bodies, (first, second), played=played)
        prepared = Prepared(structure=bodies, ranges=ranges, rows=(first, second))
        return SpotSubgames(player, gadgets, [member.spot for member in members], form, hands, prepared)

    @functools.cached_property
    def lanes(self) -> Lanes:
        """The combinations of gadgets and spots."""
        return Lanes.product(gadgets=len(self.gadgets), blueprints=len(self.spots))

    @property
    def num_subgames(self) -> int:
        """Number of subgames in every lane: one."""
        return 1

    @property
    def num_actions(self) -> int:
        """Number of the player's actions, counted for every hand."""
        return len(self.prepared.rows[self.player])

    @property
    def num_roots(self) -> int:
        """Number of the opponent's hands, H, of which some may not be carried."""
        return len(self.spots[0].hands)

    def check(self) -> None:
        """Raises ValueError if a gadget's array has the wrong shape."""
        for gadget in self.gadgets:
            gadget.check(self.num_roots, len(self.spots))

    def place(self, numbers: IntArray, solver: Solver) -> Prepared:
        """The batch of spots, which is already on the device."""
        return self.prepared

    def groups(self, solver: Solver) -> list[list[int]]:
        """Groups of indices of gadgets that are solved at once: gadgets with the same choices.

        A choice among a thousand hands that is forced by minimum probabilities with sum 1 would suffer from
        rounding in float32.
        """
        groups: dict[tuple[str, bool, bool], list[int]] = collections.defaultdict(list)
        for gadget_idx, gadget in enumerate(self.gadgets):
            table = gadget.tables(self.prepared.ranges)
            groups[gadget.entry_name, table.pick is None, table.leave is None].append(gadget_idx)
        return list(groups.values())

    def describe(self, gadget: Gadget, opponent: int, blueprint: int) -> str:
        """Description of a lane, for messages."""
        return f"{describe(gadget)} on {self.spots[blueprint].board}"


def limit_hands(members: Sequence[_Member], player: int) -> IntArray | None:
    """The hands that spots on one board carry: those of the resolving player, and the opponent's considered.

    Returns:
      `[h]` indices among the hands that are left on the board, ascending, -1 for padding at the end. None for
      all hands: if the opponent may have nearly any, or if boards differ.
    """
    if not same_board([member.spot for member in members]):
        return None
    needed = [member.considered | (member.spot.range_weights[player] > 0) for member in members]
    hands = pad_hands(np.any(needed, axis=0, keepdims=True))
    return None if hands is None else hands[0]


def _find_ranges(
    members: Sequence[_Member],
    hands: IntArray,
    bodies: Bodies,
    strategy: tuple[FloatArray, FloatArray],
    *,
    played: bool,
) -> Ranges:
    """Computes ranges of the blueprints at the spots, one lane per spot; roots are the opponent's hands."""
    player, other = bodies.player, 1 - bodies.player

    def by_hand(weights_of: Callable[[_Member], FloatArray | BoolArray]) -> FloatArray:
        rows = np.stack([weights_of(member) for member in members], axis=-1)[hands]
        return np.where((hands >= 0)[:, None], rows, 0)

    considered = by_hand(lambda member: member.considered) > 0
    resolver = by_hand(lambda member: member.spot.range_weights[player] / member.spot.weight_of_pairs)
    opponent = by_hand(lambda member: member.spot.range_weights[other])
    mass = by_hand(lambda member: member.spot.compatible[other] / member.spot.weight_of_pairs)
    opponent, mass = np.where(considered, opponent, 0), np.where(considered, mass, 0)
    reach = pair_for(player, resolver, opponent)
    cbv, followed = values_at_roots(bodies, strategy, reach, played=played)
    for lane, member in enumerate(members):
        if member.alternative is not None:
            offered = np.where(hands >= 0, member.alternative[hands], np.nan)
            cbv[:, lane] = -(offered / member.spot.pot - 0.5) * mass[:, lane]
    return Ranges(
        num_subgames=1,
        subgame=np.zeros(len(mass), np.int64),
        root=hands,
        resolver=resolver,
        opponent=opponent,
        mass=mass,
        cbv=np.where(considered, cbv, 0),
        played=None if followed is None else np.where(considered, followed, 0),
        possible=mass > 0,
    )


def _conclude(
    subgames: SpotSubgames,
    solutions: SubgameSolutions,
    blueprint: Policy,
    gadget_idx: int,
    spot_lane: int,
    algorithm: str,
) -> SpotRefinement:
    """Creates the refinement of a spot with a gadget, in chips."""
    player, gadget, ranges = subgames.player, subgames.gadgets[gadget_idx], subgames.prepared.ranges
    spot, carried = subgames.spots[spot_lane], subgames.hands >= 0
    hands = subgames.hands[carried]
    weight, mass, best = (x[carried, spot_lane] for x in (ranges.opponent, ranges.mass, ranges.cbv))
    lane, unsafe_lane = (
        int(subgames.lanes.where(gadget=each, blueprint=spot_lane)[0])
        for each in (gadget_idx, subgames.gadgets.index(Unsafe()))
    )
    failure = solutions.failures.get(lane, solutions.failures.get(unsafe_lane))

    def in_chips(rows: FloatArray, lane: int) -> float:
        return float("nan") if lane in solutions.failures else spot.pot * float(rows[0, lane])

    got = solutions.below[hands, lane]
    strategy = blueprint.probabilities[player]
    if lane in solutions.failures:
        got = np.full_like(got, np.nan)
    else:
        rows = policy_to_rows(blueprint)[player]
        rows[:, hands] = body_to_rows(subgames.form, player, solutions.strategy[:, lane])[:, carried]
        assert isinstance(blueprint.tree, PublicTree)
        strategy = rows_to_probabilities(blueprint.tree, player, rows)
    promised = best if gadget.offer is None else solutions.alternative[hands, lane]
    low = in_chips(solutions.value, unsafe_lane)
    bracket = Bracket(low, low + in_chips(solutions.gap, unsafe_lane))
    before, after = (bracket.middle - spot.pot * float(weight @ values) for values in (best, got))
    possible = mass > 0

    def per_hand(values: FloatArray) -> FloatArray:
        """`[H]` the opponent's expected chips, from the resolving player's utility; NaN where impossible."""
        chips = np.full(len(spot.hands), np.nan)
        chips[hands[possible]] = spot.pot / 2 - spot.pot * values[possible] / mass[possible]
        return chips

    alternative, response = per_hand(promised), per_hand(got)
    entered = np.full(len(spot.hands), np.nan)
    if lane not in solutions.failures:
        entered[hands[possible]] = solutions.entered[hands[possible], lane]
    return SpotRefinement(
        spot=spot,
        player=player,
        gadget=gadget,
        blueprint=blueprint,
        policy=_assemble(blueprint, player, strategy, gadget),
        alternative=alternative,
        best_response=response,
        entered=entered,
        gadget_value=in_chips(solutions.value, lane),
        gap=in_chips(solutions.gap, lane),
        margin=float((alternative - response)[hands[possible]].min()),
        largest_rise=spot.pot * float(np.maximum((best - got)[possible], 0).sum()),
        blueprint_exploitability=before,
        refined_exploitability=after,
        exploitability_bound=before + in_chips(solutions.losses, lane) + bracket.half_width,
        game_value=bracket.for_player(player),
        algorithm=algorithm,
        iterations=int(solutions.iterations[lane]),
        failure=failure,
    )


def _assemble(blueprint: Policy, player: int, strategy: FloatArray, gadget: Gadget) -> Policy:
    """Replaces a player's half of the blueprint by its strategy `[Q, 1]`."""
    probabilities = replaced(blueprint.probabilities, player, strategy)
    return Policy(blueprint.tree, probabilities, (describe(gadget),))
