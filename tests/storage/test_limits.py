"""What is refused because of its size, with the bound; and what is not a file at all."""

import os
import zipfile

import numpy as np
import pytest

from fewnode import Graph, Tasks, files
from fewnode.errors import InputError
from fewnode.files import readable


def test_an_archive_that_unpacks_to_far_too_much_is_refused_with_the_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "unpacked_bound", lambda file: 1 << 20)
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", bytes(8 << 20))
    with pytest.raises(InputError, match=r"bomb\.npz unpacks to 8,388,608 bytes; at most 1,048,576 are read"):
        files.read_npz(tmp_path / "bomb.npz")


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
        ({"directed": np.array([1, 2])}, "expected true or false"),
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
