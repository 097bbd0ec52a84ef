"""Corrected class means against a loop over queries, and what declares that queries influence each other."""

import pytest
import torch
from torch.nn import functional as F

from fewnode import FewShotClassifier, draw_tasks, fit
from fewnode.methods.rectified import Rectified


@pytest.mark.parametrize("options", [{}, {"rounds": 1, "scale": 10.0, "shift": True}, {"rounds": 0}])
def test_means_are_corrected_by_every_query_with_its_probability(tiny, options):
    graph, split = tiny
    tasks = draw_tasks(graph.y, split.novel, 3, 2, 4, 2, 0)
    model = fit("rectified", graph, **options)
    z = model.embed(graph)
    found = model(graph, tasks)
    for t in range(2):
        supports = [z[tasks.support[t][tasks.support_y[t] == c]] for c in range(3)]
        queries = [z[q] for q in tasks.query[t]]
        if options.get("shift"):
            gap = torch.cat(supports).mean(0) - torch.stack(queries).mean(0)
            queries = [F.normalize(q + gap, dim=0) for q in queries]
        means = [rows.mean(0) for rows in supports]
        for _ in range(model.rounds):
            cosines = [torch.stack([F.cosine_similarity(q, mean, dim=0) for mean in means]) for q in queries]
            shares = [(model.scale * row).softmax(0) for row in cosines]
            weights = [sum(share[c] for share in shares) + len(supports[c]) for c in range(3)]
            sums = [sum(s[c] * q for s, q in zip(shares, queries, strict=True)) + supports[c].sum(0) for c in range(3)]
            means = [total / weight for total, weight in zip(sums, weights, strict=True)]
        expected = [[F.cosine_similarity(q, mean, dim=0) for mean in means] for q in queries]
        torch.testing.assert_close(found[t], torch.tensor(expected), atol=1e-5, rtol=1e-4)


def test_it_declares_that_queries_influence_each_other(tiny):
    graph, split = tiny
    assert Rectified.task_transductive
    tasks = draw_tasks(graph.y, split.novel, 3, 1, 4, 1, 0)
    model = fit("rectified", graph)
    alone = model(graph, type(tasks)(tasks.support, tasks.support_y, tasks.query[:, :1], None, 3))
    assert not torch.allclose(alone[:, 0], model(graph, tasks)[:, 0])


def test_predictions_for_a_users_graph_warn_that_they_depend_on_the_batch(tiny):
    graph, split = tiny
    known = torch.where(torch.isin(graph.y, torch.tensor(split.base)), graph.y, -1)
    classifier = FewShotClassifier("rectified", k_shot=2).fit(graph.with_labels(known))
    nodes = {str(c): (graph.y == c).nonzero().flatten()[:2].tolist() for c in split.novel[:2]}
    with pytest.warns(UserWarning, match="task-transductive: answers depend on which other nodes"):
        classifier.adapt(nodes, among="new").predict_proba()
