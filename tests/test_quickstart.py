"""The quickstart's page, on a small planted graph: what it found, by which examples, and what is wrong."""

import sys
from pathlib import Path

import pytest

import fewnode

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> str:
    pytest.importorskip("matplotlib", reason="needs the extra [report]")
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        from quickstart_page import Findings, write_page
    finally:
        sys.path.pop(0)
    graph, split = fewnode.planted(400, 10, seed=0)
    new = {f"field <{c}>": c for c in split.novel[:2]}
    members = {name: (graph.y == c).nonzero().flatten().tolist() for name, c in new.items()}
    hidden = graph.with_labels(graph.y.where(~sum(graph.y == c for c in new.values()).bool(), -1))
    classifier = fewnode.FewShotClassifier("pn", k_shot=2, n_way=2, n_query=3, steps=4, check_every=2).fit(
        hidden, split
    )
    examples = {name: [str(node) for node in nodes[:2]] for name, nodes in members.items()}
    classifier.adapt(examples)
    found = classifier.predict_proba(classifier.unlabelled())
    name = {c: label for label, c in new.items()}
    truth = [name.get(int(c), str(int(c))) for c in graph.y[found.nodes]]
    assert classifier.model is not None
    score = fewnode.evaluate(classifier.model, graph, split.novel, n_way=2, k_shot=2, n_query=3, n_tasks=5)
    out = tmp_path_factory.mktemp("page") / "q.html"
    accuracy = {"vantage": score, "probe": score, "probe without the graph": score}
    write_page(out, Findings(classifier, found, classifier.expect(found), truth, accuracy, examples, {}))
    return out.read_text(encoding="utf-8")


def test_the_first_sentence_says_what_was_found(page):
    lead = page[page.index("<p class=lead>") :].split("</p>")[0]
    for words in ("From 2 examples of each of 2 new fields", "were called one of them", "are right", "were expected"):
        assert words in lead


def test_every_part_is_there_and_names_are_escaped(page):
    for title in ("The examples that were given", "What was found, beside the truth", "Hits and mistakes"):
        assert f"<h2>{title}</h2>" in page
    for words in ("What training is worth", "Words on this page", "Next: your own files", "fewnode fit"):
        assert words in page
    assert "field &lt;" in page and "field <" not in page
    assert page.count("<svg") == 5
