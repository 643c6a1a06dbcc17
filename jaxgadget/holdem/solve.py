"""Solves many hold'em spots at once: trees of one shape form a batch with boards, ranges and chips as lanes.

Internally chips are in units of the pot. Exploitability is half of NashConv, in chips.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxgadget.core.batch import Batch
from jaxgadget.core.branches import BranchState
from jaxgadget.core.certificate import Certificate, certify
from jaxgadget.core.cfr import State, start
from jaxgadget.core.checkpoint import fingerprint
from jaxgadget.core.devices import Placement
from jaxgadget.core.driver import Finished, solve
from jaxgadget.core.hands import build_hands_payoff
from jaxgadget.core.host import HandEntries, HandTreeplex
from jaxgadget.core.memory import LAUNCH_LANES, batch_size, find_memory, find_workers, problem_shape
from jaxgadget.core.problem import Parts, Terms, build_side, fixed_entry
from jaxgadget.core.regret import ChoiceRule, Rule, follows_from_regrets
from jaxgadget.core.rows import on_host
from jaxgadget.core.solution import BatchSolution, solve_batch
from jaxgadget.core.solver import Solver, choose_solver
from jaxgadget.games.hands import PublicEnds
from jaxgadget.holdem import kernels
from jaxgadget.holdem.betting import PLAYERS, count_nodes
from jaxgadget.holdem.carried import carried_hands, held_by_either, same_board
from jaxgadget.holdem.checkpoint import SPOTS, BatchReport, SpotBatches
from jaxgadget.holdem.fitting import find_fitting
from jaxgadget.holdem.isomorphism import IDENTITY, Merging
from jaxgadget.holdem.kernels import KERNELS
from jaxgadget.holdem.locks import Lock, Locked, find_locked
from jaxgadget.holdem.operators import Raked, SpotsPayoff, Staked, build_folds, build_showdowns
from jaxgadget.holdem.runouts import (
    EvaluatedStreets,
    Runouts,
    StreetStrategies,
    evaluate_streets,
    find_merged,
    lay_out_streets,
)
from jaxgadget.holdem.solution import SpotSolution, SpotSolutions, SpotState
from jaxgadget.holdem.spots import Spot
from jaxgadget.holdem.strategies import (
    HeldRows,
    action_nodes,
    body_order,
    body_to_rows,
    one_hand,
    policy_to_rows,
)
from jaxgadget.holdem.streets import Suits, find_lanes
from jaxgadget.policy.policy import Policy
from jaxgadget.tree.public import PublicTree, public_tree
from jaxgadget.tree.public_form import hand_entries
from jaxgadget.tree.sequence import SequenceForm
from jaxgadget.tree.whole import sequence_form
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.compilation import compiled
from jaxgadget.util.memory import megabytes
from jaxgadget.util.precision import precision

MAX_SPOTS = 64
"""Maximum number of spots per batch on a CPU; the tables of each distinct board take a megabyte."""

CHECK_EVERY = 10
"""Iterations between two checks of the gap, each of which costs about as much as one iteration."""

DEFAULT = Solver(algorithm="dcfr", iterations=1000, check_every=CHECK_EVERY)
"""Default settings of `solve_spots`."""

ALONE = 1 << 13
"""Public nodes × hands from which spots on different boards, or with a target gap, are solved one by one.

Milliseconds per iteration and spot of ten rivers on two cores, one by one, in chunks of five and together:
0.21, 0.22 and 0.37 with full ranges and 57 nodes, 0.056, 0.065 and 0.10 with 200 hands and 39 nodes.
"""

LOT = 1 << 21
"""Public nodes × hands of the spots that are prepared together where each is then solved alone."""

LEAST_BYTES = 16
"""Minimum bytes per pair of a public node and a hand on a turn or river: regrets, sums and results."""

LOOP_FACTOR = 1.1
"""Memory of the loop of a flop, as a multiple of its state: with temporary arrays and tables."""

COMPRESSED_BYTES = 2
"""Bytes of a number of `core.branches.Compressed`."""

TABLE_COPIES = 3
"""Number of simultaneous copies of the tables: in float64, in the solve's precision, and for chunks."""


def solve_spots(
    spots: Sequence[Spot],
    *,
    locks: Sequence[Lock] | Sequence[Sequence[Lock]] = (),
    suit_isomorphism: bool | None = None,
    compressed: bool = False,
    keep_state: bool = False,
    on_solved: Callable[[Mapping[int, SpotSolution]], None] | None = None,
    solver: Solver | None = None,
    iterations: int | None = None,
    algorithm: str | Rule | None = None,
) -> SpotSolutions:
    """Solves hold'em spots; spots whose trees have the same shape are batched.

    Args:
      spots: rivers, turns and flops, in any order.
      locks: strategies that are fixed at nodes, for all spots, or a list of them for each spot. The rest is
        solved, and gaps are those of the locked game: a player's best response keeps its own locks.
      suit_isomorphism: on rivers and turns merge hands that a permutation of suits maps to each other, if the
        board and both ranges allow it (see `find_exchanges`), and on flops turns and rivers, which gives the
        same solutions with less memory; by default only on flops. Only spots on the same board are then
        batched.
      compressed: keep regrets and averages of a flop's turns and rivers in 16 bits, with half of the memory.
      keep_state: keep the solver's state in each solution (`SpotSolution.state`), from which `resume_spots`
        continues; spots are then solved one by one.
      on_solved: callback; receives the solutions of each completed batch, by the indices of their spots. It
        is first called for each archive of the checkpoint.
      solver: settings; by default 1000 iterations of DCFR in float32, with a check of the gap every 10.
        `target_gap` is NashConv, twice the exploitability, in chips or as `1%` of the pot. Each spot stops at
        the first check at which its gap is small enough, so its solution does not depend on other spots; up
        to eight spots of small trees on a CPU (`ALONE`), and a batch on a GPU, run until the last of them
        stops. `checkpoint` is a folder of solutions and of the states of unfinished batches; a solution is
        reused even if the other spots differ. A batch has as many spots as fit into `memory_limit`; each of
        the `devices` solves its own batches. `time_limit` is not supported.
      iterations: shorthand for `Solver(iterations=…)`.
      algorithm: shorthand for `Solver(algorithm=…)`.

    Returns:
      The solutions, in the order of the spots.

    Raises:
      ValueError: if an argument is out of range, a spot does not fit in memory, or the checkpoint is
        damaged, in use or cannot be written.
    """
    solutions: dict[int, SpotSolution] = {}
    batches = solve_batches(
        spots,
        locks=locks,
        suit_isomorphism=suit_isomorphism,
        compressed=compressed,
        keep_state=keep_state,
        solver=solver,
        iterations=iterations,
        algorithm=algorithm,
    )
    for solved in batches:
        solutions |= solved
        if on_solved is not None:
            on_solved(solved)
    return SpotSolutions(solutions[spot_idx] for spot_idx in range(len(spots)))


def solve_batches(
    spots: Sequence[Spot],
    *,
    locks: Sequence[Lock] | Sequence[Sequence[Lock]] = (),
    suit_isomorphism: bool | None = None,
    compressed: bool = False,
    keep_state: bool = False,
    solver: Solver | None = None,
    iterations: int | None = None,
    algorithm: str | Rule | None = None,
) -> Iterator[dict[int, SpotSolution]]:
    """Yields the solutions of `solve_spots` batch by batch, by the indices of the spots.

    No batch is retained once the next one is requested, as a turn's solution may take 100 MB.
    """
    solver = choose_solver(
        solver,
        DEFAULT,
        iterations=iterations,
        algorithm=algorithm,
        without=("time_limit",),
        pots=True,
    ).iterative()
    batches = _SolvedBatches(
        spots,
        solver,
        locks=locks,
        suit_isomorphism=suit_isomorphism,
        compressed=compressed,
        keep_state=keep_state,
    )
    check_room(batches.spots, solver, suit_isomorphism, compressed=compressed, locked=batches.locked)
    if solver.placement.on_cpu:
        KERNELS.load_ahead()
    return batches.run()


def resume_spots(
    solutions: SpotSolution | Sequence[SpotSolution],
    *,
    solver: Solver | None = None,
    iterations: int | None = None,
) -> SpotSolutions:
    """Continues the solves of spots: the results are those of a single solve with as many iterations.

    Args:
      solutions: solutions with a state, from `solve_spots(keep_state=True)`, `resume_spots` or a file.
      solver: settings as for `solve_spots`. `iterations` counts those of the solution, too; by default 1000
        more. `algorithm` and `dtype` must be those of the solution, and need not be given.
      iterations: shorthand for `Solver(iterations=…)`.

    Returns:
      The new solutions, with their states, in order.

    Raises:
      ValueError: if a solution has no state, the state is of other settings or of a release that lays out
        spots in another way, or the solution has more iterations than requested.
    """
    several = [solutions] if isinstance(solutions, SpotSolution) else list(solutions)
    resumed = SpotSolutions()
    for solution in several:
        if solution.state is None:
            raise ValueError(
                f"{solution!r} has no state to continue from; expected a solution of "
                "solve_spots(keep_state=True)"
            )
        own = Solver(
            algorithm=solution.algorithm,
            iterations=solution.iterations + DEFAULT.num_iterations,
            check_every=CHECK_EVERY,
            dtype=solution.state.dtype,
        )
        chosen = choose_solver(
            solver, own, iterations=iterations, without=("time_limit",), pots=True
        ).iterative()
        for name, mine in (("algorithm", chosen.name), ("dtype", chosen.precision.name)):
            if mine != getattr(own, name):
                raise ValueError(
                    f"{name}={mine!r}: the solution was solved with {getattr(own, name)!r}; expected the "
                    "same, or a new solve"
                )
        if chosen.num_iterations < solution.iterations:
            raise ValueError(
                f"iterations={chosen.num_iterations}: the solution has {solution.iterations} already; "
                "expected at least as many"
            )
        state = solution.state
        batches = _SolvedBatches(
            [solution.spot],
            chosen,
            locks=solution.locks,
            suit_isomorphism=state.suit_isomorphism,
            compressed=state.compressed,
            keep_state=True,
            begun=state,
        )
        for solved in batches.run():
            resumed.append(solved[0])
    return resumed


def check_room(
    spots: Sequence[Spot],
    solver: Solver,
    suit_isomorphism: bool | None = None,
    *,
    compressed: bool = False,
    locked: Sequence[Locked | None] = (),
) -> None:
    """Raises ValueError if a spot needs more memory than is available, before its public tree is built."""
    available = find_memory(solver.placement) if solver.memory_limit is None else solver.memory_limit
    count = functools.cache(count_nodes)
    for spot_idx, (spot, locks) in enumerate(zip(spots, locked or [None] * len(spots), strict=True)):
        if suit_isomorphism and not spot.is_flop:  # which merges hands
            continue
        itemsize = COMPRESSED_BYTES if compressed else solver.precision.itemsize
        num_bytes = needed_bytes(spot, itemsize, suit_isomorphism, locks)
        needed = num_bytes(count(spot.rules))
        if available is None or needed <= available:
            continue
        fitting = find_fitting(spot, num_bytes, available)
        menus = "fewer bet sizes, a cap on raises"
        if fitting is not None:
            menus = f"{fitting.text} ({megabytes(fitting.num_bytes)})"
        raise ValueError(
            f"spots[{spot_idx}]: {spot.title} takes about {megabytes(needed)} of memory, but "
            f"{megabytes(available)} is available; expected {menus}, narrower ranges, "
            f"{'compressed=True, ' if spot.is_flop and not compressed else ''}or a larger memory_limit"
        )


def needed_bytes(
    spot: Spot, itemsize: int, suit_isomorphism: bool | None, locked: Locked | None = None
) -> Callable[[Sequence[int]], int]:
    """Function from numbers of public nodes on each street, below one card of each deal, to least bytes.

    Args:
      spot: the spot.
      itemsize: bytes of a number of a flop's state.
      suit_isomorphism: as in `solve_spots`.
      locked: the locks of a flop.
    """
    hands = carried_hands([spot])
    num_hands = len(spot.hands) if hands is None else hands.shape[1]
    if spot.is_flop:
        exchanges = find_merged(spot, suit_isomorphism, locked) or (IDENTITY,)
        lanes = [len(street) for street in find_lanes(spot.gone, exchanges, len(spot.rules.menus) - 1)]
        each = round(2 * LOOP_FACTOR * num_hands * itemsize)  # regrets and sums of plans
    else:
        lanes, each = [1, spot.num_left][: len(spot.rules.menus)], num_hands * LEAST_BYTES
    return lambda counts: each * sum(count * lane for count, lane in zip(counts, lanes, strict=True))


class _SolvedBatches(SpotBatches[SpotSolution]):
    """Batches of `solve_spots`."""

    label, format = "solving", SPOTS

    def __init__(
        self,
        spots: Sequence[Spot],
        solver: Solver,
        *,
        locks: Sequence[Lock] | Sequence[Sequence[Lock]] = (),
        suit_isomorphism: bool | None,
        compressed: bool = False,
        keep_state: bool = False,
        begun: SpotState | None = None,
    ) -> None:
        """Stores the settings; `begun` is the state from which the only spot continues."""
        super().__init__(spots, solver)
        self._locks, self._compressed = _locks_by_spot(self.spots, locks), compressed
        if compressed and self.spots and not any(spot.is_flop for spot in self.spots):
            raise ValueError("compressed=True: no spot is a flop; expected a flop, or False")
        self.locked = [
            find_locked(spot, own, f"locks of spots[{spot_idx}]" if len(spots) > 1 else "locks")
            for spot_idx, (spot, own) in enumerate(zip(self.spots, self._locks, strict=True))
        ]
        if suit_isomorphism and any(
            own and not spot.is_flop for spot, own in zip(self.spots, self._locks, strict=True)
        ):
            raise ValueError("suit_isomorphism=True cannot be combined with locks; leave one of them out")
        self._keep_state, self._begun = keep_state, begun
        self._exchanges = [
            find_merged(spot, suit_isomorphism, locked)
            for spot, locked in zip(self.spots, self.locked, strict=True)
        ]

    def describe(self, spot_idx: int) -> str:
        """Description of all inputs of a spot's result, except its name and the solver's settings."""
        merges = len(self._exchanges[spot_idx]) > 0
        notes = {
            " suit isomorphism": merges,
            " and its state": self._keep_state,
            " compressed": self._compressed and self.spots[spot_idx].is_flop,
        }
        locked = self.locked[spot_idx]
        locks = "" if locked is None else f" locked {locked.digest}"
        return "".join(note for note, applies in notes.items() if applies) + locks

    def split(self, numbers: Sequence[int]) -> list[list[int]]:
        """Splits spots into batches with trees of one shape, and on one board if hands are merged.

        Spots with similar numbers of hands are batched together.
        """
        groups: dict[Any, list[int]] = collections.defaultdict(list)
        for spot_idx in numbers:
            spot, exchanges = self.spots[spot_idx], self._exchanges[spot_idx]
            board: Any = len(spot.cards), spot.num_left
            if self._by_streets(spot_idx):  # one by one
                board = spot_idx
            elif len(exchanges) > 1:
                board = frozenset(spot.cards), frozenset(spot.gone), exchanges
            is_locked = self.locked[spot_idx] is not None
            game = spot.betting.shape, board, spot.rake > 0, is_locked
            groups[game, self.target_in_pots(spot_idx)].append(spot_idx)
        batches: list[list[int]] = []
        for alike in groups.values():
            alike.sort(key=lambda spot_idx: int(held_by_either(self.spots[spot_idx]).sum()))
            merges, size = len(self._exchanges[alike[0]]) > 1, 1
            if len(alike) > 1 and not self._keep_state:
                size = most_at_once(self.spots[alike[-1]], self.solver, merges=merges)
                if self._solves_alone(alike):
                    size = min(size, max(LOT // self._num_pairs(alike), find_workers(self.solver.placement)))
            batches += in_pieces(alike, size, len(self.solver.placement.devices))
        return batches

    def solve(self, numbers: Sequence[int], solver: Solver, report: BatchReport) -> list[SpotSolution]:
        """Solves a batch; the solver's target gap is in pots."""
        exchanges = self._exchanges[numbers[0]]
        if self._by_streets(numbers[0]):
            spot = self.spots[numbers[0]]
            solution = _solve_by_streets(
                spot,
                solver,
                report,
                self._begun,
                exchanges,
                self.locked[numbers[0]],
                compressed=self._compressed and spot.is_flop,
                keep_state=self._keep_state,
            )
            return [dataclasses.replace(solution, locks=tuple(self._locks[numbers[0]]))]
        merges = len(exchanges) > 1
        if self._solves_alone(numbers):
            solver = dataclasses.replace(solver, chunk=1)
        spots = [self.spots[spot_idx] for spot_idx in numbers]
        locked = [each for spot_idx in numbers if (each := self.locked[spot_idx]) is not None]
        if self._keep_state:
            solved = [_solve_on(spots[0], solver, report, self._begun, locked, merges=merges)]
        else:
            solved = _solve_alike(spots, solver, report, locked, merges=merges)
        if not locked:
            return solved
        return [
            dataclasses.replace(
                solution,
                locks=tuple(self._locks[spot_idx]),
                unlocked_gains=evaluate_spot(solution.spot, solution.policy).gains,
            )
            for spot_idx, solution in zip(numbers, solved, strict=True)
        ]

    def _by_streets(self, spot_idx: int) -> bool:
        """True if a spot is solved street by street, with later streets as branches of the first.

        A turn is solved with its whole tree if strategies are locked, hands are merged, or the rule cannot
        recompute strategies from regrets.
        """
        spot = self.spots[spot_idx]
        if spot.is_flop or len(spot.cards) == 5:
            return spot.is_flop
        is_free = self.locked[spot_idx] is None and not self._exchanges[spot_idx]
        return is_free and follows_from_regrets(self.solver.iterative_rule())

    def _solves_alone(self, numbers: Sequence[int]) -> bool:
        """True if spots with trees of one shape are solved one by one, each on a core of the CPU."""
        if not self.solver.placement.on_cpu:
            return False
        if self._has_kernel(numbers[0]):
            return True
        if self.solver.target_gap is None and same_board([self.spots[spot_idx] for spot_idx in numbers]):
            return False  # they share their tables, and stop together
        return self._num_pairs(numbers) >= ALONE

    def _has_kernel(self, spot_idx: int) -> bool:
        """True if a kernel solves a spot, and others like it, one by one."""
        is_plain = len(self.spots[spot_idx].cards) == 5 and len(self._exchanges[spot_idx]) <= 1
        return is_plain and kernels.applies(self.solver.iterative_rule(), ()) and KERNELS.is_expected

    def _num_pairs(self, numbers: Sequence[int]) -> int:
        """Largest number of pairs of a public node and a hand of spots with trees of one shape."""
        hands = max(int(held_by_either(self.spots[spot_idx]).sum()) for spot_idx in numbers)
        return len(self.spots[numbers[0]].betting.tree) * hands

    def pack(self, result: SpotSolution) -> dict[str, Any]:
        """The arrays of a solution that an archive stores."""
        numbers = ("ev", "gap", "gains", "unlocked_gains", "iterations")
        arrays: dict[str, Any] = {name: vars(result)[name] for name in numbers}
        for player in (0, 1):
            arrays |= result.held[player].pack(player)
            arrays[f"hand_ev_{player}"] = result.hand_ev[player]
        if result.streets is not None:
            arrays |= result.streets.pack()
        if result.state is not None:
            arrays["state_key"] = np.array(result.state.key)
            arrays |= {f"state_{leaf}": array for leaf, array in enumerate(result.state.arrays)}
        return arrays

    def unpack(self, spot_idx: int, arrays: Mapping[str, Any]) -> SpotSolution:
        """Restores the solution of a spot from its arrays."""
        first, second = arrays["ev"].tolist()
        unknown = np.full(2, np.nan)  # in archives of 0.4, which have no locks
        gains, unlocked_gains = (tuple(arrays.get(n, unknown).tolist()) for n in ("gains", "unlocked_gains"))
        state = None
        if self._keep_state:
            leaves = sum(name.startswith("state_") for name in arrays) - 1  # without the key
            state = SpotState(
                key=str(arrays["state_key"]),
                dtype=self.solver.precision.name,
                suit_isomorphism=len(self._exchanges[spot_idx]) > 0,
                compressed=self._compressed and self.spots[spot_idx].is_flop,
                arrays=tuple(np.asarray(arrays[f"state_{leaf}"]) for leaf in range(leaves)),
            )
        spot = self.spots[spot_idx]
        first_held, second_held = (
            HeldRows.unpack(spot.betting.tree, player, len(spot.hands), arrays) for player in (0, 1)
        )
        return SpotSolution(
            spot=spot,
            held=(first_held, second_held),
            ev=(first, second),
            hand_ev=(arrays["hand_ev_0"], arrays["hand_ev_1"]),
            gap=float(arrays["gap"]),
            algorithm=self.solver.name,
            iterations=int(arrays["iterations"]),
            locks=tuple(self._locks[spot_idx]),
            state=state,
            gains=gains,
            unlocked_gains=unlocked_gains,
            streets=StreetStrategies.unpack(spot, self._exchanges[spot_idx], arrays, self.locked[spot_idx]),
        )


def _locks_by_spot(spots: Sequence[Spot], locks: Any) -> list[Sequence[Lock]]:
    """The locks of each spot; raises ValueError unless they are a list for all spots or one for each."""
    if not isinstance(locks, Sequence) or isinstance(locks, str):
        raise ValueError(f"locks={locks!r}: expected a list of Lock(line=…, strategy=…)")
    several: Sequence[Any] = locks
    if not several or not all(isinstance(each, Sequence) for each in several):
        return [several] * len(spots)
    if len(several) != len(spots):
        raise ValueError(
            f"locks: {len(several)} lists for {len(spots)} spots; expected one for each, or one list for all"
        )
    return list(several)


def in_pieces(numbers: Sequence[int], size: int, devices: int) -> list[list[int]]:
    """Splits a sequence into consecutive pieces of equal size, at most `size`; the last one may be smaller.

    Pieces of equal size share programs. Each of several devices gets the same number of them.
    """
    rounds = max(-(-len(numbers) // (size * devices)), 1)
    size = max(-(-len(numbers) // (rounds * devices)), 1)
    return [list(numbers[begin : begin + size]) for begin in range(0, len(numbers), size)]


def _make_form(spot: Spot) -> SequenceForm:
    """A spot's sequence form, made from a copy: a spot caches its tables, which take 40 MB for a turn."""
    return sequence_form(public_tree(dataclasses.replace(spot)))


def most_spots(placement: Placement) -> int:
    """Maximum number of spots per batch; larger on accelerators, where operations have launch overhead."""
    return MAX_SPOTS if placement.on_cpu else LAUNCH_LANES


def most_at_once(spot: Spot, solver: Solver, *, merges: bool = False) -> int:
    """Number of spots like this one that fit in memory, at least 1."""
    available = find_memory(solver.placement) if solver.memory_limit is None else solver.memory_limit
    if available is None:
        return most_spots(solver.placement)
    hands = carried_hands([spot])
    batch = build_batch([spot], _make_form(spot), hands, merge_hands([spot], hands) if merges else None)
    _, size = batch_size(batch, solver.precision, solver.iterative_rule())
    tables, _ = batch.payoff.num_bytes()
    fits = max((available - size.fixed) // (TABLE_COPIES * tables + size.lane), 1)
    return min(fits, most_spots(solver.placement))


def evaluate_spot(spot: Spot, policy: Policy) -> SpotSolution:
    """Evaluates a policy of both players in a spot, in float64: EVs of hands and exploitability.

    Args:
      spot: the spot.
      policy: policy of `public_tree(spot)`, one lane.

    Raises:
      ValueError: if the policy is for the hands of another board or the tree of another menu, or has several
        lanes.
    """
    check_policy_of(spot, policy, "policy")
    form = sequence_form(policy.tree)
    problem = build_batch([spot], form).problem()
    with precision(np.float64):
        nothing = jax.device_put(np.zeros((0, 1)))
        first, second = (Parts(nothing, jax.device_put(body)) for body in policy_to_bodies(policy))
        certificate = _certify(problem, (first, second), (None, None), played=True)
        outcome = _worth(certificate)
    all_hands = np.arange(len(spot.hands))
    carried = _Carried(all_hands, all_hands)
    outcome = jax.tree.map(lambda x: x[..., 0], outcome)
    return _of_lane(spot, form, (carried, carried), None, outcome, (policy.labels[0], 0))


def policy_to_bodies(policy: Policy, hands: IntArray | None = None) -> tuple[FloatArray, FloatArray]:
    """Converts a policy of one lane to both players' strategies `[C × H, 1]` in the order of treeplexes.

    Args:
      policy: the policy.
      hands: `[H]` indices of the hands in the result, -1 for padding; by default all.
    """
    form = sequence_form(policy.tree)
    taken = slice(None) if hands is None else hands
    first, second = (
        rows[body_order(form, player)][:, taken].reshape(-1, 1)
        for player, rows in enumerate(policy_to_rows(policy))
    )
    return first, second


def check_policy_of(spot: Spot, policy: object, name: str) -> Policy:
    """Returns the policy if it has one lane and the spot's hands and tree; ranges may differ.

    Raises:
      ValueError: otherwise; the message names the difference.
    """
    if (difference := _difference(spot, policy)) is None:
        assert isinstance(policy, Policy)
        return policy
    raise ValueError(
        f"{name}={policy!r} {difference}; expected a single policy of public_tree(spot), all hands included "
        "(translate_solution converts a solution of another menu)"
    )


def _difference(spot: Spot, policy: object) -> str | None:
    """The first difference between a policy and the single policies of a spot, as a predicate."""
    if not isinstance(policy, Policy) or not isinstance(policy.tree, PublicTree):
        return "is not a policy of a spot"
    if policy.num_lanes != 1:
        return f"has {policy.num_lanes} lanes, not one"
    game, names, betting = policy.tree.hands_game, tuple(spot.hand_names), spot.betting
    for player in (0, 1):
        if game.hands[player] != names:
            strange = next((hand for hand in game.hands[player] if hand not in names), None)
            is_part = f"lacks hands: {PLAYERS[player]} has {len(game.hands[player])} of {len(names)}"
            return is_part if strange is None else f"has the hand {strange}, which {spot.board} excludes"
    if game.action_names != betting.names:
        pairs = (("lacks", betting.names, game.action_names), ("has", game.action_names, betting.names))
        changes = [(verb, [name for name in had if name not in lacked]) for verb, had, lacked in pairs]
        return "is of another menu: it " + " and ".join(
            f"{verb} {', '.join(map(repr, actions))}" for verb, actions in changes if actions
        )
    if not np.array_equal(game.nodes.parent, betting.tree.parent):
        counts = len(game.nodes.parent), len(betting.tree.parent)
        return (
            "is of another menu: the same bets are allowed elsewhere (caps, or menus of players), with "
            f"{counts[0]} public nodes instead of {counts[1]}"
        )
    return None


def _solve_alike(
    spots: Sequence[Spot], solver: Solver, report: BatchReport, locked: Sequence[Locked], *, merges: bool
) -> list[SpotSolution]:
    """Solves spots whose trees have one shape and, if hands are merged, one board and one symmetry."""
    form, hands = _make_form(spots[0]), carried_hands(spots)
    merging = merge_hands(spots, hands) if merges else None
    batch = build_batch(spots, form, hands, merging, locked)
    solved = solve_batch(batch, solver, played=True, report=report, on_check=report.check)
    return _of_batch(spots, solved, form, hands, merging, solver)


def _solve_on(
    spot: Spot,
    solver: Solver,
    report: BatchReport,
    begun: SpotState | None,
    locked: Sequence[Locked],
    *,
    merges: bool,
) -> SpotSolution:
    """Solves a spot, from the state of an earlier solve if there is one, and keeps its state."""
    form, hands = _make_form(spot), carried_hands([spot])
    merging = merge_hands([spot], hands) if merges else None
    batch, rule = build_batch([spot], form, hands, merging, locked), solver.iterative_rule()
    key = fingerprint(batch.problem(), rule)
    state = None if begun is None else _continued(spot, begun, key, batch, solver)
    solved = solve_batch(
        batch,
        solver,
        played=True,
        report=report,
        state=state,
        keep_state=True,
        on_check=report.check,
    )
    arrays = tuple(np.asarray(leaf) for leaf in jax.tree.leaves(solved.state))
    ended = SpotState(key=key, dtype=solver.precision.name, suit_isomorphism=merges, arrays=arrays)
    (solution,) = _of_batch([spot], solved, form, hands, merging, solver)
    return dataclasses.replace(solution, state=ended)


def _continued(spot: Spot, begun: SpotState, key: str, batch: Batch, solver: Solver) -> State:
    """The state of the loop from an earlier solve of the same game.

    Raises:
      ValueError: if it was another game, or its algorithm or precision differ.
    """
    if begun.key != key:
        raise ValueError(
            f"state of {spot.board}: it was solved with another algorithm, memory_limit or kind of device, "
            "or by a release that lays spots out in another way; expected the same, or a new solve"
        )
    with precision(solver.precision):
        shape = problem_shape(batch, 1, solver.precision)
        structure = jax.tree.structure(
            jax.eval_shape(start, shape, solver.iterative_rule(), batch.payoff_state)
        )
        return solver.placement.by_lane(jax.tree.unflatten(structure, begun.arrays))


def _solve_by_streets(
    spot: Spot,
    solver: Solver,
    report: BatchReport,
    begun: SpotState | None,
    exchanges: Sequence[Suits],
    locked: Locked | None = None,
    *,
    compressed: bool,
    keep_state: bool,
) -> SpotSolution:
    """Solves a flop or turn with its later streets as branches."""
    rule = solver.iterative_rule()
    if not follows_from_regrets(rule):
        raise ValueError(
            f"algorithm={solver.name!r} on {spot.board}: expected regret matching without predictions, whose "
            "strategies follow from its regrets, such as 'dcfr' or 'cfr+'"
        )
    runouts = lay_out_streets(spot, exchanges, placement=solver.placement, memory_limit=solver.memory_limit)
    merges = len(exchanges) > 0
    batch = runouts.batch(rule, compressed=compressed, locked=locked)
    key = fingerprint(batch.problem(), rule) if keep_state else ""
    state = None if begun is None else _continued(spot, begun, key, batch, solver)

    later: list[BranchState] = []

    def finish(ended: Finished) -> tuple[EvaluatedStreets, tuple[jax.Array, ...]]:
        sums, payoff_state = ended.release()
        payoff_state = payoff_state[0], payoff_state[1].without_regrets()
        later.append(payoff_state[1])
        values = evaluate_streets(ended.in_float64(), sums, payoff_state)
        if locked is None:
            return values, values.certificate.guaranteed
        free = jax.tree.map(jax.device_put, runouts.batch(rule, compressed=compressed).problem())
        return values, evaluate_streets(free, sums, payoff_state).certificate.guaranteed

    solved = solve(
        batch, solver, finish, state=state, keep_state=keep_state, report=report, on_check=report.check
    )
    evaluated, unlocked = solved.outcome
    by = solver.name, int(solved.iterations[0])
    solution = conclude_streets(runouts, evaluated, later.pop(), by, locked)
    certificate = evaluated.certificate
    if locked is not None:  # in pots and without half of the pot, as in `_in_chips`
        first, second = (
            gain + spot.pot * float((own - free)[0, 0])
            for gain, own, free in zip(
                solution.gains, certificate.guaranteed[::-1], unlocked[::-1], strict=True
            )
        )
        solution = dataclasses.replace(solution, unlocked_gains=(first, second))
    if solved.state is None:
        return solution
    ended = SpotState(
        key=key,
        dtype=solver.precision.name,
        suit_isomorphism=merges,
        compressed=compressed,
        arrays=tuple(np.asarray(leaf) for leaf in jax.tree.leaves(solved.state)),
    )
    return dataclasses.replace(solution, state=ended)


def conclude_streets(
    runouts: Runouts,
    evaluated: EvaluatedStreets,
    later: BranchState,
    by: tuple[str, int],
    locked: Locked | None = None,
) -> SpotSolution:
    """The solution of a flop or turn in chips, from the certificate of its strategies.

    Args:
      runouts: the layout.
      evaluated: values of the strategies, in pots.
      later: the strategies on later streets.
      by: the rule's name, and the number of iterations.
      locked: as in `Runouts.batch`.
    """
    spot, hands, (certificate, deal_values) = runouts.spot, runouts.hands, evaluated
    first, second = (body[None] for body in certificate.strategy)
    weights, below = [(first, second)], jax.tree.map(np.asarray, later)
    while below is not None:
        weights.append(below.strategy_sum)
        below = below.below
    num_deals, real = len(runouts.streets[0].deals), hands >= 0
    values = np.zeros((2, num_deals, len(spot.hands)))
    values[..., hands[real]] = spot.pot * np.stack(deal_values).reshape(2, num_deals, -1)[..., real]
    values *= np.stack(spot.dealt)[:, None]
    strategies = StreetStrategies(
        runouts=runouts, weights=tuple(weights), deal_values=(values[0], values[1]), locked=locked
    )
    held = _carried_by(spot, carried_hands([spot]), 0)
    of_lane = jax.tree.map(lambda x: x[..., 0], _worth(certificate))
    first, second = (
        strategies.rows(player, spot.betting, spot.hands[own.hands]) for player, own in enumerate(held)
    )
    solution = _in_chips(
        spot,
        (first, second),
        [(own.hands, of_lane.hand_values[player][own.carried_idx]) for player, own in enumerate(held)],
        of_lane,
        by,
    )
    return dataclasses.replace(solution, streets=strategies) if spot.is_flop else solution


def _of_batch(
    spots: Sequence[Spot],
    solved: BatchSolution,
    form: SequenceForm,
    hands: IntArray | None,
    merging: Merging | None,
    solver: Solver,
) -> list[SpotSolution]:
    """The solutions of a batch's lanes."""
    worth = _worth(solved)
    return [
        _of_lane(
            spot,
            form,
            _carried_by(spot, hands, lane),
            merging,
            jax.tree.map(lambda x, lane=lane: x[..., lane], worth),
            (solver.name, int(solved.iterations[lane])),
        )
        for lane, spot in enumerate(spots)
    ]


def _of_lane(
    spot: Spot,
    form: SequenceForm,
    held: tuple[_Carried, _Carried],
    merging: Merging | None,
    outcome: _SolvedSpots,
    by: tuple[str, int],
) -> SpotSolution:
    """A lane's outcome in chips, for all hands; `by` is the rule's name and the number of iterations."""
    pair: list[FloatArray] = []
    hand_values: list[tuple[IntArray, FloatArray]] = []
    for player, (hands, carried_idx) in enumerate(held):
        rows = body_to_rows(form, player, np.asarray(outcome.bodies[player]))
        values_of_carried = np.asarray(outcome.hand_values[player])
        if merging is not None:
            rows = merging.expand(rows, action_nodes(spot.betting.tree, player), spot.betting)
            values_of_carried, carried_idx = values_of_carried[merging.class_idx], hands
        pair.append(rows[:, carried_idx])
        hand_values.append((hands, values_of_carried[carried_idx]))
    return _in_chips(spot, pair, hand_values, outcome, by)


def _in_chips(
    spot: Spot,
    rows: Sequence[FloatArray],
    hand_values: Sequence[tuple[IntArray, FloatArray]],
    outcome: _SolvedSpots,
    by: tuple[str, int],
) -> SpotSolution:
    """A lane's outcome in chips.

    Args:
      spot: the spot.
      rows: for both players `[C, h]` probabilities with the hands of `hand_values`.
      hand_values: for both players indices of the hands that it may hold, and their values, in pots.
      outcome: the values of the lane.
      by: the rule's name, and the number of iterations.
    """
    hand_evs: list[FloatArray] = []
    means: list[float] = []
    for player, (hands, values_of_hands) in enumerate(hand_values):
        met = spot.compatible_with(spot.dealt[1 - player])
        values = np.full(len(spot.hands), np.nan)
        values[hands] = values_of_hands
        hand_evs.append(spot.pot / 2 + spot.pot * _divide(values, met))
        means.append(spot.pot * float(spot.dealt[player][hands] @ values[hands]))
    won = float(outcome.value[0]) * spot.pot
    values_of_both = (means[0], means[1]) if spot.rake else (won, -won)
    best = [-spot.pot * float(outcome.guaranteed[1 - player][0]) for player in (0, 1)]
    gains = best[0] - values_of_both[0], best[1] - values_of_both[1]
    algorithm, iterations = by
    first, second = (
        HeldRows.of(spot.betting.tree, player, own, hand_values[player][0], len(spot.hands))
        for player, own in enumerate(rows)
    )
    return SpotSolution(
        spot=spot,
        held=(first, second),
        ev=(spot.pot / 2 + values_of_both[0], spot.pot / 2 + values_of_both[1]),
        hand_ev=(hand_evs[0], hand_evs[1]),
        gap=float(outcome.gap[0]) * spot.pot,
        algorithm=algorithm,
        iterations=iterations,
        gains=gains,
        unlocked_gains=gains,
    )


class _Carried(NamedTuple):
    """A player's hands with known results.

    Attributes:
      hands: `[n]` indices among all hands that are left on the board.
      carried_idx: `[n]` indices among the hands that the solve carried.
    """

    hands: IntArray
    carried_idx: IntArray


def _carried_by(spot: Spot, hands: IntArray | None, lane: int) -> tuple[_Carried, _Carried]:
    """The hands of each player's range among those that a lane carried."""
    own = np.arange(len(spot.hands)) if hands is None else hands[min(lane, len(hands) - 1)]
    possible = [np.flatnonzero((own >= 0) & (dealt[own] > 0)) for dealt in spot.dealt]
    return _Carried(own[possible[0]], possible[0]), _Carried(own[possible[1]], possible[1])


def merge_hands(spots: Sequence[Spot], hands: IntArray | None) -> Merging:
    """Merges the hands of a batch, from `carried_hands`; the spots have one board."""
    held = np.arange(len(spots[0].hands)) if hands is None else hands[0][hands[0] >= 0]
    return Merging.of(spots[0], held)


def build_batch(
    spots: Sequence[Spot],
    form: SequenceForm,
    hands: IntArray | None = None,
    merging: Merging | None = None,
    locked: Sequence[Locked] = (),
) -> Batch:
    """Builds a batch of spots, in float64 and in pots; the reach of a root is its hand's share of the deal.

    Args:
      spots: spots whose trees have one shape, all with rake or all without.
      form: sequence form of the public tree of one of them.
      hands: the carried hands, from `carried_hands`; None for all.
      merging: classes of merged hands; None if hands are not merged.
      locked: fixed strategies of every spot; empty if nothing is locked. They are floors whose sum is 1.
    """
    num_cards, of_boards = spots[0].num_left, spots[:1] if same_board(spots) else spots
    showdowns = build_showdowns(
        [spot.cards for spot in of_boards], hands, [spot.dead_cards for spot in of_boards]
    )
    groups: list[PublicEnds] = []
    for end in spots[0].ends():
        chips = np.stack([spot.stakes[end.node] * (end.chance / spot.pot) for spot in spots], axis=-1)
        if end.folds is None:
            tables = showdowns
        elif hands is None:
            tables = end.folds
        else:
            tables = build_folds(num_cards, range(num_cards) if len(end.node) > 1 else None, hands)
        if merging is not None:
            own = np.arange(len(spots[0].hands)) if hands is None else hands[0]
            tables = merging.merge(tables, own, len(end.node))
        pays: Staked | Raked = Staked(tables=tables, chips=on_host(chips))
        if spots[0].rake:
            rakes = [spot.half_rakes[end.node] * (end.chance / spot.pot) for spot in spots]
            pays = Raked(staked=pays, rake=on_host(np.stack(rakes, axis=-1)))
        groups.append(PublicEnds(end.node, np.ones(end.node.shape), pays))
    assert isinstance(form.payoff, HandEntries)
    carried = np.arange(len(spots[0].hands))[None] if hands is None else hands
    if merging is not None:
        carried = merging.hands[None]
    num_hands = (carried.shape[1], carried.shape[1])
    with precision(np.float64):
        entries = hand_entries(num_hands, groups, form.payoff.block, form.payoff.num_blocks)
        payoff = build_hands_payoff(entries, np.float64)
        first, second = (
            build_side(
                HandTreeplex(one_hand(form, player).one_hand, count),
                fixed_entry(1),
                np.zeros(count, np.int64),
                np.float64,
            )
            for player, count in enumerate(num_hands)
        )
    scales = [
        np.where(carried >= 0, np.take_along_axis(np.stack(dealt), carried, axis=1), 0.0).T
        for dealt in zip(*(spot.dealt for spot in spots), strict=True)
    ]
    if merging is not None:  # a hand has the weight of its class
        scales = [scale * merging.count[:, None] for scale in scales]

    floors = [_floors(spots, form, player, carried, locked) for player in (0, 1)] if locked else [None, None]

    def terms(lanes: IntArray) -> tuple[Terms, Terms]:
        constant = on_host(np.zeros((1, len(lanes))))
        pair = [
            Terms(
                scale=on_host(scale[:, lanes]),
                constant=constant,
                body=ChoiceRule(floor=None if floor is None else on_host(floor[:, lanes])),
            )
            for scale, floor in zip(scales, floors, strict=True)
        ]
        return pair[0], pair[1]

    return Batch(
        name="spots",
        order=(0, 1),
        sides=(first, second),
        payoff=SpotsPayoff(hands=payoff),
        num_lanes=len(spots),
        num_games=1,
        terms=terms,
    )


def _floors(
    spots: Sequence[Spot], form: SequenceForm, player: int, carried: IntArray, locked: Sequence[Locked]
) -> FloatArray | None:
    """`[C × H, lanes]` floors of a player's strategies, in the order of its treeplex; None without locks."""
    if not any(each.fixed[player] for each in locked):
        return None
    order = body_order(form, player)
    lanes: list[FloatArray] = []
    for lane, (spot, each) in enumerate(zip(spots, locked, strict=True)):
        own = carried[min(lane, len(carried) - 1)]
        lanes.append(np.where(own >= 0, each.floors(spot, player)[order][:, own], 0.0).ravel())
    return np.stack(lanes, axis=-1)


class _SolvedSpots(NamedTuple):
    """Average strategies and their values, in pots, in host memory.

    Attributes:
      bodies: both players' strategies `[Q, lanes]`.
      hand_values: for both players `[H, lanes]` values, not weighted by the probability of the player's hand.
      value: `[1, lanes]` value of player 0.
      guaranteed: for both players `[1, lanes]` minus the value of the other player's best response.
      gap: `[1, lanes]` NashConv.
    """

    bodies: tuple[FloatArray, FloatArray]
    hand_values: tuple[FloatArray, FloatArray]
    value: FloatArray
    guaranteed: tuple[FloatArray, FloatArray]
    gap: FloatArray


_certify = compiled(certify, quick=True, static_argnames=("played",))


def _worth(solution: BatchSolution | Certificate) -> _SolvedSpots:
    """The values of both strategies against each other, and their gap."""
    arrays = solution.strategy, solution.root_values, solution.value, solution.guaranteed, solution.gap
    return _SolvedSpots(*jax.tree.map(np.asarray, arrays))


def _divide(x: FloatArray, by: FloatArray) -> FloatArray:
    """Divides; NaN where the divisor is 0."""
    return np.divide(x, by, out=np.full_like(x, np.nan), where=by > 1e-12 * by.max(initial=0))
