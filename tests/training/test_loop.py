import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

import forked
from fewnode import ClassSplit, Graph, fit, planted, save, training_view
from fewnode.errors import InputError
from fewnode.training.loop import TrainingProgress
from linear_method import Linear


def same(one, two):
    first, second = one.state_dict(), two.state_dict()
    return all(torch.equal(first[key], second[key]) for key in first)


def test_training_improves_and_keeps_the_best_weights(tiny):
    graph, split = tiny
    seen = []
    model = fit(Linear, graph, split, n_way=3, k_shot=2, callback=seen.append, patience=100)
    assert [progress.step for progress in seen] == list(range(1, 41))
    checks = [progress for progress in seen if progress.accuracy is not None]
    assert [progress.step for progress in checks] == list(range(5, 45, 5))
    steps, accuracies = zip(*model.card.curve, strict=True)
    assert steps == tuple(range(0, 45, 5))  # the start is checked too: training must beat it
    assert model.card.best == max(accuracies) == checks[-1].best
    assert accuracies[-1] > accuracies[0]
    stopped = steps[int(np.argmax(accuracies))]
    assert same(model, fit(Linear, graph, split, n_way=3, k_shot=2, steps=stopped, patience=100))


def test_patience_stops_early(tiny):
    graph, split = tiny
    model = fit(Linear, graph, split, n_way=3, k_shot=2, learning_rate=0.0, patience=3, steps=1000)
    assert model.card.stopped_at == 15  # the start is the best; three checks bring nothing
    assert model.card.curve[0][0] == 0


def test_ctrl_c_keeps_the_best_so_far_and_says_so(tiny):
    graph, split = tiny

    def interrupt(progress):
        if progress.step == 12:
            raise KeyboardInterrupt

    model = fit(Linear, graph, split, n_way=3, k_shot=2, callback=interrupt)
    assert "interrupted at step 12 of 40" in model.card.notes[-1]
    assert [step for step, _ in model.card.curve] == [0, 5, 10]


def test_resuming_gives_the_same_weights(tiny, tmp_path):
    graph, split = tiny
    whole = fit(Linear, graph, split, n_way=3, k_shot=2, patience=100)

    class Killed(Exception):
        pass

    def kill(progress):
        if progress.step == 23:
            raise Killed

    with pytest.raises(Killed):
        fit(Linear, graph, split, n_way=3, k_shot=2, patience=100, resume=tmp_path, callback=kill)
    steps = []
    again = fit(
        Linear, graph, split, n_way=3, k_shot=2, patience=100, resume=tmp_path, callback=lambda p: steps.append(p.step)
    )
    assert steps[0] == 21  # the last check was at 20
    assert same(whole, again) and whole.card.curve == again.card.curve


def test_a_state_of_another_training_is_refused(tiny, tmp_path):
    graph, split = tiny
    fit(Linear, graph, split, n_way=3, k_shot=2, steps=5, resume=tmp_path)
    with pytest.raises(InputError, match="belongs to another training: its seed is 0, this one's is 1"):
        fit(Linear, graph, split, n_way=3, k_shot=2, steps=5, resume=tmp_path, seed=1)
    state = tmp_path / "training.safetensors"
    state.write_bytes(state.read_bytes()[:50])
    with pytest.raises(InputError, match=r"training\.safetensors is damaged .*; delete it to start anew"):
        fit(Linear, graph, split, n_way=3, k_shot=2, steps=5, resume=tmp_path)


def train_slowly(graph: Graph, split: ClassSplit, folder: Path, die_at: int | None, steps: object) -> None:
    """What the process does that is killed after a step, and the one that goes on: each tells its steps."""

    def step(now: TrainingProgress) -> None:
        steps.send(now.step)
        if now.step == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    save(fit(Linear, graph, split, n_way=3, k_shot=2, patience=100, resume=folder, callback=step), folder)


def test_kill_minus_nine_and_resume_give_the_same_weights(tmp_path):
    graph, split = planted(600, 12, features=120, seed=1)
    here, there = forked.CONTEXT.Pipe()
    assert forked.ended(train_slowly, graph, split, tmp_path / "whole", None, there) == 0
    assert forked.ended(train_slowly, graph, split, tmp_path / "cut", 17, there) == -signal.SIGKILL
    assert not (tmp_path / "cut" / "model.safetensors").exists()
    while here.poll():
        here.recv()  # the steps so far
    assert forked.ended(train_slowly, graph, split, tmp_path / "cut", None, there) == 0
    assert here.recv() == 16
    whole, cut = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "cut"))
    assert whole == cut


def test_fewer_validation_classes_than_ways_validates_at_what_there_is(tiny):
    graph, split = tiny
    with pytest.warns(UserWarning, match="validation tasks are 2-way"):
        model = fit(Linear, graph, split, n_way=4, k_shot=2, steps=5)
    assert any("2-way" in note for note in model.card.notes)
    with pytest.warns(UserWarning, match="nothing is selected"):
        model = fit(Linear, graph, ClassSplit(split.base, (), split.novel), n_way=3, k_shot=2, steps=5)
    assert model.card.best is None


def test_training_shape_is_free_of_the_test_shape(tiny):
    graph, split = tiny
    shapes = []

    class Spy(Linear):
        def loss(self, graph, tasks):
            shapes.append((tasks.n_way, tasks.support.shape[1], tasks.query.shape[1], len(tasks)))
            return super().loss(graph, tasks)

    sizes = dict(train_way=4, train_shot=1, train_query=3, tasks_per_step=2)
    fit(Spy, graph, split, n_way=3, k_shot=5, steps=2, **sizes)
    assert set(shapes) == {(4, 4, 12, 2)}


def test_every_block_of_steps_draws_other_dropout(tiny):
    drawn = []

    class Spy(Linear):
        def loss(self, graph, tasks):
            drawn.append(float(torch.rand(1)))
            return super().loss(graph, tasks)

    fit(Spy, *tiny, n_way=3, k_shot=2, steps=4, check_every=1)
    assert len(set(drawn)) == 4


def test_training_sees_base_labels_only(tiny):
    graph, split = tiny

    class Spy(Linear):
        def prepare(self, graph):
            assert set(graph.y.unique().tolist()) == {-1, *split.base}

        def loss(self, graph, tasks):
            self.prepare(graph)
            return super().loss(graph, tasks)

    fit(Spy, graph, split, n_way=3, k_shot=2, steps=2)


def test_inductive_training_never_sees_novel_nodes(tiny):
    graph, split = tiny
    sizes = []

    class Spy(Linear):
        def loss(self, graph, tasks):
            sizes.append(graph.num_nodes)
            return super().loss(graph, tasks)

    model = fit(Spy, graph, split, n_way=3, k_shot=2, steps=2, inductive=True)
    novel = torch.isin(graph.y, torch.tensor(split.novel))
    assert set(sizes) == {int((~novel).sum())}
    assert model.card.inductive and model.card.graph != graph.fingerprint


def test_a_loss_that_is_not_a_number_is_an_error(tiny):
    class Broken(Linear):
        def loss(self, graph, tasks):
            return super().loss(graph, tasks) * float("nan")

    with pytest.raises(FloatingPointError, match="loss became nan"):
        fit(Broken, *tiny, n_way=3, k_shot=2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (dict(method="tnet"), "Did you mean 'tent'"),
        (dict(widht=3), "unknown option of linear_method:Linear 'widht'. Did you mean 'width'"),
        (dict(device="gpu9"), "device 'gpu9' cannot be used here"),
        (dict(split=None), "Linear learns from base classes: give a split"),
        (dict(split=ClassSplit([0])), "two base classes"),
        (dict(split=ClassSplit([0, 1], novel=[99])), "the split names class 99, but the classes of this graph are"),
    ],
)
def test_bad_requests_are_named(tiny, arguments, words):
    graph, split = tiny
    given = dict(method=Linear, graph=graph, split=split, n_way=3, k_shot=2) | arguments
    with pytest.raises(InputError, match=words):
        fit(**given)


def test_the_view_is_shared_but_the_graph_is_not_changed(tiny):
    graph, split = tiny
    before = graph.y.clone()
    fit("probe", graph, split)
    assert torch.equal(graph.y, before) and isinstance(training_view(graph, split), Graph)
