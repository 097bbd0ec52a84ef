"""The catalog: whole, consistent, and instant to read."""

import re
import subprocess
import sys

import pytest

from fewnode.datasets import catalog
from fewnode.errors import InputError
from fewnode.tasks import ClassSplit


def test_reading_the_catalog_imports_nothing_heavy() -> None:
    heavy = "{'torch', 'numpy', 'scipy'} & set(sys.modules)"
    code = f"import sys; from fewnode.datasets import catalog; catalog.entry('wordnet'); print({heavy})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_names_are_unique_and_all_promised_ones_are_there() -> None:
    names = list(catalog.entries())
    assert len(set(names)) == len(names)
    assert {"wordnet", "cora_full", "amazon_e", "dblp", "ogbn_arxiv", "amazon_clothing", "coauthor_cs"} <= set(names)


@pytest.mark.parametrize("name", catalog.entries())
def test_every_entry_is_complete(name: str) -> None:
    entry = catalog.entry(name)
    assert entry.title and entry.license and entry.citation and (entry.files or entry.planted)
    assert entry.reader in {"npz", "gpn", "ogb", "tables"} or (entry.planted and not entry.files)
    for file in entry.files:
        assert file.blob is None or re.fullmatch("[0-9a-f]{40}", file.blob)
        assert file.sha256 is None or re.fullmatch("[0-9a-f]{64}", file.sha256)
        assert file.url is None or (file.url.startswith("https://") and file.url.endswith(file.name))
        assert entry.bundled or file.url or file.sha256 or entry.tables


@pytest.mark.parametrize("name", catalog.entries())
def test_every_split_is_disjoint_and_within_the_classes(name: str) -> None:
    entry = catalog.entry(name)
    split = ClassSplit(*entry.split)  # checks that the parts are disjoint
    everything = {*split.base, *split.validation, *split.novel}
    assert max(everything) < entry.counts.classes
    assert min(map(len, entry.split)) >= 4
    if name not in {
        "nell_partial",
        "email_eu_core_nofeat",
        "cora70_titles",
    }:  # these leave out classes too small for a task
        assert len(everything) == entry.counts.classes


@pytest.mark.parametrize(
    ("name", "sizes", "first_novel"),
    [
        ("cora_full", (25, 20, 25), 56),
        ("amazon_e", (91, 36, 40), 1),
        ("dblp", (80, 27, 30), 128),
        ("ogbn_arxiv", (15, 5, 20), 28),
        ("arxiv_cs40_coauthors", (15, 5, 20), 28),
        ("cora70_titles", (27, 15, 27), 5),
        ("amazon_clothing", (40, 17, 20), 2),
        ("coauthor_cs", (5, 5, 5), 0),
        ("amazon_clothing_test20", (5, 5, 10), 1),
    ],
)
def test_sizes_of_published_splits(name: str, sizes: tuple[int, ...], first_novel: int) -> None:
    split = catalog.entry(name).split
    assert tuple(map(len, split)) == sizes
    assert split[2][0] == first_novel


def test_stand_ins_share_the_lists_of_what_they_stand_for() -> None:
    assert catalog.entry("cora_full_knnfeat").split == catalog.entry("cora_full").split
    assert catalog.entry("amazon_electronics_nofeat").split == catalog.entry("amazon_e").split
    assert catalog.entry("wordnet30_lexnames").split == catalog.entry("wordnet").split


def test_edges_that_are_not_citations_are_named_so() -> None:
    entry = catalog.entry("arxiv_cs40_coauthors")
    assert "co-authors, not citations" in entry.title and "co-authors, not citations" in entry.note
    assert len(entry.tables["class_names"]) == entry.counts.classes
    assert entry.tables["class_names"][28] == "cs.IT" and "all_categories" in entry.tables["ignore_column"]


def test_an_unknown_name_is_answered_with_the_closest() -> None:
    with pytest.raises(InputError, match=r"'corafull'.*'cora_full'.*wordnet"):
        catalog.entry("corafull")
