"""Pretrained text encoders: what they cost, and what their vectors are worth beside the words of the same texts.

    python benchmarks/text.py speed ENCODER ...        texts per second of one core, and memory
    python benchmarks/text.py accuracy ENCODER ...     validation classes, with words, with vectors, with both
    python benchmarks/text.py table                    what the rows say

An ENCODER is a folder or a name, as ``fewnode.tables.text.load_encoder`` takes it. The data sets beside WordNet are
looked for in the folder that FEWNODE_DATA names; the glosses of WordNet in the one that FEWNODE_WORDNET_DICT names
(data.noun, data.verb, ...). Rows are appended as they finish; what is there already is not run again. Novel classes are
never looked at: these figures are there to choose by.
"""

import argparse
import importlib.util
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

import fewnode
from fewnode import ClassSplit, Graph
from fewnode.graph.arrays import to_tensor
from fewnode.tables.encode import Block, TableEncoder, combined
from fewnode.tables.text import encode_cached, load_encoder
from fewnode.training.evaluate import accuracies, score_tasks

ROWS = Path(__file__).parent / "rows" / "text.jsonl"
TABLES = {  # edges, nodes, the column of names and the column of texts
    "macports": ("raw/macports/dependencies.csv", "raw/macports/ports.csv", "port", "description"),
    "cora70_titles": ("text/cora70_titles.edges.csv.gz", "text/cora70_titles.nodes.csv.gz", "id", "text"),
    "arxiv_cs40_coauthors": (
        "text/arxiv_cs40_coauthors.edges.csv.gz",
        "text/arxiv_cs40_coauthors.nodes.csv.gz",
        "id",
        "text",
    ),
}
# The 40 classes of OGBN-arxiv in the order of its label ids.
ARXIV = """
    NA MM LO CY CR DC HC CE NI CC AI MA GL NE SC AR CV GR ET SY CG OH PL SE LG SD SI RO IT PF CL IR MS FL DS OS GT DB
    DL DM
"""
WAYS, TASKS = ("words", "vectors", "joined columns", "mixed"), 500


def data() -> Path:
    return Path(os.environ["FEWNODE_DATA"])


def texts_of(name: str) -> tuple[list[str], list[str]]:
    """Names of the nodes and their texts, in the order of the node table."""
    if name == "wordnet":
        return [], [synset.definition for synset in synsets()]
    _, nodes, key, column = TABLES[name]
    table = pd.read_csv(data() / nodes, usecols=[key, column], dtype=str, keep_default_na=False)
    return table[key].tolist(), table[column].tolist()


def synsets() -> list:
    script = Path(__file__).parents[1] / "scripts" / "build_wordnet.py"
    spec = importlib.util.spec_from_file_location("build_wordnet", script)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["build_wordnet"] = module
    spec.loader.exec_module(module)
    return module.read_synsets(Path(os.environ["FEWNODE_WORDNET_DICT"]))


def graph_of(name: str) -> Graph:
    """The graph, its features the words of the texts."""
    if name == "wordnet":
        return fewnode.load_dataset(name)[0]
    edges, nodes, *_ = TABLES[name]
    options = {"ignore_column": ["created", "all_categories"]} if name.startswith("arxiv") else {}
    return Graph.from_files(data() / edges, data() / nodes, **options)


def splits_of(name: str, graph: Graph) -> Iterator[ClassSplit]:
    """TENT's class lists of OGBN-arxiv; the split of the data set; or two at random."""
    if name == "arxiv_cs40_coauthors":
        parts = json.loads((data() / "raw/tent_class_splits/ogbn-arxiv_class_split.json").read_text())
        assert graph.class_names is not None
        names = ARXIV.split()
        yield ClassSplit(*([graph.class_names.index(f"cs.{names[label]}") for label in part] for part in parts))
    elif name == "wordnet":
        yield fewnode.load_dataset(name)[1]
    else:
        for seed in range(2):
            yield fewnode.random_split(graph.y, (0.5, 0.25, 0.25), min_size=25, seed=seed)


def node_vectors(name: str, graph: Graph, encoder: str) -> np.ndarray:
    """Vectors in the order of the graph's nodes."""
    names, texts = texts_of(name)
    made = encode_cached(load_encoder(encoder), texts)
    if not names:
        return made
    assert graph.node_names is not None
    place = {name: i for i, name in enumerate(graph.node_names)}
    out = np.zeros((graph.num_nodes, made.shape[1]), np.float32)
    out[[place[name] for name in names]] = made
    return out


def log_probabilities(graph: Graph, split: ClassSplit, shots: int) -> tuple[Tensor, fewnode.Tasks]:
    hidden = ClassSplit(split.base, split.validation)
    model = fewnode.fit("vantage", graph, hidden, n_way=5, k_shot=shots, seed=0)
    tasks = fewnode.draw_tasks(graph.y, split.validation, 5, shots, 15, TASKS, seed=1)
    return torch.log_softmax(score_tasks(model, graph, tasks), -1), tasks


def accuracy(graphs: list[str], encoders: list[str]) -> None:
    for name in graphs:
        words = graph_of(name)
        for encoder in encoders:
            label = Path(encoder).name
            vectors = node_vectors(name, words, encoder)
            alone = words.with_features(torch.from_numpy(vectors))
            joined = joined_columns(words, vectors)
            for number, split in enumerate(splits_of(name, words)):
                for shots in (1, 5):
                    facts = {"what": "accuracy", "graph": name, "split": number, "shots": shots, "encoder": label}
                    if all(is_done({**facts, "way": way}) for way in WAYS):
                        continue
                    found, tasks = {}, None
                    for way, graph in (("words", words), ("vectors", alone), ("joined columns", joined)):
                        found[way], tasks = log_probabilities(graph, split, shots)
                    found["mixed"] = found["words"] + found["vectors"]
                    for way, scores in found.items():
                        right = accuracies(scores, tasks)
                        interval = 1.96 * float(right.std()) / len(right) ** 0.5
                        add(**facts, way=way, accuracy=round(float(right.mean()), 4), interval=round(interval, 4))


def joined_columns(words: Graph, vectors: np.ndarray) -> Graph:
    """Words and vectors side by side, as a node table with a column of vectors is read."""
    x, _, _ = combined([Block("text", words.features_scipy(), None), Block("vectors", vectors, None)], TableEncoder())
    return words.with_features(to_tensor(x))


def speed(graphs: list[str], encoders: list[str], most: int) -> None:
    """Each in a process of its own, for its memory."""
    for name in graphs:
        for encoder in encoders:
            command = [sys.executable, __file__, "encode", encoder, "--graphs", name, "--most", str(most)]
            one = {"TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
            subprocess.run(command, check=True, env=os.environ | one)


def encode(name: str, encoder: str, most: int) -> None:
    texts = texts_of(name)[1]
    texts = texts[:: max(1, len(texts) // most)] if most else texts
    loaded, started = load_encoder(encoder), time.process_time()
    loaded.encode(texts)
    seconds = time.process_time() - started
    add(
        what="speed",
        graph=name,
        encoder=loaded.name,
        texts=len(texts),
        characters=round(sum(map(len, texts)) / len(texts)),
        seconds=round(seconds, 1),
        texts_per_second=round(len(texts) / seconds),
        megabytes=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    )


def add(**row: object) -> None:
    print(json.dumps(row), flush=True)
    with ROWS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def read(**wanted: object) -> list[dict]:
    rows = [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()] if ROWS.exists() else []
    return [row for row in rows if row.items() >= wanted.items()]


def is_done(wanted: dict) -> bool:
    return bool(read(**wanted))


def accuracy_table() -> str:
    lines = [f"| graph | encoder | shots | {' | '.join(WAYS)} |", "|---|---|---:|" + "---:|" * len(WAYS)]
    for graph, encoder, shots in dict.fromkeys(
        (row["graph"], row["encoder"], row["shots"]) for row in read(what="accuracy")
    ):
        cells = []
        for way in WAYS:
            found = read(what="accuracy", graph=graph, encoder=encoder, shots=shots, way=way)
            cells.append(" / ".join(f"{100 * row['accuracy']:.1f}" for row in found))
        lines.append(f"| {graph} | {encoder} | {shots} | {' | '.join(cells)} |")
    return "\n".join(lines)


def table() -> str:
    lines = [
        "| graph | encoder | texts | characters each | texts/s, one core | memory |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for row in read(what="speed"):
        cells = [f"{row[key]:,}" for key in ("texts", "characters", "texts_per_second")]
        lines.append(f"| {row['graph']} | {row['encoder']} | {' | '.join(cells)} | {row['megabytes']:,} MB |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "accuracy", "encode", "table"])
    parser.add_argument("encoders", nargs="*")
    parser.add_argument("--graphs", nargs="+", default=[*TABLES, "wordnet"])
    parser.add_argument("--most", type=int, default=0, help="texts to encode, evenly spaced; 0 for all")
    args = parser.parse_args()
    if args.what == "speed":
        speed(args.graphs, args.encoders, args.most)
    elif args.what == "encode":
        encode(args.graphs[0], args.encoders[0], args.most)
    elif args.what == "accuracy":
        accuracy(args.graphs, args.encoders)
    else:
        print(table(), accuracy_table(), sep="\n\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
