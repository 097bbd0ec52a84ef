"""A user's tables: what is read, and the words for everything that can be wrong with them."""

import re
import zipfile
from pathlib import Path

import duckdb
import numpy as np
import pytest
from scipy.sparse import issparse, random_array

from fewnode import tables
from fewnode.errors import InputError
from fewnode.files import write_npz
from fewnode.tables.read import close_name
from fewnode.tables.schema import numbers

EDGES = "source,target\na,b\nb,c\nc,a\nd,a\n"
NODES = "id,label,size,age\na,cat,1.5,2\nb,dog,0,-1\nc,,3e-2,7\nd,cat,4,0\n"


@pytest.fixture
def write(tmp_path: Path):
    def _write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return _write


def test_edges_and_nodes_become_arguments_of_from_edges(write):
    made = tables.read_graph(write("edges.csv", EDGES), write("nodes.csv", NODES)).arguments
    assert made["edge_index"].tolist() == [[0, 1, 2, 3], [1, 2, 0, 0]]
    assert len(made["node_names"]) == 4
    assert made["node_names"] == ("a", "b", "c", "d")
    assert made["y"].tolist() == [0, 1, -1, 0] and made["class_names"] == ("cat", "dog")
    assert made["feature_names"] == ("size", "age")
    assert made["x"].dtype == np.float32
    np.testing.assert_allclose(made["x"], [[1.5, 2], [0, -1], [0.03, 7], [4, 0]])


def test_from_files_builds_the_graph(write):
    graph_module = pytest.importorskip("fewnode.graph")
    graph = graph_module.Graph.from_files(write("edges.csv", EDGES), write("nodes.csv", NODES))
    assert (graph.num_nodes, graph.num_edges, graph.num_classes) == (4, 4, 2)
    assert graph.y.tolist() == [0, 1, -1, 0]


def test_without_nodes_the_ids_come_from_the_edges_in_order(write):
    made = tables.read_graph(write("edges.csv", EDGES)).arguments
    assert made["node_names"] == ("a", "b", "c", "d")
    assert made["x"] is None and "y" not in made


@pytest.mark.parametrize("form", ["\ufeff{}", "{}\r\n", "\n{}\n\n"])
def test_byte_order_mark_windows_line_ends_and_blank_lines_change_nothing(write, form):
    text = form.format(EDGES)
    text = text.replace("\n", "\r\n") if "\r" in form else text
    assert tables.read_graph(write("edges.csv", text)).arguments["edge_index"].tolist() == [
        [0, 1, 2, 3],
        [1, 2, 0, 0],
    ]


def test_quoted_values_spaces_and_other_columns(write):
    edges = write("edges.csv", 'weight, source ,target\n1,"x, y", z\n2,z,"x, y"\n')
    assert tables.read_graph(edges).arguments["node_names"] == ("x, y", "z")


def test_tabs_in_a_tsv(write):
    assert len(tables.read_graph(write("edges.tsv", EDGES.replace(",", "\t"))).arguments["node_names"]) == 4


def test_columns_may_have_other_names(write):
    made = tables.read_graph(
        write("edges.csv", EDGES.replace("source,target", "from,to")),
        write("nodes.csv", NODES.replace("id,label", "key,kind")),
        source_column="from",
        target_column="to",
        id_column="key",
        label_column="kind",
    ).arguments
    assert made["class_names"] == ("cat", "dog") and made["feature_names"] == ("size", "age")


def test_whole_number_labels_sort_as_numbers_and_minus_one_is_unknown(write):
    nodes = write("nodes.csv", "id,label\na,10\nb,9\nc,-1\nd,\n")
    made = tables.read_graph(write("edges.csv", EDGES), nodes).arguments
    assert made["class_names"] == ("9", "10") and made["y"].tolist() == [1, 0, -1, -1]
    assert made["x"] is None


def test_text_column_becomes_counts_of_words(write):
    nodes = write("nodes.csv", "id,label,title\na,1,red wolf\nb,1,the grey wolf\nc,2,blue whale blue\nd,2,\n")
    made = tables.read_graph(write("edges.csv", EDGES), nodes, text_column="title").arguments
    assert issparse(made["x"]) and made["x"].dtype == np.float32
    assert made["feature_names"] == ("blue", "grey", "red", "whale", "wolf")
    dense = made["x"].toarray()
    assert dense.tolist() == [[0, 0, 1, 0, 1], [0, 1, 0, 0, 1], [2, 0, 0, 1, 0], [0, 0, 0, 0, 0]]
    known = {"id_column": "id", "label_column": "label", "text_column": "title"}
    words = tables.TableEncoder(words=("wolf", "fox"))
    again = tables.read_graph(write("edges.csv", EDGES), nodes, encoder=words, **known).arguments
    assert again["feature_names"] == ("wolf", "fox")
    assert again["x"].toarray().tolist() == [[1, 0], [1, 0], [0, 0], [0, 0]]


def test_features_as_a_dense_table_in_another_order_without_nodes(write):
    features = write("features.csv", "id,p,q\nd,4,40\nc,3,30\nb,2,20\na,1,10\ne,5,50\n")
    made = tables.read_graph(write("edges.csv", EDGES), features=features).arguments
    assert made["node_names"] == ("a", "b", "c", "d", "e")
    assert made["x"].tolist() == [[1, 10], [2, 20], [3, 30], [4, 40], [5, 50]]


def test_features_as_csr_parts(write, tmp_path):
    matrix = random_array((4, 6), density=0.3, format="csr", dtype=np.float32, rng=np.random.default_rng(0))
    write_npz(tmp_path / "x.npz", csr_parts(matrix))
    made = tables.read_graph(write("edges.csv", EDGES), write("nodes.csv", NODES), tmp_path / "x.npz").arguments
    assert (made["x"] != matrix).nnz == 0


def csr_parts(matrix) -> dict[str, np.ndarray]:
    return {
        "x_data": matrix.data,
        "x_indices": matrix.indices,
        "x_indptr": matrix.indptr,
        "x_shape": np.array(matrix.shape),
    }


@pytest.mark.parametrize(
    ("edges", "nodes", "words"),
    [
        (EDGES + "b,x9\n", NODES, ["edges.csv", "row 5 (line 6)", "target 'x9'", "nodes.csv", "Add"]),
        (EDGES + "\n\nx,b\n", NODES, ["row 5 (line 8)", "source 'x'"]),
        (EDGES + ",b\n", NODES, ["row 5", "'source'", "missing"]),
        (EDGES + "b,c,d\n", NODES, ["row 5 (line 6)", "3 values", "2 columns"]),
        (EDGES, NODES + "e,cat,1\n", ["nodes.csv", "row 5", "3 values", "4 columns"]),
        (
            EDGES,
            NODES + "e,cat,big,2\n",
            ["nodes.csv", "row 5", "'size'", "'big' is not a number", "text_column='size'", "ignore_column='size'"],
        ),
        (EDGES, NODES + "e,cat,-inf,1\n", ["row 5", "'size'", "-inf", "finite"]),
        (EDGES, NODES + "e,cat,1e300,1\n", ["row 5", "'size'", "1e300", "float32"]),
        (EDGES, NODES + "b,cat,1,2\n", ["row 5", "'b'", "already used in row 2", "id_column="]),
        (EDGES, NODES + ",cat,1,2\n", ["row 5", "'id'", "missing"]),
        ("", NODES, ["edges.csv", "empty", "0 bytes"]),
        ("\n\n", NODES, ["edges.csv", "blank lines"]),
        ("source,target\n", NODES, ["edges.csv", "no rows"]),
        (EDGES.replace("source", "target"), NODES, ["two columns called 'target'"]),
        ("a,b\nb,c\n", NODES, ["edges.csv", "'a', 'b'", "no column names", "source,target"]),
        ("p,q,r\n1,2,3\n4,5,6\n", NODES, ["edges.csv", "'p', 'q', 'r'", "source_column=", "target_column="]),
        (EDGES, NODES.replace("id,", "sort,").replace("\nb,", "\na,"), ["nodes.csv", "no column 'id'", "id_column="]),
        (EDGES.encode() + b"\0\n", NODES, ["NUL", "UTF-8"]),
        (EDGES + 'a,"b\nb,c\n', NODES, ["edges.csv, line", "quote"]),
    ],
)
def test_bad_tables_are_named(write, edges, nodes, words):
    edges, nodes = write("edges.csv", edges), write("nodes.csv", nodes)
    with pytest.raises(InputError) as caught:
        tables.read_graph(edges, nodes, strict=True)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ("id,p\na,1\nx,1\n", ["features.csv", "row 2", "'x'"]),
        ("id,p\na,1\nb,2\nc,much\nd,4\n", ["row 3 (line 4)", "'p'", "'much'"]),
        ("id,p\na,1\nb,\nc,1\nd,1\n", ["features.csv, row 2 (line 3), column 'p'", "missing"]),
        ("id\na\nb\nc\nd\n", ["features.csv has no column beside 'id'"]),
        ("id,p\na,1\nb,1\nc,1\n", ["features.csv", "'d' has no row"]),
        ("id,p\na,1\nb,1\nc,1\nd,1\na,2\n", ["row 5 (line 6)", "'a' is already used in row 1"]),
    ],
)
def test_bad_feature_tables_are_named(write, features, words):
    with pytest.raises(InputError) as caught:
        tables.read_graph(write("edges.csv", EDGES), write("nodes.csv", NODES), write("features.csv", features))
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x_shape": np.array([3, 6]), "x_indptr": np.array([0, 0, 1, 1])}, ["3 feature rows", "4 nodes"]),
        ({"x_indices": np.array([9], np.int32)}, ["do not fit together"]),
        ({"x_data": np.array([np.nan], np.float32)}, ["row 2", "NaN"]),
        ({"x_indptr": None}, ["lacks x_indptr"]),
    ],
)
def test_bad_csr_parts_are_named(write, tmp_path, change, words):
    parts = {
        "x_data": np.ones(1, np.float32),
        "x_indices": np.array([2], np.int32),
        "x_indptr": np.array([0, 0, 1, 1, 1]),
        "x_shape": np.array([4, 6]),
    } | change
    write_npz(tmp_path / "x.npz", {name: part for name, part in parts.items() if part is not None})
    with pytest.raises(InputError) as caught:
        tables.read_graph(write("edges.csv", EDGES), write("nodes.csv", NODES), tmp_path / "x.npz")
    for word in ["x.npz", *words]:
        assert word in str(caught.value)


def test_row_numbered_features_need_a_node_table(write, tmp_path):
    np.save(tmp_path / "x.npy", np.ones((4, 2)))
    with pytest.raises(InputError, match="node table"):
        tables.read_graph(write("edges.csv", EDGES), features=tmp_path / "x.npy")


def test_missing_file_unknown_kind_and_wordless_text(write, tmp_path):
    with pytest.raises(InputError, match=r"no file .*edges\.csv"):
        tables.read_graph(tmp_path / "edges.csv")
    with pytest.raises(InputError, match=r"edges\.xlsx is damaged"):
        tables.read_graph(write("edges.xlsx", "PK"))
    with pytest.raises(InputError, match=r"must end in .*\.xlsx.*not '\.doc'"):
        tables.read_graph(write("edges.doc", "PK"))
    nodes = write("nodes.csv", "id,title\na,the\nb,\nc,\nd,\n")
    with pytest.raises(InputError, match="no usable words"):
        tables.read_graph(write("edges.csv", EDGES), nodes, text_column="title")
    with pytest.raises(InputError, match="text_column"):
        tables.read_graph(write("edges.csv", EDGES), text_column="title")


def test_parquet_gives_the_same_graph_as_csv(write, tmp_path):
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    columns = {
        "id": ["a", "b", "c", "d"],
        "label": arrow.array([3, 1, None, 3]),
        "size": arrow.array([1, 0, 5, 4], arrow.int8()),
        "age": [2.0, -1.0, 7.0, 0.0],
    }
    pyarrow.parquet.write_table(arrow.table(columns), tmp_path / "nodes.parquet")
    made = tables.read_graph(write("edges.csv", EDGES), tmp_path / "nodes.parquet").arguments
    assert made["class_names"] == ("1", "3") and made["y"].tolist() == [1, 0, -1, 1]
    np.testing.assert_allclose(made["x"], [[1, 2], [0, -1], [5, 7], [4, 0]])


def test_bad_parquet_is_named(write, tmp_path):
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    with pytest.raises(InputError, match="not a readable Parquet"):
        tables.read_columns(write("edges.parquet", "source,target\n"))
    nodes = {"id": ["a", "b", "c", "d"], "x": [1.0, 2.0, None, 3.0]}
    pyarrow.parquet.write_table(arrow.table(nodes), tmp_path / "nodes.parquet")
    made = tables.read_graph(write("edges.csv", EDGES), tmp_path / "nodes.parquet").arguments
    assert made["feature_names"] == ("x", "x missing")
    assert made["x"].tolist() == [[1, 0], [2, 0], [2, 1], [3, 0]]  # the median where it is missing
    pyarrow.parquet.write_table(arrow.table({"id": ["a"], "x": [{"p": 1.0}]}), tmp_path / "nodes.parquet")
    with pytest.raises(InputError, match="one column per value"):
        tables.read_columns(tmp_path / "nodes.parquet")


def test_parquet_needs_no_pyarrow(tmp_path, monkeypatch):
    for name in ("pyarrow", "pandas"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    tables.write_columns(tmp_path / "edges.parquet", {"source": ["a"], "target": ["b"]})
    assert tables.read_graph(tmp_path / "edges.parquet").arguments["node_names"] == ("a", "b")


@pytest.mark.parametrize("name", ["out.csv", "out.tsv", "out.parquet"])
def test_written_columns_are_read_back_and_never_overwritten_unasked(tmp_path, name):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    columns = {"node": ["a", 'b, "c"'], "class": np.array(["x", "y"]), "probability": np.array([0.25, 1.0])}
    tables.write_columns(tmp_path / name, columns)
    table = tables.read_columns(tmp_path / name)
    assert table.text("node", "ids") == ["a", 'b, "c"'] and table.text("class", "labels") == ["x", "y"]
    assert numbers(table, "probability").tolist() == [0.25, 1.0]
    with pytest.raises(InputError, match="exists already"):
        tables.write_columns(tmp_path / name, {"node": ["z"]})
    tables.write_columns(tmp_path / name, {"node": ["z"]}, force=True)
    assert tables.read_columns(tmp_path / name).text("node", "ids") == ["z"]


def test_writing_refuses_nan_unequal_lengths_and_unknown_kinds(tmp_path):
    for columns, word in [({"p": [0.5, np.nan]}, "row 2"), ({"a": [1], "b": [1, 2]}, "length")]:
        with pytest.raises(InputError, match=word):
            tables.write_columns(tmp_path / "out.csv", columns)
    with pytest.raises(InputError, match=r"\.xls"):
        tables.write_columns(tmp_path / "out.xls", {"a": [1]})
    assert not list(tmp_path.iterdir())


def test_a_misspelt_name_is_found_among_very_many():
    names = [f"lib{a}{b}{i}" for a in "abcdefghij" for b in "klmnopqrst" for i in range(60)] + ["python3-numpy"]
    assert len(names) > 5000
    for written, meant in (("pyhton3-numpy", "python3-numpy"), ("LIBAK7", "libak7"), ("libdq-33", "libdq33")):
        assert close_name(written, names) == meant
    assert close_name("zzzzzz", names) is None


def test_a_table_may_be_a_query(write, tmp_path):
    edges, nodes = write("edges.csv", EDGES), write("nodes.csv", NODES)
    expected = tables.read_graph(edges, nodes).arguments
    for name, file in (("edges", edges), ("nodes", nodes)):
        duckdb.execute(f"copy (from read_csv('{file}')) to '{tmp_path / name}.parquet'")
    made = tables.read_graph(
        f"select source, target from '{tmp_path}/edges.parquet'", f"from '{tmp_path}/nodes.parquet' order by id"
    ).arguments
    assert made["edge_index"].tolist() == expected["edge_index"].tolist()
    assert made["y"].tolist() == expected["y"].tolist() and made["node_names"] == expected["node_names"]
    np.testing.assert_allclose(made["x"], expected["x"])
    few = tables.read_graph(f"SELECT * FROM '{tmp_path}/edges.parquet' where source <> 'd'").arguments
    assert few["node_names"] == ("a", "b", "c")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("select sauce from read_csv('{}')", ["sauce", "not found", "correct the query"]),
        ("select * from 'nowhere.parquet'", ["nowhere.parquet", "No files found", "correct the query"]),
        ("from read_csv('{}'", ["syntax error", "correct the query"]),
        ("from read_csv('{}') where source = 'z'", ["no rows"]),
    ],
)
def test_a_query_that_fails_is_named_with_the_reason_and_a_remedy(write, query, words):
    given = query.format(write("edges.csv", EDGES))
    with pytest.raises(InputError) as caught:
        tables.read_graph(given)
    for word in (given, *words):
        assert word in str(caught.value)


def test_a_duckdb_file_holds_one_table_or_a_query_names_it(write, tmp_path):
    path = tmp_path / "graph.duckdb"
    with duckdb.connect(str(path)) as database:
        database.execute(f"create table edges as from read_csv('{write('edges.csv', EDGES)}')")
    assert tables.read_graph(path).arguments["edge_index"].tolist() == [[0, 1, 2, 3], [1, 2, 0, 0]]
    with duckdb.connect(str(path)) as database:
        database.execute(f"create table nodes as from read_csv('{write('nodes.csv', NODES)}')")
    with pytest.raises(InputError, match=r"graph\.duckdb is not a .* with one table: .*table_name = 'NAME'"):
        tables.read_graph(path)
    made = tables.read_graph(
        *(f"from read_duckdb('{path}', table_name = '{name}')" for name in ("edges", "nodes"))
    ).arguments
    assert len(made["node_names"]) == 4 and made["y"].tolist() == [0, 1, -1, 0]
    with pytest.raises(InputError, match=r"other\.duckdb is not a readable DuckDB database"):
        tables.read_graph(write("other.duckdb", EDGES))


def test_suggested_options_are_quoted_for_the_shell(write):
    rows = "".join(f"n{i},{'xy'[i % 2]},{'pqr'[i % 3]}\n" for i in range(40))
    edges = write("edges.csv", "source,target\nn1,n2\n")
    with pytest.raises(InputError, match=r"label_column='made with' if it does, category_column='made with' if"):
        tables.read_graph(edges, write("nodes.csv", f"id,made with,b\n{rows}"))
    with pytest.raises(InputError, match=r"label_column='class of' or label_column='target'$"):
        tables.read_graph(edges, write("nodes.csv", f"id,class of,target\n{rows}"))
    numbers = "id,label,net worth\n" + "".join(f"n{i},x,{i}\n" for i in range(9)) + "m,x,much\n"
    with pytest.raises(InputError, match=r"text_column='net worth', ignore_column='net worth'\)"):
        tables.read_graph(edges, write("nodes.csv", numbers))


TITLED = "id,label,url,headline,abstract\n" + "".join(
    f"d{i},{'ab'[i % 2]},https://example.org/{i},About thing {i},{'many words about it ' * 12}{i}\n" for i in range(40)
)


@pytest.mark.parametrize(
    ("nodes", "options", "title"),
    [
        (TITLED, {}, "headline"),
        (TITLED.replace("headline", "short"), {}, "short"),  # by its content
        (TITLED, {"text_column": ["headline"]}, "headline"),  # beside another use
        (TITLED, {"title_column": "url"}, "url"),
        (TITLED, {"title_column": ""}, None),
        (TITLED, {"ignore_column": ["headline"]}, None),
        ("id,label,name\n" + "".join(f"d{i},a,same name\n" for i in range(9)), {"category_column": ["name"]}, None),
    ],
)
def test_the_column_of_titles_is_short_and_differs(write, nodes, options, title):
    found = tables.read_graph(write("e.csv", "source,target\nd0,d1\n"), write("n.csv", nodes), **options)
    assert [role.column for role in found.roles if role.use == "title"] == ([title] if title else [])
    assert found.columns.get("title_column") == title
    if title is None:
        assert "node_titles" not in found.arguments
    else:
        wanted = "https://example.org/3" if title == "url" else "About thing 3"
        assert found.arguments["node_titles"][3] == wanted
    again = tables.read_graph(
        write("e.csv", "source,target\nd0,d1\n"), write("n.csv", nodes), encoder=found.encoder, **found.columns
    )
    assert again.arguments.get("node_titles") == found.arguments.get("node_titles")
    with pytest.raises(InputError, match="no column 'nme' for the titles"):
        tables.read_graph(write("e.csv", "source,target\nd0,d1\n"), write("n.csv", nodes), title_column="nme")


def workbook(path, change):
    """A sheet of 100 edges whose XML was changed."""
    openpyxl = pytest.importorskip("openpyxl", reason="needs openpyxl")
    book = openpyxl.Workbook()
    for row in (("source", "target"), *((f"n{i}", f"n{i + 1}") for i in range(100))):
        book.active.append(row)
    book.save(path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, change(content.decode()) if name == sheet else content)


@pytest.mark.parametrize("declared", ["A1:B11", "A1", "A1:XFD1048576"])
def test_the_size_that_a_sheet_declares_does_not_count(tmp_path, declared):
    workbook(tmp_path / "e.xlsx", lambda text: re.sub(r'<dimension ref="[^"]*"', f'<dimension ref="{declared}"', text))
    assert len(tables.read_columns(tmp_path / "e.xlsx")) == 100


def test_rows_of_a_sheet_are_read_in_their_order_and_refused_far_away(tmp_path):
    workbook(tmp_path / "e.xlsx", lambda text: re.sub(r'(<row r="5".*?</row>)(<row r="6".*?</row>)', r"\2\1", text))
    assert tables.read_columns(tmp_path / "e.xlsx").text("source") == [f"n{i}" for i in range(100)]
    far = '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'
    workbook(tmp_path / "e.xlsx", lambda text: text.replace("</sheetData>", far))
    with pytest.raises(InputError, match=r"e\.xlsx holds 17,179,869,184 cells or more; at most 20,000,000 .*--raise-"):
        tables.read_columns(tmp_path / "e.xlsx")


def test_a_small_file_with_very_many_cells_is_refused_before_it_is_read(tmp_path):
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    import pyarrow as pa
    from pyarrow import parquet

    zeros = np.zeros(11_000_000, np.int8)
    parquet.write_table(pa.table(dict.fromkeys(("source", "target"), zeros)), tmp_path / "e.parquet")
    (tmp_path / "e.jsonl").write_text("".join(f'{{"source": 1, "k{i}": 1}}\n' for i in range(5000)))
    for name, cells in (("e.parquet", "22,000,000"), ("e.jsonl", "25,005,000")):
        with pytest.raises(InputError, match=rf"{name} holds {cells} cells or more; at most 20,000,000 .*--raise-"):
            tables.read_columns(tmp_path / name)


def test_an_archive_with_the_name_of_an_array_is_refused(write, tmp_path):
    np.savez(tmp_path / "x.npz", a=np.zeros((4, 2), np.float32))
    (tmp_path / "x.npz").rename(tmp_path / "x.npy")
    with pytest.raises(InputError, match=r"x\.npy is damaged .*write it with numpy\.save"):
        tables.read_graph(write("e.csv", EDGES), write("n.csv", NODES), features=tmp_path / "x.npy")


@pytest.mark.parametrize("weight", ["3e38", "1e-38", "1e16"])
def test_weights_that_single_precision_cannot_add_are_refused(write, weight):
    edges = write("e.csv", f"source,target,w\na,b,1\nb,c,{weight}\n")
    with pytest.raises(InputError, match=rf"e\.csv, row 2 .*the weight is {weight}; .* from 1e-15 to 1e15"):
        tables.read_graph(edges, write("n.csv", NODES), weight_column="w")


def test_both_ends_in_one_column_are_refused(write):
    with pytest.raises(InputError, match=r"two ends of an edge, .* not only 'source'"):
        tables.read_graph(write("e.csv", EDGES), source_column="source", target_column="source")
