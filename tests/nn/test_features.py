import numpy as np
import pytest
import torch
from scipy import sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer

from fewnode import Graph
from fewnode.errors import InputError
from fewnode.nn.features import ReducedFeatures, is_bag_of_words


@pytest.fixture
def words() -> Graph:
    counts = sp.random_array(
        (50, 30), density=0.2, rng=np.random.default_rng(0), data_sampler=lambda size: np.ones(size)
    )
    counts = counts.tolil()
    counts[7] = 0  # a node without words
    return Graph.from_edges([[0], [1]], sp.csr_matrix(counts), num_nodes=50)


def test_tfidf_equals_scikit_learn(words):
    reduced = ReducedFeatures(30, 10).fit(words)
    expected = TfidfTransformer(sublinear_tf=True).fit_transform(words.features_scipy()).toarray()
    np.testing.assert_allclose(reduced._weighted(words.x).to_dense(), expected, atol=1e-6)


def test_reduction_keeps_what_a_full_svd_keeps(words):
    reduced = ReducedFeatures(30, 10).fit(words)
    weighted = reduced._weighted(words.x).to_dense()
    left, values, right = torch.linalg.svd(weighted, full_matrices=False)
    best = left[:, :10] * values[:10] @ right[:10]
    torch.testing.assert_close(reduced(words) @ reduced.basis.T, best, atol=2e-3, rtol=0)
    assert (reduced(words)[7] == 0).all()


def test_dense_features_are_centred_and_rotated():
    x = torch.randn(40, 6, generator=torch.Generator().manual_seed(0)) + 3
    graph = Graph.from_edges([[0], [1]], x, num_nodes=40)
    reduced = ReducedFeatures(6, 256).fit(graph)(graph)
    centred = x - x.mean(0)
    torch.testing.assert_close(reduced @ reduced.T, centred @ centred.T, atol=1e-4, rtol=1e-4)
    assert not is_bag_of_words(graph.x)


def test_another_graph_gets_the_same_coordinates_and_another_width_is_refused(words):
    reduced = ReducedFeatures(30, 10).fit(words)
    part = words.subgraph(torch.arange(50) < 20)
    torch.testing.assert_close(reduced(part), reduced(words)[:20])
    other = Graph.from_edges([[0], [1]], np.ones((2, 4)))
    with pytest.raises(InputError, match="knows 30 feature columns, the graph has 4"):
        reduced(other)


def test_refitting_is_not_served_from_memory(words):
    reduced = ReducedFeatures(30, 10).fit(words)
    first = reduced(words)
    reduced.basis.mul_(2)
    torch.testing.assert_close(reduced(words), 2 * first)
