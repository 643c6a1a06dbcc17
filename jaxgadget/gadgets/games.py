"""The gadget games of subgames: gadgets that share an entry, for every opponent and blueprint, as lanes."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from jaxgadget.core.batch import Batch
from jaxgadget.core.certificate import Fallback
from jaxgadget.core.problem import Side, Terms, attach, fixed_entry
from jaxgadget.core.regret import Bounds
from jaxgadget.core.rows import on_host, pad_rows
from jaxgadget.gadgets.alternative import WithGifts
from jaxgadget.gadgets.entry import Entry
from jaxgadget.gadgets.frozen import Frozen
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.gadgets.models import Mixtures
from jaxgadget.gadgets.ranges import Ranges, largest_rows
from jaxgadget.gadgets.structure import Bodies
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.lanes import Lanes
from jaxgadget.util.players import pair_for
from jaxgadget.util.precision import precision


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class GadgetGames:
    """Gadgets that share an entry. S subgames, L lanes.

    Attributes:
      structure: the subgames on the device.
      ranges: what the blueprints bring.
      gadgets: the gadgets.
      lanes: the gadget, the opponent among the mixtures and the blueprint among the ranges of each lane.
      entry: the opponent's way in.
      batch: the games.
      mixtures: opponents who follow models; None if all only adapt.
      frozen: what is not solved for, in subgames of own infostates; None in those of a cut.
    """

    structure: Bodies
    ranges: Ranges
    gadgets: tuple[Gadget, ...]
    lanes: Lanes
    entry: Entry
    batch: Batch
    mixtures: Mixtures | None = None
    frozen: Frozen | None = None

    @property
    def player(self) -> int:
        """Who re-solves."""
        return self.structure.player

    @property
    def num_lanes(self) -> int:
        """L."""
        return len(self.lanes)

    def underflows(self, dtype: np.dtype[Any]) -> dict[int, int]:
        """Lanes whose numbers vanish in a precision, and the first subgame in which they do.

        What a subgame is worth is weighted by what both players' roots are scaled with. Below the smallest
        normal number nothing could be learned there, though the opponent may well come. Of a mixture the
        larger share counts: what the free opponent weighs, times 1 − p, or the model, times p.
        """
        ranges, count = self.ranges, self.ranges.num_lanes
        least = float(np.finfo(dtype).tiny) / float(np.finfo(dtype).eps)
        own = self.structure.root_subgames(self.player)[: len(ranges.resolver)]
        resolver = largest_rows(own, ranges.resolver, ranges.num_subgames)
        vanishing: dict[int, int] = {}
        for number in range(len(self.gadgets)):
            scale = np.asarray(self.entry.terms(number, np.arange(count)).scale)[: len(ranges.subgame)]
            lanes = self.lanes.where(gadget=number)
            blueprint, opponent = self.lanes.blueprint[lanes], self.lanes.opponent[lanes]
            largest = largest_rows(ranges.subgame, scale, ranges.num_subgames)[:, blueprint]
            with np.errstate(over="ignore", invalid="ignore", under="ignore"):
                if self.mixtures is not None:
                    largest = self.mixtures.largest_share(opponent, largest, ranges)
                weight = largest * resolver[:, blueprint]
            lost = (weight > 0) & (weight < least) & (resolver >= least)[:, blueprint]
            lost &= self.has_decision(lanes)
            for lane, column in zip(lanes.tolist(), lost.T, strict=True):
                if column.any():
                    vanishing[lane] = int(column.argmax())
        return vanishing

    def has_decision(self, lanes: IntArray) -> BoolArray:
        """`[S, lanes]` whether there is anything to solve in a subgame; elsewhere the blueprint stays."""
        taken = self.lanes.take(lanes)
        alone = by_gadget(taken, lambda number, blueprints: self.entry.has_decision(number)[:, blueprints])
        if self.frozen is not None:
            alone = alone & self.frozen.reached[:, taken.blueprint]
        if self.mixtures is None:
            return alone
        return self.mixtures.has_decision(taken.opponent, alone, self.ranges, taken.blueprint)

    def fallback(self, rows: FloatArray, lanes: IntArray) -> Fallback:
        """The blueprint's rows, and where a solution takes their place: in subgames that have a decision.

        Where only histories lead that are not considered, nothing was learned and the blueprint stays, too.

        Args:
          rows: `[Q, blueprints]` of the resolving player's body.
          lanes: which lanes.
        """
        blueprint = self.lanes.blueprint[lanes]
        solved = self.has_decision(lanes)[self.structure.action_subgames(self.player)]
        if self.seen is not None:
            solved = solved & self.seen[:, blueprint]
        return Fallback(on_host(rows[:, blueprint]), on_host(solved))

    @functools.cached_property
    def seen(self) -> BoolArray | None:
        """`[Q, blueprints]` which actions of the resolving player lie below a considered root; None: all."""
        considered = self.ranges.considered
        return None if considered is None else self.structure.action_roots_considered(considered)

    def losses(self, gap: FloatArray, values: FloatArray, gained: FloatArray | None = None) -> FloatArray:
        """`[games, L]` the most that each solution may add to exploitability, NaN where no bound is known.

        Against a mixture the free opponent may gain what the player gains from the model: the gap counts as
        `(gap + p·Δu) / (1 − p)`, which bounds what the free opponent's game alone has lost. Nothing is known
        for p = 1, nor of gifts: what a gadget gives away with them may come on top.

        Args:
          gap: `[games, L]` NashConv of the games, padding not included.
          values: `[R, L]` `V(s)` of the refined strategies, in the resolving player's utility.
          gained: `[games, L]` p × what the refined strategies earn more than the blueprints against the
            models; for mixtures.
        """
        if self.mixtures is not None:
            assert gained is not None
            p = self.mixtures.p[self.lanes.opponent]
            has_gifts = np.array([isinstance(gadget.offer, WithGifts) for gadget in self.gadgets])
            known = (p < 1) & ~(has_gifts[self.lanes.gadget] & (p > 0))
            gap = np.where(known, (gap + gained) / np.where(known, 1 - p, 1), np.nan)
        losses = np.full_like(gap, np.nan)
        for number in range(len(self.gadgets)):
            lanes = self.lanes.where(gadget=number)
            losses[:, lanes] = self.entry.losses(
                number, self.lanes.blueprint[lanes], gap[:, lanes], values[:, lanes]
            )
        return losses


def by_gadget(lanes: Lanes, make: Callable[[int, IntArray], Any]) -> Any:
    """Pytrees with lanes last, made gadget by gadget and put together in the order of the lanes.

    Args:
      lanes: the lanes.
      make: called with the number of a gadget and the numbers of its lanes' blueprints.
    """
    order = np.argsort(lanes.gadget, kind="stable")
    numbers = np.unique(lanes.gadget).tolist()
    parts = [make(number, lanes.blueprint[lanes.where(gadget=number)]) for number in numbers]
    if len(parts) == 1:
        return parts[0]
    back = np.argsort(order)
    return jax.tree.map(lambda *columns: np.concatenate(columns, axis=1)[:, back], *parts)


def group_gadgets(gadgets: Sequence[Gadget]) -> list[list[int]]:
    """Which gadgets are solved together, because they share an entry: their numbers."""
    groups: dict[str, list[int]] = {}
    for number, gadget in enumerate(gadgets):
        groups.setdefault(gadget.entry_name, []).append(number)
    return list(groups.values())


def build_games(
    structure: Bodies,
    ranges: Ranges,
    gadgets: Sequence[Gadget],
    *,
    mixtures: Mixtures | None = None,
    frozen: Frozen | None = None,
    floor: FloatArray | None = None,
    lanes: Lanes | None = None,
) -> GadgetGames:
    """The gadget games of every gadget, opponent and blueprint.

    Args:
      structure: the subgames on the device.
      ranges: what the blueprints bring, the trunk included if a gadget needs it.
      gadgets: of one `entry_name`, with numbers for ε.
      mixtures: opponents who follow models; by default there is one, who adapts.
      frozen: what is not solved for, in subgames of own infostates; by default there is nothing.
      floor: `[Q, blueprints]` least probabilities of the resolving player's actions; by default 0.
      lanes: the combinations of gadgets, mixtures and blueprints; by default all of them.

    Raises:
      ValueError: if a gadget's numbers make no sense for these ranges.
    """
    if lanes is None:
        opponents = 1 if mixtures is None else len(mixtures)
        lanes = Lanes.product(gadgets=len(gadgets), opponents=opponents, blueprints=ranges.num_lanes)
    every, player = lanes, structure.player
    # Where a blueprint hardly ever gets, numbers may overflow: the solve of that lane says so.
    with np.errstate(over="ignore", invalid="ignore"):
        tables = [asked.tables(ranges) for asked in gadgets]
        if ranges.possible is not None:
            tables = [table.restricted(ranges.possible) for table in tables]
        if ranges.considered is not None:
            tables = [table.considering(ranges.considered) for table in tables]
        entry = gadgets[0].build_entry(structure, ranges, tables)
    sides = _sides(structure, entry, len(ranges.resolver))
    resolver_scale = pad_rows(ranges.resolver, structure.num_roots(player), 0)

    def terms(lanes: IntArray) -> tuple[Terms, Terms]:
        taken = every.take(lanes)
        theirs = by_gadget(taken, entry.terms)
        if frozen is not None:
            constant = on_host(frozen.earned[:, taken.blueprint])
            theirs = dataclasses.replace(theirs, body_constant=constant)
        nothing = np.zeros((sides[player].entry.num_sequences, len(lanes)))
        bounds = Bounds() if floor is None else Bounds(floor=on_host(floor[:, taken.blueprint]))
        scale = on_host(resolver_scale[:, taken.blueprint])
        ours = Terms(scale=scale, constant=on_host(nothing), body=bounds)
        if mixtures is not None:
            ours, theirs = mixtures.mix(taken.opponent, ours, theirs, len(ranges.subgame))
        return pair_for(player, ours, theirs)

    names = {asked.name for asked in gadgets}
    batch = Batch(
        name=names.pop() if len(names) == 1 else gadgets[0].entry_name,
        order=(1 - player, player),
        sides=sides,
        payoff=structure.payoff_of(every.blueprint),
        num_lanes=len(every),
        num_games=entry.num_games,
        terms=terms,
    )
    return GadgetGames(
        structure=structure,
        ranges=ranges,
        gadgets=tuple(gadgets),
        lanes=every,
        entry=entry,
        batch=batch,
        mixtures=mixtures,
        frozen=frozen,
    )


def _sides(structure: Bodies, entry: Entry, num_roots: int) -> tuple[Side, Side]:
    """Both players' sides, the resolving player's, who has so many roots, with a root a game."""
    player, other, bodies = structure.player, 1 - structure.player, structure.sides
    # Extra roots hang from a game's root, whatever the free opponent chooses.
    link = np.concatenate([entry.link, entry.game[structure.extra_subgames]])
    link = pad_rows(link, bodies[other].body.num_roots, -1)
    how = np.float64, structure.rounding, structure.platform
    with precision(np.float64):
        theirs = attach(bodies[other].body, bodies[other].root_of, entry.treeplex, link, *how)
        ours = bodies[player]
        if entry.treeplex.num_roots != structure.num_subgames:
            game = entry.game[structure.root_subgames(player)[:num_roots]]
            game = pad_rows(game, ours.body.num_roots, -1)
            fixed = fixed_entry(entry.treeplex.num_roots)
            ours = attach(ours.body, ours.root_of, fixed, game, *how)
    return pair_for(player, ours, theirs)
