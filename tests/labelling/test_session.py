"""A session learns from every step, loses none, and writes what the command line writes."""

import json
from dataclasses import replace

import pytest

import own_graph
from fewnode.classifier.classifier import FewShotClassifier
from fewnode.classifier.commands import load_attached, predict_tables
from fewnode.classifier.inputs import find_nodes
from fewnode.errors import InputError
from fewnode.labelling.journal import JOURNAL
from fewnode.labelling.session import LabelSession, Point
from fewnode.tables import write_columns
from labelling_data import members


def give(session, nodes, name, **more):
    session.do({"do": "label", "nodes": nodes, "class": name, **more})


def test_every_step_changes_the_whole_map_and_undo_brings_it_back(opened):
    session = opened()
    start = [part.tolist() for part in session.scores()]
    mules = members(0)
    give(session, mules[:3], "mule")
    choice, confidence, label = session.scores()
    ids = find_nodes(session.graph, mules, "mules").tolist()
    assert (choice[ids] == 0).mean() > 0.6 and (label[ids[:3]] == 2).all() and confidence.max() == 255
    counted = {one["name"]: one for one in session.counts()}
    assert counted["mule"]["examples"] == mules[:3] and counted["mule"]["predicted"] > 15
    assert counted["baker"]["labelled"] == 20 and counted["other"]["kind"] == "other"
    session.undo()
    assert [part.tolist() for part in session.scores()] == start
    session.redo()
    assert session.scores()[0].tolist() == choice.tolist() and session.version == 4


def test_killed_and_opened_again_it_is_where_it_was(opened, folder):
    session = opened()
    give(session, members(0)[:2], "mule")
    give(session, members(1)[:1], "phisher", asked="teach")
    session.do({"do": "skip", "nodes": [members(1)[5]]})
    session.undo()
    state, scores, points = session.labels.marks, session.scores()[0].tolist(), session.points
    again = opened()
    assert again.labels.marks == state and again.scores()[0].tolist() == scores
    assert again.labels.undone and [one.answers for one in again.points] == [one.answers for one in points]
    again.redo()
    assert list(again.labels.marks.values()).count("") == 1


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_the_files_are_those_of_the_command_line(opened, folder, tmp_path, form):
    session = opened()
    give(session, members(1)[2:4], "phisher")
    give(session, [members(0)[4]], "mule")
    give(session, ["n0"], "baker")  # a node of a known class that had no label
    give(session, [members(1)[9]], "other")
    session.do({"do": "class", "name": "empty"})
    write_columns(tmp_path / "support.csv", session.support_table())
    write_columns(tmp_path / f"mine.{form}", session.predictions_table())
    predict_tables(load_attached(folder).adapt(tmp_path / "support.csv"), tmp_path / f"theirs.{form}")
    assert (tmp_path / f"mine.{form}").read_bytes() == (tmp_path / f"theirs.{form}").read_bytes()
    session.journal.close()
    (folder / JOURNAL).unlink()
    again = opened(support=tmp_path / "support.csv")  # what was saved can be read in again
    assert again.examples() == session.examples() and again.support_table() == session.support_table()
    assert "not read again" in opened(support=tmp_path / "support.csv").notes[0]


def test_questions_answers_and_more_like_this(opened):
    session = opened()
    first = session.suggest(4)
    assert len(first) == 4 and first.labels  # before there is any class
    session.do({"do": "skip", "nodes": first.names})
    give(session, members(0)[:2], "mule")
    second = session.suggest(50)
    assert not set(second.names) & {*first.names, *members(0)[:2]}
    sure = session.suggest(3, "sure", "mule")
    give(session, sure.names[:1], "mule", asked="sure mule")
    give(session, sure.names[1:2], "other", asked="sure mule")
    assert session.checked() == {"mule": (2, 1)}
    more = session.more("mule", 10)
    assert sum(name in members(0) for name in more) >= 8
    like = session.like([members(1)[0]], 10)
    assert sum(name in members(1) for name in like) >= 7 and members(1)[0] not in like
    node = members(0)[8]
    (at,) = find_nodes(session.graph, [node], "nodes").tolist()
    assert session.why(node).label == session.classes[int(session.choice[at])][0]


def test_what_it_says_of_going_on(opened):
    session = opened()
    give(session, members(0)[:1], "mule")
    assert [one.answers for one in session.points] == [1] and 0 < session.points[-1].expected <= 1
    assert not session.settled()
    session.points = [Point(i, 0.9, 0.8, 0.0) for i in range(10 + 1)]
    session.labels = replace(session.labels, done=session.labels.done * 10)
    assert session.settled()
    session.points[-1] = Point(10, 0.95, 0.8, 0.0)
    assert not session.settled()


def test_without_labels_learning_starts_with_the_second_class():
    graph = own_graph.graph()
    bare = graph.with_labels(graph.y.clone().fill_(-1))
    session = LabelSession(FewShotClassifier("probe", k_shot=3).fit(bare))
    give(session, [members(0)[0]], "mule")
    assert session.found is None and session.scores()[0].max() == 0 and session.suggest(3).names
    with pytest.raises(InputError, match="nothing to predict from"):
        session.predictions_table()
    assert session.why(members(0)[1]) is None and session.more("mule") == []
    give(session, [members(1)[0]], "other")
    assert session.found is not None and {name for name, _ in session.classes} == {"mule", "other"}
    assert session.predictions_table()["id"]


def test_wrong_steps_are_told_and_not_kept(opened, folder):
    session = opened()
    before = (folder / JOURNAL).read_bytes()
    for step, message in (
        ({"do": "label", "nodes": ["n9999"], "class": "mule"}, "there is no node 'n9999'"),
        ({"do": "label", "nodes": ["n1"], "class": "mule"}, "is labelled 'barber' in the graph"),
        ({"do": "fly"}, "unknown step"),
    ):
        with pytest.raises(InputError, match=message):
            session.do(step)
    for turn in (session.undo, session.redo):
        with pytest.raises(InputError, match="nothing to"):
            turn()
    assert (folder / JOURNAL).read_bytes() == before and session.version == 1


def test_labels_of_nodes_that_are_gone_stay_in_the_journal(opened, folder):
    session = opened()
    give(session, members(0)[:2], "mule")
    session.journal.append({"do": "label", "nodes": ["gone"], "class": "mule"})
    again = opened()
    assert again.notes[0].startswith("1 nodes that were labelled by hand are no longer in the graph")
    assert again.examples() == {"mule": members(0)[:2]} and "gone" in (folder / JOURNAL).read_text()
    again.journal.append({"do": "rename", "name": "nobody", "to": "x"})
    again.journal.append({"do": "label", "nodes": ["n1"], "class": "mule"})  # labelled in the graph by now
    third = opened()
    assert "no longer fits" in third.notes[0] and "(gone)" in third.notes[1]
    assert third.examples() == {"mule": members(0)[:2]}
    entries = [json.loads(line) for line in (folder / JOURNAL).read_text().splitlines()]
    assert sum(entry.get("do") == "label" for entry in entries) == 3


def test_a_table_of_examples_is_understood_as_by_predict(opened, folder, tmp_path):
    suspects = tmp_path / "suspects.csv"  # neither column has a usual name: that of the nodes is found by its cells
    rows = [f"{node};{name}" for name, nodes in own_graph.examples().items() for node in nodes]
    own_graph.write(suspects, ["suspect person;what they did", *rows])
    examples = own_graph.examples()
    assert {name: set(nodes) for name, nodes in opened(support=suspects).examples().items()} == {
        name: set(nodes) for name, nodes in examples.items()
    }
    classifier = load_attached(folder).adapt(suspects)
    predict_tables(classifier, tmp_path / "p.csv")
    assert list(classifier.support)[:2] == list(examples)


def test_a_label_of_the_graph_is_corrected_in_the_table_of_labels(opened):
    session = opened()
    give(session, ["n1"], "baker", settle=True)  # a barber in the graph
    give(session, members(0)[:1], "mule")
    give(session, [members(1)[0]], "other")
    table = dict(zip(*session.labels_table().values(), strict=True))
    assert table["n1"] == "baker" and table[members(0)[0]] == "mule" and members(1)[0] not in table
    assert len(table) == 120 + 1 and list(table)[:2] == ["n1", "n2"]
    assert session.examples() == {"mule": members(0)[:1], "other": [members(1)[0]]}  # predictions do not use it


def test_questions_are_handed_out_once_and_a_share_twice(opened):
    session = opened(twice=1.0)
    give(session, members(0)[:2], "mule", who="ann")
    first = session.questions(5, who="ann")
    second = session.questions(5, who="bob")
    assert second[:2] == members(0)[:2] and not set(first) & set(second)  # bob checks what ann said
    give(session, members(0)[:1], "phisher", who="bob")
    assert session.questions(5, "open", who="cid") == members(0)[:1]
    assert session.questions(5, "open", who="ann") == []  # cid has it
    once = opened(twice=0.0)
    assert not set(once.questions(5, who="bob")) & set(members(0)[:2])


def test_doubtful_labels_are_a_queue(opened):
    session = opened()
    asked = session.questions(50, "issues")
    assert asked == list(session.issues())[:50] == session.classifier.find_label_issues().names[:50]
    if asked:
        give(session, asked[:1], "baker", settle=True)
        assert asked[0] not in session.questions(50, "issues")


def test_a_class_that_has_grown_known_is_taken_up_again(opened, folder):
    session = opened()
    give(session, members(1)[:3], "mule")  # wrong ones, taken away again
    session.do({"do": "remove", "name": "mule"})
    give(session, members(0)[:6], "mulee")
    session.do({"do": "rename", "name": "mulee", "to": "mule"})
    give(session, members(1)[:2], "phisher")
    session.do({"do": "label", "nodes": ["n1"], "class": "baker", "settle": True})  # a barber in the graph
    found = session.grow()
    assert found.promoted == {"mule": 6} and found.changed == 1 and found.waiting == {"phisher": 2}
    give(session, members(1)[2:3], "phisher")
    again = opened()
    for one in (session, again):
        assert one.notes == [] and one.examples() == {"phisher": members(1)[:3]}
        assert one.labels.classes == ("phisher",) and "mule" in one.labels.known
        table = dict(zip(*one.labels_table().values(), strict=True))
        assert table["n1"] == "baker" and table[members(0)[0]] == "mule"
    again.undo()
    with pytest.raises(InputError, match="nothing to undo"):
        again.undo()
    assert again.examples() == {"phisher": members(1)[:2]}


def test_a_growth_that_was_killed_before_the_model_was_saved_did_not_happen(opened, folder, monkeypatch):
    session = opened()
    give(session, members(0)[:6], "mule")
    monkeypatch.setattr(FewShotClassifier, "save", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        session.grow()
    monkeypatch.undo()
    again = opened()
    assert again.examples() == {"mule": members(0)[:6]} and again.labels.classes == ("mule",) and again.notes == []
    assert again.grow().promoted == {"mule": 6}
