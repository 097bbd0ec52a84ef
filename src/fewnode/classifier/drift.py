"""Whether new data resemble the data that a model was fitted on.

Nodes of both graphs are described in the same way: by their features (reduced to principal components of both samples),
by their similarity to their neighbours, and by their degree. Quantities that differ even without drift are not used:
positions in the fitted graph, predictions for nodes that the model learned from, and means over neighbours (or views),
by which a regression recognises regions of a graph.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import sparse as sp
from scipy.stats import chi2, norm, rankdata
from sklearn.decomposition import TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict

from ..errors import InputError
from ..files import PathLike
from ..graph import Graph
from ..graph.arrays import gather_rows, to_tensor
from ..tables import read_columns
from .commands import Say, load_attached
from .inputs import Files, class_name, graph_of, name_index


@dataclass(frozen=True)
class Shift:
    """How the distribution of a column changed.

    ``psi`` is its population stability index; a value above 0.25 is usually called a shift. ``beyond_chance`` says
    whether the change exceeds chance, at a level of 0.001 for all columns together.
    """

    name: str
    psi: float
    beyond_chance: bool


@dataclass(frozen=True)
class Drift:
    """The differences between ``n_before`` nodes of the fitted graph and ``n_after`` new ones.

    Args:
        auc, interval: the out-of-fold AUC of a regression that distinguishes new nodes from old ones by their
            description and its squares (0.5 means no difference), and its 95 % interval.
        columns: the shift of each feature column, largest first.
        degrees: the mean degrees before and after.
        classes: the share of each class among the predictions before and after.
        reasons: the differences that count as drift, in words.
    """

    n_before: int
    n_after: int
    auc: float
    interval: tuple[float, float]
    columns: list[Shift]
    degrees: tuple[float, float]
    classes: dict[str, tuple[float, float]]
    reasons: list[str]

    @property
    def verdict(self) -> str:
        """The result in a sentence."""
        if not self.reasons:
            return "No drift: the new data look like those that the model was fitted on."
        return f"Drift: {'; '.join(self.reasons)}."


def drift_tables(folder: PathLike, edges: Files, nodes: Files, *, say: Say = lambda _: None, seed: int = 0) -> Drift:
    """Compare the nodes of new tables with those on which the model in ``folder`` was fitted.

    New edges may lead to nodes of the fitted graph that are not in the new table of nodes.
    """
    classifier = load_attached(folder, say=say)
    before, schema, source = classifier.graph, classifier.schema, classifier.source
    assert before is not None and schema is not None
    if source is None:
        raise InputError(f"{folder} was not fitted on tables; compare graphs in Python with measure_drift")
    say("Reading the new tables ...")
    after, _ = graph_of(None, edges, nodes, source)
    after = after if schema.structural else schema.fit(after)
    listed = set(read_columns(nodes).text(source.columns["id_column"], "ids"))
    new = np.array([name in listed for name in after.node_names or ()])
    index = name_index(before, after.node_names or ())
    there = [(i, index[name]) for i, name in enumerate(after.node_names or ()) if not new[i] and name in index]
    if there and before.has_features:  # their features are those of the fitted graph
        at, of = np.array(there).T
        rows, order = [_rows(after, np.arange(len(new))), _rows(before, of)], np.arange(len(new))
        order[at] = len(new) + np.arange(len(of))
        x = sp.vstack(rows).tocsr()[order]
        x = x if after.x.layout == torch.sparse_csr else x.toarray()
        after = after.with_features(to_tensor(x, after.device), after.feature_names)
    say("Comparing ...")
    return measure_drift(before, after, np.flatnonzero(new), seed=seed)


def measure_drift(
    before: Graph, after: Graph, nodes: np.ndarray | None = None, *, sample: int = 10_000, seed: int = 0
) -> Drift:
    """Compare ``nodes`` of a graph, by default all, with the graph ``before``, which has the same feature columns.

    At most ``sample`` nodes of each graph are compared. Nodes that occur only in edges are left out.
    """
    random = np.random.default_rng(seed)
    graphs = before, after
    listed, all_new = (graph.listed.nonzero().flatten().cpu().numpy() for graph in graphs)
    pools = listed, all_new if nodes is None else nodes
    picked = [np.sort(random.permutation(part)[:sample]) for part in pools]
    if min(map(len, picked)) < 50:
        raise InputError(f"{min(map(len, picked))} nodes are too few to compare; give at least 50")
    old, new = _described(graphs, picked, seed)
    n, m = len(old), len(new)
    x, is_new = np.concatenate([old, new]), np.repeat([0, 1], [n, m])
    model, folds = LogisticRegression(C=0.1, max_iter=300), StratifiedKFold(5, shuffle=True, random_state=seed)
    scores = cross_val_predict(model, np.hstack([x, x**2 / 20]), is_new, cv=folds, method="decision_function")
    auc, interval = auc_interval(scores[:n], scores[n:])
    columns = []
    if before.has_features and after.has_features:
        was, now = (_rows(graph, at).tocsc() for graph, at in zip(graphs, picked, strict=True))
        columns = _columns(was, now, before.feature_names)
    means = [float(graph.degree[torch.from_numpy(at)].float().mean()) for graph, at in zip(graphs, picked, strict=True)]
    classes = _class_shares(before, picked[0], old, new, seed)
    reasons = []
    if interval[0] > 0.53:
        reasons.append(f"new nodes can be told from old ones (AUC {auc:.2f}, {interval[0]:.2f} to {interval[1]:.2f})")
    if shifted := [one.name for one in columns if one.psi > 0.25 and one.beyond_chance]:
        more = f" and {len(shifted) - 3} more" if shifted[3:] else ""
        reasons.append(f"columns have shifted ({', '.join(shifted[:3])}{more})")
    if moved := _moved(classes, n, m):
        name = max(moved, key=lambda name: abs(classes[name][1] - classes[name][0]))
        shares = [f"{100 * share:.1f} %" for share in classes[name]]
        reasons.append(f"predicted classes have shifted (most of all {name}, {shares[0]} before and {shares[1]} now)")
    return Drift(n, m, auc, interval, columns, (means[0], means[1]), classes, reasons)


def _rows(graph: Graph, nodes: np.ndarray) -> sp.csr_matrix:
    """The features of some nodes; those of a store are read from disk."""
    x = graph.features_scipy()
    assert x is not None
    return sp.csr_matrix(x[nodes])


def _described(graphs: Sequence[Graph], picked: Sequence[np.ndarray], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The picked nodes of both graphs ``[n, d]``, in units of the first one's spread."""
    basis, common = None, np.empty(0, int)
    if all(graph.has_features for graph in graphs):
        both = sp.vstack([_rows(graph, at) for graph, at in zip(graphs, picked, strict=True)])
        common = np.flatnonzero(both.getnnz(0) >= 10)  # rarer ones may be columns because they are in the first graph
        if len(common) > 1:
            basis = TruncatedSVD(min(64, len(common) - 1), random_state=seed).fit(both[:, common])
    rows = []
    for graph, at in zip(graphs, picked, strict=True):
        owner, arcs = gather_rows(graph.indptr, torch.from_numpy(at).to(graph.device))
        weights = torch.ones(len(arcs)) if graph.weights is None else graph.weights[arcs].cpu()
        needed, place = np.unique(np.append(at, graph.indices[arcs].cpu().numpy()), return_inverse=True)
        x = np.zeros((len(needed), 1)) if basis is None else basis.transform(_rows(graph, needed)[:, common])
        edges = sp.csr_matrix((weights.numpy(), (owner.cpu().numpy(), place[len(at) :])), (len(at), len(needed)))
        own, around = (torch.from_numpy(part.astype(np.float32)) for part in (x[place[: len(at)]], edges @ x))
        degree = graph.degree[torch.from_numpy(at)].cpu()
        parts = own, torch.cosine_similarity(own, around)[:, None], degree[:, None].float().log1p()
        rows.append(torch.cat(parts, 1).numpy())
    centre, scale = rows[0].mean(0), rows[0].std(0)
    scale = np.where(scale > 1e-6 * (1 + np.abs(centre)), scale, 1.0)
    old, new = (((part - centre) / scale).clip(-20, 20) for part in rows)
    return old, new


def auc_interval(low: np.ndarray, high: np.ndarray) -> tuple[float, tuple[float, float]]:
    """The probability that a score of ``high`` exceeds one of ``low``, and its 95 % interval (DeLong et al. 1988)."""
    n, m = len(low), len(high)
    ranks = rankdata(np.concatenate([low, high]))
    below = (ranks[n:] - rankdata(high)) / n  # of each of high: the share of low that is below it
    above = 1 - (ranks[:n] - rankdata(low)) / m
    auc, error = float(below.mean()), float(np.sqrt(below.var(ddof=1) / m + above.var(ddof=1) / n))
    return auc, (max(0.0, auc - 1.96 * error), min(1.0, auc + 1.96 * error))


def _columns(old: Any, new: Any, names: Sequence[str] | None, bins: int = 10) -> list[Shift]:
    """The shift of each column: of its quantiles, or where it is mostly zero, of how often it is not. By chance, the
    index is a chi-square times the sum of one over the sizes."""
    names = names or [f"column {i}" for i in range(old.shape[1])]
    sizes = np.array([old.shape[0], new.shape[0]])
    filled = np.array([part.getnnz(0) for part in (old, new)])
    found = []
    for i, name in enumerate(names):
        counts = np.stack([sizes - filled[:, i], filled[:, i]], 1)
        if filled[:, i].sum() > 0.2 * sizes.sum():
            was, now = (part[:, [i]].toarray()[:, 0] for part in (old, new))
            edges = np.unique(np.quantile(was, np.linspace(0, 1, bins + 1)[1:-1]))
            counts = np.stack([np.bincount(np.searchsorted(edges, x), minlength=len(edges) + 1) for x in (was, now)])
        p, q = ((part + 0.5) / (part.sum() + 0.5 * len(part)) for part in counts)
        psi = float(((p - q) * np.log(p / q)).sum())
        chance = chi2.ppf(1 - 1e-3 / len(names), max(len(p) - 1, 1)) * (1 / sizes).sum()
        found.append(Shift(name, psi, bool(psi > chance)))
    return sorted(found, key=lambda one: -one.psi)


def _class_shares(
    before: Graph, picked: np.ndarray, old: np.ndarray, new: np.ndarray, seed: int
) -> dict[str, tuple[float, float]]:
    """Shares of the classes that a discriminant analysis of the labelled nodes predicts, for all nodes out of fold."""
    y = before.y.cpu().numpy()[picked]
    large = np.flatnonzero(np.bincount(y[y >= 0], minlength=1) >= 10)
    if len(large) < 2 or not before.has_features:
        return {}
    x, n = np.concatenate([old, new]), len(old)
    y = np.append(np.where(np.isin(y, large), y, -1), np.full(len(new), -1))
    found, model = np.empty(len(x), int), LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    for shown, held in KFold(5, shuffle=True, random_state=seed).split(x):
        labelled = shown[y[shown] >= 0]
        found[held] = model.fit(x[labelled], y[labelled]).predict(x[held])
    counts = np.array([[(part == c).sum() for c in large] for part in (found[:n], found[n:])])
    counts, large = counts[:, counts.sum(0) > 0], large[counts.sum(0) > 0]
    shares = counts / counts.sum(1, keepdims=True)
    return {class_name(before, int(c)): (float(a), float(b)) for c, a, b in zip(large, *shares, strict=True)}


def _moved(classes: dict[str, tuple[float, float]], n: int, m: int) -> list[str]:
    """Classes whose share is 1.5 times what it was, or less than two thirds, beyond chance."""
    level, found = norm.ppf(1 - 5e-4 / max(len(classes), 1)), []
    for name, (was, now) in classes.items():
        both = (n * was + m * now) / (n + m)
        z = abs(now - was) / np.sqrt(both * (1 - both) * (1 / n + 1 / m) + 1e-12)
        if z > level and not 1 / 1.5 < now / max(was, 1e-12) < 1.5:
            found.append(name)
    return found
