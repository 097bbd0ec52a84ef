"""Plans, sessions, worker processes and Ray: what is left to do, and that a lost worker or machine costs no row."""

import importlib.util
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from fewnode.errors import InputError
from fewnode.experiments import rows as results
from fewnode.experiments import runners
from fewnode.experiments.grid import Run
from fewnode.experiments.runners import Cluster, Durations, Session, Sizes, Workers, make_plan
from fewnode.experiments.worker import Bench
from fewnode.tasks import draw_tasks
from ray_cluster import two_machines
from report import made_up

RUN = Run("wordnet", "tent", {"gamma": 0.5}, 5, 3, 10, 1)


SOURCE = Path(__file__).parents[2] / "src"


HAS_RAY = importlib.util.find_spec("ray") is not None


def done(run: Run, status: str = "ok", seconds: float = 10.0) -> dict:
    return {"id": run.id, "status": status, "run": vars(run), "seconds": {"total": seconds}}


def test_a_plan_sorts_runs():
    finished, failed = replace(RUN, seed=2), replace(RUN, seed=3)
    wide, absent = replace(RUN, n_way=10), replace(RUN, dataset="dblp")
    sizes = {"wordnet": [50] * 6 + [12], "dblp": "cannot reach it"}
    plan = make_plan(
        [RUN, finished, failed, wide, absent], [done(finished), done(failed, "failed")], lambda run: sizes[run.dataset]
    )
    assert plan.todo == [RUN, failed] and plan.done == [finished]
    assert plan.not_run == {"dblp": "cannot reach it"}
    assert plan.not_possible == [(wide, "10-way needs 10 novel classes of 13 nodes; wordnet has 6 of 7")]


def test_finished_runs_need_no_data():
    def never(_: str) -> str:
        raise AssertionError

    assert make_plan([RUN], [done(RUN)], never).done == [RUN]


def test_durations_come_from_the_most_alike_rows():
    rows = [
        done(replace(RUN, seed=7), seconds=3.0),
        done(replace(RUN, n_way=4), seconds=5.0),
        done(replace(RUN, dataset="x"), seconds=100.0),
        done(replace(RUN, seed=9), "failed", 999.0),
    ]
    known = Durations(rows)
    assert known.guess(RUN) == 3.0
    assert known.guess(replace(RUN, k_shot=1)) == 4.0
    assert known.guess(replace(RUN, dataset="new")) == 36.0
    assert known.guess(replace(RUN, method="pn")) is None


def test_sizes_of_a_file_and_the_reason_for_a_missing_one(tmp_path, tiny):
    graph, _ = tiny
    graph.save_npz(tmp_path / "own.npz")
    sizes = Sizes()
    found = sizes(Run(str(tmp_path / "own.npz"), "probe"))
    assert isinstance(found, list) and all(size >= 2 for size in found)
    assert "there is no file" in str(sizes(Run(str(tmp_path / "other.npz"), "probe")))


def test_a_replaced_file_is_run_again(tmp_path, tiny):
    graph, file = tiny[0], str(tmp_path / "own.npz")
    graph.save_npz(file)
    run = Run(file, "probe", {}, 3, 2, 5)
    (todo,) = make_plan([run], [], Sizes()).todo
    assert todo.graph.startswith(graph.fingerprint[:16]) and todo.id != run.id and todo.settings()["graph"]
    assert make_plan([run], [done(todo)], Sizes()).done == [todo]
    graph.with_labels(graph.y.clone().clamp(max=9)).save_npz(file)
    assert make_plan([run], [done(todo)], Sizes()).done == []


def test_files_of_classes_and_of_tasks_are_part_of_a_run(tmp_path, tiny):
    graph, split = tiny
    graph.save_npz(tmp_path / "own.npz")
    pool, classes = tmp_path / "pool.npz", tmp_path / "split.json"
    draw_tasks(graph.y, split.novel, 3, 2, 5, 20, seed=3).save(pool)
    classes.write_text(json.dumps(asdict(split)))
    run = Run(str(tmp_path / "own.npz"), "pn", {"steps": 2}, 3, 2, 5, split=str(classes), pool=str(pool))
    (todo,) = make_plan([run], [], Sizes()).todo
    row = Bench().do(todo)
    assert row["status"] == "ok" and len(row["correct"]) == 20 and row["run"]["split"] == str(classes)
    assert make_plan([run], [done(todo)], Sizes()).done == [todo]
    draw_tasks(graph.y, split.novel, 3, 2, 5, 20, seed=4).save(pool)  # other tasks under the same name
    assert make_plan([run], [done(todo)], Sizes()).todo != [todo]
    assert "was changed after the runs were planned" in Bench().do(todo)["reason"]
    assert "holds 3-way tasks with 2 shots" in make_plan([replace(run, k_shot=1)], [], Sizes()).not_run[run.dataset]


def test_tasks_of_classes_that_are_trained_on_are_refused_before_training(tmp_path, tiny):
    graph, split = tiny
    graph.save_npz(tmp_path / "own.npz")
    draw_tasks(graph.y, split.base, 3, 2, 5, 20, seed=3).save(tmp_path / "pool.npz")
    (tmp_path / "split.json").write_text(json.dumps(asdict(split)))
    files = {"split": str(tmp_path / "split.json"), "pool": str(tmp_path / "pool.npz")}
    run = Run(str(tmp_path / "own.npz"), "pn", {"steps": 2}, 3, 2, 5, **files)
    plan = make_plan([run], [], Sizes())
    assert plan.todo == [] and "base classes" in plan.not_run[run.dataset]
    assert "base classes" in Bench().do(run)["reason"]


@pytest.fixture
def own(tmp_path, tiny) -> str:
    tiny[0].save_npz(tmp_path / "own.npz")
    return str(tmp_path / "own.npz")


def test_a_killed_worker_fails_its_run_and_the_others_are_done(own, tmp_path):
    run = Run(own, "tent", {"steps": 10**6, "patience": 10**6}, 3, 2, 5)
    short = [Run(own, "probe", {}, 3, 2, 5), replace(run, options={"train_shot": 10_000})]
    session = Session(tmp_path / "rows.jsonl", [run, *short])
    outcomes = {}
    for one, row in session.conduct(Workers()):
        if (one, row) == (run, None):
            while not (started := multiprocessing.active_children()):
                time.sleep(0.02)
            os.kill(started[0].pid, signal.SIGKILL)
        if row is not None:
            outcomes[one.id] = row
            assert row in results.read(tmp_path / "rows.jsonl")  # kept before anyone is told
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


@pytest.mark.skipif(HAS_RAY, reason="Ray is installed")
def test_without_ray_the_extra_is_named():
    with pytest.raises(InputError, match=r"fewnode\[ray\]"):
        Cluster()


@pytest.mark.skipif(not HAS_RAY, reason="needs Ray: pip install 'fewnode[ray]'")
def test_a_lost_machine_costs_no_row(tmp_path, tiny):
    tiny[0].save_npz(tmp_path / "own.npz")
    runs = [Run(str(tmp_path / "own.npz"), "probe", {"rank": rank}, 3, 2, 5) for rank in range(8, 16)]
    bad = Run(str(tmp_path / "own.npz"), "probe", {}, 50, 2, 5)
    session = Session(tmp_path / "rows.jsonl", [*runs, bad])
    with two_machines() as machines:
        (second,) = machines.worker_nodes
        for _, row in session.conduct(Cluster(resources={"cpu": 1})):
            if row is not None and len(session.done) == 2 and second is not None:
                machines.remove_node(second, allow_graceful=False)
                second = None
    assert second is None
    lines = (tmp_path / "rows.jsonl").read_text().splitlines()
    rows = results.read(tmp_path / "rows.jsonl")
    assert len(lines) == len(rows) == 9
    assert {row["id"] for row in rows if row["status"] == "ok"} == {run.id for run in runs}
    assert [row["id"] for row in rows if row["status"] != "ok"] == [bad.id]


def test_only_this_machine_reaches_a_cluster_that_nobody_asked_for(monkeypatch):
    for name in ("RAY_AUTH_MODE", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"):
        monkeypatch.setenv(name, "")  # put back afterwards, whatever happens to it
        monkeypatch.delenv(name)
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    assert runners._start("head:6379") == {"address": "head:6379"} and "RAY_AUTH_MODE" not in os.environ
    assert runners._start(None) == {"address": "local", "_node_ip_address": "127.0.0.1"}
    assert (os.environ["RAY_AUTH_MODE"], os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"]) == ("token", "0")


def test_an_address_where_nobody_answers_is_named_at_once():
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(InputError, match=rf"address='{address}': nobody answers there .*ray start --head"):
            runners._check_address(address)
    for wrong in ("head", "head:port", "ray://head", "head:99999"):
        with pytest.raises(InputError, match="write HOST:PORT"):
            runners._check_address(wrong)
