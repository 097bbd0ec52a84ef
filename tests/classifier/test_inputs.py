"""What people hand over in Python: DataFrames, graphs of other libraries, ids of any kind."""

import re

import networkx
import numpy as np
import pytest
import torch
from scipy import sparse as sp

import fewnode
from fewnode import FewShotClassifier, Graph
from fewnode.classifier.inputs import read_examples
from fewnode.errors import InputError


@pytest.fixture(scope="module")
def made():
    graph, split = fewnode.planted(150, 6, difficulty=0.2, seed=3)
    novel = torch.isin(graph.y, torch.tensor(split.novel))
    names = [f"class {y}" if not hide else None for y, hide in zip(graph.y.tolist(), novel.tolist(), strict=True)]
    shown = [(graph.y == c).nonzero().flatten()[:4].tolist() for c in split.novel]
    return graph, names, {f"new {c}": nodes for c, nodes in zip(split.novel, shown, strict=True)}


@pytest.fixture(params=["pandas", "polars"])
def frame(request):
    return pytest.importorskip(request.param, reason=f"{request.param} is not installed").DataFrame


def tables(graph, names, frame, first=0):
    """The graph as two tables with words as text; ids are whole numbers that are not 0, 1, 2, ..."""
    words = graph.features_scipy()
    ids = [1000 + 3 * i for i in range(first, first + graph.num_nodes)]
    texts = [" ".join(f"word{w}" for w in words[i].indices) for i in range(graph.num_nodes)]
    a, b = graph.edge_arrays()["edge_index"].tolist()
    edges = frame({"source": [ids[i] for i in a], "target": [ids[i] for i in b], "strength": [1.0 + i % 3 for i in a]})
    return edges, frame({"paper_id": ids, "title": texts, "category": names})


def test_frames_are_fitted_adapted_and_attached(made, frame, tmp_path, monkeypatch):
    monkeypatch.setattr(
        FewShotClassifier, "open_set_model", lambda *_, **__: None
    )  # which takes seconds and is not asked here
    graph, names, shown = made
    edges, nodes = tables(graph, names, frame)
    model = FewShotClassifier("probe").fit(edges=edges, nodes=nodes, weight_column="strength")
    assert model.graph.weights is not None and "class" in model.known.base[0]
    examples = frame(
        {
            "node": [1000 + 3 * i for part in shown.values() for i in part],
            "label": [name for name, part in shown.items() for _ in part],
        }
    )
    found = model.adapt(examples, among="new").predict_proba([1000, 1003])
    assert found.names == ["1000", "1003"]
    assert [model.graph.node_names[i] for i in found.nodes.tolist()] == found.names
    model.save(tmp_path / "model")
    again = FewShotClassifier.load(tmp_path / "model").attach(edges=edges, nodes=nodes)
    assert torch.equal(again.graph.x.to_dense(), model.graph.x.to_dense())
    ids = {name: [1000 + 3 * i for i in part] for name, part in shown.items()}
    assert torch.equal(again.adapt(ids, among="new").predict_proba([1000, 1003]).probabilities, found.probabilities)
    with pytest.raises(InputError, match="no node 7 in the graph"):
        again.predict([7])
    ready = FewShotClassifier.load(tmp_path / "model")  # the folder holds the graph and its table
    assert torch.equal(ready.adapt(ids, among="new").predict_proba([1000, 1003]).probabilities, found.probabilities)
    shown = ready.source.node_columns(["1003", "1000"], ["title"])["title"]
    assert shown == [" ".join(f"word{w}" for w in graph.features_scipy()[i].indices) for i in (1, 0)]


def test_networkx_with_ids_of_any_kind(made):
    graph, names, shown = made
    source = networkx.Graph()
    x = graph.features_scipy().toarray()
    for i, name in enumerate(names):
        source.add_node(("node", i), x=x[i], **({} if name is None else {"label": name}))
    source.add_edges_from((("node", a), ("node", b)) for a, b in graph.edge_arrays()["edge_index"].T.tolist())
    model = FewShotClassifier("probe").fit(source)
    model.adapt({name: [("node", i) for i in part] for name, part in shown.items()}, among="new")
    assert model.predict_proba([("node", 5)]).nodes.tolist() == [5]


def test_arrays_and_adjacencies(made):
    graph, names, shown = made
    models = [
        FewShotClassifier("probe").fit(given, x=graph.features_scipy(), y=names)
        for given in (graph.to_scipy(), graph.edge_arrays()["edge_index"])
    ]
    first, second = (model.adapt(shown, among="new").predict_proba().probabilities for model in models)
    assert torch.equal(first, second)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give either a graph or edges="),
        ((7,), "a value of type int is not a supported graph"),
        ((np.ones((3, 3)), [0, 1, 2]), "the second argument is a list, not a ClassSplit"),
        ((sp.eye_array(3), None), "labelled|classes|nothing"),
    ],
)
def test_what_cannot_be_fitted_is_said(arguments, message):
    with pytest.raises(InputError, match=message):
        FewShotClassifier("vantage").fit(*arguments).adapt({"a": [0], "b": [1]})


def test_frames_that_cannot_be_used_are_named(frame):
    edges = frame({"source": ["a", "b"], "target": ["b", "c"]})
    model = FewShotClassifier("probe")
    with pytest.raises(InputError, match="x= belongs to arrays"):
        model.fit(edges, x=np.ones((3, 1)))
    with pytest.raises(InputError, match="nodes is a list"):
        model.fit(edges, nodes=[1])
    with pytest.raises(InputError, match="unknown option 'weigth_column'"):
        model.fit(edges, weigth_column="w")
    with pytest.raises(
        InputError, match=r"not clear which of .* holds the node ids\. Name the two columns id and label"
    ):
        read_examples(frame({"a": [1], "b": [2], "c": [3]}))
    with pytest.raises(InputError, match="it is empty; every example needs an id and a label"):
        read_examples(frame({"id": ["n"], "label": [None]}))


@pytest.mark.parametrize("names", [("package", "class"), ("package", "what")])
def test_classes_that_are_called_like_nodes_are_told_from_them(names):
    """Two packages, ruby and ocaml, have classes of their name."""
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    rows = [("gem", "ruby"), ("rake", "ruby"), ("dune", "ocaml")]
    graph = Graph.from_edges([[0, 1, 2], [3, 3, 4]], node_names=["gem", "rake", "dune", "ruby", "ocaml"])
    found = read_examples(pandas.DataFrame(rows, columns=names), graph=graph)
    assert found == {"ruby": ["gem", "rake"], "ocaml": ["dune"]}


def test_examples_without_a_row_of_names_are_refused(frame):
    graph = Graph.from_edges([[0, 1], [1, 2]], node_names=["n1", "n2", "name"])
    with pytest.raises(InputError, match=r"its first row, 'n1', 'mule', is like those below.*for example id,label"):
        read_examples(frame({"n1": ["n2"], "mule": ["mule"]}), graph=graph)
    named = read_examples(frame({"name": ["n2"], "label": ["mule"]}), graph=graph)
    assert named == {"mule": ["n2"]}, "a usual name is a name, although a node is called so too"


@pytest.mark.parametrize("missing", ["NA", "n/a", "nan", "None", "?"])
def test_an_example_whose_label_is_missing_is_no_class(frame, missing):
    columns = {"id": ["a", "b"], "label": ["mule", missing]}
    with pytest.raises(InputError, match=rf"row 2.*'label': '{re.escape(missing)}' is a missing value"):
        read_examples(frame(columns))
    assert read_examples(frame(columns | {"age": [1, 2]})) == {"mule": ["a"]}, "of a table of nodes"
    assert missing in read_examples(frame(columns), known={missing}), "a class of the graph is called so"


def test_read_examples_other_forms():
    with pytest.raises(InputError, match=r"examples are \{class: \[nodes\]\}.*not list"):
        read_examples(["a"])
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    series = pandas.Series(["u", "v", "u"], index=[4, 5, 6])
    assert read_examples(series) == {"u": ["4", "6"], "v": ["5"]}
    grouped = pandas.DataFrame({"kind": ["u", "v", "u"], "id": [4, 5, 6]}).groupby("kind")["id"].apply(list)
    assert read_examples(grouped) == {"u": [4, 6], "v": [5]}


def test_numbers_of_nodes_and_ids_that_are_numbers():
    graph = Graph.from_edges([[0, 1], [1, 2]], node_names=["2", "1", "0"])
    find = fewnode.classifier.inputs.find_nodes
    assert find(graph, [2, 1], "here").tolist() == [0, 1]  # ids, because the graph's ids are whole numbers
    assert find(graph, torch.tensor([2, 1], dtype=torch.int), "here").tolist() == [2, 1]
    assert find(graph, torch.tensor([2, 1]), "here").tolist() == [2, 1]  # numbers of nodes, as predictions name them
    named = Graph.from_edges([[0, 1], [1, 2]], node_names=["a", "b", "c"])
    assert find(named, [2, "b"], "here").tolist() == [2, 1]
    assert find(named, torch.tensor([True, False, True]), "here").tolist() == [0, 2]  # a mask
    for wrong, message in (
        ("abc", "give a list of nodes, not a str"),
        (5, "give a list of nodes, not 5"),
        ([9], "no node 9; ids are 0..2"),
        (torch.tensor([1, 9]), "no node 9; ids are 0..2"),
        (torch.tensor([True]), "no node True"),
        ([True], "no node True"),
        ({"a": 1}, "give a list of nodes, not a dict"),
    ):
        with pytest.raises(InputError, match=message):
            find(named, wrong, "here")
