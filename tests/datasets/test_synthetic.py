"""Planted graphs: what is asked for is what comes out, the same everywhere."""

import hashlib

import numpy as np
import pytest
import torch

from fewnode import load_dataset, planted, random_split
from fewnode.errors import InputError
from fewnode.graph import Graph


def pairs(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """The classes at both ends of every arc."""
    arcs = graph.to_scipy().tocoo()
    y = graph.y.numpy()
    return y[arcs.row], y[arcs.col]


def test_the_same_seed_gives_the_same_graph_on_every_machine() -> None:
    graph, split = planted(400, 8, seed=5)
    words = graph.features_scipy()
    assert words is not None
    parts = (graph.indptr.numpy(), graph.indices.numpy(), graph.y.numpy(), words.indices, words.data)
    digest = hashlib.sha256(b"".join(np.asarray(part, "<i8").tobytes() for part in parts)).hexdigest()
    assert digest == "299544bf7cd314d3a947ed047ec80f35ebfeb7377304d29c0be132be9bb6a35a"
    assert (split.base, split.validation, split.novel) == ((2, 3, 4), (1, 5), (0, 6, 7))


def test_seeds_differ_and_global_state_is_untouched() -> None:
    before = np.random.get_state()[1].copy(), torch.get_rng_state()  # type: ignore[index]  # noqa: NPY002
    first, second = planted(300, 6, seed=0)[0], planted(300, 6, seed=1)[0]
    assert first.fingerprint != second.fingerprint
    assert np.array_equal(before[0], np.random.get_state()[1])  # type: ignore[index]  # noqa: NPY002
    assert torch.equal(before[1], torch.get_rng_state())


@pytest.mark.parametrize("homophily", [0.0, 0.2, 0.7, 1.0])
def test_homophily_is_the_share_of_edges_within_classes(homophily: float) -> None:
    graph, _ = planted(3000, 12, homophily=homophily)
    mine, theirs = pairs(graph)
    assert abs((mine == theirs).mean() - homophily) < 0.03


def test_other_edges_go_to_specific_classes_unless_it_is_difficult() -> None:
    def partners(difficulty: float) -> float:
        mine, theirs = pairs(planted(3000, 10, homophily=0.1, difficulty=difficulty)[0])
        table = np.zeros((10, 10))
        np.add.at(table, (mine, theirs), 1)
        np.fill_diagonal(table, 0)
        return float((np.sort(table, axis=1)[:, -2:].sum(1) / table.sum(1)).mean())

    assert partners(0.0) > 0.99
    assert partners(1.0) < 0.6


def test_degrees_and_classes_have_long_tails() -> None:
    graph, split = planted(5000, 20, avg_degree=10, tail=1.0)
    assert graph.num_nodes == 5000 and graph.num_classes == 20
    assert 9 < graph.degree.float().mean() <= 10
    assert graph.degree.max() > 10 * graph.degree.float().median()
    sizes = torch.bincount(graph.y)
    assert sizes.min() >= 20 and sizes.max() > 5 * sizes.median()
    assert sizes.argsort().tolist() != list(range(20))[::-1]  # an id does not tell the size
    assert len({*split.base, *split.validation, *split.novel}) == 20
    even = torch.bincount(planted(500, 5, tail=0.0)[0].y)
    assert even.tolist() == [100] * 5


def test_words_tell_the_class_less_and_less() -> None:
    def agreement(difficulty: float) -> float:
        graph, _ = planted(1500, 6, difficulty=difficulty, features=300)
        words = graph.features_scipy().toarray()  # type: ignore[union-attr]
        y = graph.y.numpy()
        half = np.arange(len(y)) % 2 == 0
        centres = np.stack([words[half & (y == c)].mean(0) for c in range(6)])
        centres /= np.linalg.norm(centres, axis=1, keepdims=True)
        return float(((words[~half] @ centres.T).argmax(1) == y[~half]).mean())

    easy, middle, none = (agreement(difficulty) for difficulty in (0.0, 0.5, 1.0))
    assert easy > 0.9 and easy > middle > 0.5
    assert none < 0.35


def test_features_are_sparse_counts_or_absent() -> None:
    graph, _ = planted(500, 5, features=100, words_per_node=8)
    assert graph.features is not None and graph.features.layout == torch.sparse_csr
    totals = graph.features_scipy().sum(1)  # type: ignore[union-attr]
    assert totals.min() >= 4 and totals.max() <= 12
    assert not planted(500, 5, features=0)[0].has_features


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 5, "classes": 9}, "classes is 9"),
        ({"classes": 2}, "classes is 2"),
        ({"homophily": 1.5}, "homophily is 1.5"),
        ({"difficulty": -0.1}, "difficulty is -0.1"),
        ({"avg_degree": 1000}, "avg_degree is 1000"),
        ({"words_per_node": 0}, "words_per_node is 0"),
        ({"tail": float("nan")}, "tail is nan"),
        ({"seed": -1}, "seed"),
    ],
)
def test_impossible_requests_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        planted(**({"n": 100, "classes": 5} | options))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["homophilous", "mixed", "heterophilous"])
def test_planted_entries_of_the_catalog_are_what_they_say(kind: str) -> None:
    graph, split = load_dataset(f"planted_{kind}")
    row, column = graph.to_scipy().nonzero()
    within = float((graph.y[row] == graph.y[column]).float().mean())
    assert abs(within - {"homophilous": 0.8, "mixed": 0.45, "heterophilous": 0.1}[kind]) < 0.05
    assert split == random_split(graph.y, seed=0)
