"""What the cells of a column hold (numbers in any notation, dates, categories, texts), and the role of each column, by
its name, its content or the user's options."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..errors import InputError
from . import names
from .names import option, option_name
from .read import Table

MISSING = ("", "na", "n/a", "nan", "null", "none", "nil", "<na>", "#n/a", "?", "-", "--", ".")
GROUPED = r"'[+-]?\d{1,3}([., ]\d{3})+'"  # 1,234,567
GROUPED_DECIMAL = r"'[+-]?\d{1,3}((\.\d{3})+,|(,\d{3})+\.|( \d{3})+[.,])\d+'"  # 1.234,5 and 1,234.5 and 1 234,5
GIVEN = "you said so"


@dataclass(frozen=True)
class Role:
    """The use of the column ``column`` of the file ``table`` (one of ``names.USES``, "date", "vectors" or '' = not
    used), why, and the option that changes it."""

    table: str
    column: str
    use: str
    why: str
    change: str = ""


Known = Callable[[Sequence[str]], float] | None  # the share of some values that are known node ids


def flagged(options: Mapping[str, Any], use: str) -> tuple[str, ...]:
    """The columns that the user gave for one use."""
    given = options.get(option_name(use))
    return () if given is None else (given,) if isinstance(given, str) else tuple(given)


def doubt(table: Table, use: str, columns: Sequence[str], why: str) -> InputError:
    """The error that names every column that may be meant, with its option."""
    return InputError(f"{table.path}: {why}; say which it is: {' or '.join(option(use, name) for name in columns)}")


def listed(columns: Iterable[str]) -> str:
    """Names in a message."""
    return ", ".join(map(repr, columns))


def find_id(table: Table, given: Sequence[str], ends: Sequence[tuple[Table, str]]) -> tuple[str, str]:
    """The column of node ids, and why it is that one. ``ends`` are columns of other tables that may hold node ids."""
    if given:
        table.column(given[0], "node ids", option("id"))
        return given[0], GIVEN
    if plain := [name for name in table.columns if names.plain(name) == "id"]:
        return plain[0], "its name"
    unique = [name for name in table.columns if table.unique(name)]
    if not unique:  # rows may be repeated
        rows = table.distinct()
        unique = [name for name in table.columns if rows.unique(name)]
    samples = [other.sample(end) for other, end in ends]
    found = [name for name in unique if any(table.share(name, values) >= 0.5 for values in samples)]
    named = [name for name in found or unique or table.columns if names.is_id(name)]
    short = [name for name in unique if not ends and kind_of(table, name) == "names"]
    for fitting, why in ((named, "its name"), (found, "the edges' ids"), (short, "all differ")):
        if len(fitting) == 1:
            return fitting[0], why
    if len(found or named) > 1:
        raise doubt(table, "id", found or named, f"the node ids may be in {listed(found or named)}")
    raise none_found(table, "'id' for the node ids", "id")


def none_found(table: Table, what: str, *uses: str) -> InputError:
    """The error that no column fits."""
    there = f"there are {listed(table.columns)}. Say which it is with {' and '.join(map(option, uses))}"
    remedy = f"{there}; a file without column names needs a first row with them"
    return InputError(f"{table.path} has no column {what}, and no other looks like it: {remedy}")


def node_roles(
    table: Table, options: Mapping[str, Any], edges: Sequence[Table], *, separate: bool = False, labelled: bool = False
) -> list[Role]:
    """The role of each column of the node table. The column of titles may have a second role.

    Args:
        table: the node table.
        options: the columns that the user named, as in ``read_graph``.
        edges: tables whose columns may hold node ids.
        separate: features come in a file of their own, so columns are only used if they are asked for.
        labelled: so do labels.
    """
    file = table.path.name
    ends = [end for other in edges for end in possible_ends(other, options)]
    named, why = find_id(table, flagged(options, "id"), ends)
    roles = {named: Role(file, named, "id", why, option("id"))}
    for use in ("text", "category", "number", ""):
        for name in flagged(options, use or "ignore"):
            table.column(name, f"{use} of each node" if use else "columns to ignore", option(use))
            _check_free(table, name, use, roles)
            roles[name] = Role(file, name, use, GIVEN, option("ignore") if use else "")
    rest = [name for name in table.columns if name not in roles]
    kinds = {name: kind_of(table, name) for name in rest}
    if why != GIVEN and not any(names.is_id(name) or names.plain(name) in names.USUAL_NAMES for name in table.columns):
        values = [(table, name, name) for name, kind in kinds.items() if kind == "category"]
        values += [(other, end, named) for other, end in ends]
        if any(other.share(column, [value]) for other, column, value in values):
            raise no_header(table, f"id,label, or say {option('id', named)} if it has some")
    label = _label_role(table, options, kinds, labelled)
    if label is not None:
        _check_free(table, label.column, "label", roles)
        roles[label.column] = label
    for name in rest:
        if name not in roles:
            roles[name] = _feature_role(table, name, kinds[name], separate)
            if label is not None and roles[name].use in ("category", "number") and _same(table, label.column, name):
                roles[name] = Role(file, name, "", "tells the label", option(roles[name].use, name))
    short = [name for name in rest if not roles[name].use and kinds[name] in ("names", "text")]
    title = _title_role(table, options, [*short, *(name for name in roles if roles[name].use == "text")])
    return [
        *(role for name in table.columns if (role := roles[name]).use or title is None or name != title.column),
        *([] if title is None else [title]),
    ]


def _title_role(table: Table, options: Mapping[str, Any], candidates: Sequence[str]) -> Role | None:
    """The column of titles: short texts that few nodes share, in a column with a usual name if possible."""
    for given in flagged(options, "title"):
        if given:
            table.column(given, "titles", option("title"))
        return Role(table.path.name, given, "title", GIVEN, option("title")) if given else None
    found = []
    for name in candidates:
        text = table.as_text(name)
        distinct, length, words = table.one(
            f"count(distinct {text}), avg(len({text})), avg(len(regexp_extract_all({text}, '\\S+')))", f"{text} <> ''"
        )
        named = bool(names.words_of(name) & names.TITLES)
        if distinct >= len(table) / 2 and length <= 120 and (named or words >= 2):
            found.append((not named, length, name))
    if not found:
        return None
    unnamed, _, name = min(found)
    return Role(table.path.name, name, "title", "short, differs" if unnamed else "its name", option("title"))


def _check_free(table: Table, name: str, use: str, roles: Mapping[str, Role]) -> None:
    """Refuse a column that already has another use."""
    if name in roles:
        told = f"cannot be {roles[name].use or 'ignored'} and {use or 'ignored'}"
        raise InputError(f"{table.path}: column {name!r} {told}; name it once")


def known_roles(table: Table, options: Mapping[str, Any]) -> list[Role]:
    """The roles of a table like one that was read before: ``options`` name the columns of that one. Labels and columns
    that are not used may be absent, vectors may be there; otherwise a table with other columns is refused."""
    given = {use: flagged(options, use or "ignore") for use in ("label", "title", "text", "category", "number", "")}
    given["id"] = (find_id(table, flagged(options, "id"), ())[0],)
    vectors = [name for name, content in table.columns.items() if content == "vectors"]
    needed = [name for use in ("text", "category", "number") for name in given[use]]
    known = {name for columns in given.values() for name in columns}
    lost = [name for name in needed if name not in table.columns]
    extra = [name for name in table.columns if not (name in known or name in vectors or names.plain(name) == "label")]
    both = (("lacks", "of them", lost), ("has", "others", extra))
    if wrong := [f"{what} {len(some)} {of} ({listed(some[:8])})" for what, of, some in both if some]:
        told = f"the model was fitted on the columns {listed(needed[:8]) or 'id and label'}; {table.path} "
        remedy = "Give the same columns (cells may be empty) or fit a model on these tables"
        raise InputError(f"{told}{' and '.join(wrong)}. {remedy}")
    given["vectors"] = tuple(name for name in vectors if name not in known)
    found = [(name, use) for use, columns in given.items() for name in columns if name in table.columns]
    return [Role(table.path.name, name, use, "as before") for name, use in found]


def _feature_role(table: Table, name: str, kind: Any, separate: bool) -> Role:
    use, why, change = kind, "its content", "ignore"
    if separate:
        use, why, change = "", "features apart", kind if kind in names.USES else "text"
    elif kind in ("empty", "names"):
        use, why, change = "", "empty" if kind == "empty" else "many different values", "text"
    elif kind == "number" and (name.startswith(("column ", "Unnamed:")) or name == "index"):
        text = table.as_text(name)  # as data frames write their index: counted from 0 or 1
        if any(table.one("1", f"{text} <> (rowid + {first})::varchar") is None for first in (0, 1)):
            use, why, change = "", "row numbers", "number"
    return Role(table.path.name, name, use, why, option(change, name))


def _label_role(table: Table, options: Mapping[str, Any], kinds: Mapping[str, Any], labelled: bool) -> Role | None:
    given = flagged(options, "label")
    file = table.path.name
    if given:
        if not given[0]:
            return None
        table.column(given[0], "labels", option("label"))
        return Role(file, given[0], "label", GIVEN, option("label"))
    exact = [name for name in kinds if name == "label"] or [name for name in kinds if names.plain(name) == "label"]
    likely = exact or [name for name in kinds if names.words_of(name) & names.LABELS and _repeats(table, name)]
    if labelled:
        return Role(file, likely[0], "", "labels apart") if likely else None
    strings = [name for name, kind in kinds.items() if kind in ("category", "names") and _repeats(table, name)]
    likely = likely or [name for name in strings if names.words_of(name) & names.GROUPS]
    if len(likely) == 1:
        return Role(file, likely[0], "label", "its name", option("label"))
    if likely:
        raise doubt(table, "label", likely, f"the labels may be in {listed(likely)} (the others: {option('category')})")
    if maybe := [name for name, kind in kinds.items() if kind == "category"]:
        remedy = f"{option('label', maybe[0])} if it does, {option('category', maybe[0])} if it describes the nodes"
        told = f"{listed(maybe)} may hold the classes. Say {remedy}, or label_column='' if there are no labels"
        raise InputError(f"{table.path}: no column is called 'label' or the like, but {told}")
    return None


def _same(table: Table, label: str, name: str) -> bool:
    """Whether a column is the label in another form, such as its number, and would leak it as a feature."""
    a, b = table.as_text(label), table.as_text(name)
    pairs, left, right = (f"count(distinct {cells})" for cells in (f"({a}, {b})", a, b))
    same = f"count(*) >= 20 and {pairs} = {left} and {left} = {right} and {left} > 1"
    given = f"{a} <> '' and not {is_missing(b)}"
    return all(table.one(same, f"{given} and {rows}")[0] for rows in ("rowid < 2000", "true"))  # mostly the first tell


def _repeats(table: Table, name: str) -> bool:
    """Whether values are repeated, as class labels are."""
    if table.columns[name] == "vectors":
        return False
    text = table.as_text(name)
    return bool(table.one(f"count(*) < 10 or count(distinct {text}) <= count(*) / 2", f"{text} <> ''")[0])


def no_header(table: Table, example: str) -> InputError:
    """The error that the first row of a table holds data, not column names."""
    told = "is like those below: there seem to be no column names. Write a first row with names, for example"
    return InputError(f"{table.path}: its first row, {listed(table.columns)}, {told} {example}")


def edge_roles(table: Table, options: Mapping[str, Any], known: Known) -> list[Role]:
    """The roles of the two ends and of the columns that the user asked for. The other columns are not used.

    ``known`` are the node ids, if a table has them.
    """
    source, target, why = _find_ends(table, options, known)
    ends = {source, target}
    if known([source, target]) == 1 if known else ends <= {*table.sample(source), *table.sample(target)}:
        raise no_header(table, "source,target")
    file = table.path.name
    roles = [Role(file, source, "source", why, option("source")), Role(file, target, "target", why, option("target"))]
    for use in ("weight", "edge type"):
        for name in flagged(options, use):
            table.column(name, f"{use} of each edge", option(use))
            roles.append(Role(file, name, use, GIVEN, option(use)))
    taken = {role.column for role in roles}
    for name in table.columns:
        if name not in taken:
            use = "weight" if kind_of(table, name) in ("number", "empty") else "edge type"
            roles.append(Role(file, name, "", "not asked for", option(use, name)))
    return roles


def _find_ends(table: Table, options: Mapping[str, Any], known: Known) -> tuple[str, str, str]:
    """The two columns of an edge table that name nodes, and why."""
    source, target = flagged(options, "source"), flagged(options, "target")
    rest = [name for name in table.columns if name not in (*source, *target) and table.columns[name] != "vectors"]
    asked = (*flagged(options, "weight"), *flagged(options, "edge type"))
    if given := (*source, *target):
        for name in given:
            table.column(name, "end of each edge", f"{option('source')} and {option('target')}")
        if len(set(given)) < 2:
            both = f"{option('source')} and {option('target')}"
            raise InputError(f"{table.path}: name the two ends of an edge, {both}, not only {given[0]!r}")
        return source[0], target[0], GIVEN
    if pair := named_pair(table):
        return *pair, "its name"
    if known:
        found = [name for name in rest if known(table.sample(name)) >= 0.5]
        many = [name for name in rest if len(table.sample(name)) > 0.02 * min(len(table), 2000)]
        if len(found) > 2:  # the few names of edge types may be names of nodes too
            found = [name for name in found if name in many] or found
        if len(found) == 1:  # a table of some of the nodes: the other end has as many different values of the same sort
            numeric = {name: kind_of(table, name) == "number" for name in {*many, *found}}
            alike = {name for name in many if name not in asked and numeric[name] == numeric[found[0]]}
            found = [name for name in rest if name in alike | {*found}] if len(alike - {*found}) == 1 else found
        if len(found) == 2:
            return found[0], found[1], "holds node ids"
        if len(found) > 2:
            raise doubt(table, "source", found, f"node ids are in {listed(found)} (then also {option('target')})")
    if len(rest) == 2 and not known:
        return rest[0], rest[1], "two columns"
    ids = [name for name in rest if names.is_id(name)]
    if len(ids) == 2:
        return ids[0], ids[1], "its name"
    raise none_found(table, "'source' and 'target' for the two ends of an edge", "source", "target")


def named_pair(table: Table) -> tuple[str, str] | None:
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


def possible_ends(table: Table, options: Mapping[str, Any]) -> list[tuple[Table, str]]:
    """The columns that may hold node ids: the two ends, if they are known already, else all."""
    given = [name for use in ("source", "target") for name in flagged(options, use) if name in table.columns]
    columns = given or named_pair(table) or table.columns
    return [(table, name) for name in columns if table.columns[name] != "vectors"]


def check_swapped(edges: Table, nodes: Table, options: Mapping[str, Any]) -> None:
    """Raise an error if the two tables are swapped: ``edges`` lists the nodes that the rows of ``nodes`` connect."""
    if len("".join(named_pair(edges) or ())) > 2:  # columns called a and b may as well describe nodes
        return
    ends, by = list[str](), ""
    with suppress(InputError):
        by, _ = find_id(edges, flagged(options, "id"), possible_ends(nodes, options))
        ends = [*_find_ends(nodes, options, partial(edges.share, by))[:2]]
    if ends and all(edges.share(by, nodes.sample(end)) >= 0.5 for end in ends):
        told = f"give {nodes.path} as edges= and {edges.path} as nodes="
        raise InputError(f"the two files seem to be swapped: {told}")


def pair_roles(table: Table, options: Mapping[str, Any], known: Known, remedy: str = "") -> tuple[Role, Role]:
    """The columns of ids and of labels in a table of labels; ``known`` are the ids of the nodes, ``remedy`` is what to
    do in doubt, where no option helps."""
    file = table.path.name

    def only(use: str, found: Sequence[str], what: str) -> str:
        if len(found) == 1:
            return found[0]
        why = f"it is not clear which of {listed(table.columns)} holds the {what}"
        raise InputError(f"{table.path}: {why}. {remedy}") if remedy else doubt(table, use, found or ["NAME"], why)

    given = [name for name in flagged(options, "id") if name in table.columns]
    by = given or [name for name in table.columns if names.plain(name) == "id"]
    by = by or [name for name in table.columns if known and known(table.sample(name)) >= 0.5]
    labels = {name for name in table.columns if names.words_of(name) & (names.LABELS | names.GROUPS)}
    for rule in (names.is_id, lambda name: name not in labels, table.unique):
        narrower = [name for name in by or table.columns if rule(name)] if len(by) != 1 else []
        by = narrower or by  # class names may be ids too
    node = only("id", by, "node ids")
    if known and known([node]) == 1 and names.plain(node) not in names.USUAL_NAMES:
        raise no_header(table, "id,label")
    rest = [name for name in table.columns if name != node]
    named = [name for name in flagged(options, "label") if name in rest]
    named = named or [name for name in rest if names.plain(name) == "label"]
    for usual in (names.LABELS, names.GROUPS):
        named = named or [name for name in rest if names.words_of(name) & usual]
    label = only("label", named or rest, "labels")
    why = "the other column" if len(rest) == 1 else "its name"
    return Role(file, node, "id", "holds node ids", option("id")), Role(file, label, "label", why, option("label"))


# --- What the cells of a column hold


def is_missing(cell: str) -> str:
    """SQL for whether a cell of text stands for a missing value."""
    return f"lower({cell}) in {MISSING}"


def kind_of(table: Table, name: str) -> str:
    """What a column holds: long strings are a text, few distinct ones a category, many distinct short ones names.
    Digits after a zero, such as ``01234``, are a code rather than a number."""
    if table.columns[name] != "text":
        return table.columns[name]
    cell, some = table.column(name), f"rowid % {max(1, len(table) // 2000)} = 0"
    given = f"not {is_missing(cell)}"
    parsed = f"try_cast(replace({_plain(cell)}, ',', '.') as double) is not null"
    grouped = " or ".join(f"regexp_full_match({_plain(cell)}, {form})" for form in (GROUPED, GROUPED_DECIMAL))
    like = f"not regexp_matches({cell}, '_|^0\\d') and ({parsed} or {grouped})"
    stats = f"avg(({like})::int), avg(len(regexp_extract_all({cell}, '\\S+')))"
    numbers, words = table.one(stats, f"{given} and {some}")
    if numbers is None:
        some = "true"
        numbers, words = table.one(stats, given)
    if numbers is None:
        return "empty"
    if numbers > 0.5:  # the others are taken for mistakes
        return "number"
    if date_sql(table, name, some) is not None:
        return "date"
    distinct, total = table.one(f"count(distinct {cell}), count(*)", given)
    named = bool(names.words_of(name) & names.TEXTS)
    if distinct <= min(1000, total / 2) and not (named and words >= 3):
        return "category"
    return "text" if named or words >= 3 else "names"


def _plain(cell: str) -> str:
    """SQL for a cell without a percent sign."""
    return f"trim(regexp_replace({cell}, '%$', ''))"


def date_sql(table: Table, name: str, rows: str = "true") -> str | None:
    """SQL for dates as years with fractions, NULL where they are missing; None if a cell of ``rows`` is no date."""
    cell = table.column(name)
    clock = f"replace(regexp_replace({cell}, '^([^:]*:\\d\\d(:\\d\\d)?).*$', '\\1'), 'T', ' ')"
    for last in ("%d{0}%m{0}%Y", "%m{0}%d{0}%Y"):  # the second as Americans write it
        days = [order.format(mark) for mark in "-/." for order in ("%Y{0}%m{0}%d", last)]
        when = f"try_strptime({clock}, {[day + time for day in days for time in ('', ' %H:%M', ' %H:%M:%S')]})"
        if table.one("1", f"not coalesce(year({when}) >= 1000, {is_missing(cell)}) and {rows}") is None:
            return f"(epoch({when}) / (365.2425 * 86400) + 1970)"
    return None


def number_sql(table: Table, name: str) -> str:
    """SQL for a column of numbers or dates, NULL where it is missing; every other value is refused."""
    if (key := (name, table.decimal)) not in table.cache:
        sql = table.column(name) if table.columns[name] == "number" else _parsed(table, name)
        wrong = f"not isfinite(({sql})::double) or abs({sql}) > 3.4028235e38"
        remedy = f"; write a number, or leave the column out ({option('ignore', name)})"
        table.refuse(name, wrong, "{cell} is not a finite number (as float32)", remedy)
        table.cache[key] = sql
    return str(table.cache[key])


def _parsed(table: Table, name: str) -> str:
    cell, plain = table.column(name), _plain(table.column(name))
    given = f"not {is_missing(cell)}"
    simple = f"case when contains({cell}, '_') or {is_missing(cell)} then null else try_cast({cell} as double) end"
    if table.decimal != "," and table.one("1", f"{simple} is null and {given}") is None:
        return simple
    mark = table.decimal or _decimal_mark(table, name)
    group = "," if mark == "." else "."
    digits = f"replace(replace(replace({plain}, '{group}', ''), ' ', ''), '{mark}', '.')"
    odd = f"contains({plain}, '_') or (contains({plain}, '{group}') and "
    odd += f"not regexp_full_match(split_part({plain}, '{mark}', 1), {GROUPED}))"
    number = f"case when {is_missing(cell)} or {odd} then null else try_cast({digits} as double) end"
    wrong = f"{number} is null and {given}"
    if table.one("1", wrong) is not None and (years := date_sql(table, name)) is not None:
        return years
    others = ", ".join(option(use, name) for use in ("category", "text", "ignore"))
    remedy = f". Write a number or leave the cell empty; or take the column for something else ({others})"
    table.refuse(name, wrong, "{cell!r} is not a number, as most values of this column are", remedy)
    return number


def _decimal_mark(table: Table, name: str) -> str:
    """A comma, where that is the only way to read the cells."""
    cell = table.column(name)
    last = f"split_part({cell}, ',', -1)"
    several, decimals, grouped, count = table.one(
        f"bool_or(contains({last}, '.') or len({cell}) - len(replace({cell}, ',', '')) > 1), "
        f"bool_or(contains({cell}, '.') or regexp_matches({cell}, '^(-?0)?,')), "
        f"bool_and(regexp_full_match({cell}, {GROUPED})), count(*)",
        f"contains({cell}, ',')",
    )
    if several or not count:
        return "."
    if grouped and not decimals:
        problem = "{cell!r} may be a number with a decimal comma or with its thousands grouped"
        table.refuse(name, f"contains({cell}, ',')", problem, "; say which with decimal=',' or decimal='.'")
    return ","


def numbers(table: Table, name: str, rows: slice | None = None) -> np.ndarray:
    """A column of numbers or dates as float64, NaN where it is missing."""
    found = table.fetch(f"coalesce(({number_sql(table, name)})::double, 'nan'::double)", rows)
    return np.asarray(found, np.float64)
