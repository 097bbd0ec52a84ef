"""Count the code lines of each package of src/fewnode: lines that are not blank, comments or docstrings.

``--check`` compares them with the budgets in pyproject.toml, [tool.fewnode.size], and fails if one is exceeded;
``--keep`` adds a row to benchmarks/rows/size.jsonl.
"""

import json
import sys
import tokenize
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOP = "top_level"  # the modules outside packages
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}


def code_lines(file: Path) -> int:
    """Lines with code; a string that is a statement of its own is a docstring."""
    lines: set[int] = set()
    starts = True  # whether the next token begins a statement
    with file.open("rb") as source:
        for token in tokenize.tokenize(source.readline):
            if token.type in LAYOUT or token.type == tokenize.ENDMARKER:
                starts = starts or token.type == tokenize.NEWLINE
            elif token.type != tokenize.STRING or not starts:
                starts = False
                lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines)


def sizes(source: Path = ROOT / "src/fewnode") -> Counter[str]:
    """The code lines of each package."""
    found: Counter[str] = Counter()
    for file in sorted(source.rglob("*.py")):
        package, *rest = file.relative_to(source).parts
        found[package if rest else TOP] += code_lines(file)
    return found


def budgets(file: Path = ROOT / "pyproject.toml") -> dict[str, int]:
    """The budget of each package."""
    return tomllib.loads(file.read_text(encoding="utf-8"))["tool"]["fewnode"]["size"]


def exceeded(found: Counter[str], allowed: dict[str, int]) -> list[str]:
    """One line for each package above its budget, or without one."""
    return [
        f"{name}: {size:,} code lines, the budget is {allowed.get(name, 0):,}"
        for name, size in found.items()
        if size > allowed.get(name, 0)
    ]


if __name__ == "__main__":
    counted, limits = sizes(), budgets()
    for name, size in sorted(counted.items()):
        print(f"{name:<12} {size:>6,} of {limits.get(name, 0):,}")
    modules = len(list((ROOT / "src/fewnode").rglob("*.py")))
    print(f"{'total':<12} {sum(counted.values()):>6,} of {sum(limits.values()):,}, in {modules} modules")
    if "--keep" in sys.argv[1:]:
        with (ROOT / "benchmarks/rows/size.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({"lines": sum(counted.values()), "modules": modules}) + "\n")
    if "--check" in sys.argv[1:] and (lines := exceeded(counted, limits)):
        sys.exit("\n".join(lines))
