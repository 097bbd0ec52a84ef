"""Inductive prediction: nodes that are added after the fit are computed from the cached rows of their neighbours."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy import sparse as sp
from torch import Tensor

from .. import tables
from ..errors import InputError
from ..graph import Graph
from ..graph.arrays import gather_rows, to_scipy, to_tensor
from ..graph.operators import rows_of
from ..nn.features import tfidf
from ..nn.views import FAR_STEPS, NEAR_STEPS, ViewSources
from ..tables.cells import numbers
from ..tables.encode import encode
from ..tables.graph_tables import class_numbers, edge_types
from ..tables.read import cells_of, is_frame, table_of
from ..tables.schema import node_roles
from .features import FeatureSchema, arranged
from .inputs import TableSource, class_name, name_index, node_name, node_titles, unknown_node
from .known_classes import PROPAGATION, HopFeatures, class_prior, linear, log_shares, one_hot
from .novelty import node_features
from .open_set import OpenSetModel, OpenSetTask
from .predictions import Predictions


@dataclass(frozen=True)
class NewNodes:
    """Nodes that are added to a graph of ``N``: their ``names`` and ``titles``, features ``x [B, F]``, known classes
    ``y [B]`` or -1, and ``arcs [2, A]`` of positions, in which ``N`` is the first new node: each edge both ways, with
    ``weights [A]`` in units of the mean weight of the graph."""

    names: tuple[str, ...]
    titles: tuple[str, ...]
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
        new: Graph,
        edges: Iterable[Sequence[Any]] = (),
        listed: int | None = None,
    ) -> "NewNodes":
        """The nodes of ``new``; ``edges`` are further pairs of names, old or new.

        Only the first ``listed`` nodes of ``new`` are new, by default all: the others are in the graph already, and
        its edges name them. The edges of both graphs count as they do in the open-set ``model``.
        """
        graph, new = (model.use.seen(part) for part in (graph, new))
        _check(graph, schema, new)
        pairs, n = _checked_pairs(edges), new.num_nodes if listed is None else listed
        names = new.node_names or tuple(map(str, range(graph.num_nodes, graph.num_nodes + n)))
        place = Places(graph, names, n, [end for pair in pairs for end in pair[:2]])
        inside = torch.tensor([place[name] for name in names])
        inside = inside[torch.stack([rows_of(new).cpu(), new.indices.cpu().long()])]
        across = torch.tensor([[place[a], place[b]] for a, b, _ in pairs], dtype=torch.long).view(-1, 2).T
        weights = torch.tensor([weight for _, _, weight in pairs])
        arcs, weights = _arcs(graph, inside, new.weights, across, weights)
        x, y = _rows(schema.fit(new).x, n), _known_labels(new, model.classes)[:n]
        titles = tuple(node_titles(new, range(n)) or [""] * n)
        return cls(tuple(names[:n]), titles, *(part.to(graph.device) for part in (x, y, arcs, weights)))

    def predicted(self, graph: Graph, task: OpenSetTask, model: OpenSetModel) -> Predictions:
        """Their predictions by the ``task``; their numbers follow those of the graph. ``model`` is that of the task,
        with its cached state."""
        rows = self.rows(graph, model)
        ids = torch.arange(len(rows.y), device=graph.device)
        found = replace(task, model=rows).probabilities(ids).cpu()
        titles = list(self.titles) if any(self.titles) else None
        return Predictions((ids + graph.num_nodes).cpu(), list(self.names), task.classes, found, task.kinds, titles)

    @torch.no_grad()
    def rows(self, graph: Graph, model: OpenSetModel) -> OpenSetModel:
        """The open-set model with the rows of the new nodes in place of those of the graph."""
        if model.pipeline is None or model.cached is None:
            raise InputError("this model was saved without what new nodes need; fit it again")
        graph, pipeline = model.use.seen(graph), model.pipeline
        around = Neighbourhood(graph, self)
        old, known = {name: part[around.touched].float() for name, part in model.cached.items()}, pipeline.known
        x = pipeline.pca.transform(self._views(graph, pipeline.sources, around, old)).half().float()
        alone, n = linear(x, known.weights), len(model.classes)
        if len(known.hops):
            alone = alone + self._hop_logits(HopFeatures.of(graph, pipeline.sources), known.hops, around, old)
        all_y = torch.cat([self.y, model.y[around.touched]])
        own = torch.where((self.y >= 0)[:, None], one_hot(self.y, n), alone.softmax(1))
        predictions = torch.cat([own, model.predictions[around.touched].float()])
        given = [one_hot(all_y, n), predictions, torch.ones_like(predictions[:, :1])]
        far, near = (
            around.smoothed(torch.cat(given, 1), old[name], restart)
            for name, (restart, _) in zip(("labels_far", "labels_near"), PROPAGATION, strict=True)
        )
        logits, prior = known.mix[0] * alone, class_prior(model.y, n)
        masses = near[:, :n].sum(1), near[:, -1]
        parts = [part[:, at : at + n] for at in (0, n) for part in (far, near)]
        for weight, part in zip(known.mix[1:], parts, strict=True):
            logits = logits + weight * log_shares(part.clone(), part.sum(1, keepdim=True), prior)
        features = node_features(x, model.moments, logits, alone, *masses)
        return replace(model, x=x, y=self.y, log_known=logits.log_softmax(1), features=features)

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
        weighted = tfidf(self.x, sources.idf) if self.x.layout == torch.sparse_csr else self.x - sources.centre
        own = weighted @ sources.words
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
    """The new nodes and, after them, the ``touched`` old ones, ``n`` together, with the new edges as ``arcs [n, n]``.
    ``mass [n, 1]`` is the weight of all edges of a node, ``before`` of those that were there."""

    def __init__(self, graph: Graph, new: NewNodes) -> None:
        n_old, self.n_new, device = graph.num_nodes, len(new.y), graph.device
        self.touched = new.arcs[new.arcs < n_old].unique()
        at = torch.searchsorted(self.touched, new.arcs.contiguous()) + self.n_new
        here = torch.where(new.arcs < n_old, at, new.arcs - n_old)
        shape = (self.n_new + len(self.touched),) * 2
        arcs = sp.csr_matrix((new.weights.cpu().numpy(), here.cpu().numpy()), shape=shape)
        arcs.sort_indices()
        self.arcs, gap = to_tensor(arcs, device), torch.zeros(self.n_new, device=device)
        arcs.data[:] = 1
        self.pattern = to_tensor(arcs, device)
        self.before = torch.cat([gap, _mass(graph, self.touched)])[:, None]
        self.mass = self.before + self.arcs @ torch.ones_like(self.before)
        self.scale = (self.mass + 1).rsqrt()

    def mean(self, h: Tensor) -> Tensor:
        """The new rows of the mean of ``h [n, d]`` over the neighbours."""
        return ((self.arcs @ h) / self.mass.clamp(min=1e-9))[: self.n_new]

    def two_steps(self, h: Tensor, means: Tensor) -> Tensor:
        """The new rows of the mean over two-step walks of ``h [n, d]``; ``means`` are those over the neighbours that
        the touched nodes had."""
        total = self.arcs @ h
        total[self.n_new :] += self.before[self.n_new :] * means
        shares = self.mass.clamp(min=1e-9)
        return ((self.arcs @ (total / shares)) / shares)[: self.n_new]

    def smoothed(self, h: Tensor, old: Tensor, restart: float) -> Tensor:
        """The new rows of personalised PageRank of ``h [n, d]``, where those of the touched nodes were ``old``: a few
        steps between new nodes and touched ones, while what reaches the latter from elsewhere stays as it was."""
        n = self.n_new
        had = self.before[n:] + 1
        elsewhere = had.sqrt() * (old - restart * h[n:]) / (1 - restart) - old / had.sqrt()
        given = restart * h
        given[n:] += (1 - restart) * self.scale[n:] * elsewhere
        own = 1 - (1 - restart) * self.scale.square()  # the self-loop, brought to the other side
        z = torch.cat([h[:n], old])
        for _ in range(6):
            z = (given + (1 - restart) * self.scale * (self.arcs @ (self.scale * z))) / own
        return z[:n]

    def links(self, graph: Graph, basis: Tensor) -> Tensor:
        """The reduced neighbour lists (TF-IDF) of the new nodes: only old nodes have a direction in the basis."""
        new_lists = (self.pattern @ torch.ones_like(self.before))[: self.n_new, 0]
        lists = torch.cat([new_lists, graph.degree[self.touched].float()])[:, None]
        rarity = torch.log((1 + graph.num_nodes) / (2 + lists)) + 1  # every node is in its own list too
        basis = torch.cat([basis.new_zeros(self.n_new, basis.shape[1]), basis[self.touched]])
        lengths = self.pattern @ rarity.square() + rarity.square()
        return ((self.pattern @ (rarity * basis)) / lengths.sqrt())[: self.n_new]


def _mass(graph: Graph, nodes: Tensor) -> Tensor:
    """The weights of the edges of some nodes together."""
    if graph.weights is None:
        return graph.degree[nodes].float()
    owner, at = gather_rows(graph.indptr, nodes)
    weights = graph.weights[at] / graph.weights.mean()
    return weights.new_zeros(len(nodes)).index_add_(0, owner, weights)


def _check(graph: Graph, schema: FeatureSchema, new: Graph) -> None:
    if schema.structural:
        raise InputError(
            "this model was fitted on a graph without features, whose nodes are described by their position; new nodes "
            "have none in it yet. Fit the model again on the graph with them"
        )
    if new.features is None:
        raise InputError(f"the new nodes have no features; the model knows {schema.width} columns. Give them these")
    if (graph.weights is None) != (new.weights is None) and len(new.indices):
        has, lacks = ("the graph", "the new ones") if new.weights is None else ("the new ones", "the graph")
        raise InputError(f"edges of {has} have weights, but those of {lacks} have none; give both weights or neither")


class Places:
    """The numbers of nodes by name: the first ``n`` of ``names`` follow those of the graph, which has the others, as it
    has the ``ends`` of further edges."""

    def __init__(self, graph: Graph, names: Sequence[str], n: int, ends: Sequence[str]) -> None:
        self.graph, self.old = graph, name_index(graph, [*names, *ends])
        self.new = {name: i for i, name in enumerate(names[:n], graph.num_nodes)}
        if there := [name for name in self.new if name in self.old]:
            more = f" ({len(there):,} such nodes)" if len(there) > 1 else ""
            raise InputError(
                f"new node {there[0]!r} is in the graph already{more}; give it another id, or leave it out"
            )

    def __getitem__(self, name: str) -> int:
        at = self.new.get(name, self.old.get(name, -1))
        if at < 0:
            raise InputError(
                f"a new edge names {name!r}, but {unknown_node(self.graph, name)}, nor among the new nodes. Add it to "
                "the new nodes or remove the edge"
            )
        return at


def _checked_pairs(edges: Iterable[Sequence[Any]]) -> list[tuple[str, str, float]]:
    """Edges given as pairs of names, with their weights, one where none is given."""
    found = []
    for row, edge in enumerate(edges):
        try:
            source, target, *weight = edge
            found.append((str(source), str(target), float(*weight) if weight else 1.0))
        except (TypeError, ValueError):
            raise InputError(f"new edge {row + 1} is {edge!r}; write (node, node) or (node, node, weight)") from None
    return found


def _arcs(
    graph: Graph, inside: Tensor, inside_weights: Tensor | None, across: Tensor, across_weights: Tensor
) -> tuple[Tensor, Tensor]:
    """All edges both ways, each once, and their weights in units of the graph's mean weight; one each where the graph
    has none. Each has a new node at one end at least."""
    if graph.weights is None:
        across_weights = torch.ones_like(across_weights)
    unit = 1.0 if graph.weights is None else float(graph.weights.mean())
    given = torch.ones(inside.shape[1]) if inside_weights is None else inside_weights.cpu()
    arcs = torch.cat([inside, across, across.flip(0)], 1)
    weights = torch.cat([given, across_weights, across_weights]) / unit
    if bool((old := (arcs < graph.num_nodes).all(0)).any()):
        ends = [node_name(graph, int(end)) for end in arcs[:, int(old.nonzero()[0])]]
        raise InputError(
            f"the new edge {ends[0]} - {ends[1]} joins two nodes that were there before; only edges of new nodes can "
            "be appended. Remove it, or fit on the tables with it"
        )
    apart = arcs[0] != arcs[1]
    arcs, place = arcs[:, apart].unique(dim=1, return_inverse=True)
    return arcs, torch.zeros(arcs.shape[1]).scatter_(0, place, weights[apart])


def _known_labels(new: Graph, classes: tuple[str, ...]) -> Tensor:
    """Labels of new nodes as positions in the known ``classes``."""
    number = []
    for c in range(new.num_classes):
        name = class_name(new, c)
        if name not in classes and bool((new.y == c).any()):
            node = int((new.y == c).nonzero()[0])
            raise InputError(
                f"new node {node_name(new, node)!r} has the label {name!r}, which is no class of the fitted graph; "
                "leave the label empty"
            )
        number.append(classes.index(name) if name in classes else -1)
    return torch.tensor([*number, -1])[new.y.cpu()]


def _rows(x: Tensor, n: int) -> Tensor:
    """The first ``n`` rows."""
    if len(x) == n:
        return x
    return to_tensor(to_scipy(x)[:n], x.device) if x.layout == torch.sparse_csr else x[:n]


def read_new_nodes(
    source: TableSource | None, schema: FeatureSchema, graph: Graph, nodes: Any, edges: Any
) -> tuple[Graph, int, list[Any]]:
    """The graph in a table of new nodes and one of edges that join them to old ones and to each other; how many of its
    first nodes are new, the others being named by the edges; and edges that were given as pairs of names.

    Tables are files, DataFrames or lists of records; there may be no edges. Columns have the names and the meaning of
    those of the ``source``; labels may be left out.
    """
    if source is None or source.encoder is None or source.features is not None:
        raise InputError(
            "tables of new nodes are read as those of the fitting were, but this model was fitted on no table of nodes "
            "that holds their features. Give a graph of the new nodes, or read the whole tables again"
        )
    table, columns, options = _table(nodes, "new_nodes"), source.columns, source.options
    table.decimal = options.get("decimal")
    roles = node_roles(table, columns, (), again=True)
    named = {role.use: role.column for role in roles}
    names: dict[str, int] = {}
    for row, name in enumerate(table.text(named["id"])):
        if not name or names.setdefault(name, row) < row:
            what = f"node id {name!r} is repeated" if name else "the node id is missing"
            raise InputError(f"{table.place(row, named['id'])}: {what}; give every new node an id of its own")
    old = name_index(graph, [*names])
    if there := [name for name in names if name in old]:
        raise InputError(
            f"{table.place(names[there[0]], named['id'])}: node {there[0]!r} is in the graph already ({len(there):,} "
            "such rows); new nodes are those that are not. Leave it out"
        )
    x, feature_names, blocks, _ = encode(table, roles, source.encoder)
    given: dict[str, Any] = {"x": arranged(x, feature_names, schema.names), "blocks": blocks}
    if "label" in named:
        found = class_numbers(table, named["label"], [], options.get("multi_label"), len(table))
        numbers_of, given["class_names"] = found
        given["y"] = table.codes(named["label"], numbers_of)
    if "title" in named:
        given["node_titles"] = table.text(named["title"])
    pairs, n, ends = list[Any](), len(table), np.empty((2, 0), dtype=np.int64)
    kind = options.get("type_per_file") or columns.get("edge_type_column")
    if isinstance(edges, list | tuple) and not (kind and _are_records(edges)):
        ends_of = [columns.get(f"{name}_column", name) for name in ("source", "target", "weight")]
        pairs = [_pair(edge, ends_of) if isinstance(edge, Mapping) else edge for edge in edges]
    elif edges is not None:
        joined = _table(edges, "new_edges")
        texts = [joined.text(columns.get(f"{end}_column", end), f"{end} of each edge") for end in ("source", "target")]
        old = name_index(graph, [*texts[0], *texts[1]])
        for row, name in ((row, end) for row, pair in enumerate(zip(*texts, strict=True)) for end in pair):
            if name not in names and name not in old:
                raise InputError(
                    f"{joined.place(row)}: node {name!r} is neither in the graph nor among the new nodes. Add it to "
                    "the new nodes or remove the edge"
                )
        ends = np.array([[names.setdefault(name, len(names)) for name in part] for part in texts])
        if weight := columns.get("weight_column"):
            given["edge_weight"] = numbers(joined, weight)
        if kind:
            by_file = options.get("type_per_file", False)
            given["edge_type"] = edge_types(joined, columns.get("edge_type_column"), by_file)
    more = {name: _padded(part, len(names)) for name, part in given.items() if name in ("x", "y", "node_titles")}
    directed = options.get("directed", False)
    return Graph.from_edges(ends, node_names=[*names], directed=directed, **given | more), n, pairs


def _padded(part: Any, n: int) -> Any:
    """Rows of new nodes, and after them those of old ones, which nobody looks at."""
    if isinstance(part, list):
        return part + [""] * (n - len(part))
    if sp.issparse(part):
        part.resize(n, part.shape[1])
        return part
    return part if part is None else np.pad(part, [(0, n - len(part)), *[(0, 0)] * (part.ndim - 1)])


def _are_records(given: Any) -> bool:
    return isinstance(given, list | tuple) and bool(given) and all(isinstance(row, Mapping) for row in given)


def _pair(edge: Mapping[str, Any], columns: Sequence[str]) -> list[Any]:
    """The two ends, and the weight if there is one, of a record of an edge."""
    if lost := [name for name in columns[:2] if not edge.get(name)]:
        raise InputError(
            f"a new edge has no {lost[0]!r}: {dict(edge)!r}; give every edge {columns[0]!r} and {columns[1]!r}"
        )
    return [edge[name] for name in columns if edge.get(name) is not None]


def _table(given: Any, what: str) -> tables.Table:
    """A table in any of its forms: also records, dictionaries with the same keys."""
    if _are_records(given):
        if not (keys := dict.fromkeys(key for row in given for key in row)):
            raise InputError(f"{what} has no rows with columns; name those of the table that the model was fitted on")
        columns = ([row.get(key) for row in given] for key in keys)
        return tables.Table.of(what, {str(key): cells_of(cells) for key, cells in zip(keys, columns, strict=True)})
    return table_of(given, what) if is_frame(given) else tables.read_columns(given)
