"""Explanations: every influence is what happens when the example, the edge or the column is really taken away."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse as sp

import own_graph
from fewnode.classifier.classifier import FewShotClassifier
from fewnode.classifier.explain import CutWalks, OpenSetExplainer, embeddings_of, given_labels, without_edges
from fewnode.classifier.known_classes import PROPAGATION, SMOOTHING, HopFeatures, linear, one_hot
from fewnode.classifier.novelty import node_features, propagated_masses
from fewnode.classifier.open_set import OpenSetModel
from fewnode.errors import InputError
from fewnode.graph import Graph
from fewnode.graph.edge_types import EdgeUse, union
from fewnode.graph.operators import mean_adjacency, normalized_adjacency
from fewnode.nn.features import rarities, tfidf
from fewnode.nn.views import FAR_STEPS, NEAR_STEPS, Views, lengths
from oracles.views import six_views

pytestmark = pytest.mark.usefixtures("worlds_once")
N, CLASSES = 90, 4


# Closed-set classification


@pytest.fixture(scope="module")
def closed(learned) -> FewShotClassifier:
    return copy.copy(learned).adapt(own_graph.examples(), among="new")


def test_probabilities_margins_and_the_nearest_examples(closed):
    found = closed.explain("n70")
    p = closed.predict_proba(["n70"]).probabilities[0]
    assert found.label == closed.predict_proba(["n70"]).labels()[0] and found.probability == pytest.approx(
        float(p.max())
    )
    assert list(found.margins.values()) == pytest.approx([float(p.max() - p.min())])
    assert len(found.examples) == 5 and found.examples[0].label == found.label
    similar = [example.similarity for example in found.examples]
    assert similar == sorted(similar, reverse=True) and max(similar) <= 1 + 1e-6


def test_closed_set_influence_of_an_example_is_what_leaving_it_out_does(closed, classifier):
    found = closed.explain("n70")
    example = found.examples[0]
    fewer = {name: [n for n in nodes if n != example.node] for name, nodes in own_graph.examples().items()}
    other = classifier.adapt(fewer, among="new")
    other.task = replace(other.task, calibration=closed.calibration)
    p = dict(zip(other.classes_, other.predict_proba(["n70"]).probabilities[0].tolist(), strict=True))
    runner_up = next(iter(found.margins))
    left = p[found.label] - p[runner_up]
    assert example.influence == pytest.approx(found.margins[runner_up] - left, abs=1e-5)


def test_closed_set_influence_of_a_neighbour_is_what_cutting_the_edge_does(closed):
    found = closed.explain("n70", n_neighbours=1)
    neighbour = found.neighbours[0]
    assert [n.influence is None for n in found.neighbours] == [False] + [True] * (found.degree - 1)
    assert sum(n.weight for n in found.neighbours) == pytest.approx(1)
    edges, x, _ = own_graph.arrays()
    pair = {70, int(neighbour.node[1:])}
    kept = [set(edge) != pair for edge in edges.T.tolist()]
    graph = own_graph.graph()
    cut = Graph.from_edges(edges[:, kept], x, graph.y, node_names=graph.node_names, class_names=graph.class_names)
    state = closed.model.embed(closed.schema.fit(cut))
    prototypes = torch.stack([state[nodes].mean(0) for nodes in closed.support.values()])
    scores = torch.nn.functional.cosine_similarity(state[70][None], prototypes)
    p = closed.calibration.probabilities(scores)
    best = closed.classes_.index(found.label)
    left = float(p[best] - p[1 - best])
    assert neighbour.influence == pytest.approx(next(iter(found.margins.values())) - left, abs=1e-4)


def test_the_only_example_of_a_class_and_a_node_without_neighbours():
    edges, x, _ = own_graph.arrays()
    x = np.concatenate([x, x[:1]])
    closed = FewShotClassifier("probe").fit(Graph.from_edges(edges, x)).adapt({"a": [6], "b": [7, 15]}, among="new")
    found = closed.explain(240)
    assert found.neighbours == () and found.degree == 0
    assert {example.label: example.influence is None for example in found.examples} == {"a": True, "b": False}


def test_labelled_neighbours_have_the_label_they_have(closed):
    graph = closed.graph
    found = closed.explain("n16")  # a baker: so are its friends, though only new classes are offered
    assert found.given == "baker" and found.degree > 0
    assert {(one.label, one.labelled) for one in found.neighbours} == {("baker", True)}
    example = int(closed.support["mule"][0])
    given = given_labels(graph, closed.support, torch.tensor([example, 16, 70]))
    assert given == {example: "mule", 16: "baker"}


def test_cutting_an_edge_cuts_both_directions_and_nothing_else():
    graph = Graph.from_edges([[0, 1, 2], [1, 2, 0]], np.eye(3, dtype=np.float32))
    cut = without_edges(graph, 2, [0])
    assert cut.to_scipy().toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert graph.num_edges == 3


def test_embeddings_are_found_in_whatever_a_method_returns():
    rows = torch.zeros(3, 2)
    for state in (rows, (torch.zeros(2, 2), rows), {"h": rows}, [rows, 5]):
        (found,) = embeddings_of(state, 3)
        assert found is rows
    with pytest.raises(TypeError, match="no tensor"):
        embeddings_of((1, 2), 3)


# Rows of one node without some of its edges


def random_graph(kind: str, seed: int = 0) -> Graph:
    rng = np.random.default_rng(seed)
    edges = rng.integers(0, N, (2, 240))
    edges[0, :30] = 5  # a hub
    y = np.where(rng.random(N) < 0.6, np.arange(N) % CLASSES, -1)
    width = 12 if kind == "kinds" else 20  # the views have rank 16: wider features count one by one too
    x = rng.normal(size=(N, width)).astype(np.float32) + 2 * np.eye(width, dtype=np.float32)[np.arange(N) % CLASSES]
    if kind == "words":
        x = sp.csr_matrix(np.floor(np.abs(x)))
    kinds = np.where(np.arange(240) % 3 == 0, "a", "b") if kind == "kinds" else None
    return Graph.from_edges(edges, x, y, directed=kind in ("directed", "kinds"), edge_type=kinds)


def model_of(graph: Graph, use: EdgeUse | None = None) -> OpenSetModel:
    views = Views(graph.num_features, 16, use).fit(graph)
    return OpenSetModel.fit(graph, views, graph.y, tuple(map(str, range(CLASSES))))


def explainer(graph: Graph, model: OpenSetModel, node: int) -> OpenSetExplainer:
    return OpenSetExplainer(graph, model.adapt({}), node)


def without(graph: Graph, node: int, others: list[int]) -> Graph:
    arrays = graph.edge_arrays()
    pairs = [{int(a), int(b)} for a, b in arrays["edge_index"].T]
    keep = np.array([not (node in pair and pair & set(others)) for pair in pairs])
    left = {name: part[..., keep] for name, part in arrays.items()}
    names = None if graph.edge_types is None else graph.edge_types.names
    return Graph.from_edges(
        x=graph.features_scipy(), y=graph.y, directed=graph.directed, num_nodes=N, edge_type_names=names, **left
    )


def rows_in_full(graph: Graph, cut: Graph, model: OpenSetModel, node: int) -> tuple[torch.Tensor, ...]:
    """All views, propagated labels and features on the cut graph; bases, means, head and others' answers stay."""
    graph, cut = union(graph), union(cut)  # edges have no direction here
    sources, known, y = model.sources, model.known, graph.y
    sparse = graph.x.layout == torch.sparse_csr
    words = (tfidf(graph.x, sources.idf) if sparse else graph.x - sources.centre) @ sources.words
    normal, mean = normalized_adjacency(cut), mean_adjacency(cut)

    def lists(of: Graph) -> torch.Tensor:
        return torch.from_numpy((of.to_scipy() + sp.identity(N)).toarray()).float().to_sparse_csr()

    links = tfidf(lists(cut), rarities(lists(graph))) @ sources.links
    h = six_views(normal, mean, words, links)
    x = model.pca.transform(sources.centred(h))
    alone = linear(x, known.weights)
    assert (len(known.hops) > 0) == (graph.num_features > 16)
    if len(known.hops):
        alone = alone + HopFeatures.of(cut, sources).logits(known.hops)
    labels = one_hot(y, CLASSES)
    shares = (labels.sum(0) + 1) / (labels.sum() + CLASSES)
    reached = [normal.smooth(labels, steps, restart) for restart, steps in PROPAGATION]
    masses = [part.sum(1, keepdim=True) + SMOOTHING for part in reached]
    shares_of = [((part + SMOOTHING * shares) / mass).log() for part, mass in zip(reached, masses, strict=True)]
    gated = [part * (1 - SMOOTHING / mass) for part, mass in zip(shares_of, masses, strict=True)]
    logits = alone + sum(w * part for w, part in zip(known.mix[2:], gated, strict=True))
    features = node_features(x, model.moments, logits, alone, propagated_masses(normal, y))
    if cut is graph:
        usual = (tfidf(graph.x, sources.idf) if sparse else graph.x - sources.centre).to_dense()
        for operator, found in ((mean @ (mean @ usual), 1), (normal.smooth(usual, *FAR_STEPS), 3)):
            torch.testing.assert_close(
                operator[lengths(h[found])[:, 0] > 1e-6].mean(0), sources.columns()[found], atol=1e-5, rtol=1e-4
            )
    return x[node], logits[node].log_softmax(0), features[node]


@pytest.mark.parametrize("kind", ["dense", "words", "directed", "kinds"])
def test_rows_without_edges_are_those_of_the_graph_that_lacks_them(kind):
    graph = random_graph(kind)
    model = model_of(graph, EdgeUse(types=("a", "b")) if kind == "kinds" else None)
    nodes = [5, int((graph.y < 0).nonzero()[0]), int((graph.y >= 0).nonzero()[0])]
    for node in nodes:
        around = graph.indices[graph.indptr[node] : graph.indptr[node + 1]].tolist()
        cuts = [[], around[:1], around[-1:], around[:3], around]
        local = explainer(graph, model, node)
        rows = local.rows(local.surroundings(cuts))
        for i, cut in enumerate(cuts):
            x, log_known, features = rows_in_full(graph, without(graph, node, cut) if cut else graph, model, node)
            torch.testing.assert_close(rows.x[i], x, atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(rows.log_known[i], log_known, atol=2e-5, rtol=1e-5)
            torch.testing.assert_close(rows.features[i], features, atol=2e-5, rtol=1e-4)


def test_nothing_cut_gives_the_rows_the_model_has_up_to_the_precision_they_are_kept_in():
    graph = random_graph("words")
    model = model_of(graph)
    local = explainer(graph, model, 7)
    rows = local.rows(local.surroundings([[]]))
    torch.testing.assert_close(rows.x[0], model.x[7], atol=3e-3, rtol=1e-3)
    torch.testing.assert_close(rows.log_known[0], model.log_known[7], atol=3e-3, rtol=1e-3)


def test_walks_keep_what_a_step_does_on_an_isolated_node():
    graph = Graph.from_edges([[0], [1]], np.eye(3, dtype=np.float32))
    walks = CutWalks(graph, 0, [[], [1]])
    (near,) = walks.smoothed([NEAR_STEPS])
    assert walks.two_steps()[:, 0].tolist() == [1, 0, 0]  # there and back
    assert walks.two_steps()[:, 1].tolist() == [0, 0, 0]  # no way to go
    assert near[:, 1].tolist() == pytest.approx([1, 0, 0])


def test_walks_on_weighted_edges_without_some_of_them():
    rng = np.random.default_rng(1)
    graph = Graph.from_edges(rng.integers(0, 20, (2, 50)), num_nodes=20, edge_weight=rng.random(50) + 0.1)
    node = int(graph.degree.argmax())
    start, end = graph.indptr[node : node + 2].tolist()
    gone = graph.indices[start:end].tolist()[:2]
    walks = CutWalks(graph, node, [[], gone])
    a = graph.to_scipy(scaled=True).toarray()
    for column, others in enumerate(([], gone)):
        a[node, others] = a[others, node] = 0
        loops = a + np.eye(20)
        normal = loops / np.sqrt(loops.sum(1)[:, None] * loops.sum(0))
        mean = a / np.where(a.sum(1) > 0, a.sum(1), 1)[:, None]
        h = np.eye(20)
        for _ in range(4):
            h = 0.8 * normal @ h + 0.2 * np.eye(20)
        assert np.allclose(walks.smoothed([(4, 0.2)])[0][:, column], h[node], atol=1e-5)
        assert np.allclose(walks.two_steps()[:, column], (mean @ mean)[node], atol=1e-5)


# Open-set classification


@pytest.fixture(scope="module")
def adapted(learned) -> FewShotClassifier:
    return copy.copy(learned).adapt(own_graph.examples())


def test_probabilities_are_those_of_the_predictions(adapted):
    found, predicted = adapted.explain("n70"), adapted.predict_proba(["n70"])
    p = dict(zip(predicted.classes, predicted.probabilities[0].tolist(), strict=True))
    assert found.probabilities == pytest.approx(p) and found.label == predicted.labels()[0]
    assert list(found.probabilities.values()) == sorted(p.values(), reverse=True)
    assert found.margins == pytest.approx({name: p[found.label] - p[name] for name in p if name != found.label})
    assert found.kind == predicted.table()["kind"][0] == "new" and found.given is None


def test_influence_of_an_example_is_what_leaving_it_out_does(adapted, classifier):
    found = adapted.explain("n70")
    runner_up = next(iter(found.margins))
    for example in (one for one in found.examples if one.influence is not None):
        fewer = {name: [n for n in nodes if n != example.node] for name, nodes in own_graph.examples().items()}
        other = classifier.adapt(fewer).explain("n70").probabilities
        left = other[found.label] - other[runner_up]
        assert example.influence == pytest.approx(found.margins[runner_up] - left, abs=1e-4)
    assert {one.label for one in found.examples} == {found.label, runner_up} - {"other"}
    similar = [one.similarity for one in found.examples]
    assert similar == sorted(similar, reverse=True) and max(similar) <= 1 + 1e-6


def test_known_classes_are_shown_by_their_nearest_labelled_nodes(adapted):
    found = adapted.explain("n16")
    bakers = [one for one in found.examples if one.label == "baker"]
    assert found.label == found.given == "baker" and found.kind == "known" and len(bakers) == 3
    x = adapted.question.model.x
    members = [i for i in range(0, 240, 8) if i != 16]
    cosines = torch.nn.functional.cosine_similarity(x[16][None], x[members])
    assert [one.similarity for one in bakers] == pytest.approx(cosines.topk(3).values.tolist(), abs=1e-5)
    assert all(one.influence is None for one in bakers)
    assert {(one.label, one.labelled) for one in found.neighbours} == {("baker", True)}


def test_influence_of_an_edge_is_the_margin_with_the_rows_made_again(adapted):
    found = adapted.explain("n70", n_neighbours=1)
    assert [n.influence is None for n in found.neighbours] == [False] + [True] * (found.degree - 1)
    model, other = adapted.question.model, int(found.neighbours[0].node[1:])
    local = OpenSetExplainer(adapted.graph, adapted.question, 70)
    margins = []
    for cut in ([], [other]):
        rows = local.rows(local.surroundings([cut]))
        x, log_known, features = model.x.clone(), model.log_known.clone(), model.features.clone()
        x[70], log_known[70], features[70] = (part[0] for part in (rows.x, rows.log_known, rows.features))
        task = replace(adapted.question, model=replace(model, x=x, log_known=log_known, features=features))
        p = dict(zip(task.classes, task.probabilities(torch.tensor([70]))[0].tolist(), strict=True))
        margins.append(p[found.label] - p[next(iter(found.margins))])
    assert found.neighbours[0].influence == pytest.approx(margins[0] - margins[1], abs=1e-5)
    assert margins[0] == pytest.approx(next(iter(found.margins.values())), abs=0.01)  # rows are kept in half precision


def words_graph() -> Graph:
    """Three classes, each with a word of its own; node 0 has that of class 0, and its neighbours too."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % 4
    x = (rng.random((120, 20)) < 0.3).astype(np.float32)
    x[np.arange(120), y] += 2
    edges = np.stack([np.arange(120), (np.arange(120) + 4 * rng.integers(1, 30, 120)) % 120])
    known = np.where((y == 3) | (np.arange(120) < 4), -1, y)
    names = [f"w{i}" for i in range(20)]
    return Graph.from_edges(edges, sp.csr_matrix(x), known, class_names=["a", "b", "c"], feature_names=names)


def test_words_that_speak_for_a_class_are_its_own():
    classifier = FewShotClassifier("probe", k_shot=3).fit(words_graph()).adapt({"new": [7, 11, 15]})
    for node, label, word in ((0, "a", "w0"), (1, "b", "w1"), (3, "new", "w3")):
        found = classifier.explain(node)
        first = found.columns[0]
        assert (found.label, first.name, first.more) == (label, word, True)
        assert first.evidence > 0 and first.own > 0
        evidence = [one.evidence for one in found.columns]
        assert evidence == sorted(evidence, reverse=True) and len(evidence) <= 16


def test_a_change_changes_the_answer(adapted):
    local = OpenSetExplainer(adapted.graph, adapted.question, 70)
    found = local.explain()
    assert found.tried == {"edges": found.degree, "examples": 3, "columns": 6}
    (change,) = [one for one in found.changes if one.what == "columns"]
    columns = [own_graph.COLUMNS.index(name) for name in change.without]
    p = local._columns()[2]([columns, columns[:-1]])
    assert local.classes[int(p[0].argmax())] == change.label != found.label
    assert local.classes[int(p[1].argmax())] == found.label  # none too many
    assert found.to_json()["changes"][0]["what"] == found.changes[0].what


def test_a_graph_without_features_has_no_columns_and_a_lone_node_no_neighbours():
    edges, _, y = own_graph.arrays()
    graph = Graph.from_edges(edges, y=np.append(np.where(y < 6, y, -1), -1))
    found = FewShotClassifier("probe", k_shot=3).fit(graph).adapt({"new": [6, 14]}).explain(240)
    assert found.columns == () and found.neighbours == () and found.degree == 0
    assert found.tried["edges"] == found.tried["columns"] == 0


def test_a_loaded_model_explains_as_before(adapted, tmp_path):
    before = adapted.explain("n70")
    adapted.save(tmp_path / "m")
    loaded = FewShotClassifier.load(tmp_path / "m").attach(own_graph.graph()).adapt(own_graph.examples())
    after = loaded.explain("n70")
    assert after.probabilities == pytest.approx(before.probabilities, abs=1e-6)
    assert [one.name for one in after.columns] == [one.name for one in before.columns]
    for part in ("examples", "neighbours", "columns"):
        kept, given = ([one.influence for one in getattr(found, part)] for found in (after, before))
        assert kept == pytest.approx(given, abs=1e-5)


def test_wrong_nodes_and_numbers_are_refused_by_name(adapted):
    with pytest.raises(InputError, match=r"no node 'n7x0' in the graph; did you mean 'n70'"):
        adapted.explain("n7x0")
    with pytest.raises(InputError, match="-1 neighbours: the number is 0 or more"):
        adapted.explain("n70", n_neighbours=-1)
