"""Every test gets a copy of a small model, and sessions that are closed at its end."""

import shutil
from pathlib import Path

import pytest

from fewnode.labelling.server import open_session


@pytest.fixture
def folder(home, tmp_path) -> Path:
    """A model's folder; the tables it remembers are those of the first one."""
    return Path(shutil.copytree(home / "m", tmp_path / "model"))


@pytest.fixture
def opened(folder):
    """Opens the session of the folder; what is open is closed before, as a kill would."""
    sessions = []

    def open_(**options):
        close()
        sessions.append(open_session(folder, **options))
        return sessions[-1]

    def close():
        while sessions:
            sessions.pop().journal.close()

    yield open_
    close()
