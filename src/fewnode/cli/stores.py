"""Graphs larger than memory: ``fewnode import`` and ``fewnode plan``."""

import argparse
import shlex
import time
from dataclasses import asdict
from typing import Any

from .listing import draw_counts
from .options import JSON, MEMORY, NODE_COLUMNS, add_columns, add_command, add_options, given_memory
from .output import StageBar, clock, emit, show


def add_commands(commands: Any) -> None:
    imported = add_command(commands, "import", import_graph, "make a store from tables, for a graph larger than memory")
    tables = {
        "--edges FILE": "edge table: source, target",
        "--nodes FILE": "node table: id, label (may be empty), attributes",
        "--out DIR": "the store, a new folder: graph.store",
    }
    add_options(imported, tables, required=True)
    told = "array [nodes, columns] in the order of the node table (.npy), instead of its columns"
    add_options(imported, {"--features FILE": told})
    add_columns(imported)
    add_options(imported, MEMORY | JSON)

    planned = add_command(commands, "plan", plan_work, "estimate time, memory and disk for a graph larger than memory")
    counts = {"--nodes N": "for example 111e6", "--edges E": "each counted once", "--columns F": "number of features"}
    add_options(planned, counts, required=True, type=_count)
    add_options(planned, {"--classes C": "number of known classes (40)"}, type=_count, default=40)
    add_options(planned, {"--labelled SHARE": ("share of labelled nodes (0.5)", 0.5), **MEMORY, **JSON})


def _count(text: str) -> int:
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r}: write a number, for example 111e6") from None


def import_graph(args: argparse.Namespace) -> None:
    import numpy as np

    from ..store import Store
    from ..tables.importing import import_tables

    started = time.perf_counter()
    named = ("id_column", "label_column", "source_column", "target_column", "weight_column", "decimal", "multi_label")
    columns: dict[str, Any] = {name: getattr(args, name) for name in named}
    columns |= {name: getattr(args, name) or () for name in NODE_COLUMNS}
    columns |= {"features": args.features, "typed": args.directed or args.edge_type_column is not None}
    with StageBar() as bar:
        out = import_tables(args.edges, args.nodes, args.out, **columns, memory=given_memory(args), progress=bar)
    store = Store(out)
    document = {
        "out": str(out),
        "nodes": len(store.arrays["y"]),
        "labelled": int((store.arrays["y"] >= 0).sum()),
        "isolated": int((np.diff(store.arrays["indptr"]) == 0).sum()),
        "edges": len(store.arrays["indices"]) // 2,
        "self_loops": store.facts.self_loops,
        "duplicates": store.facts.duplicates,
        "columns": store.facts.width or (store.arrays["features"].shape[1] if "features" in store.arrays else 0),
        "notes": store.facts.notes,
        "classes": len(store.facts.class_names or ()),
        "bytes": sum(path.stat().st_size for path in out.iterdir()),
        "seconds": round(time.perf_counter() - started, 3),
        "next": shlex.join(["fewnode", "fit", "--edges", str(out), "--out", "runs/model"]),
    }
    emit(args, document, _draw_imported)


def _draw_imported(facts: dict[str, Any]) -> None:
    from ..store import format_bytes

    draw_counts(facts)
    show("{classes} classes, {columns} columns; imported in {seconds:.0f} s", facts)
    for note in facts["notes"]:
        show(f"note: {note}")
    show(f"Store in {facts['out']}, {format_bytes(facts['bytes'])}; next:", wrap=False)


def plan_work(args: argparse.Namespace) -> None:
    from ..classifier.planning import plan

    shape = (args.nodes, args.edges, args.columns)
    found = plan(*shape, classes=args.classes, labelled=args.labelled, memory=given_memory(args))
    emit(args, asdict(found), _draw_plan)


def _draw_plan(facts: dict[str, Any]) -> None:
    from ..store import format_bytes

    for key, what in (("views", "views"), ("known", "known classes"), ("predict", "predict all nodes")):
        show(f"{what}: about {clock(facts[f'{key}_seconds'])}")
    blocks = f", columns in {facts['blocks']} blocks" if facts["blocks"] > 1 else ", all columns at once"
    if facts["memory"] < facts["least_memory"]:
        blocks = ": too little"
    show(f"memory: {format_bytes(facts['memory'])}{blocks}; at least {format_bytes(facts['least_memory'])}")
    show(f"disk: {format_bytes(facts['disk'])}, during the import {format_bytes(facts['disk_while_made'])}")
    rates = facts["rates"]
    show(
        f"measured here: {1e9 * rates['arc']:.2f} ns for an arc and a column, {2e-9 / rates['product']:.0f} Gflop/s, "
        f"{1e-6 / rates['byte']:.0f} MB/s of disk"
    )
