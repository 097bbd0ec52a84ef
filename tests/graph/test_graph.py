"""A graph in numbers."""

from dataclasses import asdict

import networkx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse as sp

from fewnode import Graph
from fewnode.errors import InputError
from fewnode.graph.graph import summary
from fewnode.tasks import ClassSplit


@st.composite
def edge_lists(draw):
    n = draw(st.integers(1, 12))
    pairs = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=30))
    return n, np.array(pairs, dtype=np.int64).reshape(-1, 2).T


@given(edge_lists(), st.booleans())
def test_adjacency_equals_the_dense_one(case, directed):
    n, edges = case
    graph = Graph.from_edges(edges, num_nodes=n, directed=directed)
    dense = np.zeros((n, n))
    for source, target in edges.T:
        if source != target:
            dense[target, source] = 1
            if not directed:
                dense[source, target] = 1
    assert (graph.to_scipy().toarray() == dense).all()
    assert graph.num_edges == (dense.sum() if directed else dense.sum() / 2)
    assert graph.self_loops == (edges[0] == edges[1]).sum()
    assert (graph.degree.numpy() == dense.sum(1)).all()
    assert graph.indices.dtype == graph.indptr.dtype == torch.int32


def test_duplicates_and_self_loops_are_dropped_and_counted():
    graph = Graph.from_edges([[0, 0, 1, 2], [1, 1, 0, 2]])
    assert (graph.num_nodes, graph.num_edges, graph.duplicates, graph.self_loops) == (3, 1, 1, 1)


FEW = np.array([[0, 1.5], [0, 0], [2, 0]], dtype=np.float32)
MANY = np.array([[0, 1.5], [0, -1], [2, 0]], dtype=np.float32)


@pytest.mark.parametrize("values", [FEW, MANY], ids=["few", "many"])
@pytest.mark.parametrize(
    "form",
    [
        np.asarray,
        lambda x: x.astype(np.float64),
        torch.from_numpy,
        sp.csr_matrix,
        sp.coo_array,
        lambda x: torch.from_numpy(x).to_sparse_csr(),
    ],
    ids=["numpy", "float64", "torch", "scipy", "coo", "torch_csr"],
)
def test_features_keep_their_values_and_are_sparse_if_few_are_not_zero(form, values):
    graph = Graph.from_edges([[0], [1]], form(values))
    assert (graph.x.layout == torch.sparse_csr) == (values is FEW)
    assert graph.x.dtype == torch.float32
    assert torch.equal(graph.x.to_dense(), torch.from_numpy(values))


def test_features_whose_blocks_are_given_stay_dense_or_sparse(tmp_path):
    for x in (FEW, sp.csr_matrix(MANY)):
        graph = Graph.from_edges([[0], [1]], x, blocks={})
        assert (graph.x.layout == torch.sparse_csr) == sp.issparse(x)
        graph.save_npz(tmp_path / "kept.npz")
        assert Graph.from_npz(tmp_path / "kept.npz").x.layout == graph.x.layout


def test_the_callers_matrix_is_left_as_it_was():
    x = sp.csr_matrix((np.array([1.0, 2.0]), np.array([1, 1]), np.array([0, 2])), shape=(1, 2))
    Graph.from_edges(np.zeros((2, 0), int), x)
    assert x.nnz == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (dict(edge_index=[[0, 5], [1, 0]], num_nodes=3), r"edge_index\[0, 1\] is 5; .* the nodes are 0..2\."),
        (dict(edge_index=[[0, -4], [1, 0]]), r"edge_index\[0, 1\] is -4; .* \(1 such values\)"),
        (dict(edge_index=[[0.5], [1.0]], num_nodes=2), "dtype float64; expected integers"),
        (dict(edge_index=[[0, 1], [1, 2], [2, 0]]), r"shape \(3, 2\).*Transpose"),
        (dict(edge_index=[[], []]), "the graph is empty"),
        (dict(edge_index=[[0], [1]], num_nodes=0), "the graph is empty"),
        (dict(edge_index=[[0], [1]], x=FEW, y=[0, 1]), "rows of x = 3, length of y = 2"),
        (dict(edge_index=[[0], [1]], y=[0.0, 1.0]), "y has dtype float64; expected integers"),
        (dict(edge_index=[[0], [1]], y=[True, False]), "y has dtype"),
        (dict(edge_index=[[0], [1]], y=[0, -2]), r"y\[1\] is -2"),
        (dict(edge_index=[[0], [1]], y=[0, 3], class_names=["a", "b"]), r"y\[1\] is 3.*0..1.*2 class names"),
        (dict(edge_index=[[0], [1]], y=[[0], [1]]), r"y has shape \(2, 1\)"),
        (dict(edge_index=[[0], [1]], x=[[1.0, 2.0], [3.0]]), "unequal length"),
        (dict(edge_index=[[0], [1]], x=np.array([["a"], ["b"]])), "expected numbers"),
        (dict(edge_index=[[0], [1]], x=np.ones(2)), r"x has shape \(2,\)"),
        (dict(edge_index=[[0], [1]], x=np.array([[1.0, 2], [3, np.nan]])), r"x\[1, 1\] is nan"),
        (dict(edge_index=[[0], [1]], x=np.array([[1.0, np.inf], [3, 4]])), r"x\[0, 1\] is inf"),
        (dict(edge_index=[[0], [1]], x=sp.csr_matrix([[0, 0, 1], [0, np.nan, 0]])), r"x\[1, 1\] is nan"),
        (dict(edge_index=[[0], [1]], node_names=["a", "a"]), "'a' is at 0 and again at 1"),
        (dict(edge_index=[[0], [1]], unlisted=[True]), r"unlisted has shape \(1,\); expected \[2\]"),
        (dict(edge_index=[[0], [1]], unlisted=[1.0, 0.0]), "unlisted has dtype float64; expected integers: true"),
        (dict(edge_index=[[0], [1]], x=np.ones((2, 2)), feature_names=["a"]), "1 feature names for 2"),
    ],
)
def test_bad_input_is_named_with_its_place(arguments, words):
    with pytest.raises(InputError, match=words):
        Graph.from_edges(**arguments)


def test_sparse_features_with_a_wrong_index_are_refused():
    x = sp.csr_matrix((np.ones(2, np.float32), np.array([0, 9]), np.array([0, 1, 2])), shape=(2, 9))
    with pytest.raises(InputError, match="damaged"):
        Graph.from_edges([[0], [1]], x)


@pytest.mark.parametrize("x", [MANY, sp.csr_matrix(FEW), None], ids=["dense", "sparse", "none"])
def test_npz_round_trip(tmp_path, x):
    graph = Graph.from_edges(
        [[0, 1], [1, 2]], x, [1, -1, 0], node_names=["a", "b", "ç"], class_names=["u", "v"],
        feature_names=None if x is None else ["f", "g"],
    )  # fmt: skip
    graph.save_npz(tmp_path / "graph.npz")
    again = Graph.from_npz(tmp_path / "graph.npz")
    assert again.fingerprint == graph.fingerprint
    assert again.y.tolist() == [1, -1, 0]
    assert again.has_features == (x is not None)
    assert (again.node_names, again.class_names) == (("a", "b", "ç"), ("u", "v"))
    assert again.feature_names == (None if x is None else ("f", "g"))


def test_a_directed_graph_stays_directed_through_npz(tmp_path):
    graph = Graph.from_edges([[0, 1, 0], [1, 2, 2]], directed=True)
    graph.save_npz(tmp_path / "graph.npz")
    again = Graph.from_npz(tmp_path / "graph.npz")
    assert again.directed and (again.to_scipy() != graph.to_scipy()).nnz == 0


def test_weights_and_kinds_pass_through_npz(tmp_path):
    graph = Graph.from_edges(
        [[0, 1, 0, 1], [1, 2, 1, 2]], directed=True, edge_weight=[1.5, 2, 1, 3], edge_type=["b", "a", "a", "a"]
    )
    graph.save_npz(tmp_path / "graph.npz")
    again = Graph.from_npz(tmp_path / "graph.npz")
    assert again.fingerprint == graph.fingerprint and again.edge_types.names == ("a", "b")
    assert again.weights.tolist() == graph.weights.tolist() == [2.5, 5]


def test_npz_without_edges_or_with_bad_labels_names_the_file(tmp_path):
    np.savez(tmp_path / "a.npz", y=np.zeros(3, int))
    with pytest.raises(InputError, match=r"a.npz: there is no array 'edge_index'"):
        Graph.from_npz(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", edge_index=np.array([[0], [1]]), y=np.zeros(2))
    with pytest.raises(InputError, match=r"b.npz: y has dtype"):
        Graph.from_npz(tmp_path / "b.npz")


def test_networkx_there(small):
    source = networkx.Graph([("a", "b"), ("b", "c"), ("c", "c")])
    for i, node in enumerate(source):
        source.nodes[node]["x"] = [float(i), 1.0]
    source.nodes["a"]["y"] = 1
    graph = Graph.from_networkx(source)
    assert graph.node_names == ("a", "b", "c")
    assert graph.y.tolist() == [1, -1, -1]
    assert (graph.num_edges, graph.self_loops, graph.num_features) == (2, 1, 2)
    source.add_node("d")
    with pytest.raises(InputError, match="node 'd' has no attribute 'x'"):
        Graph.from_networkx(source)


def test_pyg_there_and_back(small):
    pytest.importorskip("torch_geometric", reason="the exchange with PyTorch Geometric needs it installed")
    again = Graph.from_pyg(small.to_pyg())
    assert again.fingerprint == small.fingerprint and torch.equal(again.y, small.y)


def test_subgraph_keeps_order_features_and_names(small):
    part = small.subgraph(small.y != 1)
    assert part.y.tolist() == [0, 0, 2, 2, 0, -1]
    kept = [0, 1, 4, 5, 6, 7]
    assert torch.equal(part.x, small.x[kept])
    assert (part.to_scipy().toarray() == small.to_scipy().toarray()[np.ix_(kept, kept)]).all()


def test_views_with_other_labels_share_what_was_computed(small):
    calls = []
    view = small.with_labels(torch.zeros_like(small.y))
    for graph in (small, view, view):
        graph.cache.get("key", lambda: calls.append(1) or 7)
    assert calls == [1]
    assert small.fingerprint == view.fingerprint


def test_what_was_made_from_a_basis_is_made_anew_for_another_and_after_a_change(small):
    basis, key = torch.ones(2), "scaled"
    made = [small.cache.get(key, lambda: 3 * basis, source=basis) for _ in range(2)]
    assert made[0] is made[1]
    basis.mul_(2)
    assert small.cache.get(key, lambda: 3 * basis, source=basis).tolist() == [6, 6]
    other = torch.zeros(2)
    assert small.cache.get(key, lambda: 3 * other, source=other).tolist() == [0, 0]


def test_a_graph_without_features_gets_structural_ones():
    edges = networkx.planted_partition_graph(4, 30, 0.4, 0.01, seed=3)
    edges.add_node(120)
    graph = Graph.from_networkx(edges, x=None)
    assert not graph.has_features and graph.x.shape[0] == 121
    assert torch.isfinite(graph.x).all()
    assert (graph.x[120] == 0).all()
    same = torch.arange(120) // 30
    close = graph.x[:120] @ graph.x[:120].T
    assert close[same[:, None] == same].mean() > close[same[:, None] != same].mean() + 0.3


def test_counts_of_a_small_graph():
    edges = [
        [0, 1, 1, 3, 3, 0],
        [1, 0, 2, 3, 4, 1],
    ]  # a path of three, a pair, an isolated node; a loop, repeats
    graph = Graph.from_edges(edges, y=[0, 0, 1, 2, -1, 2], num_nodes=6, class_names=["a", "b", "c"])
    facts = summary(graph, asdict(ClassSplit(base=[0], novel=[2])))
    assert facts["nodes"] == 6 and facts["edges"] == 3 and facts["labelled"] == 5
    assert facts["isolated"] == 1 and facts["components"] == 3 and facts["max_degree"] == 2
    assert facts["self_loops"] == 1 and not facts["has_features"]
    assert facts["split"] == {"base": [0], "validation": [], "novel": [2]}
    assert [(row["name"], row["nodes"], row["part"]) for row in facts["classes"]] == [
        ("a", 2, "base"),
        ("b", 1, None),
        ("c", 2, "novel"),
    ]


def test_titles_need_not_differ_and_pass_through_npz_and_subgraphs(tmp_path):
    graph = Graph.from_edges([[0, 1], [1, 2]], node_titles=["Tea", "", "Tea"])
    graph.save_npz(tmp_path / "g.npz")
    again = Graph.from_npz(tmp_path / "g.npz")
    assert graph.node_titles == again.node_titles == ("Tea", "", "Tea")
    assert again.subgraph(torch.tensor([False, True, True])).node_titles == ("", "Tea")
    with pytest.raises(InputError, match="2 node names for 3 nodes"):
        Graph.from_edges([[0, 1], [1, 2]], num_nodes=3, node_titles=["a", "b"])


def test_blocks_of_features_are_kept(tmp_path):
    from fewnode.graph.stored import open_store, save_store

    x, blocks = np.eye(3, dtype=np.float32), {"words": 2, "vectors": 1}
    graph = Graph.from_edges([[0, 1], [1, 2]], x, blocks=blocks)
    graph.save_npz(tmp_path / "g.npz")
    save_store(graph, tmp_path / "store")
    for again in (Graph.from_npz(tmp_path / "g.npz"), open_store(tmp_path / "store"), graph.subgraph(graph.y < 0)):
        assert again.blocks == blocks
    assert graph.with_features(graph.features).blocks == {}
    assert graph.fingerprint != Graph.from_edges([[0, 1], [1, 2]], x).fingerprint
    assert Graph.from_edges([[0, 1], [1, 2]], x, blocks={"words": 3}).blocks == {}  # one block is no block
    with pytest.raises(InputError, match="3 together"):
        Graph.from_edges([[0, 1], [1, 2]], x, blocks={"words": 2, "vectors": 2})
