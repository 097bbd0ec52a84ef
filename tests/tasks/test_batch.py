import numpy as np
import pytest
import torch

from fewnode import Tasks, draw_tasks
from fewnode.errors import InputError


def test_pools_are_kept(tmp_path):
    tasks = draw_tasks(np.arange(60) % 6, range(6), 3, 1, 2, 4, 0)
    tasks.save(tmp_path / "pool.npz")
    again = Tasks.load(tmp_path / "pool.npz")
    for name in ("support", "support_y", "query", "query_y"):
        assert torch.equal(getattr(again, name), getattr(tasks, name))
    assert again.n_way == 3
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    with pytest.raises(InputError, match="not a pool of tasks: it has no query, support, support_y"):
        Tasks.load(tmp_path / "other.npz")


GOOD = dict(support=[[0, 1, 2]], support_y=[[0, 1, 1]], query=[[3, 4]], query_y=[[0, 1]])


def test_shots_may_be_unequal_and_labels_unknown():
    tasks = Tasks(**GOOD | {"query_y": None})
    assert tasks.n_way == 2 and tasks.shots().tolist() == [[1, 2]] and tasks.query_y is None
    assert Tasks(**GOOD)[:1].query_y is not None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (dict(support_y=[[0, 1]]), r"support has shape \(1, 3\) but support_y has \(1, 2\)"),
        (dict(support_y=[[0, 2, 2]]), "task 0 has no support of class 1"),
        (dict(support_y=[[0, -1, 1]]), r"support_y holds -1..1"),
        (dict(query_y=[[0, 5]]), r"query_y holds values outside 0..1"),
        (dict(support=[[0, -1, 2]]), "support holds a negative node id"),
        (dict(support=[[0.5, 1.0, 2.0]]), "support has dtype torch.float64"),
        (dict(query=[[3, 4], [3, 4]], query_y=None), "of the same tasks"),
        (dict(n_way=1), "classes of a 1-way task"),
    ],
)
def test_bad_tasks_are_refused(change, words):
    with pytest.raises(InputError, match=words):
        Tasks(**GOOD | change)


@pytest.mark.parametrize("which", [slice(2, 2), slice(9, 12), 1])
def test_a_part_of_tasks_is_tasks(which):
    whole = Tasks([[0, 1], [2, 3]], [[0, 1], [1, 0]], [[4], [5]], [[0], [1]])
    part = whole[1:]
    assert (len(part), part.n_way, part.support.tolist(), part.query_y.tolist()) == (1, 2, [[2, 3]], [[1]])
    assert Tasks(*([[0, 1]], [[0, 1]], [[4]]))[:1].query_y is None
    with pytest.raises(InputError, match=r"of 2 tasks: give a slice that holds one or more"):
        whole[which]
