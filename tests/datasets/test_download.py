"""Fetching against a local server that misbehaves in every way a real one does."""

import hashlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fewnode.datasets.catalog import File
from fewnode.datasets.download import check, fetch
from fewnode.errors import InputError

CONTENT = bytes(range(256)) * 1000
BLOB = hashlib.sha1(b"blob %d\0" % len(CONTENT) + CONTENT).hexdigest()
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@dataclass
class Site:
    """A server; ``answers`` says for each request in turn how it goes, the last one for all that follow."""

    address: str = ""
    answers: list[str] = field(default_factory=lambda: ["good"])
    ranges: list[str | None] = field(default_factory=list)

    def file(self, **checks: str) -> File:
        return File("toy.bin", f"{self.address}/toy.bin", **checks)


class Handler(BaseHTTPRequestHandler):
    site: Site

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        asked = self.headers["Range"]
        self.site.ranges.append(asked)
        how = self.site.answers.pop(0) if len(self.site.answers) > 1 else self.site.answers[0]
        if how.isdigit():
            self.send_error(int(how))
            return
        if how == "slow":
            time.sleep(0.3)
        start = int(asked[6:-1]) if asked and how != "no ranges" else 0
        if start >= len(CONTENT):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(CONTENT)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_body(how, CONTENT[start:], start)

    def send_body(self, how: str, body: bytes, start: int) -> None:
        self.send_response(206 if start else 200)
        if start:
            shown = start + 7 if how == "shifted" else start
            self.send_header("Content-Range", f"bytes {shown}-{len(CONTENT) - 1}/{len(CONTENT)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if how == "wrong byte":
            body = body[:100] + bytes([body[100] ^ 1]) + body[101:]
        self.wfile.write(body[: len(body) // 3] if how == "cut" else body)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    site = Site()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"site": site}))
    site.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield site
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("checks", [{}, {"blob": BLOB}, {"sha256": SHA256}, {"blob": BLOB, "sha256": SHA256}])
def test_a_good_file_arrives_and_progress_is_told(site: Site, tmp_path: Path, checks: dict[str, str]) -> None:
    seen: list[tuple[str, int, int | None]] = []
    path = fetch(site.file(**checks), tmp_path / "new", progress=lambda *report: seen.append(report))
    assert path.read_bytes() == CONTENT
    assert seen[-1] == ("toy.bin", len(CONTENT), len(CONTENT)) and len(seen) > 1
    assert [entry.name for entry in path.parent.iterdir()] == ["toy.bin"]


def test_what_is_there_is_not_fetched_again(site: Site, tmp_path: Path) -> None:
    (tmp_path / "toy.bin").write_bytes(b"mine")
    assert fetch(site.file(), tmp_path).read_bytes() == b"mine"
    assert site.ranges == []


@pytest.mark.parametrize("checks", [{"blob": BLOB}, {"sha256": SHA256}])
def test_one_wrong_byte_is_deleted_and_both_values_named(site: Site, tmp_path: Path, checks: dict[str, str]) -> None:
    site.answers = ["wrong byte"]
    (expected,) = checks.values()
    with pytest.raises(InputError, match=f"expected {expected}, got [0-9a-f]+") as error:
        fetch(site.file(**checks), tmp_path)
    assert str(error.value).count(expected) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_cut_connection_is_resumed_where_it_broke(site: Site, tmp_path: Path) -> None:
    site.answers = ["cut", "cut", "good"]
    path = fetch(site.file(blob=BLOB), tmp_path, pause=0)
    assert path.read_bytes() == CONTENT
    first = len(CONTENT) // 3
    second = first + (len(CONTENT) - first) // 3
    assert site.ranges == [None, f"bytes={first}-", f"bytes={second}-"]


def test_an_earlier_run_is_continued(site: Site, tmp_path: Path) -> None:
    site.answers = ["cut", "404"]
    with pytest.raises(InputError, match="answered 404"):
        fetch(site.file(), tmp_path, pause=0)
    assert (tmp_path / "toy.bin.part").stat().st_size == len(CONTENT) // 3
    site.answers = ["good"]
    assert fetch(site.file(blob=BLOB), tmp_path).read_bytes() == CONTENT
    assert not (tmp_path / "toy.bin.part").exists()


@pytest.mark.parametrize("how", ["no ranges", "shifted"])
def test_a_server_that_cannot_resume_starts_over(site: Site, tmp_path: Path, how: str) -> None:
    (tmp_path / "toy.bin.part").write_bytes(CONTENT[:1000])
    site.answers = [how, "good"]
    assert fetch(site.file(blob=BLOB), tmp_path, pause=0).read_bytes() == CONTENT


def test_a_whole_part_is_as_good_as_none(site: Site, tmp_path: Path) -> None:
    (tmp_path / "toy.bin.part").write_bytes(CONTENT)
    assert fetch(site.file(blob=BLOB), tmp_path, pause=0).read_bytes() == CONTENT


def test_a_part_longer_than_the_file_is_thrown_away(site: Site, tmp_path: Path) -> None:
    (tmp_path / "toy.bin.part").write_bytes(CONTENT + b"more")
    assert fetch(site.file(blob=BLOB), tmp_path, pause=0).read_bytes() == CONTENT


def test_404_is_final_and_names_address_and_folder(site: Site, tmp_path: Path) -> None:
    site.answers = ["404"]
    with pytest.raises(InputError, match=r"toy\.bin.*404.*FEWNODE_DATA") as error:
        fetch(site.file(), tmp_path, pause=0)
    assert site.address in str(error.value) and str(tmp_path) in str(error.value)
    assert len(site.ranges) == 1 and list(tmp_path.iterdir()) == []


def test_a_busy_server_is_asked_again(site: Site, tmp_path: Path) -> None:
    site.answers = ["503", "429", "good"]
    assert fetch(site.file(blob=BLOB), tmp_path, pause=0).read_bytes() == CONTENT


def test_a_slow_start_is_waited_for(site: Site, tmp_path: Path) -> None:
    site.answers = ["slow"]
    assert fetch(site.file(blob=BLOB), tmp_path).read_bytes() == CONTENT


def test_a_start_slower_than_the_timeout_is_tried_again(site: Site, tmp_path: Path) -> None:
    site.answers = ["slow", "good"]
    assert fetch(site.file(blob=BLOB), tmp_path, timeout=0.1, pause=0).read_bytes() == CONTENT
    assert len(site.ranges) == 2


def test_offline_is_said_at_once_with_address_and_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        port = server.server_port  # free again, and refused, once the server is closed
    with pytest.raises(InputError, match="cannot reach") as error:
        fetch(File("toy.bin", f"http://127.0.0.1:{port}/toy.bin"), tmp_path, pause=1000)
    assert f"http://127.0.0.1:{port}/toy.bin" in str(error.value) and str(tmp_path) in str(error.value)


def test_a_folder_that_cannot_be_written_is_named(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match="cannot write to"):
        fetch(site.file(), tmp_path / "file" / "below")


def test_parallel_fetches_of_one_file_do_not_mix(site: Site, tmp_path: Path) -> None:
    site.answers = ["slow"]
    paths: list[Path] = []
    threads = [threading.Thread(target=lambda: paths.append(fetch(site.file(blob=BLOB), tmp_path))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [path.read_bytes() == CONTENT for path in paths] == [True] * 4
    assert len(site.ranges) == 1


def test_check_leaves_a_users_file_alone(tmp_path: Path) -> None:
    (tmp_path / "toy.bin").write_bytes(b"changed")
    with pytest.raises(InputError, match="7 bytes"):
        check(File("toy.bin", blob=BLOB), tmp_path / "toy.bin")
    assert (tmp_path / "toy.bin").exists()
