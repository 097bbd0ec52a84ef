"""The command line: what is printed where, the exit codes, and the words for wrong input."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fewnode import cli
from fewnode.datasets import loading
from fewnode.errors import InputError
from fewnode.graph import Graph
from fewnode.tasks import ClassSplit, draw_tasks

SOURCE = Path(__file__).parents[2] / "src"


def small_graph() -> tuple[Graph, ClassSplit]:
    """Nine classes of 30 nodes, each with its own features and edges mostly within."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(9), 30)
    x = rng.normal(size=(270, 12)) + 3 * rng.normal(size=(9, 12))[y]
    edges = np.stack([np.arange(270), np.arange(270) // 30 * 30 + rng.integers(0, 30, 270)])
    return Graph.from_edges(edges, x.astype(np.float32), y), ClassSplit([0, 1, 2], [3, 4, 5], [6, 7, 8])


@pytest.fixture
def data(monkeypatch):
    """Whatever data set is asked for, the small graph is it."""
    monkeypatch.setattr(loading, "open_dataset", lambda name, *_, **__: small_graph())


def train(folder: Path, *more: str, method: str = "vantage") -> list[str]:
    shape = ["--n-way", "3", "--k-shot", "2", "--n-query", "5"]
    return ["train", method, "wordnet", *shape, "--out", str(folder), *more]


SHORT = ("--set", "steps=4", "--set", "check_every=2")


@pytest.mark.parametrize("what", ["datasets", "methods", "grids"])
def test_ls_prints_names_or_one_json_document(run, what):
    code, out, err = run("ls", what, "--json")
    rows = json.loads(out)
    assert code == 0 and err == "" and isinstance(rows, list)
    code, text, _ = run("ls", what)
    assert code == 0 and all(row["name"] in text for row in rows)
    expected = {"datasets": "wordnet", "methods": "probe"}.get(what)
    assert expected is None or expected in [row["name"] for row in rows]


def test_info_counts_draws_bars_and_cites(run, data):
    code, out, err = run("info", "wordnet")
    assert code == 0 and "Loading wordnet" in err
    for words in (
        "270 nodes",
        "without edges",
        "self-loops",
        "9 (3 base, 3 validation, 3 novel)",
        "█",
        "licence",
        "Fellbaum",
    ):
        assert words in out
    code, out, err = run("info", "wordnet", "--json")
    facts = json.loads(out)
    assert facts["nodes"] == 270 and [row["nodes"] for row in facts["classes"]] == [30] * 9
    assert facts["license"] and facts["citation"]


def test_train_then_evaluate(run, data, tmp_path):
    code, out, err = run(*train(tmp_path / "model", *SHORT, "--set", "rank=16", "--json"))
    assert code == 0, err
    facts = json.loads(out)
    assert facts["method"] == "vantage" and facts["dataset"] == "wordnet" and facts["options"] == {"rank": 16}
    assert facts["steps"] == 4 and 0 <= facts["validation_accuracy"] <= 1 and "step 4/4" in err

    code, out, err = run("evaluate", tmp_path / "model", "--tasks", "30", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert len(found["per_task"]) == found["n_tasks"] == 30
    assert (found["n_way"], found["k_shot"], found["n_query"]) == (3, 2, 5)  # as trained
    assert found["accuracy"] == pytest.approx(np.mean(found["per_task"])) and found["interval"] >= 0

    code, out, _ = run("evaluate", tmp_path / "model", "--tasks", "10", "--n-way", "2", "--k-shot", "1")
    assert code == 0 and "10 2-way 1-shot tasks" in out


def test_evaluate_takes_a_pool(run, data, tmp_path):
    run(*train(tmp_path / "model", method="probe"))
    graph, split = small_graph()
    draw_tasks(graph.y, split.novel, 3, 4, 5, 7, 1).save(tmp_path / "pool.npz")
    code, out, err = run("evaluate", tmp_path / "model", "--pool", tmp_path / "pool.npz", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["n_tasks"] == 7 and found["k_shot"] == 4 and found["accuracy"] > 0.8


def test_a_model_of_an_archive_is_evaluated_from_any_folder(run, tmp_path, monkeypatch):
    graph, _ = small_graph()
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "there")
    graph.save_npz("own.npz")
    code, _, err = run("train", "probe", "own.npz", "--out", "m", "--n-way", "3", "--k-shot", "2")
    assert code == 0, err
    shown = ("evaluate", tmp_path / "there" / "m", "--tasks", "5", "--json")
    first = json.loads(run(*shown)[1])
    monkeypatch.chdir(tmp_path)
    assert json.loads(run(*shown)[1])["per_task"] == first["per_task"]
    (tmp_path / "there" / "own.npz").rename(tmp_path / "own.npz")
    code, _, err = run(*shown)
    assert code == 2 and f"there is no file {tmp_path / 'there' / 'own.npz'}" in err
    assert json.loads(run(*shown, "--data-dir", tmp_path)[1])["per_task"] == first["per_task"]


def test_a_folder_with_a_model_is_kept_unless_resumed(run, data, tmp_path):
    assert run(*train(tmp_path / "model", *SHORT))[0] == 0
    before = (tmp_path / "model" / "model.safetensors").read_bytes()
    code, out, err = run(*train(tmp_path / "model", *SHORT))
    assert code == 2 and out == "" and "--resume" in err
    assert run(*train(tmp_path / "model", *SHORT, "--resume"))[0] == 0
    assert (tmp_path / "model" / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["info", "wordnt"], ["'wordnt'", "Did you mean 'wordnet'", "cora_full"]),
        (["train", "tnt", "wordnet", "--out", "OUT"], ["'tnt'", "Did you mean 'tent'"]),
        (["train", "tent", "wordnt", "--out", "OUT"], ["'wordnt'", "wordnet"]),
        (["train", "tent", "wordnet", "--out", "OUT", "--set", "gama=1"], ["'gama'", "Did you mean 'gamma'"]),
        (["train", "tent", "wordnet", "--out", "OUT", "--set", "gamma=high"], ["gamma='high'", "a number"]),
        (["train", "tent", "wordnet", "--out", "OUT", "--set", "gamma"], ["option=value"]),
        (["train", "tent", "wordnet", "--out", "FILE"], ["is a file"]),
        (["evaluate", "OUT"], ["does not exist", "fewnode train"]),
        (["serve", "OUT"], ["does not exist", "fewnode fit"]),
        (["compare", "OUT.csv", "OUT.csv"], ["there is no file OUT.csv"]),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(run, data, tmp_path, argv, words):
    (tmp_path / "file").touch()
    places = {"OUT": str(tmp_path / "out"), "FILE": str(tmp_path / "file")}
    code, out, err = run(*(places.get(word, word) for word in argv))
    last = err.splitlines()[-1]
    assert code == 2 and out == "" and last.startswith("fewnode: ") and "Traceback" not in err
    for word in words:
        assert word in last
    assert not (tmp_path / "out").exists()


def test_impossible_tasks_are_refused_with_the_numbers(run, data, tmp_path):
    run(*train(tmp_path / "model", method="probe"))
    code, _, err = run("evaluate", tmp_path / "model", "--n-way", "10")
    assert code == 2 and "10-way needs 10 classes" in err


def test_unknown_commands_and_missing_arguments_exit_with_2(run, capsys):
    for argv, told in (
        (["trian"], "Did you mean 'train'?"),
        (["ls"], "required: what"),
        (["train", "tent", "wordnet"], "required: --out"),
        (
            ["train", "tent", "wordnet", "--ot", "m", "--seed", "-1"],
            "unrecognized arguments: --ot (did you mean --out?)",
        ),
        (["--raise-limits", "2", "predict", "m", "--uot=p.csv"], "--uot (did you mean --out?)"),
        (["ls", "grids", "--frobnicate"], "--frobnicate (fewnode ls --help lists what there is)"),
        (["ls", "grids", "methods"], "methods (several names are joined by commas: A,B)"),
    ):
        with pytest.raises(SystemExit) as caught:
            run(*argv)
        assert caught.value.code == 2 and told in capsys.readouterr().err


def test_nothing_at_all_is_answered_with_the_help(run, capsys):
    with pytest.raises(SystemExit) as caught:
        run()
    assert caught.value.code == 0 and "evaluate" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "code", "word"),
    [
        (InputError("two\nlines"), 2, "fewnode: two lines"),
        (OSError(28, "No space left on device"), 1, "No space left"),
        (FloatingPointError("the training loss became nan"), 1, "became nan"),
        (KeyboardInterrupt(), 130, "stopped"),
    ],
)
def test_exit_codes(run, monkeypatch, error, code, word):
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(loading, "open_dataset", fail)
    found, out, err = run("info", "wordnet")
    assert found == code and out == "" and word in err and "Traceback" not in err


def test_json_never_holds_nan(capsys):
    from argparse import Namespace

    from fewnode.cli.output import emit

    document = {"a": float("nan"), "b": [1.0, float("-inf")], "c": ("é", None), "seconds": 2.5}
    emit(Namespace(json=True, started=0.0), document, "report")
    assert capsys.readouterr().out == '{"a": null, "b": [1.0, null], "c": ["é", null], "seconds": 2.5}\n'


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion_knows_the_commands(run, shell):
    code, out, _ = run("completion", shell)
    assert code == 0 and "evaluate" in out and "datasets" in out


def test_ctrl_c_keeps_the_best_and_what_resume_needs(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import signal, sys; sys.path.insert(0, sys.argv.pop(1))\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background jobs are born deaf to it
        "import test_cli\nfrom fewnode import cli\nfrom fewnode.cli.output import Bar\n"
        "from fewnode.datasets import loading\n"
        "Bar.pause = 0\n"
        "loading.open_dataset = lambda *_, **__: test_cli.small_graph()\nsys.exit(cli.main(sys.argv[1:]))\n"
    )
    options = train(
        tmp_path / "model", "--set", "steps=100000", "--set", "patience=100000", "--set", "check_every=2", "--json"
    )
    command = [sys.executable, str(script), str(Path(__file__).parent), *options]
    path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stderr is not None
    for line in process.stderr:
        if "step 5/" in line:
            process.send_signal(signal.SIGINT)
            break
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130 and "Traceback" not in err
    facts = json.loads(out)
    assert facts["interrupted"] and facts["steps"] >= 5
    assert (tmp_path / "model" / "model.json").exists()
    assert (tmp_path / "model" / "training.safetensors").exists()


def test_a_reader_that_leaves_early_is_no_error():
    command = f"{shlex.quote(sys.executable)} -m fewnode ls datasets | head -n 1"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(command, shell=True, env=environment, capture_output=True, text=True)
    assert done.stderr == "" and done.stdout.startswith("name")


def test_the_page_lists_every_command_once():
    page = (Path(__file__).parents[2] / "docs/cli.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `fewnode ([\w-]+)", page, re.MULTILINE)
    commands = next(action for action in cli.build_parser()._actions if action.dest == "==SUPPRESS==" or action.choices)
    assert sorted(listed) == sorted(commands.choices)


def test_every_help_fits_80_columns_and_says_what_is_needed(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    commands = re.findall(r"^    (\S+)  ", cli.build_parser().format_help(), re.M)
    assert len(commands) > 15
    for name in commands:
        with pytest.raises(SystemExit):
            cli.main([name, "--help"])
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith(f"usage: fewnode {name} [options]") and max(map(len, lines)) <= 80, name
