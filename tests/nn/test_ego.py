"""Subgraphs of groups of nodes: which rows, which arcs, what a hub costs, and what tasks read of a graph."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fewnode import draw_tasks
from fewnode.graph import Graph
from fewnode.graph.operators import gather_neighbours
from fewnode.nn.ego import Subgraphs, class_ego_graphs, grouped_linear, induced_subgraphs, reads_most


def star(leaves: int) -> Graph:
    spokes = torch.stack([torch.zeros(leaves, dtype=torch.long), torch.arange(1, leaves + 1)])
    ring = torch.tensor([[1, 2], [2, 3]])
    return Graph.from_edges(torch.cat([spokes, ring], 1), num_nodes=leaves + 2)


def around(graph: Graph, centres: list[int], group: list[int]) -> Subgraphs:
    """The subgraphs induced on centres and their neighbours."""
    nodes, groups = torch.tensor(centres), torch.tensor(group)
    owner, neighbour = gather_neighbours(graph, nodes)
    return induced_subgraphs(graph, torch.cat([nodes, neighbour]), torch.cat([groups, groups[owner]]))


def arcs(graph: Graph, centres: list[int], group: list[int]) -> set[tuple[int, int, int]]:
    ego = around(graph, centres, group)
    assert torch.equal(ego.group[ego.target], ego.group[ego.source])
    ends = ego.node[ego.target].tolist(), ego.node[ego.source].tolist()
    return set(zip(ego.group[ego.target].tolist(), *ends, strict=True))


def test_rows_are_the_nodes_once_per_group() -> None:
    ego = around(star(5), [1, 2, 2, 6], [0, 0, 1, 1])
    rows = set(zip(ego.group.tolist(), ego.node.tolist(), strict=True))
    assert rows == {(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3), (1, 6)}
    assert len(ego.node) == len(rows)
    assert ego.node[ego.place[:4]].tolist() == [1, 2, 2, 6]


def test_a_class_node_is_joined_to_every_support_however_that_is_reached() -> None:
    """Nodes 1 and 2 are neighbours: each is a support and a neighbour of the other, but one row."""
    ego, rows = class_ego_graphs(star(5), torch.tensor([1, 2]), torch.tensor([0, 0]), 1)
    assert len(ego.node) == len(set(ego.node.tolist()))
    sums = ego.closed_sums(torch.tensor([1.0] * len(ego.node) + [100.0])[:, None])
    assert sums[rows.centre].flatten().tolist() == [1 + 2 + 100, 1 + 3 + 100, 102]
    assert rows.size[rows.centre].tolist() == [4, 5, 3]


def test_inner_arcs_are_those_between_rows_of_one_group() -> None:
    both = {(0, 1), (0, 2), (0, 3), (1, 2), (2, 3)}
    expected = {(0, a, b) for a, b in both} | {(0, b, a) for a, b in both}
    assert arcs(star(5), [2], [0]) == expected


def test_inner_arcs_of_a_directed_graph_keep_their_direction() -> None:
    graph = Graph.from_edges([[0, 1, 2], [1, 2, 0]], num_nodes=4, directed=True)
    assert arcs(graph, [1], [0]) == {(0, 1, 0)}
    assert arcs(graph, [1, 2], [0, 0]) == {(0, 1, 0), (0, 2, 1), (0, 0, 2)}


def test_a_hub_is_not_read_whole_in_every_group() -> None:
    graph = star(5000)
    around(graph, list(range(10, 1010)), list(range(1000)))
    upward = graph.cache.get("upward edges", lambda: None)
    assert int(upward.degree[0]) == 0, "the hub's row is empty: its edges are found from the leaves"
    assert upward.num_edges == graph.num_edges


@pytest.mark.parametrize("few", [0, 10**6], ids=["in blocks", "one by one"])
@pytest.mark.parametrize("n_groups", [1, 4])
def test_each_row_gets_the_weights_of_its_group(n_groups: int, few: int) -> None:
    random = torch.Generator().manual_seed(0)
    group = torch.randint(n_groups, (300,), generator=random)
    group[group == 2] = 3  # a group may be empty, another large
    rows, weight = torch.randn(300, 3, generator=random), torch.randn(n_groups, 3, 2, generator=random)
    bias = torch.randn(n_groups, 1, 2, generator=random)
    expected = torch.stack([row @ weight[g] + bias[g, 0] for row, g in zip(rows, group, strict=True)])
    torch.testing.assert_close(grouped_linear(rows, group, (weight, bias), few), expected)


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
    assert reads_most(graph, torch.tensor(sorted(near))) == (2 * sum(len(lists[v]) for v in near) > n)
