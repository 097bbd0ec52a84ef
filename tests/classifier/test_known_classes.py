"""Known classes from all their labels: the solver, label propagation, and that a node's own label is not used."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.linear_model import LogisticRegression

from fewnode.classifier.known_classes import (
    HopFeatures,
    KnownClassModel,
    LabelPropagation,
    NodeInputs,
    _loss_and_gradient,
    linear,
    logistic_regression,
    one_hot,
)
from fewnode.graph import Graph
from fewnode.graph.operators import mean_adjacency, normalized_adjacency
from fewnode.nn.features import tfidf
from fewnode.nn.views import Views


def test_the_solver_finds_what_scikit_learn_finds():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 200)
    x = (rng.normal(size=(3, 5))[y] + rng.normal(size=(200, 5))).astype(np.float32)
    parts = torch.from_numpy(x), torch.from_numpy(y), torch.arange(200), torch.zeros(6, 3)
    weights = logistic_regression(*parts, penalty=2.0, steps=200)
    other = LogisticRegression(C=0.5, tol=1e-8, max_iter=1000).fit(x, y)
    ours = linear(torch.from_numpy(x), weights).softmax(1).numpy()
    np.testing.assert_allclose(ours, other.predict_proba(x), atol=2e-3)


def test_the_order_of_the_rows_does_not_show_in_the_answers():
    """Principal directions differ by orders of magnitude in length, and the steps end before the minimum."""
    rng = np.random.default_rng(0)
    y = torch.from_numpy(rng.integers(0, 20, 2000))
    lengths = torch.logspace(1, -2, 100)
    x = lengths * torch.from_numpy(0.3 * rng.normal(size=(20, 100))[y] + rng.normal(size=(2000, 100))).float()
    start = torch.zeros(101, 20)
    nodes = torch.arange(2000)
    one, other = (logistic_regression(x, y, order, start, 1.0) for order in (nodes, nodes.flip(0)))
    # how rounding grows along the steps depends on the processor: 0.5 to 2e-4 were seen
    assert torch.allclose(linear(x, one).softmax(1), linear(x, other).softmax(1), atol=4e-4)
    best = logistic_regression(x, y, nodes, start, 1.0, steps=500)
    penalised = [float(w[:-1].square().sum()) / (2 * len(y)) for w in (one, best)]
    loss = [_loss_and_gradient(x, w, (nodes, y))[0] / len(y) + p for w, p in zip((one, best), penalised, strict=True)]
    assert loss[0] < loss[1] + 0.01


def test_propagated_labels_are_class_shares_and_nothing_where_none_arrive():
    graph = Graph.from_edges([[0, 1], [1, 2]], None, [0, -1, 1, -1])  # 3 is alone
    y = graph.y
    found = list(LabelPropagation.of(normalized_adjacency(graph), y, 2).terms(slice(0, 2)))
    assert all(torch.allclose(part[:3].exp().sum(1), torch.ones(3), atol=1e-2) for part in found)
    labels_far, labels_near = found
    assert labels_far[3].tolist() == labels_near[3].tolist() == [0, 0]
    assert float(labels_near[1].exp()[0]) == float(labels_near[1].exp()[1])
    assert one_hot(y, 2).tolist() == [[1, 0], [0, 0], [0, 1], [0, 0]]


def test_the_own_label_of_a_node_is_not_used():
    """Where nodes have no neighbours, labels reach no other node: they must be worth nothing."""
    rng = np.random.default_rng(0)
    y = torch.from_numpy(rng.integers(0, 3, 300))
    x = torch.from_numpy(rng.normal(size=(300, 4)).astype(np.float32))
    graph = Graph.from_edges(np.zeros((2, 0), int), x.numpy(), y.numpy())
    inputs = NodeInputs(x, normalized_adjacency(graph), graph.ranks)
    model, _ = KnownClassModel.fit(inputs, y)
    logits, _ = model.logits(inputs, torch.where(torch.arange(300) < 150, y, -1))
    told, silent = logits[:150].softmax(1), logits[150:].softmax(1)
    right = told.gather(1, y[:150, None]).mean()
    assert float(model.mix[2:].abs().max()) < 0.5 and float(right) < 0.55 and float(silent.max()) < 0.8


def test_blanked_nodes_are_recognised_better_than_by_neighbours_or_coordinates_alone(planted):
    inputs, y = planted.model.inputs(planted.graph), planted.y
    model, _ = KnownClassModel.fit(inputs, y)
    logits, _ = model.logits(inputs, y)
    blanked = (y < 0) & (planted.truth < 9)

    def accuracy(answer: torch.Tensor) -> float:
        return float((answer.argmax(1) == planted.truth)[blanked].float().mean())

    far, near = LabelPropagation.of(inputs.edges, y, 9).terms(slice(0, 9))
    assert accuracy(logits) > 0.95 and accuracy(logits) >= max(accuracy(far), accuracy(near))


def test_a_refitted_model_knows_the_classes_it_is_given(planted):
    inputs = planted.model.inputs(planted.graph)
    model, _ = KnownClassModel.fit(inputs, planted.y)
    fewer = torch.where(planted.y > 5, -1, planted.y)
    again = model.refit(inputs, fewer)
    assert again.weights.shape[1] == 6 and torch.equal(again.mix, model.mix)
    seen = fewer >= 0
    answer = again.logits(inputs, fewer)[0].argmax(1)
    assert float((answer == fewer)[seen].float().mean()) > 0.95


def test_blocks_of_classes_and_some_nodes_give_the_same(planted):
    inputs, y, model = planted.model.inputs(planted.graph), planted.y, planted.model.known
    whole, _ = model.logits(inputs, y)
    nodes = torch.tensor([5, 400, 7])
    torch.testing.assert_close(model.logits(inputs, y, nodes)[0], whole[nodes])
    labels = LabelPropagation.of(inputs.edges, y, 9)
    blocks = torch.cat([labels.at(nodes, slice(*ends)) for ends in ((0, 4), (4, 5), (5, 9))], 2)
    torch.testing.assert_close(blocks, labels.at(nodes, slice(0, 9)))
    torch.testing.assert_close(blocks, model.terms(nodes, inputs, y)[2:])


@pytest.mark.parametrize("sparse", [True, False])
def test_features_around_a_node_are_projected_before_they_are_aggregated(sparse: bool):
    """Against the matrix of features at the node, beside it and over two steps, formed in full."""
    rng = np.random.default_rng(0)
    x = (rng.random((60, 9)) < 0.3).astype(np.float32) * (1 if sparse else rng.normal(size=(60, 9)).astype(np.float32))
    edges = rng.integers(0, 60, (2, 150))
    graph = Graph.from_edges(edges, sp.csr_matrix(x) if sparse else x, np.zeros(60, int), blocks={})
    views = Views(9).fit(graph)
    features = HopFeatures.of(graph, views.sources(graph))
    rows = tfidf(graph.x, views.features.idf).to_dense() if sparse else graph.x - graph.x.mean(0)
    rows = rows if sparse else rows / rows.square().sum(1).mean().sqrt()
    mean = mean_adjacency(graph) @ torch.eye(60)
    whole = torch.cat([rows, mean @ rows, mean @ mean @ rows, torch.ones(60, 1)], 1)
    weights, residual = torch.randn(28, 4), torch.randn(60, 4)
    torch.testing.assert_close(features.logits(weights), whole @ weights, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(features.gradient(residual), whole.T @ residual, atol=1e-4, rtol=1e-4)


def test_rare_words_that_the_coordinates_lose_are_learned():
    """Each class has words of its own, each used by five nodes: too rare for principal components."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 100)
    words = np.zeros((400, 600), np.float32)
    words[:, :200] = rng.random((400, 200)) < 0.03  # common words say nothing
    words[np.arange(400), 200 + 100 * y + rng.integers(0, 20, 400)] = 1
    graph = Graph.from_edges(np.zeros((2, 0), int), sp.csr_matrix(words), y)
    views = Views(600).fit(graph)
    train, test = torch.arange(0, 400, 2), torch.arange(1, 400, 2)
    weights = HopFeatures.of(graph, views.sources(graph)).fit(graph.y, train, 4)
    found = HopFeatures.of(graph, views.sources(graph)).logits(weights).argmax(1)
    assert float((found == graph.y)[test].float().mean()) > 0.6
