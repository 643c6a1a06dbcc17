"""Many spots of hold'em at once: trees of one shape are a batch, boards, ranges and chips are lanes.

Inside, chips are counted in pots. Exploitability is half of NashConv, in chips.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
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
from jaxgadget.poker.cards import HANDS
from jaxgadget.poker.operators import SpotsPayoff, Staked, build_showdowns
from jaxgadget.poker.spots import Spot
from jaxgadget.solving.devices import HOME
from jaxgadget.solving.driver import Finished, solve
from jaxgadget.solving.options import SolveOptions, make_options
from jaxgadget.util.arguments import is_finite_number, read_number
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.compilation import compile_quickly
from jaxgadget.util.precision import precision
from jaxgadget.util.progress import progress_bar

MOST_SPOTS = 64
"""Spots of a batch, at most: with boards of their own each takes a megabyte of tables in float64."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SpotSolution:
    """A solved spot; its certificate is in float64.

    Attributes:
      spot: what was solved.
      form: where the rows of `probabilities` are in the tree; its chips and names may be another spot's.
      probabilities: for both players `[C, H]`, as in `HandsPolicy`: the average strategies.
      ev: both players' expected chips; they sum to the pot.
      hand_ev: for both players `[H]` expected chips with each hand; NaN where the other can hold none.
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
        """Action → how often it is taken when play comes there; NaN if it never does.

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
        actor = int(self.spot.betting.tree.actor[self.node(line)])
        if actor not in ACTOR_BIT:
            raise ValueError(f"line={line!r}: nobody acts there; expected a line after which a player does")
        return ACTOR_BIT.index(actor)

    def played(self, line: str = "") -> tuple[FloatArray, FloatArray]:
        """For both players `[H]` the range's weight of each hand × how likely the player plays so with it.

        Hands that a card of the line makes impossible have 0.
        """
        return self._reaches(self.node(line))

    def weights(self, line: str = "") -> tuple[FloatArray, FloatArray]:
        """For both players `[H]` how much of all compatible pairs has each hand when play comes there."""
        reaches = self.played(line)
        weights: list[FloatArray] = []
        for player in (0, 1):
            pairs = reaches[player] * self.spot.compatible_with(reaches[1 - player])
            weights.append(pairs / max(pairs.sum(), np.finfo(np.float64).tiny))
        return weights[0], weights[1]

    def to_frame(self, line: str = "") -> pd.DataFrame:
        """A row for every hand of whoever acts after a line: weight, EV and equity at the start, strategy."""
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
        """What `jaxgadget holdem --json` says of a spot; `exploitability` and `gap` are in chips."""
        return {
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
        reaches = [weights.copy() for weights in self.spot.range_weights]
        card = int(self.spot.betting.card[node])
        for reach in reaches:
            reach[(HANDS[self.spot.hands] == card).any(axis=1)] = 0
        while node:
            actor = int(tree.actor[tree.parent[node]])
            if actor in ACTOR_BIT:
                reaches[ACTOR_BIT.index(actor)] *= self._row(node)
            node = int(tree.parent[node])
        return reaches[0], reaches[1]


def solve_spots(
    spots: Sequence[Spot],
    *,
    algorithm: str | Rule = "dcfr",
    iterations: int = 1000,
    target_gap: float | str | None = None,
    check_every: int = 50,
    dtype: DTypeLike = "float32",
    memory_limit: int | None = None,
    progress: bool | None = None,
    on_solved: Callable[[Mapping[int, SpotSolution]], None] | None = None,
) -> list[SpotSolution]:
    """Solves spots of hold'em, those whose trees have one shape side by side.

    Args:
      spots: rivers and turns, in any order.
      algorithm: a regret-matching rule, see `solve`.
      iterations: at most that many; an iteration updates both players.
      target_gap: stop when NashConv, twice the exploitability, is no larger in any spot of a batch: in chips,
        or as `1%` of the pot of each spot.
      check_every: iterations between two looks at NashConv.
      dtype: `float32` or `float64`; certificates are always in float64.
      memory_limit: bytes that may be taken; by default what there is.
      progress: a bar, or a line a minute in a log; by default a bar, on a terminal or in a notebook.
      on_solved: is given the solutions of every batch, by the numbers of their spots, as soon as it is done.

    Returns:
      The solutions, in the order of the spots.

    Raises:
      ValueError: if an argument is out of range or the spots do not fit the memory.
    """
    for number, spot in enumerate(spots):
        if not isinstance(spot, Spot):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"spots[{number}]={spot!r}: expected a Spot")
    in_pots = _read_target(target_gap)
    groups: dict[tuple[int, bytes], list[int]] = collections.defaultdict(list)
    for number, spot in enumerate(spots):
        groups[len(spot.cards), spot.betting.shape].append(number)
    parts = [
        numbers[begin : begin + MOST_SPOTS]
        for numbers in groups.values()
        for begin in range(0, len(numbers), MOST_SPOTS)
    ]
    solutions: dict[int, SpotSolution] = {}
    with progress_bar("solving", len(parts) * iterations, progress) as report:
        for done, numbers in enumerate(parts):
            members = [spots[number] for number in numbers]
            options = make_options(
                algorithm=algorithm,
                iterations=iterations,
                target_gap=None if in_pots is None else min(in_pots(spot) for spot in members),
                check_every=check_every,
                dtype=dtype,
                memory_limit=memory_limit,
                devices=HOME.devices,
                exact=False,
            )
            solved = _solve_alike(
                members, options, lambda now, before=done: report(before * iterations + now)
            )
            batch = dict(zip(numbers, solved, strict=True))
            solutions |= batch
            if on_solved is not None:
                on_solved(batch)
            report((done + 1) * iterations)
    return [solutions[number] for number in range(len(spots))]


def evaluate_spot(spot: Spot, policy: HandsPolicy) -> SpotSolution:
    """What a policy of both players is worth in a spot, in float64: EVs of hands, and how exploitable it is.

    Args:
      spot: the spot.
      policy: of `spot.by_hands()`, one lane.

    Raises:
      ValueError: if the policy is of another spot's tree or has several lanes.
    """
    tree, expected = policy.game.tree, (len(spot.hands), len(spot.hands))
    same = policy.game.num_hands == expected and np.array_equal(tree.parent, spot.betting.tree.parent)
    if policy.num_lanes != 1 or not same:
        raise ValueError(
            f"policy: {policy!r}: expected a single policy of spot.by_hands(), all hands included"
        )
    problem = build_batch([spot], policy.form).problem()
    with precision(np.float64):
        nothing = jax.device_put(np.zeros((0, 1)))
        first, second = (Parts(nothing, jax.device_put(body)) for body in policy.bodies())
        outcome = jax.tree.map(np.asarray, _evaluate(problem, (first, second)))
    return _of_lane(spot, policy.form, outcome, 0, (policy.labels[0], 0))


def _read_target(target_gap: float | str | None) -> Callable[[Spot], float] | None:
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
    spots: Sequence[Spot], options: SolveOptions, report: Callable[[int], None]
) -> list[SpotSolution]:
    """Solves spots whose trees have one shape."""
    form = HandsForm(spots[0].by_hands())
    solved = solve(build_batch(spots, form), options, _finish, report=report)
    return [
        _of_lane(spot, form, solved.outcome, lane, (options.algorithm, int(solved.iterations[lane])))
        for lane, spot in enumerate(spots)
    ]


def _of_lane(
    spot: Spot, form: HandsForm, outcome: _SolvedSpots, lane: int, by: tuple[str, int]
) -> SpotSolution:
    """A lane's part of an outcome, in chips; by which rule and how many iterations."""
    first, second = (
        _strategies(form, player, np.asarray(outcome.bodies[player])[:, lane]) for player in (0, 1)
    )
    hand_evs: list[FloatArray] = []
    for player, values in enumerate(outcome.hand_values):
        met = spot.compatible_with(spot.dealt[1 - player])
        hand_evs.append(spot.pot / 2 + spot.pot * _divide(np.asarray(values)[:, lane], met))
    won = float(outcome.value[0, lane]) * spot.pot
    algorithm, iterations = by
    return SpotSolution(
        spot=spot,
        form=form,
        probabilities=(first, second),
        ev=(spot.pot / 2 + won, spot.pot / 2 - won),
        hand_ev=(hand_evs[0], hand_evs[1]),
        gap=float(outcome.gap[0, lane]) * spot.pot,
        algorithm=algorithm,
        iterations=iterations,
    )


def build_batch(spots: Sequence[Spot], form: HandsForm) -> Batch:
    """Spots as lanes, in float64 and in pots; the reach of a root is its hand's part of the deal.

    Args:
      spots: whose trees have one shape.
      form: of one of them.
    """
    same_board = all(set(spot.cards) == set(spots[0].cards) for spot in spots)
    showdowns = spots[0].showdowns if same_board else build_showdowns([spot.cards for spot in spots])
    groups: list[PublicEnds] = []
    for end in spots[0].ends():
        chips = np.stack([spot.stakes[end.node] * (end.chance / spot.pot) for spot in spots], axis=-1)
        tables = Staked(tables=showdowns if end.folds is None else end.folds, chips=on_host(chips))
        groups.append(PublicEnds(end.node, np.ones(end.node.shape), tables))
    num_blocks = (form.treeplex[0].num_sequences, form.treeplex[1].num_sequences)
    with precision(np.float64):
        payoff = build_payoff(form.game.num_hands, groups, form.sequence, num_blocks, np.float64)
        first, second = (
            build_side(treeplex, fixed_entry(1), np.zeros(hands, np.int64), np.float64, hands=hands)
            for treeplex, hands in zip(form.treeplex, form.game.num_hands, strict=True)
        )
    scales = [np.stack([spot.dealt[player] for spot in spots], axis=-1) for player in (0, 1)]

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
    rows = np.empty((len(form.rows[player]), form.game.num_hands[player]))
    rows[form.rows[player]] = body.reshape(rows.shape)
    count = form.game.tree.num_children[form.game.tree.decisions(player)]
    return rows / np.repeat(sum_siblings(form, player, rows), count, axis=0)


def _divide(x: FloatArray, by: FloatArray) -> FloatArray:
    """NaN where nothing is there to divide by."""
    return np.divide(x, by, out=np.full_like(x, np.nan), where=by > 1e-12 * by.max(initial=0))


@jax.jit
def _win(showdowns: Any, reach: jax.Array) -> jax.Array:
    return showdowns(0, reach)
