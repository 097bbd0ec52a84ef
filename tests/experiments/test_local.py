"""Worker processes: one that dies takes one run with it; a killed grid goes on; two share a file."""

import json
import multiprocessing
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import forked
from fewnode import cli
from fewnode.experiments import local, results
from fewnode.experiments.events import Finished, Started
from fewnode.experiments.grid import Run
from fewnode.experiments.session import Session
from fewnode.experiments.worker import Bench
from report import made_up


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


def conduct(folder: Path, out: str) -> None:
    """``fewnode run`` in a process of its own, what it prints in a file; its workers are copies too."""
    os.chdir(folder)
    local.multiprocessing.get_context = lambda _: forked.CONTEXT
    with Path(out).open("w") as sys.stdout:
        sys.exit(cli.main(["run", "grid.toml", "--results", "rows.jsonl", "--json"]))


def wait_for_the_end(orphans: list[str]) -> None:
    until = time.monotonic() + 5
    while alive := [orphan for orphan in orphans if Path(f"/proc/{orphan}/exe").exists()]:
        assert time.monotonic() < until, f"{alive} outlived their parent by more than 5 s"
        time.sleep(0.05)


def test_a_grid_killed_half_way_goes_on_and_two_processes_share_it(own, tmp_path):
    (tmp_path / "grid.toml").write_text(
        f'datasets = ["{own}"]\nmethods = ["pn"]\nsettings = ["3w1s", "3w2s", "3w3s"]\nn_query = 5\nseeds = 2\n'
        "options = [{steps = 10, check_every = 5}]\n"
    )
    Bench().do(Run(own, "pn", {"steps": 1}, 3, 1, 5))  # the copies have what torch loads at a first training
    path = tmp_path / "rows.jsonl"
    first = forked.start(conduct, tmp_path, "first")
    while not path.exists() or path.read_bytes().count(b"\n") < 2:
        assert first.is_alive()
        time.sleep(0.02)
    workers = Path(f"/proc/{first.pid}/task/{first.pid}/children")
    orphans = workers.read_text().split() if workers.exists() else []
    first.kill()
    first.join()
    wait_for_the_end(orphans)
    kept = {row["id"] for row in results.read(path)}
    both = [forked.start(conduct, tmp_path, name) for name in ("second", "third")]
    for process in both:
        process.join(240)
    assert [process.exitcode for process in both] == [0, 0]
    told = [json.loads((tmp_path / name).read_text()) for name in ("second", "third")]
    lines = [json.loads(line)["id"] for line in path.read_text().splitlines()]
    assert len(lines) == len(set(lines)) == 12 and kept <= set(lines)
    assert sum(document["done"] for document in told) == 12 - len(kept)


def start_a_worker(pipe) -> None:
    pipe.send(str(local._Worker(None).process.pid))
    pipe.recv()  # wait until killed


@pytest.mark.skipif(not Path("/proc/self/exe").exists(), reason="processes are looked for in /proc")
def test_a_worker_ends_with_the_process_that_started_it():
    here, there = forked.CONTEXT.Pipe()
    first = forked.start(start_a_worker, there)
    orphan = here.recv()
    assert Path(f"/proc/{orphan}/exe").exists()
    first.kill()
    first.join()
    wait_for_the_end([orphan])
