"""The page about predictions: every number is that of the objects, and nothing in the data becomes markup."""

import csv
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import torch

import own_graph
from fewnode import FewShotClassifier, cli
from fewnode.classifier.inputs import TableSource
from fewnode.classifier.predictions import Predictions
from fewnode.errors import InputError
from fewnode.graph import Graph
from fewnode.report.nodes import NodeRows
from fewnode.report.predictions_page import (
    Answers,
    class_sizes,
    confidence_bins,
    draw_map,
    ranked,
    to_label,
    write_predictions_page,
)
from fewnode.report.templating import environment, percent, percent0

pytestmark = pytest.mark.usefixtures("worlds_once")
SCRIPT = "<script>alert(1)</script>"
HOSTILE = (SCRIPT, "=cmd|'/C calc'!A0", '"><img src=x onerror=alert(1)>', "' onmouseover='alert(1)", "\u202egnp.exe",
           "{{ 7 * 7 }}", "</style><b>", "&lt;i&gt;", "x\x00y\x1bz", "long " * 400, "javascript:alert(1)")  # fmt: skip
VOID = {"meta", "link"}
TAGS = VOID | {
    "html", "head", "title", "style", "body", "header", "main", "footer", "nav", "section", "h1", "h2", "h3", "p", "a",
    "ul", "li", "dl", "dt", "dd", "table", "caption", "thead", "tbody", "tr", "th", "td", "div", "span", "bdi", "code",
    "svg", "path",
}  # fmt: skip
ATTRIBUTES = {
    "lang", "charset", "http-equiv", "content", "name", "rel", "href", "class", "id", "style", "scope", "tabindex",
    "role", "aria-label", "aria-labelledby", "aria-hidden", "viewbox", "d", "transform", "title",
}  # fmt: skip


class Page(HTMLParser):
    """A page taken apart, each of its parts checked to be harmless and well formed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.headings: list[int] = []
        self.feed(text)
        assert self.open == []
        body = " ".join(self.words)
        self.text = " ".join(body.split()).replace(" ,", ",").replace(" ;", ";").replace(" .", ".")

    def handle_starttag(self, tag, attrs):
        assert tag in TAGS, tag
        if tag not in VOID:
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        for name, value in attrs:
            assert name in ATTRIBUTES, name
            self.attributes.append((tag, name, value or ""))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "title"):
            self.words.append(data)

    def values(self, name: str) -> list[str]:
        return [value for _, own, value in self.attributes if own == name]


def fitted(graph: Graph, **more) -> FewShotClassifier:
    return FewShotClassifier("probe", k_shot=3, device="cpu").fit(graph, **more)


def blanked(graph: Graph) -> Graph:
    """Every third known node without its label."""
    y = graph.y.clone()
    y[::3] = -1
    names = {"node_names": graph.node_names, "class_names": graph.class_names, "feature_names": graph.feature_names}
    return Graph.from_edges(own_graph.arrays()[0], graph.features, y, **names)


@pytest.fixture(scope="module")
def classifier() -> FewShotClassifier:
    return fitted(blanked(own_graph.graph()))


@pytest.fixture
def asked(classifier):
    classifier.adapt(own_graph.examples())
    return classifier, classifier.predict_proba(classifier.unlabelled())


def page_of(asked, tmp_path, *thresholds) -> Page:
    written = write_predictions_page(*asked, tmp_path / "page.html", *thresholds)
    return Page(written.read_text(encoding="utf-8"))


def test_the_first_sentence_says_what_was_found(asked, tmp_path):
    classifier, found = asked
    counts, expected = found.counts(), classifier.expect(found)
    text = page_of(asked, tmp_path).text
    first = text[text.index("Of ") : text.index("Examples")]
    assert first.startswith(f"Of {len(found)} nodes without a label, ")
    for name in own_graph.NEW:
        assert re.search(rf"\b{counts[name]} (look |looks )?like {name}\b", first)
    known = sum(counts[name] for name in own_graph.TRADES)
    assert f"{known} like a known class" in first
    low = percent0(expected.right.low).removesuffix(" %")
    right = f"about {percent0(expected.right.value)} of the rows are expected to be right"
    assert f"{right} ({low} to {percent0(expected.right.high)})" in first or expected.simulations == 0


def test_every_number_is_that_of_the_objects(asked, tmp_path):
    classifier, found = asked
    page, table = page_of(asked, tmp_path, 0.5, {"mule": 0.9}), found.table(0.5, {"mule": 0.9})
    expected = classifier.expect(found, 0.5, {"mule": 0.9})
    for name, figures in expected.classes.items():
        for figure in (figures.precision, figures.recall):
            assert percent(figure.value) in page.text
        assert f"{name} {figures.called} {percent(figures.precision.value)}" in page.text
    assert all(line in page.text for line in expected.assumed)
    margin = dict(
        zip(found.names, zip(table["probability"], table["margin"], table["runner_up"], strict=True), strict=True)
    )
    shown = re.findall(r"(n\d+) (?:\w+ )?([\d.]+) % (\w+) ([\d.]+) %", page.text)
    assert len(shown) > 30
    for node, p, runner_up, ahead in shown:
        probability, over, second = margin[node]
        assert (float(p), float(ahead), runner_up) == (
            pytest.approx(100 * probability, abs=0.051), pytest.approx(100 * over, abs=0.051), second,
        )  # fmt: skip


def test_class_sizes_are_counted_and_new_classes_come_first(asked):
    classifier, found = asked
    rows = class_sizes(classifier, Answers(found, 0.6, None))
    assert {row["name"]: row["predicted"] for row in rows} == {
        name: n for name, n in found.counts(0.6).items() if n or name != "unknown"
    }
    assert [row["kind"] for row in rows[:3]] == ["new", "new", "other"]
    assert {row["name"]: row["labelled"] for row in rows if row["kind"] == "new"} == {"mule": 3, "phisher": 2}
    labels = classifier.graph.y
    assert {row["labelled"] for row in rows if row["kind"] == "known"} == {int((labels == c).sum()) for c in range(6)}


def test_examples_of_a_known_class_are_added_to_its_labels(classifier):
    labels, name = classifier.graph.y, classifier.graph.class_names[0]
    more = [classifier.graph.node_names[i] for i in (0, 24)]  # bakers without a label
    classifier.adapt(own_graph.examples() | {name: more})
    rows = class_sizes(classifier, Answers(classifier.predict_proba(classifier.unlabelled()), 0.0, None))
    assert next(row["labelled"] for row in rows if row["name"] == name) == int((labels == 0).sum()) + 2


def test_the_surest_come_first_and_none_twice(asked):
    answers = Answers(asked[1], 0.0, None)
    for part in ranked(answers, NodeRows(asked[0])):
        sure, least = ([row["probability"] for row in part[key]] for key in ("surest", "least"))
        assert sure == sorted(sure, reverse=True) and least == sorted(least) and max(least) <= min(sure)
        names = [row["id"] for key in ("surest", "least") for row in part[key]]
        assert len(set(names)) == len(names) == min(20, part["count"])
        assert {row["label"] for row in part["surest"]} == {part["name"]}


def test_bins_hold_every_row_and_their_mean_probability(asked):
    found = confidence_bins(Answers(asked[1], 0.0, None), None)
    best = asked[1].probabilities.max(1).values
    assert sum(one["rows"] for one in found) == len(best) and found[-1]["low"] == 0.9
    total = sum(one["rows"] * one["accuracy"] for one in found if one["accuracy"] is not None)
    assert total == pytest.approx(float(best.sum()), rel=1e-5)


def test_the_accuracy_of_a_bin_is_corrected_by_what_simulations_missed(asked):
    answers, question = Answers(asked[1], 0.0, None), asked[0].question
    worse = [replace(one, gaps=one.gaps | {"band 9": [-0.25] * 9}) for one in question.model.simulated]
    question = replace(question, model=replace(question.model, simulated=tuple(worse)))
    plain, found = confidence_bins(answers, None)[-1], confidence_bins(answers, question)[-1]
    assert found["rows"] == plain["rows"] and found["accuracy"] == pytest.approx(plain["accuracy"] - 0.25)


def test_what_to_label_next_is_the_closest_calls_of_every_class(asked):
    answers = Answers(asked[1], 0.0, None)
    rows = to_label(answers, NodeRows(asked[0]))
    margins = [row["margin"] for row in rows]
    assert len(rows) == 20 and margins == sorted(margins)
    assert margins[0] == pytest.approx(float(answers.margin.min()), abs=1e-6)
    called = [row["label"] for row in rows]
    assert max(map(called.count, called)) <= 3


def test_equal_probabilities_have_a_runner_up_of_their_own():
    even = Predictions(torch.arange(2), ["a", "b"], ("x", "y", "z"), torch.full((2, 3), 1 / 3)).table()
    assert all(a != b for a, b in zip(even["label"], even["runner_up"], strict=True))


def test_many_new_classes_are_summed_up():
    sizes = [{"name": name, "kind": "new", "predicted": 1} for name in "ABCDEFGH"]
    text = environment().get_template("headline.html").render(sizes=sizes, closed=False)
    assert text.startswith("1 looks like <bdi>A</bdi>, 1 like <bdi>B</bdi>, ") and text.count("<bdi>") == 5
    assert text.endswith("<bdi>E</bdi> and 3 like one of 3 more new classes")


def test_hostile_names_and_texts_stay_text(tmp_path):
    edges, _, y = own_graph.arrays()
    classes = [f"{HOSTILE[c]} {c}" for c in range(6)]
    names = [f"{HOSTILE[i % len(HOSTILE)]}{i}" for i in range(len(y))]
    given = zip(own_graph.examples(), HOSTILE[:2], strict=True)
    support = {hostile: [names[int(n[1:])] for n in own_graph.examples()[name]] for name, hostile in given}
    labels = ["" if c > 5 or i % 3 == 0 else classes[c] for i, c in enumerate(y)]
    rows = [[names[i], labels[i], f"{'word' + 'abcdefgh'[c]} {SCRIPT} {names[i]}"] for i, c in enumerate(y)]
    for file, table in (
        ("nodes.csv", [["id", "label", "words"], *rows]),
        ("edges.csv", [["source", "target"], *([names[a], names[b]] for a, b in edges.T)]),
    ):
        with (tmp_path / file).open("w", newline="", encoding="utf-8") as out:
            csv.writer(out).writerows([[cell.replace("\x00", "") for cell in row] for row in table])
    source = TableSource.of(tmp_path / "edges.csv", tmp_path / "nodes.csv", text_column="words")
    graph, source = source.infer()
    classifier = fitted(graph, source=source)
    names = [name.replace("\x00", "") for name in names]
    classifier.adapt({name: [node.replace("\x00", "") for node in nodes] for name, nodes in support.items()})
    page = page_of((classifier, classifier.predict_proba(classifier.unlabelled())), tmp_path, 0.2, {SCRIPT: 0.3})
    assert all(part in page.text for part in (SCRIPT, '"><img src=x onerror=alert(1)>', "{{ 7 * 7 }}", "&lt;i&gt;"))
    assert "\x1b" not in page.text and "\u202e" not in page.text and "\ufffdgnp.exe" in page.text
    assert max(map(len, page.values("title"))) == 1000 and max(map(len, page.words)) < 1000
    links = [value for tag, name, value in page.attributes if name == "href"]
    assert all(link.startswith("#") or link == "data:," for link in links)
    assert all(re.fullmatch(r"width:[\d.]+%", value) for value in page.values("style"))
    assert all(re.fullmatch(r"[\w -]+", value) for value in page.values("class"))


def test_strange_characters_do_not_break_the_file(classifier, tmp_path):
    classifier.adapt({"nul\x00 and \ud800": ["n6", "n14"]})
    page = page_of((classifier, classifier.predict_proba(["n22", "n1"])), tmp_path)
    assert "nul\ufffd and \ufffd" in page.text and "Of 2 nodes, " in page.text


def test_the_page_is_in_order_and_needs_nothing_else(asked, tmp_path):
    page = page_of(asked, tmp_path)
    assert page.headings[0] == 1 and page.headings.count(1) == 1
    assert all(b - a <= 1 for a, b in zip(page.headings, page.headings[1:], strict=False))
    ids = page.values("id")
    assert len(set(ids)) == len(ids) and {f"#{name}" for name in ids} >= {
        h for h in page.values("href") if h != "data:,"
    }
    assert ("html", "lang", "en") in page.attributes
    text = (tmp_path / "page.html").read_text()
    assert "http" not in text.replace("http-equiv", "") and len(re.findall(r"<th\b(?! scope)", text)) == 0
    assert "default-src 'none'" in text and "prefers-color-scheme: dark" in text and "@media print" in text


def test_closed_set_classification_says_that_nodes_were_forced(classifier, tmp_path):
    classifier.adapt(own_graph.examples(), among="new")
    found = classifier.predict_proba(classifier.unlabelled())
    page = page_of((classifier, found), tmp_path)
    assert f"Every one of {len(found)} nodes without a label was forced into one of 2 classes" in page.text
    assert f"expected accuracy, on nodes of one of the classes {percent(classifier.calibration.accuracy)}" in page.text
    assert "What is assumed" not in page.text


def test_one_new_class_and_one_that_nobody_is_called(classifier, tmp_path):
    classifier.adapt({"mule": ["n6"]})
    found = classifier.predict_proba(classifier.unlabelled())
    page = page_of((classifier, found), tmp_path, 0.0, {"mule": 1.0})
    if found.counts(0.0, {"mule": 1.0})["mule"] == 0:
        assert "No node is predicted. These are the nearest:" in page.text
    assert "mule 100.0 %" in page.text  # the threshold, among the words


def test_no_simulated_novel_class_and_no_features(tmp_path):
    edges, _, y = own_graph.arrays()
    graph = Graph.from_edges(edges, y=[0 if c == 0 else -1 for c in y], num_nodes=len(y), class_names=["baker"])
    with pytest.warns(UserWarning, match="fewer than two classes"):
        classifier = FewShotClassifier("vantage", device="cpu").fit(graph)
    classifier.adapt({"new": [1, 9, 17]})
    page = page_of((classifier, classifier.predict_proba(classifier.unlabelled())), tmp_path)
    assert "which could not be checked" in page.text and "nothing here has checked them" in page.text


def test_columns_are_shown_in_the_units_of_the_user(asked):
    for part in NodeRows(asked[0]).summary(4).split(", "):
        name, value = part.split()
        truth = float(own_graph.arrays()[1][4, own_graph.COLUMNS.index(name)])
        assert float(value) == pytest.approx(truth, rel=1e-3)


def test_words_that_are_rare_and_frequent_in_the_node_come_first():
    counts = torch.tensor([[5.0, 1, 0], [5, 0, 2], [5, 1, 0], [5, 1, 1]]).to_sparse_csr()
    graph = Graph.from_edges([[0, 1, 2], [1, 2, 3]], counts, feature_names=["the", "cat", "dog"], blocks={})
    classifier = FewShotClassifier("probe")
    classifier.graph = graph
    assert [NodeRows(classifier).summary(node) for node in (1, 3)] == ["dog, the", "dog, cat, the"]


def test_the_map_holds_every_example_and_every_new_node_first(asked):
    classifier, found = asked
    answers = Answers(found, 0.0, None)
    whole = draw_map(classifier, answers)
    assert whole["shown"] == whole["total"] == classifier.graph.num_nodes
    small = draw_map(classifier, answers, size=100)
    assert small["shown"] == 100 and len(small["examples"]) == 5 and small["total"] == whole["total"]
    new = {layer["name"]: (len(layer["points"]), layer["total"]) for layer in small["layers"][4:]}
    assert new == {name: (n, n) for name in own_graph.NEW for n in [found.counts()[name]]}
    assert sum(len(layer["points"]) for layer in small["layers"]) == 95
    points = torch.tensor([point for layer in whole["layers"] for point in layer["points"]])
    assert (points >= 24).all() and (points <= torch.tensor([1416, 876])).all()


def test_new_classes_beyond_the_styles_share_one():
    marks = environment().get_template("marks.html").module
    looks = [(str(marks.look(place)), str(marks.outline(place))) for place in range(14)]
    assert len(set(looks)) == 13 and looks[12] == looks[13]


@pytest.mark.parametrize(
    ("page", "told"),
    [("page.txt", "must end in .html"), ("folder.html", "is a folder"), ("old.html", "exists already")],
)
def test_wrong_places_are_refused_before_the_model_is_loaded(tmp_path, capsys, page, told):
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "old.html").write_text("old")
    force = ["--force"] if page == "folder.html" else []
    words = ["predict", "no model", "--out", str(tmp_path / "p.csv"), "--report", str(tmp_path / page), *force]
    assert cli.main(words) == 2 and told in capsys.readouterr().err


def test_nothing_predicted_and_nothing_asked_are_refused(asked, tmp_path):
    classifier, found = asked
    none = Predictions(found.nodes[:0], [], found.classes, found.probabilities[:0], found.kinds)
    with pytest.raises(InputError, match="nothing to report"):
        write_predictions_page(classifier, none, tmp_path / "page.html")
    with pytest.raises(InputError, match="adapted classifier"):
        write_predictions_page(FewShotClassifier("probe"), found, tmp_path / "page.html")


def test_predict_writes_the_page_and_asks_for_its_place_first(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    own_graph.write_tables(tmp_path)
    fit = "fit --edges edges.csv --nodes nodes.csv --method probe --k-shot 3 --out m"
    predict = "predict m --support support.csv --out p.csv --report page.html --threshold 0.3"
    assert cli.main(fit.split()) == 0 and cli.main(predict.split()) == 0
    assert "What was found" in (tmp_path / "page.html").read_text() and "page.html" in capsys.readouterr().err
    (tmp_path / "p.csv").unlink()
    assert cli.main(predict.split()) != 0 and "page.html exists already" in capsys.readouterr().err
    assert not (tmp_path / "p.csv").exists()
    assert cli.main([*predict.split(), "--force"]) == 0


def test_titles_stand_before_ids(tmp_path):
    graph = own_graph.graph()
    titled = replace(graph, node_titles=[f"Mx {name} Doe" for name in graph.node_names])
    classifier = FewShotClassifier("probe", k_shot=3).fit(titled).adapt(own_graph.examples())
    page = page_of((classifier, classifier.predict_proba(classifier.unlabelled())), tmp_path)
    example = own_graph.examples()["mule"][0]
    assert f"Mx {example} Doe, Mx" in page.text and re.search(r"Mx n(\d+) Doe n\1 ", page.text)
