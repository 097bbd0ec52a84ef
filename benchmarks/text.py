"""Pretrained text encoders: what they cost, and what their vectors are worth beside the words of the same texts.

    python benchmarks/text.py speed ENCODER ...        texts per second of one core, and memory
    python benchmarks/text.py accuracy none ENCODER ...    5-way tasks, by the words alone and with each encoder
    python benchmarks/text.py open-set none ENCODER ...    known classes, new classes, and classes given by their names
    python benchmarks/text.py table                    what the rows say

An ENCODER is a folder or a name, as ``fewnode.tables.text.load_encoder`` takes it. The data sets beside WordNet are
looked for in the folder that FEWNODE_DATA names ("arxiv_cs40_coauthors to 2010" has the papers of those years only);
the glosses of WordNet in the one that FEWNODE_WORDNET_DICT names (data.noun, data.verb, ...). Rows are appended as they
finish; what is there already is not run again. Choices were made on validation classes (``--classes validation``, the
default); novel classes are for the final figures. "random vectors" and "shuffled texts|ENCODER" are encoders that are
worth nothing.
"""

import argparse
import importlib.util
import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pandas as pd
import torch
from scipy import sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import average_precision_score

import fewnode
from fewnode import ClassSplit, FewShotClassifier, Graph
from fewnode.classifier.inputs import TableSource
from fewnode.classifier.open_set import described_rows
from fewnode.graph.arrays import to_tensor
from fewnode.tables.encode import Block, TableEncoder
from fewnode.tables.text import encode_cached, load_encoder
from fewnode.training.evaluate import correct, score_tasks

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
# The 40 classes of OGBN-arxiv in the order of its label ids, spelt out as arXiv does.
ARXIV = {
    "NA": "Numerical Analysis",
    "MM": "Multimedia",
    "LO": "Logic in Computer Science",
    "CY": "Computers and Society",
    "CR": "Cryptography and Security",
    "DC": "Distributed, Parallel, and Cluster Computing",
    "HC": "Human-Computer Interaction",
    "CE": "Computational Engineering, Finance, and Science",
    "NI": "Networking and Internet Architecture",
    "CC": "Computational Complexity",
    "AI": "Artificial Intelligence",
    "MA": "Multiagent Systems",
    "GL": "General Literature",
    "NE": "Neural and Evolutionary Computing",
    "SC": "Symbolic Computation",
    "AR": "Hardware Architecture",
    "CV": "Computer Vision and Pattern Recognition",
    "GR": "Graphics",
    "ET": "Emerging Technologies",
    "SY": "Systems and Control",
    "CG": "Computational Geometry",
    "OH": "Other Computer Science",
    "PL": "Programming Languages",
    "SE": "Software Engineering",
    "LG": "Machine Learning",
    "SD": "Sound",
    "SI": "Social and Information Networks",
    "RO": "Robotics",
    "IT": "Information Theory",
    "PF": "Performance",
    "CL": "Computation and Language",
    "IR": "Information Retrieval",
    "MS": "Mathematical Software",
    "FL": "Formal Languages and Automata Theory",
    "DS": "Data Structures and Algorithms",
    "OS": "Operating Systems",
    "GT": "Computer Science and Game Theory",
    "DB": "Databases",
    "DL": "Digital Libraries",
    "DM": "Discrete Mathematics",
}
TASKS = 500
EARLY = " to 2010"  # after the name of a graph whose nodes have dates: an eighth of arXiv


def data() -> Path:
    return Path(os.environ["FEWNODE_DATA"])


def texts_of(name: str) -> tuple[list[str], list[str]]:
    """Names of the nodes and their texts, in the order of the node table."""
    if name == "wordnet":
        return [], [synset.definition for synset in synsets()]
    *_, key, column = TABLES[name.removesuffix(EARLY)]
    table = pd.read_csv(files_of(name)[1], usecols=[key, column], dtype=str, keep_default_na=False)
    return table[key].tolist(), table[column].tolist()


def files_of(name: str) -> tuple[Path, Path]:
    """The edge table and the node table of a graph, or of its nodes of the years to 2010."""
    edges, nodes = (data() / file for file in TABLES[name.removesuffix(EARLY)][:2])
    if not name.endswith(EARLY):
        return edges, nodes
    table, links = (pd.read_csv(file, dtype=str, keep_default_na=False) for file in (nodes, edges))
    table, folder = table[table["created"] < "2011"], Path(mkdtemp())
    links = links[links["source"].isin(table["id"]) & links["target"].isin(table["id"])]
    links.to_csv(folder / "edges.csv", index=False)
    table.to_csv(folder / "nodes.csv", index=False)
    return folder / "edges.csv", folder / "nodes.csv"


def synsets() -> list:
    script = Path(__file__).parents[1] / "scripts" / "build_datasets.py"
    spec = importlib.util.spec_from_file_location("build_datasets", script)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["build_datasets"] = module
    spec.loader.exec_module(module)
    return module.read_synsets(Path(os.environ["FEWNODE_WORDNET_DICT"]))


def graph_of(name: str, encoder: str = "words") -> Graph:
    """The graph, its features the words of the texts, and their vectors."""
    if name == "wordnet":
        graph = fewnode.load_dataset(name)[0]
        if encoder == "words":
            return graph
        counts = Block("counts", sp.csr_array(graph.features_scipy()), graph.feature_names)
        vectors = encode_cached(load_encoder(encoder), texts_of(name)[1])
        joined, _, blocks = TableEncoder().combine([counts, Block("meaning", vectors, None)])
        return graph.with_features(to_tensor(sp.csr_matrix(joined)), None, blocks)
    return Graph.from_files(*files_of(name), text_encoder=encoder, **options_of(name))


def options_of(name: str) -> dict:
    return {"ignore_column": ["created", "all_categories"]} if name.startswith("arxiv") else {}


def splits_of(name: str, graph: Graph) -> Iterator[ClassSplit]:
    """TENT's class lists of OGBN-arxiv; the split of the data set; or two at random."""
    if name.startswith("arxiv"):
        parts = json.loads((data() / "raw/tent_class_splits/ogbn-arxiv_class_split.json").read_text())
        assert graph.class_names is not None
        names = list(ARXIV)
        yield ClassSplit(*([graph.class_names.index(f"cs.{names[label]}") for label in part] for part in parts))
    elif name == "wordnet":
        yield fewnode.load_dataset(name)[1]
    else:
        for seed in range(2):
            yield fewnode.random_split(graph.y, (0.5, 0.25, 0.25), min_size=25, seed=seed)


def graph_with(name: str, encoder: str) -> Graph:
    """The graph with the blocks that ``encoder`` adds: a folder or name; "none"; or, of the first encoder in the rows'
    place, a block that is worth nothing: "random vectors" or "shuffled texts" (after a bar, the encoder shuffled)."""
    kind, _, of = encoder.partition("|")
    words = graph_of(name, "words" if kind in ("none", "random vectors") else of or kind)
    if kind in ("random vectors", "shuffled texts"):
        rng, x = np.random.default_rng(0), words.features_scipy()
        if kind == "random vectors":
            blocks, made = (
                {"table": x.shape[1], "meaning": 256},
                rng.normal(size=(len(words.y), 256)).astype(np.float32),
            )
            x = to_unit(x)
        else:
            blocks = dict(words.blocks)
            made = x[:, blocks["table"] :].toarray()[rng.permutation(len(words.y))]
            x = x[:, : blocks["table"]]
        joined = sp.csr_matrix(sp.hstack([x, sp.csr_matrix(made)]), dtype=np.float32)
        return words.with_features(to_tensor(joined), None, blocks)
    return words


def to_unit(counts: sp.csr_matrix) -> sp.csr_matrix:
    """Words as tables with several blocks weigh them."""
    return TfidfTransformer(sublinear_tf=True).fit_transform(counts)


def accuracy(graphs: list[str], encoders: list[str], classes: str, steps: int, only: list[int]) -> None:
    """5-way accuracy of ``vantage`` on tasks of the validation or the novel classes."""
    for name, encoder in product(graphs, encoders):
        graph = graph_with(name, encoder)
        for number, split in enumerate(splits_of(name, graph)):
            if number not in only:
                continue
            for shots in (1, 5):
                facts = {"what": "accuracy", "classes": classes, "graph": name, "split": number, "shots": shots}
                facts |= {"text encoder": label_of(encoder), "steps": steps}
                if is_done(facts):
                    continue
                hidden = ClassSplit(split.base, split.validation)
                model = fewnode.fit("vantage", graph, hidden, n_way=5, k_shot=shots, seed=0, steps=steps)
                tasks = fewnode.draw_tasks(graph.y, getattr(split, classes), 5, shots, 15, TASKS, seed=1)
                right = correct(score_tasks(model, graph, tasks), tasks).mean(1)
                interval = 1.96 * float(right.std()) / len(right) ** 0.5
                add(**facts, accuracy=round(float(right.mean()), 4), interval=round(interval, 4))


def label_of(encoder: str) -> str:
    return encoder.partition("|")[0] if "|" in encoder else Path(encoder).name


def open_set(graphs: list[str], encoders: list[str], draws: list[int]) -> None:
    """A third of the known labels, drawn by a seed, and all novel classes are hidden: accuracy of the former, average
    precision of the latter by three examples; and 5-way accuracy by names, by one example, by both."""
    for name, draw, encoder in product(graphs, draws, encoders):
        facts = {"what": "open set", "graph": name, "split": 0, "draw": draw, "text encoder": label_of(encoder)}
        if is_done(facts):
            continue
        reading = {"text_encoder": "words" if encoder == "none" else encoder} | options_of(name)
        truth, source = TableSource.of(*files_of(name), **reading).infer()
        split = next(iter(splits_of(name, truth)))
        if name.startswith("arxiv"):  # its names are codes
            truth = replace(truth, class_names=tuple(ARXIV[c.removeprefix("cs.")] for c in truth.class_names))
        rng = np.random.default_rng(draw)
        novel = torch.isin(truth.y, torch.tensor(split.novel))
        blanked = torch.from_numpy(rng.random(truth.num_nodes) < 0.3) & (truth.y >= 0) & ~novel
        graph = truth.with_labels(torch.where(novel | blanked, -1, truth.y))
        started = time.process_time()
        classifier = FewShotClassifier("probe").fit(graph, source=source)
        seconds = time.process_time() - started
        model = classifier.open_set_model()
        known = [truth.class_names.index(name) for name in model.classes]
        found = torch.tensor(known)[model.log_known[blanked].argmax(1)]
        members = {c: rng.permutation(np.flatnonzero(truth.y.numpy() == c)) for c in split.novel}
        free = (graph.y < 0).nonzero().flatten()
        precision = []
        for c, nodes in members.items():
            task = model.adapt({"new": torch.from_numpy(np.sort(nodes[:3]))})
            rest = free[~torch.isin(free, task.examples["new"])]
            precision.append(average_precision_score(truth.y[rest] == c, task.utilities(rest)[:, 1]))
        row = {**facts, "known": round(float((found == truth.y[blanked]).float().mean()), 4)}
        row |= {"average precision": round(float(np.mean(precision)), 4), "fit seconds": round(seconds, 1)}
        for way, shots, described in (("names", 0, True), ("one example", 1, False), ("both", 1, True)):
            if encoder == "none" and described:
                continue
            row[way] = five_way(classifier, truth, members, shots, described)
        add(**row)


def five_way(classifier: FewShotClassifier, truth: Graph, members: dict, shots: int, described: bool) -> float:
    """Mean accuracy of 30 tasks with five novel classes and 15 queries each."""
    rng, right, model = np.random.default_rng(1), [], classifier.open_set_model()
    texts = {c: re.sub(r"[\W_]+", " ", truth.class_names[c]) for c in members}
    vectors = classifier.encode_texts(list(texts.values())) if described else None
    rows = described_rows(classifier.graph, model.sources, model.pca, vectors) if described else []
    rows = dict(zip(members, rows, strict=False))
    for _ in range(30):
        chosen = rng.choice(list(members), 5, replace=False)
        picked = {c: rng.choice(members[c], shots + 15, replace=False) for c in chosen}
        examples = {str(c): torch.from_numpy(np.sort(picked[c][:shots])) for c in chosen}
        said = {str(c): rows[c] for c in chosen} if described else {}
        task = model.adapt(examples, descriptions=said)
        for place, c in enumerate(chosen):
            queries = torch.from_numpy(picked[c][shots:])
            right.append(float((task.utilities(queries)[:, 1:6].argmax(1) == place).float().mean()))
    return round(float(np.mean(right)), 4)


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
    """Accuracy by encoder, and the mean gain over words."""
    lines = ["| classes | graph | shots | text encoder: none | static | MiniLM |", "|---|---|---:|---:|---:|---:|"]
    rows = read(what="accuracy", classes="novel")
    for classes, graph, shots in dict.fromkeys((row["classes"], row["graph"], row["shots"]) for row in rows):
        cells = []
        for encoder in ("none", "potion-base-8M", "minilm-l6-v2-int8"):
            wanted = {"what": "accuracy", "classes": classes, "graph": graph, "shots": shots, "text encoder": encoder}
            found = read(**wanted)
            cells.append(" / ".join(f"{100 * row['accuracy']:.1f} ± {100 * row['interval']:.1f}" for row in found))
        lines.append(f"| {classes} | {graph} | {shots} | {' | '.join(cells)} |")
    return "\n".join(lines)


def useless_table() -> str:
    """What a block that is worth nothing costs."""
    lines = ["| graph | shots | words | beside random vectors | beside shuffled texts |", "|---|---:|---:|---:|---:|"]
    rows = read(what="accuracy", classes="validation")
    tried = [row for row in rows if row["text encoder"] in ("random vectors", "shuffled texts")]
    for graph, split, shots in dict.fromkeys((row["graph"], row["split"], row["shots"]) for row in tried):
        cells = []
        for encoder in ("none", "random vectors", "shuffled texts"):
            wanted = {"classes": "validation", "graph": graph, "split": split, "shots": shots, "text encoder": encoder}
            found = read(what="accuracy", **wanted)
            cells.append(" / ".join(f"{100 * row['accuracy']:.1f}" for row in found))
        lines.append(f"| {graph} | {shots} | {' | '.join(cells)} |")
    return "\n".join(lines)


def static_table() -> str:
    """Static encoders that need no model hub, on validation classes."""
    encoders = ("potion-base-8M", "wordllama")
    lines = [f"| graph | shots | {' | '.join(encoders)} |", "|---|---:|---:|---:|"]
    rows = read(what="accuracy", classes="validation")
    found = {(row["graph"], row["shots"], row["text encoder"]): row for row in rows}
    for graph, shots in [key[:2] for key in found if key[2] == encoders[1]]:
        cells = [found[graph, shots, encoder] for encoder in encoders]
        texts = (f"{100 * row['accuracy']:.1f} ± {100 * row['interval']:.1f}" for row in cells)
        lines.append(f"| {graph} | {shots} | {' | '.join(texts)} |")
    return "\n".join(lines)


def open_set_table() -> str:
    """Open-set classification and descriptions by encoder; figures of one cell are draws of the hidden labels."""
    names = ("known", "average precision", "names", "one example", "both")
    lines = [f"| graph | text encoder | {' | '.join(names)} |", "|---|---|" + "---:|" * len(names)]
    for graph, encoder in dict.fromkeys((row["graph"], row["text encoder"]) for row in read(what="open set")):
        rows = read(what="open set", graph=graph, **{"text encoder": encoder})
        cells = [" / ".join(f"{100 * row[name]:.1f}" for row in rows if name in row) for name in names]
        lines.append(f"| {graph} | {encoder} | {' | '.join(cells)} |")
    return "\n".join(lines)


def speed_table() -> str:
    """Texts per second and memory of each encoder."""
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
    parser.add_argument("what", choices=["speed", "accuracy", "open-set", "encode", "table"])
    parser.add_argument("encoders", nargs="*")
    parser.add_argument("--graphs", nargs="+", default=[*TABLES, "wordnet"])
    parser.add_argument("--most", type=int, default=0, help="texts to encode, evenly spaced; 0 for all")
    parser.add_argument("--classes", choices=["validation", "novel"], default="validation")
    parser.add_argument("--steps", type=int, default=50, help="of the training")
    parser.add_argument("--splits", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--draws", type=int, nargs="+", default=[0], help="of the labels hidden from an open-set model")
    args = parser.parse_args()
    if args.what == "speed":
        speed(args.graphs, args.encoders, args.most)
    elif args.what == "encode":
        encode(args.graphs[0], args.encoders[0], args.most)
    elif args.what == "accuracy":
        accuracy(args.graphs, args.encoders, args.classes, args.steps, args.splits)
    elif args.what == "open-set":
        open_set(args.graphs, args.encoders, args.draws)
    else:
        print(speed_table(), accuracy_table(), useless_table(), open_set_table(), sep="\n\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
