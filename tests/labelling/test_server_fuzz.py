"""Requests of every shape to every address of the label server: answered or refused, never an error of the server.

``make test`` tries 150 sequences, always the same; FEWNODE_FUZZ_CASES=5000 tries so many requests that are new.
"""

import json
import os
import socket
import threading
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("starlette", reason="the extra `label` is not installed")
import uvicorn
from starlette.testclient import TestClient

from fewnode.labelling.layout import layout
from fewnode.labelling.server import Guard, LabelServer
from fewnode.labelling.web import Connection
from labelling_data import members

ORIGIN = "http://127.0.0.1:8000"
REQUESTS = 5  # of a case
CASES = int(os.environ.get("FEWNODE_FUZZ_CASES", "150")) // REQUESTS
NEW = "FEWNODE_FUZZ_CASES" in os.environ
API = (
    "state", "map", "scores", "search", "rows", "node", "why", "suggest", "more", "answers", "columns", "link", "step",
    "grow",
)  # fmt: skip
FILES = ("support.csv", "labels.csv", "predictions.parquet", "label-studio.json", "argilla.jsonl", "doccano.jsonl")
QUERIES = ("ids", "id", "q", "by", "class", "column", "value", "like", "for", "who", "token")
WORDS = (
    "", "0", "6", "-1", "239", "240", "1,2,3", "9" * 5000, "1e3", "nan", "²", "teach", "sure", "doubtful", "open",
    "issues", "random", "mule", "baker", "other", "age", "n6", "\u202e", "\ud800", "\x00", "%00", "a" * 5000, "../..",
)  # fmt: skip
STEPS = ("class", "label", "take", "skip", "rename", "merge", "remove", "describe", "undo", "redo", "none", "fly", "")
FIELDS = ("do", "nodes", "ids", "class", "name", "to", "into", "asked", "who", "text", "unsure", "settle", "more")

word = st.one_of(st.sampled_from(WORDS), st.text(max_size=20))
name = st.sampled_from(("mule", "phisher", "baker", "other", "unknown", "", " ", "MULE", "\n", "x" * 300))
value = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), word, name),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(word, inner, max_size=3)),
    max_leaves=5,
)
nodes = st.lists(st.sampled_from((*members(0)[:4], "n0", "n1", "nobody")), max_size=3)
sensible = st.fixed_dictionaries(
    {"do": st.sampled_from(STEPS)},
    optional={
        "nodes": nodes, "ids": st.lists(st.integers(-1, 241), max_size=3), "class": name, "name": name, "to": name,
        "into": name, "asked": word, "text": word, "unsure": st.booleans(), "settle": st.booleans(),
    },
)  # fmt: skip
body = st.one_of(
    sensible.map(json.dumps),
    st.dictionaries(st.sampled_from(FIELDS), value, max_size=5).map(json.dumps),
    value.map(json.dumps),
    st.sampled_from(("", "{", "[" * 3000, '{"do": "undo"' + " " * 1000 + "}", '{"do": NaN}', '{"text": "\\ud800"}')),
    st.binary(max_size=50),
)
path = st.one_of(
    st.sampled_from([f"/api/{one}" for one in API]),
    st.sampled_from([f"/api/files/{one}" for one in FILES]),
    st.sampled_from(("/", "/page/main.js", "/page/../server.py", "//x/", "/api", "/api/files/", "/api/files/a.csv")),
    word.map(lambda text: "/api/files/" + quote(text.encode("utf-8", "replace"))),
)


def requests_to(path):
    """Requests to an address, most of them by the method that it takes."""
    usual = "POST" if path in ("/api/step", "/api/grow") else "GET"
    return st.fixed_dictionaries(
        {
            "method": st.sampled_from((usual,) * 12 + ("GET", "POST", "PUT", "HEAD", "OPTIONS")),
            "path": st.just(path),
            "query": st.dictionaries(st.sampled_from(QUERIES), word, max_size=4),
            "body": body,
            "type": st.sampled_from(
                ("application/json",) * 4 + ("application/json; charset=latin-1", "text/plain", "")
            ),
            "origin": st.sampled_from((ORIGIN,) * 8 + ("null", "http://evil.example", "\xff")),
        }
    )


request = path.flatmap(requests_to)


@pytest.fixture
def served(opened):
    session = opened()
    guard = Guard("127.0.0.1", 8000, ("ann", "bob"), tokens={"a": "ann", "b": "bob"})
    return LabelServer(session, layout(session.classifier.coordinates()), guard)


def test_no_request_is_an_error_of_the_server(served, opened):
    clients = []
    for token in "ab":
        clients.append(TestClient(served.app(), base_url=ORIGIN, follow_redirects=False, raise_server_exceptions=False))
        assert clients[-1].get(f"/?token={token}").status_code == 303
    tried = []

    @settings(
        max_examples=max(1, CASES), deadline=None, database=None, derandomize=not NEW, print_blob=True,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.lists(st.tuples(st.sampled_from(clients), request), min_size=REQUESTS, max_size=REQUESTS))
    def case(requests):
        for client, one in requests:
            content = one["body"] if isinstance(one["body"], bytes) else one["body"].encode("utf-8", "surrogatepass")
            query = {key: text.encode("utf-8", "replace").decode() for key, text in one["query"].items()}
            headers = {"origin": one["origin"].encode("latin-1"), "content-type": one["type"]}
            answer = client.request(one["method"], one["path"], params=query, content=content, headers=headers)
            tried.append(answer.status_code)
            assert answer.status_code < 500, (one, answer.text)
            if answer.status_code == 400 and one["method"] != "HEAD":
                assert answer.json()["error"]
        state = clients[0].get("/api/state")
        assert state.status_code == 200 and state.json()["classes"]

    case()
    assert tried.count(200) > len(tried) / 20 and tried.count(400) > len(tried) / 20
    now = served.session.labels
    again = opened().labels  # the journal holds the same
    assert (again.classes, again.answers, again.about) == (now.classes, now.answers, dict(now.about))


def test_bytes_that_are_no_request_are_answered_or_hung_up_on(served):
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(served.app(), http=Connection, log_level="critical", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()

    @settings(max_examples=max(20, CASES // 5), deadline=None, database=None, derandomize=not NEW)
    @given(st.one_of(st.binary(min_size=1, max_size=200), st.sampled_from((
        b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/9.9\r\nHost: x\r\n\r\n", b"GET " + b"/" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"POST /api/step HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"GET /?token=\xff\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\nCookie: fewnode-label-8000=\xe9\r\n\r\n",
    ))))  # fmt: skip
    def case(sent):
        with socket.create_connection(listening.getsockname(), timeout=30) as half:
            half.sendall(sent)
            half.shutdown(socket.SHUT_WR)
            answer = b""
            try:
                while part := half.recv(1 << 16):
                    answer += part
            except ConnectionResetError:
                pass
        assert b" 500 " not in answer.partition(b"\r\n")[0]

    try:
        case()
    finally:
        server.should_exit = True
        thread.join()
