"""One node's rows made again are those of a graph that really lacks the edges, where what is held fixed is fixed."""

import numpy as np
import pytest
import torch
from scipy import sparse as sp

from fewnode.classifier.explain import CutWalks, Locality
from fewnode.classifier.known_classes import FAINT, SPREADS, label_matrix, scores
from fewnode.classifier.novelty import node_facts, spread_mass
from fewnode.classifier.open_set import OpenSetModel
from fewnode.graph import Graph
from fewnode.graph.edge_types import EdgeUse, union
from fewnode.graph.operators import mean_adjacency, normalized_adjacency, ppr_smooth
from fewnode.nn.features import rarities, tfidf
from fewnode.nn.views import FAR_STEPS, NEAR_STEPS, Views, centred, filled, further
from oracles.views import six_views

pytestmark = pytest.mark.usefixtures("worlds_once")
N, CLASSES = 90, 4


def random_graph(kind: str, seed: int = 0) -> Graph:
    rng = np.random.default_rng(seed)
    edges = rng.integers(0, N, (2, 240))
    edges[0, :30] = 5  # a hub
    y = np.where(rng.random(N) < 0.6, np.arange(N) % CLASSES, -1)
    x = rng.normal(size=(N, 12)).astype(np.float32) + 2 * np.eye(12, dtype=np.float32)[np.arange(N) % CLASSES]
    if kind == "words":
        x = sp.csr_matrix(np.floor(np.abs(x)))
    kinds = np.where(np.arange(240) % 3 == 0, "a", "b") if kind == "kinds" else None
    return Graph.from_edges(edges, x, y, directed=kind in ("directed", "kinds"), edge_type=kinds)


def world_of(graph: Graph, use: EdgeUse | None = None) -> OpenSetModel:
    views = Views(graph.num_features, 16, use).fit(graph)
    names = tuple(map(str, range(CLASSES)))
    return OpenSetModel.fit(graph, views(graph), graph.y, names, sources=views.sources(graph), use=use)


def without(graph: Graph, node: int, others: list[int]) -> Graph:
    arrays = graph.edge_arrays()
    pairs = [{int(a), int(b)} for a, b in arrays["edge_index"].T]
    keep = np.array([not (node in pair and pair & set(others)) for pair in pairs])
    left = {name: part[..., keep] for name, part in arrays.items()}
    names = None if graph.edge_types is None else graph.edge_types.names
    return Graph.from_edges(
        x=graph.features_scipy(), y=graph.y, directed=graph.directed, num_nodes=N, edge_type_names=names, **left
    )


def rows_in_full(graph: Graph, cut: Graph, world: OpenSetModel, node: int) -> tuple[torch.Tensor, ...]:
    """All views, opinions and facts on the cut graph, with the bases, means, head and others' answers of before."""
    apart, graph, cut = cut, union(graph), union(cut)  # smoothing looks at edges without their direction
    recipe, y = world.recipe, graph.y
    sources, head = recipe.sources, recipe.head
    sparse = graph.x.layout == torch.sparse_csr
    words = (tfidf(graph.x, sources.idf) if sparse else graph.x - sources.centre) @ sources.words
    normal, mean = normalized_adjacency(cut), mean_adjacency(cut)

    def lists(of: Graph) -> torch.Tensor:
        return torch.from_numpy((of.to_scipy() + sp.identity(N)).toarray()).float().to_sparse_csr()

    links = tfidf(lists(cut), rarities(lists(graph))) @ sources.links
    h = [*six_views(normal, mean, words, links), *further(apart, world.use, words, links)]
    x = recipe.frame.coordinates([centred(part, m) for part, m in zip(h, sources.means, strict=True)])
    alone = scores(x, head.weights)
    answers, labels = recipe.answers.clone(), label_matrix(y, CLASSES)
    if y[node] < 0:  # those of other nodes are as before
        answers[node] = alone[node].softmax(0)
    shares = (labels.sum(0) + 1) / (labels.sum() + CLASSES)
    reached = [ppr_smooth(normal, h, steps, restart) for h in (labels, answers) for restart, steps in SPREADS]
    spoken = [((part + FAINT * shares) / (part.sum(1, keepdim=True) + FAINT)).log() for part in reached]
    logits = head.mix[0] * alone + sum(w * opinion for w, opinion in zip(head.mix[1:], spoken, strict=True))
    masses = [spread_mass(normal, part) for part in ((y >= 0).float(), torch.ones(N))]
    facts = node_facts(x, world.moments, logits, alone, *masses)
    if cut is graph:
        usual = (tfidf(graph.x, sources.idf) if sparse else graph.x - sources.centre).to_dense()
        for operator, found in ((mean @ (mean @ usual), 1), (ppr_smooth(normal, usual, *FAR_STEPS), 3)):
            torch.testing.assert_close(
                operator[filled(h[found])].mean(0), sources.columns()[found], atol=1e-5, rtol=1e-4
            )
    return x[node], logits[node].log_softmax(0), facts[node]


@pytest.mark.parametrize("kind", ["dense", "words", "directed", "kinds"])
def test_rows_without_edges_are_those_of_the_graph_that_lacks_them(kind):
    graph = random_graph(kind)
    world = world_of(graph, EdgeUse(relations=("in", "out", "type a"), types=("a", "b")) if kind == "kinds" else None)
    locality = Locality(graph, world.recipe, world.moments, world.y, world.use)
    nodes = [5, int((graph.y < 0).nonzero()[0]), int((graph.y >= 0).nonzero()[0])]
    for node in nodes:
        around = graph.indices[graph.indptr[node] : graph.indptr[node + 1]].tolist()
        cuts = [[], around[:1], around[-1:], around[:3], around]
        rows = locality.rows(node, locality.surroundings(node, cuts))
        for i, cut in enumerate(cuts):
            x, log_known, facts = rows_in_full(graph, without(graph, node, cut) if cut else graph, world, node)
            torch.testing.assert_close(rows.x[i], x, atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(rows.log_known[i], log_known, atol=2e-5, rtol=1e-5)
            torch.testing.assert_close(rows.facts[i], facts, atol=2e-5, rtol=1e-4)


def test_nothing_cut_gives_the_rows_the_model_has_up_to_the_precision_they_are_kept_in():
    graph = random_graph("words")
    world = world_of(graph)
    locality = Locality(graph, world.recipe, world.moments, world.y)
    rows = locality.rows(7, locality.surroundings(7, [[]]))
    torch.testing.assert_close(rows.x[0], world.x[7], atol=3e-3, rtol=1e-3)
    torch.testing.assert_close(rows.log_known[0], world.log_known[7], atol=3e-3, rtol=1e-3)


def test_walks_keep_what_a_step_does_on_an_isolated_node():
    graph = Graph.from_edges([[0], [1]], np.eye(3, dtype=np.float32))
    walks = CutWalks(graph, 0, [[], [1]])
    (near,) = walks.smoothed([NEAR_STEPS])
    assert walks.two_steps()[:, 0].tolist() == [1, 0, 0]  # there and back
    assert walks.two_steps()[:, 1].tolist() == [0, 0, 0]  # no way to go
    assert near[:, 1].tolist() == pytest.approx([1, 0, 0])


def test_answers_are_labels_where_there_are_any():
    graph = random_graph("dense")
    world = world_of(graph)
    labelled = graph.y >= 0
    assert torch.equal(world.recipe.answers[labelled], label_matrix(graph.y, CLASSES)[labelled])


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
