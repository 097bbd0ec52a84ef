"""What another encoder, or negatives from outside the task, are worth to ``pn``.

    python benchmarks/encoders.py run [graph ...]   adds missing rows to rows/encoders.jsonl
    python benchmarks/encoders.py table             prints them as Markdown

*sage*: separate weights for the node itself and for the mean of its neighbours. *gat*: attention over a node and its
neighbours, four heads and then one. *negatives*: ten nodes of other base classes join every training task, and the loss
is smaller if they resemble no class of the task; *near negatives* are those that are closest to the supports.
*10-way training* needs no new code: ``train_way=10``. Widths, inputs, training settings and tasks are those of ``pn``.

Hamilton, Ying, Leskovec: Inductive Representation Learning on Large Graphs. NeurIPS 2017. Veličković et al.: Graph
Attention Networks. ICLR 2018. Wang, Chen, Zhao, Wang: Task Negative Sampling Enhanced Graph Few-shot Learning. KDD
2025.
"""

import json
import math
import os
import statistics
import sys
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import fewnode
from fewnode.datasets.loading import open_dataset
from fewnode.graph import Graph, operators
from fewnode.graph.arrays import csr_parts
from fewnode.methods.base import Method, cross_entropy
from fewnode.methods.pn import PN
from fewnode.nn.graph_layers import GraphEncoder, Inputs, renumbered, rows_at, take_rows, xavier
from fewnode.nn.heads import class_means, euclidean_scores
from fewnode.tasks import ClassSplit, Tasks, TaskSampler, draw_tasks
from fewnode.training.evaluate import Evaluation

ROWS = Path(__file__).resolve().parent / "rows" / "encoders.jsonl"
GRAPHS = (
    "email_eu_core_nofeat",
    "lastfm_asia_nofeat",
    "amazon_clothing_test20",
    "coauthor_cs",
    "cora_full_knnfeat",
    "cora70_titles",
    "nell_partial",
    "wordnet",
    "amazon_electronics_nofeat",
    "planted_heterophilous",
)
WAYS, SHOTS, QUERIES, TASKS, SEEDS = (5, 10), 5, 10, 500, (0, 1, 2)


class SAGE(GraphEncoder):
    """Two layers that read a node and the mean of its neighbours side by side, each with its own weights."""

    def __init__(self, width: int, hidden_channels: int, out_channels: int, **options: Any) -> None:
        super().__init__(width, hidden_channels, out_channels, **options)
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(2 * width, hidden_channels)))
        self.outer = xavier(nn.Linear(2 * hidden_channels, out_channels))

    def forward(self, inputs: Inputs, graph: Graph, nodes: Tensor | None = None) -> Tensor:
        mean, x = operators.mean_adjacency(graph), inputs.unit(graph)
        both = graph.cache.get("inputs and their means", lambda: torch.cat([x, mean @ x], 1), source=x)
        nodes = torch.arange(graph.num_nodes) if nodes is None else nodes
        near, own, rows = surroundings(mean.matrix, nodes)
        h = F.dropout(torch.relu(both[near] @ self.weight + self.bias), self.dropout, self.training)
        return projected(self.outer(torch.cat([rows_at(h, own), rows @ h], 1)), self.radius)


class GAT(GraphEncoder):
    """Two layers of attention over a node and its neighbours."""

    heads = 4  # of the first layer; the second has one

    def __init__(self, width: int, hidden_channels: int, out_channels: int, **options: Any) -> None:
        super().__init__(width, hidden_channels, out_channels, **options)
        first, second = (self.heads, hidden_channels // self.heads), (1, out_channels)
        self.to_first, self.from_first, self.to_second, self.from_second = (
            nn.Parameter(nn.init.xavier_uniform_(torch.empty(*shape))) for shape in (first, first, second, second)
        )

    def forward(self, inputs: Inputs, graph: Graph, nodes: Tensor | None = None) -> Tensor:
        arcs = operators.closed_adjacency(graph).matrix
        nodes = torch.arange(graph.num_nodes) if nodes is None else nodes
        near, own, rows = surroundings(arcs, nodes)
        far, near_own, near_rows = surroundings(arcs, near)
        z = inputs.unit(graph)[far] @ self.weight
        h = attend(z, self.to_first, self.from_first, near_own, near_rows) + self.bias
        h = F.dropout(torch.relu(h), self.dropout, self.training) @ self.outer.weight.t()
        return projected(attend(h, self.to_second, self.from_second, own, rows) + self.outer.bias, self.radius)


def surroundings(matrix: Tensor, nodes: Tensor) -> tuple[Tensor, Tensor, operators.Operator]:
    """The ``nodes [P]`` and all that their rows read, in ascending order; where the nodes are among these; the rows."""
    ends, columns, values = csr_parts(take_rows(matrix, nodes))
    near, position = torch.unique(torch.cat([nodes, columns.long()]), return_inverse=True)
    own, columns = position.split([len(nodes), len(columns)])
    return near, own, operators.Operator(ends, columns, values, width=len(near), symmetric=False)


def attend(z: Tensor, to: Tensor, from_: Tensor, own: Tensor, rows: operators.Operator) -> Tensor:
    """Sums of ``z [R, heads * d]`` over each of the rows, weighted by the softmax of every head's attention."""
    owner, columns = torch.repeat_interleave(rows.indptr.diff().long()), rows.indices
    z = z.unflatten(1, to.shape)
    at_end, at_start = (z * to).sum(-1), (z * from_).sum(-1)
    raw = F.leaky_relu(rows_at(at_end, own[owner]) + rows_at(at_start, columns), 0.2)
    empty = raw.new_full((len(own), len(to)), -math.inf)
    highest = empty.scatter_reduce(0, owner[:, None].expand_as(raw), raw.detach(), "amax")
    weight = (raw - rows_at(highest, owner)).exp()
    weight = weight / rows_at(weight.new_zeros(empty.shape).index_add(0, owner, weight), owner)
    sums = [
        z.new_zeros(len(own), z.shape[2]).index_add(0, owner, weight[:, head, None] * rows_at(z[:, head], columns))
        for head in range(len(to))
    ]
    return torch.cat(sums, 1)


def projected(out: Tensor, radius: float | None) -> Tensor:
    """Onto the sphere, as the encoder of ``pn`` does."""
    return out if radius is None else out * (radius * (out.square().sum(-1, keepdim=True) + 1e-4).rsqrt())


class OtherEncoder(PN):
    """``pn`` with another encoder of the same widths."""

    encoder_class: type[GraphEncoder]

    def __init__(self, in_channels: int) -> None:
        super().__init__(in_channels)
        self.encoder = self.encoder_class(self.inputs.width, 256, 128, dropout=0.5, radius=3.0)


class SagePN(OtherEncoder):
    encoder_class = SAGE


class GatPN(OtherEncoder):
    encoder_class = GAT


class TaskNS(PN):
    """Nodes of base classes outside a task must not resemble one of its classes: their largest probability is part of
    the loss, 0.3 parts to 0.7 of the cross-entropy of the queries.

    Without base classes outside the task, it is ``pn``.
    """

    negatives, drawn, share = 10, 320, 0.43
    hops = 0  # up to how many of them a negative nearer to the supports is preferred

    def loss(self, graph: Graph, tasks: Tasks) -> Tensor:
        labelled = (graph.y >= 0).nonzero()[:, 0]
        drawn = labelled[torch.randint(len(labelled), (len(tasks), self.drawn))]
        inside = (graph.y[drawn][:, :, None] == graph.y[tasks.support][:, None, :]).any(-1)
        rank = 100 * inside + torch.rand(drawn.shape)
        if self.hops:
            away = torch.stack([distances(graph, support, self.hops) for support in tasks.support])
            rank += 10 * away.gather(1, drawn)
        chosen = rank.topk(self.negatives, dim=1, largest=False).indices
        if inside.gather(1, chosen).any():
            return super().loss(graph, tasks)
        query = torch.cat([tasks.query, drawn.gather(1, chosen)], 1)
        nodes, local = renumbered(Tasks(tasks.support, tasks.support_y, query, None, tasks.n_way))
        h = self.embed(graph, nodes)
        prototypes = class_means(rows_at(h, local.support), local.support_y, local.n_way)
        asked, negative = local.query.split([tasks.query.shape[1], self.negatives], dim=1)
        resemblance = euclidean_scores(rows_at(h, negative), prototypes).softmax(-1).amax(-1)
        return cross_entropy(euclidean_scores(rows_at(h, asked), prototypes), tasks) + self.share * resemblance.mean()


class NearTaskNS(TaskNS):
    hops = 3


def distances(graph: Graph, nodes: Tensor, most: int) -> Tensor:
    """The number of edges from any of ``nodes`` to every node, [N]; ``most + 1`` for all that are farther."""
    found = torch.full((graph.num_nodes,), most + 1, dtype=torch.int8)
    for hop in range(1, most + 1):
        near = operators.gather_neighbours(graph, nodes.unique())[1]
        nodes = near[found[near] > hop].unique()
        found[nodes] = hop
    return found


PLAIN = "pn"
FORMS: dict[str, tuple[type[PN], dict[str, Any]]] = {
    PLAIN: (PN, {}),
    "sage": (SagePN, {}),
    "gat": (GatPN, {}),
    "negatives": (TaskNS, {}),
    "near negatives": (NearTaskNS, {}),
    "10-way training": (PN, {"train_way": 10}),
}


def run(graphs: list[str]) -> None:
    """Add the rows that are missing."""
    done = {(row["graph"], row["ways"], row["seed"], row["form"]) for row in read()}
    for name in graphs:
        graph, split = open_dataset(name, os.environ.get("FEWNODE_DATA"))
        for ways, seed in ((ways, seed) for ways in WAYS for seed in SEEDS):
            other = [form for form, (_, options) in FORMS.items() if options.get("train_way") != ways]
            missing = [form for form in other if (name, ways, seed, form) not in done]
            if not missing or int((TaskSampler(graph.y, split.novel).size >= SHOTS + QUERIES).sum()) < ways:
                continue
            plain: Tensor | None = None
            for form in (PLAIN, *(form for form in missing if form != PLAIN)):
                model, found = measure(graph, split, ways, seed, form)
                plain = found.per_task if plain is None else plain
                if form in missing:
                    gains = (found.per_task - plain).tolist()
                    keep(
                        {
                            "graph": name,
                            "ways": ways,
                            "seed": seed,
                            "form": form,
                            "validation": round(model.card.best or 0.0, 5),
                            "accuracy": round(found.accuracy, 5),
                            "gain": round(statistics.fmean(gains), 5),
                            "interval": round(1.96 * statistics.stdev(gains) / math.sqrt(len(gains)), 5),
                        }
                    )


def measure(graph: Graph, split: ClassSplit, ways: int, seed: int, form: str) -> tuple[Method, Evaluation]:
    """A training, and its accuracy on the tasks of novel classes."""
    kind, options = FORMS[form]
    model = fewnode.fit(kind, graph, split, n_way=ways, k_shot=SHOTS, n_query=QUERIES, seed=seed, **options)
    tasks = draw_tasks(graph.y, split.novel, ways, SHOTS, QUERIES, TASKS, 0)
    return model, fewnode.evaluate(model, graph, tasks=tasks)


def keep(row: dict[str, Any]) -> None:
    with ROWS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    print(json.dumps(row), flush=True)


def read() -> list[dict[str, Any]]:
    return [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()] if ROWS.exists() else []


Cells = dict[tuple[str, int], list[dict[str, Any]]]


def cells_of(form: str) -> Cells:
    """The rows of a form, one for each seed, by graph and ways; only where all seeds are there."""
    found: Cells = defaultdict(list)
    for row in read():
        if row["form"] == form:
            found[row["graph"], row["ways"]].append(row)
    return {key: sorted(rows, key=lambda row: row["seed"]) for key, rows in found.items() if len(rows) == len(SEEDS)}


def gain(rows: list[dict[str, Any]]) -> tuple[float, float]:
    """The mean gain over the seeds and its variance: over the tasks, which all seeds share, and over the seeds."""
    gains = [row["gain"] for row in rows]
    over_tasks = (statistics.fmean(row["interval"] for row in rows) / 1.96) ** 2
    return statistics.fmean(gains), over_tasks + statistics.variance(gains) / len(gains)


def shown(mean: float, variance: float) -> str:
    return f"{100 * mean:+.1f} ± {196 * math.sqrt(variance):.1f}"


def mean_gain(form: str) -> str:
    """The mean over the graphs and ways that have rows, with the interval that tasks and seeds leave it."""
    gains, variances = zip(*map(gain, cells_of(form).values()), strict=True)
    return shown(statistics.fmean(gains), sum(variances) / len(variances) ** 2)


def validation_gain(form: str) -> str:
    """The mean gain on validation tasks."""
    plain = cells_of(PLAIN)
    gains = [
        row["validation"] - same["validation"]
        for key, rows in cells_of(form).items()
        for row, same in zip(rows, plain[key], strict=True)
    ]
    return f"{100 * statistics.fmean(gains):+.1f}"


def table() -> str:
    """Accuracy of ``pn`` and the gains of the other forms in points, means over the seeds."""
    plain, *others = (cells_of(form) for form in FORMS)
    lines = [f"| graph | ways | {' | '.join(FORMS)} |", f"|---|{'---:|' * (1 + len(FORMS))}"]
    for key in ((graph, ways) for graph in GRAPHS for ways in WAYS):
        if key in plain:
            accuracy = statistics.fmean(row["accuracy"] for row in plain[key])
            gains = [shown(*gain(cells[key])) if key in cells else "–" for cells in others]
            lines.append(f"| {key[0]} | {key[1]} | {100 * accuracy:.1f} | {' | '.join(gains)} |")
    for name, mean in (("mean", mean_gain), ("mean on validation tasks", validation_gain)):
        lines.append(f"| {name} | | | {' | '.join(mean(form) for form in FORMS if form != PLAIN)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        torch.set_num_threads(1)
        warnings.simplefilter("ignore")  # tasks that had to be made smaller
        run(sys.argv[2:] or list(GRAPHS))
    else:
        print(table())
