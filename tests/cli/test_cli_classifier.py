"""The commands for a user's own graph: what they print, what they write, and the words for wrong input."""

import csv
import errno
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import own_graph
from fewnode import FewShotClassifier
from fewnode.labelling.journal import Journal
from fewnode.labelling.session import LabelSession


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def predict(home: Path, *more: object) -> list[object]:
    return ["predict", home / "m", "--support", home / "support.csv", "--out", "p.csv", *more]


def test_fit_own_says_what_it_understood_and_what_comes_next(run, home):
    code, out, _ = run(
        "fit", "--edges", home / "edges.csv", "--nodes", home / "nodes.csv", "--n-way", 2, "--k-shot", 2,
        "--set", "steps=2", "--set", "check_every=2", "--out", "m",
    )  # fmt: skip
    assert code == 0 and "240 nodes (120 labelled" in out and "6 numeric columns" in out
    assert "classes: 6\n" in out and "florist" in out
    assert "vantage, 2 steps of training: " in out and "of all rows right" in " ".join(out.split())
    assert "fewnode predict m --support support.csv --out predictions.csv" in out


def test_fit_own_as_json_and_a_second_time(run, home):
    words = ["fit", "--edges", home / "edges.csv", "--nodes", home / "nodes.csv", "--method", "probe", "--out", "m"]
    code, out, _ = run(*words, "--min-size", 40, "--json")
    document = json.loads(out)
    assert code == 0 and {row["part"] for row in document["classes"]} == {"too small"}
    assert document["open_set"]["simulations"] > 0
    assert run(*words)[0] == 2
    assert run(*words, "--force")[0] == 0


def test_predict_writes_all_nodes_without_a_label(run, home):
    code, out, _ = run(*predict(home))
    table = rows(Path("p.csv"))
    assert code == 0 and list(table[0]) == ["id", "label", "probability", "runner_up", "margin", "kind"]
    assert len(table) == 240 - 120 - 5 and {"known", "new"} <= {row["kind"] for row in table}
    assert {row["label"] for row in table if row["kind"] == "new"} == set(own_graph.NEW)
    assert "mule" in out and "Expected accuracy: " in " ".join(out.split()) and "fewnode explain" in out
    assert "Assumed: labels of known classes are missing at random" in " ".join(out.split())


def test_without_new_classes_nothing_is_said_about_them(run, home):
    code, out, _ = run("predict", home / "m", "--out", "p.csv")
    assert code == 0 and "Expected accuracy: " in out and "nodes of known classes" in " ".join(out.split())
    assert not any(word in out for word in ("examples", "precision", "Precision", "recall"))
    code, out, _ = run("find", home / "m", "--class", "baker", "--top", 5)
    assert code == 0 and out.startswith("5 candidates for 'baker', the most likely first.")


def test_a_known_class_that_receives_more_than_its_share_is_told(run, tmp_path):
    own_graph.write_tables(tmp_path)
    header, *lines = (tmp_path / "nodes.csv").read_text().splitlines()
    few = [i for i, line in enumerate(lines) if ",baker," in line][4:]  # labelled by hand
    lines = [line.replace(",baker,", ",,") if i in few else line for i, line in enumerate(lines)]
    own_graph.write(tmp_path / "nodes.csv", [header, *lines])
    fit = ("fit", "--edges", "edges.csv", "--nodes", "nodes.csv", "--method", "probe", "--k-shot", 3, "--out", "m")
    assert run(*fit)[0] == 0
    code, out, _ = run("predict", "m", "--support", "support.csv", "--out", "p.csv")
    out = " ".join(out.split())
    assert code == 0 and re.search(r"baker received \d+\.\d times what is due", out)
    assert "If the labels of baker were chosen by hand, give them with --support" in out


def test_closed_set_predictions_say_so_first(run, home):
    code, out, _ = run(*predict(home, "--closed-set"))
    table = rows(Path("p.csv"))
    assert code == 0 and out.startswith("Every node was assigned to one of 2 new classes")
    assert list(table[0]) == ["id", "label", "probability", "runner_up", "margin"]
    assert {row["label"] for row in table} <= set(own_graph.NEW)
    assert all(0.5 <= float(row["probability"]) <= 1 for row in table)


def test_a_method_whose_answers_depend_on_the_batch_says_so(run, home, tmp_path):
    tables = ("--nodes", home / "nodes.csv", "--edges", home / "edges.csv")
    assert run("fit", *tables, "--method", "rectified", "--out", tmp_path / "m")[0] == 0
    code, _, err = run("predict", tmp_path / "m", "--support", home / "support.csv", "--closed-set", "--out", "p.csv")
    told = "note: rectified is task-transductive: answers depend on which other nodes are asked about\n"
    assert code == 0 and told in err and "UserWarning" not in err


def test_what_the_printed_figures_say_is_about_the_rows_written(run, home):
    code, out, _ = run(*predict(home, "--all-probabilities", "--threshold", 0.3, "--threshold", "mule=0.9", "--json"))
    document, table = json.loads(out), rows(Path("p.csv"))
    assert code == 0 and document["thresholds"] == {"mule": 0.9} and document["expectation"]["rows"] == len(table)
    for name, count in document["counts"].items():
        assert count == sum(row["label"] == name for row in table)
    assert all(float(row["probability"]) >= 0.9 for row in table if row["label"] == "mule")
    assert sum(float(table[0][name]) for name in table[0] if name.startswith("p(")) == pytest.approx(1, abs=1e-4)
    assert document["expectation"]["classes"]["mule"]["called"] == document["counts"]["mule"]


def test_find_ranks_the_candidates_of_one_class(run, home):
    own_graph.write(Path("mules.csv"), ["id,label", *(f"{n},mule" for n in own_graph.examples()["mule"])])
    words = ["find", home / "m", "--support", "mules.csv", "--out", "c.csv"]
    code, out, _ = run(*words, "--top", 20)
    table = rows(Path("c.csv"))
    assert code == 0 and [int(row["rank"]) for row in table] == list(range(1, 21))
    likely = [float(row["probability"]) for row in table]
    assert likely == sorted(likely, reverse=True) and "of the first     10" in out
    truth, names = own_graph.arrays()[2], [*own_graph.TRADES, *own_graph.NEW]
    assert sum(names[truth[int(row["id"][1:])]] == "mule" for row in table) >= 15
    unlabelled = 240 - 120 - len(own_graph.examples()["mule"])
    assert run(*words[:-1], "all.csv")[0] == 0 and len(rows(Path("all.csv"))) == unlabelled
    code, out, _ = run(*words[:-2], "--top", 3, "--json")
    listed = json.loads(out)["listed"]
    assert code == 0 and [row["id"] for row in listed] == [row["id"] for row in table[:3]], "no file: they are listed"
    assert all(row["id"] in run(*words[:-2])[1] for row in listed)
    code, _, err = run("find", home / "m", "--support", home / "support.csv", "--out", "d.csv")
    assert code == 2 and "--class" in err and not Path("d.csv").exists()


def test_label_issues_are_ranked_and_written(run, home, tmp_path):
    lines = (home / "nodes.csv").read_text().splitlines()
    wrong = [f"n{i}" for i in (1, 10, 25)]
    trade = {line.split(",")[0]: line.split(",")[1] for line in lines}
    instead = {name: "barber" if trade[name] == "florist" else "florist" for name in wrong}
    changed = [line.replace(trade[line.split(",")[0]], instead.get(line.split(",")[0], ""), 1)
               if line.split(",")[0] in wrong else line for line in lines]  # fmt: skip
    own_graph.write(tmp_path / "nodes.csv", changed)
    words = ["label-issues", home / "m", "--edges", home / "edges.csv", "--nodes", "nodes.csv", "--top", 5]
    code, out, _ = run(*words, "--out", "issues.csv")
    table = rows(Path("issues.csv"))
    assert code == 0 and {row["id"] for row in table} >= set(wrong)
    found = [row for row in table if row["id"] in wrong]
    assert all(row["label"] == instead[row["id"]] and row["suggested"] == trade[row["id"]] for row in found)
    assert "5 of 120 labels, the most doubtful first, in issues.csv" in out and table[0]["why"] in out
    code, out, _ = run(*words, "--json")
    found = json.loads(out)
    assert code == 0 and found["issues"] == 5 and [row["id"] for row in found["listed"]] == [row["id"] for row in table]
    assert run(*words, "--out", "issues.csv")[0] == 2, "a file that exists is kept"


@pytest.mark.parametrize(
    ("priors", "words"),
    [
        (["mule=1.2"], "the prior of 'mule' is 1.2"),
        (["mule=-0.1"], "the prior of 'mule' is -0.1"),
        (["mule=0.7", "phisher=0.6"], "the priors sum to 1.3"),
        (["baker=0.1"], "a prior for 'baker'"),
    ],
)
def test_priors_that_cannot_be_are_refused_by_name(run, home, priors, words):
    code, _, err = run(*predict(home, *(word for prior in priors for word in ("--prior", prior))))
    assert code == 2 and words in err and not Path("p.csv").exists()


def test_a_prior_makes_a_class_rarer(run, home):
    counts = []
    for share in ("0.3", "0.0001"):
        code, out, _ = run(*predict(home, "--prior", f"mule={share}", "--json", "--force"))
        assert code == 0
        counts.append(json.loads(out)["expectation"]["classes"]["mule"]["members"])
    assert counts[0] > counts[1]


def test_predict_some_nodes_with_a_threshold(run, home):
    own_graph.write(Path("some.csv"), ["id", *(f"n{i}" for i in range(0, 240, 3))])
    code, out, _ = run(*predict(home, "--threshold", 0.4, "--nodes-file", "some.csv", "--json"))
    document = json.loads(out)
    assert code == 0 and document["nodes"] == 80 == sum(document["counts"].values())
    assert document["expectation"]["known"]["value"] > 0.8
    truth = own_graph.arrays()[2]
    names = [*own_graph.TRADES, *own_graph.NEW]
    table = rows(Path("p.csv"))
    right = sum(row["label"] == names[truth[int(row["id"][1:])]] for row in table)
    assert right > 60


def test_predict_another_graph_and_parquet(run, home, tmp_path):
    pytest.importorskip("pyarrow")
    own_graph.write_tables(tmp_path, seed=4)
    tables = ["--edges", "edges.csv", "--nodes", "nodes.csv"]
    code, out, _ = run("predict", home / "m", "--support", "support.csv", "--out", "p.parquet", *tables)
    assert code == 0 and "--edges edges.csv --nodes nodes.csv" in " ".join(out.split())
    from fewnode.tables import read_columns

    assert len(read_columns("p.parquet")) == 115


def test_explain_in_words_and_as_json(run, home):
    words = ["explain", home / "m", "--support", home / "support.csv", "--node", "n70"]
    code, out, _ = run(*words)
    assert code == 0 and "nearest examples" in out and "influence" in out
    code, out, _ = run(*words, "--json")
    assert code == 0 and json.loads(out)["node"] == "n70"
    code, out, err = run(*words)
    assert code == 0 and "What would change the prediction" in out and "speaks for" in out and "Explaining n70" in err
    assert run(*words, "--neighbours", -1)[0] == 2


def test_a_misspelt_node_is_told_before_any_work(run, home, monkeypatch):
    monkeypatch.setattr("fewnode.classifier.classifier.FewShotClassifier.attach", lambda *_: pytest.fail("it went on"))
    code, _, err = run("explain", home / "m", "--support", home / "support.csv", "--node", "n99x")
    assert code == 2 and "there is no node 'n99x' in the graph; did you mean 'n99'?" in err


def test_windows_line_ends_and_a_byte_order_mark_simply_work(run, home):
    text = (home / "support.csv").read_text()
    Path("windows.csv").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert run(*predict(home))[0] == 0
    code, _, _ = run("predict", home / "m", "--support", "windows.csv", "--out", "w.csv")
    assert code == 0 and Path("w.csv").read_bytes() == Path("p.csv").read_bytes()


@pytest.mark.parametrize(
    ("support", "message"),
    [
        ("", "is empty (0 bytes)"),
        ("id,label\n", "no rows below"),
        ("id,label\nn6,a\nn999x,b\n", "there is no node 'n999x'"),
        ("id,label\nn6,a\nn6,b\n", "row 2 (line 3): node 'n6' of class 'b' is in row 1 already, of 'a'"),
        ("id,label\nn6,a\nn6,a\nn7,b\n", "node 'n6' of class 'a' is in row 1 already"),
        ("id,label\nn6,a\nn7,A\n", "named twice"),
        ("id,label\nn6,\nn7,b\n", "column 'label': it is empty"),
        ("id,label\n,a\nn7,b\n", "column 'id': it is empty"),
        ("id,label,note\nn6,,x\nn7,,y\n", "no row names a new class in column 'label'"),
        ("id,note,remark\nn6,a,b\nn7,b,c\n", "which of 'id', 'note', 'remark' holds the labels"),
        ("id\nn6\n", "which of 'id' holds the labels"),
        ("id,label\nn6,a,oops\nn7,b\n", "3 values, but the first row names 2 columns"),
    ],
)
def test_a_wrong_support_is_refused_and_nothing_written(run, home, support, message):
    Path("support.csv").write_text(support)
    code, out, err = run("predict", home / "m", "--support", "support.csv", "--out", "p.csv")
    assert code == 2 and out == "" and message in err and "support.csv" in err
    assert [path.name for path in Path().iterdir()] == ["support.csv"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (own_graph.COLUMNS[:4], "lacks 2 of them ('nights', 'amount')"),
        ((*own_graph.COLUMNS[:5], "height"), "has 1 others ('height')"),
    ],
)
def test_other_features_are_refused_by_name(run, home, tmp_path, columns, message):
    own_graph.write_tables(tmp_path, columns=columns)
    code, _, err = run(*predict(home, "--edges", "edges.csv", "--nodes", "nodes.csv"))
    assert code == 2 and message in err and not Path("p.csv").exists()


def test_an_output_that_exists_is_refused_before_any_work(run, home):
    Path("p.csv").write_text("mine")
    code, _, err = run(*predict(home))
    assert code == 2 and "exists already" in err and "--force" in err and "Loading" not in err
    assert Path("p.csv").read_text() == "mine"
    assert run(*predict(home, "--force"))[0] == 0 and len(rows(Path("p.csv"))) == 115
    assert run("predict", home / "m", "--support", home / "support.csv", "--out", "p.xlsx")[0] == 2


def test_a_full_disk_half_way_leaves_the_old_file(run, home, monkeypatch):
    Path("p.csv").write_text("mine")
    real = Path.open

    class Full:
        def __init__(self, file):
            self.file, self.left = file, 500

        def write(self, text: str) -> int:
            self.left -= len(text)
            if self.left < 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            return self.file.write(text)

        def tell(self) -> int:
            return self.file.tell()

        def __enter__(self):
            self.file.__enter__()
            return self

        def __exit__(self, *error):
            return self.file.__exit__(*error)

    def full(path: Path, mode: str = "r", *args, **options):
        opened = real(path, mode, *args, **options)
        return Full(opened) if "w" in mode else opened

    monkeypatch.setattr(Path, "open", full)
    code, out, err = run(*predict(home, "--force"))
    assert code == 1 and "No space left" in err and out == ""
    assert Path("p.csv").read_text() == "mine" and [path.name for path in Path().iterdir()] == ["p.csv"]


def test_a_wrong_threshold_and_lost_or_incomplete_tables(run, home, tmp_path):
    assert "from 0 to 1" in run(*predict(home, "--threshold", 7))[2]
    assert "needs its edges" in run(*predict(home, "--nodes", home / "nodes.csv"))[2]
    own_graph.write_tables(tmp_path)
    fit = ["fit", "--edges", "edges.csv", "--nodes", "nodes.csv", "--method", "probe", "--k-shot", 3, "--out", "m"]
    assert run(*fit)[0] == 0
    words = ["predict", "m", "--support", "support.csv", "--out", "p.csv", "--force"]
    assert run(*words)[0] == 0
    before = Path("p.csv").read_bytes()
    assert run(*fit, "--without-data", "--force")[0] == 0
    code, _, err = run(*words)
    assert code == 2 and "saved without its data: name the tables with --edges and --nodes" in err
    assert run(*words, "--edges", "edges.csv", "--nodes", "nodes.csv")[0] == 0
    assert Path("p.csv").read_bytes() == before


def test_without_labels_fit_own_falls_back_to_probe_and_says_so(run, tmp_path):
    own_graph.write_tables(tmp_path)
    code, out, err = run("fit", "--edges", "edges.csv", "--out", "m")
    assert code == 0 and "training-free probe" in err and "probe: " in out
    code, out, err = run("predict", "m", "--support", "support.csv", "--out", "p.csv")
    assert code == 0 and "recognised when left out" in " ".join(out.split())
    assert len(rows(Path("p.csv"))) == 235


def test_a_column_of_labels_may_be_empty(run, tmp_path):
    own_graph.write_tables(tmp_path)
    nodes = (tmp_path / "nodes.csv").read_text()
    (tmp_path / "nodes.csv").write_text(re.sub("|".join(own_graph.TRADES), "", nodes))
    code, out, _ = run("fit", "--edges", "edges.csv", "--nodes", "nodes.csv", "--label-column", "label", "--out", "m")
    assert code == 0 and "240 nodes (0 labelled" in out


def test_a_model_that_learned_from_all_classes_is_evaluated_as_predict_uses_it(run, tmp_path):
    own_graph.write_tables(tmp_path)
    nodes = (tmp_path / "nodes.csv").read_text()
    (tmp_path / "nodes.csv").write_text(re.sub("|".join(own_graph.TRADES[3:]), "", nodes))
    fit = ("fit", "--edges", "edges.csv", "--nodes", "nodes.csv", "--method", "probe", "--k-shot", 3, "--out", "m")
    assert run(*fit)[0] == 0
    code, out, _ = run("evaluate", "m")
    assert code == 0 and out.startswith("Open-set classification") and "There are no closed-set tasks" in out
    document = json.loads(run("evaluate", "m", "--json")[1])
    assert document["open_set"]["simulations"] > 0 and "accuracy" not in document
    code, _, err = run("evaluate", "m", "--n-query", 500)
    assert code == 2 and "Ask for fewer with --n-query" in err


def test_an_own_model_is_evaluated_on_classes_it_did_not_learn(run, home):
    words = ["evaluate", home / "m", "--tasks", 20, "--k-shot", 3, "--n-query", 5]
    code, out, _ = run(*words)
    assert code == 0 and "probe, your graph:" in out and "Tasks of validation classes: " in out
    out = " ".join(out.split())  # wherever lines are wrapped
    assert out.startswith("Open-set classification") and out.index("of all rows right") < out.index("Closed-set tasks")
    document = json.loads(run(*words, "--json")[1])
    assert document["kind"] == "validation" and len(document["classes"]) == document["n_way"] == 2
    assert 0.5 < document["accuracy"] <= 1 and len(document["per_task"]) == 20
    told = document["open_set"]
    assert told["simulations"] > 0 and told["right"]["low"] <= told["right"]["mean"] <= told["right"]["high"] <= 1
    code, _, err = run("evaluate", home / "m", "--n-query", 500)
    assert code == 2 and "Ask for fewer with --n-query" in err
    assert run("evaluate", home / "m", "--pool", "tasks.npz")[0] == 2


def later(home: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Ten nodes like the first ten of the graph, joined to the neighbours of these and to each other."""
    nodes, edges = rows(home / "nodes.csv"), rows(home / "edges.csv")
    named = {row["id"]: f"late{i}" for i, row in enumerate(nodes[:10])}
    columns = [name for name in nodes[0] if name != "label"]
    lines = [",".join([named[row["id"]], *(row[name] for name in columns[1:])]) for row in nodes[:10]]
    own_graph.write(tmp_path / "n.csv", [",".join(columns), *lines])
    pairs = [(row["source"], row["target"]) for row in edges]
    pairs = [(named[a], b) for a, b in pairs if a in named and b not in named] + [("late0", "late1")]
    own_graph.write(tmp_path / "e.csv", ["source,target", *(f"{a},{b}" for a, b in pairs)])
    return tmp_path / "n.csv", tmp_path / "e.csv"


def test_nodes_that_arrive_later_are_predicted_alone(run, home, tmp_path):
    nodes, edges = later(home, tmp_path)
    code, out, _ = run(*predict(home, "--new-nodes", nodes, "--new-edges", edges))
    assert code == 0 and "10 predictions in p.csv." in out and "explain" not in out
    found = rows(tmp_path / "p.csv")
    assert [row["id"] for row in found] == [f"late{i}" for i in range(10)]
    run(*predict(home, "--nodes-file", home / "nodes.csv", "--force"))
    twins = {row["id"]: row["label"] for row in rows(tmp_path / "p.csv")}
    same = [row["label"] == twins[node["id"]] for row, node in zip(found, rows(home / "nodes.csv"), strict=False)]
    assert sum(same) >= 8  # they stand where their twins stand, but have fewer neighbours


@pytest.mark.parametrize(
    ("nodes", "edges", "words"),
    [
        ("late0,", "late0,late0\n", "n.csv"),
        ("p000,1,2,3,4,5,6", "p000,p001\n", "p000"),
        ("late0,1,2,3,4,5,6", "late0,nobody\n", "nobody"),
    ],
)
def test_new_nodes_that_cannot_be_are_refused_with_their_place(run, home, tmp_path, nodes, edges, words):
    header = (home / "nodes.csv").read_text().splitlines()[0].replace("label,", "")
    first = (home / "nodes.csv").read_text().splitlines()[1].split(",")[0]
    (tmp_path / "n.csv").write_text(f"{header}\n{nodes.replace('p000', first)}\n")
    (tmp_path / "e.csv").write_text(f"source,target\n{edges.replace('p000', first)}")
    code, _, err = run(*predict(home, "--new-nodes", tmp_path / "n.csv", "--new-edges", tmp_path / "e.csv"))
    assert code == 2 and words.replace("p000", first) in err and ("csv, row" in err or "row 1 of the new" in err)
    assert not (tmp_path / "p.csv").exists()


def test_new_nodes_may_have_no_edges_and_get_no_page(run, home, tmp_path):
    nodes, edges = later(home, tmp_path)
    code, out, _ = run(*predict(home, "--new-nodes", nodes))
    assert code == 0 and "10 predictions in p.csv." in out
    code, _, err = run(*predict(home, "--new-edges", edges, "--force"))
    assert code == 2 and "name their table with --new-nodes" in err
    assert run(*predict(home, "--new-nodes", "n.csv", "--new-edges", "e.csv", "--report", "r.html"))[0] == 2


def test_titles_reach_predictions_candidates_and_explanations(run, tmp_path):
    own_graph.write_tables(tmp_path)
    first, *lines = Path("nodes.csv").read_text().splitlines()
    titled = [f"{first},name", *(f"{line},Mx {line.split(',')[0].upper()} Doe" for line in lines)]
    own_graph.write(Path("nodes.csv"), titled)
    fit = ["fit", "--edges", "edges.csv", "--nodes", "nodes.csv", "--method", "probe", "--k-shot", 3, "--out", "m"]
    assert "nodes.csv name title its name --title-column" in " ".join(run(*fit)[1].split())
    with_support = ["m", "--support", "support.csv"]
    assert run("predict", *with_support, "--out", "p.csv")[0] == 0
    assert all(row["title"] == f"Mx {row['id'].upper()} Doe" for row in rows(Path("p.csv")))
    _, out, _ = run("find", *with_support, "--class", "mule", "--top", 3)
    assert re.search(r"n\d+ +Mx N\d+ Doe +\d", out)
    told = json.loads(run("explain", *with_support, "--node", "n0", "--json")[1])
    assert told["title"] == "Mx N0 Doe"
    assert all(row["title"] == f"Mx {row['node'].upper()} Doe" for row in (*told["examples"], *told["neighbours"]))
    assert run("explain", *with_support, "--node", "n0")[1].startswith('n0 "Mx N0 Doe" is ')
    own_graph.write(Path("new.csv"), [first.replace("label,", "") + ",name", f"z1,{lines[0].split(',', 2)[2]},Zoe"])
    own_graph.write(Path("joined.csv"), ["source,target", "z1,n0"])
    new = ["--out", "later.csv", "--new-nodes", "new.csv", "--new-edges", "joined.csv"]
    assert run("predict", *with_support, *new)[0] == 0
    assert [(row["id"], row["title"]) for row in rows(Path("later.csv"))] == [("z1", "Zoe")]


def test_a_model_grows_by_a_table_or_by_what_was_labelled_on_the_page(run, home, tmp_path):
    shutil.copytree(home / "m", tmp_path / "m")
    y = own_graph.arrays()[2]
    mules, phishers = ([f"n{i}" for i in np.flatnonzero(y == c)] for c in (6, 7))
    lines = [*(f"{node},mule" for node in mules[:12]), f"{phishers[0]},phisher"]
    own_graph.write(tmp_path / "more.csv", ["id,label", *lines])
    code, out, _ = run("grow", "m", "--labels", "more.csv", "--json")
    found = json.loads(out)
    assert code == 0 and found["added"] == 12
    assert found["promoted"] == {"mule": 12} and found["waiting"] == {"phisher": 1}
    own_graph.write(tmp_path / "shown.csv", ["id,label", f"{phishers[0]},phisher", f"{phishers[1]},phisher"])
    code, out, _ = run("predict", "m", "--support", "shown.csv", "--out", "p.csv", "--json")
    assert code == 0 and json.loads(out)["kinds"]["mule"] == "known"
    labels = {row["id"]: row["label"] for row in rows(tmp_path / "p.csv")}
    assert sum(labels[node] == "mule" for node in mules[12:]) > 10
    code, _, err = run("grow", "m", "--labels", "more.csv")
    assert code == 2 and "there is no new label" in err
    classifier = FewShotClassifier.load("m")
    session = LabelSession(classifier, Journal(Path("m"), classifier.graph.fingerprint))
    session.do({"do": "label", "nodes": phishers[:12], "class": "phisher"})
    session.journal.close()
    code, out, _ = run("grow", "m", "--out", "grown")
    assert code == 0 and "phisher is a known class now (12 labels)." in out
    known = [FewShotClassifier.load(folder).known.names() for folder in ("grown", "m")]
    assert "phisher" in known[0] and "phisher" not in known[1]
