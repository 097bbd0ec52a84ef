"""Training and validation tasks in shapes the classes can give."""

import numpy as np
import pytest
import torch

from fewnode import ClassSplit, Graph, Training
from fewnode.errors import InputError
from fewnode.methods.base import ModelCard
from fewnode.training.loop import Episodes


def episodes(sizes: list[int], split: ClassSplit, **settings) -> Episodes:
    y = np.repeat(np.arange(len(sizes)), sizes)
    graph = Graph.from_edges([[0], [1]], y=y, num_nodes=len(y))
    card = ModelCard("pn", {}, {}, "", n_way=3, k_shot=2, n_query=10, seed=0)
    return Episodes(card, Training(**settings), graph, graph, split)


def test_queries_shrink_to_what_the_smallest_class_of_a_task_has_left():
    found = episodes([20, 20, 7, 20, 20, 20], ClassSplit([0, 1, 2], [3, 4, 5]))
    assert found.shape == (3, 2, 5)  # seven nodes, two of them supports
    assert "5 queries per class instead of 3-way with 10" in found.notes[0]
    assert found.training_tasks(0, 4).query.shape == (4, 15)


def test_ways_shrink_to_the_classes_that_are_larger_than_the_shots():
    with pytest.warns(UserWarning, match="validation tasks are 2-way"):
        found = episodes([20, 20, 20, 20, 20, 2], ClassSplit([0, 1, 2], [3, 4, 5]))
    assert found.shape == (3, 2, 10) and found.pool.n_way == 2 and found.pool.query.shape[1] == 20


def test_two_classes_are_the_least():
    with pytest.raises(InputError, match="two base classes with at least 3 labelled nodes"):
        episodes([20, 2, 2], ClassSplit([0, 1, 2]))


def test_blocks_draw_other_tasks_and_the_same_block_the_same():
    found = episodes([20] * 6, ClassSplit([0, 1, 2], [3, 4, 5]))
    first, again, other = (found.training_tasks(block, 4).support for block in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, other)
