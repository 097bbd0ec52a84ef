"""The contract of all methods: the checks of ``fewnode check`` and of the tests.

A check takes a ``Subject`` and asserts; one that does not apply to the method raises ``SkipTest``.
"""

import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from inspect import isfunction, signature
from typing import Any
from unittest import SkipTest

import torch
from torch import Tensor

from ..datasets.synthetic import planted
from ..graph import Graph
from ..methods.base import Method
from ..tasks import ClassSplit, Tasks, draw_tasks, training_view
from .checkpoint import load, save
from .evaluate import evaluate
from .loop import fit

N_WAY = 3


@dataclass
class Subject:
    """A method with its options, on a small planted graph with an isolated node, a node without features and a feature
    that no node has."""

    kind: type[Method]
    options: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def world(self) -> tuple[Graph, ClassSplit]:
        graph, split = planted(600, 12, avg_degree=8, homophily=0.8, features=120, difficulty=0.2, tail=0.3, seed=1)
        features: Any = graph.features_scipy()
        x = features.tolil()
        x[3] = 0
        x[:, 5] = 0
        edges = graph.edge_arrays()["edge_index"]
        edges = edges[:, (edges != 7).all(0)]
        return Graph.from_edges(edges, x.tocsr(), graph.y, num_nodes=graph.num_nodes), split

    def fit(self, graph: Graph, split: ClassSplit, *, steps: int, k_shot: int = 2, seed: int = 0) -> Method:
        trained = self.kind.training_settings is not None
        settings = {"steps": steps, "check_every": max(1, steps)} if trained else {}
        return fit(self.kind, graph, split, n_way=N_WAY, k_shot=k_shot, seed=seed, **{**settings, **self.options})

    @cached_property
    def untrained(self) -> Method:
        """The model after preparation and before the first step."""
        return self.fit(*self.world, steps=0)

    def tasks(self, k_shot: int = 2, classes: str = "novel", seed: int = 0) -> Tasks:
        graph, split = self.world
        return draw_tasks(graph.y, getattr(split, classes), N_WAY, k_shot, 5, 4, seed)

    def scores(self, tasks: Tasks, graph: Graph | None = None, model: Method | None = None) -> Tensor:
        model, graph = model or self.untrained, graph or self.world[0]
        with torch.no_grad():
            found: Tensor = model.eval()(graph, tasks)
        return found

    def needs_training(self) -> None:
        if self.kind.training_settings is None:
            raise SkipTest("nothing is trained")


def _close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, atol=2e-4, rtol=2e-4)


def scores_are_finite_and_shaped(subject: Subject) -> None:
    for k_shot in (1, 3):
        scores = subject.scores(subject.tasks(k_shot))
        assert scores.shape == (4, N_WAY * 5, N_WAY), f"scores have the shape {tuple(scores.shape)}"
        assert torch.isfinite(scores).all(), f"scores at {k_shot} shots are not finite"


def unequal_shots_isolated_and_featureless_nodes_are_fine(subject: Subject) -> None:
    scores = subject.scores(Tasks([[7, 3, 10, 11, 12, 13]], [[0, 1, 1, 1, 2, 2]], [[3, 7, 20]]))
    assert scores.shape == (1, 3, 3) and torch.isfinite(scores).all()


def scores_do_not_depend_on_the_classes_of_queries(subject: Subject) -> None:
    tasks, graph = subject.tasks(), subject.world[0]
    blind = Tasks(tasks.support, tasks.support_y, tasks.query, None, N_WAY)
    hidden = graph.with_labels(torch.full_like(graph.y, -1))
    assert torch.equal(subject.scores(tasks), subject.scores(blind, hidden)), "labels of queries change the scores"


def a_query_alone_scores_as_among_others(subject: Subject) -> None:
    if subject.kind.task_transductive:
        raise SkipTest("declares that queries influence each other")
    tasks = subject.tasks()
    alone = Tasks(tasks.support, tasks.support_y, tasks.query[:, 2:3], None, N_WAY)
    _close(subject.scores(alone)[:, 0], subject.scores(tasks)[:, 2])


def a_batch_scores_as_its_tasks_one_by_one(subject: Subject) -> None:
    tasks = subject.tasks()
    _close(subject.scores(tasks), torch.cat([subject.scores(tasks[i : i + 1]) for i in range(len(tasks))]))


def renumbering_nodes_changes_nothing(subject: Subject) -> None:
    if getattr(subject.untrained, "sampled", False):
        raise SkipTest("samples the graph, so that another numbering draws another sample")
    graph, tasks = subject.world[0], subject.tasks()
    new_id = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(3))
    old_id = torch.argsort(new_id)
    x: Any = graph.features_scipy()
    renumbered = Graph.from_edges(new_id.numpy()[graph.edge_arrays()["edge_index"]], x[old_id.numpy()], graph.y[old_id])
    moved = Tasks(new_id[tasks.support], tasks.support_y, new_id[tasks.query], None, N_WAY)
    _close(subject.scores(moved, renumbered), subject.scores(tasks))


def reordering_classes_reorders_columns(subject: Subject) -> None:
    if "n_way" in signature(subject.kind).parameters:
        raise SkipTest("has a head with one place per class, so that the order of classes is part of its input")
    tasks, order = subject.tasks(), torch.tensor([2, 0, 1])
    turned = Tasks(tasks.support, order[tasks.support_y], tasks.query, None, N_WAY)
    _close(subject.scores(turned)[..., order], subject.scores(tasks))


def every_trainable_parameter_gets_a_gradient(subject: Subject) -> None:
    subject.needs_training()
    graph, split = subject.world
    model, view = subject.fit(graph, split, steps=1).train(), training_view(graph, split)
    model.zero_grad()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for seed in range(3):  # a single task may leave a weight out by chance (dropout, a dead unit)
            model.loss(view, subject.tasks(classes="base", seed=seed)).backward()
    learned = {key: weight.grad for key, weight in model.named_parameters() if weight.requires_grad}
    without = [key for key, gradient in learned.items() if gradient is None]
    assert not without, f"no gradient reaches {', '.join(without)}"
    assert all(torch.isfinite(gradient).all() for gradient in learned.values() if gradient is not None)


def held_out_labels_never_reach_training(subject: Subject) -> None:
    subject.needs_training()
    graph, split = subject.world
    where = torch.isin(graph.y, torch.tensor(split.validation + split.novel)).nonzero().ravel()
    shuffled = graph.y.clone()
    shuffled[where] = graph.y[where[torch.randperm(len(where), generator=torch.Generator().manual_seed(1))]]
    unselected = ClassSplit(split.base, (), split.validation + split.novel)  # so that the last weights are kept
    first, second = (subject.fit(graph.with_labels(y), unselected, steps=2).state_dict() for y in (graph.y, shuffled))
    changed = [key for key in first if not torch.equal(first[key], second[key])]
    assert not changed, f"labels outside the base classes change {', '.join(changed)}"


def the_seed_decides_and_the_callers_randomness_is_untouched(subject: Subject) -> None:
    subject.needs_training()
    graph, split = subject.world  # which remembers what was computed of it; a fresh one must give the same
    before = torch.get_rng_state()
    one, two, other = (
        subject.fit(at, split, steps=2, seed=seed).state_dict()
        for at, seed in ((graph, 0), (graph.fresh(), 0), (graph, 1))
    )
    assert torch.equal(torch.get_rng_state(), before), "the random state of the caller has changed"
    assert all(torch.equal(one[key], two[key]) for key in one), "the same seed gives other weights"
    assert any(not torch.equal(one[key], other[key]) for key in one), "another seed gives the same weights"


def save_and_load_give_the_same_scores(subject: Subject) -> None:
    tasks = subject.tasks()
    with tempfile.TemporaryDirectory() as folder:
        again = load(save(subject.untrained, folder), subject.kind)
    assert torch.equal(subject.scores(tasks, model=again), subject.scores(tasks)), "a saved model scores otherwise"


def beats_chance_after_a_few_steps(subject: Subject) -> None:
    graph, split = subject.world
    model = subject.fit(graph, split, steps=20, k_shot=3)
    found = evaluate(model, graph, split.novel, n_way=N_WAY, k_shot=3, n_tasks=50)
    assert found.accuracy - 2 * found.interval > 1 / N_WAY, f"the accuracy is {found}"


CHECKS: dict[str, Callable[[Subject], None]] = {
    name: value
    for name, value in list(vars().items())
    if isfunction(value) and [*signature(value).parameters] == ["subject"]
}


def check_method(kind: type[Method], options: Mapping[str, Any] | None = None) -> dict[str, str]:
    """The outcome of every check of a method: "passed", "not applicable: ..." or "failed: ..."."""
    subject, outcome = Subject(kind, options or {}), {}
    for name, check in CHECKS.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the small graph has few validation classes, which is no concern here
                check(subject)
            outcome[name] = "passed"
        except SkipTest as reason:
            outcome[name] = f"not applicable: {reason}"
        except Exception as error:  # any error of the method is a failure of the check
            told = " ".join(str(error).split()) or type(error).__name__
            outcome[name] = f"failed: {told}"
    return outcome
