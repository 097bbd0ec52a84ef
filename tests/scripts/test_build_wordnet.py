"""The builder of the bundled graph, on a made-up dictionary of a few lines; and on the real one where it is."""

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from fewnode.files import read_npz, write_npz
from fewnode.graph import Graph

ROOT = Path(__file__).parents[2]
BUNDLED = ROOT / "src/fewnode/datasets/bundled/wordnet.npz"
LICENCE = "  1 This software and database is being provided to you  \n"
LINES = {
    "data.noun": LICENCE
    + '00000010 05 n 02 dog 0 domestic_dog 0 002 @ 00000020 n 0000 + 00000010 v 0101 | a domestic animal; "the dog"  \n'
    + "00000020 05 n 01 animal 0 002 ~ 00000010 n 0000 ~ 00000030 n 0000 | a living dog or CAT; a wild thing  \n"
    + "00000030 05 n 01 dog 1 002 @ 00000020 n 0000 @ 00000030 n 0000 | a wild living man  \n",
    "data.verb": LICENCE
    + '00000010 38 v 01 dog 0 001 + 00000010 n 0101 01 + 08 00 | go after a wild "dog" or "animal  \n',
    "data.adj": "00000050 00 s 01 doggy(a) 0 001 & 00000020 n 0000 | like a wild dog  \n",
    "data.adv": "00000060 02 r 01 A.D. 0 000 | in years  \n",
    "index.noun": LICENCE + "dog n 2 2 @ + 2 1 00000030 00000010  \nanimal n 1 1 ~ 1 0 00000020  \n",
    "index.verb": "dog v 1 1 + 1 0 00000010  \n",
    "index.adj": "doggy a 1 1 & 1 0 00000050  \n",
    "index.adv": "a.d. r 1 0 1 0 00000060  \n",
}


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_datasets", ROOT / "scripts/build_datasets.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def dictionary(tmp_path: Path) -> Path:
    for name, text in LINES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_line_is_taken_apart(builder: ModuleType) -> None:
    line = '00019731 00 s 02 handy 0 ready_to_hand(p) 0 002 & 00019131 a 0000 + 04718999 n 0101 | easy; "a handy can"  '
    synset = builder.parse_line(line)
    assert (synset.part, synset.offset, synset.file_number) == ("adj", "00019731", 0)
    assert synset.words == ("handy", "ready_to_hand")
    assert synset.pointers == (("adj", "00019131"), ("noun", "04718999"))
    assert synset.definition.rstrip("; ") == "easy"


def test_word_counts_are_hexadecimal(builder: ModuleType) -> None:
    words = " ".join(f"w{at} 0" for at in range(17))
    assert len(builder.parse_line(f"00000010 05 n 11 {words} 000 | many words").words) == 17


def test_names_tell_the_sense(builder: ModuleType, dictionary: Path) -> None:
    names = builder.wordnet(dictionary / "data.noun", min_definitions=1)["node_names"].tolist()
    assert names == ["dog.noun.02", "animal.noun.01", "dog.noun.01", "dog.verb.01", "doggy.adj.01", "A.D..adv.01"]


def test_pointers_become_edges_once_and_across_parts_of_speech(builder: ModuleType, dictionary: Path) -> None:
    edges = builder.wordnet(dictionary / "data.noun", min_definitions=1)["edge_index"]
    assert edges.T.tolist() == [[0, 1], [0, 3], [1, 2], [1, 4]]


def test_definitions_lose_examples_stop_words_and_own_words(builder: ModuleType, dictionary: Path) -> None:
    synsets = builder.read_synsets(dictionary)
    bags = [builder.defining_words(synset) for synset in synsets]
    assert bags[0] == {"animal"}  # "domestic" is its own word, "the dog" an example
    assert bags[1] == {"living", "dog", "cat", "wild", "thing"}
    assert bags[3] == {"go", "wild"}  # a quotation that is never closed is one, too


def test_the_vocabulary_is_cut_by_frequency_in_a_fixed_order(builder: ModuleType, dictionary: Path) -> None:
    arrays = builder.wordnet(dictionary / "data.noun", min_definitions=2)
    assert arrays["feature_names"].tolist() == ["wild", "dog", "living"]
    assert builder.wordnet(dictionary / "data.noun", min_definitions=1, max_words=2)["feature_names"].tolist() == [
        "wild",
        "dog",
    ]


def test_the_result_is_a_graph_and_the_same_bytes_again(builder: ModuleType, dictionary: Path) -> None:
    for name in ("a.npz", "b.npz"):
        write_npz(dictionary / name, builder.wordnet(dictionary / "data.noun", min_definitions=1))
    assert (dictionary / "a.npz").read_bytes() == (dictionary / "b.npz").read_bytes()
    graph = Graph.from_npz(dictionary / "a.npz")
    assert graph.y.tolist() == [5, 5, 5, 38, 0, 2]
    assert graph.class_names is not None and graph.class_names[38] == "verb.motion" and graph.num_classes == 45


def test_the_bundled_file_is_small_and_has_its_licence_beside_it() -> None:
    assert BUNDLED.stat().st_size <= 3_000_000
    assert "Princeton University" in (BUNDLED.parent / "LICENSE-wordnet.txt").read_text()


def test_the_bundled_file_is_what_the_dictionary_gives(builder: ModuleType, tmp_path: Path) -> None:
    folder = Path(os.environ.get("FEWNODE_WORDNET_DICT", "/usr/share/wordnet"))
    if not (folder / "data.noun").exists():
        pytest.skip("no dictionary: set FEWNODE_WORDNET_DICT to the folder with data.noun")
    builder.main([str(tmp_path), "wordnet", "--files", str(folder)])
    built, bundled = read_npz(tmp_path / "wordnet.npz"), read_npz(BUNDLED)
    assert all(np.array_equal(built[key], bundled[key]) for key in built | bundled)
    assert (tmp_path / "wordnet.npz").read_bytes() == BUNDLED.read_bytes()
