"""A small model in a folder, made once; every test gets a copy, and sessions that are closed at its end."""

import shutil
from pathlib import Path

import pytest

import own_graph
from fewnode.labelling.serving import open_session
from fewnode.own.tables import TableSource
from fewnode.own.workflow import fit_tables


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("labelled")
    own_graph.write_tables(folder)
    source = TableSource.of(folder / "edges.csv", folder / "nodes.csv")
    fit_tables(source, folder / "model", method="probe", settings={"k_shot": 3})
    return folder


@pytest.fixture
def folder(made, tmp_path) -> Path:
    """A model's folder; the tables it remembers are those of the first one."""
    return Path(shutil.copytree(made / "model", tmp_path / "model"))


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
