"""The page in a real browser: the whole conversation, by keys alone; kill and reopen; two windows; hostile texts."""

import csv
import functools
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
import urllib.request
import warnings
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import own_graph
import text_graph
from fewnode.classifier.classifier import FewShotClassifier
from fewnode.classifier.commands import load_attached, predict_tables
from fewnode.errors import InputError
from fewnode.labelling import server as server_module
from fewnode.labelling.server import Guard, label
from labelling_data import members

SRC = Path(__file__).parents[2] / "src"
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
HOSTILE = [
    "<script>window.hacked=1</script>",
    "=cmd|' /C calc'!A0",
    "\u202egnp.exe",
    "<img src=x onerror=window.hacked=1>",
]
WAIT = 60_000  # milliseconds: the machines that run this may be busy

uvicorn = pytest.importorskip("uvicorn", reason="the extra `label` is not installed")
try:
    from playwright.sync_api import sync_playwright
except ImportError:
    sync_playwright = None

if CHROMIUM is None or sync_playwright is None:
    reason = "NO BROWSER: the page of `fewnode label` is not tested; install chromium (and the dev extras)"
    warnings.warn(reason, stacklevel=1)
    pytest.skip(reason, allow_module_level=True)


class Process:
    """``fewnode label`` as a process of its own, which can be killed."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "fewnode", "label", str(folder), "--no-browser"]
        here = os.environ | {"PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=here)
        said = []
        for line in self.process.stderr:
            said.append(line)
            if found := re.search(r"http://\S+", line):
                self.url = found[0]
                return
        raise AssertionError("".join(said))

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.communicate()


class Thread:
    """``fewnode label`` as a thread: another process would take seconds to import torch."""

    def __init__(self, folder: Path, **options) -> None:
        self.said, self.servers, self.guards = [], [], []
        run = functools.partial(label, folder, browser=False, say=self.said.append, **options)
        self.thread = threading.Thread(target=run, daemon=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(uvicorn, "Server", self._server)
            patch.setattr(server_module, "Guard", self._guard)
            self.thread.start()
            while not self.servers and self.thread.is_alive():
                time.sleep(0.01)
        assert self.servers, self.said

    @property
    def url(self) -> str:
        """A link of the first person; each works once."""
        return self.guards[0].link(self.guards[0].people[0])

    def _guard(self, *args):
        self.guards.append(Guard(*args))
        return self.guards[-1]

    def _server(self, config, kind=uvicorn.Server):
        self.servers.append(kind(config))
        return self.servers[-1]

    def stop(self) -> None:
        self.servers[0].should_exit = self.servers[0].force_exit = True
        self.thread.join()


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as driver:
        opened = driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
        )
        yield opened
        opened.close()


@pytest.fixture
def serve():
    servers = []

    def start(folder, kind=Thread, **options):
        servers.append(kind(folder, **options))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture(scope="module")
def served(home, tmp_path_factory):
    """Where a page is served, for tests that label nothing."""
    server = Thread(Path(shutil.copytree(home / "m", tmp_path_factory.mktemp("served") / "model")))
    yield server
    server.stop()


@pytest.fixture
def window(browser):
    """Opens a page in a window of its own."""
    contexts = []

    def open_(url, **options):
        contexts.append(browser.new_context(viewport={"width": 1280, "height": 720}, **options))
        page = contexts[-1].new_page()
        page.set_default_timeout(WAIT)
        page.problems = []
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("console", lambda message: page.problems.append(message.text) if message.type == "error" else None)
        page.goto(url)
        page.wait_for_selector("html[data-ready=true]")
        return page

    yield open_
    for context in contexts:
        context.close()


def after_fit(page):
    page.wait_for_function("() => fewnode.busy === 0")


def examples(page):
    after_fit(page)
    return page.evaluate("Object.fromEntries(fewnode.state.classes.filter(c => c.count).map(c => [c.name, c.count]))")


def find(page, name):
    page.keyboard.press("/")
    page.locator("#words").fill(name)
    page.wait_for_selector("#hit0")
    page.wait_for_function("name => document.querySelector('#hit0 .user')?.textContent === name", arg=name)
    page.keyboard.press("Enter")
    page.wait_for_function("name => fewnode.rows[0]?.name === name", arg=name)


def name_class(page, name):
    """Gives what is selected to a class by typing its name."""
    page.keyboard.press("c")
    page.locator("#dialog input").fill(name)
    page.keyboard.press("Enter")
    after_fit(page)


def test_the_whole_conversation_by_keys_alone(window, serve, folder, tmp_path):
    server = serve(folder, Process)
    page = window(server.url)
    assert "token" not in page.url
    mule, phisher = members(0), members(1)
    find(page, mule[0])
    name_class(page, "mule")
    find(page, phisher[0])
    name_class(page, "phisher")
    find(page, mule[1])
    page.keyboard.press("1")
    assert examples(page) == {"mule": 2, "phisher": 1}
    page.keyboard.press("Escape")
    page.keyboard.press("a")  # be asked; the answer is the truth
    for _ in range(3):
        page.wait_for_selector(".question")
        after_fit(page)
        asked = page.evaluate("fewnode.rows[0].name")
        page.keyboard.press("1" if asked in mule else "2" if asked in phisher else "0")
        page.wait_for_function("name => fewnode.rows[0]?.name !== name", arg=asked)
    assert sum(examples(page).values()) == 6
    page.keyboard.press("s")
    after_fit(page)
    assert page.evaluate("fewnode.state.skipped") == 1
    for _ in range(2):
        page.keyboard.press("z")
    after_fit(page)
    assert sum(examples(page).values()) == 5
    page.keyboard.press("Shift+Z")
    after_fit(page)
    taught = examples(page)
    assert sum(taught.values()) == 6 and "6 answers" in page.locator("#verdict").inner_text()
    page.locator("#files").press("Enter")
    for name in ("support.csv", "predictions.csv"):  # the dialog stays open
        with page.expect_download() as saved:
            page.get_by_role("button", name=name).press("Enter")
        saved.value.save_as(tmp_path / name)
    predict_tables(load_attached(folder).adapt(tmp_path / "support.csv"), tmp_path / "theirs.csv")
    assert (tmp_path / "theirs.csv").read_bytes() == (tmp_path / "predictions.csv").read_bytes()
    assert len(list(csv.reader((tmp_path / "support.csv").open()))) == 7
    assert page.problems == []
    server.stop()  # killed at any moment ...
    again = window(serve(folder).url)
    assert examples(again) == taught  # ... nothing is lost


def test_two_windows_see_each_other_and_a_class_is_renamed_merged_and_removed(window, serve, folder):
    server = serve(folder)
    one, two = window(server.url), window(server.url)
    find(one, members(0)[0])
    name_class(one, "mule")
    two.wait_for_selector("#own li[data-class=mule]")
    find(two, members(1)[0])
    name_class(two, "phisher")
    one.wait_for_selector("#own li[data-class=phisher]")
    one.locator("li[data-class=mule] .name").click()
    one.locator("dialog input").fill("donkey")
    one.get_by_role("button", name="Rename").click()
    two.wait_for_selector("#own li[data-class=donkey]")
    two.locator("li[data-class=donkey] .name").click()
    two.locator("dialog select").select_option("phisher")
    two.get_by_role("button", name="Merge", exact=True).click()
    one.wait_for_function("() => fewnode.state.classes[0].name === 'phisher' && fewnode.state.classes[0].count === 2")
    one.locator("li[data-class=phisher] .swatch").click()
    assert one.evaluate("fewnode.map.hidden.has(0)")
    one.locator("li[data-class=phisher] .name").click()
    one.get_by_role("button", name="Remove the class").click()
    two.wait_for_function("() => fewnode.state.classes[0].kind === 'known'")
    assert one.problems == [] == two.problems
    with pytest.raises(InputError, match=f"by process {os.getpid()} at {server.url.partition('?')[0]}"):
        label(folder, browser=False)


def test_the_mouse_lasso_and_more_like_this(window, served):
    page = window(served.url)
    box = page.locator("#points").bounding_box()
    node = page.evaluate("async (name) => (await (await fetch('/api/search?q=' + name)).json())[0].id", members(0)[0])
    at = page.evaluate("i => fewnode.map.toScreen(fewnode.map.placeOf(fewnode.map.ids.indexOf(i)))", node)
    page.mouse.click(box["x"] + at[0], box["y"] + at[1])
    page.wait_for_function("() => fewnode.rows.length === 1")
    page.keyboard.press("m")
    page.wait_for_function("() => fewnode.rows.length > 10")
    page.keyboard.press("Escape")
    page.keyboard.press("l")
    corners = [(0.02, 0.02), (0.98, 0.02), (0.98, 0.98), (0.02, 0.98), (0.02, 0.05)]
    page.mouse.move(box["x"] + 0.02 * box["width"], box["y"] + 0.02 * box["height"])
    page.mouse.down()
    for x, y in corners:
        page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"], steps=3)
    page.mouse.up()
    page.wait_for_function("() => fewnode.rows.length > 100 && fewnode.rows[0].name.startsWith('n')")
    zoom = page.evaluate("fewnode.map.view.zoom")
    page.mouse.wheel(0, -400)
    page.wait_for_function("zoom => fewnode.map.view.zoom > zoom", arg=zoom)
    page.locator("#points").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("f")
    assert page.evaluate("fewnode.map.view.zoom") == 1 and page.problems == []


def test_hostile_ids_and_texts_stay_text(window, serve, tmp_path):
    edges, _, y = own_graph.arrays()
    names = [HOSTILE[i] if i < len(HOSTILE) else f"n{i}" for i in range(len(y))]
    labels = [own_graph.TRADES[c] if c < 6 and i % 3 and i > 3 else "" for i, c in enumerate(y)]
    labels = ["<b>baker</b>" if label == "baker" else label for label in labels]
    for path, head, rows in (
        (
            "nodes.csv",
            ["id", "label", "<i>text</i>"],
            [[n, c, f"{HOSTILE[i % 4]} word{y[i]}"] for i, (n, c) in enumerate(zip(names, labels, strict=True))],
        ),
        ("edges.csv", ["source", "target"], [[names[a], names[b]] for a, b in edges.T]),
    ):
        with (tmp_path / path).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([head, *rows])
    tables = {"edges": tmp_path / "edges.csv", "nodes": tmp_path / "nodes.csv", "text_column": "<i>text</i>"}
    FewShotClassifier("probe", k_shot=3).fit(**tables).save(tmp_path / "model")
    page = window(serve(tmp_path / "model").url)
    for i, name in enumerate(HOSTILE):
        find(page, name)
        name_class(page, f"{name} {i}")
    page.wait_for_selector("#why h4")
    shown = page.evaluate("fewnode.state.classes.slice(0, 4).map(c => c.name)")
    assert shown == [f"{name} {i}" for i, name in enumerate(HOSTILE)]
    assert page.evaluate("window.hacked") is None and page.problems == []
    assert page.evaluate("document.querySelectorAll('main b, main i, main img, main script').length") == 0


def test_a_wrong_token_and_a_foreign_page_get_nothing(window, served, tmp_path):
    base = served.url.partition("?")[0]
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(base)
    page = window(served.url)
    foreign = page.context.new_page()
    (tmp_path / "evil.html").write_text("<title>evil</title>")
    foreign.goto(f"file://{tmp_path}/evil.html")
    told = foreign.evaluate(
        "async (url) => { try { const a = await fetch(url + 'api/step', {method: 'POST', credentials: 'include', "
        "mode: 'no-cors', body: '{}'}); return a.type + (await a.text()); } catch (e) { return 'refused'; } }",
        base,
    )
    assert told in ("refused", "opaque") and examples(page) == {}
    assert page.evaluate("fetch('https://example.org/').then(() => 'sent', () => 'refused')") == "refused"


@pytest.mark.parametrize(("scheme", "width", "height"), [("dark", 1280, 720), ("light", 820, 1180)])
def test_dark_and_light_and_a_tablet(window, served, scheme, width, height):
    page = window(served.url, color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": height})
    find(page, members(0)[0])
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground)[:3])) < 200) == (scheme == "dark")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for part in ("#points", "#classes", "#node", "#words"):
        box = page.locator(part).bounding_box()
        assert box["width"] > 150 and box["x"] + box["width"] <= width + 1


def test_what_is_typed_wins_over_a_class_it_is_a_part_of(window, serve, folder):
    page = window(serve(folder).url)
    find(page, members(0)[0])
    name_class(page, "arb")  # a part of "barber"
    assert examples(page) == {"arb": 1}
    find(page, members(0)[1])
    name_class(page, "ARB")
    assert examples(page) == {"arb": 2}
    page.keyboard.press("Escape")
    find(page, members(0)[2])
    page.keyboard.press("c")
    page.locator("#dialog input").fill("arbe")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert examples(page) == {"arb": 2, "barber": 1} and page.problems == []


def test_no_stray_words_where_several_nodes_are_selected(window, served):
    page = window(served.url)
    find(page, members(0)[0])
    page.keyboard.press("m")
    page.wait_for_function("() => fewnode.rows.length > 1")
    assert "false" not in page.locator("body").inner_text()


def picture() -> bytes:
    """A picture of one pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0\xff\0\0")) + chunk(b"IEND", b"")


@pytest.fixture(scope="module")
def titled(tmp_path_factory):
    """A model of nodes with titles, towns, links and pictures; the pictures are served by a server of their own."""
    folder, asked = tmp_path_factory.mktemp("titled"), []

    class Pictures(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Type", "image/png")
            self.end_headers()
            self.wfile.write(picture())

        def log_message(self, *args):
            pass

    pictures = ThreadingHTTPServer(("127.0.0.1", 0), Pictures)
    threading.Thread(target=pictures.serve_forever, daemon=True).start()
    own_graph.write_tables(folder)
    first, *lines = (folder / "nodes.csv").read_text().splitlines()
    here = f"http://127.0.0.1:{pictures.server_port}"
    more = [
        f"Mx {i} Doe,{'Ulm' if i % 3 else 'Bonn'},https://example.org/{i},{here}/{i}.png" for i in range(len(lines))
    ]
    rows = [f"{line},{rest}" for line, rest in zip(lines, more, strict=True)]
    own_graph.write(folder / "nodes.csv", [f"{first},name,town,home,photo", *rows])
    options = {"category_column": ["town"], "ignore_column": ["home", "photo"]}
    tables = {"edges": folder / "edges.csv", "nodes": folder / "nodes.csv", **options}
    FewShotClassifier("probe", k_shot=3).fit(**tables).save(folder / "model")
    yield folder / "model", asked
    pictures.shutdown()


@pytest.fixture
def with_titles(titled, tmp_path):
    return Path(shutil.copytree(titled[0], tmp_path / "titled"))


def test_titles_links_and_pictures_are_shown(window, serve, with_titles, titled):
    page = window(serve(with_titles).url)
    page.keyboard.press("/")
    page.locator("#words").fill("Mx 6 Doe")
    page.wait_for_function("() => document.querySelector('#hit0 .user')?.textContent === 'Mx 6 Doe'")
    page.keyboard.press("Enter")
    page.wait_for_function("() => fewnode.rows[0]?.name === 'n6'")
    assert page.locator("#node h3").inner_text() == "Mx 6 Doe"
    link = page.locator("#node td a").first
    assert link.get_attribute("href") == "https://example.org/6" and "noopener" in link.get_attribute("rel")
    page.wait_for_function("() => document.querySelector('#node td img')?.naturalWidth === 1")
    assert "/6.png" in titled[1] and page.problems == []
    name_class(page, "mule")
    page.wait_for_selector("#why h4")
    assert re.search(r"Mx \d+ Doe", page.locator("#why").inner_text())
    page.locator("#points").hover()
    page.locator("li[data-class=mule] .name").click()
    assert "Mx 6 Doe" in page.locator("dialog").inner_text()


def test_classes_are_described_answers_reviewed_and_undo_says_what_it_undid(window, serve, folder):
    page = window(serve(folder).url)
    find(page, members(0)[0])
    name_class(page, "mule")
    page.locator("li[data-class=mule] .name").click()
    page.get_by_label("Description of the class").fill("moves money <b>for others</b>")
    page.get_by_role("button", name="Save the description").click()
    after_fit(page)
    find(page, members(0)[1])
    page.wait_for_selector("#node .hint:has-text('moves money <b>for others</b>')")
    page.keyboard.press("u")
    page.get_by_label("Comment on the answer").fill("or a courier?")
    page.keyboard.press("Enter")
    page.keyboard.press("1")
    assert examples(page) == {"mule": 1} and page.evaluate("fewnode.state.unsettled") == 1  # unsure: it waits
    page.keyboard.press("Escape")
    page.keyboard.press("r")
    rows = page.locator("table.review tr[data-node]")
    rows.first.wait_for()
    assert rows.count() == 2 and "(not sure)" in rows.first.inner_text() and "or a courier?" in rows.first.inner_text()
    page.get_by_role("button", name="not sure (1)").click()
    page.wait_for_function("() => document.querySelectorAll('table.review tr[data-node]').length === 1")
    rows.first.get_by_role("combobox").select_option("baker")
    after_fit(page)
    page.wait_for_function("() => fewnode.state.undo?.endsWith('as baker')")
    page.get_by_role("button", name="Close").click()
    page.keyboard.press("z")
    page.wait_for_selector(f"#toast:has-text('Undone: label {members(0)[1]} as baker')")
    find(page, members(0)[2])
    page.keyboard.press("s")
    after_fit(page)
    page.keyboard.press("r")
    skipped = page.locator(f"tr[data-node={members(0)[2]}]").get_by_role("combobox")
    assert skipped.evaluate("made => made.selectedOptions[0].text") == "skipped"
    assert page.problems == []


def test_known_classes_are_searched_and_questions_filtered(window, serve, with_titles):
    page = window(serve(with_titles).url)
    page.evaluate("document.getElementById('knownwords').hidden = false")
    page.locator("#knownwords").fill("bar")
    page.wait_for_function("() => document.querySelectorAll('#known li').length === 1")
    page.locator("#column").select_option("town")
    page.locator("#value").select_option("Bonn")
    page.get_by_role("button", name="Show").click()
    page.wait_for_function("() => fewnode.rows.length === 80")
    page.locator("#points").focus()
    page.keyboard.press("Escape")
    page.keyboard.press("a")
    page.wait_for_selector(".question, #node h3")
    page.wait_for_function("() => fewnode.rows.length === 1")
    assert page.evaluate("Number(fewnode.rows[0].name.slice(1)) % 3") == 0 and page.problems == []


def test_two_people_disagree_and_a_third_settles_it(window, serve, folder):
    server = serve(folder, people=["ann", "bob", "cid"], twice=1.0)
    ann, bob, cid = (window(server.guards[0].link(who)) for who in ("ann", "bob", "cid"))
    for page, name in ((ann, "mule"), (bob, "phisher")):
        find(page, members(0)[0])
        name_class(page, name)
    find(ann, members(0)[1])
    name_class(ann, "mule")
    assert ann.evaluate("fewnode.state.who") == "ann" and examples(ann) == {"mule": 1}
    cid.wait_for_function("() => fewnode.state.unsettled === 1")
    cid.locator("#by").select_option("open")
    cid.wait_for_function("name => fewnode.rows[0]?.name === name", arg=members(0)[0])
    assert re.search(r"bob:\s+phisher", cid.locator("#node").inner_text())
    cid.keyboard.press("1")
    assert examples(cid) == {"mule": 2} and cid.evaluate("fewnode.state.unsettled") == 0
    bob.keyboard.press("Escape")
    bob.keyboard.press("a")  # what ann has answered is asked of bob too
    bob.wait_for_function("name => fewnode.rows[0]?.name === name", arg=members(0)[1])
    bob.keyboard.press("1")
    after_fit(bob)
    bob.keyboard.press("Escape")
    bob.keyboard.press("r")
    bob.wait_for_selector("dialog:has-text('Cohen')")
    told = bob.locator("dialog").inner_text()
    assert "ann and bob" in told and "2 nodes, 50 % alike" in told and "You are bob" in told
    bob.get_by_role("button", name="New link").click()
    bob.wait_for_selector("dialog .user:has-text('?token=')")
    assert ann.problems == bob.problems == cid.problems == []
    lines = (folder / "labels.jsonl").read_text()
    assert all(f'"who": "{who}"' in lines for who in ("ann", "bob", "cid"))


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A model of nodes whose texts were read by a text encoder."""
    folder = tmp_path_factory.mktemp("texts")
    text_graph.write_tables(folder)
    encoder = text_graph.write_encoder(folder / "encoder")
    tables = {"edges": folder / "edges.csv", "nodes": folder / "nodes.csv"}
    FewShotClassifier("probe", k_shot=3, text_encoder=str(encoder)).fit(**tables).save(folder / "model")
    return folder / "model"


def test_a_sentence_shows_the_candidates_of_a_class_which_is_then_learned_for_good(window, serve, texts, tmp_path):
    folder, truth = Path(shutil.copytree(texts, tmp_path / "texts")), text_graph.truth()
    page = window(serve(folder).url)
    assert "meaning" in page.locator("#words").get_attribute("placeholder")
    page.keyboard.press("/")
    page.locator("#words").fill("rowing")  # no text holds this very word
    page.keyboard.press("Enter")  # before there is an answer
    page.wait_for_function("() => fewnode.rows.length === 1")
    assert truth[int(page.evaluate("fewnode.rows[0].name").removeprefix("n"))] == "rowing"
    page.keyboard.press("Escape")
    page.keyboard.press("n")
    page.locator("#dialog input").fill("boats")
    page.get_by_label("Description of the class").fill("rowing")
    page.get_by_role("button", name="Add").click()
    page.wait_for_function("() => fewnode.rows.length === 20")
    names = page.evaluate("fewnode.rows.map(row => row.name)")
    task = FewShotClassifier.load(folder).adapt({}, descriptions={"boats": "rowing"})
    assert set(names) == set(task.find("boats", top=20).names)
    assert sum(truth[int(name.removeprefix("n"))] == "rowing" for name in names) >= 10  # 2.5 by chance
    assert examples(page) == {} and page.locator("#grow").is_hidden()
    with page.expect_download() as saved:
        page.locator("#files").click()
        page.get_by_role("button", name="support.csv").click()
    assert Path(saved.value.path()).read_text() == "id,label,description\n,boats,rowing\n"
    page.keyboard.press("Escape")
    page.keyboard.press("1")
    assert examples(page) == {"boats": 20}
    page.locator("#grow").click()
    assert "20 answers" in page.locator("dialog").inner_text()
    page.get_by_role("button", name="Learn now").click()
    page.wait_for_selector("#known li[data-class=boats]")
    after_fit(page)
    assert "known now: boats" in page.locator("#status").inner_text() and page.locator("#undo").is_disabled()
    assert page.locator("#own li").count() == 0 and page.problems == []
    again = window(serve(Path(shutil.copytree(folder, tmp_path / "again"))).url)
    assert again.evaluate("fewnode.state.notes") == [] and again.locator("#known li[data-class=boats]").count() == 1
