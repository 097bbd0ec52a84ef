"""Runs and grids: what a grid asks for, and what is wrong with one."""

from dataclasses import replace

import pytest

from fewnode import methods
from fewnode.errors import InputError
from fewnode.experiments.grid import BASELINES, Run, grid_names, load_grid

RUN = Run("wordnet", "tent", {"gamma": 0.5}, 5, 3, 10, 1)


def grid(tmp_path, text: str):
    file = tmp_path / "own.toml"
    file.write_text(text)
    return load_grid(str(file))


SMALL = 'datasets = ["a", "b"]\nmethods = ["tent"]\nsettings = ["5w3s"]\n'


def test_the_id_is_stable_and_tells_every_setting_apart():
    assert RUN.id == "f2f54b9d86c74d0b"
    assert RUN.id == Run("wordnet", "tent", {"gamma": 0.5}, 5, 3, 10, 1, False).id
    assert Run("a", "m", {"x": 1, "y": 2}).id == Run("a", "m", {"y": 2, "x": 1}).id
    others = {"dataset": "x", "method": "pn", "options": {}, "n_way": 4, "k_shot": 4, "n_query": 9, "seed": 2}
    changed = [replace(RUN, **{key: value}) for key, value in others.items()] + [replace(RUN, inductive=True)]
    changed += [replace(RUN, **{key: "file"}) for key in ("graph", "split", "pool", "text_encoder")]
    assert len({run.id for run in [RUN, *changed]}) == 13


def test_every_shipped_grid_is_sound():
    assert set(grid_names()) >= {"quick", "paper_table", "ablation", "support_size", "query_size", "shots"}
    for name in grid_names():
        found = load_grid(name)
        assert found.description
        present = [m for block in found.blocks for m in (block.methods if block.methods != "all" else [])]
        if set(present) <= set(methods.names()):
            runs = found.runs(seeds=1)
            ids = {run.id for run in runs}
            for run in runs:  # two training-free rows for every problem
                assert {replace(run, method="probe", options=o, seed=0, inductive=False).id for o in BASELINES} <= ids


def test_a_grid_is_a_product_with_baselines_once_and_data_sets_together(tmp_path):
    runs = grid(tmp_path, SMALL + "seeds = 3\noptions = [{}, {gamma = 2}]\n").runs()
    assert [run.dataset for run in runs] == ["a"] * 8 + ["b"] * 8
    trained = [run for run in runs if run.method == "tent"]
    assert sorted(run.seed for run in trained) == [0] * 4 + [1] * 4 + [2] * 4
    assert {type(run.options["gamma"]) for run in trained if run.options} == {float}
    assert len([run for run in runs if run.method == "probe"]) == 4


def test_a_grid_names_files_of_classes_and_of_tasks_and_an_encoder(tmp_path):
    text = SMALL + 'split = "mine.json"\npool = "tasks.json"\n[[block]]\ntext_encoder = "potion-base-8M"\n'
    runs = grid(tmp_path, text).runs(datasets=["a"])
    assert {(run.split, run.pool, run.text_encoder) for run in runs} == {
        ("mine.json", "tasks.json", ""),
        ("mine.json", "tasks.json", "potion-base-8M"),
    }
    assert str(runs[-1]) == "tent on a, 5w3s, seed 0, split mine.json, tasks of tasks.json, texts by potion-base-8M"
    assert "pool" not in RUN.settings() and runs[0].settings()["pool"] == "tasks.json"


def test_blocks_inherit_and_equal_runs_are_done_once(tmp_path):
    text = SMALL + 'baselines = false\n[[block]]\n[[block]]\nsettings = ["5w3s", "2w1s"]\nn_query = 10\n'
    runs = grid(tmp_path, text).runs()
    assert [(run.dataset, run.setting) for run in runs] == [
        ("a", "5w3s"),
        ("a", "2w1s"),
        ("b", "5w3s"),
        ("b", "2w1s"),
    ]


def test_a_product_above_the_blocks_is_run_too_if_it_is_whole(tmp_path):
    block = 'baselines = false\n[[block]]\nmethods = ["pn"]\ndatasets = ["c"]\n'
    runs = grid(tmp_path, SMALL + block).runs()
    assert [(run.dataset, run.method) for run in runs] == [("a", "tent"), ("b", "tent"), ("c", "pn")]
    runs = grid(tmp_path, SMALL.replace('methods = ["tent"]', "") + block).runs()
    assert [(run.dataset, run.method) for run in runs] == [("c", "pn")]


def test_datasets_are_replaced_methods_chosen_seeds_counted(tmp_path):
    found = grid(tmp_path, SMALL.replace('["tent"]', '["tent", "probe"]'))
    runs = found.runs(datasets=["c"], methods=["tent"], seeds=2)
    assert {run.dataset for run in runs} == {"c"}
    assert [run.seed for run in runs if run.method == "tent"] == [0, 1]
    assert {str(run.options) for run in runs if run.method == "probe"} == {str(options) for options in BASELINES}
    with pytest.raises(InputError, match="unknown method of the grid own 'pn'"):
        found.runs(methods=["pn"])


@pytest.mark.parametrize(
    "text, words",
    [
        ("datasets = [", "is not a TOML file"),
        (SMALL + "sets = 1\n", "unknown key in the grid own 'sets'. Did you mean 'datasets'|'settings'"),
        ('datasets = ["a"]\nmethods = ["tent"]\n', "Object missing required field `settings`"),
        (SMALL.replace("5w3s", "5 way"), "setting '5 way': write 5w3s"),
        (SMALL.replace("tent", "tint"), "unknown method 'tint'. Did you mean 'tent'"),
        (SMALL + "options = [{gama = 1}]\n", "unknown option of tent 'gama'. Did you mean 'gamma'"),
    ],
)
def test_mistakes_in_a_grid_are_named(tmp_path, text, words):
    with pytest.raises(InputError, match=words):
        grid(tmp_path, text).runs()


def test_an_unknown_grid_is_answered_with_the_closest():
    with pytest.raises(InputError, match="Did you mean 'quick'"):
        load_grid("quik")
    with pytest.raises(InputError, match=r"there is no file nowhere\.toml"):
        load_grid("nowhere.toml")


@pytest.mark.parametrize(
    "text, words",
    [
        (SMALL.replace('["a", "b"]', '"wordnet"'), "datasets: Expected `array`, got `str`"),
        (SMALL + "seeds = 2000000000\n", "seeds: Expected `int` <= 10000"),
        (SMALL + 'n_query = "x"\n', "n_query: Expected `int`, got `str`"),
        (SMALL + "options = [{gamma = nan}]\n", "gamma=nan: expected a number"),
        (SMALL + 'options = [{gamma = "x"}]\n', "gamma='x': expected a number"),
        (SMALL + "block = 3\n", "block: Expected `array`, got `int`"),
        (SMALL.replace("5w3s", "9" * 5000 + "w1s"), "write 5w3s"),
    ],
)
def test_values_of_the_wrong_type_are_named_with_the_file(tmp_path, text, words):
    with pytest.raises(InputError, match=words) as error:
        grid(tmp_path, text).runs()
    assert "own.toml" in str(error.value)


def test_too_many_seeds_are_refused_before_they_are_listed(tmp_path):
    with pytest.raises(InputError, match="asks for 4,000,000,000 runs"):
        grid(tmp_path, SMALL).runs(seeds=2_000_000_000)
