"""What changed between two tables of predictions, on tables written by hand."""

import pytest

from fewnode import InputError
from fewnode.report.changes import compare_predictions
from fewnode.tables import write_columns

BEFORE = {"a": ("x", 0.95), "b": ("x", 0.8), "c": ("y", 0.6), "d": ("y", 0.999), "e": ("=z", 0.4)}
AFTER = {"b": ("y", 0.7), "a": ("y", 0.9), "c": ("y", 0.5), "d": ("x", 0.3), "f": ("x", 0.9), "-g": ("x", 0.9)}


def written(folder, name, rows):
    labels, shares = zip(*rows.values(), strict=True)
    columns = {"id": list(rows), "label": list(labels), "probability": list(shares), "margin": [0.1] * len(rows)}
    write_columns(folder / name, columns)
    return folder / name


@pytest.fixture
def tables(tmp_path):
    return written(tmp_path, "before.csv", BEFORE), written(tmp_path, "after.parquet", AFTER)


def test_what_changed(tables):
    found = compare_predictions(*tables, top=2)
    assert (found["nodes"], found["changed"], found["added"], found["gone"]) == (4, 3, ["f", "-g"], ["e"])
    assert found["moves"] == [{"before": "x", "after": "y", "nodes": 2}, {"before": "y", "after": "x", "nodes": 1}]
    assert [row["id"] for row in found["surest"]] == ["a", "b"], "d is surer before, but not after"
    classes = {row["label"]: (row["before"], row["after"]) for row in found["classes"]}
    assert classes == {"x": (2, 3), "y": (2, 3), "=z": (1, 0)}
    bands = {band["from"]: (band["nodes"], band["agreement"]) for band in found["agreement"]}
    assert bands == {0.0: (0, None), 0.5: (1, 1.0), 0.7: (1, 0.0), 0.9: (1, 0.0), 0.99: (1, 0.0)}


def test_a_table_beside_itself(tables):
    found = compare_predictions(tables[0], tables[0])
    assert (found["changed"], found["added"], found["gone"], found["moves"], found["surest"]) == (0, [], [], [], [])


def test_other_files_are_refused(tables, tmp_path):
    other = tmp_path / "other.csv"
    for text, told in (
        ("id,label\na,x\n", "it lacks probability"),
        ("id,label,probability\na,x,0.5\na,y,0.5\n", "node 'a' is listed twice"),
        ("id,label,probability\na,x,much\n", "'much' is not a number"),
    ):
        other.write_text(text)
        with pytest.raises(InputError, match=told):
            compare_predictions(tables[0], other)
