"""What a gadget is: the opponent's way into a subgame, as data.

A gadget is an entry treeplex of the opponent above its root infostates, with a constant
gradient on its sequences, a scale for every root and floors on its actions. Values and
reaches are those of the game: `V(s)` below the opponent's root infostate `s` is weighted
by the resolving player's and chance's reach, not the opponent's; `V̄(s)` is the same
against the blueprint's best response; `N(s)` is that weight itself.

A new gadget is one class that keeps the `Gadget` protocol; `register` gives it a name on the
command line. Those that exist are in `entries.py` and `continuation.py`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxgadget.gadgets.alternative import Alternative, ArrayValues, BestResponseValues
from jaxgadget.gadgets.prior import ArrayPrior, BlueprintPrior, NoPrior, Prior
from jaxgadget.gadgets.ranges import Ranges
from jaxgadget.games.game import IntArray
from jaxgadget.kernels.problem import Side, Terms
from jaxgadget.tree import sequence
from jaxgadget.tree.forest import Forest
from jaxgadget.tree.sequence import Rounding
from jaxgadget.tree.trunk import Trunk

DEFAULT_EPSILON = 1e-3
"""What the paper's experiments use (Kubíček et al. 2026, §8)."""

AUTO = "auto"
"""ε as small as it must be; for linear programs only (Kubíček et al. 2026, §7.1)."""

Epsilon = float | Literal["auto"]


class Layout(NamedTuple):
    """Structure of an entry, on the host.

    Attributes:
      treeplex: its decisions; each of its roots is a game of its own.
      link: `[R]` the sequence above each of the opponent's roots, -1 for padding.
      game: `[S]` the game that each subgame belongs to, padding not included.
      source: `[E]` for copies of the opponent's trunk: the trunk's sequence, -1 for none.
      infoset: `[I]` the same for infosets.
    """

    treeplex: sequence.Treeplex
    link: IntArray
    game: IntArray
    source: IntArray
    infoset: IntArray

    @property
    def num_games(self) -> int:
        """Games that are solved by themselves, padding not included."""
        return int(self.game.max(initial=-1)) + 1


def layout(treeplex: sequence.Treeplex, link: IntArray, forest: Forest, player: int) -> Layout:
    """An entry in which every subgame is a game, and nothing copies the trunk.

    Args:
      treeplex: the entry's decisions.
      link: `[R]` the sequence above each of the opponent's roots, padding not included.
      forest: the subgames.
      player: who re-solves.
    """
    padding = forest.form.treeplex[1 - player].num_roots - len(link)
    return Layout(
        treeplex=treeplex,
        link=np.pad(link, (0, padding), constant_values=-1),
        game=np.arange(forest.num_subgames),
        source=np.zeros(0, np.int64),
        infoset=np.zeros(0, np.int64),
    )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """An entry on the device.

    Attributes:
      side: the opponent's entry and body.
      link: `[R]` entry sequence above each root, `side.entry.num_sequences` for padding.
      source: `[E]` the trunk's sequence that each one copies; empty where nothing is copied.
      infoset: `[I]` the trunk's infoset that each one copies, the trunk's number of them for none.
      parent: `[I]` the entry's sequence above each of its infosets.
    """

    side: Side
    link: jax.Array
    source: jax.Array
    infoset: jax.Array
    parent: jax.Array

    @property
    def num_sequences(self) -> int:
        """E, of the entry."""
        return self.side.entry.num_sequences

    @property
    def second(self) -> jax.Array:
        """`[R]` the second action where `link` is the first of two; beyond the end for padding."""
        return self.link + self.side.entry.num_infosets

    @property
    def num_games(self) -> int:
        """Roots of the entry, padding included."""
        return self.side.entry.num_roots


BoundRule = Literal["sum", "max"] | None
"""How the losses of all games bound the rise of exploitability; None: no bound is known."""


class Gadget(Protocol):
    """The opponent's way in.

    A kind is a frozen dataclass whose first two arguments are a prior and an ε (`Perturbed` gives it
    these and more); `register` checks that, and puts it on the command line if the module is
    imported in `kinds.py`. An instance has a prior, an ε and alternative values. What a kind
    computes, it computes for many instances at once: all these are arrays with a lane for every
    instance and blueprint, so that another prior or ε compiles nothing.
    """

    name: ClassVar[str]
    """The command line's spelling."""

    @property
    def bound(self) -> BoundRule:
        """How its certificate bounds exploitability."""
        ...

    @property
    def prior(self) -> Prior:
        """Where the opponent's mistakes lead."""
        ...

    @property
    def epsilon(self) -> Epsilon:
        """How likely they are, in [0, 1), or `auto`."""
        ...

    @property
    def needs(self) -> frozenset[str]:
        """Which optional parts of `Ranges` it reads: `trunk`, `played`."""
        ...

    @property
    def settings(self) -> dict[str, str]:
        """What tables say of it besides prior and ε."""
        ...

    def check(self, num_roots: int, num_lanes: int) -> None:
        """ValueError unless the user's arrays in it fit the opponent's roots and the blueprints."""
        ...

    def mistakes(self, ranges: Ranges) -> jax.Array:
        """`[…, L]` the prior in the form that `terms` and `rise` take."""
        ...

    def alternatives(self, ranges: Ranges) -> jax.Array:
        """`[R, L]` what stands for `V̄(s)`: `terms` and `rise` see it as `ranges.cbv`."""
        ...

    @staticmethod
    def layout(forest: Forest, trunk: Trunk | None, player: int, rounding: Rounding) -> Layout:
        """Builds the entry.

        Args:
          forest: the subgames.
          trunk: what lies above them, if the gadget needs it.
          player: who re-solves.
          rounding: how sizes are rounded up.
        """
        ...

    @staticmethod
    def terms(ranges: Ranges, mistakes: jax.Array, epsilon: jax.Array, entry: Entry) -> Terms:
        """The opponent's numbers.

        Args:
          ranges: what the blueprint brings.
          mistakes: `[…, L]` the prior.
          epsilon: `[L]`.
          entry: the entry.
        """
        ...

    @staticmethod
    def live(ranges: Ranges, mistakes: jax.Array) -> jax.Array:
        """`[S, L]` whether there is anything to solve in a subgame; elsewhere the blueprint stays."""
        ...

    @staticmethod
    def rise(
        ranges: Ranges,
        mistakes: jax.Array,
        epsilon: jax.Array,
        entry: Entry,
        gap: jax.Array,
        below: jax.Array,
    ) -> jax.Array:
        """`[games, L]` the most that each game's solution may add to exploitability.

        Args:
          ranges: what the blueprint brings.
          mistakes: `[…, L]` the prior.
          epsilon: `[L]`.
          entry: the entry.
          gap: `[games, L]` NashConv of the gadget games.
          below: `[R, L]` `V(s)` of the refined strategy, in the resolving player's utility.
        """
        ...


GADGETS: dict[str, type[Any]] = {}
"""The gadgets by the command line's names."""

Kind = TypeVar("Kind", bound=type[Any])


def register(kind: Kind) -> Kind:
    """Gives a kind of gadget, a class decorator's argument, its place in `GADGETS`."""
    if _first_fields(kind) != ["prior", "epsilon"]:
        raise ValueError(
            f"gadget {kind!r}: expected a dataclass whose first two fields are prior and epsilon"
        )
    if kind.name in GADGETS:
        raise ValueError(f"gadget name {kind.name!r} is taken by {GADGETS[kind.name]!r}; choose another")
    GADGETS[kind.name] = kind
    return kind


def _first_fields(kind: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)][:2] if dataclasses.is_dataclass(kind) else []


def check_epsilon(epsilon: object) -> None:
    """ValueError unless a number in [0, 1) or `auto`."""
    if isinstance(epsilon, str) and epsilon == AUTO:
        return
    number = float(epsilon) if isinstance(epsilon, float | int | np.floating | np.integer) else np.nan
    if isinstance(epsilon, bool) or not 0 <= number < 1:
        raise ValueError(
            f"epsilon={epsilon!r}: expected a number in [0, 1), for example {DEFAULT_EPSILON}, or 'auto'"
        )


@dataclasses.dataclass(frozen=True)
class Perturbed:
    """What gadgets with a prior share.

    Attributes:
      prior: where the opponent's mistakes lead.
      epsilon: how likely they are, in [0, 1); 0 without a prior; `auto` for linear programs.
      alternative: what the opponent is promised outside the subgame.
    """

    prior: Prior = dataclasses.field(default_factory=BlueprintPrior)
    epsilon: Epsilon = DEFAULT_EPSILON
    alternative: Alternative = dataclasses.field(default_factory=BestResponseValues)

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if isinstance(self.prior, type) or not hasattr(self.prior, "follow"):
            raise ValueError(f"prior={self.prior!r} is no prior; expected NoPrior(), UniformPrior(), …")
        if isinstance(self.alternative, type) or not hasattr(self.alternative, "exact"):
            raise ValueError(
                f"alternative={self.alternative!r}: expected BestResponseValues(), BlueprintValues() or "
                "ArrayValues(array)"
            )
        if isinstance(self.prior, NoPrior):
            object.__setattr__(self, "epsilon", 0.0)

    @property
    def needs(self) -> frozenset[str]:
        """See `Gadget`."""
        return self.alternative.needs

    @property
    def settings(self) -> dict[str, str]:
        """See `Gadget`."""
        return {"alternative": self.alternative.name}

    @property
    def proven(self) -> bool:
        """Whether the certificate's bound is known to hold: not for other values than best responses'."""
        return self.alternative.exact and type(self).alternatives is Perturbed.alternatives

    def check(self, num_roots: int, num_lanes: int) -> None:
        """See `Gadget`."""
        self.check_prior(num_roots, num_lanes)
        if isinstance(self.alternative, ArrayValues):
            _check_rows("ArrayValues", np.shape(self.alternative.array), num_roots, num_lanes)

    def check_prior(self, num_roots: int, num_lanes: int) -> None:
        """The same for the prior alone, if it has a row for each of the opponent's roots."""
        if isinstance(self.prior, ArrayPrior):
            _check_rows("ArrayPrior values", np.shape(self.prior.values), num_roots, num_lanes)

    def alternatives(self, ranges: Ranges) -> jax.Array:
        """See `Gadget`."""
        return self.alternative.values(ranges)

    @staticmethod
    def live(ranges: Ranges, mistakes: jax.Array) -> jax.Array:
        """See `Gadget`: wherever the resolving player's blueprint goes."""
        return ranges.per_subgame(ranges.mass) > 0

    @staticmethod
    def rise(
        ranges: Ranges,
        mistakes: jax.Array,
        epsilon: jax.Array,
        entry: Entry,
        gap: jax.Array,
        below: jax.Array,
    ) -> jax.Array:
        """See `Gadget`: unknown, for a gadget without a bound."""
        return jnp.full_like(gap, jnp.nan)


def _check_rows(what: str, shape: tuple[int, ...], num_roots: int, num_lanes: int) -> None:
    if shape[0] != num_roots or (len(shape) == 2 and shape[1] not in (1, num_lanes)):
        raise ValueError(
            f"{what} of shape {shape}: expected [{num_roots}] or [{num_roots}, {num_lanes}], a row for "
            "each of the opponent's root infostates (`forest.roots`), a lane for each blueprint"
        )
