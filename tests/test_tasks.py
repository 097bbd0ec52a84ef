import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fewnode import ClassSplit, Tasks, draw_tasks, random_split, training_view
from fewnode.errors import InputError
from fewnode.tasks import _sample_rows, random_bits
from oracles.philox import philox


def test_pools_are_kept(tmp_path):
    tasks = draw_tasks(np.arange(60) % 6, range(6), 3, 1, 2, 4, 0)
    tasks.save(tmp_path / "pool.npz")
    again = Tasks.load(tmp_path / "pool.npz")
    for name in ("support", "support_y", "query", "query_y"):
        assert torch.equal(getattr(again, name), getattr(tasks, name))
    assert again.n_way == 3
    (tmp_path / "pool.pkl").write_bytes(pickle.dumps([([1], [0], [2], [0])]))
    with pytest.raises(InputError, match=r"pool\.pkl is damaged; .* or is not a readable \.npz archive") as refused:
        Tasks.load(tmp_path / "pool.pkl")
    assert "allow_pickle" not in str(refused.value)  # NumPy's advice
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    with pytest.raises(InputError, match="not a pool of tasks: it has no query, support, support_y"):
        Tasks.load(tmp_path / "other.npz")


def test_a_pool_may_be_json(tmp_path):
    path = tmp_path / "pool.json"
    path.write_text('{"support": [[0, 1, 2]], "support_y": [[0, 1, 1]], "query": [[3, 4]], "query_y": [[0, 1]]}')
    tasks = Tasks.load(path)
    assert (tasks.n_way, tasks.support.tolist(), tasks.query_y.tolist()) == (2, [[0, 1, 2]], [[0, 1]])
    for text in ('{"support": [[0, 1]]}', "[1, 2]", '{"support": "x"}', "{"):
        path.write_text(text)
        with pytest.raises(InputError, match=r"pool\.json"):
            Tasks.load(path)


def test_queries_may_be_unbalanced():
    y = np.repeat(np.arange(4), [200, 20, 10, 10])
    tasks = draw_tasks(y, range(4), 3, 2, 6, 2000, 0, balanced=False)
    same = draw_tasks(y, range(4), 3, 2, 6, 2000, 0)
    assert torch.equal(tasks.support, same.support) and tasks.query.shape == same.query.shape
    joined = torch.cat([tasks.support, tasks.query], 1).sort(1).values
    assert bool((joined.diff(dim=1) > 0).all())  # no node twice, supports among the queries least of all
    own = torch.from_numpy(y)[tasks.support][:, ::2]  # the class of each number in each task
    assert torch.equal(own.gather(1, tasks.query_y), torch.from_numpy(y)[tasks.query])
    with_large = (own == 0).any(1)
    share = (torch.from_numpy(y)[tasks.query] == 0).double().mean(1)[with_large].mean()
    assert 0.85 < share < 0.93  # 198 of about 198 + 2 * 11 nodes that are no supports


def test_a_split_is_read_from_json(tmp_path):
    path = tmp_path / "split.json"
    path.write_text('{"base": [3, 1], "novel": [2]}')
    assert ClassSplit.load(path) == ClassSplit([3, 1], [], [2])
    path.write_text("[[0.0, 2.0], [1], [5]]")  # as the authors of TENT publish theirs
    assert ClassSplit.load(path) == ClassSplit([0, 2], [1], [5])
    for text, words in {
        '{"train": [1]}': "Invalid enum value 'train'",
        "[[1], [2]]": "Expected `array` of length 3",
        "[[0.5], [1], [2]]": "Expected `int`, got `float`",
        "[[1], [1], [2]]": "class 1 is in base and again in validation",
        '{"base": ["x"]}': "damaged",
    }.items():
        path.write_text(text)
        with pytest.raises(InputError, match=words):
            ClassSplit.load(path)


GOOD = dict(support=[[0, 1, 2]], support_y=[[0, 1, 1]], query=[[3, 4]], query_y=[[0, 1]])


def test_shots_may_be_unequal_and_labels_unknown():
    tasks = Tasks(**GOOD | {"query_y": None})
    assert tasks.n_way == 2 and tasks.shots().tolist() == [[1, 2]] and tasks.query_y is None
    assert Tasks(**GOOD)[:1].query_y is not None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (dict(support_y=[[0, 1]]), r"support_y has shape \(1, 2\); expected \[1, 3\]"),
        (dict(support_y=np.zeros((1, 0), int)), r"support_y has shape \(1, 0\); expected \[1, 3\]"),
        (dict(support_y=[[0, 2, 2]]), "task 0 has no support of class 1"),
        (dict(support_y=[[0, -1, 1]]), r"support_y\[0, 1\] is -1"),
        (dict(query_y=[[0, 5]]), r"query_y\[0, 1\] is 5; the classes of a 2-way task are 0..1"),
        (dict(support=[[0, -1, 2]]), r"support\[0, 1\] is -1; node ids from 0"),
        (dict(support=[[0.5, 1.0, 2.0]]), "support has dtype float64"),
        (dict(query=[[3, 4], [3, 4]], query_y=None), r"query has shape \(2, 2\); expected \[1, nodes\]"),
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


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.integers(0, 2**70))
def test_tasks_are_drawn_by_the_rules(n_way, k_shot, n_query, seed):
    y = np.random.default_rng(0).permutation(np.repeat(np.arange(6), [6, 7, 8, 9, 2, 30]))
    tasks = draw_tasks(y, [0, 1, 2, 3, 4], n_way, k_shot, n_query, 20, seed)
    nodes = torch.cat([tasks.support, tasks.query], 1)
    assert all(len(set(row.tolist())) == len(row) for row in nodes)  # nobody twice, supports are not queries
    labels = torch.from_numpy(y)
    for task in range(20):
        classes = []
        for position in range(n_way):
            support = labels[tasks.support[task]][tasks.support_y[task] == position]
            query = labels[tasks.query[task]][tasks.query_y[task] == position]
            assert (len(support), len(query)) == (k_shot, n_query)
            members = set(support.tolist()) | set(query.tolist())
            assert len(members) == 1  # one class, the same for supports and queries
            classes += members
        assert len(set(classes)) == n_way and 5 not in classes
        assert 4 not in classes or k_shot + n_query <= 2


def test_drawing_is_uniform_over_classes_nodes_and_roles():
    y = np.repeat(np.arange(4), 5)
    tasks = draw_tasks(y, range(4), 2, 1, 2, 20_000, 3)
    for nodes, share in ((tasks.support, 0.1), (tasks.query, 0.2)):
        counts = torch.bincount(nodes.ravel(), minlength=20) / 20_000
        assert (counts - share).abs().max() < 0.015


def test_floyd_rows_hold_distinct_numbers_below_their_size():
    bits = np.random.Philox(key=1).random_raw(2 * 500 * 4).reshape(2, 500, 4)
    rows = _sample_rows(np.full(500, 4), *bits)
    assert (np.sort(rows, 1) == np.arange(4)).all()
    assert len({tuple(row) for row in rows}) == 24  # every order occurs


def test_the_same_seed_gives_these_tasks_on_every_machine():
    y = np.arange(60) % 6
    tasks = draw_tasks(y, range(6), 3, 1, 2, 2, 2022)
    assert tasks.support.tolist() == [[32, 37, 21], [47, 37, 18]]
    assert tasks.query.tolist() == [[2, 44, 19, 55, 9, 33], [29, 23, 49, 25, 24, 36]]


def test_the_bits_are_those_of_philox_as_published():
    words = [0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B]
    assert philox([0, 0, 0, 0], [0, 0]) == words  # the authors' known answer holds for our copy of the algorithm
    seed = (7 << 64) + 2022
    expected = [word for block in (1, 2, 3) for word in philox([block, 0, 0, 0], [2022, 7])]  # NumPy counts from one
    assert random_bits(seed, 12).tolist() == expected


def test_a_generator_supplies_the_seed_and_moves_on():
    y = np.arange(60) % 6
    first, second = torch.Generator().manual_seed(5), torch.Generator().manual_seed(5)
    a, b = (draw_tasks(y, range(6), 3, 1, 2, 4, first) for _ in range(2))
    again = draw_tasks(y, range(6), 3, 1, 2, 4, second)
    assert torch.equal(a.support, again.support) and not torch.equal(a.support, b.support)


def test_impossible_requests_are_refused_with_the_numbers():
    y = np.repeat(np.arange(10), [30] * 7 + [3] * 3)
    with pytest.raises(InputError, match=r"10-way needs 10 classes with at least 15 labelled nodes.*7 have.*7 with 3"):
        draw_tasks(y, range(10), 10, 5, 10, 5, 0)
    with pytest.raises(InputError, match="k_shot is 0"):
        draw_tasks(y, range(10), 2, 0, 10, 5, 0)
    with pytest.raises(InputError, match="seed -1"):
        draw_tasks(y, range(10), 2, 1, 1, 5, -1)


def test_split_parts_must_not_overlap():
    assert ClassSplit([0, 1], [2], np.array([3])).novel == (3,)
    with pytest.raises(InputError, match="class 1 is in base and again in novel"):
        ClassSplit([0, 1], [2], [1])
    with pytest.raises(InputError, match="class -1 in base"):
        ClassSplit([-1])


def test_classes_are_ids():
    for give in (lambda: ClassSplit(["a"]), lambda: draw_tasks([0, 0, 1, 1], ["a", "b"], 2, 1, 1, 5)):
        with pytest.raises(InputError, match=r"classes are given by their ids, whole numbers from 0: .*'a'"):
            give()


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
    with pytest.raises(InputError, match="labels has dtype float64; expected integers"):
        random_split([0.0, 1.0, 2.0])


def test_training_view_hides_every_other_label(small):
    view = training_view(small, ClassSplit([0], [1], [2]))
    assert view.y.tolist() == [0, 0, -1, -1, -1, -1, 0, -1]
    assert small.y.tolist() == [0, 0, 1, 1, 2, 2, 0, -1]
