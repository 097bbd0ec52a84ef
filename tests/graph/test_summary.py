"""A graph in numbers."""

from dataclasses import asdict

from fewnode.graph import Graph
from fewnode.graph.graph import summary
from fewnode.tasks import ClassSplit


def test_counts_of_a_small_graph():
    edges = [
        [0, 1, 1, 3, 3, 0],
        [1, 0, 2, 3, 4, 1],
    ]  # a path of three, a pair, an isolated node; a loop, repeats
    graph = Graph.from_edges(edges, y=[0, 0, 1, 2, -1, 2], num_nodes=6, class_names=["a", "b", "c"])
    facts = summary(graph, asdict(ClassSplit(base=[0], novel=[2])))
    assert facts["nodes"] == 6 and facts["edges"] == 3 and facts["labelled"] == 5
    assert facts["isolated"] == 1 and facts["components"] == 3 and facts["max_degree"] == 2
    assert facts["self_loops"] == 1 and not facts["has_features"]
    assert facts["split"] == {"base": [0], "validation": [], "novel": [2]}
    assert [(row["name"], row["nodes"], row["part"]) for row in facts["classes"]] == [
        ("a", 2, "base"),
        ("b", 1, None),
        ("c", 2, "novel"),
    ]
