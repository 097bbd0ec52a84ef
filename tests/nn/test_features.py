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
    np.testing.assert_allclose(reduced.weighted(words.x).to_dense(), expected, atol=1e-6)


def test_reduction_keeps_what_a_full_svd_keeps(words):
    reduced = ReducedFeatures(30, 10).fit(words)
    weighted = reduced.weighted(words.x).to_dense()
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
    with pytest.raises(InputError, match="knows 30 feature columns, the graph has 4"):
        ReducedFeatures(30, 10).fit(other)


def test_refitting_is_not_served_from_memory(words):
    reduced = ReducedFeatures(30, 10).fit(words)
    first = reduced(words)
    reduced.basis.mul_(2)
    torch.testing.assert_close(reduced(words), 2 * first)


def test_models_fitted_on_one_graph_share_what_is_made_from_it_until_one_is_changed(words):
    fresh = words.fresh()
    one, two, narrow = (ReducedFeatures(30, rank).fit(words) for rank in (10, 10, 5))
    shared = one(words)
    assert two(words) is shared and two.beyond_basis(words) is one.beyond_basis(words)
    assert torch.equal(two.fit(fresh)(fresh), shared)
    assert narrow(words).shape[1] == 5
    two.load_state_dict({key: 2 * value for key, value in two.state_dict().items()})
    torch.testing.assert_close(two(words), 2 * shared)  # rarities twice as large do not show in rows of length one
    assert torch.equal(one(words), shared) and torch.equal(ReducedFeatures(30, 10).fit(words)(words), shared)


def topics(classes, seed):
    """Rows of four words out of the ten that belong to their class."""
    own = np.random.default_rng(seed)
    rows = np.zeros((30 * len(classes), 100), np.float32)
    for at, row in enumerate(rows):
        row[10 * classes[at % len(classes)] + own.permutation(10)[:4]] = 1
    return Graph.from_edges(np.zeros((2, 0), int), sp.csr_matrix(rows))


def test_words_of_classes_that_came_later_are_seen_beyond_the_basis():
    old, later = topics([0, 1, 2, 3], 0), topics([8, 9], 1)
    both = Graph.from_edges(np.zeros((2, 0), int), sp.vstack([old.features_scipy(), later.features_scipy()]).tocsr())
    reduced = ReducedFeatures(100, 12).fit(old)
    assert reduced.beyond_basis(old).shape == (100, 0)  # nothing is beyond what was fitted
    new = torch.arange(180) >= 120
    assert float(reduced(both)[new].abs().max()) < 1e-3  # the basis is blind to them
    extra = reduced.weighted(both.x) @ reduced.beyond_basis(both)
    assert extra.shape[1] >= 2 and float(extra[new].norm(dim=1).min()) > 0.3
    assert float(extra[~new].norm(dim=1).max()) < 0.3


def test_a_few_strange_nodes_do_not_change_the_directions():
    reduced = ReducedFeatures(100, 12).fit(topics([0, 1, 2, 3], 0))
    few = topics([8], 1).subgraph(torch.arange(30) < 2)
    assert reduced.beyond_basis(few).shape == (100, 0)


def test_a_complete_basis_has_nothing_beyond():
    old, other = topics([0, 1], 0), topics([4, 5], 1)
    assert ReducedFeatures(100, 100).fit(old).beyond_basis(other).shape[1] <= 20
    dense = Graph.from_edges([[0], [1]], np.random.default_rng(0).normal(size=(50, 6)).astype("float32"))
    assert ReducedFeatures(6, 256).fit(dense).beyond_basis(dense).shape == (6, 0)


def test_the_fitted_graph_has_nothing_beyond_even_where_all_directions_are_alike():
    for size in (50, 400):
        noise = np.random.default_rng(0).normal(size=(500, size)).astype("float32")
        graph = Graph.from_edges([[0], [1]], noise)
        assert ReducedFeatures(size, size // 2).fit(graph).beyond_basis(graph).shape == (size, 0)


def test_rows_of_length_one_are_taken_as_they_are():
    """Whoever made them has weighted them; flags, one in each row, are still a bag of words."""
    weighted = Graph.from_edges([[0, 1], [1, 2]], sp.csr_matrix([[0.6, 0.8, 0], [0, 0.6, 0.8], [1, 0, 0]]), blocks={})
    assert not is_bag_of_words(weighted.x)
    reduced = ReducedFeatures(3, 3).fit(weighted)
    assert reduced.idf.tolist() == [1, 1, 1]
    torch.testing.assert_close(
        reduced(weighted) @ reduced(weighted).T, (weighted.x.to_dense() @ weighted.x.to_dense().T)
    )
    assert is_bag_of_words(Graph.from_edges([[0, 1], [1, 2]], x=sp.csr_matrix(np.eye(3))).x)


@pytest.mark.parametrize("share", [0.2, 0.9])
def test_a_graph_in_another_format_is_read_like_the_one_that_was_fitted(share):
    dense = np.random.default_rng(0).poisson(1.5 * share, (40, 12)).astype(np.float32)
    graphs = [Graph.from_edges([[0], [1]], x, num_nodes=40, blocks={}) for x in (dense, sp.csr_matrix(dense))]
    for fitted in graphs:
        reduced = ReducedFeatures(12, 4).fit(fitted)
        found = [reduced(graph) for graph in graphs]
        torch.testing.assert_close(found[0], found[1])
