"""Matrices over pairs of hands: one bilinear form at every public node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jaxgadget.core.host import HandEntries
from jaxgadget.games.hands import PublicEnds, SelectsTables
from jaxgadget.util.arrays import BoolArray, IntArray


def hand_entries(
    hands: tuple[int, int],
    ends: Sequence[PublicEnds],
    block: tuple[IntArray, IntArray],
    num_blocks: tuple[int, int],
    *,
    zero_sum: bool = True,
) -> HandEntries:
    """Creates a matrix over pairs of hands whose blocks are both players' sequences; see `HandEntries`."""
    return HandEntries(
        ends=tuple(ends),
        block=block,
        num_blocks=num_blocks,
        hands=hands,
        num_rows=(hands[0] * num_blocks[0], hands[1] * num_blocks[1]),
        zero_sum=zero_sum,
    )


def keep_nodes(groups: Sequence[PublicEnds], kept: BoolArray) -> tuple[PublicEnds, ...]:
    """Selects the nodes of groups by the mask `kept[n]`; tables that keep equally many share a group."""
    parts: list[PublicEnds] = []
    for group in groups:
        inside = kept[group.node]
        if inside.all():
            parts.append(group)
        elif isinstance(group.pays, SelectsTables):  # omitted nodes of a table that others need have weight 0
            tables, ends = (np.flatnonzero(inside.any(axis=axis)) for axis in (1, 0))
            if len(tables):
                at = np.ix_(tables, ends)
                scale = np.where(inside, group.scale, 0.0)[at]
                parts.append(PublicEnds(group.node[at], scale, group.pays.take_tables(tables)))
        elif not isinstance(group.pays, np.ndarray):  # an operator that needs all of its nodes
            parts.append(group._replace(scale=np.where(inside, group.scale, 0.0)))
        else:
            count = inside.sum(axis=1)
            for size in np.unique(count[count > 0]).tolist():
                tables = np.flatnonzero(count == size)
                chosen = inside[tables]
                nodes, scales = (x[tables][chosen].reshape(-1, size) for x in (group.node, group.scale))
                parts.append(PublicEnds(nodes, scales, group.pays[tables]))
    return tuple(parts)
