"""What it costs to weigh words by rarity twice, as texts once were: counts against TF-IDF as a model's input.

    python benchmarks/text_weighting.py        adds missing rows to rows/text_weighting.jsonl, then prints them

The bags of words of three graphs play texts. Novel classes, 500 5-way tasks, three training seeds.
"""

import json
from pathlib import Path

from sklearn.feature_extraction.text import TfidfTransformer

import fewnode
from fewnode.graph.arrays import to_tensor

ROWS = Path(__file__).resolve().parent / "rows" / "text_weighting.jsonl"
GRAPHS = ("wordnet", "amazon_clothing_test20", "coauthor_cs")


def weighted(graph: fewnode.Graph) -> fewnode.Graph:
    """The graph with TF-IDF features, rows of length one, as the text column was read before."""
    x = TfidfTransformer().fit_transform(graph.features_scipy()).astype("float32").tocsr()
    return graph.with_features(to_tensor(x), graph.feature_names)


def run() -> None:
    done = {tuple(row[key] for key in ("graph", "input", "shots", "seed")) for row in read()}
    for name in GRAPHS:
        graph, split = fewnode.load_dataset(name)
        for kind, given in (("counts", graph), ("weighted twice", weighted(graph))):
            for shots in (1, 5):
                for seed in range(3):
                    if (name, kind, shots, seed) in done:
                        continue
                    model = fewnode.fit("vantage", given, split, n_way=5, k_shot=shots, seed=seed)
                    found = fewnode.evaluate(model, given, split.novel, n_way=5, k_shot=shots)
                    row = {"graph": name, "input": kind, "shots": shots, "seed": seed}
                    row |= {"accuracy": round(found.accuracy, 5), "interval": round(found.interval, 5)}
                    with ROWS.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(row) + "\n")


def read() -> list[dict]:
    return [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()] if ROWS.exists() else []


def table() -> None:
    print("| graph | shots | counts | weighted twice |\n| --- | ---: | ---: | ---: |")
    for name in GRAPHS:
        for shots in (1, 5):
            cells = []
            for kind in ("counts", "weighted twice"):
                found = [
                    row["accuracy"]
                    for row in read()
                    if (row["graph"], row["shots"], row["input"]) == (name, shots, kind)
                ]
                cells.append(f"{100 * sum(found) / len(found):.1f}")
            print(f"| {name} | {shots} | {' | '.join(cells)} |")


if __name__ == "__main__":
    run()
    table()
