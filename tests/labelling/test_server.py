"""The server without a browser: what it answers, whom it refuses, and what it never does."""

import json
import socket
import struct
import threading

import numpy as np
import pytest

import own_graph
from labelling_data import members

pytest.importorskip("starlette", reason="the extra `label` is not installed")
import uvicorn
from starlette.testclient import TestClient

from fewnode import FewShotClassifier
from fewnode.classifier.inputs import find_nodes
from fewnode.labelling import server as server_module
from fewnode.labelling import web
from fewnode.labelling.journal import JOURNAL
from fewnode.labelling.layout import layout
from fewnode.labelling.server import Guard, LabelServer
from fewnode.labelling.web import is_loopback

ORIGIN = "http://127.0.0.1:8000"


@pytest.fixture
def guard():
    return Guard("127.0.0.1", 8000, ("ann", "bob"), tokens={"secret": "ann", "hidden": "bob"})


@pytest.fixture
def served(opened, guard):
    session = opened()
    return LabelServer(session, layout(session.classifier.coordinates()), guard, "model")


@pytest.fixture
def stranger(served):
    return TestClient(served.app(), base_url=ORIGIN, follow_redirects=False)


@pytest.fixture
def client(stranger):
    assert stranger.get("/?token=secret").status_code == 303
    return stranger


def ids(served, names):
    return find_nodes(served.session.graph, names, "nodes").tolist()


def step(client, origin=ORIGIN, **body):
    return client.post("/api/step", json=body, headers={"origin": origin})


def test_the_conversation(client, served):
    state = client.get("/api/state").json()
    assert state["nodes"] == 240 and state["open"] and state["classes"][-1]["name"] == "other"
    mule = ids(served, members(0))
    answer = step(client, do="label", ids=mule[:2], **{"class": "mule"})
    assert answer.status_code == 200
    first = answer.json()["classes"][0]
    assert first["name"] == "mule" and first["count"] == 2 and len(first["examples"][0]["place"]) == 2
    data = client.get("/api/scores").content
    points = client.get("/api/map").content
    n = struct.unpack("<I", points[:4])[0]
    at = np.argsort(np.frombuffer(points, "<u4", n, 4))  # where each node is among the points
    assert n == 240 and struct.unpack("<I", data[:4])[0] == 2 and len(data) == 4 + 4 * n
    choice, confidence, label = (
        served.session.scores()
    )  # the bytes are those of the session, whose accuracy others test
    assert np.array_equal(np.frombuffer(data, "<i2", n, 4)[at], choice)
    assert np.array_equal(np.frombuffer(data, "u1", n, 4 + 2 * n)[at], confidence)
    assert np.array_equal(np.frombuffer(data, "u1", n, 4 + 3 * n)[at], label)
    assert np.bincount(choice[mule]).argmax() == 0
    found = client.get("/api/suggest?by=doubtful&class=mule").json()
    assert len(found) == 12 and {"id", "name", "class", "place"} <= set(found[0])
    node = client.get(f"/api/node?id={mule[5]}").json()
    assert (
        node["name"] == members(0)[5]
        and node["columns"]
        and node["neighbours"]
        and node["probabilities"][0][0] == "mule"
    )
    assert client.get(f"/api/why?id={mule[5]}").json()["label"] == "mule"
    assert len(client.get("/api/more?class=mule").json()) == 20 == len(client.get(f"/api/more?like={mule[0]}").json())
    seven, three = ids(served, ["n7", "n3"])
    assert [row["name"] for row in client.get(f"/api/rows?ids={seven},{three}").json()] == ["n7", "n3"]
    found = [row["name"] for row in client.get("/api/search?q=N23").json()]
    assert found[0] == "n23" and set(found[1:]) == {f"n23{i}" for i in range(10)}
    assert step(client, do="undo").json()["redo"] == "label 2 nodes as mule"
    assert step(client, do="redo").json()["undo"].endswith("mule")


def test_answers_are_learned_for_good(client, served, folder):
    assert "there is no new label" in client.post("/api/grow", headers={"origin": ORIGIN}).json()["error"]
    step(client, do="class", name="mule", text="moves stolen money")
    step(client, do="label", ids=ids(served, members(0)[:6]), **{"class": "mule"})
    step(client, do="label", ids=ids(served, members(1)[:2]), **{"class": "phisher"})
    state = client.get("/api/state").json()
    assert state["least"] == 6 and [one["count"] for one in state["classes"][:2]] == [6, 2]
    assert client.get("/api/grow").status_code == 405
    assert client.post("/api/grow", headers={"origin": "null"}).status_code == 403
    state = client.post("/api/grow", headers={"origin": ORIGIN}).json()
    assert state["grown"] == {"added": 6, "changed": 0, "promoted": {"mule": 6}, "waiting": {"phisher": 2}}
    kinds = {one["name"]: one["kind"] for one in state["classes"]}
    assert kinds["mule"] == "known" and kinds["phisher"] == "new" and state["undo"] is None
    assert "mule" in FewShotClassifier.load(folder).known.names()
    assert len(client.get("/api/answers").json()["rows"]) == 8  # who said what is kept
    assert step(client, do="label", ids=ids(served, members(0)[6:7]), **{"class": "mule"}).status_code == 200


def test_the_files(client, served):
    assert client.get("/api/files/support.csv").status_code == 400
    step(client, do="label", ids=ids(served, ["n6"]), **{"class": "=cmd"})
    support = client.get("/api/files/support.csv")
    assert support.text == "id,label\nn6,'=cmd\n" and "attachment" in support.headers["content-disposition"]
    assert client.get("/api/files/predictions.csv").text.startswith("id,label,probability,runner_up,margin,kind\n")
    assert client.get("/api/files/predictions.parquet").content[:4] == b"PAR1"
    assert "there is no file" in client.get("/api/files/passwd").json()["error"]


def test_wrong_questions_are_answered_with_a_sentence(client):
    for path, message in (
        ("/api/node?id=999999", "there is no node 999999"),
        ("/api/node?id=x", "by their numbers, not 'x'"),
        ("/api/more", "by their numbers, not None"),
        ("/api/rows?ids=1,-2", "not '1,-2'"),
        ("/api/suggest?by=luck", "unknown way to suggest"),
        (f"/api/node?id={'9' * 5000}", "by their numbers"),
        ("/api/suggest?by=sure&class=no", "unknown class 'no'"),
    ):
        answer = client.get(path)
        assert answer.status_code == 400 and message in answer.json()["error"], path


def test_wrong_steps_change_nothing(client, folder):
    before = (folder / JOURNAL).read_bytes()
    assert "unknown step" in step(client, do="fly").json()["error"]
    assert step(client, do="undo").json() == {"error": "there is nothing to undo"}
    plain = client.post("/api/step", content="do=undo", headers={"origin": ORIGIN})
    assert plain.status_code == 400 and "as JSON" in plain.json()["error"]
    kind = {"origin": ORIGIN, "content-type": "application/json"}
    for body in ("{", "[]"):
        assert client.post("/api/step", content=body, headers=kind).status_code == 400
    long = client.post("/api/step", content=json.dumps({"do": "undo", "text": "x" * (8 << 20)}), headers=kind)
    assert long.status_code == 413 and "send it in parts" in long.json()["error"]
    assert (folder / JOURNAL).read_bytes() == before


@pytest.mark.parametrize(
    "body",
    [
        '{"do": "class", "name": "x", "nodes": {"n6": 1}}',
        '{"do": "class", "name": "x", "asked": 1e999}',
        '{"do": "class", "name": NaN}',
        '{"do": "class", "name": "x", "asked": ' + "[" * 3000 + "]" * 3000 + "}",
        '{"do": "label", "class": "x", "ids": [' + "9" * 5000 + "]}",
        '{"do": "label", "class": "x", "ids": [true]}',
        '{"do": "label", "class": "x", "ids": {"0": 1}}',
        '{"do": ["undo"]}',
    ],
)
def test_a_step_of_wrong_types_is_refused_before_it_is_kept(client, folder, body):
    before = (folder / JOURNAL).read_bytes()
    answer = client.post("/api/step", content=body, headers={"origin": ORIGIN, "content-type": "application/json"})
    assert answer.status_code == 400 and answer.json()["error"]
    assert (folder / JOURNAL).read_bytes() == before and client.get("/api/state").json()["version"] == 1


def test_a_full_disk_is_said_and_nothing_is_changed(client, served, monkeypatch):
    def full(entry, sync=True):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(served.session.journal, "append", full)
    answer = step(client, do="label", ids=ids(served, ["n6"]), **{"class": "mule"})
    assert answer.status_code == 507 and "nothing was changed" in answer.json()["error"]
    assert served.session.examples() == {} and client.get("/api/state").json()["version"] == 1


def test_only_the_token_opens_the_page(stranger):
    for path in ("/", "/api/state", "/page/main.js", "/?token=wrong", "/api/state?token=wrong"):
        answer = stranger.get(path)
        assert answer.status_code == 401 and "It works once" in answer.text
    assert step(stranger, do="undo").status_code == 401
    opened = stranger.get("/?token=secret")
    assert opened.headers["location"] == "/" and "httponly" in opened.headers["set-cookie"].lower()
    assert "samesite=strict" in opened.headers["set-cookie"].lower() and stranger.get("/").status_code == 200
    cookie = opened.headers["set-cookie"].partition(";")[0]
    assert cookie.startswith("fewnode-label-8000=") and "secret" not in cookie
    assert stranger.get("/?token=secret").headers["location"] == "/"  # the same browser, once more
    stranger.cookies.clear()
    assert stranger.get("/?token=secret").status_code == 401  # used


def test_a_new_link_lets_the_same_person_in_once(client, served):
    path = client.get("/api/link").json()["url"].removeprefix(ORIGIN)
    client.cookies.clear()
    assert client.get(path).status_code == 303 and client.get("/api/state").json()["who"] == "ann"


def test_the_token_leads_nowhere_else(stranger, served):
    for path in ("//evil.example/?", "/%2Fevil.example/?", "/nowhere?"):
        token = served.guard.link("ann").rpartition("token=")[2]
        assert stranger.get(f"{ORIGIN}{path}token={token}").headers["location"] == "/"


def test_people_see_who_said_what_and_how_far_they_agree(stranger, served):
    mules = ids(served, members(0)[:4])
    said = {"secret": ("mule", "mule", "mule", "phisher"), "hidden": ("mule", "phisher", "mule", "phisher")}
    for token, names in said.items():
        stranger.cookies.clear()
        stranger.get(f"/?token={token}")
        for node, name in zip(mules, names, strict=True):
            answer = step(stranger, do="label", ids=[node], text=f"by {token}", **{"class": name, "who": "mallory"})
            assert answer.status_code == 200
    found = stranger.get("/api/answers").json()
    assert [row["name"] for row in found["rows"]] == members(0)[3::-1]
    differ = found["rows"][2]
    assert not differ["marked"] and differ["people"]["ann"] == {"label": "mule", "unsure": False, "text": "by secret"}
    assert set(differ["people"]) == {"ann", "bob"}  # the page does not say who one is
    (pair,) = found["agreement"]["pairs"]
    assert pair["people"] == ["ann", "bob"] and pair["nodes"] == 4 and pair["cohen"] == pytest.approx(0.5)
    assert [row["id"] for row in stranger.get("/api/suggest?by=open").json()] == [mules[1]]
    assert step(stranger, do="label", ids=[mules[1]], settle=True, **{"class": "mule"}).json()["unsettled"] == 0
    assert stranger.get("/api/state").json()["undo"] == f"label {members(0)[1]} as mule"


def test_questions_are_filtered_by_a_column(client, served):
    served.browser.columns["town"] = ["Ulm" if i % 3 else "Bonn" for i in range(240)]
    assert client.get("/api/columns").json()["town"] == [["Ulm", 160], ["Bonn", 80]]
    asked = client.get("/api/suggest?by=random&column=town&value=Bonn").json()
    assert len(asked) > 5 and all(row["id"] % 3 == 0 for row in asked)
    assert "there is no column 'x'" in client.get("/api/suggest?column=x").json()["error"]


def test_only_pictures_of_the_users_data_are_allowed(opened, guard, monkeypatch):
    columns = {
        "photo": ["https://pics.example/a.png", "http://127.0.0.1:81/b.JPG?x=1", "", "https://a b/c.png"],
        "text": ["see https://other.example/x.png", "javascript:alert(1).png", "https://evil;script-src/*.png", "x"],
    }
    monkeypatch.setattr(server_module.NodeRows, "values", lambda self: {})
    session = opened()
    served = LabelServer(session, layout(session.classifier.coordinates()), guard)
    served.browser.columns = columns
    assert served.browser.image_hosts() == ("http://127.0.0.1:81", "https://pics.example")
    client = TestClient(served.app(), base_url=ORIGIN)
    policy = client.get("/").headers["content-security-policy"]
    assert policy.endswith("img-src 'self' http://127.0.0.1:81 https://pics.example")


def test_a_request_that_is_half_sent_does_not_wait_for_ever(served, monkeypatch):
    monkeypatch.setattr(web.Connection, "patience", 0.3)
    app, listening = served.app(), socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, http=web.Connection, log_level="critical"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        for sent in (
            b"",
            b"GET / HTTP/1.1\r\nHost: 127",
            b"POST /api/step HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{",
        ):
            with socket.create_connection(listening.getsockname(), timeout=30) as half:
                half.sendall(sent)
                while half.recv(1 << 16):  # an empty answer: the other side has hung up
                    pass
    finally:
        server.should_exit = True
        thread.join()


def test_other_hosts_are_refused(client):
    for host in ("evil.example", "evil.example:8000", "127.0.0.1.evil.example:8000", "", "[::1"):
        assert client.get("/api/state", headers={"host": host}).status_code == 421, host


def test_other_origins_are_refused(client, served):
    for origin in ("http://evil.example", "null", "http://127.0.0.1:9"):
        assert step(client, origin, do="label", ids=[6], **{"class": "mule"}).status_code == 403
        assert client.get("/api/state", headers={"origin": origin}).status_code == 403
    assert served.session.examples() == {}


def test_every_answer_has_the_headers(client):
    for path in ("/", "/page/style.css", "/api/state", "/nowhere"):
        headers = client.get(path).headers
        assert (
            "default-src 'none'" in headers["content-security-policy"]
            and "unsafe" not in headers["content-security-policy"]
        )
        assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"] == "no-store"
    for path in ("/page/../session.py", "/page/%2e%2e/session.py", "/page/..%2fsession.py"):
        assert client.get(path).status_code == 404


def test_which_names_are_this_machine():
    assert is_loopback("127.0.0.5") and is_loopback("::1") and is_loopback("localhost")
    assert not is_loopback("0.0.0.0") and not is_loopback("192.168.1.5") and not is_loopback("evil.example")
    assert Guard("0.0.0.0", 8000).url() == "http://127.0.0.1:8000/"
    assert Guard("::1", 8000).link().startswith("http://[::1]:8000/?token=")


def test_of_a_large_graph_a_sample_with_all_labelled_nodes_is_drawn(opened, guard):
    session = opened()
    session.do({"do": "label", "nodes": members(0)[:9], "class": "mule"})
    shown = LabelServer(session, layout(session.classifier.coordinates()), guard, most_points=130).shown
    labelled = np.flatnonzero(session.scores()[2])
    assert len(shown) == 130 and len(labelled) < 130 and set(labelled) <= set(shown.tolist())


def test_the_page_is_one_folder_that_asks_nobody_else():
    for file in server_module.PAGE.iterdir():
        text = file.read_text(encoding="utf-8")
        away = [
            part for part in ("https://", "innerHTML", "insertAdjacentHTML", "eval(", "document.write") if part in text
        ]
        assert away == [], f"{file.name}: {away}"
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
        assert own_graph.TRADES[0] not in text


def test_the_end_of_an_answer_is_sent_at_once():
    with web.listening_at("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
