"""What the command line does with a place it cannot write to, and with names that would be more than names."""

import argparse
import json
import os
from pathlib import Path

import pytest

import own_graph
from fewnode import cli
from fewnode import files as folders
from fewnode.cli.output import emit, printable, say, texts

UGLY = "[/x] :smile: \x1b[31mred\x07 \u202e \ud800"


def test_names_are_shown_as_they_are_and_never_as_markup_or_escape_sequences(capsys):
    document = {"path": UGLY, "list": [UGLY], UGLY: 1}
    out = texts().from_string("{{ path }}\n").render(document)
    say(UGLY)
    err = capsys.readouterr().err
    assert out == err == "[/x] :smile: \\x1b[31mred\\x07 \\x202e \\xd800\n"
    emit(argparse.Namespace(json=True, started=0.0), document, "report")
    text = capsys.readouterr().out
    assert json.loads(text).items() > document.items() and text.isprintable() is False and "\x1b" not in text
    assert printable("a\tb\n") == "a\tb\n"
    table = texts().from_string("{% filter table %}\n{{ name }} | >n\n{{ name }} | 3\n{% endfilter %}")
    lines = [line.split() for line in table.render(name=UGLY).splitlines()]
    assert lines[0][:-1] == lines[1][:-1] == err.split() and [line[-1] for line in lines] == ["n", "3"]


def test_a_complaint_holds_no_escape_sequences(capsys):
    assert cli.main(["evaluate", "no\x1b[31mwhere"]) == 2
    err = capsys.readouterr().err
    assert "\x1b" not in err and "no\\x1b[31mwhere does not exist" in err


@pytest.mark.parametrize("command", ["train", "fit", "predict"])
def test_a_place_that_cannot_be_written_is_told_before_the_work(command, tmp_path, capsys, monkeypatch):
    own_graph.write_tables(tmp_path)
    # as for a read-only folder; root may write anywhere
    monkeypatch.setattr(folders.os, "access", lambda path, mode: mode == os.F_OK and Path(path).exists())
    tables = ["--edges", str(tmp_path / "edges.csv"), "--nodes", str(tmp_path / "nodes.csv")]
    words = {
        "train": ["train", "probe", "wordnet", "--out", str(tmp_path / "new" / "m")],
        "fit": ["fit", *tables, "--out", str(tmp_path / "new" / "m")],
        "predict": ["predict", "m", "--support", "s.csv", "--out", str(tmp_path / "new" / "p.csv")],
    }
    before = sorted(tmp_path.iterdir())
    assert cli.main(words[command]) == 2
    err = capsys.readouterr().err
    assert f"cannot be written: {tmp_path} may not be written to; choose another place" in err
    assert sorted(tmp_path.iterdir()) == before


def test_a_file_where_a_folder_should_be_is_named(tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    assert cli.main(["train", "probe", "wordnet", "--out", str(tmp_path / "file" / "m")]) == 2
    assert "is a file, not a folder" in capsys.readouterr().err and Path(tmp_path / "file").read_text() == "mine"
