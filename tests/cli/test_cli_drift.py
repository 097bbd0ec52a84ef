"""``fewnode drift``: what it prints and the exit code for cron."""

import json

import own_graph


def test_drift(run, home, tmp_path):
    own_graph.write_tables(tmp_path, seed=3)
    tables = ("--nodes", tmp_path / "nodes.csv", "--edges", tmp_path / "edges.csv")
    code, out, _ = run("drift", home / "m", *tables)
    assert code == 0 and out.startswith("No drift: ") and "stability index" not in out
    rows = [line.split(",") for line in (tmp_path / "nodes.csv").read_text().splitlines()]
    for row in rows[1:]:
        row[3] = str(1000 * float(row[3]))
    (tmp_path / "nodes.csv").write_text("\n".join(map(",".join, rows)) + "\n")
    code, out, _ = run("drift", home / "m", *tables, "--figure", "drift.svg", "--json")
    found = json.loads(out)
    assert code == 3 and found["drift"] and found["columns"][0]["name"] == "balance" and found["auc"] > 0.9
    assert "<svg" in (tmp_path / "drift.svg").read_text()
    code, out, _ = run("drift", home / "m", *tables)
    assert code == 3 and "balance" in out.partition("shifted column")[2]
    code, _, err = run("drift", home / "m", *tables, "--figure", "drift.docx")
    assert code == 2 and "Valid: pdf, png, svg" in err
