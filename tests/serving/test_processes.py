"""The command itself: workers that are killed, a service that is killed, and that it stops when it is told to."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2
import pytest

import own_graph

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")


@contextmanager
def serving(folder, *options):
    """The command and its address, as soon as it is ready."""
    log = folder.parent / "log"
    words = [sys.executable, "-m", "fewnode", "serve", str(folder), "--port", "0", *options]
    with log.open("w") as file:
        process = subprocess.Popen(words, stderr=file, env=os.environ | {"OMP_NUM_THREADS": "1"})
    try:
        url = until(lambda: re.search(r"http://\S+", log.read_text()))[0]
        until(lambda: answer(url, "/readyz").get("status") == "ready")
        yield process, url
    finally:
        process.kill()
        process.wait()


def until(found, seconds=60):
    end = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
    return value


def answer(url, path, method="GET", **options):
    with suppress(httpx2.TransportError):
        return httpx2.request(method, f"{url}{path}", timeout=20, **options).json()
    return {}


def names(url):
    return [one["name"] for one in answer(url, "/v1/classes").get("classes", [])]


@pytest.mark.skipif(sys.platform != "linux", reason="the system ends the workers with their supervisor on Linux only")
def test_kills_lose_nothing(folder):
    with serving(folder, "--workers", "2") as (process, url):
        for name, nodes in own_graph.examples().items():
            assert answer(url, "/v1/classes", "POST", json={"name": name, "examples": nodes})
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        worker = int(children.read_text().split()[0])
        os.kill(worker, signal.SIGKILL)
        until(lambda: len(children.read_text().split()) == 2 and str(worker) not in children.read_text())
        for _ in range(20):  # both workers
            assert {"mule", "phisher"} <= set(names(url))
        text = httpx2.get(f"{url}/metrics").text
        assert 'path="/v1/classes",status="200"' in text
        process.kill()
        process.wait()
        until(lambda: not names(url), 5)
    with serving(folder) as (process, url):
        assert names(url)[:2] == ["mule", "phisher"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) in (0, -signal.SIGTERM)


def test_what_no_worker_can_serve_ends_at_once(tmp_path):
    words = [sys.executable, "-m", "fewnode", "serve", str(tmp_path / "nowhere"), "--port", "0", "--workers", "2"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "nowhere" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
