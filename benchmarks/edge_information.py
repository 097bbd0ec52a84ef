"""What weights, directions and edge types are worth, and what they cost where they tell nothing.

    python benchmarks/edge_information.py run [closed|open] [graph ...]   adds missing rows
    python benchmarks/edge_information.py table                           prints them as Markdown

*closed*: two trainings of vantage on the same split, with what is known of the edges and without, tested on the same
500 tasks of novel classes; the interval is that of the difference over tasks. Views have 128 columns instead of 256,
for speed. *open*: a draw as in open_world.py (two new classes with three examples each, 30 % of the other labels
blank), the open-set model with and without, and the share of right rows among all nodes without a label;
the interval is that of the difference over rows. What is made of the edges is chosen on base classes in both. Where
nothing is used the two models are one (a test compares their bits), and only one is made.
How edges are used was chosen on planted graphs with another seed, on draws 1 and 2 of the open-set rows of the other
graphs, and on validation classes of macports and Email-EU.
"""

import json
import math
import os
import statistics
import sys
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

import fewnode
from fewnode import Graph
from fewnode import tables as io
from fewnode.classifier.inputs import choose_split
from fewnode.classifier.open_set import OpenSetModel
from fewnode.files import read_npz
from fewnode.graph.convert import graph_arguments
from fewnode.graph.edge_types import EdgeUse
from fewnode.nn.views import Views
from fewnode.tasks import TaskSampler, random_split, training_view

ROWS = Path(__file__).resolve().parent / "rows" / "edge_information.jsonl"
KNOWN = ("edge_weight", "edge_type", "edge_type_names", "directed")  # what the graph without this information lacks
SPLITS, SHOTS, QUERIES, TASKS, RANK = (1, 2, 3), (1, 5), 10, 500, 128
DRAWS, OPEN_SHOTS, MIN_SIZE = (1000, 1001, 1002), 3, 10
PLANTED: dict[str, Any] = {"n": 1500, "classes": 24, "homophily": 0.5, "avg_degree": 4, "difficulty": 0.8, "tail": 0.3}


def data_folder() -> Path:
    return Path(os.environ.get("FEWNODE_DATA", "."))


def planted(what: str) -> dict[str, Any]:
    """A planted graph. Where its edges tell something, beside the true edges ("friend") there are twice as many between
    any two nodes; directed edges lead from each class to the next on a ring with probability 0.45, else anywhere."""
    rng = np.random.default_rng(5)
    base, _ = fewnode.planted(**PLANTED, seed=5)
    true, y, n = base.edge_arrays()["edge_index"], base.y.numpy(), base.num_nodes
    known, count = {"x": base.features_scipy(), "y": y}, true.shape[1]
    noise = rng.integers(0, n, (2, 2 * count))
    if what == "weights":
        weights = np.concatenate([rng.gamma(2, 0.5, count), rng.gamma(2, 0.1, 2 * count)])
        return {**known, "edge_index": np.hstack([true, noise]), "edge_weight": weights + 1e-3}
    if what == "kinds":
        kinds = ["friend"] * count + ["ad"] * (2 * count) + ["rival"] * count
        return {**known, "edge_index": np.hstack([true, noise, onwards(y, count, rng)]), "edge_type": kinds}
    if what == "directions":
        return {**known, "edge_index": onwards(y, 2 * count, rng), "directed": True}
    if what == "random weights":
        return {**known, "edge_index": true, "edge_weight": rng.gamma(2, 0.5, count) + 1e-3}
    if what == "random kinds":
        return {**known, "edge_index": true, "edge_type": rng.choice(["a", "b", "c", "d"], count)}
    turned = rng.random(count) < 0.5
    return {**known, "edge_index": np.where(turned, true[::-1], true), "directed": True}


def onwards(y: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Edges from nodes of each class to nodes of the next on a random ring."""
    members = [np.flatnonzero(y == c) for c in range(y.max() + 1)]
    ring = rng.permutation(len(members))
    following = dict(zip(ring.tolist(), np.roll(ring, -1).tolist(), strict=True))
    source = rng.integers(0, len(y), count)
    target = [rng.choice(members[following[c]]) for c in y[source].tolist()]
    return np.stack([source, np.where(rng.random(count) < 0.45, target, rng.integers(0, len(y), count))])


def with_noise(name: str, what: str) -> dict[str, Any]:
    """A real graph with as many edges again between any two nodes, of small weights or of a kind of their own."""
    rng = np.random.default_rng(6)
    graph, _ = fewnode.load_dataset(name)
    true = graph.edge_arrays()["edge_index"]
    count, known = true.shape[1], {"x": graph.features_scipy(), "y": graph.y.numpy()}
    edges = np.hstack([true, rng.integers(0, graph.num_nodes, (2, count))])
    if what == "kinds":
        return {**known, "edge_index": edges, "edge_type": ["given"] * count + ["made up"] * count}
    return {**known, "edge_index": edges, "edge_weight": np.repeat([1.0, 0.2], count)}


def email() -> dict[str, Any]:
    """Who wrote to whom."""
    with np.load(data_folder() / "email_eu_core_nofeat.npz") as arrays:
        return {"edge_index": arrays["edge_index"], "y": arrays["y"], "directed": True}


def macports() -> dict[str, Any]:
    """Which package needs which other, and for what; its class is its category."""
    folder = data_folder() / "raw" / "macports"
    columns = {"id_column": "port", "label_column": "category", "source_column": "port", "target_column": "needs"}
    return io.read_graph(
        folder / "dependencies.csv", folder / "ports.csv", directed=True, edge_type_column="kind", **columns
    ).arguments


def fb15k237() -> dict[str, Any]:
    """Freebase entities, joined by relations."""
    return {**graph_arguments(read_npz(data_folder() / "fb15k237_types.npz")), "directed": True}


GRAPHS = {
    **{f"planted, {what}": lambda what=what: planted(what) for what in ("weights", "directions", "kinds")},
    **{f"planted, random {what}": lambda what=what: planted(f"random {what}") for what in ("weights", "kinds")},
    "planted, random directions": lambda: planted("random directions"),
    "Clothing, noise with weights": lambda: with_noise("amazon_clothing_test20", "weights"),
    "Clothing, noise of a kind": lambda: with_noise("amazon_clothing_test20", "kinds"),
    "Email-EU, directions": email,
    "macports, directions and kinds": macports,
    "FB15k-237, directions and kinds": fb15k237,
}


def run(question: str, names: list[str]) -> None:
    """Add the rows that are missing."""
    done = {(row["question"], row["graph"], row["split"], row["shots"]) for row in read()}
    numbers, shots = (SPLITS, SHOTS) if question == "closed" else (DRAWS, (OPEN_SHOTS,))
    for number, name in ((number, name) for number in numbers for name in names):
        missing = [shot for shot in shots if (question, name, number, shot) not in done]
        if not missing:
            continue
        known = GRAPHS[name]()
        pair = Graph.from_edges(**known), Graph.from_edges(**{k: v for k, v in known.items() if k not in KNOWN})
        for shot in missing:
            row = {"question": question, "graph": name, "split": number, "shots": shot}
            keep(row | (closed(pair, number, shot) if question == "closed" else opened(pair, number)))


def closed(pair: tuple[Graph, Graph], number: int, shots: int) -> dict[str, Any]:
    split = random_split(pair[0].y, min_size=max(SHOTS) + QUERIES, seed=number)
    n_way = min(5, int((TaskSampler(pair[0].y, split.novel).size >= shots + QUERIES).sum()))
    found, notes = [], ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for graph in pair:
            model = fewnode.fit("vantage", graph, split, n_way=n_way, k_shot=shots, rank=RANK)
            notes = notes or model.card.notes
            shape = {"n_way": n_way, "k_shot": shots, "n_query": QUERIES, "n_tasks": TASKS}
            found.append(fewnode.evaluate(model, graph, split.novel, **shape))
            if not edges_used(pair[0], model.views.use):
                found.append(found[0])
                break
    gains = found[0].per_task - found[1].per_task
    return figures(n_way, found[0].accuracy, found[1].accuracy, gains, notes)


def edges_used(graph: Graph, use: EdgeUse) -> bool:
    """Whether anything is made of what is known of the edges."""
    return bool(use.types or use.weights) or (use.weighted and graph.weights is not None)


def opened(pair: tuple[Graph, Graph], seed: int) -> dict[str, Any]:
    from open_world import drawn  # beside this file

    draw = drawn(pair[0].y.numpy(), np.empty(0), seed, "plain")
    left = torch.from_numpy(draw["left"])
    graph, plain = (one.with_labels(left) for one in pair)
    view = training_view(graph, choose_split(graph, MIN_SIZE))
    use, notes = EdgeUse.learned(view), []
    answers = [answered(graph, use, pair[0].y, draw)] if edges_used(graph, use) else []
    answers.append(answered(plain, EdgeUse(), pair[0].y, draw))
    (known, with_), (blind, without) = answers[0], answers[-1]
    row = figures(len(draw["new"]), float(known.mean()), float(blind.mean()), known - blind, tuple(notes))
    return row | {"precision_with": round(with_, 4), "precision_without": round(without, 4)}


def answered(graph: Graph, use: EdgeUse, truth: torch.Tensor, draw: dict[str, Any]) -> tuple[torch.Tensor, float]:
    """Which rows are right, and the average precision of the new classes."""
    from open_world import average_precision

    left = graph.y
    ids = left[left >= 0].unique()
    number = torch.full((int(truth.max()) + 2,), -1)
    number[ids] = torch.arange(len(ids))
    views = Views(graph.num_features, use=use).fit(graph)
    model = OpenSetModel.fit(graph, views, number[left], tuple(map(str, ids.tolist())))
    examples = {f"new {c}": torch.from_numpy(nodes[:OPEN_SHOTS]) for c, nodes in draw["new"].items()}
    asked = (left < 0) & (truth >= 0)
    asked[torch.cat(list(examples.values()))] = False
    pool = asked.nonzero().flatten()
    p = model.adapt(examples, pool=pool).probabilities(pool)
    target = number[truth[pool]] + len(examples)
    for at, c in enumerate(draw["new"]):
        target[truth[pool] == c] = at
    ranked = [average_precision(p[:, at], target == at) for at in range(len(examples))]
    return (p.argmax(1) == target).float(), statistics.fmean(ranked)


def figures(n_way: int, known: float, blind: float, gains: Any, notes: tuple[str, ...]) -> dict[str, Any]:
    gains = [float(gain) for gain in gains]
    told = [note for note in notes if note.startswith(("directions", "kinds", "edges within"))]
    return {
        "n_way": n_way,
        "with": round(known, 4),
        "without": round(blind, 4),
        "gain": round(statistics.fmean(gains), 4),
        "interval": round(1.96 * statistics.stdev(gains) / math.sqrt(len(gains)), 4),
        "told": "; ".join(told),
    }


def keep(row: dict[str, Any]) -> None:
    with ROWS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    print(json.dumps(row), flush=True)


def read() -> list[dict[str, Any]]:
    return [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()] if ROWS.exists() else []


def table() -> str:
    """The rows as Markdown: means over splits or draws; the interval is that of the mean gain."""
    return f"{table_of('open')}\n\n{table_of('closed')}"


def table_of(question: str) -> str:
    cells: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for row in (row for row in read() if row["question"] == question):
        cells[row["graph"], row["shots"]].append(row)
    of = "splits" if question == "closed" else "draws"
    lines = [
        f"| {question}-set classification | examples | {of} | without | with | gain | used in |",
        f"|---|{'---:|' * 6}",
    ]
    for name in GRAPHS:
        for shots in (*SHOTS, OPEN_SHOTS):
            if rows := cells.get((name, shots)):
                without, known, gain = (
                    statistics.fmean(row[key] for row in rows) for key in ("without", "with", "gain")
                )
                interval = math.sqrt(sum(row["interval"] ** 2 for row in rows)) / len(rows)
                used = sum(row["with"] != row["without"] or row["gain"] != 0 for row in rows)
                lines.append(
                    f"| {name} | {shots} | {len(rows)} | {100 * without:.1f} | {100 * known:.1f} | "
                    f"{100 * gain:+.1f} ± {100 * interval:.1f} | {used} |"
                )
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        torch.set_num_threads(1)
        questions = [part for part in sys.argv[2:] if part in ("closed", "open")] or ["open", "closed"]
        names = [part for part in sys.argv[2:] if part in GRAPHS] or list(GRAPHS)
        for question in questions:
            run(question, names)
    else:
        print(table())
