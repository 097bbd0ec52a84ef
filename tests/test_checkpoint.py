import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from fewnode import evaluate, fit, load, save
from fewnode.errors import InputError
from fewnode.files import Manifest
from linear_method import Linear


@pytest.fixture
def folder(tiny, tmp_path):
    save(fit("probe", *tiny, n_way=3, k_shot=2, rank=16), tmp_path / "model")
    return tmp_path / "model"


def test_a_model_comes_back_with_its_card(tiny, folder):
    graph, split = tiny
    model = load(folder)
    assert model.card.options == {"rank": 16} and model.card.graph == graph.fingerprint
    assert model.card.split["novel"] == split.novel
    assert {"torch", "fewnode"} <= model.card.versions.keys()
    assert evaluate(model, graph, split.novel, n_way=3, k_shot=2).accuracy > 0.5


def test_a_class_of_ones_own_may_be_given_to_load(tiny, tmp_path):
    graph, split = tiny
    model = fit(Linear, graph, split, n_way=3, k_shot=2, steps=5, width=7)
    save(model, tmp_path)
    assert torch.equal(load(tmp_path, Linear).weight, model.weight)
    assert torch.equal(load(tmp_path).weight, model.weight)  # found again by its module


def test_saving_twice_gives_the_same_bytes(folder, tmp_path):
    save(load(folder), tmp_path / "again")
    for name in ("model.safetensors", "model.json"):
        assert (folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def damage_weights(folder):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-7])


def flip_a_bit(folder):
    file = folder / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


def empty_weights(folder):
    (folder / "model.safetensors").write_bytes(b"")


def change_card(folder, **changes):
    card = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps(card | changes))
    Manifest.write(folder)


def future(folder):
    change_card(folder, format=99)


def foreign(folder):
    (folder / "model.json").write_text('{"some": "json"}')
    Manifest.write(folder)


def other_options(folder):
    change_card(folder, options={"rank": 8})


def no_options(folder):
    change_card(folder, options=[1])


def no_card(folder):
    (folder / "model.json").unlink()


def no_manifest(folder):
    (folder / "manifest.json").unlink()


def damage_manifest(folder):
    (folder / "manifest.json").write_text('{"format": 1, "files": {"model.json": {"bytes": -1}}}')


def future_manifest(folder):
    (folder / "manifest.json").write_text('{"format": 9, "files": {}}')


def not_a_number(folder):
    weights = load_file(folder / "model.safetensors")
    first = next(name for name, part in weights.items() if part.is_floating_point())
    weights[first].view(-1)[0] = float("nan")
    save_file(weights, folder / "model.safetensors")
    Manifest.write(folder)


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (damage_weights, "bytes were written|were written"),
        (flip_a_bit, "its SHA-256 is not the one that was written. Restore it from a copy, or train"),
        (empty_weights, "empty"),
        (future, "format 99; this version reads up to 2"),
        (foreign, "model.json is damaged or of another kind: Object missing required field"),
        (no_options, "options: Expected `object`, got `array`"),
        (other_options, "does not hold the weights its card describes: .* size mismatch for"),
        (no_card, "not a saved model: it has no model.json"),
        (no_manifest, "has no manifest.json: it was written by an earlier version of fewnode, or the file was lost"),
        (damage_manifest, "manifest.json is damaged"),
        (future_manifest, "manifest.json has format 9"),
        (not_a_number, "holds NaN or infinity"),
    ],
)
def test_a_damaged_foreign_or_future_model_is_named(folder, harm, words):
    harm(folder)
    with pytest.raises(InputError, match=words) as error:
        load(folder)
    assert str(folder) in str(error.value)


def test_a_model_is_replaced_in_one_step_and_what_others_put_beside_it_stays(folder, tiny):
    (folder / "notes.txt").write_text("mine")
    (folder / "log").mkdir()
    before = {path.name: path.stat().st_ino for path in folder.parent.iterdir()}
    save(fit("probe", *tiny, n_way=3, k_shot=2, rank=8), folder)
    assert load(folder).card.options == {"rank": 8}
    assert (folder / "notes.txt").read_text() == "mine" and (folder / "log").is_dir()
    assert {path.name for path in folder.parent.iterdir()} == set(before)


def test_only_fitted_models_are_saved(tmp_path):
    with pytest.raises(InputError, match="was not made by fit"):
        save(Linear(3), tmp_path)
