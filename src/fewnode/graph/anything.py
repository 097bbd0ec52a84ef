"""What a user has in hand, told by what it can do, as the arguments of ``Graph.from_edges``."""

import os
from typing import Any

import numpy as np
import torch
from scipy import sparse as sp

from .. import io
from ..errors import InputError
from ..io.frames import is_frame, table_of
from .convert import igraph_arguments, networkx_arguments, scipy_arguments
from .typed import dgl_arguments, pyg_arguments

TAKEN = (
    "a Graph, DataFrames or files of edges (and nodes), a graph of NetworkX, igraph, PyTorch Geometric or DGL, a "
    "sparse or square adjacency, or edges [2, E]"
)


def arguments_of(given: Any, nodes: Any = None, **options: Any) -> dict[str, Any]:
    """The arguments of ``Graph.from_edges`` in whatever holds a graph; ``nodes`` is a table beside one of edges."""
    if is_frame(given) or isinstance(given, str | os.PathLike):
        return frame_arguments(given, nodes, **options)
    if nodes is not None:
        raise InputError(f"nodes= belongs to a table of edges; {_type(given)} brings its own nodes")
    return _foreign_arguments(given) | {name: value for name, value in options.items() if value is not None}


def frame_arguments(edges: Any, nodes: Any = None, **options: Any) -> dict[str, Any]:
    """The arguments in tables of edges and nodes, as DataFrames or files."""
    tables = [
        table_of(given, f"the table of {name}") if is_frame(given) else given
        for name, given in (("edges", edges), ("nodes", nodes))
    ]
    for name, given in zip(("edges", "nodes"), tables, strict=True):
        if not (given is None or isinstance(given, str | os.PathLike | io.Table)):
            raise InputError(f"{name} is {_type(given)}; give a DataFrame or a file")
    return io.graph_tables(*tables, **options)


def _foreign_arguments(given: Any) -> dict[str, Any]:
    if hasattr(given, "canonical_etypes"):
        return dgl_arguments(given)
    if hasattr(given, "edge_types") or hasattr(given, "edge_index"):
        return pyg_arguments(given)
    if hasattr(given, "vs") and hasattr(given, "es"):
        return igraph_arguments(given, "x", "y", "weight", "kind")
    if hasattr(given, "nodes") and hasattr(given, "edges") and hasattr(given, "is_directed"):
        return networkx_arguments(given, "x", "y", "weight", "kind")
    if sp.issparse(given):
        return scipy_arguments(given)
    if isinstance(given, np.ndarray | torch.Tensor | list | tuple):
        return _array_arguments(given)
    raise InputError(f"{_type(given)} is no graph that is known here; give {TAKEN}")


def _array_arguments(given: Any) -> dict[str, Any]:
    if isinstance(given, torch.Tensor) and given.layout != torch.strided:
        given = given.to_sparse_coo().coalesce()
        return scipy_arguments(
            sp.coo_array((given.values().numpy(), given.indices().numpy()), shape=tuple(given.shape))
        )
    try:
        array = given.detach().cpu().numpy() if isinstance(given, torch.Tensor) else np.asarray(given)
    except ValueError:
        array = np.empty(0)
    if array.ndim == 2 and array.shape[0] == array.shape[1] > 2:
        return scipy_arguments(sp.coo_array(array))
    if array.ndim == 2 and array.shape[0] == 2 and np.issubdtype(array.dtype, np.integer):
        return {"edge_index": array}
    raise InputError(
        f"an array of shape {array.shape} and type {array.dtype} is neither edges [2, E] (whole numbers) nor a square "
        f"adjacency; give {TAKEN}"
    )


def _type(given: Any) -> str:
    kind = type(given)
    home = kind.__module__.split(".")[0]
    return f"a value of type {kind.__name__}" + ("" if home in ("builtins", "__main__") else f" (of {home})")
