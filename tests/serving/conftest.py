"""A small model in a folder of its own, and a service of it."""

import shutil
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")

from fewnode.serving.service import Service


@pytest.fixture
def folder(home, tmp_path) -> Path:
    return Path(shutil.copytree(home / "m", tmp_path / "model"))


@pytest.fixture
def service(folder) -> Service:
    made = Service(folder)
    made.load()
    return made
