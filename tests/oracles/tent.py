"""TENT one node, one class, one query at a time: graphs really cut out, layers run node by node."""

from functools import cached_property

import torch
from torch import Tensor

from fewnode.graph import Graph
from fewnode.methods.tent import SMALLEST_TAU, PaperTENT
from fewnode.nn.encoders import GIN
from fewnode.tasks import Tasks

VIRTUAL = -1  # the name of the virtual class node in a class-ego graph
Linear = tuple[Tensor, Tensor]
Edges = dict[int, set[int]]
Values = dict[int, Tensor]


class Oracle:
    """The equations of the paper, for one task of a batch; reads the weights of a ``PaperTENT``."""

    def __init__(self, model: PaperTENT, graph: Graph, tasks: Tasks, task: int = 0) -> None:
        self.model, self.graph = model, graph
        x = graph.x.to_dense() if graph.x.layout == torch.sparse_csr else graph.x
        self.x = {v: row.to(model.gnn.theta.dtype) for v, row in enumerate(x)}
        self.edges: Edges = {v: neighbours_of(graph, v) for v in range(graph.num_nodes)}
        self.n_way = tasks.n_way
        pairs = list(zip(tasks.support[task].tolist(), tasks.support_y[task].tolist(), strict=True))
        self.supports = [[node for node, y in pairs if y == i] for i in range(tasks.n_way)]
        self.order = [(y, self.supports[y].index(node)) for node, y in pairs]
        self.query = tasks.query[task].tolist()
        self.query_y = None if tasks.query_y is None else tasks.query_y[task].tolist()
        self.h = self.first_step_embedding()

    # --- the equations, in the order of the paper --------------------------------------------------------

    def first_step_embedding(self) -> Values:
        """H = GNN_phi(V, E, X)."""
        phi = self.model.phi
        lift = (phi.lift.weight, phi.lift.bias)
        if isinstance(phi, GIN):
            first = [lift, *map(linear, phi.first)]
            h = gnn(self.x, self.edges, first, [linear(phi.middle), *map(linear, phi.second)], closed_sum)
        else:
            h = gnn(self.x, self.edges, [lift], [linear(phi.outer)], symmetric_mean)
        return {v: standardized(row) for v, row in h.items()} if self.model.normalize else h

    def virtual_class_node(self, i: int) -> Tensor:
        """h_c = MEAN(h_v | v in S_i)."""
        return mean([self.h[v] for v in self.supports[i]])

    def adapt(self, context: Tensor) -> Tensor:
        """theta' = (1 + alpha) o theta + beta, number by number."""
        theta = self.model.gnn.theta
        if self.model.adapter is None:
            return theta
        alpha = mlp(context, [linear(self.model.adapter.alpha[k]) for k in (0, 2)])
        beta = mlp(context, [linear(self.model.adapter.beta[k]) for k in (0, 2)])
        return torch.stack([(1 + alpha[k]) * theta[k] + beta[k] for k in range(len(theta))])

    def class_weights(self, i: int) -> Tensor:
        """theta_i, from the supports of class i."""
        return self.adapt(mean([self.h[v] for v in self.supports[i]]))

    @cached_property
    def query_weights(self) -> Tensor:
        """theta_q, from all supports of the task."""
        return self.adapt(mean([self.h[v] for members in self.supports for v in members]))

    def class_ego_graph(self, i: int) -> tuple[Values, Edges]:
        """G_i: the virtual node, the supports, their neighbours; edges of G among them, virtual - support."""
        inside = reach(self.edges, self.supports[i], self.model.ego_hops)
        edges = induced(self.edges, inside) | {VIRTUAL: set(self.supports[i])}
        for v in self.supports[i]:
            edges[v] = edges[v] | {VIRTUAL}
        values = {v: self.h[v] for v in inside} | {VIRTUAL: self.virtual_class_node(i)}
        return values, edges

    def class_embeddings(self, i: int) -> tuple[Tensor, list[Tensor]]:
        """s_i, the centroid of GNN_theta_i(G_i), and s_i^k, its outputs at the supports."""
        theta = self.class_weights(i)
        if not self.model.node_adaptation:
            outputs = self.second_gnn(self.h, self.edges, theta)
            own = [outputs[v] for v in self.supports[i]]
            return mean(own), own
        outputs = self.second_gnn(*self.class_ego_graph(i), theta)
        return outputs[VIRTUAL], [outputs[v] for v in self.supports[i]]

    @cached_property
    def classes(self) -> list[tuple[Tensor, list[Tensor]]]:
        """The embeddings of all classes."""
        return [self.class_embeddings(i) for i in range(self.n_way)]

    def query_embedding(self, node: int) -> Tensor:
        """q, the centroid of GNN_theta_q on the subgraph around the query."""
        inside = reach(self.edges, [node], self.model.query_hops)
        values = {v: self.h[v] for v in inside}
        return self.second_gnn(values, induced(self.edges, inside), self.query_weights)[node]

    def tau(self) -> list[Tensor]:
        """tau_i = N sum_k |s_i^k - s_i| / sum_j sum_k |s_j^k - s_j|, a class's sum divided by its shots."""
        spreads = []
        for centre, supports in self.classes:
            distances = [torch.linalg.vector_norm(s - centre) for s in supports]
            nothing = 100 * torch.finfo(centre.dtype).eps * torch.linalg.vector_norm(centre)
            spreads.append(mean([d if d > nothing else torch.zeros_like(d) for d in distances]))
        total = sum(spreads[1:], spreads[0])
        if total == 0:
            return [torch.ones_like(total) for _ in spreads]
        return [(self.n_way * spread / total).clamp(min=SMALLEST_TAU) for spread in spreads]

    def score(self, node: int) -> list[Tensor]:
        """q . s_j / tau_j with both normalised; or minus the squared distance, without task adaptation."""
        q = self.query_embedding(node)
        prototypes = [centre for centre, _ in self.classes]
        if not self.model.task_adaptation:
            return [-(q - s).square().sum() for s in prototypes]
        return [unit(q) @ unit(s) / tau for s, tau in zip(prototypes, self.tau(), strict=True)]

    def matching_loss(self) -> Tensor:
        """L_N, mean over the queries."""
        assert self.query_y is not None
        return mean([cross_entropy(self.score(v), y) for v, y in zip(self.query, self.query_y, strict=True)])

    def base_class_loss(self) -> Tensor:
        """L_CE, mean over the queries."""
        classes = self.model.classifier.base.tolist()
        weight, bias = linear(self.model.classifier.linear)
        losses = []
        for v in self.query:
            logits = self.h[v] @ weight + bias
            losses.append(cross_entropy(list(logits), classes.index(int(self.graph.y[v]))))
        return mean(losses)

    def loss(self) -> Tensor:
        """L = L_N + gamma L_CE."""
        return self.matching_loss() + self.model.gamma * self.base_class_loss()

    def second_gnn(self, values: Values, edges: Edges, theta: Tensor) -> Values:
        """GNN_theta, its weights read off one after the other."""
        linears, at = [], 0
        for rows, columns in self.model.gnn.shapes:
            weight = theta[at : at + rows * columns].reshape(rows, columns)
            bias = theta[at + rows * columns : at + (rows + 1) * columns]
            linears.append((weight, bias))
            at += (rows + 1) * columns
        assert at == len(theta)
        half = len(linears) // 2
        aggregate = closed_mean if self.model.gnn.mean else closed_sum
        return gnn(values, edges, linears[:half], linears[half:], aggregate)


# --- graphs -------------------------------------------------------------------------------------------------


def neighbours_of(graph: Graph, node: int) -> set[int]:
    return set(graph.indices[int(graph.indptr[node]) : int(graph.indptr[node + 1])].tolist())


def reach(edges: Edges, start: list[int], hops: int) -> set[int]:
    inside = set(start)
    for _ in range(hops):
        inside = inside | {w for v in inside for w in edges[v]}
    return inside


def induced(edges: Edges, inside: set[int]) -> Edges:
    return {v: edges[v] & inside for v in inside}


# --- layers, one node at a time -----------------------------------------------------------------------------


def gnn(values: Values, edges: Edges, first: list[Linear], second: list[Linear], aggregate) -> Values:
    """Two layers, ReLU between."""
    hidden = {v: torch.relu(mlp(aggregate(values, edges, v), first)) for v in values}
    return {v: mlp(aggregate(hidden, edges, v), second) for v in values}


def closed_sum(values: Values, edges: Edges, v: int) -> Tensor:
    return values[v] + sum((values[w] for w in edges[v]), torch.zeros_like(values[v]))


def closed_mean(values: Values, edges: Edges, v: int) -> Tensor:
    return closed_sum(values, edges, v) / (1 + len(edges[v]))


def symmetric_mean(values: Values, edges: Edges, v: int) -> Tensor:
    out = values[v] / (1 + len(edges[v]))
    for w in edges[v]:
        out = out + values[w] / ((1 + len(edges[v])) * (1 + len(edges[w]))) ** 0.5
    return out


def mlp(x: Tensor, linears: list[Linear]) -> Tensor:
    for k, (weight, bias) in enumerate(linears):
        x = (torch.relu(x) if k else x) @ weight + bias
    return x


def linear(module) -> Linear:
    return module.weight.t(), module.bias


def mean(values: list[Tensor]) -> Tensor:
    return sum(values[1:], values[0]) / len(values)


def standardized(v: Tensor) -> Tensor:
    centred = v - v.mean()
    return centred / (centred.square().mean() + 1e-5).sqrt()


def unit(v: Tensor) -> Tensor:
    return v / torch.linalg.vector_norm(v).clamp(min=1e-12)


def cross_entropy(scores: list[Tensor], y: int) -> Tensor:
    return torch.logsumexp(torch.stack(scores), 0) - scores[y]
