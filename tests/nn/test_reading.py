"""What tasks read of a graph."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fewnode import Graph, draw_tasks
from fewnode.nn.reading import reads_most


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 60), st.booleans())
def test_most_is_read_if_the_neighbours_of_neighbours_are_more_than_half_of_all_nodes(seed, edges, directed):
    rng = np.random.default_rng(seed)
    n, y = 40, np.arange(40) % 4
    graph = Graph.from_edges(rng.integers(0, n, (2, edges)), None, y, num_nodes=n, directed=directed)
    tasks = draw_tasks(graph.y, range(4), 2, 1, 1, 1, seed)
    near = {*tasks.support.flatten().tolist(), *tasks.query.flatten().tolist()}
    lists = {v: graph.indices[graph.indptr[v] : graph.indptr[v + 1]].tolist() for v in range(n)}
    near |= {u for v in list(near) for u in lists[v]}
    assert reads_most(graph, tasks) == (2 * sum(len(lists[v]) for v in near) > n)
