"""Dense vectors as features: alone, and beside the words they were made from.

A table of texts (port, category, description) with its edges. The vectors are those of a sentence encoder, one row for
each row of the table; docs/inputs.md shows how to make them. Accuracy on tasks of the validation classes.

    python benchmarks/vectors.py FOLDER VECTORS.npy [METHOD]      a folder with ports.csv and dependencies.csv
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from blocks import accuracy

from fewnode.classifier.inputs import choose_split
from fewnode.graph import Graph

OUT = Path(__file__).parent / "rows" / "vectors.jsonl"


def main(folder: Path, vectors: Path, method: str) -> None:
    tables = folder / "dependencies.csv", folder / "ports.csv"
    ways: dict[str, dict[str, Any]] = {
        "words": {},
        "vectors": {"features": vectors},
        "words and vectors": {"features": vectors, "text_column": "description"},
    }
    for way, options in ways.items():
        graph = Graph.from_files(*tables, **options)
        value, interval = accuracy(graph, choose_split(graph, 10), method)
        row = {"graph": "macports", "method": method, "features": way, "columns": graph.num_features}
        row |= {"vectors": vectors.name, "accuracy": round(value, 4), "interval": round(interval, 4)}
        with OUT.open("a") as out:
            print(json.dumps(row), file=out, flush=True)
        print(row, flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), Path(sys.argv[2]), (*sys.argv[3:], "probe")[0])
