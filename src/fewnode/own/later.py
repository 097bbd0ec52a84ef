"""Tables of nodes that arrive later, read as those of the fitting were."""

from collections.abc import Collection
from dataclasses import replace

from ..errors import InputError
from ..io import Table, read_columns
from ..storage import PathLike
from .classifier import FewShotClassifier
from .predictions import Predictions
from .support import name_index


def append_tables(classifier: FewShotClassifier, nodes: PathLike, edges: PathLike) -> Predictions:
    """Predictions of the nodes in the table ``nodes``, which those in ``edges`` join to the graph and to each other.

    Columns have the names and the meaning of those the model was fitted on; labels may be left out.
    """
    source = classifier.source
    if source is None or source.nodes is None or source.features is not None:
        raise InputError(
            "nodes can be appended from a table if the model was fitted on a table of nodes that holds their features; "
            "this one was not. Name the whole tables instead (--edges, --nodes, --features)"
        )
    table = read_columns(nodes)
    there = source.elsewhere(edges=edges, nodes=nodes)
    columns = dict(there.columns)
    if columns.get("label_column") not in table.columns:
        columns["label_column"] = ""
    options = {name: value for name, value in there.options.items() if name not in ("strict", "knn")}
    new = replace(there, columns=columns, options=options).read(classifier.vocabulary)
    assert classifier.graph is not None and new.node_names is not None
    index, listed = name_index(classifier.graph), len(table)
    if there_already := [name for name in new.node_names[:listed] if name in index]:
        raise InputError(
            f"{_place(table, there_already)}: node {there_already[0]!r} is in the graph already "
            f"({len(there_already):,} such rows); --new-nodes lists nodes that are not. Leave it out"
        )
    if unknown := [name for name in new.node_names[listed:] if name not in index]:
        raise InputError(
            f"{_place(read_columns(edges), unknown)}: node {unknown[0]!r} is neither in the graph nor in {nodes} "
            f"({len(unknown):,} such nodes). Add it to {nodes} or remove the edge"
        )
    try:
        return classifier.append(new, listed=listed)
    except InputError as error:
        raise InputError(f"{nodes}, {edges}: {error}") from error


def _place(table: Table, names: Collection[str]) -> str:
    """Where the first of ``names`` stands in the table."""
    wanted = next(iter(names))
    for column, values in table.columns.items():
        if values.ndim == 1 and wanted in (found := table.text(column, "nodes")):
            return table.place(found.index(wanted), column)
    return str(table.path)
