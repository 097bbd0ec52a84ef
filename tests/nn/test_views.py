import gc
import weakref

import numpy as np
import torch
from scipy import sparse as sp

from fewnode import Graph, planted
from fewnode.graph.edge_types import EdgeUse, type_counts
from fewnode.graph.operators import normalized_adjacency
from fewnode.nn.views import NEAR, VIEWS, Views, centred, neighbour_lists


def test_looks_are_unit_rows_around_the_mean_and_the_near_one_is_the_floors(tiny):
    graph, _ = tiny
    views = Views(graph.num_features, 32).fit(graph)
    made = views(graph)
    assert len(made) == len(VIEWS) and made is views(graph)  # made once
    for view in made:
        length = view.norm(dim=1)
        assert ((length - 1).abs() < 1e-5).logical_or(length == 0).all()
    expected = centred(normalized_adjacency(graph).smooth(views.features(graph)))
    torch.testing.assert_close(made[NEAR][:, :32], expected)


def test_the_far_view_is_thirty_steps_that_restart_three_times_in_a_hundred(tiny):
    graph, _ = tiny
    views = Views(graph.num_features, 32).fit(graph)
    words, smooth = views.features(graph), normalized_adjacency(graph)
    z = words
    for _ in range(30):
        z = 0.97 * (smooth @ z) + 0.03 * words
    torch.testing.assert_close(views(graph)[VIEWS.index("words_far")][:, :32], centred(z), atol=1e-5, rtol=1e-4)


def test_two_steps_leave_the_node_itself_out():
    path = Graph.from_edges([[0, 1], [1, 2]], np.eye(3, dtype=np.float32))
    words = Views(3, 8).fit(path)
    two_steps = words(path)[VIEWS.index("words_two_steps")]
    raw = torch.nn.functional.pad(words.features(path), (0, 5))
    mean = torch.tensor([[0, 1.0, 0], [0.5, 0, 0.5], [0, 1.0, 0]])
    torch.testing.assert_close(two_steps, centred(mean @ mean @ raw), atol=1e-6, rtol=1e-5)


def test_links_keep_what_a_full_svd_of_the_neighbour_lists_keeps(tiny):
    graph, _ = tiny
    sources = Views(graph.num_features, 40).fit(graph).sources(graph)
    links = neighbour_lists(graph) @ sources.links
    lists = graph.to_scipy().toarray() + np.eye(graph.num_nodes)
    idf = np.log((1 + graph.num_nodes) / (1 + lists.sum(0))) + 1
    weighted = lists * idf / np.linalg.norm(lists * idf, axis=1, keepdims=True)
    best = (np.linalg.svd(weighted, compute_uv=False)[:40] ** 2).sum()
    assert 0.97 * best < float(links.square().sum()) < best + 1e-3


def test_empty_rows_stay_empty():
    h = torch.tensor([[0.0, 0.0], [1.0, 2.0], [3.0, 1.0]])
    assert (centred(h)[0] == 0).all() and torch.isfinite(centred(h)).all()
    assert (centred(torch.zeros(3, 2)) == 0).all()


def test_large_graphs_are_kept_in_half_precision(monkeypatch):
    monkeypatch.setattr("fewnode.nn.views.HALF_FROM", 10)
    graph = Graph.from_edges([[0, 1], [1, 2]], sp.csr_matrix(np.eye(3, dtype=np.float32)))
    assert all(view.dtype == torch.float16 for view in Views(3, 4).fit(graph)(graph))


def test_the_types_of_edges_are_a_view(small):
    edges = small.edge_arrays()["edge_index"]
    kinds = (["a", "b"] * edges.shape[1])[: edges.shape[1]]
    graph = Graph.from_edges(edges, small.features_scipy(), small.y, directed=True, edge_type=kinds)
    use = EdgeUse(types=("a", "b"))
    plain, more = Views(graph.num_features, 8).fit(small)(small), Views(graph.num_features, 8, use).fit(graph)(graph)
    assert len(more) == len(VIEWS) + 1
    for one, same in zip(plain, more, strict=False):  # along all edges, whatever their direction and type
        assert torch.equal(one, same)
    torch.testing.assert_close(more[-1], centred(type_counts(graph, ("a", "b"))))
    elsewhere = Views(graph.num_features, 8, use).fit(graph)(small)  # a graph that does not tell them apart
    assert not elsewhere[-1].any()


def test_a_graph_that_nobody_holds_is_gone_with_its_views():
    graph, _ = planted(60, 4, seed=0)
    Views(graph.num_features, 16).fit(graph).sources(graph)
    left = weakref.ref(graph)
    gc.disable()
    try:
        del graph
        assert left() is None, "something in its cache holds the graph, so that only the garbage collector frees it"
    finally:
        gc.enable()


def views_of(graph: Graph) -> Views:
    return Views(graph.num_features, 32, blocks=tuple(graph.blocks.values()))


def test_each_block_of_features_has_the_views_it_would_have_alone():
    graph = planted(300, 6, seed=0)[0]
    words = graph.x.to_dense()
    vectors = torch.randn(300, 70, generator=torch.Generator().manual_seed(0)) + words[:, :70]
    vectors[:40] = 0  # nodes without a text
    both = graph.with_features(torch.cat([words, vectors], 1), None, {"words": words.shape[1], "vectors": 70})
    split = views_of(both).fit(both).split(both)
    for block, part in enumerate((words, vectors)):
        alone = graph.with_features(part)
        for made, expected in zip(split[4 * block :], views_of(alone).fit(alone)(alone)[:4], strict=False):
            torch.testing.assert_close(made @ made.T, expected @ expected.T, atol=2e-4, rtol=0)
    assert len(split) == 10 and split[8].shape == (300, 32)


def test_directions_that_a_block_lacked_belong_to_it():
    graph = planted(300, 6, seed=0)[0]
    x = torch.zeros(300, 20)
    x[:, :6] = torch.randn(300, 6, generator=torch.Generator().manual_seed(0))
    blocks = {"a": 12, "b": 8}
    views = Views(20, 3, blocks=tuple(blocks.values())).fit(graph.with_features(x, None, blocks))
    x[:, 15:18] = 50 * torch.randn(300, 3, generator=torch.Generator().manual_seed(1))  # only the second block changes
    other = graph.with_features(x, None, blocks)
    beyond = views.features.beyond_basis(other)
    assert beyond.shape[1] and (views.features.block_of(beyond) == 1).all()
    first, second = views.split(other)[0], views.split(other)[4]
    assert first.shape[1] == views.rank and second.shape[1] == views.rank + beyond.shape[1]
    assert torch.allclose(second.norm(dim=1), torch.ones(300), atol=1e-5)
