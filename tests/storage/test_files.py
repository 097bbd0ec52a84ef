import json
import os

import numpy as np
import pytest
import torch
from safetensors import safe_open

from fewnode import files as storage
from fewnode.errors import InputError
from fewnode.files import parse_json, write_tensors


def test_atomic_write_replaces_only_when_all_is_written(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("old")
    with pytest.raises(RuntimeError), storage.atomic_write(file, "w") as out:
        out.write("half")
        raise RuntimeError
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]
    with storage.atomic_write(file, "w") as out:
        out.write("new")
    assert file.read_text() == "new"


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    file = tmp_path / "a.json"
    storage.write_json(file, {"a": 1})

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        storage.write_json(file, {"a": 2})
    assert json.loads(file.read_text()) == {"a": 1}
    assert list(tmp_path.iterdir()) == [file]


def test_npz_round_trip_is_deterministic(tmp_path):
    arrays = {"a": np.arange(5), "names": np.array(["x", "ß"])}
    for name in ("one.npz", "two.npz"):
        storage.write_npz(tmp_path / name, arrays)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    read = storage.read_npz(tmp_path / "one.npz")
    assert read.keys() == arrays.keys() and all((read[key] == arrays[key]).all() for key in arrays)


def test_broken_archives_are_named(tmp_path):
    good = tmp_path / "good.npz"
    storage.write_npz(good, {"a": np.arange(1000)})
    cut = tmp_path / "cut.npz"
    cut.write_bytes(good.read_bytes()[:-40])
    empty = tmp_path / "empty.npz"
    empty.touch()
    text = tmp_path / "text.npz"
    text.write_text("not an archive")
    for file, words in ((cut, "truncated"), (empty, "0 bytes"), (text, "not a readable"), (tmp_path / "no", "no file")):
        with pytest.raises(InputError, match=words) as error:
            storage.read_npz(file)
        assert str(file) in str(error.value)


def test_objects_in_an_archive_are_refused(tmp_path):
    np.savez(tmp_path / "evil.npz", a=np.array([{"a": 1}], dtype=object))
    with pytest.raises(InputError, match="not a readable"):
        storage.read_npz(tmp_path / "evil.npz")


def test_nan_is_not_json(tmp_path):
    with pytest.raises(ValueError):
        storage.write_json(tmp_path / "a.json", {"a": float("nan")})
    assert not (tmp_path / "a.json").exists()


def test_a_damaged_json_is_named():
    with pytest.raises(InputError, match=r"a.json is not a JSON file"):
        parse_json(json.dumps({"a": 1})[:-1].encode(), dict, "a.json")


def test_tensors_appear_whole_for_everybody_to_read(tmp_path, monkeypatch):
    path = tmp_path / "part.safetensors"
    write_tensors(path, {"a": torch.arange(3).expand(2, 3)}, {"kind": "test"})
    with safe_open(path, "pt") as file:
        assert file.get_tensor("a").tolist() == [[0, 1, 2]] * 2 and file.metadata() == {"kind": "test"}
    assert path.stat().st_mode & 0o777 == 0o666 & ~storage._umask()
    monkeypatch.setattr("safetensors.torch.save_file", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_tensors(path, {"a": torch.zeros(1)})
    assert [file.name for file in tmp_path.iterdir()] == ["part.safetensors"]
