"""The service over HTTP: its addresses, its errors, whom it refuses, and that no request makes it fail."""

import json
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import own_graph

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
from fastapi.testclient import TestClient

from fewnode import InputError
from fewnode.serving.http import Limits, application, serve
from fewnode.serving.service import Service
from fewnode.tables.read import _in_memory

EXAMPLES = own_graph.examples()
ATTRIBUTES = dict(zip(own_graph.COLUMNS, own_graph.arrays()[1][6].tolist(), strict=True))  # of a mule


def client_of(service, limits=Limits(), token=None, **headers):  # noqa: B008
    app = application(service, limits, token)
    return TestClient(app, base_url="http://127.0.0.1:8000", headers=headers, raise_server_exceptions=False)


@pytest.fixture
def client(service):
    return client_of(service)


def test_the_conversation(client):
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json()["status"] == "ready"
    kinds = {one["name"]: one["kind"] for one in client.get("/v1/classes").json()["classes"]}
    assert set(kinds.values()) == {"known", "other"}
    for name, nodes in EXAMPLES.items():
        answer = client.post("/v1/classes", json={"name": name, "examples": nodes})
        assert answer.status_code == 200 and answer.json()["classes"][0]["kind"] == "new"
    y = own_graph.arrays()[2]
    mules = [f"n{i}" for i in range(len(y)) if y[i] == len(own_graph.TRADES)]
    answer = client.post("/v1/predict", json={"nodes": mules}).json()
    assert [row["id"] for row in answer["predictions"]] == mules
    assert sum(row["label"] == "mule" for row in answer["predictions"]) > 0.6 * len(mules)
    found = client.get("/v1/find", params={"class": "mule", "top": 5}).json()
    assert found["label"] == "mule" and len(found["candidates"]) == 5
    assert client.get("/v1/explain", params={"node": mules[9]}).json()["label"] == "mule"
    left = client.delete("/v1/classes/mule").json()
    assert "mule" not in {one["name"] for one in left["classes"]}


def test_growing(client):
    y = own_graph.arrays()[2]
    mules = [f"n{i}" for i in range(len(y)) if y[i] == len(own_graph.TRADES)]
    assert "there is no new label" in client.post("/v1/grow", json={}).json()["error"]
    before = client.get("/readyz").json()["model"]
    answer = client.post("/v1/grow", json={"labels": {"mule": mules[:8], "phisher": EXAMPLES["phisher"]}})
    grown = answer.json()
    assert answer.status_code == 200 and grown["promoted"] == {"mule": 8} and grown["added"] == 8
    assert (
        grown["waiting"] == {"phisher": len(EXAMPLES["phisher"])}
        and grown["model"] == client.get("/readyz").json()["model"] != before
    )
    kinds = {one["name"]: one["kind"] for one in client.get("/v1/classes").json()["classes"]}
    assert kinds["mule"] == "known" and kinds["phisher"] == "new"
    assert client.post("/v1/grow", json={"labels": {"mule": ["nobody"]}}).status_code == 400


def test_new_nodes(client):
    for name, nodes in EXAMPLES.items():
        client.post("/v1/classes", json={"name": name, "examples": nodes})
    new = [{"id": f"x{i}", **ATTRIBUTES} for i in range(2)]
    edges = [["x0", "n6"], {"source": "x1", "target": "x0"}]
    body = {"new_nodes": new, "new_edges": edges, "all_probabilities": True}
    answers = [client.post("/v1/predict", json=body).json() for _ in range(2)]
    assert answers[0] == answers[1], "the nodes of one request are gone when the next one comes"
    rows = answers[0]["predictions"]
    assert [row["id"] for row in rows] == ["x0", "x1"] and [row["label"] for row in rows] == ["mule", "mule"]
    assert abs(sum(rows[0]["probabilities"].values()) - 1) < 1e-4
    alone = client.post("/v1/predict", json={"new_nodes": new}).json()["predictions"]
    assert [row["id"] for row in alone] == ["x0", "x1"], "nodes need no edges"


def test_new_nodes_of_many_at_once(service):
    def ask(i):
        body = {"new_nodes": [{"id": f"x{i}", **ATTRIBUTES}], "new_edges": [[f"x{i}", "n6"]]}
        answer = client_of(service).post("/v1/predict", json=body)
        return answer.status_code, answer.json()["predictions"][0]["id"]

    _in_memory.cache_clear()  # as in a process that has read no table yet
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(ask, range(24))) == [(200, f"x{i}") for i in range(24)]


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        ({"nodes": ["n0", "nobody"]}, 400, "there is no node 'nobody' in the graph"),
        ({}, 400, "give either nodes"),
        ({"nodes": ["n0"], "new_nodes": [{"id": "x"}]}, 400, "give either nodes"),
        ({"nodes": ["n0"] * 51}, 400, "ask for at most 50"),
        ({"nodes": ["n0"], "threshold": 2}, 422, "threshold: Input should be less than or equal to 1"),
        ({"nodes": [{}]}, 422, "nodes.0"),
        ({"knots": ["n0"]}, 422, "knots: there is no such field"),
        (
            {"new_nodes": [{"id": "n0", **ATTRIBUTES}], "new_edges": [{"source": "n0", "target": "n1"}]},
            400,
            "'n0' is in",
        ),
        ({"new_nodes": [{"id": "x", **ATTRIBUTES}], "new_edges": [{"source": "x", "target": "y"}]}, 400, "'y'"),
        ({"new_nodes": [{}]}, 400, "no rows with columns"),
        ("{", 422, "body: this is not JSON"),
        ("[]", 422, "body: send a JSON object"),
        ("[" * 100_000, 400, ""),
        ('{"nodes": ["\\ud800"]}', 422, "nodes.0"),
        ('{"nodes": ["n0"], "threshold": NaN}', 422, "threshold"),
        (" " * 5000, 413, "more than 4,000 bytes"),
    ],
)
def test_what_is_wrong_is_named(service, body, status, told):
    client = client_of(service, Limits(body=4000 if isinstance(body, str) and body[0] == " " else 1 << 20, nodes=50))
    text = body if isinstance(body, str) else json.dumps(body)
    answer = client.post("/v1/predict", content=text, headers={"content-type": "application/json"})
    assert answer.status_code == status, answer.text
    assert told in answer.json()["error"]


def test_classes_that_cannot_be_learned(client):
    for body, told in (
        ({"name": "mule"}, "neither examples nor a description"),
        ({"name": "mule", "description": "moves stolen money"}, "text encoder"),
        ({"name": "mule", "examples": ["n1"]}, "'n1' is labelled 'barber'"),
        ({"name": "unknown", "examples": ["n6"]}, "unknown"),
    ):
        answer = client.post("/v1/classes", json=body)
        assert answer.status_code == 400 and told in answer.json()["error"]
    assert "mule" not in client.get("/v1/classes").text


def test_every_other_error_is_json_too(client):
    for method, path, status in (
        ("GET", "/nowhere", 404),
        ("PUT", "/v1/classes", 405),
        ("GET", "/v1/explain", 422),
        ("GET", "/v1/explain?node=nobody", 400),
        ("GET", "/v1/find", 400),
        ("GET", "/v1/find?class=nobody", 400),
        ("DELETE", "/v1/classes/nobody", 400),
    ):
        answer = client.request(method, path)
        assert (answer.status_code, set(answer.json())) == (status, {"error"}), path


def test_nobody_else_may_ask(service):
    client = client_of(service)
    for headers, status in (
        ({"host": "example.org"}, 421),
        ({"host": "127.0.0.1.example.org:8000"}, 421),
        ({"host": "[::1"}, 421),
        ({"origin": "http://example.org"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:8000"}, 200),
        ({"host": "[::1]:8000"}, 200),
        ({"host": "localhost"}, 200),
    ):
        answer = client.get("/v1/classes", headers=headers)
        assert answer.status_code == status, headers
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_a_token_is_asked_for(service):
    client = client_of(service, token="a secret of some length", host="any.example.org")
    for path in ("/v1/classes", "/metrics", "/docs", "/openapi.json", "/nowhere"):
        answer = client.get(path)
        assert answer.status_code == 401 and answer.headers["WWW-Authenticate"] == "Bearer"
        assert client.get(path, headers={"authorization": "Bearer wrong"}).status_code == 401
        assert client.get(path, headers={"authorization": "Bearer a secret of some length"}).status_code in (200, 404)
    assert client.get("/healthz").status_code == client.get("/readyz").status_code == 200


def test_a_request_that_takes_too_long_is_given_up(service):
    client = client_of(service, Limits(seconds=1e-4))
    with client:  # the threads of the application
        answer = client.post("/v1/predict", json={"nodes": ["n0"]})
    assert answer.status_code == 503 and "took longer" in answer.json()["error"]


def test_before_there_is_a_model(folder):
    client = client_of(Service(folder))
    for path in ("/readyz", "/v1/classes", "/v1/find"):
        answer = client.get(path)
        assert answer.status_code == 503 and answer.json()["error"] == "the model is being loaded"
    assert client.get("/healthz").status_code == 200


def test_a_defect_is_an_answer_without_details(service, monkeypatch):
    def broken():
        raise RuntimeError("of no use to a stranger")

    client = client_of(service)
    monkeypatch.setattr(service, "current", broken)
    answer = client.get("/v1/classes")
    assert answer.status_code == 500 and "RuntimeError" in answer.text and "stranger" not in answer.text


def test_documentation_and_metrics(client):
    client.post("/v1/predict", json={"nodes": ["n0", "n1"]})
    client.get("/nowhere")
    text = client.get("/metrics").text
    assert 'fewnode_nodes_total{kind="known"} 2.0' in text
    assert 'fewnode_request_seconds_count{method="POST",path="/v1/predict",status="200"} 1.0' in text
    assert 'path="other",status="404"' in text
    page = client.get("/docs")
    assert "POST /v1/predict" in page.text and "<script" not in page.text and "https://" not in page.text
    assert client.get("/openapi.json").json()["paths"].keys() >= {"/v1/predict", "/v1/classes", "/v1/find"}


def test_other_machines_need_a_token(folder, tmp_path):
    with pytest.raises(InputError, match="token_file="):
        serve(folder, host="0.0.0.0")
    short = tmp_path / "token"
    short.write_text("short\n")
    with pytest.raises(InputError, match="16 or more"):
        serve(folder, host="0.0.0.0", token_file=short)
    with pytest.raises(InputError, match="it is 1 or more"):
        serve(folder, workers=0)
    with pytest.raises(InputError, match="nowhere"):
        serve(tmp_path / "nowhere", port=0)


# --- requests that the schema allows, and others

WORDS = st.sampled_from(
    ["n0", "n6", "mule", "grocer", "other", "x1", "", "unknown", *own_graph.COLUMNS, "id", "source"]
)
VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), WORDS)


def of_schema(schema, components):
    """Values that a schema of OpenAPI allows, and now and then any other."""
    if "$ref" in schema:
        schema = components[schema["$ref"].split("/")[-1]]
    if "anyOf" in schema:
        return st.one_of(*(of_schema(one, components) for one in schema["anyOf"]))
    kind = schema.get("type")
    if kind == "object" and "properties" in schema:
        fields = {name: of_schema(one, components) for name, one in schema["properties"].items()}
        return st.fixed_dictionaries({}, optional=fields)
    if kind == "object":
        row = st.fixed_dictionaries({"id": st.one_of(WORDS, VALUES)}, optional=dict.fromkeys(own_graph.COLUMNS, VALUES))
        edge = st.fixed_dictionaries({"source": WORDS, "target": WORDS}, optional={"weight": VALUES})
        return st.one_of(row, edge, st.dictionaries(st.one_of(WORDS, st.text(max_size=8)), VALUES, max_size=8))
    if kind == "array":
        return st.lists(of_schema(schema["items"], components), max_size=4)
    made = {"string": st.one_of(WORDS, st.text(max_size=30)), "integer": st.integers(), "number": st.floats()}
    return st.one_of(made.get(kind, VALUES), VALUES)


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_request_makes_it_fail(client, data):
    openapi = client.get("/openapi.json").json()
    asked = [(path, method, facts) for path, found in openapi["paths"].items() for method, facts in found.items()]
    path, method, facts = data.draw(st.sampled_from(asked))
    query, components = {}, openapi["components"]["schemas"]
    for one in facts.get("parameters", ()):
        value = data.draw(of_schema(one["schema"], components))
        if one["in"] == "path":
            path = path.replace(f"{{{one['name']}}}", quote(str(value).encode("utf-8", "replace"), safe=""))
        else:
            query[one["name"]] = str(value)
    body = None
    if "requestBody" in facts:
        schema = facts["requestBody"]["content"]["application/json"]["schema"]
        body = json.dumps(data.draw(st.one_of(of_schema(schema, components), VALUES)))
    answer = client.request(method, path, params=query, content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (200, 400, 404, 405, 422), (answer.status_code, answer.text)
    if answer.status_code != 200:
        assert set(answer.json()) == {"error"} and answer.json()["error"]
