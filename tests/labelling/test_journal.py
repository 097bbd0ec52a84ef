"""The journal: what was said is on the disk, a cut-off end goes, and only one process writes."""

import json
import os
from pathlib import Path

import pytest

import forked
from fewnode.errors import InputError
from fewnode.labelling.journal import JOURNAL, Journal


def lines(folder):
    return (folder / JOURNAL).read_text().splitlines()


def test_what_was_written_is_read_again(tmp_path):
    journal = Journal(tmp_path, "g")
    entry = {"do": "class", "name": "木\u202e", "text": "half of a pair: \ud800"}
    journal.append(entry)
    journal.close()
    again = Journal(tmp_path, "g")
    assert again.entries == [entry] and again.notes == []
    assert json.loads(lines(tmp_path)[0]) == {"fewnode": "labels", "format": 1, "graph": "g"}
    again.close()
    other = Journal(tmp_path, "another graph")
    assert "has changed since" in other.notes[0] and len(other.entries) == 1
    other.close()


@pytest.mark.parametrize("tail", [b'{"do": "cl', b"\x00\x00"])
def test_a_line_that_a_kill_cut_off_was_confirmed_to_nobody_and_goes(tmp_path, tail):
    journal = Journal(tmp_path, "g")
    journal.append({"do": "class", "name": "a"})
    journal.close()
    with (tmp_path / JOURNAL).open("ab") as file:
        file.write(tail)
    again = Journal(tmp_path, "g")
    assert again.entries == [{"do": "class", "name": "a"}]
    again.append({"do": "class", "name": "b"})
    again.close()
    assert [json.loads(line).get("name") for line in lines(tmp_path)] == [None, "a", "b"]


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("damaged", ['oops\n{"do": "undo"}\n', "[]\n"])
def test_damage_is_named_by_its_line(tmp_path, damaged, read_only):
    (tmp_path / JOURNAL).write_text('{"fewnode": "labels"}\n' + damaged)
    before = (tmp_path / JOURNAL).read_bytes()
    with pytest.raises(InputError, match="line 2 is damaged"):
        Journal(tmp_path, "g", read_only=read_only)
    assert (tmp_path / JOURNAL).read_bytes() == before


def test_a_line_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    journal = Journal(tmp_path, "g")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        journal.append({"do": "class", "name": "a"})
    monkeypatch.undo()
    journal.append({"do": "class", "name": "b"})
    journal.close()
    assert [json.loads(line).get("name") for line in lines(tmp_path)] == [None, "b"]


def hold(folder: Path, pipe) -> None:
    journal = Journal(folder, "g")
    journal.announce("http://127.0.0.1:1/")
    pipe.send("open")
    pipe.recv()  # hold it until killed


def test_a_second_process_is_refused_by_name_until_the_first_is_gone(tmp_path):
    here, there = forked.CONTEXT.Pipe()
    first = forked.start(hold, tmp_path, there)
    assert here.recv() == "open"
    with pytest.raises(InputError, match=rf"process {first.pid} at http://127.0.0.1:1/: use that window"):
        Journal(tmp_path, "g")
    first.kill()
    first.join()
    Journal(tmp_path, "g").close()
