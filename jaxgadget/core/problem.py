"""Games with entries, the input of every solver.

Both players have decisions (the *body*: a whole game, or the subgames of a forest) and
decisions above them (the *entry*). The resolving player's entry is fixed: its roots carry
its own reach. A gadget is the opponent's entry. In a whole game both entries are fixed, with reach 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jaxgadget.core.devices import HOME
from jaxgadget.core.host import Entries, HandEntries, HostTreeplex, Rounding, exact_size
from jaxgadget.core.payoff import GeneralPayoff, Payoff, PayoffForm, build_payoff
from jaxgadget.core.regret import ZERO_REGRET, ChoiceRule
from jaxgadget.core.rows import RowSums, build_row_sums, on_host, take_rows
from jaxgadget.core.treeplex import Level, Reduce, Treeplex, reach, sweep_up, take_blocks, to_device
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.compilation import compiled

Pair = tuple[HostTreeplex, HostTreeplex]


class Parts(NamedTuple):
    """One player's arrays for its entry and its body: strategies `[Q, lanes]` or plans `[S, lanes]`."""

    entry: jax.Array
    body: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Side:
    """Structure of one player's decisions, without numbers.

    Attributes:
      entry: decisions above the roots, one root per subgame; no infosets if the entry is fixed.
      body: decisions below the roots.
      link: `[R]` the entry's sequence that leads to each root of the body.
      linked: sums over roots into the entry's sequences.
      root_of: `[S]` the root above each sequence of the body; in hand form, one row per block of hands, with
        indices of blocks, see `below_roots`.
      subgame_of: `[R]` the entry's root (the subgame) above each root of the body; 0 for padding.
      in_subgame: the roots of each subgame.
    """

    entry: Treeplex
    body: Treeplex
    link: jax.Array
    linked: RowSums
    root_of: jax.Array
    subgame_of: jax.Array
    in_subgame: RowSums

    @property
    def fixed(self) -> bool:
        """True if the player has no choice above its roots."""
        return self.entry.num_infosets == 0

    def keep_fixed(self, old: Parts, new: Parts) -> Parts:
        """`new`, with the entry of `old` if the entry is fixed, so that a compiled loop does not write it.

        A CPU writes it: with 64 lanes an iteration of Leduc poker takes 0.93 of the time.
        """
        if not self.fixed:
            return new
        entry = jax.lax.platform_dependent(
            old.entry, new.entry, cpu=lambda _, entry: entry, default=lambda entry, _: entry
        )
        return new._replace(entry=entry)

    def below_roots(self, x: jax.Array) -> jax.Array:
        """Broadcasts values of roots to the sequences below them: `[R, lanes]` → `[S, lanes]`."""
        return take_blocks(x, self.root_of, self.body.hands)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Terms:
    """One player's numbers, by lane.

    Attributes:
      scale: `[R, lanes]` factor from the reach of the entry sequence above each root to the root's reach;
        None for 1.
      constant: `[E, lanes]` constant payoff of each sequence of the entry, in the player's utility; the other
        player receives its negative.
      body_constant: `[S, lanes]` constant payoff of each sequence of the body, before the scale of the root
        above it; None for 0.
      entry: choice rule at the entry's infosets.
      body: choice rule at the body's infosets.
    """

    scale: jax.Array | None = None
    constant: jax.Array
    body_constant: jax.Array | None = None
    entry: ChoiceRule = dataclasses.field(default_factory=ChoiceRule)
    body: ChoiceRule = dataclasses.field(default_factory=ChoiceRule)

    def scaled(self, x: jax.Array) -> jax.Array:
        """Multiplies numbers of the roots by their scale, `[R, lanes]`."""
        return x if self.scale is None else self.scale * x


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Problem:
    """A batch of games of one shape.

    Attributes:
      order: order of the players' updates in an iteration; an omitted player keeps its initial strategy.
      sides: both players' structure.
      terms: both players' numbers.
      payoff: the payoff operator between the bodies.
      regret_tolerance: for each player `[I, lanes]`, sums of positive regrets up to this count as 0.
    """

    order: tuple[int, ...] = dataclasses.field(metadata={"static": True})
    sides: tuple[Side, Side]
    terms: tuple[Terms, Terms]
    payoff: Payoff
    regret_tolerance: tuple[Parts, Parts]

    @property
    def zero_sum(self) -> bool:
        """True if one player's payoff is minus the other's."""
        return not isinstance(self.payoff, GeneralPayoff) or self.payoff.zero_sum

    @property
    def num_lanes(self) -> int:
        """Number of lanes."""
        return self.terms[0].constant.shape[-1]

    @property
    def dtype(self) -> jnp.dtype:
        """Precision of the numbers."""
        return self.terms[0].constant.dtype


def check_precision(problem: Problem) -> None:
    """Raises ValueError, while a program is traced, if JAX would not compute in the problem's precision."""
    if jax.dtypes.canonicalize_dtype(problem.dtype) != problem.dtype:
        raise ValueError(
            f"problem is in {problem.dtype}, but JAX computes in float32 here: "
            "expected a call inside `with precision(problem.dtype)`"
        )


def build_side(
    body: HostTreeplex,
    entry: HostTreeplex,
    link: IntArray,
    dtype: DTypeLike,
    rounding: Rounding = exact_size,
    platform: str | None = None,
) -> Side:
    """Places one player's structure on the device.

    Args:
      body: decisions below the roots.
      entry: decisions above the roots.
      link: `[R]` entry sequence above every root, -1 for padding.
      dtype: floating-point type of weights.
      rounding: rounding of sizes.
      platform: platform of the devices that will compute; see `core.rows.build_sums`.
    """
    below = (
        to_device(body, dtype, rounding, platform),
        jax.device_put(body.one_hand.root_of().astype(np.int32)),
    )
    return attach(*below, entry, link, dtype, rounding, platform)


def attach(
    body: Treeplex,
    root_of: jax.Array,
    entry: HostTreeplex,
    link: IntArray,
    dtype: DTypeLike,
    rounding: Rounding = exact_size,
    platform: str | None = None,
) -> Side:
    """Attaches an entry to a body that is already on the device; other arguments as in `build_side`."""
    roots = np.nonzero(link >= 0)[0]
    above = np.maximum(link, 0)
    subgame_of, ones = entry.root_of()[above], np.ones(len(roots))
    return Side(
        entry=to_device(entry, dtype, rounding, platform),
        body=body,
        link=jax.device_put(above.astype(np.int32)),
        linked=build_row_sums(link[roots], roots, ones, entry.num_sequences, dtype, rounding),
        root_of=root_of,
        subgame_of=jax.device_put(subgame_of.astype(np.int32)),
        in_subgame=build_row_sums(subgame_of[roots], roots, ones, entry.num_roots, dtype, rounding),
    )


def fixed_entry(num_subgames: int) -> HostTreeplex:
    """The entry of a player without a choice above its roots: one root per subgame."""
    empty = np.zeros(0, np.int64)
    return HostTreeplex(
        num_roots=num_subgames,
        levels=(),
        parent=empty,
        infoset=empty,
        num_actions=empty,
        first_sequence=empty,
    )


def whole_game(
    treeplexes: Pair,
    entries: Entries | HandEntries,
    *,
    num_lanes: int,
    dtype: DTypeLike,
    payoff: PayoffForm = "auto",
) -> Problem:
    """The problem of a whole game. Player 0 updates first, as in OpenSpiel.

    Args:
      treeplexes: both players' decisions.
      entries: chance probability × player 0's payoff for pairs of their sequences.
      num_lanes: number of copies of the game, one per lane.
      dtype: floating-point type of the numbers.
      payoff: the form of the payoff.
    """
    matrix = build_payoff(entries, dtype, form=payoff)
    return with_regret_tolerance(evaluation_game(treeplexes, matrix, num_lanes, dtype))


def evaluation_game(
    treeplexes: Pair, payoff: Payoff, num_lanes: int, dtype: DTypeLike, platform: str | None = None
) -> Problem:
    """The problem of a whole game for the evaluation of strategies, with regret tolerance 0.

    Args:
      treeplexes: both players' decisions.
      payoff: payoff operator between them.
      num_lanes: number of copies of the game, one per lane.
      dtype: floating-point type of the numbers.
      platform: platform of the devices that will compute; see `core.rows.build_sums`.
    """
    entry = fixed_entry(1)
    first, second = (
        build_side(treeplex, entry, np.zeros(treeplex.num_roots, np.int64), dtype, platform=platform)
        for treeplex in treeplexes
    )
    return free_game((first, second), payoff, num_lanes, dtype, platform)


def free_game(
    sides: tuple[Side, Side],
    payoff: Payoff,
    num_lanes: int,
    dtype: DTypeLike,
    platform: str | None = None,
) -> Problem:
    """A game whose roots all have reach 1, with regret tolerance 0.

    On a CPU the scales are nevertheless arrays of 1, as multiplying is faster there than gathers that only
    copy: with 64 lanes an iteration of Leduc poker takes 230 µs instead of 245, and with 1 or 1,024 lanes as
    long as without.

    Args:
      sides: both players' structure.
      payoff: payoff operator between the bodies.
      num_lanes: number of copies of the game, one per lane.
      dtype: floating-point type of the numbers.
      platform: platform of the devices that will compute; by default that of the default device.
    """
    constant, on_cpu = on_host(np.zeros((1, num_lanes), dtype)), (platform or HOME.platform) == "cpu"
    first, second = (
        Terms(
            scale=on_host(np.ones((side.body.num_roots, num_lanes), dtype)) if on_cpu else None,
            constant=constant,
        )
        for side in sides
    )
    return Problem(
        order=(0, 1),
        sides=sides,
        terms=(first, second),
        payoff=payoff,
        regret_tolerance=no_regret_tolerance(sides, num_lanes, dtype),
    )


def with_floors(problem: Problem, floors: tuple[FloatArray, FloatArray]) -> Problem:
    """The problem with floors `[Q]` on both players' actions below the roots, equal in all lanes."""
    first, second = (
        dataclasses.replace(terms, body=ChoiceRule(floor=on_host(floor[:, None].astype(problem.dtype))))
        for terms, floor in zip(problem.terms, floors, strict=True)
    )
    return dataclasses.replace(problem, terms=(first, second))


def no_regret_tolerance(sides: Sequence[Side], lanes: int, dtype: DTypeLike) -> tuple[Parts, Parts]:
    """A regret tolerance of 0 for both players."""
    parts = [
        Parts(
            on_host(np.zeros((side.entry.num_infosets, lanes), dtype)),
            on_host(np.zeros((side.body.num_infosets, lanes), dtype)),
        )
        for side in sides
    ]
    return parts[0], parts[1]


@compiled
def with_regret_tolerance(problem: Problem) -> Problem:
    """Sets `regret_tolerance` to the payoff range of every infoset times a multiple of machine epsilon.

    Args:
      problem: the problem; its `regret_tolerance` is ignored.
    """
    check_precision(problem)
    first, second = (
        side.below_roots(_least_scale(side, terms))
        for side, terms in zip(problem.sides, problem.terms, strict=True)
    )
    absolute = problem.payoff.absolute()
    multiple = ZERO_REGRET * float(jnp.finfo(problem.dtype).eps)
    tolerance: list[Parts] = []
    for player in (0, 1):
        side, terms = problem.sides[player], problem.terms[player]
        most, _ = absolute.gradient(player, (first, second), None)
        constant = None if terms.body_constant is None else jnp.abs(terms.body_constant)
        free = Terms(scale=terms.scale, constant=jnp.abs(terms.constant), body_constant=constant)
        largest = best_values_up(side, free, most).infosets
        tolerance.append(Parts(multiple * largest.entry, multiple * largest.body))
    return dataclasses.replace(problem, regret_tolerance=(tolerance[0], tolerance[1]))


def _most_reach(treeplex: Treeplex, choice: ChoiceRule) -> jax.Array:
    """`[E, lanes or 1]` largest reach of each of an entry's sequences that the floors allow."""
    lanes = 1 if choice.floor is None else choice.floor.shape[-1]
    whole = jnp.ones((treeplex.num_actions, lanes), treeplex.share.dtype)
    return reach(
        treeplex, choice.floored(treeplex, whole), jnp.ones((treeplex.num_roots, lanes), whole.dtype)
    )


def _least_scale(side: Side, terms: Terms) -> jax.Array:
    """`[R, lanes]` minimum over the roots of each root's subgame of their largest possible positive reach.

    Scales of one subgame may differ by orders of magnitude (1 / N in max-margin). Because of the minimum, a
    root with a large scale does not make the regrets of the other roots count as rounding.
    """
    most = terms.scaled(take_rows(_most_reach(side.entry, terms.entry), side.link))
    positive = jnp.where(most > 0, most, jnp.inf)
    least = side.in_subgame.least(positive)
    of_root = take_rows(jnp.where(jnp.isfinite(least), least, 0), side.subgame_of)
    return jnp.broadcast_to(of_root, (len(of_root), terms.constant.shape[-1]))


def follow(side: Side, terms: Terms, strategy: Parts) -> Parts:
    """The player's realisation plan, entry `[E, lanes]` and body `[S, lanes]`.

    The plan excludes the reach of a fixed entry (its roots carry 1), so that the average of
    plans is the counterfactual strategy even below roots with reach 0.
    """
    lanes, dtype = terms.constant.shape[-1], terms.constant.dtype
    entry = reach(side.entry, strategy.entry, jnp.ones((side.entry.num_roots, lanes), dtype))
    if side.fixed:
        root = jnp.ones((side.body.num_roots, lanes), dtype)
    else:
        root = terms.scaled(take_rows(entry, side.link))
    return Parts(entry, reach(side.body, strategy.body, root))


def payoff_reach(side: Side, terms: Terms, plan: Parts) -> jax.Array:
    """`[S, lanes]` reach of the body's sequences as used by the payoff, including a fixed entry."""
    if not side.fixed or terms.scale is None:
        return plan.body
    scale = side.below_roots(terms.scale)
    # Without the barrier XLA repeats the product in every gather that reads it.
    return jax.lax.optimization_barrier(plan.body * scale)


def earned_alone(side: Side, terms: Terms, plan: Parts) -> jax.Array:
    """`[num_subgames, lanes]` a player's payoff from its constants; the other player's is its negative."""
    earned = terms.entry.earned(side.entry, terms.constant, plan.entry)
    if terms.body_constant is not None:
        below = terms.body_constant * payoff_reach(side, terms, plan)
        earned += side.linked(sweep_up(side.body, below, Level.sums)[2])
    return sweep_up(side.entry, earned, Level.sums)[2]


class SideValues(NamedTuple):
    """Values of one player's actions, infosets and roots, in its own utility."""

    actions: Parts
    infosets: Parts
    roots: jax.Array
    """`[R, lanes]` below every root, before the root's scale."""
    subgames: jax.Array
    """`[num_subgames, lanes]` at the entry's roots."""


def values_up(side: Side, terms: Terms, gradient: jax.Array, strategy: Parts) -> SideValues:
    """Values of a strategy.

    Args:
      side: the player's structure.
      terms: the player's numbers.
      gradient: `[S, lanes]` payoff of each sequence of the body, without constants.
      strategy: the player's strategy, `[Q, lanes]` of entry and body.
    """
    entry, body = _expectation(terms.entry, strategy.entry), _expectation(terms.body, strategy.body)
    return _values_up(side, terms, gradient, (entry, body))


def best_values_up(side: Side, terms: Terms, gradient: jax.Array) -> SideValues:
    """Values of a best response within the bounds; arguments as in `values_up`."""
    return _values_up(side, terms, gradient, (terms.entry.best, terms.body.best))


def _expectation(choice: ChoiceRule, strategy: jax.Array) -> Reduce:
    def expected(level: Level, q: jax.Array) -> jax.Array:
        return choice.expected(level, level.actions_of(strategy), q)

    return expected


def _values_up(side: Side, terms: Terms, gradient: jax.Array, reduce: tuple[Reduce, Reduce]) -> SideValues:
    """Sweeps bottom-up through the body, then the entry; `reduce` is for (entry, body)."""
    earned = gradient if terms.body_constant is None else gradient + terms.body_constant
    actions, infosets, roots = sweep_up(side.body, earned, reduce[1])
    top = terms.constant + side.linked(terms.scaled(roots))
    entry_actions, entry_infosets, subgames = sweep_up(side.entry, top, reduce[0])
    return SideValues(Parts(entry_actions, actions), Parts(entry_infosets, infosets), roots, subgames)
