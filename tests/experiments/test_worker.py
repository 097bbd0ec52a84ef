"""What a worker measures: the protocol's numbers, nothing left over from the run before, failures as rows."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fewnode import evaluate, fit
from fewnode.datasets.loading import open_dataset
from fewnode.experiments import worker
from fewnode.experiments.grid import Run
from fewnode.experiments.worker import Bench, peak_memory, reset_peak


@pytest.fixture(scope="module")
def own(tmp_path_factory, tiny) -> str:
    path = tmp_path_factory.mktemp("data") / "own.npz"
    tiny[0].save_npz(path)
    return str(path)


@pytest.fixture
def run(own) -> Run:
    return Run(own, "probe", {"head": "logistic"}, 3, 2, 5)


def test_the_row_holds_what_evaluate_says(run):
    row = Bench().do(run)
    graph, split = open_dataset(run.dataset)
    shape = {"n_way": 3, "k_shot": 2, "n_query": 5}
    model = fit("probe", graph, split, **shape, head="logistic")
    found = evaluate(model, graph, split.novel, **shape)
    assert row["status"] == "ok" and row["id"] == run.id and row["run"]["options"] == {"head": "logistic"}
    assert row["accuracy"] == pytest.approx(found.accuracy, abs=1e-6)
    assert row["interval"] == pytest.approx(found.interval, abs=1e-6)
    assert row["correct"] == (found.per_task * 15).round().int().tolist() and row["queries"] == 15
    right, asked = torch.tensor(list(row["per_class"].values())).sum(0).tolist()
    assert right == sum(row["correct"]) and asked == 500 * 15
    assert row["training_free"] and row["curve"] == [] and row["peak_memory"] > 10**7
    assert row["threads"] == 1 and row["processor"] and set(row) >= {"commit", "dirty"}
    assert json.loads(json.dumps(row)) == row


def test_a_row_names_the_commit_of_the_source_alone(tmp_path, monkeypatch):
    there = Path(worker.__file__).parents[3]
    if (there / ".git").exists():
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=there, capture_output=True, text=True, check=True)
        assert worker.source()["commit"] == head.stdout.strip() and type(worker.source()["dirty"]) is bool
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)  # of a user, with an environment in it
    monkeypatch.setattr(worker, "__file__", str(tmp_path / "worker.py"))
    assert worker.source.__wrapped__() == {"commit": None, "dirty": None}


def test_every_method_and_seed_meets_the_same_tasks(run):
    bench = Bench()
    short = {"steps": 4, "check_every": 2}
    rows = [bench.do(run), *(bench.do(replace(run, method="pn", options=short, seed=seed)) for seed in (0, 1))]
    assert len({row["pool"] for row in rows}) == 1
    assert rows[1]["correct"] != rows[2]["correct"]
    assert [step for step, _ in rows[1]["curve"]][-2:] == [2, 4] and rows[1]["best"] is not None
    assert set(rows[1]["seconds"]) == {"train", "test", "total"}


def test_runs_share_what_needs_no_label_and_nothing_else(run):
    bench = Bench()
    settings = [{"rank": 8}, {"rank": 16}, {"rank": 8, "smooth": False}]
    runs = [replace(run, options=options, inductive=i) for i in (False, True) for options in settings]
    together = [bench.do(each) for each in runs]
    alone = [Bench().do(each) for each in reversed(runs)][::-1]
    assert [row["correct"] for row in together] == [row["correct"] for row in alone]
    assert all("reduction" not in row["shared"] for row in alone)
    assert "reduction" in together[1]["shared"]  # what the seconds of this row do not hold


def test_what_goes_wrong_is_a_row_with_its_reason(run):
    row = Bench().do(replace(run, n_way=50))
    assert row["status"] == "failed" and "50-way needs 50 classes" in row["reason"]
    assert row["run"]["n_way"] == 50 and row["seconds"]["total"] >= 0
    assert "there is no file" in Bench().do(replace(run, dataset="nowhere.npz"))["reason"]


def test_peak_memory_is_that_of_the_last_run():
    block = torch.ones(40_000_000)
    high = peak_memory()
    del block
    reset_peak()
    if peak_memory() >= high:
        pytest.skip("this system cannot forget a peak")
    assert peak_memory() < high - 100_000_000
