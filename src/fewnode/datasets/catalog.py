"""What each data set is, where it comes from, what it must hold. Nothing heavy is imported: ls is instant."""

from ..errors import one_of
from . import splits
from .entry import Counts, Entry, File

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
        split=splits.PLANTED,
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
        split=splits.WORDNET,
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
        split=splits.CORA_FULL,
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
        split=splits.AMAZON_E,
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
        split=splits.DBLP,
        license="none stated",
        citation=f"Tang et al., ArnetMiner, KDD 2008; {_CITE_GPN}",
    ),
    Entry(
        name="ogbn_arxiv",
        title="arXiv computer science: papers, citations, averaged word vectors; class = subject area",
        files=(File("arxiv.zip", f"{_OGB}/arxiv.zip"),),
        reader="ogb",
        counts=Counts(nodes=169_343, edges=1_157_799, features=128, classes=40, stored=1_166_243),
        split=splits.OGBN_ARXIV,
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
        split=splits.AMAZON_CLOTHING,
        license="none stated",
        citation=_CITE_AMAZON,
    ),
    Entry(
        name="coauthor_cs",
        title="Authors in computer science, joint papers, keywords; class = field",
        files=_benchmark("ms_academic_cs.npz", "9bdd7da943d86b74297e8d32e99eb64245b52835"),
        reader="npz",
        counts=Counts(nodes=18_333, edges=81_894, features=6_805, classes=15),
        split=splits.COAUTHOR_CS,
        license="MIT (gnn-benchmark repository)",
        citation=_CITE_CS,
    ),
    Entry(
        name="cora_full_knnfeat",
        title="Cora-full's graph and labels; x = nearest neighbours by the true words",
        files=_local("cora_full_knnfeat", "840b07e1dddcd881a9409981e4f68f45a9ef3c29e180545725f28892d7c90d61"),
        reader="npz",
        counts=Counts(nodes=19_793, edges=63_421, features=19_793, classes=70),
        split=splits.CORA_FULL,
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
        split=splits.AMAZON_E,
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
        split=splits.AMAZON_CLOTHING_TEST20,
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
        split=splits.NELL_PARTIAL,
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
        split=splits.WORDNET,
        license="WordNet 3.0 license (Princeton University)",
        citation=_CITE_WORDNET,
    ),
    Entry(
        name="email_eu_core_nofeat",
        title="E-mail within a research institution; class = department; no features exist",
        files=_local("email_eu_core_nofeat", "1e96faac96eb4596ed265ee23ab44162355177ad1422015fb3e6f024c27d9606"),
        reader="npz",
        counts=Counts(nodes=1_005, edges=16_064, features=0, classes=42),
        split=splits.EMAIL_EU_CORE,
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
        split=splits.LASTFM_ASIA,
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
