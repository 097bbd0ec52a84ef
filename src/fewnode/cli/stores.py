"""Graphs larger than memory: ``fewnode import`` and ``fewnode plan``."""

import argparse
import shlex
import time
from dataclasses import asdict
from typing import Any

from .listing import draw_counts
from .options import given_columns, given_memory, picked
from .output import StageBar, clock, emit, show


def import_graph(args: argparse.Namespace) -> None:
    import numpy as np

    from ..store import Store
    from ..tables.importing import import_tables

    started = time.perf_counter()
    columns = given_columns(args)
    typed = columns.pop("edge_type_column", None) is not None or args.directed
    columns |= picked(args, "features", "decimal", "multi_label")
    with StageBar() as bar:
        memory = given_memory(args)
        out = import_tables(args.edges, args.nodes, args.out, typed=typed, memory=memory, progress=bar, **columns)
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
