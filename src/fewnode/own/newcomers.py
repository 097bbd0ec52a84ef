"""Nodes that arrive later, as a user gives them: looked up, checked, and brought to the columns the model knows."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from scipy import sparse as sp
from torch import Tensor

from ..errors import InputError
from ..graph import Graph
from ..graph.csr import to_scipy, to_tensor
from .arrivals import Arrivals
from .classes import class_name
from .features import FeatureSchema
from .support import name_index, unknown_node


@dataclass(frozen=True)
class Newcomers:
    """All nodes that have arrived at a graph so far, by name, in order."""

    names: tuple[str, ...]
    arrivals: Arrivals

    @classmethod
    def of(
        cls,
        graph: Graph,
        schema: FeatureSchema,
        classes: tuple[str, ...],
        new: Graph,
        edges: Iterable[tuple[Any, Any]],
        before: "Newcomers | None" = None,
    ) -> "Newcomers":
        """The nodes of ``new`` after those that came ``before``; ``edges`` are pairs of names of nodes, old or new."""
        _check(graph, schema, new)
        earlier = () if before is None else before.names
        first = graph.num_nodes + len(earlier)
        names = new.node_names or tuple(map(str, range(first, first + new.num_nodes)))
        place = {name: i for i, name in enumerate((*earlier, *names), graph.num_nodes)}
        _check_new(graph, names, earlier)
        rows = torch.repeat_interleave(torch.arange(new.num_nodes), new.degree.cpu())
        inside = torch.stack([rows, new.indices.cpu().long()]) + first
        across = torch.tensor(_looked_up(graph, place, edges), dtype=torch.long).view(-1, 2).T
        ready = schema.fit(new)
        y = _known_labels(new, classes)
        found = Arrivals(ready.x.to(graph.device), y.to(graph.device), torch.cat([inside, across], 1).to(graph.device))
        if before is not None:
            found = _joined(before.arrivals, found)
        return cls((*earlier, *names), found)


def _check(graph: Graph, schema: FeatureSchema, new: Graph) -> None:
    if schema.structural:
        raise InputError(
            "this model was fitted on a graph without features, in which a node is where it stands; nodes that arrive "
            "later have no place in it yet. Fit the model again on the graph with them"
        )
    if new.features is None:
        raise InputError(f"the new nodes have no features; the model knows {schema.width} columns. Give them these")
    plain = all(getattr(graph, name, None) is None for name in ("weights", "kinds")) and not graph.directed
    if not plain:
        raise InputError(
            "nodes can only be appended to a graph whose edges have no weights, kinds or directions; name the whole "
            "tables instead (--edges and --nodes, in Python attach)"
        )


def _check_new(graph: Graph, names: tuple[str, ...], earlier: tuple[str, ...]) -> None:
    index, came = name_index(graph), set(earlier)
    if there := [name for name in names if name in index or name in came]:
        more = f" ({len(there):,} such nodes)" if len(there) > 1 else ""
        where = "in the graph" if there[0] in index else "among the nodes appended before"
        raise InputError(f"new node {there[0]!r} is {where} already{more}; give it another id, or leave it out")


def _looked_up(graph: Graph, place: dict[str, int], edges: Iterable[tuple[Any, Any]]) -> list[tuple[int, int]]:
    """Positions of the ends of the edges, of which at least one is new."""
    index, found = name_index(graph), []
    for row, (source, target) in enumerate(edges):
        ends = []
        for end in (str(source), str(target)):
            at = place.get(end, index.get(end, -1))
            if at < 0:
                raise InputError(
                    f"new edge {row + 1} ({source} - {target}): {unknown_node(graph, end)}, nor among the new nodes. "
                    "Add it to the new nodes or remove the edge"
                )
            ends.append(at)
        if max(ends) < graph.num_nodes:
            raise InputError(
                f"new edge {row + 1} ({source} - {target}) joins two nodes that were there before; only edges of new "
                "nodes can be appended. Remove it, or fit on the tables with it"
            )
        found.append((ends[0], ends[1]))
    return found


def _known_labels(new: Graph, classes: tuple[str, ...]) -> Tensor:
    """Labels of new nodes as positions in the known ``classes``."""
    number = []
    for c in range(new.num_classes):
        name = class_name(new, c)
        if name not in classes and bool((new.y == c).any()):
            node = int((new.y == c).nonzero()[0])
            who = new.node_names[node] if new.node_names else str(node)
            raise InputError(
                f"new node {who!r} has the label {name!r}, which is no class of the fitted graph; leave the label empty"
            )
        number.append(classes.index(name) if name in classes else -1)
    return torch.tensor([*number, -1])[new.y.cpu()]


def _joined(a: Arrivals, b: Arrivals) -> Arrivals:
    if a.x.layout == torch.sparse_csr:
        x = to_tensor(sp.vstack([to_scipy(a.x), to_scipy(b.x)], format="csr"), a.x.device)
    else:
        x = torch.cat([a.x, b.x])
    return Arrivals(x, torch.cat([a.y, b.y]), torch.cat([a.edges, b.edges], 1))
