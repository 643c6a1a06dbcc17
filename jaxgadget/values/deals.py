"""Depth limits at the first deal of hold'em spots: values of ranges there, and the street above them."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial, all_leaves

from jaxgadget.core.branches import Branches, BranchState
from jaxgadget.core.devices import HOME
from jaxgadget.core.driver import Finished, solve
from jaxgadget.core.memory import one_chunk
from jaxgadget.core.problem import Parts, Problem, follow
from jaxgadget.core.regret import Rule, find_rule, follows_from_regrets
from jaxgadget.core.response import payoff_reaches
from jaxgadget.core.rows import build_sums, on_host, take_rows
from jaxgadget.core.solver import Solver, check_iterations, choose_solver
from jaxgadget.games.game import CHANCE
from jaxgadget.holdem.cards import HANDS, card_name, cards_left, parse_cards, strength_groups
from jaxgadget.holdem.locks import Lock
from jaxgadget.holdem.runouts import Runouts, find_merged, lay_out_streets
from jaxgadget.holdem.spots import Spot
from jaxgadget.holdem.streets import exchange_hands
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.compilation import compiled
from jaxgadget.util.digest import digest
from jaxgadget.util.precision import precision
from jaxgadget.util.progress import progress_bar
from jaxgadget.values.ranged_payoff import (
    Pair,
    RangedPayoff,
    RangeFunction,
    RootSums,
    TrunkSolution,
    conclude_trunk,
    ranged_payoff_of,
)
from jaxgadget.values.ranges import warn_of_doubts


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class DealLimit:
    """A depth limit at the first deal of a spot: K nodes where a card is dealt, H hands of each player.

    Ranges and values there are `[K × H, lanes]`, by node, then by hand.

    Attributes:
      runouts: the spot by streets.
    """

    runouts: Runouts

    @staticmethod
    def of(spot: Spot) -> DealLimit:
        """The limit of a flop or turn.

        Raises:
          ValueError: for a river, and if no line of the first street leads to a deal.
        """
        if not isinstance(spot, Spot):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"spot={spot!r}: expected a Spot")
        if len(spot.cards) == 5:
            raise ValueError(f"spot={spot.title}: no card is dealt after a river; expected a flop or a turn")
        if not (spot.street_betting.tree.actor == CHANCE).any():
            raise ValueError(f"spot={spot.title}: no line leads to a card; expected one that is not removed")
        return DealLimit(runouts=lay_out_streets(spot, ()))

    @property
    def spot(self) -> Spot:
        """The spot."""
        return self.runouts.spot

    @property
    def nodes(self) -> IntArray:
        """`[K]` nodes of `spot.street_betting` where the card is dealt."""
        return self.runouts.streets[0].deals

    @property
    def hands(self) -> IntArray:
        """`[H]` indices of the hands into `holdem.cards.HANDS`, -1 for padding."""
        return self.runouts.of_deck

    @functools.cached_property
    def pots(self) -> FloatArray:
        """`[K]` chips in the pot when the card is dealt, in pots of the spot."""
        return 1 + 2 * self._put_in / self.spot.pot

    @functools.cached_property
    def stacks(self) -> FloatArray:
        """`[K]` chips of each player that remain, in pots of the spot."""
        return (self.spot.effective_stack - self._put_in) / self.spot.pot

    @property
    def _put_in(self) -> FloatArray:
        return self.spot.street_betting.put_in[self.nodes].min(axis=1)

    @functools.cached_property
    def compatible(self) -> FloatArray:
        """`[H, H]` 1 for pairs of hands without a common card, otherwise 0."""
        cards = HANDS[np.maximum(self.hands, 0)]
        shared = (cards[:, None, :, None] == cards[None, :, None, :]).any(axis=(2, 3))
        real = self.hands >= 0
        return np.where(shared, 0.0, 1.0) * real * real[:, None]

    @functools.cached_property
    def strengths(self) -> FloatArray:
        """`[runouts, H]` strength of each hand on every final board; NaN for impossible hands.

        It is the share of weaker hands among all hands that are left, and half of the equal ones.
        """
        spot, carried = self.spot, np.maximum(self.runouts.hands, 0)
        cards, left = HANDS[spot.hands], cards_left(spot.gone).tolist()
        rows: list[FloatArray] = []
        for runout in itertools.combinations(left, 5 - len(spot.cards)):
            held = ~np.isin(cards, np.asarray(runout)).any(axis=1)
            group = strength_groups([*spot.cards, *runout], cards[held])
            count = np.bincount(group)
            share = np.full(len(cards), np.nan)
            share[held] = ((np.cumsum(count) - count / 2) / held.sum())[group]
            rows.append(np.where(self.hands >= 0, share[carried], np.nan))
        return np.stack(rows)

    @functools.cached_property
    def showdowns(self) -> FloatArray:
        """`[H, H]` chance of winning minus chance of losing at a showdown; 0 for incompatible hands."""
        total = np.zeros(self.compatible.shape, np.int32)
        for strength in self.strengths.astype(np.float32):  # comparisons with NaN are False
            total += strength[:, None] > strength
        left = self.spot.num_left - 4
        won = total * self.compatible / math.comb(left, 5 - len(self.spot.cards))
        return won - won.T

    @functools.cached_property
    def trees(self) -> tuple[str, ...]:
        """Digests of the betting after each deal, with chips in pots at the deal: equal for equal games."""
        betting, digests = self.spot.street_betting, list[str]()
        tree = betting.tree
        for node, pot in zip(self.nodes.tolist(), (self.pots * self.spot.pot).tolist(), strict=True):
            below = [node]
            for each in below:
                below += betting.children(each)
            put_in = (betting.put_in[below] - betting.put_in[node]) / pot
            shape = tree.actor[below], tree.num_children[below], betting.folded[below]
            digests.append(digest(*shape, np.round(put_in, 9) + 0.0))
        return tuple(digests)


class DealValues(Protocol):
    """Values of ranges at the first deal of a spot: called once with a limit, returns a `RangeFunction`.

    Values are in pots of the spot, without half of the pot: the counterfactual value of each hand at each
    node, weighted by the other player's range there, as for `RangeValues`.
    """

    def __call__(self, limit: DealLimit) -> RangeFunction:
        """Returns the function for a limit; called with JAX's default type set to float64."""
        ...


@dataclasses.dataclass(frozen=True)
class CheckedDown:
    """Values as if both players check after the deal: equities, linear in the ranges."""

    def __call__(self, limit: DealLimit) -> RangeFunction:
        """The function of a limit; raises ValueError for a spot with rake."""
        check_no_rake(limit.spot, "equities (CheckedDown)")
        return Partial(_checked_down, jnp.asarray(limit.showdowns), jnp.asarray(limit.pots / 2))


def check_no_rake(spot: Spot, name: str, expected: str = "no rake, or ResolvedDeals (resolved:N)") -> None:
    """Raises ValueError if a spot has rake, with which its values are not zero-sum."""
    if spot.rake:
        raise ValueError(f"{name} of a spot with rake={spot.rake:g}: expected {expected}")


def _checked_down(showdowns: jax.Array, half: jax.Array, ranges: Pair) -> Pair:
    first, second = (
        jnp.einsum("k,ij,kjl->kil", half, showdowns, split_nodes(other, len(half))).reshape(other.shape)
        for other in reversed(ranges)
    )
    return first, second


def split_nodes(rows: jax.Array, nodes: int) -> jax.Array:
    """`[K × H, L]` → `[K, H, L]`."""
    return rows.reshape(nodes, -1, rows.shape[-1])


@dataclasses.dataclass(frozen=True)
class ResolvedDeals:
    """Equilibrium values of all later streets, re-solved in every update, as in CFR-D.

    Attributes:
      iterations: CFR iterations on the later streets for each update.
      algorithm: name of the regret rule, or a `Rule`, whose strategies follow from its regrets.
    """

    iterations: int
    algorithm: str | Rule = "dcfr"

    def __call__(self, limit: DealLimit) -> RangeFunction:
        """The function of a limit; raises ValueError for an unknown algorithm, or a number out of range."""
        rule, iterations = find_rule(self.algorithm), check_iterations(self.iterations)
        if not follows_from_regrets(rule):
            raise ValueError(
                f"algorithm={self.algorithm!r}: expected regret matching without predictions, such as 'dcfr'"
            )
        branches = jax.tree.map(jnp.asarray, limit.runouts.branches(rule))
        return Partial(resolve_deals, branches, limit.runouts.max_payoff, jnp.int32(iterations))


def resolve_deals(branches: Branches, max_payoff: float, iterations: jax.Array, ranges: Pair) -> Pair:
    """Values of a best response to the other player's average strategy on all streets after the deals.

    Args:
      branches: the later streets.
      max_payoff: the most that a player can win, in pots.
      iterations: number of iterations.
      ranges: both players' ranges `[K × H, L]`; lanes are solved one after the other.
    """

    def solve_lane(ranges: Pair) -> Pair:
        first, second = (own[:, None] for own in ranges)
        nodes, dtype = jnp.arange(len(first) // branches.hands, dtype=jnp.int32), first.dtype
        largest = (max_payoff * second.sum(), max_payoff * first.sum())
        below = dataclasses.replace(branches, events=(nodes, nodes), largest_payoff=largest)

        def iterate(done: jax.Array, state: BranchState) -> BranchState:
            for player in (0, 1):
                _, state = below.update(player, (first, second), state, 0, (done + 1).astype(dtype))
            return state

        state = jax.lax.fori_loop(0, iterations, iterate, below.start(dtype))
        of_first, of_second = (below.values(player, (first, second), state, 0)[0][:, 0] for player in (0, 1))
        return of_first, of_second

    first, second = jax.lax.map(solve_lane, (ranges[0].T, ranges[1].T))
    return first.T, second.T


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LimitedSpot:
    """The first street of a spot, solved with values of ranges at the deal.

    Nothing here is a bound on the exploitability in the spot, as the values may be wrong: for that, solve the
    later streets with this strategy, `solve_spots([spot], locks=limited.locks())`, and read
    `unlocked_exploitability`.

    Attributes:
      limit: the deals.
      strategy: for both players `[n, H, L]`, probability of the n actions of the first street with each
        carried hand, by `nodes`.
      nodes: for both players `[n]`, node of `spot.street_betting` after each action.
      ranges: for both players `[K × H, L]`, their reach of the deals under the average strategy, with the
        share of each hand in the deal.
      values: for both players `[K × H, L]`, average counterfactual values of the deals, in pots.
      game_values: `[2, L]` value of each player's best response to the other's average strategy if the deals
        have these average values, in pots and without half of the pot. Their sum measures convergence.
      iterations: number of iterations.
      algorithm: name of the rule.
    """

    limit: DealLimit
    strategy: tuple[FloatArray, FloatArray]
    nodes: tuple[IntArray, IntArray]
    ranges: tuple[FloatArray, FloatArray]
    values: tuple[FloatArray, FloatArray]
    game_values: FloatArray
    iterations: int
    algorithm: str

    def __repr__(self) -> str:
        done = f"{self.iterations} iterations of {self.algorithm}"
        return f"<LimitedSpot {self.limit.spot.title}: {done} above the deal>"

    def after(self, line: str, lane: int = 0) -> Spot:
        """The spot of the next street after a line that ends with its card, such as `check, check, Ah`.

        Both players have their hands with the weights with which they reach the line, or their whole range
        if they never do. Solved in turn, street by street, these spots are continual re-solving.

        Raises:
          ValueError: if the line does not end with a card that can be dealt to players who can still bet.
        """
        before, _, last = line.rpartition(",")
        spot, betting = self.limit.spot, self.limit.spot.street_betting
        node = betting.find(before.strip())
        if int(betting.tree.actor[node]) != CHANCE:
            raise ValueError(
                f"line={line!r}: expected a line that ends with the card after it, such as 'check, check, Ah'"
            )
        try:
            cards = parse_cards(last.strip())
        except ValueError:
            cards = []
        if len(cards) != 1 or cards[0] in spot.gone:
            left = ", ".join(map(card_name, cards_left(spot.gone).tolist()))
            raise ValueError(f"line={line!r}: {last.strip()!r} cannot be dealt; expected one of {left}")
        place, hands = int(np.flatnonzero(self.limit.nodes == node)[0]), self.limit.hands
        real = (hands >= 0) & ~(HANDS[np.maximum(hands, 0)] == cards[0]).any(axis=1)
        weights: list[FloatArray] = []
        for ranges, dealt in zip(self.ranges, spot.dealt, strict=True):
            reach = ranges[:, lane].reshape(-1, len(hands))[place] * real
            reach = reach if reach.any() else dealt[self.limit.runouts.hands] * real
            if not reach.any():
                raise ValueError(f"line={line!r}: all hands of a player have the card; expected another card")
            weights.append(np.zeros(len(HANDS)))
            weights[-1][hands[real]] = reach[real] / reach.max()
        return spot.after_deal(node, cards[0], (weights[0], weights[1]))

    def locks(self, lane: int = 0) -> list[Lock]:
        """The strategies of both players as locks, for `solve_spots`.

        On a flop hands that an exchange of suits maps to each other have equal probabilities, so that runouts
        are merged; in the strategy they may differ by rounding.
        """
        spot, locks = self.limit.spot, list[Lock]()
        betting, hands = spot.street_betting, self.limit.runouts.hands
        real, first = hands >= 0, np.arange(len(spot.hands))
        for suits in find_merged(spot, None):
            first = np.minimum(first, exchange_hands(spot.hands, suits))
        for nodes, strategy in zip(self.nodes, self.strategy, strict=True):
            parents = betting.tree.parent[nodes]
            for parent in np.unique(parents).tolist():
                by_action: dict[str, FloatArray] = {}
                for row in np.flatnonzero(parents == parent).tolist():
                    probability = np.full(len(spot.hands), 1 / int((parents == parent).sum()))
                    probability[hands[real]] = strategy[row, real, lane]
                    by_action[betting.action_name(int(nodes[row]))] = probability[first]
                locks.append(Lock(line=betting.line(parent), strategy=by_action))
        return locks


@compiled(quick=True)
def _reached(problem: Problem, strategy: Pair) -> Pair:
    """Both players' reach of the deals, `[K × H, L]`, with the share of each hand in the deal."""
    payoff = ranged_payoff_of(problem)
    nothing = jnp.zeros((0, problem.num_lanes), problem.dtype)
    first, second = (
        follow(side, terms, Parts(nothing, body))
        for side, terms, body in zip(problem.sides, problem.terms, strategy, strict=True)
    )
    reach_of_first, reach_of_second = (
        take_rows(reach, sequence)
        for reach, sequence in zip(payoff_reaches(problem, (first, second)), payoff.sequence, strict=True)
    )
    return reach_of_first, reach_of_second


def solve_to_deal(
    spot: Spot,
    values: DealValues,
    *,
    solver: Solver | None = None,
    iterations: int | None = None,
    algorithm: str | Rule | None = None,
) -> LimitedSpot:
    """Solves the first street of a flop or turn, with values of the players' ranges when a card is dealt.

    Every iteration maps both players' ranges at the deals to values of all hands there, as in DeepStack
    (Moravčík et al. 2017). No certificate is possible, as the values may be wrong.

    Args:
      spot: a flop or turn.
      values: values at the deal: `CheckedDown()`, `ResolvedDeals(iterations)`, or a trained network.
      solver: settings; by default 1000 iterations of CFR+ in float64. Takes `algorithm`, `iterations` and
        `progress`.
      iterations: short for `Solver(iterations=…)`.
      algorithm: short for `Solver(algorithm=…)`.

    Raises:
      ValueError: for a river, an argument out of range, and values that are of another shape or not finite.

    Warns:
      UserWarning: if the values have a `doubt`, as those of a network whose training is not finished.
    """
    limit = DealLimit.of(spot)
    warn_of_doubts([values])
    return solve_limit(limit, values, solver=solver, iterations=iterations, algorithm=algorithm)


def solve_limit(
    limit: DealLimit,
    values: DealValues,
    *,
    num_lanes: int = 1,
    solver: Solver | None = None,
    iterations: int | None = None,
    algorithm: str | Rule | None = None,
) -> LimitedSpot:
    """`solve_to_deal` for a limit, with `num_lanes` copies for values that differ by lane."""
    if isinstance(values, type) or not callable(values):
        raise ValueError(
            f"values={values!r}: expected CheckedDown(), ResolvedDeals(N), a network from load_deals, or a "
            "function of a DealLimit that returns a function of ranges"
        )
    without = ("target_gap", "check_every", "time_limit", "memory_limit", "devices", "checkpoint", "dtype")
    default = Solver(iterations=1000, dtype="float64", devices=HOME.devices)
    solver = choose_solver(solver, default, iterations=iterations, algorithm=algorithm, without=without)
    rule, runouts = solver.iterative_rule(), limit.runouts
    street, count = runouts.streets[0], len(limit.nodes) * len(limit.hands)
    with precision(np.float64):
        returned: Any = values(limit)
        function = Partial(returned) if callable(returned) and all_leaves([returned]) else returned
        shape = jax.ShapeDtypeStruct((count, num_lanes), np.float64)
        try:
            arrays = jax.tree.leaves(jax.eval_shape(function, (shape, shape)))
        except TypeError as error:
            raise ValueError(
                f"values={values!r}: expected a function of a DealLimit that returns a function of both "
                f"ranges ({error})"
            ) from error
        if [array.shape for array in arrays] != [shape.shape] * 2:
            raise ValueError(
                f"values={values!r} returned arrays of shapes {[array.shape for array in arrays]}: "
                f"expected {shape.shape} for each player, [deals × hands, lanes]"
            )
        rows = [
            (block[street.deals][:, None] * len(limit.hands) + np.arange(len(limit.hands))).ravel()
            for block in street.block
        ]
        first, second = (
            build_sums(row, np.ones(count, np.bool_), treeplex.num_sequences * len(limit.hands), np.float64)
            for row, treeplex in zip(rows, street.treeplex, strict=True)
        )
        payoff = RangedPayoff(
            weighting=jax.tree.map(jnp.asarray, rule),
            outside=runouts.ends(),
            function=function,
            sequence=(on_host(rows[0].astype(np.int32)), on_host(rows[1].astype(np.int32))),
            linked=(first, second),
            bound=runouts.bounds(),
        )
        nothing = jnp.zeros((count, num_lanes), np.float64)
        none, zero = jnp.zeros((), jnp.int32), jnp.zeros((), np.float64)
        state = RootSums(updates=(none, none), weight=(zero, zero), total=(nothing, nothing))
    batch = runouts.first_street(payoff, payoff_state=state, num_lanes=num_lanes)

    def finish(ended: Finished) -> tuple[TrunkSolution, Pair]:
        solved = conclude_trunk(ended.problem, ended.state)
        return solved, _reached(ended.problem, solved.strategy)

    with progress_bar("first street", solver.num_iterations, solver.progress) as report:
        ended = solve(batch, solver, finish, plan=one_chunk(num_lanes), keep_state=True, report=report)
    solved, ranges = ended.outcome
    if not all(np.isfinite(x).all() for x in solved.values):
        raise ValueError(f"values={values!r} returned numbers that are not finite")
    betting = limit.spot.street_betting.tree
    nodes = [street.children(betting, player) for player in (0, 1)]
    strategy = [
        np.asarray(x).reshape(len(own), len(limit.hands), num_lanes)
        for x, own in zip(solved.strategy, nodes, strict=True)
    ]
    return LimitedSpot(
        limit=limit,
        strategy=(strategy[0], strategy[1]),
        nodes=(nodes[0], nodes[1]),
        ranges=ranges,
        values=solved.values,
        game_values=np.stack(solved.best),
        iterations=int(ended.iterations[0]),
        algorithm=rule.name,
    )
