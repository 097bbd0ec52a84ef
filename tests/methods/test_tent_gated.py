import pytest
import torch
from torch.nn import functional as F

from fewnode import Tasks, evaluate, fit, training_view
from fewnode.errors import InputError
from fewnode.nn.heads import class_means, cosine_scores
from fewnode.nn.looks import LOOKS, NEAR, WORDS
from fewnode.tasks import draw_tasks
from oracles import tent_gated as oracle


@pytest.fixture(scope="module")
def fitted(tiny):
    return fit("tent", *tiny, n_way=3, k_shot=2, steps=0, rank=32)


def test_scores_equal_the_loops_with_unequal_shots(tiny, fitted):
    graph, _ = tiny
    core = fitted.core
    torch.manual_seed(0)
    with torch.no_grad():
        saved = [weight.clone() for weight in core.parameters()]
        core.gate.copy_(torch.randn_like(core.gate))
        core.power.fill_(0.7)
    supports = {0: [3, 10, 11], 1: [40], 2: [100, 200]}
    tasks = Tasks([[3, 10, 11, 40, 100, 200]], [[0, 0, 0, 1, 2, 2]], [[5, 6]])
    plain = core.embed(graph)
    whitened = [core.whitening(number, plain[number]) for number in range(len(WORDS))]
    for at, query in enumerate((5, 6)):
        expected = oracle.score([*plain, *whitened], core.gate, 0.7, core.sharpness.item(), query, supports)
        torch.testing.assert_close(fitted(graph, tasks)[0, at], expected, atol=1e-4, rtol=1e-4)
    with torch.no_grad():
        for weight, value in zip(core.parameters(), saved, strict=True):
            weight.copy_(value)


def test_without_its_adaptations_it_is_the_centred_floor(tiny):
    graph, split = tiny
    off = dict.fromkeys(("node_adaptation", "class_adaptation", "task_adaptation"), False)
    model = fit("tent", graph, split, n_way=3, k_shot=2, steps=0, **off)
    tasks = draw_tasks(graph.y, split.novel, 3, 2, 4, 5, 0)
    z = model.core.looks(graph)[NEAR]
    means = class_means(z[tasks.support], tasks.support_y, 3)
    expected = cosine_scores(z[tasks.query], means) * z[tasks.query].norm(dim=-1, keepdim=True)
    torch.testing.assert_close(model(graph, tasks) / model.core.sharpness.exp(), expected, atol=1e-5, rtol=1e-4)


def test_the_gate_starts_at_the_floors_look(fitted):
    weight = torch.softmax(fitted.core.gate, 0)
    assert weight.argmax() == NEAR and weight[NEAR] > 0.6 and fitted.core.power.item() == 0


def test_the_loss_within_folds_is_written_out_by_restricted_tasks(tiny, fitted):
    """A task cut down to the classes of one fold, scored with that fold's whitening, has the same loss."""
    graph, split = tiny
    core, view = fitted.core, training_view(graph, split)
    tasks = draw_tasks(graph.y, split.base, 5, 2, 3, 1, 0)
    fold = core.whitening.fold_of_class[view.y]
    state = core.embed(view)
    got = core._loss_within_folds(view, state, core._plain(state, tasks), tasks)
    losses = []
    for f in fold[tasks.support[0]].unique().tolist():
        keep_s, keep_q = fold[tasks.support[0]] == f, fold[tasks.query[0]] == f
        support_y = tasks.support_y[0][keep_s].unique(return_inverse=True)[1]
        query_y = tasks.query_y[0][keep_q].unique(return_inverse=True)[1]
        part = Tasks(tasks.support[:, keep_s], support_y[None], tasks.query[:, keep_q], query_y[None])
        looks = [core.whitening(number, state[number], fold) for number in range(len(WORDS))]
        kernels = core._plain([*state, *looks], part) + [
            (look[part.support] @ look[part.support].mT, look[part.query] @ look[part.support].mT) for look in looks
        ]
        scores = core._match(kernels, part)  # power is 0, so that tau over more classes does not matter
        losses.append(F.cross_entropy(scores[0], part.query_y[0], reduction="sum"))
    torch.testing.assert_close(got, sum(losses) / tasks.query.shape[1], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("switch", ["node_adaptation", "class_adaptation", "task_adaptation"])
def test_each_adaptation_can_be_left_out(tiny, switch):
    graph, split = tiny
    model = fit("tent", graph, split, n_way=3, k_shot=2, steps=5, rank=32, **{switch: False})
    expected = {"node_adaptation": 2, "class_adaptation": len(LOOKS), "task_adaptation": len(LOOKS) + len(WORDS)}
    assert len(model.core.gate) == expected[switch]
    assert model.core.power.requires_grad == (switch != "task_adaptation")
    assert evaluate(model, graph, split.novel, n_way=3, k_shot=2).accuracy > 0.6


def test_training_leaves_the_floor_where_links_tell_more(tiny):
    graph, split = tiny
    model = fit("tent", graph, split, n_way=3, k_shot=1, seed=0)
    assert model.card["best"] >= model.card["curve"][0][1]
    assert not torch.equal(model.core.gate, torch.tensor(model.core.first))


def test_options_of_another_variant_are_refused(tiny):
    with pytest.raises(InputError, match=r"dropout=0.5 has no meaning for variant='gated'"):
        fit("tent", *tiny, n_way=3, k_shot=2, dropout=0.5)
