"""What every method must do, whatever it is: one contract, run over all of them."""

import inspect

import numpy as np
import pytest
import torch
from scipy import sparse as sp

import fewnode
from fewnode import ClassSplit, Graph, Tasks, draw_tasks, evaluate, load, methods, save, training_view
from fewnode.training.evaluate import score_tasks

VARIANTS = {
    "tent": [{}, {"preset": "paper", "normalize": True, "learning_rate": 0.005, "clip": 1.0}],
    "probe": [{}, {"head": "ridge"}, {"head": "logistic"}],
}
SMALLER = {  # nothing in the contract depends on how wide a method is or how many walks it takes
    "rale": {"rank": 32, "channels": 16, "heads": 2, "n_walks": 8, "n_paths": 2, "n_hubs": 4},
    "gmeta": {"rank": 32, "hidden_channels": 32, "out_channels": 16, "inner_steps": 5},
}
CASES = [(name, options) for name in methods.names() for options in VARIANTS.get(name, [{}])]
IDS = ["-".join([name, *map(str, options.values())]) for name, options in CASES]
TRAINED = [case for case in CASES if methods.find(case[0]).training_settings is not None]
TRAINED_IDS = [name for name, case in zip(IDS, CASES, strict=True) if case in TRAINED]
N_WAY = 3


def fit(name, graph, split, **options):
    return fewnode.fit(name, graph, split, n_way=N_WAY, **SMALLER.get(name, {}), **options)


every_method = pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
every_trained_method = pytest.mark.parametrize(("name", "options"), TRAINED, ids=TRAINED_IDS)


@pytest.fixture(scope="module")
def world(tiny) -> tuple[Graph, ClassSplit]:
    """The tiny graph with an isolated node, a node without words and a column nobody uses."""
    graph, split = tiny
    x = graph.features_scipy().tolil()
    x[3] = 0
    x[:, 5] = 0
    adjacency = graph.to_scipy().tocoo()
    edges = np.stack([adjacency.col, adjacency.row])
    return Graph.from_edges(edges[:, (edges != 7).all(0)], x.tocsr(), graph.y, num_nodes=graph.num_nodes), split


_MODELS: dict[tuple[str, str], object] = {}


def untrained(name, options, world):
    """A model after preparation and before the first step; the same object for all tests, none of which changes it."""
    key = (name, str(options))
    if key not in _MODELS:
        _MODELS[key] = fit(name, *world, k_shot=2, seed=0, **options, **no_steps(name))
    return _MODELS[key]


def no_steps(name):
    return {} if methods.find(name).training_settings is None else {"steps": 0}


def few_steps(name, steps=2):
    return {} if methods.find(name).training_settings is None else {"steps": steps, "check_every": steps}


def pool(world, k_shot=2, n_tasks=4, classes="novel", seed=0):
    graph, split = world
    return draw_tasks(graph.y, getattr(split, classes), N_WAY, k_shot, 5, n_tasks, seed)


def scores_of(model, graph, tasks):
    with torch.no_grad():
        return model.eval()(graph, tasks)


def close(a, b):
    torch.testing.assert_close(a, b, atol=2e-4, rtol=2e-4)


@every_method
@pytest.mark.parametrize("k_shot", [1, 3])
def test_scores_are_finite_and_shaped(name, options, world, k_shot):
    tasks = pool(world, k_shot)
    scores = scores_of(untrained(name, options, world), world[0], tasks)
    assert scores.shape == (4, N_WAY * 5, N_WAY)
    assert torch.isfinite(scores).all()


@every_method
def test_unequal_shots_isolated_and_wordless_nodes_are_fine(name, options, world):
    tasks = Tasks([[7, 3, 10, 11, 12, 13]], [[0, 1, 1, 1, 2, 2]], [[3, 7, 20]])
    scores = scores_of(untrained(name, options, world), world[0], tasks)
    assert scores.shape == (1, 3, 3) and torch.isfinite(scores).all()


@every_method
def test_scores_do_not_look_at_the_queries_classes(name, options, world):
    model, tasks = untrained(name, options, world), pool(world)
    blind = Tasks(tasks.support, tasks.support_y, tasks.query, None, N_WAY)
    hidden = world[0].with_labels(torch.full_like(world[0].y, -1))
    assert torch.equal(scores_of(model, world[0], tasks), scores_of(model, hidden, blind))


@every_method
def test_a_query_alone_scores_as_among_others(name, options, world):
    model, tasks = untrained(name, options, world), pool(world)
    if model.task_transductive:
        pytest.skip("declares that queries influence each other")
    alone = Tasks(tasks.support, tasks.support_y, tasks.query[:, 2:3], None, N_WAY)
    close(scores_of(model, world[0], alone)[:, 0], scores_of(model, world[0], tasks)[:, 2])


@every_method
def test_a_batch_scores_as_its_tasks_one_by_one(name, options, world):
    model, tasks = untrained(name, options, world), pool(world)
    single = torch.cat([scores_of(model, world[0], tasks[i : i + 1]) for i in range(len(tasks))])
    close(scores_of(model, world[0], tasks), single)


@every_method
def test_renumbering_nodes_changes_nothing(name, options, world):
    model, tasks = untrained(name, options, world), pool(world)
    if getattr(model, "sampled", False):
        pytest.skip("samples the graph, so that another numbering draws another sample")
    graph = world[0]
    new_id = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(3))
    old_id = torch.argsort(new_id)
    adjacency = graph.to_scipy().tocoo()
    edges = new_id.numpy()[np.stack([adjacency.col, adjacency.row])]
    renumbered = Graph.from_edges(edges, graph.features_scipy()[old_id.numpy()], graph.y[old_id])
    moved = Tasks(new_id[tasks.support], tasks.support_y, new_id[tasks.query], None, N_WAY)
    close(scores_of(model, renumbered, moved), scores_of(model, graph, tasks))


@every_method
def test_reordering_classes_reorders_columns(name, options, world):
    model, tasks = untrained(name, options, world), pool(world)
    if "n_way" in inspect.signature(type(model)).parameters:
        pytest.skip("has a head with one place per class, so that the order of classes is part of its input")
    order = torch.tensor([2, 0, 1])
    turned = Tasks(tasks.support, order[tasks.support_y], tasks.query, None, N_WAY)
    close(scores_of(model, world[0], turned)[..., order], scores_of(model, world[0], tasks))


@every_trained_method
def test_every_trainable_parameter_gets_a_gradient(name, options, world):
    graph, split = world
    model = fit(name, graph, split, k_shot=2, seed=0, **options, **few_steps(name, 1)).train()
    view = training_view(graph, split)
    model.zero_grad()
    torch.manual_seed(0)
    for seed in range(3):  # a single task may leave a weight out by chance (dropout, a dead unit)
        model.loss(view, pool(world, classes="base", seed=seed)).backward()
    without = [key for key, weight in model.named_parameters() if weight.requires_grad and weight.grad is None]
    assert not without
    assert all(torch.isfinite(weight.grad).all() for weight in model.parameters() if weight.grad is not None)


@every_trained_method
def test_held_out_labels_never_reach_training(name, options, world):
    graph, split = world
    held_out = torch.isin(graph.y, torch.tensor(split.validation + split.novel))
    shuffled = graph.y.clone()
    where = held_out.nonzero().ravel()
    shuffled[where] = graph.y[where[torch.randperm(len(where), generator=torch.Generator().manual_seed(1))]]
    unselected = ClassSplit(split.base, (), split.validation + split.novel)  # so that the last weights are kept
    fitted = [
        fit(name, graph.with_labels(y), unselected, k_shot=2, seed=0, **options, **few_steps(name))
        for y in (graph.y, shuffled)
    ]
    first, second = (model.state_dict() for model in fitted)
    assert all(torch.equal(first[key], second[key]) for key in first)


@every_trained_method
def test_same_seed_same_weights_and_the_callers_randomness_is_untouched(name, options, world):
    graph, split = world  # by now the graph remembers what other methods made of it; a fresh one must give the same
    torch.manual_seed(123)
    before = torch.get_rng_state()
    one, two, other = (
        fit(name, at, split, k_shot=2, seed=seed, **options, **few_steps(name)).state_dict()
        for at, seed in ((graph, 0), (graph.fresh(), 0), (graph, 1))
    )
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert any(not torch.equal(one[key], other[key]) for key in one)


@every_method
def test_save_and_load_give_the_same_scores(name, options, world, tmp_path):
    model, tasks = untrained(name, options, world), pool(world)
    save(model, tmp_path / "model")
    assert torch.equal(scores_of(load(tmp_path / "model"), world[0], tasks), scores_of(model, world[0], tasks))


@every_method
def test_beats_chance_after_a_few_seconds(name, options, world):
    graph, split = world
    model = fit(name, graph, split, k_shot=3, seed=0, **options, **few_steps(name, 20))
    result = evaluate(model, graph, split.novel, n_way=N_WAY, k_shot=3, n_tasks=50)
    assert result.accuracy - 2 * result.interval > 1 / N_WAY


@pytest.fixture(scope="module")
def large(world) -> Graph:
    """Many copies side by side, with no edge between them: two tasks then touch little of the graph."""
    graph, copies = world[0], 40
    adjacency = graph.to_scipy().tocoo()
    shift = graph.num_nodes * np.arange(copies)[:, None]
    edges = np.stack([(part + shift).ravel() for part in (adjacency.col, adjacency.row)])
    x = sp.vstack([graph.features_scipy()] * copies).tocsr()
    return Graph.from_edges(edges, x, np.tile(graph.y.numpy(), copies), num_nodes=copies * graph.num_nodes)


@every_method
def test_a_local_method_reads_only_what_is_near_the_tasks(name, options, world, large, monkeypatch):
    """Few tasks on a large graph get the scores that a pass over all of it gives, without that pass."""
    model = untrained(name, options, world)
    if not model.local:
        assert "nodes" not in inspect.signature(model.embed).parameters
        return
    large, tasks = large.fresh(), pool(world, n_tasks=2)  # which remembers nothing of another method
    with torch.no_grad():
        expected = model.eval().score(large, model.embed(large), tasks)
    whole, asked = model.embed, []
    monkeypatch.setattr(model, "embed", lambda graph, nodes=None: asked.append(nodes) or whole(graph, nodes))
    torch.testing.assert_close(score_tasks(model, large, tasks), expected, rtol=1e-4, atol=1e-5)
    assert [len(nodes) for nodes in asked] == [len(torch.unique(torch.cat([tasks.support, tasks.query], 1)))]
