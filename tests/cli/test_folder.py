"""The folder of a model needs nothing else: copied to another place, every command works."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import own_graph


def fewnode(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fewnode", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, env=os.environ)


@pytest.fixture(scope="module")
def copied(tmp_path_factory) -> Path:
    """A folder with a model and a table of examples; the tables of the fit are gone."""
    before, after = tmp_path_factory.mktemp("before"), tmp_path_factory.mktemp("after")
    own_graph.write_tables(before)
    tables = ("--edges", "edges.csv", "--nodes", "nodes.csv", "--k-shot", "3", "--set", "steps=2")
    made = fewnode(before, "fit", *tables, "--out", "model", "--json")
    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout)["bytes"] == sum(path.stat().st_size for path in (before / "model").iterdir())
    shutil.copytree(before / "model", after / "copy")
    shutil.copy(before / "support.csv", after)
    shutil.rmtree(before)
    return after


@pytest.mark.parametrize(
    "words",
    [
        ("predict", "copy", "--support", "support.csv", "--out", "p.csv", "--report", "page.html"),
        ("find", "copy", "--support", "support.csv", "--class", "mule"),
        ("explain", "copy", "--support", "support.csv", "--node", "n14"),
        ("evaluate", "copy", "--n-query", "2", "--tasks", "5"),
    ],
)
def test_commands_work_on_a_copy(copied, words):
    done = fewnode(copied, *words)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_page_shows_the_rows_of_the_table(copied):
    from fewnode.labelling.server import open_session
    from fewnode.report.nodes import NodeRows

    session = open_session(copied / "copy")
    browser = NodeRows(session.classifier)
    assert dict(browser.row(browser.search("n14")[0])).keys() == {*own_graph.COLUMNS}
    session.journal.close()


def test_a_damaged_array_is_named(copied):
    shutil.copytree(copied / "copy", copied / "torn")
    file = copied / "torn" / "indices.npy"
    file.write_bytes(file.read_bytes()[:-1] + b"\x01")
    done = fewnode(copied, "find", "torn", "--support", "support.csv", "--class", "mule")
    assert done.returncode == 2 and "indices.npy is damaged" in done.stderr and "fit the model again" in done.stderr
