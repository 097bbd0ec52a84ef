"""Graphs larger than memory: ``fewnode import`` and ``fewnode plan``."""

import argparse
import shlex
import time

from .options import given_columns, given_memory, picked, with_flags
from .output import Bar, emit


def import_graph(args: argparse.Namespace) -> None:
    import numpy as np

    from ..store import Store
    from ..tables.importing import import_tables

    started = time.perf_counter()
    columns = given_columns(args)
    typed = columns.pop("edge_type_column", None) is not None or args.directed
    wanted = picked(args, "features", "decimal", "multi_label", "max_classes", "text_encoder")
    columns |= {"text_encoder": "auto"} | {name: value for name, value in wanted.items() if value}
    with Bar() as bar:
        memory = given_memory(args)
        out = import_tables(args.edges, args.nodes, args.out, typed=typed, memory=memory, progress=bar.stage, **columns)
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
        "notes": [with_flags(note, args) for note in store.facts.notes],
        "classes": len(store.facts.class_names or ()),
        "bytes": sum(path.stat().st_size for path in out.iterdir()),
        "seconds": round(time.perf_counter() - started, 3),
        "next": shlex.join(["fewnode", "fit", "--edges", str(out), "--out", "runs/model"]),
    }
    emit(args, document, "import")


def plan_work(args: argparse.Namespace) -> None:
    from ..classifier.planning import plan

    found = plan(args.nodes, args.edges, args.columns, classes=args.classes, memory=given_memory(args))
    emit(args, found, "plan")
