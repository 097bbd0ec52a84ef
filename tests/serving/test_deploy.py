"""docs/deploy.md and the Dockerfile: the examples are run, the commands are parsed, what is copied is there."""

import json
import re
import shlex
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
import uvicorn
from fastapi.testclient import TestClient

from fewnode.cli import build_parser
from fewnode.serving.http import Limits, application

ROOT = Path(__file__).parents[2]
PAGE, DOCKERFILE = (ROOT / "docs/deploy.md").read_text(), (ROOT / "Dockerfile").read_text()


def blocks(kind, text=PAGE):
    return re.findall(rf"^```{kind}\n(.*?)\n```", text, re.DOTALL | re.MULTILINE)


@pytest.fixture
def address(service):
    """A server of the service in a thread."""
    server = uvicorn.Server(uvicorn.Config(application(service, Limits()), port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


def test_the_examples_run(address, capsys):
    script = blocks("bash")[0].replace("localhost:8000", address)
    assert script.count("curl") == 3
    if shutil.which("curl"):
        done = subprocess.run(["sh", "-ec", script], capture_output=True, text=True, timeout=60)
        answers = [json.loads(part) for part in re.findall(r"\{.*?\}(?=\{|$)", done.stdout.replace("}{", "}\n{"), re.M)]
        assert done.returncode == 0 and [sorted(one) for one in answers] == [
            ["classes", "model"],
            ["model", "predictions"],
            ["candidates", "label", "model"],
        ]
    program = blocks("python")[0].replace("localhost:8000", address).replace("import httpx", "import httpx2 as httpx")
    exec(compile(program, "deploy.md", "exec"), {})
    assert re.fullmatch(r"x1 \w+ [\d.]+\n", capsys.readouterr().out)


def test_every_address_of_the_table_is_there(service):
    named = set(re.findall(r"`(?:GET|POST|DELETE) (/[^?`]*)", PAGE))
    client = TestClient(application(service, Limits()), base_url="http://127.0.0.1")
    assert named == set(client.get("/openapi.json").json()["paths"])


def test_every_command_is_one():
    entry = re.search(r'^ENTRYPOINT \["(.*)"\]$', DOCKERFILE, re.M)[1].replace('", "', " ")
    found = [*re.findall(r"^(?:ExecStart=/\S*/)?(fewnode [a-z].*)$", PAGE, re.M), entry]
    assert len(found) >= 8
    for line in found:
        words = re.split(r" (?:>|\|\|)", line)[0]
        build_parser().parse_args(shlex.split(words)[1:])


def test_what_the_image_copies_is_there():
    sources = [word for line in re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.M) for word in line.split()]
    assert {"src", "pyproject.toml"} <= set(sources)
    allowed = (ROOT / ".dockerignore").read_text().split()
    for name in sources:
        assert (ROOT / name).exists() and f"!{name}" in allowed
    assert re.search(r"^USER fewnode$", DOCKERFILE, re.M) and "HEALTHCHECK" in DOCKERFILE and "/readyz" in DOCKERFILE
