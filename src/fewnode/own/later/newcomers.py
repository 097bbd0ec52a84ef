"""Nodes that arrive later, as a user gives them: looked up, checked, and brought to the columns the model knows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from scipy import sparse as sp
from torch import Tensor

from ...errors import InputError
from ...graph import Graph
from ...graph.csr import to_scipy, to_tensor
from ...graph.edge_use import kind_counts
from ...graph.relations import relation, union
from ..classes import class_name
from ..features import FeatureSchema
from ..openworld.question import OpenQuestion, OpenWorldModel
from ..predictions import Predictions
from ..support import name_index, node_name, unknown_node
from .arrivals import Arrivals, arrived


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
        world: OpenWorldModel,
        new: Graph,
        edges: Iterable[Sequence[Any]] = (),
        before: "Newcomers | None" = None,
        listed: int | None = None,
    ) -> "Newcomers":
        """The nodes of ``new`` after those that came ``before``; ``edges`` are further pairs of names, old or new.

        Only the first ``listed`` nodes of ``new`` are new, by default all: the others are there already, and only stand
        in it because its edges name them. The edges of both graphs count as they do in the open ``world``.
        """
        whole, use = world.use.seen(new), world.use
        graph, new = union(use.seen(graph)), union(whole)
        _check(graph, schema, new)
        earlier = () if before is None else before.names
        first, n = graph.num_nodes + len(earlier), new.num_nodes if listed is None else listed
        names = new.node_names or tuple(map(str, range(first, first + n)))
        _check_new(graph, names[:n], earlier)
        index = {name: i for i, name in enumerate((*earlier, *names[:n]), graph.num_nodes)}
        place = torch.tensor([_position(graph, index, name) for name in names])
        rows = torch.repeat_interleave(torch.arange(new.num_nodes), new.degree.cpu())
        inside = place[torch.stack([rows, new.indices.cpu().long()])]
        arcs, weights = _arcs(graph, inside, new.weights, *_looked_up(graph, index, edges))
        _check_touching(graph, arcs)
        x, y = _rows(schema.fit(new).x, n), _known_labels(new, world.classes)[:n]
        kinds = kind_counts(whole, use.kinds)[:n].to(graph.device) if use.kinds else None
        beside = tuple(_beside(relation(whole, name), place, n, graph.device) for name in use.relations)
        x, y, arcs, weights = (part.to(graph.device) for part in (x, y, arcs, weights))
        found = Arrivals(x, y, arcs, weights, beside, kinds)
        return cls((*earlier, *names[:n]), found if before is None else _joined(before.arrivals, found))

    def predicted(self, graph: Graph, world: OpenWorldModel, question: OpenQuestion, count: int) -> Predictions:
        """The answers of the last ``count`` of them; their numbers go on where those of the graph end."""
        rows = arrived(union(world.use.seen(graph)), world, self.arrivals)
        ids = torch.arange(len(rows.y), device=graph.device)[-count:]
        found = replace(question, model=rows).probabilities(ids).cpu()
        nodes, names = (ids + graph.num_nodes).cpu(), list(self.names[-count:])
        return Predictions(nodes, names, question.classes, found, question.kinds)


def _check(graph: Graph, schema: FeatureSchema, new: Graph) -> None:
    if schema.structural:
        raise InputError(
            "this model was fitted on a graph without features, in which a node is where it stands; nodes that arrive "
            "later have no place in it yet. Fit the model again on the graph with them"
        )
    if new.features is None:
        raise InputError(f"the new nodes have no features; the model knows {schema.width} columns. Give them these")
    if (graph.weights is None) != (new.weights is None) and len(new.indices):
        has, lacks = ("the graph", "the new ones") if new.weights is None else ("the new ones", "the graph")
        raise InputError(f"edges of {has} have weights, but those of {lacks} have none; give both weights or neither")


def _check_new(graph: Graph, names: Sequence[str], earlier: tuple[str, ...]) -> None:
    index, came = name_index(graph), set(earlier)
    if there := [name for name in names if name in index or name in came]:
        more = f" ({len(there):,} such nodes)" if len(there) > 1 else ""
        where = "in the graph" if there[0] in index else "among the nodes appended before"
        raise InputError(f"new node {there[0]!r} is {where} already{more}; give it another id, or leave it out")


def _position(graph: Graph, index: dict[str, int], name: str) -> int:
    at = index.get(name, name_index(graph).get(name, -1))
    if at < 0:
        raise InputError(
            f"a new edge names {name!r}, but {unknown_node(graph, name)}, nor among the new nodes. Add it to the new "
            "nodes or remove the edge"
        )
    return at


def _looked_up(graph: Graph, index: dict[str, int], edges: Iterable[Sequence[Any]]) -> tuple[Tensor, Tensor]:
    """Positions ``[2, E]`` of the ends of edges, and their weights, one where none is said."""
    ends, weights = [], []
    for row, edge in enumerate(edges):
        try:
            source, target, *weight = edge
            ends.append([_position(graph, index, str(end)) for end in (source, target)])
            weights.append(float(*weight) if weight else 1.0)
        except InputError as error:
            raise InputError(f"new edge {row + 1} ({source} - {target}): {error}") from None
        except (TypeError, ValueError):
            raise InputError(f"new edge {row + 1} is {edge!r}; write (node, node) or (node, node, weight)") from None
    return torch.tensor(ends, dtype=torch.long).view(-1, 2).T, torch.tensor(weights)


def _arcs(
    graph: Graph, inside: Tensor, inside_weights: Tensor | None, across: Tensor, across_weights: Tensor
) -> tuple[Tensor, Tensor]:
    """All edges both ways, each once, and their weights in the unit of the graph's, in which the mean is one; one each
    where those of the graph do not count."""
    if graph.weights is None:
        across_weights = torch.ones_like(across_weights)
    unit = 1.0 if graph.weights is None else float(graph.weights.mean())
    given = torch.ones(inside.shape[1]) if inside_weights is None else inside_weights.cpu()
    arcs = torch.cat([inside, across, across.flip(0)], 1)
    weights = torch.cat([given, across_weights, across_weights]) / unit
    apart = arcs[0] != arcs[1]
    arcs, place = arcs[:, apart].unique(dim=1, return_inverse=True)
    return arcs, torch.zeros(arcs.shape[1]).scatter_(0, place, weights[apart])


def _beside(new: Graph, place: Tensor, n: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The arcs of the first ``n`` nodes, by their places, and their weights."""
    count = int(new.indptr[n])
    rows = torch.repeat_interleave(torch.arange(n), new.degree[:n].cpu())
    weights = torch.ones(count) if new.weights is None else new.weights[:count].cpu()
    return place[torch.stack([rows, new.indices[:count].cpu().long()])].to(device), weights.to(device)


def _check_touching(graph: Graph, arcs: Tensor) -> None:
    """Every edge has a new node at one end at least."""
    old = (arcs < graph.num_nodes).all(0)
    if bool(old.any()):
        ends = [node_name(graph, int(end)) for end in arcs[:, int(old.nonzero()[0])]]
        raise InputError(
            f"the new edge {ends[0]} - {ends[1]} joins two nodes that were there before; only edges of new nodes can "
            "be appended. Remove it, or fit on the tables with it"
        )


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


def _rows(x: Tensor, n: int) -> Tensor:
    """The first ``n`` rows."""
    if len(x) == n:
        return x
    return to_tensor(to_scipy(x)[:n], x.device) if x.layout == torch.sparse_csr else x[:n]


def _joined(a: Arrivals, b: Arrivals) -> Arrivals:
    if a.x.layout == torch.sparse_csr:
        x = to_tensor(sp.vstack([to_scipy(a.x), to_scipy(b.x)], format="csr"), a.x.device)
    else:
        x = torch.cat([a.x, b.x])
    arcs, weights = torch.cat([a.arcs, b.arcs], 1), torch.cat([a.weights, b.weights])
    beside = tuple(
        (torch.cat([one[0], two[0]], 1), torch.cat([one[1], two[1]]))
        for one, two in zip(a.beside, b.beside, strict=True)
    )
    kinds = None if a.kinds is None or b.kinds is None else torch.cat([a.kinds, b.kinds])
    return Arrivals(x, torch.cat([a.y, b.y]), arcs, weights, beside, kinds)
