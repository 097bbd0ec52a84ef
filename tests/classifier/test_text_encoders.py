"""Texts of a user's tables, read by a pretrained encoder beside their words."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import text_graph
from fewnode import FewShotClassifier
from fewnode.classifier.inputs import TableSource
from fewnode.errors import InputError
from fewnode.report.nodes import NodeRows
from fewnode.tables import text
from fewnode.tables.encode import HINT
from fewnode.tables.importing import import_tables

OPTIONS = {"text_column": "text", "label_column": "label"}


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("FEWNODE_CACHE", str(folder))
    text.find_encoder.cache_clear()
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    text_graph.write_tables(folder)
    text_graph.write_encoder(folder / "encoder")
    return folder


def fitted(place: Path, encoder: str | Path = "encoder") -> FewShotClassifier:
    wanted = str(place / encoder) if encoder == "encoder" else str(encoder)
    classifier = FewShotClassifier("probe", k_shot=3, text_encoder=wanted)
    return classifier.fit(edges=place / "edges.csv", nodes=place / "nodes.csv", **OPTIONS)


@pytest.fixture(scope="module")
def model(place) -> FewShotClassifier:
    text.find_encoder.cache_clear()
    return fitted(place)


def right(classifier: FewShotClassifier) -> float:
    nodes = [f"n{i}" for i, topic in enumerate(text_graph.truth())]
    return classifier.score(nodes, text_graph.truth())


def test_vectors_stand_beside_the_words_and_tell_what_words_cannot(place, model):
    assert list(model.graph.blocks) == ["table", "meaning"] and model.graph.blocks["meaning"] == text_graph.DIM
    words = fitted(place, "words").adapt(text_graph.examples(3))
    assert words.graph.blocks == {} and right(model.adapt(text_graph.examples(3))) > right(words) + 0.03


def test_files_and_data_frames_and_a_saved_model_agree(place, model, tmp_path):
    wanted = model.adapt(text_graph.examples(3)).predict_proba()
    frames = {name: pd.read_csv(place / f"{name}.csv", dtype=str, keep_default_na=False) for name in ("edges", "nodes")}
    made = FewShotClassifier("probe", k_shot=3, text_encoder=str(place / "encoder")).fit(**frames, **OPTIONS)
    model.save(tmp_path / "m")
    loaded = FewShotClassifier.load(tmp_path / "m")
    for other in (made, loaded):
        found = other.adapt(text_graph.examples(3)).predict_proba()
        assert dict(zip(found.names, found.labels(), strict=True)) == dict(
            zip(wanted.names, wanted.labels(), strict=True)
        )


def test_new_nodes_are_encoded_too(place, model, tmp_path):
    model.adapt(text_graph.examples(3))
    (tmp_path / "n.csv").write_text("id,text\nx1,mining3 mining5 mining9\nx2,weaving1 weaving7 weaving8\n")
    (tmp_path / "e.csv").write_text("source,target\nx1,n3\nx2,n7\n")  # of the same topics
    found = model.predict(new_nodes=tmp_path / "n.csv", new_edges=tmp_path / "e.csv")
    assert list(found) == ["mining", "weaving"]


def test_another_encoder_is_refused(tmp_path):
    text_graph.write_tables(tmp_path)
    text_graph.write_encoder(tmp_path / "encoder")
    fitted(tmp_path).save(tmp_path / "m")
    text_graph.write_encoder(tmp_path / "encoder", seed=1)
    text.find_encoder.cache_clear()
    with pytest.raises(InputError, match=r"not the one the model was fitted with.*fit again"):
        FewShotClassifier.load(tmp_path / "m", edges=tmp_path / "edges.csv", nodes=tmp_path / "nodes.csv")
    document = json.loads((tmp_path / "m" / "classifier.json").read_bytes())
    name, digest = document["source"]["encoder"]["text_encoder"]
    assert name == str(tmp_path / "encoder") and len(digest) == 64


def test_an_encoder_that_moved_is_found_in_the_cache(tmp_path, cache):
    text_graph.write_tables(tmp_path)
    text_graph.write_encoder(tmp_path / "encoder")
    fitted(tmp_path).save(tmp_path / "m")
    (tmp_path / "encoder").rename(tmp_path / "gone")
    text.find_encoder.cache_clear()
    loaded = FewShotClassifier.load(tmp_path / "m")  # nothing has to be encoded
    with pytest.raises(InputError, match=r"which is not here.*Put its folder into"):
        loaded.search("weaving")
    text_graph.write_encoder(cache / "encoders" / "encoder")
    assert len(loaded.search("weaving", 3)) == 3


def test_auto_takes_what_was_fetched_and_else_says_what_it_would_be_worth(place, cache):
    source = TableSource.of(place / "edges.csv", place / "nodes.csv", **OPTIONS)
    assert HINT in source.infer()[1].notes
    text.find_encoder.cache_clear()
    text_graph.write_encoder(cache / "encoders" / text.DEFAULT)
    graph, learned = source.infer()
    assert graph.blocks["meaning"] == text_graph.DIM and "potion-base-8M" in learned.notes[-1]


def test_texts_in_an_unknown_language_are_read_as_words(place, cache, tmp_path):
    text_graph.write_encoder(cache / "encoders" / text.DEFAULT)
    rows = (place / "nodes.csv").read_text().replace("ing", "ung").replace("chess", "Schach")
    (tmp_path / "nodes.csv").write_text(rows)
    source = TableSource.of(place / "edges.csv", tmp_path / "nodes.csv", **OPTIONS)
    graph, learned = source.infer()
    assert graph.blocks == {} and "Words alone are used" in learned.notes[-1]
    named = TableSource.of(
        place / "edges.csv", tmp_path / "nodes.csv", **OPTIONS, text_encoder=str(cache / "encoders" / text.DEFAULT)
    )
    graph, learned = named.infer()  # the user insists
    assert graph.blocks and "% of the letters of the texts are unknown to the encoder" in learned.notes[-1]


def test_a_store_keeps_the_vectors_and_which_encoder_made_them(place, tmp_path):
    out = import_tables(
        place / "edges.csv", place / "nodes.csv", tmp_path / "store", text_encoder=str(place / "encoder"), **OPTIONS
    )
    graph, source = TableSource.of(out).infer()
    assert graph.blocks["meaning"] == text_graph.DIM and source.encoder.load_text_encoder().dim == text_graph.DIM


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ((), "no folder"),
        (("model.safetensors",), "no tokenizer.json"),
        (("tokenizer.json",), "neither model.safetensors nor model.onnx"),
        (("tokenizer.json", "model.safetensors", "cut"), "fetch the encoder again"),
    ],
)
def test_damaged_encoders_are_refused_before_anything_is_written(place, tmp_path, files, said):
    folder = tmp_path / "damaged"
    for name in files[:2]:
        folder.mkdir(exist_ok=True)
        (folder / name).write_bytes((place / "encoder" / name).read_bytes()[: 500 if "cut" in files else None])
    with pytest.raises(InputError, match=said):
        fitted(place, folder)


def test_an_encoder_that_knows_no_word_is_refused(place, tmp_path):
    rows = pd.read_csv(place / "nodes.csv", dtype=str, keep_default_na=False)
    rows["text"] = ["узлы графа" if text else "" for text in rows["text"]]
    rows.to_csv(tmp_path / "nodes.csv", index=False)
    source = TableSource.of(place / "edges.csv", tmp_path / "nodes.csv", **OPTIONS, text_encoder=str(place / "encoder"))
    with pytest.raises(InputError, match=r"knows no word of the first \d+ texts.*text_encoder= another"):
        source.infer()


def test_a_text_of_ten_megabytes_is_read(place, tmp_path):
    rows = pd.read_csv(place / "nodes.csv", dtype=str, keep_default_na=False)
    rows.loc[3, "text"] = "mining3 " * 1_250_000
    rows.to_csv(tmp_path / "nodes.csv", index=False)
    tables = place / "edges.csv", tmp_path / "nodes.csv"
    graph, _ = TableSource.of(*tables, **OPTIONS, text_encoder=str(place / "encoder")).infer()
    vector = graph.features_scipy()[graph.node_names.index("n3"), graph.blocks["table"] :]
    assert vector.nnz == text_graph.DIM


SENTENCES = {"rowing": "rowing rowing3 rowing8", "weaving": "weaving weaving4"}


def new_right(classifier: FewShotClassifier) -> float:
    """How often the right one of the two new classes is the likelier, at their unlabelled nodes."""
    truth = text_graph.truth()
    nodes = [f"n{i}" for i, topic in enumerate(truth) if topic in text_graph.NEW]
    found = classifier.predict_proba(nodes)
    pair = found.probabilities[:, [found.classes.index(name) for name in text_graph.NEW]]
    wanted = [text_graph.NEW.index(truth[int(name[1:])]) for name in found.names]
    return float((pair.argmax(1).numpy() == wanted).mean())


def test_classes_described_in_words_need_no_examples(model, tmp_path):
    by_words = new_right(model.adapt({}, descriptions=SENTENCES))
    assert by_words > 0.8 and list(map(len, model.support.values())) == [0, 0]
    found, truth = model.predict_proba(model.unlabelled()), text_graph.truth()
    expected = model.expect(found)  # of nodes without a label
    hits = [label == truth[int(name[1:])] for name, label in zip(found.names, found.labels(), strict=True)]
    assert expected.simulations > 0 and expected.right.low < np.mean(hits) < expected.right.high
    one = new_right(model.adapt(text_graph.examples(1)))
    both = model.adapt(text_graph.examples(1), descriptions=SENTENCES)
    assert new_right(both) >= one and [len(parts) for parts in both.task.directions.values()] == [2, 2]
    model.partial_adapt(remove=text_graph.examples(1))
    assert new_right(model) == by_words  # the descriptions stay
    named = model.adapt({}, descriptions={"a": "rowing", "b": "weaving"}).predict_proba()
    model.adapt(dict.fromkeys(text_graph.NEW, ()), use_class_names=True)
    assert (model.predict_proba().probabilities == named.probabilities).all()
    model.save(tmp_path / "m")
    loaded = FewShotClassifier.load(tmp_path / "m").adapt({}, descriptions=SENTENCES)
    assert new_right(loaded) == by_words
    assert loaded.explain("n5").label in loaded.classes_


def test_explanations_say_which_words_of_the_text_carry_the_meaning(model):
    explained = model.adapt(text_graph.examples(3)).explain("n3")  # on mining, with three words of it
    assert explained.label == "mining"
    spoken = {column.name: column.evidence for column in explained.columns if "(meaning)" in column.name}
    assert spoken and all(name.startswith("mining") for name in spoken) and max(spoken.values()) > 0
    assert not any(column.name.startswith("meaning 0") for column in explained.columns)
    model.explain("n37")  # has no text


def test_descriptions_that_mean_nothing_are_refused(place, model):
    with pytest.raises(InputError, match="'mining' is no new class"):
        model.adapt({}, descriptions={"mining": "holes in the ground"})
    with pytest.raises(InputError, match="description of class 'rowing' is ' '"):
        model.adapt({}, descriptions={"rowing": " "})
    with pytest.raises(InputError, match="belong to open-set classification"):
        model.adapt(text_graph.examples(2), among="new", descriptions=SENTENCES)
    with pytest.raises(InputError, match="need texts that a text encoder has read"):
        fitted(place, "words").adapt({}, descriptions=SENTENCES)
    with pytest.raises(InputError, match="no examples; give it at least one node, or a description"):
        model.adapt({"rowing": []})


def test_search_finds_texts_by_meaning(model):
    page = NodeRows(model).search("weaving weaving2", 20)
    assert sum(text_graph.truth()[int(model.graph.node_names[node][1:])] == "weaving" for node in page) > 15
    found = model.search("weaving weaving2", top=20)
    assert sum(text_graph.truth()[node] == "weaving" for node in (int(name[1:]) for name in found.names)) > 15
    assert found.probabilities.tolist() == sorted(found.probabilities.tolist(), reverse=True)
    with pytest.raises(InputError, match="write a few words"):
        model.search(" ")
    with pytest.raises(InputError, match="top is -1; it is 1 or more"):
        model.search("weaving", top=-1)


def test_a_support_table_may_have_descriptions(model, tmp_path):
    (tmp_path / "s.csv").write_text(
        "id,label,description\nn13,rowing,boats: rowing rowing2\n,weaving,weaving weaving4\nn21,rowing,\n"
    )
    descriptions: dict[str, str] = {}
    examples = model.read_examples(tmp_path / "s.csv", descriptions)
    assert examples == {"rowing": ["n13", "n21"], "weaving": []}
    assert descriptions == {"rowing": "boats: rowing rowing2", "weaving": "weaving weaving4"}
    assert new_right(model.adapt(tmp_path / "s.csv")) > 0.85
