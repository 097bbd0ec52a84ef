"""Usual names of columns, and how their spellings are compared."""

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


IDS = _words("id node nodeid name key nodename identifier uid guid vertex entity")
LABELS = _words("label class target y groundtruth gold")
GROUPS = _words("category type kind group subject topic field genre community department section")
TEXTS = _words(
    "text title description abstract summary content body bio comment keywords tags note notes definition gloss"
)
TITLES = _words("title name headline heading caption fullname displayname username screenname")
WEIGHTS = _words("weight w edgeweight strength")
TYPES = _words("kind type relation rel predicate edgekind edgetype relationship relationtype")
SOURCES = (
    "source from src src src source source citing u head subject parent node1 id1 start sender sender follower buyer a "
    "i x left"
)
TARGETS = (
    "target to dst dest tgt destination dest cited v tail object child node2 id2 end receiver recipient followee "
    "seller b j y right"
)
PAIRS = tuple(zip(SOURCES.split(), TARGETS.split(), strict=True))
USUAL_NAMES = frozenset(  # a single letter is as well the name of a node
    name
    for name in IDS | LABELS | GROUPS | TITLES | TEXTS | WEIGHTS | TYPES | _words(f"{SOURCES} {TARGETS}")
    if len(name) > 1
)
USES = ("id", "label", "title", "text", "category", "number", "ignore", "source", "target", "weight", "edge type")


def option_name(use: str) -> str:
    """The keyword of ``read_graph`` for columns of one use: ``label_column``. Dates are numbers; '' is not used."""
    return f"{ {'date': 'number', '': 'ignore'}.get(use, use).replace(' ', '_') }_column"


def option(use: str, column: str | None = None) -> str:
    """The option for columns of one use in a message, ``label_column=``, or with its value. The command line shows it
    as ``--label-column``."""
    return f"{option_name(use)}={'' if column is None else repr(column)}"


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
    return re.sub("(?<=.)(nodeid|id|node|name|paper|key)$", "", plain(name))
