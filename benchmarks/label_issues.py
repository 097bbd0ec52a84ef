"""How many wrong labels are found: 5 % of the labels of real graphs are changed, and as many nodes are looked at.

In the case *random* a label becomes any other class; in *similar* it becomes the class whose mean is most alike. The
figure is the share of changed labels among as many candidates as were changed; labels that were wrong in the data
already count as mistakes of the method. The scores compared are

- ``fewnode``: ``FewShotClassifier.find_label_issues``;
- cleanlab's ``self_confidence`` and ``normalized_margin`` on the same held-out probabilities;
- the same two on those of logistic regression on TF-IDF (on structural features where the graph has no others), by
  five-fold cross-validation.

Rows are appended as they finish; what is there already is not run again. Needs ``pip install cleanlab``.

    python benchmarks/label_issues.py [--draws 2]
    python benchmarks/label_issues.py --table

The settings of ``label_doubt`` were chosen on draw 0 of all graphs but macports; rows are of draws from 1000.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from fewnode.classifier.known_classes import HopFeatures, KnownClassModel, NodeInputs, ViewPCA
from fewnode.classifier.label_issues import held_out_probabilities, label_doubt
from fewnode.graph.operators import normalized_adjacency
from fewnode.nn.views import Views

GRAPHS = (
    "email_eu_core_nofeat",
    "lastfm_asia_nofeat",
    "amazon_clothing_test20",
    "cora70_titles",
    "coauthor_cs",
    "macports",
)
ROWS = Path(__file__).parent / "rows" / "label_issues.jsonl"
CASES, SHARE, FIRST = ("random", "similar"), 0.05, 1000
COLUMNS = ("fewnode", "self_confidence", "normalized_margin", "tfidf self_confidence", "tfidf normalized_margin")


def changed(y: np.ndarray, x: np.ndarray, case: str, draw: int) -> tuple[np.ndarray, np.ndarray]:
    """The labels after the change, and which were changed."""
    rng = np.random.default_rng([draw, CASES.index(case)])
    labelled, classes = np.flatnonzero(y >= 0), np.unique(y[y >= 0])
    wrong = np.zeros(len(y), bool)
    wrong[rng.choice(labelled, round(SHARE * len(labelled)), replace=False)] = True
    means = np.stack([x[y == c].mean(0) for c in classes]) - x[labelled].mean(0)
    means /= np.linalg.norm(means, axis=1, keepdims=True) + 1e-9
    nearest = dict(zip(classes, classes[(means @ means.T - 2 * np.eye(len(classes))).argmax(1)], strict=True))
    found = y.copy()
    for node in np.flatnonzero(wrong):
        found[node] = nearest[y[node]] if case == "similar" else rng.choice(classes[classes != y[node]])
    return np.unique(found, return_inverse=True)[1] + (0 if (found >= 0).all() else -1), wrong


def cross_validated(x: Any, y: np.ndarray) -> np.ndarray:
    """Held-out probabilities by logistic regression, with classes of one node never held out."""
    found = np.zeros((len(y), y.max() + 1))
    for train, held in StratifiedKFold(5, shuffle=True, random_state=0).split(x, y):
        model = LogisticRegression(C=10, max_iter=50).fit(x[train], y[train])
        found[np.ix_(held, model.classes_)] = model.predict_proba(x[held])
    return found


def run_graph(name: str, draws: range) -> None:
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores
    from open_world import load, tfidf

    done = {(row["graph"], row["case"], row["draw"]) for row in read()}
    todo = [(case, draw) for draw in draws for case in CASES if (name, case, draw) not in done]
    if not todo:
        return
    graph = load(name)
    views = Views(graph.num_features).fit(graph)
    seen, made, sources = views.use.seen(graph), views(graph), views.sources(graph)
    edges, x = normalized_adjacency(seen), ViewPCA.fit(made, graph.ranks).coordinates(made, graph.space)
    hops = HopFeatures.of(seen, sources) if seen.num_features > views.rank else None
    inputs = NodeInputs(x, edges, graph.ranks, hops)
    words = tfidf(graph)
    for case, draw in todo:
        started = time.perf_counter()
        y, wrong = changed(graph.y.numpy(), x.numpy(), case, draw)
        known, _ = KnownClassModel.fit(inputs, torch.from_numpy(y))
        fitted = time.perf_counter()
        nodes, p = held_out_probabilities(inputs, torch.from_numpy(y), known)
        judged = time.perf_counter()
        given, mistaken = y[nodes], wrong[nodes]
        baseline = cross_validated(words[nodes.numpy()], given)
        flagged = (label_doubt(p, torch.from_numpy(given)) > 0.5).numpy()
        theirs = find_label_issues(given, p.numpy(), n_jobs=1)
        count = int(mistaken.sum())
        scores = {"fewnode": -label_doubt(p, torch.from_numpy(given)).numpy()}
        for prefix, probabilities in (("", p.numpy()), ("tfidf ", baseline)):
            for method in ("self_confidence", "normalized_margin"):
                scores[prefix + method] = get_label_quality_scores(given, probabilities, method=method)
        row = {"graph": name, "case": case, "draw": draw, "labels": len(nodes), "changed": count}
        row |= {"precision": {key: mistaken[np.argsort(part)[:count]].mean() for key, part in scores.items()}}
        row |= {
            which: {
                "count": int(part.sum()),
                "precision": mistaken[part].mean(),
                "recall": mistaken[part].sum() / count,
            }
            for which, part in (("flagged", flagged), ("flagged by cleanlab", theirs))
        }
        row |= {"fit_s": fitted - started, "held_out_s": judged - fitted, "tfidf_s": time.perf_counter() - judged}
        with ROWS.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(name, case, draw, {key: round(value, 3) for key, value in row["precision"].items()}, flush=True)


def read() -> list[dict[str, Any]]:
    return [json.loads(line) for line in ROWS.read_text().splitlines()] if ROWS.exists() else []


def table() -> str:
    """Means over the draws."""
    lines = [
        "| graph | changed labels | fewnode | cleanlab, same probabilities | cleanlab, TF-IDF "
        "| flagged: precision, recall |"
    ]
    lines += ["|---|---|---:|---:|---:|---:|"]
    rows = read()
    for case in CASES:
        means = []
        for name in GRAPHS:
            part = [row for row in rows if (row["graph"], row["case"]) == (name, case)]
            if not part:
                continue
            mean = {key: 100 * np.mean([row["precision"][key] for row in part]) for key in COLUMNS}
            flags = [100 * np.mean([row["flagged"][key] for row in part]) for key in ("precision", "recall")]
            means.append([mean[key] for key in COLUMNS] + flags)
            lines.append(_line(name, case, means[-1]))
        lines.append(_line("**mean**", case, np.mean(means, 0)))
    return "\n".join(lines)


def _line(name: str, case: str, v: Any) -> str:
    return (
        f"| {name} | {case} | {v[0]:.0f} | {v[1]:.0f} / {v[2]:.0f} | {v[3]:.0f} / {v[4]:.0f} | {v[5]:.0f}, {v[6]:.0f} |"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--graphs", nargs="+", default=GRAPHS)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if not args.table:
        for graph_name in args.graphs:
            run_graph(graph_name, range(FIRST, FIRST + args.draws))
    print(table())
