"""Connected components of a graph."""

from __future__ import annotations

import numpy as np

from jaxgadget.util.arrays import IntArray


def connected_components(first: IntArray, second: IntArray, num_nodes: int) -> IntArray:
    """`[num_nodes]` smallest node of the connected component of each node.

    SciPy's function of this name is not faster on these graphs, and importing it takes 0.1 s because it loads
    SciPy's linear algebra.

    Args:
      first: `[E]` first node of every edge.
      second: `[E]` second node of every edge.
      num_nodes: nodes are 0, 1, …, `num_nodes - 1`.
    """
    least = np.arange(num_nodes)  # smallest node known so far to be connected with each node
    while True:
        first, second = least[first], least[second]
        apart = first != second
        if not apart.any():
            return least
        first, second = first[apart], second[apart]
        np.minimum.at(least, np.maximum(first, second), np.minimum(first, second))
        while not np.array_equal(shorter := least[least], least):
            least = shorter
