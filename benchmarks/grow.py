"""Labels that come in after the fit: is a model that grows as good as one that is fitted again, and how much faster?

Of each graph two large classes are new, and half of the other labels are missing. The model is fitted; then a tenth of
all labels of known classes come in, and 200 of each new class. Compared are ``load``, ``grow`` and ``save`` with a fit
and ``save``: seconds of the processor, and the share of right labels among the nodes that still have none with that of
a model that learns all these labels from the start. A third class is named by nobody: it is *other*.

    python benchmarks/grow.py [graph ...] [--draws 2]     # rows are appended; what is there already is not run again
    python benchmarks/grow.py --table

``arxiv`` are the first 60,000 nodes of arxiv_cs40_coauthors. The tables are in the folder that FEWNODE_DATA names.
"""

import argparse
import json
import os
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import fewnode

ROWS = Path(__file__).parent / "rows" / "grow.jsonl"
GRAPHS = {  # edges, nodes, the column of classes, and how many nodes
    "arxiv": ("text/arxiv_cs40_coauthors.edges.csv.gz", "text/arxiv_cs40_coauthors.nodes.csv.gz", "class", 60_000),
    "macports": ("raw/macports/dependencies.csv", "raw/macports/ports.csv", "category", None),
}
COLUMNS = {"arxiv": ["id", "class", "text"], "macports": ["port", "category", "description"]}
NEW_LABELS, LEAST = 200, 600


def tables(name: str) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    edge_file, node_file, label, most = GRAPHS[name]
    edges, nodes = (pd.read_csv(Path(os.environ["FEWNODE_DATA"]) / file, dtype=str) for file in (edge_file, node_file))
    nodes = nodes[COLUMNS[name]].iloc[:most]
    ids = set(nodes.iloc[:, 0])
    inside = edges.iloc[:, 0].isin(ids) & edges.iloc[:, 1].isin(ids)
    return edges[inside], nodes, label


def drawn(truth: pd.Series, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Which nodes have a label at first, and which have one later."""
    rng = np.random.default_rng(seed)
    large = sorted(name for name, size in truth.value_counts().items() if size >= LEAST)
    first, second, third = (truth.to_numpy() == name for name in rng.permutation(large)[:3])
    known = truth.notna().to_numpy() & ~first & ~second & ~third
    chance = rng.random(len(truth))
    before, after = known & (chance < 0.5), known & (chance < 0.6)
    for members in (first, second):
        after[rng.permutation(np.flatnonzero(members))[:NEW_LABELS]] = True
    return before, after


def right(classifier: Any, names: list[str], truth: dict[str, str]) -> tuple[float, float]:
    """The share of right labels, and what it was expected to be."""
    found = classifier.predict_proba(names)
    known = {name for name, kind in zip(found.classes, found.kinds, strict=True) if kind == "known"}
    hits = [
        label == (truth[name] if truth[name] in known else found.classes[-1])
        for name, label in zip(found.names, found.labels(), strict=True)
    ]
    return float(np.mean(hits)), float(classifier.expect(found).right.value or 0)


def measured(name: str, seed: int, folder: Path) -> dict[str, Any]:
    edges, nodes, label = tables(name)
    truth = nodes[label]
    before, after = drawn(truth, seed)
    seconds = {}

    def fitted(labelled: np.ndarray, where: str, **options: Any) -> Any:
        clock = time.process_time()
        given = nodes.assign(**{label: truth.where(labelled)})
        classifier = fewnode.FewShotClassifier(**options).fit(edges=edges, nodes=given, label_column=label)
        classifier.save(folder / where)
        seconds[where] = time.process_time() - clock
        return classifier

    fitted(before, "before")
    clock = time.process_time()
    grown = fewnode.FewShotClassifier.load(folder / "before")
    came = pd.DataFrame({"id": nodes.iloc[:, 0], "label": truth})[after & ~before]
    done = grown.grow(came)
    grown.save(folder / "grown")
    seconds["grow"] = time.process_time() - clock
    again = fitted(after, "again", steps=0)  # weights of the gate play no part in open-set classification
    left = [str(one) for one in nodes.iloc[:, 0][truth.notna().to_numpy() & ~after]]
    answers = dict(zip(map(str, nodes.iloc[:, 0]), truth, strict=True))
    (own, told), (whole, told_whole) = (right(model, left, answers) for model in (grown, again))
    row = {"graph": name, "seed": seed, "nodes": len(nodes), "edges": len(edges), "came": done.added}
    row |= {"promoted": list(done.promoted), "left": len(left), "fit_s": seconds["before"], "grow_s": seconds["grow"]}
    return row | {"right": {"grown": own, "fitted": whole}, "expected": {"grown": told, "fitted": told_whole}}


def table() -> str:
    heads = ("graph", "draw", "nodes", "labels that came", "fit", "grow", "faster", "right: fitted, grown", "expected")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for line in ROWS.read_text().splitlines():
        row = json.loads(line)
        share = [
            ", ".join(f"{100 * row[key][one]:.1f}" for one in ("fitted", "grown")) for key in ("right", "expected")
        ]
        cells = [row["graph"], str(row["seed"]), f"{row['nodes']:,}", f"{row['came']:,}", f"{row['fit_s']:.0f} s"]
        cells += [f"{row['grow_s']:.1f} s", f"{row['fit_s'] / row['grow_s']:.1f} times", *share]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graphs", nargs="*", default=GRAPHS)
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if args.table:
        return print(table())
    rows = [json.loads(line) for line in ROWS.read_text().splitlines()] if ROWS.exists() else []
    done = {(row["graph"], row["seed"]) for row in rows}
    for name, seed in ((name, seed) for name in args.graphs for seed in range(args.draws)):
        if (name, seed) in done:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            row = measured(name, seed, Path(scratch))
        with ROWS.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(row, flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)  # seconds of one core
    main()
