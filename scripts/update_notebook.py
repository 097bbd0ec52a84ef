"""Run the notebook of examples/ and write down what its cells show; ``--check`` only compares.

Cells run in one process, in order, as Jupyter would: what a cell prints and the value of its last line are its outputs.
What they show must begin with the same words; numbers may differ from machine to machine.
"""

import ast
import contextlib
import io
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from fewnode.files import atomic_write

NOTEBOOK = Path(__file__).parents[1] / "examples/first_steps.ipynb"


def run(cell: list[str], names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """The outputs of a code cell, in the format of notebooks."""
    tree = ast.parse("".join(cell))
    last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), names)
        value = None if last is None else eval(compile(last, f"cell {number}", "eval"), names)
    found: list[dict[str, Any]] = []
    if printed.getvalue():
        found.append({"name": "stdout", "output_type": "stream", "text": printed.getvalue().splitlines(True)})
    if value is not None:
        shown = {"text/plain": repr(value).splitlines(True)}
        if hasattr(value, "_repr_html_"):
            shown["text/html"] = value._repr_html_().splitlines(True)
        told = {"execution_count": number, "metadata": {}, "output_type": "execute_result"}
        found.append(told | {"data": shown})
    return found


def executed(notebook: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The notebook with what its cells show, run in ``folder``."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells, before, number = [], Path.cwd(), 0
    os.chdir(folder)
    try:
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                number += 1
                cell = cell | {"outputs": run(cell["source"], names, number), "execution_count": number}
            cells.append(cell)
    finally:
        os.chdir(before)
    return notebook | {"cells": cells}


def words(notebook: dict[str, Any]) -> list[list[str]]:
    """The words of the first line that each cell shows, without numbers."""
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    shown = [output.get("text") or output["data"]["text/plain"] for output in outputs]
    return [re.sub(r"[\d.,+-]+|'.*'", " ", lines[0]).split() for lines in shown]


if __name__ == "__main__":
    from update_benchmarks import checking

    check = checking(__doc__)
    stored = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    fresh = executed(stored, NOTEBOOK.parent)
    if check:
        sys.exit(words(stored) != words(fresh) and "the notebook shows something else: run scripts/update_notebook.py")
    with atomic_write(NOTEBOOK, "w") as file:
        file.write(json.dumps(fresh, indent=1, ensure_ascii=False) + "\n")
