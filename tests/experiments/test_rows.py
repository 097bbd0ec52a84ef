"""Rows on disk: whole lines whatever happens, several writers, claims that die with their holder."""

import itertools
import json
import os
import time
from pathlib import Path

import pytest

import forked
from fewnode.errors import InputError
from fewnode.experiments import rows as results
from fewnode.experiments.grid import Run
from report import made_up


def row(name: str, status: str = "ok", **more: object) -> results.Row:
    """A row of a run on the data set ``name``."""
    made = (made_up.row if status == "ok" else made_up.failed)(Run(name, "probe"), *([0.5] if status == "ok" else []))
    return {**made, **more}


def ids(path: Path) -> list[str]:
    """The names of the rows."""
    return [found["run"]["dataset"] for found in results.read(path)]


def test_rows_come_back_in_order_and_the_last_success_counts(tmp_path):
    path = tmp_path / "new folder" / "rows.jsonl"
    for found in (
        row("a", "failed"),
        row("b", n=1),
        row("a", n=2),
        row("b", "failed"),
        row("b", n=3),
        row("c", n=4),
        row("c", "failed"),
    ):
        results.append(path, found)
    assert [(found["run"]["dataset"], found["status"], found["n"]) for found in results.read(path)] == [
        ("a", "ok", 2),
        ("b", "ok", 3),
        ("c", "ok", 4),  # a failure never replaces a success
    ]


@pytest.mark.parametrize("torn", [b'{"format":1,"id":"x"', b"{", b'{"id": "' + b"y" * 200_000])
def test_a_torn_last_line_is_ignored_and_repaired(tmp_path, torn):
    path = tmp_path / "rows.jsonl"
    results.append(path, row("a"))
    with path.open("ab") as file:
        file.write(torn)
    assert ids(path) == ["a"]
    results.append(path, row("b"))
    assert ids(path) == ["a", "b"] and len(path.read_bytes().splitlines()) == 2


def test_a_file_that_is_nothing_but_a_torn_line_starts_anew(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"form')
    results.append(path, row("a"))
    assert ids(path) == ["a"]


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "rows.jsonl"
    results.append(path, row("a"))
    before, write = path.read_bytes(), os.write
    monkeypatch.setattr(results.os, "write", lambda handle, line: write(handle, line[:10]))
    with pytest.raises(OSError, match="only 10 of"):
        results.append(path, row("b"))
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "line, words",
    [
        ("not json", "it is not a result row"),
        ("{}", "it is not a result row"),
        ("[1]", "it is not a result row"),
        ("[" * 100_000, "Expected `object`, got `array`"),
        ('{"a": 1' + "0" * 5000 + "}", "out of range"),
        (json.dumps(row("b") | {"format": 99}), "it has format 99, this version reads up to 1"),
        (json.dumps(row("b") | {"id": "0" * 16}), "its id is not that of its settings"),
        (json.dumps(row("b") | {"accuracy": 0.123}), "its accuracy 0.123 is not that of its tasks"),
        (json.dumps(row("b") | {"queries": 1}), "right answers of 1"),
        (json.dumps(row("b") | {"per_class": {"c": [3, 2]}}), "class 'c' has 3 right answers of 2"),
        (json.dumps(row("b") | {"correct": [[1]]}), r"correct\[0\]: Expected `int`, got `array`"),
        (json.dumps(row("b") | {"seconds": {}}), "seconds are not those of a training"),
        (json.dumps(row("b") | {"run": row("b")["run"] | {"n_way": "9/../x"}}), "run.n_way: Expected `int`, got `str`"),
        (json.dumps(row("b", "failed") | {"reason": 1}), "reason: Expected `str`"),
    ],
)
def test_a_broken_line_costs_that_line_and_a_note(tmp_path, line, words):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row("a")) + "\n" + line + "\n" + json.dumps(row("c")) + "\n")
    with pytest.warns(UserWarning, match=rf"rows.jsonl, line 2 is left out: .*{words}"):
        assert ids(path) == ["a", "c"]


def test_a_file_without_any_row_is_refused(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("not json\n")
    with pytest.warns(UserWarning), pytest.raises(InputError, match="no line of it is a result row"):
        results.read(path)


def test_a_pipe_is_refused_and_never_waited_for(tmp_path):
    os.mkfifo(tmp_path / "rows.jsonl")
    with pytest.raises(InputError, match="is a pipe or a device"):
        results.read(tmp_path / "rows.jsonl")
    with pytest.raises(InputError, match="is not a file"):
        results.append(tmp_path / "rows.jsonl", row("a"))


def test_nan_never_reaches_the_file(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        results.append(tmp_path / "rows.jsonl", row("a", accuracy=float("nan")))


def test_folders_are_read_whole_and_missing_ones_named(tmp_path):
    with pytest.raises(InputError, match=r"holds no \.jsonl file"):
        results.read(tmp_path)
    with pytest.raises(InputError, match="there are no results at"):
        results.read(tmp_path / "nowhere")
    results.append(tmp_path / "2.jsonl", row("b"))
    results.append(tmp_path / "1.jsonl", row("a"))
    assert ids(tmp_path) == ["a", "b"]


def write_many(path: Path, name: int) -> None:
    for number in range(40):
        results.append(path, row(f"{name}-{number}", text="x" * (300 * name + number)))


def test_several_processes_write_one_file(tmp_path):
    path = tmp_path / "rows.jsonl"
    writers = [forked.start(write_many, path, name) for name in range(3)]
    for writer in writers:
        writer.join()
    assert sorted(ids(path)) == sorted(f"{name}-{number}" for name in range(3) for number in range(40))


def write_on_and_on(path: Path) -> None:
    for number in itertools.count():
        results.append(path, {**made_up.failed(Run(str(number), "probe")), "text": "x" * 50000})


def test_a_writer_killed_at_any_moment_leaves_whole_rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    for _ in range(3):
        writer = forked.start(write_on_and_on, path)
        size = path.stat().st_size if path.exists() else 0
        while not path.exists() or path.stat().st_size < size + 200_000:
            assert writer.is_alive(), "the writer has stopped by itself"
            time.sleep(0.005)
        writer.kill()
        writer.join()
        assert ids(path) == [str(n) for n in range(len(ids(path)))]
    results.append(path, row("after"))
    assert all(line.endswith(b"}\n") for line in path.read_bytes().splitlines(keepends=True))


def claim(path: Path, run_id: str, pipe) -> None:
    pipe.send(results.Claims(path).take(run_id))
    pipe.recv()  # hold it until told, or killed


def test_a_claim_keeps_others_away_and_dies_with_its_holder(tmp_path):
    path, run_id, other = tmp_path / "rows.jsonl", "0123456789abcdef", "fedcba9876543210"
    here, there = forked.CONTEXT.Pipe()
    holder = forked.start(claim, path, run_id, there)
    assert here.recv() is True
    mine = results.Claims(path)
    assert not mine.take(run_id) and mine.take(other)
    holder.kill()
    holder.join()
    assert mine.take(run_id)
    mine.close()


def test_a_clock_that_jumps_back_does_not_bring_an_older_row_back(tmp_path):
    path = tmp_path / "rows.jsonl"
    for finished, n in (("2030-01-01T00:00:00+00:00", 1), ("2020-01-01T00:00:00+00:00", 2)):
        results.append(path, row("a", finished=finished, n=n))
    assert [found["n"] for found in results.read(path)] == [2]
