"""A forest on the device: from a blueprint to gadget games, and from their solution to certificates."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.typing import DTypeLike

from jaxgadget.games.game import FloatArray
from jaxgadget.solve.cfr import averages
from jaxgadget.solve.gadget import Gadget
from jaxgadget.solve.payoff import MatrixPayoff, build_payoff
from jaxgadget.solve.prior import ArrayPrior, Ranges
from jaxgadget.solve.problem import (
    Parts,
    Problem,
    Side,
    Terms,
    absolute,
    build_side,
    fixed_entry,
    follow,
    no_zero,
    payoff_reach,
    values_up,
    with_zero_regret,
)
from jaxgadget.solve.response import evaluate
from jaxgadget.solve.rows import RowSums, build_row_sums
from jaxgadget.solve.treeplex import expand_infosets, sum_actions
from jaxgadget.tree.forest import Forest
from jaxgadget.tree.sequence import Rounding, exact_size, rounded_size


class GadgetGames(NamedTuple):
    """One kind of gadget over a forest, for a batch of lanes.

    Lanes run over gadgets, then blueprints: lane = gadget · num_blueprints + blueprint.
    """

    problem: Problem
    live: jax.Array
    """`[S, lanes]` whether a subgame has anything to solve; elsewhere the blueprint stays."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Structure:
    """What all gadgets over a forest share: bodies, the payoff, chance at the roots.

    Attributes:
      player: who re-solves.
      num_subgames: S, padding included.
      sides: both players' bodies with fixed entries.
      payoff: between the bodies.
      magnitude: the payoff without its signs.
      mass: chance's reach of root pairs: the resolving player's roots → the opponent's.
      subgame: `[R]` subgame of each of the opponent's roots, S for padding.
    """

    player: int = dataclasses.field(metadata={"static": True})
    num_subgames: int = dataclasses.field(metadata={"static": True})
    sides: tuple[Side, Side]
    payoff: MatrixPayoff
    magnitude: MatrixPayoff
    mass: RowSums
    subgame: jax.Array


def build_structure(forest: Forest, player: int, dtype: DTypeLike) -> Structure:
    """Puts a forest on the device for one resolving player; call inside `precision(dtype)`."""
    rounding = forest_rounding(forest)
    num_subgames = rounding(forest.num_subgames)
    sides = [
        build_side(
            forest.form.treeplex[p],
            fixed_entry(num_subgames),
            _pad(forest.roots[p].subgame, forest.form.treeplex[p].num_roots, -1),
            dtype,
            rounding,
        )
        for p in (0, 1)
    ]
    pairs = (forest.chance.row, forest.chance.column)
    other = 1 - player
    return Structure(
        player=player,
        num_subgames=num_subgames,
        sides=(sides[0], sides[1]),
        payoff=build_payoff(forest.form.payoff, dtype, rounding=rounding),
        magnitude=build_payoff(absolute(forest.form.payoff), dtype, rounding=rounding),
        mass=build_row_sums(
            pairs[other], pairs[player], forest.chance.value, forest.chance.shape[other], dtype, rounding
        ),
        subgame=jax.device_put(
            _pad(forest.roots[other].subgame, forest.form.treeplex[other].num_roots, num_subgames).astype(
                np.int32
            )
        ),
    )


def forest_rounding(forest: Forest) -> Rounding:
    """How the forest's sizes were rounded up."""
    return rounded_size if forest.padded else exact_size


def _pad(values: npt.NDArray[Any], size: int, fill: int) -> npt.NDArray[Any]:
    return np.pad(values, (0, size - len(values)), constant_values=fill)


@jax.jit
def blueprint_ranges(
    structure: Structure, strategy: tuple[Parts, Parts], reach: tuple[jax.Array, jax.Array]
) -> Ranges:
    """What a blueprint brings to the cut.

    Args:
      structure: the forest.
      strategy: both players' blueprints below the cut, `[Q, lanes]` in the bodies.
      reach: both players' reach of their own roots, `[R_p, lanes]`, 0 for padding.
    """
    player, other = structure.player, 1 - structure.player
    side = structure.sides[player]
    nothing = jnp.zeros((structure.num_subgames, reach[0].shape[-1]), reach[0].dtype)
    terms = Terms(scale=reach[player], constant=nothing)
    seen = payoff_reach(side, terms, follow(side, terms, strategy[player]))
    gradient, _ = structure.payoff.gradient(other, (seen, seen), None)
    free = Terms(scale=jnp.ones_like(reach[other]), constant=nothing)
    best = values_up(structure.sides[other], free, gradient, best=True)
    return Ranges(
        num_subgames=structure.num_subgames,
        subgame=structure.subgame,
        resolver=reach[player],
        opponent=reach[other],
        mass=structure.mass(reach[player]),
        cbv=-best.roots,
    )


def build_games(
    forest: Forest, structure: Structure, ranges: Ranges, gadgets: Sequence[Gadget], dtype: DTypeLike
) -> GadgetGames:
    """The gadget games of every blueprint lane and of gadgets of one kind.

    Args:
      forest: the subgames.
      structure: the forest on the device.
      ranges: what the blueprints bring.
      gadgets: of one class; each takes all blueprint lanes.
      dtype: of the numbers.

    Raises:
      ValueError: if an `ArrayPrior` does not fit the forest's roots.
    """
    player, other = structure.player, 1 - structure.player
    roots, rounding = forest.roots[other], forest_rounding(forest)
    for gadget in gadgets:
        _check_prior(gadget, len(roots), ranges.cbv.shape[1])
    layout = gadgets[0].layout(
        roots.subgame, forest.num_subgames, forest.form.treeplex[other].num_roots, rounding
    )
    side = build_side(forest.form.treeplex[other], layout.treeplex, layout.link, dtype, rounding)
    sides = (structure.sides[0], side) if player == 0 else (side, structure.sides[1])
    size = layout.treeplex.num_sequences
    link = jax.device_put(np.where(layout.link >= 0, layout.link, size).astype(np.int32))
    spread, mistakes, epsilon = _stack(ranges, gadgets)
    return _assemble(structure, spread, mistakes, epsilon, sides, link, kind=type(gadgets[0]), size=size)


def _stack(ranges: Ranges, gadgets: Sequence[Gadget]) -> tuple[Ranges, jax.Array, jax.Array]:
    """The ranges once for every gadget, all priors `[R, lanes]` and all ε `[lanes]`."""
    lanes, dtype = ranges.cbv.shape[1], ranges.cbv.dtype

    spread, mistakes = _tile(ranges, tuple(gadget.mistakes(ranges) for gadget in gadgets))
    epsilon = jax.device_put(np.repeat([gadget.epsilon for gadget in gadgets], lanes).astype(dtype))
    return spread, mistakes, epsilon


@jax.jit
def _tile(ranges: Ranges, mistakes: tuple[jax.Array, ...]) -> tuple[Ranges, jax.Array]:
    def repeat(x: jax.Array) -> jax.Array:
        return jnp.tile(x, (1, len(mistakes)))

    spread = dataclasses.replace(
        ranges,
        resolver=repeat(ranges.resolver),
        opponent=repeat(ranges.opponent),
        mass=repeat(ranges.mass),
        cbv=repeat(ranges.cbv),
    )
    return spread, jnp.concatenate(mistakes, axis=1)


@functools.partial(jax.jit, static_argnames=("kind", "size"))
def _assemble(
    structure: Structure,
    ranges: Ranges,
    mistakes: jax.Array,
    epsilon: jax.Array,
    sides: tuple[Side, Side],
    link: jax.Array,
    *,
    kind: type[Gadget],
    size: int,
) -> GadgetGames:
    """The numbers of all lanes."""
    player = structure.player
    lanes, dtype = ranges.cbv.shape[1], ranges.cbv.dtype
    opponent = kind.terms(ranges, mistakes, epsilon, link, size)
    resolver = Terms(scale=ranges.resolver, constant=jnp.zeros((structure.num_subgames, lanes), dtype))
    problem = Problem(
        order=(1 - player, player),
        sides=sides,
        terms=(resolver, opponent) if player == 0 else (opponent, resolver),
        payoff=structure.payoff,
        zero=no_zero(sides, lanes, dtype),
    )
    return GadgetGames(with_zero_regret(problem, structure.magnitude), kind.live(ranges))


def _check_prior(gadget: Gadget, num_roots: int, num_lanes: int) -> None:
    prior = gadget.prior
    if isinstance(prior, ArrayPrior):
        shape = np.asarray(prior.values).shape
        if shape[0] != num_roots or (len(shape) == 2 and shape[1] not in (1, num_lanes)):
            raise ValueError(
                f"ArrayPrior values of shape {shape}: expected [{num_roots}] or [{num_roots}, {num_lanes}], "
                "a row for each of the opponent's root infostates (`forest.roots`), a lane for each blueprint"
            )


@functools.partial(jax.jit, static_argnames=("dtype",))
def cast(tree: Any, dtype: DTypeLike) -> Any:
    """The same pytree with its floating-point arrays in another precision."""
    return jax.tree.map(
        lambda leaf: leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf, tree
    )


@functools.partial(jax.jit, static_argnames=("dtype",))
def in_precision(games: GadgetGames, dtype: DTypeLike) -> Problem:
    """The gadget games to solve in `dtype`; what counts as rounding is that of the new precision."""
    coarser = float(jnp.finfo(dtype).eps / jnp.finfo(games.problem.dtype).eps)
    zero = jax.tree.map(lambda bound: bound * coarser, games.problem.zero)
    return cast(dataclasses.replace(games.problem, zero=zero), dtype)


class Conclusion(NamedTuple):
    """A finished solve, in float64.

    Attributes:
      strategy: the resolving player's strategy below the cut, `[Q, lanes]` in its body.
      value: `[S, lanes]` what that strategy guarantees in each gadget game.
      gap: `[S, lanes]` NashConv of each gadget game: the optimum lies between value and value + gap.
      below: `[R, lanes]` `V(s)` at the opponent's roots, in the resolving player's utility.
    """

    strategy: jax.Array
    value: jax.Array
    gap: jax.Array
    below: jax.Array


@functools.partial(jax.jit, static_argnames=("player",))
def conclude(
    games: GadgetGames, strategy_sum: tuple[Parts, Parts], blueprint: jax.Array, *, player: int
) -> Conclusion:
    """Averages, completed by the blueprint, and their certificate.

    The blueprint's rows stay where the average has no mass and where a subgame has nothing
    to solve.

    Args:
      games: the gadget games.
      strategy_sum: both players' weighted sums of plans, `[S, lanes]`.
      blueprint: `[Q, num_blueprints]` the resolving player's blueprints in its body.
      player: who re-solves.
    """
    problem = games.problem
    played = list(averages(problem, strategy_sum))
    side = problem.sides[player]
    mass = strategy_sum[player].body[side.body.num_roots :]
    mass = expand_infosets(side.body, sum_actions(side.body, mass))
    subgame = side.link.at[side.root_of[side.body.num_roots :]].get(mode="promise_in_bounds")
    solved = (mass > 0) & games.live.at[subgame].get(mode="promise_in_bounds")
    times = solved.shape[1] // blueprint.shape[1]
    refined = jnp.where(solved, played[player].body, jnp.tile(blueprint, (1, times)))
    played[player] = Parts(played[player].entry, refined)
    found = evaluate(problem, (played[0], played[1]))
    return Conclusion(refined, found.guaranteed[player], found.gap, -found.below[player])


def excess(ranges: Ranges, gadgets: Sequence[Gadget], conclusion: Conclusion) -> FloatArray:
    """`[lanes]` the most that exploitability may rise, NaN where no bound is known (design §3)."""
    kind = type(gadgets[0])
    spread, mistakes, epsilon = _stack(ranges, gadgets)
    if gadgets[0].bound is None:
        return np.full(epsilon.shape, np.nan)
    rise = _rise(spread, mistakes, epsilon, conclusion, kind=kind)
    rise = rise.sum(axis=0) if gadgets[0].bound == "sum" else rise.max(axis=0)
    return np.asarray(rise)


@functools.partial(jax.jit, static_argnames=("kind",))
def _rise(
    ranges: Ranges, mistakes: jax.Array, epsilon: jax.Array, conclusion: Conclusion, *, kind: type[Gadget]
) -> jax.Array:
    """`[S, lanes]` what every subgame may add."""
    loss = conclusion.gap + kind.tremble(ranges, mistakes, epsilon, conclusion.below)
    return jnp.maximum(loss, 0) / (1 - epsilon)[None, :]
