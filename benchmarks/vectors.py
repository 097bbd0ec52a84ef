"""Dense vectors as features: alone, and beside the words they were made from.

A table of texts (port, category, description) with its edges; the vectors are 64 coordinates of the letters of each
text (groups of 3 to 5, hashed, TF-IDF, truncated SVD), which stand in for those of a sentence encoder: any such
array is read in the same way. Accuracy on tasks of the validation classes.

    python benchmarks/vectors.py FOLDER [METHOD]      a folder with ports.csv and dependencies.csv
"""

import csv
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from blocks import accuracy
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer

from fewnode.graph import Graph
from fewnode.own.classes import choose_split

OUT = Path(__file__).parent / "rows" / "vectors.jsonl"


def text_vectors(path: Path) -> np.ndarray:
    with path.open(newline="", encoding="utf-8") as file:
        texts = [row["description"] for row in csv.DictReader(file)]
    counts = HashingVectorizer(analyzer="char_wb", ngram_range=(3, 5), n_features=2**14).transform(texts)
    weighted = TfidfTransformer().fit_transform(abs(counts))
    return TruncatedSVD(64, n_iter=2, random_state=0).fit_transform(weighted).astype(np.float32)


def main(folder: Path, method: str) -> None:
    tables = folder / "dependencies.csv", folder / "ports.csv"
    with tempfile.TemporaryDirectory() as name:
        vectors = Path(name) / "vectors.npy"
        np.save(vectors, text_vectors(tables[1]))
        ways = {
            "words": {},
            "vectors": {"features": vectors},
            "words and vectors": {"features": vectors, "text_column": "description"},
        }
        for way, options in ways.items():
            graph = Graph.from_files(*tables, **options)
            value, interval = accuracy(graph, choose_split(graph, 10), method)
            row = {"graph": "macports", "method": method, "features": way, "columns": graph.num_features}
            row |= {"accuracy": round(value, 4), "interval": round(interval, 4)}
            with OUT.open("a") as out:
                print(json.dumps(row), file=out, flush=True)
            print(row, flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), (*sys.argv[2:], "probe")[0])
