"""What the cells of a column hold: numbers in any notation, dates, categories or texts. All of it is SQL."""

from typing import Literal

import numpy as np

from .names import TEXTS, option, words_of
from .read import Table

Kind = Literal["number", "date", "text", "category", "names", "vectors", "empty"]
MISSING = ("", "na", "n/a", "nan", "null", "none", "nil", "<na>", "#n/a", "?", "-", "--", ".")
GROUPED = r"'[+-]?\d{1,3}([., ]\d{3})+'"  # 1,234,567


def is_missing(cell: str) -> str:
    """SQL for whether a cell of text stands for a missing value."""
    return f"lower({cell}) in {MISSING}"


def kind_of(table: Table, name: str) -> Kind:
    """What a column holds: long strings are a text, few distinct ones a category, many distinct short ones names.
    Digits after a zero, such as ``01234``, are a code rather than a number."""
    if table.columns[name] != "text":
        return table.columns[name]
    cell, some = table.column(name), f"rowid % {max(1, len(table) // 2000)} = 0"
    given = f"not {is_missing(cell)}"
    parsed = f"try_cast(replace({_plain(cell)}, ',', '.') as double) is not null"
    like = f"not regexp_matches({cell}, '_|^0\\d') and ({parsed} or regexp_full_match({cell}, {GROUPED}))"
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
    named = bool(words_of(name) & TEXTS)
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
