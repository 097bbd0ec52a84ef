"""Worker processes: one that dies takes one run with it; a killed grid goes on; two share a file."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from fewnode.experiments import rows as results
from fewnode.experiments import runners as local
from fewnode.experiments.grid import Run
from fewnode.experiments.runners import Session
from fewnode.experiments.worker import Finished, Started
from report import made_up

SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture
def own(tmp_path, tiny) -> str:
    tiny[0].save_npz(tmp_path / "own.npz")
    return str(tmp_path / "own.npz")


def test_a_killed_worker_fails_its_run_and_the_others_are_done(own, tmp_path):
    run = Run(own, "tent", {"steps": 10**6, "patience": 10**6}, 3, 2, 5)
    short = [Run(own, "probe", {}, 3, 2, 5), replace(run, options={"train_shot": 10_000})]
    session = Session(tmp_path / "rows.jsonl", [run, *short])
    outcomes = {}
    for event in session.conduct(lambda next_run: local.execute(next_run, jobs=1)):
        if isinstance(event, Started) and event.run == run:
            (worker,) = multiprocessing.active_children()
            os.kill(worker.pid, signal.SIGKILL)
        if isinstance(event, Finished):
            outcomes[event.run.id] = event.row
            assert event.row in results.read(tmp_path / "rows.jsonl")  # kept before anyone is told
    assert "killed (SIGKILL)" in outcomes[run.id]["reason"]
    assert outcomes[short[0].id]["status"] == "ok"
    assert "10001 labelled nodes" in outcomes[short[1].id]["reason"]
    assert (len(session.done), len(session.failed)) == (1, 2)
    assert multiprocessing.active_children() == []


def test_what_others_have_done_or_are_doing_is_left_to_them(own, tmp_path):
    path = tmp_path / "rows.jsonl"
    runs = [Run(own, "probe", {}, 3, k, 5) for k in (1, 2)]
    results.append(path, made_up.row(runs[0], 0.5))
    session = Session(path, runs)
    assert session.next_run() == runs[1] and session.next_run() is None
    assert session.elsewhere == [runs[0]]


def start(folder: Path, own: str) -> subprocess.Popen:
    (folder / "grid.toml").write_text(
        f'datasets = ["{own}"]\nmethods = ["tent"]\nsettings = ["3w1s", "3w2s", "3w3s"]\nn_query = 5\nseeds = 2\n'
        "options = [{steps = 10, check_every = 5}]\n"
    )
    command = [sys.executable, "-m", "fewnode", "run", "grid.toml", "--results", "rows.jsonl", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def test_a_grid_killed_half_way_goes_on_and_two_processes_share_it(own, tmp_path):
    path = tmp_path / "rows.jsonl"
    first = start(tmp_path, own)
    while not path.exists() or path.read_bytes().count(b"\n") < 2:
        assert first.poll() is None
        time.sleep(0.02)
    workers = Path(f"/proc/{first.pid}/task/{first.pid}/children")
    orphans = workers.read_text().split() if workers.exists() else []
    first.kill()
    first.wait()
    until = time.monotonic() + 5
    while alive := [orphan for orphan in orphans if Path(f"/proc/{orphan}/exe").exists()]:
        assert time.monotonic() < until, f"{alive} outlived their parent by more than 5 s"
        time.sleep(0.05)
    kept = {row["id"] for row in results.read(path)}
    both = [start(tmp_path, own), start(tmp_path, own)]
    told = [json.loads(process.communicate(timeout=240)[0]) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    lines = [json.loads(line)["id"] for line in path.read_text().splitlines()]
    assert len(lines) == len(set(lines)) == 12 and kept <= set(lines)
    assert sum(document["done"] for document in told) == 12 - len(kept)
