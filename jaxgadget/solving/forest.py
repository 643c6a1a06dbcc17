"""Gadget games over a forest: from ranges to problems, and from their solution to certificates."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jaxgadget.gadgets.gadget import Entry, Gadget, Layout
from jaxgadget.gadgets.ranges import Ranges
from jaxgadget.gadgets.structure import Structure, forest_rounding, pad_rows
from jaxgadget.games.game import FloatArray, IntArray
from jaxgadget.kernels.cfr import averages
from jaxgadget.kernels.problem import (
    Parts,
    Problem,
    Side,
    Terms,
    attach,
    fixed_entry,
    no_regret_tolerance,
    with_regret_tolerance,
)
from jaxgadget.kernels.response import evaluate
from jaxgadget.kernels.treeplex import expand_infosets, sum_actions
from jaxgadget.solving.devices import HOME, Place
from jaxgadget.tree.forest import Forest
from jaxgadget.tree.trunk import Trunk


class GadgetGames(NamedTuple):
    """Gadgets that share an entry over a forest, for a batch of lanes.

    Lanes run over gadgets, then blueprints: lane = gadget · num_blueprints + blueprint.

    Attributes:
      problem: the games.
      live: `[S, lanes]` whether a subgame has anything to solve; elsewhere the blueprint stays.
      subgame: `[S_i]` the subgame of each of the resolving player's sequences.
      ranges: what the gadgets saw, alternative values in place of `V̄(s)`.
      mistakes: `[…, lanes]` the priors.
      epsilon: `[lanes]`.
      entry: the opponent's way in.
    """

    problem: Problem
    live: jax.Array
    subgame: jax.Array
    ranges: Ranges
    mistakes: jax.Array
    epsilon: jax.Array
    entry: Entry


class KindLanes(NamedTuple):
    """All lanes of gadgets that share an entry over a forest; numbers of lanes are on the host.

    Attributes:
      kind: of gadget.
      place: the devices.
      structure: the forest on the devices.
      ranges: what the blueprints bring, a lane each.
      sides: both players' sides, the resolving player's with a root a game.
      entry: the opponent's way in.
      layout: the same on the host.
      alternatives: `[R, lanes]` what stands for `V̄(s)`.
      mistakes: `[…, lanes]` the priors.
      epsilon: `[lanes]`.
      payoff_of: `[num_blueprints]` which of the structure's payoffs each of the ranges' lanes has, if
        there are several; see `alike`.
    """

    kind: type[Gadget]
    place: Place
    structure: Structure
    ranges: Ranges
    sides: tuple[Side, Side]
    entry: Entry
    layout: Layout
    alternatives: FloatArray
    mistakes: FloatArray
    epsilon: FloatArray
    payoff_of: IntArray | None = None

    @property
    def num_lanes(self) -> int:
        """Gadgets × blueprints."""
        return len(self.epsilon)

    def blueprint(self, lanes: IntArray) -> IntArray:
        """The blueprints of some lanes."""
        return lanes % self.ranges.cbv.shape[1]


def build_kind(
    forest: Forest,
    structure: Structure,
    ranges: Ranges,
    gadgets: Sequence[Gadget],
    dtype: DTypeLike,
    trunk: Trunk | None = None,
    place: Place = HOME,
) -> KindLanes:
    """What the gadget games of all lanes have in common, and what tells them apart.

    Args:
      forest: the subgames.
      structure: the forest on the device.
      ranges: what the blueprints bring.
      gadgets: of one class, with numbers for ε; each takes all blueprint lanes.
      dtype: of the numbers.
      trunk: what lies above the cut, for gadgets that need it.
      place: the devices.

    Raises:
      ValueError: if a user's array does not fit the forest's roots.
    """
    other, count = 1 - structure.player, ranges.cbv.shape[1]
    for gadget in gadgets:
        gadget.check(len(forest.roots[other]), count)
    layout = gadgets[0].layout(forest, trunk, structure.player, forest_rounding(forest))
    sides, entry = _sides(forest, structure, layout, dtype, trunk)
    return KindLanes(
        kind=type(gadgets[0]),
        place=place,
        structure=place.everywhere(structure),
        ranges=with_lanes(place.everywhere(ranges), np.asarray),
        sides=place.everywhere(sides),
        entry=place.everywhere(entry),
        layout=layout,
        alternatives=np.concatenate([gadget.alternatives(ranges) for gadget in gadgets], axis=1),
        mistakes=np.concatenate([gadget.mistakes(ranges) for gadget in gadgets], axis=1),
        epsilon=np.repeat([gadget.epsilon for gadget in gadgets], count).astype(ranges.cbv.dtype),
    )


def lane_games(lanes: KindLanes, chosen: IntArray | None = None) -> GadgetGames:
    """The gadget games of some lanes, side by side.

    Args:
      lanes: all of them.
      chosen: numbers of lanes, which the devices must divide; by default all.
    """
    chosen = np.arange(lanes.num_lanes) if chosen is None else chosen
    by_lane, blueprint = lanes.place.by_lane, lanes.blueprint(chosen)
    ranges = dataclasses.replace(lanes.ranges, played=None)
    ranges = with_lanes(ranges, lambda x: by_lane(np.asarray(x)[:, blueprint]))
    ranges = dataclasses.replace(ranges, cbv=by_lane(lanes.alternatives[:, chosen]))
    mistakes, epsilon = by_lane((lanes.mistakes[:, chosen], lanes.epsilon[chosen]))
    structure = lanes.structure
    if lanes.payoff_of is not None:
        numbers = lanes.payoff_of[blueprint]
        structure = structure.with_payoff(lambda x: by_lane(np.asarray(x)[..., numbers]))
    games = _assemble(ranges, mistakes, epsilon, structure, lanes.sides, lanes.entry, kind=lanes.kind)
    problem = games.problem
    terms, tolerance, live = by_lane((problem.terms, problem.regret_tolerance, games.live))
    return games._replace(
        problem=dataclasses.replace(problem, terms=terms, regret_tolerance=tolerance), live=live
    )


def games_shape(lanes: KindLanes, count: int) -> GadgetGames:
    """Shapes and dtypes of `count` lanes' games; nothing is computed."""

    def shape(x: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(x.shape, x.dtype)

    def narrow(x: Any) -> Any:
        return jax.ShapeDtypeStruct((*x.shape[:-1], count), x.dtype)

    ranges = with_lanes(jax.tree.map(shape, dataclasses.replace(lanes.ranges, played=None)), narrow)
    numbers = (ranges, narrow(lanes.mistakes), narrow(lanes.epsilon))
    fixed = jax.tree.map(shape, (lanes.structure, lanes.sides, lanes.entry))
    if lanes.payoff_of is not None:
        fixed = (fixed[0].with_payoff(narrow), *fixed[1:])
    return _assemble.eval_shape(*numbers, *fixed, kind=lanes.kind)


def with_lanes(ranges: Ranges, change: Callable[[Any], Any]) -> Ranges:
    """The same ranges, with every array that has lanes changed."""
    played, trunk = ranges.played, ranges.trunk
    if trunk is not None:
        trunk = dataclasses.replace(
            trunk,
            strategy=change(trunk.strategy),
            outside=change(trunk.outside),
            mass=change(trunk.mass),
        )
    return dataclasses.replace(
        ranges,
        resolver=change(ranges.resolver),
        opponent=change(ranges.opponent),
        mass=change(ranges.mass),
        cbv=change(ranges.cbv),
        played=None if played is None else change(played),
        trunk=trunk,
    )


def join_ranges(parts: Sequence[Ranges], count: int) -> Ranges:
    """Ranges of some blueprints after those of others, the first `count` lanes of all."""
    if len(parts) == 1:
        return parts[0]
    arrays: list[list[FloatArray]] = []
    for part in parts:
        arrays.append([])
        with_lanes(part, lambda x, found=arrays[-1]: found.append(np.asarray(x)))
    joined = iter([np.concatenate(each, axis=1)[:, :count] for each in zip(*arrays, strict=True)])
    return with_lanes(parts[0], lambda _: jax.device_put(next(joined)))


def build_games(
    forest: Forest,
    structure: Structure,
    ranges: Ranges,
    gadgets: Sequence[Gadget],
    dtype: DTypeLike,
    trunk: Trunk | None = None,
) -> tuple[GadgetGames, Layout]:
    """The gadget games of every blueprint lane and of gadgets of one kind; see `build_kind`."""
    lanes = build_kind(forest, structure, ranges, gadgets, dtype, trunk)
    return lane_games(lanes), lanes.layout


def _sides(
    forest: Forest, structure: Structure, layout: Layout, dtype: DTypeLike, trunk: Trunk | None
) -> tuple[tuple[Side, Side], Entry]:
    """Both players' sides, the resolving player's with a root a game."""
    player, other, rounding = structure.player, 1 - structure.player, forest_rounding(forest)
    bodies = structure.sides
    theirs = attach(bodies[other].body, bodies[other].root_of, layout.treeplex, layout.link, dtype, rounding)
    mine = bodies[player]
    if layout.treeplex.num_roots != structure.num_subgames:
        link = layout.game[forest.roots[player].subgame]
        link = pad_rows(link, forest.form.treeplex[player].num_roots, -1)
        fixed = fixed_entry(layout.treeplex.num_roots)
        mine = attach(mine.body, mine.root_of, fixed, link, dtype, rounding)
    size = layout.treeplex.num_sequences
    above = (0, 0) if trunk is None else _trunk_sizes(trunk, other)

    def on_device(values: Any, none: int) -> jax.Array:
        return jax.device_put(np.where(values >= 0, values, none).astype(np.int32))

    entry = Entry(
        side=theirs,
        link=on_device(layout.link, size),
        source=on_device(layout.source, above[0]),
        infoset=on_device(layout.infoset, above[1]),
        parent=on_device(layout.treeplex.parent, 0),
    )
    return ((mine, theirs) if player == 0 else (theirs, mine)), entry


def _trunk_sizes(trunk: Trunk, player: int) -> tuple[int, int]:
    treeplex = trunk.form.treeplex[player]
    return treeplex.num_sequences, treeplex.num_infosets


@functools.partial(jax.jit, static_argnames=("kind",))
def _assemble(
    ranges: Ranges,
    mistakes: jax.Array,
    epsilon: jax.Array,
    structure: Structure,
    sides: tuple[Side, Side],
    entry: Entry,
    *,
    kind: type[Gadget],
) -> GadgetGames:
    """The numbers of all lanes."""
    player = structure.player
    lanes, dtype = ranges.cbv.shape[1], ranges.cbv.dtype
    opponent = kind.terms(ranges, mistakes, epsilon, entry)
    mine = sides[player]
    resolver = Terms(scale=ranges.resolver, constant=jnp.zeros((mine.entry.num_sequences, lanes), dtype))
    problem = Problem(
        order=(1 - player, player),
        sides=sides,
        terms=(resolver, opponent) if player == 0 else (opponent, resolver),
        payoff=structure.payoff,
        regret_tolerance=no_regret_tolerance(sides, lanes, dtype),
    )
    body = structure.sides[player]
    return GadgetGames(
        problem=with_regret_tolerance(problem),
        live=kind.live(ranges, mistakes),
        subgame=body.link.at[body.root_of].get(mode="promise_in_bounds"),
        ranges=ranges,
        mistakes=mistakes,
        epsilon=epsilon,
        entry=entry,
    )


@functools.partial(jax.jit, static_argnames=("dtype",))
def cast(tree: Any, dtype: DTypeLike) -> Any:
    """The same pytree with its floating-point arrays in another precision."""
    return jax.tree.map(
        lambda leaf: leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf, tree
    )


@functools.partial(jax.jit, static_argnames=("dtype",))
def in_precision(problem: Problem, dtype: DTypeLike) -> Problem:
    """The gadget games to solve in `dtype`; what counts as rounding is that of the new precision."""
    coarser = float(jnp.finfo(dtype).eps / jnp.finfo(problem.dtype).eps)
    tolerance = jax.tree.map(lambda bound: bound * coarser, problem.regret_tolerance)
    return cast(dataclasses.replace(problem, regret_tolerance=tolerance), dtype)


class Conclusion(NamedTuple):
    """A finished solve, in float64.

    Attributes:
      strategy: the resolving player's strategy below the cut, `[Q, lanes]` in its body.
      value: `[games, lanes]` what that strategy guarantees in each gadget game.
      gap: `[games, lanes]` NashConv of each gadget game: the optimum lies between value and value + gap.
      rise: `[games, lanes]` the most that each may add to exploitability, NaN where nothing is known.
    """

    strategy: jax.Array
    value: jax.Array
    gap: jax.Array
    rise: jax.Array


@functools.partial(jax.jit, static_argnames=("kind",))
def conclude(
    games: GadgetGames, strategy_sum: tuple[Parts, Parts], blueprint: jax.Array, *, kind: type[Gadget]
) -> Conclusion:
    """Averages, completed by the blueprint, and their certificate.

    The blueprint's rows stay where the average has no mass and where a subgame has nothing
    to solve.

    Args:
      games: the gadget games.
      strategy_sum: both players' weighted sums of plans, `[S, lanes]`.
      blueprint: `[Q, num_blueprints]` the resolving player's blueprints in its body.
      kind: of gadget.
    """
    player = games.problem.order[1]
    played = averages(games.problem, strategy_sum)
    body = games.problem.sides[player].body
    mass = strategy_sum[player].body[body.num_roots :]
    mass = expand_infosets(body, sum_actions(body, mass))
    return _certify(games, played, mass > 0, blueprint, kind)


@functools.partial(jax.jit, static_argnames=("kind",))
def certify(
    games: GadgetGames, played: tuple[Parts, Parts], blueprint: jax.Array, *, kind: type[Gadget]
) -> Conclusion:
    """The certificate of strategies that come from elsewhere; see `conclude`."""
    player = games.problem.order[1]
    return _certify(games, played, jnp.ones_like(played[player].body, jnp.bool_), blueprint, kind)


def _certify(
    games: GadgetGames,
    played: tuple[Parts, Parts],
    known: jax.Array,
    blueprint: jax.Array,
    kind: type[Gadget],
) -> Conclusion:
    problem, player = games.problem, games.problem.order[1]
    side = problem.sides[player]
    subgame = games.subgame[side.body.num_roots :]
    solved = known & games.live.at[subgame].get(mode="promise_in_bounds")
    times = solved.shape[1] // blueprint.shape[1]
    refined = jnp.where(solved, played[player].body, jnp.tile(blueprint, (1, times)))
    pair = list(played)
    pair[player] = Parts(played[player].entry, refined)
    found = evaluate(problem, (pair[0], pair[1]))
    below = -found.below[player]
    rise = kind.rise(games.ranges, games.mistakes, games.epsilon, games.entry, found.gap, below)
    return Conclusion(refined, found.guaranteed[player], found.gap, rise)


def excess(gadgets: Sequence[Gadget], rise: FloatArray) -> FloatArray:
    """`[lanes]` the most that exploitability may rise, NaN where no bound is known (design §3).

    Args:
      gadgets: of one class.
      rise: `[games, lanes]` of the games, padding not included.
    """
    count = rise.shape[1] // len(gadgets)
    found = np.full(rise.shape[1], np.nan)
    for number, gadget in enumerate(gadgets):
        mine = slice(number * count, (number + 1) * count)
        if gadget.bound is not None:
            found[mine] = rise[:, mine].sum(axis=0) if gadget.bound == "sum" else rise[:, mine].max(axis=0)
    return found
