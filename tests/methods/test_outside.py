"""Methods of other packages: by their entry point, or as ``module:Class``."""

import json
from pathlib import Path

import pytest

from fewnode import FewShotClassifier, InputError, evaluate, fit, load, methods, save
from fewnode.cli import main
from fewnode.experiments.grid import load_grid
from fewnode.experiments.worker import Bench
from linear_method import Linear

GRID = """
datasets = ["planted_homophilous"]
methods = ["{name}"]
settings = ["3w2s"]
options = [{{steps = 2}}]
baselines = false
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed package with a method."""
    source = Path(__file__).parents[1].joinpath("linear_method.py").read_text()
    tmp_path.joinpath("other_package.py").write_text(source)
    info = tmp_path / "other_package-1.0.dist-info"
    info.mkdir()
    info.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: other-package\nVersion: 1.0\n")
    points = "[fewnode.methods]\nlinear = other_package:Linear\nnumber = other_package:torch\n"
    info.joinpath("entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["linear", "linear_method:Linear"])
def test_a_method_of_another_package_works_everywhere(name, package, tiny):
    graph, split = tiny
    model = fit(name, graph, split, n_way=3, k_shot=2, steps=2)
    assert model.card.method == name
    again = load(save(model, package / "model"))
    assert evaluate(again, graph, split, n_way=3).accuracy == evaluate(model, graph, split, n_way=3).accuracy
    (package / "grid.toml").write_text(GRID.format(name=name))
    (run,) = load_grid(str(package / "grid.toml")).runs()
    row = Bench().do(run)
    assert row["status"] == "ok" and row["run"]["method"] == name
    classifier = FewShotClassifier(name, steps=2, k_shot=2).fit(graph, split)
    assert classifier.model.card.method == name


def test_a_model_whose_package_is_gone_says_so(package, tiny):
    folder = save(fit("linear", *tiny, n_way=3, k_shot=2, steps=1), package / "model")
    (package / "other_package-1.0.dist-info/entry_points.txt").unlink()
    with pytest.raises(InputError, match=r"model\.json: unknown method 'linear'\. .* of another package, install that"):
        load(folder)


def test_entry_points_are_listed(package):
    assert "linear" in methods.names() and methods.describe()["linear"].startswith("other_package:Linear")
    assert methods.find("linear").key() == "linear" and Linear.key() == "linear_method:Linear"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("number", "must be a subclass of fewnode.Method"),
        ("no_such_module:Linear", "cannot be imported: No module named 'no_such_module'"),
        ("linear_method:Cubic", "cannot be imported"),
        ("linear_method:", "cannot be imported"),
        ("lineal", "Did you mean 'linear'"),
    ],
)
def test_what_is_no_method_is_refused(name, words, package):
    with pytest.raises(InputError, match=words):
        methods.find(name)


def test_check_prints_the_outcome_of_every_check(package, capsys):
    assert main(["check", "linear", "--json"]) == 0
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert set(checks.values()) == {"passed"} and len(checks) == 12
    (package / "careless.py").write_text(
        "from linear_method import Linear\nclass Careless(Linear):\n    def score(self, graph, state, tasks):\n"
        "        return super().score(graph, state, tasks)[:, :1]\n"
    )
    assert main(["check", "careless:Careless"]) == 1
    assert "scores are finite and shaped: failed: scores have the shape (4, 1, 3)" in capsys.readouterr().out
