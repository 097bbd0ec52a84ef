"""A graph whose nodes have texts, in tables, and a text encoder that knows which words mean nearly the same."""

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, pre_tokenizers

TOPICS = ("baking", "chess", "farming", "mining", "music", "rowing", "sewing", "weaving")
NEW = ("rowing", "weaving")
EACH, SYNONYMS, DIM = 40, 150, 16


def write_encoder(folder: Path, seed: int = 0) -> Path:
    """An encoder in model2vec's layout: the words of a topic, its name among them, have vectors near each other."""
    rng = np.random.default_rng(seed)
    words = ["[UNK]", *(word for topic in TOPICS for word in (topic, *(f"{topic}{i}" for i in range(SYNONYMS))))]
    middle = np.repeat(rng.normal(size=(len(TOPICS), DIM)), SYNONYMS + 1, axis=0)
    table = np.concatenate([np.zeros((1, DIM)), middle + 0.7 * rng.normal(size=middle.shape)])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    save_file({"embeddings": table.astype(np.float32)}, folder / "model.safetensors")
    (folder / "config.json").write_text('{"normalize": true}')
    return folder


def truth() -> list[str]:
    """The topic of each node."""
    return [TOPICS[i % len(TOPICS)] for i in range(EACH * len(TOPICS))]


def write_tables(folder: Path, seed: int = 0) -> None:
    """edges.csv and nodes.csv; nodes of new topics, and a third of the others, have no label."""
    rng, topics = np.random.default_rng(seed), truth()
    rows = []
    for i, topic in enumerate(topics):
        words = " ".join(f"{topic}{j}" for j in rng.integers(SYNONYMS, size=3)) if i % 37 else ""  # some have no text
        rows.append(f"n{i},{topic if topic not in NEW and i % 3 else ''},{words}")
    others = (np.arange(len(topics)) + len(TOPICS) * rng.integers(1, EACH, len(topics))) % len(topics)
    others = np.where(rng.random(len(topics)) < 0.4, others, rng.integers(len(topics), size=len(topics)))
    for name, lines in {
        "nodes.csv": ["id,label,text", *rows],
        "edges.csv": ["source,target", *(f"n{a},n{b}" for a, b in enumerate(others))],
    }.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def examples(shots: int = 1) -> dict[str, list[str]]:
    topics = truth()
    return {name: [f"n{i}" for i, topic in enumerate(topics) if topic == name][1 : shots + 1] for name in NEW}
