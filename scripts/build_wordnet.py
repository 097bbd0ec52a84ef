"""Build the bundled ``wordnet`` graph from the dictionary files of WordNet 3.0.

Usage: python scripts/build_wordnet.py DICTIONARY [OUTPUT]

DICTIONARY is the folder with data.noun, data.verb, data.adj, data.adv and the four index files (Debian's
package wordnet-base installs them in /usr/share/wordnet). The same dictionary always gives the same bytes.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fewnode.files import write_npz

OUTPUT = Path(__file__).parents[1] / "src/fewnode/datasets/bundled/wordnet.npz"
PARTS = {"n": "noun", "v": "verb", "a": "adj", "s": "adj", "r": "adv"}  # s: satellites, also in data.adj
MIN_DEFINITIONS, MAX_WORDS = 10, 6000


def words_of(text: str) -> list[str]:
    return text.split()


# Lexicographer files in the order of their numbers, which are the class ids: the manual page lexnames(5WN).
LEXNAMES = words_of(
    """
    adj.all adj.pert adv.all noun.Tops noun.act noun.animal noun.artifact noun.attribute noun.body
    noun.cognition noun.communication noun.event noun.feeling noun.food noun.group noun.location
    noun.motive noun.object noun.person noun.phenomenon noun.plant noun.possession noun.process
    noun.quantity noun.relation noun.shape noun.state noun.substance noun.time verb.body verb.change
    verb.cognition verb.communication verb.competition verb.consumption verb.contact verb.creation
    verb.emotion verb.motion verb.perception verb.possession verb.social verb.stative verb.weather
    adj.ppl
    """
)

STOP_WORDS = frozenset(
    words_of(
        """
    about after all also an and any are as at be because been before being between both but by can could
    did do does done during each eg either esp especially etc for from had has have he her him his how
    ie if in into is it its may might more most must no nor not of off often on one only or other out
    over own same she should so some such than that the their them then there these they this those
    through to too under up upon used using usually very was we were what when where which while who
    whom whose will with within without would you your
    """
    )
)


@dataclass(frozen=True)
class Synset:
    """One line of a data file: where it stands, its words, the synsets it points to, and its definition."""

    part: str
    offset: str
    file_number: int
    words: tuple[str, ...]
    pointers: tuple[tuple[str, str], ...]
    definition: str


def parse_line(line: str) -> Synset:
    """A synset from one line of a data file; layout in the manual page wndb(5WN)."""
    head, _, gloss = line.partition(" | ")
    fields = head.split()
    after_words = 4 + 2 * int(fields[3], 16)
    after_pointers = after_words + 1 + 4 * int(fields[after_words])
    pointers = zip(
        fields[after_words + 3 : after_pointers : 4],
        fields[after_words + 2 : after_pointers : 4],
        strict=True,
    )
    return Synset(
        part=PARTS[fields[2]],
        offset=fields[0],
        file_number=int(fields[1]),
        words=tuple(re.sub(r"\((a|p|ip)\)$", "", word) for word in fields[4:after_words:2]),  # adjective position
        pointers=tuple((PARTS[part], offset) for part, offset in pointers),
        definition=re.sub(r'"[^"]*("|$)', " ", gloss).strip(),  # what is quoted is an example
    )


def read_synsets(folder: Path) -> list[Synset]:
    """All synsets, nouns first, in the order of the files (lines that start with spaces are the licence)."""
    synsets = []
    for part in ("noun", "verb", "adj", "adv"):
        lines = (folder / f"data.{part}").read_text(encoding="utf-8").splitlines()
        synsets += [parse_line(line) for line in lines if line and not line.startswith(" ")]
    return synsets


def read_senses(folder: Path) -> dict[tuple[str, str, str], int]:
    """(part of speech, word in lower case, offset) -> sense number, the most frequent sense being 1."""
    senses = {}
    for part in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"index.{part}").read_text(encoding="utf-8").splitlines():
            if line and not line.startswith(" "):
                fields = line.split()
                offsets = fields[-int(fields[2]) :]
                senses |= {(part, fields[0], offset): at + 1 for at, offset in enumerate(offsets)}
    return senses


def readable_names(synsets: Sequence[Synset], senses: dict[tuple[str, str, str], int]) -> list[str]:
    """``dog.noun.01``: first word, part of speech, which of the word's senses it is. No two are alike."""
    return [f"{s.words[0]}.{s.part}.{senses[s.part, s.words[0].lower(), s.offset]:02d}" for s in synsets]


def undirected_edges(synsets: Sequence[Synset]) -> np.ndarray:
    """Pointers of every kind as pairs of positions [2, E], smaller first, each once."""
    position = {(synset.part, synset.offset): at for at, synset in enumerate(synsets)}
    pairs = {
        (min(at, other), max(at, other))
        for at, synset in enumerate(synsets)
        for other in (position[pointer] for pointer in synset.pointers)
        if other != at
    }
    return np.array(sorted(pairs), dtype=np.int32).reshape(-1, 2).T


def defining_words(synset: Synset) -> set[str]:
    """The words of the definition that are neither stop words nor words of the synset itself."""
    own = set(tokens(" ".join(synset.words)))
    return {word for word in tokens(synset.definition) if len(word) > 1 and word not in STOP_WORDS and word not in own}


def tokens(text: str) -> list[str]:
    return re.findall("[a-z]+", text.lower())


def vocabulary(bags: Iterable[set[str]], min_definitions: int, max_words: int) -> list[str]:
    """The commonest words, commonest first; equally common ones by the alphabet (a fixed order)."""
    counts = Counter(word for bag in bags for word in bag)
    kept = (word for word, count in counts.items() if count >= min_definitions)
    return sorted(kept, key=lambda word: (-counts[word], word))[:max_words]


def build(folder: Path, *, min_definitions: int = MIN_DEFINITIONS, max_words: int = MAX_WORDS) -> dict[str, np.ndarray]:
    """The arrays of the plain npz layout, in the smallest types that hold them."""
    synsets = read_synsets(folder)
    bags = [defining_words(synset) for synset in synsets]
    words = vocabulary(bags, min_definitions, max_words)
    column = {word: at for at, word in enumerate(words)}
    rows = [sorted(column[word] for word in bag if word in column) for bag in bags]
    indices = [at for row in rows for at in row]
    return {
        "edge_index": undirected_edges(synsets),
        "y": np.array([synset.file_number for synset in synsets], dtype=np.int8),
        "x_data": np.ones(len(indices), dtype=np.uint8),
        "x_indices": np.array(indices, dtype=np.uint16),
        "x_indptr": np.cumsum([0, *map(len, rows)], dtype=np.int32),
        "x_shape": np.array([len(synsets), len(words)], dtype=np.int64),
        "node_names": np.array(readable_names(synsets, read_senses(folder))),
        "class_names": np.array(LEXNAMES),
        "feature_names": np.array(words),
    }


def main(arguments: Sequence[str]) -> None:
    if len(arguments) not in (1, 2):
        sys.exit(__doc__)
    output = Path(arguments[1]) if len(arguments) == 2 else OUTPUT
    write_npz(output, build(Path(arguments[0])))
    print(f"{output}: {output.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
