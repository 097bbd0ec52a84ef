"""The names that people give their columns, and how two spellings of one name are told to be the same."""

import re

IDS = ("id", "node", "nodeid", "name", "key", "nodename", "identifier", "uid", "guid", "vertex", "entity")
LABELS = ("label", "class", "target", "y", "groundtruth", "gold")
GROUPS = (
    "category",
    "type",
    "kind",
    "group",
    "subject",
    "topic",
    "field",
    "genre",
    "community",
    "department",
    "section",
)
TEXTS = (
    "text",
    "title",
    "description",
    "abstract",
    "summary",
    "content",
    "body",
    "bio",
    "comment",
    "keywords",
    "tags",
    "note",
    "notes",
    "definition",
    "gloss",
)
WEIGHTS = ("weight", "w", "edgeweight", "strength")
KINDS = ("kind", "type", "relation", "rel", "predicate", "edgekind", "edgetype", "relationship", "relationtype")
PAIRS = (
    ("source", "target"),
    ("from", "to"),
    ("src", "dst"),
    ("src", "dest"),
    ("src", "tgt"),
    ("source", "destination"),
    ("source", "dest"),
    ("citing", "cited"),
    ("u", "v"),
    ("head", "tail"),
    ("subject", "object"),
    ("parent", "child"),
    ("node1", "node2"),
    ("id1", "id2"),
    ("start", "end"),
    ("sender", "receiver"),
    ("sender", "recipient"),
    ("follower", "followee"),
    ("buyer", "seller"),
    ("a", "b"),
    ("i", "j"),
    ("x", "y"),
    ("left", "right"),
)
ALL = (*IDS, *LABELS, *GROUPS, *TEXTS, *WEIGHTS, *KINDS, *(name for pair in PAIRS for name in pair))
USUAL_NAMES = frozenset(name for name in ALL if len(name) > 1)  # a single letter is as well the name of a node


def plain(name: str) -> str:
    """A name without case, spaces and marks: ``Node ID``, ``node_id`` and ``nodeId`` are the same."""
    return re.sub(r"[^0-9a-z]+", "", name.casefold())


def words_of(name: str) -> set[str]:
    """The words of a name in lower case and without a plural: ``classLabels`` is of ``class`` and ``label``."""
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+|\d+", name)
    folded = {part.casefold() for part in parts} | {plain(name)}
    return folded | {part.removesuffix("s") for part in folded}


def is_id(name: str) -> bool:
    """``id``, ``node``, ..., or anything that ends in a word ``id`` (``paper_id``, ``paperId``)."""
    return plain(name) in IDS or name.endswith(("Id", "ID")) or re.search(r"[^a-z]id$", name.casefold()) is not None


def end_name(name: str) -> str:
    """The name of an end of an edge without what says that it is a node: ``source_id``, ``FromNodeId``."""
    found = plain(name)
    for word in ("nodeid", "id", "node", "name", "paper", "key"):
        if found.endswith(word) and len(found) > len(word):
            return found.removesuffix(word)
    return found
