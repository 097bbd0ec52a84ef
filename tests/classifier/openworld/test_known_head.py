"""Known classes by all their labels: the solver, the opinions of neighbours, and that no node hears its own label."""

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

from fewnode.classifier.known_classes import (
    KnownHead,
    label_matrix,
    logistic,
    loss_and_gradient,
    scores,
    spread_opinions,
)
from fewnode.graph import Graph
from fewnode.graph.operators import normalized_adjacency


def test_the_solver_finds_what_scikit_learn_finds():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 200)
    x = (rng.normal(size=(3, 5))[y] + rng.normal(size=(200, 5))).astype(np.float32)
    weights = logistic(torch.from_numpy(x), torch.from_numpy(y), torch.zeros(6, 3), penalty=2.0, steps=200)
    other = LogisticRegression(C=0.5, tol=1e-8, max_iter=1000).fit(x, y)
    ours = scores(torch.from_numpy(x), weights).softmax(1).numpy()
    np.testing.assert_allclose(ours, other.predict_proba(x), atol=2e-3)


def test_the_order_of_the_rows_does_not_show_in_the_answers():
    """Principal directions differ by orders of magnitude in length, and the steps end before the minimum."""
    rng = np.random.default_rng(0)
    y = torch.from_numpy(rng.integers(0, 20, 2000))
    lengths = torch.logspace(1, -2, 100)
    x = lengths * torch.from_numpy(0.3 * rng.normal(size=(20, 100))[y] + rng.normal(size=(2000, 100))).float()
    start = torch.zeros(101, 20)
    one, other = logistic(x, y, start, 1.0), logistic(x.flip(0), y.flip(0), start, 1.0)
    assert torch.allclose(scores(x, one).softmax(1), scores(x, other).softmax(1), atol=1e-4)
    best = logistic(x, y, start, 1.0, steps=500)
    loss = [float(loss_and_gradient(x, w, 1.0, len(y), (slice(None), y, True))[0]) for w in (one, best)]
    assert loss[0] < loss[1] + 0.01


def test_opinions_are_class_shares_of_what_arrives_and_silence_is_none():
    graph = Graph.from_edges([[0, 1], [1, 2]], None, [0, -1, 1, -1])  # 3 is alone
    y = graph.y
    found = list(spread_opinions(normalized_adjacency(graph), y, torch.zeros(4, 2)))
    assert all(torch.allclose(opinion.exp().sum(1), torch.ones(4), atol=1e-5) for opinion in found)
    labels_far, labels_near = found[:2]
    assert torch.allclose(labels_far[3].exp(), torch.tensor([0.5, 0.5]), atol=1e-5)
    assert float(labels_near[1].exp()[0]) == float(labels_near[1].exp()[1])
    assert label_matrix(y, 2).tolist() == [[1, 0], [0, 0], [0, 1], [0, 0]]


def test_no_node_hears_its_own_label():
    """Where nodes have no neighbours, labels that spread reach none but their own node: they must be worth nothing."""
    rng = np.random.default_rng(0)
    y = torch.from_numpy(rng.integers(0, 3, 300))
    x = torch.from_numpy(rng.normal(size=(300, 4)).astype(np.float32))
    graph = Graph.from_edges(np.zeros((2, 0), int), x.numpy(), y.numpy())
    head = KnownHead.fit(x, normalized_adjacency(graph), y)
    logits, _ = head.logits(x, normalized_adjacency(graph), torch.where(torch.arange(300) < 150, y, -1))
    told, silent = logits[:150].softmax(1), logits[150:].softmax(1)
    right = told.gather(1, y[:150, None]).mean()
    assert float(head.mix[1:3].abs().max()) < 0.5 and float(right) < 0.55 and float(silent.max()) < 0.8


def test_blanked_nodes_are_recognised_better_than_by_neighbours_or_coordinates_alone(planted):
    edges, y = normalized_adjacency(planted.graph), planted.y
    head = KnownHead.fit(planted.model.x, edges, y)
    logits, alone = head.logits(planted.model.x, edges, y)
    blanked = (y < 0) & (planted.truth < 9)

    def accuracy(answer: torch.Tensor) -> float:
        return float((answer.argmax(1) == planted.truth)[blanked].float().mean())

    opinions = list(spread_opinions(edges, y, alone))
    assert accuracy(logits) > 0.95 and accuracy(logits) >= max(accuracy(opinions[0]), accuracy(opinions[1]))


def test_a_refitted_head_knows_the_classes_it_is_given(planted):
    edges = normalized_adjacency(planted.graph)
    head = KnownHead.fit(planted.model.x, edges, planted.y)
    fewer = torch.where(planted.y > 5, -1, planted.y)
    again = head.refit(planted.model.x, fewer, torch.arange(6))
    assert again.weights.shape[1] == 6 and torch.equal(again.mix, head.mix)
    seen = fewer >= 0
    answer = again.logits(planted.model.x, edges, fewer)[0].argmax(1)
    assert float((answer == fewer)[seen].float().mean()) > 0.95
