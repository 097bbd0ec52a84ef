"""The supervised network: its head is scikit-learn's, its loss is of base nodes alone."""

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch.nn import functional as F

from fewnode.methods.gcn import GCN
from fewnode.tasks import draw_tasks
from oracles import gcn


def make(base: tuple[int, ...] = (0, 2)) -> GCN:
    torch.manual_seed(0)
    model = GCN(12, base_classes=base, hidden_channels=8, out_channels=6, batch_size=None).double().eval()
    model.inputs.float()  # as the features are
    model.prepare(gcn.small_graph())
    return model


def test_the_head_is_a_logistic_regression():
    graph, model = gcn.small_graph(), make()
    tasks = draw_tasks(graph.y, [0, 1, 2, 3], 3, 3, 4, 3)
    z = F.normalize(model.embed(graph), dim=-1).detach().numpy()
    got = model(graph, tasks).softmax(-1)
    for task in range(len(tasks)):
        judge = LogisticRegression(C=model.inverse_penalty, tol=1e-10, max_iter=10_000)
        judge.fit(z[tasks.support[task]], tasks.support_y[task])
        np.testing.assert_allclose(got[task].numpy(), judge.predict_proba(z[tasks.query[task]]), atol=1e-4)


def test_the_loss_is_the_mean_over_base_nodes():
    graph, model = gcn.small_graph(), make(base=(2, 0))
    logits = model.head(torch.relu(model.embed(graph)))
    terms = [-logits[v].log_softmax(0)[{2: 0, 0: 1}[int(graph.y[v])]] for v in range(40) if int(graph.y[v]) in (0, 2)]
    tasks = draw_tasks(graph.y, [0, 2], 2, 1, 1, 1)
    torch.testing.assert_close(model.loss(graph, tasks), sum(terms) / len(terms))


def test_a_batch_of_nodes_stands_for_all():
    graph, model = gcn.small_graph(), make()
    tasks = draw_tasks(graph.y, [0, 2], 2, 1, 1, 1)
    whole = model.loss(graph, tasks)
    model.batch_size = 7
    torch.manual_seed(0)
    parts = torch.stack([model.loss(graph, tasks) for _ in range(200)])
    assert parts.std() > 0
    torch.testing.assert_close(parts.mean(), whole, rtol=0.02, atol=0)


def test_labels_outside_the_base_classes_and_the_tasks_change_nothing():
    graph, model = gcn.small_graph(), make()
    hidden = graph.with_labels(torch.where(graph.y % 2 == 0, graph.y, -1))
    losses = [model.loss(g, draw_tasks(graph.y, [0, 2], 2, k, 1, 1, k)) for g, k in ((graph, 1), (hidden, 2))]
    assert torch.equal(*losses)
