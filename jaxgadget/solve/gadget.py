"""Gadgets: the opponent's way into a subgame, as data.

A gadget is an entry treeplex of the opponent above its root infostates, with a constant
gradient on its sequences, a scale for every root and floors on its actions. Values and
reaches are those of the game: `V(s)` below the opponent's root infostate `s` is weighted
by the resolving player's and chance's reach, not the opponent's; `V̄(s)` is the same
against the blueprint's best response; `N(s)` is that weight itself.

Sources: resolving, Burch, Johanson and Bowling (2014), §4; max-margin, Moravčík et al.
(2016); priors and gadget game sequential equilibria, Kubíček, Lisý and Sandholm (2026),
§4–§7. A new gadget is one class that keeps the `Gadget` protocol.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from jaxgadget.games.game import IntArray
from jaxgadget.solve.prior import BlueprintPrior, NoPrior, Prior, Ranges
from jaxgadget.solve.problem import Terms
from jaxgadget.solve.regret import Bounds
from jaxgadget.tree import sequence
from jaxgadget.tree.sequence import Rounding, build_treeplex

DEFAULT_EPSILON = 1e-3
"""What the paper's experiments use (Kubíček et al. 2026, §8)."""


class Layout(NamedTuple):
    """Structure of an entry: its decisions, and `[R]` the sequence above each root (-1 for padding)."""

    treeplex: sequence.Treeplex
    link: IntArray


BoundRule = Literal["sum", "max"] | None
"""How the losses of all subgames bound the rise of exploitability; None: no bound is known."""


class Gadget(Protocol):
    """The opponent's way in.

    An instance is a kind of gadget with a prior and an ε. What a kind computes, it computes
    for many instances at once: priors and ε are arrays with a lane for every instance and
    blueprint, so that another prior or ε compiles nothing.
    """

    name: ClassVar[str]
    """The command line's spelling."""
    bound: ClassVar[BoundRule]
    """How its certificate bounds exploitability."""

    @property
    def prior(self) -> Prior:
        """Where the opponent's mistakes lead."""
        ...

    @property
    def epsilon(self) -> float:
        """How likely they are, in [0, 1)."""
        ...

    def mistakes(self, ranges: Ranges) -> jax.Array:
        """`[R, L]` the prior in the form that `terms` and `tremble` take."""
        ...

    @staticmethod
    def layout(subgame: IntArray, num_subgames: int, num_roots: int, rounding: Rounding) -> Layout:
        """Builds the entry.

        Args:
          subgame: `[R]` the subgame of every root, padding not included.
          num_subgames: roots of the entry, padding not included.
          num_roots: roots of the body, padding included.
          rounding: how sizes are rounded up.
        """
        ...

    @staticmethod
    def terms(
        ranges: Ranges, mistakes: jax.Array, epsilon: jax.Array, link: jax.Array, num_sequences: int
    ) -> Terms:
        """The opponent's numbers.

        Args:
          ranges: what the blueprint brings.
          mistakes: `[R, L]` the prior.
          epsilon: `[L]`.
          link: `[R]` entry sequence above each root; `num_sequences` or more for padding.
          num_sequences: of the entry.
        """
        ...

    @staticmethod
    def live(ranges: Ranges) -> jax.Array:
        """`[S, L]` whether there is anything to solve; elsewhere the blueprint stays."""
        ...

    @staticmethod
    def tremble(ranges: Ranges, mistakes: jax.Array, epsilon: jax.Array, value: jax.Array) -> jax.Array:
        """`[S, L]` how much of the perturbed gadget's value comes from the floors.

        Args:
          ranges: what the blueprint brings.
          mistakes: `[R, L]` the prior.
          epsilon: `[L]`.
          value: `[R, L]` `V(s)` of the refined strategy, in the resolving player's utility.
        """
        ...


def _check_epsilon(epsilon: object) -> None:
    if (
        isinstance(epsilon, bool)
        or not isinstance(epsilon, float | int | np.floating)
        or not 0 <= epsilon < 1
    ):
        raise ValueError(f"epsilon={epsilon}: expected a number in [0, 1), for example {DEFAULT_EPSILON}")


@dataclasses.dataclass(frozen=True)
class _Perturbed:
    """What gadgets with a prior share.

    Attributes:
      prior: where the opponent's mistakes lead.
      epsilon: how likely they are, in [0, 1); 0 without a prior.
    """

    prior: Prior = dataclasses.field(default_factory=BlueprintPrior)
    epsilon: float = DEFAULT_EPSILON

    def __post_init__(self) -> None:
        _check_epsilon(self.epsilon)
        if isinstance(self.prior, type) or not hasattr(self.prior, "follow"):
            raise ValueError(f"prior={self.prior!r} is no prior; expected NoPrior(), UniformPrior(), …")
        if isinstance(self.prior, NoPrior):
            object.__setattr__(self, "epsilon", 0.0)


@dataclasses.dataclass(frozen=True)
class Unsafe:
    """The opponent enters as its blueprint does; no guarantee."""

    prior: Prior = dataclasses.field(default_factory=NoPrior)
    epsilon: float = 0.0
    name: ClassVar[str] = "unsafe"
    bound: ClassVar[BoundRule] = None

    def __post_init__(self) -> None:
        if not isinstance(self.prior, NoPrior):
            raise ValueError(
                f"prior={getattr(self.prior, 'name', self.prior)!r} for the unsafe gadget: it has no "
                "decision to perturb; expected 'none'"
            )
        _check_epsilon(self.epsilon)
        object.__setattr__(self, "epsilon", 0.0)

    def mistakes(self, ranges: Ranges) -> jax.Array:
        """See `Gadget`; there is no decision to get wrong."""
        return jnp.zeros_like(ranges.cbv)

    @staticmethod
    def layout(subgame: IntArray, num_subgames: int, num_roots: int, rounding: Rounding) -> Layout:
        """See `Gadget`."""
        none = np.zeros(0, np.int64)
        return Layout(
            build_treeplex(
                num_roots=num_subgames,
                depth=none,
                num_actions=none,
                parent_infoset=none,
                parent_slot=none,
                infoset=none,
                rounding=rounding,
            )[0],
            _pad_link(subgame, num_roots),
        )

    @staticmethod
    def terms(
        ranges: Ranges, mistakes: jax.Array, epsilon: jax.Array, link: jax.Array, num_sequences: int
    ) -> Terms:
        """See `Gadget`."""
        constant = jnp.zeros((num_sequences, ranges.cbv.shape[1]), ranges.cbv.dtype)
        return Terms(scale=ranges.opponent, constant=constant)

    @staticmethod
    def live(ranges: Ranges) -> jax.Array:
        """See `Gadget`."""
        return (ranges.per_subgame(ranges.opponent) > 0) & (ranges.per_subgame(ranges.mass) > 0)

    @staticmethod
    def tremble(ranges: Ranges, mistakes: jax.Array, epsilon: jax.Array, value: jax.Array) -> jax.Array:
        """See `Gadget`."""
        return jnp.zeros((ranges.num_subgames, value.shape[1]), value.dtype)


@dataclasses.dataclass(frozen=True)
class Resolving(_Perturbed):
    """At every root infostate the opponent follows, or terminates for its counterfactual value."""

    name: ClassVar[str] = "resolving"
    bound: ClassVar[BoundRule] = "sum"

    def mistakes(self, ranges: Ranges) -> jax.Array:
        """See `Gadget`: the probability of following."""
        return self.prior.follow(ranges)

    @staticmethod
    def layout(subgame: IntArray, num_subgames: int, num_roots: int, rounding: Rounding) -> Layout:
        """See `Gadget`; action 0 is follow, 1 terminate."""
        count = len(subgame)
        treeplex, follow = build_treeplex(
            num_roots=num_subgames,
            depth=np.zeros(count, np.int64),
            num_actions=np.full(count, 2),
            parent_infoset=np.full(count, -1),
            parent_slot=subgame,
            infoset=np.arange(count),
            rounding=rounding,
        )
        return Layout(treeplex, _pad_link(follow, num_roots))

    @staticmethod
    def terms(
        ranges: Ranges, mistakes: jax.Array, epsilon: jax.Array, link: jax.Array, num_sequences: int
    ) -> Terms:
        """See `Gadget`."""
        nothing = jnp.zeros((num_sequences, ranges.cbv.shape[1]), ranges.cbv.dtype)
        floor = nothing.at[link].set(epsilon[None, :] * mistakes, mode="drop")
        floor = floor.at[link + 1].set(epsilon[None, :] * (1 - mistakes), mode="drop")
        return Terms(
            scale=jnp.ones_like(ranges.cbv),
            constant=nothing.at[link + 1].set(-ranges.cbv, mode="drop"),
            entry=Bounds(floor=floor[ranges.num_subgames :]),
        )

    @staticmethod
    def live(ranges: Ranges) -> jax.Array:
        """See `Gadget`."""
        return ranges.per_subgame(ranges.mass) > 0

    @staticmethod
    def tremble(ranges: Ranges, mistakes: jax.Array, epsilon: jax.Array, value: jax.Array) -> jax.Array:
        """See `Gadget`."""
        return epsilon[None, :] * ranges.per_subgame(mistakes * (value - ranges.cbv))


@dataclasses.dataclass(frozen=True)
class MaxMargin(_Perturbed):
    """The opponent picks the root infostate of a subgame where the improvement is smallest.

    Margins are `(V(s) − V̄(s)) / N(s)`; roots with `N(s) = 0` cannot be picked.
    """

    name: ClassVar[str] = "max-margin"
    bound: ClassVar[BoundRule] = "max"

    def mistakes(self, ranges: Ranges) -> jax.Array:
        """See `Gadget`: weights of the roots."""
        return self.prior.weight(ranges)

    @staticmethod
    def layout(subgame: IntArray, num_subgames: int, num_roots: int, rounding: Rounding) -> Layout:
        """See `Gadget`; an action for every root infostate of the subgame, in order."""
        size = np.bincount(subgame, minlength=num_subgames)
        order = np.argsort(subgame, kind="stable")
        slot = np.empty(len(subgame), np.int64)
        slot[order] = np.arange(len(subgame)) - np.repeat(np.cumsum(size) - size, size)
        treeplex, first = build_treeplex(
            num_roots=num_subgames,
            depth=np.zeros(num_subgames, np.int64),
            num_actions=size,
            parent_infoset=np.full(num_subgames, -1),
            parent_slot=np.arange(num_subgames),
            infoset=np.arange(num_subgames),
            rounding=rounding,
        )
        return Layout(treeplex, _pad_link(first[subgame] + slot, num_roots))

    @staticmethod
    def terms(
        ranges: Ranges, mistakes: jax.Array, epsilon: jax.Array, link: jax.Array, num_sequences: int
    ) -> Terms:
        """See `Gadget`."""
        nothing = jnp.zeros((num_sequences, ranges.cbv.shape[1]), ranges.cbv.dtype)
        scale = _inverse(ranges.mass)
        legal = jnp.zeros(nothing.shape, jnp.bool_).at[link].set(ranges.mass > 0, mode="drop")
        floor = nothing.at[link].set(epsilon[None, :] * _choice(ranges, mistakes), mode="drop")
        return Terms(
            scale=scale,
            constant=nothing.at[link].set(scale * ranges.cbv, mode="drop"),
            entry=Bounds(legal=legal[ranges.num_subgames :], floor=floor[ranges.num_subgames :]),
        )

    @staticmethod
    def live(ranges: Ranges) -> jax.Array:
        """See `Gadget`."""
        return ranges.per_subgame(ranges.mass) > 0

    @staticmethod
    def tremble(ranges: Ranges, mistakes: jax.Array, epsilon: jax.Array, value: jax.Array) -> jax.Array:
        """See `Gadget`."""
        margin = (value - ranges.cbv) * _inverse(ranges.mass)
        return epsilon[None, :] * ranges.per_subgame(_choice(ranges, mistakes) * margin)


GADGETS: dict[str, type[Unsafe] | type[Resolving] | type[MaxMargin]] = {
    gadget.name: gadget for gadget in (Unsafe, Resolving, MaxMargin)
}
"""The gadgets by the command line's names."""


def _choice(ranges: Ranges, weight: jax.Array) -> jax.Array:
    """`[R, L]` weights as a distribution over the roots of a subgame that can be picked."""
    weight = jnp.where(ranges.mass > 0, weight, 0)
    return weight * _inverse(ranges.spread(ranges.per_subgame(weight)))


def _inverse(x: jax.Array) -> jax.Array:
    return jnp.where(x > 0, 1 / jnp.where(x > 0, x, 1), 0)


def _pad_link(link: IntArray, num_roots: int) -> IntArray:
    return np.pad(link, (0, num_roots - len(link)), constant_values=-1)
