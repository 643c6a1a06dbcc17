"""Gadget games of subgames: lanes for gadgets that share an entry, opponents and blueprints."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from jaxgadget.core.batch import Batch
from jaxgadget.core.certificate import Fallback, Fallbacks
from jaxgadget.core.problem import Side, Terms, attach, fixed_entry
from jaxgadget.core.regret import ChoiceRule
from jaxgadget.core.rows import on_host, pad_rows
from jaxgadget.gadgets.alternative import WithGifts
from jaxgadget.gadgets.entry import Entry
from jaxgadget.gadgets.frozen import Frozen
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.gadgets.models import Mixtures, free_loss
from jaxgadget.gadgets.ranges import Ranges, largest_rows
from jaxgadget.gadgets.structure import Bodies, Structure
from jaxgadget.tree.forest import Forest
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.lanes import Lanes
from jaxgadget.util.players import pair_for
from jaxgadget.util.precision import precision


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """Subgames on the device, with all data of blueprints that gadgets use; in float64.

    Attributes:
      structure: the subgames.
      ranges: ranges of the blueprints at their roots.
      rows: both players' blueprints below the roots, `[Q_p, blueprints]` for actions of the bodies.
      mixtures: opponents that follow models; None if all adapt.
      frozen: contribution of frozen infostates, for subgames of own infostates; None for those of a cut.
      floor: `[Q, blueprints]` minimum probabilities of the resolving player's actions; None for 0.
    """

    structure: Bodies
    ranges: Ranges
    rows: tuple[FloatArray, FloatArray]
    mixtures: Mixtures | None = None
    frozen: Frozen | None = None
    floor: FloatArray | None = None

    @property
    def player(self) -> int:
        """The resolving player."""
        return self.structure.player

    @property
    def forest(self) -> Forest:
        """The subgames as a forest."""
        assert isinstance(self.structure, Structure)
        return self.structure.forest


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class GadgetGames:
    """Gadgets that share an entry. S subgames, L lanes.

    Attributes:
      prepared: the subgames, with ranges of the blueprints.
      gadgets: the gadgets.
      lanes: indices of each lane's gadget, mixture and blueprint.
      entry: the opponent's decisions above its roots.
      batch: the games.
    """

    prepared: Prepared
    gadgets: tuple[Gadget, ...]
    lanes: Lanes
    entry: Entry
    batch: Batch

    @property
    def player(self) -> int:
        """The resolving player."""
        return self.prepared.player

    @property
    def ranges(self) -> Ranges:
        """Ranges of the blueprints."""
        return self.prepared.ranges

    @property
    def mixtures(self) -> Mixtures | None:
        """Opponents that follow models; None if all adapt."""
        return self.prepared.mixtures

    @property
    def num_lanes(self) -> int:
        """Number of lanes, L."""
        return len(self.lanes)

    def underflows(self, dtype: np.dtype[Any]) -> dict[int, int]:
        """Maps each lane with payoffs that underflow in a precision to the first such subgame.

        Payoffs of a subgame are weighted by the scales of both players' roots. If the weights are below the
        smallest normal number, regrets vanish although the opponent may enter the subgame. In a mixture the
        weight is the larger of the free opponent's × (1 − p) and the model's × p.
        """
        ranges, count = self.ranges, self.ranges.num_lanes
        smallest = float(np.finfo(dtype).tiny) / float(np.finfo(dtype).eps)
        own = self.prepared.structure.root_subgames(self.player)[: len(ranges.resolver)]
        resolver = largest_rows(own, ranges.resolver, ranges.num_subgames)
        underflows: dict[int, int] = {}
        for gadget_idx in range(len(self.gadgets)):
            scale = np.asarray(self.entry.terms(gadget_idx, np.arange(count)).scale)[: len(ranges.subgame)]
            lanes = self.lanes.where(gadget=gadget_idx)
            blueprint, opponent = self.lanes.blueprint[lanes], self.lanes.opponent[lanes]
            largest = largest_rows(ranges.subgame, scale, ranges.num_subgames)[:, blueprint]
            with np.errstate(over="ignore", invalid="ignore", under="ignore"):
                if self.mixtures is not None:
                    largest = self.mixtures.largest_share(opponent, largest, ranges)
                weight = largest * resolver[:, blueprint]
            lost = (weight > 0) & (weight < smallest) & (resolver >= smallest)[:, blueprint]
            lost &= self.has_decision(lanes)
            for lane, column in zip(lanes.tolist(), lost.T, strict=True):
                if column.any():
                    underflows[lane] = int(column.argmax())
        return underflows

    def has_decision(self, lanes: IntArray) -> BoolArray:
        """`[S, lanes]` True for subgames with a decision to solve; the blueprint is kept in the others."""
        taken = self.lanes.take(lanes)
        alone = by_gadget(taken, lambda gadget, blueprints: self.entry.has_decision(gadget)[:, blueprints])
        if (frozen := self.prepared.frozen) is not None:
            alone = alone & frozen.reached[:, taken.blueprint]
        if self.mixtures is None:
            return alone
        return self.mixtures.has_decision(taken.opponent, alone, self.ranges, taken.blueprint)

    def fallbacks(self, lanes: IntArray, players: Sequence[int] = (0, 1)) -> Fallbacks:
        """The blueprints' rows for the given players, and masks of solved actions; None for other players.

        The resolving player's actions are solved in subgames with a decision, except at infosets to which
        only unconsidered roots lead. The opponent's actions are solved wherever its average has mass.

        Args:
          lanes: indices of the lanes.
          players: players whose strategies are requested.
        """
        player, blueprint, structure = self.player, self.lanes.blueprint[lanes], self.prepared.structure
        solved = self.has_decision(lanes)[structure.action_subgames(player)]
        if self.seen is not None:
            solved = solved & self.seen[:, blueprint]
        fallbacks: list[Fallback | None] = [None, None]
        for p in players:
            rows = self.prepared.rows[p][:, blueprint]
            replaced = solved if p == player else np.ones(rows.shape, np.bool_)
            fallbacks[p] = Fallback(on_host(rows), on_host(replaced))
        return fallbacks[0], fallbacks[1]

    def with_epsilon(self, epsilon: float) -> GadgetGames:
        """The games of the same gadgets with another ε."""
        gadgets: list[Any] = list(self.gadgets)
        gadgets = [dataclasses.replace(gadget, epsilon=epsilon) for gadget in gadgets]
        return build_games(self.prepared, gadgets, lanes=self.lanes)

    @functools.cached_property
    def seen(self) -> BoolArray | None:
        """`[Q, blueprints]` True for the resolving player's actions below a considered root; None for all."""
        considered = self.ranges.considered
        if considered is None:
            return None
        return self.prepared.structure.action_roots_considered(considered)

    def alternative(self) -> FloatArray:
        """`[R, L]` values that the gadgets offer at the opponent's roots; NaN for gadgets without any."""

        def of_gadget(gadget_idx: int, blueprints: IntArray) -> FloatArray:
            gadget = self.gadgets[gadget_idx]
            if gadget.offer is None or gadget.joint:
                return np.full((len(self.ranges.subgame), len(blueprints)), np.nan)
            return gadget.offer.values(self.ranges)[:, blueprints]

        return by_gadget(self.lanes, of_gadget)

    def entered(self, reach: FloatArray) -> FloatArray:
        """`[R, L]` probability that the opponent's choices in each gadget lead to each root; NaN without any.

        Args:
          reach: `[R, L]` its reach of the sequence above each root, in the gadgets' entry.
        """
        entered = np.empty_like(reach)
        for gadget_idx in range(len(self.gadgets)):
            lanes = self.lanes.where(gadget=gadget_idx)
            entered[:, lanes] = self.entry.entered(gadget_idx, reach[:, lanes])
        return entered

    def losses(self, gap: FloatArray, values: FloatArray, gained: FloatArray | None = None) -> FloatArray:
        """`[games, L]` bound on each solution's contribution to exploitability, NaN if no bound is known.

        Against a mixture the free opponent may gain as much as the player gains against the model: the gap is
        replaced by `(gap + p·Δu) / (1 − p)`, which bounds the loss in the free opponent's game. No bound
        is known for p = 1, nor for gadgets with gifts, whose loss may be additional.

        Args:
          gap: `[games, L]` NashConv of the games, without padding.
          values: `[R, L]` `V(s)` of the refined strategies, in the resolving player's utility.
          gained: `[games, L]` p × gain of the refined strategies over the blueprints against the models; for
            mixtures.
        """
        if self.mixtures is not None:
            assert gained is not None
            p = self.mixtures.p[self.lanes.opponent]
            has_gifts = np.array([isinstance(gadget.offer, WithGifts) for gadget in self.gadgets])
            gap = np.where(has_gifts[self.lanes.gadget] & (p > 0), np.nan, free_loss(p, gap + gained))
        losses = np.full_like(gap, np.nan)
        for gadget_idx in range(len(self.gadgets)):
            lanes = self.lanes.where(gadget=gadget_idx)
            losses[:, lanes] = self.entry.losses(
                gadget_idx, self.lanes.blueprint[lanes], gap[:, lanes], values[:, lanes]
            )
        return losses


def by_gadget(lanes: Lanes, make: Callable[[int, IntArray], Any]) -> Any:
    """Builds pytrees with lanes last, gadget by gadget, and joins them in the order of the lanes.

    Args:
      lanes: the lanes.
      make: function of a gadget's index and of the indices of its lanes' blueprints.
    """
    gadgets = np.unique(lanes.gadget).tolist()
    parts = [make(gadget, lanes.blueprint[lanes.where(gadget=gadget)]) for gadget in gadgets]
    if len(parts) == 1:
        return parts[0]
    position = np.argsort(lanes.of_gadgets(gadgets))
    return jax.tree.map(lambda *columns: np.concatenate(columns, axis=1)[:, position], *parts)


def group_gadgets(gadgets: Sequence[Gadget]) -> list[list[int]]:
    """Groups of indices of gadgets that share an entry and are solved together."""
    groups: dict[str, list[int]] = {}
    for gadget_idx, gadget in enumerate(gadgets):
        groups.setdefault(gadget.entry_name, []).append(gadget_idx)
    return list(groups.values())


def build_games(prepared: Prepared, gadgets: Sequence[Gadget], *, lanes: Lanes | None = None) -> GadgetGames:
    """Builds the gadget games of every gadget, opponent and blueprint.

    Args:
      prepared: the subgames; with the trunk in their ranges if a gadget requires it.
      gadgets: gadgets of one `entry_name`, with numbers for ε.
      lanes: combinations of gadgets, mixtures and blueprints; by default all of them.

    Raises:
      ValueError: if a gadget rejects the ranges.
    """
    structure, ranges, mixtures = prepared.structure, prepared.ranges, prepared.mixtures
    frozen, floor = prepared.frozen, prepared.floor
    if lanes is None:
        opponents = 1 if mixtures is None else len(mixtures)
        lanes = Lanes.product(gadgets=len(gadgets), opponents=opponents, blueprints=ranges.num_lanes)
    all_lanes, player = lanes, structure.player
    # Values of roots with tiny reaches may overflow: the solve reports such lanes.
    with np.errstate(over="ignore", invalid="ignore"):
        tables = [gadget.tables(ranges) for gadget in gadgets]
        if ranges.possible is not None:
            tables = [table.restricted(ranges.possible) for table in tables]
        if ranges.considered is not None:
            tables = [table.considering(ranges.considered) for table in tables]
        entry = gadgets[0].build_entry(structure, ranges, tables)
    sides = _sides(structure, entry, len(ranges.resolver))
    resolver_scale = pad_rows(ranges.resolver, structure.num_roots(player), 0)

    def terms(lanes: IntArray) -> tuple[Terms, Terms]:
        taken = all_lanes.take(lanes)
        opponent = by_gadget(taken, entry.terms)
        if frozen is not None:
            constant = on_host(frozen.earned[:, taken.blueprint])
            opponent = dataclasses.replace(opponent, body_constant=constant)
        no_constant = np.zeros((sides[player].entry.num_sequences, len(lanes)))
        choice = ChoiceRule() if floor is None else ChoiceRule(floor=on_host(floor[:, taken.blueprint]))
        scale = on_host(resolver_scale[:, taken.blueprint])
        resolver = Terms(scale=scale, constant=on_host(no_constant), body=choice)
        if mixtures is not None:
            resolver, opponent = mixtures.mix(taken.opponent, resolver, opponent, len(ranges.subgame))
        return pair_for(player, resolver, opponent)

    names = {gadget.name for gadget in gadgets}
    batch = Batch(
        name=names.pop() if len(names) == 1 else gadgets[0].entry_name,
        order=(1 - player, player),
        sides=sides,
        payoff=structure.payoff_of(all_lanes.blueprint),
        num_lanes=len(all_lanes),
        num_games=entry.num_games,
        terms=terms,
    )
    return GadgetGames(prepared=prepared, gadgets=tuple(gadgets), lanes=all_lanes, entry=entry, batch=batch)


def _sides(structure: Bodies, entry: Entry, num_roots: int) -> tuple[Side, Side]:
    """Both players' sides; the resolving player has `num_roots` roots and an entry with one root per game."""
    player, other, bodies = structure.player, 1 - structure.player, structure.sides
    # Extra roots are attached to a game's root, independent of the free opponent's choices.
    link = np.concatenate([entry.link, entry.game[structure.extra_subgames]])
    link = pad_rows(link, bodies[other].body.num_roots, -1)
    layout = np.float64, structure.rounding, structure.platform
    with precision(np.float64):
        opponent = attach(bodies[other].body, bodies[other].root_of, entry.treeplex, link, *layout)
        resolver = bodies[player]
        if entry.treeplex.num_roots != structure.num_subgames:
            game = entry.game[structure.root_subgames(player)[:num_roots]]
            game = pad_rows(game, resolver.body.num_roots, -1)
            fixed = fixed_entry(entry.treeplex.num_roots)
            resolver = attach(resolver.body, resolver.root_of, fixed, game, *layout)
    return pair_for(player, resolver, opponent)
