"""Subgames of equal shape as lanes, with payoffs per lane where they differ.

All flops after one betting line are one game with other cards. With few blueprints and gadgets a
forest has few lanes, and an index is read for each of them; side by side as lanes, subgames of
equal shape share their indices. With many lanes nothing is left to gain, and payoffs per lane cost.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jaxgadget.gadgets.structure import forest_rounding
from jaxgadget.games.game import IntArray
from jaxgadget.kernels.payoff import build_payoff
from jaxgadget.solving.forest import KindLanes, join_ranges, with_lanes
from jaxgadget.tree.forest import Forest
from jaxgadget.tree.sequence import Entries

MOST_PARTS = 8
"""More lanes than that make an iteration hardly faster, and every part is built by itself."""


def find_alike(forest: Forest) -> list[IntArray]:
    """The subgames in up to `MOST_PARTS` parts of one shape: numbers of subgames.

    Subgames are alike if both players' decisions have the same numbers of actions and hang together in
    the same way, in the forest's order. Every part has as many of each kind, in the order of player 0's
    roots, so that equal kinds stand in equal places.
    """
    kinds: dict[tuple[bytes, ...], list[int]] = {}
    shapes = [_shapes(forest, player) for player in (0, 1)]
    in_order = list(dict.fromkeys(forest.roots[0].subgame.tolist()))
    for subgame in in_order:
        kinds.setdefault((shapes[0][subgame], shapes[1][subgame]), []).append(subgame)
    least = math.gcd(*map(len, kinds.values()))
    count = max(k for k in range(1, min(least, MOST_PARTS) + 1) if least % k == 0)
    members = np.concatenate([np.array(kind).reshape(-1, count) for kind in kinds.values()])
    place = np.argsort(np.array(in_order))
    return [part[np.argsort(place[part])] for part in members.T]


def _shapes(forest: Forest, player: int) -> list[bytes]:
    """One player's decisions in every subgame, as something to compare."""
    treeplex, roots = forest.form.treeplex[player], forest.roots[player]
    subgame_of_root = np.append(roots.subgame, np.full(treeplex.num_roots - len(roots), -1))
    subgame = subgame_of_root[treeplex.root_of()]
    owner = treeplex.sequence_infoset
    subgame[treeplex.num_roots :][treeplex.infoset[owner] == -1] = -1
    order = np.argsort(subgame, kind="stable")
    size = np.bincount(subgame[subgame >= 0], minlength=forest.num_subgames)
    first = np.cumsum(size) - size
    rank = np.empty(len(subgame), np.int64)  # of a sequence among those of its subgame
    rank[order] = np.arange(len(order)) - int((subgame < 0).sum()) - first[subgame[order]]
    above = rank[treeplex.parent[owner]]
    lines = np.stack([above, treeplex.sequence_slot, treeplex.num_actions[owner]], axis=1)
    inside = subgame[treeplex.num_roots :]
    found: list[bytes] = []
    count = np.bincount(roots.subgame, minlength=forest.num_subgames)
    by_subgame = np.argsort(inside, kind="stable")
    ends = np.searchsorted(inside[by_subgame], np.arange(forest.num_subgames + 1))
    for number in range(forest.num_subgames):
        rows = lines[by_subgame[ends[number] : ends[number + 1]]]
        found.append(np.int64(count[number]).tobytes() + rows.tobytes())
    return found


def stack(kinds: Sequence[KindLanes], forests: Sequence[Forest]) -> KindLanes | None:
    """Lanes of several forests as those of one; None if their shapes differ after all.

    Args:
      kinds: the lanes of one kind of gadget in each forest, with the same gadgets and blueprints.
      forests: the forests.

    Returns:
      Lanes over gadgets, then forests, then blueprints.
    """
    first = kinds[0]
    if any(not _same(_shape(first), _shape(other)) for other in kinds[1:]):
        return None
    entries = align([forest.form.payoff for forest in forests])
    dtype, rounding = first.epsilon.dtype, forest_rounding(forests[0])
    payoff = build_payoff(entries, dtype, rounding=rounding)
    structure = dataclasses.replace(first.structure, payoff=payoff)
    blueprints = first.ranges.cbv.shape[1]
    ranges = join_ranges([kind.ranges for kind in kinds], len(kinds) * blueprints)
    return first._replace(
        structure=first.place.everywhere(structure),
        ranges=with_lanes(ranges, np.asarray),
        alternatives=_interleave([kind.alternatives for kind in kinds], blueprints),
        mistakes=_interleave([kind.mistakes for kind in kinds], blueprints),
        epsilon=_interleave([kind.epsilon for kind in kinds], blueprints),
        payoff_of=np.repeat(np.arange(len(kinds)), blueprints),
    )


def take(solved: Any, number: int, count: int, blueprints: int) -> Any:
    """What concerns one of `count` stacked forests: the same arrays with its lanes only."""

    def mine(x: Any) -> Any:
        *rows, lanes = np.shape(x)
        by_forest = np.asarray(x).reshape(*rows, lanes // (count * blueprints), count, blueprints)
        return by_forest[..., number, :].reshape(*rows, lanes // count)

    return jax.tree.map(mine, solved)


def align(entries: Sequence[Entries]) -> Entries:
    """Several matrices over one pattern, the union of theirs: values `[m, matrices]`."""
    width = entries[0].shape[1]
    keys = [one.row * width + one.column for one in entries]
    pattern = functools.reduce(np.union1d, keys)
    values = np.zeros((len(pattern), len(entries)))
    for number, (key, one) in enumerate(zip(keys, entries, strict=True)):
        values[np.searchsorted(pattern, key), number] = one.value
    return Entries(row=pattern // width, column=pattern % width, value=values, shape=entries[0].shape)


def _interleave(arrays: Sequence[Any], blueprints: int) -> Any:
    """`[…, gadgets × blueprints]` each → `[…, gadgets × forests × blueprints]`."""
    *rows, lanes = np.shape(arrays[0])
    split = [np.asarray(x).reshape(*rows, lanes // blueprints, blueprints) for x in arrays]
    return np.stack(split, axis=-2).reshape(*rows, lanes * len(arrays))


def _shape(lanes: KindLanes) -> Any:
    """Everything that says how a forest hangs together."""
    return lanes.structure.sides, lanes.structure.subgame, lanes.sides, lanes.entry


def _same(one: Any, other: Any) -> bool:
    leaves, structure = jax.tree.flatten(one)
    others, its = jax.tree.flatten(other)
    if structure != its:
        return False
    return all(np.array_equal(a, b) for a, b in zip(leaves, others, strict=True))
