"""Probabilities: the temperature is found, the error measured right, and the tasks look like the user's."""

import pytest
import torch

from fewnode.classifier import calibration
from fewnode.classifier.calibration import Calibration
from fewnode.tasks import ClassSplit, Tasks


def made_up_tasks(n_tasks: int = 60, queries: int = 40, n_way: int = 4) -> Tasks:
    y = torch.arange(n_way * queries).remainder(n_way).expand(n_tasks, -1)
    support = torch.arange(n_way).expand(n_tasks, -1)
    return Tasks(support, support, torch.zeros_like(y), y, n_way)


def honest_scores(tasks: Tasks, seed: int = 0) -> torch.Tensor:
    """Logits whose softmax is the true posterior: noise of variance 1 around 2 at the right class."""
    generator = torch.Generator().manual_seed(seed)
    shape = (*tasks.query_y.shape, tasks.n_way)
    observed = torch.randn(shape, generator=generator) + 2 * torch.nn.functional.one_hot(tasks.query_y, tasks.n_way)
    return 2 * observed


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_the_temperature_undoes_any_scale_of_the_scores(scale):
    tasks = made_up_tasks()
    found = Calibration.of(honest_scores(tasks) * scale, tasks, "validation")
    assert found.temperature == pytest.approx(scale, rel=0.08)
    assert found.n_tasks == 60 and found.source == "validation"


def test_a_few_huge_scores_do_not_decide_for_all():
    tasks = made_up_tasks()
    scores = honest_scores(tasks)
    scores[0] = -100 * scores[0]
    assert Calibration.of(scores, tasks, "validation").temperature == pytest.approx(1, rel=0.2)


def test_answers_that_are_all_right_keep_a_positive_temperature():
    tasks = made_up_tasks(4, 4)
    found = Calibration.of(torch.nn.functional.one_hot(tasks.query_y, 4).float(), tasks, "validation")
    p = found.probabilities(torch.eye(4))
    assert found.temperature > 0 and torch.isfinite(p).all() and p.sum(1) == pytest.approx(1)


def test_a_few_right_answers_do_not_make_as_sure_as_many():
    few, many = (made_up_tasks(n, 4) for n in (1, 50))
    sure = [Calibration.of(torch.nn.functional.one_hot(t.query_y, 4).float(), t, "validation") for t in (few, many)]
    first, second = (float(one.probabilities(torch.eye(4)).max()) for one in sure)
    assert 0.8 < first < second < 0.999  # without a penalty both would be as sure as can be


def test_a_few_wrong_answers_do_not_make_as_unsure_as_many():
    few, many = (made_up_tasks(n, 4) for n in (1, 50))
    wrong = [torch.nn.functional.one_hot((t.query_y + 1) % 4, 4).float() for t in (few, many)]
    first, second = (Calibration.of(s, t, "validation").temperature for s, t in zip(wrong, (few, many), strict=True))
    assert 2 < first < second / 2 and second < 50  # a penalty that were not squared would take both as far as possible


def test_validation_tasks_have_the_users_shots_and_only_validation_classes():
    y = torch.arange(6).repeat_interleave(40)
    tasks = calibration.validation_tasks(y, ClassSplit([0, 1], [2, 3, 4, 5]), [1, 7, 3])
    assert tasks.n_way == 3 and (tasks.shots() == torch.tensor([7, 3, 1])).all()
    assert int(y[tasks.support].min()) >= 2 and int(y[tasks.query].min()) >= 2


def test_validation_tasks_shrink_to_what_the_classes_can_give():
    y = torch.tensor([0] * 30 + [1] * 6 + [2] * 5)
    tasks = calibration.validation_tasks(y, ClassSplit([0], [1, 2]), [9] * 8)
    assert tasks.n_way == 2 and tasks.shots().max() == 3
    assert calibration.validation_tasks(y, ClassSplit([0, 1], [2]), [1, 1]) is None


def test_left_out_tasks_ask_for_each_example_from_the_others():
    nodes, y = torch.tensor([5, 6, 7]), torch.tensor([0, 0, 1])
    tasks = calibration.left_out_tasks(nodes, y, 2)
    assert tasks.query.flatten().tolist() == [5, 6] and tasks.support.tolist() == [[6, 7], [5, 7]]
    assert calibration.left_out_tasks(nodes[1:], y[1:], 2) is None
