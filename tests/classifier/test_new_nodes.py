"""New nodes get the rows that a pass over the whole graph would give them."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse as sp

import fewnode
from fewnode.classifier.inputs import TableSource
from fewnode.classifier.known_classes import HopFeatures, NodeInputs
from fewnode.classifier.new_nodes import Neighbourhood, NewNodes
from fewnode.classifier.novelty import node_features, propagated_masses
from fewnode.classifier.open_set import OpenSetModel, views_of
from fewnode.errors import InputError
from fewnode.graph import Graph
from fewnode.graph.arrays import GraphCache
from fewnode.graph.edge_types import EdgeUse, union
from fewnode.graph.operators import mean_adjacency, normalized_adjacency
from fewnode.nn.features import tfidf
from fewnode.nn.views import neighbour_lists
from fewnode.store import MEMORY
from oracles.views import six_views

N, NEW, CLASSES = 400, 40, 6


def whole(kind: str, seed: int = 0) -> Graph:
    """A planted graph whose last nodes are added later, without labels."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, CLASSES, N)
    pairs = [(i, j) for i in range(N) for j in (*rng.choice(np.flatnonzero(true == true[i]), 3), rng.integers(N))]
    width = (
        600 if kind == "blocks" else 300 if kind == "words" else 14
    )  # wider than the views: then the features count one by one too
    x = rng.normal(size=(N, width)).astype(np.float32)
    x += (1 if kind == "kinds" else 2) * np.eye(width, dtype=np.float32)[true]
    y = np.where((rng.random(N) < 0.7) & (np.arange(N) < N - NEW), true, -1)
    names, classes = [f"n{i}" for i in range(N)], [f"c{i}" for i in range(CLASSES)]
    features = sp.csr_matrix(np.floor(np.abs(x))) if kind == "words" else x
    weight = rng.exponential(5.0, len(pairs)) if kind == "weights" else None
    if kind == "kinds":  # who names whom, and the fourth edge of each node is of another kind
        more = {"edge_type": np.arange(len(pairs)) % 4 == 3, "directed": True}
        return Graph.from_edges(np.array(pairs).T, features, y, node_names=names, class_names=classes, **more)
    named = {"node_names": names, "class_names": classes, "edge_weight": weight}
    if kind == "blocks":  # words, and a vector of which some nodes have none
        vectors = sp.csr_matrix(x[:, :20] * (rng.random((N, 1)) < 0.9))
        features = sp.hstack([np.floor(np.abs(x)) / 10, vectors]).tocsr()
        named["blocks"] = {"words": width, "vectors": 20}
    return Graph.from_edges(np.array(pairs).T, features, y, **named)


def halves(graph: Graph) -> tuple[Graph, Graph, list[tuple[str, str]]]:
    """The old graph, the new nodes with the edges among them, and the edges between both."""
    old = torch.arange(N) < N - NEW
    arcs = graph.to_scipy()[N - NEW :][:, : N - NEW].tocoo()
    edges = [(f"n{N - NEW + a}", f"n{b}", w) for a, b, w in zip(arcs.row, arcs.col, arcs.data, strict=True)]
    return graph.subgraph(old), graph.subgraph(~old), edges


def in_full(graph: Graph, model: OpenSetModel) -> OpenSetModel:
    """All rows of the whole graph, with the bases, means, frame and head of the model."""
    sources, known, y = model.sources, model.known, graph.y
    graph = union(model.use.seen(graph))
    normal, mean = normalized_adjacency(graph), mean_adjacency(graph)
    sparse = graph.x.layout == torch.sparse_csr
    words = (tfidf(graph.x, sources.idf) if sparse else graph.x - sources.centre) @ sources.words
    links = neighbour_lists(graph) @ torch.cat([sources.links, torch.zeros(NEW, sources.links.shape[1])])
    h = six_views(normal, mean, words, links)
    x = model.pca.transform(sources.centred(h))
    hops = HopFeatures.of(graph, sources) if len(known.hops) else None
    logits, alone = known.logits(NodeInputs(x, normal, graph.ranks, hops), y)
    features = node_features(x, model.moments, logits, alone, propagated_masses(normal, y))
    return replace(model, x=x, y=y, log_known=logits.log_softmax(1), features=features)


@pytest.fixture(scope="module", params=["numbers", "words", "weights", "blocks"])
def fitted(request):
    graph = whole(request.param)
    old, new, edges = halves(graph)
    classifier = fewnode.FewShotClassifier("probe", k_shot=3).fit(old)
    unlabelled = (old.y < 0).nonzero().flatten().tolist()
    classifier.adapt({"odd": unlabelled[:3], "even": unlabelled[3:5]})
    classifier.given = old  # as it was before its columns were brought to one unit
    return classifier, classifier.schema.fit(graph), new, edges


def test_the_labels_are_those_of_a_pass_over_the_whole_graph(fitted):
    classifier, graph, new, edges = fitted
    found = classifier.predict_proba(new_nodes=new, new_edges=edges)
    assert found.names == [f"n{i}" for i in range(N - NEW, N)] and found.nodes[0] == N - NEW
    model = in_full(graph, classifier.open_set_model())
    same = replace(classifier.question, model=model).probabilities(torch.arange(N - NEW, N))
    assert (same.argmax(1) == found.probabilities.argmax(1)).float().mean() >= 0.97  # one of forty may differ
    assert (same - found.probabilities).abs().mean() < 0.02


def test_two_steps_and_a_node_without_edges_are_exact(fitted):
    classifier, graph, new, _ = fitted
    old, world = classifier.graph, classifier.open_set_model(inductive=True)
    rows = torch.arange(N - NEW, N)
    arcs = torch.from_numpy(np.stack(graph.to_scipy()[N - NEW :].nonzero()))
    arcs[0] += N - NEW
    arcs = torch.cat([arcs, arcs[:, arcs[1] < N - NEW].flip(0)], 1)
    x, unknown = classifier.schema.fit(new).x, torch.full((NEW,), -1)
    added = NewNodes(new, x, unknown, arcs, torch.ones(arcs.shape[1]))
    graph, old = (replace(part, weights=None, cache=GraphCache()) for part in (graph, old))
    around = Neighbourhood(old, added)
    h = torch.randn(N, 5, generator=torch.Generator().manual_seed(0))
    means = (mean_adjacency(old) @ h[: N - NEW])[around.touched]
    mean = mean_adjacency(graph)
    expected = (mean @ (mean @ h))[rows]
    torch.testing.assert_close(around.two_steps(torch.cat([h[rows], h[around.touched]]), means), expected)
    alone = replace(added, arcs=arcs[:, :0], weights=added.weights[:0]).rows(old, world)
    ends = torch.stack([torch.repeat_interleave(torch.arange(N), graph.degree), graph.indices.long()])
    without = in_full(graph.with_arcs((ends < N - NEW).all(0)), world)
    torch.testing.assert_close(alone.features, without.features[rows], atol=0.02, rtol=0.01)


def test_a_node_without_edges_is_joined_to_those_most_like_it(fitted):
    classifier, _, new, edges = fitted
    model = classifier.open_set_model(inductive=True)
    pairs = [edge for edge in edges if edge[0] == "n360"]
    alone = new.with_arcs(torch.zeros(len(new.indices), dtype=bool))
    given = NewNodes.of(classifier.graph, classifier.schema, model, None, alone, pairs)
    joined = given._with_nearest(classifier.graph, model)
    assert joined.arcs.shape[1] == given.arcs.shape[1] + 2 * 5 * (NEW - 1)
    more = joined.arcs[:, given.arcs.shape[1] :]
    first = more[1, more[0] == N - NEW + 1]
    x = torch.nn.functional.normalize(given._words(model.sources)[1:2])
    like = (x @ torch.nn.functional.normalize(model.cached["words"].float()).T)[0]
    assert set(first.tolist()) == set(like.topk(5).indices.tolist())


def test_a_saved_model_answers_the_same(fitted, tmp_path):
    classifier, _, new, edges = fitted
    expected = classifier.predict_proba(new_nodes=new, new_edges=edges).probabilities
    old = classifier.given
    classifier.save(tmp_path / "m")
    loaded = fewnode.FewShotClassifier.load(tmp_path / "m").attach(old)
    loaded.adapt({name: nodes.tolist() for name, nodes in classifier.task.examples.items()})
    torch.testing.assert_close(
        loaded.predict_proba(new_nodes=new, new_edges=edges).probabilities, expected, atol=2e-3, rtol=1e-2
    )


def test_further_labels_of_known_classes_count_for_new_nodes(fitted):
    classifier, _, new, edges = fitted
    first = copy.copy(classifier)
    free = sorted(
        set((first.graph.y < 0).nonzero().flatten().tolist()) - set(torch.cat([*first.support.values()]).tolist())
    )
    examples = {name: nodes.tolist() for name, nodes in first.support.items()}
    first._open_set_model = replace(first.open_set_model(), cached=None)  # as before any new node
    first.adapt({**examples, first.open_set_model().classes[0]: free[:30]})
    taught = first.task.model
    assert taught.cached is None and taught.known is not first.open_set_model().known
    found = first.predict_proba(new_nodes=new, new_edges=edges)
    assert first.task.model.known is taught.known
    state = taught.cached_state(first.graph, views_of(first.model, first.graph), MEMORY)
    added = NewNodes.of(first.graph, first.schema, taught, None, new, edges)
    expected = added.predicted(first.graph, replace(first.task, model=replace(taught, cached=state)))
    assert torch.equal(found.probabilities, expected.probabilities)


def test_edges_beside_a_graph_of_new_nodes_may_be_a_table(fitted):
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    classifier, _, new, edges = fitted
    table = pandas.DataFrame(edges, columns=["source", "target", "weight"])
    classifier = copy.copy(classifier)
    classifier.source = TableSource(columns={"weight_column": "weight"})
    pairs, same = (classifier.predict_proba(new_nodes=new, new_edges=given) for given in (edges, table))
    assert torch.equal(pairs.probabilities, same.probabilities)
    classifier.source = TableSource(columns={"edge_type_column": "weight"})
    with pytest.raises(InputError, match="holds all edges, also those among the new nodes"):
        classifier.predict_proba(new_nodes=new, new_edges=table)


def test_a_label_of_a_new_node_counts_for_its_neighbours(fitted):
    classifier, _, new, edges = fitted
    unknown = new.with_labels(torch.full((NEW,), -1))
    other = next(i for i in range(NEW) if new.degree[i] > 0)
    neighbour = int(new.indices[new.indptr[other]])
    y = unknown.y.clone()
    y[neighbour] = 2
    answers = []
    for given in (unknown, unknown.with_labels(y)):
        found = classifier.predict_proba(new_nodes=given, new_edges=edges)
        answers.append(float(found.probabilities[other, found.classes.index("c2")]))
    assert answers[1] > answers[0]


def test_what_cannot_be_appended_is_refused_by_name(fitted):
    classifier, _, new, edges = fitted
    refused = [
        (
            classifier.graph.subgraph(torch.arange(N - NEW) < 3),
            [],
            "row 1 of the new nodes: node 'n0' is in the graph already",
        ),
        (new, [("n360", "nobody")], "new edge 1: there is no node 'nobody' in the graph, nor among the new nodes"),
        (new, [("n0", "n1")], "joins two nodes that were there before"),
        (new.with_features(torch.ones(NEW, 3)), [], "feature columns"),
        (new.with_features(None), [], "this graph has no features"),
    ]
    for nodes, pairs, words in refused:
        with pytest.raises(InputError, match=words):
            classifier.predict_proba(new_nodes=nodes, new_edges=pairs)
    named = Graph.from_edges(np.zeros((2, 0), int), new.features_scipy(), [0] * NEW, class_names=["wizard"])
    with pytest.raises(InputError, match="label 'wizard', which is no class of the fitted graph"):
        classifier.predict_proba(new_nodes=named, new_edges=[])
    closed = copy.copy(classifier).adapt(
        {name: nodes.tolist() for name, nodes in classifier.task.examples.items()}, among="new"
    )
    with pytest.raises(InputError, match="open-set predictions"):
        closed.predict_proba(new_nodes=new, new_edges=edges)


def test_tables_are_read_as_those_of_the_fitting(tmp_path):
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    rng = np.random.default_rng(0)
    kind = np.arange(120) % 4
    nodes = pandas.DataFrame(
        {"key": [f"k{i}" for i in range(120)], "label": [f"c{k}" if k < 3 else None for k in kind]}
    )
    nodes[["a", "b"]] = 3 * np.eye(4)[kind][:, :2] + rng.normal(size=(120, 2))
    nodes["town"] = np.where(kind % 2, "Bonn", "Ulm")
    other = (np.arange(120) + 4 * rng.integers(1, 20, 120)) % 120
    edges = pandas.DataFrame({"from": nodes["key"], "to": nodes["key"].to_numpy()[other]})
    classifier = fewnode.FewShotClassifier("probe", k_shot=3).fit(nodes=nodes, edges=edges)
    classifier.adapt({"new": ["k3", "k7", "k11"]})
    later = nodes.iloc[[0, 3]].drop(columns="label").assign(key=["late0", "late3"])
    joined = pandas.DataFrame({"from": ["late0", "late3", "late3"], "to": ["k4", "k7", "k15"]})
    found = classifier.predict_proba(new_nodes=later, new_edges=joined)
    assert found.names == ["late0", "late3"] and found.labels()[1] == "new"
    records, pairs = later.to_dict("records"), joined.to_numpy().tolist()
    for given, ends in ((records, pairs), (records, joined.to_dict("records")), (later, pairs)):
        same = classifier.predict_proba(new_nodes=given, new_edges=ends)
        torch.testing.assert_close(same.probabilities, found.probabilities)
    one = classifier.predict_proba(new_nodes=records[1:], new_edges=pairs[1:])  # as when they come one by one
    torch.testing.assert_close(one.probabilities, found.probabilities[1:], atol=1e-3, rtol=1e-2)
    alone = classifier.predict(new_nodes=records)  # nobody knows them yet
    assert len(alone) == 2 and list(alone) == list(classifier.predict(new_nodes=later, new_edges=[]))
    among = classifier.predict_proba(new_nodes=records, new_edges=[("late0", "late3")])
    assert not torch.equal(among.probabilities, classifier.predict_proba(new_nodes=records).probabilities)
    later.assign(key=["more0", "more3"]).to_csv(tmp_path / "n.csv", index=False)
    (tmp_path / "e.csv").write_text("from,to\nmore0,k4\nmore3,k7\n")
    assert classifier.predict_proba(new_nodes=tmp_path / "n.csv", new_edges=tmp_path / "e.csv").names == [
        "more0",
        "more3",
    ]
    wrong = [
        ([{**records[0], "key": ""}], (), "the node id is missing"),
        ([records[0], records[0]], (), "node id 'late0' is already used in row 1"),
        ([{"key": "late0", "a": 1}], (), r"lacks 2 of them \('town', 'b'\)"),
        ([{**records[0], "age": 4}], (), r"has 1 others \('age'\)"),
        (records, [{"from": "late0"}], "new edge 1 is {'from': 'late0'}; write"),
        (records, [("late0",)], r"new edge 1 is \('late0',\)"),
        (records, [("late0", "nobody")], "there is no node 'nobody' in the graph, nor among the new nodes"),
        (records, [("k0", "k1")], "joins two nodes that were there before"),
    ]
    for given, ends, words in wrong:
        with pytest.raises(InputError, match=words):
            classifier.predict(new_nodes=given, new_edges=ends)
    with pytest.raises(InputError, match="give either nodes of the graph or new_nodes="):
        classifier.predict(["k1"], new_nodes=records)
    with pytest.raises(InputError, match="'k0' is in the graph already"):
        classifier.predict_proba(new_nodes=nodes.iloc[:1], new_edges=edges.iloc[:1])


def later(graph: Graph) -> tuple[TableSource, Graph, list[dict[str, str]]]:
    """The new nodes without edges, all edges that name one of them, and how the columns of these are called."""
    arrays = graph.edge_arrays()
    touching = (arrays["edge_index"] >= N - NEW).any(0)
    source, target = ([graph.node_names[i] for i in part] for part in arrays["edge_index"][:, touching])
    types = [graph.edge_types.names[i] for i in arrays["edge_type"][touching]]
    nodes, columns = graph.subgraph(torch.arange(N) >= N - NEW), ("source", "target", "kind")
    edges = [dict(zip(columns, row, strict=True)) for row in zip(source, target, types, strict=True)]
    how = TableSource(columns={"edge_type_column": "kind"}, options={"directed": True})
    return how, nodes.with_arcs(torch.zeros(len(nodes.indices), dtype=bool)), edges


def test_weights_of_edge_types_count_in_new_edges_in_explanations_and_after_loading(tmp_path, monkeypatch):
    use = EdgeUse(weights={"False": 1.0, "True": 0.2}, types=("False", "True"))
    monkeypatch.setattr(EdgeUse, "learned", lambda graph: use)
    graph = whole("kinds")
    old = graph.subgraph(torch.arange(N) < N - NEW)
    classifier = fewnode.FewShotClassifier("vantage", k_shot=3, rank=16, steps=0).fit(old)
    unlabelled = (old.y < 0).nonzero().flatten().tolist()
    examples = {"odd": unlabelled[:3], "even": unlabelled[3:5]}
    world = classifier.adapt(examples).open_set_model(inductive=True)
    came = NewNodes.of(classifier.graph, classifier.schema, world, *later(graph))
    rows = came.rows(classifier.graph, world)
    model = in_full(classifier.schema.fit(graph), world)
    assert torch.nn.functional.cosine_similarity(rows.x, model.x[N - NEW :]).min() > 0.94
    same = replace(classifier.question, model=model).probabilities(torch.arange(N - NEW, N))
    found = replace(classifier.question, model=rows).probabilities(torch.arange(NEW))
    assert (same.argmax(1) == found.argmax(1)).float().mean() >= 0.95
    classifier.save(tmp_path / "model")
    again = fewnode.FewShotClassifier.load(tmp_path / "model").attach(old.fresh()).adapt(examples)
    first, second = classifier.predict_proba(), again.predict_proba()
    assert again.question.model.use == use == again.model.views.use
    torch.testing.assert_close(first.probabilities, second.probabilities, atol=1e-3, rtol=1e-2)
    told = again.explain(unlabelled[6])
    assert told.probability == pytest.approx(float(second.probabilities[unlabelled[6]].max()))
    assert any(one.influence for one in told.neighbours)


def test_weighted_edges_are_appended_where_the_fit_left_weights_aside():
    graph = whole("weights")  # drawn by lot
    old, new, edges = halves(graph)
    classifier = fewnode.FewShotClassifier("vantage", k_shot=3, rank=16, steps=0).fit(old)
    assert not classifier.model.views.use.weighted
    unweighted = EdgeUse(weighted=False)
    plain = fewnode.FewShotClassifier("vantage", k_shot=3, rank=16, steps=0).fit(unweighted.seen(old))
    examples = {"odd": (old.y < 0).nonzero().flatten().tolist()[:3]}
    found = classifier.adapt(examples).predict_proba(new_nodes=new, new_edges=edges)
    same = plain.adapt(examples).predict_proba(new_nodes=unweighted.seen(new), new_edges=[edge[:2] for edge in edges])
    assert torch.equal(found.probabilities, same.probabilities)
