"""Threads by what is free, and OpenMP's threads that sleep while they wait."""

import os
import subprocess
import sys

import pytest

from fewnode import cli


@pytest.mark.parametrize(("running", "expected"), [(1, 4), (2, 3), (4, 1), (9, 1)])
def test_busy_cores_are_left_to_others(tmp_path, monkeypatch, running, expected):
    load = tmp_path / "loadavg"
    load.write_text(f"0.50 0.40 0.30 {running}/321 4711\n")
    monkeypatch.setattr(cli, "LOAD", load)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    assert cli.free_cores() == expected


def test_where_the_system_does_not_tell_all_cores_count(tmp_path, monkeypatch):
    monkeypatch.setattr(cli, "LOAD", tmp_path / "absent")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    assert cli.free_cores() == 2


def test_what_the_user_has_set_stays(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    cli.main(["ls", "grids"])
    assert os.environ["OMP_NUM_THREADS"] == "7"


@pytest.mark.parametrize(("given", "expected"), [(None, "passive 1000"), ("active", "active None")])
def test_threads_sleep_while_they_wait_unless_the_user_says_otherwise(given, expected):
    environment = {key: value for key, value in os.environ.items() if key not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    environment |= {} if given is None else {"OMP_WAIT_POLICY": given}
    code = "import fewnode, os; print(os.environ.get('OMP_WAIT_POLICY'), os.environ.get('GOMP_SPINCOUNT'))"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == expected
