"""A forest on the device, and the ranges of blueprints in it."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from scipy.sparse import csr_array

from jaxgadget.core.host import HostTreeplex, Rounding, exact_size
from jaxgadget.core.payoff import Payoff, build_payoff, multiply
from jaxgadget.core.problem import (
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
from jaxgadget.core.rows import pad_rows
from jaxgadget.core.treeplex import to_device
from jaxgadget.gadgets.ranges import Ranges, TrunkRanges
from jaxgadget.tree.forest import Forest, opponent_roots
from jaxgadget.tree.trunk import Trunk
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.compilation import compiled
from jaxgadget.util.players import sign_of
from jaxgadget.util.precision import precision


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Bodies:
    """Subgames in the form that all their gadgets share: on the device, in float64.

    Attributes:
      player: the resolving player.
      sides: both players' bodies with fixed entries, which have one root per subgame.
      payoff: payoff operator between the bodies.
      platform: platform of the devices that will solve; by default that of JAX's default backend.
    """

    player: int
    sides: tuple[Side, Side]
    payoff: Payoff
    platform: str | None = None

    @property
    def num_subgames(self) -> int:
        """Number of subgames, S, including padding."""
        return self.sides[0].entry.num_roots

    @property
    def rounding(self) -> Rounding:
        """Rounding of sizes."""
        return exact_size

    @property
    def extra_subgames(self) -> IntArray:
        """`[E]` the subgame of each extra root of the opponent, which come after all others."""
        return np.zeros(0, np.int64)

    def payoff_of(self, blueprints: IntArray) -> Payoff:
        """The payoff of lanes with the given blueprints; here equal for all blueprints."""
        return self.payoff

    def num_roots(self, player: int) -> int:
        """Number of a player's roots, including padding and extra roots."""
        return self.sides[player].body.num_roots

    def root_subgames(self, player: int) -> IntArray:
        """`[R]` the subgame of each of a player's roots, 0 for padding."""
        return np.asarray(self.sides[player].link, np.int64)

    def action_subgames(self, player: int) -> IntArray:
        """`[Q]` the subgame of each action of a player's body, 0 for padding."""
        side = self.sides[player]
        return np.asarray(side.below_roots(side.link[:, None]), np.int64)[self.num_roots(player) :, 0]

    def action_roots_considered(self, considered: BoolArray) -> BoolArray:
        """`[Q, L]` True for actions of the resolving player below a considered root of the opponent."""
        raise NotImplementedError(f"{type(self).__name__} has no map from roots to infostates below them")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Structure(Bodies):
    """The subgames of a forest.

    Attributes:
      forest: the subgames.
    """

    forest: Forest

    @property
    def rounding(self) -> Rounding:
        """Rounding of the forest's sizes."""
        return self.forest.rounding

    @property
    def extra_subgames(self) -> IntArray:
        """`[E]` the subgame of each extra root of the opponent, which come after all others."""
        extra = self.forest.extra
        return super().extra_subgames if extra is None else extra.roots.subgame

    def action_roots_considered(self, considered: BoolArray) -> BoolArray:
        """`[Q, L]` True for actions of the resolving player below a considered root of the opponent."""
        return opponent_roots(self.forest, self.player) @ considered


def build_bodies(forest: Forest, dtype: DTypeLike, platform: str | None = None) -> tuple[Side, Side]:
    """Both players' decisions below the cut, with fixed entries, which have one root per subgame."""
    rounding = forest.rounding
    entry = fixed_entry(rounding(forest.num_subgames))
    first, second = (
        build_side(body, entry, pad_rows(roots.subgame, body.num_roots, -1), dtype, rounding, platform)
        for body, roots in zip(forest.form.treeplex, forest.roots, strict=True)
    )
    return first, second


def build_structure(forest: Forest, player: int, platform: str | None = None) -> Structure:
    """Places a forest on the device for one resolving player, in the form that suits the platform."""
    with precision(np.float64):
        payoff = build_payoff(forest.form.payoff, np.float64, rounding=forest.rounding)
        sides = build_bodies(forest, np.float64, platform)
        return Structure(forest=forest, player=player, sides=sides, payoff=payoff, platform=platform)


def find_ranges(
    structure: Structure,
    strategy: tuple[FloatArray, FloatArray],
    reach: tuple[FloatArray, FloatArray],
    *,
    played: bool = False,
) -> Ranges:
    """Computes the ranges of blueprints at the cut.

    Args:
      structure: the subgames.
      strategy: both players' blueprints below the cut, `[Q_p, lanes]` in the bodies.
      reach: both players' reach of their own roots, `[R_p, lanes]`, without padding.
      played: also compute `V(s)` under both blueprints.
    """
    forest, player, other = structure.forest, structure.player, 1 - structure.player
    roots = forest.roots[other]
    padded = [
        pad_rows(rows, treeplex.num_roots, 0)
        for rows, treeplex in zip(reach, forest.form.treeplex, strict=True)
    ]
    best, followed = values_at_roots(structure, strategy, (padded[0], padded[1]), played=played)
    count = len(roots)
    return Ranges(
        num_subgames=forest.num_subgames,
        subgame=roots.subgame,
        root=roots.row,
        resolver=reach[player],
        opponent=reach[other],
        mass=multiply(forest.chance, other, padded[player])[:count],
        cbv=best[:count],
        played=None if followed is None else followed[:count],
    )


def values_at_roots(
    bodies: Bodies,
    strategy: tuple[FloatArray, FloatArray],
    reach: tuple[FloatArray, FloatArray],
    *,
    played: bool,
) -> tuple[FloatArray, FloatArray | None]:
    """Computes counterfactual values of the opponent's roots, `[R, lanes]` in the resolving player's utility.

    Args:
      bodies: the subgames.
      strategy: both players' blueprints below the roots, `[Q_p, lanes]` in the bodies.
      reach: both players' reach of their own roots, `[R_p, lanes]`, including padding.
      played: also compute `V(s)` under both blueprints.

    Returns:
      `V̄(s)`, and `V(s)` or None.
    """
    numbers = (bodies.sides, bodies.payoff, strategy, reach)
    with precision(np.float64):
        best, followed = opponent_values(*numbers, player=bodies.player, played=played)
    return -np.asarray(best), -np.asarray(followed) if played else None


@compiled(quick=True, static_argnames=("player", "played"))
def opponent_values(
    sides: tuple[Side, Side],
    payoff: Payoff,
    strategy: tuple[jax.Array, jax.Array],
    reach: tuple[jax.Array, jax.Array],
    *,
    player: int,
    played: bool,
) -> tuple[jax.Array, jax.Array]:
    """`[R, lanes]` values of the opponent's roots, in its utility, for its best response and its strategy."""
    other, lanes, dtype = 1 - player, reach[0].shape[-1], reach[0].dtype
    nothing = jnp.zeros((sides[0].entry.num_roots, lanes), dtype)
    seen: list[jax.Array] = []
    parts = [Parts(jnp.zeros((0, lanes), dtype), rows) for rows in strategy]
    for side, rows, scale in zip(sides, parts, reach, strict=True):
        terms = Terms(scale=scale, constant=nothing)
        seen.append(payoff_reach(side, terms, follow(side, terms, rows)))
    gradient, _ = payoff.gradient(other, (seen[0], seen[1]), None)
    free = Terms(constant=nothing)
    best = best_values_up(sides[other], free, gradient).roots
    if not played:
        return best, best
    return best, values_up(sides[other], free, gradient, parts[other]).roots


def trunk_ranges(trunk: Trunk, player: int, reach: FloatArray, strategy: FloatArray) -> TrunkRanges:
    """Computes the values of blueprints in the opponent's decisions above the cut.

    Args:
      trunk: the decisions above the cut.
      player: the resolving player.
      reach: `[E_i, lanes]` the resolving player's reach of its own sequences in the trunk.
      strategy: `[Q, lanes]` the opponent's blueprint in the trunk.
    """
    other = 1 - player
    treeplex, link = trunk.form.treeplex[other], trunk.link[other]
    with precision(np.float64):
        on_device = to_device(treeplex, np.float64)
    return TrunkRanges(
        treeplex=treeplex,
        on_device=on_device,
        link=link,
        ancestors=find_ancestors(treeplex, link),
        terminates=trunk.terminates[other],
        strategy=strategy,
        outside=sign_of(other) * multiply(trunk.form.payoff, other, reach),
        mass=multiply(trunk.presence[other], other, reach),
    )


def find_ancestors(treeplex: HostTreeplex, link: IntArray) -> csr_array:
    """`[R, Q]` 1 where an action lies on the path to a root.

    Args:
      treeplex: the decisions above the roots, with one root.
      link: `[R]` the sequence of `treeplex` that leads to each root.
    """
    owner = np.append(-1, treeplex.sequence_infoset)
    rows: list[int] = []
    actions: list[int] = []
    for root, last in enumerate(link.tolist()):
        while last:
            rows.append(root)
            actions.append(last - 1)
            last = int(treeplex.parent[owner[last]])
    shape = (len(link), treeplex.num_sequences - 1)
    return csr_array((np.ones(len(rows)), (rows, actions)), shape=shape)
