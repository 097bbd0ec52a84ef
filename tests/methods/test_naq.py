"""Label-free episodes: the nearest nodes are those of brute force, whatever the pieces."""

import pytest
import torch

from fewnode.errors import InputError
from fewnode.graph import Graph
from fewnode.methods import naq as nearest
from fewnode.methods.naq import NaQ
from fewnode.tasks import draw_tasks
from oracles import gcn, naq


def agree(values: torch.Tensor, ids: torch.Tensor, table: torch.Tensor, nodes: torch.Tensor) -> None:
    """The values are the largest of each row but its own; the ids have these values (ties may go either way)."""
    rows = table[nodes].clone()
    rows[torch.arange(len(nodes)), nodes] = -1
    torch.testing.assert_close(values.double(), rows.topk(values.shape[1]).values, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(rows.gather(1, ids), values.double(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("cells", [1, 100, 10**6])
def test_nearest_by_features_is_brute_force(monkeypatch, sparse, cells):
    monkeypatch.setattr(nearest, "CELLS", cells)
    graph = gcn.small_graph(sparse=sparse)
    nodes = torch.tensor([5, 0, 1, 2, 39, 17])
    ids, values = nearest.nearest_by_features(graph, nodes, 7)
    agree(values, ids, naq.cosines(graph.x.to_dense()), nodes)


def test_episodes_are_supports_and_their_like():
    graph = gcn.small_graph()
    model = NaQ(12, neighbours=4)
    anchors, queries = model.neighbourhoods(graph)
    table = naq.cosines(graph.x.to_dense())
    alone = [v for v in range(40) if not any(table[v, other] > 0 for other in range(40) if other != v)]
    assert {1, 2} <= set(alone) and set(anchors.tolist()) == set(range(40)) - set(alone)
    assert (table[anchors[:, None], queries] > 0).all() and (queries != anchors[:, None]).all()
    episodes = model.episodes(graph, 6, 5)
    assert episodes.support.shape == (6, 5) and episodes.query.shape == (6, 20)
    assert all(len(set(row.tolist())) == 5 for row in episodes.support)
    at = {int(anchor): row for anchor, row in zip(anchors, queries, strict=True)}
    wanted = torch.stack([torch.cat([at[int(v)] for v in row]) for row in episodes.support])
    assert torch.equal(episodes.query, wanted)
    assert episodes.query_y is not None and episodes.query_y[0].tolist() == [c for c in range(5) for _ in range(4)]


def test_a_support_with_few_of_its_like_sees_them_again():
    x = torch.tensor([[1.0, 0, 0, 0], [1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    graph = Graph.from_edges(torch.tensor([[0], [4]]), x, torch.arange(5), num_nodes=5)
    anchors, queries = NaQ(4, neighbours=4).neighbourhoods(graph)
    assert sorted(anchors.tolist()) == [0, 1, 2]
    assert sorted(queries[anchors.tolist().index(1)].tolist()) == [0, 0, 2, 2]


def test_a_graph_where_nothing_is_alike_is_refused():
    graph = Graph.from_edges(torch.empty(2, 0, dtype=torch.long), torch.eye(4), torch.arange(4))
    with pytest.raises(InputError, match="no nodes with features in common"):
        NaQ(4).neighbourhoods(graph)


def test_labels_change_nothing():
    graph = gcn.small_graph()
    losses = []
    for view in (graph, graph.with_labels(torch.full_like(graph.y, -1))):
        torch.manual_seed(0)
        model = NaQ(12)
        model.prepare(view)
        losses.append(model.loss(view, draw_tasks(graph.y, [0, 1, 2], 3, 1, 1, 2)))
    assert torch.equal(*losses) and not NaQ.uses_labels
