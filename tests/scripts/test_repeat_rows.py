"""Stored runs are repeated and compared task by task."""

import json
import sys
from pathlib import Path

import pytest

from fewnode.experiments.grid import Run
from fewnode.experiments.rows import read
from fewnode.experiments.worker import do

SCRIPTS = str(Path(__file__).parents[2] / "scripts")


@pytest.fixture
def repeat(monkeypatch, capsys):
    monkeypatch.syspath_prepend(SCRIPTS)
    import repeat_rows

    def call(*words: object) -> str:
        monkeypatch.setattr(sys, "argv", ["repeat_rows.py", *map(str, words)])
        assert repeat_rows.main() == 0
        return capsys.readouterr().out

    return call


def test_equal_and_changed_runs_are_told_apart_and_finished_ones_are_not_repeated(repeat, tiny, tmp_path):
    tiny[0].save_npz(tmp_path / "own.npz")
    run = {"dataset": str(tmp_path / "own.npz"), "n_way": 3, "k_shot": 2, "n_query": 5}
    rows = [do(Run(**run, method="probe", options=options), None, 1) for options in ({}, {"head": "ridge"})]
    correct = rows[1]["correct"]
    correct[correct.index(min(correct))] += 1
    correct[correct.index(max(correct))] -= 1
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = repeat(tmp_path / "rows.jsonl", "--out", tmp_path / "again.jsonl")
    assert "equal in every task" in out and "+0.00 points" in out and "probe: 1 of 2 equal in every task" in out
    assert read(tmp_path / "again.jsonl")[0]["correct"] == rows[0]["correct"]
    assert repeat(tmp_path / "rows.jsonl", "--out", tmp_path / "again.jsonl").strip() == ""
    assert "probe: " in repeat(tmp_path / "rows.jsonl", "--each", 1, "--methods", "probe", "pn")
