"""Gadgets whose entry knows nothing of the way to the subgame: unsafe, resolving, max-margin, reach.

Sources: resolving, Burch, Johanson and Bowling (2014), §4; max-margin, Moravčík et al.
(2016); reach, Brown and Sandholm (2017), §5; priors and gadget game sequential equilibria,
Kubíček, Lisý and Sandholm (2026), §4–§7.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxgadget.gadgets.alternative import GIFT_RULES, GiftRule, with_gifts
from jaxgadget.gadgets.gadget import (
    BoundRule,
    Entry,
    Epsilon,
    Layout,
    Perturbed,
    check_epsilon,
    layout,
    register,
)
from jaxgadget.gadgets.prior import ArrayPrior, NoPrior, Prior, PriorRefusedError
from jaxgadget.gadgets.ranges import Ranges, inverse
from jaxgadget.games.game import IntArray
from jaxgadget.kernels.problem import Terms
from jaxgadget.kernels.regret import Bounds
from jaxgadget.tree.forest import Forest
from jaxgadget.tree.sequence import Rounding, build_treeplex
from jaxgadget.tree.trunk import Trunk


@register
@dataclasses.dataclass(frozen=True)
class Unsafe:
    """The opponent enters as its blueprint does; no guarantee."""

    prior: Prior = dataclasses.field(default_factory=NoPrior)
    epsilon: Epsilon = 0.0
    name: ClassVar[str] = "unsafe"

    def __post_init__(self) -> None:
        if not isinstance(self.prior, NoPrior):
            raise PriorRefusedError(
                f"prior={getattr(self.prior, 'name', self.prior)!r} for the unsafe gadget: it has no "
                "decision to perturb; expected 'none'"
            )
        check_epsilon(self.epsilon)
        object.__setattr__(self, "epsilon", 0.0)

    @property
    def bound(self) -> BoundRule:
        """See `Gadget`."""
        return None

    @property
    def needs(self) -> frozenset[str]:
        """See `Gadget`."""
        return frozenset()

    @property
    def settings(self) -> dict[str, str]:
        """See `Gadget`."""
        return {}

    def check(self, num_roots: int, num_lanes: int) -> None:
        """See `Gadget`; there are none."""

    def mistakes(self, ranges: Ranges) -> jax.Array:
        """See `Gadget`; there is no decision to get wrong."""
        return jnp.zeros_like(ranges.cbv)

    def alternatives(self, ranges: Ranges) -> jax.Array:
        """See `Gadget`; the opponent has no alternative."""
        return ranges.cbv

    @staticmethod
    def layout(forest: Forest, trunk: Trunk | None, player: int, rounding: Rounding) -> Layout:
        """See `Gadget`."""
        none = np.zeros(0, np.int64)
        treeplex, _ = build_treeplex(
            num_roots=forest.num_subgames,
            depth=none,
            num_actions=none,
            parent_infoset=none,
            parent_slot=none,
            infoset=none,
            rounding=rounding,
        )
        return layout(treeplex, forest.roots[1 - player].subgame, forest, player)

    @staticmethod
    def terms(ranges: Ranges, mistakes: jax.Array, epsilon: jax.Array, entry: Entry) -> Terms:
        """See `Gadget`."""
        return Terms(scale=ranges.opponent, constant=_nothing(ranges, entry))

    @staticmethod
    def live(ranges: Ranges, mistakes: jax.Array) -> jax.Array:
        """See `Gadget`; nobody gets there either if the opponent's blueprint does not."""
        return (ranges.per_subgame(ranges.opponent) > 0) & (ranges.per_subgame(ranges.mass) > 0)

    @staticmethod
    def rise(
        ranges: Ranges,
        mistakes: jax.Array,
        epsilon: jax.Array,
        entry: Entry,
        gap: jax.Array,
        below: jax.Array,
    ) -> jax.Array:
        """See `Gadget`."""
        return jnp.full_like(gap, jnp.nan)


@register
@dataclasses.dataclass(frozen=True)
class Resolving(Perturbed):
    """At every root infostate the opponent follows, or terminates for its alternative value."""

    name: ClassVar[str] = "resolving"

    @property
    def bound(self) -> BoundRule:
        """See `Gadget`."""
        return "sum" if self.proven else None

    def mistakes(self, ranges: Ranges) -> jax.Array:
        """See `Gadget`: the probability of following."""
        return self.prior.follow(ranges)

    @staticmethod
    def layout(forest: Forest, trunk: Trunk | None, player: int, rounding: Rounding) -> Layout:
        """See `Gadget`; action 0 is follow, 1 terminate."""
        subgame = forest.roots[1 - player].subgame
        count = len(subgame)
        treeplex, position = build_treeplex(
            num_roots=forest.num_subgames,
            depth=np.zeros(count, np.int64),
            num_actions=np.full(count, 2),
            parent_infoset=np.full(count, -1),
            parent_slot=subgame,
            infoset=np.arange(count),
            rounding=rounding,
        )
        return layout(treeplex, treeplex.first_sequence[position], forest, player)

    @staticmethod
    def terms(ranges: Ranges, mistakes: jax.Array, epsilon: jax.Array, entry: Entry) -> Terms:
        """See `Gadget`."""
        nothing, link = _nothing(ranges, entry), entry.link
        floor = nothing.at[link].set(epsilon[None, :] * mistakes, mode="drop")
        floor = floor.at[entry.second].set(epsilon[None, :] * (1 - mistakes), mode="drop")
        return Terms(
            scale=jnp.ones_like(ranges.cbv),
            constant=nothing.at[entry.second].set(-ranges.cbv, mode="drop"),
            entry=Bounds(floor=floor[entry.num_games :]),
        )

    @staticmethod
    def rise(
        ranges: Ranges,
        mistakes: jax.Array,
        epsilon: jax.Array,
        entry: Entry,
        gap: jax.Array,
        below: jax.Array,
    ) -> jax.Array:
        """See `Gadget` (design §3)."""
        extra = ranges.per_subgame(mistakes * (below - ranges.cbv))
        return jnp.maximum(gap + epsilon[None, :] * extra, 0) / (1 - epsilon)[None, :]


@register
@dataclasses.dataclass(frozen=True)
class MaxMargin(Perturbed):
    """The opponent picks the root infostate of a subgame where the improvement is smallest.

    Margins are `(V(s) − V̄(s)) / N(s)`; roots with `N(s) = 0` cannot be picked.
    """

    name: ClassVar[str] = "max-margin"

    @property
    def bound(self) -> BoundRule:
        """See `Gadget`."""
        return "max" if self.proven else None

    def mistakes(self, ranges: Ranges) -> jax.Array:
        """See `Gadget`: weights of the roots.

        Raises:
          ValueError: if an `ArrayPrior` gives all roots of a subgame weight 0.
        """
        weight = self.prior.weight(ranges)
        if self.epsilon != 0 and isinstance(self.prior, ArrayPrior):
            able = np.asarray(ranges.per_subgame(jnp.where(ranges.mass > 0, 1.0, 0.0))) > 0
            empty = able & ~(np.asarray(ranges.per_subgame(jnp.where(ranges.mass > 0, weight, 0))) > 0)
            if empty.any():
                raise ValueError(
                    f"ArrayPrior: all roots of subgame {int(np.argwhere(empty)[0][0])} that can be picked "
                    "have weight 0; expected a positive weight for one root with N(s) > 0 in each subgame"
                )
        return weight

    @staticmethod
    def layout(forest: Forest, trunk: Trunk | None, player: int, rounding: Rounding) -> Layout:
        """See `Gadget`; an action for every root infostate of the subgame, in order."""
        subgame, count = forest.roots[1 - player].subgame, forest.num_subgames
        size, slot = pick_slots(subgame, count)
        treeplex, position = build_treeplex(
            num_roots=count,
            depth=np.zeros(count, np.int64),
            num_actions=size,
            parent_infoset=np.full(count, -1),
            parent_slot=np.arange(count),
            infoset=np.arange(count),
            rounding=rounding,
        )
        return layout(treeplex, treeplex.sequence(position[subgame], slot), forest, player)

    @staticmethod
    def terms(ranges: Ranges, mistakes: jax.Array, epsilon: jax.Array, entry: Entry) -> Terms:
        """See `Gadget`."""
        nothing, link, games = _nothing(ranges, entry), entry.link, entry.num_games
        scale = inverse(ranges.mass)
        legal = jnp.zeros(nothing.shape, jnp.bool_).at[link].set(ranges.mass > 0, mode="drop")
        floor = nothing.at[link].set(epsilon[None, :] * _choice(ranges, mistakes), mode="drop")
        return Terms(
            scale=scale,
            constant=nothing.at[link].set(scale * ranges.cbv, mode="drop"),
            entry=Bounds(legal=legal[games:], floor=floor[games:]),
        )

    @staticmethod
    def rise(
        ranges: Ranges,
        mistakes: jax.Array,
        epsilon: jax.Array,
        entry: Entry,
        gap: jax.Array,
        below: jax.Array,
    ) -> jax.Array:
        """See `Gadget` (design §3)."""
        margin = (below - ranges.cbv) * inverse(ranges.mass)
        extra = ranges.per_subgame(_choice(ranges, mistakes) * margin)
        return jnp.maximum(gap + epsilon[None, :] * extra, 0) / (1 - epsilon)[None, :]


@dataclasses.dataclass(frozen=True)
class _Reach(Perturbed):
    """What reach gadgets add: gifts on top of the alternative values.

    Attributes:
      gifts: `lower-bound`, which is safe, or `estimate`.
      scaled: give the whole gift to a single subgame, scaled up by what chance takes away.
    """

    gifts: GiftRule = "lower-bound"
    scaled: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scaled not in (True, False):
            raise ValueError(f"scaled={self.scaled!r}: expected True or False")
        if self.gifts not in GIFT_RULES:
            raise ValueError(f"gifts={self.gifts!r}: expected {' or '.join(map(repr, GIFT_RULES))}")

    @property
    def needs(self) -> frozenset[str]:
        """See `Gadget`."""
        return super().needs | {"trunk"}

    @property
    def settings(self) -> dict[str, str]:
        """See `Gadget`."""
        return super().settings | {"gifts": f"{self.gifts}, scaled" if self.scaled else self.gifts}

    @property
    def proven(self) -> bool:
        """See `Perturbed`; for gifts as a lower bound, unscaled."""
        own = type(self).alternatives is not _Reach.alternatives
        return self.alternative.exact and self.gifts == "lower-bound" and not self.scaled and not own

    def alternatives(self, ranges: Ranges) -> jax.Array:
        """See `Gadget`: `V̄ − N·Σg`."""
        return with_gifts(ranges, self.alternative.values(ranges), rule=self.gifts, scaled=self.scaled)


@register
@dataclasses.dataclass(frozen=True)
class ReachResolving(_Reach, Resolving):
    """Resolving, where terminating also pays what the opponent gave away on its way."""

    name: ClassVar[str] = "reach-resolving"


@register
@dataclasses.dataclass(frozen=True)
class ReachMaxMargin(_Reach, MaxMargin):
    """Max-margin, where margins include what the opponent gave away on its way."""

    name: ClassVar[str] = "reach-max-margin"


def pick_slots(subgame: IntArray, count: int) -> tuple[IntArray, IntArray]:
    """How many roots each of `count` subgames has, and `[R]` which of its subgame's each root is."""
    size = np.bincount(subgame, minlength=count)
    order = np.argsort(subgame, kind="stable")
    slot = np.empty(len(subgame), np.int64)
    slot[order] = np.arange(len(subgame)) - np.repeat(np.cumsum(size) - size, size)
    return size, slot


def _nothing(ranges: Ranges, entry: Entry) -> jax.Array:
    """`[E, L]` zeros."""
    return jnp.zeros((entry.num_sequences, ranges.cbv.shape[1]), ranges.cbv.dtype)


def _choice(ranges: Ranges, weight: jax.Array) -> jax.Array:
    """`[R, L]` weights as a distribution over the roots of a subgame that can be picked."""
    weight = jnp.where(ranges.mass > 0, weight, 0)
    return weight * inverse(ranges.spread(ranges.per_subgame(weight)))
