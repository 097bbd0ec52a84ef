"""Search by id and by words of any column, and what is shown of a node."""

import numpy as np
import pytest
from scipy import sparse as sp

from fewnode.classifier.classifier import FewShotClassifier
from fewnode.classifier.inputs import TableSource
from fewnode.graph import Graph
from fewnode.report.nodes import NodeRows


@pytest.fixture
def browser(tmp_path):
    rows = ["b,red apple,1", 'a,"blue ""whale""\nin two lines",2', "ab,red whale,3", "c,,4"]
    (tmp_path / "nodes.csv").write_text("id,what,size\n" + "\n".join(rows) + "\n")
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,ab\nab,c\n")
    source = TableSource.of(tmp_path / "edges.csv", tmp_path / "nodes.csv", text_column="what")
    classifier = FewShotClassifier("probe")
    classifier.graph, classifier.source = source.infer()
    return NodeRows(classifier)


def found(browser, words):
    return [browser.name(i) for i in browser.search(words)]


def test_ids_come_first_the_exact_one_before_all(browser):
    assert found(browser, "A")[:2] == ["a", "ab"] and found(browser, "b")[0] == "b"
    assert found(browser, "zebra") == [] == found(browser, "  ")


def test_words_of_any_column_in_any_order(browser):
    assert found(browser, "whale RED") == ["ab"] and set(found(browser, "whale")) == {"a", "ab"}
    assert found(browser, "two lines") == ["a"] and "ab" in found(browser, "3")
    assert len(browser.search("e", most=1)) == 1


def test_a_row_is_shown_by_its_columns(browser):
    node = next(i for i in range(4) if browser.name(i) == "c")
    assert browser.row(node) == [("size", "4")] and browser.summary(node) == "size 4"
    assert browser.name(browser.neighbours(node)[0]) == "ab"


def test_without_a_table_the_features_are_shown():
    classifier = FewShotClassifier("probe")
    edges = np.array([[0], [1]])
    classifier.graph = Graph.from_edges(
        edges, np.array([[1.5, 0.0], [0.0, 2.0]], np.float32), feature_names=("tall", "old")
    )
    assert NodeRows(classifier).row(0) == [("tall", "1.5"), ("old", "0")]
    classifier.graph = Graph.from_edges(edges, np.ones((2, 1), np.float32))
    assert NodeRows(classifier).row(0) == [] and NodeRows(classifier).search("1") == [1]


def test_a_long_text_is_cut_at_the_words_that_tell_its_class():
    filler = "this manual page describes the options and arguments of a program in the usual way and order " * 4
    trades = "cuts hair with scissors", "bakes bread with an oven"
    texts = [f"{filler} it {trades[i % 2]} {filler}" for i in range(40)]
    names = sorted({word for text in texts for word in text.split()})
    counts = [[text.split().count(word) for word in names] for text in texts]
    x = sp.csr_matrix(counts, dtype=float)
    graph = Graph.from_edges([range(39), range(1, 40)], x, np.arange(40) % 2, feature_names=names, blocks={})
    rows = NodeRows(FewShotClassifier("probe", k_shot=3, min_size=5).fit(graph), [])
    rows.columns = {"text": texts}
    assert rows.summary(1, 1) == texts[1][:160]  # nothing is known of classes yet
    rows.tell(np.arange(40) % 2)
    for node in (0, 1, 7):
        told = rows.summary(node, node % 2)
        assert ("bakes bread" if node % 2 else "cuts hair") in told and told.startswith("… ") and len(told) <= 160
    assert rows.summary(1, -1) == texts[1][:160]
