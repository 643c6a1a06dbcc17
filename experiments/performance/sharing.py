"""Kinds of gadgets apart, each with its own entry, or as lanes of one entry that holds them all.

The common entry has a pick of a root infostate, and below every pick follow or terminate. Masks and floors
make each lane the gadget that it stands for:

- max-margin: terminating is illegal;
- resolving: every pick has the floor 1/n, which leaves no choice, and what follows counts n times;
- unsafe: both, and a root counts as often as the opponent's blueprint gets there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from experiments.performance.grid import GRID, blueprints
from jaxgadget import MaxMargin, Policy, Refinement, Resolving, enumerate_game, load, refine
from jaxgadget.refine import default_gadgets
from jaxgadget.solve.gadget import BoundRule, Entry, Layout, Perturbed, layout
from jaxgadget.solve.problem import Terms
from jaxgadget.solve.ranges import Ranges, inverse
from jaxgadget.solve.regret import Bounds
from jaxgadget.tree.forest import Forest
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.sequence import Rounding, build_treeplex
from jaxgadget.tree.trunk import Trunk

MODES = ("unsafe", "resolving", "max-margin")


@dataclasses.dataclass(frozen=True)
class Shared(Perturbed):
    """One entry for three kinds; `stands_for` says which one a lane is.

    `mistakes` carries it to the device: row 0 is the number of the kind, the others are the prior.
    """

    stands_for: str = "resolving"
    name: ClassVar[str] = "shared"

    @property
    def bound(self) -> BoundRule:
        """Not known here: this is about time."""
        return None

    def mistakes(self, ranges: Ranges) -> jax.Array:
        """`[1 + R, L]` the kind, then the prior in its form; see `Gadget`."""
        plain = {"resolving": Resolving, "max-margin": MaxMargin}.get(self.stands_for, Resolving)
        prior = plain(self.prior, self.epsilon).mistakes(ranges)
        if self.stands_for == "max-margin":
            prior = jnp.where(ranges.mass > 0, prior, 0)
            prior = prior * inverse(ranges.spread(ranges.per_subgame(prior)))
        return jnp.concatenate([jnp.full_like(prior[:1], MODES.index(self.stands_for)), prior])

    @staticmethod
    def layout(forest: Forest, trunk: Trunk | None, player: int, rounding: Rounding) -> Layout:
        """See `Gadget`: level 0 picks, level 1 follows (first) or terminates (second)."""
        subgame, count = forest.roots[1 - player].subgame, forest.num_subgames
        size, roots = np.bincount(subgame, minlength=count), len(subgame)
        order = np.argsort(subgame, kind="stable")
        slot = np.empty(roots, np.int64)
        slot[order] = np.arange(roots) - np.repeat(np.cumsum(size) - size, size)
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
        kind, prior = mistakes[:1], mistakes[1:]
        margin, unsafe = kind == MODES.index("max-margin"), kind == MODES.index("unsafe")
        games = entry.num_games
        picks, below = entry.side.entry.levels()
        first = games + picks.actions.stop
        height = below.infosets.stop - below.infosets.start
        second = jnp.where(entry.link < entry.num_sequences, entry.link + height, entry.num_sequences)
        above = entry.parent[picks.infosets.stop :].at[entry.link - first].get(mode="clip")
        pick = jnp.where(entry.link < entry.num_sequences, above, entry.num_sequences)
        nothing = jnp.zeros((entry.num_sequences, ranges.cbv.shape[1]), ranges.cbv.dtype)
        number = ranges.spread(ranges.per_subgame(jnp.ones_like(ranges.cbv)))
        follow = jnp.where(margin | unsafe, 0, epsilon[None, :] * prior)
        terminate = jnp.where(margin | unsafe, 0, epsilon[None, :] * (1 - prior))
        chosen = jnp.where(margin, epsilon[None, :] * prior, inverse(number))
        legal = jnp.ones_like(nothing, jnp.bool_)
        legal = legal.at[pick].set(jnp.where(margin, ranges.mass > 0, True), mode="drop")
        legal = legal.at[second].set(jnp.broadcast_to(~(margin | unsafe), prior.shape), mode="drop")
        scale = jnp.where(margin, inverse(ranges.mass), number)
        floor = nothing.at[pick].set(chosen, mode="drop").at[entry.link].set(follow, mode="drop")
        floor = floor.at[second].set(terminate, mode="drop")
        constant = nothing.at[entry.link].set(jnp.where(margin, scale * ranges.cbv, 0), mode="drop")
        constant = constant.at[second].set(jnp.where(margin | unsafe, 0, -number * ranges.cbv), mode="drop")
        return Terms(
            scale=scale * jnp.where(unsafe, ranges.opponent, 1),
            constant=constant,
            entry=Bounds(legal=legal[games:], floor=floor[games:]),
        )


def as_shared(gadgets: Sequence[Any]) -> list[Shared]:
    """The same gadgets as lanes of one entry."""
    return [Shared(gadget.prior, gadget.epsilon, stands_for=gadget.name) for gadget in gadgets]


def solve(tree: HistoryTree, cut: str, policy: Policy, gadgets: Sequence[Any], iterations: int) -> Refinement:
    """Re-solves for player 0, without computing the game's value."""
    bound = tree.payoff_range
    return refine(tree, cut, policy, gadgets, iterations=iterations, value=(-bound, bound), progress=False)


def time_sharing(
    iterations: int = 1000, checkpoints: int = 25, draws: int = 20, repeats: int = 3
) -> pd.DataFrame:
    """A row for every game, cut and way: the seven settings of Figure 2, player 0.

    `compile` is that of the first turn, with nothing compiled before; `run` is the fastest turn, and the
    two ways take turns.
    """
    rows: list[dict[str, Any]] = []
    trees: dict[str, HistoryTree] = {}
    for game, cut in GRID:
        tree = trees.setdefault(game, enumerate_game(load(game)))
        policy, seconds = blueprints(tree, checkpoints, draws), dict[str, list[dict[str, float]]]()
        ways = {"apart": default_gadgets(), "shared": as_shared(default_gadgets())}
        for turn in range(repeats):
            for how, gadgets in ways.items():
                if turn == 0:
                    jax.clear_caches()
                result = solve(tree, cut, policy, gadgets, iterations)
                seconds.setdefault(how, []).append(result.seconds)
        for how, found in seconds.items():
            row = {"game": game, "cut": cut, "kinds": how, "lanes": 7 * policy.num_lanes}
            row |= {"iterations": iterations, "compile": found[0]["compile"]}
            rows.append(row | {"run": min(one["run"] for one in found)})
    return pd.DataFrame(rows)
