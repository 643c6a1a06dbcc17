"""Several unrelated games as one problem: one compiled program solves them all."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxgadget.core.host import HostTreeplex, build_treeplex
from jaxgadget.core.noise import NoisyBounds
from jaxgadget.core.payoff import Payoff
from jaxgadget.core.problem import Parts, Problem, Side, Terms, build_side
from jaxgadget.core.regret import Bounds
from jaxgadget.core.rows import array_bytes, take_rows
from jaxgadget.core.treeplex import to_host
from jaxgadget.util.arrays import IntArray


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class SeparatePayoffs:
    """The payoffs of unrelated games; its state is a tuple of theirs, or None if none keeps one.

    Attributes:
      payoffs: of every game.
      sequences: for both players and every game `[S of the game]`, which of all sequences its own are.
      order: for both players `[S]`, where each sequence is in those of all games laid end to end.
    """

    payoffs: tuple[Payoff, ...]
    sequences: tuple[tuple[jax.Array, ...], tuple[jax.Array, ...]]
    order: tuple[jax.Array, jax.Array]

    def gradient(self, player: int, reach: tuple[jax.Array, jax.Array], state: Any) -> tuple[jax.Array, Any]:
        """See `Payoff`."""
        states = (None,) * len(self.payoffs) if state is None else state
        parts: list[jax.Array] = []
        after: list[Any] = []
        for payoff, first, second, before in zip(self.payoffs, *self.sequences, states, strict=True):
            own_reach = take_rows(reach[0], first), take_rows(reach[1], second)
            gradient, next_state = payoff.gradient(player, own_reach, before)
            parts.append(gradient)
            after.append(next_state)
        return take_rows(jnp.concatenate(parts), self.order[player]), None if state is None else tuple(after)

    def absolute(self) -> SeparatePayoffs:
        """See `Payoff`."""
        return dataclasses.replace(self, payoffs=tuple(payoff.absolute() for payoff in self.payoffs))

    def num_bytes(self) -> tuple[int, int]:
        """See `Payoff`."""
        sizes = [payoff.num_bytes() for payoff in self.payoffs]
        fixed = sum(size[0] for size in sizes) + array_bytes((self.sequences, self.order))
        return fixed, sum(size[1] for size in sizes)

    def take_lanes(self, lanes: IntArray) -> SeparatePayoffs:
        """See `Payoff`."""
        return dataclasses.replace(self, payoffs=tuple(payoff.take_lanes(lanes) for payoff in self.payoffs))


class Joined(NamedTuple):
    """Treeplexes as one, on the host.

    Attributes:
      treeplex: all of them; roots one game after the other.
      sequences: for every game `[its sequences]`, their numbers in the joined treeplex.
      infosets: for every game `[its infosets]`, likewise.
    """

    treeplex: HostTreeplex
    sequences: list[IntArray]
    infosets: list[IntArray]

    def actions(self) -> list[IntArray]:
        """For every game `[its actions]`, their rows in arrays over actions."""
        parts = [rows[rows >= self.treeplex.num_roots] for rows in self.sequences]
        return [rows - self.treeplex.num_roots for rows in parts]

    def roots(self) -> list[IntArray]:
        """For every game `[its roots]`, likewise."""
        return [rows[rows < self.treeplex.num_roots] for rows in self.sequences]


def side_by_side(problems: Sequence[Problem]) -> Problem:
    """Unrelated games as one problem, in which each is a subgame (or several) of its own.

    Args:
      problems: with as many lanes, in one precision, with the same order of updates; a player's entry is
        fixed in all of them or in none, because plans carry the scale of roots only below one that is not.

    Returns:
      Their problem. Subgames come game by game; which sequences are whose says its payoff, a
      `SeparatePayoffs`.

    Raises:
      ValueError: if there are none, or they differ in one of these.
    """
    signatures = {
        (problem.num_lanes, str(problem.dtype), problem.order, tuple(side.fixed for side in problem.sides))
        for problem in problems
    }
    if len(signatures) != 1:
        raise ValueError(
            "problems have (lanes, precision, order, whether both players' entries are fixed) "
            f"{sorted(signatures)}: expected problems alike in these"
        )
    order, dtype = problems[0].order, problems[0].dtype
    sides: list[Side] = []
    terms: list[Terms] = []
    tolerances: list[Parts] = []
    sequences: list[tuple[jax.Array, ...]] = []
    orders: list[jax.Array] = []
    for player in (0, 1):
        own_sides = [problem.sides[player] for problem in problems]
        entry = _join([to_host(side.entry) for side in own_sides])
        body = _join([to_host(side.body) for side in own_sides])
        link = np.zeros(body.treeplex.num_roots, np.int64)
        for side, rows, above in zip(own_sides, body.roots(), entry.sequences, strict=True):
            link[rows] = above[np.asarray(side.link)]
        sides.append(build_side(body.treeplex, entry.treeplex, link, dtype))
        own_terms = [problem.terms[player] for problem in problems]
        terms.append(_join_terms(own_terms, own_sides, entry, body))
        own = [problem.regret_tolerance[player] for problem in problems]
        tolerances.append(
            Parts(
                _lay_out(entry.infosets, [part.entry for part in own]),
                _lay_out(body.infosets, [part.body for part in own]),
            )
        )
        sequences.append(tuple(jax.device_put(rows.astype(np.int32)) for rows in body.sequences))
        orders.append(jax.device_put(np.argsort(np.concatenate(body.sequences)).astype(np.int32)))
    return Problem(
        order=order,
        sides=(sides[0], sides[1]),
        terms=(terms[0], terms[1]),
        payoff=SeparatePayoffs(
            payoffs=tuple(problem.payoff for problem in problems),
            sequences=(sequences[0], sequences[1]),
            order=(orders[0], orders[1]),
        ),
        regret_tolerance=(tolerances[0], tolerances[1]),
    )


def _join(treeplexes: Sequence[HostTreeplex]) -> Joined:
    infoset_begin = np.cumsum([0, *(treeplex.num_infosets for treeplex in treeplexes)])
    root_begin = np.cumsum([0, *(treeplex.num_roots for treeplex in treeplexes)])
    columns: list[tuple[IntArray, ...]] = [(np.zeros(0, np.int64),) * 4]
    for treeplex, first_infoset, first_root in zip(treeplexes, infoset_begin, root_begin, strict=False):
        depth = np.zeros(treeplex.num_infosets, np.int64)
        for level, (rows, _) in enumerate(treeplex.level_slices()):
            depth[rows] = level
        above = treeplex.parent - treeplex.num_roots
        below_root = above < 0
        owner = np.append(treeplex.sequence_infoset, 0)[above]
        slot = np.append(treeplex.sequence_slot, 0)[above]
        columns.append(
            (
                depth,
                treeplex.num_actions,
                np.where(below_root, -1, owner + first_infoset),
                np.where(below_root, treeplex.parent + first_root, slot),
            )
        )
    depth, num_actions, parent_infoset, parent_slot = map(np.concatenate, zip(*columns, strict=True))
    joined, position = build_treeplex(
        num_roots=int(root_begin[-1]),
        depth=depth,
        num_actions=num_actions,
        parent_infoset=parent_infoset,
        parent_slot=parent_slot,
        infoset=np.arange(len(depth)),
    )
    infosets = [position[first:last] for first, last in itertools.pairwise(infoset_begin.tolist())]
    sequences = [
        np.concatenate(
            [
                first_root + np.arange(treeplex.num_roots),
                joined.sequence(rows[treeplex.sequence_infoset], treeplex.sequence_slot)
                if len(rows)
                else np.zeros(0, np.int64),
            ]
        )
        for treeplex, rows, first_root in zip(treeplexes, infosets, root_begin, strict=False)
    ]
    return Joined(joined, sequences, infosets)


def _lay_out(rows: Sequence[IntArray], parts: Sequence[jax.Array]) -> jax.Array:
    """Every game's rows of an array, each where it belongs."""
    order = np.argsort(np.concatenate(rows)).astype(np.int32)
    return take_rows(jnp.concatenate(parts), jax.device_put(order))


def _join_terms(terms: Sequence[Terms], sides: Sequence[Side], entry: Joined, body: Joined) -> Terms:
    def constant(problem_terms: Terms, side: Side) -> jax.Array:
        nothing = jnp.zeros(
            (side.body.num_sequences, problem_terms.scale.shape[-1]), problem_terms.scale.dtype
        )
        return nothing if problem_terms.body_constant is None else problem_terms.body_constant

    lanes = terms[0].scale.shape[-1]
    body_constant = None
    if any(problem_terms.body_constant is not None for problem_terms in terms):
        constants = [constant(problem_terms, side) for problem_terms, side in zip(terms, sides, strict=True)]
        body_constant = _lay_out(body.sequences, constants)
    return Terms(
        scale=_lay_out(body.roots(), [problem_terms.scale for problem_terms in terms]),
        constant=_lay_out(entry.sequences, [problem_terms.constant for problem_terms in terms]),
        body_constant=body_constant,
        entry=_join_bounds([problem_terms.entry for problem_terms in terms], entry, lanes),
        body=_join_bounds([problem_terms.body for problem_terms in terms], body, lanes),
    )


def _join_bounds(bounds: Sequence[Bounds], joined: Joined, lanes: int) -> Bounds:
    """Bounds of all games; where a game has none, all is legal and there is no floor."""
    shapes = [(len(rows), lanes) for rows in joined.actions()]
    legal = floor = None
    if any(problem_bounds.legal is not None for problem_bounds in bounds):
        parts = [
            jnp.ones(shape, jnp.bool_) if problem_bounds.legal is None else problem_bounds.legal
            for problem_bounds, shape in zip(bounds, shapes, strict=True)
        ]
        legal = _lay_out(joined.actions(), parts)
    if any(problem_bounds.floor is not None for problem_bounds in bounds):
        dtype = next(
            problem_bounds.floor.dtype for problem_bounds in bounds if problem_bounds.floor is not None
        )
        parts = [
            jnp.zeros(shape, dtype) if problem_bounds.floor is None else problem_bounds.floor
            for problem_bounds, shape in zip(bounds, shapes, strict=True)
        ]
        floor = _lay_out(joined.actions(), parts)
    if any(isinstance(problem_bounds, NoisyBounds) for problem_bounds in bounds):
        parts = [
            problem_bounds.deviation if isinstance(problem_bounds, NoisyBounds) else jnp.full(shape, jnp.nan)
            for problem_bounds, shape in zip(bounds, shapes, strict=True)
        ]
        return NoisyBounds(legal=legal, floor=floor, deviation=_lay_out(joined.actions(), parts))
    return Bounds(legal=legal, floor=floor)
