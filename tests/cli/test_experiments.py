"""``fewnode run``, ``report`` and ``compare``: what is printed where, and the exit codes."""

import json
import warnings
from concurrent.futures import Future

import pytest

from fewnode.cli.output import clock
from fewnode.experiments import runners
from fewnode.experiments.grid import Run
from report.made_up import grid, row


@pytest.fixture
def own(tmp_path, tiny, monkeypatch):
    """A grid over a small graph, one that is not there, and a setting it has too few classes for."""
    tiny[0].save_npz(tmp_path / "own.npz")
    (tmp_path / "own.toml").write_text(
        'datasets = ["own.npz", "gone.npz"]\nmethods = ["tent"]\nsettings = ["3w2s", "40w2s"]\nn_query = 5\nseeds = 2\n'
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Pretended:
    """An engine that does nothing and does it at once."""

    def __init__(self, jobs=1, data_dir=None) -> None:
        pass

    def slots(self) -> int:
        return 1

    def submit(self, run) -> Future:
        done: Future = Future()
        done.set_result(self.row(run))
        return done

    def row(self, run) -> dict:
        return row(run, 0.6)

    def close(self) -> None:
        pass


class Failing(Pretended):
    def row(self, run) -> dict:
        return {**row(run, 0.6), "status": "failed", "reason": "no luck"} if run.seed else row(run, 0.6)


class Stopped(Pretended):
    """Ctrl-C comes with the second run."""

    begun = 0

    def submit(self, run) -> Future:
        Stopped.begun += 1
        if Stopped.begun == 2:
            raise KeyboardInterrupt
        return super().submit(run)


def test_a_dry_run_lists_and_does_nothing(run, own):
    code, out, err = run("run", "own.toml", "--dry-run", "--json")
    document = json.loads(out)
    assert code == 0 and "runs of own" in err and not (own / "results").exists()
    assert len(document["todo"]) == 4 and document["without_estimate"] == 4
    assert document["not_run"] == {"gone.npz": "there is no file gone.npz"}
    assert {item["reason"] for item in document["not_possible"]} == {
        "40-way needs 40 novel classes of 7 nodes; own.npz has 5 of 5"
    }
    code, text, _ = run("run", "own.toml", "--dry-run")
    for words in ("4 runs to do", "not run: gone.npz", "not possible: 4 runs: 40-way", "head=logistic", "3w2s"):
        assert words in text


def test_rows_of_other_files_tell_how_long_it_takes(run, own):
    (own / "results").mkdir()
    (own / "results" / "earlier.jsonl").write_text(json.dumps(row(Run("a", "tent"), 0.5)) + "\n")
    (own / "results" / "notes.jsonl").write_text("not a row\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # other people's files are no reason to warn
        _, text, _ = run("run", "own.toml", "--dry-run")
    line = next(line for line in text.splitlines() if "tent" in line)
    assert line.rstrip().endswith(" s") and "estimated from earlier rows" in " ".join(text.split())
    assert "0 done before" in text


def test_wrong_words_are_answered_with_how_to_write_them(run, capsys):
    for words, hint in (
        (["--datasets", "cora", "wordnet"], "joined by commas: A,B"),
        (["--sedes", "3"], "did you mean --seeds?"),
        (["--zzz"], "fewnode run --help"),
        (["--jobs", "0"], "argument --jobs: '0': write a whole number of 1 or more"),
        (["--seeds", "-1"], "argument --seeds: '-1': write a whole number of 1 or more"),
    ):
        with pytest.raises(SystemExit) as stop:
            run("run", "quick", *words)
        assert stop.value.code == 2 and hint in capsys.readouterr().err


def test_a_grid_without_a_possible_run_is_an_error(run, own):
    code, out, err = run("run", "own.toml", "--datasets", "gone.npz")
    assert code == 2 and out == "" and not (own / "results").exists()
    assert "not run: gone.npz" in err and "no run of own.toml can be done, for the reasons above" in err


def test_rows_are_kept_skipped_and_used_for_estimates(run, own, monkeypatch):
    monkeypatch.setattr(runners, "Workers", Pretended)
    code, out, err = run("run", "own.toml", "--seeds", 1)
    assert code == 0 and "3 runs done; rows in results/own.jsonl" in out
    assert "[3/3] tent on own.npz, 3w2s, seed 0:" in err and "not run: gone.npz" in err
    code, out, err = run("run", "own.toml", "--json")
    assert (json.loads(out)["done"], json.loads(out)["done_before"]) == (1, 3)
    assert "1 run to do, 3 done before. About 20 s with 1 at a time" in err
    assert len((own / "results/own.jsonl").read_text().splitlines()) == 4


def test_a_failure_is_a_row_and_an_exit_code_and_is_tried_again(run, own, monkeypatch):
    monkeypatch.setattr(runners, "Workers", Failing)
    code, out, _ = run("run", "own.toml")
    assert code == 1 and "3 runs done, 1 failed" in out and "failed: tent on own.npz, 3w2s, seed 1: no luck" in out
    monkeypatch.setattr(runners, "Workers", Pretended)
    assert run("run", "own.toml", "--json")[0] == 0


@pytest.mark.parametrize(
    "argv, words",
    [
        (["quik"], "Did you mean 'quick'"),
        (["quick", "--datasets", "wordnett"], "Did you mean 'wordnet'"),
        (["quick", "--address", "here:1"], "are for --engine ray"),
    ],
)
def test_wrong_input_is_one_line(run, own, argv, words):
    code, out, err = run("run", *argv)
    assert code == 2 and out == "" and words in err


def test_ctrl_c_keeps_what_is_done(run, own, monkeypatch):
    monkeypatch.setattr(runners, "Workers", Stopped)
    code, _, err = run("run", "own.toml")
    assert code == 130 and "1 new rows are in results/own.jsonl" in err
    assert len((own / "results/own.jsonl").read_text().splitlines()) == 1


def test_report_and_compare(run, tmp_path):
    for name, shift in (("a", 0.0), ("b", 0.1)):
        lines = [row(Run("wordnet", "pn", {}, seed=s), 0.6 + shift) for s in range(2)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, out, err = run("report", tmp_path / "a.jsonl", "--out", tmp_path / "page.html", "--json")
    assert code == 0 and json.loads(out)["rows"] == 2 and (tmp_path / "page.html").exists() and "Drawing" in err
    code, out, _ = run("compare", tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    assert code == 0 and "PN on WordNet" in out and "more than noise" in out
    code, out, _ = run("compare", tmp_path / "a.jsonl", tmp_path / "b.jsonl", "--json")
    assert json.loads(out)["changes"][0]["more_than_noise"] is True


def test_a_report_of_nothing_is_refused(run, tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps(grid(("wordnet",), 1)[-1]) + "\n")
    code, _, err = run("report", tmp_path / "a.jsonl")
    assert code == 2 and "no run there has succeeded" in err


def test_a_terminal_shows_bars_of_what_runs_and_a_line_for_what_has_finished(monkeypatch, capsys):
    from rich.console import Console

    from fewnode.cli import output
    from fewnode.cli.experiments import show_run

    terminal = Console(width=120, record=True, force_terminal=True, stderr=True)
    monkeypatch.setattr(output, "_console", lambda stderr=False: terminal)
    runs = [Run("wordnet", "tent", {}, seed=seed) for seed in range(3)]
    with output.Bar() as bar:
        for one, found, done in ((runs[0], None, 0), (runs[0], row(runs[0], 0.6), 1), (runs[1], None, 1)):
            show_run(bar, one, found, done, 3)
        bar.progress.refresh()
        text = terminal.export_text()
    for words in ("[1/3] tent on wordnet, 5w5s, seed 0: 60.2 %", "tent on wordnet, 5w5s, seed 1", "1/3"):
        assert words in text


def test_clock():
    assert [clock(seconds) for seconds in (3.2, 89, 600, 7200)] == ["3 s", "89 s", "10 min", "2.0 h"]


def test_compare_of_predictions(run, tmp_path):
    table, rows = tmp_path / "a.csv", tmp_path / "rows"
    table.write_text("id,label,probability\na,x,0.5\nb,y,0.9\n")
    (tmp_path / "b.csv").write_text("id,label,probability\na,x,0.5\nb,x,0.8\n")
    rows.write_text('{"id": "r"}\n')
    code, out, _ = run("compare", table, tmp_path / "b.csv")
    assert code == 0 and "2 nodes are in both tables, 1 of them with another class (50.00 %)" in out
    code, out, _ = run("compare", table, tmp_path / "b.csv", "--json")
    assert code == 0 and json.loads(out)["surest"][0]["id"] == "b"
    code, _, err = run("compare", table, rows)
    assert code == 2 and "compare like with like" in err and len(err.splitlines()) == 1
