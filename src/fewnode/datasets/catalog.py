"""What each data set is, where it comes from, what it must hold. Nothing heavy is imported: ls is instant."""

from dataclasses import dataclass
from typing import NamedTuple

from ..errors import one_of


# --- Class ids of every data set to learn from, to select on and to test on: written out, so none drifts.
class Parts(NamedTuple):
    """Base, validation and novel class ids."""

    base: tuple[int, ...]
    validation: tuple[int, ...]
    novel: tuple[int, ...]


def _ids(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split())


# TENT's lists (Wang et al., KDD 2022): 25 / 20 / 25.
CORA_FULL = Parts(
    base=_ids("3 8 17 20 21 24 25 26 28 32 35 36 37 38 40 42 44 47 52 55 57 62 63 67 69"),
    validation=_ids("2 51 48 27 13 54 46 64 16 68 6 31 60 33 65 43 23 19 18 34"),
    novel=_ids("56 14 0 11 4 10 12 49 22 15 1 59 50 58 61 41 39 30 53 29 9 5 66 45 7"),
)

# TENT's lists: 91 / 36 / 40 (the paper prints 90 / 37 / 40).
AMAZON_E = Parts(
    base=_ids(
        """
        2 11 12 14 15 17 18 19 20 22 24 26 29 33 35 36 39 41 43 44 46 48 52 54 55 57 58 59 62 65
        66 69 70 72 73 74 75 76 77 78 80 84 86 88 90 91 92 94 95 96 100 101 103 104 105 106 112
        113 114 115 118 119 120 121 122 123 125 127 128 129 133 134 136 138 141 142 146 147 151
        152 153 154 155 156 158 159 161 162 164 165 166
        """
    ),
    validation=_ids(
        """
        107 56 83 143 64 50 45 109 37 79 150 89 111 7 87 16 0 60 28 116 81 110 67 32 13 149 98
        85 30 130 93 40 163 8 63 21
        """
    ),
    novel=_ids(
        """
        1 131 132 4 6 135 5 137 10 9 139 140 144 3 145 148 23 25 27 157 31 160 34 38 42 47 49 51
        53 61 68 71 82 97 99 102 108 117 124 126
        """
    ),
)

# TENT's lists: 80 / 27 / 30.
DBLP = Parts(
    base=_ids(
        """
        12 13 14 15 17 24 27 28 30 31 33 34 35 37 39 40 41 42 43 45 47 48 49 50 51 52 53 54 55
        56 57 58 62 64 65 66 67 68 70 71 72 73 75 76 78 80 81 82 83 84 85 86 89 91 92 93 94 96
        97 98 102 103 105 106 108 109 111 113 114 116 119 121 122 125 126 129 130 132 134 135
        """
    ),
    validation=_ids(
        """
        127 74 26 2 20 95 11 107 110 18 22 61 44 6 10 117 59 104 101 79 99 77 32 131 36 133 5
        """
    ),
    novel=_ids(
        """
        128 1 0 3 4 7 8 136 9 16 19 21 23 25 29 38 46 60 63 69 87 88 90 100 112 115 118 120 123
        124
        """
    ),
)

# TENT's lists: 15 / 5 / 20.
OGBN_ARXIV = Parts(
    base=_ids("32 34 3 35 38 39 10 13 16 17 18 21 23 26 27"),
    validation=_ids("8 12 9 1 33"),
    novel=_ids("28 7 0 5 2 36 6 22 15 37 30 25 29 11 20 19 31 24 14 4"),
)

# Novel: the classes of Amazon_clothing_test.mat. The other 57 were shuffled by random.Random(0) and cut 40
# / 17.
AMAZON_CLOTHING = Parts(
    base=_ids(
        """
        0 1 4 5 6 7 8 12 13 15 16 18 19 23 27 29 33 37 39 40 45 47 49 50 53 56 57 58 59 60 63 64
        66 67 69 71 72 73 75 76
        """
    ),
    validation=_ids("3 10 17 21 24 26 32 34 35 36 42 43 44 52 68 70 74"),
    novel=_ids("2 9 11 14 20 22 25 28 30 31 38 41 46 48 51 54 55 61 62 65"),
)

# All 20 classes, shuffled by random.Random(0), cut 5 / 5 / 10, so that 10-way tasks can be drawn.
AMAZON_CLOTHING_TEST20 = Parts(
    base=_ids("0 10 14 16 18"),
    validation=_ids("2 3 9 11 17"),
    novel=_ids("1 4 5 6 7 8 12 13 15 19"),
)

# All 15 classes, shuffled by random.Random(0), cut 5 / 5 / 5.
COAUTHOR_CS = Parts(
    base=_ids("1 5 9 10 11"),
    validation=_ids("2 3 4 7 8"),
    novel=_ids("0 6 12 13 14"),
)

# The 52 classes with at least 15 labelled nodes, shuffled by random.Random(0), cut 22 / 10 / 20.
NELL_PARTIAL = Parts(
    base=_ids("0 1 4 5 7 11 12 16 22 34 36 42 43 45 48 51 54 56 66 70 85 91"),
    validation=_ids("3 10 17 19 24 28 33 58 63 89"),
    novel=_ids("2 6 8 9 15 18 20 21 27 29 31 32 37 40 41 50 55 77 78 80"),
)

# The 21 classes with at least 15 nodes, shuffled by random.Random(0), cut 6 / 5 / 10 so that ten ways can
# be tested.
EMAIL_EU_CORE = Parts(
    base=_ids("0 13 17 22 23 36"),
    validation=_ids("4 5 7 11 14"),
    novel=_ids("1 6 8 9 10 15 16 19 21 37"),
)

# All 18 classes, shuffled by random.Random(0), cut 5 / 5 / 8.
LASTFM_ASIA = Parts(
    base=_ids("0 2 9 11 16"),
    validation=_ids("3 5 10 15 17"),
    novel=_ids("1 4 6 7 8 12 13 14"),
)

# Chosen by hand, 20 / 10 / 15: nouns 12 / 6 / 8, verbs 6 / 3 / 6, one kind of adjective in each, adverbs
# in base; large and small classes in each part (ids are numbers of lexicographer files).
WORDNET = Parts(
    base=_ids("0 2 4 5 7 8 10 11 14 15 18 22 23 26 30 31 35 37 40 42"),
    validation=_ids("3 12 17 21 25 28 29 33 41 44"),
    novel=_ids("1 6 9 13 16 19 20 24 27 32 34 36 38 39 43"),
)

# All 40 classes of a planted graph, as random_split with seed 0 cuts them.
PLANTED = Parts(
    base=_ids("0 1 2 5 8 9 11 13 16 17 20 21 25 35 38 39"),
    validation=_ids("4 19 22 28 30 31 32 33"),
    novel=_ids("3 6 7 10 12 14 15 18 23 24 26 27 29 34 36 37"),
)


# --- What the catalog holds about a data set.
@dataclass(frozen=True)
class File:
    """One original file: its name, its address (None: not fetched by this package), and its content checks.

    ``blob`` is the git blob id, the SHA-1 of ``b"blob <size>\\0"`` followed by the content.
    """

    name: str
    url: str | None = None
    blob: str | None = None
    sha256: str | None = None


@dataclass(frozen=True)
class Counts:
    """What a whole copy holds. ``stored`` counts the node pairs in the original files, ``edges`` the
    undirected edges they make; either may vouch for the structure."""

    nodes: int
    edges: int
    features: int
    classes: int
    stored: int | None = None


@dataclass(frozen=True)
class Entry:
    """A data set. ``reader`` names a function of ``readers.py``; ``note`` says what a stand-in lacks;
    ``folders`` are names under which the files may lie unpacked; ``recipe`` are the arguments of ``planted``
    for one that is made up instead of read."""

    name: str
    title: str
    files: tuple[File, ...]
    reader: str
    counts: Counts
    split: Parts
    license: str
    citation: str
    note: str = ""
    folders: tuple[str, ...] = ()
    bundled: bool = False
    recipe: tuple[tuple[str, float], ...] = ()

    @property
    def stand_in(self) -> bool:
        """Whether this is only a part of, or a substitute for, a published data set."""
        return self.note.startswith("Stand-in")


# --- What each data set is, where it comes from, what it must hold. Nothing heavy is imported: ls is instant.
_GPN = "https://raw.githubusercontent.com/kaize0409/GPN_Graph-Few-shot/40ef635aa2a81f175e56c5588e1d50688f6aa85e"
_BENCHMARK = "https://raw.githubusercontent.com/shchur/gnn-benchmark/1e72912a0810cdf27ae54fd589a3b43358a2b161"
_OGB = "https://snap.stanford.edu/ogb/data/nodeproppred"

_CITE_GPN = "Ding et al., Graph Prototypical Networks for Few-shot Learning on Attributed Networks, CIKM 2020"
_CITE_AMAZON = f"McAuley et al., Inferring Networks of Substitutable and Complementary Products, KDD 2015; {_CITE_GPN}"
_CITE_CORA = "Bojchevski and Günnemann, Deep Gaussian Embedding of Graphs, ICLR 2018"
_CITE_CS = "Shchur et al., Pitfalls of Graph Neural Network Evaluation, 2018 (arXiv:1811.05868)"
_CITE_WORDNET = "Fellbaum (ed.), WordNet: An Electronic Lexical Database, MIT Press 1998"


def _gpn(stem: str, network: str, train: str, test: str) -> tuple[File, ...]:
    ends = {"_network": network, "_train.mat": train, "_test.mat": test}
    return tuple(File(stem + end, f"{_GPN}/few_shot_data/{stem}{end}", blob) for end, blob in ends.items())


def _benchmark(name: str, blob: str) -> tuple[File, ...]:
    return (File(name, f"{_BENCHMARK}/data/npz/{name}", blob),)


def _local(name: str, sha256: str) -> tuple[File, ...]:
    return (File(f"{name}.npz", sha256=sha256),)


def _planted(kind: str, homophily: float, difficulty: float, edges: int) -> Entry:
    """A made-up graph with forty long-tailed classes."""
    shape = {"n": 8_000, "classes": 40, "features": 1_000, "tail": 0.7}
    return Entry(
        name=f"planted_{kind}",
        title=f"Made up: {kind} blocks of 40 classes with topics of words; {homophily:.0%} of edges within classes",
        files=(),
        reader="planted",
        counts=Counts(nodes=8_000, edges=edges, features=1_000, classes=40),
        split=PLANTED,
        license="none needed: made by this package",
        citation="degree-corrected blocks: Karrer and Newman, Physical Review E 83, 016107, 2011",
        recipe=(*shape.items(), ("homophily", homophily), ("difficulty", difficulty)),
    )


ENTRIES = (
    Entry(
        name="wordnet",
        title="WordNet 3.0: synsets, their pointers, words of their definitions; class = lexicographer file",
        files=(File("wordnet.npz"),),
        reader="npz",
        counts=Counts(nodes=117_659, edges=183_789, features=6_000, classes=45),
        split=WORDNET,
        license="WordNet 3.0 license (Princeton University; notice beside the file)",
        citation=_CITE_WORDNET,
        bundled=True,
    ),
    Entry(
        name="cora_full",
        title="Papers, citations between them, words of their abstracts; class = topic",
        files=_benchmark("cora_full.npz", "2478a176d63fe71090f4c21fe588bf5d381cad80"),
        reader="npz",
        counts=Counts(nodes=19_793, edges=63_421, features=8_710, classes=70, stored=65_311),
        split=CORA_FULL,
        license="MIT (gnn-benchmark repository)",
        citation=f"{_CITE_CORA}; {_CITE_CS}",
    ),
    Entry(
        name="amazon_e",
        title="Amazon electronics: products bought together, words of their descriptions; class = category",
        files=_gpn(
            "Amazon_eletronics",  # the misspelling is the source's
            network="79da2f1117c024987ef96fdc9382ac0c8b64c8ce",
            train="e1f86759374345bfbb250ef5ababa3b5686209a7",
            test="a7d46745f30e910aac6aabe8321d0b3c8f6087dd",
        ),
        reader="gpn",
        counts=Counts(nodes=42_318, edges=43_556, features=8_669, classes=167),
        split=AMAZON_E,
        license="none stated",
        citation=_CITE_AMAZON,
    ),
    Entry(
        name="dblp",
        title="DBLP: papers, citations between them, words of their abstracts; class = venue",
        files=_gpn(
            "dblp",
            network="10ad9ae1029106cdcfa11e857c96af338119cbff",
            train="363e9afefbedce08cff5d1da94abfb35d1dc3734",
            test="865c7aba67d1d23d40644143bcc91b61bf0ccfe8",
        ),
        reader="gpn",
        counts=Counts(nodes=40_672, edges=288_270, features=7_202, classes=137),
        split=DBLP,
        license="none stated",
        citation=f"Tang et al., ArnetMiner, KDD 2008; {_CITE_GPN}",
    ),
    Entry(
        name="ogbn_arxiv",
        title="arXiv computer science: papers, citations, averaged word vectors; class = subject area",
        files=(File("arxiv.zip", f"{_OGB}/arxiv.zip"),),
        reader="ogb",
        counts=Counts(nodes=169_343, edges=1_157_799, features=128, classes=40, stored=1_166_243),
        split=OGBN_ARXIV,
        license="ODC-BY",
        citation="Hu et al., Open Graph Benchmark: Datasets for Machine Learning on Graphs, NeurIPS 2020",
        folders=("arxiv", "ogbn_arxiv"),
    ),
    Entry(
        name="amazon_clothing",
        title="Amazon clothing: products viewed together, words of their descriptions; class = category",
        files=_gpn(
            "Amazon_clothing",
            network="1d9cde48180cce0e9f9fc08628362e661d9e2b20",
            train="c6b954abbf44b9ab48d393949b7d2900345671f6",
            test="69b1b026da94e601cee465b44ac04457fd82d621",
        ),
        reader="gpn",
        counts=Counts(nodes=24_919, edges=91_680, features=9_034, classes=77),
        split=AMAZON_CLOTHING,
        license="none stated",
        citation=_CITE_AMAZON,
    ),
    Entry(
        name="coauthor_cs",
        title="Authors in computer science, joint papers, keywords; class = field",
        files=_benchmark("ms_academic_cs.npz", "9bdd7da943d86b74297e8d32e99eb64245b52835"),
        reader="npz",
        counts=Counts(nodes=18_333, edges=81_894, features=6_805, classes=15),
        split=COAUTHOR_CS,
        license="MIT (gnn-benchmark repository)",
        citation=_CITE_CS,
    ),
    Entry(
        name="cora_full_knnfeat",
        title="Cora-full's graph and labels; x = nearest neighbours by the true words",
        files=_local("cora_full_knnfeat", "840b07e1dddcd881a9409981e4f68f45a9ef3c29e180545725f28892d7c90d61"),
        reader="npz",
        counts=Counts(nodes=19_793, edges=63_421, features=19_793, classes=70),
        split=CORA_FULL,
        license="none stated (the packing it comes from, AM-GCN, is MIT)",
        citation=f"{_CITE_CORA}; Wang et al., AM-GCN, KDD 2020",
        note="Stand-in for cora_full: the 8,710 words are missing; x lists each node's nine nearest nodes "
        "by cosine of the true words (github.com/Carryguo/Coattention at 12bc82362a5e).",
    ),
    Entry(
        name="amazon_electronics_nofeat",
        title="Amazon electronics' graph and labels, no features",
        files=_local("amazon_electronics_nofeat", "286f625018523f4ceabefa6687e53e28bb0d3eb0d300e99a60604390137c436b"),
        reader="npz",
        counts=Counts(nodes=42_318, edges=43_556, features=0, classes=167),
        split=AMAZON_E,
        license="none stated",
        citation=_CITE_AMAZON,
        note="Stand-in for amazon_e: the 8,669 words are missing, so features are structural.",
    ),
    Entry(
        name="amazon_clothing_test20",
        title="The part of Amazon clothing with the 20 classes of its test file",
        files=_local("amazon_clothing_test20", "7a77e6ef6976aa01b8d5b029d2711e8f492a70abd5666abedcbc2f3212343fd2"),
        reader="npz",
        counts=Counts(nodes=9_360, edges=29_077, features=9_034, classes=20),
        split=AMAZON_CLOTHING_TEST20,
        license="none stated",
        citation=_CITE_AMAZON,
        note="Stand-in for amazon_clothing: 20 of its 77 classes, labels renumbered, real words.",
    ),
    Entry(
        name="nell_partial",
        title="NELL knowledge graph: entities and relations, words; class = kind of entity",
        files=_local("nell_partial", "cd2597627280c71df9a1101f3beb33c13d6a5700bfc7a4ba9331c62d1042337e"),
        reader="npz",
        counts=Counts(nodes=65_755, edges=125_775, features=5_414, classes=105),
        split=NELL_PARTIAL,
        license="MIT (Planetoid)",
        citation="Carlson et al., Toward an Architecture for Never-Ending Language Learning, AAAI 2010; "
        "Yang et al., Revisiting Semi-Supervised Learning with Graph Embeddings, ICML 2016",
        note="Stand-in for NELL: 3,575 of 9,891 entities are labelled; the split holds the 52 of 105 classes "
        "that have the 15 nodes a task needs.",
    ),
    Entry(
        name="wordnet30_lexnames",
        title="WordNet 3.0 as in `wordnet`, without names and with slightly other words",
        files=_local("wordnet30_lexnames", "60dc89bf88ac483e4dee5284ff44dbc028d416dca6adab0e1e838d283cf3cf51"),
        reader="npz",
        counts=Counts(nodes=117_659, edges=183_789, features=6_000, classes=45),
        split=WORDNET,
        license="WordNet 3.0 license (Princeton University)",
        citation=_CITE_WORDNET,
    ),
    Entry(
        name="email_eu_core_nofeat",
        title="E-mail within a research institution; class = department; no features exist",
        files=_local("email_eu_core_nofeat", "1e96faac96eb4596ed265ee23ab44162355177ad1422015fb3e6f024c27d9606"),
        reader="npz",
        counts=Counts(nodes=1_005, edges=16_064, features=0, classes=42),
        split=EMAIL_EU_CORE,
        license="none stated",
        citation="Yin et al., Local Higher-order Graph Clustering, KDD 2017 (SNAP email-Eu-core)",
        note="The split holds the 21 of 42 departments that have the 15 members a task needs.",
    ),
    Entry(
        name="lastfm_asia_nofeat",
        title="LastFM users in Asia and their friendships, no features; class = country",
        files=_local("lastfm_asia_nofeat", "6a671cbb507227dc1b3d2d3d1dfab9e7752e289ae658b7584b4f25ec3d181a8d"),
        reader="npz",
        counts=Counts(nodes=7_624, edges=27_806, features=0, classes=18),
        split=LASTFM_ASIA,
        license="MIT (FEATHER repository)",
        citation="Rozemberczki and Sarkar, Characteristic Functions on Graphs, CIKM 2020",
        note="Stand-in for LastFM-Asia: the 7,842 artists are missing, so features are structural.",
    ),
    _planted("homophilous", 0.8, 0.8, edges=30_540),
    _planted("mixed", 0.45, 0.6, edges=31_321),
    _planted("heterophilous", 0.1, 0.6, edges=31_672),
)


def names() -> list[str]:
    """The names of all data sets, the bundled one first."""
    return [entry.name for entry in ENTRIES]


def entry(name: str) -> Entry:
    """The data set called ``name``; an unknown name is answered with the closest one."""
    one_of("data set", name, names())
    return next(entry for entry in ENTRIES if entry.name == name)
