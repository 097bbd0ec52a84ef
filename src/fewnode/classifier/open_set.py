"""Open-set classification: a node belongs to a known class, to one of a few new classes, or to none of these."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TypeVar

import msgspec
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F

from ..errors import InputError
from ..files import NAME, Manifest, check_finite, parse_json, write_json, write_tensors
from ..graph import Graph
from ..graph.edge_types import EdgeUse
from ..graph.operators import feature_rows, mean_adjacency, normalized_adjacency
from ..methods.base import Method
from ..nn.features import feature_columns
from ..nn.views import COPIES, VIEWS, WORDS, Views, ViewSources, neighbour_lists
from ..store import MEMORY, Space, one_thread
from ..training.progress import Progress
from . import novelty
from .inputs import KnownClasses, class_name, class_sizes
from .known_classes import (
    PROPAGATION,
    HopFeatures,
    KnownClassModel,
    NodeInputs,
    ViewPCA,
    class_prior,
    log_shares,
    one_hot,
    shuffled,
)
from .novelty import NODE_FEATURES, Clusters, Direction, Moments, NoveltyModel, Priors
from .predictions import NONE_OF_THESE, OTHER
from .simulation import Counts, Estimate, Expectation, Simulated, collapsed, estimate, expectation, simulate

MEANING = "meaning"  # the block of feature columns that a text encoder made
Learned = TypeVar("Learned", KnownClassModel, Moments, ViewPCA)
SAMPLE = 8_192  # unlabelled nodes from which shares are estimated
MODEL, TENSORS, CACHED = "open_set.json", "open_set.safetensors", "cached_state.safetensors"


@dataclass(frozen=True)
class Reference:
    """Held-out labelled nodes and a sample of the unlabelled ``nodes``, as seen by a model without the labels of the
    former.

    Coordinates ``x`` and ``features`` are those of the held-out nodes, then of the others. ``fold`` is that model, and
    ``held`` are the nodes it has not seen; both are None if there are several models, because labels are few.
    """

    x: Tensor
    features: Tensor
    nodes: Tensor
    moments: Moments
    held: Tensor
    fold: KnownClassModel | None

    @classmethod
    @torch.no_grad()
    def of(
        cls, inputs: NodeInputs, y: Tensor, pool: Tensor, folds: Sequence[tuple[Tensor, KnownClassModel]]
    ) -> "Reference":
        pool = inputs.shuffled(pool)[:SAMPLE]
        x, features = list[Tensor](), list[Tensor]()
        for held, model in folds:
            nodes = torch.cat([held, pool]) if model is folds[-1][1] else held  # the last one also sees the others
            rows, found, _, moments = novelty.seen_without(inputs, y.index_fill(0, held, -1), model, nodes)
            x, features = [*x, rows], [*features, found]
        held, fold = folds[0] if len(folds) == 1 else (pool[:0], None)
        return cls(torch.cat(x).half().float(), torch.cat(features), pool, moments, held, fold)


@dataclass(frozen=True)
class OpenSetModel:
    """What is learned from a graph before any new class is defined.

    Args:
        classes: names of the known classes.
        x, y: coordinates ``[N, d]`` of the nodes, and their known classes ``[N]``, -1 where unknown.
        ranks: ``[N]``, the order in which nodes are drawn at random (``Graph.ranks``).
        log_known: ``[N, C]``, log probability of each known class, given that the node belongs to one.
        features: ``[N, 6]``, see ``node_features``.
        moments, simulated: the basis of the directions of new classes, and the results of simulated novel classes.
        sources, pca, known: compute rows of x, log_known and features again, for explanations and new nodes: the inputs
            of the views, their principal components, and the model of the known classes.
        reference: held-out nodes beside unlabelled ones, from which the share of known nodes is estimated.
        cached: rows of the nodes in every smoothing, by name: new nodes are computed from the rows of their neighbours.
        use: the weights of edges. Views of single directions and edge types are not used.
        chosen: known classes whose labels were chosen by hand (``grow``), so the number of missing labels is unknown.
    """

    classes: tuple[str, ...]
    x: Tensor
    y: Tensor
    ranks: Tensor
    log_known: Tensor
    features: Tensor
    moments: Moments
    simulated: tuple[Simulated, ...]
    sources: ViewSources
    pca: ViewPCA
    known: KnownClassModel
    reference: Reference | None = None
    cached: dict[str, Tensor] | None = None
    use: EdgeUse = field(default_factory=EdgeUse)
    chosen: tuple[str, ...] = ()

    @classmethod
    @torch.no_grad()
    def fit(
        cls,
        graph: Graph,
        views: Views,
        y: Tensor,
        classes: tuple[str, ...],
        *,
        space: Space = MEMORY,
        progress: Progress = lambda what, part: None,
        seed: int = 0,
        names: Tensor | None = None,
    ) -> "OpenSetModel":
        """Learn the known ``classes`` from the labels ``y [N]`` (positions in ``classes``; -1: unknown).

        ``space`` stores the rows of all nodes if the graph is on disk. ``progress`` is called with the name of a step
        and the part of it that is done. ``names [C, dim]`` are the text encoder's vectors of the class names.
        """
        seen = views.use.seen(graph)
        progress("making the views", 0.0)
        made, sources = views(graph), views.sources(graph)
        pca = ViewPCA.fit(made, graph.ranks, space)
        x = pca.coordinates(made, space)
        space.release()
        progress("learning the known classes", 0.0)
        # the views lose nothing of narrower features
        hops = HopFeatures.of(seen, sources) if seen.num_features > views.rank else None
        inputs = NodeInputs(x, normalized_adjacency(seen), graph.ranks, hops)
        known, folds = KnownClassModel.fit(inputs, y, seed)
        described = None if names is None else described_rows(graph, sources, pca, names)
        unlabelled = float((y < 0)[graph.listed].float().mean())  # of those that may be predicted
        simulated = simulate(inputs, y, known, unlabelled, progress, seed, names=described)
        learned = Moments.of(x, y, graph.ranks), tuple(simulated), sources, pca, known
        found = cls(classes, x, y, graph.ranks, x[:0], x[:0], *learned, use=views.use)._filled(graph, folds, space)
        progress("done", 1.0)
        return found

    @torch.no_grad()
    def grown(self, graph: Graph, y: Tensor, classes: tuple[str, ...], progress: Progress) -> "OpenSetModel":
        """The model for labels that came later, including labels of further classes. The graph is in memory.

        Views, coordinates and simulations stay; known classes and the share of known nodes are learned again.
        """
        inputs, reference = self.inputs(graph), self.reference
        progress("learning the known classes", 0.0)
        if reference is None or reference.fold is None:  # few labels are learned quickly
            known, folds = KnownClassModel.fit(inputs, y)
        else:
            place = {name: at for at, name in enumerate(self.classes)}
            columns = torch.tensor([place.get(name, -1) for name in classes], device=y.device)
            came = inputs.shuffled(((y >= 0) & (self.y < 0)).nonzero().flatten())
            held = torch.cat([came[: len(came) // 5], reference.held[y[reference.held] >= 0]])[:4_000]
            known, folds = self.known.grown(reference.fold, held, columns, inputs, y)
        progress("learning the known classes", 0.7)
        chosen = (*self.chosen, *(name for name in classes if name not in self.classes))
        moments = Moments.of(self.x, y, self.ranks)
        found = replace(self, classes=classes, y=y, moments=moments, known=known, chosen=chosen)._filled(graph, folds)
        progress("done", 1.0)
        return found if self.cached is None else replace(found, cached=self.cached | found.label_state(graph))

    def _filled(
        self, graph: Graph, folds: Sequence[tuple[Tensor, KnownClassModel]], space: Space = MEMORY
    ) -> "OpenSetModel":
        """With the rows of all nodes, from what was learned of the known classes; ``folds`` are held out."""
        x, y, inputs = self.x, self.y, self.inputs(graph)
        logits, alone = self.known.logits(inputs, y)
        pool = ((y < 0) & graph.listed).nonzero().flatten()
        enough = len(pool) >= 20 and sum(len(held) for held, _ in folds) >= 20
        reference = Reference.of(inputs, y, pool, folds) if enough else None
        masses = novelty.propagated_masses(inputs.edges, y)

        def features_of(rows: slice) -> Tensor:
            return novelty.node_features(x[rows].float(), self.moments, logits[rows], alone[rows], masses[rows])

        def log_known_of(rows: slice) -> Tensor:
            return logits[rows].log_softmax(1)

        shape, width = (len(y), len(NODE_FEATURES)), 4 * x.shape[1]
        features = space.by_rows("features", shape, torch.float32, features_of, width)
        log_known = space.by_rows("log_known", (len(y), logits.shape[1]), torch.float32, log_known_of)
        return replace(self, log_known=log_known, features=features, reference=reference)

    def adapt(
        self,
        examples: Mapping[str, Tensor],
        *,
        others: Tensor | None = None,
        fixed: Mapping[str, float] | None = None,
        other: str = OTHER,
        pool: Tensor | None = None,
        descriptions: Mapping[str, Tensor] | None = None,
    ) -> "OpenSetTask":
        """Classification with new classes, defined by the nodes ``examples``, by ``descriptions`` (their coordinates),
        or both.

        The nodes ``others`` are examples of no class. Shares in ``fixed`` are not estimated. Priors are estimated on
        8,192 of the nodes ``pool``, by default all nodes without a label.
        """
        nodes = (self.y < 0).nonzero().flatten() if pool is None else pool
        nodes = nodes if len(nodes) else torch.arange(len(self.y), device=self.y.device)
        sample = shuffled(nodes, torch.Generator().manual_seed(0), self.ranks)[:SAMPLE]
        none, size = torch.empty(0), len(nodes)
        task = OpenSetTask(self, {}, nodes[:0], {}, [], other, dict(fixed or {}), sample, size, Priors(*[none] * 4))
        return replace(task, descriptions=dict(descriptions or {})).with_examples(examples, others)

    def nearest(self, shots: float, described: bool = False) -> Simulated:
        """The simulations whose number of examples is nearest to ``shots``, by ratio.

        For ``described`` classes, these are simulations with descriptions, if there are any.
        """
        found = [one for one in self.simulated if one.described == described] or list(self.simulated)
        return min(found, key=lambda one: abs(math.log((one.shots + 0.1) / (shots + 0.1))))

    def cached_state(self, graph: Graph, views: Views, space: Space) -> dict[str, Tensor]:
        """The rows that new nodes need, before the views are centred, in half precision.

        These are ``words`` and ``links`` unchanged, averaged over neighbours, and smoothed near and far, and the labels
        and the mass of all nodes ``[N, C + 1]`` propagated far and near. For a graph on disk they are stored in
        ``space``.
        """
        made, sources, graph = views(graph), views.sources(graph), self.use.seen(graph)
        mean, lists, n = mean_adjacency(graph), neighbour_lists(graph), graph.num_nodes
        cached = {
            name: space.by_rows(
                name, (n, made[VIEWS.index(name)].shape[1]), torch.half, partial(sources.raw, made, name)
            )
            for name in ("words", "words_near", "words_far", "links_near")
        }
        cached["links"] = _moved(space, "links", sources.links, lists.__matmul__)
        for name in ("words", "links"):
            cached[f"{name}_mean"] = _moved(space, f"{name}_mean", cached[name], mean.__matmul__)
        return cached | self.label_state(graph, space)

    def label_state(self, graph: Graph, space: Space = MEMORY) -> dict[str, Tensor]:
        """The cached rows that depend on labels."""
        inputs, n = self.inputs(graph), len(self.classes)

        def given(rows: slice) -> Tensor:
            return F.pad(one_hot(self.y[rows], n), (0, 1), value=1)

        labels = space.by_rows("labels", (len(self.y), n + 1), torch.half, given)
        cached = {}
        for name, (restart, steps) in zip(("labels_far", "labels_near"), PROPAGATION, strict=True):
            cached[name] = _moved(space, name, labels, partial(inputs.edges.smooth, steps=steps, restart=restart))
        if (hops := inputs.hops) is not None:
            _, cached["hop_one"], cached["hop_two"] = (hops.times(part).half() for part in hops.hops(self.known.hops))
            mean = mean_adjacency(hops.graph)
            cached["hop_two_mean"] = _moved(space, "hop_two_mean", cached["hop_two"], mean.__matmul__)
        return cached

    def inputs(self, graph: Graph) -> NodeInputs:
        """The inputs from which the known classes were learned."""
        seen = self.use.seen(graph)
        hops = HopFeatures.of(seen, self.sources) if len(self.known.hops) else None
        return NodeInputs(self.x, normalized_adjacency(seen), self.ranks, hops)

    def with_rows(self, x: Tensor, alone: Tensor, labels: Tensor, mass: Tensor) -> "OpenSetModel":
        """The model with the rows of other nodes in place of those of the graph.

        The nodes have the coordinates ``x [B, d]`` and the logits ``alone [B, C]`` of the regressions. ``labels [2, B,
        C]`` is what reaches them of the labels, far and near, and ``mass [B]`` what reaches them of all nodes, near.
        """
        labelled = labels.sum(2, keepdim=True)
        masses = torch.stack([labelled[1, :, 0], mass], 1)
        shares = log_shares(labels.clone(), labelled, class_prior(self.y, alone.shape[1]))
        logits = alone + torch.einsum("t,tbc->bc", self.known.mix[2:], shares)
        features = novelty.node_features(x, self.moments, logits, alone, masses)
        return replace(self, x=x, log_known=logits.log_softmax(1), features=features)


@dataclass(frozen=True)
class OpenSetTask:
    """New classes beside the known ones: their ``examples`` and ``directions`` by name, and the ``priors``.

    Groups are: known (all together), each new class, other. Examples of no class (``others``) also have a direction,
    and a share before that of the rest of "other"; predictions have the sum of both. ``novelty`` are the models for the
    number of examples of each direction, and for the mean number. ``fixed`` shares are given by name; the others are
    estimated on the nodes ``pool``, a sample of ``size``. ``descriptions`` are the coordinates of the descriptions of
    classes. ``clusters`` of the pool may be classes that nobody named.
    """

    model: OpenSetModel
    examples: dict[str, Tensor]
    others: Tensor
    directions: dict[str, tuple[Direction, ...]]
    novelty: list[NoveltyModel]
    other: str
    fixed: dict[str, float]
    pool: Tensor
    size: int
    priors: Priors
    descriptions: dict[str, Tensor] = field(default_factory=dict)
    clusters: Clusters | None = None

    @property
    def classes(self) -> tuple[str, ...]:
        """New classes first, then known classes, then other."""
        known = [name for name in self.model.classes if name not in self.examples]
        return (*self.examples, *known, self.other)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kind of each class: new, known or other."""
        n_new = len(self.examples)
        return (*["new"] * n_new, *["known"] * (len(self.classes) - n_new - 1), "other")

    def with_examples(self, examples: Mapping[str, Tensor], others: Tensor | None = None) -> "OpenSetTask":
        """The same task with other examples, and with other examples of no class, if given."""
        others = self.others if others is None else others
        shown = {**examples, self.other: others} if len(others) else dict(examples)
        shots = [len(nodes) for nodes in shown.values()]
        models = [self.model.nearest(len(at), name in self.descriptions).novelty for name, at in shown.items()]
        models.append(self.model.nearest(max(_mean(shots), 1.0)).novelty)
        task = replace(self, examples=dict(examples), others=others, novelty=models, clusters=None)
        task = replace(task, directions=task._directions(shown, self.model.moments))
        used = torch.cat([*examples.values(), others])
        free, share = self.pool[~torch.isin(self.pool, used)], task._known_share(used)
        utilities, priors = task._decided(free, share)
        # Clusters have no description, and their weights were learned beside classes with examples.
        if examples and not self.descriptions:
            groups = (utilities + priors.offsets).softmax(1).float()
            clusters = Clusters.find(self.model.x[free].float(), utilities, groups, self.model.moments)
            task = replace(task, clusters=clusters)
            priors = priors if clusters is None else task._decided(free, share)[1]
        return replace(task, priors=priors)

    def _decided(self, free: Tensor, share: float | None) -> tuple[Tensor, Priors]:
        """Log odds of the groups for the nodes ``free``, a ``share`` of which is known, and their priors."""
        model, kept, groups = self.model, self._kept(), [None, *self.directions, self.other]
        fixed = {i: self.fixed[n] / groups.count(n) for i, n in enumerate(groups) if n is not None and n in self.fixed}
        labelled = torch.bincount(model.y[model.y >= 0], minlength=len(model.classes)).float()
        utilities = self.utilities(free)
        priors = Priors.estimate(
            utilities,
            self._known(free),
            labelled[kept],
            share,
            fixed,
            left_out=() if len(self.others) else self._left_out(),
            at_random=[model.classes[i] not in model.chosen for i in kept],
        )
        return utilities, priors

    def _directions(self, shown: Mapping[str, Tensor], moments: Moments) -> dict[str, tuple[Direction, ...]]:
        """Those of each class, as many as its novelty model has weights for."""
        found = {}
        for (name, nodes), model in zip(shown.items(), self.novelty, strict=False):
            parts = moments.directions(self.model.x[nodes].float(), self.descriptions.get(name))
            found[name] = parts[: model.width // novelty.N_CLASS]
        return found

    def _known_share(self, used: Tensor) -> float | None:
        """How many of the unlabelled nodes are of a known class; None where nothing was held out to compare with."""
        reference = self.model.reference
        if reference is None:
            return None
        nodes = {**self.examples, self.other: self.others}
        directions = self._directions({name: nodes[name] for name in self.directions}, reference.moments)
        model = replace(self.model, x=reference.x, features=reference.features, moments=reference.moments)
        rows = torch.arange(len(reference.x), device=reference.x.device)
        scores = replace(self, model=model, directions=directions).utilities(rows)[:, 1:].logsumexp(1)
        held, pool = scores.tensor_split([len(rows) - len(reference.nodes)])
        return novelty.known_share(held, pool[~torch.isin(reference.nodes, used)])

    def _left_out(self) -> list[Tensor]:
        """Log odds of the examples of each class against other, each example left out in turn."""
        model, found = self.model, list[Tensor]()
        for (name, at), learned in zip(self.examples.items(), self.novelty, strict=False):
            x, nodes, description = model.x[at].float(), model.features[at], self.descriptions.get(name)
            own = novelty.left_out_features(x, nodes, model.moments, description)
            found.append(learned.margins(x, nodes, own, self.clusters))
        return found

    def _kept(self) -> list[int]:
        """Known classes that are not shown by examples now, as positions."""
        return [i for i, name in enumerate(self.model.classes) if name not in self.examples]

    def _known(self, nodes: Tensor) -> Tensor:
        """Probabilities ``[B, C]`` of these classes, if the node is of one of them."""
        return self.model.log_known[nodes][:, self._kept()].softmax(1)

    def surplus(self) -> dict[str, tuple[int, int]]:
        """Known classes that receive clearly more of the unlabelled nodes than expected if labels are missing at
        random.

        The values are the number that each receives and the expected number.
        """
        scale, names = self.size / max(len(self.pool), 1), [self.model.classes[i] for i in self._kept()]
        pairs = zip(names, (scale * self.priors.received).tolist(), (scale * self.priors.due).tolist(), strict=True)
        more = ((*each, each[1] > 1.5 * each[2] + 3 * each[2] ** 0.5 + 10) for each in pairs)
        found = {n: (round(got), round(due)) for n, got, due, much in more if much and n not in self.model.chosen}
        return dict(sorted(found.items(), key=lambda item: item[1][1] - item[1][0]))

    @torch.no_grad()
    def utilities(self, nodes: Tensor) -> Tensor:
        """Log odds of the groups against known, ``[B, G]``, at the shares of the simulations."""
        parts = nodes.split(1 << 12)  # rows of coordinates that stay in the processor's cache
        return torch.cat([self._utilities(self.model.x[at].float(), self.model.features[at]) for at in parts])

    def _utilities(self, x: Tensor, features: Tensor) -> Tensor:
        each = [one.weights for parts in self.directions.values() for one in parts]
        weights = torch.cat([x.new_zeros(x.shape[1], 0), *each], 1)
        projections = x @ weights - self.model.moments.mean @ weights  # of all classes at once, without a copy of x
        columns, ends = [], [2 * len(parts) for parts in self.directions.values()]
        parts = zip(self.directions.values(), projections.split(ends, 1), self.novelty, strict=False)
        for directions, projected, model in parts:
            own = novelty.class_features(projected, features, directions)
            columns.append(model.utilities(features, own[:, None])[:, 1])
        last = self.novelty[-1]
        other = last.utilities(features, features.new_zeros(len(features), 0, last.width))[:, -1]
        found = torch.stack([torch.zeros_like(other), *columns, other], 1)
        return last.with_clusters(found, self.clusters, x, features)

    @one_thread
    def probabilities(self, nodes: Tensor) -> Tensor:
        """Probabilities ``[B, classes]`` in the order of ``classes``."""
        joint = self.priors.probabilities(self.utilities(nodes), self._known(nodes))
        known, new, other = joint.tensor_split([len(self._kept()), len(self._kept()) + len(self.examples)], 1)
        return torch.cat([new, known, other.sum(1, keepdim=True)], 1)

    def counts(self, probabilities: Tensor, accepted: Tensor) -> Counts:
        """Expected counts over some rows, of which only the ``accepted`` ones get a label."""
        n_new = len(self.examples)
        new, known, other = probabilities.tensor_split([n_new, probabilities.shape[1] - 1], 1)
        best, groups = collapsed(torch.cat([known, new, other], 1), known.shape[1])
        return Counts.expected(best, groups, accepted.float(), torch.ones_like(other[:, 0]))

    def expectation(self, counts: Counts) -> Expectation:
        """The accuracy to expect of rows with such counts."""
        return expectation(tuple(self.examples), counts, self.simulated().gaps)

    def simulated(self) -> Simulated:
        """The simulations that are most similar to this task."""
        return self.model.nearest(_mean([len(nodes) for nodes in self.examples.values()]), bool(self.descriptions))

    def other_f1(self) -> float | None:
        """F1 of other in simulations with a class that nobody named; None if there were none."""
        found = self.simulated().truth.get("other")
        return sum(found) / len(found) if found else None

    def band_accuracy(self, band: int, probability: float, rows: int) -> Estimate:
        """The expected accuracy of ``rows`` whose classes have a mean ``probability``, in a ``band`` of a tenth."""
        return estimate(probability, self.simulated().gaps.get(f"band {band}", ()), rows)

    def expect(self, probabilities: Tensor, accepted: Tensor) -> Expectation:
        """The expected accuracy of rows with these probabilities, of which only the ``accepted`` ones get a label."""
        return self.expectation(self.counts(probabilities, accepted))


def _moved(space: Space, name: str, h: Tensor, move: Callable[[Tensor], Tensor]) -> Tensor:
    """What a ``move`` along the edges makes of ``h [N, d]``, by blocks of columns, in half precision."""
    return space.by_columns(name, (len(h), h.shape[1]), torch.half, lambda block: move(h[:, block].float()), COPIES)


def _mean(shots: Sequence[int]) -> float:
    """The mean number of examples; three where there is none yet."""
    return sum(shots) / len(shots) if shots else 3.0


# The model of a graph


def described_rows(graph: Graph, sources: ViewSources, pca: ViewPCA, vectors: Tensor) -> Tensor:
    """Coordinates ``[K, d]`` of nodes whose texts, and all texts around them, have these vectors ``[K, dim]``.

    The nodes have no words and no links.
    """
    columns = meaning_columns(graph)
    some = feature_rows(graph.x, slice(0, min(graph.num_nodes, 8_192)))
    lengths = feature_columns(some, columns).to_dense().norm(dim=1)  # those of texts beside words: less than one
    h = vectors.to(graph.device) * lengths[lengths > 0].median() @ sources.words[columns]
    none = h.new_zeros(len(h), sources.links.shape[1])
    return pca.transform(sources.centred([h] * len(WORDS) + [none] * 2))


def meaning_columns(graph: Graph) -> slice:
    """The feature columns that a text encoder made; refused if there are none."""
    if MEANING not in graph.blocks:
        raise InputError(
            "descriptions and search by meaning need texts that a text encoder has read: install one (fewnode encoder "
            "get) and fit again"
        )
    ends = dict(zip(graph.blocks, accumulate(graph.blocks.values()), strict=True))
    return slice(ends[MEANING] - graph.blocks[MEANING], ends[MEANING])


def known_labels(graph: Graph, known: KnownClasses | None) -> tuple[Tensor, tuple[str, ...]]:
    """The labels ``y [N]`` that count (-1: none) and the names of their classes.

    These are all labelled classes; for the model of a data set, only the classes that it ``known``.
    """
    ids = [int(c) for c in class_sizes(graph).nonzero()[0]]
    ids = [c for c in ids if known is None or class_name(graph, c) in known.names()]
    if not ids:
        raise InputError(
            "this graph has no labelled node of a class the model knows, which open-set classification and label "
            "issues need; among='new' chooses among the new classes only"
        )
    number = torch.full((graph.num_classes + 1,), -1, device=graph.device)  # the last is looked up by the unknown -1
    number[ids] = torch.arange(len(ids), device=graph.device)
    return number[graph.y], tuple(class_name(graph, c) for c in ids)


def other_name(classes: Sequence[str]) -> str:
    """The name of the class of nodes that belong to no class."""
    return NONE_OF_THESE if OTHER in classes else OTHER


def views_of(model: Method, graph: Graph) -> Views:
    """The views of the method, if it has any; otherwise new ones."""
    own, blocks = getattr(model, "views", None), tuple(graph.blocks.values())
    return own if isinstance(own, Views) else Views(graph.num_features, blocks=blocks).to(graph.device).fit(graph)


def open_set_space(graph: Graph, views: Views, y: Tensor, classes: tuple[str, ...]) -> Space:
    """The place of the open-set model of these views and labels: in the store of the graph, if it is on disk."""
    settings = f"2 {graph.fingerprint} {views.rank} {classes}"  # first the version of the model's files
    return graph.space.within("open-set", settings, views.features.basis, views.features.idf, y)


@torch.no_grad()
def fit_open_set(
    model: Method, graph: Graph, y: Tensor, classes: tuple[str, ...], progress: Progress, names: Tensor | None = None
) -> OpenSetModel:
    """The open-set model of a graph. For a graph on disk it is stored there, under a name made from the views and
    labels."""
    views = views_of(model, graph)
    if not graph.space.on_disk:
        return OpenSetModel.fit(graph, views, y, classes, progress=progress, names=names)
    space = open_set_space(graph, views, y, classes)
    assert space.folder is not None
    if not (space.folder / NAME).exists():
        made = OpenSetModel.fit(graph, views, y, classes, space=space, progress=progress, names=names)
        graph.space.within("scratch").clear()
        save(made, space.folder, space)
        Manifest.write(space.folder)
        return made
    found = load(space.folder, Manifest.read(space.folder), y, classes, space, views.sources(graph))
    assert found is not None
    return found


# Files


class Document(msgspec.Struct, frozen=True):
    """The content of ``open_set.json``."""

    classes: tuple[str, ...]
    simulated: tuple[Simulated, ...]
    edges: EdgeUse = msgspec.field(default_factory=EdgeUse)
    chosen: tuple[str, ...] = ()


def save(model: OpenSetModel, folder: Path, space: Space = MEMORY) -> None:
    """Write the model. Larger arrays are already in its own store, if there is a ``space``.

    The cached state is a separate file that is read only when it is needed.
    """
    sources, parts = model.sources, {"y": model.y, "ranks": model.ranks}
    parts |= _parts(model.pca, "pca") | _parts(model.known, "known") | _parts(model.moments, "moments")
    if (reference := model.reference) is not None:
        parts |= {"reference.x": reference.x.half(), "reference.features": reference.features}
        parts |= {"reference.nodes": reference.nodes, "reference.held": reference.held}
        parts |= _parts(reference.moments, "reference")
        if (fold := reference.fold) is not None:  # its penalty and mix are those of the whole model
            parts |= {"fold.on_coordinates": fold.on_coordinates, "fold.on_features": fold.on_features}
    if not space.on_disk:
        parts |= {"x": model.x.half(), "log_known": model.log_known, "features": model.features}
        parts |= {name: getattr(sources, name) for name in ("idf", "centre", "words")}
        parts |= {"links": sources.links.half(), "columns": sources.columns()}
        parts |= {f"mean_{i}": mean for i, mean in enumerate(sources.means)}
        parts |= {} if sources.blocks is None else {"blocks": sources.blocks}
    if model.cached is not None:
        write_tensors(folder / CACHED, model.cached)
    write_tensors(folder / TENSORS, parts)
    simulated = [asdict(one) for one in model.simulated]
    names = {"classes": model.classes, "chosen": model.chosen}
    write_json(folder / MODEL, {**names, "simulated": simulated, "edges": asdict(model.use)})


def load(
    folder: Path,
    manifest: Manifest,
    y: Tensor,
    classes: tuple[str, ...],
    space: Space = MEMORY,
    sources: ViewSources | None = None,
) -> OpenSetModel | None:
    """The model that was saved for these labels, or None if there is none or the labels have changed."""
    if MODEL not in manifest:
        return None
    document = parse_json(manifest.read_bytes(folder, MODEL), Document, str(folder / MODEL))
    if document.classes != classes:
        return None
    with manifest.checking(folder, TENSORS) as path:
        parts = load_file(path, device=str(y.device))
        if not torch.equal(parts["y"], y):
            return None
        check_finite(parts)
        if space.on_disk:
            parts |= {name: space.open(name) for name in ("x", "log_known", "features")}
        if sources is None:
            means = tuple(parts[f"mean_{i}"] for i in range(sum(name.startswith("mean_") for name in parts)))
            columns, links = parts["columns"], parts["links"].float()
            given = parts["idf"], parts["centre"], parts["words"], links, means, lambda: columns
            sources = ViewSources(*given, parts.get("blocks"))
        known, reference = _of(KnownClassModel, parts, "known"), None
        if "reference.x" in parts:
            features, nodes, held = (parts[f"reference.{name}"] for name in ("features", "nodes", "held"))
            seen, fold = _of(Moments, parts, "reference"), None
            if "fold.on_features" in parts:
                weights, hops = parts["fold.on_coordinates"], parts["fold.on_features"]
                fold = replace(known, on_coordinates=weights, on_features=hops)
            reference = Reference(parts["reference.x"].float(), features, nodes, seen, held, fold)
        x = parts["x"] if space.on_disk else parts["x"].float()
        made = parts["ranks"], parts["log_known"], parts["features"], _of(Moments, parts, "moments")
        found = OpenSetModel(classes, x, y, *made, document.simulated, sources, _of(ViewPCA, parts, "pca"), known)
        return replace(found, reference=reference, use=document.edges, chosen=document.chosen)


def _parts(of: KnownClassModel | Moments | ViewPCA, prefix: str) -> dict[str, Tensor]:
    return {f"{prefix}.{part.name}": getattr(of, part.name) for part in fields(of)}


def _of(kind: type[Learned], parts: Mapping[str, Tensor], prefix: str) -> Learned:
    return kind(**{part.name: parts[f"{prefix}.{part.name}"] for part in fields(kind)})


def load_cached(folder: Path, manifest: Manifest, device: torch.device) -> dict[str, Tensor] | None:
    """The cached state that was saved, or None. Its rows are read from disk when they are needed."""
    if CACHED not in manifest:
        return None
    with manifest.checking(folder, CACHED) as path:
        return load_file(path, device=str(device))
