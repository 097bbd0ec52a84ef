import numpy as np
import pytest
import torch
from torch.nn import functional as F

import fewnode
from fewnode import Graph, Tasks, evaluate, planted, training_view
from fewnode.methods import vantage as module
from fewnode.methods.base import cross_entropy
from fewnode.nn.heads import class_means, cosine_scores
from fewnode.nn.views import NEAR, VIEWS, WORDS
from fewnode.tasks import draw_tasks
from oracles import vantage as oracle

NEAREST = 3  # of 300 nodes make a pseudo-support


@pytest.fixture(scope="module")
def small():
    return planted(300, 12, features=60, difficulty=0.3, seed=1)


def fit(*args, lda_classes=2, **options):
    """With an LDA view of a few classes."""
    return fewnode.fit(*args, lda_classes=lda_classes, **options)


@pytest.fixture(scope="module")
def fitted(tiny):
    return fit("vantage", *tiny, n_way=3, k_shot=2, steps=0, rank=32)


def test_it_takes_many_classes_for_an_lda_view(tiny, fitted):
    graph, split = tiny
    without = fit("vantage", graph, split, n_way=3, k_shot=2, steps=0, rank=32, lda_classes=len(split.base) + 1)
    assert len(fitted.gate) == len(without.gate) + 1 and any("lda" in name for name in fitted.state_dict())
    assert without.lda is None and not any("lda" in name for name in without.state_dict())
    enough = fit("vantage", graph, split, n_way=3, k_shot=2, steps=0, rank=32, lda_classes=len(split.base))
    assert enough.lda is not None and float(enough.gate[-1]) == -2  # next to nothing before training


def test_thirty_base_classes_are_enough_for_an_lda_view():
    few, many = (module.Vantage(40, base_classes=tuple(range(n)), rank=8) for n in (29, 30))
    assert few.lda is None and many.lda is not None


def lda_view(model, graph):
    """The LDA view of all nodes, if the model has one."""
    words = model.embed(graph)[: len(WORDS)]
    return [] if model.lda is None else [model.lda(words, torch.arange(graph.num_nodes))]


@pytest.mark.parametrize("pseudo", [True, False])
def test_scores_equal_the_loops_with_unequal_shots(small, pseudo):
    model = fit("vantage", *small, n_way=3, k_shot=2, steps=0, rank=8, task_adaptation=pseudo)
    graph, core = small[0], model
    with torch.no_grad():
        core.gate.copy_(torch.randn(len(core.gate), generator=torch.Generator().manual_seed(0)))
        core.distance_weight.fill_(0.4)
    supports = {0: [3, 10, 11], 1: [40], 2: [50, 60, 61, 70]}  # not two: both are equally near to their mean
    tasks = Tasks([[3, 10, 11, 40, 50, 60, 61, 70]], [[0, 0, 0, 1, 2, 2, 2, 2]], [[5, 6]])
    plain = core.embed(graph)
    whitened = [core.whitening(number, plain[number]) for number in range(len(WORDS))]
    views = [view.double() for view in (*plain, *whitened, *lda_view(core, graph))]
    chosen = NEAREST if pseudo else 0
    for at, query in enumerate((5, 6)):
        learned = core.gate.double(), core.logit_scale.item(), core.distance_weight.item()
        expected = oracle.score(views, *learned, query, supports, chosen)
        torch.testing.assert_close(model(graph, tasks)[0, at].double(), expected, atol=1e-4, rtol=1e-4)


def test_a_large_graph_is_searched_by_a_sample_that_stays_the_same(tiny, fitted, monkeypatch):
    graph, split = tiny
    monkeypatch.setattr(module, "POOL", 100)
    tasks = draw_tasks(graph.y, split.novel, 3, 2, 4, 70, 0)  # more tasks than are scored at a time
    fresh = [graph.fresh() for _ in range(2)]
    with torch.no_grad():
        scores = [fitted(one, tasks) for one in fresh]
    torch.testing.assert_close(*scores)
    assert len(fresh[0].cache.get(module.SEARCHED, lambda: None, fitted.whitening.matrices).squares) == 100


def test_a_trained_gate_is_not_served_another_ones_pool(tiny):
    graph, split = tiny
    model = fit("vantage", graph, split, n_way=3, k_shot=1, steps=0)
    tasks = draw_tasks(graph.y, split.novel, 3, 1, 4, 5, 0)
    with torch.no_grad():
        before = model(graph, tasks)
        model.gate.add_(torch.arange(11.0))
        after = model(graph, tasks)
        torch.testing.assert_close(model(graph.fresh(), tasks), after, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(before, after)


def test_without_its_adaptations_it_is_the_centred_floor(tiny):
    graph, split = tiny
    off = dict.fromkeys(("node_adaptation", "class_adaptation", "task_adaptation"), False)
    model = fit("vantage", graph, split, n_way=3, k_shot=2, steps=0, **off)
    tasks = draw_tasks(graph.y, split.novel, 3, 2, 4, 5, 0)
    z = model.views(graph)[NEAR]
    means = class_means(z[tasks.support], tasks.support_y, 3)
    expected = cosine_scores(z[tasks.query], means) * z[tasks.query].norm(dim=-1, keepdim=True)
    torch.testing.assert_close(model(graph, tasks) / model.logit_scale.exp(), expected, atol=1e-5, rtol=1e-4)


def test_the_gate_starts_at_the_floors_look(fitted):
    weight = torch.softmax(fitted.gate, 0)
    assert weight.argmax() == NEAR and weight[NEAR] > 0.6


def test_the_loss_within_folds_is_written_out_by_restricted_tasks(tiny, fitted):
    """A task cut down to the classes of one fold, scored as that fold sees its classes, has the same loss."""
    graph, split = tiny
    core, view = fitted, training_view(graph, split)
    tasks = draw_tasks(graph.y, split.base, 5, 2, 3, 1, 0)
    fold = core.whitening.fold_of_class[view.y]
    state = core.views(view)
    plain = cross_entropy(explicit_scores(core, state, tasks), tasks)
    losses = []
    for f in fold[tasks.support[0]].unique().tolist():
        keep_s, keep_q = fold[tasks.support[0]] == f, fold[tasks.query[0]] == f
        support_y = tasks.support_y[0][keep_s].unique(return_inverse=True)[1]
        query_y = tasks.query_y[0][keep_q].unique(return_inverse=True)[1]
        part = Tasks(tasks.support[:, keep_s], support_y[None], tasks.query[:, keep_q], query_y[None])
        whitened = [F.normalize(state[v] @ core.whitening.fold_matrices[f, v], dim=1) for v in range(len(WORDS))]
        seen = torch.zeros(graph.num_nodes, core.lda.found)
        seen[core.lda.labelled] = core.lda.fold_rows
        scores = explicit_scores(core, [*state, *whitened, seen], part)
        losses.append(F.cross_entropy(scores[0], part.query_y[0], reduction="sum"))
    within = sum(losses) / tasks.query.shape[1]
    torch.testing.assert_close(core.loss(view, tasks), (plain + 2 * within) / 3, atol=1e-4, rtol=1e-4)


def explicit_scores(core, views, tasks):
    """Scores of queries by explicit vectors: gated views side by side."""
    lengths = torch.softmax(core.gate[: len(views)], 0).sqrt()
    joined = torch.cat([length * view for length, view in zip(lengths, views, strict=True)], 1)
    means = class_means(F.normalize(joined[tasks.support], dim=-1), tasks.support_y, tasks.n_way)
    cosine = joined[tasks.query] @ F.normalize(means, dim=-1).mT
    near = -torch.cdist(joined[tasks.query], means).square() / 2
    near = near + joined[tasks.query].square().sum(-1, keepdim=True) / 2  # the same for all classes
    part = torch.sigmoid(core.distance_weight)
    return ((1 - part) * cosine + part * near) * core.logit_scale.exp()


@pytest.mark.parametrize("switch", ["node_adaptation", "class_adaptation", "task_adaptation"])
def test_each_adaptation_can_be_left_out(tiny, switch):
    graph, split = tiny
    model = fit("vantage", graph, split, n_way=3, k_shot=2, steps=5, rank=32, **{switch: False})
    expected = {"node_adaptation": 3, "class_adaptation": len(VIEWS), "task_adaptation": len(VIEWS) + len(WORDS) + 1}
    assert len(model.gate) == expected[switch]
    assert model.task_adaptation == (switch != "task_adaptation")
    assert evaluate(model, graph, split.novel, n_way=3, k_shot=2).accuracy > 0.6


def test_training_leaves_the_floor_where_links_tell_more():
    model = fit("vantage", *planted(400, 12, homophily=0.2, seed=0), n_way=3, k_shot=2, seed=0)
    assert model.card.best > model.card.curve[0][1] + 0.05
    assert not torch.equal(model.gate, torch.tensor(model.first))


def test_the_part_of_the_distance_is_learned_and_belongs_to_the_task_level(tiny):
    model = fit("vantage", *tiny, n_way=3, k_shot=3, steps=3, rank=32)
    graph, split = tiny
    model.loss(training_view(graph, split), draw_tasks(graph.y, split.base, 4, 3, 3, 2, 0)).backward()
    assert model.distance_weight.grad.abs() > 0
    tasks = draw_tasks(graph.y, split.novel, 3, 3, 4, 5, 0)
    without = fit("vantage", *tiny, n_way=3, k_shot=3, steps=3, rank=32, task_adaptation=False)
    with torch.no_grad():
        for one, moves in ((model, True), (without, False)):
            before = one(graph, tasks)
            one.distance_weight.fill_(3.0)
            assert torch.equal(one(graph, tasks), before) != moves


def test_what_is_near_to_no_class_goes_to_the_one_that_is_spread_out(fitted):
    core, products = fitted, torch.tensor([[[0.3, 0.1]]])
    lengths = torch.tensor([[1.0, 0.4]])  # the supports of the first class agree, those of the second do not
    with torch.no_grad():
        for reach, expected in ((20.0, [-0.2, 0.02]), (-20.0, [0.3, 0.25])):
            core.distance_weight.fill_(reach)
            found = core._matched(products, lengths)[0, 0] / core.logit_scale.exp()
            torch.testing.assert_close(found, torch.tensor(expected))
        core.distance_weight.fill_(-2.0)


def test_the_penalty_on_the_gate_counts_how_far_it_has_moved(tiny, fitted):
    graph, split = tiny
    view, tasks = training_view(graph, split), draw_tasks(graph.y, split.base, 4, 2, 3, 2, 0)
    free = fit("vantage", *tiny, n_way=3, k_shot=2, steps=0, rank=32, gate_penalty=0.0)
    with torch.no_grad():
        moved = 3 * torch.randn(len(free.gate), generator=torch.Generator().manual_seed(0))
        held = fit("vantage", *tiny, n_way=3, k_shot=2, steps=0, rank=32)
        for model in (free, held):
            model.gate.add_(moved)
        added = held.loss(view, tasks) - free.loss(view, tasks)
    torch.testing.assert_close(added, 3e-4 * moved.square().sum(), atol=1e-5, rtol=1e-3)


def test_the_lda_view_holds_on_another_graph():
    graph, split = planted(900, 30, features=100, difficulty=0.5, seed=0)
    model = fit("vantage", graph, split, n_way=3, k_shot=3, steps=0, rank=32, inductive=True)
    with torch.no_grad():
        model.gate.fill_(-9.0)
        model.gate[-1] = 9.0  # the LDA view alone
    assert evaluate(model, graph, split.novel, n_way=3, k_shot=3, n_query=5).accuracy > 0.6


def test_types_of_edges_are_weighed_saved_and_loaded(tmp_path):
    base, split = fewnode.planted(200, 9, difficulty=0.95, homophily=0.9, avg_degree=4, seed=1)
    rng = np.random.default_rng(0)
    true = base.edge_arrays()["edge_index"]
    edges = np.hstack([true, rng.integers(0, base.num_nodes, (2, 4 * true.shape[1]))])
    kinds = np.repeat(["true", "noise"], [true.shape[1], 4 * true.shape[1]])
    graph = Graph.from_edges(edges, base.features_scipy(), base.y.numpy(), edge_type=kinds)
    plain = Graph.from_edges(edges, base.features_scipy(), base.y.numpy())
    shape = {"n_way": 3, "k_shot": 3}
    model = fewnode.fit("vantage", graph, split, **shape, rank=16, steps=40)
    assert model.card.context["edges"]["weights"]["noise"] < 0.2
    assert any("joins nodes of one class: true 1, noise" in note for note in model.card.notes)
    known = fewnode.evaluate(model, graph, split.novel, **shape, n_tasks=100)
    blind = fewnode.fit("vantage", plain, split, **shape, rank=16, steps=40)
    unknown = fewnode.evaluate(blind, plain, split.novel, **shape, n_tasks=100)
    assert known.accuracy > unknown.accuracy + 0.1
    again = fewnode.load(fewnode.save(model, tmp_path / "model"))
    assert fewnode.evaluate(again, graph.fresh(), split.novel, **shape, n_tasks=100).accuracy == known.accuracy


@pytest.mark.parametrize("features", [True, False])
def test_directions_leave_the_model_of_the_plain_graph(features):
    base, split = fewnode.planted(300, 10, seed=1)
    edges = base.edge_arrays()["edge_index"]
    edges = np.hstack([edges, edges[::-1, :40]])  # some edges have both directions
    x = base.features_scipy() if features else None
    graph, plain = (Graph.from_edges(edges, x, base.y.numpy(), directed=directed) for directed in (True, False))
    shape = {"n_way": 3, "k_shot": 3, "rank": 16, "steps": 10}
    model, same = (fewnode.fit("vantage", one, split, **shape) for one in (graph, plain))
    assert model.card.context == same.card.context
    for one, two in zip(model.state_dict().values(), same.state_dict().values(), strict=True):
        assert torch.equal(one, two)
    for one, two in zip(model.embed(graph), same.embed(plain), strict=True):
        assert torch.equal(one, two)


def test_types_drawn_at_random_change_next_to_nothing():
    base, split = fewnode.planted(300, 10, seed=1)
    edges = base.edge_arrays()["edge_index"]
    kinds = np.random.default_rng(0).integers(0, 3, edges.shape[1])
    typed = Graph.from_edges(edges, base.features_scipy(), base.y.numpy(), edge_type=kinds)
    shape = {"n_way": 3, "k_shot": 3}
    models = {graph: fewnode.fit("vantage", graph, split, **shape, rank=16, steps=10) for graph in (typed, base)}
    found = [fewnode.evaluate(model, graph, split, **shape).accuracy for graph, model in models.items()]
    assert found[0] == pytest.approx(found[1], abs=0.02)


def test_what_a_method_does_not_read_of_edges_is_noted():
    base, split = fewnode.planted(120, 6, seed=1)
    edges = base.edge_arrays()["edge_index"]
    more = {"edge_weight": np.ones(edges.shape[1]), "edge_type": np.zeros(edges.shape[1], int)}
    graph = Graph.from_edges(edges, base.features_scipy(), base.y.numpy(), **more)
    said = {name: fewnode.fit(name, graph, split, n_way=2, k_shot=2, steps=1).card.notes for name in ("gmeta", "gcn")}
    assert "gmeta does not use the edge weights and edge types; vantage does" in said["gmeta"]
    assert "gcn does not use the edge types; vantage does" in said["gcn"]
    assert "vantage does" not in " ".join(fewnode.fit("vantage", graph, split, n_way=2, k_shot=2, steps=1).card.notes)


def test_weights_drawn_by_lot_are_left_aside():
    base, split = fewnode.planted(200, 9, seed=1)
    edges = base.edge_arrays()["edge_index"]
    weights = np.random.default_rng(2).gamma(2, 1, edges.shape[1])
    graph = Graph.from_edges(edges, base.features_scipy(), base.y.numpy(), edge_weight=weights)
    weighted, plain = (fit("vantage", each, split, n_way=2, k_shot=2, steps=1, rank=8) for each in (graph, base))
    assert "the weights are not used" in weighted.card.notes[0]
    assert all(torch.equal(one, two) for one, two in zip(weighted.embed(graph), plain.embed(base), strict=True))


@pytest.fixture(scope="module")
def wordless():
    """A planted graph without its words, and how vantage is fitted there."""
    base, split = planted(300, 12, homophily=0.9, avg_degree=10, seed=1)
    graph = Graph.from_edges(base.edge_arrays()["edge_index"], y=base.y.numpy())
    return graph, split, {"n_way": 3, "k_shot": 3, "rank": 16, "steps": 0}


@pytest.mark.parametrize("lda_classes", [2, 30])
def test_without_words_half_of_a_node_is_its_position(wordless, lda_classes):
    graph, split, shape = wordless
    model = fit("vantage", graph, split, **shape, lda_classes=lda_classes)
    with torch.no_grad():
        model.gate.copy_(torch.randn(len(model.gate), generator=torch.Generator().manual_seed(0)))
    supports = {0: [3, 10, 11], 1: [40], 2: [50, 60, 61, 70]}
    tasks = Tasks([[3, 10, 11, 40, 50, 60, 61, 70]], [[0, 0, 0, 1, 2, 2, 2, 2]], [[5, 6]])
    *state, position = model.embed(graph)
    plain, lda = state, lda_view(model, graph)
    assert len(lda) == (lda_classes == 2)
    whitened = [model.whitening(number, plain[number]) for number in range(len(WORDS))]
    views = [view.double() for view in (*plain, *whitened, *lda, position)]
    shares = torch.cat([torch.softmax(model.gate, 0) / 2, torch.tensor([0.5])]).double()
    learned = shares.log(), model.logit_scale.item(), model.distance_weight.item()
    for at, query in enumerate((5, 6)):
        expected = oracle.score(views, *learned, query, supports, NEAREST)
        torch.testing.assert_close(model(graph, tasks)[0, at].double(), expected, atol=1e-4, rtol=1e-4)


def test_the_position_belongs_to_the_node_level_of_graphs_without_words(wordless, fitted):
    graph, split, shape = wordless
    whole, *without = (
        fit("vantage", graph, split, **shape, **more, lda_classes=30)
        for more in ({}, {"positional_view": False}, {"node_adaptation": False})
    )
    assert whole.positional and not fitted.positional and not any(model.positional for model in without)
    assert [len(model.embed(graph)) for model in (whole, *without)] == [7, 6, 6]
    view, tasks = training_view(graph, split), draw_tasks(graph.y, split.base, 4, 2, 3, 2, 0)
    assert torch.equal(whole.loss(view, tasks), without[0].loss(view, tasks))  # how much it counts is not learned


def test_positions_tell_classes_apart_that_links_alone_define(wordless):
    graph, split, shape = wordless
    tasks = draw_tasks(graph.y, split.novel, 3, 3, 10, 50, 0)
    z = fit("vantage", graph, split, **shape, lda_classes=30).embed(graph)[-1]
    means = class_means(z[tasks.support], tasks.support_y, 3)
    right = cosine_scores(z[tasks.query], means).argmax(-1).eq(tasks.query_y)
    assert right.float().mean() > 0.7


def test_where_links_are_all_half_of_the_score_is_a_distance_which_one_shot_cannot_teach(wordless, fitted):
    graph, split, shape = wordless
    lda, alone = (fit("vantage", graph, split, **shape, lda_classes=classes) for classes in (2, 30))
    distance = [torch.sigmoid(model.distance_weight).item() > 0.4 for model in (fitted, lda, alone)]
    assert distance == [False, False, True]
    tasks = draw_tasks(graph.y, split.base, 3, 1, 4, 2, 0)
    alone.loss(training_view(graph, split), tasks).backward()
    assert alone.distance_weight.grad.abs() < 1e-6 < alone.gate.grad.abs().max()


def test_a_block_that_tells_classes_apart_starts_with_the_larger_share(small):
    graph, split = small
    noise = torch.randn(300, 40, generator=torch.Generator().manual_seed(0))
    blocks = {"words": graph.num_features, "noise": 40}
    both = graph.with_features(torch.cat([graph.x.to_dense(), noise], 1), None, blocks)
    model = fit("vantage", both, split, n_way=3, k_shot=2, steps=0, rank=16)
    near, useless = (model.first[view] for view in model.near)
    assert near > useless + 1 and len(model.gate) == 8 + 2 + 8 + 1
    assert torch.equal(model.gate.detach(), torch.tensor(model.first))
    tasks = draw_tasks(graph.y, split.novel, 3, 2, 5, 50, seed=0)
    plain = fit("vantage", graph.with_features(graph.x.to_dense()), split, n_way=3, k_shot=2, steps=0, rank=16)
    with_noise = evaluate(model, both, tasks=tasks).accuracy
    assert with_noise > evaluate(plain, plain_graph(graph), tasks=tasks).accuracy - 0.05


def plain_graph(graph):
    return graph.with_features(graph.x.to_dense())
