"""Texts as vectors: pretrained encoders, read from local folders, and a file of the vectors they have made.

A *static* encoder (model2vec's format) averages the vectors of a text's tokens, and is fast. A *transformer* (ONNX)
reads the tokens in their context. A name that is no folder goes to ``sentence-transformers`` or ``fastembed``,
whichever is installed; only these download models, and only one that the user has named.
"""

import hashlib
import os
import sqlite3
import sys
import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import closing
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from scipy import sparse as sp

from ..errors import InputError, reason, refused
from ..files import PathLike, cache_dir, parse_json, readable, reading, sha256

REMEDY = "fetch the encoder again"
DEFAULT = "potion-base-8M"  # what ``auto`` looks for first
BATCH = 1024  # texts encoded together, and lost if the work is killed
TEXTS_PER_RUN = 4  # of a transformer: with more, less of what it computes stays in the processor's caches


class Encoder(ABC):
    """Gives a vector to each text.

    Attributes:
        name: what the user calls it.
        sha256: of the files that determine its vectors.
        dim: columns of the vectors.
        max_tokens: where longer texts are cut.
    """

    name: str
    sha256: str
    dim: int
    max_tokens: int
    folder: Path | None = None
    tokenizer: Any = None

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors ``[n, dim]`` of the texts, float32; those of blank texts are zero."""
        out, cut = np.zeros((len(texts), self.dim), np.float32), [self._readable(text) for text in texts]
        filled = [i for i, text in enumerate(cut) if text.strip()]
        if filled:
            out[filled] = self._vectors([cut[i] for i in filled])
        if not np.isfinite(out).all():
            raise InputError(f"the encoder {self.name} gave NaN or infinity; {REMEDY}")
        return out

    def unknown_share(self, texts: Sequence[str]) -> float:
        """The share of letters, in a thousand texts, of unknown tokens or of words spelt letter by letter (other than
        ideograms)."""
        if self.tokenizer is None:
            return 0.0
        chosen = [self._readable(text) for text in texts[:: max(1, len(texts) // 1000)]]
        unknown, letters, strange = unknown_token(self.tokenizer), 0, 0
        for text, found in zip(chosen, self.tokenizer.encode_batch(chosen, add_special_tokens=False), strict=True):
            for token, name, (start, end) in zip(found.ids, found.tokens, found.offsets, strict=True):
                piece, around = text[start:end].strip(), text[:start][-1:] + text[end : end + 1]
                if any(map(str.isalpha, piece)):
                    spelt = len(piece) == 1 and ord(piece) < 0x2E80 and around.isalpha()
                    letters += len(piece)
                    strange += len(piece) * (token == unknown or name.startswith("<0x") or spelt)
        return strange / max(letters, 1)

    def _readable(self, text: str) -> str:
        """A text without what cannot be written as UTF-8, cut long before its tokens are counted."""
        if not isinstance(text, str):
            raise InputError(f"{text!r} is not a text; give strings, an empty one where there is none")
        return text[: 24 * self.max_tokens].encode("utf-8", "replace").decode()

    @abstractmethod
    def _vectors(self, texts: list[str]) -> np.ndarray:
        """Of a batch of texts, none of them blank."""


def unknown_token(tokenizer: Any) -> int | None:
    """The id of the token that stands for what has none."""
    model = parse_json(tokenizer.to_str().encode(), dict[str, Any], "the tokenizer")["model"]
    name = model.get("unk_token")
    found: int | None = model.get("unk_id") if name is None else tokenizer.token_to_id(name)
    return found


class StaticConfig(msgspec.Struct):
    """What is read of the config.json of a static encoder."""

    normalize: bool = False
    max_length: Annotated[int, msgspec.Meta(ge=1)] | None = None


class StaticEncoder(Encoder):
    """The mean of the vectors of a text's tokens, in model2vec's format and with its conventions.

    Args:
        name: what the user calls it.
        weights: safetensors with ``embeddings [vocabulary, dim]``; ``mapping`` and ``weights`` for each token, if any.
        tokenizer: of the library ``tokenizers``.
        config: JSON with ``normalize`` and ``max_length``; None for unit length and 512 tokens.
    """

    def __init__(self, name: str, weights: Path, tokenizer: Path, config: Path | None = None) -> None:
        self.name, self.tokenizer = name, _tokenizer(tokenizer)
        self.sha256 = _hashed(sha256(readable(file)) for file in (weights, tokenizer, config) if file is not None)
        known = StaticConfig(True)
        if config is not None:
            known = parse_json(readable(config).read_bytes(), StaticConfig, str(config))
        self.normalize, self.max_tokens = known.normalize, known.max_length or 512
        self.tokenizer.enable_truncation(self.max_tokens)
        from safetensors.torch import load_file  # maps the file: processes on a machine share its pages

        with reading(weights, REMEDY):
            held = load_file(weights)
            made = next((held[part] for part in ("embeddings", "embedding.weight") if part in held), None)
            if made is None:
                raise InputError("it holds no token vectors; of a sentence transformer, onnx/model.onnx is needed")
            table, tokens = made.float().numpy(), 1 + max(self.tokenizer.get_vocab().values())
            rows = held["mapping"].long().numpy() if "mapping" in held else np.arange(len(table))
            each = held["weights"].float().numpy() if "weights" in held else np.ones(len(rows), np.float32)
            few = table.ndim != 2 or not table.size or min(len(rows), len(each)) < tokens
            if few or rows.min() < 0 or rows.max() >= len(table):
                found = f"its vectors are {table.shape}, with {len(each):,} weights"
                raise InputError(f"{found}: not one for each of the {tokens:,} tokens of {tokenizer}; {REMEDY}")
        self.table, self.rows, self.weights = table, rows, each
        self.dim, self.unknown = self.table.shape[1], unknown_token(self.tokenizer)
        # model2vec cuts texts there, before it looks at their tokens.
        self.cut = self.max_tokens * int(np.median([len(token) for token in self.tokenizer.get_vocab()]))

    def _vectors(self, texts: list[str]) -> np.ndarray:
        found = self.tokenizer.encode_batch_fast([text[: self.cut] for text in texts], add_special_tokens=False)
        lists = [encoding.ids for encoding in found]
        lengths = np.fromiter(map(len, lists), np.int64, len(lists))
        tokens = np.fromiter(chain.from_iterable(lists), np.int64, int(lengths.sum()))
        known = tokens != (-1 if self.unknown is None else self.unknown)
        rows, tokens = np.repeat(np.arange(len(texts)), lengths)[known], tokens[known]
        counts = np.bincount(rows, minlength=len(texts))
        each = self.weights[tokens], self.rows[tokens], np.concatenate([[0], counts.cumsum()])
        sums = sp.csr_array(each, shape=(len(texts), len(self.table))) @ self.table
        means = sums / np.maximum(counts, 1)[:, None].astype(np.float32)
        return _unit(means) if self.normalize else means


class TransformerEncoder(Encoder):
    """A sentence transformer in ONNX: the mean of its tokens' states (or the first, if it was made so), of unit length.

    Args:
        name: what the user calls it.
        folder: with ``tokenizer.json``.
        weights: of the model, in the folder or in ``onnx`` there.
    """

    max_tokens = 256

    def __init__(self, name: str, folder: Path, weights: Path) -> None:
        self.name, self.tokenizer = name, _tokenizer(folder / "tokenizer.json")
        self.tokenizer.enable_truncation(self.max_tokens)
        pooling = folder / "1_Pooling" / "config.json"
        files = [*sorted(weights.parent.glob(f"{weights.name}*")), folder / "tokenizer.json"]
        self.sha256 = _hashed(sha256(file) for file in [*files, pooling] if file.exists())
        known = parse_json(pooling.read_bytes(), dict[str, Any], str(pooling)) if pooling.exists() else {}
        self.first = bool(known.get("pooling_mode_cls_token", False))
        runtime = _package("onnxruntime", extra="text-onnx")
        options = runtime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = 1, 1, 4
        with reading(weights, REMEDY):
            self.session = runtime.InferenceSession(readable(weights), options, providers=["CPUExecutionProvider"])
            self.inputs = {part.name for part in self.session.get_inputs()}
            if not {"input_ids", "attention_mask"} <= self.inputs <= {"input_ids", "attention_mask", "token_type_ids"}:
                wanted = "input_ids and attention_mask. Export the encoder part of a sentence transformer"
                raise InputError(f"it takes {', '.join(sorted(self.inputs))}; an encoder of texts takes {wanted}")
            self.dim = self._run([self.tokenizer.encode("a").ids]).shape[1]

    def _vectors(self, texts: list[str]) -> np.ndarray:
        tokens = [encoding.ids for encoding in self.tokenizer.encode_batch_fast(texts)]
        order = sorted(range(len(texts)), key=lambda i: len(tokens[i]))  # so that little is padding
        parts = [order[start : start + TEXTS_PER_RUN] for start in range(0, len(order), TEXTS_PER_RUN)]
        rows = np.concatenate([self._run([tokens[i] for i in part]) for part in parts])
        return rows[np.argsort(order)]

    def _run(self, tokens: list[list[int]]) -> np.ndarray:
        lengths = np.array([len(one) for one in tokens])
        if not lengths.any():
            return np.zeros((len(tokens), self.dim), np.float32)
        known = np.arange(lengths.max()) < lengths[:, None]
        ids, mask = np.zeros(known.shape, np.int64), known.astype(np.int64)
        ids[known] = np.concatenate(tokens)
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        states = self.session.run(None, {name: part for name, part in given.items() if name in self.inputs})[0]
        if states.ndim == 3:
            weight = mask[:, :, None].astype(np.float32)
            states = states[:, 0] if self.first else (states * weight).sum(1) / np.maximum(weight.sum(1), 1)
        if states.ndim != 2 or len(states) != len(tokens):
            raise InputError(f"it gives {states.shape} numbers for {len(tokens)} texts, not a vector for each")
        return _unit(states.astype(np.float32))


class LibraryEncoder(Encoder):
    """A model that ``sentence-transformers`` or ``fastembed`` knows by name, of unit length."""

    max_tokens = 8192  # the library cuts texts where its model needs it

    def __init__(self, name: str) -> None:
        self.name = name
        library = next((part for part in ("sentence_transformers", "fastembed") if find_spec(part)), None)
        if library is None:
            remedy = "give the folder of an encoder, or pip install sentence-transformers (or fastembed)"
            if name == DEFAULT:
                remedy = "fetch it with fewnode encoder get, or give its folder"
            raise InputError(f"there is no folder {name!r}, and no library that knows a model of this name: {remedy}")
        try:
            package = import_module(library)
            if library == "fastembed":
                model = package.TextEmbedding(name, threads=1)
                files = sorted(Path(model.model._model_dir).rglob("*"))
                self.tokenizer, self._encode = getattr(model.model, "tokenizer", None), model.embed
                self.sha256 = _hashed(sha256(path) for path in files if path.is_file())
            else:
                model = package.SentenceTransformer(name, device="cpu")
                weights = (part.cpu().float().numpy() for _, part in sorted(model.state_dict().items()))
                self.tokenizer = getattr(model.tokenizer, "backend_tokenizer", None)
                self._encode = partial(model.encode, show_progress_bar=False)
                self.sha256 = _hashed(hashlib.sha256(part.tobytes()).hexdigest() for part in weights)
            self.dim = self._vectors(["a"]).shape[1]
        except Exception as error:  # each library has its own for a name unknown, a network away, a damaged file
            remedy = f"fetch it on another machine (hf download {name} --local-dir FOLDER) and give the folder"
            told = f"{library} cannot load {name!r} ({type(error).__name__}: {reason(error)[:200]})"
            raise InputError(f"{told}. Without a network, {remedy}") from error

    def _vectors(self, texts: list[str]) -> np.ndarray:
        return _unit(np.array(list(self._encode(texts)), np.float32))


@cache
def find_encoder(name: str) -> Encoder | None:
    """The encoder of a name or folder, kept in memory. ``auto`` is the best of those that need no network:
    potion-base-8M if ``fewnode encoder get`` has fetched it, else wordllama if that package is installed, else None."""
    if name != "auto":
        return load_encoder(name)
    place = cache_dir() / "encoders" / DEFAULT
    if find_spec("tokenizers") is None or not (place.is_dir() or find_spec("wordllama")):
        return None
    return load_encoder(place if place.is_dir() else "wordllama")


def load_encoder(name: PathLike) -> Encoder:
    """The text encoder in a folder, or of a name.

    Args:
        name: a folder (``model.safetensors`` or ``model.onnx``, with ``tokenizer.json``), or one in the ``encoders`` of
            fewnode's cache; ``wordllama`` if that package is installed; or what a library knows by that name.
    """
    text = str(name)
    if not text.strip() or not text.isprintable():
        raise InputError(f"{text!r} is not the name of an encoder, nor a folder")
    for folder in (Path(name).expanduser(), cache_dir() / "encoders" / text):
        if folder.is_dir():
            return _from_folder(folder.resolve())
    if text == "wordllama":  # the vectors in its wheel; its own loader would look for them elsewhere
        found = find_spec("wordllama")
        if found is None or not found.submodule_search_locations:
            raise InputError("the package wordllama is not installed: pip install wordllama")
        wheel = Path(found.submodule_search_locations[0])
        tokenizer = wheel / "tokenizers" / "l2_supercat_tokenizer_config.json"
        return StaticEncoder(text, wheel / "weights" / "l2_supercat_256.safetensors", tokenizer)
    if Path(name).exists() or text.startswith((".", "~", os.sep)) or text.count("/") > 1:
        raise InputError(f"there is no folder {text!r} with an encoder")
    return LibraryEncoder(text)


def _from_folder(folder: Path) -> Encoder:
    tokenizer, config = folder / "tokenizer.json", folder / "config.json"
    kinds = (folder / part for part in ("model.onnx", "onnx/model.onnx", "model.safetensors"))
    weights = next((file for file in kinds if file.exists()), None)
    if weights is None or not tokenizer.exists():
        needed = "it has no tokenizer.json, or neither model.safetensors nor model.onnx"
        raise InputError(f"{folder} is not the folder of an encoder, or was not fetched whole: {needed}")
    found: Encoder
    if weights.suffix == ".onnx":
        found = TransformerEncoder(folder.name, folder, weights)
    else:
        found = StaticEncoder(folder.name, weights, tokenizer, config if config.exists() else None)
    found.folder = folder
    return found


def _tokenizer(path: Path) -> Any:
    package = _package("tokenizers")
    with reading(path, REMEDY):
        found = package.Tokenizer.from_file(str(readable(path)))
    found.no_padding()
    return found


def _package(name: str, extra: str = "text") -> Any:
    with refused(f"text encoders need the package {name}", ImportError, remedy=f"pip install 'fewnode[{extra}]'"):
        return import_module(name)


def _hashed(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _unit(vectors: np.ndarray) -> np.ndarray:
    made: np.ndarray = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return made


def encode_cached(encoder: Encoder, texts: Sequence[str], folder: PathLike | None = None) -> np.ndarray:
    """Vectors ``[n, dim]`` of the texts, of which only those are made that are not on disk yet. Every few seconds,
    standard error shows how far the work is.

    Each encoder has a database of its own, which grows by whole batches: what a killed run has made is there for the
    next one. A vector that was damaged on disk is made again.

    Args:
        encoder: makes the vectors.
        texts: any number; equal ones are encoded once.
        folder: of the database; by default in fewnode's cache.
    """
    place = cache_dir() / "vectors" if folder is None else Path(folder)
    path = place / f"{encoder.sha256}-{encoder.max_tokens}.sqlite"
    out = np.zeros((len(texts), encoder.dim), np.float32)
    started = last = time.monotonic()
    remedy = "remove it, or set FEWNODE_CACHE to another folder"
    with refused(f"{path} cannot be used", OSError, sqlite3.Error, remedy=remedy):
        place.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=60)) as kept:
            kept.execute("create table if not exists vectors (key blob primary key, vector blob, crc)")
            for start in range(0, len(texts), BATCH):
                batch = texts[start : start + BATCH]
                keys = [hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest() for text in batch]
                new = dict(zip(keys, batch, strict=True))
                wanted = f"select key, vector, crc from vectors where key in ({', '.join('?' * len(new))})"
                rows = kept.execute(wanted, tuple(new))
                found = {key: np.frombuffer(vector, "<f4") for key, vector, crc in rows if zlib.crc32(vector) == crc}
                new = {key: text for key, text in new.items() if key not in found}
                made = dict(zip(new, encoder.encode(list(new.values())).astype("<f4"), strict=True))
                found |= made
                fresh = ((key, vector.tobytes(), zlib.crc32(vector)) for key, vector in made.items())
                kept.executemany("insert or replace into vectors values (?, ?, ?)", fresh)
                kept.commit()
                out[start : start + BATCH] = [found[key] for key in keys]
                if (now := time.monotonic()) - last > 5:
                    done, last = start + len(keys), now
                    rate = done / (now - started)
                    left = f"{rate:,.0f} texts/s, {(len(texts) - done) / rate:,.0f} s left"
                    sys.stderr.write(f"encoding texts: {done:,} of {len(texts):,}, {left}\n")
    return out
