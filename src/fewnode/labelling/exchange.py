"""Answers in the formats of Label Studio (JSON), doccano and Argilla (JSON lines)."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ..classifier.inputs import name_index
from ..errors import InputError, refused
from ..files import PathLike, readable
from ..graph import Graph
from .labels import SETTLED, Answer, Step, agreed

FORMATS = ("label-studio.json", "doccano.jsonl", "argilla.jsonl")


def write(form: str, answers: Mapping[str, Mapping[str, Answer]], about: Mapping[str, Mapping[str, str]]) -> bytes:
    """Convert the answers of people by node to one of the ``FORMATS``.

    ``about`` holds title, text and columns of the nodes. doccano gets the class that people agree on; the others get
    the answer of each person.
    """
    records: list[dict[str, Any]] = []
    for node, shown in about.items():
        people, data = answers[node], {**shown, "node": node}
        said = {"" if who == SETTLED else who: one for who, one in people.items() if one.label}
        if form == "doccano.jsonl" and (label := agreed(people)):
            records.append({**data, "label": [label]})
        elif form == "argilla.jsonl" and said:
            given = [{"value": one.label, "user_id": who} for who, one in said.items()]
            fields = {"title": data["title"], "text": data["text"]}
            records.append({"id": node, "fields": fields, "metadata": {"node": node}, "responses": {"label": given}})
        elif form == "label-studio.json" and said:
            records.append({"data": data, "annotations": [_annotation(who, one) for who, one in said.items()]})
    lines = [json.dumps(record, ensure_ascii=False) for record in records]
    text = "[" + ",\n".join(lines) + "]\n" if form == "label-studio.json" else "".join(f"{line}\n" for line in lines)
    return text.encode("utf-8", "replace")


def _annotation(who: str, answer: Answer) -> dict[str, Any]:
    meta = {"who": who, "unsure": answer.unsure, "text": [answer.text] if answer.text else []}
    shown = {"from_name": "label", "to_name": "text", "type": "choices", "value": {"choices": [answer.label]}}
    return {"result": [{**shown, "meta": meta}]}


def read(path: PathLike, graph: Graph) -> list[Step]:
    """The answers in a file of any of these programs.

    A record identifies its node by ``node``, ``id`` or ``external_id`` (in its data, fields or metadata), or by a text
    that is the title of exactly one node.
    """
    text = readable(path).read_text(encoding="utf-8-sig", errors="replace").strip()
    steps = []
    for place, record in enumerate(_records(path, text), 1):
        where = f"{path}, record {place}"
        try:
            said = list(_answers(record))
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise InputError(
                f"{where}: it has none of the layouts of Label Studio (data, annotations), doccano (text, label) and "
                f"Argilla (fields, responses): {type(error).__name__} {error}"
            ) from error
        for who, label, meta in said:
            if not isinstance(label, str) or not label.strip():
                raise InputError(f"{where}: {label!r:.80} is not one class; a node has one, by its name")
            nodes, who = [_node(record, graph, where)], str(meta.get("who", who))
            comment = " ".join(map(str, meta.get("text") or [])) or None
            steps.append(Step("label", nodes, label=label, who=who, text=comment, unsure=meta.get("unsure") is True))
    return steps


def _records(path: PathLike, text: str) -> list[dict[str, Any]]:
    with refused(f"{path} is neither a JSON list nor JSON lines of records", ValueError, RecursionError):
        if text.startswith("["):
            return msgspec.json.decode(text, type=list[dict[str, Any]])
        return [msgspec.json.decode(line, type=dict[str, Any]) for line in text.splitlines() if line.strip()]


def _answers(record: Mapping[str, Any]) -> Iterable[tuple[Any, Any, Mapping[str, Any]]]:
    """Who said what in a record, and what else is noted of it."""
    if "annotations" in record:  # Label Studio
        for one in record["annotations"]:
            who = one.get("completed_by", "")
            for result in [] if one.get("was_cancelled") else one["result"]:
                if result["type"] == "choices":
                    choices = result["value"]["choices"]
                    person = who.get("email", who.get("id", "")) if isinstance(who, dict) else who
                    yield person, choices[0] if len(choices) == 1 else choices, result.get("meta") or {}
    elif "responses" in record:  # Argilla
        for given in record["responses"].values():
            for one in given:
                if one.get("status", "submitted") == "submitted":
                    yield one.get("user_id", ""), one["value"], {}
    else:  # doccano
        labels = record["label"] if "label" in record else record["labels"]
        labels = labels if isinstance(labels, list) else [labels]
        if labels:
            yield record.get("annotator", ""), labels[0] if len(labels) == 1 else labels, {}


def _node(record: Mapping[str, Any], graph: Graph, where: str) -> str:
    held = [part for key in ("data", "fields", "metadata", "meta") if isinstance(part := record.get(key), dict)]
    for key in ("node", "id", "external_id"):
        for part in (*held, record):
            if (name := str(part.get(key, ""))) in name_index(graph, [name]):
                return name
    texts = {str(part.get(key)) for part in (*held, record) for key in ("title", "text")}
    found = [i for i, title in enumerate(graph.node_titles or ()) if title and title in texts]
    if len(found) != 1:
        raise InputError(f'{where}: no node of the graph is named there; add its id as "node"')
    return graph.node_names[found[0]] if graph.node_names else str(found[0])
