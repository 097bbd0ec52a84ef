"""The open question on real graphs: known classes, two new ones, and a class nobody named.

A draw takes two classes as new (all their members lose their labels, 3 or 10 are given as examples), blanks 30 % of the
labels of the others, and with ``hidden`` 1 takes the labels of a third class away without saying so. All nodes without
a label whose truth is known are predicted. Rows are appended as they finish; what is there already is not run again.

    python benchmarks/open_world.py [--quick] [--family 1000] [--part model|known|all]
    python benchmarks/open_world.py --table          # what the rows say
    python benchmarks/open_world.py --speed          # adapting and predicting on 170,000 nodes

The data sets beside the bundled ``wordnet`` are looked for in the folder that FEWNODE_DATA names.
"""

import argparse
import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn
from torch.nn import functional as F

import fewnode
from fewnode.classifier import simulation as expectation
from fewnode.classifier.calibration import expected_calibration_error
from fewnode.classifier.novelty import NODE_FEATURES, class_features
from fewnode.classifier.open_set import OpenSetModel
from fewnode.graph.arrays import to_tensor
from fewnode.graph.operators import feature_operator, normalized_adjacency, ppr_smooth
from fewnode.nn.views import Views

GRAPHS = (
    "email_eu_core_nofeat",
    "lastfm_asia_nofeat",
    "amazon_clothing_test20",
    "coauthor_cs",
    "nell_partial",
    "cora_full_knnfeat",
    "wordnet",
)
ROWS = Path(__file__).parent / "rows" / "open_world.jsonl"
SHOTS, DRAWS, BLANKED, LEAST = (3, 10), 5, 0.3, 20
FAMILY = 1000  # draws 1000..1004; the model was developed on draws 1..3


def drawn(y: np.ndarray, seed: int, hidden: int) -> dict[str, Any]:
    """The labels that are left, the new classes with their members in random order, and the class nobody named."""
    rng = np.random.default_rng(seed)
    picked = rng.permutation(np.flatnonzero(np.bincount(y[y >= 0]) >= LEAST))[: 2 + hidden]
    members = {int(c): rng.permutation(np.flatnonzero(y == c)) for c in picked[:2]}
    left = np.where(np.isin(y, picked), -1, y)
    known = np.flatnonzero(left >= 0)
    left[rng.permutation(known)[: int(BLANKED * len(known))]] = -1
    return {"left": left, "new": members, "hidden": picked[2:]}


def average_precision(scores: Tensor, positive: Tensor) -> float:
    hits = positive[scores.argsort(descending=True)].double()
    return float((hits.cumsum(0) / torch.arange(1, len(hits) + 1) * hits).sum() / hits.sum())


def auroc(scores: Tensor, positive: Tensor) -> float:
    rank = torch.empty(len(scores), dtype=torch.double)
    rank[scores.argsort()] = torch.arange(1, len(scores) + 1, dtype=torch.double)
    n = float(positive.sum())
    return float((rank[positive].sum() - n * (n + 1) / 2) / (n * (len(scores) - n)))


def model_rows(name: str, graph: Any, views: Views, seed: int, hidden: int) -> list[dict[str, Any]]:
    draw = drawn(graph.y.numpy(), seed, hidden)
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
        row = {"kind": "model", "graph": name, "draw": seed, "hidden": hidden, "shots": shots, "fit_s": seconds}
        rows.append(row | measured(model, examples, pool, group, number[y[pool]], views(graph)))
    return rows


def measured(
    model: OpenSetModel, examples: dict[str, Tensor], pool: Tensor, group: Tensor, known: Tensor, views: list[Tensor]
) -> dict[str, Any]:
    """Everything about one question; ``group`` is 0 for known, 1.. for the new classes, then other."""
    started = time.perf_counter()
    question = model.adapt(examples, pool=pool)
    adapted = time.perf_counter()
    p = question.probabilities(pool)
    predicted = time.perf_counter()
    n_new = len(examples)
    target = torch.where(group == 0, known + n_new, torch.where(group > n_new, p.shape[1] - 1, group - 1))
    own = p[:, n_new:-1]
    best = torch.cat([own.max(1, keepdim=True).values, p[:, :n_new], p[:, -1:]], 1)
    right = own.argmax(1) == known
    truth = expectation.Counts.achieved(best, group, right, torch.ones(len(pool))).figures()
    told = question.expect(p, torch.ones(len(pool), dtype=torch.bool)).to_json()
    found = {
        "rows": len(pool),
        "members": [int((group == i + 1).sum()) for i in range(n_new)],
        "others": int((group > n_new).sum()),
        "known_accuracy": float(right[group == 0].float().mean()),
        "truth": truth,
        "told": {"right": told["right"], "known": told["known"]}
        | {part: [one[part] for one in told["classes"].values()] for part in ("precision", "recall")},
        "calibration_error": expected_calibration_error(p, target),
        "average_precision": ranked(model, examples, pool, group, views, p),
        "adapt_s": adapted - started,
        "predict_s": predicted - adapted,
    }
    if found["others"]:
        found["auroc_other"] = unknown(model, pool, group, n_new, p)
    return found


def ranked(
    model: OpenSetModel, examples: dict[str, Tensor], pool: Tensor, group: Tensor, views: list[Tensor], p: Tensor
) -> dict[str, float]:
    """Average precision of ranking the members of a new class among all rows, by the model and by single scores."""
    found = defaultdict(list)
    features = model.features[pool]
    for i, nodes in enumerate(examples.values()):
        cosine = sum(
            F.normalize(view[pool].float(), dim=1) @ F.normalize(view[nodes].float(), dim=1).mean(0) for view in views
        )
        direction = model.moments.direction(model.x[nodes])
        ridge, _, margin, whitened = class_features(
            (model.x[pool] - model.moments.mean) @ direction.weights, features, direction
        ).T
        within = whitened * features[:, NODE_FEATURES.index("length")]
        scores = {
            "model": p[:, i],
            "cosine of views": cosine,
            "whitened cosine": whitened,
            "ridge": ridge,
            "ridge within classes": within,
            "discriminant margin": margin,
        }
        for name, score in scores.items():
            found[name].append(average_precision(score, group == i + 1))
    return {name: float(np.mean(part)) for name, part in found.items()}


def unknown(model: OpenSetModel, pool: Tensor, group: Tensor, n_new: int, p: Tensor) -> dict[str, float]:
    """Area under the curve that tells nodes of the class nobody named from known ones."""
    of = (group == 0) | (group > n_new)
    features, positive = model.features[pool][of], group[of] > n_new
    labelled = (model.y >= 0).nonzero().flatten()
    labelled = labelled[torch.randperm(len(labelled), generator=torch.Generator().manual_seed(0))[:20_000]]
    near = [
        torch.cdist(part, model.x[labelled]).topk(5, largest=False).values[:, -1]
        for part in model.x[pool[of]].split(2000)
    ]
    scores = {
        "model": p[of, -1],
        "maximum probability": -features[:, NODE_FEATURES.index("best")],
        "energy": -features[:, NODE_FEATURES.index("energy")],
        "distance to the nearest class": features[:, NODE_FEATURES.index("distance")],
        "labels around": -features[:, NODE_FEATURES.index("labelled")],
        "fifth nearest labelled node": torch.cat(near),
    }
    return {name: auroc(score, positive) for name, score in scores.items()}


# --- others on the known classes, with the same labels ------------------------------------------------------


def known_rows(name: str, graph: Any, seed: int) -> list[dict[str, Any]]:
    draw = drawn(graph.y.numpy(), seed, 0)
    left, y = torch.from_numpy(draw["left"]), graph.y
    ids = left[left >= 0].unique()
    number = torch.full((graph.num_classes + 1,), -1)
    number[ids] = torch.arange(len(ids))
    test = ((left < 0) & (number[y] >= 0)).nonzero().flatten()
    labels = number[left]
    x = tfidf(graph)
    row: dict[str, Any] = {"kind": "known", "graph": name, "draw": seed}
    for key, method in (("logistic regression", logistic), ("label spreading", spreading), ("gcn", gcn)):
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


def spreading(graph: Any, x: Any, labels: Tensor, n_classes: int) -> Tensor:
    """Zhou et al. 2004; how far labels spread by held-out nodes."""
    held, _ = held_out(labels)
    edges = normalized_adjacency(graph)

    def spread(known: Tensor, restart: float) -> Tensor:
        given = F.one_hot(known.clamp(min=0), n_classes).float() * (known >= 0)[:, None]
        return ppr_smooth(edges, given, steps=30, restart=restart)

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
        projected = (
            feature_operator(given) @ first.weight.T if sparse else F.dropout(given.x, 0.5, train) @ first.weight.T
        )
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


# --- running and reading ------------------------------------------------------------------------------------


def read() -> list[dict[str, Any]]:
    return [json.loads(line) for line in ROWS.read_text().splitlines()] if ROWS.exists() else []


def run(graphs: tuple[str, ...], draws: range, parts: tuple[str, ...]) -> None:
    done = {(r["kind"], r["graph"], r["draw"], r.get("hidden", 0)) for r in read()}
    for part in parts:
        for name in graphs:
            todo = [
                (d, h) for d in draws for h in ((0, 1) if part == "model" else (0,)) if (part, name, d, h) not in done
            ]
            if not todo:
                continue
            graph = fewnode.load_dataset(name)[0]
            with torch.no_grad():
                views = Views(graph.num_features).fit(graph) if part == "model" else None
            for draw, hidden in todo:
                rows = (
                    model_rows(name, graph, views, draw, hidden) if part == "model" else known_rows(name, graph, draw)
                )
                with ROWS.open("a") as file:
                    file.writelines(json.dumps(rounded(row)) + "\n" for row in rows)
                print(part, name, draw, hidden, flush=True)


def rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 4) if value == value else None
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    return [rounded(part) for part in value] if isinstance(value, list | tuple) else value


def table(family: int = FAMILY) -> str:
    """The figures of the rows of one family of draws, as Markdown."""
    rows = [r for r in read() if family <= r["draw"] < family + DRAWS]
    ours = [r for r in rows if r["kind"] == "model"]
    return "\n\n".join(
        [
            known_table(ours, [r for r in rows if r["kind"] == "known"]),
            open_table(ours),
            score_table(ours, "average_precision", "average precision of a new class"),
            score_table([r for r in ours if r["hidden"]], "auroc_other", "AUROC of the class nobody named"),
            told_table(ours),
        ]
    )


def mean(values: Any) -> float:
    values = [v for v in values if v is not None]
    return float(np.mean(values)) if values else float("nan")


def known_table(ours: list[dict[str, Any]], others: list[dict[str, Any]]) -> str:
    names = ("logistic regression", "label spreading", "gcn")
    lines = [
        "| accuracy on blanked known nodes | model | TF-IDF regression | label spreading | GCN |",
        "|---|---|---|---|---|",
    ]
    total = []
    for graph in dict.fromkeys(r["graph"] for r in others):
        draws = {r["draw"] for r in others if r["graph"] == graph}
        same = [r for r in ours if r["graph"] == graph and not r["hidden"] and r["draw"] in draws]
        figures = [mean(r["known_accuracy"] for r in same)]
        figures += [mean(r[name] for r in others if r["graph"] == graph) for name in names]
        total.append(figures)
        lines.append(f"| {graph} | " + " | ".join(f"{100 * f:.1f}" for f in figures) + " |")
    if total:
        lines.append("| mean | " + " | ".join(f"{100 * f:.1f}" for f in np.mean(total, 0)) + " |")
    return "\n".join(lines)


def open_table(ours: list[dict[str, Any]]) -> str:
    lines = [
        "| hidden | shots | graph | all rows right | expected | calibration error | average precision "
        "| best single score | AUROC other |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for hidden in (0, 1):
        for shots in SHOTS:
            part = [r for r in ours if r["hidden"] == hidden and r["shots"] == shots]
            for graph in [*dict.fromkeys(r["graph"] for r in part), None]:
                of = [r for r in part if graph in (None, r["graph"])]
                if not of:
                    continue
                singles = {
                    n: mean(r["average_precision"][n] for r in of) for n in of[0]["average_precision"] if n != "model"
                }
                best = max(singles, key=singles.__getitem__)
                figures = [
                    f"{100 * mean(r['truth']['right'][0] for r in of):.1f}",
                    f"{100 * mean(r['told']['right']['value'] for r in of):.1f}",
                    f"{100 * mean(r['calibration_error'] for r in of):.1f}",
                    f"{mean(r['average_precision']['model'] for r in of):.3f}",
                    f"{singles[best]:.3f} ({best})",
                    f"{mean(r['auroc_other']['model'] for r in of):.3f}" if hidden else "",
                ]
                lines.append(f"| {hidden} | {shots} | {graph or 'mean'} | " + " | ".join(figures) + " |")
    return "\n".join(lines)


def score_table(ours: list[dict[str, Any]], key: str, title: str) -> str:
    """The model beside single scores, on the mean of all graphs and draws."""
    lines = [f"| {title} | 3 examples | 10 examples |", "|---|---|---|"]
    for name in ours[0][key] if ours else ():
        figures = [mean(r[key][name] for r in ours if r["shots"] == shots) for shots in SHOTS]
        lines.append(f"| {name} | " + " | ".join(f"{f:.3f}" for f in figures) + " |")
    return "\n".join(lines)


def told_table(ours: list[dict[str, Any]]) -> str:
    """How often the printed figures were within five points of the truth, and within their interval."""
    lines = [
        "| hidden | shots | figure | within 5 points | within the interval | mean miss | truth above what was told |",
        "|---|---|---|---|---|---|---|",
    ]
    for hidden in (0, 1):
        for shots in SHOTS:
            of = [r for r in ours if r["hidden"] == hidden and r["shots"] == shots]
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
                lines.append(f"| {hidden} | {shots} | {name} | {figures} |")
    return "\n".join(lines)


def speed(nodes: int = 170_000, classes: int = 45) -> None:
    """Adapting to a new class and predicting every node, once the model is there."""
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
    started = time.perf_counter()
    model = OpenSetModel.fit(graph, views, left, tuple(map(str, range(classes - 2))))
    row = {"kind": "speed", "nodes": nodes, "draw": -1, "graph": "planted", "fit_s": time.perf_counter() - started}
    for shots in SHOTS:
        started = time.perf_counter()
        question = model.adapt({"new": (graph.y == 0).nonzero().flatten()[:shots]})
        middle = time.perf_counter()
        question.probabilities(torch.arange(nodes))
        row |= {f"adapt_{shots}_s": middle - started, f"predict_{shots}_s": time.perf_counter() - middle}
    with ROWS.open("a") as file:
        file.write(json.dumps(rounded(row)) + "\n")
    print(rounded(row))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one draw of the two smallest graphs")
    parser.add_argument("--family", type=int, default=FAMILY, help="the first draw")
    parser.add_argument("--part", choices=("model", "known", "all"), default="all")
    parser.add_argument("--graphs", nargs="+", default=GRAPHS)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--speed", action="store_true")
    args = parser.parse_args()
    if args.table:
        print(table(args.family))
    elif args.speed:
        speed()
    else:
        parts = ("model", "known") if args.part == "all" else (args.part,)
        graphs = GRAPHS[:2] if args.quick else tuple(args.graphs)
        run(graphs, range(args.family, args.family + (1 if args.quick else DRAWS)), parts)


if __name__ == "__main__":
    main()
