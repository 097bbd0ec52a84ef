"""Graphs of other libraries; those that are not installed are skipped."""

import sys
import uuid
import warnings
from types import SimpleNamespace

import networkx
import numpy as np
import pytest
import torch
from scipy import sparse as sp

from fewnode import Graph, evaluate, fit, planted
from fewnode.errors import InputError


def test_networkx_weights_kinds_attributes_and_ids_of_any_kind():
    a, b = ("a", 1), uuid.UUID(int=7)
    source = networkx.MultiDiGraph()
    source.add_node(a, y="mail", age=3, colour="red")
    source.add_node(b, age=4, colour="red")
    source.add_node(5, y="news", age=9, colour="blue")
    source.add_edge(a, b, weight=2.0, edge_type="writes")
    source.add_edge(a, b, edge_type="cites")
    source.add_edge(b, 5, weight=3, edge_type="cites")
    graph = Graph.of(source)
    assert graph.directed and graph.node_names == ("('a', 1)", str(b), "5")
    assert graph.class_names == ("mail", "news") and graph.y.tolist() == [0, -1, 1]
    assert graph.edge_types.names == ("cites", "writes") and graph.weights.tolist() == [3.0, 3.0]
    assert graph.feature_names[0] == "age"  # all attributes, read as the columns of a table of nodes


def test_attributes_of_several_kinds_are_blocks_as_the_columns_of_a_table_are():
    source = networkx.path_graph(30)
    for node in source:
        source.nodes[node].update(label="ab"[node % 2], age=node**2 % 7, meaning=[node / 7, 1.0, 2.0 * node % 3])
    with pytest.warns(UserWarning, match="features: 'age', 'meaning'"):
        graph = Graph.from_networkx(source)
    assert graph.blocks == {"table": 1, "vectors 1": 3}


def test_networkx_there_and_back(small):
    again = Graph.from_networkx(small.to_networkx())
    assert again.fingerprint == small.fingerprint and torch.equal(again.y, small.y)
    kinds = Graph.from_edges(
        [[0, 0, 2], [1, 1, 0]], y=["u", None, "v"], directed=True, edge_weight=[1, 2, 3], edge_type=["a", "b", "a"]
    )
    again = Graph.of(kinds.to_networkx())
    assert again.fingerprint == kinds.fingerprint and again.class_names == ("u", "v")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda g: g.edges["a", "b"].update(weight="heavy"),
            "edge_weight has dtype .*; expected numbers: .* above zero",
        ),
        (lambda g: g.edges["a", "b"].update(weight=-1), r"edge_weight\[0\] is -1; .* above zero"),
        (lambda g: g.edges["a", "b"].update(edge_type="likes"), r"the edge \('b', 'c'\) has no edge type"),
        (lambda g: networkx.set_node_attributes(g, {"a": [1], "b": [1, 2], "c": [1]}, "x"), "vectors .* of one length"),
    ],
)
def test_what_networkx_carries_and_cannot_be_used_is_said(change, message):
    source = networkx.Graph([("a", "b"), ("b", "c")])
    change(source)
    with pytest.raises(InputError, match=message):
        Graph.of(source)


@pytest.fixture
def shelves():
    """Books with a shelf and a number of pages; only the second has no shelf."""
    source = networkx.Graph([("a", "b"), ("b", "c")])
    for node, shelf, pages in (("a", "history", 90), ("b", None, 120), ("c", "travel", 300)):
        source.add_node(node, pages=pages, **({} if shelf is None else {"shelf": shelf}))
    return source


def test_the_attribute_of_the_labels_can_be_named(shelves):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = Graph.of(shelves, label="shelf")
    assert graph.y.tolist() == [0, -1, 1] and graph.class_names == ("history", "travel")
    assert graph.feature_names == ("pages",)
    with pytest.raises(InputError, match=r"label='shelves' is no attribute of the nodes; they have 'pages', 'shelf'"):
        Graph.of(shelves, label="shelves")
    with pytest.raises(InputError, match=r"label= names an attribute; .*ndarray.* has none"):
        Graph.of(np.eye(3), label="shelf")


def test_what_was_taken_for_labels_and_features_is_said_if_no_label_is_named(shelves):
    with pytest.warns(
        UserWarning, match=r"no attribute is y, label or class: no labels; features: 'pages'; not used: 'shelf'"
    ):
        assert not bool((Graph.of(shelves).y >= 0).any())
    networkx.set_node_attributes(shelves, {"a": "u", "b": "v"}, "class")
    with pytest.warns(UserWarning, match=r"the attribute 'class' holds the labels; .* Name the labels with label="):
        assert Graph.from_networkx(shelves).class_names == ("u", "v")


def test_igraph_and_pyg_take_the_name_of_the_labels_too():
    igraph = pytest.importorskip("igraph", reason="igraph is not installed")
    source = igraph.Graph([(0, 1), (1, 2)])
    source.vs["shelf"], source.vs["pages"] = ["u", None, "v"], [1, 2, 3]
    assert Graph.of(source, label="shelf").class_names == ("u", "v")
    pyg = pytest.importorskip("torch_geometric.data", reason="PyTorch Geometric is not installed")
    data = pyg.Data(edge_index=torch.tensor([[0, 1], [1, 2]]), x=torch.eye(3), shelf=torch.tensor([1, -1, 0]))
    assert Graph.of(data, label="shelf").y.tolist() == [1, -1, 0]
    assert Graph.from_pyg(data).y.tolist() == [-1, -1, -1]
    with pytest.raises(InputError, match="label='kind' is no attribute of the nodes"):
        Graph.from_pyg(data, label="kind")


def test_igraph():
    igraph = pytest.importorskip("igraph", reason="igraph is not installed")
    source = igraph.Graph([(0, 1), (1, 2)], directed=True)
    source.vs["name"], source.vs["label"], source.vs["x"] = ["a", "b", "c"], ["u", None, "v"], [[1.0], [2.0], [3.0]]
    source.es["weight"], source.es["edge_type"] = [0.5, 2.0], ["p", "q"]
    graph = Graph.of(source)
    assert graph.node_names == ("a", "b", "c") and graph.y.tolist() == [0, -1, 1] and graph.directed
    assert graph.weights.tolist() == [0.5, 2.0] and graph.edge_types.names == ("p", "q") and graph.num_features == 1
    assert Graph.of(igraph.Graph([(0, 1)])).node_names == ("0", "1")


def test_scipy_and_arrays():
    matrix = sp.csr_array(np.array([[0, 2.0, 0], [0, 0, 0], [0, 1.0, 0]]))
    graph = Graph.of(matrix, x=np.eye(3), y=["u", "v", ""], directed=True)
    assert graph.to_scipy().toarray().tolist() == matrix.T.toarray().tolist()  # a row lists whose messages arrive
    assert graph.y.tolist() == [0, 1, -1]
    for given in (matrix.toarray(), torch.from_numpy(matrix.toarray()).to_sparse(), sp.coo_matrix(matrix)):
        assert Graph.of(given, x=np.eye(3), directed=True).fingerprint == graph.fingerprint
    assert Graph.of(sp.csr_matrix(matrix > 0)).weights is None
    assert Graph.of(np.array([[0, 1], [1, 2]])).num_edges == 2
    assert Graph.of(graph) is graph


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (7, "a value of type int is not a supported graph; give a Graph, DataFrames"),
        (None, "a value of type NoneType"),
        (sp.csr_array((2, 3)), r"an adjacency is square, this matrix has shape \(2, 3\)"),
        (np.zeros((4, 3)), r"an array of shape \(4, 3\) and type float64 is neither"),
        ([[1, 2], [3]], "rows of unequal length cannot be an array"),
        (sp.csr_array(np.array([[0, -1.0], [0, 0]])), r"edge_weight\[0\] is -1"),
        (networkx.Graph(), "the graph is empty"),
    ],
)
def test_what_is_no_graph_is_refused_in_one_sentence(given, message):
    with pytest.raises(InputError, match=message):
        Graph.of(given)


def test_nodes_beside_a_graph_are_refused():
    with pytest.raises(InputError, match="nodes= belongs to a table of edges; a value of type Graph"):
        Graph.of(networkx.path_graph(3), nodes=[1])


# --- PyTorch Geometric ----------------------------------------------------------------------------------


@pytest.fixture
def pyg():
    return pytest.importorskip("torch_geometric", reason="PyTorch Geometric is not installed").data


def test_pyg_weights_and_kinds(pyg):
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    data = pyg.Data(edge_index=edges, x=torch.eye(3), y=torch.tensor([[0], [1], [-1]]))
    assert Graph.from_pyg(data).y.tolist() == [0, 1, -1]
    data.edge_attr = torch.tensor([[2.0], [2.0], [3.0], [3.0]])
    assert Graph.of(data).weights.tolist() == [2, 2, 3, 3]
    data.edge_attr = torch.ones(4, 2)
    with pytest.warns(
        UserWarning, match=r"edge_attr of the graph \(shape \(4, 2\), float32\) is not one positive weight"
    ):
        assert Graph.of(data).weights is None
    data.edge_weight, data.edge_type = torch.tensor([1.0, 1.0, 5.0, 5.0]), torch.tensor([0, 0, 1, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = Graph.of(data)
    assert graph.weights.tolist() == [1, 1, 5, 5] and graph.edge_types.names == ("0", "1")
    again = Graph.from_pyg(graph.to_pyg())
    assert again.fingerprint == graph.fingerprint


def test_pyg_without_labels_says_what_there_is(pyg):
    data = pyg.Data(edge_index=torch.tensor([[0, 1], [1, 2]]), x=torch.eye(3), shelf=torch.tensor([0, 1, 1]))
    with pytest.warns(UserWarning, match=r"no labels, of 'x', 'edge_index', 'shelf'. Name the labels with label="):
        assert Graph.of(data).y.tolist() == [-1, -1, -1]
    assert Graph.of(data, label="shelf").y.tolist() == [0, 1, 1]
    with pytest.raises(InputError, match=r"label='shelves' is no attribute of the nodes; they have 'x', 'edge_index'"):
        Graph.of(data, label="shelves")


def test_pyg_masks_are_named_as_left_out(pyg):
    data = pyg.Data(edge_index=torch.tensor([[0, 1], [1, 2]]), x=torch.eye(3), y=torch.tensor([0, 1, 1]))
    data.train_mask = data.test_mask = torch.tensor([True, False, False])
    with pytest.warns(UserWarning, match=r"train_mask, test_mask divide nodes, not classes, and are not used"):
        assert Graph.of(data).y.tolist() == [0, 1, 1]


@pytest.mark.parametrize("share", [0.05, 0.9])
def test_dense_and_sparse_features_of_equal_values_give_equal_results(pyg, share, tmp_path):
    graph, split = planted(300, 6, seed=0)
    edges, y = graph.edge_arrays()["edge_index"], graph.y
    x = torch.rand(300, 40, generator=torch.Generator().manual_seed(0))
    x = torch.where(x < share, (10 * x).ceil(), 0.0) + 2 * torch.nn.functional.one_hot(graph.y, 40)
    made = [
        Graph.from_pyg(pyg.Data(edge_index=torch.from_numpy(edges), x=given, y=y))
        for given in (x, x.to_sparse_csr(), x.to_sparse_coo())
    ]
    made += [Graph.from_edges(edges, given, y) for given in (x, x.numpy(), x.to_sparse_csr(), sp.csr_matrix(x))]
    adjacency = graph.to_scipy()
    made += [Graph.from_scipy(adjacency, x=given, y=y) for given in (x.numpy(), sp.csr_matrix(x))]
    words = sp.csr_matrix(x)
    sparse = {"x_data": words.data, "x_indices": words.indices, "x_indptr": words.indptr, "x_shape": words.shape}
    for arrays in ({"x": x.numpy()}, sparse):
        np.savez(tmp_path / "own.npz", edge_index=edges, y=y.numpy(), **arrays)
        made.append(Graph.from_npz(tmp_path / "own.npz"))
    first = fit("pn", made[0], split, n_way=2, k_shot=2, n_query=5, steps=5, seed=0)
    accuracies = []
    for each in made:
        model = fit("pn", each, split, n_way=2, k_shot=2, n_query=5, steps=5, seed=0)
        accuracies += [
            evaluate(m, each, split, n_way=2, k_shot=2, n_query=5, n_tasks=40).per_task for m in (model, first)
        ]
    assert all(found.equal(accuracies[0]) for found in accuracies)


def test_a_pyg_graph_without_edge_index_is_refused(pyg):
    with pytest.raises(InputError, match="has no edge_index"):
        Graph.from_pyg(pyg.Data(x=torch.eye(3)))


def hetero(held):
    held["paper"].x, held["paper"].y = torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([0, 1, -1])
    held["author"].num_nodes = 2
    held["author", "writes", "paper"].edge_index = torch.tensor([[0, 1], [0, 2]])
    held["author", "writes", "paper"].edge_weight = torch.tensor([2.0, 4.0])
    held["paper", "cites", "paper"].edge_index = torch.tensor([[0], [1]])
    return held


def test_pyg_graphs_of_several_types(pyg):
    check_hetero(Graph.of(hetero(pyg.HeteroData())))


def check_hetero(graph):
    assert graph.node_names == ("paper:0", "paper:1", "paper:2", "author:0", "author:1")
    assert graph.edge_types.names == ("writes", "cites") and graph.num_edges == 3
    x = graph.features_scipy()
    assert x[:, 1:].tolist() == [[1, 0]] * 3 + [[0, 1]] * 2  # the type of each node ...
    assert np.allclose(x[:, 0], [-(1.5**0.5), 0, 1.5**0.5, 0, 0])  # ... beside the features of its own
    assert graph.y.tolist() == [0, 1, -1, -1, -1]
    dense = graph.to_scipy().toarray()
    assert (dense[0, 3], dense[2, 4], dense[0, 1]) == (2, 4, 1)


# --- GraphML --------------------------------------------------------------------------------------------


def test_graphml_there_and_back(tmp_path, monkeypatch):
    graph = Graph.from_edges(
        [[0, 0, 2], [1, 1, 0]],
        y=["u & v", None, "<w>"],
        node_names=["a", "b\x01", "ç"],
        directed=True,
        edge_weight=[1, 2, 3],
        edge_type=["p", "q", "p"],
    )
    said = SimpleNamespace(
        nodes=torch.tensor([1, 2]), table=lambda: {"id": ["b", "ç"], "label": ["u", "w"], "probability": [0.5, 0.25]}
    )
    graph.to_graphml(tmp_path / "g.graphml", predictions=said, attributes={"seen": [True, False, True]})
    read = networkx.read_graphml(tmp_path / "g.graphml")
    assert read.nodes["n2"] == {"name": "ç", "label": "<w>", "predicted": "w", "probability": 0.25, "seen": True}
    assert read.nodes["n0"] == {"name": "a", "label": "u & v", "seen": True}
    again = Graph.from_graphml(tmp_path / "g.graphml", x="seen")
    assert again.edge_types.names == ("p", "q") and again.weights.tolist() == graph.weights.tolist()
    assert again.node_names == ("a", "b", "ç") and again.y.tolist() == [1, -1, 0]
    with pytest.raises(InputError, match="'seen' has 1 values for 3 nodes"):
        graph.to_graphml(tmp_path / "g.graphml", attributes={"seen": [1]})
    (tmp_path / "bad.graphml").write_text("<graphml", encoding="utf-8")
    with pytest.raises(InputError, match=r"bad.graphml is damaged .* write it again as GraphML"):
        Graph.from_graphml(tmp_path / "bad.graphml")
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(InputError, match=r"g\.graphml: GraphML needs networkx: .* pip install networkx"):
        Graph.from_graphml(tmp_path / "g.graphml")


@pytest.mark.parametrize("encoding", ["klingon", "rot13"])
def test_graphml_in_an_unknown_encoding_is_refused(tmp_path, encoding):
    path = tmp_path / "g.graphml"
    path.write_text(f'<?xml version="1.0" encoding="{encoding}"?><graphml></graphml>')
    with pytest.raises(InputError, match=r"g\.graphml is damaged .* write it again as GraphML"):
        Graph.from_graphml(path)
