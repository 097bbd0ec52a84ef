"""The service without HTTP: the answers of Python, classes that are never lost, models that are replaced."""

import json
import threading
import time

import pytest

import own_graph
from fewnode import FewShotClassifier, InputError
from fewnode.classifier.commands import load_attached
from fewnode.classifier.inputs import TableSource
from fewnode.labelling.journal import JOURNAL
from fewnode.labelling.server import open_session
from fewnode.serving.service import NotReady, Service

MULE = own_graph.examples()["mule"]


def test_it_predicts_what_python_predicts(service, folder):
    for name, nodes in own_graph.examples().items():
        service.add(name, nodes)
    classifier = load_attached(folder).adapt(own_graph.examples())
    wanted, found = (one.predict_proba() for one in (classifier, service.current().classifier))
    assert wanted.classes == found.classes and wanted.names == found.names
    assert (wanted.probabilities - found.probabilities).abs().max() == 0


def test_a_class_is_on_the_disk_before_the_answer(service, folder):
    service.add("mule", MULE)
    steps = [json.loads(line) for line in (folder / JOURNAL).read_text().splitlines()]
    assert {"do": "label", "nodes": MULE, "class": "mule"} in steps
    again = Service(folder)
    again.load()
    assert again.current().session.examples() == {"mule": MULE}


def test_services_of_one_folder_follow_each_other(service, folder):
    other = Service(folder)
    other.load()
    service.add("mule", MULE)
    before = other.current()
    assert "mule" in before.classifier.classes_
    other.change({"do": "remove", "name": "mule"})
    assert "mule" not in service.current().classifier.classes_
    assert "mule" in before.classifier.classes_, "what answers a request is not changed under it"


def test_many_writers_lose_nothing(service, folder):
    other = Service(folder)
    other.load()
    free = [f"n{i}" for i in range(0, 180, 3)]  # without a label in the tables
    names = [(f"class {i}", free[i]) for i in range(12)]

    def add(one, part):
        for name, node in part:
            one.add(name, [node])

    threads = [threading.Thread(target=add, args=(one, names[i::2])) for i, one in enumerate((service, other))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in (service, other):
        assert one.current().session.examples() == {name: [node] for name, node in names} | {}


def test_it_follows_the_page_but_does_not_write_beside_it(service, folder):
    session = open_session(folder)
    try:
        session.do({"do": "label", "nodes": MULE, "class": "mule"})
        assert service.current().session.examples() == {"mule": MULE}
        with pytest.raises(InputError, match="being labelled already by process"):
            service.change({"do": "remove", "name": "mule"})
    finally:
        session.journal.close()
    service.change({"do": "remove", "name": "mule"})
    assert service.current().session.examples() == {}


def test_wrong_steps_are_refused_and_not_kept(service, folder):
    for step, told in (
        ({"do": "label", "nodes": ["nobody"], "class": "mule"}, "no node 'nobody'"),
        ({"do": "label", "nodes": ["n1"], "class": "mule"}, "'n1' is labelled 'barber' in the graph"),
        ({"do": "remove", "name": "mule"}, "no class of your own"),
    ):
        with pytest.raises(InputError, match=told):
            service.change(step)
    assert not [line for line in (folder / JOURNAL).read_text().splitlines() if "do" in json.loads(line)]


def until(true, seconds=20.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def test_a_model_that_replaces_it_is_served(service, folder, home):
    told, stop = [], threading.Event()
    service.say = told.append
    service.add("mule", MULE)
    thread = threading.Thread(target=service.watch, args=(stop, 0.02))
    thread.start()
    try:
        first = service.current().model
        source = TableSource.of(home / "edges.csv", home / "nodes.csv")
        graph, source = source.infer()
        FewShotClassifier("probe", k_shot=3, seed=5).fit(graph, source=source).save(folder, force=True)
        until(lambda: service.current().model != first)
        assert service.current().session.examples() == {"mule": MULE}, "its classes are kept"
        second = service.current().model
        (folder / "model.json").write_text("{}")
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest["files"]["model.json"]["bytes"] = 2
        (folder / "manifest.json").write_text(json.dumps(manifest))
        until(lambda: any("the new model is not served" in line for line in told))
        assert service.current().model == second and len(service.current().classifier.predict(["n0"])) == 1
    finally:
        stop.set()
        thread.join()


def test_before_there_is_a_model(folder):
    service = Service(folder)
    with pytest.raises(NotReady):
        service.current()
    with pytest.raises(NotReady):
        service.change({"do": "remove", "name": "mule"})


def test_a_first_model_that_cannot_be_loaded_ends_it(tmp_path):
    service = Service(tmp_path / "nowhere")
    service.watch(threading.Event())
    assert service.served is None and isinstance(service.error, InputError)


def test_it_grows_while_it_answers(service, folder):
    other = Service(folder)
    other.load()
    y = own_graph.arrays()[2]
    mules = [f"n{i}" for i in range(len(y)) if y[i] == len(own_graph.TRADES)]
    service.add("mule", mules[:3])
    before, stop, failures = service.current().model, threading.Event(), []

    def ask():
        while not stop.is_set():
            served = service.current()
            kinds = dict(zip(served.classifier.classes_, served.classifier.question.kinds, strict=True))
            if kinds.get("mule") != ("new" if served.model == before else "known"):
                failures.append((served.model, kinds))
            served.classifier.predict(["n0"])

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        found = service.grow({"mule": mules[3:8], "baker": ["n1"]})  # a barber in the graph
    finally:
        stop.set()
        thread.join()
    assert (found.added, found.changed, found.promoted) == (8, 1, {"mule": 8}) and failures == []
    assert service.current().model != before
    with pytest.raises(InputError, match="there is no new label"):
        service.grow({"mule": mules[3:8]})  # asked again by somebody who missed the answer
    steps = [json.loads(line) for line in (folder / JOURNAL).read_text().splitlines()]
    assert {"do": "label", "nodes": mules[3:8], "class": "mule", "settle": True} in steps
    other.load()
    assert "mule" in other.current().session.labels.known and other.current().session.notes == []


def test_what_it_grows_by_is_on_the_disk_before_the_work(service, folder, monkeypatch):
    def killed(*given, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr("fewnode.serving.service.grow_folder", killed)
    with pytest.raises(KeyboardInterrupt):
        service.grow({"mule": MULE})
    monkeypatch.undo()
    again = Service(folder)
    again.load()
    assert again.current().session.examples() == {"mule": MULE}
    with pytest.raises(InputError, match="no node 'nobody'"):
        again.grow({"mule": ["nobody"]})
