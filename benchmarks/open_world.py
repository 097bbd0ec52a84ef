"""Open-set classification on real graphs: known classes, two new ones, and hard cases.

A draw takes two classes as new (all their members lose their labels, 3 or 10 are given as examples) and blanks 30 % of
the labels of the others. In the case *large* the first new class is one of the largest; in *similar* it resembles a
known one; in *corner* its examples are alike; in *hidden* a third class of 10 to 35 % of the unlabelled nodes loses its
labels and nobody names it. All nodes without a label whose truth is known are predicted. Rows are appended as they
finish; what is there already is not run again.

    python benchmarks/open_world.py [--quick] [--family 4000] [--part model|known|all] [--draws 2] [--cases hidden ...]
    python benchmarks/open_world.py --table          # what the rows say
    python benchmarks/open_world.py --speed          # adapting and predicting on 170,000 nodes

The data sets beside the bundled ``wordnet`` are looked for in the folder that FEWNODE_DATA names.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from torch import Tensor, nn
from torch.nn import functional as F

import fewnode
from fewnode.classifier import simulation as expectation
from fewnode.classifier.known_classes import ViewPCA
from fewnode.classifier.open_set import OpenSetModel
from fewnode.graph.arrays import to_tensor
from fewnode.graph.operators import normalized_adjacency, project
from fewnode.nn.views import Views

GRAPHS = (
    "email_eu_core_nofeat",
    "lastfm_asia_nofeat",
    "amazon_clothing_test20",
    "cora70_titles",
    "macports",
    "coauthor_cs",
    "nell_partial",
    "cora_full_knnfeat",
    "wordnet",
    "arxiv_cs40_coauthors",
)
TABLES = {  # graphs that are tables with texts: nodes, edges, the column of labels
    "macports": ("raw/macports/ports.csv", "raw/macports/dependencies.csv", "category"),
    "cora70_titles": ("text/cora70_titles.nodes.csv.gz", "text/cora70_titles.edges.csv.gz", "class"),
    "arxiv_cs40_coauthors": (
        "text/arxiv_cs40_coauthors.nodes.csv.gz",
        "text/arxiv_cs40_coauthors.edges.csv.gz",
        "class",
    ),
}
CASES = ("plain", "large", "similar", "hidden", "corner")
ROWS = Path(__file__).parent / "rows" / "open_world.jsonl"
SHOTS, DRAWS, BLANKED, LEAST = (3, 10), 2, 0.3, 20
REPORTED = 4000  # draws from here on are for reports; the model was developed on draws below it, and on 5000 to 5999
FAMILY = 6000  # the draws that are made: 6000 and 6001


def load(name: str) -> Any:
    if name not in TABLES:
        return fewnode.load_dataset(name)[0]
    nodes, edges, label = TABLES[name]
    folder = Path(os.environ["FEWNODE_DATA"])
    return fewnode.Graph.from_files(edges=folder / edges, nodes=folder / nodes, label_column=label)


def drawn(y: np.ndarray, x: np.ndarray, seed: int, case: str) -> dict[str, Any]:
    """The labels that are left, the new classes with their members in random order, and the class nobody named."""
    rng = np.random.default_rng([seed, CASES.index(case)])
    sizes = np.bincount(y[y >= 0])
    usable = rng.permutation(np.flatnonzero(sizes >= LEAST))
    first, hidden = usable[0], np.empty(0, int)
    if case == "large":
        first = rng.choice(usable[np.argsort(-sizes[usable])][: max(3, len(usable) // 8)])
    if case == "similar":
        means = np.stack([x[y == c].mean(0) for c in usable]) - x.mean(0)
        means /= np.linalg.norm(means, axis=1, keepdims=True) + 1e-9
        alike = means @ means.T - 2 * np.eye(len(usable))
        at = rng.choice(np.argsort(-alike.max(1))[: max(3, len(usable) // 6)])
        first, near = usable[at], usable[alike[at].argmax()]
        usable = usable[usable != near]  # it stays known
    second = next(c for c in usable if c != first)
    if case == "hidden":
        rest = [c for c in usable if c not in (first, second)]
        share = {c: sizes[c] / (BLANKED * (sizes.sum() - sizes[c]) + sizes[c]) for c in rest}
        fit = [c for c in rest if 0.1 <= share[c] <= 0.35] or sorted(rest, key=lambda c: -sizes[c])[:3]
        hidden = np.array([rng.choice(fit)])
    members = {int(c): rng.permutation(np.flatnonzero(y == c)) for c in (first, second)}
    if case == "corner":
        for c, nodes in members.items():
            order = np.argsort(np.linalg.norm(x[nodes] - x[nodes[0]], axis=1))
            corner = order[: max(max(SHOTS), len(nodes) // 6)]
            members[c] = np.concatenate([nodes[rng.permutation(corner)], np.delete(nodes, corner)])
    left = np.where(np.isin(y, [first, second, *hidden]), -1, y)
    known = np.flatnonzero(left >= 0)
    left[rng.permutation(known)[: int(BLANKED * len(known))]] = -1
    return {"left": left, "new": members, "hidden": hidden}


def average_precision(scores: Tensor, positive: Tensor) -> float:
    hits = positive[scores.argsort(descending=True)].double()
    return float((hits.cumsum(0) / torch.arange(1, len(hits) + 1) * hits).sum() / hits.sum())


def auroc(scores: Tensor, positive: Tensor) -> float:
    rank = torch.empty(len(scores), dtype=torch.double)
    rank[scores.argsort()] = torch.arange(1, len(scores) + 1, dtype=torch.double)
    n = float(positive.sum())
    return float((rank[positive].sum() - n * (n + 1) / 2) / (n * (len(scores) - n)))


def model_rows(name: str, graph: Any, views: Views, seed: int, case: str) -> list[dict[str, Any]]:
    draw = drawn(graph.y.numpy(), coordinates(graph, views), seed, case)
    left, y = torch.from_numpy(draw["left"]), graph.y
    ids = left[left >= 0].unique()
    number = torch.full((graph.num_classes + 1,), -1)
    number[ids] = torch.arange(len(ids))
    started = time.perf_counter()
    model = OpenSetModel.fit(graph, views, number[left], tuple(map(str, ids.tolist())))
    seconds = time.perf_counter() - started
    rows = []
    for shots in SHOTS:
        examples = {f"new {c}": torch.from_numpy(nodes[:shots]) for c, nodes in draw["new"].items()}
        used = torch.cat(list(examples.values()))
        asked = (((left < 0) & (y >= 0)).nonzero().flatten()).tolist()
        pool = torch.tensor(sorted(set(asked) - set(used.tolist())))
        group = torch.where(number[y[pool]] >= 0, 0, len(examples) + 1)
        for i, c in enumerate(draw["new"]):
            group[y[pool] == c] = i + 1
        row = {"kind": "model", "graph": name, "draw": seed, "case": case, "shots": shots, "fit_s": seconds}
        rows.append(row | measured(model, examples, pool, group, number[y[pool]]))
    return rows


def coordinates(graph: Any, views: Views) -> np.ndarray:
    made = views(graph)
    return ViewPCA.fit(made, graph.ranks).coordinates(made, graph.space).numpy()


def expected_calibration_error(p: Tensor, y: Tensor, bins: int = 15) -> float:
    """How far confidence and the share of right answers are apart, averaged over equal-width bins of confidence."""
    confidence, choice = p.max(1)
    bin_of = (confidence.double() * bins).long().clamp(max=bins - 1)
    gap = torch.zeros(bins, dtype=torch.float64).index_add_(0, bin_of, confidence.double() - (choice == y).double())
    return float(gap.abs().sum() / len(y))


def best_f1(scores: Tensor, positive: Tensor) -> float:
    """The best that any threshold on the scores reaches."""
    hits = positive[scores.argsort(descending=True)].double().cumsum(0)
    return float((2 * hits / (torch.arange(1, len(hits) + 1) + positive.sum())).max())


def f1(called: Tensor, positive: Tensor) -> float:
    return 2 * float((called & positive).sum()) / max(1, int(called.sum() + positive.sum()))


def measured(
    model: OpenSetModel, examples: dict[str, Tensor], pool: Tensor, group: Tensor, known: Tensor
) -> dict[str, Any]:
    """Everything about one task; ``group`` is 0 for known, 1.. for the new classes, then other."""
    started = time.perf_counter()
    task = model.adapt(examples)
    adapted = time.perf_counter()
    p = task.probabilities(pool)
    predicted = time.perf_counter()
    n_new = len(examples)
    target = torch.where(group == 0, known + n_new, torch.where(group > n_new, p.shape[1] - 1, group - 1))
    own, choice = p[:, n_new:-1], p.argmax(1)
    best, _ = expectation.collapsed(torch.cat([own, p[:, :n_new], p[:, -1:]], 1), own.shape[1])
    right = own.argmax(1) == known
    truth = expectation.Counts.achieved(best, group, right, torch.ones(len(pool))).figures()
    told = task.expect(p, torch.ones(len(pool), dtype=torch.bool)).to_json()
    members = [group == i + 1 for i in range(n_new)]
    found = {
        "rows": len(pool),
        "members": [int(part.sum()) for part in members],
        "others": int((group > n_new).sum()),
        "known_accuracy": float(right[group == 0].float().mean()),
        "truth": truth,
        "told": {"right": told["right"], "known": told["known"]}
        | {part: [one[part] for one in told["classes"].values()] for part in ("precision", "recall")},
        "calibration_error": expected_calibration_error(p, target),
        "average_precision": [average_precision(p[:, i], part) for i, part in enumerate(members)],
        "f1": [f1(choice == i, part) for i, part in enumerate(members)],
        "best_f1": [best_f1(p[:, i], part) for i, part in enumerate(members)],
        "adapt_s": adapted - started,
        "predict_s": predicted - adapted,
    }
    if found["others"]:
        other = group > n_new
        found |= {"auroc_other": auroc(p[:, -1], other), "f1_other": f1(choice == p.shape[1] - 1, other)}
        found["best_f1_other"] = best_f1(p[:, -1], other)
    return found


# --- others on the known classes, with the same labels ------------------------------------------------------


def known_rows(name: str, graph: Any, seed: int) -> list[dict[str, Any]]:
    draw = drawn(graph.y.numpy(), np.empty(0), seed, "plain")
    left, y = torch.from_numpy(draw["left"]), graph.y
    ids = left[left >= 0].unique()
    number = torch.full((graph.num_classes + 1,), -1)
    number[ids] = torch.arange(len(ids))
    test = ((left < 0) & (number[y] >= 0)).nonzero().flatten()
    labels = number[left]
    x = tfidf(graph)
    row: dict[str, Any] = {"kind": "known", "graph": name, "draw": seed}
    for key, method in BASELINES.items():
        started = time.perf_counter()
        answer = method(graph, x, labels, len(ids))[test]
        row[key] = float((answer.argmax(1) == number[y[test]]).float().mean())
        row[f"{key} s"] = time.perf_counter() - started
    return [row]


def tfidf(graph: Any) -> Any:
    x = graph.features_scipy()
    if isinstance(x, np.ndarray) or x is None:
        dense = graph.x.numpy()
        return (dense - dense.mean(0)) / (dense.std(0) + 1e-9)
    return TfidfTransformer().fit_transform(x).tocsr().astype(np.float32)


def held_out(labels: Tensor) -> tuple[Tensor, Tensor]:
    """A tenth of the labelled nodes, by which settings are chosen, and the others."""
    nodes = (labels >= 0).nonzero().flatten()
    nodes = nodes[torch.randperm(len(nodes), generator=torch.Generator().manual_seed(0))]
    return nodes[: len(nodes) // 10], nodes[len(nodes) // 10 :]


def logistic(graph: Any, x: Any, labels: Tensor, n_classes: int) -> Tensor:
    """On TF-IDF (on structural features where there are no others); the penalty by held-out nodes."""
    held, rest = held_out(labels)
    everyone = torch.cat([held, rest])
    y = labels.numpy()
    score = {}
    for c in (1.0, 10.0, 100.0):
        part = rest[:20_000]
        score[c] = LogisticRegression(C=c, max_iter=60).fit(x[part.numpy()], y[part]).score(x[held.numpy()], y[held])
    best = LogisticRegression(C=max(score, key=score.__getitem__), max_iter=100)
    best.fit(x[everyone.numpy()], y[everyone])
    answer = np.zeros((graph.num_nodes, n_classes), np.float32)
    answer[:, best.classes_] = best.predict_proba(x)
    return torch.from_numpy(answer)


def around(graph: Any, x: Any, labels: Tensor, n_classes: int) -> Tensor:
    """On the features of a node, their mean over its neighbours and over two steps: ten lines of scikit-learn."""
    arcs = graph.to_scipy().astype(np.float32)
    mean = sp.diags(1 / np.maximum(np.asarray(arcs.sum(1)).ravel(), 1)).astype(np.float32) @ arcs
    x = sp.csr_matrix(x)
    joined = sp.hstack([x, mean @ x, mean @ (mean @ x)]).tocsr()
    known = (labels >= 0).numpy()
    fitted = SGDClassifier(loss="log_loss", alpha=1e-5, max_iter=15, random_state=0).fit(joined[known], labels[known])
    answer = np.full((graph.num_nodes, n_classes), -np.inf, np.float32)
    answer[:, fitted.classes_] = fitted.decision_function(joined)
    return torch.from_numpy(answer)


def spreading(graph: Any, x: Any, labels: Tensor, n_classes: int) -> Tensor:
    """Zhou et al. 2004; how far labels spread by held-out nodes."""
    held, _ = held_out(labels)
    edges = normalized_adjacency(graph)

    def spread(known: Tensor, restart: float) -> Tensor:
        given = F.one_hot(known.clamp(min=0), n_classes).float() * (known >= 0)[:, None]
        return edges.smooth(given, steps=30, restart=restart)

    hidden = labels.clone()
    hidden[held] = -1
    right = {r: float((spread(hidden, r)[held].argmax(1) == labels[held]).float().mean()) for r in (0.01, 0.1, 0.5)}
    return spread(labels, max(right, key=right.__getitem__))


def gcn(graph: Any, x: Any, labels: Tensor, n_classes: int, hidden: int = 128, epochs: int = 200) -> Tensor:
    """Two layers (Kipf and Welling 2017), dropout 0.5, trained on all labels but the held-out ones that stop it."""
    torch.manual_seed(0)
    held, rest = held_out(labels)
    given = graph.with_features(to_tensor(x.astype(np.float32), graph.device), None)
    edges = normalized_adjacency(given)
    sparse = given.x.layout == torch.sparse_csr
    first, second = nn.Linear(x.shape[1], hidden), nn.Linear(hidden, n_classes)
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=0.01, weight_decay=5e-4)

    def forward(train: bool) -> Tensor:
        projected = project(given, first.weight.T) if sparse else F.dropout(given.x, 0.5, train) @ first.weight.T
        return edges @ second(F.dropout(F.relu(edges @ (projected + first.bias)), 0.5, train))

    best, answer, waited = -1.0, torch.empty(0), 0
    for epoch in range(epochs):
        optimizer.zero_grad()
        F.cross_entropy(forward(True)[rest], labels[rest]).backward()
        optimizer.step()
        if epoch % 10 == 9:
            with torch.no_grad():
                out = forward(False)
            accuracy = float((out[held].argmax(1) == labels[held]).float().mean())
            waited = 0 if accuracy > best else waited + 1
            if accuracy > best:
                best, answer = accuracy, out
            if waited == 5:
                break
    return answer


BASELINES = {
    "logistic regression": logistic,
    "features around": around,
    "label spreading": spreading,
    "gcn": gcn,
}


# --- running and reading ------------------------------------------------------------------------------------


def read() -> list[dict[str, Any]]:
    return [json.loads(line) for line in ROWS.read_text().splitlines()] if ROWS.exists() else []


def run(graphs: tuple[str, ...], draws: range, parts: tuple[str, ...], cases: tuple[str, ...] = CASES) -> None:
    done = {(r["kind"], r["graph"], r["draw"], r.get("case", "plain")) for r in read()}
    for part in parts:
        for name in graphs:
            todo = [
                (d, c)
                for d in draws
                for c in (cases if part == "model" else ("plain",))
                if (part, name, d, c) not in done
            ]
            if not todo:
                continue
            graph = load(name)
            with torch.no_grad():
                views = Views(graph.num_features).fit(graph) if part == "model" else None
            for draw, case in todo:
                rows = model_rows(name, graph, views, draw, case) if part == "model" else known_rows(name, graph, draw)
                with ROWS.open("a") as file:
                    file.writelines(json.dumps(rounded(row)) + "\n" for row in rows)
                print(part, name, draw, case, flush=True)


def rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 4) if value == value else None
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    return [rounded(part) for part in value] if isinstance(value, list | tuple) else value


def newest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of each graph and case that are of its newest family of draws."""
    family: dict[tuple[str, str], int] = {}
    for r in rows:
        key = r["graph"], r.get("case", "plain")
        family[key] = max(family.get(key, 0), r["draw"] // 1000)
    return [r for r in rows if r["draw"] // 1000 == family[r["graph"], r.get("case", "plain")]]


def table() -> str:
    """The figures of the rows for reports, as Markdown."""
    rows = [r for r in read() if r["draw"] >= REPORTED]
    ours, others = ([r for r in rows if r["kind"] == kind] for kind in ("model", "known"))
    return "\n\n".join([known_table(ours, others), open_table(newest(ours)), told_table(newest(ours))])


def first_page() -> str:
    """The comparison on the first page: known classes of two graphs with texts, on draws that all were run on."""
    rows = read()
    lines = ["| right classes, in percent | TF-IDF + logistic regression | GCN | fewnode |", "|---|---:|---:|---:|"]
    for graph, what in (
        ("cora70_titles", "11,694 papers of 70 topics: titles and citations"),
        ("macports", "20,033 software packages of 58 categories: descriptions and dependencies"),
    ):
        plain = [r for r in rows if r["graph"] == graph and r.get("case") == "plain"]
        draws = {r["draw"] for r in plain}
        others = newest([r for r in rows if r["graph"] == graph and r["kind"] == "known" and r["draw"] in draws])
        same = [r for r in plain if r["draw"] in {r["draw"] for r in others}]
        figures = [mean(r[name] for r in others) for name in ("logistic regression", "gcn")]
        figures.append(mean(r["known_accuracy"] for r in same))
        lines.append(f"| {what} | " + " | ".join(f"{100 * f:.1f}" for f in figures) + " |")
    return "\n".join(lines)


def mean(values: Any) -> float:
    values = [v for v in values if v is not None]
    return float(np.mean(values)) if values else float("nan")


def known_table(ours: list[dict[str, Any]], others: list[dict[str, Any]]) -> str:
    names = tuple(BASELINES)
    lines = [
        "| accuracy on blanked known nodes | draw | model | TF-IDF | TF-IDF around the node | label spreading | GCN |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    total = []
    for graph in dict.fromkeys(r["graph"] for r in others):
        plain = [r for r in ours if r["graph"] == graph and r["case"] == "plain"]
        both = {r["draw"] for r in plain}.intersection(r["draw"] for r in others if r["graph"] == graph)
        theirs = newest([r for r in others if r["graph"] == graph and r["draw"] in both])
        draws = {r["draw"] for r in theirs}
        figures = [mean(r["known_accuracy"] for r in plain if r["draw"] in draws)]
        figures += [mean(r[name] for r in theirs) for name in names]
        total.append(figures)
        lines.append(f"| {graph} | {numbered(theirs)} | " + " | ".join(f"{100 * f:.1f}" for f in figures) + " |")
    if total:
        lines.append("| mean | | " + " | ".join(f"{100 * f:.1f}" for f in np.mean(total, 0)) + " |")
    return "\n".join(lines)


def numbered(rows: list[dict[str, Any]]) -> str:
    return ", ".join(str(draw) for draw in sorted({r["draw"] for r in rows}))


def open_table(ours: list[dict[str, Any]]) -> str:
    lines = [
        "| case | graph | draw | all rows right | expected | average precision | F1 of a new class "
        "| its share of the best F1 | AUROC other | F1 other | best F1 other |",
        "|---|---|" + "---:|" * 9,
    ]
    for case in CASES:
        part = [r for r in ours if r["case"] == case]
        for graph in [*dict.fromkeys(r["graph"] for r in part), None]:
            of = [r for r in part if graph in (None, r["graph"])]
            pairs = [pair for r in of for pair in zip(r["f1"], r["best_f1"], strict=True)]
            figures = [
                numbered(of) if graph else "",
                f"{100 * mean(r['truth']['right'][0] for r in of):.1f}",
                f"{100 * mean(r['told']['right']['value'] for r in of):.1f}",
                f"{mean(np.mean(r['average_precision']) for r in of):.3f}",
                f"{mean(a for a, _ in pairs):.3f}",
                f"{mean(a / b for a, b in pairs if b):.2f}",
                *(
                    f"{mean(r[name] for r in of if name in r):.2f}" if case == "hidden" else ""
                    for name in ("auroc_other", "f1_other", "best_f1_other")
                ),
            ]
            lines.append(f"| {case} | {graph or 'mean'} | " + " | ".join(figures) + " |")
    return "\n".join(lines)


def told_table(ours: list[dict[str, Any]]) -> str:
    """How often the printed figures were within five points of the truth, and within their interval."""
    lines = [
        "| case | examples | figure | within 5 points | within the interval | mean miss | truth above what was told |",
        "|---|---:|---|---:|---:|---:|---:|",
    ]
    for case in (*CASES, "all"):
        for shots in SHOTS:
            of = [r for r in ours if case in (r["case"], "all") and r["shots"] == shots]
            for name in ("right", "known", "precision", "recall"):
                pairs = [
                    (true, told)
                    for r in of
                    for true, told in zip(r["truth"][name], np.ravel(r["told"][name]), strict=True)
                    if true is not None and told["value"] is not None
                ]
                near = mean(abs(a - b["value"]) <= 0.05 for a, b in pairs)
                inside = mean(b["low"] <= a <= b["high"] for a, b in pairs)
                miss, off = mean(abs(a - b["value"]) for a, b in pairs), mean(a - b["value"] for a, b in pairs)
                figures = f"{100 * near:.0f} % | {100 * inside:.0f} % | {100 * miss:.1f} | {100 * off:+.1f}"
                lines.append(f"| {case} | {shots} | {name} | {figures} |")
    return "\n".join(lines)


def speed(nodes: int = 170_000, classes: int = 45) -> None:
    """Seconds of processor for the model, for adapting to a new class and for predicting every node."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, nodes)
    friends = np.argsort(y + rng.random(nodes), kind="stable")  # neighbours in this order share a class
    edges = np.stack(
        [np.concatenate([friends[:-1], np.arange(nodes)]), np.concatenate([friends[1:], rng.integers(0, nodes, nodes)])]
    )
    x = (rng.normal(size=(classes, 64))[y] + 2 * rng.normal(size=(nodes, 64))).astype(np.float32)
    graph = fewnode.Graph.from_edges(edges, x, y)
    left = torch.where((graph.y < 2) | (torch.rand(nodes) < BLANKED), -1, graph.y - 2)
    with torch.no_grad():
        views = Views(64).fit(graph)
    started = time.process_time()
    model = OpenSetModel.fit(graph, views, left, tuple(map(str, range(classes - 2))))
    row = {"kind": "speed", "nodes": nodes, "draw": -1, "graph": "planted", "fit_s": time.process_time() - started}
    for shots in SHOTS:
        started = time.process_time()
        question = model.adapt({"new": (graph.y == 0).nonzero().flatten()[:shots]})
        middle = time.process_time()
        question.probabilities(torch.arange(nodes))
        row |= {f"adapt_{shots}_s": middle - started, f"predict_{shots}_s": time.process_time() - middle}
    with ROWS.open("a") as file:
        file.write(json.dumps(rounded(row)) + "\n")
    print(rounded(row))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one draw of the two smallest graphs")
    parser.add_argument("--family", type=int, default=FAMILY, help="the first draw")
    parser.add_argument("--part", choices=("model", "known", "all"), default="all")
    parser.add_argument("--graphs", nargs="+", default=GRAPHS)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--speed", action="store_true")
    args = parser.parse_args()
    if args.table:
        print(table())
    elif args.speed:
        speed()
    else:
        parts = ("model", "known") if args.part == "all" else (args.part,)
        graphs = GRAPHS[:2] if args.quick else tuple(args.graphs)
        run(graphs, range(args.family, args.family + (1 if args.quick else args.draws)), parts, tuple(args.cases))


if __name__ == "__main__":
    main()
