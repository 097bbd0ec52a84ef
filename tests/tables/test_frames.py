import datetime

import pytest

from fewnode import Graph
from fewnode.errors import InputError

EDGES = {"from": ["a", "b", "c"], "to": ["b", "c", "d"], "weight": [1.0, 2.0, 0.5]}
NODES = {
    "id": ["a", "b", "c", "d"],
    "label": ["mail", None, "news", "mail"],
    "age": [1, 2, None, 4],
    "born": [datetime.date(2020, 1, 1)] * 3 + [datetime.date(2021, 1, 1)],
}


@pytest.fixture(params=["pandas", "polars"])
def frame(request):
    library = pytest.importorskip(request.param, reason=f"{request.param} is not installed")
    return library.DataFrame


def test_frames_of_edges_and_nodes(frame):
    graph = Graph.from_frames(frame(EDGES), frame(NODES), weight_column="weight")
    assert graph.node_names == ("a", "b", "c", "d") and graph.class_names == ("mail", "news")
    assert graph.y.tolist() == [0, -1, 1, 0] and graph.num_edges == 3
    assert any("age" in name for name in graph.feature_names)
    assert graph.weights.tolist() == [1, 1, 2, 2, 0.5, 0.5]
    again = Graph.of(frame(EDGES), frame(NODES), directed=True)
    assert again.directed and again.node_names == graph.node_names


def test_whole_numbers_as_ids(frame):
    graph = Graph.of(frame({"u": [10, 20], "v": [20, 30]}))
    assert graph.node_names == ("10", "20", "30")


def test_mistakes_in_frames_are_named_by_row(frame):
    with pytest.raises(InputError, match="edges, row 2, column"):
        Graph.of(frame({"u": [10, None], "v": [20, 30]}))
    with pytest.raises(InputError, match="DataFrame without rows"):
        Graph.of(frame({"u": [], "v": []}))
    with pytest.raises(InputError, match="nodes is a value of type int"):
        Graph.of(frame(EDGES), nodes=3)


def test_an_index_with_a_name_is_a_column():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    nodes = pandas.DataFrame(NODES).set_index("id")
    assert Graph.from_frames(pandas.DataFrame(EDGES), nodes).y.tolist() == [0, -1, 1, 0]
    with pytest.raises(InputError, match="two columns called 'a'"):
        Graph.of(pandas.DataFrame([[1, 2]], columns=["a", "a"]))
