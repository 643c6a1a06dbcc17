"""Gadgets whose entry is the opponent's real way: full, and the optimal continuation.

The full gadget keeps what was played on the way to a subgame and puts values where play leaves
it (Milec, Kubíček and Lisý 2024, §5). The optimal continuation keeps all of it for all subgames at
once: the least exploitability that any change below the cut can reach.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxgadget.gadgets.gadget import BoundRule, Entry, Layout, Perturbed, register
from jaxgadget.gadgets.ranges import Ranges, inverse
from jaxgadget.games.game import IntArray
from jaxgadget.kernels.problem import Terms
from jaxgadget.kernels.regret import Bounds
from jaxgadget.kernels.treeplex import expand_infosets, sum_actions, sweep_up
from jaxgadget.tree.forest import Forest
from jaxgadget.tree.sequence import Rounding, exact_size
from jaxgadget.tree.trunk import Trunk, build_way


class _Way(Perturbed):
    """What both share: an entry that copies the opponent's trunk.

    The prior's mistakes are at the opponent's decisions above the cut: the floor of an action is
    ε × its weight there. Where play leaves the copied part, the opponent gets its best-response
    value against the resolving player's blueprint, with the alternative values at other subgames.
    """

    @property
    def needs(self) -> frozenset[str]:
        """See `Gadget`."""
        return super().needs | {"trunk"}

    def check_prior(self, num_roots: int, num_lanes: int) -> None:
        """See `Perturbed`; the prior is about actions above the cut and checks its shape itself."""

    def mistakes(self, ranges: Ranges) -> jax.Array:
        """See `Gadget`: weights of the opponent's actions above the cut."""
        return self.prior.choose(ranges)

    @staticmethod
    def terms(ranges: Ranges, mistakes: jax.Array, epsilon: jax.Array, entry: Entry) -> Terms:
        """See `Gadget`."""
        trunk, games = ranges.above, entry.num_games
        q, v, root = trunk.best(ranges.cbv)
        whole = jnp.concatenate([root, q]).at[entry.source].get(mode="fill", fill_value=0)
        copied = v.at[entry.infoset].get(mode="fill", fill_value=0)
        inside = jax.ops.segment_sum(copied, entry.parent, num_segments=entry.num_sequences)
        constant = (whole - inside).at[entry.link].add(ranges.cbv, mode="drop")
        weight = mistakes.at[entry.source[games:] - 1].get(mode="fill", fill_value=0)
        total = expand_infosets(entry.side.entry, sum_actions(entry.side.entry, weight))
        floor = epsilon[None, :] * weight * inverse(total)
        return Terms(scale=jnp.ones_like(ranges.cbv), constant=constant, entry=Bounds(floor=floor))


@register
@dataclasses.dataclass(frozen=True)
class Full(_Way):
    """The opponent's real way to each subgame, with values where play leaves it.

    For a single subgame and best-response values this is the optimal continuation of that
    subgame. Solved side by side, several subgames may each count on the others' values, and
    nothing is guaranteed.
    """

    name: ClassVar[str] = "full"

    @property
    def bound(self) -> BoundRule:
        """See `Gadget`."""
        return None

    @staticmethod
    def layout(forest: Forest, trunk: Trunk | None, player: int, rounding: Rounding) -> Layout:
        """See `Gadget`; a copy of the way for every subgame."""
        return _layout(forest, trunk, player, np.arange(forest.num_subgames), rounding)


@register
@dataclasses.dataclass(frozen=True)
class OptimalContinuation(_Way):
    """The whole game with the resolving player fixed above the cut, all subgames jointly.

    Its value is what the best continuation guarantees in the whole game: the floor under every
    gadget's exploitability.
    """

    name: ClassVar[str] = "optimal-continuation"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.alternative.exact:
            raise ValueError(
                f"alternative={self.alternative!r} for the optimal continuation: play never leaves it, so "
                "there is nothing to promise; leave it out"
            )

    @property
    def bound(self) -> BoundRule:
        """See `Gadget`."""
        return "max"

    @staticmethod
    def layout(forest: Forest, trunk: Trunk | None, player: int, rounding: Rounding) -> Layout:
        """See `Gadget`; one game, whose only root is never padded."""
        return _layout(forest, trunk, player, np.zeros(forest.num_subgames, np.int64), exact_size)

    @staticmethod
    def rise(
        ranges: Ranges,
        mistakes: jax.Array,
        epsilon: jax.Array,
        entry: Entry,
        gap: jax.Array,
        below: jax.Array,
    ) -> jax.Array:
        """See `Gadget`: the gap, and what the opponent gains by leaving its floors."""
        terms = _Way.terms(ranges, mistakes, epsilon, entry)
        top = terms.constant - entry.side.linked(below)
        free, bound = (sweep_up(entry.side.entry, top, bounds.best)[2] for bounds in (Bounds(), terms.entry))
        return jnp.maximum(gap + free - bound, 0)


def _layout(forest: Forest, trunk: Trunk | None, player: int, game: IntArray, rounding: Rounding) -> Layout:
    """Copies the opponent's way to every game; `[S]` game of each subgame."""
    if trunk is None:
        raise ValueError("trunk=None: this gadget needs what lies above the cut, `build_trunk(forest)`")
    other = 1 - player
    way = build_way(trunk, other, game[forest.roots[other].subgame], rounding)
    padding = forest.form.treeplex[other].num_roots - len(way.link)
    return Layout(
        treeplex=way.treeplex,
        link=np.pad(way.link, (0, padding), constant_values=-1),
        game=game,
        source=way.source,
        infoset=way.infoset,
    )
