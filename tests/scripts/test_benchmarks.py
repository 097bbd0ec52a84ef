"""What benchmarks measure, written out, and what the program says of their rows."""

import json
import re
import sys
from pathlib import Path

import pytest
import torch

from fewnode.tables.encode import HINT

ROOT = Path(__file__).parents[2]


@pytest.fixture
def open_world(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    yield pytest.importorskip("open_world")
    del sys.modules["open_world"]


def test_too_sure_and_too_unsure_do_not_cancel_in_the_calibration_error(open_world):
    # Of four rows at 0.9 two are right (0.4 too sure), of four at 0.6 all are (0.4 too unsure).
    p = torch.tensor([[0.9, 0.1]] * 4 + [[0.6, 0.4]] * 4)
    y = torch.tensor([0, 0, 1, 1, 0, 0, 0, 0])
    assert open_world.expected_calibration_error(p, y) == pytest.approx(0.4)


def test_a_text_encoder_is_worth_what_the_note_says():
    rows = map(json.loads, (ROOT / "benchmarks/rows/text.jsonl").read_text(encoding="utf-8").splitlines())
    found: dict[str, dict[tuple[str, int, int], float]] = {"none": {}, "potion-base-8M": {}}
    for row in rows:
        if row["what"] == "accuracy" and row["classes"] == "novel" and row["text encoder"] in found:
            found[row["text encoder"]][row["graph"], row["split"], row["shots"]] = row["accuracy"]
    words, vectors = found.values()
    gains = [round(100 * (accuracy - words[key])) for key, accuracy in vectors.items()]
    assert (str(min(gains)), str(max(gains))) == re.search(r"worth (\d+) to (\d+) points", HINT).groups()
