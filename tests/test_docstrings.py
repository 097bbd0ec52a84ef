"""Examples in docstrings: every public name has one, and a wrong one fails."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fewnode

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", sorted(set(fewnode.__all__) - {"InputError"}))
def test_a_public_name_has_an_example(name):
    assert ">>> " in (getattr(fewnode, name).__doc__ or "")


def test_a_wrong_example_fails(tmp_path):
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    package = tmp_path / "src/fewnode"
    package.mkdir(parents=True)
    for name, answer in (("right", 2), ("wrong", 3)):
        (package / f"{name}.py").write_text(f'"""One and one.\n\n>>> 1 + 1\n{answer}\n"""\n')
    (tmp_path / "tests").mkdir()
    command = [sys.executable, "-m", "pytest", "--no-header"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "1 failed, 1 passed" in done.stdout, done.stdout
