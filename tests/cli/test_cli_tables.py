"""Tables with column names of their own: fitted, predicted and explained without naming a column."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

import own_graph

WORDS = (
    "bread oven",
    "hair scissors",
    "parcel van",
    "field plough",
    "rose bouquet",
    "shelf till",
    "cash run",
    "fake mail",
)


def write_strange(folder: Path, new_labels: bool = False) -> None:
    """people.csv (person;trade;about;town;income) with gaps and decimal commas, payments.csv (payer;payee;how)."""
    edges, _, y = own_graph.arrays()
    rng = np.random.default_rng(3)
    rows = []
    for i, c in enumerate(y):
        known = c < len(own_graph.TRADES) and i % 3
        label = own_graph.TRADES[c] if known else ""
        if new_labels and i in np.flatnonzero(y >= len(own_graph.TRADES))[:6]:
            label = own_graph.NEW[c - len(own_graph.TRADES)]
        income = "" if i % 10 == 0 else f"{1000 * c + rng.normal():.2f}".replace(".", ",")
        rows.append(f"n{i};{label};works with {WORDS[c]} number {i};town {rng.integers(4)};{income}")
    own_graph.write(folder / "people.csv", ["person;trade;about;town;income", *rows])
    pairs = [f"n{a};n{b};{'cash' if a % 2 else 'card'}" for a, b in edges.T]
    own_graph.write(folder / "payments.csv", ["payer;payee;how", *pairs])
    examples = [f"{name};{node}" for name, nodes in own_graph.examples().items() for node in nodes]
    own_graph.write(folder / "shown.csv", ["kind of account;who", *examples])


FIT = (
    "fit",
    "--edges",
    "payments.csv",
    "--nodes",
    "people.csv",
    "--method",
    "probe",
    "--k-shot",
    "3",
    "--out",
    "m",
)


def test_options_in_messages_are_those_of_the_command_as_a_shell_reads_them(run, tmp_path):
    write_strange(tmp_path)
    people = (tmp_path / "people.csv").read_text().replace("person;trade", "person;made with")
    (tmp_path / "people.csv").write_text(people)
    code, _, err = run(*FIT)
    assert code == 2 and "Say --label-column 'made with' if it does" in err and "or --label-column '' if" in err
    code, _, err = run(*FIT, "--label-column", "person")
    assert code == 2 and "column 'person' cannot be id and label" in err
    code, out, _ = run(*FIT, "--label-column", "made with")
    assert code == 0 and "--ignore-column about" in out and "_column" not in out


def test_swapped_files_and_tables_without_column_names_are_told_with_what_to_do(run, tmp_path):
    write_strange(tmp_path)
    people, payments = ((tmp_path / name).read_text() for name in ("people.csv", "payments.csv"))
    (tmp_path / "people.csv").write_text(people.partition("\n")[2])
    commands = FIT, ("import", *FIT[1:5], "--out", "g.store")
    for words in commands:
        code, _, err = run(*words)
        assert code == 2 and "people.csv: its first row, 'n0'" in err
        assert "Write a first row with names, for example id,label, or say --id-column n0 if it has some" in err
    (tmp_path / "people.csv").write_text(payments)
    (tmp_path / "payments.csv").write_text(people)
    for words in commands:
        code, _, err = run(*words)
        assert code == 2 and "the two files seem to be swapped: give" in err and "people.csv as --edges" in err
    assert not list(tmp_path.glob("*g.store*")) and not (tmp_path / "m").exists()


def test_a_csv_is_imported_without_pandas_and_pyarrow(tmp_path):
    own_graph.write_tables(tmp_path)
    without = "import sys; sys.modules.update(pandas=None, pyarrow=None, polars=None); from fewnode import cli; "
    words = ["import", "--edges", "edges.csv", "--nodes", "nodes.csv", "--out", "g.store"]
    done = subprocess.run(
        [sys.executable, "-c", f"{without}sys.exit(cli.main({words}))"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "g.store").is_dir() and "240 nodes" in done.stdout


def test_a_label_under_an_unusual_name_is_asked_about_then_all_goes_by_itself(run, tmp_path):
    write_strange(tmp_path)
    code, _, err = run(*FIT)
    assert code == 2 and "--label-column trade" in err and "--category-column trade" in err
    code, out, _ = run(*FIT, "--label-column", "trade", "--json")
    taken = {(row["column"], row["use"]) for row in json.loads(out)["columns"]}
    assert code == 0 and {("person", "id"), ("trade", "label"), ("about", "text"), ("town", "category")} <= taken
    assert {("income", "number"), ("payer", "source"), ("payee", "target"), ("how", "")} <= taken
    code, out, _ = run("predict", "m", "--support", "shown.csv", "--out", "p.csv")
    rows = list(csv.DictReader(Path("p.csv").read_text().splitlines()))
    y = own_graph.arrays()[2]
    new = {row["id"]: row["label"] for row in rows if y[int(row["id"][1:])] >= 6}
    right = [own_graph.NEW[y[int(name[1:])] - 6] == label for name, label in new.items()]
    assert code == 0 and np.mean(right) > 0.9
    code, out, _ = run("explain", "m", "--support", "shown.csv", "--node", "n8")
    assert code == 0 and "speaks for" in out
    kept = json.loads(Path("m/classifier.json").read_text())["source"]
    assert ("about", "text") in {(row["column"], row["use"]) for row in kept["roles"]}


def test_the_table_of_nodes_is_itself_a_support(run, tmp_path):
    write_strange(tmp_path)
    assert run(*FIT, "--label-column", "trade")[0] == 0
    write_strange(tmp_path, new_labels=True)
    code, out, err = run("predict", "m", "--support", "people.csv", "--out", "p.csv", "--json")
    document = json.loads(out)
    assert code == 0, err
    assert {name for name, kind in document["kinds"].items() if kind == "new"} == set(own_graph.NEW)
    assert sum(document["examples"].values()) == 6


def test_what_is_understood_is_shown_with_the_flag_that_changes_it(run, tmp_path):
    write_strange(tmp_path)
    code, out, _ = run(*FIT, "--label-column", "trade", "--edge-type-column", "how", "--ignore-column", "income")
    assert code == 0 and "taken for" in out and "--ignore-column about" in out
    line = next(line for line in out.splitlines() if "income" in line)
    assert "not used" in line and "you said so" in line
    assert "Probe does not use the edge types; vantage does." in out


def test_nodes_alone_and_labels_apart(run, tmp_path):
    write_strange(tmp_path)
    rows = [line.split(";") for line in Path("people.csv").read_text().splitlines()]
    Path("labels.tsv").write_text("".join(f"{row[0]}\t{row[1]}\n" for row in rows if row[1]))
    Path("people.csv").write_text("".join(";".join([row[0], *row[2:]]) + "\n" for row in rows))
    words = ["--knn", "5", "--labels", "labels.tsv", "--ignore-column", "town"]
    code, out, err = run("fit", "--nodes", "people.csv", *words, "--method", "probe", "--k-shot", "3", "--out", "m")
    assert code == 0, err
    assert "240 nodes (120 labelled" in out
    code, out, err = run("predict", "m", "--support", "shown.csv", "--out", "p.csv")
    assert code == 0, err
    assert "115 predictions" in out
    code, _, err = run("fit", "--nodes", "people.csv", "--out", "k")
    assert code == 2 and "--edges" in err and "--knn" in err


def test_edges_in_parts_are_remembered(run, tmp_path):
    write_strange(tmp_path)
    lines = Path("payments.csv").read_text().splitlines()
    for part, some in (("a", lines[1:100]), ("b", lines[100:])):
        Path(f"part-{part}.csv").write_text("\n".join([lines[0], *some]) + "\n")
    words = [word if word != "payments.csv" else "part-*.csv" for word in FIT]
    code, out, _ = run(*words, "--label-column", "trade")
    assert code == 0 and out.count("payer") == 1
    code, out, err = run("predict", "m", "--support", "shown.csv", "--out", "p.csv")
    assert code == 0 and "changed" not in err


def test_import_says_what_the_store_holds(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own_graph.write_tables(tmp_path)
    code, out, _ = run("import", "--edges", "edges.csv", "--nodes", "nodes.csv", "--out", "graph.store")
    assert code == 0 and "240 nodes" in out and "Store in graph.store, " in out and "B; next:" in out
    assert "taken for" in out and "--label-column" in out
