"""From a graph to trusted predictions: choice of classes, examples, probabilities, keeping, other graphs."""

import ast
import copy
import errno
import pickle
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse as sp
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import fewnode
import own_graph
from fewnode.classifier import classifier as persistence
from fewnode.classifier import open_set as opening
from fewnode.classifier.classifier import FewShotClassifier
from fewnode.classifier.features import FeatureSchema
from fewnode.classifier.inputs import KnownClasses, TableSource, choose_split
from fewnode.classifier.predictions import Predictions
from fewnode.errors import InputError
from fewnode.files import Manifest
from fewnode.graph import Graph
from fewnode.tasks import ClassSplit
from fewnode.training import checkpoint
from fewnode.training import evaluate as inference
from fewnode.training.evaluate import batches
from linear_method import Linear

pytestmark = pytest.mark.usefixtures("worlds_once")


def truth() -> np.ndarray:
    return np.array([*own_graph.TRADES, *own_graph.NEW])[own_graph.arrays()[2]]


# --- choosing classes -----------------------------------------------------------------------------------


def test_classes_are_chosen_by_size_and_both_parts_get_large_and_small_ones():
    y = np.repeat(np.arange(7), [50, 40, 30, 20, 12, 11, 3])
    split = choose_split(Graph.from_edges([[0], [1]], None, y), 10)
    assert split == ClassSplit([0, 1, 3, 4], [2, 5])


@pytest.mark.parametrize(("classes", "base", "validation"), [(1, 1, 0), (3, 3, 0), (4, 2, 2), (9, 6, 3), (30, 20, 10)])
def test_how_many_classes_are_kept_for_validation(classes, base, validation):
    split = choose_split(Graph.from_edges([[0], [1]], None, np.repeat(np.arange(classes), 10)), 10)
    assert (len(split.base), len(split.validation)) == (base, validation)


def test_known_classes_go_by_name_where_another_table_numbers_them_anew():
    graph = Graph.from_edges([[0], [1]], None, [0, 1, 2], class_names=["ant", "bee", "cat"])
    known = KnownClasses.of(graph, ClassSplit([0], [2]))
    other = Graph.from_edges([[0], [1]], None, [2, 0, 1], class_names=["aardvark", "ant", "cat"])
    assert known.split(other) == ClassSplit([1], [2])


# --- fit, adapt, predict --------------------------------------------------------------------------------


def test_new_classes_are_recognised_and_the_expectation_holds(classifier):
    found = classifier.adapt(own_graph.examples(), among="new").predict_proba()
    assert len(found) == 240 and found.classes == own_graph.NEW
    new = np.isin(truth(), own_graph.NEW)
    right = (np.array(found.labels()) == truth())[new].mean()
    assert right > 0.9 and right == pytest.approx(classifier.calibration.accuracy, abs=0.1)
    assert torch.allclose(found.probabilities.sum(1), torch.ones(240), atol=1e-5)
    assert classifier.calibration.source == "validation" and classifier.calibration.k_shot == 2.5


def test_vantage_is_the_default_and_trains_shortly_without_a_word(tmp_path, recwarn):
    classifier = FewShotClassifier().fit(own_graph.graph())
    assert classifier.model.card.method == "vantage" and classifier.model.card.stopped_at == 50 and not recwarn
    classifier.save(tmp_path / "m")
    assert FewShotClassifier.load(tmp_path / "m").get_params() == classifier.get_params()
    classifier = FewShotClassifier("vantage", n_way=2, k_shot=2, steps=3, check_every=3).fit(own_graph.graph())
    assert classifier.model.card.method == "vantage" and classifier.model.card.stopped_at == 3
    assert np.isfinite(np.asarray(classifier.adapt(own_graph.examples(), among="new").predict_proba([0, "n1"]))).all()


def test_an_inner_loop_takes_any_number_of_classes(tmp_path):
    options = {"rank": 6, "hidden_channels": 5, "out_channels": 4, "inner_steps": 2}
    fitted = FewShotClassifier("maml", n_way=2, k_shot=2, steps=2, **options).fit(own_graph.graph())
    found = np.asarray(fitted.adapt(own_graph.examples(), among="all").predict_proba(range(20)))
    assert found.shape[1] > 2
    fitted.save(tmp_path / "m")
    loaded = FewShotClassifier.load(tmp_path / "m").attach(own_graph.graph())
    loaded.adapt(own_graph.examples(), among="all")
    np.testing.assert_allclose(np.asarray(loaded.predict_proba(range(20))), found, atol=1e-5)


@pytest.mark.parametrize("method", [Linear, "linear_method:Linear"])
def test_a_method_from_outside_scores_closed_set_predictions(tmp_path, method):
    fitted = FewShotClassifier(method, n_way=2, k_shot=2, steps=3).fit(own_graph.graph())
    found = fitted.adapt(own_graph.examples(), among="new").predict()
    fitted.save(tmp_path / "m")
    loaded = FewShotClassifier.load(tmp_path / "m")
    assert loaded.method == "linear_method:Linear" == fitted.model.card.method
    assert (loaded.adapt(own_graph.examples(), among="new").predict() == found).all()
    assert "phisher" in repr(loaded.explain("n7"))


def shots(classifier):
    return [len(nodes) for nodes in classifier.support.values()]


def test_by_default_the_open_question_is_asked(classifier):
    found = classifier.adapt(own_graph.examples()).predict_proba()
    assert found.classes == (*own_graph.NEW, *own_graph.TRADES, "other") == classifier.classes_
    assert found.kinds == ("new",) * 2 + ("known",) * 6 + ("other",)
    labels = np.array(found.labels())
    new = np.isin(truth(), own_graph.NEW)
    assert (labels == truth()).mean() > 0.9 and (labels == truth())[new].mean() > 0.8
    assert classifier.calibration is None and shots(classifier) == [3, 2]
    nodes = classifier.unlabelled()
    expected = classifier.expect(classifier.predict_proba(nodes))
    assert expected.rows == len(nodes) == 55 and set(expected.classes) == set(own_graph.NEW)
    assert expected.right.low <= expected.right.value <= expected.right.high


def test_one_class_is_enough_to_find_more_like_these(classifier):
    mules = {"mule": own_graph.examples()["mule"]}
    found = classifier.adapt(mules).find("mule", top=10)
    assert np.mean([truth()[int(name[1:])] == "mule" for name in found.names]) > 0.9
    assert not set(found.names) & set(mules["mule"]) and found.table()["rank"].tolist() == list(range(1, 11))
    assert found.probabilities.tolist() == sorted(found.probabilities.tolist(), reverse=True)
    assert 0 < found.expected(1) <= 1 and found.expected(10) <= 10 and len(found) == 10
    assert len(classifier.find("mule", top=1000)) == len(classifier.find("mule")) == 57  # there are no more
    with pytest.raises(InputError, match="top is 0; there are 57 nodes"):
        classifier.find("mule", top=0)
    with pytest.raises(InputError, match="unknown class 'bakery'"):
        classifier.find("bakery")
    with pytest.raises(InputError, match="the first 11; there are 10"):
        found.expected(11)


def test_examples_are_added_from_a_table(classifier):
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    frame = pandas.DataFrame({"id": ["n23"], "label": ["phisher"]})
    assert shots(classifier.adapt(own_graph.examples()).partial_adapt(frame)) == [3, 3]
    assert shots(classifier.partial_adapt(remove=frame)) == [3, 2]


def test_examples_can_be_added_and_taken_back(classifier):
    examples = own_graph.examples()
    before = classifier.adapt(examples, priors={"mule": 0.1}).predict_proba().probabilities
    classifier.partial_adapt(add={"phisher": ["n23"]})
    assert shots(classifier) == [3, 3]
    more = classifier.predict_proba().probabilities
    again = classifier.adapt({**examples, "phisher": [*examples["phisher"], "n23"]}, priors={"mule": 0.1})
    assert torch.allclose(again.predict_proba().probabilities, more, atol=1e-6) and not torch.allclose(before, more)
    classifier.partial_adapt(remove={"phisher": ["n23"]})
    assert torch.allclose(classifier.predict_proba().probabilities, before, atol=1e-6)
    classifier.partial_adapt(remove={"phisher": examples["phisher"]})
    assert classifier.classes_[0] == "mule" and "phisher" not in classifier.classes_
    classifier.partial_adapt(add={"phisher": ["n7"]}, remove={"mule": examples["mule"]})  # its prior goes with it
    assert classifier.classes_[0] == "phisher" and classifier.partial_adapt(add={"mule": examples["mule"]})
    assert "other" in classifier.partial_adapt(add={"other": ["n15"]}).support
    classifier.partial_adapt(remove={"other": ["n15"]})
    classifier.partial_adapt(remove={"phisher": ["n7"]})
    with pytest.raises(InputError, match="no example of 'mule'"):
        classifier.partial_adapt(remove={"mule": ["n0"]})
    with pytest.raises(InputError, match="no example of 'phisher'"):
        classifier.partial_adapt(remove={"phisher": ["n7"]})
    with pytest.raises(InputError, match="the graph labels it 'baker'"):
        classifier.partial_adapt(add={"mule": ["n0"]})
    closed = classifier.adapt(examples, among="new").partial_adapt(add={"phisher": ["n23"]})
    assert closed.calibration is not None and shots(closed) == [3, 3]


def test_priors_are_checked_and_belong_to_the_open_question(classifier):
    examples = own_graph.examples()
    assert classifier.adapt(examples, priors={"mule": 0.01, "other": 0.0}).question.fixed == {
        "mule": 0.01,
        "other": 0.0,
    }
    for priors, message in (({"mule": 2}, "is 2; it is a share"), ({"baker": 0.1}, "a prior for 'baker'")):
        with pytest.raises(InputError, match=message):
            classifier.adapt(examples, priors=priors)
    with pytest.raises(InputError, match="closed-set classification has none"):
        classifier.adapt(examples, among="new", priors={"mule": 0.1})


def test_other_is_no_new_class_in_the_open_question_but_one_in_the_closed(classifier):
    assert classifier.adapt({"other": ["n6"]}).classes_ == (*own_graph.TRADES, "other")
    assert classifier.adapt({"other": ["n6"], "b": ["n7"]}, among="new").classes_ == ("other", "b")
    edges, x, y = own_graph.arrays()
    named = Graph.from_edges(edges, x, np.where(y < 6, y, -1), class_names=[*own_graph.TRADES[:5], "other"])
    found = FewShotClassifier("probe", k_shot=3).fit(named).adapt({"mule": [6, 14]})
    assert found.classes_[-1] == "none of these" and "other" in found.classes_


def test_expectations_are_for_the_open_question(classifier):
    found = classifier.adapt(own_graph.examples(), among="new").predict_proba()
    with pytest.raises(InputError, match="among 'all'"):
        classifier.expect(found)


def test_parameters_and_a_short_name():
    classifier = FewShotClassifier("probe", k_shot=3)
    assert repr(classifier) == "FewShotClassifier(method='probe', k_shot=3) [not fitted]"
    assert repr(FewShotClassifier()) == "FewShotClassifier() [not fitted]"
    params = classifier.get_params()
    assert params["method"] == "probe" and FewShotClassifier(**params).get_params() == params
    assert classifier.set_params(k_shot=2, seed=5) is classifier
    assert classifier.get_params()["seed"] == 5 and classifier.k_shot == 2
    assert classifier.min_size is None and classifier.set_params(min_size=9).get_params()["min_size"] == 9


def test_in_batches_as_at_once(classifier, monkeypatch):
    whole = classifier.adapt(own_graph.examples(), among="new").predict_proba()
    monkeypatch.setattr(inference.batches, "__defaults__", (25,))
    told = []
    batches = classifier.iter_proba(batch_size=10, progress=lambda done, total: told.append((done, total)))
    parts = Predictions.concatenate(list(batches))
    assert torch.allclose(whole.probabilities, parts.probabilities, atol=1e-6)
    assert len(told) > 20 and told[-1] == (240, 240) and told == sorted(told)


def test_batches_cover_everything_and_a_hub_ends_its_batch():
    load = torch.tensor([3, 3, 3, 100, 3, 3])
    assert batches(load, 10) == [(0, 4), (4, 5), (5, 6)]
    assert batches(torch.tensor([1]), 10) == [(0, 1)]


def test_predictions_as_a_table_with_unknown_below_the_threshold():
    p = torch.tensor([[0.9, 0.1], [0.45, 0.55]])
    found = Predictions(torch.arange(2), ["a", "b"], ("x", "y"), p)
    table = found.table(0.6)
    assert table["label"] == ["x", "unknown"] and table["runner_up"] == ["y", "x"]
    assert table["margin"].tolist() == pytest.approx([0.8, 0.1]) and table["probability"].tolist() == [0.9, 0.55]
    assert found.counts(0.6) == {"x": 1, "y": 0, "unknown": 1} and found.labels() == ["x", "y"]
    with pytest.raises(InputError, match=r"threshold is 1\.5"):
        found.labels(1.5)
    assert found.labels(0.6, {"y": 0.5}) == ["x", "y"] and found.labels(0.0, {"x": 0.95}) == ["unknown", "y"]
    with pytest.raises(InputError, match="a threshold for 'z'"):
        found.labels(thresholds={"z": 0.5})
    with pytest.raises(InputError, match="the threshold of 'x' is 2"):
        found.labels(thresholds={"x": 2})
    assert "kind" not in table and found.table(all_probabilities=True)["p(y)"].tolist() == [0.1, 0.55]


def test_predictions_in_the_open_say_what_kind_the_label_is():
    p = torch.tensor([[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]])
    found = Predictions(torch.arange(3), list("abc"), ("x", "y", "other"), p, ("new", "known", "other"))
    assert found.table()["kind"] == ["new", "known", "other"]
    assert found.table(0.5)["kind"] == ["new", "known", "unknown"]


def test_a_data_frame_where_pandas_is_there(monkeypatch):
    found = Predictions(torch.arange(1), ["a"], ("x", "y"), torch.tensor([[0.9, 0.1]]))
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pandas", None)
        with pytest.raises(InputError, match="needs pandas"):
            found.to_frame()
    pandas = pytest.importorskip("pandas")
    assert isinstance(found.to_frame(), pandas.DataFrame) and found.to_frame().loc["a", "label"] == "x"


def test_without_base_labels_the_probe_is_used_and_says_so():
    edges, x, _ = own_graph.arrays()
    with pytest.warns(UserWarning, match="training-free probe"):
        classifier = FewShotClassifier("vantage").fit(Graph.from_edges(edges, x))
    assert classifier.model.card.method == "probe" and "probe" in classifier.notes[0]
    examples = {"a": [6, 14, 22], "b": [7, 15]}
    found = classifier.adapt(examples, among="new").predict_proba()
    assert classifier.calibration.source == "examples" and len(found) == 240
    assert (
        FewShotClassifier("probe")
        .fit(Graph.from_edges(edges, x))
        .adapt({"a": [6], "b": [7]}, among="new")
        .calibration.source
        == "none"
    )


def test_order_of_calls_is_explained(classifier, tmp_path):
    with pytest.raises(InputError, match="not fitted"):
        FewShotClassifier().adapt({"a": [0], "b": [1]})
    classifier.save(tmp_path / "m", data=False)
    with pytest.raises(InputError, match="no graph is attached"):
        FewShotClassifier.load(tmp_path / "m").predict()


def test_right_after_fit_the_known_classes_are_predicted(classifier):
    assert classifier.task is None and set(classifier.predict()) <= {*own_graph.TRADES, "other"}
    known = np.flatnonzero(np.isin(truth(), own_graph.TRADES))
    assert classifier.classes_ == (*own_graph.TRADES, "other")
    assert classifier.score(known.tolist(), truth()[known]) > 0.9
    wrong = np.roll(truth()[known], 1)
    assert classifier.score(known.tolist(), wrong) < 0.2
    with pytest.raises(InputError, match="y has 1 classes for 2 nodes"):
        classifier.score([0, 1], ["baker"])
    with pytest.raises(InputError, match=r"y\[1\] is 'nan', no class \(1 such values\)"):
        classifier.score([0, 1], ["baker", float("nan")])
    assert classifier.partial_adapt(add={"mule": ["n6"]}).classes_[0] == "mule"


def test_misspelt_parameters_are_named_at_once():
    with pytest.raises(InputError, match=r"unknown parameter 'seeed'\. Did you mean 'seed'"):
        FewShotClassifier(seeed=1)
    with pytest.raises(InputError, match=r"unknown parameter 'kshot'\. Did you mean 'k_shot'"):
        FewShotClassifier("probe").set_params(kshot=3)


def test_parameters_change_what_the_next_fit_does(classifier):
    classifier.adapt(own_graph.examples())
    before = classifier.predict()
    classifier.set_params(k_shot=4, head="ridge")
    assert classifier.get_params()["k_shot"] == 4 and classifier.options["head"] == "ridge"
    assert (classifier.predict() == before).all()
    assert repr(classifier).endswith("nodes, 6 known classes; new: mule, phisher]")
    few = FewShotClassifier("probe", min_size=100).fit(own_graph.graph())  # classes too small to train on are known
    assert repr(few).endswith("nodes, 6 known classes]")
    graph = own_graph.graph()
    assert repr(FewShotClassifier("probe").fit(graph.with_labels(0 * graph.y - 1))).endswith("nodes, 0 known classes]")


def test_a_fitted_classifier_is_saved_not_pickled(classifier):
    assert copy.deepcopy(FewShotClassifier("probe", k_shot=3)).get_params()["k_shot"] == 3
    for way in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match=r"save\(folder\) keeps it, FewShotClassifier.load reads it"):
            way(classifier)
    assert copy.copy(classifier).graph is classifier.graph


def test_scikit_learn_is_told_that_a_graph_has_edges():
    with pytest.raises(ValueError, match="A graph has edges: give edges= and a table of nodes="):
        cross_val_score(FewShotClassifier("probe"), np.eye(20), ["a", "b"] * 10, cv=2, error_score="raise")


def test_what_is_expected_is_about_nodes_without_a_label(classifier):
    classifier.adapt(own_graph.examples())
    free = classifier.expect(classifier.predict_proba(classifier.unlabelled()))
    told = classifier.expect(classifier.predict_proba())
    assert told.rows == free.rows == len(classifier.unlabelled())
    assert told.right == pytest.approx(free.right, abs=1e-6) and told.classes.keys() == free.classes.keys()
    labelled = classifier.predict_proba((classifier.graph.y >= 0).nonzero().flatten())
    assert classifier.expect(labelled).rows == len(labelled)
    assert str(free).startswith(f"Of {free.rows} rows {free.right} are expected to be right")


def test_nodes_may_be_rows_of_a_table_and_probabilities_an_array(classifier):
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    rows = pandas.DataFrame({"age": [4, 5], "who": ["n6", "n7"]})
    found = classifier.predict_proba(rows)
    assert found.names == ["n6", "n7"] and found[:, 0].tolist() == found.probabilities[:, 0].tolist()
    with pytest.raises(InputError, match="give a list of nodes, not a DataFrame"):
        classifier.predict(rows[["age"]])


def test_scikit_learn_clones_it():
    made = FewShotClassifier("probe", k_shot=3, min_size=None, head="ridge")
    again = clone(made)
    assert again is not made and again.get_params() == made.get_params() and again.model is None
    assert made.get_params()["min_size"] is None and made.get_params()["head"] == "ridge"
    assert clone(FewShotClassifier("probe", k_shot=3).fit(own_graph.graph())).model is None


def _bytes(value: Any) -> Any:
    """What a value holds, so that any change of it shows."""
    if isinstance(value, Graph):
        parts = (value.indptr, value.indices, value.features, value.y, value.weights)
        return [_bytes(part) for part in parts] + [value.node_names, value.class_names, value.feature_names]
    if isinstance(value, torch.Tensor):
        sparse = value.layout == torch.sparse_csr
        return [part.numpy().tobytes() for part in ((value.col_indices(), value.values()) if sparse else (value,))]
    if isinstance(value, dict):
        return {name: _bytes(part) for name, part in value.items()}
    if hasattr(value, "to_csv"):
        return value.to_csv(), list(map(str, value.dtypes))
    return repr(value)


def test_nothing_that_is_given_is_changed(tmp_path):
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    own_graph.write_tables(tmp_path)
    tables = {name: pandas.read_csv(tmp_path / f"{name}.csv") for name in ("edges", "nodes", "support")}
    graph, examples, priors = own_graph.graph(), own_graph.examples(), {"mule": 0.1}
    new = graph.subgraph(torch.arange(240) < 2)
    new = Graph.from_edges(
        [[0], [1]], new.features_scipy(), node_names=["new0", "new1"], feature_names=graph.feature_names
    )
    add, some, told, y = {"mule": ["n30"]}, ["n1", "n70"], ["n6"], ["baker", "mule"]
    limits, joined = {"mule": 0.5}, [("new0", "n3")]
    given = {**tables, "graph": graph, "examples": examples, "priors": priors, "new": new, "add": add, "some": some}
    given |= {"told": told, "y": y, "limits": limits, "joined": joined}
    before = _bytes(given)
    classifier = FewShotClassifier("probe", k_shot=3)
    calls = {
        "get_params": lambda: classifier.get_params(),
        "set_params": lambda: classifier.set_params(k_shot=3),
        "choose_split": lambda: classifier.choose_split(graph),
        "fit": lambda: (
            [one.fit(edges=tables["edges"], nodes=tables["nodes"]) for one in (clone(classifier),)]
            and classifier.fit(graph)
        ),
        "attach": lambda: classifier.attach(graph),
        "open_set_model": lambda: classifier.open_set_model(),
        "known_labels": lambda: classifier.known_labels(),
        "relabel": lambda: classifier.relabel(graph.y),
        "read_examples": lambda: classifier.read_examples(tables["support"]),
        "adapt": lambda: [classifier.adapt(one, priors=priors) for one in (tables["support"], examples)],
        "partial_adapt": lambda: classifier.partial_adapt(add=add).partial_adapt(remove=add),
        "predict": lambda: classifier.predict(some, thresholds=limits),
        "predict_proba": lambda: (
            classifier.predict_proba(some),
            classifier.predict_proba(new_nodes=new, new_edges=joined),
        ),
        "iter_proba": lambda: list(classifier.iter_proba(some)),
        "score": lambda: classifier.score(some, y),
        "find": lambda: classifier.find("mule", 5),
        "find_label_issues": lambda: classifier.find_label_issues(),
        "suggest": lambda: classifier.suggest(3, told=told, among=some),
        "expect": lambda: classifier.expect(classifier.predict_proba(), thresholds=limits),
        "explain": lambda: (
            classifier.explain("n70"),
            FewShotClassifier("probe").fit(graph).adapt(examples, among="new").explain("n70"),
        ),
        "simulated": lambda: classifier.simulated(),
        "unlabelled": lambda: (classifier.unlabelled(), classifier.predicted()),
        "coordinates": lambda: classifier.coordinates(),
        "embedding": lambda: classifier.embedding(),
        "embeddings": lambda: classifier.embeddings(),
        "save": lambda: classifier.save(tmp_path / "m"),
        "grow": lambda: FewShotClassifier.load(tmp_path / "m").grow({"mule": [f"n{i}" for i in range(6, 240, 8)]}),
        "load": lambda: FewShotClassifier.load(tmp_path / "m").attach(graph),
    }
    public = {name for name, part in vars(FewShotClassifier).items() if not name.startswith("_")}
    properties = {"classes_", "question", "calibration"}
    untried = {"least_size", "predicted", "search", "encode_texts", *properties}  # these take texts alone, or nothing
    assert public - set(calls) == untried
    for name, call in calls.items():
        call()
        assert _bytes(given) == before, name


def test_messages_name_arguments_and_not_flags():
    for file in Path(persistence.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not re.search(r"(^|[\s(])--[a-z]", node.value), (file.name, node.value)


# --- wrong examples -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        ({"a": ["n6"], "b": ["n999x"]}, "class 'b': there is no node 'n999x'"),
        ({"a": [6], "b": [240]}, "there is no node 240; ids are 0..239"),
        ({"a": [6], "b": [True]}, "there is no node True"),
        ({"a": ["n6"], "A": ["n7"]}, "named twice"),
        ({"a": ["n6"], "a ": ["n7"]}, "named twice"),
        ({"a": ["n6", "n14"]}, "at least two classes"),
        ({}, "at least two classes"),
        ({"a": ["n6"], "b": ["n6"]}, "'n6' is an example of 'b' and of 'a'"),
        ({"a": ["n6", "n6"], "b": ["n7"]}, "'n6' is an example of 'a' and of 'a'"),
        ({"baker": ["n6"], "b": ["n7"]}, "'baker' is no new class"),
        ({"a": ["n0"], "b": ["n7"]}, "the graph labels it 'baker'"),
        ({"a": [], "b": ["n7"]}, "class 'a' has no examples"),
        ({"a": "n6", "b": ["n7"]}, "give a list of nodes"),
        ({"unknown": ["n6"], "b": ["n7"]}, "a class is called 'unknown'"),
        ({"": ["n6"], "b": ["n7"]}, "a class is called ''"),
    ],
)
def test_wrong_examples_are_refused(classifier, examples, message):
    with pytest.raises(InputError, match=message):
        classifier.adapt(examples, among="new")


def test_among_must_be_new_or_all(classifier):
    with pytest.raises(InputError, match="unknown among 'every'"):
        classifier.adapt(own_graph.examples(), among="every")


# --- another graph --------------------------------------------------------------------------------------


def test_another_graph_with_the_same_columns_in_another_order(classifier, tmp_path):
    classifier.save(tmp_path / "m")
    edges, x, y = own_graph.arrays(seed=5)
    order = [3, 0, 5, 1, 4, 2]
    names = [own_graph.COLUMNS[i] for i in order]
    other = Graph.from_edges(edges, x[:, order], feature_names=names)
    loaded = FewShotClassifier.load(tmp_path / "m").attach(other)
    examples = {name: np.flatnonzero(y == 6 + i)[:3].tolist() for i, name in enumerate(own_graph.NEW)}
    labels = np.array(loaded.adapt(examples, among="new").predict_proba().labels())
    assert (labels == np.array([*own_graph.TRADES, *own_graph.NEW])[y])[y >= 6].mean() > 0.9
    assert loaded.calibration.source == "examples"  # there are no validation labels here
    with pytest.raises(InputError, match="no labelled node of a class the model knows"):
        loaded.adapt(examples, among="all")


@pytest.mark.parametrize("dense", [True, False])
def test_words_that_do_not_occur_in_another_graph_are_zero(dense):
    schema = FeatureSchema(3, ("a", "b", "c"), sparse=True)
    x = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    other = Graph.from_edges([[0], [1]], x if dense else sp.csr_matrix(x), feature_names=("c", "a"))
    assert schema.fit(other).x.to_dense().tolist() == [[2, 0, 1], [4, 0, 3]]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (("age", "balance", "cash", "cards"), "lacks 2 of them \\('nights', 'amount'\\)"),
        (("age", "balance", "cash", "cards", "nights", "height"), "lacks 1 .*'amount'.* has 1 others \\('height'\\)"),
        ((*own_graph.COLUMNS, "height"), "has 1 others \\('height'\\)"),
        (None, "4 feature columns, the model knows 6"),
    ],
)
def test_other_columns_are_refused_by_name(classifier, columns, message):
    width = 4 if columns is None else len(columns)
    other = Graph.from_edges([[0], [1]], np.ones((2, width), np.float32), feature_names=columns)
    with pytest.raises(InputError, match=message):
        classifier.attach(other)


def test_a_graph_without_features_only_knows_itself(classifier):
    edges, x, y = own_graph.arrays()
    bare = Graph.from_edges(edges, None, y)
    itself = FewShotClassifier("probe", k_shot=3).fit(bare, ClassSplit([0, 1, 2], [3, 4]))
    assert itself.attach(bare).adapt({"a": [6], "b": [7]}, among="new")
    with pytest.raises(InputError, match="fit a model on this graph"):
        itself.attach(Graph.from_edges(edges[:, 1:], None, y))
    with pytest.raises(InputError, match="6 feature columns, but the model was fitted on a graph without features"):
        itself.attach(Graph.from_edges(edges, x, y))
    with pytest.raises(InputError, match="this graph has no features"):
        classifier.attach(bare)


def test_sparse_columns_that_never_occur_are_zero():
    schema = FeatureSchema(3, ("a", "b", "c"), sparse=True)
    x = sp.csr_matrix(np.array([[0, 2.0], [1, 0]], dtype=np.float32))
    graph = schema.fit(Graph.from_edges([[0], [1]], x, feature_names=["c", "a"]))
    assert graph.features_scipy().toarray().tolist() == [[2, 0, 0], [0, 0, 1]]
    with pytest.raises(InputError, match="has 1 others \\('z'\\)"):
        schema.fit(Graph.from_edges([[0], [1]], x, feature_names=["c", "z"]))


def test_attaching_leaves_the_callers_graph_as_it_was():
    x = sp.csr_matrix(np.array([[1, 2, 0], [0, 3, 4], [5, 0, 6]], dtype=np.float32))
    graph = Graph.from_edges([[0, 1], [1, 2]], x, feature_names=["c", "a", "b"])
    before = graph.features.to_dense().clone()
    ordered = FeatureSchema(3, ("a", "b", "c"), sparse=True).fit(graph)
    assert torch.equal(ordered.features.to_dense(), before[:, [1, 2, 0]])
    assert torch.equal(graph.features.to_dense(), before)


# --- keeping --------------------------------------------------------------------------------------------


def test_saved_and_loaded_gives_the_same_probabilities(classifier, tmp_path):
    before = classifier.adapt(own_graph.examples(), among="new").predict_proba().probabilities
    classifier.save(tmp_path / "m")
    loaded = FewShotClassifier.load(tmp_path / "m").attach(own_graph.graph())
    assert torch.equal(loaded.adapt(own_graph.examples(), among="new").predict_proba().probabilities, before)
    assert loaded.known == classifier.known
    with pytest.raises(InputError, match="no new class"):
        loaded.adapt({"baker": ["n6"], "b": ["n7"]}, among="new")


def test_the_open_question_is_kept_with_the_model_and_learned_again_for_other_labels(classifier, tmp_path, monkeypatch):
    before = classifier.adapt(own_graph.examples()).predict_proba().probabilities
    classifier.save(tmp_path / "m")
    loaded = FewShotClassifier.load(tmp_path / "m").attach(own_graph.graph())
    with monkeypatch.context() as patch:
        patch.setattr(opening, "fit_open_set", lambda *_: pytest.fail("learned again"))
        patch.setattr(inference, "embed", lambda *_: pytest.fail("embedded"))
        after = loaded.adapt(own_graph.examples()).predict_proba().probabilities
    assert torch.allclose(before, after, atol=1e-6)
    edges, x, y = own_graph.arrays()
    known = np.where((y < 6) & (np.arange(240) % 4 > 0), y, -1)
    fewer = Graph.from_edges(edges, x, known, class_names=own_graph.TRADES, feature_names=own_graph.COLUMNS)
    assert (loaded.attach(fewer).adapt({"mule": [6]}).question.model.y < 0).sum() == (known < 0).sum()


def test_a_model_without_data_needs_its_tables(tmp_path):
    own_graph.write_tables(tmp_path)
    files = {"edges": tmp_path / "edges.csv", "nodes": tmp_path / "nodes.csv"}
    classifier = FewShotClassifier("probe", k_shot=3).fit(**files)
    expected = classifier.adapt(own_graph.examples()).predict_proba().probabilities
    classifier.save(tmp_path / "m")
    classifier.save(tmp_path / "m", force=True, data=False)
    assert not [path for path in (tmp_path / "m").iterdir() if path.suffix in (".npy", ".parquet")]
    loaded = FewShotClassifier.load(tmp_path / "m")
    with pytest.raises(InputError, match="no graph is attached"):
        loaded.adapt(own_graph.examples())
    loaded = FewShotClassifier.load(tmp_path / "m", **files)
    assert loaded.on_fitted_graph
    again = loaded.adapt(own_graph.examples()).predict_proba().probabilities
    torch.testing.assert_close(again, expected, atol=1e-4, rtol=1e-3)
    with pytest.raises(InputError, match="a graph needs its edges"):
        FewShotClassifier.load(tmp_path / "m", nodes=files["nodes"])


def test_a_model_of_fewnode_train_can_be_attached(tmp_path):
    edges, x, y = own_graph.arrays()
    graph = Graph.from_edges(edges, x, y)
    fewnode.save(
        fewnode.fit("probe", graph, ClassSplit([0, 1, 2], [3, 4, 5], [6, 7]), n_way=2, k_shot=2), tmp_path / "m"
    )
    classifier = FewShotClassifier.load(tmp_path / "m").attach(graph)
    assert classifier.known.base == ("0", "1", "2")
    assert classifier.adapt({"a": [6], "b": [7]}, among="new").calibration.source == "validation"
    assert classifier.attach(Graph.from_edges(edges[:, 1:], x)).known == KnownClasses()


def test_an_existing_folder_is_refused_and_an_old_model_survives_a_full_disk(classifier, tmp_path, monkeypatch):
    target = tmp_path / "m"
    classifier.save(target)
    with pytest.raises(InputError, match="holds a model already"):
        classifier.save(target)
    old = {file.name: file.read_bytes() for file in target.iterdir()}

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(persistence, "write_json", full)
    with pytest.raises(OSError, match="No space left"):
        classifier.save(target, force=True)
    with pytest.raises(OSError, match="No space left"):
        classifier.save(tmp_path / "new")
    assert {file.name: file.read_bytes() for file in target.iterdir()} == old
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    monkeypatch.undo()
    classifier.save(target, force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_folders_that_are_no_models(classifier, tmp_path: Path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="holds other files"):
        classifier.save(tmp_path, force=True)
    with pytest.raises(InputError, match="is a file"):
        classifier.save(tmp_path / "notes.txt")
    classifier.save(tmp_path / "m")
    (tmp_path / "m" / persistence.DOCUMENT).write_text(f'{{"format": {persistence.FORMAT}}}')
    with pytest.raises(InputError, match=r"classifier\.json is damaged: it has 13 bytes"):
        FewShotClassifier.load(tmp_path / "m")
    Manifest.write(tmp_path / "m")
    with pytest.raises(
        InputError, match=r"classifier\.json is damaged or of another kind: Object missing required field"
    ):
        FewShotClassifier.load(tmp_path / "m")
    (tmp_path / "m" / persistence.DOCUMENT).write_text('{"format": 9}')
    Manifest.write(tmp_path / "m")
    with pytest.raises(InputError, match="not of format"):
        FewShotClassifier.load(tmp_path / "m")
    (tmp_path / "m" / checkpoint.CARD).unlink()
    with pytest.raises(InputError, match="not a saved model"):
        FewShotClassifier.load(tmp_path / "m")


def test_words_of_a_text_column_are_kept_and_used_on_the_next_table(tmp_path):
    words = ["red cats run", "blue dogs sleep", "green birds sing", "grey fish swim"]
    for name, order in (("a", words), ("b", ["red birds whistle", "blue cats sleep", "dogs sing", "swim fish red"])):
        rows = [f"v{i},{'' if i % 5 == 0 else i % 4},{order[i % 4]}" for i in range(80)]
        own_graph.write(tmp_path / f"{name}.csv", ["id,label,text", *rows])
        own_graph.write(
            tmp_path / f"{name}_edges.csv", ["source,target", *(f"v{i},v{(i + 4) % 80}" for i in range(80))]
        )
    source = TableSource.of(tmp_path / "a_edges.csv", tmp_path / "a.csv", text_column="text")
    graph, source = source.infer()
    FewShotClassifier("probe", k_shot=3).fit(graph, source=source).save(tmp_path / "m")
    loaded = FewShotClassifier.load(tmp_path / "m")
    assert loaded.graph.feature_names == graph.feature_names
    assert abs(loaded.graph.features_scipy() - graph.features_scipy()).max() == 0
    other = loaded.attach(edges=tmp_path / "b_edges.csv", nodes=tmp_path / "b.csv").graph
    assert other.feature_names == graph.feature_names and "whistle" not in other.feature_names
    assert "whistle" in loaded.source.node_columns(["v0"], ["text"])["text"][0]


def test_examples_of_known_classes_and_of_other_are_labels_in_the_open_question(classifier):
    examples = own_graph.examples()
    classifier.adapt(examples)
    before = classifier.predict_proba(["n15", "n23"])
    classifier.adapt({"baker": ["n6"], **examples, "other": ["n14"]} | {"mule": ["n22", "n30"]})
    assert list(classifier.task.examples) == ["mule", "phisher"]
    assert list(classifier.support) == ["mule", "phisher", "baker", "other"]
    assert not {6, 14} & set(classifier.unlabelled().tolist())
    assert classifier.classes_ == before.classes  # nothing is offered twice
    assert classifier.partial_adapt(remove={"baker": ["n6"], "other": ["n14"]}).support.keys() == {"mule", "phisher"}
    assert classifier.adapt({}).classes_ == (*own_graph.TRADES, "other")
