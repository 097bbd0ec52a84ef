"""Agreement of people: against values from the literature and by hand."""

import pytest

from fewnode.labelling.labels import SETTLED, Answer, agreement, cohen_kappa, fleiss_kappa

# Table of the article on Fleiss' kappa that is usually quoted: 10 subjects, 14 raters, 5 categories; kappa 0.210.
COUNTS = [
    (0, 0, 0, 0, 14), (0, 2, 6, 4, 2), (0, 0, 3, 5, 6), (0, 3, 9, 2, 0), (2, 2, 8, 1, 1),
    (7, 7, 0, 0, 0), (3, 2, 6, 3, 0), (2, 5, 3, 2, 2), (6, 5, 2, 1, 0), (0, 2, 2, 3, 7),
]  # fmt: skip


def test_fleiss_as_published():
    answers = [[str(c) for c, n in enumerate(row) for _ in range(n)] for row in COUNTS]
    whole, each = fleiss_kappa(answers)
    assert whole == pytest.approx(0.210, abs=5e-4)
    share = [sum(row[c] for row in COUNTS) / 140 for c in range(5)]
    weights = [p * (1 - p) for p in share]
    mean = sum(w * each[str(c)] for c, w in enumerate(weights)) / sum(weights)
    assert mean == pytest.approx(whole)  # Fleiss 1971: the weighted mean of those of the classes


def test_cohen_by_hand():
    a, b = list("yyyyynnnnn"), list("yyyynynnnn")
    assert cohen_kappa(a, b) == pytest.approx((0.8 - 0.5) / 0.5)
    assert cohen_kappa("aa", "aa") is None  # one class: chance agrees as well


def test_who_is_compared():
    answers = [
        {"ann": Answer("x"), "bob": Answer("x"), "cid": Answer("")},  # a skipped node is no answer
        {"ann": Answer("x"), "bob": Answer("y"), SETTLED: Answer("y")},  # nor is what was settled later
        {"ann": Answer("y"), "bob": Answer("y"), "cid": Answer("y")},
        {"ann": Answer("x")},
    ]
    found = agreement(answers)
    assert found["nodes"] == 3
    assert {tuple(pair["people"]): pair["nodes"] for pair in found["pairs"]} == {
        ("ann", "bob"): 3, ("ann", "cid"): 1, ("bob", "cid"): 1,
    }  # fmt: skip
    first = found["pairs"][0]
    assert first["share"] == pytest.approx(2 / 3) and set(first["classes"]) == {"x", "y"}
    assert first["classes"]["x"] == pytest.approx(first["cohen"])  # with two classes they are the same
    assert agreement([]) == {"nodes": 0, "fleiss": None, "classes": {}, "pairs": []}
