"""Graphs larger than memory: ``fewnode import`` and ``fewnode plan``, and where work is done."""

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .output import Bar, add_json, clock, emit, say

# --- Graphs larger than memory: ``fewnode import`` makes a store of tables, ``fewnode plan`` says what it costs.
if TYPE_CHECKING:
    from rich.console import Console


USES = ("text", "category", "number", "ignore")  # what columns of nodes can be said to be


def add_commands(commands: Any) -> None:
    imported = commands.add_parser("import", help="make a store of tables, for a graph larger than memory")
    imported.add_argument("--edges", required=True, metavar="FILE", help="table: source, target (.csv, .tsv, .parquet)")
    imported.add_argument("--nodes", required=True, metavar="FILE", help="table: id, label (may be empty), columns")
    told = "array [nodes, columns] in the order of the node table (.npy), instead of its columns"
    imported.add_argument("--features", metavar="FILE", help=told)
    for name in ("id-column", "label-column", "source-column", "target-column"):
        imported.add_argument(f"--{name}", metavar="NAME", help="(found by name and content, as in fit)")
    for use in USES:
        told = "columns not to use" if use == "ignore" else f"columns to be taken for {use} (found by content)"
        imported.add_argument(f"--{use}-column", action="append", default=[], metavar="NAME", help=told)
    imported.add_argument("--decimal", choices=(".", ","), help="the decimal mark, where it cannot be told")
    imported.add_argument("--weight-column", metavar="NAME", help="how much each edge counts (every edge one)")
    told = "as in fit; not kept, all edges count alike"
    imported.add_argument("--directed", action="store_true", help=told)
    imported.add_argument("--edge-type-column", metavar="NAME", help=told)
    imported.add_argument("--memory", metavar="SIZE", help="what the import may take, e.g. 4GB (half of what is free)")
    imported.add_argument("--out", required=True, metavar="DIR", help="the store, a new folder: graph.store")
    add_json(imported)
    imported.set_defaults(run=import_graph)

    planned = commands.add_parser("plan", help="what a graph larger than memory will cost, measured on this machine")
    planned.add_argument("--nodes", required=True, type=_count, metavar="N", help="for example 111e6")
    planned.add_argument("--edges", required=True, type=_count, metavar="E", help="each counted once")
    planned.add_argument("--columns", required=True, type=_count, metavar="F", help="of features")
    planned.add_argument("--classes", type=_count, default=40, metavar="C", help="known ones (40)")
    planned.add_argument("--labelled", type=float, default=0.5, metavar="SHARE", help="of the nodes (0.5)")
    planned.add_argument("--memory", metavar="SIZE", help="what the work may take, e.g. 4GB (half of what is free)")
    add_json(planned)
    planned.set_defaults(run=plan_work)


def _count(text: str) -> int:
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r}: write a number, for example 111e6") from None


class StageBar(Bar):
    """Told what is being done, and which part of it is done."""

    def __call__(self, what: str, part: float) -> None:
        self.show(what, round(100 * part), 100, line=f"{what} ... {100 * part:.0f} %")


def import_graph(args: argparse.Namespace) -> None:
    from ..store import Store, parsed_memory
    from ..tables.importing import import_tables
    from ..tables.node_table import Tables

    started = time.perf_counter()
    named = ("id_column", "label_column", "source_column", "target_column", "weight_column", "decimal")
    columns = {name: getattr(args, name) for name in named}
    columns |= {f"{use}_column": tuple(getattr(args, f"{use}_column")) for use in USES}
    columns["apart"] = args.directed or args.edge_type_column is not None
    columns["features"] = None if args.features is None else Path(args.features)
    tables = Tables(Path(args.edges), Path(args.nodes), **columns)
    memory = None if args.memory is None else parsed_memory(args.memory)
    with StageBar() as bar:
        out = import_tables(tables, args.out, memory=memory, progress=bar)
    store = Store(out)
    arcs = len(store.arrays["indices"])
    document = {
        "out": str(out),
        "nodes": len(store.arrays["y"]),
        "labelled": int((store.arrays["y"] >= 0).sum()),
        "edges": arcs // 2,
        "self_loops": store.facts.self_loops,
        "duplicates": store.facts.duplicates,
        "columns": store.facts.width or (store.arrays["features"].shape[1] if "features" in store.arrays else 0),
        "notes": store.facts.notes,
        "classes": len(store.facts.class_names or ()),
        "bytes": sum(path.stat().st_size for path in out.iterdir()),
        "seconds": round(time.perf_counter() - started, 3),
        "next": f"fewnode fit --edges {out} --out runs/model",
    }
    emit(args, document, draw_imported)


def draw_imported(console: "Console", facts: dict[str, Any]) -> None:
    from ..store import format_bytes

    console.print(
        f"{facts['nodes']:,} nodes ({facts['labelled']:,} labelled, {facts['classes']} classes, {facts['columns']} "
        f"columns), {facts['edges']:,} edges ({facts['self_loops']:,} self-loops and {facts['duplicates']:,} "
        f"duplicates dropped) in {facts['seconds']:.0f} s"
    )
    for note in facts["notes"]:
        console.print(f"note: {note}", markup=False)
    console.print(f"Store in {facts['out']}, {format_bytes(facts['bytes'])}; next:", markup=False)
    console.print(f"  {facts['next']}", soft_wrap=True, markup=False)


def plan_work(args: argparse.Namespace) -> None:
    from ..classifier.planning import plan
    from ..store import parsed_memory

    memory = None if args.memory is None else parsed_memory(args.memory)
    found = plan(args.nodes, args.edges, args.columns, classes=args.classes, labelled=args.labelled, memory=memory)
    emit(args, found.to_json(), draw_plan)


def draw_plan(console: "Console", facts: dict[str, Any]) -> None:
    from ..store import format_bytes

    for what in ("views", "known", "predict"):
        label = {"views": "views", "known": "known classes", "predict": "predict all nodes"}[what]
        console.print(f"{label}: about {clock(facts[f'{what}_seconds'])}")
    fits = facts["memory"] >= facts["least_memory"]
    blocks = f", columns in {facts['blocks']} blocks" if facts["blocks"] > 1 else ", all columns at once"
    blocks = blocks if fits else ": too little"
    console.print(f"memory: {format_bytes(facts['memory'])}{blocks}; at least {format_bytes(facts['least_memory'])}")
    console.print(f"disk: {format_bytes(facts['disk'])}, while it is made {format_bytes(facts['disk_while_made'])}")
    rates = facts["rates"]
    console.print(
        f"measured here: {1e9 * rates['arc']:.2f} ns for an arc and a column, {2e-9 / rates['product']:.0f} Gflop/s, "
        f"{1e-6 / rates['byte']:.0f} MB/s of disk"
    )


# --- Where work is done: ``--engine``, ``--address`` and what a task of it needs.
if TYPE_CHECKING:
    from ..store import Engine


def add_engine(parser: argparse.ArgumentParser, what: str, unit: str) -> None:
    """The flags; ``what`` is done, in tasks that are called ``unit``."""
    parser.add_argument("--engine", choices=("local", "ray"), default="local", help=f"where {what} (local)")
    parser.add_argument("--address", metavar="HOST:PORT", help="of the Ray cluster (none: this machine alone)")
    parser.add_argument(
        f"--per-{unit}", type=_amounts, default={}, metavar="cpu=1,..", help=f"what Ray sets aside for a {unit} (cpu=1)"
    )


def check_engine(args: argparse.Namespace, unit: str) -> None:
    if args.engine == "local" and (args.address or getattr(args, f"per_{unit}")):
        raise InputError(f"--address and --per-{unit} are for --engine ray")


def given_memory(args: argparse.Namespace) -> int | None:
    """``--memory`` in bytes, if it was given."""
    from ..store import parsed_memory

    return None if args.memory is None else parsed_memory(args.memory)


def given_engine(args: argparse.Namespace) -> "Engine | None":
    """Who does the work on a store, if not this process alone."""
    check_engine(args, "task")
    if args.engine == "local":
        return None
    from ..store import RayPieces

    say("Reaching Ray ...")
    return RayPieces(args.address, given_memory(args), args.per_task)


def _amounts(text: str) -> dict[str, float]:
    try:
        pairs = (part.split("=") for part in text.replace(" ", "").split(",") if part)
        return {key: float(value) for key, value in pairs}
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: write cpu=2,memory=4e9") from None
