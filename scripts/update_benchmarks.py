"""Write the tables and figures of README.md and docs/ that come from benchmark rows; ``--check`` only compares.

A generated table stands between ``<!-- benchmark:begin NAME.FUNCTION -->`` and ``<!-- benchmark:end -->``: what that
function of ``benchmarks/NAME.py`` returns. A generated figure in a sentence stands between ``<!-- = SOURCE -->`` and
``<!-- . -->``, where SOURCE is either

    NAME.FUNCTION ARGUMENT ...          what that function returns for these texts, or
    NAME KEY=VALUE ... FIELD FORMAT     a field of the last row of benchmarks/rows/NAME.jsonl with these values;
                                        min:FIELD, max:FIELD of all such rows; FORMAT is Python's, after % in percent
"""

import argparse
import importlib.util
import json
import re
import shlex
import sys
from pathlib import Path

from fewnode.files import atomic_write

ROOT = Path(__file__).parents[1]
TABLE = re.compile(r"(<!-- benchmark:begin (\w+)\.(\w+) -->\n).*?(<!-- benchmark:end -->)", re.DOTALL)
FIGURE = re.compile(r"(<!-- = (.+?) -->).*?(<!-- \. -->)", re.DOTALL)


def made(benchmark: str, function: str, *arguments: str) -> str:
    """What a function of a benchmark makes from its stored rows."""
    spec = importlib.util.spec_from_file_location(benchmark, ROOT / f"benchmarks/{benchmark}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text: str = getattr(module, function)(*arguments)
    return text.strip("\n")


def figure(source: str) -> str:
    """The figure that a source names."""
    name, *words = shlex.split(source)
    if "." in name:
        return made(*name.split("."), *words)
    *wanted, field, form = words
    pairs = dict(word.split("=", 1) for word in wanted)
    lines = (ROOT / f"benchmarks/rows/{name}.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if all(str(row.get(key)) == pairs[key] for key in pairs)]
    how, _, field = field.rpartition(":")
    values = [row[field] for row in rows if field in row]
    if not values:
        raise SystemExit(f"{source}: no row of {name}.jsonl has that")
    value = {"min": min, "max": max}[how](values) if how else values[-1]
    return format(100 * value, form[1:]) if form.startswith("%") else format(value, form)


def outdated(write: bool = False) -> list[str]:
    """The pages that disagree with the rows; with ``write`` they are brought up to date."""
    changed = []
    for page in (*ROOT.glob("README.md"), *sorted((ROOT / "docs").glob("*.md"))):
        text = page.read_text(encoding="utf-8")
        fresh = TABLE.sub(lambda part: f"{part[1]}\n{made(part[2], part[3])}\n\n{part[4]}", text)
        fresh = FIGURE.sub(lambda part: f"{part[1]}{figure(part[2])}{part[3]}", fresh)
        if fresh != text:
            changed.append(str(page.relative_to(ROOT)))
            if write:
                with atomic_write(page, "w") as file:
                    file.write(fresh)
    return changed


def checking(description: str | None) -> bool:
    """Whether the command line of a script that writes pages says ``--check``; it may say nothing else."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only compare, write nothing")
    return bool(parser.parse_args().check)


if __name__ == "__main__":
    check = checking(__doc__)
    names = outdated(write=not check)
    print("\n".join(names) or "all tables and figures are current")
    sys.exit(bool(names) and check)
