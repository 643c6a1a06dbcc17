"""Many spots of hold'em at once: trees of one shape are a batch, boards, ranges and chips are lanes.

Inside, chips are counted in pots. Exploitability is half of NashConv, in chips.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import hashlib
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import pandas as pd
from jax.typing import DTypeLike

from jaxgadget.games.game import ACTOR_BIT
from jaxgadget.games.hands import PublicEnds
from jaxgadget.hands.form import HandsForm
from jaxgadget.hands.payoff import build_payoff
from jaxgadget.hands.policy import HandsPolicy, sum_siblings
from jaxgadget.kernels.batch import Batch
from jaxgadget.kernels.cfr import averages
from jaxgadget.kernels.problem import Parts, Problem, Terms, build_side, fixed_entry, follow, values_up
from jaxgadget.kernels.regret import Rule
from jaxgadget.kernels.response import evaluate, payoff_reaches
from jaxgadget.kernels.rows import on_host
from jaxgadget.poker.cards import HANDS, NUM_CARDS
from jaxgadget.poker.checkpoint import KeptSpot, batch_name, find_spots, load_spots, save_spots
from jaxgadget.poker.isomorphism import Merging, find_exchanges
from jaxgadget.poker.operators import Folds, SpotsPayoff, Staked, build_folds, build_showdowns
from jaxgadget.poker.spots import Spot
from jaxgadget.solving.devices import HOME, Placement
from jaxgadget.solving.driver import Finished, solve
from jaxgadget.solving.memory import LAUNCH_LANES, batch_size, find_memory
from jaxgadget.solving.options import SolveOptions, make_options
from jaxgadget.util.arguments import is_finite_number, read_number
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.compilation import compile_quickly
from jaxgadget.util.files import make_folder
from jaxgadget.util.precision import precision
from jaxgadget.util.progress import progress_bar

HANDS_STEP = 64
"""Numbers of hands are rounded up to multiples of that, so that batches share compiled programs."""

MOST_SPOTS = 64
"""Spots of a batch on a CPU, at most: with boards of their own each takes a megabyte of tables in float64."""

TABLE_COPIES = 3
"""So often are tables there at a time: in float64, in the precision of the solve, and those of chunks."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SpotSolution:
    """A solved spot; its certificate is in float64.

    Attributes:
      spot: what was solved.
      form: where the rows of `probabilities` are in the tree; its chips and names may be another spot's.
      probabilities: for both players `[C, H]`, as in `HandsPolicy`: the average strategies; all actions alike
        with hands that a player cannot hold.
      ev: both players' expected chips; they sum to the pot.
      hand_ev: for both players `[H]` expected chips with each hand; NaN where the player or the other cannot
        hold it.
      gap: NashConv in chips, the sum of what both could gain; twice the exploitability.
      algorithm: the rule, or what a policy that was given is called.
      iterations: how many were done.
    """

    spot: Spot
    form: HandsForm
    probabilities: tuple[FloatArray, FloatArray]
    ev: tuple[float, float]
    hand_ev: tuple[FloatArray, FloatArray]
    gap: float
    algorithm: str
    iterations: int

    def __repr__(self) -> str:
        first, second = self.ev
        return (
            f"<SpotSolution {self.spot.board}: EVs {first:.6g}, {second:.6g} of {self.spot.pot:.6g} chips, "
            f"exploitability {self.exploitability:.3g} chips, {self.iterations} iterations>"
        )

    @property
    def exploitability(self) -> float:
        """Half of NashConv, in chips: what a player could gain on the average of both seats."""
        return self.gap / 2

    @functools.cached_property
    def policy(self) -> HandsPolicy:
        """The strategies as a policy of `spot.by_hands()`: of all functions for games by hands."""
        first, second = (rows[:, :, None] for rows in self.probabilities)
        label = f"{self.algorithm}:{self.iterations}"
        return HandsPolicy(HandsForm(self.spot.by_hands()), (first, second), (label,))

    @functools.cached_property
    def equity(self) -> tuple[FloatArray, FloatArray]:
        """For both players `[H]` the share of the pot that each hand gets if nobody bets any more.

        NaN where the other can hold no hand.
        """
        shares: list[FloatArray] = []
        with precision(np.float64):
            showdowns = jax.tree.map(jax.device_put, self.spot.showdowns)
            tables = self.spot.showdowns.group.shape[1]
            for player in (0, 1):
                met = self.spot.compatible[player]
                weights = np.broadcast_to(self.spot.range_weights[1 - player], (tables, 1, len(met)))
                won = np.asarray(_win(showdowns, jax.device_put(weights[..., None])))[:, 0, :, 0].sum(axis=0)
                chance = 1 if tables == 1 else tables - 4
                shares.append(0.5 + 0.5 * _divide(won / chance, met))
        return shares[0], shares[1]

    def node(self, line: str = "") -> int:
        """The public node after a line such as `check, bet 100`; see `BettingTree.find`."""
        return self.spot.betting.find(line)

    def strategy(self, line: str = "") -> dict[str, FloatArray]:
        """Action → `[H]` how likely whoever acts after a line takes it with each hand.

        Raises:
          ValueError: if nobody acts there.
        """
        self.actor(line)
        betting = self.spot.betting
        return {betting.action_name(child): self._row(child) for child in betting.children(self.node(line))}

    def frequencies(self, line: str = "") -> dict[str, float]:
        """Action → how often it is taken when play comes there: the mean over hands as `weights` has them.

        NaN where these are 0.

        Raises:
          ValueError: if nobody acts there.
        """
        weights = self.weights(line)[self.actor(line)]
        total = weights.sum()
        return {
            action: float(row @ weights / total) if total > 0 else float("nan")
            for action, row in self.strategy(line).items()
        }

    def actor(self, line: str = "") -> int:
        """Who acts after a line, 0 or 1.

        Raises:
          ValueError: if nobody does.
        """
        return self.spot.betting.actor(line)

    def played(self, line: str = "") -> tuple[FloatArray, FloatArray]:
        """For both players `[H]` the range's weight of each hand × how likely the player plays so with it.

        Hands that a card of the line makes impossible have 0.
        """
        return self._reaches(self.node(line))

    def weights(self, line: str = "") -> tuple[FloatArray, FloatArray]:
        """For both players `[H]` how much of all compatible pairs has each hand when play comes there.

        Where none come, as after a bet that the other's blueprint never makes, a player's hands are weighed
        as if the other had come with its whole range; if the player itself never comes, as if it had too. All
        are 0 where not even whole ranges go together.
        """
        node = self.node(line)
        reaches, whole = self._reaches(node), self._possible(node)
        weights: list[FloatArray] = []
        for player in (0, 1):
            other = 1 - player
            both = [
                (reaches[player], reaches[other]),
                (reaches[player], whole[other]),
                (whole[player], whole[other]),
            ]
            pairs = (own * self.spot.compatible_with(others) for own, others in both)
            found = next((weight for weight in pairs if weight.sum() > 0), np.zeros_like(whole[player]))
            weights.append(found / max(found.sum(), np.finfo(np.float64).tiny))
        return weights[0], weights[1]

    def pairs(self, line: str = "") -> float:
        """The weight of all compatible pairs of hands with which play comes after a line."""
        first, second = self.played(line)
        return float(first @ self.spot.compatible_with(second))

    def to_frame(self, line: str = "") -> pd.DataFrame:
        """A row for every hand of whoever acts after a line: weight, EV and equity at the start, strategy.

        Weights are those of `weights`, also where play never comes.
        """
        player = self.actor(line)
        held = self.weights(line)[player]
        columns = {
            "hand": self.spot.hand_names,
            "weight": held,
            "ev": self.hand_ev[player],
            "equity": self.equity[player],
            **self.strategy(line),
        }
        return pd.DataFrame(columns)[held > 0].reset_index(drop=True)

    def to_row(self) -> dict[str, Any]:
        """What `jaxgadget holdem --json` says of a spot; `exploitability` and `gap` are in chips.

        `spot` is its canonical string, which tells spots of one board apart.
        """
        return {
            "spot": self.spot.name,
            "board": self.spot.board,
            "ev": list(self.ev),
            "exploitability": self.exploitability,
            "gap": self.gap,
            "iterations": self.iterations,
            "hands": [int((weights > 0).sum()) for weights in self.spot.range_weights],
            "root": self.frequencies(),
        }

    def _row(self, child: int) -> FloatArray:
        """`[H]` how likely the action that leads to a node is."""
        player = ACTOR_BIT.index(int(self.spot.betting.tree.actor[self.spot.betting.tree.parent[child]]))
        return self.probabilities[player][np.searchsorted(self.form.children[player], child)]

    def _reaches(self, node: int) -> tuple[FloatArray, FloatArray]:
        """For both players `[H]` how likely it holds each hand and plays to a node."""
        tree = self.spot.betting.tree
        reaches = self._possible(node)
        while node:
            actor = int(tree.actor[tree.parent[node]])
            if actor in ACTOR_BIT:
                reaches[ACTOR_BIT.index(actor)] *= self._row(node)
            node = int(tree.parent[node])
        return reaches[0], reaches[1]

    def _possible(self, node: int) -> list[FloatArray]:
        """For both players `[H]` the range's weights; 0 of hands that have the card shown at a node."""
        possible = [weights.copy() for weights in self.spot.range_weights]
        card = int(self.spot.betting.card[node])
        for weights in possible:
            weights[(HANDS[self.spot.hands] == card).any(axis=1)] = 0
        return possible


def solve_spots(
    spots: Sequence[Spot],
    *,
    algorithm: str | Rule = "dcfr",
    iterations: int = 1000,
    target_gap: float | str | None = None,
    check_every: int = 50,
    dtype: DTypeLike = "float32",
    checkpoint: str | os.PathLike[str] | None = None,
    suit_isomorphism: bool = False,
    memory_limit: int | None = None,
    progress: bool | None = None,
    on_solved: Callable[[Mapping[int, SpotSolution]], None] | None = None,
) -> list[SpotSolution]:
    """Solves spots of hold'em, those whose trees have one shape side by side.

    Args:
      spots: rivers and turns, in any order.
      algorithm: a regret-matching rule, see `solve`.
      iterations: at most that many; an iteration updates both players.
      target_gap: stop when NashConv, twice the exploitability, is no larger in any of the spots that are
        solved together, at most eight of a batch on a CPU: in chips, or as `1%` of the pot of each spot.
      check_every: iterations between two looks at NashConv.
      dtype: `float32` or `float64`; certificates are always in float64.
      checkpoint: a folder, where solutions are kept as soon as they are there, and now and then how far the
        others are. Called again, with other spots besides or in another order too, nothing is solved twice.
      suit_isomorphism: whether hands that an exchange of suits maps into each other are solved as one, where
        the board and both ranges allow it (`find_exchanges` says where and why not): the same solutions with
        less memory. Only spots of one board are then solved side by side.
      memory_limit: bytes that may be taken; by default what there is. As many spots go into a batch as fit.
      progress: a bar, or a line a minute in a log; by default a bar, on a terminal or in a notebook.
      on_solved: is given the solutions of every batch, by the numbers of their spots, as soon as it is done;
        those of the checkpoint come first, an archive at a time.

    Returns:
      The solutions, in the order of the spots.

    Raises:
      ValueError: if an argument is out of range, a spot does not fit the memory, or the checkpoint is damaged
        or cannot be written.
    """
    solutions: dict[int, SpotSolution] = {}
    batches = solve_batches(
        spots,
        algorithm=algorithm,
        iterations=iterations,
        target_gap=target_gap,
        check_every=check_every,
        dtype=dtype,
        checkpoint=checkpoint,
        suit_isomorphism=suit_isomorphism,
        memory_limit=memory_limit,
        progress=progress,
    )
    for solved in batches:
        solutions |= solved
        if on_solved is not None:
            on_solved(solved)
    return [solutions[number] for number in range(len(spots))]


def solve_batches(
    spots: Sequence[Spot],
    *,
    algorithm: str | Rule = "dcfr",
    iterations: int = 1000,
    target_gap: float | str | None = None,
    check_every: int = 50,
    dtype: DTypeLike = "float32",
    checkpoint: str | os.PathLike[str] | None = None,
    suit_isomorphism: bool = False,
    memory_limit: int | None = None,
    progress: bool | None = None,
) -> Iterator[dict[int, SpotSolution]]:
    """What `solve_spots` collects, batch by batch, by the numbers of the spots; see there.

    Nothing of a batch is held on to once the next one is asked for: a turn's solution may take 100 MB.
    """
    for number, spot in enumerate(spots):
        if not isinstance(spot, Spot):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"spots[{number}]={spot!r}: expected a Spot")
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
    folder, keys = None, [""] * len(spots)
    found: set[int] = set()
    if checkpoint is not None:
        folder = pathlib.Path(checkpoint)
        make_folder(folder)
        how = f"{options.rule!r} {iterations} {target_gap} {check_every} {options.dtype}"
        how += " suit isomorphism" if suit_isomorphism else ""
        keys = [hashlib.sha256(f"{spot.name} {how}".encode()).hexdigest() for spot in spots]
        for kept in _kept_solutions(folder, spots, keys, options.algorithm):
            found.update(kept)
            yield kept
            del kept
    exchanges = [find_exchanges(spot)[0] if suit_isomorphism else () for spot in spots]
    left = [number for number in range(len(spots)) if number not in found]
    parts = _split(spots, left, options, exchanges)
    with progress_bar("solving", len(parts) * iterations, progress) as report:
        for done, numbers in enumerate(parts):
            members = [spots[number] for number in numbers]
            states = None
            if folder is not None:
                states = folder / f"{batch_name([keys[number] for number in numbers])}.states"
                make_folder(states)
            goal = None if in_pots is None else min(in_pots(spot) for spot in members)
            solved = _solve_alike(
                members,
                dataclasses.replace(options, target_gap=goal, checkpoint=states),
                lambda now, before=done: report(before * iterations + now),
                merges=len(exchanges[numbers[0]]) > 1,
            )
            batch = dict(zip(numbers, solved, strict=True))
            del solved
            if folder is not None and states is not None:
                save_spots(folder, {keys[number]: _to_keep(solution) for number, solution in batch.items()})
                shutil.rmtree(states)
            yield batch
            del batch
            report((done + 1) * iterations)


def _to_keep(solution: SpotSolution) -> KeptSpot:
    """What a checkpoint keeps."""
    return KeptSpot(solution.probabilities, solution.ev, solution.hand_ev, solution.gap, solution.iterations)


def _kept_solutions(
    folder: pathlib.Path, spots: Sequence[Spot], keys: Sequence[str], algorithm: str
) -> Iterator[dict[int, SpotSolution]]:
    """What a checkpoint has, an archive at a time, by the numbers of the spots."""
    wanted = set(keys)
    for path, kept_keys in find_spots(folder).items():
        if not wanted.isdisjoint(kept_keys):
            yield _kept_batch(load_spots(path, wanted), spots, keys, algorithm)
            wanted.difference_update(kept_keys)


def _kept_batch(
    kept: Mapping[str, KeptSpot], spots: Sequence[Spot], keys: Sequence[str], algorithm: str
) -> dict[int, SpotSolution]:
    """The solutions of an archive, whose trees have one shape."""
    numbers = [number for number, key in enumerate(keys) if key in kept]
    form = _make_form(spots[numbers[0]])
    return {
        number: SpotSolution(
            spot=spots[number], form=form, algorithm=algorithm, **kept[keys[number]]._asdict()
        )
        for number in numbers
    }


def _make_form(spot: Spot) -> HandsForm:
    """A spot's form; of a copy, as a spot keeps its tables, which take 40 MB for a turn."""
    return HandsForm(dataclasses.replace(spot).by_hands())


def _split(
    spots: Sequence[Spot],
    numbers: Sequence[int],
    options: SolveOptions,
    exchanges: Sequence[tuple[tuple[int, ...], ...]],
) -> list[list[int]]:
    """Batches of spots, by their numbers: of trees of one shape, and as many as fit the memory.

    Those with about as many hands lie side by side.
    """
    groups: dict[tuple[Any, ...], list[int]] = collections.defaultdict(list)
    for number in numbers:
        spot, merges = spots[number], len(exchanges[number]) > 1
        board = (frozenset(spot.cards), exchanges[number]) if merges else len(spot.cards)
        groups[spot.betting.shape, board].append(number)
    parts: list[list[int]] = []
    for alike in groups.values():
        alike.sort(key=lambda number: int(_held_by_either(spots[number]).sum()))
        merges = len(exchanges[alike[0]]) > 1
        most = 1 if len(alike) == 1 else most_at_once(spots[alike[-1]], options, merges=merges)
        parts += [alike[begin : begin + most] for begin in range(0, len(alike), most)]
    return parts


def most_spots(placement: Placement) -> int:
    """How many spots make a batch at most: on accelerators, where every operation is a launch, more."""
    return MOST_SPOTS if placement.on_cpu else LAUNCH_LANES


def most_at_once(spot: Spot, options: SolveOptions, *, merges: bool = False) -> int:
    """How many spots like one fit the memory, at least 1; the plan of the solve refuses what does not."""
    available = find_memory(options.placement) if options.memory_limit is None else options.memory_limit
    if available is None:
        return most_spots(options.placement)
    hands = carried_hands([spot])
    batch = build_batch([spot], _make_form(spot), hands, merge_hands([spot], hands) if merges else None)
    _, size = batch_size(batch, options.dtype)
    tables, _ = batch.payoff.num_bytes()
    fits = max((available - size.fixed) // (TABLE_COPIES * tables + size.lane), 1)
    return min(fits, most_spots(options.placement))


def evaluate_spot(spot: Spot, policy: HandsPolicy) -> SpotSolution:
    """What a policy of both players is worth in a spot, in float64: EVs of hands, and how exploitable it is.

    Args:
      spot: the spot.
      policy: of `spot.by_hands()`, one lane.

    Raises:
      ValueError: if the policy is of another board's hands or another menu's tree, or has several lanes.
    """
    if not is_policy_of(spot, policy):
        raise ValueError(
            f"policy: {policy!r}: expected a single policy of spot.by_hands(), all hands included"
        )
    problem = build_batch([spot], policy.form).problem()
    with precision(np.float64):
        nothing = jax.device_put(np.zeros((0, 1)))
        first, second = (Parts(nothing, jax.device_put(body)) for body in policy.bodies())
        outcome = jax.tree.map(np.asarray, _evaluate(problem, (first, second)))
    places = np.arange(len(spot.hands))
    every = _Carried(places, places)
    outcome = jax.tree.map(lambda x: x[..., 0], outcome)
    return _of_lane(spot, policy.form, (every, every), None, outcome, (policy.labels[0], 0))


def is_policy_of(spot: Spot, policy: HandsPolicy) -> bool:
    """Whether it is one lane of strategies for a spot's hands and tree; ranges may be others."""
    game, names = policy.game, tuple(spot.hand_names)
    return (
        policy.num_lanes == 1
        and game.hands == (names, names)
        and game.action_names == spot.betting.names
        and np.array_equal(game.tree.parent, spot.betting.tree.parent)
    )


def read_target(target_gap: float | str | None) -> Callable[[Spot], float] | None:
    """The gap that is asked for, in pots."""
    if target_gap is None:
        return None
    if isinstance(target_gap, str):
        share = read_number(target_gap[:-1]) if target_gap.endswith("%") else None
        if share is not None and share >= 0:
            return lambda spot: share / 100
    elif is_finite_number(target_gap) and target_gap >= 0:
        return lambda spot: target_gap / spot.pot
    raise ValueError(f"target_gap={target_gap!r}: expected chips >= 0, or a share of the pot such as '1%'")


def _solve_alike(
    spots: Sequence[Spot], options: SolveOptions, report: Callable[[int], None], *, merges: bool
) -> list[SpotSolution]:
    """Solves spots whose trees have one shape; if hands are merged, of one board and one symmetry."""
    form, hands = _make_form(spots[0]), carried_hands(spots)
    merging = merge_hands(spots, hands) if merges else None
    solved = solve(build_batch(spots, form, hands, merging), options, _finish, report=report)
    return [
        _of_lane(
            spot,
            form,
            _carried_by(spot, hands, lane),
            merging,
            jax.tree.map(lambda x, lane=lane: x[..., lane], solved.outcome),
            (options.algorithm, int(solved.iterations[lane])),
        )
        for lane, spot in enumerate(spots)
    ]


def _of_lane(
    spot: Spot,
    form: HandsForm,
    held: tuple[_Carried, _Carried],
    merging: Merging | None,
    outcome: _SolvedSpots,
    by: tuple[str, int],
) -> SpotSolution:
    """A lane's outcome in chips, for all hands; by which rule and how many iterations."""
    probabilities: list[FloatArray] = []
    hand_evs: list[FloatArray] = []
    for player, (hands, places) in enumerate(held):
        rows = _strategies(form, player, np.asarray(outcome.bodies[player]))
        worth = np.asarray(outcome.hand_values[player])
        if merging is not None:
            rows = merging.spread(rows, form.children[player], spot.betting)
            worth, places = worth[merging.place], hands
        every = np.repeat(_uniform(form, player)[:, None], len(spot.hands), axis=1)
        every[:, hands] = rows[:, places]
        probabilities.append(every)
        met = spot.compatible_with(spot.dealt[1 - player])
        values = np.full(len(spot.hands), np.nan)
        values[hands] = worth[places]
        hand_evs.append(spot.pot / 2 + spot.pot * _divide(values, met))
    won = float(outcome.value[0]) * spot.pot
    algorithm, iterations = by
    return SpotSolution(
        spot=spot,
        form=form,
        probabilities=(probabilities[0], probabilities[1]),
        ev=(spot.pot / 2 + won, spot.pot / 2 - won),
        hand_ev=(hand_evs[0], hand_evs[1]),
        gap=float(outcome.gap[0]) * spot.pot,
        algorithm=algorithm,
        iterations=iterations,
    )


class _Carried(NamedTuple):
    """A player's hands whose results are known.

    Attributes:
      hands: `[n]` among all that are left on the board.
      places: `[n]` where they are among those that the solve carried.
    """

    hands: IntArray
    places: IntArray


def _carried_by(spot: Spot, hands: IntArray | None, lane: int) -> tuple[_Carried, _Carried]:
    """The hands that both players may hold, of those that a lane carried."""
    own = np.arange(len(spot.hands)) if hands is None else hands[min(lane, len(hands) - 1)]
    places = [np.flatnonzero((own >= 0) & (dealt[own] > 0)) for dealt in spot.dealt]
    return _Carried(own[places[0]], places[0]), _Carried(own[places[1]], places[1])


def carried_hands(spots: Sequence[Spot]) -> IntArray | None:
    """The hands that a batch has to carry: those that either player may hold.

    Args:
      spots: of one street.

    Returns:
      `[1 or lanes, H]` for each spot, among all that are left on its board, ascending, -1 for padding; one
      row for all where all have one board. H is a multiple of `HANDS_STEP`. None if nearly all are carried.
    """
    held = np.stack([_held_by_either(spot) for spot in spots])
    if _same_board(spots):
        held = held.any(axis=0, keepdims=True)
    count = held.sum(axis=1)
    most, every = -(-int(count.max()) // HANDS_STEP) * HANDS_STEP, len(spots[0].hands)
    if most >= every:
        return None
    hands = np.argsort(~held, axis=1, kind="stable")[:, :most]  # those that are held come first
    return np.where(np.arange(most) < count[:, None], hands, -1)


def _held_by_either(spot: Spot) -> BoolArray:
    """`[H]` the hands that one of the players may hold."""
    first, second = spot.dealt
    return (first > 0) | (second > 0)


def _same_board(spots: Sequence[Spot]) -> bool:
    return all(set(spot.cards) == set(spots[0].cards) for spot in spots)


def merge_hands(spots: Sequence[Spot], hands: IntArray | None) -> Merging:
    """How the hands of a batch, which `carried_hands` found, are merged; the spots have one board."""
    held = np.arange(len(spots[0].hands)) if hands is None else hands[0][hands[0] >= 0]
    return Merging.of(spots[0], held)


def build_batch(
    spots: Sequence[Spot], form: HandsForm, hands: IntArray | None = None, merging: Merging | None = None
) -> Batch:
    """Spots as lanes, in float64 and in pots; the reach of a root is its hand's part of the deal.

    Args:
      spots: whose trees have one shape.
      form: of one of them.
      hands: those that are carried, see `carried_hands`; None for all.
      merging: how these are merged, if they are.
    """
    same_board, num_cards = _same_board(spots), NUM_CARDS - len(spots[0].cards)
    boards = [spot.cards for spot in (spots[:1] if same_board else spots)]
    showdowns = build_showdowns(boards, hands)
    groups: list[PublicEnds] = []
    for end in spots[0].ends():
        chips = np.stack([spot.stakes[end.node] * (end.chance / spot.pot) for spot in spots], axis=-1)
        tables = showdowns if end.folds is None else end.folds
        if isinstance(tables, Folds) and hands is not None:
            tables = build_folds(num_cards, range(num_cards) if len(end.node) > 1 else None, hands)
        if merging is not None:
            own = np.arange(form.game.num_hands[0]) if hands is None else hands[0]
            tables = merging.merge(tables, own, len(end.node))
        groups.append(
            PublicEnds(end.node, np.ones(end.node.shape), Staked(tables=tables, chips=on_host(chips)))
        )
    num_blocks = (form.treeplex[0].num_sequences, form.treeplex[1].num_sequences)
    places = np.arange(form.game.num_hands[0])[None] if hands is None else hands
    if merging is not None:
        places = merging.hands[None]
    num_hands = (places.shape[1], places.shape[1])
    with precision(np.float64):
        payoff = build_payoff(num_hands, groups, form.sequence, num_blocks, np.float64)
        first, second = (
            build_side(treeplex, fixed_entry(1), np.zeros(count, np.int64), np.float64, hands=count)
            for treeplex, count in zip(form.treeplex, num_hands, strict=True)
        )
    scales = [
        np.where(places >= 0, np.take_along_axis(np.stack(dealt), places, axis=1), 0.0).T
        for dealt in zip(*(spot.dealt for spot in spots), strict=True)
    ]
    if merging is not None:  # a hand that stands for several weighs what all do
        scales = [scale * merging.count[:, None] for scale in scales]

    def terms(lanes: IntArray) -> tuple[Terms, Terms]:
        constant = on_host(np.zeros((1, len(lanes))))
        both = [Terms(scale=on_host(scale[:, lanes]), constant=constant) for scale in scales]
        return both[0], both[1]

    return Batch(
        name="spots",
        order=(0, 1),
        sides=(first, second),
        payoff=SpotsPayoff(hands=payoff),
        num_lanes=len(spots),
        num_games=1,
        terms=terms,
    )


class _SolvedSpots(NamedTuple):
    """Average strategies and what they are worth, in pots.

    Attributes:
      bodies: of both players, `[Q, lanes]`.
      hand_values: for both players `[H, lanes]`, before the weight of its hand.
      value: `[1, lanes]` what player 0 gets.
      gap: `[1, lanes]` NashConv.
    """

    bodies: tuple[jax.Array, jax.Array]
    hand_values: tuple[jax.Array, jax.Array]
    value: jax.Array
    gap: jax.Array


def _finish(ended: Finished) -> _SolvedSpots:
    sums = ended.release()
    return _conclude(ended.in_float64(), sums)


@compile_quickly
def _conclude(problem: Problem, strategy_sum: tuple[Parts, Parts]) -> _SolvedSpots:
    exact = jax.tree.map(lambda x: x.astype(problem.dtype), strategy_sum)
    return _worth(problem, averages(problem, exact))


@compile_quickly
def _evaluate(problem: Problem, strategy: tuple[Parts, Parts]) -> _SolvedSpots:
    return _worth(problem, strategy)


def _worth(problem: Problem, strategy: tuple[Parts, Parts]) -> _SolvedSpots:
    """What strategies are worth, in every lane."""
    evaluation = evaluate(problem, strategy)
    plan = [follow(problem.sides[p], problem.terms[p], strategy[p]) for p in (0, 1)]
    reach = payoff_reaches(problem, (plan[0], plan[1]))
    values: list[jax.Array] = []
    for player in (0, 1):
        gradient, _ = problem.payoff.gradient(player, reach, None)
        values.append(
            values_up(problem.sides[player], problem.terms[player], gradient, strategy[player]).roots
        )
    bodies = (strategy[0].body, strategy[1].body)
    return _SolvedSpots(bodies, (values[0], values[1]), evaluation.value, evaluation.gap)


def _strategies(form: HandsForm, player: int, body: FloatArray) -> FloatArray:
    """A body `[Q × H]` as rows of a policy `[C, H]`."""
    rows = np.empty((len(form.rows[player]), len(body) // len(form.rows[player])))
    rows[form.rows[player]] = body.reshape(rows.shape)
    count = form.game.tree.num_children[form.game.tree.decisions(player)]
    return rows / np.repeat(sum_siblings(form, player, rows), count, axis=0)


def _uniform(form: HandsForm, player: int) -> FloatArray:
    """`[C]` all actions alike."""
    count = form.game.tree.num_children[form.game.tree.decisions(player)]
    return np.repeat(1 / count, count)


def _divide(x: FloatArray, by: FloatArray) -> FloatArray:
    """NaN where nothing is there to divide by."""
    return np.divide(x, by, out=np.full_like(x, np.nan), where=by > 1e-12 * by.max(initial=0))


@jax.jit
def _win(showdowns: Any, reach: jax.Array) -> jax.Array:
    return showdowns(0, reach)
