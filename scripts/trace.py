"""Run a fewnode command and count the files and functions of src/fewnode that it visits.

    python scripts/trace.py [--keep] train tent wordnet --out runs/tent

Imports do not count, nor what runs in other processes. ``changes`` is how often a call leads from one file to another.
``--keep`` adds a row to benchmarks/rows/size.jsonl.
"""

import inspect
import json
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

SOURCE = Path(__file__).parents[1] / "src/fewnode"


class Trace:
    """The code of ``source`` that is called between ``start`` and ``stop``."""

    def __init__(self, source: Path = SOURCE) -> None:
        self.source = f"{source}/"
        self.calls: Counter[CodeType] = Counter()
        self.changes = 0
        self.last = ""
        self.importing: defaultdict[int, int] = defaultdict(int)  # per thread, how many modules are being imported

    def run(self, call: Callable[[], Any]) -> Any:
        """The result of ``call``, traced in all threads that it starts."""
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        try:
            return call()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        if event not in ("call", "return"):
            return
        code = frame.f_code
        if code.co_name == "<module>":
            self.importing[threading.get_ident()] += 1 if event == "call" else -1
        elif event == "call" and code.co_filename.startswith(self.source) and self._counts(code):
            self.changes += code.co_filename != self.last
            self.last = code.co_filename
            self.calls[code] += 1

    def _counts(self, code: CodeType) -> bool:
        """Whether it is a function with a name that is called for its own sake: no class body, no comprehension, no
        template that became code."""
        named = code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<")
        named = named and code.co_filename.endswith(".py")
        return bool(named) and not self.importing[threading.get_ident()]

    def packages(self) -> dict[str, tuple[int, int]]:
        """Files and functions visited in each package."""
        found: dict[str, set[CodeType]] = {}
        for code in self.calls:
            package, *rest = code.co_filename.removeprefix(self.source).split("/")
            found.setdefault(package if rest else "top level", set()).add(code)
        return {name: (len({code.co_filename for code in codes}), len(codes)) for name, codes in sorted(found.items())}

    def totals(self) -> tuple[int, int]:
        """Files and functions visited in all."""
        return len({code.co_filename for code in self.calls}), len(self.calls)

    def __str__(self) -> str:
        counts = self.packages()
        lines = [f"{name:<12} {files:>6} {functions:>10}" for name, (files, functions) in counts.items()]
        files, functions = self.totals()
        total = f"{'total':<12} {files:>6} {functions:>10}   {self.changes:,} changes of file"
        return "\n".join([f"{'package':<12} {'files':>6} {'functions':>10}", *lines, total])


def main(argv: list[str]) -> int:
    from fewnode import cli

    trace, keep = Trace(), argv[:1] == ["--keep"]
    code = trace.run(lambda: cli.main(argv[keep:]))
    print(trace)
    if keep:
        row = {"command": argv[1], **dict(zip(("files", "functions"), trace.totals(), strict=True))}
        with (SOURCE.parents[1] / "benchmarks/rows/size.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    return int(code or 0)


if __name__ == "__main__":
    sys.path[0] = str(SOURCE.parent)  # instead of this folder, whose trace would hide the library's
    sys.exit(main(sys.argv[1:]))
