"""Drift where the truth is known: the same distribution, other units, another class, nodes far from everything."""

import numpy as np
import pytest

import own_graph
from fewnode import FewShotClassifier, Graph, InputError
from fewnode.classifier.drift import auc_interval, drift_tables, measure_drift
from fewnode.tables.importing import import_tables

COLUMNS = tuple("abcdefgh")


def drawn(seed, shares=(0.4, 0.3, 0.2, 0.1), n=1200, degree=3, shift=0.0):
    """A graph of four classes with these shares, each node linked to a few of its class."""
    random = np.random.default_rng(seed)
    centres = 2 * np.random.default_rng(1).normal(size=(4, len(COLUMNS)))
    y = random.choice(4, n, p=shares)
    x = centres[y] + random.normal(size=(n, len(COLUMNS))) + shift
    source = np.repeat(np.arange(n), degree)
    target = np.array([random.choice(np.flatnonzero(y == c)) for c in y[source]])
    names = {"class_names": tuple("wxyz"), "feature_names": COLUMNS}
    return Graph.from_edges(np.stack([source, target]), x.astype(np.float32), y, **names)


def changed(graph, column, factor):
    x = graph.features.clone()
    x[:, COLUMNS.index(column)] *= factor
    return graph.with_features(x, graph.feature_names)


def test_the_same_distribution_is_no_drift():
    alarms = [measure_drift(drawn(seed), drawn(100 + seed), seed=seed).reasons for seed in range(12)]
    assert sum(map(bool, alarms)) <= 1, alarms


def test_what_has_changed_is_named():
    before, same = drawn(0), drawn(1)
    units = measure_drift(before, changed(same, "c", 1000.0))
    assert (
        units.columns[0].name == "c" and units.columns[0].beyond_chance and "columns have shifted (c" in units.verdict
    )
    tripled = measure_drift(before, drawn(2, shares=(0.32, 0.22, 0.16, 0.30)))
    was, now = tripled.classes["z"]
    assert abs(was - 0.1) < 0.03 and abs(now - 0.3) < 0.03
    assert any("most of all z" in reason for reason in tripled.reasons)
    denser = measure_drift(before, drawn(3, degree=9))
    assert any("told from old ones" in reason for reason in denser.reasons) and denser.degrees[1] > denser.degrees[0]
    away = measure_drift(before, drawn(4, shift=30.0))
    assert away.auc > 0.99 and any("columns have shifted" in reason for reason in away.reasons)


def test_graphs_without_features_are_compared_by_degrees():
    def plain(graph):
        return Graph.from_edges(graph.edge_arrays()["edge_index"], num_nodes=graph.num_nodes)

    assert not measure_drift(plain(drawn(0)), plain(drawn(1))).reasons
    found = measure_drift(plain(drawn(0)), plain(drawn(1, degree=9)))
    assert found.reasons and found.columns == [] and found.classes == {}


def test_auc_and_its_interval():
    random = np.random.default_rng(0)
    low, high = random.normal(size=400), random.normal(size=300) + 1
    auc, (start, end) = auc_interval(low, high)
    assert auc == pytest.approx((high[:, None] > low).mean())
    assert start < 0.76 < end and end - start == pytest.approx(4 * 1.96 * 0.0088, rel=0.15)
    assert auc_interval(np.zeros(5), np.zeros(5))[0] == 0.5
    assert auc_interval(np.zeros(5), np.ones(5)) == (1.0, (1.0, 1.0))


def test_tables(home, tmp_path):
    own_graph.write_tables(tmp_path, seed=3)
    files = {"edges": tmp_path / "edges.csv", "nodes": tmp_path / "nodes.csv"}
    found = drift_tables(home / "m", **files)
    assert (found.n_before, found.n_after) == (240, 240) and not found.reasons
    # Of the new nodes, half are there; their edges to the others lead to nodes of the fitted graph.
    lines = files["nodes"].read_text().splitlines()
    files["nodes"].write_text("\n".join([lines[0], *lines[1:121]]) + "\n")
    half = drift_tables(home / "m", **files)
    assert half.n_after == 120, "nodes that only edges name are not new"
    with pytest.raises(InputError, match="too few to compare"):
        files["nodes"].write_text("\n".join(lines[:20]) + "\n")
        drift_tables(home / "m", **files)


def test_a_store_is_compared_as_its_tables(home, tmp_path):
    store, model = tmp_path / "g.store", tmp_path / "m"
    import_tables(home / "edges.csv", home / "nodes.csv", store)
    FewShotClassifier(k_shot=3).fit(edges=store).save(model)
    own_graph.write_tables(tmp_path, seed=3)
    found, plain = (
        drift_tables(folder, tmp_path / "edges.csv", tmp_path / "nodes.csv") for folder in (model, home / "m")
    )
    assert (found.n_before, found.reasons) == (240, [])
    assert found.auc == pytest.approx(plain.auc, abs=0.03) and found.degrees == pytest.approx(plain.degrees)
