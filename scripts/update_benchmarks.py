"""Write the tables of README.md and docs/ that come from benchmark rows; ``--check`` only compares.

A generated part stands between ``<!-- benchmark:begin NAME.FUNCTION -->`` and ``<!-- benchmark:end -->``: what that
function of ``benchmarks/NAME.py`` returns.
"""

import importlib.util
import re
import sys
from pathlib import Path

from fewnode.files import atomic_write

ROOT = Path(__file__).parents[1]
PART = re.compile(r"(<!-- benchmark:begin (\w+)\.(\w+) -->\n).*?(<!-- benchmark:end -->)", re.DOTALL)


def table(benchmark: str, function: str) -> str:
    """What a function of a benchmark prints from its stored rows."""
    spec = importlib.util.spec_from_file_location(benchmark, ROOT / f"benchmarks/{benchmark}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text: str = getattr(module, function)()
    return text.strip("\n") + "\n"


def outdated(write: bool = False) -> list[str]:
    """The pages whose tables disagree with the rows; with ``write`` they are brought up to date."""
    changed = []
    for page in (*ROOT.glob("README.md"), *sorted((ROOT / "docs").glob("*.md"))):
        text = page.read_text(encoding="utf-8")
        fresh = PART.sub(lambda part: f"{part[1]}\n{table(part[2], part[3])}\n{part[4]}", text)
        if fresh != text:
            changed.append(str(page.relative_to(ROOT)))
            if write:
                with atomic_write(page, "w") as file:
                    file.write(fresh)
    return changed


if __name__ == "__main__":
    names = outdated(write="--check" not in sys.argv)
    print("\n".join(names) or "all tables are current")
    sys.exit(bool(names) and "--check" in sys.argv)
