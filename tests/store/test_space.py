"""Arrays on disk, and a bound on memory."""

import errno

import numpy as np
import pytest
import torch

from fewnode import InputError
from fewnode import store as spaces
from fewnode.store import (
    Space,
    StoredNames,
    format_bytes,
    name_arrays,
    name_hashes,
    parsed_memory,
    write_name_index,
)


def test_an_array_is_there_once_it_is_whole(tmp_path):
    space = Space(tmp_path, 1 << 30)
    with pytest.raises(RuntimeError, match="stopped"), space.writing("a", (3, 2), torch.float32):
        raise RuntimeError("stopped")
    assert not space.has("a")
    space.write("a", torch.arange(6.0).view(3, 2))
    assert space.open("a").tolist() == [[0, 1], [2, 3], [4, 5]]
    space.release()
    assert space.open("a")[1].tolist() == [2, 3]
    space.drop("a")
    assert not space.has("a")


def test_a_damaged_array_is_named(tmp_path):
    space = Space(tmp_path, 1 << 30)
    space.write("a", torch.ones(100))
    space.path("a").write_bytes(space.path("a").read_bytes()[:100])
    with pytest.raises(InputError, match=r"a.npy is damaged"):
        space.open("a")


@pytest.mark.parametrize("at", [200, -33, -1])  # a number, the last one, the hash itself
def test_a_flipped_bit_in_an_array_is_found_when_it_is_opened(tmp_path, at):
    space = Space(tmp_path, 1 << 30)
    space.write("a", torch.ones(100))
    with space.writing("b", (100, 1), torch.float32) as out:
        out.fill_(2)
    for name in ("a", "b"):
        assert spaces._identity(space.path(name)) in spaces._CHECKED
        content = bytearray(space.path(name).read_bytes())
        content[at] ^= 1
        space.path(name).write_bytes(content)
        with pytest.raises(InputError, match=rf"{name}.npy is damaged: .* Remove it; it will be made again"):
            space.open(name)
        content[at] ^= 1
        space.path(name).write_bytes(content)
        assert float(space.open(name).mean()) in (1, 2)


def test_blocks_of_columns_fit_into_the_memory(tmp_path):
    n = 1 << 20
    whole = Space(tmp_path, 64 << 30).columns(n, 128, 4)
    assert whole == [slice(0, 64), slice(64, 128)]  # longer rows would take more time for each column
    small = Space(tmp_path, Space.least(n, 4 * 40))
    blocks = small.columns(n, 128, 4)
    assert [b.start for b in blocks] == [0, 32, 64, 96] and blocks[-1].stop == 128
    with pytest.raises(
        InputError, match=r"300MB of memory is too little for 1,048,576 nodes: .* Give memory= \S+ or more"
    ):
        Space(tmp_path, 300 << 20).columns(n, 128, 4)


def test_a_full_disk_says_how_much_is_missing(tmp_path):
    with pytest.raises(InputError, match=r"free, .* are needed: .* are missing"):
        Space(tmp_path, 1 << 30).writing("a", (1 << 50,), torch.float32).__enter__()


def test_a_disk_that_fills_up_ends_the_work_with_a_message(tmp_path, monkeypatch):
    def full(*args: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    space = Space(tmp_path, 1 << 30)
    monkeypatch.setattr("os.posix_fallocate", full, raising=False)
    with pytest.raises(OSError, match=r"No space left on the disk: .*'.*a\.npy'"):
        space.write("a", torch.ones(10))
    assert not space.has("a")


@pytest.mark.parametrize(("text", "size"), [("4GB", 4 << 30), ("512mb", 512 << 20), ("1.5g", 3 << 29), ("1000", 1000)])
def test_sizes_are_read(text, size):
    assert parsed_memory(text) == size


def test_no_size_is_refused():
    for text in ("much", "-5", "1.2.3GB", "GB", ""):
        with pytest.raises(InputError, match=f"'{text}': write a size, for example 4GB"):
            parsed_memory(text)
    assert format_bytes(3 << 29) == "1.5GB" and format_bytes(10 << 20) == "10MB"


def test_rows_are_made_by_the_same_chunks_in_memory_and_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(spaces, "CHUNK", 1)
    x = torch.randn(1000, 3)
    asked = []

    def make(rows: slice) -> torch.Tensor:
        asked.append(rows)
        return 2 * x[rows]

    assert Space().by_rows("y", (1000, 3), torch.float32, make).equal(2 * x) and len(asked) == 4
    assert Space().by_rows("y", (0, 3), torch.float32, make).shape == (0, 3)
    whole = asked[:4]
    asked[:] = []
    space = Space(tmp_path, 1 << 30)
    assert space.by_rows("y", (1000, 3), torch.float32, make).equal(2 * x) and asked == whole  # as in memory
    assert space.by_rows("y", (1000, 3), torch.float32, make).equal(2 * x) and asked == whole  # it was there
    monkeypatch.setattr(spaces, "CHUNK", 4 * 500 * 10)
    space.by_rows("z", (1000, 3), torch.float32, make, width=10)
    assert len(asked) == 4 + 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.half])
def test_a_matrix_is_made_by_blocks_of_columns(tmp_path, dtype):
    x, asked = torch.randn(600, 100), []

    def make(columns: slice) -> torch.Tensor:
        asked.append(columns)
        return x[:, columns]

    small = Space(tmp_path, Space.least(600, 3 * 40))
    for space in (Space(), small, small):  # the second time it is there
        assert space.by_columns("x", (600, 100), dtype, make, 3).equal(x.to(dtype))
    assert asked == [slice(0, 100), *small.columns(600, 100, 3)] and len(asked) == 5


def test_without_a_folder_arrays_are_held_in_memory():
    x, space = torch.randn(600, 10), Space()
    space.write("x", x)
    assert space.has("x") and space.open("x") is x and space.columns(600, 10, 2) == [slice(0, 10)]
    space.drop("x")
    assert not space.has("x") and not space.held and not space.within("inside").has("x")


def test_names_are_found_without_reading_them_all(tmp_path):
    names = ["ann", "bob", "", "a\N{LATIN SMALL LETTER E WITH ACUTE}", "ann2", *(f"n{i}" for i in range(300))]
    arrays = name_arrays(names)
    stored = StoredNames(arrays["name_ends"], arrays["name_letters"])
    assert list(stored) == names and len(stored) == len(names) and stored[-1] == "n299" and stored[1:3] == ("bob", "")
    assert stored.find(["bob", "zoe", names[3]]) == {"bob": 1, names[3]: 3}
    assert stored.find(names) == {name: i for i, name in enumerate(names)}
    with pytest.raises(IndexError):
        stored[len(names)]
    assert np.array_equal(arrays["name_ends"][:3], [0, 3, 6])
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    write_name_index(tmp_path)
    mapped = StoredNames.of({path.stem: np.load(path, mmap_mode="r") for path in tmp_path.iterdir()}, "name")
    assert isinstance(mapped.arrays[3], np.memmap) and mapped.find(names) == stored.find(names)
    one_hash = StoredNames(*mapped.arrays[:2], np.arange(len(names)), np.full(len(names), name_hashes(["n7"])[0]))
    assert one_hash.find(["n7", "n8"]) == {"n7": names.index("n7")}  # all others have the same hash


def test_arrays_are_on_the_disk_before_they_have_a_name(tmp_path, monkeypatch):
    synced: list[int] = []
    monkeypatch.setattr("fewnode.files.os.fsync", synced.append)
    Space(tmp_path, 1 << 30).write("view", torch.ones(3))
    assert len(synced) == 1
