"""Whole numbers stay whole, and what is no number stays a name."""

import numpy as np
import pytest

from fewnode.errors import InputError
from fewnode.tables.read import Table, read_columns
from fewnode.tables.schema import kind_of, numbers

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def table(tmp_path, **columns):
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    return read_columns(tmp_path / "t.parquet")


def test_large_labels_with_gaps_do_not_fall_together(tmp_path):
    labels = [2**53, 2**53 + 1, None, 2**53 + 2, -(2**53) - 1]
    found = table(tmp_path, label=pa.array(labels, pa.int64())).text("label", "labels")
    assert found == ["" if value is None else str(value) for value in labels]


def test_small_labels_with_gaps_are_whole_numbers(tmp_path):
    assert table(tmp_path, label=pa.array([1, None, 3], pa.int64())).text("label", "labels") == ["1", "", "3"]


def test_infinite_ids_are_text_and_binary_ones_are_refused(tmp_path):
    assert table(tmp_path, id=[1.0, float("inf")]).text("id", "ids") == ["1", "inf"]
    with pytest.raises(InputError, match=r"not a readable Parquet file: .*not valid UTF8"):
        table(tmp_path, id=pa.array([b"\xff"], pa.binary()))


def test_a_file_with_nothing_but_an_index_is_refused(tmp_path):
    with pytest.raises(InputError, match="has an index but no columns"):
        table(tmp_path, __index_level_0__=[1, 2])


def test_an_underscore_makes_a_name_not_a_number():
    cells = np.array(["1_000", "2_000", "3_000"] * 3, dtype=object)
    assert kind_of(Table.of("t", {"x": cells}), "x") != "number"
    with pytest.raises(InputError, match="row 2, column 'x': '1_000' is not a number"):
        numbers(Table.of("t", {"x": np.array(["1", "1_000"], dtype=object)}), "x")
