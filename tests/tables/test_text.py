"""Text encoders: small ones in the layouts of the real ones, and what is said of those that are damaged."""

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from fewnode.errors import InputError
from fewnode.tables import text
from fewnode.tables.text import Encoder, encode_cached, load_encoder
from forked import LONGEST, ended, start

WORDS = ["[UNK]", "[CLS]", "[SEP]", "graph", "node", "chess", "engine", "##s", "g", "##r", "##a", "##p", "##h", "x"]
MODELS = os.environ.get("FEWNODE_MODELS", "")
real = pytest.mark.skipif(not MODELS, reason="FEWNODE_MODELS does not name the folder with potion-base-8M and MiniLM")


def write_tokenizer(folder: Path) -> None:
    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", None, [("[CLS]", 1), ("[SEP]", 2)])
    tokenizer.enable_padding(length=128)  # as MiniLM's: the encoder must not mind
    tokenizer.save(str(folder / "tokenizer.json"))


def vectors(rows: int = len(WORDS), dim: int = 6) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(rows, dim)).astype(np.float32)


@pytest.fixture
def static(tmp_path: Path) -> Path:
    """A folder in model2vec's layout."""
    folder = tmp_path / "tiny-static"
    folder.mkdir()
    write_tokenizer(folder)
    save_file({"embeddings": vectors()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"normalize": True}))
    return folder


def write_onnx(path: Path, inputs: Sequence[str] = ("input_ids", "attention_mask", "token_type_ids")) -> None:
    """The state of a token is its vector: enough to see which tokens are averaged."""
    nodes = [helper.make_node("Gather", ["table", inputs[0]], ["states"])]
    given = [helper.make_tensor_value_info(name, TensorProto.INT64, ["b", "t"]) for name in inputs]
    states = helper.make_tensor_value_info("states", TensorProto.FLOAT, ["b", "t", 6])
    graph = helper.make_graph(nodes, "tiny", given, [states], [numpy_helper.from_array(vectors(), "table")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


@pytest.fixture
def transformer(tmp_path: Path) -> Path:
    """A folder in the layout of an ONNX sentence transformer."""
    folder = tmp_path / "tiny-onnx"
    folder.mkdir()
    write_tokenizer(folder)
    write_onnx(folder / "model.onnx")
    return folder


@pytest.fixture(params=["static", "transformer"])
def encoder(request: pytest.FixtureRequest) -> Encoder:
    return load_encoder(request.getfixturevalue(request.param))


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def test_a_static_vector_is_the_mean_of_the_known_tokens(static):
    encoder = load_encoder(static)
    found = encoder.encode(["Chess engines", "chess qqq engines"])
    expected = unit(vectors()[[5, 6, 7]].mean(0))
    np.testing.assert_allclose(found, [expected, expected], atol=1e-6)  # [UNK] does not count
    assert (encoder.name, encoder.dim, found.dtype) == ("tiny-static", 6, np.float32)
    assert len(encoder.sha256) == 64


def test_a_static_encoder_follows_its_config_weights_and_mapping(static):
    weights, mapping = np.linspace(1, 2, len(WORDS)), np.arange(len(WORDS)) // 2
    save_file({"embeddings": vectors(7), "weights": weights, "mapping": mapping}, static / "model.safetensors")
    (static / "config.json").write_text(json.dumps({"normalize": False, "max_length": 2}))
    found = load_encoder(static).encode(["x g graph"])
    expected = (vectors(7)[[6, 4]] * weights[[13, 8], None]).mean(0)  # two tokens, then the text is cut
    np.testing.assert_allclose(found[0], expected, rtol=1e-5)


def test_a_transformer_averages_all_tokens_but_the_padding(transformer):
    texts = ["chess", "graph node chess engines", "node node"]
    tokens = [[1, 5, 2], [1, 3, 4, 5, 6, 7, 2], [1, 4, 4, 2]]
    expected = [unit(vectors()[row].mean(0)) for row in tokens]
    np.testing.assert_allclose(load_encoder(transformer).encode(texts), expected, atol=1e-6)


def test_a_transformer_takes_the_first_token_if_it_was_made_so(transformer):
    (transformer / "onnx").mkdir()
    (transformer / "model.onnx").rename(transformer / "onnx" / "model.onnx")
    mean = load_encoder(transformer)
    (transformer / "1_Pooling").mkdir()
    (transformer / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    first = load_encoder(transformer)
    np.testing.assert_allclose(first.encode(["chess"])[0], unit(vectors()[1]), atol=1e-6)
    assert first.sha256 != mean.sha256


def test_texts_without_a_token_have_no_vector(transformer):
    tokenizer = json.loads((transformer / "tokenizer.json").read_text())
    (transformer / "tokenizer.json").write_text(json.dumps(tokenizer | {"post_processor": None}))
    encoder = load_encoder(transformer)
    assert not encoder.encode(["\x01", "\x02"]).any()
    np.testing.assert_allclose(encoder.encode(["\x01", "node"])[1], unit(vectors()[4]), atol=1e-6)


def test_an_onnx_model_may_do_without_token_types(transformer):
    expected = load_encoder(transformer).encode(["graph"])
    write_onnx(transformer / "model.onnx", ["input_ids", "attention_mask"])
    np.testing.assert_array_equal(load_encoder(transformer).encode(["graph"]), expected)


def test_a_text_has_the_same_vector_alone_and_among_others(encoder):
    texts = [" ".join(np.random.default_rng(i).choice(WORDS[3:7], 1 + i % 40)) for i in range(1100)]
    together = encoder.encode(texts)
    np.testing.assert_allclose(together[::100], [encoder.encode([one])[0] for one in texts[::100]], atol=1e-6)


def test_blank_huge_and_odd_texts(encoder):
    texts = ["", " \n\t", "graph " * 2_000_000, "\ud800 graph", bytes(range(256)).decode("latin1"), "graph"]
    found = encoder.encode(texts)
    assert found.shape == (6, 6) and np.isfinite(found).all()
    assert not found[:2].any() and found[5].any()
    assert encoder.encode([]).shape == (0, 6)
    with pytest.raises(InputError, match="nan is not a text"):
        encoder.encode([float("nan")])  # type: ignore[list-item]


def test_a_language_the_encoder_does_not_know(encoder):
    assert encoder.unknown_share(["graph node!", "chess engines x"]) == 0
    assert encoder.unknown_share(["узлы графа", "图"]) == 1
    assert encoder.unknown_share(["graph graphhpar"]) == pytest.approx(4 / 14)  # the second is spelt after five letters
    assert encoder.unknown_share([]) == 0


# --- What is wrong with a folder


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda folder: (folder / "tokenizer.json").unlink(), "has no tokenizer.json"),
        (lambda folder: (folder / "model.safetensors").unlink(), "neither model.safetensors nor"),
        (lambda folder: (folder / "tokenizer.json").write_bytes(os.urandom(999)), "tokenizer.json is dam"),
        (lambda folder: (folder / "tokenizer.json").write_text("{}"), "tokenizer.json is damaged"),
        (lambda folder: (folder / "config.json").write_text("{"), "config.json is not a JSON"),
        (lambda folder: (folder / "config.json").write_text('{"max_length": "many"}'), "Expected `int | null`"),
        (lambda folder: (folder / "config.json").write_text('{"max_length": -5}'), "config.json is damaged.* >= 1"),
        (
            lambda folder: save_file({"embeddings": vectors(dim=0)}, folder / "model.safetensors"),
            r"its vectors are \(14, 0\)",
        ),
        (
            lambda folder: (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-9]),
            "model.safetensors is damaged.*fetch the encoder again",
        ),
        (lambda folder: (folder / "model.safetensors").write_bytes(os.urandom(999)), "model.safetensors is damaged"),
        (
            lambda folder: save_file({"embeddings": vectors(5)}, folder / "model.safetensors"),
            r"its vectors are \(5, 6\), .* the 14 tokens of .*tokenizer",
        ),
        (
            lambda folder: save_file({"embeddings": vectors()[:, 0].copy()}, folder / "model.safetensors"),
            r"its vectors are \(14,\)",
        ),
        (
            lambda folder: save_file({"layer.0.weight": vectors()}, folder / "model.safetensors"),
            "holds no token vectors",
        ),
        (
            lambda folder: save_file(
                {"embeddings": vectors(), "mapping": np.full(14, 14)}, folder / "model.safetensors"
            ),
            r"its vectors are \(14, 6\), .*: not one for each",
        ),
        (
            lambda folder: save_file({"embeddings": vectors(), "weights": np.ones(3)}, folder / "model.safetensors"),
            r"with 3 weights: not one for each of the 14 tokens of .*; fetch",
        ),
    ],
)
def test_a_damaged_static_encoder_is_named(static, change, words):
    change(static)
    with pytest.raises(InputError, match=words) as caught:
        load_encoder(static)
    assert str(static) in str(caught.value)


def test_vectors_that_are_no_numbers_are_refused(static):
    save_file({"embeddings": np.full((14, 6), np.nan, np.float32)}, static / "model.safetensors")
    with pytest.raises(InputError, match="tiny-static gave NaN"):
        load_encoder(static).encode(["graph"])


def test_a_damaged_transformer_is_named(transformer):
    model = transformer / "model.onnx"
    whole = model.read_bytes()
    for content in (whole[:50], b"", os.urandom(500)):
        model.write_bytes(content)
        with pytest.raises(InputError, match=r"model\.onnx"):
            load_encoder(transformer)
    write_onnx(model, ["pixels", "attention_mask"])
    with pytest.raises(
        InputError, match=r"model\.onnx: it takes attention_mask, pixels; an encoder of texts takes input_ids"
    ):
        load_encoder(transformer)


def test_a_place_without_an_encoder(static, monkeypatch):
    for name in ("./nothing", "/no/such/folder", "~/nothing", "a/b/c", static / "config.json"):
        with pytest.raises(InputError, match="there is no folder"):
            load_encoder(name)
    for name in ("", " ", "\0"):
        with pytest.raises(InputError, match="is not the name of an encoder"):
            load_encoder(name)
    monkeypatch.setattr(text, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"no library that knows a model of this name.*pip install sentence-tran"):
        load_encoder("sentence-transformers/all-MiniLM-L6-v2")
    monkeypatch.setenv("FEWNODE_CACHE", str(static / "cache"))
    with pytest.raises(InputError, match="fetch it with fewnode encoder get"):
        load_encoder("potion-base-8M")
    with pytest.raises(InputError, match="pip install wordllama"):
        load_encoder("wordllama")


def test_packages_that_are_not_installed_are_named(static, transformer, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(InputError, match=r"pip install 'fewnode\[text-onnx\]'"):
        load_encoder(transformer)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(InputError, match=r"pip install 'fewnode\[text\]'"):
        load_encoder(static)


# --- Names


def test_an_encoder_of_the_cache_is_found_by_name(static, tmp_path, monkeypatch):
    monkeypatch.setenv("FEWNODE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache" / "encoders").mkdir(parents=True)
    expected = load_encoder(static).sha256
    static.rename(tmp_path / "cache" / "encoders" / "tiny-static")
    assert load_encoder("tiny-static").sha256 == expected


def test_the_files_of_wordllama_are_read_where_its_wheel_has_them(tmp_path, monkeypatch):
    package = tmp_path / "wordllama"
    for name in ("weights", "tokenizers"):
        (package / name).mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('nobody imports it')")
    write_tokenizer(package)
    (package / "tokenizer.json").rename(package / "tokenizers" / "l2_supercat_tokenizer_config.json")
    table = vectors().astype(np.float16)
    save_file({"embedding.weight": table}, package / "weights" / "l2_supercat_256.safetensors")
    monkeypatch.syspath_prepend(tmp_path)
    encoder = load_encoder("wordllama")
    expected = unit(table.astype(np.float32)[[3, 4]].mean(0))
    np.testing.assert_allclose(encoder.encode(["graph node"])[0], expected, atol=1e-6)


class StandIn:
    """What the two libraries have in common with what is used of them."""

    tokenizer = None

    def __init__(self, name: str, **options: object) -> None:
        if name == "far-away":
            raise OSError("We couldn't connect to the hub\nand more")
        self.model = SimpleNamespace(_model_dir=Path(__file__).parent / "missing", tokenizer=None)

    def state_dict(self) -> dict[str, object]:
        return {}

    def encode(self, texts: list[str], **options: object) -> np.ndarray:
        return np.array([[len(one), 0.0] for one in texts]) / np.array([[max(1, len(one))] for one in texts])

    def embed(self, texts: list[str]) -> object:
        return iter(2 * self.encode(texts))


@pytest.mark.parametrize(
    ("library", "kind"), [("sentence_transformers", "SentenceTransformer"), ("fastembed", "TextEmbedding")]
)
def test_a_name_is_left_to_a_library(library, kind, monkeypatch):
    module = ModuleType(library)
    setattr(module, kind, StandIn)
    monkeypatch.setitem(sys.modules, library, module)
    monkeypatch.setattr(text, "find_spec", lambda name: object() if name == library else None)
    encoder = load_encoder("some/model")
    np.testing.assert_array_equal(encoder.encode(["abc", ""]), [[1, 0], [0, 0]])
    assert (encoder.dim, encoder.unknown_share(["abc"])) == (2, 0)
    with pytest.raises(InputError, match=f"{library} cannot load 'far-away'.*couldn't connect.*hf download far-away"):
        load_encoder("far-away")


# --- Vectors on disk


class Counted(Encoder):
    """Counts the texts that it encodes."""

    name, sha256, dim, max_tokens = "counted", "c" * 64, 2, 8

    def __init__(self) -> None:
        self.seen: list[str] = []

    def _vectors(self, texts: list[str]) -> np.ndarray:
        self.seen += texts
        return np.array([[len(one), ord(one[0])] for one in texts], np.float32)


def test_a_text_is_encoded_once(tmp_path):
    encoder, texts = Counted(), ["b", "aa", "b", "", "\ud800"]
    first = encode_cached(encoder, texts, tmp_path)
    np.testing.assert_array_equal(first, encoder.encode(texts))
    encoder.seen.clear()
    again = encode_cached(encoder, ["new", *texts, "new"], tmp_path)
    np.testing.assert_array_equal(again[1:-1], first)
    np.testing.assert_array_equal(again[0], again[-1])
    assert encoder.seen == ["new"]
    assert [path.name for path in tmp_path.iterdir()] == [f"{'c' * 64}-8.sqlite"]


def test_a_long_encoding_shows_how_far_it_is(tmp_path, monkeypatch, capsys):
    clock = iter(range(0, 99, 4))
    monkeypatch.setattr(text, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    encode_cached(Counted(), [f"{i} text" for i in range(5000)], tmp_path)
    first, *more = capsys.readouterr().err.splitlines()
    assert first == "encoding texts: 2,048 of 5,000, 256 texts/s, 12 s left" and len(more) == 1


def test_a_damaged_vector_is_made_again_and_only_once(tmp_path):
    encoder, texts = Counted(), [f"{i} text" for i in range(50)]
    expected = encode_cached(encoder, texts, tmp_path)
    path = next(tmp_path.iterdir())
    content, vector = path.read_bytes(), expected[7].tobytes()
    assert content.count(vector) == 1
    path.write_bytes(content.replace(vector, vector[:-1] + b"\1"))
    encoder.seen.clear()
    for _ in range(2):
        np.testing.assert_array_equal(encode_cached(encoder, texts, tmp_path), expected)
    assert encoder.seen == ["7 text"]


def test_a_database_that_is_none_is_named_and_left_alone(tmp_path):
    (tmp_path / f"{'c' * 64}-8.sqlite").write_text("rubbish " * 999)
    with pytest.raises(InputError, match=r"-8\.sqlite cannot be used: .*remove it, or set FEWNODE_CACHE"):
        encode_cached(Counted(), ["a"], tmp_path)
    assert (tmp_path / f"{'c' * 64}-8.sqlite").read_text() == "rubbish " * 999


def test_a_killed_run_is_continued(tmp_path):
    texts = [f"{i} text" for i in range(5000)]

    class Killed(Counted):
        def _vectors(self, texts: list[str]) -> np.ndarray:
            if len(self.seen) >= 3 * 1024:
                os.kill(os.getpid(), signal.SIGKILL)
            return super()._vectors(texts)

    def run() -> None:
        encode_cached(Killed(), texts, tmp_path)

    assert ended(run) == -signal.SIGKILL
    encoder = Counted()
    np.testing.assert_array_equal(encode_cached(encoder, texts, tmp_path), Counted().encode(texts))
    assert len(encoder.seen) == 5000 - 3 * 1024


def test_two_processes_share_the_vectors(tmp_path):
    texts = [f"{i} text" for i in range(3000)]

    def run() -> None:
        sys.exit(int((encode_cached(Counted(), texts, tmp_path) != Counted().encode(texts)).any()))

    both = [start(run) for _ in range(2)]
    for process in both:
        process.join(LONGEST)
    assert [process.exitcode for process in both] == [0, 0]
    encoder = Counted()
    encode_cached(encoder, texts, tmp_path)
    assert encoder.seen == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="FEWNODE_CACHE"):
        encode_cached(Counted(), ["a"], tmp_path / "file" / "vectors")


# --- The real ones


@real
def test_the_real_encoders_find_what_is_alike():
    texts = ["a chess engine", "play board games against the computer", "library for parsing XML documents"]
    for name in ("potion-base-8M", "minilm-l6-v2-int8"):
        encoder = load_encoder(Path(MODELS) / name)
        a, b, c = encoder.encode(texts)
        assert a @ b > a @ c + 0.1
        assert encoder.unknown_share(texts) < 0.1 < 0.5 < encoder.unknown_share(["машинное обучение на графах"])
