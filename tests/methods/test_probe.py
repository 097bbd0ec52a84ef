import os
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from fewnode import evaluate, fit, load_dataset, random_split
from fewnode.graph.operators import normalized_adjacency
from fewnode.tasks import draw_tasks

HERE = Path(os.environ.get("FEWNODE_DATA", "")) if os.environ.get("FEWNODE_DATA") else None


def test_probe_is_smoothing_then_the_nearest_mean(tiny):
    graph, split = tiny
    model = fit("probe", graph)
    tasks = draw_tasks(graph.y, split.novel, 3, 2, 4, 5, 0)
    z = F.normalize(normalized_adjacency(graph).smooth(model.features(graph)), dim=-1)
    scores = model(graph, tasks)
    for task in range(5):
        for position in range(3):
            mean = z[tasks.support[task][tasks.support_y[task] == position]].mean(0)
            expected = z[tasks.query[task]] @ F.normalize(mean, dim=0)
            torch.testing.assert_close(scores[task, :, position], expected)


@pytest.mark.parametrize("head", ["mean", "ridge", "logistic"])
def test_every_head_beats_chance_and_smoothing_helps(tiny, head):
    graph, split = tiny
    smooth, raw = (
        evaluate(fit("probe", graph, head=head, smooth=on), graph, split.novel, n_way=4, k_shot=1)
        for on in (True, False)
    )
    assert smooth.accuracy > raw.accuracy > 0.3


@pytest.mark.skipif(HERE is None, reason="FEWNODE_DATA does not name a folder of real graphs")
@pytest.mark.parametrize(("name", "one", "five"), [("cora_full_knnfeat", 72.5, 87.5)])
def test_probe_reaches_its_known_accuracy(name, one, five):
    if not (HERE / f"{name}.npz").exists():
        pytest.skip(f"FEWNODE_DATA has no {name}.npz")
    graph, split = load_dataset(name)
    model = fit("probe", graph)
    assert 100 * evaluate(model, graph, split.novel, k_shot=1).accuracy > one - 1
    assert 100 * evaluate(model, graph, split.novel, k_shot=5).accuracy > five - 1


@pytest.mark.skipif(HERE is None, reason="FEWNODE_DATA does not name a folder of real graphs")
@pytest.mark.parametrize("name", ["email_eu_core_nofeat", "lastfm_asia_nofeat", "amazon_electronics_nofeat"])
def test_structural_features_beat_chance_well(name):
    if not (HERE / f"{name}.npz").exists():
        pytest.skip(f"FEWNODE_DATA has no {name}.npz")
    graph, _ = load_dataset(name)
    classes = random_split(graph.y, min_size=15).novel
    assert evaluate(fit("probe", graph), graph, classes, k_shot=5).accuracy > 0.35
