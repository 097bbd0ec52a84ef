"""What the pages print from a benchmark's rows is what the benchmark says, and its short cut changes nothing."""

import importlib.util
from pathlib import Path

import pytest
import torch

import fewnode
from fewnode.evaluation import predict_scores

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def fresh_splits():
    spec = importlib.util.spec_from_file_location("fresh_splits", ROOT / "benchmarks/tent_fresh_splits.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_of_fresh_splits_is_the_one_on_the_page(fresh_splits):
    assert fresh_splits.table() in (ROOT / "docs/tent.md").read_text(encoding="utf-8")


def test_looks_made_once_give_the_scores_of_the_default_method(fresh_splits):
    graph, split = fewnode.planted(400, 12, features=60, tail=0.3, seed=2)
    tasks = fewnode.draw_tasks(graph.y, split.novel, 2, 2, 3, 10, 0)
    how = {"n_way": 2, "k_shot": 2, "n_query": 3, "steps": 5, "check_every": 5}
    for seed in (0, 1):  # the second training finds the looks of the first
        scores = []
        for method in ("tent", fresh_splits.Sharing):
            model = fewnode.fit(method, graph, split, seed=seed, **how)
            scores.append(predict_scores(model, graph, tasks))
        torch.testing.assert_close(*scores)
