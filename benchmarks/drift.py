"""Drift where the truth is known: `python benchmarks/drift.py [CASE ...] [--table]`; rows in rows/drift.jsonl.

Cases: *halves* of the same graph (no drift), a class that *triples*, a column in other *units* (times 2.2), and arXiv
before and after a *year*. Every row is a draw; finished ones are skipped. Draws from 100 on were made when the rules
were fixed, those before were looked at while they were made; the table has them apart.
"""

import json
import os
import sys
import time
from itertools import groupby
from pathlib import Path

import numpy as np
from sklearn.decomposition import TruncatedSVD

import fewnode
from fewnode import Graph
from fewnode.classifier.drift import measure_drift
from fewnode.classifier.features import FeatureSchema

ROWS = Path(__file__).parent / "rows" / "drift.jsonl"
DATA = Path(os.environ.get("FEWNODE_DATA", "data"))
FRESH = 100  # the first draw that nobody looked at


def part(graph: Graph, nodes: np.ndarray) -> Graph:
    """The subgraph of some nodes."""
    edges, place = graph.edge_arrays()["edge_index"], np.full(graph.num_nodes, -1)
    place[nodes] = np.arange(len(nodes))
    kept = place[edges][:, (place[edges] >= 0).all(0)]
    names = {"class_names": graph.class_names, "feature_names": graph.feature_names}
    x = graph.features_scipy()
    return Graph.from_edges(
        kept, None if x is None else x[nodes], graph.y.numpy()[nodes], num_nodes=len(nodes), **names
    )


def halves(graph: Graph, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    first, second = np.array_split(random.permutation(graph.num_nodes), 2)
    return first, second


def tripled(graph: Graph, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Halves, of which the second has three times the share of a class of middle size; as many nodes in the first."""
    first, second = halves(graph, random)
    y = graph.y.numpy()
    sizes = np.bincount(y[y >= 0])
    middle = np.argsort(-sizes)[len(sizes) // 4 : len(sizes) // 2]
    inside = y[second] == random.choice(middle)
    share = 3 * inside.mean()
    second = np.concatenate([second[inside], second[~inside][: int(inside.sum() * (1 - share) / share)]])
    return first[: len(second)], second


def compared(before: Graph, after: Graph, seed: int) -> dict[str, object]:
    schema, started = FeatureSchema.of(before), time.perf_counter()
    if before.has_features:
        before, after = schema.fit(before), schema.fit(after)
    found = measure_drift(before, after, seed=seed)
    return {
        "drift": bool(found.reasons), "verdict": found.verdict, "auc": round(found.auc, 4),
        "interval": [round(end, 4) for end in found.interval],
        "column": round(found.columns[0].psi, 4) if found.columns else None,
        "nodes": [found.n_before, found.n_after],
        "seconds": round(time.perf_counter() - started, 2),
    }  # fmt: skip


def arxiv() -> tuple[Graph, np.ndarray]:
    """The graph of arXiv and the year of each paper."""
    stem = DATA / "text/arxiv_cs40_coauthors"
    nodes = Path(f"{stem}.nodes.csv.gz")
    given = {"label_column": "class", "text_column": "text", "ignore_column": ["created", "all_categories"]}
    graph = Graph.from_files(f"{stem}.edges.csv.gz", nodes, **given)
    import pandas

    years = pandas.read_csv(nodes, dtype=str).set_index("id")["created"].str[:4].astype(int)
    return graph, years.loc[list(graph.node_names)].to_numpy()


def cases():
    """Case, data set, draw and what makes the two graphs."""
    for name in ("coauthor_cs", "amazon_clothing_test20", "wordnet", "cora_full_knnfeat"):
        graph = None

        def load(name=name):
            nonlocal graph
            graph = graph or fewnode.load_dataset(name)[0]
            return graph

        for draw in (*range(12), *range(FRESH, FRESH + 8)):
            yield "halves", name, draw, lambda r, load=load: [part(load(), nodes) for nodes in halves(load(), r)]
        for draw in (*range(5), *range(FRESH, FRESH + 5)):
            yield "triples", name, draw, lambda r, load=load: [part(load(), nodes) for nodes in tripled(load(), r)]

    def units(random):
        graph = fewnode.load_dataset("coauthor_cs")[0]
        x = TruncatedSVD(16, random_state=0).fit_transform(graph.features_scipy()).astype(np.float32)
        x[:, 0] = 50 + 15 * x[:, 0] / x[:, 0].std()
        graph = Graph.from_edges(**graph.edge_arrays(), x=x, y=graph.y.numpy())
        before, after = (part(graph, nodes) for nodes in halves(graph, random))
        changed = after.features.clone()
        changed[:, random.integers(16)] *= 2.2
        return before, after.with_features(changed)

    for draw in range(5):
        yield "units", "coauthor_cs, 16 columns", draw, units
    if (DATA / "text/arxiv_cs40_coauthors.nodes.csv.gz").exists():
        whole = None

        def years(random, first, last):
            nonlocal whole
            whole = whole or arxiv()
            graph, year = whole
            chosen = [np.flatnonzero((year >= a) & (year <= b)) for a, b in (first, last)]
            if first == last:
                chosen = np.array_split(random.permutation(chosen[0]), 2)
            size = min(15_000, *map(len, chosen))
            return [part(graph, np.sort(random.permutation(nodes)[:size])) for nodes in chosen]

        for draw in range(3):
            yield "halves", "arXiv 2015", draw, lambda r: years(r, (2015, 2015), (2015, 2015))
            yield "year", "arXiv 2013-15, then 2018", draw, lambda r: years(r, (2013, 2015), (2018, 2018))
            yield "year", "arXiv 2015, then 2016", draw, lambda r: years(r, (2015, 2015), (2016, 2016))


def run() -> None:
    done = {(row["case"], row["data"], row["draw"]) for row in rows()}
    for case, data, draw, make in cases():
        if (case, data, draw) not in done and case in (sys.argv[1:] or [case]):
            before, after = make(np.random.default_rng(7000 + draw))
            row = {"case": case, "data": data, "draw": draw, **compared(before, after, draw)}
            with ROWS.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(row, flush=True)


def rows() -> list[dict[str, object]]:
    return [json.loads(line) for line in ROWS.read_text().splitlines()] if ROWS.exists() else []


def table() -> str:
    lines = ["| case | data | draws | drift found | AUC |", "|---|---|---:|---:|---:|"]

    def key(row: dict) -> tuple[str, str]:
        return row["case"], row["data"] + ", fresh draws" * (row["draw"] >= FRESH)

    for (case, data), group in groupby(sorted(rows(), key=key), key):
        part = list(group)
        auc = np.mean([row["auc"] for row in part])
        lines.append(f"| {case} | {data} | {len(part)} | {sum(row['drift'] for row in part)} | {auc:.3f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table()) if "--table" in sys.argv else run()
