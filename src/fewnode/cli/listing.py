"""What there is: ``fewnode ls``, ``info`` and ``completion``."""

import argparse
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from .output import add_json, emit, load_with_bar

# --- What there is: ``fewnode ls`` and ``fewnode info``.
if TYPE_CHECKING:
    from rich.console import Console

SHOWN = 24  # rows of the bar chart unless --all


def add_commands(commands: Any) -> None:
    ls = commands.add_parser("ls", help="list data sets, methods or grids")
    ls.add_argument("what", choices=("datasets", "methods", "grids"))
    add_json(ls)
    ls.set_defaults(run=list_names)

    info = commands.add_parser("info", help="describe a data set: counts, class sizes, split, licence, citation")
    info.add_argument("dataset", help="a name of `fewnode ls datasets`")
    info.add_argument("--data-dir", metavar="DIR", help="where to look for the files first (else $FEWNODE_DATA)")
    info.add_argument("--all", action="store_true", help="draw a bar for every class")
    add_json(info)
    info.set_defaults(run=show_info)


def list_names(args: argparse.Namespace) -> None:
    rows = {"datasets": _datasets, "methods": _methods, "grids": _grids}[args.what]()
    emit(args, rows, _draw_table)


def _datasets() -> list[dict[str, Any]]:
    from ..datasets import catalog

    return [
        {
            "name": entry.name,
            "nodes": entry.counts.nodes,
            "edges": entry.counts.edges,
            "features": entry.counts.features,
            "classes": entry.counts.classes,
            "description": entry.title,
        }
        for entry in map(catalog.entry, catalog.names())
    ]


def _methods() -> list[dict[str, Any]]:
    from ..methods import describe

    return [{"name": name, "description": line} for name, line in describe().items()]


def _grids() -> list[dict[str, Any]]:
    from importlib.resources import files

    folder = files("fewnode.experiments") / "grids"
    found = sorted(file.name for file in folder.iterdir() if file.name.endswith(".toml")) if folder.is_dir() else []
    return [{"name": name.removesuffix(".toml"), "description": _grid_title(folder / name)} for name in found]


def _grid_title(file: Any) -> str:
    """A grid's description: its ``description`` key, else nothing."""
    import tomllib

    return str(tomllib.loads(file.read_text(encoding="utf-8")).get("description", ""))


def _draw_table(console: "Console", rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    if not rows:
        console.print("none")
        return
    table = Table(box=None, pad_edge=False)
    shown = [key for key in rows[0] if key not in ("edges", "features")]  # `info` and --json have those
    for key in shown:
        numeric = isinstance(rows[0][key], int)
        table.add_column(key, justify="right" if numeric else "left", no_wrap=key != "description")
    for row in rows:
        table.add_row(*(f"{row[key]:,}" if isinstance(row[key], int) else row[key] for key in shown))
    console.print(table)


def show_info(args: argparse.Namespace) -> None:
    from ..datasets import catalog

    entry = catalog.entry(args.dataset)  # a wrong name is answered before torch is imported
    graph, split = load_with_bar(entry.name, args.data_dir)
    from ..graph.graph import summary

    document = {
        "name": entry.name,
        "description": entry.title,
        "note": entry.note,
        **summary(graph, asdict(split)),
        "license": entry.license,
        "citation": entry.citation,
    }
    emit(args, document, lambda console, facts: _draw_info(console, facts, args.all))


def _draw_info(console: "Console", facts: dict[str, Any], every: bool) -> None:
    console.print(f"{facts['name']}  {facts['description']}", style="bold")
    if facts["note"]:
        console.print(facts["note"])
    features = f"{facts['features']:,}" if facts["has_features"] else f"none given ({facts['features']:,} structural)"
    console.print(
        f"{facts['nodes']:,} nodes ({facts['labelled']:,} labelled, {facts['isolated']:,} isolated), "
        f"{facts['edges']:,} edges, {facts['components']:,} connected parts, "
        f"largest degree {facts['max_degree']:,}"
    )
    console.print(f"removed on reading: {facts['self_loops']:,} self-loops, {facts['duplicates']:,} duplicate edges")
    console.print(f"features: {features}")
    split = ", ".join(f"{len(ids)} {part}" for part, ids in facts["split"].items())
    console.print(f"classes: {len(facts['classes'])} ({split})\n")
    _draw_bars(console, facts["classes"], every)
    console.print(f"\nlicence:  {facts['license']}\ncitation: {facts['citation']}")


def _draw_bars(console: "Console", classes: list[dict[str, Any]], every: bool) -> None:
    """Class sizes as bars, largest first; in a long list the middle is left out."""
    from rich.bar import Bar
    from rich.table import Table

    ordered = sorted(classes, key=lambda row: -row["nodes"])
    hidden = 0 if every else max(0, len(ordered) - SHOWN)
    table = Table(box=None, pad_edge=False, show_header=False)
    largest = max((row["nodes"] for row in ordered), default=0)
    for place, row in enumerate(ordered):
        if hidden and place == SHOWN * 3 // 4:
            table.add_row(f"... {hidden} more (--all)", "", "")
        if hidden and SHOWN * 3 // 4 <= place < SHOWN * 3 // 4 + hidden:
            continue
        bar = Bar(largest, 0, row["nodes"], width=40)
        table.add_row(row["name"], f"{row['nodes']:,}", bar, row["part"] or "unused")
    console.print(table)


# --- ``fewnode completion``: what a shell needs to complete commands, options, methods and data sets.
SHELLS = ("bash", "zsh", "tcsh")


def add_commands_completion(commands: Any) -> None:
    parser = commands.add_parser(
        "completion",
        help="print a completion script for your shell",
        description='Print a completion script. For bash: eval "$(fewnode completion bash)"',
    )
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(run=print_completion)


def print_completion(args: argparse.Namespace) -> None:
    import shtab

    sys.stdout.write(shtab.complete(args.parser, shell=args.shell) + "\n")
