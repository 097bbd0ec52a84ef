"""What each column of the tables is taken for: by its name, by what is in it, or because the user said so."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..errors import InputError
from . import names, values
from .columns import Table

Use = Literal["id", "label", "text", "category", "number", "date", "vectors", "source", "target", "weight", "kind", ""]
FLAGS: dict[str, str] = {
    use: f"--{use}-column" for use in ("id", "label", "text", "category", "number", "source", "target", "weight")
} | {"date": "--number-column", "kind": "--edge-kind-column", "ignore": "--ignore-column"}
FEATURES = ("text", "category", "number", "date", "vectors")
SAMPLE = 2000  # values of an edge column that are looked up to see whether it holds node ids
RARELY = 0.02  # distinct values in a sample, of which a column of node ids has more
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
    if len(found or named) > 1:
        raise doubt(table, "id", found or named, f"the node ids may be in {_listed(found or named)}")
    raise InputError(
        f"{table.path} has no column 'id' for the node ids, and no other looks like it. Its first row names: "
        f"{_listed(table.columns)}. Say which one it is with --id-column NAME"
    )


def _holds(ids: Collection[str], ends: Sequence[Collection[str]]) -> bool:
    return max((share_known(end, ids) for end in ends), default=0.0) >= 0.5


def _unique(table: Table, name: str) -> bool:
    cells = table.text(name, "node ids")
    return "" not in cells and len(set(cells)) == len(cells)


def share_known(values_: Collection[str], known: Collection[str]) -> float:
    return sum(value in known for value in values_) / len(values_) if values_ else 0.0


def _listed(columns: Iterable[str]) -> str:
    return ", ".join(map(repr, columns))


def sample(table: Table, name: str) -> list[str]:
    """Some distinct values of a column."""
    step = max(1, len(table) // SAMPLE)
    cut = Table(table.path, {name: table.columns[name][::step]})
    return [value for value in dict.fromkeys(cut.text(name, "values")) if value]


def find_ends(table: Table, options: Mapping[str, Any], known: Collection[str]) -> tuple[str, str, str]:
    """The two columns of an edge table that name nodes, and why. ``known`` are the node ids, if a table has them."""
    source, target = flagged(options, "source"), flagged(options, "target")
    rest = [name for name in table.columns if name not in (*source, *target)]
    for use, given in (("source", source), ("target", target)):
        if given:
            table.column(given[0], f"{use} of each edge", FLAGS[use])
    if source and target:
        return source[0], target[0], SAID
    if source or target:
        other = _other_end(table, (source or target)[0], rest, known, "target" if source else "source")
        return (source[0], other, SAID) if source else (other, target[0], SAID)
    if pair := _named_pair(table):
        return *pair, "its name"
    if known:
        found = [name for name in rest if share_known(sample(table, name), known) >= 0.5]
        if len(found) > 2:  # the few names of kinds of edges may be names of nodes too
            found = [name for name in found if len(sample(table, name)) > RARELY * min(len(table), SAMPLE)] or found
        if len(found) == 2:
            return found[0], found[1], "holds node ids"
        if len(found) > 2:
            raise doubt(table, "source", found, f"node ids are in {_listed(found)} (then also --target-column)")
    if len(rest) == 2 and not known:
        return rest[0], rest[1], "two columns"
    ids = [name for name in rest if names.is_id(name)]
    if len(ids) == 2:
        return ids[0], ids[1], "its name"
    raise InputError(
        f"{table.path} has no column 'source' and 'target' for the two ends of an edge, and no two others look like "
        f"them. Its first row names: {_listed(table.columns)}. Say which they are with --source-column NAME and "
        "--target-column NAME; a file without column names needs a first row with them"
    )


def _other_end(table: Table, one: str, rest: Sequence[str], known: Collection[str], use: str) -> str:
    usual = {a if use == "source" else b for a, b in names.PAIRS if names.end_name(one) in (a, b)}
    found = [name for name in rest if names.end_name(name) in usual]
    found = found or [name for name in rest if known and share_known(sample(table, name), known) >= 0.5]
    found = found or list(rest)
    if len(found) == 1:
        return found[0]
    raise doubt(table, use, found, f"the {use} of each edge may be in {_listed(found)}")


def _named_pair(table: Table) -> tuple[str, str] | None:
    """Columns with the usual names; those that come first in the list of usual names, if there are several pairs."""
    for key in (names.plain, names.end_name):
        named = {key(name): name for name in reversed(list(table.columns))}
        found = [(named[a], named[b]) for a, b in names.PAIRS if a in named and b in named]
        usual = bool(found) and (names.plain(found[0][0]), names.plain(found[0][1])) == ("source", "target")
        if not usual and len({name for pair in found for name in pair}) > 3:
            raise doubt(table, "source", [a for a, _ in found], "several pairs of columns may be the ends of edges")
        if found:
            return found[0]
    return None


def end_samples(table: Table, options: Mapping[str, Any]) -> list[list[str]]:
    """Samples of the columns that may hold node ids: the two ends, if they are known already, else all."""
    given = [name for use in ("source", "target") for name in flagged(options, use) if name in table.columns]
    columns = given or _named_pair(table) or table.columns
    return [sample(table, name) for name in columns if table.columns[name].ndim == 1]


def edge_roles(table: Table, options: Mapping[str, Any], known: Collection[str]) -> list[Role]:
    """The two ends, and what else the user asked for; other columns are named with the flag that would use them."""
    source, target, why = find_ends(table, options, known)
    _check_header(table, source, target, known)
    file = table.path.name
    roles = [Role(file, source, "source", why, FLAGS["source"]), Role(file, target, "target", why, FLAGS["target"])]
    for use in ("weight", "kind"):
        for name in flagged(options, use):
            table.column(name, f"{use} of each edge", FLAGS[use])
            roles.append(Role(file, name, use, SAID, FLAGS[use]))
    taken = {role.column for role in roles}
    for name in table.columns:
        if name not in taken:
            numeric = table.columns[name].dtype.kind in "iuf" or _kind(table, name) in ("number", "empty")
            use = "weight" if numeric else "kind"
            roles.append(Role(file, name, "", "not asked for", f"{FLAGS[use]} {name}"))
    return roles


def _check_header(table: Table, source: str, target: str, known: Collection[str]) -> None:
    """A file without column names would lose its first edge."""
    ids = known or {*sample(table, source), *sample(table, target)}
    if source in ids and target in ids:
        raise InputError(
            f"{table.path}: its first row, {_listed(table.columns)}, names nodes, so it seems to have no column names. "
            "Write a first row with names, for example source,target"
        )


def _kind(table: Table, name: str) -> values.Kind:
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
    kinds = {name: _kind(table, name) if table.columns[name].ndim == 1 else "vectors" for name in rest}
    label = _label_role(table, options, kinds, labelled)
    if label is not None:
        roles[label.column] = label
    for name in rest:
        if name not in roles:
            roles[name] = _feature_role(table, name, kinds[name], apart)
    return [roles[name] for name in table.columns if name in roles]


def _check_same(table: Table, options: Mapping[str, Any]) -> None:
    """Refuse a table without the columns of the first one, or with others."""
    given = {use: flagged(options, use) for use in ("id", "label", "text", "category", "number", "ignore")}
    needed = [name for use in ("text", "category", "number") for name in given[use]]
    known = {name for columns in given.values() for name in columns}
    wrong = []
    if lost := [name for name in needed if name not in table.columns]:
        wrong.append(f"lacks {len(lost)} of them ({_listed(lost[:8])})")
    extra = [name for name, column in table.columns.items() if name not in known and column.ndim == 1]
    if extra := [name for name in extra if names.plain(name) != "label"]:
        wrong.append(f"has {len(extra)} others ({_listed(extra[:8])})")
    if wrong:
        raise InputError(
            f"the model was fitted on the columns {_listed(needed[:8]) or 'id and label'}; {table.path} "
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
    likely = likely or [
        name for name in kinds if names.words_of(name) & set(names.GROUPS) and kinds[name] == "category"
    ]
    if len(likely) == 1 or exact:
        return Role(file, likely[0], "label", "its name", FLAGS["label"])
    if likely:
        raise doubt(table, "label", likely, f"the labels may be in {_listed(likely)} (the others: --category-column)")
    if maybe := [name for name, kind in kinds.items() if kind == "category"]:
        raise InputError(
            f"{table.path}: no column is called 'label' or the like, but {_listed(maybe)} may hold the classes. Say "
            f"--label-column {maybe[0]} if it does, --category-column {maybe[0]} if it only describes the nodes, "
            "or --label-column '' if there are no labels"
        )
    return None


def _repeats(table: Table, name: str) -> bool:
    """Whether values occur again and again, as those of a class do."""
    if table.columns[name].ndim > 1:
        return False
    cells = [cell for cell in table.text(name, "labels") if cell]
    return len(cells) < 10 or len(set(cells)) <= len(cells) / 2


def pair_roles(table: Table, options: Mapping[str, Any], known: Collection[str]) -> tuple[Role, Role]:
    """The columns of ids and of labels in a table of labels; ``known`` are the ids of the nodes."""
    file = table.path.name
    given = [name for name in flagged(options, "id") if name in table.columns]
    by = given or [name for name in table.columns if names.plain(name) == "id"]
    by = by or [name for name in table.columns if share_known(sample(table, name), known) >= 0.5]
    by = by if len(by) == 1 else [name for name in by or table.columns if names.is_id(name)]
    if len(by) != 1:
        raise doubt(table, "id", by or list(table.columns), "it is not clear which column holds the node ids")
    rest = [name for name in table.columns if name != by[0]]
    named = [name for name in flagged(options, "label") if name in rest]
    named = named or [name for name in rest if names.plain(name) == "label"]
    for usual in (names.LABELS, names.GROUPS):
        named = named or [name for name in rest if names.words_of(name) & set(usual)]
    named = named or rest
    if len(named) != 1:
        raise doubt(table, "label", named or ["NAME"], "it is not clear which column holds the labels")
    return Role(file, by[0], "id", "holds node ids", FLAGS["id"]), Role(
        file, named[0], "label", "the other column" if len(rest) == 1 else "its name", FLAGS["label"]
    )
