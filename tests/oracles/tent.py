"""TENT one node, one class, one query at a time: graphs really cut out, layers run node by node."""

from functools import cached_property

import torch
from torch import Tensor

from fewnode.graph import Graph, operators
from fewnode.methods.tent import TENT
from fewnode.methods.tent_residual import TENTResidual
from fewnode.tasks import Tasks

SMALLEST_TAU = 0.01
PACE = 10.0
GATE_PACE = 100.0

VIRTUAL = -1  # the name of the virtual class node in a class-ego graph
Linear = tuple[Tensor, Tensor]
Edges = dict[int, set[int]]
Values = dict[int, Tensor]


class Oracle:
    """The equations of the paper, or of ``tent_residual``, for one task of a batch; reads the weights of a model."""

    def __init__(self, model: TENT, graph: Graph, tasks: Tasks, task: int = 0) -> None:
        self.model, self.graph, self.residual = model, graph, isinstance(model, TENTResidual)
        self.edges: Edges = {v: neighbours_of(graph, v) for v in range(graph.num_nodes)}
        self.n_way = tasks.n_way
        pairs = list(zip(tasks.support[task].tolist(), tasks.support_y[task].tolist(), strict=True))
        self.supports = [[node for node, y in pairs if y == i] for i in range(tasks.n_way)]
        self.order = [(y, self.supports[y].index(node)) for node, y in pairs]
        self.query = tasks.query[task].tolist()
        self.query_y = None if tasks.query_y is None else tasks.query_y[task].tolist()
        self.aggregate = closed_mean if model.gnn.mean else closed_sum
        self.h = self.first_step_embedding()

    # --- the equations, in the order of the paper --------------------------------------------------------

    def first_step_embedding(self) -> Values:
        """H = GNN_phi(V, E, X)."""
        if self.residual:
            return {v: of_length(row, 3.0) for v, row in self.graph_convolutions().items()}
        phi, x = self.model.phi, self.inputs()
        once = {v: self.aggregate(x, self.edges, v) for v in x}
        if self.model.inputs is not None:  # precomputed in single precision: read as it is
            kept = operators.closed_adjacency(self.graph) @ self.model.inputs.unit(self.graph)
            kept = kept / (1 + self.graph.degree[:, None]) if phi.mean else kept
            torch.testing.assert_close(torch.stack(list(once.values())).float(), kept, atol=1e-5, rtol=1e-5)
            once = {v: kept[v].to(phi.weight.dtype) for v in x}
        hidden = {v: torch.relu(once[v] @ phi.weight + phi.bias) for v in x}
        h = {v: mlp(self.aggregate(hidden, self.edges, v), [linear(phi.outer)]) for v in x}
        return {v: standardized(row) for v, row in h.items()} if self.model.normalize else h

    def inputs(self) -> Values:
        """X, or its main directions at length one (kept in single precision)."""
        graph, inputs = self.graph, self.model.inputs
        raw = graph.x.to_dense() if graph.x.layout == torch.sparse_csr else graph.x
        x = raw if inputs is None else inputs.unit(graph)
        return {v: row.to(self.model.gnn.theta.dtype) for v, row in enumerate(x)}

    def graph_convolutions(self) -> Values:
        """Two GCN layers. What is precomputed in single precision is read: the propagation, and reduced inputs after
        one."""
        phi, x = self.model.phi, self.inputs()
        share = operators.normalized_adjacency(self.graph).matrix.to_dense().to(phi.weight.dtype)
        nodes = range(self.graph.num_nodes)

        def propagated(values: Values, v: int) -> Tensor:
            return sum((share[v, w] * values[w] for w in nodes), torch.zeros_like(values[v]))

        once = {v: propagated(x, v) for v in nodes}
        smoothed = self.model.inputs.smoothed(self.graph)
        if smoothed is not None:
            torch.testing.assert_close(torch.stack(list(once.values())).float(), smoothed, atol=1e-5, rtol=1e-5)
            once = {v: smoothed[v].to(phi.weight.dtype) for v in nodes}
        hidden = {v: torch.relu(once[v] @ phi.weight + phi.bias) for v in nodes}
        weight, bias = linear(phi.outer)
        return {v: propagated(hidden, v) @ weight + bias for v in nodes}

    def virtual_class_node(self, i: int) -> Tensor:
        """h_c = MEAN(h_v | v in S_i)."""
        return mean([self.h[v] for v in self.supports[i]])

    def adapt(self, context: Tensor) -> Tensor:
        """theta' = (1 + alpha) o theta + beta, number by number."""
        theta = self.model.gnn.theta
        if self.model.alpha is None:
            return theta
        alpha = mlp(context, [linear(self.model.alpha[k]) for k in (0, 2)])
        beta = mlp(context, [linear(self.model.beta[k]) for k in (0, 2)])
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
        inside = reach(self.edges, self.supports[i], 1)
        edges = induced(self.edges, inside) | {VIRTUAL: set(self.supports[i])}
        for v in self.supports[i]:
            edges[v] = edges[v] | {VIRTUAL}
        values = {v: self.h[v] for v in inside} | {VIRTUAL: self.virtual_class_node(i)}
        return values, edges

    def class_embeddings(self, i: int) -> tuple[Tensor, list[Tensor]]:
        """s_i, the centroid of GNN_theta_i(G_i), and s_i^k, its outputs at the supports. With a learned mix the
        centroid is that far from the supports' mean on the original graph."""
        theta = self.class_weights(i)
        outputs = self.second_gnn(self.h, self.edges, theta)
        plain = [outputs[v] for v in self.supports[i]]
        if not self.model.node_adaptation:
            return mean(plain), plain
        outputs = self.second_gnn(*self.class_ego_graph(i), theta)
        centre, own = outputs[VIRTUAL], [outputs[v] for v in self.supports[i]]
        if self.residual:
            part = PACE * self.model.mix
            centre = (1 - part) * mean(plain) + part * centre
        return centre, own

    @cached_property
    def classes(self) -> list[tuple[Tensor, list[Tensor]]]:
        """The embeddings of all classes."""
        return [self.class_embeddings(i) for i in range(self.n_way)]

    def query_embedding(self, node: int) -> Tensor:
        """q, the centroid of GNN_theta_q on the subgraph around the query."""
        inside = reach(self.edges, [node], 2)
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

    def prediction(self, node: int) -> list[Tensor]:
        """What the largest of is predicted: q_i . s_j / tau_i, or with ``tau_at_test`` the scores of the loss."""
        if self.residual or self.model.tau_at_test or not self.model.task_adaptation:
            return self.score(node)
        q = self.query_embedding(node)
        return [unit(q) @ unit(centre) for centre, _ in self.classes]

    def score(self, node: int) -> list[Tensor]:
        """q . s_j / tau_j with both normalised; or minus the squared distance, without task adaptation."""
        q = self.query_embedding(node)
        prototypes = [centre for centre, _ in self.classes]
        if not self.model.task_adaptation:
            return [-(q - s).square().sum() for s in prototypes]
        power = PACE * self.model.power if self.residual else 1.0
        scale = (PACE * self.model.scale).exp() if self.residual else 1.0
        return [
            (scale * (unit(q) @ unit(s)) / tau**power).squeeze() for s, tau in zip(prototypes, self.tau(), strict=True)
        ]

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
        out = gnn(values, edges, *linears, self.aggregate)
        if not self.residual:
            return out
        part = torch.sigmoid(GATE_PACE * self.model.gnn.smoothing)
        once = {v: closed_mean(values, edges, v) for v in values}
        twice = {v: closed_mean(once, edges, v) for v in values}
        return {v: (1 - part) * values[v] + part * twice[v] + out[v] for v in values}


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


def gnn(values: Values, edges: Edges, first: Linear, second: Linear, aggregate) -> Values:
    """Two layers, ReLU between."""
    hidden = {v: torch.relu(mlp(aggregate(values, edges, v), [first])) for v in values}
    return {v: mlp(aggregate(hidden, edges, v), [second]) for v in values}


def closed_sum(values: Values, edges: Edges, v: int) -> Tensor:
    return values[v] + sum((values[w] for w in edges[v]), torch.zeros_like(values[v]))


def closed_mean(values: Values, edges: Edges, v: int) -> Tensor:
    return closed_sum(values, edges, v) / (1 + len(edges[v]))


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


def of_length(v: Tensor, radius: float) -> Tensor:
    return radius * v / (v.square().sum() + 1e-4).sqrt()


def unit(v: Tensor) -> Tensor:
    return v / torch.linalg.vector_norm(v).clamp(min=1e-12)


def cross_entropy(scores: list[Tensor], y: int) -> Tensor:
    return torch.logsumexp(torch.stack(scores), 0) - scores[y]
