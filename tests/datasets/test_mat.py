"""A damaged MATLAB file is refused, whatever SciPy makes of it."""

import numpy as np
import pytest
from scipy import io
from scipy import sparse as sp

from fewnode.datasets import mat
from fewnode.errors import InputError


def test_arrays_and_the_parts_of_sparse_matrices_come_back(tmp_path):
    words = sp.random(4, 6, 0.5, format="csc", random_state=0)
    io.savemat(tmp_path / "a.mat", {"Index": np.arange(4), "Words": words, "other": 1})
    found = mat.load_mat(tmp_path / "a.mat", ("Index", "Words", "missing"))
    assert set(found) == {"Index", *(f"Words_{part}" for part in ("data", "indices", "indptr", "shape"))}
    np.testing.assert_array_equal(found["Index"].ravel(), np.arange(4))
    parts = found["Words_data"], found["Words_indices"], found["Words_indptr"]
    again = sp.csc_matrix(parts, shape=tuple(found["Words_shape"]))
    np.testing.assert_array_equal(again.toarray(), words.toarray())


def test_what_is_no_matlab_file_is_named_with_the_reason(tmp_path):
    (tmp_path / "a.mat").write_bytes(b"not a file of that kind" * 20)
    with pytest.raises(InputError, match=r"a\.mat is not a readable MATLAB 5 file \(.+\)"):
        mat.load_mat(tmp_path / "a.mat", ("Index",))


def test_text_is_no_array_of_numbers(tmp_path):
    io.savemat(tmp_path / "a.mat", {"Index": "text"})
    with pytest.raises(InputError, match="Index is no array of numbers"):
        mat.load_mat(tmp_path / "a.mat", ("Index",))


def test_a_crash_of_the_reader_is_not_ours(tmp_path, monkeypatch):
    monkeypatch.setattr(mat.sys, "executable", "/bin/false")
    with pytest.raises(InputError, match=r"its reader crashed"):
        mat.load_mat(tmp_path / "a.mat", ("Index",))
