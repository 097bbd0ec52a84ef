"""Build the data sets of the result tables that are not fetched by name, from public files; and the bundled one.

Usage: python scripts/build_datasets.py OUT [NAME ...] [--files FOLDER]

Fetches the original files into FOLDER (OUT/files; those that are there already are taken), checks them, and writes
OUT/NAME.npz in the plain layout, or OUT/NAME.nodes.csv.gz and OUT/NAME.edges.csv.gz for graphs with texts; either is
found with FEWNODE_DATA=OUT. What the names stand for is in docs/datasets.md. `coauthor_cs` is fetched by name already.

`wordnet` is bundled and only built if it is named; FOLDER then holds data.noun, data.verb, data.adj, data.adv and the
four index files of WordNet 3.0 (Debian's package wordnet-base installs them in /usr/share/wordnet). The same files
always give the same bytes.
"""

import argparse
import ast
import csv
import gzip
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse as sp
from scipy.io import loadmat

from fewnode.datasets import catalog
from fewnode.datasets.catalog import File
from fewnode.datasets.download import fetch
from fewnode.datasets.loading import load_dataset
from fewnode.files import write_npz
from fewnode.graph import Graph

_GITHUB = "https://raw.githubusercontent.com"
_CORA = f"{_GITHUB}/Carryguo/Coattention/e27ce6a2f02e69210f65ffcef6eb787f04626aa2/data/coraml"
_GPN = f"{_GITHUB}/kaize0409/GPN_Graph-Few-shot/40ef635aa2a81f175e56c5588e1d50688f6aa85e/few_shot_data"
_LABELS = f"{_GITHUB}/jypcj/awesome-dm-project/9f0c3a402f0c3548b112797aa73f84d9c6f3c8c8/debug"
_LASTFM = f"{_GITHUB}/benedekrozemberczki/FEATHER/045db7963fb367eb9aed6439ceea96320e8ac7cc/new_node_level_dataset"
_SNAP = "https://snap.stanford.edu/data"
_TITLES = f"{_GITHUB}/APEX-WSU/CoRA/0503b0e84bf2048c36421df6f860f19df84221ab"

FILES = {
    "cora_full_knnfeat": (
        File("coraml.edge", f"{_CORA}/coraml.edge", "9fcfb40f21803cd297c652c194ca2d79e08f6a48"),
        File("coraml.label", f"{_CORA}/coraml.label", "b7a6ebb66177ed4322d633c7aa10a846e279ab7a"),
        File("c9.txt", f"{_CORA}/knn/c9.txt", "e834c249bf39511b738b0854087b39f2d05fedea"),
    ),
    "amazon_clothing_test20": (
        File("Amazon_clothing_network", f"{_GPN}/Amazon_clothing_network", "1d9cde48180cce0e9f9fc08628362e661d9e2b20"),
        File(
            "Amazon_clothing_test.mat", f"{_GPN}/Amazon_clothing_test.mat", "69b1b026da94e601cee465b44ac04457fd82d621"
        ),
    ),
    "amazon_electronics_nofeat": (
        File(
            "Amazon_eletronics_network", f"{_GPN}/Amazon_eletronics_network", "79da2f1117c024987ef96fdc9382ac0c8b64c8ce"
        ),
        File("class_train_dict.txt", f"{_LABELS}/class_train_dict.txt", "fab31f6511e14434976cf2a88023018f82b5be03"),
        File("class_valid_dict.txt", f"{_LABELS}/class_valid_dict.txt", "04c5cb78b27e3622dab38a097063c08173255255"),
        File("class_test_dict.txt", f"{_LABELS}/class_test_dict.txt", "7bbfc0c10961f6bd9b4d3a4a4d02cfa240fba596"),
    ),
    "email_eu_core_nofeat": (
        File("email-Eu-core.txt.gz", f"{_SNAP}/email-Eu-core.txt.gz"),
        File("email-Eu-core-department-labels.txt.gz", f"{_SNAP}/email-Eu-core-department-labels.txt.gz"),
    ),
    "lastfm_asia_nofeat": (
        File(
            "lastfm_asia_edges.csv",
            f"{_LASTFM}/edges/lastfm_asia_edges.csv",
            "1e8268dea093d0e7d0ed9674de3d393681cc3b3a",
        ),
        File(
            "lastfm_asia_target.csv",
            f"{_LASTFM}/target/lastfm_asia_target.csv",
            "9768d6bd952fa753c2591da9e02e0623a9f8cec0",
        ),
    ),
    "cora70_titles": tuple(
        File(name, f"{_TITLES}/{name}")
        for name in ("paper_terms.json", "term_dictionary.json", "paper_references.json", "classification_papers.json")
    ),
    "wordnet": tuple(File(f"{kind}.{part}") for kind in ("data", "index") for part in ("noun", "verb", "adj", "adv")),
}


def pairs(path: Path) -> np.ndarray:
    """Two numbers a line, [lines, 2]; a line of words above them is left out."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    rows = [line.replace(",", " ").split() for line in data.decode().splitlines()]
    return np.array([row for row in rows if row and row[0].isdecimal()], np.int64)


def labels(path: Path) -> np.ndarray:
    table = pairs(path)
    y = np.empty(len(table), np.int64)
    y[table[:, 0]] = table[:, 1]
    return y


def cora(edge: Path, label: Path, nearest: Path) -> dict[str, Any]:
    """x lists the nodes whose words are nearest; the file has each pair once."""
    y = np.loadtxt(label, dtype=np.int64)
    a, b = pairs(nearest).T
    x = sp.csr_matrix((np.ones(2 * len(a), np.float32), (np.r_[a, b], np.r_[b, a])), shape=(len(y), len(y)))
    x.data[:] = 1
    return {"edge_index": np.unique(pairs(edge), axis=0).T, "y": y, "x": x}


def clothing(network: Path, test: Path) -> dict[str, Any]:
    """The part of the graph with the 20 classes of the test file, nodes in the order of their numbers."""
    found = loadmat(test)
    nodes, y = found["Index"].ravel().astype(np.int64), found["Label"].ravel().astype(np.int64)
    order = np.argsort(nodes)
    place = np.full(nodes.max() + 1, -1)
    place[nodes[order]] = np.arange(len(nodes))
    edges = pairs(network)
    edges = edges[(edges <= nodes.max()).all(1)]
    edges = place[edges].T
    ids = np.unique(y)
    return {
        "edge_index": edges[:, (edges >= 0).all(0)],
        "y": np.searchsorted(ids, y[order]),
        "x": sp.csr_matrix(found["Attributes"])[order].astype(np.float32),
        "class_names": [f"gpn_label_{c}" for c in ids],
    }


def electronics(network: Path, *dumps: Path) -> dict[str, Any]:
    """The labels are dumps of dictionaries, class -> list of nodes."""
    nodes: dict[int, int] = {}
    for dump in dumps:
        text = dump.read_text()
        members: dict[float, list[int]] = ast.literal_eval(text[text.index("{") : text.rindex("}") + 1])
        nodes |= {node: int(c) for c, part in members.items() for node in part}
    y = np.array([nodes[i] for i in range(len(nodes))], np.int64)
    return {"edge_index": pairs(network).T, "y": y, "x": None}


def plain(edges: Path, target: Path) -> dict[str, Any]:
    return {"edge_index": pairs(edges).T, "y": labels(target), "x": None}


def titles(terms: Path, dictionary: Path, references: Path, classes: Path) -> dict[str, list[tuple[str, ...]]]:
    """Tables of papers and of citations: the words of the titles, and the deepest topic of each paper that has one."""
    words, held, cited, topics = (json.loads(path.read_text()) for path in (dictionary, terms, references, classes))
    deepest: dict[int, str] = {}
    for topic in sorted(topics, key=lambda name: (name.count("/"), name)):
        deepest |= dict.fromkeys(topics[topic], topic)
    papers = sorted(map(int, held))
    nodes = [(str(i), deepest.get(i, ""), " ".join(words[term] for term in held[str(i)])) for i in papers]
    pairs = {(min(a, b), max(a, b)): (str(a), str(b)) for a, b in cited if a != b and {a, b} <= set(papers)}
    return {"nodes": [("id", "class", "text"), *nodes], "edges": [("source", "target"), *pairs.values()]}


# --- WordNet

SPEECH = ("noun", "verb", "adj", "adv")
PARTS = {"n": "noun", "v": "verb", "a": "adj", "s": "adj", "r": "adv"}  # s: satellites, also in data.adj


def words_of(text: str) -> list[str]:
    return text.split()


# Lexicographer files in the order of their numbers, which are the class ids: the manual page lexnames(5WN).
LEXNAMES = words_of(
    """
    adj.all adj.pert adv.all noun.Tops noun.act noun.animal noun.artifact noun.attribute noun.body
    noun.cognition noun.communication noun.event noun.feeling noun.food noun.group noun.location
    noun.motive noun.object noun.person noun.phenomenon noun.plant noun.possession noun.process
    noun.quantity noun.relation noun.shape noun.state noun.substance noun.time verb.body verb.change
    verb.cognition verb.communication verb.competition verb.consumption verb.contact verb.creation
    verb.emotion verb.motion verb.perception verb.possession verb.social verb.stative verb.weather
    adj.ppl
    """
)

STOP_WORDS = frozenset(
    words_of(
        """
    about after all also an and any are as at be because been before being between both but by can could
    did do does done during each eg either esp especially etc for from had has have he her him his how
    ie if in into is it its may might more most must no nor not of off often on one only or other out
    over own same she should so some such than that the their them then there these they this those
    through to too under up upon used using usually very was we were what when where which while who
    whom whose will with within without would you your
    """
    )
)


@dataclass(frozen=True)
class Synset:
    """One line of a data file: where it stands, its words, the synsets it points to, and its definition."""

    part: str
    offset: str
    file_number: int
    words: tuple[str, ...]
    pointers: tuple[tuple[str, str], ...]
    definition: str


def parse_line(line: str) -> Synset:
    """A synset from one line of a data file; layout in the manual page wndb(5WN)."""
    head, _, gloss = line.partition(" | ")
    fields = head.split()
    after_words = 4 + 2 * int(fields[3], 16)
    after_pointers = after_words + 1 + 4 * int(fields[after_words])
    pointers = zip(
        fields[after_words + 3 : after_pointers : 4],
        fields[after_words + 2 : after_pointers : 4],
        strict=True,
    )
    return Synset(
        part=PARTS[fields[2]],
        offset=fields[0],
        file_number=int(fields[1]),
        words=tuple(re.sub(r"\((a|p|ip)\)$", "", word) for word in fields[4:after_words:2]),  # adjective position
        pointers=tuple((PARTS[part], offset) for part, offset in pointers),
        definition=re.sub(r'"[^"]*("|$)', " ", gloss).strip(),  # what is quoted is an example
    )


def read_synsets(folder: Path) -> list[Synset]:
    """All synsets, nouns first, in the order of the files (lines that start with spaces are the licence)."""
    synsets = []
    for part in SPEECH:
        lines = (folder / f"data.{part}").read_text(encoding="utf-8").splitlines()
        synsets += [parse_line(line) for line in lines if line and not line.startswith(" ")]
    return synsets


def read_senses(folder: Path) -> dict[tuple[str, str, str], int]:
    """(part of speech, word in lower case, offset) -> sense number, the most frequent sense being 1."""
    senses = {}
    for part in SPEECH:
        for line in (folder / f"index.{part}").read_text(encoding="utf-8").splitlines():
            if line and not line.startswith(" "):
                fields = line.split()
                offsets = fields[-int(fields[2]) :]
                senses |= {(part, fields[0], offset): at + 1 for at, offset in enumerate(offsets)}
    return senses


def readable_names(synsets: Sequence[Synset], senses: dict[tuple[str, str, str], int]) -> list[str]:
    """``dog.noun.01``: first word, part of speech, which of the word's senses it is. No two are alike."""
    return [f"{s.words[0]}.{s.part}.{senses[s.part, s.words[0].lower(), s.offset]:02d}" for s in synsets]


def undirected_edges(synsets: Sequence[Synset]) -> np.ndarray:
    """Pointers of every kind as pairs of positions [2, E], smaller first, each once."""
    position = {(synset.part, synset.offset): at for at, synset in enumerate(synsets)}
    pairs = {
        (min(at, other), max(at, other))
        for at, synset in enumerate(synsets)
        for other in (position[pointer] for pointer in synset.pointers)
        if other != at
    }
    return np.array(sorted(pairs), dtype=np.int32).reshape(-1, 2).T


def defining_words(synset: Synset) -> set[str]:
    """The words of the definition that are neither stop words nor words of the synset itself."""
    own = set(tokens(" ".join(synset.words)))
    return {word for word in tokens(synset.definition) if len(word) > 1 and word not in STOP_WORDS and word not in own}


def tokens(text: str) -> list[str]:
    return re.findall("[a-z]+", text.lower())


def vocabulary(bags: Iterable[set[str]], min_definitions: int, max_words: int) -> list[str]:
    """The commonest words, commonest first; equally common ones by the alphabet (a fixed order)."""
    counts = Counter(word for bag in bags for word in bag)
    kept = (word for word, count in counts.items() if count >= min_definitions)
    return sorted(kept, key=lambda word: (-counts[word], word))[:max_words]


def wordnet(*files: Path, min_definitions: int = 10, max_words: int = 6000) -> dict[str, np.ndarray]:
    """The arrays of the plain layout, in the smallest types that hold them, from files of one folder."""
    folder = files[0].parent
    synsets = read_synsets(folder)
    bags = [defining_words(synset) for synset in synsets]
    words = vocabulary(bags, min_definitions, max_words)
    column = {word: at for at, word in enumerate(words)}
    rows = [sorted(column[word] for word in bag if word in column) for bag in bags]
    indices = [at for row in rows for at in row]
    return {
        "edge_index": undirected_edges(synsets),
        "y": np.array([synset.file_number for synset in synsets], dtype=np.int8),
        "x_data": np.ones(len(indices), dtype=np.uint8),
        "x_indices": np.array(indices, dtype=np.uint16),
        "x_indptr": np.cumsum([0, *map(len, rows)], dtype=np.int32),
        "x_shape": np.array([len(synsets), len(words)], dtype=np.int64),
        "node_names": np.array(readable_names(synsets, read_senses(folder))),
        "class_names": np.array(LEXNAMES),
        "feature_names": np.array(words),
    }


BUILDERS: dict[str, Callable[..., dict[str, Any]]] = {
    "cora_full_knnfeat": cora,
    "amazon_clothing_test20": clothing,
    "amazon_electronics_nofeat": electronics,
    "email_eu_core_nofeat": plain,
    "lastfm_asia_nofeat": plain,
    "cora70_titles": titles,
    "wordnet": wordnet,
}


def arrays(built: dict[str, Any]) -> dict[str, np.ndarray]:
    """The plain layout; a graph without features has a matrix of no columns."""
    n = len(built["y"])
    x = sp.csr_matrix((n, 0), dtype=np.float32) if built["x"] is None else built["x"]
    x.sort_indices()
    names = {} if "class_names" not in built else {"class_names": np.array(built["class_names"])}
    return {
        "edge_index": built["edge_index"].astype(np.int64),
        "y": built["y"].astype(np.int64),
        "x_data": x.data.astype(np.float32),
        "x_indices": x.indices.astype(np.int32),
        "x_indptr": x.indptr.astype(np.int64),
        "x_shape": np.array(x.shape, np.int64),
        **names,
    }


def build(name: str, out: Path, files: Path) -> list[Path]:
    """Write the data set ``name``; what comes out is counted as the catalog does."""
    built = BUILDERS[name](*(fetch(file, files) for file in FILES[name]))
    out.mkdir(parents=True, exist_ok=True)
    if "nodes" in built:
        written = [out / f"{name}.{part}.csv.gz" for part in built]
        for path, rows in zip(written, built.values(), strict=True):
            with path.open("wb") as packed, gzip.GzipFile(fileobj=packed, mode="wb", mtime=0, filename="") as raw:
                csv.writer(io.TextIOWrapper(raw, "utf-8", newline="", write_through=True)).writerows(rows)
        graph = load_dataset(name, out)[0]
    else:
        written = [out / f"{name}.npz"]
        write_npz(written[0], built if "x_data" in built else arrays(built))
        graph = Graph.from_npz(written[0])
    counts = catalog.entry(name).counts
    found = (graph.num_nodes, graph.num_edges, graph.num_classes)
    if found != (counts.nodes, counts.edges, counts.classes):
        raise SystemExit(f"{name}: built {found}, expected {(counts.nodes, counts.edges, counts.classes)}")
    return written


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Build data sets from public files.")
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(FILES))
    parser.add_argument("--files", type=Path, help="where the original files go (OUT/files)")
    args = parser.parse_args(argv)
    for name in args.names or (name for name in FILES if name != "wordnet"):
        if name not in FILES:
            parser.error(f"{name}: one of {', '.join(FILES)}")
        print(*build(name, args.out, args.files or args.out / "files"), flush=True)


if __name__ == "__main__":
    main()
