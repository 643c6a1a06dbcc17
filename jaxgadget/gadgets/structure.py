"""A forest on the device, and what a blueprint brings to it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.typing import DTypeLike

from jaxgadget.gadgets.ranges import Ranges, TrunkRanges
from jaxgadget.kernels.payoff import MatrixPayoff, build_payoff
from jaxgadget.kernels.problem import (
    Parts,
    Side,
    Terms,
    best_values_up,
    build_side,
    fixed_entry,
    follow,
    payoff_reach,
    values_up,
)
from jaxgadget.kernels.rows import RowSums, build_row_sums
from jaxgadget.kernels.treeplex import Treeplex, to_device
from jaxgadget.tree.forest import Forest
from jaxgadget.tree.sequence import Rounding, exact_size, rounded_size
from jaxgadget.tree.trunk import Trunk


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Structure:
    """What all gadgets over a forest share: bodies, the payoff, chance at the roots.

    Attributes:
      player: who re-solves.
      num_subgames: S, padding included.
      sides: both players' bodies with fixed entries.
      payoff: between the bodies.
      mass: chance's reach of root pairs: the resolving player's roots → the opponent's.
      subgame: `[R]` subgame of each of the opponent's roots, S for padding.
    """

    player: int = dataclasses.field(metadata={"static": True})
    num_subgames: int = dataclasses.field(metadata={"static": True})
    sides: tuple[Side, Side]
    payoff: MatrixPayoff
    mass: RowSums
    subgame: jax.Array

    def with_payoff(self, change: Callable[[Any], Any]) -> Structure:
        """The same structure, with every array of the payoff's numbers changed."""
        numbers = jax.tree.map(lambda x: change(x) if np.issubdtype(x.dtype, np.floating) else x, self.payoff)
        return dataclasses.replace(self, payoff=numbers)


def build_structure(forest: Forest, player: int, dtype: DTypeLike) -> Structure:
    """Puts a forest on the device for one resolving player; call inside `precision(dtype)`."""
    rounding = forest_rounding(forest)
    num_subgames = rounding(forest.num_subgames)
    pairs = (forest.chance.row, forest.chance.column)
    other = 1 - player
    payoff = build_payoff(forest.form.payoff, dtype, rounding=rounding)
    return Structure(
        player=player,
        num_subgames=num_subgames,
        sides=build_bodies(forest, dtype),
        payoff=payoff,
        mass=build_row_sums(
            pairs[other], pairs[player], forest.chance.value, forest.chance.shape[other], dtype, rounding
        ),
        subgame=jax.device_put(
            pad_rows(forest.roots[other].subgame, forest.form.treeplex[other].num_roots, num_subgames).astype(
                np.int32
            )
        ),
    )


def build_bodies(forest: Forest, dtype: DTypeLike) -> tuple[Side, Side]:
    """Both players' decisions below the cut, with fixed entries: a root a subgame."""
    rounding = forest_rounding(forest)
    entry = fixed_entry(rounding(forest.num_subgames))
    first, second = (
        build_side(body, entry, pad_rows(roots.subgame, body.num_roots, -1), dtype, rounding)
        for body, roots in zip(forest.form.treeplex, forest.roots, strict=True)
    )
    return first, second


def forest_rounding(forest: Forest) -> Rounding:
    """How the forest's sizes were rounded up."""
    return rounded_size if forest.padded else exact_size


def pad_rows(values: npt.NDArray[Any], size: int, fill: int) -> npt.NDArray[Any]:
    """`[n, …]` → `[size, …]`."""
    extra = [(0, size - len(values))] + [(0, 0)] * (values.ndim - 1)
    return np.pad(values, extra, constant_values=fill)


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
    best = _opponent_values(structure, strategy, reach, best=True)
    return Ranges(
        num_subgames=structure.num_subgames,
        subgame=structure.subgame,
        resolver=reach[player],
        opponent=reach[other],
        mass=structure.mass(reach[player]),
        cbv=-best,
    )


@jax.jit
def blueprint_values(
    structure: Structure, strategy: tuple[Parts, Parts], reach: tuple[jax.Array, jax.Array]
) -> jax.Array:
    """`[R, lanes]` `V(s)` when both follow their blueprints, in the resolving player's utility."""
    return -_opponent_values(structure, strategy, reach, best=False)


def _opponent_values(
    structure: Structure, strategy: tuple[Parts, Parts], reach: tuple[jax.Array, jax.Array], best: bool
) -> jax.Array:
    """`[R, lanes]` the opponent's counterfactual values of its roots."""
    player, other = structure.player, 1 - structure.player
    side = structure.sides[player]
    nothing = jnp.zeros((structure.num_subgames, reach[0].shape[-1]), reach[0].dtype)
    terms = Terms(scale=reach[player], constant=nothing)
    seen = payoff_reach(side, terms, follow(side, terms, strategy[player]))
    gradient, _ = structure.payoff.gradient(other, (seen, seen), None)
    free = Terms(scale=jnp.ones_like(reach[other]), constant=nothing)
    opponent = structure.sides[other]
    if best:
        return best_values_up(opponent, free, gradient).roots
    return values_up(opponent, free, gradient, strategy[other]).roots


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class TrunkStructure:
    """The opponent's trunk on the device; see `TrunkRanges`.

    Attributes:
      outside: the resolving player's reach of its trunk sequences → what the opponent's earn.
      presence: the same reach → `N(I)` of the opponent's infosets.
    """

    treeplex: Treeplex
    link: jax.Array
    linked: RowSums
    ancestors: RowSums
    terminates: jax.Array
    outside: RowSums
    presence: RowSums


def build_trunk_structure(trunk: Trunk, forest: Forest, player: int, dtype: DTypeLike) -> TrunkStructure:
    """Puts the opponent's trunk on the device; call inside `precision(dtype)`."""
    other = 1 - player
    treeplex, link = trunk.form.treeplex[other], trunk.link[other]
    owner = np.append(-1, treeplex.sequence_infoset)
    rows: list[int] = []
    columns: list[int] = []
    for root, last in enumerate(link.tolist()):
        while last:
            rows.append(root)
            columns.append(last - 1)
            last = int(treeplex.parent[owner[last]])
    num_roots = forest.form.treeplex[other].num_roots
    sums = functools.partial(build_row_sums, dtype=dtype)
    payoff, presence = trunk.form.payoff, trunk.presence[other]
    mine, theirs = (payoff.column, payoff.row) if other == 1 else (payoff.row, payoff.column)
    sign = -1.0 if other == 1 else 1.0
    return TrunkStructure(
        treeplex=to_device(treeplex, dtype),
        link=jax.device_put(pad_rows(link, num_roots, treeplex.num_sequences).astype(np.int32)),
        linked=sums(link, np.arange(len(link)), np.ones(len(link)), treeplex.num_sequences),
        ancestors=sums(np.array(rows, np.int64), np.array(columns, np.int64), np.ones(len(rows)), num_roots),
        terminates=jax.device_put(trunk.terminates[other][:, None]),
        outside=sums(mine, theirs, sign * payoff.value, treeplex.num_sequences),
        presence=sums(presence.row, presence.column, presence.value, treeplex.num_infosets),
    )


@jax.jit
def trunk_ranges(structure: TrunkStructure, reach: jax.Array, strategy: jax.Array) -> TrunkRanges:
    """What a blueprint brings above the cut.

    Args:
      structure: the opponent's trunk.
      reach: `[E_i, lanes]` the resolving player's reach of its own sequences there.
      strategy: `[Q, lanes]` the opponent's blueprint there.
    """
    return TrunkRanges(
        treeplex=structure.treeplex,
        link=structure.link,
        linked=structure.linked,
        ancestors=structure.ancestors,
        terminates=structure.terminates,
        strategy=strategy,
        outside=structure.outside(reach),
        mass=structure.presence(reach),
    )
