"""Kinds of gadgets as lanes of one entry, so that one program solves them all.

The joint entry has a pick of a root infostate, and below every pick follow or terminate. Masks and floors
make each lane the gadget that it stands for:

- max-margin: terminating is illegal;
- resolving: every pick has the floor 1/n, which leaves no choice, and what follows counts n times;
- unsafe: both, and a root counts as often as the opponent's blueprint gets there.

Beside one entry a kind, that halves the time to compile, and on two cores takes a quarter to a third off a
run where chunks fill the cores better (`experiments/performance`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxgadget.gadgets.entries import MaxMargin, Resolving, Unsafe, pick_slots
from jaxgadget.gadgets.gadget import BoundRule, Entry, Epsilon, Gadget, Layout, layout
from jaxgadget.gadgets.prior import Prior
from jaxgadget.gadgets.ranges import Ranges, inverse
from jaxgadget.kernels.problem import Terms
from jaxgadget.kernels.regret import Bounds
from jaxgadget.tree.forest import Forest
from jaxgadget.tree.sequence import Rounding, build_treeplex
from jaxgadget.tree.trunk import Trunk

MODES: tuple[type[Any], ...] = (Unsafe, Resolving, MaxMargin)
"""What a lane may stand for, by number."""

UNSAFE, RESOLVING, MAX_MARGIN = range(3)


def find_mode(gadget: Gadget) -> int | None:
    """Which of `MODES` has the same entry as a gadget, if any; only its own numbers may differ."""
    parts = ("layout", "terms", "live", "rise")
    for mode, kind in enumerate(MODES):
        if all(getattr(type(gadget), part) is getattr(kind, part) for part in parts):
            return mode
    return None


def group_gadgets(gadgets: Sequence[Gadget], exact: bool) -> list[list[int]]:
    """Which gadgets are solved together, by number.

    Args:
      gadgets: all of them.
      exact: linear programs solve them, each by itself; only gadgets of one class are then kept together.
    """
    modes = [None if exact else find_mode(gadget) for gadget in gadgets]
    together = len({mode for mode in modes if mode is not None}) > 1
    groups: dict[Any, list[int]] = {}
    for number, (gadget, mode) in enumerate(zip(gadgets, modes, strict=True)):
        key: Any = type(gadget) if mode is None else (Joint if together else MODES[mode])
        groups.setdefault(key, []).append(number)
    return list(groups.values())


def join(gadgets: Sequence[Gadget]) -> list[Gadget]:
    """The gadgets of a group, as instances of one kind."""
    modes = [find_mode(gadget) for gadget in gadgets]
    if len(set(modes)) == 1:
        return list(gadgets)
    return [Joint(gadget, mode) for gadget, mode in zip(gadgets, modes, strict=True) if mode is not None]


@dataclasses.dataclass(frozen=True)
class Joint:
    """A gadget as lanes of the joint entry; see `Gadget`.

    To the device, row 0 of `mistakes` says what the lane stands for; the others are the prior.

    Attributes:
      gadget: the gadget itself.
      mode: its number in `MODES`.
    """

    gadget: Gadget
    mode: int
    name: ClassVar[str] = "joint"

    @property
    def bound(self) -> BoundRule:
        """See `Gadget`."""
        return self.gadget.bound

    @property
    def prior(self) -> Prior:
        """See `Gadget`."""
        return self.gadget.prior

    @property
    def epsilon(self) -> Epsilon:
        """See `Gadget`."""
        return self.gadget.epsilon

    @property
    def needs(self) -> frozenset[str]:
        """See `Gadget`."""
        return self.gadget.needs

    @property
    def settings(self) -> dict[str, str]:
        """See `Gadget`."""
        return self.gadget.settings

    def check(self, num_roots: int, num_lanes: int) -> None:
        """See `Gadget`."""
        self.gadget.check(num_roots, num_lanes)

    def mistakes(self, ranges: Ranges) -> jax.Array:
        """`[1 + R, L]` the mode, then the prior: following, or weights that sum to 1 in a subgame."""
        prior = self.gadget.mistakes(ranges)
        if self.mode == MAX_MARGIN:
            prior = jnp.where(ranges.mass > 0, prior, 0)
            prior = prior * inverse(ranges.spread(ranges.per_subgame(prior)))
        return jnp.concatenate([jnp.full_like(prior[:1], self.mode), prior])

    def alternatives(self, ranges: Ranges) -> jax.Array:
        """See `Gadget`."""
        return self.gadget.alternatives(ranges)

    @staticmethod
    def layout(forest: Forest, trunk: Trunk | None, player: int, rounding: Rounding) -> Layout:
        """See `Gadget`: level 0 picks, in order; level 1 follows (action 0) or terminates (1)."""
        subgame, count = forest.roots[1 - player].subgame, forest.num_subgames
        roots, (size, slot) = len(subgame), pick_slots(subgame, count)
        treeplex, position = build_treeplex(
            num_roots=count,
            depth=np.repeat([0, 1], [count, roots]),
            num_actions=np.concatenate([size, np.full(roots, 2)]),
            parent_infoset=np.concatenate([np.full(count, -1), subgame]),
            parent_slot=np.concatenate([np.arange(count), slot]),
            infoset=np.arange(count + roots),
            rounding=rounding,
        )
        return layout(treeplex, treeplex.first_sequence[position[count:]], forest, player)

    @staticmethod
    def terms(ranges: Ranges, mistakes: jax.Array, epsilon: jax.Array, entry: Entry) -> Terms:
        """See `Gadget`."""
        (unsafe, _, margin), prior = _lanes_of(mistakes)
        pick, second = _places(entry)
        nothing = jnp.zeros((entry.num_sequences, ranges.cbv.shape[1]), ranges.cbv.dtype)
        number = ranges.spread(ranges.per_subgame(jnp.ones_like(ranges.cbv)))
        forced = margin | unsafe
        chosen = jnp.where(margin, epsilon[None, :] * prior, inverse(number))
        floor = nothing.at[pick].set(chosen, mode="drop")
        floor = floor.at[entry.link].set(jnp.where(forced, 0, epsilon[None, :] * prior), mode="drop")
        floor = floor.at[second].set(jnp.where(forced, 0, epsilon[None, :] * (1 - prior)), mode="drop")
        legal = jnp.ones_like(nothing, jnp.bool_)
        legal = legal.at[pick].set(jnp.where(margin, ranges.mass > 0, True), mode="drop")
        legal = legal.at[second].set(jnp.broadcast_to(~forced, prior.shape), mode="drop")
        scale = jnp.where(margin, inverse(ranges.mass), number)
        constant = nothing.at[entry.link].set(jnp.where(margin, scale * ranges.cbv, 0), mode="drop")
        constant = constant.at[second].set(jnp.where(forced, 0, -number * ranges.cbv), mode="drop")
        bounds = Bounds(legal=legal[entry.num_games :], floor=floor[entry.num_games :])
        scale = scale * jnp.where(unsafe, ranges.opponent, 1)
        return Terms(scale=scale, constant=constant, entry=bounds)

    @staticmethod
    def live(ranges: Ranges, mistakes: jax.Array) -> jax.Array:
        """See `Gadget`."""
        modes, prior = _lanes_of(mistakes)
        return _chosen(modes, [kind.live(ranges, prior) for kind in MODES])

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
        modes, prior = _lanes_of(mistakes)
        return _chosen(modes, [kind.rise(ranges, prior, epsilon, entry, gap, below) for kind in MODES])


def _lanes_of(mistakes: jax.Array) -> tuple[list[jax.Array], jax.Array]:
    """For every mode `[1, L]` whether the lane stands for it; and the prior `[R, L]`."""
    return [mistakes[:1] == mode for mode in range(len(MODES))], mistakes[1:]


def _chosen(modes: Sequence[jax.Array], found: Sequence[jax.Array]) -> jax.Array:
    """Of each lane what its own mode found."""
    return jnp.where(modes[UNSAFE], found[UNSAFE], jnp.where(modes[RESOLVING], *found[RESOLVING:]))


def _places(entry: Entry) -> tuple[jax.Array, jax.Array]:
    """`[R]` the sequence of each root's pick, and of terminating there; beyond the end for padding."""
    levels = entry.side.entry.levels()
    if not levels:  # nobody has a root
        return entry.link, entry.link
    picks, below = levels
    real, height = entry.link < entry.num_sequences, below.infosets.stop - below.infosets.start
    infoset = picks.infosets.stop + entry.link - (entry.num_games + picks.actions.stop)
    pick = entry.parent.at[infoset].get(mode="clip")
    return (
        jnp.where(real, pick, entry.num_sequences),
        jnp.where(real, entry.link + height, entry.num_sequences),
    )
