"""Files and folders: whole or not at all, refused by name if they are damaged or too large."""

import errno
import json
import os
import signal
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open

import forked
from fewnode import Graph, Tasks, files
from fewnode.errors import InputError
from fewnode.files import (
    Manifest,
    atomic_write,
    guarded,
    parse_json,
    read_toml,
    readable,
    unguarded,
    whole_folder,
    write_tensors,
)


def test_atomic_write_replaces_only_when_all_is_written(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("old")
    with pytest.raises(RuntimeError), files.atomic_write(file, "w") as out:
        out.write("half")
        raise RuntimeError
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]
    with files.atomic_write(file, "w") as out:
        out.write("new")
    assert file.read_text() == "new"


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    file = tmp_path / "a.json"
    files.write_json(file, {"a": 1})

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on the disk: .*'.*a\.json'"):
        files.write_json(file, {"a": 2})
    assert json.loads(file.read_text()) == {"a": 1}
    assert list(tmp_path.iterdir()) == [file]


def test_npz_round_trip_is_deterministic(tmp_path):
    arrays = {"a": np.arange(5), "names": np.array(["x", "ß"])}
    for name in ("one.npz", "two.npz"):
        files.write_npz(tmp_path / name, arrays)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    read = files.read_npz(tmp_path / "one.npz")
    assert read.keys() == arrays.keys() and all((read[key] == arrays[key]).all() for key in arrays)


def test_broken_archives_are_named(tmp_path):
    good = tmp_path / "good.npz"
    files.write_npz(good, {"a": np.arange(1000)})
    cut = tmp_path / "cut.npz"
    cut.write_bytes(good.read_bytes()[:-40])
    empty = tmp_path / "empty.npz"
    empty.touch()
    text = tmp_path / "text.npz"
    text.write_text("not an archive")
    for file, words in ((cut, "truncated"), (empty, "0 bytes"), (text, "not a readable"), (tmp_path / "no", "no file")):
        with pytest.raises(InputError, match=words) as error:
            files.read_npz(file)
        assert str(file) in str(error.value)


def test_objects_in_an_archive_are_refused(tmp_path):
    np.savez(tmp_path / "evil.npz", a=np.array([{"a": 1}], dtype=object))
    with pytest.raises(InputError, match="not a readable"):
        files.read_npz(tmp_path / "evil.npz")


def test_nan_is_not_json(tmp_path):
    with pytest.raises(ValueError):
        files.write_json(tmp_path / "a.json", {"a": float("nan")})
    assert not (tmp_path / "a.json").exists()


def test_a_damaged_json_is_named():
    with pytest.raises(InputError, match=r"a.json is not a JSON file"):
        parse_json(json.dumps({"a": 1})[:-1].encode(), dict, "a.json")


def test_tensors_appear_whole_for_everybody_to_read(tmp_path, monkeypatch):
    path = tmp_path / "part.safetensors"
    write_tensors(path, {"a": torch.arange(3).expand(2, 3)}, {"kind": "test"})
    with safe_open(path, "pt") as file:
        assert file.get_tensor("a").tolist() == [[0, 1, 2]] * 2 and file.metadata() == {"kind": "test"}
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask()
    monkeypatch.setattr("safetensors.torch.save_file", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_tensors(path, {"a": torch.zeros(1)})
    assert [file.name for file in tmp_path.iterdir()] == ["part.safetensors"]


def umask() -> int:
    current = os.umask(0)  # the only way to read it is to set it
    os.umask(current)
    return current


def write(target: Path, text: str) -> None:
    with whole_folder(target) as fresh:
        for name in ("a", "b"):
            with atomic_write(fresh / name, "w") as file:
                file.write(text)


def killed_at(target: Path, at: int) -> None:
    """Write, but die at the ``at``-th step that changes a folder or waits for the disk."""
    seen = 0

    def counted(call: Callable[..., object]) -> Callable[..., object]:
        def do(*args: object, **kwargs: object) -> object:
            nonlocal seen
            seen += 1
            if seen == at:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **kwargs)

        return do

    for name in ("replace", "rename", "fsync", "link", "unlink", "rmdir"):
        setattr(os, name, counted(getattr(os, name)))
    files._exchange = counted(files._exchange)
    write(target, "new")


def content(folder: Path) -> str:
    """What both files of a whole folder say."""
    manifest = Manifest.read(folder)
    one, other = (manifest.read_bytes(folder, name).decode() for name in ("a", "b"))
    assert one == other
    return one


def test_a_writer_killed_at_any_step_leaves_the_old_folder_or_the_new_one(tmp_path):
    target = tmp_path / "model"
    write(target, "old")
    (target / "notes.txt").write_text("mine")
    found, at, code = [], 0, -signal.SIGKILL
    while code == -signal.SIGKILL:
        at += 1
        code = forked.ended(killed_at, target, at)
        found.append(content(target))
        assert (target / "notes.txt").read_text() == "mine"
        write(target, "old")
        assert [path.name for path in tmp_path.iterdir()] == ["model"], "what the killed writer left is swept"
    assert code == 0 and at > 8 and found[0] == "old" and found[-1] == "new"


def test_without_the_exchange_the_old_folder_steps_aside_and_is_found_again(tmp_path, monkeypatch):
    target = tmp_path / "model"
    write(target, "old")
    monkeypatch.setattr(files, "_exchange", lambda *_: False)
    write(target, "new")
    assert content(target) == "new" and [path.name for path in tmp_path.iterdir()] == ["model"]
    target.rename(tmp_path / ".model.fewnode-abc.old")  # as a kill between the two steps leaves it
    with pytest.raises(InputError, match=r"rename .*\.model\.fewnode-abc\.old to .*model"):
        files.unchanged(target, dict)


def test_without_the_exchange_a_folder_of_somebody_else_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_exchange", lambda *_: False)
    for name in (".model.old", ".model.thesis.new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "thesis.txt").write_text("mine")
    for text in ("old", "new"):
        write(tmp_path / "model", text)
    assert content(tmp_path / "model") == "new"
    assert len(list(tmp_path.glob(".model.*/thesis.txt"))) == 2 and len(list(tmp_path.iterdir())) == 3


def test_a_replaced_folder_keeps_its_mode_and_a_new_one_follows_the_umask(tmp_path):
    write(tmp_path / "model", "old")
    assert (tmp_path / "model").stat().st_mode & 0o777 == 0o777 & ~umask()
    (tmp_path / "model").chmod(0o700)
    write(tmp_path / "model", "new")
    assert content(tmp_path / "model") == "new" and (tmp_path / "model").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_is_replaced_while_it_is_read_is_read_again(tmp_path):
    target, tries = tmp_path / "model", []
    write(target, "old")

    def read() -> str:
        manifest = Manifest.read(target)
        if not tries:
            write(target, "newer")
        tries.append(1)
        return manifest.read_bytes(target, "a").decode()

    assert files.unchanged(target, read) == "newer" and len(tries) == 2
    (target / "a").write_text("other")
    with pytest.raises(InputError, match="is damaged"):
        files.unchanged(target, lambda: Manifest.read(target).read_bytes(target, "a"))


def test_two_writers_at_once_do_not_sweep_each_other_away(tmp_path):
    target = tmp_path / "model"
    with whole_folder(target) as fresh:
        write(target, "quick")
        assert fresh.exists()
        for name in ("a", "b"):
            (fresh / name).write_text("slow")
    assert content(target) == "slow" and [path.name for path in tmp_path.iterdir()] == ["model"]


def test_an_error_half_way_leaves_nothing(tmp_path):
    write(tmp_path / "model", "old")
    with pytest.raises(OSError, match="No space"), whole_folder(tmp_path / "model") as fresh:
        (fresh / "a").write_text("half")
        raise OSError(28, "No space left on device")
    assert content(tmp_path / "model") == "old" and [path.name for path in tmp_path.iterdir()] == ["model"]


def test_the_folder_behind_a_link_is_replaced_not_the_link(tmp_path):
    write(tmp_path / "real", "old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink() and content(tmp_path / "real") == "new"


def test_what_a_killed_writer_of_a_file_left_is_swept(tmp_path):
    (tmp_path / ".a.txt.fewnode-xyz.new").write_text("half")
    (tmp_path / ".b.txt.fewnode-xyz.new").write_text("another's")
    with atomic_write(tmp_path / "a.txt", "w") as file:
        file.write("whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".b.txt.fewnode-xyz.new", "a.txt"]


def test_an_archive_that_unpacks_to_far_too_much_is_refused_with_the_bound(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in "abc":
            archive.writestr(f"{name}.npy", bytes(100 << 20))
    told = r"bomb\.npz holds 314,572,800 unpacked bytes or more; at most 268,435,456 are .* --raise-limits N"
    with pytest.raises(InputError, match=told):
        files.read_npz(tmp_path / "bomb.npz")
    monkeypatch.setenv("FEWNODE_RAISE_LIMITS", "2")
    files.check_unpacked(tmp_path / "bomb.npz")


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_pipes_and_devices_are_refused_not_waited_for(tmp_path, make):
    make(tmp_path / "a.npz")
    with pytest.raises(InputError, match="is a pipe or a device, not a file"):
        readable(tmp_path / "a.npz")


@pytest.mark.parametrize("name", ["a" * 300, "a\0b"])
def test_a_name_that_no_file_can_have_is_an_input_error(name):
    with pytest.raises(InputError):
        readable(name)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"y": np.array([0, 2**31 - 1])}, r"y\[1\] is 2147483647; a class id is 0..1048575"),
        ({"edge_index": np.array([[0], [2**40]])}, "there would be 1,099,511,627,777 nodes"),
        ({"x_shape": np.array([2, 2**40])}, "at most 16,777,216 columns"),
        ({"x_shape": np.array([2**40, 0])}, "expected 2 rows"),
        ({"x_indptr": np.array([0, 1, 9])}, "the parts of x do not fit together"),
        ({"x_indices": np.array([0, 7])}, "the parts of x do not fit together"),
        ({"x_data": np.ones(3)}, "do not fit together"),
        ({"directed": np.array([1, 2])}, "can only convert an array of size 1"),
        ({"y": np.array(3)}, "y is a single value"),
    ],
)
def test_an_archive_whose_arrays_disagree_is_named(tmp_path, arrays, words):
    whole = {
        "edge_index": np.array([[0], [1]]), "y": np.array([0, 1]), "x_data": np.ones(2), "x_indices": np.array([0, 1]),
        "x_indptr": np.array([0, 1, 2]), "x_shape": np.array([2, 2]),
    }  # fmt: skip
    if "edge_index" in arrays:
        whole = {}
    np.savez(tmp_path / "own.npz", **(whole | arrays))
    with pytest.raises(InputError, match=words) as error:
        Graph.from_npz(tmp_path / "own.npz")
    assert "own.npz" in str(error.value)


@pytest.mark.parametrize("n_way", [np.array(2**40), np.array(0.5), np.array([1, 2])])
def test_a_pool_of_tasks_that_cannot_be_is_named(tmp_path, n_way):
    ids = np.zeros((1, 2), np.int64)
    np.savez(tmp_path / "pool.npz", support=ids, support_y=ids, query=ids, n_way=n_way)
    with pytest.raises(InputError, match=r"pool\.npz"):
        Tasks.load(tmp_path / "pool.npz")


@dataclass
class Shape:
    rows: int
    names: tuple[str, ...] = ()


def test_a_document_becomes_what_it_must_be():
    assert parse_json(b'{"rows": 3, "names": ["a"], "more": 1}', Shape, "it") == Shape(3, ("a",))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"rows": "3"}', "rows: Expected `int`, got `str`"),
        (b'{"rows": 3, "names": "abc"}', "names: Expected `array`, got `str`"),
        (b"{}", "Object missing required field `rows`"),
        (b'{"rows": 3', "is not a JSON file"),
        (b"\xff", "is not a JSON file"),
        (b'{"rows": NaN}', "is not a JSON file"),
        (b'{"rows": 1e999}', "out of range"),
        (b'{"names": ' + b"[" * 1_000_000, "names"),
        (b'{"more": ' + b"[" * 1_000_000, "maximum recursion depth exceeded"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(data, words):
    with pytest.raises(InputError, match=words) as error:
        parse_json(data, Shape, "some.json")
    assert "some.json" in str(error.value)


def test_brackets_in_texts_do_not_count_as_nesting():
    assert parse_json(b'["' + b"[" * 1000 + b'\\"{"]', list[str], "it") == ["[" * 1000 + '"{']


@pytest.mark.parametrize("data", [b"a = ", b"\xff\xfe", b"a = " + b"[" * 100_000, b"a = 1\na = 2"])
def test_toml_that_is_none_is_named(tmp_path, data):
    (tmp_path / "grid.toml").write_bytes(data)
    with pytest.raises(InputError, match=r"grid\.toml is not a TOML file"):
        read_toml(tmp_path / "grid.toml")


@pytest.mark.parametrize("text", ["=1+1", "@sum(A1)", "-2+3+cmd|' /C calc'!D2", "+A1", "\t=1", "'=1"])
def test_what_a_spreadsheet_would_run_gets_an_apostrophe(text):
    assert guarded(text) == f"'{text}"


@pytest.mark.parametrize("value", ["-5", "+1.2", "-3e10", "-0.4 ≈", "n-1", "a=b", "", "it's", 5, -0.5, None])
def test_numbers_and_plain_texts_stay_as_they_are(value):
    assert guarded(value) == value


@given(st.text(alphabet="'=+-@a1\t", max_size=6))
def test_the_text_comes_back(text):
    assert guarded(text) == text or unguarded(guarded(text)) == text
    assert guarded(text)[:1] not in ("=", "@")


def test_a_full_disk_is_told_with_the_file_and_the_bytes_whichever_library_met_it(tmp_path):
    told = r"No space left on the disk: 1,000 bytes were written, more are needed, [\d,]+ are free"
    with pytest.raises(OSError, match=told) as caught, files.whole_folder(tmp_path / "m") as fresh:
        (fresh / "a").write_bytes(bytes(1000))
        raise RuntimeError("I/O error: No space left on device (os error 28)")  # safetensors' error is none of Python's
    assert caught.value.filename == str(tmp_path / "m") and caught.value.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []


def test_what_others_put_into_a_folder_stays_the_very_same(tmp_path):
    target = tmp_path / "model"
    write(target, "old")
    (target / "sub").mkdir()
    (target / "sub" / "a").write_text("mine")  # named as a file of ours, one level below
    (target / "loose").symlink_to("nowhere")
    with (target / "journal").open("w") as journal:
        write(target, "new")
        journal.write("appended meanwhile")
    assert content(target) == "new" and (target / "sub" / "a").read_text() == "mine"
    assert (target / "journal").read_text() == "appended meanwhile" and (target / "loose").is_symlink()
