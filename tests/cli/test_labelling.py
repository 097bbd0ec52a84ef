"""``fewnode label``: what is wrong is told in one sentence before anything is served, and nothing is lost."""

import shutil
import socket
import sys
from pathlib import Path

import pytest

import own_graph
from fewnode.classifier.classifier import FewShotClassifier
from fewnode.cli import main
from fewnode.labelling import server as serving
from fewnode.labelling.journal import JOURNAL


@pytest.fixture
def folder(home, tmp_path):
    return Path(shutil.copytree(home / "m", tmp_path / "m"))


@pytest.fixture
def run(capsys, monkeypatch):
    """Runs the command; serving ends as soon as it starts."""
    served = []
    monkeypatch.setattr(serving, "_serve", lambda session, *_: (served.append(session), session.journal.close()))

    def run_(*words):
        served.clear()
        code = main(["label", *map(str, words), "--no-browser"])
        return code, capsys.readouterr().err, served[0] if served else None

    return run_


def test_it_starts_from_a_support_table_and_goes_on_where_it_was(run, folder, home):
    code, _, session = run(folder, "--support", home / "support.csv")
    assert code == 0 and session.examples() == own_graph.examples() and (folder / JOURNAL).exists()
    code, _, again = run(folder)
    assert code == 0 and again.examples() == own_graph.examples()


@pytest.mark.parametrize(
    ("support", "message"),
    [
        ("id,label\nn6,mule\nn999x,mule\n", "there is no node 'n999x'"),
        ("id,label\nn1,mule\n", "labelled 'barber' in the graph"),
        ("id,label\n", "no rows"),
    ],
)
def test_a_wrong_support_table_is_told_by_name(run, folder, tmp_path, support, message):
    (tmp_path / "support.csv").write_text(support)
    code, err, session = run(folder, "--support", tmp_path / "support.csv")
    assert code == 2 and message in err and "support.csv" in err and session is None
    assert err.count("\n") <= 3


def test_a_folder_without_a_model_and_a_damaged_journal(run, folder, tmp_path):
    code, err, _ = run(tmp_path / "nowhere")
    assert code == 2 and "nowhere" in err
    (folder / JOURNAL).write_text("oops\n{}\n")
    code, err, _ = run(folder)
    assert code == 2 and "line 1 is damaged" in err and (folder / JOURNAL).read_text() == "oops\n{}\n"


def test_other_machines_are_let_in_only_when_it_is_said(run, folder):
    code, err, _ = run(folder, "--host", "0.0.0.0")
    assert code == 0 and "plain HTTP" in err
    assert "plain HTTP" not in run(folder)[1]


def test_people_have_names_that_differ(run, folder):
    assert run(folder, "--people", "ann,bob", "--twice", "0.5")[2].twice == 0.5
    for words, told in (
        (("--people", "ann,ann"), "every person needs a name of their own: 'ann', 'ann'"),
        (("--twice", "2"), "--twice 2 is not a share"),
    ):
        code, err, session = run(folder, *words)
        assert code == 2 and told in err and session is None


def test_a_port_that_is_taken(run, folder):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, err, _ = run(folder, "--port", taken.getsockname()[1])
    assert code == 2 and "choose another with --port" in err


def test_without_the_extra_the_message_says_how_to_get_it(run, folder, monkeypatch):
    for missing in ("uvicorn", "starlette.applications"):
        with monkeypatch.context() as without:
            without.setitem(sys.modules, missing, None)
            for name in ("server", "web"):
                without.delitem(sys.modules, f"fewnode.labelling.{name}")
            code, err, _ = run(folder)
            assert code == 2 and "pip install 'fewnode[label]'" in err


def test_labels_outlive_a_model_that_is_fitted_again(run, folder, home):
    run(folder, "--support", home / "support.csv")
    tables = {"edges": home / "edges.csv", "nodes": home / "nodes.csv"}
    FewShotClassifier("probe", k_shot=3).fit(**tables).save(folder, force=True)
    assert run(folder)[2].examples() == own_graph.examples()
