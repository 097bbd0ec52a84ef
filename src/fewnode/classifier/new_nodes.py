"""Inductive prediction: nodes that are added after the fit."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from scipy import sparse as sp
from torch import Tensor

from .. import tables
from ..errors import InputError
from ..graph import Graph
from ..graph.arrays import csr_tensor, gather_rows, to_scipy, to_tensor
from ..graph.edge_types import relation, type_counts, union
from ..nn.features import tfidf
from ..nn.views import BESIDE, FAR_STEPS, NEAR_STEPS, ViewSources, centred
from ..tables.read import is_frame, table_of
from .features import FeatureSchema
from .inputs import TableSource, class_name, name_index, node_name, unknown_node
from .known_classes import FAINT, SPREADS, label_matrix, scores
from .novelty import node_facts
from .open_set import OpenQuestion, OpenSetModel, Relay
from .predictions import Predictions

# --- Nodes that arrive later: their rows in the open-world model, from what their neighbours hand on to them.
TINY = 1e-9
STEPS = 6  # of the equations: new nodes hear of each other over a few edges, the rest is there from the start


@dataclass(frozen=True)
class Arrivals:
    """New nodes beside a graph of ``N``: ``x [B, F]`` like the features of the graph, ``y [B]`` positions of known
    classes or -1, and ``arcs [2, A]`` of positions, in which ``N`` is the first of the new nodes: each edge both ways,
    with ``weights [A]`` in the unit of the graph's, in which their mean is one. ``beside`` are the arcs (node and
    neighbour) and weights of new nodes along each relation that is used, ``edge_types [B, K]`` their edge types."""

    x: Tensor
    y: Tensor
    arcs: Tensor
    weights: Tensor
    beside: tuple[tuple[Tensor, Tensor], ...] = ()
    edge_types: Tensor | None = None

    def __len__(self) -> int:
        return len(self.y)


class Neighbourhood:
    """The new nodes and, below them, the ``touched`` old ones, ``n`` together, with the new edges as ``arcs [n, n]``.

    ``mass [n, 1]`` is the weight of all edges of a node, ``before`` of those that were there; ``lists`` counts them.
    """

    def __init__(self, graph: Graph, arrivals: Arrivals) -> None:
        n_old, self.n_new = graph.num_nodes, len(arrivals)
        old = arrivals.arcs < n_old
        self.touched = arrivals.arcs[old].unique()
        below = self.n_new + torch.searchsorted(self.touched, arrivals.arcs.clamp(max=n_old - 1).contiguous())
        place = torch.where(old, below, arrivals.arcs - n_old)
        self.n_old = n_old
        size = self.n_new + len(self.touched)
        order = (place[0] * size + place[1]).argsort()
        self.rows, self.columns = place[:, order]
        count = torch.bincount(self.rows, minlength=size)
        self.indptr = torch.cat([count.new_zeros(1), count.cumsum(0)])
        weights = arrivals.weights[order]
        self.arcs, self.pattern = self._matrix(weights), self._matrix(torch.ones_like(weights))
        gap = weights.new_zeros(self.n_new)
        self.before = torch.cat([gap, _mass(graph, self.touched)])[:, None]
        self.lists = torch.cat([count[: self.n_new].float(), graph.degree[self.touched].float()])[:, None]
        self.mass = self.before.index_add(0, self.rows, weights[:, None])
        self.scale = (self.mass + 1).rsqrt()
        self.normal = self._matrix(weights * (self.scale[self.rows] * self.scale[self.columns])[:, 0])

    def _matrix(self, values: Tensor) -> Tensor:
        size = len(self.indptr) - 1
        return csr_tensor(self.indptr, self.columns, values, (size, size))

    def beside(self, h: Tensor, arcs: Tensor, weights: Tensor) -> Tensor:
        """The new rows of the mean of ``h [n, d]`` over the neighbours along some ``arcs [2, A]``."""
        old = arcs[1] < self.n_old
        below = self.n_new + torch.searchsorted(self.touched, arcs[1].clamp(max=self.n_old - 1).contiguous())
        column, row = torch.where(old, below, arcs[1] - self.n_old), arcs[0] - self.n_old
        total = h.new_zeros(self.n_new, h.shape[1]).index_add_(0, row, weights[:, None] * h[column])
        return total / h.new_zeros(self.n_new, 1).index_add_(0, row, weights[:, None]).clamp(min=TINY)

    def two_steps(self, h: Tensor, means: Tensor) -> Tensor:
        """The new rows of the mean over two-step walks of ``h [n, d]``; ``means`` are those over the neighbours that
        the touched nodes had."""
        total = self.arcs @ h
        total[self.n_new :] += self.before[self.n_new :] * means
        shares = self.mass.clamp(min=TINY)
        return ((self.arcs @ (total / shares)) / shares)[: self.n_new]

    def smoothed(self, h: Tensor, old: Tensor, restart: float) -> Tensor:
        """The new rows of personalised PageRank of ``h [n, d]``, where those of the touched nodes were ``old``."""
        n = self.n_new
        had = self.before[n:] + 1
        elsewhere = had.sqrt() * (old - restart * h[n:]) / (1 - restart) - old / had.sqrt()
        given = restart * h
        given[n:] += (1 - restart) * self.scale[n:] * elsewhere
        own = 1 - (1 - restart) * self.scale.square()  # the self-loop, brought to the other side
        z = torch.cat([h[:n], old])
        for _ in range(STEPS):
            z = torch.addmm(given, self.normal, z, alpha=1 - restart) / own
        return z[:n]


@torch.no_grad()
def arrived(graph: Graph, model: OpenSetModel, arrivals: Arrivals) -> OpenSetModel:
    """The open-world model with the rows of the new nodes in place of those of the graph."""
    if model.recipe is None or model.relay is None:
        raise InputError("this model was saved without what new nodes need; fit it again")
    around, recipe = Neighbourhood(graph, arrivals), model.recipe
    old = model.relay.of_nodes(around.touched)
    x = recipe.frame.coordinates(_views(graph, recipe.sources, around, old, arrivals)).half().float()
    alone = scores(x, recipe.head.weights)
    n_classes = alone.shape[1]
    labels = label_matrix(arrivals.y, n_classes)
    answers = torch.where((arrivals.y >= 0)[:, None], labels, alone.softmax(1))
    beside = label_matrix(model.y[around.touched], n_classes), recipe.answers[around.touched]
    said = torch.cat([torch.cat(pair) for pair in zip((labels, answers), beside, strict=True)], 1)
    said = torch.cat([said, torch.ones_like(said[:, :1])], 1)
    (far, _), (near, _) = SPREADS
    heard = around.smoothed(said, old.said_far, far), around.smoothed(said, old.said_near, near)
    logits = recipe.head.mix[0] * alone
    shares = _shares(model.y, n_classes)
    opinions = [part[:, at : at + n_classes] for at in (0, n_classes) for part in heard]
    for weight, opinion in zip(recipe.head.mix[1:], opinions, strict=True):
        logits = logits + weight * ((opinion + FAINT * shares) / (opinion.sum(1, keepdim=True) + FAINT)).log()
    masses = heard[1][:, :n_classes].sum(1), heard[1][:, -1]
    facts = node_facts(x, model.moments, logits, alone, *masses)
    return replace(model, x=x, y=arrivals.y, log_known=logits.log_softmax(1), facts=facts)


def _views(graph: Graph, sources: ViewSources, around: Neighbourhood, old: Relay, arrivals: Arrivals) -> list[Tensor]:
    """The views of the new nodes, in the order of ``VIEWS``, then the further ones."""
    x = arrivals.x
    weighted = tfidf(x, sources.idf) if x.layout == torch.sparse_csr else x - sources.centre
    new_words = weighted @ sources.words
    words = torch.cat([new_words, old.words])
    links = torch.cat([_links(graph, sources, around), old.links])
    raw = [
        new_words,
        around.two_steps(words, old.words_mean),
        around.smoothed(words, old.words_near, NEAR_STEPS[1]),
        around.smoothed(words, old.words_far, FAR_STEPS[1]),
        around.two_steps(links, old.links_mean),
        around.smoothed(links, old.links_near, NEAR_STEPS[1]),
    ]
    for arcs, weights in arrivals.beside:
        raw += [around.beside(h[:, :BESIDE], arcs, weights) for h in (words, links)]
    raw += [] if arrivals.edge_types is None else [arrivals.edge_types]
    return [centred(part, mean) for part, mean in zip(raw, sources.means, strict=True)]


def _links(graph: Graph, sources: ViewSources, around: Neighbourhood) -> Tensor:
    """The reduced neighbour lists of the new nodes: only old nodes have a direction in the basis."""
    rarity = torch.log((1 + graph.num_nodes) / (2 + around.lists)) + 1  # every node is in its own list too
    basis = torch.cat([sources.links.new_zeros(around.n_new, sources.links.shape[1]), sources.links[around.touched]])
    lengths = around.pattern @ rarity.square() + rarity.square()
    return ((around.pattern @ (rarity * basis)) / lengths.sqrt())[: around.n_new]


def _mass(graph: Graph, nodes: Tensor) -> Tensor:
    """The weights of the edges of some nodes together."""
    if graph.weights is None:
        return graph.degree[nodes].float()
    owner, at = gather_rows(graph.indptr, nodes)
    weights = graph.weights[at] / graph.weights.mean()
    return weights.new_zeros(len(nodes)).index_add_(0, owner, weights)


def _shares(y: Tensor, n_classes: int) -> Tensor:
    count = torch.bincount(y[y >= 0], minlength=n_classes).float()
    return (count + 1) / (count.sum() + n_classes)


# --- Nodes that arrive later, as a user gives them: looked up, checked, and brought to the columns the model knows.
@dataclass(frozen=True)
class NewNodes:
    """All nodes that have arrived at a graph so far, by name, in order."""

    names: tuple[str, ...]
    arrivals: Arrivals

    @classmethod
    def of(
        cls,
        graph: Graph,
        schema: FeatureSchema,
        world: OpenSetModel,
        new: Graph,
        edges: Iterable[Sequence[Any]] = (),
        before: "NewNodes | None" = None,
        listed: int | None = None,
    ) -> "NewNodes":
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
        edge_types = type_counts(whole, use.types)[:n].to(graph.device) if use.types else None
        beside = tuple(_beside(relation(whole, name), place, n, graph.device) for name in use.relations)
        x, y, arcs, weights = (part.to(graph.device) for part in (x, y, arcs, weights))
        found = Arrivals(x, y, arcs, weights, beside, edge_types)
        return cls((*earlier, *names[:n]), found if before is None else _joined(before.arrivals, found))

    def predicted(self, graph: Graph, world: OpenSetModel, question: OpenQuestion, count: int) -> Predictions:
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
    edge_types = None if a.edge_types is None or b.edge_types is None else torch.cat([a.edge_types, b.edge_types])
    return Arrivals(x, torch.cat([a.y, b.y]), arcs, weights, beside, edge_types)


# --- Tables of nodes that arrive later, read as those of the fitting were.
def read_later(source: TableSource | None, graph: Graph, nodes: Any, edges: Any) -> tuple[Graph, int]:
    """The graph in tables (files or DataFrames) of new nodes and of the edges that join them to ``graph`` and to each
    other. Only its first nodes, so many as the second result says, are new; the others are named by the edges.

    Columns have the names and the meaning of those of the ``source``; labels may be left out.
    """
    if source is None or source.memory is None or source.features is not None:
        raise InputError(
            "tables of new nodes are read as those of the fitting were, but this model was fitted on no table of nodes "
            "that holds their features. Give a graph of the new nodes, or name the whole tables (--edges, --nodes)"
        )
    table, joined = _table(nodes, "nodes"), _table(edges, "edges")
    columns: dict[str, Any] = dict(source.columns)
    if columns.get("label_column") not in table.columns:
        columns["label_column"] = ""
    options = {name: value for name, value in source.options.items() if name not in ("strict", "knn")}
    encoder = tables.TableEncoder.from_json(source.memory)
    found = tables.read_graph(joined, table, **columns, **options, encoder=encoder)
    new = Graph.from_edges(**found.arguments)
    assert new.node_names is not None
    index, listed = name_index(graph), len(table)
    if there := [name for name in new.node_names[:listed] if name in index]:
        raise InputError(
            f"{_place(table, there[0])}: node {there[0]!r} is in the graph already ({len(there):,} such rows); new "
            "nodes are those that are not. Leave it out"
        )
    if unknown := [name for name in new.node_names[listed:] if name not in index]:
        raise InputError(
            f"{_place(joined, unknown[0])}: node {unknown[0]!r} is neither in the graph nor among the new nodes "
            f"({len(unknown):,} such nodes). Add it to the new nodes or remove the edge"
        )
    return new, listed


def _table(given: Any, what: str) -> tables.Table:
    return table_of(given, what) if is_frame(given) else tables.read_columns(given)


def _place(table: tables.Table, name: str) -> str:
    """Where the node stands in the table."""
    for column, content in table.columns.items():
        if content != "vectors" and name in (found := table.text(column, "nodes")):
            return table.place(found.index(name), column)
    return str(table.path)
