"""MATLAB files read without starting Python anew for each."""

import pytest

import forked
from fewnode.datasets import mat


@pytest.fixture
def quick_mat(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that reads a MATLAB file is a copy of this one; ``test_mat.py`` has the real one."""
    monkeypatch.setattr(mat.subprocess, "run", forked.run_code)
