"""Connected components, compared with SciPy's."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array, csgraph

from jaxgadget.core.components import connected_components


def least_nodes(first, second, num_nodes):
    """The smallest node of every node's component, from SciPy."""
    edges = coo_array((np.ones(len(first)), (first, second)), (num_nodes, num_nodes))
    _, label = csgraph.connected_components(edges, directed=False)
    return np.array([np.flatnonzero(label == own)[0] for own in label], np.int64)


@st.composite
def graphs(draw):
    """Edges and the number of nodes, with self-loops and duplicate edges."""
    num_nodes = draw(st.integers(1, 30))
    nodes = st.integers(0, num_nodes - 1)
    edges = draw(st.lists(st.tuples(nodes, nodes), max_size=40))
    first, second = np.array(edges, np.int64).reshape(-1, 2).T
    return first, second, num_nodes


@given(graphs())
def test_random_graphs(graph):
    np.testing.assert_array_equal(connected_components(*graph), least_nodes(*graph))


@pytest.mark.parametrize("seed", range(3))
def test_a_long_path_in_any_order_is_one_component(seed):
    node = np.random.default_rng(seed).permutation(500)
    ends = node[:-1].astype(np.int32), node[1:].astype(np.int32)
    np.testing.assert_array_equal(connected_components(*ends, 502), [0] * 500 + [500, 501])


def test_no_edges():
    nothing = np.zeros(0, np.int64)
    np.testing.assert_array_equal(connected_components(nothing, nothing, 3), [0, 1, 2])


@pytest.mark.slow
def test_refining_imports_no_linear_algebra():
    script = "import sys, jaxgadget.subgames.refine; print('scipy.linalg' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
