import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from fewnode import Tasks

SCRIPT = Path(__file__).parents[2] / "scripts" / "convert_pool.py"


def convert(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *map(str, words)], capture_output=True, text=True)


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_pool_in_the_published_layout_is_converted(tmp_path, protocol):
    y = torch.tensor([0, 0, 1, 1])
    pools = [[(np.array([n, n + 1, n + 2, n + 3]), y, np.array([8, 9]), torch.tensor([0, 1]))] * 3 for n in (0, 20)]
    (tmp_path / "pool.pkl").write_bytes(pickle.dumps(tuple(pools), protocol))
    done = convert(tmp_path / "pool.pkl", "--out", tmp_path / "pool.npz")
    assert done.returncode == 0 and "3 2-way tasks, 4 supports, 2 queries" in done.stdout, done.stderr
    tasks = Tasks.load(tmp_path / "pool.npz")
    assert tasks.support[0].tolist() == [20, 21, 22, 23] and tasks.query_y[2].tolist() == [0, 1]


class Harmful:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_code_in_a_pool_is_never_run(tmp_path):
    (tmp_path / "pool.pkl").write_bytes(pickle.dumps(([], [Harmful(tmp_path / "harm")])))
    done = convert(tmp_path / "pool.pkl", "--out", tmp_path / "pool.npz")
    assert done.returncode == 2 and "mkdir, which a pool of tasks does not need" in done.stderr
    assert not (tmp_path / "harm").exists() and not (tmp_path / "pool.npz").exists()


@pytest.mark.parametrize("data", [b"", b"text", pickle.dumps([1, 2]), pickle.dumps(([], []))])
def test_other_files_are_refused(tmp_path, data):
    (tmp_path / "pool.pkl").write_bytes(data)
    done = convert(tmp_path / "pool.pkl", "--out", tmp_path / "pool.npz")
    assert done.returncode == 2 and "is not a pickled pool of tasks" in done.stderr
    assert "Traceback" not in done.stderr
