import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fewnode import ClassSplit, random_split, training_view
from fewnode.errors import InputError


def test_split_parts_must_not_overlap():
    assert ClassSplit([0, 1], [2], np.array([3])).novel == (3,)
    with pytest.raises(InputError, match="class 1 is in base and again in novel"):
        ClassSplit([0, 1], [2], [1])
    with pytest.raises(InputError, match="class -1 in base"):
        ClassSplit([-1])


@given(st.integers(0, 10**6), st.integers(0, 4))
def test_random_split_takes_every_large_enough_class_once(seed, min_size):
    y = np.repeat(np.arange(10), [1, 2, 3, 4, 5, 1, 2, 3, 4, 5])
    split = random_split(y, min_size=min_size, seed=seed)
    classes = sorted(split.base + split.validation + split.novel)
    assert classes == [c for c in range(10) if (y == c).sum() >= min_size]
    assert split == random_split(y, min_size=min_size, seed=seed)


def test_random_split_refuses_fractions_that_do_not_add_up():
    with pytest.raises(InputError, match="add up to 1"):
        random_split([0, 1, 2], (0.5, 0.5, 0.5))


def test_training_view_hides_every_other_label(small):
    view = training_view(small, ClassSplit([0], [1], [2]))
    assert view.y.tolist() == [0, 0, -1, -1, -1, -1, 0, -1]
    assert small.y.tolist() == [0, 0, 1, 1, 2, 2, 0, -1]
