"""What the opponent gets if it stays out of a subgame: alternative values, and gifts on top.

A safe gadget promises the opponent no more than its counterfactual best-response value against
the blueprint. *Safe and nested subgame solving* (Brown and Sandholm 2017) relaxes that: estimates
of these values (§6), and gifts, what the opponent gave away on its way to the subgame (§5).
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Literal, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from jaxgadget.gadgets.ranges import Ranges, inverse
from jaxgadget.kernels.treeplex import expand_infosets, sweep_up

GiftRule = Literal["lower-bound", "estimate"]
GIFT_RULES: tuple[GiftRule, ...] = ("lower-bound", "estimate")


class Alternative(Protocol):
    """Values `V̄(s)` of the opponent's root infostates, in the resolving player's utility."""

    @property
    def name(self) -> str:
        """What tables call it."""
        ...

    @property
    def exact(self) -> bool:
        """Whether these are best-response values against the blueprint, on which bounds rest."""
        ...

    @property
    def needs(self) -> frozenset[str]:
        """Which optional parts of `Ranges` it reads."""
        ...

    def values(self, ranges: Ranges) -> jax.Array:
        """`[R, L]`, weighted by the resolving player's and chance's reach."""
        ...


@dataclasses.dataclass(frozen=True)
class BestResponseValues:
    """The opponent's counterfactual best response to the blueprint: safe."""

    name: str = dataclasses.field(default="best-response", init=False, repr=False)
    exact: bool = dataclasses.field(default=True, init=False, repr=False)
    needs: frozenset[str] = dataclasses.field(default=frozenset(), init=False, repr=False)

    def values(self, ranges: Ranges) -> jax.Array:
        """See `Alternative`."""
        return ranges.cbv


@dataclasses.dataclass(frozen=True)
class BlueprintValues:
    """Both players follow their blueprints: an estimate (Brown and Sandholm 2017, §6).

    If the blueprint comes from CFR, its opponent's half is close to a best response within
    whatever abstraction it was solved in, and these are the paper's estimates.
    """

    name: str = dataclasses.field(default="blueprint", init=False, repr=False)
    exact: bool = dataclasses.field(default=False, init=False, repr=False)
    needs: frozenset[str] = dataclasses.field(default=frozenset({"played"}), init=False, repr=False)

    def values(self, ranges: Ranges) -> jax.Array:
        """See `Alternative`."""
        if ranges.played is None:
            raise ValueError("ranges have no 'played' values: list 'played' in the gadget's `needs`")
        return ranges.played


@dataclasses.dataclass(frozen=True, eq=False)
class ArrayValues:
    """A user's own values, such as a network's estimates.

    CFR-D's averages (`Decomposition.values`) are in the opponent's own utility: give minus those.

    Attributes:
      array: `[R]` or `[R, L]`, one number for each of the opponent's root infostates in the order
        of `Forest.roots`: its value in the resolving player's utility, weighted by the resolving
        player's and chance's reach of the root (not divided by it).
      name: what tables call it.
    """

    array: npt.NDArray[np.floating]
    name: str = "array"
    exact: bool = dataclasses.field(default=False, init=False, repr=False)
    needs: frozenset[str] = dataclasses.field(default=frozenset(), init=False, repr=False)

    def __post_init__(self) -> None:
        array = np.asarray(self.array)
        if array.ndim not in (1, 2) or array.dtype.kind not in "fiu" or not np.isfinite(array).all():
            raise ValueError(
                f"ArrayValues of shape {array.shape} and type {array.dtype}: expected [roots] or "
                "[roots, lanes] of finite numbers"
            )

    def values(self, ranges: Ranges) -> jax.Array:
        """See `Alternative`."""
        return on_roots(np.asarray(self.array), ranges)


def on_roots(array: npt.NDArray[np.floating], ranges: Ranges) -> jax.Array:
    """A user's `[R]` or `[R, L]` numbers on the device, 0 for padding."""
    rows, lanes = ranges.cbv.shape
    array = array[:, None] if array.ndim == 1 else array
    padded = np.zeros((rows, lanes))
    padded[: len(array)] = array
    return jax.device_put(padded.astype(ranges.cbv.dtype))


@functools.partial(jax.jit, static_argnames=("rule", "scaled"))
def with_gifts(ranges: Ranges, values: jax.Array, *, rule: GiftRule, scaled: bool) -> jax.Array:
    """`[R, L]` `V̄ − N·Σg`, what the opponent is promised if it may keep what it gave away."""
    return values - ranges.mass * gifts(ranges, values, rule, scaled)


def gifts(ranges: Ranges, values: jax.Array, rule: GiftRule, scaled: bool) -> jax.Array:
    """`[R, L]` sum of the gifts on the way to each root, normalised (Brown and Sandholm 2017, §5).

    At an infoset I' of the opponent above the root, where it took a', it gave away
    `max_a CBV(I', a) − CBV(I', a')`, values divided by `N(I')`. The lower bound takes a only from
    the actions that end the game at once, whose values no other subgame's solution can change, and
    a' itself; the estimate takes all. Given in full in every subgame, gifts are safe: what chance
    splits, they split with it. If a single subgame is solved, a gift may be scaled up by the
    inverse of that subgame's share of what follows a'.

    Args:
      ranges: what the blueprint brings.
      values: `[R, L]` alternative values of the roots.
      rule: `lower-bound` or `estimate`.
      scaled: whether to scale up.

    Raises:
      ValueError: if scaled gifts are asked for several subgames.
    """
    if scaled and ranges.num_subgames > 1:
        raise ValueError(
            f"scaled=True with {ranges.num_subgames} subgames: scaled gifts are safe only if a single "
            "subgame is solved; give an infostate of it, or scaled=False"
        )
    trunk = ranges.above
    q, v, _ = trunk.best(values)
    if rule == "estimate":
        best = expand_infosets(trunk.treeplex, v)
    else:
        ends = jnp.where(trunk.terminates, q, -jnp.inf)
        best = jnp.maximum(expand_infosets(trunk.treeplex, _largest_action(ranges, ends)), q)
    share = expand_infosets(trunk.treeplex, inverse(trunk.mass))
    gift = (best - q) * share
    if scaled:
        reached, _, _ = sweep_up(trunk.treeplex, trunk.linked(ranges.mass), lambda level, x: level.largest(x))
        gift = gift * inverse(reached * share)
    return trunk.ancestors(gift)


def _largest_action(ranges: Ranges, q: jax.Array) -> jax.Array:
    """`[I, L]` the largest of each infoset's actions."""
    parts = [level.largest(q[level.actions]) for level in ranges.above.treeplex.levels()]
    return jnp.concatenate(parts) if parts else q
