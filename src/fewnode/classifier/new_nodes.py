"""Inductive prediction: nodes added after the fit are computed from the cached rows of their neighbours."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy import sparse as sp
from torch import Tensor
from torch.nn import functional as F

from .. import tables
from ..errors import InputError
from ..graph import Graph
from ..graph.arrays import gather_rows, to_tensor
from ..graph.operators import rows_of
from ..nn.features import tfidf
from ..nn.views import FAR_STEPS, NEAR_STEPS, ViewSources
from ..tables.graph_tables import check_once, class_numbers, type_sql
from ..tables.read import is_frame
from ..tables.schema import known_roles, numbers
from .features import FeatureSchema
from .inputs import TableSource, class_name, name_index, names_and_titles, node_name, unknown_node
from .known_classes import PROPAGATION, HopFeatures, linear, one_hot
from .open_set import OpenSetModel, OpenSetTask
from .predictions import Predictions


@dataclass(frozen=True)
class NewNodes:
    """The nodes of the graph ``new``, which are added to another graph of ``N`` nodes.

    They have features ``x [B, F]`` and known classes ``y [B]`` or -1. ``arcs [2, A]`` are pairs of positions (``N`` is
    the first new node), with each edge in both directions, and ``weights [A]`` are in units of the mean weight of the
    other graph.
    """

    new: Graph
    x: Tensor
    y: Tensor
    arcs: Tensor
    weights: Tensor

    @classmethod
    def of(
        cls,
        graph: Graph,
        schema: FeatureSchema,
        model: OpenSetModel,
        source: TableSource | None,
        nodes: Any,
        edges: Any,
    ) -> "NewNodes":
        """New nodes in any form, connected to each other and to nodes of ``graph`` by ``edges`` in any form.

        Nodes are a ``Graph`` or a table (a file, a DataFrame or a list of records). Edges are pairs of names and a
        weight, or a table; their weights are those of the open-set ``model``. Columns have the names of the ``source``;
        labels are optional.
        """
        graph = model.use.seen(graph)
        weighted = graph.weights is not None
        ends, given, place_of = _read_edges(source, edges, weighted)
        if isinstance(nodes, Graph):
            names = nodes.node_names or [str(i) for i in range(graph.num_nodes, graph.num_nodes + nodes.num_nodes)]
            inside, new = nodes.edge_arrays(), replace(nodes, node_names=names)
            if nodes.num_edges and "edge_type" in given:
                raise InputError("a table of new edges with types holds all edges, also those among the new nodes")
            if weighted or "edge_weight" in given:
                each = inside.get("edge_weight", np.ones(inside["edge_index"].shape[1]))
                given["edge_weight"] = [*given.get("edge_weight", np.ones(len(ends))), *each]
            ends += [(names[a], names[b]) for a, b in inside["edge_index"].T]
        else:
            new = _read_nodes(source, nodes)
        n, names = new.num_nodes, new.node_names or ()
        index = {name: i for i, name in enumerate(names)}
        old = name_index(graph, [*names, *(name for pair in ends for name in pair)])
        if there := [name for name in names if name in old]:
            more = f" ({len(there):,} such nodes)" if len(there) > 1 else ""
            where = f"row {index[there[0]] + 1} of the new nodes"
            raise InputError(
                f"{where}: node {there[0]!r} is in the graph already{more}; give it another id, or leave it out"
            )
        for row, pair in enumerate(ends):
            for name in pair:
                if index.setdefault(name, len(index)) >= n and name not in old:
                    told = f"{unknown_node(graph, name)}, nor among the new nodes"
                    raise InputError(f"{place_of(row)}: {told}. Add it to the new nodes or remove the edge")
            if min(index[name] for name in pair) >= n:
                raise InputError(
                    f"{place_of(row)}: {pair[0]} - {pair[1]} joins two nodes that were there before; only edges of "
                    "new nodes are taken. Remove it, or fit on the tables with it"
                )
        ids = np.array([[index[name] for name in pair] for pair in ends], dtype=np.int64).reshape(-1, 2).T
        joined = model.use.seen(Graph.from_edges(ids, num_nodes=len(index), **given))
        place = torch.tensor([*range(graph.num_nodes, graph.num_nodes + n), *(old[name] for name in [*index][n:])])
        arcs = place[torch.stack([rows_of(joined), joined.indices.long()])]
        weights = torch.ones(arcs.shape[1])
        if graph.weights is not None and joined.weights is not None:
            weights = joined.weights / graph.weights.mean().cpu()
        parts = schema.fit(new).x, _known_labels(new, model.classes), arcs, weights
        return cls(new, *(part.to(graph.device) for part in parts))

    def predicted(self, graph: Graph, task: OpenSetTask) -> Predictions:
        """The predictions of the ``task``, whose model has its cached state. New nodes are numbered after those of the
        graph."""
        rows = self._with_nearest(graph, task.model).rows(graph, task.model)
        ids = torch.arange(len(rows.y), device=graph.device)
        found = replace(task, model=rows).probabilities(ids).cpu()
        names, titles = names_and_titles(self.new, ids)
        return Predictions((ids + graph.num_nodes).cpu(), names, task.classes, found, task.kinds, titles)

    @torch.no_grad()
    def _with_nearest(self, graph: Graph, model: OpenSetModel, k: int = 5) -> "NewNodes":
        """With edges from each node without any to the ``k`` old nodes whose columns are most like its own: nodes are
        known by their neighbours, and one without any would be taken for none of the classes."""
        n, alone = graph.num_nodes, torch.ones_like(self.y, dtype=torch.bool)
        alone[self.arcs[self.arcs >= n] - n] = False
        if not bool(alone.any()) or model.cached is None:
            return self
        own, near = self._words(model.sources)[alone], list[Tensor]()
        for some in own.split(256):
            parts = (part.float() for part in model.cached["words"].split(1 << 11))  # small: memory is used again
            like = [some @ part.T / part.norm(dim=1).clamp(min=1e-12) for part in parts]
            near.append(torch.cat(like, 1).topk(min(k, n)).indices)
        to = torch.cat(near)
        arcs = torch.stack([(alone.nonzero() + n).expand_as(to).flatten(), to.flatten()])
        weights = torch.cat([self.weights, self.weights.new_ones(2 * arcs.shape[1])])
        return replace(self, arcs=torch.cat([self.arcs, arcs, arcs.flip(0)], 1), weights=weights)

    def _words(self, sources: ViewSources) -> Tensor:
        """The reduced features of the new nodes."""
        weighted = tfidf(self.x, sources.idf) if self.x.layout == torch.sparse_csr else self.x - sources.centre
        return weighted @ sources.words

    @torch.no_grad()
    def rows(self, graph: Graph, model: OpenSetModel) -> OpenSetModel:
        """The open-set model with the rows of the new nodes in place of those of the graph."""
        if model.cached is None:
            raise InputError("this model was saved without what new nodes need; fit it again")
        graph, known = model.use.seen(graph), model.known
        around = Neighbourhood(graph, self)
        old = {name: part[around.touched].float() for name, part in model.cached.items()}
        x = model.pca.transform(self._views(graph, model.sources, around, old)).half().float()
        alone, n = linear(x, known.weights), len(model.classes)
        if len(known.hops):
            alone = alone + self._hop_logits(HopFeatures.of(graph, model.sources), known.hops, around, old)
        given = F.pad(one_hot(torch.cat([self.y, model.y[around.touched]]), n), (0, 1), value=1)
        labels = torch.stack(
            [
                around.smoothed(given, old[name], restart)
                for name, (restart, _) in zip(("labels_far", "labels_near"), PROPAGATION, strict=True)
            ]
        )
        return replace(model.with_rows(x, alone, labels[:, :, :n], labels[1, :, n]), y=self.y)

    def _hop_logits(
        self, features: HopFeatures, weights: Tensor, around: "Neighbourhood", old: dict[str, Tensor]
    ) -> Tensor:
        """The logits ``[B, C]`` of the regression on features."""
        own, one, two = (features.own(self.x, part) for part in features.hops(weights))
        one = around.mean(torch.cat([one, old["hop_one"]]))
        two = around.two_steps(torch.cat([two, old["hop_two"]]), old["hop_two_mean"])
        return own + one + two + weights[-1]

    def _views(
        self, graph: Graph, sources: ViewSources, around: "Neighbourhood", old: dict[str, Tensor]
    ) -> list[Tensor]:
        """The views of the new nodes, in the order of ``VIEWS``."""
        own = self._words(sources)
        words, links = torch.cat([own, old["words"]]), torch.cat([around.links(graph, sources.links), old["links"]])
        raw = [
            own,
            around.two_steps(words, old["words_mean"]),
            around.smoothed(words, old["words_near"], NEAR_STEPS[1]),
            around.smoothed(words, old["words_far"], FAR_STEPS[1]),
            around.two_steps(links, old["links_mean"]),
            around.smoothed(links, old["links_near"], NEAR_STEPS[1]),
        ]
        return sources.centred(raw)


class Neighbourhood:
    """The new nodes, followed by the old nodes that are ``touched`` by new edges, ``n`` together.

    ``arcs [n, n]`` are the new edges, ``near`` all edges between these nodes, ``mass [n, 1]`` the weight of all edges
    of a node, and ``before`` the weight of the edges it had before.
    """

    def __init__(self, graph: Graph, new: NewNodes) -> None:
        n_old, self.n_new, device = graph.num_nodes, len(new.y), graph.device
        self.touched = new.arcs[new.arcs < n_old].unique()
        at = torch.searchsorted(self.touched, new.arcs.contiguous()) + self.n_new
        here = torch.where(new.arcs < n_old, at, new.arcs - n_old)
        n = self.n_new + len(self.touched)
        self.arcs = _matrix(here, new.weights, n)
        self.pattern = _matrix(here, torch.ones_like(new.weights), n)
        owner, at = gather_rows(graph.indptr, self.touched)
        weights = torch.ones(len(at), device=device)
        if graph.weights is not None:
            weights = graph.weights[at] / graph.weights.mean()
        self.before = torch.zeros(n, 1, device=device)
        self.before[self.n_new :, 0].index_add_(0, owner, weights)
        to = graph.indices[at].long()
        inside = torch.isin(to, self.touched)
        ends = torch.stack([owner[inside], torch.searchsorted(self.touched, to[inside])]) + self.n_new
        self.near = _matrix(torch.cat([here, ends], 1), torch.cat([new.weights, weights[inside]]), n)
        self.mass = self.before + self.arcs @ torch.ones_like(self.before)
        self.scale = (self.mass + 1).rsqrt()

    def mean(self, h: Tensor) -> Tensor:
        """The new rows of the mean of ``h [n, d]`` over the neighbours."""
        return ((self.arcs @ h) / self.mass.clamp(min=1e-9))[: self.n_new]

    def two_steps(self, h: Tensor, means: Tensor) -> Tensor:
        """The new rows of the mean over two-step walks of ``h [n, d]``.

        ``means`` are the former means over the neighbours of the touched nodes.
        """
        total = self.arcs @ h
        total[self.n_new :] += self.before[self.n_new :] * means
        shares = self.mass.clamp(min=1e-9)
        return ((self.arcs @ (total / shares)) / shares)[: self.n_new]

    def smoothed(self, h: Tensor, old: Tensor, restart: float) -> Tensor:
        """The new rows of personalised PageRank of ``h [n, d]``, given the ``old`` rows of the old nodes.

        A few steps are taken among the nodes here, while the contribution of all other nodes stays unchanged.
        """
        n, rest = self.n_new, 1 - restart
        given, had = restart * h, (self.before[n:] + 1).sqrt()
        inside = torch.cat([torch.zeros_like(h[:n]), old / had])
        elsewhere = had * (old - given[n:]) / rest - (inside + self.near @ inside)[n:]
        given[n:] += rest * self.scale[n:] * elsewhere
        own = 1 - rest * self.scale.square()  # the self-loop, brought to the other side
        z = torch.cat([h[:n], old])
        for _ in range(6):
            z = (given + rest * self.scale * (self.near @ (self.scale * z))) / own
        return z[:n]

    def links(self, graph: Graph, basis: Tensor) -> Tensor:
        """The reduced neighbour lists (TF-IDF) of the new nodes; only old nodes have a direction in the basis."""
        new_lists = (self.pattern @ torch.ones_like(self.before))[: self.n_new, 0]
        lists = torch.cat([new_lists, graph.degree[self.touched].float()])[:, None]
        rarity = torch.log((1 + graph.num_nodes) / (2 + lists)) + 1  # every node is in its own list too
        basis = torch.cat([basis.new_zeros(self.n_new, basis.shape[1]), basis[self.touched]])
        lengths = self.pattern @ rarity.square() + rarity.square()
        return ((self.pattern @ (rarity * basis)) / lengths.sqrt())[: self.n_new]


def _matrix(ends: Tensor, values: Tensor, n: int) -> Tensor:
    """The matrix ``[n, n]`` with ``values`` at ``ends [2, A]``."""
    made = sp.csr_matrix((values.cpu().numpy(), ends.cpu().numpy()), shape=(n, n))
    made.sort_indices()
    return to_tensor(made, values.device)


def _known_labels(new: Graph, classes: tuple[str, ...]) -> Tensor:
    """Labels of new nodes as positions in the known ``classes``."""
    names = [class_name(new, c) for c in range(new.num_classes)]
    y = torch.tensor([*(classes.index(name) if name in classes else -2 for name in names), -1])[new.y.cpu()]
    if len(unknown := (y == -2).nonzero()):
        told = f"the label {names[int(new.y[unknown[0]])]!r}, which is no class of the fitted graph"
        raise InputError(f"new node {node_name(new, int(unknown[0]))!r} has {told}; leave the label empty")
    return y


def _read_edges(
    source: TableSource | None, edges: Any, weighted: bool
) -> tuple[list[tuple[str, str]], dict[str, Any], Callable[[int], str]]:
    """The names of both ends of each edge, further arguments of ``Graph.from_edges``, and where a row is."""
    columns, options = ({}, {}) if source is None else (source.columns, source.options)
    kind, by_file = columns.get("edge_type_column"), options.get("type_per_file", False)
    names = [columns.get(f"{name}_column", name) for name in ("source", "target", "weight")]
    if edges is not None and not (isinstance(edges, list | tuple) and not (kind and _are_records(edges))):
        table, given = _table(edges, "new_edges"), {"directed": options.get("directed", False)}
        ends = [table.text(name, "ends of each edge") for name in names[:2]]
        given |= {"edge_weight": numbers(table, names[2])} if "weight_column" in columns else {}
        given |= {"edge_type": table.fetch(type_sql(table, kind, by_file)).tolist()} if kind or by_file else {}
        return list(zip(*ends, strict=True)), given, table.place
    found, weights = list[tuple[str, str]](), list[float]()
    for row, edge in enumerate(edges or ()):
        cells = [edge.get(name) for name in names] if isinstance(edge, Mapping) else [*edge, None][:3]
        try:
            a, b, weight = cells
            weights.append(1.0 if weight is None else float(weight))
        except (TypeError, ValueError):
            a = None
        if a is None or b is None:
            told = f"new edge {row + 1} is {edge!r}"
            raise InputError(f"{told}; write (node, node), (node, node, weight), or a record of {names}")
        found.append((str(a), str(b)))
    return found, {"edge_weight": weights} if weighted else {}, lambda row: f"new edge {row + 1}"


def _read_nodes(source: TableSource | None, nodes: Any) -> Graph:
    """The nodes in a table, without edges."""
    if source is None or source.encoder is None or source.features is not None:
        raise InputError(
            "tables of new nodes are read as those of the fitting were, but this model was fitted on no table of nodes "
            "that holds their features. Give a graph of the new nodes, or read the whole tables again"
        )
    table, found = _table(nodes, "new_nodes"), dict[str, Any]()
    table.decimal = source.options.get("decimal")
    roles = known_roles(table, source.columns)
    named = {role.use: role.column for role in roles}
    check_once(table, named["id"], "Give every new node an id of its own")
    x, found["feature_names"], found["blocks"] = source.encoder.copy().encode(table, roles)
    if "label" in named:
        how = source.options.get("multi_label"), len(table)
        found["y"], found["class_names"] = class_numbers(table, named["label"], [], *how)
    if "title" in named:
        found["node_titles"] = table.text(named["title"])
    return Graph.from_edges(np.empty((2, 0), dtype=np.int64), x, node_names=table.text(named["id"]), **found)


def _are_records(given: Any) -> bool:
    return isinstance(given, list | tuple) and bool(given) and all(isinstance(row, Mapping) for row in given)


def _table(given: Any, what: str) -> tables.Table:
    """A table in any of its forms: also records, dictionaries with the same keys."""
    if _are_records(given):
        if not (keys := dict.fromkeys(key for row in given for key in row)):
            raise InputError(f"{what} has no rows with columns; name those of the table that the model was fitted on")
        return tables.Table.of(what, {str(key): [row.get(key) for row in given] for key in keys})
    if not (is_frame(given) or isinstance(given, str | os.PathLike)):
        raise InputError(f"{what} is of type {type(given).__name__}; give a DataFrame, a file or a list of records")
    return tables.read_columns(given, name=what)
