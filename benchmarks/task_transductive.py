"""Are other task-transductive heads better than that of ``rectified``, with balanced and with unbalanced queries?

All heads read the embedding of ``probe``, whose rows have length one. They are compared on the same tasks:

- ``probe``: the nearest class mean; ``rectified``: its defaults;
- rectified, chosen: other numbers of rounds and scales;
- LaplacianShot: the corrected means and a Laplacian term between near queries (Ziko et al., ICML 2020);
- TIM: mutual information, by alternating directions (Boudiaf et al., NeurIPS 2020). ``balance=0.5`` is the update of
  the source; with 0 nothing pulls the classes to equal shares;
- alpha-TIM: the same with alpha-entropies, by gradient steps (Veilleux et al., NeurIPS 2021).

Queries are *balanced*, drawn *by size* from all nodes of the classes (``draw_tasks(..., balanced=False)``), or the half
of balanced queries that class weights from a *Dirichlet* distribution choose. The options of a head are chosen by its
mean accuracy on tasks of the validation classes of all graphs: on balanced queries or on all three kinds.

    python benchmarks/task_transductive.py choose    adds a row for each choice
    python benchmarks/task_transductive.py run       adds a row for each graph and shape of tasks
    python benchmarks/task_transductive.py [table]   what the rows say
"""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

import fewnode
from fewnode import Graph, Tasks
from fewnode.methods.rectified import Rectified
from fewnode.nn.heads import class_means, cosine_scores
from fewnode.store import one_thread
from fewnode.training.evaluate import embed

ROWS = Path(__file__).parent / "rows" / "task_transductive.jsonl"
GRAPHS = (
    "amazon_clothing_test20",
    "coauthor_cs",
    "cora_full_knnfeat",
    "wordnet",
    "email_eu_core_nofeat",
    "lastfm_asia_nofeat",
    "nell_partial",
    "amazon_electronics_nofeat",
    "cora70_titles",
    "arxiv_cs40_coauthors",
)
SHAPES = ((5, 3), (5, 5), (10, 3), (10, 5))
QUERIES = ("balanced", "by size", "Dirichlet")
BASES = ("balanced", "all")  # the queries by which options are chosen


# --- The heads: from the rows of a batch of tasks to scores [T, M, N].
@dataclass
class Rows:
    """The rows of supports ``z [T, S, d]`` with their classes ``y [T, S]`` and of queries ``q [T, M, d]``, in
    coordinates of the span of each task: no head needs more than inner products."""

    z: Tensor
    y: Tensor
    q: Tensor
    n_way: int

    @classmethod
    def of(cls, h: Tensor, tasks: Tasks) -> "Rows":
        rows = torch.cat([h[tasks.support], h[tasks.query]], 1)
        z, q = (rows @ torch.linalg.qr(rows.mT).Q).split([tasks.support.shape[1], tasks.query.shape[1]], 1)
        return cls(z, tasks.support_y, q, tasks.n_way)

    @property
    def known(self) -> Tensor:
        return F.one_hot(self.y, self.n_way).to(self.z.dtype)

    def means(self) -> Tensor:
        return class_means(self.z, self.y, self.n_way)


def rectified(rows: Rows, rounds: int = 5, scale: float = 20.0) -> Tensor:
    """The head of ``rectified`` itself, on these rows instead of nodes of a graph."""
    n_supports, n_queries = rows.z.shape[1], rows.q.shape[1]
    nodes = torch.arange(len(rows.z) * (n_supports + n_queries)).view(len(rows.z), -1)
    tasks = Tasks(nodes[:, :n_supports], rows.y, nodes[:, n_supports:], n_way=rows.n_way)
    state = torch.cat([rows.z, rows.q], 1).flatten(0, 1)
    return Rectified(1, rounds=rounds, scale=scale).score(Graph.from_edges([[], []], num_nodes=1), state, tasks)


def laplacian_shot(rows: Rows, neighbours: int, scale: float, weight: float, rounds: int = 10) -> Tensor:
    """Cosines with the corrected means, and the mean assignment of a query's nearest queries."""
    cosines, among = rectified(rows), rows.q @ rows.q.mT
    among.diagonal(dim1=1, dim2=2).fill_(-torch.inf)
    near = torch.zeros_like(among).scatter_(-1, among.topk(neighbours).indices, 1 / neighbours)
    scores = cosines
    for _ in range(rounds):
        scores = cosines + weight * near @ (scale * scores).softmax(-1)
    return scores


def logits(w: Tensor, x: Tensor, tau: float) -> Tensor:
    """Minus tau / 2 times the squared distance, up to the length of ``x`` itself."""
    return tau * (x @ w.mT - w.square().sum(-1)[:, None] / 2)


def tim(rows: Rows, tau: float, alpha: float, support: float, balance: float, rounds: int = 50) -> Tensor:
    """Alternating directions: assignments ``a`` of the queries, then the weights ``w``."""
    z, q, w, known = rows.z, rows.q, rows.means(), rows.known
    share, ratio = support / (1 + alpha), z.shape[1] / q.shape[1]
    for _ in range(rounds):
        p_z, p_q = logits(w, z, tau).softmax(-1), logits(w, q, tau).softmax(-1)
        a = p_q ** (1 + alpha)
        a = F.normalize(a / a.sum(1, keepdim=True) ** balance, p=1, dim=-1)
        by_supports = (known - p_z).mT @ z + p_z.sum(1)[..., None] * w
        by_queries = (a - p_q).mT @ q + p_q.sum(1)[..., None] * w
        w = (share * by_supports + ratio * by_queries) / (share * known.sum(1) + ratio * a.sum(1))[..., None]
    return logits(w, q, tau)


@torch.enable_grad()
def alpha_tim(
    rows: Rows, tau: float, alpha: float, weights: tuple[float, float, float], steps: int = 25, rate: float = 0.02
) -> Tensor:
    """Adam on the cross-entropy of the supports, minus the entropy of the classes' shares, plus that of the queries'
    assignments."""
    w = rows.means().requires_grad_()
    adam = torch.optim.Adam([w], lr=rate)

    def entropy(p: Tensor) -> Tensor:
        return (1 - p.pow(alpha).sum(-1)) / (alpha - 1)

    for _ in range(steps):
        p = logits(w, rows.q, tau).softmax(-1)
        of_supports = -(rows.known * logits(w, rows.z, tau).log_softmax(-1)).sum((1, 2)) / rows.z.shape[1]
        parts = (of_supports, -entropy(p.mean(1)), entropy(p).mean(1))
        loss = sum(weight * part.sum() for weight, part in zip(weights, parts, strict=True))
        adam.zero_grad()
        torch.autograd.backward(loss)
        adam.step()
    return logits(w.detach(), rows.q, tau)


HEADS: dict[str, tuple[Callable[..., Tensor], dict[str, tuple[Any, ...]]]] = {
    "rectified, chosen": (rectified, {"rounds": (1, 2, 5, 10), "scale": (10.0, 20.0, 30.0, 40.0)}),
    "LaplacianShot": (
        laplacian_shot,
        {"neighbours": (3, 5, 10), "scale": (2.0, 10.0, 20.0, 40.0), "weight": (0.05, 0.1, 0.2, 0.4)},
    ),
    "TIM": (
        tim,
        {"tau": (8.0, 15.0), "alpha": (0.1, 0.5), "support": (0.1, 1.0), "balance": (0.0, 0.25, 0.5)},
    ),
    "alpha-TIM": (
        alpha_tim,
        {
            "tau": (8.0,),
            "alpha": (2.0, 3.0, 5.0),
            "weights": ((0.1, 1.0, 0.1), (0.3, 1.0, 0.3), (1.0, 1.0, 1.0)),
        },
    ),
}


# --- The tasks.
def drawn(graph: Graph, classes: tuple[int, ...], n_way: int, k_shot: int, n_tasks: int, seed: int) -> dict[str, Tasks]:
    """The same supports with three kinds of queries; nothing if too few classes are large enough."""
    try:
        even, by_size = (
            fewnode.draw_tasks(graph.y, classes, n_way, k_shot, 10, n_tasks, seed, balanced=balanced)
            for balanced in (True, False)
        )
    except fewnode.InputError:
        return {}
    return dict(zip(QUERIES, (even, by_size, half(even, seed)), strict=True))


def half(tasks: Tasks, seed: int) -> Tasks:
    """Half of the queries of each task, without replacement, with class weights from a Dirichlet distribution with the
    parameter 2."""
    assert tasks.query_y is not None
    rng = np.random.default_rng(seed)
    weights = torch.from_numpy(rng.dirichlet(np.full(tasks.n_way, 2.0), len(tasks))).gather(1, tasks.query_y)
    keys = torch.from_numpy(rng.gumbel(size=tasks.query.shape)) + weights.log()
    kept = keys.topk(keys.shape[1] // 2).indices
    return Tasks(tasks.support, tasks.support_y, tasks.query.gather(1, kept), tasks.query_y.gather(1, kept))


def embeddings() -> Iterator[tuple[str, Graph, fewnode.ClassSplit, Tensor]]:
    for name in GRAPHS:
        graph, split = fewnode.load_dataset(name)
        yield name, graph, split, embed(fewnode.fit("probe", graph, split), graph)


def right(scores: Tensor, tasks: Tasks) -> np.ndarray:
    """The share of right answers of each task."""
    assert tasks.query_y is not None
    share: np.ndarray = (scores.argmax(-1) == tasks.query_y).double().mean(1).numpy()
    return share


# --- The rows.
def read(kind: str) -> list[dict[str, Any]]:
    rows = map(json.loads, ROWS.read_text(encoding="utf-8").splitlines()) if ROWS.exists() else ()
    return [row for row in rows if row["kind"] == kind]


def add(row: dict[str, Any]) -> None:
    with ROWS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    print(json.dumps(row), flush=True)


@one_thread
@torch.no_grad()
def choose() -> None:
    """For each head the options with the highest mean over the graphs, by 40 tasks of each shape."""
    pools = [
        (name, queries, Rows.of(h, tasks), tasks)
        for name, graph, split, h in embeddings()
        for shape in SHAPES
        for queries, tasks in drawn(graph, split.validation, *shape, 40, 4242).items()
    ]
    done = {row["head"] for row in read("choice")}
    for head, (score, grid) in HEADS.items():
        if head in done:
            continue
        found = []
        for values in product(*grid.values()):
            options, accuracies = dict(zip(grid, values, strict=True)), dict[tuple[str, str], list[float]]()
            for name, queries, rows, tasks in pools:
                accuracies.setdefault((queries, name), []).append(right(score(rows, **options), tasks).mean())
            means = [
                np.mean([np.mean(part) for key, part in accuracies.items() if key[0] == queries]) for queries in QUERIES
            ]
            found.append((options, means))
            print(head, options, np.round(100 * np.array(means), 2), flush=True)
        for basis, best in zip(
            BASES,
            (max(found, key=lambda pair: pair[1][0]), max(found, key=lambda pair: np.mean(pair[1]))),
            strict=True,
        ):
            accuracy = dict(zip(QUERIES, np.round(best[1], 5).tolist(), strict=True))
            add({"kind": "choice", "head": head, "basis": basis, "options": best[0], "accuracy": accuracy})


@one_thread
@torch.no_grad()
def run() -> None:
    """The 500 test tasks of each shape: accuracies, and the mean and standard error of the paired changes against
    ``rectified``."""
    chosen = {f"{row['head']} ({row['basis']})": row for row in read("choice")}
    done = {(row["graph"], row["n_way"], row["k_shot"]) for row in read("test")}
    for name, graph, split, h in embeddings():
        for n_way, k_shot in SHAPES:
            if (name, n_way, k_shot) in done:
                continue
            for queries, tasks in drawn(graph, split.novel, n_way, k_shot, 500, 0).items():
                rows = Rows.of(h, tasks)
                shares = {"rectified": right(rectified(rows), tasks)}
                shares["probe"] = right(cosine_scores(rows.q, rows.means()), tasks)
                for label, row in chosen.items():
                    shares[label] = right(HEADS[row["head"]][0](rows, **row["options"]), tasks)
                changes = {label: share - shares["rectified"] for label, share in shares.items()}
                row = {"kind": "test", "graph": name, "n_way": n_way, "k_shot": k_shot, "queries": queries}
                row["accuracy"] = {label: round(share.mean(), 5) for label, share in shares.items()}
                row["change"] = {label: round(change.mean(), 5) for label, change in changes.items()}
                row["error"] = {label: round(change.std() / len(tasks) ** 0.5, 5) for label, change in changes.items()}
                add(row)


def table() -> str:
    """Means over the graphs: accuracies of ``probe`` and ``rectified``, and changes against the latter with their 95 %
    intervals."""
    lines = ["| options chosen on | tasks | queries | probe | rectified | " + " | ".join(HEADS) + " |"]
    lines += ["|---|---|---|---:|---:|" + "---:|" * len(HEADS)]
    rows = read("test")
    for basis, (n_way, k_shot), queries in product(BASES, SHAPES, QUERIES):
        part = [row for row in rows if (row["n_way"], row["k_shot"], row["queries"]) == (n_way, k_shot, queries)]
        cells = [basis, f"{n_way}-way {k_shot}-shot", queries]
        cells += [f"{100 * np.mean([row['accuracy'][label] for row in part]):.1f}" for label in ("probe", "rectified")]
        for label in (f"{head} ({basis})" for head in HEADS):
            change = 100 * np.mean([row["change"][label] for row in part])
            interval = 196 * np.linalg.norm([row["error"][label] for row in part]) / len(part)
            cells.append(f"{change:+.1f} ± {interval:.1f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def options() -> str:
    """The chosen options."""
    lines = ["| head | options chosen on | options |", "|---|---|---|"]
    for row in read("choice"):
        told = ", ".join(f"{name} {value}" for name, value in row["options"].items())
        lines.append(f"| {row['head']} | {row['basis']} | {told} |")
    return "\n".join(lines)


if __name__ == "__main__":
    {"choose": choose, "run": run, "table": lambda: print(table())}[sys.argv[1] if len(sys.argv) > 1 else "table"]()
