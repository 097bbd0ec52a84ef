"""Files as people have them: every dialect, alone and combined, and what is understood.

Each case is a few files of the same little graph (nodes a to d, of which a and d are cats and b is a dog) in another
dress; what differs is said beside it.
"""

import bz2
import gzip
import lzma
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy import sparse as sp

from fewnode import tables as io
from fewnode.errors import InputError

EDGES = "source,target\na,b\nb,c\nc,a\nd,a\n"
NODES = "id,label,size\na,cat,1.5\nb,dog,0\nc,,3\nd,cat,4\n"
SIZES = [[1.5], [0], [3], [4]]
USUAL = {"id": "id", "label": "label", "number": "size", "source": "source", "target": "target"}


@dataclass
class Case:
    """``files`` to write (the first holds edges, the second nodes, unless ``names`` say otherwise), and what is
    expected: ``taken`` (what each use was found in), features ``x``, words of the ``notes``, other ``arguments``."""

    name: str
    files: dict[str, Any]
    names: dict[str, Any] = field(default_factory=dict)
    taken: dict[str, str] = field(default_factory=dict)
    x: Any = None
    columns: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    arguments: dict[str, Any] = field(default_factory=dict)
    needs: str = "numpy"


def utf16(text: str) -> bytes:
    return text.encode("utf-16")


def parquet(columns: dict[str, Any]) -> Any:
    def write(path: Path) -> None:
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.table(columns), path)

    return write


def zstd(text: str) -> Any:
    def write(path: Path) -> None:
        import pyarrow

        with pyarrow.CompressedOutputStream(str(path), "zstd") as stream:
            stream.write(text.encode())

    return write


def excel(*sheets: list[list[Any]]) -> Any:
    def write(path: Path) -> None:
        import openpyxl

        book = openpyxl.Workbook()
        book.remove(book.active)
        for number, rows in enumerate(sheets):
            sheet = book.create_sheet(f"sheet {number}")
            for row in rows:
                sheet.append(row)
        book.save(path)

    return write


def array(x: Any) -> Any:
    return lambda path: np.save(path, x)


def damaged(packed: bytes) -> bytes:
    return packed[:12] + bytes([packed[12] ^ 255]) + packed[13:]


def json_lines(value: str) -> str:
    return "".join(f'{{"id": "{node}", "v": {value if node == "a" else 1}}}\n' for node in "abcd")


def comma(text: str) -> str:
    return text.replace(",", ";").replace(".", ",")


NODE_COLUMNS = {"id": ["a", "b", "c", "d"], "label": ["cat", "dog", None, "cat"], "size": [1.5, 0, 3, 4]}
SHEET = [["id", "label", "size"], ["a", "cat", 1.5], ["b", "dog", 0], ["c", None, 3], ["d", "cat", 4]]
LABELS = ("cat", "dog", "", "cat")
SPEECH = {"a": "the old red cat", "b": "a dog barks loudly", "c": "nobody knows this one", "d": "one more red cat"}
TEXTS = "id,label,about\n" + "".join(f"{n},{label},{SPEECH[n]}\n" for n, label in zip("abcd", LABELS, strict=True))

CASES = [
    Case("commas", {"e.csv": EDGES, "n.csv": NODES}, taken=USUAL, x=SIZES),
    Case("semicolons", {"e.csv": EDGES.replace(",", ";"), "n.csv": NODES.replace(",", ";")}, taken=USUAL, x=SIZES),
    Case("tabs in a .csv", {"e.csv": EDGES.replace(",", "\t"), "n.csv": NODES.replace(",", "\t")}, x=SIZES),
    Case("tabs in a .tsv", {"e.tsv": EDGES.replace(",", "\t"), "n.tsv": NODES.replace(",", "\t")}, x=SIZES),
    Case("commas in a .tsv", {"e.tsv": EDGES, "n.tsv": NODES}, x=SIZES),
    Case("bars", {"e.txt": EDGES.replace(",", "|"), "n.txt": NODES.replace(",", "|")}, x=SIZES),
    Case("spaces", {"e.txt": EDGES.replace(",", " "), "n.csv": NODES}, x=SIZES),
    Case("byte-order mark", {"e.csv": "\ufeff" + EDGES, "n.csv": "\ufeff" + NODES}, x=SIZES),
    Case("Windows line ends", {"e.csv": EDGES.replace("\n", "\r\n"), "n.csv": NODES.replace("\n", "\r\n")}, x=SIZES),
    Case("UTF-16", {"e.csv": utf16(EDGES), "n.csv": utf16(NODES)}, x=SIZES, notes=("e.csv is in UTF-16",)),
    Case("UTF-16 without a mark", {"e.csv": EDGES.encode("utf-16-le"), "n.csv": NODES}, x=SIZES, notes=("UTF-16",)),
    Case("UTF-16, other order", {"e.csv": EDGES.encode("utf-16-be"), "n.csv": NODES}, x=SIZES, notes=("UTF-16",)),
    Case(
        "Latin-1",
        {"e.csv": EDGES, "n.csv": NODES.replace("size", "größe").encode("latin-1")},
        taken={"number": "größe"},
        x=SIZES,
        notes=("n.csv is not in UTF-8 (line 1", "Latin-1"),
    ),
    Case("gzip", {"e.csv.gz": gzip.compress(EDGES.encode()), "n.csv.gz": gzip.compress(NODES.encode())}, x=SIZES),
    Case("bzip2", {"e.csv.bz2": bz2.compress(EDGES.encode()), "n.csv": NODES}, x=SIZES),
    Case("xz", {"e.csv.xz": lzma.compress(EDGES.encode()), "n.csv": NODES}, x=SIZES),
    Case("zstd", {"e.csv.zst": zstd(EDGES), "n.csv": NODES}, x=SIZES, needs="pyarrow"),
    Case(
        "gzip, semicolons, Latin-1, decimal commas",
        {"e.csv": EDGES, "n.csv.gz": gzip.compress(comma(NODES).replace("size", "größe").encode("latin-1"))},
        taken={"number": "größe"},
        x=SIZES,
        notes=("Latin-1",),
    ),
    Case("decimal commas", {"e.csv": comma(EDGES), "n.csv": comma(NODES)}, taken=USUAL, x=SIZES),
    Case(
        "decimal commas and thousands",
        {"e.csv": EDGES, "n.csv": "id;label;size\na;cat;1.234,5\nb;dog;0\nc;;3\nd;cat;4\n"},
        x=[[1234.5], [0], [3], [4]],
    ),
    Case(
        "thousands in quotes",
        {"e.csv": EDGES, "n.csv": 'id,label,size\na,cat,"1,234.5"\nb,dog,0\nc,,3\nd,cat,4\n'},
        x=[[1234.5], [0], [3], [4]],
    ),
    Case(
        "thousands and decimal commas in every cell",
        {"e.csv": EDGES, "n.csv": "id;label;size\na;cat;1.234,5\nb;dog;12.000,00\nc;;3.000,25\nd;cat;4 000,5\n"},
        taken={"number": "size"},
        x=[[1234.5], [12000], [3000.25], [4000.5]],
    ),
    Case(
        "thousands and decimal points in every cell",
        {"e.csv": EDGES, "n.csv": "id;label;size\na;cat;1,234.5\nb;dog;12,000.00\nc;;3,000.25\nd;cat;-4,000.5\n"},
        taken={"number": "size"},
        x=[[1234.5], [12000], [3000.25], [-4000.5]],
    ),
    Case(
        "a decimal mark that must be said",
        {"e.csv": EDGES, "n.csv": "id;label;size\na;cat;1,234\nb;dog;0\nc;;3\nd;cat;4\n"},
        {"decimal": ","},
        x=[[1.234], [0], [3], [4]],
    ),
    Case("percent", {"e.csv": EDGES, "n.csv": NODES.replace("1.5", "1.5 %")}, x=SIZES),
    Case("Parquet", {"e.csv": EDGES, "n.parquet": parquet(NODE_COLUMNS)}, taken=USUAL, x=SIZES, needs="pyarrow"),
    Case("Excel", {"e.csv": EDGES, "n.xlsx": excel(SHEET)}, taken=USUAL, x=SIZES, needs="openpyxl"),
    Case(
        "Excel with two sheets",
        {"e.csv": EDGES, "n.xlsx": excel(SHEET, [["x"], [1]])},
        x=SIZES,
        notes=("only the first of 2 sheets",),
        needs="openpyxl",
    ),
    Case(
        "JSON lines",
        {
            "e.csv": EDGES,
            "n.jsonl": '{"id": "a", "label": "cat", "size": 1.5}\n{"id": "b", "label": "dog", "size": 0}\n'
            '{"id": "c", "size": 3}\n{"id": "d", "label": "cat", "size": 4}\n',
        },
        taken=USUAL,
        x=SIZES,
    ),
    Case(
        "packed JSON lines for edges",
        {
            "e.ndjson.gz": gzip.compress(
                b'{"from": "a", "to": "b"}\n{"from": "b", "to": "c"}\n{"from": "c", "to": "a"}\n'
                b'{"from": "d", "to": "a"}\n'
            ),
            "n.csv": NODES,
        },
        taken={"source": "from", "target": "to"},
        x=SIZES,
    ),
    Case(
        "comments, the last of which names the columns",
        {"e.txt": "# a crawl of 2009\n# FromNodeId\tToNodeId\na\tb\nb\tc\nc\ta\nd\ta\n", "n.csv": NODES},
        taken={"source": "FromNodeId", "target": "ToNodeId"},
        x=SIZES,
    ),
    Case("a comment above the names", {"e.csv": "# made in 2009, by hand\n" + EDGES, "n.csv": NODES}, x=SIZES),
    Case("names behind a mark", {"e.csv": "#" + EDGES, "n.csv": NODES}, taken=USUAL, x=SIZES),
    Case(
        "blank lines and a separator at the end", {"e.csv": EDGES, "n.csv": "\n" + NODES.replace("\n", ",\n")}, x=SIZES
    ),
    Case(
        "the index of a data frame",
        {"e.csv": EDGES, "n.csv": ",id,label,size\n0,a,cat,1.5\n1,b,dog,0\n2,c,,3\n3,d,cat,4\n"},
        taken=USUAL | {"": "column 1"},
        x=SIZES,
    ),
    Case(
        "ids in the index of a data frame",
        {"e.csv": EDGES, "n.csv": NODES.replace("id,", ",")},
        taken={"id": "column 1", "number": "size"},
        x=SIZES,
    ),
    Case(
        "names of citations",
        {"e.csv": EDGES.replace("source,target", "citing,cited"), "n.csv": NODES.replace("id,label", "paper_id,class")},
        taken={"id": "paper_id", "label": "class", "source": "citing", "target": "cited"},
        x=SIZES,
    ),
    Case(
        "names in capitals",
        {"e.csv": EDGES.replace("source,target", "FROM,TO"), "n.csv": NODES.replace("id,label", "ID,Label")},
        taken={"id": "ID", "label": "Label", "source": "FROM", "target": "TO"},
        x=SIZES,
    ),
    Case(
        "u and v, y",
        {"e.csv": EDGES.replace("source,target", "u,v"), "n.csv": NODES.replace("id,label", "node,y")},
        taken={"id": "node", "label": "y", "source": "u"},
        x=SIZES,
    ),
    Case(
        "ids of ends",
        {"e.csv": EDGES.replace("source,target", "src_id,dst_id"), "n.csv": NODES},
        taken={"target": "dst_id"},
        x=SIZES,
    ),
    Case(
        "nothing but content tells",
        {
            "e.csv": "port,needs,how\na,b,lib\nb,c,lib\nc,a,run\nd,a,run\n",
            "n.csv": NODES.replace("id,label", "port,category"),
        },
        taken={"id": "port", "label": "category", "source": "port", "target": "needs", "": "how"},
        x=SIZES,
    ),
    Case(
        "weights",
        {"e.csv": "src,dst,weight\na,b,1\nb,c,2\nc,a,0.5\nd,a,1\n", "n.csv": NODES},
        {"weight_column": "weight"},
        taken={"weight": "weight"},
        x=SIZES,
        arguments={"edge_weight": [1, 2, 0.5, 1]},
    ),
    Case(
        "weights that are not asked for",
        {"e.csv": "src,dst,weight\na,b,1\nb,c,2\nc,a,0.5\nd,a,1\n", "n.csv": NODES},
        taken={"": "weight"},
        x=SIZES,
    ),
    Case(
        "edge types, one way",
        {"e.csv": "head,tail,relation\na,b,likes\nb,c,sees\nc,a,likes\nd,a,sees\n", "n.csv": NODES},
        {"edge_type_column": "relation", "directed": True},
        taken={"edge type": "relation", "source": "head"},
        x=SIZES,
        arguments={"edge_type": [0, 1, 0, 1], "edge_type_names": ("likes", "sees"), "directed": True},
    ),
    Case(
        "edges in several files",
        {"part-1.csv": "source,target\na,b\nb,c\n", "n.csv": NODES, "part-2.csv": "source,target\nc,a\nd,a\n"},
        {"edges": "part-*.csv"},
        x=SIZES,
    ),
    Case(
        "several tables, each a kind of edge",
        {"likes.csv": "from,to\na,b\nb,c\n", "n.csv": NODES, "sees.tsv": "src\tdst\nc\ta\nd\ta\n"},
        {"edges": ["likes.csv", "sees.tsv"], "type_per_file": True},
        x=SIZES,
        arguments={"edge_type": [0, 0, 1, 1], "edge_type_names": ("likes", "sees")},
    ),
    Case(
        "nodes in several files",
        {"e.csv": EDGES, "n-1.csv": NODES[: NODES.index("c,")], "n-2.csv": "size,id,label\n3,c,\n4,d,cat\n"},
        {"nodes": ["n-1.csv", "n-2.csv"]},
        x=SIZES,
    ),
    Case(
        "labels apart",
        {"e.csv": EDGES, "n.csv": "id,size\na,1.5\nb,0\nc,3\nd,4\n", "l.csv": "member,says\nb,dog\na,cat\nd,cat\n"},
        {"labels": "l.csv"},
        taken={"label": "says"},
        x=SIZES,
    ),
    Case(
        "a text",
        {"e.csv": EDGES, "n.csv": TEXTS},
        taken={"text": "about"},
        columns=("barks", "cat", "dog", "knows", "loudly", "old", "red"),
    ),
    Case(
        "a text with quotes, separators and line ends",
        {
            "e.csv": EDGES,
            "n.csv": TEXTS.replace(",", ";").replace("the old red cat", '"the ""old"" red;\ncat"'),
        },
        taken={"text": "about"},
        columns=("barks", "cat", "dog", "knows", "loudly", "old", "red"),
    ),
    Case(
        "a category",
        {"e.csv": EDGES, "n.csv": "id,label,town\na,cat,Rome\nb,dog,Bonn\nc,,Rome\nd,cat,Bonn\n"},
        taken={"category": "town"},
        x=[[0, 1], [1, 0], [0, 1], [1, 0]],
        columns=("town=Bonn", "town=Rome"),
    ),
    Case(
        "codes that begin with a zero",
        {"e.csv": EDGES, "n.csv": "id,Label,label,zip\na,1,cat,01234\nb,2,dog,04567\nc,3,,01234\nd,4,cat,04567\n"},
        taken={"label": "label", "number": "Label", "category": "zip"},
    ),
    Case(
        "numbers with gaps",
        {"e.csv": EDGES, "n.csv": "id,label,size\na,cat,1\nb,dog,NA\nc,,3\nd,cat,\n"},
        x=[[1, 0], [2, 1], [3, 0], [2, 1]],
        columns=("size", "size missing"),
    ),
    Case(
        "dates",
        {"e.csv": EDGES, "n.csv": "id,label,born\na,cat,2000-01-01\nb,dog,2001-01-01 12:00\nc,,2002-01-01\nd,cat,\n"},
        taken={"date": "born"},
        x=[[2000, 0], [2001, 0], [2002, 0], [2001, 1]],
    ),
    Case(
        "dates with the day first",
        {"e.csv": EDGES, "n.csv": "id,label,born\na,cat,01.01.2000\nb,dog,31.12.2000\nc,,1.1.2002\nd,cat,1.1.2003\n"},
        taken={"date": "born"},
        x=[[2000], [2001], [2002], [2003]],
    ),
    Case(
        "ids, names and row numbers are no features",
        {"e.csv": EDGES, "n.csv": "index,id,label,owner\n1,a,cat,Ann\n2,b,dog,Bob\n3,c,,Cid\n4,d,cat,Dan\n"},
        taken={"": "index, owner"},
    ),
    Case(
        "text, category and number together",
        {
            "e.csv": EDGES,
            "n.csv": TEXTS.replace("about", "about,town,size")
            .replace("cat\n", "cat,Rome,1\n")
            .replace("loudly\n", "loudly,Bonn,2\n")
            .replace("one\n", "one,Rome,\n"),
        },
        taken={"text": "about", "category": "town", "number": "size"},
        columns=(
            "barks",
            "cat",
            "dog",
            "knows",
            "loudly",
            "old",
            "red",
            "town=Bonn",
            "town=Rome",
            "size",
            "size missing",
        ),
    ),
    Case(
        "edges to nodes that are not listed",
        {"e.csv": EDGES + "a,x\n", "n.csv": NODES},
        x=[[1.5], [0], [3], [4], [2.25]],
        columns=("size",),
        notes=("1 nodes that only the edges name", "'x'", "strict=True"),
    ),
    Case(
        "vectors",
        {"e.csv": EDGES, "n.csv": NODES, "v.npy": array(np.eye(4))},
        {"features": "v.npy"},
        taken={"": "size"},
        x=np.eye(4).tolist(),
    ),
    Case(
        "vectors by id",
        {"e.csv": EDGES, "n.csv": NODES, "v.npz": lambda path: np.savez(path, ids=np.array(list("dcba")), x=np.eye(4))},
        {"features": "v.npz"},
        x=np.eye(4)[::-1].tolist(),
    ),
    Case(
        "vectors in Parquet",
        {"e.csv": EDGES, "n.csv": NODES, "v.parquet": parquet({"id": list("dcba"), "vector": np.eye(4).tolist()})},
        {"features": "v.parquet"},
        x=np.eye(4)[::-1].tolist(),
        needs="pyarrow",
    ),
    Case(
        "vectors in the table of nodes",
        {
            "e.csv": EDGES,
            "n.jsonl": "".join(
                f'{{"id": "{n}", "label": {la}, "v": [{i}, 1]}}\n'
                for i, (n, la) in enumerate(zip("abcd", ['"cat"', '"dog"', "null", '"cat"'], strict=True))
            ),
        },
        taken={"vectors": "v"},
        x=[[0, 1], [1, 1], [2, 1], [3, 1]],
    ),
    Case(
        "a sparse matrix of SciPy",
        {"e.csv": EDGES, "n.csv": NODES, "v.npz": lambda path: sp.save_npz(path, sp.csr_array(np.eye(4)))},
        {"features": "v.npz"},
        x=np.eye(4).tolist(),
    ),
    Case(
        "vectors beside words",
        {"e.csv": EDGES, "n.csv": TEXTS, "v.npy": array(np.eye(4)[:, :2] + 1)},
        {"features": "v.npy", "text_column": "about"},
        taken={"text": "about"},
        columns=("barks", "cat", "dog", "knows", "loudly", "old", "red", "vectors 0", "vectors 1"),
    ),
]


def prepared(tmp_path: Path, files: dict[str, Any], names: dict[str, Any]) -> dict[str, Any]:
    for name, content in files.items():
        if callable(content):
            content(tmp_path / name)
        else:
            (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    first = dict(zip(("edges", "nodes"), files, strict=False)) | names
    for key in ("edges", "nodes", "labels", "features"):
        if isinstance(given := first.get(key), str):
            first[key] = tmp_path / given
        elif given is not None:
            first[key] = [tmp_path / name for name in given]
    return first


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_file_in_the_wild_is_understood(tmp_path, case):
    pytest.importorskip(case.needs)
    found = io.read_graph(**prepared(tmp_path, case.files, case.names))
    made = found.arguments
    assert made["edge_index"][:, :4].tolist() == [[0, 1, 2, 3], [1, 2, 0, 0]]
    assert made["node_names"][:4] == ("a", "b", "c", "d")
    assert made["y"][:4].tolist() == [0, 1, -1, 0] and made["class_names"] == ("cat", "dog")
    taken: dict[str, list[str]] = {}
    for role in found.roles:
        taken.setdefault(role.use, []).append(role.column)
    assert {use: ", ".join(taken.get(use, [])) for use in case.taken} == case.taken
    if case.x is not None:
        x = made["x"].toarray() if sp.issparse(made["x"]) else made["x"]
        np.testing.assert_allclose(x, case.x, atol=5e-3)
    if case.columns is not None:
        assert made["feature_names"] == case.columns
    for words in case.notes:
        assert any(words in note for note in found.notes), found.notes
    for name, value in case.arguments.items():
        np.testing.assert_array_equal(made[name], value)


def test_there_are_forty_of_them():
    assert len({case.name for case in CASES}) == len(CASES) >= 40


def test_a_table_of_numbers_for_ids_and_no_names(tmp_path):
    found = io.read_graph(**prepared(tmp_path, {"e.txt": "0 1\n1 2\n2 0\n"}, {}))
    assert found.arguments["node_names"] == ("0", "1", "2") and "no row of column names" in found.notes[0]


def test_nodes_alone_are_linked_to_those_most_like_them(tmp_path):
    nodes = "id,label,p,q\n" + "".join(f"n{i},,{i // 5},{i % 5 / 100}\n" for i in range(20))
    found = io.read_graph(**prepared(tmp_path, {"n.csv": nodes}, {"edges": None, "nodes": "n.csv", "knn": 3}))
    source, target = found.arguments["edge_index"]
    assert (np.bincount(source) == 3).all() and (source != target).all()


@pytest.mark.parametrize(
    ("multi", "y", "names"),
    [("first", [0, 1, 0, 1], ("fun", "work")), ("none", [0, 1, -1, 1], ("fun", "work"))],
)
def test_cells_with_several_labels_mean_what_the_user_says(tmp_path, multi, y, names):
    nodes = "id,label\na,fun\nb,work\nc,fun|work\nd,work\n"
    files = prepared(tmp_path, {"e.csv": EDGES, "n.csv": nodes}, {"multi_label": multi})
    made = io.read_graph(**files).arguments
    assert made["y"].tolist() == y and made["class_names"] == names
    with pytest.raises(InputError, match=r"n\.csv, row 3 \(line 4\), column 'label': 'fun\|work'.*multi_label='first'"):
        io.read_graph(**files | {"multi_label": None})


def test_repeated_rows_do_not_hide_the_column_of_ids(tmp_path):
    """No column has all different values while rows are repeated."""
    strange = NODES.replace("id,", "doc no,")
    found = io.read_graph(**prepared(tmp_path, {"e.csv": EDGES, "n.csv": strange + "a,cat,1.5\n"}, {}))
    assert found.columns["id_column"] == "doc no" and found.notes == ["n.csv: 1 repeated rows were left out"]


def test_swapped_files_are_recognised(tmp_path):
    swapped = {"e.csv": NODES, "n.csv": EDGES}
    with pytest.raises(InputError, match=r"seem to be swapped: give .*n\.csv as edges= and .*e\.csv as nodes="):
        io.read_graph(**prepared(tmp_path, swapped, {}))
    names = {"e.csv": NODES.replace("id,", "port,"), "n.csv": EDGES.replace("source,target", "port,needs")}
    with pytest.raises(InputError, match="seem to be swapped"):
        io.read_graph(**prepared(tmp_path, names, {}))
    letters = {"e.csv": "id,label,a,b\na,x,1,2\nb,y,2,2\nc,x,3,5\nd,y,0,1\n", "n.csv": EDGES}
    with pytest.raises(InputError, match="seem to be swapped"):
        io.read_graph(**prepared(tmp_path, letters, {}))


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ("a,cat,1.5\nb,dog,0\nc,,3\nd,cat,4\n", "a"),
        ("a\nb\nc\nd\n", "a"),
        ("a,,2\nb,dog,0\nc,cat,3\nd,cat,4\n", "a"),
        ("z,cat\na,dog\nb,cat\nc,cat\nd,cat\n", "z"),  # no edge names the first node, but a class is seen again
    ],
)
def test_a_node_table_without_column_names_is_refused_unless_it_has_some(tmp_path, nodes, said):
    files = {"e.csv": EDGES, "n.csv": nodes}
    with pytest.raises(
        InputError, match=rf"n\.csv: its first row, '{said}'.*no column names.*id_column='{said}' if it"
    ):
        io.read_graph(**prepared(tmp_path, files, {}))
    found = io.read_graph(**prepared(tmp_path, files, {}), id_column=said, label_column="")
    assert found.columns["id_column"] == said


def test_a_node_called_like_the_column_of_ids_does_not_hide_the_column_names(tmp_path):
    files = {"e.csv": "port,needs\na,b\nb,port\nc,a\nd,a\n", "n.csv": NODES.replace("id,label", "port,category")}
    found = io.read_graph(**prepared(tmp_path, files, {}))
    assert found.columns["id_column"] == "port" and found.arguments["node_names"][-1] == "port"


def test_more_labels_than_classes_can_be_are_refused_unless_it_is_said(tmp_path):
    rows = "".join(f"n{i},c{i % 30}\n" for i in range(60))
    files = {"e.csv": "source,target\nn0,n1\n", "n.csv": "id,label\n" + rows}
    with pytest.raises(InputError, match=r"column 'label': 30 different labels of 60 nodes.*max_classes=30"):
        io.read_graph(**prepared(tmp_path, files, {}), max_classes=29)
    assert len(io.read_graph(**prepared(tmp_path, files, {}), max_classes=30).arguments["class_names"]) == 30
    rows = "".join(f"n{i},c{i}\n" for i in range(1001))
    with pytest.raises(InputError, match=r"1,001 different labels"):
        io.read_graph(**prepared(tmp_path, files | {"n.csv": "id,label\n" + rows}, {}))


def test_a_column_of_many_names_is_not_said_to_differ_everywhere(tmp_path):
    rows = "".join(f"n{i},{'ab'[i % 2]},city{i % 50}\n" for i in range(90))
    files = {"e.csv": "source,target\nn0,n1\n", "n.csv": "id,label,from where\n" + rows}
    roles = {role.column: role for role in io.read_graph(**prepared(tmp_path, files, {})).roles}
    assert roles["from where"].use == "" and roles["from where"].why == "many different values"


def test_labels_that_differ_in_case_are_two_classes_and_said_to_be(tmp_path):
    files = prepared(tmp_path, {"e.csv": EDGES, "n.csv": NODES.replace("a,cat", "a,Cat")}, {})
    found = io.read_graph(**files)
    assert found.arguments["class_names"] == ("Cat", "cat", "dog")
    assert found.notes == ["labels 'Cat', 'cat' differ only in case, and are taken for different classes"]


def test_repeated_rows_of_a_node_table_are_left_out_and_counted(tmp_path):
    """Rows after them are still named by their own number."""
    repeated = NODES + "b,dog,0\na,cat,1.5\n"
    found = io.read_graph(**prepared(tmp_path, {"e.csv": EDGES + "e,a\n", "n.csv": repeated + "e,dog,2\n"}, {}))
    assert found.arguments["node_names"] == ("a", "b", "c", "d", "e") and "unlisted" not in found.arguments
    assert found.arguments["y"].tolist() == [0, 1, -1, 0, 1] and found.arguments["x"].tolist() == [*SIZES, [2]]
    assert found.notes == ["n.csv: 2 repeated rows were left out"]
    with pytest.raises(InputError, match=r"n\.csv, row 7 \(line 8\), column 'size': 'big' is not a number"):
        io.read_graph(**prepared(tmp_path, {"e.csv": EDGES, "n.csv": repeated + "e,dog,big\n"}, {}))


def test_lists_of_words_in_json_are_a_category(tmp_path):
    tags = {"a": '["x", "y"]', "b": '["x"]', "c": '["x", "y"]', "d": '["x"]'}
    nodes = "".join(f'{{"id": "{node}", "t": {words}}}\n' for node, words in tags.items())
    files = prepared(tmp_path, {"e.csv": EDGES, "n.jsonl": nodes}, {"category_column": "t"})
    assert io.read_graph(**files).arguments["feature_names"] == ("t=x", "t=x|y")


def test_a_class_may_have_a_comma_in_its_name(tmp_path):
    nodes = 'id,label\na,"Computers, parts"\nb,"Garden, tools"\nc,"Computers, parts"\nd,\n'
    assert io.read_graph(**prepared(tmp_path, {"e.csv": EDGES, "n.csv": nodes}, {})).arguments["y"].tolist() == [
        0,
        1,
        0,
        -1,
    ]


TOWNS = "id,town,shop\na,Rome,x\nb,Bonn,y\nc,Rome,x\nd,Bonn,y\n"


@pytest.mark.parametrize(
    ("files", "names", "words"),
    [
        ({"e.csv": EDGES, "n.csv": TOWNS}, {}, ["n.csv", "label_column='town'", "category_column='town'"]),
        (
            {"e.csv": EDGES, "n.csv": TOWNS.replace("town,shop", "class,target")},
            {},
            ["n.csv", "label_column='class' or label_column='target'"],
        ),
        (
            {"e.csv": EDGES, "n.csv": "id,Label,LABEL\na,x,s\nb,y,t\n"},
            {},
            ["label_column='Label' or label_column='LABEL'"],
        ),
        (
            {"e.csv": EDGES, "n.csv": "node_id,paper_id,label\na,a,x\nb,b,y\nc,c,x\nd,d,y\n"},
            {},
            ["id_column='node_id' or id_column='paper_id'"],
        ),
        (
            {"e.csv": EDGES, "n.csv": "id,name,label\n1,a,x\n2,b,y\n3,c,x\n4,d,y\n"},
            {},
            ["n.csv", "column 'name' rather than in 'id'", "id_column='name' or id_column='id'"],
        ),
        (
            {
                "e.csv": EDGES,
                "n.csv": NODES.replace("\na", "\nq").replace("\nb", "\nr").replace("\nc", "\ns").replace("\nd", "\nt"),
            },
            {},
            ["e.csv, row 1 (line 2)", "'a' is not in column 'id'", "source_column="],
        ),
        (
            {"e.csv": "source,target\n1,2\n2,3\n", "n.csv": "id,label\n001,cat\n002,dog\n003,cat\n"},
            {},
            ["'1' is not in column 'id'", "n.csv (nearest id: '001')"],
        ),
        (
            {"e.csv": "from,to,src,dst\na,b,a,b\nb,a,b,a\n", "n.csv": NODES},
            {},
            ["source_column='from' or source_column='src'"],
        ),
        (
            {"e.csv": EDGES, "n.csv": "id;label;size\na;cat;1,234\nb;dog;0\nc;;3\nd;cat;4\n"},
            {},
            ["n.csv, row 1", "'size'", "'1,234'", "decimal=','"],
        ),
        ({"e.csv": EDGES + "a,x\n", "n.csv": NODES}, {"strict": True}, ["e.csv, row 5 (line 6)", "'x'", "n.csv"]),
        (
            {"e.csv": EDGES.replace("\n", ",1\n").replace("d,a,1", "d,a,-1"), "n.csv": NODES},
            {"weight_column": "1"},
            ["e.csv, row 4", "-1", "above zero", "weight_column="],
        ),
        (
            {"e.csv": EDGES.replace("\n", ",k\n").replace("d,a,k", "d,a,"), "n.csv": NODES},
            {"edge_type_column": "k"},
            ["e.csv, row 4", "edge type is missing"],
        ),
        (
            {"e.csv": EDGES, "n.csv": NODES},
            {"weight_column": "wt"},
            ["e.csv", "no column 'wt'", "weight_column="],
        ),
        (
            {"e.csv": EDGES, "n.csv": NODES, "l.csv": "id,label\na,x\nzz,y\n"},
            {"labels": "l.csv"},
            ["l.csv, row 2", "'zz'"],
        ),
        (
            {"e.csv": EDGES, "n.csv": NODES, "l.csv": "id,label\na,x\na,y\n"},
            {"labels": "l.csv"},
            ["l.csv, row 2", "already"],
        ),
        ({"n.csv": NODES}, {"edges": None, "nodes": "n.csv"}, ["edges=", "knn=10"]),
        ({"n.csv": NODES}, {"edges": None, "nodes": "n.csv", "knn": 4}, ["knn=4", "1 to 3"]),
        ({"e.csv": EDGES, "n.csv": NODES}, {"knn": 3}, ["knn=", "edges="]),
        (
            {"e.csv": EDGES, "n.csv": NODES},
            {"text_column": "size", "number_column": "size"},
            ["'size'", "text and number"],
        ),
        ({"e.csv": EDGES, "n.csv": NODES}, {"ignore_column": "sice"}, ["no column 'sice'", "'size'"]),
        (
            {"e.csv": EDGES, "n.csv": NODES, "f.csv": "id,p\na,\nb,1\nc,1\nd,1\n"},
            {"features": "f.csv"},
            ["f.csv, row 1", "missing"],
        ),
        (
            {"e.csv": EDGES, "n.csv": NODES, "v.npy": array(np.eye(3))},
            {"features": "v.npy"},
            ["v.npy", "3 feature rows", "4 nodes"],
        ),
        (
            {"e.csv": EDGES, "n.csv": NODES, "v.npy": array(np.eye(4) * np.nan)},
            {"features": "v.npy"},
            ["v.npy, row 1", "NaN"],
        ),
        ({"e.csv": EDGES, "n.csv": NODES, "v.npy": b"no array"}, {"features": "v.npy"}, ["v.npy", "is damaged"]),
        ({"e.csv": EDGES, "n.csv": NODES, "v.npy": array(np.ones(4))}, {"features": "v.npy"}, ["v.npy", "(4,)"]),
        (
            {"e.csv": EDGES, "n.jsonl": '{"id": "a", "v": [1, 2]}\n{"id": "b", "v": [1]}\n'},
            {},
            ["n.jsonl, row 2, column 'v'", "1 numbers"],
        ),
        ({"e.csv": EDGES, "n.jsonl": '{"id": "a"}\n{"id": \n'}, {}, ["n.jsonl, line 2", "not a JSON object"]),
        ({"e.csv": EDGES, "n.jsonl": '{"id": "a"}\n[1]\n'}, {}, ["n.jsonl, line 2", "not a JSON object"]),
        ({"e.csv.gz": gzip.compress(EDGES.encode())[:20], "n.csv": NODES}, {}, ["e.csv.gz", "unpacked"]),
        (
            {"e.csv": EDGES, "n-1.csv": NODES, "n-2.csv": "id,age\ne,1\n"},
            {"nodes": ["n-1.csv", "n-2.csv"]},
            ["n-2.csv", "age, label, size"],
        ),
        ({"e.csv": EDGES}, {"edges": "part-*.csv"}, ["no file matches"]),
        ({"e.csv": EDGES, "n.csv": NODES}, {"label_column": "id"}, ["n.csv", "'id' cannot be id and label"]),
        (
            {
                "e.csv": EDGES,
                "n.csv": NODES,
                "v.npz": lambda path: np.savez(path, ids=np.array(list("abcd")), x=np.eye(5)),
            },
            {"features": "v.npz"},
            ["v.npz has 5 feature rows, but 4 ids"],
        ),
        ({"e.csv.gz": damaged(gzip.compress(EDGES.encode() * 99)), "n.csv": NODES}, {}, ["e.csv.gz", "unpacked"]),
        ({"e.csv": EDGES, "n.jsonl": json_lines("[" * 3000 + "]" * 3000)}, {}, ["n.jsonl, line 1", "not a JSON"]),
        ({"e.csv": EDGES, "n.jsonl": json_lines("9" * 5000)}, {}, ["n.jsonl, row 1, column 'v'", "finite"]),
        ({"e.csv": EDGES, "n.jsonl": json_lines("1e999")}, {}, ["n.jsonl, row 1, column 'v'", "finite"]),
    ],
)
def test_doubt_and_mistakes_name_the_place_and_the_flag(tmp_path, files, names, words):
    given = prepared(tmp_path, files, names)
    with pytest.raises(InputError) as caught:
        io.read_graph(**given)
    for word in words:
        assert word in str(caught.value)


def test_the_next_table_is_read_as_the_first_one_was(tmp_path):
    """With its words, categories, medians and units, whatever the next table holds."""
    together = next(case for case in CASES if case.name.endswith("together"))
    first = io.read_graph(**prepared(tmp_path, together.files, {}))
    encoder = msgspec.convert(msgspec.to_builtins(first.encoder), io.TableEncoder)
    files = prepared(tmp_path, together.files, {})
    again = io.read_graph(**files, **first.columns, encoder=encoder)
    assert again.arguments["feature_names"] == first.arguments["feature_names"]
    np.testing.assert_allclose(again.arguments["x"].toarray(), first.arguments["x"].toarray(), atol=1e-6)


def test_the_next_table_may_have_vectors(tmp_path):
    vectors = next(case for case in CASES if case.name == "vectors in the table of nodes")
    first = io.read_graph(**prepared(tmp_path, vectors.files, {}))
    again = io.read_graph(**prepared(tmp_path, vectors.files, {}), **first.columns, encoder=first.encoder)
    assert again.arguments["x"].tolist() == first.arguments["x"].tolist() == vectors.x


def test_rows_of_several_blocks_have_the_length_one(tmp_path):
    together = next(case for case in CASES if case.name.endswith("together"))
    x = io.read_graph(**prepared(tmp_path, together.files, {})).arguments["x"]
    np.testing.assert_allclose(np.sqrt(x.multiply(x).sum(axis=1)), 1, atol=1e-5)


def test_a_column_that_tells_the_label_is_no_feature(tmp_path):
    kinds = ("cat", "dog", "fox")
    rows = [f"n{i},{kinds[i % 3]},{i % 3},{kinds[i % 3].upper()},{i % 7}" for i in range(60)]
    nodes = "\n".join(["id,label,label_id,in_capitals,days", *rows]) + "\n"
    found = io.read_graph(**prepared(tmp_path, {"e.csv": "source,target\nn0,n1\n", "n.csv": nodes}, {}))
    assert found.arguments["feature_names"] == ("days",)
    assert {role.column: role.why for role in found.roles if not role.use} == dict.fromkeys(
        ("label_id", "in_capitals"), "tells the label"
    )


def test_a_table_of_some_of_the_nodes_still_tells_the_ends(tmp_path):
    edges = "port,needs,how\n" + "".join(f"n{i},m{i},{'lib' if i % 2 else 'run'}\n" for i in range(300))
    nodes = "name,label\n" + "".join(f"n{i},{i % 3}\n" for i in range(300))
    found = io.read_graph(**prepared(tmp_path, {"e.csv": edges, "n.csv": nodes}, {}))
    assert found.columns["target_column"] == "needs" and len(found.arguments["node_names"]) == 600
    assert "300 nodes that only the edges name" in found.notes[0]


def test_the_next_table_may_have_its_columns_in_another_order(tmp_path):
    """Each column is scaled by what was fitted to the column of that name."""
    rows = [(f"n{i}", "xy"[i % 2], "Rome" if i % 3 else "Bonn", 100 * i, i / 7) for i in range(20)]
    first = "id,label,town,p,q\n" + "".join(f"{i},{y},{town},{p},{q}\n" for i, y, town, p, q in rows)
    other = "q,town,p,label,id\n" + "".join(f"{q},{town},{p},{y},{i}\n" for i, y, town, p, q in rows)
    edges = "source,target\nn0,n1\n"
    found = io.read_graph(**prepared(tmp_path, {"e.csv": edges, "n.csv": first}, {}))
    files = prepared(tmp_path, {"e.csv": edges, "n.csv": other}, {})
    again = io.read_graph(**files, **found.columns, encoder=found.encoder).arguments
    order = [again["feature_names"].index(name) for name in found.arguments["feature_names"]]
    np.testing.assert_allclose(again["x"].toarray()[:, order], found.arguments["x"].toarray(), atol=1e-6)
