"""What each column of the tables is taken for: by its name, by what is in it, or because the user said so."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..errors import InputError
from . import names, values
from .columns import Table

Use = Literal[
    "id", "label", "text", "category", "number", "date", "vectors", "source", "target", "weight", "edge type", ""
]
FLAGS: dict[str, str] = {
    use: f"--{use}-column" for use in ("id", "label", "text", "category", "number", "source", "target", "weight")
} | {"date": "--number-column", "edge type": "--edge-type-column", "ignore": "--ignore-column"}
FEATURES = ("text", "category", "number", "date", "vectors")
SAMPLE = 2000  # values of an edge column that are looked up to see whether it holds node ids
SAID = "you said so"


@dataclass(frozen=True)
class Role:
    """What the column ``column`` of the file ``table`` is taken for ('' = not used), why, and what changes that."""

    table: str
    column: str
    use: Use
    why: str
    change: str = ""


def flagged(options: Mapping[str, Any], use: str) -> tuple[str, ...]:
    """The columns that the user gave for one use."""
    given = options.get(FLAGS[use].removeprefix("--").replace("-", "_"))
    return () if given is None else (given,) if isinstance(given, str) else tuple(given)


def doubt(table: Table, use: str, columns: Sequence[str], why: str) -> InputError:
    """The error that names every column that may be meant, with its flag."""
    flag = FLAGS[use]
    ways = " or ".join(f"{flag} {name}" if name.isidentifier() else f"{flag} {name!r}" for name in columns)
    return InputError(f"{table.path}: {why}; say which it is: {ways}")


def find_id(table: Table, given: Sequence[str], ends: Sequence[Collection[str]]) -> tuple[str, str]:
    """The column of node ids, and why it is that one. ``ends`` are samples of columns that may hold node ids."""
    if given:
        table.column(given[0], "node ids", FLAGS["id"])
        return given[0], SAID
    if plain := [name for name in table.columns if names.plain(name) == "id"]:
        return plain[0], "its name"
    unique = [name for name in table.columns if table.columns[name].ndim == 1 and _unique(table, name)]
    found = [name for name in unique if _holds(set(table.text(name, "node ids")), ends)]
    named = [name for name in found or unique or table.columns if names.is_id(name)]
    if len(named) == 1:
        return named[0], "its name"
    if len(found) == 1:
        return found[0], "the edges' ids"
    short = [name for name in unique if kind_of(table, name) == "names"]
    if len(short) == 1 and not ends:
        return short[0], "all differ"
    if len(found or named) > 1:
        raise doubt(table, "id", found or named, f"the node ids may be in {listed(found or named)}")
    raise InputError(
        f"{table.path} has no column 'id' for the node ids, and no other looks like it. Its first row names: "
        f"{listed(table.columns)}. Say which one it is with --id-column NAME"
    )


def _holds(ids: Collection[str], ends: Sequence[Collection[str]]) -> bool:
    return max((share_known(end, ids) for end in ends), default=0.0) >= 0.5


def _unique(table: Table, name: str) -> bool:
    start = Table(table.path, {name: table.columns[name][:SAMPLE]}).text(name, "node ids")
    if "" in start or len(set(start)) < len(start):  # mostly the first rows tell
        return False
    cells = table.text(name, "node ids")
    return "" not in cells and len(set(cells)) == len(cells)


def share_known(values_: Collection[str], known: Collection[str]) -> float:
    """The share of values that are among the known."""
    return sum(value in known for value in values_) / len(values_) if values_ else 0.0


def listed(columns: Iterable[str]) -> str:
    """Names in a message."""
    return ", ".join(map(repr, columns))


def sample(table: Table, name: str) -> list[str]:
    """Some distinct values of a column."""
    step = max(1, len(table) // SAMPLE)
    cut = Table(table.path, {name: table.columns[name][::step]})
    return [value for value in dict.fromkeys(cut.text(name, "values")) if value]


def kind_of(table: Table, name: str) -> values.Kind:
    """What a column holds."""
    if table.columns[name].dtype.kind in "iufb":
        return "number"
    return values.kind_of_cells(table.text(name, "values"), bool(names.words_of(name) & set(names.TEXTS)))


def node_roles(
    table: Table,
    options: Mapping[str, Any],
    ends: Sequence[Collection[str]],
    *,
    apart: bool = False,
    labelled: bool = False,
    again: bool = False,
) -> list[Role]:
    """What each column of the node table is taken for.

    ``apart``: features come in a file of their own, so columns are only used if they are asked for; ``labelled``: so do
    labels; ``again``: the columns are those of another table, so no other is looked for, and labels may be absent.
    """
    if again:
        _check_same(table, options)
    file = table.path.name
    named, why = find_id(table, flagged(options, "id"), ends)
    roles = {named: Role(file, named, "id", why, FLAGS["id"])}
    uses: tuple[Use, ...] = ("text", "category", "number")
    for use in uses:
        for name in flagged(options, use):
            table.column(name, f"{use} of each node", FLAGS[use])
            if name in roles:
                raise InputError(f"{table.path}: column {name!r} cannot be {roles[name].use} and {use}; name it once")
            roles[name] = Role(file, name, use, SAID, FLAGS["ignore"])
    for name in flagged(options, "ignore"):
        if not again:
            table.column(name, "columns to ignore", FLAGS["ignore"])
        elif name not in table.columns:
            continue
        if name in roles:
            raise InputError(f"{table.path}: column {name!r} is {roles[name].use} and to be ignored; say one of them")
        roles[name] = Role(file, name, "", SAID)
    rest = [name for name in table.columns if name not in roles]
    if again:
        return _known_roles(table, options, roles, rest)
    kinds = {name: kind_of(table, name) if table.columns[name].ndim == 1 else "vectors" for name in rest}
    label = _label_role(table, options, kinds, labelled)
    if label is not None:
        roles[label.column] = label
    for name in rest:
        if name not in roles:
            roles[name] = _feature_role(table, name, kinds[name], apart)
            if label is not None and roles[name].use in ("category", "number") and _same(table, label.column, name):
                roles[name] = Role(file, name, "", "tells the label", f"{FLAGS[roles[name].use]} {name}")
    return [roles[name] for name in table.columns if name in roles]


def _check_same(table: Table, options: Mapping[str, Any]) -> None:
    """Refuse a table without the columns of the first one, or with others."""
    given = {use: flagged(options, use) for use in ("id", "label", "text", "category", "number", "ignore")}
    needed = [name for use in ("text", "category", "number") for name in given[use]]
    known = {name for columns in given.values() for name in columns}
    wrong = []
    if lost := [name for name in needed if name not in table.columns]:
        wrong.append(f"lacks {len(lost)} of them ({listed(lost[:8])})")
    extra = [name for name, column in table.columns.items() if name not in known and column.ndim == 1]
    if extra := [name for name in extra if names.plain(name) != "label"]:
        wrong.append(f"has {len(extra)} others ({listed(extra[:8])})")
    if wrong:
        raise InputError(
            f"the model was fitted on the columns {listed(needed[:8]) or 'id and label'}; {table.path} "
            f"{' and '.join(wrong)}. Give the same columns or fit a model on these tables"
        )


def _known_roles(table: Table, options: Mapping[str, Any], roles: dict[str, Role], rest: list[str]) -> list[Role]:
    """The roles of the columns that another table had."""
    for name in rest:
        if name in flagged(options, "label"):
            roles[name] = Role(table.path.name, name, "label", "as before", FLAGS["label"])
        elif table.columns[name].ndim == 2:
            roles[name] = Role(table.path.name, name, "vectors", "as before")
    return [roles[name] for name in table.columns if name in roles]


def _feature_role(table: Table, name: str, kind: Any, apart: bool) -> Role:
    file = table.path.name
    if apart:
        flag = FLAGS.get(kind, FLAGS["text"])
        return Role(file, name, "", "features apart", f"{flag} {name}")
    if kind in FEATURES:
        if kind == "number" and _row_numbers(table, name):
            return Role(file, name, "", "row numbers", f"{FLAGS['number']} {name}")
        return Role(file, name, kind, "its content", f"{FLAGS['ignore']} {name}")
    why = "empty" if kind == "empty" else "all differ"
    return Role(file, name, "", why, f"{FLAGS['text']} {name}")


def _row_numbers(table: Table, name: str) -> bool:
    """A column without a name of its own (as data frames write their index) that counts from 0 or 1."""
    if not name.startswith(("column ", "Unnamed:")) and name != "index":
        return False
    cells = table.text(name, "values")
    return any(cells == [str(i + first) for i in range(len(cells))] for first in (0, 1))


def _label_role(table: Table, options: Mapping[str, Any], kinds: Mapping[str, Any], labelled: bool) -> Role | None:
    given = flagged(options, "label")
    file = table.path.name
    if given:
        if not given[0]:
            return None
        table.column(given[0], "labels", FLAGS["label"])
        return Role(file, given[0], "label", SAID, FLAGS["label"])
    exact = [name for name in kinds if names.plain(name) == "label"]
    likely = exact or [name for name in kinds if names.words_of(name) & set(names.LABELS) and _repeats(table, name)]
    if labelled:
        return Role(file, likely[0], "", "labels apart") if likely else None
    strings = [name for name, kind in kinds.items() if kind in ("category", "names") and _repeats(table, name)]
    likely = likely or [name for name in strings if names.words_of(name) & set(names.GROUPS)]
    if len(likely) == 1 or exact:
        return Role(file, likely[0], "label", "its name", FLAGS["label"])
    if likely:
        raise doubt(table, "label", likely, f"the labels may be in {listed(likely)} (the others: --category-column)")
    if maybe := [name for name, kind in kinds.items() if kind == "category"]:
        raise InputError(
            f"{table.path}: no column is called 'label' or the like, but {listed(maybe)} may hold the classes. Say "
            f"--label-column {maybe[0]} if it does, --category-column {maybe[0]} if it only describes the nodes, "
            "or --label-column '' if there are no labels"
        )
    return None


def _same(table: Table, label: str, name: str) -> bool:
    """Whether a column says the same as the label in other words, such as its number: no feature, but the answer."""
    for rows in (slice(SAMPLE), slice(None)):  # mostly the first rows tell
        part = Table(table.path, {column: table.columns[column][rows] for column in (label, name)})
        cells = zip(part.text(label, "labels"), part.text(name, "values"), strict=True)
        pairs = [pair for pair in cells if pair[0] and not values.missing(pair[1])]
        distinct = set(pairs)
        if len(pairs) < 20 or not len(distinct) == len({a for a, _ in distinct}) == len({b for _, b in distinct}) > 1:
            return False
    return True


def _repeats(table: Table, name: str) -> bool:
    """Whether values occur again and again, as those of a class do."""
    if table.columns[name].ndim > 1:
        return False
    cells = [cell for cell in table.text(name, "labels") if cell]
    return len(cells) < 10 or len(set(cells)) <= len(cells) / 2
