"""Answers from and for other programs, on files in the layout that their documentation shows."""

import json

import pytest

from fewnode import Graph
from fewnode.errors import InputError
from fewnode.labelling import exchange
from fewnode.labelling.labels import SETTLED, Answer, Step
from labelling_data import members


def choice(label):
    return {"type": "choices", "value": {"choices": [label]}}


NAMES, TITLES = ["p1", "p2", "p3"], ["Trees", "Graphs", ""]
LABEL_STUDIO = [
    {
        "id": 1,
        "created_at": "2021-03-09T21:52:49.513742Z",
        "project": 83,
        "data": {"text": "Trees", "node": "p1"},
        "annotations": [
            {
                "id": 1001,
                "result": [
                    {"from_name": "kind", "id": "Dx", "to_name": "text", **choice("maths")},
                    {"from_name": "why", "to_name": "text", "type": "textarea", "value": {"text": ["clear"]}},
                ],
                "was_cancelled": False,
                "completed_by": {"id": 10, "email": "ann@example.org"},
            },
            {"id": 1002, "result": [], "was_cancelled": True, "completed_by": 11},
        ],
        "predictions": [{"model_version": "m", "result": []}],
    },
    {"id": 2, "data": {"text": "Graphs"}, "annotations": [{"result": [
        {"from_name": "kind", "to_name": "text", **choice("art")}], "completed_by": 7}]},
]  # fmt: skip
ARGILLA = [
    {
        "id": "p1",
        "fields": {"text": "Trees"},
        "metadata": {"source": "x"},
        "suggestions": {"kind": {"value": "art", "score": 0.7, "agent": "m"}},
        "responses": {"kind": [{"value": "maths", "user_id": "u1"}, {"value": "art", "user_id": "u2"}]},
        "vectors": {},
        "_server_id": None,
    },
    {"id": "5b", "fields": {"text": "no"}, "metadata": {"node": "p3"}, "responses": {}},
]
DOCCANO = [
    {"id": 1, "text": "Trees", "label": ["maths"], "Comments": []},
    {"id": 2, "text": "Graphs", "label": [], "Comments": []},
    {"id": 3, "text": "no title", "label": ["art"], "node": "p3"},
]


@pytest.fixture
def graph():
    return Graph.from_edges([[0, 1], [1, 2]], node_names=NAMES, node_titles=TITLES)


@pytest.mark.parametrize(
    ("name", "records", "said"),
    [
        ("export.json", LABEL_STUDIO, [("p1", "maths", "ann@example.org"), ("p2", "art", "7")]),
        ("records.json", ARGILLA, [("p1", "maths", "u1"), ("p1", "art", "u2")]),
        ("records.jsonl", ARGILLA, [("p1", "maths", "u1"), ("p1", "art", "u2")]),
        ("all.jsonl", DOCCANO, [("p1", "maths", ""), ("p3", "art", "")]),
        ("plain.jsonl", [{"id": "p2", "label": "art"}], [("p2", "art", "")]),
    ],
)
def test_files_as_documented(graph, tmp_path, name, records, said):
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (tmp_path / name).write_text(lines if name.endswith("l") else json.dumps(records))
    assert exchange.read(tmp_path / name, graph) == [
        Step("label", [node], label=label, who=who) for node, label, who in said
    ]


@pytest.mark.parametrize("form", exchange.FORMATS)
def test_what_is_written_is_read_again(graph, tmp_path, form):
    answers = {
        "p1": {"ann": Answer("maths", False, "clear"), "bob": Answer("art", True)},
        "p2": {"": Answer("art"), "bob": Answer("")},
        "p3": {"ann": Answer("art"), "bob": Answer("maths"), SETTLED: Answer("maths")},
    }
    about = {node: {"title": title, "text": f"{title} \u202e text"} for node, title in zip(NAMES, TITLES, strict=True)}
    (tmp_path / form).write_bytes(exchange.write(form, answers, about))
    steps = exchange.read(tmp_path / form, graph)
    said = {(step.nodes[0], step.who): (step.label, step.unsure, step.text or "") for step in steps}
    if form == "doccano.jsonl":
        assert said == {(n, ""): (c, False, "") for n, c in (("p1", "maths"), ("p2", "art"), ("p3", "maths"))}
    else:
        assert {key: value[0] for key, value in said.items()} == {
            ("p1", "ann"): "maths", ("p1", "bob"): "art", ("p2", ""): "art",
            ("p3", "ann"): "art", ("p3", "bob"): "maths", ("p3", ""): "maths",
        }  # fmt: skip
    if form == "label-studio.json":
        assert said["p1", "ann"] == ("maths", False, "clear") and said["p1", "bob"][1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (json.dumps([{"data": {"node": "p9"}, "annotations": [{"result": [choice("a")]}]}]), "no node"),
        ('{"text": "Trees", "label": ["a", "b"]}', "not one class"),
        ('{"text": "Trees", "label": [3]}', "not one class"),
        ('{"text": "Trees"}', "none of the layouts"),
        ('{"text": "Trees", "annotations": 5}', "none of the layouts"),
        ('{"text": "Trees", "responses": [1]}', "none of the layouts"),
        ("[1]", "neither a JSON list nor JSON lines"),
        ('{"text": ', "neither a JSON list nor JSON lines"),
        ("[" * 5000, "neither a JSON list nor JSON lines"),
    ],
)  # fmt: skip
def test_other_files_are_refused_with_their_place(graph, tmp_path, text, message):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(InputError, match=message):
        exchange.read(tmp_path / "x.json", graph)


def test_a_session_starts_from_answers_of_others(opened, tmp_path):
    lines = [{"text": "x", "node": node, "label": ["mule"]} for node in members(0)[:2]]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert opened(support=tmp_path / "d.jsonl").examples() == {"mule": members(0)[:2]}
